#!/usr/bin/env python3
"""Which kernel a launch is of: by what files register, by names that programs ask for; in every output. And what
those that nvcc compiled need."""

import csv
import json
import os
import shutil
import subprocess

import harness
from harness import HERE, Skip, case, main, wait_until

SCALE, FILL = 'app::scale(float*, int)', 'void app::fill<double>(double*, double)'


def build(t, name, *flags):
    """Our own program, which needs no nvcc."""
    out = t.path(name)
    fake = harness.fake
    words = ['gcc', '-pthread', os.path.join(HERE, 'kernels_app.c'), '-o', out, *flags, os.path.join(fake, 'libcudart.so.13'),
             os.path.join(fake, 'libcuda.so.1'), '-Wl,-rpath,' + fake]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Skip(f'gcc: {done.stderr.strip()[-200:]}')
    return out


def kernels(run, t):
    """{name: launches} of a summary, those without a name by None."""
    found = {}
    for k in run.summary['kernels']:
        found[k['name']] = found.get(k['name'], 0) + k['launches']
    return found


def trace(t, command, *options):
    return t.trace('--by', 'kernel', *options, command=command)


@case('host functions that are registered, and symbols')
def _(t):
    want = {SCALE: 7, FILL: 5, 'plain': 3}
    for flags in (['-O0'], ['-O2'], ['-O2', '-no-pie']):
        run = trace(t, [build(t, 'app', *flags), 'runtime'])
        t.equal(f'launches {flags}', kernels(run, t), want)
        by_name = {k['name']: k for k in run.summary['kernels']}
        t.equal('how', [by_name[n]['named_by'] for n in (SCALE, FILL, 'plain')], ['registered', 'registered', 'symbol'])
        scale = by_name[SCALE]
        t.equal('symbol', scale['symbol'], '_ZN3app5scaleEPfi')
        t.equal('short', scale['short_name'], 'scale')
        t.equal('grid, block, shared', (scale['blocks_mean'], scale['threads_mean'], scale['dynamic_shared_bytes_mean']), (8, 128, 64))
        t.equal('share', round(scale['launches_pct'], 1), 46.7)


@case('a stripped file')
def _(t):
    run = trace(t, [build(t, 'app', '-O2', '-s'), 'runtime'])
    found = kernels(run, t)
    t.equal('registered ones', (found.get(SCALE), found.get(FILL)), (7, 5))
    t.equal('the other one', found.get(None), 3)


@case('names that the driver is asked for')
def _(t):
    run = trace(t, [build(t, 'app', '-O2'), 'driver'])
    t.equal('launches', kernels(run, t), {SCALE: 4, 'triton_poi_fused_add_0': 6, 'n' * 1500: 2, FILL: 3, None: 2})
    t.equal('how', {k['named_by'] for k in run.summary['kernels']}, {'loaded', 'unknown'})


@case('a name that is not in memory before the driver reads it')
def _(t):
    run = trace(t, [build(t, 'app', '-O2'), 'untouched'])
    t.equal('launches', kernels(run, t), {SCALE: 4, None: 1})


@case('names that the runtime is asked for, which asks the driver')
def _(t):
    for more in ([], ['--disable-feature', 'session']):
        run = trace(t, [build(t, 'app', '-O2'), 'library'], *more)
        t.equal(f'launches {more}', kernels(run, t), {SCALE: 4, FILL: 3})


@case('a handle whose name the program asks for')
def _(t):
    for more in ([], ['--disable-feature', 'session']):
        run = trace(t, [build(t, 'app', '-O2'), 'named'], *more)
        t.equal(f'launches {more}', kernels(run, t), {'app::named(float*, int)': 2, None: 3})


@case('kernels that graphs run: captured, by nodes, of a child')
def _(t):
    app, out = build(t, 'app', '-O2'), t.path('g.gst')
    for more in (['-o', out], ['--disable-feature', 'session']):
        run = trace(t, [app, 'graphs'], *more)
        rows = {k['name']: (k['launches'], k['graph_runs']) for k in run.summary['kernels']}
        t.equal(f'runs {more}', rows, {SCALE: (7, 49), FILL: (2, 10), 'plain': (1, 4)})
        t.equal(f'graphs {more}', [(g['launches'], g['kernels_per_launch'], [(k['short_name'], k['count']) for k in g['kernels']], g['destroyed'])
                                   for g in run.summary['graphs']],
                [(5, 2, [('fill<double>', 2)], True), (4, 8, [('scale', 7), ('plain', 1)], True), (3, 7, [('scale', 7)], True)])  # fmt: skip
    t.match('table', r'scale +7 +49 ', t.tool('report', out, '--by', 'kernel', status=0).out)


def attach_late(t, app, mode):
    go = t.path('go-' + mode + os.path.basename(app))
    proc = subprocess.Popen([app, mode, go], stdout=subprocess.DEVNULL)
    wait_until(lambda: 'libcuda' in harness.read_text(f'/proc/{proc.pid}/maps'), 20, 'start')
    run = t.start_trace('--by', 'kernel', '-p', str(proc.pid))
    for library in ('libcuda', 'libcudart'):  # one after the other
        run.wait_err(rf'/{library}\.so[^ ]*: [0-9]+ probes', 60)
    with open(go, 'w', encoding='utf-8'):
        pass
    # It may end before its memory is looked at: a real one goes on.
    proc.wait(20)
    return kernels(run.finish(), t)


@case('attached late: handles of the driver are not known')
def _(t):
    t.equal('only addresses', set(attach_late(t, build(t, 'app', '-O2'), 'driver')), {None})


@case('attached late: the program keeps handles of the runtime')
def _(t):
    for name, flags in {'fast': ['-O2'], 'plain': ['-O0'], 'fixed': ['-O2', '-no-pie'], 'stripped': ['-O2', '-s']}.items():
        found = attach_late(t, build(t, name, '-DLINGER', *flags), 'runtime')
        t.equal(f'launches {flags}', (found.get(SCALE), found.get(FILL)), (7, 5))


@case('every output has the name')
def _(t):
    app = build(t, 'app', '-O2')
    files = [t.path('k.' + s) for s in ('json', 'csv', 'gst', 'pftrace')]
    t.trace(*[w for f in files for w in ('-o', f)], command=[app, 'runtime'])
    with open(files[0], encoding='utf-8') as f:
        events = json.load(f)
    events = events['traceEvents'] if isinstance(events, dict) else events
    names = [e['args'].get('kernel') for e in events if e.get('name') == 'cudaLaunchKernel']
    t.equal('json', [names.count(n) for n in ('scale', 'fill<double>', 'plain')], [7, 5, 3])
    with open(files[1], encoding='utf-8', newline='') as f:
        names = [r['kernel'] for r in csv.DictReader(f) if r['function'] == 'cudaLaunchKernel']
    t.equal('csv', [names.count(n) for n in ('scale', 'fill<double>', 'plain')], [7, 5, 3])
    with open(files[3], 'rb') as f:
        t.true('pftrace', FILL.encode() in f.read())
    again = t.tool('report', files[2], '--by', 'kernel', status=0).out
    t.match('report', r'scale +7 +46\.7%', again)
    t.match('report', r'fill<double> +5 +33\.3%', again)


@case('launches of chosen kernels')
def _(t):
    app, out = build(t, 'app', '-O2'), t.path('k.gst')
    run = t.trace('--kernel', '*scale*', '-o', out, command=[app, 'runtime'])
    t.equal('trace', kernels(run, t), {SCALE: 7})
    t.equal('its calls', run.calls('cudaLaunchKernel'), 7)
    t.equal('others stay', run.calls('__cudaGetKernel'), 2)
    out = t.path('all.gst')
    t.trace('-o', out, command=[app, 'runtime'])
    for glob, want in (('fill<double>,plain', {FILL: 5, 'plain': 3}), ('_ZN3app5*', {SCALE: 7}), ('none', {})):
        text = t.tool('report', out, '--kernel', glob, '--format', 'json', status=0)
        t.equal(f'report {glob}', {k['name']: k['launches'] for k in json.loads(text.out)['kernels']}, want)
    t.match('none', 'none of its 15 launches matches', text.err)
    refused = t.tool('trace', '--kernel', 'x', '--summary-only', '--', app)
    t.equal('with --summary-only', refused.status, 2)


@case('what nvcc compiles', timeout=240)
def _(t):
    nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    if not os.path.exists(nvcc):
        raise Skip('no nvcc')
    for name, flags in {'plain': [], 'fast': ['-O2'], 'stripped': ['-O2', '-Xlinker', '-s']}.items():
        out = t.path(name)
        done = subprocess.run([nvcc, '-cudart', 'shared', '-arch=sm_90', *flags, '-o', out, os.path.join(HERE, 'kernels_app.cu')],
                              capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            raise Skip(f'nvcc: {done.stderr.strip()[-200:]}')
        run = t.trace('--by', 'kernel', command=[out], env={'LD_LIBRARY_PATH': harness.fake})
        t.equal(f'launches, {name}', kernels(run, t),
                {SCALE: 7, FILL: 5, 'hidden(int*)': 3, '(anonymous namespace)::unnamed(int*)': 2})  # fmt: skip
        scale = next(k for k in run.summary['kernels'] if k['name'] == SCALE)
        sm = scale['compute_capability']
        if sm is None:  # a GPU that does not run this code
            t.note('the GPU of this machine runs other code')
            continue
        t.equal(f'needs, {name}', (sm, scale['static_shared_bytes'], scale['local_bytes'], scale['max_threads']), (90, 512, 0, None))
        t.true(f'registers, {name}', 4 <= scale['registers'] <= 32, scale['registers'])


main()
