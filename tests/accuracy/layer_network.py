"""Networks: bytes, connections and segments as the program, iperf3, ss, TCP_INFO and /proc/net/snmp have them."""

import json
import os
import shutil
import socket
import subprocess
import sys

from table import Skip, harness, layer
from whole import Whole, work_load

PYTHON = os.path.realpath(sys.executable)


@layer('a connection over loopback', quick=True)
def loopback(m):
    w = Whole(m, work_load(), 'tcp', 200)
    figures = w.job['metrics']
    m.figure('bytes received', figures['network_bytes_recv'], 'the program', 200000, unit='B')
    m.figure('bytes sent', figures['network_bytes_sent'], 'the program', 200000 + 1, unit='B')
    m.figure('connections made', w.job['tcp']['connects'], 'the program', 1)
    m.figure('connections taken', w.job['tcp']['accepts'], 'the program', 1)


def namespace():
    """Words that run a program in a network namespace with a loopback of its own."""
    if not all(map(shutil.which, ('unshare', 'ip'))):
        raise Skip('unshare or ip is not installed')
    words = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    if subprocess.run([*words, 'true'], check=False, capture_output=True).returncode:
        raise Skip('no network namespaces here')
    return words


PAIR = '''
import os, socket
def snmp():
    lines = [x.split() for x in open('/proc/net/snmp') if x.startswith('Tcp:')]
    return dict(zip(lines[0][1:], map(int, lines[1][1:])))
first = snmp()
l = socket.create_server(('127.0.0.1', 0))
for _ in range(7):
    a = socket.create_connection(l.getsockname())
    b = l.accept()[0]
    a.sendall(b'x' * 12345)
    a.shutdown(socket.SHUT_WR)
    while b.recv(65536): pass
    b.sendall(b'y' * 777)
    b.close()
    while a.recv(65536): pass
    a.close()
last = snmp()
print(*(last[k] - first[k] for k in ('ActiveOpens', 'PassiveOpens', 'RetransSegs')))
'''


@layer('connections, as their namespace counts')
def snmp(m):
    w = Whole(m, *namespace(), PYTHON, '-c', PAIR)
    opened, taken, again = map(int, w.out.split())
    m.figure('connections made', w.job['tcp']['connects'], '/proc/net/snmp ActiveOpens', opened)
    m.figure('connections taken', w.job['tcp']['accepts'], '/proc/net/snmp PassiveOpens', taken)
    m.figure('segments sent again', w.job['tcp']['retransmits'], '/proc/net/snmp RetransSegs', again)
    m.figure('bytes sent', w.job['metrics']['network_bytes_sent'], 'the program', 7 * (12345 + 777), 200,
             'netlink messages of ip', 'B')  # fmt: skip


INFO = '''
import socket, struct, threading
l = socket.create_server(('127.0.0.1', 0))
def take():
    s = l.accept()[0]
    while s.recv(65536): pass
    s.close()
threading.Thread(target=take).start()
a = socket.create_connection(l.getsockname())
for _ in range(50): a.sendall(b'x' * 20000)
a.shutdown(socket.SHUT_WR)
while a.recv(1): pass
# struct tcp_info (linux/tcp.h): tcpi_bytes_acked at 120, tcpi_bytes_received at 128.
info = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
print(struct.unpack_from('<Q', info, 120)[0])
'''


@layer('bytes of a connection, as its socket counts')
def socket_counts(m):
    w = Whole(m, PYTHON, '-c', INFO)
    # A FIN and the SYN take a number each.
    m.figure('bytes sent', w.job['metrics']['network_bytes_sent'], 'TCP_INFO bytes_acked, as ss -i shows it', int(w.out), 2,
             'SYN and FIN take one sequence number each', 'B')  # fmt: skip


@layer('iperf3')
def iperf3(m):
    if not shutil.which('iperf3'):
        raise Skip('iperf3 is not installed')
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    server = subprocess.Popen(['iperf3', '-s', '-1', '-p', str(port), '--forceflush'], stdout=subprocess.PIPE, text=True)
    try:
        server.stdout.readline()
        harness.wait_until(lambda: listens(port), 20, 'iperf3 -s')
        w = Whole(m, 'iperf3', '-c', '127.0.0.1', '-p', port, '-n', '40M', '-J')
        told = json.loads(w.out)['end']
        sent = told['sum_sent']['bytes']
        m.figure('bytes sent', w.job['metrics']['network_bytes_sent'], 'iperf3', sent, 0.001 * sent, '0.1 %: its control connection',
                 'B')  # fmt: skip
        m.figure('segments sent again', w.job['tcp']['retransmits'], 'iperf3', told['sum_sent']['retransmits'])
    finally:
        server.kill()
        server.wait()


def listens(port):
    """Without a connection, which would be the server's only one."""
    text = harness.read_text('/proc/net/tcp') + harness.read_text('/proc/net/tcp6')
    return any(line.split()[1].endswith(f':{port:04X}') and line.split()[3] == '0A' for line in text.splitlines() if ':' in line
               and len(line.split()) > 3)  # fmt: skip


SERVE = '''
import socket
s = socket.create_server(('10.9.9.2', 5555))
print('ready', flush=True)
c = s.accept()[0]
while c.recv(1 << 20):
    pass
'''
SEND = '''
import socket, time
c = socket.create_connection(('10.9.9.2', 5555))
end = time.monotonic() + 1
n = 0
while time.monotonic() < end:
    n += c.send(bytes(1 << 18))
c.shutdown(socket.SHUT_WR)
c.recv(1)
print(n)
'''


@layer('segments that are lost', timeout=200)
def lossy(m):
    children = []

    def inside(ns, *words):
        return ['nsenter', '-t', str(children[ns].pid), '-n', *words]

    def configure(*words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skip(f'{" ".join(words)}: {done.stderr.strip()}')

    if not all(map(shutil.which, ('unshare', 'nsenter', 'ip', 'tc'))):
        raise Skip('unshare, nsenter, ip or tc is not installed')
    try:
        own = os.readlink('/proc/self/ns/net')
        children += [subprocess.Popen(['unshare', '-n', 'sleep', '150']) for _ in range(2)]
        pids = [str(c.pid) for c in children]
        harness.wait_until(lambda: own not in [os.readlink(f'/proc/{p}/ns/net') for p in pids], 20, 'two namespaces')
        configure('ip', 'link', 'add', 'gs0', 'netns', pids[0], 'type', 'veth', 'peer', 'name', 'gs1', 'netns', pids[1])
        for i in range(2):
            configure(*inside(i, 'ip', 'addr', 'add', f'10.9.9.{i + 1}/24', 'dev', f'gs{i}'))
            configure(*inside(i, 'ip', 'link', 'set', f'gs{i}', 'up'))
        # Less room than TCP fills: it drops.
        shape = ('rate', '200mbit', 'burst', '64k', 'limit', '128k')
        configure(*inside(0, 'tc', 'qdisc', 'add', 'dev', 'gs0', 'root', 'tbf', *shape))
        server = subprocess.Popen(inside(1, PYTHON, '-c', SERVE), stdout=subprocess.PIPE, text=True)
        children.append(server)
        m.equal('server', server.stdout.readline(), 'ready\n')
        w = Whole(m, *inside(0, PYTHON, '-c', SEND))
        text = subprocess.run(inside(0, 'cat', '/proc/net/snmp'), capture_output=True, text=True, check=True).stdout
        names, values = (x.split() for x in text.splitlines() if x.startswith('Tcp:'))
        wanted = int(values[names.index('RetransSegs')])
        m.figure('segments sent again', w.job['tcp']['retransmits'], '/proc/net/snmp RetransSegs', wanted)
        m.figure('segments sent again, by peer', sum(p['retransmits'] for p in w.job['peers']), '/proc/net/snmp RetransSegs', wanted)
        m.figure('bytes sent', w.job['metrics']['network_bytes_sent'], 'the program', int(w.out), unit='B')
    finally:
        for child in reversed(children):
            child.kill()
            child.wait()
