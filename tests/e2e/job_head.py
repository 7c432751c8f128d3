#!/usr/bin/env python3
"""Reports of jobs at a head: delivered once, whoever is killed; compared from there; hostile ones refused."""

import json
import os
import pwd
import signal
import subprocess
import sys
import time
import urllib.request

import harness
from agent_help import Agent, config_text
from harness import Skip, case, main, wait_until
from head_help import Head, unpack

NAMES = ('id', 'report', 'state', 'source', 'kind', 'job', 'user', 'name', 'class', 'score', 'begin_wall_ns', 'end_wall_ns')
RUNNING, FINISHED, PARTIAL = 1, 2, 3


def rows(head, where='1'):
    found = head.ask(f'SELECT {", ".join(NAMES)}, codec, raw_bytes, data FROM job_report WHERE {where} ORDER BY id')
    return [{**dict(zip(NAMES, r)), 'document': json.loads(unpack(*r[len(NAMES):]))} for r in found]


def reports(t):
    return t.path('reports')


def sleeper(seconds=600):
    return subprocess.Popen(['sleep', str(seconds)])


def busy():
    return subprocess.Popen([sys.executable, '-c', 'while True: pass'])


def measure(t, head, process, *more, seconds='0.5'):
    """`gpuscope job` of a process tree with --head; the run."""
    return t.run(harness.gpuscope, 'job', '-p', str(process.pid), '-d', seconds, '--head', head.address, '--head-spool', reports(t),
                 '--head-machine-id', 'worker', *more, timeout=120)  # fmt: skip


def end(process):
    process.kill()
    process.wait()


@case('a report of gpuscope job: stored once, as in its file, and nothing waits', timeout=120)
def delivered(t):
    head = Head(t)
    p = sleeper()
    try:
        run = measure(t, head, p, '-o', t.path('r.json'))
    finally:
        end(p)
    t.equal('status', run.status, 0)
    stored = rows(head)
    t.equal('reports', len(stored), 1)
    with open(t.path('r.json')) as f:
        in_file = json.load(f)
    r = stored[0]
    t.equal('the same job', r['document']['jobs'], in_file['jobs'])
    t.equal('what is in columns', [r['state'], r['source'], r['kind'], r['job']], [PARTIAL, 'job', 'tree', f'tree of {p.pid}'])
    t.equal('its class and score', [r['class'], r['score']],
            [in_file['jobs'][0]['classification']['type'], in_file['jobs'][0]['classification']['efficiency_score']])  # fmt: skip
    t.equal('streams', [(s['kind'], s['ended'], s['n_samples']) for s in head.streams('worker')], [(3, 1, 1)])
    t.equal('no batch of samples', head.ask('SELECT count(*) FROM batch'), [(0,)])
    t.equal('nothing waits', os.listdir(reports(t)), [])
    head.stop()


if __name__ == '__main__':
    main()
