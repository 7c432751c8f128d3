#!/usr/bin/env python3
"""Streams of a GPU as the table by stream and JSON show them, against a program that counts and times what it does."""

import json
import os
import re
import subprocess

import harness
from harness import Skip, case, main

SYNC_US = 20000


def program():
    return [os.path.join(harness.fake, 'streams')]


def run_streams(t, *options):
    run = t.trace('-o', 'run.gst', *options, command=program(), env={'FAKE_CUDA_SYNC_US': str(SYNC_US)})
    return run, run.lines[0]


def stream_of(summary, handle, device=0, tid=None):
    found = [s for s in summary['streams'] if (s['stream'], s['device'], s['tid']) == (handle, device, tid)]
    return found[0] if len(found) == 1 else None


def check_counts(t, summary, said):
    a, b = stream_of(summary, said['a']), stream_of(summary, said['b'])
    default, second = stream_of(summary, '0x0'), stream_of(summary, '0x0', device=1)
    own = stream_of(summary, '0x2', tid=said['second_tid'])
    t.equal('five streams', len(summary['streams']), 5)
    if not (a and b and default and second and own):
        t.fail(f'streams: {summary["streams"]}')
        return
    t.equal('launches of A', (a['launches'], a['graph_launches'], a['captured']), (100 + 2 + 1 + 3, 3, 13))
    t.equal('threads of A', a['threads'], 103 * 128)
    t.equal('copies of B', (b['copies'], b['copies_htod'], b['copies_htod_bytes'], b['copies_dtoh'], b['copies_dtoh_bytes']), (10, 7, 7000, 3, 1500))
    t.equal('launches of B', b['launches'], 4)
    t.equal('launches in the default stream', default['launches'], 5)
    t.equal("launches in a thread's own default stream", own['launches'], 11)
    t.equal('launches on device 1', second['launches'], 2)
    t.equal('events', (b['events_recorded'], a['event_waits']), (1, 1))
    t.equal('waits', [s['syncs'] for s in (a, b, default, own, second)], [3, 0, 1, 1, 0])
    t.equal('which the default stream waits for', [s['blocking'] for s in (a, b, default, own)], ['no', 'yes', 'yes', 'yes'])
    t.equal('destroyed', [s['destroyed'] for s in (a, b, default, own, second)], [False, True, False, False, False])
    t.equal('pending', [s['pending'] for s in (a, b, default, own, second)], [0, 0, 0, 0, 2])
    t.equal('stretches of A', (a['busy_spans'], a['gaps']), (3, 2))
    t.equal('nothing was left out', set(summary['stream_limits'].values()), {0})


def check_times(t, summary, said):
    a, b = stream_of(summary, said['a']), stream_of(summary, said['b'])
    sync_ns = SYNC_US * 1000
    t.true('A had work at most', said['inner_ns'] <= a['busy_max_ns'] <= said['outer_ns'], f'{a} {said}')
    t.true('A had work at least', 2 * sync_ns <= a['busy_min_ns'] <= said['wait_outer_ns'], f'{a} {said}')
    t.true('A had none', said['gap_inner_ns'] <= a['gap_ns'] <= said['gap_outer_ns'], f'{a} {said}')
    t.true('A had none for long', said['pause_ns'] <= a['gap_max_ns'], f'{a} {said}')
    t.true('the host waited for A', 3 * sync_ns <= a['wait_ns'] <= said['wait_outer_ns'], f'{a} {said}')
    # Once behind A, once behind the default stream: what the host waited for is not known.
    t.true('the host waited for B among others', b['wait_ns'] >= 2 * sync_ns and b['busy_min_ns'] == 0, str(b))


@case('launches, copies and waits of each stream, and bounds of the time with work')
def by_stream(t):
    run, said = run_streams(t)
    check_counts(t, run.summary, said)
    check_times(t, run.summary, said)
    devices = {d['device']: d for d in run.summary['stream_devices']}
    t.equal('devices', sorted(devices), [0, 1])
    t.equal('streams of each', [devices[d]['streams'] for d in (0, 1)], [4, 1])
    whole = devices[0]
    t.true('device 0', said['inner_ns'] <= whole['busy_max_ns'] and whole['busy_min_ns'] >= 5 * SYNC_US * 1000, str(whole))
    t.true('no work at all during the pause', whole['gap_max_ns'] >= said['pause_ns'], str(whole))
    again = t.tool('report', 'run.gst', '--format', 'json', status=0)
    t.equal('the same of the recording', json.loads(again.out)['streams'], run.summary['streams'])


@case('which device threads had chosen before the trace began is not known')
def late(t):
    app = t.start_app('cudaLaunchKernel=31', 'cudaSetDevice=1', 'cudaStreamCreate=1')
    live = t.start_trace('-p', str(app.pid), '-o', 'late.gst')
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    app.result()
    run = live.finish()
    t.equal('devices of launches', {s['device'] for s in run.summary['streams'] if s['launches']}, {None})
    t.match('the table', r'\?', t.tool('report', 'late.gst', '--by', 'stream', status=0).out)


@case('contexts of the driver: made, chosen, pushed and popped')
def contexts(t):
    run = t.trace('-o', 'ctx.gst', command=[os.path.join(harness.fake, 'contexts')])
    said = run.lines[0]
    found = {(s['device'], s['context']): s['launches'] for s in run.summary['streams'] if s['launches']}
    t.equal('launches by device and context', found,
            {(0, None): 7, (1, None): 16, (2, None): 6, (1, said['own']): 19, (0, said['other']): 12})  # fmt: skip
    ended = {(s['device'], s['context']): (s['pending'], s['destroyed']) for s in run.summary['streams'] if s['launches']}
    t.equal('waited for, and destroyed', (ended[1, None], ended[1, said['own']], ended[0, said['other']]), ((0, False), (0, True), (12, False)))
    t.equal('devices', sorted((d['device'], d['context'] or '', d['syncs']) for d in run.summary['stream_devices']),
            sorted([(0, '', 0), (1, '', 1), (2, '', 0), (1, said['own'], 1), (0, said['other'], 0)]))  # fmt: skip
    text = t.tool('report', 'ctx.gst', '--by', 'stream', status=0).out
    t.match('the table', r'(?m)^ *default +1\+ +19 ', text)


@case('the table by stream')
def table(t):
    _, said = run_streams(t)
    text = t.tool('report', 'run.gst', '--by', 'stream', '--width', '160', status=0).out
    rows = [line.split() for line in text.splitlines()]
    a = [r for r in rows if r and r[0] == said['a']]
    t.equal('a row', [r[:3] for r in a], [[said['a'], '0', '106']])
    t.true('default streams', any(r[:1] == ['default'] for r in rows) and f'default of {said["second_tid"]}' in text, text)
    t.true('says what the bounds are', 'Bounds as the host sees them' in text, text)
    live = t.tool('trace', '--by', 'stream', '--', *program(), status=0)
    t.true('of a trace without a file', 'Streams, by the time' in live.out + live.err, live.out + live.err)


def spans_of(path):
    """{name of a track: its slices}."""
    with open(path, encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    names = {(e['pid'], e['tid']): e['args']['name'] for e in events if e['ph'] == 'M' and e['name'] == 'thread_name'}
    tracks = {}
    for e in events:
        if e.get('cat') == 'gpu-stream':
            tracks.setdefault(names[e['pid'], e['tid']], []).append(e)
    return tracks


@case('a track for each stream in .json, live and of a recording')
def tracks(t):
    run, said = run_streams(t, '-o', 'run.json')
    spans = spans_of(t.path('run.json'))
    names = {f'GPU 0 stream {said["a"]}': said['a'], f'GPU 0 stream {said["b"]}': said['b'], 'GPU 0 default stream': '0x0'}
    own = f'GPU 0 default stream of {said["second_tid"]}'
    t.equal('tracks', sorted(spans), sorted([*names, own, 'GPU 1 default stream']))
    for name, handle in names.items():
        row = stream_of(run.summary, handle)
        n = {work: sum(e['args']['count'] for e in spans[name] if e['name'] == work) for work in ('kernels', 'graphs', 'copies HtoD')}
        t.equal(f'work of {name}', n, {'kernels': row['launches'] - row['graph_launches'], 'graphs': row['graph_launches'], 'copies HtoD': row['copies_htod']})
        t.true(f'{name} one behind the other', all(e['dur'] >= 0 for e in spans[name]), spans[name])
    t.equal('bytes', sum(e['args']['bytes'] for e in spans[f'GPU 0 stream {said["b"]}'] if e['name'] == 'copies HtoD'), 7000)
    t.equal('threads', {e['args']['threads_mean'] for e in spans[f'GPU 0 stream {said["a"]}'] if e['name'] == 'kernels'}, {128})
    t.equal('never known to be done', [(e['args']['count'], e['args'].get('state')) for e in spans['GPU 1 default stream']], [(2, 'completion not seen')])
    t.tool('report', 'run.gst', '-o', 'again.json', status=0)
    again = spans_of(t.path('again.json'))
    t.equal('of the recording', again, spans)


# Fills memory on device 0, having set its environment before, or long after the first call. It stays for a while, as what it
# has set is looked at in its memory.
FILLS = """
import ctypes, os, sys, time
lib, when = sys.argv[1:3]
def choose(n):
    os.environ['CUDA_VISIBLE_DEVICES'] = n
if when == 'before':
    choose('1')
cuda, p = ctypes.CDLL(lib), ctypes.c_void_p()
def fill():
    assert cuda.cudaMalloc(ctypes.byref(p), 4096) == 0
    assert cuda.cudaMemset(p, 0, 4096) == 0
fill()
if when == 'wait':
    choose('1')
    print('ready', flush=True)
    input()
    fill()
time.sleep(2)
print('{}')
"""


def with_driver(t, *command):
    """The command beside the files of a driver that has two GPUs."""
    for i, uuid in enumerate(('GPU-aa', 'GPU-bb')):
        folder = t.path(f'driver/nvidia/gpus/0000:0{i}:00.0')
        os.makedirs(folder, exist_ok=True)
        with open(folder + '/information', 'w') as f:
            f.write(f'Model: \t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Location: \t 0000:0{i}:00.0\nDevice Minor: \t {i}\n')
    mount = 'mount --make-rprivate / && mount --bind "$0" /proc/driver && exec "$@"'
    return ['unshare', '-m', 'sh', '-c', mount, t.path('driver'), *command]


def gpus_of(path):
    with open(path, encoding='utf-8') as f:
        return [(d['device'], d['gpu_uuid']) for d in json.load(f)['stream_devices']]


@case('which GPU a device is: by the environment that the program has when it begins with CUDA')
def which_gpu(t):
    if os.geteuid() != 0:
        raise Skip('needs root')
    lib = os.path.join(harness.fake, 'libcudart.so.13')
    out = t.path('gpus.json')
    trace = [harness.gpuscope, 'trace', '-o', t.path('g.gst'), '--format', 'json', '--summary', out]
    for when, env, want in (('never', {}, 'GPU-aa'), ('never', {'CUDA_VISIBLE_DEVICES': '1,0'}, 'GPU-bb'), ('before', {}, 'GPU-bb'),
                            ('before', {'CUDA_VISIBLE_DEVICES': '0'}, 'GPU-bb')):  # fmt: skip
        words = with_driver(t, *trace, '--', '/usr/bin/python3', '-c', FILLS, lib, when)
        done = subprocess.run(words, capture_output=True, text=True, env=t.envs(env), timeout=60)
        t.equal(f'{when} {env} ({done.stderr[-300:]})', (done.returncode, gpus_of(out) if done.returncode == 0 else None), (0, [(0, want)]))
    # Attached later: which device its thread has, and whether CUDA saw the change, is not known.
    proc = subprocess.Popen(['/usr/bin/python3', '-c', FILLS, lib, 'wait'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=t.envs())
    t.equal('it runs', proc.stdout.readline(), 'ready\n')
    tracer = subprocess.Popen(with_driver(t, *trace, '-v', '-p', str(proc.pid)), stderr=subprocess.PIPE, text=True, env=t.envs())
    while tracer.poll() is None and not re.search(r'libcudart[^ ]*: [0-9]+ probes', tracer.stderr.readline()):
        pass
    proc.communicate('go\n', timeout=60)
    tracer.communicate(timeout=60)
    t.equal('attached later', gpus_of(out), [(None, None)])


@case('--stream-limits: what finds no room is counted, and shown')
def limits(t):
    run, said = run_streams(t, '--stream-limits', 'streams=2,graphs=1')
    t.equal('of two streams', len(run.summary['streams']), 2)
    t.true('their work was counted', run.summary['stream_limits']['streams'] > 5, run.summary['stream_limits'])
    t.equal('one graph: the other form of it found no room', run.summary['stream_limits']['graphs'] > 0, True)
    t.equal('launches in all', sum(s['launches'] for s in run.summary['streams']) + sum(d['work_not_listed'] for d in run.summary['stream_devices']) >= 120, True)
    text = t.tool('report', 'run.gst', '--by', 'stream', '--stream-limits', 'streams=1', status=0).out
    t.match('the table', r'Too many to follow: [0-9]+ operations in streams beyond the limit', text)
    whole = json.loads(t.tool('report', 'run.gst', '--format', 'json', status=0).out)
    t.equal('the recording has all', len(whole['streams']), 5)
    for bad in ('streams', 'streams=', 'streams=0', 'streams=99999999', 'nothing=3', 'streams=3x'):
        refused = t.tool('trace', '--stream-limits', bad, '--', *program(), status=2)
        t.match(f'refused {bad}', 'stream-limits takes one or more of', refused.err)


@case('calls that were added up have no stream')
def added_up(t):
    run = t.trace('--summary-only', command=program())
    t.equal('none', run.summary['streams'], [])
    t.tool('trace', '--summary-only', '--by', 'stream', '--', *program(), status=2)


if __name__ == '__main__':
    main()
