#!/usr/bin/env python3
"""Figures of gpuscope beside those of independent sources, of the same run, as a table; `make accuracy`.

usage: accuracy.py GPUSCOPE FAKE_FOLDER [--quick] [--write FILE] [LAYER...]

--quick: a small part of it. --write: the table in Markdown, too. LAYER: words of its title.
What this machine lacks is a SKIP with the reason. The exit status is 1 when a figure is outside of
what is allowed.
"""

import argparse
import ctypes
import os
import platform
import sys

import table
from table import harness, layers

import layer_cuda  # noqa: F401
import layer_python  # noqa: F401
import layer_syscalls  # noqa: F401
import layer_process  # noqa: F401
import layer_files  # noqa: F401
import layer_network  # noqa: F401
import layer_gpu  # noqa: F401
import layer_mpi  # noqa: F401
import layer_slurm  # noqa: F401
import layer_cluster  # noqa: F401

INTRODUCTION = '''# How accurate the figures are

`make accuracy` writes this page, and can measure again on any machine. Each row compares a figure
that gpuscope reported with the same figure from an independent source, taken in the same run.
"allowed" is how far apart the two may be, and why. A figure outside of it is marked NOT, and the
command then ends with status 1. A part that the machine cannot measure is skipped, with the reason.

'''


def main():
    p = argparse.ArgumentParser(description='Figures of gpuscope beside those of independent sources.')
    p.add_argument('gpuscope')
    p.add_argument('fake')
    p.add_argument('--quick', action='store_true')
    p.add_argument('--write', metavar='FILE')
    p.add_argument('layer', nargs='*')
    o = p.parse_args()
    harness.gpuscope, harness.fake = os.path.abspath(o.gpuscope), os.path.abspath(o.fake)
    ctypes.CDLL(None).prctl(harness.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    chosen = [x for x in layers if (x[1] or not o.quick) and (not o.layer or any(w in x[0] for w in o.layer))]
    unable = harness.tracing_works() if any(x[2] for x in chosen) else None
    results = []
    for title, _, needs, seconds, function in chosen:
        if needs and unable:
            result = (title, [], [], unable, 0.0)
        else:
            result = (title, *table.perform(title, seconds, function))
        results.append(result)
        table.print_rows(*result)
    rows = [row for r in results for row in r[1]]
    outside = sum(not row['ok'] for row in rows) + sum(len(r[2]) for r in results)
    skipped = sum(bool(r[3]) for r in results)
    summary = f'{len(rows)} figures, {len(rows) - sum(not r["ok"] for r in rows)} within what is allowed, {skipped} part{"s" if skipped != 1 else ""} skipped'
    print(f'\n{summary}')
    if o.write:
        where = f'{platform.system()} {platform.release().split("-")[0]}, {platform.machine()}, {os.cpu_count()} processors'
        with open(o.write, 'w', encoding='utf-8') as f:
            f.write(INTRODUCTION + f'This table: {summary}; {where}.\n' + table.markdown(results))
    return 1 if outside else 0


if __name__ == '__main__':
    sys.exit(main())
