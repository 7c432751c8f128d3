#!/usr/bin/env python3
"""Garbage collections and waits for the interpreter's lock, of each interpreter that is here."""

import json
import os
import shutil
import subprocess
import sys

import harness
import pythons
from harness import HERE, Skip, case, main

COLLECT = '''
import gc, os, sys, time
seen = [0]
def count(phase, info):
    seen[0] += phase == 'start'
gc.callbacks.append(count)
begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
class Ring:
    pass
for i in range(20000):
    ring = Ring()
    ring.me = ring
for i in range(7):
    gc.collect(i % 3)
print('begin', begin, 'collections', seen[0])
sys.stdout.flush()
os._exit(0)
'''

SLEEPS = 1009
GIVE_WAY = f'''
import os, sys, time
begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
for i in range({SLEEPS}):
    time.sleep(0)
end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
print('begin', begin, 'end', end)
sys.stdout.flush()
os._exit(0)
'''

FIGHT = '''
import threading, time
def spin():
    while time.thread_time() < 0.5:  # of a processor: others may have it meanwhile
        sum(range(1000))
threads = [threading.Thread(target=spin) for i in range(2)]
for t in threads: t.start()
for t in threads: t.join()
'''


WAIT = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
"""


def spans(t, python, text, *options, env=None):
    """(calls of the Python layer, what the script printed, standard error); the script begins when the
    interpreter has its probes, or there are none for it."""
    out, script, flag = t.path('spans.gst'), t.path('script.py'), t.path('flag')
    with open(script, 'w') as f:
        f.write(WAIT + text)
    live = t.start_trace(*options, '-o', out, command=[python.program, script, flag], env=env)
    live.wait_err(r'python[^/\n]*: (\d+ probes|.*(gc_collect_main|take_gil))', seconds=60)
    with open(flag, 'w'):
        pass
    run = live.finish()
    os.unlink(flag)
    t.equal(f'{python}: exit status', run.status, 0)
    words = run.out.split()
    said = dict(zip(words[::2], map(int, words[1::2])))
    gst = os.path.join(os.path.dirname(HERE), 'gst.py')
    text = subprocess.run([sys.executable, gst, out], capture_output=True, text=True, check=True).stdout
    records = [json.loads(x) for x in text.splitlines()]
    strings = {r['id']: r['text'] for r in records if r['kind'] == 'STRING'}
    names = {r['id']: strings[r['name_str']] for r in records if r['kind'] == 'FUNCTION'}
    calls = [dict(r, name=names[r['function']]) for r in records if r['kind'] == 'CALL']
    return calls, said, run


def each(t, check):
    n = sum(check(python) for python in pythons.interpreters())
    if not n:
        raise Skip('no interpreter of which they can be seen')
    t.note(f'{n} interpreters')


@case('as many collections as gc.callbacks tells', timeout=300)
def collections(t):
    def check(python):
        calls, said, run = spans(t, python, COLLECT, '--python-gc')
        if 'no static probes of its collections' in run.err:
            return 0
        seen = [c for c in calls if c['name'] == 'gc' and c['start_ns'] >= said['begin']]
        t.equal(f'{python}: collections', len(seen), said['collections'])
        t.true(f'{python}: they take time', all(c['dur_ns'] > 0 for c in seen))
        t.equal(f'{python}: lost', run.summary['lost'].get('python'), None)
        return 1

    each(t, check)


@case('each taking of the lock', timeout=300)
def taking(t):
    def check(python):
        calls, said, run = spans(t, python, GIVE_WAY, '--python-gil')
        part = 'interpreter is stripped' in run.err
        name = 'gil wait after C code' if part else 'gil wait'
        t.equal(f'{python}: a part is called so', {c['name'] for c in calls if c['name'].startswith('gil')} - {name}, set())
        seen = [c for c in calls if c['name'] == name and said['begin'] <= c['start_ns'] <= said['end']]
        # Optimized at link time, one of no symbols may have PyEval_RestoreThread() built into its own modules.
        if python.named and not seen and part:
            return 0
        t.equal(f'{python}: taken', len(seen), SLEEPS)
        return 1

    each(t, check)


@case('threads that wait for each other', timeout=300)
def fighting(t):
    def check(python):
        locked = {'PYTHON_GIL': '1'} if python.is_free_threaded else {}
        calls, _, run = spans(t, python, FIGHT, '--python-gil', env=locked)
        if 'interpreter is stripped' in run.err:
            return 0
        # The lock changes hands every 5 ms (sys.getswitchinterval) while two threads compute.
        long = [c for c in calls if c['name'] == 'gil wait' and c['dur_ns'] >= 2000000]
        t.true(f'{python}: long waits', len(long) >= 10, len(long))
        t.true(f'{python}: of both threads', len({c['thread'] for c in long}) >= 2)
        return 1

    each(t, check)


@case('an interpreter with neither symbols nor static probes is told')
def stripped(t):
    python = next((p for p in pythons.interpreters() if p.program.startswith('/usr/bin/') and p.is_stripped), None)
    if not python or not shutil.which('objcopy'):
        raise Skip('no stripped Python in /usr/bin, or no objcopy')
    bare = python._replace(program=t.path('python3-bare'))
    subprocess.run(['objcopy', '--remove-section=.note.stapsdt', os.path.realpath(python.program), bare.program], check=True)
    calls, said, run = spans(t, bare, COLLECT, '--python-gc', env={'PYTHONHOME': '/usr'})
    t.equal('collections', [c for c in calls if c['name'] == 'gc'], [])
    t.match('told', r'gc_collect_main.*stripped', run.err.replace('\n', ' '))


if __name__ == '__main__':
    main()
