#!/usr/bin/env python3
"""How much slower a training loop runs while it is traced: one process trains without a pause, and
gpuscope is attached and detached in turns, so that both halves of each pair are the same process
within seconds. Prints iterations/s per turn and the median ratio."""
import bisect
import statistics
import subprocess
import sys
import threading
import time

GPUSCOPE, MODEL, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
TURN = 3.0
WAYS = {
    "none": None,
    "summary-only": ["--summary-only"],
    "whole events, .gst": ["-o", "/tmp/slowdown.gst"],
    "whole events, .pftrace": ["-o", "/tmp/slowdown.pftrace"],
}


def boot():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def main():
    total = (TURN + 1.2) * len(WAYS) * ROUNDS + 30
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

    rates = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way, options in WAYS.items():
            tracer = None
            if options is not None:
                tracer = subprocess.Popen([GPUSCOPE, "trace", "-q", "-p", str(app.pid), "--summary", "/tmp/slowdown.txt",
                                           "--format", "json"] + options)
                time.sleep(0.8)
            begin = boot()
            time.sleep(TURN)
            end = boot()
            if tracer:
                tracer.send_signal(2)
                tracer.wait()
            time.sleep(0.4)
            rates[way].append(rate(begin, end))
    app.kill()
    base = rates["none"]
    print(f"{MODEL} model, {ROUNDS} rounds of {TURN:.0f} s, iterations/s")
    for way, values in rates.items():
        slower = statistics.median(100 * (1 - v / b) for v, b in zip(values, base))
        print(f"  {way:24s} median {statistics.median(values):8.1f}  slower by {slower:5.2f} %   ({' '.join(f'{v:.0f}' for v in values)})")


main()
