"""A head, nodes that deliver to it, and what its store says of them."""

import ctypes
import ctypes.util
import os
import re
import shutil
import sqlite3
import struct
import subprocess

import harness
from harness import Live, Skip, wait_until


def nvml():
    path = os.path.join(harness.fake, 'libnvidia-ml.so.1')
    if not os.path.exists(path):
        raise Skip('the stand-in libnvidia-ml.so.1 was not built')
    return path


class Head:
    """`gpuscope head`; before: words in front, as to run it in another namespace."""

    def __init__(self, t, listen=None, before=(), options=(), data=None):
        self.t, self.before, self.options = t, before, options
        self.listen = listen or f'127.0.0.1:{harness.free_port()}'
        self.data = data or t.path('head')
        self.live = None
        self.start()

    def start(self):
        words = [*self.before, harness.gpuscope, 'head', '--data', self.data, '--listen', self.listen, *self.options]
        self.live = Live(self.t, lambda _: words, env=self.t.env)
        self.live.wait_err(r'head on \S+', 60)
        # A head that comes back is found where it was.
        self.listen = self.address = re.search(r'head on (\S+?),', self.live.err_text()).group(1)

    def kill(self):
        self.live.proc.kill()
        self.live.finish()

    def stop(self):
        self.live.interrupt()
        run = self.live.finish()
        self.t.equal('exit status of the head', run.status, 0)
        return run

    # --- what it keeps ---

    def ask(self, sql, *args):
        path = os.path.join(self.data, 'head.db')
        db = sqlite3.connect(f'file:{path}?mode=ro', uri=True, timeout=60)
        try:
            return db.execute(sql, args).fetchall()
        finally:
            db.close()

    def streams(self, machine):
        """Rows of a machine's streams as dictionaries."""
        names = ('id', 'kind', 'title', 'last_seq', 'n_samples', 'lost_batches', 'lost_samples', 'missed_samples', 'ended')
        rows = self.ask('SELECT ' + ', '.join('s.' + n for n in names) + ' FROM stream s JOIN node n ON n.id = s.node'
                        ' WHERE n.machine_id = ? ORDER BY s.id', machine)  # fmt: skip
        return [dict(zip(names, row)) for row in rows]

    def stored(self, machine):
        return sum(s['n_samples'] for s in self.streams(machine))

    def batches(self, stream):
        """(seq, first_wall_ns, last_wall_ns, clock_offset_ns, n_samples) as they were stored."""
        return self.ask('SELECT seq, first_wall_ns, last_wall_ns, clock_offset_ns, n_samples FROM batch WHERE stream = ?'
                        ' ORDER BY id', stream)  # fmt: skip

    def records(self, stream):
        """The records of a stream, unpacked, in order."""
        rows = self.ask('SELECT codec, raw_bytes, data FROM batch WHERE stream = ? ORDER BY seq', stream)
        return b''.join(unpack(*row) for row in rows)


def unpack(codec, raw_bytes, data):
    if codec == 0:
        return data
    zstd = ctypes.CDLL(ctypes.util.find_library('zstd') or 'libzstd.so.1')
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(raw_bytes)
    n = zstd.ZSTD_decompress(out, raw_bytes, data, len(data))
    assert n == raw_bytes, 'a batch cannot be unpacked'
    return out.raw


class Node:
    """`gpuscope connect` with a spool of its own, which stays when it is started again."""

    def __init__(self, t, address, name, before=(), options=(), env=None, spool=None):
        self.t, self.address, self.name, self.before, self.options = t, address, name, before, options
        self.env = {'FAKE_NVML': 'gpus=2', **(env or {})}
        self.spool = spool or t.path('spool-' + name)
        self.n_read = self.n_missed = 0  # of the runs that ended by themselves
        self.start()

    def start(self):
        words = [*self.before, harness.gpuscope, 'connect', '--resilient', '--spool', self.spool, '--machine-id', self.name,
                 '--interval', '100ms', '--nvml', nvml(), *self.options, self.address]  # fmt: skip
        self.live = Live(self.t, lambda _: words, env=self.t.envs(self.env))

    def kill(self):
        self.live.proc.kill()
        self.live.finish()

    def stop(self):
        """Ends it; (samples read, missed, batches delivered, samples that wait, samples lost)."""
        self.live.interrupt()
        run = self.live.finish(90)
        self.t.equal(f'exit status of {self.name}', run.status, 0)
        m = re.search(r'(\d+) samples read, (\d+) missed; (\d+) batches delivered, (\d+) samples wait.*, (\d+) lost', run.err)
        assert m, run.err
        told = tuple(int(x) for x in m.groups())
        self.n_read += told[0]
        self.n_missed += told[1]
        return told

    def state(self):
        """The spool's own words: src/core/queue/queue.c, struct queue_state."""
        names = ('stream', 'acked_seq', 'next_seq', 'lost_batches', 'lost_samples', 'memory_batches', 'memory_samples')
        try:
            with open(os.path.join(self.spool, 'state'), 'rb') as f:
                data = f.read()
        except OSError:
            return None
        return dict(zip(names, struct.unpack('<7Q', data[8:64]))) if len(data) >= 64 else None

    def last_seq(self):
        """The highest number in the spool's files: src/core/queue/queue_int.h, struct queue_entry."""
        last = 0
        for name in os.listdir(self.spool):
            if not name.endswith('.batches'):
                continue
            try:
                with open(os.path.join(self.spool, name), 'rb') as f:
                    data = f.read()
            except OSError:
                continue  # acknowledged meanwhile
            at = 0
            while at + 56 <= len(data):
                last = max(last, struct.unpack_from('<Q', data, at + 8)[0])
                at += 56 + struct.unpack_from('<I', data, at + 44)[0]
        return last

    def waits_for_nothing(self):
        st = self.state()
        return st and st['acked_seq'] == st['next_seq'] - 1


def account(t, head, node, n_streams=1):
    """After the node has ended, with nothing left: each number is stored once, in order."""
    streams = head.streams(node.name)
    t.equal(f'streams of {node.name}', len(streams), n_streams)
    state = node.state()
    for s in streams:
        rows = head.batches(s['id'])
        seqs = [row[0] for row in rows]
        t.true(f'{node.name}: numbers rise', all(a < b for a, b in zip(seqs, seqs[1:])), str(seqs[:50]))
        t.equal(f'{node.name}: samples of the stream and of its batches', s['n_samples'], sum(row[4] for row in rows))
        times = [row[1] for row in rows]
        t.true(f'{node.name}: at their own time', all(a < b for a, b in zip(times, times[1:])))
        t.true(f'{node.name}: one moment each', all(row[1] == row[2] and row[4] == 1 for row in rows))
        # Each number that is missing is a batch that the node had to drop, and says so.
        t.equal(f'{node.name}: numbers that are missing', seqs[-1] - seqs[0] + 1 - len(seqs), s['lost_batches'])
    if n_streams == 1:
        t.equal(f'{node.name}: all of it', [streams[0]['last_seq'], state['acked_seq']], [state['next_seq'] - 1] * 2)
        t.equal(f'{node.name}: numbers from the first', head.batches(streams[0]['id'])[0][0], 1)
    return streams


def build(t, name, source, *flags):
    """A small library of C for a test."""
    cc = shutil.which('cc') or shutil.which('gcc')
    if not cc:
        raise Skip('no C compiler')
    path = t.path(name)
    with open(path + '.c', 'w') as f:
        f.write(source)
    subprocess.run([cc, '-O1', '-shared', '-fPIC', '-o', path, path + '.c', *flags], check=True)
    return path


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long from_file(const char *path)
{
    char text[32];
    int fd = open(path, O_RDONLY);
    long n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return atol(text);
}
int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);
    const char *skew = getenv("SKEW_S");
    int r;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    r = real(id, ts);
    if (r == 0 && id == CLOCK_REALTIME && skew)
        ts->tv_sec += skew[0] == '/' ? from_file(skew) : atol(skew);
    return r;
}
"""


def skewed(t, seconds):
    """The environment of a program whose wall clock is wrong by so much; by what the file says, which may change."""
    env = {'LD_PRELOAD': build(t, 'skew.so', CLOCK, '-ldl'), 'SKEW_S': str(seconds)}
    if harness.is_asan():
        env['ASAN_OPTIONS'] = 'verify_asan_link_order=0'
    return env


__all__ = ['CLOCK', 'Head', 'Node', 'account', 'build', 'nvml', 'skewed', 'unpack', 'wait_until']
