#!/usr/bin/env python3
"""Everything at once, by the classes of eACGM: launches, collectives, operators of PyTorch, GPUs and the processes on them, printed
each second; at the end res/ebpf.json has the calls and the values of GPUs, and res/eacg.json also what programs left in res/python_*.json.

usage: sampler_eacg.py SECONDS LIBRARY...     (as root; 0: until Ctrl-C; LIBRARY: libcudart, libnccl, libtorch_python)
"""

import json
import os
import sys
import time

import torch_symbols
from gpuscope.eacgm.bpf import BccBPF
from gpuscope.eacgm.collector import to_perfetto
from gpuscope.eacgm.sampler import GPUSampler, NVMLSampler, eBPFSampler

text = torch_symbols.text + r"""
int cudaLaunchKernelEntry(struct pt_regs *ctx) {
    u64 time = bpf_ktime_get_ns();
    u32 threads = PT_REGS_PARM2(ctx) * (PT_REGS_PARM2(ctx) >> 32) * PT_REGS_PARM3(ctx) *
                  PT_REGS_PARM4(ctx) * (PT_REGS_PARM4(ctx) >> 32) * PT_REGS_PARM5(ctx);
    bpf_trace_printk("%ld@start@cudaLaunchKernel@%u\n", time, threads);
    return 0;
}

int cudaLaunchKernelExit(struct pt_regs *ctx) {
    bpf_trace_printk("%ld@end@cudaLaunchKernel\n", bpf_ktime_get_ns());
    return 0;
}

int ncclAllReduceEntry(struct pt_regs *ctx) {
    bpf_trace_printk("%ld@start@ncclAllReduce@%ld\n", bpf_ktime_get_ns(), PT_REGS_PARM3(ctx) * 8);
    return 0;
}

int ncclAllReduceExit(struct pt_regs *ctx) {
    bpf_trace_printk("%ld@end@ncclAllReduce\n", bpf_ktime_get_ns());
    return 0;
}
"""


def paths(part):
    """Of the command line: the files with this in their names."""
    return [path for path in sys.argv[2:] if part in os.path.basename(path)]


if len(sys.argv) < 2:
    sys.exit(__doc__)
calls = eBPFSampler(BccBPF('EACGSampler', text, ['-w']))
processes = NVMLSampler()
gpus = GPUSampler()
calls.run([
    {'name': 'CUDASampler', 'exe_path': paths('cudart'), 'exe_sym': ['cudaLaunchKernel']},
    {'name': 'NCCLSampler', 'exe_path': paths('nccl'), 'exe_sym': ['ncclAllReduce']},
    {'name': 'TorchSampler', 'exe_path': paths('torch'), 'exe_sym': list(torch_symbols.symbols.values())},
])  # fmt: skip

seconds = float(sys.argv[1])
end = time.monotonic() + seconds if seconds else None
states = []
try:
    while end is None or time.monotonic() < end:
        samples = [*calls.sample(time_stamp=1), *processes.sample(time_stamp=1), *gpus.sample()]
        states += samples
        for sample in samples:
            print(sample)
        print('---', flush=True)
except KeyboardInterrupt:
    pass
for sampler in (calls, processes, gpus):
    sampler.close()

os.makedirs('res', exist_ok=True)
events = to_perfetto(states)
with open('res/ebpf.json', 'w', encoding='utf-8') as f:
    json.dump(events, f, indent=4)
for name in sorted(os.listdir('res')):
    if name.startswith('python_'):
        with open(os.path.join('res', name), encoding='utf-8') as f:
            events += json.load(f)
with open('res/eacg.json', 'w', encoding='utf-8') as f:
    json.dump(events, f, indent=4)
