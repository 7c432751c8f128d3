"""The description of the HTTP API against the answers of a real head: every endpoint, every key."""

import copy
import json
import re
import subprocess
import time

import harness
from agent_help import Agent, config_text
from fleet_help import USUAL, Node, steps_record
from harness import Skip, case, main, wait_until
from page_help import Head

try:
    import jsonschema
except ImportError:
    jsonschema = None

# Described keys that no answer of a new head has.
NOT_HERE = [
    'get /api/v1/overview: agent',  # an agent's alone (agent_page.py)
    'get /api/v1/process-series: downsampled_seconds',  # of samples that are older than a test is
    'get /api/v1/series: downsampled_seconds',
]
METHODS = {'get', 'post', 'put', 'delete'}
WRONG = {'string': 5, 'integer': 'x', 'number': 'x', 'boolean': 'x', 'array': 5, 'object': 5}  # of each type, what is not


def strict(schema):
    """Keys that are not described are wrong here, so that a new one cannot be forgotten."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    found = {k: strict(v) for k, v in schema.items()}
    if isinstance(found.get('properties'), dict) and 'type' in found:
        found.setdefault('additionalProperties', False)
    return found


class Description:
    def __init__(self, t, h):
        if not jsonschema:
            raise Skip('no python3-jsonschema')
        self.t, self.h, self.asked, self.seen = t, h, set(), set()
        self.document = h.get('/api/v1/openapi.json')
        self.strict = strict(self.document)

    def wrong(self, schema, value):
        """What does not fit; '' nothing."""
        whole = {**copy.deepcopy(schema), 'components': self.strict['components']}
        found = jsonschema.Draft202012Validator(whole).iter_errors(value)
        return '; '.join(f'{"/".join(map(str, e.absolute_path))}: {e.message[:200]}' for e in list(found)[:3])

    def resolve(self, schema):
        while '$ref' in schema:
            schema = self.strict['components']['schemas'][schema['$ref'].rsplit('/', 1)[1]]
        return schema

    def keys(self, schema):
        """Each described object (by identity, a shared type once) with its keys, as (object, key)."""
        schema = self.resolve(schema)
        found = {(id(schema), key) for key in schema.get('properties', {})}
        for inner in [*schema.get('properties', {}).values(), *schema.get('anyOf', []), schema.get('items'), schema.get('additionalProperties')]:
            if isinstance(inner, dict):
                found |= self.keys(inner)
        return found

    def note(self, schema, value):
        """Which described keys an answer has; null is an answer too."""
        schema = self.resolve(schema)
        for inner in schema.get('anyOf', []):
            self.note(inner, value)
        if isinstance(value, dict):
            for key, v in value.items():
                inner = schema.get('properties', {}).get(key)
                if inner is not None:
                    self.seen.add((id(schema), key))
                else:
                    inner = schema.get('additionalProperties')
                if isinstance(inner, dict):
                    self.note(inner, v)
        elif isinstance(value, list) and isinstance(schema.get('items'), dict):
            for v in value:
                self.note(schema['items'], v)

    def unseen(self):
        """Names of described keys that no answer so far had."""
        names, wanted = {}, set()
        for path, operations in self.strict['paths'].items():
            for method, o in operations.items():
                schema = o['responses']['200']['content'].get('application/json', {}).get('schema')
                if schema:
                    wanted |= self.keys(schema)
                    names.setdefault(id(self.resolve(schema)), f'{method} {path}')
        for name, schema in self.strict['components']['schemas'].items():
            names[id(schema)] = name
        return sorted({f'{names.get(of, "inner object")}: {key}' for of, key in wanted - self.seen})

    def operation(self, method, path):
        """Of a path as it is asked: (the path as described, the operation)."""
        path = path.split('?')[0]
        for pattern, operations in self.strict['paths'].items():
            if re.fullmatch(re.sub(r'\\\{\w+\\\}', '[^/]+', re.escape(pattern)), path) and method.lower() in operations:
                return pattern, operations[method.lower()]
        raise AssertionError(f'{method} {path} is not described')

    def ask(self, method, path, body=None, status=200, headers=None):
        """The answer, which must be as described."""
        pattern, o = self.operation(method, path)
        self.asked.add((method.lower(), pattern))
        if body is not None:
            self.t.equal(f'body of {method} {path}', self.wrong(o['requestBody']['content']['application/json']['schema'], body), '')
        got, found, text = self.h.ask(method, path, body, headers)
        self.t.equal(f'{method} {path}: {text[:200]}', got, status)
        content = o['responses']['200' if status == 200 else 'default']['content']
        kind = found['content-type'].split(';')[0]
        self.t.true(f'type of {method} {path}: {kind}', kind in content, str(list(content)))
        if kind != 'application/json' or 'schema' not in content[kind]:
            return text
        value = json.loads(text)
        self.t.equal(f'answer of {method} {path}', self.wrong(content[kind]['schema'], value), '')
        self.note(content[kind]['schema'], value)
        return value


def references(node):
    if isinstance(node, dict):
        if '$ref' in node:
            yield node['$ref']
        for v in node.values():
            yield from references(v)
    elif isinstance(node, list):
        for v in node:
            yield from references(v)


@case('the document itself is as OpenAPI 3.1 wants it', timeout=60, needs=None)
def document(t):
    d = Description(t, Head(t))
    api, ids = d.document, []
    t.true('its version', re.fullmatch(r'3\.1\.\d+', api['openapi']), api['openapi'])
    t.equal('parts', sorted(api), ['components', 'info', 'openapi', 'paths', 'security'])
    t.true('info', set(api['info']) == {'title', 'version'} and all(api['info'].values()))
    for name, schema in api['components']['schemas'].items():
        t.true(f'name {name}', re.fullmatch(r'[A-Za-z0-9._-]+', name))
        jsonschema.Draft202012Validator.check_schema(schema)
    for r in references(api):
        t.true(f'{r} leads somewhere', r.startswith('#/components/schemas/') and r.rsplit('/', 1)[1] in api['components']['schemas'])
    t.equal('each type is used', sorted({r.rsplit('/', 1)[1] for r in references(api)}), sorted(api['components']['schemas']))
    for path, operations in api['paths'].items():
        t.true(f'{path} begins with /', path.startswith('/'))
        t.equal(f'methods of {path}', set(operations) - METHODS, set())
        for method, o in operations.items():
            what = f'{method} {path}'
            ids.append(o['operationId'])
            t.equal(f'{what}: keys', set(o) - {'operationId', 'summary', 'parameters', 'requestBody', 'responses', 'security', 'x-role'}, set())
            t.true(f'{what}: summary', o['summary'])
            if method == 'delete':  # as `gpuscope session` calls it
                t.match(f'{what}: its word', '^Delete ', o['summary'])
            names = [(p['in'], p['name']) for p in o['parameters']]
            t.equal(f'{what}: each parameter once', len(names), len(set(names)))
            t.equal(f'{what}: those of the path', [n for where, n in names if where == 'path'], re.findall(r'\{(\w+)\}', path))
            for p in o['parameters']:
                t.true(f'{what}: {p["name"]}', p['in'] in ('path', 'query') and p.get('required', False) == (p['in'] == 'path'))
                jsonschema.Draft202012Validator.check_schema(p['schema'])
            t.true(f'{what}: a body only where one is taken', 'requestBody' not in o or method in ('post', 'put'))
            t.equal(f'{what}: answers', sorted(o['responses']), ['200', 'default'])
            for status, r in o['responses'].items():
                t.true(f'{what}: {status} says what comes', r['description'] and r.get('content'))
                for kind, media in r.get('content', {}).items():
                    t.true(f'{what}: type {kind}', re.fullmatch(r'[a-z]+/[a-z0-9.+-]+', kind))
                    if 'schema' in media:
                        jsonschema.Draft202012Validator.check_schema(media['schema'])
    t.equal('an id each', len(ids), len(set(ids)))


def reports(t, h, d):
    p = subprocess.Popen(['sleep', '600'])
    for _ in range(2):
        t.tool('job', '-p', str(p.pid), '-d', '500ms', '--head', h.grpc, '--spool', t.path('reports'), '--machine-id', 'worker', status=0)
    p.kill()
    p.wait()
    wait_until(lambda: len(h.get('/api/v1/job-reports')['reports']) == 2, 60, 'the reports at the head')
    first = d.ask('GET', '/api/v1/job-reports')['reports'][0]['id']
    d.ask('GET', '/api/v1/job-reports?limit=1')
    d.ask('GET', f'/api/v1/job-reports/{first}')
    d.ask('GET', '/api/v1/job-reports/compare?last=2')
    d.ask('GET', '/api/v1/job-reports/77', status=404)


@case('every answer is as described', timeout=300, needs=None, beside='jobs')
def answers(t):
    h = Head(t, '--interval', '200ms')
    of_job = subprocess.Popen(['sleep', '600'], env={**t.env, 'SLURM_JOB_ID': '4711'})
    nodes = [h.node(name, 2, more=f',board=a100,xid=0:31:1,pids={of_job.pid}') for name in ('one', 'two')]
    nodes.append(h.node('three', 1, more=f',idle,pids={of_job.pid}'))  # the job's straggler
    h.wait_gpus(5)
    d = Description(t, h)
    get = lambda path: d.ask('GET', path)  # noqa: E731
    for path in ('/', '/clients', '/metrics/latest', '/api/v1/overview', '/api/v1/nodes', '/api/v1/nodes?limit=1', '/api/v1/gpus', '/api/v1/jobs',
                 '/api/v1/gpus?sort=worst&limit=1', '/api/v1/alerts', '/api/v1/findings', '/api/v1/findings?job=1&holding=1&limit=1', '/api/v1/switches', '/api/v1/openapi.json', '/metrics', '/api/v1/metrics', '/web/app.js'):  # fmt: skip
        get(path)
    # Which of them comes first is not said.
    one = next(n['id'] for n in h.get('/api/v1/nodes')['nodes'] if n['machine_id'] == 'one')
    get(f'/api/v1/nodes/{one}')
    # Keys are seen where there is something: errors of GPUs come two seconds after they happened, processes after GPUs.
    wait_until(lambda: get('/api/v1/alerts')['alerts'], 60, 'an alert')
    wait_until(lambda: any(j['straggler'] for j in get('/api/v1/jobs')['jobs']), 120, 'a job with a straggler')
    wait_until(lambda: h.get('/api/v1/processes')['processes'], 60, 'a process')
    p = get('/api/v1/processes')['processes'][0]
    wait_until(lambda: get(f'/api/v1/processes/{p["node"]}/{p["pid"]}')['gpus'], 60, 'its GPUs')
    get(f'/api/v1/process-series?node={p["node"]}&pid={p["pid"]}&from=-60&points=5')
    cursor = get('/api/v1/heatmap?points=60')['cursor']
    t.true('a part', get(f'/api/v1/heatmap?points=60&since={cursor}')['fresh'] is not None)
    for more in ('', '&from=-3600'):
        wait_until(lambda more=more: get(f'/api/v1/series?node={one}&gpu=0&points=5{more}')['xids'], 60, 'an XID')
    get('/status')
    d.ask('POST', '/profiling/start', {'name': 'run', 'report_metrics': ['gpu_utilization']})
    get('/status')
    d.ask('POST', '/profiling/record', {'app_name': 'a', 'queue_time': 1, 'processing_time': 2.5, 'other_time': {'k': 1}})
    wait_until(lambda: h.get('/api/v1/sessions/run')['samples'] > 3, 60, 'samples')
    get('/profiling/sessions')
    d.ask('POST', '/profiling/stop', {'name': 'run'})
    d.ask('POST', '/api/v1/sessions', {'name': 'two', 'nodes': ['*'], 'metrics': ['utilization_ratio'], 'report_metrics': ['gpu_utilization'],
                                       'interval_seconds': 0.2, 'bandwidth': True, 'nvlink': False})  # fmt: skip
    d.ask('POST', '/api/v1/sessions/two/annotations', {'name': 'epoch', 'kind': 'annotation', 'values': {'loss': 0.5}})
    get('/api/v1/sessions/two/annotations')
    for path in ('', '?limit=1', '?state=active'):
        get('/api/v1/sessions' + path)
    get('/api/v1/sessions/two')
    d.ask('POST', '/api/v1/sessions/two/stop')
    d.ask('POST', '/api/v1/sessions/two/resume')
    d.ask('POST', '/api/v1/sessions/two/stop')
    get('/api/v1/sessions/run/summary')
    for format in ('json', 'csv', 'gst', 'gswarm'):
        pattern, o = d.operation('GET', '/api/v1/sessions/run/export')
        c = h.connection()
        c.request('GET', f'/api/v1/sessions/run/export?format={format}')
        r = c.getresponse()
        d.asked.add(('get', pattern))
        t.true(f'export as {format}', r.status == 200 and r.read() and r.getheader('content-type').split(';')[0] in o['responses']['200']['content'], r.headers)
    status, headers, _ = h.ask('GET', '/api/v1/sessions/run/plot?format=svg')
    pattern, o = d.operation('GET', '/api/v1/sessions/run/plot')
    d.asked.add(('get', pattern))
    # Without cairo the head says so, as described.
    t.true('plot', headers['content-type'].split(';')[0] in o['responses']['200' if status == 200 else 'default']['content'], str(headers))
    reports(t, h, d)
    d.ask('PUT', '/api/v1/switches', {'interval_seconds': 0.5, 'bandwidth': False, 'nvlink': True})
    wait_until(lambda: any(c['p2p_links'] for c in get('/metrics/latest')['client_data'].values()), 60, 'a link between two GPUs')
    c = h.connection()
    c.request('GET', '/api/v1/events')
    pattern, o = d.operation('GET', '/api/v1/events')
    d.asked.add(('get', pattern))
    t.true('events', c.getresponse().getheader('content-type') in o['responses']['200']['content'])
    d.ask('DELETE', '/api/v1/sessions/two')
    d.ask('GET', '/api/v1/sessions/two', status=404)
    d.ask('GET', '/api/v1/nodes/77', status=404)
    d.ask('GET', '/api/v1/nodes?limit=0', status=400)
    recorder(t, h, d)
    # A rank of a job that does not arrive, for a finding.
    ranks = t.start_trace('--head', h.grpc, '--machine-id', 'ranks', '--spool', t.path('spool'), '--summary-only',
                          command=[f'{harness.fake}/stuck', 'sleep', '12000'])  # fmt: skip
    wait_until(lambda: h.get('/api/v1/findings')['findings'], 60, 'a finding')
    get('/api/v1/findings')
    ranks.finish()
    # Steps of four ranks, of which one is the slowest.
    steps = Node(t, h, 'steps', range(4))
    begin_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - 5 * 10**9
    steps.send({None: USUAL}, steps=lambda rank: steps_record(rank, begin_ns, 8, 5))
    wait_until(lambda: any(s['compared_steps'] == 8 for s in get('/api/v1/steps')['steps']), 60, 'steps')
    steps.end()
    described = {(m, path) for path, operations in d.document['paths'].items() for m in operations}
    t.equal('what is described and was not asked here', sorted(described - d.asked), [])
    t.equal('keys that are described and no answer had', d.unseen(), NOT_HERE)
    # The same checks find what is wrong.
    _, o = d.operation('GET', '/api/v1/nodes')
    schema, good = o['responses']['200']['content']['application/json']['schema'], h.get('/api/v1/nodes')
    for change in (lambda v: v.update(new=1), lambda v: v.pop('total'), lambda v: v['nodes'][0].update(name=5), lambda v: v['nodes'][0].pop('states'),
                   lambda v: v['nodes'][0]['states'].update(other=1)):  # fmt: skip
        bad = copy.deepcopy(good)
        change(bad)
        t.true('a mistake is found', d.wrong(schema, bad))
    for n in [*nodes, of_job]:
        n.terminate()


def recorder(t, h, d):
    """A node whose agent records a job."""
    job = subprocess.Popen(['sleep', '600'], env={**t.envs(), 'SLURM_JOB_ID': '991141', 'SLURM_JOBID': '991141'})
    nodes = {n['id'] for n in h.get('/api/v1/nodes')['nodes']}
    a = Agent(t, config_text(more=f'head:\n  addresses: "{h.grpc}"\n  resilient: false\n  machine_id: m1\nrecorder:\n  jobs: "991141*"\n  directory: {t.path("files")}\n'), what='gpus=1')
    new = lambda: {n['id'] for n in h.get('/api/v1/nodes')['nodes']} - nodes  # noqa: E731
    wait_until(new, 60, 'its node')
    place = f'/api/v1/nodes/{min(new())}/recorder'
    wait_until(lambda: h.get(place)['jobs'], 60, 'the job')
    d.ask('POST', f'{place}/all')
    wait_until(lambda: h.get(place)['files'], 60, 'the file')
    name = d.ask('GET', place)['files'][0]['name']
    d.ask('GET', f'{place}/{name}', status=403)  # without a token; recorder_head.py has one
    job.terminate()
    job.wait(30)
    a.stop()


def types(schema):
    kind = schema.get('type', [])
    return [kind] if isinstance(kind, str) else kind


@case('bodies that are not as described are refused', timeout=120, needs=None)
def bodies(t):
    h = Head(t)
    d = Description(t, h)
    h.json('POST', '/api/v1/sessions', {'name': 'run'})
    full = {'app_name': 'a', 'queue_time': 1, 'processing_time': 1}
    n = 0
    for path, operations in d.document['paths'].items():
        for method, o in operations.items():
            if 'requestBody' not in o:
                continue
            schema = o['requestBody']['content']['application/json']['schema']
            asked = path.replace('{id}', 'run')
            t.equal(f'{method} {path} with a list', h.json(method.upper(), asked, '[]')[0], 400)
            for key, kind in schema['properties'].items():
                if not types(kind):
                    continue
                body = {**{k: v for k, v in full.items() if k in schema['properties']}, key: WRONG[[x for x in types(kind) if x != 'null'][0]]}
                t.true(f'{method} {path}: {key} is wrong by the schema', d.wrong(schema, body), str(body))
                t.equal(f'{method} {path} {body}', h.json(method.upper(), asked, body)[0], 400)
                n += 1
            for key in schema['required']:
                body = {k: v for k, v in full.items() if k != key}
                t.equal(f'{method} {path} without {key}', h.json(method.upper(), asked, body)[0], 400)
    t.true('several bodies', n > 12, str(n))


if __name__ == '__main__':
    main()
