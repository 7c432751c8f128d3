#!/usr/bin/env python3
"""gpuscope job --detach: a recorder ends with what it records, and what it has is in its files before it ends."""

import json
import os
import signal
import subprocess
import sys

from harness import case, main, read_text, wait_until
from job_help import PARTIAL, again, end, kill, rest, rows
from page_help import Head
from slurm_help import Slurm

WRITES, BYTES = 1000, 117
# Each write is a system call of its own; then it waits for a word.
WRITER = f"""
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
for _ in range({WRITES}): os.write(fd, b"x" * {BYTES})
sys.stdin.readline()
"""
# Spends a second when the recorder has it.
SPENDER = """
import os, sys, time
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
end = time.process_time() + 1
while time.process_time() < end: pass
"""


def writer(t):
    """A program that waits before and after it has written."""
    p = subprocess.Popen(['sh', '-c', 'read go; exec "$@"', 'sh', sys.executable, '-c', WRITER, t.path('written')],
                         stdin=subprocess.PIPE)  # fmt: skip
    return p


def go(p):
    p.stdin.write(b'go\n')
    p.stdin.flush()


def record(t, *args, status=0, env=None):
    return t.tool('job', *args, '--detach', t.path('pid'), '-o', t.path('r.json'), '-o', t.path('r.txt'), status=status, env=env)


def report(t):
    try:
        with open(t.path('r.json')) as f:
            return json.load(f)
    except FileNotFoundError:
        return {'monitoring_session': {}, 'jobs': []}


def written(found):
    return found['jobs'] and found['jobs'][0]['syscall_breakdown'].get('write', 0) or 0


def number(t):
    return int(read_text(t.path('pid')).split()[0])


def has_ended(t):
    return read_text(t.path('pid')).startswith('ended ')


@case('a recorder that is killed leaves what it has counted', timeout=120)
def killed(t):
    p = writer(t)
    record(t, '-p', str(p.pid))
    go(p)
    wait_until(lambda: written(report(t)) >= WRITES and os.path.exists(t.path('r.txt')), 60, 'the writes in what is saved')
    os.kill(number(t), signal.SIGKILL)
    stopped = t.tool('job', '--stop', t.path('pid'), status=1)
    t.match('said', 'the recorder was killed; the report is the last one it saved', stopped.err)
    found = report(t)
    t.equal('unfinished', found['monitoring_session'].get('complete'), False)
    t.match('in the table too', r'unfinished +saved while the recorder ran', read_text(t.path('r.txt')))
    t.equal('its bytes', [found['jobs'][0]['metrics']['write_bytes'], os.path.getsize(t.path('written'))], [WRITES * BYTES] * 2)
    p.stdin.close()
    p.wait()


@case('a recorder ends with the processes that it records; --stop has its status later', timeout=120)
def with_tree(t):
    p = rest()
    record(t, '-p', str(p.pid))
    end(p)
    wait_until(lambda: has_ended(t), 60, 'the end of the recorder')
    t.true('whole', 'complete' not in report(t)['monitoring_session'] and report(t)['jobs'][0]['ended'], report(t)['monitoring_session'])
    t.equal('quiet', t.tool('job', '--stop', t.path('pid'), status=0).err, '')
    t.tool('job', '--stop', t.path('pid'), status=1)
    record(t, '-p', str(p.pid), status=4)


@case('a recorder ends some time after its launcher', timeout=120)
def with_launcher(t):
    launcher = rest()
    record(t, '-j', '4711', '--parent-pid', str(launcher.pid))
    end(launcher)
    wait_until(lambda: has_ended(t), 90, 'the end of the recorder')
    gone = record(t, '-j', '4711', '--parent-pid', str(launcher.pid), status=4)
    t.match('said', f'--parent-pid: no process {launcher.pid} here', gone.err)


@case('a job of which Slurm knows nothing: its recorder ends after --linger', timeout=120)
def unknown(t):
    with Slurm(t) as s:
        record(t, '-j', '424242', '--linger', '1s', env={'SLURM_CONF': s.conf})
        wait_until(lambda: has_ended(t), 60, 'the end of the recorder')
        stopped = t.tool('job', '--stop', t.path('pid'), status=4)
        t.match('why', r'no process was here for \d+ s, and Slurm does not report the job as running \(--linger\)', stopped.err)


@case('a job that has yet to begin is waited for, and its recorder ends with it', timeout=240)
def held(t):
    with Slurm(t) as s:
        job = s.submit(f"exec {sys.executable} -c '{SPENDER}' {t.path('go')}\n", '-n1', '--hold')
        record(t, '-j', str(job), '--linger', '1s', env={'SLURM_CONF': s.conf})
        # Longer than --linger, by the recorder's own clock: it has asked, and was answered.
        start = os.times().elapsed
        wait_until(lambda: os.times().elapsed - start > 12, 60, 'some seconds')
        t.true('it waits', not has_ended(t), read_text(t.path('pid')))
        s.run('scontrol', 'release', str(job))
        wait_until(lambda: report(t)['jobs'], 60, 'a saved report')
        with open(t.path('go'), 'w'):
            pass
        s.wait_state(job, 'COMPLETED', 90)
        wait_until(lambda: has_ended(t), 120, 'the end of the recorder')
        t.equal('quiet', t.tool('job', '--stop', t.path('pid'), status=0).err, '')
        j = report(t)['jobs'][0]
        t.equal('whose', (j['job_id'], j['ended']), (str(job), True))
        t.true('what it did', 0.9 <= j['thread_seconds']['cpu'] <= 3, j['thread_seconds'])


@case('what a recorder had when it was killed is delivered once, by whoever delivers next', timeout=200)
def to_head(t):
    head = Head(t)
    kill(head)  # it is away while the recorder lives
    link = ('--head', head.grpc, '--spool', t.path('spool'), '--machine-id', 'worker')
    p = writer(t)
    t.tool('job', '-p', str(p.pid), '--detach', t.path('pid'), *link, status=0)
    go(p)

    def saved():
        found = [os.path.join(d, f) for d, _, files in os.walk(t.path('spool')) for f in files if f.endswith('.saved')]
        return found and read_text(found[0])

    wait_until(lambda: saved() and f'"write": {WRITES}' in saved(), 60, 'the writes in what is saved')
    os.kill(number(t), signal.SIGKILL)
    t.tool('job', '--stop', t.path('pid'), status=1)
    t.equal('it waits', len(os.listdir(t.path('spool'))), 1)
    again(head)
    other = rest()
    for _ in range(2):
        t.tool('job', '-p', str(other.pid), '-d', '500ms', *link, status=0, timeout=120)
    t.equal('nothing waits', os.listdir(t.path('spool')), [])
    found = [r for r in rows(head) if r['job'] == f'tree of {p.pid}']
    t.equal('once', [r['state'] for r in found], [PARTIAL])
    t.equal('what it did', [written(r['document']) for r in found], [WRITES])
    t.equal('the others', sorted(r['state'] for r in rows(head) if r['job'] != f'tree of {p.pid}'), [PARTIAL] * 2)
    end(other)
    p.stdin.close()
    p.wait()
    head.stop()


if __name__ == '__main__':
    main(beside='jobs')
