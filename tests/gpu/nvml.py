#!/usr/bin/env python3
"""Compares `gpuscope gpu` with `nvidia-smi -q -x`, dmon and GPM metrics on real GPUs (see nvml.sh).

What does not change is compared exactly. What changes is read by nvidia-smi before and after, and
ours must lie between the two, with a margin for what the driver averages over time."""
import json
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

gpuscope, out, sample = sys.argv[1:4]
passed = failed = 0
MIB = 1 << 20
LOAD = """
import sys, time, torch
d = torch.device("cuda", int(sys.argv[1])); torch.cuda.set_device(d)
a = torch.randn(8192, 8192, device=d, dtype=torch.bfloat16); b = torch.randn_like(a)
h = torch.empty(64 << 20, dtype=torch.uint8).pin_memory()
print("ready", flush=True)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    for _ in range(20):
        a @ b
    h.to(d, non_blocking=True)
    torch.cuda.synchronize()
"""


def check(what, ok, detail):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    print(f"{'PASS' if ok else 'FAIL'} {what}: {detail}")


def smi():
    root = ET.fromstring(subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True).stdout)
    return root, root.findall("gpu")


def ours(*args):
    done = subprocess.run([gpuscope, "gpu", "--format", "json", *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"gpuscope gpu ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def text(gpu, *paths):
    """The first of these elements that says something."""
    for path in paths:
        value = gpu.findtext(path)
        if value and value not in ("N/A", "Not Supported", "[N/A]", "Unknown Error", "Requested functionality has been deprecated"):
            return value.strip()
    return None


def number(gpu, *paths):
    value = text(gpu, *paths)
    found = re.match(r"-?[\d.]+", value.lstrip("P")) if value else None
    return float(found.group()) if found else None


# key of ours, elements of nvidia-smi's, its unit in ours
EXACT = [
    ("memory_total_bytes", ["fb_memory_usage/total"], MIB), ("memory_reserved_bytes", ["fb_memory_usage/reserved"], MIB),
    ("bar1_total_bytes", ["bar1_memory_usage/total"], MIB),
    ("power_limit_watts", ["gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"], 1),
    ("power_limit_default_watts", ["gpu_power_readings/default_power_limit"], 1),
    ("power_limit_min_watts", ["gpu_power_readings/min_power_limit"], 1),
    ("power_limit_max_watts", ["gpu_power_readings/max_power_limit"], 1),
    ("sm_clock_max_hertz", ["max_clocks/sm_clock"], 1e6), ("memory_clock_max_hertz", ["max_clocks/mem_clock"], 1e6),
    ("graphics_clock_max_hertz", ["max_clocks/graphics_clock"], 1e6), ("video_clock_max_hertz", ["max_clocks/video_clock"], 1e6),
    ("pcie_link_generation_max", ["pci/pci_gpu_link_info/pcie_gen/max_link_gen"], 1),
    ("pcie_link_width_max", ["pci/pci_gpu_link_info/link_widths/max_link_width"], 1),
    ("pcie_link_width", ["pci/pci_gpu_link_info/link_widths/current_link_width"], 1),
    ("pcie_replays", ["pci/replay_counter"], 1),
    ("row_remaps_correctable", ["remapped_rows/remapped_row_corr"], 1),
    ("row_remaps_uncorrectable", ["remapped_rows/remapped_row_unc"], 1),
    ("ecc_dram_corrected_errors", ["ecc_errors/aggregate/dram_correctable"], 1),
    ("ecc_dram_uncorrected_errors", ["ecc_errors/aggregate/dram_uncorrectable"], 1),
    ("ecc_sram_corrected_errors", ["ecc_errors/aggregate/sram_correctable"], 1),
]
# the same, and the margin in nvidia-smi's unit
MOVING = [
    ("utilization_ratio", ["utilization/gpu_util"], 0.01, 15), ("memory_utilization_ratio", ["utilization/memory_util"], 0.01, 15),
    ("encoder_utilization_ratio", ["utilization/encoder_util"], 0.01, 2), ("decoder_utilization_ratio", ["utilization/decoder_util"], 0.01, 2),
    ("jpeg_utilization_ratio", ["utilization/jpeg_util"], 0.01, 2), ("ofa_utilization_ratio", ["utilization/ofa_util"], 0.01, 2),
    ("memory_used_bytes", ["fb_memory_usage/used"], MIB, 64), ("bar1_used_bytes", ["bar1_memory_usage/used"], MIB, 8),
    ("temperature_celsius", ["temperature/gpu_temp"], 1, 4), ("memory_temperature_celsius", ["temperature/memory_temp"], 1, 4),
    ("power_watts", ["gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw"], 1, 60),
    ("power_instant_watts", ["gpu_power_readings/instant_power_draw"], 1, 150),
    ("sm_clock_hertz", ["clocks/sm_clock"], 1e6, 200), ("memory_clock_hertz", ["clocks/mem_clock"], 1e6, 100),
    ("graphics_clock_hertz", ["clocks/graphics_clock"], 1e6, 200), ("video_clock_hertz", ["clocks/video_clock"], 1e6, 200),
    ("performance_state", ["performance_state"], 1, 0), ("fan_ratio", ["fan_speed"], 0.01, 3),
    ("pcie_link_generation", ["pci/pci_gpu_link_info/pcie_gen/current_link_gen"], 1, 0),
]


def compare(phase):
    before_root, before = smi()
    doc = ours()
    _, after = smi()
    whole = [g for g in doc["gpus"] if not g["is_mig"]]
    check(f"{phase} number of GPUs", len(whole) == len(before), f"{len(whole)}, nvidia-smi {len(before)}")
    for g, a, b in zip(whole, before, after):
        name, v = f"{phase} GPU {g['index']}", g["values"]
        for key, want in (("uuid", text(a, "uuid")), ("pci_bus_id", a.get("id")), ("name", text(a, "product_name")),
                          ("serial", text(a, "serial")), ("vbios", text(a, "vbios_version")),
                          ("driver_version", before_root.findtext("driver_version")),
                          ("cuda_version", before_root.findtext("cuda_version"))):
            check(f"{name} {key}", g[key] == want, f"{g[key]}, nvidia-smi {want}")
        for key, paths, unit in EXACT:
            want = number(a, *paths)
            if want is None:
                print(f"     {name} {key}: {v[key]} ({g['missing'].get(key, 'read')}); nvidia-smi has none")
                continue
            got = None if v[key] is None else v[key] / unit
            # nvidia-smi rounds to whole MiB.
            check(f"{name} {key}", got is not None and abs(got - want) <= (1 if unit == MIB else 0.01), f"{got}, nvidia-smi {want}")
        for key, paths, unit, margin in MOVING:
            low, high = number(a, *paths), number(b, *paths)
            if low is None or high is None:
                print(f"     {name} {key}: {v[key]} ({g['missing'].get(key, 'read')}); nvidia-smi has none")
                continue
            got = None if v[key] is None else v[key] / unit
            low, high = min(low, high) - margin, max(low, high) + margin
            check(f"{name} {key}", got is not None and low <= got <= high, f"{got}, nvidia-smi {low + margin:g} to {high - margin:g}")
        theirs = {int(p.findtext("pid")): number(p, "used_memory") for p in a.findall("processes/process_info")}
        mine = {p["pid"]: p["gpu_memory_bytes"] for p in doc["processes"] if p["gpu_uuid"] == g["uuid"]}
        check(f"{name} processes", set(theirs) == set(mine), f"{sorted(mine)}, nvidia-smi {sorted(theirs)}")
        for pid in set(theirs) & set(mine):
            if theirs[pid] is not None:
                check(f"{name} memory of {pid}", mine[pid] is not None and abs(mine[pid] / MIB - theirs[pid]) <= 64,
                      f"{(mine[pid] or 0) / MIB:.0f} MiB, nvidia-smi {theirs[pid]:.0f}")
        broken = {k: w for k, w in g["missing"].items() if w in ("failed", "timed_out")}
        check(f"{name} nothing failed", not broken and doc["failed_calls"] == 0, f"{broken or 'none'}; failed calls {doc['failed_calls']}")
    return doc


def columns(lines):
    """Lines of dmon or pmon: the mean of each column for each GPU."""
    head, sums = None, {}
    for line in lines:
        if line.startswith("# gpu"):
            head = line[1:].split()
        elif head and not line.startswith("#") and line.split():
            for key, word in zip(head, line.split()):
                if re.fullmatch(r"[\d.]+", word):
                    sums.setdefault((line.split()[0], key), []).append(float(word))
    return {k: sum(v) / len(v) for k, v in sums.items()}


def compare_dmon(phase):
    theirs = subprocess.Popen(["nvidia-smi", "dmon", "-s", "pucvmet", "-c", "5"], stdout=subprocess.PIPE, text=True)
    mine = subprocess.run([gpuscope, "gpu", "--dmon=pucvmet", "-i", "1", "-n", "5"], capture_output=True, text=True).stdout
    a, b = columns(mine.splitlines()), columns(theirs.communicate()[0].splitlines())
    margins = {"pwr": 60, "gtemp": 4, "mtemp": 4, "sm": 15, "mem": 15, "enc": 2, "dec": 2, "jpg": 2, "ofa": 2, "mclk": 100, "pclk": 200,
               "fb": 600, "bar1": 8, "sbecc": 0, "dbecc": 0, "pci": 0}
    for (gpu, key), want in sorted(b.items()):
        if key in margins:
            got = a.get((gpu, key))
            check(f"{phase} dmon GPU {gpu} {key}", got is not None and abs(got - want) <= margins[key], f"{got}, nvidia-smi {want}")
        elif key in ("rxpci", "txpci", "pviol", "tviol"):
            # Theirs is a look of 20 ms, ours is of the whole second: shown, not compared.
            print(f"     {phase} dmon GPU {gpu} {key}: {a.get((gpu, key))}, nvidia-smi {want}")


def compare_gpm(phase):
    metrics = {"2": "sm_active_ratio", "3": "sm_occupancy_ratio", "5": "tensor_active_ratio", "10": "dram_active_ratio"}
    done = subprocess.run(["nvidia-smi", "dmon", "--gpm-metrics", ",".join(metrics), "-c", "4"], capture_output=True, text=True)
    rows = [l.split() for l in done.stdout.splitlines() if l and not l.startswith("#")]
    doc = ours("--window", "1")
    if done.returncode or not rows:
        print(f"     {phase} GPM: nvidia-smi does not show it here")
        return
    for g in doc["gpus"]:
        mine = [r for r in rows if r[0] == str(g["index"])]
        for at, key in enumerate(metrics.values()):
            words = [r[len(r) - len(metrics) + at] for r in mine]
            values = [float(w) for w in words if re.fullmatch(r"[\d.]+", w)]
            if values and not g["is_mig"]:
                want, got = sum(values) / len(values), g["values"][key]
                check(f"{phase} GPM GPU {g['index']} {key}", got is not None and abs(got * 100 - want) <= 12,
                      f"{None if got is None else round(got * 100, 1)} %, nvidia-smi {want:.1f} %")


def compare_energy(phase):
    """The energy counter against power over five seconds."""
    done = subprocess.run([gpuscope, "gpu", "--format", "csv", "--fields", "energy_joules,power_instant_watts,power_watts", "-i", "0.2", "-n", "26"],
                          capture_output=True, text=True).stdout.splitlines()
    rows = [line.split(",") for line in done[1:]]
    for gpu in sorted({r[1] for r in rows}):
        mine = [r for r in rows if r[1] == gpu and r[8] and r[9]]
        if len(mine) < 5:
            print(f"     {phase} energy GPU {gpu}: not told")
            continue
        seconds, joules = float(mine[-1][0]) - float(mine[0][0]), float(mine[-1][8]) - float(mine[0][8])
        power = sum(float(r[9]) for r in mine) / len(mine)
        check(f"{phase} energy GPU {gpu}", abs(joules / seconds - power) <= 0.15 * power + 10,
              f"{joules / seconds:.1f} W by energy, {power:.1f} W by power")


def cost(phase):
    if sample:
        print(f"-- cost of a sample, {phase}")
        print(subprocess.run([sample, "50"], capture_output=True, text=True).stdout, end="")


def all_of(phase):
    doc = compare(phase)
    compare_dmon(phase)
    compare_gpm(phase)
    compare_energy(phase)
    cost(phase)
    return doc


all_of("idle")
have = subprocess.run([sys.executable, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"], capture_output=True)
n = len(smi()[1])
for busy in ([1] if n == 1 else [1, n]) if have.returncode == 0 else []:
    loads = [subprocess.Popen([sys.executable, "-c", LOAD, str(i), "75"], stdout=subprocess.PIPE, text=True) for i in range(busy)]
    for load in loads:
        load.stdout.readline()
    time.sleep(5)
    doc = all_of(f"{busy} busy")
    for i in range(busy):
        shares = [p["sm_ratio"] for p in doc["processes"] if p["pid"] == loads[i].pid]
        check(f"{busy} busy: the share of the load on GPU {i}", shares and shares[0] is not None and shares[0] > 0.2, f"{shares}")
    for load in loads:
        load.terminate()
        load.wait()
    time.sleep(3)
if have.returncode:
    print("SKIP the load: no PyTorch with a GPU here")
print(f"nvml: {passed} passed, {failed} failed")
sys.exit(bool(failed))
