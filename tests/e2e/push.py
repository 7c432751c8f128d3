#!/usr/bin/env python3
"""Metrics pushed by the agent: to a real Prometheus that receives remote write, to a real VictoriaMetrics, and
by OTLP to a server whose messages protoc decodes by the published message definitions."""

import http.server
import os
import re
import shutil
import subprocess
import threading
import time

import harness
from agent_help import Agent, config_text, free_port
from engine_help import Engine
from harness import Skip, case, main, wait_until


def push_text(protocol, **keys):
    keys = {'interval': '1s', **keys}
    return f'push:\n  {protocol}:\n' + ''.join(f'    {k}: {v}\n' for k, v in keys.items())


def reference(t, kind):
    engine = Engine(t, kind)
    a = Agent(t, config_text(more=push_text('remote_write', url=engine.url, instance='node-7', labels='"cluster=alpha, rack=r3"')), what='gpus=4')
    wait_until(lambda: len(engine.ask('gpuscope_gpu_memory_total_bytes')) == 4, 60, 'four GPUs in the engine')
    labels, value = engine.ask('gpuscope_gpu_memory_total_bytes{gpu="2"}')[0]
    t.equal('labels put on all', [labels.get(x) for x in ('job', 'instance', 'cluster', 'rack')], ['gpuscope', 'node-7', 'alpha', 'r3'])
    shown = {k: v for k, v in a.metrics().items() if k.startswith('gpuscope_gpu_memory_total_bytes{gpu="2"')}
    t.equal('the value that a scrape shows', [value], list(shown.values()))
    # Everything that is served is pushed: names of families are the same.
    served = {re.match(r'[^{]+', k).group(0) for k in a.metrics()}
    wait_until(lambda: served - {m['__name__'] for m, _ in engine.ask('{job="gpuscope"}')} <= {'gpuscope_agent_push_last_success_timestamp_seconds'},
               30, 'every family in the engine')  # fmt: skip
    wait_until(lambda: engine.ask('rate(gpuscope_agent_samples_total[30s]) > 0'), 60, 'a rate of a counter')
    t.equal('nothing refused', [v for k, v in a.metrics().items() if 'push_rejected' in k or 'push_errors' in k], [0.0, 0.0])
    a.stop()


@case('remote write to a real Prometheus', timeout=240)
def prometheus(t):
    reference(t, 'prometheus')


@case('remote write to a real VictoriaMetrics', timeout=240)
def victoria(t):
    reference(t, 'victoria-metrics')


@case('an engine that is away: nothing is missing afterwards, also when the agent was killed meanwhile', timeout=300)
def away(t):
    engine = Engine(t, 'prometheus')
    text = config_text(more=push_text('remote_write', url=engine.url, spool=t.path('spool')))
    a = Agent(t, text, what='gpus=1')
    series = 'gpuscope_gpu_memory_total_bytes'
    wait_until(lambda: engine.ask(series), 60, 'the first sample')
    engine.stop()
    a.wait_err('does not accept metrics')
    waiting = 'gpuscope_agent_push_waiting_samples{protocol="remote_write"}'
    # As many turns as were taken meanwhile must be in the engine afterwards.
    turns = 'gpuscope_agent_samples_total'
    first = a.metrics()[turns]
    wait_until(lambda: a.metrics()[turns] > first + 10, 60, 'turns without the engine')
    a.signal(9)
    killed = time.monotonic()
    a.proc.wait(20)
    a = Agent(t, text, what='gpus=1')
    a.wait_metric(turns, lambda v: v and v >= 1, 60)
    down_s = time.monotonic() - killed
    t.true('the spool is taken over', a.metrics()[waiting] > 0, a.metrics()[waiting])
    engine = Engine(t, 'prometheus', engine.port)
    wait_until(lambda: a.metrics()[waiting] == 0, 120, 'everything delivered')
    stamps = sorted(engine.times(series, 600)[0])
    gaps = [b - a for a, b in zip(stamps, stamps[1:])]
    t.true('more than the agent was down is missing nowhere', max(gaps) < down_s + 8, (max(gaps), down_s, len(stamps)))
    t.true('samples of the time without the engine are there', len(stamps) > 8, len(stamps))
    t.equal('lost', [v for k, v in a.metrics().items() if 'push_lost' in k], [0.0])
    a.stop()


class Collector(http.server.ThreadingHTTPServer):
    """Keeps bodies; answers with what is next in `answers`, then 200."""

    def __init__(self):
        collector, self.bodies, self.answers, self.heads = self, [], [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                status, more = collector.answers.pop(0) if collector.answers else (200, {})
                collector.heads.append((time.monotonic(), self.path, dict(self.headers), status))
                if status == 200:
                    collector.bodies.append(body)
                self.send_response(status)
                for k, v in more.items():
                    self.send_header(k, v)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *args):
                pass

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server_address[1]}/v1/metrics'


# The messages of opentelemetry-proto 1.x that are used, with their published numbers and types.
PROTO = '''syntax = "proto3";
message Request { repeated ResourceMetrics resource_metrics = 1; }
message ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeMetrics { Scope scope = 1; repeated Metric metrics = 2; }
message Scope { string name = 1; string version = 2; }
message Metric { string name = 1; string description = 2; string unit = 3; Gauge gauge = 5; Sum sum = 7; }
message Gauge { repeated Point data_points = 1; }
message Sum { repeated Point data_points = 1; int32 aggregation_temporality = 2; bool is_monotonic = 3; }
message Point { repeated KeyValue attributes = 7; fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3;
  oneof value { double as_double = 4; sfixed64 as_int = 6; } }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; } }
'''


def decode(t, body):
    path = t.path('otlp.proto')
    with open(path, 'w') as f:
        f.write(PROTO)
    done = subprocess.run(['protoc', '--decode=Request', f'-I{os.path.dirname(path)}', path], input=body, capture_output=True,
                          check=False)  # fmt: skip
    t.equal(f'protoc ({done.stderr.decode()[:200]})', done.returncode, 0)
    return done.stdout.decode()


@case('OTLP: messages as published, retries as the specification says', timeout=180)
def otlp(t):
    if not shutil.which('protoc'):
        raise Skip('protoc is not installed')
    c = Collector()
    token = t.path('token')
    with open(token, 'w') as f:
        f.write('secret-7\n')
    os.chmod(token, 0o600)
    c.answers = [(503, {'Retry-After': '2'}), (429, {})]
    a = Agent(t, config_text(more=push_text('otlp', url=c.url, token_file=token, instance='node-7')), what='gpus=2')
    wait_until(lambda: len(c.bodies) >= 3, 60, 'three messages')
    t.equal('path and token', {(h[1], h[2]['Authorization'], h[2]['Content-Type']) for h in c.heads},
            {('/v1/metrics', 'Bearer secret-7', 'application/x-protobuf')})  # fmt: skip
    t.equal('first answers', [h[3] for h in c.heads[:3]], [503, 429, 200])
    t.true('Retry-After is kept', c.heads[1][0] - c.heads[0][0] >= 1.9, c.heads[1][0] - c.heads[0][0])
    text = decode(t, c.bodies[-1])
    t.match('resource', r'key: "service.name"\s+value {\s+string_value: "gpuscope"', text)
    t.match('instance', r'key: "service.instance.id"\s+value {\s+string_value: "node-7"', text)
    t.match('a gauge', r'name: "gpuscope_gpu_memory_total_bytes"\s+description: "[^"]+"\s+unit: "By"\s+gauge {\s+data_points {', text)
    energy = re.search(r'name: "gpuscope_gpu_energy_joules"[^{]*sum {(.*?)\n    }', text, re.S)
    t.true('a counter is a sum', energy)
    t.equal('points of it', energy.group(1).count('data_points {') if energy else 0, 2)
    t.true('that only grows', energy and 'is_monotonic: true' in energy.group(1) and 'aggregation_temporality: 2' in energy.group(1))
    t.equal('a counter has no _total', 'gpuscope_gpu_energy_joules_total' in text, False)
    # What is refused for good is dropped and counted; the next goes on.
    n = len(c.bodies)
    c.answers = [(400, {})]
    wait_until(lambda: len(c.bodies) > n + 1, 30, 'messages after a refusal')
    t.true('rejected', a.metrics()['gpuscope_agent_push_rejected_samples_total{protocol="otlp"}'] > 50)
    a.stop()


@case('mistakes: one line each', timeout=60)
def mistakes(t):
    for text, wanted in ((push_text('remote_write', url='ftp://x/'), r'url takes an http:// or https:// URL'),
                         (push_text('otlp', url='http://127.0.0.1:1/', interval='10ms'), r'interval'),
                         (push_text('otlp', url='http://127.0.0.1:1/', labels='"job=x"'), r'labels takes NAME=VALUE'),
                         ('push:\n  mail:\n    url: x\n', r'mail'),
                         (push_text('otlp', url='http://127.0.0.1:1/', token_file='/nonexistent/t'), r'token of push.otlp')):  # fmt: skip
        path = t.path('bad.yaml')
        with open(path, 'w') as f:
            f.write(config_text(more=text))
        done = subprocess.run([harness.gpuscope, 'agent', '-c', path], capture_output=True, text=True, timeout=30, env=t.envs(None))
        t.true(f'it ends ({wanted})', done.returncode in (1, 2), done.returncode)
        t.match('message', wanted, done.stderr)
        t.equal('one line', len(done.stderr.strip().splitlines()), 1)


if __name__ == '__main__':
    main()
