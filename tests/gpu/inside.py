#!/usr/bin/env python3
"""Calls from inside beside probes on a real GPU: see inside.sh. With LOOP as the first word it is the traced loop."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS, CHUNK, WARM = 2000, 50, 200


def loop():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(4)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(32, 64).cuda(), torch.randn(32, 64).cuda()

    def step():
        opt.zero_grad(set_to_none=True)
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(STEPS // CHUNK):
        t = time.perf_counter()
        for _ in range(CHUNK):
            loss = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - t) / CHUNK * 1e6)
    out = {"us": times, "loss": loss.item()}
    if os.environ.get("COUNT_KERNELS"):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as p:
            for _ in range(10):
                step()
            torch.cuda.synchronize()
        out["kernels"] = sum("CUDA" in str(e.device_type) for e in p.events() if "Memcpy" not in e.name and "Memset" not in e.name) / 10
    print("RESULT " + json.dumps(out))


if sys.argv[1:] == ["LOOP"]:
    loop()
    sys.exit(0)

BUILD, ROUNDS = os.path.abspath(sys.argv[1]), int(sys.argv[2])
GPUSCOPE, TMP = BUILD + "/src/gpuscope", tempfile.mkdtemp()
WAYS = {"untraced": None, "inside": ["--inside=calls"], "inside events": ["--inside=calls", "-o", TMP + "/i.gst"], "probes": [],
        "probes events": ["-o", TMP + "/p.gst"]}  # fmt: skip
failed = 0


def check(what, good, more=""):
    global failed
    failed += not good
    print(("ok - " if good else "not ok - ") + what + (f": {more}" if more else ""), flush=True)


def run(way, **env):
    command, summary = [sys.executable, os.path.abspath(__file__), "LOOP"], None
    if way is not None:
        command = [GPUSCOPE, "trace", "-q", "--format", "json", "--summary", TMP + "/s.json", *way, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    lines = [x for x in done.stdout.splitlines() if x.startswith("RESULT ")]
    if done.returncode or not lines:
        print(done.stderr[-2000:])
        sys.exit(f"not ok - the loop ended with {done.returncode}")
    if way is not None:
        with open(TMP + "/s.json") as f:
            summary = json.load(f)
    return json.loads(lines[0][7:]), summary


def by_class(summary):
    """Calls by what they do; a launch of a runtime that passed the driver is one."""
    kinds = {"launches": ("Launch",), "copies": ("Memcpy",), "fills": ("Memset",), "waits": ("Synchronize",), "allocations": ("Malloc", "MemAlloc", "MemCreate")}
    return {kind: sum(f["calls"] for f in summary["functions"] if any(w in f["name"] for w in words) and "HostFunc" not in f["name"])
            for kind, words in kinds.items()}  # fmt: skip


def quartiles(values):
    v = sorted(values)
    return f"{v[len(v) // 4]:.1f} .. {statistics.median(v):.1f} .. {v[len(v) * 3 // 4]:.1f}"


kernels = run(None, COUNT_KERNELS="1")[0]["kernels"]
print(f"# {kernels:.1f} kernels in a step, by torch.profiler; {WARM + STEPS} steps a run, {ROUNDS} rounds")
steps, seen, losses = {w: [] for w in WAYS}, {}, set()
for _ in range(ROUNDS):
    for name, way in WAYS.items():
        result, summary = run(way)
        steps[name].append(statistics.median(result["us"]))
        losses.add(result["loss"])
        if summary:
            seen.setdefault(name, []).append(summary)
check("the loop computes the same however it is looked at", len(losses) == 1, str(losses))
counts = {name: by_class(s[-1]) for name, s in seen.items()}
for kind in counts["inside"]:
    check(f"{kind}: from inside as many as by probes", len({c[kind] for c in counts.values()}) == 1, str({n: c[kind] for n, c in counts.items()}))
expected = kernels * (WARM + STEPS)
launches = counts["inside"]["launches"]
check("launches from inside: as many as kernels of the profiler's steps, and those of the start", expected <= launches <= expected * 1.05 + 2000,
      f"{launches}, steps alone {expected:.0f}")  # fmt: skip
names = {n: {f["name"]: f["calls"] for f in s[-1]["functions"] if "Launch" in f["name"]} for n, s in seen.items()}
print(f"# launches by function: inside {names['inside']}, probes {names['probes']}")
for name, summaries in seen.items():
    lost = {k: v for layer in summaries[-1]["lost"].values() for k, v in layer.items()}
    print(f"# lost, {name}: {lost}; attached: {[(os.path.basename(a['path']), a['probes'], a['remark']) for a in summaries[-1]['attached']][:6]}")
    if name.startswith("inside"):
        check(f"nothing is lost, {name}", not set(lost) & {"ring_full", "no_thread", "too_deep", "event_bad", "no_cell"}, str(lost))
        check(f"no library of CUDA has probes, {name}", not any(a["probes"] for a in summaries[-1]["attached"] if "libcuda" in a["path"]))
base = steps["untraced"]
print(f"# us a step, quartiles over rounds: untraced {quartiles(base)}")
for name in list(WAYS)[1:]:
    per_launch = [(a - b) / kernels * 1e3 for a, b in zip(steps[name], base)]
    percent = [(a - b) / b * 100 for a, b in zip(steps[name], base)]
    print(f"# {name:14s} {quartiles(steps[name])} us a step; more than untraced in pairs: {quartiles(percent)} %, {quartiles(per_launch)} ns a launch")
print("# timings are for reading; nothing fails by them")
sys.exit(bool(failed))
