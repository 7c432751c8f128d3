"""arrive_check.py CASE PREFIX: compares what gpuscope says of arrivals (PREFIX.json) with what the ranks of arrive.py noted."""
import glob
import json
import sys

case, prefix = sys.argv[1:]
summary = json.load(open(f"{prefix}.json"))
got, verdict = summary["collectives"], summary["verdict"]
ranks = [json.load(open(f"{prefix}.{r}.json")) for r in range(len(glob.glob(prefix + ".[0-9]*.json")))]
failed = 0


def check(what, ok, seen):
    global failed
    failed += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {case}: {what}: {seen}", flush=True)


print("    ", {k: v for k, v in got.items() if k != "communicators"}, "ms per step", [round(1e3 * r["step_s"], 2) for r in ranks])
comms = sorted(got["communicators"], key=lambda c: -c["matched"])
check("a communicator whose calls are matched", bool(comms) and comms[0]["matched"] >= 200, [c["matched"] for c in comms])
comm = comms[0]
print("    ", comm)
check("no call is left out", not sum(got["left_out"].values()), got["left_out"])
check("processes of the ranks", [r["pid"] for r in comm["by_rank"]] == [r["pid"] for r in ranks], [r["pid"] for r in comm["by_rank"]])
want = 1 if case in ("late", "loader") else None
if case in ("equal", "late"):
    late_ns = [sorted(mine - min(all_) for mine, *all_ in zip(r["called_ns"], *(o["called_ns"] for o in ranks))) for r in ranks]
    if case == "equal":  # one GPU or host may be slower than the others all the same, which is no mistake then
        called = list(zip(*(r["called_ns"] for r in ranks)))
        last = [sum(1 for ns in called if ns[i] == max(ns)) / len(called) for i in range(len(ranks))]
        print("      by their own clocks last at", last)
        want = last.index(max(last)) if max(last) >= 0.9 else None
        if 0.6 < max(last) < 0.9:  # neither always nor by chance: whether it stands out is up to how much it is late
            want = comm["late_rank"] and last.index(max(last))
if case == "gpu":  # its host makes some more calls, so it may be a little behind: no cause of anything
    want = comm["late_rank"] and 1
check("the late rank", comm["late_rank"] == want, comm["late_rank"])
if case in ("equal", "late"):
    for r, mine in zip(comm["by_rank"], late_ns):
        # The host's own time between its note and NCCL's call is not in its clock.
        clock, seen = mine[len(mine) // 2], r["late_p50_ns"]
        check(f"rank {r['rank']} is as late as by its own clock", abs(seen - clock) <= 0.06 * clock + 50e3, (seen, clock))
# The verdict names the rank that the others wait for, whichever rank sets the pace, and none where none is late.
print("     ", verdict)
pace = next((t["pid"] for t in summary["account"]["threads"] if t["critical"]), None)
late = comm["late_rank"]
costs = late is not None and next(r["missing_ns"] for r in comm["by_rank"] if r["rank"] == late) >= 0.1 * comm["span_ns"]
if case in ("late", "loader"):
    check("it costs the others a tenth of the time", costs, comm["by_rank"])
if case == "gpu":  # whose hosts wait longer for their GPU: the one that has more to do, or none
    others = [r["rank"] for r in comm["by_rank"] if r["rank"] != 1 and f"rank {r['rank']} (" in verdict["evidence"]]
    check("the verdict names no rank but the one whose GPU has more to do", verdict["class"] == "gpu_bound" and not others, verdict)
elif late is None:
    check("the verdict names no rank", "arrives last" not in verdict["evidence"] + verdict["advice"], verdict["class"])
elif not costs:
    check("the verdict does not say that the others wait for it", "for which the others wait" not in verdict["evidence"], verdict["class"])
elif pace == ranks[late]["pid"]:
    check("the verdict says that the others wait for it", f"it is rank {late}, for which the others wait" in verdict["evidence"], verdict["class"])
else:
    check("the verdict names the late rank", f"rank {late} (process {ranks[late]['pid']}) arrives last" in verdict["evidence"], verdict["class"])
if late is not None and case not in ("equal", "gpu"):
    by_rank = {r["rank"]: r["late_p50_ns"] for r in comm["by_rank"]}  # sums hold what the start of each cost
    check("it is behind for longer than any other", by_rank[late] > 2 * max(v for r, v in by_rank.items() if r != late), by_rank)
sys.exit(failed > 0)
