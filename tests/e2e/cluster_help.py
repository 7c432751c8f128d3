"""Heads and clients on loopback for the tests of a cluster: programs, and gRPC stubs of both
interfaces, made by protoc when the test runs."""

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import sys

import harness
from harness import Live, Skip

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, '..', '..', 'proto')


def nvml():
    return os.path.join(harness.fake, 'libnvidia-ml.so.1')


def messages(t):
    """grpc, and the modules of messages of gpuscope and of gswarm-profiler."""
    try:
        import google.protobuf  # noqa: F401
        import grpc
    except ImportError:
        raise Skip('python3 has no grpcio or protobuf (packages python3-grpcio, python3-protobuf)') from None
    if not shutil.which('protoc'):
        raise Skip('no protoc (package protobuf-compiler)')
    out = t.path('stubs')
    if not os.path.isdir(out):
        os.mkdir(out)
        subprocess.run(['protoc', f'--proto_path={PROTO}', f'--python_out={out}', 'gpuscope.proto', 'gswarm_profiler.proto'],
                       check=True, cwd=out)  # fmt: skip
        sys.path.insert(0, out)
    return grpc, importlib.import_module('gpuscope_pb2'), importlib.import_module('gswarm_profiler_pb2')


def streaming(module, service):
    """Which methods stream: Debian 12's protobuf tells it in the descriptor's message alone."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return {m.name: (m.client_streaming, m.server_streaming) for s in file.service if s.name == service for m in s.method}


class Stubs:
    """The methods of a service as functions."""

    def __init__(self, channel, module, service):
        descriptor = module.DESCRIPTOR.services_by_name[service]
        kinds = streaming(module, service)
        for method in descriptor.methods:
            many, answers = ('stream' if x else 'unary' for x in kinds[method.name])
            call = getattr(channel, f'{many}_{answers}')(
                f'/{descriptor.full_name}/{method.name}', request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=getattr(module, method.output_type.name).FromString)  # fmt: skip
            setattr(self, method.name, call)


class Head:
    """A head, its data kept over restarts, its port too."""

    def __init__(self, t, *args, data=None, env=None):
        self.t, self.args, self.env = t, args, env
        self.data = data or t.path(f'head{t.n_files}')
        self.port = harness.free_port()
        self.start()

    def start(self):
        words = [harness.gpuscope, 'head', '--listen', f'127.0.0.1:{self.port}', '--data', self.data, *self.args]
        self.live = Live(self.t, lambda _: words, env=self.t.envs(self.env))
        self.live.wait_err(r'head on 127\.0\.0\.1:\d+', 60)
        self.port = int(self.live.err_text().split('head on 127.0.0.1:')[1].split(',')[0].split()[0])
        self.address = f'127.0.0.1:{self.port}'

    def kill(self):
        self.live.proc.kill()
        self.live.proc.wait()

    def stop(self):
        self.live.interrupt(signal.SIGTERM)
        return self.live.finish()

    def by_network_alone(self):
        """Commands on this machine find the head's Unix socket by themselves: now there is none."""
        os.unlink(f'/run/gpuscope-head/head-{self.port}.sock')

    def session(self, *args, status=0, **more):
        return self.t.tool('session', *args, '--head', self.address, status=status, **more)

    @contextlib.contextmanager
    def channel(self):
        import grpc

        with grpc.insecure_channel(self.address) as channel:
            yield channel


class Node:
    """gpuscope connect with the stand-in for NVML, of a machine of its own."""

    def __init__(self, t, address, name, *args, env=None, spool=True):
        self.t, self.name = t, name
        words = [harness.gpuscope, 'connect', address, '--nvml', nvml(), '--machine-id', name, *args]
        if spool:
            words += ['--spool', t.path('spool-' + name)]
        self.words, self.env = words, env
        self.start()

    def start(self):
        self.live = Live(self.t, lambda _: self.words, env=self.t.envs(self.env))

    def kill(self):
        self.live.proc.kill()
        self.live.proc.wait()

    def stop(self):
        self.live.interrupt(signal.SIGTERM)
        return self.live.finish()
