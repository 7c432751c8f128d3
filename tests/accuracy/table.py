"""A table of figures: what gpuscope reports, what an independent source says of the same run, and how far apart they are."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))

import harness  # noqa: E402
from harness import Skip, Test  # noqa: E402, F401

layers = []


def layer(title, quick=False, needs='bpf', timeout=180):
    """A function that measures one run and adds rows; quick: also in the small set."""

    def add(function):
        layers.append((title, quick, needs, timeout, function))
        return function

    return add


def number(value):
    """Whole numbers in full, others to four digits."""
    if value is None:
        return 'none'
    if isinstance(value, float) and value != int(value):
        return f'{value:.4g}' if abs(value) < 10000 else f'{value:,.0f}'
    return f'{int(value):,}'


class Measure(Test):
    """A run of its own folder; each figure becomes a row."""

    def __init__(self, tmp):
        super().__init__(tmp)
        self.rows = []

    def figure(self, name, got, source, wanted, allowed=0, because='exact', unit=''):
        """got: gpuscope's; wanted: the source's; allowed: absolute difference; because: why there may be one."""
        known = got is not None and wanted is not None
        good = known and abs(got - wanted) <= allowed
        self.rows.append({'figure': name, 'got': got, 'source': source, 'wanted': wanted, 'allowed': allowed,
                          'because': because, 'unit': unit, 'ok': good})  # fmt: skip

    def text(self, name, got, source, wanted):
        """What is no number has to be the same."""
        self.rows.append({'figure': name, 'got': str(got), 'source': source, 'wanted': str(wanted), 'allowed': 0,
                          'because': 'exact', 'unit': '', 'ok': str(got) == str(wanted)})  # fmt: skip


def difference(row):
    got, wanted = row['got'], row['wanted']
    if isinstance(got, str) or got is None or wanted is None:
        return '' if row['ok'] else 'differs'
    if got == wanted:
        return '0'
    share = f' ({100 * (got - wanted) / wanted:+.2g} %)' if wanted else ''
    return ('+' if got > wanted else '-') + number(abs(got - wanted)) + share


def shown(row, key):
    value = row[key]
    return value if isinstance(value, str) else (number(value) + (' ' + row['unit'] if row['unit'] else ''))


def allowance(row):
    if not row['allowed']:
        return row['because']
    return f'{number(row["allowed"])}: {row["because"]}'


def perform(title, seconds, function):
    """The rows of one layer, its failures and why it was skipped; each in its own process and folder."""

    def case(t):
        m = Measure(t.tmp)
        try:
            function(m)
        finally:  # what was measured before it failed stays
            t.failures += m.failures
            t.note(json.dumps(m.rows))

    began = time.monotonic()
    result = harness.perform(title, seconds, case)
    rows = [row for note in result['notes'] for row in json.loads(note)]
    return rows, result['failures'], result['skip'], time.monotonic() - began


HEAD = ('figure', 'gpuscope', 'source', 'difference', 'allowed', '')


def cells(row):
    return (row['figure'], shown(row, 'got'), f'{row["source"]}: {shown(row, "wanted")}', difference(row), allowance(row),
            'ok' if row['ok'] else '**NOT**')  # fmt: skip


def print_rows(title, rows, failures, skip, seconds):
    """To the terminal, as soon as they are known."""
    print(f'\n{title} ({seconds:.0f} s)')
    for row in rows:
        figure, got, source, diff, allowed, word = cells(row)
        print(f'  {word.strip("*"):3} {figure:44} {got:>18}  {source:52} {diff:>16}  {allowed}')
    for text in failures:
        print(f'  NOT {text}')
    if skip:
        print(f'  SKIP {skip}')
    sys.stdout.flush()


def escaped(text):
    return text.replace('|', '\\|')


def markdown(results):
    lines = []
    for title, rows, failures, skip, _ in results:
        lines += ['', f'## {title}', '']
        if rows:
            lines += ['| ' + ' | '.join(HEAD) + ' |', '|---|--:|---|--:|---|---|']
            lines += ['| ' + ' | '.join(map(escaped, cells(row))) + ' |' for row in rows]
        lines += [f'\nNOT: {escaped(text.splitlines()[-1])}' for text in failures]
        if skip:
            lines += [f'\nSKIP: {skip}.']
    return '\n'.join(lines) + '\n'
