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
        time.sleep(1)
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


# Loops over the stand-in CUDA, called by Python itself: which, and how many times.
LOOPS = '''
import ctypes, json, random, sys, time
cuda = ctypes.CDLL(sys.argv[1])
block = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
random.seed(5)
ended = []

def work(n):
    for _ in range(n):
        cuda.cudaMemsetAsync(block, 0, ctypes.c_size_t(64), None)

def step(n):
    work(n)
    cuda.cudaStreamSynchronize(None)
    ended.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))

def train(steps):
    for i in range(steps):
        if i == steps // 2:
            time.sleep(1)
        step(20)

def serve(requests):
    for _ in range(requests):
        time.sleep(random.random() * 0.004)
        step(1 + random.randrange(40))

def alternate(turns):
    for i in range(turns):
        for _ in range(random.randrange(3, 12)):
            step(8 if i % 2 else 30)

{'train': train, 'serve': serve, 'alternate': alternate}[sys.argv[2]](int(sys.argv[3]))
lengths = [b - a for a, b in zip(ended, ended[1:])]
print(json.dumps({'steps': len(ended), 'median_ns': sorted(lengths)[len(lengths) // 2], 'slowest_ns': max(lengths)}))
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
    t.true('for as long', 0.9e9 <= got['longer_ns'] <= got['slowest_ns'], got)
    t.true('in the report', f"{said['steps']} steps of thread {got['tid']}" in text, text)


@case('operators in no order have no steps', timeout=240)
def without(t):
    has_torch()
    summary, text, _ = record(t, [PYTHON, '-c', WITHOUT], '--layer=torch')
    t.equal('none', summary['steps'], None)
    t.true('and it is said why', summary['no_steps'].startswith('no call recurs'), summary['no_steps'])
    t.true('no line of the report', 'steps of thread' not in text, text)


@case('a program of the stand-in CUDA: each of its steps', timeout=240)
def stand_in(t):
    summary, _, _ = record(t, [f'{harness.fake}/demo_train', '--steps', '60'])
    t.true('steps', summary['steps'], summary['no_steps'])
    t.equal('as many as it was asked for', summary['steps'] and summary['steps']['count'], 60)


def add_up(t, which, n, sync_us):
    """(the steps, why there are none, what the program said): calls are added up in the kernel."""
    words = [PYTHON, '-c', LOOPS, f'{harness.fake}/libcudart.so.13', which, str(n)]
    run = t.trace(command=words, env={'FAKE_CUDA_SYNC_US': str(sync_us)})
    t.nothing_lost(run)
    return run.summary['steps'], run.summary['no_steps'], json.loads(run.out)


@case('steps of calls that were added up in the kernel: as long as the program says, and the one that slept', timeout=120)
def added_up(t):
    got, why, said = add_up(t, 'train', 120, 2000)
    t.true('steps', got, why)
    t.equal('as many as it made', got['count'], said['steps'])
    t.true('median', abs(got['median_ns'] - said['median_ns']) <= 0.1 * said['median_ns'], f'{got} {said}')
    t.true('the slowest', abs(got['slowest_ns'] - said['slowest_ns']) <= 0.1 * said['slowest_ns'], f'{got} {said}')
    t.equal('it slept outside of calls', got['longer'], None)
    t.true('for as long', 0.9e9 <= got['longer_ns'] <= got['slowest_ns'], got)
    t.true('without a processor', got['off_cpu_ns'] >= 1e9 > 10 * got['off_cpu_mean_ns'], got)


@case('a program of the stand-in CUDA, added up: each of its steps, and on the screen', timeout=240)
def stand_in_added_up(t):
    run = t.trace(command=[f'{harness.fake}/demo_train', '--steps', '60'])
    got = run.summary['steps']
    t.true('steps', got, run.summary['no_steps'])
    t.equal('as many as it was asked for', got and got['count'], 60)
    text = t.tool('trace', '-q', '--', f'{harness.fake}/demo_train', '--steps', '60', status=0).err
    t.true('on the screen, too', ' 60 steps of thread ' in text, text)


@case('requests of any size, loops that take turns, five steps, steps below a millisecond: none, and why', timeout=240)
def none_added_up(t):
    for which, n, sync_us in (('serve', 200, 2000), ('alternate', 40, 2000), ('train', 5, 2000), ('train', 300, 20)):
        got, why, _ = add_up(t, which, n, sync_us)
        t.equal(f'{which} {n}', got, None)
        t.true('and why', why.startswith('no call recurs regularly among those a millisecond or more apart') and '-o FILE' in why, why)


if __name__ == '__main__':
    main()
