"""Traces as PyTorch's profiler writes them, of the end-to-end tests."""

import json


def kineto(path, kernel_us):
    """A trace as PyTorch's profiler writes it: 60 steps, in each a kernel for which the host waits."""
    events, at = [{'ph': 'M', 'name': 'process_name', 'pid': 77, 'args': {'name': 'python'}}], 1650990000123456.0

    def add(cat, name, begin, length, pid=77, tid=77, **args):
        events.append({'ph': 'X', 'cat': cat, 'name': name, 'pid': pid, 'tid': tid, 'ts': begin, 'dur': length, 'args': args})

    for i in range(60):
        step = 200 + kernel_us + i % 5
        add('user_annotation', f'ProfilerStep#{i}', at, step)
        add('cpu_op', 'aten::linear', at, 100)
        add('cuda_runtime', 'cudaLaunchKernel', at + 50, 8)
        add('kernel', 'sgemm', at + 120, kernel_us, pid=0, tid=7, device=0, stream=7)
        add('cuda_runtime', 'cudaDeviceSynchronize', at + 110, kernel_us + 20)
        at += step
    with open(path, 'w') as f:
        json.dump({'schemaVersion': 1, 'deviceProperties': [{'id': 0, 'name': 'H100'}], 'traceEvents': events}, f)
