#!/usr/bin/env python3
"""What processes ask of GPUs, traced on request by gpuscope agent: against programs that count, and in a real Prometheus."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from agent_help import Agent, Prometheus, config_text
from harness import Skip, case, main, wait_until

GPU0 = 'GPU-00000000-1111-2222-3333-444455556666'
CORES = 16896  # of the stand-in's H100
INSTANCE_CORES = 16 * 128  # and of a MIG instance of it
COPIES = ['HtoH', 'HtoD', 'DtoH', 'DtoD', 'default', 'peer']


def ctl(t, path, *command):
    return subprocess.run([harness.gpuscope, 'agent', 'ctl', '--control', path, *command], capture_output=True, text=True,
                          env=t.envs(), timeout=60)  # fmt: skip


class Traced:
    """fake_app that waits until it is traced, makes its calls, and waits again until it may end."""

    def __init__(self, t, socket, *calls, env=None, program='fake_app', seconds='10m'):
        t.n_files += 1
        self.t, self.go, self.hold = t, t.path(f'go{t.n_files}'), t.path(f'hold{t.n_files}')
        self.proc = subprocess.Popen([os.path.join(harness.fake, program), '--go-file', self.go, '--hold-file', self.hold, *calls],
                                     stdout=subprocess.PIPE, text=True, env={**t.envs(), **(env or {})})  # fmt: skip
        wait_until(lambda: 'libcuda' in harness.read_text(f'/proc/{self.proc.pid}/maps'), 20, 'start')
        done = ctl(t, socket, 'trace-gpu', str(self.proc.pid), '--duration', seconds)
        t.true('traced', done.returncode == 0 and done.stdout.startswith('ok: GPU use of'), done)

    def run(self):
        open(self.go, 'w', encoding='utf-8').close()

    def end(self):
        """What it counted."""
        open(self.hold, 'w', encoding='utf-8').close()
        out = self.proc.communicate(timeout=60)[0]
        self.t.equal('its exit status', self.proc.returncode, 0)
        return json.loads(out.splitlines()[0])['functions']


def series(metrics, name, pid, **labels):
    """{labels without pid and comm: value}."""
    found = {}
    for key, value in metrics.items():
        if not key.startswith(name + '{'):
            continue
        got = dict(re.findall(r'(\w+)="([^"]*)"', key))
        if got.pop('pid') == str(pid) and all(got.get(k) == v for k, v in labels.items()):
            got.pop('comm')
            found[tuple(sorted(got.items()))] = value
    return found


def one(metrics, name, pid, **labels):
    """The sum over series: one, unless two GPUs are meant."""
    found = series(metrics, 'gpuscope_process_gpu_' + name, pid, **labels)
    return sum(found.values()) if found else None


def wait_probes(t, a):
    a.wait_metric('gpuscope_agent_process_gpu_probes', lambda v: v and v > 100, 60)


def wait_value(a, name, pid, wanted, **labels):
    wait_until(lambda: one(a.metrics(), name, pid, **labels) == wanted, 30, f'{name} {labels} {wanted}')


def start_below(t, socket, a, command, env):
    """A traced shell that begins the command at a line of input; a second process has the libraries mapped already."""
    shell = subprocess.Popen(['sh', '-c', 'read x; "$@"; read x', 'sh', *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**t.envs(), **env})  # fmt: skip
    holder = subprocess.Popen([os.path.join(harness.fake, 'fake_app'), '--go-file', t.path('never')], env=t.envs())
    wait_until(lambda: 'libcuda' in harness.read_text(f'/proc/{holder.pid}/maps'), 20, 'start')
    for pid in (holder.pid, shell.pid):
        t.equal('traced', ctl(t, socket, 'trace-gpu', str(pid)).returncode, 0)
    wait_probes(t, a)
    return shell, holder


def end_below(*processes):
    for p in processes:
        for child in harness.read_text(f'/proc/{p.pid}/task/{p.pid}/children').split():
            with contextlib.suppress(ProcessLookupError):  # it may be ending by itself
                os.kill(int(child), signal.SIGKILL)
        p.kill()
        p.communicate(timeout=20)


def pids_of(a, comm):
    return sorted({re.search(r'pid="(\d+)"', k).group(1) for k in a.metrics() if k.startswith('gpuscope_process_gpu_launches') and f'comm="{comm}"' in k})


@case('each sum of a process is what it counted', timeout=120)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket), what='gpus=1')
    p = Traced(t, socket, 'cudaMalloc=3', 'cudaMallocManaged=2', 'cudaHostAlloc=1', 'cudaStreamCreate=3', 'cudaMemcpyAsync=60',
               'cudaMemcpy=12', 'cudaMemset=4', 'cuMemsetD32Async=5', 'cudaLaunchKernel=5000', 'cudaLaunchKernelExC=70', 'cuLaunchKernel=30',
               'cudaStreamSynchronize=6', 'cudaLaunchKernel=999', 'cudaFree=2', 'cudaDeviceSynchronize=2',
               env={'FAKE_CUDA_SYNC_US': '2000'})  # fmt: skip
    wait_probes(t, a)
    p.run()
    wait_value(a, 'launches_total', p.proc.pid, 5000 + 999 + 70 + 30, kind='kernel')
    wait_value(a, 'waits_total', p.proc.pid, 6 + 2)
    m, pid = a.metrics(), p.proc.pid
    t.equal('the GPU', set(dict(k)['uuid'] for k in series(m, 'gpuscope_process_gpu_launches_total', pid)), {GPU0})
    counted = p.end()
    t.equal('memsets', one(m, 'launches_total', pid, kind='memset'), 9)
    copies = counted['cudaMemcpyAsync'], counted['cudaMemcpy']
    t.equal('copies', one(m, 'copies_total', pid), sum(c['calls'] for c in copies))
    t.equal('bytes', one(m, 'copied_bytes_total', pid), sum(c['bytes'] for c in copies))
    t.true('in all directions', all(one(m, 'copies_total', pid, direction=d) > 0 for d in COPIES[:5]), m)
    least, most = (one(m, 'active_seconds_total', pid, bound=b) for b in ('min', 'max'))
    t.true('active', 0 < least <= most, (least, most))
    t.true('waits', 8 * 0.002 <= one(m, 'wait_seconds_total', pid), m)
    t.true('cores', 0 < one(m, 'core_seconds_total', pid), m)
    held = series(m, 'gpuscope_process_gpu_allocated_bytes', pid)
    kinds = {dict(k)['kind']: v for k, v in held.items()}
    t.equal('kinds of memory', set(kinds), {'device', 'managed', 'pinned'})
    t.equal('device', kinds['device'], counted['cudaMalloc']['bytes'])
    t.equal('pinned', kinds['pinned'], counted['cudaHostAlloc']['bytes'])
    t.equal('what was freed', kinds['managed'], 0)
    t.equal('its peak', one(m, 'allocated_peak_bytes', pid, kind='managed'), counted['cudaMallocManaged']['bytes'])
    t.equal('nothing is lost', m['gpuscope_agent_process_gpu_lost_total'], 0)
    wait_until(lambda: one(a.metrics(), 'allocated_bytes', pid) == 0, 20, 'its end')
    t.equal('the sums stay', one(a.metrics(), 'launches_total', pid, kind='kernel'), 6099)


@case('processes that end while the probes are opened for those that are left hold nothing', timeout=180)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket), what='gpus=1')
    several = [Traced(t, socket, 'cudaMalloc=3', 'cudaLaunchKernel=50') for _ in range(8)]
    wait_probes(t, a)
    for p in several:
        p.run()
    for p in several:
        wait_value(a, 'launches_total', p.proc.pid, 50, kind='kernel')
        t.true('it holds memory', one(a.metrics(), 'allocated_bytes', p.proc.pid, kind='device') > 0)
    # Each end of one makes the agent open its probes again, for some tenths of a second, in which others end.
    for p in several:
        p.end()
        time.sleep(0.25)
    wait_until(lambda: all(one(a.metrics(), 'allocated_bytes', p.proc.pid) == 0 for p in several), 20, 'their end')
    t.equal('the sums stay', {one(a.metrics(), 'launches_total', p.proc.pid, kind='kernel') for p in several}, {50})


SHARED = f'/dev/shm/gpuscope-inside-{os.geteuid()}'
INSIDE_CONF = 'processes:\n  gpu_use_inside: true\n'


def inside_env(t, socket, env=None):
    done = subprocess.run([harness.gpuscope, 'agent', '--inside-env', '--control', socket], capture_output=True, text=True,
                          env={**t.envs(), **(env or {})}, timeout=60)  # fmt: skip
    t.equal('status', done.returncode, 0)
    return dict(re.findall(r'^export (\w+)=(.*)$', done.stdout, re.M)), done.stderr


def forget_shared():
    shutil.rmtree(SHARED, ignore_errors=True)


@case('a job that opted in is read from inside: the same sums, no probe in it, and none twice', timeout=180)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket, more=INSIDE_CONF), what='gpus=1')
    try:
        env, said = inside_env(t, socket)
        t.equal('what is set', (sorted(env), said), (['ASAN_OPTIONS', 'GPUSCOPE_COMPANION', 'LD_PRELOAD'], ''))
        calls = ['cudaMalloc=3', 'cudaStreamCreate=3', 'cudaMemcpyAsync=60', 'cudaMemcpy=12', 'cudaMemset=4', 'cuMemsetD32Async=5', 'cudaLaunchKernel=5000',
                 'cudaLaunchKernelExC=70', 'cuLaunchKernel=30', 'cudaStreamSynchronize=6', 'cudaFree=2', 'cudaDeviceSynchronize=2']  # fmt: skip
        inside = Traced(t, socket, *calls, env={**env, 'FAKE_CUDA_SYNC_US': '2000'})
        a.wait_metric('gpuscope_agent_process_gpu_inside', lambda v: v == 1, 60)
        t.equal('probes, of that alone', a.metrics()['gpuscope_agent_process_gpu_probes'], 0)
        probed = Traced(t, socket, *calls, env={'FAKE_CUDA_SYNC_US': '2000'})
        wait_probes(t, a)  # now the library has probes, which the first process passes, too
        inside.run()
        probed.run()
        for p in (inside, probed):
            wait_value(a, 'launches_total', p.proc.pid, 5000 + 70 + 30, kind='kernel')
            wait_value(a, 'waits_total', p.proc.pid, 6 + 2)
        m = a.metrics()
        for name, labels in (('launches_total', {'kind': 'kernel'}), ('launches_total', {'kind': 'memset'}), ('copies_total', {}), ('copied_bytes_total', {}),
                             ('copies_total', {'direction': 'HtoD'}), ('waits_total', {}), ('kernel_threads_total', {}),
                             ('allocated_bytes', {'kind': 'device'})):  # fmt: skip
            t.equal(f'{name} {labels}', *[one(m, name, p.proc.pid, **labels) for p in (inside, probed)])
        least, most = (one(m, 'active_seconds_total', inside.proc.pid, bound=b) for b in ('min', 'max'))
        t.true('active', 0 < least <= most, (least, most))
        t.equal('nothing is lost', m['gpuscope_agent_process_gpu_lost_total'], 0)
        name = os.listdir(SHARED)
        t.true('its file keeps its name', any(n.startswith(f'{inside.proc.pid:x}-') for n in name), name)
        inside.end()
        probed.end()
        wait_until(lambda: not any(n.startswith(f'{inside.proc.pid:x}-') for n in os.listdir(SHARED)), 20, 'its file goes with it')
        t.equal('the sums stay', one(a.metrics(), 'launches_total', inside.proc.pid, kind='kernel'), 5100)
    finally:
        forget_shared()


@case('what runs already when it is asked for, and a child that begins later, are read from inside', timeout=180)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket, more=INSIDE_CONF), what='gpus=1')
    try:
        env = inside_env(t, socket)[0]
        go, hold = t.path('go'), t.path('hold')
        app = os.path.join(harness.fake, 'fake_app')
        early = subprocess.Popen([app, '--go-file', go, '--hold-file', hold, 'cudaLaunchKernel=400'], stdout=subprocess.DEVNULL,
                                 env={**t.envs(), **env})  # fmt: skip
        shell = subprocess.Popen(['sh', '-c', f'read x; {app} cudaLaunchKernel=123 --hold-file {hold}; read x'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 text=True, env={**t.envs(), **env})  # fmt: skip
        wait_until(lambda: 'libcuda' in harness.read_text(f'/proc/{early.pid}/maps'), 20, 'start')
        for pid in (early.pid, shell.pid):
            t.equal('traced', ctl(t, socket, 'trace-gpu', str(pid)).returncode, 0)
        a.wait_metric('gpuscope_agent_process_gpu_inside', lambda v: v and v >= 1, 60)
        open(go, 'w', encoding='utf-8').close()
        shell.stdin.write('\n')
        shell.stdin.flush()
        wait_until(lambda: pids_of(a, 'fake_app') and len(pids_of(a, 'fake_app')) == 2, 30, 'both programs')
        child = next(p for p in pids_of(a, 'fake_app') if int(p) != early.pid)
        wait_value(a, 'launches_total', child, 123, kind='kernel')
        wait_value(a, 'launches_total', early.pid, 400, kind='kernel')
        t.equal('no probes', a.metrics()['gpuscope_agent_process_gpu_probes'], 0)
        open(hold, 'w', encoding='utf-8').close()
        early.wait(20)
        end_below(shell)
    finally:
        forget_shared()


@case('the environment of jobs: what is set stays, who holds it is named, and nothing ends a job', timeout=120)
def _(t):
    socket = t.path('socket')
    try:
        t.match('no agent', 'no agent runs here', inside_env(t, socket)[1])
        open(socket, 'w', encoding='utf-8').close()  # its owner is what is asked for
        mine = re.search(r'/\S*/libc\.so\.6', harness.read_text('/proc/self/maps')).group(0)  # any that the loader takes
        env, said = inside_env(t, socket, {'LD_PRELOAD': mine, 'ASAN_OPTIONS': 'detect_leaks=0'})
        t.equal('after what is there', (env['LD_PRELOAD'].split(':')[0], env['ASAN_OPTIONS'], said),
                (mine, 'detect_leaks=0:verify_asan_link_order=0', ''))  # fmt: skip
        t.equal('a step of the job', inside_env(t, socket, env), ({}, ''))
        none, said = inside_env(t, socket, {'GPUSCOPE_COMPANION': '/dev/shm/gpuscope-abcdef'})
        t.equal('another holds it', none, {})
        t.match('who', 'GPUSCOPE_COMPANION=/dev/shm/gpuscope-abcdef is set', said)
        t.equal('what a shell would not take', inside_env(t, socket, {'LD_PRELOAD': "/a b/$(x)'.so"})[0], {})
        text = subprocess.run(['sh', '-c', f'eval "$({harness.gpuscope} agent --inside-env --control {socket})"; echo $GPUSCOPE_COMPANION'],
                              capture_output=True, text=True, env=t.envs(), check=True).stdout  # fmt: skip
        t.equal('by a shell', text.strip(), SHARED)
        t.equal('private', oct(os.stat(SHARED).st_mode & 0o7777), oct(0o700))
        # An agent of another user, as systemd starts it, is let in by the access list, and files are shared with it.
        os.chown(socket, 65534, 65534)
        env, said = inside_env(t, socket)
        t.equal('an agent of another user', (said, oct(os.stat(SHARED).st_mode & 0o7777)), ('', oct(0o2770)))
        t.true('it is named', b'\xfe\xff\x00\x00' in os.getxattr(SHARED, 'system.posix_acl_access'), os.getxattr(SHARED, 'system.posix_acl_access'))
        app = subprocess.Popen([os.path.join(harness.fake, 'fake_app'), '--go-file', t.path('go'), 'cudaMalloc=1'], env={**t.envs(), **env})
        wait_until(lambda: any(n.startswith(f'{app.pid:x}-') for n in os.listdir(SHARED)), 20, 'its file')
        path = os.path.join(SHARED, next(n for n in os.listdir(SHARED) if n.startswith(f'{app.pid:x}-')))
        for user, status in (('65534', 0), ('65533', 1)):
            as_user = ['setpriv', '--reuid', user, '--clear-groups', '--inh-caps=-all']
            done = subprocess.run([*as_user, 'sh', '-c', f'exec 3<>{path}'], capture_output=True, check=False)
            t.equal(f'as {user}', bool(done.returncode), bool(status))
        app.kill()
        app.wait(20)
    finally:
        forget_shared()


@case('more streams than the kernel side has rows for, and threads', timeout=120)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket), what='gpus=1')
    p = Traced(t, socket, '--threads', '8', 'cudaStreamCreate=40', 'cudaLaunchKernel=4000', 'cudaMemsetAsync=800', 'cudaStreamSynchronize=40',
               'cudaStreamDestroy=40', 'cudaLaunchKernel_ptsz=500')  # fmt: skip
    wait_probes(t, a)
    p.run()
    wait_value(a, 'launches_total', p.proc.pid, 8 * 4500, kind='kernel')
    # Launches are read where they are added up, waits come one by one: the last ones may be a reading later.
    wait_value(a, 'waits_total', p.proc.pid, 8 * 40)
    m = a.metrics()
    t.equal('memsets', one(m, 'launches_total', p.proc.pid, kind='memset'), 8 * 800)
    t.equal('waits', one(m, 'waits_total', p.proc.pid), 8 * 40)
    t.equal('nothing is lost', m['gpuscope_agent_process_gpu_lost_total'], 0)
    p.end()


@case('streams, devices and times of a program that knows them', timeout=120)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket), what='gpus=2')
    # The program begins while its parent is traced: which device it chooses is seen.
    shell, holder = start_below(t, socket, a, [os.path.join(harness.fake, 'streams')], {'FAKE_CUDA_SYNC_US': '20000'})
    shell.stdin.write('\n')
    shell.stdin.flush()
    said = json.loads(shell.stdout.readline())
    wait_until(lambda: pids_of(a, 'streams'), 20, 'the program')
    pid = pids_of(a, 'streams')[0]
    wait_until(lambda: one(a.metrics(), 'launches_total', pid, kind='kernel') == 103 + 4 + 5 + 11 + 2, 20, 'its launches')
    # What it waited for last may be a reading later.
    wait_until(lambda: (one(a.metrics(), 'active_seconds_total', pid, bound='max', uuid=GPU0) or 0) * 1e9 >= said['inner_ns'], 20, 'its waits')
    m = a.metrics()
    by_gpu = {dict(k)['uuid'][:12]: v for k, v in series(m, 'gpuscope_process_gpu_launches_total', pid, kind='kernel').items()}
    t.equal('launches by GPU', by_gpu, {'GPU-00000000': 103 + 4 + 5 + 11, 'GPU-00000001': 2})
    t.equal('graphs', one(m, 'launches_total', pid, kind='graph'), 3)
    t.equal('copies', (one(m, 'copied_bytes_total', pid, direction='HtoD'), one(m, 'copied_bytes_total', pid, direction='DtoH')), (7000, 1500))
    least = one(m, 'active_seconds_total', pid, bound='min', uuid=GPU0)
    most = one(m, 'active_seconds_total', pid, bound='max', uuid=GPU0)
    t.true('active', 0.04 <= least <= most and most * 1e9 >= said['inner_ns'], (least, most, said))
    end_below(shell, holder)


@case('two processes on one GPU, and readers at intervals of their own', timeout=180)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket), what='gpus=1')
    calls = [w for _ in range(20) for w in ('cudaLaunchKernel=300', 'cudaStreamSynchronize=1')]
    both = [Traced(t, socket, 'cudaStreamCreate=1', *calls, env={'FAKE_CUDA_SYNC_US': '20000'}) for _ in range(2)]
    wait_probes(t, a)
    seen = {'often': [], 'seldom': []}
    for p in both:
        p.run()

    def total(m, name):
        return sum(v for k, v in m.items() if k.startswith('gpuscope_process_gpu_' + name))

    def read():
        m = a.metrics()
        seen['often'].append(m)
        if len(seen['often']) % 7 == 0:
            seen['seldom'].append(m)
        return [one(m, 'launches_total', p.proc.pid, kind='kernel') for p in both] == [6000, 6000]

    wait_until(read, 60, 'all launches')
    wait_until(lambda: [one(a.metrics(), 'waits_total', p.proc.pid) for p in both] == [20, 20], 20, 'all waits')
    last = a.metrics()
    for reader in seen.values():
        reader.append(last)
        for name in ('core_seconds_total', 'core_share_seconds_total', 'active_seconds_total', 'any_active_seconds_total', 'wait_seconds_total'):
            values = [total(m, name) for m in reader]
            t.true(f'{name} only grows', values == sorted(values), values)
            t.true(f'differences of {name} add up to it', abs(sum(b - a for a, b in zip(values, values[1:])) - (values[-1] - values[0])) < 1e-6, values)
    active = [one(last, 'active_seconds_total', p.proc.pid, bound='max') for p in both]
    together = last[f'gpuscope_process_gpu_any_active_seconds_total{{uuid="{GPU0}"}}']
    t.true('the union is no sum', max(active) - 1e-6 <= together <= sum(active) + 1e-6, (active, together))
    for p in both:
        share, cores = one(last, 'core_share_seconds_total', p.proc.pid), one(last, 'core_seconds_total', p.proc.pid)
        t.true('a share', 0 < share <= cores, (share, cores))
        p.end()


def check_cores(t, a, socket, uuid, env, cores):
    """One launch, of more threads than there are cores."""
    p = Traced(t, socket, 'cudaLaunchKernel=1', 'cudaDeviceSynchronize=1', env={**env, 'FAKE_CUDA_SYNC_US': '50000'})
    wait_probes(t, a)
    p.run()
    wait_value(a, 'waits_total', p.proc.pid, 1)
    m, pid = a.metrics(), p.proc.pid
    t.equal('its UUID', {dict(k)['uuid'] for k in series(m, 'gpuscope_process_gpu_launches_total', pid)}, {uuid})
    threads, most, got = one(m, 'kernel_threads_total', pid), one(m, 'active_seconds_total', pid, bound='max'), one(m, 'core_seconds_total', pid)
    t.true('active', 0.05 <= most, most)
    t.true(f'cores of {threads} threads', abs(got - most * min(threads, cores)) < 1e-3 * got, (got, most, threads))
    p.end()


@case('a MIG instance', timeout=120)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket), what='gpus=2,parts=2')
    uuids = sorted(set(re.findall(r'uuid="(MIG-[^"]*)"', str(a.metrics()))))
    t.equal('instances', len(uuids), 2)
    check_cores(t, a, socket, uuids[1], {'CUDA_VISIBLE_DEVICES': uuids[1]}, INSTANCE_CORES)


@case('cores of one stream')
def _(t):
    socket = t.path('socket')
    check_cores(t, Agent(t, config_text(control=socket), what='gpus=1'), socket, GPU0, {}, CORES)


@case('who may ask, for how long', timeout=120)
def _(t):
    socket, token = t.path('socket'), t.path('tokens')
    with open(token, 'w', encoding='utf-8') as f:
        f.write('s3cret\n')
    os.chmod(token, 0o600)
    text = config_text(control=socket, more='processes:\n  gpu_use_max: 20s\n').replace('http:\n', f'http:\n  token_file: {token}\n')
    a = Agent(t, text, what='gpus=1')
    sleeper = subprocess.Popen(['sleep', '1000'])
    who = {'Authorization': 'Bearer s3cret'}
    path = '/api/v1/process-gpu'
    t.equal('without the token', [a.get(path)[0], a.get(f'{path}/{sleeper.pid}', method='POST')[0]], [401, 401])
    t.equal('another site', a.get(f'{path}/{sleeper.pid}', {**who, 'Origin': 'http://evil.example'}, 'POST')[0], 403)
    for what, query, status, said in ((sleeper.pid, '?for=5m', 403, 'gpu_use_max'), ('0', '', 400, 'process id'), ('4000000', '', 404, 'no process'),
                                      ('job:none', '', 404, 'no process of job'), (sleeper.pid, '?for=x', 400, 'for=TIME')):  # fmt: skip
        got = a.get(f'{path}/{what}{query}', who, 'POST')
        t.true(f'{what}{query}', got[0] == status and said in got[2].decode(), got)
    got = a.get(f'{path}/{sleeper.pid}?for=10s', who, 'POST')
    t.equal('accepted', (got[0], got[2]), (200, b'ok: GPU use of %d is traced for 10.0 s\n' % sleeper.pid))
    listed = json.loads(a.get(path, who)[2])['requests']
    t.true('listed', len(listed) == 1 and listed[0]['what'] == str(sleeper.pid) and 0 < listed[0]['left_seconds'] <= 10, listed)
    t.match('status', rf'GPU use of {sleeper.pid}: traced for [0-9.]+ s more', ctl(t, socket, 'status').stdout)
    t.equal('deleted', a.get(f'{path}/{sleeper.pid}', who, 'DELETE')[0], 200)
    t.equal('not there', a.get(f'{path}/{sleeper.pid}', who, 'DELETE')[0], 404)
    for words, said in ((['trace-gpu'], 'needs a process id'), (['trace-gpu', 'x y'], 'neither a process id'), (['status', '--duration', '5s'], 'belongs to')):
        done = ctl(t, socket, *words)
        t.true(f'{words}', done.returncode == 2 and said in done.stderr, done)
    for what in ('4000000', 'job:none'):
        done = ctl(t, socket, 'trace-gpu', what)
        t.true(f'{what} is not here', done.returncode == 4 and 'none: ' in done.stderr, done)
    done = ctl(t, socket, 'trace-gpu', str(sleeper.pid), '--duration', '5m')
    t.true('too long', done.returncode == 1 and 'at most 20.0 s' in done.stderr, done)
    t.equal('a second', ctl(t, socket, 'trace-gpu', str(sleeper.pid), '--duration', '1s').returncode, 0)

    def metrics():
        return {k: v for k, v in (line.rsplit(' ', 1) for line in a.get(headers=who)[2].decode().splitlines() if line and line[0] != '#')}

    wait_until(lambda: metrics().get('gpuscope_agent_process_gpu_running') == '0', 30, 'its end')
    wait_until(lambda: metrics().get('gpuscope_agent_process_gpu_probes') == '0', 30, 'the end of its probes')
    sleeper.kill()
    sleeper.wait()


@case('sums stay for a while after the last request, and begin again', timeout=120)
def _(t):
    socket = t.path('socket')
    a = Agent(t, config_text(control=socket, more='processes:\n  gpu_use_linger: 2s\n'), what='gpus=1')
    for n in (100, 70):
        p = Traced(t, socket, f'cudaLaunchKernel={n}')
        wait_probes(t, a)
        p.run()
        wait_value(a, 'launches_total', p.proc.pid, n, kind='kernel')
        t.equal('ends', ctl(t, socket, 'trace-gpu', str(p.proc.pid), '--duration', '0').returncode, 0)
        a.wait_metric('gpuscope_agent_process_gpu_probes', lambda v: v == 0, 30)
        wait_until(lambda: not [k for k in a.metrics() if k.startswith('gpuscope_process_gpu')], 30, 'the end of its sums')
        p.end()


SOURCE = r"""
#include <unistd.h>
__global__ void busy(float *p) { __shared__ float s[1024]; s[threadIdx.x] = p[threadIdx.x]; __syncthreads(); p[0] = s[1023 - threadIdx.x]; }
int main() { for (int i = 0; i < 30000; i++) { busy<<<100000, 256, 60000>>>(0); if (i % 10 == 9) cudaDeviceSynchronize(); usleep(1000); } }
"""


@case('occupancy by registers, shared memory and blocks', timeout=180)
def _(t):
    nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    if not os.path.exists(nvcc):
        raise Skip('no nvcc')
    socket, source, program = t.path('socket'), t.path('busy.cu'), t.path('busy')
    with open(source, 'w', encoding='utf-8') as f:
        f.write(SOURCE)
    done = subprocess.run([nvcc, '-cudart', 'shared', '-arch=sm_90', '-o', program, source], capture_output=True, text=True)
    if done.returncode:
        raise Skip(f'nvcc: {done.stderr.strip()[-200:]}')
    a = Agent(t, config_text(control=socket), what='gpus=1')
    # It runs already: which kernel a handle is of is found in its memory.
    proc = subprocess.Popen([program], env={**t.envs(), 'LD_LIBRARY_PATH': harness.fake})
    wait_until(lambda: 'libcuda' in harness.read_text(f'/proc/{proc.pid}/maps'), 20, 'start')
    t.equal('traced', ctl(t, socket, 'trace-gpu', str(proc.pid)).returncode, 0)
    pid = proc.pid

    def growth():
        first = a.metrics()
        time.sleep(1.2)
        last = a.metrics()
        active = one(last, 'active_seconds_total', pid, bound='max') - one(first, 'active_seconds_total', pid, bound='max')
        places = one(last, 'occupied_seconds_total', pid) - one(first, 'occupied_seconds_total', pid)
        return places / active if active else 0

    wait_until(lambda: (one(a.metrics(), 'occupied_seconds_total', pid) or 0) > 0, 60, 'needs of the kernel')
    # 4,096 bytes static, 60,000 dynamic and 1 KiB of the system: 3 blocks of 256 threads on an SM with 228 KiB.
    ratio = growth()
    t.true('3 blocks of 8', abs(ratio - 3 / 8) < 0.01, ratio)
    proc.kill()
    proc.wait()


@case('in a real Prometheus: launches a second, share of time, by job of a real Slurm', timeout=240, beside='jobs')
def _(t):
    from slurm_help import Slurm

    if not shutil.which('prometheus'):
        raise Skip('prometheus is not installed')
    socket = t.path('socket')
    with Slurm(t) as s:
        a = Agent(t, config_text(control=socket, more='jobs:\n  interval: 500ms\n'), what='gpus=1', env={'SLURM_CONF': s.conf})
        p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': [{'targets': [a.address]}]})
        demo = os.path.join(harness.fake, 'demo_train')
        job = s.submit(f'{demo} --steps 100000\n', '-n1', '-J', 'train', user='games')
        s.wait_state(job, 'RUNNING')
        wait_until(lambda: ctl(t, socket, 'trace-gpu', f'job:{job}', '--duration', '5m').returncode == 0, 30, 'the job is known')
        wait_until(lambda: any(v > 1000 for k, v in a.metrics().items() if k.startswith('gpuscope_process_gpu_launches')), 60, 'launches')
        p.wait_scrapes(10)
        # A scrape that comes late has the time since the one before it in it.
        launches = 'sum by (kind) (rate(gpuscope_process_gpu_launches_total{comm="demo_train"}[5s]))'
        wait_until(lambda: p.ask(launches, 'kind').get('kernel', 0) > 100, 60, 'launches a second')
        active = 'max by (bound) (rate(gpuscope_process_gpu_active_seconds_total{comm="demo_train"}[5s]))'
        wait_until(lambda: 0 < p.ask(active, 'bound').get('max', 0) <= 1.1, 60, 'active share')
        t.equal('ends', ctl(t, socket, 'trace-gpu', f'job:{job}', '--duration', '0').returncode, 0)
        a.wait_metric('gpuscope_agent_process_gpu_probes', lambda v: v == 0, 60)
        before = sum(v for k, v in a.metrics().items() if k.startswith('gpuscope_process_gpu_launches'))
        time.sleep(1)
        t.equal('no more', sum(v for k, v in a.metrics().items() if k.startswith('gpuscope_process_gpu_launches')), before)


if __name__ == '__main__':
    sys.exit(main())
