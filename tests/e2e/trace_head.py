"""`gpuscope trace --head`: what the head has is what a file of the same run has."""

import json
import os
import socket
import sys
import time

import harness
from cluster_help import Node
from harness import case, main
from head_help import Head, unpack

sys.path.insert(0, os.path.join(harness.HERE, '..'))
import gst  # noqa: E402

gst.unpack = lambda payload, raw_bytes: unpack(1, raw_bytes, payload)


def in_file(path):
    with open(path, 'rb') as f:
        return [record for _, records in gst.Reader(f.read()).frames() for record in records]


def options(t, head, more=()):
    return ['--head', head, '--machine-id', 'tracer', '--spool', t.path('traces'), *more]


def left(t):
    return os.listdir(t.path('traces'))


def compare(t, head, stream, path):
    got, wanted = gst.split_records(head.records(stream['id'])), in_file(path)
    t.equal('records', len(got), len(wanted))
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a != b:
            t.fail(f'record {i}: {a}, not {b}')
            break
    t.equal('kind and end', [stream['kind'], stream['ended']], [2, 1])
    t.equal('counted', stream['n_samples'], len(wanted))
    return got


@case('the same records as in a file', timeout=120)
def same(t):
    head = Head(t)
    run = t.trace('-o', 'a.gst', *options(t, head.address),
                  command=t.app('--threads=3', '--fork=2', 'cudaMalloc=31', 'cudaFree=31', 'cudaLaunchKernel=1001',
                                'cudaMemcpyAsync=77'))  # fmt: skip
    t.counts(run, ignore_bytes=('cudaFree',))
    streams = head.streams('tracer')
    t.equal('streams', len(streams), 1)
    t.true('the command is the title', streams[0]['title'].startswith(t.app()[0]), streams[0]['title'])
    got = compare(t, head, streams[0], 'a.gst')
    calls = sum(r['kind'] == 'CALL' for r in got)
    t.equal('calls', calls, sum(f['calls'] for f in run.summary['functions']))
    t.equal('nothing waits', left(t), [])
    head.stop()


@case('a trace of many records goes in pieces', timeout=240)
def large(t):
    head = Head(t)
    run = t.trace('-o', 'a.gst', *options(t, head.address), command=t.app('--threads=2', 'cudaLaunchKernel=60011'))
    t.counts(run)
    stream = head.streams('tracer')[0]
    compare(t, head, stream, 'a.gst')
    batches = head.ask('SELECT raw_bytes, n_samples FROM batch WHERE stream = ?', stream['id'])
    t.true('several batches', len(batches) > 8, str(len(batches)))
    t.true('no large ones', max(b[0] for b in batches) <= 1 << 20)
    head.stop()


@case('the head is away: kept, told, and delivered by the next trace', timeout=120)
def away(t):
    head = Head(t)
    head.kill()
    run = t.trace('-o', 'a.gst', *options(t, head.address), command=t.app('cudaMalloc=31', 'cudaFree=31'))
    t.counts(run, ignore_bytes=('cudaFree',))
    t.match('it is told', r'\d+ records not delivered yet: .*the next trace with --head, or gpuscope connect, sends them from', run.err)
    t.equal('a folder stays', len(left(t)), 1)
    head.start()
    run = t.trace('-o', 'b.gst', *options(t, head.address), command=t.app('cudaMalloc=7'))
    t.counts(run)
    t.match('it is told', '1 earlier trace delivered', run.err)
    t.equal('nothing waits', left(t), [])
    streams = head.streams('tracer')
    t.equal('titles', [s['title'].split(' ')[1] for s in streams], ['cudaMalloc=7', 'cudaMalloc=31'])
    compare(t, head, streams[0], 'b.gst')
    compare(t, head, streams[1], 'a.gst')
    head.stop()


@case('a head that takes connections and never answers holds no result back', timeout=120)
def silent(t):
    with socket.create_server(('127.0.0.1', 0)) as head:
        live = t.start_trace('-o', 'a.gst', *options(t, f'127.0.0.1:{head.getsockname()[1]}'), command=t.app('cudaMalloc=31'))
        live.wait_err(r'delivering \d+ records to the head; waiting at most \d+ s', 60)
        # It is said before the wait, and all else is there by then.
        t.equal('the summary', json.loads(harness.read_text(live.summary_path))['functions'][0]['calls'], 31)
        t.true('the file is whole', in_file('a.gst'))
        run = live.finish(90)
    t.counts(run)
    t.match('what waits is told', r'\d+ records not delivered yet', run.err)
    t.equal('and stays', len(left(t)), 1)


@case('the head is away: delivered by the next connect', timeout=120)
def away_connect(t):
    head = Head(t)
    head.kill()
    run = t.trace('-o', 'a.gst', *options(t, head.address), command=t.app('cudaMalloc=31', 'cudaFree=31'))
    t.counts(run, ignore_bytes=('cudaFree',))
    folder = os.path.join(t.path('traces'), left(t)[0])
    os.utime(folder, (time.time() - 3600,) * 2)  # a fresh one might be of a trace that begins
    fresh = os.path.join(t.path('traces'), '20260101T000000Z-1')
    os.mkdir(fresh)
    head.start()
    n = Node(t, head.address, 'tracer', '--backlog-dir', t.tmp)
    n.live.wait_err('1 earlier trace delivered', 60)
    t.equal('what is fresh stays', left(t), [os.path.basename(fresh)])
    n.stop()
    streams = [s for s in head.streams('tracer') if s['kind'] == 2]
    t.equal('titles', [s['title'].split(' ')[1] for s in streams], ['cudaMalloc=31'])
    compare(t, head, streams[0], 'a.gst')
    head.stop()


@case('no room to wait: the begin stays, the rest is told', timeout=240)
def no_room(t):
    run = t.trace('-o', 'a.gst', *options(t, '127.0.0.1:1', ['--spool-max', '1M']),
                  command=t.app('cudaMemcpyAsync=200011'), status=0)
    t.counts(run)
    t.match('it is told', 'records dropped: the spool is full', run.err)
    t.match('and that the rest is not written', 'writing to the head stopped', run.err)
    t.equal('the begin stays', len(left(t)), 1)
    t.true('losses are told', run.lost('output_failed') > 0, str(run.summary['lost']))


@case('wrong usage and a head that refuses', timeout=60)
def usage(t):
    for words, text in (
        (['--tls'], 'need --head'),
        (['--head', '127.0.0.1:1', '--cert', 'x'], 'go together'),
        (['--head', '127.0.0.1:1', '--estimate'], '--estimate only counts'),
        (['--head', '127.0.0.1:1', '--spool-max', '5'], 'at least 1M'),
    ):
        t.match(str(words), text, t.tool('trace', *words, '--', 'true', status=2).err)
    run = t.tool('trace', '--head', '127.0.0.1:1', '--token-file', '/nowhere', '--', 'true', status=1)
    t.match('no token', 'cannot read the token file /nowhere', run.err)
    t.tool('trace', '--head', 'x:y', '--spool', t.path('s'), '--machine-id', 'm', '--', 'true', status=1)
    t.equal('no folder of a trace that never was', os.listdir(t.path('s')), [])


if __name__ == '__main__':
    main()
