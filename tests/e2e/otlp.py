#!/usr/bin/env python3
"""OTLP as collectors get it: metrics by OpenTelemetry's names, logs, over HTTP and by gRPC, decoded by the published definitions."""

import os
import subprocess
import time

import harness
from agent_help import Agent, config_text
from certs import certificates
from harness import case, main, wait_until
from otlp_help import GrpcCollector, HttpCollector, attributes, points

GIB = 1 << 30


def push_text(**sections):
    text = 'push:\n'
    for name, keys in sections.items():
        text += f'  {name}:\n' + ''.join(f'    {k}: {v}\n' for k, v in {'interval': '1s', **keys}.items())
    return text


def check_hardware(t, latest):
    """Four GPUs of the stand-in, as the conventions have them."""
    kinds = {'hw.gpu.utilization': ('gauge', '1'), 'hw.gpu.memory.usage': ('sum', 'By'), 'hw.gpu.memory.limit': ('sum', 'By'),
             'hw.gpu.memory.utilization': ('gauge', '1'), 'hw.gpu.io': ('sum', 'By'), 'hw.power': ('gauge', 'W'), 'hw.energy': ('sum', 'J'),
             'hw.errors': ('sum', '{error}'), 'hw.temperature': ('gauge', 'Cel'), 'hw.status': ('sum', '1')}  # fmt: skip
    t.equal('kinds and units', {n: (latest[n].WhichOneof('data'), latest[n].unit) for n in kinds if n in latest}, kinds)
    only_grow = {n for n in kinds if kinds[n][0] == 'sum' and latest[n].sum.is_monotonic}
    t.equal('what only grows', only_grow, {'hw.gpu.io', 'hw.energy', 'hw.errors'})
    t.equal('all are cumulative', {m.sum.aggregation_temporality for m in latest.values() if m.WhichOneof('data') == 'sum'}, {2})
    memory = points(latest['hw.gpu.memory.limit'])
    t.equal('GPUs', sorted(a['hw.id'][:12] for a, _ in memory), [f'GPU-{i:08x}' for i in range(4)])
    t.equal('their memory', {v for _, v in memory}, {80 * GIB})
    t.equal('who they are', {(a['hw.vendor'], a['hw.model'], a['hw.driver_version']) for a, _ in memory},
            {('NVIDIA', 'NVIDIA H100 80GB HBM3', '580.159.04')})  # fmt: skip
    t.equal('tasks', {a['hw.gpu.task'] for a, _ in points(latest['hw.gpu.utilization'])}, {'general', 'encoder', 'decoder'})
    power = {a['hw.id']: v for a, v in points(latest['hw.power'])}
    t.equal('power', sorted(power.values()), [300, 301, 302, 303])
    t.equal('type', {a['hw.type'] for a, _ in points(latest['hw.power'])}, {'gpu'})
    t.true('sensors are parts', all(a['hw.id'] == f"{a['hw.parent']}/{a['hw.sensor_location']}" for a, _ in points(latest['hw.temperature'])))
    status = points(latest['hw.status'])
    t.equal('one state each', sorted((a['hw.id'] for a, v in status if v == 1)), sorted(power))
    t.equal('directions', {a['network.io.direction'] for a, _ in points(latest['hw.gpu.io'])}, {'transmit', 'receive'})
    native = latest['gpuscope_gpu_power_watts']
    t.equal('and by our own name', (native.unit, len(points(native)) >= 4), ('W', True))


@case('metrics by the names of the conventions, over HTTP', timeout=120)
def metrics_http(t):
    c = HttpCollector(t)
    c.answers = [(503, b''), (200, b'')]
    a = Agent(t, config_text(more=push_text(otlp={'url': c.url + '/v1/metrics'})), what='gpus=4')
    wait_until(lambda: 'hw.energy' in c.latest() and 'hw.gpu.io' in c.latest(), 60, 'metrics')
    check_hardware(t, c.latest())
    resource = c.all('metrics')[-1][0]
    t.equal('resource', (resource['service.name'], resource['host.name'], resource['service.instance.id']),
            ('gpuscope', os.uname().nodename, os.uname().nodename))  # fmt: skip
    # A receiver that takes a part of it, and one that says why it takes none.
    rejected = 'gpuscope_agent_push_rejected_samples_total{protocol="otlp"}'
    # ExportMetricsPartialSuccess (of newer definitions): rejected_data_points = 1, error_message = 2.
    c.answers = [(200, b'\x0a\x14\x08\x07\x12\x10too many\nof them')]
    a.wait_metric(rejected, lambda v: v == 7, 60)
    a.wait_err(r'refuses 7 of \d+: too many\?of them', 60)
    c.answers = [(400, b'\x08\x03\x12\x09bad thing')]
    a.wait_err(r'permanently refuses \d+ samples: it answers 400: bad thing', 60)
    a.stop()


@case('metrics by gRPC, with a token and TLS; codes that are tried again and that are not', timeout=180)
def metrics_grpc(t):
    certificates(t)
    key, certificate = (open(t.path(n), 'rb').read() for n in ('server.key', 'server.pem'))
    token = t.path('token')
    with open(token, 'w') as f:
        f.write('secret-7\n')
    os.chmod(token, 0o600)
    plain, c = GrpcCollector(t), GrpcCollector(t, (key, certificate))
    import grpc  # it is there, or the case was skipped

    c.fail = [(grpc.StatusCode.UNAVAILABLE, 'not yet')]
    a = Agent(t, config_text(more=push_text(otlp={'url': c.url, 'token_file': token, 'ca_file': t.path('ca.pem')})), what='gpus=4')
    wait_until(lambda: 'hw.energy' in c.latest(), 60, 'metrics by TLS')
    check_hardware(t, c.latest())
    t.equal('token', {m['authorization'] for _, m in c.calls}, {'Bearer secret-7'})
    a.wait_err(r'does not accept metrics: its gRPC status is 14: not yet; they are buffered meanwhile', 60)
    a.wait_err(r'accepts metrics again', 60)
    t.equal('nothing given up', [v for k, v in a.metrics().items() if 'push_rejected' in k or 'push_lost' in k], [0.0, 0.0])
    c.fail = [(grpc.StatusCode.INVALID_ARGUMENT, 'no such thing\n')]
    a.wait_err(r'permanently refuses \d+ samples: its gRPC status is 3: no such thing', 60)
    a.stop()
    a = Agent(t, config_text(more=push_text(otlp={'url': plain.url})), what='gpus=1')
    wait_until(lambda: plain.latest(), 60, 'metrics without TLS')
    a.stop()
    for collector in (plain, c):
        collector.server.stop(None)


def records(c, key):
    return [log for _, log in c.all('logs') if not key or key in attributes(log)]


def check_logs(t, c, kind):
    text = f'sampling:\n  interval: 100ms\nfindings:\n  enabled: true\n{push_text(otlp_logs={"url": c.url + kind, "interval": "1s"})}'
    began = time.time()
    a = Agent(t, config_text(more=text), what='gpus=2')
    a.pretend('gpus=2,xid=1:79:1')
    wait_until(lambda: records(c, 'gpuscope.xid'), 60, 'the XID')
    a.pretend('gpus=2,xid=1:79:2')
    wait_until(lambda: len(records(c, 'gpuscope.xid')) == 2, 60, 'the second one')
    log = records(c, 'gpuscope.xid')[0]
    found = attributes(log)
    t.equal('attributes', (found['gpuscope.xid'], found['hw.type'], found['hw.id'][:12]), ('79', 'gpu', 'GPU-00000001'))
    t.equal('severity', (log.severity_number, log.severity_text), (17, 'ERROR'))
    t.match('body', r'^XID 79 on 00000000:11:00\.0', log.body.string_value)
    t.true('its time', began - 5 <= log.time_unix_nano / 1e9 <= time.time() + 1, log.time_unix_nano)
    wait_until(lambda: records(c, 'gpuscope.finding.detector'), 60, 'a finding')
    log = records(c, 'gpuscope.finding.detector')[0]
    found = attributes(log)
    t.equal('severity of a finding', (log.severity_text, found['gpuscope.finding.state']), ('WARN', 'active'))
    t.true('what it is', found['gpuscope.finding.subject'] and found['gpuscope.finding.details'].startswith('{'), found)
    t.equal('each once', len({(x.time_unix_nano, x.body.string_value) for x in records(c, '')}), len(records(c, '')))
    a.stop()


@case('XID errors and findings as logs, over HTTP', timeout=180)
def logs_http(t):
    check_logs(t, HttpCollector(t), '/v1/logs')


@case('XID errors and findings as logs, by gRPC', timeout=180)
def logs_grpc(t):
    c = GrpcCollector(t)
    check_logs(t, c, '')
    c.server.stop(None)


@case('mistakes: one line each', timeout=60)
def mistakes(t):
    for sections, wanted in (({'otlp': {'url': 'grpc://'}}, r'url takes an http://, https://, grpc:// or grpcs:// URL'),
                             ({'otlp': {'url': 'grpc://h:4317/v1/metrics'}}, r'url takes an http://'),
                             ({'remote_write': {'url': 'grpc://h:1'}}, r'url takes an http:// or https:// URL'),
                             ({'otlp': {'url': 'http://h:1/', 'spool': '/tmp/x'}, 'otlp_logs': {'url': 'http://h:1/', 'spool': '/tmp/x'}},
                              r'push\.otlp uses this directory: give push\.otlp_logs another')):  # fmt: skip
        path = t.path('bad.yaml')
        with open(path, 'w') as f:
            f.write(config_text(more=push_text(**sections)))
        done = subprocess.run([harness.gpuscope, 'agent', '--check-config', '-c', path], capture_output=True, text=True, timeout=60, env=t.envs(None))
        t.true(f'refused: {wanted}', done.returncode == 2, done)
        t.match('message', wanted, done.stderr)
        t.equal('one line', len(done.stderr.strip().splitlines()), 1)
    t.true('the file of defaults has the section', 'otlp_logs:' in t.tool('agent', '--print-config', status=0).out)


if __name__ == '__main__':
    main()
