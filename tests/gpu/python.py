"""A small transformer's training step whose lines are known, and loops that tell their speed.

python.py lines --out F      steps under gpuscope; writes how often each marked line ran
python.py spin --seconds S --model small|large
                             trains without end and prints "T N": boot time and steps so far
"""
import argparse
import json
import os
import time

import torch


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def lines_of_marks():
    """{mark: line} of this file: 'MARK name' at the end of a line."""
    found = {}
    for number, line in enumerate(open(__file__), 1):
        if "# MARK " in line and '"# MARK ' not in line:
            found[line.split("# MARK ")[1].strip()] = number
    return found


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)  # MARK norm
        y = self.attention(y, y, y, need_weights=False)[0]  # MARK attention
        x = x + y  # MARK add
        y = self.up(x)  # MARK up
        y = torch.nn.functional.gelu(y)  # MARK gelu
        return x + self.down(y)  # MARK down


def make(width, batch, length, depth=2):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Block(width) for _ in range(depth)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(batch, length, width, device="cuda")
    target = torch.randn(batch, length, width, device="cuda")

    def step():
        loss = torch.nn.functional.mse_loss(model(x), target)  # MARK loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # MARK backward
        optimizer.step()  # MARK optimizer
        return loss

    return step


def lines(args):
    from torch.profiler import ProfilerActivity, profile

    step = make(64, 8, 32)
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    time.sleep(0.1)
    begin = boot_ns()
    for _ in range(args.steps):
        step()
    torch.cuda.synchronize()
    end = boot_ns()
    # How many launches a step has, by the profiler, after the window that gpuscope is asked about.
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        step()
        torch.cuda.synchronize()
    launches = sum(e.count for e in prof.key_averages() if e.key.startswith(("cudaLaunchKernel", "cuLaunchKernel")))
    json.dump({"pid": os.getpid(), "begin_ns": begin, "end_ns": end, "steps": args.steps, "depth": 2,
               "launches_per_step": launches, "marks": lines_of_marks(), "file": os.path.abspath(__file__)},
              open(args.out, "w"))  # fmt: skip


def spin(args):
    step = make(64, 8, 32) if args.model == "small" else make(4096, 16, 1024)
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    n, stop, tell = 0, time.monotonic() + args.seconds, 0.0
    while time.monotonic() < stop:
        step()
        n += 1
        if args.model == "large" or n % 20 == 0:
            torch.cuda.synchronize()
        if time.monotonic() >= tell:
            tell = time.monotonic() + 0.1
            print(boot_ns(), n, flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["lines", "spin"])
    p.add_argument("--out")
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--model", default="small")
    a = p.parse_args()
    {"lines": lines, "spin": spin}[a.what](a)
