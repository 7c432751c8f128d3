#!/usr/bin/env python3
"""Secrets in arguments of processes: no outlet has them, unless --commands=full asks for it, and --no-args shows no arguments at all."""
import gzip
import json
import os
import subprocess

import harness
from agent_help import Agent
from harness import case, main, wait_until
from top_help import nvml

HERE = os.path.dirname(os.path.abspath(__file__))
SECRETS = ('S3CRET-A', 'S3CRET-B', 'S3CRET-C', 'S3CRET-D')
ARGUMENTS = ('--api-key=S3CRET-A', '--password', 'S3CRET-B', 'https://me:S3CRET-C@host/x', '--site-pin=S3CRET-D', '--rank=0')
KNOWN = SECRETS[:3]  # what the fourth is only a site knows


def shell(t):
    """A program with these arguments that makes calls."""
    return ['sh', '-c', '"$0" cudaMalloc=3 cudaLaunchKernel=5 >/dev/null', os.path.join(harness.fake, 'fake_app'), *ARGUMENTS]


def sleeper(*before):
    """One with them that waits."""
    return subprocess.Popen([*before, 'sh', '-c', 'sleep 100 & echo; wait', 'train', *ARGUMENTS], stdout=subprocess.PIPE)


def end(proc):
    subprocess.run(['pkill', '-P', str(proc.pid)], check=False)
    proc.kill()
    proc.communicate()


def lacks(t, what, text, secrets=KNOWN):
    text = text if isinstance(text, bytes) else text.encode()
    t.equal(f'{what}: secrets', [secret for secret in secrets if secret.encode() in text], [])


def files_of(t, recording):
    """Each file that report makes of it, unpacked."""
    for suffix in ('json', 'json.gz', 'csv', 'pftrace', 'svg', 'folded', 'otlp', 'html'):
        path = t.path(f'out.{suffix}')
        t.tool('report', '-q', recording, '-o', path)
        if os.path.exists(path):
            with open(path, 'rb') as f:
                data = f.read()
            yield suffix, gzip.decompress(data) if suffix == 'json.gz' else data
    yield 'records', subprocess.run(['/usr/bin/python3', f'{HERE}/../gst.py', recording], capture_output=True, check=False).stdout


@case('trace: summaries, recordings, all that is made of them, and the log', timeout=200)
def traces(t):
    recording = t.path('run.gst')
    run = t.tool('trace', '-v', '--log-level', 'debug', '-o', recording, '--summary', t.path('s.json'), '--json', '--nvml', nvml(), '--', *shell(t), status=0, timeout=120)
    lacks(t, 'what trace prints', run.out + run.err)
    summary = open(t.path('s.json')).read()
    lacks(t, 'summary', summary)
    t.match('with the rest', r'--api-key=\*\*\* --password \*\*\* https://me:\*\*\*@host/x', json.loads(summary)['command'])
    for form in ('table', 'json', 'csv', 'yaml'):
        lacks(t, form, t.tool('report', recording, '-v', '--format', form, '--by', 'process', status=0).out)
    for suffix, data in files_of(t, recording):
        t.true(f'{suffix} is not empty', len(data) > 100, data)
        lacks(t, suffix, data)


@case('trace --no-args: no arguments in any of them; --commands=full: all', timeout=200)
def no_arguments(t):
    recording = t.path('none.gst')
    run = t.tool('trace', '-o', recording, '--no-args', '--json', '--nvml', nvml(), '--', *shell(t), status=0, timeout=120)
    lacks(t, 'printed', run.out + run.err, (*SECRETS, '--rank=0', '--api-key'))
    for suffix, data in files_of(t, recording):
        lacks(t, suffix, data, (*SECRETS, '--rank=0', '--api-key'))
    full = t.tool('trace', '--commands=full', '--summary', t.path('full.json'), '--json', '--nvml', nvml(), '--', *shell(t), status=0, timeout=120)
    t.equal('where it is asked for', full.status, 0)
    t.true('all of it', all(secret in json.load(open(t.path('full.json')))['command'] for secret in SECRETS), '')


@case('job, top and gpu', needs=None, timeout=120)
def commands(t):
    proc = sleeper()
    proc.stdout.readline()
    env = {'FAKE_NVML': f'gpus=1,pids={proc.pid}'}
    for words in (('job', '-p', str(proc.pid), '-d', '0.3'), ('top', '--once', '-a', '-p', str(proc.pid)), ('gpu', '--processes')):
        for form in ('table', 'json', 'csv'):
            text = t.tool(*words, '--format', form, '--nvml', nvml(), env=env, status=0).out
            lacks(t, f'{words[0]} {form}', text)
            text = t.tool(*words, '--format', form, '--no-args', '--nvml', nvml(), env=env, status=0).out
            lacks(t, f'{words[0]} {form} --no-args', text, (*SECRETS, '--rank=0'))
    shown = t.tool('gpu', '--json', '--nvml', nvml(), env=env, status=0).out
    t.true('the process is there, with the rest', '--rank=0' in shown and '***' in shown, shown)
    recording = t.path('top.gst')
    t.tool('top', '--once', '-n', '2', '-i', '0.1', '-a', '--record', recording, '--nvml', nvml(), env=env, status=0)
    lacks(t, 'what top records', subprocess.run(['/usr/bin/python3', f'{HERE}/../gst.py', recording], capture_output=True, check=False).stdout)
    t.tool('job', '-p', str(proc.pid), '-d', '0.3', '-o', t.path('job.html'), '--nvml', nvml(), env=env, status=0)
    lacks(t, 'the page of a job', open(t.path('job.html'), 'rb').read())
    end(proc)


@case('agent: metrics, page and API', needs=None, timeout=120)
def served(t):
    proc = sleeper()
    proc.stdout.readline()
    agent = Agent(t, what=f'gpus=1,pids={proc.pid}')
    path = '/api/v1/processes'
    wait_until(lambda: str(proc.pid) in agent.get(path)[2].decode(), 60, 'the process is seen')
    for where in (path, '/metrics', '/api/v1/nodes', '/api/v1/jobs', '/api/v1/gpus', '/'):
        lacks(t, where, agent.get(where)[2], (*SECRETS, '--rank=0'))
    agent.stop()
    end(proc)


@case("a site's own names, with * and ?, in a mount namespace", timeout=120)
def own_words(t):
    words = t.path('secret-words')
    with open(words, 'w') as f:
        f.write('# names\n--site-*\n')
    proc = sleeper()
    proc.stdout.readline()
    show = [harness.gpuscope, 'gpu', '--json', '--nvml', nvml()]
    inside = 'mkdir -p /etc/gpuscope 2>/dev/null; mount -t tmpfs none /etc/gpuscope && cp "$0" /etc/gpuscope/secret-words && exec "$@"'
    done = subprocess.run(['unshare', '-m', 'sh', '-c', inside, words, *show], capture_output=True, text=True, check=True, env=t.envs({'FAKE_NVML': f'gpus=1,pids={proc.pid}'}), timeout=60)
    lacks(t, 'with a pattern of the site', done.stdout, SECRETS)
    t.true('the rest stays', '--rank=0' in done.stdout, done.stdout)
    end(proc)


if __name__ == '__main__':
    main()
