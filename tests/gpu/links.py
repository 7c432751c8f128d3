#!/usr/bin/env python3
"""links.py GPUSCOPE: how GPUs are connected and how many NVLinks are up, beside `nvidia-smi topo -m` and `nvidia-smi nvlink -s`."""
import json
import re
import subprocess
import sys

gpuscope = sys.argv[1]


def run(*words):
    return subprocess.run(words, capture_output=True, text=True).stdout


def check(what, got, want):
    print(f"{'ok' if got == want else 'not ok'} {what}: {got}" + ("" if got == want else f", nvidia-smi {want}"), flush=True)


def matrix(text):
    """{(GPU, GPU): how}, whatever else stands beside it."""
    rows, names = {}, None
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
        words = line.split()
        if names is None and "GPU0" in words:
            names = [w for w in words if re.fullmatch(r"GPU\d+", w)]
        elif names and words and re.fullmatch(r"GPU\d+", words[0]):
            rows.update({(words[0], b): how for b, how in zip(names, words[1:])})
    return rows


ours, theirs = run(gpuscope, "gpu", "--topology"), run("nvidia-smi", "topo", "-m")
print(ours)
print(theirs)
check("connections", matrix(ours), matrix(theirs))
links = {}
gpu = None
for line in run("nvidia-smi", "nvlink", "-s").splitlines():
    if found := re.match(r"GPU (\d+):", line):
        gpu = int(found[1])
    elif re.search(r"Link \d+: [\d.]+ GB/s", line):
        links[gpu] = links.get(gpu, 0) + 1
for g in json.loads(run(gpuscope, "gpu", "--json"))["gpus"]:
    check(f"NVLinks of GPU {g['index']} that are up", g["values"]["nvlink_active_links"] or 0, links.get(g["index"], 0))
