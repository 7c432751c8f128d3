#!/usr/bin/env python3
"""Adds up the results in a folder: *.junit.xml of meson (a TAP case counts as one) and *.tap. Says
why something was skipped or what failed, then one line of totals.

usage: totals.py FOLDER
"""

import glob
import re
import sys
import xml.etree.ElementTree as ElementTree


def of_junit(path):
    """(name, 'pass' | 'fail' | 'skip', reason) of each case."""
    run = path.rsplit('/', 1)[-1].removesuffix('.junit.xml')
    for suite in ElementTree.parse(path).iter('testsuite'):
        cases = list(suite.iter('testcase'))
        # A program that ended badly without a failed case is one failure.
        if suite.find('system-err') is not None and not cases:
            yield f'{run}: {suite.get("name")}', 'fail', 'ended badly'
        tap = re.findall(r'(?m)^ok \d+ - (.*?) # SKIP (.*)$', suite.findtext('system-out') or '')
        reasons = dict(tap)
        for case in cases:
            name = case.get('name')
            what = f'{run}: {suite.get("name")}: {name}'
            skipped = case.find('skipped')
            if case.find('failure') is not None or case.find('error') is not None:
                node = case.find('failure') if case.find('failure') is not None else case.find('error')
                yield what, 'fail', node.get('message') or ''
            elif skipped is not None:
                yield what, 'skip', reasons.get(name) or skipped.get('message') or 'no reason given'
            else:
                yield what, 'pass', ''


def of_tap(path):
    with open(path, encoding='utf-8') as f:
        for line in f:
            m = re.match(r'(not )?ok - (.*?)(?: # SKIP (.*))?$', line.rstrip())
            if m:
                yield m[2], 'fail' if m[1] else 'skip' if m[3] else 'pass', m[3] or ''


def main():
    folder = sys.argv[1]
    results = []
    for path in sorted(glob.glob(folder + '/*.tap')):
        results += of_tap(path)
    for path in sorted(glob.glob(folder + '/*.junit.xml')):
        results += of_junit(path)
    for name, outcome, reason in results:
        if outcome == 'skip':
            print(f'skipped: {name}: {reason}')
    for name, outcome, reason in results:
        if outcome == 'fail':
            print(f'FAILED: {name} {reason}'.rstrip())
    n = {o: sum(r[1] == o for r in results) for o in ('pass', 'fail', 'skip')}
    # That nothing ran is no success.
    if not results:
        n['fail'] = 1
    print(f'gpuscope: {n["pass"]} passed, {n["fail"]} failed, {n["skip"]} skipped')


if __name__ == '__main__':
    main()
