#!/usr/bin/env python3
"""Jobs over nodes: two traces deliver to one head, each with half of a job's ranks, and the head names who is late or has not arrived."""

import json
import os
import time

import harness
import pythons
from harness import Skip, case, main, wait_until
from head_help import Head

N_RANKS = 4
LATE_S, STEP_S = 0.1, 0.4

# Each rank calls at times that are agreed on, and none really waits: what each call does is known in advance.
RANKS = """
import ctypes, os, sys, time
nccl = ctypes.CDLL('libnccl.so.2')
class Id(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_ubyte * 128)]
unique = Id.from_buffer_copy(bytes.fromhex(sys.argv[1]))
begin, step_s, late_s, steps, mode = float(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6]

def train(rank):
    comm = ctypes.c_void_p()
    nccl.ncclCommInitRank(ctypes.byref(comm), 4, unique, rank)
    for step in range(steps):
        at = begin + step * step_s
        if mode == 'late' and rank == 3:
            at += late_s
        if mode == 'hang' and step == 10:
            at += 14 if rank == 2 else 0
        if mode == 'hang' and step > 10:
            at += 15
        if mode == 'skip' and step == 10 and rank == 2:
            continue
        time.sleep(max(0, at - time.clock_gettime(time.CLOCK_BOOTTIME)))
        nccl.ncclAllReduce(ctypes.c_void_p(4096), ctypes.c_void_p(4096), ctypes.c_size_t(8 + step % 4), 7, 0, comm, None)
    if mode == 'skip':
        time.sleep(9)

for rank in map(int, sys.argv[7:]):
    if os.fork() == 0:
        train(rank)
        os._exit(0)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


def python():
    found = [p for p in pythons.interpreters((3, 8), (3, 14)) if harness.has_module(p.program, 'ctypes')]
    if not found:
        raise Skip('no interpreter')
    return found[0].program


class Job:
    """Ranks 0 and 1 on one node, which sends sums alone, and 2 and 3 on another one, which sends all calls."""

    def __init__(self, t, head, mode, steps):
        path = t.path('ranks.py')
        with open(path, 'w') as f:
            f.write(RANKS)
        begin = time.clock_gettime(time.CLOCK_BOOTTIME) + 8
        words = [python(), path, os.urandom(128).hex(), str(begin), str(STEP_S), str(LATE_S), str(steps), mode]
        self.traces = [
            t.start_trace('--head', head.address, '--machine-id', name, '--spool', t.path('spool-' + name), *more,
                          command=words + ranks, env={'LD_LIBRARY_PATH': harness.fake})
            for name, more, ranks in (('one', ['--summary-only'], ['0', '1']), ('two', [], ['2', '3']))
        ]  # fmt: skip

    def finish(self):
        return [trace.finish() for trace in self.traces]


def findings(t, head, *options):
    out = t.tool('session', 'findings', '--head', head.address, '--format', 'json', *options, status=0).out
    return json.loads(out)['findings']


def wait_finding(t, head, holds):
    wait_until(lambda: any((f['end'] is None) == holds for f in findings(t, head)), 60, 'a finding')
    return findings(t, head)


@case('a rank of another node that is late at each collective is named, with how much, and is kept', timeout=240)
def late(t):
    head = Head(t)
    job = Job(t, head, 'late', 50)
    found = wait_finding(t, head, True)
    t.equal('one', len(found), 1)
    f = found[0]
    t.equal('who', [f['kind'], f['rank'], f['ranks'], f['details']['ranks_seen']], ['late_rank', 3, N_RANKS, N_RANKS])
    d = f['details']
    t.true('by how much', abs(d['late_seconds'] - LATE_S) < LATE_S / 2, d)
    t.true('of the step', abs(d['late_ratio'] - LATE_S / STEP_S) < LATE_S / STEP_S / 2, d)
    t.true('clocks of two nodes are known to less', 0 < d['clock_error_seconds'] < LATE_S / 2, d)
    t.true('again and again', d['late_comparisons'] >= 4, d)
    t.match('in words', rf'holds .*rank 3 of {N_RANKS} \(\S+, pid \d+\) arrives last at collectives',
            t.tool('session', 'findings', '--head', head.address, status=0).out)
    t.equal('of another job', findings(t, head, '--job', 'no-such-job'), [])
    job.finish()
    f = wait_finding(t, head, False)[0]
    t.equal('still the same', f['id'], found[0]['id'])
    # What was sent: sums from both, calls from one.
    for name, n_calls in (('one', False), ('two', True)):
        kinds = set(kinds_of(head.records(head.streams(name)[0]['id'])))
        t.true(f'{name}: sums of ranks', 43 in kinds, kinds)
        t.equal(f'{name}: calls', 6 in kinds, n_calls)
    log = head.stop().err
    t.match('the head says it', r'rank 3 of 4 .* arrives last at collectives', log)
    head.start()
    t.equal('and keeps it', [x['id'] for x in findings(t, head)], [f['id']])
    head.stop()


def kinds_of(records):
    at = 0
    while at < len(records):
        yield int.from_bytes(records[at + 2 : at + 4], 'little')
        at += int.from_bytes(records[at : at + 2], 'little')


@case('a rank of another node that has not arrived is named, and that it came at last', timeout=240)
def hang(t):
    head = Head(t)
    job = Job(t, head, 'hang', 16)
    f = [x for x in wait_finding(t, head, True) if x['kind'] == 'hang'][0]
    d = f['details']
    t.equal('who', [f['rank'], f['ranks'], d['waiting_ranks'], d['collective'], d['function']], [2, N_RANKS, 3, 11, 'ncclAllReduce'])
    t.equal('alone', [(r['rank'], r['state'], r['collectives'], r['last']) for r in d['about']], [(2, 'missing', 10, 'ncclAllReduce')])
    job.finish()
    wait_until(lambda: all(x['end'] for x in findings(t, head)), 60, 'its end')
    head.stop()


@case('a rank of another node that leaves a collective out is named, and that it is a call behind since is no hang', timeout=240)
def mismatch(t):
    head = Head(t)
    job = Job(t, head, 'skip', 14)
    f = wait_finding(t, head, True)[0]
    t.equal('who', [f['kind'], f['rank'], f['ranks']], ['mismatch', 2, N_RANKS])
    d = f['details']
    t.equal('what', [d[k] for k in ('collective', 'last_collective', 'function', 'count', 'type')], [11, 11, 'ncclAllReduce', 10, 'float32'])
    t.equal('alone', [(r['rank'], r['state'], r['function'], r['count']) for r in d['about']], [(2, 'skipped', 'ncclAllReduce', 11)])
    t.match('in words', rf'rank 2 of {N_RANKS} \(\S+, pid \d+\) skipped collective 11, ncclAllReduce of 10 float32', f['text'])
    job.finish()
    wait_until(lambda: all(x['end'] for x in findings(t, head)), 60, 'its end')
    t.equal('once', [x['kind'] for x in findings(t, head)], ['mismatch'])
    head.stop()


@case('ranks that are in time: nothing is said', timeout=240)
def clean(t):
    head = Head(t)
    Job(t, head, 'clean', 30).finish()
    time.sleep(2)  # two comparisons
    t.equal('nothing', findings(t, head), [])
    t.equal('in words', t.tool('session', 'findings', '--head', head.address, status=0).out, 'no findings\n')
    head.stop()


if __name__ == '__main__':
    main()
