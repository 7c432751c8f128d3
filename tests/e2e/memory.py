#!/usr/bin/env python3
"""Who holds memory of GPUs, against a program that allocates a known number of bytes of every kind."""

import json
import os
import shutil
import subprocess
import sys
import time

import harness
from harness import Skip, case, main, wait_until
from top_help import nvml
from tracefs_help import return_probe

MIB = 1 << 20
KIB = 1 << 10
# Kind and device, then bytes held, blocks held, allocations and frees of the program.
HOLDS = {
    ('device', 0): (9 * MIB, 3, 3 + 4 * 8, 4 * 8),
    ('device', 1): (40 * KIB, 4, 5, 1),
    ('pitched', 0): (1024 * 10 + 1024 * 30, 2, 2, 0),
    ('array', 0): (4 * 100 * 10, 1, 1, 0),
    ('managed', 0): (7 * KIB, 1, 1, 0),
    ('pool', 0): (200 * KIB, 2, 6, 4),
    ('virtual', 0): (6 * MIB, 3, 4, 1),
    ('pinned', None): (9 * KIB, 1, 2, 1),
    ('registered', None): (64 * KIB, 1, 1, 0),
}
PEAKS = {('device', 0): 9 * MIB + 8 * 512, ('device', 1): 50 * KIB, ('pool', 0): 600 * KIB, ('virtual', 0): 8 * MIB, ('pinned', None): 14 * KIB}
# Allocated in, then the call, bytes held, blocks held, allocations.
SITES = {
    ('make_weights', 'cudaMalloc'): (9 * MIB, 3, 3),
    ('make_activations', 'cudaMalloc'): (0, 0, 32),
    ('use_pool', 'cudaMallocAsync'): (200 * KIB, 2, 6),
    ('map_memory', 'cuMemCreate'): (6 * MIB, 3, 4),
    ('use_second_device', 'cudaMalloc'): (40 * KIB, 4, 5),
}


def program():
    return os.path.join(harness.fake, 'holders')


def rows_of(summary):
    return {(r['kind'], r['device']): r for r in summary['memory']}


def check_rows(t, summary):
    rows = rows_of(summary)
    for key, wanted in HOLDS.items():
        r = rows.get(key)
        t.equal(f'{key}', r and (r['live_bytes'], r['live_blocks'], r['allocations'], r['frees']), wanted)
    for key, peak in PEAKS.items():
        t.equal(f'peak of {key}', rows[key]['peak_bytes'], peak)
    on_gpu = sum(h[0] for key, h in HOLDS.items() if key[1] is not None)
    t.equal('all devices', rows['all device memory', None]['live_bytes'], on_gpu)
    t.equal('device 1', rows['all device memory', 1]['live_bytes'], HOLDS['device', 1][0])
    t.equal('the host', rows['all pinned host memory', None]['live_bytes'], 73 * KIB)
    t.equal('mapped', rows['virtual', 0]['mapped_bytes'], 6 * MIB)
    whole = rows['all device memory', None]
    t.equal('strays', (whole['double_frees'], whole['bad_frees'], whole['unknown_frees'], whole['unseen_frees'], whole['untracked']), (1, 1, 0, 0, 0))
    t.equal('kinds', {r['kind'] for r in summary['memory'] if not r['is_sum']}, {k for k, _ in HOLDS})
    t.equal('whose figures', {r['source'] for r in summary['memory']}, {'host'})


def check_sites(t, summary):
    t.equal(f'call sites that are not known (lost: {summary["lost"]})', [s for s in summary['memory_sites'] if s['place'] == 'unknown'], [])
    sites = {(s['place'].split(' (')[0], s['function']): s for s in summary['memory_sites']}
    for key, wanted in SITES.items():
        s = sites.get(key)
        t.equal(f'{key}', s and (s['live_bytes'], s['live_blocks'], s['allocations']), wanted)
    t.equal('held by all sites', sum(s['live_bytes'] for s in summary['memory_sites']),
            sum(h[0] for h in HOLDS.values()))


@case('bytes held by kind, device and call site, with peaks and frees of what was not there')
def by_kind(t):
    run = t.trace('--memory', '-o', 'run.gst', command=[program()])
    check_rows(t, run.summary)
    check_sites(t, run.summary)
    t.equal('ended', {r['ended'] for r in run.summary['memory']}, {True})
    again = json.loads(t.tool('report', 'run.gst', '--format', 'json', status=0).out)
    for key in ('memory', 'memory_sites'):
        t.equal(f'{key} of the recording', again[key], run.summary[key])


@case('the tables of memory')
def tables(t):
    live = t.tool('trace', '--memory', '-o', 'run.gst', '--width', '120', '--', program(), status=0)
    text = t.tool('report', 'run.gst', '--memory', '--width', '120', status=0).out
    for what in (live.err, text):
        rows = [line.split() for line in what.splitlines()]
        t.equal('device memory of device 0', [r[:8] for r in rows if r[:2] == ['device', '0']],
                [['device', '0', '9.00', 'MiB', '3', '9.00', 'MiB', '35']])
        t.true('a call site', any(r[:2] == ['9.00', 'MiB'] and 'make_weights' in r and 'cudaMalloc' in r for r in rows), what)
        t.true('what was freed twice', 'Double frees: the block had been freed: 1' in what, what)
        t.true('whose view it is', "The host's view" in what, what)
    t.equal('as --by memory', t.tool('report', 'run.gst', '--by', 'memory', '--width', '120', status=0).out, text)
    none = t.tool('report', 'none.gst', '--memory').out if record_nothing(t) else ''
    t.true('without allocations', 'No call allocated or freed' in none, none)


def record_nothing(t):
    return t.trace('-o', 'none.gst', command=['true']).status == 0


@case('counter tracks of memory in trace files')
def tracks(t):
    t.trace('-o', 'run.json', '-o', 'run.gst', '-o', 'run.pftrace', command=[program()])
    with open(t.path('run.json'), encoding='utf-8') as f:
        events = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'C']
    last = {}
    for e in events:
        last[e['name']] = list(e['args'].values())[0]
    for (kind, device), (held, *_) in HOLDS.items():
        if device is not None:
            t.equal(f'track of {kind}, device {device}', last.get(f'CUDA memory of device {device}, {kind}'), held)
    t.equal('track of the process', last.get('CUDA device memory allocated'), sum(h[0] for key, h in HOLDS.items() if key[1] is not None))
    t.equal('track of the host', last.get('CUDA pinned host memory'), 73 * KIB)
    with open(t.path('run.pftrace'), 'rb') as f:
        t.true('in .pftrace', b'CUDA memory of device 1, device' in f.read())
    t.tool('report', 'run.gst', '-o', 'again.json', status=0)
    with open(t.path('again.json'), encoding='utf-8') as f:
        again = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'C' and e['name'].startswith('CUDA')]
    t.equal('of the recording', len(again), len([e for e in events if e['name'].startswith('CUDA')]))


@case('a running process: what it allocated before is not known, what it frees of that is counted')
def late(t):
    app = t.start_app('cudaMalloc=5', 'cudaFree=2')
    live = t.start_trace('-p', str(app.pid), '--memory')
    live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
    app.let_go()
    app.result()
    run = live.finish()
    whole = rows_of(run.summary)['all device memory', None]
    t.equal('three are left', (whole['live_blocks'], whole['allocations'], whole['frees']), (3, 5, 2))
    with harness.Beside([program(), 'wait'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=t.envs()) as holder:
        holder.stdin.write('\n')
        holder.stdin.flush()
        holder.stdout.readline()
        live = t.start_trace('-p', str(holder.pid), '--memory')
        live.wait_err(r'libcudart[^ ]*: [0-9]+ probes')
        holder.stdin.write('\n')
        holder.stdin.close()
        holder.wait()
    run = live.finish()
    t.equal('nothing more', run.summary['memory'], [])


@case('what the driver measures stands beside it, also what was there before the trace', timeout=120)
def measured(t):
    with harness.Beside([program(), 'wait'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=t.envs()) as holder:
        conf = t.path('nvml.conf')

        def pretend(held):
            with open(conf + '.new', 'w', encoding='utf-8') as f:
                f.write(f'gpus=2,pids={holder.pid},held={held}')
            os.rename(conf + '.new', conf)

        def of_recording(key):
            out = t.tool('report', 'run.gst', '--format', 'json').out
            return json.loads(out)[key] if out else []

        def is_read(held):
            rows = [r for r in of_recording('memory_measured') if r['pid'] == holder.pid]
            return any(r['samples'] >= 3 and r['last_bytes'] == held << 20 for r in rows)

        pretend(3000)
        live = t.start_trace('-p', str(holder.pid), '--memory', '--nvml', nvml(), '-o', 'run.gst', env={'FAKE_NVML_FILE': conf})
        live.wait_err(r'libcudart\S*: \d+ probes')
        # A GPU is recorded when a traced process is read of it; memory_measured has processes from their first call on.
        wait_until(lambda: any(g['samples'] for g in of_recording('gpus')), 60, 'a reading from before')
        holder.stdin.write('\n')
        holder.stdin.flush()
        holder.stdout.readline()
        since = time.monotonic_ns()
        pretend(5000)
        wait_until(lambda: is_read(5000), 60, 'readings from after')
        holder.stdin.write('\n')
        holder.stdin.close()
        holder.wait()
    run = live.finish()
    after_ns = time.monotonic_ns() - since  # the last reading is one of these
    held = sum(h[0] for key, h in HOLDS.items() if key[1] == 0)
    rows = [r for r in run.summary['memory_measured'] if r['pid'] == holder.pid]
    t.equal('one GPU', [(r['traced_late'], r['source']) for r in rows], [(True, 'device')])
    t.equal('first and last', [(r['first_bytes'], r['last_bytes'], r['peak_bytes']) for r in rows], [(3000 << 20, 5000 << 20, 5000 << 20)])
    t.true('readings', all(r['samples'] >= 3 and r['unread_ns'] < after_ns for r in rows), (rows, after_ns))
    t.true('the host view beside it', all(r['live_bytes'] in (held, 0) for r in rows), f'{rows} {held}')
    text = t.tool('report', 'run.gst', '--memory', '--width', '140', status=0).out
    t.match('the table', rf'{holder.pid} holders, traced late .* 2\.93 GiB .* 4\.88 GiB', text)
    t.true('says whose figures', 'Measured by the driver, in samples' in text, text)


PYTHON = '''
import ctypes
rt = ctypes.CDLL("libcudart.so.13")
kept = []
def take(n):
    p = ctypes.c_void_p()
    assert rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(n)) == 0
    kept.append(p)
for i in range(3):
    take(1000)
'''


@case('the line of Python that asked for memory')
def python_line(t):
    with open(t.path('holder.py'), 'w', encoding='utf-8') as f:
        f.write(PYTHON)
    run = t.trace('--memory', command=[sys.executable, t.path('holder.py')], env={'LD_LIBRARY_PATH': harness.fake})
    places = {s['place']: s['live_bytes'] for s in run.summary['memory_sites']}
    t.equal('place', places, {f'{t.path("holder.py")}:7 take': 3000})


# Starts the program again and again. The tracer is stopped until it is ending: then the thread that hears of mappings goes on, the
# others when nothing of the program can be read any more. Events that are to be taken off its thread first make that moment
# longer: the kernel side has forgotten the process, its memory is still there. All of them come before others of the machine, whose
# mappings would else fill the rings of notices meanwhile. What takes too long ends with the line where it was, and no process is left.
ENDING = '''
import ctypes, os, resource, signal, struct, sys
DETACH, SEIZE, INTERRUPT, WALL, PF_EXITING, PDEATHSIG = 17, 0x4206, 0x4207, 0x40000000, 4, 1
libc, tracer = ctypes.CDLL(None), os.getppid()
most = min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
attr = ctypes.create_string_buffer(struct.pack("<IIQQQQQ", 1, 112, 9, 0, 0, 0, 1), 112)  # a software event that counts nothing
def too_long(*_):
    states = {tid: open(f"/proc/{tracer}/task/{tid}/stat").read().split()[2] for tid in os.listdir(f"/proc/{tracer}/task")}
    raise TimeoutError(f"program {i}: the threads of the tracer are {states}")
def start():
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            libc.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.close(go[1])
            while libc.syscall(298, attr, 0, -1, -1, 0) >= 0:  # as many as it may
                pass
            os.closerange(500, 600)
            os.write(ready[1], b"x")
            if os.read(go[0], 1):
                os.execv(sys.argv[2], sys.argv[2:])
        finally:
            os._exit(1)
    os.close(ready[1])
    os.close(go[0])
    assert os.read(ready[0], 1), "a program ended before it was let go"
    os.close(ready[0])
    return pid, go[1]
signal.signal(signal.SIGALRM, too_long)
signal.alarm(240)
os.nice(-20)
for i in range(int(sys.argv[1])):
    pid, go = start()
    # A thread that ends just now cannot be taken any more.
    threads = [int(x) for x in os.listdir(f"/proc/{tracer}/task") if libc.ptrace(SEIZE, int(x), 0, 0) == 0]
    assert tracer in threads, "the tracer cannot be stopped"
    for tid in threads:
        libc.ptrace(INTERRUPT, tid, 0, 0)
        if os.WIFSTOPPED(os.waitpid(tid, WALL)[1]):
            os.setpriority(os.PRIO_PROCESS, tid, -20)
    os.write(go, b"x")
    os.close(go)
    with open(f"/proc/{pid}/stat") as f:
        while not int(f.read().rpartition(")")[2].split()[6]) & PF_EXITING:
            f.seek(0)
    libc.ptrace(DETACH, tracer, 0, 0)
    while os.path.exists(f"/proc/{pid}/exe"):
        pass
    for tid in threads:
        libc.ptrace(DETACH, tid, 0, 0)
    assert os.waitpid(pid, 0)[1] == 0, "a program failed"
'''


@case('call sites of programs that end before anything was read of them')
def ending(t):
    with open(t.path('ending.py'), 'w', encoding='utf-8') as f:
        f.write(ENDING)
    for _ in range(5):
        run = t.trace('--memory', command=['/usr/bin/python3', t.path('ending.py'), '10', *t.app('cudaMalloc=5')])
        if run.status:
            return
        sites = run.summary['memory_sites']
        unknown = [s for s in sites if '(fake_app)' not in s['place']]
        # Where the kernel dropped notices, because others map very many files, what a program has mapped cannot be known.
        if not unknown or not run.lost('map_notices'):
            break
    else:
        raise Skip(f'others map so much that notices are dropped ({run.lost("map_notices")})')
    t.equal('call sites that are not known', unknown, [])
    t.equal('allocations', sum(s['allocations'] for s in sites), 10 * 5)
    t.equal('stacks that are lost', run.lost('stacks'), 0)


# Loads libraries until the tracer is behind with them, then one more, which asks for memory at once, and ends.
LOADER = '''
#include <dlfcn.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	void (*ask)(void) = 0;

	for (int i = 1; i < argc; i++) {
		if (i == argc - 1)
			usleep(5000);
		void *library = dlopen(argv[i], RTLD_NOW);
		ask = library ? (void (*)(void))dlsym(library, "ask") : 0;
	}
	if (!ask)
		return 1;
	ask();
	_exit(0);
}
'''
ASKING = '''
int cudaMalloc(void **p, unsigned long bytes);
void ask(void);
void ask(void)
{
	void *p;

	if (cudaMalloc(&p, 1000))
		__builtin_trap();
	__asm__ volatile("");
}
'''


@case('a call site in a library that is mapped while others wait for their turn')
def waiting(t):
    if not shutil.which('gcc'):
        raise Skip('no gcc')
    for name, text, args in (('loader', LOADER, ['-ldl']), ('asking.so', ASKING, ['-shared', '-fPIC', f'{harness.fake}/libcudart.so.13'])):
        subprocess.run(['gcc', '-O1', '-x', 'c', '-', '-o', t.path(name), '-x', 'none', *args], input=text, text=True, check=True)
    libraries = [shutil.copy(t.path('asking.so'), t.path(f'asking{i}.so')) for i in range(200)]
    run = t.trace('--memory', command=[t.path('loader'), *libraries], env={'LD_LIBRARY_PATH': harness.fake})
    t.equal('place', [s['place'] for s in run.summary['memory_sites']], ['ask (asking199.so)'])


@case('call sites where another tool has a return probe on the function that allocates')
def probed_by_another(t):
    with return_probe(t, 'cudaMalloc') as env:
        run = t.trace('--memory', command=[program()], env=env)
    check_sites(t, run.summary)
    t.equal('stacks that are lost', run.lost('stacks'), 0)


@case('memory of calls that were added up is not known')
def added_up(t):
    run = t.trace(command=[program()])
    t.equal('none', (run.summary['memory'], run.summary['memory_sites']), ([], []))
    t.tool('trace', '--summary-only', '--memory', '--', program(), status=2)


if __name__ == '__main__':
    main()
