#!/usr/bin/env python3
"""All ways from inside at once (--inside) on one program: everything is counted once, the summary says how each layer was traced, and
what is not there is said in one line."""

import os
import re
import shutil
import subprocess

import harness
from harness import Skip, case, main, wait_until

WINDOW = ['--gpu-window', '60s/120s']
MADE = {'calls': 300, 'kernels': 200, 'collectives': 50}


def build(t):
    if not shutil.which('gcc'):
        raise Skip('needs gcc')
    fake = os.path.abspath(harness.fake)
    subprocess.run(['gcc', '-O1', '-o', t.path('app'), os.path.join(harness.HERE, 'inside_all_app.c'),
                    *[f'{fake}/{name}' for name in ('libcudart.so.13', 'libcuda.so.1', 'libnccl.so.2', 'libcupti.so.13')],
                    f'-Wl,-rpath,{fake}', '-pthread', '-ldl'], check=True)  # fmt: skip
    return [t.path('app'), *map(str, MADE.values())]


def below(pid):
    """All processes that it started."""
    try:
        own = [int(n) for task in os.listdir(f'/proc/{pid}/task') for n in harness.read_text(f'/proc/{pid}/task/{task}/children').split()]
    except OSError:  # it has ended
        return []
    return [p for child in own for p in (child, *below(child))]


def opens(pid, library):
    try:
        return library in harness.read_text(f'/proc/{pid}/maps')
    except OSError:  # it has ended
        return False


def counted(run):
    """What is known of the program's work, by each layer's figures."""
    summary = run.summary
    return {
        **{f: run.calls(f) for f in ('cudaMalloc', 'cudaFree', 'cuMemAlloc_v2', 'cuMemFree_v2', 'ncclAllReduce', 'ncclCommInitRank')},
        'kernels': sum(k['runs'] for k in (summary['gpu_time'] or {'kernels': []})['kernels']),
        'operations': (summary['nccl'] or {'collectives': 0})['collectives'],
    }


def expected(**other):
    n = MADE['calls']
    return {'cudaMalloc': n, 'cudaFree': n, 'cuMemAlloc_v2': n, 'cuMemFree_v2': n, 'ncclAllReduce': MADE['collectives'], 'ncclCommInitRank': 1,
            'kernels': MADE['kernels'], 'operations': MADE['collectives'], **other}  # fmt: skip


@case('--inside with no word, and with all of them: each call, kernel and collective once, and no probe', timeout=120)
def all_doors(t):
    app = build(t)
    for words in ('--inside', '--inside=calls,gpu,nccl'):
        run = t.trace(words, *WINDOW, command=app)
        t.equal(f'{words}: what the program did', run.out.strip(), 'calls 300 kernels 200 collectives 50 children 0 failed 0')
        t.equal(f'{words}: what is said', run.err.strip(), '')
        t.equal(f'{words}: counted', counted(run), expected())
        t.equal(f'{words}: probes of libraries of CUDA and NCCL', {os.path.basename(a['path']): a['remark'] for a in run.summary['attached']
                if a['probes'] and re.match('libcuda|libnccl', os.path.basename(a['path']))}, {})  # fmt: skip
        t.nothing_lost(run)


@case('each alone and by probes: the same figures, and only those')
def each(t):
    app = build(t)
    for words, more in (([], {'kernels': 0, 'operations': 0}), (['--inside=calls'], {'kernels': 0, 'operations': 0}),
                        (['--inside=gpu', *WINDOW], {'operations': 0}), (['--inside=nccl'], {'kernels': 0})):  # fmt: skip
        t.equal(' '.join(words), counted(t.trace(*words, command=app)), expected(**more))


@case('the summary names how each layer was traced')
def named(t):
    app = build(t)
    calls = 'CUDA runtime from inside; CUDA driver from inside; NCCL from inside'
    probes = 'CUDA runtime by probes; CUDA driver by probes; NCCL by probes'
    gpu, nccl = 'GPU work by CUPTI', 'NCCL operations by its profiler interface'
    for words, said in ((['--inside', *WINDOW], [calls, gpu, nccl]), (['--inside=calls'], [calls]), (['--inside=gpu', *WINDOW], [probes, gpu]),
                        (['--inside=nccl'], [probes, nccl]), (['--inside=calls,nccl'], [calls, nccl])):  # fmt: skip
        out = t.tool('trace', '-v', '--summary', '-', *words, '--', *app, status=0).out
        t.match(' '.join(words), '(?m)traced by +' + re.escape('; '.join(said)) + r'\s*$', out)
    t.equal('by probes alone', 'traced by' in t.tool('trace', '-v', '--summary', '-', '--', *app, status=0).out, False)


@case('a program without NCCL and CUPTI: no word of what it has not')
def plain(t):
    run = t.trace('--inside', command=t.app('cudaMalloc=17'))
    t.equal('what is said', run.err.strip(), '')
    t.equal('cudaMalloc', run.calls('cudaMalloc'), 17)
    t.match('asked for by name', 'no process reported a communicator', t.trace('--inside=calls,nccl', command=t.app('cudaMalloc=17')).err)


@case('gpuscope is killed, or its folder goes, in the midst of it: the program goes on as if alone', timeout=120)
def vanished(t):
    app = ' '.join([build(t)[0], '20', '10', '5', '6'])
    for how in ('killed', 'folder'):
        out = t.path(how)
        live = t.start_trace('--inside', '--gpu-window', '200ms/500ms', command=['bash', '-c', f'{app} >{out}; echo $? >>{out}'])
        wait_until(lambda: any(opens(p, 'libgpuscope_companion_nccl') for p in below(live.pid)), what='the plug-in')
        pid = below(live.pid)[0]
        if how == 'killed':
            live.proc.kill()
        else:
            shutil.rmtree(re.search(r'GPUSCOPE_COMPANION=([^\0]+)', harness.read_text(f'/proc/{pid}/environ')).group(1))
        wait_until(lambda: os.path.exists(out) and harness.read_text(out).endswith('\n0\n'), what='the command')
        t.match(f'{how}: what it did', r'calls [1-9]\d* kernels [1-9]\d* collectives [1-9]\d* children \d+ failed 0', harness.read_text(out))
        if how == 'folder':
            t.equal('status of gpuscope', live.finish().status, 0)


@case('a gpuscope without its libraries says what to do, and traces by probes')
def alone(t):
    bare = t.path('gpuscope')
    shutil.copy(harness.gpuscope, bare)
    for what in ('calls', 'ops', 'gpu', 'nccl'):
        done = subprocess.run([bare, 'trace', f'--inside={what}', '--summary', t.path('s'), '--', *t.app('cudaMalloc=17')],
                              capture_output=True, text=True, env=t.envs(), timeout=60, check=False)  # fmt: skip
        t.equal(f'{what}: status', done.returncode, 0)
        t.match(what, r'libgpuscope_companion\w*\.so was not found next to gpuscope \(run make .*, or make install; packages .*\)', done.stderr)
        t.match(f'{what}: by probes', 'cudaMalloc +17 ', harness.read_text(t.path('s')))


main()
