#!/usr/bin/env python3
"""What tracing adds to a call of a Python function: from inside (--inside=python), and by probes.

usage: bench/python_calls.py BUILD [--rounds N] [--python PROGRAM]... [--ways inside,inside-events,probes] [--ms N]

Each round runs the same program once untraced and once in each way, one after the other, so that what the machine does
meanwhile falls on all alike. The program calls functions in chunks of some ms and prints the time of the fastest tenth of
them: `f`, which returns its argument, from a loop; `fib`, which calls itself; `gen`, a generator that goes on. Printed are
quartiles over the rounds of what is added to one call in ns, and of the ratio to the untraced call.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

PROGRAM = '''
import sys, time

def f(x):
    return x

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def gen(n):
    for i in range(n):
        yield i

def loop_f(n):
    for i in range(n):
        f(i)

def loop_fib(n):
    for i in range(n // 287):  # calls of fib(10) with those in it: 177; of f(x) below it none
        fib(10)

def loop_gen(n):
    for i in gen(n):
        pass

def empty(n):
    for i in range(n):
        pass

def measure(call, calls_of, n, seconds):
    best, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(best) < 10:
        t = time.perf_counter_ns()
        call(n)
        best.append((time.perf_counter_ns() - t) / calls_of(n))
    best.sort()
    return best[len(best) // 10]

n, seconds = int(sys.argv[1]), float(sys.argv[2])
nothing = measure(empty, lambda n: n, n, seconds / 4)
print(measure(loop_f, lambda n: n, n, seconds) - nothing, measure(loop_fib, lambda n: n // 287 * 177, n, seconds),
      measure(loop_gen, lambda n: n, n, seconds) - nothing)
'''
NAMES = ('f', 'fib', 'gen')
WAYS = {
    'inside': ['--inside=python'],
    'inside-events': ['--inside=python', '-o', '/dev/null.gst'],
    'probes': ['--python-calls'],
}


def run(prefix, python, program, n, seconds):
    done = subprocess.run([*prefix, python, program, str(n), str(seconds)], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f'{python}: {done.stderr[-2000:]}')
    return [float(w) for w in done.stdout.split()]


def quartiles(values):
    v = sorted(values)
    return [v[min(len(v) - 1, len(v) * q // 4)] for q in (1, 2, 3)]


def usual():
    found = sorted(glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python3')), key=lambda p: int(p.split('/3.')[1].split('.')[0]))
    return ['/usr/bin/python3'] + [p for p in found if int(p.split('/3.')[1].split('.')[0]) >= 8]


def main():
    o = argparse.ArgumentParser()
    o.add_argument('build')
    o.add_argument('--rounds', type=int, default=7)
    o.add_argument('--python', action='append')
    o.add_argument('--ways', default='inside,probes')
    o.add_argument('--ms', type=int, default=600)
    o = o.parse_args()
    tool = os.path.join(o.build, 'src', 'gpuscope')
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, 'calls.py')
        with open(program, 'w') as f:
            f.write(PROGRAM)
        print('python   call  way            untraced ns  added ns (quartiles)   ratio (quartiles)')
        for python in o.python or usual():
            version = subprocess.run([python, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], capture_output=True, text=True).stdout.strip()
            rounds = []
            for _ in range(o.rounds):
                one = {'': run([], python, program, 50000, o.ms / 1000)}
                for way in o.ways.split(','):
                    # Each call by probes takes some us: fewer of them are enough.
                    options = [w.replace('/dev/null', os.path.join(folder, 'out')) for w in WAYS[way]]
                    prefix = [tool, 'trace', '-q', '--summary', '/dev/null', *options, '--']
                    one[way] = run(prefix, python, program, 3000 if way == 'probes' else 50000, o.ms / 1000)
                rounds.append(one)
            for way in o.ways.split(','):
                for i, name in enumerate(NAMES):
                    plain = quartiles([r[''][i] for r in rounds])
                    added = quartiles([r[way][i] - r[''][i] for r in rounds])
                    ratio = quartiles([r[way][i] / r[''][i] for r in rounds])
                    print(f'{version:8} {name:5} {way:14} {plain[1]:11.1f}  ' + '{:6.0f} {:6.0f} {:6.0f}   '.format(*added) +
                          '{:6.2f} {:6.2f} {:6.2f}'.format(*ratio), flush=True)


if __name__ == '__main__':
    sys.exit(main())
