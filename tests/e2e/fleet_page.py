#!/usr/bin/env python3
"""What a head found of ranks over nodes: metrics, alerts and the page. Two nodes are played by this test."""

import json
import time

from browser import Browser
from fleet_help import JOB, UNTRACED, USUAL, Node, steps_record
from harness import case, main, wait_until
from page_check import check
from page_help import Head

SAID = 'rank 3 of 4 (n2, pid 103) called ncclAllReduce of 64 float32 as collective 2, the others ncclAllReduce of 1024 float32'


@case('a finding over nodes is a metric, an alert and a line of the page, until it is over', timeout=240)
def shown(t):
    head = Head(t)
    nodes = [Node(t, head, 'n1', (0, 1)), Node(t, head, 'n2', (2, 3))]
    calls = {None: USUAL, 3: [USUAL[0], ('ncclAllReduce', 64), USUAL[2]]}
    for n in nodes:
        n.send(calls)
    alerts = lambda: json.loads(head.ask('GET', '/api/v1/alerts')[2])['alerts']  # noqa: E731
    line = '\ngpuscope_head_finding{kind="mismatch",job="' + JOB + '",node="n2",rank="3",communicator="0x0000000000000abc"} 1\n'
    metrics = lambda: head.ask('GET', '/metrics')[2]  # noqa: E731
    wait_until(lambda: line in metrics(), 60, 'the metric')
    t.match('their number', r'\ngpuscope_head_findings 1\n', metrics())
    about = [a for a in alerts() if 'collective' in a['text']]
    t.equal('one alert', [(a['severity'], a['node'], a['text']) for a in about], [('critical', None, f'job {JOB}: {SAID}')])
    t.true('since when', about[0]['since'])
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{head.http}/#/work')
    b.wait('document.body.innerText.includes("as collective 2")', 'the finding')
    cells = '[...document.querySelectorAll("section[aria-label=Findings] tbody td")]'
    row = b.run(f'{cells}.map(e => e.innerText)')
    t.equal('its line', row[:4], ['mismatch', 'holds', JOB, SAID])
    check(t, b, 'jobs')
    b.open(f'http://{head.http}/#/')
    b.wait('document.querySelector("section[aria-label=Alerts]").innerText.includes("as collective 2")', 'the alert')
    b.open(f'http://{head.http}/#/work')
    for n in nodes:
        n.send(calls, UNTRACED)
    b.wait(f'{cells}.length && {cells}[1].innerText == "over"', 'its end')
    t.true('no metric', 'gpuscope_head_finding{' not in metrics())
    t.equal('no alert', [a for a in alerts() if 'collective' in a['text']], [])
    for n in nodes:
        n.end()
    head.stop()


@case('steps of ranks over nodes are on the page and in the API, with the slowest rank of the slowest step, until they end', timeout=240)
def steps_shown(t):
    head = Head(t)
    # The clocks of two nodes that this test plays are not known.
    nodes = [Node(t, head, 'n1', (0, 1, 2, 3))]
    begin_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - 5 * 10**9
    for n in nodes:
        n.send({None: USUAL}, steps=lambda rank: steps_record(rank, begin_ns, 8, 5))
    ask = lambda more='': json.loads(head.ask('GET', '/api/v1/steps' + more)[2])['steps']  # noqa: E731
    wait_until(lambda: ask() and ask()[0]['compared_steps'] == 8, 60, 'steps')
    s = ask()[0]
    t.equal('whose', [s[k] for k in ('job', 'communicator', 'ranks', 'ranks_with_steps', 'unlike_steps')], [JOB, '0x0000000000000abc', 4, 4, 0])
    t.true('spread', abs(s['spread_median_seconds'] - 0.003) < 0.0003, s)
    t.equal('as traces have it', [(r['rank'], r['node'], r['steps'], r['median_seconds']) for r in sorted(s['listed'], key=lambda r: r['rank'])],
            [(k, 'n1', 60 + k, (500 + k) / 1000) for k in range(4)])  # fmt: skip
    longest = s['slowest'][0]
    t.equal('the longest', [longest['collective'], longest['slowest'], longest['rank'], longest['node']], [11, 'rank', 3, 'n1'])
    t.true('by how much', abs(longest['late_seconds'] - 0.04) < 0.001 and longest['clock_error_seconds'] == 0, longest)
    t.equal('the others', {x['slowest'] for x in s['slowest'][1:]}, {'none'})
    t.equal('first', [s['listed'][0]['rank'], s['listed'][0]['slowest_steps']], [3, 1])
    t.equal('so many', [len(x['listed']) for x in ask('?limit=2')], [2])
    t.equal('of another job', ask('?job=4711'), [])
    t.equal('what is no number', head.ask('GET', '/api/v1/steps?limit=0')[0], 400)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{head.http}/#/work')
    b.wait('document.querySelector("section[aria-label=Steps]").innerText.includes("rank 3 (n1)")', 'the steps')
    rows = b.run('[...document.querySelector("section[aria-label=Steps] tbody").rows].map(r => [...r.cells].map(e => e.innerText))')
    t.equal('the slowest first', [rows[0][0], rows[0][1], rows[0][3], rows[0][8]], ['3', 'n1', '63', '1 of 8'])
    check(t, b, 'steps of ranks')
    for n in nodes:
        n.send({None: USUAL}, UNTRACED)
    b.wait('document.querySelector("section[aria-label=Steps]").innerText.includes("No steps.")', 'their end')
    for n in nodes:
        n.end()
    head.stop()


if __name__ == '__main__':
    main()
