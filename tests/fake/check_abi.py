#!/usr/bin/env python3
"""Do the stand-in libraries export what can be traced, under the real names, with the real ABI?

usage: check_abi.py LIST_FUNCS COMPILER SOURCE_DIR CUDART... -- CUDA... -- NCCL...

The functions come from the tracer's own table (LIST_FUNCS prints it), the exports from the dynamic
symbols of each library file; a library in a folder endbr or stub must begin its functions as the
folder says. Where the real CUDA and NCCL headers are installed, check_abi.c is compiled against
them. Exits 0 when all agree, 1 with the differences.
"""
import os
import struct
import subprocess
import sys

# In the table for old releases only; the real runtime of CUDA 13 lacks them too.
ABSENT = {
    "cudaLaunchCooperativeKernelMultiDevice": "removed from the runtime in CUDA 13",
    "cudaEventElapsedTime_v2": "of CUDA 12.8 and 12.9",
    "cudaGetDeviceProperties_v2": "of CUDA 12",
    "cudaMemPrefetchAsync_v2": "of CUDA 12",
    "cudaMemPrefetchAsync_v2_ptsz": "of CUDA 12",
    "cudaStreamGetCaptureInfo_v2": "of CUDA 12",
    "cudaStreamGetCaptureInfo_v2_ptsz": "of CUDA 12",
    "cudaStreamGetCaptureInfo_v3": "of CUDA 12",
    "cudaStreamGetCaptureInfo_v3_ptsz": "of CUDA 12",
}
CUDA_HOME = os.environ.get("CUDA_HOME", "/usr/local/cuda")
LAYERS = ("cuda-runtime", "cuda-driver", "nccl")


def exports(path):
    """Name -> address of the functions that a library exports."""
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return {row[2].split("@")[0]: int(row[0], 16) for row in rows if len(row) == 3 and row[1] in "TW"}


# First bytes of every function, by the folder of the library.
PUSH, ENDBR, STUB = b"\x55", b"\xf3\x0f\x1e\xfa", b"\x81\x3d"
ENTRIES = {"endbr": ENDBR, "stub": STUB, "null": PUSH, "null_endbr": ENDBR, "null_stub": STUB}


def file_offset(data, address):
    """Where an address of an ELF64 file lies in the file, by its program headers."""
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, start, _, length = struct.unpack_from("<IIQQQQ", data, at + i * size)
        if kind == 1 and start <= address < start + length:
            return offset + address - start
    raise ValueError(f"{address:#x} is in no segment")


def compare_entries(path, found):
    entry = ENTRIES.get(os.path.basename(os.path.dirname(os.path.abspath(path))), PUSH)
    with open(path, "rb") as f:
        data = f.read()
    odd = []
    for name, address in found.items():
        offset = file_offset(data, address)
        if data[offset : offset + len(entry)] != entry:
            odd.append(f"{path}: {name} does not begin with {entry.hex()}")
    return odd


def compare(table, layer, path):
    wrong = []
    found = exports(path)
    names = [name for owner, name in table if owner == layer]
    for name in names:
        if name in ABSENT and name in found:
            wrong.append(f"{path}: exports {name}, which is listed as absent ({ABSENT[name]})")
        elif name not in ABSENT and name not in found:
            wrong.append(f"{path}: does not export {name}")
    at = {}
    for name, address in found.items():
        at.setdefault(address, []).append(name)
    for group in at.values():
        plain = sorted(name.removeprefix("p") if layer == "nccl" else name for name in group)
        if len(set(plain)) != 1:
            wrong.append(f"{path}: {', '.join(sorted(group))} share one address")
    if layer == "nccl":
        for name in names:
            if name in found and found.get("p" + name) != found[name]:
                wrong.append(f"{path}: {name} and p{name} are not one function")
    else:
        wrong += compare_entries(path, found)
    print(f"{path}: {len(found)} exports, {len(names)} functions that can be traced")
    return wrong


def compile_against_headers(compiler, source_dir):
    include = os.path.join(CUDA_HOME, "include")
    missing = [h for h in ("cuda.h", "cuda_runtime_api.h", "nccl.h") if not os.path.exists(os.path.join(include, h))]
    if missing:
        print(f"skipped: real headers not compared, {include} has no {', '.join(missing)}")
        return []
    wrong = []
    source = os.path.join(source_dir, "check_abi.c")
    for flags in ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]):
        cmd = [compiler, "-std=gnu17", "-fsyntax-only", *flags, "-I", source_dir, "-isystem", include, source]
        done = subprocess.run(cmd, capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"{' '.join(cmd)}\n{done.stderr}")
    print(f"real headers in {include}: compared")
    return wrong


def main():
    list_funcs, compiler, source_dir, *rest = sys.argv[1:]
    out = subprocess.run([list_funcs], check=True, capture_output=True, text=True).stdout
    table = [tuple(line.split()) for line in out.splitlines()]
    wrong = []
    for layer in LAYERS:
        if not any(owner == layer for owner, _ in table):
            wrong.append(f"the table has no function of {layer}")
    groups = [[]]
    for arg in rest:
        if arg == "--":
            groups.append([])
        else:
            groups[-1].append(arg)
    for layer, paths in zip(LAYERS, groups, strict=True):
        for path in paths:
            wrong += compare(table, layer, path)
    wrong += compile_against_headers(compiler, source_dir)
    for text in wrong:
        print("wrong: " + text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
