#!/usr/bin/env python3
"""Steps found without a mark in the program: as many as the program says that it made, and none where it made none."""

import json

import harness
from harness import Skip, case, main

PYTHON = '/usr/bin/python3'

TRAINING = '''
import json, os, random, sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(32, 32), torch.nn.ReLU())], torch.nn.Linear(32, 1))
best = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(16, 32), torch.randn(16, 1)
steps, began = int(sys.argv[1]), []
for i in range(steps):
    began.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    loss = torch.nn.functional.mse_loss(net(x), y)
    best.zero_grad()
    loss.backward()
    best.step()
    if i == steps // 2:
        time.sleep(0.5)
lengths = sorted(b - a for a, b in zip(began, began[1:]))
print(json.dumps({'steps': steps, 'median_ns': lengths[len(lengths) // 2], 'slowest_ns': lengths[-1]}))
'''

WITHOUT = '''
import json, random, torch
torch.set_num_threads(1)
random.seed(3)
a = torch.randn(8, 8)
does = [torch.mm, torch.add, torch.mul, torch.sub, torch.maximum, torch.minimum, torch.atan2]
for _ in range(4000):
    random.choice(does)(a, a)
print(json.dumps({'steps': 0}))
'''


def has_torch():
    if not harness.has_module(PYTHON, 'torch'):
        raise Skip("Debian's PyTorch is not here")


def record(t, words, *options):
    """(the summary of the recording, its report as text, what the program said)."""
    path = t.path('steps.gst')
    run = t.trace(*options, '-o', path, command=words)
    again = t.tool('report', path, '--format', 'json', status=0)
    text = t.tool('report', path, status=0)
    summary = json.loads(again.out)
    t.nothing_lost(run)
    return summary, text.out, run


@case('training of PyTorch on the CPU: each step, and the one that slept', timeout=240)
def training(t):
    has_torch()
    summary, text, run = record(t, [PYTHON, '-c', TRAINING, '80'], '--layer=torch')
    said = json.loads(run.out) if run.out.startswith('{') else None
    t.true('the program ran', said, (run.out, run.err[-600:]))
    if not said:
        return
    got = summary['steps']
    t.true('steps', got, summary['no_steps'])
    if not got:
        return
    t.equal('as many as it made', got['count'], said['steps'])
    t.true('the slowest', abs(got['slowest_ns'] - said['slowest_ns']) <= 0.1 * said['slowest_ns'], f'{got} {said}')
    t.equal('it slept outside of operators', got['longer'], None)
    t.true('for as long', 0.9 * 5e8 <= got['longer_ns'] <= got['slowest_ns'], got)
    t.true('in the report', f"{said['steps']} steps of thread {got['tid']}" in text, text)


@case('operators in no order have no steps', timeout=240)
def without(t):
    has_torch()
    summary, text, _ = record(t, [PYTHON, '-c', WITHOUT], '--layer=torch')
    t.equal('none', summary['steps'], None)
    t.true('and it is said why', summary['no_steps'].startswith('no call comes back'), summary['no_steps'])
    t.true('no line of the report', 'steps of thread' not in text, text)


@case('a program of the stand-in CUDA: each of its steps', timeout=240)
def stand_in(t):
    summary, _, _ = record(t, [f'{harness.fake}/demo_train', '--steps', '60'])
    t.true('steps', summary['steps'], summary['no_steps'])
    t.equal('as many as it was asked for', summary['steps'] and summary['steps']['count'], 60)


@case('calls that were added up in the kernel: it is said how steps are seen', timeout=120)
def added_up(t):
    run = t.trace(command=[f'{harness.fake}/demo_train', '--steps', '10'])
    t.equal('none', run.summary['steps'], None)
    t.true('and why', '-o FILE' in run.summary['no_steps'], run.summary['no_steps'])
    text = t.tool('trace', '-q', '--', f'{harness.fake}/demo_train', '--steps', '10', status=0).err
    t.true('on the screen, too', text.endswith('-o run.gst finds steps\n'), text[-300:])


if __name__ == '__main__':
    main()
