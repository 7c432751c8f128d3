"""Described probes, static probes and PyTorch's allocator, on programs of the test."""

import collections
import csv
import json
import os
import shutil
import struct
import subprocess
import sys

import harness
from harness import Skip, case, main

LONG = ('even, and so long that it has to be cut: 01234567890123456789012345678901234567890123456789'
        '012345678901234567890123456789012345678901234567890123456789')  # fmt: skip


def probe_file(t, probes, name='probes.yaml'):
    """JSON is YAML."""
    path = t.path(name)
    with open(path, 'w') as f:
        json.dump({'probes': probes}, f)
    return path


def events(path, name=None):
    with open(path) as f:
        found = [e for e in json.load(f)['traceEvents'] if e['ph'] in 'Xi' and e.get('cat') not in ('gpuscope', 'gpu-stream')]
    return [e for e in found if e['name'] == name] if name else found


def text_of(i):
    return 'odd' if i % 2 else LONG[:127]


WORK = {
    'name': 'work',
    'lib': 'exe',
    'function': 'work',
    'args': ['arg1: bytes size', 'arg2: i32 kind', 'arg3: str path', '*arg4: i32 item_kind', 'arg4+4: u16 tag',
             'arg4+40->8: u64 inner', '*arg5@return: i64 out', 'ret: i32 result'],
}  # fmt: skip


@case('text that lies in a struct: up to its size, or to the first zero byte; filtered by')
def text_in_place(t):
    probe = {'lib': 'exe', 'function': 'work', 'filter': "label == 'exactly8'",
             'args': ['arg4+48: char[8] label', 'arg4+40->48: char[8] inner', '*arg3: char[3] start', 'arg4+48: char[4] part']}  # fmt: skip
    run = t.trace('--layer', 'user', '--probes', probe_file(t, [probe]), '-o', t.path('x.json'), command=t.app('10', name='probed'))
    t.equal('calls', run.calls('work'), 10)
    t.equal('values', [e['args'] for e in events(t.path('x.json'), 'work')],
            [{'label': 'exactly8', 'inner': 'inner', 'start': text_of(i)[:3], 'part': 'exac'} for i in range(10)])  # fmt: skip
    for place, says in (('arg4: char[8] x', r'char\[N\] is text in memory'), ('*arg4: char[0] x', 'is not a type'),
                        ('*arg4: char[128] x', 'is not a type'), ('*arg4: char[8 x', 'is not a type')):  # fmt: skip
        bad = t.tool('trace', '--layer', 'user', '--probes', probe_file(t, [{**probe, 'args': [place]}]), '--', 'true', status=2)
        t.match(place, says, bad.err)


@case('one thread is one, whether its calls came whole or as sums')
def one_thread(t):
    file = probe_file(t, [{'lib': 'exe', 'function': 'work', 'name': 'whole', 'args': ['arg2: i32 kind']},
                          {'lib': 'exe', 'function': 'work', 'name': 'sum', 'args': ['arg1: u64 size'], 'aggregate': 'sum(size)'}])  # fmt: skip
    for more in ((), ('-o', t.path('x.csv'))):
        run = t.trace('--layer', 'user', '--probes', file, *more, command=t.app('40', name='probed'))
        t.equal('threads', [len(p['threads']) for p in run.summary['processes']], [1])
        t.equal('calls', {f['name']: f['calls'] for f in run.summary['functions']}, {'whole': 40, 'sum': 40})


@case('values of arguments, of memory before and after the call, of strings, of the result')
def values(t):
    out, table = t.path('out.json'), t.path('out.csv')
    file = probe_file(t, [WORK, {**WORK, 'name': 'more', 'args': ['arg4+16: f64 weight', 'arg4+24: f32 ratio',
                      'arg4+40->32->0: u8 letter', 'arg6: i8 byte', 'arg7: i64 seventh', 'arg8: i32 eighth',
                      'arg4: ptr item', 'arg4+32->0: u8 first']}])  # fmt: skip
    run = t.trace('--layer', 'user', '--probes', file, '-o', out, '-o', table, command=t.app('40', name='probed'))
    got = [e['args'] for e in events(out, 'work')]
    wanted = [{'size': i * 1000, 'kind': i % 3 - 1, 'path': text_of(i), 'item_kind': -3, 'tag': 65535, 'inner': 99,
               'out': i * 2000, 'result': i % 3 - 2 + (i == 0) + (i > 0)} for i in range(40)]  # fmt: skip
    # The structs lie where the compiler has put them: only what it must keep is compared.
    t.equal('calls', len(got), 40)
    for g, w in zip(got, wanted):
        for key in ('size', 'kind', 'path', 'item_kind', 'tag', 'out', 'result'):
            t.equal(f'{key} of {w["size"]}', g.get(key), w[key])
    more = [e['args'] for e in events(out, 'more')]
    t.equal('calls of the second', len(more), 40)
    for i, g in enumerate(more):
        t.equal('numbers', (g.get('weight'), g.get('ratio'), g.get('byte'), g.get('seventh'), g.get('eighth')),
                (2.5, 0.25, i, -i, 100 + i))  # fmt: skip
    rows = [r for r in csv.DictReader(open(table)) if r['function'] == 'work']
    t.equal('csv', [json.loads(r['values'])['size'] for r in rows], [i * 1000 for i in range(40)])
    t.equal('counts', (run.calls('work'), run.calls('more')), (40, 40))
    t.nothing_lost(run)


def s32(x):
    return struct.unpack('i', struct.pack('I', x & 0xFFFFFFFF))[0]


FILTERS = {
    'size > 1MB': lambda i, r: i * 1000 > 1 << 20,
    'size >= 1.5KB && kind == -1': lambda i, r: i * 1000 >= 1536 and i % 3 - 1 == -1,
    'kind < 0 || size == 2000': lambda i, r: i % 3 - 1 < 0 or i == 2,
    '!(kind != 0)': lambda i, r: i % 3 - 1 == 0,
    'path == "odd"': lambda i, r: i % 2,
    'path != "odd" && size > 0': lambda i, r: i % 2 == 0 and i,
    'size % 7000 == 0': lambda i, r: i % 7 == 0,
    'size / 1000 & 4': None,
    '(size / 1000 & 4) != 0': lambda i, r: i & 4,
    '-kind > 0': lambda i, r: i % 3 == 0,
    'kind * 2 - 1 <= -3': lambda i, r: (i % 3 - 1) * 2 - 1 <= -3,
    'kind / 2 == 0 && kind % 2 == -1': lambda i, r: i % 3 - 1 == -1,
    '(size ^ 8) < 9': lambda i, r: (i * 1000 ^ 8) < 9,
    '(1 << 10) - 24 == size': lambda i, r: i == 1,
    'kind >> 1 == -1': lambda i, r: i % 3 - 1 == -1,
    '~kind == 0': lambda i, r: i % 3 - 1 == -1,
    'result == 1': lambda i, r: r == 1,
    'out > 100000 && duration < 1m': lambda i, r: i * 2000 > 100000,
    'tag == 0xffff && item_kind == -3': lambda i, r: True,
    'duration > 10s': lambda i, r: False,
    'pid == 1': lambda i, r: False,
}


@case('filters let pass what they say, entry and return')
def filters(t):
    n = 1200
    wanted, probes = {}, []
    for number, (text, allowed) in enumerate(FILTERS.items()):
        if not allowed:
            continue
        name = f'f{number}'
        wanted[name] = sum(bool(allowed(i, i % 3 - 2 + (i % 256 == 0) + (i > 0))) for i in range(n))
        probes.append({**WORK, 'name': name, 'filter': text, 'aggregate': 'count'})
    got = {}
    # The kernel side has room for eight open calls of a thread, and these are all of one function.
    for first in range(0, len(probes), 7):
        run = t.trace('--layer', 'user', '--probes', probe_file(t, probes[first : first + 7]),
                      command=t.app(str(n), name='probed'))  # fmt: skip
        got.update({f: run.calls(f) for f in wanted if run.calls(f)})
        t.nothing_lost(run)
    for number, text in enumerate(FILTERS):
        if f'f{number}' in wanted:
            t.equal(text, got.get(f'f{number}', 0), wanted[f'f{number}'])


@case('counts, sums and histograms of several threads')
def aggregates(t):
    n, threads = 500, 4
    probes = [
        {**WORK, 'name': 'sizes', 'aggregate': 'hist(size)'},
        {**WORK, 'name': 'kinds', 'aggregate': 'sum(kind)', 'filter': 'kind != 0'},
        {**WORK, 'name': 'times', 'aggregate': 'hist(duration)'},
        {'usdt': 'gs_test:step', 'aggregate': 'count'},
        {'function': 'recurse', 'lib': 'exe', 'args': ['arg1: i32 n', 'ret: i32 r'], 'aggregate': 'sum(r)'},
    ]
    run = t.trace('--layer', 'user', '--probes', probe_file(t, probes),
                  command=t.app(str(n), str(threads), name='probed'))  # fmt: skip
    got = {a['function']: a for a in run.summary['aggregates']}
    sizes = [i * 1000 for i in range(n)] * threads
    kinds = [k for i in range(n) if (k := i % 3 - 1)] * threads
    a = got['sizes']
    t.equal('sizes', (a['count'], a['sum'], a['min'], a['max']), (len(sizes), sum(sizes), 0, max(sizes)))
    powers = collections.Counter(0 if s == 0 else 1 << (s.bit_length() - 1) for s in sizes)
    t.equal('histogram', {h['from']: h['count'] for h in a['histogram']}, dict(powers))
    a = got['kinds']
    t.equal('kinds', (a['count'], a['sum'], a['min'], a['max']), (len(kinds), sum(kinds), -1, 1))
    t.equal('times', (got['times']['count'], sum(h['count'] for h in got['times']['histogram'])), (n * threads,) * 2)
    t.equal('steps', got['gs_test:step']['count'], n * threads)
    depths = [d for i in range(n) for d in range(i % 5 + 1)] * threads
    t.equal('recursion', (got['recurse']['count'], got['recurse']['sum']), (len(depths), sum(depths)))
    t.nothing_lost(run)


@case('static probes, with arguments as their notes tell, with and without a semaphore')
def static_probes(t):
    out = t.path('out.json')
    file = probe_file(t, [{'usdt': 'gs_test:step', 'args': ['arg1: i64 size', 'arg2: i32 kind', 'arg3: str path'],
                           'filter': 'kind == 1'}, {'usdt': 'gs_test:guard*'}])  # fmt: skip
    run = t.trace('--layer', 'user', '--probes', file, '-o', out, command=t.app('30', name='probed'))
    t.equal('steps', [e['args'] for e in events(out, 'gs_test:step')],
            [{'size': i * 1000, 'kind': 1, 'path': text_of(i)} for i in range(30) if i % 3 == 2])  # fmt: skip
    guarded = events(out, 'gs_test:guarded')
    t.equal('guarded', [e['args'] for e in guarded], [{'arg1': i, 'arg2': -i} for i in range(30)])
    t.equal('instants', {e['ph'] for e in guarded}, {'i'})
    t.equal('class', run.function('gs_test:guarded')['class'], 'site')


@case('what cannot be probed is named with its reason, the rest goes on')
def failures(t):
    file = probe_file(t, [{'lib': 'exe', 'function': 'nosuch'}, {'lib': 'exe', 'function': 'twin'},
                          {'lib': 'libabsent.so*', 'function': 'f'}, {'usdt': 'gs_test:nosuch'},
                          {'usdt': 'gs_test:guarded', 'args': ['arg3: i32']},
                          {'lib': 'libc.so.6', 'function': 'memcpy'}, WORK])  # fmt: skip
    live = t.start_trace('--layer', 'user', '--probes', file, command=t.app('20', name='probed'))
    run = live.finish()
    reasons = {f['function']: f['reason'] for f in run.summary['attach_failures']}
    t.equal('failures', reasons, {
        'nosuch': 'it has no function of this name',
        'f': 'no traced process used a file libabsent.so* with it',
        'gs_test:nosuch': 'no file that traced processes used has it',
        'gs_test:guarded': 'it has 2 arguments, not arg3',
        'memcpy': 'an indirect function: which code runs is chosen when the program starts',
    })  # fmt: skip
    t.equal('both twins', run.calls('twin'), 40)
    t.equal('the rest', run.calls('work'), 20)
    t.match('ambiguity is told', '2 functions are named twin: all of them are probed', run.err)


@case('a probe that is described twice counts its calls once, and that is told')
def twice(t):
    first = probe_file(t, [WORK, {'lib': 'exe', 'function': 'recurse'}])
    second = probe_file(t, [WORK, {**WORK, 'name': 'other'}, WORK], 'second.yaml')
    run = t.trace('--layer', 'user', '--probes', first, '--probes', second, command=t.app('20', name='probed'))
    t.equal('calls', (run.calls('work'), run.calls('other')), (20, 20))
    t.match('told', r'second\.yaml: 2 of its probes were already described; each call is counted once', run.err)


@case('a wrong probe file is wrong usage, with its place')
def wrong_file(t):
    path = t.path('wrong.yaml')
    with open(path, 'w') as f:
        f.write('- function: f\n  args: [arg1: u64 size]\n  filter: sise > 1\n')
    run = t.tool('trace', '--probes', path, '--', 'true', status=2)
    t.equal('message', run.err, f'gpuscope: {path}:3:11: no value is named "sise": there are size, duration, pid, tid\n')
    run = t.tool('trace', '--probes', t.path('absent'), '--', 'true', status=1)
    t.match('absent', r'^gpuscope: cannot read .*absent: No such file', run.err)


@case("eACGM's attach list, as it is")
def eacgm(t):
    path = t.path('attach.json')
    program = os.path.join(harness.fake, 'probed')
    with open(path, 'w') as f:
        json.dump([{'name': 'Sampler', 'exe_path': [program], 'exe_sym': ['work', 'recurse', 'absent']}], f)
    run = t.trace('--layer', 'user', '--probes', path, command=t.app('25', name='probed'))
    t.equal('calls', (run.calls('work'), run.calls('recurse')), (25, sum(i % 5 + 1 for i in range(25))))
    t.equal('absent', [f['function'] for f in run.summary['attach_failures']], ['absent'])


# Odd numbers are thrown through three functions, and caught; even ones are returned.
THROWER = '''
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#define OUT_OF_LINE __attribute__((noinline, noclone))
struct guard { std::string text; ~guard() { asm volatile("" ::: "memory"); } };
OUT_OF_LINE int innermost(int n)
{
	if (n % 2)
		throw std::runtime_error("odd");
	asm volatile("" ::: "memory");
	return n;
}
OUT_OF_LINE int middle(int n)
{
	guard g{std::to_string(n) + " and a text that has to be on the heap"};
	int r = innermost(n);
	asm volatile("" ::: "memory");
	return r + 1;
}
OUT_OF_LINE int outermost(int n)
{
	int r = middle(n);
	asm volatile("" ::: "memory");
	return r + 1;
}
int main(int argc, char **argv)
{
	int n = atoi(argv[1]), caught = 0, sum = 0;
	for (int i = 0; i < n; i++) {
		try {
			sum += outermost(i);
		} catch (const std::exception &e) {
			caught++;
		}
	}
	std::printf("caught %d, %d\\n", caught, sum);
	return 0;
}
'''
THROWN = ('_Z9innermosti', '_Z6middlei', '_Z9outermosti')


def thrower(t, flags=('-O2',)):
    with open(t.path('thrower.cc'), 'w') as f:
        f.write(THROWER)
    if not shutil.which('g++'):
        raise Skip('needs g++')
    subprocess.run(['g++', *flags, '-o', t.path('thrower'), t.path('thrower.cc')], check=True)
    return t.path('thrower')


@case('programs that throw through functions of C++ go on, and these calls end as failed', timeout=150)
def throws(t):
    for flags in (('-O2',), ('-O0', '-fcf-protection=full'), ('-O2', '-fno-omit-frame-pointer')):
        program = thrower(t, flags)
        lists = [{'name': 'Sampler', 'exe_path': [program], 'exe_sym': list(THROWN)}]
        attach = t.path('attach.json')
        with open(attach, 'w') as f:
            json.dump(lists, f)
        described = probe_file(t, [{'lib': program, 'function': '_Z*', 'return': True}])
        for file in (attach, described):
            for more in ((), ('-o', t.path('x.json'), '--disable-feature', 'session')):
                run = t.trace('--layer', 'user', '--probes', file, *more, command=[program, '1001'])
                t.equal(f'{flags} {more} its words', run.out, f'caught 500, {sum(range(0, 1001, 2)) + 2 * 501}\n')
                rows = {f: [run.function(f)[k] for k in ('calls', 'errors')] for f in THROWN if run.function(f)}
                t.equal(f'{flags} {more} calls and errors', rows, {f: [1001, 500] for f in THROWN})
                t.nothing_lost(run)


@case('values of functions of C++ that throw: calls that return are seen with them, those that throw are counted as lost')
def throws_values(t):
    program = thrower(t)
    out = t.path('values.json')
    for avoid in ('task-storage', 'session', 'session,multi'):
        file = probe_file(t, [{'lib': program, 'function': '_Z9inner*', 'args': ['arg1: i32 n', 'ret: i32 got']},
                              {'lib': program, 'function': '*outermosti', 'args': ['arg1: i32 n'], 'filter': 'n >= 100 && duration >= 0ns'}])  # fmt: skip
        run = t.trace('--layer', 'user', '--probes', file, '-o', out, '--disable-feature', avoid, command=[program, '1001'])
        t.equal(f'{avoid}: its words', run.out, f'caught 500, {sum(range(0, 1001, 2)) + 2 * 501}\n')
        t.equal(f'{avoid}: calls', {f: run.calls(f) for f in ('_Z9innermosti', '_Z9outermosti')},
                {'_Z9innermosti': 501, '_Z9outermosti': 451})  # fmt: skip
        t.equal(f'{avoid}: refused', [f['function'] for f in run.summary['attach_failures'] if '.cold' not in f['function']], [])
        t.equal(f'{avoid}: calls without an end', run.lost('unmatched'), 1000)
        with open(out) as f:
            events = json.load(f)['traceEvents']
        got = {e['args']['n']: e['args']['got'] for e in events if e['name'] == '_Z9innermosti'}
        t.equal(f'{avoid}: values', got, {n: n for n in range(0, 1001, 2)})


@case('other ways of attaching give the same')
def engines(t):
    file = probe_file(t, [WORK, {'usdt': 'gs_test:guarded'}, {'lib': 'exe', 'function': 'recurse', 'return': False}])
    for avoid in ('session', 'session,multi'):
        run = t.trace('--layer', 'user', '--disable-feature', avoid, '--probes', file, command=t.app('20', name='probed'))
        t.equal(avoid, (run.calls('work'), run.calls('gs_test:guarded'), run.calls('recurse')),
                (20, 20, sum(i % 5 + 1 for i in range(20))))  # fmt: skip


def records(path):
    gst = os.path.join(os.path.dirname(harness.HERE), 'gst.py')
    done = subprocess.run([sys.executable, gst, path], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@case('native stacks of described probes')
def native_stacks(t):
    out, svg = t.path('out.gst'), t.path('out.folded')
    file = probe_file(t, [{'lib': 'exe', 'function': 'recurse', 'stack': 'native', 'return': True},
                          {'lib': 'exe', 'function': 'guarded', 'stack': 'native', 'return': False},
                          {'lib': 'exe', 'function': 'work'}])  # fmt: skip
    t.trace('--layer', 'user', '--probes', file, '-o', out, '-o', svg, command=t.app('25', name='probed'))
    text, names, frames, stacks, calls = {0: ''}, {}, {}, {}, []
    for r in records(out):
        if r['kind'] == 'STRING':
            text[r['id']] = r['text']
        elif r['kind'] == 'FUNCTION':
            names[r['id']] = text[r['name_str']]
        elif r['kind'] == 'FRAME':
            frames[r['id']] = text[r['function_str']]
        elif r['kind'] == 'STACK':
            stacks[r['id']] = [frames[f] for f in r['frames']]
        elif r['kind'] == 'CALL':
            calls.append(r)
    # Each return goes to the call of the same function around it, or to who began.
    depths = collections.Counter()
    for c in (c for c in calls if names[c['function']] == 'recurse'):
        stack = stacks.get(c['native_stack'], [])
        t.true('a stack to the program\'s start', 'main' in stack or 'rounds' in stack or len(stack) > 2, stack)
        depths[stack.count('recurse')] += 1
    t.equal('recursion', dict(depths), {d: 25 - 5 * d for d in range(5)})
    for c in (c for c in calls if names[c['function']] == 'guarded'):
        t.equal('at the entry', stacks.get(c['native_stack'], [''])[0], 'guarded')
    t.equal('no stack of others', {c['native_stack'] for c in calls if names[c['function']] == 'work'}, {0})
    t.match('flame graph', r'recurse;recurse', harness.read_text(svg))
    run = t.tool('trace', '--layer', 'user', '--probes', file, '--', *t.app('1', name='probed'), status=2)
    t.match('without a file', 'stack: python', run.err)


@case('Python lines of described probes, added up and as events')
def python_stacks(t):
    code = ('import os\n'
            'def asks(n):\n'
            '    for i in range(n):\n'
            '        os.getppid()\n'
            'asks(70)\n'
            'asks(7); os.getppid()\n')  # fmt: skip
    script = t.path('asks.py')
    with open(script, 'w') as f:
        f.write(f'import os, time\nwhile not os.path.exists({t.path("go")!r}): time.sleep(0.01)\n' + code)
    file = probe_file(t, [{'name': 'parent', 'lib': 'libc.so.6', 'function': 'getppid', 'stack': 'python',
                           'return': True}])  # fmt: skip
    for options in ((), ('-o', t.path('out.gst'))):
        # The interpreter is known some milliseconds after it is seen.
        with harness.Beside([sys.executable, script]) as proc:
            live = t.start_trace('--layer', 'user', '--probes', file, *options, '-p', str(proc.pid))
            live.wait_err('stacks can be read')
            open(t.path('go'), 'w').close()
            run = live.finish()
        os.unlink(t.path('go'))
        lines = {(line['line'], line['function']): line['calls'] for line in run.summary['python_lines']
                 if line['file'] == script}  # fmt: skip
        t.equal(f'{options}: lines', lines, {(6, 'asks'): 77, (8, '<module>'): 1})
        t.equal(f'{options}: calls', run.calls('parent'), 78)


@case('gpuscope probes lists, and writes a file that works')
def list_and_generate(t):
    program, path = os.path.join(harness.fake, 'probed'), t.path('made.yaml')
    run = t.tool('probes', program, '--match', '*re*', '--format', 'json', '--generate', path, status=0)
    listed = {x['function']: x for x in json.loads(run.out)['probes']}
    t.true('recurse is listed', 'recurse' in listed, listed)
    t.equal('by name', list(listed), sorted(listed))
    made = t.tool('probes', program, '--match', '*re*', '--generate', '-', status=0).out
    with open(path, encoding='utf-8') as f:
        t.equal('the same on standard output, and nothing else', made, f.read())
    t.true('places', all(x['probe'] in ('cheap', 'moved', 'single-stepped', 'refused') for x in listed.values()))
    run = t.trace('--layer', 'user', '--probes', path, command=t.app('10', name='probed'))
    t.equal('calls', run.calls('recurse'), sum(i % 5 + 1 for i in range(10)))
    run = t.tool('probes', '--usdt', program, status=0)
    t.match('static probes', r'static probe +gs_test:guarded +-4@\S+ -2@\S+ +\(with a semaphore\)', run.out)
    t.tool('probes', '--match', 'nothing*', program, status=4)
    t.tool('probes', '/nonexistent/x.so', status=1)
    for name in ('libc.so.6', 'libc'):
        t.match(name, r'/libc\.so\.6', t.tool('probes', '--match', 'malloc', '--format', 'json', name, status=0).out)
    shutil.copy(program, t.path('libmine.so.1'))
    run = t.tool('probes', '--match', 'recurse', '--format', 'json', 'libmine.so.1', status=0, env={'LD_LIBRARY_PATH': f'/nowhere:{t.tmp}'})
    t.equal('in LD_LIBRARY_PATH', [x['path'] for x in json.loads(run.out)['probes']], [os.path.realpath(t.path('libmine.so.1'))])
    odd = t.path(os.fsdecode(b'lib"\xff\n.so'))  # what is no UTF-8 is U+FFFD, in JSON and in YAML
    shutil.copy(program, odd)
    run = t.tool('probes', odd, '--match', 'recurse', '--format', 'json', '--generate', path, status=0)
    t.equal('any bytes', [x['path'] for x in json.loads(run.out)['probes']], [t.path('lib"\ufffd\n.so')])
    with open(path, encoding='utf-8') as f:
        t.match('in the file', r'{lib: "[^"]*lib\\"\ufffd\\n\.so", function: "recurse"}', f.read())
    t.match('none', r'libnone\.so\.7: no such file, process, command or library', t.tool('probes', 'libnone.so.7', status=1).err)
    t.tool('probes', status=2)


@case("static probes of the machine's own programs")
def system_static_probes(t):
    for program, probe, command in (('/usr/bin/python3', 'python:gc__start', ['-c', 'import gc; gc.collect()']),
                                    ('/lib/x86_64-linux-gnu/libc.so.6', 'libc:setjmp', None)):  # fmt: skip
        if not os.path.exists(program):
            continue
        listed = t.tool('probes', '--usdt', '--match', probe, program)
        if listed.status == 0 and command:
            file = probe_file(t, [{'usdt': probe, 'aggregate': 'count'}])
            run = t.trace('--layer', 'user', '--probes', file, command=[program, *command])
            t.true(f'{probe} seen', run.calls(probe) >= 1)
            return
    raise Skip('neither python3 nor libc has static probes here')


@case("PyTorch's allocator: live, peak, leaks by place, fragmentation")
def torch_memory(t):
    out, n = t.path('out.json'), 100
    file = probe_file(t, [{'lib': 'exe', 'function': 'step', 'args': ['arg1: i32 n'], 'return': True}])
    options = ('--layer', 'cuda,torchmem,user', '--probes', file)
    for more in (('-o', out), ()):
        run = t.trace(*options, *more, command=t.app(str(n), name='torch_blocks'))
        devices = {a['device']: a for a in run.summary['allocators']}
        for device in (0, 1):
            blocks = [i * 512 for i in range(1, n + 1) if i % 2 == device]
            left = [i * 512 for i in range(1, n + 1) if i % 2 == device and i % 4 == 0]
            steps = 2 if device == 0 else 0
            a = devices[device]
            t.equal(f'device {device}', [a[k] for k in ('live_bytes', 'peak_bytes', 'allocations', 'frees', 'allocated_bytes')],
                    [sum(left) + steps * (1 << 20), max(sum(blocks), sum(left) + steps * (1 << 20)),
                     len(blocks) + steps, len(blocks) - len(left), sum(blocks) + steps * (1 << 20)])  # fmt: skip
        t.equal('frees of before', devices[-1]['unknown_frees'], 1)
        # Calls of CUDA that are added up in the kernel tell no pointers.
        t.equal('reserved', devices[0]['process_reserved_bytes'], 64 << 20 if more else 0)
        t.equal('unfreed', {(u['site'], u['device']): (u['blocks'], u['bytes']) for u in run.summary['unfreed']},
                {('step', 0): (2, 2 << 20), (None, 0): (25, sum(i * 512 for i in range(4, n + 1, 4)))})  # fmt: skip
    with open(out) as f:
        tracks = collections.Counter(e['name'] for e in json.load(f)['traceEvents'] if e['ph'] == 'C')
    t.equal('counter tracks', {k: v for k, v in tracks.items() if 'PyTorch' in k},
            {'PyTorch memory of device 0': 50 + 25 + 2, 'PyTorch memory of device 1': 50 + 50})  # fmt: skip


@case('a probe on one file by its path: no other file is read, of all that the command maps')
def one_path(t):
    program = t.app('20', name='probed')
    path = os.path.realpath(program[0])
    run = t.trace('-v', '--layer', 'user', '--probes', probe_file(t, [{**WORK, 'lib': path}]),
                  command=['sh', '-c', '/bin/true; exec "$@"', 'sh', *program])  # fmt: skip
    t.equal('calls', run.calls('work'), 20)
    # sh, libc, ld.so and true are mapped, too.
    t.match('requests', r'reader of files: 1 requests', run.err)


main()
