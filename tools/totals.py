#!/usr/bin/env python3
"""Adds up the results in a folder: *.json of meson (a TAP case counts as one) and *.tap. Says why
something was skipped and what each that failed said, then a line for each of those, "FAILED: " with its
name and the first error, then one line of totals: the last lines of a log name all that is wrong.

usage: totals.py FOLDER
"""

import collections
import glob
import json
import os
import re
import sys

LINES_MAX = 40  # shown of one case that failed
CASES_MAX = 15  # failed cases that are shown with their lines: a log's end must hold all
LINE_MAX = 300  # characters of the line that names what failed

Result = collections.namedtuple('Result', 'name outcome reason lines', defaults=('', ()))


def last_lines(text, n):
    return [line for line in (text or '').splitlines() if line.strip()][-n:]


def cases_of_tap(text):
    """(name, is ok, skip's reason or None, its `#` lines) of each case; those lines come after it."""
    found = []
    for line in text.splitlines():
        m = re.match(r'(not )?ok\b *\d* *(?:- )?(.*?)(?: *# *SKIP\b *(.*))?$', line, re.I)
        if m:
            found.append((m[2], not m[1], m[3], []))
        elif line.startswith('#') and found:
            found[-1][3].append(line[1:].removeprefix(' '))
    return found


def of_test(run, test):
    """A test of meson: of a program that writes TAP its cases, of any other the whole."""
    what = f'{run}: {test["name"].rpartition(" / ")[2]}'
    text, errors = test.get('stdout') or '', test.get('stderr') or ''
    plan = re.search(r'(?m)^1\.\.(\d+)', text)
    results = []
    for name, is_ok, skip, lines in cases_of_tap(text) if plan else ():
        outcome = 'fail' if not is_ok else 'pass' if skip is None else 'skip'
        reason = (skip or 'no reason given') if outcome == 'skip' else ''
        results.append(Result(f'{what}: {name}', outcome, reason, lines))
    if test['result'] in ('OK', 'EXPECTEDFAIL'):
        return results or [Result(what, 'pass')]
    if test['result'] == 'SKIP':
        reason = re.search(r'(?m)^1\.\.0 *# *SKIP *(.*)$|^SKIP:? *(.*)$', text, re.I)
        return results or [Result(what, 'skip', next(filter(None, reason.groups()), '') if reason else 'no reason given')]
    # Without a failed case, or beside it: it was too slow, ended badly, or ran fewer cases than it announced.
    # A program whose case failed ends with 1, of which nothing more need be said.
    is_told = test['result'] == 'FAIL' or (test['result'] == 'ERROR' and test.get('returncode') == 1)
    if not is_told or not any(r.outcome == 'fail' for r in results):
        lines = last_lines(text, LINES_MAX // 2) + last_lines(errors, LINES_MAX // 2)
        results.append(Result(what, 'fail', f'{test["result"]}, exit status {test.get("returncode")}', lines))
    return results


def of_meson(path):
    """Of the tests in a file of meson, a line each."""
    run = os.path.basename(path).removesuffix('.json')
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            yield from of_test(run, json.loads(line))


def of_checks(path):
    """Of the steps of check.sh; the lines of one that failed are the end of its log."""
    with open(path, encoding='utf-8') as f:
        for name, is_ok, skip, _ in cases_of_tap(f.read()):
            m = re.match(r'(.*) \(see (.*)\)$', name)
            lines = []
            if m and not is_ok and os.path.exists(m[2]):
                with open(m[2], encoding='utf-8', errors='replace') as log:
                    lines = last_lines(log.read(), LINES_MAX)
            yield Result(name, 'fail' if not is_ok else 'pass' if skip is None else 'skip', skip or '', lines)


def show(failed):
    """With what each said."""
    for i, r in enumerate(failed):
        print(f'failed: {r.name} {r.reason}'.rstrip())
        shown = list(r.lines[:LINES_MAX]) if i < CASES_MAX else []
        for line in shown:
            print('    ' + line[:1000])
        if len(r.lines) > len(shown):
            print(f'    ... {len(r.lines) - len(shown)} lines more')


def first_error(r):
    """The line that says most: what a traceback ends with, else the first that speaks of an error, else the first."""
    lines = [line for line in r.lines if not re.match(r'\s*$|[\d.]+ s\b.*of CPU$', line)]
    if lines and lines[0].startswith('Traceback '):
        lines = [line for line in lines[1:] if not line.startswith(' ')] or lines
    elif r.reason or not r.name.count(': '):
        found = [i for i, line in enumerate(lines) if re.search(r'\bFAILED\b|(?i:error\b|assert|not ok)|SUMMARY:', line)][:1]
        lines = [' '.join(line.strip() for line in lines[found[0] : found[0] + 2])] if found else lines
    text = ' '.join(filter(None, (r.reason, lines[0].strip() if lines else '')))
    return text[:LINE_MAX] or 'it said nothing'


def name_each(failed):
    for r in failed:
        print(f'FAILED: {r.name}: {first_error(r)}')


def main():
    folder = sys.argv[1]
    results = []
    for path in sorted(glob.glob(folder + '/*.tap')):
        results += of_checks(path)
    for path in sorted(glob.glob(folder + '/*.json')):
        results += of_meson(path)
    for r in results:
        if r.outcome == 'skip':
            print(f'skipped: {r.name}: {r.reason}')
    failed = [r for r in results if r.outcome == 'fail']
    show(failed)
    name_each(failed)
    n = {o: sum(r.outcome == o for r in results) for o in ('pass', 'fail', 'skip')}
    # That nothing ran is no success.
    if not results:
        n['fail'] = 1
    print(f'gpuscope: {n["pass"]} passed, {n["fail"]} failed, {n["skip"]} skipped')


if __name__ == '__main__':
    main()
