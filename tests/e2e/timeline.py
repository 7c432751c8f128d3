#!/usr/bin/env python3
"""Calls and samples of GPUs on one timeline: a trace beside the stand-in library, whose values are known."""

import json
import os
import re
import time

import harness
from harness import case, main, wait_until
from pftrace_help import counters
from top_help import nvml

GIB = 1 << 30
GPU_PID = 4194305


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)['traceEvents']


def values_of(events, pid, name):
    """[(us, value)] of a counter."""
    return [(e['ts'], *e['args'].values()) for e in events if e['ph'] == 'C' and (e['pid'], e['name']) == (pid, name)]


def groups_of(events):
    return sorted(e['args']['name'] for e in events
                  if e['ph'] == 'M' and e['name'] == 'process_name' and e['pid'] >= GPU_PID)  # fmt: skip


CALLS = ('cudaMalloc=3', 'cudaLaunchKernel=50', 'cudaDeviceSynchronize=2')


def traced(t, *options, gpus=2, words='', pids=None, calls=CALLS, env=None, has_none=False,
           until=lambda text: text.count('memory used') >= 4):
    """A process that launches, waits in its end, and is traced by its number meanwhile: the trace, the process. has_none: there may
    be no samples."""
    hold = t.path(f'hold{t.n_files}')
    app = t.start_app(f'--hold-file={hold}', *calls, env=env)
    live = t.start_trace('-p', str(app.pid), '--nvml', nvml(), '-o', 'a.json', '-o', 'a.pftrace', '-o', 'a.gst', *options,
                         env={'FAKE_NVML': f'gpus={gpus},pids={pids or app.pid}{":1" if pids == 0 else ""},memory=5000,'
                                           f'throttle=36,xid=0:79:1{words}'})  # fmt: skip
    live.wait_err(r'libcudart\S*: \d+ probes')
    app.let_go()
    app.stdout.readline()  # it has made its calls
    before = harness.read_text('a.json').count('memory used')
    wait_until(lambda: until(harness.read_text('a.json')), 60, 'samples in the file')
    if not has_none:
        wait_until(lambda: harness.read_text('a.json').count('memory used') >= before + 3 * gpus, 60, 'samples after its calls')
    with open(hold, 'w', encoding='utf-8'):
        pass
    app.result()
    return live.finish(), app


@case('GPUs of the traced process stand beside its calls', timeout=120)
def beside(t):
    # An XID waits two seconds for the kernel's log to report it, too.
    run, app = traced(t, until=lambda text: text.count('memory used') >= 4 and 'XID' in text and text.count('"utilization"') > 2
                      and text.count('GPU 0 SM time') > 2)
    events = load('a.json')
    t.equal('the one GPU that it uses', groups_of(events), ['GPU 0: NVIDIA H100 80GB HBM3'])
    calls = [e for e in events if e['ph'] == 'X' and e['name'] == 'cudaLaunchKernel']
    t.equal('its calls', len(calls) + run.lost('first_calls'), 50)
    memory = values_of(events, GPU_PID, 'memory used')
    t.equal('memory', {v for _, v in memory}, {5000 << 20})
    t.equal('power', {v for _, v in values_of(events, GPU_PID, 'power')}, {300})
    t.equal('clock', {v for _, v in values_of(events, GPU_PID, 'SM clock')}, {1100})
    t.equal('temperature', {v for _, v in values_of(events, GPU_PID, 'temperature')}, {40})
    t.true('utilization', len(values_of(events, GPU_PID, 'utilization')) >= 2)
    # One clock for both: the process was there before its first launch and after its last.
    t.true('samples before and after the calls', memory[0][0] <= memory[-1][0] and memory[-1][0] > max(c['ts'] for c in calls),
           f'{memory[0]} {memory[-1]} {calls[-1]}')  # fmt: skip
    t.true('in order', memory == sorted(memory) and len(set(memory)) == len(memory))
    shares = values_of(events, app.pid, 'GPU 0 memory')
    t.true('the memory of the process', shares and all(v > 0 for _, v in shares), str(shares))
    t.true('its time', len(values_of(events, app.pid, 'GPU 0 SM time')) >= 2)
    held = [e for e in events if e['ph'] == 'X' and e.get('cat') == 'gpu']
    t.equal('clocks throttled', [(e['name'], e['pid']) for e in held], [('power cap, heat', GPU_PID)])
    xids = [e for e in events if e['ph'] == 'i' and e.get('cat') == 'gpu,error']
    t.equal('XIDs', [(e['name'], e['pid']) for e in xids], [('XID 79: GPU has fallen off the bus', GPU_PID)])
    t.match('what it costs', r'samples of GPUs: .* of one processor, in threads of their own', run.err)


@case('the same in all files, and in what a recording is turned into', timeout=120)
def same(t):
    _, app = traced(t)
    events = load('a.json')
    tracks = counters(t, 'a.pftrace')
    gpu = 'GPU 0: NVIDIA H100 80GB HBM3'
    for name, unit in (('memory used', 'UNIT_SIZE_BYTES'), ('power', 'W'), ('SM clock', 'MHz'), ('utilization', '%')):
        wanted = [(round(ts * 1000), v) for ts, v in values_of(events, GPU_PID, name)]
        t.equal(name, [(ns, round(v, 6)) for ns, v in tracks.get((gpu, name, unit), [])], wanted)
    t.equal('of the process', len(tracks[('fake_app', 'GPU 0 memory', 'UNIT_SIZE_BYTES')]), len(values_of(events, app.pid, 'GPU 0 memory')))
    for suffix in ('json', 'pftrace'):
        t.tool('report', 'a.gst', '-o', f'b.{suffix}', status=0)
    t.equal('.json again', load('b.json'), events)
    t.equal('.pftrace again', counters(t, 'b.pftrace'), tracks)
    # Samples do not change what the summary of calls says, nor whose it is.
    summary = json.loads(t.tool('report', 'a.gst', '--format', 'json', status=0).out)
    t.equal('mode', summary['mode'], 'events')
    replayed = json.loads(t.tool('top', '--once', '--format', 'json', '--replay', 'a.gst', status=0).out)
    t.equal('replayed', [(g['index'], g['memory_used_bytes']) for g in replayed['gpus']], [(0, 5000 << 20)])


@case('--no-gpu: none')
def without(t):
    run, _ = traced(t, '--no-gpu', has_none=True, until=lambda text: 'cudaDeviceSynchronize' in text)
    events = load('a.json')
    t.equal('no GPU', [e for e in events if e.get('pid', 0) >= GPU_PID or e.get('cat') == 'gpu'], [])
    t.true('no cost', 'samples of GPUs' not in run.err)
    t.equal('nothing in the recording', t.tool('report', 'a.gst', '-v', status=0).err.count('samples of'), 0)


@case('no processes that the driver knows by their numbers: all GPUs', timeout=120)
def unknown(t):
    run, app = traced(t, pids=1)
    events = load('a.json')
    t.equal('both', [g[:5] for g in groups_of(events)], ['GPU 0', 'GPU 1'])
    t.match('said', r'the driver lists no traced process on a GPU: all 2 GPUs are recorded', run.err)
    t.equal('no share', [e['name'] for e in events if e['ph'] == 'C' and e['pid'] == app.pid and e['name'].startswith('GPU')], [])


@case('all GPUs, until it is known which of them are used', timeout=120)
def found_later(t):
    conf, hold = t.path('nvml.conf'), t.path('hold')

    def pretend(pid):
        with open(conf + '.new', 'w', encoding='utf-8') as f:
            f.write(f'gpus=2,pids={pid}')
        os.rename(conf + '.new', conf)

    app = t.start_app(f'--hold-file={hold}', *CALLS)
    pretend(1)
    live = t.start_trace('-p', str(app.pid), '--nvml', nvml(), '-o', 'a.json', env={'FAKE_NVML_FILE': conf})
    live.wait_err(r'libcudart\S*: \d+ probes')
    app.let_go()
    wait_until(lambda: harness.read_text('a.json').count('memory used') >= 6, 60, 'samples of both')
    pretend(app.pid)
    wait_until(lambda: harness.read_text('a.json').count('GPU 0 memory') >= 3, 60, 'samples of the process')
    with open(hold, 'w', encoding='utf-8'):
        pass
    app.result()
    live.finish()
    events = load('a.json')
    groups = {e['args']['name'][:5]: e['pid'] for e in events if e['ph'] == 'M' and e['name'] == 'process_name' and e['pid'] >= GPU_PID}
    t.equal('both at first', sorted(groups), ['GPU 0', 'GPU 1'])
    known = min(ts for ts, _ in values_of(events, app.pid, 'GPU 0 memory'))
    t.true('then the one', max(ts for ts, _ in values_of(events, groups['GPU 0'], 'memory used')) > known)
    other = max(e['ts'] for e in events if e['ph'] == 'C' and e['pid'] == groups['GPU 1'])
    t.true('and the other no more', other < known, f'{other} {known}')


@case('a driver that does not answer holds nothing up', timeout=120)
def hangs(t):
    for call in ('Init_v2', 'DeviceGetMemoryInfo', 'DeviceGetPowerUsage'):
        run, _ = traced(t, words=f',hang={call}', has_none=True, until=lambda text: 'cudaDeviceSynchronize' in text)
        t.equal(f'{call}: calls', run.calls('cudaLaunchKernel'), 50)
        t.nothing_lost(run)


@case('no driver: a trace of calls, without a word')
def no_driver(t):
    run = t.trace('-o', 'a.json', '--nvml', 'libno-such-nvidia-ml.so.1', command=t.app('cudaLaunchKernel=50'))
    t.equal('calls', run.calls('cudaLaunchKernel'), 50)
    t.true('quiet', 'GPU' not in run.err, run.err)
    t.equal('no GPU', groups_of(load('a.json')), [])
    wrong = t.tool('trace', '-o', 'b.json', '--nvml', '/no/such/libnvidia-ml.so.1', '--', 'true', status=2)
    t.match('a path that leads nowhere', r'--nvml: the library does not exist or is not readable', wrong.err)


def compared(t, **how):
    """3 s in which the GPU had a kernel 90 % of the time, by its own counter, and the host waited for it nearly all the time."""
    pairs = ('cudaLaunchKernel=1', 'cudaDeviceSynchronize=1') * 150
    run, _ = traced(t, gpus=1, words=',board=a100,util=90', calls=pairs, env={'FAKE_CUDA_SYNC_US': '20000'},
                    until=lambda text: text.count('cudaDeviceSynchronize') >= 150, **how)  # fmt: skip
    return run.summary['gpus']


@case('how far bounds are from what the GPU counted', timeout=120)
def accuracy(t):
    gpus = compared(t)
    t.equal('one GPU', [(g['gpu'], g['not_compared'], g['other_processes_known'], g['other_processes_ns']) for g in gpus],
            [('0', None, True, 0)])  # fmt: skip
    g = gpus[0]
    t.equal('its counter', round(g['compared_device_busy_ratio'], 6), 0.9)
    t.true('bounds', 0 < g['host_busy_min_ratio'] <= g['host_busy_max_ratio'] <= 1, str(g))
    t.true('a time', 1e9 <= g['compared_ns'], str(g))
    t.equal('memory', g['device_memory_peak_bytes'], 5000 << 20)
    text = t.tool('report', 'a.gst', status=0).out
    t.match('said', r'(?s)GPUs: measured by the device, and bounds from host calls.* 0 +90\.0 % .* % .*measured by the GPU', text)
    t.true('the same of the recording', json.loads(t.tool('report', 'a.gst', '--format', 'json', status=0).out)['gpus'] == gpus)


@case('beside another process nothing is compared', timeout=120)
def beside_another(t):
    gpus = compared(t, pids=0)
    t.equal('why', [g['not_compared'] for g in gpus], ['other_processes'])
    t.match('said', r'(?s)0 +90\.0 % .*GPU 0 is not compared: other processes used it\.', t.tool('report', 'a.gst', status=0).out)


@case('what a format cannot show is not written')
def nothing(t):
    t.trace('-o', 'a.gst', '--no-gpu', command=['true'])
    for suffix in ('json', 'pftrace', 'csv', 'svg'):
        with open(f'old.{suffix}', 'w', encoding='utf-8') as f:
            f.write('mine')
        run = t.tool('report', 'a.gst', '-o', f'old.{suffix}', status=4)
        t.match(suffix, rf'old\.{suffix} is not written, as it would be empty: ', run.err)
        t.equal('one line', len(run.err.splitlines()), 1)
        t.equal('what was there', harness.read_text(f'old.{suffix}'), 'mine')
    t.equal('nothing left behind', [n for n in os.listdir('.') if n.startswith('.old')], [])


main()
