"""gpuscope gpu against the stand-in library: every format, selection, view, error and exit status.

gpu_command.py GPUSCOPE FAKE_NVML FAKE_NVML_OLD AMD_TREE
"""
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

gpuscope, nvml, nvml_old = sys.argv[1:4]
failures = []
n_tests = 0


def run(*args, words="gpus=2", library=nvml, expect=0, env=None):
    """What it printed; the exit status is checked."""
    done = subprocess.run([gpuscope, "gpu"] + (["--nvml", library] if library else []) + list(args), text=True,
                          capture_output=True, env={**os.environ, "FAKE_NVML": words, **(env or {})}, timeout=60)
    check(done.returncode == expect, f"{args}: exit status {done.returncode}, not {expect}: {done.stderr}")
    run.stderr = done.stderr
    return done.stdout


def check(true, what):
    global n_tests
    n_tests += 1
    if not true:
        failures.append(what)


# JSON: all values, null for what is not there, and why.
doc = json.loads(run("--format", "json", words="gpus=8,board=h200"))
check(doc["state"] == "ok" and len(doc["gpus"]) == 8, "json: 8 GPUs")
for i, gpu in enumerate(doc["gpus"]):
    v = gpu["values"]
    check(gpu["index"] == i and gpu["uuid"] == f"GPU-{i:08x}-1111-2222-3333-444455556666", "json: identity")
    check(v["power_watts"] == 300 + i and v["memory_total_bytes"] == 141 << 30, "json: values")
    check(v["sm_active_ratio"] == (10 + i) / 100, f"json: GPM {v['sm_active_ratio']}")
    check(v["fan_ratio"] is None and gpu["missing"]["fan_ratio"] == "not_supported", "json: no fan on a passive board")
    check(len(gpu["links"]) == 18, "json: links")
check(doc["processes"][0]["user"] and doc["processes"][0]["sm_ratio"] == 0.3, "json: a process")

# YAML is the same tree.
try:
    import yaml
except ImportError:
    print("# SKIP the YAML is not parsed: python3-yaml is not installed")
else:
    tree = yaml.safe_load(run("--format", "yaml", words="gpus=8,board=h200"))
    check(tree["gpus"][3]["values"] == doc["gpus"][3]["values"], "yaml: the same values as in JSON")
    docs = list(yaml.safe_load_all(run("--format", "yaml", "-w", "0.05", "-n", "3")))
    check(len(docs) == 3 and all(d["state"] == "ok" for d in docs), "yaml: one document for each sample")

# CSV: one head, a row for each GPU and sample; empty for what is not there.
rows = list(csv.DictReader(io.StringIO(run("--format", "csv", "-w", "0.05", "-n", "3", words="gpus=2"))))
check(len(rows) == 6 and rows[5]["gpu"] == "1" and rows[5]["power_watts"] == "301" and rows[5]["fan_ratio"] == "", "csv: rows")
rows = list(csv.DictReader(io.StringIO(run("--format", "csv", "--processes"))))
check(len(rows) == 1 and rows[0]["used_bytes"] == str(1 << 30) and "gpu --nvml" in rows[0]["cmdline"], "csv: processes")
head = run("--format", "csv", "--fields", "energy_joules,power_watts").splitlines()[0]
check(head.endswith(",lost,energy_joules,power_watts"), f"csv: fields in their order: {head}")

# Selection.
for choice, found in (("1", [1]), ("0,3", [0, 3]), ("GPU-00000002", [2]), ("13:00.0", [3]), ("0000:11:00", [1]),
                      ("00000000:10:00.0", [0])):
    doc = json.loads(run("-i", choice, "--format", "json", words="gpus=4"))
    check([g["index"] for g in doc["gpus"]] == found, f"-i {choice}: {[g['index'] for g in doc['gpus']]}")
doc = json.loads(run("-i", "0:8", "--format", "json", words="gpus=2,parts=3"))
check(len(doc["gpus"]) == 1 and doc["gpus"][0]["gpu_instance"] == 8 and doc["gpus"][0]["is_mig"], "-i: a part")
doc = json.loads(run("-i", "1", "--format", "json", words=f"gpus=2,pids={os.getpid()}:{os.getppid()}"))
check([p["pid"] for p in doc["processes"]] == [os.getppid()] and doc["processes"][0]["gpu"] == 1, "-i: its processes")
run("-i", "9", expect=2)
check('no GPU "9"' in run.stderr and run.stderr.count("\n") == 1, "-i 9: one clear line")

# Scrolling columns.
lines = run("--dmon=pucvmet", "-w", "0.2", "-n", "2").splitlines()
check(lines[0].split()[:4] == ["#", "gpu", "pwr", "gtemp"] and len(lines) == 6, f"dmon: {lines[:1]}")
check(lines[2].split()[:4] == ["0", "300", "40", "50"] and lines[3].split()[1] == "301", f"dmon: {lines[2]}")
check(lines[4].split()[lines[0].split().index("rxpci") - 1] == "210", f"dmon: rxpci {lines[4]}")
lines = run("--pmon", "-n", "1").splitlines()
check(lines[2].split()[2:9] == ["C", "30", "20", "0", "1", "2", "3"] and lines[3].split()[1] == "-", f"pmon: {lines[2:]}")

# The fields of eACGM and gswarm, under their names and in their units.
doc = json.loads(run("--compat", "eacgm", "--format", "json", words="gpus=2,board=h200"))
check(list(doc["gpus"][1]) == "gpu name sm totMem usedMem enc dec tmp fan usedPower totPower".split(), "eacgm: names")
check(doc["gpus"][1]["usedPower"] == 301 and doc["gpus"][1]["fan"] is None and doc["gpus"][1]["sm"] == 24, "eacgm: values")
check(list(doc["processes"][0]) == "task pid gpu timestamp sm mem enc dec".split(), "eacgm: names of processes")
check(doc["processes"][0]["task"] == "gpuscope" and doc["processes"][0]["sm"] == 30, "eacgm: a process")
doc = json.loads(run("--compat", "gswarm", "--format", "json"))
check(list(doc["gpus"][0])[:8] == ["physical_idx", "name", "gpu_util", "mem_util", "dram_bw_gbps_rx", "dram_bw_gbps_tx",
                                   "nvlink_bw_gbps_rx", "nvlink_bw_gbps_tx"], "gswarm: names")
check(abs(doc["gpus"][0]["dram_bw_gbps_rx"] - 210 * 2**20 / 1e9) < 1e-9, "gswarm: what was received is rx")
check("processes" not in doc, "gswarm: no processes")

# Tables.
table = run(words="gpus=2,board=h200")
check("NVIDIA H200" in table and "300 W" in table and "gpu --nvml" in table, "table: values and processes")
check("no process" in run(words="gpus=1,nopids"), "table: nobody")
check("lost" in run("-w", "0.05", "-n", "1", words="gpus=2,lost=1"), "table: a lost GPU is told")
check(run("--topology", words="gpus=3,board=a100").split()[4:8] == ["GPU0", "X", "NV4", "NODE"], "topology")
check("energy_joules" in run("--fields", "help", library=None), "--fields help")
run(library=nvml_old, words="gpus=1,board=t4")

# What a user may do wrong: one line, status 2.
for args in (["--format", "xml"], ["--fields", "nothing"], ["--dmon=x"], ["--compat", "dcgm"], ["-w", "-1"], ["-w", "x"],
             ["-n", "0"], ["-n", "-1"], ["extra"], ["--pmon", "--format", "json"], ["--dmon", "--fields", "power_watts"],
             ["--topology", "-w", "1"], ["--window", "nan"], ["-i", ","]):
    run(*args, expect=2)
    check(run.stderr.startswith("gpuscope gpu: "), f"{args}: {run.stderr}")

# What may be missing: one line, status 3; what hangs: 1.
for words, library, says in (("init=9", nvml, "not loaded"), ("init=18", nvml, "different versions"), ("gpus=0", nvml, "no GPU"),
                             ("", "/nonexistent.so", "/nonexistent.so"), ("", "libm.so.6", "too old")):
    run(words=words, library=library, expect=3)
    check(says in run.stderr and run.stderr.count("\n") == 1, f"{words} {library}: {run.stderr}")

# Let go of the driver on SIGUSR1 and take it up again; end on SIGINT with status 0.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "words")
    open(path, "w").write("gpus=2")
    watch = subprocess.Popen([gpuscope, "gpu", "--nvml", nvml, "-w", "0.05", "--format", "json"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "FAKE_NVML_FILE": path})
    seen = []

    def until(state):
        """Read on until a sample has this state."""
        for line in watch.stdout:
            if line.startswith('  "state":'):
                seen.append(line.split('"')[3])
                if seen[-1] == state:
                    return True
        return False

    check(until("ok"), "watch: ok")
    watch.send_signal(signal.SIGUSR1)
    check(until("released"), "watch: released on SIGUSR1")
    watch.send_signal(signal.SIGUSR1)
    check(until("ok"), "watch: taken up again")
    watch.send_signal(signal.SIGINT)
    out, err = watch.communicate(timeout=30)
    check(watch.returncode == 0, f"watch: SIGINT ended it with {watch.returncode}: {err}")

print("\n".join(f"not ok: {f}" for f in failures) or f"ok: {n_tests} checks")
sys.exit(bool(failures))
