#!/usr/bin/env python3
"""libgpuscope: installed, found by pkg-config, and used by examples/c as C11 and as C++: traces of real programs, recordings that are
read and followed, samples, results; what is visible of it, and that its header stays as releases had it.

usage: library.py GPUSCOPE FAKE_FOLDER [CASE...]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import harness
from devices_help import NULL, TUN, ZERO, at_root, groups, rules_program
from harness import Skip, case, main, wait_until
from top_help import nvml

ROOT = os.path.abspath(os.path.join(harness.HERE, '../..'))
BUILD = os.path.abspath(os.path.join(os.path.dirname(sys.argv[1]), '..'))
EXAMPLES = ('trace_command', 'sample_gpus', 'read_recording', 'summary', 'device_access')
STRICT = ['-Wall', '-Wextra', '-Werror', '-pedantic', '-g']
# The same sources: as C11, without what GNU adds to it, and as C++.
LANGUAGES = {'c': ['cc', '-std=c11', '-D_POSIX_C_SOURCE=200809L'], 'c++': ['c++', '-x', 'c++', '-std=c++11']}

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import abi  # noqa: E402


def output_of(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode:
        raise AssertionError(f'{words}: {done.stdout}{done.stderr}')
    return done.stdout


def sanitizers():
    """What a program must be built with to load a library that is built so."""
    return ['-fsanitize=address,undefined'] if harness.is_asan() else []


class Installed:
    """The library as `make install` leaves it, below a folder of the case, and programs that were built with it."""

    def __init__(self, t):
        self.t, self.root = t, t.path('root')
        for tool in ('meson', 'pkg-config', 'cc', 'c++'):
            if not shutil.which(tool):
                raise Skip(f'{tool} is not installed')
        output_of('meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--tags', 'devel,runtime',
                  env={**os.environ, 'DESTDIR': self.root})
        found = subprocess.run(['find', self.root, '-name', 'libgpuscope.pc'], capture_output=True, text=True).stdout.split()
        self.folder = os.path.dirname(os.path.dirname(found[0]))
        self.env = {**os.environ, 'PKG_CONFIG_PATH': os.path.dirname(found[0]), 'PKG_CONFIG_SYSROOT_DIR': self.root}

    def flags(self, *which):
        return output_of('pkg-config', *which, 'libgpuscope', env=self.env).split()

    def build(self, name, language='c', source=None):
        program = self.t.path(f'{name}.{language}.bin')
        source = source or os.path.join(ROOT, 'examples/c', name + '.c')
        output_of(*LANGUAGES[language], *STRICT, *sanitizers(), *self.flags('--cflags'), source, '-x', 'none', *self.flags('--libs'), '-o', program)
        return program

    def start(self, program, *words, env=None, **more):
        return subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors='replace',
                                env=self.t.envs({'LD_LIBRARY_PATH': self.folder, **(env or {})}), **more)

    def run(self, program, *words, status=0, env=None, **more):
        with self.start(program, *words, env=env, **more) as p:
            out, err = p.communicate(timeout=60)
        self.t.equal(f'status of {os.path.basename(program)} {" ".join(words)}: {err[-300:]}', p.returncode, status)
        return out, err


def calls_in(text):
    """By function: the calls that trace_command has printed."""
    counts = {}
    for line in text.splitlines():
        found = re.match(r'\d+ \d+ \d+ \d+ (?:cuda-runtime|cuda-driver|nccl|user) (\w+)', line)
        if found:
            counts[found[1]] = counts.get(found[1], 0) + 1
    return counts


def apart(t, *args):
    """fake_app whose words do not stand among those of the program that traces it; and the file that has them."""
    path = t.path('words')
    return ['sh', '-c', f'exec "$0" "$@" >{path}', *t.app(*args)], path


def app_lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


APP = ('--threads=2', 'cudaMalloc=23', 'cudaLaunchKernel=1009', 'cudaMemcpyAsync=101', 'cudaStreamSynchronize=7', 'cudaEventQuery=31')


@case('calls of a command one by one, as C11 and as C++: as many as the program made', timeout=120)
def trace_command(t):
    lib = Installed(t)
    for language in LANGUAGES:
        gst = t.path(f'{language}.gst')
        command, words = apart(t, *APP)
        out, err = lib.run(lib.build('trace_command', language), '-o', gst, *command)
        lines = app_lines(words)
        wanted = {name: f['calls'] for line in lines for name, f in line['functions'].items()}
        t.true(f'{language}: the program made calls', sum(wanted.values()) > 2000, str(wanted))
        # First calls come without their times and are in the sums: the recording of the same run has all.
        summary = json.loads(t.tool('report', gst, '--format', 'json', status=0).out)
        all_calls = {f['name']: f['calls'] for f in summary['functions']}
        calls = calls_in(out)
        timed = {f['name']: f['timed_calls'] if 'timed_calls' in f else f['calls'] for f in summary['functions']}
        for name, n in wanted.items():
            t.equal(f'{language}: {name} in the recording', all_calls.get(name, 0), n)
            t.true(f'{language}: {name} as items', n - 8 <= calls.get(name, 0) <= n, f'{calls.get(name)} of {n}, timed {timed.get(name)}')
        t.match(f'{language}: its end', 'the command ended, exit status 0', err)


@case('status and errors of commands, options and outputs', timeout=120)
def errors(t):
    lib = Installed(t)
    program = lib.build('trace_command')
    lib.run(program, 'sh', '-c', 'exit 7', status=7)
    _, err = lib.run(program, '/nowhere/program', status=1)
    t.match('no command', '^/nowhere/program: command not found$', err)
    _, err = lib.run(program, '-o', '/nowhere/x.json', 'true', status=1)
    t.match('no folder', '/nowhere/x.json', err)
    _, err = lib.run(program, '-o', t.path('x.doc'), 'true', status=1)
    t.match('no format', 'outputs must end in one of .gst, ', err)
    _, err = lib.run(lib.build('read_recording'), '/etc/hostname', status=1)
    t.match('no recording', 'hostname', err)
    _, err = lib.run(program, 'sh', '-c', 'kill -9 $$', status=137)
    t.match('killed', 'killed by signal 9, exit status 137', err)


@case('functions of any library by symbol, with their arguments', timeout=90)
def probes(t):
    lib = Installed(t)
    out, _ = lib.run(lib.build('trace_command'), '-f', 'getenv_of_nobody', '-f', 'pthread_create', *t.app('--threads=3', 'cudaMalloc=5'))
    found = re.findall(r' user pthread_create arg1=(\d+) arg2=(\d+)', out)
    t.true('a call for each thread', len(found) >= 3, out[-500:])
    t.true('a place in memory', all(int(first) > 0 for first, _ in found), str(found))


@case('a recording: read, converted, and followed while it is written', timeout=120)
def recordings(t):
    lib = Installed(t)
    reader, gst = lib.build('read_recording'), t.path('run.gst')
    t.tool('trace', '-q', '-o', gst, '--', *t.app(*APP), status=0)
    out, _ = lib.run(reader, gst, t.path('run.json'))
    counts = dict(re.findall(r'^(\w+) (-?\d+)$', out, re.M))
    events = json.load(open(t.path('run.json')))['traceEvents']
    began = [e for e in events if e.get('ph') in ('X', 'B') and e.get('cat') in ('cuda-runtime', 'cuda-driver', 'nccl')]
    t.true('calls', int(counts['calls']) > 2000, str(counts))
    t.true('as many in the Trace Event file', began and abs(len(began) - int(counts['calls'])) <= 16, f'{len(began)} {counts}')
    t.equal('its end', counts['end'], '1')
    t.true('its clock', abs(int(counts['to_wall_ns']) - (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))) < 10**10, str(counts))

    live = t.path('live.gst')
    run = t.start_trace('-q', '-o', live, command=[os.path.join(harness.fake, 'demo_train'), '--steps=200'])
    wait_until(lambda: os.path.exists(live) and os.path.getsize(live) > 1000, what='the file grows')
    follower = lib.start(reader, '-f', live)
    first = follower.stdout.readline()
    run.finish()
    rest, err = follower.communicate(timeout=60)
    t.match('records come', r'^\+\d+$', first.strip())
    t.equal('it ended in order', (follower.returncode, re.findall(r'^end (\d+)$', rest, re.M), err), (0, ['1'], ''))
    whole, _ = lib.run(reader, live)
    t.equal('all that the file has', re.findall(r'^(?:calls|sums|dur_ns) .*$', rest, re.M), re.findall(r'^(?:calls|sums|dur_ns) .*$', whole, re.M))


@case('a result with its verdict: as structs, and the JSON of the program', timeout=150)
def results(t):
    lib = Installed(t)
    summary, gst = lib.build('summary'), t.path('train.gst')
    train = [os.path.join(harness.fake, 'demo_train'), '--steps=160']
    t.tool('trace', '-q', '-o', gst, '--', *train, status=0, timeout=120)
    out, _ = lib.run(summary, gst, env={'JSON': '1'})
    t.equal('the same JSON', out, t.tool('report', gst, '--format', 'json', status=0).out)
    wanted = json.loads(out)
    out, _ = lib.run(summary, gst, env={'JSON': 'findings'})
    t.equal('the same findings', out, t.tool('explain', gst, '--format', 'json', status=0).out)
    text, _ = lib.run(summary, gst)
    t.equal('its verdict', re.search(r'^verdict (\w+)', text, re.M)[1], wanted['verdict']['class'])
    t.equal('its functions', {(f, int(n)) for f, n in re.findall(r'^function \S+ (\w+) calls=(\d+)', text, re.M)},
            {(f['name'], f['calls']) for f in wanted['functions']})
    live, _ = lib.run(summary, *train)
    t.match('of a run', r'(?m)^verdict \w+: \w', live)
    t.equal('calls of a run', re.findall(r'function nccl ncclCommInitRankConfig calls=(\d+)', live), ['2'])


@case('hangs of a recording, and the users of its processes: those of the report', timeout=120)
def hangs(t):
    lib, gst = Installed(t), t.path('stuck.gst')
    t.tool('trace', '-q', '--hang-after', '2s', '-o', gst, '--', os.path.join(harness.fake, 'stuck'), 'sleep', '5000', timeout=60)
    wanted = json.loads(t.tool('report', gst, '--format', 'json', status=0).out)['hangs']
    text, _ = lib.run(lib.build('summary'), gst)
    t.equal('hangs', re.findall(r'^hang (\w+): (.*)$', text, re.M), [(h['kind'], h['text']) for h in wanted])
    t.equal('who waits for whom', re.findall(r'^rank (\d+) (\w+): ', text, re.M), [(str(r['rank']), r['state']) for h in wanted for r in h['by_rank']])
    t.equal('one is missing', [state for _, state in re.findall(r'^rank (\d+) (\w+): ', text, re.M)].count('missing'), 1)
    users = re.findall(r'^process \d+ \S+ of user (-?\d+)$', text, re.M)
    t.true('processes of this user', users and set(users) == {str(os.getuid())}, text)
    counts = dict(re.findall(r'^(\w+) (-?\d+)$', lib.run(lib.build('read_recording'), gst)[0], re.M))
    t.equal('as items: found, and over', counts.get('hangs'), '2')


HANGS = r'''
#include <gpuscope/gpuscope.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void print_hang(const char *where, const struct gs_hang *h)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	printf("%s %u %llu %llu %llu %s arrived=%u: %s\n", where, h->number, (unsigned long long)h->found_ns, (unsigned long long)h->ended_ns,
	       (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec, h->sort, h->has_arrived, h->text);
	for (size_t i = 0; i < h->n_ranks; i++)
		printf("%s rank %d %s calls=%llu stacks=\"%s%s\"\n", where, h->ranks[i]->rank, h->ranks[i]->state,
		       (unsigned long long)h->ranks[i]->calls, h->ranks[i]->python_stack, h->ranks[i]->native_stack);
}

/* usage: hangs SECONDS|old summary|calls FILE COMMAND... */
int main(int argc, char **argv)
{
	struct gs_trace_options o;
	const struct gs_result *result;
	const struct gs_item *item;
	struct gs_trace *trace;
	const char *outputs[1];
	int r;

	if (argc < 5)
		return 2;
	memset(&o, 0, sizeof(o));
	/* A program that was built before the member was there. */
	o.size = strcmp(argv[1], "old") ? sizeof(o) : offsetof(struct gs_trace_options, hang_after_ns);
	o.hang_after_ns = strcmp(argv[1], "old") ? strtoull(argv[1], NULL, 10) * 1000000000ull : 1;
	o.flags = strcmp(argv[2], "summary") ? 0 : GS_TRACE_SUMMARY_ONLY;
	outputs[0] = argv[3];
	o.outputs = outputs;
	o.n_outputs = 1;
	o.command = (const char *const *)argv + 4;
	if (gs_trace_new(&trace) < 0 || gs_trace_start(trace, &o) < 0) {
		fprintf(stderr, "%s\n", gs_trace_error(trace));
		return 1;
	}
	while ((r = gs_trace_next(trace, GS_FOREVER, &item)) == GS_NEXT_ITEM)
		if (item->kind == GS_ITEM_HANG)
			print_hang("item", (const struct gs_hang *)item);
	if (r == GS_NEXT_END && gs_trace_result(trace, &result) == 0)
		for (size_t i = 0; i < result->n_hangs; i++)
			print_hang("result", result->hangs[i]);
	gs_trace_free(trace);
	return r != GS_NEXT_END;
}
'''


@case('hangs of a running trace: named while they last, and when they are over; none unless asked for', timeout=180)
def live_hangs(t):
    lib, source = Installed(t), t.path('hangs.c')
    with open(source, 'w') as f:
        f.write(HANGS)
    stuck = os.path.join(harness.fake, 'stuck')
    for language, mode in (('c', 'calls'), ('c++', 'summary')):
        gst = t.path(f'{mode}.gst')
        out, _ = lib.run(lib.build('hangs', language, source), '3', mode, gst, stuck, 'sleep', '11000')
        fault_ns = int(re.search(r'at (\d+) pid \d+', out)[1])
        items = re.findall(r'^item (\d+) (\d+) (\d+) (\d+) (\w+) arrived=(\d): ?(.*)$', out, re.M)
        t.equal(f'{mode}: found, and over', [(number, sort, arrived, bool(int(ended))) for number, _, ended, _, sort, arrived, _ in items],
                [('1', 'waits', '0', False), ('1', 'waits', '1', True)])  # fmt: skip
        seen_s = (int(items[0][3]) - fault_ns) / 1e9
        t.true(f'{mode}: the item came while they waited, {seen_s:.2f} s after the fault', 3 <= seen_s <= 8, out)
        # What the program says of the same recording is what was handed out.
        wanted = json.loads(t.tool('report', gst, '--format', 'json', status=0).out)['hangs']
        t.equal(f'{mode}: the text', items[0][6], wanted[0]['text'])
        t.match(f'{mode}: who', r'rank 2 \(process \d+\) has not arrived at collective 22 of communicator 0x[0-9a-f]+: 3 of 4 ranks waiting', items[0][6])
        ranks = [(str(r['rank']), r['state'], str(r['calls']), '') for r in wanted[0]['by_rank']]
        t.equal(f'{mode}: its ranks', re.findall(r'^item rank (\d+) (\w+) calls=(\d+) stacks="(.*)"$', out, re.M), ranks)
        t.equal(f'{mode}: those of the result', re.findall(r'^result rank (\d+) (\w+) calls=(\d+) stacks="(.*)"$', out, re.M), ranks)
        t.equal(f'{mode}: one', (len(wanted), ranks[0][:2]), (1, ('2', 'missing')))
    program = t.path('hangs.c.bin')
    out, _ = lib.run(program, '3', 'calls', t.path('type.gst'), stuck, 'type', '1000')
    t.match('calls that do not match, and the end at once', r'(?m)^item 1 \d+ 0 \d+ differs arrived=0: rank 2 .* called ncclAllGather of 512 int32', out)
    out, _ = lib.run(program, '3', 'calls', t.path('die.gst'), stuck, 'die', '1000', status=0)
    t.match('a rank that was killed', r'(?m)^item rank 2 ended ', out)
    for after in ('0', 'old'):
        out, _ = lib.run(program, after, 'calls', t.path(f'{after}.gst'), stuck, 'type', '1000')
        t.equal(f'not asked for ({after})', re.findall(r'(?m)^(?:item|result) .*', out), [])


@case('samples of GPUs, their processes and the machine', timeout=60, needs=None)
def samples(t):
    lib = Installed(t)
    env = {'NVML': nvml(), 'FAKE_NVML': f'gpus=2,pids={os.getpid()}', 'JSON': '1'}
    for language in LANGUAGES:
        out, _ = lib.run(lib.build('sample_gpus', language), '2', '200', env=env)
        doc = json.loads(out[out.index('\n{') + 1:])
        said = t.tool('gpu', '--nvml', nvml(), '--format', 'json', env=env, status=0).out
        t.equal(f'{language}: keys as the program has them', sorted(doc['gpus'][0]['values']), sorted(json.loads(said)['gpus'][0]['values']))
        for gpu in doc['gpus']:
            values = dict(re.findall(rf'^value {gpu["index"]} (\w+) (\S+)$', out, re.M))
            t.equal(f'{language}: values of GPU {gpu["index"]}', sorted(values), sorted(k for k, v in gpu['values'].items() if v is not None))
            t.match(f'{language}: its line', rf'(?m)^gpu {gpu["index"]} {re.escape(gpu["name"])} sm=\d', out)
        t.match(f'{language}: the process', rf'(?m)^process {os.getpid()} \S+ gpu=\d', out)
        t.match(f'{language}: the machine', rf'(?m)^machine {re.escape(os.uname().nodename)} cpus={os.cpu_count()} ', out)
    out, _ = lib.run(lib.build('sample_gpus'), '1', env={'NVML': '/nowhere/libnvidia-ml.so.1'})
    t.match('no driver', 'no_library: ', out)


@case('each example is C11 and C++', timeout=120, needs=None)
def both_languages(t):
    lib = Installed(t)
    t.equal('examples', sorted(n[:-2] for n in os.listdir(os.path.join(ROOT, 'examples/c')) if n.endswith('.c')), sorted(EXAMPLES))
    for name in EXAMPLES:
        for language in LANGUAGES:
            t.true(f'{name} as {language}', os.path.getsize(lib.build(name, language)) > 0)


@case('access to devices of NVIDIA\'s: checked, granted, revoked; what is refused', timeout=120, needs=None, beside='devices')
def device_access(t):
    if os.geteuid() != 0:
        raise Skip('needs root')
    lib = Installed(t)
    program = lib.build('device_access', 'c++')

    def access(action, pid, status, root=t.path('root')):
        words = at_root(t, program, action, str(pid), root)
        done = subprocess.run(words, capture_output=True, text=True, env=t.envs({'LD_LIBRARY_PATH': lib.folder}), timeout=60)
        t.equal(f'{action}: status ({done.stderr})', done.returncode, status)
        return dict(word.split('=', 1) for word in done.stdout.split(' devices=')[0].split()), done

    with groups(t, 'library') as g:
        g.attach(rules_program([(1, 3)]))
        pid = g.start().pid
        found, done = access('check', pid, 1)
        t.equal('before', (found['v2'], found['changes']), ('forbidden', '0'))
        t.match('why', rf'eBPF program {g.programs()[1][0]} of {g.name} forbids device (10|5):0', done.stderr)
        found, done = access('grant', pid, 0)
        t.equal('granted', (found['v2'], found['changes']), ('granted', '1'))
        t.match('which', r'devices=10:\* 5:\*$', done.stdout.strip())
        t.equal('the kernel agrees', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'ok'])
        t.equal('now it is so', access('check', pid, 0)[0]['v2'], 'allowed')
        code = f'import gpuscope; a = gpuscope.device_access({pid}, held=False, host_root={t.path("root")!r}); print(a.cgroup_v2, a.is_open, a.changes, a.devices)'
        env = {'PYTHONPATH': os.path.join(ROOT, 'python'), 'GPUSCOPE_LIBRARY': os.path.join(lib.folder, 'libgpuscope.so.0')}
        done = subprocess.run(at_root(t, '/usr/bin/python3', '-c', code), capture_output=True, text=True, env=t.envs(env), timeout=60)
        t.equal(f'the same from Python ({done.stderr[-300:]})', done.stdout.strip(), 'allowed True 0 10:* 5:*')
        t.equal('revoked', access('revoke', pid, 0)[0]['v2'], 'revoked')
        t.equal('as before', g.open_errors(NULL, ZERO, TUN), ['ok', 'EPERM', 'EPERM'])
    t.match('no process', 'no process|4194303', access('check', 4194303, 2)[1].stderr)
    t.match('no number', '0 is no process', access('grant', 0, 2)[1].stderr)


@case('only the functions of the header are visible', timeout=60, needs=None)
def symbols(t):
    library = os.path.realpath(os.path.join(BUILD, 'src/libgpuscope.so'))
    declared = abi.functions(abi.HEADER)
    shown = re.findall(r' [A-Z] (\w+)@@GPUSCOPE_0', output_of('nm', '-D', '--defined-only', library))
    others = [n for n in re.findall(r' [A-Z] ([^\s@]+)', output_of('nm', '-D', '--defined-only', library)) if n not in declared]
    t.equal('the header and the library', sorted(shown), sorted(declared))
    t.equal('the header and the map', sorted(abi.in_map()), sorted(declared))
    # What a sanitizer adds to each library.
    t.equal('nothing else', [n for n in others if n != 'GPUSCOPE_0' and not n.startswith(('__asan', '__odr_asan', '__ubsan', '__tsan'))], [])
    t.match('its name', r'SONAME.*\[libgpuscope.so.0\]', output_of('readelf', '-d', library))


@case('a header that breaks programs of a release is refused, one that adds is not', timeout=120, needs=None)
def compatible(t):
    if not shutil.which('abidiff'):
        raise Skip('abidiff is not installed (package abigail-tools)')
    text = abi.HEADER.read_text()
    check = lambda header: subprocess.run([os.path.join(ROOT, 'tools/abi.py'), '--header', header], capture_output=True, text=True)
    t.equal('as it is', check(str(abi.HEADER)).returncode, 0)
    changes = {
        'a function less': (r'(?m)^GS_PUBLIC int gs_trace_fd.*;$', '', 1),
        'another parameter': (r'int gs_trace_stop\(struct gs_trace \*trace\)', 'int gs_trace_stop(struct gs_trace *trace, int how)', 1),
        'another result': (r'GS_PUBLIC uint32_t gs_library_version_number', 'GS_PUBLIC uint64_t gs_library_version_number', 1),
        'a member less': (r'(?m)^\tuint32_t depth; .*$', '', 1),
        'a member in the middle': (r'(?m)^\tuint32_t depth; .*$', r'\g<0>\n\tuint32_t more[2];', 1),
        'another number': ('GS_ITEM_WORK = 6', 'GS_ITEM_WORK = 16', 1),
        'a member at the end': (r'(?m)^\tconst struct gs_value \*const \*values;.*$', r'\g<0>\n\tuint64_t more;', 0),
        'a function more': (r'(?m)^GS_PUBLIC int gs_trace_fd.*;$', r'\g<0>\nGS_PUBLIC int gs_trace_more(int x);', 0),
        'an enumerator more': ('GS_ITEM_END = 9,', r'\g<0> GS_ITEM_MORE = 10,', 0),
    }
    for what, (pattern, by, status) in changes.items():
        changed, n = re.subn(pattern, by, text, count=1)
        t.equal(f'{what}: was there', n, 1)
        with open(t.path('changed.h'), 'w') as f:
            f.write(changed)
        done = check(t.path('changed.h'))
        t.equal(f'{what}: refused', done.returncode, status)
        t.true(f'{what}: said why', bool(done.stdout) and 'Traceback' not in done.stderr, done.stderr)


THREADS = r'''
#include <gpuscope/gpuscope.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct gs_trace *trace;
static unsigned long n_calls;
static int last;

/* Pulls beside the thread that stops it, woken by the descriptor. */
static void *pull(void *ctx)
{
	struct pollfd fd = {.fd = gs_trace_fd(trace), .events = POLLIN};
	const struct gs_item *const *items;
	size_t n;

	(void)ctx;
	while (last != GS_NEXT_END && last >= 0) {
		poll(&fd, 1, -1);
		while ((last = gs_trace_next_many(trace, 0, 100, &items, &n)) == GS_NEXT_ITEM)
			for (size_t i = 0; i < n; i++)
				n_calls += items[i]->kind == GS_ITEM_CALL && ((const struct gs_call *)items[i])->name[0];
	}
	return NULL;
}

/* Samples and recordings of their own, meanwhile. */
static void *sample(void *ctx)
{
	const struct gs_sample *s;
	struct gs_monitor_options o = {.size = sizeof(o), .flags = GS_MONITOR_HOST};
	struct gs_monitor *m;

	(void)ctx;
	if (gs_monitor_new(&m) == 0 && gs_monitor_open(m, &o) == 0)
		for (int i = 0; i < 3; i++)
			if (gs_monitor_read(m, &s) < 0 || s->machine->n_cpus < 1)
				printf("bad sample\n");
	gs_monitor_free(m);
	return NULL;
}

int main(int argc, char **argv)
{
	struct gs_trace_options o = {.size = sizeof(o), .command = (const char *const *)argv + 1};
	const struct gs_result *result;
	struct sigaction before, after;
	pthread_t puller, sampler;
	sigset_t mask;
	int r;

	if (argc < 2)
		return 2;
	sigaction(SIGCHLD, NULL, &before);
	if (gs_trace_new(&trace) < 0 || gs_trace_start(trace, &o) < 0) {
		fprintf(stderr, "%s\n", gs_trace_error(trace));
		return 1;
	}
	pthread_create(&puller, NULL, pull, NULL);
	pthread_create(&sampler, NULL, sample, NULL);
	usleep(1500000);
	r = gs_trace_stop(trace);
	pthread_join(puller, NULL);
	pthread_join(sampler, NULL);
	if (gs_trace_result(trace, &result) < 0 || gs_trace_start(trace, &o) >= 0)
		printf("bad result\n");
	printf("stop %d last %d calls %lu reason %s functions %zu busy \"%s\"\n", r, last, n_calls, result->end_reason,
	       result->n_functions, (gs_trace_start(trace, &o), gs_trace_error(trace)));
	gs_trace_free(trace);
	sigaction(SIGCHLD, NULL, &after);
	pthread_sigmask(0, NULL, &mask);
	printf("handler %d mask %d\n", before.sa_handler == after.sa_handler, sigismember(&mask, SIGINT));
	return 0;
}
'''


@case('a trace that is stopped by another thread than the one that pulls; no file, process or handler stays', timeout=120)
def threads(t):
    lib = Installed(t)
    source = t.path('threads.c')
    with open(source, 'w') as f:
        f.write(THREADS)
    program = t.path('threads')
    output_of('cc', '-std=gnu11', *STRICT, *sanitizers(), *lib.flags('--cflags'), source, *lib.flags('--libs'), '-pthread', '-o', program)
    # What goes on after the trace must not hold our end of its output.
    out, _ = lib.run(program, 'sh', '-c', f'exec {harness.fake}/demo_train --steps=100000 >/dev/null 2>&1')
    found = re.search(r'stop 0 last 2 calls (\d+) reason stopped functions [1-9]\d* busy "this handle already has a trace: use a new one"', out)
    t.true('its line', found, out)
    t.true('calls came', found and int(found[1]) > 100, out)
    t.match('as it was', 'handler 1 mask 0', out)
    t.true('nothing bad', 'bad' not in out, out)


@case('a caller that pulls too seldom loses items, counted, and nothing else', timeout=90)
def full_queue(t):
    lib = Installed(t)
    source = t.path('full.c')
    with open(source, 'w') as f:
        f.write(r'''
#include <gpuscope/gpuscope.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	struct gs_trace_options o = {.size = sizeof(o), .command = (const char *const *)argv + 1, .queue_items = 100};
	unsigned long calls = 0, lost = 0, total = 0;
	const struct gs_result *result;
	const struct gs_item *item;
	struct gs_trace *t;
	struct { struct gs_trace_options o; char more; } newer = {.o = o, .more = 1};
	(void)argc;
	gs_trace_new(&t);
	newer.o.size = sizeof(newer);
	printf("newer %d\n", gs_trace_start(t, &newer.o));
	newer.o.size = 8;
	printf("older %d\n", gs_trace_start(t, &newer.o));
	if (gs_trace_start(t, &o) < 0)
		return 1;
	/* Its end is known without an item being pulled. */
	do
		gs_trace_result(t, &result);
	while (!result->end_reason[0]);
	while (gs_trace_next(t, GS_FOREVER, &item) == GS_NEXT_ITEM) {
		calls += item->kind == GS_ITEM_CALL;
		if (item->kind == GS_ITEM_LOST && strcmp(((const struct gs_lost *)item)->cause, "queue_full") == 0)
			lost += ((const struct gs_lost *)item)->count;
	}
	gs_trace_result(t, &result);
	for (size_t i = 0; i < result->n_functions; i++)
		total += result->functions[i]->calls;
	printf("calls %lu lost %lu total %lu\n", calls, lost, total);
	gs_trace_free(t);
	return 0;
}
''')
    program = t.path('full')
    output_of('cc', '-std=c11', *STRICT, *sanitizers(), *lib.flags('--cflags'), source, *lib.flags('--libs'), '-o', program)
    command, words = apart(t, '--threads=1', 'cudaEventQuery=4001')
    out, _ = lib.run(program, *command)
    found = re.search(r'calls (\d+) lost (\d+) total (\d+)', out)
    t.true('items that had room', found and int(found[1]) <= 100, out)
    t.true('the others are counted', found and int(found[2]) > 3000, out)
    t.equal('the result has all', found and int(found[3]), sum(f['calls'] for line in app_lines(words) for f in line['functions'].values()))
    t.match('options of another version', r'newer -7\nolder -22', out)


if __name__ == '__main__':
    main()
