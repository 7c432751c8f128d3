#!/usr/bin/env python3
"""What tests/gpu/timeline.sh recorded, beside nvidia-smi and CUDA's events: timeline_check.py WHAT CASE FOLDER."""

import calendar
import json
import statistics
import struct
import sys
import time

GPU_PID = 4194305
TRACKS = {'utilization': '%', 'memory used': 'bytes', 'power': 'W', 'SM clock': 'MHz', 'temperature': '°C'}


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def check(ok, text):
    print('ok' if ok else 'not ok', text, flush=True)


def fields(b):
    """A message of protobuf as {number: [values]}."""
    out, i = {}, 0

    def varint():
        nonlocal i
        v = shift = 0
        while True:
            v |= (b[i] & 0x7F) << shift
            shift += 7
            i += 1
            if b[i - 1] < 0x80:
                return v

    while i < len(b):
        tag = varint()
        if tag & 7 == 1:
            v, i = b[i:i + 8], i + 8
        elif tag & 7 == 2:
            n = varint()
            v, i = b[i:i + n], i + n
        else:
            v = varint()
        out.setdefault(tag >> 3, []).append(v)
    return out


def tracks_of(path):
    """{(parent, name, unit): [(ns, value)]} of the counters of GPUs in a .pftrace file."""
    tracks, found = {}, {}
    with open(path, 'rb') as f:
        packets = fields(f.read())[1]
    for p in map(fields, packets):
        if 60 in p:
            d = fields(p[60][0])
            tracks[d[1][0]] = d
        event = fields(p[11][0]) if 11 in p else {}
        if 44 in event:
            d = tracks[event[11][0]]
            parent = tracks[d[5][0]]
            unit = fields(d[8][0]).get(6, [b'bytes'])[0].decode()
            name = fields(parent[3][0])[6][0] if 3 in parent else parent[2][0]
            found.setdefault((name.decode(), d[2][0].decode(), unit), []).append((p[8][0], struct.unpack('<d', event[44][0])[0]))
    return found


def counters(events, pid):
    found = {}
    for e in events:
        if e['ph'] == 'C' and e['pid'] == pid and e.get('cat') == 'gpu':
            found.setdefault(e['name'], []).append((e['ts'], *e['args'].values()))
    return found


def near(what, got, want, share, least=0):
    """got, want: None where there is no value."""
    if got is None or want is None:
        check(False, f'{what}: {got}, nvidia-smi {want}')
        return
    check(abs(got - want) <= max(share * abs(want), least), f'{what}: {got:.1f}, nvidia-smi {want:.1f}')


def mean(values):
    return statistics.mean(values) if values else None


def mean_of(gpu, name, begin, end):
    return mean([v for t, v in gpu.get(name, []) if begin <= t <= end])


def check_gaps(case, name, times):
    """Values are at most 2 s old, and read half a turn late at most."""
    gaps = [b - a for a, b in zip(times, times[1:])]
    check(gaps and max(gaps) <= 2.5e6, f'{case}: {name}: {len(times)} values while it worked, {max(gaps, default=0) / 1e6:.2f} s apart at most')


def check_trace(case, folder):
    events = load(f'{folder}/{case}.json')['traceEvents']
    summary, truth = load(f'{folder}/{case}.summary'), load(f'{folder}/{case}.truth')
    gpu, process = counters(events, GPU_PID), counters(events, truth['pid'])
    pftrace = tracks_of(f'{folder}/{case}.pftrace')
    groups = {parent for parent, name, _ in pftrace if name == 'power'}
    check(len(groups) == 1, f'{case}: tracks of the GPU that is used: {groups}')
    for name, unit in TRACKS.items():
        rows = [v for (_, n, u), v in pftrace.items() if (n, u) == (name, unit)]
        check(len(rows) == 1 and len(rows[0]) == len(gpu.get(name, [])) >= 2, f'{case}: {name}: {len(gpu.get(name, []))} values, {len(rows)} tracks')
    print('   all tracks:', ', '.join(f'{n} {len(v)}' for n, v in sorted(gpu.items())))
    calls = [e['ts'] for e in events if e['ph'] == 'X' and e.get('cat', '').startswith('cuda')]
    inside = [t for t, _ in gpu.get('memory used', []) if calls and min(calls) <= t <= max(calls)]
    check(len(inside) >= 20, f'{case}: {len(inside)} samples among {len(calls)} calls, on one clock')
    check('GPU 0 memory' in process or any(n.endswith(' memory') for n in process), f"{case}: the process's share: {sorted(process)}")
    # Of the time in which the program worked.
    begin, end = truth['begin_boot_ns'] / 1e3 + 2e6, truth['begin_boot_ns'] / 1e3 + truth['seconds'] * 1e6
    with open(f'{folder}/{case}.smi', encoding='utf-8') as f:
        smi = [[float(x) for x in line.split(',')] for line in f if line.count(',') == 4 and '[' not in line]
    worked = [row for row in smi if row[1] >= 0.95 * max(r[1] for r in smi)][10:-2]

    def theirs(column):
        return mean([row[column] for row in worked])

    near(f'{case}: memory, MiB', max((v / 2**20 for _, v in gpu.get('memory used', [])), default=None), max((r[1] for r in smi), default=None), 0.02, 64)
    near(f'{case}: power, W', mean_of(gpu, 'power', begin, end), theirs(0), 0.1, 10)
    near(f'{case}: SM clock, MHz', mean_of(gpu, 'SM clock', begin, end), theirs(3), 0.1)
    near(f'{case}: temperature, C', mean_of(gpu, 'temperature', begin, end), theirs(4), 0.1, 4)
    near(f'{case}: utilization, %', mean_of(gpu, 'utilization', begin, end), theirs(2), 0.1, 10)
    for name in TRACKS:
        check_gaps(case, name, [t for t, _ in gpu.get(name, []) if begin <= t <= end])
    check_accuracy(case, summary, truth, begin, end, gpu)


def check_accuracy(case, summary, truth, begin, end, gpu):
    if len(summary['gpus']) != 1:
        check(False, f'{case}: GPUs {summary["gpus"]}')
        return
    g = summary['gpus'][0]
    print('  ', json.dumps(g))
    check(g['not_compared'] is None, f'{case}: compared ({g["not_compared"]})')
    if g['not_compared']:
        return
    device, least, most = g['compared_device_busy_ratio'], g['host_busy_min_ratio'], g['host_busy_max_ratio']
    # The whole run, with start-up, in what was compared; by CUDA's events in the part in which the program worked.
    part = mean_of(gpu, 'utilization', begin, end)
    if part is None:
        check(False, f'{case}: no value of utilization while it worked')
        return
    part /= 100
    check(abs(part - truth['busy_ratio']) <= 0.08, f'{case}: the counter says {part:.3f}, CUDA\'s events {truth["busy_ratio"]:.3f}')
    if case == 'compute':
        check(part >= 0.95, f'{case}: nearly all the time: {part:.3f}')
    else:
        check(0.35 <= part <= 0.65, f'{case}: half of the time: {part:.3f}')
    check(least - 0.05 <= device <= most + 0.05, f'{case}: truth {device:.3f} in the bounds {least:.3f} to {most:.3f} (within 0.05)')
    print(f'   {case}: {100 * (device - least):+.1f} points from the lower bound, {100 * (device - most):+.1f} from the upper one, over {g["compared_ns"] / 1e9:.1f} s')


def check_same(case, folder):
    a, b = (counters(load(f'{folder}/{case}{more}.json')['traceEvents'], GPU_PID) for more in ('', '.again'))
    check(a == b, f'{case}: the recording turned into .json has the same values')


def check_none(case, folder):
    events = load(f'{folder}/{case}.json')['traceEvents']
    check(not [e for e in events if e.get('pid', 0) >= GPU_PID or e.get('cat') == 'gpu'], 'no GPU in .json')
    check(not tracks_of(f'{folder}/{case}.pftrace'), 'no GPU in .pftrace')
    check(load(f'{folder}/{case}.summary')['gpus'] == [], 'no GPU in the summary')


def put_turn(turn, gpu, path):
    """When it was, by the boot clock: the two clocks are read at once."""
    s = load(path)
    seconds = calendar.timegm(time.strptime(s['start_time'][:19], '%Y-%m-%dT%H:%M:%S'))
    wall_ns = seconds * 10**9 + int(s['start_time'][20:29])
    boot_ns = wall_ns - (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    print(turn, gpu, boot_ns, boot_ns + s['duration_ns'], len(s['gpus']))


def check_cost(case, folder):
    with open(f'{folder}/{case}.rates', encoding='utf-8') as f:
        rates = [tuple(map(float, line.split())) for line in f if line.count(' ') == 1]
    by_turn, sampled = {}, 0
    with open(f'{folder}/{case}.turns', encoding='utf-8') as f:
        for line in f:
            turn, gpu, begin, end, n = line.split()
            # Whole half seconds, after the probes were placed and before they are taken off.
            inside = [r for t, r in rates if float(begin) + 2.0e9 <= t <= float(end) - 0.3e9]
            by_turn.setdefault(turn, {})[gpu] = statistics.mean(inside) if inside else 0
            sampled += gpu == 'with' and int(n) > 0
    costs = [100 * (1 - t['with'] / t['--no-gpu']) for t in by_turn.values() if t.get('--no-gpu') and t.get('with')]
    check(sampled == len(by_turn), f'samples were taken in {sampled} of {len(by_turn)} turns')
    print('   steps/s without, with:', ', '.join(f'{t.get("--no-gpu", 0):.0f} {t.get("with", 0):.0f}' for t in by_turn.values()))
    if len(costs) < 2:
        check(False, f'pairs: {by_turn}')
        return
    mean, error = statistics.mean(costs), statistics.stdev(costs) / len(costs)**0.5
    check(mean - 2 * error <= 0.5, f'sampling costs {mean:.2f} % (+- {2 * error:.2f}, median {statistics.median(costs):.2f}) of a loop bound by launches; at most 0.5 %')


def main():
    what = sys.argv[1]
    {'trace': check_trace, 'same': check_same, 'none': check_none, 'cost': check_cost, 'turn': put_turn}[what](*sys.argv[2:])


if __name__ == '__main__':
    main()
