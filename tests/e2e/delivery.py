"""What nodes deliver to a head on this machine: two with one spool, batches that are wrong, agents."""

import os
import shutil
import struct
import zlib

from harness import case, main, wait_until
from head_help import Head, Node, account

MAGIC = 0x31507347  # src/spool/spool_int.h


def entry(seq, data, codec, raw_bytes):
    """A batch as it stands in a spool's file."""
    rest = struct.pack('<QqqIIIIQ', seq, 1000 + seq, 1000 + seq, 1, raw_bytes, codec, len(data), 0)
    return struct.pack('<II', MAGIC, zlib.crc32(rest + data)) + rest + data


def put_entries(node, entries):
    """Behind what the spool of an ended node has."""
    last = node.state()['next_seq']
    with open(os.path.join(node.spool, f'{last:020}.batches'), 'wb') as f:
        for i, (data, codec, raw_bytes) in enumerate(entries):
            f.write(entry(last + i, data, codec, raw_bytes))
    return last


@case('a copied spool: two deliver one stream', timeout=120, needs=None)
def copied(t):
    head = Head(t)
    a = Node(t, head.address, 'twin')
    wait_until(lambda: head.stored('twin') >= 5, 60, 'delivery')
    t.equal('all delivered', a.stop()[3], 0)
    shutil.copytree(a.spool, a.spool + '-copy')
    # One, then the other, then the first again: both at once from then on.
    a.start()
    first = head.stored('twin')
    wait_until(lambda: head.stored('twin') >= first + 5, 60, 'the first goes on')
    b = Node(t, head.address, 'twin', spool=a.spool + '-copy')
    wait_until(lambda: len(head.streams('twin')) >= 2, 60, 'a second stream')
    for i in range(2):
        before = [s['n_samples'] for s in head.streams('twin')][-2:]
        wait_until(lambda n=before: all(x >= y + 5 for x, y in zip([s['n_samples'] for s in head.streams('twin')][-2:], n)),
                   60, f'both deliver, {i}')  # fmt: skip
    texts = a.live.err_text() + b.live.err_text()
    for node in (a, b):
        t.equal('left and lost', node.stop()[3:], (0, 0))
    t.equal('everything of both', head.stored('twin'), a.n_read + b.n_read)
    t.match('it is told', 'is the spool a copy', texts)
    t.true('they do not take turns for ever', len(head.streams('twin')) <= 3, str(head.streams('twin')))
    account(t, head, a, n_streams=len(head.streams('twin')))
    head.stop()


@case('two at once from the same copy', timeout=120, needs=None)
def copied_at_once(t):
    """Nothing is new in either when the other comes: the head ends the older one's call."""
    head = Head(t)
    a = Node(t, head.address, 'twin')
    wait_until(lambda: head.stored('twin') >= 5, 60, 'delivery')
    t.equal('all delivered', a.stop()[3], 0)
    shutil.copytree(a.spool, a.spool + '-copy')
    a.start()
    b = Node(t, head.address, 'twin', spool=a.spool + '-copy')
    wait_until(lambda: head.stored('twin') >= a.n_read + 40, 60, 'delivery of both')
    for node in (a, b):
        t.equal('left and lost', node.stop()[3:], (0, 0))
    t.equal('everything of both', head.stored('twin'), a.n_read + b.n_read)
    t.true('two streams or three', 2 <= len(head.streams('twin')) <= 3, str(head.streams('twin')))
    head.stop()


@case('an old copy of the spool', timeout=120, needs=None)
def restored(t):
    """As after a restored backup: numbers come again, with other contents."""
    head = Head(t)
    node = Node(t, head.address, 'old')
    wait_until(lambda: head.stored('old') >= 5, 60, 'delivery')
    t.equal('all delivered', node.stop()[3], 0)
    shutil.copytree(node.spool, node.spool + '-backup')
    node.start()
    first = node.n_read
    wait_until(lambda: head.stored('old') >= first + 10, 60, 'delivery')
    t.equal('all delivered', node.stop()[3], 0)
    shutil.rmtree(node.spool)
    os.rename(node.spool + '-backup', node.spool)
    # More than the head has, before it can be asked.
    head.kill()
    node.start()
    wanted = node.state()['next_seq'] + 40
    wait_until(lambda: node.last_seq() >= wanted, 60, 'measuring without a head')
    head.start()
    wait_until(lambda: len(head.streams('old')) == 2, 120, 'a stream of its own')
    wait_until(lambda: head.streams('old')[1]['n_samples'] >= 40, 120, 'delivery')
    t.match('it is told', 'is the spool a copy, or an old one', node.live.err_text())
    t.equal('left and lost', node.stop()[3:], (0, 0))
    t.equal('everything', head.stored('old'), node.n_read)
    head.stop()


@case('wrong batches are given up, not sent for ever', timeout=120, needs=None)
def wrong(t):
    head = Head(t)
    node = Node(t, head.address, 'wrong')
    wait_until(lambda: head.stored('wrong') >= 3, 60, 'delivery')
    t.equal('all delivered', node.stop()[3], 0)
    bad = [(b'no zstd', 1, 64), (b'12345', 0, 8), (bytes(64), 7, 64), (b'x' * 13, 0, 13)]
    put_entries(node, bad)
    node.start()
    wait_until(lambda: head.stored('wrong') >= node.n_read + 5, 60, 'delivery goes on')
    text = node.live.err_text()
    t.match('it is told', r'given up and counted as lost .*the head refuses it', text)
    told = node.stop()
    t.equal('left, lost', told[3:], (0, len(bad)))
    s = account(t, head, node)[0]
    t.equal('the head knows', [s['lost_batches'], s['lost_samples']], [len(bad)] * 2)
    t.equal('everything else', head.stored('wrong'), node.n_read)
    t.equal('one connection', text.count('connected to the head'), 1)
    head.stop()


if __name__ == '__main__':
    main()
