#!/usr/bin/env python3
"""Calls of the CUDA runtime, printed each second and written to cuda.json, by the classes of eACGM.

usage: sampler_cuda.py LIBCUDART [SECONDS]     (as root; LIBCUDART: the file that the program loads; else until Ctrl-C)
"""

import json
import sys
import time

from gpuscope.eacgm.bpf import BccBPF
from gpuscope.eacgm.collector import to_perfetto
from gpuscope.eacgm.sampler import eBPFSampler

text = r"""
#include <uapi/linux/ptrace.h>

int cudaMallocEntry(struct pt_regs *ctx) {
    u64 where = PT_REGS_PARM1(ctx), size = PT_REGS_PARM2(ctx);
    bpf_trace_printk("%ld@start@cudaMalloc@%lx@%ld\n", bpf_ktime_get_ns(), where, size);
    return 0;
}

int cudaMemcpyEntry(struct pt_regs *ctx) {
    u64 size = PT_REGS_PARM3(ctx);
    u32 kind = PT_REGS_PARM4(ctx);
    bpf_trace_printk("%ld@start@cudaMemcpy@%ld@%u\n", bpf_ktime_get_ns(), size, kind);
    return 0;
}

int cudaFreeEntry(struct pt_regs *ctx) {
    bpf_trace_printk("%ld@start@cudaFree@%lx\n", bpf_ktime_get_ns(), PT_REGS_PARM1(ctx));
    return 0;
}

int cudaLaunchKernelEntry(struct pt_regs *ctx) {
    u64 grid = (PT_REGS_PARM2(ctx) & 0xffffffff) * (PT_REGS_PARM2(ctx) >> 32) * (PT_REGS_PARM3(ctx) & 0xffffffff);
    u64 block = (PT_REGS_PARM4(ctx) & 0xffffffff) * (PT_REGS_PARM4(ctx) >> 32) * (PT_REGS_PARM5(ctx) & 0xffffffff);
    bpf_trace_printk("%ld@start@cudaLaunchKernel@%lu\n", bpf_ktime_get_ns(), grid * block);
    return 0;
}
"""
functions = ['cudaMalloc', 'cudaMemcpy', 'cudaFree', 'cudaLaunchKernel']
template = r"""
int <Function>Exit(struct pt_regs *ctx) {
    bpf_trace_printk("%ld@end@<Function>\n", bpf_ktime_get_ns());
    return 0;
}
"""
text += ''.join(template.replace('<Function>', function) for function in functions)

if len(sys.argv) < 2:
    sys.exit(__doc__)
sampler = eBPFSampler(BccBPF('CUDASampler', text, ['-w']))
sampler.run([{'name': 'CUDASampler', 'exe_path': [sys.argv[1]], 'exe_sym': functions}])

end = time.monotonic() + float(sys.argv[2]) if len(sys.argv) > 2 else None
states = []
try:
    while end is None or time.monotonic() < end:
        samples = sampler.sample(time_stamp=1)
        states += samples
        for sample in samples:
            print(sample)
        print('---', flush=True)
except KeyboardInterrupt:
    pass
sampler.close()

with open('cuda.json', 'w', encoding='utf-8') as f:
    json.dump(to_perfetto(states), f, indent=4)
