#!/usr/bin/env python3
"""Loads for tests/gpu/job.sh: job.py KIND runs until it is killed, and says "ready" when it is at its pace.

compute  large matrix products, one behind the other
memory   sums over more than any cache holds
input    each step waits for a batch that a processor makes
launch   very many very small kernels
idle     holds memory of the GPU and does nothing
"""
import sys
import time

import torch

kind = sys.argv[1]
gpu = torch.device("cuda")
torch.zeros(1, device=gpu)
if kind == "compute":
    a = torch.randn(8192, 8192, device=gpu, dtype=torch.bfloat16)

    def step():
        global a
        for _ in range(20):
            a = (a @ a).clamp_(-1, 1)
        torch.cuda.synchronize()
elif kind == "memory":
    a = torch.ones(1 << 30, device=gpu, dtype=torch.float32)

    def step():
        for _ in range(20):
            a.add_(1)
        torch.cuda.synchronize()
elif kind == "input":
    weights = torch.randn(1024, 1024, device=gpu)
    words = list(range(60000))

    def step():
        # What decoding in Python is like: one processor at work, the GPU waits.
        batch = torch.tensor([x * 0.5 for x in words[: 1024 * 50]], dtype=torch.float32).reshape(50, 1024)
        (batch.to(gpu) @ weights).sum().item()
elif kind == "launch":
    a = torch.zeros(64, device=gpu)

    def step():
        for _ in range(2000):
            a.add_(1)
elif kind == "idle":
    a = torch.zeros(1 << 28, device=gpu)

    def step():
        time.sleep(0.2)
else:
    sys.exit(__doc__)
for _ in range(3):
    step()
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    step()
