"""Runs `gpuscope` for the end-to-end tests and says in TAP what was right.

A test file defines cases and ends with `main()`:

    @case('launches of two threads', timeout=30)
    def launches(t):
        run = t.trace(command=t.app('--threads=2', 'cudaLaunchKernel=101'))
        t.counts(run)

Each case runs in a process of its own with a folder of its own and its own time limit; whatever it
leaves running is killed. What a case needs and the machine lacks is a SKIP with the reason.

Test files run side by side, also those of other checkouts on the machine: a case sees processes,
probes and connections of others. One that cannot stand something of others says of what
(`alone='jobs'`), and those that make it say so as well (`beside='jobs'`): those run beside each
other, but not beside one that is alone.

usage of a test file: FILE.py GPUSCOPE FAKE_FOLDER [CASE...]
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

# Whoever runs the tests behind nohup or in the background of a shell has signals ignored, which
# commands would inherit.
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# What a shell, a batch job or a CI has set for its programs decides nothing here: a language of messages and numbers,
# a proxy in front of this machine's own servers, the job that the tests run in, which GPUs it may see. Programs in
# Python that are read line by line write so.
for name in list(os.environ):
    if name.startswith(('LC_', 'SLURM_', 'SBATCH_', 'OMPI_', 'PMI_', 'PMIX_', 'NCCL_')) or name.lower().endswith('_proxy') or name in (
            'LANGUAGE', 'NO_COLOR', 'COLUMNS', 'LINES', 'CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER', 'NVIDIA_VISIBLE_DEVICES'):  # fmt: skip
        del os.environ[name]
os.environ.update(LANG='C.UTF-8', PYTHONUNBUFFERED='1', PYTHONDONTWRITEBYTECODE='1')
os.umask(0o022)  # programs of other users read what a case makes
# Some cases map more files than the 1024 that a shell mostly may have open.
most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (20000 if most_files == resource.RLIM_INFINITY else min(most_files, 20000), most_files))

# `python3` is the interpreter that runs the tests for all that they start, too.
os.environ['PATH'] = os.path.dirname(sys.executable) + ':' + os.environ.get('PATH', os.defpath)

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS = ('cuda-runtime', 'cuda-driver', 'nccl')
PR_SET_CHILD_SUBREAPER = 36

# What a summary tells under `lost` though no call is missing. Notices of mappings are of all programs of the machine: too many
# of others may start for a slow reader. First calls are counted; their times are not known (tests/e2e/harm.py counts these).
NOT_LOST = ('map_notices', 'first_calls')

# Limits of time end what hangs; what is only slow must pass, on any machine and under any load. Each limit
# that a test names is therefore so many times as long as it says. It costs nothing where things go right.
PATIENCE = 6

gpuscope = fake = ''
cases = []


def patient(seconds):
    """Below five seconds it is not a limit but a pace."""
    return seconds * PATIENCE if seconds and seconds >= 5 else seconds


class PatientPopen(subprocess.Popen):
    """What subprocess.run() waits with, too."""

    def wait(self, timeout=None):
        return super().wait(patient(timeout))

    def communicate(self, input=None, timeout=None):
        return super().communicate(input, patient(timeout))


subprocess.Popen = PatientPopen


class Skip(Exception):
    pass


def case(title, timeout=60, needs='bpf', alone=None, beside=None):
    """needs: 'bpf' (root, and a kernel that lets us load programs) or None. alone, beside: a lane."""

    def add(function):
        cases.append((title, timeout, needs, function, alone, beside))
        return function

    return add


def primes():
    found = []
    n = 1
    while True:
        n += 1
        if all(n % p for p in found):
            found.append(n)
            yield n


def is_asan():
    with open(gpuscope, 'rb') as f:
        return b'__asan_init' in f.read()


def wait_until(condition, seconds=20, what='condition'):
    seconds *= PATIENCE
    began = time.monotonic()
    end = began + seconds
    while not condition():
        asked = time.monotonic()
        if asked > end:
            raise AssertionError(f'{what}: not within {seconds} s')
        # To ask may cost much (programs of Slurm, a page of metrics): most of the time is left to what is waited for.
        time.sleep(min(max(0.01, 4 * (asked - began)), 0.5))
        began = time.monotonic()


def free_port():
    """One that nobody listens at, and that the kernel gives to no one: it is still free a moment later, and when a
    daemon that had it comes back."""
    low = min(int(read_text('/proc/sys/net/ipv4/ip_local_port_range').split()[0]), 60000)
    for _ in range(1000):
        port = random.randrange(low // 2, low)
        with socket.socket() as s:
            if s.connect_ex(('127.0.0.1', port)) != errno.ECONNREFUSED:
                continue
        with socket.socket() as s:
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(('', port))
                return port
            except OSError:
                pass
    raise AssertionError('no free port')


def has_module(python, name):
    """Whether the interpreter has it. It is not imported, which takes seconds of PyTorch."""
    ask = f'import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)'
    return subprocess.run([python, '-c', ask], capture_output=True).returncode == 0


def page_report(path):
    """The JSON from which a report that is a page draws itself."""
    return json.loads(re.search(r'(?s)id="report">(.*?)</script>', read_text(path))[1])


def lost_of(report):
    """What a report of jobs has lost, without notices of others (NOT_LOST). None: nothing."""
    lost = report['monitoring_session']['lost'] or ''
    return re.sub(r'[0-9]+ notices of newly mapped libraries were dropped: first calls may be missing(; )?', '', lost) or None


def read_text(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read()


class Run:
    """What one run of gpuscope left: status, texts, summary, and what fake_app says it did."""

    def __init__(self, status, out, err, summary_path=None):
        self.status, self.out, self.err = status, out, err
        self.summary = None
        self.lines = [json.loads(x) for x in out.splitlines() if x.startswith('{"pid"')]
        if summary_path and os.path.exists(summary_path) and os.path.getsize(summary_path):
            with open(summary_path, encoding='utf-8') as f:
                self.summary = json.load(f)

    def function(self, name):
        """The summary's row, None when there is none."""
        rows = [f for f in self.summary['functions'] if f['name'] == name]
        return rows[0] if rows else None

    def calls(self, name):
        row = self.function(name)
        return row['calls'] if row else 0

    def lost(self, cause):
        return sum(layer.get(cause, 0) for layer in self.summary['lost'].values())


class Live:
    """gpuscope still running; texts go to files."""

    def __init__(self, t, args, env=None, stdin=subprocess.DEVNULL, **more):
        self.t = t
        t.n_files += 1
        self.base = t.path(f'live{t.n_files}')
        self.summary_path = self.base + '.summary'
        self.out, self.err = open(self.base + '.out', 'wb'), open(self.base + '.err', 'wb')
        self.proc = subprocess.Popen(args(self.summary_path), stdin=stdin, stdout=self.out, stderr=self.err,
                                     env=env, **more)  # fmt: skip
        self.pid = self.proc.pid

    def err_text(self):
        return read_text(self.base + '.err')

    def out_text(self):
        return read_text(self.base + '.out')

    def wait_err(self, pattern, seconds=20):
        """Until the pattern is on standard error; an end of gpuscope before it is a failure."""

        def seen():
            if re.search(pattern, self.err_text()):
                return True
            assert self.proc.poll() is None, f'ended with {self.proc.returncode}: {self.err_text()}'
            return False

        wait_until(seen, seconds, f'{pattern!r} on standard error')

    def finish(self, seconds=60):
        status = self.proc.wait(timeout=seconds)
        self.out.close()
        self.err.close()
        return Run(status, self.out_text(), self.err_text(), self.summary_path)

    def interrupt(self, number=signal.SIGINT):
        self.proc.send_signal(number)


class Test:
    def __init__(self, tmp):
        self.tmp, self.failures, self.notes, self.n_files = tmp, [], [], 0
        # meson's own additions would change which libraries are found and how much memory is used.
        self.env = {k: v for k, v in os.environ.items() if k not in ('LD_LIBRARY_PATH', 'MALLOC_PERTURB_')}
        # The stand-in's device is as large as the numbers need.
        self.env['FAKE_CUDA_MEMORY'] = str(1 << 49)

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    # --- checks ---

    def fail(self, text):
        self.failures.append(str(text))

    def true(self, what, ok, detail=''):
        if not ok:
            self.fail(f'{what} {detail}'.rstrip())

    def equal(self, what, got, wanted):
        if got != wanted:
            self.fail(f'{what}: {got!r}, not {wanted!r}')

    def match(self, what, pattern, text):
        if not re.search(pattern, text):
            self.fail(f'{what}: no {pattern!r} in {text[-500:]!r}')

    def note(self, text):
        self.notes.append(text)

    # --- what is run ---

    def app(self, *args, name='fake_app'):
        return [os.path.join(fake, name), *args]

    def envs(self, more=None):
        return {**self.env, **(more or {})}

    def tool(self, *args, status=None, env=None, stdin=None, timeout=60, **more):
        """gpuscope with just these arguments."""
        # What is matched in a text must not depend on where its lines are broken.
        envs = {'COLUMNS': '1000', **self.envs(env)}
        done = subprocess.run([gpuscope, *args], capture_output=True, text=True, errors='replace', env=envs,
                              timeout=timeout, input=stdin, **more)  # fmt: skip
        if status is not None:
            self.equal(f'exit status of gpuscope {" ".join(args)[:100]} ({done.stderr.strip()[-300:]})',
                       done.returncode, status)  # fmt: skip
        return Run(done.returncode, done.stdout, done.stderr)

    def trace(self, *options, command=None, status=0, env=None, timeout=120, **more):
        """A whole trace, its summary read."""
        self.n_files += 1
        path = self.path(f'summary{self.n_files}.json')
        args = ['trace', '--format', 'json', '--summary', path, *options]
        if command:
            args += ['--', *command]
        run = self.tool(*args, env=env, timeout=timeout, status=status, **more)
        return Run(run.status, run.out, run.err, path)

    def start_trace(self, *options, command=None, env=None, **more):
        def args(summary_path):
            words = [gpuscope, 'trace', '-v', '--format', 'json', '--summary', summary_path, *options]
            return words + (['--', *command] if command else [])

        return Live(self, args, env=self.envs(env), **more)

    def start_app(self, *args, env=None, program=None, before=(), **more):
        """fake_app held before its first call until .let_go() is called; before: words in front."""
        self.n_files += 1
        flag = self.path(f'go{self.n_files}')
        words = [*before, program or os.path.join(fake, 'fake_app'), f'--go-file={flag}', *args]
        proc = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=self.envs(env), **more)

        def let_go():
            with open(flag, 'w'):
                pass

        def result(seconds=60):
            out, _ = proc.communicate(timeout=seconds)
            return [json.loads(x) for x in out.splitlines()]

        proc.let_go, proc.result = let_go, result
        # Its libraries are mapped before it waits.
        wait_until(lambda: proc.poll() is not None or 'libnccl' in read_text(f'/proc/{proc.pid}/maps'), 20, 'start')
        return proc

    # --- what was done against what was seen ---

    def wanted(self, lines, known=None):
        """{function: [calls, errors, bytes, inner]} of fake_app's words; known: names traced."""
        rows = {}
        for line in lines:
            for name, f in line['functions'].items():
                row = rows.setdefault(name, [0, 0, 0, 0])
                row[0] += f['calls']
                row[1] += f['errors']
                row[2] += f['bytes']
            for name, n in line['inner'].items():
                rows.setdefault(name, [0, 0, 0, 0])[3] += n
        return {k: v for k, v in rows.items() if known is None or k in known}

    def counts(self, run, lines=None, known=None, ignore_bytes=(), what=''):
        """Calls, errors, bytes and inner calls of each function, and errors by name, are exact."""
        lines = run.lines if lines is None else lines
        if run.summary is None:
            self.fail(f'{what} no summary: {run.err[-500:]}')
            return
        wanted = self.wanted(lines, known)
        got = {f['name']: [f['calls'], f['errors'], f['bytes'], f['inner_calls']] for f in run.summary['functions']}
        for name in sorted(set(wanted) | set(got)):
            a, b = got.get(name, [0] * 4)[:], wanted.get(name, [0] * 4)[:]
            if name in ignore_bytes:
                a[2] = b[2] = 0
            self.equal(f'{what} {name} [calls, errors, bytes, inner]', a, b)
        codes = {}
        for line in lines:
            for name, f in line['functions'].items():
                answer = '7' if name.startswith('nccl') else '600'
                for code, n in f['codes'].items():
                    if (known is None or name in known) and not (code == answer and f['answers']):
                        codes[name, int(code)] = codes.get((name, int(code)), 0) + n
        self.equal(f'{what} errors by code', {(e['function'], e['code']): e['count'] for e in run.summary['errors']},
                   codes)  # fmt: skip
        self.equal(f'{what} surprises', [line['surprises'] for line in lines], [0] * len(lines))

    def nothing_lost(self, run, what=''):
        lost = {layer: {k: n for k, n in causes.items() if k not in NOT_LOST} for layer, causes in run.summary['lost'].items()}
        self.equal(f'{what} lost', {k: v for k, v in lost.items() if v}, {})


def tracing_works():
    """None, or why not."""
    if os.geteuid() != 0:
        return 'needs root: probes are made by the kernel'
    done = subprocess.run([gpuscope, 'trace', '-q', '--', 'true'], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode == 3 else None


def is_ours(pid):
    try:
        return os.readlink(f'/proc/{pid}/exe') == os.path.realpath(gpuscope)
    except OSError:
        return False


class Beside(subprocess.Popen):
    """A process beside the tracer, in a `with`. Its end waits for the process: where the case failed before it had said so,
    it is killed, or the failure would show as a time limit."""

    def __exit__(self, kind, *rest):
        if kind:
            self.kill()
        super().__exit__(kind, *rest)


def kill_descendants():
    """What a case left running has become ours. A gpuscope that takes single probes off in the
    background is waited for: attaching is slow meanwhile, whoever does it."""
    end = time.monotonic() + 40 * PATIENCE
    while time.monotonic() < end:
        children = {int(p) for p in read_text(f'/proc/self/task/{os.getpid()}/children').split()}
        if not children:
            return
        for pid in children:
            # Such a one has no standard streams any more.
            if not is_ours(pid) or os.path.exists(f'/proc/{pid}/fd/2'):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)


def run_case(function, tmp, pipe):
    t = Test(tmp)
    skip = None
    os.chdir(tmp)
    os.dup2(2, 1)  # standard output is TAP
    try:
        function(t)
    except Skip as e:
        skip = str(e)
    except subprocess.TimeoutExpired as e:
        t.fail(f'too slow: {e}')
    except BaseException:
        t.fail(traceback.format_exc().strip())
    with os.fdopen(pipe, 'w') as f:
        json.dump({'failures': t.failures, 'notes': t.notes, 'skip': skip}, f)


def read_result(fd, pid, seconds):
    """What the case wrote; None when it did not end in time or died."""
    text, end = b'', time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            os.killpg(pid, signal.SIGKILL)
            return None, f'not finished after {seconds} s'
        piece = os.read(fd, 65536)
        if not piece:
            break
        text += piece
    return (json.loads(text), '') if text else (None, 'died')


def cpu_seconds():
    """Of all that cases have started and that has ended: what a case costs on a machine that is busy with others, too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def perform(title, seconds, function):
    tmp = tempfile.mkdtemp(prefix='gpuscope_e2e_')
    os.chmod(tmp, 0o755)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(r)
        status = 0
        try:
            run_case(function, tmp, w)
        finally:
            os._exit(status)
    os.close(w)
    result, why = read_result(r, pid, seconds)
    os.close(r)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    kill_descendants()
    for folder in reversed(mounts_below(tmp)):
        subprocess.run(['umount', '-l', folder], stderr=subprocess.DEVNULL)
    shutil.rmtree(tmp, ignore_errors=True)
    return result or {'failures': [why], 'notes': [], 'skip': None}


def unlink_dead_sockets(folder='/run/gpuscope-head'):
    """What heads that were killed left; those of heads that run, whoever started them, answer."""

    def is_dead(path):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(path) == errno.ECONNREFUSED

    dead = [path for path in glob.glob(folder + '/*.sock') if is_dead(path)]
    if dead:
        time.sleep(1)  # one that is being made does not listen yet
    for path in filter(is_dead, dead):
        try:
            os.unlink(path)
        except OSError:
            pass


def lock_file(name):
    """Open for flock(2); one for all test programs of this user on the machine."""
    folder = '/run/lock/gpuscope-tests' if os.geteuid() == 0 else f'{tempfile.gettempdir()}/gpuscope-tests-{os.geteuid()}'
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return open(os.path.join(folder, name), 'a', encoding='ascii')


@contextlib.contextmanager
def in_lane(alone, beside):
    """Whoever waits to be alone holds the gate, so that new ones beside each other cannot keep it waiting for ever."""
    if not alone and not beside:
        yield
        return
    with lock_file((alone or beside) + '.gate') as gate, lock_file((alone or beside) + '.lane') as lane:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lane, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            # Not by closing it: a process that a case has left may have it open.
            fcntl.flock(lane, fcntl.LOCK_UN)


def mounts_below(folder):
    return [line.split()[1] for line in read_text('/proc/mounts').splitlines() if line.split()[1].startswith(folder)]


def main(alone=None, beside=None):
    """alone, beside: of all cases that do not say it themselves."""
    global gpuscope, fake
    gpuscope, fake = (os.path.abspath(p) for p in sys.argv[1:3])
    chosen = [c for c in cases if len(sys.argv) < 4 or any(w in c[0] for w in sys.argv[3:])]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    unable = tracing_works() if any(c[2] for c in chosen) else None
    print(f'TAP version 13\n1..{len(chosen)}', flush=True)
    bad = 0
    for number, (title, seconds, needs, function, *lanes) in enumerate(chosen, 1):
        if needs and unable:
            print(f'ok {number} - {title} # SKIP {unable}', flush=True)
            continue
        with in_lane(*(lanes if any(lanes) else (alone, beside))):
            began, cpu_before = time.monotonic(), cpu_seconds()
            result = perform(title, seconds * PATIENCE * (4 if is_asan() else 1), function)
            took, cpu = time.monotonic() - began, cpu_seconds() - cpu_before
        word = 'not ok' if result['failures'] else 'ok'
        bad += bool(result['failures'])
        end = f' # SKIP {result["skip"]}' if result['skip'] and not result['failures'] else ''
        print(f'{word} {number} - {title}{end}', flush=True)
        print(f'# {took:.1f} s, {cpu:.1f} s of CPU')
        for text in result['failures'][:25] + result['notes']:  # the first line says why
            print('# ' + text.replace('\n', '\n# '))
        sys.stdout.flush()
    unlink_dead_sockets()
    sys.exit(1 if bad else 0)
