#!/usr/bin/python3
"""What one thread of the room rpc serves, beside grpcio's server (Python over gRPC's C core), with the
same load in the same run. Messages a second as the clients see them, and what a second of the
server's processor time serves, which other programs on the machine disturb less.

usage: rpc.py BUILD_FOLDER [--seconds S]     (needs python3-grpcio)
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys

import grpc

SETTINGS = [('stream', 10, 100), ('stream', 10, 10000), ('stream', 10, 1000000), ('stream', 100, 10000), ('unary', 10, 100),
            ('unary', 1000, 100)]  # fmt: skip
MORE = [('stream', 1000, 100), ('stream', 5000, 1000), ('unary', 5000, 100)]  # ours alone: it takes grpcio minutes


def serve_grpcio():
    def total(requests, _):
        n = size = 0
        for r in requests:
            n, size = n + 1, size + len(r)
        return b'%d %d' % (n, size)

    handlers = {
        'Echo': grpc.unary_unary_rpc_method_handler(lambda request, _: request),
        'Sum': grpc.stream_unary_rpc_method_handler(total),
    }
    # A stream holds a thread of the pool for its whole life.
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1100))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('t.T', handlers),))
    print('listening 127.0.0.1:%d' % server.add_insecure_port('127.0.0.1:0'), flush=True)
    server.start()
    sys.stdin.read()
    os._exit(0)


class Server:
    def __init__(self, *command):
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.proc.stdout.readline().split()[1]

    def cpu_s(self):
        with open(f'/proc/{self.proc.pid}/stat') as f:
            fields = f.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def rss_mib(self):
        with open(f'/proc/{self.proc.pid}/statm') as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / (1 << 20)

    def stop(self):
        self.proc.stdin.close()
        self.proc.wait(timeout=60)


def measure(build, command, kind, connections, size, seconds):
    """Messages a second, messages a second of the server's processor time, its memory."""
    server = Server(*command)
    try:
        before = server.cpu_s()
        words = [os.path.join(build, 'bench', 'rpc_load'), server.address, kind, connections, size, seconds]
        done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        messages, took = done.stdout.split()
        used = max(server.cpu_s() - before, 0.01)
        return int(messages) / float(took), int(messages) / used, server.rss_mib()
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--seconds', type=float, default=3)
    o = parser.parse_args()
    ours = [os.path.join(o.build, 'tests', 'e2e', 'rpc_peer'), 'serve']
    theirs = [sys.executable, __file__, 'serve-grpcio']
    print(f'{"load":<8}{"conns":>6}{"bytes":>9} | {"messages/s":>11}{"MB/s":>8}{"per CPU s":>11}{"MiB":>6} | '
          f'{"grpcio /s":>10}{"per CPU s":>10}{"MiB":>6} | {"times":>7}{"per CPU":>8}')  # fmt: skip
    for kind, connections, size in SETTINGS + MORE:
        rate, per_cpu, rss = measure(o.build, ours, kind, connections, size, o.seconds)
        line = f'{kind:<8}{connections:>6}{size:>9} | {rate:>11.0f}{rate * size / 1e6:>8.1f}{per_cpu:>11.0f}{rss:>6.0f} | '
        if (kind, connections, size) in SETTINGS:
            rate2, per_cpu2, rss2 = measure(o.build, theirs, kind, connections, size, o.seconds)
            line += f'{rate2:>10.0f}{per_cpu2:>10.0f}{rss2:>6.0f} | {rate / rate2:>6.1f}x{per_cpu / per_cpu2:>7.1f}x'
        print(line, flush=True)


if __name__ == '__main__':
    if sys.argv[1:] == ['serve-grpcio']:
        serve_grpcio()
    main()
