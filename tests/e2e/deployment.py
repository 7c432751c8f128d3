#!/usr/bin/env python3
"""The example files of a deployment (packaging/deployment, doc/deployment.md), as they are: real Prometheus,
VictoriaMetrics, vmauth, vmagent, vmalert and Alertmanager, agents on a stand-in of the driver's library, heads.

All of it lives in a network namespace of its own, where every port is free and /etc/hosts has the names that the
files use; a node is a host name and a machine id of its own. Of the files only folders, `*` as address (several
"machines" share this one) and intervals are replaced."""

import ctypes
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import harness
from agent_help import library, parse
from harness import Skip, case, main, read_text, wait_until

PACKAGING = os.path.join(harness.HERE, '../../packaging')
HERE = os.path.join(PACKAGING, 'deployment')
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
HOSTS = {'localhost': '127.0.0.1', 'metrics.example': '127.0.0.1', 'alertmanager.example': '127.0.0.1', 'pager.example': '127.0.0.1',
         'n001.example': '127.0.1.1', 'n002.example': '127.0.1.2', 'n003': '127.0.1.3', 'n004': '127.0.1.4',
         'head1.example': '127.0.2.1', 'head2.example': '127.0.2.2'}  # fmt: skip
GPUS = 8
TOKENS = {'push-token': 'push-0123456789', 'head-token': 'node-0123456789', 'scrape-token': 'scrape-0123456789',
          'head-read-token': 'read-0123456789', 'rule-token': 'rule-0123456789', 'control-token': 'ctrl-0123456789',
          'query-token': 'query-0123456789'}  # fmt: skip


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Skip(f'{p} is not installed')


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, mode)
    return path


class Site:
    """The files, with this test's folders in them."""

    def __init__(self, t):
        self.t, self.etc = t, t.path('etc')
        for name, token in TOKENS.items():
            write(t.path('etc', name), token + '\n', 0o600)
        self.folders = {'/etc/gpuscope/': self.etc + '/', '/run/credentials/gpuscope-agent.service/': self.etc + '/',
                        '/run/credentials/gpuscope-head.service/': self.etc + '/'}  # fmt: skip

    def file(self, name, replace=None):
        text = read_text(os.path.join(HERE, name))
        for old, new in {**self.folders, **(replace or {})}.items():
            text = text.replace(old, new)
        return text

    def put(self, name, replace=None, mode=0o644):
        return write(self.t.path('site', name), self.file(name, replace), mode)

    def certificates(self):
        need('openssl')

        def openssl(*words):
            subprocess.run(['openssl', *words], check=True, capture_output=True, cwd=self.etc)

        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'ca.key', '-out', 'ca.pem',
                '-days', '2', '-subj', '/CN=site')  # fmt: skip
        write(os.path.join(self.etc, 'san'), 'subjectAltName=' + ','.join('DNS:' + n for n in HOSTS) + '\n')
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key', '-out', 'csr', '-subj', '/CN=site')
        openssl('x509', '-req', '-in', 'csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-out', 'cert',
                '-extfile', 'san')  # fmt: skip
        for name in ('agent', 'head'):
            shutil.copy(os.path.join(self.etc, 'cert'), os.path.join(self.etc, name + '.pem'))
            write(os.path.join(self.etc, name + '-key'), read_text(os.path.join(self.etc, 'key')), 0o600)


def own_world(t):
    """This process and what it starts see another network and other names of hosts."""
    if os.geteuid() != 0:
        raise Skip('needs root: network namespaces')
    need('ip', 'mount', 'unshare')
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise Skip(f'no namespaces: {os.strerror(ctypes.get_errno())}')
    hosts = write(t.path('hosts'), ''.join(f'{a} {n}\n' for n, a in HOSTS.items()))
    for words in (['mount', '--make-rprivate', '/'], ['mount', '--bind', hosts, '/etc/hosts'], ['ip', 'link', 'set', 'lo', 'up']):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skip(f'{" ".join(words)}: {done.stderr.strip()}')


class Daemon:
    def __init__(self, t, name, words, env=None):
        self.name, self.words, self.env = name, words, t.envs(env)
        self.log = t.path(name + '.log')
        self.start()

    def start(self):
        with open(self.log, 'ab') as f:
            self.proc = subprocess.Popen(self.words, stdout=f, stderr=f, env=self.env)

    def alive(self):
        assert self.proc.poll() is None, f'{self.name} ended with {self.proc.returncode}: {read_text(self.log)[-2000:]}'
        return True

    def stop(self, number=signal.SIGTERM, seconds=60):
        self.proc.send_signal(number)
        return self.proc.wait(seconds)


class Web:
    """Answers of the site's servers, with its authority and a token."""

    def __init__(self, site):
        self.context = ssl.create_default_context(cafile=os.path.join(site.etc, 'ca.pem'))

    def get(self, url, token=None):
        request = urllib.request.Request(url)
        if token:
            request.add_header('Authorization', 'Bearer ' + TOKENS[token])
        with urllib.request.urlopen(request, timeout=300, context=self.context) as f:
            return f.read().decode()

    def answers(self, url, token=None):
        try:
            self.get(url, token)
            return True
        except (OSError, http.client.HTTPException):
            return False

    def ask(self, base, query, token=None, at=None):
        """[(labels, value)]"""
        words = {'query': query, **({'time': at} if at else {})}
        got = json.loads(self.get(f'{base}/api/v1/query?{urllib.parse.urlencode(words)}', token))
        return [(r['metric'], float(r['value'][1])) for r in got['data']['result']]


class Pager:
    def __init__(self):
        pager, self.got = self, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                pager.got.append(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
                self.send_response(200)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 80), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def alerts(self):
        return {(a['labels']['alertname'], a['labels'].get('cluster'), a['labels'].get('instance'), a['labels'].get('gpu'))
                for m in self.got for a in m['alerts'] if a['status'] == 'firing'}  # fmt: skip


class Node:
    """An agent on a machine of its own name."""

    def __init__(self, t, site, name, conf, address, replace=None):
        self.t, self.name = t, name
        self.what = t.path(name + '.nvml')
        self.pretend(f'gpus={GPUS},board=h100')
        state = t.path('state', name)
        os.makedirs(state)  # as systemd does
        text = site.file(conf, {'*:14780': f'{address}:14780', '127.0.0.1:14780': f'{address}:14780', '/var/lib/gpuscope-agent': state,
                                'interval: 15s': 'interval: 1s', **(replace or {})})  # fmt: skip
        # What is no part of a site's file: where the stand-in is, and that this is no machine with a control socket.
        text += f'gpu:\n  library: {library()}\ncontrol:\n  path: ""\n'
        self.conf = write(t.path('site', name + '.yaml'), text)
        machine = write(t.path(name + '.id'), f'{int.from_bytes(name.encode(), "big"):032x}\n')
        shell = 'hostname "$1" && mount --bind "$2" /etc/machine-id && exec "$3" agent -c "$4"'
        words = ['unshare', '--uts', '--mount', 'sh', '-c', shell, 'sh', name, machine, harness.gpuscope, self.conf]
        if not os.path.exists('/etc/machine-id'):
            raise Skip('this machine has no /etc/machine-id')
        self.daemon = Daemon(t, name, words, env={'FAKE_NVML_FILE': self.what})
        self.url = f'http{"s" if "tls_cert" in text else ""}://{name + ".example" if conf == "agent-scrape.yaml" else name}:14780'
        self.token = 'scrape-token' if conf == 'agent-scrape.yaml' else None

    def pretend(self, what):
        write(self.what + '.new', what)
        os.rename(self.what + '.new', self.what)

    def metrics(self, web):
        self.daemon.alive()
        return parse(web.get(self.url + '/metrics', self.token))


PUSHED = 'gpuscope_agent_push_samples_total{protocol="remote_write"}'
WAITING = 'gpuscope_agent_push_waiting_samples{protocol="remote_write"}'
ENGINE = 'https://metrics.example:8427'
FAST = {'15s': '1s', '30s': '1s', '5m\n': '1s\n'}


class Deployment:
    """Everything of doc/deployment.md at once: two nodes that push, two that are scraped, two heads. alerts: also
    what evaluates rules in the engine and sends alerts, which costs the most."""

    def __init__(self, t, alerts=True):
        need('prometheus', 'prometheus-alertmanager', 'victoria-metrics', 'vmauth', 'vmalert')
        self.t, self.site = t, Site(t)
        self.site.certificates()
        own_world(t)
        self.web, self.pager = Web(self.site), Pager()
        self.start_engine()
        self.start_heads()
        self.nodes = {
            'n001': Node(t, self.site, 'n001', 'agent-scrape.yaml', '127.0.1.1'),
            'n002': Node(t, self.site, 'n002', 'agent-scrape.yaml', '127.0.1.2'),
            'n003': Node(t, self.site, 'n003', 'agent-push.yaml', '127.0.1.3'),
            'n004': Node(t, self.site, 'n004', 'agent-push.yaml', '127.0.1.4'),
        }
        self.daemons = [self.vm, self.vmauth, *[n.daemon for n in self.nodes.values()]]
        self.put_rules()
        if alerts:
            self.start_alertmanager()
        self.start_prometheus()
        if alerts:
            self.start_rules()

    def start_engine(self):
        t, site = self.t, self.site
        # Visible at once, for a test; and what is sent twice counts once.
        self.vm = Daemon(t, 'vm', ['victoria-metrics', f'-storageDataPath={t.path("vm")}', '-httpListenAddr=127.0.0.1:8428',
                                   '-search.latencyOffset=0s', '-dedup.minScrapeInterval=1ms', '-retentionPeriod=1d',
                                   '-search.disableCache'])  # fmt: skip
        conf = site.put('vmauth.yml', {'replace-by-the-token-of-nodes': TOKENS['push-token'],
                                       'replace-by-the-token-of-readers': TOKENS['query-token'],
                                       'replace-by-the-token-of-rules': TOKENS['rule-token']}, 0o600)  # fmt: skip
        self.vmauth = Daemon(t, 'vmauth', ['vmauth', f'-auth.config={conf}', '-tls', f'-tlsCertFile={site.etc}/cert', f'-tlsKeyFile={site.etc}/key'])
        self.ready(self.vm, 'http://127.0.0.1:8428/health')
        wait_until(lambda: self.vmauth.alive() and self.web.answers(f'{ENGINE}/api/v1/labels', 'query-token'), 60, 'vmauth')

    def start_heads(self):
        t, site = self.t, self.site
        write(t.path('etc', 'head-tokens'), f'node {TOKENS["head-token"]}\nread {TOKENS["head-read-token"]}\ncontrol {TOKENS["control-token"]}\n', 0o600)
        self.heads = {}
        for n in (1, 2):
            conf = write(t.path('site', f'head{n}.yaml'), site.file('head.yaml', {'"*': f'"127.0.2.{n}'}))
            self.heads[n] = Daemon(t, f'head{n}', [harness.gpuscope, 'head', '-c', conf, '--data', t.path(f'head{n}')])
        for n in (1, 2):
            self.ready(self.heads[n], f'https://head{n}.example:8091/metrics', 'head-read-token')

    def put_rules(self):
        t = self.t
        shutil.copytree(os.path.join(HERE, 'rules'), t.path('site/rules'))
        shutil.copy(os.path.join(PACKAGING, 'prometheus/alerts.yml'), t.path('site/rules/alerts.yml'))
        for path in os.listdir(t.path('site/rules')):
            text = read_text(t.path('site/rules', path)).replace('interval: 30s', 'interval: 1s')
            write(t.path('site/rules', path), text)

    def start_alertmanager(self):
        t = self.t
        self.site.put('alertmanager.yml', FAST)
        self.am = Daemon(t, 'alertmanager', ['prometheus-alertmanager', f'--config.file={t.path("site/alertmanager.yml")}',
                                             f'--storage.path={t.path("am")}', '--cluster.listen-address='])  # fmt: skip
        self.daemons.append(self.am)
        self.ready(self.am, 'http://127.0.0.1:9093/-/ready')

    def start_prometheus(self):
        t, site = self.t, self.site
        for name in ('agents', 'heads'):
            site.put(f'targets/{name}.json')
        # Numbers in columns are texts of the file; nothing else is.
        site.put('prometheus.yml', FAST)
        self.prom = Daemon(t, 'prometheus', ['prometheus', f'--config.file={t.path("site/prometheus.yml")}',
                                             f'--storage.tsdb.path={t.path("tsdb")}'])  # fmt: skip
        self.daemons.append(self.prom)
        self.ready(self.prom, 'http://127.0.0.1:9090/-/ready')

    def start_rules(self):
        t, site = self.t, self.site
        self.vmalert = Daemon(t, 'vmalert', [
            'vmalert', f'-rule={t.path("site/rules")}/*.yml', f'-datasource.url={ENGINE}', f'-datasource.bearerTokenFile={site.etc}/rule-token',
            f'-datasource.tlsCAFile={site.etc}/ca.pem', f'-remoteWrite.url={ENGINE}', f'-remoteWrite.bearerTokenFile={site.etc}/rule-token',
            f'-remoteWrite.tlsCAFile={site.etc}/ca.pem', f'-remoteRead.url={ENGINE}', f'-remoteRead.bearerTokenFile={site.etc}/rule-token',
            f'-remoteRead.tlsCAFile={site.etc}/ca.pem', '-notifier.url=http://alertmanager.example:9093', '-evaluationInterval=1s',
            '-remoteWrite.flushInterval=500ms'])  # fmt: skip
        self.daemons.append(self.vmalert)
        self.ready(self.vmalert, 'http://127.0.0.1:8880/health')

    def ready(self, daemon, url, token=None):
        wait_until(lambda: daemon.alive() and self.web.answers(url, token), 120, f'{daemon.name} to answer')

    def engine(self, query, at=None):
        return self.web.ask(ENGINE, query, 'query-token', at)

    def prometheus(self, query, at=None):
        return self.web.ask('http://127.0.0.1:9090', query, at=at)

    def alive(self):
        """What has ended by itself is told, with its last words."""
        return all(d.alive() for d in self.daemons)

    def until(self, condition, what, seconds=120):
        wait_until(lambda: self.alive() and condition(), seconds, what)

    def exported(self, instance):
        """{time: samples of all series of a node} of the engine, and the values of two counters at these times."""
        self.web.get('http://127.0.0.1:8428/internal/force_flush')
        match = urllib.parse.urlencode({'match[]': f'{{__name__=~"gpuscope_.+",instance="{instance}"}}'})
        n, taken, waiting = {}, {}, {}
        for line in self.web.get(f'http://127.0.0.1:8428/api/v1/export?{match}').splitlines():
            series = json.loads(line)
            for at in series['timestamps']:
                n[at] = n.get(at, 0) + 1
            for name, values in (('samples_total', taken), ('waiting_samples', waiting)):
                if series['metric']['__name__'] == 'gpuscope_agent_push_' + name:
                    values.update(zip(series['timestamps'], series['values']))
        return n, taken, waiting

    def compare(self, instance, since):
        """Each text that is pushed tells how many samples were taken before it: at one for which nothing waited, so
        many must stand in the engine before it. (samples told, samples there), None: no such text after `since`."""
        n, taken, waiting = self.exported(instance)
        times = [at for at, v in waiting.items() if v == 0 and at > since * 1000]
        if not times:
            return None
        return taken[max(times)], sum(k for at, k in n.items() if at < max(times))


def bad_rules(d):
    """Of vmalert, by their last round; those that had none, too."""
    groups = json.loads(d.web.get('http://127.0.0.1:8880/api/v1/rules'))['data']['groups']
    rules = [r for g in groups for r in g['rules']]
    assert rules
    return [(r['name'], r.get('lastError')) for r in rules if r.get('lastError') or r['health'] == 'err' or r['lastEvaluation'] < '0002']


@case('a cluster by the example files: targets, rules, alerts, dashboards, heads', timeout=900, needs=None)
def whole(t):
    d = Deployment(t)
    # --- scraped, and handed on ---

    def targets():
        found = json.loads(d.web.get('http://127.0.0.1:9090/api/v1/targets'))['data']['activeTargets']
        return {(x['labels']['job'], x['labels']['instance'], x['labels']['cluster'], x['health']) for x in found}

    wanted = {('gpuscope', 'n001', 'alpha', 'up'), ('gpuscope', 'n002', 'alpha', 'up'), ('gpuscope-head', 'head1', 'alpha', 'up'),
              ('gpuscope-head', 'head2', 'alpha', 'up')}  # fmt: skip
    d.until(lambda: targets() == wanted, 'every target up')
    d.until(lambda: {x[0]['instance'] for x in d.engine('gpuscope_agent_build_info{cluster="alpha"}')} == set(d.nodes), 'four nodes in the engine')
    # What is asked for at one moment may lack a scrape or a push that came too late.
    d.until(lambda: [(m['job'], m['partition']) for m, _ in d.engine('gpuscope_agent_build_info{instance="n003"}')] == [('gpuscope', 'gpu')],
            'labels of a node that pushes')  # fmt: skip
    t.equal('no label of the pair', d.engine('{replica!=""}'), [])
    t.equal('what is not kept', d.engine('gpuscope_gpu_values_timestamp_seconds{instance="n001"}'), [])

    # --- tokens ---

    for token, path, status in ((None, '/api/v1/query?query=1', 401), ('push-token', '/api/v1/query?query=1', 400),
                                ('query-token', '/api/v1/write', 400)):  # fmt: skip
        try:
            d.web.get(ENGINE + path, token)
            t.fail(f'{token} may {path}')
        except urllib.error.HTTPError as e:
            t.true(f'{token} may not {path}', e.code in (status, 401, 403), e.code)

    # --- rules, where everything is ---

    for name, value in (('cluster:gpuscope_nodes:count', 4), ('cluster:gpuscope_gpus:count', 4 * GPUS), ('cluster:gpuscope_gpus_lost:sum', 0)):
        d.until(lambda n=name, v=value: [x[1] for x in d.engine(f'{n}{{cluster="alpha"}}')] == [v], f'{name} {value}')
    records = re.findall(r'record: (\S+)', read_text(os.path.join(HERE, 'rules/recording.yml')))
    t.true('rules', len(records) > 10, records)
    d.nodes['n002'].pretend(f'gpus={GPUS},board=h100,xid=5:79:1')
    d.nodes['n003'].pretend(f'gpus={GPUS},board=h100,xid=3:79:1')
    for r in records:
        d.until(lambda r=r: d.engine(r + '{cluster="alpha"}'), f'a value of {r}')
    d.until(lambda: {m['instance']: v for m, v in d.engine('cluster_instance:gpuscope_gpus:count')} == {n: GPUS for n in d.nodes}, 'GPUs of each node')

    # --- one alert by Prometheus, of what it scrapes, and one by vmalert, of what is pushed ---

    def bad_of_prometheus():
        loaded = json.loads(d.web.get('http://127.0.0.1:9090/api/v1/rules'))['data']['groups']
        return [(r['name'], r['lastError']) for g in loaded for r in g['rules'] if r.get('health') == 'err']

    d.until(lambda: not bad_of_prometheus(), 'a round of the rules of Prometheus without an error')
    d.until(lambda: {('GpuXidError', 'alpha', 'n002', '5'), ('GpuXidError', 'alpha', 'n003', '3')} <= d.pager.alerts(), 'two alerts on the pager')
    # A node that had no processor for a while misses samples, and says so.
    told = {a[0] for a in d.pager.alerts()}
    missed = any(float(v) for _, v in d.engine('gpuscope_head_samples_lost_total'))
    t.equal('and no other', told - ({'GpuscopeHeadLosesSamples'} if missed else set()), {'GpuXidError'})
    # A single question may come too late on a busy machine; a rule that is wrong fails each time.
    d.until(lambda: not bad_rules(d), 'a round of the rules of vmalert without an error')

    # --- dashboards, from the engine ---

    for file in ('gpuscope.json', 'gpuscope-clusters.json'):
        with open(os.path.join(PACKAGING, 'grafana', file)) as f:
            board = json.load(f)
        queries = [(panel['title'], x['expr']) for panel in board['panels'] for x in panel.get('targets', [])]
        for title, query in queries:
            query = re.sub(r'\$(cluster|node|gpu)\b', '.*', query).replace('$__rate_interval', '1m')
            t.true(f'no variable is left: {title}', '$' not in query, query)
            d.until(lambda q=query: d.engine(q), f'{file}: {title}: {query}')

    # --- heads: sessions, and the next one when one is away ---

    def healthy(n):
        return parse(d.web.get(f'https://head{n}.example:8091/metrics', 'head-read-token'))['gpuscope_head_nodes_healthy']

    d.until(lambda: healthy(1) == 4, 'four nodes at the first head')

    def session(*words, status=0):
        """As a person at the head calls it."""
        return t.tool('session', *words, '--head', 'head1.example:8090', '--ca', os.path.join(d.site.etc, 'ca.pem'), '--token-file',
                      os.path.join(d.site.etc, 'control-token'), status=status)  # fmt: skip

    session('start', 'run1')

    def samples():
        listed = json.loads(d.web.get('https://head1.example:8091/api/v1/sessions/run1', 'head-read-token'))
        return listed.get('n_samples', listed.get('samples', 0))

    d.until(lambda: samples() > 20, 'samples in the session')
    session('stop', 'run1')
    out = t.path('run1.json')
    session('export', 'run1', '--output', out)
    with open(out) as f:
        clients = json.load(f)['summary_by_client']
    t.equal('nodes in the session', len(clients), 4)
    t.equal('head1 ends', d.heads[1].stop(), 0)
    d.until(lambda: healthy(2) == 4, 'four nodes at the second head')
    d.until(lambda: [m['instance'] for m, _ in d.prometheus('up{job="gpuscope-head"} == 0')] == ['head1'], 'Prometheus sees that')
    t.equal('agents that are told to end', {n: x.daemon.stop() for n, x in d.nodes.items()}, dict.fromkeys(d.nodes, 0))


@case('an engine that is away: filled up from the nodes and Prometheus, to the sample', timeout=900, needs=None)
def backfill(t):
    d = Deployment(t, alerts=False)
    pushers = ('n003', 'n004')
    for n in pushers:
        d.until(lambda n=n: d.nodes[n].metrics(d.web)[PUSHED] > 0, f'{n} pushes')
    d.until(lambda: len(d.engine('up{job="gpuscope"}')) == 2, 'what Prometheus hands on')
    t.equal('the engine ends', d.vm.stop(), 0)
    down = time.time()
    # Several turns of each wait, on disk.
    for n in pushers:
        wait_until(lambda n=n: d.nodes[n].metrics(d.web)[WAITING] > 8000, 240, f'{n} keeps what is not taken')
        t.true('a spool', sum(os.path.getsize(os.path.join(p, f)) for p, _, names in os.walk(t.path('state', n, 'push')) for f in names) > 4096)
    scraped = 'gpuscope_agent_start_time_seconds{instance="n001"}'
    n0 = d.prometheus(f'count_over_time({scraped}[1h])')[0][1]
    wait_until(lambda: d.prometheus(f'count_over_time({scraped}[1h])')[0][1] > n0 + 5, 120, 'scrapes meanwhile')
    d.vm.start()
    d.ready(d.vm, 'http://127.0.0.1:8428/health')
    up = time.time()
    for n in pushers:
        d.until(lambda n=n: d.compare(n, up), f'{n}: everything that waited is delivered', 240)
        told, there = d.compare(n, up)
        t.equal(f'{n}: samples taken, and in the engine', told, there)
        m = d.nodes[n].metrics(d.web)
        t.equal('lost, rejected', [v for k, v in m.items() if re.search('push_(lost|rejected)', k)], [0.0, 0.0])
        # Of the time without the engine.
        got = d.engine(f'count_over_time(gpuscope_agent_start_time_seconds{{instance="{n}"}}[{int(up - down) or 1}s])', at=up)
        t.true(f'{n}: samples of that time', got and got[0][1] >= 3, got)
        t.note(f'{n}: {told:.0f} samples in all, {got[0][1] if got else 0:.0f} turns in {up - down:.0f} s without the engine')
    # Prometheus read it all the time; the engine has as many of it, at one and the same time.
    def equal():
        mine, theirs = d.prometheus(f'count_over_time({scraped}[1h])', at=up), d.engine(f'count_over_time({scraped}[1h])', at=up)
        return mine and theirs and mine[0][1] == theirs[0][1]

    d.until(equal, 'as many scrapes in the engine as in Prometheus', 240)


@case('vmagent: scrapes, takes pushes, drops what is not kept, keeps for an engine that is away', timeout=600, needs=None)
def vmagent(t):
    need('vmagent', 'victoria-metrics')
    site = Site(t)
    site.certificates()
    own_world(t)
    web = Web(site)
    for name in ('agents', 'heads'):
        site.put(f'targets/{name}.json')
    conf, relabel = site.put('vmagent.yml', {'15s': '1s'}), site.put('relabel.yml')
    vm = Daemon(t, 'vm', ['victoria-metrics', f'-storageDataPath={t.path("vm")}', '-httpListenAddr=127.0.0.1:8428', '-search.latencyOffset=0s'])
    agent = Daemon(t, 'vmagent', ['vmagent', f'-promscrape.config={conf}', '-remoteWrite.url=http://127.0.0.1:8428/api/v1/write',
                                  f'-remoteWrite.relabelConfig={relabel}', f'-remoteWrite.tmpDataPath={t.path("vmagent")}'])  # fmt: skip
    nodes = [Node(t, site, f'n00{i}', 'agent-scrape.yaml', f'127.0.1.{i}') for i in (1, 2)]
    nodes.append(Node(t, site, 'n003', 'agent-push.yaml', '127.0.1.3', {'https://metrics.example:8427/': 'http://127.0.0.1:8429/'}))

    def engine(query):
        assert vm.alive() and agent.alive() and all(n.daemon.alive() for n in nodes)
        try:
            return web.ask('http://127.0.0.1:8428', query)
        except OSError:
            return []

    wanted = {('n001', 'alpha'), ('n002', 'alpha'), ('n003', 'alpha')}
    wait_until(lambda: {(m['instance'], m['cluster']) for m, _ in engine('gpuscope_agent_build_info')} == wanted, 120, 'three nodes')
    t.equal('dropped', engine('{__name__=~"gpuscope_(gpu_values_timestamp|agent_driver_call|agent_values).*"}'), [])
    wait_until(lambda: {m['instance']: v for m, v in engine('up{job="gpuscope"}')} == {'n001': 1, 'n002': 1}, 60, 'up')
    served = {re.match(r'[^{]+', k).group(0) for k in nodes[2].metrics(web)}
    t.true('which are served', {'gpuscope_gpu_values_timestamp_seconds', 'gpuscope_agent_values_reads_total'} <= served)
    t.equal('the engine ends', vm.stop(), 0)
    n = nodes[2].metrics(web)[PUSHED]
    wait_until(lambda: nodes[2].metrics(web)[PUSHED] > n + 4000, 120, 'pushes that vmagent takes meanwhile')
    vm.start()
    wait_until(lambda: [v for m, v in engine('gpuscope_agent_push_samples_total{instance="n003"}') if v > n + 2000], 120, 'they are delivered')


@case('the files are right by the programs that read them', timeout=120, needs=None)
def files(t):
    need('promtool', 'amtool', 'vmagent', 'vmalert')
    site = Site(t)
    site.certificates()
    shutil.copytree(os.path.join(HERE, 'rules'), t.path('site/rules'))
    shutil.copy(os.path.join(PACKAGING, 'prometheus/alerts.yml'), t.path('site/rules/alerts.yml'))
    for name in ('prometheus.yml', 'vmagent.yml', 'relabel.yml', 'alertmanager.yml', 'targets/agents.json', 'targets/heads.json', 'vmauth.yml'):
        site.put(name)
    site.put('agent-push.yaml')
    site.put('head.yaml')
    write(os.path.join(site.etc, 'head-tokens'), 'node ' + TOKENS['head-token'] + '\n', 0o600)
    site.put('agent-scrape.yaml')
    shutil.copy(os.path.join(harness.HERE, 'deployment_test.yml'), t.path('site/deployment_test.yml'))
    shutil.copy(os.path.join(site.etc, 'cert'), os.path.join(site.etc, 'agent.crt'))
    for words in (['promtool', 'check', 'config', 'prometheus.yml'], ['promtool', 'test', 'rules', 'deployment_test.yml'],
                  ['amtool', 'check-config', 'alertmanager.yml'], ['vmalert', '-dryRun', '-rule=rules/*.yml'],
                  ['vmagent', '-promscrape.config=vmagent.yml', '-promscrape.config.dryRun', '-dryRun', '-remoteWrite.url=http://127.0.0.1:1/',
                   '-remoteWrite.relabelConfig=relabel.yml'],
                  [harness.gpuscope, 'head', '--check-config', '-c', 'head.yaml'],
                  [harness.gpuscope, 'agent', '--check-config', '-c', 'agent-push.yaml'],
                  [harness.gpuscope, 'agent', '--check-config', '-c', 'agent-scrape.yaml']):  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, cwd=t.path('site'), timeout=60, check=False)
        t.equal(' '.join(words[:4]), (done.returncode, (done.stdout + done.stderr)[-500:] if done.returncode else ''), (0, ''))
    # Of the manifest: what the agent reads in it, and every key, by the types of Kubernetes.
    try:
        import yaml
    except ImportError as e:
        raise Skip('python3-yaml is not installed: the manifest was not looked at') from e
    config, daemon = yaml.safe_load_all(read_text(os.path.join(HERE, 'kubernetes/daemonset.yaml')))
    text = config['data']['agent.yaml']
    for old, new in {'/run/secrets/gpuscope/': site.etc + '/'}.items():
        text = text.replace(old, new)
    run = t.tool('agent', '--check-config', '-c', write(t.path('site/pod.yaml'), text))
    t.equal(f'configuration of the pod: {run.err}', run.status, 0)
    pod = daemon['spec']['template']['spec']
    mounts = {m['name'] for m in pod['containers'][0]['volumeMounts']}
    t.equal('each volume is mounted', mounts, {v['name'] for v in pod['volumes']})
    for folder in re.findall(r': (/\S+)', config['data']['agent.yaml']):
        t.true(f'{folder} is mounted', any(folder.startswith(m['mountPath']) for m in pod['containers'][0]['volumeMounts']))


def missing_keys(given, known, at=''):
    if isinstance(given, dict):
        for k, v in given.items():
            if not isinstance(known, dict) or k not in known:
                yield f'{at}.{k}'
            else:
                yield from missing_keys(v, known[k], f'{at}.{k}')
    elif isinstance(given, list):
        for i, v in enumerate(given):
            yield from missing_keys(v, known[i] if isinstance(known, list) and i < len(known) else None, f'{at}[{i}]')


@case('the manifest of Kubernetes has no key that its types do not have', timeout=60, needs=None)
def manifest(t):
    need('kubectl')
    try:
        import yaml
    except ImportError as e:
        raise Skip('python3-yaml is not installed') from e
    _, daemon = yaml.safe_load_all(read_text(os.path.join(HERE, 'kubernetes/daemonset.yaml')))

    def through(manifest):
        """As kubectl understands it: keys that it does not know are gone."""
        path = write(t.path('daemon.json'), json.dumps(manifest))
        done = subprocess.run(['kubectl', 'set', 'env', '--local', '-f', path, '-o', 'json', 'A=B'], capture_output=True, text=True, timeout=30,
                              env=t.envs({'KUBECONFIG': '/dev/null'}), check=False)  # fmt: skip
        return json.loads(done.stdout) if done.returncode == 0 else None

    if not through(daemon):
        raise Skip('this kubectl reads no manifests without a cluster')
    t.equal('unknown keys', list(missing_keys(daemon, through(daemon))), [])
    daemon['spec']['template']['spec']['hostPid'] = True
    t.equal('a wrong one is found', list(missing_keys(daemon, through(daemon))), ['.spec.template.spec.hostPid'])


@case('rollout.sh: one node first, then many, and no further when one fails', timeout=60, needs=None)
def rollout(t):
    tree, log = t.path('tree'), t.path('log')
    write(os.path.join(tree, 'usr/bin/gpuscope'), f'#!/bin/sh\nexec {harness.gpuscope} "$@"\n', 0o755)
    write(os.path.join(tree, 'etc/gpuscope/agent.yaml'), 'sampling:\n  interval: 1s\n')
    # Stands in for ssh: what came, from whom; n3's agent does not start. It ends when $STARTED of them have begun.
    ssh = write(t.path('ssh'), f'''#!/bin/sh
node=$1
n=$(tar -t | grep -c gpuscope)
echo "start $node $n" >>{log}
for i in $(seq 600); do
	[ $(grep -c start {log}) -lt ${{STARTED:-1}} ] || break
	[ "$node" != n1 ] || break
	sleep 0.1
done
echo "end $node" >>{log}
case $2 in *"systemctl restart gpuscope-agent"*) ;; *) exit 9 ;; esac
[ "$node" != n3 ] || {{ echo "agent: port in use" >&2; exit 1; }}
''', 0o755)  # fmt: skip

    def run(*nodes, **env):
        if os.path.exists(log):
            os.unlink(log)
        done = subprocess.run([os.path.join(HERE, 'rollout.sh'), tree, *nodes], capture_output=True, text=True, timeout=50,
                              env=t.envs({'RUN_SSH': ssh, **env}), check=False)  # fmt: skip
        return done, read_text(log).splitlines() if os.path.exists(log) else []

    done, lines = run('n1', 'n2', 'n4', 'n5', AT_ONCE='3', STARTED='4')
    t.equal('all done', (done.returncode, done.stdout.splitlines()[-1]), (0, 'rollout: 4 nodes, 0 failed'))
    t.equal('the first one alone', lines[:2], ['start n1 3', 'end n1'])
    t.equal('then at once', sorted(lines[2:5]), ['start n2 3', 'start n4 3', 'start n5 3'])
    done, lines = run('n1', 'n2', 'n3', 'n4', 'n5', AT_ONCE='2')
    t.equal('stopped', done.returncode, 1)
    t.match('why', r'n3 FAILED: agent: port in use', done.stdout)
    t.match('what is left', r'1 failed; 2 nodes were left as they are', done.stderr)
    t.equal('not touched', [x for x in lines if 'n4' in x or 'n5' in x], [])
    done, lines = run('n1', 'n2', 'n3', 'n4', 'n5', AT_ONCE='2', MAX_FAILED='1')
    t.equal('one may fail', (done.returncode, done.stdout.splitlines()[-1]), (0, 'rollout: 5 nodes, 1 failed'))
    for nodes in (('-oProxyCommand=x',), ('../x',)):
        done, lines = run(*nodes)
        t.equal('no name', (done.returncode, lines), (2, []))


if __name__ == '__main__':
    main()
