#!/usr/bin/env python3
"""Writes man/gpuscope-metrics.7: each metric that gpuscope serves, out of the places of the source that declare them.

Rows of GPUs come from the table src/model/node/gpu_field.h; all others are calls of gs_metrics_family() and gs_metrics_one(),
and rows of tables that those are called with: a name, perhaps a kind and a unit, and a sentence. tests/e2e/documents.py
compares the page with this program's output, and with the headings that an agent and a head serve.

usage: metrics_page.py [--check [FILE]]     (--check: 1 when the page in man/, or FILE, is not this)
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "man/gpuscope-metrics.7"
FIELDS = "src/model/node/gpu_field.h"
DATE = "2026-11-29"

# Where metrics are declared, and what they are of: heading, a sentence, files in src/, and the kind of tables that do not say it.
PARTS = (
    ("GPUS", "Labels: gpu (the index), uuid, pci_bus_id, for MIG instances also gpu_instance and mig_profile, and those listed.",
     (FIELDS, "output/metrics/gpu.c"), "GAUGE"),
    ("PROCESSES ON GPUS", "Processes selected by gpuscope agent ctl trace-gpu. Labels: pid, comm, uuid, and those listed in the text.",
     ("commands/agent_gpu/agent_gpu.c",), "COUNTER"),
    ("JOBS", "Labels: jobid, and those listed; gpuscope_job_info has user, account, partition and name to join with.",
     ("output/metrics/job.c", "commands/agent/agent_jobs.c"), "COUNTER"),
    ("TCP TRAFFIC", "With traffic.enabled (gpuscope-agent(8), TRAFFIC). Labels: application, side (server, client), port, peer, job.",
     ("commands/agent_traffic/agent_traffic_show.c",), "COUNTER"),
    ("THE NODE AND THE AGENT", "",
     ("commands/agent/agent_routes.c", "commands/agent/agent_alert.c", "commands/agent/agent_head.c", "commands/agent/agent_mysql.c",
      "commands/agent_recorder/agent_recorder.c", "commands/agent_devices/agent_devices.c", "commands/agent_findings/agent_findings.c", "output/metrics_push/set.c"), "COUNTER"),
    ("THE HEAD", "", ("server/head/head_metrics.c", "server/finding/finding.c", "server/api/api_metrics.c", "output/metrics_push/set.c"),
     "COUNTER"),
    ("NODES, PUSHED BY A HEAD", "With the metrics of their GPUs. Labels: instance and node.", ("server/head/head_push.c",), "GAUGE"),
)  # fmt: skip
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|[A-Za-z_]\w*|\s+|.', re.S)
NAME = re.compile(r"(?:gpuscope|push)_[a-z0-9_]+")
ENDING = {"COUNTER": "_total", "INFO": "_info"}


def arguments(tokens, at):
    """Texts of the arguments from tokens[at] to the end of its parenthesis or brace; adjacent literals are one."""
    depth, found, literal, words = 0, [], None, []
    while at < len(tokens):
        token = tokens[at]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif token == "," and depth == 0:
            found.append((literal, words))
            literal, words = None, []
        elif depth == 0 and token.startswith('"'):
            literal = (literal or "") + token[1:-1].replace('\\"', '"')
        elif depth == 0 and not token.isspace() and not token.startswith("/*"):
            words.append(token)
        at += 1
    found.append((literal, words))
    return found


def declared(path, default, prefix):
    """(name, kind, unit, help) of a file, in its order."""
    tokens = TOKEN.findall((ROOT / "src" / path).read_text())
    seen = set()
    for at, token in enumerate(tokens):
        if not token.startswith('"') or not NAME.fullmatch(token[1:-1]):
            continue
        rest = arguments(tokens, at)
        literals = [literal for literal, _ in rest[1:] if literal is not None]
        text = next((x for x in literals if " " in x and x.endswith(".")), None)
        if not text:
            continue
        kinds = re.findall(r"GS_METRICS_(GAUGE|COUNTER|INFO|UPDOWN|BARE)", " ".join(w for _, words in rest for w in words))
        name = token[1:-1] if token.startswith('"gpuscope_') else prefix + token[1:-1]  # "push_...": of the server that pushes
        if name not in seen:
            seen.add(name)
            yield name, kinds[0] if kinds else default, "", text


def fields():
    """(name, kind, labels, help) of the families in the table of values of a GPU."""
    source = re.sub(r"\\\n", " ", (ROOT / FIELDS).read_text())
    rows = re.findall(r'X\((\w+),\s*"[^"]*",\s*\w+,\s*(GAUGE|COUNTER),\s*\w+,\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)",\s*"[^"]*",\s*((?:"[^"]*"\s*)+)\)', source)
    families = {}
    for _, kind, family, label, value, text in rows:
        row = families.setdefault(family, [kind, label, [], "".join(re.findall(r'"([^"]*)"', text))])
        if value:
            row[2].append(value)
    for family, (kind, label, values, text) in families.items():
        yield "gpuscope_" + family, kind, f"{label}: {', '.join(values)}" if label else "", text


def metrics():
    """[(heading, sentence, [(name as served, type, labels, help)])]"""
    parts = []
    for heading, sentence, files, default in PARTS:
        rows = []
        for path in files:
            prefix = "gpuscope_head_" if heading == "THE HEAD" else "gpuscope_agent_"
            rows += fields() if path == FIELDS else declared(path, default, prefix)
        parts.append((heading, sentence, sorted({(n + ENDING.get(k, ""), "gauge" if k in ("INFO", "UPDOWN") else "counter" if k == "BARE" else k.lower(), labels, text)
                                                  for n, k, labels, text in rows})))  # fmt: skip
    return parts


def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


HEAD = f"""\
.\\" Written by tools/metrics_page.py; do not edit.
.TH GPUSCOPE-METRICS 7 {DATE} "gpuscope" "Miscellaneous"
.SH NAME
gpuscope-metrics \\- metrics that the agent and the head serve
.SH DESCRIPTION
.BR gpuscope-agent (8)
and
.BR gpuscope-head (8)
serve these metrics at
.IR /metrics .
Units are base units (seconds, bytes, watts, hertz, celsius); ratios are 0 to 1. Names of counters end in _total. A value that a device does
not report is absent, never 0. Metrics under the names of dcgm\\-exporter
.RB ( "\\-\\-compat dcgm" )
are defined by that program and are not listed here.
"""
TAIL = """\
.SH EXAMPLES
Print all metrics of the local agent, or the help of one:
.PP
.nf
curl \\-s http://127.0.0.1:14780/metrics
curl \\-s http://127.0.0.1:14780/metrics | grep 'HELP gpuscope_gpu_utilization_ratio'
.fi
.PP
Query Prometheus for GPUs that hold memory and were idle for ten minutes, for watts by node, and for the time of jobs by state:
.PP
.\\" promql
.nf
max_over_time(gpuscope_gpu_utilization_ratio[10m]) == 0 and gpuscope_gpu_memory_used_bytes > 1e9
sum by (instance) (gpuscope_gpu_power_watts)
sum by (jobid, state) (rate(gpuscope_job_thread_seconds_total[5m]))
.fi
.SH SEE ALSO
.BR gpuscope (1),
.BR gpuscope-agent (8),
.BR gpuscope-head (8)
"""


def page():
    out = [HEAD]
    for heading, sentence, rows in metrics():
        out.append(f".SH {heading}\n" + (roff(sentence) + "\n" if sentence else ""))
        for name, kind, labels, text in rows:
            out.append(f".TP\n.B {roff(name)}\n{kind[0].upper()}{kind[1:]}. {roff(text)}\n" + (f"Label {roff(labels)}.\n" if labels else ""))
    return "".join(out) + TAIL


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        path = pathlib.Path(sys.argv[2]) if sys.argv[2:] else PAGE
        if not path.exists() or path.read_text() != page():
            sys.exit(f"{path} is not what the source declares: run tools/metrics_page.py >man/{PAGE.name}")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        sys.stdout.write(page())
