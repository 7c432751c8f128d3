#!/usr/bin/env python3
"""Who speaks with whom, as the agent counts it: beside what the servers and clients counted themselves, and what the kernel says of
each connection (TCP_INFO). All on loopback, at ports that the kernel chose."""

import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import harness
from agent_help import Agent, config_text
from harness import Skip, case, main, wait_until

SUMS = ('connections', 'failed_connections', 'open_connections', 'received_bytes', 'sent_bytes', 'sends', 'requests', 'answered_requests')


def start(t, before=(), **keys):
    keys = {'enabled': 'true', **keys}
    return Agent(t, config_text(more='traffic:\n' + ''.join(f'  {k}: {v}\n' for k, v in keys.items())), what='gpus=1', before=before)


def document(a):
    status, _, body = a.get('/api/v1/traffic')
    assert status == 200, status
    return json.loads(body)


def at_port(a, port, side, what='peers', **more):
    """Sums over what the document has of that port and side."""
    found = [x for x in document(a)[what] if x['port'] == port and x['side'] == side and all(x[k] == v for k, v in more.items())]
    return {k: sum(x[k] for x in found) for k in SUMS}


def check(t, what, got, **wanted):
    t.equal(what, {k: got[k] for k in wanted}, wanted)


class Counting:
    """A socket that counts; every call is one of the kernel's."""

    def __init__(self, s):
        self.s, self.sent, self.received, self.sends = s, 0, 0, 0

    def send(self, data):
        n = self.s.send(data)
        self.sent, self.sends = self.sent + n, self.sends + 1
        return n

    def recv(self, n):
        data = self.s.recv(n)
        self.received += len(data)
        return data

    def info(self):
        """(bytes acknowledged, bytes received) by the kernel: tcpi_bytes_acked, tcpi_bytes_received of struct tcp_info
        (include/uapi/linux/tcp.h)."""
        raw = self.s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        return struct.unpack_from('=QQ', raw, 120)


def pair(family=socket.AF_INET, host='127.0.0.1', listener=None):
    """(client, server) of a connection; the listener's port."""
    own = listener or socket.create_server((host, 0), family=family)
    c = socket.create_connection(own.getsockname()[:2])
    s, _ = own.accept()
    port = own.getsockname()[1]
    if not listener:
        own.close()
    return Counting(c), Counting(s), port


def drain(s, total):
    while s.received < total:
        assert s.recv(1 << 16), 'ended early'


def send_all(s, data, parts=1):
    for k in range(parts):
        rest = data[len(data) * k // parts : len(data) * (k + 1) // parts]
        while rest:
            rest = rest[s.send(rest) :]


def ask(c, s, request, answer):
    """One request and its answer, which fit into the buffers."""
    c.send(request)
    drain(s, s.received + len(request))
    send_all(s, answer)
    drain(c, c.received + len(answer))


class Server:
    """A real HTTP/1.1 server with keep-alive, which counts its requests."""

    def __init__(self, t, family=socket.AF_INET, host='127.0.0.1', tls=None, delay_s=0):
        counted = self.counted = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                counted.append(self.path)
                time.sleep(delay_s)
                body = b'x' * int(self.path[1:] or 0)
                self.send_response(200)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            address_family = family
            daemon_threads = True

        self.http = Listener((host, 0), Handler)
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.host, self.port = host, self.http.server_port
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def get(self, n, bytes_each, connection=None):
        c = connection or http.client.HTTPConnection(self.host, self.port)
        for _ in range(n):
            c.request('GET', f'/{bytes_each}')
            assert len(c.getresponse().read()) == bytes_each
        c.close()


@case('requests of kept connections, by IPv4 and IPv6: each counts, from both ends')
def requests(t):
    a = start(t)
    for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
        try:
            server = Server(t, family, host)
        except OSError as e:
            raise Skip(f'needs IPv6 on loopback: {e}') from e
        for n in (1, 7, 30):
            server.get(n, 1000)
        t.equal('the server counted', len(server.counted), 38)
        for side in ('server', 'client'):
            wait_until(lambda: at_port(a, server.port, side)['open_connections'] == 0, 30, 'ends')
            check(t, f'{host} {side}', at_port(a, server.port, side, peer=host), connections=3, failed_connections=0, open_connections=0,
                  requests=38, answered_requests=38)  # fmt: skip
        s, c = (at_port(a, server.port, x) for x in ('server', 'client'))
        t.equal('what one sent the other received', (s['sent_bytes'], s['received_bytes']), (c['received_bytes'], c['sent_bytes']))
    # One that every process can see through: an IPv4 client of a socket for both.
    both = socket.create_server(('::', 0), family=socket.AF_INET6, dualstack_ipv6=True)
    c = socket.create_connection(('127.0.0.1', both.getsockname()[1]))
    s, _ = both.accept()
    ask(Counting(c), Counting(s), b'q', b'a')
    check(t, 'by its IPv4 address', at_port(a, both.getsockname()[1], 'server', peer='127.0.0.1'), requests=1, received_bytes=1, sent_bytes=1)
    a.stop()


@case('bytes, calls and what the kernel counts of the connection: the same')
def exact_bytes(t):
    a = start(t)
    c, s, port = pair()
    for size, parts in ((1, 1), (100000, 7), (3000000, 3)):
        # An answer may be larger than the buffers: the client reads meanwhile.
        client = threading.Thread(target=drain, args=(c, c.received + size))
        client.start()
        c.send(b'r' * 17)
        drain(s, s.received + 17)
        send_all(s, b'a' * size, parts)
        client.join()
    t.equal('they counted the same', (c.received, s.received), (s.sent, c.sent))
    # The last bytes are received before the kernel has their acknowledgement.
    wait_until(lambda: s.info()[0] >= s.sent, 10, 'acknowledged')
    acked, received = s.info()
    check(t, 'server', at_port(a, port, 'server'), sent_bytes=s.sent, received_bytes=s.received, sends=s.sends, requests=3, connections=1,
          open_connections=1)  # fmt: skip
    t.equal('as the kernel counted', (acked, received), (s.sent, s.received))
    check(t, 'client', at_port(a, port, 'client'), sent_bytes=c.sent, received_bytes=c.received, sends=c.sends, requests=3, open_connections=1)
    s.s.close()
    check(t, 'the server has closed', at_port(a, port, 'server'), open_connections=0, sent_bytes=s.sent)
    a.stop()


@case('sendfile, splice, MSG_PEEK, vectors and a shutdown of one side')
def ways(t):
    a = start(t)
    c, s, port = pair()
    with open(t.path('file'), 'wb') as f:
        f.write(b'f' * 50000)
    c.send(b'get')
    t.equal('peeked', s.s.recv(3, socket.MSG_PEEK), b'get')
    s.recv(3)
    with open(t.path('file'), 'rb') as f:
        left = 50000
        while left:
            left -= os.sendfile(s.s.fileno(), f.fileno(), None, left)
    c.s.sendmsg([b'ab', b'cde'])
    r, w = os.pipe()
    got = 0
    while got < 5:
        got += os.splice(s.s.fileno(), w, 5 - got)
    t.equal('spliced', os.read(r, 10), b'abcde')
    c.s.shutdown(socket.SHUT_WR)
    t.equal('its end', s.recv(10), b'')
    s.send(b'last')
    total = 0
    while total < 50004:
        total += len(c.recv(1 << 16))
    s.s.close()
    c.s.close()
    check(t, 'server', at_port(a, port, 'server'), received_bytes=8, sent_bytes=50004, requests=2, open_connections=0, connections=1)
    check(t, 'client', at_port(a, port, 'client'), received_bytes=50004, sent_bytes=8, requests=1, open_connections=0, connections=1)
    a.stop()


@case("a server of MPTCP, as Go's are by default, and its clients of TCP; and the least rights")
def mptcp(t):
    try:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)  # IPPROTO_MPTCP
    except OSError as e:
        raise Skip(f'needs MPTCP: {e}') from e
    listener.bind(('127.0.0.1', 0))
    listener.listen()
    rights = [shutil.which('setpriv'), '--reuid', '65534', '--clear-groups', '--inh-caps', '-all,+cap_38,+cap_39', '--ambient-caps', '-all,+cap_38,+cap_39',
              '--bounding-set', '-all,+cap_38,+cap_39'] if shutil.which('setpriv') else []  # fmt: skip
    a = start(t, before=rights)
    c = socket.create_connection(listener.getsockname())
    s, _ = listener.accept()
    for _ in range(4):
        ask(Counting(c), Counting(s), b'q' * 5, b'a' * 7)
    port = listener.getsockname()[1]
    wanted = {'connections': 1, 'open_connections': 1, 'requests': 4}
    check(t, 'server', at_port(a, port, 'server'), received_bytes=20, sent_bytes=28, **wanted)
    check(t, 'client', at_port(a, port, 'client'), received_bytes=28, sent_bytes=20, **wanted)
    a.stop()


@case('connections that were open before the agent: what they move from then on')
def before(t):
    listener = socket.create_server(('127.0.0.1', 0))
    old = [pair(listener=listener) for _ in range(3)]
    for c, s, _ in old:
        ask(c, s, b'x' * 999, b'y' * 999)
    a = start(t)
    port = old[0][2]
    check(t, 'they are there', at_port(a, port, 'server'), connections=0, open_connections=3, requests=0, received_bytes=0, sent_bytes=0)
    for c, s, _ in old:
        ask(c, s, b'q' * 10, b'a' * 20)
    check(t, 'server', at_port(a, port, 'server'), connections=0, open_connections=3, requests=3, received_bytes=30, sent_bytes=60)
    check(t, 'client', at_port(a, port, 'client'), connections=0, open_connections=3, requests=3, received_bytes=60, sent_bytes=30)
    c, s, _ = pair(listener=listener)
    check(t, 'a new one, not used', at_port(a, port, 'server'), connections=0, open_connections=4)
    s.s.close()
    check(t, 'closed unused', at_port(a, port, 'server'), connections=1, open_connections=3)
    a.stop()


FORKING = """
import os, socket, sys, threading
s = socket.create_server(('127.0.0.1', 0))
print(s.getsockname()[1], flush=True)
def serve(c):
    while data := c.recv(100):
        c.sendall(b'A' * 200)
    c.close()
def accept():
    while True:
        c, _ = s.accept()
        if sys.argv[1] == 'thread':
            threading.Thread(target=serve, args=(c,)).start()
        elif os.fork() == 0:
            serve(c)
            os._exit(0)
        else:
            c.close()
if sys.argv[1] == 'prefork':
    for _ in range(2):
        if os.fork() == 0:
            while True:
                serve(s.accept()[0])
threading.Thread(target=accept).start() if sys.argv[1] != 'prefork' else os.wait()
"""


@case('servers that fork, before or after they accept, or accept in another thread')
def forking(t):
    a = start(t)
    for how in ('fork', 'prefork', 'thread'):
        server = subprocess.Popen([sys.executable, '-c', FORKING, how], stdout=subprocess.PIPE, env=t.envs(), start_new_session=True)
        try:
            port = int(server.stdout.readline())
            clients = [socket.create_connection(('127.0.0.1', port)) for _ in range(2)]
            for k in range(5):
                for c in clients:
                    c.sendall(b'q' * 100)
                    got = 0
                    while got < 200:
                        got += len(c.recv(200))
            wanted = {'connections': 2, 'requests': 10, 'answered_requests': 10, 'received_bytes': 1000, 'sent_bytes': 2000, 'sends': 10}
            check(t, f'{how}: server', at_port(a, port, 'server'), open_connections=2, **wanted)
            for c in clients:
                c.close()
            wait_until(lambda: at_port(a, port, 'server')['open_connections'] == 0, 30, f'{how}: ends')
            check(t, f'{how}: ended', at_port(a, port, 'server'), **wanted)
        finally:
            os.killpg(server.pid, 9)
            server.wait()
    a.stop()


@case('an answer that streams: one request, a send a token; response times are to its first byte')
def streaming(t):
    a = start(t)
    c, s, port = pair()
    for n, wait_s in ((10, 0.05), (25, 0.05)):
        c.send(b'POST /api/generate')
        # Before the server reads: the time in its queue counts.
        time.sleep(wait_s)
        s.recv(100)
        for k in range(n):
            s.send(b'{"response":"%03d"}\n' % k)
        while c.received < s.sent:
            c.recv(1000)
    check(t, 'server', at_port(a, port, 'server'), requests=2, sends=35, answered_requests=2, sent_bytes=s.sent)
    check(t, 'client', at_port(a, port, 'client'), requests=2, answered_requests=2)
    m = a.metrics()
    for side in ('server', 'client'):
        row = [x for x in document(a)['peers'] if x['port'] == port and x['side'] == side][0]
        t.true(f'{side}: not before the server read it', 0.05 <= row['response_seconds_mean'] < 20, row)
        t.true(f'{side}: quantiles', 0.05 <= row['response_seconds_p50'] <= row['response_seconds_p99'], row)
        labels = f'application="python3",side="{side}",port="{port}"'
        buckets = {k: v for k, v in m.items() if k.startswith('gpuscope_traffic_response_seconds_bucket{' + labels)}
        name = {k: v for k, v in m.items() if labels in k and 'response' in k and 'bucket' not in k}
        t.equal(f'{side}: last bucket is the count', [v for k, v in buckets.items() if 'le="+Inf"' in k], [2.0])
        t.equal(f'{side}: none under 50 ms', max(v for k, v in buckets.items() if 'Inf' not in k and float(re.search('le="([^"]+)', k)[1]) < 0.05), 0.0)
        t.true(f'{side}: sum', name[f'gpuscope_traffic_response_seconds_sum{{{labels}}}'] >= 0.1, name)
        t.equal(f'{side}: count', name[f'gpuscope_traffic_response_seconds_count{{{labels}}}'], 2.0)
    a.stop()


@case('TLS: requests count as without, and what sets it up is two more a connection')
def tls(t):
    if not shutil.which('openssl'):
        raise Skip('needs openssl')
    key, cert = t.path('key'), t.path('cert')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert,
                    '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'], check=True, capture_output=True)  # fmt: skip
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.minimum_version = ssl.TLSVersion.TLSv1_3
    own.load_cert_chain(cert, key)
    a = start(t)
    server = Server(t, tls=own)
    for n in (5, 20):
        server.get(n, 500, http.client.HTTPSConnection('127.0.0.1', server.port, context=ssl.create_default_context(cafile=cert)))
    t.equal('the server counted', len(server.counted), 25)
    wait_until(lambda: at_port(a, server.port, 'server')['open_connections'] == 0, 30, 'ends')
    check(t, 'server', at_port(a, server.port, 'server'), requests=25 + 2 * 2, connections=2)
    a.stop()


@case('not counted: Unix sockets, UDP, other ports than those chosen; refused connections are')
def left_out(t):
    first, second = socket.create_server(('127.0.0.1', 0)), socket.create_server(('127.0.0.1', 0))
    a = start(t, ports=f'"{first.getsockname()[1]}, 9"')
    for listener in (first, second):
        c, s, _ = pair(listener=listener)
        ask(c, s, b'q', b'a')
    left, right = socket.socketpair()
    left.send(b'x' * 100)
    right.recv(100)
    u = socket.socket(type=socket.SOCK_DGRAM)
    u.bind(('127.0.0.1', 0))
    u.sendto(b'x', u.getsockname())
    refused = socket.socket()
    t.true('nobody listens at port 9', refused.connect_ex(('127.0.0.1', 9)) != 0)
    d = document(a)
    t.equal('ports', {p['port'] for p in d['ports']}, {first.getsockname()[1], 9})
    check(t, 'refused', at_port(a, 9, 'client'), failed_connections=1, connections=0, open_connections=0, requests=0)
    check(t, 'the chosen one', at_port(a, first.getsockname()[1], 'server'), requests=1, connections=1)
    a.stop()


@case('more peers than there is room for: named ones, the others, and sums that stay true')
def bounded(t):
    listener = socket.create_server(('0.0.0.0', 0))
    port = listener.getsockname()[1]
    a = start(t, ports=f'"{port}"', peers=3, max_peers=16, linger='1s')
    n, series = 60, {}

    def seen():
        m = {k: v for k, v in a.metrics().items() if k.startswith('gpuscope_traffic_') and f'port="{port}"' in k and 'side="server"' in k}
        for k, v in m.items():
            if 'open' not in k:
                t.true(f'{k} never falls', v >= series.get(k, 0), (series.get(k), v))
                series[k] = v
        return m

    for k in range(n):
        c = socket.create_connection((f'127.0.1.{k + 1}', port), source_address=(f'127.0.2.{k + 1}', 0))
        s, _ = listener.accept()
        ask(Counting(c), Counting(s), b'q' * 10, b'a' * 30)
        c.close()
        s.close()
        if k % 10 == 0:
            seen()
    wanted = {'connections': n, 'requests': n, 'received_bytes': 10 * n, 'sent_bytes': 30 * n, 'open_connections': 0}
    wait_until(lambda: at_port(a, port, 'server', 'ports')['open_connections'] == 0, 30, 'ends')
    check(t, 'the port', at_port(a, port, 'server', 'ports'), **wanted)
    check(t, 'the port, clients', at_port(a, port, 'client', 'ports'), connections=n, requests=n, sent_bytes=10 * n, received_bytes=30 * n)
    d = document(a)
    t.true('no more peers than that', len(d['peers']) <= 16, len(d['peers']))
    t.true('what was left out is counted', d['evicted_peers'] + d['unseparated_peers'] > 0, d)
    m = seen()
    lines = {k: v for k, v in m.items() if 'requests_total' in k}
    t.true('at most three named ones and the rest', 1 <= len(lines) <= 4 and any('peer="other"' in k for k in lines), lines)
    t.equal('together', sum(lines.values()), float(n))
    # Rows of what has ended leave the kernel, and there is room again.
    wait_until(lambda: a.metrics()['gpuscope_traffic_peers'] <= 16 and time.sleep(1) is None, 30, 'a round')
    a.stop()


@case('off: no program is loaded, nothing is served; mistakes are one line')
def off(t):
    a = Agent(t, what='gpus=1')
    t.equal('the document', {k: document(a)[k] for k in ('enabled', 'peers')}, {'enabled': False, 'peers': []})
    t.equal('no metrics', [k for k in a.metrics() if 'traffic' in k], [])

    def programs(pid):
        n = 0
        for fd in os.listdir(f'/proc/{pid}/fdinfo'):
            try:
                n += 'prog_id' in harness.read_text(f'/proc/{pid}/fdinfo/{fd}')
            except FileNotFoundError:
                pass  # closed meanwhile
        return n

    t.equal('no program', programs(a.pid), 0)
    a.stop()
    a = start(t)
    wait_until(lambda: programs(a.pid) >= 3, 30, 'its programs')
    a.stop()
    for keys, wanted in (('ports: "http"', 'ports takes .*ports, such as 11434, 8000'), ('ports: "70000"', 'ports takes'), ('peers: x', 'peers takes'), ('max_peers: 1', 'max_peers takes')):
        with open(t.path('bad.yaml'), 'w') as f:
            f.write(config_text(more=f'traffic:\n  {keys}\n'))
        done = t.tool('agent', '--check-config', '-c', t.path('bad.yaml'), status=2)
        t.match('message', wanted, done.err)
        t.equal('one line', len(done.err.strip().splitlines()), 1)


if __name__ == '__main__':
    main()
