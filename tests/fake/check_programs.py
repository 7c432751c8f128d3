#!/usr/bin/env python3
"""Do spin and demo_train run, and do the libraries that do nothing have the shapes they stand for?

usage: check_programs.py SPIN DEMO_TRAIN TARGET_LIBRARY NULL_LIBRARY...
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # the source folder stays as it is

from check_abi import ENDBR, PUSH, STUB, compare_entries, exports, file_offset  # noqa: E402


def spin(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=360)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()}


def check_spin(program, libraries):
    wrong = []
    for library in libraries:
        for func in exports(library):
            got = spin(program, f"--lib={library}", f"--func={func}", "--calls=100", "--chunks=3", "--threads=2")
            if (got.get("calls"), got.get("ret")) != (600, 0):
                wrong.append(f"{library} {func}: {got}")
    got = spin(program, f"--lib={libraries[0]}", f"--func={func_of(libraries[0])}", "--rate=1000", "--seconds=1")
    if got.get("calls") != 1000:
        wrong.append(f"at a rate: {got}")
    if "failed" not in spin(program, "--lib=libcudart.so.13", "--func=cudaMalloc"):
        wrong.append("a bare library name was accepted")
    return wrong


def func_of(library):
    return sorted(exports(library))[0]


def check_target(library):
    shapes = {"push": PUSH, "endbr": ENDBR, "stub": STUB}
    with open(library, "rb") as f:
        data = f.read()
    wrong = []
    for name, address in exports(library).items():
        entry = shapes[name.split("_")[2]]
        offset = file_offset(data, address)
        if data[offset : offset + len(entry)] != entry:
            wrong.append(f"{name} does not begin with {entry.hex()}")
    return wrong


def check_demo(program):
    env = {**os.environ, "FAKE_CUDA_PACE": "0", "FAKE_CUDA_SYNC_US": "0"}
    done = subprocess.run([program, "--steps=120", "--layers=4"], capture_output=True, text=True, env=env, timeout=360)
    lines = done.stdout.splitlines()
    ranks = sorted(line.split(":")[0] for line in lines[:-1])
    if done.returncode or ranks != ["rank 0", "rank 1"] or "2 ranks, 120 steps" not in lines[-1]:
        return [f"demo_train: {done.returncode} {done.stdout} {done.stderr}"]
    return []


def main():
    program, demo, target, *libraries = map(os.path.abspath, sys.argv[1:])
    os.environ.pop("LD_LIBRARY_PATH", None)
    wrong = check_target(target) + check_spin(program, [target, *libraries]) + check_demo(demo)
    for library in libraries:
        wrong += compare_entries(library, exports(library))
    for text in wrong:
        print("wrong: " + text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
