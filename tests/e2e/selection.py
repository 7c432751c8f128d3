#!/usr/bin/env python3
"""What the options choose: layers, functions, lengths, sizes, times, formats."""

import csv
import io
import json
import os
import subprocess
import time

import yaml

import harness
from harness import case, main

WORK = ['cudaMalloc=31', 'cudaLaunchKernel=101', 'cudaMemcpy=37', 'cuMemAlloc_v2=41', 'cuLaunchKernel=43',
        'ncclCommInitRank=2', 'ncclAllReduce=47', 'ncclSend=53']  # fmt: skip


def names(run):
    return {f['name'] for f in run.summary['functions'] if f['calls']}


RUNTIME = {'cudaMalloc', 'cudaLaunchKernel', 'cudaMemcpy'}
DRIVER = {'cuMemAlloc_v2', 'cuLaunchKernel'}
NCCL = {'ncclCommInitRank', 'ncclAllReduce', 'ncclSend'}

for word, wanted in (('cuda', RUNTIME | DRIVER), ('cuda-runtime', RUNTIME), ('cuda-driver', DRIVER), ('nccl', NCCL),
                     ('cuda-runtime,nccl', RUNTIME | NCCL)):  # fmt: skip

    @case(f'--layer {word}')
    def layers(t, word=word, wanted=wanted):
        run = t.trace('--layer', word, command=t.app(*WORK))
        t.equal('functions', names(run), wanted)
        made = t.wanted(run.lines)
        for name in sorted(wanted - {'cuLaunchKernel'}):
            t.equal(name, run.calls(name), made[name][0])


for word, wanted in (('cudaMemcpy*', {'cudaMemcpy'}), ('*Malloc,nccl*', {'cudaMalloc'} | NCCL),
                     ('cudaMalloc', {'cudaMalloc'}), ('cu*LaunchKernel', {'cudaLaunchKernel', 'cuLaunchKernel'})):  # fmt: skip

    @case(f'--func {word}')
    def functions(t, word=word, wanted=wanted):
        run = t.trace('--func', word, command=t.app(*WORK))
        t.equal('functions', names(run), wanted)
        t.counts(run, known=wanted)


@case('--func that nothing matches is wrong usage', needs='bpf')
def no_function(t):
    run = t.tool('trace', '--func', 'cudaNoSuch*', '--', 'true', status=2)
    t.equal('lines', len(run.err.strip().splitlines()), 1)


@case('--min-duration: the trace has the long calls, the summary all')
def min_duration(t):
    run = t.trace('--min-duration', '2ms', '-o', 't.json', '-o', 't.csv', env={'FAKE_CUDA_SYNC_US': '5000'},
                  command=t.app('cudaMalloc=101', 'cudaDeviceSynchronize=7', 'cudaStreamSynchronize=5'))  # fmt: skip
    t.counts(run)
    with open('t.csv', newline='') as f:
        rows = list(csv.DictReader(f))
    got = [r['function'] for r in rows]
    t.equal('synchronisations in the trace', (got.count('cudaDeviceSynchronize'), got.count('cudaStreamSynchronize')), (7, 5))
    t.true('all long', all(int(r['dur_ns']) >= 2000000 for r in rows))
    t.equal('short ones told', run.lost('short'), 113 - len(rows))
    t.true('their length', run.function('cudaDeviceSynchronize')['mean_ns'] >= 5000000)


@case('--duration ends the tracing, not the command; its exit status is ours', timeout=40)
def duration(t):
    begin = time.monotonic_ns()
    live = t.start_trace('--duration', '700ms', command=['sh', '-c', 'while ! [ -e go ]; do sleep 0.05; done; exit 9'])
    live.wait_err('waiting for the command')
    passed_ns = time.monotonic_ns() - begin
    with open('go', 'w'):
        pass
    run = live.finish()
    t.equal('status', run.status, 9)
    t.match('reason', 'duration', run.summary['end_reason'])
    t.true('length', 0.6e9 < run.summary['duration_ns'] <= passed_ns, (run.summary['duration_ns'], passed_ns))
    t.equal('no status yet', run.summary['exit_status'], None)


def count_calls(trace):
    """Those of a .json; slices of streams are none."""
    return sum((e['ph'] == 'X' or 'time' in e.get('args', {})) and e.get('cat') != 'gpu-stream' for e in trace['traceEvents'])


def pftrace_packets(path):
    """Counts whole packets; an error when the last is cut."""
    with open(path, 'rb') as f:
        data = f.read()
    at = n = 0
    while at < len(data):
        if data[at] != 0x0A:
            raise AssertionError(f'{path}: no packet at byte {at}')
        at, size, shift = at + 1, 0, 0
        while True:
            size |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        at += size
        n += 1
    if at != len(data):
        raise AssertionError(f'{path}: cut at its end')
    return n


for suffix in ('json', 'csv', 'pftrace', 'gst'):

    @case(f'--max-size of .{suffix}: the file stays whole, the summary complete')
    def max_size(t, suffix=suffix):
        path = f't.{suffix}'
        run = t.trace('--max-size', '64K', '-o', path, command=t.app('cudaMalloc=30011', 'cudaLaunchKernel=30013'))
        t.counts(run)
        t.true('size', os.path.getsize(path) <= 65536, str(os.path.getsize(path)))
        t.match('said', 'full', run.err)
        if suffix == 'json':
            with open(path) as f:
                n = count_calls(json.load(f))
        elif suffix == 'csv':
            with open(path, newline='') as f:
                rows = list(csv.reader(f))
            t.equal('columns', {len(r) for r in rows}, {len(rows[0])})
            n = len(rows) - 1
        elif suffix == 'pftrace':
            n = pftrace_packets(path)
        else:
            told = t.tool('report', '--format', 'json', path, status=0)
            summary = json.loads(told.out)
            n = sum(f['calls'] for f in summary['functions'])
            left_out = summary['lost']['all'].get('file_full', 0)
            t.true('what the file lacks is told where it is read', left_out >= 60024 - n, summary['lost'])
        t.true('a part of the calls', 100 < n < 60024, str(n))


@case('a ring that overflows: what the trace lost is told, the summary is exact', timeout=90)
def overflow(t):
    run = t.trace('--ring-size', '64K', '-o', 't.csv', command=t.app('--threads=2', 'cudaMalloc=100003', 'cudaLaunchKernel=100019'))
    t.counts(run)
    with open('t.csv', newline='') as f:
        got = sum(1 for _ in csv.reader(f)) - 1
    # Notices of threads may be among what found no room: they are no calls.
    t.equal('calls of no layer', run.summary['lost'].get('all', {}).get('ring_full', 0), 0)
    lost = run.summary['lost'].get('cuda-runtime', {}).get('ring_full', 0)
    t.true('something was lost', lost > 0)
    t.equal('in the trace and lost', got + lost, 2 * (100003 + 100019))
    t.equal('by layer', set(run.summary['lost']) - {'all'}, {'cuda-runtime'})


def peak_of(live):
    """The most memory in KiB that it had until it ended."""
    peak = 0
    while live.proc.poll() is None:
        try:
            # The ring is mapped twice, end to end: the share of each page counts it once.
            for line in harness.read_text(f'/proc/{live.pid}/smaps_rollup').splitlines():
                if line.startswith('Pss:'):
                    peak = max(peak, int(line.split()[1]))
        except OSError:
            pass
        try:
            live.proc.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            pass
    return peak


def check_memory(t, peak, most_mib):
    t.note(f'{peak} KiB')
    t.true('measured', peak > 1000)
    # The sanitizer's own memory is not ours.
    t.true(f'at most {most_mib} MiB', harness.is_asan() or peak <= most_mib << 10, f'{peak} KiB')


@case('a million calls: memory of gpuscope stays small', timeout=120)
def memory(t):
    spin = t.app('--lib', os.path.join(harness.fake, 'libcudart.so.13'), '--func', 'cudaLaunchKernel', '--calls', '100000', '--chunks', '10', name='spin')
    live = t.start_trace('-o', 't.pftrace', command=spin)
    peak = peak_of(live)
    run = live.finish()
    calls = next(f['calls'] for f in run.summary['functions'] if f['name'] == 'cudaLaunchKernel')
    t.true('all calls, and those before the first chunk', calls >= 1000000, calls)
    check_memory(t, peak, 64)


@case('a million calls, each names another stream: memory of gpuscope stays bounded', timeout=120)
def memory_of_streams(t):
    live = t.start_trace('-o', 't.pftrace', command=t.app('--threads=2', 'cudaLaunchKernel=250000', 'cudaMemcpyAsync=250000'))
    peak = peak_of(live)
    t.counts(live.finish())
    # The table of 16,384 streams is full (30 MiB), one for the summary and the tracks in the output. What is kept by call would be
    # 100 MiB and more beyond that.
    check_memory(t, peak, 96)


@case('formats of the summary say the same')
def formats(t):
    t.trace('-o', 't.gst', command=t.app(*WORK))
    as_json = json.loads(t.tool('report', '--format', 'json', 't.gst', status=0).out)
    as_yaml = yaml.safe_load(t.tool('report', '--format', 'yaml', 't.gst', status=0).out)
    t.equal('yaml', as_yaml, as_json)
    text = t.tool('report', '--format', 'csv', 't.gst', status=0).out
    rows = list(csv.DictReader(io.StringIO(text, newline='')))
    got = {r['function']: int(r['calls']) for r in rows if r['record'] == 'function' and r['scope'] == 'all'}
    t.equal('csv', got, {f['name']: f['calls'] for f in as_json['functions']})
    table = t.tool('report', 't.gst', status=0).out
    for name in sorted(RUNTIME | NCCL):
        t.match('table', name, table)


@case('--format and --summary of a run')
def summary_file(t):
    for form in ('table', 'json', 'csv', 'yaml'):
        path = f's.{form}'
        run = t.tool('trace', '--format', form, '--summary', path, '--', *t.app('cudaMalloc=31'), status=0)
        t.match(form, 'cudaMalloc', harness.read_text(path))
        t.true('standard error has no summary', 'cudaMalloc' not in run.err, run.err)
    run = t.tool('trace', '--format', 'json', '--', *t.app('cudaMalloc=31'), status=0)
    t.equal('on standard error', json.loads(run.err)['functions'][0]['calls'], 31)
    t.equal('lines of the command alone', len(run.out.splitlines()), 1)


@case('--threads and --top of the table')
def table(t):
    command = t.app('--threads=3', 'cudaMalloc=31', 'cudaFree=31', 'cudaEventCreate=3', 'cudaStreamCreate=5')
    plain = t.tool('trace', '--', *command, status=0).err
    threads = t.tool('trace', '--threads', '--', *command, status=0)
    for tid in harness.Run(0, threads.out, '').lines[0]['threads']:
        t.match('thread', rf'\b{tid}\b', threads.err)
    t.true('without threads it is shorter', len(plain.splitlines()) < len(threads.err.splitlines()))
    top = t.tool('trace', '--top', '1', '--', *command, status=0).err
    t.match('rest', r'and 3 more', top)
    t.true('no rest', 'and 3 more' not in plain, plain)


@case('four outputs at once hold the same calls')
def four_outputs(t):
    run = t.trace('-o', 'a.json', '-o', 'b.csv', '-o', 'c.gst', '-o', 'd.pftrace', command=t.app(*WORK))
    t.counts(run)
    with open('a.json') as f:
        n_json = count_calls(json.load(f))
    with open('b.csv', newline='') as f:
        n_csv = sum(1 for _ in csv.reader(f)) - 1
    total = sum(f['calls'] for f in run.summary['functions'])
    t.equal('calls', (n_json, n_csv), (total, total))
    report = json.loads(t.tool('report', '--format', 'json', 'c.gst', status=0).out)
    t.equal('gst', sum(f['calls'] for f in report['functions']), total)
    t.true('packets', pftrace_packets('d.pftrace') >= 2 * total - run.lost('first_calls'))


@case('--summary-only sends nothing, counts all')
def summary_only(t):
    run = t.trace('--summary-only', command=t.app(*WORK))
    t.counts(run)
    t.equal('mode', run.summary['mode'], 'summary')
    t.tool('trace', '--summary-only', '-o', 'x.json', '--', 'true', status=2)
    t.true('no file', not os.path.exists('x.json'))


@case('--list needs nothing', needs=None)
def list_functions(t):
    run = t.tool('trace', '--list', status=0)
    t.match('a launch', r'(?m)^cuda-runtime +launch +cudaLaunchKernel$', run.out)
    t.match('not by default', r'(?m)^cuda-runtime +query +cudaGetDevice +\(only by --func\)$', run.out)

    def names(*options, status=0):
        return [x.split()[2] for x in t.tool('trace', '--list', *options, status=status).out.splitlines()]

    t.equal('by pattern', names('--func', 'ncclAll*'), ['ncclAllReduce', 'ncclAllGather', 'ncclAlltoAll'])
    t.equal('by pattern and layer', names('--func', 'ncclAll*', '--layer', 'cuda', status=4), [])
    t.equal('torchmem', names('--layer', 'torchmem'), ['pytorch:malloc', 'pytorch:free'])
    t.true('python', 'gc' in names('--layer', 'python'))


main()
