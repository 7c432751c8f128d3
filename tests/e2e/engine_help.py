"""Real engines of metrics for the tests of pushing."""

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request

import harness
from agent_help import free_port
from harness import Skip, wait_until


class Engine:
    """A program that takes remote write and answers PromQL."""

    def __init__(self, t, kind, port=None):
        self.t, self.kind, self.port = t, kind, port or free_port()
        data = t.path(f'data-{kind}')
        os.makedirs(data, exist_ok=True)
        if kind == 'prometheus':
            if not shutil.which('prometheus'):
                raise Skip('prometheus is not installed')
            conf = t.path('receiver.yml')
            with open(conf, 'w') as f:
                f.write('global: {scrape_interval: 1h}\n')
            words = ['prometheus', f'--config.file={conf}', f'--storage.tsdb.path={data}', '--web.enable-remote-write-receiver',
                     f'--web.listen-address=127.0.0.1:{self.port}']  # fmt: skip
            self.url = f'http://127.0.0.1:{self.port}/api/v1/write'
        else:
            if not shutil.which('victoria-metrics'):
                raise Skip('victoria-metrics is not installed')
            words = ['victoria-metrics', f'-storageDataPath={data}', f'-httpListenAddr=127.0.0.1:{self.port}',
                     '-search.latencyOffset=0s']  # fmt: skip
            self.url = f'http://127.0.0.1:{self.port}/api/v1/write'
        self.log = open(t.path(f'{kind}.log'), 'ab')
        self.proc = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        wait_until(self.answers, 60, f'{kind} to answer')

    def stop(self):
        if self.proc.poll() is None:
            self.proc.terminate()
            self.proc.wait(30)

    def fetch(self, path):
        with urllib.request.urlopen(f'http://127.0.0.1:{self.port}{path}', timeout=300) as f:
            return f.read()

    def answers(self):
        assert self.proc.poll() is None, harness.read_text(self.log.name)
        try:
            return self.fetch('/-/ready' if self.kind == 'prometheus' else '/health')
        except OSError:
            return False

    def ask(self, query):
        """[(labels, value)] of now."""
        got = json.loads(self.fetch('/api/v1/query?' + urllib.parse.urlencode({'query': query})))
        return [(r['metric'], float(r['value'][1])) for r in got['data']['result']]

    def times(self, query, seconds):
        """When samples of a series were, over the last seconds: {labels: [times]}."""
        got = json.loads(self.fetch('/api/v1/query?' + urllib.parse.urlencode({'query': f'{query}[{seconds}s]'})))
        return [[v[0] for v in r['values']] for r in got['data']['result']]
