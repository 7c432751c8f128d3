#!/usr/bin/env python3
"""gpuscope job on loads that are known: classes, scores, times that sum to wall time, formats,
selections, comparison; once with probes and once with what procfs tells."""
import calendar
import contextlib
import csv
import fcntl
import io
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import termios
import time

import harness
from browser import Browser
from harness import Skip, case, main, page_report, read_text, wait_until
from job_help import LANE_OF_USER, USER

OFF = 'ebpf:\n  enabled: false\n'
BURN = 'while True: pass'
SLEEP = 'import time\nwhile True: time.sleep(0.2)'
LOCKS = '''
import threading, time
lock = threading.Lock()
def fight():
    while True:
        with lock:
            time.sleep(0.005)
for _ in range(8):
    threading.Thread(target=fight).start()
'''
DIRECT = '''
import mmap, os, sys
page = mmap.mmap(-1, 1 << 22)
f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
while True:
    for at in range(32):
        os.pwrite(f, page, at << 22)
'''
CROWD = '''
import hashlib, select, threading, time
lock, data = threading.Lock(), bytes(1 << 20)
def work(kind):
    while True:
        if kind == 0:
            hashlib.sha256(data)  # without Python's lock
        elif kind == 1:
            time.sleep(0.003)
        else:
            with lock:
                select.select([], [], [], 0.001)
for i in range(24):
    threading.Thread(target=work, args=(i % 3,)).start()
'''
LOADER = '''
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset
workers, item_s, threads, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
if threads:
    torch.set_num_threads(threads)
class Data(Dataset):
    def __len__(self):
        return 1 << 30
    def __getitem__(self, i):
        if item_s:
            time.sleep(item_s)
        return torch.ones(64) * (i % 7)
model = torch.nn.Sequential(torch.nn.Linear(64, size), torch.nn.ReLU(), torch.nn.Linear(size, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for n, x in enumerate(DataLoader(Data(), batch_size=8, num_workers=workers)):
    optimizer.zero_grad()
    (model(x.repeat(16, 1)) ** 2).mean().backward()
    optimizer.step()
    if n == 10:
        open(sys.argv[5], 'w').close()
'''
NET = '''
import os, socket, time
a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen()
if os.fork() == 0:
    c = socket.create_connection(a.getsockname())
    while True:
        time.sleep(0.02); c.sendall(b"x" * 1000); c.recv(1000)
s, _ = a.accept()
while True:
    s.sendall(s.recv(1000))
'''

UNASKED = '''
import asyncio, socket, threading
a = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=a.accept).start()
async def main():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    await server.serve_forever()
asyncio.run(main())
'''


# Programs of Python are given this beginning: the interpreter has started and the text is compiled.
STARTED = 'import os\nopen(os.environ["STARTED"], "w").close()\n'


class Load:
    """A program of its own session that is killed with all it started."""

    def __init__(self, t, command, cpu=None):
        t.n_files += 1
        self.started = t.path(f'started{t.n_files}')
        words = [STARTED + w if before == '-c' and command[0] == sys.executable else w for before, w in zip([None, *command], command)]
        self.waits = words != command
        self.proc = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     cwd=os.path.dirname(t.path("x")), env={**os.environ, 'STARTED': self.started})  # fmt: skip
        self.pid = self.proc.pid
        if cpu is not None:
            os.sched_setaffinity(self.pid, {cpu})

    def __enter__(self):
        """When it does its steady work, which is what is measured."""
        if self.waits:
            wait_until(lambda: os.path.exists(self.started), 60, 'its start')
        time.sleep(0.3)
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
        self.proc.wait()


def gpuscope(*args, expect=0, env=None):
    r = subprocess.run([harness.gpuscope, *args], capture_output=True, text=True, timeout=120, env=env)
    assert r.returncode == expect, (args, r.returncode, r.stderr)
    return r


def report(t, load, config, *args, seconds='2'):
    path = t.path('job.yaml')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(config)
    out = gpuscope('job', '-p', str(load.pid), '-d', seconds, '--format', 'json', '-c', path, *args).stdout
    return json.loads(out)


def one(t, load, config, **more):
    """The only job of the report, after what holds for every one."""
    whole = report(t, load, config, **more)
    job = whole['jobs'][0]
    probes = whole['monitoring_session']['config']['ebpf_enabled']
    assert probes == (config != OFF), whole['monitoring_session']
    assert (job['metrics']['total_syscalls'] is None) == (not probes)
    assert job['classification']['evidence'], job['classification']
    check_account(job)
    return job


def check_account(job):
    """The parts are those of thread_seconds, with their share of the whole: 100 % together."""
    account, times = job['wall_account'], job['thread_seconds']
    parts = {x['component']: x['ns'] / 1e9 for x in account['components']}
    assert sum(x['ns'] for x in account['components']) == account['wall_ns'] > 0, account
    assert abs(sum(x['share_pct'] for x in account['components']) - 100) < 0.1, account
    assert all(abs(x['share_pct'] - 100 * x['ns'] / account['wall_ns']) < 0.01 for x in account['components']), account
    for name, seconds in times.items():
        # What is not known by cause is null there and in "other" here.
        assert seconds is None or abs(seconds - parts.get(name, 0)) < 0.01, (name, account, times)
    assert account['not_known_apart'] == [] and 'shown_by' not in account, account  # it has no GPU
    assert set(parts) <= set(times) and all(x['source'] for x in account['components']), account


def check_wall(job, threads):
    """Every ns of every thread is somewhere."""
    total = sum(job['thread_seconds'].values())
    wall = job['duration_seconds'] * threads
    assert abs(total - wall) <= 0.01 * wall + 0.1, (total, wall, job['thread_seconds'])


def each_way(title, **more):
    def add(function):
        case(f'{title} (probes)', **more)(lambda t: function(t, '{}\n'))
        case(f'{title} (procfs)', **{**more, 'needs': None})(lambda t: function(t, OFF))
        return function

    return add


@each_way('a burner on all its processors: CPU-bound, a score near 100')
def burner(t, config):
    with Load(t, [sys.executable, '-c', BURN], cpu=max(os.sched_getaffinity(0))) as load:
        try:
            os.sched_setscheduler(load.pid, os.SCHED_RR, os.sched_param(10))
        except PermissionError:
            raise Skip('no right to give the load a processor of its own')
        job = one(t, load, config)
    assert job['cpus'] == 1, job['cpus']
    check_wall(job, 1)
    times = job['thread_seconds']
    assert times['cpu'] + times['runqueue'] > 0.95 * job['duration_seconds'], times
    if times['cpu'] < 0.87 * job['duration_seconds']:
        raise Skip(f'others took the processor: {times}')
    assert job['classification']['type'] == 'CPU-bound', job['classification']
    assert job['classification']['efficiency_score'] > 85, job['classification']


@each_way('a sleeper: Idle-heavy, a score near 0')
def sleeper(t, config):
    with Load(t, [sys.executable, '-c', SLEEP]) as load:
        job = one(t, load, config)
    assert job['classification']['type'].startswith('Idle-heavy'), job['classification']
    assert job['classification']['efficiency_score'] < 5, job['classification']
    times = job['thread_seconds']
    assert times['sleep'] > times['cpu'], times
    assert times['sleep'] + times['runqueue'] > 0.9 * job['duration_seconds'], times
    check_wall(job, 1)


@each_way('threads that fight for a lock: Lock-bound')
def locks(t, config):
    with Load(t, [sys.executable, '-c', LOCKS]) as load:
        wait_until(lambda: len(os.listdir(f'/proc/{load.pid}/task')) == 9, 30, 'eight threads')
        job = one(t, load, config)
    assert job['classification']['type'] == 'Lock-bound', job['classification']
    check_wall(job, 9)


SERVER = '''
import threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
for _ in range(4):
    event = threading.Event()
    threading.Thread(target=lambda event=event: [event.wait(0.1) for _ in iter(int, 1)], daemon=True).start()
threading.Event().wait()
'''


# As MariaDB's do: each waits on its condition, by the call that locks use, until its timer says so.
@each_way('a server whose threads wait on conditions for work that does not come: Idle, not short of a lock')
def server(t, config):
    with Load(t, [sys.executable, '-c', SERVER]) as load:
        wait_until(lambda: len(os.listdir(f'/proc/{load.pid}/task')) == 7, 30, 'six threads')
        job = one(t, load, config)
    t.true('idle', job['classification']['type'].startswith('Idle-heavy'), (job['classification'], job['figures']))
    assert job['figures']['lock_percent'] < 1 and job['figures']['idle_percent'] > 95, job['figures']
    check_wall(job, 7)


def loader(t, config, workers, item_s, threads, size):
    """What is said of a training loop of PyTorch on the CPU whose items take so long."""
    python = '/usr/bin/python3'
    if not harness.has_module(python, 'torch'):
        raise Skip('PyTorch is not installed')
    ready = t.path(f'ready{workers}{item_s}{threads}{size}')
    with Load(t, [python, '-c', LOADER, str(workers), str(item_s), str(threads), str(size), ready]) as load:
        wait_until(lambda: os.path.exists(ready), 120, 'ten steps')
        return one(t, load, config, seconds='4')


# Threads that feed queues, and pools without work, wait in the calls that locks use; processes that hand
# tensors on wait on Unix sockets. Neither is what the loop is short of.
@case('a training loop whose data loader is slow: Input-bound, by one worker or eight (probes)', timeout=400, beside='jobs')
def loader_slow(t):
    for workers, item_s, threads in ((1, 0.01, 1), (8, 0.05, 0)):
        job = loader(t, '', workers, item_s, threads, 256)
        c, f = job['classification'], job['figures']
        # Beside other tests it may be short of processors as well, and then of those first.
        is_starved = c['type'] == 'CPU-starved' and f['cpu_taken_percent'] >= 50
        assert is_starved or c['type'] == 'Input-bound', (workers, c, f)
        least = 50 if f['cpu_taken_percent'] < 50 else 0 if is_starved else 30  # 30: from there on it is input-bound
        assert f['input_percent'] >= least and f['lock_percent'] < 10 and f['net_percent'] < 10, (workers, f)
        advice = {a['rule'] for a in c['advice']}
        assert ('input' in advice or is_starved) and not advice & {'locks', 'network', 'serial', 'processors-unused'}, (workers, advice)


@each_way('a training loop whose data loader keeps up, or that has none: not short of input, locks or network')
def loader_keeps_up(t, config):
    for workers, item_s, threads in ((2, 0, 0), (0, 0.01, 0)):
        job = loader(t, config, workers, item_s, threads, 2048)
        c, f = job['classification'], job['figures']
        assert c['type'] not in ('Input-bound', 'Lock-bound', 'Network-bound'), (workers, c, f)
        assert not {a['rule'] for a in c['advice']} & {'input', 'locks', 'network'}, (workers, c['advice'])


BARRIERS = '''
static volatile double sums[2 * 16];
int main(void)
{
    for (;;) {
#pragma omp parallel for num_threads(2) schedule(static, 1)
        for (int i = 0; i < 2; i++)
            for (long k = 0; k < 3000000; k++)
                sums[i * 16] += 1;
    }
}
'''


# Each waits at the barrier in the call that locks use, for one that has done its part later.
@case('two threads that meet at barriers, on a processor that others use: short of processors, not of locks')
def barriers(t):
    with open(t.path('barriers.c'), 'w', encoding='ascii') as f:
        f.write(BARRIERS)
    gcc = ['gcc', '-O1', '-fopenmp', '-o', t.path('barriers'), t.path('barriers.c')]
    if not shutil.which('gcc') or subprocess.run(gcc, capture_output=True).returncode:
        raise Skip('gcc -fopenmp makes no programs here')
    cpu = max(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(Load(t, [sys.executable, '-c', BURN], cpu=cpu))
        with Load(t, ['env', 'OMP_WAIT_POLICY=passive', t.path('barriers')], cpu=cpu) as load:
            job = one(t, load, '', seconds='6')
    c, f, times = job['classification'], job['figures'], job['thread_seconds']
    t.true('they wait at the barrier', times['lock'] > 0, times)
    t.true('no locks', c['type'] == 'CPU-starved' and f['lock_percent'] < 10, (c, f, times))
    t.true('no advice about them', 'locks' not in {a['rule'] for a in c['advice']}, c['advice'])


@each_way('two dozen threads that compute, sleep and wait, more than there are processors: their times sum to wall time')
def crowd(t, config):
    with open(t.path('crowd.py'), 'w', encoding='utf-8') as f:
        f.write(CROWD)
    with Load(t, [sys.executable, t.path('crowd.py')]) as load:
        wait_until(lambda: len(os.listdir(f'/proc/{load.pid}/task')) == 25, 30, '24 threads')
        job = one(t, load, config)
    check_wall(job, 25)


@case('six hundred processes, found one after the other: their times sum to wall time (probes)', timeout=120)
def many(t):
    script = 'import subprocess, time\nfor i in range(600): subprocess.Popen(["sleep", "600"])\ntime.sleep(600)\n'
    with Load(t, [sys.executable, '-c', script]) as load:
        wait_until(lambda: len(read_text(f'/proc/{load.pid}/task/{load.pid}/children').split()) == 600, 60, '600 children')
        whole = report(t, load, 'output:\n  float_precision: -1\n', '--filter', 'sched', seconds='1')
    job = whole['jobs'][0]
    assert len(job['pids']) == 601, len(job['pids'])
    total, wall = sum(job['thread_seconds'].values()), job['duration_seconds'] * 601
    assert abs(total - wall) <= 0.01 * wall, (total, wall)


@each_way('a server and its client on loopback: Network-bound')
def network(t, config):
    with Load(t, [sys.executable, '-c', NET]) as load:
        wait_until(lambda: read_text(f'/proc/{load.pid}/task/{load.pid}/children').split(), 60, 'the client')
        job = one(t, load, config)
    assert job['classification']['type'] == 'Network-bound', job['classification']
    assert len(job['pids']) == 2, job['pids']
    sent = job['metrics']['network_bytes_sent']
    assert sent is None if config == OFF else sent > 10000, sent
    check_wall(job, 2)


@each_way('servers without clients, one in accept, one in epoll: Idle, not Network-bound')
def unasked(t, config):
    with Load(t, [sys.executable, '-c', UNASKED]) as load:
        job = one(t, load, config, seconds='3')
    assert job['classification']['type'].startswith('Idle'), job['classification']


@each_way('direct writes to a disk: time at the disk, bytes counted')
def disk(t, config):
    if subprocess.run(['dd', 'if=/dev/zero', f'of={t.path("probe")}', 'bs=64k', 'count=1', 'oflag=direct'],
                      capture_output=True).returncode != 0:  # fmt: skip
        raise Skip('this file system takes no O_DIRECT')
    # One writer from before the looks to their end: a short-lived one may never be found waiting.
    writer = f'{sys.executable} -c "$0" {t.path("data")}; true'
    with Load(t, ['sh', '-c', writer, DIRECT]) as load:
        wait_until(lambda: os.path.exists(t.path('data')) and os.path.getsize(t.path('data')) > 0, 60, 'the writer')
        job = one(t, load, config)
    times = job['thread_seconds']
    assert times['disk'] > 0, times
    others = ['network', 'lock', 'gpu', 'sleep'] + ['other'] * (config != OFF)
    assert times['disk'] > max(times[k] for k in others), times
    assert job['metrics']['write_bytes'] >= 65536, job['metrics']
    assert times['pipe'] > 0.5 * job['duration_seconds'], 'the shell waits for its child'


class Watched:
    """gpuscope job with a live table, until it is told to end."""

    def __init__(self, t, *args):
        self.out, self.report = t.path('live'), t.path('r.json')
        self.proc = subprocess.Popen([harness.gpuscope, 'job', '-r', '-o', self.report, *args], stdout=open(self.out, 'w'))

    def text(self):
        return read_text(self.out)

    def wait_tables(self, n):
        """So many more of them."""
        wanted = self.text().count('Classification') + n

        def seen():
            assert self.proc.poll() is None, f'it ended with {self.proc.returncode}: {self.text()}'
            return self.text().count('Classification') >= wanted

        wait_until(seen, 60, f'{n} live tables')

    def end(self, number=signal.SIGINT):
        """The report."""
        if number:
            self.proc.send_signal(number)
        assert self.proc.wait(60) == 0, self.proc.returncode
        with open(self.report, encoding='utf-8') as f:
            return json.load(f)


@case('processes that come and go between two looks are counted (probes)')
def short_lived(t):
    made = t.path('made')
    open(made, 'w').close()
    with Load(t, ['sh', '-c', f'while :; do /bin/true; echo >>{made}; done']) as load:
        watched = Watched(t, '-p', str(load.pid))
        watched.wait_tables(1)
        first = os.path.getsize(made)
        watched.wait_tables(2)
        wait_until(lambda: os.path.getsize(made) > first + 20, 60, 'more processes')
        n = os.path.getsize(made) - first
        job = watched.end()['jobs'][0]
    # The shell itself, and at least those that were begun and ended meanwhile.
    assert job['metrics']['monitored_pids'] >= n, (n, job['metrics']['monitored_pids'])
    assert job['syscall_breakdown'].get('execve', 0) >= n, (n, job['syscall_breakdown'])


@case('more processes than the kernel has room for at once, one after the other: all are counted (probes)', timeout=300)
def thousands(t):
    # Grandchildren too, which nobody has ever seen when their parent's room has been given back.
    script = ('read go; i=0; while [ $i -lt 9000 ]; do (:); i=$((i+1)); done\n'
              '(i=0; while [ $i -lt 900 ]; do (:); i=$((i+1)); done; echo done; sleep 600)')  # fmt: skip
    proc = subprocess.Popen(['/bin/sh', '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    job = subprocess.Popen([harness.gpuscope, 'job', '-p', str(proc.pid), '--filter', 'sched,syscall', '-r', '-o', t.path('r.json')],
                           stdout=open(t.path('live'), 'w'))  # fmt: skip
    try:
        wait_until(lambda: 'Classification' in read_text(t.path('live')), 60, 'it is watched')
        proc.stdin.write('go\n')
        proc.stdin.flush()
        t.equal('all were there', proc.stdout.readline(), 'done\n')
        job.send_signal(signal.SIGINT)
        t.equal('status', job.wait(60), 0)
    finally:
        os.killpg(proc.pid, signal.SIGKILL)
        proc.wait()
        job.kill()
        job.wait()
    whole = json.load(open(t.path('r.json'), encoding='utf-8'))
    j = whole['jobs'][0]
    started = sum(j['syscall_breakdown'].get(c, 0) for c in ('clone', 'fork', 'vfork', 'clone3'))
    # The shell, its 9,000, the second one, its 900 and sleep, which is a process of that one or it itself.
    t.true('calls', started in (9901, 9902), started)
    t.equal('processes', j['metrics']['monitored_pids'], started + 1)
    t.equal('lost', whole['monitoring_session']['lost'], None)


@case('the report ends with the job', needs=None)
def ends(t):
    proc = subprocess.Popen(['sleep', '600'], start_new_session=True)
    begin = time.monotonic()
    watched = Watched(t, '-p', str(proc.pid), '-d', '3600')
    watched.wait_tables(1)
    proc.kill()
    proc.wait()
    out = watched.end(None)
    assert out['jobs'][0]['ended'] is True
    assert out['jobs'][0]['duration_seconds'] <= time.monotonic() - begin


@case('JSON, CSV, YAML and table by suffix; other suffixes are refused', needs=None)
def formats(t):
    with Load(t, ['sleep', '60']) as load:
        for suffix in ('json', 'csv', 'yaml', 'txt'):
            gpuscope('job', '-p', str(load.pid), '-d', '0.3', '-o', t.path(f'r.{suffix}'))
        json.load(open(t.path('r.json'), encoding='utf-8'))
        rows = list(csv.DictReader(io.StringIO(open(t.path('r.csv'), encoding='utf-8', newline='').read())))
        assert rows[0]['job_id'] == f'tree of {load.pid}' and rows[0]['classification'], rows
        try:
            import yaml
        except ImportError:
            raise Skip('no yaml module')
        tree = yaml.safe_load(open(t.path('r.yaml'), encoding='utf-8'))
        assert tree['jobs'][0]['pids'] == [load.pid]
        assert 'efficiency' in open(t.path('r.txt'), encoding='utf-8').read()
        bad = gpuscope('job', '-p', str(load.pid), '-d', '0.3', '-o', t.path('r.pdf'), expect=2)
        assert 'suffix' in bad.stderr, bad.stderr
        full = gpuscope('job', '-p', str(load.pid), '-d', '0.3', '--format', 'csv', '-o', '/dev/full', expect=1)
        assert 'No space left' in full.stderr, full.stderr


@case('a rule of the configuration names the class', needs=None)
def custom_rule(t):
    with Load(t, ['sleep', '60']) as load:
        job = report(t, load, 'classification:\n  custom_rules:\n    - name: "small"\n'
                     '      condition: "memory_usage < 80 && cores > 0"\n', seconds='0.5')['jobs'][0]  # fmt: skip
    assert job['classification']['type'] == 'small', job['classification']
    assert job['classification']['evidence'][0].startswith('rule: memory_usage < 80'), job['classification']


@case("probes go by the names of ebpf-hpc-monitor's README, too")
def readme_probes(t):
    path = t.path('c.yaml')
    with open(path, 'w', encoding='utf-8') as f:
        f.write('ebpf:\n  buffer_size: 256\n  probes: {scheduling: false, io_events: false, network_events: false}\n')
    run = t.tool('job', '-c', path, '-p', str(os.getpid()), '-d', '1', '--format', 'json', status=0)
    t.equal('unread', run.err, f'gpuscope: {path}: ignoring keys unrelated to gpuscope job: ebpf.buffer_size (line 2)\n')
    whole = json.loads(run.out)
    sources, j = whole['monitoring_session']['sources'], whole['jobs'][0]
    for part in ('time', 'runqueue', 'switches', 'io', 'network'):
        t.equal(part, sources[part], 'not selected (ebpf.probes of the configuration)')
    t.match('calls', 'counted in the kernel', sources['syscalls'])
    t.equal('nothing of them', [j['metrics'][k] for k in ('context_switches', 'read_bytes', 'send_bytes')], [None] * 3)
    t.true('but calls', j['metrics']['total_syscalls'] is not None, j['metrics'])


@case('--filter leaves out what was not asked for, and says so', needs=None)
def filtered(t):
    with Load(t, ['sleep', '60']) as load:
        whole = report(t, load, '{}\n', '--filter', 'io', seconds='0.5')
    assert whole['jobs'][0]['metrics']['cpu_percent'] is None
    assert whole['jobs'][0]['metrics']['read_bytes'] is not None
    assert 'not selected' in whole['monitoring_session']['sources']['time']


@case('a tree is told by whose it is, what was called, since when and where', needs=None, alone=LANE_OF_USER)
def tree_who(t):
    user = pwd.getpwnam(USER)
    script = t.path('träin |,"x.py')
    with open(script, 'w', encoding='utf-8') as f:
        f.write('import time\ntime.sleep(60)\n')
    os.chmod(t.tmp, 0o755)
    begin = time.time()
    words = [sys.executable, script, 'a\nb', 'ö' * 2000]
    proc = subprocess.Popen(words, user=USER, start_new_session=True, cwd='/')
    try:
        outputs = [x for suffix in ('json', 'csv', 'txt', 'html') for x in ('-o', t.path('who.' + suffix))]
        out = gpuscope('job', '-p', str(proc.pid), '-d', '0.3', *outputs[:8]).stdout
    finally:
        proc.kill()
        proc.wait()
    assert not out, out
    whole = json.load(open(t.path('who.json'), encoding='utf-8'))
    j = whole['jobs'][0]
    t.equal('whose', [j['user'], j['uid'], j['job_name']], [USER, user.pw_uid, os.path.basename(script)])
    line = ' '.join(words).replace('\n', '?')
    t.true('what, to 1,024 bytes', line.startswith(j['command']) and 1000 < len(j['command'].encode()) < 1024, j['command'])
    since = calendar.timegm(time.strptime(j['start_time'], '%Y-%m-%dT%H:%M:%SZ'))
    t.true('since when', begin - 2 <= since <= begin + 5, (begin, since))
    t.equal('where', [whole['system_info']['hostname'], j['nodes']], [os.uname().nodename] * 1 + [[os.uname().nodename]])
    row = list(csv.DictReader(open(t.path('who.csv'), encoding='utf-8', newline='')))[0]
    t.equal('CSV', [row['user'], row['uid'], row['host'], row['command']],
            [USER, str(user.pw_uid), os.uname().nodename, j['command']])  # fmt: skip
    table = read_text(t.path('who.txt'))
    t.match('table', rf'tree of {proc.pid}  träin \|,"x\.py  of {USER} ', table)
    threads = re.search(r'\n  threads .*?\n  processors ', table, re.DOTALL).group()
    t.true('the account of its threads', abs(sum(map(float, re.findall(r'\(([\d.]+) %\)', threads))) - 100) < 0.6, threads)
    t.true('its command', f'command     {j["command"]}, since {j["start_time"]}' in table, table[:2000])
    t.equal('page', page_report(t.path('who.html')), whole)


@case('a later process with the number of one of the tree is none of it', needs=None)
def tree_reuse(t):
    last = '/proc/sys/kernel/ns_last_pid'
    if not os.access(last, os.W_OK):
        raise Skip('pids cannot be chosen: ' + last)
    root = subprocess.Popen([sys.executable, '-c', 'import subprocess, sys\nfor line in sys.stdin:\n'
                             '    p = subprocess.Popen(["sleep", "60"]); print(p.pid, flush=True)\n'
                             '    sys.stdin.readline(); p.kill(); p.wait(); print("gone", flush=True)\n'],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def ask():
        root.stdin.write('\n')
        root.stdin.flush()
        return root.stdout.readline()

    with open(t.path('off.yaml'), 'w', encoding='utf-8') as f:
        f.write(OFF)
    child = int(ask())
    job = subprocess.Popen([harness.gpuscope, 'job', '-p', str(root.pid), '-r', '-c', t.path('off.yaml'), '-o', t.path('r.json')],
                           stdout=open(t.path('live'), 'w'), env={**t.env, 'COLUMNS': '200'})  # fmt: skip
    other = None
    try:
        wait_until(lambda: re.search(r' 2  Idle', read_text(t.path('live'))), 30, 'both are seen')
        ask()
        for _ in range(200):
            with open(last, 'w') as f:
                f.write(str(child - 1))
            other = subprocess.Popen(['sleep', '60'], start_new_session=True)
            if other.pid == child:
                break
            other.kill()
            other.wait()
        else:
            raise Skip('another one had the number each time')
        n = len(read_text(t.path('live')))
        wait_until(lambda: read_text(t.path('live'))[n:].count('Classification') >= 3, 30, 'it was looked for again')
        job.send_signal(signal.SIGINT)
        t.equal('status', job.wait(30), 0)
    finally:
        for p in (root, job, *([other] if other else [])):
            p.kill()
            p.wait()
    j = json.load(open(t.path('r.json'), encoding='utf-8'))['jobs'][0]
    t.equal('processes', j['pids'], [root.pid])


@case('the live table', needs=None)
def live(t):
    with Load(t, ['sleep', '600']) as load:
        watched = Watched(t, '-p', str(load.pid))
        watched.wait_tables(2)
        watched.end()
    out = watched.text()
    assert f'tree of {load.pid}' in out or 'tree' in out, out


@case('of several that were asked for, who is not there is told; the others are reported', needs=None, beside='jobs')
def some_missing(t):
    with Load(t, ['sleep', '60']) as load:
        r = gpuscope('job', '-p', f'{load.pid},4194304', '-d', '0.3', '--format', 'json')
        env = {**os.environ, 'SLURM_JOB_ID': '987653', 'SLURM_ARRAY_JOB_ID': '987650', 'SLURM_ARRAY_TASK_ID': '3'}
        proc = subprocess.Popen(['sleep', '60'], start_new_session=True, env=env)
        try:
            time.sleep(0.3)
            array = gpuscope('job', '-j', '987650_[1-3,9],999999', '-d', '0.3', '--format', 'json')
        finally:
            proc.kill()
            proc.wait()
    assert [j['job_id'] for j in json.loads(r.stdout)['jobs']] == [f'tree of {load.pid}'], r.stdout
    assert r.stderr == 'gpuscope: no process 4194304 was here\n', r.stderr
    assert [j['job_id'] for j in json.loads(array.stdout)['jobs']] == ['987653 (claimed by root)'], array.stdout
    assert array.stderr == 'gpuscope: no process of job 999999 was here\n', array.stderr


@case('a report that cannot be written is told before anything is measured', timeout=30, needs=None)
def no_file(t):
    with Load(t, ['sleep', '60']) as load:
        for path, why in ((t.path('no', 'r.json'), 'No such file or directory'), (t.tmp, 'Is a directory')):
            # Without an end of its own: it would measure for a minute.
            r = gpuscope('job', '-p', str(load.pid), '-o', t.path('good.json'), '-o', path, '--format', 'json', expect=1)
            assert r.stderr == f'gpuscope: cannot write {path}: {why}\n', r.stderr
        assert not os.path.exists(t.path('good.json'))


@case('a live table that nobody reads any more: the report is not lost', timeout=120, needs=None)
def reader_gone(t):
    with Load(t, ['sleep', '600']) as load:
        # A pipe whose reader goes.
        p = subprocess.Popen([harness.gpuscope, 'job', '-p', str(load.pid), '-r', '-o', t.path('pipe.json')], stdout=subprocess.PIPE,
                             stderr=open(t.path('pipe.err'), 'w'))  # fmt: skip
        p.stdout.readline()
        p.stdout.close()
        wait_until(lambda: 'measurement continues' in read_text(t.path('pipe.err')), 30, 'it is told')
        p.send_signal(signal.SIGINT)
        t.equal('status', p.wait(30), 0)
        said = read_text(t.path('pipe.err')).splitlines()
        t.equal('reported', said[:1], ['gpuscope: cannot write the live table: Broken pipe; measurement continues'])
        t.match('and the file', r'wrote \S+pipe\.json \(', ' '.join(said[1:]))
        # A terminal that is closed.
        master, slave = os.openpty()

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        p = subprocess.Popen([harness.gpuscope, 'job', '-p', str(load.pid), '-r', '-o', t.path('tty.json')], stdin=slave, stdout=slave,
                             stderr=slave, start_new_session=True, preexec_fn=own_terminal)  # fmt: skip
        os.close(slave)
        text = b''
        while b'Classification' not in text:
            text += os.read(master, 65536)
        os.close(master)
        t.equal('status', p.wait(30), 0)
        # nohup's wish is kept.
        p = subprocess.Popen(['nohup', harness.gpuscope, 'job', '-p', str(load.pid), '-d', '3', '-o', t.path('nohup.json')],
                             stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        wait_until(lambda: re.search(r'SigCgt:.*2$', read_text(f'/proc/{p.pid}/status'), re.M), 30, 'it has taken its signals')
        p.send_signal(signal.SIGHUP)
        t.equal('status', p.wait(30), 0)
    for name in ('pipe.json', 'tty.json', 'nohup.json'):
        j = json.load(open(t.path(name), encoding='utf-8'))
        t.equal(name, j['jobs'][0]['job_id'], f'tree of {load.pid}')
    t.true('nohup: to its end', j['monitoring_session']['duration_seconds'] >= 2.9, j['monitoring_session']['duration_seconds'])


@case('what is not there is told', needs=None)
def nothing(t):
    assert 'no process of job 999999' in gpuscope('job', '-j', '999999', '-d', '1', expect=4).stderr
    assert 'no user' in gpuscope('job', '-u', 'no-such-user-here', expect=2).stderr
    assert 'no process' in gpuscope('job', '-p', '4194304', '-d', '1', expect=4).stderr
    assert 'one of --job-id' in gpuscope('job', '-p', '1', '-u', 'root', expect=2).stderr
    for bad in ('4711.0', '1-5', '4711_[3-1]', 'a b'):
        assert f'not "{bad}"' in gpuscope('job', '-j', bad, expect=2).stderr
    assert '--output takes a file' in gpuscope('job', '-o', '', expect=2).stderr
    assert 'not "cpu"' in gpuscope('job', '--filter', 'cpu', expect=2).stderr
    assert 'cannot read the configuration' in gpuscope('job', '-c', t.path('none'), expect=1).stderr


@case('a job is found by the environment that Slurm sets, and is shown as claimed', needs=None, beside='jobs')
def by_environment(t):
    env = {**os.environ, 'SLURM_JOB_ID': '987654', 'SLURM_JOB_NAME': 'a,b|c'}
    proc = subprocess.Popen(['sleep', '60'], start_new_session=True, env=env)
    try:
        time.sleep(0.3)
        whole = json.loads(gpuscope('job', '-j', '987654,1', '-d', '0.5', '--format', 'json').stdout)
    finally:
        proc.kill()
        proc.wait()
    job = whole['jobs'][0]
    assert (job['job_id'], job['proof'], job['user']) == ('987654 (claimed by root)', 'claimed', 'root'), job
    assert proc.pid in whole['jobs'][0]['pids'], whole['jobs'][0]['pids']


@case('reports are compared: ours and those of ebpf-hpc-monitor', needs=None)
def compare(t):
    old = {'monitoring_session': {'start_time': '2024-01-15T10:30:00Z', 'duration_seconds': 300},
           'jobs': [{'job_id': '1', 'user': 'u', 'job_name': 'n', 'duration_seconds': 300,
                     'metrics': {'cpu_percent': 87.3, 'io_percent': 8.2}, 'classification': 'CPU-bound'}]}  # fmt: skip
    json.dump(old, open(t.path('old.json'), 'w', encoding='utf-8'))
    with Load(t, ['sleep', '60']) as load:
        gpuscope('job', '-p', str(load.pid), '-d', '0.5', '-o', t.path('new.json'))
    files = [t.path('old.json'), t.path('new.json')]
    whole = json.loads(gpuscope('report', '--compare', '--format', 'json', *files).stdout)
    assert whole['summary']['total_jobs'] == 2
    assert whole['jobs'][0]['cpu_percent'] == 87.3 and whole['jobs'][0]['efficiency_score'] is None
    assert 'median' in gpuscope('report', '--compare', *files).stdout
    gpuscope('report', '--compare', '-o', t.path('c.html'), *files)
    t.equal('as a page', page_report(t.path('c.html')), whole)
    with open(t.path('none.json'), 'w', encoding='utf-8') as f:
        f.write('{"jobs": []}')
    assert 'there is no job in' in gpuscope('report', '--compare', t.path('none.json'), expect=4).stderr
    full = gpuscope('report', '--compare', '--format', 'json', '-o', '/dev/full', *files, expect=1)
    assert full.stderr == 'gpuscope: cannot write /dev/full: No space left on device\n', full.stderr
    assert 'one file at a time' in gpuscope('report', *files, expect=2).stderr


@case('a report as a page: whole, quiet, whatever the job is called', timeout=180, needs=None, beside='jobs')
def page(t):
    name = '</title><img src=x onerror="document.title=1"><script>document.title=2</script>'
    env = {**os.environ, 'SLURM_JOB_ID': '987655', 'SLURM_JOB_NAME': name, 'SLURM_STEP_ID': '0', 'SLURM_PROCID': '0'}
    proc = subprocess.Popen([sys.executable, '-c', 'while True: open("/proc/self/stat").read()'], env=env)
    try:
        time.sleep(0.3)
        gpuscope('job', '-j', '987655', '-d', '1', '-o', t.path('job.html'), '-o', t.path('job.json'))
    finally:
        proc.kill()
        proc.wait()
    assert 'format' in gpuscope('job', '--format', 'pdf', expect=2).stderr
    job = json.load(open(t.path('job.json'), encoding='utf-8'))['jobs'][0]
    assert job['job_name'] == name, job['job_name']
    b = Browser(t)
    url = 'file://' + t.path('job.html')
    b.open(url)
    b.wait('document.readyState === "complete" && document.querySelector("h2")', 'the page')
    assert b.run('document.title') == 'gpuscope: job 987655 (claimed by root)', b.run('document.title')
    assert name in b.run('document.querySelector("h1").textContent')
    assert b.run('document.querySelectorAll("img, iframe, link, [onerror], [src]").length') == 0
    assert b.run('document.querySelectorAll("script").length') == 2, 'its JSON and what draws it'
    assert b.requests == [url] and not b.errors, (b.requests, b.errors)
    text = b.run('document.body.innerText')
    for wanted in ('of 100', 'class, ', 'Parts of the score', 'Where the time went', 'on a processor', 'How it was measured'):
        assert wanted in text, (wanted, text)
    if job['metrics']['total_syscalls'] is not None:
        assert 'System calls' in text and 'openat' in text, text
    # The bar's parts are as wide as the times.
    total = sum(job['thread_seconds'].values())
    wide = b.run('[...document.querySelectorAll(".stack > i")].map(e => [e.title.split(":")[0], parseFloat(e.style.width)])')
    assert abs(dict(wide)['on a processor'] - 100 * job['thread_seconds']['cpu'] / total) < 0.1, (wide, job['thread_seconds'])
    assert 99 < sum(w for _, w in wide) < 101, wide
    # Each table can be reached and has a name; a narrow page scrolls its tables, not itself; both colour schemes.
    assert b.run('[...document.querySelectorAll("table")].every(e => e.parentElement.tabIndex === 0 && e.parentElement.ariaLabel)')
    seen = []
    for dark, width in ((False, 1200), (True, 360)):
        b.scheme(dark)
        b.size(width, 800, mobile=width < 500)
        assert b.run('document.documentElement.scrollWidth') <= width, b.run('document.documentElement.scrollWidth')
        seen.append(b.run('getComputedStyle(document.body).backgroundColor'))
        b.shot(t.path(f'{width}.png'))
    assert seen == ['rgb(246, 247, 249)', 'rgb(18, 22, 27)'], seen


if __name__ == '__main__':
    main()
