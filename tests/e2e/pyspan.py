#!/usr/bin/env python3
"""Garbage collections and waits for the interpreter's lock, of each interpreter that is here."""

import glob
import json
import os
import subprocess
import sys

import harness
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
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(1000))
threads = [threading.Thread(target=spin) for i in range(2)]
for t in threads: t.start()
for t in threads: t.join()
'''


def interpreters():
    """Those with a symbol table: (version, path)."""
    found = {}
    for path in glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python3')) + ['/usr/bin/python3']:
        done = subprocess.run([path, '-c', 'import sys; print("3.%d" % sys.version_info[1])'], capture_output=True, text=True)
        if done.returncode == 0 and 8 <= int(done.stdout.strip()[2:]) <= 14:
            found[path] = done.stdout.strip()
    return sorted(found.items(), key=lambda x: int(x[1][2:]))


def spans(t, python, text, *options):
    """(calls of the Python layer, what the script printed, standard error)"""
    out, script = t.path('spans.gst'), t.path('script.py')
    with open(script, 'w') as f:
        f.write(text)
    done = subprocess.run([harness.gpuscope, 'trace', *options, '-o', out, '--', python, script],
                          capture_output=True, text=True, timeout=60, env=t.env)  # fmt: skip
    t.equal(f'{python}: exit status', done.returncode, 0)
    words = done.stdout.split()
    said = dict(zip(words[::2], map(int, words[1::2])))
    gst = os.path.join(os.path.dirname(HERE), 'gst.py')
    text = subprocess.run([sys.executable, gst, out], capture_output=True, text=True, check=True).stdout
    records = [json.loads(x) for x in text.splitlines()]
    strings = {r['id']: r['text'] for r in records if r['kind'] == 'STRING'}
    names = {r['id']: strings[r['name_str']] for r in records if r['kind'] == 'FUNCTION'}
    calls = [dict(r, name=names[r['function']]) for r in records if r['kind'] == 'CALL']
    return calls, said, done.stderr


def each(t, check):
    n = 0
    for python, version in interpreters():
        n += check(python, version)
    if not n:
        raise Skip('no interpreter that is not stripped')
    t.note(f'{n} interpreters')


@case('as many collections as gc.callbacks tells', timeout=200)
def collections(t):
    def check(python, version):
        calls, said, err = spans(t, python, COLLECT, '--python-gc')
        if 'interpreter is stripped' in err:
            return 0
        seen = [c for c in calls if c['name'] == 'gc' and c['start_ns'] >= said['begin']]
        t.equal(f'{version}: collections', len(seen), said['collections'])
        t.true(f'{version}: they take time', all(c['dur_ns'] > 0 for c in seen))
        return 1

    each(t, check)


@case('each taking of the lock', timeout=200)
def taking(t):
    def check(python, version):
        calls, said, err = spans(t, python, GIVE_WAY, '--python-gil')
        seen = [c for c in calls if c['name'] == 'gil wait' and said['begin'] <= c['start_ns'] <= said['end']]
        t.equal(f'{version} {python}: taken', len(seen), SLEEPS)
        return 1

    each(t, check)


@case('threads that wait for each other', timeout=200)
def fighting(t):
    def check(python, version):
        calls, _, err = spans(t, python, FIGHT, '--python-gil')
        if 'interpreter is stripped' in err:
            return 0
        # The lock changes hands every 5 ms (sys.getswitchinterval) while two threads compute.
        long = [c for c in calls if c['name'] == 'gil wait' and c['dur_ns'] >= 2000000]
        t.true(f'{version}: long waits', len(long) >= 10, len(long))
        t.true(f'{version}: of both threads', len({c['thread'] for c in long}) >= 2)
        return 1

    each(t, check)


@case('an interpreter without symbols is told')
def stripped(t):
    python = '/usr/bin/python3'
    text = subprocess.run(['readelf', '-S', os.path.realpath(python)], capture_output=True, text=True).stdout
    if not text or '.symtab' in text:
        raise Skip('/usr/bin/python3 is not stripped')
    calls, said, err = spans(t, python, COLLECT, '--python-gc')
    t.equal('collections', [c for c in calls if c['name'] == 'gc'], [])
    t.match('told', r'gc_collect_main.*stripped', err.replace('\n', ' '))


main()
