#!/usr/bin/env python3
"""What GPUs do, with their own times, from inside of a process (--inside=gpu): by CUPTI's stand-in, to the unit; the program's own
profiler gets all of its records; what cannot be is said and harms nothing."""

import json
import os
import re

from harness import case, main

NAMES = ('kernel(float*, int)', 'void at::native::elementwise_kernel<128>(int)', 'ampere_sgemm_128x64_nn')
ALL = ['--inside=gpu', '--gpu-window', '60s/120s']


def said(run):
    """What app_cupti says that it did."""
    found = re.search(r'kernels (\d+) ns (\d+) profiled (\d+) of (\d+) foreign (\d+)', run.out)
    return [int(n) for n in found.groups()] if found else [0] * 5


def durations(n, which):
    return [1000 + i for i in range(n) if i % 3 == which]


def trace(t, words, *options, **more):
    return t.trace(*options, command=t.app(*words.split(), name='app_cupti'), **more)


@case('time by kernel, stretches and names are what the program did, to the unit')
def kernels(t):
    run = trace(t, 'driver kernels 3000 others', *ALL)
    g = run.summary['gpu_time']
    t.equal('kernels', {k['name']: (k['runs'], k['total_ns'], k['min_ns'], k['max_ns']) for k in g['kernels']},
            {name: (1000, sum(d), min(d), max(d)) for name, d in ((NAMES[i], durations(3000, i)) for i in range(3))})  # fmt: skip
    t.equal('sum', g['kernel_ns'], said(run)[1])
    d = g['devices'][0]
    t.equal('counts', [d[k] for k in ('kernels', 'copies', 'copied_bytes', 'fills', 'graphs')], [3000, 1, 4096, 1, 0])
    t.equal('spoiled', [g[k] for k in ('records_dropped', 'buffers_discarded', 'records_bad', 'left_out', 'untimed')], [0] * 5)
    t.equal('windows', [g['windows'], g['cupti_version'], g['refusal']], [1, 130001, None])
    t.true('busy within the window', 0 < d['busy_ns'] and d['compute_ns'] <= d['busy_ns'], d)
    # As a whole only where that is never switched off, which ends programs with CUPTI 13.0.1.
    always = trace(t, 'driver kernels 30 others', '--inside=gpu', '--gpu-window', 'always', env={'FAKE_CUPTI_VERSION': '130401'}).summary['gpu_time']
    t.equal('graphs, always', [always['devices'][0][k] for k in ('kernels', 'graphs')], [30, 1])
    text = t.tool('trace', '--summary', '-', '--by', 'kernel', *ALL, '--', *t.app('driver', 'kernels', '30', name='app_cupti'), status=0).out
    t.match('table', r'elementwise_kernel<128> +10 ', text)


@case('a recording says the same again')
def recording(t):
    path = t.path('work.gst')
    trace(t, 'driver kernels 300 others', *ALL, '-o', path)
    again = json.loads(t.tool('report', path, '--format', 'json', status=0).out)['gpu_time']
    t.equal('runs', sum(k['runs'] for k in again['kernels']), 300)
    both = trace(t, 'driver kernels 60', '--inside=calls,gpu', *ALL[1:]).summary['gpu_time']
    t.equal('beside calls', sum(k['runs'] for k in both['kernels']), 60)


@case('a timeline has a track for each stream, with its own times')
def timeline(t):
    path, other = t.path('work.json'), t.path('work.pftrace')
    trace(t, 'driver kernels 300 others', *ALL, '-o', path, '-o', other)
    with open(path, encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    tracks = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name' and 'device times' in e['args']['name']}
    t.equal('tracks', set(tracks.values()), {'GPU 0 stream 7 (device times)', 'GPU 0 stream 8 (device times)'})
    slices = [e for e in events if e['ph'] == 'X' and e['tid'] in tracks]
    t.equal('names', {n: sum(e['name'] == n for e in slices) for n in ('kernel', 'elementwise_kernel<128>', 'copy HtoD', 'fill')},
            {'kernel': 100, 'elementwise_kernel<128>': 100, 'copy HtoD': 1, 'fill': 1})  # fmt: skip
    # The stand-in tells of no call that asks for fills.
    asked = [re.search(r'; requested by thread (\d+), \d+\.\d{3} us before$', e['args']['detail']) for e in slices if 'fill' not in e['name']]
    t.equal('who asked for them', [len(asked), {m and int(m[1]) for m in asked}], [301, {e['pid'] for e in slices}])
    t.equal('ns of kernels', round(1000 * sum(e['dur'] for e in slices if 'grid' in e['args']['detail'])), sum(1000 + i for i in range(300)))
    with open(other, 'rb') as f:
        t.true('the same in .pftrace', b'GPU 0 stream 7 (device times)' in f.read())


@case("the program's own profiler gets all of its records, and windows go on after it")
def profiler(t):
    run = trace(t, 'driver kernels 100 profile 2000 wait 6000 kernels 50', *ALL)
    t.equal('its records', said(run)[2:], [2000, 2000, 0])
    g = run.summary['gpu_time']
    t.equal('ours', [sum(k['runs'] for k in g['kernels']), g['windows'], g['windows_yielded']], [150, 2, 1])


@case('what cannot be is said in one line, and the program runs')
def refusals(t):
    for env, words in (({'FAKE_CUPTI_VERSION': '130000'}, '13.0.1 mends'), ({'FAKE_CUPTI_RESULT': '39'}, 'another profiler'),
                       ({'FAKE_CUPTI_VERSION': '12'}, 'older than')):  # fmt: skip
        run = trace(t, 'driver kernels 10 wait 200', *ALL, env=env)
        t.equal('kernels', [said(run)[0], run.summary['gpu_time']['kernels']], [10, []])
        t.match('reason', words, run.summary['gpu_time']['refusal'] or '')
    run = trace(t, 'driver kernels 10', '--inside=gpu', '--gpu-window', 'always')
    t.match('always', '13.4.1', run.summary['gpu_time']['refusal'] or '')
    t.equal('kernels', sum(k['runs'] for k in run.summary['gpu_time']['kernels']), 10)
    run = trace(t, 'driver kernels 10', *ALL, env={'CUDA_INJECTION64_PATH': '/nowhere/else.so'}, status=None)
    t.match('holder', 'CUDA_INJECTION64_PATH=/nowhere/else.so is already set', run.err)
    t.equal('without it', trace(t, 'kernels 10').summary['gpu_time'], None)


@case('options that cannot be get one line')
def options(t):
    for args, words in ((['--inside=gpu', '-p', str(os.getpid())], 'needs a command'),
                        (['--gpu-window', '1s/20s', '--', 'true'], 'needs --inside=gpu'),
                        (['--inside=gpu', '--gpu-window', '20s/1s', '--', 'true'], 'two times'),
                        (['--inside=gpus', '--', 'true'], 'gpu')):  # fmt: skip
        run = t.tool('trace', *args, status=2)
        t.match('said', words, run.err)


main()
