#!/usr/bin/env python3
"""What may go wrong around a trace: wrong usage, missing rights, signals, full disks, torn files."""

import fcntl
import json
import os
import re
import resource
import signal
import struct
import subprocess
import termios
import time

import harness
from harness import Skip, case, main, wait_until


def one_line(t, run, pattern=None):
    lines = run.err.strip().splitlines()
    t.equal('lines on standard error', len(lines), 1)
    if pattern:
        t.match('it says', pattern, run.err)


BTF = '/sys/kernel/btf/vmlinux'


@case('types of the kernel, read for each object of programs, are not in new pages each time')
def pages_of_a_start(t):
    if harness.is_asan():
        raise Skip('ASan keeps freed memory')
    run = [harness.gpuscope, 'trace', '--summary', t.path('s'), '--', 'true']
    pid = os.posix_spawn(run[0], run, {**os.environ, **t.env})
    used = os.wait4(pid, 0)[2]
    # A reading is the file and a copy of it; seven of them in new pages would be 14 sizes.
    pages = os.path.getsize(BTF) // resource.getpagesize()
    t.true(f'page faults, of types {pages}', used.ru_minflt < 8 * pages + 6000, used.ru_minflt)


UMASK = os.umask(0)
os.umask(UMASK)


@case('not root: exit status 3 and one line that names what lacks')
def not_root(t):
    try:
        done = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--inh-caps=-all',
                               harness.gpuscope, 'trace', '--', 'true'], capture_output=True, text=True, env=t.env,
                              cwd='/')  # fmt: skip
    except OSError:
        raise Skip('setpriv is not installed')
    if 'execut' in done.stderr and 'setpriv' in done.stderr or done.returncode in (126, 127):
        raise Skip('another user may not run the program in this folder')
    t.equal('status', done.returncode, 3)
    run = harness.Run(done.returncode, done.stdout, done.stderr)
    one_line(t, run, r'CAP_|root')


@case('wrong usage is 2 and told in a line', needs=None)
def usage(t):
    for args in (['trace'], ['trace', '-p', 'abc'], ['trace', '-p', '0'], ['trace', '--layer', 'gpu', '--', 'true'],
                 ['trace', '--format', 'xml', '--', 'true'], ['trace', '--duration', 'soon', '--', 'true'],
                 ['trace', '--duration', '0', '--', 'true'], ['trace', '--max-size', '-5', '--', 'true'],
                 ['trace', '--ring-size', '1K', '--', 'true'], ['trace', '--top', '-1', '--', 'true'],
                 ['trace', '-o', 'x.txt', '--', 'true'], ['trace', '-o', 'noending', '--', 'true'],
                 ['trace', '--disable-feature', 'everything', '--', 'true'], ['trace', '--color', 'blue', '--', 'true'],
                 ['trace', '-a', '--', 'true'], ['trace', '-p', '1', '--', 'true'],
                 ['trace', '--func', 'cudaMalloc,nosuchfunction', '--', 'true'], ['trace', '--min-duration', 'x', '--', 'true']):  # fmt: skip
        one_line(t, t.tool(*args, status=2))
    for args in ([], ['no-such-command'], ['trace', '--no-such-option'], ['report'], ['report', '--format', 'xml', 'a.gst'],
                 ['report', '-o', 'x.txt', 'a.gst'], ['report', 'a.gst', 'b.gst']):  # fmt: skip
        t.tool(*args, status=2)


@case('help, versions and slips of the commands', needs=None)
def commands(t):
    for words in ('trace --help-all', 'trace -h', 'trace --help'):
        t.match(words, r'Usage: gpuscope trace \[OPTION', t.tool(*words.split(), status=0).out)
    for command in ('trace', 'report', 'open', 'gpu', 'job', 'top', 'agent', 'head', 'connect', 'session', 'probes'):
        t.match(command, r'^gpuscope \d+\.\d+', t.tool(command, '--version', status=0).out)
    t.match('a word for it, as of git', r'^gpuscope \d+\.\d+', t.tool('version', status=0).out)
    for words, says in (('help nosuch', 'no command or topic "nosuch"'), ('tracee', 'did you mean "trace"'), ('-v trace', 'options follow')):
        one_line(t, t.tool(*words.split(), status=2), says)
    one_line(t, t.tool('trace', '-o', 'out.txt', '--', 'true', status=2), '--summary FILE')
    five = [word for i in range(5) for word in ('-o', f'{i}.gst')]
    one_line(t, t.tool('trace', *five, '--', 'true', status=2), '4 times')


@case('nothing to trace is status 4, with the reason')
def nothing(t):
    run = t.tool('trace', '--comm', 'nosuchname', '--duration', '0.2', status=4)
    t.match('no such name', 'no process named nosuchname ran', run.err)
    t.match('no cause is made up', r'No verdict: not known\n *why +this summary has no process', run.out + run.err)
    t.match('no such id', 'no process has the id', t.tool('trace', '-p', '4194300', status=4).err)
    t.match('no such cgroup', 'No such file', t.tool('trace', '--cgroup', '/nope', status=4).err)
    idle = subprocess.Popen(['sleep', '60'])
    t.tool('trace', '-p', str(idle.pid), '--duration', '0.2', status=4)


@case('options that would do nothing, or undo each other, are wrong usage', needs=None)
def idle_options(t):
    with open('calls.gst', 'w'):
        pass
    for words, says in (
        ('trace --comm', None), ('trace --follow -a', '--follow'), ('trace --follow -u root', '--follow'),
        ('trace -a --comm python3', '-a selects every process'), ('trace --flame time -a', '--flame'), ('trace --flame time -o x.json -a', '--flame'),
        ('trace --stack-bytes 8K -a', '--stack-bytes'), ('trace --python-filter none -a', '--python-filter'),
        ('trace --min-duration 5us -a', '--min-duration'), ('trace --max-size 1G -a', '--max-size'),
        ('trace --op add --op-set all -a', '--op-set'), ('trace --layer user -a', '--probes'),
        ('trace -o x.gst -o x.gst -a', 'twice'), ('trace --summary x.csv -o x.csv -a', 'same file'),
    ):  # fmt: skip
        args = [*words.split(), ''] if says is None else words.split()
        one_line(t, t.tool(*args, status=2), says or '--comm takes')
    t.true('nothing was written', not os.path.exists('x.gst') and not os.path.exists('x.csv'))
    for words, says in (('--compare -o a.json -o b.csv', 'one file'), ('-o a.json -o a.json', 'twice'), ('--flame time', '--flame'), ('--flame time -o a.csv', '--flame')):
        t.match(words, says, t.tool('report', 'calls.gst', *words.split(), status=2).err)


@case('--summary - is standard output, also with a command')
def summary_to_stdout(t):
    run = t.tool('trace', '--summary', '-', '--format', 'json', '--', *t.app('cudaMalloc=3'), status=0)
    t.true('no file of this name', not os.path.exists('-'))
    t.equal('calls', json.loads(run.out[run.out.index('\n') + 1 :])['functions'][0]['calls'], 3)


@case('-o - is standard output, in any format but .gst, and the summary goes to standard error')
def output_to_stdout(t):
    app = t.app('cudaMalloc=3', 'cudaFree=2')
    for name in '-', '/dev/stdout', '-.csv':
        run = t.tool('trace', '-o', name, '--func', 'cudaMalloc', '--', *app, status=0)
        t.equal(f'rows of {name}', run.out.count(',cudaMalloc,'), 3)
        t.match('summary', r'cudaMalloc +3', run.err)
    run = t.tool('trace', '-o', '-.json', '--func', 'cudaMalloc', '--', 'sh', '-c', ' '.join(app) + ' >&2', status=0)
    t.equal('events', [e['name'] for e in json.loads(run.out)['traceEvents'] if e['ph'] == 'X'].count('cudaMalloc'), 3)
    t.tool('trace', '-o', 'calls.gst', '--func', 'cudaMalloc', '--', *app, status=0)
    t.equal('of a report', t.tool('report', 'calls.gst', '-o', '-', status=0).out.count(',cudaMalloc,'), 3)
    t.equal('no file of such a name', [x for x in os.listdir() if x.startswith('-')], [])
    for words in ['-o', '-.gst'], ['-o', '-', '--summary', '-'], ['-o', '-', '-o', '/dev/stdout']:
        one_line(t, t.tool('trace', *words, '--', 'true', status=2))


@case('a flame graph that shows nothing says so')
def empty_flame(t):
    # Of a first launch nobody knows how it ended (a kernel that leaves out its return), so it must not be one.
    run = t.tool('trace', '-o', 'x.folded', '--flame', 'launches', '--', *t.app('cudaGetDevice=3'), status=0)
    t.match('why', 'x.folded shows nothing: no launch succeeded', run.err)
    run = t.tool('trace', '-o', 'x.folded', '--flame', 'launches', '--', *t.app('cudaLaunchKernel=3'), status=0)
    t.true('nothing of one that does', 'shows nothing' not in run.err)


@case('help and version', needs=None)
def help_text(t):
    for args in (['--help'], ['trace', '--help'], ['report', '--help'], ['--version']):
        t.match('says', 'gpuscope', t.tool(*args, status=0).out)


@case('a command that cannot be found or executed')
def no_command(t):
    one_line(t, t.tool('trace', '--', 'no-such-command-xy', status=127), 'not found')
    with open('plain', 'w') as f:
        f.write('text')
    one_line(t, t.tool('trace', '--', './plain', status=126), 'plain')
    one_line(t, t.tool('trace', '--', '/', status=126))


@case('exit status and signal of the command are passed on')
def statuses(t):
    for text, status in (('exit 0', 0), ('exit 7', 7), ('exit 255', 255), ('kill -KILL $$', 137), ('kill -SEGV $$', 139)):
        run = t.trace(command=['sh', '-c', text], status=status)
        t.equal(text, run.summary['exit_status'], status)


@case('standard input and output of the command are its own')
def streams(t):
    run = t.tool('trace', '--', 'cat', status=0, stdin='one\ntwo\n')
    t.equal('output', run.out, 'one\ntwo\n')
    run = t.tool('trace', '--format', 'json', '--summary', 's.json', '--', 'sh', '-c', 'echo out; echo err >&2', status=0)
    t.equal('output', run.out, 'out\n')
    t.match('error', '(?m)^err$', run.err)


@case('environment, folder and arguments of the command are its own')
def surroundings(t):
    run = t.tool('trace', '--', 'sh', '-c', 'echo "$PWD|$E2E_WORD|$1"', 'sh', '-o x', status=0, env={'E2E_WORD': 'a  b'})
    t.equal('seen', run.out, f'{os.path.realpath(t.tmp)}|a  b|-o x\n')


def busy(t, *options, **more):
    """A trace of a command that has made calls and waits."""
    live = t.start_trace(*options, command=t.app('cudaMalloc=31', f'--hold-file={t.path("end")}'), **more)
    wait_until(lambda: live.out_text().endswith('\n'), 20, 'its line')
    return live


@case('Ctrl-C: the whole group gets it, the summary is complete')
def ctrl_c(t):
    live = busy(t, '-o', 't.gst', start_new_session=True)
    os.killpg(live.pid, signal.SIGINT)
    run = live.finish(20)
    t.equal('status', run.status, 130)
    t.counts(run)
    t.equal('report', t.tool('report', 't.gst', status=0).err, '')


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):

    @case(f'{number.name} to gpuscope alone is passed on to the command')
    def passed_on(t, number=number):
        live = busy(t, start_new_session=True)
        live.interrupt(number)
        run = live.finish(20)
        t.equal('status', run.status, 128 + number)
        t.counts(run)


@case('Ctrl-C twice: the command is left running, the summary is complete')
def ctrl_c_twice(t):
    script = ' '.join(t.app('cudaMalloc=31')) + f'; trap "" INT; touch {t.path("ready")}; sleep 30'
    live = t.start_trace(command=['sh', '-c', script], start_new_session=True, env={'LD_LIBRARY_PATH': harness.fake})
    wait_until(lambda: os.path.exists(t.path('ready')))
    live.interrupt()
    live.wait_err('waiting for the command')
    time.sleep(0.3)
    live.interrupt()
    run = live.finish(20)
    t.true('status', run.status in (0, 130), str(run.status))
    t.match('reason', 'nterrupt', run.summary['end_reason'])
    t.counts(run)


@case('--duration of a command: the results come then, the command goes on untraced, its status is passed on')
def duration_of_command(t):
    go = t.path('go')
    script = ' '.join(t.app('--go-file=' + go, 'cudaMalloc=31')) + '; exit 7'
    live = t.start_trace('--duration', '0.3', command=['sh', '-c', script], env={'LD_LIBRARY_PATH': harness.fake})
    live.wait_err('waiting for the command')
    with open(live.summary_path) as f:
        t.equal('reason', json.load(f)['end_reason'], '--duration is over')
    t.equal('the command is waited for', live.proc.poll(), None)
    with open(go, 'w'):
        pass
    run = live.finish(60)
    t.equal('status', run.status, 7)
    t.equal('the command made its calls', [line['functions']['cudaMalloc']['calls'] for line in run.lines], [31])
    t.equal('which were after the end', run.summary['functions'], [])


@case('SIGTERM ends a trace of running processes, they go on')
def sigterm(t):
    app = t.start_app('cudaMalloc=31', '--hold-file=' + t.path('end'))
    live = t.start_trace('-p', str(app.pid), '-o', 't.json')
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    line = app.stdout.readline()
    live.interrupt(signal.SIGTERM)
    run = live.finish(20)
    t.equal('status', run.status, 0)
    t.counts(run, [json.loads(line)])
    t.equal('still there', app.poll(), None)
    with open('t.json') as f:
        t.equal('trace is whole', json.load(f)['gpuscopeEnd']['complete'], True)


@case('Ctrl-C once more while the results are written ends at once, and says what is written')
def quits(t):
    app = t.start_app('cudaMalloc=31', '--hold-file=' + t.path('end'))
    r, w = os.pipe()
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
    os.write(w, b'x' * 4096)  # the summary finds no room
    trace = subprocess.Popen([harness.gpuscope, 'trace', '-p', str(app.pid), '-o', 'q.gst'], stdout=w, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, **t.env})  # fmt: skip
    os.close(w)
    try:
        wait_until(lambda: os.path.exists('q.gst') and os.path.getsize('q.gst') > 0)
        time.sleep(1)
        trace.send_signal(signal.SIGINT)
        wait_until(lambda: 'wrote q.gst' in (trace.stderr.readline() or 'wrote q.gst'))
        time.sleep(0.5)
        t.equal('it waits', trace.poll(), None)
        trace.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        t.equal('another signal asks for nothing else', trace.poll(), None)
        begin = time.monotonic()
        trace.send_signal(signal.SIGINT)
        said = trace.communicate(timeout=20)[1]
        t.true('at once', time.monotonic() - begin < 2, time.monotonic() - begin)
        t.equal('status', trace.returncode, 130)
        t.equal('said', said, 'gpuscope: interrupted twice: q.gst written, the summary was not\n')
    finally:
        trace.kill()
        trace.wait()
        os.close(r)
    t.equal('the file is whole', json.loads(t.tool('report', '--json', 'q.gst', status=0).out)['complete'], True)
    t.equal('still there', app.poll(), None)


# Ctrl-C in the moment before the command says what it does on it: what it calls there sends it.
EARLY = '''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
int mallopt(int a, int b) { kill(getpid(), SIGINT); return 1; }
int sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	int (*real)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
	if (n == SIGINT && a)
		kill(getpid(), SIGINT);
	return real(n, a, old);
}
'''


@case('Ctrl-C while a command starts: a status, and a line', needs=None)
def starts(t):
    if harness.is_asan():
        raise Skip('ASan comes first')
    with open(t.path('early.c'), 'w') as f:
        f.write(EARLY)
    subprocess.run(['cc', '-shared', '-fPIC', '-o', t.path('early.so'), t.path('early.c')], check=True)
    for words, status in ((('job', '-p', str(os.getpid()), '-d', '5'), 130), (('agent', '--listen', '127.0.0.1:0', '--control', t.path('s')), 0)):
        run = subprocess.run([harness.gpuscope, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                             env={**os.environ, **t.env, 'LD_PRELOAD': t.path('early.so')})  # fmt: skip
        t.equal(f'{words[0]}: status', run.returncode, status)
        t.true(f'{words[0]}: said', run.stdout.startswith('gpuscope: ') and len(run.stdout.splitlines()) <= 2, run.stdout)


# Each process takes as long to be looked at as a thousand do.
MANY = '''
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>
struct dirent64 *readdir64(DIR *d)
{
	struct dirent64 *(*real)(DIR *) = dlsym(RTLD_NEXT, "readdir64"), *e = real(d);
	if (e && e->d_type == DT_DIR && isdigit((unsigned char)e->d_name[0]))
		usleep(2000000);
	return e;
}
'''


@case('-a with --duration among very many processes: it begins after 30 s at the latest, and says so', timeout=120)
def many_processes(t):
    if harness.is_asan():
        raise Skip('ASan comes first')
    with open(t.path('many.c'), 'w') as f:
        f.write(MANY)
    subprocess.run(['cc', '-shared', '-fPIC', '-o', t.path('many.so'), t.path('many.c')], check=True)
    begin = time.monotonic()
    run = subprocess.run([harness.gpuscope, 'trace', '-a', '-d', '1'], capture_output=True, text=True, timeout=100,
                         env={**os.environ, **t.env, 'LD_PRELOAD': t.path('many.so')})  # fmt: skip
    took = time.monotonic() - begin
    t.true('begins', 30 < took < 60, took)
    t.true('status', run.returncode in (0, 4), run.returncode)
    t.match('said', r'looking through running processes took 30 s, the limit with --duration', run.stderr)


@case('target killed: the trace ends by itself')
def target_killed(t):
    app = t.start_app('cudaMalloc=31', '--hold-file=' + t.path('end'))
    live = t.start_trace('-p', str(app.pid))
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    line = app.stdout.readline()
    app.kill()
    app.wait()
    t.counts(live.finish(20), [json.loads(line)])


@case('outputs that cannot be written are told before anything runs')
def unwritable(t):
    for path in ('/no/such/folder/t.json', '/proc/t.csv', '/no/such/t.gst', '/no/such/t.pftrace'):
        run = t.tool('trace', '-o', path, '--', 'touch', t.path('ran'), status=1)
        one_line(t, run, path)
        t.true('nothing ran', not os.path.exists(t.path('ran')))
    run = t.tool('trace', '--summary', '/no/such/s', '--', 'true')
    t.match('said', '/no/such/s', run.err)


def mount_small(t, kib):
    folder = t.path('small')
    os.mkdir(folder)
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={kib}k', 'none', folder], capture_output=True, text=True)
    if done.returncode:
        raise Skip('mounting is not allowed here')
    return folder


for suffix in ('json', 'csv', 'pftrace', 'gst'):

    @case(f'disk full while .{suffix} is written: told, what is there can be read, summary exact')
    def disk_full(t, suffix=suffix):
        path = os.path.join(mount_small(t, 64), f't.{suffix}')
        run = t.trace('-o', path, command=t.app('cudaMalloc=30011', 'cudaLaunchKernel=30013'))
        t.match('said', r'No space left', run.err)
        t.counts(run)
        if suffix == 'gst':
            told = json.loads(t.tool('report', '--format', 'json', path, status=0).out)
            t.true('a part', 0 < sum(f['calls'] for f in told['functions']) < 60024)
        if suffix == 'json':
            text = harness.read_text(path)
            t.true('ends at a whole line', text.endswith('\n'), repr(text[-80:]))


@case('a full disk leaves no torn report, and what was there before')
def disk_full_report(t):
    folder = mount_small(t, 64)
    path = os.path.join(folder, 'x.json')
    with open(path, 'w') as f:
        f.write('before')
    with open(os.path.join(folder, 'filler'), 'wb') as f:
        f.write(b'x' * 56 * 1024)
    app = subprocess.Popen(t.app('--pause-ms=20000', 'cudaMalloc=31'), env=t.env, stdout=subprocess.DEVNULL)
    run = t.tool('job', '-p', str(app.pid), '-d', '0.3', '-o', path, status=1)
    t.match('said', rf'cannot write {path}: No space left', run.err)
    t.equal('what is there', sorted(os.listdir(folder)), ['filler', 'x.json'])
    t.equal('what it holds', harness.read_text(path), 'before')
    app.kill()


@case('outputs: no link of others is followed, and what root sees of others is for root alone')
def links_of_others(t):
    folder, precious = t.path('theirs'), t.path('precious')
    os.mkdir(folder)
    with open(precious, 'w') as f:
        f.write('precious')
    app = t.start_app('cudaMalloc=31', '--hold-file=' + t.path('end'))
    traced = ('trace', '-p', str(app.pid), '--duration', '0.3')
    recorded = t.path('r.gst')
    live = t.start_trace('-p', str(app.pid), '-o', recorded)
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    app.stdout.readline()
    live.interrupt()
    live.finish()
    t.equal('a recording of a process', os.stat(recorded).st_mode & 0o777, 0o600)
    t.tool('report', recorded, '-o', t.path('r.csv'), status=0)
    t.equal('what is made of it', os.stat(t.path('r.csv')).st_mode & 0o777, 0o600)
    t.tool('trace', '-o', t.path('own.csv'), '--', 'true')
    t.equal('of an own command', os.stat(t.path('own.csv')).st_mode & 0o777, 0o666 & ~UMASK)
    for name, words in (('x.gst', (*traced, '-o')), ('x.json', (*traced, '-o')),
                        ('x.txt', (*traced, '--summary')), ('j.json', ('job', '-p', str(app.pid), '-d', '0.2', '-o')),
                        ('t.gst', ('top', '--once', '--record')), ('r.csv', ('report', recorded, '-o'))):  # fmt: skip
        link = os.path.join(folder, name)
        os.symlink(precious, link)
        os.lchown(link, 65534, 65534)
        run = t.tool(*words, link)
        t.true(f'{name}: refused', run.status != 0, run.err)
        t.match(name, rf'cannot write {link}: it is a symbolic link of user 65534; remove it or choose another name', run.err)
        t.equal(f'{name}: what it leads to', harness.read_text(precious), 'precious')
        # Their file is replaced: who holds it open sees nothing.
        os.unlink(link)
        with open(link, 'w') as f:
            f.write('theirs')
        os.chown(link, 65534, 65534)
        with open(link) as held:
            run = t.tool(*words, link)
            t.equal(f'{name}: written ({run.err[-200:]})', (os.stat(link).st_uid, os.stat(link).st_mode & 0o777, held.read()), (0, 0o600, 'theirs'))
    t.equal('nothing is left beside', sorted(os.listdir(folder)), ['j.json', 'r.csv', 't.gst', 'x.gst', 'x.json', 'x.txt'])
    app.kill()


@case('size limit of the process (ulimit -f) is an error, not a death')
def file_limit(t):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

    run = t.trace('-o', 't.csv', command=t.app('cudaMalloc=30011'), preexec_fn=limit)
    t.match('said', 'too large', run.err)
    t.counts(run)


@case('a low limit of open files is raised for us, not for the command')
def few_files(t):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 4096:
        raise Skip(f'at most {hard} files may be opened here')
    run = t.trace('--disable-feature=session,multi', '--layer=cuda-runtime', '--func=cudaMalloc*', command=['sh', '-c',
                  'ulimit -n; exec "$@"', 'sh', *t.app('cudaMalloc=3')],
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (30, hard)))  # fmt: skip
    t.counts(run)
    t.equal('limit of the command', run.out.split()[0], '30')
    t.equal('attach failures', run.summary['attach_failures'], [])


@case('root of a user namespace: told what it takes, as not permitted')
def user_namespace(t):
    made = subprocess.run(['unshare', '--user', '--map-root-user', 'true'], capture_output=True, text=True)
    if made.returncode:
        raise Skip(f'no user namespace can be made: {made.stderr.strip()}')
    done = subprocess.run(['unshare', '--user', '--map-root-user', harness.gpuscope, 'trace', '--', 'true'],
                          capture_output=True, text=True, env=t.env)  # fmt: skip
    t.equal('status', done.returncode, 3)
    one_line(t, harness.Run(done.returncode, done.stdout, done.stderr), 'privileged container')


@case('summary into a full device is told')
def full_summary(t):
    run = t.tool('trace', '--summary', '/dev/full', '--', *t.app('cudaMalloc=31'))
    t.match('said', 'No space left', run.err)


@case('tracefs is not mounted')
def no_tracefs(t):
    script = ('while grep -qE " (tracefs|debugfs) " /proc/mounts; do '
              'umount -l $(grep -E " (tracefs|debugfs) " /proc/mounts | head -n1 | cut -d" " -f2) || exit 99; done; '
              f'exec {harness.gpuscope} trace --format json --summary s.json -- ' + ' '.join(t.app('cudaMalloc=31')))  # fmt: skip
    for options in ('', '--disable-feature session,multi --func cudaMalloc'):
        done = subprocess.run(['unshare', '-m', 'sh', '-c', script.replace('trace ', f'trace {options} ', 1)],
                              capture_output=True, text=True, env=t.env)  # fmt: skip
        if done.returncode == 99 or 'unshare' in done.stderr:
            raise Skip('unshare -m is not allowed here')
        t.equal(f'status ({done.stderr[-300:]})', done.returncode, 0)
        t.counts(harness.Run(0, done.stdout, done.stderr, 's.json'))


@case('gpuscope killed: its .gst file can be read, the command goes on')
def killed(t):
    # sync_every_ms and the harvest bring the records to the file within some seconds.
    live = t.start_trace('-o', 't.gst', command=t.app('cudaMalloc=30011', f'--hold-file={t.path("end")}'))
    wait_until(lambda: live.out_text().endswith('\n'))
    calls = lambda told: sum(f['calls'] for f in json.loads(told.out)['functions']) if told.out else 0  # noqa: E731
    wait_until(lambda: calls(t.tool('report', '--format', 'json', 't.gst')) > 0, 60, 'calls in the file')
    pid = json.loads(live.out_text())['pid']
    live.interrupt(signal.SIGKILL)
    live.proc.wait()
    t.true('command lives', os.path.exists(f'/proc/{pid}'))
    open(t.path('end'), 'w').close()
    told = json.loads(t.tool('report', '--format', 'json', 't.gst', status=0).out)
    t.equal('complete', told['complete'], False)
    t.true('calls', 0 < sum(f['calls'] for f in told['functions']) <= 30011)
    table = t.tool('report', 't.gst', status=0)
    t.match('told', r'(?i)stopped|killed|not complete|incomplete', table.out + table.err)


@case('a .gst file torn anywhere in its last part is read up to there', timeout=120)
def torn(t):
    run = t.trace('-o', 't.gst', command=t.app('cudaMalloc=3001', 'cudaLaunchKernel=3001'))
    with open('t.gst', 'rb') as f:
        data = f.read()
    whole = sum(f['calls'] for f in run.summary['functions'])
    seen = set()
    for i in range(50):
        n = len(data) - 1 - i * (len(data) - 64) // 50
        with open('torn.gst', 'wb') as f:
            f.write(data[:n])
        report = t.tool('report', '--format', 'json', 'torn.gst', status=0)
        told = json.loads(report.out)
        calls = sum(f['calls'] for f in told['functions'])
        # Behind the end of the run there are only the names once more.
        t.true(f'cut at {n}', calls <= whole and (calls == whole or told['complete'] is False), str(calls))
        seen.add(calls)
    t.true('less and less', len(seen) >= 2, str(seen))


@case('files that are no .gst files')
def garbage(t):
    one_line(t, t.tool('report', 'no-such.gst', status=1), 'no-such.gst')
    for name, data in (('empty', b''), ('random', bytes(range(256)) * 100), ('text', b'hello\n'), ('zeros', b'\0' * 9000)):
        with open(f'{name}.gst', 'wb') as f:
            f.write(data)
        one_line(t, t.tool('report', f'{name}.gst', status=1), name)
    t.tool('report', '.', status=1)


@case('nothing was found: the summary says so, the status is that of the command')
def nothing(t):
    run = t.tool('trace', '--', 'true', status=0)
    t.match('said', r'(?i)no ', run.err)


@case('single links: gpuscope is through long before the kernel has let go of its probes', timeout=90)
def quick_end(t):
    run = t.trace('--disable-feature', 'session,multi', '--func', 'cudaMemcpy,cudaMemcpyAsync,cudaMalloc,cudaFree', '-o', 't.json', command=t.app('cudaMemcpy=31'), timeout=60)
    t.counts(run, known={f['name'] for f in run.summary['functions']})
    with open('t.json') as f:
        t.equal('whole', json.load(f)['gpuscopeEnd']['complete'], True)


@case('live line only on a terminal; -q and pipes have none')
def live_line(t):
    run = t.tool('trace', '--', *t.app('cudaMalloc=31', '--pause-ms=600'), status=0)
    t.true('no control characters', '\r' not in run.err and '\033' not in run.err)


@case('live line on a terminal: time, calls, their rate and what tracing costs; nothing of it remains')
def live_terminal(t):
    lines, text = live_lines(t, 'cudaMalloc=3100', '--pause-ms=2500', until=r'tracing [0-9.]+ (ms|s), [0-9.]+k? calls, now [^\x1b]*, tracing costs [0-9.]+ %')
    t.true('time, calls and rate', any(re.match(r'tracing [0-9.]+ (ms|s), [0-9.]+k? calls, now [0-9.]+ ?[kM]?/s', x) for x in lines), lines)
    t.true('what it costs', any(re.search(r', tracing costs [0-9.]+ %', x) for x in lines), lines)
    last = text.rindex(', now ')
    t.true('it is taken away before the summary', '\x1b[K' in text[last:] and 'Verdict' in text[last:], text[last:last + 300])


def live_lines(t, *app, env=None, until=None):
    """The live lines of a trace of fake_app on a terminal of 80 columns, and all that it wrote there. until: the program waits in
    its end until this was written."""
    t.n_files += 1
    hold = t.path(f'hold{t.n_files}')
    if until:
        app = (*app, f'--hold-file={hold}')
    main_fd, their_fd = os.openpty()
    fcntl.ioctl(their_fd, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    proc = subprocess.Popen([harness.gpuscope, 'trace', '--layer', 'cuda', '--', *t.app(*app)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=their_fd, env=t.envs(env))
    os.close(their_fd)
    seen = b''
    while True:
        try:
            piece = os.read(main_fd, 65536)
        except OSError:  # nobody holds its other end any more
            break
        if not piece:
            break
        seen += piece
        if until and re.search(until, seen.decode(errors='replace')):
            open(hold, 'w').close()
    os.close(main_fd)
    t.equal('status', proc.wait(60), 0)
    lines = re.findall(r'tracing [0-9][^\x1b]*', seen.decode())
    t.true('lines', lines, seen[-500:])
    t.true('none is wider than the terminal', all(len(x) < 80 for x in lines), lines)
    return lines, seen.decode()


@case('live line on a terminal: how much of its time the thread waits for the GPU')
def live_gpu_wait(t):
    # 24 waits of 100 ms, and half a second that is none.
    lines, text = live_lines(t, 'cudaDeviceSynchronize=24', '--pause-ms=500', env={'FAKE_CUDA_SYNC_US': '100000'})
    shares = [int(x) for x in re.findall(r', GPU wait ([0-9]+) %', ''.join(lines))]
    t.true('shares', shares, text[-500:])
    wall, waited = (float(re.search(pattern, text)[1]) for pattern in (r'Where the time went: ([0-9.]+) s', r'([0-9.]+) s  waiting for the GPU'))
    # It is of a moment at most some harvests before the end.
    t.true('the last one is that of the account', abs(shares[-1] - 100 * waited / wall) <= 25, (shares, waited, wall))
    t.true('beside calls and cost', all(re.search(r'calls, now .*, GPU wait [0-9]+ %, tracing costs', x) for x in lines if 'GPU wait' in x and 'now' in x), lines)
    t.true('a program that never waits has none', not any('GPU wait' in x for x in live_lines(t, 'cudaMalloc=31', until=', now ')[0]))


@case('-o says what it wrote, how large it is and what opens it; -q and standard output have no such line')
def wrote(t):
    names = ('t.pftrace', 't.gst', 't.csv', 't.json')
    run = t.tool('trace', *(x for n in names for x in ('-o', n)), '--', *t.app('cudaMalloc=31'), status=0)
    for name, opener in zip(names, (': open it in ui.perfetto.dev', ': gpuscope report FILE shows it, gpuscope open FILE in a browser', ': open it in a spreadsheet', ': open it in ui.perfetto.dev or speedscope.app')):
        found = [x for x in run.err.splitlines() if x.startswith(f'gpuscope: wrote {name} (')]
        t.equal(f'lines for {name}', len(found), 1)
        number, unit = found[0].split('(')[1].split(')')[0].split()
        size = float(number) * {'B': 1, 'KiB': 2**10, 'MiB': 2**20}[unit]
        t.true(f'size of {name}', abs(size - os.path.getsize(name)) <= 0.1 * os.path.getsize(name), (found[0], os.path.getsize(name)))
        t.true(f'what opens {name}', found[0].endswith(')' + opener), found[0])
    t.true('-q', 'wrote' not in t.tool('trace', '-q', '-o', 'q.gst', '--', *t.app('cudaMalloc=31'), status=0).err)
    t.true('standard output', 'wrote' not in t.tool('trace', '-o', '-.json', '--', *t.app('cudaMalloc=31'), status=0).err)
    run = t.tool('report', 't.gst', '-o', 'r.folded', status=0)
    t.match('report -o', r'gpuscope: wrote r\.folded \(.*: open it in speedscope', run.err)
    t.equal('a conversion prints no table', run.out, '')
    both = t.tool('report', 't.gst', '-o', 'both.csv', '-o', 'both.json', status=0).err
    t.equal('report writes several files', [x.split()[2] for x in both.splitlines() if ' wrote ' in x], ['both.csv', 'both.json'])
    t.true('as one by one', all(os.path.getsize(n) for n in ('both.csv', 'both.json')))
    t.match('five are too many', 'at most 4 files', t.tool('report', 't.gst', *('-o', 'x.csv') * 5, status=2).err)
    t.match('job -o j.json', r'gpuscope: wrote j\.json \(.*: gpuscope report --compare FILE\.\.\. compares it with others', t.tool('job', '-p', str(os.getpid()), '-d', '0.3', '-o', 'j.json', status=0).err)
    t.match('job -o', r'gpuscope: wrote j\.html \(.*: open it in a web browser', t.tool('job', '-p', str(os.getpid()), '-d', '0.3', '-o', 'j.html', status=0).err)


main()
