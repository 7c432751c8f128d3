#!/usr/bin/env python3
"""Dashboards for Grafana, what it is provisioned with, and the compose file; each query of those for MySQL, asked of a real
MariaDB that has real data of an agent, and the answers compared with where they come from."""

import os
import re
import shutil
import subprocess
import time

import yaml
from agent_help import Agent, config_text
from grafana_help import FOLDER, board_of, expand_sql, kind_of, panels, parse_scrape
from harness import case, main, read_text, wait_until
from mysql_help import STORED, MariaDB

MYSQL = ('eacgm-mysql.json', 'gpuscope-mysql.json')
PROMETHEUS = ('gpuscope.json', 'gpuscope-node.json')
GPUS = 3
# Words that MySQL 8 and 9 reserve and MariaDB does not, but for functions of windows.
RESERVED = 'cube empty function generated get groups lateral library manual of optimizer_costs parallel qualify rank row_number stored system tablesample virtual'.split()


@case('dashboards are whole: panels, places, data sources', needs=None)
def whole(t):
    uids = []
    for name in sorted(x for x in os.listdir(FOLDER) if x.endswith('.json')):
        board = board_of(name)
        uids.append(board['uid'])
        ids = [p['id'] for p in board['panels']]
        t.equal(f'{name}: ids', len(set(ids)), len(ids))
        places = set()
        for p in board['panels']:
            g = p['gridPos']
            cells = {(x, y) for x in range(g['x'], g['x'] + g['w']) for y in range(g['y'], g['y'] + g['h'])}
            t.true(f'{name}: {p["title"]} has a place of its own', not places & cells and g['x'] + g['w'] <= 24)
            places |= cells
        for p in panels(board):
            sources = [p['datasource'], *(x['datasource'] for x in p['targets'])]
            t.true(f'{name}: data source of {p["title"]}', all(s == {'type': kind_of(board), 'uid': '${datasource}'} for s in sources))
            t.true(f'{name}: {p["title"]} asks', p['targets'] and p['title'])
    t.equal('one uid each', len(set(uids)), len(uids))
    board = board_of('eacgm-mysql.json')
    t.equal("eACGM's panels", [(p['type'], p['title']) for p in panels(board)],
            [('gauge', 'Gauge'), ('timeseries', 'CPU usage'), ('timeseries', 'Memory Usage'), ('timeseries', 'Disk IO'),
             ('timeseries', 'Network traffic'), ('timeseries', 'GPU load'), ('timeseries', 'GPU memory'), ('stat', 'ollama requests and tokens'),
             ('barchart', 'Traffic with ip addresses'), ('state-timeline', 'CudaEvent')])  # fmt: skip
    t.equal('uid and pace', (board['uid'], board['refresh'], board['schemaVersion']), ('eds0ik162c8hsd', '10s', 39))


# What has no "?" in @grafana/schema 11.6 (VizLegendOptions, VizTooltipOptions, ReduceDataOptions). A dashboard of version 37 or later is
# not completed by Grafana's migrations, which for older ones set showLegend.
REQUIRED = {'legend': {'calcs', 'displayMode', 'placement', 'showLegend'}, 'tooltip': {'mode', 'sort'}, 'reduceOptions': {'calcs'}}


@case("options of panels are complete, as Grafana's schema wants them", needs=None)
def options(t):
    seen = set()
    for name in (*MYSQL, *PROMETHEUS):
        board = board_of(name)
        t.true(f'{name}: not migrated', board['schemaVersion'] >= 37)
        for p in panels(board):
            for key in REQUIRED.keys() & p.get('options', {}).keys():
                t.equal(f'{name}: {key} of {p["title"]} lacks', sorted(REQUIRED[key] - p['options'][key].keys()), [])
                seen.add(key)
    t.equal('kinds seen', seen, REQUIRED.keys())


@case("queries fit MySQL, too: its reserved words are in backticks", needs=None)
def reserved_words(t):
    for name in MYSQL:
        board = board_of(name)
        for sql in [x['rawSql'] for p in panels(board) for x in p['targets']] + [v['query'] for v in board['templating']['list'][1:]]:
            words = re.findall(r'\b[a-z_]+\b(?!\()', re.sub(r"'[^']*'|`[^`]*`", '', sql).lower())
            t.equal(f'{name}: {sql}', [w for w in words if w in RESERVED], [])


@case('what Grafana is provisioned with fits the dashboards', needs=None)
def provisioning(t):
    def read(*path):
        return yaml.safe_load(read_text(os.path.join(FOLDER, 'provisioning', *path)))

    sources = [s for name in ('prometheus.yaml', 'mysql.yaml') for s in read('datasources', name)['datasources']]
    t.equal('of a type that a dashboard wants', {kind_of(board_of(x)) for x in (*MYSQL, *PROMETHEUS)}, {s['type'] for s in sources})
    t.equal('as the agent writes', [sources[1][k] for k in ('type', 'user')] + [sources[1]['jsonData'][k] for k in ('database', 'timezone')],
            ['mysql', 'grafana', 'gpuscope', '+00:00'])  # fmt: skip
    t.match('a password out of a file', r'^\$__file\{/', sources[1]['secureJsonData']['password'])
    t.equal('providers', [p['type'] for p in read('dashboards', 'gpuscope.yaml')['providers']], ['file'])


@case('the compose file: its files are there and valid, nothing listens beyond this machine', needs=None)
def compose(t):
    folder = os.path.join(FOLDER, '../compose')
    whole = yaml.safe_load(read_text(os.path.join(folder, 'compose.yaml')))
    services = whole['services']
    t.equal('services', sorted(services), ['agent', 'grafana', 'node-exporter', 'prometheus'])
    shown = set()
    for name, s in services.items():
        t.true(f'{name} has a version', re.search(r':v?\d+\.\d+\.\d+$', s['image']), s['image'])
        t.true(f'{name} publishes nothing and has no rights of its own', 'ports' not in s and 'privileged' not in s and s['cap_drop'] == ['ALL'])
        for volume in s['volumes']:
            source, target = volume.split(':')[:2]
            if source.startswith('.'):
                t.true(f'{source} is there', os.path.exists(os.path.join(folder, source)))
                shown |= {os.path.basename(source)} if target.startswith('/etc/grafana/dashboards') else set()
            elif not source.startswith('/'):
                t.true(f'volume {source}', source in whole['volumes'])
    t.equal('dashboards', shown, set(PROMETHEUS))
    addresses = [*services['prometheus']['command'], *services['node-exporter']['command'], services['grafana']['environment']['GF_SERVER_HTTP_ADDR']]
    t.equal('on this machine', [x for x in addresses if re.search('address|^[0-9]', x) and '127.0.0.1' not in x], [])
    t.true('no default password', 'GF_SECURITY_ADMIN_PASSWORD__FILE' in services['grafana']['environment']
           and not os.path.exists(os.path.join(folder, whole['secrets']['admin-password']['file'])))  # fmt: skip
    t.tool('agent', '--check-config', '-c', os.path.join(folder, 'agent.yaml'), status=0)
    if shutil.which('docker-compose'):  # what it makes of the file needs no containers
        done = subprocess.run(['docker-compose', '-f', os.path.join(folder, 'compose.yaml'), 'config'], capture_output=True, text=True)
        t.equal(f'docker-compose ({done.stderr[-300:]})', done.returncode, 0)
        read = yaml.safe_load(done.stdout)['services'] if done.returncode == 0 else {}
        t.equal('as Compose reads it', {name: (s['image'], s.get('command'), sorted(s.get('cap_add', []))) for name, s in read.items()},
                {name: (s['image'], s.get('command'), sorted(s.get('cap_add', []))) for name, s in services.items()})  # fmt: skip
    else:
        t.note('no docker-compose here')
    if shutil.which('promtool'):
        for source in ('compose/prometheus.yml', 'prometheus/alerts.yml'):
            shutil.copy(os.path.join(FOLDER, '..', source), t.path())
        done = subprocess.run(['promtool', 'check', 'config', t.path('prometheus.yml')], capture_output=True, text=True)
        t.equal(f'promtool ({done.stdout[-300:]}{done.stderr[-300:]})', done.returncode, 0)


# --- SQL ---


def recompute(sql, rows, interval_s):
    """The answer of a time series out of all rows of its table."""
    select, table = re.match(r'SELECT (.*) FROM (\w+) WHERE', sql).groups()
    time_column = re.search(r'timeGroupAlias\((\w+)', sql).group(1)
    columns = re.findall(r'(AVG|MAX|MIN)\((\w+)\) AS `([^`]+)`', select)
    groups = {}
    for row in rows[table]:
        metric = f'{row["node"]} GPU {row["gpu"]}' if 'CONCAT' in select else row['node'] if 'AS metric' in select else None
        groups.setdefault((int(row[time_column]) // interval_s * interval_s, metric), []).append(row)
    how = {'AVG': lambda x: sum(x) / len(x), 'MAX': max, 'MIN': min}
    answer = []
    for (at, metric), members in sorted(groups.items(), key=lambda kv: (kv[0][0], kv[0][1] or '')):
        row = {'time': at} if metric is None else {'time': at, 'metric': metric}
        for function, column, name in columns:
            known = [float(m[column]) for m in members if m[column] is not None]
            row[name] = how[function](known) if known else None
        answer.append(row)
    return answer


def same_rows(got, wanted):
    """False: not the same, but for the last digits."""

    def same(a, b):
        if a is None or b is None or isinstance(b, str):
            return a == b
        return abs(float(a) - b) <= 1e-6 * max(1, abs(b))

    got = sorted(got, key=lambda r: (float(r['time']), r.get('metric', '')))
    return len(got) == len(wanted) and all(set(a) == set(b) and all(same(a[k], b[k]) for k in b) for a, b in zip(got, wanted))


def read_table(db, table, time_column):
    more = ', node' if time_column == 'TIME' else ''
    return db.records(f"SELECT *{more}, UNIX_TIMESTAMP(`{time_column}`) AS `{time_column}_s` FROM {table}")


def eacgm_data(db):
    """As eACGM's own collectors write them (E-17, E-19)."""
    db.ask("""INSERT INTO ollamanet VALUES (UTC_TIMESTAMP() - INTERVAL 2 SECOND, 1.5, 20), (UTC_TIMESTAMP() - INTERVAL 1 SECOND, 2.5, 40);
              INSERT INTO ipport VALUES ('10.0.0.1.5000', 7), ('10.0.0.2.6000', 12);
              INSERT INTO CudaEvent VALUES (1.0, 'cudaMalloc', NULL, NULL), (1.5, 'cudaMalloc', 'cudaMemcpy', NULL), (2.0, NULL, NULL, NULL)""")


@case('MySQL: each query of each dashboard, beside the rows and the scrape that they come from', timeout=90, needs=None)
def mysql(t):
    db = MariaDB(t)
    eacgm_data(db)
    jobs = 'jobs:\n  pods: false\n  probes: false\n  controller: false\n  interval: 500ms\n'
    subprocess.Popen(['sleep', '1000'], env={'SLURM_JOB_ID': '4242'})
    a = Agent(t, config_text(more=db.config() + jobs), what=f'gpus={GPUS},util=70,memory=40000')
    began = time.time()
    wait_until(lambda: a.metrics().get(STORED, 0) >= 5 and db.number("SELECT COUNT(DISTINCT time) FROM job_sample WHERE job LIKE '4242%'") >= 2, 60, 'samples')
    scrape, counters = parse_scrape(a.get()[2].decode())
    a.stop()
    rows = {name: read_table(db, name, at) for name, at in (('node_sample', 'time'), ('gpu_sample', 'time'), ('job_sample', 'time'),
            ('gpu_process_sample', 'time'), ('gauge', 'TIME'), ('memory', 'TIME'), ('gpumem', 'TIME'), ('diskio', 'TIME'), ('netio', 'TIME'))}  # fmt: skip
    for name, table in rows.items():
        for row in table:
            key = 'TIME' if 'TIME' in row else 'time'
            row[key] = float(row.pop(key + '_s'))
    # The rows have what the agent served: values that stay, as the stand-in of the driver has them.
    served = {(n, labels['gpu'], *sorted(v for k, v in labels.items() if k in ('kind', 'sensor', 'limit', 'domain'))): v
              for n, labels, v in scrape if n.startswith('gpuscope_gpu_') and 'gpu' in labels and 'link' not in labels}  # fmt: skip
    for column, name in (('utilization_ratio', ('gpu_utilization_ratio',)), ('memory_used_bytes', ('gpu_memory_used_bytes',)),
                         ('memory_total_bytes', ('gpu_memory_total_bytes',)), ('power_watts', ('gpu_power_watts', 'average')),
                         ('power_limit_watts', ('gpu_power_limit_watts', 'enforced')), ('temperature_celsius', ('gpu_temperature_celsius', 'gpu')),
                         ('sm_clock_hertz', ('gpu_clock_hertz', 'sm')), ('memory_clock_hertz', ('gpu_clock_hertz', 'memory'))):  # fmt: skip
        for gpu in range(GPUS):
            wanted = served['gpuscope_' + name[0], str(gpu), *name[1:]]
            t.equal(f'{column} of {gpu}', {float(r[column]) for r in rows['gpu_sample'] if r['gpu'] == str(gpu)}, {wanted})
    memory = int(re.search(r'MemTotal: +(\d+)', read_text('/proc/meminfo')).group(1)) * 1024
    t.equal('memory of the machine', {float(r['memory_total_bytes']) for r in rows['node_sample']}, {float(memory)})
    check_boards(t, db, rows, int(began) - 5, int(time.time()) + 5)


def check_boards(t, db, rows, begin, end):
    def newest(table, time_column='time'):
        last = max(r[time_column] for r in rows[table])
        return [r for r in rows[table] if r[time_column] == last]

    energy = sum(max(0, float(b['energy_joules']) - float(a['energy_joules'])) for i in range(GPUS)
                 for own in [[r for r in rows['gpu_sample'] if r['gpu'] == str(i)]] for a, b in zip(own, own[1:]))  # fmt: skip
    idle = [float(r['gpus_idle']) for r in newest('job_sample') if r['gpus_idle'] is not None]
    # eACGM's times are whole seconds: two samples can share the newest, and MySQL may give either.
    last_gauges = [tuple(round(float(x), 6) for x in (r['cpu'], r['mem'], 100 * float(r['gpu_load']), 100 * float(r['gpu_mem'])))
                   for r in newest('gauge', 'TIME')]  # fmt: skip
    single = {'GPUs': GPUS, 'Mean utilisation': 0.7, 'Memory used': 40000 / 81920, 'Power now': sum(float(r['power_watts']) for r in newest('gpu_sample')),
              'Energy': energy / 3.6e6, 'Idle GPUs that jobs hold': sum(idle) if idle else None, 'Samples lost': 0,
              'Uncorrected memory errors': sum(float(r['ecc_uncorrected_errors']) for r in newest('gpu_sample'))}  # fmt: skip
    tables = {'GPU inventory': GPUS, 'Jobs, as they were last': len(newest('job_sample')), 'Agents': 1,
              'Processes on GPUs, as they were last': len(newest('gpu_process_sample'))}  # fmt: skip
    asked = 0
    for name in MYSQL:
        board = board_of(name)
        chosen = {'node': ['node-1'], 'gpu': [str(i) for i in range(GPUS)]}
        for variable in board['templating']['list'][1:]:
            got = sorted(next(iter(r.values())) for r in db.records(expand_sql(variable['query'], begin, end, 2, **chosen), user='grafana'))
            t.equal(f'{name}: variable {variable["name"]}', got, chosen[variable['name']])
        for p in panels(board):
            for target in p['targets']:
                sql = expand_sql(target['rawSql'], begin, end, 2, **chosen)
                t.true(f'no variable is left: {sql}', '$' not in sql)
                got, title = db.records(sql, user='grafana'), p['title']
                asked += 1
                if title in single and p['type'] in ('stat', 'gauge'):
                    value = next(iter(got[0].values()))
                    wanted = single[title]
                    t.true(f'{title}: {value}, not {wanted}', len(got) == 1 and (value is None if wanted is None else abs(float(value) - wanted) < 1e-6 * max(1, wanted)))
                elif title in tables:
                    t.equal(f'rows of {title}', len(got), tables[title])
                elif title == 'Gauge':
                    shown = tuple(round(float(x), 6) for x in got[0].values())
                    t.true(f'{title}: {shown}, none of {last_gauges}', len(got) == 1 and shown in last_gauges)
                elif title == 'ollama requests and tokens':
                    t.equal(title, [(r['requests/s'], r['tokens/s']) for r in got], [('1.5', '20'), ('2.5', '40')])
                elif title == 'Traffic with ip addresses':
                    t.equal(title, [tuple(r.values()) for r in got], [('10.0.0.2.6000', '12'), ('10.0.0.1.5000', '7')])
                elif title == 'CudaEvent':
                    t.equal(title, [r['event1'] for r in got], ['cudaMalloc', 'cudaMalloc', None])
                elif title.endswith('by user'):
                    total = sum(float(r['cpu_ratio'] or 0) for r in rows['job_sample'])
                    t.true(f'{title} has users and times', got and all(r['metric'] and r['time'] for r in got) and total >= 0)
                else:
                    t.true(f'{name}: {title}: {got[:2]}, not {recompute(target["rawSql"], rows, 2)[:2]}', got and same_rows(got, recompute(target['rawSql'], rows, 2)))
    t.equal('queries', asked, 10 + 28)


if __name__ == '__main__':
    main()
