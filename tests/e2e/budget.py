#!/usr/bin/env python3
"""What tracing costs: told, foretold (--plan) and kept within --max-overhead. No times are asserted, only
that steps are made and told, and that what was seen and what was only counted adds up."""

import json
import re
import subprocess

import harness
from harness import case, main

CALLS = 3000000


def losses(run, name):
    return sum(layer.get(name, 0) for layer in run.summary['lost'].values())


def calls(run, name):
    return sum(f['calls'] for f in run.summary['functions'] if f['name'] == name)


@case('--max-overhead steps down, tells it, and no call is lost from the count', timeout=120)
def steps_down(t):
    csv = t.path('x.csv')
    # 0.01 %: so little that any loop of calls passes it.
    run = t.trace('--max-overhead', '0.01%', '--func', 'cudaGetDevice,cudaMalloc', '-o', csv,
                  command=t.app(f'cudaGetDevice={CALLS}', 'cudaMalloc=3'))  # fmt: skip
    if not re.search(r'--max-overhead: cudaGetDevice \(.*\) is now (added up|only counted)', run.err):
        t.fail('no step was told: ' + run.err[-800:])
    counted = losses(run, 'budget')
    if counted == 0:
        t.fail('nothing was only counted')
    t.equal('seen and counted', calls(run, 'cudaGetDevice') + calls(run, 'cudaMalloc') + counted, CALLS + 3)
    with open(csv, encoding='utf-8') as f:
        n_rows = sum(1 for _ in f) - 1
    t.equal('rows, and what is only in the summary or counted',
            n_rows + losses(run, 'thinned') + losses(run, 'ring_full') + counted, CALLS + 3)  # fmt: skip


@case('the same with pairs of multi links', timeout=120)
def steps_down_multi(t):
    run = t.trace('--avoid', 'session', '--max-overhead', '0.01%', '--func', 'cudaGetDevice',
                  command=t.app(f'cudaGetDevice={CALLS}'))  # fmt: skip
    counted = losses(run, 'budget')
    if counted == 0:
        t.fail('nothing was only counted')
    t.equal('seen and counted', calls(run, 'cudaGetDevice') + counted, CALLS)


@case('operators step down too')
def operators(t):
    app = t.app('2000', '2', name='fake_torch')
    plain = t.trace('--layer', 'torch', '--op-set', 'all', command=app)
    thin = t.trace('--layer', 'torch', '--op-set', 'all', '--max-overhead', '0.01%', command=app)

    def total(run):
        return sum(f['calls'] for f in run.summary['functions'] if f['layer'] == 'torch')

    if losses(thin, 'budget') == 0 and '--max-overhead:' in thin.err:
        t.note('the run ended before the first step to counting')
    t.equal('seen and counted', total(thin) + losses(thin, 'budget'), total(plain))


@case('without a limit nothing is let pass, and the cost is told')
def told(t):
    run = t.trace('--func', 'cudaGetDevice', command=t.app('cudaGetDevice=100000'))
    t.equal('calls', calls(run, 'cudaGetDevice'), 100000)
    t.equal('only counted', losses(run, 'budget'), 0)
    for key in ('tracing_cost_ppm', 'tracing_cost_worst_ppm', 'tracing_price_ns'):
        if not isinstance(run.summary[key], int):
            t.fail(f'{key}: {run.summary[key]}')
    t.true('a price', run.summary['tracing_price_ns'] > 0)


@case('a limit that is far away changes nothing')
def far_limit(t):
    run = t.trace('--max-overhead', '100', '--func', 'cudaMalloc', command=t.app('cudaMalloc=200'))
    t.equal('calls', calls(run, 'cudaMalloc'), 200)
    t.equal('only counted', losses(run, 'budget'), 0)
    if '--max-overhead:' in run.err:
        t.fail('a step: ' + run.err)


@case('--plan counts, and prints what tracing would cost')
def plan(t):
    path = t.path('plan.json')
    t.tool('trace', '--plan', '--format', 'json', '--summary', path, '--func', 'cudaGetDevice,cudaMalloc,cudaFree', '--',
           *t.app('cudaGetDevice=5000', 'cudaMalloc=30'), status=0)  # fmt: skip
    with open(path, encoding='utf-8') as f:
        got = json.load(f)
    t.equal('calls', {f['function']: f['calls'] for f in got['functions']}, {'cudaGetDevice': 5000, 'cudaMalloc': 30})
    if got['event_price_ns'] <= 0 or not got['functions'][0]['event_cost_ratio'] > 0:
        t.fail(f'no price: {got}')
    table = t.tool('trace', '--plan', '--func', 'cudaMalloc', '--', *t.app('cudaMalloc=30'), status=0)
    if not re.search(r'^cudaMalloc +30 ', table.err, re.M):
        t.fail('table: ' + table.err)


@case('--plan and --max-overhead: wrong use', needs=None)
def wrong_use(t):
    for words in (['--plan', '-o', 'x.csv'], ['--plan', '--max-overhead', '2%'], ['--plan', '--format', 'yaml'],
                  ['--max-overhead', '0'], ['--max-overhead', '101%'], ['--max-overhead', 'x'],
                  ['--max-overhead', '2%%'], ['--flame', 'heat']):  # fmt: skip
        done = subprocess.run([harness.gpuscope, 'trace', *words, '--', 'true'], capture_output=True, text=True)
        t.equal(f'exit status of {words}', done.returncode, 2)
        t.equal(f'lines of {words}', done.stderr.count('\n'), 1)


main()
