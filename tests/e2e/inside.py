#!/usr/bin/env python3
"""Calls seen from inside (--inside=calls) are those that probes see, to the unit, whichever way a program gets at its
functions; a process that cannot be seen from inside is seen by probes; and no program is harmed."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import harness
from harness import Skip, case, main, primes, wait_until

sys.path.insert(0, os.path.join(harness.HERE, '..', 'fake'))
from check_app import FIRST, NEVER_FAIL  # noqa: E402

INSIDE = ['--inside=calls']
# Their bytes are those of the block, which only a whole trace knows.
FREES = re.compile(r'Free|HostUnregister|MemRelease|ncclMemFree')
SPREAD = 163


def cpp(t, name, *flags):
    if not shutil.which('g++'):
        raise Skip('needs g++')
    subprocess.run(['g++', '-O1', '-o', t.path(name), os.path.join(harness.HERE, 'inside_app.cc'), *flags, f'-L{harness.fake}',
                    '-l:libcudart.so.13', f'-Wl,-rpath,{os.path.abspath(harness.fake)}', '-pthread', '-ldl'], check=True)  # fmt: skip
    return t.path(name)


def library(t, name, *flags):
    subprocess.run(['gcc', '-O1', '-shared', '-fPIC', '-fvisibility=hidden', *flags, '-o', t.path(name),
                    os.path.join(harness.HERE, 'inside_cuda.c')], check=True)  # fmt: skip
    return t.path(name)


def every_function(can):
    """Arguments for fake_app: each function with a count of its own, well and badly."""
    modulus = next(p for p in primes() if p > max(len(can), SPREAD))
    first = {**FIRST, 'ncclCommAbort': 'ncclCommInitRank', 'ncclCommDestroy': 'ncclCommInitRank'}
    early = ('cudaDeviceReset', 'cudaGetLastError', 'cudaPeekAtLastError')
    args = []
    for i, name in enumerate(sorted(can, key=lambda n: (n not in early, n not in first, 'HostRegister' not in n, n)), 1):
        n = i * SPREAD % modulus
        if name not in first and 'ncclCommInitRank=1' not in args:
            args.append('ncclCommInitRank=1')
        if name in first:
            args.append(f'{first[name]}={n}')
        args.append(f'{name}={n}')
        if name not in NEVER_FAIL:
            args.append(f'{name}:bad={n % 7 + 1}')
    return args


def run_every(t, program, *options, env=None):
    known = {line.split(None, 3)[2] for line in t.tool('trace', '--list', status=0).out.splitlines()}
    can = [n for n in subprocess.run([*program, '--list'], check=True, capture_output=True, text=True).stdout.split() if n in known]
    run = t.trace(*INSIDE, '--func', '*', *options, command=[*program, *every_function(can)], env=env)
    return run, known, can


def doors(run):
    """Which libraries have how many probes, by name, and what is said of them."""
    return {os.path.basename(a['path']): (a['probes'], a['remark']) for a in run.summary['attached']}


def all_inside(t, run):
    t.equal('probes of libraries of CUDA and NCCL', {n: p for n, (p, _) in doors(run).items() if p and n.startswith(('libcuda', 'libnccl'))}, {})


for title, name in (('linked', 'fake_app'), ('loaded late', 'fake_app_late')):

    @case(f'every function, {title}: calls, errors, bytes, inner calls', timeout=120)
    def counted(t, name=name):
        more = ['--dlopen', harness.fake] if name == 'fake_app_late' else []
        run, known, can = run_every(t, [*t.app(name=name), *more])
        t.counts(run, known=known, ignore_bytes=[n for n in known if FREES.search(n)])
        t.equal('functions never seen', sorted(set(can) - {f['name'] for f in run.summary['functions'] if f['calls']}), [])
        # A thread that makes calls without doing anything else fills its ring: those calls are in the sums.
        t.equal('lost', sorted({c for layer in run.summary['lost'].values() for c in layer if c not in harness.NOT_LOST} - {'ring_full'}), [])
        all_inside(t, run)


@case('every function, whole events: every call is in the trace', timeout=120)
def events(t):
    path = t.path('t.csv')
    run, known, _ = run_every(t, t.app(), '-o', path, '--ring-size', '16M')
    t.counts(run, known=known, ignore_bytes=[n for n in known if FREES.search(n)])
    t.nothing_lost(run)
    got = {}
    with open(path, newline='') as f:
        for row in csv.DictReader(f):
            got[row['function']] = got.get(row['function'], 0) + 1
    t.equal('calls in the trace', got, {f['name']: f['calls'] for f in run.summary['functions'] if f['calls']})


def without_addresses(path):
    """What a .csv says of each call but where its memory was, when and how long it was, in the order of its thread. Which of two
    threads waits first for work that both have asked for (flow, waited) is another one in each run."""
    rows = []
    with open(path, newline='') as f:
        for row in csv.DictReader(f):
            rows.append({k: re.sub(r'0x[0-9a-f]+', '0x', v) for k, v in row.items()
                         if k not in ('start_ns', 'start_wall', 'dur_ns', 'cpu', 'pid', 'tid', 'flow', 'waited', 'thread')})
    return rows


@case('the same run by probes and from inside: each call with its arguments and results', timeout=120)
def same(t):
    app = t.app('cudaMalloc=5', 'cudaMemcpyAsync=7', 'cudaMemcpy3D=3', 'cudaMallocPitch=3', 'cudaMemset3D=2', 'cudaLaunchKernel=11',
                'cudaLaunchKernelExC=5', 'cuLaunchKernelEx=4', 'cuLaunchKernel=3', 'cudaMalloc3DArray=3', 'cudaMallocMipmappedArray=2',
                'cudaStreamCreate=2', 'cudaEventQuery=3', 'cuMemcpy2D_v2=3', 'cuMemcpy3DPeer=2', 'cudaMemcpyBatchAsync=3', 'cudaMemcpy3DBatchAsync=2',
                'cudaMalloc:bad=3', 'cudaMemcpy3D:bad=3', 'cudaLaunchKernelExC:bad=2', 'cudaMallocPitch:bad=2', 'ncclCommInitRank=2', 'ncclAllReduce=5',
                'ncclSend=3', 'ncclBcast=3', 'ncclCommSplit=2', 'cuModuleGetFunction=2', '--threads=2', '--nested=2')  # fmt: skip
    # First calls are left without their times by probes where a thread may be cancelled in them.
    probes = t.trace('-o', t.path('probes.csv'), '--disable-feature', 'session', command=app)
    inside = t.trace(*INSIDE, '-o', t.path('inside.csv'), command=app)
    t.nothing_lost(inside)
    a, b = without_addresses(t.path('probes.csv')), without_addresses(t.path('inside.csv'))
    t.equal('calls', len(b), len(a))
    t.true('some', len(a) > 150, str(len(a)))
    key = lambda row: json.dumps({k: v for k, v in row.items() if v}, sort_keys=True)  # noqa: E731
    t.equal('rows that one has alone', sorted(set(map(key, a)) ^ set(map(key, b)))[:6], [])
    t.equal('rows', sorted(map(key, a)) == sorted(map(key, b)), True)
    same_keys = ('ranks', 'rank', 'calls', 'bytes', 'origin')
    t.equal('communicators', *[sorted(str({k: c.get(k) for k in same_keys}) for c in r.summary['communicators']) for r in (inside, probes)])


@case('an interposed library (LD_PRELOAD) stays in front, and its calls count once')
def interposed(t):
    hook = os.path.join(harness.fake, 'libgs_hook.so')
    app = t.app('cudaMalloc=17', 'cudaLaunchKernel=31', 'cudaMemcpy=13', 'cuMemAlloc_v2=7', 'cuCtxSynchronize=5')
    probes = t.trace(env={'LD_PRELOAD': hook}, command=app)
    inside = t.trace(*INSIDE, env={'LD_PRELOAD': hook}, command=app)
    t.equal('calls, errors, bytes', *[{f['name']: (f['calls'], f['errors'], f['bytes']) for f in r.summary['functions'] if f['calls']}
                                      for r in (inside, probes)])  # fmt: skip
    all_inside(t, inside)


@case('kernels have their names: registered, asked for of the driver, by the runtime, by an address that is no name')
def kernels(t):
    app, fake = t.path('kernels'), os.path.abspath(harness.fake)
    subprocess.run(['gcc', '-pthread', '-O2', '-o', app, os.path.join(harness.HERE, 'kernels_app.c'), f'{fake}/libcudart.so.13', f'{fake}/libcuda.so.1',
                    f'-Wl,-rpath,{fake}'], check=True)  # fmt: skip
    scale, fill = 'app::scale(float*, int)', 'void app::fill<double>(double*, double)'
    for mode, want in (('runtime', {scale: 7, fill: 5, 'plain': 3}), ('driver', {scale: 4, 'triton_poi_fused_add_0': 6, 'n' * 1500: 2, fill: 3, None: 2}),
                       ('untouched', {scale: 4, None: 1}), ('library', {scale: 4, fill: 3})):  # fmt: skip
        run = t.trace(*INSIDE, '--by', 'kernel', command=[app, mode])
        got = {}
        for k in run.summary['kernels']:
            got[k['name']] = got.get(k['name'], 0) + k['launches']
        t.equal(f'launches, {mode}', got, want)
        all_inside(t, run)


KINDS = {'bound lazily': ['-Wl,-z,lazy'], 'bound at the start': ['-Wl,-z,now'], '-fno-plt, fixed address': ['-fno-plt', '-fno-pic', '-no-pie'],
         '-fno-plt': ['-fno-plt']}  # fmt: skip
for kind, flags in KINDS.items():

    @case(f'pointers, exceptions, jumps, cancellation, children, threads: {kind}', timeout=120)
    def ways(t, flags=flags):
        app = cpp(t, 'app', *flags)
        for what, n, calls in (('plain', 9, 9), ('pointers', 7, 22), ('throws', 11, 12), ('jumps', 11, 12), ('cancels', 11, 12), ('forks', 7, 29),
                               ('threads', 64, 257), ('copies', 150, 151), ('execs', 9, 19), ('exits', 7, 29)):  # fmt: skip
            run = t.trace(*INSIDE, command=[app, what, str(n)])
            t.equal(f'{what}: what it says', run.err.strip(), '')
            t.equal(f'{what}: cudaMalloc', run.calls('cudaMalloc'), calls)
            all_inside(t, run)


@case('calls into whose midst signals come, which make calls themselves')
def signals(t):
    app, driver = cpp(t, 'app'), library(t, 'libdriver.so.1', '-DDRIVER', '-Wl,-Bsymbolic')
    for _ in range(3):
        run = t.trace(*INSIDE, command=[app, 'signals', '1', driver])
        made, in_handlers = map(int, re.search(r'signals (\d+) (\d+)', run.out).groups())
        f = run.function('cuMemAlloc_v2')
        # One that comes into another one is how that does its work: it is counted there.
        seen, lost = f['calls'] + f['inner_calls'], sum(layer.get('unmatched', 0) for layer in run.summary['lost'].values())
        t.true(f'{made} calls and {in_handlers} in handlers: {seen} seen, {lost} lost', 0 <= made + in_handlers - seen - lost <= (made + in_handlers) // 1000)


@case('a runtime that is linked statically: seen at the driver, by what cuGetProcAddress() answers; loaded and closed often')
def static_runtime(t):
    app = cpp(t, 'app')
    library(t, 'libdriver.so.1', '-DDRIVER', '-Wl,-Bsymbolic')
    runtime = library(t, 'libruntime.so', '-Wl,-rpath,$ORIGIN')
    run = t.trace(*INSIDE, command=[app, 'closes', '13', runtime])
    t.equal('what it says', run.err.strip(), '')
    t.equal('calls', {n: run.calls(n) for n in ('cuLaunchKernel', 'cuMemAlloc_v2', 'cuMemFree_v2')},
            {'cuLaunchKernel': 260, 'cuMemAlloc_v2': 260, 'cuMemFree_v2': 260})  # fmt: skip
    t.equal('bytes', run.function('cuMemAlloc_v2')['bytes'], 260 * 256)


@case('a runtime that a Python wheel brought along under a name of its own')
def wheel_runtime(t):
    name = 'libcudart.faf08d9a.so.13'
    subprocess.run(['gcc', '-shared', '-o', t.path(name), f'-Wl,-soname,{name}', '-Wl,--whole-archive', f'{harness.fake}/libcudart_fake_static.a',
                    '-Wl,--no-whole-archive', f'-L{harness.fake}', '-l:libcuda.so.1', f'-Wl,-rpath,{os.path.abspath(harness.fake)}', '-pthread'], check=True)  # fmt: skip
    with open(t.path('app.c'), 'w') as f:
        f.write('int cudaMalloc(void **, unsigned long); int cudaFree(void *);\n'
                'int main(void) { void *p; for (int i = 0; i < 17; i++) { cudaMalloc(&p, 256); cudaFree(p); } return 0; }\n')
    subprocess.run(['gcc', '-o', t.path('app'), t.path('app.c'), t.path(name), f'-Wl,-rpath,{t.tmp}'], check=True)
    run = t.trace(*INSIDE, command=[t.path('app')])
    t.equal('calls', [run.calls('cudaMalloc'), run.calls('cudaFree')], [17, 17])
    # By its own name, or, where the program was gone too soon, by that of its kind.
    t.true('it is seen from inside', any(n.startswith('libcudart') and said for n, (_, said) in doors(run).items()), doors(run))
    all_inside(t, run)


@case('processes that cannot be seen from inside are seen by probes, and none twice')
def both_doors(t):
    app = ' '.join(t.app('cudaMalloc=17', 'cudaLaunchKernel=31'))
    late = ' '.join([*t.app(name='fake_app_late'), '--dlopen', harness.fake, 'cudaMalloc=17', 'cudaLaunchKernel=31'])
    script = f'{app}; env -i {late}; (ulimit -f 1000; {app} >/dev/null); {app}'
    run = t.trace(*INSIDE, command=['bash', '-c', script])
    calls = [{f['name']: f['calls'] for f in p['functions']}.get('cudaLaunchKernel') for p in run.summary['processes'] if p['functions']]
    # Probes come when the process has loaded its libraries: the first calls of a short one may be gone.
    t.true(f'launches of the two inside: {calls}', calls.count(31) >= 2)
    t.true(f'none has more than it made: {calls}', len(calls) <= 4 and all(n is None or n <= 31 for n in calls))


@case('a process that is probed beside one that is seen from inside counts as many calls')
def probed_beside(t):
    """The second one holds before its calls until its probes are in place."""
    go, probed = t.path('go'), t.path('probed')
    app = ' '.join(t.app('cudaMalloc=17', 'cudaLaunchKernel=31'))
    held = ' '.join([*t.app(f'--go-file={go}', 'cudaMalloc=19', 'cudaLaunchKernel=37')])
    live = t.start_trace(*INSIDE, command=['bash', '-c', f'env -u GPUSCOPE_COMPANION -u LD_PRELOAD {held} & {app}; until [ -e {probed} ]; do sleep 0.05; done; touch {go}; {app}; wait'])
    live.wait_err(r'libcudart[^ ]*: [1-9][0-9]* probes', 60)
    open(probed, 'w').close()
    run = live.finish(60)
    got = sorted({f['name']: f['calls'] for f in p['functions']}['cudaLaunchKernel'] for p in run.summary['processes'] if p['functions'])
    t.equal('launches', got, [31, 31, 37])
    t.true('the library has probes', any(a['probes'] for a in run.summary['attached'] if 'libcudart' in a['path']), str(run.summary['attached']))


@case('a process that hangs and is killed: what it wrote, and the call that it was in')
def killed(t):
    app = cpp(t, 'app')
    live = t.start_trace(*INSIDE, command=[app, 'hang'])
    wait_until(lambda: 'hangs' in live.out_text(), what='the hang')
    pid = next(int(p) for p in os.listdir('/proc') if p.isdigit() and os.path.exists(f'/proc/{p}/exe')
               and os.path.realpath(f'/proc/{p}/exe') == os.path.realpath(app))  # fmt: skip
    os.kill(pid, signal.SIGKILL)
    run = live.finish()
    t.equal('cudaMalloc', run.calls('cudaMalloc'), 1)
    t.equal('open', [c['function'] for c in run.summary['open_calls']], ['cudaLaunchHostFunc'])


@case('gpuscope is killed: the program goes on as if alone, and nothing of it stays')
def without_reader(t):
    out, first = t.path('out'), t.path('first')
    live = t.start_trace(*INSIDE, command=['bash', '-c', f'{" ".join(t.app("cudaMalloc=3"))} >{first}; sleep 2; {" ".join(t.app("cudaMalloc=500000"))} >{out}; echo $? >>{out}'])
    wait_until(lambda: os.path.exists(first) and harness.read_text(first), what='the first process')
    live.proc.kill()
    wait_until(lambda: os.path.exists(out) and harness.read_text(out).endswith('\n0\n'), what='the command')
    t.equal('surprises', json.loads(harness.read_text(out).splitlines()[0])['surprises'], 0)


@case('set-user-ID programs, limits and folders that are not ours: nothing is loaded, or nothing written')
def refused(t):
    plain = subprocess.run(['/usr/bin/id', '-u', 'nobody'], capture_output=True, text=True)
    if plain.returncode:
        raise Skip('needs a user nobody')
    su = shutil.which('setpriv')
    if not su:
        raise Skip('needs setpriv')
    os.chmod(t.tmp, 0o755)
    app = cpp(t, 'app')
    other = [su, '--reuid', plain.stdout.strip(), '--clear-groups']
    for mode, before in ((0o755, other), (0o4755, other), (0o755, ['prlimit', '--fsize=65536']), (0o755, ['prlimit', '--as=8000000000'])):
        os.chmod(app, mode)
        run = t.trace(*INSIDE, command=[*before, app, 'plain', '9'])
        t.equal(f'{mode:o} {before}: what it says', run.err.strip(), '')
        t.true(f'{mode:o} {before}: no more calls than were made: {run.calls("cudaMalloc")}', (run.calls('cudaMalloc') or 0) <= 9)


@case('programs with sanitizers, Python with what it loads, shells: as they are alone', timeout=120)
def others(t):
    with open(t.path('asan.c'), 'w') as f:
        f.write('#include <stdlib.h>\nint main(void) { char *p = malloc(9); free(p); return 7; }\n')
    subprocess.run(['gcc', '-fsanitize=address', '-o', t.path('asan'), t.path('asan.c')], check=True)
    run = t.trace(*INSIDE, command=[t.path('asan')], status=7)
    t.equal('AddressSanitizer', run.err.strip(), '')
    code = 'import ctypes, sqlite3, ssl, subprocess, threading; print(subprocess.run(["ls", "/"], capture_output=True).returncode, ctypes.CDLL(None).getpid() > 0)'
    run = t.trace(*INSIDE, command=['/usr/bin/python3', '-c', code])
    t.equal('Python', (run.out.split(), run.err.strip()), (['0', 'True'], ''))
    run = t.trace(*INSIDE, command=['bash', '-c', 'ls / | sort | wc -l >/dev/null; (exit 5); x=$(echo $?); exit $((x + 1))'], status=6)
    t.equal('bash', run.err.strip(), '')


@case('seccomp: no system call on the way of a call, and what is refused at a first record harms nothing')
def seccomp(t):
    app, driver = cpp(t, 'app'), library(t, 'libdriver.so.1', '-DDRIVER', '-Wl,-Bsymbolic')
    run = t.trace(*INSIDE, command=[app, 'strict', '2000', driver])
    t.equal('strict: calls', run.calls('cuMemAlloc_v2'), 2001)
    t.equal('the counter forbidden: what it says', t.trace(*INSIDE, command=[app, 'counter', '900', driver]).err.strip(), '')
    run = t.trace(*INSIDE, command=[app, 'filtered', '9'])
    t.equal('filtered: what it says', run.err.strip(), '')
    # Those of the program itself, whose slot it had before; a thread and a child that can have none are not seen from inside.
    t.true(f'filtered: {run.calls("cudaMalloc")}', 19 <= run.calls('cudaMalloc') <= 29)


@case('libraries with thread-local memory in the static block find as much room as without')
def static_tls(t):
    app, n = cpp(t, 'app'), 80
    with open(t.path('tls.c'), 'w') as f:
        f.write('__thread char x[64] __attribute__((tls_model("initial-exec"))) = {1};\nchar *x_at(void) { return x; }\n')
    for i in range(n):
        subprocess.run(['gcc', '-shared', '-fPIC', '-o', t.path(f'tls{i}.so'), t.path('tls.c')], check=True)
    loaded = {}
    for what, run in (('alone', lambda c: subprocess.run(c, capture_output=True, text=True, check=True).stdout),
                      ('from inside', lambda c: t.trace('--inside', command=c).out)):  # fmt: skip
        loaded[what] = int(re.search(r'loaded (\d+)', run([app, 'tls', str(n), t.tmp])).group(1))
    t.true(f'some, not all: {loaded}', 0 < loaded['alone'] < n)
    t.true(f'as many: {loaded}', loaded['from inside'] >= loaded['alone'] - 1)


MUSL = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int (*alloc)(unsigned long long *, size_t);
static void *calls(void *n)
{
	unsigned long long ptr;
	for (long i = 0; i < *(long *)n; i++)
		if (alloc(&ptr, 16) || ptr != 0x10010)
			exit(3);
	return NULL;
}
int main(int argc, char **argv)
{
	void *driver = dlopen(argv[1], RTLD_NOW);
	long n = 17;
	pthread_t t;
	int status;
	if (!driver || !(alloc = (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2")))
		return 4;
	calls(&n);
	pthread_create(&t, NULL, calls, &n);
	pthread_join(t, NULL);
	if (fork() == 0)
		calls(&n), _exit(0);
	wait(&status);
	printf("musl %d\n", status);
	return 0;
}
"""


@case('programs of another libc (musl) run as alone')
def musl(t):
    if not shutil.which('musl-gcc'):
        raise Skip('needs musl-gcc')
    with open(t.path('musl.c'), 'w') as f:
        f.write(MUSL)
    subprocess.run(['musl-gcc', '-o', t.path('musl'), t.path('musl.c')], check=True)
    # Without a word of libc: as the driver of both.
    driver = library(t, 'libdriver.so.1', '-DDRIVER', '-Wl,-Bsymbolic', '-nostdlib')
    alone = subprocess.run([t.path('musl'), driver], capture_output=True, text=True, check=True)
    for words in ('--inside=calls', '--inside'):
        run = t.trace(words, command=[t.path('musl'), driver])
        t.equal(f'{words}: as alone', (run.out, run.err.strip()), (alone.stdout, alone.stderr.strip()))
        t.true(f'{words}: {run.calls("cuMemAlloc_v2")} calls', (run.calls('cuMemAlloc_v2') or 0) <= 51)


@case('options that do not go together, and a GPUSCOPE_COMPANION that is set')
def options(t):
    for more, words in ((['-p', '1'], 'needs a command'), (['--layer', 'torch', '--', 'true'], 'operators'), (['--layer', 'mpi', '--', 'true'], 'no function of CUDA'),
                        (['--min-duration', '1ms', '-o', t.path('x.csv'), '--', 'true'], '--min-duration'), (['--estimate', '--', 'true'], '--estimate'),
                        (['--stacks', 'native', '-o', t.path('x.csv'), '--', 'true'], 'stacks')):  # fmt: skip
        run = t.tool('trace', *INSIDE, *more, status=2)
        t.match(' '.join(more), words, run.err)
    t.tool('trace', '--inside=operators', '--', 'true', status=2)
    run = t.trace(*INSIDE, env={'GPUSCOPE_COMPANION': '/nonexistent'}, command=t.app('cudaMalloc=17'))
    t.match('says so', 'another gpuscope already traces this program from inside', run.err)
    t.equal('cudaMalloc', run.calls('cudaMalloc'), 17)


if __name__ == '__main__':
    main()
