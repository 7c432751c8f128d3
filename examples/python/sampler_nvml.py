#!/usr/bin/env python3
"""Processes on GPUs, every two seconds, written to nvml.json, by the classes of eACGM.

usage: sampler_nvml.py [SECONDS]     (else until Ctrl-C)
"""

import json
import sys
import time

from gpuscope.eacgm.sampler import NVMLSampler

sampler = NVMLSampler()
sampler.run()

end = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else None
states = []
try:
    while end is None or time.monotonic() < end:
        for sample in sampler.sample(time_stamp=1):
            print(sample)
            states.append({
                'ts': time.time_ns(), 'pid': sample.pid, 'gpu': sample.gpu, 'gpu_utl': sample.sm, 'mem': sample.mem,
                'encode_utl': sample.enc, 'decode_utl': sample.dec,
            })  # fmt: skip
        print('---', flush=True)
        time.sleep(2)
except KeyboardInterrupt:
    pass
sampler.close()

with open('nvml.json', 'w', encoding='utf-8') as f:
    json.dump(states, f, indent=4)
