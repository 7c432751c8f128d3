#!/usr/bin/env python3
"""Each communicator of a job with sub-groups, beside NCCL's own log: its ranks, its calls, its bytes.

groups.py load KIND        the program: a process for each GPU
  groups  collectives of known sizes in all ranks, in halves, and in pairs that overlap them (new_group, which splits)
  fsdp    a transformer of fully sharded layers; over four GPUs or more sharded in halves and replicated over them
groups.py check GPUSCOPE FOLDER KIND
"""
import collections
import csv
import glob
import json
import os
import re
import subprocess
import sys

# --- the program ---


def run_groups(torch, dist, rank, world):
    half = world // 2
    halves = [dist.new_group(list(range(half))), dist.new_group(list(range(half, world)))]
    pairs = [dist.new_group([i, (i + 1) % world]) for i in range(0, world, 2)] + [dist.new_group([0, world - 1])]
    x, y = torch.ones(100003, device="cuda"), torch.ones(257, dtype=torch.bfloat16, device="cuda")
    for _ in range(31):
        dist.all_reduce(x)
    mine = halves[rank >= half]
    for _ in range(17):
        dist.all_reduce(y, group=mine)
    parts = torch.empty(257 * dist.get_world_size(mine), dtype=torch.bfloat16, device="cuda")
    for _ in range(13):
        dist.all_gather_into_tensor(parts, y, group=mine)
    for n, pair in enumerate(pairs):
        if dist.get_rank(pair) >= 0:
            for _ in range(5 + n):
                dist.broadcast(x, src=dist.get_global_rank(pair, 0), group=pair)
    torch.cuda.synchronize()


def run_fsdp(torch, dist, rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if world >= 4 and world % 2 == 0:
        mesh = init_device_mesh("cuda", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = init_device_mesh("cuda", (world,))
    layers = [torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, device="cuda") for _ in range(6)]
    model = torch.nn.Sequential(*layers)
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 128, 512, device="cuda")
    for _ in range(20):
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()


def run_rank(rank, world, kind):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29547")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    (run_groups if kind == "groups" else run_fsdp)(torch, dist, rank, world)
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def load(kind):
    import torch
    import torch.multiprocessing as mp

    n = torch.cuda.device_count()
    mp.spawn(run_rank, args=(n, kind), nprocs=n)


# --- the comparison ---

# Of nccl.h: bytes of ncclDataType_t.
SIZES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}
FUNCTIONS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Bcast", "Reduce", "Send", "Recv")
CALL = re.compile(r"NCCL INFO (\w+): opCount \w+ .*count (\d+) datatype (\d+) .*comm (0x[0-9a-f]+) \[nranks=(\d+)\]")
INIT = re.compile(r"NCCL INFO (\w+) comm (0x[0-9a-f]+) rank (\d+) nranks (\d+) .*Init START")
failed = 0


def check(what, ok, detail=""):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {what}: {detail}", flush=True)


def read_log(pattern):
    """{(pid, communicator): [how made, rank, ranks, {function: [calls, bytes]}]}"""
    comms = {}
    for path in glob.glob(pattern):
        pid = int(path.rsplit(".", 1)[1])
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                if found := INIT.search(line):
                    comms[pid, int(found[2], 16)] = [found[1], int(found[3]), int(found[4]), collections.defaultdict(lambda: [0, 0])]
                elif found := CALL.search(line):
                    row = comms[pid, int(found[4], 16)][3]["nccl" + found[1]]
                    row[0] += 1
                    row[1] += int(found[2]) * SIZES[int(found[3])]
    return comms


def compare(gpuscope, folder, kind):
    os.makedirs(folder, exist_ok=True)
    env = {**os.environ, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL", "NCCL_DEBUG_FILE": f"{folder}/nccl.%p"}
    words = [gpuscope, "trace", "-q", "--format", "json", "--summary", f"{folder}/summary.json", "-o", f"{folder}/calls.csv", "--"]
    done = subprocess.run([*words, sys.executable, os.path.abspath(__file__), "load", kind], env=env, capture_output=True, text=True)
    check(f"{kind}: it ran", done.returncode == 0, done.stderr[-600:] if done.returncode else "0")
    with open(f"{folder}/summary.json", encoding="utf-8") as f:
        summary = json.load(f)
    log = read_log(f"{folder}/nccl.*")
    ours = {(c["pid"], int(c["handle"], 16)): c for c in summary["communicators"]}
    by_function = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
    with open(f"{folder}/calls.csv", newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["comm"] and row["function"].removeprefix("nccl") in FUNCTIONS and row["failed"] in ("", "0", "false"):
                # PyTorch broadcasts by the older name.
                mine = by_function[int(row["pid"]), int(row["comm"], 16)][row["function"].replace("Bcast", "Broadcast")]
                mine[0] += 1
                mine[1] += int(row["bytes"] or 0)
    check(f"{kind}: number of communicators", len(ours) == len(log) > 0, f"{len(ours)}, NCCL's log {len(log)}")
    sizes = collections.Counter((want[0], want[2]) for want in log.values())
    print(f"     by NCCL's log: {dict(sizes)}")
    for key, (how, rank, ranks, calls) in sorted(log.items()):
        c = ours.get(key, {})
        name = f"{kind}: process {key[0]}, communicator {key[1]:#x} of {how}"
        check(f"{name}: rank and ranks", (c.get("rank"), c.get("ranks")) == (rank, ranks), f"{c.get('rank')} of {c.get('ranks')}, NCCL's log {rank} of {ranks}")
        check(f"{name}: split, or not", (c.get("parent") is not None) == ("Split" in how), c.get("origin"))
        got = {k: tuple(v) for k, v in by_function[key].items()}
        check(f"{name}: calls and bytes", got == {k: tuple(v) for k, v in calls.items()}, f"{got}, NCCL's log { {k: tuple(v) for k, v in calls.items()} }")
        total = (sum(v[0] for v in calls.values()), sum(v[1] for v in calls.values()))
        check(f"{name}: added up", (c.get("calls"), c.get("bytes")) == total, f"{c.get('calls')}, {c.get('bytes')}; {total}")
    lost = {k: v for causes in summary["lost"].values() for k, v in causes.items() if v and k != "first_calls"}  # those have no times
    check(f"{kind}: nothing lost", not lost, summary["lost"])
    return failed > 0


if __name__ == "__main__":
    sys.exit(load(sys.argv[2]) if sys.argv[1] == "load" else compare(*sys.argv[2:]))
