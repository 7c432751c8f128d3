"""A PyTorch training loop that knows what it asked the GPU for.

train.py count --out F       trains under PyTorch's own profiler (CUPTI) and writes what that saw in
                             one window, with the window's ends on the boot clock
train.py copies --out F      copies of known sizes and directions, allocations, a graph, a convolution
train.py spin --seconds S --model small|large
                             trains without end and prints "T N": boot time and steps done so far,
                             every 100 ms
"""
import argparse
import ctypes
import json
import os
import sys
import time

import torch


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def make_step(model_name):
    torch.manual_seed(1)
    width, depth, batch = (256, 4, 64) if model_name == "small" else (8192, 4, 8192)
    dtype = torch.float32 if model_name == "small" else torch.bfloat16
    layers = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).cuda().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    host = torch.randn(batch, width).to(dtype).pin_memory()
    target = torch.randn(batch, width, device="cuda").to(dtype)

    def step(copy=True):
        x = host.to("cuda", non_blocking=True) if copy else target
        loss = torch.nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return step, host


def count(args):
    from torch.profiler import ProfilerActivity, profile

    step, host = make_step("small")
    # PyTorch fills tensors by kernels of its own; a memset takes the runtime that it has loaded.
    scratch = torch.ones(1000003, dtype=torch.uint8, device="cuda")
    runtime = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        step()
        torch.cuda.synchronize()
        time.sleep(0.05)
        begin = (boot_ns(), time.time_ns())
        for _ in range(args.steps):
            loss = step()
            runtime.cudaMemsetAsync(ctypes.c_void_p(scratch.data_ptr()), 0, ctypes.c_size_t(scratch.numel()),
                                    ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        loss.item()
        torch.cuda.synchronize()
        time.sleep(0.05)
        end = (boot_ns(), time.time_ns())
        time.sleep(0.05)
    trace = args.out + ".kineto"
    prof.export_chrome_trace(trace)
    data = json.load(open(trace))
    base = data.get("baseTimeNanoseconds", 0)
    seen = {"kernel": 0, "gpu_memcpy": 0, "gpu_memset": 0, "memcpy_bytes": 0, "memset_bytes": 0,
            "kinds": {}, "api": {}}
    for e in data["traceEvents"]:
        if e.get("ph") != "X":
            continue
        wall = base + float(e["ts"]) * 1000
        if not begin[1] <= wall <= end[1]:
            continue
        cat = e.get("cat")
        if cat in ("kernel", "gpu_memcpy", "gpu_memset"):
            seen[cat] += 1
        if cat == "gpu_memcpy":
            seen["memcpy_bytes"] += e["args"]["bytes"]
            kind = e["name"].split("(")[0].strip()
            seen["kinds"][kind] = seen["kinds"].get(kind, 0) + e["args"]["bytes"]
        if cat == "gpu_memset":
            seen["memset_bytes"] += e["args"]["bytes"]
        if cat in ("cuda_runtime", "cuda_driver"):
            seen["api"][e["name"]] = seen["api"].get(e["name"], 0) + 1
    os.unlink(trace)
    json.dump({"pid": os.getpid(), "steps": args.steps, "begin_ns": begin[0], "end_ns": end[0],
               "host_bytes": host.numel() * host.element_size(), "seen": seen}, open(args.out, "w"))


def copies(args):
    sizes = [4, 1000, 65536, 1000003, 33554432]
    begin = boot_ns()
    moved = {"HtoD": 0, "DtoH": 0, "n_HtoD": 0, "n_DtoH": 0}
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    time.sleep(0.02)
    copy_begin = boot_ns()
    for n in sizes:
        for _ in range(7):
            h = torch.ones(n, dtype=torch.uint8).pin_memory()
            d = h.to("cuda", non_blocking=True)
            moved["HtoD"] += n
            moved["n_HtoD"] += 1
            b = torch.empty(n, dtype=torch.uint8, pin_memory=True)
            b.copy_(d)
            moved["DtoH"] += n
            moved["n_DtoH"] += 1
    torch.cuda.synchronize()
    copy_end = boot_ns()
    # What PyTorch's allocator asks the runtime for: a block of 64 MiB is not served from a cache.
    torch.cuda.empty_cache()
    blocks = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
    del blocks
    torch.cuda.empty_cache()
    # A graph of three kernels, replayed.
    x = torch.ones(1024, device="cuda")
    g = torch.cuda.CUDAGraph()
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        y = (x * 2 + 1).relu()
    torch.cuda.current_stream().wait_stream(s)
    with torch.cuda.graph(g):
        y = (x * 2 + 1).relu()
    for _ in range(23):
        g.replay()
    torch.cuda.synchronize()
    # cuDNN, cuBLAS and an error that PyTorch reports.
    conv = torch.nn.Conv2d(16, 32, 3).cuda()
    conv(torch.randn(8, 16, 64, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    oom = 0
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        oom = 1
    json.dump({"pid": os.getpid(), "begin_ns": begin, "copy_begin_ns": copy_begin,
               "copy_end_ns": copy_end, "moved": moved, "graph_launches": 23, "oom": oom,
               "big_allocs": 5, "result": float(y[0])}, open(args.out, "w"))


def spin(args):
    step, _ = make_step(args.model)
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    n, stop, tell = 0, time.monotonic() + args.seconds, 0.0
    while time.monotonic() < stop:
        step(copy=False)
        n += 1
        if args.model == "large" or n % 20 == 0:
            torch.cuda.synchronize()
        if time.monotonic() >= tell:
            print(boot_ns(), n, flush=True)
            tell = time.monotonic() + 0.1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["count", "copies", "spin"])
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--model", default="small")
    p.add_argument("--out")
    args = p.parse_args()
    if not torch.cuda.is_available():
        sys.exit("train.py: no GPU here")
    {"count": count, "copies": copies, "spin": spin}[args.what](args)


if __name__ == "__main__":
    main()
