#!/usr/bin/env python3
"""Which kernels a program launches, by PyTorch's profiler (CUPTI) and by gpuscope in the same run.

kernel_names.py has PROGRAM                      exit status 0: what it needs is installed
kernel_names.py run PROGRAM TRUTH                runs it, all of it under the profiler: {name: [launches, registers]}
kernel_names.py check PROGRAM TRUTH SUMMARY      lines "ok ..." and "not ok ..."
kernel_names.py loop                             launches until it is killed, "ready" first
kernel_names.py late SUMMARY                     what was known of that when gpuscope came later
"""

import collections
import importlib.util
import json
import os
import re
import sys
import tempfile

STEPS = 20
# Calls by which a program gets a handle: once for each kernel and device, or tracing them costs too much.
HANDLES = ('cuModuleGetFunction', 'cuLibraryGetKernel', 'cuKernelGetFunction', 'cudaLibraryGetKernel', 'cudaGetKernel',
           'cudaGetFuncBySymbol', '__cudaGetKernel')  # fmt: skip
NEEDS = {'eager': 'torch', 'compiled': 'triton', 'jax': 'jax', 'cupy': 'cupy'}
RIGHT_PCT = 99.0
# A file has the registers that the compiler chose. When code is loaded a thread gets 16 at least
# (forums.developer.nvidia.com/t/237752: 10 by ptxas are 16 by Nsight Compute), and 32 where it may call the driver's assert or
# printf (github.com/triton-lang/triton/pull/10417); compilers choose 24 at least for those.
REGISTERS_MIN, REGISTERS_ASSERT_MIN, REGISTERS_ASSERT = 16, 24, 32


def report(ok, text):
    print('ok' if ok else 'not ok', text, flush=True)


def transformer(compiled):
    import torch

    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.1)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8, 64, 256, device='cuda', dtype=torch.bfloat16)
    run = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(run(x), x)
        loss.backward()
        optimizer.step()
        (x.float() @ x.float().transpose(1, 2)).softmax(-1).topk(4)

    return step


def with_jax():
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(0)
    a = jax.random.normal(key, (512, 512))

    @jax.jit
    def f(a):
        b = jnp.tanh(a @ a.T) + jnp.sin(a)
        return jnp.sort(b, axis=0).sum(axis=1), jax.nn.softmax(b)

    return lambda: jax.block_until_ready(f(a))


def with_cupy():
    import cupy

    own = cupy.RawKernel(
        'extern "C" __global__ void mine(float *p, int n) { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) p[i] *= 2; }', 'mine')
    a = cupy.random.rand(1 << 16).astype(cupy.float32)

    def step():
        own((512,), (128,), (a, a.size))
        (cupy.sqrt(a) + 1).sum()
        a.reshape(256, 256) @ a.reshape(256, 256)
        cupy.cuda.Device().synchronize()

    return step


PROGRAMS = {'eager': lambda: transformer(False), 'compiled': lambda: transformer(True), 'jax': with_jax, 'cupy': with_cupy}


def run(program, out):
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        step = PROGRAMS[program]()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.json')
        prof.export_chrome_trace(path)
        with open(path, encoding='utf-8') as f:
            events = [e for e in json.load(f)['traceEvents'] if e.get('cat') == 'kernel']
    truth = {}
    for e in events:
        row = truth.setdefault(e['name'], [0, e['args'].get('registers per thread')])
        row[0] += 1
    with open(out, 'w', encoding='utf-8') as f:
        json.dump(truth, f)


def plain(name):
    """Demanglers differ in blanks."""
    return re.sub(r'\s+', '', name or '')


def registers_agree(compiled, loaded):
    calls_assert = loaded == REGISTERS_ASSERT and REGISTERS_ASSERT_MIN <= compiled < REGISTERS_ASSERT
    return loaded == max(compiled, REGISTERS_MIN) or calls_assert


def check(program, truth_path, summary_path):
    with open(truth_path, encoding='utf-8') as f:
        truth = json.load(f)
    with open(summary_path, encoding='utf-8') as f:
        summary = json.load(f)
    kernels = summary['kernels']
    want = collections.Counter()
    for name, (n, _) in truth.items():
        want[plain(name)] += n
    got = collections.Counter()
    for k in kernels:
        got[plain(k['name'])] += k['launches'] - k['failed']
    total, ours = sum(want.values()), sum(got.values())
    right = sum(min(n, got[name]) for name, n in want.items())
    unknown = got['']
    report(total > 0 and abs(ours - total) <= total / 100, f'{program}: {ours} launches, by CUPTI {total}')
    report(total > 0 and 100 * right / total >= RIGHT_PCT,
           f'{program}: {100 * right / max(total, 1):.2f} % of launches have the right name ({len(want)} names, {unknown} not known)')
    for name, n in (want - got).most_common(5):
        print(f'#   too few by {n}: {name[:110]}')
    for name, n in (got - want).most_common(5):
        print(f'#   too many by {n}: {name[:110] or "not known"}')
    registers = {plain(name): r for name, (_, r) in truth.items()}
    known = [k for k in kernels if k['compute_capability'] and registers.get(plain(k['name']))]
    wrong = [k for k in known if not registers_agree(k['registers'], registers[plain(k['name'])])]
    if known:
        report(not wrong, f'{program}: registers of {len(known)} kernels, {len(wrong)} wrong')
        for k in wrong[:5]:
            print(f'#   {k["registers"]}, not {registers[plain(k["name"])]}: {k["short_name"]}')
    handles = {f['name']: f['calls'] for f in summary['functions'] if f['name'] in HANDLES}
    report(sum(handles.values()) <= 0.1 * ours + 16 * len(kernels), f'{program}: handles are got once: {handles}')
    by = collections.Counter()
    for k in kernels:
        by[k['named_by']] += k['launches']
    print(f'# {program}: named by {dict(by)}')


def loop():
    step = transformer(False)
    for _ in range(5):
        step()
    print('ready', flush=True)
    while True:
        step()


def late(path):
    with open(path, encoding='utf-8') as f:
        kernels = json.load(f)['kernels']
    n = sum(k['launches'] for k in kernels)
    named = sum(k['launches'] for k in kernels if k['name'])
    report(n > 0, f'late: {n} launches seen, {100 * named / max(n, 1):.1f} % with a name')
    # A handle that was got before has no name; one must not be made up.
    report(all(k['named_by'] != 'unknown' or not k['name'] for k in kernels), 'late: what is not known has no name')


def main():
    word, *rest = sys.argv[1:]
    if word == 'has':
        sys.exit(importlib.util.find_spec(NEEDS[rest[0]]) is None)
    {'run': run, 'check': check, 'loop': loop, 'late': late}[word](*rest)


main()
