"""gpuscope devices: access to devices that stand for NVIDIA's, on real control groups with real device rules."""

import contextlib
import json
import os
import re
import subprocess
import urllib.request

import devices_help
from agent_help import config_text
from devices_help import FUSE, HELPER_PROGRAM, MULTI, NULL, OVERRIDE, TTY, TUN, ZERO, V1, at_root, devices, groups, rules_program
import harness
from harness import Skip, case, main, read_text, wait_until
from systemd_help import Machine

DEPLOYMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'packaging', 'deployment', 'systemd')
OLD = [(1, 3)]  # what the group's rules allow


def line(run, what):
    """The state behind the name of a place."""
    for text in run.out.splitlines():
        if text.startswith(f'  {what} '):
            return text.split(what)[1].split()[0]
    return None


def needs_root():
    if os.geteuid() != 0:
        raise Skip('needs root')


@case('version 2: the program is replaced by one that has its rules and the devices; revoked; again', needs=None, beside='devices')
def version_2(t):
    needs_root()
    for flags, what in ((MULTI, 'multi'), (OVERRIDE, 'override'), (0, 'no flag'), (None, 'link')):
        with groups(t, 'v2') as g:
            held = g.link(rules_program(OLD)) if flags is None else g.attach(rules_program(OLD), flags)
            t.true(f'{what}: attached', held > 0)
            pid = str(g.start().pid)
            before = g.programs()
            t.equal(f'{what}: before', g.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'EPERM', 'EPERM'])
            run = devices(t, 'show', pid, status=1)
            t.equal(f'{what}: show', line(run, 'cgroup v2'), 'forbidden')
            t.match(f'{what}: the reason', rf'eBPF program {before[1][0]} of {g.name} forbids device (10|5):0', run.out)
            t.equal(f'{what}: show changed nothing', g.programs(), before)
            run = devices(t, 'grant', pid, status=0)
            t.equal(f'{what}: grant', line(run, 'cgroup v2'), 'granted')
            t.match(f'{what}: the devices', r': 10:\* 5:\*$', run.out.splitlines()[0])
            after = g.programs()
            t.equal(f'{what}: attached as before', (after[0], len(after[1])), (before[0], 1))
            t.true(f'{what}: another program', after[1] != before[1], after)
            t.equal(f'{what}: after', g.open_errors(NULL, ZERO, TUN, FUSE, TTY), ['ok', 'EPERM', 'ok', 'ok', 'ok'])
            run = devices(t, 'grant', pid, status=0)
            t.equal(f'{what}: again', line(run, 'cgroup v2'), 'allowed')
            t.equal(f'{what}: again changes nothing', g.programs(), after)
            # Another driver is loaded: its devices come to the others, and the program does not grow otherwise.
            devices(t, 'grant', pid, status=0, drivers=devices_help.DRIVERS.replace('13 input', '13 nvidia-caps'))
            t.equal(f'{what}: one program', len(g.programs()[1]), 1)
            t.equal(f'{what}: a third driver', g.open_errors(NULL, ZERO, TUN, (13, 63)), ['ok', 'EPERM', 'ok', 'ok'])
            run = devices(t, 'revoke', pid, status=0)
            t.equal(f'{what}: revoke', line(run, 'cgroup v2'), 'revoked')
            t.equal(f'{what}: as at the begin', g.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'EPERM', 'EPERM'])
            t.equal(f'{what}: attached as before', (g.programs()[0], len(g.programs()[1])), (before[0], 1))
            t.equal(f'{what}: nothing to revoke', line(devices(t, 'revoke', pid, status=0), 'cgroup v2'), 'none')


@case('version 2: mknod is not allowed with it; block devices of the same number neither', needs=None, beside='devices')
def no_more(t):
    needs_root()
    with groups(t, 'more') as g:
        g.attach(rules_program([(1, 3)]))
        proc = g.start()
        devices(t, 'grant', str(proc.pid), status=0)
        script = 'import os, stat, sys\nopen(sys.argv[1], "w").write("0")\n' \
                 'def made(kind, number):\n    try:\n        os.mknod(f"{sys.argv[2]}-{kind}-{number}", kind | 0o600, os.makedev(*number))\n        return "ok"\n' \
                 '    except PermissionError:\n        return "EPERM"\n' \
                 'print(made(stat.S_IFCHR, (10, 200)), made(stat.S_IFBLK, (10, 0)))'  # fmt: skip
        done = subprocess.run(['/usr/bin/python3', '-c', script, g.path + '/cgroup.procs', t.path('made')], capture_output=True, text=True)
        t.equal(f'mknod ({done.stderr[-200:]})', done.stdout.split(), ['EPERM', 'EPERM'])


@case('version 2: several programs; hidden constants; one that cannot be kept is left as it is', needs=None, beside='devices')
def several(t):
    needs_root()
    with groups(t, 'several') as g:
        g.attach(rules_program([(1, 3), (1, 5)]), name=b'first')
        g.attach(rules_program([(1, 3), (1, 8)]), name=b'second')
        pid = str(g.start().pid)
        devices(t, 'grant', pid, status=0)
        t.equal('two programs', len(g.programs()[1]), 2)
        t.equal('both hold', g.open_errors(NULL, ZERO, (1, 8), TUN), ['ok', 'EPERM', 'EPERM', 'ok'])
        devices(t, 'revoke', pid, status=0)
        # Longer than any log of the verifier that is kept.
        g.attach(rules_program([(1, 3), *((200, minor) for minor in range(3000))]))
        devices(t, 'grant', pid, status=0)
        t.equal('a long one holds', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'ok'])
        devices(t, 'revoke', pid, status=0)
        g.attach(HELPER_PROGRAM)
        before = g.programs()
        run = devices(t, 'grant', pid, status=3)
        t.match('why', r'gpuscope: eBPF program \d+ of \S+ cannot be kept while NVIDIA\'s devices are added: it calls functions of the kernel', run.err)
        t.true('it is still there', before[1][-1] in g.programs()[1], (before, g.programs()))
        t.equal('and forbids', g.open_errors(NULL, TUN), ['EPERM', 'EPERM'])
    with groups(t, 'twins') as g:
        g.attach(rules_program([(1, 3)]), name=b'twin')
        g.attach(rules_program([(1, 3), (1, 5), (5, None), (10, None)]), name=b'twin')
        pid = str(g.start().pid)
        for again in range(3):
            devices(t, 'grant', pid, status=0)
            t.equal(f'one of two of the same name allows all: {again}', g.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'ok', 'ok'])
    setting = '/proc/sys/net/core/bpf_jit_harden'
    old = read_text(setting)
    try:
        with open(setting, 'w') as f:
            f.write('2')
        with groups(t, 'harden') as g:
            g.attach(rules_program([(1, 3)]))
            pid = str(g.start().pid)
            for again in range(2):
                t.equal(f'hardened: grant {again}', line(devices(t, 'grant', pid, status=0), 'cgroup v2'), ('granted', 'allowed')[again])
                t.equal(f'hardened: after {again}', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'ok'])
            devices(t, 'revoke', pid, status=0)
            t.equal('hardened: revoked', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'EPERM'])
    finally:
        with open(setting, 'w') as f:
            f.write(old)


@case('groups above that forbid are named, and changed only on request', needs=None, beside='devices')
def ancestors(t):
    needs_root()
    with groups(t, 'above', 'below') as (above, g):
        above.attach(rules_program([(1, 3), (1, 5)]))
        g.attach(rules_program(OLD))
        pid = str(g.start().pid)
        run = devices(t, 'grant', pid, status=1)
        t.equal('still forbidden', line(run, 'cgroup v2'), 'forbidden')
        t.match('by whom', rf'eBPF program {above.programs()[1][0]} of {above.name} forbids device (10|5):0', run.out)
        t.equal('by the kernel too', g.open_errors(NULL, TUN), ['ok', 'EPERM'])
        run = devices(t, 'grant', '--ancestors', pid, status=0)
        t.equal('with --ancestors', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'ok'])
        t.equal('those above keep their rules', above.open_errors(NULL, ZERO, (1, 8), TUN), ['ok', 'ok', 'EPERM', 'ok'])
        devices(t, 'revoke', '--ancestors', pid, status=0)
        t.equal('revoked', (g.open_errors(NULL, TUN), above.open_errors(NULL, ZERO, TUN)), (['ok', 'EPERM'], ['ok', 'ok', 'EPERM']))


@case('another manager: it replaces ours, or attaches one of its own beside it; its rules hold', needs=None, beside='devices')
def second_manager(t):
    needs_root()
    with groups(t, 'manager') as g:
        first = g.attach(rules_program(OLD), name=b'sd_devices')
        pid = str(g.start().pid)
        devices(t, 'grant', pid, status=0)
        # As systemd does: its new one is attached, and its old one, which is not there any more, cannot be detached.
        g.attach(rules_program([(1, 5)]), name=b'sd_devices')
        try:
            g.detach(first)
            t.fail('the first program was still attached')
        except OSError:
            pass
        t.equal('rules of both', g.open_errors(NULL, ZERO, TUN), ['EPERM', 'EPERM', 'EPERM'])
        devices(t, 'grant', pid, status=0)
        t.equal('one program', len(g.programs()[1]), 1)
        t.equal('the rules of the second, and the devices', g.open_errors(NULL, ZERO, TUN), ['EPERM', 'ok', 'ok'])
        replace_all(g, [(1, 8)])
        t.equal('those of a runtime', g.open_errors(NULL, (1, 8), TUN), ['EPERM', 'ok', 'EPERM'])
        t.equal('granted', line(devices(t, 'grant', pid, status=0), 'cgroup v2'), 'granted')
        t.equal('and the devices', g.open_errors(NULL, (1, 8), TUN), ['EPERM', 'ok', 'ok'])


@case('--held: only what the process has open; the list of those that hold devices', needs=None, beside='devices')
def held(t):
    needs_root()
    with groups(t, 'held') as g:
        proc = g.start(TUN)
        pid = str(proc.pid)
        g.attach(rules_program(OLD))
        run = devices(t, status=1)
        t.match('the list', rf'(?m)^{pid} +forbidden +10:200 +{g.name}$', run.out)
        run = devices(t, 'grant', '--held', pid, status=0)
        t.match('the device', r': 10:200$', run.out.splitlines()[0])
        t.equal('that one alone', g.open_errors(NULL, TUN, FUSE, TTY), ['ok', 'ok', 'EPERM', 'EPERM'])
        t.match('the list after', rf'(?m)^{pid} +allowed +10:200 +{g.name}$', devices(t).out)
        other = g.start()
        # Each process of a group has its own; what one holds is not taken from the other.
        third = g.start(FUSE)
        devices(t, 'grant', '--held', str(third.pid), status=0)
        t.equal('of both', g.open_errors(NULL, TUN, FUSE, TTY), ['ok', 'ok', 'ok', 'EPERM'])
        t.match('one that holds none', r'has no NVIDIA device open', devices(t, 'grant', '--held', str(other.pid), status=4).err)


@case('--format: the same for programs, of each process and of errors', needs=None, beside='devices')
def formats(t):
    needs_root()
    with groups(t, 'format') as g:
        pid = g.start(TUN).pid
        program = g.attach(rules_program(OLD)) and g.programs()[1][0]
        run = devices(t, '--format', 'json', status=1)
        rows = [p for p in json.loads(run.out)['processes'] if p['pid'] == pid]
        reason = f'eBPF program {program} of {g.name} forbids device 10:200'
        t.equal('the list', rows[0] | {'cgroup_v1': None}, {
            'pid': pid, 'access': 'forbidden', 'devices': ['10:200'], 'cgroup_v1': None,
            'cgroup_v2': {'state': 'forbidden', 'path': g.name}, 'reason': reason, 'error': None})  # fmt: skip
        none = 4194303  # the kernel's greatest is 4194304
        run = devices(t, 'grant', '--held', '--no-drop-in', '--format', 'json', str(pid), str(none), status=4)
        granted, gone = json.loads(run.out)['processes']
        t.equal('granted', (granted['access'], granted['cgroup_v2']['state'], granted['changes'], granted['reason']), ('allowed', 'granted', 1, None))
        t.equal('no systemd', granted['systemd'], {'state': 'none', 'file': None})
        t.equal('one that is not there', sorted(gone), ['error', 'pid'])
        t.true('its error is said as well', gone['error'] in run.err, (gone, run.err))
        run = devices(t, 'revoke', '--no-drop-in', '--format', 'yaml', str(pid), status=0)
        t.true('yaml', run.out.startswith(f'version: 1\nprocesses:\n  - pid: {pid}\n    cgroup_v1:\n') and 'state: revoked' in run.out, run.out)
    run = devices(t, '--format', 'json', status=4, drivers='Character devices:\n')
    t.equal('no process', json.loads(run.out), {'version': 1, 'processes': []})


@case('version 1: devices.allow, and only what was added is taken back', needs=None, beside='devices')
def version_1(t):
    needs_root()
    if not os.path.exists(V1 + '/devices.list') and not os.path.exists(V1 + '/cgroup.procs'):
        raise Skip('no control groups of version 1')
    with groups(t, 'v1', place=V1) as above:
        pid = str(above.start().pid)
        t.equal('without rules', line(devices(t, 'grant', pid, status=0), 'cgroup v1'), 'unrestricted')
        os.kill(int(pid), 9)
        for file, text in (('deny', 'a'), ('allow', 'c 1:3 rw'), ('allow', 'c 5:* rwm'), ('allow', 'c 10:* rw')):
            with open(f'{above.path}/devices.{file}', 'w') as f:
                f.write(text)
        g = devices_help.Group(t, above.path + '/in', V1)
        pid = str(g.start().pid)
        with open(g.path + '/devices.deny', 'w') as f:
            f.write('c 10:* rw')
        old = read_text(g.path + '/devices.list')
        t.equal('before', g.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'EPERM', 'ok'])
        run = devices(t, 'show', pid, status=1)
        t.match('the reason', rf'devices.list of {g.name} lacks some of 10:\* 5:\*', run.out)
        t.equal('grant', line(devices(t, 'grant', pid, status=0), 'cgroup v1'), 'granted')
        t.equal('after', g.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'ok', 'ok'])
        t.equal('again', line(devices(t, 'grant', pid, status=0), 'cgroup v1'), 'allowed')
        t.equal('revoke', line(devices(t, 'revoke', pid, status=0), 'cgroup v1'), 'revoked')
        t.equal('as before', sorted(read_text(g.path + '/devices.list').splitlines()), sorted(old.splitlines()))
        # What the group above does not have, the kernel gives to none below.
        with open(above.path + '/devices.deny', 'w') as f:
            f.write('c 10:* rw')
        run = devices(t, 'grant', pid, status=3)
        t.match('a group above', r'cannot add to devices.allow of \S+: a group above does not allow it', run.err)
        devices(t, 'grant', '--ancestors', pid, status=0)
        t.equal('with --ancestors', (g.open_errors(NULL, ZERO, TUN), above.open_errors(NULL, ZERO, TUN)), (['ok', 'EPERM', 'ok'],) * 2)
        devices(t, 'revoke', '--ancestors', pid, status=0)
        t.equal('and back', above.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'EPERM'])
        g.close()


def rmdir_fails(fd):
    try:
        os.rmdir('d' * 200, dir_fd=fd)
        return False
    except OSError:
        return True


@case('names and paths that are refused, each with one line', needs=None, beside='devices')
def hostile(t):
    needs_root()
    proc = subprocess.Popen(['sleep', '999'])
    for pid, status, text in (('0', 2, 'is not a process id'), ('-1', 2, ''), ('1x', 2, 'is not a process id'), ('4194303', 4, 'no process 4194303')):
        run = devices(t, 'grant', pid, status=status)
        t.match(f'pid {pid}', text, run.err)
    t.match('no driver', r'no driver of NVIDIA\'s is loaded', devices(t, 'grant', str(proc.pid), status=4, drivers='Character devices:\n  1 mem\n').err)
    for root, text in ((t.path('none'), 'cannot open the host\'s root'), (t.path(), 'no control groups at')):
        run = t.tool('devices', 'grant', str(proc.pid), '--host-root', root)
        t.match(f'root {root}', text, run.err)
        t.equal('one line', len(run.err.splitlines()), 1)
    # Folders and links that only look like a host's root.
    fake = t.path('fake')
    os.makedirs(fake + '/sys/fs/cgroup')
    os.symlink('/proc', fake + '/proc')
    os.makedirs(fake + '/real')
    os.symlink('/sys/fs/cgroup/devices', fake + '/sys/fs/cgroup/devices')
    run = t.tool('devices', 'grant', str(proc.pid), '--host-root', fake)
    t.match('links lead nowhere', 'no control groups at', run.err)
    for name, text in (('esc\x1bape', 'control characters'), ('x' * 255, None), ('a b', None)):
        with groups(t, 'odd', name) as (_, g):
            g.attach(rules_program(OLD))
            run = devices(t, 'grant', str(g.start().pid), status=1 if text else 0)
            t.equal(f'{name[:10]!r}: one line', len(run.err.splitlines()), 1 if text else 0)
            t.true(f'{name[:10]!r}', not text or text in run.err, run.err)
            t.equal(f'{name[:10]!r}: the group', g.open_errors(NULL, TUN), ['ok', 'EPERM' if text else 'ok'])
    with groups(t, 'deep') as g:
        fds = [g.fd]
        for _ in range(25):
            os.mkdir('d' * 200, dir_fd=fds[-1])
            fds.append(os.open('d' * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fds[-1]))
        with os.fdopen(os.open('cgroup.procs', os.O_WRONLY, dir_fd=fds[-1]), 'w') as f:
            f.write(str(proc.pid))
        run = devices(t, 'grant', str(proc.pid), status=1)
        t.equal('a path that is too long', re.sub(r'\d+', 'N', run.err), 'gpuscope: the control group of process N has a path that is too long\n')
        proc.kill()
        proc.wait()
        for fd in reversed(fds[:-1]):
            wait_until(lambda fd=fd: not rmdir_fails(fd), 20, 'an empty group')


@case('systemd: a drop-in where the unit has rules, once, whole, next to its own files', needs=None, beside='devices')
def drop_in(t):
    needs_root()
    run_folder = t.path('root', 'run/systemd')
    for folder in ('transient', 'system'):
        os.makedirs(f'{run_folder}/{folder}')
    with groups(t, 'x.slice', 'docker-1.scope') as (_, g):
        unit, pid = 'docker-1.scope', str(g.start().pid)
        g.attach(rules_program(OLD))
        run = devices(t, 'grant', pid, status=0)
        t.equal('no rules of systemd\'s: no drop-in', (line(run, 'systemd'), os.listdir(run_folder + '/transient')), ('none', []))
        with open(f'{run_folder}/transient/{unit}', 'w') as f:
            f.write('[Scope]\n')
        os.mkdir(f'{run_folder}/transient/{unit}.d')
        with open(f'{run_folder}/transient/{unit}.d/50-DeviceAllow.conf', 'w') as f:
            f.write('[Scope]\nDeviceAllow=\nDeviceAllow=/dev/char/1:3 rwm\n')
        run = devices(t, 'grant', pid, status=0)
        path = f'{run_folder}/transient/{unit}.d/90-gpuscope-devices.conf'
        t.equal('written', line(run, 'systemd'), 'granted')
        t.match('its path', 'transient/docker-1.scope.d/90-gpuscope-devices.conf', run.out)
        t.equal('its text', [x for x in read_text(path).splitlines() if not x.startswith('#')],
                ['[Scope]', 'DeviceAllow=char-nvidia rw', 'DeviceAllow=char-nvidiactl rw', 'DeviceAllow=char-nvidia-uvm rw'])  # fmt: skip
        before = os.stat(path)
        t.equal('again', line(devices(t, 'grant', pid, status=0), 'systemd'), 'allowed')
        t.equal('the same file', (os.stat(path).st_ino, os.stat(path).st_mtime_ns), (before.st_ino, before.st_mtime_ns))
        t.equal('theirs is theirs', len(read_text(os.path.dirname(path) + '/50-DeviceAllow.conf').splitlines()), 3)
        devices(t, 'grant', '--held', str(g.start(TUN).pid), status=0)
        t.true('what others got stays', 'char-nvidia-uvm rw\n' in read_text(path) and '/dev/char/10:200 rw\n' in read_text(path), read_text(path))
        # A link in its place is replaced, not followed.
        os.unlink(path)
        with open(t.path('victim'), 'w') as f:
            f.write('keep')
        os.symlink(t.path('victim'), path)
        devices(t, 'grant', pid, status=0)
        t.equal('a link is not followed', (read_text(t.path('victim')), os.path.islink(path)), ('keep', False))
        t.equal('nothing else is left', sorted(os.listdir(os.path.dirname(path))), ['50-DeviceAllow.conf', '90-gpuscope-devices.conf'])
        t.equal('revoke', line(devices(t, 'revoke', pid, status=0), 'systemd'), 'revoked')
        t.equal('it is gone', os.listdir(os.path.dirname(path)), ['50-DeviceAllow.conf'])


@case('the agent keeps its own devices and those of jobs, beside another manager, and gives up in time', timeout=120, needs=None, alone='devices')
def agent(t):
    needs_root()
    with groups(t, 'agent') as g, groups(t, 'job') as h:
        job = h.start(TUN)
        g.attach(rules_program(OLD))
        h.attach(rules_program(OLD))
        with open(t.path('agent.yaml'), 'w') as f:
            f.write(config_text(more=f'devices:\n  interval: 1s\n  retries: 3\n  host_root: {t.path("root")}\n'))
        words = at_root(t, harness.gpuscope, 'agent', '-c', t.path('agent.yaml'), '--configure-device-cgroups=jobs', drivers='Character devices:\n 10 nvidia\n')
        with open(t.path('agent.err'), 'w') as f:
            proc = subprocess.Popen(words, stderr=f, env=t.envs(), preexec_fn=lambda: open(g.path + '/cgroup.procs', 'w').write('0'))

        def said(pattern):
            def seen():
                assert proc.poll() is None, read_text(t.path('agent.err'))
                return re.search(pattern, read_text(t.path('agent.err')))

            wait_until(seen, 20, pattern)
            return seen()

        said(rf'agent: allowed NVIDIA devices 10:\* for process {proc.pid} in the cgroup {g.name}\n')
        said(rf'agent: allowed NVIDIA devices 10:200 for process {job.pid} in the cgroup {h.name}\n')
        t.equal('the agent', g.open_errors(NULL, ZERO, TUN, FUSE, TTY), ['ok', 'EPERM', 'ok', 'ok', 'EPERM'])
        t.equal('the job', h.open_errors(NULL, ZERO, TUN, FUSE), ['ok', 'EPERM', 'ok', 'EPERM'])
        address = said(r'served at http://([^/]+)/').group(1)

        def metrics():
            with urllib.request.urlopen(f'http://{address}/metrics') as answer:
                found = re.findall(r'(?m)^gpuscope_agent_device_(\S+) (\S+)$', answer.read().decode())
            return {name: float(value) for name, value in found}

        # What is in order is left as it is.
        before = g.programs(), h.programs()
        wait_until(lambda: metrics()['cgroups{state="allowed"}'] >= 2, 20, 'two groups')
        for again in range(1, 4):
            replace_all(h)
            wait_until(lambda n=again: metrics()['regrants_total'] == n, 20, f'granted again, {again}')
            t.equal(f'the job, {again}', h.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'ok', 'EPERM'])
        t.equal('the agent\'s own program is the first', (g.programs(), metrics()['grants_total'], metrics()['errors_total']), (before[0], 2, 0))
        replace_all(h)
        said(rf'agent: another program took NVIDIA devices from the cgroup {h.name} 3 times within an hour: gpuscope leaves it alone for the rest of the hour')
        now = h.programs()
        wait_until(lambda: (metrics()['cgroups_paused'], metrics()['cgroups{state="forbidden"}']) == (1, 1), 20, 'the pause')
        t.equal('left alone', (h.programs(), h.open_errors(NULL, TUN), metrics()['regrants_total']), (now, ['ok', 'EPERM'], 3))
        t.equal('said once', read_text(t.path('agent.err')).count('leaves it alone for'), 1)
        proc.terminate()
        t.equal(f'a clean end ({read_text(t.path("agent.err"))[-300:]})', proc.wait(60), 0)
        t.equal('its own group is as before', g.open_errors(NULL, ZERO, TUN, TTY), ['ok', 'EPERM', 'EPERM', 'EPERM'])


def replace_all(group, rules=OLD):
    """As runc does: all that was there goes. An agent may have taken the new one for its own meanwhile."""
    held = [devices_help.bpf(13, number.to_bytes(4, 'little'))[0] for number in group.programs()[1]]
    group.attach(rules_program(rules))
    for program in held:
        with contextlib.suppress(FileNotFoundError):
            group.detach(program)
        os.close(program)


@case('a container: own control groups are found in the host\'s by number', needs=None, beside='devices')
def container(t):
    needs_root()
    place = devices_help.v2_place()
    with groups(t, 'pod', 'own') as (pod, own):
        sibling = devices_help.Group(t, pod.path + '/sibling')
        for g in (own, sibling):
            g.attach(rules_program(OLD))
        mounts = f'mount -t tmpfs none /sys/fs/cgroup; mkdir -p {place}; mount -t cgroup2 none {place}'
        if os.path.exists(V1):
            mounts += f'; mkdir {V1}; mount -t cgroup -o devices none {V1}'
        script = f'set -e; echo 0 >{own.path}/cgroup.procs; exec unshare -C sh -ec \'{mounts}; exec "$@"\' sh "$@"'
        for g in (own, sibling):
            pid = str(g.start().pid)
            words = at_root(t, 'sh', '-c', script, 'sh', harness.gpuscope, 'devices', 'grant', pid, '--host-root', t.path('root'))
            done = subprocess.run(words, capture_output=True, text=True, env=t.envs())
            t.equal(f'status ({done.stderr})', done.returncode, 0)
            t.match('the absolute path', rf'cgroup v2 +granted +{g.name}\n', done.stdout)
            t.equal('the devices', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'ok'])
        sibling.close()


@case('a real systemd: its program is replaced, and a daemon-reload keeps the devices', timeout=180, needs=None, beside='devices')
def real_systemd(t):
    m, job, other = Machine(t), f'gpuscopejob{os.getpid()}', f'gpuscopeother{os.getpid()}'

    def inside(*command):
        """With the container's cgroup namespace as well."""
        return m.must('nsenter', '-t', '1', '-C', *command)

    with open(harness.gpuscope, 'rb') as f:
        m.put('/usr/bin/gpuscope', f, '755')
    m.put('/drivers', devices_help.DRIVERS)
    m.must('mount', '--bind', '/drivers', '/proc/devices')
    # What a container's scope is for a runtime: a transient unit with device rules.
    m.must('systemd-run', f'--unit={job}', '-p', 'DevicePolicy=strict', '-p', 'DeviceAllow=/dev/char/1:3 rw', 'sleep', '9999')
    pid = m.show(f'{job}.service', 'MainPID')
    group = inside('cat', f'/proc/{pid}/cgroup').split('0::')[1].strip()

    def opened():
        """Null, zero and two of the devices, by a process in the unit's group."""
        script = 'import os, sys\nfds = []\nopen(sys.argv[1], "w").write("0")\n' \
                 'for p in sys.argv[2:]:\n    try:\n        os.open(p, os.O_RDWR | os.O_NOCTTY)\n        print("ok", end=" ")\n' \
                 '    except PermissionError:\n        print("EPERM", end=" ")\n    except OSError:\n        print("ok", end=" ")\n'  # fmt: skip
        return inside('/usr/bin/python3', '-c', script, f'/sys/fs/cgroup{group}/cgroup.procs', '/dev/null', '/dev/zero', '/dev/net/tun', '/dev/tty').split()

    rules = opened()
    if rules[1] != 'EPERM':
        raise Skip('systemd has no device programs in a container here')
    t.equal('before', rules, ['ok', 'EPERM', 'EPERM', 'EPERM'])
    out = inside('gpuscope', 'devices', 'grant', pid)
    t.match('granted', r'cgroup v2 +granted', out)
    t.match('and written', rf'systemd +granted +/run/systemd/transient/{job}.service.d/90-gpuscope-devices.conf', out)
    t.equal('after', opened(), ['ok', 'EPERM', 'ok', 'ok'])
    inside('gpuscope', 'devices', 'revoke', pid)
    t.equal('revoked', opened(), ['ok', 'EPERM', 'EPERM', 'EPERM'])
    inside('gpuscope', 'devices', 'grant', pid)
    m.must('systemctl', 'daemon-reload')
    t.equal('after a daemon-reload', opened(), ['ok', 'EPERM', 'ok', 'ok'])
    # systemd writes its program again, with what its configuration now says.
    m.must('systemctl', 'set-property', '--runtime', f'{job}.service', 'DeviceAllow=/dev/char/1:5 rw')
    inside('gpuscope', 'devices', 'grant', pid)
    t.equal('after set-property and a grant', opened(), ['ok', 'ok', 'ok', 'ok'])
    t.equal('one program', len(json.loads(m.must('bpftool', '-j', 'cgroup', 'show', f'/sys/fs/cgroup{group}'))), 1)
    # systemd has put the devices among those of set-property: what it makes of them is not ours to take.
    t.match('revoked', r'systemd +revoked', inside('gpuscope', 'devices', 'revoke', pid))
    # It does not know of a file that came after it had read the unit, and leaves that when the unit ends: the next grant does not.
    inside('gpuscope', 'devices', 'grant', pid)
    m.must('systemctl', 'stop', f'{job}.service')
    m.must('systemd-run', f'--unit={other}', '-p', 'DevicePolicy=closed', 'sleep', '9999')
    inside('gpuscope', 'devices', 'grant', m.show(f'{other}.service', 'MainPID'))
    t.equal('drop-ins', m.must('ls', '/run/systemd/transient').split(), [f'{other}.service', f'{other}.service.d'])


@case('the packaged agent, with its drop-in for this, keeps the devices of a job', timeout=240, needs=None, alone='devices')
def packaged(t):
    m, job = Machine(t), f'gpuscopejob{os.getpid()}'
    m.put('/drivers', 'Character devices:\n 10 nvidia\n')
    m.must('mount', '--bind', '/drivers', '/proc/devices')
    m.put('/etc/gpuscope/agent.yaml', 'devices:\n  grant: jobs\n  interval: 1s\n')
    m.install('gpuscope-agent.service', 'gpuscope-agent.socket')
    with open(os.path.join(DEPLOYMENT, 'agent-devices.conf')) as f:
        # It has a procfs of its own.
        m.drop_in('gpuscope-agent.service', f.read() + 'BindReadOnlyPaths=/drivers:/proc/devices\n')
    # It has its device open before a manager forbids it.
    m.must('systemd-run', f'--unit={job}', 'sh', '-c', 'exec sleep 9999 3<>/dev/net/tun')
    pid = m.show(f'{job}.service', 'MainPID')
    wait_until(lambda: m.run('readlink', f'/proc/{pid}/fd/3').stdout == '/dev/net/tun\n', 20, 'an open device')
    m.must('systemctl', 'set-property', '--runtime', f'{job}.service', 'DeviceAllow=/dev/char/1:5 rw')
    m.must('systemctl', 'start', 'gpuscope-agent.service')

    def metric(name):
        found = re.search(r'(?m)^gpuscope_agent_device_' + name + r' (\S+)$', m.get('http://127.0.0.1:14780/metrics'))
        return float(found.group(1)) if found else 0

    try:
        wait_until(lambda: metric('grants_total'), 20, 'a grant')
        # The journal takes up what was said a moment later.
        said = rf'allowed NVIDIA devices 10:200 for process \d+ in the cgroup /system.slice/{job}.service'
        wait_until(lambda: re.search(said, m.journal('gpuscope-agent.service')), 20, said)
    except AssertionError as e:
        raise AssertionError(f'{e}: {m.journal("gpuscope-agent.service")[-500:]}') from None
    show = m.must('nsenter', '-t', '1', '-C', 'gpuscope', 'devices', 'show', '--held', pid)
    t.match('the rules', r'cgroup v2 +allowed', show)
    t.equal('the drop-in', m.must('grep', '-h', '^DeviceAllow', f'/run/systemd/transient/{job}.service.d/90-gpuscope-devices.conf'),
            'DeviceAllow=/dev/char/10:200 rw\n')  # fmt: skip
    t.equal('errors', metric('errors_total'), 0)


if __name__ == '__main__':
    main()
