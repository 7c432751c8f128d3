"""A head built with -Dgswarm=false has nothing of gswarm-profiler's interface, and everything else (tools/without_gswarm.sh)."""

import json
import os
import subprocess

import harness
from cluster_help import Stubs, messages
from harness import case, main
from page_help import Head

THEIRS = (('GET', '/status', None), ('GET', '/clients', None), ('GET', '/metrics/latest', None),
          ('GET', '/profiling/sessions', None), ('POST', '/profiling/start', {'name': 'a'}))  # fmt: skip


@case('HTTP: their endpoints are not there, ours serve a node and its session', timeout=100, needs=None)
def http(t):
    h = Head(t, '--interval', '200ms')
    node = h.node('one', 2)
    h.wait_gpus(2)
    for method, path, body in THEIRS:
        status, found = h.json(method, path, body)
        t.equal(path, (status, found['error']['code']), (404, 'NOT_FOUND'))
    told = h.get('/api/v1/openapi.json')
    t.equal('nor are they described', [p for p in told['paths'] if not p.startswith(('/api/v1/', '/web/')) and p not in ('/', '/metrics')], [])
    t.equal('our node', [n['machine_id'] for n in h.get('/api/v1/nodes')['nodes']], ['one'])
    t.tool('session', 'start', 'run', '--head', h.grpc, status=0)
    t.tool('session', 'stop', 'run', '--head', h.grpc, status=0)
    t.equal('our session', json.loads(t.tool('session', 'export', 'run', '--head', h.grpc, '-o', '-', status=0).out)['session_name'], 'run')
    node.terminate()
    t.equal('status of the node', node.wait(60), 0)
    t.equal('status of the head', h.stop(), 0)


@case('gRPC: no method of theirs (grpcio)', timeout=100, needs=None)
def grpc_methods(t):
    grpc, _, gs = messages(t)
    h = Head(t)
    with grpc.insecure_channel(h.grpc) as channel:
        try:
            Stubs(channel, gs, 'ProfilerService').GetStatus(gs.Empty(), timeout=300)
            t.fail('GetStatus answers')
        except grpc.RpcError as e:
            t.equal('GetStatus', e.code(), grpc.StatusCode.UNIMPLEMENTED)
    h.stop()


@case('the program has no command lines of theirs under the name gsprof', timeout=60, needs=None)
def gsprof(t):
    name = os.path.join(t.tmp, 'gsprof')
    os.symlink(harness.gpuscope, name)
    r = subprocess.run([name, 'http-status'], capture_output=True, text=True, timeout=300)
    t.equal('status', r.returncode, 2)
    t.match('why', 'no command "http-status"', r.stderr)


if __name__ == '__main__':
    main()
