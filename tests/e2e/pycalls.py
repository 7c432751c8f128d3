#!/usr/bin/env python3
"""Calls of Python functions: as many as Python itself counts, of each interpreter that is here."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys

import harness
import pythons
from harness import HERE, Skip, case, main
from pycalls_help import ALL, TARGET, compare, counted, environment, of_target, wanted_of

SCOPES_MAX = 128


def of_3_11():
    """Those that tell when a function is left."""
    return [p for p in pythons.interpreters((3, 11), (3, 11)) if p.has_probes]


def each(check, n=3, untimed=False):
    """Of those whose calls are timed; untimed: or one whose calls are counted."""
    found = [p for p in pythons.interpreters((3, 8), (3, 10)) if p.is_stripped is not None]
    some = found[-n:] + [p for p in found[:-n] if p.named] + (of_3_11()[:1] if untimed else [])
    if not some:
        raise Skip('no Python 3.8, 3.9 or 3.10' + (', nor a 3.11 built --with-dtrace' if untimed else ''))
    for p in some:
        check('%d.%d' % p.version, p.program)


def of_3_12():
    """Those that show when a frame has ended: with the lock, and of 3.12 with a table of symbols."""
    return [p for p in pythons.interpreters((3, 12), (3, 14))
            if not p.is_free_threaded and (p.version > (3, 12) or p.is_stripped is False)]  # fmt: skip


def trace(t, program, cases, *options, calls='--python-calls'):
    return t.trace(calls, *options, command=[program, TARGET, '-', *cases], env={'LD_LIBRARY_PATH': harness.fake,
                   'PYTHONHASHSEED': '0'})  # fmt: skip


def records(path):
    done = subprocess.run([sys.executable, os.path.join(HERE, '..', 'gst.py'), path], capture_output=True, text=True,
                          check=True)  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


@case('as many calls of each function as sys.setprofile counts', timeout=240)
def exact(t):
    def check(version, program):
        run = trace(t, program, ALL)
        rows = of_target(run)
        compare(t, version, rows, counted(t, program, *ALL))
        # Children end before their names can be read.
        t.equal(f'{version}: lost', set(run.summary['lost'].get('all', {})) - {'process_gone', 'map_notices'}, set())
        t.equal(f'{version}: lost of Python', run.summary['lost'].get('python'), None)
        fib = next(r for k, r in rows.items() if k[1] == 'fib')
        t.true(f'{version}: time in itself', 0 < fib['self_ns'] <= fib['total_ns'], fib)
        numbers = next(r for k, r in rows.items() if k[1] == 'numbers')
        # One that was never asked for a value is entered when it is freed, to be closed.
        t.equal(f'{version}: generators begun', numbers['calls'] - numbers['resumes'], 6)
        t.equal(f'{version}: functions are not resumed', fib['resumes'], 0)

    each(check)


@case('the same as whole events', timeout=240)
def events(t):
    def check(version, program):
        out = t.path('calls.gst')
        run = trace(t, program, ALL, '-o', out)
        compare(t, version, of_target(run), counted(t, program, *ALL))
        strings, names, files, calls, scopes = {0: ''}, {}, {}, collections.Counter(), collections.Counter()
        for r in records(out):
            if r['kind'] == 'STRING':
                strings[r['id']] = r['text']
            elif r['kind'] == 'FUNCTION':
                names[r['id']] = strings[r['name_str']]
                files[r['id']] = strings[r['file_str']]
            elif r['kind'] == 'CALL' and files[r['function']] == TARGET:
                calls[names[r['function']].split(':', 1)[1].split('/')[0]] += 1
                scopes[names[r['function']], names.get(r['scope'], '')] += 1
        for (file, name, _), row in of_target(run).items():
            if file == TARGET and not name.startswith('<'):
                t.equal(f'{version}: {name} in the file', calls[name], row['calls'])
        around = {scope for (name, scope) in scopes if ':fib/' in name}
        t.true(f'{version}: fib is called by fib and others', any(':fib/' in s for s in around) and
               any(':work/' in s for s in around), around)  # fmt: skip

    each(check)


@case('recursion deeper than what is timed', timeout=120)
def deep(t):
    def check(version, program):
        run = trace(t, program, ['deep'])
        rows = of_target(run)
        compare(t, version, rows, counted(t, program, 'deep'))
        sink = next(r for k, r in rows.items() if k[1] == 'sink')
        t.equal(f'{version}: sink', sink['calls'], 401)
        untimed = run.lost('untimed')
        # main, deep and the module are above it.
        t.equal(f'{version}: without a time', untimed, 401 + 3 - SCOPES_MAX)

    each(check)


@case('what was launched inside, by whoever caused it', timeout=120)
def launches(t):
    def check(version, program):
        for options in ([], ['-o', t.path('launches.json')]):
            run = trace(t, program, ['launches'], *options)
            got = {k[1]: (r['calls'], r['launches']) for k, r in of_target(run).items()}
            t.equal(f'{version} {options}: launches', {k: got.get(k) for k in ('launch', 'layer', 'launches', 'main')},
                    {'launch': (13, 13), 'layer': (4, 12), 'launches': (1, 13), 'main': (1, 13)})  # fmt: skip
            t.equal(f'{version}: launched', run.calls('cudaLaunchKernel'), 13)
        with open(t.path('launches.json')) as f:
            events = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'X']
        outer = [e for e in events if e['name'].startswith('pycalls_target.py:launch/')]
        for e in (e for e in events if e['name'] == 'cudaLaunchKernel'):
            t.true(f'{version}: in a launch()', any(o['tid'] == e['tid'] and o['ts'] <= e['ts'] and
                   e['ts'] + e['dur'] <= o['ts'] + o['dur'] for o in outer))  # fmt: skip

    each(check)


@case('a report of what ran under a function', timeout=120)
def under(t):
    def check(version, program):
        out, made = t.path('out.gst'), t.path('made.json')
        trace(t, program, ['launches', 'recursion'], '-o', out)
        for pattern, wanted in (('layer', 12), ('pycalls_target.py:launches', 13), ('pycalls_target.py:la*,fib', 13),
                                ('fib', None), ('/elsewhere.py:*', None)):  # fmt: skip
            # What would show nothing is not written.
            run = t.tool('report', '--format', 'json', '--within', pattern, '-o', made, out, status=4 * (pattern == '/elsewhere.py:*'))
            summary = json.loads(run.out)
            got = {f['name']: f['calls'] for f in summary['functions']}
            t.equal(f'{version} {pattern}: launches', got.get('cudaLaunchKernel'), wanted)
            t.equal(f'{version} {pattern}: nothing', 'nothing ran under' in run.err, pattern == '/elsewhere.py:*')
            names = {f['name'].rsplit(':', 1)[1].split('/')[0] for f in summary['python_functions'] if f['file'] == TARGET}
            t.equal(f'{version} {pattern}: functions', names,
                    {'layer': {'layer', 'launch'}, 'pycalls_target.py:launches': {'launches', 'layer', 'launch'},
                     'pycalls_target.py:la*,fib': {'launches', 'layer', 'launch', 'fib'}, 'fib': {'fib'}}.get(pattern, set()))  # fmt: skip
            with open(made) as f:
                drawn = [e for e in json.load(f)['traceEvents'] if e['ph'] in 'Xi' and e['name'] == 'cudaLaunchKernel']
            t.equal(f'{version} {pattern}: drawn', len(drawn), wanted or 0)

    each(check, n=1)


@case('functions by pattern', timeout=240)
def patterns(t):
    def check(version, program):
        for pattern, names in (('fib', {'fib'}), ('pycalls_target.py:f*', {'fib', 'fails', 'from_c', 'forks'}),
                               ('w?rk,*/e2e/*:sink', {'work'}), ('nothing_of_this_name', set()),
                               ('/elsewhere/pycalls_target.py:*', set()), (TARGET + ':num*s', {'numbers'})):  # fmt: skip
            run = trace(t, program, ALL, calls='--python-calls=' + pattern)
            got = {f['name'].rsplit(':', 1)[1].split('/')[0] for f in run.summary['python_functions']}
            t.equal(f'{version}: {pattern}', got, names)
            counts = counted(t, program, *ALL) if pattern == 'fib' else {}
            for key, row in of_target(run).items():
                if counts:
                    t.equal(f'{version}: calls of {key[1]}', row['calls'], counts[key])

    each(check, n=1)


@case('children by the hundred get their numbers back', timeout=240)
def many(t):
    def check(version, program):
        code = ('import os\n'
                'def child(i):\n    return i\n'
                'for i in range(300):\n'
                '    pid = os.fork()\n'
                '    if not pid:\n        child(i); os._exit(0)\n'
                '    os.waitpid(pid, 0)\n')  # fmt: skip
        run = t.trace('--python-calls', command=[program, '-c', code])
        rows = [f for f in run.summary['python_functions'] if f['file'] == '<string>' and ':child/' in f['name']]
        t.equal(f'{version}: calls', [r['calls'] for r in rows], [300])
        t.equal(f'{version}: lost', run.lost('python_functions'), 0)

    each(check, untimed=True)


@case('functions that no pattern names cost as well, and --max-overhead knows', timeout=120)
def budget_of_others(t):
    def check(version, program):
        run, made = hot_loop(t, program, '0.01%', 'the probes of Python functions were removed', '--python-calls=no_such_name')
        t.equal(f'{version}: taken off', run.lost('taken_off'), 1)
        t.equal(f'{version}: shown', run.summary['python_functions'], [])
        t.equal(f'{version}: only counted', run.lost('budget'), 0)

    each(check, n=1, untimed=True)


TIMES = ('total_ns', 'self_ns', 'p50_ns', 'p95_ns', 'p99_ns', 'max_ns', 'launches')


@case('3.11 built with static probes: as many calls, without their times', timeout=240)
def counted_when_left(t):
    found = of_3_11()
    if not found:
        raise Skip('no Python 3.11 that was built --with-dtrace, as Debian\'s is')
    for p in found:
        for cases in (ALL, ['deep']):
            run = trace(t, p.program, cases)
            rows = of_target(run)
            compare(t, p, rows, counted(t, p.program, *cases))
            t.equal(f'{p}: lost of Python', set(run.summary['lost'].get('python', {})), {'untimed'})
            t.true(f'{p}: each is told as untimed', run.lost('untimed') >= sum(r['calls'] for r in rows.values()))
            t.equal(f'{p}: times', {r[key] for r in rows.values() for key in TIMES}, {None})
        run = trace(t, p.program, ALL, '-o', t.path('calls.gst'))
        compare(t, f'{p}, with a file', of_target(run), counted(t, p.program, *ALL))
        told = [a for a in run.summary['attach_failures'] if a['function'] == 'python:function__entry']
        t.equal(f'{p}: told', len(told), 1)
        t.match(f'{p}: why', 'only when a function is left', told[0]['reason'] if told else '')
        run = trace(t, p.program, ALL, calls='--python-calls=fib,w?rk')
        rows, counts = of_target(run), wanted_of(counted(t, p.program, *ALL))
        t.equal(f'{p}: by pattern', {k: r['calls'] for k, r in rows.items()},
                {k: n for k, n in counts.items() if k[1] in ('fib', 'work')})  # fmt: skip


# Of a generator or coroutine each entry is a call for sys.setprofile, and only its end is a frame that ended.
GENERATORS = ('numbers', 'delegating', '<genexpr>', 'inner', 'outer')


@case('3.12 and newer: as many frames that ended as sys.monitoring counts', timeout=400)
def counted_when_cleared(t):
    found = of_3_12()
    if not found:
        raise Skip('no Python 3.12 with a table of symbols, or newer')
    for p in found:
        for cases in (ALL, ['deep']):
            ends, calls = counted(t, p.program, *cases, column=4), counted(t, p.program, *cases)
            run = trace(t, p.program, cases)
            rows = of_target(run)
            compare(t, p, rows, ends)
            plain = {k: n for k, n in wanted_of(calls).items() if k[1] not in GENERATORS}
            t.equal(f'{p}: sys.setprofile counts the same of functions', plain,
                    {k: n for k, n in wanted_of(ends).items() if k[1] not in GENERATORS})  # fmt: skip
            t.equal(f'{p}: lost of Python', set(run.summary['lost'].get('python', {})), {'untimed'})
            t.equal(f'{p}: times', {r[key] for r in rows.values() for key in TIMES}, {None})
        run = trace(t, p.program, ALL, '-o', t.path('calls.gst'))
        compare(t, f'{p}, with a file', of_target(run), counted(t, p.program, *ALL, column=4))
        told = [a for a in run.summary['attach_failures'] if 'ClearAndPop' in a['function']]
        t.equal(f'{p}: reported', len(told), 1)
        t.match(f'{p}: why', 'only when a frame has ended', told[0]['reason'] if told else '')
        run = trace(t, p.program, ALL, calls='--python-calls=fib,w?rk')
        t.equal(f'{p}: by pattern', {k: r['calls'] for k, r in of_target(run).items()},
                {k: n for k, n in wanted_of(counted(t, p.program, *ALL, column=4)).items() if k[1] in ('fib', 'work')})  # fmt: skip


# A class whose __init__ is called without leaving the evaluation loop has a frame of the interpreter's own beside.
MAKES = '''
class Thing:
    def __init__(self, n):
        self.n = n
for i in range(5000):
    Thing(i)
'''


@case('3.12 and newer: frames that the interpreter adds are no calls', timeout=120)
def no_cleanup(t):
    found = of_3_12()
    if not found:
        raise Skip('no Python 3.12 with a table of symbols, or newer')
    for p in found:
        run = t.trace('--python-calls', command=[p.program, '-c', MAKES])
        rows = {f['name']: f['calls'] for f in run.summary['python_functions'] if f['calls'] >= 1000}
        t.equal(f'{p}: calls', rows, {'<string>:__init__/3': 5000})
        text = t.tool('trace', '--python-calls', '--', p.program, '-c', MAKES).err
        t.match(f'{p}: text without times', r'(?m)^  <string>:__init__/3 +5,000 +- +- +- +- +- +Python function', text)


@case('3.11 without static probes and others are reported, with another way')
def inlined(t):
    shown = of_3_12()
    found = [p for p in pythons.interpreters((3, 11), (3, 14)) if p not in shown and not p.has_probes]
    if not found:
        raise Skip('no Python 3.11 without static probes, nor a stripped 3.12')
    for p in found:
        run = t.trace('--python-calls', command=[p.program, '-c', 'print(1)'])
        told = [a for a in run.summary['attach_failures'] if a['function'] == '_PyEval_EvalFrameDefault']
        t.equal(f'{p}: told', len(told), 1)
        t.match(f'{p}: why', r'Python.*--python-hz', told[0]['reason'] if told else '')
        t.equal(f'{p}: none', run.summary['python_functions'], [])


HOT = '''import os, sys
def turn(i):
    return i
n = 0
while not os.path.exists(sys.argv[1]):
    for i in range(1000):
        turn(i)
    n += 1000
print(n)
'''


def hot_loop(t, program, limit, until, calls='--python-calls'):
    """A run whose program goes on until something was said, and how often it has called turn()."""
    stop = t.path('stop')
    live = t.start_trace(calls, '--max-overhead', limit, command=[program, '-c', HOT, stop])
    live.wait_err(until, seconds=60)
    with open(stop, 'w'):
        pass
    run = live.finish()
    os.remove(stop)
    return run, int(run.out.split()[-1])


def seen_and_counted(run, name=':turn/'):
    rows = [f['calls'] for f in run.summary['python_functions'] if name in f['name']]
    return sum(rows) + sum(x['count'] for x in run.summary['lost_details']
                           if x['cause'] == 'budget' and name in x['detail'])  # fmt: skip


@case('--max-overhead: all Python functions step down as one, and their calls add up until they are taken off', timeout=240)
def budget(t):
    def check(version, program):
        for limit, until in (('20%', 'Python functions .* is now'), ('0.01%', 'the probes of Python functions were removed')):
            run, made = hot_loop(t, program, limit, until)
            steps = re.findall(r'--max-overhead: (.*) \(.*\) is now', run.err)
            t.equal(f'{version}, {limit}: what steps down', set(steps), {'Python functions'})
            off = 'the probes of Python functions were removed' in run.err
            t.equal(f'{version}, {limit}: told as taken off', run.lost('taken_off'), int(off))
            got = seen_and_counted(run)
            if off:
                # That may have been while the interpreter started, before the first turn().
                t.true(f'{version}, {limit}: until they were taken off', got <= made, f'{got} of {made}')
                t.true(f'{version}, {limit}: some of all functions', seen_and_counted(run, '') > 0)
            else:
                t.true(f'{version}, {limit}: seen and counted', got == made, f'{got}, not {made}; lost: {run.summary["lost"]}, {run.err[-500:]}')

    each(check, n=1, untimed=True)


NEST = """
import ctypes, gc
cuda = ctypes.CDLL('libcudart.so.13')
linear = ctypes.CDLL('libtorch_cpu.so')._ZN2at4_ops6linear4callERKNS_6TensorE

class Ring:
    def __del__(self):
        linear(1)

def step():
    linear(1)

def train(n):
    for i in range(n):
        step()
        cuda.cudaDeviceSynchronize()

train(7)
gc.disable()
for i in range(3):
    ring = Ring()
    ring.me = ring
del ring
gc.collect()
cuda.cudaDeviceSynchronize()
"""


def slices_of(t, path):
    """{track: [(begin ns, names from the outermost inward, flows, ends of flows)]} of a Perfetto file, and that its slices
    are nested. A first call has no length: an instant."""
    golden = os.path.join(HERE, '..', 'golden')
    with open(path, 'rb') as f:
        text = subprocess.run(['protoc', '-I' + golden, '--decode=perfetto.protos.Trace', 'perfetto_subset.proto'],
                              stdin=f, capture_output=True, check=True).stdout.decode()  # fmt: skip
    names, events = {}, collections.defaultdict(list)
    for packet in re.split(r'(?m)^packet \{$', text):
        for iid, name in re.findall(r'event_names \{\s+iid: (\d+)\s+name: "([^"]*)"', packet):
            names[iid] = name
        kind = re.search(r'type: TYPE_(?:SLICE_)?(BEGIN|END|INSTANT)', packet)
        if kind:
            # Those of the event itself: arguments further in have names as well.
            one = {k: re.search(rf'(?m)^ {{2,4}}{k}: (\d+)', packet) for k in ('timestamp', 'track_uuid', 'name_iid')}
            events[one['track_uuid'][1]].append(
                (int(one['timestamp'][1]), kind[1], names.get(one['name_iid'] and one['name_iid'][1]),
                 set(re.findall(r'(?m)^ +flow_ids: (\d+)', packet)), set(re.findall(r'terminating_flow_ids: (\d+)', packet))))  # fmt: skip
    tracks = {}
    for track, all_of_it in events.items():
        stack, rows = [], []
        for time, kind, name, flows, ends in sorted(all_of_it, key=lambda e: e[0]):
            if kind == 'BEGIN':
                stack.append(name)
                rows.append((time, tuple(stack), flows, ends))
            elif kind == 'INSTANT':
                rows.append((time, (*stack, name), flows, ends))
            elif stack:
                stack.pop()
            else:
                t.fail(f'an end without a begin at {time}')
        t.equal('left open', stack, [])
        tracks[track] = rows
    return tracks


def plain(names):
    """Without the file and the line of Python functions."""
    return tuple(re.sub(r'^.*:(\w+)/\d+$', r'\1', n) for n in names)


@case('Perfetto: Python over operator over CUDA on one track, and arrows to what waited', timeout=240)
def nested(t):
    if not shutil.which('protoc'):
        raise Skip('protoc is not installed')
    with open('nest.py', 'w') as f:
        f.write(NEST)
    collects = [p for p in pythons.interpreters() if not p.is_stripped or p.has_probes]  # where that is seen
    timed = [p for p in collects if p.version <= (3, 10)][-1:]
    for p in timed + [p for p in collects if p.version >= (3, 11)][:1]:
        is_timed = p in timed
        options = ['--python-calls=nest.py:step,nest.py:train'] if is_timed else []
        t.trace('--layer=torch,cuda-runtime', '--op-set=all', '--python-gc', *options, '-o', 'nest.pftrace',
                command=[p.program, 'nest.py'], env={'LD_LIBRARY_PATH': harness.fake})  # fmt: skip
        tracks = [rows for rows in slices_of(t, 'nest.pftrace').values() if any(r[1][-1] == 'cudaLaunchKernel' for r in rows)]
        t.equal(f'{p}: tracks with launches', len(tracks), 1)
        rows = [(time, plain(names), flows, ends) for time, names, flows, ends in tracks[0]]
        operators = ('aten::linear', 'aten::addmm', 'cudaLaunchKernel')
        ways = collections.Counter(names for _, names, _, _ in rows if names[-1] == 'cudaLaunchKernel')
        t.equal(f'{p}: launches, by what is around them', ways,
                {(('train', 'step') if is_timed else ()) + operators: 14, ('gc', *operators): 6})  # fmt: skip
        waits = [names for _, names, _, _ in rows if names[-1] == 'cudaDeviceSynchronize']
        around = ('train',) if is_timed else ()
        t.equal(f'{p}: waits', waits, [(*around, 'cudaDeviceSynchronize')] * 7 + [('cudaDeviceSynchronize',)])
        # An arrow leads from the last launch before a wait to it.
        last, wanted, got, starts = None, [], [], {}
        for time, names, flows, ends in rows:
            if names[-1] == 'cudaLaunchKernel':
                last = time
            starts.update(dict.fromkeys(flows, time))
            got += [(starts.get(e), time) for e in ends]
            if names[-1] == 'cudaDeviceSynchronize':
                wanted.append((last, time))
        t.equal(f'{p}: arrows', got, wanted)


@case('wrong patterns', needs=None)
def wrong(t):
    for word in ('', ','.join('abcdefghi')):
        run = t.tool('report', '--within', word, t.path('x.gst'), status=2)
        t.match(word, '--within takes', run.err)
    for word in ('--python-calls=', '--python-calls=' + 'x' * 129, '--python-calls=' + ','.join('abcdefghi')):
        run = t.tool('trace', word, '--', 'true', status=2)
        t.match(word[:30], 'at most 8 patterns', run.err)


if __name__ == '__main__':
    main()
