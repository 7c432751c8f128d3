"""Receivers of OTLP over HTTP and gRPC, which decode by the published definitions (opentelemetry/)."""

import concurrent.futures
import http.server
import importlib
import os
import shutil
import subprocess
import sys
import threading

from harness import Skip

HERE = os.path.dirname(os.path.abspath(__file__))
SIGNALS = ('metrics', 'logs', 'trace')
PATHS = {'/v1/metrics': 'metrics', '/v1/logs': 'logs', '/v1/traces': 'trace'}
ITEMS = {'metrics': ('resource_metrics', 'scope_metrics', 'metrics'), 'logs': ('resource_logs', 'scope_logs', 'log_records'),
         'trace': ('resource_spans', 'scope_spans', 'spans')}  # fmt: skip


def definitions(t):
    """signal -> module of its service's messages."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise Skip('python3 has no protobuf (package python3-protobuf)') from None
    if not shutil.which('protoc'):
        raise Skip('protoc is not installed')
    out = t.path('otlp-messages')
    if not os.path.isdir(out):
        os.mkdir(out)
        files = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(HERE, 'opentelemetry')) for name in names
                 if name.endswith('.proto')]  # fmt: skip
        subprocess.run(['protoc', f'--proto_path={HERE}', f'--python_out={out}', *files], check=True)
        sys.path.insert(0, out)
    return {s: importlib.import_module(f'opentelemetry.proto.collector.{s}.v1.{s}_service_pb2') for s in SIGNALS}


def request_of(modules, signal):
    return getattr(modules[signal], f'Export{signal.title()}ServiceRequest')


def attributes(owner):
    return {a.key: getattr(a.value, a.value.WhichOneof('value')) for a in owner.attributes}


class Received:
    """Requests by signal; all() has (attributes of the resource, item) of each."""

    def __init__(self, modules):
        self.modules, self.lock = modules, threading.Lock()
        self.requests = {s: [] for s in SIGNALS}

    def take(self, signal, body):
        request = request_of(self.modules, signal).FromString(body)
        with self.lock:
            self.requests[signal].append(request)

    def all(self, signal):
        resources, scopes, items = ITEMS[signal]
        with self.lock:
            requests = list(self.requests[signal])
        return [(attributes(r.resource), item) for q in requests for r in getattr(q, resources) for s in getattr(r, scopes)
                for item in getattr(s, items)]  # fmt: skip

    def latest(self):
        """The metrics of the last request by name."""
        with self.lock:
            q = self.requests['metrics'][-1] if self.requests['metrics'] else None
        return {m.name: m for r in q.resource_metrics for s in r.scope_metrics for m in s.metrics} if q else {}


def points(metric):
    """(attributes, value) of a metric's points."""
    data = getattr(metric, metric.WhichOneof('data'))
    return [(attributes(p), p.as_double) for p in data.data_points]


class HttpCollector(Received):
    """answers: what is answered next, (status, body); then 200."""

    def __init__(self, t):
        super().__init__(definitions(t))
        collector, self.answers, self.heads = self, [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                status, answer = collector.answers.pop(0) if collector.answers else (200, b'')
                collector.heads.append((self.path, dict(self.headers), status))
                if status == 200:
                    collector.take(PATHS[self.path], body)
                self.send_response(status)
                self.send_header('Content-Type', 'application/x-protobuf')
                self.send_header('Content-Length', str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}'


class GrpcCollector(Received):
    """By grpcio. fail: (code, text) of what is answered next, then success; certificates: (key, certificate) in PEM."""

    def __init__(self, t, certificates=None):
        super().__init__(definitions(t))
        try:
            import grpc
        except ImportError:
            raise Skip('python3 has no grpcio (package python3-grpcio)') from None
        self.fail, self.calls, self.answer = [], [], {}
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        for s in SIGNALS:
            handler = grpc.unary_unary_rpc_method_handler(lambda body, context, s=s: self.export(s, body, context))
            name = f'opentelemetry.proto.collector.{s}.v1.{s.title()}Service'
            self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {'Export': handler}),))
        if certificates:
            port = self.server.add_secure_port('127.0.0.1:0', grpc.ssl_server_credentials([certificates]))
        else:
            port = self.server.add_insecure_port('127.0.0.1:0')
        self.server.start()
        self.url = f'grpc{"s" if certificates else ""}://localhost:{port}'

    def export(self, signal, body, context):
        self.calls.append((signal, dict(context.invocation_metadata())))
        if self.fail:
            context.abort(*self.fail.pop(0))
        self.take(signal, body)
        return self.answer.get(signal, b'')
