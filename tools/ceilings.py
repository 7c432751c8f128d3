#!/usr/bin/env python3
"""Ceilings: a function of C has at most 100 lines and a cyclomatic complexity of at most 40, a file of the repository at most 800
lines. Fails with each that is above; files whose functions may be are listed with their reason, and one that no longer needs it fails, too.

usage: ceilings.py            check
       ceilings.py --longest  the ten longest functions, and the ten most complex ones
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES_MAX, COMPLEXITY_MAX, FILE_MAX = 100, 40, 800
# What people edit; web/vendor is others' work as they publish it.
SUFFIXES = ('.c', '.h', '.py', '.sh', '.js', '.css')
VENDOR = 'web/vendor/'

# file: what a function of it may have instead, and why
SWITCH = 'one switch with a case for each'
EXCEPTIONS = {
    'src/pipeline/correlate/sync.c': (LINES_MAX, 42, SWITCH + ' kind of call that orders work; what they share stands before it'),
    'src/sources/host/wait.c': (LINES_MAX, 56, SWITCH + ' system call that waits'),
    'src/sources/x86/site.c': (LINES_MAX, 68, SWITCH + ' group of opcodes, as the manual of the processor lists them'),
    'tests/fake/nvml_new.c': (107, 59, SWITCH + ' field of NVML that the stand-in answers'),
    'tests/work/watch.c': (104, COMPLEXITY_MAX, 'a test program of one function that prints a JSON from top to bottom'),
}

Function = collections.namedtuple('Function', 'path line name lines complexity')

# A comment, a string or a character: what may hold words that are no code.
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# Where a way through the function parts: as McCabe counts, each condition of && and || too.
FORKS = re.compile(r'\b(?:if|for|while|case)\b|&&|\|\||\?')
NAME = re.compile(r'(\w+)\s*\(')
# Macros around what a function is called: SEC("...") in front, __attribute__((...)), Meson's and cmocka's none.
NO_NAMES = {'SEC', '__attribute__', 'GS_CLEANUP', 'defined'}


def blank(match):
    """The same number of lines, without words."""
    return re.sub(r'[^\n]', ' ', match[0])


def name_of(head):
    names = [n for n in NAME.findall(head) if n not in NO_NAMES]
    return names[0] if names else '?'


def functions_of(path, text):
    """Those of a file in the form that clang-format gives: braces of a body stand alone at the line's begin."""
    lines = NO_CODE.sub(blank, text).split('\n')
    head = begin = None
    for i, line in enumerate(lines):
        if line.rstrip() == '{' and begin is None:
            head = i
            while head > 0 and lines[head - 1].strip() and not re.match(r'[#}]|.*[;]\s*$', lines[head - 1]):
                head -= 1
            begin = i
        elif begin is not None and line.startswith('}'):
            body = '\n'.join(lines[begin:i])
            yield Function(path, head + 1, name_of(' '.join(lines[head:begin])), i - head + 1, 1 + len(FORKS.findall(body)))
            begin = None


def all_files():
    done = subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard'], cwd=ROOT, capture_output=True, text=True, check=True)
    return [p for p in done.stdout.splitlines() if p.endswith(SUFFIXES) and not p.startswith(VENDOR) and (ROOT / p).is_file()]


def reasons_against(functions, lengths):
    needed = set()
    for f in functions:
        for what, value, ceiling, at in (('lines', f.lines, LINES_MAX, 0), ('ways through it', f.complexity, COMPLEXITY_MAX, 1)):
            allowed = EXCEPTIONS[f.path][at] if f.path in EXCEPTIONS else ceiling
            if value > ceiling:
                needed.add(f.path)
            if value > allowed:
                yield f'{f.path}:{f.line}: {f.name}() has {value} {what}, at most {allowed}: divide it'
    for path, n in lengths.items():
        if n > FILE_MAX:
            yield f'{path}: {n} lines, at most {FILE_MAX}: divide it'
    for path in sorted(set(EXCEPTIONS) - needed):
        yield f'tools/ceilings.py: no function of {path} needs an exception any more: take it off the list'


def main():
    functions, lengths = [], {}
    for path in all_files():
        text = (ROOT / path).read_text(encoding='utf-8', errors='replace')
        lengths[path] = text.count('\n')
        if path.endswith(('.c', '.h')):
            functions += functions_of(path, text)
    if sys.argv[1:] == ['--longest']:
        for key in ('lines', 'complexity'):
            for f in sorted(functions, key=lambda f: -getattr(f, key))[:10]:
                print(f'{getattr(f, key):4} {key}  {f.path}:{f.line} {f.name}()')
        return
    reasons = list(reasons_against(functions, lengths))
    for reason in reasons:
        print(reason)
    if reasons:
        sys.exit(1)
    print(f'ceilings: {len(functions)} functions of {len(lengths)} files keep them')


if __name__ == '__main__':
    main()
