"""Files and devices: bytes and calls as the kernel, dd, fio and the program have them; block requests of a device of its own."""

import json
import os
import shutil
import subprocess
import sys

from table import Skip, harness, layer
from whole import Whole, work_load

PYTHON = os.path.realpath(sys.executable)
COPY = '''
import os, sys
source, target = sys.argv[1:]
read = written = calls = 0
a, b = os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
while True:
    piece = os.read(a, 10007)
    calls += 1
    if not piece: break
    read += len(piece)
    written += os.write(b, piece)
os.close(b)
print(calls, read, written)
'''


def file_of(path, size):
    with open(path, 'wb') as f:
        f.write(os.urandom(size))
        os.fsync(f.fileno())
    return path




@layer('bytes of files', quick=True)
def copied(m):
    source = file_of(m.path('source'), 8 << 20)
    none = Whole(m, PYTHON, '-c', 'pass')
    w = Whole(m, PYTHON, '-c', COPY, source, m.path('target'))
    _, read, written = map(int, w.out.split())
    start = none.job['metrics']['read_bytes']
    m.figure('bytes read', w.job['metrics']['read_bytes'] - start, 'the program', read, 4096, "the interpreter's own files", 'B')
    m.figure('bytes written', w.job['metrics']['write_bytes'], 'the program', written, unit='B')
    m.figure('bytes read, with the interpreter', w.job['metrics']['read_bytes'], '/proc/PID/io rchar', w.kernel['rchar'],
             0.001 * w.kernel['rchar'], 'no file: the line that starts the program', 'B')  # fmt: skip
    m.figure('bytes written, with the pipe to us', w.job['metrics']['write_bytes'], '/proc/PID/io wchar', w.kernel['wchar'],
             len(w.out), 'its output goes to a pipe, not to a file', 'B')  # fmt: skip
    m.figure('read and write calls', sum(w.calls(x) for x in ('read', 'pread64', 'readv', 'write', 'pwrite64', 'writev')),
             '/proc/PID/io syscr + syscw', w.kernel['syscr'] + w.kernel['syscw'], 8,
             'the line that starts the program; execve reads the first bytes of programs')  # fmt: skip
    m.figure('bytes on the file system', sum(f['read_bytes'] + f['write_bytes'] for f in w.job['file_systems']),
             "the report's own sum", w.job['metrics']['total_io_bytes'], unit='B')  # fmt: skip


@layer('dd')
def dd(m):
    source = file_of(m.path('source'), 4 << 20)
    w = Whole(m, 'dd', f'if={source}', f'of={m.path("target")}', 'bs=4096')
    records = [int(line.split('+')[0]) for line in w.out.splitlines() if 'records' in line]
    m.figure('write: calls', w.calls('write'), 'dd: records out', records[1], 4, 'three lines that dd prints')
    m.figure('bytes written', w.job['metrics']['write_bytes'], 'dd', records[1] * 4096, unit='B')
    m.figure('bytes read', w.job['metrics']['read_bytes'], 'dd', records[0] * 4096, 16 << 10, 'reads of the dynamic loader', 'B')


@layer('the page cache')
def cache(m):
    size = 8 << 20
    source = file_of(m.path('source'), size)
    w = Whole(m, work_load(), 'cached', source)
    m.figure('bytes read', w.job['metrics']['read_bytes'], 'the program: twice the file', 2 * size, 16 << 10, 'reads of the dynamic loader', 'B')
    m.figure('of that from memory', w.job['page_cache']['cached_read_bytes'],
             'twice the file - /proc/PID/io read_bytes', 2 * size - w.kernel['read_bytes'], 256 << 10,
             'the dynamic loader; readahead', 'B')  # fmt: skip


@layer('past the page cache')
def direct(m):
    path = file_of('direct', 8 << 20)
    try:
        if subprocess.run([work_load(), 'direct', path], check=False).returncode:
            raise Skip('this file system reads nothing past the page cache')
        w = Whole(m, work_load(), 'direct', path)
        if not w.job['block_devices']:
            raise Skip('the file is on no block device')
        m.figure('bytes read from devices', w.job['page_cache']['device_read_bytes'], '/proc/PID/io read_bytes',
                 w.kernel['read_bytes'], unit='B')  # fmt: skip
    finally:
        os.unlink(path)


class Loop:
    """A block device that nobody else uses."""

    def __init__(self, m, megabytes=64):
        self.file = os.path.join(os.getcwd(), f'loop{os.getpid()}')
        with open(self.file, 'wb') as f:
            f.truncate(megabytes << 20)
        done = subprocess.run(['losetup', '-f', '--show', '--direct-io=on', self.file], capture_output=True, text=True, check=False)
        if done.returncode:
            done = subprocess.run(['losetup', '-f', '--show', self.file], capture_output=True, text=True, check=False)
        if done.returncode:
            os.unlink(self.file)
            raise Skip(f'no loop device: {done.stderr.strip()}')
        self.path = done.stdout.strip()
        self.name = os.path.basename(self.path)

    def stat(self):
        """Requests and sectors of /proc/diskstats."""
        for line in harness.read_text('/proc/diskstats').splitlines():
            words = line.split()
            if words[2] == self.name:
                return {'reads': int(words[3]), 'read_bytes': int(words[5]) * 512, 'writes': int(words[7]),
                        'write_bytes': int(words[9]) * 512, 'flushes': int(words[18]) if len(words) > 18 else None,
                        'ms': int(words[6]) + int(words[10]), 'flush_ms': int(words[19]) if len(words) > 19 else None}  # fmt: skip
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(['losetup', '-d', self.path], check=False)
        os.unlink(self.file)


BLOCKS = '''
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 65536)
for i in range(200): os.preadv(fd, [page], i * 65536)
for i in range(100): os.pwritev(fd, [memoryview(page)[:4096]], i * 4096)
for i in range(10): os.fdatasync(fd)
'''


SYNCHRONOUS = '''
import mmap, os, sys
page = memoryview(mmap.mmap(-1, 65536))
direct = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
for i in range(200): os.pwritev(direct, [page[:4096]], i * 4096)
cached = os.open(sys.argv[1], os.O_RDWR | os.O_DSYNC)
for i in range(100): os.pwritev(cached, [page], (1 << 20) + i * 65536)
'''


def requests_of(m, script, n_written=None):
    """Requests of a program at a device of its own, as the kernel's counters say and as the report does."""
    if not shutil.which('losetup'):
        raise Skip('losetup is not installed')
    with Loop(m) as loop:
        first = loop.stat()
        w = Whole(m, PYTHON, '-c', script, loop.path)
        last = loop.stat()
        wanted = {k: last[k] - first[k] for k in last if last[k] is not None}
        # A flush is a write without bytes there, but where it belongs to a write that must be on the medium (FUA).
        wanted['writes'] = wanted['writes'] - wanted.get('flushes', 0) if n_written is None else n_written
        # The kernel names loop devices as it names others, or their number is told.
        rows = [d for d in w.job['block_devices'] if loop.name in str(d.get('name', d.get('device', '')))]
        disk = rows[0] if rows else {}
        for key, unit in (('reads', ''), ('read_bytes', 'B'), ('writes', ''), ('write_bytes', 'B'), ('flushes', '')):
            source = 'the program' if key == 'writes' and n_written is not None else '/proc/diskstats'
            if key in wanted and key in disk:
                m.figure(f'{key.replace("_", " ")} of the device', disk.get(key), source, wanted[key], unit=unit)
        timed = sum(b['count'] for b in disk.get('histogram', []))
        m.figure('requests with a time', timed, 'reads and writes', wanted['reads'] + wanted['writes'])
        return disk, wanted


@layer('requests to a block device')
def requests(m):
    requests_of(m, BLOCKS)


@layer('writes to a block device that must be on the medium (O_DSYNC)')
def synchronous(m):
    disk, wanted = requests_of(m, SYNCHRONOUS, n_written=300)
    took = disk.get('total_ns', 0) + disk.get('flush_ns', 0)
    m.figure('time of requests and flushes', took / 1e6, '/proc/diskstats', wanted['ms'], 0.3 * wanted['ms'] + 20,
             '30 % and 20 ms: there from when a request was made, here from its start at the device', 'ms')  # fmt: skip
    if wanted.get('flushes'):
        m.figure('time of flushes', disk.get('flush_ns', 0) / 1e6, '/proc/diskstats', wanted['flush_ms'], 0.3 * wanted['flush_ms'] + 20,
                 "30 % and 20 ms: there the kernel's own request, here what the program's waited for it", 'ms')  # fmt: skip


def fio_of(text):
    """fio prints notes before its JSON."""
    return json.loads(text[text.index('{'):])['jobs'][0]


@layer('fio, read and write by pread and pwrite')
def fio(m):
    if not shutil.which('fio'):
        raise Skip('fio is not installed')
    path = os.path.join(os.getcwd(), f'fio{os.getpid()}')
    words = ['fio', '--name=a', f'--filename={path}', '--size=8m', '--rw=randrw', '--direct=1', '--bs=4k', '--ioengine=psync', '--thread',
             '--io_size=24m', '--norandommap', '--fallocate=none', '--output-format=json']  # fmt: skip
    try:
        if subprocess.run(words, capture_output=True, check=False).returncode:
            words.remove('--direct=1')  # a file system in memory
            subprocess.run(words, capture_output=True, check=True)
        w = Whole(m, *words)
    finally:
        if os.path.exists(path):
            os.unlink(path)
    told = fio_of(w.out)
    for way, call in (('read', 'pread64'), ('write', 'pwrite64')):
        n = told[way]['total_ios']
        m.figure(f'{call}: calls', w.calls(call), 'fio', n, 0.001 * n + 4, 'calls of the dynamic loader')
        got = w.calls(call, 'total_ns') / max(1, w.calls(call)) / 1e3
        wanted = told[way]['clat_ns']['mean'] / 1e3
        m.figure(f'{call}: mean latency', got, "fio's clat", wanted, 0.4 * wanted + 5,
                 "40 % and 5 us: fio's time includes the probes, and it may be preempted there", 'us')  # fmt: skip
        m.figure(f'{way}: bytes', w.job['metrics'][f'{way}_bytes'], 'fio', told[way]['io_bytes'],
                 0.01 * told[way]['io_bytes'] + (64 << 10), "1 %: fio's own files", 'B')  # fmt: skip


@layer('libaio')
def libaio(m):
    path = file_of(f'aio{os.getpid()}', 1 << 20)
    try:
        if subprocess.run([work_load(), 'aio', path, '1'], check=False).returncode:
            raise Skip('libaio past the page cache is not possible here')
        none = Whole(m, work_load(), 'aio', path, 0)
        w = Whole(m, work_load(), 'aio', path, 20)
        m.figure('bytes read', w.job['metrics']['read_bytes'] - none.job['metrics']['read_bytes'], 'the program', 20 * 64 * 4096,
                 unit='B')  # fmt: skip
    finally:
        os.unlink(path)
