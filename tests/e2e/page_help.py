"""A head with HTTP, and nodes that deliver to it, with a stand-in of the driver's library."""

import http.client
import json
import os
import re
import signal
import ssl
import subprocess

import harness
from harness import read_text, wait_until


def shot(t, b, name):
    folder = os.environ.get('GS_SHOTS') or t.path('shots')
    os.makedirs(folder, exist_ok=True)
    b.shot(os.path.join(folder, name + '.png'))


def text(b):
    return b.run('document.getElementById("main").innerText')


class Head:
    def __init__(self, t, *args, tls=False):
        """tls: with the certificates of certs.certificates(t), made before."""
        t.n_files += 1
        self.t, self.data, self.log = t, t.path(f'head{t.n_files}'), t.path(f'head{t.n_files}.log')
        self.tls, self.scheme = tls, 'https' if tls else 'http'
        self.args = ['--anonymous-control', *args, *(['--cert', t.path('server.pem'), '--key', t.path('server.key')] if tls else [])]
        self.start()

    def start(self, listen=None, port='0'):
        # Port 0 switches HTTP off.
        listen = listen or f'127.0.0.1:{harness.free_port()}'
        free = harness.free_port() if port == '0' else int(port)
        with open(self.log, 'wb') as f:
            self.proc = subprocess.Popen([harness.gpuscope, 'head', '--data', self.data, '--listen', listen, '--http-port', str(free), *self.args],
                                         stdout=f, stderr=f, env=self.t.envs())  # fmt: skip
        wait_until(lambda: self.said(r'data in'), 60, 'the head listens')
        self.grpc = re.search(r'head on (\S+),', read_text(self.log)).group(1)
        self.http = re.search(r'page and API on https?://(\S+)', read_text(self.log)).group(1)

    def said(self, pattern):
        assert self.proc.poll() is None, f'the head ended: {read_text(self.log)}'
        return re.search(pattern, read_text(self.log))

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        return self.proc.wait(60)

    def node(self, name, gpus=2, more='', args=(), file=None):
        """file: what the stand-in pretends stands in it, and may change."""
        pretended = {'FAKE_NVML_FILE': file} if file else {'FAKE_NVML': f'gpus={gpus}{more}'}
        env = {**pretended, 'LD_LIBRARY_PATH': harness.fake}
        log = open(self.t.path(f'node-{name}.log'), 'wb')
        trust = ['--ca', self.t.path('ca.pem')] if self.tls else []
        return subprocess.Popen([harness.gpuscope, 'connect', self.grpc, '--machine-id', name, '--instance', name, *trust, *args],
                                stdout=log, stderr=log, env=self.t.envs(env))  # fmt: skip

    def connection(self):
        if not self.tls:
            return http.client.HTTPConnection(self.http, timeout=300)
        return http.client.HTTPSConnection(self.http, timeout=300, context=ssl.create_default_context(cafile=self.t.path('ca.pem')))

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, text)"""
        c = self.connection()
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault('Content-Type', 'application/json')
        c.request(method, path, body=body, headers=headers)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, text

    def json(self, method, path, body=None, headers=None):
        status, _, text = self.ask(method, path, body, headers)
        return status, json.loads(text)

    def get(self, path):
        status, found = self.json('GET', path)
        assert status == 200, f'{path}: {status} {found}'
        return found

    def wait_gpus(self, n, seconds=60):
        wait_until(lambda: self.get('/api/v1/overview')['gpus'] >= n, seconds, f'{n} GPUs at the head')
