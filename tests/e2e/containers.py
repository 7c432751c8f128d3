#!/usr/bin/env python3
"""gpuscope in a container with process ids of its own: calls, processes and choices are those that it sees there."""

import json
import os
import re
import subprocess
import sys

import harness
from harness import Skip, case, main, read_text, wait_until

CONTAINER = ['unshare', '--mount', '--pid', '--fork', '--mount-proc']


def need_container():
    done = subprocess.run([*CONTAINER, 'true'], capture_output=True, text=True)
    if done.returncode:
        raise Skip(f'no namespace can be made: {done.stderr.strip()}')


def trace_inside(t, *options, command=None, status=0, env=None, inside=()):
    summary = t.path(f'inside{t.n_files}.json')
    t.n_files += 1
    words = [harness.gpuscope, 'trace', '--format', 'json', '--summary', summary, *options]
    words += ['--', *inside, *command] if command else []
    done = subprocess.run([*CONTAINER, *words], capture_output=True, text=True, env=t.envs(env), timeout=120)
    t.equal(f'status of {options} ({done.stderr[-300:]})', done.returncode, status)
    return harness.Run(done.returncode, done.stdout, done.stderr, summary)


def probes_are_in_place(err):
    text = read_text(err) if os.path.exists(err) else ''
    return all(re.search(rf'{harness.fake}/{name}[^ ]*: [0-9]+ probes', text) for name in ('libcudart', 'libnccl'))


@case('a command and its children, added up and as events')
def command(t):
    need_container()
    for options in ([], ['-o', t.path('t.csv')], ['--disable-feature=task-storage'], ['--disable-feature=session']):
        run = trace_inside(t, *options, command=t.app('--threads=3', '--fork=2', 'cudaMalloc=31', 'ncclCommInitRank=3'))
        t.equal('lines', len(run.lines), 3)
        t.counts(run, what=str(options))
        # fake_app says which ids it has itself.
        t.equal('processes', {p['pid'] for p in run.summary['processes']}, {x['pid'] for x in run.lines})
        if not options:
            t.equal('threads', {x['tid'] for p in run.summary['processes'] for x in p['threads']},
                    {tid for x in run.lines for tid in x['threads']})  # fmt: skip
    rows = read_text(t.path('t.csv')).splitlines()
    place = rows[0].split(',').index('pid')
    t.true('ids of rows', {int(r.split(',')[place]) for r in rows[1:]} <= {x for x in range(1, 100)}, rows[1])


@case('a process by its id there, and its children')
def by_pid(t):
    need_container()
    for extra in ([], ['--follow']):
        tag = str(len(extra))
        go, err, out, summary = (t.path(x + tag) for x in ('go', 'err', 'out', 'summary.json'))
        script = f'''{" ".join(t.app('--fork=2', f'--go-file={go}', 'cudaMalloc=31'))} > {out} & pid=$!
            until grep -q libnccl /proc/$pid/maps; do sleep 0.02; done
            {harness.gpuscope} trace -v --format json --summary {summary} --duration 600 {" ".join(extra)} -p $pid 2> {err} &
            tracer=$!; wait $pid; kill -INT $tracer; wait $tracer'''
        run = subprocess.Popen([*CONTAINER, 'sh', '-c', script], env=t.env)
        wait_until(lambda: probes_are_in_place(err), 30, 'probes')
        open(go, 'w').close()
        run.wait(60)
        lines = [json.loads(x) for x in read_text(out).splitlines()]
        first = next(x for x in lines if x['role'] == 'main')
        t.true('ids of a container', first['pid'] < 100, first['pid'])
        t.counts(harness.Run(0, '', '', summary), lines if extra else [first], what=str(extra))


@case('all of the container, and nothing outside of it; containers inside of it too')
def everything(t):
    need_container()
    out, done = t.path('out'), t.path('done')
    other = t.start_app('cudaMalloc=1009')
    inner = ' '.join([*CONTAINER, *t.app('cudaMemset=37', 'cudaMalloc=3')])
    script = f'''{" ".join(t.app(f'--go-file={t.path("go")}', 'cudaMalloc=31'))} > {out}; {inner} >> {out}; touch {done}
                 sleep 100'''
    summary, err = t.path('s.json'), t.path('err')
    words = f'{harness.gpuscope} trace -v -a --format json --summary {summary} 2> {err}'
    run = subprocess.Popen([*CONTAINER, 'sh', '-c', f'''({script}) & 
        {words} & tracer=$!; until [ -e {done} ]; do sleep 0.05; done
        kill -INT $tracer; wait $tracer'''], env=t.env)  # fmt: skip
    wait_until(lambda: probes_are_in_place(err), 30, 'probes')
    other.let_go()
    other.result()
    open(t.path('go'), 'w').close()
    run.wait(60)
    t.counts(harness.Run(0, '', '', summary), [json.loads(x) for x in read_text(out).splitlines()])


@case('Python lines of launches are found')
def python_lines(t):
    need_container()
    program, go, err, summary = (t.path(x) for x in ('train.py', 'go', 'err', 'summary.json'))
    with open(program, 'w', encoding='utf-8') as f:
        f.write(f'''import ctypes, os, time
rt = ctypes.CDLL({os.path.join(harness.fake, 'libcudart.so.13')!r})
def step():
    p = ctypes.c_void_p()
    rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(64))
while not os.path.exists({go!r}):
    time.sleep(0.01)
for i in range(53):
    step()
''')
    with open(err, 'w') as f:
        run = subprocess.Popen([*CONTAINER, harness.gpuscope, 'trace', '-v', '--format', 'json', '--summary', summary, '--python-at=alloc', '--',
                                sys.executable, program], stderr=f, env=t.env)  # fmt: skip
    for words in 'stacks can be read', rf'{harness.fake}/libcudart[^ ]*: [0-9]+ probes':
        wait_until(lambda words=words: run.poll() is not None or re.search(words, read_text(err)), 30, words)
    open(go, 'w').close()
    t.equal(f'status ({read_text(err)[-300:]})', run.wait(60), 0)
    lines = {x['function']: x['allocs'] for x in harness.Run(0, '', '', summary).summary['python_lines']}
    t.equal('allocations of step()', lines.get('step'), 53)


CALLS = '''import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
if os.fork() == 0:
    for i in range(5003):
        os.getppid()
    os._exit(0)
for i in range(20011):
    os.getppid()
os.wait()
'''


def job_inside(t, name, *options, container=CONTAINER, ready=lambda: True):
    """A report of a program that makes 25,014 calls once all is in place, and ready() is true."""
    go, out, live = t.path(name + '.go'), t.path(name + '.json'), t.path(name + '.live')
    script = f'''{sys.executable} {t.path('calls.py')} {go} & pid=$!
        {harness.gpuscope} job {' '.join(options)} -r -o {out} >{live} & meter=$!
        wait $pid; ps -o pid= --ppid $meter >{out}.own; kill -TERM $meter; wait $meter'''
    run = subprocess.Popen([*container, 'sh', '-c', script], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=t.env)
    # The live table: it is measured.
    wait_until(lambda: run.poll() is not None or (os.path.exists(live) and os.path.getsize(live) and ready()), 60, 'a live table')
    with open(go, 'w', encoding='ascii'):
        pass
    errors = run.communicate(timeout=100)[1]
    t.equal(f'status ({errors[-300:]})', run.returncode, 0)
    whole = json.loads(read_text(out))
    t.equal('source', whole['monitoring_session']['sources']['syscalls'], 'counted in the kernel (eBPF)')
    own = {int(pid) for pid in read_text(out + '.own').split()}
    t.true('it has processes that read for it', own)
    t.equal('none of them is measured', [j['pids'] for j in whole['jobs'] if own & set(j['pids'])], [])
    return whole['jobs']


def cpu_seconds(pid):
    words = read_text(f'/proc/{pid}/stat').rpartition(')')[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


@case('a job there is counted by its ids: a process with its children, and everything but what is outside', timeout=240)
def job(t):
    need_container()
    with open(t.path('calls.py'), 'w', encoding='utf-8') as f:
        f.write(CALLS)
    only = job_inside(t, 'one', '-p', '$pid')[0]
    t.equal('calls of both', only['syscall_breakdown'].get('getppid'), 25014)
    outside = subprocess.Popen([sys.executable, '-c', 'while True: pass'], env=t.env)
    try:
        # With a cgroup namespace of its own there is no group that tells processes apart: all are one tree.
        for extra in ([], ['--cgroup']):
            began = cpu_seconds(outside.pid)
            jobs = job_inside(t, 'all' + ''.join(extra), container=[*CONTAINER, *extra],
                              ready=lambda began=began: cpu_seconds(outside.pid) > began + 6)  # fmt: skip
            t.equal('calls', sum(j['syscall_breakdown'].get('getppid', 0) for j in jobs), 25014)
            # The one outside took six seconds of a processor, most of them while the others were measured.
            cpu = sum(j['thread_seconds']['cpu'] for j in jobs)
            t.true(f'not that outside: {cpu} s', cpu < 2, jobs)
        t.equal('one tree', [j['job_id'] for j in jobs], ['tree of 1'])
    finally:
        outside.kill()
        outside.wait()


main()
