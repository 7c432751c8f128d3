#!/usr/bin/env python3
"""Operators on a real GPU, against PyTorch's own profiler.

torch_check.py steps N                run N training steps of a small transformer (what is traced)
torch_check.py profile N OUT          the same, the last N of N + WARM under torch.profiler: counts of
                                      operators, and launches by the innermost operator around them
torch_check.py compare PROFILE A B N  A, B: summaries of traces of WARM and of WARM + N steps
torch_check.py slowdown GPUSCOPE small|large ROUNDS
                                      iterations/s of one running loop, traced and not, in turns
torch_check.py spin small|large SECONDS   the loop that slowdown runs: prints "TIME STEPS"
"""

import bisect
import collections
import json
import re
import statistics
import subprocess
import sys
import threading
import time

WARM = 10
LAUNCHES = ('cudaLaunchKernel', 'cudaLaunchKernelExC', 'cuLaunchKernel', 'cuLaunchKernelEx', 'cudaGraphLaunch')
# Not told to profilers (observed operators in c10).
UNOBSERVED = re.compile(r'aten::(size|is_leaf|output_nr|_version|is_complex|stride|is_\w+|dim|numel|sym_\w+)$')
TURN = 3.0
WAYS = {
    'none': None,
    'operators, CUDA, NCCL: events': ['--layer=cuda,nccl,torch', '-o', '/tmp/torch_check.gst'],
    'operators, CUDA, NCCL: sums': ['--layer=cuda,nccl,torch', '--summary-only'],
    'all operators, CUDA, NCCL: events': ['--layer=cuda,nccl,torch', '--op-set=all', '-o', '/tmp/torch_check.gst'],
    'operators alone: events': ['--layer=torch', '-o', '/tmp/torch_check.gst'],
    'CUDA, NCCL: events': ['--layer=cuda,nccl', '-o', '/tmp/torch_check.gst'],
}
failed = 0


def check(ok, text):
    global failed
    failed += not ok
    print('PASS' if ok else 'FAIL', text, flush=True)


def make_step(size):
    import torch

    torch.manual_seed(1)
    width, depth, batch, length = (256, 6, 8, 64) if size == 'small' else (4096, 6, 32, 512)
    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.1)
    model = torch.nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(batch, length, width, device='cuda', dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()

    return step


def run_steps(n):
    import torch

    step = make_step('small')
    for _ in range(n):
        step()
    torch.cuda.synchronize()


def profile(n, out):
    import torch
    from torch.profiler import ProfilerActivity

    step = make_step('small')
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        for _ in range(n):
            step()
        torch.cuda.synchronize()
    p.export_chrome_trace(out + '.trace')
    with open(out + '.trace') as f:
        events = [e for e in json.load(f)['traceEvents'] if e.get('ph') == 'X']
    ops = [e for e in events if e.get('cat') == 'cpu_op' and e['name'].startswith('aten::')]
    calls = [e for e in events if e.get('cat') in ('cuda_runtime', 'cuda_driver') and e['name'] in LAUNCHES]
    with open(out, 'w') as f:
        json.dump({'ops': collections.Counter(e['name'] for e in ops), 'launches': attribute(ops, calls)}, f)


def attribute(ops, calls):
    """{innermost operator: launches}: those of each thread in order of time, with a stack."""
    by_thread = collections.defaultdict(list)
    for e in ops:
        by_thread[e['tid']].append((e['ts'], 0, -e['dur'], e))
    for e in calls:
        by_thread[e['tid']].append((e['ts'], 1, -e['dur'], e))
    counts = collections.Counter()
    for rows in by_thread.values():
        stack, launch_end = [], -1.0
        for ts, is_call, _, e in sorted(rows, key=lambda r: r[:3]):
            while stack and ts >= stack[-1][0]:
                stack.pop()
            if not is_call:
                stack.append((ts + e['dur'], e['name']))
            elif ts >= launch_end:  # else the driver's part of the runtime's launch
                launch_end = ts + e['dur']
                counts[stack[-1][1] if stack else ''] += 1
    return counts


def base(name):
    return name.split('.')[0]


def read_summary(path):
    with open(path) as f:
        s = json.load(f)
    ops, launches = collections.Counter(), collections.Counter()
    for f in s['functions']:
        if f['layer'] == 'torch':
            ops[base(f['name'])] += f['calls']
    total = sum(f['calls'] for f in s['functions'] if f['class'] in ('launch', 'graph-launch'))
    for u in s['by_operator']:
        launches[base(u['name'])] += u['launches']
    return s, ops, launches, total


def compare(path, before, after, n):
    with open(path) as f:
        wanted = json.load(f)
    _, ops0, launches0, total0 = read_summary(before)
    s, ops1, launches1, total1 = read_summary(after)
    ops = {k: ops1[k] - ops0[k] for k in ops1 if k.startswith('aten::') and ops1[k] != ops0[k]}
    theirs = {k: v for k, v in wanted['ops'].items() if not UNOBSERVED.match(k)}
    ours = {k: v for k, v in ops.items() if not UNOBSERVED.match(k)}
    differ = {k: (ours.get(k, 0), theirs.get(k, 0)) for k in {*ours, *theirs} if ours.get(k, 0) != theirs.get(k, 0)}
    print(f'  {len(theirs)} operators, {sum(theirs.values())} calls in {n} steps by torch.profiler')
    check(not differ and theirs, f'operators are counted as torch.profiler counts them; differ (ours, theirs): {differ}')
    got = {k: launches1[k] - launches0[k] for k in launches1 if launches1[k] != launches0[k]}
    aten = {k: v for k, v in got.items() if k.startswith('aten::')}
    theirs = {k: v for k, v in wanted['launches'].items() if k}
    wrong = sum(abs(aten.get(k, 0) - theirs.get(k, 0)) for k in {*aten, *theirs})
    whole = max(1, sum(theirs.values()))
    for k in sorted(theirs, key=theirs.get, reverse=True)[:12]:
        print(f'    {k:44s} {aten.get(k, 0):8d} {theirs[k]:8d}')
    print(f'  launches: {total1 - total0} seen, {sum(got.values())} under an operator; profiler {whole}')
    check(wrong <= whole * 0.01, f'launches by operator within 1 %: {wrong} of {whole} elsewhere')
    lost = {k: v for layer in s['lost'].values() for k, v in layer.items() if k not in ('late_attach', 'map_notices', 'first_calls')}
    check(not lost, f'nothing lost: {s["lost"]}')
    torch_lib = [a for a in s['attached'] if 'libtorch_cpu' in a['path']]
    check(torch_lib and torch_lib[0]['probes'] > 3000 and torch_lib[0]['probes_stepped'] == 0,
          f'no probe of an operator is single-stepped: {torch_lib}')  # fmt: skip
    check(not [a for a in s['attach_failures'] if 'libtorch' in a['path']], f'failures: {s["attach_failures"][:4]}')


def boot():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def spin(size, seconds):
    import torch

    step = make_step(size)
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    end, last, n = time.monotonic() + seconds, 0, 0
    every = 20 if size == 'small' else 1
    while time.monotonic() < end:
        for _ in range(every):
            step()
        n += every
        torch.cuda.synchronize()
        if time.monotonic() - last > 0.1:
            last = time.monotonic()
            print(boot(), n, flush=True)


def start_tracer(gpuscope, way, pid):
    if WAYS[way] is None:
        time.sleep(1)
        return None
    tracer = subprocess.Popen([gpuscope, 'trace', '-q', '-v', '-p', str(pid), '--summary', '/tmp/torch_check.txt', *WAYS[way]],
                              stderr=subprocess.PIPE, text=True)  # fmt: skip
    marker = 'libtorch_cpu' if 'torch' in WAYS[way][0] else 'libcudart'
    for line in tracer.stderr:
        if marker in line and 'probes' in line:
            break
    threading.Thread(target=tracer.stderr.read, daemon=True).start()
    time.sleep(0.7)
    return tracer


def slowdown(gpuscope, size, rounds):
    total = (TURN + 4) * len(WAYS) * rounds + 60
    app = subprocess.Popen([sys.executable, '-u', __file__, 'spin', size, str(total)], stdout=subprocess.PIPE, text=True)
    times, steps = [], []

    def read():
        for line in app.stdout:
            t, n = line.split()
            times.append(int(t))
            steps.append(int(n))

    threading.Thread(target=read, daemon=True).start()
    while len(times) < 10:
        if app.poll() is not None:
            sys.exit('the training loop ended early')
        time.sleep(0.1)
    rates, ends = collections.defaultdict(list), []
    for _ in range(rounds):
        for way in WAYS:
            tracer = start_tracer(gpuscope, way, app.pid)
            begin = boot()
            time.sleep(TURN)
            end = boot()
            if tracer:
                stop = time.monotonic()
                tracer.send_signal(2)
                tracer.wait()
                ends.append(time.monotonic() - stop)
            time.sleep(0.3)
            i, j = bisect.bisect_left(times, begin), bisect.bisect_right(times, end) - 1
            rates[way].append((steps[j] - steps[i]) / ((times[j] - times[i]) / 1e9))
    app.kill()
    print(f'{size} transformer, {rounds} rounds of {TURN:.0f} s, iterations/s; tracing ends in {max(ends):.2f} s at most')
    slower = {}
    for way, values in rates.items():
        slower[way] = statistics.median(100 * (1 - v / b) for v, b in zip(values, rates['none']))
        print(f'  {way:32s} median {statistics.median(values):8.2f}  slower by {slower[way]:5.2f} %   '
              f'({" ".join(f"{v:.1f}" for v in values)})')  # fmt: skip
    target = 5 if size == 'small' else 1
    way = 'operators, CUDA, NCCL: events'
    check(slower[way] < target, f'{size}: whole events of operators, CUDA and NCCL slow down by {slower[way]:.2f} %, target {target} %')


def main():
    what, *args = sys.argv[1:]
    if what == 'steps':
        run_steps(int(args[0]))
    elif what == 'profile':
        profile(int(args[0]), args[1])
    elif what == 'compare':
        compare(*args[:3], int(args[3]))
    elif what == 'spin':
        spin(args[0], float(args[1]))
    elif what == 'slowdown':
        slowdown(args[0], args[1], int(args[2]))
    else:
        sys.exit(__doc__)
    sys.exit(failed > 0)


main()
