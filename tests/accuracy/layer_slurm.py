"""Jobs of a real Slurm of the test's own: what scontrol and its slurmstepds say of them."""

import json
import re

from slurm_help import Slurm
from table import Skip, layer


def scontrol(s, job_id):
    text = s.run('scontrol', 'show', 'job', str(job_id)).stdout
    return dict(re.findall(r'(\S+?)=(\S*)', text))


def seconds_of(text):
    """D-HH:MM:SS"""
    days, _, rest = text.rpartition('-')
    h, m, s = map(int, rest.split(':'))
    return int(days or 0) * 86400 + 3600 * h + 60 * m + s


@layer('a job of Slurm', needs=None, timeout=300)
def job(m):
    with Slurm(m) as s:
        job_id = s.submit('srun -n3 --overlap sleep 3000\n', '-n3', '-J', 'exact', '--account=phys', '--time=30', user='games')
        s.wait_state(job_id, 'RUNNING')
        s.wait_tasks(4)
        run = m.tool('job', '-j', str(job_id), '-d', '1', '--format', 'json', status=0, env={'SLURM_CONF': s.conf}, timeout=150)
        found = json.loads(run.out)['jobs'][0]
        told = scontrol(s, job_id)
        listed = {pid: row for pid, row in s.pids().items() if row[0] == job_id}
        m.text('user', found['user'], 'scontrol UserId', told['UserId'].split('(')[0])
        m.text('account', found['account'], 'scontrol Account', told['Account'])
        m.text('partition', found['partition'], 'scontrol Partition', told['Partition'])
        m.text('name', found['job_name'], 'scontrol JobName', told['JobName'])
        m.figure('processors', found['cpus'], 'scontrol NumCPUs', int(told['NumCPUs']))
        tasks = sorted(int(row[3]) for row in listed.values() if row[3] != '-' and row[1] == '0')
        m.text('ranks, with their steps', [f'{r["step"]}.{r["rank"]}' for r in found['ranks']], 'scontrol listpids',
               [f'0.{rank}' for rank in tasks])  # fmt: skip
        m.figure('ranks', len(found['ranks']), 'srun -n', 3)
        f = found['figures']
        m.figure('time that it has run', f['run_seconds'], 'scontrol RunTime', seconds_of(told['RunTime']), 30,
                 'scontrol is asked after the report', 's')  # fmt: skip
        limit = seconds_of(told['TimeLimit'])
        m.figure('used share of its time', f['time_limit_percent'], 'scontrol RunTime / TimeLimit',
                 100 * seconds_of(told['RunTime']) / limit, 100 * 30 / limit, 'scontrol is asked after the report', '%')  # fmt: skip
        s.run('scancel', str(job_id))


@layer("what Slurm's accounting has", needs=None)
def accounting(_):
    raise Skip('sacct answers only with slurmdbd, which the test does not start; scontrol is compared above')
