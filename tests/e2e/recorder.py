#!/usr/bin/env python3
"""The agent's flight recorder: the last seconds of chosen jobs, written when something happens, on request and when the agent is killed."""

import glob
import json
import os
import re
import stat
import subprocess
import sys

import harness
from agent_help import Agent, config_text
from harness import case, main, wait_until
from keep_help import Caller, keeps_attributes, records


class Job:
    """keep.py's program as a process of a job of this name, which it claims."""

    def __init__(self, t, name, command=None):
        self.caller = Caller(t)
        self.proc = subprocess.Popen(command or self.caller.command, env=t.envs({'SLURM_JOB_ID': name, 'SLURM_JOBID': name}))
        if not command:
            wait_until(lambda: self.caller.calls(), 30, 'a call')


WHO = {'Authorization': 'Bearer s3cret'}


def start(t, pattern, more='', what='gpus=1', **keys):
    """(agent that records the job, its folder of files, its control socket)."""
    folder, socket, tokens = t.path('recorder'), t.path('socket'), t.path('tokens')
    keys = {'jobs': f'"{pattern}"', 'directory': folder, 'keep': '1m', **keys}
    with open(tokens, 'w', encoding='utf-8') as f:
        f.write('s3cret\n')
    os.chmod(tokens, 0o600)
    text = config_text(control=socket, more=more + 'recorder:\n' + ''.join(f'  {k}: {v}\n' for k, v in keys.items()))
    a = Agent(t, text.replace('http:\n', f'http:\n  token_file: {tokens}\n'), what=what)
    wait_running(a, 1)
    return a, folder, socket


def wait_running(a, n):
    wait_until(lambda: a.metrics(WHO).get('gpuscope_agent_recorder_running') == n, 60, f'{n} programs')


def files(folder):
    return sorted(glob.glob(f'{folder}/*.gst'))


def save(t, socket, *what):
    return subprocess.run([harness.gpuscope, 'agent', 'ctl', '--control', socket, 'save-trace', *what], capture_output=True, text=True, env=t.envs(), timeout=60)


def n_calls(path):
    return sum(r['kind'] == 'CALL' for r in records(path))


def wait_file(t, socket, folder, n, what=()):
    """A file on request that has calls in it: until then it is asked for again."""

    def look():
        done = save(t, socket, *what)
        assert done.returncode == 0, done
        wait_until(lambda: len(files(folder)) > len(before), 30, 'a file')
        new = set(files(folder)) - set(before)
        before[:] = files(folder)
        found.extend(p for p in new if whole(p) and n_calls(p) > n)
        return bool(found)

    before, found = files(folder), []
    wait_until(look, 60, f'a file with {n} calls')
    return found[-1]


def whole(path):
    try:
        return any(r['kind'] == 'END' for r in records(path))
    except Exception:
        return False


@case('on request, by the socket and the API: a file of the job, readable, for its owner alone; nothing before, and nothing at its end', timeout=60, beside='jobs')
def on_request(t):
    job, other = Job(t, '991101'), Job(t, '991102')
    a, folder, socket = start(t, '991101*')
    t.equal('without the token', a.get('/api/v1/recorder/all', method='POST')[0], 401)
    t.equal('none yet', files(folder), [])
    path = wait_file(t, socket, folder, 20)
    t.match('its name', r'/job-991101[^/]*\.\d{8}T\d{6}\.\d{3}Z\.gst$', path)
    t.equal('modes', (stat.S_IMODE(os.stat(path).st_mode), stat.S_IMODE(os.stat(folder).st_mode)), (0o600, 0o700))
    summary = json.loads(t.tool('report', '--format', 'json', path, status=0).out)
    t.equal('whose calls', {p['pid'] for p in summary['processes']}, {job.proc.pid})
    last = max(r['start_ns'] for r in records(path) if r['kind'] == 'CALL')
    first = min(r['start_ns'] for r in records(path) if r['kind'] == 'CALL')
    t.equal('each call of that time', sum(first <= a and b <= last for a, b in job.caller.calls()),
            sum(r['kind'] == 'CALL' and first < r['start_ns'] < last for r in records(path)))  # fmt: skip
    n = len(files(folder))
    status, _, body = a.get('/api/v1/recorder/all', WHO, 'POST')
    t.equal('by the API', (status, body), (200, b'ok: 1 recording will be written\n'))
    wait_until(lambda: len(files(folder)) > n, 30, 'a file')
    wait_until(lambda: len(json.loads(a.get('/api/v1/recorder', WHO)[2])['files']) > n, 30, 'the document')
    document = json.loads(a.get('/api/v1/recorder', WHO)[2])
    t.equal('what is recorded', [re.sub(r'\D.*', '', j['id']) for j in document['jobs']], ['991101'])
    t.equal('of a job that is not recorded', (save(t, socket, 'job:991102').returncode, a.get('/api/v1/recorder/job:991102', WHO, 'POST')[0]), (4, 404))
    n = len(files(folder))
    for j in (job, other):
        j.caller.end()
        j.proc.wait(timeout=30)
    wait_running(a, 0)
    t.equal('nothing more at its end', len(files(folder)), n)
    t.equal('none failed', a.metrics(WHO)['gpuscope_agent_recorder_failed_total'], 0)
    a.stop()


@case('kill -9 of a process of the job, and of the agent: written', timeout=60, beside='jobs')
def killed(t):
    job = Job(t, '991103')
    a, folder, socket = start(t, '991103*')
    wait_file(t, socket, folder, 20)
    n = len(files(folder))
    job.proc.kill()
    job.proc.wait()
    wait_until(lambda: len(files(folder)) > n and whole(files(folder)[-1]), 30, 'a file of the death')
    last = max(r['start_ns'] for r in records(files(folder)[-1]) if r['kind'] == 'CALL')
    t.true('its last call is in it', last >= job.caller.calls()[-1][0], last)
    wait_running(a, 0)
    job = Job(t, '991103')
    wait_running(a, 1)
    wait_file(t, socket, folder, 20)
    n = len(files(folder))
    calls = job.caller.calls()
    a.proc.kill()
    a.proc.wait()
    wait_until(lambda: len(files(folder)) > n and whole(files(folder)[-1]), 30, 'a file of the end of the agent')
    last = max(r['start_ns'] for r in records(files(folder)[-1]) if r['kind'] == 'CALL')
    t.true('up to then', last >= calls[-1][0], (last, calls[-1]))
    job.caller.end()
    job.proc.wait(timeout=30)


@case("a finding of the agent's: written", timeout=60, beside='jobs')
def at_finding(t):
    job = Job(t, '991105')
    a, folder, _ = start(t, '991105*', more='findings:\n  enabled: true\n  settings: idle.window_samples=4\n', what='gpus=2,util=90')
    t.equal('none yet', files(folder), [])
    a.pretend(f'gpus=2,idle,held=2048,pids={job.proc.pid}')
    wait_until(lambda: a.metrics(WHO).get('gpuscope_agent_findings_total{detector="idle"}') == 1, 30, 'a finding')
    wait_until(lambda: files(folder) and whole(files(folder)[0]), 30, 'a file')
    t.match('of the job', r'/job-991105[^/]*\.gst$', files(folder)[0])
    if keeps_attributes(t):
        name = 'user.gpuscope.reason'  # comes after the file
        wait_until(lambda: name in os.listxattr(files(folder)[0]), 30, 'a reason')
        t.equal('why', os.getxattr(files(folder)[0], name), b'finding: idle of idle_gpu')
    job.caller.end()
    job.proc.wait(timeout=30)
    a.stop()


@case('files are bounded; a job that is not there, a folder of others, and wrong keys', timeout=60, beside='jobs')
def bounded(t):
    job = Job(t, '991104')
    a, folder, socket = start(t, '991104*', max_files=2)
    wait_file(t, socket, folder, 1)
    with open(f'{folder}/mine.gst', 'w', encoding='utf-8'):
        pass
    for _ in range(3):
        before = files(folder)
        t.equal('asked', save(t, socket).returncode, 0)
        wait_until(lambda: set(files(folder)) - set(before), 30, 'a file')
    wait_until(lambda: len(files(folder)) == 3, 30, 'two files, and that of others')
    t.true('files of others stay', f'{folder}/mine.gst' in files(folder), files(folder))
    a.stop()
    job.caller.end()
    job.proc.wait(timeout=30)
    conf = t.path('bad.yaml')
    os.mkdir(t.path('open'))
    os.chmod(t.path('open'), 0o777)
    for text, says in ((f'recorder:\n  jobs: "*"\n  directory: {t.path("open")}\n', 'others can write'), ('recorder:\n  keep: 1ms\n', 'keep'), ('recorder:\n  max_jobs: 0\n', 'max_jobs')):
        with open(conf, 'w', encoding='utf-8') as f:
            f.write(config_text(more=text))
        done = t.tool('agent', '-c', conf, env={'FAKE_NVML': 'gpus=1'}, timeout=30)
        t.true(says, done.status != 0 and says in done.err, done.err[-300:])


if __name__ == '__main__':
    sys.exit(main())
