"""All-reduces and others of known sizes and types, one process for each GPU; rank by rank it writes
what it asked for: allreduce.py --out PREFIX leaves PREFIX.<rank>.json."""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PLAN = [(torch.float32, 1000003, 13), (torch.bfloat16, 4096, 101), (torch.float16, 77777, 7),
        (torch.int64, 31, 11), (torch.uint8, 1 << 20, 5), (torch.float64, 1, 3)]


def run(rank, world, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    asked = {}

    def note(name, n, bytes_):
        a = asked.setdefault(name, [0, 0])
        a[0] += n
        a[1] += bytes_

    dist.barrier()
    torch.cuda.synchronize()
    begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    for dtype, count, times in PLAN:
        t = torch.ones(count, dtype=dtype, device="cuda")
        for _ in range(times):
            dist.all_reduce(t, op=dist.ReduceOp.MAX)
        note("ncclAllReduce", times, times * count * t.element_size())
    t = torch.ones(5003, device="cuda")
    parts = torch.empty(5003 * world, device="cuda")
    for _ in range(17):
        dist.all_gather_into_tensor(parts, t)
    note("ncclAllGather", 17, 17 * 5003 * 4)
    for _ in range(19):
        dist.reduce_scatter_tensor(t, parts)
    note("ncclReduceScatter", 19, 19 * 5003 * 4)
    for _ in range(5):
        dist.broadcast(t, src=1)
    note("ncclBroadcast", 5, 5 * 5003 * 4)
    for _ in range(23):
        if rank == 0:
            dist.send(t, 1)
        elif rank == 1:
            dist.recv(t, 0)
    if rank < 2:
        note("ncclSend" if rank == 0 else "ncclRecv", 23, 23 * 5003 * 4)
    torch.cuda.synchronize()
    end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    json.dump({"pid": os.getpid(), "rank": rank, "world": world, "begin_ns": begin, "end_ns": end,
               "asked": asked}, open(f"{out}.{rank}.json", "w"))
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    args = p.parse_args()
    world = torch.cuda.device_count()
    mp.spawn(run, args=(world, args.out), nprocs=world)
