#!/usr/bin/env python3
"""Compatibility: today's readers read what each version has written (tests/golden/VERSION), and today's writers give the keys, columns
and types that they gave then. Adding is allowed. Where one has to go, the format gets a new version, and older ones keep a reader.

GPUSCOPE_GOLDEN_WRITE=1 writes the shapes of this version instead of comparing them: with a release, never to make this pass."""
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

import compat_help as shapes
from agent_help import Agent
from cluster_help import Head
from harness import Skip, case, free_port, main, wait_until
from top_help import nvml

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.abspath(f'{HERE}/../golden')
MAKER = os.path.join(os.path.abspath(sys.argv[2]), '../e2e/explain_run')
VERSIONS = sorted(os.path.basename(path) for path in glob.glob(f'{GOLDEN}/[0-9]*.[0-9]*.[0-9]*'))
FAKE = {'FAKE_NVML': 'gpus=2'}


def written(t, version, name, *options):
    """What report makes of a stored recording, as bytes."""
    path = t.path(name)
    recording = 'ops.gst' if name.startswith('ops') else 'run.gst'
    t.tool('report', '-q', f'{GOLDEN}/{version}/{recording}', '-o', path, *options, status=0)
    with open(path, 'rb') as f:
        return f.read()


def printed(*words):
    return lambda t, version: t.tool(*(word.replace('GOLDEN', f'{GOLDEN}/{version}') for word in words), status=0, env=FAKE).out


def of_head(*words):
    def run(t, version):
        data = t.path('head')
        if not os.path.isdir(data):
            os.mkdir(data)
            with gzip.open(f'{GOLDEN}/{version}/head.db.gz') as f, open(f'{data}/head.db', 'wb') as out:
                shutil.copyfileobj(f, out)
        return t.tool('session', *words, '--data', data, status=0).out

    return run


def of_file(name):
    return lambda t, version: written(t, version, name).decode(errors='replace')


def of_binary(name):
    def run(t, version):
        if not shutil.which('protoc'):
            raise Skip('protoc is not installed')
        return written(t, version, name)

    return run


def of_perfetto(data):
    return shapes.of_protobuf(data, GOLDEN, 'perfetto_subset.proto', 'perfetto.protos.Trace')


def of_otlp(data):
    return shapes.of_protobuf(data, HERE, 'opentelemetry/proto/collector/trace/v1/trace_service.proto',
                              'opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')  # fmt: skip


def of_outline(text):
    return {path: {'key'} for path in shapes.of_json(text) if path.count('.') <= 2}


def metrics(t):
    agent = Agent(t, what='gpus=2', args=('--compat', 'native,dcgm'))
    wait_until(lambda: 'gpuscope_gpu_power' in agent.get()[2].decode(), 60, 'values of GPUs are there')
    text = agent.get()[2].decode()
    agent.stop()
    return '\n'.join(line for line in text.splitlines() if re.match(r'(# TYPE )?(gpuscope_gpu_|DCGM_)', line))


def findings(t, version):
    """Of a run that a program makes up, the same each time."""
    if not os.path.exists(MAKER):
        raise Skip('explain_run was not built')
    subprocess.run([MAKER, t.path('slow.gst'), 'slow'], check=True, timeout=60)
    return t.tool('explain', t.path('slow.gst'), '--json', status=0).out


def tables(name):
    return lambda t, version: t.tool('agent', '--print-schema', name, status=0).out


# name: what writes it, its shape, and where it says its version.
WRITERS = {
    'summary.json': (printed('report', 'GOLDEN/run.gst', '--json'), shapes.of_json),
    'summary_operators.json': (printed('report', 'GOLDEN/ops.gst', '--json'), shapes.of_json),
    'summary.csv': (printed('report', 'GOLDEN/run.gst', '--format', 'csv'), shapes.of_csv),
    'explain.json': (printed('explain', 'GOLDEN/run.gst', '--json'), shapes.of_json),
    'findings.json': (findings, shapes.of_json),
    'run.json': (of_file('run.json'), shapes.of_json),
    'ops.json': (of_file('ops.json'), shapes.of_json),
    'run.csv': (of_file('run.csv'), shapes.of_csv),
    'run.folded': (of_file('run.folded'), shapes.of_folded),
    'run.pftrace': (of_binary('run.pftrace'), of_perfetto),
    'ops.otlp': (of_binary('ops.otlp'), of_otlp),
    'top.json': (printed('top', '--once', '--json', '--replay', 'GOLDEN/node.gst'), shapes.of_json),
    'top.csv': (printed('top', '--once', '--format', 'csv', '--replay', 'GOLDEN/node.gst'), shapes.of_csv),
    'session.json': (of_head('export', 'golden', '-o', '-', '--format', 'json'), shapes.of_json),
    'session.csv': (of_head('export', 'golden', '-o', '-', '--format', 'csv'), shapes.of_csv),
    'session_gswarm.json': (of_head('export', 'golden', '-o', '-', '--compat', 'gswarm'), shapes.of_json),
    'sessions.json': (of_head('list', '--json'), shapes.of_json),
    'mysql.sql': (tables('gpuscope'), shapes.of_sql),
    'mysql_eacgm.sql': (tables('eacgm'), shapes.of_sql),
    'version.json': (printed('version', '--json'), shapes.of_json),
}


def version_of(text):
    """Of a document that says it; else 1."""
    match = re.match(r'\s*\{\s*"version": ?(\d+)', text) if isinstance(text, str) else None
    return int(match[1]) if match else 1


def compare(t, version, name, text, shape):
    path = f'{GOLDEN}/{version}/{name}.shape'
    today, says = shape(text), version_of(text)
    if os.environ.get('GPUSCOPE_GOLDEN_WRITE') and version == VERSIONS[-1]:
        with open(path, 'w', encoding='utf-8') as f:
            f.write(shapes.to_text(today, says))
    if not os.path.exists(path):
        t.equal(f'{name} is newer than {version}', version == VERSIONS[-1], False)
        return
    with open(path, encoding='utf-8') as f:
        golden, said = shapes.from_text(f.read())
    t.true(f'{name} of {version} has a shape', len(golden) >= 1, golden)
    if says > said:  # its version was raised: the cases below show that the older one is still read
        return
    for line in shapes.missing(golden, today):
        t.true(f'{name}: {line} since {version}: keep it, or raise the version of the format and keep a reader', False, '')


@case('a writer that loses, renames or retypes a key is found', needs=None)
def finder(t):
    golden = shapes.of_json('{"a": 1, "b": [{"c": "x"}], "d": null}')
    t.equal('the same', shapes.missing(golden, shapes.of_json('{"a": 2, "b": [{"c": "y", "new": 1}], "d": 1}')), [])
    t.equal('gone', shapes.missing(golden, shapes.of_json('{"b": [{"c": "y"}], "d": null}')), ['.a is gone'])
    t.equal('renamed', shapes.missing(golden, shapes.of_json('{"a": 1, "b": [{"C": "y"}], "d": null}')), ['.b[].c is gone'])
    t.equal('another type', shapes.missing(golden, shapes.of_json('{"a": "1", "b": [{"c": "y"}], "d": null}')), ['.a was number and is text'])
    t.equal('a column', shapes.missing(shapes.of_csv('a,b\n1,2\n\nc\n3'), shapes.of_csv('a\n1\n\nc\n3')), ['table 0: b is gone'])
    t.equal('a label', shapes.missing(shapes.of_metrics('# TYPE m gauge\nm{gpu="0"} 1\n'), shapes.of_metrics('# TYPE m counter\nm 1\n')), ['m {gpu} is gone', 'family m was gauge and is counter'])
    back = shapes.from_text(shapes.to_text(golden, 3))
    t.equal('stored', back, (golden, 3))


@case('writers give what each version gave', needs=None, timeout=200)
def writers(t):
    t.true('there are versions', VERSIONS and VERSIONS[0] == '0.1.0', VERSIONS)
    for version in VERSIONS:
        shutil.rmtree(t.path('head'), ignore_errors=True)
        for name, (write, shape) in WRITERS.items():
            compare(t, version, name, write(t, version), shape)


@case('GPU values, of a stand-in for the driver that always gives the same', needs=None)
def gpu_values(t):
    library = nvml()
    for version in VERSIONS:
        for name, words, shape in (
            ('gpu.json', ('--json',), shapes.of_json), ('gpu.csv', ('--devices', '--format', 'csv'), shapes.of_csv),
            ('gpu_eacgm.json', ('--compat', 'eacgm', '--json'), shapes.of_json), ('gpu_gswarm.json', ('--compat', 'gswarm', '--json'), shapes.of_json),
        ):  # fmt: skip
            compare(t, version, name, t.tool('gpu', *words, '--nvml', library, env=FAKE, status=0).out, shape)
        # What a job did has other keys each time; those of the report, of a job and of its groups are always there.
        report = t.tool('job', '-p', str(os.getpid()), '-d', '0.5', '--json', '--nvml', library, env=FAKE, status=0).out
        compare(t, version, 'job_outline.json', report, of_outline)


@case('metrics of the agent and of a head, and the HTTP API of a head', needs=None)
def served(t):
    port = free_port()
    head = Head(t, '--http-port', str(port))
    get = lambda path: urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=60).read().decode()  # noqa: E731
    texts = {'api.openapi': (get('/api/v1/openapi.json'), shapes.of_openapi), 'head_metrics.txt': (get('/metrics'), shapes.of_metrics),
             'agent_metrics.txt': (metrics(t), shapes.of_metrics)}  # fmt: skip
    head.stop()
    for version in VERSIONS:
        for name, (text, shape) in texts.items():
            compare(t, version, name, text, shape)


@case('readers read what each version wrote', needs=None, timeout=200)
def readers(t):
    for version in VERSIONS:
        with open(f'{GOLDEN}/{version}/values.json', encoding='utf-8') as f:
            values = json.load(f)
        for name, wanted in values['calls'].items():
            summary = json.loads(t.tool('report', f'{GOLDEN}/{version}/{name}', '--json', status=0).out)
            t.equal(f'{name} of {version}: calls', {row['name']: row['calls'] for row in summary['functions'] if row['calls']}, wanted)
            t.true(f'{name} of {version} is whole', summary['complete'], summary['end_reason'])
        top = json.loads(t.tool('top', '--once', '--json', '--replay', f'{GOLDEN}/{version}/node.gst', status=0).out)
        t.equal(f'node.gst of {version}', [gpu['uuid'] for gpu in top['gpus']], values['gpus'])
        run = t.tool('report', '--compare', f'{GOLDEN}/{version}/job.json', '--json', status=0)
        t.equal(f'job.json of {version}', len(json.loads(run.out)['jobs']), 1)
        shutil.rmtree(t.path('head'), ignore_errors=True)
        listed = json.loads(of_head('list', '--json')(t, version))
        t.equal(f'head.db of {version}', [s['name'] for s in listed['sessions']], ['golden'])
        exported = t.path('golden.gst')
        of_head('export', 'golden', '-o', exported, '--format', 'gst')(t, version)
        t.tool('report', '--plot', t.path('figure.svg'), exported, status=0)
        t.true(f'a session of {version} in JSON', os.path.getsize(t.path('figure.svg')) > 1000, '')


if __name__ == '__main__':
    main()
