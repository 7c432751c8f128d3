#!/usr/bin/env python3
"""gpuscope job on jobs of a real Slurm: by id, rank by rank, and with GPUs (of the stand-in, whose values
follow from formulas) given, used and left idle."""

import json
import os
import signal
import subprocess
import time

import harness
from agent_help import Agent, config_text, library
from harness import case, main, read_text, wait_until
from job_help import FINISHED, rows
from page_help import Head
from slurm_help import Slurm

GIB, MIB = 1 << 30, 1 << 20
OFF = 'ebpf:\n  enabled: false\n'
EXACT = 'output:\n  float_precision: -1\n'
# Each task by its rank: the third computes all the time, the others now and then.
RANKS = '''
import os, time
while True:
    end = time.monotonic() + 0.02
    while time.monotonic() < end: pass
    if os.environ["SLURM_PROCID"] != "2": time.sleep(0.4)
'''


def job(t, s, job_id, config='{}\n', seconds='3', form='json', env=None):
    path = t.path('job.yaml')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(config)
    words = ['job', '-j', str(job_id), '-d', seconds, '--format', form, '-c', path]
    run = t.tool(*words, status=0, env={'SLURM_CONF': s.conf, **(env or {})}, timeout=120)
    if form != 'json':
        return run.out
    found = json.loads(run.out)
    t.equal('one job', [j['job_id'] for j in found['jobs']], [str(job_id)])
    return found['jobs'][0], found


def start_ranks(t, s):
    path = s.path('work', 'ranks.py')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(RANKS)
    job_id = s.submit(f'srun -n4 --overlap /usr/bin/python3 {path}\n', '-n4', '-J', 'ranks', '--account=phys', user='games')
    s.wait_state(job_id, 'RUNNING')
    s.wait_tasks(5)
    return job_id


def ranks(t, config, probes):
    with Slurm(t) as s:
        job_id = start_ranks(t, s)
        j, whole = job(t, s, job_id, config, seconds='4')
        version = s.run('scontrol', '--version').stdout.split()[1]
        t.equal('version', whole['system_info']['slurm_version'], version)
        t.equal('nothing is missing', whole['monitoring_session']['lost'], None)
        t.equal('who', [j[k] for k in ('user', 'account', 'partition', 'job_name', 'cpus')], ['games', 'phys', 'debug', 'ranks', 4])
        t.equal('ranks of the step, not the script', [(r['rank'], r['step']) for r in j['ranks']], [(i, '0') for i in range(4)])
        cpu = [r['cpu_seconds'] for r in j['ranks']]
        b = j['imbalance']
        t.equal('the slow one', (b['slowest_rank'], b['of'], max(range(4), key=cpu.__getitem__)), (2, 'cpu_seconds', 2))
        # Each time is rounded to 10 ms.
        low, high = (max(cpu) - 0.006) / (sum(cpu) / 4 + 0.006), (max(cpu) + 0.006) / max(sum(cpu) / 4 - 0.006, 0.001)
        t.true('how far', low - 0.006 <= b['max_over_mean'] <= high + 0.006 and b['max_over_mean'] > 1.3, (b, cpu))
        t.match('evidence', r'^rank 2 was on processors for .* times\)', b['evidence'])
        figures = j['figures']
        t.equal('figure', figures['slowest_rank'], 2)
        t.true('in percent', abs(figures['rank_imbalance_percent'] - 100 * (b['max_over_mean'] - 1)) < 2, figures)
        if probes:
            waits = [r['wait_seconds'] for r in j['ranks']]
            t.true('the others wait', all(w > waits[2] for i, w in enumerate(waits) if i != 2), waits)
        # Advice names it, with the number.
        rules = {a['rule']: a for a in j['classification']['advice']}
        t.match('advice', r'^Rank 2 had \d+\.\d % more work', rules['ranks-out-of-step']['fact'])
        text = job(t, s, job_id, config, form='table')
        t.match('table', r'ranks +rank 2 was on processors', text)
        t.match('a line each', r'(?m)^ +3  .* on CPU', text)


@case('a job of four tasks, one of them slower: named, with evidence and advice (probes)', timeout=150)
def with_probes(t):
    ranks(t, '{}\n', True)


@case('a job of four tasks, one of them slower: named, with evidence and advice (procfs)', timeout=150, needs=None)
def without_probes(t):
    ranks(t, OFF, False)


@case('what a launcher starts in a batch script are ranks as well', timeout=150)
def launched(t):
    with Slurm(t) as s:
        path = s.path('work', 'ranks.py')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(RANKS.replace('SLURM_PROCID', 'RANK'))
        script = ''.join(f'RANK={i} LOCAL_RANK={i} WORLD_SIZE=3 /usr/bin/python3 {path} &\n' for i in range(3)) + 'wait\n'
        job_id = s.submit(script, '-n3', user='games')
        s.wait_state(job_id, 'RUNNING')
        wait_until(lambda: len(s.pids()) >= 4, 60, 'the script and its three')
        for config in ('{}\n', OFF):
            j, _ = job(t, s, job_id, config, seconds='4')
            t.equal('ranks', [(r['rank'], r['step']) for r in j['ranks']], [(i, 'batch') for i in range(3)])
            t.equal('the slow one', j['imbalance'] and j['imbalance']['slowest_rank'], 2)


# A launcher that is a task itself, as torchrun and daemons of mpirun are. Its workers are it until they have another program.
LAUNCHER = '''
import os, sys, time
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
for i in range(3):
    if os.fork() == 0:
        time.sleep(0.7)
        os.execve(sys.executable, [sys.executable, "-c", "while True: pass"],
                  {**os.environ, "RANK": str(i + 4), "LOCAL_RANK": str(i), "WORLD_SIZE": "8"})
time.sleep(600)
'''


@case('workers that are looked at before their exec, of a launcher that is a task: the workers are the ranks', timeout=200)
def launcher(t):
    with Slurm(t) as s:
        path = s.path('work', 'launcher.py')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(LAUNCHER)
        for config in ('{}\n', OFF):
            go, conf = s.path('work', f'go{len(config)}'), t.path('job.yaml')
            job_id = s.submit(f'srun -n2 --overlap /usr/bin/python3 {path} {go}\n', '-N1', '-n2', user='games')
            s.wait_state(job_id, 'RUNNING')
            s.wait_tasks(3)
            with open(conf, 'w', encoding='utf-8') as f:
                f.write(config)
            words = [harness.gpuscope, 'job', '-j', str(job_id), '-d', '8', '--format', 'json', '-c', conf]
            run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**t.env, 'SLURM_CONF': s.conf})
            time.sleep(1.5)
            open(go, 'w', encoding='ascii').close()
            (j,) = json.loads(run.communicate(timeout=120)[0])['jobs']
            t.equal('ranks', [(r['rank'], r['step']) for r in j['ranks']], [(i + 4, '0') for i in range(3)])
            t.true('each has what it did', all(r['cpu_seconds'] > 0.1 for r in j['ranks']), j['ranks'])
            s.run('scancel', str(job_id))


@case('a controller that does not answer: what is known is reported, and that something is missing', timeout=150, needs=None)
def no_controller(t):
    with Slurm(t) as s:
        job_id = start_ranks(t, s)
        number = int(read_text(s.path('slurmctld.pid')))
        os.kill(number, signal.SIGSTOP)
        try:
            j, whole = job(t, s, job_id, OFF + 'slurm:\n  command_timeout: 1\n', seconds='4')
        finally:
            os.kill(number, signal.SIGCONT)
        t.equal('known', [j['user'], j['job_name'], j['cluster']], ['games', 'ranks', 'testers'])
        t.match('told', r'Slurm did not answer [1-9]\d* of \d+ requests; unknown for jobs:.* time limits$', whole['monitoring_session']['lost'] or '')


@case("an agent's reports at a head tell ranks, and what the agent does not measure", timeout=200)
def of_agent(t):
    with Slurm(t) as s:
        head = Head(t)
        link = f'head:\n  addresses: "{head.grpc}"\n  spool: {t.path("agent-spool")}\n  machine_id: node\n  jobs_interval: 1s\n'
        a = Agent(t, config_text(more='jobs:\n  interval: 500ms\n  linger: 20s\n' + link), what='gpus=1', env={'SLURM_CONF': s.conf})
        job_id = start_ranks(t, s)

        def of_job():
            found = [r for r in rows(head) if r['job'] == str(job_id)]
            return found and found[0]

        # What is known of it grows until it is enough to compare.
        wait_until(lambda: of_job() and of_job()['document']['jobs'][0]['imbalance'], 90, 'ranks to compare')
        s.run('scancel', str(job_id))
        wait_until(lambda: of_job()['state'] == FINISHED, 90, 'its end')
        whole = of_job()['document']
        j, sources = whole['jobs'][0], whole['monitoring_session']['sources']
        t.equal('ranks of the step, not the script', [(r['rank'], r['step']) for r in j['ranks']], [(i, '0') for i in range(4)])
        t.equal('the slow one', (j['imbalance']['slowest_rank'], j['figures']['slowest_rank']), (2, 2))
        cpu = [r['cpu_seconds'] for r in j['ranks']]
        t.true('together no more than the job', 0 < sum(cpu) <= j['thread_seconds']['cpu'] * 1.001, (cpu, j['thread_seconds']))
        t.true('the others waited', all(r['wait_seconds'] > 0 for r in j['ranks'] if r['rank'] != 2), j['ranks'])
        t.equal('none is on a GPU', {r['gpu_ratio'] for r in j['ranks']}, {None})
        t.equal('and where they are from', sources['ranks'], "the agent's totals, kernel probes")
        t.match('nor launches', r'^not measured: the agent has no probes on CUDA', sources['cuda'])
        t.equal('so they are unknown', j['figures']['launches_per_second'], None)
        a.stop()
        head.stop()


def utils(n):
    """Utilisation of the stand-in's GPUs 0 and 1 in the mean, percent, at each of its first n readings."""
    return [(7 * k % 101 + (10 + 7 * k) % 101) / 2 for k in range(1, n + 1)]


@case('GPUs of a job: utilisation, memory and energy by the formulas of the stand-in', timeout=150, needs=None)
def gpus(t):
    with Slurm(t) as s:
        job_id = s.submit('sleep 3001 & sleep 3000\n', '-n1', user='games')
        s.wait_state(job_id, 'RUNNING')
        wait_until(lambda: len(sleepers(s, job_id)) == 2, 30, 'two sleepers')
        a, b = sleepers(s, job_id)
        # The k-th process is on GPU k: the job, without any given, has GPUs 0 and 1.
        env = {'LD_LIBRARY_PATH': os.path.dirname(library()), 'FAKE_NVML': f'gpus=4,board=a100,pids={a}:{b}'}
        j, whole = job(t, s, job_id, OFF + EXACT, env=env)
        f = j['figures']
        t.equal('which', (j['gpus'], j['gpus_never_used'], f['gpus'], f['gpus_idle']), ([0, 1], [], 2, 0))
        # 300 J each between two readings.
        n = round(f['gpu_energy_joules'] / 300 / 2) + 1
        t.true('readings', n >= 2, f)
        t.equal('energy', f['gpu_energy_joules'], 2 * 300 * (n - 1))
        # Weighted by the time that each reading stands for; how long that is, the machine's load decides.
        t.true('utilisation', min(utils(n)) - 1e-6 <= f['gpu_percent'] <= max(utils(n)) + 1e-6, (f['gpu_percent'], utils(n)))
        t.equal('memory', round(f['gpu_memory_percent'], 6), round(100 * (2 * GIB + n * MIB) / (80 * GIB), 6))
        t.equal('no SM values on this board', f['sm_percent'], None)
        t.equal('source', whole['monitoring_session']['sources']['gpu'], 'the driver, every second')


def sleepers(s, job_id):
    """Pids of the sleeps of the job, by what they sleep."""
    found = {}
    for pid, row in s.pids().items():
        try:
            words = harness.read_text(f'/proc/{pid}/cmdline').split('\0')
        except OSError:
            continue
        if row[0] == job_id and words[0] == 'sleep':
            found[words[1]] = pid
    return [found[k] for k in sorted(found)]


@case('GPUs that a job was given and never used: counted, advised on', timeout=150, needs=None)
def idle(t):
    config = OFF + EXACT + '''classification:
  advice:
    - {name: "gpus-never-used", condition: "gpus > 0 && gpus_idle > 0", fact: "{gpus_idle:round} of {gpus:round} GPUs were never used.",
       cause: "?", next: "--gres=gpu:{gpus-gpus_idle:round}", benefit: "Others get them."}
'''
    with Slurm(t) as s:
        job_id = s.submit('sleep 3000\n', '-n1', '--gpus-per-node=3', user='games')
        s.wait_state(job_id, 'RUNNING')
        wait_until(lambda: len(sleepers(s, job_id)) == 1, 30, 'a sleeper')
        pid = sleepers(s, job_id)[0]
        env = {'LD_LIBRARY_PATH': os.path.dirname(library()), 'FAKE_NVML': f'gpus=4,idle,pids={pid}'}
        j, _ = job(t, s, job_id, config, seconds='5', env=env)
        f = j['figures']
        t.equal('which', (j['gpus'], j['gpus_never_used'], f['gpus'], f['gpus_idle']), ([0, 1, 2], [1, 2], 3, 2))
        t.equal('utilisation', f['gpu_percent'], 0)
        t.equal('class', j['classification']['type'], 'GPU-idle')
        rules = {a['rule']: a for a in j['classification']['advice']}
        t.equal('advice', (rules['gpus-never-used']['fact'], rules['gpus-never-used']['next']),
                ('2 of 3 GPUs were never used.', '--gres=gpu:1'))  # fmt: skip
        parts = {p['name']: p['points'] for p in j['classification']['efficiency_parts']}
        t.true('points are taken away', parts['GPUs never used'] < 0, parts)
        t.match('table', r'GPUs +3, utilisation 0\.0 %.*never used 2, energy', job(t, s, job_id, config, seconds='3', form='table', env=env))


@case('a job that is not there, and one that ends meanwhile', timeout=150, needs=None)
def ends(t):
    with Slurm(t) as s:
        job_id = s.submit(f'while [ ! -e {s.path("work", "over")} ]; do sleep 0.2; done\n', '-n1', '-J', 'short', user='nobody')
        s.wait_state(job_id, 'RUNNING')
        # Without a duration the report comes at the end of the job.
        with open(t.path('live'), 'w', encoding='utf-8') as live:
            watching = subprocess.Popen([harness.gpuscope, 'job', '-j', f'{job_id},999999', '-r', '-o', t.path('r.json')], stdout=live,
                                        env={**t.env, 'SLURM_CONF': s.conf})
        wait_until(lambda: watching.poll() is not None or 'Classification' in read_text(t.path('live')), 60, 'it is measured')
        open(s.path('work', 'over'), 'w', encoding='ascii').close()
        t.equal('status', watching.wait(60), 0)
        j = json.loads(read_text(t.path('r.json')))['jobs'][0]
        t.equal('it', (j['job_id'], j['job_name'], j['user'], j['ended']), (str(job_id), 'short', 'nobody', True))
        run = t.tool('job', '-j', '999999', '-d', '1', status=4, env={'SLURM_CONF': s.conf})
        t.match('told', r'no process of job 999999 here', run.err)


if __name__ == '__main__':
    main(beside='jobs')
