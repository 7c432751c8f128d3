#!/usr/bin/env python3
"""What does sampling GPUs cost the job on them? One process trains without a pause, and `gpuscope agent`
runs or does not, in turns within seconds of each other. Prints steps/s and the median ratio to the
turn without it.

agent_effect.py GPUSCOPE small|large|ddp ROUNDS; ddp is a loop on all GPUs at once"""
import bisect
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

GPUSCOPE, MODEL, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
TURN = 4.0
WAYS = {"none": None, "agent, 1 Hz": "1s", "agent, 10 Hz": "100ms"}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    seconds = str((TURN + 2) * len(WAYS) * ROUNDS + 40)
    program = ["ddp.py", seconds, "beat"] if MODEL == "ddp" else ["train.py", "spin", "--model", MODEL, "--seconds", seconds]
    app = subprocess.Popen([sys.executable, "-u", f"{here}/{program[0]}", *program[1:]], stdout=subprocess.PIPE, text=True, start_new_session=True)
    times, steps = [], []

    def read():
        for line in app.stdout:
            if not line[0].isdigit():
                continue
            t, n = line.split()
            times.append(int(t))
            steps.append(int(n))

    threading.Thread(target=read, daemon=True).start()
    while len(times) < 30:
        if app.poll() is not None:
            sys.exit("the training loop ended early")
        time.sleep(0.1)
    rates = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for way, interval in WAYS.items():
                agent = None
                if interval:
                    conf = folder + "/agent.yaml"
                    with open(conf, "w") as f:
                        f.write(f"http:\n  listen: 127.0.0.1:0\nsampling:\n  interval: {interval}\n")
                    agent = subprocess.Popen([GPUSCOPE, "agent", "-c", conf], stderr=subprocess.DEVNULL)
                    time.sleep(1)  # past its start
                begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                time.sleep(TURN)
                end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                time.sleep(0.3)
                if agent:
                    agent.terminate()
                    agent.wait()
                i, j = bisect.bisect_left(times, begin), bisect.bisect_right(times, end) - 1
                rates[way].append((steps[j] - steps[i]) / ((times[j] - times[i]) / 1e9))
    os.killpg(app.pid, signal.SIGKILL)  # ranks outlive the one that started them
    for way, r in rates.items():
        slower = [1 - a / b for a, b in zip(r, rates["none"])]
        print(f"  {MODEL:6s} {way:14s} {statistics.median(r):9.1f} steps/s  slower by {100 * statistics.median(slower):6.2f} %"
              f"  ({100 * min(slower):.2f} to {100 * max(slower):.2f})")


main()
