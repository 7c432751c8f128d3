"""The golden files of a summary, read by readers that are not ours: YAML must hold what JSON holds,
CSV the same functions, and doc/summary.md every key and column. Run with the project's root."""

import csv
import json
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("python3-yaml is not installed")
    sys.exit(77)

root = pathlib.Path(sys.argv[1])
golden = root / "tests" / "golden"


def load(name):
    with open(golden / f"summary_{name}.json", encoding="utf-8") as f:
        return json.load(f)


def keys_of(value):
    """Every key of the tree; those of "lost" and "waits" are names of layers and causes, not keys."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if isinstance(value, dict):
        return set(value).union(*(keys_of(v) for k, v in value.items() if k not in ("lost", "waits")))
    return set()


def documented(heading):
    """First column of the tables under a heading of doc/summary.md."""
    text = (root / "doc" / "summary.md").read_text(encoding="utf-8")
    part = re.split(r"^## ", text, flags=re.M)
    part = next(p for p in part if p.startswith(heading))
    return {k for row in re.findall(r"^\|((?: *`[^`]+` *,?)+)\|", part, flags=re.M)
            for k in re.findall(r"`([a-z0-9_]+)(?:\[\])?`", row)}


for name in "full", "single", "empty":
    with open(golden / f"summary_{name}.yaml", encoding="utf-8") as f:
        assert yaml.safe_load(f) == load(name), name

full = load("full")
threads = full["processes"][0]["threads"]
assert threads[1]["comm"] == '\x1b[31mpt "main"\n'
assert full["processes"][1]["comm"] == "~"
assert full["processes"][1]["threads"][0]["comm"] == "no"
assert full["processes"][1]["threads"][1]["comm"] == "\ufffd\ufffd, 0x1F"
assert full["processes"][0]["command"].endswith('"größer: 模型 №7"\t# first')
assert full["communicators"][2]["rank"] is None
assert load("empty")["exit_status"] is None
assert set(load("empty")) == set(full)

assert documented("JSON") == keys_of(full), documented("JSON") ^ keys_of(full)

with open(golden / "summary_full.csv", encoding="utf-8", newline="") as f:
    text = f.read()
    assert text.count("\r\n") == text.count("\n") - text.count('pt ""main""\n')
    rows = list(csv.DictReader(text.splitlines(keepends=True), strict=True))
assert all(None not in r and None not in r.values() for r in rows), "columns differ"
assert documented("CSV") == set(rows[0]), documented("CSV") ^ set(rows[0])


def of(record, scope, **where):
    return [r for r in rows if r["record"] == record and r["scope"] == scope
            and all(r[k] == str(v) for k, v in where.items())]


def compare(functions, found):
    assert len(functions) == len(found)
    for f, r in zip(functions, found):
        assert r["function"] == f["name"]
        for key in f.keys() - {"name"}:
            value = str(f[key]).lower() if isinstance(f[key], bool) else f[key]
            assert r[key] == ("" if value is None else str(value)), key


compare(full["functions"], of("function", "all"))
for p in full["processes"]:
    compare(p["functions"], of("function", "process", pid=p["pid"], comm=p["comm"]))
    for t in p["threads"]:
        compare(t["functions"], of("function", "thread", pid=p["pid"], tid=t["tid"]))
assert [r["count"] for r in of("error", "all")] == [str(e["count"]) for e in full["errors"]]
assert [r["detail"] for r in of("attach_failure", "all")] == \
    [a["path"] for a in full["attach_failures"]]
sums = {}
for r in of("lost", "all"):
    layer = sums.setdefault(r["layer"], {})
    layer[r["name"]] = layer.get(r["name"], 0) + int(r["count"])
assert sums == full["lost"]
