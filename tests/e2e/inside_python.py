#!/usr/bin/env python3
"""Calls of Python functions seen from inside (--inside=python): as many as Python itself counts, with each interpreter that is here;
beside debuggers and profilers, which work as if alone; and processes that cannot be seen so are seen by probes."""

import json
import os
import shutil
import subprocess
import sys

import harness
import pythons
from harness import Skip, case, main, wait_until
from pycalls_help import ALL, TARGET, compare, counted, of_target

OPEN_MAX = 2048


def one_each(first=(3, 8), last=(3, 14)):
    """An interpreter of each version."""
    return {p.version: p for p in pythons.interpreters(first, last) if not p.is_free_threaded}


def some(*spans):
    """The newest of each span of versions; or the test is left out."""
    found = [found[max(found)] for found in (one_each(*span) for span in spans) if found]
    if not found:
        raise Skip('no such Python')
    return found


OLD, NEW = ((3, 8), (3, 11)), ((3, 12), (3, 14))


def trace(t, python, cases, *options, inside='--inside=python'):
    return t.trace(inside, *options, command=[python.program, TARGET, '-', *cases], env={'LD_LIBRARY_PATH': harness.fake, 'PYTHONHASHSEED': '0'})


def run_code(t, python, code, *options, status=0, inside='--inside=python'):
    with open(t.path('code.py'), 'w') as f:
        f.write(code)
    return t.trace(inside, *options, command=[python.program, t.path('code.py')], status=status)


def rows(run):
    """{name: row} of the functions of code.py."""
    return {f['name'].rsplit(':', 1)[1].split('/')[0]: f for f in run.summary['python_functions'] if f['file'].endswith('code.py')}


def calls(run, *names):
    found = rows(run)
    return [found[n]['calls'] if n in found else 0 for n in names]


def not_probed(t, what, run):
    python = [a for a in run.summary['attached'] if 'python' in os.path.basename(a['path'])]
    t.equal(f'{what}: probes in interpreters', sum(a['probes'] for a in python), 0)
    t.equal(f'{what}: seen from inside', {a['remark'] for a in python}, {'seen from inside'})


@case('as many calls of each function as sys.setprofile counts, of each interpreter', timeout=240)
def exact(t):
    for p in some(*[(v, v) for v in one_each()]):
        run = trace(t, p, ALL)
        compare(t, p, of_target(run), counted(t, p.program, *ALL))
        t.equal(f'{p}: lost', set(run.summary['lost'].get('all', {})) - {'process_gone', 'map_notices'}, set())
        t.equal(f'{p}: lost of Python', run.summary['lost'].get('python'), None)
        not_probed(t, p, run)
        found = {k[1]: r for k, r in of_target(run).items()}
        t.true(f'{p}: time in itself', 0 < found['fib']['self_ns'] <= found['fib']['total_ns'], found['fib'])
        t.equal(f'{p}: functions are not resumed', found['fib']['resumes'], 0)
        # One that was never asked for a value is entered when it is freed, up to 3.11.
        t.true(f'{p}: generators begun', found['numbers']['calls'] - found['numbers']['resumes'] in (5, 6), found['numbers'])


def records(path):
    done = subprocess.run([sys.executable, os.path.join(harness.HERE, '..', 'gst.py'), path], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@case('whole events: each call is in the file, within the function that called it', timeout=120)
def events(t):
    for p in some(OLD, NEW):
        out = t.path('calls.gst')
        run = trace(t, p, ALL, '-o', out, '--ring-size', '16M')
        compare(t, p, of_target(run), counted(t, p.program, *ALL))
        t.equal(f'{p}: lost of Python', run.summary['lost'].get('python'), None)
        strings, names, n, scopes = {0: ''}, {}, {}, set()
        for r in records(out):
            if r['kind'] == 'STRING':
                strings[r['id']] = r['text']
            elif r['kind'] == 'FUNCTION':
                names[r['id']] = strings[r['name_str']]
            elif r['kind'] == 'CALL':
                name = names[r['function']]
                n[name] = n.get(name, 0) + 1
                scopes.add((name.split(':')[-1].split('/')[0], names.get(r['scope'], '').split(':')[-1].split('/')[0]))
        t.equal(f'{p}: in the file', {f['name']: n.get(f['name']) for f in of_target(run).values()}, {f['name']: f['calls'] for f in of_target(run).values()})
        t.equal(f'{p}: around fib', {s for f, s in scopes if f == 'fib'}, {'fib', 'recursion', 'fails', 'work'})


@case('a second Python process that is seen by probes takes no times from the first', timeout=120)
def beside_probes(t):
    child = """
import sys
def is_probed():
    is_code = False
    for line in open('/proc/self/smaps'):
        if '-' in line.split()[0] and ':' not in line.split()[0]:
            is_code = ' r-xp ' in line and 'python' in line
        elif is_code and line.startswith('Anonymous:') and line.split()[1] != '0':
            return True
    return False
while not is_probed():
    pass
"""
    code = f"""
import subprocess, sys
def called(): pass
subprocess.run([sys.executable, '-c', {child!r}], env={{}}, check=True)
for i in range(100000): called()
"""
    for p in some(OLD, NEW):
        for options in ([], ['-o', t.path('beside.gst'), '--ring-size', '16M']):
            run = run_code(t, p, code, *options)
            t.equal(f'{p} {options}: called', calls(run, 'called'), [100000])
            t.true(f'{p} {options}: probes in the interpreter', any(a['probes'] for a in run.summary['attached'] if 'python' in os.path.basename(a['path'])))
            untimed = run.summary['lost'].get('python', {}).get('untimed', 0)
            t.true(f'{p} {options}: none of them without a time', untimed < 100000, untimed)


@case('launches by the functions that made them: as probes count them')
def launches(t):
    for p in some(OLD, NEW):
        for options in ([], ['-o', t.path('launches.json')]):
            run = trace(t, p, ['launches'], *options, inside='--inside=calls,python')
            got = {k[1]: (r['calls'], r['launches']) for k, r in of_target(run).items()}
            t.equal(f'{p} {options}: launches', {k: got.get(k) for k in ('launch', 'layer', 'launches', 'main')},
                    {'launch': (13, 13), 'layer': (4, 12), 'launches': (1, 13), 'main': (1, 13)})  # fmt: skip
            t.equal(f'{p} {options}: launched', run.calls('cudaLaunchKernel'), 13)
        with open(t.path('launches.json')) as f:
            drawn = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'X']
        outer = [e for e in drawn if e['name'].startswith('pycalls_target.py:launch/')]
        inner = [e for e in drawn if e['name'] == 'cudaLaunchKernel']
        t.equal(f'{p}: each in a launch()', [any(o['tid'] == e['tid'] and o['ts'] <= e['ts'] and e['ts'] + e['dur'] <= o['ts'] + o['dur'] for o in outer)
                                             for e in inner], [True] * 13)  # fmt: skip


@case('the line `traced by` says how, and --inside with no word takes Python along where its calls are asked for')
def doors(t):
    p = some(NEW, OLD)[0]
    command = ['--', p.program, '-c', 'def f(): pass\nfor i in range(9): f()']
    for words, said in ((['--inside=python', '-v'], 'Python from inside'), (['--inside', '--python-calls=f', '-v'], 'Python from inside'),
                        (['--inside', '-v'], None)):  # fmt: skip
        err = t.tool('trace', *words, *command, status=0).err
        if said:
            t.match(' '.join(words), said, err)
        t.equal(f'{words}: Python', 'Python from inside' in err, bool(said))


@case('functions by pattern: only these are recorded')
def patterns(t):
    for p in some(OLD, NEW):
        counts = counted(t, p.program, *ALL)
        for words, names in ((['--python-calls=pycalls_target.py:f*,w?rk'], {'fib', 'fails', 'from_c', 'forks', 'work'}),
                             (['--python-calls=/elsewhere/pycalls_target.py:*'], set())):  # fmt: skip
            run = trace(t, p, ALL, *words)
            got = {f['name'].rsplit(':', 1)[1].split('/')[0]: f['calls'] for f in run.summary['python_functions']}
            t.equal(f'{p} {words}', got, {k[1]: n for k, n in counts.items() if k[1] in names})


@case('recursion deeper than what is timed: counted all the same')
def deep(t):
    code = '''
import sys, threading
sys.setrecursionlimit(100000)
threading.stack_size(256 << 20)
def sink(n):
    return sink(n - 1) + 1 if n else 0
def after(n):
    return n
def run():
    sink(4000)
    for i in range(10): after(i)
t = threading.Thread(target=run); t.start(); t.join()
'''
    for p in some(OLD, NEW):
        run = run_code(t, p, code)
        t.equal(f'{p}: calls', calls(run, 'sink', 'after', 'run'), [4001, 10, 1])
        # Of the thread's own ones some are above it.
        t.true(f'{p}: without a time', 0 <= run.lost('untimed') - (4001 - OPEN_MAX) <= 10, run.lost('untimed'))


@case('sub-interpreters: each is seen')
def interpreters(t):
    code = '''
try:
    import _interpreters as made
except ImportError:
    import _xxsubinterpreters as made
text = """
def inside(n):
    return n if n < 2 else inside(n - 1) + inside(n - 2)
inside(10)
"""
run = made.exec if hasattr(made, 'exec') else made.run_string
for i in range(3):
    one = made.create()
    run(one, text); run(one, text)
    made.destroy(one)
def after(): pass
for i in range(7): after()
'''
    for p in some(OLD, NEW):
        run = run_code(t, p, code)
        inside = sum(f['calls'] for f in run.summary['python_functions'] if f['name'].startswith(('<string>:inside/', '<script>:inside/')))  # from 3.14 on
        t.equal(f'{p}: calls', (inside, calls(run, 'after')), (6 * 177, [7]))


PROFILED = '''
import cProfile, profile, sys, threading
sys.addaudithook(lambda event, args: None)  # written in Python: it runs wherever CPython has an event
def f(x): return x
def a(n):
    for i in range(n): f(i)
a(10)
p = profile.Profile()  # in Python, and strict: it asserts the order of what it is called for
p.runcall(a, 5)
p.create_stats()
print([n[0] for (file, line, name), n in sorted(p.stats.items()) if name == 'f'])
threads = [threading.Thread(target=a, args=(1,)) for i in range(20)]
for t in threads: t.start()
for t in threads: t.join()
p = cProfile.Profile()
p.enable(); a(50); p.disable()
print(sorted((s.code.co_name, s.callcount) for s in p.getstats() if getattr(s.code, 'co_name', '') in ('a', 'f')))
seen = [0, 0]
def hook(frame, event, arg):
    seen[0] += event == 'call' and frame.f_code.co_name == 'f'
sys.setprofile(hook); a(20); assert sys.getprofile() is hook; sys.setprofile(None); assert sys.getprofile() is None
def lines(frame, event, arg):
    seen[1] += event == 'line' and frame.f_code.co_name == 'a'
    return lines
sys.settrace(lines); a(3); sys.settrace(None)
a(100)
print(seen)
'''


@case('cProfile, profile, sys.setprofile and sys.settrace of the program work in full; who has the one hook of 3.11 and older is said')
def profilers(t):
    for p in some(OLD, NEW):
        with open(t.path('code.py'), 'w') as f:
            f.write(PROFILED)
        alone = subprocess.run([p.program, t.path('code.py')], capture_output=True, text=True, check=True)
        run = run_code(t, p, PROFILED)
        t.equal(f'{p}: as alone', (run.out, run.err.strip()), (alone.stdout, alone.stderr.strip()))
        held = 0 if p.version >= (3, 12) else 75
        t.equal(f'{p}: calls', calls(run, 'f'), [10 + 5 + 20 + 50 + 20 + 3 + 100 - held])
        said = ' '.join(f['reason'] for f in run.summary['attach_failures'])
        t.equal(f'{p}: who', [w for w in ('(Profile)', '(function)') if w in said], ['(Profile)', '(function)'] if held else [])


@case('a program that takes a tool id of sys.monitoring, and coverage by it: as alone')
def tools(t):
    code = '''
import sys
m = sys.monitoring
n = [0, 0]
def count(code, *more): n[0] += code.co_name == 'f'
def line(code, *more): n[1] += code.co_name == 'f'
m.use_tool_id(3, 'mine'); m.register_callback(3, m.events.PY_START, count); m.set_events(3, m.events.PY_START)
m.use_tool_id(m.COVERAGE_ID, 'lines'); m.register_callback(m.COVERAGE_ID, m.events.LINE, line); m.set_events(m.COVERAGE_ID, m.events.LINE)
def f(x):
    return x
for i in range(30): f(i)
m.set_events(3, 0); m.free_tool_id(3); m.set_events(m.COVERAGE_ID, 0)
m.restart_events()
for i in range(30): f(i)
print(n)
'''
    for p in some(NEW):
        run = run_code(t, p, code)
        t.equal(f'{p}: what it counts', run.out.split(), ['[30,', '30]'])
        t.equal(f'{p}: calls', calls(run, 'f'), [60])


@case('children by fork, exec and subprocess, and one that is killed: what each did, and what it was in')
def children(t):
    code = '''
import os, signal, subprocess, sys
def f(x): return x
def many(n):
    for i in range(n): f(i)
def killed():
    many(500)
    os.kill(os.getpid(), signal.SIGKILL)
if len(sys.argv) < 2:
    many(100)
    for i in range(3):
        pid = os.fork()
        if not pid:
            many(10); os._exit(0)
        os.waitpid(pid, 0)
    subprocess.run([sys.executable, __file__, 'killed'])
    os.execv(sys.executable, [sys.executable, __file__, 'exec'])
elif sys.argv[1] == 'exec':
    many(1000)
else:
    killed()
'''
    for p in some(OLD, NEW):
        run = run_code(t, p, code, '-o', t.path('calls.gst'), '--ring-size', '1M')
        t.equal(f'{p}: calls', calls(run, 'f'), [100 + 3 * 10 + 500 + 1000])
        opened = [c['function'].split(':')[-1].split('/')[0] for c in run.summary['open_calls'] if c['function'].startswith('code.py:')]
        t.true(f'{p}: was in killed()', 'killed' in opened, opened)


@case('a process without the library is seen by probes, and it is said')
def without(t):
    found = one_each((3, 8), (3, 10))
    if not found:
        raise Skip('no Python whose calls are timed by probes')
    p, go = found[max(found)], t.path('go')
    with open(t.path('code.py'), 'w') as f:
        f.write(f'import os, time\ndef after(x): return x\nwhile not os.path.exists({go!r}): time.sleep(0.01)\nfor i in range(100): after(i)\n')
    live = t.start_trace('--inside=python', '-v', command=['env', '-u', 'LD_PRELOAD', p.program, t.path('code.py')])
    live.wait_err(r'python3\S*: [1-9]\d* probes', 30)
    open(go, 'w').close()
    run = live.finish()
    t.equal('calls', calls(run, 'after'), [100])
    t.true('said', run.lost('late_attach') >= 1, run.summary['lost'])


@case('a Python that is too old says so; what has no interpreter runs as alone')
def refused(t):
    old = [p for p in pythons.every() if p.version < (3, 8)]
    for p in old[-1:]:
        run = t.trace('--inside=python', command=[p.program, '-c', 'print(1)'])
        t.equal(f'{p}: runs', run.out.strip(), '1')
        t.match(f'{p}: why', 'older than Python 3.8', json.dumps(run.summary['attach_failures']))
    for command in (['bash', '-c', 'ls / | sort | wc -l >/dev/null; exit 6'],):
        run = t.trace('--inside=python', command=command, status=6)
        t.equal('bash', (run.out, run.err.strip()), ('', ''))


@case('gpuscope is killed, or its folder goes: the program goes on as if alone')
def vanished(t):
    p = some(NEW, OLD)[0]
    with open(t.path('code.py'), 'w') as f:
        f.write('import os, sys\ndef f(x): return x\nwhile not os.path.exists(sys.argv[1]): f(1)\nprint("done")\n')
    for how in ('killed', 'folder'):
        out, go = t.path(how), t.path(how + '.go')
        live = t.start_trace('--inside=python', command=['bash', '-c', f'echo $GPUSCOPE_COMPANION >{out}.folder; {p.program} {t.path("code.py")} {go} >{out}; echo $? >>{out}'])
        wait_until(lambda: os.path.exists(out + '.folder') and harness.read_text(out + '.folder').strip(), what='the command')
        if how == 'killed':
            live.proc.kill()
        else:
            shutil.rmtree(harness.read_text(out + '.folder').strip())
        open(go, 'w').close()
        wait_until(lambda: os.path.exists(out) and harness.read_text(out).endswith('\n0\n'), what='the command')
        t.equal(f'{how}: what it did', harness.read_text(out), 'done\n0\n')
        if how == 'folder':
            t.equal('status of gpuscope', live.finish().status, 0)


@case('options that do not go together', needs=None)
def options(t):
    for more, words in ((['-u', 'root'], 'needs a command'), (['-p', '1', '--comm', 'x'], 'needs a command'), (['--min-duration', '1ms', '-o', t.path('x.csv'), '--', 'true'], '--min-duration'),
                        (['--estimate', '--', 'true'], '--estimate')):  # fmt: skip
        t.match(' '.join(more), words, t.tool('trace', '--inside=python', *more, status=2).err)
    t.match('calls alone', '--inside=calls,python', t.tool('trace', '--inside=calls', '--python-calls', '--', 'true', status=2).err)


if __name__ == '__main__':
    main()
