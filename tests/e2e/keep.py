#!/usr/bin/env python3
"""The last seconds of a trace, kept in memory: what a file of it holds against what a program says of each of its calls,
when it is written, and when none is."""

import glob
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

import harness
from harness import case, main, wait_until
from keep_help import Caller, records


def written(live, n, pattern):
    """The nth of these lines on standard error, when it is there: [file, calls, calls before, why]."""
    found = []

    def look():
        found[:] = re.findall(r'wrote (\S+\.gst): the last [^,]+, with ([\d,]+) calls \(([\d,]+) before are not in it\); (.*)', live.err_text())
        found[:] = [f for f in found if re.search(pattern, f[3])]
        return len(found) >= n

    wait_until(look, 60, f'a file for {pattern!r}')
    path, calls, before, why = found[n - 1]
    return path, int(calls.replace(',', '')), int(before.replace(',', '')), why


def check_file(t, what, path, calls, kept_s):
    """It holds the calls that ended in the last kept_s, all of them, and nothing else."""
    summary = json.loads(t.tool('report', '--format', 'json', path, status=0).out)
    found = records(path)
    session = next(r for r in found if r['kind'] == 'SESSION')
    end = next(r for r in found if r['kind'] == 'END')
    begin_ns, end_ns = session['start_ns'], end['end_ns']
    t.equal(f'{what}: the time', (end_ns - begin_ns, summary['duration_ns']), (int(kept_s * 1e9),) * 2)
    surely = sum(a >= begin_ns and b <= end_ns for a, b in calls)
    perhaps = sum(b >= begin_ns and a <= end_ns for a, b in calls)
    n = sum(f['calls'] for f in summary['functions'])
    # One may have ended and not be reported yet.
    t.true(f'{what}: calls', 10 < surely - 1 <= n <= perhaps <= surely + 2, f'{n} of {surely} to {perhaps}')
    t.true(f'{what}: all ended in it', all(r['start_ns'] + r['dur_ns'] >= begin_ns for r in found if r['kind'] == 'CALL'))
    lost = {k: v for layer in summary['lost'].values() for k, v in layer.items() if k not in harness.NOT_LOST}
    t.equal(f'{what}: nothing else is missing', set(lost), {'before_kept'})
    t.match(f'{what}: since when', r'whole from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC on', json.dumps(summary['lost_details']))
    return n, lost['before_kept'], summary


@case('the file of the end: the calls of the last seconds exactly, how many came before, and a report of it', timeout=60)
def at_end(t):
    caller = Caller(t)
    live = t.start_trace('--keep-last', '1.5s', '-o', 'run.gst', command=caller.command)
    caller.wait(3)
    t.equal('nothing yet', glob.glob('*.gst'), [])
    caller.end()
    run = live.finish()
    t.equal('status', run.status, 0)
    path, n, before, why = written(live, 1, 'tracing ended')
    t.equal('files', (path, glob.glob('*.gst')), ('run.gst', ['run.gst']))
    got, lost, _ = check_file(t, 'the end', path, caller.calls(), 1.5)
    t.equal('as it said', (n, before), (got, lost))
    t.equal('together all', n + before, run.calls('cudaMalloc'))
    t.match('for people', r'calls before the part of the run that this file holds', t.tool('report', path, status=0).out)


@case('SIGUSR1: a file of then, with its time in its name, for its owner alone; tracing goes on', timeout=60)
def by_signal(t):
    caller = Caller(t)
    proc = subprocess.Popen(caller.command, env=t.envs())
    wait_until(lambda: caller.calls(), 30, 'a call')
    live = t.start_trace('--keep-last', '1s', '-o', 'run.gst', '-p', str(proc.pid))
    live.wait_err(r'libcudart\S*: \d+ probes')
    for i in (1, 2):
        caller.wait(1.5)
        live.interrupt(signal.SIGUSR1)
        path, n, _, _ = written(live, i, 'SIGUSR1')
        t.match('its name', r'^run\.\d{8}T\d{6}\.\d{3}Z\.gst$', path)
        t.equal('its mode', stat.S_IMODE(os.stat(path).st_mode), 0o600)
        got, _, summary = check_file(t, f'file {i}', path, caller.calls(), 1)
        t.equal(f'file {i}: as it said', n, got)
        t.match('why', 'SIGUSR1', summary['end_reason'])
    caller.end()
    proc.wait(timeout=30)
    t.equal('status', live.finish().status, 0)
    t.equal('and one of the end', (len(glob.glob('run.2*.gst')), os.path.exists('run.gst')), (2, True))


@case('a hang: written while it lasts, with the hang in it', timeout=60)
def at_hang(t):
    live = t.start_trace('--keep-last', '30s', '--keep-on', 'hang', '-o', 'run.gst', '--hang-after', '3s', command=[f'{harness.fake}/stuck', 'sleep', '60000'])
    path, _, _, why = written(live, 1, 'rank 2 ')
    t.equal('the run goes on', live.proc.poll(), None)
    t.match('why', r'rank 2 \(process \d+\) has not arrived at collective 22', why)
    hangs = json.loads(t.tool('report', '--format', 'json', path, status=0).out)['hangs']
    t.equal('in it', [(h['kind'], h['collective'], h['has_arrived']) for h in hangs], [('waits', 22, False)])
    live.interrupt(signal.SIGTERM)
    live.finish()
    t.equal('nothing else', glob.glob('*.gst'), [path])


# Steps that take five times as long from the 300th on, until there is a file of that name. argv: the library, the file.
BECOMES_SLOW = """
import ctypes, os, sys, time
cuda = ctypes.CDLL(sys.argv[1])
block = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
i = 0
while not os.path.exists(sys.argv[2]):
    for _ in range(20):
        cuda.cudaMemsetAsync(block, 0, ctypes.c_size_t(64), None)
    cuda.cudaStreamSynchronize(None)
    time.sleep(0.01 if i < 300 else 0.05)
    i += 1
"""


@case('a finding: steps become longer, and a file has what was before and after', timeout=60)
def at_finding(t):
    command = [sys.executable, '-c', BECOMES_SLOW, f'{harness.fake}/libcudart.so.13', t.path('stop')]
    live = t.start_trace('--keep-last', '5m', '--keep-on', 'finding', '-o', 'run.gst', command=command)
    path, n, _, why = written(live, 1, 'finding: ')
    t.note(why)
    open(t.path('stop'), 'w').close()
    t.equal('the run went on', live.finish().status, 0)
    t.true('calls of both', n > 300 * 21, n)
    t.equal('readable', t.tool('explain', path, status=0).status, 0)


@case('a process that fails: written, unless it is one that the chosen one started', timeout=90)
def at_failure(t):
    code = 'import ctypes, subprocess, sys, time\ncuda = ctypes.CDLL(sys.argv[1])\n' \
           'for _ in range(100): cuda.cudaDeviceSynchronize(); time.sleep(0.01)\nsubprocess.run(["false"])\nsys.exit(int(sys.argv[2]))'  # fmt: skip
    library = f'{harness.fake}/libcudart.so.13'
    for status in (3, 0):
        command = [sys.executable, '-c', code, library, str(status)]
        run = t.trace('--keep-last', '1m', '--keep-on', 'death', '-o', f'command{status}.gst', command=command, status=status)
        t.equal(f'files of a command with status {status}', len(glob.glob(f'command{status}*.gst')), int(status > 0))
        if status:
            t.match('why', r'process \d+ ended with exit status 3', run.err)
        proc = subprocess.Popen(command, env=t.envs())
        live = t.start_trace('--keep-last', '1m', '--keep-on', 'death', '--follow', '-o', f'process{status}.gst', '-p', str(proc.pid))
        live.wait_err(r'libcudart\S*: \d+ probes')
        proc.wait(timeout=30)
        if status:
            live.wait_err('wrote process3')
        else:
            time.sleep(2)
        live.interrupt()
        run = live.finish()
        t.equal(f'files of a process with status {status}', len(glob.glob(f'process{status}*.gst')), int(status > 0))
        if status:
            t.match('why', rf'process {proc.pid} ended with exit status 3', run.err)


@case('kill -9 of a traced process: written; an end in order: nothing', timeout=60)
def at_death(t):
    for how in (signal.SIGKILL, None):
        caller = Caller(t)
        proc = subprocess.Popen(caller.command, env=t.envs())
        wait_until(lambda: caller.calls(), 30, 'a call')
        live = t.start_trace('--keep-last', '1m', '--keep-on', 'death,hang', '-o', f'run{how or 0}.gst', '-p', str(proc.pid))
        live.wait_err(r'libcudart\S*: \d+ probes')
        caller.wait(1)
        if how:
            proc.send_signal(how)
        else:
            caller.end()
        proc.wait(timeout=30)
        run = live.finish()
        t.equal('status', run.status, 0)
        files = glob.glob(f'run{how or 0}*.gst')
        t.equal(f'files of {how}', len(files), 1 if how else 0)
        if files:
            t.match('why', rf'process {proc.pid} was killed by signal 9', run.err)
            last_ns = max(r['start_ns'] for r in records(files[0]) if r['kind'] == 'CALL')
            t.true('the last call is in it', last_ns >= caller.calls()[-1][0], last_ns)


@case('a flood: memory is bounded, each call is in the file or counted as before it', timeout=60)
def flood(t):
    wanted = 200_000
    run = t.trace('--keep-last', '10m', '--keep-memory', '1M', '--ring-size', '64M', '-o', 'run.gst', command=t.app(f'cudaMemcpyAsync={wanted}'))
    summary = json.loads(t.tool('report', '--format', 'json', 'run.gst', status=0).out)
    n = sum(f['calls'] for f in summary['functions'] if f['name'] == 'cudaMemcpyAsync')
    before = summary['lost']['all'].get('before_kept', 0)
    t.match('said', r'run\.gst holds the last \S+ \S+ only: the memory \(--keep-memory\) held no more', run.err)
    t.match('in the file', 'as the memory held no more', json.dumps(summary['lost_details']))
    missing = sum(layer.get('ring_full', 0) for layer in run.summary['lost'].values())
    t.true('a part', 1000 < n < wanted, n)
    total = sum(f['calls'] for f in run.summary['functions'])
    in_file = sum(f['calls'] for f in summary['functions'])
    t.true('all are accounted for', total - missing <= in_file + before <= total, (total, missing, in_file, before))
    t.true('not more than allowed', os.path.getsize('run.gst') < 2 << 20, os.path.getsize('run.gst'))


@case('what does not go together is wrong usage', needs=None)
def usage(t):
    for words, says in (('--keep-last 5s -a', '-o FILE.gst'), ('--keep-last 5s -o a.json -a', '-o FILE.gst'), ('--keep-last 5s -o a.gst -o b.gst -a', '-o FILE.gst'),
                        ('--keep-on end -o a.gst -a', '--keep-last'), ('--keep-memory 8M -o a.gst -a', '--keep-last'),
                        ('--keep-last 5s --max-size 1G -o a.gst -a', '--max-size'), ('--keep-last 0 -o a.gst -a', '--keep-last'),
                        ('--keep-last 5s --keep-memory 1K -o a.gst -a', '--keep-memory'), ('--keep-last 5s --keep-on never -o a.gst -a', '--keep-on')):  # fmt: skip
        t.match(words, re.escape(says), t.tool('trace', *words.split(), status=2).err)
    t.equal('nothing was written', glob.glob('*.gst'), [])


if __name__ == '__main__':
    main()
