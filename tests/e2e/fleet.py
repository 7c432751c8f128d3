#!/usr/bin/env python3
"""Jobs over nodes: two traces deliver to one head, each with half of a job's ranks, and the head names who is late or has not arrived."""

import json
import os
import struct
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
cuda = ctypes.CDLL('libcudart.so.13')
class Id(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_ubyte * 128)]
unique = Id.from_buffer_copy(bytes.fromhex(sys.argv[1]))
begin, step_s, late_s, steps, mode = float(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6]

# No rank goes on before all have called, as with a real one, however busy the machine is.
def meet(rank, step, called):
    names = [f'{sys.argv[0]}.{step}.{r}' for r in range(4)]
    with open(names[rank], 'w') as f:
        f.write(str(called))
    until = time.monotonic() + 60
    while not all(map(os.path.exists, names)) and time.monotonic() < until:
        time.sleep(0.001)

def steps_of(rank, comm):
    for step in range(steps):
        at = begin + step * step_s
        if rank == 3 and step % 5 == 4:
            at += late_s * (7 if step == 104 else 1)
        time.sleep(max(0, at - time.clock_gettime(time.CLOCK_BOOTTIME)))
        for k in range(4):
            cuda.cudaMemsetAsync(ctypes.c_void_p(4096), 0, ctypes.c_size_t(64 + k), ctypes.c_void_p(0x77))
        called = time.clock_gettime(time.CLOCK_BOOTTIME)
        for k in range(2):
            nccl.ncclAllReduce(ctypes.c_void_p(4096), ctypes.c_void_p(4096), ctypes.c_size_t(8 + k), 7, 0, comm, ctypes.c_void_p(0x77))
        meet(rank, step, called)
        cuda.cudaStreamSynchronize(ctypes.c_void_p(0x77))
    while not os.path.exists(sys.argv[0] + '.go'):
        time.sleep(0.05)

def train(rank):
    comm = ctypes.c_void_p()
    nccl.ncclCommInitRank(ctypes.byref(comm), 4, unique, rank)
    if mode == 'steps':
        steps_of(rank, comm)
        return
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
        nccl.ncclAllReduce(ctypes.c_void_p(4096), ctypes.c_void_p(4096), ctypes.c_size_t(8 + step % 4), 7, 0, comm, ctypes.c_void_p(0x77))
        if mode == 'met':
            time.sleep(max(0, at + step_s / 4 - time.clock_gettime(time.CLOCK_BOOTTIME)))
            meet(rank, step, 0)
            cuda.cudaStreamSynchronize(ctypes.c_void_p(0x77))
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
    """Ranks 0 and 1 on one node, which sends sums alone (or all calls, too), and 2 and 3 on another one, which sends all calls."""

    def __init__(self, t, head, mode, steps, one=('--summary-only',), step_s=STEP_S, late_s=LATE_S):
        path = self.path = t.path('ranks.py')
        with open(path, 'w') as f:
            f.write(RANKS)
        begin = time.clock_gettime(time.CLOCK_BOOTTIME) + 8
        self.begin = begin
        words = [python(), path, os.urandom(128).hex(), str(begin), str(step_s), str(late_s), str(steps), mode]
        self.traces = [
            t.start_trace('--head', head.address, '--machine-id', name, '--spool', t.path('spool-' + name), *more,
                          command=words + ranks, env={'LD_LIBRARY_PATH': harness.fake})
            for name, more, ranks in (('one', one, ['0', '1']), ('two', [], ['2', '3']))
        ]  # fmt: skip

    def last_in(self, steps):
        """Of each step the rank that called last, by its own clock, and how long after the median one."""
        for step in steps:
            called = sorted((float(harness.read_text(f'{self.path}.{step}.{rank}')), rank) for rank in range(N_RANKS))
            yield called[-1][1], called[-1][0] - called[1][0]

    def let_go(self):
        with open(self.path + '.go', 'w'):
            pass

    def finish(self):
        return [trace.finish() for trace in self.traces]


def findings(t, head, *options):
    out = t.tool('session', 'findings', '--head', head.address, '--format', 'json', *options, status=0).out
    return json.loads(out)['findings']


def wait_finding(t, head, holds):
    wait_until(lambda: any((f['end_time'] is None) == holds for f in findings(t, head)), 60, 'a finding')
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
    t.equal('of another job', findings(t, head, '--job-id', 'no-such-job'), [])
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


def records_of(records):
    """Kind and bytes of each."""
    at = 0
    while at < len(records):
        n = int.from_bytes(records[at : at + 2], 'little')
        yield int.from_bytes(records[at + 2 : at + 4], 'little'), records[at : at + n]
        at += n


def kinds_of(records):
    return (kind for kind, _ in records_of(records))


@case('a rank of another node that has not arrived is named, and that it came at last', timeout=240)
def hang(t):
    head = Head(t)
    job = Job(t, head, 'hang', 16)
    f = [x for x in wait_finding(t, head, True) if x['kind'] == 'hang'][0]
    d = f['details']
    t.equal('who', [f['rank'], f['ranks'], d['waiting_ranks'], d['collective'], d['function']], [2, N_RANKS, 3, 11, 'ncclAllReduce'])
    t.equal('alone', [(r['rank'], r['state'], r['collectives'], r['last']) for r in d['about']], [(2, 'missing', 10, 'ncclAllReduce')])
    job.finish()
    wait_until(lambda: all(x['end_time'] for x in findings(t, head)), 60, 'its end')
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
    wait_until(lambda: all(x['end_time'] for x in findings(t, head)), 60, 'its end')
    t.equal('once', [x['kind'] for x in findings(t, head)], ['mismatch'])
    head.stop()


@case('by when ranks knew that a collective was over is sent, and bounds the clocks of both nodes', timeout=240)
def met(t):
    head = Head(t)
    job = Job(t, head, 'met', 20, one=())
    job.finish()
    stays = {}
    for name in ('one', 'two'):
        for r in records_of(head.records(head.streams(name)[0]['id'])):
            if r[0] == 44:
                rank, n_ranks, number, entered, left = struct.unpack_from('<iiQQQ', r[1], 16)
                t.true('it is one', n_ranks == N_RANKS and 1 <= number <= 20, r)
                # It is the wait that shows it, which begins a quarter of a step later.
                at = job.begin + (number - 1) * STEP_S
                t.true('by when', at <= entered / 1e9 < left / 1e9 and left / 1e9 >= at + STEP_S / 4, (at, entered, left))
                stays.setdefault(number, {})[rank] = (entered, left)
    t.true('many', len(stays) >= 5, stays)
    of_all = [s for s in stays.values() if len(s) == N_RANKS]
    t.true('the same ones of all ranks', len(of_all) >= 4, stays)
    for s in of_all:  # both have the clock of this machine
        t.true('left after the last had entered', min(left for _, left in s.values()) >= max(entered for entered, _ in s.values()), s)
    t.equal('nothing found', findings(t, head), [])
    head.stop()


def step_tables(t, head, *options):
    out = t.tool('session', 'steps', '--head', head.address, '--format', 'json', *options, status=0).out
    return json.loads(out)['steps']


@case('steps of ranks on two nodes stand side by side: with the figures of their traces, and who was the slowest in the slowest', timeout=240)
def steps(t):
    n, step_s, late_s = 160, 0.1, 0.03
    head = Head(t)
    t.equal('before', t.tool('session', 'steps', '--head', head.address, status=0).out, 'no steps\n')
    job = Job(t, head, 'steps', n, one=(), step_s=step_s, late_s=late_s)
    all_in = lambda: any(sorted(r['steps'] for r in s['listed']) == [n] * N_RANKS for s in step_tables(t, head))  # noqa: E731
    wait_until(all_in, 120, 'all steps of all ranks')
    time.sleep(3)  # comparisons
    tables = step_tables(t, head)
    t.equal('one communicator', len(tables), 1)
    s = tables[0]
    t.equal('whose', [s['ranks'], s['ranks_seen'], s['ranks_with_steps'], s['unlike_steps']], [N_RANKS, N_RANKS, N_RANKS, 0])
    # The first 512 calls of a rank show what its steps are: nothing is kept of the collectives before.
    t.true('compared', n // 4 <= s['compared_steps'] <= n, s)
    ranks = {r['rank']: r for r in s['listed']}
    t.equal('the slowest first', s['listed'][0]['rank'], 3)
    # On a machine that is busy any rank is late for once, and steps may be shorter or longer than planned.
    last = list(job.last_in(range(n - s['compared_steps'] - 2, n)))
    for k in range(N_RANKS):
        times = [sum(rank == k and late >= least for rank, late in last) for least in (0.001, 0.015)]
        t.true(f'rank {k} is the slowest where it was', times[1] * 0.8 - 1 <= ranks[k]['slowest_steps'] <= times[0], (times, ranks[k], last))
    t.true('rank 3 in each fifth', ranks[3]['slowest_steps'] >= s['compared_steps'] / 10, ranks[3])
    t.true('so late', late_s / 10 < ranks[3]['late_seconds'] < late_s, ranks[3])
    t.true('clocks of two nodes are known to less', 0 < s['clock_error_seconds'] < late_s, s)
    t.equal('the longest first', s['slowest'], sorted(s['slowest'], key=lambda x: -x['median_seconds']))
    # A machine that stands still makes others as long. The collectives of the step are number 209 and 210.
    longest = [x for x in s['slowest'] if x['collective'] in (208, 209)][0]
    t.equal('who was the slowest in the slowest step', [longest['slowest'], longest['rank'], longest['collectives']], ['rank', 3, 2])
    t.true('how late', abs(longest['late_seconds'] - 7 * late_s) < 2 * late_s, longest)
    t.true('how long', longest['median_seconds'] > s['most_median_seconds'] * 1.5, longest)
    text = t.tool('session', 'steps', '--head', head.address, status=0).out
    t.match('in words', r'communicator 0x[0-9a-f]+: steps of 4 of 4 ranks, medians \S+ ms to \S+ ms', text)
    t.match('a line of a rank', r'\n +3 +\S+ +\d+ +160 +\S+ ms ', text)
    t.match('and of the step', rf'from collective {longest["collective"]} on: \S+ ms, spread \S+ \S+; rank 3 \(\S+, pid \d+\) is last, ', text)
    t.equal('of another job', step_tables(t, head, '--job-id', 'no-such-job'), [])
    job.let_go()
    for run in job.finish():
        got = run.summary['steps']
        rank = [r for r in s['listed'] if r['pid'] == got['pid']][0]
        t.equal('as its trace has it', [rank['steps'], rank['odd_steps'], round(rank['median_seconds'] * 1e9), round(rank['p95_seconds'] * 1e9)],
                [got['count'], got['odd'], got['median_ns'], got['p95_ns']])
    wait_until(lambda: not step_tables(t, head), 60, 'no steps any more')
    head.stop()


@case('steps go to four files of a trace and to a head', timeout=120)
def receivers(t):
    head = Head(t)
    files = [t.path(f'{i}.otlp') for i in range(4)]
    words = [w for path in files for w in ('-o', path)]
    run = t.trace('--head', head.address, '--machine-id', 'one', '--spool', t.path('spool'), *words, command=[f'{harness.fake}/demo_train', '--steps', '60'])
    t.equal('it ends', run.status, 0)
    t.true('with steps', run.summary['steps'], run.err)
    t.true('in each file', all(os.path.getsize(path) for path in files), files)
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
