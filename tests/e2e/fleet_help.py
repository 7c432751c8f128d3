"""Nodes that a test plays for a head: records of four ranks of a job, and their steps."""

import struct
import threading
import time

from cluster_help import Stubs, messages
from harness import wait_until

RANK, STEPS, UNTRACED = 43, 45, 16
FLOAT32_SUM_NO_ROOT = 7 | 0xFFFF << 16
JOB = '<b>4711</b>'


def function_hash(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 % 2**64
    return h & 0xFFFFFFFF


def rank_record(rank, calls, flags=0):
    """One of four ranks; calls: (function, count) of all that it called."""
    now_ns, boot_ns = time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    listed = b''.join(struct.pack('<QII', count, FLOAT32_SUM_NO_ROOT, function_hash(name)) for name, count in calls)
    body = struct.pack('<QiiIIQqQQQQQQQ32s48s', 0xABC, rank, 4, 100 + rank, len(calls), boot_ns, now_ns - boot_ns, len(calls), boot_ns - 10**6, 0, 0, 0, 0, 0,
                       calls[-1][0].encode(), JOB.encode())  # fmt: skip
    return struct.pack('<HHI', 8 + len(body) + len(listed), RANK, flags) + body + listed


def steps_record(rank, begin_ns, n, long):
    """Steps of half a second with two collectives each; those of rank 3 begin 40 ms late in step `long`, for which all wait."""
    listed = b''
    for i in range(n):
        start = begin_ns + i * 500 * 10**6
        late = 40 * 10**6 if rank == 3 and i == long else 0
        arrivals = [start + 10**8 + late, start + 2 * 10**8 + late]
        dur = (560 if i == long else 500) * 10**6
        listed += struct.pack('<QIIQQQQ', 2 * i + 1, 2, 0, start, dur + rank * 10**6, sum(arrivals), 10**7)
    body = struct.pack('<QiiIIIIQQQQQ', 0xABC, rank, 4, 100 + rank, n, 1, 0, begin_ns, 60 + rank, 0, (500 + rank) * 10**6, 510 * 10**6)
    return struct.pack('<HHI', 8 + len(body) + len(listed), STEPS, 0) + body + listed


class Node:
    """The trace of two of the ranks."""

    def __init__(self, t, head, name, ranks):
        self.grpc, self.gp, _ = messages(t)
        self.name, self.ranks, self.said, self.turn = name, ranks, [], threading.Condition()
        self.channel = self.grpc.insecure_channel(head.grpc)
        self.seq, self.acked, self.is_welcome = 0, 0, False
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()
        wait_until(lambda: self.is_welcome, 60, 'a welcome')

    def say(self):
        yield self.gp.ToHead(hello=self.gp.Hello(protocol=1, machine_id=self.name, hostname=self.name, stream=5, kind=self.gp.STREAM_KIND_TRACE))
        n = 0
        while True:
            with self.turn:
                self.turn.wait_for(lambda: len(self.said) > n)
                message = self.said[n]
            if message is None:
                return
            n += 1
            yield message

    def listen(self):
        for m in Stubs(self.channel, self.gp, 'Node').Link(self.say(), timeout=300):
            self.is_welcome |= m.WhichOneof('body') == 'welcome'
            if m.WhichOneof('body') == 'ack':
                self.acked = m.ack.seq

    def send(self, calls, flags=0, steps=lambda rank: b''):
        data = b''.join(rank_record(r, calls.get(r, calls[None]), flags) + steps(r) for r in self.ranks)
        self.seq += 1
        with self.turn:
            self.said.append(self.gp.ToHead(batch=self.gp.Batch(seq=self.seq, sample_count=1, raw_bytes=len(data), records=data)))
            self.turn.notify_all()
        wait_until(lambda: self.acked == self.seq, 60, 'the batch is stored')

    def end(self):
        with self.turn:
            self.said.append(None)
            self.turn.notify_all()
        self.thread.join(60)
        self.channel.close()


USUAL = [('ncclAllGather', 512), ('ncclAllReduce', 1024), ('ncclAllGather', 512)]
