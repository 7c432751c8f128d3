#!/usr/bin/env python3
"""Python stacks of real interpreters, compared frame by frame with what Python itself tells."""

import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import harness
import pythons
from harness import Skip, case, main, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, 'python_target.py')
ALL = ['plain', 'recursion', 'generators', 'coroutines', 'callbacks', 'exceptions', 'unicode_names', 'made_and_freed',
       'long_function', 'threads', 'many_threads', 'forks']  # fmt: skip
FRAMES_MAX = 128


def interpreters(scripts=True):
    """{name: program} of what is installed and can be read; scripts: with those that start one in another root."""
    return {str(p): p.program for p in pythons.interpreters() if scripts or p.is_stripped is not None}


class Trace:
    """Calls and samples of a .gst file, their stacks as [file, function, line]."""

    def __init__(self, path):
        done = subprocess.run([sys.executable, os.path.join(HERE, '..', 'gst.py'), path], capture_output=True, text=True,
                              check=True)  # fmt: skip
        text, frames, self.stacks, self.calls, self.samples, self.lost = {0: ''}, {}, {}, [], [], collections.Counter()
        self.threads, self.processes, self.flags = {}, {}, {}
        for line in done.stdout.splitlines():
            r = json.loads(line)
            kind = r['kind']
            if kind == 'STRING':
                text[r['id']] = r['text']
            elif kind == 'FRAME':
                frames[r['id']] = [text[r['file_str']], text[r['function_str']], r['line']]
            elif kind == 'STACK':
                self.stacks[r['id']] = [frames[f] for f in r['frames']]
                self.flags[r['id']] = r['stack_flags']
            elif kind == 'CALL':
                self.calls.append(r)
            elif kind == 'SAMPLE':
                self.samples.append(r)
            elif kind == 'THREAD':
                self.threads[r['id']] = r
            elif kind == 'PROCESS':
                self.processes[r['id']] = r
            elif kind == 'LOSS':
                self.lost[r['cause']] += r['count']

    def stack(self, record):
        return self.stacks.get(record['py_stack'])


def told(base):
    lines = []
    for path in glob.glob(base + '.[0-9]*'):
        lines += [json.loads(x) for x in harness.read_text(path).splitlines()]
    return lines


def cut(text, longest):
    """As a name is stored: at most so many bytes."""
    return text.encode()[:longest].decode(errors='ignore')


def compare(t, what, wanted, done, trace):
    """Each mark has its cudaMalloc, and that has the stack that Python told. Memory that the machine has just moved or
    taken cannot be read in the kernel: rare, and counted."""
    calls = {c['bytes']: c for c in trace.calls}
    missing = 0
    for w in wanted:
        call = calls.get(w['number'])
        if not call:
            t.fail(f'{what}: no call of mark {w["number"]}')
            continue
        got = trace.stack(call)
        if got is None:
            missing += 1
            continue
        stack = [[file, cut(name, 4000), line] for file, name, line in w['stack']]
        # The mark's own frame is above those told.
        t.equal(f'{what}: mark {w["number"]} is in', [got[0][1], os.path.basename(got[0][0])], ['mark', 'python_target.py'])
        rest = got[1:]
        if rest != stack[:FRAMES_MAX - 1]:
            for i, (a, b) in enumerate(zip(rest, stack)):
                if a != b:
                    t.fail(f'{what}: mark {w["number"]}, frame {i + 1}: {str(a)[:300]}, not {str(b)[:300]}')
                    break
            else:
                t.fail(f'{what}: mark {w["number"]}: {len(rest)} frames, not {min(len(stack), FRAMES_MAX - 1)}')
        t.equal(f'{what}: mark {w["number"]} cut', trace.flags[call['py_stack']] & 1, int(len(stack) >= FRAMES_MAX))
    if missing > min(done.lost('stacks'), 2):
        t.fail(f'{what}: {missing} of {len(wanted)} calls have no stack, told of {done.lost("stacks")}')
    t.equal(f'{what}: frames lost', done.lost('frames'), 0)


def run(t, program, cases, env=None, options=('--python-at', 'alloc'), before=()):
    """The target is told of each interpreter whose stacks can be read from now on; it waits for that."""
    base = t.path('told')
    env = {'LD_LIBRARY_PATH': harness.fake, 'PYTHON_TARGET_READY': '1', **(env or {})}
    live = t.start_trace(*options, '-o', 'trace.gst', command=[*before, program, TARGET, base, *cases], env=env)
    seen = 0
    while live.proc.poll() is None:
        found = re.findall(r'process (\d+): Python \S+ at 0x([0-9a-f]+), stacks can be read\n', live.err_text())
        for pid, state in found[seen:]:
            open(f'{base}.ready.{pid}.{state}', 'w').close()
        seen = len(found)
        time.sleep(0.005)
    done = live.finish()
    t.equal(f'exit status ({done.err[-300:]})', done.status, 0)
    return done, told(base), Trace('trace.gst')


def each_version():
    for name, program in interpreters().items():

        def one(t, program=program):
            done, wanted, trace = run(t, program, ALL)
            t.true('marks', len(wanted) > 500, len(wanted))
            compare(t, program, wanted, done, trace)
            t.note(f'{len(wanted)} stacks of {len(trace.stacks)} kinds are the same')

        case(f'every frame is the one that Python tells: {name}', timeout=120)(one)


each_version()


def newest():
    return list(interpreters().values())[-1]


@case('multiprocessing: fork, spawn, forkserver', timeout=120)
def pools(t):
    for name, program in interpreters().items():
        for path in glob.glob(t.path('told.*')):
            os.unlink(path)
        done, wanted, trace = run(t, program, ['pools'])
        t.equal(f'{name}: marks', len(wanted), 12)
        compare(t, name, wanted, done, trace)


@case('exec: one version after another in one process', timeout=120)
def executes(t):
    programs = list(interpreters(scripts=False).values())
    for first, second in zip(programs, programs[1:] + programs[:1]):
        for path in glob.glob(t.path('told.*')):
            os.unlink(path)
        done, wanted, trace = run(t, first, ['executes'], env={'PYTHON_TARGET_OTHER': second})
        t.equal(f'{first} {second}: marks', len(wanted), 2)
        compare(t, f'{first}, then {second}', wanted, done, trace)


@case('several interpreters of different versions at once', timeout=120)
def others(t):
    programs = list(interpreters().values())
    if len(programs) < 2:
        raise Skip('only one Python is installed here')
    done, wanted, trace = run(t, programs[0], ['others'], env={'PYTHON_TARGET_OTHERS': ':'.join(programs)})
    t.equal('processes', len({w['pid'] for w in wanted}), len(programs) + 1)
    compare(t, 'all', wanted, done, trace)


BUSY = """
import os, sys, time
def hot(n):
    s = 0
    for i in range(n):
        s += i * i
    return s
def warm(n):
    return hot(n)
while not os.path.exists('go'): time.sleep(0.01)
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    warm(5000)
"""


def when_known(live):
    """The program waits for the file `go`, which comes once its interpreter can be read; the run."""
    wait_until(lambda: live.proc.poll() is not None or 'stacks can be read' in live.err_text(), what='the interpreter')
    open('go', 'w').close()
    run = live.finish()
    os.unlink('go')
    return run


def samples_of(t, program, *options, seconds='1.0', hz='200'):
    with open('busy.py', 'w') as f:
        f.write(BUSY)
    done = when_known(t.start_trace('--python-hz', hz, *options, '-o', 'busy.gst', command=[program, 'busy.py', seconds]))
    return done, Trace('busy.gst')


@case('samples: their number is the time on a processor, their lines are the busy ones', timeout=120)
def sampling(t):
    for name, program in interpreters().items():
        done, trace = samples_of(t, program)
        seconds = sum(s['period_ns'] for s in trace.samples) / 1e9
        t.true(f'{name}: seconds sampled', 0.85 < seconds < 4, seconds)
        stacks = [trace.stack(s) or [] for s in trace.samples]
        hot = [s for s in stacks if s and s[0][1] == 'hot' and s[0][2] in (4, 5, 6, 7)]
        t.true(f'{name}: samples in hot()', len(hot) > 0.5 * len(stacks), f'{len(hot)} of {len(stacks)}')
        for s in hot:
            if [f[1] for f in s] != ['hot', 'warm', '<module>'] or s[1][2] != 9 or s[2][2] != 13:
                t.fail(f'{name}: {s}')
                break


THREADS = """
import os, threading, time
def hot(n):
    s = 0
    for i in range(n):
        s += i * i
    return s
def come_and_go():
    while time.process_time() < end:
        t = threading.Thread(target=hot, args=(500,))
        t.start()
        t.join()
def work(k):
    while time.process_time() < end:
        hot(3000)
while not os.path.exists('go'): time.sleep(0.01)
end = time.process_time() + 1.0
every = [threading.Thread(target=work, args=(k,)) for k in range(3)] + [threading.Thread(target=come_and_go)]
for t in every: t.start()
for t in every: t.join()
"""


@case('samples of threads that run at once, while others come and go', timeout=120)
def sampled_threads(t):
    with open('threads.py', 'w') as f:
        f.write(THREADS)
    lines = {'hot': range(3, 8), 'come_and_go': range(8, 13), 'work': range(13, 16), '<module>': range(0, 22)}
    free = [p for p in pythons.interpreters() if p.is_free_threaded]
    for p in free + [p for p in pythons.interpreters() if p not in free][-1:]:
        run = when_known(t.start_trace('--python-hz', '500', '-o', 'threads.gst', command=[p.program, 'threads.py']))
        trace = Trace('threads.gst')
        stacks = [trace.stack(s) or [] for s in trace.samples]
        names = collections.Counter(tuple(f[1].rsplit('.', 1)[-1] for f in s) for s in stacks)
        busy = sum(n for s, n in names.items() if s[:3] == ('hot', 'work', 'run') and s[-1] == '_bootstrap')
        t.true(f'{p}: samples in threads', busy > 0.3 * len(stacks), f'{busy} of {len(stacks)}: {names.most_common(5)}')
        own = [tuple(f) for s in stacks for f in s if f[0].endswith('threads.py')]
        t.equal(f'{p}: lines that cannot be', {f for f in own if f[2] not in lines[f[1]]}, set())
        t.equal(f'{p}: frames without a name', run.lost('frames'), 0)


def ticks_of(pid):
    """Of a processor that it has used, in hundredths of a second."""
    words = harness.read_text(f'/proc/{pid}/stat').rpartition(')')[2].split()
    return int(words[11]) + int(words[12])


@case('samples of a process that runs already, and of short ones', timeout=60)
def sampling_more(t):
    program = newest()
    with open('busy.py', 'w') as f:
        f.write(BUSY)
    open('go', 'w').close()
    busy = subprocess.Popen([program, 'busy.py', '1000'])
    wait_until(lambda: 'python' in harness.read_text(f'/proc/{busy.pid}/maps'), what='start')
    live = t.start_trace('--python-hz', '200', '-p', str(busy.pid), '-o', 'running.gst')
    live.wait_err('stacks can be read')
    begin = ticks_of(busy.pid)
    wait_until(lambda: ticks_of(busy.pid) >= begin + 50, 60, 'half a second of a processor')
    live.interrupt()
    live.finish()
    busy.kill()
    busy.wait()
    trace = Trace('running.gst')
    t.true('samples of a running process', any((trace.stack(s) or [['', '', 0]])[0][1] == 'hot' for s in trace.samples))
    # Short, and yet as long as it takes to find an interpreter on a full machine.
    short = 'for i in range(15000000): pass'
    t.trace('--python-hz', '500', '-o', 'short.gst', command=['sh', '-c', f'for i in 1 2 3; do {program} -c "{short}"; done'])
    trace = Trace('short.gst')
    named = {trace.threads[s['thread']]['process'] for s in trace.samples
             if (trace.stack(s) or [['', '', 0]])[-1] == ['<string>', '<module>', 1]}  # fmt: skip
    t.equal('short processes with named samples', len(named), 3)


@case('the summary by Python line', timeout=60)
def by_line(t):
    program = newest()
    done, marks, _ = run(t, program, ['plain', 'threads'], options=('--python-at', 'alloc', '--python-hz', '99'))
    lines = {(x['function'], x['line']): x for x in done.summary['python_lines']}
    mine = [x for k, x in lines.items() if k[0] == 'mark' and x['allocs']]
    t.equal('lines of cudaMalloc', len(mine), 1)
    t.equal('allocations of the line', mine[0]['allocs'], len(marks))
    t.equal('bytes of the line', mine[0]['bytes'], sum(m['number'] for m in marks))
    row = done.function('cudaMalloc')
    t.equal('host time of the line', mine[0]['call_ns'], row['total_ns'])
    done, _, _ = run(t, program, ['plain'], options=('--python-at', 'alloc', '--python-filter', '*/python_target.py'))
    t.true('a file that is passed over', not any(x['allocs'] and x['file'].endswith('/python_target.py') and x['function'] == 'plain'
                                                for x in done.summary['python_lines']), done.summary['python_lines'])  # fmt: skip
    run(t, program, ['plain'], options=('--python-at', 'alloc', '--format', 'table', '--summary', 'table.txt'))
    t.match('table', r'(?s)by Python line.*python_target\.py:\d+ +mark', harness.read_text('table.txt'))


STEPS = '''
import torch
a = torch.ones(64, 64)
def multiply(x):
    return torch.mm(x, x)
for i in range(20):
    b = multiply(a)
    c = a.relu()
'''


WAITS = '''
import json, os, select, sys, threading, time
while not os.path.exists('go'):
    time.sleep(0.01)
lock, spent = threading.Lock(), {}
def timed(f, *args):
    began = time.monotonic()
    f(*args)
    spent[f.__name__] = time.monotonic() - began
def sleeps():
    time.sleep(0.8)
def polls(r):
    select.select([r], [], [], 0.7)
def reads(r):
    os.read(r, 1)
def locked():
    lock.acquire()
def child():
    os.waitpid(pid, 0)
def writes():
    for i in range(20):
        os.pwrite(file, b'x' * 65536, 0)
        os.fsync(file)
def spins():
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        pass
r, w = os.pipe()
timed(sleeps)
timed(polls, r)
threading.Timer(0.6, os.write, (w, b'x')).start()
timed(reads, r)
lock.acquire()
threading.Timer(0.5, lock.release).start()
timed(locked)
pid = os.fork()
if not pid:
    time.sleep(0.4)
    os._exit(0)
timed(child)
file = os.open('written', os.O_RDWR | os.O_CREAT)
timed(writes)
other = threading.Thread(target=spins)
other.start()
timed(spins)
other.join()
print(json.dumps(spent))
'''


def account_waits(run, pid=None):
    """What threads of one process waited, by the account; of all Python threads when it has several."""
    return sum(part['ns'] for thread in run.summary['account']['threads'] if pid in (None, thread['pid'])
               for part in thread['components'] if part['component'] not in ('cpu', 'operator', 'cuda_call', 'gpu_wait'))  # fmt: skip


def parts_of_account(run):
    parts = collections.Counter()
    for thread in run.summary['account']['threads']:
        parts.update({part['component']: part['ns'] for part in thread['components']})
    return dict(parts)


def causes_of_lines(run):
    causes = collections.Counter({'bare': run.summary['python_bare_wait_ns'], 'many': run.summary['python_many_wait_ns']})
    for x in run.summary['python_lines']:
        causes.update(x.get('waits', {}))
    return dict(causes)


def line_waits(run):
    s = run.summary
    return sum(x['wait_ns'] for x in s['python_lines']) + s['python_bare_wait_ns'] + s['python_many_wait_ns']


def traced_when_known(t, command, *options, env=None):
    return when_known(t.start_trace('--layer', 'python', *options, command=command, env=env))


@case('lines that wait: how long and for what, beside the program\'s own clock', timeout=400)
def waits(t):
    wanted = {'sleeps': 'sleep', 'polls': 'poll', 'reads': 'pipe', 'locked': 'lock', 'child': 'child', 'writes': 'disk'}
    with open('waits.py', 'w') as f:
        f.write(WAITS)
    found = [p for p in pythons.interpreters() if not p.is_free_threaded]
    for p in (found[0], found[-1]):
        run = traced_when_known(t, [p.program, 'waits.py'])
        spent = json.loads(run.out.splitlines()[-1])
        sums = collections.defaultdict(collections.Counter)
        for x in run.summary['python_lines']:
            sums[x['function']].update(x.get('waits', {}))
        # A wait may have no line after many functions were read for the first time.
        many = run.summary['python_many_wait_ns'] / 1e9
        for function, cause in wanted.items():
            got, all_of_it = sums[function][cause] / 1e9, sum(sums[function].values()) / 1e9
            # What the thread ran, or waited for a processor, is the rest; the clock is read in the call.
            if function != 'writes':
                # One that was woken may wait for the interpreter's lock, which the one that woke it has.
                rest = (sums[function]['runqueue'] + min(sums[function]['gil'], sums[function][cause])) / 1e9
                t.true(f'{p}: {function} waits: {cause}', spent[function] - got < 0.1 + many + rest, (got, spent[function], sums[function], many))
            t.true(f'{p}: {function} waits no longer than it took', all_of_it <= spent[function] + 0.001,
                   (all_of_it, spent[function]))  # fmt: skip
        writes = sums['writes']
        t.true(f'{p}: writes wait for the disk', writes['disk'] > 0.5 * (sum(writes.values()) - writes['runqueue']) > 0,
               writes)  # fmt: skip
        # Two threads share the interpreter's lock: one of them waits for it at each moment.
        spins = sums['spins']
        t.true(f'{p}: the interpreter\'s lock', spins['gil'] > 1e8 and spins['gil'] > 5 * spins['lock'], spins)
        t.true(f'{p}: a lock of the program is no lock of the interpreter', sums['locked']['gil'] < 0.5e9 * spent['locked'], sums['locked'])
        lines, account = line_waits(run), account_waits(run)
        by_cause, by_part = causes_of_lines(run), parts_of_account(run)
        t.true(f'{p}: waits of lines are those of the account', abs(lines - account) < 0.03 * account, (lines, account, by_cause, by_part))
        polls = next(x for x in run.summary['python_lines'] if x['function'] == 'polls')
        threads = run.summary['account']['threads']
        main = next(x for x in threads if x['critical'])
        t.equal(f'{p}: wall time of the one thread that polls', polls['wall_ns'],
                max(x['wall_ns'] for x in threads if x['pid'] == x['tid'] == main['pid']))  # fmt: skip


SWITCHES = '''
import os, sys, time
while not os.path.exists('go'):
    time.sleep(0.01)
a, b = os.pipe(), os.pipe()
if not os.fork():
    os.close(a[1])
    while os.read(a[0], 1):
        os.write(b[1], b'x')
    os._exit(0)
def switch(depth):
    if depth:
        return switch(depth - 1)
    for i in range(int(sys.argv[1])):
        os.write(a[1], b'x')
        os.read(b[0], 1)
switch(int(sys.argv[2]))
'''


@case('a thread that switches without end: what is not looked at is said', timeout=120)
def many_waits(t):
    # So many frames that reading them 100,000 times is above a hundredth of the time on any machine.
    run = traced_when_known(t, [newest(), '-c', SWITCHES, '100000', '60'])
    lines, account = line_waits(run), account_waits(run)
    t.true('waits without a line', run.summary['python_many_wait_ns'] > 0, run.summary['python_many_wait_ns'])
    t.true('waits of lines are those of the account', abs(lines - account) < 0.03 * account, (lines, account))


@case('waits that find no room in the ring: their time is said, without a line', timeout=120)
def waits_without_room(t):
    run = traced_when_known(t, [newest(), '-c', SWITCHES, '100000', '0'], '--ring-size', '64K')
    t.true('stacks are lost', run.summary['lost'].get('python', {}).get('stacks', 0) > 0, run.summary['lost'])
    t.equal('waits of lines, and of none, are those of the account', line_waits(run), account_waits(run))


SHORT = '''
import os, time
while not os.path.exists('go'):
    time.sleep(0.01)
def sleeps():
    time.sleep(0.02)
    os._exit(0)
for i in range(1500):
    if i >= 16:
        os.wait()
    if not os.fork():
        sleeps()
for i in range(16):
    os.wait()
'''


@case('short processes: the last wait of each has its line', timeout=120)
def last_waits(t):
    # Where the kernel shows every switch these are equal anyway. Where it passes over one now and then, it
    # is the last of a process in some of so many.
    run = traced_when_known(t, [newest(), '-c', SHORT])
    account = parts_of_account(run)
    # The time of a sleep runs from its call on: one that finds no processor until then sleeps less, or not at all.
    t.true('all of them sleep, or wait for a processor meanwhile', account['sleep'] + account['runqueue'] > 1500 * 0.02 * 1e9, account)
    t.equal('waits of lines, and of none, are those of the account', line_waits(run), account_waits(run))


IMPORTS = '''
import os, sys, time
while not os.path.exists('go'):
    time.sleep(0.01)
import site_packages_of_test
import mine
'''


@case('imports of installed packages are one row', timeout=120)
def imports(t):
    os.makedirs('lib/site-packages/slow')
    for name, text in (('lib/site-packages/site_packages_of_test.py', 'import slow, time\ntime.sleep(0.3)\n'),
                       ('lib/site-packages/slow/__init__.py', 'import time\ntime.sleep(0.3)\n'),
                       ('mine.py', 'import time\ntime.sleep(0.2)\n'), ('main.py', IMPORTS)):  # fmt: skip
        with open(name, 'w') as f:
            f.write(text)
    run = traced_when_known(t, [newest(), 'main.py'], env={'PYTHONPATH': os.path.abspath('lib/site-packages')})
    t.equal('exit status', run.status, 0)
    slept = collections.Counter()
    for x in run.summary['python_lines']:
        slept[os.path.basename(x['file'])] += x.get('waits', {}).get('sleep', 0)
    # Reading many functions for the first time may use up what a thread may spend: then a wait has no line.
    imported, many = slept['(imports)'], run.summary['python_many_wait_ns']
    t.true('imports', imported >= 0.3e9 and imported + many >= 0.6e9, (slept, many))
    t.equal('lines in what is imported', slept['__init__.py'] + slept['site_packages_of_test.py'], 0)
    t.true('a module of the program has its own line', slept['mine.py'] >= 0.2e9, slept)


def ways(path):
    """{(process, thread, frame...): ns} of a .folded file."""
    with open(path) as f:
        return {tuple(line.rsplit(' ', 1)[0].split(';')): int(line.rsplit(' ', 1)[1]) for line in f}


@case('flame graphs of wall time: waiting beside running, by cause, with the sums of lines and account', timeout=120)
def wall_flames(t):
    with open('waits.py', 'w') as f:
        f.write(WAITS)
    run = traced_when_known(t, [newest(), 'waits.py'], '-o', 'wall.folded', '-o', 'wall.svg', '-o', 'wall.gst')
    all_ways = ways('wall.folded')
    waiting = {way: ns for way, ns in all_ways.items() if way[-1].startswith('[waiting: ')}
    t.equal('waiting, to the nanosecond that of the lines', sum(waiting.values()), line_waits(run))
    account = account_waits(run)
    t.true('waiting is that of the account', abs(sum(waiting.values()) - account) < 0.03 * account, (sum(waiting.values()), account))
    running = sum(ns for way, ns in all_ways.items() if way not in waiting)
    t.equal('running is the samples', running, sum(s['period_ns'] for s in Trace('wall.gst').samples))
    for function, cause in (('sleeps', 'sleep'), ('polls', 'poll'), ('locked', 'lock'), ('child', 'child')):
        lines = [x for x in run.summary['python_lines'] if x['function'] == function]
        got = sum(ns for way, ns in waiting.items() if way[-1] == f'[waiting: {cause}]' and way[-2].startswith(function + ' ('))
        t.equal(f'{function} waits: {cause}', got, sum(x['waits'].get(cause, 0) for x in lines))
        t.true(f'{function} waits at all', got > 1e8, got)
    with open('wall.svg') as f:
        page = f.read()
    t.match('a colour of its own', r'class="f k9 v\d"[^>]*><title>\[waiting: sleep\]\n', page)
    t.match('heading', 'Wall time of Python threads', page)
    for what, want in (('samples', running), ('wall', sum(all_ways.values()))):
        t.tool('report', '--flame', what, '-o', 'again.folded', 'wall.gst', status=0)
        t.equal(f'of the file: {what}', sum(ways('again.folded').values()), want)


TEXTS = """
import os, sys, threading, time
while not os.path.exists('go'):
    time.sleep(0.01)
def sleeps():
    time.sleep(0.3)    # as long as that
def spins():
    end = time.process_time() + 0.3
    while time.process_time() < end: s = 1 + 1
def steers():
    time.sleep(0.2)  # \x1b[31m \u202e red
def calls():
    sleeps()
calls()
spins()
steers()
pid = os.fork()
if not pid:
    def of_the_copy():
        time.sleep(0.25)
    of_the_copy()
    time.sleep(2)  # whose it is, is read from the process while it lives
    os._exit(0)
os.waitpid(pid, 0)
"""


def texts(run, file):
    """{line: text} of what the summary knows of this file."""
    return {x['line']: x.get('source') for x in run.summary['python_lines'] if x['file'] == os.path.abspath(file)}


@case('the text of lines: what the file says, for each line that ran, waited or called', timeout=120)
def line_texts(t):
    with open('texts.py', 'w') as f:
        f.write(TEXTS)
    written = TEXTS.splitlines()
    for program in (list(interpreters().values())[i] for i in (0, -1)):
        # Where the machine stands still in the midst of a reading, that costs what a thread may spend for some time: its
        # waits then have no line, which is told.
        for _ in range(5):
            # Python 3.8 keeps the name as it is given.
            run = traced_when_known(t, [program, os.path.abspath('texts.py')])
            if not run.summary['python_many_wait_ns']:
                break
        got = texts(run, 'texts.py')
        for what in ('time.sleep(0.3) ', 'while time.process_time()', 'time.sleep(0.2)', '    sleeps()', 'time.sleep(0.25)', 'waitpid'):
            number = next(i for i, x in enumerate(written) if what in x) + 1
            t.equal(f'{program}: line {number}', got.get(number), written[number - 1].strip())
        t.equal(f'{program}: no other text', {n: x for n, x in got.items() if x not in (None, written[n - 1].strip())}, {})
    # More rows than the shortest summary has: a busy machine adds some, and on it the line waits for a processor, too.
    for _ in range(5):
        traced_when_known(t, [sys.executable, os.path.abspath('texts.py')], '--by', 'line', '--top', '100', '--format', 'table',
                          '--width', '1000', '--summary', 'table.txt')
        text = harness.read_text('table.txt')
        if 'in waits without a stack' not in text:
            break
    t.match('text beside its line', r'texts\.py:6 \[[^]]*\bsleep\b[^]]*\]  sleeps +time\.sleep\(0\.3\)    # as long as that\n', text)
    t.match('a text cannot steer the terminal', r'time\.sleep\(0\.2\)  # \\x1b\[31m \ufffd red\n', text)


def copies(n):
    """A program with n copies of itself by fork, each of which has a line of its own."""
    each = 'if not os.fork():\n    time.sleep(0.03)\n    time.sleep(2.5)\n    os._exit(0)\ntime.sleep(0.01)\n'
    return 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.01)\n' + each * n + 'for _ in range(%d): os.wait()\n' % n


@case('lines of many copies by fork have their text, however soon the copy runs', timeout=60)
def texts_of_copies(t):
    with open('copies.py', 'w') as f:
        f.write(copies(200))
    got = texts(traced_when_known(t, ['/usr/bin/python3', os.path.abspath('copies.py')]), 'copies.py')
    written = copies(200).splitlines()
    t.equal('texts', {n: x for n, x in got.items() if x != written[n - 1].strip()}, {})
    t.true('most copies were seen', sum('2.5' in (x or '') for x in got.values()) > 190, len(got))


CHANGES = """
import os, sys, time
while not os.path.exists('go'):
    time.sleep(0.01)
if 'write' in sys.argv:
    with open(__file__, 'a') as f:
        f.write('# more')
if 'move' in sys.argv:
    os.utime('older.py', (0, 0))
    os.rename('older.py', __file__)
if 'fork' in sys.argv:
    with open(__file__, 'a') as f:
        f.write('# more')
    time.sleep(0.1)
    if os.fork():
        os.wait()
        os._exit(0)
time.sleep(0.3)
"""


@case('the text of a file that has changed since is not shown', timeout=120)
def changed_texts(t):
    program, line = newest(), CHANGES.splitlines().index('time.sleep(0.3)') + 1
    for what in ('', 'write', 'move', 'fork'):
        for name, text in (('changes.py', CHANGES), ('older.py', CHANGES.replace('0.3', '1e3'))):
            with open(name, 'w') as f:
                f.write(text)
        run = traced_when_known(t, [program, os.path.abspath('changes.py'), what])
        got = texts(run, 'changes.py')
        t.true(f'{what}: the line waits', line in got, got)
        t.equal(f'{what}: its text', got.get(line), None if what else 'time.sleep(0.3)')


ELSEWHERE = """
import os, sys, time
print('ready', flush=True)
while not os.path.exists('go'):
    time.sleep(0.01)
time.sleep(0.4)
print('slept', flush=True)
time.sleep(float(sys.argv[1]))
"""


@case('the text is of the file that the process saw: mounts, roots, rights, no files', timeout=180)
def texts_of_others(t):
    program, file = newest(), os.path.abspath('elsewhere.py')
    line = ELSEWHERE.splitlines().index('time.sleep(0.4)') + 1
    with open(file, 'w') as f:
        f.write(ELSEWHERE.replace('0.4', '12345'))
    with open('hidden.py', 'w') as f:
        f.write(ELSEWHERE)
    # Another file stands at that name in its mounts: once it has ended nobody knows it.
    inside = ['unshare', '-m', 'sh', '-c', f'mount --bind hidden.py {file}; exec {program} {file} "$0"']
    got = texts(traced_when_known(t, [*inside, '0']), file)
    t.equal('in mounts that are gone', (line in got, got.get(line)), (True, None))
    live = subprocess.Popen([*inside, '1000'], stdout=subprocess.PIPE, text=True)
    live.stdout.readline()
    trace = t.start_trace('--layer', 'python', '-p', str(live.pid))
    wait_until(lambda: trace.proc.poll() is not None or 'stacks can be read' in trace.err_text(), what='the interpreter')
    open('go', 'w').close()
    t.equal('it has waited', live.stdout.readline(), 'slept\n')
    os.unlink('go')
    trace.interrupt()
    got = texts(trace.finish(), file)
    live.kill()
    live.wait()
    t.equal('in mounts of a process that lives', got.get(line), 'time.sleep(0.4)')

    # The names of files are the program's own: what its user may not read is not shown to who traces it.
    os.chmod('.', 0o755)
    secret = os.path.abspath('secret.txt')
    with open(secret, 'w') as f:
        f.write('the password is 1234\n')
    os.mkfifo('fifo')
    naming = 'import sys, time; exec(compile("time.sleep(0.3)", sys.argv[1], "exec"))'
    # The text of a line that nobody saw is not shown either: this one waits until it can be seen.
    waiting = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.01)\n' + naming
    for mode, user, shown in ((0o600, 0, True), (0o644, 65534, True), (0o600, 65534, False)):
        os.chmod(secret, mode)
        os.utime(secret)
        time.sleep(0.05)
        as_user = ['setpriv', '--reuid', str(user), '--regid', str(user), '--clear-groups', '/usr/bin/python3', '-c', waiting]
        run = traced_when_known(t, [*as_user, secret])
        got = texts(run, secret)
        t.equal(f'text of a file of mode {mode:o} for user {user}', got.get(1), 'the password is 1234' if shown else None)
        t.true('the line is there', 1 in got, got)
    for odd in ('fifo', '.', '/dev/zero', '/proc/self/status'):
        run = t.trace('--layer', 'python', command=['/usr/bin/python3', '-c', naming, os.path.abspath(odd)])
        t.equal(f'text of {odd}', texts(run, odd).get(1), None)
    # Who has looked at gpuscope's own status before has given it a time before the program began.
    looked = 'cat /proc/$PPID/status >/dev/null; sleep 0.1; /usr/bin/python3 -c "$0" /proc/self/status; true'
    run = t.trace('--layer', 'python', command=['sh', '-c', looked, naming])
    t.equal('text of a status that was read before', texts(run, '/proc/self/status').get(1), None)


@case('slow operators know their line', timeout=120)
def slow_operators(t):
    if not harness.has_module('/usr/bin/python3', 'torch'):
        raise Skip('PyTorch is not installed here (python3-torch)')
    with open('steps.py', 'w') as f:
        f.write(STEPS)
    run = t.trace('--layer', 'torch', '--op', 'mm,relu', '--python-at', 'slow-op=1ns', '-o', 'slow.gst',
                  command=['/usr/bin/python3', 'steps.py'])  # fmt: skip
    trace = Trace('slow.gst')
    places = collections.Counter(tuple((os.path.basename(a), b, n) for a, b, n in trace.stack(c) or []) for c in trace.calls)
    t.equal('stacks', dict(places), {(('steps.py', 'multiply', 5), ('steps.py', '<module>', 7)): 20,
                                     (('steps.py', '<module>', 8),): 20})  # fmt: skip
    lines = {x['line']: x['slow_operators'] for x in run.summary['python_lines'] if x['slow_operators']}
    t.equal('slow operators by line', lines, {5: 20, 8: 20})


@case('an interpreter that cannot be read is named, the rest goes on', timeout=60)
def unreadable(t):
    old = glob.glob(os.path.expanduser('~/.pyenv/versions/3.[67].*/bin/python3'))
    if not old:
        raise Skip('no Python older than 3.8 is installed here')
    sleeps = f'{old[-1]} -c "import time; time.sleep(0.3)"'
    done = t.trace('--python-hz', '99', '--', 'sh', '-c', f'{sleeps}; {sleeps}', status=None)
    t.equal('it says so once', sum('Python' in (a['reason'] or '') for a in done.summary['attach_failures']), 1)


@case('a library that is being mapped: its interpreter is known when the whole of it is there', timeout=60)
def mapped_slowly(t):
    libraries = glob.glob('/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0') + glob.glob(os.path.expanduser('~/.pyenv/versions/3.1*/lib/libpython3.1*.so.1.0'))
    program = t.path('slow_loader')
    if not libraries or not shutil.which('gcc'):
        raise Skip('no gcc, or no library of Python')
    subprocess.run(['gcc', '-O1', '-o', program, os.path.join(HERE, 'slow_loader.c')], check=True)
    for library in libraries:
        live = t.start_trace('--python-hz', '99', command=[program, library, 'stay'])
        try:
            live.wait_err(r'process \d+: Python 3\.\d+ at 0x[0-9a-f]+, stacks can be read\n', 20)
        finally:
            live.interrupt()
            live.finish()
        t.equal(f'{library}: taken for another one', re.findall('.*runs a Python.*', live.err_text()), [])


@case('wrong words for stacks are told in a line', needs=None)
def usage(t):
    for args in (['--python-hz', '0'], ['--python-hz', 'x'], ['--python-hz', '20000'], ['--python-at', 'lunch'],
                 ['--python-at', 'slow-op=x'], ['--python-at', 'launch', '--summary-only'], ['--python-filter', '']):  # fmt: skip
        run = t.tool('trace', *args, '--', 'true', status=2)
        t.equal('lines', len(run.err.strip().splitlines()), 1)


if __name__ == '__main__':
    main()
