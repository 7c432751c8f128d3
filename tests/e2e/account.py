#!/usr/bin/env python3
"""Where the wall time of traced threads went. Every program here measures itself what it did; what is
compared holds on a machine of any speed: a thread that waits for something may also wait for a
processor (runqueue), and nothing else."""

import collections
import json
import sys

from harness import Skip, case, has_module, main

PRELUDE = '''
import json, os, select, socket, sys, threading, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
begin = time.monotonic_ns()
def done(**more):
    print(json.dumps({'pid': os.getpid(), 'elapsed': time.monotonic_ns() - begin, **more}))
    sys.stdout.flush()
    os._exit(0)
'''

# Each waits for some 0.3 s for what its name says.
WAITS = {
    'sleep': 'time.sleep(0.3)',
    'lock': 'l = threading.Lock(); l.acquire(); threading.Timer(0.3, l.release).start(); l.acquire()',
    'pipe': 'r, w = os.pipe(); threading.Timer(0.3, os.write, (w, b"x")).start(); os.read(r, 1)',
    'poll': 'e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN)\n'
            'threading.Timer(0.3, os.write, (w, b"x")).start(); e.poll()',
    'network': 's = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname())\n'
               'a, _ = s.accept(); threading.Timer(0.3, a.send, (b"x",)).start(); c.recv(1)',
    'child': 'p = os.fork()\nif p == 0:\n    time.sleep(0.3); os._exit(0)\nos.waitpid(p, 0)',
}

# Looks at a socket now and then, and nothing comes: it waits for work. Beside it one that gets its answer in time.
LOOKS = '''
import ctypes
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
libc = ctypes.CDLL(None)
fds = (ctypes.c_int * 2)(s.fileno(), select.POLLIN)
ten_ms = (ctypes.c_long * 2)(0, 10_000_000)
since = time.monotonic()
'''
LOOKING = {
    'poll': LOOKS + 'while time.monotonic() < since + 0.5: libc.poll(fds, 1, 10)',
    'ppoll': LOOKS + 'while time.monotonic() < since + 0.5: libc.ppoll(fds, 1, ten_ms, None)',
}
ANSWERED = LOOKS + '''
def answer():
    while time.monotonic() < since + 0.5:
        time.sleep(0.01); s.sendto(b"x", s.getsockname())
threading.Thread(target=answer).start()
while time.monotonic() < since + 0.5:
    if libc.poll(fds, 1, 1000) == 1: s.recv(1)
'''


def parts(thread):
    return {p['component']: p['ns'] for p in thread['components']}


def first_thread(run, pid):
    return [x for x in run.summary['account']['threads'] if x['tid'] == pid][0]


def check_sums(t, run):
    for thread in run.summary['account']['threads']:
        t.equal(f'cells of {thread["tid"]}', sum(c['ns'] for c in thread['cells']), thread['wall_ns'])
        t.equal(f'parts of {thread["tid"]}', sum(parts(thread).values()), thread['wall_ns'])


def python(t, program, *options, **more):
    run = t.trace(*options, command=[sys.executable, '-c', PRELUDE + program], **more)
    said = run.lines[0] if run.lines else {}
    t.true('the program ran', said, run.err[-300:])
    return run, said


def add_wait_case(part, program):
    @case(f'a program that waits: {part}', timeout=120)
    def wait(t):
        run, said = python(t, f'{program}\ndone()')
        thread = first_thread(run, said['pid'])
        got = parts(thread)
        check_sums(t, run)
        # It began before it looked at the clock, and ended after.
        t.true('all of its time', thread['wall_ns'] >= said['elapsed'], f'{thread["wall_ns"]} of {said["elapsed"]}')
        # Preempted on the way into its wait a thread is ready, not waiting.
        t.true(f'0.3 s of {part}', got.get(part, 0) > 0 and got[part] + got.get('runqueue', 0) >= 250e6, got)
        for other in set(WAITS) - {part}:
            t.true(f'no {other}', got.get(other, 0) < got[part], got)
        t.nothing_lost(run)


for name, text in WAITS.items():
    add_wait_case(name, text)


@case('a poll of a socket whose time passes without data waits for work, not for the network', timeout=120)
def looking(t):
    for name, program in LOOKING.items():
        run, said = python(t, program + '\ndone()')
        got = parts(first_thread(run, said['pid']))
        check_sums(t, run)
        t.true(f'{name}: polls', got.get('poll', 0) + got.get('runqueue', 0) >= 400e6 and got.get('poll', 0) > 10 * got.get('network', 0), got)


@case('a poll of a socket that data ends waits for the network', timeout=120)
def answered(t):
    run, said = python(t, ANSWERED + '\ndone()')
    got = parts(first_thread(run, said['pid']))
    t.true('network', got.get('network', 0) + got.get('runqueue', 0) >= 350e6 and got['network'] > 10 * got.get('poll', 0), got)


@case('processor time is what the kernel counts for the thread', timeout=120)
def processor(t):
    # The thread's clock began before exec, which the tracer does not see: what stood on it when the program began is
    # subtracted. What the kernel did for pages that were missing is a part of its own.
    run, said = python(t, 'before = time.thread_time_ns()\nspin(1)\ndone(cpu=time.thread_time_ns() - before)')
    got = parts(first_thread(run, said['pid']))
    t.true('cpu', got['cpu'] + got.get('fault', 0) >= 0.99 * said['cpu'], f'{got} of {said}')
    t.true('not more than there was', got['cpu'] <= first_thread(run, said['pid'])['wall_ns'], got)


@case('parked threads are idle, and the one that works sets the pace', timeout=120)
def parked(t):
    run, said = python(t, '''
gate = threading.Event()
for i in range(5):
    threading.Thread(target=gate.wait).start()
spin(0.5)
done()''')
    threads = run.summary['account']['threads']
    t.equal('threads', len([x for x in threads if x['pid'] == said['pid']]), 6)
    t.equal('idle', len([x for x in threads if x['idle']]), 5)
    t.equal('critical', [x['tid'] for x in threads if x['critical']], [said['pid']])


@case('a launcher does not set the pace, its busiest child does', timeout=120)
def launcher(t):
    run = t.trace(command=['sh', '-c', f'sleep 0.1 & {sys.executable} -c "$1"; true', 'sh', PRELUDE + 'spin(0.5); done()'])
    t.equal('critical', run.summary['account']['critical_tid'], run.lines[0]['pid'])


@case('a worker thread sets the pace where the first one only waits for it', timeout=120)
def worker(t):
    run, said = python(t, '''
def work():
    global tid
    tid = threading.get_native_id()
    spin(0.7)
w = threading.Thread(target=work); w.start(); w.join()
done(tid=tid)''')
    first = first_thread(run, said['pid'])
    if not first['idle']:
        t.note(f'the first thread ran too much of the time: {parts(first)}')
        return
    t.equal('critical', run.summary['account']['critical_tid'], said['tid'])


@case('CUDA: waiting for the GPU is time inside of calls that wait', timeout=120)
def gpu_wait(t):
    run = t.trace(command=t.app('cudaStreamSynchronize=150', 'cudaLaunchKernel=3000', 'cudaMemcpyAsync=50'))
    check_sums(t, run)
    thread = first_thread(run, run.summary['account']['critical_tid'])
    got = parts(thread)
    t.equal('launches', thread['launches'], run.calls('cudaLaunchKernel'))
    waited = run.function('cudaStreamSynchronize')['total_ns']
    # Both are made of the same calls; the account knows the switches between them too.
    t.true('waited', abs(got.get('gpu_wait', 0) - waited) <= 0.01 * waited + 1e6, f'{got} of {waited}')
    others = sum(f['total_ns'] for f in run.summary['functions'] if f['name'] != 'cudaStreamSynchronize')
    in_cuda = sum(c['ns'] for c in thread['cells'] if c['inside'] == 'cuda')
    t.true('in calls', in_cuda <= 1.01 * others + 1e6 and in_cuda > 0, f'{in_cuda} of {others}')


OPERATORS = PRELUDE + '''
import torch
torch.set_num_threads(1)
a = torch.rand(700, 700)
in_operators = 0
begin = time.monotonic_ns()
for _ in range(20):
    before = time.thread_time_ns()
    torch.mm(a, a)
    in_operators += time.thread_time_ns() - before
spin(0.3)
done(ns=in_operators)
'''


@case('PyTorch: time in operators is theirs, also where spans are asked for', timeout=240)
def operators(t):
    python_path = '/usr/bin/python3'
    if not has_module(python_path, 'torch'):
        raise Skip('Debian\'s PyTorch is not here')
    for options in (['--layer=torch'], ['--layer=torch', '--op=aten::*']):
        run = t.trace(*options, command=[python_path, '-c', OPERATORS])
        said = run.lines[0] if run.lines else {}
        t.true('the program ran', said, run.err[-300:])
        check_sums(t, run)
        got = parts(first_thread(run, said['pid'])).get('operators', 0)
        # Its own figure has the calls' Python on top; the import runs operators too.
        t.true(f'operators {options}', 0.9 * said['ns'] <= got <= 1.1 * said['ns'] + 5e7, f'{got} of {said}')


@case('a running process, from the moment it is traced', timeout=120)
def running(t):
    app = t.start_app('cudaLaunchKernel=100')
    live = t.start_trace('-p', str(app.pid))
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    app.result()
    run = live.finish()
    thread = first_thread(run, app.pid)
    check_sums(t, run)
    t.true('ended', thread['ended'])
    t.equal('launches', thread['launches'], 100)


@case('replayed it is the same; without it nothing says it was there', timeout=120)
def replayed(t):
    gst = t.path('a.gst')
    run, _ = python(t, 'time.sleep(0.1); done()', '-o', gst)
    again = json.loads(t.tool('report', gst, '--format', 'json', status=0).out)
    t.equal('account', again['account'], run.summary['account'])
    without, _ = python(t, 'done()', '--disable-feature', 'account')
    t.equal('none', without.summary['account'], None)
    t.nothing_lost(without)


@case('more threads than there is room for are counted', timeout=300)
def too_many(t):
    run, said = python(t, '''
threading.stack_size(65536)
gate = threading.Event()
threads = [threading.Thread(target=gate.wait) for i in range(4200)]
for x in threads: x.start()
done()''')
    known = len([x for x in run.summary['account']['threads'] if x['pid'] == said['pid']])
    t.equal('all are told', known + run.lost('account'), 4201)
    t.true('most have an account', known >= 4000, known)


@case('a thread that others look at while it is made has one account', timeout=300)
def made_while_walked(t):
    # Each of them walks over all threads of the machine, and marks those that it finds.
    others = [t.start_trace('-a', '--duration', '60s', '--summary-only') for _ in range(4)]
    run, said = python(t, '''
threading.stack_size(65536)
made, end = 0, time.monotonic() + 8
while time.monotonic() < end:
    threads = [threading.Thread(target=int) for i in range(8)]
    for x in threads: x.start()
    for x in threads: x.join()
    made += 8
    time.sleep(0.003)
done(made=made)''')
    known = collections.Counter(x['tid'] for x in run.summary['account']['threads'] if x['pid'] == said['pid'])
    t.equal('accounts', sum(known.values()) + run.lost('account'), said['made'] + 1)
    t.nothing_lost(run)
    for other in others:
        other.interrupt()
        t.equal('without an account, by another tracer', other.finish().lost('account'), 0)


# --- verdicts: each program has a trouble that is known by construction, or nearly has it ---

def verdict_of(t, program, status=0):
    run = t.trace(command=[sys.executable, '-c', PRELUDE + program], status=status)
    return run.summary['verdict'], run


def largest(run):
    thread = [x for x in run.summary['account']['threads'] if x['critical']][0]
    got = parts(thread)
    return max(got, key=got.get)


@case('verdict: a failure comes first', timeout=120)
def verdict_failed(t):
    for ending, status, failed in (('os.abort()', 134, True), ('sys.exit(3)', 3, False), ('done()', 0, False),
                                   ('os.fork() or os.abort(); os.wait(); sys.exit(1)', 1, True)):
        verdict, _ = verdict_of(t, f'time.sleep(1.5); {ending}', status)
        t.equal(ending, verdict['class'] == 'failed', failed)
        t.equal(f'{ending}: its status is there', f'exit status {status}' in verdict['evidence'], status != 0)


@case('verdict: a run that is too short says nothing', timeout=120)
def verdict_short(t):
    run = t.trace(command=['sleep', '0.1'])
    # On a machine without a free processor it is not short.
    thread = run.summary['account']['threads'][0]
    t.equal('class', run.summary['verdict']['class'] == 'too_short', thread['wall_ns'] < 1e9)
    t.equal('no confidence where there is no cause', run.summary['verdict']['class'] == 'too_short',
            run.summary['verdict']['confidence'] is None)


@case('verdict: sleeps', timeout=120)
def verdict_asleep(t):
    run = t.trace(command=['sleep', '1.5'])
    t.equal('class', run.summary['verdict']['class'], 'asleep')
    t.true('share', run.summary['verdict']['share'] > 0.5, run.summary['verdict'])


@case('verdict: runs, unless others have the processors', timeout=120)
def verdict_cpu(t):
    verdict, run = verdict_of(t, 'spin(1.5); done()')
    wanted = {'cpu': ('cpu_bound', 'mixed', 'cpu_starved'), 'runqueue': ('cpu_starved',)}
    t.true('class', verdict['class'] in wanted[largest(run)], verdict)


@case('verdict: waits for a lock', timeout=120)
def verdict_lock(t):
    verdict, run = verdict_of(t, '''
l = threading.Lock(); l.acquire()
threading.Thread(target=lambda: (time.sleep(2), l.release())).start()
l.acquire()
done()''')
    t.true('class', verdict['class'] in ('lock_bound', 'idle', 'asleep'), verdict)
    t.true('not the interpreter, which nothing has shown', verdict['class'] != 'gil_bound', verdict)


if __name__ == '__main__':
    main()
