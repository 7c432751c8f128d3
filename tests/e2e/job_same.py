#!/usr/bin/env python3
"""One job, measured by gpuscope job and by the agent at the same time: both reports have the same figures.

What the kernel counts is compared exactly: system calls that nothing else makes, bytes, and processes that end before
anybody could read their rows."""

import json
import os
import subprocess

import harness
from agent_help import Agent, config_text
from harness import case, main, read_text, wait_until
from job_help import FINISHED, rows
from page_help import Head
from slurm_help import Slurm

N = 3
CHILDREN, CALLS, BYTES = 40, 60, 300_000
# After "go" rank i starts children that end at once, each of which makes one of the calls, makes the others itself, writes bytes,
# computes for i + 1 seconds of processor time, says what the kernel counted for it, and waits for "end".
RANK = '''
import os, select, time
base, me = %r, int(os.environ["SLURM_PROCID"])
def say(name, text):
    with open(f"{base}/{name}{me}.new", "w") as f:
        f.write(text)
    os.rename(f"{base}/{name}{me}.new", f"{base}/{name}{me}")
def wait_for(name):
    while not os.path.exists(f"{base}/{name}"):
        time.sleep(0.05)
say("ready", f"{os.getpid()} {time.process_time()}")
wait_for("go")
for _ in range(%d):
    child = os.fork()
    if not child:
        select.select([], [], [], 0.003)
        os._exit(0)
    os.waitpid(child, 0)
for _ in range(%d):
    select.select([], [], [], 0.003)
with open(f"{base}/bytes{me}", "wb", buffering=0) as f:
    f.write(bytes(%d * (me + 1)))
goal = time.process_time() + me + 1
while time.process_time() < goal:
    pass
say("done", "")
wait_for("end")
say("cpu", str(time.process_time()))
'''
JOULES = (1000, 1500, 1700, 10, 110, 400, 2000)  # the counter restarts after 1700, and passes it later
GROWTH = 500 + 200 + 100 + 290 + 1600


def start(t, s):
    path, base = s.path('work', 'rank.py'), s.path('work')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(RANK % (base, CHILDREN, CALLS, BYTES))
    job_id = s.submit(f'srun -n{N} --overlap /usr/bin/python3 {path}\n', f'-n{N}', '-J', 'same', user='games')
    s.wait_state(job_id, 'RUNNING')
    return job_id


def said(s, name):
    """What the ranks said, or nothing while one has not."""
    paths = [s.path('work', f'{name}{i}') for i in range(N)]
    return [read_text(p) for p in paths] if all(map(os.path.exists, paths)) else None


def figures_of(j):
    return {**{k: j['figures'][k] for k in ('gpus', 'gpus_idle', 'gpu_energy_joules')}, 'gpu_percent': round(j['figures']['gpu_percent'], 6),
            'gpus_never_used': j['gpus_never_used'], 'which': j['gpus'], 'user': j['user'],
            'ranks': [(r['rank'], r['step'], r['gpu_ratio'] is None) for r in j['ranks']]}  # fmt: skip


def counts_of(j):
    """What the kernel's rows say: of the job, and of its ranks."""
    return {'select': [(c['calls'], c['errors']) for c in j['syscalls'] if c['name'] in ('select', 'pselect6')],
            'ranks': [(r['processes'], r['file_bytes']) for r in j['ranks']]}  # fmt: skip


@case('one job, measured by gpuscope job and by the agent: processor time, ranks, GPUs, energy through a restart of the counter', timeout=600, beside='jobs')
def same(t):
    with Slurm(t) as s:
        head = Head(t)
        link = f'head:\n  addresses: "{head.grpc}"\n  spool: {t.path("agent-spool")}\n  machine_id: node\n  jobs_interval: 1s\n'
        job_id = start(t, s)
        wait_until(lambda: said(s, 'ready'), 120, 'the ranks')
        pids, early = zip(*(map(float, text.split()) for text in said(s, 'ready')))
        seen = t.path('seen')

        def what(joules):
            return f'gpus=4,util=37,seen={seen},joules={joules},pids={int(pids[0])}:{int(pids[1])}'

        a = Agent(t, config_text(more='jobs:\n  interval: 500ms\n  linger: 60s\n  syscalls: 32\n' + link), what=what(JOULES[0]), env={'SLURM_CONF': s.conf})
        config, out = t.path('job.yaml'), t.path('job.json')
        with open(config, 'w', encoding='utf-8') as f:
            f.write('output:\n  float_precision: -1\n')
        env = {**t.envs({'SLURM_CONF': s.conf}), 'FAKE_NVML_FILE': a.what, 'LD_LIBRARY_PATH': harness.fake}
        p = subprocess.Popen([harness.gpuscope, 'job', '-j', str(job_id), '-c', config, '-o', out], env=env)

        def all_read(joules):
            """Both have read this value of GPUs 0 and 1; the job's first reading comes after its first search."""
            paths = [f'{seen}.{pid}.{gpu}' for pid in (a.pid, p.pid) for gpu in (0, 1)]
            return all(os.path.exists(x) and read_text(x) == str(joules) for x in paths)

        def jobs_read():
            """The agent's jobs have the GPUs as they are now."""
            n = a.metrics()['gpuscope_agent_jobs_reads_total']
            wait_until(lambda: a.metrics()['gpuscope_agent_jobs_reads_total'] >= n + 2, 120, 'two readings of the jobs')

        def of_job():
            found = [r for r in rows(head) if r['job'] == str(job_id)]
            return found[0] if found else None

        try:
            wait_until(lambda: all_read(JOULES[0]), 120, 'both measure')
            wait_until(lambda: of_job() and len(of_job()['document']['jobs'][0]['ranks']) == N, 120, 'the agent knows the ranks')
            jobs_read()
            for joules in JOULES[1:]:
                a.pretend(what(joules))
                wait_until(lambda joules=joules: all_read(joules), 120, f'{joules} J')
                jobs_read()
            open(s.path('work', 'go'), 'w').close()
            wait_until(lambda: said(s, 'done'), 240, 'the work')
            open(s.path('work', 'end'), 'w').close()
            t.equal('gpuscope job', p.wait(240), 0)
            wait_until(lambda: of_job()['state'] == FINISHED, 240, "the agent's last report")
        finally:
            p.kill()
            p.wait()
        with open(out, encoding='utf-8') as f:
            by_job = json.load(f)['jobs'][0]
        by_agent = of_job()['document']['jobs'][0]
        late = [float(x) for x in said(s, 'cpu')]
        t.equal('the same', figures_of(by_agent), figures_of(by_job))
        t.equal("the same of the kernel's rows", counts_of(by_agent), counts_of(by_job))
        t.equal('calls of ranks and their children', counts_of(by_job)['select'], [(N * (CHILDREN + CALLS), 0)])
        t.equal('processes of the ranks', [r['processes'] for r in by_job['ranks']], [1 + CHILDREN] * N)
        extra = [r['file_bytes'] - BYTES * (i + 1) for i, r in enumerate(by_job['ranks'])]
        t.true('bytes of the ranks', all(0 <= x < 1000 for x in extra), extra)
        t.equal('energy of both GPUs', by_job['figures']['gpu_energy_joules'], 2 * GROWTH)
        t.true('share', abs(by_job['figures']['gpu_percent'] - 37) < 1e-6, by_job['figures'])
        # Each rank's processor time: what the kernel itself counted since it was ready, or since its beginning. The interpreter
        # still ends after its last word.
        for name, j in ('gpuscope job', by_job), ('agent', by_agent):
            cpu = [r['cpu_seconds'] for r in j['ranks']]
            low, high = [x - y for x, y in zip(late, early)], [x + 0.5 for x in late]
            t.true(f'processor time: {name}', all(x > i + 0.9 for i, x in enumerate(cpu)), (cpu, low, high))
            t.true(f'as the kernel has it: {name}', all(x <= y <= z for x, y, z in zip([v - 0.3 for v in low], cpu, high)), (cpu, low, high))
        pairs = [(x['cpu_seconds'], y['cpu_seconds']) for x, y in zip(by_job['ranks'], by_agent['ranks'])]
        t.true('by rank as near as the start', all(abs(x - y) <= e + 0.3 for (x, y), e in zip(pairs, early)), (pairs, early))
        a.stop()
        head.stop()


if __name__ == '__main__':
    main()
