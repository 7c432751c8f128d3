#!/usr/bin/env python3
"""Traces as OpenTelemetry's spans: files and collectors over HTTP and gRPC, decoded by the published definitions."""

import os
import subprocess

import harness
from certs import certificates
from harness import Skip, case, main, read_text, wait_until
from otlp_help import GrpcCollector, HttpCollector, attributes, definitions, request_of

TRACE, PARENT = '0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'
STEPS = 20
PYTHON = '/usr/bin/python3'

TRAINING = '''
import sys, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
best = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for i in range(int(sys.argv[1])):
    loss = torch.nn.functional.mse_loss(net(x), y)
    best.zero_grad()
    loss.backward()
    best.step()
'''


def traceparent(sampled=True):
    return {'TRACEPARENT': f'00-{TRACE}-{PARENT}-0{int(sampled)}'}


def spans_of_file(t, path):
    with open(path, 'rb') as f:
        request = request_of(definitions(t), 'trace').FromString(f.read())
    return [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]


def check_tree(t, spans, remote=None):
    """One trace; every parent is there, and around its children; below remote, or without any."""
    by_id = {s.span_id: s for s in spans}
    t.equal('ids are of one span each', len(by_id), len(spans))
    t.equal('one trace', len({s.trace_id for s in spans}), 1)
    t.equal('lengths', {(len(s.trace_id), len(s.span_id)) for s in spans}, {(16, 8)})
    roots = [s for s in spans if s.parent_span_id not in by_id]
    t.equal('roots', [s.parent_span_id.hex() for s in roots], [remote or ''])
    if remote:
        t.equal('its trace', roots[0].trace_id.hex(), TRACE)
    outside = [(s.name, by_id[s.parent_span_id].name) for s in spans if s.parent_span_id in by_id
               and not (by_id[s.parent_span_id].start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano
                        <= by_id[s.parent_span_id].end_time_unix_nano)]  # fmt: skip
    t.equal('children are inside of their parents', outside[:3], [])
    return by_id


@case('steps, and operators in them, of PyTorch; the recording has the same', timeout=240)
def operators(t):
    if not harness.has_module(PYTHON, 'torch'):
        raise Skip("Debian's PyTorch is not here")
    recording, path, again = t.path('run.gst'), t.path('run.otlp'), t.path('again.otlp')
    run = t.trace('--layer=torch', '-o', recording, '-o', path, command=[PYTHON, '-c', TRAINING, '100'], env=traceparent())
    spans = spans_of_file(t, path)
    by_id = check_tree(t, spans, PARENT)
    parents = {(s.name, by_id[s.parent_span_id].name) for s in spans if s.parent_span_id in by_id}
    # What fills less than half of a thread's time is not called steps: they must outlast a wait for a processor before.
    t.true('steps are found', run.summary['steps'], run.err)
    count = run.summary['steps']['count']
    found = [s for s in spans if s.name == 'step']
    t.true('steps', count - 1 <= len(found) <= count, (len(found), count))
    t.true('operators in steps', ('aten::linear', 'step') in parents and ('aten::addmm', 'aten::linear') in parents, sorted(parents))
    t.true('of a process', ('step', 'python3') in parents, sorted(parents))
    linear = next(s for s in spans if s.name == 'aten::linear')
    t.equal('what it says', sorted(attributes(linear)), ['gpuscope.layer', 'thread.id'])
    calls = {f['name']: f['calls'] for f in run.summary['functions']}
    t.equal('each call is a span as long as there are few', sum(s.name == 'aten::mse_loss' for s in spans), calls['aten::mse_loss'])
    t.tool('report', recording, '-o', again, status=0, env=traceparent())
    shape = lambda all_of_them: sorted((s.name, s.start_time_unix_nano, s.end_time_unix_nano) for s in all_of_them)  # noqa: E731
    t.equal('the same of the recording', shape(spans_of_file(t, again)), shape(spans))


def trace_ranks(t, *outputs, env=None):
    return t.trace(*[w for o in outputs for w in ('-o', o)], command=[f'{harness.fake}/ranks', '2', str(STEPS), '-1', '0'], env=env)


def check_ranks(t, c, run):
    resources = [r for r, _ in c.all('trace')]
    spans = [s for _, s in c.all('trace')]
    check_tree(t, spans)
    t.match('told', rf'sent {len(spans)} spans to {c.url}', run.err)
    t.equal('resource', {(r['service.name'], r['host.name']) for r in resources}, {('gpuscope', os.uname().nodename)})
    reduces = [s for s in spans if s.name == 'ncclAllReduce']
    calls = {f['name']: f['calls'] for f in run.summary['functions']}
    t.equal('collectives', len(reduces), calls['ncclAllReduce'])
    t.equal('ranks', {attributes(s).get('gpuscope.rank') for s in reduces}, {0, 1})
    t.true('bytes', all(attributes(s)['gpuscope.bytes'] > 0 for s in reduces))


@case('collectives to a collector over HTTP', timeout=120)
def http(t):
    c = HttpCollector(t)
    run = trace_ranks(t, c.url + '/v1/traces', env={'OTEL_EXPORTER_OTLP_HEADERS': 'x=y,Authorization=Bearer%20secret-9'})
    check_ranks(t, c, run)
    t.equal('token', {h['Authorization'] for _, h, _ in c.heads}, {'Bearer secret-9'})


@case('collectives to a collector by gRPC, with TLS', timeout=120)
def grpc(t):
    certificates(t)
    key, certificate = (open(t.path(n), 'rb').read() for n in ('server.key', 'server.pem'))
    c = GrpcCollector(t, (key, certificate))
    check_ranks(t, c, trace_ranks(t, c.url, env={'OTEL_EXPORTER_OTLP_CERTIFICATE': t.path('ca.pem')}))
    c.server.stop(None)


@case('a process that runs already: below its own TRACEPARENT', timeout=120)
def attached(t):
    program = subprocess.Popen([f'{harness.fake}/ranks', '2', '4000', '0', '20000'], env=t.envs(traceparent()), stdout=subprocess.DEVNULL)
    path = t.path('attached.otlp')
    try:
        children = f'/proc/{program.pid}/task/{program.pid}/children'
        wait_until(lambda: len(read_text(children).split()) == 2, 60, 'its ranks')
        run = t.trace('-o', path, '-p', read_text(children).split()[0], '--duration', '2s')
        t.true('it was at work', any(f['calls'] for f in run.summary['functions']))
    finally:
        program.kill()
        program.wait()
    check_tree(t, spans_of_file(t, path), PARENT)


@case('parents that are not sampled, or none; collectors that refuse or are not there', timeout=180)
def refusals(t):
    c = HttpCollector(t)
    url = c.url + '/v1/traces'
    run = trace_ranks(t, url, env=traceparent(sampled=False))
    t.match('not sampled', r'gets no spans: the trace of TRACEPARENT is not sampled', run.err)
    t.equal('nothing came', c.all('trace'), [])
    run = trace_ranks(t, url, env={'TRACEPARENT': 'nonsense'})
    t.match('told', r'TRACEPARENT is not valid, and not used', run.err)
    check_tree(t, [s for _, s in c.all('trace')])
    c.answers = [(400, b'')] * 20
    recording = t.path('run.gst')
    run = trace_ranks(t, url, recording)
    t.match('refused', r'permanently refuses \d+ spans: it answers 400', run.err)
    t.match('what it has', r'has 0 of \d+ spans: it answers 400', run.err)
    nowhere = f'http://127.0.0.1:{harness.free_port()}/v1/traces'
    t.match('not there', rf'{nowhere} has 0 of \d+ spans: ', t.tool('report', recording, '-o', nowhere, status=1).err)
    t.true('the summary is there all the same', run.summary['functions'])
    run = t.trace('-o', t.path('none.otlp'), command=['true'])
    t.match('nothing to show', r'none\.otlp has no step, operator or collective: --layer torch,nccl', run.err)
    for wrong in ('http://', 'grpc://host/path', 'ftp://host/x'):
        t.match(wrong, r'--output takes .* or a URL such as http://HOST:4318/v1/traces', t.tool('trace', '-o', wrong, '--', 'true', status=2).err)


if __name__ == '__main__':
    main()
