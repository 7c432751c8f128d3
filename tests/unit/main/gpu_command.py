"""gpuscope gpu against the stand-in library: every format, selection, view, error and exit status.

gpu_command.py GPUSCOPE FAKE_NVML FAKE_NVML_OLD AMD_TREE
"""
import csv
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

gpuscope, nvml, nvml_old = sys.argv[1:4]
failures = []
n_tests = 0


def run(*args, words="gpus=2", library=nvml, expect=0, env=None):
    """What it printed; the exit status is checked."""
    done = subprocess.run([gpuscope, "gpu"] + (["--nvml", library] if library else []) + list(args), text=True,
                          capture_output=True, env={**os.environ, "FAKE_NVML": words, **(env or {})}, timeout=360)
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
    docs = list(yaml.safe_load_all(run("--format", "yaml", "-i", "0.05", "-n", "3")))
    check(len(docs) == 3 and all(d["state"] == "ok" for d in docs), "yaml: one document for each sample")

# CSV: one head, a row for each GPU and sample; empty for what is not there.
rows = list(csv.DictReader(io.StringIO(run("--format", "csv", "-i", "0.05", "-n", "3", words="gpus=2"))))
check(len(rows) == 6 and rows[5]["gpu"] == "1" and rows[5]["power_watts"] == "301" and rows[5]["fan_ratio"] == "", "csv: rows")
rows = list(csv.DictReader(io.StringIO(run("--format", "csv", "--processes"))))
check(len(rows) == 1 and rows[0]["gpu_memory_bytes"] == str(1 << 30) and "gpu --nvml" in rows[0]["command"], "csv: processes")
row = list(csv.DictReader(io.StringIO(run("--format", "csv", "--window", "0"))))[1]
check(row["memory_total_bytes"] == str(80 << 30) and row["sm_clock_hertz"] == "1101000000", f"csv: whole numbers: {row}")
check(row["throttle_hw_power_brake_seconds"] == "271.001" and row["tensor_half_active_ratio"] == "", f"csv: {row}")
head = run("--format", "csv", "--fields", "energy_joules,power_watts").splitlines()[0]
check(head.endswith(",lost,energy_joules,power_watts"), f"csv: fields in their order: {head}")

# Selection.
for choice, found in (("1", [1]), ("0,3", [0, 3]), ("GPU-00000002", [2]), ("13:00.0", [3]), ("0000:11:00", [1]),
                      ("00000000:10:00.0", [0])):
    doc = json.loads(run("-g", choice, "--format", "json", words="gpus=4"))
    check([g["index"] for g in doc["gpus"]] == found, f"-i {choice}: {[g['index'] for g in doc['gpus']]}")
doc = json.loads(run("-g", "0:8", "--format", "json", words="gpus=2,parts=3"))
check(len(doc["gpus"]) == 1 and doc["gpus"][0]["gpu_instance"] == 8 and doc["gpus"][0]["is_mig"], "-i: a part")
doc = json.loads(run("-g", "1", "--format", "json", words=f"gpus=2,pids={os.getpid()}:{os.getppid()}"))
check([p["pid"] for p in doc["processes"]] == [os.getppid()] and doc["processes"][0]["gpu"] == 1, "-i: its processes")
for args, found in ((["-g", "2", "-g", "3,1"], [1, 2, 3]), (["-g", "10:00"], [0, 0, 0]), (["-g", " 1 , 3"], [1, 3])):
    doc = json.loads(run(*args, "--format", "json", "--window", "0", words="gpus=4,parts=2"))
    check([g["index"] for g in doc["gpus"]] == found, f"{args}: {[g['index'] for g in doc['gpus']]}")
for wrong, says in (("4294967296", "no GPU"), ("0:00.0", "no GPU"), (":00.0", "no GPU"), ("GPU-0", "GPU 0 and GPU 1")):
    run("-g", wrong, expect=4 if says == "no GPU" else 2)
    check(says in run.stderr and run.stderr.count("\n") == 1, f"-i {wrong}: {run.stderr}")
run("-g", "9", expect=4)
check('no GPU "9"' in run.stderr and run.stderr.count("\n") == 1, "-i 9: one clear line")

# Scrolling columns.
lines = run("--dmon=pucvmet", "-i", "0.2", "-n", "2").splitlines()
check(lines[0].split()[:4] == ["#", "gpu", "pwr", "gtemp"] and len(lines) == 6, f"dmon: {lines[:1]}")
check(lines[2].split()[:4] == ["0", "300", "40", "50"] and lines[3].split()[1] == "301", f"dmon: {lines[2]}")
check(lines[4].split()[lines[0].split().index("rxpci") - 1] == "210", f"dmon: rxpci {lines[4]}")
lines = run("--pmon", "-n", "1").splitlines()
check(lines[2].split()[2:9] == ["C", "30", "20", "0", "1", "2", "3"] and lines[3].split()[1] == "-", f"pmon: {lines[2:]}")

check(run("--pmon", "-n", "1", words="gpus=2,parts=1").splitlines()[2].split()[0] == "0:7", "pmon: a part")
check(all(len(x) <= 80 for x in run("--dmon", "-n", "2").splitlines()), "dmon: fits 80 columns")

# Events where the format has no place for them; told as they come.
for view in (["--format", "csv"], ["--dmon"], ["--pmon"], ["--compat", "eacgm"]):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "words")
        open(path, "w").write("gpus=2,xid=1:79:1")
        watch = subprocess.Popen([gpuscope, "gpu", "--nvml", nvml, "-i", "100ms", *view], text=True, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, env={**os.environ, "FAKE_NVML_FILE": path})
        told = watch.stderr.readline()
        check(told == "gpuscope: 00000000:11:00.0: XID 79: GPU has fallen off the bus\n", f"{view}: {told}")
        watch.send_signal(signal.SIGTERM)
        watch.communicate(timeout=180)

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
run("--accounting", "-i", "0.05", "-n", "1", words="gpus=2,accounting=777")
check(not run.stderr, f"accounting: nothing to be said: {run.stderr}")
run("--accounting", "-i", "0.05", "-n", "1")
check("`nvidia-smi -am 1`" in run.stderr, "accounting: that it is off is told")
check("lost" in run("-i", "0.05", "-n", "1", words="gpus=2,lost=1"), "table: a lost GPU is told")
check(run("--topology", words="gpus=3,board=a100").split()[4:8] == ["GPU0", "X", "NV4", "NODE"], "topology")
check("energy_joules" in run("--fields", "help", library=None), "--fields help")
names = [line.split()[0] for line in run("--fields", "help", library=None).splitlines()]
heads = run("--fields", ",".join(names), "--devices").splitlines()[0].split()
check(len(heads) == len(names) + 2, f"table: {len(heads)} columns of {len(names)} fields")
check("failed calls of the driver: " in run(words="gpus=2,fail=all:999"), "table: failed calls are told")


def on_terminal(*args, columns=80, words="gpus=2"):
    """What it prints on a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    done = subprocess.Popen([gpuscope, "gpu", "--nvml", nvml, *args], stdout=follower, stderr=follower, stdin=follower,
                            env={**os.environ, "FAKE_NVML": words, "TERM": "dumb", "NO_COLOR": "1"})
    os.close(follower)
    out = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # EIO: nobody has the other end any more
            break
        if not piece:
            break
        out += piece
    os.close(leader)
    check(done.wait(timeout=360) == 0, f"on a terminal {args}: {out}")
    return out.decode()


# A terminal that is too narrow: the table goes on below, nothing is cut off.
for columns in (80, 60, 40):
    text = on_terminal(columns=columns, words="gpus=2,lost=1")
    check(all(len(x) <= columns for x in text.splitlines()), f"{columns} columns: {text}")
    check(all(w in text for w in ("NVIDIA H100 80GB HBM3", "(lost", "pcie-tx/s", "nvl-rx/s", "600 MiB/s")), f"{columns} columns: {text}")
text = on_terminal("--compat", "gswarm")
check("power_draw" in text and "301000" in text, f"--compat on a terminal: {text}")
text = on_terminal("--pmon", "-n", "1")
check(text.splitlines()[2].endswith("gpuscope"), f"--pmon on a terminal: {text}")
run(library=nvml_old, words="gpus=1,board=t4")

# What a user may do wrong: one line, status 2.
for args in (["--format", "xml"], ["--fields", "nothing"], ["--dmon=x"], ["--compat", "dcgm"], ["-i", "-1"], ["-i", "x"],
             ["-n", "0"], ["-n", "-1"], ["extra"], ["--pmon", "--format", "json"], ["--dmon", "--fields", "power_watts"],
             ["--topology", "-i", "1"], ["--window", "nan"], ["-g", ","], ["--dmon", "--pmon"], ["--pmon", "--compat", "eacgm"],
             ["--topology", "-g", "0"], ["--topology", "-n", "2"], ["--topology", "--fields", "power_watts"],
             ["--topology", "--compat", "eacgm"], ["--topology", "--devices"], ["--pmon", "--devices"], ["--dmon", "--processes"],
             ["--processes", "--fields", "power_watts"], ["--format", "csv", "--devices", "--processes"], ["-i", "9ms"], ["-i", "25h"]):
    run(*args, expect=2)
    check(run.stderr.startswith("gpuscope gpu: "), f"{args}: {run.stderr}")

# A driver that is slower than asked for: what is left out is counted, and nothing is caught up.
text = run("-i", "50ms", "-n", "4", "--format", "json", words="gpus=1,slow=DeviceGetMemoryInfo_v2:120")
docs, at = [], 0
while text[at:].strip():
    doc, end = json.JSONDecoder().raw_decode(text[at:].lstrip())
    docs.append(doc)
    at = len(text) - len(text[at:].lstrip()) + end
check(len(docs) == 4 and docs[3]["missed_samples"] >= 4, f"missed samples: {[d['missed_samples'] for d in docs]}")

# A disk that is full.
for args in ([], ["--topology"], ["--fields", "help"], ["--format", "json"]):
    with open("/dev/full", "w") as full:
        done = subprocess.run([gpuscope, "gpu", "--nvml", nvml, *args], stdout=full, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "FAKE_NVML": "gpus=1"}, timeout=360)
    check(done.returncode == 1 and done.stderr == "gpuscope: cannot write: No space left on device\n", f"{args} > /dev/full: {done}")

# What may be missing: one line, status 3; what hangs: 1.
for words, library, says in (("init=9", nvml, "not loaded"), ("init=18", nvml, "different versions"), ("gpus=0", nvml, "no GPU"),
                             ("", "/nonexistent.so", "/nonexistent.so"), ("", "libm.so.6", "too old")):
    run(words=words, library=library, expect=3)
    check(says in run.stderr and run.stderr.count("\n") == 1, f"{words} {library}: {run.stderr}")

# Let go of the driver on SIGUSR1 and take it up again; end on SIGINT with status 0.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "words")
    open(path, "w").write("gpus=2")
    watch = subprocess.Popen([gpuscope, "gpu", "--nvml", nvml, "-i", "0.05", "--format", "json"], text=True,
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
    out, err = watch.communicate(timeout=180)
    check(watch.returncode == 0, f"watch: SIGINT ended it with {watch.returncode}: {err}")

# As nvidia-smi's, --dmon and --pmon go on in a pipe until interrupted or until their reader ends; the help says so.
check("--dmon and --pmon repeat until interrupted" in " ".join(run("--help-all", library=None).split()), "help: endless")
for view in ("--dmon", "--pmon"):
    endless = [gpuscope, "gpu", "--nvml", nvml, view, "-i", "0.05"]
    with subprocess.Popen(endless, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, "FAKE_NVML": "gpus=1"}) as watch:  # fmt: skip
        check(all(watch.stdout.readline() for _ in range(2 + 5)), f"{view}: goes on in a pipe")
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=180)
        check(watch.returncode == 0, f"{view}: SIGINT ended it with {watch.returncode}")
    done = subprocess.run(["sh", "-c", '"$@" | head -n 1', "sh", *endless], capture_output=True, text=True, timeout=180,
                          env={**os.environ, "FAKE_NVML": "gpus=1"})  # fmt: skip
    check(done.stdout.startswith("# gpu"), f"{view}: ends with its reader: {done}")

print("\n".join(f"not ok: {f}" for f in failures) or f"ok: {n_tests} checks")
sys.exit(bool(failures))
