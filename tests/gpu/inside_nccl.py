#!/usr/bin/env python3
"""What NCCL says of itself beside its log, probes, CUDA events and RAS: see inside_nccl.sh. `inside_nccl.py load OUT WHAT SECONDS` is the
program that is looked at: a process for each GPU, two on a single one."""
import collections
import glob
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import ranks_of_one_gpu

ODD_BYTES = 1048577  # of the all-reduces of uint8, which NCCL's interface has no name for
ODD_TIMES, AHEAD = 5, 3
BIG_BYTES, BIG_TIMES = 64 << 20, 200
FUNCTIONS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv")
SMALL_SECONDS = 8
LOADS = ("small", "ddp")


# --- the program ---


def known_operations(torch, dist, rank, world):
    plan = [(torch.float32, 1000003, 13), (torch.bfloat16, 4096, 101), (torch.float16, 77777, 7), (torch.int64, 31, 11),
            (torch.float32, 16 << 20, 6), (torch.float64, 1, 3), (torch.uint8, ODD_BYTES, ODD_TIMES)]  # fmt: skip
    for dtype, count, times in plan:
        t = torch.ones(count, dtype=dtype, device="cuda")
        for _ in range(times):
            dist.all_reduce(t, op=dist.ReduceOp.MAX)
    t, parts = torch.ones(5003, device="cuda"), torch.empty(5003 * world, device="cuda")
    for _ in range(17):
        dist.all_gather_into_tensor(parts, t)
    for _ in range(19):
        dist.reduce_scatter_tensor(t, parts)
    for _ in range(5):
        dist.broadcast(t, src=1)
    for _ in range(4):
        dist.reduce(t, dst=0)
    for _ in range(23):
        if rank < 2:
            (dist.send if rank == 0 else dist.recv)(t, 1 - rank)
    for _ in range(9):
        ops = [dist.P2POp(dist.isend, t, (rank + 1) % world), dist.P2POp(dist.irecv, parts[:5003], (rank - 1) % world)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    torch.cuda.synchronize()


def timed_operations(torch, dist):
    """us of one all-reduce of BIG_BYTES, by CUDA events around many."""
    t = torch.ones(BIG_BYTES // 4, device="cuda")
    for _ in range(10):
        dist.all_reduce(t)
    torch.cuda.synchronize()
    dist.barrier()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(BIG_TIMES):
        dist.all_reduce(t)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / BIG_TIMES * 1000


def ask_ras():
    """As `echo verbose status | nc localhost 28028`."""
    host, _, port = os.environ.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
    text = b""
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(b"verbose status\n")
        while piece := s.recv(65536):
            text += piece
    return text.decode(errors="replace")


def lag_behind(torch, dist, rank):
    """Rank 0 is ahead by some all-reduces, which wait for the others on the GPU. Ends without a word."""
    t = torch.ones(1000, device="cuda")
    for _ in range(50):
        dist.all_reduce(t)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    if rank == 0:
        for _ in range(AHEAD):
            dist.all_reduce(t)
    time.sleep(3)
    text = ""
    if rank == 1:
        try:
            text = ask_ras()
        except OSError as e:
            text = f"RAS does not answer: {e}"
    return text


def measure_steps(torch, dist, rank, what, seconds):
    """us a step, of slices of 0.25 s; ranks agree on their ends."""
    torch.manual_seed(0)
    if what == "small":
        t = torch.ones(256, device="cuda")
        n = 200

        def step():
            dist.all_reduce(t)
    else:
        layers = [m for _ in range(6) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[torch.cuda.current_device()], bucket_cap_mb=4)
        optimizer, x = torch.optim.SGD(model.parameters(), lr=1e-4), torch.randn(64, 1024, device="cuda")
        n = 20

        def step():
            optimizer.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            optimizer.step()

    for _ in range(100):
        step()
    torch.cuda.synchronize()
    slices, go, end = [], torch.ones(1, device="cuda"), time.perf_counter() + seconds
    while go.item():
        begin = time.perf_counter()
        for _ in range(n):
            step()
        torch.cuda.synchronize()
        slices.append((time.perf_counter() - begin) / n * 1e6)
        go.fill_(time.perf_counter() < end)
        dist.broadcast(go, 0)
    return slices


def run_rank(rank, world, out, what, seconds):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29541")
    device = ranks_of_one_gpu.choose_device(torch, rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", device))
    said = {"pid": os.getpid(), "world": world, "version": torch.cuda.nccl.version()}
    if what == "known":
        known_operations(torch, dist, rank, world)
    elif what == "timed":
        said["us"] = timed_operations(torch, dist)
    elif what == "lag":
        said["ras"] = lag_behind(torch, dist, rank)
    else:
        said["slices"] = measure_steps(torch, dist, rank, what, seconds)
    with open(f"{out}.{rank}", "w", encoding="utf-8") as f:
        json.dump(said, f)
    if what == "lag":
        time.sleep(2)
        os._exit(0)
    dist.destroy_process_group()


def load(out, what, seconds):
    import torch
    import torch.multiprocessing as mp

    world = max(2, torch.cuda.device_count())
    mp.spawn(run_rank, args=(world, out, what, seconds), nprocs=world)


# --- the comparison ---

passed = failed = 0


def check(what, ok, detail=""):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} - {what} {detail}".rstrip(), flush=True)


def run(folder, gpuscope, what, options=None, seconds=0.0, env=None):
    """What the ranks say, and our summary (None without options)."""
    out, summary = os.path.join(folder, "out"), os.path.join(folder, "summary.json")
    for old in glob.glob(out + ".*"):
        os.remove(old)
    words = [sys.executable, os.path.abspath(__file__), "load", out, what, str(seconds)]
    if options is not None:
        words = [gpuscope, "trace", "-q", "--format", "json", "--summary", summary, *options, "--", *words]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode:
        check(f"{what} {options}: it ran", False, done.stderr[-1000:])
        return [], None
    said = []
    for path in sorted(glob.glob(out + ".*")):
        with open(path, encoding="utf-8") as f:
            said.append(json.load(f))
    if options is None:
        return said, None
    with open(summary, encoding="utf-8") as f:
        return said, json.load(f)


TUNING = re.compile(r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
CALL = re.compile(r"NCCL INFO (\w+): opCount ")


def read_log(pattern):
    calls, chosen, channels = collections.Counter(), collections.defaultdict(lambda: [0, 0]), collections.defaultdict(set)
    for path in glob.glob(pattern):
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                if found := CALL.search(line):
                    calls[found.group(1)] += 1
                elif found := TUNING.search(line):
                    function, size, algorithm, protocol, low, high = found.groups()
                    row = chosen[function, algorithm.upper(), protocol.upper()]
                    row[0] += 1
                    row[1] += 0 if int(size) == ODD_BYTES else int(size)
                    channels[function, algorithm.upper(), protocol.upper()].add(int(high) - int(low) + 1)
    return calls, chosen, channels


def calls_of(summary):
    """Calls and bytes by function; ncclBcast, which PyTorch calls, is a Broadcast."""
    found = collections.defaultdict(lambda: (0, 0))
    for f in summary["functions"]:
        name = f["name"].removeprefix("nccl").replace("Bcast", "Broadcast")
        if name in FUNCTIONS:
            found[name] = found[name][0] + f["calls"], found[name][1] + f["bytes"]
    return found


def agree(folder, gpuscope):
    env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL,TUNING", "NCCL_DEBUG_FILE": os.path.join(folder, "nccl.%p")}
    ranks, summary = run(folder, gpuscope, "known", ["--inside=nccl", "--layer", "nccl"], env=env)
    n = (summary or {}).get("nccl")
    check("NCCL says something", bool(n and n["choices"]))
    if not n or not ranks:
        return
    world = ranks[0]["world"]
    calls, chosen, channels = read_log(os.path.join(folder, "nccl.*"))
    major, minor, patch = ranks[0]["version"]
    check("its version", n["nccl_version"] == major * 10000 + minor * 100 + patch, f"{n['nccl_version']}, interface {n['interface']}")
    check("nothing is lost or without a place", not (n["lost"] or n["left_out"] or n["unranked"] or n["unplaced"]), f"{n['lost']} {n['left_out']} {n['unranked']} {n['unplaced']}")
    said = collections.Counter()
    for c in n["choices"]:
        said[c["function"]] += c["operations"]
    probes = {k: v for k, v in calls_of(summary).items() if v[0]}
    check("operations are the calls of NCCL's log", said == calls, f"{dict(said)}, {dict(calls)}")
    check("and those that probes see", dict(said) == {k: v[0] for k, v in probes.items()}, f"{ {k: v[0] for k, v in probes.items()} }")
    size = collections.Counter()
    for c in n["choices"]:
        size[c["function"]] += c["bytes"] or 0
    size["AllReduce"] += ODD_BYTES * ODD_TIMES * world
    check("bytes are those of probes", dict(size) == {k: v[1] for k, v in probes.items()}, f"{dict(size)}, {probes}")
    check("operations of uint8 are without bytes", n["without_bytes"] == ODD_TIMES * world, n["without_bytes"])
    ours = collections.defaultdict(lambda: [0, 0])
    used = collections.defaultdict(set)
    for c in n["choices"]:
        if c["algorithm"]:
            key = c["function"], c["algorithm"], c["protocol"]
            ours[key][0] += c["operations"]
            ours[key][1] += c["bytes"] or 0
            used[key].add(c["channels"])
    wanted = {k: [v[0] * world, v[1] * world] for k, v in chosen.items()}  # rank 0 alone logs them
    check("algorithms and protocols, operations and bytes of each, are those of the log", dict(ours) == wanted, f"{dict(ours)}, {wanted}")
    check("so are the numbers of channels", dict(used) == dict(channels), f"{dict(used)}, {dict(channels)}")
    comms = [c for c in n["communicators"] if c["operations"]]
    check("all ranks are seen, none lags", all(c["seen"] == c["ranks"] == world and not c["lag"] for c in comms), comms)


def channels_part(folder, gpuscope):
    ranks, summary = run(folder, gpuscope, "timed", ["--inside=nccl", "--gpu-window", "always"])
    n = (summary or {}).get("nccl")
    big = [c for c in (n or {}).get("choices", []) if c["max_bytes"] == BIG_BYTES]
    check("the large all-reduce is there", len(big) == 1, [c["max_bytes"] for c in (n or {}).get("choices", [])])
    if big and ranks:
        c = big[0]
        us, theirs = c["gpu_ns"] / max(c["timed"], 1) / 1000, statistics.mean(r["us"] for r in ranks)
        check("nearly all of them have their time on the GPU", c["timed"] > 0.95 * c["operations"], f"{c['timed']} of {c['operations']}")
        check("it is within 5 % of CUDA events", abs(us / theirs - 1) < 0.05, f"{us:.1f}, {theirs:.1f} us; {c['link_bytes'] / max(c['gpu_ns'], 1):.1f} GB/s on the bus")
        check("channels have their operations", n["unplaced"] == 0, n["unplaced"])
    _, summary = run(folder, gpuscope, "small", ["--inside=nccl", "--gpu-window", "1s/4s"], seconds=12)
    n = (summary or {}).get("nccl") or {"choices": [], "without_windows": 0}
    timed, ops = sum(c["timed"] for c in n["choices"]), sum(c["operations"] for c in n["choices"])
    check("windows have some of them, or are refused", 0.05 * ops < timed < 0.6 * ops or n["without_windows"], f"{timed} of {ops}, refused {n['without_windows']}")


def ras(folder, gpuscope):
    ranks, summary = run(folder, gpuscope, "lag", ["--inside=nccl"])
    n = (summary or {}).get("nccl")
    if not n or len(ranks) < 2:
        check("ranks that are not equally far", False)
        return
    c = n["communicators"][0]
    check("the rank that lags is named", (c["lag"], c["lag_rank"] != 0, c["lag_function"]) == (AHEAD, True, "AllReduce"), c)
    text = ranks[1]["ras"]
    counts = sorted({int(m) for m in re.findall(r"launched up to operation (\d+)", text)})
    check("NCCL's RAS says the same", len(counts) >= 2 and counts[-1] - counts[0] == AHEAD, f"{counts}\n{text[-1500:] if len(counts) < 2 else ''}")


def quartiles(values):
    q = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return f"{q[1]:+6.2f} % (quartiles {q[0]:+.2f} {q[2]:+.2f})"


def cost(folder, gpuscope, rounds):
    ways = {"operations": ["--inside=nccl"], "channels always": ["--inside=nccl", "--gpu-window", "always"],
            "channels 1 s in 20 s": ["--inside=nccl", "--gpu-window", "1s/20s"], "probes alone": ["--layer", "nccl"]}  # fmt: skip
    for name in LOADS:
        pairs = {way: [] for way in ways}
        for _ in range(rounds):
            for way, options in ways.items():
                bare, _ = run(folder, gpuscope, name, seconds=SMALL_SECONDS)
                with_us, summary = run(folder, gpuscope, name, ["--summary-only", *(options if way == "probes alone" else ["--layer", "mpi", *options])], SMALL_SECONDS)
                if not bare or not with_us:
                    continue
                a, b = (statistics.median(r[0]["slices"]) for r in (bare, with_us))
                pairs[way].append(100 * (b / a - 1))
                n = summary["nccl"] or {}
                print(f"    {name} {way}: {a:.1f} -> {b:.1f} us a step; operations {n.get('collectives')}, channels {n.get('channels')}, lost {n.get('lost')}", flush=True)
        for way, values in pairs.items():
            if values:
                print(f"  {name:6s} {way:22s} steps longer by {quartiles(values)}, {len(values)} pairs", flush=True)


def main():
    if sys.argv[1] == "load":
        load(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        return 0
    gpuscope = os.path.join(sys.argv[1], "src", "gpuscope")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    parts = sys.argv[3:] or ["agree", "channels", "ras", "cost"]
    with tempfile.TemporaryDirectory() as folder:
        if "agree" in parts:
            agree(folder, gpuscope)
        if "channels" in parts:
            channels_part(folder, gpuscope)
        if "ras" in parts:
            ras(folder, gpuscope)
        if "cost" in parts:
            cost(folder, gpuscope, rounds)
    print(f"inside_nccl: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
