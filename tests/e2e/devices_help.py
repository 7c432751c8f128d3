"""Control groups with real device rules, for tests of `gpuscope devices`: programs of class cgroup_device are made and
attached here by bpf(2), as systemd and container runtimes do, and processes in the group try to open real devices.

The drivers of NVIDIA's that a test sees are those of a file of its own, which lies over /proc/devices in a mount
namespace: majors of devices that every machine has (misc, ttys) stand for them.
"""

import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading

import harness
from harness import Skip, read_text, wait_until

V1, V2_PLACES = '/sys/fs/cgroup/devices', ('/sys/fs/cgroup/unified', '/sys/fs/cgroup')
DEVICE_PROGRAM, DEVICE_ATTACH = 15, 6
MULTI, OVERRIDE, REPLACE = 2, 1, 4
READ_WRITE = 6
# The stand-ins: misc devices and those of terminals.
DRIVERS = 'Character devices:\n  1 mem\n 10 nvidia\n 10 nvidiactl\n  5 nvidia-uvm\n  5 /dev/ptmx\n13 input\n\nBlock devices:\n  7 nvidia-no\n'
NULL, ZERO, TUN, FUSE, TTY = (1, 3), (1, 5), (10, 200), (10, 229), (5, 0)

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(152, b'\0'), 152)
    r = libc.syscall(321, command, buffer, 152)
    if r < 0:
        raise OSError(ctypes.get_errno(), f'bpf({command}): {os.strerror(ctypes.get_errno())}')
    return r, buffer.raw


def insn(code, dst=0, src=0, off=0, imm=0):
    return struct.pack('<BBhi', code, src << 4 | dst, off, imm)


def rules_program(rules, access=READ_WRITE):
    """A program that allows these (major, minor or None) and nothing else, in the way of container runtimes."""
    body = [insn(0x61, 2, 1, 0), insn(0xBC, 3, 2), insn(0x54, 2, imm=0xFFFF), insn(0x74, 3, imm=16), insn(0x61, 4, 1, 4), insn(0x61, 5, 1, 8)]
    for major, minor in rules:
        n = 6 + (minor is not None)
        body += [insn(0x55, 2, off=n, imm=2), insn(0xBC, 1, 3), insn(0x54, 1, imm=~access), insn(0x55, 1, off=n - 3, imm=0), insn(0x55, 4, off=n - 4, imm=major)]
        body += [] if minor is None else [insn(0x55, 5, off=2, imm=minor)]
        body += [insn(0xB7, 0, imm=1), insn(0x95)]
    return b''.join([*body, insn(0xB7, 0, imm=0), insn(0x95)])


HELPER_PROGRAM = b''.join([insn(0x85, imm=7), insn(0xB7, 0, imm=0), insn(0x95)])  # asks for a random number, says no


def load(code, name=b''):
    text = ctypes.create_string_buffer(code)
    gpl = ctypes.create_string_buffer(b'GPL')
    head = struct.pack('<IIQQIIQII', DEVICE_PROGRAM, len(code) // 8, ctypes.addressof(text), ctypes.addressof(gpl), 0, 0, 0, 0, 0)
    return bpf(5, head + name.ljust(16, b'\0'))[0]


def v2_place():
    for place in V2_PLACES:
        if os.path.exists(place + '/cgroup.controllers'):
            return place
    raise Skip('no control groups of version 2')


class Group:
    """A group of version 2, or of version 1's devices."""

    def __init__(self, t, name, place=None):
        self.t, self.place = t, place or v2_place()
        self.path = os.path.join(self.place, name)
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as e:
            raise Skip(f'no control group can be made: {e}')
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        self.held = []

    @property
    def name(self):
        return self.path[len(self.place):]

    # --- programs ---

    def attach(self, code, flags=MULTI, name=b'', replace=0):
        fd = load(code, name)
        self.held.append(fd)
        bpf(8, struct.pack('<IIIII', self.fd, fd, DEVICE_ATTACH, flags | (REPLACE if replace else 0), replace))
        return fd

    def detach(self, fd):
        bpf(9, struct.pack('<III', self.fd, fd, DEVICE_ATTACH))

    def link(self, code, name=b''):
        fd = load(code, name)
        link = bpf(28, struct.pack('<IIII', fd, self.fd, DEVICE_ATTACH, 0))[0]
        self.held += [fd, link]
        return link

    def programs(self):
        """(flags, [ids])"""
        ids = (ctypes.c_uint32 * 64)()
        _, out = bpf(16, struct.pack('<IIIIQII', self.fd, DEVICE_ATTACH, 0, 0, ctypes.addressof(ids), 64, 0))
        n = struct.unpack_from('<I', out, 24)[0]
        return struct.unpack_from('<I', out, 12)[0], list(ids[:n])

    # --- processes ---

    def open_errors(self, *devices):
        """What a new process in the group gets of opening each: 'ok', or 'EPERM'. Another error is past the rules."""
        paths = [node(self.t, device) for device in devices]
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            found = []
            try:
                with open(self.path + '/cgroup.procs', 'w') as f:
                    f.write('0')
                for path in paths:
                    try:
                        os.close(os.open(path, os.O_RDWR | os.O_NOCTTY))
                        found.append('ok')
                    except OSError as e:
                        found.append('EPERM' if e.errno == errno.EPERM else 'ok')
                os.write(w, ' '.join(found).encode())
            finally:
                os._exit(0)
        os.close(w)
        text = os.read(r, 4096).decode()
        os.close(r)
        os.waitpid(pid, 0)
        return text.split()

    def start(self, *open_devices):
        """A process that sits in the group, with these devices open. Opened before it enters."""
        script = 'import os, sys, time\nfds = [os.open(p, os.O_RDWR | os.O_NOCTTY) for p in sys.argv[2:]]\nopen(sys.argv[1], "w").write("0")\nprint("in", flush=True)\ntime.sleep(9999)'
        proc = subprocess.Popen([sys.executable, '-c', script, self.path + '/cgroup.procs', *(node(self.t, d) for d in open_devices)],
                                stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.t.equal('a process in the group', proc.stdout.readline(), 'in\n')
        return proc

    def close(self):
        for fd in [*self.held, self.fd]:
            with contextlib.suppress(OSError):
                os.close(fd)
        for pid in read_text(self.path + '/cgroup.procs').split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), 9)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not read_text(self.path + '/cgroup.procs'), 5, 'an empty group')
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


@contextlib.contextmanager
def groups(t, *names, place=None):
    """Groups that lie in each other, from outside to inside; names begin with one that no other test has."""
    made, path = [], f'gpuscope-test-{os.getpid()}-{threading.get_native_id()}'
    try:
        for name in names:
            path += '/' + name if made else '-' + name
            made.append(Group(t, path, place))
        yield made if len(made) > 1 else made[0]
    finally:
        for group in reversed(made):
            group.close()


def node(t, device):
    path = t.path('dev-%d-%d' % device)
    if not os.path.exists(path):
        os.mknod(path, 0o600 | 0o020000, os.makedev(*device))
    return path


ENTER = r'''
set -e
root=$1 drivers=$2; shift 2
mount --make-rprivate /
mkdir -p "$root/proc" "$root/sys/fs/cgroup" "$root/run/systemd/transient" "$root/run/systemd/system"
mount --rbind /proc "$root/proc"
mount --bind "$drivers" "$root/proc/devices"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
exec "$@"
'''


def at_root(t, *command, drivers=DRIVERS):
    """The command line by which a command runs beside a host root of its own, t.path('root')."""
    path = t.path('drivers')
    with open(path, 'w') as f:
        f.write(drivers)
    return ['unshare', '-m', 'sh', '-c', ENTER, 'enter', t.path('root'), path, *command]


def devices(t, *args, status=None, drivers=DRIVERS, env=None):
    """`gpuscope devices ARGS` with that root as the host's."""
    words = at_root(t, harness.gpuscope, 'devices', *args, '--host-root', t.path('root'), drivers=drivers)
    done = subprocess.run(words, capture_output=True, text=True, errors='replace', env=t.envs(env), timeout=60)
    if status is not None:
        t.equal(f'exit status of devices {" ".join(args)} ({done.stdout}{done.stderr})', done.returncode, status)
    return harness.Run(done.returncode, done.stdout, done.stderr)
