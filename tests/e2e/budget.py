#!/usr/bin/env python3
"""What tracing costs: reported, predicted (--estimate) and kept within --max-overhead. No times are asserted, only that steps
are made and reported, and that what was seen and what was only counted adds up. What has to be stepped down is called
for a second at least, or more often than any machine can in the time that a step takes."""

import csv
import glob
import json
import os
import re
import resource
import subprocess
import sys

import harness
from harness import Skip, case, main

CALLS = 3000000


def losses(run, name):
    return sum(layer.get(name, 0) for layer in run.summary['lost'].values())


def calls(run, name):
    return sum(f['calls'] for f in run.summary['functions'] if f['name'] == name)


def is_off(run, name):
    return f'the probes of {name} were removed' in run.err


def check_sum(t, run, name, made):
    """All calls were seen or counted; of one that was taken off, not more than were made."""
    got = calls(run, name) + losses(run, 'budget')
    if is_off(run, name):
        t.true('functions told as taken off', losses(run, 'taken_off') > 0)
        t.true('seen and counted before it was taken off', 0 < got <= made, f'{got} of {made}')
    else:
        t.equal('seen and counted', got, made)


@case('--max-overhead steps down, tells it, and no call is lost from the count', timeout=120)
def steps_down(t):
    trace = t.path('x.csv')
    # 0.01 %: so little that any loop of calls passes it.
    run = t.trace('--max-overhead', '0.01%', '--func', 'cudaGetDevice', '-o', trace,
                  command=t.app(f'cudaGetDevice={CALLS}'))  # fmt: skip
    t.match('a step', r'--max-overhead: cudaGetDevice \(.*\) is now (added up|added up for|only counted|being removed)',
            run.err)  # fmt: skip
    check_sum(t, run, 'cudaGetDevice', CALLS)
    with open(trace, encoding='utf-8') as f:
        n_rows = sum(1 for _ in f) - 1
    t.equal('rows, and what is only in the summary', n_rows + losses(run, 'thinned') + losses(run, 'ring_full'),
            calls(run, 'cudaGetDevice'))  # fmt: skip


@case('a limit between the modes: whichever is reached, the sum is exact', timeout=120)
def between(t):
    for limit in ('60%', '25%', '8%'):
        run = t.trace('--max-overhead', limit, '--func', 'cudaGetDevice', command=t.app(f'cudaGetDevice={CALLS // 3}'))
        check_sum(t, run, 'cudaGetDevice', CALLS // 3)
        t.note(f'{limit}: ' + ('off' if is_off(run, 'cudaGetDevice') else f'{losses(run, "budget")} only counted'))


# Calls two functions of one library until the code of the first is as in the file again. Two threads call the
# second one meanwhile, so seldom that it costs less than the limit also where a probe costs ten times as much as usual
# (a single-stepped one, on a virtual machine whose processors others use). Where a probe stands is read from the file.
HOT = '''
import ctypes, json, os, sys, threading, time
path, hot_name, cold_name, rounds, go = sys.argv[1:6]
sizes = json.loads(sys.argv[6])
library = ctypes.CDLL(path)
hot, cold = library[hot_name], library[cold_name]
argument = ctypes.byref(ctypes.c_long(0))
def place_of(function, size):
    """Where it is, and its code in the file, without what comes after it, which may have a probe of its own."""
    at = ctypes.cast(function, ctypes.c_void_p).value
    for line in open('/proc/self/maps'):
        words = line.split()
        low, high = (int(x, 16) for x in words[0].split('-'))
        if low <= at < high:
            with open(words[5], 'rb') as f:
                f.seek(at - low + int(words[2], 16))
                return at, f.read(size)
places = [place_of(hot, sizes[hot_name]), place_of(cold, sizes[cold_name])]
def has_probe(place):
    return ctypes.string_at(place[0], len(place[1])) != place[1]
# A limit for what hangs.
end = time.monotonic() + 900
while not os.path.exists(go) and time.monotonic() < end:
    time.sleep(0.01)
probed = all(map(has_probe, places))
made = {hot_name: 0, cold_name: 0}
over = threading.Event()
def other():
    n = 0
    while not over.wait(0.01):
        cold(argument)
        n += 1
    made['other'] = n
thread = threading.Thread(target=other)
thread.start()
left = int(rounds)
while left and time.monotonic() < end:
    for i in range(4000):
        hot(argument)
    cold(argument)
    made[hot_name] += 4000
    made[cold_name] += 1
    left -= not has_probe(places[0])
over.set()
thread.join()
made[cold_name] += made.pop('other')
print(json.dumps({'probed': probed, 'gone': not left, **made}))
'''


def symbol_sizes(path, *names):
    sizes = {}
    for line in subprocess.run(['readelf', '-W', '--dyn-syms', path], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) > 7 and words[7].split('@')[0] in names:
            sizes[words[7].split('@')[0]] = int(words[2], 0)
    return sizes


def hot_loop(t, *options, hot='cudaGetDevice', cold='cudaGetDeviceCount', library=None):
    """A run, and what its program says it has called."""
    target = t.path('hot.py')
    with open(target, 'w') as f:
        f.write(HOT)
    path, go = library or os.path.join(harness.fake, 'libcudart.so'), t.path('go')
    live = t.start_trace(*options, command=[sys.executable, target, path, hot, cold, '200', go, json.dumps(symbol_sizes(path, hot, cold))])
    # The breakpoint of the second one's return is at its entry, and comes first: only the tracer knows when the
    # probe of the entry has joined it.
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    with open(go, 'w'):
        pass
    run = live.finish(140)
    os.remove(go)
    t.equal(f'exit status ({run.err[-300:]})', run.status, 0)
    made = json.loads([x for x in run.out.splitlines() if x.startswith('{"probed"')][0])
    t.true('the breakpoints stood there at first', made['probed'])
    t.true('it is gone at last', made['gone'], run.err[-600:])
    t.match('told', f'the probes of .*{hot} were removed .* after the start', run.err)
    return run, made


def counted(run, name):
    return sum(x['count'] for x in run.summary['lost_details'] if x['cause'] == 'budget' and x['detail'] == name)


def check_hot(t, run, made, hot, cold):
    """The other function stayed, and its probes were replaced while it was called from two threads: no call of it
    is missing, none is there twice."""
    t.true('of the first not more than were made', 0 < calls(run, hot) + counted(run, hot) <= made[hot])
    if is_off(run, cold):
        t.fail('the function that is hardly called was taken off as well: ' + run.err[-600:])
    t.equal('calls of the other', calls(run, cold) + counted(run, cold), made[cold])
    t.equal('unmatched', losses(run, 'unmatched'), 0)
    t.equal('functions taken off', losses(run, 'taken_off'), 1)
    # On a machine where the other one costs much as well, it may have stepped down for a time, as it says then.
    stepped = {name.split()[-1] for name in re.findall(r'--max-overhead: (.*?) \(.*?\) is now', run.err)}
    partial = {f['name'] for f in run.summary['functions'] if f['partial'] and f['calls']}
    t.true('rows that say so', {hot} <= partial <= {hot} | stepped, (partial, stepped))


@case('what costs too much even when it is only counted is taken off, and no call of others is missed', timeout=150)
def taken_off(t):
    run, made = hot_loop(t, '--max-overhead', '5%', '--func', 'cudaGetDevice,cudaGetDeviceCount')
    check_hot(t, run, made, 'cudaGetDevice', 'cudaGetDeviceCount')


@case('the same with pairs of multi links', timeout=150)
def taken_off_multi(t):
    run, made = hot_loop(t, '--max-overhead', '5%', '--func', 'cudaGetDevice,cudaGetDeviceCount', '--disable-feature', 'session')
    check_hot(t, run, made, 'cudaGetDevice', 'cudaGetDeviceCount')


@case('the same of functions whose ret is probed: it loses its probe too, and where it stays no call is missed', timeout=150)
def taken_off_ret(t):
    for hot, cold, more in (('cudaDeviceSynchronize', 'cudaGetDeviceCount', ()),
                            ('cudaGetDevice', 'cudaDeviceSynchronize', ()),
                            ('cudaGetDevice', 'cudaDeviceSynchronize', ('--disable-feature', 'session'))):  # fmt: skip
        run, made = hot_loop(t, '--max-overhead', '5%', '--func', f'{hot},{cold}', *more, hot=hot, cold=cold)
        check_hot(t, run, made, hot, cold)


@case('the same with single links', timeout=150)
def taken_off_single(t):
    run, made = hot_loop(t, '--max-overhead', '5%', '--func', 'cudaGetDevice,cudaGetDeviceCount', '--disable-feature',
                         'session,multi')  # fmt: skip
    check_hot(t, run, made, 'cudaGetDevice', 'cudaGetDeviceCount')


@case('a function that is alone in its link', timeout=150)
def taken_off_alone(t):
    run, made = hot_loop(t, '--max-overhead', '1%', '--func', 'cudaGetDevice', cold='cudaGetDevice')
    t.equal('functions taken off', losses(run, 'taken_off'), 1)


# Calls one function in two libraries, from the time that one file is there until another one is.
TWO_FILES = '''
import ctypes, os, sys, time
first, second = (ctypes.CDLL(path).cudaGetDevice for path in sys.argv[1:3])
argument = ctypes.byref(ctypes.c_long(0))
# A limit for what hangs.
end = time.monotonic() + 900
while not os.path.exists(sys.argv[3]) and time.monotonic() < end:
    time.sleep(0.01)
while not os.path.exists(sys.argv[4]) and time.monotonic() < end:
    for i in range(4000):
        first(argument)
        second(argument)
'''


@case('a function that one file keeps, as no new links can be made there, and another one loses, is reported as taken off', timeout=150)
def taken_off_in_part(t):
    lonely, target, go, stop = t.path('libcudart.so.77'), t.path('two.py'), t.path('go'), t.path('stop')
    with open(t.path('lonely.c'), 'w') as f:
        f.write('int cudaGetDevice(int *device) { return *(volatile int *)device = 0; }\n')
    subprocess.run(['gcc', '-O1', '-shared', '-fPIC', '-fno-omit-frame-pointer', '-o', lonely, t.path('lonely.c')], check=True)
    with open(target, 'w') as f:
        f.write(TWO_FILES)
    live = t.start_trace('--max-overhead', '1%', '--func', 'cudaGetDevice,cudaGetDeviceCount',
                         command=[sys.executable, target, os.path.join(harness.fake, 'libcudart.so'), lonely, go, stop])
    for name in ('libcudart.so', 'libcudart.so.77'):
        live.wait_err(rf'/{name}: [0-9]+ probes')
    # No file more: the first library's links cannot be replaced, the second one's need not.
    before = resource.prlimit(live.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(live.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    with open(go, 'w'):
        pass
    live.wait_err('probes could not be removed', seconds=30)
    live.wait_err(r'the probes of cudaGetDevice were removed .* after the start', seconds=30)
    resource.prlimit(live.pid, resource.RLIMIT_NOFILE, before)
    with open(stop, 'w'):
        pass
    run = live.finish(100)
    t.equal('functions taken off', losses(run, 'taken_off'), 1)
    t.equal('rows that say so', [f['name'] for f in run.summary['functions'] if f['partial']], ['cudaGetDevice'])


def described(t, hot, cold):
    path = t.path('probes.yaml')
    with open(path, 'w') as f:
        json.dump({'probes': [hot, cold]}, f)
    return ('--layer', 'user', '--probes', path)


@case('described probes step down as all others, and are taken off', timeout=150)
def taken_off_described(t):
    for more in ((), ('--disable-feature', 'session'), ('-o', t.path('x.json'))):
        options = described(t, {'lib': 'libcudart*', 'function': 'cudaGetDevice', 'args': ['*arg1: i32 device', 'ret: i32 r']},
                            {'lib': 'libcudart*', 'function': 'cudaGetDeviceCount', 'args': ['arg1: ptr p'],
                             'return': True})  # fmt: skip
        run, made = hot_loop(t, *options, '--max-overhead', '5%', *more)
        check_hot(t, run, made, 'cudaGetDevice', 'cudaGetDeviceCount')


@case('hits that a filter refuses cost as much, and count', timeout=150)
def taken_off_filtered(t):
    options = described(t, {'lib': 'libcudart*', 'function': 'cudaGetDevice', 'args': ['ret: i32 r'], 'filter': 'r == 77'},
                        {'lib': 'libcudart*', 'function': 'cudaGetDeviceCount'})  # fmt: skip
    run, made = hot_loop(t, *options, '--max-overhead', '5%')
    t.equal('calls that passed the filter', calls(run, 'cudaGetDevice'), 0)
    t.equal('calls of the other', calls(run, 'cudaGetDeviceCount') + counted(run, 'cudaGetDeviceCount'),
            made['cudaGetDeviceCount'])  # fmt: skip


@case('--estimate shows the cost of single-stepped probes apart')
def plan_stepped(t):
    path = t.path('plan.json')
    t.tool('trace', '--estimate', '--format', 'json', '--summary', path, '--func', 'cudaGetDevice,cudaMalloc', '--disable-feature',
           'moved-sites', '--', *t.app('cudaGetDevice=500', 'cudaMalloc=30'),
           env={'LD_LIBRARY_PATH': os.path.join(harness.fake, 'endbr')}, status=0)  # fmt: skip
    with open(path, encoding='utf-8') as f:
        got = json.load(f)
    stepped = {x['function']: x['single_stepped'] for x in got['functions']}
    t.equal('single-stepped', stepped, {'cudaGetDevice': True, 'cudaMalloc': True})
    steps = {'cudaGetDevice': 1, 'cudaMalloc': 2}  # its ret, too: it may be unwound
    for x in got['functions']:
        n = steps[x['function']]
        cost = got['event_cost_ns'] + n * got['single_step_cost_ns']
        t.true(f'cost of {x["function"]}', abs(x['event_cost_ns'] - cost) <= n, f'{x}, not {cost}')  # rounded each


@case('--estimate counts the single step of a ret once a call, whatever kind of link has its probe')
def plan_ret(t):
    path = t.path('plan.json')
    for avoid in ((), ('--disable-feature', 'session'), ('--disable-feature', 'session,multi')):
        t.tool('trace', '--estimate', '--format', 'json', '--summary', path, '--func', 'cudaGetDevice,cudaMalloc', *avoid, '--',
               *t.app('cudaGetDevice=50', 'cudaMalloc=30'), status=0)  # fmt: skip
        with open(path, encoding='utf-8') as f:
            got = json.load(f)
        rows = {x['function']: x for x in got['functions']}
        t.equal('single-stepped', {k: x['single_stepped'] for k, x in rows.items()},
                {'cudaGetDevice': bool(avoid), 'cudaMalloc': True})  # fmt: skip
        cost = got['event_cost_ns'] + got['single_step_cost_ns']
        t.true('cost', abs(rows['cudaMalloc']['event_cost_ns'] - cost) <= 1, f'{rows}, not {cost}')  # rounded each


@case('a row says when its times have single steps in them, and when more calls were made')
def row_marks(t):
    stepped = {'LD_LIBRARY_PATH': os.path.join(harness.fake, 'endbr')}
    options = ('--disable-feature', 'moved-sites', '--func', 'cudaGetDevice')
    for more in ((), ('-o', t.path('x.gst'))):
        run = t.trace(*options, *more, command=t.app('cudaGetDevice=50'), env=stepped)
        t.equal('single-stepped', run.function('cudaGetDevice')['single_stepped'], True)
        t.equal('not partial', run.function('cudaGetDevice')['partial'], False)
    for short in ((), ('-v',)):
        text = t.tool('report', *short, t.path('x.gst')).out
        t.match(f'in the report {short}', r'cudaGetDevice: some .* of each time is the single step', text)
    run = t.trace('--func', 'cudaGetDevice', command=t.app('cudaGetDevice=50'))
    t.equal('not single-stepped', run.function('cudaGetDevice')['single_stepped'], False)
    run = t.trace('--func', 'cudaMalloc', command=t.app('cudaMalloc=50'))
    t.equal('the single step of its ret comes after its time', run.function('cudaMalloc')['single_stepped'], False)
    run = t.tool('trace', '--max-overhead', '0.01%', '--func', 'cudaGetDevice', '--', *t.app(f'cudaGetDevice={CALLS}'))
    t.match('the row', r'cudaGetDevice +>=', run.err)
    t.match('the note', '>= more calls were made', run.err)


@case('a file that has the function and is not run makes its calls no more expensive')
def unused_file(t):
    path = t.path('plan.json')
    t.tool('trace', '--estimate', '--format', 'json', '--summary', path, '--func', 'cudaGetDevice', '--disable-feature', 'moved-sites', '--', 'env',
           f'LD_LIBRARY_PATH={harness.fake}', *t.app('cudaGetDevice=500'),
           env={'LD_LIBRARY_PATH': os.path.join(harness.fake, 'endbr')}, status=0)  # fmt: skip
    with open(path, encoding='utf-8') as f:
        got = json.load(f)
    t.equal('calls', got['functions'][0]['calls'], 500)
    t.equal('single-stepped', got['functions'][0]['single_stepped'], False)
    t.equal('its cost', got['functions'][0]['event_cost_ns'], got['event_cost_ns'])


@case('more threads than processors: they wait for one, and do not look cheap by that', timeout=120)
def many_threads(t):
    run = t.trace('--max-overhead', '5%', '--func', 'cudaGetDevice', command=t.app('--threads=200', 'cudaGetDevice=200000'))
    t.match('a step', '--max-overhead: cudaGetDevice .* is now ', run.err)
    check_sum(t, run, 'cudaGetDevice', 200 * 200000)


@case('operators step down too')
def operators(t):
    app = t.app('2000', '2', name='fake_torch')
    plain = t.trace('--layer', 'torch', '--op-set', 'all', command=app)
    thin = t.trace('--layer', 'torch', '--op-set', 'all', '--max-overhead', '0.01%', command=app)
    for f in plain.summary['functions']:
        if f['layer'] != 'torch':
            continue
        got = calls(thin, f['name']) + counted(thin, f['name'])
        if is_off(thin, f['name']):
            t.true(f'{f["name"]} until it was taken off', got <= f['calls'], f'{got} of {f["calls"]}')
        else:
            t.equal(f'{f["name"]}, seen and counted', got, f['calls'])
    t.true('no more unmatched', losses(thin, 'unmatched') <= losses(plain, 'unmatched'))


def until_told(t, pattern, command, *options):
    """A run whose command goes on until gpuscope has said something."""
    stop = t.path('stop')
    live = t.start_trace(*options, command=[*command, stop])
    live.wait_err(pattern, 60)
    with open(stop, 'w'):
        pass
    run = live.finish()
    os.remove(stop)
    t.equal(f'exit status ({run.err[-300:]})', run.status, 0)
    return run


@case("PyTorch's allocator steps down too: what is no longer followed is told")
def allocator(t):
    n = 1000
    run = until_told(t, '--max-overhead: pytorch:malloc .* is now ', t.app(str(n), name='torch_blocks'), '--layer', 'torchmem',
                     '--max-overhead', '0.01%')  # fmt: skip
    made = n * int(run.out) + 3  # and three of another kind
    for name in 'pytorch:malloc', 'pytorch:free':
        got = calls(run, name) + counted(run, name)
        t.true(f'{name}, seen and counted', 0 < got <= made, f'{got} of {made}')
    t.true('blocks that are not followed are told', losses(run, 'thinned') + losses(run, 'budget') +
           losses(run, 'taken_off') > 0)  # fmt: skip


COLLECT = '''
import gc, os, sys
seen = [0]
def count(phase, info):
    seen[0] += phase == 'start'
gc.disable()
gc.callbacks.append(count)
while True:
    for i in range(100):
        gc.collect(0)
    if os.path.exists(sys.argv[1]):
        break
gc.callbacks.clear()
print('collections', seen[0], flush=True)
os._exit(0)
'''


@case("Python's collections step down too", timeout=120)
def python_spans(t):
    for python in glob.glob(os.path.expanduser('~/.pyenv/versions/3.1[0-3]*/bin/python3'))[:1] + ['/usr/bin/python3']:
        # A stripped one has nothing to attach to, which fails where no library of CUDA is either.
        plain = t.trace('--python-gc', command=[python, '-c', COLLECT, '/'], status=None)
        if not calls(plain, 'gc'):
            continue
        before = calls(plain, 'gc') - int(plain.out.split()[1])
        run = until_told(t, '--max-overhead: gc .* is now ', [python, '-c', COLLECT], '--python-gc', '--max-overhead', '0.01%')
        got, made = calls(run, 'gc') + counted(run, 'gc'), int(run.out.split()[1]) + before
        if is_off(run, 'gc'):
            t.true('seen and counted until they were taken off', 0 < got <= made, f'{got} of {made}')
        else:
            t.equal('seen and counted', got, made)
        return
    raise Skip('no interpreter that is not stripped')


@case('without a limit nothing is let pass, and the cost is told')
def told(t):
    run = t.trace('--func', 'cudaGetDevice', command=t.app('cudaGetDevice=100000'))
    t.equal('calls', calls(run, 'cudaGetDevice'), 100000)
    t.equal('only counted', losses(run, 'budget'), 0)
    for key in ('tracing_cost_ppm', 'tracing_cost_worst_ppm', 'tracing_call_cost_ns'):
        if not isinstance(run.summary[key], int):
            t.fail(f'{key}: {run.summary[key]}')
    t.true('a cost', run.summary['tracing_call_cost_ns'] > 0)
    for key in ('tracing_cost_ppm', 'tracing_cost_worst_ppm'):
        t.true(f'{key} is a part of all', 0 < run.summary[key] <= 1000000, run.summary[key])
    t.true('the worst is no less than the mean', run.summary['tracing_cost_worst_ppm'] >= run.summary['tracing_cost_ppm'], run.summary)


@case('a limit that is far away changes nothing')
def far_limit(t):
    run = t.trace('--max-overhead', '100', '--func', 'cudaMalloc', command=t.app('cudaMalloc=200'))
    t.equal('calls', calls(run, 'cudaMalloc'), 200)
    t.equal('only counted', losses(run, 'budget'), 0)
    if '--max-overhead:' in run.err:
        t.fail('a step: ' + run.err)


@case('--estimate counts, and prints what tracing would cost')
def plan(t):
    path = t.path('plan.json')
    t.tool('trace', '--estimate', '--format', 'json', '--summary', path, '--func', 'cudaGetDevice,cudaMalloc,cudaFree', '--',
           *t.app('cudaGetDevice=5000', 'cudaMalloc=30'), status=0)  # fmt: skip
    with open(path, encoding='utf-8') as f:
        got = json.load(f)
    t.equal('calls', {f['function']: f['calls'] for f in got['functions']}, {'cudaGetDevice': 5000, 'cudaMalloc': 30})
    if got['event_cost_ns'] <= 0 or not got['functions'][0]['event_cost_ratio'] > 0:
        t.fail(f'no cost: {got}')
    table = t.tool('trace', '--estimate', '--func', 'cudaMalloc', '--', *t.app('cudaMalloc=30'), status=0)
    if not re.search(r'^cudaMalloc +30 ', table.err, re.M):
        t.fail('table: ' + table.err)


MANY = '''
import ctypes, sys, threading
rt = ctypes.CDLL(sys.argv[1])
names, n, more = sys.argv[2].split(','), int(sys.argv[3]), sys.argv[4:]
# All live until the last one has called everything: what a thread has in the kernel is free when it ends.
called = threading.Barrier(n)
def work():
    for name in names:
        getattr(rt, name)(ctypes.byref(ctypes.c_int64()))
    called.wait()
    for name in more:
        getattr(rt, name)(0)
    called.wait()
threading.stack_size(256 << 10)
for t in [threading.Thread(target=work) for _ in range(n)]:
    t.start()
'''


@case('more threads and functions than there is room for: calls that were not asked for are no loss', timeout=200)
def no_room(t):
    names = 'cudaGetDevice,cudaGetDeviceCount,cudaPeekAtLastError,cudaGetLastError,cudaDeviceSynchronize,cudaStreamCreate,cudaEventCreate'
    per_thread, cells = len(names.split(',')), 8191  # GS_CELL_MAX, but the first
    threads = cells // per_thread
    program = [sys.executable, '-c', MANY, os.path.join(harness.fake, 'libcudart.so.13'), names, str(threads)]
    run = t.trace('--func', names, command=[*program, 'cudaSetDevice'])
    t.equal('each call is counted', {f['name']: f['calls'] for f in run.summary['functions']}, dict.fromkeys(names.split(','), threads))
    t.equal('nothing that was asked for is lost', losses(run, 'no_cell'), 0)
    # The near miss: one that was asked for.
    run = t.trace('--func', names + ',cudaSetDevice', command=[*program, 'cudaSetDevice'])
    left = cells - threads * per_thread
    t.equal('what there was room for', calls(run, 'cudaSetDevice'), left)
    t.equal('the rest is lost, and said', losses(run, 'no_cell'), threads - left)


@case('functions that are probed for first calls alone: their cost counts, and chosen ones stay counted whatever they cost', timeout=120)
def watched(t):
    run = t.trace('--func', 'cudaGetDevice', command=t.app('cudaSetDevice=200000'))
    t.equal('rows', run.summary['functions'], [])
    # Mappings of all processes are noticed: others may make very many.
    t.equal('losses', {c for layer in run.summary['lost'].values() for c in layer} - {'map_notices'}, set())
    path, options = t.path('plan.json'), ('trace', '--estimate', '--func', 'cudaGetDevice')
    program = t.app('cudaGetDevice=30', 'cudaSetDevice=5000')
    t.tool(*options, '--format', 'json', '--summary', path, '--', *program, status=0)
    with open(path, encoding='utf-8') as f:
        got = {x['function']: x for x in json.load(f)['functions']}
    t.equal('calls, and was it chosen', {name: (x['calls'], x['watched']) for name, x in got.items()},
            {'cudaGetDevice': (30, False), 'cudaSetDevice': (5000, True)})  # fmt: skip
    t.true('a call costs less than an event', 0 < got['cudaSetDevice']['event_cost_ns'] < got['cudaGetDevice']['event_cost_ns'], got)
    table = t.tool(*options, '--', *program, status=0).err
    t.match('the row', r'\ncudaSetDevice +5000 +[0-9]+ +[0-9]+ ns\+ ', table)
    t.match('what it means', r'\n\+ not chosen, but probed', table)
    done = t.tool(*options, '--format', 'csv', '--', *program, status=0).err
    rows = {row['function']: row['watched'] for row in csv.DictReader(done[done.index('function,'):].splitlines())}
    t.equal('CSV', rows, {'cudaGetDevice': 'no', 'cudaSetDevice': 'yes'})
    # What that costs is reported, although no chosen function is called.
    t.true('cost', run.summary['tracing_cost_ppm'] > 0)
    # So much that any other function's probes would be taken off.
    run = t.trace('--max-overhead', '0.01%', '--func', 'cudaSetDevice', command=t.app(f'cudaSetDevice={CALLS}'))
    t.match('the last step', r'--max-overhead: cudaSetDevice \(.*\) is now only counted', run.err)
    t.true('its probes stay', 'taken off' not in run.err, run.err)
    t.equal('seen and counted', calls(run, 'cudaSetDevice') + losses(run, 'budget'), CALLS)


@case('--estimate of a command that has to load first: the two seconds begin with its first call', timeout=90)
def plan_waits(t):
    path = t.path('plan.json')
    live = harness.Live(t, lambda summary: [harness.gpuscope, 'trace', '--estimate', '--format', 'json', '--summary', path, '--',
                                            *t.app('--pause-ms=3000', 'cudaMalloc=31')], env=t.envs())  # fmt: skip
    t.equal('status', live.finish().status, 0)
    with open(path, encoding='utf-8') as f:
        got = json.load(f)
    t.equal('calls', {f['function']: f['calls'] for f in got['functions']}, {'cudaMalloc': 31})
    text = t.tool('trace', '--estimate', '--', 'true').err
    t.match('nothing', 'No traced function was called', text)
    t.true('80 columns', max(len(x) for x in text.splitlines()) <= 80, text)


@case('--estimate and --max-overhead: wrong use', needs=None)
def wrong_use(t):
    for words in (['--estimate', '-o', 'x.csv'], ['--estimate', '--max-overhead', '2%'], ['--estimate', '--format', 'yaml'],
                  ['--max-overhead', '0'], ['--max-overhead', '101%'], ['--max-overhead', 'x'],
                  ['--max-overhead', '2%%'], ['--flame', 'heat']):  # fmt: skip
        done = subprocess.run([harness.gpuscope, 'trace', *words, '--', 'true'], capture_output=True, text=True)
        t.equal(f'exit status of {words}', done.returncode, 2)
        t.equal(f'lines of {words}', done.stderr.count('\n'), 1)


main()
