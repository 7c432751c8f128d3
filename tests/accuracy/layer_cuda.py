"""Calls of CUDA and NCCL: the stand-ins' program counts what it does; and memory of the device."""

import csv
import json
import re

from table import layer

# Calls of each, in several threads; primes, so that no sum hides a mistake.
WORK = {
    'cudaLaunchKernel': 1009, 'cudaMalloc': 101, 'cudaFree': 97, 'cudaMemcpyAsync': 499, 'cudaStreamSynchronize': 211,
    'cudaEventQuery': 83, 'cuLaunchKernel': 307, 'cuMemAlloc_v2': 61, 'ncclAllReduce': 151, 'ncclSend': 37,
}  # fmt: skip
BYTES = ('cudaMalloc', 'cudaMemcpyAsync', 'cuMemAlloc_v2', 'ncclAllReduce', 'ncclSend')
SOURCE = 'the program itself'
MIB = 1 << 20


def words(n_bad=5):
    args = ['ncclCommInitRank=1'] + [f'{name}={n}' for name, n in WORK.items()]
    return ['--threads=3', *args, f'cudaMalloc:bad={n_bad}']


def rows(m, run, mode):
    wanted = m.wanted(run.lines)
    for name in WORK:
        calls, _, n_bytes, _ = wanted[name]
        row = run.function(name) or {}
        m.figure(f'{name}: calls{mode}', row.get('calls'), SOURCE, calls)
        if name in BYTES and not mode:
            m.figure(f'{name}: bytes', row.get('bytes'), SOURCE, n_bytes, unit='B')
    return wanted


@layer('CUDA and NCCL, added up in the kernel', quick=True)
def summed(m):
    run = m.trace(command=m.app(*words()))
    wanted = rows(m, run, '')
    m.figure('cudaMalloc: errors', run.function('cudaMalloc')['errors'], SOURCE, wanted['cudaMalloc'][1])
    m.figure('cuLaunchKernel: inside of the runtime', run.function('cuLaunchKernel')['inner_calls'], SOURCE,
             wanted['cuLaunchKernel'][3])  # fmt: skip
    m.figure('calls lost', sum(n for x in run.summary['lost'].values() for c, n in x.items() if c != 'first_calls'), 'none made', 0)


@layer('CUDA and NCCL, whole events')
def events(m):
    path = m.path('trace.json')
    run = m.trace('-o', path, '--ring-size', '64M', command=m.app(*words()))
    wanted = rows(m, run, ', whole')
    with open(path, encoding='utf-8') as f:
        found = json.load(f)['traceEvents']
    n = sum(1 for e in found if e.get('name') == 'cudaLaunchKernel' and e['ph'] in 'Xi')
    m.figure('cudaLaunchKernel: events in the file', n, SOURCE, wanted['cudaLaunchKernel'][0])


@layer('a ring that overflows')
def overflow(m):
    path = m.path('trace.csv')
    run = m.trace('--ring-size', '64K', '-o', path, command=m.app('--threads=2', 'cudaMalloc=50021', 'cudaLaunchKernel=50023'))
    wanted = m.wanted(run.lines)
    made = wanted['cudaMalloc'][0] + wanted['cudaLaunchKernel'][0]
    with open(path, newline='', encoding='utf-8') as f:
        got = sum(1 for _ in csv.reader(f)) - 1
    lost = run.summary['lost'].get('cuda-runtime', {}).get('ring_full', 0)
    m.figure('calls in the file and calls said to be lost', got + lost, SOURCE, made)
    m.figure('calls in the summary', run.calls('cudaMalloc') + run.calls('cudaLaunchKernel'), SOURCE, made)


@layer("the device's memory: blocks given and not freed")
def memory(m):
    path = m.path('trace.json')
    run = m.trace('-o', path, command=m.app('cudaMalloc=101', 'cudaFree=97'))
    with open(path, encoding='utf-8') as f:
        found = json.load(f)['traceEvents']
    of = {name: [e['args'] for e in found if e.get('name') == name and e['ph'] == 'X'] for name in ('cudaMalloc', 'cudaFree')}
    given = m.wanted(run.lines)['cudaMalloc'][2]
    freed = sum(a['bytes'] for a in of['cudaFree'])
    sizes = {a['pointer']: a['bytes'] for a in of['cudaMalloc']}
    m.figure('bytes of frees', freed, 'sizes of the same pointers', sum(sizes[a['pointer']] for a in of['cudaFree']), unit='B')
    counters = [e for e in found if e['ph'] == 'C' and re.search('memory|bytes', e['name'], re.I)]
    last = [v for v in counters[-1]['args'].values()][0] if counters else None
    m.figure('memory in use at the end', last, 'given - freed, by the program', given - freed, unit='B')


@layer("PyTorch's allocator")
def allocator(m):
    n = 100
    run = m.trace('--layer', 'cuda,torchmem', command=m.app(str(n), name='torch_blocks'))
    devices = {a['device']: a for a in run.summary['allocators']}
    for device in (0, 1):
        # tests/fake/torch_blocks.c: block i of 512 i bytes, on device i % 2; each fourth stays, and two steps of 1 MiB.
        blocks = [i * 512 for i in range(1, n + 1) if i % 2 == device]
        left = [i * 512 for i in range(1, n + 1) if i % 2 == device and i % 4 == 0]
        steps = 2 if device == 0 else 0
        wanted = {'allocations': len(blocks) + steps, 'frees': len(blocks) - len(left),
                  'allocated_bytes': sum(blocks) + steps * MIB, 'live_bytes': sum(left) + steps * MIB,
                  'peak_bytes': max(sum(blocks), sum(left) + steps * MIB)}  # fmt: skip
        for key, value in wanted.items():
            unit = 'B' if key.endswith('bytes') else ''
            m.figure(f'{key.replace("_", " ")} on device {device}', devices[device][key], SOURCE, value, unit=unit)


@layer('functions that a user describes')
def described(m):
    path = m.path('probes.yaml')
    with open(path, 'w', encoding='ascii') as f:
        f.write('probes:\n  - {function: recurse, lib: exe, return: false, aggregate: count}\n')
    run = m.trace('--layer', 'user', '--probes', path, command=m.app('200', name='probed'))
    m.figure('recurse(): calls', run.calls('recurse'), SOURCE, sum(i % 5 + 1 for i in range(200)))
