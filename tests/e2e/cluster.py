"""A head and its nodes on loopback: sessions and their files, kills at any moment, a full disk, hostile peers, gswarm-profiler's clients and heads.

GPUSCOPE_ROUNDS: how often head and node are killed (12)."""

import concurrent.futures
import contextlib
import csv
import glob
import io
import json
import os
import queue
import random
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time

import harness
from certs import certificates
from cluster_help import Head, Node, Stubs, check_import, messages, nvml
from harness import Skip, case, main, wait_until

FAST = ('--interval', '100ms')


def rows(data, sql, *args):
    """Of the head's store; it may be writing meanwhile."""
    with sqlite3.connect(f'file:{data}/head.db?mode=ro', uri=True, timeout=30) as db:
        return db.execute(sql, args).fetchall()


def n_stored(data, machine=None):
    sql = 'SELECT coalesce(sum(s.n_samples), 0) FROM stream s JOIN node n ON n.id = s.node'
    try:
        return rows(data, sql + (' WHERE n.machine_id = ?' if machine else ''), *([machine] if machine else []))[0][0]
    except sqlite3.OperationalError:
        return 0


def wait_stored(data, count, machine=None, seconds=60):
    wait_until(lambda: n_stored(data, machine) >= count, seconds, f'{count} samples stored')


def every_one_once(t, data):
    """Batches of each stream are 1, 2, 3 ... without any missing or twice, none was given up."""
    streams = rows(data, 'SELECT id, last_seq, n_samples, lost_batches FROM stream')
    for stream, last, n_samples, lost in streams:
        seqs = [r[0] for r in rows(data, 'SELECT seq FROM batch WHERE stream = ? ORDER BY seq', stream)]
        t.equal(f'stream {stream}: numbers', seqs == list(range(1, last + 1)), True)
        t.equal(f'stream {stream}: samples', n_samples, last)
        t.equal(f'stream {stream}: lost', lost, 0)
        times = [r[0] for r in rows(data, 'SELECT first_wall_ns FROM batch WHERE stream = ? ORDER BY seq', stream)]
        t.true(f'stream {stream}: each moment once', len(set(times)) == len(times))
    return len(streams)


def export(t, head, name, *args):
    path = t.path(f'{name}-{len(os.listdir(t.tmp))}.out')
    head.session('export', name, '-o', path, *args)
    with open(path, encoding='utf-8') as f:
        return f.read()


def listed(head, *args):
    return {s['name']: s for s in json.loads(head.session('list', '--format', 'json', *args).out)['sessions']}


# --- sessions ---


@case('three sessions that overlap: the right files, one stopped, all stopped', timeout=120, needs=None)
def sessions(t):
    h = Head(t, '--interval', '1000ms')
    a, b = Node(t, h.address, 'a'), Node(t, h.address, 'b')
    wait_stored(h.data, 1, 'a')
    wait_stored(h.data, 1, 'b')
    h.session('start', 'wide', '--interval', '100ms', '--enable-bandwidth', '--enable-nvlink')
    h.session('start', 'slow', '--interval', '400ms', '--metrics', 'power_watts,energy_joules')
    t.match('a name twice', 'is active or waits', h.session('start', 'wide', status=1).err)
    # They ask for more than the head does: nodes are told.
    wait_stored(h.data, 25, 'a')
    wait_stored(h.data, 25, 'b')
    h.session('start', 'none', '--nodes', 'other*,x?')
    # The head's own switches are off; what a session asks for stands in its row.
    shown = h.session('status').out
    t.match('with what', r'wide .*  bandwidth, NVLink\n', shown)
    t.match('with nothing more', r'slow .*  -\n', shown)
    h.session('annotate', 'epoch 1', 'loss=0.25', 'step=3')
    stopped = json.loads(h.session('stop', 'wide', '--format', 'json').out)['sessions']
    t.equal('stopped one', [s['name'] for s in stopped], ['wide'])
    # What nodes still had to deliver comes behind that.
    t.true('with what is stored of it', 0 < stopped[0]['samples'] <= listed(h)['wide']['samples'], stopped)
    t.equal('nodes of it', stopped[0]['nodes_delivering'], 2)
    t.equal('states', {n: s['state'] for n, s in listed(h).items()}, {'wide': 'stopped', 'slow': 'active', 'none': 'active'})
    before = n_stored(h.data, 'a')
    wait_stored(h.data, before + 3, 'a')
    both = json.loads(h.session('stop', '--all', '--format', 'json').out)['sessions']
    t.equal('stopped the others', {s['name'] for s in both}, {'slow', 'none'})
    for node in (a, b):
        t.match('drained', r'0 samples wait', node.stop().err)
    t.equal('by state', set(listed(h, '--state', 'stopped')), {'wide', 'slow', 'none'})

    wide = json.loads(export(t, h, 'wide'))
    start, end = wide['start_time'], wide['end_time']
    sql = 'SELECT count(*) FROM batch WHERE first_wall_ns + clock_offset_ns >= ? AND first_wall_ns + clock_offset_ns < ?'
    s = rows(h.data, "SELECT start_wall_ns, end_wall_ns FROM session WHERE name = 'wide'")[0]
    n = rows(h.data, sql, *s)[0][0]
    t.equal('every sample of its time is in it', wide['account']['samples'], n)
    t.equal('late', wide['account']['late_samples'], 0)
    frame = wide['frames'][-1]
    for key in ('gpu_util', 'gpu_memory', 'available', 'dram_bandwidth', 'dram_bandwidth_rx', 'dram_bandwidth_tx', 'dram_active',
                'nvlink_rx', 'nvlink_tx', 'extra_metrics'):  # fmt: skip
        t.equal(f'{key}: one a GPU', len(frame[key]), len(frame['gpu_id']))
    t.equal('GPUs', len(frame['gpu_id']), 4)
    t.equal('clients', sorted(frame['client_id']), sorted({x.rsplit(':', 2)[0] for x in frame['gpu_id']}))
    full = [f for f in wide['frames'] if all(f['available'])]
    t.true('most frames are full', len(full) >= 5, len(full))
    for f in full:
        t.true('percent', all(0 <= x <= 100 for x in f['gpu_util'] + f['gpu_memory'] + f['dram_util'] + f['disk_util'] if x is not None), f)
        for rx, tx, sum_ in zip(f['dram_bandwidth_rx'], f['dram_bandwidth_tx'], f['dram_bandwidth']):
            t.true('sum of both ways', rx is None or abs(rx + tx - sum_) < 1e-5, f)
    ids = [f['frame_id'] for f in wide['frames']]
    t.equal('frames rise', ids, sorted(set(ids)))
    t.equal('annotations', [(m['name'], m['values']) for m in wide['annotations']], [('epoch 1', {'loss': 0.25, 'step': 3})])
    t.true('summary', set(wide['summary_by_device']) == set(frame['gpu_id']), wide['summary_by_device'])
    t.true('times', start < end, (start, end))

    slow = json.loads(export(t, h, 'slow'))
    keys = set().union(*(e for f in slow['frames'] for e in f['extra_metrics']))
    t.equal('chosen values', keys, {'power_watts', 'energy_joules'})
    t.true('no bandwidth asked for', 'dram_bandwidth' not in slow['frames'][0])
    t.equal('nobody fits', json.loads(export(t, h, 'none'))['frames'], [])

    old = json.loads(export(t, h, 'wide', '--compat', 'gswarm'))
    t.equal('as many frames', len(old['frames']), len(wide['frames']))
    for mine, theirs in zip(wide['frames'], old['frames']):
        for x, y in zip(mine['gpu_util'], theirs['gpu_util']):
            t.true('text of a share', isinstance(y, str) and (x is None or abs(float(y) - x / 100) < 0.0051), (x, y))
        for x, y in zip(mine['dram_bandwidth_rx'], theirs['dram_bandwidth_rx']):
            t.true('KiB/s', x is None or abs(float(y) * 1024 / 1e9 - x) < 1e-4, (x, y))
    lines = list(csv.DictReader(io.StringIO(export(t, h, 'slow', '--format', 'csv'))))
    t.equal('a row for each GPU and sample', len(lines), 2 * slow['account']['samples'])
    t.true('its columns', {'time', 'node', 'gpu', 'uuid', 'power_watts', 'energy_joules'} <= set(lines[0]), lines[0])
    path = t.path('wide.gst')
    h.session('export', 'wide', '--format', 'gst', '-o', path)
    t.match('.gst', rf'{n} samples', t.tool('report', path, status=0).out)
    t.equal('left over', glob.glob(t.path('*.part')), [])

    # The same without the head.
    h.stop()
    offline = t.path('offline.json')
    t.tool('session', 'export', 'wide', '--data', h.data, '-o', offline, status=0)
    t.equal('offline, the same', json.loads(harness.read_text(offline)), wide)
    t.equal('offline list', {s['name'] for s in json.loads(t.tool('session', 'list', '--data', h.data, '--format', 'json', status=0).out)['sessions']},
            {'wide', 'slow', 'none'})  # fmt: skip


@case('files of several machines: each is counted, and figures have all of them', timeout=120, needs=None)
def machines(t):
    if subprocess.run(['unshare', '--uts', 'true'], capture_output=True).returncode:
        raise Skip('host names of its own are not permitted here')
    h = Head(t, '--interval', '100ms', '--enable-nvlink')
    h.session('start', 'both', '--enable-bandwidth')
    nodes = {}
    for name in ('machine-a', 'a-machine-with-a-very-long-name-in-rack-42-unit-7-of-the-last-row'[:60]):
        words = ['unshare', '--uts', 'sh', '-c', f'hostname {name}; exec "$@"', 'sh', harness.gpuscope, 'connect', h.address, '--nvml', nvml(), '--machine-id', name]
        nodes[name] = harness.Live(t, lambda _, words=words: words, env=t.envs({'FAKE_NVML': 'gpus=2'}))
        wait_stored(h.data, 5, name)
    h.session('stop', 'both')
    table = h.session('status').out.split('\n\n')[1].splitlines()
    t.equal('columns of the nodes', {line.find('healthy') for line in table[1:]}, {table[0].find('STATE')})
    for node in nodes.values():
        node.interrupt(signal.SIGTERM)
        node.finish()
    t.match('what shows it', 'gpuscope top --replay FILE shows it', h.session('export', 'both', '--format', 'gst', '-o', t.path('both.gst')).err)
    t.match('the file', r'samples of 2 nodes over .+: 4 GPUs', t.tool('report', t.path('both.gst'), status=0).out)
    h.session('export', 'both', '-o', t.path('both.json'))
    # A pipe or a device is written to, not replaced by a file.
    os.mkfifo(t.path('pipe'))
    with open(t.path('came'), 'wb') as f:
        reader = subprocess.Popen(['cat', t.path('pipe')], stdout=f)
    h.session('export', 'both', '-o', t.path('pipe'))
    t.true('still a pipe', stat.S_ISFIFO(os.stat(t.path('pipe')).st_mode))
    t.equal('what came', reader.wait(60) or json.loads(harness.read_text(t.path('came')))['session_name'], 'both')
    # The stand-in's GPUs of both machines have the same UUIDs, which the JSON does not tell.
    t.match('all GPUs', 'samples of 4 GPUs', t.tool('report', t.path('both.json'), '--plot', t.path('both.svg'), status=0).err)
    check_import(t, h, 'both')


@case('what nodes measure follows sessions and switches', timeout=120, needs=None)
def wishes(t):
    grpc, gp, _ = messages(t)
    h = Head(t, '--interval', '3600000ms')
    configs, asked = queue.Queue(), queue.Queue()

    def say():
        yield gp.ToHead(hello=gp.Hello(protocol=1, machine_id='m', hostname='gpu7', stream=5, kind=1))
        while asked.get() is not None:
            pass

    with h.channel() as channel:
        node = Stubs(channel, gp, 'Node').Link(say(), timeout=300)

        def listen():
            try:
                for m in node:
                    if m.WhichOneof('body') in ('welcome', 'config'):
                        c = m.welcome.config if m.WhichOneof('body') == 'welcome' else m.config
                        configs.put((c.interval_ns // 1000000, c.bandwidth, c.nvlink))
            except grpc.RpcError:
                pass

        threading.Thread(target=listen, daemon=True).start()
        t.equal('at first', configs.get(timeout=300), (3600000, False, False))
        h.session('start', 'x', '--interval', '500ms', '--nodes', 'gpu?', '--enable-nvlink')
        t.equal('a session', configs.get(timeout=300), (500, False, True))
        h.session('start', 'y', '--interval', '100ms', '--nodes', 'cpu*', '--enable-bandwidth')
        t.equal('not of its nodes', configs.get(timeout=300), (500, False, True))
        h.session('start', 'z', '--interval', '2s', '--enable-bandwidth')
        t.equal('together', configs.get(timeout=300), (500, True, True))
        h.session('stop', 'x')
        t.equal('one less', configs.get(timeout=300), (2000, True, False))
        h.session('set', '--interval', '300ms', '--enable-nvlink')
        t.equal('switched', configs.get(timeout=300), (300, True, True))
        h.session('stop', '--all')
        t.equal('none', configs.get(timeout=300), (300, False, True))
        asked.put(None)
    h.stop()


@case('errors of the command: one line, and the exit status', timeout=60, needs=None)
def errors(t):
    run = t.tool('session', 'list', '--head', '127.0.0.1:1', status=1)
    t.match('head down', r'^gpuscope: no head answers at 127\.0\.0\.1:1: .*does it need --tls\?\n$', run.err)
    for words, status in ((('stop',), 2), ((), 2), (('frobnicate',), 2), (('export',), 2), (('list', 'x'), 2), (('list', '--all'), 2)):
        t.equal(f'status of {words}', t.tool('session', *words).status, 2)
    for words in (('session', 'list', '--head', 'localhost'), ('session', 'list', '--head', ':1'), ('connect', 'foo')):
        t.match(f'{words}', 'the address of a head', t.tool(*words, status=2).err)
    t.match('too often', r'--interval takes a time from 50ms to 1h', t.tool('head', '--interval', '10ms', status=2).err)
    t.match('IPv6', r'connect to \[::1\]:1 ', t.tool('session', 'list', '--head', '[::1]:1', status=1).err)
    h = Head(t)
    for words, pattern, status in (
        (('stop', 'nope'), 'there is no session "nope"', 4),
        (('start', '../../etc/x'), 'cannot be a session', 1),
        (('start', 'a\nb'), 'cannot be a session', 1),
        (('start', 'x' * 200), 'at most 128', 1),
        (('start', 'ok', '--metrics', 'no_such'), 'no value is called "no_such"', 1),
        (('start', 'ok', '--nodes', 'a/b'), 'not a pattern', 1),
        (('start', 'ok', '--interval', '1ms'), '50 ms to 1 h', 1),
        (('start', 'ok', '--report-metrics', 'pie'), 'no plot is called', 1),
        (('annotate', 'x'), 'no session is active', 4),
        (('export', 'nope'), 'there is no session', 4),
        (('resume', 'nope'), 'there is no session', 4),
    ):
        run = h.session(*words, status=status)
        t.match(f'{words}', pattern, run.err)
        t.equal(f'{words}: one line', run.err.count('\n'), 1)
    t.match('a default name', r'profiling_\d{8}_\d{6}', h.session('start').out)
    t.match('and another', r'profiling_\d{8}_\d{6}', h.session('start').out)
    t.equal('two', len(listed(h, '--state', 'active')), 2)
    t.match('active ones stay', 'stop it first', h.session('delete', next(iter(listed(h))), status=1).err)
    h.session('stop', '--all')
    for name in listed(h):
        h.session('delete', name)
    t.equal('deleted', listed(h), {})
    t.match('second head', 'used by another head', t.tool('head', '--listen', '127.0.0.1:0', '--data', h.data, status=1).err)
    h.stop()


# --- nothing is lost ---


@case('head and node killed at random points: every sample exactly once', timeout=600, needs=None)
def kills(t):
    rounds = int(os.environ.get('GPUSCOPE_ROUNDS', '12'))
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    h = Head(t, '--interval', '50ms')
    n = Node(t, h.address, 'k')
    h.session('start', 'through it all')
    for number in range(rounds):
        wait_stored(h.data, n_stored(h.data) + 1 + chance.randrange(8))
        time.sleep(chance.random() * 0.2)  # anywhere in what it does
        what = chance.choice(('head', 'node', 'both'))
        if what != 'head':
            n.kill()
        if what != 'node':
            h.kill()
            h.start()
            t.equal(f'round {number}: recoverable', listed(h)['through it all']['state'], 'recoverable')
            h.session('resume', 'through it all')
        if what != 'head':
            n.start()
    wait_stored(h.data, n_stored(h.data) + 5)
    t.match(f'drained (seed {seed})', r'\b0 samples wait', n.stop().err)
    h.session('stop', 'through it all')
    every_one_once(t, h.data)
    doc = json.loads(export(t, h, 'through it all'))
    count = rows(h.data, "SELECT count(*) FROM batch b, session s WHERE b.first_wall_ns + b.clock_offset_ns >= s.start_wall_ns")[0][0]
    t.true('the file has them', abs(doc['account']['samples'] - count) <= 1, (doc['account'], count))
    t.note(f'{rounds} rounds, {n_stored(h.data)} samples, seed {seed}')
    h.stop()


@case('the head is away: nodes keep, and it goes on without a gap', timeout=120, needs=None)
def away(t):
    h = Head(t, *FAST)
    n = Node(t, h.address, 'a', '--interval', '0.1')
    wait_stored(h.data, 5)
    h.session('start', 'on')
    before = n_stored(h.data)
    h.kill()
    n.live.wait_err('no connection to the head')
    first = rows(h.data, 'SELECT max(last_wall_ns) FROM batch')[0][0]
    wait_until(lambda: time.time_ns() > first + 3_000_000_000, 20, 'some seconds without a head')
    h.start()
    h.session('resume', 'on')
    wait_stored(h.data, before + 30)
    n.stop()
    every_one_once(t, h.data)
    h.session('stop', 'on')
    doc = json.loads(export(t, h, 'on'))
    times = [r[0] for r in rows(h.data, 'SELECT first_wall_ns FROM batch ORDER BY first_wall_ns')]
    missed = rows(h.data, 'SELECT sum(missed_samples) FROM stream')[0][0]
    longest = max(b - a for a, b in zip(times, times[1:]))
    t.true('no gap while the head was away', longest < 1_500_000_000 or missed, longest)
    t.true('frames', doc['account']['samples'] >= 30, doc['account'])
    h.stop()


@case('a full disk: the head says so, nodes keep, and all goes on', timeout=180, needs=None)
def full(t):
    if os.geteuid() != 0:
        raise Skip('only root can make a small file system')
    folder = t.path('small')
    os.mkdir(folder)
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=2m', 'small', folder], capture_output=True).returncode:
        raise Skip('cannot mount a tmpfs here')
    h = Head(t, '--interval', '50ms', data=folder + '/head')
    n = Node(t, h.address, 'f', '--all-processes', '--interval', '0.05')
    h.live.wait_err('cannot store data from nodes: No space left', 120)
    t.match('told to who asks', 'No space', json.loads(h.session('status', '--format', 'json').out)['trouble'])
    # What is as small as a session may still find room in what the store has.
    for i in range(1000):
        started = h.session('start', f'small{i}', status=None)
        if started.status == 1:
            break
    t.match('a session', 'disk is full', started.err)
    t.true('the node lives', n.live.proc.poll() is None)
    subprocess.run(['mount', '-o', 'remount,size=64m', folder], check=True)
    wait_until(lambda: not json.loads(h.session('status', '--format', 'json').out)['trouble'], 60, 'the trouble is over')
    h.session('start', 'x')
    wait_stored(h.data, n_stored(h.data) + 5)
    t.match('drained', r'\b0 samples wait', n.stop().err)
    every_one_once(t, h.data)
    h.stop()


@case('retention: what no session covers is removed by age', timeout=120, needs=None)
def retention(t):
    h = Head(t, '--interval', '50ms', '--retention', '1s')
    n = Node(t, h.address, 'r', '--interval', '0.05')
    h.session('start', 'kept')
    wait_stored(h.data, 20)
    h.session('stop', 'kept')
    start, end = rows(h.data, 'SELECT start_wall_ns, end_wall_ns FROM session')[0]
    sql = 'SELECT count(*) FROM batch WHERE last_wall_ns + clock_offset_ns >= ? AND first_wall_ns + clock_offset_ns < ?'
    inside = rows(h.data, sql, start, end)[0][0]
    stored = n_stored(h.data)
    wait_stored(h.data, stored + 60)
    mark = rows(h.data, 'SELECT max(first_wall_ns) FROM batch')[0][0]
    wait_until(lambda: rows(h.data, 'SELECT count(*) FROM batch WHERE first_wall_ns > ? AND first_wall_ns <= ?', end + 10**9, mark)[0][0] == 0,
               60, 'the old ones are removed')  # fmt: skip
    t.true('the session has all of its own', rows(h.data, sql, start, end)[0][0] >= inside, inside)
    t.equal('and can be exported', json.loads(export(t, h, 'kept'))['account']['samples'] > 0, True)
    n.stop()
    h.stop()


# --- hostile peers, tokens ---


@case('garbage, giant messages and wrong names are refused, and a node goes on', timeout=180, needs=None)
def hostile(t):
    grpc, gp, gs = messages(t)
    h = Head(t, *FAST, '--anonymous-control')
    n = Node(t, h.address, 'good', '--interval', '0.1')
    wait_stored(h.data, 1)
    chance = random.Random(7)
    for size in (0, 1, 9, 24, 1000, 70000):
        # The head may have closed it before all has come.
        with socket.create_connection(('127.0.0.1', h.port)) as s, contextlib.suppress(ConnectionError):
            s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'[: chance.randrange(25)] + chance.randbytes(size))

    def refused(what, function, *codes):
        try:
            function()
        except grpc.RpcError as e:
            t.true(f'{what}: {e.code()}', e.code() in codes, e.details())
        else:
            t.fail(f'{what}: taken')

    bad, large = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
    hello = {'protocol': 1, 'machine_id': 'evil', 'hostname': 'evil', 'stream': 1, 'kind': 1}
    with h.channel() as c:
        link = Stubs(c, gp, 'Node').Link
        raw = c.stream_stream('/gpuscope.v1.Node/Link')

        def speak(*sent):
            return list(link(iter(sent), timeout=300))

        refused('no message', lambda: list(raw(iter([b'\xff\xff\xff']), timeout=60)), bad)
        refused('no Hello', lambda: speak(gp.ToHead(batch=gp.Batch(seq=1))), bad)
        for key, value in (('protocol', 9), ('stream', 0), ('kind', 0), ('machine_id', ''), ('hostname', 'a\nb'), ('hostname', 'x' * 300),
                           ('machine_id', '\x1b[2J'), ('instance', 'i' * 64)):  # fmt: skip
            refused(f'Hello with {key}={value!r:.20}', lambda h={**hello, key: value}: speak(gp.ToHead(hello=gp.Hello(**h))), bad)

        def batch(**fields):
            """A Hello, and a batch when the head has welcomed it: what it answers to the batch."""
            ready = queue.Queue()

            def sent():
                yield gp.ToHead(hello=gp.Hello(**{**hello, 'stream': chance.randrange(1, 1 << 60)}))
                ready.get(timeout=300)
                yield gp.ToHead(batch=gp.Batch(**fields))
                ready.get(timeout=300)

            call = link(sent(), timeout=300)
            while not next(call).HasField('welcome'):
                pass
            ready.put('batch')
            try:
                return next(m for m in call if m.HasField('ack') or m.HasField('reject'))
            finally:
                ready.put('end')

        def rejected(what, **fields):
            answer = batch(**fields)
            t.true(f'{what}: {answer}', answer.HasField('reject') and answer.reject.seq == fields['seq'])
            t.equal(f'{what}: reason', answer.reject.reason, 'not a batch that a node makes')

        good = {'seq': 1, 'first_wall_ns': 1, 'last_wall_ns': 2, 'sample_count': 1}
        rejected('records of nothing', **good, records=b'\xff' * 64, raw_bytes=64)
        rejected('not as long as told', **good, records=b'\0' * 8, raw_bytes=16)
        rejected('no zstd', **good, codec=1, records=b'hello!!!', raw_bytes=8)
        bomb = bytes.fromhex('28b52ffda0ffffff7f') + b'\0' * 16
        rejected('a bomb', **good, codec=1, records=bomb, raw_bytes=4294967288)
        rejected('time runs back', seq=1, first_wall_ns=5, last_wall_ns=2)
        rejected('a number of no counting', seq=(1 << 64) - 1, raw_bytes=0)
        refused('number 0', lambda: batch(seq=0), bad)
        refused('20 MiB', lambda: batch(**good, records=bytes(20 << 20), raw_bytes=8 << 20), large)
        metrics = c.stream_unary('/gswarm_profiler.ProfilerService/StreamMetrics')
        refused('garbage of gswarm', lambda: metrics(iter([b'\x0a\xff']), timeout=300), bad)
        for name in ('', 'a b', 'x' * 64, 'a\tb'):
            refused(f'host {name!r:.10}', lambda m=gs.MetricsUpdate(hostname=name): metrics(iter([m.SerializeToString()]), timeout=300), bad)
        control = Stubs(c, gp, 'Control')
        for name in ('../x', '/etc/passwd', 'a/b', '.x', '\x1b]0;x\x07', 'x' * 129, '-rf'):
            refused(f'session {name!r:.12}', lambda x=name: control.StartSession(gp.SessionStart(name=x), timeout=300), bad)
        refused('two in one', lambda: control.StartSession(gp.SessionStart(name='x', nodes=['a,b']), timeout=300), bad)
        refused('no such format', lambda: list(control.ExportSession(gp.ExportRequest(session='x', format=9), timeout=300)), bad,
                grpc.StatusCode.NOT_FOUND)  # fmt: skip
        refused('an annotation of nothing', lambda: control.AddAnnotation(gp.Annotation(name=''), timeout=300), bad)
        refused('not a number', lambda: control.AddAnnotation(gp.Annotation(name='x', values={'v': float('nan')}), timeout=300), bad)
        t.equal('nothing of it is a session', len(control.ListSessions(gp.SessionQuery()).sessions), 0)
    t.equal('nothing of it is stored', n_stored(h.data, 'evil'), 0)
    before = n_stored(h.data, 'good')
    wait_stored(h.data, before + 5, 'good')
    t.match('drained', r'\b0 samples wait', n.stop().err)
    t.equal('ends in order', h.stop().status, 0)
    every_one_once(t, h.data)


@case('tokens: each role does what it may', timeout=120, needs=None)
def tokens(t):
    grpc, gp, gs = messages(t)
    secret = {'node': 'n' * 20, 'read': 'r' * 20, 'control': 'c' * 20}
    path = t.path('tokens')
    with open(path, 'w') as f:
        f.write('# who may do what\n' + ''.join(f'{role} {text}\n' for role, text in secret.items()))
    os.chmod(path, 0o644)
    t.match('readable by all', 'chmod 0600', t.tool('head', '--listen', '127.0.0.1:0', '--data', t.path('x'), '--token-file', path, status=3).err)
    os.chmod(path, 0o600)
    with open(t.path('head.yaml'), 'w') as f:
        f.write('nodes:\n  control_socket: none\n')  # else root needs no token on this machine
    h = Head(t, *FAST, '--token-file', path, '--config', t.path('head.yaml'))
    for role, text in secret.items():
        with open(t.path(role), 'w') as f:
            f.write(text + '\n')
        os.chmod(t.path(role), 0o600)
    denied, unknown = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
    with h.channel() as c:
        control, theirs = Stubs(c, gp, 'Control'), Stubs(c, gs, 'ProfilerService')
        calls = {
            'read': lambda m: control.ListSessions(gp.SessionQuery(), metadata=m, timeout=300),
            'control': lambda m: control.StopSession(gp.SessionName(), metadata=m, timeout=300),
            'node': lambda m: theirs.Connect(gs.InitialInfo(hostname='x'), metadata=m, timeout=300),
            'any': lambda m: theirs.GetStatus(gs.Empty(), metadata=m, timeout=300),
        }
        may = {'node': {'node', 'any'}, 'read': {'read', 'any'}, 'control': {'read', 'control', 'any'}, 'wrong': set(), None: set()}
        for role, allowed in may.items():
            for what, call in calls.items():
                meta = [('authorization', 'Bearer ' + secret.get(role, 'w' * 20))] if role else []
                try:
                    call(meta)
                    code = None
                except grpc.RpcError as e:
                    code = e.code()
                wanted = None if what in allowed else denied if role in secret else unknown
                t.equal(f'{role} does {what}', code, wanted)
    t.match('no token', 'requires a token', h.session('list', status=3).err)
    t.equal('reads', h.session('list', '--token-file', t.path('read')).status, 0)
    t.equal('may not start', h.session('start', '--token-file', t.path('read'), status=3).status, 3)
    n = Node(t, h.address, 'a', '--interval', '0.1', '--token-file', t.path('node'))
    wait_stored(h.data, 3)
    n.stop()
    # Others from now on.
    with open(path, 'w') as f:
        f.write('read ' + 'z' * 20 + '\n')
    h.live.proc.send_signal(signal.SIGHUP)
    h.live.wait_err('read tokens and certificates again')
    t.equal('the old one is no more', h.session('list', '--token-file', t.path('read'), status=3).status, 3)
    h.stop()


@case('TLS with certificates of both sides', timeout=120, needs=None)
def tls(t):
    certificates(t)
    files = {name: t.path(name) for name in ('ca.pem', 'server.pem', 'server.key', 'client.pem', 'client.key')}
    h = Head(t, *FAST, '--cert', files['server.pem'], '--key', files['server.key'], '--client-ca', files['ca.pem'])
    h.by_network_alone()
    t.match('it ends soon', r'warning: the certificate \S+ expires within 2 days', h.live.err_text())
    ours = ('--ca', files['ca.pem'], '--cert', files['client.pem'], '--key', files['client.key'])
    n = Node(t, h.address, 'a', '--interval', '0.1', *ours)
    wait_stored(h.data, 3)
    t.match('steered', r'x +active', h.session('start', 'x', *ours).out)
    wait_stored(h.data, n_stored(h.data) + 3)
    h.session('stop', 'x', *ours)
    t.true('exported', json.loads(export(t, h, 'x', *ours))['account']['samples'] >= 1)
    subprocess.run(['openssl', 'x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '-1', '-out', 'old.pem', '-extfile', 'san'],
                   check=True, capture_output=True, cwd=t.tmp)  # fmt: skip
    old = Head(t, '--cert', t.path('old.pem'), '--key', files['server.key'])
    t.match('it has ended', 'has expired: no client will connect', old.live.err_text())
    old.by_network_alone()
    t.match('a client says why', 'certificate has expired', old.session('list', '--ca', files['ca.pem'], status=1).err)
    old.stop()
    for what, words in (('plaintext', ()), ('no certificate', ('--ca', files['ca.pem'])), ('another authority', ('--tls',))):
        run = h.session('list', *words, status=1)
        t.equal(f'{what}: one line ({run.err!r})', run.err.count('\n'), 1)
    t.match('what is missing', r'the head requires TLS: use --tls\n$', h.session('list', status=1).err)
    t.match('drained', r'\b0 samples wait', n.stop().err)
    h.stop()
    plain = Head(t, *FAST)
    plain.by_network_alone()
    t.match('what is too much', r'the head does not speak TLS: leave out --tls\n$', plain.session('list', '--tls', status=1).err)
    plain.stop()


# --- gswarm-profiler ---


@case('clients of gswarm-profiler (grpcio): units, times, several of a host, coming back', timeout=180, needs=None)
def gswarm_clients(t):
    grpc, gp, gs = messages(t)
    h = Head(t, '--interval', '200ms', '--enable-bandwidth', '--anonymous-control')

    class Client:
        def __init__(self, channel, hostname, measures=False):
            self.stub, self.hostname, self.out = Stubs(channel, gs, 'ProfilerService'), hostname, queue.Queue()
            t.true('Connect', self.stub.Connect(gs.InitialInfo(hostname=hostname, gpus=[gs.GPUInfo(physical_idx=0, name='G')]), timeout=300).success)
            self.call = self.stub.StreamMetrics.future(iter(self.out.get, None))
            self.measures = measures

        def send(self, util, at=0.0, extra=None):
            # Its clients send what the GPU sent as rx, and 0 where they measure nothing, until their settings are read.
            rx, tx = (2048, 1024) if self.measures else (0, 0)
            g = gs.GPUMetric(physical_idx=0, name='G', gpu_util=util, mem_util=0.25, dram_bw_gbps_rx=rx, dram_bw_gbps_tx=tx)
            self.measures = True
            if extra:
                g.extra_metrics.update(extra)
            self.out.put(gs.MetricsUpdate(hostname=self.hostname, gpus_metrics=[g], timestamp=at,
                                          system_metrics=gs.SystemMetrics(dram_util=50, disk_util=12.5)))  # fmt: skip

        def end(self):
            self.out.put(None)
            return self.call.result(timeout=300)

    options = [('grpc.use_local_subchannel_pool', 1)]
    with grpc.insecure_channel(h.address, options) as c1, grpc.insecure_channel(h.address, options) as c2:
        a, b = Client(c1, 'old'), Client(c2, 'old')
        t.equal('status', (a.stub.GetStatus(gs.Empty()).freq, a.stub.GetStatus(gs.Empty()).enable_bandwidth_profiling), (200, True))
        started = a.stub.StartProfiling(gs.StartProfilingRequest(name='theirs'))
        t.match('where it can be had', r'^/api/v1/sessions/[0-9a-f]{32}/export\?format=gswarm$', started.output_file if started.success else '')
        t.equal('twice', a.stub.StartProfiling(gs.StartProfilingRequest(name='theirs')).success, False)
        t.equal('another', a.stub.StartProfiling(gs.StartProfilingRequest(name='second', report_metrics=['gpu_bubble'])).success, True)
        t.equal('a path', a.stub.StartProfiling(gs.StartProfilingRequest(name='../x')).success, False)
        now = time.time()
        for i in range(10):
            a.send(0.1, now + i * 0.2, {'temperature': 41.0, 'power_draw': 250000.0, 'sm_clock': 1000.0, 'note': 'x'})
            b.send(0.9, now + i * 0.2)
        wait_stored(h.data, 20, 'old')
        status = a.stub.GetStatus(gs.Empty())
        t.equal('status: clients', sorted(status.connected_clients), ['old/gswarm 127.0.0.1 1', 'old/gswarm 127.0.0.1 2'])
        t.equal('status: profiling', (status.is_profiling, status.output_filename[-21:]), (True, '/export?format=gswarm'))
        t.equal('status: sessions', {s['name'] for s in json.loads(status.active_sessions_json)}, {'theirs', 'second'})
        cluster = a.stub.ReadClusterStatus(gs.ReadClusterStatusRequest())
        t.equal('cluster', sorted(round(n.gpus[0].utilization) for n in cluster.nodes), [10, 90])
        t.equal('node', a.stub.ReadNodeStatus(gs.ReadNodeStatusRequest(node_id='old')).success, True)
        t.equal('no node', a.stub.ReadNodeStatus(gs.ReadNodeStatusRequest(node_id='nope')).success, False)
        t.equal('nodes of their own', len(rows(h.data, 'SELECT id FROM node')), 2)
        # Ends, and comes back: the same node again.
        a.end()
        wait_until(lambda: len(Stubs(c2, gs, 'ProfilerService').GetStatus(gs.Empty()).connected_clients) == 1, 30, 'one left')
        # Those that come back measure at once: when they do, and so in which frame, is up to the machine.
        a = Client(c1, 'old', measures=True)
        a.send(0.1, now + 2.0)
        wait_stored(h.data, 21, 'old')
        t.equal('no new node', len(rows(h.data, 'SELECT id FROM node')), 2)
        # The network took it: it comes back before its old stream has ended. The other one samples on.
        wait_until(lambda: b.send(0.9, time.time()) or time.sleep(0.2) or h.live.proc.poll() is not None or time.time() > now + 8, 30, 'silence')
        back = Client(c1, 'old', measures=True)
        back.send(0.1, time.time())
        try:
            a.call.result(timeout=300)
            t.fail('the old stream goes on')
        except grpc.RpcError as e:
            t.equal('the old stream is ended', e.code(), grpc.StatusCode.ABORTED)
        n = n_stored(h.data, 'old')
        back.send(0.1, time.time())
        wait_stored(h.data, n + 1, 'old')
        t.equal('still two nodes', len(rows(h.data, 'SELECT id FROM node')), 2)
        t.equal('stop one', b.stub.StopProfiling(gs.StopProfilingRequest(name='second')).success, True)
        t.equal('stop none', b.stub.StopProfiling(gs.StopProfilingRequest(name='nope')).success, False)
        t.equal('stop all', b.stub.StopProfiling(gs.StopProfilingRequest()).success, True)
        t.equal('nothing active', b.stub.StopProfiling(gs.StopProfilingRequest()).success, False)
        t.equal('switch', (b.stub.SetNVLinkProfiling(gs.SetNVLinkProfilingRequest(enable=True)).success,
                           b.stub.SetBandwidthProfiling(gs.SetBandwidthProfilingRequest(enable=False)).success), (True, True))  # fmt: skip
        status = b.stub.GetStatus(gs.Empty())
        t.equal('switched', (status.enable_bandwidth_profiling, status.enable_nvlink_profiling), (False, True))
        try:
            b.stub.Exit(gs.Empty())
            t.fail('Exit is done')
        except grpc.RpcError as e:
            t.equal('Exit', e.code(), grpc.StatusCode.PERMISSION_DENIED)
        b.end()
        back.end()
    doc = json.loads(export(t, h, 'theirs'))
    frames = [f for f in doc['frames'] if all(f['available'][:2])]
    t.true('frames of both', len(frames) >= 8, len(frames))
    for f in frames:
        t.equal('never mixed up', sorted(f['gpu_util']), [10, 90])
        t.equal('memory', f['gpu_memory'], [25, 25])
        unknown = f is frames[0]  # a 0 of a client that has never sent more is no measurement
        t.equal('GB/s', (f['dram_bandwidth_rx'][0], f['dram_bandwidth_tx'][0]), (None, None) if unknown else (0.001048576, 0.002097152))
        t.equal('of the machine', (f['dram_util'][0], f['disk_util'][0]), (50, 12.5))
    extra = [e for f in frames for e in f['extra_metrics'] if 'temperature_celsius' in e]
    t.true('extra metrics', extra and (extra[0]['power_watts'], extra[0]['sm_clock_hertz']) == (250, 1e9), extra[:1])
    h.stop()


@case('our client and gsprof with a head of gswarm-profiler (grpcio)', timeout=120, needs=None)
def gswarm_head(t):
    grpc, gp, gs = messages(t)
    seen, asked = queue.Queue(), queue.Queue()

    class Service:
        def Connect(self, request, context):
            asked.put(('Connect', request.hostname))
            return gs.ConnectResponse(success=True, message='ok')

        def StreamMetrics(self, requests, context):
            for m in requests:
                seen.put(m)
            return gs.Empty()

        def GetStatus(self, request, context):
            return gs.StatusResponse(freq=100, enable_bandwidth_profiling=True, connected_clients=['c1'])

        def StartProfiling(self, request, context):
            asked.put(('start', request.name))
            return gs.StartProfilingResponse(success=request.name != 'bad', message='no', output_file='f.json')

        def StopProfiling(self, request, context):
            asked.put(('stop', request.name))
            return gs.StopProfilingResponse(success=True, message='stopped')

        def Exit(self, request, context):
            asked.put(('exit', ''))
            return gs.Empty()

    inputs = {'Connect': gs.InitialInfo, 'GetStatus': gs.Empty, 'StartProfiling': gs.StartProfilingRequest,
              'StopProfiling': gs.StopProfilingRequest, 'Exit': gs.Empty}  # fmt: skip
    handlers = {name: grpc.unary_unary_rpc_method_handler(getattr(Service(), name), request_deserializer=m.FromString,
                                                          response_serializer=lambda x: x.SerializeToString()) for name, m in inputs.items()}  # fmt: skip
    handlers['StreamMetrics'] = grpc.stream_unary_rpc_method_handler(
        Service().StreamMetrics, request_deserializer=gs.MetricsUpdate.FromString, response_serializer=lambda x: x.SerializeToString())
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('gswarm_profiler.ProfilerService', handlers),))
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    n = Node(t, f'127.0.0.1:{port}', 'x', spool=False)
    got = [seen.get(timeout=300) for _ in range(5)]
    t.equal('introduced', asked.get(timeout=300)[0], 'Connect')
    t.equal('GPUs', {len(m.gpus_metrics) for m in got}, {2})
    t.true('shares', all(0 <= g.gpu_util <= 1 and 0 <= g.mem_util <= 1 for m in got for g in m.gpus_metrics))
    t.true('its own times', got[0].timestamp < got[-1].timestamp and abs(got[0].timestamp - time.time()) < 60)
    t.true('of the machine', all(0 < m.system_metrics.dram_util < 100 and 0 < m.system_metrics.disk_util < 100 for m in got), got[0])
    n.stop()
    gsprof = os.path.join(t.tmp, 'gsprof')
    os.symlink(harness.gpuscope, gsprof)

    def prof(*args):
        return subprocess.run([gsprof, *args], capture_output=True, text=True, timeout=60, cwd=t.tmp)

    address = f'127.0.0.1:{port}'
    t.equal('profile', (prof('profile', address, '--name', 'run').returncode, asked.get(timeout=300)), (0, ('start', 'run')))
    t.equal('refused', (prof('profile', address, '--name', 'bad').returncode, asked.get(timeout=300)), (1, ('start', 'bad')))
    t.equal('stop', (prof('stop', address, '--name', 'run').returncode, asked.get(timeout=300)), (0, ('stop', 'run')))
    t.match('status', r'freq: 100 ms(.|\n)*connected clients: 1', prof('status', address).stdout)
    t.equal('exit', (prof('exit', address).returncode, asked.get(timeout=300)), (0, ('exit', '')))
    server.stop(0)


@case('the command lines of gswarm-profiler: start, connect, profile, stop, recover, exit', timeout=120, needs=None)
def gsprof(t):
    program = os.path.join(t.tmp, 'gsprof')
    os.symlink(harness.gpuscope, program)
    port, http_port = harness.free_port(), harness.free_port()
    # HTTP is where --host is, as its head's.
    address, page = f'127.0.0.2:{port}', f'127.0.0.2:{http_port}'

    def prof(*args, status=0):
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=100, cwd=t.tmp)
        t.equal(f'gsprof {" ".join(args)} ({done.stderr[-200:]})', done.returncode, status)
        return done

    t.match('it lists them', r'generate-grpc', prof('help').stdout + prof('nonsense', status=2).stdout)
    t.match('nothing to generate', r'^gpuscope: generate-grpc: there is nothing to generate.*\n$', prof('generate-grpc').stderr)
    t.match('help of one', '--freq', prof('help', 'start').stdout)
    prof('start', '--host', '127.0.0.2', '--port', str(port), '--freq', '100', '--enable-bandwidth', '--disable-nvlink', '--background',
         '--anonymous-control', '--http-port', str(http_port))  # fmt: skip
    node = harness.Live(t, lambda _: [program, 'connect', address, '--enable-bandwidth', '--resilient', '--nvml',
                                      os.path.join(harness.fake, 'libnvidia-ml.so.1'), '--spool', t.path('spool')], env=t.envs())  # fmt: skip
    node.wait_err('connected to the head')
    prof('profile', address, '--name', 'job 7')
    data = t.path('.gswarm_profiler_data')
    wait_stored(data, n_stored(data) + 10)
    t.match('status', rf'profiling: yes\noutput file: {t.tmp}/job 7.json', prof('status', address).stdout)
    prof('stop', address, '--name', 'job 7')
    doc = json.loads(harness.read_text(t.path('job 7.json')))
    t.true('frames', len(doc['frames']) >= 3, doc)
    t.true('texts', isinstance(doc['frames'][0]['gpu_util'][0], str))
    t.match('list', r'job 7 +stopped', prof('recover', '--list', '--head', address).stdout)
    figure = prof('stat', '--data', 'job 7.json')
    t.true('a figure', os.path.getsize(t.path('job 7.pdf')) > 2000, figure.stderr)
    prof('stat', status=2)
    prof('http-profile', page, '--name', 'by http')
    prof('http-profile', page, '--name', 'by http', status=1)
    t.equal('status by HTTP', json.loads(prof('http-status', page).stdout)['is_profiling'], True)
    prof('http-stop', page, '--name', 'by http')
    stopped = json.loads(harness.read_text(t.path('by http.json')))
    t.equal('http-stop leaves the file', stopped['session_name'], 'by http')
    prof('http-profile', page, '--name', 'one')
    prof('http-profile', page, '--name', 'two')
    data = t.path('.gswarm_profiler_data')
    wait_stored(data, n_stored(data) + 10)
    prof('http-stop', page)
    for name in ('one', 'two'):
        doc_of = json.loads(harness.read_text(t.path(name + '.json')))
        t.true(f'{name} has what start --enable-bandwidth asked for', any(f.get('dram_bandwidth') for f in doc_of['frames']))
    prof('http-stop', page, page, status=2)
    prof('http-stop', page, '--name', '../x', status=1)
    os.unlink(t.path('job 7.json'))
    prof('recover', '--name', 'job 7', '--export', '--head', address)
    # What was measured before the stop and delivered after it is behind what was there already, or in its last frame.
    again, whole = json.loads(harness.read_text(t.path('job 7.json'))), len(doc['frames']) - 1
    t.equal('again', [again['session_id'], again['end_time'], again['frames'][:whole], len(again['frames']) > whole],
            [doc['session_id'], doc['end_time'], doc['frames'][:whole], True])  # fmt: skip
    prof('recover', '--name', 'job 7', '--head', address)
    t.match('goes on', r'profiling: yes', prof('status', address).stdout)
    node.interrupt(signal.SIGTERM)
    node.finish()
    prof('exit', status=2)
    prof('exit', address)
    wait_until(lambda: prof_gone(address), 30, 'the head is gone')
    t.match('from what it left', r'job 7 +recoverable', prof('recover', '--list', '--data', data).stdout)


def prof_gone(address):
    with socket.socket() as s:
        host, port = address.split(':')
        return s.connect_ex((host, int(port))) != 0


if __name__ == '__main__':
    main()
