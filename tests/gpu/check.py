#!/usr/bin/env python3
"""Compares what gpuscope recorded with what the workload knows (see run.sh). One line a check; exit
status 1 when one fails."""
import csv
import glob
import json
import sys

failed = 0


def check(what, got, want):
    global failed
    ok = got == want
    failed += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {what}: gpuscope {got}, {'the workload' if ok else 'expected'} {want}")


def calls_in(path, pid, begin, end):
    for row in csv.DictReader(open(path, newline="")):
        if int(row["pid"]) == pid and begin <= int(row["start_ns"]) <= end:
            yield row


def number(row, key):
    return int(row[key]) if row[key] else 0


def check_count(prefix):
    """PyTorch's profiler (CUPTI) and gpuscope watched the same loop."""
    want = json.load(open(prefix + ".json"))
    seen = want["seen"]
    rows = list(calls_in(prefix + ".csv", want["pid"], want["begin_ns"], want["end_ns"]))
    launches = [r for r in rows if r["class"] == "launch"]
    copies = [r for r in rows if r["class"] == "copy" and number(r, "bytes")]
    memsets = [r for r in rows if r["class"] == "memset"]
    print(f"     {want['steps']} training steps; the profiler saw the calls {seen['api']}")
    by_name = {}
    for r in launches + copies + memsets:
        by_name[r["function"]] = by_name.get(r["function"], 0) + 1
    print(f"     gpuscope saw {by_name}")
    check("kernel launches", len(launches), seen["kernel"])
    check("copies", len(copies), seen["gpu_memcpy"])
    check("copied bytes", sum(number(r, "bytes") for r in copies), seen["memcpy_bytes"])
    check("memsets", len(memsets), seen["gpu_memset"])
    check("set bytes", sum(number(r, "bytes") for r in memsets), seen["memset_bytes"])
    # cuBLAS holds a runtime of its own, linked statically: its launches are seen at the driver's door.
    api = dict(seen["api"])
    check("launches by ...Ex, either door", sum(r["function"] in ("cudaLaunchKernelExC", "cuLaunchKernelEx") for r in rows),
          api.pop("cudaLaunchKernelExC", 0) + api.pop("cuLaunchKernelEx", 0))
    for name, n in api.items():
        mine = sum(r["function"] == name for r in rows)
        if mine or name.startswith(("cudaLaunch", "cudaMemcpy", "cudaMemset", "cuLaunch")):
            check("calls of " + name, mine, n)
    check("failed calls", sum(r["result"] not in ("", "0") for r in launches + copies), 0)


def check_copies(prefix):
    want = json.load(open(prefix + ".json"))
    rows = list(calls_in(prefix + ".csv", want["pid"], want["copy_begin_ns"], want["copy_end_ns"]))
    for kind in ("HtoD", "DtoH"):
        mine = [r for r in rows if r["class"] == "copy" and r["kind"] == kind]
        check(f"copies {kind}", len(mine), want["moved"]["n_" + kind])
        check(f"bytes {kind}", sum(number(r, "bytes") for r in mine), want["moved"][kind])
    rows = list(calls_in(prefix + ".csv", want["pid"], 0, 1 << 63))
    check("graph launches", sum(r["class"] == "graph-launch" for r in rows), want["graph_launches"])
    big = [r for r in rows if r["function"] == "cudaMalloc" and number(r, "bytes") == 64 << 20]
    check("64 MiB allocations", len(big), want["big_allocs"])
    freed = {r["pointer"] for r in rows if r["function"] == "cudaFree"}
    check("of these freed again, by pointer", sum(r["pointer"] in freed for r in big), want["big_allocs"])
    oom = [r for r in rows if r["result_name"] == "cudaErrorMemoryAllocation"]
    check("out of memory errors seen", len(oom) >= 1, bool(want["oom"]))


def check_ranks(prefix):
    for path in sorted(glob.glob(prefix + ".[0-9]*.json")):
        want = json.load(open(path))
        rows = list(calls_in(prefix + ".csv", want["pid"], want["begin_ns"], want["end_ns"]))
        for name, (n, bytes_) in sorted(want["asked"].items()):
            # PyTorch broadcasts by the older name, which calls the newer one: one operation.
            names = (name, "ncclBcast") if name == "ncclBroadcast" else (name,)
            mine = [r for r in rows if r["function"] in names]
            check(f"rank {want['rank']}: {name}", (len(mine), sum(number(r, "bytes") for r in mine)), (n, bytes_))
            ranks = {(r["rank"], r["nranks"]) for r in mine}
            if name not in ("ncclSend", "ncclRecv"):
                check(f"rank {want['rank']}: {name} knows its rank", ranks, {(str(want["rank"]), str(want["world"]))})


def check_summary(prefix):
    """The summary in JSON, and the trace: the same number of calls; nothing lost."""
    summary = json.load(open(prefix + ".summary"))
    total = sum(f["calls"] for f in summary["functions"])
    rows = sum(1 for _ in open(prefix + ".csv")) - 1
    check("rows of the trace", rows - len(summary["open_calls"]), total)
    print(f"     lost: {json.dumps(summary['lost'])}; attach failures: {summary['attach_failures']}")
    for a in summary["attached"]:
        print(f"     probes: {a['path']} {a['probes']} ({a["probes_moved"]} moved, {a["probes_stepped"]} stepped)")


if __name__ == "__main__":
    {"count": check_count, "copies": check_copies, "ranks": check_ranks, "summary": check_summary}[sys.argv[1]](sys.argv[2])
    sys.exit(failed > 0)
