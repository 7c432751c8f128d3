"""What a Python program with known calls (pycalls_target.py) is compared by: what Python itself counts, and what a summary has."""

import json
import os
import subprocess

import harness
from harness import HERE

TARGET = os.path.join(HERE, 'pycalls_target.py')
# Run before the counting began, or part of it: the program itself, and the bodies of its classes.
UNCOUNTED = ('<module>', 'count', 'watch_ends', 'Thing', 'Dim3')
ALL = ['recursion', 'generators', 'coroutines', 'from_c', 'exceptions', 'made_and_freed', 'threads', 'forks']


def environment(t):
    return {**t.env, 'LD_LIBRARY_PATH': harness.fake, 'PYTHONHASHSEED': '0'}


def counted(t, program, *cases, column=3):
    """{(file, function, line): calls} as sys.setprofile reports; column 4: frames that ended, as sys.monitoring does."""
    path = t.path('counts.json')
    done = subprocess.run([program, TARGET, path, *cases], env=environment(t), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    with open(path) as f:
        return {tuple(row[:3]): row[column] for row in json.load(f) if row[column]}


def of_target(run):
    """The same of a summary, and the rows."""
    rows = {}
    for f in run.summary['python_functions']:
        if f['file'] in (TARGET, '<made>') and '<module>' not in f['name']:
            name = f['name'].rsplit(':', 1)[1].rsplit('/', 1)[0]
            if name not in UNCOUNTED:
                rows[f['file'], name, f['line']] = f
    return rows


def wanted_of(counts):
    return {k: n for k, n in counts.items() if k[1] not in UNCOUNTED}


def compare(t, what, rows, counts):
    wanted, got = wanted_of(counts), {key: row['calls'] for key, row in rows.items()}
    # A code object is told from the one before it in its place by the addresses of its file, name and line table. Those
    # of functions that are made and freed by the hundred may be the same as well, now and then: chance of the allocator.
    made = {key for key in set(got) | set(wanted) if key[0] == '<made>'}
    odd = [(key, got.get(key, 0), wanted.get(key, 0)) for key in sorted(made) if got.get(key, 0) != wanted.get(key, 0)]
    t.equal(f'{what}: calls of made functions', sum(got.get(key, 0) for key in made), sum(wanted.get(key, 0) for key in made))
    t.true(f'{what}: nearly each to its own', len(odd) <= len(made) // 10, odd)
    for key in sorted((set(got) | set(wanted)) - made):
        t.equal(f'{what}: {key[1]}/{key[2]}', got.get(key, 0), wanted.get(key, 0))
