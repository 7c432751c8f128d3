"""The HTTP API of a head: every endpoint, its keys and statuses, tokens, other sites, events."""

import http.client
import json
import os
import queue
import socket
import subprocess
import time
import urllib.parse

import harness
from certs import certificates
from cluster_help import Stubs, messages
from harness import case, main, read_text, wait_until
from page_help import Head

STATUS = {'freq', 'enable_bandwidth_profiling', 'enable_nvlink_profiling', 'is_profiling', 'output_filename', 'frame_id_counter',
          'connected_clients', 'total_gpus', 'gpu_info'}  # fmt: skip


def has(t, what, found, keys):
    t.equal(what, sorted(set(keys) - set(found)), [])


@case('a session has the counters that its head reads, unless it is told otherwise', timeout=100, needs=None)
def counters(t):
    h = Head(t, '--enable-bandwidth', '--enable-nvlink')
    t.equal('gswarm', h.json('POST', '/profiling/start', {'name': 'a'})[0], 200)
    t.equal('ours', h.json('POST', '/api/v1/sessions', {'name': 'b'})[0], 200)
    t.equal('without', h.json('POST', '/api/v1/sessions', {'name': 'c', 'bandwidth': False, 'nvlink': False})[0], 200)
    t.tool('session', 'start', 'd', '--head', h.grpc)
    found = {s['name']: (s['bandwidth'], s['nvlink']) for s in h.get('/api/v1/sessions')['sessions']}
    t.equal('sessions', found, {'a': (True, True), 'b': (True, True), 'c': (False, False), 'd': (True, True)})


@case('a client of gswarm-profiler sends only the share of memory that is used (grpcio)', timeout=100, needs=None)
def gswarm_memory(t):
    grpc, _, gs = messages(t)
    h = Head(t, '--interval', '200ms')
    sent = queue.Queue()
    with grpc.insecure_channel(h.grpc) as channel:
        stub = Stubs(channel, gs, 'ProfilerService')
        t.true('Connect', stub.Connect(gs.InitialInfo(hostname='old', gpus=[gs.GPUInfo(physical_idx=0, name='G')]), timeout=300).success)
        call = stub.StreamMetrics.future(iter(sent.get, None))

        def told():
            """It is shown while it goes on sending."""
            sent.put(gs.MetricsUpdate(hostname='old', gpus_metrics=[gs.GPUMetric(physical_idx=0, name='G', gpu_util=0.5, mem_util=0.25)],
                                      timestamp=time.time()))  # fmt: skip
            return [g['mem_util'] for c in h.get('/metrics/latest')['client_data'].values() for g in c['gpus_metrics']]

        wait_until(told, 60, 'what it sends')
        t.equal('and it is told', told(), [25])
        sent.put(None)
        call.result(timeout=300)
    h.stop()


@case('the endpoints of gswarm-profiler have its keys', timeout=200, needs=None)
def gswarm(t):
    h = Head(t, '--interval', '200ms')
    node = h.node('one', 3)
    h.wait_gpus(3)
    root = h.get('/')
    has(t, '/', root, {'message', 'version'})
    s = h.get('/status')
    has(t, '/status', s, STATUS)
    t.equal('its figures', (s['freq'], s['is_profiling'], s['total_gpus'], len(s['connected_clients'])), (200, False, 3, 1))
    wait_until(lambda: h.get('/clients')['clients'][0]['status'] == 'healthy', 60, 'a node that is heard of')
    client = s['connected_clients'][0]
    has(t, 'gpu_info', s['gpu_info'][client][0], {'id', 'name', 'physical_idx', 'hostname'})
    c = h.get('/clients')
    t.equal('total_clients', c['total_clients'], 1)
    has(t, 'a client', c['clients'][0], {'client_id', 'hostname', 'gpu_count', 'gpus', 'last_update', 'status'})
    has(t, 'a GPU', c['clients'][0]['gpus'][0], {'memory_total', 'compute_capability'})
    t.equal('status', (c['clients'][0]['client_id'], c['clients'][0]['status']), (client, 'healthy'))
    m = h.get('/metrics/latest')
    has(t, '/metrics/latest', m, {'timestamp', 'client_data'})
    has(t, 'a client of it', m['client_data'][client], {'gpus_metrics', 'p2p_links', 'system_metrics'})
    g = m['client_data'][client]['gpus_metrics'][0]
    has(t, 'a GPU of it', g, {'physical_idx', 'name', 'gpu_util', 'mem_util', 'dram_bw_gbps_rx', 'dram_bw_gbps_tx', 'nvlink_bw_gbps_rx'})
    t.true('percent', g['mem_util'] is not None and 0 <= g['mem_util'] <= 100, g)

    status, r = h.json('POST', '/profiling/record', {'app_name': 'a', 'queue_time': 1, 'processing_time': 2})
    t.equal('a record without a session', (status, r['error']['code']), (404, 'NOT_FOUND'))
    status, r = h.json('POST', '/profiling/start', {'name': 'run', 'report_metrics': ['gpu_utilization']})
    run_id = h.get('/api/v1/sessions/run')['session']['id']
    # No file is written here: where to get what gswarm's head would have written is said instead.
    url = f'/api/v1/sessions/{run_id}/export?format=gswarm'
    t.equal('start', (status, r['success'], r['output_file'], r['export']), (200, True, url, url))
    status, r = h.json('POST', '/profiling/start', {'name': 'run'})
    t.equal('again', (status, r['success'], r['output_file'], r['error']['code']), (409, False, None, 'CONFLICT'))
    s = h.get('/status')
    t.equal('it runs', (s['is_profiling'], s['output_filename']), (True, url))
    for body, wanted in [({'app_name': 'a', 'queue_time': 1, 'processing_time': 2, 'other_time': {'k': '0.5'}}, 200),
                         ({'app_name': '', 'queue_time': 1, 'processing_time': 2}, 400), ({'app_name': 'a', 'queue_time': -1, 'processing_time': 2}, 400),
                         ({'app_name': 'a', 'processing_time': 2}, 400), ({'app_name': 'a', 'queue_time': 1, 'processing_time': 2, 'other_time': []}, 400),
                         ('{', 400), ('[]', 400)]:  # fmt: skip
        t.equal(f'record {body}', h.json('POST', '/profiling/record', body)[0], wanted)
    wait_until(lambda: h.get('/api/v1/sessions/run')['samples'] > 3, 60, 'samples')
    l = h.get('/profiling/sessions')
    t.equal('sessions', (l['total_sessions'], l['active_sessions']), (1, 1))
    has(t, 'a session', l['sessions'][0], {'name', 'is_active', 'active', 'start_time', 'frame_count', 'frames', 'output_file'})
    t.equal('no file of it', l['sessions'][0]['output_file'], url)
    t.equal('unknown', h.json('POST', '/profiling/stop', {'name': 'other'})[0], 404)
    status, r = h.json('POST', '/profiling/stop', {})
    t.equal('stop', (status, r['success'], r['output_file']), (200, True, url))
    frames = h.get(r['export'])['frames']
    t.true('what gswarm wrote', len(frames) > 2 and 'gpu_util' in frames[0], frames[:1])
    status, r = h.json('POST', '/profiling/stop')
    t.equal('nothing to stop', (status, r['success']), (409, False))
    export = h.get('/api/v1/sessions/run/export')
    t.equal('the record', export['request_time_info']['a'], [{'queue_time': 1, 'processing_time': 2, 'other_times': {'k': 0.5}}])
    t.true('frames', len(export['frames']) > 2)
    node.terminate()


@case('files of stopped sessions: they are there when the stop is answered, whoever stops', timeout=120, needs=None)
def files(t):
    folder = t.path('files')
    bad = t.tool('head', '--data', t.path('x'), '--listen', '127.0.0.1:0', '--http-port', '0', '--output-dir', folder, status=1)
    t.match('no such folder', rf"cannot write sessions' files to {folder}: No such file or directory", bad.err)
    os.mkdir(folder)
    h = Head(t, '--interval', '200ms', '--output-dir', folder)
    node = h.node('one', 2)
    h.wait_gpus(2)
    for name, plots in (('a', ['gpu_utilization']), ('b', []), ('c', [])):
        t.equal(f'start {name}', h.json('POST', '/profiling/start', {'name': name, 'report_metrics': plots})[0], 200)
    path = lambda name: os.path.join(folder, name)  # noqa: E731
    t.equal('announced', {s['name']: s['output_file'] for s in h.get('/profiling/sessions')['sessions']},
            {name: path(f'{name}.json') for name in 'abc'})  # fmt: skip
    t.equal('status', h.get('/status')['output_filename'], path('c.json'))
    wait_until(lambda: h.get('/api/v1/sessions/c')['samples'] > 3, 60, 'samples')
    status, r = h.json('POST', '/profiling/stop', {'name': 'a'})
    t.equal('the file', (status, r['output_file']), (200, path('a.json')))
    with open(path('a.json')) as f:
        doc = json.load(f)
    t.true("gswarm's form", len(doc['frames']) > 2 and isinstance(doc['frames'][0]['gpu_util'][0], str), doc['frames'][:1])
    t.equal('of that session', doc['session_name'], 'a')
    wait_until(lambda: os.path.exists(path('a.png')) or h.said(r'session a has no figure: .*cairo'), 60, 'the figure')
    if os.path.exists(path('a.png')):
        with open(path('a.png'), 'rb') as f:
            t.true('the figure', f.read(8) == b'\x89PNG\r\n\x1a\n')
    t.tool('session', 'stop', 'b', '--head', h.grpc)
    wait_until(lambda: os.path.exists(path('b.json')), 60, 'what another command stopped')
    grpc, _, gs = messages(t)
    with grpc.insecure_channel(h.grpc) as channel:
        t.equal('by gRPC', Stubs(channel, gs, 'ProfilerService').StopProfiling(gs.StopProfilingRequest(), timeout=300).success, True)
    t.equal('all of them', {f'{x}.json' for x in 'abc'} - set(os.listdir(folder)), set())
    rest = lambda: [x for x in os.listdir(folder) if not x.endswith(('.json', '.png'))]  # noqa: E731
    wait_until(lambda: not rest(), 60, 'no rest of writing')
    os.unlink(path('a.json'))
    listed = {s['name']: s['output_file'] for s in h.get('/profiling/sessions')['sessions']}
    t.equal('a file that is gone', listed['a'].split('/export')[0].startswith('/api/v1/sessions/'), True)
    t.equal('one that is there', listed['b'], path('b.json'))
    # A folder that cannot be written any more is told, and the stop succeeds.
    os.rename(folder, folder + '2')
    h.json('POST', '/profiling/start', {'name': 'd'})
    status, r = h.json('POST', '/profiling/stop', {})
    t.equal('without a folder', (status, r['success'], r['output_file'] == r['export']), (200, True, True))
    t.true('told', h.said(r'session d has no file: cannot write \S+d\.json: No such file or directory'))
    node.terminate()
    h.stop()


@case('gsprof start leaves files where it was started, for whoever stops a session', timeout=100, needs=None)
def gsprof_files(t):
    program = os.path.join(t.tmp, 'gsprof')
    os.symlink(harness.gpuscope, program)
    page = f'127.0.0.1:{harness.free_port()}'
    head = subprocess.Popen([program, 'start', '--port', str(harness.free_port()), '--http-port', page.split(':')[1], '--anonymous-control'],
                            cwd=t.tmp, env=t.envs(), stderr=subprocess.DEVNULL)  # fmt: skip

    def ask(path, body):
        c = http.client.HTTPConnection(page, timeout=300)
        c.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
        return json.load(c.getresponse())

    def answers():
        try:
            return ask('/profiling/start', {'name': 'curl'})['success']
        except OSError:
            return False

    try:
        wait_until(answers, 60, 'the head')
        t.equal('output_file', ask('/profiling/stop', {'name': 'curl'})['output_file'], t.path('curl.json'))
        t.equal('is there', json.loads(read_text(t.path('curl.json')))['session_name'], 'curl')
    finally:
        head.terminate()
        head.wait(60)


@case('pages of origins that are listed may use the API, and no others (CORS)', timeout=100, needs=None)
def origins(t):
    page = 'http://dashboard.example:3000'
    for wrong in ('dashboard.example', 'ftp://x', 'http://x/path', '*'):
        bad = t.tool('head', '--data', t.path('x'), '--http-origins', wrong, status=2)
        t.match(wrong, r'--http-origins: origins takes origins such as https://grafana\.example:3000', bad.err)
    h = Head(t, '--http-origins', f'https://other.example,{page}')
    asked = {'Origin': page, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'content-type'}
    status, headers, _ = h.ask('OPTIONS', '/profiling/start', headers=asked)
    t.equal('preflight', (status, headers['access-control-allow-origin']), (204, page))
    t.true('what it may', 'POST' in headers['access-control-allow-methods'] and 'Authorization' in headers['access-control-allow-headers'], headers)
    cross = {'Origin': page, 'Sec-Fetch-Site': 'cross-site'}
    status, headers, _ = h.ask('POST', '/profiling/start', {'name': 'from-a-page'}, headers=cross)
    t.equal('start', (status, headers.get('access-control-allow-origin')), (200, page))
    for path in ('/status', '/profiling/sessions', '/none'):
        headers = h.ask('GET', path, headers=cross)[1]
        t.equal(path, (headers.get('access-control-allow-origin'), 'Origin' in headers['vary']), (page, True))
    for origin in ('http://dashboard.example:3001', 'https://dashboard.example:3000', 'http://dashboard.example:3000.evil.example', 'null'):
        other = {'Origin': origin}
        t.true(f'preflight of {origin}', h.ask('OPTIONS', '/profiling/start', headers={**asked, **other})[0] >= 400)
        status, headers, _ = h.ask('POST', '/profiling/stop', {}, headers=other)
        t.equal(origin, (status, 'access-control-allow-origin' in headers), (403, False))
        t.true('nor to read', 'access-control-allow-origin' not in h.ask('GET', '/status', headers=other)[1])
    h.stop()


def check_series(t, h, node, uuid):
    for gpu, start in ((str(0), -60), (uuid, -3600)):
        path = f'/api/v1/series?node={node}&gpu={gpu}&from={start}&points=60&values=utilization_ratio,memory_used_ratio'
        # What a node has sent is shown before it is stored.
        wait_until(lambda path=path: any(x is not None for x in h.get(path)['values']['utilization_ratio']['mean']), 60, path)
        s = h.get(path)
        t.equal('where from', s['source'], 'memory' if start == -60 else 'store')
        v = s['values']['utilization_ratio']
        t.equal('columns', [len(x) for x in (s['time'], v['min'], v['mean'], v['max'])], [60] * 4)
        found = [x for x in zip(v['min'], v['mean'], v['max']) if x[1] is not None]
        t.true('there is something', found)
        t.true('least, mean, most', all(a <= b + 1e-9 and b <= c + 1e-9 and 0 <= a and c <= 1 for a, b, c in found), found)
        t.true('rising times', all(a < b for a, b in zip(s['time'], s['time'][1:])))
    for bad in ('', f'node={node}', f'node={node}&gpu=0&values=x', f'node={node}&gpu=0&from=5&to=4', f'node={node}&gpu=0&points=0',
                f'node={node}&gpu=0&points=1e9', f'node={node}&gpu=0&from=nan'):  # fmt: skip
        t.equal(f'series?{bad}', h.json('GET', '/api/v1/series?' + bad)[0], 400)
    t.equal('unknown node', h.json('GET', '/api/v1/series?node=99&gpu=0')[0], 404)


def check_heat(t, h):
    """What a page makes of a whole heat map and of what is new is the whole one of then."""
    path = '/api/v1/heatmap?points=60&limit=5&value=temperature_celsius'
    whole = h.get(path)
    t.equal('the first is whole', (whole['fresh'], [len(r['v']) for r in whole['rows']]), (None, [60] * 5))

    def grow():
        new = h.get(f'{path}&since={whole["cursor"]}')
        if new['fresh'] is None:  # so long ago that all of it is new
            whole.update(new)
            return False
        t.true('no names again', 'node_name' not in new['rows'][0])
        for old, row in zip(whole['rows'], new['rows']):
            row['v'] = old['v'][new['fresh']:60 - len(row['v']) + new['fresh']] + row['v']
        again = h.get(path)
        return new['fresh'] and again['cursor'] == new['cursor'] and [r['v'] for r in again['rows']] == [r['v'] for r in new['rows']]

    wait_until(grow, 60, 'what is new fits what was there')
    for other in ('points=50&limit=5&value=temperature_celsius', 'points=60&limit=4&value=temperature_celsius', 'points=60&limit=5',
                  'points=60&limit=5&after=1&value=temperature_celsius'):  # fmt: skip
        t.equal(f'others are whole: {other}', h.get(f'/api/v1/heatmap?{other}&since={whole["cursor"]}')['fresh'], None)
    for cursor in ('x', '', '0-0', '-', whole['cursor'].split('-')[0] + '-99999999999999', whole['cursor'] + '0' * 30):
        t.equal(f'no such cursor: {cursor}', h.get(f'{path}&since={cursor}')['fresh'], None)


@case('nodes, GPUs, processes, time: pages, limits, what is not there', timeout=200, needs=None)
def now(t):
    h = Head(t, '--interval', '200ms')
    nodes = [h.node(f'n{i}', 2, more=f',pids={os.getpid()}') for i in range(3)]
    h.wait_gpus(6)
    # The processes of a node may come after its first sample.
    wait_until(lambda: h.get('/api/v1/processes')['total'] == 3, 60, 'the process of each node')
    wanted = sorted(f'{g["node_name"]}:{g["index"]}:{g["name"]}' for g in h.get('/api/v1/gpus')['gpus'])
    t.equal('each GPU of several clients of a host has an id', len(set(wanted)), 6)
    for info in (h.get('/status')['gpu_info'].values(), [c['gpus'] for c in h.get('/clients')['clients']]):
        t.equal("the same in gswarm's answers", sorted(g['id'] for gpus in info for g in gpus), wanted)
    seen, after = [], 0
    while after is not None:
        page = h.get(f'/api/v1/nodes?limit=2&after={after}')
        t.true('no more than asked for', len(page['nodes']) <= 2 and page['total'] == 3)
        seen += [n['id'] for n in page['nodes']]
        after = page['next']
    t.equal('each node once', seen, [1, 2, 3])
    for path in ('gpus', 'heatmap', 'processes'):
        key = {'heatmap': 'rows'}.get(path, path)
        seen, after = [], 0
        total = h.get(f'/api/v1/{path}')['total']
        while after is not None:
            page = h.get(f'/api/v1/{path}?limit=4&after={after}')
            seen += [(x['node'], x['gpu'], x.get('pid')) for x in page[key]]
            after = page['next']
        t.equal(f'each of {path} once', (len(seen), len(set(seen))), (total, total))
    t.equal('an order', h.get('/api/v1/gpus?sort=worst')['total'], 6)
    t.equal('a part of a name', h.get('/api/v1/gpus?q=N1')['total'], 2)
    for path in ('nodes?limit=0', 'nodes?limit=x', 'nodes?limit=2001', 'nodes?after=-1', 'gpus?sort=best', 'heatmap?value=x', 'heatmap?points=0',
                 'sessions?state=x', 'sessions?limit=%00', 'processes?node=x', 'gpus?q=' + 'x' * 200):  # fmt: skip
        status, r = h.json('GET', '/api/v1/' + path)
        t.equal(path[:40], (status, r['error']['code']), (400, 'INVALID_REQUEST'))
    for path in ('/api/v1/nodes/99', '/api/v1/nodes/x', '/api/v1/nodes/1/2', '/api/v1/sessions/none', '/api/v1/sessions/none/export', '/web/nothing.js',
                 '/web/..%2F..%2Fetc%2Fpasswd', '/web/%2e%2e', '/etc/passwd', '/api/v1/sessions/..%2F..%2Fx/export', '/api/v1/sessions/' + 'x' * 600):  # fmt: skip
        status, r = h.json('GET', path)
        t.equal(path[:60], (status, r['error']['code']), (404, 'NOT_FOUND'))
    one = h.get('/api/v1/nodes/1')
    t.equal('its GPUs', len(one['gpu_list']), 2)
    t.true('all values', len(one['gpu_list'][0]['values']) > 20)
    o = h.get('/api/v1/overview')
    t.equal('sums', (o['nodes'], o['gpus'], sum(o['states'].values())), (3, 6, 6))
    wait_until(lambda: any(v >= 0 for v in h.get('/api/v1/heatmap')['rows'][0]['v']), 60, 'the heat map')
    check_series(t, h, 1, one['gpu_list'][0]['uuid'])
    check_heat(t, h)
    t.equal('rows are called as their nodes', {r['node_name'] for r in h.get('/api/v1/heatmap')['rows']}, {n['name'] for n in h.get('/api/v1/nodes')['nodes']})
    nodes[0].terminate()
    wait_until(lambda: h.get('/api/v1/overview')['healthy_nodes'] == 2, 60, 'a node that went')
    wait_until(lambda: any(not n['healthy'] for n in h.get('/api/v1/nodes')['nodes']), 60, 'which it is')
    gone = next(n['id'] for n in h.get('/api/v1/nodes')['nodes'] if not n['healthy'])
    # An answer may be used again for a moment.
    wait_until(lambda: all('its node is not connected' in g.get('reason', '') for g in h.get(f'/api/v1/nodes/{gone}')['gpu_list']), 60,
               'its GPUs say so, whatever else is wrong with them')  # fmt: skip
    wait_until(lambda: any('not connected' in a['text'] for a in h.get('/api/v1/alerts')['alerts']), 60, 'an alert')

    def shown():
        status, _, text = h.ask('GET', '/api/v1/metrics')
        return status == 200 and 'gpuscope_head_nodes 3' in text and 'gpuscope_head_nodes_healthy 2' in text

    wait_until(shown, 60, 'metrics')
    for n in nodes[1:]:
        n.terminate()
    wait_until(lambda: h.get('/api/v1/overview')['healthy_nodes'] == 0, 60, 'all nodes are gone')
    before = [n['samples'] for n in h.get('/api/v1/nodes')['nodes']]
    h.stop()
    h.start()
    after = [n['samples'] for n in h.get('/api/v1/nodes')['nodes']]
    t.true('what is stored of each node is known to the next head', all(0 < x <= y for x, y in zip(before, after)), (before, after))


@case('two instances on a machine: each has one name in answers, files and commands', timeout=120, needs=None)
def one_name(t):
    h = Head(t, '--interval', '200ms')
    nodes = [h.node(name, 1) for name in ('n1', 'n2')]
    h.wait_gpus(2)
    h.json('POST', '/api/v1/sessions', {'name': 's', 'interval_seconds': 0.2, 'nodes': ['*']})
    export = lambda format: h.ask('GET', f'/api/v1/sessions/s/export?format={format}')[2]
    wait_until(lambda: len({line.split(',')[1] for line in export('csv').splitlines()[1:]}) == 2, 60, 'samples of both')
    t.equal('stop', h.json('POST', '/api/v1/sessions/s/stop')[0], 200)
    wanted = {f'{socket.gethostname()}/{name}' for name in ('n1', 'n2')}
    exported, gswarm = json.loads(export('json')), json.loads(export('gswarm'))
    listed = t.tool('session', 'status', '--head', h.grpc, '--json', status=0).out
    for where, names in (
        ('/api/v1/nodes', {n['name'] for n in h.get('/api/v1/nodes')['nodes']}),
        ('/api/v1/gpus', {g['node_name'] for g in h.get('/api/v1/gpus')['gpus']}),
        ('/api/v1/heatmap', {r['node_name'] for r in h.get('/api/v1/heatmap')['rows']}),
        ('session status', {n['name'] for n in json.loads(listed)['nodes']}),
        ('its table', {w for w in t.tool('session', 'status', '--head', h.grpc, status=0).out.split() if w in wanted}),
        ('CSV', {line.split(',')[1] for line in export('csv').splitlines()[1:]}),
        ('JSON', {d.rsplit(':', 2)[0] for d in exported['summary_by_device']}),
        ("gswarm's JSON", {d.rsplit(':', 2)[0] for d in gswarm['summary_by_device']}),
    ):  # fmt: skip
        t.equal(where, names, wanted)
    for n in nodes:
        n.terminate()


@case('command lines: for a token that reads scrubbed, for one that controls as they were kept', timeout=100, needs=None)
def commands(t):
    with open(t.path('roles'), 'w') as f:
        os.fchmod(f.fileno(), 0o600)
        f.write('node deliver-it\nread look-at-it\ncontrol all-of-it\n')
    with open(t.path('deliver'), 'w') as f:
        os.fchmod(f.fileno(), 0o600)
        f.write('deliver-it\n')
    h = Head(t, '--interval', '200ms', '--token-file', t.path('roles'))
    secret = subprocess.Popen(['python3', '-c', 'import time; time.sleep(3600)', '--api-key=S3CRET', '--rank=0'], env=t.envs())
    nodes = [h.node(name, 1, more=f',pids={secret.pid}', args=['--token-file', t.path('deliver'), '--commands', kept])
             for name, kept in (('one', 'scrubbed'), ('two', 'full'), ('three', 'name'))]  # fmt: skip

    def shown(token):
        d = h.json('GET', '/api/v1/processes', headers={'Authorization': f'Bearer {token}'})[1]['processes']
        return {p['node_name'].split('/')[-1]: p['command'].split(' ', 3)[-1] for p in d}

    # What is read of a process may come after its number.
    wait_until(lambda: sorted(map(bool, shown('all-of-it').values())) == [False, True, True], 60, 'three nodes')
    scrubbed = 'time; time.sleep(3600) --api-key=*** --rank=0'
    t.equal('control', shown('all-of-it'), {'one': scrubbed, 'two': 'time; time.sleep(3600) --api-key=S3CRET --rank=0', 'three': ''})
    t.equal('read', shown('look-at-it'), {'one': scrubbed, 'two': scrubbed, 'three': ''})
    # A replayed file shows the node that was last in it: from here on that is the one with everything.
    for p in (nodes[0], nodes[2]):
        p.terminate()
        p.wait(60)
    h.json('POST', '/api/v1/sessions', {'name': 's'}, headers={'Authorization': 'Bearer all-of-it'})
    wait_until(lambda: h.json('GET', '/api/v1/sessions/s', headers={'Authorization': 'Bearer look-at-it'})[1].get('samples', 0) > 5, 60, 'samples')
    for token, wanted in (('all-of-it', True), ('look-at-it', False)):
        c = h.connection()
        c.request('GET', '/api/v1/sessions/s/export?format=gst', headers={'Authorization': f'Bearer {token}'})
        with open(t.path('s.gst'), 'wb') as f:
            f.write(c.getresponse().read())
        found = t.tool('top', '--replay', t.path('s.gst'), '--once', '--format', 'json').out
        t.equal(f'a file for {token}', ('S3CRET' in found, '--api-key' in found), (wanted, True))
    for p in (*nodes, secret):
        p.terminate()


@case('a process, and what it did', timeout=200, needs=None)
def process(t):
    h = Head(t, '--interval', '200ms')
    node = h.node('one', 3, more=f',pids={os.getpid()}:{os.getppid()}')
    h.wait_gpus(3)
    wait_until(lambda: h.get('/api/v1/processes')['total'] >= 2, 60, 'processes')
    pid = os.getpid()
    path = f'/api/v1/processes/1/{pid}'
    wait_until(lambda: h.get(path)['name'] == 'python3' and h.get(path)['host_memory_bytes'], 60, 'what the process is')
    p = h.get(path)
    has(t, 'a process', p, {'node', 'node_name', 'pid', 'running', 'last_seen', 'start_time', 'name', 'user', 'job', 'container', 'command', 'cpu_ratio',
                            'host_memory_bytes', 'gpu_memory_used_bytes', 'sm_ratio', 'gpus', 'threads'})  # fmt: skip
    t.equal('who', (p['pid'], p['running'], p['name'], p['user'], p['command']), (pid, True, 'python3', '', ''))
    # The k-th process is on GPU k % 3, so this one is on the first alone.
    t.equal('its GPUs', [(g['gpu'], g['memory_used_bytes']) for g in p['gpus']], [(0, 1 << 30)])
    t.true('its memory', p['host_memory_bytes'] > 1 << 20, p['host_memory_bytes'])
    wait_until(lambda: any(x is not None for x in h.get(f'/api/v1/process-series?node=1&pid={pid}&from=-60')['values']['cpu_ratio']['mean']), 60, 'its past')
    s = h.get(f'/api/v1/process-series?node=1&pid={pid}&from=-60&points=60')
    for key in ('cpu_ratio', 'host_memory_bytes', 'gpu_memory_used_bytes', 'sm_ratio'):
        t.equal(f'columns of {key}', [len(s['values'][key][c]) for c in ('min', 'mean', 'max')], [60] * 3)
    t.equal('memory on GPUs', {x for x in s['values']['gpu_memory_used_bytes']['mean'] if x is not None}, {float(1 << 30)})
    empty = h.get(f'/api/v1/process-series?node=1&pid={pid}&from=-60&started=1000000000')['values']['cpu_ratio']['mean']
    t.equal('of another process with this number nothing', {x for x in empty}, {None})
    for bad in ('', 'node=1', 'node=1&pid=0', f'node=1&pid={pid}&from=5&to=4', f'node=1&pid={pid}&points=0', f'node=1&pid={pid}&started=x'):
        t.equal(f'process-series?{bad}', h.json('GET', '/api/v1/process-series?' + bad)[0], 400)
    for gone in ('/api/v1/processes/9/1', '/api/v1/processes/1/x', '/api/v1/processes/1/0', '/api/v1/processes/1/99999999999', '/api/v1/processes/1/4194303',
                 '/api/v1/process-series?node=9&pid=1'):  # fmt: skip
        t.equal(gone, h.json('GET', gone)[0], 404)
    node.terminate()
    node.wait(60)
    wait_until(lambda: not h.get(path)['running'], 60, 'it is not said to run when its node has gone')
    node = h.node('one', 3, more=',pids=1')
    wait_until(lambda: h.get('/api/v1/overview')['healthy_nodes'] == 1, 60, 'the node is back')
    wait_until(lambda: h.get('/api/v1/processes')['total'] and all(x['pid'] == 1 for x in h.get('/api/v1/processes')['processes']), 60, 'with another process')
    last = h.get(path)
    t.equal('it was seen', (last['running'], last['name'], last['gpus'][0]['gpu']), (False, 'python3', 0))
    node.terminate()


@case('figures of a session', timeout=200, needs=None)
def plot(t):
    h = Head(t, '--interval', '100ms')
    node = h.node('one', 2)
    h.wait_gpus(2)
    t.equal('start', h.json('POST', '/api/v1/sessions', {'name': 'a b'})[0], 200)
    wait_until(lambda: h.get('/api/v1/sessions/a%20b')['samples'] >= 5, 60, 'samples')
    for bad in ('format=gif', 'panels=x', 'node=x', 'panels=' + 'x' * 200):
        t.equal(bad[:20], h.json('GET', '/api/v1/sessions/a%20b/plot?' + bad)[0], 400)
    t.equal('unknown', h.json('GET', '/api/v1/sessions/none/plot')[0], 404)
    c = http.client.HTTPConnection(h.http, timeout=300)
    c.request('GET', '/api/v1/sessions/a%20b/plot')
    r = c.getresponse()
    body = r.read()
    if r.status == 501:
        t.true('the reason', b'cairo' in body, body)
        return
    t.equal('svg', (r.status, r.getheader('Content-Type'), body[:5]), (200, 'image/svg+xml', b'<?xml'))
    t.true('a name', 'a_b.svg' in r.getheader('Content-Disposition'), r.getheader('Content-Disposition'))
    t.true('nothing in it may run', "default-src 'none'" in r.getheader('Content-Security-Policy'), r.getheader('Content-Security-Policy'))
    for kind, mime, begin in (('png', 'image/png', b'\x89PNG'), ('pdf', 'application/pdf', b'%PDF')):
        c.request('GET', f'/api/v1/sessions/a%20b/plot?format={kind}&panels=utilization,power&node=1')
        r = c.getresponse()
        t.equal(kind, (r.status, r.getheader('Content-Type'), r.read()[: len(begin)]), (200, mime, begin))
    c.request('GET', '/api/v1/sessions/a%20b/plot?node=77')
    r = c.getresponse()
    t.equal('a node without samples', (r.status, json.loads(r.read())['error']['code']), (404, 'NOT_FOUND'))
    # More at once than are drawn: each is answered, by a figure or by "later".
    many = [http.client.HTTPConnection(h.http, timeout=300) for _ in range(12)]
    for m in many:
        m.request('GET', '/api/v1/sessions/a%20b/plot?format=png')
    t.equal('all are answered', {m.getresponse().status for m in many} - {200, 503}, set())
    t.equal('and the head is well', h.json('GET', '/api/v1/overview')[0], 200)
    node.terminate()


@case('sessions: start, stop, resume, mark, export, forget', timeout=200, needs=None)
def sessions(t):
    h = Head(t, '--interval', '200ms')
    node = h.node('one', 2)
    h.wait_gpus(2)
    names = ['a b', 'naïve-ü', 'C:1', 'x+y@z']
    for name in names:
        status, r = h.json('POST', '/api/v1/sessions', {'name': name, 'interval_seconds': 0.2, 'nodes': ['*']})
        t.equal(name, (status, r['session']['name'], r['session']['state']), (200, name, 'active'))
    for name in ('../x', '/etc/passwd', '.hidden', 'a\nb', 'x' * 129, '-x', '<b>', 'a/b'):
        t.equal(repr(name)[:20], h.json('POST', '/api/v1/sessions', {'name': name})[0], 400)
    for body in ({'name': 5}, {'interval_seconds': 0.001}, {'interval_seconds': 'x'}, {'bandwidth': 1}, {'nodes': 'x'}, {'metrics': ['no_such']}, '[1]', 'x'):
        t.equal(str(body), h.json('POST', '/api/v1/sessions', body)[0], 400)
    status, r = h.json('POST', '/api/v1/sessions', {'nam': 'zz'})
    t.equal('a slip starts no session of another name', (status, r['error']['message']), (400, 'unknown key "nam"; did you mean "name"?'))
    page = h.get('/api/v1/sessions?limit=3')
    rest = h.get(f'/api/v1/sessions?limit=3&after={page["next"]}')
    t.equal('pages, newest first', [s['name'] for s in page['sessions'] + rest['sessions']], names[::-1])
    t.equal('the end', rest['next'], None)
    for name in names:
        path = '/api/v1/sessions/' + urllib.parse.quote(name)
        wait_until(lambda: h.get(path)['samples'] > 2, 60, 'samples')
        t.equal('mark', h.json('POST', path + '/annotations', {'name': 'epoch "1"', 'values': {'loss': 0.25}})[0], 200)
        t.equal('no mark', h.json('POST', path + '/annotations', {'name': 'x', 'values': {'loss': 'much'}})[0], 400)
        m = h.get(path + '/annotations')['annotations']
        t.equal('annotations', [(x['kind'], x['name'], x['values']) for x in m], [('annotation', 'epoch "1"', {'loss': 0.25})])
        t.equal('it is active', h.json('DELETE', path)[0], 409)
        t.equal('stop', h.json('POST', path + '/stop')[1]['session']['state'], 'stopped')
        t.equal('stop again', h.json('POST', path + '/stop')[0], 409)
        t.equal('resume', h.json('POST', path + '/resume')[1]['session']['state'], 'active')
        t.equal('stop', h.json('POST', path + '/stop')[0], 200)
        for format in ('json', 'csv', 'gswarm'):
            status, headers, text = h.ask('GET', f'{path}/export?format={format}')
            t.true(f'export {format}', status == 200 and len(text) > 100, (status, text[:100]))
            t.true('as a file', headers['content-disposition'].startswith('attachment; filename="') and '\n' not in headers['content-disposition'])
        t.equal('no format', h.json('GET', path + '/export?format=exe')[0], 400)
        s = h.get(path + '/summary')
        t.equal('summary', (s['complete'], len(s['gpus'])), (True, 2))
        t.true('energy', s['gpus'][0]['energy_joules'] > 0, s['gpus'][0])
        figures = lambda gpus, *keys: sorted([g['uuid'], *(round(g[k], 6) for k in keys)] for g in gpus)

        def same():
            """What was measured before the stop may come between the two."""
            mine, exported = h.get(path + '/summary')['gpus'], json.loads(h.ask('GET', f'{path}/export?format=json')[2])['summary_by_device'].values()
            return (figures(mine, 'samples', 'power_mean_watts', 'power_max_watts', 'temperature_max_celsius', 'energy_joules') ==
                    figures(exported, 'samples', 'avg_power_watts', 'max_power_watts', 'max_temperature_celsius', 'energy_joules'))

        wait_until(same, 20, 'the same figures as in the file')
        t.equal('forget', h.json('DELETE', path)[0], 200)
        t.equal('it is gone', h.json('GET', path)[0], 404)
    t.equal('switches', h.json('PUT', '/api/v1/switches', {'bandwidth': True, 'interval_seconds': 0.5}), (200, {'interval_seconds': 0.5, 'bandwidth': True, 'nvlink': False}))
    t.equal('as the head says', h.get('/status')['enable_bandwidth_profiling'], True)
    node.terminate()


@case('tokens, roles, other sites, odd requests', timeout=120, needs=None)
def refused(t):
    refused_by(t, False)


@case('the same over TLS', timeout=120, needs=None)
def refused_tls(t):
    certificates(t)
    refused_by(t, True)


def refused_by(t, tls):
    path = t.path('tokens')
    with open(path, 'w') as f:
        f.write('read look-at-it\ncontrol do-all-of-it\nnode only-deliver\n')
    os.chmod(path, 0o600)
    h = Head(t, '--token-file', path, tls=tls)
    look, control, deliver = ({'Authorization': f'Bearer {x}'} for x in ('look-at-it', 'do-all-of-it', 'only-deliver'))
    t.equal('none', h.json('GET', '/api/v1/nodes')[0], 401)
    t.equal('wrong', h.json('GET', '/api/v1/nodes', headers={'Authorization': 'Bearer x'})[0], 401)
    t.equal('of a node', h.json('GET', '/api/v1/nodes', headers=deliver)[0], 401)
    t.equal('read', h.json('GET', '/api/v1/nodes', headers=look)[0], 200)
    t.equal('unknown paths tell nothing', h.json('GET', '/api/v2', headers={})[0], 401)
    for open_path in ('/', '/web/app.js', '/api/v1/openapi.json'):
        t.equal(open_path, h.ask('GET', open_path, headers={'Accept': 'text/html'})[0], 200)
    start = ('POST', '/api/v1/sessions', {'name': 's'})
    t.equal('read may not start', h.json(*start, headers=look)[1]['error']['code'], 'FORBIDDEN')
    for more, wanted in (({'Origin': 'http://evil.example'}, 403), ({'Origin': 'null'}, 403), ({'Sec-Fetch-Site': 'cross-site'}, 403),
                         ({'Content-Type': 'text/plain'}, 415), ({'Content-Type': 'application/x-www-form-urlencoded'}, 415),
                         ({'Origin': f'http://{h.http}'}, 403 if tls else 200), ({'Origin': f'http://{h.http}', 'Sec-Fetch-Site': 'same-site'}, 403),
                         ({'Origin': f'{h.scheme}://{h.http}', 'Sec-Fetch-Site': 'same-origin'}, 409 if not tls else 200)):  # fmt: skip
        t.equal(str(more), h.json(*start, headers={**control, **more})[0], wanted)
    t.equal('no GET changes anything', h.json('GET', '/profiling/stop', headers=control)[0], 405)
    t.equal('too large', h.json('POST', '/api/v1/sessions', '{"name": "' + 'x' * 70000 + '"}', headers=control)[0], 413)
    _, headers, _ = h.ask('GET', '/', headers={'Accept': 'text/html', 'Origin': 'http://evil.example'})
    t.true('no other origin is let in', 'access-control-allow-origin' not in headers)
    policy = headers['content-security-policy']
    t.true('policy', "script-src 'self'" in policy and 'unsafe' not in policy and "frame-ancestors 'none'" in policy, policy)
    t.equal('the file is what it is', headers['x-content-type-options'], 'nosniff')
    _, first, text = h.ask('GET', '/web/uplot.js')
    t.equal('known already', h.ask('GET', '/web/uplot.js', headers={'If-None-Match': first['etag']})[0], 304)
    _, small, _ = (lambda c: (c.request('GET', '/web/uplot.js', headers={'Accept-Encoding': 'gzip'}), c.getresponse(), 0))(h.connection())
    t.equal('small on the way', small.getheader('content-encoding'), 'gzip')


@case('names that lead here from elsewhere are refused, for whatever is asked', timeout=60, needs=None)
def rebinding(t):
    h = Head(t, '--http-hosts', 'proxy.example')
    port = h.http.rsplit(':', 1)[1]
    for host, wanted in ((f'evil.example:{port}', 421), (f'{socket.gethostname()}.evil.example:{port}', 421), (f'localhost:{port}', 200),
                         (f'127.0.0.1:{port}', 409), (socket.gethostname(), 409), ('Proxy.example', 409), ('a@localhost', 400)):  # fmt: skip
        t.equal(host, h.json('POST', '/api/v1/sessions', {'name': 's'}, headers={'Host': host})[0], wanted)
    for path in ('/', '/api/v1/nodes', '/api/v1/processes', '/metrics', '/web/app.js', '/api/v1/openapi.json', '/none'):
        t.equal(path, h.ask('GET', path, headers={'Host': 'evil.example'})[0], 421)
    status, said = h.json('GET', '/api/v1/nodes', headers={'Host': 'evil.example'})
    t.match('what to do', r'not known as evil\.example: .* http\.hosts', said['error']['message'])
    t.equal('its code', said['error']['code'], 'MISDIRECTED_REQUEST')


@case('events arrive', timeout=120, needs=None)
def events(t):
    h = Head(t)
    c = http.client.HTTPConnection(h.http, timeout=300)
    c.request('GET', '/api/v1/events')
    r = c.getresponse()
    t.equal('type', r.getheader('content-type'), 'text/event-stream')
    node = h.node('one', 2)

    def event():
        name = data = None
        while True:
            line = r.readline().decode().rstrip('\n')
            if line.startswith('event: '):
                name = line[7:]
            if line.startswith('data: '):
                data = json.loads(line[6:])
            if not line and name:
                return name, data

    t.equal('the first', event()[0], 'hello')
    while True:
        name, data = event()
        if name == 'state' and data['gpus'] == 2 and data['healthy_nodes'] == 1:
            break
    h.json('POST', '/api/v1/sessions', {'name': 's'})
    while event()[1].get('active_sessions') != 1:
        pass
    node.terminate()
    while event()[1].get('healthy_nodes') != 0:
        pass
    t.equal('stop with a listener', h.stop(), 0)


if __name__ == '__main__':
    main()
