#!/usr/bin/env python3
"""What a summary says of memory, beside the truth of tests/gpu/memory_load.py: memory_check.py CASE SUMMARY TRUTH."""

import json
import sys

MIB = 1 << 20


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def check(ok, text):
    print('ok' if ok else 'not ok', text, flush=True)


def near(got, want, text, percent=2):
    off = 100 * (got - want) / want if want else 0
    check(want and abs(off) <= percent, f'{text}: gpuscope {got / MIB:.2f} MiB, truth {want / MIB:.2f} MiB, {off:+.2f} %')


def same(got, want, text):
    check(got == want, f'{text}: gpuscope {got} bytes, truth {want}')


class Summary:
    def __init__(self, summary, pid):
        self.rows = [r for r in summary['memory'] if r['pid'] == pid]
        self.sites = [s for s in summary['memory_sites'] if s['pid'] == pid]
        self.truth = [r for r in summary.get('memory_measured', []) if r['pid'] == pid]

    def sum_of(self, kind, key='live_bytes'):
        return sum(r[key] for r in self.rows if r['kind'] == kind and r['device'] is not None)

    def sites_by(self, function):
        """Bytes held that were asked for by this call of the program; also where it is not known where."""
        return sum(x['live_bytes'] for x in self.sites if x['function'] == function)

    def total(self, key='live_bytes'):
        return next((r[key] for r in self.rows if r['kind'] == 'all device memory' and r['device'] is None), 0)


def check_torch(case, s, truth):
    kind = 'virtual' if case == 'expandable' else 'device'
    # cuBLAS allocates beside PyTorch, by the driver's call: its workspace, in the first steps and until the end.
    beside = s.sites_by('cuMemAlloc_v2')
    print(f'   by cuMemAlloc_v2, not of PyTorch: {beside / MIB:.2f} MiB')
    mine = beside if kind == 'device' else 0
    same(s.sum_of(kind) - mine, truth['live'], f'{case}: live {kind} memory and torch.cuda.memory_reserved')
    near(s.sum_of(kind, 'peak_bytes') - mine, truth['peak'], f'{case}: its peak and torch.cuda.max_memory_reserved')
    if kind == 'device':
        same(s.sites_by('cudaMalloc'), truth['live'], f'{case}: call sites of cudaMalloc and torch.cuda.memory_reserved')
    # What was there before NVML was asked first: PyTorch's, and that of cuBLAS.
    near(s.total() - beside - (truth['live'] - truth['added']), truth['nvml_added'], f'{case}: what was added and NVML')
    sites = [x for x in s.sites if x['place'].find('memory_load.py:') >= 0]
    check(sum(x['live_bytes'] for x in sites) >= 0.9 * s.total(), f'{case}: call sites are lines of the program: {[x["place"][-40:] for x in sites[:3]]}')


def check_late(s, truth):
    added = truth['live'] - truth['reserved_before']
    whole = s.total()
    # Segments from before may be freed: then less is seen than was added.
    print(f'   seen since it is traced {whole / MIB:.1f} MiB, PyTorch added {added / MIB:.1f} MiB')
    check(whole <= truth['peak'], 'late: no more is held than PyTorch ever reserved')
    if truth['own_before'] is None or not s.truth:
        print(f'   SKIP: the driver knows the process by another number, or no samples ({s.truth})')
        return
    near(s.truth[0]['first_bytes'], truth['own_before'], 'late: memory before the trace, by NVML')


def check_plain(s, truth):
    for kind, want in truth['kinds'].items():
        got = sum(r['live_bytes'] for r in s.rows if r['kind'] == kind)
        check(got == want, f'plain: {kind} {got} bytes, allocated {want}')
    whole = next(r for r in s.rows if r['kind'] == 'all device memory' and r['device'] is None)
    check(whole['double_frees'] == truth['double_frees'], f'plain: {whole["double_frees"]} double frees')
    check(whole['unknown_frees'] == whole['bad_frees'] == 0, 'plain: no other strays')
    device = next(r for r in s.rows if r['kind'] == 'all device memory' and r['device'] == 0)
    print(f'   pages {device["page_bytes"] / MIB:.1f} MiB, unused {device["unused_pct"]:.1f} %')
    # In pages, as the driver gives them; a pool keeps what is freed until the next synchronisation.
    pages = device['page_bytes'] + truth['kinds']['pool'] - 2 * MIB + truth['kinds']['virtual']
    near(pages, truth['nvml_added'], 'plain: pages, pool and mapped memory and NVML')


def main():
    case, summary, truth = sys.argv[1], load(sys.argv[2]), load(sys.argv[3])
    s = Summary(summary, truth['pid'])
    if not s.rows:
        check(False, f'{case}: no memory of process {truth["pid"]}')
        return
    if case in ('eager', 'expandable'):
        check_torch(case, s, truth)
    elif case == 'late':
        check_late(s, truth)
    elif case == 'plain':
        check_plain(s, truth)
    elif case == 'uncached':
        extra = s.sum_of('device') - truth['bytes']
        check(0 <= extra <= 64 * MIB, f'uncached: held {s.sum_of("device")} bytes, tensors {truth["bytes"]}')
        near(s.sum_of('device'), truth['bytes'], 'uncached: bytes held and those of tensors', 5)
        whole = next(r for r in s.rows if r['kind'] == 'all device memory' and r['device'] is None)
        check(whole['double_frees'] == whole['bad_frees'] == whole['unseen_frees'] == whole['unknown_frees'] == 0,
              f'uncached: no strays of 8 threads: {[whole[k] for k in ("double_frees", "bad_frees", "unseen_frees", "unknown_frees")]}')  # fmt: skip
    elif case == 'cupy':
        near(s.sum_of('device'), truth['live'], 'cupy: live memory and the pool')
        near(s.sum_of('device', 'peak_bytes'), truth['peak'], 'cupy: its peak and that of the pool')
        near(s.total() - (truth['live'] - truth['added']), truth['nvml_added'], 'cupy: what was added and NVML')
        pinned = sum(r['live_bytes'] for r in s.rows if r['kind'] == 'pinned')
        check(pinned >= truth['pinned'], f'cupy: pinned {pinned} bytes, asked for {truth["pinned"]}')
    measured = [r for r in s.truth if truth.get('own')]
    if measured:
        m = measured[0]
        print(f'   {m["samples"]} readings, the last {m["unread_ns"] / 1e9:.2f} s before its end')
        check(m['samples'] >= 3 and m['last_bytes'] is not None, f'{case}: read often enough, and until its end: {m}')
        near(m['last_bytes'] or 0, truth['own'], f'{case}: the process by NVML, sampled')


if __name__ == '__main__':
    main()
