#!/usr/bin/env python3
"""Files of traced programs are read by a process without rights: what it has, what becomes of a trace
whose readers are stopped and killed, and that nothing of it reaches the traced command."""

import os
import random
import shutil
import signal
import subprocess
import threading

import harness
from agent_help import Agent, config_text
from harness import case, main, wait_until

CALLS = {'cudaLaunchKernel': 101, 'cudaMalloc': 103}
NAME = 'reader_app'
ARGS = [f'{name}={count}' for name, count in CALLS.items()]


def status_of(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        return dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)


def readers_of(pid):
    """The readers that a gpuscope has now."""
    found = []
    for task in os.listdir(f'/proc/{pid}/task'):
        try:
            with open(f'/proc/{pid}/task/{task}/children', encoding='utf-8') as f:
                children = f.read().split()
        except OSError:
            continue
        for child in children:
            try:
                with open(f'/proc/{child}/comm', encoding='utf-8') as f:
                    if f.read().strip() == 'gpuscope-reader':
                        found.append(int(child))
            except OSError:
                pass
    return found


def first_reader(live):
    wait_until(lambda: readers_of(live.pid), what='a reader')
    return readers_of(live.pid)[0]


def library_in(t, name):
    """The environment for copies of the stand-ins: files that were not read yet."""
    folder = t.path(name)
    os.mkdir(folder)
    for file in ('libcudart.so.13', 'libnccl.so.2'):
        shutil.copy(os.path.join(harness.fake, file), folder)
    return {'LD_LIBRARY_PATH': folder}


def start_own(t, *args, name):
    """A program with libraries and a name of its own: others on this machine are not counted."""
    program = t.path(NAME)
    if not os.path.islink(program):
        os.symlink(t.app()[0], program)
    return t.start_app(*args, env=library_in(t, name), program=program)


def run_own(t, live, name, seconds=60):
    app = start_own(t, *ARGS, name=name)
    try:
        live.wait_err(f'/{name}/libcudart[^ ]*: [0-9]+ probes', seconds=seconds)
    except AssertionError:
        app.kill()
        app.wait()
        raise
    app.let_go()
    app.result()


def run_any(t, live, name):
    """On a machine where many programs start, notices of one may be lost while a reader is waited for."""
    for i in range(4):
        try:
            run_own(t, live, f'{name}{i}', seconds=3)
            return
        except AssertionError:
            pass
    run_own(t, live, f'{name}4')


@case('a reader has no rights', timeout=60)
def rights(t):
    app = t.start_app(*ARGS)
    live = t.start_trace('-p', str(app.pid))
    live.wait_err('protected by own user, no capabilities, no_new_privs, limits')
    pid = first_reader(live)
    status = status_of(pid)
    for name in ('CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb'):
        t.equal(name, status[name], '0' * 16)
    t.equal('NoNewPrivs', status['NoNewPrivs'], '1')
    t.equal('Seccomp', status['Seccomp'], '2')
    uids = set(status['Uid'].split())
    t.equal('users', len(uids), 1)
    t.true('not root or nobody', not uids & {'0', '65534'}, uids)
    t.equal('groups', status['Groups'].strip(), '')
    # While it reads a file it has that one, too.
    wait_until(lambda: max(int(fd) for fd in os.listdir(f'/proc/{pid}/fd')) == 3, 30, 'no descriptor beyond its socket')
    live.wait_err('libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    app.result()
    run = live.finish()
    for name, count in CALLS.items():
        t.equal(name, run.calls(name), count)
    wait_until(lambda: not os.path.exists(f'/proc/{pid}'), what='its end')


# linux/capability.h: what a tracer keeps of root's, wherever it was started (core/sandbox/rights.c).
KEPT = {'CHOWN': 0, 'DAC_OVERRIDE': 1, 'DAC_READ_SEARCH': 2, 'FOWNER': 3, 'KILL': 5, 'SETGID': 6, 'SETUID': 7, 'SETPCAP': 8,
        'NET_BIND_SERVICE': 10, 'IPC_LOCK': 14, 'SYS_PTRACE': 19, 'SYS_RESOURCE': 24, 'SYSLOG': 34, 'PERFMON': 38, 'BPF': 39}  # fmt: skip
SYS_ADMIN = 1 << 21


def keeps_little(t, pid, also=0):
    """Each thread has these capabilities at most, and starts nothing that has more."""
    for task in os.listdir(f'/proc/{pid}/task'):
        try:
            status = status_of(f'{pid}/task/{task}')
        except OSError:  # it has ended
            continue
        for name in ('CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb'):
            more = int(status[name], 16) & ~(sum(1 << n for n in KEPT.values()) | also)
            t.equal(f'{name} of {status["Name"]}', hex(more), '0x0')


@case('a tracer of root keeps what it takes to attach to what comes, and no more', timeout=120)
def holder(t):
    live = t.start_trace('--comm', NAME)
    run_own(t, live, 'early')
    keeps_little(t, live.pid, SYS_ADMIN)  # single uprobes are attached with it
    run_any(t, live, 'late')
    live.interrupt()
    run = live.finish()
    for name, count in CALLS.items():
        t.equal(name, run.calls(name), 2 * count)


@case('a recorder as the prolog starts it, and an agent from a shell, keep as little', timeout=120)
def recorder(t):
    number = t.path('recorder.pid')
    measured = subprocess.Popen(['sleep', '300'])
    t.tool('job', '-p', str(measured.pid), '--detach', number, '-o', t.path('report.json'), status=0)
    try:
        with open(number, encoding='utf-8') as f:
            keeps_little(t, int(f.read().split()[0]), SYS_ADMIN)  # of NVIDIA's driver
    finally:
        t.tool('job', '--stop', number, status=0)
        measured.kill()
        measured.wait()
    a = Agent(t, config_text(more='jobs:\n  enabled: true\n'))
    keeps_little(t, a.pid, SYS_ADMIN)
    a.stop()


def children_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as f:
        return [int(word) for word in f.read().split()]


@case('gpuscope probes has files read by a process without rights', timeout=120)
def probes(t):
    # More than a pipe holds: until it is read, the process waits.
    file = os.path.realpath('/proc/self/exe')
    words = [harness.gpuscope, 'probes', file, file, file]
    done = subprocess.Popen(words, stdout=subprocess.PIPE, env=t.envs())
    wait_until(lambda: any(status_of(pid)['Seccomp'] == '2' for pid in children_of(done.pid)), 60, 'the process')
    status = status_of(children_of(done.pid)[0])
    for name in ('CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb'):
        t.equal(name, status[name], '0' * 16)
    t.equal('NoNewPrivs', status['NoNewPrivs'], '1')
    t.true('not root or nobody', not set(status['Uid'].split()) & {'0', '65534'}, status['Uid'])
    out = done.communicate()[0]
    t.equal('status', done.returncode, 0)
    t.true('the list', out.count(b'\n') > 100, out[:200])


@case('the traced command has what it would have had', timeout=60)
def command(t):
    look = ('cat /proc/self/limits; grep -E "^(Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups|SigBlk|SigIgn|SigCgt)" '
            '/proc/self/status; ls /proc/self/fd')  # fmt: skip
    alone = subprocess.run(['sh', '-c', look], capture_output=True, text=True, env=t.envs()).stdout
    traced = t.tool('trace', '--quiet', '--summary', os.devnull, '--', 'sh', '-c', look, status=0).out
    t.equal('limits, capabilities, signals and descriptors', traced, alone)


@case('a reader that hangs is killed, and other files are read', timeout=120)
def hangs(t):
    live = t.start_trace('--comm', NAME)
    run_own(t, live, 'first')
    # That of root's files was the first.
    stopped = first_reader(live)
    os.kill(stopped, signal.SIGSTOP)
    held = start_own(t, 'cudaFree=107', name='held')
    live.wait_err('it took more than 10 s to read', seconds=60)
    wait_until(lambda: not os.path.exists(f'/proc/{stopped}'), what='its end')
    held.let_go()
    held.result()
    run_any(t, live, 'last')
    live.interrupt()
    run = live.finish()
    for name, count in CALLS.items():
        t.equal(name, run.calls(name), 2 * count)


@case('readers that are killed at any moment cost no call', timeout=180)
def killed(t):
    live = t.start_trace('--comm', NAME)
    live.wait_err('attach mode: ')
    over, dead, longest = threading.Event(), [], [0.03]

    def kill():
        # On a full machine no reader may be done so soon: each death gives the next one more time.
        while not over.wait(random.uniform(0.001, longest[0])):
            for pid in readers_of(live.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                    dead.append(pid)
                    longest[0] = min(longest[0] * 1.02, 2)
                except ProcessLookupError:
                    pass

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for i in range(6):
            run_own(t, live, f'copy{i}')
            longest[0] = 0.03
    finally:
        over.set()
        killer.join()
    live.interrupt()
    run = live.finish()
    t.true('some were killed', dead)
    t.note(f'{len(dead)} readers were killed')
    for name, count in CALLS.items():
        t.equal(name, run.calls(name), 6 * count)


main()
