"""What cluster.sh left behind: cluster.py FOLDER. Every sample of both nodes once and in order, gaps where the
head was away closed, values as nvidia-smi told them; a PASS or FAIL a line."""
import csv
import datetime
import sqlite3
import sys

out = sys.argv[1]


def check(what, ok, detail):
    print(f"{'PASS' if ok else 'FAIL'} {what}: {detail}")


db = sqlite3.connect(f"file:{out}/data/head.db?mode=ro", uri=True)
streams = db.execute("SELECT s.id, n.instance, s.last_seq, s.n_samples, s.lost_samples, s.missed_samples FROM stream s JOIN node n ON n.id = s.node").fetchall()
check("both nodes", sorted(s[1] for s in streams) == ["a", "b"], [s[1] for s in streams])
for sid, name, last, samples, lost, missed in streams:
    n, distinct, low, high = db.execute("SELECT count(*), count(DISTINCT seq), min(seq), max(seq) FROM batch WHERE stream = ?", (sid,)).fetchone()
    check(f"node {name}: every sample once", n == distinct == last == high and low == 1 and lost == 0, f"{n} batches, {low} to {high}, {lost} lost, {missed} missed")
    times = [t for (t,) in db.execute("SELECT first_wall_ns FROM batch WHERE stream = ? ORDER BY seq", (sid,))]
    steps = [(b - a) / 1e9 for a, b in zip(times, times[1:])]
    check(f"node {name}: no hole while the head was away", max(steps) < 1.5, f"{len(times)} samples over {(times[-1] - times[0]) / 1e9:.1f} s, longest step {max(steps):.2f} s")

rows = list(csv.DictReader(open(f"{out}/session.csv")))
check("the session has both GPUs", len({r["uuid"] for r in rows}) >= 1, f"{len(rows)} rows, {len({r['uuid'] for r in rows})} GPUs")
ours = {}
for r in rows:
    ours.setdefault(r["uuid"], []).append((datetime.datetime.fromisoformat(r["time"].replace("Z", "+00:00")).timestamp(), r))
seen, wrong = 0, []
when = None
for line in open(f"{out}/smi.txt"):
    parts = [p.strip() for p in line.split(",")]
    if len(parts) == 1:
        when = float(parts[0])
        continue
    index, uuid, util, memory, power, temperature = parts
    near = [r for t, r in ours.get(uuid, []) if abs(t - when) < 1.2]
    if not near:
        continue
    seen += 1
    for key, value, scale, slack in (("memory_used_bytes", memory, 1 << 20, 64), ("temperature_celsius", temperature, 1, 3)):
        values = [float(r[key]) / scale for r in near if r.get(key)]
        if not values or not min(values) - slack <= float(value) <= max(values) + slack:
            wrong.append((key, value, values[:3]))
    values = [100 * float(r["utilization_ratio"]) for r in near if r.get("utilization_ratio")]
    if not values or not min(values) - 25 <= float(util) <= max(values) + 25:
        wrong.append(("utilization", util, values[:3]))
check("values agree with nvidia-smi", seen >= 8 and len(wrong) <= seen // 10, f"{seen} moments compared, {len(wrong)} differ {wrong[:3]}")
