#!/usr/bin/env python3
"""Runs the labelled jobs (workloads.py) one after the other, has gpuscope name each, and prints the
confusion table: what they were made to be short of against what was said. `make job-verdicts`. The held set,
whose labels are older than its first run, has a table of its own.

usage: jobs.py GPUSCOPE [--spin N] [--seconds S] [--keep FILE] [WORD...]

--spin: so many other programs that compute meanwhile. --keep: each report, as JSON lines. WORD: only
jobs with all of them in their names. As root. What a machine lacks is a SKIP with the reason. The exit
status is 1 when more than 1 of 25 is named wrongly, or harmful advice was given.
"""

import argparse
import collections
import dataclasses
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'e2e'))
import slurm_help  # noqa: E402
from workloads import COLUMNS, HELD, JOBS  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SETTLE_S = 2  # a job of Slurm is measured after its start-up
GROUPS = '/sys/fs/cgroup'
TOOLS = ('fio', 'gcc', 'hpcc', 'iperf3', 'mpirun', 'stress-ng', 'sysbench', 'tc', 'ip')


class Lacking(Exception):
    pass


class Slurm(slurm_help.Slurm):
    """With the memory of jobs limited."""

    def put(self, name, text):
        super().put(name, text.replace('ConstrainRAMSpace=no', 'ConstrainRAMSpace=yes') if name == 'cgroup.conf' else text)


@dataclasses.dataclass
class Folder:  # what slurm_help wants of a test
    root: str

    def path(self, *names):
        return os.path.join(self.root, *names)


class Run:
    def __init__(self, options, root):
        self.options, self.root = options, root
        self.python = '/usr/bin/python3'
        self.load = os.path.join(root, 'job_load')
        self.slurm, self.n = None, 0
        subprocess.run(['gcc', '-O1', '-pthread', '-o', self.load, os.path.join(HERE, 'job_load.c')], check=True)
        self.openmp = os.path.join(root, 'held')
        subprocess.run(['gcc', '-O1', '-fopenmp', '-o', self.openmp, os.path.join(HERE, 'held.c')], check=True)
        for name in os.listdir(HERE):
            if name.endswith('.py'):
                shutil.copy(os.path.join(HERE, name), root)
        subprocess.run('dd if=/dev/urandom of=big bs=1M count=512; for i in 1 2 3 4; do cat big; done >huge', shell=True,
                       cwd=root, stderr=subprocess.DEVNULL, check=True)  # fmt: skip
        with open(os.path.join(root, 'code.c'), 'w', encoding='ascii') as f:
            f.writelines(f'int f{i}(int a, int b) {{ int s = 0; for (int i = a; i < b; i++) s += i * {i} % (a + 1); return s; }}\n'
                         for i in range(1500))  # fmt: skip
        if os.path.exists('/usr/share/doc/hpcc/examples/_hpccinf.txt'):
            shutil.copy('/usr/share/doc/hpcc/examples/_hpccinf.txt', os.path.join(root, 'hpccinf.txt'))
        subprocess.run(['sysbench', 'fileio', '--file-total-size=256M', '--file-num=16', 'prepare'], cwd=root,
                       stdout=subprocess.DEVNULL, check=True)  # fmt: skip
        os.chmod(root, 0o777)

    def text(self, command, port, host):
        values = {'load': self.load, 'openmp': self.openmp, 'held': f'{self.python} held.py', 'w': self.root, 'python': self.python, 'port': str(port), 'host': host}
        for key, value in values.items():
            command = command.replace('{' + key + '}', value)
        return command

    def start(self, command, prefix=()):
        return subprocess.Popen([*prefix, 'bash', '-c', command], cwd=self.root, stdin=subprocess.DEVNULL, start_new_session=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def measure(self, words, env=None):
        words = [self.options.gpuscope, 'job', *words, '-d', str(self.options.seconds), '--format', 'json']
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=env)
        if done.returncode:
            raise Lacking(done.stderr.strip()[-300:])
        return json.loads(done.stdout)['jobs'][0]

    def report(self, job):
        self.n += 1
        for name in ('big', 'huge'):  # their pages are nobody's before
            with open(os.path.join(self.root, name), 'rb') as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if job.slurm:
            return self.report_slurm(job)
        with Confined(self, job) as place:
            if job.peer:
                place.peer = self.start(self.text(job.peer, place.port, place.host), place.peer_prefix)
                wait_peer(place.peer, place.port)
            place.job = self.start(place.enter + self.text(job.command, place.port, place.host))
            time.sleep(job.settle_s)
            if place.job.poll() is not None:
                raise Lacking(f'it ended with {place.job.returncode}')
            return self.measure(['--cgroup', '/' + place.name] if job.by_cgroup else ['-p', str(place.job.pid)])

    def report_slurm(self, job):
        if not self.slurm:
            try:
                self.slurm = Slurm(Folder(self.root))
            except slurm_help.Skip as e:
                raise Lacking(str(e)) from e
        script = f'cd {self.root}\n' + self.text(job.command, 0, '') + '\n'
        job_id = self.slurm.submit(script, *job.slurm)
        try:
            self.slurm.wait_state(job_id, 'RUNNING')
            time.sleep(SETTLE_S)
            return self.measure(['-j', str(job_id)], {**os.environ, 'SLURM_CONF': self.slurm.conf})
        finally:
            self.slurm.run('scancel', str(job_id), check=False)
            slurm_help.wait_until(lambda: 'RUNNING' not in self.slurm.state(job_id), 60, 'the end of the job')

    def close(self):
        if self.slurm:
            self.slurm.stop()


def children_of(pid):
    return [int(child) for path in glob.glob(f'/proc/{pid}/task/*/children') for child in read_words(path)]


def read_words(path):
    try:
        with open(path, encoding='ascii') as f:
            return f.read().split()
    except OSError:
        return []


def send(pid, number, whole_group=False):
    try:
        (os.killpg if whole_group else os.kill)(pid, number)
    except ProcessLookupError:
        pass


def end_tree(leader):
    """The session and what left it: processes of fio have sessions of their own, and what one job left would compute
    beside all that follow. Stopped first, from the top, as what runs can still start others."""
    send(leader, signal.SIGSTOP, True)
    tree = [leader]
    for pid in tree:
        send(pid, signal.SIGSTOP)
        tree += children_of(pid)
    for pid in tree:
        send(pid, signal.SIGKILL)
    send(leader, signal.SIGKILL, True)


def wait_peer(peer, port):
    """Until it takes connections: a state of 0A, of the network that it sees."""
    end = time.monotonic() + 60
    while time.monotonic() < end and peer.poll() is None:
        words = read_words(f'/proc/{peer.pid}/net/tcp') + read_words(f'/proc/{peer.pid}/net/tcp6')
        if any(w.endswith(f':{port:04X}') and words[i + 2] == '0A' for i, w in enumerate(words[:-2])):
            return
        time.sleep(0.1)
    raise Lacking('its peer does not listen')


class Confined:
    """The cgroups and the network of a job, and its end."""

    def __init__(self, run, job):
        self.run, self.wanted = run, job
        self.name, self.job, self.peer = f'job_verdicts_{os.getpid()}_{run.n}', None, None
        self.groups, self.enter, self.host, self.peer_prefix = [], '', '127.0.0.1', ()
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]

    def group(self, controller, key, value):
        path = os.path.join(GROUPS, controller, self.name)
        if not os.path.exists(os.path.join(GROUPS, controller, 'cgroup.procs')):
            raise Lacking(f'no cgroup hierarchy {controller} of version 1')
        os.mkdir(path)
        self.groups.append(path)
        with open(os.path.join(path, key), 'w', encoding='ascii') as f:
            f.write(value)
        self.enter += f'echo $$ >{path}/cgroup.procs; '

    def shape(self, options):
        ours, theirs, space = f'jv{os.getpid()}a', f'jv{os.getpid()}b', self.name
        self.host, self.peer_prefix = '10.231.7.2', ('ip', 'netns', 'exec', space)
        for words in (f'netns add {space}', f'link add {ours} type veth peer name {theirs} netns {space}',
                      f'addr add 10.231.7.1/30 dev {ours}', f'link set {ours} up',
                      f'-n {space} addr add 10.231.7.2/30 dev {theirs}', f'-n {space} link set {theirs} up'):  # fmt: skip
            if subprocess.run(['ip', *words.split()], capture_output=True, check=False).returncode:
                raise Lacking(f'no such network here: ip {words}')
        if subprocess.run(f'tc qdisc add dev {ours} root tbf {options}', shell=True, capture_output=True, check=False).returncode:
            raise Lacking('this kernel has no tbf')

    def __enter__(self):
        try:
            if self.wanted.memory:
                self.group('memory', 'memory.limit_in_bytes', self.wanted.memory)
            if self.wanted.quota:
                self.group('cpu', 'cpu.cfs_quota_us', str(int(self.wanted.quota * 100000)))
            if self.wanted.shaped:
                self.shape(self.wanted.shaped)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for p in (self.job, self.peer):
            if p:
                end_tree(p.pid)
                p.wait()
        for path in self.groups:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                # What left the session is in the group still.
                with open(os.path.join(path, 'cgroup.procs'), encoding='ascii') as f:
                    for pid in f.read().split():
                        try:
                            os.kill(int(pid), signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                try:
                    os.rmdir(path)
                    break
                except OSError:
                    time.sleep(0.1)
        if self.wanted.shaped:
            subprocess.run(['ip', 'netns', 'del', self.name], capture_output=True, check=False)


def column_of(name):
    return next((c for c, names in COLUMNS.items() if name in names), name)


def print_tables(title, rows, options):
    if not rows:
        return
    said = [*COLUMNS, *sorted({r.said for r in rows} - set(COLUMNS))]
    table = collections.Counter((r.job.label, r.said) for r in rows)
    print(f'\n{title}\n{"label / said":14}' + ''.join(f'{c:>8}' for c in said) + f'{"right":>8}')
    for label in dict.fromkeys(r.job.label for r in rows):
        mine = [r for r in rows if r.job.label == label]
        print(f'{label:14}' + ''.join(f'{table[label, c] or "":>8}' for c in said) + f'{sum(r.right for r in mine):5}/{len(mine)}')
    harm = sum(len(r.harm) for r in rows)
    print(f'{sum(r.right for r in rows)} of {len(rows)} named rightly, {harm} pieces of harmful advice; {options.spin} other programs computed')


@dataclasses.dataclass
class Row:
    job: object
    said: str
    right: bool
    harm: list


def judge(job, report):
    c = report['classification']
    said = column_of(c['type'])
    harm = [a['rule'] for a in c['advice'] if a['rule'] in job.forbidden]
    return Row(job, said, said in job.label.split('|'), harm)


FIGURES = ('cpus_busy', 'cpu_percent', 'cpu_demand_percent', 'runqueue_percent', 'io_percent', 'net_percent', 'lock_percent', 'sleep_percent')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('gpuscope', type=os.path.abspath)
    p.add_argument('--spin', type=int, default=0)
    p.add_argument('--seconds', type=int, default=6)
    p.add_argument('--keep')
    p.add_argument('word', nargs='*')
    o = p.parse_intermixed_args()
    lacking = [t for t in TOOLS if not shutil.which(t)]
    if lacking:
        sys.exit(f'not installed: {" ".join(lacking)}')
    if subprocess.run(['/usr/bin/python3', '-c', 'import mpi4py, numpy'], capture_output=True, check=False).returncode:
        sys.exit('not installed: python3-mpi4py, python3-numpy')
    # What is ended from outside leaves no daemon either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows, skipped = [], 0
    spinners = [subprocess.Popen(['sh', '-c', 'while :; do :; done']) for _ in range(o.spin)]
    with tempfile.TemporaryDirectory(prefix='job_verdicts.') as root:
        run = Run(o, root)
        try:
            for job in JOBS + HELD:
                if not all(w in job.name for w in o.word):
                    continue
                try:
                    report = run.report(job)
                except Lacking as e:
                    skipped += 1
                    print(f'SKIP   {job.name:32} {e}', flush=True)
                    continue
                row = judge(job, report)
                rows.append(row)
                figures = report.get('figures', {})
                print(f'{"right" if row.right else "WRONG"}  {job.name:32} {job.label:8} {report["classification"]["type"]:22}'
                      + ' '.join(f'{k.removesuffix("_percent")} {figures.get(k)}' for k in FIGURES)
                      + (f'  HARMFUL {row.harm}' if row.harm else ''), flush=True)  # fmt: skip
                if o.keep:
                    with open(o.keep, 'a', encoding='utf-8') as f:
                        f.write(json.dumps({'name': job.name, 'label': job.label, 'load': os.getloadavg()[0], 'report': report}) + '\n')
        finally:
            run.close()
            for s in spinners:
                s.kill()
    print_tables('labelled jobs', [r for r in rows if r.job in JOBS], o)
    print_tables('held set', [r for r in rows if r.job in HELD], o)
    if skipped:
        print(f'{skipped} left out')
    bad = sum(not r.right for r in rows) * 25 > len(rows) or any(r.harm for r in rows)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
