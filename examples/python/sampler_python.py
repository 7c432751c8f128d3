#!/usr/bin/env python3
"""Calls that CPython makes of Python objects from C, by the classes of eACGM.

usage: sampler_python.py PYTHON [SECONDS]     (as root; PYTHON: the program, or its libpython; else until Ctrl-C)
"""

import sys
import time

from gpuscope.eacgm.bpf import BccBPF
from gpuscope.eacgm.sampler import eBPFSampler

text = r"""
#include <uapi/linux/ptrace.h>

int PyObject_CallFunctionEntry(struct pt_regs *ctx) {
    bpf_trace_printk("%ld start PyObject_CallFunction\n", bpf_ktime_get_ns());
    return 0;
}

int PyObject_CallFunctionExit(struct pt_regs *ctx) {
    bpf_trace_printk("%ld end PyObject_CallFunction\n", bpf_ktime_get_ns());
    return 0;
}
"""

if len(sys.argv) < 2:
    sys.exit(__doc__)
sampler = eBPFSampler(BccBPF('PythonSampler', text, ['-w']))
sampler.run([{'name': 'PythonSampler', 'exe_path': [sys.argv[1]], 'exe_sym': ['PyObject_CallFunction']}])

end = time.monotonic() + float(sys.argv[2]) if len(sys.argv) > 2 else None
try:
    while end is None or time.monotonic() < end:
        for sample in sampler.sample(time_stamp=1):
            print(sample)
        print('---', flush=True)
except KeyboardInterrupt:
    pass
sampler.close()
