#!/usr/bin/env python3
"""Reads the reports of tests/gpu/job.sh: a line each with class and figures, and whether they are what the load is."""
import json
import sys

WANTED = {
    "compute": ("GPU-compute-bound",),
    "memory": ("GPU-memory-bound",),
    "input": ("GPU-input-bound",),
    "launch": ("GPU-launch-bound",),
    "idle": ("GPU-idle",),
}
COLUMNS = (("gpu_percent", "GPU %"), ("sm_percent", "SM %"), ("tensor_percent", "tensor %"), ("dram_percent", "DRAM %"),
           ("gpu_memory_percent", "mem %"), ("gpu_energy_joules", "J"), ("cpus_busy", "CPUs"), ("gpu_sync_percent", "sync %"))
print(f"{'load':8} {'result':6} {'class':26} {'score':>6} " + " ".join(f"{title:>9}" for _, title in COLUMNS))
for kind, wanted in WANTED.items():
    try:
        job = json.load(open(f"{sys.argv[1]}/{kind}.json"))["jobs"][0]
    except (OSError, ValueError, LookupError) as e:
        said = open(f"{sys.argv[1]}/{kind}.job.err").read().strip() or open(f"{sys.argv[1]}/{kind}.err").read().strip()[-200:]
        print(f"{kind:8} FAIL   no report: {e}; {said}")
        continue
    c, f = job["classification"], job["figures"]
    ok = c["type"] in wanted and len(job["gpus"]) == 1 and f["gpu_energy_joules"] and f["gpu_energy_joules"] > 0
    row = " ".join(f"{'-' if f[key] is None else format(f[key], '.1f'):>9}" for key, _ in COLUMNS)
    print(f"{kind:8} {'PASS' if ok else 'FAIL':6} {c['type']:26} {c['efficiency_score']:6.1f} {row}")
    print(f"         because {'; '.join(c['evidence'])}" + ("" if ok else f" (wanted {' or '.join(wanted)}; GPUs {job['gpus']})"))
