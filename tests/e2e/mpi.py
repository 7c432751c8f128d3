#!/usr/bin/env python3
"""MPI: what a program did, as it counted itself, is what a trace of its ranks says."""

import json
import os
import shutil
import subprocess

from harness import HERE, Skip, case, main

# Name, compiler, and how ranks are started.
OPEN_MPI = ('mpicc.openmpi', ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '-n'])
MPICH = ('mpicc.mpich', ['mpirun.mpich', '-n'])
WORLD = '0x44000000'  # of MPICH


def build(t, kind, source='self_count.c', extra=()):
    compiler, launcher = kind
    for tool in (compiler, launcher[0]):
        if not shutil.which(tool):
            raise Skip(f'{tool} is not installed (tools/deps.sh --check)')
    program = t.path('program')
    subprocess.run([compiler, '-O1', '-o', program, os.path.join(HERE, '..', 'mpi', source), *extra], check=True,
                   timeout=120)  # fmt: skip
    return program, launcher


def environment(t):
    # Ranks of one machine; no network, no ssh.
    return t.envs({'OMPI_MCA_btl': 'self,vader', 'OMPI_MCA_plm_rsh_agent': '/bin/false', 'TMPDIR': t.tmp})


def counted(path):
    """What rank PATH.N said: pid, {name: (calls, bytes)}, {(direction, comm, peer): (calls, bytes)}."""
    said = {'calls': {}, 'peers': {}}
    with open(path, encoding='utf-8') as f:
        for line in f:
            kind, *words = line.split()
            if kind == 'call':
                said['calls'][words[0]] = (int(words[1]), int(words[2]))
            elif kind == 'peer':
                said['peers'][(words[0], words[1], int(words[2]))] = (int(words[3]), int(words[4]))
            else:
                said[kind] = int(words[0])
    return said


def functions_of(summary, pid):
    (process,) = [p for p in summary['processes'] if p['pid'] == pid]
    return {f['name']: f for f in process['functions'] if f['layer'] == 'mpi'}


def peers_of(summary, pid):
    """By direction and peer, over all communicators: which handle is which only the program knows."""
    sums = {}
    for p in summary['mpi_peers']:
        if p['pid'] == pid:
            key = (p['direction'], p['peer'])
            calls, size = sums.get(key, (0, 0))
            sums[key] = (calls + p['calls'], size + p['bytes'])
    return sums


def check_rank(t, summary, said, rank):
    seen = functions_of(summary, said['pid'])
    for name, (calls, size) in said['calls'].items():
        row = seen.pop(name, None)
        if not row:
            t.fail(f'rank {rank}: no {name}')
            continue
        t.equal(f'rank {rank}: calls of {name}', row['calls'], calls)
        t.equal(f'rank {rank}: bytes of {name}', row['bytes'], size)
        t.true(f'rank {rank}: {name} took time', row['total_ns'] > 0)
    t.equal(f'rank {rank}: functions that it did not call', [n for n, row in seen.items() if row['calls']], [])
    wanted = {}
    for (direction, _, peer), (calls, size) in said['peers'].items():
        c, b = wanted.get((direction, peer), (0, 0))
        wanted[(direction, peer)] = (c + calls, b + size)
    t.equal(f'rank {rank}: peers', peers_of(summary, said['pid']), wanted)
    (row,) = [r for r in summary['mpi_ranks'] if r['pid'] == said['pid']]
    t.equal(f'rank {rank}: which rank', (row['rank'], row['ranks']), (rank, said['ranks']))
    t.equal(f'rank {rank}: time in MPI', row['total_ns'],
            sum(f['total_ns'] for f in functions_of(summary, said['pid']).values()))  # fmt: skip
    t.true(f'rank {rank}: its time in MPI is part of that from the first call to the last',
           0 < row['total_ns'] <= row['span_ns'] <= summary['duration_ns'], row)  # fmt: skip
    t.equal(f'rank {rank}: calls of unknown size', row['unsized_calls'], 0)


def exact(t, kind, n, *options):
    program, launcher = build(t, kind)
    run = t.trace('--layer', 'mpi', *options, command=[*launcher, str(n), program, t.path('said')], status=0,
                  env=environment(t))  # fmt: skip
    for rank in range(n):
        check_rank(t, run.summary, counted(t.path(f'said.{rank}')), rank)
    t.equal('open calls', run.summary['open_calls'], [])
    t.equal('unmatched, unsized, without a peer', [run.lost(x) for x in ('unmatched', 'sizes', 'peers')], [0, 0, 0])
    return run


@case('four ranks of MPICH, added up: calls, bytes and peers are what each counted', timeout=240)
def mpich(t):
    exact(t, MPICH, 4)


@case('four ranks of Open MPI, added up: calls, bytes and peers are what each counted', timeout=240)
def open_mpi(t):
    exact(t, OPEN_MPI, 4)


@case('two ranks of MPICH, as events: the same, and each transfer says its peer', timeout=240)
def mpich_events(t):
    out = t.path('trace.json')
    exact(t, MPICH, 2, '-o', out)
    with open(out, encoding='utf-8') as f:
        events = [e for e in json.load(f)['traceEvents'] if e['ph'] in 'XB']
    for rank in range(2):
        said = counted(t.path(f'said.{rank}'))
        mine = [e for e in events if e['pid'] == said['pid']]
        sends = [e['args'] for e in mine if e['name'] == 'MPI_Isend']
        t.equal('sends', [(a['peer'], a['bytes'], a['comm']) for a in sends],
                [(1 - rank, 8 * i, WORLD) for i in range(1, 8)])  # fmt: skip
        # Asked for from any source: the status says who it was.
        receives = [e['args'] for e in mine if e['name'] == 'MPI_Recv']
        t.equal('receives', [(a['peer'], a['bytes']) for a in receives], [(1 - rank, 8 * i) for i in range(1, 8)])
        t.equal('to nobody', sum(e['args'].get('peer') == 'none' for e in mine), 7)
        t.equal('roots', [e['args'].get('root') for e in mine if e['name'] == 'MPI_Bcast'], [0, 0])


@case('two ranks of Open MPI, as events', timeout=240)
def open_mpi_events(t):
    exact(t, OPEN_MPI, 2, '-o', t.path('trace.gst'))
    first = t.tool('report', t.path('trace.gst'), '--format', 'json', status=0).out
    summary = json.loads(first)
    for rank in range(2):
        check_rank(t, summary, counted(t.path(f'said.{rank}')), rank)


if __name__ == '__main__':
    main()
