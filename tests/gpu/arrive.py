"""Ranks that arrive late at collectives, one process for each GPU: arrive.py CASE --out PREFIX. Each rank notes by
its own clock when it calls each collective and leaves PREFIX.<rank>.json.

equal   all-reduces with the same work between them
late    the same, and rank 1 sleeps 4 ms before each
ddp     a data-parallel training loop that reads its loss at each step
loader  the same, and the data of rank 1 take 5 ms longer
gpu     the same, and the GPU of rank 1 has more to do; the hosts arrive together
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS = 200
SLEEP_S = {"late": 0.004, "loader": 0.005}


def reduce_step(case, rank, state):
    x, times = state
    y = x
    for _ in range(4):
        y = y @ x
    torch.cuda.synchronize()
    if case in SLEEP_S and rank == 1:
        time.sleep(SLEEP_S[case])
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    dist.all_reduce(x)
    torch.cuda.synchronize()
    x.fill_(0.01)


def train_step(case, rank, state):
    model, opt, x, extra = state
    if case in SLEEP_S and rank == 1:
        time.sleep(SLEEP_S[case])
    opt.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    if case == "gpu" and rank == 1:
        for _ in range(12):
            torch.mm(extra, extra)
    loss.backward()
    opt.step()
    loss.item()


def run(rank, world, case, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29541")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    times = []
    if case in ("equal", "late"):
        step, state = reduce_step, (torch.full((512, 512), 0.01, device="cuda"), times)
    else:
        model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]).cuda()
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
        state = (model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(256, 1024, device="cuda"),
                 torch.randn(4096, 4096, device="cuda"))
        step = train_step
    for _ in range(5):
        step(case, rank, state)
    times.clear()
    dist.barrier()
    begin = time.monotonic()
    for _ in range(STEPS):
        step(case, rank, state)
    torch.cuda.synchronize()
    spent = time.monotonic() - begin
    json.dump({"pid": os.getpid(), "rank": rank, "called_ns": times, "step_s": spent / STEPS}, open(f"{out}.{rank}.json", "w"))
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("case")
    p.add_argument("--out", required=True)
    args = p.parse_args()
    n = torch.cuda.device_count()
    mp.spawn(run, args=(n, args.case, args.out), nprocs=n)
