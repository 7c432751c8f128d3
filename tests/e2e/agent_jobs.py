#!/usr/bin/env python3
"""Metrics of jobs: a real Slurm runs them, gpuscope agent counts, a real Prometheus scrapes and joins."""

import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from agent_help import Agent, Prometheus, config_text, library
from harness import Skip, case, main, read_text, wait_until
from slurm_help import Slurm

MIB = 1 << 20
FILES = ('file', 'tmpfs', 'netfile')


def jobs_text(**keys):
    keys = {'interval': '500ms', **keys}
    return 'jobs:\n' + ''.join(f'  {k}: {v}\n' for k, v in keys.items())


def agent(t, s, what='gpus=4', **keys):
    return Agent(t, config_text(more=jobs_text(**keys)), what=what, env={'SLURM_CONF': s.conf})


def of(job, name, more=''):
    return f'gpuscope_job_{name}{{jobid="{job}"{more}}}'


def written(m, job):
    return sum(m.get(of(job, 'io_bytes_total', f',kind="{k}",direction="write"'), 0) for k in FILES)


def work(s, name, mib):
    """A job that waits for a file, writes so many MiB with a program that then ends, and sleeps."""
    go, done = s.path('work', name + '.go'), s.path('work', name + '.done')
    return go, done, (f'while [ ! -e {go} ]; do sleep 0.1; done\n'
                      f'dd if=/dev/zero of={s.path("work", name)} bs=1M count={mib} 2>/dev/null\n'
                      f'touch {done}\nsleep 3000\n')  # fmt: skip


def watch_counters(t, seen, m, jobs):
    """No counter of one of these jobs is ever lower than it was; others come and go."""
    for key, value in m.items():
        job = re.search(r'jobid="(\d+)"', key)
        if key.startswith('gpuscope_job_') and '_total{' in key and job and int(job.group(1)) in jobs:
            if value < seen.get(key, 0):
                t.true(f'{key} grows', False, (seen[key], value))
            seen[key] = value


@case('jobs of a real Slurm in a real Prometheus: totals, joins, the end of a job', timeout=240, alone='jobs')
def slurm(t):
    if not shutil.which('prometheus'):
        raise Skip('prometheus is not installed')
    with Slurm(t) as s:
        a = agent(t, s, linger='15s', gpu_idle='1s', what='gpus=4,idle')
        p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': [{'targets': [a.address]}]})
        go, done, script = work(s, 'one', 50)
        one = s.submit(script, '-n1', '-J', 'writer', '--account=phys', '--gpus-per-node=2', user='games')
        two = s.submit('sleep 3001 & sleep 3000\n', '-n1', '-J', 'sleeper', '-p', 'long', user='nobody')
        s.wait_state(one, 'RUNNING')
        s.wait_state(two, 'RUNNING')
        for job in one, two:
            a.wait_metric(of(job, 'processes'), lambda v: v and v >= 2)
        a.wait_metric('gpuscope_agent_jobs_probes', lambda v: v == 1)
        seen = {}
        open(go, 'w').close()

        def is_done():
            watch_counters(t, seen, a.metrics(), (one, two))
            return os.path.exists(done)

        wait_until(is_done, 60, 'the job has written')
        wait_until(lambda: written(a.metrics(), one) >= 50 * MIB, 30, 'bytes of a program that has ended')
        m = a.metrics()
        t.true('and no others', written(m, one) < 50 * MIB + 65536, written(m, one))
        t.true('the sleeper wrote nothing', written(m, two) < 65536, written(m, two))
        t.true('system calls', m[of(one, 'syscalls_total')] > 100, m[of(one, 'syscalls_total')])
        # Threads spend their time somewhere: the sleeper asleep, or waiting for what it started.
        states = {st: m[of(two, 'thread_seconds_total', f',state="{st}"')] for st in ('cpu', 'sleep', 'pipe', 'disk')}
        t.true('where the time goes', states['sleep'] + states['pipe'] > 10 * states['cpu'], states)
        t.true('memory', m[of(one, 'memory_bytes')] > 0)
        # GPUs that nobody uses.
        wait_until(lambda: a.metrics().get(of(one, 'gpus_idle')) == 2, 30, 'two idle GPUs')
        m = a.metrics()
        t.equal('GPUs', (m[of(one, 'gpus')], m[of(two, 'gpus')]), (2, 0))
        t.equal('GPU time', (m[of(one, 'gpu_busy_seconds_total')], m[of(one, 'gpu_seconds_total')] > 0), (0, True))
        wait_until(lambda: a.metrics()[of(one, 'gpu_energy_joules_total')] >= 600, 30, 'energy')
        # The stand-in's counter goes up by 300 J at each reading.
        t.equal('energy', a.metrics()[of(one, 'gpu_energy_joules_total')] % 300, 0)
        # Joins by the info metric.
        wait_until(lambda: p.ask('gpuscope_job_processes', 'jobid').keys() >= {str(one), str(two)}, 60, 'scrapes')
        ours = f'{{jobid=~"{one}|{two}"}}'  # others may run here
        query = f'sum by (user) (gpuscope_job_processes{ours} * on (jobid) group_left (user) gpuscope_job_info)'
        wait_until(lambda: set(p.ask(query, 'user')) == {'games', 'nobody'}, 60, 'a join by user')
        t.true('processes by user', all(v >= 2 for v in p.ask(query, 'user').values()), p.ask(query, 'user'))
        # What the controller says comes in one by one, and may come after the first scrape.
        wanted = {'name': ['sleeper', 'writer'], 'account': ['', 'phys'], 'partition': ['debug', 'long'], 'kind': ['slurm']}
        wait_until(lambda: {x: sorted(p.ask('gpuscope_job_info' + ours, x)) for x in wanted} == wanted, 120, f'info: {wanted}')
        query = f'sum by (account) (gpuscope_job_gpus_idle{ours} * on (jobid) group_left (account) gpuscope_job_info) > 0'
        wait_until(lambda: p.ask(query, 'account') == {'phys': 2}, 60, 'idle GPUs by account')
        query = 'count by (jobid) (gpuscope_gpu_power_watts{kind="average"} * on (uuid) group_left (jobid) gpuscope_job_gpu_info' + ours + ')'
        wait_until(lambda: p.ask(query, 'jobid') == {str(one): 2}, 60, 'power of the GPUs of a job')
        # Lint of Prometheus's own tool, both formats.
        if shutil.which('promtool'):
            run = subprocess.run(['promtool', 'check', 'metrics'], input=a.get()[2], capture_output=True, timeout=30)
            t.equal('promtool', (run.returncode, run.stdout + run.stderr), (0, b''))
        # The end: totals stay for a while, and never step back.
        last = a.metrics()
        s.run('scancel', str(one))

        def ended():
            m = a.metrics()
            watch_counters(t, seen, m, (one, two))
            return m.get(of(one, 'processes')) == 0

        wait_until(ended, 60, 'the end of the job')
        m = a.metrics()
        t.true('the last totals', written(m, one) >= written(last, one))
        t.true('gauges of one that ended', of(one, 'memory_bytes') not in m and of(one, 'gpus') not in m)

        def gone():
            watch_counters(t, seen, a.metrics(), (one, two))
            return of(one, 'processes') not in a.metrics()

        wait_until(gone, 60, 'its series go')
        t.true('the other one stays', a.metrics()[of(two, 'processes')] >= 2)
        t.equal('nothing was lost', {k: v for k, v in a.metrics().items() if k.startswith('gpuscope_agent_jobs_errors')
                                     and 'slurm' not in k and v}, {})  # fmt: skip
        a.stop()


@case('jobs that are only claimed: shown as such, booked on no one else, and no real one is left out for them', timeout=150, alone='jobs')
def claimed(t):
    nobody = {'user': 'nobody', 'group': 'nogroup', 'extra_groups': []}
    with Slurm(t) as s:
        # Held, so that the processes that claim it have lower numbers than its own.
        real = s.submit('sleep 3000\n', '-n1', '-H', '--account=bio', user='games')
        lie = {'SLURM_JOB_USER': 'games', 'SLURM_JOB_UID': '5', 'SLURM_JOB_ACCOUNT': 'bio', 'SLURM_JOB_GPUS': '0-3'}
        # Many jobs that are none, then one in the name of the real one, of another user, whom the many leave room in
        # whatever order they are found; and one in a folder as slurmd makes it.
        words = 'for i in $(seq 400); do SLURM_JOB_ID=$((900000 + i)) sleep 3000 & done; echo done; wait'
        group = f'/sys/fs/cgroup/freezer/claim{os.getpid()}'
        own = f'{group}/slurm/uid_5/job_{real}/step_0'
        sleeps = subprocess.Popen(['sh', '-c', words], env={**t.env, **lie}, stdout=subprocess.PIPE, start_new_session=True, **nobody)
        one = subprocess.Popen(['sleep', '3000'], env={**t.env, **lie, 'SLURM_JOB_ID': str(real)}, user='uucp', group='uucp', extra_groups=[])
        two = subprocess.Popen(['sleep', '3000'], env=t.env, user='daemon', group='daemon', extra_groups=[])
        try:
            sleeps.stdout.readline()
            s.run('scontrol', 'release', str(real))
            s.wait_state(real, 'RUNNING')
            os.makedirs(own)
            os.chown(group, 1, 1)
            with open(f'{own}/cgroup.procs', 'w', encoding='utf-8') as f:
                f.write(str(two.pid))
            a = agent(t, s)
            late = s.submit('sleep 3000\n', '-n1', '--account=phys', user='games')
            for job in f'{real}', f'{late}', f'{real} (claimed by daemon)', f'{real} (claimed by uucp)':
                a.wait_metric(of(job, 'processes'), lambda v: v)
            wait_until(lambda: ',account="phys"' in a.get('/metrics')[2].decode(), 60, 'the answer of the controller')
            text = a.get('/metrics')[2].decode()
            rows = [dict(re.findall(r'(\w+)="(.*?)"', x)) for x in text.splitlines() if x.startswith('gpuscope_job_info{')]
            who = [tuple(r.get(k, '') for k in ('jobid', 'user', 'uid', 'account', 'proof')) for r in rows if r['kind'] == 'slurm']
            t.equal('proven', sorted(w for w in who if w[4] != 'claimed' and w[0] in (f'{real}', f'{late}')),
                    sorted([(f'{real}', 'games', '5', 'bio', 'proven'), (f'{late}', 'games', '5', 'phys', 'proven')]))  # fmt: skip
            claims = [w[1:] for w in who if w[4] == 'claimed' and w[1] in ('nobody', 'daemon', 'uucp')]  # others may run here
            t.equal('whose the claims are', set(claims),
                    {('nobody', '65534', '', 'claimed'), ('daemon', '1', '', 'claimed'), ('uucp', '10', '', 'claimed')})  # fmt: skip
            t.true('no GPU is theirs', not re.search(r'^gpuscope_job_gpu_info\{jobid="[^"]*claimed', text, re.M))
            t.true('few are kept', 3 <= len(claims) <= 10, claims)
            m = a.metrics()
            files = glob.glob(f'/sys/fs/cgroup/freezer/slurm*/uid_5/job_{real}/**/cgroup.procs', recursive=True)
            # slurmstepd stands in the groups of its step, and is no process of the job.
            pids = [pid for f in files for pid in harness.read_text(f).split()]
            t.equal('processes of the real one', m[of(real, 'processes')],
                    sum(harness.read_text(f'/proc/{pid}/comm') != 'slurmstepd\n' for pid in pids))  # fmt: skip
            t.equal('jobs left out', m['gpuscope_agent_jobs_left_out_total'], 0)
            t.true('claims left out', m['gpuscope_agent_job_claims_left_out_total'] >= 380, m)
            whole = json.loads(t.tool('job', '-j', str(real), '-d', '0.5', '--format', 'json', status=0, env={'SLURM_CONF': s.conf}).out)
            t.equal('its report', [(j['job_id'], j['proof'], j['user']) for j in whole['jobs']], [(f'{real}', 'proven', 'games')])
        finally:
            os.killpg(sleeps.pid, 9)
            for proc in sleeps, one, two:
                proc.kill()
                proc.wait()
            for folder, _, _ in os.walk(group, topdown=False):
                wait_until(lambda folder=folder: is_removed(folder), 20, 'an empty group')


def is_removed(group):
    """What was in it may have ended a moment ago."""
    try:
        os.rmdir(group)
    except OSError:
        return not os.path.exists(group)
    return True


@case('gpuscope top: jobs of a real Slurm, once and recorded', timeout=150)
def top(t):
    with Slurm(t) as s:
        job = s.submit('while :; do :; done & sleep 3000\n', '-n1', '-J', 'spinner', '--account=bio', '--gpus-per-node=2',
                       user='games')  # fmt: skip
        s.wait_state(job, 'RUNNING')
        s.wait_tasks(1)
        env, words = {'SLURM_CONF': s.conf, 'FAKE_NVML': 'gpus=4,idle'}, ('top', '--once', '--nvml', library())

        found = {}

        def is_complete(document):
            """Slurm's answer may come after the second reading: then its account is not known."""
            found.clear()
            found.update(next((j for j in document['jobs'] if j['id'] == str(job)), {}))
            return (found.get('gpus'), found.get('account')) == (2, 'bio') and found['processes'] >= 3

        wait_until(lambda: is_complete(json.loads(t.tool(*words, '--jobs', '--format', 'json', status=0, env=env).out)), 60, 'all of it')
        j = dict(found)
        t.equal('who', [j[k] for k in ('kind', 'user', 'account', 'partition', 'name')], ['slurm', 'games', 'bio', 'debug', 'spinner'])
        t.true('it works', j['processes'] >= 3 and j['cpu_ratio'] > 0 and j['memory_bytes'] > 0, j)
        t.equal('counted by', j['counted_by'], 'kernel')
        rows = list(csv.DictReader(t.tool(*words, '--jobs', '--format', 'csv', status=0, env=env).out.splitlines()))
        t.equal('CSV', [r['user'] for r in rows if r['id'] == str(job)], ['games'])
        t.match('table', rf'(?m)^{job} +slurm +games ', t.tool(*words, '--jobs', status=0, env=env).out)
        t.true('without -j there are none', 'jobs' not in json.loads(t.tool(*words, '--format', 'json', status=0, env=env).out))
        path = t.path('jobs.gst')

        def recorded():
            if os.path.exists(path):
                os.unlink(path)
            t.tool(*words, '--jobs', '--record', path, status=0, env=env)
            return json.loads(t.tool('top', '--replay', path, '--once', '--format', 'json', status=0).out)

        wait_until(lambda: is_complete(recorded()), 60, 'a recording with all of it')
        t.equal('recorded', [found[k] for k in ('kind', 'user', 'account')], ['slurm', 'games', 'bio'])


@case('more jobs than are told: counted, and told when there is room', timeout=150, alone='jobs')
def most(t):
    with Slurm(t) as s:
        a = agent(t, s, max=1, linger='1s', pods='false')  # tests of containers make some meanwhile
        jobs = [s.submit('sleep 3000\n', '-n1') for _ in range(2)]
        for job in jobs:
            s.wait_state(job, 'RUNNING')
        a.wait_metric('gpuscope_agent_jobs_left_out_total', lambda v: v == 1)
        told = [j for j in jobs if of(j, 'processes') in a.metrics()]
        t.equal('one is told', len(told), 1)  # claims of other processes of this machine are beside it
        s.run('scancel', str(told[0]))
        other = next(j for j in jobs if j not in told)
        a.wait_metric(of(other, 'processes'), lambda v: v and v > 0, 60)
        t.equal('counted once', a.metrics()['gpuscope_agent_jobs_left_out_total'], 1)
        a.stop()


@case('a controller that does not answer: which figures are missing, until it answers', timeout=600, needs=None, alone='jobs')
def unanswered(t):
    with Slurm(t) as s:
        job = s.submit('sleep 3000\n', '-n1', '-t', '100')
        s.wait_state(job, 'RUNNING')
        number = int(read_text(s.path('slurmctld.pid')))
        os.kill(number, signal.SIGSTOP)
        try:
            a = agent(t, s, what='gpus=0')
            a.wait_metric(of(job, 'processes'), lambda v: v and v >= 1, seconds=120)
            missing = 'gpuscope_agent_jobs_unanswered{figure="time_limit"}'
            a.wait_metric(missing, lambda v: v == 1, seconds=120)
            # The machine itself knows the user.
            t.equal('user', a.metrics()['gpuscope_agent_jobs_unanswered{figure="user"}'], 0)
        finally:
            os.kill(number, signal.SIGCONT)
        a.wait_metric(missing, lambda v: v == 0, seconds=240)
        a.stop()


@case('without probes: what procfs tells, and that it is so', timeout=150, needs=None)
def procfs(t):
    with Slurm(t) as s:
        a = agent(t, s, probes='false')
        go, done, script = work(s, 'two', 20)
        job = s.submit(script, '-n1')
        s.wait_state(job, 'RUNNING')
        a.wait_metric(of(job, 'processes'), lambda v: v and v >= 2)
        m = a.metrics()
        t.equal('told', m.get('gpuscope_agent_jobs_probes{reason="not enabled"}'), 0)
        t.equal('what procfs does not tell', [k for k in m if k.startswith(('gpuscope_job_syscalls', 'gpuscope_job_network'))], [])
        seen = {}
        open(go, 'w').close()

        def is_done():
            watch_counters(t, seen, a.metrics(), (job,))
            return os.path.exists(done)

        wait_until(is_done, 60, 'the job has written')
        wait_until(lambda: a.metrics()[of(job, 'thread_seconds_total', ',state="sleep"')] > 1, 60, 'time asleep')
        t.true('CPU time', a.metrics()[of(job, 'thread_seconds_total', ',state="cpu"')] > 0)
        a.stop()


@case('the names of ebpf-hpc-monitor, system calls by name, and which kinds of jobs', timeout=150)
def names(t):
    with Slurm(t) as s:
        a = agent(t, s, names='hpc_monitor', syscalls=3, cgroups='false')
        job = s.submit('while true; do cat /etc/hostname >/dev/null; done\n', '-n1', '-J', 'reader', user='games')
        s.wait_state(job, 'RUNNING')
        key = f'hpc_monitor_total_syscalls{{job_id="{job}"}}'
        a.wait_metric(key, lambda v: v and v > 1000, 60)
        m = a.metrics()
        t.equal('only those', [k for k in m if k.startswith('gpuscope_job_')], [])
        for name in ('cpu_percent', 'io_percent', 'wait_percent', 'context_switches', 'cpu_time_ns', 'read_bytes',
                     'write_bytes', 'io_operations', 'net_operations', 'efficiency_score', 'monitored_pids'):  # fmt: skip
            t.true(name, f'hpc_monitor_{name}{{job_id="{job}"}}' in m, sorted(k for k in m if k.startswith('hpc_')))
        # What the controller says comes in one by one.
        wait_until(lambda: any(k.startswith('hpc_monitor_job_info') and 'user="games"' in k and 'job_name="reader"' in k for k in a.metrics()), 60, 'who')
        # Another naming needs no new start of counting: the totals go on.
        before = m[key]
        a.write(config_text(more=jobs_text(names='both', syscalls=3)))
        a.signal(1)
        wait_until(lambda: of(job, 'syscalls_total') in a.metrics(), 30, 'both names')
        m = a.metrics()
        t.true('it goes on', m[key] >= before, (before, m[key]))
        t.equal('the same', m[key], m[of(job, 'syscalls_total')])
        ours = f'gpuscope_job_calls_total{{jobid="{job}",'  # others may run here
        calls = {re.search('call="([^"]*)"', k).group(1): v for k, v in m.items() if k.startswith(ours)}
        t.true('by name, a few', 0 < len(calls) <= 6, calls)
        # No jobs at all.
        a.write(config_text(more='jobs:\n  enabled: false\n'))
        a.signal(1)
        wait_until(lambda: not any('_job' in k for k in a.metrics()), 30, 'no jobs')
        a.stop()


@case('without jobs nothing is attached; bad configurations', timeout=60, needs=None, alone='jobs')
def none(t):
    a = Agent(t, config_text(more=jobs_text()))
    a.wait_metric('gpuscope_agent_jobs_reads_total', lambda v: v and v > 1)
    m = a.metrics()
    if any(k.startswith('gpuscope_job_processes') for k in m):
        t.note('there are jobs of others on this machine')
    else:
        t.equal('probes', m.get('gpuscope_agent_jobs_probes{reason="there was no job yet"}'), 0)
    a.stop()
    bad = (('jobs:\n  max: 0\n', r':2:8: .*from 1 to 256'), ('jobs:\n  interval: 1ms\n', r':2:13: '), ('jobs:\n  slrum: true\n', r':2:3: .*slurm'),
           ('jobs:\n  names: dcgm\n', r':2:10: .*native'), ('jobs:\n  syscalls: all\n', r':2:13: '))  # fmt: skip
    for text, message in bad:
        path = t.path('bad.yaml')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        run = t.tool('agent', '-c', path, '--check-config', status=2)
        t.match(text, message, run.err)
    printed = t.tool('agent', '--print-config', status=0).out
    t.true('in the default file', 'jobs:\n' in printed and 'gpu_idle: 1m' in printed, printed[-2000:])


README = """ebpf:
  enabled: true
  probes:
    scheduling: true
classification:
  cpu_bound_threshold: 70
external_systems:
  prometheus:
    enabled: true
    port: {port}
    metrics_prefix: "{prefix}"
    update_interval: 1
"""


@case("ebpf-hpc-monitor's own configuration: Prometheus on its port, with its names", timeout=180)
def readme_configuration(t):
    a = Agent(t, README.format(port=0, prefix='hpc_monitor_') + config_text().split('http:')[0], what='gpus=1')
    t.match('unused keys, by line', r'not used by the agent: classification \(line \d+\), ebpf\.probes \(line \d+\)\n', a.err_text())
    t.match('where', r'^127\.0\.0\.1:\d+$', a.address)
    t.equal('served', a.get()[0], 200)
    t.equal('by its names alone', [k for k in a.metrics() if k.startswith('gpuscope_job_')], [])
    a.stop()
    # A port of one's own, and a prefix that there is not.
    path = t.path('port.yaml')
    for port, prefix, status in ((18000, 'hpc_monitor_', 0), (18000, 'other_', 2)):
        with open(path, 'w') as f:
            f.write(README.format(port=port, prefix=prefix))
        run = t.tool('agent', '-c', path, '--check-config', status=status)
    t.match('said, with its line', r'port\.yaml:\d+:\d+: .*metrics_prefix takes hpc_monitor_', run.err)


if __name__ == '__main__':
    main(beside='jobs')  # those are alone that count all of the machine
