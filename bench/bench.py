#!/usr/bin/env python3
"""What tracing costs the traced program and what reading costs, in one table.

Every figure of a call is the difference to the untraced call of the same round; rounds are
interleaved over all rows, figures are medians over rounds (of the median of short chunks, and of
the best chunk, which a busy machine disturbs least and by which targets are judged), and what
counts is their ratio to the floor of the same run (an empty program on the same kind of link):
nanoseconds of one machine say nothing about another. Nothing here fails because of a time; what is not there is shown as SKIP.
"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHM = "/dev/shm/gpuscope-bench"

# title, library, function, how far in the cheap site is
CALLS = {
    "malloc": ("cudaMalloc, push", "null/libcudart.so.13", "cudaMalloc", 0),
    "launch": ("cudaLaunchKernel, push", "null/libcudart.so.13", "cudaLaunchKernel", 0),
    "sync": ("cudaStreamSynchronize, push", "null/libcudart.so.13", "cudaStreamSynchronize", 0),
    "endbr": ("cudaMalloc, endbr64", "null_endbr/libcudart.so.13", "cudaMalloc", 4),
    "operator": ("an operator, push and jmp", "null/libtorch_cpu.so", "_ZN2at4_ops7nothing4callEv", 0),
    "stub": ("cuMemAlloc_v2, stub of 535", "null_stub/libcuda.so.1", "cuMemAlloc_v2", 10),
}
OPERATOR_EXIT = 7  # bytes: tests/fake/null_torch.c
OPERATOR_NAME = "aten::nothing"
TARGETS = [  # what, by what, at most
    ("summary", "floor", 1.1), ("summary", "bpftrace-hist", 0.7),
    ("events-gst", "floor", 1.2), ("events-gst", "eacgm", 0.55),
]


def say(*words):
    print(*words, flush=True)


def median(values):
    return statistics.median(values) if values else float("nan")


def mean_load():
    return os.getloadavg()[0]


class Bench:
    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.fake = self.build + "/tests/fake/"
        self.cpu = max(os.cpu_count() - 1, 0)
        self.skipped = {}
        os.makedirs(SHM, exist_ok=True)

    def spin(self, call, *more):
        _, lib, func, _ = CALLS[call]
        return [self.fake + "spin", "--lib", self.fake + lib, "--func", func, *map(str, more)]

    def fast(self, call, stepped=False):
        # Chunks shorter than a time slice: most are not interrupted by other programs.
        return self.spin(call, "--calls", 100 if stepped else 1000, "--chunks", 200 if stepped else 400,
                         "--cpu", self.cpu)

    def gpuscope(self, options, command, build=None, during=None):
        """Runs the command under gpuscope; (spin's JSON, the summary, what during() returned)."""
        summary = SHM + "/summary.json"
        # Where gpuscope looks before the command starts: the probes are in place when it does.
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(command[2]))
        p = subprocess.Popen([(build or self.build) + "/src/gpuscope", "trace", "-q", "--format", "json",
                              "--summary", summary, *options, "--", *command],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        seen = during(p.pid) if during else None
        out, err = p.communicate()
        if p.returncode != 0:
            raise RuntimeError("gpuscope: " + err.strip()[-300:])
        with open(summary) as f:
            return json.loads(out), json.load(f), seen

    def plain(self, command):
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)

    def under(self, tool, env, ready, stop, command):
        """Runs the command while the tool is attached; None when the tool cannot be had here."""
        with open(SHM + "/tool.out", "w") as out:
            p = subprocess.Popen(tool, stdout=out, stderr=subprocess.STDOUT, env=env)
        text = ""
        for _ in range(300):
            time.sleep(0.05)
            with open(SHM + "/tool.out", errors="replace") as f:
                text = f.read(4096)
            if all(w in text for w in ready) or p.poll() is not None:
                break
        if p.poll() is not None or any(w not in text for w in ready):
            if p.poll() is None:
                p.kill()
            p.wait()
            return None, (text.strip().splitlines() or ["it said nothing"])[-1][-200:]
        time.sleep(0.3)
        out = self.plain(command)
        ended = p.poll()
        p.send_signal(stop)
        try:
            p.wait(20)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        if ended is not None:  # its probes went with it, so what was measured is not its cost
            with open(SHM + "/tool.out", errors="replace") as f:
                return None, (f.read().strip().splitlines() or ["it ended early"])[-1][-200:]
        return out, ""

    # --- (a) what a call costs ---

    def rows(self, call):
        def floor(kind):
            return lambda call: self.under(
                [self.build + "/bench/floor", kind, self.fake + CALLS[call][1], CALLS[call][2],
                 str(CALLS[call][3]), str(OPERATOR_EXIT)], None, ("READY",), signal.SIGTERM, self.fast(call))

        def ours(*options, build=None, file=None, stepped=False, alone=False, view=None):
            def run(call):
                more = ["-o", SHM + "/x." + file] if file else ["--by", view] if view else ["--summary-only"]
                # The kernel takes 0.1 s to remove each single link, and nothing can be attached meanwhile.
                more += ["--func", CALLS[call][2]] if alone else []
                more += ["--layer", "torch", "--op", OPERATOR_NAME] if call == "operator" else []
                out, summary, _ = self.gpuscope([*options, *more], self.fast(call, stepped), build)
                self.check(" ".join([*options, *more]), call, out, summary)
                return out, ""
            return run

        def bpftrace(program):
            def run(call):
                if not shutil.which("bpftrace"):
                    return None, "bpftrace is not installed"
                text = program.replace("LIB", self.fake + CALLS[call][1]).replace("FN", CALLS[call][2])
                # It says that it attaches, not that it has; all between these two is in place.
                text = 'interval:ms:200 { printf("FIRST\\n"); } ' + text + \
                    ' interval:ms:200 { printf("LAST\\n"); }'
                return self.under(["bpftrace", "-e", text], None, ("FIRST", "LAST"), signal.SIGINT,
                                  self.fast(call, CALLS[call][3] > 0))
            return run

        def eacgm(call):
            return self.under(["/usr/bin/python3", HERE + "/eacgm_way.py", self.fake + CALLS[call][1],
                               CALLS[call][2]], None, ("READY",), signal.SIGTERM,
                              self.fast(call, CALLS[call][3] > 0))

        hist = ("uprobe:LIB:FN { @s[tid] = nsecs; } uretprobe:LIB:FN /@s[tid]/ "
                "{ @h[pid] = hist(nsecs - @s[tid]); delete(@s[tid]); }")
        line = ("uprobe:LIB:FN { @s[tid] = nsecs; } uretprobe:LIB:FN /@s[tid]/ "
                "{ printf(\"%d %d %lld %lld\\n\", pid, tid, @s[tid], nsecs - @s[tid]); delete(@s[tid]); }")
        rows = {
            "untraced": lambda call: (self.plain(self.spin(call, "--calls", 500000, "--chunks", 15,
                                                           "--cpu", self.cpu)), ""),
            "floor": floor("session"),
            "floor-clock": floor("session-clock"),
            "floor-hist": floor("session-hist"),
            "floor-ring": floor("session-ring"),
            "floor-record": floor("session-record"),
            "floor-record-read": floor("session-record-read"),
            "summary": ours(),
            "events-gst": ours(file="gst"),
            "inside": ours("--inside=calls"),
            "events-pftrace": ours(file="pftrace"),
            "events-json": ours(file="json"),
            "events-csv": ours(file="csv"),
            "by-stream": ours(view="stream"),
            "by-kernel": ours(view="kernel"),
            "floor-pair": floor("pair"),
            "floor-pair-clock": floor("pair-clock"),
            "summary-pair": ours("--disable-feature", "session"),
            "events-pair": ours("--disable-feature", "session", file="gst"),
            "summary-single": ours("--disable-feature", "session,multi", alone=True),
            "events-single": ours("--disable-feature", "session,multi", file="gst", alone=True),
            "summary-stepped": ours("--disable-feature", "moved-sites", stepped=True),
            "bpftrace-hist": bpftrace(hist),
            "bpftrace-printf": bpftrace(line),
            "eacgm": eacgm,
        }
        for build in self.args.also:
            build = os.path.abspath(build)
            rows["summary@" + os.path.basename(build)] = ours(build=build)
            rows["events-gst@" + os.path.basename(build)] = ours(build=build, file="gst")
        if call == "operator":
            keep = {"untraced", "floor", "floor-clock", "summary", "events-gst", "events-pftrace", "bpftrace-hist"}
            rows = {k: v for k, v in rows.items() if k in keep or "@" in k}
            for kind in ("sites", "sites-clock", "sites-hist"):
                rows["floor-" + kind] = floor(kind)
        if self.args.only:
            keep = {"untraced", *self.args.only.split(",")}
            rows = {k: v for k, v in rows.items() if k in keep or k.split("@")[0] in keep and "@" in k}
        return rows

    def check(self, name, call, out, summary):
        wanted = OPERATOR_NAME if call == "operator" else CALLS[call][2]
        seen = sum(f["calls"] for f in summary["functions"] if f["name"] == wanted)
        if seen != out["calls"] + 100 * out["threads"]:
            say(f"  note: {name}: {CALLS[call][2]}: {out['calls'] + 100 * out['threads']} calls, {seen} counted")

    def calls(self):
        for call in self.args.calls.split(","):
            rows = self.rows(call)
            if CALLS[call][3] == 0:
                rows.pop("summary-stepped", None)
            else:
                few = {"untraced", "floor", "floor-clock", "summary", "summary-stepped", "events-gst",
                       "bpftrace-hist", "eacgm"}
                rows = {k: v for k, v in rows.items() if k in few or "@" in k}
            ns = {name: [] for name in rows}
            best = {name: [] for name in rows}
            loads = []
            for _ in range(self.args.rounds):
                loads.append(mean_load())
                base = None
                for name, run in rows.items():
                    if name in self.skipped:
                        continue
                    out, why = run(call)
                    if out is None:
                        self.skipped[name] = why or "it did not start"
                        continue
                    if name == "untraced":
                        base = out
                    less = base if name != "untraced" else {"ns_median": 0, "ns_best": 0}
                    ns[name].append(out["ns_median"] - less["ns_median"])
                    best[name].append(out["ns_best"] - less["ns_best"])
            self.print_calls(call, ns, best, loads)

    def print_calls(self, call, ns, best, loads):
        floor = median(ns.get("floor"))
        clock = median(ns.get("floor-clock"))
        say(f"\n{CALLS[call][0]}: ns added to a call of {median(ns['untraced']):.1f} ns; "
            f"{self.args.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}")
        say(f"  {'':24s}{'ns':>8s}{'spread':>8s}{'/floor':>8s}{'/clock':>8s}"
            f"{'best':>8s}{'/floor':>8s}{'/clock':>8s}")
        for name, values in ns.items():
            if name == "untraced":
                continue
            if not values:
                say(f"  {name:24s}    SKIP {self.skipped.get(name, '')}")
                continue
            m = median(values) or 0.1
            spread = (sorted(values)[len(values) * 3 // 4] - sorted(values)[len(values) // 4]) / m * 100
            say(f"  {name:24s}{m:8.0f}{spread:7.0f}%{m / floor:8.2f}{m / clock:8.2f}"
                f"{median(best[name]):8.0f}{median(best[name]) / median(best.get('floor')):8.2f}"
                f"{median(best[name]) / median(best.get('floor-clock')):8.2f}")
        for what, by, most in TARGETS:
            if ns.get(what) and ns.get(by):
                ratio, r = (median(v[what]) / median(v[by]) for v in (ns, best))
                say(f"  target {what} <= {most} x {by}: {r:.2f} {'met' if r <= most else 'NOT met'}"
                    f" (by medians {ratio:.2f})")

    # --- (b) how many events, (c) what reading costs ---

    def cpu_ns(self, pid):
        total = 0
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
                total += int(f.read().split()[0])
        return total

    def memory(self, pid):
        # The ring is mapped twice, end to end: the share of each page counts it once.
        with open(f"/proc/{pid}/smaps_rollup") as f:
            own = int(re.search(r"Pss:\s+(\d+)", f.read()).group(1)) * 1024
        maps = {}
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            try:
                with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                    text = f.read()
            except OSError:
                continue
            number, held = (re.search(k + r":\s+(\d+)", text) for k in ("map_id", "memlock"))
            if number and held:
                maps[number.group(1)] = int(held.group(1))  # one map has several descriptors
        return own, sum(maps.values())

    def modes(self):
        return [("summary", ["--summary-only"]), ("gst", ["-o", SHM + "/x.gst"]),
                ("pftrace", ["-o", SHM + "/x.pftrace"]), ("json", ["-o", SHM + "/x.json"]),
                ("csv", ["-o", SHM + "/x.csv"]), ("by stream", ["--by", "stream"]), ("by kernel", ["--by", "kernel"])]

    def lost(self, summary):
        return sum(causes.get("ring_full", 0) for causes in summary["lost"].values())

    def rates(self):
        say("\nconsumer alone: events made by a program, 16 MiB ring, 3 s (target: no loss at 1.5 M/s)")
        for mode, options in self.modes()[1:3]:
            say(f"  {mode:10s}" + "  ".join(self.fill_line(options, r)
                                             for r in (1000000, 1500000, 2000000, 3000000)))
        say("highest paced rate of probes without a lost event: a thread on each processor, 16 MiB ring, 3 s")
        for mode, options in self.modes()[:3]:
            best, limit = 0, "not more was tried"
            threads = os.cpu_count()
            for rate in (100000, 200000, 300000, 400000, 600000, 800000, 1000000):
                command = self.spin("launch", "--rate", rate, "--seconds", 3, "--threads", threads,
                                    "--cpu", 0)
                out, summary, _ = self.gpuscope(["--ring-size", "16M", *options], command)
                lost, reached = self.lost(summary), out["calls_per_s"]
                if lost == 0:
                    best = max(best, reached)
                if lost or reached < 0.97 * rate * threads:
                    limit = f"lost {lost} at {reached:.0f}/s" if lost else "the probes are the limit"
                    break
            say(f"  {mode:10s}{best:12.0f}/s   {limit}")

    def fill_line(self, options, rate):
        def during(pid):
            time.sleep(1)
            before = self.cpu_ns(pid)
            out = subprocess.run(["taskset", "-c", str(self.cpu), self.build + "/bench/fill", str(pid),
                                  str(rate), "3"], stdout=subprocess.PIPE, text=True, check=True).stdout
            return json.loads(out), (self.cpu_ns(pid) - before) / 3e7
        idle = self.spin("launch", "--rate", 1, "--seconds", 5)
        _, _, (out, cpu) = self.gpuscope(["--ring-size", "16M", *options], idle, during=during)
        kept = "no loss" if out["lost"] == 0 else f"{out['lost'] * 100 / (out['lost'] + out['sent']):.1f}% lost"
        return f"{out['per_s'] / 1e6:.1f} M/s {kept} ({cpu:.0f}% CPU)"

    def reading(self):
        say("\nreading at 100,000 events/s: gpuscope's processor time over 5 s, its memory (the "
            "kernel's maps that it sees are among it), memory of all its maps (targets: < 5 % of "
            "a core, < 64 MiB)")
        for mode, options in self.modes():
            def during(pid):
                time.sleep(1.5)
                before = self.cpu_ns(pid)
                time.sleep(5)
                return (self.cpu_ns(pid) - before) / 5e7, self.memory(pid)
            command = self.spin("launch", "--rate", 100000, "--seconds", 8, "--cpu", self.cpu)
            _, summary, (cpu, (own, maps)) = self.gpuscope(options, command, during=during)
            met = "met" if cpu < 5 and own < 64 << 20 else "NOT met"
            say(f"  {mode:10s}{cpu:6.2f} %  {own / 2**20:6.1f} MiB + {maps / 2**20:6.1f} MiB  "
                f"lost {self.lost(summary)}  {met}")

    # --- (d) coming and going ---

    def attaching(self):
        say("\nattach to and detach from CUDA and NCCL in a running process, ms (medians)")
        hold = SHM + "/hold"
        if os.path.exists(hold):
            os.remove(hold)
        env = dict(os.environ, LD_LIBRARY_PATH=self.fake.rstrip("/"))
        p = subprocess.Popen([self.fake + "fake_app", "--hold-file", hold, "cudaLaunchKernel=1",
                              "ncclGroupStart=1", "ncclGroupEnd=1"], stdout=subprocess.DEVNULL, env=env)
        time.sleep(0.5)
        try:
            # Removing single links takes 0.1 s each, in the background, and nothing can be attached meanwhile.
            for engine in (["session"], ["multi"], ["single", "cudaLaunchKernel"]):
                runs = [self.plain([self.build + "/bench/attach", str(p.pid), *engine])
                        for _ in range(5)]
                say(f"  {engine[0]:10s}{runs[0]['probes']:4d} probes  " + "  ".join(
                    f"{key[:-3]} {median([r[key] for r in runs]):.0f}"
                    for key in ("load_ms", "attach_ms", "detach_ms")))
        finally:
            open(hold, "w").close()
            p.wait()


    # --- (f) the engine of streams, alone ---

    def stream_engine(self):
        """Calls that pipeline/gpu_activity follows in a second of a core, in user space (target: 20 M launches/s)."""
        say("\nengine of streams: processor time of a call in user space")
        say(subprocess.run([self.build + "/tests/unit/gpu_activity/bench_activity"], stdout=subprocess.PIPE, text=True, check=True).stdout.rstrip())

    # --- (e) lines of Python ---

    def python_lines(self):
        """What a program pays for its lines: one that only computes for those it runs, one that only waits for those it
        waits in, each beside the wall-clock account, which is counted in any case."""
        rows = {"account": ["--summary-only"], "account and lines": ["--summary-only", "--python-hz", "99"]}
        say("\nPython lines, 99 times a second: processor time of a program, in user and kernel, least of the rounds, and what is added")
        say(f"  {'':36s}{'untraced':>12s}" + "".join(f"{name:>20s}" for name in rows) + f"{'of them the lines':>20s}")
        for load, code in PYTHON_LOADS.items():
            command = ["/usr/bin/python3", "-c", code]
            spent = {name: [] for name in ("untraced", *rows)}
            for _ in range(self.args.rounds):
                spent["untraced"].append(self.plain(command)["cpu"])
                for name, options in rows.items():
                    done = subprocess.run([self.build + "/src/gpuscope", "trace", "-q", "--format", "json", "--summary", SHM + "/summary.json",
                                           *options, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, text=True)
                    spent[name].append(json.loads(done.stdout)["cpu"])
            # Others' work only adds: a program that was disturbed least is nearest to its cost.
            base = min(spent["untraced"])
            added = [(min(spent[name]) / base - 1) * 100 for name in rows]
            say(f"  {load:36s}{base:10.2f} s" + "".join(f"{x:18.2f} %" for x in (*added, added[1] - added[0])))


# Each ends with a line of JSON: seconds of processor time that its work took.
PYTHON_LOADS = {
    "computes, 40 functions open": """
import json, resource
def work(n):
    return sum(i * i for i in range(n))
def deep(n, left):
    return work(n) if not left else deep(n, left - 1)
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(1500):
    deep(40000, 38)
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}))
""",
    "hands items over, 40 functions open": """
import json, queue, resource, threading
there, back = queue.SimpleQueue(), queue.SimpleQueue()
def deep(function, left):
    return function() if not left else deep(function, left - 1)
def answer():
    while True:
        x = there.get()
        back.put(x)
def ask():
    for i in range(150000):
        there.put(i)
        back.get()
threading.Thread(target=deep, args=(answer, 38), daemon=True).start()
before = resource.getrusage(resource.RUSAGE_SELF)
deep(ask, 38)
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}))
""",
}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--parts", default="abcdef", help="a calls, b rates, c reading, d attaching, e lines of Python, f the engine of streams")
    ap.add_argument("--calls", default="malloc,launch,endbr,stub")
    ap.add_argument("--only", help="rows, by name")
    ap.add_argument("--also", action="append", default=[], help="another build, beside this one")
    args = ap.parse_args()
    if os.geteuid() != 0:
        say("SKIP: probes need root")
        return 0
    b = Bench(args)
    with open("/proc/cpuinfo") as f:
        text = f.read()
    cpu = re.search(r"model name\s*: (.*)", text)
    say(f"{cpu.group(1) if cpu else '?'}, {os.cpu_count()} processors, Linux {os.uname().release}, "
        f"{'virtual' if ' hypervisor' in text else 'not virtual'}")
    try:
        if "a" in args.parts:
            b.calls()
        if "b" in args.parts:
            b.rates()
        if "c" in args.parts:
            b.reading()
        if "d" in args.parts:
            b.attaching()
        if "e" in args.parts:
            b.python_lines()
        if "f" in args.parts:
            b.stream_engine()
    finally:
        shutil.rmtree(SHM, ignore_errors=True)
    return 0


sys.exit(main())
