#!/usr/bin/env python3
"""Python functions of a running process, seen from inside (trace -p PID --inside=python, PEP 768): as many calls as there were, nothing
left in the process afterwards, and what cannot be asked is seen by probes and says why. Of each Python from 3.14 on that is here
(tests/e2e/pythons.py), and older ones."""

import collections
import glob
import os
import subprocess
import time

import harness
import pythons
from harness import Skip, case, main, read_text, wait_until

FIRST = (3, 14)
PROBED = r'attach: \S*python\S*: [1-9]\d* probes'
CALLS = {'work': 1, 'fails': 2, 'made': 10, 'fib': 109, 'numbers': 11}  # of work(); resumed ones count, too

# Works when a file is there, as often as it says; says what it has of ours when another one is there.
PROGRAM = """
import os, sys, threading, time
folder = sys.argv[1]
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def numbers(n):
    for i in range(n): yield i
def fails(n):
    if n: raise ValueError
def work():
    assert fib(9) == 34 and sum(numbers(10)) == 45
    for i in (1, 1):
        try: fails(i)
        except ValueError: pass
    for i in range(10):
        space = {}
        exec('def made(): return 1', space)
        assert space['made']() == 1
def child():
    for i in range(100): fib(1)
    return [sys.monitoring.get_tool(n) for n in range(6)]
def ours():
    maps = open('/proc/self/maps').read()
    return [[sys.monitoring.get_tool(n) for n in range(6)], sum('rw-s' in m and 'gpuscope' in m for m in maps.splitlines()), sorted(n for n in sys.modules if 'gpuscope' in n)]
print('up', os.getpid(), flush=True)
k = 0
while True:
    try:
        with open(f'{folder}/do{k}') as f: what = f.read()
    except FileNotFoundError:
        what = ''
    if what.endswith(';'):
        print(eval(what[:-1]), flush=True)
        k += 1
    time.sleep(0.002)
"""


def new_pythons():
    found = {p.version: p for p in pythons.interpreters(FIRST, (3, 15)) if not p.is_free_threaded}
    if not found:
        raise Skip('no Python 3.14 or newer (GPUSCOPE_TEST_PYTHONS names one)')
    return list(found.values())


class Program:
    """One that does what .do() says, a line of Python at a time, which returns what that was."""

    def __init__(self, t, python, *words, env=None, code=PROGRAM, user=None):
        self.t, self.n = t, 0
        t.n_files += 1
        self.folder = t.path(f'program{t.n_files}')
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o755)
        os.chmod(t.path(), 0o755)
        with open(self.folder + '/program.py', 'w') as f:
            f.write(code)
        self.errors = open(self.folder + '/errors', 'w+')
        command = [python.program, *words, self.folder + '/program.py', self.folder]
        if user:
            start = f'import os, sys; os.setgroups([]); os.setresgid({user},{user},{user}); os.setresuid({user},{user},{user}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])'
            command = [python.program, '-c', start, *command[1:]]
        self.proc = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=t.envs(env))
        line = self.proc.stdout.readline().split()
        assert line and line[0] == 'up', line
        self.pid = self.proc.pid

    def tell(self, what):
        with open(f'{self.folder}/do{self.n}', 'w') as f:
            f.write(what + ';')
        self.n += 1

    def do(self, what):
        self.tell(what)
        return self.proc.stdout.readline().strip()

    def is_inside(self):
        return any('rw-s' in m and 'gpuscope' in m for m in read_text(f'/proc/{self.pid}/maps').splitlines())

    def errors_so_far(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self):
        self.proc.kill()
        self.proc.wait()


def attach(t, program, *options, **more):
    live = t.start_trace('-p', str(program.pid), '--inside=python', *options, **more)
    wait_until(program.is_inside, what='the file of the process')
    return live


def finish(live):
    live.interrupt()
    return live.finish()


def rows(run):
    n = collections.Counter()
    for f in run.summary['python_functions']:
        n[f['name'].rsplit(':', 1)[1].split('/')[0]] += f['calls']
    return n


def counted(run, *names):
    found = rows(run)
    return {n: found.get(n, 0) for n in names or CALLS}


def probes_of(run):
    return sum(a['probes'] for a in run.summary['attached'] if 'python' in os.path.basename(a['path']))


def nothing_of_ours(t, what, program):
    t.equal(f'{what}: of ours in it', program.do('ours()'), str([[None] * 6, 0, []]))
    t.equal(f'{what}: what it said of errors', program.errors_so_far(), '')


@case('each call while it is attached, of two traces after each other, and nothing is left', timeout=120)
def exact(t):
    for p in new_pythons():
        program = Program(t, p)
        program.do('work()')
        for options in ([], ['-o', t.path('late.gst')], ['--python-calls=*:fib'], []):
            what = f'{p} {options}'
            live = attach(t, program, *options)
            for i in range(3):
                program.do('work()')
            run = finish(live)
            program.do('work()')
            if '--python-calls=*:fib' in options:
                t.equal(what, (counted(run, 'fib', 'work'), set(rows(run))), ({'fib': 327, 'work': 0}, {'fib'}))
            else:
                t.equal(what, counted(run), {n: 3 * c for n, c in CALLS.items()})
            t.equal(f'{what}: probes', probes_of(run), 0)
            t.equal(f'{what}: lost of Python', run.summary['lost'].get('python'), None)
            t.equal(f'{what}: remark', {a['remark'] for a in run.summary['attached'] if 'python' in os.path.basename(a['path'])}, {'seen from inside'})
            nothing_of_ours(t, what, program)
        program.end()
    t.equal('folders', [f for f in glob.glob('/dev/shm/gpuscope-*') if not os.path.basename(f).startswith('gpuscope-inside')
                        and os.path.isdir(f) and 'attach.py' in os.listdir(f)], [])  # fmt: skip


@case('a main thread that waits in C: said after 5 s, taken back, seen by probes meanwhile, and nothing comes of it later', timeout=120)
def waits(t):
    p = new_pythons()[0]
    program = Program(t, p)
    program.do('exec("def busy():\\n    while True: fib(5); time.sleep(0.001)") or threading.Thread(target=busy, daemon=True).start()')
    program.tell('time.sleep(12)')
    time.sleep(0.3)
    run = t.trace('-p', str(program.pid), '--inside=python', '--duration', '8s')
    t.match('said', r'has not reached a point within 5 s where Python lets others in.*traced by probes', run.err)
    t.true('probes', probes_of(run) > 0, run.summary['attached'])
    t.true('calls by probes', rows(run).get('fib', 0) > 100, rows(run))
    program.proc.stdout.readline()
    time.sleep(0.2)
    nothing_of_ours(t, 'later', program)
    program.end()


@case('remote debugging that is switched off, and versions before 3.14: one line, and probes')
def refused(t):
    ways = [(p, words, env, 'switched off, by PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug or its build')
            for p in new_pythons()[:1] for words, env in (((), {'PYTHON_DISABLE_REMOTE_DEBUG': '1'}), (('-X', 'disable-remote-debug'), None))]  # fmt: skip
    older = {p.version: p for p in pythons.interpreters((3, 8), (3, 13)) if not p.is_free_threaded}
    for version in sorted(older)[:1] + sorted(older)[-1:]:
        ways.append((older[version], (), None, f'runs Python {version[0]}.{version[1]}, which cannot be asked to load a library while it runs.*--inside=python -- COMMAND'))
    for p, words, env, why in ways:
        program = Program(t, p, *words, env=env, code=PROGRAM.replace('sys.monitoring', 'getattr(sys, "monitoring", None)'))
        live = t.start_trace('-p', str(program.pid), '--inside=python')
        live.wait_err('traced by probes')
        live.wait_err(PROBED)
        program.do('work()')
        run = finish(live)
        t.match(f'{p}', f'process {program.pid} .*{why}.*: its Python functions are traced by probes', run.err)
        t.equal(f'{p}: lines', run.err.count('--inside=python:'), 1)
        t.true(f'{p}: probes', probes_of(run) > 0, run.summary['attached'])
        t.equal(f'{p}: what it said of errors', program.errors_so_far(), '')
        program.end()


@case("another user's process, and one whose rights are not its user's, into which nothing is loaded", timeout=90)
def users(t):
    p = new_pythons()[-1]
    program = Program(t, p, user=65534)
    live = attach(t, program)
    program.do('work()')
    run = finish(live)
    t.equal('of nobody', counted(run, 'work', 'fails'), {'work': 1, 'fails': 2})
    nothing_of_ours(t, 'of nobody', program)
    program.end()
    for ids in ('os.seteuid(65534)', '[os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)]'):
        program = Program(t, p)
        program.do(ids)
        run = t.trace('-p', str(program.pid), '--inside=python', '--duration', '1s')
        t.match(ids, "runs with other rights than its user's", run.err)
        t.equal(f'{ids}: errors', program.errors_so_far(), '')
        program.end()


@case('forked children: not theirs, or with --follow theirs, too; each is free of us', timeout=90)
def forks(t):
    p = new_pythons()[0]
    program = Program(t, p)
    fork = '(lambda pid: os.waitpid(pid, 0)[1] >> 8 if pid else os._exit(9 if child() == [None] * 6 else 3))(os.fork())'
    for options, calls in ([], 0), (['--follow'], 100):
        live = attach(t, program, *options)
        status = program.do(fork)
        program.do('fib(1)')
        run = finish(live)
        t.equal(f'{options}: calls', counted(run, 'fib'), {'fib': calls + 1})
        t.equal(f'{options}: exit of the child', status, '3' if options else '9')
        nothing_of_ours(t, options, program)
    program.end()


@case('gpuscope is killed: the program is free of us by itself')
def killed(t):
    p = new_pythons()[0]
    program = Program(t, p)
    live = attach(t, program)
    folders = [f for f in glob.glob('/dev/shm/gpuscope-*') if os.path.exists(f + '/attach.py')]
    live.proc.kill()
    live.proc.wait()
    end = time.monotonic() + 30
    while program.is_inside() and time.monotonic() < end:
        program.do('work()')
    nothing_of_ours(t, 'after', program)
    t.true('its folder', folders and not any(os.path.exists(f + '/attach.py') for f in folders), folders)
    # And another one can come.
    live = attach(t, program)
    program.do('work()')
    t.equal('another', counted(finish(live), 'work'), {'work': 1})
    nothing_of_ours(t, 'another', program)
    program.end()


@case('tools of the program: its own go on as if alone, and where there is no place for us it says so', timeout=90)
def tools(t):
    p = new_pythons()[0]
    program = Program(t, p)
    program.do('exec("""\nm = sys.monitoring\nn = [0, 0]\ndef on(code, at): n[0] += code.co_name == \'fails\'\ndef off(code, at):\n'
               '    n[1] += code.co_name == \'fails\'\n    return m.DISABLE\n""", globals()) or [m.use_tool_id(k, "own%d" % k) for k in (2, 3)]')  # fmt: skip
    program.do('[m.register_callback(2, m.events.PY_START, on), m.set_events(2, m.events.PY_START), m.register_callback(3, m.events.PY_START, off), m.set_events(3, m.events.PY_START)]')
    for i in range(2):
        live = attach(t, program)
        program.do('work()')
        t.equal('ours', counted(finish(live), 'work', 'fails'), {'work': 1, 'fails': 2})
    t.equal('its first', program.do('n[0]'), '4')
    t.true('its second, which is asked again', 1 <= int(program.do('n[1]')) <= 2, program.do('n[1]'))
    program.do('m.use_tool_id(4, "own4")')
    run = t.trace('-p', str(program.pid), '--inside=python', '--duration', '1s')
    t.match('no place', 'its tool ids 3 and 4 of sys.monitoring are taken, one by own3', run.err)
    t.true('probes', probes_of(run) > 0, run.summary['attached'])
    t.equal('its tools', program.do('[m.get_tool(k) for k in range(6)]'), "[None, None, 'own2', 'own3', 'own4', None]")
    t.equal('errors', program.errors_so_far(), '')
    program.end()


@case('a process that does not see the library gets a copy of it, which is gone afterwards', timeout=90)
def copies(t):
    p = new_pythons()[0]
    library = os.path.dirname(os.path.realpath(harness.gpuscope)) + '/companion/python'
    if not os.path.exists(library + '/libgpuscope_companion_python.so'):
        raise Skip('gpuscope is not in its build folder')
    wrapper = t.path('python')
    with open(wrapper, 'w') as f:
        f.write(f'#!/bin/sh\nexec unshare -m /bin/sh -c \'mount -t tmpfs none {library}; exec {p.program} "$@"\' sh "$@"\n')
    os.chmod(wrapper, 0o755)
    program = Program(t, p._replace(program=wrapper))
    for i in range(2):
        live = attach(t, program)
        program.do('work()')
        t.equal('counted', counted(finish(live), 'work'), {'work': 1})
        nothing_of_ours(t, 'copied', program)
    found = [line for line in read_text(f'/proc/{program.pid}/maps').splitlines() if 'gpuscope' in line]
    t.true('once, and its name is gone', found and len({line.split()[4] for line in found}) == 1 and all(line.endswith('(deleted)') for line in found), found)
    program.end()


@case('a first request that Python does not carry out: it is asked again', timeout=60)
def again(t):
    p = new_pythons()[0]
    program = Program(t, p)
    program.do('exec("""\nn = [0]\ndef hook(event, args):\n    if "remote_debugger_script" in event:\n        n[0] += 1\n        if n[0] == 1: raise OSError("not now")\nsys.addaudithook(hook)\n""", globals())')
    live = attach(t, program)
    program.do('work()')
    t.equal('counted', counted(finish(live), 'work'), {'work': 1})
    t.true('asked twice', int(program.do('n[0]')) >= 2, program.do('n[0]'))
    program.end()


@case('one thread that computes and never waits goes on', timeout=60)
def alone(t):
    for p in new_pythons():
        program = Program(t, p, code='def f(): pass\nprint("up", flush=True)\nn = 0\nwhile True:\n    f()\n    n += 1\n    if n % 3000000 == 0: print(n, flush=True)\n')
        for i in range(2):
            run = t.trace('-p', str(program.pid), '--inside=python', '--duration', '1s')
            t.true(f'{p}: calls', rows(run)['f'] > 1000, run.err)
            t.true(f'{p}: goes on', program.proc.stdout.readline() and program.proc.stdout.readline())
        program.end()


@case('two processes: one is seen from inside, the other by probes; no call twice', timeout=90)
def both(t):
    p = new_pythons()[0]
    first, second = Program(t, p), Program(t, p, env={'PYTHON_DISABLE_REMOTE_DEBUG': '1'})
    live = t.start_trace('-p', str(first.pid), '-p', str(second.pid), '--inside=python')
    wait_until(first.is_inside, what='the file of the process')
    live.wait_err(PROBED)
    first.do('work()')
    second.do('work()')
    run = finish(live)
    t.equal('counted', counted(run, 'work', 'fails', 'fib'), {'work': 2, 'fails': 4, 'fib': 218})
    nothing_of_ours(t, 'first', first)
    first.end()
    second.end()


@case('what goes together: only --inside=python, and only with -p', needs=None)
def options(t):
    for words, why in ((['--inside'], 'a running process can have --inside=python alone'), (['--inside=calls,python'], 'needs a command'),
                       (['--inside=gpu'], 'needs a command')):  # fmt: skip
        t.match(words[0], why, t.tool('trace', *words, '-p', '1', status=2).err)
    for words in (['-a'], ['-u', 'root'], ['--comm', 'x', '-p', '1']):
        t.match(str(words), 'by their numbers: -p PID', t.tool('trace', '--inside=python', *words, status=2).err)


if __name__ == '__main__':
    main()
