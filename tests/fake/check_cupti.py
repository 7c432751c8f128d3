#!/usr/bin/env python3
"""Are CUPTI's records as the door to GPU activity and the stand-in have them, and has the library what is asked of it?

usage: check_cupti.py COMPILER SOURCE_DIR FAKE_LIBRARY

check_cupti.c is compiled against NVIDIA's headers where they are installed; what the door binds (src/companion/gpu/find.c) is
looked for in the stand-in, and in the real library beside those headers. Exits 0 when all agree, 1 with the differences.
"""
import ctypes
import os
import re
import subprocess
import sys

CUDA_HOME = os.environ.get("CUDA_HOME", "/usr/local/cuda")
HEADERS = [os.path.join(CUDA_HOME, place) for place in ("extras/CUPTI/include", "include")]
LIBRARIES = [os.path.join(CUDA_HOME, place) for place in ("extras/CUPTI/lib64/libcupti.so", "lib64/libcupti.so", "lib/libcupti.so")]
CALLS = {"cudaLaunchKernel_v7000", "cudaLaunchKernelExC_v11060", "cudaGraphLaunch_v10000", "cudaMemcpyAsync_v3020"}


def compare_headers(compiler, source_dir):
    folder = next((f for f in HEADERS if os.path.exists(os.path.join(f, "cupti_activity.h"))), None)
    if not folder:
        print(f"skipped: {CUDA_HOME} has no headers of CUPTI")
        return []
    src = os.path.join(source_dir, "..", "..", "src")
    cmd = [compiler, "-std=gnu17", "-fsyntax-only", "-I", source_dir, "-I", src, "-isystem", folder, "-isystem",
           os.path.join(CUDA_HOME, "include"), os.path.join(source_dir, "check_cupti.c")]
    done = subprocess.run(cmd, capture_output=True, text=True)
    print(f"headers in {folder}: compared")
    return [done.stderr] if done.returncode else []


def compare_library(path, bound):
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    names = {word.split("@")[0] for word in out.split()}
    return [f"{path} lacks {name}" for name in bound if name not in names]


def compare_names(path):
    """The real library tells names without a driver."""
    library, name, found = ctypes.CDLL(path), ctypes.c_char_p(), set()
    for number in range(1, 1200):
        if library.cuptiGetCallbackName(2, number, ctypes.byref(name)) == 0 and name.value:
            found.add(name.value.decode())
    return [f"{path} has no call {call}" for call in sorted(CALLS - found)]


def main():
    compiler, source_dir, fake = sys.argv[1:]
    with open(os.path.join(source_dir, "..", "..", "src", "companion", "gpu", "find.c"), encoding="utf-8") as f:
        bound = re.findall(r'\{"(cupti\w+)", &', f.read())
    wrong = compare_headers(compiler, source_dir) + compare_library(fake, bound)
    real = next((p for p in LIBRARIES if os.path.exists(p)), None)
    if real:
        wrong += compare_library(real, bound) + compare_names(real)
        print(f"{real}: {len(bound)} functions, names of calls")
    print("\n".join(wrong))
    return 1 if wrong or not bound else 0


if __name__ == "__main__":
    sys.exit(main())
