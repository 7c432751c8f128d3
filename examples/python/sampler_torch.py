#!/usr/bin/env python3
"""Operators of PyTorch, counted each second and written to torch.json, by the classes of eACGM.

usage: sampler_torch.py LIBTORCH_PYTHON [SECONDS]     (as root; else until Ctrl-C)

A library that was stripped has no names of these functions: the operators are traced where they are carried out then.
"""

import collections
import json
import sys
import time

import torch_symbols
from gpuscope.eacgm.bpf import BccBPF
from gpuscope.eacgm.collector import to_perfetto
from gpuscope.eacgm.sampler import eBPFSampler

if len(sys.argv) < 2:
    sys.exit(__doc__)
sampler = eBPFSampler(BccBPF('TorchSampler', torch_symbols.text, ['-w']))
sampler.run([{'name': 'TorchSampler', 'exe_path': [sys.argv[1]], 'exe_sym': list(torch_symbols.symbols.values())}])

end = time.monotonic() + float(sys.argv[2]) if len(sys.argv) > 2 else None
states = []
try:
    while end is None or time.monotonic() < end:
        samples = sampler.sample(time_stamp=1)
        states += samples
        print(dict(collections.Counter(s.message[1] for s in samples if s.message[0] == 'start')), flush=True)
except KeyboardInterrupt:
    pass
sampler.close()

with open('torch.json', 'w', encoding='utf-8') as f:
    json.dump(to_perfetto(states), f, indent=4)
