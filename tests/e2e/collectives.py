#!/usr/bin/env python3
"""Ranks that arrive late at collectives: which one, how often and by how much, against the clock of the ranks themselves."""

import json
import re

import harness
from harness import Skip, case, main

STEPS = 120
ERROR = 0.06  # of a percentile: GS_HIST_ERROR_PCT
SLOW_US = 15000  # more than a rank waits for a processor on a machine with other work
STANDS_OUT = 5 / 8  # the last at so many collectives of four ranks: src/pipeline/collectives/summary.c


def report_of(t, *words):
    """(the summary, the report as text, the program's own times)."""
    path = t.path('ranks.gst')
    run = t.trace('-o', path, command=[f'{harness.fake}/ranks', *map(str, words)])
    summary = json.loads(t.tool('report', path, '--format', 'json', status=0).out)
    return summary, t.tool('report', path, status=0).out, json.loads(run.out)


def run_ranks(t, ranks, slow, slow_us):
    """(what is said of collectives, the report as text, the program's own times)."""
    summary, text, times = report_of(t, ranks, STEPS, slow, slow_us)
    return summary['collectives'], text, times


def median(values):
    return sorted(values)[len(values) // 2]


def lateness(times, rank):
    """The least and the most that the rank was behind the first one, at each step."""
    before, after = list(zip(*times['before_ns'])), list(zip(*times['after_ns']))
    return [max(0, b[rank] - min(a)) for b, a in zip(before, after)], [max(0, a[rank] - min(b)) for b, a in zip(before, after)]


def times_last(times, rank):
    """How often the rank was the last one for sure, and how often it may have been."""
    sure = may_be = 0
    for before, after in zip(zip(*times['before_ns']), zip(*times['after_ns'])):
        sure += before[rank] > max(a for i, a in enumerate(after) if i != rank)
        may_be += after[rank] > max(b for i, b in enumerate(before) if i != rank)
    return sure, may_be


def check_none_late(t, what, late_rank, times):
    """Of ranks that do the same: none, but one that the machine has made the last nearly that often."""
    steps = list(zip(*times['before_ns']))
    slow = [r for r in range(len(times['pids'])) if sum(b[r] == max(b) for b in steps) >= 0.8 * STANDS_OUT * len(steps)]
    if slow:
        t.note(f'{what}: the machine makes {slow} the last one')
    t.true(f'{what}: no late rank', late_rank is None or late_rank in slow, (late_rank, slow))
    return not slow


def check_lateness(t, comm, times):
    for r in comm['by_rank']:
        least, most = lateness(times, r['rank'])
        t.equal(f'process of rank {r["rank"]}', r['pid'], times['pids'][r['rank']])
        t.true(f'rank {r["rank"]} is as late as by its own clock', median(least) * (1 - ERROR) <= r['late_p50_ns'] <= median(most) * (1 + ERROR) + 1,
               (median(least), r, median(most)))  # fmt: skip
        t.true('at most', max(least) <= r['late_max_ns'] <= max(most), (max(least), r, max(most)))
        t.true('in all', sum(least) <= r['late_ns'] <= sum(most), (sum(least), r, sum(most)))
        sure, may_be = times_last(times, r['rank'])
        t.true('how often it is the last', sure <= r['last'] <= may_be, (sure, r, may_be))


@case('one slow rank of four is named, and how late it is', timeout=120)
def slow_rank(t):
    got, text, times = run_ranks(t, 4, 2, SLOW_US)
    t.equal('calls', (got['calls'], got['matched_calls']), (4 * STEPS, 4 * STEPS))
    t.equal('left out', sum(got['left_out'].values()), 0)
    t.equal('communicators', len(got['communicators']), 1)
    comm = got['communicators'][0]
    t.equal('of it', (comm['ranks'], comm['matched'], comm['late_rank']), (4, STEPS, 2))
    check_lateness(t, comm, times)
    t.equal('each collective has one last rank', sum(r['last'] for r in comm['by_rank']), STEPS)
    late = comm['by_rank'][2]
    t.true('by what it sleeps', late['late_p50_ns'] >= 10e6 and late['last_by_p50_ns'] >= 4e6, late)
    t.true('the report says so', f'rank 2 is last at {100 * late["last"] / STEPS:.1f} % of {STEPS} collectives of 4 ranks, by ' in text, text)


@case('equal ranks: none stands out', timeout=120)
def equal_ranks(t):
    got, text, times = run_ranks(t, 4, -1, 0)
    comm = got['communicators'][0]
    t.equal('all matched', (got['matched_calls'], comm['matched']), (4 * STEPS, STEPS))
    check_lateness(t, comm, times)
    if check_none_late(t, 'equal ranks', comm['late_rank'], times):
        t.true('the report says so', f'no rank stands out as late at {STEPS} collectives of 4 ranks' in text, text)


def row_of(text, title):
    """The cells of a row of the table of ranks; None: there is no such row."""
    return next((line[len(title) + 2 :].split(None, 4) for line in text.splitlines() if line.strip().startswith(title)), None)


@case('ranks that wait for a slow one in the call: the verdict names it, and so does the table of ranks', timeout=120)
def verdict_of_late(t):
    summary, text, times = report_of(t, 4, 4 * STEPS, 2, SLOW_US, 'meet')
    verdict, comm = summary['verdict'], summary['collectives']['communicators'][0]
    late = comm['by_rank'][2]
    if times['pids'][2] == next(x['pid'] for x in summary['account']['threads'] if x['critical']):
        raise Skip('the slow rank sets the pace')
    t.equal('class', verdict['class'], 'communication_bound')
    said = f'rank 2 (process {times["pids"][2]}) arrives last at {100 * late["last"] / comm["matched"]:.0f} % of {4 * STEPS} collectives of'
    t.true('which rank, how often, of which communicator', f'{said} communicator {comm["id"]}, ' in verdict['evidence'], verdict)
    waits = re.search(r'itself it waits for the GPU and in NCCL for (\d+) % only: its thread spent \d+ % asleep', verdict['evidence'])
    t.true('the late one waits for nobody', waits and int(waits[1]) < 10, verdict)
    t.true('what to do', f'rank 2 (process {times["pids"][2]})' in verdict['advice'], verdict)
    row = row_of(text, 'late at collectives')
    t.true('a row of the table of ranks', row and row[3] == '2' and row[4] == '2 (high)', text)
    # A machine with other work makes the others late, too: as late as they say.
    steps = list(zip(*times['before_ns']))
    least = 100 * min(sum(b[r] - min(b) for b in steps) for r in range(4)) / (max(steps[-1]) - min(steps[0]))
    t.true('the others wait for it', row and float(row[2]) >= 40 and float(row[1]) <= 10 + 2 * least, (row, least))
    check_lateness(t, comm, times)
    t.true('in JSON', late['late_ns'] >= 4 * STEPS * 10e6 and late['late_ns'] == max(r['late_ns'] for r in comm['by_rank']), comm)


@case('equal ranks that wait for each other in the call: none is named', timeout=120)
def verdict_of_equal(t):
    summary, text, times = report_of(t, 4, 4 * STEPS, -1, 0, 'meet')
    verdict, comm = summary['verdict'], summary['collectives']['communicators'][0]
    t.equal('matched', comm['matched'], 4 * STEPS)
    if not check_none_late(t, 'equal ranks', comm['late_rank'], times):
        return
    t.true('none is named', 'arrives last' not in verdict['evidence'] + verdict['advice'], verdict)
    row = row_of(text, 'late at collectives')
    t.true('nor in the table of ranks', row is None or row[4] == '-', text)


@case('a communicator of one rank: nobody to compare it with', timeout=120)
def one_rank(t):
    got, text, _ = run_ranks(t, 1, -1, 0)
    t.equal('left out', (got['matched_calls'], got['left_out']['alone'], got['communicators']), (0, STEPS, []))
    t.true('nothing on the screen', 'Arrival of ranks' not in text, text)


@case('calls that are added up: arrivals are known all the same, and the verdict names the late rank', timeout=120)
def added_up(t):
    run = t.trace(command=[f'{harness.fake}/ranks', '4', str(4 * STEPS), '2', str(SLOW_US), 'meet'])
    t.nothing_lost(run)
    got, verdict, times = run.summary['collectives'], run.summary['verdict'], json.loads(run.out)
    comm = got['communicators'][0]
    t.equal('all matched', (got['calls'], got['matched_calls'], comm['late_rank']), (16 * STEPS, 16 * STEPS, 2))
    check_lateness(t, comm, times)
    t.equal('calls are counted once', sum(f['calls'] for f in run.summary['functions'] if f['name'] == 'ncclAllReduce'), 16 * STEPS)
    t.true('the verdict', verdict['class'] != 'communication_bound' or f'rank 2 (process {times["pids"][2]}) arrives last' in verdict['evidence'], verdict)
    run = t.trace(command=[f'{harness.fake}/ranks', '4', str(STEPS), '-1', '0'])
    (comm,) = run.summary['collectives']['communicators']
    check_none_late(t, 'equal ranks', comm['late_rank'], json.loads(run.out))


@case('calls that were not recorded break the order', timeout=120)
def too_short(t):
    path = t.path('short.gst')
    t.trace('--min-duration', '1s', '-o', path, command=[f'{harness.fake}/ranks', '2', '20', '-1', '0'])
    got = json.loads(t.tool('report', path, '--format', 'json', status=0).out)['collectives']
    t.equal('none is matched', got['matched_calls'], 0)


if __name__ == '__main__':
    main()
