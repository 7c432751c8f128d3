"""Heads and clients on loopback for the tests of a cluster: programs, and gRPC stubs of both
interfaces, made by protoc when the test runs."""

import contextlib
import importlib
import json
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


def check_import(t, h, session):
    """Sessions in JSON become recordings: what the last frame has is in the last sample; gswarm-profiler's rx and tx are corrected."""
    h.session('export', session, '--compat', 'gswarm', '-o', t.path('texts.json'))
    texts, own = (json.loads(harness.read_text(t.path(f'{name}.json'))) for name in ('texts', session))
    ours = ('available', 'client_id', 'client_available')
    with open(t.path('foreign.json'), 'w') as f:  # as its last version writes it
        json.dump({'summary_by_device': {}, 'summary_by_client': {}, 'request_time_info': {},
                   'frames': [{k: v for k, v in f.items() if k not in ours} for f in texts['frames']]}, f)  # fmt: skip
    # Of each GPU the last that it has; in gswarm-profiler's form nothing says that a node was away.
    keys = (('utilization_ratio', 'gpu_util'), ('rx', 'dram_bandwidth_rx'), ('tx', 'dram_bandwidth_tx'))
    wanted = {id: {key: frame[of][i] for key, of in keys} for frame in own['frames'] for i, id in enumerate(frame['gpu_id']) if frame['available'][i]}
    away = {id for id, there in zip(own['frames'][-1]['gpu_id'], own['frames'][-1]['available']) if not there}
    t.true('directions differ', any(v['rx'] and v['rx'] != v['tx'] for v in wanted.values()), wanted)
    for name in (session, 'texts', 'foreign'):
        out = t.path(f'{name}.in.gst')
        said = t.tool('report', t.path(f'{name}.json'), '-o', out, status=0).err
        n = sum(len(f['available']) if name == 'foreign' else sum(f['available']) for f in own['frames'])
        t.match(f'{name}: samples', rf'{n} samples of GPUs in {len(own["frames"])} frames', said)
        t.equal(f'{name}: is foreign', 'they are corrected' in said, name == 'foreign')
        t.match(f'{name}: what shows it', r'gpuscope top --replay FILE shows it', said)
        top = json.loads(t.tool('top', '--once', '--json', '--replay', out, status=0).out)
        rx, tx = ('tx', 'rx') if name == 'foreign' else ('rx', 'tx')
        for gpu in top['gpus']:
            id = f'{top["host_name"]}:{gpu["index"]}:{gpu["name"]}'
            want = wanted[id]
            if name == 'foreign' and id in away:
                t.equal(f'{name}: {id} was away', gpu['utilization_ratio'], None)
                continue
            for key, value, unit in (('utilization_ratio', want['utilization_ratio'], 100), ('pcie_rx_bytes_per_second', want[rx], 1e-9),
                                     ('pcie_tx_bytes_per_second', want[tx], 1e-9)):  # fmt: skip
                t.true(f'{name}: {key}', value is None or abs(gpu[key] * unit - value) <= 0.011, (gpu.get(key), value))
    for text, says in (('{"frames": [', 'frame 1 cannot be read'), ('{"frames": []}', 'no GPU has a sample in it')):
        with open(t.path('bad.json'), 'w') as f:
            f.write(text)
        t.match('one line', says, t.tool('report', t.path('bad.json'), '-o', t.path('bad.gst'), status=1).err)
        t.true('no file is left', not os.path.exists(t.path('bad.gst')))
