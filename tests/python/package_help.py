"""What the tests of the Python package share: where the package and the library are, and programs that use them."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(ROOT, 'python')
EXAMPLES = os.path.join(ROOT, 'examples', 'python')
sys.path[:0] = [os.path.join(ROOT, 'tests', 'e2e'), PACKAGE]

import build_backend  # noqa: E402
import harness  # noqa: E402


def library():
    """Of the build folder, by the soname that it has."""
    path = os.path.join(os.path.dirname(os.path.dirname(harness.gpuscope)), build_backend.LIBRARY)
    if not os.path.exists(path):
        raise harness.Skip(f'there is no {path}')
    return path


def env(t, **more):
    """For a program that uses the package of the tree."""
    return t.envs({'PYTHONPATH': PACKAGE, 'GPUSCOPE_LIBRARY': library(), **more})


def run(t, command, status=0, seconds=60, **more):
    """A program that uses the package, to its end."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env(t, **more))
    t.equal(f'exit status of {command[:2]} ({done.stderr[-1500:]})', done.returncode, status)
    return done


def script(t, text, *arguments, status=0, **more):
    """The same of a text in Python, by the interpreter of the tests."""
    return run(t, [sys.executable, '-c', text, *arguments], status, **more)


def start(t, command, **more):
    """One that goes on; its output goes to files."""
    t.n_files += 1
    base = t.path(f'run{t.n_files}')
    with open(base + '.out', 'wb') as out, open(base + '.err', 'wb') as err:
        proc = subprocess.Popen(command, stdout=out, stderr=err, env=env(t, **more), cwd=t.tmp)
    proc.out, proc.err = base + '.out', base + '.err'
    return proc
