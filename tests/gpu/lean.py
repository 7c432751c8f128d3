#!/usr/bin/env python3
"""What reading real GPUs costs: see lean.sh. LEAN_LIBRARY names another libnvidia-ml.so.1 (a stand-in
for a dry run); LEAN_FAST=1 shortens every turn; LEAN_ONLY=memory leaves all but memory out (75 s)."""
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
import xml.etree.ElementTree as ET

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD, OUT = os.path.abspath(sys.argv[1]), sys.argv[2]
GPUSCOPE = BUILD + "/src/gpuscope"
LIBRARY = os.environ.get("LEAN_LIBRARY", "")
SCALE = 0.2 if os.environ.get("LEAN_FAST") else 1
BEGAN = time.monotonic()
failed = 0


def say(*words):
    print(*words, flush=True)


def head(text):
    say(f"\n== {text}   (at {time.monotonic() - BEGAN:.0f} s)")


def library_options(option="--nvml"):
    return [option, LIBRARY] if LIBRARY else []


# --- each call ---

def calls(what, times):
    head(f"calls of the library, {what}")
    done = subprocess.run([BUILD + "/bench/gpu_calls", str(times), *([LIBRARY] if LIBRARY else [])], capture_output=True, text=True)
    say(done.stdout.rstrip() or done.stderr)


# --- the agent ---

class Agent:
    def __init__(self, interval):
        conf, self.log = f"{OUT}/agent-{interval}.yaml", f"{OUT}/agent-{interval}.log"
        with open(conf, "w") as f:
            f.write(f"http:\n  listen: 127.0.0.1:0\nsampling:\n  interval: {interval}\n" + (f"gpu:\n  library: {LIBRARY}\n" if LIBRARY else ""))
        with open(self.log, "w") as f:
            self.process = subprocess.Popen([GPUSCOPE, "agent", "-c", conf], stderr=f)
        self.interval = interval
        while "served at" not in open(self.log).read():
            if self.process.poll() is not None:
                sys.exit(open(self.log).read())
            time.sleep(0.05)
        self.url = re.search(r"http://\S+/metrics", open(self.log).read()).group()

    def cpu(self):
        pid = self.process.pid
        return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0]) for t in os.listdir(f"/proc/{pid}/task")) / 1e9

    def scrape(self):
        return urllib.request.urlopen(self.url, timeout=30).read().decode()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def mib(pid, what):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(x.split()[1]) for x in f if x.startswith(what + ":")) / 1024


def tell_mappings(what, pid, rows=12):
    """Resident memory of a process, and its largest mappings."""
    kinds, found, now = {}, {}, None
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            m = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+\s*(.*)", line)
            if m:
                now = found.setdefault((m.group(1), m.group(2) or "anonymous"), {"n": 0, "Rss": 0, "Anonymous": 0})
                now["n"] += 1
                continue
            key, value = line.split()[:2]
            if key in ("Rss:", "Pss:", "Anonymous:"):
                kinds[key[:-1]] = kinds.get(key[:-1], 0) + int(value) / 1024
                now[key[:-1]] = now.get(key[:-1], 0) + int(value) / 1024
    say(f"{what}: RSS {kinds['Rss']:.2f} PSS {kinds['Pss']:.2f} anonymous {kinds['Anonymous']:.2f} "
        f"files {kinds['Rss'] - kinds['Anonymous']:.2f} MiB")
    for (mode, name), m in sorted(found.items(), key=lambda x: -x[1]["Rss"])[:rows]:
        if m["Rss"] >= 0.02:
            say(f"  {mode} {m['Rss']:7.2f} MiB, {m['Anonymous']:6.2f} its own, {m['n']} x {name}")


def floor():
    """What a program has that does nothing but open the library and make each call once."""
    head("memory of a program that only opens the library and makes each call once, on all GPUs")
    p = subprocess.Popen([BUILD + "/bench/gpu_calls", "--floor", *([LIBRARY] if LIBRARY else [])], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    for line in p.stdout:
        say(line.rstrip())
        if "malloc_trim" in line:
            tell_mappings("it", p.pid)
            p.stdin.close()
    p.wait()


def memory_by_kind(pid):
    kinds = {}
    name = "?"
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            m = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+\s*(.*)", line)
            if m:
                path, mode = m.group(2), m.group(1)
                base = os.path.basename(path)
                name = ("heap" if path == "[heap]" else "stack" if path == "[stack]" else "anonymous" if not path
                        else "NVIDIA library" if "nvidia-ml" in base else "/dev/nvidia" if path.startswith("/dev/nvidia")
                        else "gpuscope" if base.startswith("gpuscope") else "other libraries")
                name += " (code)" if "x" in mode and path else ""
            elif line.startswith("Rss:"):
                kinds[name] = kinds.get(name, 0) + int(line.split()[1]) / 1024
    return "  ".join(f"{k} {v:.1f}" for k, v in sorted(kinds.items(), key=lambda x: -x[1]) if v >= 0.1)


def metric(text, name):
    return {m.group(1): float(m.group(2)) for m in re.finditer(rf"^{name}(?:_total)?(?:\{{(.*)\}})? (\S+)$", text, re.M)}


def measure(agent, seconds, what):
    """Behind what the start and the trying of ways cost."""
    settle = min(6, seconds)
    time.sleep(settle * (SCALE if SCALE < 1 else 1))
    before, text0, begin = agent.cpu(), agent.scrape(), time.monotonic()
    time.sleep(seconds * SCALE)
    after, wall = agent.cpu(), time.monotonic() - begin
    text = agent.scrape()
    open(f"{OUT}/agent-{agent.interval}-{what.replace(' ', '-')}.prom", "w").write(text)
    pid = agent.process.pid
    missed = sum(metric(text, "gpuscope_agent_samples_missed").values())
    driver0 = sum(metric(text0, "gpuscope_agent_driver_call_cpu_seconds").values())
    driver = sum(metric(text, "gpuscope_agent_driver_call_cpu_seconds").values())
    say(f"agent, each {agent.interval:5s} {what:12s} CPU {100 * (after - before) / wall:6.3f} % of a core "
        f"(the library {100 * (driver - driver0) / wall:.3f} %)  RSS {mib(pid, 'Rss'):.1f} PSS {mib(pid, 'Pss'):.1f} MiB  missed {missed:.0f}")
    return text0, text


def together():
    """Memory of the agent when its start is forgotten, at 1 and 10 Hz; both run at once to save time."""
    head("the agent after 60 s; two agents at once")
    agents = [Agent("1s"), Agent("100ms")]
    until = time.monotonic() + 62 * SCALE
    time.sleep(20 * SCALE)  # what the start costs is not counted
    before = [(agent.cpu(), time.monotonic()) for agent in agents]
    while time.monotonic() < until:
        time.sleep(1)
        if int(time.monotonic() - BEGAN) % 15 == 0:
            for agent in agents:
                agent.scrape()
    for agent, (cpu, began) in zip(agents, before):
        say(f"agent, each {agent.interval}: CPU {100 * (agent.cpu() - cpu) / (time.monotonic() - began):.3f} % of a core")
        tell_mappings(f"agent, each {agent.interval}", agent.process.pid)
        agent.stop()


def tell_costs(text0, text, pid):
    say("memory, MiB:", memory_by_kind(pid))
    before, after = (metric(t, "gpuscope_agent_values_cpu_seconds") for t in (text0, text))
    reads0, reads = (metric(t, "gpuscope_agent_values_reads") for t in (text0, text))
    interval = metric(text, "gpuscope_agent_values_interval_seconds")
    say(f"{'values':34s} {'ms each':>8s} {'reads':>6s} {'ms':>8s} {'every s':>8s}  way")
    rows = []
    for key, total in after.items():
        name = re.search(r'values="(\w+)"', key).group(1)
        n = reads[key] - reads0.get(key, 0)
        every = next(((v, re.search(r'method="(\w*)"', k).group(1)) for k, v in interval.items() if f'values="{name}"' in k), (0, ""))
        rows.append((total - before.get(key, 0), name, 1e3 * total / max(1, reads[key]), n, every))
    for spent, name, each, n, (every, way) in sorted(rows, reverse=True):
        say(f"{name:34s} {each:8.3f} {n:6.0f} {1e3 * spent:8.2f} {every:8.1f}  {way}")


# --- the training loop ---

class Loop:
    def __init__(self, seconds):
        self.process = subprocess.Popen([sys.executable, "-u", HERE + "/train.py", "spin", "--model", "large", "--seconds", str(seconds)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.rows = []
        threading.Thread(target=self.read, daemon=True).start()
        end = time.monotonic() + 60
        while len(self.rows) < 30 and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)

    def read(self):
        for line in self.process.stdout:
            t, n = line.split()
            self.rows.append((int(t), int(n)))

    def runs(self):
        return self.process.poll() is None and len(self.rows) >= 30

    def rate(self, begin, end):
        inside = [r for r in self.rows if begin <= r[0] <= end]
        return (inside[-1][1] - inside[0][1]) / ((inside[-1][0] - inside[0][0]) / 1e9) if len(inside) > 2 else float("nan")


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def beside_the_loop():
    head("beside a training loop that the GPU bounds")
    loop = Loop(120)
    if not loop.runs():
        say("SKIP: no PyTorch with a GPU here")
        return
    calls("under load", 6)
    spans = []

    def off():
        begin = boot_ns()
        time.sleep(4)
        spans.append(("none", begin, boot_ns()))

    for interval, seconds in (("1s", 10), ("100ms", 6)):
        off()
        agent = Agent(interval)
        time.sleep(2)
        begin = boot_ns()
        text0, text = measure(agent, seconds, "training loop")
        spans.append((interval, begin, boot_ns()))
        util = subprocess.run(["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader"], capture_output=True, text=True).stdout.split("\n")
        say("  utilisation: ours", [round(v, 2) for v in metric(text, "gpuscope_gpu_utilization_ratio").values()], "nvidia-smi", [u for u in util if u])
        if interval == "1s":
            tell_costs(text0, text, agent.process.pid)
        agent.stop()
    off()
    loop.process.terminate()
    rates = [(what, loop.rate(a, b)) for what, a, b in spans]
    none = [r for what, r in rates if what == "none"]
    for i, (what, r) in enumerate(rates):
        if what != "none":
            beside = statistics.mean([rates[i - 1][1], rates[i + 1][1]])
            say(f"loop beside the agent, each {what:5s}: {r:.2f} steps/s, {beside:.2f} before and after it: slower by {100 * (1 - r / beside):.2f} %"
                f" (turns without it differ by {100 * (max(none) / min(none) - 1):.2f} %)")


# --- values ---

CHECKS = [  # key of ours, elements of nvidia-smi's, its unit in ours, what it may differ beyond the two readings around it
    ("power_watts", ["gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw"], 1, 15),
    ("power_instant_watts", ["gpu_power_readings/instant_power_draw"], 1, 25),
    ("temperature_celsius", ["temperature/gpu_temp"], 1, 2), ("memory_temperature_celsius", ["temperature/memory_temp"], 1, 2),
    ("memory_used_bytes", ["fb_memory_usage/used"], 1 << 20, 8 << 20), ("memory_total_bytes", ["fb_memory_usage/total"], 1 << 20, 1 << 20),
    ("sm_clock_hertz", ["clocks/sm_clock"], 1e6, 300e6), ("memory_clock_hertz", ["clocks/mem_clock"], 1e6, 0),
    ("video_clock_hertz", ["clocks/video_clock"], 1e6, 300e6), ("power_limit_watts", ["gpu_power_readings/current_power_limit"], 1, 0.5),
    ("pcie_link_width", ["pci/pci_gpu_link_info/link_widths/current_link_width"], 1, 0), ("pcie_replays", ["pci/replay_counter"], 1, 0),
    ("row_remaps_correctable", ["remapped_rows/remapped_row_corr"], 1, 0), ("utilization_ratio", ["utilization/gpu_util"], 0.01, 0.1),
]


def smi():
    return ET.fromstring(subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True).stdout).findall("gpu")


def number(gpu, paths):
    for path in paths:
        m = re.match(r"-?[\d.]+", gpu.findtext(path) or "")
        if m:
            return float(m.group())
    return None


def values():
    global failed
    head("values against nvidia-smi -q -x")
    if LIBRARY:
        say("SKIP: not NVIDIA's library")
        return
    before = smi()
    done = subprocess.run([GPUSCOPE, "gpu", "--format", "json"], capture_output=True, text=True)
    after = smi()
    n = wrong = 0
    for ours, a, b in zip(json.loads(done.stdout)["gpus"], before, after):
        ours = {**ours, **ours.get("values", {})}
        for key, paths, unit, margin in CHECKS:
            x, y, v = number(a, paths), number(b, paths), ours.get(key)
            if x is None or y is None:
                continue
            n += 1
            low, high = min(x, y) * unit - margin, max(x, y) * unit + margin
            if v is None or not low <= v <= high:
                wrong += 1
                say(f"  DIFFERS GPU {ours.get('index')}: {key} {v}, nvidia-smi {x * unit} and {y * unit}")
    failed += wrong
    say(f"{n - wrong} of {n} values agree")


# --- top ---

def top():
    head("top")
    done = subprocess.run([sys.executable, HERE + "/../../bench/top.py", GPUSCOPE, *library_options(), "--starts", "5",
                           "--seconds", str(10 * SCALE)], capture_output=True, text=True)
    say(done.stdout.rstrip() + done.stderr)


def main():
    os.makedirs(OUT, exist_ok=True)
    if os.environ.get("LEAN_ONLY") == "memory":
        floor()
        together()
        return 0
    calls("idle", 20)
    head("the agent, GPUs idle")
    for interval, seconds in (("1s", 12), ("100ms", 6)):
        agent = Agent(interval)
        text0, text = measure(agent, seconds, "idle")
        if interval == "1s":
            tell_costs(text0, text, agent.process.pid)
        agent.stop()
    values()
    top()
    beside_the_loop()
    floor()
    together()
    say(f"\nlean: {failed} failed, {time.monotonic() - BEGAN:.0f} s")
    return 1 if failed else 0


sys.exit(main())
