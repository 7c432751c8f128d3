"""gpuscope doctor: each answer where it works and where it does not, of real kernels, users, mounts, ports and processes."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import harness
from harness import Skip, case, free_port, main, read_text, wait_until
from slurm_help import Slurm

NVML = 'libnvidia-ml.so.1'
NOBODY = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', '--inh-caps=-all', '--']
BAD = ('limited', 'fails')


def library(name=NVML):
    return os.path.join(harness.fake, name)


class Answers:
    def __init__(self, t, *args, before=(), env=None, status=None, program=None, **more):
        words = [*before, program or harness.gpuscope, 'doctor', '--json', *args]
        self.run = subprocess.run(words, capture_output=True, text=True, env=t.envs(env), timeout=120, **more)
        if not self.run.stdout:
            raise AssertionError(f'{words}: {self.run.returncode}: {self.run.stderr}')
        self.t, self.doc = t, json.loads(self.run.stdout)
        fails = [a['name'] for a in self.doc['answers'] if a['state'] == 'fails']
        t.equal('the exit status says whether anything fails', self.run.returncode, 1 if fails else 0)
        t.equal('and so does the document', self.doc['works'], not fails)
        for a in self.doc['answers']:
            t.equal(f'{a["name"]} is {a["state"]}: says what it costs and what to do', (bool(a['effect']), bool(a['do'])), (a['state'] in BAD,) * 2)
        if status is not None:
            t.equal(f'exit status, {fails} fail', self.run.returncode, status)

    def all(self, name, group=None):
        return [a for a in self.doc['answers'] if a['name'] == name and group in (None, a['group'])]

    def one(self, name, group=None):
        found = self.all(name, group)
        assert len(found) == 1, (name, found)
        return found[0]

    def check(self, name, state, found='', group=None):
        a = self.one(name, group)
        self.t.equal(f'{name} ({a["found"]})', a['state'], state)
        self.t.match(f'{name}: found', found, a['found'] or '')
        return a


def in_mounts(*commands):
    """Words in front of a program: it sees these mounts, and nothing else does."""
    if os.geteuid() != 0:
        raise Skip('needs root')
    script = ' && '.join(['mount --make-rprivate /', *commands, 'exec "$@"'])
    return ['unshare', '-m', 'sh', '-c', script, 'sh']


@case('root: rights and kernel features work; a user without rights reads that they do not', beside='doctor')
def rights(t):
    a = Answers(t)
    for name in ('CAP_BPF and CAP_PERFMON', 'CAP_SYS_PTRACE', 'CAP_DAC_READ_SEARCH', 'CAP_SYS_ADMIN', 'type information (BTF)', 'eBPF programs',
                 'BPF ring buffer', 'probe cookies', 'typed tracepoints', 'perf events', 'version', 'memory of other processes'):  # fmt: skip
        a.check(name, 'works')
    t.equal('whose answers', a.doc['user_id'], 0)
    a = Answers(t, before=NOBODY, status=1, cwd='/')
    t.equal('whose answers', a.doc['user_id'], 65534)
    mend = a.check('CAP_BPF and CAP_PERFMON', 'fails', 'tracing needs CAP_BPF and CAP_PERFMON')['do']
    t.equal('what mends it', mend, 'sudo gpuscope doctor')
    for name in ('CAP_SYS_PTRACE', 'CAP_DAC_READ_SEARCH', 'CAP_SYS_ADMIN'):
        a.check(name, 'limited')
    a.check('type information (BTF)', 'works')
    for name in ('eBPF programs', 'BPF ring buffer', 'session links', 'probe cookies', 'uprobe self-test'):
        a.check(name, 'not_checked', 'CAP_BPF')
    a.check('perf events', 'limited', 'perf_event_open')
    a.check('space for recordings', 'limited', 'not writable')
    # The same words as those of the command that would need it.
    run = subprocess.run([*NOBODY, harness.gpuscope, 'trace', '-a'], capture_output=True, text=True)
    t.match('trace says the same', r'tracing needs CAP_BPF and CAP_PERFMON.*; `gpuscope doctor` shows what else is missing$', run.stderr.strip())
    one = ['setpriv', '--bounding-set=-perfmon,-sys_admin', '--inh-caps=-perfmon,-sys_admin', '--']
    Answers(t, before=one, status=1).check('CAP_BPF and CAP_PERFMON', 'fails', 'tracing needs CAP_PERFMON,')


@case('a kernel without type information, and one that permits nothing in a user namespace', beside='doctor')
def kernel(t):
    empty = t.path('empty')
    os.mkdir(empty)
    before = in_mounts(f'mount --bind {empty} /sys/kernel/btf')
    a = Answers(t, before=before, status=1)
    a.check('type information (BTF)', 'fails', 'no type information')
    a.check('typed tracepoints', 'limited')
    run = subprocess.run([*before, harness.gpuscope, 'trace', '-a'], capture_output=True, text=True)
    t.equal('trace', (run.returncode, 'no type information' in run.stderr, 'gpuscope doctor' in run.stderr), (3, True, True))
    a = Answers(t, before=['unshare', '-Ur'], status=1)
    a.check('eBPF programs', 'fails', 'permits no tracing here')
    a.check('BPF ring buffer', 'not_checked')
    a.check('perf events', 'limited')


def shim(t, name, code):
    """A library that stands before the C library's function, for LD_PRELOAD: what this machine would have to be changed for."""
    source, made = t.path(name + '.c'), t.path(name + '.so')
    with open(source, 'w') as f:
        f.write(code)
    subprocess.run(['cc', '-D_GNU_SOURCE', '-shared', '-fPIC', '-o', made, source], check=True)
    env = {'LD_PRELOAD': made}
    if harness.is_asan():
        env['ASAN_OPTIONS'] = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
    return env


@case('memory of other processes: read, and refused as Yama refuses it', needs=None, beside='doctor')
def memory(t):
    a = Answers(t)
    a.check('memory of other processes', 'works', 'tested')
    env = shim(t, 'yama', '#include <errno.h>\n#include <sys/uio.h>\nssize_t process_vm_readv(pid_t p, const struct iovec *a, unsigned long n, '
                          'const struct iovec *b, unsigned long m, unsigned long f)\n{\n\terrno = EPERM;\n\treturn -1;\n}\n')  # fmt: skip
    Answers(t, env=env).check('memory of other processes', 'limited', 'refused')


@case('a program alone in a folder has none of the libraries for --inside', needs=None, beside='doctor')
def alone(t):
    program = t.path('gpuscope')
    shutil.copy(harness.gpuscope, program)
    a = Answers(t, program=program)
    for door in ('calls', 'gpu', 'nccl', 'ops', 'python'):
        a.check(f'--inside={door}', 'limited', 'not found next to gpuscope')


@case('libraries: those beside the program, and those opened at run time; each gone once', beside='doctor')
def libraries(t):
    a = Answers(t)
    for door in ('calls', 'gpu', 'nccl', 'ops', 'python'):
        a.check(f'--inside={door}', 'works', rf'libgpuscope_companion(_{door})?\.so$')
    broken = t.path('broken')
    open(broken, 'w').close()
    listed = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True, text=True).stdout
    for name, files in (('libcurl', ('libcurl.so.4', 'libcurl-gnutls.so.4')), ('libsnappy', ('libsnappy.so.1',)),
                        ('libmariadb', ('libmariadb.so.3',)), ('cairo', ('libcairo.so.2',))):  # fmt: skip
        paths = [line.split()[-1] for line in listed.splitlines() if line.split()[0] in files and 'x86-64' in line]
        if not paths:
            Answers(t).check(name, 'limited')
            t.note(f'{name} is not installed here')
            continue
        a.check(name, 'works')
        hide = [f'mount --bind {broken} {os.path.realpath(path)}' for path in paths]
        gone = Answers(t, before=in_mounts(*hide))
        t.match(f'what mends {name}', r'^sudo (apt-get|dnf) install \S+$', gone.check(name, 'limited')['do'])
        for other in {'libsnappy', 'libmariadb'} - {name}:
            t.equal(f'{other} without {name}', gone.one(other)['state'], a.one(other)['state'])


@case('the packages that are named exist', needs=None)
def packages(t):
    if not shutil.which('apt-cache'):
        raise Skip('no apt-cache here')
    for package in ('libcurl4', 'libsnappy1v5', 'libmariadb3', 'libcairo2', 'slurm-client'):
        out = subprocess.run(['apt-cache', 'policy', package], capture_output=True, text=True).stdout
        if not out:
            raise Skip('apt has no lists here')
        t.true(package, 'Candidate: (none)' not in out, out)


@case('places of CUDA, NVTX and NCCL: free, and taken by a variable', needs=None, beside='doctor')
def places(t):
    a = Answers(t, env={'HOME': t.path()})
    a.check('CUDA injection slot', 'works', 'free')
    a.check('NVTX injection slot', 'works', '^free$')
    a.check('NCCL profiler slot', 'works', 'free')
    # An empty variable is what unset is.
    Answers(t, env={'HOME': t.path(), 'NVTX_INJECTION64_PATH': ''}).check('NVTX injection slot', 'works', '^free$')
    a = Answers(t, env={'HOME': t.path(), 'CUDA_INJECTION64_PATH': '/opt/other.so', 'NVTX_INJECTION64_PATH': '/opt/libcupti.so', 'NCCL_PROFILER_PLUGIN': 'other'})
    t.equal('what frees it', a.check('NVTX injection slot', 'limited', '^NVTX_INJECTION64_PATH=/opt/libcupti.so$')['do'], 'unset NVTX_INJECTION64_PATH')
    a.check('CUDA injection slot', 'limited', 'CUDA_INJECTION64_PATH=/opt/other.so')
    a.check('NCCL profiler slot', 'limited', 'NCCL_PROFILER_PLUGIN=other')


@case('NVML and GPM: a stand-in that answers, one without GPM, one whose driver is not loaded, none', needs=None, beside='doctor')
def gpus(t):
    a = Answers(t, '--nvml', library())
    a.check('NVML', 'works', r'^\d GPUs?, driver ')
    a.check('GPM counters', 'works', r'^(\d) of \1 GPU')
    a = Answers(t, '--nvml', library('nvml_old/' + NVML))
    a.check('NVML', 'works')
    a.check('GPM counters', 'not_needed')
    a = Answers(t, '--nvml', library(), env={'FAKE_NVML': 'init=9'}, status=1)
    t.equal('what mends it', a.check('NVML', 'fails')['do'], 'sudo modprobe nvidia')
    a.check('GPM counters', 'not_needed')
    Answers(t, '--nvml', t.path('none.so'), status=1).check('NVML', 'fails', 'cannot open the NVML library')


@contextlib.contextmanager
def listener(answer):
    """A server that says this to the first line that comes."""
    with socket.create_server(('127.0.0.1', 0)) as s:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = s.accept()
                    with peer:
                        peer.settimeout(10)
                        asked.append(peer.recv(100))
                        peer.sendall(answer)

        asked = []
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield s.getsockname()[1], asked
        s.shutdown(socket.SHUT_RDWR)


@case('NCCL RAS: a server that answers as NCCL does, another server, a silent one, none', needs=None, beside='doctor')
def ras(t):
    with listener(b'SERVER PROTOCOL 2\n') as (port, asked):
        Answers(t, env={'NCCL_RAS_ADDR': f'localhost:{port}'}).check('NCCL RAS', 'works', f'localhost:{port}')
        t.equal('asked', asked, [b'CLIENT PROTOCOL 2\n'])
    for other in (b'HTTP/1.1 400 Bad Request\r\n\r\n', b'SERVER', b''):
        with listener(other) as (port, _):
            Answers(t, env={'NCCL_RAS_ADDR': f'127.0.0.1:{port}'}).check('NCCL RAS', 'limited', 'is not NCCL')
    with socket.create_server(('127.0.0.1', 0)) as s:
        Answers(t, env={'NCCL_RAS_ADDR': f'127.0.0.1:{s.getsockname()[1]}'}).check('NCCL RAS', 'limited', 'is not NCCL')
    Answers(t, env={'NCCL_RAS_ADDR': f'[::1]:{free_port()}'}).check('NCCL RAS', 'not_needed', 'nothing listens')
    Answers(t, env={'NCCL_RAS_ADDR': 'nonsense'}).check('NCCL RAS', 'not_needed')


@case('ports: free, taken by another program, taken by gpuscope', needs=None, beside='doctor')
def ports(t):
    if os.geteuid() != 0:
        raise Skip('needs root')
    # In a network of its own, where no port is taken.
    inside = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    a = Answers(t, before=inside)
    for name, port in (("agent's port", 14780), ("head's port for nodes", 8090), ("head's HTTP port", 8091)):
        a.check(name, 'works', f'port {port} is free')
    script = 'import socket, subprocess, sys\ns = socket.create_server(("127.0.0.1", 14780))\nd = socket.create_server(("::1", 8090), family=socket.AF_INET6)\n' \
             'sys.exit(subprocess.run(sys.argv[1:]).returncode)'  # fmt: skip
    a = Answers(t, before=[*inside, sys.executable, '-c', script])
    a.check("agent's port", 'limited', r'port 14780 is used by \S+ \(\d+\)')
    a.check("head's port for nodes", 'works', 'is free')
    said, conf = t.path('agent.err'), t.path('agent.yaml')
    with open(conf, 'w') as f:
        f.write(f'gpu:\n  library: {library()}\ncontrol:\n  path: {t.path("agent.sock")}\n')
    # Its standard output is not ours, whose end is waited for.
    agent = f'{harness.gpuscope} agent -c {conf} >{said} 2>&1 & p=$!; while kill -0 $p && ! grep -q "served at" {said}; do sleep 0.1; done; "$@"; r=$?; kill $p; wait $p; exit $r'
    a = Answers(t, before=[*inside, 'sh', '-c', agent, 'sh'])
    a.check("agent's port", 'works', r'port 14780 is used by gpuscope \(\d+\)')


@case('disks: room and permission, a full file system, a folder of another user', beside='doctor')
def disks(t):
    full = t.path('full')
    os.mkdir(full)
    Answers(t).check('space for recordings', 'works', 'free')
    small = in_mounts(f'mount -t tmpfs -o size=1m none {full}', f'cd {full}')
    t.match('what to do', r'^sudo du ', Answers(t, before=small).check('space for recordings', 'limited', r'^\.: .* free$')['do'])
    shm = in_mounts('mount -t tmpfs -o size=1m none /dev/shm')
    Answers(t, before=shm).check('space for --inside', 'limited')
    Answers(t).check('space for --inside', 'works')
    Answers(t).check("space for the agent's spool", 'works', '/var/lib/gpuscope-agent/spool')


@case('the clock is set by a time service, or not', needs=None, beside='doctor')
def clocks(t):
    env = shim(t, 'clock', '#include <stdlib.h>\n#include <sys/timex.h>\nint adjtimex(struct timex *t)\n{\n\t*t = (struct timex){.offset = 1500000, '
                           '.maxerror = 2500, .status = STA_NANO | STA_PLL | (getenv("UNSET") ? STA_UNSYNC : 0)};\n'
                           '\treturn getenv("UNSET") ? TIME_ERROR : TIME_OK;\n}\n')  # fmt: skip
    Answers(t, env=env).check('time service', 'works', 'offset 1500 us, maximum error 2.5 ms')
    Answers(t, env={**env, 'UNSET': '1'}).check('time service', 'limited', 'not synchronized')


@case('control groups: the hierarchies of this machine, and none', beside='doctor')
def cgroups(t):
    Answers(t).check('cgroups', 'works', 'version')
    Answers(t, before=in_mounts('mount -t tmpfs none /sys/fs/cgroup')).check('cgroups', 'limited', 'no hierarchy')
    Answers(t, before=in_mounts('mount -t tmpfs none /sys/fs/cgroup', 'mount -t cgroup2 none /sys/fs/cgroup')).check('cgroups', 'works', 'version 2')


@case('Slurm: a controller that answers, and the same when it has ended', needs=None, timeout=120, alone='slurm')
def slurm(t):
    s = Slurm(t, cgroups=False)
    try:
        a = Answers(t, env=s.env)
        a.check("Slurm's commands", 'works', 'version 2')
        a.check('slurmctld', 'works', ' is UP')
        a.check('SPANK plug-in', 'limited', f'not in {s.root}/plugstack.conf')
    finally:
        s.end_daemons()
    a = Answers(t, env=s.env)
    a.check("Slurm's commands", 'works')
    a.check('slurmctld', 'limited')


@case('a process: its libraries and the probes that fit; runtimes linked in, with and without symbols', timeout=120, beside='doctor')
def process(t):
    app = t.start_app()
    a = Answers(t, '-p', str(app.pid))
    for name, file in (('CUDA runtime', 'libcudart'), ('CUDA driver', 'libcuda'), ('NCCL', 'libnccl')):
        a.check(name, 'works', rf'/{file}\S*: [1-9]\d* probes fit, \d+ single-stepped$', group='program')
    a.check('its memory', 'works')
    a.check('CUDA injection slot', 'works', group='program')
    a.check('CUPTI', 'not_needed', group='program')
    t.equal('it runs on', app.poll(), None)
    # What trace then places is what was said.
    probes = sum(int(x['found'].split(': ')[1].split()[0]) for n in ('CUDA runtime', 'CUDA driver', 'NCCL') for x in a.all(n, 'program'))
    run = t.start_trace('-p', str(app.pid), '--duration', '20')
    run.wait_err(re.escape(harness.fake) + r'/libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    app.result()
    placed = run.finish().summary['attached']
    t.equal('as many as trace places', sum(x['probes'] for x in placed if x['path'].startswith(harness.fake)), probes)
    app = t.start_app(program=os.path.join(harness.fake, 'fake_app_static'))
    Answers(t, '-p', str(app.pid)).check('CUDA runtime', 'works', '/fake_app_static: [1-9]', group='program')
    app.let_go()
    app.result()
    app = t.start_app(program=os.path.join(harness.fake, 'fake_app_static_stripped'))
    a = Answers(t, '-p', str(app.pid))
    a.check('CUDA runtime', 'limited', 'linked into a stripped program', group='program')
    a.check('NCCL', 'works', group='program')
    app.let_go()
    app.result()


@contextlib.contextmanager
def python(t, *words, env=None, program=sys.executable, script='import time; print("up", flush=True); time.sleep(100)', before=()):
    p = subprocess.Popen([*before, program, *words, '-c', script], env=t.envs(env), stdout=subprocess.PIPE, text=True)
    try:
        t.equal('it is up', p.stdout.readline(), 'up\n')
        yield p
    finally:
        p.send_signal(signal.SIGKILL)
        p.wait()


@case('a process of Python, of nothing to trace, of another user, of none', timeout=120, beside='doctor')
def others(t):
    with python(t) as p:
        a = Answers(t, '-p', str(p.pid))
        a.check('Python', 'works', 'stacks and lines can be read')
        a.check('libraries to trace', 'limited')
        t.match('what to do', rf'^gpuscope trace --layer python -p {p.pid}$', a.one('libraries to trace')['do'])
        if sys.version_info < (3, 14):
            a.check('Python remote debugging', 'not_needed', '3.14 is the first')
        run = subprocess.run([*NOBODY, harness.gpuscope, 'doctor', '--json', '-p', str(p.pid)], capture_output=True, text=True, cwd='/')
        mine = {x['name']: x for x in json.loads(run.stdout)['answers']}['its libraries']
        t.equal('of root, for nobody', (run.returncode, mine['state'], f'process {p.pid} belongs to another user' in mine['found']), (1, 'fails', True))
        run = subprocess.run([*NOBODY, harness.gpuscope, 'doctor', '-p', str(p.pid)], capture_output=True, text=True, cwd='/')
        t.match('first of all', r'^fails\n  program   its libraries: process', '\n'.join(run.stdout.splitlines()[1:]))
    sleep = subprocess.Popen(['sleep', '100'])
    wait_until(lambda: read_text(f'/proc/{sleep.pid}/comm') == 'sleep\n')
    try:
        Answers(t, '-p', str(sleep.pid), status=1).check('libraries to trace', 'fails')
    finally:
        sleep.kill()
        sleep.wait()
    t.match('none', rf'^gpuscope: no process with id {sleep.pid}$', t.tool('doctor', '-p', str(sleep.pid), status=4).err.strip())


def newest_python():
    """An interpreter of 3.14 or newer, as tests/e2e/pythons.py would find it."""
    paths = [*os.environ.get('GPUSCOPE_TEST_PYTHONS', '').split(':'), shutil.which('python3.14'), *glob.glob(os.path.expanduser('~/.pyenv/versions/3.1[4-9]*/bin/python3'))]
    return next((p for p in paths if p and subprocess.run([p, '-c', 'import sys; sys.exit(sys.version_info < (3, 14))']).returncode == 0), None)


@case('Python remote debugging (PEP 768) of a real 3.14: on, off by the variable, off by the option', timeout=120, beside='doctor')
def remote_debugging(t):
    program = newest_python()
    if not program:
        raise Skip('no Python 3.14 here')
    for state, words, env in (('works', (), None), ('limited', (), {'PYTHON_DISABLE_REMOTE_DEBUG': '1'}), ('limited', ('-X', 'disable-remote-debug'), None)):
        with python(t, *words, env=env, program=program) as p:
            Answers(t, '-p', str(p.pid)).check('Python remote debugging', state)


def make_cupti(t, name, version, code='if (!v) return 1; *v = VERSION; return 0;'):
    """A library whose cuptiGetVersion() answers as CUPTI's does."""
    path = t.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = f'int cuptiGetVersion(unsigned *v) {{ {code} }}\n'.replace('VERSION', str(version))
    subprocess.run(['cc', '-x', 'c', '-O2', '-shared', '-fPIC', '-o', path, '-'], input=text, text=True, check=True)
    return path


def loads(*paths):
    return f'import ctypes, time\nfor p in {paths!r}: ctypes.CDLL(p)\nprint("up", flush=True); time.sleep(100)'


@case('CUPTI and the driver: one too old for it, one new enough, one of a package of its own, one that does not say', timeout=120, beside='doctor')
def cupti_and_driver(t):
    """The stand-in for NVML says that its driver supports CUDA 13.0."""
    name, nvml = 'CUPTI and the driver', ('--nvml', library())
    newer, older = make_cupti(t, 'newer/libcupti.so.14', 140000), make_cupti(t, 'older/libcupti.so.12', 24)
    for path, state, found in ((newer, 'limited', r'^CUPTI is of CUDA 14\.0, the driver supports CUDA 13\.0$'),
                               (older, 'works', r'^CUPTI is of CUDA 12\.6, the driver supports CUDA 13\.0$'),
                               (make_cupti(t, 'minor/libcupti.so.13', 130501), 'works', r'^CUPTI is of CUDA 13\.5, the driver supports CUDA 13\.0: supported within')):  # fmt: skip
        with python(t, script=loads(path)) as p:
            a = Answers(t, *nvml, '-p', str(p.pid)).check(name, state, found, group='program')
            t.equal('what to do', a['do'] or '', 'install an NVIDIA driver for CUDA 14.0 or newer' if state == 'limited' else '')
        # The one that the loader finds, which looks for that of CUDA 13 first.
        if path.endswith('.13'):
            Answers(t, *nvml, env={'LD_LIBRARY_PATH': os.path.dirname(path)}).check(name, state, found, group='gpu')
    compat = t.path('cuda/compat/libcuda.so.1')
    os.makedirs(os.path.dirname(compat))
    shutil.copy(library('libcuda.so.1'), compat)
    with python(t, script=loads(newer, compat)) as p:
        Answers(t, *nvml, '-p', str(p.pid)).check(name, 'not_checked', rf'brings its own driver library: {compat}$', group='program')
    with python(t, script=loads(newer)) as p:
        Answers(t, '--nvml', library('nvml_old/' + NVML), '-p', str(p.pid)).check(name, 'not_checked', 'NVML does not say', group='program')
        if not glob.glob('/dev/nvidia[0-9]*'):
            t.equal('without a GPU', Answers(t, '-p', str(p.pid)).all(name), [])


@case('two copies of CUPTI in a process, one, and a tool that is named after it', timeout=120, beside='doctor')
def cupti_copies(t):
    first, second = (make_cupti(t, f'{folder}/libcupti.so.13', 130500) for folder in 'ab')
    with python(t, script=loads(first, second)) as p:
        found = Answers(t, '-p', str(p.pid)).check('copies of CUPTI', 'limited', group='program')['found']
        t.equal('both are named', sorted(found.split(' and ')), [first, second])
    tool = make_cupti(t, 'libcupti_trace_injection.so', 1)
    with python(t, script=loads(first, tool)) as p:
        a = Answers(t, '-p', str(p.pid))
        t.equal('one copy', a.all('copies of CUPTI'), [])
        a.check('CUPTI', 'works', r'^CUDA 13\.5\.0$', group='program')


@case('who has CUPTI and its place: a version with known faults, one without, other tools, NCCL plug-ins', timeout=120, beside='doctor')
def holders(t):
    def cupti(name, *args):
        return make_cupti(t, name, *args)

    tool = cupti('libToolsInjection64.so', 1)
    for name, version, state, found in (('a', 130001, 'limited', r'^CUDA 13\.0\.1, with known faults: .*fixed in CUDA 13\.1\.0'),
                                        ('b', 130000, 'limited', 'a deadlock when kernel records are switched off'), ('c', 26, 'limited', r'^CUDA 12\.8, with'),
                                        ('d', 130500, 'works', r'^CUDA 13\.5\.0$'), ('e', 5, 'not_checked', 'cannot find its version')):  # fmt: skip
        path = cupti(f'{name}/libcupti.so.13', version)
        with python(t, script=loads(path)) as p:
            a = Answers(t, '-p', str(p.pid))
            a.check('CUPTI', state, found, group='program')
            a.check('CUDA injection slot', 'works', 'free', group='program')
        # The one that the loader finds.
        Answers(t, env={'LD_LIBRARY_PATH': os.path.dirname(path)}).check('CUPTI', state, found, group='gpu')
    t.true('says that it is not used', 'refuses this version' in Answers(t, env={'LD_LIBRARY_PATH': t.path('b')}).one('CUPTI', 'gpu')['effect'])
    path = cupti('f/libcupti.so.13', 0, 'static unsigned n = 130500; *v = n++; return 0;')
    Answers(t, env={'LD_LIBRARY_PATH': t.path('f')}).check('CUPTI', 'not_checked', 'cannot find its version', group='gpu')
    os.mkdir(t.path('g'))
    os.mkfifo(t.path('g', 'libcupti.so.13'))
    Answers(t, env={'LD_LIBRARY_PATH': t.path('g')}).check('CUPTI', 'not_checked', group='gpu')
    real = '/usr/local/cuda-13.0/lib'
    if os.path.exists(real + '/libcupti.so.13'):
        Answers(t, env={'LD_LIBRARY_PATH': real}).check('CUPTI', 'limited', r'^CUDA 13\.0\.\d', group='gpu')
    else:
        t.note('no CUPTI of CUDA 13.0 here')
    # Of a command: the one of its Python's packages.
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', t.path('venv')], check=True)
    packages = glob.glob(t.path('venv', 'lib', 'python3*', 'site-packages'))[0]
    os.makedirs(packages + '/torch/lib')
    shutil.copy(os.path.join(harness.fake, 'libtorch_cpu.so'), packages + '/torch/lib')
    Answers(t, '--', t.path('venv/bin/python3')).check('CUPTI', 'not_needed', group='program')
    cupti(os.path.relpath(packages, t.path()) + '/nvidia/cuda_cupti/lib/libcupti.so.12', 24)
    Answers(t, '--', t.path('venv/bin/python3')).check('CUPTI', 'limited', r'^CUDA 12\.6, with', group='program')
    env = {'CUDA_INJECTION64_PATH': tool, 'NVTX_INJECTION64_PATH': tool, 'NCCL_PROFILER_PLUGIN': 'inspector'}
    with python(t, script=loads(tool), env=env) as p:
        a = Answers(t, '-p', str(p.pid))
        a.check('CUDA injection slot', 'limited', rf'^CUDA_INJECTION64_PATH={tool}, Nsight Systems$', group='program')
        mend = a.check('NVTX injection slot', 'limited', rf'^NVTX_INJECTION64_PATH={tool}$', group='program')['do']
        t.equal('what frees it', mend, 'env -u NVTX_INJECTION64_PATH COMMAND')
        a.check('NCCL profiler slot', 'limited', 'NCCL_PROFILER_PLUGIN=inspector', group='program')
        a.check('CUDA injection slot', 'works', 'free', group='inside')


@case('a command: what it would load; it is not started', timeout=120, beside='doctor')
def command(t):
    flag = t.path('started')
    a = Answers(t, '--', os.path.join(harness.fake, 'fake_app'), f'--go-file={flag}')
    for name in ('CUDA runtime', 'CUDA driver', 'NCCL'):
        t.true(f'{name} of its own', any(x['state'] == 'works' and harness.fake in x['found'] for x in a.all(name, 'program')), a.all(name))
    a = Answers(t, '--', 'touch', flag)
    t.true('not started', not os.path.exists(flag))
    t.true('nothing of its own', all('if loaded' in x['found'] for n in ('CUDA runtime', 'CUDA driver', 'NCCL') for x in a.all(n, 'program')))
    a = Answers(t, '--', 'touch', flag, env={'CUDA_INJECTION64_PATH': '/opt/x.so'})
    a.check('CUDA injection slot', 'limited', 'CUDA_INJECTION64_PATH=/opt/x.so', group='program')
    t.match('no such command', r'^gpuscope: nosuchprogram: no such command$', t.tool('doctor', '--', 'nosuchprogram', status=4).err.strip())


@case('the text: the worst first, a screen of 100 columns when nothing fails; -v has each answer; wrong usage', beside='doctor')
def text(t):
    run = t.tool('doctor', '--width', '100')
    lines = run.out.splitlines()
    t.true('no line is wider', all(len(line) <= 100 or line.startswith(' ' * 12 + 'do: ') for line in lines), max(lines, key=len))
    titles = [line.split(':')[0] for line in lines[1:] if not line.startswith(' ')]
    order = ['fails', 'limited', 'not checked', 'works', 'not needed here']
    t.equal('in this order', titles, [x for x in order if x in titles])
    well = len(lines) - sum(len(part) for part in sections(lines, ('fails', 'limited')))
    t.true('a screen for what is well', well <= 24, run.out)
    t.match('the first line counts', r'^gpuscope \S+ on \S+, as user 0: ', lines[0])
    whole = t.tool('doctor', '-v').out
    doc = json.loads(t.tool('doctor', '--json').out)
    for a in doc['answers']:
        t.true(f'-v has {a["name"]}', f' {a["name"]}' in whole)
    t.match('YAML', r'(?s)^version: 1\n.*\nanswers:\n', t.tool('doctor', '--format', 'yaml').out)
    t.match('both', 'either a command or -p', t.tool('doctor', '-p', '1', '--', 'true', status=2).err)
    t.match('no id', '--pid takes', t.tool('doctor', '-p', 'x', status=2).err)
    with open('/dev/full', 'w') as full:
        run = subprocess.run([harness.gpuscope, 'doctor'], stdout=full, stderr=subprocess.PIPE, text=True)
    t.equal('a full disk', (run.returncode, 'cannot write' in run.stderr), (1, True))


def sections(lines, names):
    """Lines of the sections of these names, each with its title."""
    out, inside = [], False
    for line in lines[1:]:
        if not line.startswith(' '):
            inside = line.split(':')[0] in names
            if inside:
                out.append([])
        if inside:
            out[-1].append(line)
    return out


main()
