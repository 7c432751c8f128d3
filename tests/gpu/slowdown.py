#!/usr/bin/env python3
"""How much slower a training loop runs while it is traced: one process trains without a pause, and
gpuscope is attached and detached in turns, so that both halves of each pair are the same process
within seconds. Prints iterations/s per turn and the median ratio.

slowdown.py GPUSCOPE small|large ROUNDS [FLOOR]: with FLOOR (bench/floor of the build) also what empty
programs on the launch functions cost, at both doors and at the driver's alone: the least that
catching entry and return of these calls can cost on this kernel and machine."""
import bisect
import statistics
import subprocess
import sys
import threading
import time

GPUSCOPE, MODEL, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
FLOOR = sys.argv[4] if len(sys.argv) > 4 else None
TURN = 3.0
DRIVER_ONLY = ["--layer", "cuda-driver,nccl"]
WAYS = {
    "none": None,
    "summary-only": ["--summary-only"],
    "whole events, .gst": ["-o", "/tmp/slowdown.gst"],
    "whole events, .pftrace": ["-o", "/tmp/slowdown.pftrace"],
    "summary-only, driver and NCCL": ["--summary-only"] + DRIVER_ONLY,
    ".gst, driver and NCCL": ["-o", "/tmp/slowdown.gst"] + DRIVER_ONLY,
}
DRIVER_LAUNCHES = [("libcuda.so", "cuLaunchKernel"), ("libcuda.so", "cuLaunchKernelEx")]
FLOORS = {
    "floor, both doors": [("libcudart.so", "cudaLaunchKernel")] + DRIVER_LAUNCHES,
    "floor, driver's door": DRIVER_LAUNCHES,
}


def boot():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def mapped(pid, name):
    for line in open(f"/proc/{pid}/maps"):
        path = line.split(None, 5)[-1].strip()
        if name in path.rsplit("/", 1)[-1] and "torchvision" not in path:
            return path
    sys.exit(f"{name} is not loaded")


def start_tracers(way, pid):
    """What this way attaches; ready when it returns."""
    if way in FLOORS:
        tracers = [subprocess.Popen([FLOOR, "session", mapped(pid, lib), func], stdout=subprocess.PIPE) for lib, func in FLOORS[way]]
        for t in tracers:
            t.stdout.readline()
        return tracers
    if WAYS[way] is None:
        return []
    tracer = subprocess.Popen([GPUSCOPE, "trace", "-q", "-p", str(pid), "--summary", "/tmp/slowdown.txt", "--format", "json"] + WAYS[way])
    time.sleep(0.8)
    return [tracer]


def main():
    ways = list(WAYS) + (list(FLOORS) if FLOOR else [])
    total = (TURN + 1.5) * len(ways) * ROUNDS + 30
    app = subprocess.Popen([sys.executable, "-u", __file__.replace("slowdown.py", "train.py"), "spin", "--model", MODEL,
                            "--seconds", str(total)], stdout=subprocess.PIPE, text=True)
    times, steps = [], []

    def read():
        for line in app.stdout:
            t, n = line.split()
            times.append(int(t))
            steps.append(int(n))

    threading.Thread(target=read, daemon=True).start()
    while len(times) < 30:
        if app.poll() is not None:
            sys.exit("the training loop ended early")
        time.sleep(0.1)

    def rate(begin, end):
        i, j = bisect.bisect_left(times, begin), bisect.bisect_right(times, end) - 1
        return (steps[j] - steps[i]) / ((times[j] - times[i]) / 1e9)

    rates = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way in ways:
            tracers = start_tracers(way, app.pid)
            begin = boot()
            time.sleep(TURN)
            end = boot()
            for t in tracers:
                t.send_signal(2)
            for t in tracers:
                t.wait()
            time.sleep(0.4)
            rates[way].append(rate(begin, end))
    app.kill()
    base = rates["none"]
    print(f"{MODEL} model, {ROUNDS} rounds of {TURN:.0f} s, iterations/s")
    for way, values in rates.items():
        slower = statistics.median(100 * (1 - v / b) for v, b in zip(values, base))
        print(f"  {way:30s} median {statistics.median(values):8.1f}  slower by {slower:5.2f} %   ({' '.join(f'{v:.0f}' for v in values)})")


main()
