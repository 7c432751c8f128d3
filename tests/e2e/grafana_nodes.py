#!/usr/bin/env python3
"""Dashboards of nodes for Grafana: each query, asked of a real Prometheus that scrapes what an agent and node_exporter served,
and the answers compared with that."""

import os
import re
import shutil
import subprocess

from agent_help import Agent, Prometheus, config_text, free_port
from grafana_help import Frozen, board_of, compare_answer, panels, parse_scrape
from harness import Skip, case, main, wait_until

BOARDS, GPUS = ('gpuscope.json', 'gpuscope-node.json'), 3


def scrape_node(t):
    port = free_port()
    log = open(t.path('node_exporter.log'), 'wb')
    proc = subprocess.Popen(['prometheus-node-exporter', f'--web.listen-address=127.0.0.1:{port}'], stdout=log, stderr=log)

    def text():
        done = subprocess.run(['curl', '-s', f'http://127.0.0.1:{port}/metrics'], capture_output=True, text=True)
        return done.stdout if 'node_cpu_seconds_total' in done.stdout else ''

    wait_until(text, 60, 'node_exporter')
    got = text()
    proc.terminate()
    proc.wait(20)
    return got


@case('Prometheus: each query of each dashboard of nodes, beside the scrape that it comes from', timeout=120, needs=None)
def prometheus(t):
    for program in ('prometheus', 'prometheus-node-exporter', 'curl'):
        if not shutil.which(program):
            raise Skip(f'{program} is not installed')
    # Traffic is that of the scrapes; it needs root, and has no series without.
    a = Agent(t, config_text(more='traffic:\n  enabled: true\n'), what=f'gpus={GPUS},board=h100,xid=0:79:1')
    wait_until(lambda: 'gpuscope_gpu_sm_active_ratio' in a.get()[2].decode() and 'xid_errors' in a.get()[2].decode(), 60, 'all groups of values')
    agent_text = a.get(headers={'Accept': 'text/plain'})[2].decode()
    a.stop()
    t.true('traffic is in it', os.geteuid() != 0 or 'gpuscope_traffic_response_seconds_bucket{' in agent_text)
    node_text = scrape_node(t)
    slope = 0.25
    frozen = {'gpuscope': Frozen(agent_text, slope), 'node': Frozen(node_text, slope)}
    p = Prometheus(t, {'job_name': 'gpuscope', 'honor_timestamps': False,
                       'static_configs': [{'targets': [f.target], 'labels': {'instance': 'node-1'}} for f in frozen.values()]})  # fmt: skip
    p.wait_scrapes(12)
    series, counters = [], set()
    for text in (agent_text, node_text):
        more_series, more_counters = parse_scrape(text, instance='node-1', job='gpuscope')
        series += more_series
        counters |= more_counters
    asked = 0
    for name in BOARDS:
        board = board_of(name)
        for variable in board['templating']['list'][1:]:
            label = re.search(r'label_values\((\w+)(\{.*\})?, (\w+)\)', variable['definition'])
            got = {r['metric'].get(label.group(3)) for r in p.query(label.group(1))}
            wanted = {labels.get(label.group(3)) for n, labels, _ in series if n == label.group(1)}
            t.equal(f'{name}: variable {variable["name"]}', got, wanted)
        for panel in panels(board):
            for target in panel['targets']:
                asked += 1
                query = re.sub(r'\$(cluster|node|gpu|host)\b', '.*', target['expr']).replace('$__rate_interval', '10s')
                t.true(f'no variable is left: {query}', '$' not in query)
                compare_answer(t, p, series, counters, slope, query, f'{name}: {panel["title"]}')
    t.equal('queries', asked, 48 + 22)


if __name__ == '__main__':
    main()
