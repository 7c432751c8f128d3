#!/usr/bin/env python3
"""What is told of each call: arguments, who made it, and that all outputs tell the same."""

import csv
import json
import os
import re
import subprocess

import harness
from harness import case, main
from pftrace_help import decode

DTYPES = ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'float32', 'float64', 'bfloat16',
          'float8e4m3', 'float8e5m2']  # fmt: skip
OPS = ['sum', 'prod', 'max', 'min', 'avg']
KINDS = ['HtoH', 'HtoD', 'DtoH', 'DtoD', 'default', 'peer']


def classes(t):
    rows = [line.split(None, 3) for line in t.tool('trace', '--list', status=0).out.splitlines()]
    return {name: (layer, kind) for layer, kind, name, *_ in rows}


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def calls_of(trace):
    return [e for e in trace['traceEvents'] if (e['ph'] in 'XB' or 'time' in e.get('args', {})) and e.get('cat') != 'gpu-stream']


def table_of(path):
    with open(path, newline='', encoding='utf-8') as f:
        return list(csv.DictReader(f))


def dims(seen):
    a = seen['arg']
    low = 0xFFFFFFFF
    return (f'{a[1] & low},{a[1] >> 32},{a[2] & low}', f'{a[2] >> 32},{a[3] & low},{a[3] >> 32}')


def wanted_args(layer, kind, seen):
    """What the trace must say of a call that fake_app noted so (bytes of a free: see frees)."""
    a, stream = seen['arg'], hex(seen['stream'])
    dtype, op, root = seen['aux'] & 255, seen['aux'] >> 8 & 255, seen['aux'] >> 16
    if kind in ('collective', 'p2p'):
        rows = {'bytes': seen['bytes'], 'count': a[0], 'datatype': DTYPES[dtype], 'comm': hex(a[1]), 'stream': stream}
        return rows, {'op': OPS[op], 'root': root} if kind == 'collective' else {'peer': root}
    if kind == 'launch':
        grid, block = dims(seen)
        return {'function': hex(a[0]), 'grid': grid, 'block': block, 'shared_bytes': seen['aux'], 'stream': stream}, {}
    if kind == 'graph-launch':
        return {'graph': hex(a[0]), 'stream': stream}, {}
    if kind == 'alloc':
        rows = {'pointer': hex(a[0]), 'bytes': seen['bytes']}
        return rows, {'stream': stream} if seen['stream'] else {}
    if kind == 'free':
        return {'pointer': hex(a[0])}, {}
    if kind == 'copy':
        return {'bytes': seen['bytes'], 'kind': KINDS[seen['aux']], 'destination': hex(a[0]), 'source': hex(a[1]),
                'stream': stream}, {}  # fmt: skip
    if kind == 'memset':
        return {'bytes': seen['bytes'], 'value': seen['aux'], 'pointer': hex(a[0]), 'stream': stream}, {}
    if kind == 'device':
        return {'device': seen['aux']}, {}
    if kind == 'context':
        return {'context': hex(a[0])} if a[0] else {}, {'device': seen['aux']} if a[1] else {}
    if kind in ('stream', 'event', 'sync', 'query') and layer != 'nccl':
        rows = {'stream': stream}
        if a[0]:
            rows['graph' if kind == 'stream' and a[1] else 'event'] = hex(a[0])
        if seen['aux']:
            rows['flags'] = seen['aux']
        return rows, {}
    return {'comm' if layer == 'nccl' else 'handle': hex(a[0])} if a[0] else {}, {}


# As counts.py: what must come before.
def work(t, step=3):
    import sys

    sys.path.insert(0, os.path.join(harness.HERE, '..', 'fake'))
    from check_app import FIRST

    first = {**FIRST, 'ncclCommAbort': 'ncclCommInitRank', 'ncclCommDestroy': 'ncclCommInitRank'}
    known = classes(t)
    can = subprocess.run(t.app('--list'), check=True, capture_output=True, text=True).stdout.split()
    names = sorted((n for n in can if n in known), key=lambda n: (n not in first, 'HostRegister' not in n, n))
    args = []
    for n in names:
        if n not in first and 'ncclCommInitRank=1' not in args:
            args.append('ncclCommInitRank=1')
        if n in first:
            args.append(f'{first[n]}={step}')
        args.append(f'{n}={step}')
    return args, known


ENGINES = {'best': [], 'multi': ['--disable-feature', 'session'], 'hash': ['--disable-feature', 'task-storage']}

for engine_name in ENGINES:

    @case(f'arguments of the first and the last call of every function, engine: {engine_name}', timeout=120)
    def arguments(t, engine=engine_name):
        args, known = work(t)
        run = t.trace('--func', '*', '-o', 't.json', *ENGINES[engine], command=t.app(*args))
        line = run.lines[0]
        by_name = {}
        for e in sorted(calls_of(load('t.json')), key=lambda e: e['ts']):
            by_name.setdefault(e['name'], []).append(e)
        checked = 0
        for name, f in line['functions'].items():
            layer, kind = known.get(name, (None, None))
            if not layer:
                continue
            events = by_name.get(name, [])
            t.equal(f'{name} calls', len(events), f['calls'])
            for which, e in (('first', events[:1]), ('last', events[-1:])):
                seen = f[which]
                if not e or seen['ret'] or (kind == 'query' and not seen['stream'] and not seen['arg'][0]):
                    continue
                rows, more = wanted_args(layer, kind, seen)
                got = e[0]['args']
                t.equal(f'{name} {which}', {k: got.get(k) for k in rows}, rows)
                # What a function does not take may be left out.
                for k, v in more.items():
                    if k in got:
                        t.equal(f'{name} {which} {k}', got[k], v)
                t.equal(f'{name} {which} layer', e[0]['cat'], layer)
                t.equal(f'{name} {which} pid, tid', (e[0]['pid'], e[0]['tid']), (line['pid'], line['threads'][0]))
                t.true(f'{name} {which} all arguments were read', 'arguments' not in got, str(got))
                checked += 1
        t.note(f'{checked} calls compared')
        t.true('compared', checked > 400, str(checked))


@case('op of reductions and root of those that have one')
def op_and_root(t):
    t.trace('-o', 't.csv', command=t.app('ncclCommInitRank=1', 'ncclAllReduce=13', 'ncclReduce=13', 'ncclBroadcast=13',
                                         'ncclSend=13', 'ncclAllGather=13'))  # fmt: skip
    rows = {}
    for row in table_of('t.csv'):
        rows.setdefault(row['function'], []).append(row)
    for i in range(13):
        for name, has_op, has_root in (('ncclAllReduce', 1, 0), ('ncclReduce', 1, 1), ('ncclBroadcast', 0, 1),
                                       ('ncclAllGather', 0, 0)):  # fmt: skip
            row = rows[name][i]
            t.equal(f'{name} {i}', (row['op'], row['root'], row['peer'], row['datatype']),
                    (OPS[i % 5] if has_op else '', str(i % 4) if has_root else '', '', DTYPES[i % 12]))  # fmt: skip
        row = rows['ncclSend'][i]
        t.equal(f'ncclSend {i}', (row['op'], row['root'], row['peer'], row['count']), ('', '', str(i % 4), str(1100 + i)))


@case('each dimension of each launch, each returned pointer')
def each_launch(t):
    run = t.trace('-o', 't.csv', command=t.app('cudaLaunchKernel=101', 'cuLaunchKernel=103', 'cudaMalloc=107', 'cuMemAlloc_v2=109'))
    rows = table_of('t.csv')
    f = run.lines[0]['functions']
    for name in ('cudaMalloc', 'cuMemAlloc_v2'):
        got = [int(r['pointer'], 16) for r in rows if r['function'] == name]
        t.equal(f'{name} pointers', got, f[name]['values'])
        sizes = [int(r['bytes']) for r in rows if r['function'] == name]
        t.equal(f'{name} bytes', sum(sizes), f[name]['bytes'])
    got = [[r[c] for c in ('grid_x', 'grid_y', 'grid_z', 'block_x', 'block_y', 'block_z')] for r in rows
           if r['function'] == 'cudaLaunchKernel']  # fmt: skip
    t.equal('grids grow by one', [int(g[0]) for g in got], list(range(1, 102)))
    t.equal('last', [','.join(got[-1][:3]), ','.join(got[-1][3:])], list(dims(f['cudaLaunchKernel']['last'])))


@case('a free tells the bytes of its block')
def frees(t):
    run = t.trace('-o', 't.json', command=t.app('cudaMalloc=101', 'cudaFree=97', 'cuMemAlloc_v2=31', 'cuMemFree_v2=29',
                                                'cudaMallocAsync=37', 'cudaFreeAsync=37'))  # fmt: skip
    events = calls_of(load('t.json'))
    for alloc, free in (('cudaMalloc', 'cudaFree'), ('cuMemAlloc_v2', 'cuMemFree_v2'), ('cudaMallocAsync', 'cudaFreeAsync')):
        size = {e['args']['pointer']: e['args']['bytes'] for e in events if e['name'] == alloc}
        got = [(e['args']['pointer'], e['args']['bytes']) for e in events if e['name'] == free]
        t.equal(f'{free} calls', len(got), run.calls(free))
        t.equal(free, got, [(p, size[p]) for p, _ in got])
        t.equal(f'{free} in the summary', run.function(free)['bytes'], sum(size[p] for p, _ in got))
    counters = [e for e in load('t.json')['traceEvents'] if e['ph'] == 'C']
    t.true('memory in use is told', bool(counters))


INITS = {
    'ncclCommInitRank': 'ncclCommInitRank=3',
    'ncclCommInitRankConfig': 'ncclCommInitRankConfig=3',
    'ncclCommInitRankScalable': 'ncclCommInitRankScalable=3',
}

for init in INITS:

    @case(f'rank and number of ranks of a communicator of {init}')
    def ranks(t, init=init):
        run = t.trace('-o', 't.json', command=t.app(INITS[init], 'ncclAllReduce=13'))
        values = run.lines[0]['functions'][init]['values']
        comms = {c['handle']: c for c in run.summary['communicators']}
        t.equal('handles', sorted(comms), sorted(hex(v) for v in values))
        for c in comms.values():
            t.equal('rank, ranks, origin', (c['rank'], c['ranks'], c['origin']), (1, 4, init))
        used = comms.get(hex(values[0]))
        t.equal('calls and bytes', used and (used['calls'], used['bytes']), (13, run.function('ncclAllReduce')['bytes']))
        for e in calls_of(load('t.json')):
            if e['name'] == 'ncclAllReduce':
                t.equal('of a call', (e['args'].get('comm'), e['args'].get('rank'), e['args'].get('nranks')),
                        (hex(values[0]), 1, 4))  # fmt: skip
        t.equal('each is one of its own', len({c['id_hash'] for c in comms.values()}), len(values))


@case('communicators of ncclCommInitAll, ncclCommSplit and ncclCommShrink')
def derived(t):
    run = t.trace('-o', 't.json', command=t.app('ncclCommInitRank=1', 'ncclCommInitAll=1', 'ncclCommSplit=2', 'ncclCommShrink=1'))
    by_origin = {}
    for c in run.summary['communicators']:
        by_origin.setdefault(c['origin'], []).append(c)
    everyone = by_origin.get('ncclCommInitAll', [])
    t.true('one for each rank', len(everyone) >= 2, str(everyone))
    t.equal('ranks', sorted(c['rank'] for c in everyone), list(range(len(everyone))))
    t.equal('one number for all', len({c['id_hash'] for c in everyone}), 1)
    t.equal('sizes', {c['ranks'] for c in everyone}, {len(everyone)})
    handles = {c['handle'] for c in run.summary['communicators']}
    for name, n in (('ncclCommSplit', 2), ('ncclCommShrink', 1)):
        rows = by_origin.get(name, [])
        t.equal(name, len(rows), n)
        t.equal(f'{name}: from a known one', [r['parent'] in handles for r in rows], [True] * n)
    # The program gives i % 2 as both.
    t.equal('color and key', [(r['color'], r['key']) for r in by_origin['ncclCommSplit']], [(0, 0), (1, 1)])
    others = [r for name, rows in by_origin.items() if name != 'ncclCommSplit' for r in rows]
    t.equal('of no other', {(r['color'], r['key']) for r in others}, {(None, None)})


@case('pids and tids are those of the processes')
def who(t):
    run = t.trace('-o', 't.json', '-o', 't.csv', command=t.app('--threads=3', '--fork=2', 'cudaMalloc=7'))
    wanted = sorted((line['pid'], tid) for line in run.lines for tid in line['threads'] for _ in range(7))
    t.equal('json', sorted((e['pid'], e['tid']) for e in calls_of(load('t.json'))), wanted)
    t.equal('csv', sorted((int(r['pid']), int(r['tid'])) for r in table_of('t.csv')), wanted)


@case('report of a .gst file equals the summary of the run')
def report(t):
    run = t.trace('-o', 't.gst', command=t.app('--threads=3', '--fork=2', 'cudaMalloc=31', 'cudaFree=31', 'cudaMalloc:bad=3',
                                               'cudaLaunchKernel=101', 'ncclCommInitRank=1', 'ncclAllReduce=47'))  # fmt: skip
    again = json.loads(t.tool('report', '--format', 'json', 't.gst', status=0).out)
    t.true('findings are of recordings', isinstance(again.pop('findings'), list), again.get('findings'))
    for key in sorted(set(run.summary) | set(again)):
        t.equal(key, again.get(key), run.summary.get(key))


@case('conversion of .gst gives the same calls as the direct outputs')
def conversion(t):
    t.trace('-o', 'a.gst', '-o', 'a.json', '-o', 'a.csv', '-o', 'a.pftrace',
            command=t.app('--threads=2', 'cudaMalloc=31', 'cudaLaunchKernel=101', 'ncclCommInitRank=1', 'ncclAllReduce=47',
                          'cudaMalloc:bad=3'))  # fmt: skip
    for suffix in ('json', 'csv', 'pftrace'):
        t.tool('report', '-o', f'b.{suffix}', 'a.gst', status=0)
    t.equal('json', calls_of(load('b.json')), calls_of(load('a.json')))

    def rows(path):  # a thread's name may have become known after the row was written
        return [{k: v for k, v in r.items() if k not in ('thread', 'process')} for r in table_of(path)]

    t.equal('csv', rows('b.csv'), rows('a.csv'))
    t.equal('pftrace', slices(t, 'b.pftrace'), slices(t, 'a.pftrace'))
    # All files by one reading, which is all that a FIFO gives.
    os.mkfifo('once.gst')
    feeder = subprocess.Popen(['cp', 'a.gst', 'once.gst'])
    try:
        t.tool('report', 'once.gst', '-o', 'c.json', '-o', 'c.csv', '-o', 'c.pftrace', status=0)
    finally:
        feeder.kill()
        feeder.wait()
    for suffix in ('json', 'csv', 'pftrace'):
        with open(f'b.{suffix}', 'rb') as b, open(f'c.{suffix}', 'rb') as c:
            t.true(f'the same {suffix}', b.read() == c.read())


def slices(t, path):
    """[(begin or end, name, time)] in the order of the file."""
    names, found = {}, []
    for packet in re.split(r'(?m)^packet \{$', decode(t, path)):
        for block in re.findall(r'event_names \{\s+iid: (\d+)\s+name: "([^"]*)"', packet):
            names[block[0]] = block[1]
        kind = re.search(r'type: (TYPE_SLICE_\w+)', packet)
        if kind:
            iid = re.search(r'\bname_iid: (\d+)\s+track_uuid', packet)
            iid = iid or re.search(r'type: TYPE_SLICE_BEGIN\s+name_iid: (\d+)', packet)
            found.append((kind[1], names.get(iid[1]) if iid else None, re.search(r'timestamp: (\d+)', packet)[1]))
    return found


@case('Perfetto file: each call begins and ends')
def perfetto(t):
    run = t.trace('-o', 'a.pftrace', command=t.app('--threads=2', 'cudaMalloc=31', 'cudaLaunchKernel=101', 'ncclCommInitRank=3'))
    rows = slices(t, 'a.pftrace')
    begun = [r[1] for r in rows if r[0] == 'TYPE_SLICE_BEGIN']
    # What stands on tracks of streams has a name that is no function's.
    t.equal('begun', {n: begun.count(n) for n in set(begun) if n},
            {'cudaMalloc': 62, 'cudaLaunchKernel': 202 - run.lost('first_calls'), 'ncclCommInitRank': 6})  # fmt: skip
    t.equal('ended', len(rows) - len(begun), len(begun))
    text = decode(t, 'a.pftrace')
    for tid in run.lines[0]['threads']:
        t.match('thread', rf'tid: {tid}\b', text)
    t.match('a stream', r'name: "GPU 0 stream 0x[0-9a-f]+"|name: "GPU 0 default stream"', text)
    t.match('its work', r'name: "kernels"', text)


main()
