"""An agent of the end-to-end tests: started on a free port with a stand-in of the driver's library."""

import http.client
import json
import os
import re
import signal
import subprocess
import urllib.parse

import harness
from harness import free_port, read_text, wait_until


def library(old=False):
    return os.path.join(harness.fake, 'nvml_old' if old else '', 'libnvidia-ml.so.1')


def config_text(listen='127.0.0.1:0', lib=None, more='', control=''):
    """Everything is read every time, however slow the machine is, unless `more` says otherwise."""
    if 'sampling:\n' not in more:
        more += 'sampling:\n  budget: 0\n'
    elif 'budget' not in more:
        more = more.replace('sampling:\n', 'sampling:\n  budget: 0\n')
    return f'gpu:\n  library: {lib or library()}\nhttp:\n  listen: "{listen}"\n{more}control:\n  path: "{control}"\n'


class Agent:
    """t: the test; text: the configuration; what: what the stand-in pretends (FAKE_NVML);
        before: words in front."""

    def __init__(self, t, text=None, what='gpus=8', args=(), env=None, before=()):
        t.n_files += 1
        self.t, self.conf, self.err = t, t.path(f'agent{t.n_files}.yaml'), t.path(f'agent{t.n_files}.err')
        self.what = t.path(f'agent{t.n_files}.nvml')
        self.pretend(what)
        self.write(text if text is not None else config_text())
        with open(self.err, 'wb') as f:
            self.proc = subprocess.Popen([*before, harness.gpuscope, 'agent', '-c', self.conf, *args], stdout=f, stderr=f,
                                         env={**t.envs(env), 'FAKE_NVML_FILE': self.what})  # fmt: skip
        self.pid = self.proc.pid
        self.wait_err(r'served at \S+/metrics')
        found = re.search(r'served at (https?)://([^/]+)/metrics', self.err_text())
        self.scheme, self.address = found.group(1), found.group(2)

    def pretend(self, what):
        with open(self.what + '.new', 'w') as f:
            f.write(what)
        os.rename(self.what + '.new', self.what)

    def write(self, text):
        with open(self.conf, 'w') as f:
            f.write(text)

    def err_text(self):
        return read_text(self.err)

    def wait_err(self, pattern, seconds=20):
        def seen():
            if re.search(pattern, self.err_text()):
                return True
            assert self.proc.poll() is None, f'ended with {self.proc.returncode}: {self.err_text()}'
            return False

        wait_until(seen, seconds, f'{pattern!r} on standard error')

    def get(self, path='/metrics', headers=None, method='GET', body=None):
        """(status, headers, body as bytes) over plain HTTP."""
        c = http.client.HTTPConnection(self.address, timeout=300)
        try:
            c.request(method, path, headers=headers or {}, body=body)
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()
        finally:
            c.close()

    def metrics(self, headers=None):
        status, _, body = self.get(headers=headers)
        assert status == 200, status
        return parse(body.decode())

    def wait_metric(self, key, wanted, seconds=20):
        wait_until(lambda: wanted(self.metrics().get(key)), seconds, key)

    def signal(self, number):
        self.proc.send_signal(number)

    def stop(self, status=0):
        self.signal(signal.SIGTERM)
        self.t.equal(f'exit status after SIGTERM ({self.err_text()[-300:]})', self.proc.wait(30), status)


def parse(text):
    """{'name{label="a",...}': value} as they stand there; a line given twice is an error."""
    found = {}
    for line in text.splitlines():
        if line.startswith('#') or not line:
            continue
        key, value = re.match(r'^([^ {]+(?:\{.*\})?) (\S+)', line).groups()
        assert key not in found, f'twice: {key}'
        found[key] = float(value)
    return found


def gpu_labels(i, more=''):
    return f'{{gpu="{i}",uuid="GPU-{i:08x}-1111-2222-3333-444455556666",pci_bus_id="00000000:{0x10 + i:02X}:00.0"{more}}}'


class Prometheus:
    """A real one, scraping each second; ask() is PromQL, answers {label: value}. Questions are of the time of the last scrape
    that was answered: on a busy machine one may take longer than its second, and then nothing is known of now."""

    def __init__(self, t, scrape, rules=(), **more):
        """scrape: how the targets are found; rules: files; more: other keys of its configuration."""
        self.t, port = t, free_port()
        conf = t.path('prometheus.yml')
        with open(conf, 'w') as f:
            json.dump({'global': {'scrape_interval': '1s', 'scrape_timeout': '1s', 'evaluation_interval': '1s'},
                       'scrape_configs': [scrape], 'rule_files': list(rules), **more}, f)  # fmt: skip
        self.log = open(t.path('prometheus.log'), 'wb')
        self.address = f'127.0.0.1:{port}'
        self.proc = subprocess.Popen(['prometheus', f'--config.file={conf}', f'--storage.tsdb.path={t.path("tsdb")}',
                                      f'--web.listen-address={self.address}'],
                                     stdout=self.log, stderr=self.log)  # fmt: skip
        wait_until(self.ready, 60, 'Prometheus')

    def fetch(self, path):
        c = http.client.HTTPConnection(self.address, timeout=300)
        try:
            c.request('GET', path)
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def ready(self):
        assert self.proc.poll() is None, read_text(self.t.path('prometheus.log'))[-1000:]
        try:
            return self.fetch('/-/ready')[0] == 200
        except OSError:
            return False

    def query_now(self, query, at=None):
        """The rows of the answer."""
        words = {'query': query, **({'time': f'{at:.3f}'} if at else {})}
        status, body = self.fetch('/api/v1/query?' + urllib.parse.urlencode(words))
        answer = json.loads(body)
        assert status == 200 and answer['status'] == 'success', (query, body)
        return answer['data']['result']

    def query(self, query):
        answered = [at for row in self.query_now('up[1h]') for at, value in row['values'] if value == '1']
        return self.query_now(query, max(answered, default=None))

    def ask(self, query, label='gpu'):
        return {r['metric'].get(label, ''): float(r['value'][1]) for r in self.query(query)}

    def targets(self):
        return json.loads(self.fetch('/api/v1/targets')[1])['data']['activeTargets']

    def wait_scrapes(self, n):
        """Until so many more were answered, the last one too."""

        def scrapes():
            return max(self.ask('sum_over_time(up[1h])', 'job').values(), default=0)

        before = scrapes()
        wait_until(lambda: scrapes() >= before + n, 60, 'scrapes')
        wait_until(lambda: all(x['health'] == 'up' for x in self.targets()), 60, 'targets that are up')
