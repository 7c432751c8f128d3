#!/usr/bin/env python3
"""Rounds of attaching to a running Python and leaving it again (trace -p PID --inside=python), while the program computes in
several threads, makes and frees memory, loads libraries and forks. Says how long each took, how long a round of its main thread
took alone and meanwhile, and whether the program is as it would be alone: its results, its children, its standard error, the tool
ids of sys.monitoring, its memory maps. With "signals" a handler raises an exception in its main thread some 300 times a second:
Python loses and prints one that comes between its opening of a script and the first instruction of it.

usage: attach_rounds.py BUILD_FOLDER PYTHON [ROUNDS [MILLISECONDS [signals]]]   (root; PYTHON is 3.14 or newer)
"""

import os
import subprocess
import sys
import tempfile
import time

PROGRAM = r'''
import os, random, signal, sys, threading, time
folder, signals = sys.argv[1], sys.argv[3] == 'signals'
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def numbers(n):
    for i in range(n): yield i
def fails(n):
    try:
        return fails(n - 1) if n else 1 // 0
    except ZeroDivisionError:
        if n < 3: raise
        return n
over = False
wrong, rounds, forks = [], [0] * 3, [0, 0]
def check(what, is_right):
    if not is_right: wrong.append(what)
def compute(k):
    while not over:
        check('fib', fib(12) == 144)
        check('sum', sum(numbers(50)) == 1225)
        check('fails', fails(5) == 3)
        rounds[k] += 1
def memory(k):
    while not over:
        check('bytes', sum(map(len, [bytes(n * 100) for n in range(100)])) == 495000)
        exec(compile('def made(): return 7\nassert made() == 7', 'made', 'exec'), {})
        rounds[k] += 1
        time.sleep(0.0005)
def libraries(k):
    import _ctypes
    while not over:
        _ctypes.dlclose(_ctypes.dlopen('libm.so.6', 2))
        _ctypes.dlclose(_ctypes.dlopen(folder + '/libother.so', 2))
        rounds[k] += 1
        time.sleep(0.001)
threads = [threading.Thread(target=f, args=(k,)) for k, f in enumerate((compute, memory, libraries))]
for t in threads: t.start()
alone, gaps = [], []
class Tick(Exception): pass
raised, caught = [0], [0]
def on_tick(number, frame):
    raised[0] += 1
    raise Tick
signal.signal(signal.SIGALRM, on_tick)
def main_loop(gaps):
    began = time.perf_counter()
    try:
        if signals: signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.002))
        for i in range(20):
            check('main', fib(8) == 21)
        time.sleep(0.5 if signals else 0.0005)
    except Tick:
        caught[0] += 1
    gaps.append(time.perf_counter() - began)
    if len(gaps) % 4 == 0:
        pid = os.fork()
        if not pid:
            os._exit(7 if fib(10) == 55 and sum(numbers(10)) == 45 else 1)
        forks[0] += 1
        forks[1] += os.waitpid(pid, 0)[1] == 7 << 8
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end: main_loop(alone)
print('up', flush=True)
while not os.path.exists(folder + '/over'): main_loop(gaps)
over = True
for t in threads: t.join()
tools = [sys.monitoring.get_tool(i) for i in range(6)]
maps = open('/proc/self/maps').read()
print('wrong', wrong[:3], 'threads', rounds, 'forks', *forks, 'exceptions of signals', *raised, 'that came', *caught, 'tools', tools, 'maps', maps.count('\n'), 'of ours', maps.count('gpuscope'),
      'rings', maps.count('dev/shm'))
for name, g in (('alone', alone), ('attached', gaps)):
    g.sort()
    print(f'main_loop_{name}_us', 'n', len(g), *(f'{n} {g[min(int(len(g) * p), len(g) - 1)] * 1e6:.0f}'
          for n, p in (('p50', 0.5), ('p90', 0.9), ('p99', 0.99), ('p99.9', 0.999), ('max', 1))))
'''


def main():
    build, python, rounds = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else '1000'
    ms = sys.argv[4] if len(sys.argv) > 4 else '2'
    with tempfile.TemporaryDirectory(prefix='gpuscope_rounds_') as folder:
        os.chmod(folder, 0o755)
        subprocess.run(['cc', '-x', 'c', '-shared', '-fPIC', '-o', folder + '/libother.so', '-'], input=b'int other(void) { return 1; }', check=True)
        with open(folder + '/program.py', 'w') as f:
            f.write(PROGRAM)
        with open(folder + '/errors', 'w+') as errors:
            p = subprocess.Popen([python, '-W', 'ignore', folder + '/program.py', folder, '10', sys.argv[5] if len(sys.argv) > 5 else ''], stdout=subprocess.PIPE, stderr=errors, text=True)
            p.stdout.readline()
            began = time.monotonic()
            library = os.path.abspath(build + '/src/companion/python/libgpuscope_companion_python.so')
            done = subprocess.run([build + '/bench/attach_rounds', str(p.pid), library, rounds, ms], capture_output=True, text=True)
            print(done.stdout + done.stderr, end='')
            print(f'seconds {time.monotonic() - began:.1f} status {done.returncode}')
            open(folder + '/over', 'w').close()
            try:
                out, _ = p.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                p.kill()
                out, _ = p.communicate()
                print('the program hangs')
            print(out, end='')
            errors.seek(0)
            text = errors.read()
            print(f'program: status {p.returncode}, standard error {len(text)} bytes {text[:2000]}')
    return done.returncode or p.returncode


if __name__ == '__main__':
    sys.exit(main())
