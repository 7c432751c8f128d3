#!/usr/bin/env python3
"""Ranks that do not arrive at a collective, die, or call something else: named in time, and nobody else is."""

import json
import re
import time

import harness
import pythons
from harness import Skip, case, main

QUIET_S = 3
PROMISE_S = 5  # from then on


def boot_s():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def run_stuck(t, mode, wait_ms, said=None, *options):
    """(what was said, the time from the fault to the message, the process at fault)."""
    live = t.start_trace('--hang-after', f'{QUIET_S}s', *options, command=[f'{harness.fake}/stuck', mode, str(wait_ms)])
    after_s = None
    if said:
        live.wait_err(said, 40)
        seen_s = boot_s()
        at_ns, pid = re.search(r'at (\d+) pid (\d+)', live.out_text()).groups()
        after_s = seen_s - int(at_ns) / 1e9
        t.note(f'{mode}: said {after_s:.2f} s after the fault')
    run = live.finish()
    return run, after_s, pid if said else None


def check_time(t, after_s, least_s, most_s):
    t.true('not before', after_s >= least_s, after_s)
    t.true(f'within {PROMISE_S} s', after_s <= most_s, after_s)


@case('one rank sleeps: it is named, with its last collective, and that it came at last', timeout=120)
def sleeps(t):
    run, after_s, pid = run_stuck(t, 'sleep', 12000, r'hang: rank 2 ')
    check_time(t, after_s, QUIET_S, QUIET_S + PROMISE_S)
    t.match('who', rf'hang: rank 2 \(process {pid}\) has not arrived at collective 22 of communicator 0x[0-9a-f]+: '
            r'3 of 4 ranks waiting for [\d.]+ s in ncclAllReduce of 1024 float32', run.err)  # fmt: skip
    t.match('its last call', rf'  rank 2 \(process {pid}\) last called ncclAllGather of 512 float32, collective 21, ', run.err)
    t.equal('the others are in it', len(re.findall(r'  rank [013] \(process \d+\) called ncclAllReduce of 1024 float32, collective 22, '
                                                   r'[\d.]+ s ago, still in it', run.err)), 3)  # fmt: skip
    t.match('its native stack', r'  rank 2, native: (__)?(clock_)?nanosleep.* < main < ', run.err)
    t.match('that of one that waits', r'  rank 0, native: .*pthread_barrier_wait < ', run.err)
    hang = run.summary['hangs'][0]
    t.match('it is kept', 'nanosleep', hang['by_rank'][0]['native'])
    t.equal('in the summary', (len(run.summary['hangs']), hang['kind'], hang['collective'], hang['ranks'], hang['has_arrived']), (1, 'waits', 22, 4, True))
    t.equal('its ranks', [(r['rank'], r['state'], r['calls'], r['last_function'], r['last_count']) for r in hang['by_rank']],
            [(2, 'missing', 21, 'ncclAllGather', 512)] + [(i, 'arrived', 22, 'ncclAllReduce', 1024) for i in (0, 1, 3)])  # fmt: skip
    t.match('it came', r'hang over: all ranks have arrived at collective 22 of communicator 0x[0-9a-f]+ after 1[12]\.\d s', run.err)


@case('ranks that make a communicator wait for one that does not: it is named, and that it came at last', timeout=120)
def joins(t):
    run, after_s, _ = run_stuck(t, 'join', 9000, r'hang: rank 2 ')
    check_time(t, after_s, QUIET_S, QUIET_S + PROMISE_S)
    t.match('who', r'hang: rank 2 has not called ncclCommInitRank in this trace: 3 of 4 ranks waiting in it for [\d.]+ s', run.err)
    t.equal('the others', len(re.findall(r'  rank [013] \(process \d+\) is in ncclCommInitRank for [\d.]+ s', run.err)), 3)
    t.match('where they are', r'  rank 0, native: .*pthread_barrier_wait < ', run.err)
    t.match('it came', r'hang over: the 4 ranks have made the communicator after (8|9|10)\.\d+ s', run.err)
    t.equal('once', run.err.count('hang: '), 1)
    hang = run.summary['hangs'][0]
    t.equal('in the summary', (len(run.summary['hangs']), hang['kind'], hang['ranks'], hang['has_arrived']), (1, 'joins', 4, True))


@case('one rank computes without end: its native stack is a sample', timeout=120)
def spins(t):
    run, after_s, _ = run_stuck(t, 'spin', 8000, r'rank 2, native: ')
    check_time(t, after_s, QUIET_S, QUIET_S + PROMISE_S)
    t.match('where it is', r'  rank 2, native: spin_here < (gather_odd < )?(run_rank < )?main < ', run.err)
    t.match('of one that waits', r'  rank 0, native: .*pthread_barrier_wait < ', run.err)


@case('one rank is killed: said without waiting for quiet', timeout=120)
def dies(t):
    run, after_s, pid = run_stuck(t, 'die', 12000, r'hang: rank 2 ')
    check_time(t, after_s, 0, PROMISE_S)
    t.match('of what', rf'  rank 2 \(process {pid}\) was killed by signal 9 \(Killed\), last called ncclAllGather', run.err)
    t.true('it has not come', 'hang over' not in run.err, run.err)
    # The others end soon after, as NCCL makes them.
    run, _, _ = run_stuck(t, 'die', 1000)
    t.match('also when all end at once', r'hang: rank 2 \(process \d+\) has not arrived at collective 22 ', run.err)
    t.match('of what', r'  rank 2 \(process \d+\) was killed by signal 9 \(Killed\), last called ncclAllGather', run.err)
    t.equal('once', (run.err.count('hang: '), len(run.summary['hangs'])), (1, 1))


@case('one rank leaves a collective out, or calls another function, count or type', timeout=180)
def differs(t):
    what = {
        'skip': 'skipped collective 21 of communicator 0x[0-9a-f]+, ncclAllGather of 512 float32',
        'function': 'called ncclReduceScatter of 512 float32 as collective 21 of communicator 0x[0-9a-f]+, the others ncclAllGather of 512 float32',
        'count': 'called ncclAllGather of 256 float32 as collective 21 of communicator 0x[0-9a-f]+, the others ncclAllGather of 512 float32',
        'type': 'called ncclAllGather of 512 int32 as collective 21 of communicator 0x[0-9a-f]+, the others ncclAllGather of 512 float32',
    }
    for mode, text in what.items():
        run, after_s, pid = run_stuck(t, mode, 7000, 'mismatch: ')
        check_time(t, after_s, 0, PROMISE_S)
        t.match(mode, rf'mismatch: rank 2 \(process \d+\) {text}', run.err)
        t.equal('once', run.err.count('mismatch: '), 1)
        t.true(f'{mode}: that a rank is a call behind since is no hang', 'hang: ' not in run.err, run.err)
        t.equal('who', re.search(r'mismatch: rank 2 \(process (\d+)', run.err)[1], pid)
    run, _, _ = run_stuck(t, 'skip', 0)
    t.match('also when the run ends at once', rf'mismatch: rank 2 \(process \d+\) {what["skip"]}', run.err)


@case('a rank that is slow for less than the quiet time, and a job that is idle for longer: nothing is said', timeout=120)
def slow_and_idle(t):
    for mode, ms in (('sleep', 1000 * QUIET_S - 1500), ('idle', 1000 * (QUIET_S + PROMISE_S + 2))):
        run, _, _ = run_stuck(t, mode, ms)
        t.true(mode, 'hang: ' not in run.err and 'mismatch' not in run.err, run.err)


@case('--hang-after 0: nothing is looked for', timeout=60)
def never(t):
    run = t.trace('--hang-after', '0', command=[f'{harness.fake}/stuck', 'sleep', '4000'])
    t.true('nothing is said', 'hang: ' not in run.err, run.err)


PROGRAM = """
import ctypes, os, sys, threading, time
nccl = ctypes.CDLL('libnccl.so.2')
class Id(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_char * 128)]
unique = Id()
nccl.ncclGetUniqueId(ctypes.byref(unique))

def reduce(comm):
    nccl.ncclAllReduce(ctypes.c_void_p(4096), ctypes.c_void_p(4096), ctypes.c_size_t(8), 7, 0, comm, None)

def lag():
    time.sleep(6)  # here

def train(rank):
    comm = ctypes.c_void_p()
    nccl.ncclCommInitRank(ctypes.byref(comm), 3, unique, rank)
    for step in range(5):
        if step == 3 and rank == 1:
            print('at', time.clock_gettime_ns(time.CLOCK_BOOTTIME), 'pid', os.getpid(), flush=True)
            lag()
        reduce(comm)
    time.sleep(7)  # waits

for rank in range(3):
    if os.fork() == 0:
        if rank == 2:
            thread = threading.Thread(target=train, args=(rank,))
            thread.start()
            thread.join()
        else:
            train(rank)
        os._exit(0)
for rank in range(3):
    os.wait()
"""


def check_python(t, python, path):
    record = t.path(f'{python.version[1]}.gst')
    live = t.start_trace('--hang-after', f'{QUIET_S}s', '-o', record, command=[python.program, path],
                         env={'LD_LIBRARY_PATH': harness.fake})  # fmt: skip
    live.wait_err(r'hang: rank 1 ', 40)
    text = live.finish().err
    lines = PROGRAM.splitlines()
    here = next(i for i, x in enumerate(lines) if '# here' in x) + 1
    waits = next(i for i, x in enumerate(lines) if '# waits' in x) + 1
    lag = rf'lag \({path}:{here}\) < train \({path}:\d+\) < <module>'
    t.match(f'{python}: the late one', rf'  rank 1 \(process \d+\) last called .*\n.*Python: {lag}', text)
    t.match(f'{python}: one that waits', rf'  rank 0 .*\n.*Python: train \({path}:{waits}\) < <module>', text)
    t.match(f'{python}: one that does so in a thread', rf'  rank 2 .*\n.*Python: train \({path}:{waits}\) < (Thread\.)?run \(', text)
    return record, lag


@case('where Python is in each rank then, of each version', timeout=400)
def python_lines(t):
    path = t.path('train.py')
    with open(path, 'w') as f:
        f.write(PROGRAM)
    found = [p for p in pythons.interpreters((3, 8), (3, 14)) if harness.has_module(p.program, 'ctypes')]
    if not found:
        raise Skip('no interpreter')
    for python in found:
        record, lag = check_python(t, python, path)
    t.note(f'{len(found)} interpreters')
    explained = t.tool('explain', record, status=0).out
    t.match('explain has it', rf'rank 1 \(process \d+\) has not arrived at collective 4 .*\n.*last called.*\n +Python: {lag}', explained)
    found = json.loads(t.tool('explain', '--format', 'json', record, status=0).out)['hangs']
    t.match('and its JSON', lag, found[0]['by_rank'][0]['python'])
    t.match('and the report', r'\n  Hang after [^\n]*rank 1 \(process \d+\) has not', t.tool('report', record, status=0).out)
    t.match('in full', r'\nHangs and mismatches of ranks\n', t.tool('report', '-v', record, status=0).out)


if __name__ == '__main__':
    main()
