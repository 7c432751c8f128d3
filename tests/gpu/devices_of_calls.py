#!/usr/bin/env python3
"""Programs of tests/gpu/devices_of_calls.sh, and what their summaries must say.

devices_of_calls.py run CASE TRUTH [GO]      the program; GO: it waits for that file, and makes GO.ready before
devices_of_calls.py check CASE SUMMARY TRUTH
devices_of_calls.py contexts SUMMARY...      how often contexts were chosen
"""

import ctypes
import json
import os
import sys
import threading
import time

BYTES = 1 << 20


def uuid_of(torch, device):
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    return uuid if uuid.startswith('GPU-') else f'GPU-{uuid}'


def fill(torch, device, n):
    """n fills in the current stream of a device."""
    with torch.cuda.device(device):
        x = torch.empty(BYTES, dtype=torch.uint8, device=f'cuda:{device}')
        for _ in range(n):
            x.zero_()
        torch.cuda.synchronize()


def import_torch():
    import torch

    torch.cuda.init()
    return torch


# Each case returns what is expected: {'DEVICE' or 'DEVICE own': [UUID, work at least, and at most]}.


def set_before(wait):
    os.environ['CUDA_VISIBLE_DEVICES'] = '1'
    torch = import_torch()
    wait()
    fill(torch, 0, 50)
    return {'0': [uuid_of(torch, 0), 50]}


set_before_numbers = set_before


def both(wait):
    torch = import_torch()
    wait()
    fill(torch, 0, 40)
    fill(torch, 1, 30)
    return {'0': [uuid_of(torch, 0), 40], '1': [uuid_of(torch, 1), 30]}


class Driver:
    """libcuda by ctypes, as tools of others use it."""

    def __init__(self):
        self.cuda = ctypes.CDLL('libcuda.so.1')
        self.must('cuInit', 0)

    def must(self, name, *args):
        r = getattr(self.cuda, name)(*args)
        if r:
            raise RuntimeError(f'{name}: {r}')

    def handle(self, name, *args):
        h = ctypes.c_void_p()
        self.must(name, ctypes.byref(h), *args)
        return h

    def fill(self, n, stream=None):
        p = ctypes.c_uint64()
        self.must('cuMemAlloc_v2', ctypes.byref(p), ctypes.c_size_t(BYTES))
        for _ in range(n):
            self.must('cuMemsetD8Async', p, ctypes.c_ubyte(0), ctypes.c_size_t(BYTES), stream)
        self.must('cuCtxSynchronize')
        self.must('cuMemFree_v2', p)

    def uuid(self, device):
        raw = (ctypes.c_ubyte * 16)()
        self.must('cuDeviceGetUuid_v2', raw, device)
        h = bytes(raw).hex()
        return f'GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}'


def pushed(wait):
    d = Driver()
    wait()
    primary = [d.handle('cuDevicePrimaryCtxRetain', i) for i in range(2)]
    popped = ctypes.c_void_p()
    for i, n in ((0, 11), (1, 13)):
        d.must('cuCtxPushCurrent_v2', primary[i])
        d.fill(n)
    own = d.handle('cuCtxCreate_v2', 0, 1)  # on top of that of device 1
    d.fill(17)
    d.must('cuCtxPopCurrent_v2', ctypes.byref(popped))
    d.fill(2)  # device 1
    d.must('cuCtxPopCurrent_v2', ctypes.byref(popped))
    d.fill(3)  # device 0
    d.must('cuCtxSetCurrent', own)
    d.fill(5)

    def other():
        d.must('cuCtxSetCurrent', primary[1])
        d.fill(7)

    t = threading.Thread(target=other)
    t.start()
    t.join()
    d.must('cuCtxDestroy_v2', own)
    return {'0': [d.uuid(0), 14, 14], '1': [d.uuid(1), 22, 22], '1 own': [d.uuid(1), 22, 22]}


def handed_over(wait):
    torch = import_torch()
    wait()
    d = Driver()
    fill(torch, 1, 20)
    stream = torch.cuda.Stream(1)
    with torch.cuda.device(1), torch.cuda.stream(stream):
        x = torch.empty(BYTES, dtype=torch.uint8, device='cuda:1')
        x.zero_()
        current = d.handle('cuCtxGetCurrent')
        torch.cuda.synchronize()

    def other():
        d.must('cuCtxSetCurrent', current)
        d.fill(9, ctypes.c_void_p(stream.cuda_stream))
        d.fill(4)

    t = threading.Thread(target=other)
    t.start()
    t.join()
    return {'1': [uuid_of(torch, 1), 34]}


def graph(wait):
    torch = import_torch()
    wait()
    x = torch.zeros(1 << 20, device='cuda:0')
    with torch.cuda.stream(torch.cuda.Stream()):
        x.add_(1)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(10):
            x.add_(1)
    for _ in range(50):
        g.replay()
    torch.cuda.synchronize()
    return {'0': [uuid_of(torch, 0), 50], 'graphs': [50, 10]}


def late_both(wait):
    torch = import_torch()
    fill(torch, 1, 1)
    torch.cuda.set_device(1)
    x = torch.empty(BYTES, dtype=torch.uint8, device='cuda:1')
    wait()
    for _ in range(25):
        x.zero_()
    torch.cuda.synchronize()
    return {'1': [uuid_of(torch, 1), 25], 'may be unknown': True}


def late_one(wait):
    torch = import_torch()
    fill(torch, 0, 1)
    wait()
    fill(torch, 0, 25)
    return {'0': [uuid_of(torch, 0), 25]}


def late_changed(wait):
    torch = import_torch()
    fill(torch, 0, 1)
    os.environ['CUDA_VISIBLE_DEVICES'] = '1'
    wait()
    fill(torch, 0, 25)
    return {'0': [uuid_of(torch, 0), 25], 'may be unknown': True}


def run(case, truth, go=None):
    def wait():
        if go:
            with open(go + '.ready', 'w'):
                pass
        while go and not os.path.exists(go):
            time.sleep(0.1)

    want = globals()[case](wait)
    time.sleep(1)  # its memory is looked at soon after its first call
    with open(truth, 'w', encoding='utf-8') as f:
        json.dump({'pid': os.getpid(), 'want': want}, f)


def check(ok, text):
    print('ok' if ok else 'not ok', text, flush=True)


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def work_of(s):
    return s['launches'] + s['memsets'] + s['copies'] + s['collectives'] + s['host_functions']


def compare_device(case, name, row, seen, unknown):
    uuid, least, *most = row
    uuids, work = seen
    key = (int(name.split()[0]), ' ' in name)
    if unknown and key not in work:
        check(None in [d for d, _ in work], f'{case}: device {name} is said to be unknown')
        check(not [u for u in uuids.values() if u and u != uuid], f'{case}: and no other GPU is named')
        return
    check(uuids.get(key) == uuid or (unknown and uuids.get(key) is None), f'{case}: device {name} is {uuids.get(key)}, CUDA says {uuid}')
    n = work.get(key, 0)
    check(n >= least and (not most or n <= most[0]), f'{case}: work on device {name}: {n}, at least {least}{" and no more" if most else ""}')


def compare_graphs(case, summary, pid, graphs):
    seen = [(g['launches'], g['kernels_per_launch']) for g in summary['graphs'] if g['pid'] == pid]
    check(seen == [tuple(graphs)], f'{case}: launches of graphs and kernels in each {seen}, program {graphs}')
    runs = sum(k['graph_runs'] for k in summary['kernels'])
    check(runs == graphs[0] * graphs[1], f'{case}: kernels that graphs ran {runs}')
    unnamed = [k['function'] for k in summary['kernels'] if k['graph_runs'] and not k['name']]
    check(not unnamed, f'{case}: all of them have names {unnamed or ""}')


def compare(case, summary, truth):
    pid, want = truth['pid'], truth['want']
    uuids = {(d['device'], d['context'] is not None): d['gpu_uuid'] for d in summary['stream_devices'] if d['pid'] == pid}
    work = {}
    for s in summary['streams']:
        if s['pid'] == pid:
            key = (s['device'], s['context'] is not None)
            work[key] = work.get(key, 0) + work_of(s)
    print('   found', {f'{d}{"+" if own else ""}': (uuids.get((d, own)), n) for (d, own), n in work.items()})
    unknown = want.pop('may be unknown', False)
    graphs = want.pop('graphs', None)
    for name, row in want.items():
        compare_device(case, name, row, (uuids, work), unknown)
    others = set(work) - {(int(n.split()[0]), ' ' in n) for n in want}
    if not unknown:
        check(not others, f'{case}: nothing on others {others or ""}')
    if graphs:
        compare_graphs(case, summary, pid, graphs)


def show_contexts(paths):
    for path in paths:
        if path.endswith('.truth.json'):
            continue
        calls = {f['name']: f['calls'] for f in load(path)['functions']}
        chosen = {n: c for n, c in sorted(calls.items()) if 'Ctx' in n}
        print('  ', os.path.basename(path), chosen, 'launches', sum(c for n, c in calls.items() if 'Launch' in n))


def main():
    if sys.argv[1] == 'run':
        run(*sys.argv[2:])
    elif sys.argv[1] == 'contexts':
        show_contexts(sys.argv[2:])
    else:
        compare(sys.argv[2], load(sys.argv[3]), load(sys.argv[4]))


if __name__ == '__main__':
    main()
