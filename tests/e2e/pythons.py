"""The Python interpreters that a machine has: the system's, pyenv's, conda's, and those that the
environment variable GPUSCOPE_TEST_PYTHONS names (PATH:PATH...; programs that start one, in another
root for example, are run as they are). CONTRIBUTING.md says how to build the rarer ones."""

import collections
import functools
import glob
import os
import shutil
import subprocess

Python = collections.namedtuple('Python', 'version program named is_free_threaded has_probes is_stripped')
"""version: (3, 11); named: by GPUSCOPE_TEST_PYTHONS; has_probes: built --with-dtrace; is_stripped:
the file with the interpreter has no full table of symbols; None: the file cannot be found from
here. The word for a test's messages is str()."""
Python.__str__ = lambda p: f'{p.version[0]}.{p.version[1]}{"t" if p.is_free_threaded else ""} {p.program}'

ASK = (
    'import sys, sysconfig; get = sysconfig.get_config_var; '
    'print(*sys.version_info[:2], int(get("Py_GIL_DISABLED") or 0), int(get("WITH_DTRACE") or 0), sys.executable)'
)


def file_with_interpreter(program):
    """Its libpython, or the program itself; None: a script, which starts one that is not seen from here."""
    path = os.path.realpath(program)
    with open(path, 'rb') as f:
        if f.read(4) != b'\x7fELF':
            return None
    done = subprocess.run(['ldd', path], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        words = line.split()
        if words and words[0].startswith('libpython') and len(words) > 2:
            return os.path.realpath(words[2])
    return path


def ask(program, named):
    done = subprocess.run([program, '-c', ASK], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    major, minor, free, probes, path = done.stdout.split()
    if not named:
        program = path
    file = file_with_interpreter(program)
    stripped = None
    if file:
        text = subprocess.run(['readelf', '-SW', file], capture_output=True, text=True).stdout
        stripped = '.symtab' not in text if text else None
    return Python((int(major), int(minor)), program, named, free == '1', probes == '1', stripped)


@functools.lru_cache(maxsize=None)
def every():
    found = {}
    usual = [shutil.which('python3'), *glob.glob('/usr/bin/python3.*'), *glob.glob('/opt/conda/bin/python3'),
             *glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python3'))]  # fmt: skip
    given = os.environ.get('GPUSCOPE_TEST_PYTHONS', '').split(':')
    for program in usual + given:
        if not program or 'config' in program or not os.access(program, os.X_OK):
            continue
        python = ask(program, program in given)
        if python:
            found.setdefault(os.path.realpath(python.program), python)
    return sorted(found.values(), key=lambda p: (p.version, p.is_free_threaded, p.program))


def interpreters(first=(3, 8), last=(3, 14)):
    return [p for p in every() if first <= p.version <= last]
