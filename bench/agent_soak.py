#!/usr/bin/env python3
"""How much the agent costs, and whether its memory stays, with a stand-in of the driver's library.

bench/agent_soak.py [--build FOLDER] [--seconds N] [--interval TIME] [--gpus N] [--scrape SECONDS]
                    [--costs=h200] [--no-events]

Reads CPU time and resident memory of the agent from /proc every ten seconds; fails when memory grew
by more than 1 MiB after the first minute (or fifth of the time), or passed 24 MiB. The stand-in's
calls cost less than the driver's; with --costs=h200 they take the CPU time measured on an H200. Its
wait for events wakes 200 times a second, which the driver's does not (--no-events leaves it out).
With GPUs: --library libnvidia-ml.so.1.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

TICKS = os.sysconf("SC_CLK_TCK")


def usage(pid):
    """(CPU seconds, resident bytes)."""
    with open(f"/proc/{pid}/stat") as f:
        stat = f.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return (int(stat[11]) + int(stat[12])) / TICKS, resident


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--library", help="of the driver; default: the stand-in")
    p.add_argument("--seconds", type=float, default=600)
    p.add_argument("--interval", default="100ms")
    p.add_argument("--gpus", type=int, default=8)
    p.add_argument("--scrape", type=float, default=15, help="seconds between scrapes; 0: none")
    p.add_argument("--costs", help="GPU whose measured CPU time the stand-in's calls take: h200")
    p.add_argument("--no-events", action="store_true")
    o = p.parse_args()
    fake = os.path.abspath(os.path.join(o.build, "tests/fake/libnvidia-ml.so.1"))
    with tempfile.TemporaryDirectory() as folder:
        conf, log = os.path.join(folder, "agent.yaml"), os.path.join(folder, "log")
        with open(conf, "w") as f:
            f.write(f"gpu:\n  library: {o.library or fake}\nhttp:\n  listen: 127.0.0.1:0\n"
                    f"sampling:\n  interval: {o.interval}\n  events: {str(not o.no_events).lower()}\n")
        with open(log, "w") as f:
            agent = subprocess.Popen([os.path.join(o.build, "src/gpuscope"), "agent", "-c", conf], stderr=f,
                                     env={**os.environ, "FAKE_NVML": f"gpus={o.gpus}" + (f",costs={o.costs}" if o.costs else "")})
        try:
            while "served at" not in open(log).read():
                if agent.poll() is not None:
                    sys.exit(open(log).read())
                time.sleep(0.1)
            url = re.search(r"http://\S+/metrics", open(log).read()).group()
            return measure(o, agent.pid, url)
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(30)


def scrape(url):
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    return urllib.request.urlopen(request, timeout=30).read()


def call_seconds(text):
    """{function of the driver's library: CPU seconds in it}."""
    return {m[1]: float(m[2]) for m in re.finditer(r'^gpuscope_agent_driver_call_cpu_seconds_total\{.*?call="(\w+)".*\} (\S+)$', text, re.M)}


def part_seconds(text):
    """{values read together: CPU seconds to read them}."""
    return {m[1]: float(m[2]) for m in re.finditer(r'^gpuscope_agent_values_cpu_seconds_total\{.*?values="(\w+)".*\} (\S+)$', text, re.M)}


def thread_seconds(pid):
    """{"name (thread id)": CPU seconds of the thread}."""
    seconds = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as f:
            name, stat = f.read().split("(", 1)[1].rsplit(")", 1)
        stat = stat.split()
        seconds[f"{name} ({thread})"] = (int(stat[11]) + int(stat[12])) / TICKS
    return seconds


def most_expensive(what, before, after, passed):
    """One line with the five entries that used the most CPU time, in percent of a core."""
    used = {name: 100 * (after[name] - before.get(name, 0)) / passed for name in after}
    most = sorted(used, key=used.get, reverse=True)[:5]
    return f"  by {what}: " + ", ".join(f"{name} {used[name]:.3f} %" for name in most if used[name] > 0)


def measure(o, pid, url):
    began = time.monotonic()
    settle = min(60, o.seconds / 5)
    next_scrape, next_line, settled = began, began, None
    cpu_0, _ = usage(pid)
    highest = 0
    while time.monotonic() < began + o.seconds:
        now = time.monotonic()
        if o.scrape and now >= next_scrape:
            scrape(url)
            next_scrape += o.scrape
        cpu, resident = usage(pid)
        highest = max(highest, resident)
        if settled is None and now - began >= settle:
            settled, settled_cpu, settled_at = resident, cpu, now
            served = urllib.request.urlopen(url).read().decode()
            settled_calls, settled_parts = call_seconds(served), part_seconds(served)
            settled_threads = thread_seconds(pid)
        if now >= next_line:
            print(f"{now - began:6.0f} s  CPU {100 * (cpu - cpu_0) / max(now - began, 1e-9):6.3f} %  "
                  f"RSS {resident / 2**20:6.2f} MiB", flush=True)
            next_line += 10
        time.sleep(0.5)
    cpu, resident = usage(pid)
    served = urllib.request.urlopen(url).read().decode()
    missed = [x for x in served.splitlines() if x.startswith("gpuscope_agent_samples")]
    passed = time.monotonic() - settled_at
    calls, threads = call_seconds(served), thread_seconds(pid)
    grown = resident - (settled or resident)
    print(f"{o.gpus} GPUs, every {o.interval}, {o.seconds:.0f} s: CPU {100 * (cpu - cpu_0) / (time.monotonic() - began):.3f} % "
          f"of a core ({100 * (cpu - settled_cpu) / passed:.3f} % after the first {settle:.0f} s, "
          f"of it {100 * (sum(calls.values()) - sum(settled_calls.values())) / passed:.3f} % in the driver's library), RSS {resident / 2**20:.2f} MiB (highest {highest / 2**20:.2f}), grown by {grown / 1024:.0f} KiB")
    print(most_expensive("thread", settled_threads, threads, passed))
    print(most_expensive("call", settled_calls, calls, passed))
    print(most_expensive("values", settled_parts, part_seconds(served), passed))
    print("\n".join(missed))
    return int(grown > 1 << 20 or highest > 24 << 20)


if __name__ == "__main__":
    sys.exit(main())
