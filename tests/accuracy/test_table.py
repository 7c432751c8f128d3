#!/usr/bin/env python3
"""The table itself: a figure outside of what is allowed, or missing, ends with status 1 and is marked; skips do not.

usage: test_table.py GPUSCOPE FAKE_FOLDER
"""

import sys
import tempfile

import accuracy
import table


def status(function):
    """The exit status of a table with this one part, and its Markdown."""
    table.layers[:] = [('part', True, None, 60, function)]
    with tempfile.NamedTemporaryFile('r', suffix='.md') as f:
        sys.argv[3:] = ['--quick', '--write', f.name]
        return accuracy.main(), f.read()


def skip(_):
    raise table.Skip('no such tool')


def broken(m):
    m.figure('before', 1, 'source', 1)
    raise KeyError('gone')


CASES = [
    (lambda m: m.figure('x', 3, 'source', 3), 0, '| x | 3 | source: 3 | 0 | exact | ok |'),
    (lambda m: m.figure('x', 5, 'source', 3, 2, 'why'), 0, '| ok |'),
    (lambda m: m.figure('x', 5, 'source', 3, 1.9, 'why'), 1, '| **NOT** |'),
    (lambda m: m.figure('x', None, 'source', 3, 9, 'why'), 1, '| none | source: 3 | differs |'),
    (lambda m: m.text('x', 'a|b', 'source', 'a'), 1, 'a\\|b'),
    (lambda m: m.true('holds', False), 1, 'NOT: holds'),
    (skip, 0, 'SKIP: no such tool.'),
    (broken, 1, "NOT: KeyError: 'gone'"),
    (broken, 1, '| before | 1 |'),
]

for function, wanted, text in CASES:
    got, markdown = status(function)
    assert got == wanted and text in markdown, (got, wanted, text, markdown)
