#!/usr/bin/env python3
"""Operators of PyTorch: with the real library (Debian's, on the CPU) each one is counted as
PyTorch's own profiler counts it, and what throws goes on throwing; with the stand-in each call of
CUDA and NCCL is told to the operator that asked for it."""

import collections
import json
import os
import subprocess
import sys
import textwrap

import harness
from harness import Skip, case, main, read_text, wait_until

PYTHON = '/usr/bin/python3'
LAYERS = '--layer=cuda,nccl,torch'

# Model and steps of the twin runs: one counts by torch.profiler, the other is traced.
MODEL = '''
import json, sys, threading, torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(),
                          torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1))
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
conv = torch.nn.Sequential(torch.nn.Conv1d(6, 6, 3, padding=1), torch.nn.BatchNorm1d(6))
best = torch.optim.Adam([*net.parameters(), *layer.parameters(), *conv.parameters()], lr=0.01)
x, y = torch.randn(8, 6, 16), torch.randn(8, 6, 16)

def step():
    best.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(conv(net(layer(x))), y)
    loss.backward()
    best.step()
    return float(loss)
'''
PROFILED = MODEL + '''
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for _ in range(int(sys.argv[1])):
        step()
counts = {}
for e in profile.profiler.kineto_results.events():
    counts[e.name()] = counts.get(e.name(), 0) + 1
print(json.dumps(counts))
'''
TRACED = MODEL + '''
for _ in range(int(sys.argv[1])):
    step()
'''


def script(t, text):
    t.n_files += 1
    path = t.path(f'script{t.n_files}.py')
    with open(path, 'w') as f:
        f.write(textwrap.dedent(text))
    return path


def need_torch():
    if not harness.has_module(PYTHON, 'torch'):
        raise Skip(f'{PYTHON} has no torch (package python3-torch)')


def operators(run):
    """{name without overload: calls}"""
    counts = collections.Counter()
    for f in run.summary['functions']:
        if f['layer'] == 'torch':
            counts[f['name'].split('.')[0]] += f['calls']
    return counts


def row(run, name, layer='torch'):
    rows = [f for f in run.summary['functions'] if f['name'] == name and f['layer'] == layer]
    return (rows[0]['calls'], rows[0]['errors']) if rows else (0, 0)


def uses(run):
    keys = 'launches', 'copies', 'allocs', 'collectives', 'other_calls', 'bytes'
    return {u['name']: [u[k] for k in keys] for u in run.summary['by_operator']}


@case('as many of each operator as torch.profiler counts, forward and backward', timeout=240)
def profiler(t):
    need_torch()
    n = 12
    done = subprocess.run([PYTHON, script(t, PROFILED), str(n)], capture_output=True, text=True, check=True)
    wanted = {k: v for k, v in json.loads(done.stdout.splitlines()[-1]).items() if k.startswith('aten::')}
    traced = script(t, TRACED)
    for mode in [], ['-o', t.path('trace.gst')]:
        # What comes before the first step is the same in both.
        runs = [t.trace('--layer=torch', '--op-set=all', *mode, command=[PYTHON, traced, str(k)]) for k in (0, n)]
        before, after = map(operators, runs)
        got = {k: after[k] - before[k] for k in after if k.startswith('aten::') and after[k] > before[k]}
        # These are not told to profilers (c10/core, observed operators).
        for name in ('aten::size', 'aten::is_leaf', 'aten::output_nr', 'aten::_version', 'aten::is_complex',
                     'aten::stride', 'aten::is_floating_point', 'aten::dim'):
            wanted.pop(name, None)
            got.pop(name, None)
        t.true('the profiler saw operators', len(wanted) > 40 and sum(wanted.values()) > 1000, wanted)
        t.equal(f'operators {mode}', {k: v for k, v in got.items() if wanted.get(k) != v},
                {k: v for k, v in wanted.items() if got.get(k) != v})
        t.equal('passes', after['autograd::execute'], n)
        t.equal('errors', [f for f in runs[1].summary['functions'] if f['errors']], [])
        for run in runs:
            t.nothing_lost(run)
            t.equal('operators without a probe', run.summary['attach_failures'], [])


@case('every operator of the library has a probe, and its name is one that PyTorch knows', timeout=120)
def names(t):
    need_torch()
    known = subprocess.run([PYTHON, script(t, '''
        import torch
        for s in torch._C._jit_get_all_schemas():
            print(s.name + ('.' + s.overload_name if s.overload_name else ''))
    ''')], capture_output=True, text=True, check=True).stdout.split()
    run = t.trace('-vv', '--layer=torch', '--op-set=all', command=[PYTHON, '-c', 'import torch'])
    seen = {w for line in run.err.splitlines() if ' at 0x' in line for w in line.split() if w.startswith('aten::')}
    t.true('operators', len(seen) > 2000, len(seen))
    unknown = sorted(seen - set(known))
    # Of a few the library has code, but registers no schema.
    t.true('names that PyTorch does not know', len(unknown) <= 2, unknown)
    t.note(f'{len(seen)} operators, not known to PyTorch: {unknown}')


# Few of each: PyTorch finds a name for each frame of each error that it throws, some 5 ms of work.
THROWS = '''
import sys, threading, torch
torch.set_num_threads(1)
a, b = torch.randn(2, 3), torch.randn(2, 3)
caught = []

def work(n):
    for _ in range(n):
        try:
            torch.mm(a, b)          # shapes
        except RuntimeError:
            caught.append(1)
        try:
            torch.nn.functional.linear(a, b.t())
        except RuntimeError:
            caught.append(2)
        torch.mm(a, b.t())

class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        raise ValueError('no gradient')

threads = [threading.Thread(target=work, args=(30,)) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
for _ in range(10):
    try:
        Fails.apply(torch.ones(3, requires_grad=True)).sum().backward()
    except ValueError:
        caught.append(3)
print([caught.count(k) for k in (1, 2, 3)])
'''


@case('exceptions pass operators: they are caught where they were, and end the operators they left')
def exceptions(t):
    need_torch()
    path = script(t, THROWS)
    for mode in [], ['-o', t.path('trace.gst')]:
        run = t.trace('--layer=torch', *mode, command=[PYTHON, path])
        t.match('caught', r'\[90, 90, 10\]', run.out)
        t.equal(f'mm {mode}', row(run, 'aten::mm'), (270, 180))  # linear calls it
        t.equal('linear', row(run, 'aten::linear'), (90, 90))
        t.equal('passes', row(run, 'autograd::execute'), (10, 10))
        t.nothing_lost(run)


@case('operators of forked children, each process for itself')
def forks(t):
    need_torch()
    path = script(t, '''
        import os, torch
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
    ''')
    run = t.trace('--op=mm', command=[PYTHON, path])
    got = sorted(f['calls'] for p in run.summary['processes'] for f in p['functions'] if f['name'] == 'aten::mm')
    t.equal('mm by process', got, [1, 7, 11, 13])


@case('operators of a process that runs already')
def running(t):
    need_torch()
    flag, path = t.path('go'), script(t, '''
        import os, sys, time, torch
        torch.set_num_threads(1)
        a = torch.ones(2, 2)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        for _ in range(23):
            torch.mm(a, a)
    ''')
    proc = subprocess.Popen([PYTHON, path, flag])
    wait_until(lambda: 'libtorch_cpu' in read_text(f'/proc/{proc.pid}/maps'), 30, 'torch loaded')
    live = t.start_trace('--op=aten::mm', '-p', str(proc.pid))
    live.wait_err('libtorch_cpu.*probes')
    with open(flag, 'w'):
        pass
    run = live.finish()
    proc.wait()
    t.equal('mm', row(run, 'aten::mm'), (23, 0))


def step_counts(n):
    """What fake_torch does in n steps (tests/fake/app_torch.c): calls, and what they asked for."""
    jumps = n // 10
    calls = {
        'aten::linear': 2 * n, 'aten::addmm': 2 * n, 'aten::add.Tensor': 6 * n, 'aten::_foreach_add_.List': n,
        'aten::add_.Tensor': 4 * n, 'aten::copy_': n, 'aten::native_layer_norm_backward': 5 * n,
        'autograd::execute': n + jumps, 'aten::cos': n, 'aten::size.int': 7 * n, 'aten::all_reduce': n,
        'aten::recurse': 7 * n, 'aten::relu': 5 * n + jumps,
    }  # fmt: skip
    asked = {
        'aten::addmm': [4 * n, 0, 2 * n, 0, 2 * n, 8192 * n], 'aten::add.Tensor': [8 * n, 0, 0, 0, 0, 0],
        'aten::add_.Tensor': [4 * n, 0, 0, 0, 0, 0], 'aten::copy_': [0, 2 * n, 0, 0, 0, 2048 * n],
        'aten::native_layer_norm_backward': [5 * n, 0, 0, 0, 0, 0], 'aten::recurse': [n, 0, 0, 0, 0, 0],
        'aten::all_reduce': [0, 0, 0, 2 * n, 1, 2048 * n], 'aten::relu': [5 * n + jumps, 0, 0, 0, 0, 0],
    }  # fmt: skip
    return calls, asked


@case('each call of CUDA and NCCL is told to the innermost operator, as events and as sums')
def attribution(t):
    n, threads = 50, 4
    calls, asked = step_counts(n * threads)
    calls['aten::all_reduce'] += 1  # makes the communicator
    app = t.app(str(n), str(threads), name='fake_torch')
    modes = {'sums': [], 'events': ['-o', t.path('a.gst')], 'short ones as sums': ['-o', t.path('b.gst'),
             '--min-duration=2us'], 'multi': ['--disable-feature', 'session'], 'hash': ['--disable-feature', 'task-storage']}  # fmt: skip
    for mode, options in modes.items():
        run = t.trace(LAYERS, '--op-set=all', *options, command=app)
        got = {f['name']: f['calls'] for f in run.summary['functions'] if f['layer'] == 'torch'}
        t.equal(f'{mode}: calls', got, calls)
        t.equal(f'{mode}: asked for', uses(run), asked)
        # Those that a longjmp left.
        t.equal(f'{mode}: unmatched', run.lost('unmatched'), n // 10 * threads)
        t.equal(f'{mode}: launches', run.calls('cudaLaunchKernel'), 28 * n * threads + n // 10 * threads)
        t.equal(f'{mode}: thrown', row(run, 'aten::relu'), (calls['aten::relu'], n // 10 * threads))
    again = t.tool('report', '--format=json', t.path('a.gst'), status=0)
    t.equal('report', {u['name']: u['launches'] for u in json.loads(again.out)['by_operator']},
            {k: v[0] for k, v in asked.items()})


@case("an operator as PyTorch's own builds have it: no way out of it is single-stepped, none counts twice")
def wheel(t):
    n = 100
    for mode in [], ['-o', t.path('a.gst')]:
        run = t.trace('--op=relu', *mode, command=t.app(str(n), '2', name='fake_torch'))
        t.equal(f'calls {mode}', row(run, 'aten::relu'), (2 * (5 * n + n // 10), 2 * n // 10))
        t.nothing_lost(run)
        files = [f for f in run.summary['attached'] if f['path'].endswith('fake/libtorch_cpu.so')]
        t.equal('probes', [(f['probes'], f['probes_stepped']) for f in files], [(5, 0)])


@case('operators are chosen by name, overload, pattern and set')
def selection(t):
    app = t.app('10', '1', name='fake_torch')

    def chosen(*options):
        run = t.trace(*options, command=app)
        return sorted(f['name'] for f in run.summary['functions'] if f['layer'] == 'torch')

    t.equal('by name', chosen('--op=add'), ['aten::add.Tensor'])
    t.equal('by overload', chosen('--op=aten::add_.Tensor'), ['aten::add_.Tensor'])
    t.equal('by patterns', chosen('--op=_foreach_*,aten::co*'), ['aten::_foreach_add_.List', 'aten::copy_', 'aten::cos'])
    t.true('size is left out', 'aten::size.int' not in chosen('--layer=torch'))
    t.true('and is in all', 'aten::size.int' in chosen('--op-set=all'))
    t.equal('eacgm', chosen('--op-set=eacgm'), ['TorchAdd', 'TorchLinear', 'TorchReLU'])
    run = t.trace('--op=add', command=app)
    t.equal('CUDA is traced beside', run.calls('cudaLaunchKernel'), 281)
    run = t.trace('--layer=cuda', command=app)
    t.equal('no operator unless asked', [f for f in run.summary['functions'] if f['layer'] == 'torch'], [])
    t.equal('nor attribution', run.summary['by_operator'], [])
    run = t.tool('trace', '-v', '--list', '--layer=torch', '--', app[0], status=0)
    listed = run.out.splitlines()
    t.match('read by a process without rights', r'reader of files: protected by .*no capabilities', run.err)
    t.equal('listed', sorted(line.split(None, 3)[2] for line in listed), sorted([*step_counts(1)[0], 'aten::no_schema']))
    t.equal('not by default', [line.split()[2] for line in listed if 'only by' in line], ['aten::size.int'])
    run = t.trace('--op', 'add,nosuchop', command=t.app('5', '1', name='fake_torch'))
    t.equal('a name without an operator, beside another', [(a['function'], a['path']) for a in run.summary['attach_failures']],
            [('nosuchop', 'PyTorch')])  # fmt: skip
    for wrong in ['--op-set=some'], ['--op', '']:
        t.tool('trace', *wrong, '--', 'true', status=2)
    run = t.trace('--layer=torch', '--op=nothing_like_it', command=app, status=None)
    t.match('nothing chosen', 'no operator matches', str(run.summary['attach_failures']))


# record_function as PyTorch 2 has it: Debian's 1.13 exports the function that it calls, and uses an older one.
MARKED = '''
import json, sys, threading, torch
def enter(self):
    self.record = torch.ops.profiler._record_function_enter_new(self.name, self.args)
    return self
def leave(self, *exception):
    record, self.record = self.record, None
    torch.ops.profiler._record_function_exit(record)
torch.autograd.profiler.record_function.__enter__ = enter
torch.autograd.profiler.record_function.__exit__ = leave
mark = torch.autograd.profiler.record_function
torch.set_num_threads(1)
'''
STEPS = MARKED + '''
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
sgd = torch.optim.SGD(net.parameters(), lr=0.01)
adam = torch.optim.Adam(net.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(60, 16), torch.randn(60, 4))
loader = torch.utils.data.DataLoader(data, batch_size=4)
for epoch in range(3):
    for x, y in loader:
        sgd.zero_grad()
        with mark('forward and backward'):
            torch.nn.functional.mse_loss(net(x), y).backward()
        sgd.step()
    adam.step()
'''


@case('steps of optimizers, waits for data loaders and what users mark, each once', timeout=150)
def spans(t):
    need_torch()
    path = script(t, STEPS)
    wanted = {'Optimizer.zero_grad#SGD.zero_grad': 45, 'Optimizer.step#SGD.step': 45, 'Optimizer.step#Adam.step': 3,
              'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__': 48, 'forward and backward': 45}  # fmt: skip
    out = t.path('spans.json')
    for options in (['--op=record_function'], ['-o', out], ['--disable-feature=session', '--op-set=all'],
                    ['--op=record_function', '--max-overhead=100']):  # fmt: skip
        run = t.trace('--layer=torch', *options, command=[PYTHON, path])
        t.equal(f'spans {options}', {n: row(run, n)[0] for n in wanted}, wanted)
        if not run.lost('ring_full'):
            t.nothing_lost(run, str(options))
    with open(out) as f:
        events = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'X']
    # Operators lie in the span that they were called in.
    steps = [(e['tid'], e['ts'], e['ts'] + e['dur']) for e in events if e['name'] == 'Optimizer.step#SGD.step']
    adds = [e for e in events if e['name'].startswith('aten::_foreach_add_') or e['name'].startswith('aten::add_')]
    inside = sum(any(tid == e['tid'] and low <= e['ts'] and e['ts'] + e['dur'] <= high for tid, low, high in steps)
                 for e in adds)  # fmt: skip
    if not run.lost('ring_full'):
        t.true('additions within steps', inside >= 45, f'{inside} of {len(adds)}')
    run = t.trace('--layer=torch', '--op=aten::add*', command=[PYTHON, path])
    t.equal('none where only operators are chosen', row(run, 'Optimizer.step#SGD.step'), (0, 0))


@case('spans within each other, left by exceptions, in threads, kept longer, with more names than there is room for')
def odd_spans(t):
    need_torch()
    path = script(t, MARKED + '''
long_name = 'x' * 300
def work(n):
    for i in range(n):
        with mark('outer'), mark('inner'):
            torch.ones(3)
        try:
            with mark('left'):
                raise KeyError
        except KeyError:
            pass
threads = [threading.Thread(target=work, args=(100,)) for _ in range(3)]
for x in threads: x.start()
work(100)
for x in threads: x.join()
for i in range(7):
    with mark(long_name):
        pass
# The first ends while the second is open, and is forgotten later.
a = torch.ops.profiler._record_function_enter_new('first', None)
b = torch.ops.profiler._record_function_enter_new('second', None)
torch.ops.profiler._record_function_exit(b)
torch.ops.profiler._record_function_exit(a)
del a, b
for i in range(300):
    with mark(f'name {i}'):
        pass
''')
    for options in (['--op=record_function'], ['--op=record_function', '-o', t.path('x.csv')]):
        run = t.trace('--layer=torch', *options, command=[PYTHON, path])
        t.equal('calls', {n: row(run, n)[0] for n in ('outer', 'inner', 'left', 'first', 'second', 'x' * 95)},
                {'outer': 400, 'inner': 400, 'left': 400, 'first': 1, 'second': 1, 'x' * 95: 7})  # fmt: skip
        names = [f for f in run.summary['functions'] if f['name'].startswith('name ')]
        t.true('names of their own', len(names) > 200, len(names))
        t.equal('all', sum(f['calls'] for f in names) + row(run, 'record_function')[0], 300)
        t.nothing_lost(run)


@case('operators that are open at the end are told')
def unfinished(t):
    need_torch()
    path = script(t, '''
        import os, signal, torch
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        class Waits(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                print('waiting', flush=True)
                signal.pause()
        Waits.apply(torch.ones(3, requires_grad=True)).sum().backward()
    ''')
    live = t.start_trace('--op-set=all', command=[PYTHON, path])
    wait_until(lambda: 'waiting' in live.out_text(), 60, 'the backward pass')
    live.interrupt()
    live.wait_err('once more')
    live.interrupt()
    run = live.finish()
    t.true('open', {'autograd::execute', 'autograd::evaluate_function'} <=
           {c['function'] for c in run.summary['open_calls']}, run.summary['open_calls'])  # fmt: skip
    for p in run.summary['processes']:
        os.kill(p['pid'], 9)


if __name__ == '__main__':
    sys.exit(main())
