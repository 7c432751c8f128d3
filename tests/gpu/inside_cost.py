#!/usr/bin/env python3
"""What each way to look from inside costs a loop on a GPU: see inside_cost.sh. `inside_cost.py load NAME` is the program."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

OPEN, BETWEEN = ["--gpu-window", "600s/1200s"], ["--gpu-window", "1s/1200s"]
FILE = "FILE"  # in place of a recording's name
WAYS = {
    "again untraced": None,
    "calls": ["--inside=calls"],
    "calls, events": ["--inside=calls", "-o", FILE],
    "ops": ["--layer", "torch", "--inside=ops"],
    "ops, all": ["--layer", "torch", "--inside=ops", "--op-set", "all"],
    "python": ["--layer", "python", "--inside=python"],
    "calls,ops,python": ["--inside=calls,ops,python"],
    "gpu, open window": ["--layer", "mpi", "--inside=gpu", *OPEN],
    "gpu, open, events": ["--layer", "mpi", "--inside=gpu", *OPEN, "-o", FILE],
    "gpu, between": ["--layer", "mpi", "--inside=gpu", *BETWEEN],
    "probes": ["--layer", "cuda"],
    "probes, operators": ["--layer", "cuda,torch"],
}
START_S, TURN_S, SLICE_S, SETTLE_S = 120, 0.6, 0.1, 0.1


def load(name):
    import torch
    from inside_gpu import make_step, run_steps

    step = make_step(name)
    begin = time.perf_counter()
    while time.perf_counter() - begin < 2.5:
        run_steps(step, 5)
    print("ready", flush=True)
    for _ in sys.stdin:
        begin, slices = time.perf_counter(), []
        while time.perf_counter() - begin < SETTLE_S:
            run_steps(step, 5)
        while time.perf_counter() - begin < SETTLE_S + TURN_S:
            n, at = 0, time.perf_counter()
            while time.perf_counter() - at < SLICE_S:
                run_steps(step, 5)
                n += 5
            slices.append((time.perf_counter() - at) / n * 1e6)
        print(json.dumps(statistics.median(slices)), flush=True)
    torch.cuda.synchronize()


class Program:
    def __init__(self, folder, gpuscope, name, way, options):
        words, self.way = [sys.executable, "-u", os.path.abspath(__file__), "load", name], way
        path = os.path.join(folder, way.replace(" ", "_").replace(",", "_"))
        if options is not None:
            options = [path + ".gst" if o is FILE else o for o in options]
            words = [gpuscope, "trace", "-q", "--format", "json", "--summary", path + ".json", *options, "--", *words]
        self.summary = path + ".json"
        with open(path + ".err", "w", encoding="utf-8") as err:
            self.proc = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)

    def wait_ready(self):
        return any(line.strip() == "ready" for line in self.proc.stdout)

    def turn(self):
        """us a step, or None."""
        try:
            self.proc.stdin.write("go\n")
            self.proc.stdin.flush()
            return float(self.proc.stdout.readline())
        except (OSError, ValueError):
            return None

    def end(self):
        self.proc.stdin.close()
        try:
            self.proc.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.proc.kill()
        if os.path.exists(self.summary):
            with open(self.summary, encoding="utf-8") as f:
                return json.load(f)
        return None


def quartiles(values):
    q = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{q[0]:8.2f} {q[1]:8.2f} {q[2]:8.2f}"


def describe(summary):
    if not summary:
        return ""
    g = summary.get("gpu_time") or {}
    ops = sum(f["calls"] for f in summary["functions"] if f["layer"] == "torch")
    launches = sum(f["calls"] for f in summary["functions"] if f["class"] in ("launch", "graph-launch"))
    python = sum(f["calls"] for f in summary["python_functions"])
    kernels = sum(k["runs"] for k in g.get("kernels", []))
    lost = {k: v for layer in summary["lost"].values() for k, v in layer.items() if k not in ("late_attach", "map_notices", "first_calls", "process_gone")}
    return f"launches {launches}, operators {ops}, Python {python}, kernels {kernels}, windows {g.get('windows')}, {g.get('refusal') or ''} lost {lost}"


def compare(gpuscope, name, rounds, chosen):
    with tempfile.TemporaryDirectory() as folder:
        base = Program(folder, gpuscope, name, "untraced", None)
        programs = [Program(folder, gpuscope, name, way, WAYS[way]) for way in chosen]
        alive = [p for p in [base, *programs] if p.wait_ready()]
        for p in programs:
            if p not in alive:
                print(f"not ok - {name}, {p.way}: it did not start", flush=True)
        found, bases = {p.way: [] for p in programs}, []
        for n in range(rounds):
            turns = [*programs[n % len(programs):], *programs[:n % len(programs)]]
            for p in turns:
                before = base.turn()
                us = p.turn() if p in alive else None
                if us and before:
                    found[p.way].append((before, us))
                    bases.append(before)
        print(f"{name}: us a step, untraced {quartiles(bases)}; {rounds} rounds of {TURN_S} s, each beside an untraced turn just before; quartiles")
        base.end()
        for p in programs:
            summary = p.end()
            if found[p.way]:
                print(f"  {p.way:20s} {quartiles([100 * (b / a - 1) for a, b in found[p.way]])} %  {quartiles([b - a for a, b in found[p.way]])} us a step; {describe(summary)}",
                      flush=True)  # fmt: skip


def main():
    if sys.argv[1] == "load":
        load(sys.argv[2])
        return 0
    gpuscope, rounds, name = os.path.join(os.path.abspath(sys.argv[1]), "src", "gpuscope"), int(sys.argv[2]), sys.argv[3]
    compare(gpuscope, name, rounds, sys.argv[4:] or list(WAYS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
