#!/usr/bin/env python3
"""The package itself: its structs are those of the header, its types hold, its wheel and source distribution install in clean
environments of each Python here and work there."""

import ctypes
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import package_help
import harness
import pythons
from harness import Skip, case, main, read_text
from package_help import PACKAGE, ROOT

from gpuscope import _structs


def member(struct, name):
    """As the header has it: items begin with a head of their own."""
    is_item = struct._fields_[:3] == _structs.Item._fields_ and struct is not _structs.Item
    if is_item and name in ('size', 'kind', 'pad'):
        return 'head.' + name
    return 'pad' if name == 'pad2' else name


@case('structs have the layout and enums the numbers of the header', needs=None)
def layout(t):
    lines, wanted = [], []
    for struct, name in _structs.NAMES.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        wanted.append((name, ctypes.sizeof(struct)))
        for field, kind in struct._fields_:
            place = member(struct, field)
            lines.append(f'printf("%zu\\n%zu\\n", offsetof(struct {name}, {place}), sizeof(((struct {name} *)0)->{place}));')
            wanted += [(f'{name}.{field}', getattr(struct, field).offset), (f'bytes of {name}.{field}', ctypes.sizeof(kind))]
    enums = {'PROBE_': '', 'TRACE_': '', 'ITEM_': '', 'NEXT_': '', 'VALUE_': '', 'MONITOR_': '', 'DEVICES_': '', 'CALL_': 'CALL_BIT_'}
    for name, number in vars(_structs).items():
        prefix = next((p for p in enums if name.startswith(p)), None)
        if prefix:
            constant = 'GS_' + (enums[prefix] or prefix) + name[len(prefix) :]
            lines.append(f'printf("%d\\n", {constant});')
            wanted.append((constant, number))
    lines.append('printf("%d\\n%d\\n", GS_HEADER_MAJOR, GS_HEADER_MINOR);')
    wanted += list(zip(('major', 'minor'), _structs.HEADER_VERSION))
    header = read_text(os.path.join(ROOT, 'include/gpuscope/gpuscope.h'))
    t.equal('structs that the package does not have', set(re.findall(r'(?m)^struct (gs_\w+) \{', header)) - set(_structs.NAMES.values()), set())
    with open('layout.c', 'w') as f:
        f.write('#include <stdio.h>\n#include "gpuscope/gpuscope.h"\nint main(void) {\n' + '\n'.join(lines) + '\nreturn 0; }\n')
    subprocess.run(['cc', f'-I{ROOT}/include', 'layout.c', '-o', 'layout'], check=True)
    got = [int(x) for x in subprocess.run(['./layout'], capture_output=True, text=True, check=True).stdout.split()]
    t.equal('how many', len(got), len(wanted))
    for (name, number), found in zip(wanted, got):
        t.equal(name, number, found)
    t.note(f'{len(got)} numbers are those of the header')


@case('types hold (mypy --strict), for Python 3.8 on', timeout=120, needs=None)
def types(t):
    if not harness.has_module(sys.executable, 'mypy'):
        raise Skip('mypy is not installed')
    done = subprocess.run([sys.executable, '-m', 'mypy', '--cache-dir', t.path('cache'), 'gpuscope'], cwd=PACKAGE, capture_output=True, text=True)
    t.equal(done.stdout, done.returncode, 0)


@case('each file compiles in each Python, and what needs no library imports', timeout=120, needs=None)
def compiles(t):
    text = ('import compileall, sys; assert compileall.compile_dir(sys.argv[1] + "/gpuscope", quiet=1, legacy=True, force=True)\n'
            'sys.path.insert(0, sys.argv[1]); import gpuscope.eacgm.bpf, gpuscope.eacgm.collector; print(gpuscope.__version__)')  # fmt: skip
    shutil.copytree(PACKAGE, t.path('tree'))
    for python in pythons.interpreters():
        if python.named:
            continue  # may run in another root, where this folder is not
        done = subprocess.run([python.program, '-c', text, t.path('tree')], capture_output=True, text=True)
        t.match(f'{python} ({done.stderr[-500:]})', r'^\d+\.\d+', done.stdout)


def built():
    """The folder of Meson, which has the library and what the program loads."""
    package_help.library()
    return os.path.dirname(os.path.dirname(harness.gpuscope))


def make(t, what, folder, *build):
    done = subprocess.run([sys.executable, os.path.join(PACKAGE, 'build_backend.py'), what, t.path(folder), *build], capture_output=True, text=True)
    t.equal(f'exit status of {what} ({done.stderr[-500:]})', done.returncode, 0)
    return done.stdout.strip()


def digest(path):
    with open(path, 'rb') as f:
        return hashlib.sha256(f.read()).hexdigest()


@case('the source distribution: the same bytes each time, and again out of itself', timeout=120, needs=None)
def sdist(t):
    if not os.path.exists(os.path.join(ROOT, '.git')):
        raise Skip('this is no clone')
    first, second = make(t, 'sdist', 'a'), make(t, 'sdist', 'b')
    t.equal('digests', digest(first), digest(second))
    with tarfile.open(first) as tar:
        tar.extractall('out')
        names = tar.getnames()
    base = names[0].split('/')[0]
    for name in ('pyproject.toml', 'PKG-INFO', 'LICENSE', 'meson.build', 'include/gpuscope/gpuscope.h', 'python/gpuscope/__init__.py'):
        t.true(name, f'{base}/{name}' in names)
    done = subprocess.run([sys.executable, 'python/build_backend.py', 'sdist', t.path('c')], cwd=t.path('out', base), capture_output=True, text=True)
    t.equal(f'out of itself ({done.stderr[-300:]})', digest(done.stdout.strip()), digest(first))


USE = """
import gpuscope, os, subprocess, sys, zipfile
from gpuscope.eacgm.bpf import BccBPF
from gpuscope.eacgm.sampler import eBPFSampler
from gpuscope.eacgm.collector import to_perfetto
assert '_native' in gpuscope._library.library()._name, gpuscope._library.library()._name
print(gpuscope.__version__, gpuscope.library_version(), len(gpuscope.gpus()))
out = subprocess.run([os.path.join(os.path.dirname(sys.executable), 'gpuscope'), '--version'], capture_output=True, text=True, check=True).stdout
print(out.split()[-1] if out else 'no version')
if os.geteuid() == 0:
    with gpuscope.trace(sys.argv[1:]) as t:
        print(sum(c.name == 'cudaMalloc' for c in t.calls()))
"""


def environment(t, python, name):
    """The words that start the Python of a clean one; None: this Python cannot make any, with why."""
    folder = t.path(name)
    done = subprocess.run([python, '-m', 'venv', folder], capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr + done.stdout).strip().splitlines()[-1]
    program = os.path.join(folder, 'bin', 'python')
    # A link into another root (tests/e2e/pythons.py) is followed there.
    return [program] if os.path.exists(program) else [python, '-c', 'import os, sys; os.execv(sys.argv[1], sys.argv[1:])', program], ''


def oldest_and_newest():
    """Each takes some 13 s: the system's, the oldest and the newest, and all that are named."""
    usual = sorted((p for p in pythons.interpreters() if not p.named), key=lambda p: p.version)
    chosen = {p.program: p for p in [*usual[:1], *usual[-1:], *(p for p in usual if p.program.startswith('/usr/bin/'))]}
    return [*chosen.values(), *(p for p in pythons.interpreters() if p.named)]


@case('the wheel installs in clean environments of the oldest and newest Python, and traces there', timeout=400)
def wheel(t):
    path, again = make(t, 'wheel', 'a', built()), make(t, 'wheel', 'b', built())
    t.equal('digests', digest(path), digest(again))
    with zipfile.ZipFile(path) as z:
        names = z.namelist()
        info = z.read(next(n for n in names if n.endswith('.dist-info/WHEEL'))).decode()
        t.equal('a broken file', z.testzip(), None)
    t.match('platform', r'(?m)^Tag: py3-none-(linux|manylinux_2_\d+)_x86_64$', info)
    t.true('program, library, companions, types', {'gpuscope/_native/bin/gpuscope', 'gpuscope/py.typed'} <= set(names) and
           any(re.match(r'gpuscope/_native/lib/libgpuscope\.so\.\d+$', n) for n in names) and
           any(n.startswith('gpuscope/_native/lib/gpuscope/libgpuscope_companion') for n in names), names)  # fmt: skip
    for name in names:
        match = re.match(r'gpuscope/_native/lib/needed/\d+-(\S+)\.so', name)
        t.true(f'a licence for {name}', not match or any('/licenses/' in n for n in names))
    tried = []
    for number, python in enumerate(oldest_and_newest()):
        program, why = environment(t, python.program, f'env{number}')
        if not program:
            t.note(f'{python}: not tried: {why}')
            continue
        clean = {k: v for k, v in t.env.items() if not k.startswith(('PYTHON', 'PIP'))}
        install = subprocess.run([*program, '-m', 'pip', 'install', '--no-index', '--disable-pip-version-check', '-q', path], capture_output=True,
                                 text=True, env=clean)  # fmt: skip
        t.equal(f'{python}: pip install ({install.stderr[-500:]})', install.returncode, 0)
        used = subprocess.run([*program, '-c', USE, *t.app('cudaMalloc=3')], capture_output=True, text=True, env=clean, cwd='/', timeout=60)
        t.equal(f'{python}: exit status ({used.stderr[-800:]})', used.returncode, 0)
        lines = [line for line in used.stdout.splitlines() if not line.startswith('{')]
        t.equal(f'{python}: version, calls ({used.stdout[-300:]})', (lines[0].split()[0] == lines[1], lines[-1]), (True, '3'))
        subprocess.run([*program, '-m', 'pip', 'uninstall', '-y', '-q', 'gpuscope'], check=True, env=clean, capture_output=True)
        t.equal(f'{python}: left over', glob.glob(t.path(f'env{number}/lib/python*/site-packages/gpuscope*')), [])
        tried.append(str(python))
    t.true('Pythons', tried, 'none can make an environment')
    t.note('installed and used in: ' + '; '.join(tried))


@case('pip builds the wheel out of the source distribution without a network', timeout=200)
def out_of_sdist(t):
    if not os.path.exists(os.path.join(ROOT, '.git')):
        raise Skip('this is no clone')
    path = make(t, 'sdist', 'a')
    done_any = False
    for number, python in enumerate(pythons.interpreters()):
        program, why = environment(t, python.program, f'env{number}')
        if not program:
            continue
        # What it would build is here already.
        clean = {k: v for k, v in t.env.items() if not k.startswith(('PYTHON', 'PIP'))}
        done = subprocess.run([*program, '-m', 'pip', 'wheel', '--no-index', '--no-deps', '--disable-pip-version-check', '-q', '-w', t.path('w'), path],
                              capture_output=True, text=True, env={**clean, 'GPUSCOPE_BUILD': built()})  # fmt: skip
        t.equal(f'{python}: exit status ({done.stderr[-800:]})', done.returncode, 0)
        t.equal(f'{python}: wheel', digest(glob.glob(t.path('w', '*.whl'))[0]), digest(make(t, 'wheel', 'b', built())))
        done_any = True
        break
    t.true('a Python that has pip', done_any)


@case('what does not fit is refused with a line that says what to do', needs=None)
def refusals(t):
    for library, why in (('/no/lib.so', 'cannot find libgpuscope'), ('libc.so.6', 'is not a libgpuscope that fits this package')):
        done = package_help.script(t, 'import gpuscope; gpuscope.gpus()', status=1, GPUSCOPE_LIBRARY=library)
        t.match(library, why, done.stderr.strip().splitlines()[-1])
    done = package_help.run(t, [sys.executable, '-m', 'gpuscope', '--version'], status=1)
    t.match('no program', 'this package does not contain the program', done.stderr)
    done = subprocess.run([sys.executable, os.path.join(PACKAGE, 'build_backend.py'), 'wheel', t.path('x'), t.tmp], capture_output=True, text=True)
    t.match('a folder that was not built', 'build it first', done.stderr)


main()
