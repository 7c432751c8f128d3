#!/usr/bin/env python3
"""Does fake_app do what it is told, and do all flavours of the stand-ins behave alike?

usage: check_app.py LIST_FUNCS FAKE_APP LATE STATIC STRIPPED

The expected numbers are worked out here from the command lines; fake_app itself checks that each
call had the outcome asked for.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from check_abi import ABSENT

# What must come before a function so that it succeeds.
FIRST = {
    "cudaHostUnregister": "cudaHostRegister",
    "cudaFreeArray": "cudaMallocArray",
    "cudaStreamDestroy": "cudaStreamCreate",
    "cudaEventDestroy": "cudaEventCreate",
    "cudaFreeMipmappedArray": "cudaMallocMipmappedArray",
    "cudaIpcCloseMemHandle": "cudaIpcOpenMemHandle",
    "cuIpcCloseMemHandle": "cuIpcOpenMemHandle",
    "cuGraphExecDestroy": "cuGraphInstantiate",
    "cudaLibraryUnload": "cudaLibraryLoadData",
    "cudaGraphExecDestroy": "cudaGraphInstantiate",
    "cudaGraphDestroy": "cudaGraphClone",
    "cuGraphDestroy": "cuGraphClone",
    "cuMemHostUnregister": "cuMemHostRegister_v2",
    "cuMemRelease": "cuMemCreate",
    "cuMemAddressFree": "cuMemAddressReserve",
    "cuStreamDestroy": "cuStreamCreate",
    "cuStreamDestroy_v2": "cuStreamCreate",
    "cuEventDestroy": "cuEventCreate",
    "cuEventDestroy_v2": "cuEventCreate",
    "cuModuleUnload": "cuModuleLoad",
    "cuLibraryUnload": "cuLibraryLoadData",
    "cuPointerGetAttribute": "cuMemAlloc_v2",
    "ncclGroupEnd": "ncclGroupStart",
    "ncclGroupSimulateEnd": "ncclGroupStart",
}
NEVER_FAIL = {
    "cudaDeviceSynchronize", "cudaDeviceReset", "cudaGetLastError", "cudaPeekAtLastError", "cuCtxSynchronize",
    "cuCtxSetCurrent", "cuCtxPopCurrent", "cuCtxPopCurrent_v2", "ncclGroupStart",
}  # fmt: skip

failures = []


def expect(what, got, wanted):
    if got != wanted:
        failures.append(f"{what}: {got!r}, not {wanted!r}")


def run(app, *args, env=None, status=0):
    done = subprocess.run([app, *args], capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=360)
    expect(f"exit status of {' '.join(args)[:60]} ({done.stderr.strip()[:200]})", done.returncode, status)
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls(line):
    return {name: f["calls"] for name, f in line["functions"].items()}


def check_every_function(app, names, env, what):
    """Each function alone, succeeding and failing."""
    for name in names:
        before = [f"{FIRST[name]}=3"] if name in FIRST else []
        if name.startswith(("ncclComm", "ncclRedOp")) and "Init" not in name or name in COLLECTIVES:
            before.append("ncclCommInitRank=3")
        line = run(app, *before, f"{name}=3", env=env)[0]
        f = line["functions"][name]
        expect(f"{what} {name}", (f["calls"], f["errors"], line["surprises"]), (3, 0, 0))
        if name not in NEVER_FAIL:
            line = run(app, f"{name}:bad=2", env=env)[0]
            f = line["functions"][name]
            expect(f"{what} {name}:bad", (f["calls"], f["errors"], line["surprises"]), (2, 2, 0))


COLLECTIVES = {
    "ncclAllReduce", "ncclReduceScatter", "ncclReduce", "ncclBroadcast", "ncclBcast", "ncclAllGather", "ncclAlltoAll",
    "ncclGather", "ncclScatter", "ncclSend", "ncclRecv", "ncclPutSignal", "ncclSignal", "ncclWaitSignal",
}  # fmt: skip


def check_numbers(app, env, what):
    line = run(app, "cudaMalloc=7", "cudaLaunchKernel=11", "cudaLaunchKernel:bad=2", "cudaLaunchKernelExC_ptsz=5",
               "cudaLaunchCooperativeKernel=3", "cuLaunchKernel=13", "cudaFree=7", "cudaMalloc:bad=3",
               "cudaEventRecord=1", "cudaEventQuery=4", env=env)[0]  # fmt: skip
    f = line["functions"]
    expect(f"{what} bytes", f["cudaMalloc"]["bytes"], sum(4096 + i for i in range(7)))
    expect(f"{what} codes", f["cudaMalloc"]["codes"], {"2": 3})
    expect(f"{what} launch codes", f["cudaLaunchKernel"]["codes"], {"9": 2})
    expect(f"{what} inner", line["inner"], {"cuLaunchKernel": 11, "cuLaunchKernelEx": 3, "cuLaunchKernelEx_ptsz": 5})
    expect(f"{what} not ready", (f["cudaEventQuery"]["answers"], f["cudaEventQuery"]["codes"]), (2, {"600": 2}))
    values = f["cudaMalloc"]["values"]
    expect(f"{what} pointers differ", len(set(values)), 7)
    expect(f"{what} freed last in, first out", f["cudaFree"]["first"]["arg"][0], values[-1])
    if not all(0x7E0000000000 <= v < 0x7F0000000000 for v in values):
        failures.append(f"{what}: pointers {values}")


def check_processes(app):
    lines = run(app, "--threads=3", "--fork=2", "cudaMalloc=5", "cudaFree=5", "--exec")
    expect("lines", sorted((x["image"], x["role"]) for x in lines),
           [(1, "child"), (1, "child"), (1, "main"), (2, "child"), (2, "child"), (2, "main")])  # fmt: skip
    for line in lines:
        expect("calls of three threads", calls(line), {"cudaMalloc": 15, "cudaFree": 15})
        expect("threads", len(set(line["threads"])), 3)
        expect("main thread is not among them", line["pid"] in line["threads"], False)
    mains = [x["pid"] for x in lines if x["role"] == "main"]
    expect("pid survives exec", mains[0], mains[1])


def check_nesting(app):
    line = run(app, "cudaLaunchHostFunc=7", "--nested=3")[0]
    expect("nested", calls(line), {"cudaLaunchHostFunc": 28, "cudaMemcpyAsync": 28})
    expect("host functions", line["host_functions"], 28)
    line = run(app, "cudaStreamAddCallback=5", "--nested")[0]
    expect("callback", calls(line), {"cudaStreamAddCallback": 5, "cudaMemcpyAsync": 5})
    line = run(app, "cudaMalloc=2", "--longjmp=5", "--nested=2")[0]
    expect("after jumps", calls(line), {"cudaMalloc": 2, "cudaMemcpyAsync": 15})
    expect("abandoned", line["abandoned"], {"cudaLaunchHostFunc": 15})


def check_hang(app, env, func):
    child = subprocess.Popen([app, "cudaMalloc=3", f"--hang={func}"], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, **env})  # fmt: skip
    line = json.loads(child.stdout.readline())
    expect("hang", (line["hang"], calls(line)), (func, {"cudaMalloc": 3}))
    for _ in range(6000):
        with open(f"/proc/{child.pid}/wchan", "rb") as f:
            if child.poll() is not None or b"pause" in f.read():
                break
        time.sleep(0.01)
    expect(f"still in {func}", child.poll(), None)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()


def check_late(app, late, folder):
    with tempfile.TemporaryDirectory() as tmp:
        go = os.path.join(tmp, "go")
        child = subprocess.Popen([app, f"--dlopen={folder}", f"--go-file={go}", "cudaMalloc=3"], stdout=subprocess.PIPE)
        for _ in range(6000):
            with open(f"/proc/{child.pid}/maps") as f:
                maps = f.read()
            if all(name in maps for name in ("libcudart.so.13", "libcuda.so", "libnccl.so.2", "fake_app_late")):
                break
            time.sleep(0.01)
        expect("loaded and waiting", (child.poll(), "libcudart.so.13" in maps), (None, True))
        with open(go, "w"):
            pass
        out, _ = child.communicate(timeout=360)
        expect("late", calls(json.loads(out)), {"cudaMalloc": 3})
    run(late, "cudaMalloc=1", status=2)
    run(app, "cudaNoSuch=1", status=2)
    run(app, "cudaMalloc:odd=1", status=2)


def main():
    list_funcs, app, late, static, stripped = map(os.path.abspath, sys.argv[1:])
    os.environ.pop("LD_LIBRARY_PATH", None)  # a real libcudart, or another flavour, would be found first
    folder = os.path.dirname(app)
    out = subprocess.run([list_funcs], check=True, capture_output=True, text=True).stdout
    names = [line.split()[1] for line in out.splitlines() if not line.startswith("mpi ")]
    names = [n for n in names if n not in ABSENT]
    known = set(subprocess.run([app, "--list"], check=True, capture_output=True, text=True).stdout.split())
    expect("functions of the table that fake_app cannot call", sorted(set(names) - known), [])
    check_every_function(app, names, {}, "plain")
    flavours = {
        "plain": (app, {}),
        "endbr": (app, {"LD_LIBRARY_PATH": os.path.join(folder, "endbr") + ":" + folder}),
        "stub": (app, {"LD_LIBRARY_PATH": os.path.join(folder, "stub") + ":" + folder}),
        "static": (static, {}),
        "stripped": (stripped, {}),
    }
    for what, (program, env) in flavours.items():
        check_numbers(program, env, what)
    for what, library in (("endbr", "libcudart.so.13"), ("stub", "libcuda.so.1")):
        env = {**os.environ, **flavours[what][1], "LD_TRACE_LOADED_OBJECTS": "1"}
        loaded = subprocess.run([app], capture_output=True, text=True, env=env).stdout
        expect(f"flavour {what} is loaded", f"=> {folder}/{what}/{library}" in loaded, True)
    check_processes(app)
    check_nesting(app)
    check_hang(app, {}, "cudaDeviceSynchronize")
    check_hang(app, {}, "ncclAllReduce")
    check_hang(app, flavours["stub"][1], "cuCtxSynchronize")
    check_late(app, late, folder)
    for text in failures:
        print("wrong: " + text, file=sys.stderr)
    print(f"{len(names)} functions, {len(flavours)} flavours")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
