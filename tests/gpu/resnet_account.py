"""What the steps of resnet_held_up (verdict_programs.py) are made of, by the program's own clock and by CUPTI: resnet_account.py MODE

parts     100 steps, and how long each waits for its batch, runs backward, and reads the loss
gpu       20 steps under torch.profiler: when the GPU runs kernels, and how it stands still
host      the same batch again and again: steps with the loss read, and with a synchronisation every tenth
Prints one line of JSON; each mode is a run of its own."""
import json
import os
import statistics
import sys
import time

import verdict_programs

STEPS = {"parts": 100, "gpu": 20, "host": 60}
spent_s = {}


def timed(holder, name, part):
    """Calls of it add to a part of the step."""
    function = getattr(holder, name)

    def call(*args, **options):
        start = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            spent_s[part] = spent_s.get(part, 0) + time.perf_counter() - start
    setattr(holder, name, call)


def run_steps(step, n):
    """[(length of a step, its parts)]"""
    steps = []
    for _ in range(n):
        spent_s.clear()
        start = time.perf_counter()
        step()
        steps.append((time.perf_counter() - start, dict(spent_s)))
    return steps


def say_steps(steps):
    parts = {p for _, own in steps for p in own}
    return {"steps": len(steps), "median_ms": 1e3 * statistics.median(s for s, _ in steps),
            "mean_ms": 1e3 * statistics.mean(s for s, _ in steps),
            "deciles_ms": [round(1e3 * q, 1) for q in statistics.quantiles([s for s, _ in steps], n=10)],
            "parts_mean_ms": {p: round(1e3 * statistics.mean(own.get(p, 0) for _, own in steps), 2) for p in sorted(parts)},
            "parts_median_ms": {p: round(1e3 * statistics.median(own.get(p, 0) for _, own in steps), 2) for p in sorted(parts)}}


def union_us(spans):
    """(time covered, gaps) of intervals that are sorted by their start."""
    covered, gaps, end = 0.0, [], None
    for start, stop in spans:
        if end is not None and start > end:
            gaps.append(start - end)
        covered += max(0.0, stop - max(start, end if end is not None else start))
        end = stop if end is None else max(end, stop)
    return covered, gaps


def measure_gpu(step):
    import torch
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        steps = run_steps(step, STEPS["gpu"])
        torch.cuda.synchronize()
    path = "/tmp/resnet_account.trace.json"
    profile.export_chrome_trace(path)
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    os.unlink(path)
    work = sorted((e["ts"], e["ts"] + e["dur"], e["cat"]) for e in events
                  if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and "dur" in e)
    kernels = [(s, e) for s, e, c in work if c == "kernel"]
    covered, gaps = union_us(kernels)
    calls = {}
    for e in events:
        if e.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls[e["name"]] = calls.get(e["name"], 0) + 1
    waits = [e["dur"] for e in events if e.get("name") == "cudaStreamSynchronize"]
    gaps.sort(reverse=True)
    whole = kernels[-1][1] - kernels[0][0]
    return {**say_steps(steps), "kernels": len(kernels), "kernels_busy_ms_per_step": covered / 1e3 / len(steps),
            "busy_share_from_first_to_last_kernel": covered / whole,
            "gaps_over_1ms": [round(g / 1e3, 2) for g in gaps if g > 1000][:80],
            "gaps_below_1ms_total_ms_per_step": sum(g for g in gaps if g <= 1000) / 1e3 / len(steps),
            "copies_ms": round(sum(e - s for s, e, c in work if c == "gpu_memcpy") / 1e3 / len(steps), 2),
            "stream_synchronize": {"calls": len(waits), "ms": sorted((round(w / 1e3, 2) for w in waits), reverse=True)[:60]},
            "calls": dict(sorted(calls.items(), key=lambda c: -c[1])[:12])}


def measure_host(step):
    import torch
    batch = torch.zeros(128, 3, 224, 224).pin_memory(), torch.ones(128, dtype=torch.long).pin_memory()

    class Same:
        def __init__(self, *_, **__):
            pass

        def __iter__(self):
            return self

        def __next__(self):
            return batch
    torch.utils.data.DataLoader = Same
    item = torch.Tensor.item
    timed(torch.Tensor, "item", "item")
    timed(torch.Tensor, "backward", "backward")
    for _ in range(verdict_programs.WARM_UP_STEPS):
        step()
    read = say_steps(run_steps(step, STEPS["host"]))
    torch.Tensor.item = lambda self: 0
    begin = time.perf_counter()
    for i in range(STEPS["host"]):
        step()
        if i % 10 == 9:
            torch.cuda.synchronize()
    ahead_ms = 1e3 * (time.perf_counter() - begin) / STEPS["host"]
    torch.Tensor.item = item
    return {"loss_read_each_step": read, "synchronised_each_tenth_ms": ahead_ms}


def measured(mode):
    def forever(step):
        import torch
        import torch.utils.data.dataloader as dataloader
        if mode == "host":
            return print(json.dumps({mode: measure_host(step)}))
        timed(torch.Tensor, "item", "item")
        timed(torch.Tensor, "backward", "backward")
        timed(dataloader._MultiProcessingDataLoaderIter, "_next_data", "batch")
        for _ in range(verdict_programs.WARM_UP_STEPS + 10):
            step()
        print(json.dumps({mode: measure_gpu(step) if mode == "gpu" else say_steps(run_steps(step, STEPS[mode]))}), flush=True)
    return forever


if __name__ == "__main__":
    verdict_programs.forever = measured(sys.argv[1])
    verdict_programs.resnet_held_up()
    sys.stdout.flush()
    os._exit(0)
