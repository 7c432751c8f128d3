"""The job, step, task, rank, user, account, partition and GPUs of every process, against what a real Slurm says."""

import csv
import json
import os
import pwd
import subprocess
import time

import harness
from harness import Skip, case, main, wait_until
from slurm_help import Slurm

SLURM = 1  # GS_JOB_SLURM
FROM_CGROUP, FROM_ENVIRON, FROM_NODE, FROM_CONTROLLER, FROM_DROP = 1, 2, 4, 8, 16
NAME = 'we, ird|näme "q" <&>'


class Jobs:
    """show_jobs: what gpuscope knows, again at each .read()."""

    def __init__(self, slurm, *args, conf=True):
        self.first = slurm.first_job
        words = [os.path.join(harness.fake, 'show_jobs'), 'watch', *args]
        if conf:
            words.append(f'--conf={slurm.conf}')
        self.proc = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self):
        self.proc.stdin.write('\n')
        self.proc.stdin.flush()
        line = self.proc.stdout.readline()
        assert line, f'show_jobs ended: {self.proc.poll()}'
        self.all = json.loads(line)
        self.jobs = [j for j in self.all['jobs'] if j['kind'] == SLURM and self.first <= j['job_id'] < self.first + 1000]
        return self.jobs

    def job(self, job_id):
        """The newest run of it."""
        return max((j for j in self.jobs if j['job_id'] == job_id), key=lambda j: j['start_s'], default=None)

    def by_pid(self):
        return {p['pid']: (j, p) for j in self.jobs for p in j['processes']}

    def close(self):
        self.proc.stdin.close()
        return self.proc.wait(timeout=20)


def lives(pid):
    try:
        return harness.read_text(f'/proc/{pid}/stat').rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def compare(t, slurm, jobs, pids, ranks=True):
    """Every process that Slurm says is in a step."""
    ours = jobs.by_pid()
    for pid, (job, step, local, rank) in pids.items():
        if not lives(pid):
            continue
        j, p = ours.get(pid, (None, None))
        t.true(f'pid {pid} of job {job} is known', j)
        if not j:
            continue
        t.equal(f'job and step of {pid}', (j['job_id'], p['step']), (job, step))
        if local != '-' and ranks:
            t.equal(f'rank of {pid}', (p['local_rank'], p['rank']), (int(local), int(rank)))


def attributes(t, slurm, job, j, gpus=0):
    said = slurm.squeue(j, 'iujaPNS')
    t.equal(f'attributes of {job}', (j['id'], j['user'], j['name'], j['partition'], j['nodes']),
            (said['i'], said['u'], said['j'], said['P'], said['N']))  # fmt: skip
    t.equal(f'account of {job}', j['account'], '' if said['a'] == '(null)' else said['a'])
    t.equal(f'uid of {job}', j['uid'], pwd.getpwnam(said['u']).pw_uid)
    t.equal(f'start of {job}', time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(j['start_s'])), said['S'])
    t.equal(f'GPUs of {job}', bin(j['gpu_mask']), bin(gpus))


# alone: commands that are asked of Slurm for jobs of others would be counted, too.
@case('batch, steps on two nodes, two users: all that Slurm says of each process', timeout=120, needs=None, alone='jobs')
def steps(t):
    with Slurm(t) as s:
        a = s.submit('srun -N2 -n4 --overlap sleep 3000 &\nsrun -N1 -n1 --overlap sleep 3001 &\nsleep 3002\n', '-N2',
                     '-n4', '-J', NAME, '--account=phys,ics', '--gpus-per-node=2', '-t', '60', '--mem-per-cpu=100',
                     user='games')  # fmt: skip
        b = s.submit('sleep 3003 & sleep 3004\n', '-n1', '-p', 'long', '-J', 'x', '-t', '1-00:30', '--gpus-per-node=1', f'-w{s.nodes[0]}',
                     user='nobody')  # fmt: skip
        s.wait_state(a, 'RUNNING')
        s.wait_state(b, 'RUNNING')
        # Four and one tasks, and two batch scripts.
        pids = s.wait_tasks(7)
        jobs = Jobs(s, '--no-node')
        t.equal('jobs', sorted(j['job_id'] for j in jobs.read()), [a, b])
        compare(t, s, jobs, pids)
        ja, jb = jobs.job(a), jobs.job(b)
        attributes(t, s, a, ja, 0b0011)
        attributes(t, s, b, jb, 0b0100)
        t.equal('limits', (ja['limit_s'], jb['limit_s']), (3600, 88200))
        t.equal('memory here', ja['mem_bytes'] // ja['n_cpus'], 100 << 20)
        t.equal('cluster', ja['cluster'], 'testers')
        for j in ja, jb:
            t.true('sources', j['source'] & (FROM_CGROUP | FROM_CONTROLLER) == FROM_CGROUP | FROM_CONTROLLER, j['source'])
        # Asked once a job, whatever happens; a JSON that is not there is tried once.
        # One that does not answer in time on a busy machine is asked again, and counted.
        asked, failed = jobs.all['commands'], jobs.all['failed']
        t.true('commands', asked <= 3 + 3 * failed, (asked, failed))
        for _ in range(3):
            jobs.read()
        later = (jobs.all['commands'], jobs.all['failed'])
        t.true('commands later', later == (asked, failed) or failed and later[0] <= 3 + 3 * later[1], (asked, failed, later))
        t.equal('bad answers', jobs.all['bad'], 0)
        # The end of a job, and of a step of another.
        s.run('scancel', str(b))
        wait_until(lambda: jobs.read() and not jobs.job(b), 30, 'the end of a job')
        s.run('scancel', f'{a}.1')
        wait_until(lambda: all(p['step'] != '1' for p in jobs.read()[0]['processes']), 30, 'the end of a step')
        compare(t, s, jobs, s.pids())
        t.equal('exit of show_jobs', jobs.close(), 0)


@case('arrays and het jobs: the ids that users write', timeout=120, needs=None)
def arrays(t):
    with Slurm(t) as s:
        a = s.submit('sleep 3000\n', '--array=3,5', '-n1', '--account=phys')
        done = s.run('sbatch', '--parsable', '--output=/dev/null', '-n1', '-J', 'h1', ':', '-n1', '-J', 'h2', '--wrap',
                     'srun --het-group=0,1 sleep 3004')  # fmt: skip
        h = int(done.stdout)
        pids = s.wait_tasks(5)
        jobs = Jobs(s)
        t.equal('ids', sorted(j['id'] for j in jobs.read()), sorted([f'{a}_3', f'{a}_5', f'{h}+0', f'{h}+1']))
        compare(t, s, jobs, pids, ranks=False)
        for j in jobs.jobs:
            attributes(t, s, j['job_id'], j)
            t.equal('array', (j['array_job_id'], j['array_task_id'] in (3, 5)), (a, True) if '_' in j['id'] else (-1, False))
            t.equal('het', j['het_job_id'], h if '+' in j['id'] else -1)
        # One step over both components: its ranks go on.
        tasks = [(j['het_offset'], p['rank']) for j in jobs.jobs for p in j['processes'] if '+' in j['id'] and p['step'] == '0'
                 and p['rank'] >= 0]  # fmt: skip
        t.equal('ranks over components', sorted(tasks), [(0, 0), (1, 1)])
        t.equal('cluster of each', {j['cluster'] for j in jobs.jobs}, {'testers'})


@case('a requeued job is another run of the same number', timeout=150, needs=None)
def requeue(t):
    with Slurm(t) as s:
        a = s.submit('sleep 3000\n', '-n1', '--requeue')
        s.wait_state(a, 'RUNNING')
        s.wait_tasks(1)
        jobs = Jobs(s)
        jobs.read()
        first = jobs.job(a)
        old = {p['pid'] for p in first['processes']}
        s.requeue(a)
        s.wait_tasks(1)
        jobs.read()
        second = jobs.job(a)
        t.true('another start', second['start_s'] > first['start_s'], (first['start_s'], second['start_s']))
        t.equal('other processes', old & {p['pid'] for p in second['processes']}, set())
        t.equal('only one run is left', [j['job_id'] for j in jobs.jobs], [a])
        compare(t, s, jobs, s.pids())
        attributes(t, s, a, second)


@case('without groups: the environment and the files of a prolog', timeout=120, needs=None)
def environment(t):
    drops = t.path('slurm', 'drops')
    script = t.path('prolog.sh')
    with open(script, 'w', encoding='utf-8') as f:
        f.write(f'#!/bin/bash\nIFS=,\nfor i in $SLURM_JOB_GPUS; do echo "$SLURM_JOB_ID $SLURM_JOB_UID" >{drops}/$i; done\n')
    os.chmod(script, 0o755)
    with Slurm(t, cgroups=False, prolog=f'Prolog={script}') as s:
        a = s.submit('srun -n2 --overlap sleep 3000\n', '-n2', '--gpus-per-node=3', '--account=bio', user='games')
        s.wait_state(a, 'RUNNING')
        pids = s.wait_tasks(3)
        jobs = Jobs(s, f'--drops={drops}', '--no-controller', '--no-node')
        jobs.read()
        # slurmstepd itself runs with the daemon's environment: nothing says that it is the job's.
        compare(t, s, jobs, pids)
        j = jobs.job(a)
        t.equal('known locally', (j['id'], j['user'], j['account'], j['partition'], j['uid'], j['cluster']),
                (str(a), 'games', '', 'debug', 5, 'testers'))  # fmt: skip
        t.equal('GPUs of the prolog', (j['gpu_mask'], j['source']), (0b111, FROM_ENVIRON | FROM_DROP))
        t.equal('commands', jobs.all['commands'], 0)
        t.equal('exit of show_jobs', jobs.close(), 0)


@case('a process of ours that cannot be read is told by the node', timeout=120, needs=None)
def told(t):
    with Slurm(t, cgroups=False) as s:
        a = s.submit('srun -n2 --overlap sleep 3000\n', '-n2', user='root')
        s.wait_state(a, 'RUNNING')
        pids = s.wait_tasks(3)
        # Another user reads neither environments of root nor its groups; the sockets of slurmstepd are
        # open to all, and answer whose processes they run.
        words = [os.path.join(harness.fake, 'show_jobs'), f'--conf={s.conf}']
        copy = s.path('work', 'show_jobs')
        with open(words[0], 'rb') as f, open(copy, 'wb') as to:
            to.write(f.read())
        os.chmod(copy, 0o755)
        done = subprocess.run([copy, *words[1:]], capture_output=True, text=True, user='games', group='games', extra_groups=[],
                              timeout=60, cwd='/')  # fmt: skip
        t.equal('exit status', done.returncode, 0)
        rows = {p['pid']: (j, p) for j in json.loads(done.stdout)['jobs'] if j['kind'] == SLURM for p in j['processes']}
        said = {pid: row for pid, row in pids.items() if row[2] != '-'}
        for pid, (job, step, local, rank) in said.items():
            j, p = rows.get(pid, (None, None))
            t.true(f'pid {pid} is known', j, done.stderr)
            if j:
                t.equal(f'pid {pid}', (j['job_id'], p['step'], p['rank'], bool(j['source'] & FROM_NODE)),
                        (job, step, int(rank), True))  # fmt: skip


@case('the controller is gone: what the node knows stays', timeout=120, needs=None, alone='jobs')
def no_controller(t):
    with Slurm(t) as s:
        a = s.submit('srun -n2 --overlap sleep 3000\n', '-n2', '--account=bio', '-J', NAME, user='games')
        s.wait_state(a, 'RUNNING')
        pids = s.wait_tasks(3)
        number = int(harness.read_text(s.path('slurmctld.pid')))
        os.kill(number, 19)  # it stands still
        jobs = Jobs(s, '--no-node')
        began = time.monotonic()
        jobs.read()
        took = time.monotonic() - began
        os.kill(number, 18)
        compare(t, s, jobs, pids)
        j = jobs.job(a)
        # Its group is root's and names the user; an account the environment alone says.
        t.equal('known', (j['id'], j['user'], j['account'], j['name'], j['partition']), (str(a), 'games', '', NAME, 'debug'))
        t.equal('sources', j['source'], FROM_CGROUP | FROM_ENVIRON)
        t.note(f'a controller that does not answer held the question up for {took:.1f} s')
        # The form that this Slurm does not know, and the one that waits.
        t.equal('commands', (jobs.all['commands'], jobs.all['late']), (2, 1))


@case('gpuscope top --once has the job of each process', timeout=120, needs=None)
def top(t):
    with Slurm(t) as s:
        a = s.submit('srun -n2 --overlap sleep 3000\n', '--array=4', '-n2', '--account=bio', user='games')
        pids = s.wait_tasks(3)
        run = t.tool('top', '--once', '--format', 'json', '-a', status=0, env={'SLURM_CONF': s.conf})
        rows = {p['pid']: p for p in json.loads(run.out)['processes']}
        for pid in pids:
            t.equal(f'job of {pid}', rows[pid].get('job'), f'{a}_4')
        t.equal('of none', {p.get('job') for pid, p in rows.items() if pid == os.getpid()}, {None})


@case('gpuscope gpu has the job of the process on a GPU', timeout=120, needs=None)
def gpu(t):
    library = os.path.join(harness.fake, '..', 'fake', 'libnvidia-ml.so.1')
    if not os.path.exists(library):
        raise Skip('the stand-in of NVML is not built')
    with Slurm(t) as s:
        # The stand-in's process is the one that asks.
        words = [harness.gpuscope, 'gpu', '--nvml', library, '--window', '0.1', '--format']
        done = s.run('srun', '-n1', *words, 'json')
        t.equal('JSON', {p['job'] for p in json.loads(done.stdout)['processes']}, {str(s.first_job)})
        t.match('table', rf'\[job {s.first_job + 1}\]', s.run('srun', '-n1', *words, 'table').stdout)
        rows = list(csv.DictReader(s.run('srun', '-n1', *words, 'csv', '--processes').stdout.splitlines()))
        t.equal('CSV', {r['job'] for r in rows}, {str(s.first_job + 2)})
        outside = json.loads(t.tool(*words[1:], 'json').out)
        t.true('outside of a job', all(not p['job'] for p in outside['processes']), outside['processes'])


if __name__ == '__main__':
    main(beside='jobs')
