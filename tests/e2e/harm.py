"""A traced program does what it does untraced: functions of 25 beginnings and loops in 14 situations, probes that come
and go in flight, a tracer that is killed, threads and exceptions that leave functions of CUDA half-way."""

import csv
import os
import shutil
import subprocess
import time

import harness
from harness import Skip, case, main, wait_until

SOURCES = os.path.join(os.path.dirname(harness.HERE), 'harm')
FLAGS = ('-O2', '-fno-omit-frame-pointer', '-Wall', '-pthread')


def build(t, name, *sources, flags=FLAGS):
    compiler = shutil.which('g++')
    if not compiler:
        raise Skip('needs g++')
    sources = [s if s.startswith('-') or '/' in s else os.path.join(SOURCES, s) for s in sources]
    subprocess.run([compiler, *flags, '-o', t.path(name), *sources], check=True)
    return t.path(name)


def probe_file(t, program, *more):
    path = t.path('probes.yaml')
    with open(path, 'w') as f:
        f.write('probes:\n  - {' + ', '.join((f'lib: {program}', "function: 'k_*'", *more)) + '}\n')
    return path


def cells(out):
    """{(kind, situation): what it came to}"""
    return {(kind, situation): rest for situation, kind, rest in (x.split(None, 2) for x in out.splitlines())}


def show(t, title, wanted, got):
    """The matrix: a row for each kind of function."""
    kinds, situations = [list(dict.fromkeys(k[i] for k in wanted)) for i in (0, 1)]
    letter = {True: '.', False: 'X', None: ' '}
    t.note(f'{title}; situations: {" ".join(f"{chr(97 + i)}={s}" for i, s in enumerate(situations))}')
    t.note(' ' * 16 + ''.join(chr(97 + i) for i in range(len(situations))))
    for kind in kinds:
        row = [letter[got.get((kind, s)) == wanted[kind, s] if (kind, s) in wanted else None] for s in situations]
        t.note(f'{kind:16s}{"".join(row)}')
    harmed = {k: (wanted[k], got.get(k)) for k in wanted if got.get(k) != wanted[k]}
    t.equal(f'{title}: kinds, situations', (len(kinds), len(situations)), (25, 14))
    t.equal(f'{title}: untraced and traced differ', harmed, {})


@case('functions of 25 kinds in 14 situations, beneath probes of each way', timeout=120)
def matrix(t):
    program = build(t, 'harm', 'harm.cc')
    wanted = cells(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    for title, more, options in (('entries and returns', ['return: true'], []),
                                 ('entries', [], []),
                                 ('single-stepped', ['return: true'], ['--disable-feature', 'moved-sites']),
                                 ('pairs of links', ["args: ['arg1: i64 n']"], ['--disable-feature', 'session'])):  # fmt: skip
        file = probe_file(t, program, *more)
        run = t.trace('--layer', 'user', '--probes', file, *options, command=[program])
        show(t, title, wanted, cells(run.out))
        t.true(f'{title}: probes were hit', sum(f['calls'] for f in run.summary['functions']) > 50000)


@case('probes that come and go, and a tracer that is killed, while the program runs', timeout=120)
def in_flight(t):
    program, until = build(t, 'harm', 'harm.cc'), t.path('until')
    file = probe_file(t, program, 'return: true')
    with harness.Beside([program, 'flight', until], stdout=subprocess.PIPE, text=True) as proc:
        t.equal('it runs', proc.stdout.readline(), 'ready\n')
        for _ in range(3):
            run = t.trace('--layer', 'user', '--probes', file, '-p', str(proc.pid), '--duration', '1')
            t.true('calls were seen', run.summary['functions'])
        for _ in range(3):
            live = t.start_trace('--layer', 'user', '--probes', file, '-p', str(proc.pid))
            live.wait_err('probes in|probes placed|: [0-9]+ probes|tracing')
            time.sleep(0.2)
            live.proc.kill()
            live.proc.wait()
        time.sleep(0.3)
        with open(until, 'w'):
            pass
        out, _ = proc.communicate(timeout=30)
    t.equal('it lives', proc.returncode, 0)
    t.equal('results', [line for line in out.splitlines() if not line.endswith(' 0 wrong')], [])
    t.equal('all kinds', len(out.splitlines()), 25)


@case('threads cancelled and callbacks that throw inside functions of the driver')
def unwound(t):
    driver = build(t, 'libcuda.so.1', '-xc', 'driver.c',
                   flags=('-O2', '-fexceptions', '-fno-optimize-sibling-calls', '-shared', '-fPIC', '-Wl,-soname,libcuda.so.1'))  # fmt: skip
    program = build(t, 'unwound', 'unwound.cc', driver)
    env = t.envs({'LD_LIBRARY_PATH': t.tmp})
    wanted = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
    t.equal('untraced', wanted.split(), [w for x in ('synchronize', 'copy', 'copy_later', 'record', 'allocate')
                                         for w in (x, 'released', 'cancelled', '1')] + 'leave released caught 200'.split())  # fmt: skip
    for options in ((), ('-o', t.path('out.gst')), ('--disable-feature', 'session'),
                    ('--disable-feature', 'return-probes')):  # fmt: skip
        run = t.trace(*options, command=[program], env=env)
        t.equal(f'{options}: its words', run.out, wanted)
        # What is left half-way has no end that could be seen.
        t.equal(f'{options}: calls with an end', run.calls('cuLaunchHostFunc'), 100)
    # No driver's launch was seen to be a cancellation point, and a return probe is cheap; without one it may be.
    wanted = subprocess.run([program, 'launch'], env=env, capture_output=True, text=True, check=True).stdout
    t.equal('a launch, untraced', wanted.split(), 'launch released cancelled 1'.split())
    run = t.trace('--disable-feature', 'return-probes', command=[program, 'launch'], env=env)
    t.equal('a launch, without return probes', run.out, wanted)


def build_first(t):
    """A program and its environment: a CUDA runtime whose first calls alone are cancellation points."""
    flags = ('-O2', '-fexceptions', '-fno-optimize-sibling-calls', '-pthread', '-shared', '-fPIC')
    driver = build(t, 'libcuda.so.1', '-xc', 'driver.c', flags=(*flags, '-Wl,-soname,libcuda.so.1'))
    runtime = build(t, 'libcudart.so.13', '-xc', 'runtime.c', '-xnone', driver, flags=(*flags, '-Wl,-soname,libcudart.so.13'))
    return build(t, 'first', 'first.cc', runtime, driver), t.envs({'LD_LIBRARY_PATH': t.tmp})


@case('threads cancelled in the first CUDA call of a process, of a device, after a reset, and in first launches')
def first_calls(t):
    program, env = build_first(t)
    wanted = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
    t.equal('untraced', [line.split(': ')[-1] for line in wanted.splitlines()],
            ['released passed' if line.startswith('known') else 'released cancelled' for line in wanted.splitlines()])
    t.equal('cases', len(wanted.splitlines()), 14)
    some = '--func', 'cudaLaunchKernel,cudaGraphLaunch,cudaStreamQuery,cudaMemsetAsync,cudaStreamCreate'
    for options in ((), ('-o', t.path('out.gst')), ('--disable-feature', 'session'), ('--disable-feature', 'session,multi', *some),
                    some, ('--disable-feature', 'task-storage'), ('--disable-feature', 'return-probes')):  # fmt: skip
        run = t.trace(*options, command=[program], env=env)
        t.equal(f'{options}: its words', run.out, wanted)
        # Ten times three, and that of a known function. Seven were cancelled: without an end that is looked at, they count.
        ends = 'session' in str(options) or 'return-probes' in options
        t.equal(f'{options}: launches', run.calls('cudaLaunchKernel'), 31 if ends else 38)


@case('first calls are counted, and their times are not made up')
def first_counted(t):
    program, env = build_first(t)
    made = {'cudaLaunchKernel': 160, 'cudaMemsetAsync': 20, 'cudaStreamQuery': 20, 'cudaDeviceReset': 2}
    for output in ((), ('-o', t.path('out.csv'))):
        run = t.trace(*output, command=[program, 'count'], env=env)
        n_first = int(run.out)
        t.equal(f'{output}: calls', {n: run.calls(n) for n in made}, made)
        # Mappings of all processes are noticed: others may make very many.
        lost = {layer: {k: n for k, n in causes.items() if k != 'map_notices'} for layer, causes in run.summary['lost'].items()}
        t.equal(f'{output}: first calls', {k: v for k, v in lost.items() if v}, {'cuda-runtime': {'first_calls': n_first}})
        launch = run.function('cudaLaunchKernel')
        t.equal(f'{output}: inside', run.function('cuLaunchKernel')['inner_calls'], 160)
        # The mean of the calls that have a time, not of all.
        t.equal(f'{output}: mean', launch['mean_ns'], launch['total_ns'] // (160 - n_first))
    with open(t.path('out.csv'), newline='') as f:
        rows = [r for r in csv.DictReader(f) if r['function'] == 'cudaLaunchKernel']
    t.equal('rows', len(rows), 160)
    untimed = [r for r in rows if not r['dur_ns']]
    t.equal('without a time or a result', (len(untimed), {r['result'] for r in untimed}), (n_first, {''}))
    t.equal('of so many functions', len({r['function_address'] for r in untimed}), 8)
    run = t.trace('--disable-feature', 'session', command=[program, 'count'], env=env)
    t.equal('without sessions every call has its time', {c for layer in run.summary['lost'].values() for c in layer} - {'map_notices'}, set())


# What asks for the end of a call, at its very ret or wherever the function is left; what to do without.
ENDS = {
    "args: ['arg2: i64 n'], filter: n >= 0, return: true": ('task-storage', 'session', 'session,multi'),
    "args: ['arg2: i64 n'], filter: duration >= 0ns": ('task-storage',),
    "args: ['arg2: i64 n', 'ret: i64 got'], filter: got > n": ('task-storage', 'session,multi'),
    'return: true, stack: native': ('task-storage',),
}
ENDED = ('plain', 'guarded', 'c', 'c_loop')


@case('callbacks that throw, end and are cancelled inside functions of C and of extern "C" whose end is asked for', timeout=300)
def through(t):
    lib = t.path('libthrough.so')
    flags = ('-O2', '-shared', '-fPIC')
    build(t, 'c.so', '-xc', 'through_c.c', flags=('-O2', '-c', '-fPIC'))
    build(t, 'libthrough.so', 'through_cpp.cc', t.path('c.so'), flags=flags)
    program = build(t, 'through', 'through.cc', lib)
    env = t.envs({'LD_LIBRARY_PATH': t.tmp})
    wanted = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
    t.equal('untraced: caught', wanted.count('caught 33,'), 5)
    t.equal('untraced: released', wanted.count(' released'), 10)
    for ends, avoided in ENDS.items():
        file = t.path('ends.yaml')
        with open(file, 'w') as f:
            f.write(f"probes:\n  - {{lib: '{lib}', function: 'through_*', {ends}}}\n")
        for avoid in avoided:
            run = t.trace('--layer', 'user', '--probes', file, '-o', t.path('x.gst'), '--disable-feature', avoid, command=[program], env=env)
            t.equal(f'{ends} without {avoid}: its words', run.out, wanted)
            # Of 103 calls 33 are left by an exception, and two with their thread.
            t.equal(f'{ends} without {avoid}: calls with an end', {n: run.calls(f'through_{n}') for n in ENDED},
                    dict.fromkeys(ENDED, 68))  # fmt: skip
            refused = {f['function']: f['reason'] for f in run.summary['attach_failures'] if f['function']}
            # A jump through a register may lead anywhere.
            t.match(f'{ends} without {avoid}: refused', 'does not show where it returns.*return: false', refused.get('through_tail', ''))
            t.equal(f'{ends} without {avoid}: other refused', [f for f in refused if '.' not in f], ['through_tail'])


main()
