#!/usr/bin/env python3
"""A head that runs for months: its configuration, what it makes coarser while it is killed, and what it
pushes to a real Prometheus and a real VictoriaMetrics."""

import json
import os
import random
import re
import signal
import socket
import sqlite3
import time
import urllib.request

import harness
from cluster_help import Head, Node
from engine_help import Engine
from harness import Live, case, free_port, main, wait_until

KINDS = ('remote_write', 'otlp')


def write(t, name, text):
    path = t.path(name)
    with open(path + '.new', 'w') as f:
        f.write(text)
    os.rename(path + '.new', path)
    return path


class ConfHead:
    """A head of a configuration file; its HTTP port is known from what it says."""

    def __init__(self, t, text, *args):
        self.t, self.args = t, args
        self.data = t.path('head-data')
        self.write(text)
        self.start()

    def write(self, text):
        self.conf = write(self.t, 'head.yaml', f'store:\n  path: {self.data}\n' + text)

    def start(self):
        words = [harness.gpuscope, 'head', '--config', self.conf, *self.args]
        self.live = Live(self.t, lambda _: words, env=self.t.envs())
        self.live.wait_err(r'head on 127\.0\.0\.1:\d+', 60)
        self.address = self.live.err_text().split('head on ')[1].split(',')[0].split()[0]

    def metrics(self):
        base = self.live.err_text().split('page and API on ')[1].split()[0]
        out = {}
        with urllib.request.urlopen(base + '/metrics', timeout=300) as f:
            for line in f.read().decode().splitlines():
                if not line.startswith('#'):
                    out[line.rsplit(' ', 1)[0]] = float(line.rsplit(' ', 1)[1])
        return out

    def hup(self):
        n = self.live.err_text().count('read the configuration again') + self.live.err_text().count('the old configuration stays')
        self.live.proc.send_signal(signal.SIGHUP)

        def told():
            text = self.live.err_text()
            return text.count('read the configuration again') + text.count('the old configuration stays') > n

        wait_until(told, 30, 'the configuration to be read again')
        return self.live.err_text()

    def session(self, *args, status=0):
        return self.t.tool('session', *args, '--head', self.address, status=status)

    def kill(self):
        self.live.proc.kill()
        self.live.proc.wait()

    def stop(self):
        self.live.interrupt(signal.SIGTERM)
        return self.live.finish()


LISTEN = 'nodes:\n  listen: 127.0.0.1:0\nhttp:\n  port: "0"\n'


def fixed():
    """Where nodes find it again, with HTTP."""
    return LISTEN.replace('"0"', f'"{free_port()}"').replace('127.0.0.1:0', f'127.0.0.1:{free_port()}')


@case('the configuration: printed, checked, wrong in many ways', timeout=120, needs=None)
def configuration(t):
    printed = t.tool('head', '--print-config', status=0).out
    path = write(t, 'printed.yaml', printed)
    t.match('checked', 'ok', t.tool('head', '--check-config', '--config', path, status=0).out)
    for text, wanted in (
        ('nodes:\n  lissen: x\n', r':2:3: unknown key "lissen" in nodes; did you mean "listen"'),
        ('nodes:\n  listen: here\n', r':2:11: listen takes addresses'),
        ('nodes:\n  tls_cert: a.pem\n', r':2:3: tls_cert and tls_key go together'),
        ('sampling:\n  interval: 10\n', r':2:13: interval takes a duration from 50ms to 1h'),
        ('store:\n  retention: 7 weeks\n', r':2:14: retention takes a time such as 12h or 7d'),
        ('store:\n  downsample:\n  - {after: 1d, interval: 10s}\n  - {after: 7d, interval: 25s}\n', r':4:27: interval must be a multiple'),
        ('store:\n  downsample:\n  - {after: 7d, interval: 10s}\n  - {after: 1d, interval: 20s}\n', r':4:13: after must be later'),
        ('store:\n  downsample:\n  - {after: soon, interval: 10s}\n', r':3:13: after takes an age such as'),
        ('store:\n  downsample:\n  - {after: 1d}\n', r':3:13: interval takes 1s to 10m'),
        ('push:\n  otlp:\n    url: ftp://x\n', r':3:10: url takes an http://, https://, grpc:// or grpcs:// URL'),
        ('push:\n  otlp:\n    spool: /s\n  remote_write:\n    spool: /s\n', r':3:5: push.remote_write uses this directory'),
        ('http:\n  port: 99999\n', r':2:9: port takes 0'),
        ('http:\n  hosts: [a.b, 10.0.0.1]\n', r':2:16: hosts takes host names without ports'),
        ('- a\n', r':1:1: a configuration takes keys and values'),
    ):
        run = t.tool('head', '--config', write(t, 'wrong.yaml', text), status=2)
        t.match(text.replace('\n', ' '), r'wrong\.yaml' + wanted, run.err)
        t.equal('one line', run.err.count('\n'), 1)
    t.match('an option', r'--retention: retention takes a time', t.tool('head', '--retention', '5 weeks', status=2).err)
    t.match('no file', r'cannot read the configuration', t.tool('head', '--config', t.path('none.yaml'), status=1).err)


@case('SIGHUP: what can change does, the rest is named; options win', timeout=180, needs=None)
def reloaded(t):
    h = ConfHead(t, LISTEN + 'sampling:\n  interval: 2s\n', '--retention', '1h')
    ask = lambda: json.loads(h.session('status', '--format', 'json').out)
    t.equal('interval', ask()['interval_seconds'], 2)
    h.write(LISTEN + 'sampling:\n  interval: 300ms\n  bandwidth: true\n')
    h.hup()
    t.equal('switches', (ask()['interval_seconds'], ask()['bandwidth']), (0.3, True))
    # Set meanwhile: a file that says nothing new about it does not set it back.
    h.session('set', '--interval', '700ms')
    h.hup()
    t.equal('what was set stays', ask()['interval_seconds'], 0.7)
    h.write(LISTEN.replace('127.0.0.1:0', '127.0.0.1:1') + 'sampling:\n  interval: 400ms\n')
    t.match('named', r'takes effect after a restart: nodes\.listen', h.hup())
    t.equal('the rest is done', ask()['interval_seconds'], 0.4)
    h.write(LISTEN + 'sampling:\n  interval: 1\n')
    t.match('a bad one', r'the old configuration stays: .*head\.yaml:\d+:13: interval takes', h.hup())
    t.equal('nothing changed', ask()['interval_seconds'], 0.4)
    h.stop()
    # What the command line says holds.
    h = ConfHead(t, LISTEN + 'sampling:\n  interval: 2s\n', '--interval', '500ms')
    t.equal('an option wins', ask()['interval_seconds'], 0.5)
    h.write(LISTEN + 'sampling:\n  interval: 3s\n')
    h.hup()
    t.equal('also later', ask()['interval_seconds'], 0.5)
    h.stop()


# --- downsampling ---


def summary(t, h, dead=False):
    path = t.path(f'export{len(os.listdir(t.tmp))}.json')
    args = ['--data', h.data] if dead else ['--head', h.address]
    t.tool('session', 'export', 'all', '-o', path, *args, status=0)
    with open(path) as f:
        doc = json.load(f)
    account = doc['account']
    return doc, account['samples'] - account['downsampled_samples'] + account['downsampled_from']


@case('coarser in small steps, killed again and again: the same means, each sample counted once', timeout=600, needs=None)
def coarser(t):
    listen = fixed()
    h = ConfHead(t, listen, '--interval', '100ms')
    nodes = [Node(t, h.address, name, '--interval', '0.1') for name in 'ab']
    h.session('start', 'all', '--interval', '100ms', '--enable-bandwidth')
    wait_until(lambda: h.metrics()['gpuscope_head_samples_total'] >= 500, 240, '500 samples stored')
    for n in nodes:
        t.match('delivered', r'\b0 samples wait', n.stop().err)
    h.session('stop', 'all')
    before, n_before = summary(t, h)
    t.equal('as measured', (before['account']['downsampled_samples'], n_before), (0, before['account']['samples']))
    # What a session covers stays, unless it is asked for.
    levels = '  downsample: [{after: 1s, interval: 1s}, {after: 2s, interval: 4s}]\n'
    chance, rounds = random.Random(int(time.time())), 8
    h.write(levels + listen)
    h.stop()
    h.start()
    time.sleep(3)  # nothing is to happen: there is no condition to wait for
    t.equal('sessions are left as they were', summary(t, h)[0]['account'], before['account'])
    h.stop()
    h.write(levels + '  downsample_sessions: true\n' + listen)
    for _ in range(rounds):
        h.start()
        time.sleep(chance.random() * 0.4)
        h.kill()
        doc, n = summary(t, h, dead=True)
        t.equal('each sample once', n, n_before)
    h.start()

    def done():
        doc, _ = summary(t, h)
        account = doc['account']
        return account['downsampled_interval_seconds'] == 4 and account['samples'] < n_before / 20

    wait_until(done, 180, 'most of it coarse')
    doc, _ = summary(t, h)
    account = doc['account']
    t.equal('each sample once', account['samples'] - account['downsampled_samples'] + account['downsampled_from'], n_before)
    t.equal('the interval is told', account['downsampled_interval_seconds'], 4)
    for device, mine in doc['summary_by_device'].items():
        was = before['summary_by_device'][device]
        t.equal(f'{device}: samples', mine['samples'], was['samples'])
        for key in ('avg_gpu_util', 'avg_gpu_memory', 'avg_power_watts', 'avg_dram_active'):
            if was.get(key) is not None:
                t.true(f'{device}: {key}', abs(mine[key] - was[key]) <= 1e-6 * max(1, abs(was[key])), (mine[key], was[key]))
        for key in ('max_gpu_util', 'max_gpu_memory', 'max_power_watts', 'max_temperature_celsius'):
            if was.get(key) is not None:
                t.true(f'{device}: {key}', abs(mine[key] - was[key]) <= 1e-6 * max(1, abs(was[key])), (mine[key], was[key]))
    # A node that was late made a gap already, which may be where it is not coarse yet.
    empty, empty_before = ([f['frame_id'] for f in d['frames'] if not any(f['available'])] for d in (doc, before))
    t.true('what is coarser is no gap', len(empty) <= max(1, len(empty_before)), (empty, empty_before))

    def shown():
        """Both at a time at which nothing is made coarser."""
        m, status = h.metrics(), json.loads(h.session('status', '--format', 'json').out)
        pairs = [([m[f'gpuscope_head_downsampled_{key}_total{{when="{w}"}}'] for w in ('before', 'after')],
                  [status[f'downsampled_{key}_{w}'] for w in ('before', 'after')]) for key in ('batches', 'bytes')]  # fmt: skip
        return all(counted == told and counted[0] >= counted[1] for counted, told in pairs)

    wait_until(shown, 60, 'what was made coarser is counted, and told alike')
    h.stop()


# --- pushing ---


def push_text(url, spool=''):
    return f'push:\n  remote_write:\n    url: {url}\n    interval: 1s\n    spool: "{spool}"\n'


def pushed(t, kind):
    engine = Engine(t, kind)
    listen = fixed()
    h = ConfHead(t, listen + push_text(engine.url, t.path('push-spool')), '--interval', '500ms')
    nodes = [Node(t, h.address, name, '--instance', name) for name in ('one', 'two')]
    series = 'gpuscope_gpu_memory_total_bytes'
    wait_until(lambda: len({m['instance'] for m, _ in engine.ask(series)}) == 2, 120, 'GPUs of both nodes')
    labels, _ = engine.ask(series)[0]
    t.equal('labels', (labels['job'], labels['instance']), ('gpuscope', f'{labels["node"]}/{labels["instance"].split("/")[1]}'))
    t.true('uuid', labels['uuid'].startswith('GPU-'), labels)
    wait_until(lambda: {m['instance'].split('/')[1]: v for m, v in engine.ask('gpuscope_node_up')} == {'one': 1, 'two': 1}, 60, 'nodes that are up')
    wait_until(lambda: engine.ask('gpuscope_head_nodes'), 60, "the head's own")
    t.equal("the head's own", {m['instance'] for m, _ in engine.ask('gpuscope_head_nodes')}, {socket.gethostname()})
    wait_until(lambda: engine.ask('rate(gpuscope_head_samples_total[30s]) > 0'), 60, 'a rate of a counter')
    # The engine is away, and the head killed meanwhile: nothing but that time is missing.
    engine.stop()
    h.live.wait_err('does not accept metrics', 60)
    waiting = 'gpuscope_head_push_waiting_samples{protocol="remote_write"}'
    first = h.metrics()[waiting]
    wait_until(lambda: h.metrics()[waiting] > 3 * max(first, 100), 60, 'samples to wait')
    h.kill()
    h.start()
    wait_until(lambda: h.metrics().get(waiting, 0) > 0, 60, 'the spool is taken over')
    engine = Engine(t, kind, engine.port)
    wait_until(lambda: h.metrics()[waiting] == 0, 180, 'everything delivered')
    m = h.metrics()
    t.equal('nothing lost or refused', [m[f'gpuscope_head_push_{x}_total{{protocol="remote_write"}}'] for x in
                                        ('lost_samples', 'rejected_samples', 'errors')], [0, 0, 0])  # fmt: skip
    # A node that is gone is told to be, and its values are not sent again.
    delivered = {'two': nodes[1].stop().err}
    wait_until(lambda: [v for l, v in engine.ask('gpuscope_node_up') if l['instance'].endswith('/two')] == [0], 90, 'it is down')
    # Without the section nothing is pushed any more.
    h.write(listen)
    h.hup()
    wait_until(lambda: not any('_push_' in k for k in h.metrics()), 30, 'no more pushing')
    delivered['one'] = nodes[0].stop().err
    # What was stored when the head was killed, and confirmed only by its next Welcome, counts too.
    with sqlite3.connect(f'file:{h.data}/head.db?mode=ro', uri=True, timeout=30) as db:
        stored = dict(db.execute('SELECT n.instance, sum(s.n_samples) FROM stream s JOIN node n ON n.id = s.node GROUP BY 1'))
    told = {n: int(re.search(r'(\d+) batches delivered', err).group(1)) for n, err in delivered.items()}
    t.equal('delivered as told, and as stored', told, stored)
    h.stop()
    engine.stop()


@case('remote write from the head to a real Prometheus', timeout=600, needs=None)
def prometheus(t):
    pushed(t, 'prometheus')


@case('remote write from the head to a real VictoriaMetrics', timeout=600, needs=None)
def victoria(t):
    pushed(t, 'victoria-metrics')


if __name__ == '__main__':
    main()
