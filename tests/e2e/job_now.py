#!/usr/bin/env python3
"""What a job does now, for gpuscope job and for the agent: one that stops working is reported by what it does since, not by
its mean since the start, and both name the same class for it while it runs."""

import json
import os
import re
import signal
import subprocess
import sys

import harness
from agent_help import Agent, config_text
from alert_help import Webhook
from harness import case, main, read_text, wait_until
from slurm_help import Slurm

JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'work', 'jobs')
# Computes for some seconds of processor time, says so, and waits for a lock that it holds itself.
HANGS = '''
import threading, time
while time.process_time() < 3:
    pass
open("%s", "w").close()
lock = threading.Lock()
lock.acquire()
lock.acquire()
'''
# A mean since the start falls below this when the job has hung for a thousand times as long as it computed.
STOPPED = ('  for: 0s\n  interval: 200ms\n  cooldown: 0s\n  log: {enabled: false}\n'
           '  rules:\n    - {name: stopped, subject: job, condition: "cpus_busy < 0.001", message: "{cpus_busy} processors"}\n')


@case('gpuscope job --alerts: a job that computes and then hangs is reported by what it does since', timeout=300)
def hang(t):
    hook, path, hung = Webhook(), t.path('alerts.yaml'), t.path('hung')
    with open(path, 'w', encoding='utf-8') as f:
        f.write('alerts:\n' + f'  webhook: {{url: "{hook.url}"}}\n  window: 4s\n' + STOPPED)
    job = subprocess.Popen([sys.executable, '-c', HANGS % hung])
    live = subprocess.Popen([harness.gpuscope, 'job', '-p', str(job.pid), '--alerts', path, '-o', t.path('r.json')],
                            stderr=open(t.path('job.err'), 'wb'))  # fmt: skip
    try:
        wait_until(lambda: os.path.exists(hung), 120, 'the computing')
        hook.wait(1, 60)
        t.equal('reported', hook.told()[0], ('firing', 'stopped', f'tree of {job.pid}'))
        live.send_signal(signal.SIGINT)
        t.equal(f'exit status ({read_text(t.path("job.err"))})', live.wait(60), 0)
    finally:
        for p in job, live:
            p.kill()
            p.wait()
    with open(t.path('r.json'), encoding='utf-8') as f:
        whole = json.load(f)['jobs'][0]['figures']
    t.true('the report is of the whole time', whole['cpus_busy'] > 0.001, whole)


@case('the agent: the same of a job of Slurm', timeout=400, beside='jobs')
def hang_of_agent(t):
    with Slurm(t) as s:
        hook, path, hung = Webhook(), s.path('work', 'hangs.py'), s.path('work', 'hung')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(HANGS % hung)
        a = Agent(t, config_text(more='jobs:\n  interval: 500ms\n  window: 4s\nalerts:\n' + f'  webhook: {{url: "{hook.url}"}}\n' + STOPPED),
                  what='gpus=1', env={'SLURM_CONF': s.conf})  # fmt: skip
        job = s.submit(f'exec /usr/bin/python3 {path}\n', '-n1', user='games')
        wait_until(lambda: os.path.exists(hung), 120, 'the computing')
        # Jobs of other tests beside this one stop, too.
        wait_until(lambda: ('firing', 'stopped', str(job)) in hook.told(), 60, 'the message')
        a.stop()


@case("the agent's window is not that of gpuscope job", needs=None)
def window_key(t):
    with open(t.path('agent.yaml'), 'w', encoding='utf-8') as f:
        f.write(config_text(more='alerts:\n  window: 4s\n'))
    done = subprocess.run([harness.gpuscope, 'agent', '-c', t.path('agent.yaml'), '--check-config'], capture_output=True, text=True, timeout=60)
    t.equal('exit status', done.returncode, 2)
    t.match('says why', r"window is for gpuscope job; the agent uses jobs.window", done.stderr)


def class_by_agent(a, job):
    found = [re.search(r'class="([^"]*)"', k) for k in a.metrics() if k.startswith('gpuscope_job_class{') and f'jobid="{job}"' in k]
    return found[0].group(1) if found else ''


@case('one job has one class while it runs: beside parked threads, fed by a slow process, started by srun', timeout=600, alone='jobs')
def same_class(t):
    with Slurm(t) as s:
        load, big = s.path('work', 'job_load'), s.path('work', 'big')
        subprocess.run(['gcc', '-O1', '-pthread', '-o', load, os.path.join(JOBS, 'job_load.c')], check=True)
        subprocess.run(['dd', 'if=/dev/urandom', f'of={big}', 'bs=1M', 'count=256'], check=True, capture_output=True)
        os.chmod(big, 0o644)
        a = Agent(t, config_text(more='jobs:\n  interval: 500ms\n  window: 6s\n'), what='gpus=1', env={'SLURM_CONF': s.conf})
        held = f'exec /usr/bin/python3 {JOBS}/held.py'
        for name, wanted, script in (
            # What it does without helpers that are parked, and without workers that have nothing.
            ('helpers with little to do', ('CPU-bound', 'CPU-starved'), f'{held} pool\n'),
            ('a slow process feeds it', ('Input-bound',), f'{held} starved\n'),
            ('disks by srun, beside parked threads', ('IO-bound', 'IO-bound-intensive'), f'srun -n1 --overlap {load} direct {big} 8\n'),
        ):
            job = s.submit(script, '-n2', user='root')
            s.wait_state(job, 'RUNNING')
            wait_until(lambda: class_by_agent(a, job), 60, 'the agent knows it')
            words, seen = [harness.gpuscope, 'job', '-j', str(job), '-d', '6', '--format', 'json'], []
            # For a while other programs may keep it from the processors, which then is what it is short of.
            for _ in range(3):
                done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**t.envs({'SLURM_CONF': s.conf})})
                j = json.loads(done.stdout)['jobs'][0]
                # Of the same time: the agent's window is as long.
                seen.append((j['classification']['type'], class_by_agent(a, job), j['figures']['cpu_taken_percent']))
                if seen[-1][0] in wanted and seen[-1][0] == seen[-1][1]:
                    break
            else:
                t.fail(f'{name}: by gpuscope job, by the agent, and what others took: {seen}')
            s.run('scancel', str(job))
            wait_until(lambda: 'RUNNING' not in s.state(job), 60, 'the end of the job')
        a.stop()


if __name__ == '__main__':
    main()
