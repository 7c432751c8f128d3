#!/usr/bin/env python3
"""One program of tests/gpu/streams.sh, all of it under torch.profiler: streams.py CASE OUT.

OUT gets what CUPTI measured: kernels by stream (those of graphs apart), copies, and the time in which the GPU did anything.
"""

import json
import os
import sys
import tempfile


def eager(torch):
    """A small training loop that reads its loss each step."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.1)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8, 64, 256, device='cuda')
    for _ in range(40):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        loss.item()


def compiled(torch):
    model = torch.nn.Sequential(*[m for _ in range(6) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]).cuda()
    step = torch.compile(lambda x: model(x).square().mean())
    x = torch.randn(512, 1024, device='cuda')
    for i in range(60):
        step(x).backward()
        if i % 10 == 9:
            torch.cuda.synchronize()


def overlap(torch):
    """Copies on one stream, computing on another, each batch handed over by an event."""
    copies, compute = torch.cuda.Stream(), torch.cuda.Stream()
    host = [torch.randn(4096, 1024).pin_memory() for _ in range(2)]
    device = [torch.empty(4096, 1024, device='cuda') for _ in range(2)]
    weights = torch.randn(1024, 1024, device='cuda')
    torch.cuda.synchronize()
    ready = [torch.cuda.Event() for _ in range(2)]
    used = [torch.cuda.Event() for _ in range(2)]
    for i in range(60):
        k = i % 2
        with torch.cuda.stream(copies):
            if i > 1:
                copies.wait_event(used[k])
            device[k].copy_(host[k], non_blocking=True)
            ready[k].record(copies)
        with torch.cuda.stream(compute):
            compute.wait_event(ready[k])
            for _ in range(4):
                (device[k] @ weights).relu_()
            used[k].record(compute)
        if i % 20 == 19:
            compute.synchronize()
    torch.cuda.synchronize()


def graphs(torch):
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
    x = torch.randn(256, 512, device='cuda')
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        model(x)
    for i in range(200):
        graph.replay()
        if i % 50 == 49:
            torch.cuda.synchronize()


def cupy(torch):
    """Driver calls alone: CuPy's own kernels and cuBLAS, on two streams of its own."""
    try:
        import cupy as cp
    except ImportError:
        print('no CuPy here')
        sys.exit(77)
    streams = [cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=False)]
    for i in range(80):
        with streams[i % 2]:
            a = cp.random.random((512, 512), dtype=cp.float32)
            b = cp.sqrt(a) + a * 2
            (a @ b).sum()
        if i % 20 == 19:
            streams[i % 2].synchronize()
    cp.cuda.runtime.deviceSynchronize()


def union_ns(spans):
    """The time in which any of them was."""
    total, end = 0.0, 0.0
    for begin, finish in sorted(spans):
        if finish > end:
            total += finish - max(begin, end)
            end = finish
    return int(total * 1000)


def truth_of(trace):
    """ts and dur are in us."""
    events = [e for e in trace['traceEvents'] if e.get('ph') == 'X']
    launchers = {e['args']['correlation']: e['name'] for e in events
                 if e.get('cat') in ('cuda_runtime', 'cuda_driver') and 'correlation' in e.get('args', {})}  # fmt: skip
    kernels, in_graphs, copied, spans, by_stream = {}, 0, {}, [], {}
    for e in events:
        if e.get('cat') not in ('kernel', 'gpu_memcpy', 'gpu_memset'):
            continue
        stream = str(e['args'].get('stream'))
        span = (e['ts'], e['ts'] + e['dur'])
        spans.append(span)
        by_stream.setdefault(stream, []).append(span)
        from_graph = 'GraphLaunch' in launchers.get(e['args'].get('correlation'), '')
        if e['cat'] == 'kernel':
            in_graphs += from_graph
            if not from_graph:
                kernels[stream] = kernels.get(stream, 0) + 1
        elif e['cat'] == 'gpu_memcpy' and not from_graph:
            kind = next((k for k in ('HtoD', 'DtoH', 'DtoD') if k in e['name']), 'other')
            copied[kind] = copied.get(kind, 0) + e['args'].get('bytes', 0)
    return {
        'kernels': kernels,
        'kernels_in_graphs': in_graphs,
        'graph_launches': sum('GraphLaunch' in n for n in launchers.values()),
        'copied_bytes': copied,
        'active_ns': union_ns(spans),
        'active_by_stream_ns': {s: union_ns(v) for s, v in by_stream.items()},
    }


def main():
    case, out = sys.argv[1:3]
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        {f.__name__: f for f in (eager, compiled, overlap, graphs, cupy)}[case](torch)
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.json')
        p.export_chrome_trace(path)
        with open(path, encoding='utf-8') as f:
            truth = truth_of(json.load(f))
    with open(out, 'w', encoding='utf-8') as f:
        uuid = str(torch.cuda.get_device_properties(0).uuid)
        json.dump({'pid': os.getpid(), 'uuid': uuid if uuid.startswith('GPU-') else f'GPU-{uuid}', **truth}, f)


if __name__ == '__main__':
    main()
