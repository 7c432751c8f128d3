#!/usr/bin/env python3
"""The dashboard of clusters for Grafana: each query, asked of a real Prometheus that scrapes what agents and heads served and
makes the recording rules of it, and the answers compared with that."""

import os
import re
import shutil
import subprocess

import harness
import yaml
from agent_help import Agent, Prometheus, config_text, free_port
from grafana_help import FOLDER, Answers, Frozen, board_of, compare_answer, panels, parse_scrape
from harness import Live, Skip, case, main, read_text, wait_until

GPUS = 3
NODES = {'node-1': 'alpha', 'node-2': 'alpha', 'node-3': 'beta'}


def recorded(rule, series, counters, slope):
    """What a rule of packaging/deployment/rules/recording.yml makes of a scrape."""
    expr = rule['expr']

    def values(name):
        return {tuple(labels[k] for k in ('cluster', 'instance', 'uuid')): (labels['cluster'], v) for n, labels, v in series if n == name}

    if 'bool' in expr:  # held idle: of these two alone the interpreter knows nothing
        busy, held = values('gpuscope_gpu_utilization_ratio'), values('gpuscope_gpu_processes')
        assert expr == ('sum by (cluster) ((gpuscope_gpu_utilization_ratio < bool 0.01) * on (cluster, instance, uuid) '
                        '(gpuscope_gpu_processes > bool 0))'), expr  # fmt: skip
        answer = {}
        for key, (cluster, v) in busy.items():
            at = (('cluster', cluster),)
            answer[at] = answer.get(at, 0) + (v < 0.01 and held[key][1] > 0)
        return answer
    if expr.startswith('quantile'):
        assert expr == 'quantile by (cluster) (0.1, gpuscope_gpu_utilization_ratio)', expr
        groups = {}
        for cluster, v in values('gpuscope_gpu_utilization_ratio').values():
            groups.setdefault(cluster, []).append(v)
        answer = {}
        for cluster, v in groups.items():
            v, rank = sorted(v), 0.1 * (len(v) - 1)
            low = int(rank)
            answer[('cluster', cluster),] = v[low] + (v[min(low + 1, len(v) - 1)] - v[low]) * (rank - low)
        return answer
    return Answers(series, counters, slope * 10 if 'increase' in expr else slope, 0).ask(expr)


@case('Prometheus: each query of the dashboard of clusters, over its recording rules', timeout=120, needs=None)
def clusters(t):
    for program in ('prometheus', 'curl'):
        if not shutil.which(program):
            raise Skip(f'{program} is not installed')
    head = Live(t, lambda _: [harness.gpuscope, 'head', '--data', t.path('head'), '--listen', '127.0.0.1:0', '--http-port', str(free_port())], env=t.envs())
    head.wait_err(r'page and API on \S+', 60)
    url = re.search(r'page and API on (http://[^/\s]+)', head.err_text()).group(1)
    push = f'push:\n  remote_write: {{url: "http://127.0.0.1:{free_port()}/w", interval: 1s}}\n'
    a = Agent(t, config_text(more=push), what=f'gpus={GPUS},xid=0:79:1')
    a.wait_metric('gpuscope_agent_push_waiting_samples{protocol="remote_write"}', lambda v: v and v > 100, 60)
    wait_until(lambda: 'gpuscope_gpu_xid_errors_total{' in a.get()[2].decode(), 60, 'the XID')
    texts = {'gpuscope': a.get(headers={'Accept': 'text/plain'})[2].decode()}
    a.stop()
    texts['head'] = subprocess.run(['curl', '-s', f'{url}/metrics'], capture_output=True, text=True, check=True).stdout
    head.interrupt()
    head.finish()
    slope, series, counters, targets = 0.25, [], set(), []
    for node, cluster in NODES.items():
        for job, text in texts.items():
            labels = {'instance': node, 'cluster': cluster}
            targets.append({'targets': [Frozen(text, slope).target], 'labels': labels})
            more_series, more_counters = parse_scrape(text, job='gpuscope', **labels)
            series += more_series
            counters |= more_counters
    text = re.sub(r'interval: \w+', 'interval: 1s', read_text(os.path.join(FOLDER, '../deployment/rules/recording.yml')))
    text = text.replace('[5m]', '[10s]').replace('[1h]', '[10s]')
    with open(t.path('recording.yml'), 'w') as f:
        f.write(text)
    p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': targets}, rule_files=[t.path('recording.yml')])
    for group in yaml.safe_load(text)['groups']:
        for rule in group['rules']:
            answer = recorded(rule, series, counters, slope)
            t.true(f'{rule["record"]} says something', answer)
            # The rest of a rule's answer, such as that of a rate, is as good as its input.
            series += [(rule['record'], dict(labels), v) for labels, v in answer.items()]
    p.wait_scrapes(12)
    asked = 0
    for panel in panels(board_of('gpuscope-clusters.json')):
        for target in panel['targets']:
            asked += 1
            query = target['expr'].replace('$cluster', '.*').replace('$__rate_interval', '10s')
            loose = bool(re.search(r':(rate5m|increase1h)\b', query))
            compare_answer(t, p, series, counters, slope, query, f'clusters: {panel["title"]}', loose)
    t.equal('queries', asked, 22)


if __name__ == '__main__':
    main()
