#!/usr/bin/env python3
"""Flame graphs and timelines of real runs: operators over calls, with the numbers that fake_torch makes of
a step (tests/fake/app_torch.c), and arrows from the last work to the call that waited for it."""

import collections
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree

import harness
from harness import case, main

STEPS = 20
LAYER_NORM = 'autograd::execute;aten::native_layer_norm_backward'
LAUNCHES = {  # of one step
    'aten::linear;aten::addmm;cudaLaunchKernel': 4,
    'aten::add.Tensor;cudaLaunchKernel': 3,
    'aten::_foreach_add_.List;aten::add_.Tensor;cudaLaunchKernel': 4,
    LAYER_NORM + ';cudaLaunchKernel': 5,
    LAYER_NORM + ';aten::add.Tensor;cudaLaunchKernel': 5,
    ';'.join(['aten::recurse'] * 7) + ';cudaLaunchKernel': 1,
    'cudaLaunchKernel': 1,
}


def folded(path):
    """{way below the thread: weight}, threads added up; and how many threads."""
    ways, threads = collections.Counter(), set()
    with open(path, encoding='utf-8') as f:
        for line in f:
            way, weight = line.rstrip('\n').rsplit(' ', 1)
            process, thread, rest = way.split(';', 2)
            threads.add((process, thread))
            ways[rest] += int(weight)
    return ways, len(threads)


@case('launches by operator, exactly, at once and from a recorded file')
def launches(t):
    path, gst, again = t.path('x.folded'), t.path('x.gst'), t.path('y.folded')
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '--flame', 'launches', '-o', path, '-o', gst,
            command=t.app(str(STEPS), '2', name='fake_torch'))  # fmt: skip
    ways, n_threads = folded(path)
    want = {way: 2 * STEPS * n for way, n in LAUNCHES.items()}
    # Five ways a step, and one by an exception each tenth.
    want['aten::relu;cudaLaunchKernel'] = 2 * (5 * STEPS + STEPS // 10)
    t.equal('launches', dict(ways), want)
    t.equal('threads', n_threads, 2)
    t.tool('report', '--flame', 'launches', '-o', again, gst, status=0)
    t.equal('of the file', folded(again), (ways, n_threads))


@case('time: own times add up to that of the outermost calls; the page holds the same')
def time(t):
    path, svg, csv = t.path('x.folded'), t.path('x.svg'), t.path('x.gst')
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '-o', path, '-o', svg, '-o', csv,
            command=t.app(str(STEPS), '1', name='fake_torch'))  # fmt: skip
    total = sum(folded(path)[0].values())
    root = xml.etree.ElementTree.parse(svg).getroot()
    frames = [f for f in root.iter('{http://www.w3.org/2000/svg}svg') if f.get('data-d')]
    t.equal('weight of all', int(frames[0].get('data-v')), total)
    with open(svg, encoding='utf-8') as f:
        t.equal('addresses in the page', len(re.findall('://', f.read())), 2)


def events_of(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)['traceEvents']


@case('arrows: from the last launch to the wait for it')
def arrows(t):
    path, pftrace = t.path('x.json'), t.path('x.pftrace')
    t.trace('--func', 'cudaLaunchKernel,cudaDeviceSynchronize', '-o', path, '-o', pftrace,
            command=t.app('cudaLaunchKernel=50', 'cudaDeviceSynchronize=2'))  # fmt: skip
    events = events_of(path)
    calls = sorted((e for e in events if e['ph'] == 'X'), key=lambda e: e['ts'])
    wanted, last = [], None
    for e in calls:  # whatever their order was
        if e['name'] == 'cudaLaunchKernel':
            last = e['ts']
        elif last is not None:
            wanted.append((last, e['ts']))
            last = None
    start, end = ({e['id']: e['ts'] for e in events if e['ph'] == phase} for phase in 'sf')
    t.equal('calls', len(calls), 52)
    t.equal('arrows', sorted((start[i], end.get(i)) for i in start), wanted)
    t.equal('ends of arrows', set(end), set(start))
    t.true('arrows at all', wanted)
    if shutil.which('protoc'):
        with open(pftrace, 'rb') as f:
            golden = harness.HERE + '/../golden'
            text = subprocess.run(['protoc', '-I' + golden, '--decode=perfetto.protos.Trace', 'perfetto_subset.proto'],
                                  stdin=f, capture_output=True, check=True).stdout.decode()  # fmt: skip
        t.equal('flows', (len(re.findall(r'^ +flow_ids: ', text, re.M)),
                          len(re.findall(r'^ +terminating_flow_ids: ', text, re.M))), (len(wanted), len(wanted)))  # fmt: skip


@case('operators stand around their calls, by time and by name')
def nesting(t):
    path = t.path('x.json')
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '-o', path,
            command=t.app(str(STEPS), '2', name='fake_torch'))  # fmt: skip
    events = sorted((e for e in events_of(path) if e['ph'] == 'X'), key=lambda e: (e['ts'], -e['dur']))
    open_of, n = collections.defaultdict(list), 0
    for e in events:
        stack = open_of[e['tid']]
        while stack and stack[-1]['ts'] + stack[-1]['dur'] <= e['ts']:
            stack.pop()
        if stack and e['ts'] + e['dur'] > stack[-1]['ts'] + stack[-1]['dur'] + 1e-6:
            t.fail(f'{e["name"]} across the end of {stack[-1]["name"]}')
        around = [s['name'] for s in stack if s['cat'].startswith('torch')]
        if e['args'].get('operator', '') != (around[-1] if around else ''):
            t.fail(f'{e["name"]}: {e["args"].get("operator")} is not {around}')
        n += bool(around)
        stack.append(e)
    t.true('calls inside operators', n > STEPS)


main()
