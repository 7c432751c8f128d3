#!/usr/bin/env python3
"""Ranks of real NCCL that do not arrive or call something else: see hang.sh. `hang.py load WHAT SECONDS` is the program that is looked at."""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import ranks_of_one_gpu

STEPS, AT_STEP = 60, 30
QUIET_S, PROMISE_S = 3, 5
FAULT_S = {"sleep": 15, "die": 10, "skip": 12, "count": 12, "slow": 1.5, "equal": 0}


# --- the program ---


def end_later(seconds):
    """Nothing else ends ranks that wait for each other."""
    threading.Thread(target=lambda: (time.sleep(seconds), os._exit(0)), daemon=True).start()


def do_wrong(torch, dist, what, seconds, state):
    x, parts = state
    print("at", time.clock_gettime_ns(time.CLOCK_BOOTTIME), "pid", os.getpid(), flush=True)
    if what == "die":
        os.kill(os.getpid(), 9)
    elif what in ("sleep", "slow"):
        time.sleep(seconds)  # the line
    elif what == "count":
        dist.all_gather_into_tensor(parts[: parts.numel() // 2], x[: x.numel() // 2])


def run_rank(rank, world, what, seconds):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29543")
    device = ranks_of_one_gpu.choose_device(torch, rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", device))
    x = torch.ones(4096, device="cuda")
    parts = torch.ones(4096 * world, device="cuda")
    for step in range(STEPS):
        odd = rank == 1 and step == AT_STEP and what != "equal"
        if step == AT_STEP and what in ("die", "skip", "count"):
            end_later(seconds)
        if odd:
            do_wrong(torch, dist, what, seconds, (x, parts))
        if not odd or what not in ("skip", "count"):
            dist.all_gather_into_tensor(parts, x)
        dist.all_reduce(x)
        torch.cuda.synchronize()
        x.fill_(1)
    os._exit(0)


def load(what, seconds):
    import torch
    import torch.multiprocessing as mp

    world = max(2, torch.cuda.device_count())
    ranks = mp.spawn(run_rank, args=(world, what, seconds), nprocs=world, join=False)
    for rank in ranks.processes:  # ranks.join() ends the others when one is killed
        rank.join()


# --- the check ---

passed = failed = 0


def check(what, ok, detail=""):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} - {what} {detail}".rstrip(), flush=True)


def trace(folder, gpuscope, what):
    """(standard output, [(boot clock in s, line of standard error)], summary)."""
    summary = os.path.join(folder, "summary.json")
    words = [gpuscope, "trace", "--hang-after", f"{QUIET_S}s", "--format", "json", "--summary", summary, "--", sys.executable, os.path.abspath(__file__), "load", what, str(FAULT_S[what])]
    proc = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []

    def read_lines():
        for line in proc.stderr:
            lines.append((time.clock_gettime(time.CLOCK_BOOTTIME), line.rstrip()))

    reader = threading.Thread(target=read_lines)
    reader.start()
    out = proc.stdout.read()
    proc.wait()
    reader.join()
    with open(summary, encoding="utf-8") as f:
        return out, lines, json.load(f)


def check_case(folder, gpuscope, what):
    out, lines, summary = trace(folder, gpuscope, what)
    text = "\n".join(line for _, line in lines)
    hangs = summary.get("hangs") or []
    for _, line in lines:
        if re.search("hang|mismatch|native|python|rank", line):
            print("   ", line[:300])
    if what in ("slow", "equal"):
        check(f"{what}: nothing is said", not hangs and "hang: " not in text and "mismatch: " not in text, [h["text"] for h in hangs])
        return
    found = re.search(r"at (\d+) pid (\d+)", out)
    if not found:
        check(f"{what}: the program came to its fault", False, out[-300:] + text[-1000:])
        return
    at_s, pid = int(found[1]) / 1e9, found[2]
    world = max((h.get("ranks") or len(h["by_rank"]) for h in hangs), default=2)
    any_rank = "ranks make different calls|" if world == 2 else ""  # of two neither is the odd one
    wanted = {"sleep": rf"hang: rank 1 \(process {pid}\) has not arrived", "die": rf"hang: rank 1 \(process {pid}\)",
              "skip": rf"mismatch: ({any_rank}rank 1 .* skipped)", "count": rf"mismatch: ({any_rank}rank 1 .* called ncclAllGather)"}[what]  # fmt: skip
    when = [t for t, line in lines if re.search(wanted, line)]
    check(f"{what}: named", when, "" if when else text[-2000:])
    if when:
        after_s = when[0] - at_s
        least, most = (QUIET_S, QUIET_S + PROMISE_S) if what == "sleep" else (0, QUIET_S + PROMISE_S)
        check(f"{what}: in time", least <= after_s <= most, f"{after_s:.2f} s after the fault, quiet time {QUIET_S} s")
    check(f"{what}: in the summary", hangs, [h["text"] for h in hangs])
    if what == "sleep" and hangs:
        ranks = {r["rank"]: r for r in hangs[0]["by_rank"]}
        check("sleep: native stack of the rank", "sleep" in (ranks[1]["native"] or ""), ranks[1]["native"])
        check("sleep: a Python line of it", "do_wrong" in (ranks[1]["python"] or ""), ranks[1]["python"])
        check("sleep: it came at last", hangs[0]["has_arrived"], hangs[0])
        # It spins in the driver, so it has no native stack.
        check("sleep: where the other waits", "synchronize" in (ranks[0]["python"] or ""), ranks[0]["python"])


def main():
    if sys.argv[1] == "load":
        load(sys.argv[2], float(sys.argv[3]))
        return 0
    gpuscope = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../../build-release/src/gpuscope")
    with tempfile.TemporaryDirectory() as folder:
        for what in sys.argv[2:] or FAULT_S:
            check_case(folder, gpuscope, what)
    print(f"hang: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
