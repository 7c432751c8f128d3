"""Whom a head believes: users of its machine by the kernel's word, nodes by their tokens and certificates."""

import grp
import json
import os
import pwd
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import harness
from certs import certificates
from cluster_help import Head, Stubs, messages, nvml
from harness import Live, Skip, case, main, wait_until


def run_as(user, *words, env=None):
    """gpuscope as another user; its status, and what it says."""
    who = pwd.getpwnam(user)
    done = subprocess.run([harness.gpuscope, *words], capture_output=True, text=True, timeout=60, cwd='/', user=who.pw_uid, group=who.pw_gid,
                          extra_groups=[], env={'PATH': os.environ['PATH'], **(env or {})})  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def needs_users():
    if os.geteuid() != 0:
        raise Skip('needs root: commands of several users')
    if run_as('nobody', '--version')[0] != 0:
        raise Skip(f'{harness.gpuscope} cannot be run by others')


def post(address, path, body):
    r = urllib.request.Request(f'http://{address}{path}', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    try:
        return urllib.request.urlopen(r, timeout=300).status
    except urllib.error.HTTPError as e:
        return e.code


@case('without tokens only root and the user of a head control it, others read', timeout=60, needs=None)
def control(t):
    needs_users()
    page = f'127.0.0.1:{harness.free_port()}'
    h = Head(t, '--http-port', page.rpartition(':')[2])
    h.session('start', 'one')
    status, said = run_as('nobody', 'session', 'start', 'evil', '--head', h.address)
    t.equal('status of another user', status, 3)
    t.match('what to do', r'only root and the user who runs the head .*--token-file, or --anonymous-control', said)
    t.match('others look', r'one +active', run_as('nobody', 'session', 'list', '--head', h.address)[1])
    for words in (('stop', 'one'), ('delete', 'one'), ('set', '--enable-nvlink'), ('annotate', 'x')):
        t.equal(' '.join(words), run_as('nobody', 'session', *words, '--head', h.address)[0], 3)
    socket = f'/run/gpuscope-head/head-{h.port}.sock'
    t.equal('the socket', oct(os.stat(socket).st_mode & 0o777), '0o600')
    t.match('is for its owner', 'Permission denied', run_as('nobody', 'session', 'stop', 'one', '--head', f'unix:{socket}')[1])
    t.equal('HTTP', post(page, '/api/v1/sessions', {'name': 'evil'}), 403)
    t.equal("gswarm's HTTP", post(page, '/profiling/start', {'name': 'evil'}), 403)
    # Over TCP root too is only an address: a token that the head does not ask for keeps us from its socket.
    token = secret(t, 'token', 'any-token\n')
    t.match('over TCP', 'without tokens', h.session('start', 'evil', '--token-file', token, status=3).err)
    h.session('stop', 'one')
    t.equal('sessions', [s['name'] for s in json.loads(h.session('list', '--format', 'json').out)['sessions']], ['one'])
    h.stop()
    t.true('the socket goes with it', not os.path.exists(socket))


READING = {'ListSessions', 'ExportSession', 'GetHead', 'ListJobReports', 'ListFindings', 'ListSteps', 'GetStatus', 'ReadClusterStatus', 'ReadNodeStatus'}
DELIVERING = {'Link', 'Connect', 'StreamMetrics'}  # what a node does; which one is asked elsewhere


@case('without tokens no method of gRPC changes anything over TCP', timeout=60, needs=None)
def control_by_grpc(t):
    grpc, gp, gs = messages(t)
    h = Head(t)
    h.session('start', 'one')
    refused, taken = set(), set()
    with h.channel() as channel:
        for module, service in [(m, name) for m in (gp, gs) for name in m.DESCRIPTOR.services_by_name]:
            stubs = Stubs(channel, module, service)
            for method in module.DESCRIPTOR.services_by_name[service].methods:
                if method.name in DELIVERING:
                    continue
                request = getattr(module, method.input_type.name)()
                if 'name' in method.input_type.fields_by_name:
                    request.name = 'one'
                try:
                    answer = getattr(stubs, method.name)(request, timeout=300)
                    if method.name == 'ExportSession':
                        list(answer)
                    taken.add(method.name)
                except grpc.RpcError as e:
                    if e.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
                        refused.add(method.name)
                    else:
                        taken.add(method.name)  # its answer is that there is no such thing
    t.equal('who only reads', taken, READING)
    t.equal('refused', refused, {'StartSession', 'StopSession', 'ResumeSession', 'DeleteSession', 'AddAnnotation', 'Set', 'StartProfiling',
                                 'StopProfiling', 'Exit', 'SetBandwidthProfiling', 'SetNVLinkProfiling'})  # fmt: skip
    t.match('the session goes on', r'one +active', h.session('list').out)
    t.equal('sessions', len(json.loads(h.session('list', '--format', 'json').out)['sessions']), 1)
    h.stop()


@case("a user's own head, and a group's", timeout=60, needs=None)
def owners(t):
    needs_users()
    os.chmod(t.tmp, 0o755)
    home = t.path('home')
    os.makedirs(home)
    who = pwd.getpwnam('nobody')
    os.chown(home, who.pw_uid, who.pw_gid)
    words = ['setpriv', f'--reuid={who.pw_uid}', f'--regid={who.pw_gid}', '--clear-groups', harness.gpuscope, 'head', '--listen', '127.0.0.1:0',
             '--http-port', '0']  # fmt: skip
    live = Live(t, lambda _: words, env=t.envs({'HOME': home, 'XDG_RUNTIME_DIR': ''}))
    live.wait_err(r'head on \S+', 60)
    address = live.err_text().split('head on ')[1].split(',')[0]
    t.equal('its user', run_as('nobody', 'session', 'start', 'own', '--head', address, env={'HOME': home})[0], 0)
    t.equal('another', run_as('daemon', 'session', 'stop', 'own', '--head', address, env={'HOME': '/'})[0], 3)
    path = f'{home}/.local/state/gpuscope/head-{address.split(":")[1]}.sock'
    t.equal('root', t.tool('session', 'stop', 'own', '--head', f'unix:{path}').status, 0)
    live.proc.kill()
    live.finish()

    conf, socket = t.path('head.yaml'), t.path('h.sock')
    with open(conf, 'w', encoding='utf-8') as f:
        f.write(f'nodes:\n  control_socket: "{socket}"\n  control_group: {grp.getgrgid(pwd.getpwnam("daemon").pw_gid).gr_name}\n')
    h = Head(t, '--config', conf)
    t.equal('of the group', run_as('daemon', 'session', 'start', 'ours', '--head', f'unix:{socket}')[0], 0)
    t.equal('not of it', run_as('nobody', 'session', 'stop', 'ours', '--head', f'unix:{socket}')[0], 1)
    h.kill()
    h.start()  # the socket that was left is no hindrance
    t.equal('again', run_as('daemon', 'session', 'stop', 'ours', '--head', f'unix:{socket}')[0], 0)
    h.stop()


class Host:
    """gpuscope connect on a host of this name, with this machine id; what came of it."""

    def __init__(self, t, h, hostname, machine, *options):
        if os.geteuid() != 0:
            raise Skip('needs root: hosts are UTS namespaces')
        self.t, self.spool = t, t.path(f'spool{t.n_files}')
        t.n_files += 1
        words = ['unshare', '--uts', 'sh', '-c', f'hostname {hostname}; exec "$@"', 'sh', harness.gpuscope, 'connect', h.address, '--nvml', nvml(),
                 '--resilient', '--interval', '100', '--spool', self.spool, '--machine-id', machine, *options]  # fmt: skip
        self.live = Live(t, lambda _: words, env=t.envs())

    def end(self, pattern):
        self.live.wait_err(pattern, 30)
        self.live.interrupt(signal.SIGTERM)
        self.live.finish()


def secret(t, name, text):
    with open(t.path(name), 'w', encoding='utf-8', opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(text)
    return t.path(name)


def nodes(data):
    with sqlite3.connect(f'file:{data}/head.db?mode=ro', uri=True) as db:
        return sorted(db.execute('SELECT machine_id, hostname FROM node'))


@case('a token of one node delivers as no other, under no name and no machine id', timeout=90, needs=None)
def stolen(t):
    secret(t, 'tokens', 'node token-of-node7 node7\nnode token-of-racks rack[0-9]*,gpu1.example\nnode token-of-all\ncontrol token-of-root\n')
    h = Head(t, '--interval', '100ms', '--token-file', t.path('tokens'))
    own, racks, shared = (('--token-file', secret(t, name, f'token-of-{name}\n')) for name in ('node7', 'racks', 'all'))
    good = 'connected to the head'
    Host(t, h, 'node7', 'm7', *own).end(good)
    Host(t, h, 'node8', 'm8', *shared).end(good)
    Host(t, h, 'rack12', 'm12', *racks).end(good)
    Host(t, h, 'gpu1', 'm1', *racks).end(good)
    wait_until(lambda: len(nodes(h.data)) == 4, 20, 'four nodes')
    before = nodes(h.data)
    Host(t, h, 'node8', 'm9', *own).end('this token is for node node7, not for node8')
    Host(t, h, 'node7', 'm8', *own).end('machine id m8 is that of node node8 here')
    Host(t, h, 'rack', 'm13', *racks).end(r'for node rack\[0-9\]\*,gpu1\.example, not for rack')
    # A token of all nodes is of none that has one of its own.
    Host(t, h, 'node7', 'm14', *shared).end('node7 has a token of its own')
    Host(t, h, 'node9', 'm7', *shared).end('machine id m7 is that of node node7 here')
    t.equal('nodes', nodes(h.data), before)
    t.match('the head says so', 'node8, from .*, is refused: this token is for node node7', h.live.err_text())
    for text, why in (('read token-read-it x\n', 'only node tokens may name nodes'), ('node token-of-x a b\n', 'a line is ROLE TOKEN')):
        t.match(text, why, t.tool('head', '--listen', '127.0.0.1:0', '--data', t.path('x'), '--token-file', secret(t, 'bad', text)).err)


@case('a certificate of one node delivers as no other', timeout=60, needs=None)
def stolen_certificate(t):
    certificates(t)
    tls = ('--cert', t.path('server.pem'), '--key', t.path('server.key'), '--client-ca', t.path('ca.pem'))
    mine = ('--ca', t.path('ca.pem'), '--cert', t.path('client.pem'), '--key', t.path('client.key'))
    h = Head(t, '--interval', '100ms', *tls)
    Host(t, h, 'client', 'm1', *mine).end('connected to the head')
    Host(t, h, 'node8', 'm2', *mine).end('this certificate is for .*client, not for node8')
    h.stop()
    with open(t.path('head.yaml'), 'w', encoding='utf-8') as f:
        f.write('nodes:\n  certificate_names: false\n')
    h = Head(t, '--interval', '100ms', '--config', t.path('head.yaml'), *tls)
    Host(t, h, 'node8', 'm2', *mine).end('connected to the head')


S3CRET = 'pass --api-key=S3CRET --rank=0'


def deliver(t, head, token=None):
    """A job's report and a trace, both with a command that its node kept in full."""
    grpc, gp, _ = messages(t)
    now = time.time_ns()
    text = S3CRET.encode()
    record = struct.pack('<HHIII', (16 + len(text) + 7) // 8 * 8, 2, 0, 1, len(text)) + text
    report = json.dumps({'delivery': {'report': 'r1', 'state': 'finished', 'source': 'job', 'kind': 'tree', 'begin_wall_ns': now,
                                      'end_wall_ns': now + 1}, 'jobs': [{'job_id': '1', 'user': 'u', 'command': S3CRET}]})  # fmt: skip
    for kind, data in ((gp.STREAM_KIND_TRACE, record), (gp.STREAM_KIND_JOBS, report.encode())):
        data += (b'\0' if kind == gp.STREAM_KIND_TRACE else b' ') * (-len(data) % 8)
        welcomed, stored = threading.Event(), threading.Event()

        def say():
            yield gp.ToHead(hello=gp.Hello(protocol=1, machine_id='m', hostname='gpu7', stream=kind, kind=kind))
            welcomed.wait(300)
            yield gp.ToHead(batch=gp.Batch(seq=1, first_wall_ns=now, last_wall_ns=now + 1, records=data, raw_bytes=len(data), sample_count=1))
            stored.wait(300)

        with head.channel() as channel:
            for m in Stubs(channel, gp, 'Node').Link(say(), timeout=300, metadata=bearer(token)):
                if m.WhichOneof('body') == 'welcome':
                    welcomed.set()
                t.true('it is taken', m.WhichOneof('body') != 'reject', m)
                if m.WhichOneof('body') == 'ack':
                    break
            stored.set()


def bearer(token):
    return [('authorization', f'Bearer {token}')] if token else []


def seen(t, head, token=None):
    """What a caller over TCP gets: the command in the report, bytes of the export, traces left out of it."""
    _, gp, _ = messages(t)
    with head.channel() as channel:
        control = Stubs(channel, gp, 'Control')
        found = control.ListJobReports(gp.JobReportQuery(), timeout=300, metadata=bearer(token)).reports[0].document
        parts = list(control.ExportSession(gp.ExportRequest(session='s', format=gp.EXPORT_FORMAT_GST), timeout=300, metadata=bearer(token)))
    files = [p.file for p in parts if p.file]
    with open(t.path('out.gst'), 'wb') as f:
        f.write(b''.join(p.data for p in parts[parts.index(next(p for p in parts if p.file == files[-1])):]))
    return json.loads(found)['jobs'][0]['command'], len(files), sum(p.traces_left_out for p in parts), gst_texts(t.path('out.gst'))


def gst_texts(path):
    """The texts of a trace file; of the samples' file those that are commands here."""
    run = subprocess.run([sys.executable, os.path.join(harness.HERE, '..', 'gst.py'), path], capture_output=True, text=True, timeout=60, check=False)
    return [r['text'] for r in map(json.loads, run.stdout.splitlines()) if r['kind'] == 'STRING' and 'api-key' in r['text']]


@case('reports and exports over gRPC: commands as far as the caller is known, traces not to strangers', timeout=120, needs=None)
def exports(t):
    scrubbed = 'pass --api-key=*** --rank=0'
    h = Head(t)
    h.session('start', 's')
    deliver(t, h)
    t.equal('a stranger', seen(t, h), ('', 1, 1, []))
    h.session('export', 's', '--format', 'gst', '-o', t.path('mine.gst'))
    t.equal('the user of the head', gst_texts(t.path('s-gpu7-1.gst')), [S3CRET])
    h.by_network_alone()
    run = h.session('export', 's', '--format', 'gst', '-o', t.path('theirs.gst'))
    t.match('it is said', 'left out 1 trace: .*--token-file', run.err)
    h.stop()

    h = Head(t, '--token-file', secret(t, 'tokens', 'node token-of-node\nread token-of-reader\ncontrol token-of-root\n'))
    h.session('start', 's')
    deliver(t, h, 'token-of-node')
    t.equal('who reads', seen(t, h, 'token-of-reader'), (scrubbed, 2, 0, [scrubbed]))
    t.equal('who controls', seen(t, h, 'token-of-root'), (S3CRET, 2, 0, [S3CRET]))
    h.stop()


if __name__ == '__main__':
    main()
