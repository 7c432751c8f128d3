#!/usr/bin/env python3
"""Which processes are traced: those chosen, and no other."""

import json
import os
import re
import pwd
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import Skip, case, main, wait_until



def probed(library):
    """As it is told, of the stand-ins of this build: other programs of this machine may have others mapped."""
    return rf'{re.escape(os.path.realpath(harness.fake))}/([^ ]*/)?{library}[^ ]*: [0-9]+ probes'


def interrupt(live):
    live.interrupt()
    return live.finish()


def settle(live, n=1):
    """Until the probes of the libraries are in place, in each of n processes where they are made so."""
    live.wait_err('attach mode: ')
    if 'in the chosen processes only' not in live.err_text():
        n = 1
    for library in ('libcudart', 'libnccl'):
        live.wait_err('(?s)' + '.*'.join([probed(library)] * n))


def pids(run):
    return {p['pid'] for p in run.summary['processes']}


for options in ([], ['-o', 't.json']):
    mode = 'events' if options else 'added up'

    @case(f'-p traces these processes and no other, {mode}')
    def by_pid(t, options=options):
        a, b, other = (t.start_app(f'cudaMalloc={n}', f'ncclCommInitRank={n}') for n in (31, 37, 1009))
        live = t.start_trace('-p', f'{a.pid},{b.pid}', *options)
        settle(live, 2)
        other.let_go()
        other.result()
        a.let_go()
        lines = a.result()
        t.true('still running', live.proc.poll() is None)
        b.let_go()
        lines += b.result()
        run = live.finish()
        t.equal('status', run.status, 0)
        t.counts(run, lines)
        t.equal('processes', pids(run), {a.pid, b.pid})
        t.match('reason', 'ended', run.summary['end_reason'])

    @case(f'-p --follow traces children that run already, {mode}')
    def children(t, options=options):
        other = t.start_app('cudaMalloc=1009')
        words = ['sh', '-c', '"$@"; true', 'sh', os.path.join(harness.fake, 'fake_app'), f'--go-file={t.path("go")}', 'cudaMalloc=31']
        parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=t.envs(None))
        children = f'/proc/{parent.pid}/task/{parent.pid}/children'
        wait_until(lambda: any('libnccl' in harness.read_text(f'/proc/{pid}/maps') for pid in harness.read_text(children).split()), 120)
        child = int(harness.read_text(children))
        live = t.start_trace('-p', str(parent.pid), '--follow', *options)
        settle(live)
        other.let_go()
        other.result()
        open('go', 'w').close()
        lines = [json.loads(x) for x in parent.communicate(timeout=300)[0].splitlines()]
        run = interrupt(live)
        t.counts(run, lines)
        t.equal('processes', pids(run), {child})

    @case(f'-p without --follow leaves children out, with it they count, {mode}')
    def follow(t, options=options):
        for extra in ([], ['--follow']):
            app = t.start_app('--fork=2', 'cudaMalloc=31')
            live = t.start_trace('-p', str(app.pid), *extra, *options)
            settle(live)
            app.let_go()
            lines = app.result()
            if extra:
                wait_until(lambda: app.poll() is not None)
                live.interrupt()
            run = live.finish()
            t.equal('lines', len(lines), 3)
            t.counts(run, lines if extra else [x for x in lines if x['pid'] == app.pid], what=str(extra))


@case('-c traces processes of a name')
def by_name(t):
    name = 'e2e_trainer_xy'
    os.symlink(os.path.join(harness.fake, 'fake_app'), name)
    # The libraries are found beside the real file.
    env = {'LD_LIBRARY_PATH': harness.fake}
    mine = t.start_app('cudaMalloc=31', program=t.path(name), env=env)
    other = t.start_app('cudaMalloc=1009')
    live = t.start_trace('--comm', name)
    settle(live)
    other.let_go()
    other.result()
    # A library that only another program has, and that is new to us.
    os.mkdir('copy')
    shutil.copy(os.path.join(harness.fake, 'libcudart.so.13'), 'copy')
    unknown = t.start_app('cudaMalloc=1009', env={'LD_LIBRARY_PATH': f'{t.path("copy")}:{harness.fake}'})
    live.wait_err(r'copy/libcudart[^ ]*: [0-9]+ probes')
    unknown.let_go()
    unknown.result()
    mine.let_go()
    lines = mine.result()
    later = t.start_app('cudaMalloc=37', program=t.path(name), env=env)
    later.let_go()
    lines += later.result()
    run = interrupt(live)
    t.counts(run, lines)
    t.equal('libraries of others that came late', run.lost('late_attach'), 0)
    t.equal('processes', pids(run), {mine.pid, later.pid})


@case('-u traces processes of a user')
def by_user(t):
    try:
        user = pwd.getpwnam('nobody')
    except KeyError:
        raise Skip('there is no user nobody')

    def as_nobody(words):
        return ['setpriv', f'--reuid={user.pw_uid}', '--clear-groups', *words]

    reach = subprocess.run(as_nobody(t.app('cudaMalloc=1')), capture_output=True, env=t.env)
    if reach.returncode:
        raise Skip('nobody may not run the programs of this folder')
    other = t.start_app('cudaMalloc=1009')
    for word in ('nobody', str(user.pw_uid)):
        hold = t.path(f'end_{word}')
        mine = t.start_app('cudaMalloc=31', 'ncclCommInitRank=3', f'--hold-file={hold}', before=as_nobody([]))
        live = t.start_trace('-u', word)
        settle(live)
        if other.poll() is None:
            other.let_go()
            other.result()
        mine.let_go()
        first = mine.stdout.readline()
        time.sleep(2)  # its names are read when its first calls arrive
        open(hold, 'w').close()
        lines = [json.loads(first), *mine.result()]
        run = interrupt(live)
        t.counts(run, lines)
        t.equal('users', {p['uid'] for p in run.summary['processes']}, {user.pw_uid})


@case('-a traces all')
def everything(t):
    waiting = t.start_app('cudaMalloc=31')
    live = t.start_trace('-a')
    settle(live)
    # All processes of the machine are traced: others may have a library of that name too.
    live.wait_err(re.escape(harness.fake) + r'/libcudart[^ ]*: [0-9]+ probes')
    waiting.let_go()
    lines = waiting.result()
    new = t.start_app('cudaMalloc=37')
    new.let_go()
    lines += new.result()
    run = interrupt(live)
    got = {p['pid']: {f['name']: f['calls'] for f in p['functions']} for p in run.summary['processes']}
    t.equal('first', got.get(waiting.pid), {'cudaMalloc': 31})
    t.equal('second', got.get(new.pid), {'cudaMalloc': 37})


def cgroup_folders():
    """A folder of the unified hierarchy and one of an old one, where mounted."""
    found = {}
    for line in harness.read_text('/proc/mounts').splitlines():
        _, path, kind, options = line.split()[:4]
        if kind == 'cgroup2':
            found.setdefault('v2', path)
        elif kind == 'cgroup' and 'freezer' in options.split(','):
            found.setdefault('v1', path)
    return found


for version in ('v2', 'v1'):

    @case(f'--cgroup of {version} traces members, also later ones and those of folders below')
    def by_cgroup(t, version=version):
        base = cgroup_folders().get(version)
        if not base:
            raise Skip(f'no cgroup hierarchy of {version} is mounted')
        folder = os.path.join(base, f'gpuscope_e2e_{os.getpid()}')
        below = os.path.join(folder, 'below')
        try:
            os.makedirs(below)
        except OSError as e:
            raise Skip(f'{folder}: {e.strerror}')
        apps = []
        try:
            apps = [t.start_app(f'cudaMalloc={n}') for n in (31, 37, 41, 1009)]

            def join(app, where):
                with open(os.path.join(where, 'cgroup.procs'), 'w') as f:
                    f.write(str(app.pid))

            join(apps[0], folder)
            join(apps[1], below)
            live = t.start_trace('--cgroup', folder)
            live.wait_err(probed('libcudart'))
            join(apps[2], below)
            time.sleep(1.5 if version == 'v2' else 5)  # those of an old hierarchy are looked up some times a second
            lines = []
            for app in apps:
                app.let_go()
                lines += app.result()
            run = interrupt(live)
            t.counts(run, lines[:3])
            t.equal('processes', pids(run), {a.pid for a in apps[:3]})
        finally:
            for app in apps:
                if app.poll() is None:
                    app.kill()
                    app.wait()
            os.rmdir(below)
            os.rmdir(folder)


@case('no target: no such process, no such user, no such cgroup')
def no_target(t):
    gone = subprocess.Popen(['true'])
    gone.wait()
    run = t.tool('trace', '-p', str(gone.pid), status=4)
    t.match('said', str(gone.pid), run.err)
    t.tool('trace', '-u', 'no_such_user_xy', status=2)
    run = t.tool('trace', '--cgroup', '/no/such/folder', status=4)
    t.match('said', '/no/such/folder', run.err)


@case('-u and -c together: who meets both')
def by_user_and_name(t):
    name = 'e2e_both_xyz'
    os.symlink(os.path.join(harness.fake, 'fake_app'), name)
    env = {'LD_LIBRARY_PATH': harness.fake}
    mine = t.start_app('cudaMalloc=31', program=t.path(name), env=env)
    other = t.start_app('cudaMalloc=1009')
    for user, lines in ((os.geteuid() + 12345, []), (os.geteuid(), None)):
        live = t.start_trace('-u', str(user), '--comm', name)
        settle(live)
        if lines is None:
            for app in (other, mine):
                app.let_go()
                lines = app.result()
        run = interrupt(live)
        t.equal('target', run.summary['command'], f'processes of user {user} named {name}')
        t.counts(run, lines, what=str(user))


@case('-p with the id of a thread names its process')
def thread_id(t):
    program = 'import sys, threading; threading.Thread(target=sys.stdin.read).start()'
    held = subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE, env=t.env)

    def threads():
        return [int(x) for x in os.listdir(f'/proc/{held.pid}/task') if int(x) != held.pid]

    wait_until(threads, what='a thread')
    thread = threads()[0]
    run = t.tool('trace', '-p', str(thread), status=4)
    held.communicate()
    t.match('says', f'{thread} is a thread of process {held.pid}: give -p {held.pid}', run.err)


@case('a command is traced with its children, not its neighbours')
def command(t):
    other = t.start_app('cudaMalloc=1009')
    script = ' '.join(t.app('cudaMalloc=31')) + f'; while [ ! -e {t.path("end")} ]; do sleep 0.02; done'
    # So the libraries are known before they are loaded.
    live = t.start_trace(command=['sh', '-c', script], env={'LD_LIBRARY_PATH': harness.fake})
    live.wait_err(probed('libcudart'))
    wait_until(lambda: '"pid"' in live.out_text())
    other.let_go()
    other.result()
    open(t.path('end'), 'w').close()
    run = live.finish()
    t.counts(run)
    t.equal('status', run.status, 0)


@case('a short program that another command starts: its libraries are known before it runs')
def wrapped(t):
    words = t.app('cudaMalloc=31')
    bare = t.path('elsewhere')
    shutil.copy(words[0], bare)
    for command in (
        ['env', 'A=b', 'nice', '-n', '1', *words],
        ['timeout', '60', 'sh', '-c', f"cd /; ({words[0]} 'cudaMalloc=31')"],
        ['env', f'LD_LIBRARY_PATH={harness.fake}', bare, 'cudaMalloc=31'],
    ):
        run = t.trace(command=command)
        t.equal('lines', len(run.lines), 1)
        t.counts(run, what=command[0])
        t.equal('late', run.lost('late_attach'), 0)


@case('two gpuscopes trace one process: both count all')
def twice(t):
    app = t.start_app('cudaMalloc=31', 'cudaLaunchKernel=101', 'ncclCommInitRank=3')
    first = t.start_trace('-p', str(app.pid))
    settle(first)
    second = t.start_trace('-p', str(app.pid), '-o', 't.json')
    settle(second)
    app.let_go()
    lines = app.result()
    t.counts(first.finish(), lines, what='first')
    t.counts(second.finish(), lines, what='second')


@case('150 programs that start while the tracer has no processor: their mappings are not missed')
def burst(t):
    def begun():
        """Processes and threads on this machine since its start."""
        return int(re.search(r'(?m)^processes (\d+)$', harness.read_text('/proc/stat'))[1])

    for _ in range(10):
        live = t.start_trace('-a')
        live.wait_err('attach mode: ')
        cpu, before = min(os.sched_getaffinity(0)), begun()
        live.proc.send_signal(signal.SIGSTOP)
        subprocess.run(['taskset', '-c', str(cpu), 'sh', '-c', 'for i in $(seq 150); do /bin/true; done'], check=True)
        live.proc.send_signal(signal.SIGCONT)
        others = begun() - before - 150
        run = interrupt(live)
        if 'map_notices' not in [cause for layer in run.summary['lost'].values() for cause in layer]:
            return
        # Notices are of all programs of the machine: these may have been more than are meant.
        if others < 100:
            t.fail(f'notices were dropped, and others began {others} processes only')
            return
    raise Skip('others began many programs each time')


def bears_file_numbers():
    """Is the device in /proc/PID/maps, and in notices of mappings, that of stat(2)? On btrfs it is not."""
    line = re.search(r'(?m)^\S+ r-xp \S+ (\w+):(\w+) (\d+) +(/\S*/libc\.so\S*)$', harness.read_text('/proc/self/maps'))
    if not line:
        return False
    status = os.stat(line[4])
    return (os.makedev(int(line[1], 16), int(line[2], 16)), int(line[3])) == (status.st_dev, status.st_ino)


@case('what short programs map is not looked up again, and what comes among them gets its probes')
def known_files(t):
    if not bears_file_numbers():
        raise Skip('files have other numbers in notices of mappings than in stat(2) here')
    work = t.app('cudaMalloc=31', 'ncclCommInitRank=1', 'ncclAllReduce=7')
    run = t.trace('-v', command=['sh', '-c', 'for i in $(seq 200); do /bin/true; done; exec "$@"', 'sh', *work])
    t.equal('calls', (run.calls('cudaMalloc'), run.calls('ncclAllReduce')), (31, 7))
    seen, known = map(int, re.search(r'(\d+) mappings of files seen, (\d+) of them of files known', run.err).groups())
    if 'map_notices' in [cause for layer in run.summary['lost'].values() for cause in layer]:
        raise Skip('the kernel dropped notices')
    # Each maps at least itself and ld.so, which the first one's looks have made known.
    t.true('known files', known >= 390, f'{known} of {seen}')


main()
