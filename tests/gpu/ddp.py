"""A distributed data-parallel training run on all GPUs for some seconds: ddp.py SECONDS [beat]. Prints what each
rank did; with beat, also the boot clock and the steps of rank 0 every tenth of a second; the load of cluster.sh and eight.sh."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, world, seconds, beats):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(4096, 4096), torch.nn.GELU())]).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters())
    x = torch.randn(512, 4096, device="cuda")
    steps, go, end = 0, torch.ones(1, device="cuda"), time.time() + seconds
    while go.item():
        for _ in range(10):
            opt.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            opt.step()
            steps += 1
        if beats and rank == 0:
            torch.cuda.synchronize()
            print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), steps, flush=True)
        go.fill_(time.time() < end)
        dist.broadcast(go, 0)
    torch.cuda.synchronize()
    print(f"rank {rank}: {steps} steps", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    n = torch.cuda.device_count()
    mp.spawn(run, args=(n, float(sys.argv[1]), "beat" in sys.argv[2:]), nprocs=n)
