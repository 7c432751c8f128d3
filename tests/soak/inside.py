#!/usr/bin/env python3
"""A soak of all ways from inside at once (`trace --inside`): one program with two threads makes calls, starts children, GPU work and
collectives for so long, others come and go beside it, and all processors are busy. At the end everything was counted once, nobody
was harmed, no memory has grown, and nothing is left in /dev/shm. As root, on stand-ins for CUDA, CUPTI and NCCL: no GPU is needed.

usage: tests/soak/inside.py BUILD [MINUTES]    (30; BUILD as of `make tests`, or build-asan)
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS, KERNELS, COLLECTIVES = 200, 50, 10
GROWTH_KB = 48 << 10  # of gpuscope or the program, from the first tenth of the time on: more is a leak
trouble = []


def check(what, good, detail=''):
    print(f'{"ok  " if good else "FAIL"} {what}{": " if detail else ""}{detail}', flush=True)
    if not good:
        trouble.append(what)


def build_app(fake, path):
    libraries = [f'{fake}/{name}' for name in ('libcudart.so.13', 'libcuda.so.1', 'libnccl.so.2', 'libcupti.so.13')]
    subprocess.run(['gcc', '-O1', '-o', path, os.path.join(HERE, '../e2e/inside_all_app.c'), *libraries, f'-Wl,-rpath,{fake}',
                    '-pthread', '-ldl'], check=True)  # fmt: skip


def read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return f.read()
    except OSError:  # its process has ended
        return ''


def resident_kb(pid):
    found = re.search(r'VmRSS:\s+(\d+)', read(f'/proc/{pid}/status'))
    return int(found.group(1)) if found else 0


def children_of(pid):
    return [int(n) for task in (os.listdir(f'/proc/{pid}/task') if os.path.isdir(f'/proc/{pid}/task') else [])
            for n in read(f'/proc/{pid}/task/{task}/children').split()]  # fmt: skip


def biggest(pid, name):
    """The resident memory of the largest process of that name below this one, or of itself."""
    pids, most = [pid], 0
    for p in pids:
        pids += children_of(p)
        if read(f'/proc/{p}/comm').strip() == name[:15]:
            most = max(most, resident_kb(p))
    return most


def soak(gpuscope, fake, folder, seconds):
    app, out, summary = os.path.join(folder, 'soaked'), os.path.join(folder, 'out'), os.path.join(folder, 'summary.json')
    build_app(fake, app)
    # Beside the long one short ones begin and end all the time.
    short = f'while [ ! -e {folder}/over ]; do {app} 50 20 5 >>{folder}/short || echo harmed >>{folder}/short; sleep 0.2; done'
    script = f'({short}) & {app} {CALLS} {KERNELS} {COLLECTIVES} {seconds} >{out}; echo status $? >>{out}; touch {folder}/over; wait'
    before = set(os.listdir('/dev/shm'))
    spinners = [subprocess.Popen(['nice', 'sh', '-c', 'while :; do :; done']) for _ in range(os.cpu_count())]
    live = subprocess.Popen([gpuscope, 'trace', '--inside', '--gpu-window', '1s/5s', '--format', 'json', '--summary', summary, '--',
                             'bash', '-c', script], stderr=subprocess.PIPE, text=True)  # fmt: skip
    sizes, end = [], time.monotonic() + seconds * 3 + 60
    try:
        while live.poll() is None and time.monotonic() < end:
            time.sleep(max(1, seconds / 60))
            sizes.append((biggest(live.pid, 'gpuscope'), biggest(live.pid, 'soaked')))
    finally:
        for p in spinners:
            p.kill()
            p.wait()
        if live.poll() is None:
            live.kill()
    said = live.communicate()[1].strip()
    check('gpuscope ends by itself', live.returncode == 0, f'status {live.returncode}')
    check('nothing is complained of', not said, said[-500:])
    check_growth([s for s in sizes if all(s)])
    left = {n for n in os.listdir('/dev/shm') if n.startswith('gpuscope-')} - before
    check('nothing is left in /dev/shm', not left, ' '.join(left))
    check_counts(read(out), read(os.path.join(folder, 'short')), summary)


def check_growth(sizes):
    settled = sizes[len(sizes) // 10 + 1:]
    check('memory was looked at', len(settled) > 3, f'{len(settled)} times')
    for i, what in enumerate(('gpuscope', 'the program')):
        grown = settled[-1][i] - settled[0][i] if settled else 0
        check(f'memory of {what}', grown < GROWTH_KB, f'{settled[0][i] if settled else 0} KB, then {grown:+d} KB')


def check_counts(out, short, summary):
    found = re.search(r'calls (\d+) kernels (\d+) collectives (\d+) children (\d+) failed (\d+)\nstatus (\d+)', out)
    check('the program ends well', bool(found) and found.group(5, 6) == ('0', '0'), out.strip()[-200:])
    n_short = short.count('failed 0\n')
    check('short ones end well', n_short > 0 and 'harmed' not in short, f'{n_short} of them')
    if not found or not os.path.exists(summary):
        check('a summary', False)
        return
    calls, kernels, collectives, children = map(int, found.group(1, 2, 3, 4))
    with open(summary, encoding='utf-8') as f:
        s = json.load(f)
    counted = {f['name']: f['calls'] for f in s['functions']}
    made = calls + children + 50 * n_short
    for name in ('cudaMalloc', 'cudaFree', 'cuMemAlloc_v2', 'cuMemFree_v2'):
        check(f'{name}: each call once', counted.get(name) == made, f'{counted.get(name)} of {made}')
    reduced = collectives + 5 * n_short
    check('ncclAllReduce: each call once', counted.get('ncclAllReduce') == reduced, f'{counted.get("ncclAllReduce")} of {reduced}')
    lost = {c: n for layer in s['lost'].values() for c, n in layer.items() if n}
    print(f'     lost: {lost or "nothing"}')
    n = s['nccl'] or {}
    said = n.get('collectives', 0) + n.get('lost', 0)
    check('NCCL: operations that it reported', said == reduced, f'{n.get("collectives")} and {n.get("lost")} lost of {reduced}')
    runs = sum(k['runs'] for k in (s['gpu_time'] or {'kernels': []})['kernels'])
    made = kernels + 20 * n_short
    check('GPU work: some of it, in windows', 0 < runs <= made, f'{runs} of {made} kernels')


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build, minutes = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 30
    with tempfile.TemporaryDirectory(prefix='gpuscope-soak-') as folder:
        soak(os.path.join(build, 'src/gpuscope'), os.path.join(build, 'tests/fake'), folder, int(60 * minutes))
    print(f'{len(trouble)} failed' if trouble else 'all is well')
    sys.exit(bool(trouble))


main()
