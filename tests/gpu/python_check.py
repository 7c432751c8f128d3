"""Checks of python.sh. One line each; exit status 1 when one fails.

python_check.py lines FOLDER
python_check.py slowdown GPUSCOPE small|large ROUNDS
"""
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import time

failed = 0


def check(what, ok, detail=""):
    global failed
    failed += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {what} {detail}".rstrip(), flush=True)


def check_lines(folder):
    want = json.load(open(folder + "/lines.want"))
    events = json.load(open(folder + "/lines.json"))["traceEvents"]
    mine = [e for e in events if e.get("pid") == want["pid"] and want["begin_ns"] <= round(e.get("ts", 0) * 1000) <= want["end_ns"]]
    launches = [e for e in mine if e["ph"] == "X" and "LaunchKernel" in e["name"]]
    with_line = [e for e in launches if "python" in e["args"]]
    by_line = collections.Counter()
    for e in with_line:
        place = re.match(r"(\S+) \((.*):(\d+)\)$", e["args"]["python"])
        if place and place[2].endswith("python.py"):
            by_line[int(place[3])] += 1
    steps, depth, marks = want["steps"], want["depth"], want["marks"]
    check("launches in the window", len(launches) == steps * want["launches_per_step"],
          f"{len(launches)}, the profiler counts {want['launches_per_step']} a step, {steps} steps")
    # The backward pass runs in a thread of autograd's, which has no Python frame.
    main = [e for e in launches if e["tid"] == want["pid"]]
    check("launches of the main thread with a Python line", len(main) > 0 and all("python" in e["args"] for e in main),
          f"{sum('python' in e['args'] for e in main)} of {len(main)}")
    per_step = {m: by_line[n] / steps for m, n in marks.items()}
    print("     launches a step by line:", {m: round(v, 2) for m, v in per_step.items()})
    for mark, least in (("norm", depth), ("attention", 2 * depth), ("add", depth), ("up", depth), ("gelu", depth),
                        ("down", 2 * depth), ("loss", 1), ("optimizer", 1)):  # fmt: skip
        v = per_step[mark]
        check(f"line of {mark}", v >= least and v == int(v), f"{v} launches a step, at least {least} and the same in each")
    others = {n: c for n, c in by_line.items() if n not in marks.values()}
    check("no launch at another line of the step", not others, others or "")
    summary = json.load(open(folder + "/lines.summary"))
    rows = {x["line"]: x for x in summary["python_lines"] if x["file"] == want["file"]}
    check("the summary has the lines", all(rows.get(n, {}).get("launches", 0) >= by_line[n] > 0 for m, n in marks.items() if m != "backward"))
    stacks = [e for e in events if e.get("cat") == "python-sample" and e["pid"] == want["pid"]]
    named = [e for e in stacks if any("python.py" in f for f in e["args"]["stack"])]
    check("samples of the script", len(named) > 10, f"{len(named)} of {len(stacks)}")
    lost = {k: v for layer in summary["lost"].values() for k, v in layer.items() if k in ("stacks", "frames", "ring_full", "bad_event") and v}
    check("nothing lost", not lost, lost or "")


def rate(path, begin, end):
    """Steps a second between two boot times."""
    points = [tuple(map(int, line.split())) for line in open(path) if line.count(" ") == 1 and line.endswith("\n")]
    inside = [p for p in points if begin <= p[0] <= end]
    return (inside[-1][1] - inside[0][1]) / ((inside[-1][0] - inside[0][0]) / 1e9)


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


MODES = {
    "samples at 99 Hz": ["--python-hz", "99"],
    "calls as events": ["-o", "/tmp/gpuscope-python-cost.gst", "--max-size", "1G"],
    "calls, and a stack at each launch": ["-o", "/tmp/gpuscope-python-cost.gst", "--max-size", "1G", "--python-at", "launch"],
    "samples at 99 Hz, no CUDA function": ["--python-hz", "99", "--func", "cudaDeviceReset"],
}


def slowdown(gpuscope, model, rounds):
    here = os.path.dirname(os.path.abspath(__file__))
    path = f"/tmp/gpuscope-python-{model}.txt"
    # The loop runs on while each mode is put on and taken off; each is compared with both sides.
    period = 2.0
    seconds = 12 + rounds * len(MODES) * (2 * period + 3)
    with open(path, "w") as f:
        loop = subprocess.Popen([sys.executable, here + "/python.py", "spin", "--model", model, "--seconds", str(seconds)], stdout=f)
    while sum(1 for _ in open(path)) < 10:
        if loop.poll() is not None:
            check(f"{model}: the loop runs", False)
            return
        time.sleep(0.1)
    cost = {m: [] for m in MODES}
    plain = []
    for _ in range(rounds):
        for mode, options in MODES.items():
            a = boot_ns()
            time.sleep(period)
            b = boot_ns()
            tracer = subprocess.Popen([gpuscope, "trace", "-q", "-p", str(loop.pid), "--summary", "/dev/null", *options],
                                      stderr=subprocess.DEVNULL)  # fmt: skip
            time.sleep(1.5)
            c = boot_ns()
            time.sleep(period)
            d = boot_ns()
            tracer.send_signal(2)
            tracer.wait()
            time.sleep(0.3)
            cost[mode].append((rate(path, a, b), (c, d)))
            plain.append(rate(path, a, b))
    loop.terminate()
    loop.wait()
    noise = (max(plain) - min(plain)) / statistics.median(plain) * 100
    print(f"     {model}: {statistics.median(plain):.1f} steps/s untraced, which varied by {noise:.1f} %")
    for mode, runs in cost.items():
        slower = [(before - rate(path, *window)) / before * 100 for before, window in runs]
        text = f"{statistics.median(slower):+.2f} % (runs {', '.join(f'{x:+.1f}' for x in slower)})"
        if mode.startswith("samples at 99 Hz, no"):
            # Below what the loop varies by itself, a per cent cannot be told.
            check(f"{model}: {mode}: below 1 %", statistics.median(slower) < max(1, noise), text)
        else:
            print(f"     {model}: {mode}: slower by {text}")


if __name__ == "__main__":
    if sys.argv[1] == "lines":
        check_lines(sys.argv[2])
    else:
        slowdown(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.exit(failed > 0)
