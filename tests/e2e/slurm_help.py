"""A real Slurm of the test's own: munged, slurmctld and two slurmd on this machine, all of it in the test's folder, on
free ports, with node names of its own, beside any Slurm that may run here."""

import os
import pwd
import random
import shutil
import socket
import stat
import subprocess
import time

import harness
from harness import Skip, free_port, read_text, wait_until

PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'scontrol', 'sbatch', 'srun', 'squeue', 'scancel')
GPUS = 4


def find(program):
    return shutil.which(program, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')


def has_cgroup1():
    """Controllers of version 1 that Slurm's plug-in wants, below /sys/fs/cgroup."""
    types = {line.split()[1]: line.split()[2] for line in read_text('/proc/mounts').splitlines()}
    return all(types.get(f'/sys/fs/cgroup/{c}') == 'cgroup' for c in ('freezer', 'cpuset'))


class Slurm:
    def __init__(self, t, cgroups=True, prolog=''):
        missing = [p for p in PROGRAMS if not find(p)]
        if missing:
            raise Skip(f'{missing[0]} is not installed (packages slurmctld, slurmd, slurm-client, munge)')
        if os.geteuid() != 0:
            raise Skip('needs root: slurmd starts jobs of several users')
        self.t, self.root, self.host = t, t.path('slurm'), socket.gethostname().split('.')[0]
        self.cgroups, self.prolog = cgroups, prolog
        if cgroups and not has_cgroup1():
            raise Skip('no cgroup hierarchies of version 1 are mounted: Slurm 22.05 cannot use version 2 without systemd')
        prefix = f'p{os.getpid()}n'
        self.nodes, self.node_list = [prefix + '1', prefix + '2'], prefix + '[1-2]'
        self.ports = [free_port() for _ in range(3)]
        os.makedirs(self.root, exist_ok=True)
        os.chmod(self.root, 0o755)
        # Job numbers of its own: another Slurm on this machine, or what one left, may have the first ones.
        self.first_job = random.randrange(1000000, 60000000)
        self.conf = os.path.join(self.root, 'slurm.conf')
        self.env = {k: v for k, v in os.environ.items() if not k.startswith('SLURM_')}
        self.env['SLURM_CONF'] = self.conf
        self.daemons = []
        self.write()
        try:
            self.start()
        except BaseException:
            self.end_daemons()
            raise

    def path(self, *names):
        return os.path.join(self.root, *names)

    def put(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as f:
            f.write(text)

    def write(self):
        for folder in ('munge', 'state', 'work', 'dev', 'drops', *(f'spool.{n}' for n in self.nodes)):
            os.makedirs(self.path(folder), exist_ok=True)
        os.chmod(self.path('work'), 0o777)
        with open(self.path('munge', 'key'), 'wb') as f:
            f.write(os.urandom(1024))
        os.chmod(self.path('munge', 'key'), 0o400)
        # Processors are promised, not used: as many as the tests' jobs want.
        self.put('slurm.conf', f'''
ClusterName=testers
SlurmctldHost={self.host}(127.0.0.1)
SlurmctldPort={self.ports[0]}
SlurmUser=root
FirstJobId={self.first_job}
AuthType=auth/munge
AuthInfo=socket={self.path('munge', 'socket')}
CredType=cred/munge
StateSaveLocation={self.path('state')}
SlurmdSpoolDir={self.path('spool.%n')}
SlurmctldPidFile={self.path('slurmctld.pid')}
SlurmdPidFile={self.path('slurmd.%n.pid')}
SlurmctldLogFile={self.path('slurmctld.log')}
SlurmdLogFile={self.path('slurmd.%n.log')}
ProctrackType={'proctrack/cgroup' if self.cgroups else 'proctrack/linuxproc'}
TaskPlugin={'task/cgroup' if self.cgroups else 'task/none'}
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1
MinJobAge=300
KillWait=2
{self.prolog}
GresTypes=gpu
NodeName={self.nodes[0]} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={self.ports[1]} CPUs=8 RealMemory=4000 Gres=gpu:a100:{GPUS} State=UNKNOWN
NodeName={self.nodes[1]} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={self.ports[2]} CPUs=8 RealMemory=4000 Gres=gpu:a100:{GPUS} State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=long Nodes=ALL MaxTime=INFINITE State=UP
''')
        for i in range(GPUS):
            os.mknod(self.path('dev', f'gpu{i}'), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.put('gres.conf', f'NodeName={self.node_list} Name=gpu Type=a100 File={self.path("dev")}/gpu[0-{GPUS - 1}]\n')
        # Nothing is bound to processors: a job may ask for more than there are.
        self.put('cgroup.conf', 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainCores=no\n'
                                'ConstrainRAMSpace=no\n')  # fmt: skip

    def daemon(self, *words):
        log = open(self.path(os.path.basename(words[0]) + '.out'), 'ab')
        self.daemons.append(subprocess.Popen([find(words[0]), *words[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env))

    def logs(self):
        return ' | '.join(f'{name}: {read_text(self.path(name))[-600:]}'
                          for name in sorted(os.listdir(self.root)) if name.endswith(('.log', '.out')))  # fmt: skip

    def start(self):
        m = self.path('munge')
        self.daemon('munged', '--foreground', '--force', f'--key-file={m}/key', f'--socket={m}/socket',
                    f'--pid-file={m}/pid', f'--log-file={m}/log', f'--seed-file={m}/seed')  # fmt: skip
        wait_until(lambda: os.path.exists(f'{m}/socket'), 20, 'the socket of munged')
        self.daemon('slurmctld', '-D', '-i')
        for node in self.nodes:
            self.daemon('slurmd', '-D', '-N', node)

        def ready():
            done = self.run('sinfo', '-h', '-N', '-p', 'debug', '-o', '%N %T', check=False)
            return done.stdout.split() == [w for n in self.nodes for w in (n, 'idle')]

        try:
            wait_until(ready, 60, 'two idle nodes')
        except AssertionError as e:
            raise AssertionError(f'{e}: {self.logs()}') from e

    def run(self, *words, user=None, check=True, timeout=30):
        more = {}
        if user:
            who = pwd.getpwnam(user)
            more = {'user': who.pw_uid, 'group': who.pw_gid, 'extra_groups': []}
        done = subprocess.run([find(words[0]), *words[1:]], capture_output=True, text=True, env=self.env, timeout=timeout,
                              cwd=self.path('work'), **more)  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f'{words}: {done.returncode}: {done.stderr} {self.logs()}')
        return done

    def submit(self, script, *options, user='root'):
        """sbatch; the number of the job."""
        name = f'script{len(os.listdir(self.path("work")))}.sh'
        path = self.path('work', name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write('#!/bin/bash\n' + script)
        os.chmod(path, 0o755)
        done = self.run('sbatch', '--parsable', '--output=/dev/null', '--export=ALL', *options, path, user=user)
        return int(done.stdout.strip().split(';')[0])

    def squeue(self, job, columns):
        """Values of one job of ours, by squeue's letters: -j of an array, or of a het job, shows all of it."""
        rows = {c: self.run('squeue', '-h', '-r', '-t', 'all', '-j', str(job['job_id']), '-o', '%A|%' + c).stdout
                for c in columns}  # fmt: skip
        mine = f'{job["job_id"]}|'
        return {c: next(line[len(mine):] for line in text.splitlines() if line.startswith(mine))
                for c, text in rows.items()}  # fmt: skip

    def state(self, job):
        return self.run('squeue', '-h', '-t', 'all', '-j', str(job), '-o', '%T', check=False).stdout.split()

    def wait_state(self, job, wanted, seconds=60):
        try:
            wait_until(lambda: wanted in self.state(job), seconds, f'job {job} {wanted}')
        except AssertionError as e:
            raise AssertionError(f'{e}: it is {self.state(job)}: {self.logs()}') from e

    def requeue(self, job):
        """Ends the run of a job and waits for its next one. Slurm would begin it after two minutes, because slurmd
        refuses what was allowed in the second in which it took the old run's rights back, or earlier, and the job then
        has failed. A few seconds are enough for that."""
        self.run('scontrol', 'requeue', str(job))
        self.wait_state(job, 'PENDING')
        self.run('scontrol', 'update', f'JobId={job}', 'StartTime=now+4')
        self.wait_state(job, 'RUNNING')

    def pids(self):
        """{pid: (job, step, local id, global id)} of all that its slurmstepds say they run, of both nodes."""
        rows = {}
        for node in self.nodes:
            for line in self.run('scontrol', 'listpids', '*', node, check=False).stdout.splitlines()[1:]:
                pid, job, step, local, rank = line.split()
                if pid != '-1':
                    rows[int(pid)] = int(job), step, local, rank
        return rows

    def wait_tasks(self, wanted, seconds=60):
        """Until so many processes are tasks of steps (not what those started); all pids then."""
        def count():
            return sum(r[2] != '-' for r in self.pids().values())

        try:
            wait_until(lambda: count() == wanted, seconds, f'{wanted} tasks')
        except AssertionError as e:
            raise AssertionError(f'{e}: there are {self.pids()}: {self.logs()}') from e
        time.sleep(0.3)  # what the tasks start themselves
        return self.pids()

    def end_daemons(self):
        """What they keep is in the folder of the test."""
        for daemon in reversed(self.daemons):
            daemon.kill()
            daemon.wait()
        self.daemons = []

    def stop(self):
        """Its jobs first, so that their groups go away."""
        try:
            if self.daemons:
                self.end_jobs()
        finally:
            self.end_daemons()

    def end_jobs(self):
        for user in ('root', 'games', 'nobody'):
            self.run('scancel', f'--user={user}', check=False)
        end = time.monotonic() + 20 * harness.PATIENCE
        while time.monotonic() < end and self.run('squeue', '-h', check=False).stdout.strip():
            time.sleep(0.1)
        for hierarchy in os.listdir('/sys/fs/cgroup'):
            for node in self.nodes:
                for folder, _, _ in os.walk(f'/sys/fs/cgroup/{hierarchy}/slurm_{node}', topdown=False):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
