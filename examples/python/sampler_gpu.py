#!/usr/bin/env python3
"""GPUs, each second, written to gpu.json, by the classes of eACGM. What a GPU does not report is null.

usage: sampler_gpu.py [SECONDS]     (else until Ctrl-C)
"""

import json
import sys
import time

from gpuscope.eacgm.sampler import GPUSampler

sampler = GPUSampler()
sampler.run()

end = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else None
states = []
try:
    while end is None or time.monotonic() < end:
        for sample in sampler.sample():
            print(sample)
            states.append({
                'ts': time.time_ns(), 'gpu': sample.gpu, 'gpu_utl': sample.sm, 'totMem': sample.totMem, 'usedMem': sample.usedMem,
                'encode_utl': sample.enc, 'decode_utl': sample.dec, 'temperature': sample.tmp, 'fan_utl': sample.fan,
                'usedPower': sample.usedPower, 'totPower': sample.totPower,
            })  # fmt: skip
        print('---', flush=True)
        time.sleep(1)
except KeyboardInterrupt:
    pass
sampler.close()

with open('gpu.json', 'w', encoding='utf-8') as f:
    json.dump(states, f, indent=4)
