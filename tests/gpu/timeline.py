#!/usr/bin/env python3
"""One program of tests/gpu/timeline.sh: timeline.py CASE OUT.

compute, half, short: matrices are multiplied; OUT gets the share of the time in which CUDA's own events say that they ran.
half sleeps after each piece of work for as long as it took. launch: small kernels without an end; OUT gets a line for each
half second: the boot clock in ns, and steps a second.
"""

import json
import os
import sys
import time

import torch

PIECES = 20  # of work between two waits


def multiply(idle, seconds, out):
    a = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16)
    held = torch.empty(3 << 30, device='cuda', dtype=torch.uint8)  # something to see
    for _ in range(30):
        a @ a
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    busy_ms, start = 0.0, time.monotonic()
    while time.monotonic() - start < seconds:
        before = time.monotonic()
        begin.record()
        for _ in range(PIECES):
            a @ a
        end.record()
        end.synchronize()
        busy_ms += begin.elapsed_time(end)
        if idle:
            time.sleep(time.monotonic() - before)
    took = time.monotonic() - start
    with open(out, 'w', encoding='utf-8') as f:
        json.dump({'pid': os.getpid(), 'busy_ratio': busy_ms / 1000 / took, 'seconds': took, 'begin_boot_ns': time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int(took * 1e9),
                   'reserved_bytes': torch.cuda.memory_reserved(), 'held_bytes': held.numel()}, f)


def launch(out):
    x = torch.randn(64, device='cuda')
    with open(out, 'w', encoding='utf-8', buffering=1) as f:
        while True:
            n, start = 0, time.monotonic()
            while time.monotonic() - start < 0.5:
                for _ in range(200):
                    x.add_(1)
                n += 1
                torch.cuda.synchronize()
            f.write(f'{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {200 * n / (time.monotonic() - start):.1f}\n')


def main():
    case, out = sys.argv[1:]
    if case == 'launch':
        launch(out)
    else:
        multiply(case == 'half', 2 if case == 'short' else 12, out)


if __name__ == '__main__':
    main()
