#!/usr/bin/env python3
"""What the kernel does for processes, counted by the work probes, against programs of which it is
known (tests/work/load.c) and against strace.

usage: work.py WORK_WATCH WORK_FOLDER [CASE...]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import harness
from harness import Skip, case


def watch(t, *options, load=(), command=None, status=0, seconds=50):
    """The rows of one run."""
    words = [harness.gpuscope, *options, *(command or ([program(), *map(str, load)] if load else []))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    t.equal(f'exit status ({done.stderr[-300:]})', done.returncode, status)
    found = json.loads(done.stdout)
    t.equal('losses', found['losses'], [0] * 6)
    return found


def program():
    return os.path.join(harness.fake, 'work_load')


def only(t, found):
    t.equal('rows', len(found['rows']), 1)
    return found['rows'][0]


def near(t, what, got, wanted, share):
    t.true(what, abs(got - wanted) <= share * wanted, f'{got}, not {wanted} within {share:.0%}')


def most(t, row, state, share=0.9):
    """Of the time that it did not run; how long it waits for a processor, and for the disk as it begins, is up to others."""
    total = row['wall_ns'] - row['time']['cpu'] - row['time']['runqueue'] - row['time']['disk']
    t.true(f'most time in {state}', row['time'][state] >= share * total > 0, row['time'])


def calls_of(row, name):
    return tuple(row['calls'].get(name, {}).get(k, 0) for k in ('calls', 'errors'))


@case('system calls: counts and errors are exact')
def exact_calls(t):
    for options in ((), ('-T',), ('-f', 'syscall'), ('-e', '1')):
        row = only(t, watch(t, *options, load=('calls', 1000)))
        t.equal(f'getppid {options}', calls_of(row, 'getppid'), (1000, 0))
        t.equal(f'open {options}', calls_of(row, 'open'), (500, 500))
        ppid = row['calls']['getppid']
        if options == ('-e', '1'):
            t.equal('every call timed', (ppid['timed'], ppid['in_hist']), (1000, 1000))
        elif options != ('-T',):
            # One in 16 at random, and what else it takes to know each call: the histogram speaks for all.
            t.true('some are timed', 20 <= ppid['timed'] <= 400, ppid)
            t.true('histogram', 400 <= ppid['in_hist'] <= 2000, ppid)
        if options != ('-T',):
            t.true('time', row['calls']['open']['total_ns'] > 500 * 50, row['calls']['open'])
        # Families that are not asked for count nothing.
        t.equal(f'bytes {options}', row['io']['device']['read_bytes'], 0 if '-f' in options else 25000)


@case('system calls: the same as strace counts')
def as_strace(t):
    if not shutil.which('strace'):
        raise Skip('strace is not installed')
    out = t.path('strace')
    subprocess.run(['strace', '-f', '-c', '-o', out, program(), 'tree', '4'], check=True)
    wanted = {}
    for line in harness.read_text(out).splitlines():
        match = re.match(r'\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\d+)?\s*(\w+)$', line)
        if match and match[3] != 'total':
            wanted[match[3]] = (int(match[1]), int(match[2] or 0))
    t.true('strace counted', len(wanted) > 8, wanted)
    got = {}
    for row in watch(t, load=('tree', 4))['rows']:
        for name, call in row['calls'].items():
            before = got.get(name, (0, 0))
            got[name] = (before[0] + call['calls'], before[1] + call['errors'])
    # Before it becomes the command, the child waits in one read.
    got['read'] = (got['read'][0] - 1, got['read'][1])
    # Whether a lock is met taken is chance, and execve is tried along PATH by nobody here.
    for name in set(wanted) | set(got):
        if name not in ('futex', 'exit', 'exit_group', 'brk', 'madvise', 'mprotect'):
            t.equal(name, got.get(name), wanted.get(name))


@case('system calls of the 32-bit door')
def compat(t):
    if subprocess.run([program(), 'int80', '1'], check=False).returncode:
        raise Skip('this kernel has no 32-bit system calls')
    row = only(t, watch(t, load=('int80', 300)))
    t.equal('getppid', calls_of(row, 'getppid (32-bit)'), (300, 0))
    t.equal('none of the other table', calls_of(row, 'getppid'), (0, 0))


SMALL = '''
void _start(void)
{
    char c[7];
    int r, i;
    for (i = 0; i < 50; i++)
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(3), "b"(0), "c"(c), "d"(7) : "memory");
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(1), "b"(0));
}
'''


@case('a 32-bit program: its calls and the bytes they return')
def small_program(t):
    with open(t.path('small.c'), 'w', encoding='ascii') as f:
        f.write(SMALL)
    gcc = ['gcc', '-m32', '-O1', '-nostdlib', '-static', '-fno-pic', '-o', t.path('small'), t.path('small.c')]
    if not shutil.which('gcc') or subprocess.run(gcc, capture_output=True, check=False).returncode:
        raise Skip('gcc -m32 makes no programs here')
    try:
        subprocess.run([t.path('small')], check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise Skip('32-bit programs do not run here') from None
    with open('/dev/zero', 'rb') as zero:
        words = [harness.gpuscope, t.path('small')]
        done = subprocess.run(words, capture_output=True, text=True, stdin=zero, check=True)
    row = only(t, json.loads(done.stdout))
    t.equal('read', calls_of(row, 'read (32-bit)'), (50, 0))
    t.equal('bytes', row['io']['device']['read_bytes'], 350)


@case('io_uring operations')
def uring(t):
    if subprocess.run([program(), 'uring', '1'], check=False).returncode:
        raise Skip('io_uring is not allowed here')
    found = watch(t, load=('uring', 100))
    if any('io_uring' in m for m in found['missing']):
        raise Skip(found['missing'])
    row = only(t, found)
    t.equal('NOP', calls_of(row, 'io_uring:NOP'), (100, 0))
    t.equal('WRITE', calls_of(row, 'io_uring:WRITE'), (50, 0))
    t.equal('enter', calls_of(row, 'io_uring_enter'), (150, 0))
    written = sum(row['io'][k]['write_bytes'] for k in ('file', 'tmpfs', 'netfile'))
    t.equal('bytes written', written, 5000)


@case('a thread that computes is on a processor or waits for one')
def burner(t):
    begin = time.monotonic_ns()
    row = only(t, watch(t, load=('burn', 1)))
    t.true('wall', 1e9 <= row['wall_ns'] <= time.monotonic_ns() - begin, row['wall_ns'])
    # A program that is started may wait for a file system that others write to.
    begun_ns = row['time']['disk']
    t.true('cpu and run queue', row['time']['cpu'] + row['time']['runqueue'] > 0.98 * (row['wall_ns'] - begun_ns) > 0.4 * row['wall_ns'], row['time'])


@case('time on a processor is what the kernel says')
def as_rusage(t):
    words = [harness.gpuscope, program(), 'burn', '1']
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    cpu = only(t, json.loads(done.stdout))['time']['cpu']
    # What the process itself was told, before its end.
    near(t, 'cpu', cpu, float(done.stderr) * 1e9, 0.05)


@case('a sleeper sleeps, by any call')
def sleeper(t):
    row = only(t, watch(t, load=('nap', 0.9)))
    most(t, row, 'sleep', 0.95)
    t.equal('voluntary switches', row['voluntary'], 3)


@case('a pipe ping-pong: switches, and waits for the pipe')
def pingpong(t):
    subprocess.run([program(), 'pingpong', '1'], check=True)  # from now on nothing of it waits for the disk
    rows = watch(t, load=('pingpong', 2000))['rows']
    t.equal('processes', len(rows), 2)
    for row in rows:
        t.equal('bytes', row['io']['pipe']['write_bytes'], 2000)
        t.equal('reads', row['io']['pipe']['read_bytes'], 2001 if row['calls'].get('execve') else 2000)
        for state in ('disk', 'network', 'gpu', 'sleep'):
            t.true(f'no {state}', row['time'][state] < 0.02 * row['wall_ns'] or row['time'][state] < 0.1 * row['time']['pipe'], row['time'])
        t.true('switches', row['voluntary'] + row['forced'] >= 1000, row)


@case('a thread that waits for a mutex waits for a lock')
def lock(t):
    with subprocess.Popen([program(), 'locks', '0.5'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as load:
        try:
            t.equal('ready', load.stdout.readline(), 'ready\n')
            rows = {r['pid']: r for r in watch(t, '-p', str(load.pid), load=('release', load.pid))['rows']}
            row, said = rows[load.pid], load.stderr.read()
        finally:
            load.kill()
    # What the thread itself took for it, the second time: part of that it may have waited for a processor. To wait
    # for its end is to wait in the same system call.
    waited, joined = (float(x) * 1e9 for x in said.split()[2:])
    took, at_least = row['time']['lock'], waited - row['time']['cpu'] - row['time']['runqueue']
    t.true('lock', 0.99 * at_least - 1e6 <= took <= 1.01 * (waited + joined), (took, at_least, waited, joined))
    slept = row['time']['sleep'] - row['calls']['rt_sigtimedwait']['total_ns']
    t.true('sleep', 0.49e9 <= slept <= row['wall_ns'] / 2, (slept, row['wall_ns']))
    t.equal('threads', (row['started'], row['ended']), (2, 2))


@case('polling a device that is told to be a GPU is waiting for the GPU')
def gpu(t):
    row = only(t, watch(t, '-m', '136', load=('tty', 0.4)))
    most(t, row, 'gpu')
    row = only(t, watch(t, '-m', '195', load=('tty', 0.4)))
    most(t, row, 'pipe')


@case('reading past the page cache: device, bytes, time', timeout=120)
def direct(t):
    path = os.path.join(os.getcwd(), f'direct{os.getpid()}')
    try:
        with open(path, 'wb') as f:
            f.write(os.urandom(4 << 20) * 16)
            os.fsync(f.fileno())
        if subprocess.run([program(), 'direct', path], check=False).returncode:
            raise Skip('this file system reads nothing past the page cache')
        found = watch(t, load=('direct', path))
        row = only(t, found)
        if not row['disks']:
            raise Skip('the file is on no block device')
        # Counted, or told to be without an end so far. What loading the program reads comes on top when its
        # pages are cold.
        told = row['disk_read_bytes'] + found['open_bytes']
        t.true('bytes', 64 << 20 <= told <= 66 << 20, (row['disk_read_bytes'], found['open_bytes'], found['missed']))
        t.note(f'{row["disk_read_bytes"]} of {64 << 20} bytes counted, {found["ends"]} requests without a seen end')
        t.equal('the device has them', sum(d['read_bytes'] for d in row['disks']), row['disk_read_bytes'])
        t.true('device named', all(d['name'] for d in row['disks']), row['disks'])
        t.true('waits for the disk', row['time']['disk'] > 0, row['time'])
        t.true('time at the device', row['disk_ns'] > 0, row['disk_ns'])
        t.equal('returned', row['io']['file']['read_bytes'] >= 64 << 20, True)
        # The second reading of a file just read comes from memory.
        row = only(t, watch(t, load=('cached', path)))
        t.true('page cache', row['cached_bytes'] >= 64 << 20, (row['cached_bytes'], row['disk_read_bytes']))
        t.true('mount', any(m['path'] and m['io']['read_bytes'] >= 128 << 20 for m in row['mounts']), row['mounts'])
    finally:
        if os.path.exists(path):
            os.unlink(path)


@case('writes that must be on the medium: every one has a time, or is told, and so has every flush')
def synchronous(t):
    path = os.path.join(os.getcwd(), f'sync{os.getpid()}')
    try:
        with open(path, 'wb') as f:
            f.write(bytes(1 << 16))
            os.fsync(f.fileno())
        if subprocess.run([program(), 'sync', path, '1'], check=False).returncode:
            raise Skip('this file system writes nothing past the page cache')
        found = watch(t, load=('sync', path, 100))
        row = only(t, found)
        disk = max(row['disks'], key=lambda d: d['writes'], default=None)
        if not disk:
            raise Skip('the file is on no block device')
        cache = harness.read_text(f'/sys/block/{disk["name"]}/queue/write_cache').strip()
        # Each write and each fdatasync may write the time of the change too: as often as the clock of the file
        # system has gone on by then. A flush is no write.
        more = disk['writes'] - 100
        t.true('writes', 0 <= more <= 2 * 100 + 10, disk)
        t.true('their bytes', 100 << 16 <= disk['write_bytes'] <= (100 << 16) + more * (16 << 10), disk)
        n = disk['reads'] + disk['writes']
        # The kernel runs no program at some ends: those are told.
        untold = n - disk['in_hist'] - found['open'] - found['ends']
        t.true('every request is timed, or told as not seen to end', untold <= 0 <= n - disk['in_hist'], (disk, found['open'], found['ends']))
        t.true('most are timed', disk['in_hist'] > n / 2, disk)
        if cache != 'write back':
            raise Skip(f'the write cache of {disk["name"]} is "{cache}": it has nothing to flush')
        t.true('flushes', 100 <= disk['flushes'] <= 2 * 100 + 10 + more, disk)
        t.true('their time', 0 < disk['flush_ns'] < row['wall_ns'], (disk, row['wall_ns']))
        t.true('the waits are in those of the thread', row['time']['disk'] > 0, row['time'])
    finally:
        if os.path.exists(path):
            os.unlink(path)


DISCARD = """
import os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(f, bytes(16 << 20))
os.fsync(f)
os.ftruncate(f, 0)
os.fsync(f)
"""


def discarded_bytes(disk):
    """Of a device since the machine's start, as the kernel says (Documentation/admin-guide/iostats.rst)."""
    words = next(w for w in map(str.split, harness.read_text('/proc/diskstats').splitlines()) if w[2] == disk)
    return 512 * int(words[16]) if len(words) > 16 else 0


@case('blocks that a file system gives back to the device are no writes')
def discards(t):
    path = os.path.join(os.getcwd(), f'discard{os.getpid()}')
    devices = [w[2] for w in map(str.split, harness.read_text('/proc/diskstats').splitlines())]
    before = {d: discarded_bytes(d) for d in devices}
    try:
        found = watch(t, command=['/usr/bin/python3', '-c', DISCARD, path])
    finally:
        if os.path.exists(path):
            os.unlink(path)
    disk = max(only(t, found)['disks'], key=lambda d: d['writes'], default=None)
    if not disk or discarded_bytes(disk['name']) - before[disk['name']] < 16 << 20:
        raise Skip('this file system gives no blocks back (mount option discard)')
    t.true('written once', 16 << 20 <= disk['write_bytes'] < 20 << 20, disk)


def blocks(name, size):
    path = os.path.join(os.getcwd(), f'{name}{os.getpid()}')
    with open(path, 'wb') as f:
        f.write(os.urandom(size))
        os.fsync(f.fileno())
    return path


@case('libaio: bytes as returned, for the file and at the device')
def libaio(t):
    path = blocks('aio', 1 << 20)
    try:
        if subprocess.run([program(), 'aio', path, '1'], check=False).returncode:
            raise Skip('libaio past the page cache is not possible here')
        none = only(t, watch(t, load=('aio', path, 0)))['io']['file']
        row = only(t, watch(t, load=('aio', path, 20)))
        read = row['io']['file']
        t.equal('reads', (read['reads'] - none['reads'], read['read_bytes'] - none['read_bytes']), (1280, 1280 * 4096))
        t.true('at the device', row['disk_read_bytes'] >= 1280 * 4096 or not row['disks'], row['disks'])
        row = only(t, watch(t, load=('aio', path, 5, 'write')))
        t.equal('writes', (row['io']['file']['writes'], row['io']['file']['write_bytes']), (320, 320 * 4096))
        t.true('by mount', any(m['path'] and m['io']['write_bytes'] == 320 * 4096 for m in row['mounts']), row['mounts'])
    finally:
        os.unlink(path)


@case('requests of a neighbour are not charged to who happens to be interrupted')
def neighbour(t):
    paths = [blocks(name, 1 << 20) for name in ('mine', 'theirs')]
    writer = None
    try:
        if subprocess.run([program(), 'aio', paths[0], '1'], check=False).returncode:
            raise Skip('libaio past the page cache is not possible here')
        writer = subprocess.Popen([program(), 'aio', paths[1], '1000000', 'write'])
        row = only(t, watch(t, load=('aio', paths[0], 60)))
        t.equal('the neighbour writes still', writer.poll(), None)
        if not row['disks']:
            raise Skip('the file is on no block device')
        t.equal('a reader writes nothing', (row['disk_writes'], row['disk_write_bytes']), (0, 0))
        # What loading the program reads may be cold.
        t.true('reads', 60 * 64 * 4096 <= row['disk_read_bytes'] <= 60 * 64 * 4096 + (2 << 20), row['disk_read_bytes'])
    finally:
        if writer:
            writer.kill()
            writer.wait()
        for path in paths:
            os.unlink(path)


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
def sent_again():
    names, values = [x.split() for x in open('/proc/net/snmp') if x.startswith('Tcp:')]
    return int(values[names.index('RetransSegs')])
while sent_again() < 3:
    c.sendall(bytes(1 << 20))
c.shutdown(socket.SHUT_WR)
c.recv(1)
'''


@case('segments sent again: as many as the kernel counts for the network namespace')
def retransmits(t):
    children, python = [], os.path.realpath(sys.executable)

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
        for _ in range(2):
            children.append(subprocess.Popen(['unshare', '-n', 'sleep', '3600']))
        pids = [str(c.pid) for c in children]
        harness.wait_until(lambda: own not in [os.readlink(f'/proc/{p}/ns/net') for p in pids], 10, 'two namespaces')
        configure('ip', 'link', 'add', 'gs0', 'netns', pids[0], 'type', 'veth', 'peer', 'name', 'gs1', 'netns', pids[1])
        for i in range(2):
            configure(*inside(i, 'ip', 'addr', 'add', f'10.9.9.{i + 1}/24', 'dev', f'gs{i}'))
            configure(*inside(i, 'ip', 'link', 'set', f'gs{i}', 'up'))
        # Less room than TCP fills: it drops.
        shape = ('rate', '200mbit', 'burst', '64k', 'limit', '128k')
        configure(*inside(0, 'tc', 'qdisc', 'add', 'dev', 'gs0', 'root', 'tbf', *shape))
        server = subprocess.Popen(inside(1, python, '-c', SERVE), stdout=subprocess.PIPE, text=True)
        children.append(server)
        t.equal('server', server.stdout.readline(), 'ready\n')
        words = inside(0, harness.gpuscope, python, '-c', SEND)
        rows = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)['rows']
        snmp = subprocess.run(inside(0, 'cat', '/proc/net/snmp'), capture_output=True, text=True, check=True).stdout
        names, values = (x.split() for x in snmp.splitlines() if x.startswith('Tcp:'))
        wanted = int(values[names.index('RetransSegs')])
        t.true('some were', wanted > 0, snmp)
        t.equal('of the process', sum(r['retransmits'] for r in rows), wanted)
        t.equal('by peer', sum(p['retransmits'] for r in rows for p in r['peers']), wanted)
    finally:
        for child in reversed(children):
            child.kill()
            child.wait()


@case('many messages by one call: the bytes of all of them')
def many_messages(t):
    row = only(t, watch(t, load=('mmsg', 7)))
    t.equal('calls', (calls_of(row, 'sendmmsg'), calls_of(row, 'recvmmsg')), ((7, 0), (7, 0)))
    t.equal('bytes', (row['sent'], row['received']), (7 * 5050, 7 * 5050))


@case('a connection over loopback: bytes, peers, who waits')
def tcp(t):
    rows = watch(t, load=('tcp', 200))['rows']
    t.equal('processes', len(rows), 2)
    client, server = sorted(rows, key=lambda r: r['accepts'])
    t.equal('client', (client['received'], client['sent'], client['connects'], client['accepts']), (200000, 1, 1, 0))
    t.equal('server', (server['received'], server['sent'], server['connects'], server['accepts']), (0, 200000, 0, 1))
    most(t, client, 'network', 0.8)
    t.equal('peers', [len(r['peers']) for r in (client, server)], [1, 1])
    peer = client['peers'][0]
    t.equal('address', (peer['family'], peer['addr'], peer['connects']), (2, '7f000001', 1))
    t.true('port', peer['port'] > 1024 and server['peers'][0]['port'] == 0, peer)
    t.true('latency', peer['connect_ns'] > 0 and server['peers'][0]['rtt_count'] == 200, rows)
    row = only(t, watch(t, load=('refused',)))
    t.equal('refused', (row['connects'], [p['failed'] for p in row['peers']]), (0, [1]))


@case('children and threads that have ended are counted; strangers are not')
def tree(t):
    stranger = subprocess.Popen([program(), 'rate', '1000', '3'], stdout=subprocess.DEVNULL)
    found = watch(t, load=('tree', 10))
    t.equal('rows', len(found['rows']), 11)
    t.equal('getppid', sum(calls_of(r, 'getppid')[0] for r in found['rows']), 200)
    t.equal('threads', (sum(r['started'] for r in found['rows']), sum(r['ended'] for r in found['rows'])), (31, 31))
    t.true('no stranger', stranger.pid not in [r['pid'] for r in found['rows']])
    row = only(t, watch(t, '-n', load=('tree', 10)))
    t.equal('not followed', calls_of(row, 'getppid')[0], 0)
    stranger.kill()
    stranger.wait()


@case('time sums to wall time within 1 %: alive, ended, found running', timeout=90)
def sums(t):
    begin = time.monotonic_ns()
    loads = [['burn', '900'], ['nap', '2700'], ['lock', '900'], ['tty', '900'], ['rate', '0', '900']]
    children = [subprocess.Popen([program(), *w], stdout=subprocess.DEVNULL) for w in loads]

    def is_busy(pid, what):
        """Whether it does by now what it does all the time."""
        if harness.read_text(f'/proc/{pid}/comm').strip() != 'work_load':
            return False
        states = [harness.read_text(f'/proc/{pid}/task/{i}/stat').rpartition(')')[2].split()[0] for i in os.listdir(f'/proc/{pid}/task')]
        times = harness.read_text(f'/proc/{pid}/stat').rpartition(')')[2].split()
        return states == ['S'] * (2 if what == 'lock' else 1) if what in ('nap', 'lock', 'tty') else int(times[11]) + int(times[12]) > 5

    try:
        harness.wait_until(lambda: all(is_busy(c.pid, w[0]) for c, w in zip(children, loads)), 30, 'all at work')
        found = watch(t, *[w for c in children for w in ('-p', str(c.pid))], '-s', '2')
    finally:
        for c in children:
            c.kill()
            c.wait()
    t.equal('rows', len(found['rows']), len(loads))
    threads = {c.pid: 2 if w[0] == 'lock' else 1 for c, w in zip(children, loads)}
    for row in found['rows']:
        least, most_ns = (threads[row['pid']] * x for x in found['elapsed_ns'])
        t.true(f'{row["pid"]}', 0.99 * least <= row['wall_ns'] <= 1.01 * most_ns, (row['wall_ns'], least, most_ns))
        t.equal('alive', row['threads'], threads[row['pid']])
    by_pid = {r['pid']: r for r in found['rows']}
    most(t, by_pid[children[1].pid], 'sleep')
    # poll's array cannot be read in a process that slept before: what it waits for is not known.
    most(t, by_pid[children[3].pid], 'other')
    taken = by_pid[children[2].pid]['time']['lock']
    least, longest = found['elapsed_ns']
    t.true('a mutex met taken', 0.98 * least <= taken <= 1.02 * longest, (taken, found['elapsed_ns']))
    t.note(f'{(time.monotonic_ns() - begin) / 1e9:.1f} s')


@case('a process that moves into a followed cgroup is followed, added up by cgroup')
def cgroup(t):
    mounts = [x.split()[1] for x in harness.read_text('/proc/mounts').splitlines() if x.split()[2] == 'cgroup2']
    if not mounts:
        raise Skip('no cgroup2 hierarchy is mounted')
    folder = os.path.join(mounts[0], f'gpuscope_work_{os.getpid()}')
    try:
        os.mkdir(folder)
    except OSError as e:
        raise Skip(f'no cgroup can be made: {e}') from None
    ino = os.stat(folder).st_ino
    try:
        script = f'echo $$ > {folder}/cgroup.procs; exec {program()} calls 400'
        row = only(t, watch(t, '-g', '-c', str(ino), command=['sh', '-c', script]))
        t.equal('id', row['id'], ino)
        t.equal('getppid of who moved in', calls_of(row, 'getppid'), (400, 0))
        # Who is in there when following begins, and what it starts.
        go, done = t.path('go'), t.path('done')
        wait = f'while ! [ -e {go} ]; do sleep 0.01; done; '
        script = f'echo $$ > {folder}/cgroup.procs; {wait}' + f'{program()} calls 100; ' * 3 + f'touch {done}'
        inside = subprocess.Popen(['sh', '-c', script])
        harness.wait_until(lambda: str(inside.pid) in harness.read_text(f'{folder}/cgroup.procs').split(), 10, 'move')
        until = f'touch {go}; while ! [ -e {done} ]; do sleep 0.01; done'
        row = only(t, watch(t, '-g', '-c', str(ino), command=['sh', '-c', until]))
        inside.wait()
        t.equal('getppid of three programs', calls_of(row, 'getppid')[0], 300)
        t.true('several processes are one row', row['started'] >= 4, row['started'])
    finally:
        for pid in harness.read_text(f'{folder}/cgroup.procs').split():
            os.kill(int(pid), 9)
        harness.wait_until(lambda: not harness.read_text(f'{folder}/cgroup.procs'), 10, 'an empty cgroup')
        os.rmdir(folder)


@case('room for few processes: what did not fit is told; giving back makes room')
def full(t):
    words = [harness.gpuscope, '-k', '4', program(), 'tree', '40']
    done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    t.true('loss told', done['losses'][0] > 0, done['losses'])
    done = subprocess.run([harness.gpuscope, '-k', '4', '-r', '40', program(), 'calls', '10'], capture_output=True, text=True, check=True)
    t.equal('given back', done.stderr, 'forgot 39\n')
    t.equal('nothing lost', json.loads(done.stdout)['losses'][:2], [0, 0])


@case('a family that does not exist, a user without the right to')
def errors(t):
    done = subprocess.run([harness.gpuscope, '-f', 'cpu', 'true'], capture_output=True, text=True, check=False)
    t.equal('status', done.returncode, 2)
    t.match('words', r'no such family of probes: "cpu" \(all, syscall', done.stderr)
    words = ['setpriv', '--reuid=65534', '--clear-groups', harness.gpuscope, 'true']
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 127 or 'Permission denied' in done.stderr and 'kernel' not in done.stderr:
        raise Skip('the program cannot be run as another user here')
    t.equal('status without rights', done.returncode, 3)
    t.match('words', r'CAP_BPF', done.stderr)


def main():
    harness.tracing_works = lambda: None if os.geteuid() == 0 else 'not root'
    harness.main()


if __name__ == '__main__':
    sys.exit(main())
