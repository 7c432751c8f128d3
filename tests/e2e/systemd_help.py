"""A machine with a real systemd as its first process, in a container: for tests of units.

The container's root is this machine's own, with a layer of memory above it: nothing is fetched, and
nothing that happens inside stays. It has a network of its own, so that default ports are free. What
it has not: the kernel's process ids (eBPF programs see others than programs inside do), devices of
GPUs, limits of memory (controllers stay with this machine).
"""

import contextlib
import glob
import os
import re
import shutil
import subprocess

import harness
from harness import Skip, read_text, wait_until

LIBRARY = '/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1'

# In a mount namespace of its own, which ends with the container.
BOOT = r'''
set -e
d=$1
mount --make-rprivate /
mount -t tmpfs -o size=512m,mode=755 tmpfs "$d"
mkdir "$d/upper" "$d/work" "$d/root"
mount -t overlay -o "lowerdir=/,upperdir=$d/upper,workdir=$d/work" overlay "$d/root"
# Another machine, on which nothing is enabled.
cd "$d/root/etc"
rm -rf machine-id fstab systemd/system/*.wants systemd/system/gpuscope* gpuscope ../var/lib/gpuscope* ../var/lib/private/gpuscope*
: >machine-id
cd /
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
exec systemd-nspawn --quiet --register=no --keep-unit -D "$d/root" -M "gpuscope-test-$$" --private-network \
	--capability=CAP_BPF,CAP_PERFMON,CAP_SYSLOG,CAP_SYS_PTRACE --system-call-filter="bpf perf_event_open" \
	--resolv-conf=off --link-journal=no --console=pipe --boot systemd.unit=basic.target systemd.firstboot=off \
	systemd.show_status=no
'''


def units():
    """The folder of the units as they are installed: they name the program where its prefix is."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(harness.gpuscope))), 'packaging', 'systemd')


def children(pid, word=None):
    """The children, or those with this word in their command line."""
    found = []
    for path in glob.glob(f'/proc/{pid}/task/*/children'):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in read_text(path).split():
                with contextlib.suppress(OSError):
                    found += [int(child)] if not word or word in read_text(f'/proc/{child}/cmdline').split('\0') else []
    return found


class Machine:
    def __init__(self, t):
        if os.geteuid() != 0:
            raise Skip('needs root')
        for program in ('systemd-nspawn', 'systemctl', 'nsenter', 'unshare'):
            if not shutil.which(program):
                raise Skip(f'{program} is not installed')
        if not os.path.exists('/lib/systemd/systemd'):
            raise Skip('systemd is not installed')
        if harness.is_asan():
            raise Skip('a sanitizer needs more than the sandbox of a unit permits')
        self.t = t
        folder, self.log = t.path('machine'), t.path('machine.log')
        os.mkdir(folder)
        with open(self.log, 'w') as f:
            self.proc = subprocess.Popen(['unshare', '-m', 'bash', '-c', BOOT, 'boot', folder], stdin=subprocess.DEVNULL,
                                         stdout=f, stderr=f)  # fmt: skip
        self.first = None
        try:
            wait_until(self.is_up, 20, 'a container with systemd')
        except AssertionError as e:
            raise Skip(f'systemd does not start in a container here: {read_text(self.log)[-300:].strip() or e}')

    def is_up(self):
        if self.proc.poll() is not None:
            raise AssertionError(f'systemd-nspawn ended with {self.proc.returncode}')
        if not self.first:
            for pid in children(self.proc.pid):
                try:
                    if read_text(f'/proc/{pid}/comm').strip() == 'systemd':
                        self.first = pid
                except OSError:
                    pass
            return False
        done = self.run('systemctl', 'is-system-running')
        # A service of the machine that does not like containers is nothing to us.
        return done.stdout.strip() in ('running', 'degraded')

    # --- inside ---

    def run(self, *command, **more):
        return subprocess.run(['nsenter', '-t', str(self.first), '-m', '-p', '-i', '-u', '-n', *command], capture_output=True,
                              text=True, errors='replace', timeout=120, **more)  # fmt: skip

    def must(self, *command, **more):
        done = self.run(*command, **more)
        assert done.returncode == 0, f'{" ".join(command)}: {done.returncode}: {done.stdout}{done.stderr}'
        return done.stdout

    def put(self, path, content, mode='644'):
        """A file: text, or what an open file holds."""
        self.must('mkdir', '-p', os.path.dirname(path))
        command = ['sh', '-c', f'cat >"{path}" && chmod {mode} "{path}"']
        if isinstance(content, str):
            self.must(*command, input=content)
        else:
            self.must(*command, stdin=content)

    def install(self, *units_wanted):
        """gpuscope where packages put it, the stand-in for NVIDIA's library, and units."""
        text = ''.join(read_text(os.path.join(units(), unit)) for unit in units_wanted)
        program = re.search(r'^ExecStart=(\S+/gpuscope) ', text, re.M).group(1)
        for here, there in ((harness.gpuscope, program), (os.path.join(harness.fake, 'libnvidia-ml.so.1'), LIBRARY)):
            with open(here, 'rb') as f:
                self.put(there, f, '755')
        for unit in units_wanted:
            with open(os.path.join(units(), unit), 'rb') as f:
                self.put('/etc/systemd/system/' + unit, f)
        self.must('systemctl', 'daemon-reload')

    def drop_in(self, unit, text):
        self.put(f'/etc/systemd/system/{unit}.d/test.conf', text)
        self.must('systemctl', 'daemon-reload')

    def show(self, unit, name):
        return self.must('systemctl', 'show', '--value', '-p', name, unit).strip()

    def wait(self, unit, name, wanted, seconds=60):
        wait_until(lambda: re.fullmatch(wanted, self.show(unit, name)), seconds, f'{name}={wanted} of {unit}')

    def handles(self, pid, number):
        """Whether a process has a handler for the signal, or has it blocked to read it elsewhere."""
        done = self.run('cat', f'/proc/{pid}/status')
        masks = [int(x, 16) for x in re.findall(r'^Sig(?:Cgt|Blk):\s+(\w+)$', done.stdout, re.M)]
        return any(mask >> (number - 1) & 1 for mask in masks)

    def journal(self, unit):
        return self.must('journalctl', '--no-pager', '-o', 'cat', '-u', unit)

    def get(self, url):
        done = self.run('curl', '-sS', '--max-time', '20', url)
        return done.stdout if done.returncode == 0 else ''
