"""Operators of PyTorch and functions of Python: torch.profiler and sys.setprofile count the same program."""

import json
import os
import subprocess

import pycalls
import pyspan
import pythons
import torch as torch_cases
from table import Skip, harness, layer

PYTHON = '/usr/bin/python3'
# A model's forward and backward step has each of these.
OPERATORS = ('linear', 'addmm', 'matmul', 'bmm', 'layer_norm', 'gelu', 'conv1d', 'batch_norm', 'mse_loss', 'sum', 'view', 'mul')


@layer("PyTorch's operators, forward and backward", timeout=400)
def operators(m):
    torch_cases.need_torch()
    n = 8
    done = subprocess.run([PYTHON, torch_cases.script(m, torch_cases.PROFILED), str(n)], capture_output=True, text=True, check=True)
    wanted = json.loads(done.stdout.splitlines()[-1])
    traced = torch_cases.script(m, torch_cases.TRACED)
    # What comes before the first step is the same in both.
    before, after = (torch_cases.operators(m.trace('--layer=torch', '--op-set=all', command=[PYTHON, traced, str(k)]))
                     for k in (0, n))  # fmt: skip
    for name in OPERATORS:
        name = f'aten::{name}'
        if name in wanted:
            m.figure(f'{name}: calls', after[name] - before[name], 'torch.profiler', wanted[name])
    m.figure('passes of backward', after['autograd::execute'], 'steps of the program', n)


@layer('functions of Python', timeout=300)
def functions(m):
    # 3.11 is counted where it was built with static probes; others are timed too.
    found = [p for p in pythons.interpreters((3, 8), (3, 10)) if p.is_stripped is not None][-1:] or pycalls.of_3_11()[:1]
    if not found:
        raise Skip('no Python 3.8, 3.9 or 3.10, nor a 3.11 built --with-dtrace')
    python = found[0]
    cases = ['recursion', 'generators', 'from_c', 'exceptions', 'threads']
    run = pycalls.trace(m, python.program, cases)
    rows = pycalls.of_target(run)
    counts = pycalls.wanted_of(pycalls.counted(m, python.program, *cases))
    source = f'sys.setprofile of Python {python.version[0]}.{python.version[1]}'
    m.figure('functions seen', len(rows), source, len(counts))
    for key in sorted(counts, key=counts.get, reverse=True)[:6]:
        m.figure(f'{key[1]}(): calls', rows[key]['calls'] if key in rows else 0, source, counts[key])
    m.figure('calls of all functions', sum(r['calls'] for r in rows.values()), source, sum(counts.values()))


SPIN = '''
import sys, time
def busy(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        sum(range(500))
    return time.thread_time() - began
def first(): return busy(1.2)
def second(): return busy(0.6)
print(first(), second())
'''


@layer("where Python's time on processors goes", timeout=200)
def samples(m):
    if not os.path.exists(PYTHON):
        raise Skip(f'no {PYTHON}')
    script, path = m.path('spin.py'), m.path('spin.folded')
    with open(script, 'w', encoding='ascii') as f:
        f.write(SPIN)
    done = subprocess.run([harness.gpuscope, 'trace', '-q', '--layer', 'python', '--python-hz', '999', '-o', path, '--', PYTHON, script],
                          capture_output=True, text=True, timeout=150)  # fmt: skip
    if done.returncode:
        m.fail(done.stderr[-300:])
        return
    told = dict(zip(('first', 'second'), map(float, done.stdout.split())))
    got = dict.fromkeys(told, 0.0)
    with open(path, encoding='utf-8') as f:
        for line in f:
            stack, weight = line.rsplit(' ', 1)
            if stack.endswith(']') and ';[waiting: ' in stack:
                continue
            for name in got:
                if f'{name} ' in stack.replace('(', ' (').replace(':', ' :').replace(';', ' ;'):
                    got[name] += float(weight) / 1e9
    for name, seconds in told.items():
        m.figure(f'{name}(): seconds on processors', got[name], 'time.thread_time() inside', seconds, 0.15 * seconds + 0.02,
                 'sampling: 15 % and 20 ms', 's')  # fmt: skip


@layer("Python's garbage collections", timeout=300)
def collections(m):
    n = 0
    for python in pythons.interpreters():
        calls, said, run = pyspan.spans(m, python, pyspan.COLLECT, '--python-gc')
        if 'no static probes of its collections' in run.err:
            continue
        n += 1
        seen = [c for c in calls if c['name'] == 'gc' and c['start_ns'] >= said['begin']]
        version = '%d.%d' % python.version
        m.figure(f'collections of Python {version}', len(seen), 'gc.callbacks', said['collections'])
        if n == 3:
            break
    if not n:
        raise Skip('no interpreter of which collections can be seen')
