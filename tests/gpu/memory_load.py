#!/usr/bin/env python3
"""Programs that hold memory of a GPU, and what they know of it: memory_load.py CASE TRUTH.json. Exit status 77: cannot run here."""

import ctypes
import json
import os
import sys
import threading
import time

MIB = 1 << 20
KEPT = []


class Nvml:
    """What the driver says of GPU 0: bytes used on it, and by this process (None: it knows it by another number)."""

    class Memory(ctypes.Structure):
        _fields_ = [('total', ctypes.c_ulonglong), ('free', ctypes.c_ulonglong), ('used', ctypes.c_ulonglong)]

    class Process(ctypes.Structure):
        _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]

    def __init__(self):
        self.lib = ctypes.CDLL('libnvidia-ml.so.1')
        self.device = ctypes.c_void_p()
        assert self.lib.nvmlInit_v2() == 0
        which = os.environ.get('CUDA_VISIBLE_DEVICES', '').split(',')[0]
        by_uuid = which.startswith('GPU-')
        call, what = (self.lib.nvmlDeviceGetHandleByUUID, which.encode()) if by_uuid else (self.lib.nvmlDeviceGetHandleByIndex_v2, int(which or 0))
        assert call(what, ctypes.byref(self.device)) == 0

    def used(self):
        m = self.Memory()
        assert self.lib.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(m)) == 0
        return m.used

    def own(self):
        n, rows = ctypes.c_uint(256), (self.Process * 256)()
        if self.lib.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(n), rows) != 0:
            return None
        return next((r.used for r in rows[: n.value] if r.pid == os.getpid()), None)


def finish(truth, **known):
    """What is held now is held at the end: nothing is freed in order any more."""
    known['pid'] = os.getpid()
    with open(truth, 'w', encoding='utf-8') as f:
        json.dump(known, f)
    time.sleep(2.5)  # a reading of the driver's figures: each 2 s at least
    sys.stdout.flush()
    os._exit(0)


def need(module):
    try:
        return __import__(module)
    except ImportError:
        print(f'no {module}')
        sys.exit(77)


def torch_step(torch, model, optimizer, n):
    loss = model(torch.randn(n, 4096, device='cuda')).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def run_torch(truth, wait=False):
    torch = need('torch')
    nvml = Nvml()
    model = torch.nn.Sequential(torch.nn.Linear(4096, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 16)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(5):  # all kernels are loaded then
        torch_step(torch, model, optimizer, 256)
    torch.cuda.synchronize()
    before, reserved_before = nvml.used(), torch.cuda.memory_reserved()
    late = {}
    if wait:
        late = {'own_before': nvml.own(), 'reserved_before': reserved_before}
        print('ready', flush=True)
        sys.stdin.readline()
    for i in range(12):
        KEPT.append(torch.empty((100 + 37 * i) * MIB, dtype=torch.uint8, device='cuda'))
        torch_step(torch, model, optimizer, 256 + 64 * i)
    big = torch.empty(2048 * MIB, dtype=torch.uint8, device='cuda')
    del big
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    for i in range(0, 12, 3):
        KEPT[i] = None
    torch_step(torch, model, optimizer, 300)
    torch.cuda.synchronize()
    finish(truth, live=torch.cuda.memory_reserved(), peak=torch.cuda.max_memory_reserved(), added=torch.cuda.memory_reserved() - reserved_before,
           nvml_added=nvml.used() - before, own=nvml.own(), version=torch.__version__, **late)


def run_uncached(truth):
    """Threads that allocate and free by cudaMalloc and cudaFree, also what others allocated."""
    torch = need('torch')
    torch.zeros(1, device='cuda').sum().item()
    shared, lock = [], threading.Lock()

    def work(seed):
        for i in range(500):
            mine = torch.empty((1 + (seed * 7 + i) % 13) * MIB // 4, dtype=torch.uint8, device='cuda')
            with lock:
                shared.append(mine)
                del mine
                if len(shared) > 16:
                    shared.pop(i % 16)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.cuda.synchronize()
    finish(truth, blocks=len(shared), bytes=sum(x.numel() for x in shared), version=torch.__version__)


def run_cupy(truth):
    cupy = need('cupy')
    nvml = Nvml()
    warm = cupy.arange(1000, dtype=cupy.float32)
    float((warm * warm).sum())
    cupy.cuda.Device().synchronize()
    pool = cupy.get_default_memory_pool()
    before, pool_before = nvml.used(), pool.total_bytes()
    for i in range(10):
        KEPT.append(cupy.zeros((50 + 11 * i) * MIB // 4, dtype=cupy.float32))
    big = cupy.zeros(1024 * MIB, dtype=cupy.uint8)
    peak = pool.total_bytes()
    del big
    pool.free_all_blocks()
    pinned = cupy.cuda.alloc_pinned_memory(32 * MIB)
    KEPT.append(pinned)
    cupy.cuda.Device().synchronize()
    finish(truth, live=pool.total_bytes(), peak=peak, added=pool.total_bytes() - pool_before, nvml_added=nvml.used() - before, own=nvml.own(),
           pinned=32 * MIB, version=cupy.__version__)


class Calls:
    """The runtime and the driver without anything in between."""

    def __init__(self):
        torch = need('torch')
        major = torch.version.cuda.split('.')[0]
        self.rt, self.drv = ctypes.CDLL(f'libcudart.so.{major}'), ctypes.CDLL('libcuda.so.1')
        assert self.rt.cudaSetDevice(0) == 0 and self.rt.cudaFree(None) == 0

    def take(self, call, *args):
        p = ctypes.c_void_p()
        r = call(ctypes.byref(p), *args)
        assert r == 0, (call.__name__, r)
        return p

    def malloc(self, n):
        return self.take(self.rt.cudaMalloc, ctypes.c_size_t(n))

    def free(self, p):
        return self.rt.cudaFree(p)


def map_pieces(c, n, piece):
    """n pieces of physical memory in one range; returns its address and their handles."""
    prop = (ctypes.c_int * 16)(1, 0, 1, 0)  # pinned, no handle types, on device 0
    at, handles = ctypes.c_ulonglong(), []
    size = ctypes.c_size_t
    assert c.drv.cuMemAddressReserve(ctypes.byref(at), size(n * piece), size(0), ctypes.c_ulonglong(0), ctypes.c_ulonglong(0)) == 0
    for i in range(n):
        h = ctypes.c_ulonglong()
        assert c.drv.cuMemCreate(ctypes.byref(h), size(piece), prop, ctypes.c_ulonglong(0)) == 0
        assert c.drv.cuMemMap(ctypes.c_ulonglong(at.value + i * piece), size(piece), size(0), h, ctypes.c_ulonglong(0)) == 0
        handles.append(h)
    return at.value, handles


def run_plain(truth):
    c, nvml, size = Calls(), Nvml(), ctypes.c_size_t
    KEPT.append(c.take(c.rt.cudaMallocAsync, size(2 * MIB), None))
    c.rt.cudaDeviceSynchronize()
    before = nvml.used()
    large = [c.malloc(512 * MIB) for _ in range(4)]
    assert c.free(large[1]) == 0
    small = [c.malloc(1024) for _ in range(10000)]
    for p in small[::2]:
        assert c.free(p) == 0
    pool = [c.take(c.rt.cudaMallocAsync, size(256 * MIB), None) for _ in range(3)]
    assert c.rt.cudaFreeAsync(pool[2], None) == 0
    c.rt.cudaDeviceSynchronize()
    address, handles = map_pieces(c, 8, 64 * MIB)
    assert c.drv.cuMemRelease(handles[0]) == 0  # it stays, as it is mapped
    assert c.drv.cuMemUnmap(ctypes.c_ulonglong(address + 64 * MIB), size(64 * MIB)) == 0
    assert c.drv.cuMemRelease(handles[1]) == 0
    host = c.take(c.rt.cudaMallocHost, size(16 * MIB))
    managed = c.take(c.rt.cudaMallocManaged, size(8 * MIB), ctypes.c_uint(1))
    gone = c.malloc(4 * MIB)
    assert c.free(gone) == 0 and c.free(gone) != 0
    c.rt.cudaGetLastError()
    c.rt.cudaDeviceSynchronize()
    KEPT.extend([large, small, pool, host, managed])
    finish(truth, kinds={'device': 3 * 512 * MIB + 5000 * 1024, 'pool': (2 + 2 * 256) * MIB, 'virtual': 7 * 64 * MIB, 'managed': 8 * MIB, 'pinned': 16 * MIB},
           double_frees=1, nvml_added=nvml.used() - before, added_at_least=(3 * 512 + 2 * 256 + 7 * 64) * MIB, own=nvml.own())


def run_pairs(truth):
    c, n = Calls(), 20000
    start = time.monotonic()
    for _ in range(n):
        c.free(c.malloc(1024))
    print(f'   {1e6 * (time.monotonic() - start) / n:.2f} us a pair', flush=True)
    finish(truth)


def main():
    case, truth = sys.argv[1:3]
    {'eager': run_torch, 'expandable': run_torch, 'late': lambda t: run_torch(t, wait=True), 'uncached': run_uncached, 'cupy': run_cupy,
     'plain': run_plain, 'pairs': run_pairs}[case](truth)  # fmt: skip


if __name__ == '__main__':
    main()
