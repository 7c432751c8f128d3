#!/usr/bin/env python3
"""Operators of PyTorch by its own observer (--inside=ops): with the real library each is counted as probes count it, also those that
throw, in threads, in children and beside the program's own profiler; with a stand-in calls of CUDA name the operator that made them, and
a PyTorch that is not as it is known to be is left alone, and probed."""

import collections
import csv
import glob
import json
import os
import subprocess
import textwrap

import harness
from harness import Skip, case, main

# The distribution's, and those that the environment names (CONTRIBUTING.md).
PYTHONS = ['/usr/bin/python3', *filter(None, os.environ.get('GPUSCOPE_TEST_PYTHONS', '').split(':'))]

MODEL = '''
import threading, torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 16))
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
best = torch.optim.Adam([*net.parameters(), *layer.parameters()], lr=0.01)
x, y = torch.randn(8, 6, 16), torch.randn(8, 6, 16)

def step():
    with torch.autograd.profiler.record_function('my step'):
        best.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(net(layer(x)), y)
        loss.backward()
        best.step()
'''
THROWS = '''
a, b = torch.randn(2, 3), torch.randn(2, 3)
caught = []

def work():
    for _ in range(100):
        try:
            torch.mm(a, b)          # shapes
        except RuntimeError:
            caught.append(1)
        torch.mm(a, b.t())

class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        raise ValueError('no gradient')

threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
for _ in range(10):
    try:
        Fails.apply(torch.ones(3, requires_grad=True)).sum().backward()
    except ValueError:
        caught.append(2)
print(caught.count(1), caught.count(2))
'''


def torches():
    found = [p for p in PYTHONS if os.access(p, os.X_OK) and harness.has_module(p, 'torch')]
    if not found:
        raise Skip(f'{PYTHONS[0]} has no torch (package python3-torch)')
    return found


def script(t, text):
    t.n_files += 1
    path = t.path(f'script{t.n_files}.py')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(textwrap.dedent(text))
    return path


def rows(run):
    return {f['name']: (f['calls'], f['errors']) for f in run.summary['functions'] if f['layer'] == 'torch'}


def remark(run, name='libtorch_cpu.so'):
    return [(a['probes'], a['remark']) for a in run.summary['attached'] if os.path.basename(a['path']).startswith(name)]


def compile_c(t, out, source, *flags):
    subprocess.run(['gcc', '-O1', '-o', out, os.path.join(harness.HERE, source), *flags], check=True)
    return out


def observer(t, *variants):
    """The stand-in for PyTorch, and a program for it."""
    folder = t.path('-'.join(['torch', *variants]))
    os.makedirs(folder, exist_ok=True)
    library = compile_c(t, os.path.join(folder, 'libtorch_cpu.so'), 'inside_observer.c', '-shared', '-fPIC', *[f'-D{v}' for v in variants])
    app = compile_c(t, os.path.join(folder, 'app'), 'inside_observer_app.c', f'-L{harness.fake}', '-l:libcudart.so.13',
                    f'-Wl,-rpath,{os.path.abspath(harness.fake)}', '-pthread', '-ldl')  # fmt: skip
    return app, library


@case('each operator as often as probes see it, and what throws goes on throwing', timeout=240)
def counted(t):
    for python in torches():
        path = script(t, MODEL + 'for _ in range(6): step()\n' + THROWS)
        for options in ([], ['--op-set=all']):
            probes = t.trace('--layer=torch', *options, command=[python, path])
            inside = t.trace('--layer=torch', '--inside=ops', *options, command=[python, path])
            t.equal(f'{python} {options}: the program', [probes.out, inside.out], ['300 10\n'] * 2)
            wanted, got = rows(probes), rows(inside)
            t.true('operators', sum(n for n, _ in wanted.values()) > 500, wanted)
            t.equal(f'{python} {options}: as probes', {k: got.get(k) for k in wanted}, wanted)
            t.equal('passes', got.get('autograd::execute'), (16, 10))
            t.equal('door', remark(inside), [(0, 'seen from inside')])
            if python == PYTHONS[0]: # of another root, libstdc++ is not found before it is loaded
                t.nothing_lost(inside)
            # Only the inside has these: spans of 1.13, and what all names besides operators.
            t.equal('others', [k for k in got if k not in wanted and k.startswith('aten::')], [])


@case('with Python functions from inside, too: both of one process, and neither by probes', timeout=120)
def python_functions(t):
    path = script(t, MODEL + 'for _ in range(5): step()\n')
    for python in torches():
        wanted = rows(t.trace('--inside=ops', command=[python, path]))
        for doors in ('ops,python', 'calls,ops,python'):
            run = t.trace(f'--inside={doors}', '--python-calls=step', command=[python, path])
            t.equal(f'{python} {doors}: operators', rows(run), wanted)
            own = [f['calls'] for f in run.summary['python_functions'] if f['file'] == path]
            t.equal(f'{python} {doors}: step()', own, [5])
            seen = {a['remark'] for a in run.summary['attached'] if 'python' in os.path.basename(a['path'])}
            t.equal(f'{python} {doors}: doors', [remark(run), seen], [[(0, 'seen from inside')], {'seen from inside'}])


@case('every call is in the trace, within the operator and the pass that made it', timeout=120)
def events(t):
    python, path, out = torches()[0], script(t, MODEL + 'for _ in range(3): step()\n'), t.path('t.csv')
    run = t.trace('--layer=torch', '--inside=ops', '-o', out, command=[python, path])
    calls, in_pass = collections.Counter(), 0
    passes = []
    with open(out, newline='', encoding='utf-8') as f:
        lines = [r for r in csv.DictReader(f) if r['layer'] == 'torch']
    for r in lines:
        calls[r['function']] += 1
        if r['function'] == 'autograd::execute':
            passes.append((int(r['start_ns']), int(r['start_ns']) + int(r['dur_ns'])))
    t.equal('calls', dict(calls), {k: n for k, (n, _) in rows(run).items()})
    for r in lines:
        if r['function'] == 'aten::threshold_backward' or r['function'] == 'aten::gelu_backward':
            in_pass += any(a <= int(r['start_ns']) and int(r['start_ns']) + int(r['dur_ns']) <= b for a, b in passes)
    t.equal('passes', len(passes), 3)
    t.equal('in a pass', in_pass, calls['aten::threshold_backward'] + calls['aten::gelu_backward'])


@case('spans: steps of optimizers, waits for a loader, and what the program marks', timeout=120)
def spans(t):
    path = script(t, MODEL + '''
from torch.utils.data import DataLoader, TensorDataset
for _ in DataLoader(TensorDataset(torch.randn(28, 3)), batch_size=4): step()
''')  # fmt: skip
    run = t.trace('--layer=torch', '--inside=ops', command=[torches()[0], path])
    got = rows(run)
    t.equal('spans', {k: got.get(k) for k in ('my step', 'Optimizer.step#Adam.step', 'Optimizer.zero_grad#Adam.zero_grad')},
            {'my step': (7, 0), 'Optimizer.step#Adam.step': (7, 0), 'Optimizer.zero_grad#Adam.zero_grad': (7, 0)})  # fmt: skip
    t.equal('loader', [n for k, (n, _) in got.items() if k.startswith('enumerate(DataLoader)#')], [8])
    t.equal('steps', run.summary['steps']['count'], 7)
    few = t.trace('--op=mm,aten::add.*,autograd::*', '--inside=ops', command=[torches()[0], path])
    t.equal('only what is chosen', sorted(rows(few)), ['aten::add.Tensor', 'aten::mm', 'autograd::evaluate_function', 'autograd::execute'])


@case('children, and PyTorch that comes late', timeout=120)
def children(t):
    path = script(t, '''
        import os, time, subprocess, sys
        subprocess.run(['true'], check=True)
        import torch
        torch.set_num_threads(1)
        a = torch.ones(2, 2)
        for n in (7, 11, 13):
            pid = os.fork()
            if pid == 0:
                for _ in range(n):
                    torch.mm(a, a)
                os._exit(0)
            os.waitpid(pid, 0)
        torch.mm(a, a)
        subprocess.run([sys.executable, '-c', 'import torch; torch.mm(torch.ones(2, 2), torch.ones(2, 2))'], check=True)
    ''')
    run = t.trace('--op=mm', '--inside=ops', command=[torches()[0], path])
    got = sorted(f['calls'] for p in run.summary['processes'] for f in p['functions'] if f['name'] == 'aten::mm')
    t.equal('mm by process', got, [1, 1, 7, 11, 13])


@case('a process without the library is probed, and one with it is not counted twice beside it', timeout=120)
def mixed(t):
    go = t.path('go')
    path = script(t, f"""
        import os, sys, time, torch
        torch.set_num_threads(1)
        a = torch.ones(2, 2)
        while not os.path.exists({go!r}):
            time.sleep(0.02)
        for _ in range(int(sys.argv[1])):
            torch.mm(a, a)
    """)
    python = torches()[0]
    live = t.start_trace('--op=aten::mm', '--inside=ops', command=['bash', '-c', f'LD_PRELOAD= {python} {path} 31 & {python} {path} 37; wait'])
    live.wait_err(r'libtorch_cpu[^ ]*: [1-9][0-9]* probes', 60)
    open(go, 'w').close()
    run = live.finish(60)
    t.equal('mm by process', sorted(f['calls'] for p in run.summary['processes'] for f in p['functions'] if f['name'] == 'aten::mm'), [31, 37])
    t.true('one by probes', any(n for n, _ in remark(run)), remark(run))
    t.true('one from inside', (0, 'seen from inside') in remark(run), remark(run))


@case("the program's own profiler has all that it has alone", timeout=120)
def beside(t):
    path = script(t, MODEL + '''
import json
step()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for _ in range(5):
        step()
counts = {}
for e in profile.profiler.kineto_results.events():
    counts[e.name()] = counts.get(e.name(), 0) + 1
print(json.dumps(counts, sort_keys=True))
''')  # fmt: skip
    for python in torches():
        alone = subprocess.run([python, path], capture_output=True, text=True, check=True).stdout
        run = t.trace('--layer=torch', '--inside=ops', command=[python, path])
        t.equal(f'{python}: what it saw', json.loads(run.out.splitlines()[-1]), json.loads(alone.splitlines()[-1]))
        t.equal('and we', rows(run)['my step'], (6, 0))


@case('a call of CUDA names the operator that made it, whichever way each is seen')
def scopes(t):
    app, library = observer(t)
    for options in (['--inside=ops'], ['--inside=calls,ops'], ['--inside=ops', '-o', t.path('t.gst')], ['--inside=calls,ops', '-o', t.path('u.gst')]):
        run = t.trace('--layer=cuda,torch', *options, command=[app, library, '50'])
        t.equal(f'{options}: operators', rows(run), {'my span': (50, 0), 'aten::outer': (50, 0), 'aten::inner.Tensor': (50, 0)})
        t.equal('launches', run.calls('cudaLaunchKernel'), 200)
        t.equal('by operator', {u['name']: u['launches'] for u in run.summary['by_operator']}, {'aten::outer': 100, 'aten::inner.Tensor': 50})
        t.nothing_lost(run)
    out = t.tool('trace', '-v', '--summary', '-', '--inside=calls,ops', '--', app, library, '9', status=0).out
    t.match('named', r'(?m)traced by +CUDA runtime from inside; .*PyTorch operators from inside', out)


@case('as later versions take names; linked from the start; threads, forks, and a kill in the midst of an operator')
def ways(t):
    app, library = observer(t, 'VIEW')
    once = {'my span': 5, 'aten::outer': 5, 'aten::inner.Tensor': 5}
    run = t.trace('--inside=ops', command=[app, library, '5'])
    t.equal('VIEW', {k: n for k, (n, _) in rows(run).items()}, once)
    app, library = observer(t)
    run = t.trace('--inside=ops', command=[app, '-', '5'], env={'LD_PRELOAD': library})
    t.equal('from the start', {k: n for k, (n, _) in rows(run).items()}, once)
    run = t.trace('--inside=ops', command=[app, library, '7', 'threads'])
    t.equal('ends elsewhere', {k: n for k, (n, _) in rows(run).items()}, {'ends elsewhere': 7, 'aten::after': 7})
    t.nothing_lost(run)
    run = t.trace('--inside=ops', command=[app, library, '5', 'fork'])
    got = sorted((f['name'], f['calls']) for p in run.summary['processes'] for f in p['functions'] if f['layer'] == 'torch')
    t.equal('fork', got, sorted((k, n) for k in once for n in (5, 10)))
    out = t.path('k.csv')
    run = t.trace('--inside=ops', '-o', out, command=[app, library, '5', 'killed'], status=137)
    t.equal('killed', {k: n for k, (n, _) in rows(run).items()}, once)
    with open(out, newline='', encoding='utf-8') as f:
        t.equal('what it was in', [r['function'] for r in csv.DictReader(f) if r['layer'] == 'torch' and r['finished'] == '0'],
                ['my span', 'aten::hangs'])  # fmt: skip


@case('a ring that is full: no operator is missing in the summary')
def full(t):
    app, library = observer(t)
    run = t.trace('--inside=calls,ops', '--ring-size', '64K', command=[app, library, '20000'])
    t.equal('operators', {k: n for k, (n, _) in rows(run).items()}, {'my span': 20000, 'aten::outer': 20000, 'aten::inner.Tensor': 20000})
    lost = {c for layer in run.summary['lost'].values() for c in layer if c not in harness.NOT_LOST}
    t.true('only from the trace', lost <= {'ring_full'}, lost)


@case('a PyTorch that is not as it is known to be is left alone, in one line')
def refused(t):
    for variant, why in (('OLD', 'older than 1.12'), ('SHIFTED', 'not as gpuscope knows it'), ('NAMES', 'not as gpuscope knows it')):
        app, library = observer(t, variant)
        run = t.trace('--inside=ops', command=[app, library, '5'])
        lines = [line for line in run.err.splitlines() if '--inside=ops' in line]
        t.equal(f'{variant}: lines', len(lines), 1)
        t.match(variant, why + '.*: its operators are traced by probes', run.err)
        t.equal(f'{variant}: operators', rows(run), {})
        t.equal(f'{variant}: the program', run.calls('cudaLaunchKernel'), 20)
    app, library = observer(t, 'LONGER')
    run = t.trace('--inside=ops', command=[app, library, '5'])
    t.equal('LONGER', rows(run)['aten::outer'], (5, 0))
    t.match('none at all', '--inside=ops: no process loaded PyTorch', t.trace('--inside=ops', command=['true']).err)


@case('what goes together with it, and what does not', needs=None)
def together(t):
    for words, why in ((['--inside=ops', '--min-duration', '1us'], 'record every call'), (['--inside=ops', '-p', '1'], 'needs a command'),
                       (['--inside=ops', '--estimate'], 'place none'), (['--inside=calls', '--layer', 'cuda,torch'], r'--inside=calls,ops'),
                       (['--inside=ops', '--stacks', 'native,at=slow-op', '-o', t.path('x.gst')], 'stacks at operators')):  # fmt: skip
        command = [] if '-p' in words else ['--', 'true']
        t.match(' '.join(words), why, t.tool('trace', *words, *command, status=2).err)


@case('nothing is left in /dev/shm')
def left(t):
    before = set(glob.glob('/dev/shm/gpuscope-*'))
    app, library = observer(t)
    t.trace('--inside=ops', command=[app, library, '5', 'killed'], status=137)
    t.equal('folders', [p for p in set(glob.glob('/dev/shm/gpuscope-*')) - before if not os.listdir(p)], [])


main()
