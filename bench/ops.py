#!/usr/bin/env python3
"""What operators of PyTorch cost a program that runs small ones on the CPU: alone, seen from inside (--inside=ops), by probes,
and by torch.profiler.

    bench/ops.py BUILD [--python PYTHON] [--device cuda] [--rounds 9] [--only inside,probes,profiler]

As root. Each round runs the program once in each way, one right after the other, and compares within the round; what is
printed are quartiles over rounds. A training step of a small model, and a loop over a single operator: the
processor time of its thread for a step, the median of 25 chunks: neither the start counts, nor what else the machine runs, nor
what reads the records."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

PROGRAM = '''
import os, sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
torch.set_default_device(sys.argv[1]) if sys.argv[1] != 'cpu' else None
net = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
best = torch.optim.SGD(net.parameters(), lr=0.01)
x, a = torch.randn(4, 16), torch.randn(4, 4)

def train(n):
    for _ in range(n):
        best.zero_grad(set_to_none=True)
        net(x).sum().backward()
        best.step()

def small(n):
    for _ in range(n):
        a.relu_()

if sys.argv[2] == 'profiler':
    torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]).start()
for name, run, n in (('train', train, 100), ('small', small, 20000)):
    run(n)
    times = []
    for _ in range(25):
        begin = time.thread_time_ns()
        run(n)
        times.append((time.thread_time_ns() - begin) / n)
    print(name, sorted(times)[len(times) // 2], flush=True)
os._exit(0)  # what the profiler would do with its events is not counted
'''
WAYS = {'alone': None, 'profiler': None, 'inside': ['--layer', 'torch', '--inside=ops'], 'probes': ['--layer', 'torch'],
        'inside-events': ['--layer', 'torch', '--inside=ops', '-o'], 'probes-events': ['--layer', 'torch', '-o']}  # fmt: skip


def run_once(gpuscope, python, script, device, way, folder):
    command = [python, script, device, way]
    if WAYS[way]:
        words = [*WAYS[way], os.path.join(folder, 'x.gst')] if WAYS[way][-1] == '-o' else WAYS[way]
        command = [gpuscope, 'trace', '-q', *words, '--summary', os.path.join(folder, 'summary'), '--', *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: float(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}


def quartiles(values):
    return statistics.quantiles(values, n=4) if len(values) > 1 else values * 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('--python', default='/usr/bin/python3')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--only', default='inside,probes')
    args = parser.parse_args()
    ways = ['alone', *args.only.split(',')]
    found = {way: {} for way in ways}
    with tempfile.TemporaryDirectory(prefix='gpuscope_ops_') as folder:
        script = os.path.join(folder, 'program.py')
        with open(script, 'w', encoding='utf-8') as f:
            f.write(PROGRAM)
        for n in range(args.rounds):
            for i in range(len(ways)):
                way = ways[(i + n) % len(ways)]
                for name, ns in run_once(os.path.join(args.build, 'src/gpuscope'), args.python, script, args.device, way, folder).items():
                    found[way].setdefault(name, []).append(ns)
            print(f'round {n + 1} of {args.rounds}', file=sys.stderr)
    print(f'{"":16}{"us a step":>30}   {"ratio to alone":>24}')
    for name in found['alone']:
        for way in ways:
            us = quartiles([ns / 1000 for ns in found[way][name]])
            ratio = quartiles([ns / alone for ns, alone in zip(found[way][name], found['alone'][name])])
            print(f'{name:6} {way:14} {us[0]:9.3f} {us[1]:9.3f} {us[2]:9.3f}   {ratio[0]:8.3f} {ratio[1]:7.3f} {ratio[2]:7.3f}')


main()
