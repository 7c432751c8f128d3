#!/usr/bin/env python3
"""What `gpuscope trace --keep-last` costs beside summary mode (no -o) and beside a file (-o FILE.gst): a program that makes calls at a
pace is traced in each way, in turns. Of each: ns that a call of the program takes (median of all, and the 99th percentile), processor
time of gpuscope itself for each million calls, and its peak of memory: median and quartiles over the rounds. Then the ratios of each pair
of one round. Needs root.

usage: bench/keep.py [BUILD] [--rounds 7] [--rate 50000] [--seconds 6] [--keep 3s]
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = ('summary', 'file', 'keep', 'keep, not written')
FIGURES = {'call, ns': 1, 'call, p99 ns': 0, 'gpuscope, ms per million calls': 0, 'peak memory, MiB': 1}


def options_of(row, keep):
    return {'summary': [], 'file': ['-o', 'run.gst'], 'keep': ['-o', 'run.gst', '--keep-last', keep],
            'keep, not written': ['-o', 'run.gst', '--keep-last', keep, '--keep-on', 'hang']}[row]  # fmt: skip


def cpu_seconds(pid):
    """Of all its threads and of the helpers that it has started."""
    total = 0
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/schedstat', encoding='ascii') as f:
            total += int(f.read().split()[0]) / 1e9
        with open(f'/proc/{pid}/task/{task}/children', encoding='ascii') as f:
            total += sum(cpu_seconds(int(child)) for child in f.read().split())
    return total


def run_once(o, row):
    with tempfile.TemporaryDirectory() as folder:
        # It waits until the tracer has started, which is not counted.
        go = os.path.join(folder, 'go')
        spin = subprocess.Popen(['sh', '-c', 'while [ ! -e "$0" ]; do sleep 0.05; done; exec "$@"', go, f'{o.build}/tests/fake/spin', '--lib', f'{o.build}/tests/fake/libcudart.so.13',
                                 '--func', 'cudaLaunchKernel', '--rate', str(o.rate), '--seconds', str(o.seconds)], stdout=subprocess.PIPE, text=True)  # fmt: skip
        with open(os.path.join(folder, 'err'), 'w', encoding='utf-8') as err:
            tracer = subprocess.Popen([f'{o.build}/src/gpuscope', 'trace', '-q', '--no-gpu', '--format', 'json', '--summary', 's.json',
                                       *options_of(row, o.keep), '-p', str(spin.pid)], cwd=folder, stderr=err)  # fmt: skip
        time.sleep(2)
        started_s = cpu_seconds(tracer.pid)
        with open(go, 'w', encoding='utf-8'):
            pass
        said = json.loads(spin.communicate()[0])
        _, status, usage = os.wait4(tracer.pid, 0)
        if status != 0:
            with open(os.path.join(folder, 'err'), encoding='utf-8') as err:
                sys.exit(err.read())
        with open(os.path.join(folder, 's.json'), encoding='utf-8') as f:
            summary = json.load(f)
        calls = sum(x['calls'] for x in summary['functions'])
        if calls < 0.9 * said['calls']:
            sys.exit(f'{row}: {calls} of {said["calls"]} calls were traced')
        if lost := sum(layer.get('ring_full', 0) for layer in summary['lost'].values()):
            print(f'{row}: {lost} of {calls} calls found no room in the ring', file=sys.stderr)
        return (said['ns_median'], said['ns_p99'], (usage.ru_utime + usage.ru_stime - started_s) * 1e9 / calls, usage.ru_maxrss / 1024)


def text_of(values, digits):
    low, middle, high = statistics.quantiles(values, n=4, method='inclusive')
    return f'{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})'


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('build', nargs='?', default='build')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--rate', type=int, default=50000)
    parser.add_argument('--seconds', type=int, default=6)
    parser.add_argument('--keep', default='3s')
    o = parser.parse_args()
    o.build = os.path.abspath(o.build)
    if os.geteuid() != 0:
        sys.exit('SKIP: needs root')
    if o.rounds < 2:
        sys.exit('quartiles need two rounds')
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    got = {row: [] for row in ROWS}
    for _ in range(o.rounds):
        for row in ROWS:
            got[row].append(run_once(o, row))
    print(f'{o.rounds} rounds of {o.seconds} s at {o.rate:,} calls a second, {o.keep} kept: median (quartiles)')
    print('| | ' + ' | '.join(FIGURES) + ' |')
    print('|---|' + '---|' * len(FIGURES))
    for row in ROWS:
        print(f'| {row} | ' + ' | '.join(text_of([run[i] for run in got[row]], digits) for i, digits in enumerate(FIGURES.values())) + ' |')
    for row in ROWS[2:]:
        for other in ('summary', 'file'):
            pairs = [text_of([a[i] / b[i] for a, b in zip(got[row], got[other])], 2) for i in range(len(FIGURES))]
            print(f'| {row}, of {other} | ' + ' | '.join(pairs) + ' |')


if __name__ == '__main__':
    main()
