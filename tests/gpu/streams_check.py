#!/usr/bin/env python3
"""What a summary says of streams, beside the truth of tests/gpu/streams.py: streams_check.py CASE SUMMARY TRUTH."""

import json
import sys


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def check(ok, text):
    print('ok' if ok else 'not ok', text, flush=True)


def percent(value, of):
    return f'{100 * (value - of) / of:+.1f} %' if of else '-'


def main():
    case, summary, truth = sys.argv[1], load(sys.argv[2]), load(sys.argv[3])
    pid = truth['pid']
    streams = [s for s in summary['streams'] if s['pid'] == pid]
    devices = [d for d in summary['stream_devices'] if d['pid'] == pid]
    if not streams or not devices:
        check(False, f'{case}: no streams of process {pid}')
        return
    uuids = [d['gpu_uuid'] for d in devices]
    check(uuids == [truth['uuid']], f'{case}: GPU {uuids}, CUDA {truth["uuid"]}')
    # CUPTI numbers streams, the host has handles: the numbers of launches are what both have.
    got = sorted(n for n in (s['launches'] - s['graph_launches'] for s in streams) if n)
    want = sorted(truth['kernels'].values())
    check(got == want, f'{case}: launches by stream {got}, CUPTI {want}')
    launches = sum(s['graph_launches'] for s in streams)
    check(launches == truth['graph_launches'], f'{case}: graph launches {launches}, CUPTI {truth["graph_launches"]}')
    ran = sum(g['launches'] * (g['kernels_per_launch'] or 0) for g in summary['graphs'] if g['pid'] == pid)
    check(ran == truth['kernels_in_graphs'], f'{case}: kernels run by graphs {ran}, CUPTI {truth["kernels_in_graphs"]}')
    by_kernel = sum(k['graph_runs'] for k in summary['kernels'])
    check(by_kernel == ran, f'{case}: the same by kernel {by_kernel}')
    copied = sum(s['copied_bytes'] for s in streams)
    check(copied == sum(truth['copied_bytes'].values()), f'{case}: copied {copied} bytes, CUPTI {truth["copied_bytes"]}')
    for kind in ('HtoD', 'DtoH'):
        got = sum(s[f'copies_{kind.lower()}_bytes'] for s in streams)
        print(f'   {kind} {got}, CUPTI {truth["copied_bytes"].get(kind, 0)}')
    most, least = sum(d['busy_max_ns'] for d in devices), sum(d['busy_min_ns'] for d in devices)
    active, gaps = truth['active_ns'], sum(d['gap_ns'] for d in devices)
    print(f'   GPU active {active / 1e6:.2f} ms (CUPTI); at most {most / 1e6:.2f} ms ({percent(most, active)}), at least '
          f'{least / 1e6:.2f} ms ({percent(least, active)}); empty {gaps / 1e6:.2f} ms')  # fmt: skip
    check(most >= active, f'{case}: the GPU was active at most as long as the upper bound says')
    by_stream = sorted(truth['active_by_stream_ns'].values(), reverse=True)
    bounds = sorted((s['busy_max_ns'] for s in streams if s['busy_max_ns']), reverse=True)
    print('   by stream, ms: active ' + ', '.join(f'{v / 1e6:.2f}' for v in by_stream) + '; at most ' + ', '.join(f'{v / 1e6:.2f}' for v in bounds))
    left = {k: v for k, v in summary['stream_limits'].items() if v}
    check(not left, f'{case}: nothing was left out {left or ""}')


if __name__ == '__main__':
    main()
