#!/usr/bin/env python3
"""What a head found of ranks over nodes: metrics, alerts and the page. Two nodes are played by this test."""

import json
import struct
import threading
import time

from browser import Browser
from cluster_help import Stubs, messages
from harness import case, main, wait_until
from page_check import check
from page_help import Head

RANK, UNTRACED = 43, 16
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

    def send(self, calls, flags=0):
        data = b''.join(rank_record(r, calls.get(r, calls[None]), flags) for r in self.ranks)
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
SAID = 'rank 3 of 4 (n2, pid 103) called ncclAllReduce of 64 float32 as collective 2, the others ncclAllReduce of 1024 float32'


@case('a finding over nodes is a metric, an alert and a line of the page, until it is over', timeout=240)
def shown(t):
    head = Head(t)
    nodes = [Node(t, head, 'n1', (0, 1)), Node(t, head, 'n2', (2, 3))]
    calls = {None: USUAL, 3: [USUAL[0], ('ncclAllReduce', 64), USUAL[2]]}
    for n in nodes:
        n.send(calls)
    alerts = lambda: json.loads(head.ask('GET', '/api/v1/alerts')[2])['alerts']  # noqa: E731
    line = '\ngpuscope_head_finding{kind="mismatch",job="' + JOB + '",node="n2",rank="3",communicator="0x0000000000000abc"} 1\n'
    metrics = lambda: head.ask('GET', '/metrics')[2]  # noqa: E731
    wait_until(lambda: line in metrics(), 60, 'the metric')
    t.match('their number', r'\ngpuscope_head_findings 1\n', metrics())
    about = [a for a in alerts() if 'collective' in a['text']]
    t.equal('one alert', [(a['severity'], a['node'], a['text']) for a in about], [('critical', None, f'job {JOB}: {SAID}')])
    t.true('since when', about[0]['since'])
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{head.http}/#/work')
    b.wait('document.body.innerText.includes("as collective 2")', 'the finding')
    cells = '[...document.querySelectorAll("section[aria-label=Findings] tbody td")]'
    row = b.run(f'{cells}.map(e => e.innerText)')
    t.equal('its line', row[:4], ['mismatch', 'holds', JOB, SAID])
    check(t, b, 'jobs')
    b.open(f'http://{head.http}/#/')
    b.wait('document.querySelector("section[aria-label=Alerts]").innerText.includes("as collective 2")', 'the alert')
    b.open(f'http://{head.http}/#/work')
    for n in nodes:
        n.send(calls, UNTRACED)
    b.wait(f'{cells}.length && {cells}[1].innerText == "over"', 'its end')
    t.true('no metric', 'gpuscope_head_finding{' not in metrics())
    t.equal('no alert', [a for a in alerts() if 'collective' in a['text']], [])
    for n in nodes:
        n.end()
    head.stop()


if __name__ == '__main__':
    main()
