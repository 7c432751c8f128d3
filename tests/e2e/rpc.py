"""gRPC between the room rpc (the program rpc_peer) and grpcio, the implementation that everybody has:
a grpcio client of our server, our client of a grpcio server. Messages are bytes on both sides.

usage: rpc.py GPUSCOPE FOLDER_OF_RPC_PEER [CASE...]
"""

import concurrent.futures
import contextlib
import json
import os
import queue
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import warnings

import harness
from certs import certificates
from harness import Skip, case, main, wait_until

MIB = 1 << 20


def grpcio():
    try:
        import grpc
    except ImportError:
        raise Skip('python3 has no grpcio (package python3-grpcio)') from None
    return grpc


def peer(*args):
    return [os.path.join(harness.fake, 'rpc_peer'), *map(str, args)]


class Server:
    """Our server, its lines in a queue."""

    def __init__(self, *args, n_listen=1):
        self.proc = subprocess.Popen(peer('serve', *args), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.addresses = [self.line('listening ') for _ in range(n_listen)]
        self.address = self.addresses[0]

    def read(self):
        for line in self.proc.stdout:
            self.lines.put(line.rstrip('\n'))

    def line(self, start=''):
        """The next line that begins so, without its beginning."""
        while True:
            line = self.lines.get(timeout=300)
            if line.startswith(start):
                return line[len(start) :]

    def tell(self, text):
        self.proc.stdin.write(text + '\n')
        self.proc.stdin.flush()

    def stats(self):
        self.tell('stats')
        return json.loads(self.line('{').join(['{', '']))

    def stop(self, ms=10000):
        self.tell(f'stop {ms}')
        self.line('stopped')
        return self.proc.wait(timeout=30)


@contextlib.contextmanager
def channel_to(address, credentials=None, **options):
    grpc = grpcio()
    args = [('grpc.max_receive_message_length', 64 * MIB), ('grpc.max_send_message_length', 64 * MIB), *options.items()]
    channel = grpc.secure_channel(address, credentials, args) if credentials else grpc.insecure_channel(address, args)
    with channel:
        yield channel


def fails(t, what, grpc, code, text, function):
    try:
        function()
    except grpc.RpcError as e:
        t.equal(what, e.code(), code)
        if text is not None:
            t.equal(what + ': text', e.details(), text)
    else:
        t.fail(f'{what}: no error')


# --- grpcio calls us ---


@case('grpcio calls: unary, answered at once and by another thread', needs=None)
def unary(t):
    s = Server()
    with channel_to(s.address) as c:
        for message in (b'', b'x', b'hello' * 1000, bytes(range(256)) * 4096):
            t.equal(f'{len(message)} bytes', c.unary_unary('/t.T/Echo')(message, timeout=300), message)
        calls = [c.unary_unary('/t.T/Later').future(b'') for _ in range(200)]
        t.equal('later', {call.result(timeout=300) for call in calls}, {b'later'})
    stats = s.stats()
    t.equal('calls', stats['calls'], 204)
    t.equal('status', s.stop(), 0)


@case('grpcio calls: streams in, out and both ways', needs=None)
def streams(t):
    s = Server()
    with channel_to(s.address) as c:
        t.equal('client-streaming', c.stream_unary('/t.T/Sum')((b'x' * n for n in range(1000)), timeout=300), b'1000 499500')
        t.equal('client-streaming, none', c.stream_unary('/t.T/Sum')(iter([]), timeout=300), b'0 0')
        t.equal('server-streaming', [len(m) for m in c.unary_stream('/t.T/Many')(b'300 5000', timeout=300)], [5000] * 300)
        wanted = [b'%d' % n for n in range(500)]
        t.equal('bidirectional', list(c.stream_stream('/t.T/Talk')(iter(wanted), timeout=300)), wanted)
        # One after the other: each answer is there before the next message is sent.
        asked, answers = queue.Queue(), []
        call = c.stream_stream('/t.T/Talk')(iter(asked.get, None), timeout=300)
        for n in range(20):
            asked.put(b'%d' % n)
            answers.append(next(call))
        asked.put(None)
        t.equal('in turn', answers, [b'%d' % n for n in range(20)])
        t.equal('its end', list(call), [])
    s.stop()


@case('grpcio calls: messages of many MiB, and one that is too large', timeout=120, needs=None)
def large(t):
    grpc = grpcio()
    s = Server('--max-message', 20 * MIB)
    with channel_to(s.address) as c:
        data = os.urandom(9 * MIB)
        t.true('9 MiB there and back', c.unary_unary('/t.T/Echo')(data, timeout=300) == data)
        t.equal('7 of 5 MiB', [len(m) for m in c.unary_stream('/t.T/Many')(b'7 5242880', timeout=300)], [5 * MIB] * 7)
        fails(t, 'too large', grpc, grpc.StatusCode.RESOURCE_EXHAUSTED, f'a message of {21 * MIB} bytes is larger than the limit of {20 * MIB}',
              lambda: c.unary_unary('/t.T/Echo')(bytes(21 * MIB), timeout=300))  # fmt: skip
        t.equal('the connection lives', c.unary_unary('/t.T/Echo')(b'x', timeout=300), b'x')
    stats = s.stats()
    t.equal('counted', stats['message too large'], 1)
    t.equal('nothing is held', stats['held_bytes_now'], 0)
    s.stop()


@case('grpcio calls: every status, texts in any script', needs=None)
def statuses(t):
    grpc = grpcio()
    s = Server()
    with channel_to(s.address) as c:
        fail = c.unary_unary('/t.T/Fail')
        for code in grpc.StatusCode:
            if code is not grpc.StatusCode.OK:
                text = f'100% of {code.name}: \u00e4\u4e2d\U0001f600\ttab'
                fails(t, code.name, grpc, code, text, lambda n=code.value[0], x=text: fail(f'{n} {x}'.encode(), timeout=300))
        fails(t, 'unknown method', grpc, grpc.StatusCode.UNIMPLEMENTED, 'there is no such method', lambda: c.unary_unary('/t.T/None')(b''))
        fails(t, 'gzip', grpc, grpc.StatusCode.UNIMPLEMENTED, None,
              lambda: c.unary_unary('/t.T/Echo')(b'x' * 10000, compression=grpc.Compression.Gzip))  # fmt: skip
        t.equal('after all of it', c.unary_unary('/t.T/Echo')(b'x'), b'x')
    s.stop()


@case('grpcio calls: metadata, tokens', needs=None)
def metadata(t):
    grpc = grpcio()
    s = Server()
    with channel_to(s.address, **{'grpc.primary_user_agent': 'tester/1'}) as c:
        answer, call = c.unary_unary('/t.T/Meta').with_call(b'', metadata=[('x-a', '1'), ('x-a', '2'), ('y-bin', b'\0\xff')])
        lines = answer.decode().split('\n')
        t.true('user agent', any(x.startswith('user-agent=tester/1') for x in lines), answer)
        t.true('both values', 'x-a=1' in lines and 'x-a=2' in lines, answer)
        t.true('binary', any(x.startswith('y-bin=AP8') for x in lines), answer)
        t.true('header', ('x-header', 'first') in call.initial_metadata(), call.initial_metadata())
        t.true('trailer', ('x-trailer', 'last') in call.trailing_metadata(), call.trailing_metadata())
        t.true('binary trailer', ('x-some-bin', b'\0\xff\1\xfe') in call.trailing_metadata(), call.trailing_metadata())
        secret = c.unary_unary('/t.T/Secret')
        fails(t, 'no token', grpc, grpc.StatusCode.UNAUTHENTICATED, None, lambda: secret(b''))
        for wrong, code in (('Bearer wrong', 'PERMISSION_DENIED'), ('Bearer', 'UNAUTHENTICATED'), ('Basic secret', 'UNAUTHENTICATED'),
                            ('Bearer secrets', 'PERMISSION_DENIED')):  # fmt: skip
            fails(t, wrong, grpc, grpc.StatusCode[code], None, lambda w=wrong: secret(b'', metadata=[('authorization', w)]))
        t.equal('right', secret(b'x', metadata=[('authorization', 'Bearer secret')]), b'x')
        fails(t, 'metadata of 100 KiB', grpc, grpc.StatusCode.RESOURCE_EXHAUSTED, None,
              lambda: c.unary_unary('/t.T/Echo')(b'', metadata=[(f'k{n}', 'v' * 4000) for n in range(6)]))  # fmt: skip
    t.equal('refused tokens are counted', s.stats()['not allowed'], 5)
    s.stop()


@case('grpcio calls: deadlines and cancelling reach the handler', needs=None)
def deadlines(t):
    grpc = grpcio()
    s = Server()
    with channel_to(s.address) as c:
        hang = c.stream_stream('/t.T/Hang')
        never = threading.Event()

        def one_message():
            yield b''
            never.wait(30)

        call = hang(one_message(), timeout=8)
        fails(t, 'deadline', grpc, grpc.StatusCode.DEADLINE_EXCEEDED, None, lambda: next(call))
        t.equal('the handler knew of it', s.line('hanging '), 'a while')
        t.true('and of the end', s.line('ended ') in ('DEADLINE_EXCEEDED', 'CANCELLED'))
        call = hang(one_message())
        t.equal('no deadline', s.line('hanging '), 'for ever')
        call.cancel()
        t.equal('cancelled', s.line('ended '), 'CANCELLED')
        call = hang(one_message())
        s.line('hanging ')
        never.set()
    t.equal('channel closed', s.line('ended '), 'CANCELLED')
    s.stop()


@case('the server stops: calls that run may end, others get UNAVAILABLE', needs=None)
def stopping(t):
    grpc = grpcio()
    s = Server()
    with channel_to(s.address) as c:
        asked = queue.Queue()
        talk = c.stream_stream('/t.T/Talk')(iter(asked.get, None), timeout=300)
        asked.put(b'before')
        t.equal('before', next(talk), b'before')
        s.tell('stop 600000')

        def gone():
            with socket.socket() as x:
                return x.connect_ex(tuple(s.address.split(':')[:1]) + (int(s.address.split(':')[1]),)) != 0

        wait_until(gone, 20, 'the server listens no more')
        asked.put(b'meanwhile')
        t.equal('goes on', next(talk), b'meanwhile')
        fails(t, 'a new call', grpc, grpc.StatusCode.UNAVAILABLE, None, lambda: c.unary_unary('/t.T/Echo')(b'', timeout=300))
        asked.put(None)
        t.equal('ends well', (list(talk), talk.code()), ([], grpc.StatusCode.OK))
        s.line('stopped')
    s = Server()
    with channel_to(s.address) as c:
        asked = queue.Queue()
        talk = c.stream_stream('/t.T/Talk')(iter(asked.get, None), timeout=300)
        asked.put(b'x')
        next(talk)
        s.stop(0)
        fails(t, 'no grace', grpc, grpc.StatusCode.UNAVAILABLE, None, lambda: next(talk))
        asked.put(None)


@case('grpcio that does not read gets no more than fits, and all of it later', timeout=120, needs=None)
def slow_reader(t):
    grpcio()
    s = Server('--max-queue', 100000)
    with channel_to(s.address) as c:
        call = c.unary_stream('/t.T/Many')(b'20000 10000', timeout=300)
        t.equal('first', len(next(call)), 10000)
        t.true('bounded', s.stats()['queued_bytes_now'] <= 120000)
        t.equal('all', sum(1 for _ in call), 19999)
    s.stop()


@case('rates: a stream is slowed down, a unary call refused', timeout=120, needs=None)
def rates(t):
    grpc = grpcio()
    s = Server('--rate', 5)
    with channel_to(s.address) as c:
        t.equal('a stream gets through', c.stream_unary('/t.T/Sum')((b'x' for _ in range(20)), timeout=300), b'20 20')
        stats = s.stats()
        t.true('slowed down', stats['throttled'] > 0, stats)
        refused = [call.exception(timeout=300) for call in [c.unary_unary('/t.T/Echo').future(b'') for _ in range(400)]]
        codes = {e.code() for e in refused if e}
        t.equal('refused', codes, {grpc.StatusCode.RESOURCE_EXHAUSTED})
    t.equal('counted', s.stats()['too many messages a second'], sum(1 for e in refused if e))
    s.stop()


@case('grpcio calls over TLS, and with certificates of both sides', timeout=120, needs=None)
def tls(t):
    grpc = grpcio()
    certificates(t)

    def read(name):
        with open(t.path(name), 'rb') as f:
            return f.read()

    ca = read('ca.pem')
    s = Server('--cert', t.path('server.pem'), '--key', t.path('server.key'), '--listen', '127.0.0.1:0', '--listen', '127.0.0.1:0', n_listen=2)
    for address in s.addresses:
        with channel_to(address, grpc.ssl_channel_credentials(ca)) as c:
            data = os.urandom(3 * MIB)
            t.true('3 MiB', c.unary_unary('/t.T/Echo')(data, timeout=300) == data)
    with channel_to(s.address) as c:
        fails(t, 'without TLS', grpc, grpc.StatusCode.UNAVAILABLE, None, lambda: c.unary_unary('/t.T/Echo')(b'', timeout=300))
    t.true('counted', s.stats()['handshake failed'] >= 1)
    s.stop()
    s = Server('--cert', t.path('server.pem'), '--key', t.path('server.key'), '--ca', t.path('ca.pem'))
    both = grpc.ssl_channel_credentials(ca, read('client.key'), read('client.pem'))
    with channel_to(s.address, both) as c:
        t.true('identity', b'identity=client\n' in c.unary_unary('/t.T/Meta')(b'', timeout=300))
    with channel_to(s.address, grpc.ssl_channel_credentials(ca)) as c:
        fails(t, 'no certificate', grpc, grpc.StatusCode.UNAVAILABLE, None, lambda: c.unary_unary('/t.T/Echo')(b'', timeout=300))
    s.stop()


def peer_name(t, address, **context):
    """Common name of the server's certificate, as Python's ssl sees it."""
    c = ssl.create_default_context(cafile=t.path('ca.pem'))
    c.set_alpn_protocols(context.get('alpn', ['h2']))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', DeprecationWarning)
        c.maximum_version = context.get('version', ssl.TLSVersion.TLSv1_3)
    host, port = address.split(':')
    with socket.create_connection((host, int(port)), timeout=300) as plain, c.wrap_socket(plain, server_hostname=host) as x:
        return dict(pair[0] for pair in x.getpeercert()['subject'])['commonName']


@case('TLS: certificates are read again; old versions and other protocols are refused', timeout=120, needs=None)
def tls_reload(t):
    certificates(t)
    s = Server('--cert', t.path('server.pem'), '--key', t.path('server.key'))
    t.equal('before', peer_name(t, s.address), 'server')
    shutil.copy(t.path('client.pem'), t.path('server.pem'))
    s.tell('reload')
    t.match('key of another', 'does not belong', s.line('reloaded '))
    t.equal('stays as it was', peer_name(t, s.address), 'server')
    shutil.copy(t.path('client.key'), t.path('server.key'))
    s.tell('reload')
    t.equal('done', s.line('reloaded '), '')
    t.equal('after', peer_name(t, s.address), 'client')
    t.equal('TLS 1.2', peer_name(t, s.address, version=ssl.TLSVersion.TLSv1_2), 'client')
    for what, context in (('TLS 1.1', {'version': ssl.TLSVersion.TLSv1_1}), ('HTTP/1.1', {'alpn': ['http/1.1']})):
        try:
            peer_name(t, s.address, **context)
            t.fail(f'{what} is not refused')
        except (ssl.SSLError, OSError):
            pass
    s.stop()


# --- we call grpcio ---


def serve_grpcio(credentials=None):
    """A grpcio server with the methods of rpc_peer; its address."""
    grpc = grpcio()

    def fail(request, context):
        number, _, text = request.decode().partition(' ')
        context.abort(next(c for c in grpc.StatusCode if c.value[0] == int(number)), text)

    def meta(_, context):
        context.set_trailing_metadata([('x-trailer', 'last')])
        return '\n'.join(f'{k}={v}' for k, v in context.invocation_metadata()).encode()[:99]

    def total(requests, _):
        lengths = [len(r) for r in requests]
        return b'%d %d' % (len(lengths), sum(lengths))

    def many(request, _):
        count, n = map(int, request.split())
        yield from (bytes(n) for _ in range(count))

    def secret(request, context):
        if ('authorization', 'Bearer secret') not in context.invocation_metadata():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, 'who are you?')
        return request

    def remaining(_, context):
        return b'%d' % context.time_remaining()

    handlers = {
        'Echo': grpc.unary_unary_rpc_method_handler(lambda request, _: request),
        'Fail': grpc.unary_unary_rpc_method_handler(fail),
        'Meta': grpc.unary_unary_rpc_method_handler(meta),
        'Secret': grpc.unary_unary_rpc_method_handler(secret),
        'Remaining': grpc.unary_unary_rpc_method_handler(remaining),
        'Sum': grpc.stream_unary_rpc_method_handler(total),
        'Many': grpc.unary_stream_rpc_method_handler(many),
        'Talk': grpc.stream_stream_rpc_method_handler(lambda requests, _: requests),
        'Hang': grpc.stream_stream_rpc_method_handler(lambda requests, context: (threading.Event().wait(3600) for _ in requests)),
    }
    options = [('grpc.max_receive_message_length', 64 * MIB), ('grpc.max_send_message_length', 64 * MIB)]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('t.T', handlers),))
    port = server.add_secure_port('127.0.0.1:0', credentials) if credentials else server.add_insecure_port('127.0.0.1:0')
    server.start()
    return server, f'127.0.0.1:{port}'


def call(address, *args, timeout=60):
    done = subprocess.run(peer('call', address, *args), capture_output=True, text=True, timeout=timeout)
    return done.stdout.split('\n')[:-1]


def ends(t, what, lines, wanted):
    t.equal(what, [x for x in lines if x.startswith('ended')], [wanted])


@case('we call grpcio: unary, streams, large messages', timeout=120, needs=None)
def call_all(t):
    server, address = serve_grpcio()
    lines = call(address, '/t.T/Echo', 1, '=hello')
    t.equal('unary', lines, [f'connected {address}', 'message 5 127791473 hello', 'ended OK ', 'disconnected OK left'])
    t.true('client-streaming', any(x.endswith(' 3000 3000000') for x in call(address, '/t.T/Sum', 3000, 1000)))
    t.equal('server-streaming', sum(x.startswith('message 10000 ') for x in call(address, '/t.T/Many', 1, '=500 10000')), 500)
    t.equal('bidirectional', sum(x.startswith('message 7000 ') for x in call(address, '/t.T/Talk', 300, 7000)), 300)
    lines = call(address, '/t.T/Talk', 3, 6 * MIB)
    t.equal('6 MiB each', sum(x.startswith(f'message {6 * MIB} ') for x in lines), 3)
    ends(t, 'and its end', lines, 'ended OK ')
    server.stop(0)


@case('we call grpcio: errors, metadata, tokens, deadlines', needs=None)
def call_errors(t):
    grpc = grpcio()
    server, address = serve_grpcio()
    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK:
            name = 'CANCELLED' if code is grpc.StatusCode.CANCELLED else code.name
            ends(t, code.name, call(address, '/t.T/Fail', 1, f'={code.value[0]} 50% \u00e4'), f'ended {name} 50% \u00e4')
    t.true('unknown method', any(x.startswith('ended UNIMPLEMENTED') for x in call(address, '/t.T/None', 1, '=x')))
    lines = call(address, '--meta', 'x-a', 'one', '/t.T/Meta', 1, '=x')
    t.true('metadata', 'x-a=one' in ' '.join(lines) and 'trailer last' in lines, lines)
    ends(t, 'token', call(address, '--token', 'secret', '/t.T/Secret', 1, '=x'), 'ended OK ')
    ends(t, 'no token', call(address, '/t.T/Secret', 1, '=x'), 'ended UNAUTHENTICATED who are you?')
    lines = call(address, '--timeout', 100000, '/t.T/Remaining', 1, '=x')
    t.true('the server knows the deadline', any(x.startswith('message ') and 0 < int(x.split()[-1]) <= 100 for x in lines), lines)
    # Whoever is first says it: we or the server.
    lines = call(address, '--timeout', 300, '/t.T/Hang', 1, '=x')
    t.true('deadline', any(x.startswith('ended DEADLINE_EXCEEDED ') for x in lines), lines)
    server.stop(0)
    lines = call(address, '/t.T/Echo', 1, '=x')
    t.true('nobody there', any('Connection refused' in x for x in lines), lines)


@case('we call grpcio: it stops in the middle of a stream', needs=None)
def call_stopping(t):
    grpcio()
    server, address = serve_grpcio()
    proc = subprocess.Popen(peer('call', address, '/t.T/Hang', 1, '=x'), stdout=subprocess.PIPE, text=True)
    t.equal('connected', proc.stdout.readline(), f'connected {address}\n')
    server.stop(0)
    lines = proc.communicate(timeout=60)[0].split('\n')
    t.true('the call ends', any(x.startswith(('ended UNAVAILABLE', 'ended CANCELLED')) for x in lines), lines)
    t.true('the connection too', any(x.startswith('disconnected ') for x in lines), lines)


@case('we call grpcio over TLS, and with certificates of both sides', timeout=120, needs=None)
def call_tls(t):
    grpc = grpcio()
    certificates(t)

    def read(name):
        with open(t.path(name), 'rb') as f:
            return f.read()

    pair, ca = (read('server.key'), read('server.pem')), read('ca.pem')
    trust = ('--tls', '--ca', t.path('ca.pem'))
    own = ('--cert', t.path('client.pem'), '--key', t.path('client.key'))
    server, address = serve_grpcio(grpc.ssl_server_credentials([pair]))
    ends(t, 'TLS', call(address, *trust, '/t.T/Echo', 1, 2 * MIB), 'ended OK ')
    ends(t, 'by name', call('localhost:' + address.split(':')[1], *trust, '/t.T/Echo', 1, '=x'), 'ended OK ')
    lines = call(address, *trust, '--name', 'other.example', '/t.T/Echo', 1, '=x')
    t.true('another name', any('certificate is not accepted' in x for x in lines), lines)
    lines = call(address, '--tls', '/t.T/Echo', 1, '=x')
    t.true('unknown authority', any('certificate is not accepted' in x for x in lines), lines)
    server.stop(0)
    server, address = serve_grpcio(grpc.ssl_server_credentials([pair], ca, True))
    ends(t, 'both', call(address, *trust, *own, '/t.T/Echo', 1, '=x'), 'ended OK ')
    lines = call(address, *trust, '/t.T/Echo', 1, '=x')
    t.true('without ours', any(x.startswith('disconnected UNAVAILABLE') for x in lines), lines)
    server.stop(0)


@case('what is no gRPC: garbage, HTTP/1.1, GET, other types', timeout=120, needs=None)
def garbage(t):
    s = Server()
    host, port = s.address.split(':')
    for data in (os.urandom(4000), b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\xff' * 2000):
        with socket.create_connection((host, int(port))) as x:
            x.sendall(data)
            x.settimeout(30)
            with contextlib.suppress(ConnectionError):
                while x.recv(4096):
                    pass
    counted = lambda: sum(s.stats()[k] for k in ('handshake failed', 'protocol error'))  # noqa: E731
    wait_until(lambda: counted() >= 3, 20, 'what was counted')
    t.equal('counted', counted(), 3)
    wait_until(lambda: s.stats()['connections_now'] == 0, 20, 'none is left')
    if not shutil.which('curl'):
        t.note('curl is not installed: GET and other types are not tried')
        return
    for status, *args in (['405'], ['415', '-X', 'POST', '-H', 'content-type: application/json']):
        done = subprocess.run(['curl', '-s', '-o', os.devnull, '-w', '%{http_code}', '--http2-prior-knowledge', *args, f'http://{s.address}/t.T/Echo'],
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        t.equal('HTTP status', done.stdout, status)
    s.stop()


if __name__ == '__main__':
    main()
