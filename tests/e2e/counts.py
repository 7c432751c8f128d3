#!/usr/bin/env python3
"""Every call is counted, once, with its bytes and its error: whatever engine, program or way to
load a library. The numbers wanted are those that fake_app says it made."""

import csv
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import Skip, case, main, primes, wait_until
from tracefs_help import return_probe

sys.path.insert(0, os.path.join(harness.HERE, '..', 'fake'))
from check_app import FIRST, NEVER_FAIL  # noqa: E402

ENGINES = {
    'best': [],
    'multi': ['--disable-feature', 'session'],
    'single': ['--disable-feature', 'session,multi'],
    'hash': ['--disable-feature', 'task-storage'],
    'single and hash': ['--disable-feature', 'session,multi,task-storage'],
    'first byte': ['--disable-feature', 'moved-sites'],
}
# Single links are slow to take off (the kernel needs 0.1 s for each), so these have one function of
# each kind, and the cases that need few have those.
SOME = ('cudaLaunchKernel,cudaLaunchKernelExC,cudaMalloc,cudaMallocPitch,cudaFree,cudaMemcpy2D,cudaMemcpy3D,'
        'cudaMemcpyAsync,cudaMemset3D,cudaEventQuery,cudaLaunchHostFunc,cuLaunchKernel,cuLaunchKernelEx,cuMemAlloc_v2,'
        'cuMemcpy3D_v2,cuMemsetD32_v2,cuCtxSynchronize,ncclAllReduce,ncclSend,ncclCommInitRank')  # fmt: skip


def engine_options(engine):
    return ENGINES[engine] + (['--func', SOME] if 'single' in engine else [])
# Their bytes are those of the block, which only a whole trace knows (values.py has them).
FREES = {
    'cudaFree', 'cudaFreeAsync', 'cudaFreeAsync_ptsz', 'cudaFreeHost', 'cudaHostUnregister', 'cudaFreeArray',
    'cudaFreeMipmappedArray',
    'cuMemRelease', 'cuMemFree', 'cuMemFree_v2', 'cuMemFreeHost', 'cuMemHostUnregister', 'cuMemFreeAsync',
    'cuMemFreeAsync_ptsz', 'ncclMemFree',
}  # fmt: skip


def table(t):
    """{function: traced by default}"""
    rows = [line.split(None, 3) for line in t.tool('trace', '--list', status=0).out.splitlines()]
    return {row[2]: len(row) == 3 for row in rows}


# Its multiples modulo a prime are all different, and small: a call costs microseconds.
SPREAD = 163


def every_function(t, known):
    """Arguments for fake_app: each function with a count of its own, well and badly. Neighbours in the table
    have counts that lie far apart."""
    can = subprocess.run(t.app('--list'), check=True, capture_output=True, text=True).stdout.split()
    names = sorted(n for n in can if n in known)
    modulus = next(p for p in primes() if p > max(len(names), SPREAD))
    number = itertools.count(1)
    # Those that use up what another gives come first: an address is registered once at a time.
    # The addresses that fake_app registers must not have been given out before.
    first = {**FIRST, 'ncclCommAbort': 'ncclCommInitRank', 'ncclCommDestroy': 'ncclCommInitRank'}
    # A function's first call has no result: of these let it come before any failure that it would have to give.
    early = ('cudaDeviceReset', 'cudaGetLastError', 'cudaPeekAtLastError')
    names.sort(key=lambda n: (n not in early, n not in first, 'HostRegister' not in n, n))
    args = []
    for name in names:
        n = next(number) * SPREAD % modulus
        if name not in first and 'ncclCommInitRank=1' not in args:
            args.append('ncclCommInitRank=1')
        if name in first:
            args.append(f'{first[name]}={n}')
        args.append(f'{name}={n}')
        if name not in NEVER_FAIL:
            args.append(f'{name}:bad={n % 7 + 1}')
    return args, names


def check_every_function(t, options, engine):
    known = SOME.split(',') if 'single' in engine else table(t)
    args, names = every_function(t, known)
    run = t.trace(*(() if 'single' in engine else ('--func', '*')), *options, *engine_options(engine), command=t.app(*args))
    t.counts(run, known=known, ignore_bytes=FREES if '-o' in options else ())
    t.equal('lost', [c for layer in run.summary['lost'].values() for c in layer if c not in harness.NOT_LOST], [])
    seen = {f['name'] for f in run.summary['functions'] if f['calls']}
    t.equal('functions never seen', sorted(set(names) - seen), [])
    t.equal('exit status', run.summary['exit_status'], 0)
    t.true('the attach mode is there', bool(run.summary['attach_mode']))
    t.note(f'{len(names)} functions, {sum(f["calls"] for f in run.summary["functions"])} calls: {run.summary["attach_mode"]}')
    return run


def every_function_case(engine):
    @case(f'every function, added up in the kernel, engine: {engine}', timeout=120)
    def summary(t):
        check_every_function(t, [], engine)

    @case(f'every function, whole events, engine: {engine}', timeout=120)
    def events(t):
        path = t.path('t.csv')
        run = check_every_function(t, ['-o', path, '--ring-size', '64M'], engine)
        with open(path, newline='') as f:
            rows = list(csv.DictReader(f))
        got = {}
        for row in rows:
            got[row['function']] = got.get(row['function'], 0) + 1
        t.equal('calls in the trace', got, {f['name']: f['calls'] for f in run.summary['functions'] if f['calls']})


for engine_name in ENGINES:
    every_function_case(engine_name)


@case('only the default functions without --func')
def default_set(t):
    known = table(t)
    run = t.trace(command=t.app('cudaGetDevice=7', 'cudaGetLastError=11', 'cudaMalloc=5'))
    t.counts(run, known={k for k, default in known.items() if default})
    t.equal('cudaGetDevice', run.function('cudaGetDevice'), None)


for kind, options in (('added up', []), ('whole events', ['-o', 't.json'])):

    @case(f'threads, children and a second image, {kind}')
    def processes(t, options=options):
        run = t.trace(*options, command=t.app('--threads=3', '--fork=2', 'cudaMalloc=17', 'cudaFree=17',
                                              'cudaLaunchKernel=101', 'cudaMalloc:bad=3', '--exec'))  # fmt: skip
        t.equal('lines', len(run.lines), 6)
        t.counts(run, ignore_bytes=FREES)
        # A child that ends at once may be gone before its names can be read, which is told.
        t.equal('lost', sorted(c for layer in run.summary['lost'].values() for c in layer if c not in ('process_gone', *harness.NOT_LOST)), [])
        for line in run.lines:
            same = [p for p in run.summary['processes'] if p['pid'] == line['pid']]
            t.equal(f'entries of process {line["pid"]}', len(same), 1)
            calls = {f['name']: f['calls'] for p in same for f in p['functions']}
            times = sum(x['pid'] == line['pid'] for x in run.lines)  # both images are one process
            t.equal('launches of a process', calls.get('cudaLaunchKernel'), 303 * times)
            seen = {x['tid']: {f['name']: f['calls'] for f in x['functions']} for p in same for x in p['threads']}
            for tid in line['threads']:
                t.equal(f'of thread {tid} ({line["role"]}, image {line["image"]}, {sorted(seen)})',
                        seen.get(tid, {}).get('cudaMalloc'), 20)  # fmt: skip
        t.equal('parents', {p['pid']: p['parent_pid'] for p in run.summary['processes']},
                {line['pid']: line['ppid'] for line in run.lines})  # fmt: skip


def calls_of(path):
    with open(path, encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    return [e for e in events if e['ph'] in 'XBi' and e['cat'] != 'gpu-stream']


for engine_name in ('best', 'multi', 'single'):

    @case(f'recursive calls: depth and containment, engine: {engine_name}')
    def nesting(t, engine=engine_name):
        run = t.trace('-o', 't.json', '-o', 't.csv', *engine_options(engine),
                      command=t.app('cudaLaunchHostFunc=7', '--nested=5'))  # fmt: skip
        t.counts(run)
        t.nothing_lost(run)
        with open('t.csv', newline='') as f:
            depths = [(r['function'], int(r['depth'])) for r in csv.DictReader(f)]
        for depth in range(6):
            t.equal(f'host functions at depth {depth}', depths.count(('cudaLaunchHostFunc', depth)), 7)
            t.equal(f'copies at depth {depth + 1}', depths.count(('cudaMemcpyAsync', depth + 1)), 7)
        # By time each call lies within the one around it, and within one only.
        open_calls, deepest = [], 0
        events = sorted(calls_of('t.json'), key=lambda e: (e['ts'], -e['dur']))
        for e in events:
            begin, end = round(e['ts'] * 1000), round(e['ts'] * 1000) + round(e['dur'] * 1000)
            while open_calls and open_calls[-1] <= begin:
                open_calls.pop()
            if open_calls and end > open_calls[-1]:
                t.fail(f'{e["name"]} at {e["ts"]} ends after the call around it')
            open_calls.append(end)
            deepest = max(deepest, len(open_calls))
        t.equal('deepest', deepest, 7)


HOOKED = ('cudaMalloc', 'cudaLaunchKernel', 'cudaMemcpy', 'cudaGetDevice', 'cuMemAlloc_v2', 'cuLaunchKernel', 'cuMemFree_v2',
          'cuCtxSynchronize', 'ncclAllReduce', 'ncclSend', 'ncclGroupStart', 'ncclGroupEnd')  # fmt: skip

for engine_name in ('best', 'multi'):

    @case(f'an interposed library counts once, in summary, events and bytes, engine: {engine_name}')
    def interposed(t, engine=engine_name):
        app = t.app('cudaMalloc=11', 'cudaMalloc:bad=3', 'cudaLaunchKernel=23', 'cudaMemcpy=7', 'cudaGetDevice=31', 'cuMemAlloc_v2=13',
                    'cuLaunchKernel=41', 'cuMemFree_v2=5', 'cuCtxSynchronize=3', 'ncclCommInitRank=1', 'ncclAllReduce=17',
                    'ncclGroupStart=9', 'ncclSend=9', 'ncclGroupEnd=9', '--threads=2')  # fmt: skip
        hook = os.path.join(harness.fake, 'libgs_hook.so')
        for output in ((), ('-o', 't.csv')):
            run = t.trace(*output, *ENGINES[engine], '--func', ','.join(HOOKED) + ',cudaMallocManaged,ncclCommInitRank',
                          env={'LD_PRELOAD': hook}, command=app)  # fmt: skip
            made = t.wanted(run.lines)
            got = {f['name']: [f['calls'], f['errors'], f['bytes'], f['inner_calls']] for f in run.summary['functions']}
            for name in HOOKED:
                told = 2 if name == 'cuMemFree_v2' else 3  # the bytes of a free are known with events only
                t.equal(f'{name} [calls, errors, bytes]', got[name][:told], made[name][:told])
            inner = {name: made[name][0] for name in HOOKED}
            inner['cudaMemcpy'] *= 2
            inner['cuLaunchKernel'] += 2 * made['cudaLaunchKernel'][0]
            inner['cudaMallocManaged'] = inner.pop('cudaMalloc')
            t.equal('inner', {name: row[3] for name, row in got.items() if row[3]}, inner)
            t.nothing_lost(run)
        with open('t.csv', newline='') as f:
            rows = [r['function'] for r in csv.DictReader(f)]
        t.equal('rows', {name: rows.count(name) for name in HOOKED}, {name: made[name][0] for name in HOOKED})


@case('calls deeper than the stack of frames are told as lost, the rest is exact')
def too_deep(t):
    run = t.trace(command=t.app('cudaLaunchHostFunc=3', '--nested=30'))
    made = t.wanted(run.lines)
    lost = run.lost('too_deep')
    seen = run.calls('cudaLaunchHostFunc') + run.calls('cudaMemcpyAsync')
    t.equal('seen and too deep together', seen + lost, made['cudaLaunchHostFunc'][0] + made['cudaMemcpyAsync'][0])
    t.equal('host functions within sixteen', run.calls('cudaLaunchHostFunc'), 3 * 16)


for engine_name in ('best', 'multi', 'single', 'hash'):

    @case(f'calls that longjmp() left are not counted, later ones are, engine: {engine_name}')
    def longjmp(t, engine=engine_name):
        run = t.trace('-o', 't.json', *engine_options(engine),
                      command=t.app('cudaMalloc=11', '--longjmp=23', '--nested=2'))  # fmt: skip
        line = run.lines[0]
        t.equal('abandoned', line['abandoned'], {'cudaLaunchHostFunc': 69})
        t.equal('copies', run.calls('cudaMemcpyAsync'), line['functions']['cudaMemcpyAsync']['calls'])
        t.equal('allocations', run.calls('cudaMalloc'), 11)
        t.equal('jumped over', run.calls('cudaLaunchHostFunc'), 0)
        still = [c for c in run.summary['open_calls'] if c['function'] == 'cudaLaunchHostFunc']
        t.equal('told as lost, or open', run.lost('unmatched') + len(still), 69)


@case('one launch through runtime and driver is one record')
def one_launch(t):
    run = t.trace('-o', 't.json', command=t.app('cudaLaunchKernel=101', 'cuLaunchKernel=13', 'cudaLaunchKernelExC=7'))
    t.counts(run)
    t.equal('runtime', run.calls('cudaLaunchKernel'), 101)
    t.equal('driver alone', run.calls('cuLaunchKernel'), 13)
    t.equal('inner', run.function('cuLaunchKernel')['inner_calls'], 101)
    names = [e['name'] for e in calls_of('t.json')]
    t.equal('records', (names.count('cudaLaunchKernel'), names.count('cuLaunchKernel')), (101, 13))


@case('driver launches alone, runtime layer not traced')
def driver_layer(t):
    run = t.trace('--layer', 'cuda-driver', command=t.app('cudaLaunchKernel=101', 'cuLaunchKernel=13'))
    t.equal('driver', (run.calls('cuLaunchKernel'), run.function('cuLaunchKernel')['inner_calls']), (114, 0))
    t.equal('runtime', run.function('cudaLaunchKernel'), None)


def flavour(t, name):
    return {'LD_LIBRARY_PATH': os.path.join(harness.fake, name) + ':' + harness.fake}


for flavour_name, library in (('endbr', 'libcudart.so.13'), ('stub', 'libcuda.so.1')):
    for engine_name in ('best', 'multi', 'single', 'first byte'):

        @case(f'functions of flavour {flavour_name}, engine: {engine_name}')
        def flavours(t, name=flavour_name, library=library, engine=engine_name):
            run = t.trace(*engine_options(engine), env=flavour(t, name),
                          command=t.app('cudaMalloc=7', 'cudaLaunchKernel=101', 'cuMemAlloc_v2=13', 'cuLaunchKernel=17',
                                        'cudaMalloc:bad=3', 'cuCtxSynchronize=5', 'ncclCommInitRank=1', 'ncclAllReduce=19'))  # fmt: skip
            t.counts(run)
            t.nothing_lost(run)
            mine = [a for a in run.summary['attached'] if os.path.realpath(a['path']) ==
                    os.path.realpath(os.path.join(harness.fake, name, library))]  # fmt: skip
            t.equal('file is attached to', len(mine), 1)
            moved = sum(a['probes_moved'] for a in mine)
            if engine == 'first byte':
                t.equal('moved sites', moved, 0)
            else:
                t.true('sites were moved', moved > 0, str(mine))


@case('library loaded after the start')
def late_library(t):
    go = t.path('go')
    live = t.start_trace(command=t.app(f'--dlopen={harness.fake}', f'--go-file={go}', 'cudaMalloc=31', 'cuMemAlloc_v2=37',
                                       'ncclCommInitRank=1', 'ncclAllReduce=41'))  # fmt: skip
    for library in ('libcudart', 'libcuda', 'libnccl'):
        live.wait_err(f'{library}[^ ]*: [0-9]+ probes')
    open(go, 'w').close()
    t.counts(live.finish())


@case('library of a folder that nobody could guess, loaded after the start')
def late_unknown_library(t):
    folder = t.path('elsewhere')
    os.mkdir(folder)
    for name in ('libcudart.so.13', 'libcuda.so.1', 'libnccl.so.2'):
        shutil.copy(os.path.join(harness.fake, name), folder)
    go = t.path('go')
    live = t.start_trace('-o', 't.gst', command=t.app(f'--dlopen={folder}', f'--go-file={go}', 'cudaMalloc=31',
                                                      'cuMemAlloc_v2=37', 'ncclCommInitRank=1', 'ncclAllReduce=41'))  # fmt: skip
    for library in ('libcudart', 'libcuda', 'libnccl'):
        live.wait_err(f'elsewhere/{library}[^ ]*: [0-9]+ probes')
    open(go, 'w').close()
    run = live.finish()
    t.counts(run)
    paths = [a['path'] for a in run.summary['attached']]
    t.true('named', any('elsewhere/libcudart' in p for p in paths), str(paths))


@case('runtime inside the program')
def static_runtime(t):
    run = t.trace(command=t.app('cudaMalloc=7', 'cudaLaunchKernel=101', 'cudaMalloc:bad=3', 'ncclCommInitRank=1',
                                'ncclAllReduce=19', name='fake_app_static'))  # fmt: skip
    t.counts(run)
    t.true('the program is named', any(a['path'].endswith('/fake_app_static') for a in run.summary['attached']))


@case('runtime inside the program, without symbols: the driver still counts')
def stripped_runtime(t):
    run = t.trace(command=t.app('cudaMalloc=7', 'cudaLaunchKernel=101', 'cuMemAlloc_v2=13', 'cuLaunchKernel=17',
                                'ncclCommInitRank=1', 'ncclAllReduce=19', name='fake_app_static_stripped'))  # fmt: skip
    line = run.lines[0]
    t.equal('runtime', run.function('cudaMalloc'), None)
    # The launches of the runtime nobody sees are launches of the driver.
    t.equal('driver', run.calls('cuLaunchKernel'), 17 + line['inner']['cuLaunchKernel'])
    t.equal('driver memory', run.calls('cuMemAlloc_v2'), 13)
    t.equal('NCCL', run.calls('ncclAllReduce'), 19)


@case('a program with CUDA code and no symbols: that its runtime cannot be seen is said')
def hidden_runtime(t):
    objcopy = shutil.which('objcopy')
    if not objcopy:
        raise Skip('objcopy is not installed')
    open('code', 'w').write('no code')
    env = {'LD_LIBRARY_PATH': harness.fake}
    for section in '.nv_fatbin', '__nv_relfatbin':
        subprocess.run([objcopy, '--add-section', f'{section}=code', t.app(name='fake_app_static_stripped')[0], 'hidden'], check=True)
        run = t.trace(command=['./hidden', 'cudaMalloc=7'], env=env)
        said = [a['path'] for a in run.summary['attach_failures'] if 'it has CUDA code' in a['reason']]
        t.equal(f'said of {section}', said, ['./hidden'])
    for name in 'fake_app_static_stripped', 'fake_app':  # without such code; with the runtime as a library
        if name == 'fake_app':
            subprocess.run([objcopy, '--strip-all', '--add-section', '.nv_fatbin=code', t.app(name=name)[0], 'hidden'], check=True)
        run = t.trace(command=['./hidden' if name == 'fake_app' else t.app(name=name)[0], 'cudaMalloc=7'],
                      env=env)  # fmt: skip
        t.equal(f'not of {name}', [a for a in run.summary['attach_failures'] if 'it has CUDA code' in a['reason']], [])


@case('a program without symbols and without other libraries: nothing to trace is told')
def nothing(t):
    run = t.trace(command=['sh', '-c', 'exit 7'], status=7)
    t.equal('functions', run.summary['functions'], [])
    table = t.tool('trace', '--', 'true', status=0)
    t.match('said', r'(?i)no (CUDA|call|library)|nothing', table.err)


for mode in ('kill', 'duration'):

    @case(f'a call that does not return is shown as open ({mode})')
    def hanging(t, mode=mode):
        if mode == 'kill':
            live = t.start_trace('-o', 't.json', command=t.app('cudaMalloc=11', '--hang=cudaDeviceSynchronize'))
            wait_until(lambda: live.out_text().endswith('\n'), 20, 'its line')
            pid = json.loads(live.out_text())['pid']
            wait_until(lambda: 'pause' in harness.read_text(f'/proc/{pid}/wchan'), 20, 'the call that hangs')
            # The first passes the interrupt on, which pause() in the library does not survive;
            # stopping twice leaves the command.
            live.interrupt()
            run = live.finish()
            t.true('ended by its signal', run.status == 130, str(run.status))
            t.equal('mallocs', run.calls('cudaMalloc'), 11)
            return
        for duration in 2, 20, 200:  # until it hangs before the end for sure, on any machine
            app = t.start_app('cudaMalloc=11', '--hang=cudaDeviceSynchronize')
            end = time.monotonic() + duration
            live = t.start_trace('-o', 't.json', '-o', 't.csv', '-p', str(app.pid), '--duration', f'{duration}s')
            live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
            app.let_go()
            app.stdout.readline()
            wait_until(lambda pid=app.pid: 'pause' in harness.read_text(f'/proc/{pid}/wchan'), 20, 'the call that hangs')
            in_time = time.monotonic() < end
            run = live.finish(200)
            if in_time:
                break
            app.kill()
        t.equal('status', run.status, 0)
        t.equal('mallocs', run.calls('cudaMalloc'), 11)
        t.equal('returned', run.calls('cudaDeviceSynchronize'), 0)
        wanted = [(app.pid, app.pid, 'cuda-runtime', 'cudaDeviceSynchronize', 0)]
        got = [(c['pid'], c['tid'], c['layer'], c['function'], c['depth']) for c in run.summary['open_calls']]
        t.equal('open', got, wanted)
        t.true('age', all(0 < c['age_ns'] < run.summary['duration_ns'] for c in run.summary['open_calls']), run.summary['open_calls'])
        t.equal('in the trace', [e['name'] for e in calls_of('t.json') if e['ph'] == 'B'], ['cudaDeviceSynchronize'])
        with open('t.csv', newline='') as f:
            t.equal('in the table', [r['function'] for r in csv.DictReader(f) if r['finished'] == '0'],
                    ['cudaDeviceSynchronize'])  # fmt: skip
        app.kill()


@case('a library under another name')
def renamed(t):
    folder = t.path('other')
    os.mkdir(folder)
    shutil.copy(os.path.join(harness.fake, 'libcudart.so.13'), os.path.join(folder, 'libvendor-1a2b3c4d.so.9'))
    os.symlink('libvendor-1a2b3c4d.so.9', os.path.join(folder, 'libcudart.so.13'))
    run = t.trace(env={'LD_LIBRARY_PATH': folder}, command=t.app('cudaMalloc=31', 'cudaLaunchKernel=37'))
    t.counts(run)


@case('the library file of a running process was deleted')
def deleted(t):
    folder = t.path('gone')
    os.mkdir(folder)
    shutil.copy(os.path.join(harness.fake, 'libcudart.so.13'), folder)
    app = t.start_app('cudaMalloc=31', 'cuMemAlloc_v2=37', env={'LD_LIBRARY_PATH': folder})
    os.unlink(os.path.join(folder, 'libcudart.so.13'))
    live = t.start_trace('-p', str(app.pid))
    live.wait_err(r'libcudart[^ ]*( \(deleted\))?: [0-9]+ probes')
    app.let_go()
    lines = app.result()
    t.counts(live.finish(), lines)


@case('two copies of a library in two processes')
def two_copies(t):
    apps = []
    for name in ('a', 'b'):
        folder = t.path(name)
        os.mkdir(folder)
        shutil.copy(os.path.join(harness.fake, 'libcudart.so.13'), folder)
        apps.append(t.start_app(f'cudaMalloc={31 if name == "a" else 37}', env={'LD_LIBRARY_PATH': folder}))
    live = t.start_trace('-p', ','.join(str(a.pid) for a in apps))
    live.wait_err(r'/a/libcudart[^ ]*: [0-9]+ probes')
    live.wait_err(r'/b/libcudart[^ ]*: [0-9]+ probes')
    for app in apps:
        app.let_go()
    lines = [line for app in apps for line in app.result()]
    run = live.finish()
    t.counts(run, lines)
    t.equal('by process', sorted(f['calls'] for p in run.summary['processes'] for f in p['functions']), [31, 37])


@case('a library that exists only in the mount namespace of the process')
def mount_namespace(t):
    folder, flag = t.path('hidden'), t.path('go')
    os.mkdir(folder)
    script = f"""set -e
        mount -t tmpfs none {folder}
        cp {harness.fake}/libcudart.so.13 {folder}/
        export LD_LIBRARY_PATH={folder}
        exec {harness.fake}/fake_app --go-file={flag} cudaMalloc=31 cuMemAlloc_v2=37"""
    app = subprocess.Popen(['unshare', '-m', '--propagation', 'private', 'sh', '-c', script], stdout=subprocess.PIPE,
                           text=True, env=t.env)  # fmt: skip
    wait_until(lambda: app.poll() is not None or 'hidden/libcudart' in harness.read_text(f'/proc/{app.pid}/maps'), 20)
    if app.poll() is not None:
        raise Skip('unshare -m is not allowed here')
    t.equal('not here', os.listdir(folder), [])
    live = t.start_trace('-p', str(app.pid))
    live.wait_err(r'hidden/libcudart[^ ]*: [0-9]+ probes')
    open(flag, 'w').close()
    out, _ = app.communicate(timeout=60)
    t.counts(live.finish(), [json.loads(out)])


@case('a library behind another root folder (chroot), started by gpuscope')
def another_root(t):
    root = make_root(t)
    live = t.start_trace(env={'LD_LIBRARY_PATH': '/opt'}, command=['chroot', root, '/fake_app', '--go-file=/go', 'cudaMalloc=31', 'cuMemAlloc_v2=37'])
    for library in ('libcudart', 'libcuda'):
        live.wait_err(rf'/opt/{library}\.[^ ]*: [0-9]+ probes')
    open(os.path.join(root, 'go'), 'w').close()
    run = live.finish()
    t.equal('lines', len(run.lines), 1)
    t.counts(run)


def make_root(t):
    root = t.path('root')
    wanted = {os.path.join(harness.fake, 'fake_app'): 'fake_app'}
    listed = subprocess.run(['ldd', os.path.join(harness.fake, 'fake_app')], capture_output=True, text=True, env=t.env)
    for line in listed.stdout.splitlines():
        words = line.split()
        path = words[2] if '=>' in words and len(words) > 2 else words[0]
        if path.startswith('/'):
            inside = 'opt/' + os.path.basename(path) if path.startswith(harness.fake) else path[1:]
            wanted[path] = inside
    for path, inside in wanted.items():
        os.makedirs(os.path.join(root, os.path.dirname(inside)), exist_ok=True)
        shutil.copy(path, os.path.join(root, inside))
    os.makedirs(os.path.join(root, 'dev/shm'), exist_ok=True)
    return root


def trace_asleep(t, command, *options, env=None):
    """gpuscope stands still from before the command's start until after its end."""
    go = t.path('go')
    script = f'while [ ! -e {go} ]; do sleep 0.01; done; kill -STOP $PPID; exec "$0" "$@"'
    live = t.start_trace(*options, command=['sh', '-c', script, *command], env=env)
    live.wait_err('attach mode: ')
    children = f'/proc/{live.pid}/task/{live.pid}/children'
    wait_until(lambda: live.out_text() or harness.read_text(children).split(), what='the command')
    pid = int(harness.read_text(children).split()[0])
    wait_until(lambda: harness.read_text(f'/proc/{pid}/comm').strip() == 'sh', what='its start')
    open(go, 'w').close()
    wait_until(lambda: harness.read_text(f'/proc/{pid}/stat').rpartition(')')[2].split()[0] == 'Z', what='its end')
    os.kill(live.pid, signal.SIGCONT)
    return live.finish(), pid


@case('libraries of a process that ended before anybody looked, behind another root: told as not seen')
def gone_with_its_root(t):
    run, pid = trace_asleep(t, ['chroot', make_root(t), '/fake_app', 'cudaMalloc=7'], env={'LD_LIBRARY_PATH': '/opt'})
    t.equal('lines', len(run.lines), 1)
    told = {x['detail'].split(':')[0] for x in run.summary['lost_details'] if x['cause'] == 'late_attach'}
    t.true('told', '/opt/libcudart.so.13' in told, run.summary['lost_details'])


@case('a command that is over before anybody looked at it is known by its name')
def over_at_once(t):
    run, pid = trace_asleep(t, t.app('cudaMalloc=7'), '-o', 't.csv', env={'LD_LIBRARY_PATH': harness.fake})
    t.counts(run)
    t.nothing_lost(run)
    t.equal('processes', [(p['pid'], p['comm']) for p in run.summary['processes']], [(pid, 'fake_app')])


UNLOADING = """
import ctypes, sys
driver = ctypes.CDLL('libcuda.so.1')
unload = driver.cuLibraryUnload
for _ in range(5):
    ctypes.CDLL(None).on_exit(unload, None)  # before the driver's own handler: it runs after that one
driver.cuCtxSynchronize()
for _ in range(int(sys.argv[1])):
    unload(None)
"""


@case('calls that fail because the process ends are counted and need no attention', timeout=120)
def fails_at_the_end(t):
    for n in (0, 3):
        run = t.trace(command=['/usr/bin/python3', '-c', UNLOADING, str(n)], env={'LD_LIBRARY_PATH': harness.fake})
        errors = {(e['function'], e['name']): e['count'] for e in run.summary['errors']}
        t.equal('at the end', errors.get(('cuLibraryUnload', 'CUDA_ERROR_DEINITIALIZED')), 5)
        t.equal('before it', sum(errors.values()) - 5, n)
        text = t.tool('trace', '--', '/usr/bin/python3', '-c', UNLOADING, str(n), env={'LD_LIBRARY_PATH': harness.fake}, status=0)
        text = text.out + text.err
        t.equal('attention', 'Needs attention' in text, n > 0)
        t.true('the end is no part of it', 'DEINITIALIZED' not in text, text)


@case('many short processes')
def short_processes(t):
    command = ' && '.join([' '.join(t.app('cudaMalloc=7'))] * 20)
    run = t.trace(command=['sh', '-c', command], env={'LD_LIBRARY_PATH': harness.fake})
    t.equal('lines', len(run.lines), 20)
    t.counts(run)
    t.equal('processes', len(run.summary['processes']), 20)


@case('many threads')
def many_threads(t):
    run = t.trace('-o', 't.json', command=t.app('--threads=200', 'cudaMalloc=11', 'cudaFree=11', 'cudaLaunchKernel=53'))
    t.counts(run, ignore_bytes=FREES)
    t.equal('threads', len(run.summary['processes'][0]['threads']), 200)


@case('killed in the middle: what was done before is counted')
def killed(t):
    live = t.start_trace(command=t.app('cudaMalloc=11', 'cudaLaunchKernel=101', '--hang=cudaStreamSynchronize'))
    wait_until(lambda: live.out_text().endswith('\n'), 20, 'its line')
    os.kill(json.loads(live.out_text())['pid'], signal.SIGKILL)
    run = live.finish()
    t.equal('status', run.status, 137)
    t.equal('counts', (run.calls('cudaMalloc'), run.calls('cudaLaunchKernel')), (11, 101))
    t.match('reason', 'killed', run.summary['end_reason'])


@case('another tool has a return probe on the same function')
def probed_by_another(t):
    # The other one's probe replaces the return address also of the first launch, which is known by it.
    with return_probe(t, 'cudaLaunchKernel') as env:
        run = t.trace(command=t.app('cudaMalloc=31', 'cudaLaunchKernel=101', 'cuLaunchKernel=43'), env=env)
    t.counts(run)


main()
