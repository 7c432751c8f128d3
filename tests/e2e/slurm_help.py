"""A real Slurm of the test's own: munged, slurmctld and two slurmd (nodes "n1" and "n2") on this machine, all of it
in the test's folder, on free ports, beside any Slurm that may run here."""

import getpass
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys

from harness import Skip, read_text, wait_until

PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'scontrol', 'sbatch', 'srun', 'squeue', 'scancel')
GPUS = 4


def find(program):
    return shutil.which(program, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def has_cgroup1():
    """Controllers of version 1 that Slurm's plug-in wants, below /sys/fs/cgroup."""
    types = {line.split()[1]: line.split()[2] for line in read_text('/proc/mounts').splitlines()}
    return all(types.get(f'/sys/fs/cgroup/{c}') == 'cgroup' for c in ('freezer', 'cpuset'))


class Slurm:
    def __init__(self, t):
        missing = [p for p in PROGRAMS if not find(p)]
        if missing:
            raise Skip(f'{missing[0]} is not installed (packages slurmctld, slurmd, slurm-client, munge)')
        if os.geteuid() != 0:
            raise Skip('needs root: slurmd starts jobs of several users')
        self.t, self.root, self.host = t, t.path('slurm'), socket.gethostname().split('.')[0]
        self.cgroups = has_cgroup1()
        self.nodes = ['n1', 'n2']
        self.ports = [free_port() for _ in range(3)]
        os.makedirs(self.root, exist_ok=True)
        os.chmod(self.root, 0o755)
        self.conf = os.path.join(self.root, 'slurm.conf')
        self.env = {k: v for k, v in os.environ.items() if not k.startswith('SLURM_')}
        self.env['SLURM_CONF'] = self.conf
        self.write()
        self.start()

    def path(self, *names):
        return os.path.join(self.root, *names)

    def put(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as f:
            f.write(text)

    def write(self):
        for folder in ('munge', 'state', 'spool.n1', 'spool.n2', 'work', 'dev'):
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
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=2
MinJobAge=300
KillWait=2
GresTypes=gpu
NodeName=n1 NodeHostname={self.host} NodeAddr=127.0.0.1 Port={self.ports[1]} CPUs=8 RealMemory=4000 Gres=gpu:a100:{GPUS} State=UNKNOWN
NodeName=n2 NodeHostname={self.host} NodeAddr=127.0.0.1 Port={self.ports[2]} CPUs=8 RealMemory=4000 Gres=gpu:a100:{GPUS} State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=long Nodes=ALL MaxTime=INFINITE State=UP
''')
        for i in range(GPUS):
            self.put(f'dev/gpu{i}', '')
        self.put('gres.conf', f'NodeName=n[1-2] Name=gpu Type=a100 File={self.path("dev")}/gpu[0-{GPUS - 1}]\n')
        # Nothing is bound to processors: a job may ask for more than there are.
        self.put('cgroup.conf', 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainCores=no\n'
                                'ConstrainRAMSpace=no\n')  # fmt: skip

    def daemon(self, *words):
        log = open(self.path(os.path.basename(words[0]) + '.out'), 'ab')
        subprocess.Popen([find(words[0]), *words[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)

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
            return done.stdout.split() == ['n1', 'idle', 'n2', 'idle']

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

    def show(self, job):
        """key=value of scontrol show job, of one job."""
        text = self.run('scontrol', '-o', 'show', 'job', str(job)).stdout
        return dict(word.split('=', 1) for word in text.split() if '=' in word)

    def state(self, job):
        return self.run('squeue', '-h', '-t', 'all', '-j', str(job), '-o', '%T', check=False).stdout.split()

    def wait_state(self, job, wanted, seconds=60):
        wait_until(lambda: wanted in self.state(job), seconds, f'job {job} {wanted}; now {self.state(job)}')

    def pids(self):
        """[pid, job, step] of all that slurmstepd says it runs here, of both nodes."""
        rows = []
        for node in self.nodes:
            done = self.run('scontrol', 'listpids', '', node, check=False)
            for line in done.stdout.splitlines()[1:]:
                words = line.split()
                if len(words) >= 3 and words[0] != '-1':
                    rows.append((int(words[0]), words[1], words[2], node))
        return rows
