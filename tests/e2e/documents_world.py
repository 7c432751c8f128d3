"""The world in which commands of documents run: this machine with a network, /etc, /var, /run and /usr/local of its own.

Ports and paths are then those that documents name, whatever else runs here: nothing that a command does is seen outside,
and all of it is gone after the case. In it are: gpuscope on the PATH, Slurm's scripts and the man pages where `make install`
puts them, stand-ins of the libraries of CUDA, NCCL and NVML, and in the working folder train.py, ./train, ./solver, job.sh
and the folders of the repository. A real Slurm is started for the commands that need one.
"""

import ctypes
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import documents_table as table
import harness
from harness import PATIENCE, Skip, read_text, wait_until
from slurm_help import Slurm

ROOT = os.path.realpath(os.path.join(harness.HERE, '..', '..'))
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
OWN = ('etc', 'var', 'usr/local', 'opt', 'root')  # folders with a layer of the world on top
HOSTS = ('HEAD', 'HOST', 'monitor', 'head', 'node1', 'node2')
STAND_INS = ('libcuda.', 'libcudart', 'libnccl.so', 'libnvidia-ml')
SLURM = re.compile(r'\b(?:srun|sbatch|squeue|scontrol|scancel|sinfo)\b|(?:^|\s)(?:-j|--job-id)[ =]?\d')
LIMIT = 60  # seconds of one command, times PATIENCE
FIRST_JOB = 4711
SLOW = 5  # seconds from which on the report of a test says how long a command took


class NumberedSlurm(Slurm):
    """Its jobs have the numbers that documents name."""

    def write(self):
        self.first_job = FIRST_JOB
        super().write()


def program(path, text):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, 0o755)


class World:
    def __init__(self, t):
        if os.geteuid() != 0:
            raise Skip('needs root: the world has a network and folders of its own')
        self.t, self.served, self.targets, self.slurm, self.prepared, self.lacking = t, [], [], None, [], []
        self.work, self.bin, self.lib = t.path('work'), t.path('bin'), t.path('lib')
        self.separate()
        self.install()
        self.fill()
        self.env = {**t.env, 'PATH': f'{self.bin}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LD_LIBRARY_PATH': self.lib,
                    'HOME': '/root', 'USER': 'root', 'TERM': 'xterm-256color', 'COLUMNS': '160', 'MANPAGER': 'cat', 'PAGER': 'cat',
                    'BROWSER': os.path.join(self.bin, 'browser'),
                    # mpirun by root, more ranks than processors.
                    'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_rmaps_base_oversubscribe': '1',
                    'FAKE_NVML': 'gpus=8'}  # fmt: skip

    def separate(self):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET) != 0:
            raise Skip(f'this machine permits no namespaces: {os.strerror(ctypes.get_errno())}')
        layers = self.t.path('layers')
        os.makedirs(layers)
        words = [['mount', '--make-rprivate', '/'], ['mount', '-t', 'tmpfs', 'layers', layers], ['ip', 'link', 'set', 'lo', 'up'],
                 # An interface that is not loopback, with an address: MPI's launcher and getaddrinfo(3) look for one.
                 ['ip', 'link', 'add', 'outside', 'type', 'veth', 'peer', 'name', 'other'], ['ip', 'link', 'set', 'other', 'up'],
                 ['ip', 'link', 'set', 'outside', 'up'], ['ip', 'address', 'add', '192.0.2.1/24', 'dev', 'outside'],
                 ['mount', '-t', 'tmpfs', 'run', '/run'], ['mount', '-t', 'tmpfs', 'shm', '/dev/shm']]  # fmt: skip
        for w in words:
            subprocess.run(w, check=True)
        for folder in OWN:
            upper, under = (os.path.join(layers, folder.replace('/', '_'), x) for x in ('upper', 'work'))
            os.makedirs(upper)
            os.makedirs(under)
            os.chmod(upper, os.stat('/' + folder).st_mode & 0o7777)
            subprocess.run(['mount', '-t', 'overlay', 'own', '-o', f'lowerdir=/{folder},upperdir={upper},workdir={under}', '/' + folder], check=True)

    def install(self):
        """Where `make install` puts it (tests/e2e/install.py runs that), as links to this build and this tree."""
        build = os.path.dirname(os.path.dirname(harness.gpuscope))
        libexec, modules = '/usr/local/libexec/gpuscope', '/usr/local/lib/x86_64-linux-gnu/gpuscope'
        for folder in (libexec, modules, '/etc/gpuscope', '/usr/local/share/man', self.bin, self.lib, self.work):
            os.makedirs(folder, exist_ok=True)
        self.link(harness.gpuscope, '/usr/local/bin/gpuscope')
        for name in ('common.sh', 'prolog.sh', 'epilog.sh', 'slurm-record'):
            shutil.copy(os.path.join(ROOT, 'packaging/slurm', name), libexec)
            os.chmod(os.path.join(libexec, name), 0o755)
        with open('/etc/gpuscope/slurm.conf', 'w', encoding='utf-8') as f:
            f.write(f'GPUSCOPE={harness.gpuscope}\n')
        plugin = os.path.join(build, 'packaging/slurm/spank_gpuscope.so')
        if os.path.exists(plugin):
            shutil.copy(plugin, modules)
        for page in os.listdir(os.path.join(ROOT, 'man')):
            if re.search(r'\.[1-8]$', page):
                folder = f'/usr/local/share/man/man{page[-1]}'
                os.makedirs(folder, exist_ok=True)
                self.link(os.path.join(ROOT, 'man', page), os.path.join(folder, page))

    @staticmethod
    def link(source, path):
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(source, path)

    def fill(self):
        with open('/etc/hosts', 'w', encoding='ascii') as f:
            f.write('127.0.0.1 localhost ' + os.uname().nodename + ' ' + ' '.join(HOSTS) + '\n')
        for name in os.listdir(harness.fake):
            if name.startswith(STAND_INS) and not name.endswith('.p'):
                self.link(os.path.join(harness.fake, name), os.path.join(self.lib, name))
        for name in os.listdir(ROOT):
            if name not in ('build', '.git', 'train.py'):
                self.link(os.path.join(ROOT, name), os.path.join(self.work, name))
        os.makedirs(os.path.join(self.work, 'build'))
        self.link(os.path.dirname(harness.gpuscope), os.path.join(self.work, 'build/src'))
        train = os.path.join(self.work, 'train.py')
        shutil.copy(os.path.join(harness.HERE, 'documents_train.py'), train)
        os.chmod(train, 0o755)
        self.link('/usr/bin/python3', os.path.join(self.bin, 'python'))
        # A browser that opens a file.
        program(os.path.join(self.bin, 'browser'), '#!/bin/sh\ntest -s "${1#file://}"\n')
        # Root runs what documents run by sudo; ranks of one node, without the network that torchrun would want.
        program(os.path.join(self.bin, 'sudo'), '#!/bin/sh\nexec "$@"\n')
        program(os.path.join(self.bin, 'torchrun'), '#!/bin/bash\nwhile [[ $1 == -* ]]; do [[ $1 == *=* || $1 == --standalone ]] || shift; shift; done\n'
                'for RANK in 0 1; do RANK=$RANK python3 "$@" & done\nwait\n')  # fmt: skip
        for name in ('train', 'solver'):
            program(os.path.join(self.work, name), f'#!/bin/sh\nexec {harness.fake}/demo_train --steps=200\n')
        program(os.path.join(self.work, 'job.sh'), '#!/bin/sh\nsleep 2\n')

    # --- what commands need ---

    def target(self):
        """A running train.py; its number."""
        if not self.targets:
            self.targets.append(subprocess.Popen(['./train.py'], cwd=self.work, env={**self.env, 'DOCUMENTS_SECONDS': '3600'}))
            wait_until(lambda: 'libcudart' in read_text(f'/proc/{self.targets[0].pid}/maps'), 20, 'train.py')
        return self.targets[0].pid

    def need_slurm(self):
        if self.slurm:
            return
        with open('/etc/plugstack.conf', 'w', encoding='ascii') as f:
            f.write('optional /usr/local/lib/x86_64-linux-gnu/gpuscope/spank_gpuscope.so\n')
        self.slurm = NumberedSlurm(self.t, cgroups=False, prolog='PlugStackConfig=/etc/plugstack.conf\n'
                                   'Prolog=/usr/local/libexec/gpuscope/prolog.sh\nEpilog=/usr/local/libexec/gpuscope/epilog.sh\n')  # fmt: skip
        self.env['SLURM_CONF'] = self.slurm.conf
        for job in (FIRST_JOB, FIRST_JOB + 1):
            # Slurm says RUNNING before there is a process of the job.
            runs = self.slurm.path('work', f'job{job}.runs')
            self.t.equal('number of a job', self.slurm.submit(f'touch {runs}; while sleep 0.1; do :; done\n', '-n1'), job)
            self.slurm.wait_state(job, 'RUNNING')
            wait_until(lambda runs=runs: os.path.exists(runs), what=f'the processes of job {job}')

    def prepare(self, command):
        """Each row once in a document."""
        for row_of in table.PREPARED:
            if row_of in self.prepared or not re.search(row_of[0], command.text):
                continue
            self.prepared.append(row_of)
            text = row_of[1].replace('{pid}', str(self.target())) if '{pid}' in row_of[1] else row_of[1]
            log = self.t.path(f'prepared{len(self.prepared)}')
            with open(log, 'wb') as f:  # it may leave something running, which holds no pipe of ours
                status = subprocess.run(['bash', '-c', text], cwd=self.work, env=self.env, stdout=f, stderr=f,
                                        stdin=subprocess.DEVNULL, check=False).returncode  # fmt: skip
            self.t.equal(f'{command}: status of {text} ({read_text(log)[-300:]})', status, 0)

    def rewritten(self, text):
        for pattern, to in table.REWRITTEN:
            if re.search(pattern, text):
                if '{pid}' in to:
                    to = to.replace('{pid}', str(self.target()))
                text = re.sub(pattern, to, text)
        return text

    # --- running ---

    def run_block(self, block):
        """Failures as texts: `document:line: command: what was wrong`."""
        shell = None
        for command in block.commands():
            if row(table.NOT_RUN, command.text) or self.is_missing(command):
                continue
            if SLURM.search(command.text):
                self.need_slurm()
            self.prepare(command)
            text = self.rewritten(command.text)
            began = time.monotonic()
            serves, watches = row(table.SERVES, command.text), row(table.WATCHES, command.text)
            try:
                if watches:
                    self.watch(text, *watches[1:])
                elif serves:
                    self.serve(command, text, serves[1])
                else:
                    if not shell or shell.proc.poll() is not None:
                        shell = Shell(self, block.document, block.line)
                    self.judge(command, *shell.run(setting(command.text) + text))
            except AssertionError as e:
                self.t.fail(f'{command}: {e}')
            if time.monotonic() - began > SLOW:
                self.t.note(f'{time.monotonic() - began:.0f} s: {command}')
        if shell:
            shell.close()

    def is_missing(self, command):
        """Whether the machine lacks what this command needs: the case is then a SKIP, where nothing else failed."""
        for word, (path, why) in table.OPTIONAL.items():
            if re.search(rf'(?<![\w/.-]){re.escape(word)}(?![\w.-])', command.text) and not (shutil.which(path) or os.path.exists(path)):
                self.lacking.append(f'{command.document}:{command.line}: {why}')
                return True
        return False

    def judge(self, command, status, out, err):
        wanted = (row(table.ENDS, command.text) or (None, 0))[1:]
        if status is None:
            self.t.fail(f'{command}: not over after {LIMIT * PATIENCE} s; does it belong to SERVES or WATCHES of documents_table.py? {tail(out, err)}')
        elif status not in wanted:
            self.t.fail(f'{command}: exit status {status}, not {" or ".join(map(str, wanted))}: {tail(out, err)}')
        elif command.shown:
            from documents_text import missing_line
            lost = missing_line(command.shown, out + '\n' + err)
            if lost:
                self.t.fail(f'{command}: line {lost[0]} shows {lost[1]!r}, and no line of the output, in this order, is like it:\n{out}{err}')

    def serve(self, command, text, ready):
        base = self.t.path(f'served{len(self.served)}')
        with open(base, 'wb') as f:
            proc = subprocess.Popen(['bash', '-c', 'exec ' + text], cwd=self.work, env=self.env, stdout=f, stderr=f, stdin=subprocess.DEVNULL)
        self.served.append((command, proc, base))

        def is_ready():
            assert proc.poll() is None, f'ended with {proc.returncode}: {read_text(base)[-500:]}'
            return re.search(ready, read_text(base))

        wait_until(is_ready, 20, f'{ready!r} in what it says')

    def watch(self, text, shows, key):
        """In a terminal."""
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            os.execvpe('bash', ['bash', '-c', 'exec ' + text], {**self.env, 'COLUMNS': '160', 'LINES': '50'})
        seen, end, sent = b'', time.monotonic() + LIMIT * PATIENCE, False
        try:
            while time.monotonic() < end:
                if select.select([master], [], [], 0.2)[0]:
                    try:
                        seen += os.read(master, 65536)
                    except OSError:
                        break
                if not sent and re.search(shows, seen.decode(errors='replace')):
                    os.write(master, key.encode())
                    sent = True
            else:
                os.kill(pid, signal.SIGKILL)
        finally:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(master)
        assert sent, f'{shows!r} was not on the screen; status {status}: {seen[-300:]!r}'
        assert status == 0, f'exit status {status} after {key!r}: {seen[-300:]!r}'

    def close(self):
        for command, proc, base in reversed(self.served):
            proc.send_signal(signal.SIGINT)
            try:
                status = proc.wait(timeout=20)
            except subprocess.TimeoutExpired:
                status = 'none'
            if status != 0:
                self.t.fail(f'{command}: exit status {status} on SIGINT: {read_text(base)[-500:]}')
        for proc in self.targets:
            proc.kill()
            proc.wait()
        if self.slurm:
            self.slurm.stop()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if self.lacking and kind is None:
            raise Skip('; '.join(self.lacking))


class Shell:
    """One for a block: what a line sets or where it goes holds for the next."""

    def __init__(self, world, document, line):
        self.world, self.n = world, 0
        self.base = world.t.path(f'{os.path.basename(document)}.{line}')
        self.proc = subprocess.Popen(['bash', '--noprofile', '--norc'], stdin=subprocess.PIPE, cwd=world.work, env=world.env,
                                     start_new_session=True, text=True)  # fmt: skip

    def run(self, text):
        """(status, output, errors); status None: it did not end."""
        self.n += 1
        base = f'{self.base}.{self.n}'
        with open(base + '.command', 'w', encoding='utf-8') as f:
            f.write(text + '\n')
        self.proc.stdin.write(f'. {base}.command >{base}.out 2>{base}.err </dev/null; echo $? >{base}.new; mv {base}.new {base}.status\n')
        self.proc.stdin.flush()
        end = time.monotonic() + LIMIT * PATIENCE
        while not os.path.exists(base + '.status') and self.proc.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        status = int(read_text(base + '.status')) if os.path.exists(base + '.status') else self.proc.poll()
        if status is None:
            os.killpg(self.proc.pid, signal.SIGKILL)
            self.proc.wait()
        return status, read_text(base + '.out'), read_text(base + '.err')

    def close(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            self.proc.wait()


def row(rows, text):
    return next((r for r in rows if re.search(r[0], text)), None)


def setting(text):
    found = row(table.SETTING, text)
    return ''.join(f'{name}={value} ' for name, value in found[1].items()) if found else ''


def tail(out, err):
    return ' '.join((err.strip() or out.strip())[-400:].split('\n'))
