#!/usr/bin/env python3
"""What CUPTI's records cost by themselves: see collector.sh. `collector.py ways LOAD ROUNDS` and
`survive PROGRAM KINDS CALLS FLAG END SECONDS` are the programs."""
import ctypes
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS, GRAPHS, SYNC = 1 << 10, 1 << 51, 1 << 38
OTHERS = 1 << 1 | 1 << 2 | 1 << 22 | 1 << 17
MIB = 1 << 20
# name: kinds of records, calls (1 driver's records, 2 runtime's, 4 callbacks), zeroed buffers, bytes of one, flush each so many seconds
WAYS = {
    "kernels": (KERNELS, 0, 0, MIB, 0),
    "kernels, small buffers": (KERNELS, 0, 0, MIB // 4, 0),
    "kernels, large buffers": (KERNELS, 0, 0, 8 * MIB, 0),
    "kernels, zeroed buffers": (KERNELS, 0, 1, MIB, 0),
    "kernels, flushed": (KERNELS, 0, 0, MIB, 0.1),
    "with copies": (KERNELS | OTHERS | GRAPHS, 0, 0, MIB, 0),
    "with waits": (KERNELS | OTHERS | GRAPHS | SYNC, 0, 0, MIB, 0),
    "with driver's calls": (KERNELS | OTHERS | GRAPHS, 1, 0, MIB, 0),
    "with all calls": (KERNELS | OTHERS | GRAPHS, 3, 0, MIB, 0),
    "with callbacks": (KERNELS | OTHERS | GRAPHS, 4, 0, MIB, 0),
    "callbacks alone": (0, 4, 0, MIB, 0),
}
GRAPH_WAYS = {"kernels": (KERNELS, 0, 0, MIB, 0), "graphs": (GRAPHS, 0, 0, MIB, 0), "with copies": (KERNELS | OTHERS | GRAPHS, 0, 0, MIB, 0),
              "with all calls": (KERNELS | OTHERS | GRAPHS, 3, 0, MIB, 0)}  # fmt: skip
OFF_S, ON_S, SETTLE_S, SLICE_S = 0.5, 0.7, 0.15, 0.1


def bind():
    lib = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
    lib.collector_on.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_int, ctypes.c_size_t]
    lib.collector_off.argtypes = [ctypes.c_uint64, ctypes.c_uint32]
    lib.collector_ended.argtypes = [ctypes.POINTER(ctypes.c_uint64)]
    lib.collector_counts.argtypes = [ctypes.c_uint64 * 8]
    return lib


def run_for(torch, step, seconds, flush=None, every=0):
    """us a step: the median of slices."""
    slices, end, flushed = [], time.perf_counter() + seconds, time.perf_counter()
    while time.perf_counter() < end:
        n, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < SLICE_S:
            for _ in range(5):
                step()
            torch.cuda.synchronize()
            n += 5
            if every and time.perf_counter() - flushed > every:
                flush()
                flushed = time.perf_counter()
        slices.append((time.perf_counter() - begin) / n * 1e6)
    return statistics.median(slices)


def end_in_call(lib, step, patience_s=5):
    """Finalizes as Kineto does; (result, ms that it took in the call)."""
    took, r = ctypes.c_uint64(), lib.collector_end()
    until = time.perf_counter() + patience_s
    while not lib.collector_ended(took) and time.perf_counter() < until:
        step()
    return lib.collector_ended(took) or r, took.value / 1e6


def counts(lib):
    c = (ctypes.c_uint64 * 8)()
    lib.collector_counts(c)
    return list(c)


def quartiles(values):
    q = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{q[0]:8.2f} {q[1]:8.2f} {q[2]:8.2f}"


def ways_of(load, rounds):
    import torch
    from inside_gpu import make_step

    lib, step = bind(), make_step(load)
    run_for(torch, step, 1.5)
    found = {way: [] for way in (GRAPH_WAYS if load == "graph" else WAYS)}
    opened, ended, disabled, base = [], [], [], []
    for n in range(rounds):
        for way in found:
            kinds, calls, zeroed, size, every = WAYS.get(way) or GRAPH_WAYS[way]
            run_for(torch, step, SETTLE_S)
            before = run_for(torch, step, OFF_S)
            base.append(before)
            begin = time.perf_counter()
            r = lib.collector_on(kinds, calls, zeroed, size)
            opened.append((time.perf_counter() - begin) * 1e3)
            begin = time.perf_counter()
            step()
            torch.cuda.synchronize()
            first_ms = (time.perf_counter() - begin) * 1e3
            run_for(torch, step, SETTLE_S)
            counts(lib)
            n_before = time.perf_counter()
            on = run_for(torch, step, ON_S, lib.collector_flush, every)
            lib.collector_flush()
            c = counts(lib)
            lib.collector_off(kinds, 0)
            disabled.append(run_for(torch, step, 0.2) / before)
            result, ms = end_in_call(lib, step)
            ended.append(ms)
            found[way].append((before, on, c, first_ms))
            if r or result != 1:
                print(f"  {load} {way}: on {r}, ended {result}")
    print(f"{load}: us a step untraced {quartiles(base)}; opening takes {quartiles(opened)} ms, cuptiFinalize in a call {quartiles(ended)} ms;")
    print(f"  steps are {quartiles([100 * (d - 1) for d in disabled])} % longer after all was switched off, without cuptiFinalize")
    for way, rows in found.items():
        percent = [100 * (on / off - 1) for off, on, _, _ in rows]
        n = statistics.median(c[0] or c[7] for _, _, c, _ in rows)
        steps = ON_S * 1e6 / statistics.median(on for _, on, _, _ in rows)
        us = [(on - off) / max(n / steps, 1) for off, on, _, _ in rows]
        print(f"  {way:24s} {quartiles(percent)} %  {quartiles(us)} us a record; {n / steps:.1f} a step, {rows[0][2]}, first step {statistics.median(f for *_, f in rows):.1f} ms", flush=True)


def keep_threads(torch, ready, going):
    """Four threads that launch, wait and copy all the time."""
    a = torch.randn(64, 64, device="cuda")

    def work():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            b, n = a.clone(), 0
            while going():
                b = (b @ a).tanh_()
                n += 1
                if n % 50 == 0:
                    stream.synchronize()
                if n % 77 == 0:
                    b = b.cpu().cuda()

    threads = [threading.Thread(target=work) for _ in range(4)]
    ready()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return "4 threads"


def keep_capturing(torch, ready, going):
    """Records graphs and replays them once."""
    stream, a = torch.cuda.Stream(), torch.randn(64, 64, device="cuda")
    n, wrong, errors = 0, 0, []
    with torch.cuda.stream(stream):
        (a @ a).tanh()
        torch.cuda.synchronize()
        ready()
        while going():
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, stream=stream):
                    b = a
                    for _ in range(100):
                        b = (b @ a).tanh()
                graph.replay()
                torch.cuda.synchronize()
                c = a
                for _ in range(100):
                    c = (c @ a).tanh()
                wrong += not torch.equal(b, c)
            except RuntimeError as e:
                errors.append(str(e).splitlines()[0])
                if len(errors) > 9:
                    break
            n += 1
    return f"{n} graphs, {len(errors)} errors {errors[:1]}, {wrong} wrong"


def keep_replaying(torch, ready, going):
    from inside_gpu import make_step

    step, n = make_step("graph"), 0
    ready()
    while going():
        step()
        n += 1
        if n % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return f"{n} replays"


def keep_training(torch, ready, going):
    from inside_gpu import make_step

    step, n = make_step("mlp"), 0
    ready()
    while going():
        step()
        n += 1
        if n % 50 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return f"{n} steps"


PROGRAMS = {"threads": keep_threads, "capture": keep_capturing, "replay": keep_replaying, "train": keep_training}


def survive(name, kinds, calls, flag, end, seconds):
    """A program goes on while CUPTI begins and ends again and again; end 1: with cuptiFinalize, in a call; 2: never ends."""
    import torch

    lib, cycles, bad, until = bind() if kinds != "product" else None, 0, [], None
    off = KINDS.get(kinds, 0) & ~(GRAPHS if kinds == "kcG" else 0)
    kinds = KINDS.get(kinds, 0)

    def going():
        return time.perf_counter() < until

    def begin_and_end():
        nonlocal cycles
        while kinds and going():
            lib.collector_on(kinds, calls, 0, MIB)
            time.sleep(0.05)
            lib.collector_off(off, flag)
            if end:
                r, _ = end_in_call(lib, lambda: time.sleep(0.0005), 1)
                if r != 1:
                    bad.append(r)
            cycles += 1
            time.sleep(0.02)

    thread = threading.Thread(target=begin_and_end)

    def ready():
        nonlocal until
        until = time.perf_counter() + seconds
        thread.start()

    said = PROGRAMS[name](torch, ready, going)
    thread.join()
    print(f"went on: {said}; begun and ended {cycles} times, not ended {len(bad)} {bad[:2]}; {counts(lib) if lib else ''}", flush=True)


KINDS = {"none": 0, "k": KERNELS, "km": KERNELS | 1 << 1 | 1 << 2 | 1 << 22, "kc": KERNELS | OTHERS, "g": GRAPHS, "kcg": KERNELS | OTHERS | GRAPHS,
         "kcG": KERNELS | OTHERS | GRAPHS}  # fmt: skip
# kinds (G: whole graphs, never switched off), calls, flag of the last flush, end
SURVIVE = [("none", 0, 0, 0), ("k", 0, 0, 0), ("km", 0, 0, 0), ("kc", 0, 0, 0), ("kc", 3, 0, 0), ("kc", 0, 1, 0), ("g", 0, 0, 0), ("kcG", 0, 0, 0), ("kcg", 0, 0, 0), ("k", 0, 0, 1), ("kc", 3, 0, 1)]  # fmt: skip
PRODUCT = {0: [], 1: ["-o", "/tmp/collector.gst"]}  # by calls


def survive_all(seconds, side_by_side):
    """Each program with each way to begin and end; a line for each."""
    chosen = os.environ.get("COLLECTOR_KINDS")
    rows = [row for row in SURVIVE if not chosen or f"{row[0]}{row[1]}{row[2]}{row[3]}" in chosen.split()]
    rows += ([("product", calls, 0, 0) for calls in PRODUCT] if os.environ.get("GPUSCOPE") else [])
    waiting = [(p, *row) for row in rows for p in PROGRAMS]
    running, died = [], 0
    env = {**os.environ, "CUDA_INJECTION64_PATH": os.environ["COLLECTOR"]}
    while waiting or running:
        while waiting and len(running) < side_by_side:
            words = waiting.pop(0)
            command, own = [sys.executable, "-u", os.path.abspath(__file__), "survive", *map(str, words), str(seconds)], env
            if words[1] == "product":
                own = dict(os.environ)
                more = [o.replace(".gst", f"{words[0]}.gst") for o in PRODUCT[words[2]]]
                command = [os.environ["GPUSCOPE"], "trace", "-q", "--layer", "mpi", "--inside=gpu", "--gpu-window", "100ms/200ms", *more, "--summary", "/dev/null", "--", *command]
            running.append((words, time.monotonic(), subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)))
        time.sleep(0.1)
        for row in list(running):
            words, since, child = row
            if child.poll() is None and time.monotonic() - since < seconds + 45:
                continue
            if child.poll() is None:
                child.kill()
                print(f"HANGS {words}", flush=True)
            out = child.communicate()[0].strip().splitlines()
            died += child.returncode != 0
            print(f"{'ok' if child.returncode == 0 else 'DIED'} {words} {child.returncode} {[x for x in out if x.strip()][-1:] if child.returncode == 0 else out[-4:]}", flush=True)
            running.remove(row)
    return died


def start(what, *args):
    env = {**os.environ, "CUDA_INJECTION64_PATH": os.environ["COLLECTOR"], "COLLECTOR_CUPTI": os.environ["COLLECTOR_CUPTI"]}
    return subprocess.run([sys.executable, "-u", os.path.abspath(__file__), what, *map(str, args)], env=env, timeout=240).returncode


def main():
    if sys.argv[1] == "ways":
        ways_of(sys.argv[2], int(sys.argv[3]))
        return 0
    if sys.argv[1] == "survive":
        name, kinds, *numbers, seconds = sys.argv[2:]
        survive(name, kinds, *map(int, numbers), float(seconds))
        return 0
    os.environ["COLLECTOR"] = os.path.abspath(sys.argv[1])
    import importlib.util

    site = importlib.util.find_spec("nvidia").submodule_search_locations[0]
    os.environ.setdefault("COLLECTOR_CUPTI", os.path.join(site, "cu13", "lib", "libcupti.so.13"))
    rounds, worst = int(sys.argv[2]), 0
    for load in sys.argv[3:] or ["mlp", "decode", "graph", "survive"]:
        r = survive_all(rounds, 12) if load == "survive" else start("ways", load, rounds)
        worst = max(worst, abs(r))
    return worst


if __name__ == "__main__":
    sys.exit(main())
