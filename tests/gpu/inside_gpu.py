#!/usr/bin/env python3
"""GPU time from inside beside torch.profiler: see inside_gpu.sh. `inside_gpu.py load NAME MODE N OUT` is the program that is looked at."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

OPEN = ["--gpu-window", "600s/1200s"]
LOADS = ("mlp", "decode", "graph")
STEPS = {"mlp": 400, "decode": 100, "graph": 200}
SECONDS, WINDOWED_SECONDS = 10, 25
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel",
            "__cudaLaunchKernel")  # fmt: skip


# --- the program ---


def make_step(name):
    import torch

    torch.manual_seed(0)
    if name == "mlp":
        layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(4)]
        model = torch.nn.Sequential(*layers).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 64, device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=True)
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()

        return step
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=12)).cuda().eval().half()
    ids = torch.randint(0, 50000, (1, 16), device="cuda")

    def decode():
        with torch.inference_mode():
            model(ids, use_cache=False)

    if name == "decode":
        return decode
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            decode()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            decode()
    return graph.replay


def run_steps(step, n):
    import torch

    for _ in range(n):
        step()
    torch.cuda.synchronize()


def profiler():
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])


def kernels_of(prof):
    """{name: [runs, us]} and how many calls launched kernels."""
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        prof.export_chrome_trace(f.name)
        with open(f.name, encoding="utf-8") as trace:
            events = json.load(trace)["traceEvents"]
    kernels = {}
    for e in events:
        if e.get("cat") == "kernel":
            row = kernels.setdefault(e["name"], [0, 0.0])
            row[0] += 1
            row[1] += e["dur"]
    return {"kernels": kernels, "launches": sum(e.get("name") in LAUNCHES and "dur" in e for e in events)}


def measure_steps(step, seconds):
    """us a step, of slices of 0.25 s."""
    run_steps(step, 100)
    slices, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        n, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < 0.25:
            run_steps(step, 5)
            n += 5
        slices.append((time.perf_counter() - begin) / n * 1e6)
    return slices


def load(name, mode, n, out):
    result = {}
    if mode == "profiled":  # all of it: what the program does before is counted by both
        with profiler() as prof:
            run_steps(make_step(name), n)
        result = kernels_of(prof)
    elif mode == "plain":
        run_steps(make_step(name), n)
    elif mode == "within":
        step = make_step(name)
        run_steps(step, n)
        with profiler() as prof:
            run_steps(step, n)
        result = kernels_of(prof)
        time.sleep(4)
        run_steps(step, n)
    else:
        result = {"slices": measure_steps(make_step(name), float(n))}
    with open(out, "w", encoding="utf-8") as f:
        json.dump(result, f)


# --- the comparison ---

passed = failed = 0


def check(what, ok, detail=""):
    global passed, failed
    passed += ok
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} - {what} {detail}".rstrip(), flush=True)


def run(folder, gpuscope, name, mode, n, options=None):
    """What the program says, and our summary (None without options)."""
    out, summary = os.path.join(folder, "out.json"), os.path.join(folder, "summary.json")
    words = [sys.executable, os.path.abspath(__file__), "load", name, mode, str(n), out]
    if options is not None:
        words = [gpuscope, "trace", "-q", "--summary-only", "--format", "json", "--summary", summary, *options, "--", *words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        check(f"{name} {mode} {options}: it ran", False, done.stderr[-500:])
        return {}, {}
    with open(out, encoding="utf-8") as f:
        said = json.load(f)
    if options is None:
        return said, None
    with open(summary, encoding="utf-8") as f:
        return said, json.load(f)


def squeeze(name):
    """Without blanks, and as far as a summary has it: names of 4,096 bytes are cut."""
    return "".join(name.split())[:3800]


def agree(folder, gpuscope):
    for name in ("mlp", "decode"):
        theirs, _ = run(folder, gpuscope, name, "profiled", STEPS[name])
        _, summary = run(folder, gpuscope, name, "plain", STEPS[name], ["--inside=gpu", *OPEN])
        g = (summary or {}).get("gpu_time")
        check(f"{name}: GPU time is known", bool(g and g["kernels"]), (g or {}).get("refusal") or "")
        if not theirs or not g:
            continue
        wanted, ours = {}, {}
        for k, (runs, us) in theirs["kernels"].items():
            row = wanted.setdefault(squeeze(k), [0, 0.0])
            row[0] += runs
            row[1] += us
        for k in g["kernels"]:
            ours[squeeze(k["name"] or "?")] = (k["runs"], k["total_ns"] / 1000)
        check(f"{name}: all {len(wanted)} names agree", set(wanted) == set(ours), f"{list(set(wanted) ^ set(ours))[:4]}")
        both = set(wanted) & set(ours)
        odd = {k: (wanted[k][0], ours[k][0]) for k in both if wanted[k][0] != ours[k][0]}
        check(f"{name}: runs of each kernel are equal, {sum(v[0] for v in wanted.values())} in sum", not odd, f"{list(odd.items())[:4]}")
        total = sum(v[1] for v in wanted.values())
        far = {k[:60]: round(100 * (ours[k][1] / ours[k][0] / (wanted[k][1] / wanted[k][0]) - 1), 2) for k in both if wanted[k][1] > 0.01 * total}
        check(f"{name}: the mean time of each kernel (1 % of the time and more) is within 1 %", all(abs(v) <= 1 for v in far.values()), f"{far}")
        whole = 100 * (sum(v[1] for v in ours.values()) / total - 1)
        check(f"{name}: the sum is within 1 %", abs(whole) <= 1, f"{whole:+.2f} %, {total / 1000:.1f} ms")
        check(f"{name}: nothing was dropped", not (g["records_dropped"] or g["buffers_discarded"] or g["records_bad"] or g["left_out"]), f"{g['untimed']} untimed")
        _, summary = run(folder, gpuscope, name, "plain", STEPS[name], ["--inside=calls,gpu", *OPEN])
        if summary:
            calls = sum(f["calls"] - f["errors"] for f in summary["functions"] if f["name"] in LAUNCHES)
            runs = sum(k["runs"] for k in summary["gpu_time"]["kernels"])
            check(f"{name}: launches seen from inside are kernels that ran", calls == runs, f"{calls}, {runs}")


def give_way(folder, gpuscope):
    n = STEPS["mlp"]
    alone, _ = run(folder, gpuscope, "mlp", "within", n)
    within, summary = run(folder, gpuscope, "mlp", "within", n, ["--inside=gpu", *OPEN])
    g = (summary or {}).get("gpu_time")
    if not alone or not g:
        check("torch.profiler in our run", False)
        return
    runs = [{k: v[0] for k, v in s["kernels"].items()} for s in (alone, within)]
    check("torch.profiler has in our run the kernels that it has alone", runs[0] == runs[1], f"{sum(runs[0].values())}, {sum(runs[1].values())}")
    check("and as many launches", alone["launches"] == within["launches"], f"{alone['launches']}, {within['launches']}")
    us = [sum(v[1] for v in s["kernels"].values()) for s in (alone, within)]
    check("and their time", abs(us[1] / us[0] - 1) < 0.02, f"{us[0]:.0f}, {us[1]:.0f} us")
    check("windows ended for it once, and went on", g["windows_yielded"] >= 1 and g["windows"] > g["windows_yielded"], f"{g['windows_yielded']} of {g['windows']}")
    mine = sum(k["runs"] for k in g["kernels"])
    check("we have the kernels around it", mine >= 2 * sum(runs[0].values()), f"{mine}, {2 * sum(runs[0].values())} in the steps before and after")


def quartiles(values):
    q = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return f"{q[1]:+6.2f} % (quartiles {q[0]:+.2f} {q[2]:+.2f})"


def cost(folder, gpuscope, rounds):
    ways = {"open window": ["--inside=gpu", *OPEN], "1 s in 20 s": ["--inside=gpu"]}
    for name in LOADS:
        pairs = {way: [] for way in ways}
        for _ in range(rounds):
            for way, options in ways.items():
                seconds = SECONDS if way == "open window" else WINDOWED_SECONDS
                bare, _ = run(folder, gpuscope, name, "measured", seconds)
                with_us, summary = run(folder, gpuscope, name, "measured", seconds, ["--layer", "mpi", *options])
                if not bare or not with_us:
                    continue
                middle = statistics.median if way == "open window" else statistics.mean
                pairs[way].append(100 * (middle(with_us["slices"]) / middle(bare["slices"]) - 1))
                g = summary["gpu_time"] or {}
                print(f"    {name} {way}: {middle(bare['slices']):.1f} -> {middle(with_us['slices']):.1f} us a step; windows {g.get('windows')}, "
                      f"kernels {sum(k['runs'] for k in g.get('kernels', []))}, dropped {g.get('records_dropped')}", flush=True)
        for way, values in pairs.items():
            if values:
                print(f"  {name:7s} {way:12s} steps longer by {quartiles(values)}, {len(values)} pairs", flush=True)


def main():
    if sys.argv[1] == "load":
        load(sys.argv[2], sys.argv[3], float(sys.argv[4]) if sys.argv[3] == "measured" else int(sys.argv[4]), sys.argv[5])
        return 0
    gpuscope = os.path.join(sys.argv[1], "src", "gpuscope")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    parts = sys.argv[3:] or ["agree", "yield", "cost"]
    with tempfile.TemporaryDirectory() as folder:
        if "agree" in parts:
            agree(folder, gpuscope)
        if "yield" in parts:
            give_way(folder, gpuscope)
        if "cost" in parts:
            cost(folder, gpuscope, rounds)
    print(f"inside_gpu: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
