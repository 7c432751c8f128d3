#!/usr/bin/env python3
"""Calls of NCCL, printed each second and written to nccl.json, by the classes of eACGM.

usage: sampler_nccl.py LIBNCCL [SECONDS]     (as root; LIBNCCL: the file that the program loads; else until Ctrl-C)
"""

import json
import sys
import time

from gpuscope.eacgm.bpf import BccBPF
from gpuscope.eacgm.collector import to_perfetto
from gpuscope.eacgm.sampler import eBPFSampler

# By function: which argument is the number of elements. The text multiplies it by 8 as eACGM's texts do; gpuscope reads the data
# type beside it and reports the bytes.
counts = {'ncclAllReduce': 3, 'ncclReduce': 3, 'ncclBroadcast': 3, 'ncclAllGather': 3, 'ncclSend': 2, 'ncclRecv': 2}
template = r"""
int <Function>Entry(struct pt_regs *ctx) {
    u64 time = bpf_ktime_get_ns();
    u64 count = PT_REGS_PARM<Count>(ctx);
    bpf_trace_printk("%ld@start@<Function>@%ld\n", time, count * 8);
    return 0;
}

int <Function>Exit(struct pt_regs *ctx) {
    u64 time = bpf_ktime_get_ns();
    bpf_trace_printk("%ld@end@<Function>\n", time);
    return 0;
}
"""
text = '#include <uapi/linux/ptrace.h>\n'
for function, count in counts.items():
    text += template.replace('<Function>', function).replace('<Count>', str(count))

if len(sys.argv) < 2:
    sys.exit(__doc__)
sampler = eBPFSampler(BccBPF('NCCLSampler', text, ['-w']))
sampler.run([{'name': 'NCCLSampler', 'exe_path': [sys.argv[1]], 'exe_sym': list(counts)}])

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

with open('nccl.json', 'w', encoding='utf-8') as f:
    json.dump(to_perfetto(states), f, indent=4)
