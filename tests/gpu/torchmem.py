"""PyTorch's allocator as gpuscope sees it against what PyTorch says of itself.

torchmem.py run OUT.json          the workload; writes torch.cuda.memory_stats()
torchmem.py check SUMMARY OUT     compares; prints PASS or FAIL for each number
"""
import json
import sys


def run(out):
    import torch

    torch.cuda.init()
    held = []
    model = torch.nn.Sequential(torch.nn.Linear(1000, 3000), torch.nn.ReLU(), torch.nn.Linear(3000, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        loss = model(torch.randn(64 + step, 1000, device='cuda')).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            held.append(torch.empty(12345 + step, device='cuda'))
    torch.cuda.synchronize()
    with open(out, 'w') as f:
        json.dump({'stats': torch.cuda.memory_stats(), 'version': torch.__version__}, f)
    # What is left now is what was left then: nothing is freed in order any more.
    sys.stdout.flush()
    import os

    os._exit(0)


def check(summary, out):
    seen = json.load(open(summary))
    said = json.load(open(out))['stats']
    rows = [a for a in seen.get('allocators', []) if a['device'] == 0]
    if not rows:
        print('FAIL torchmem: no allocations were seen (has this libc10_cuda the static probes pytorch:malloc?)')
        return 1
    got, bad = rows[0], 0
    # The probe has the bytes asked for; memory_stats() calls these "requested".
    for what, a, b in (
        ('live bytes', got['live_bytes'], said.get('requested_bytes.all.current')),
        ('peak bytes', got['peak_bytes'], said.get('requested_bytes.all.peak')),
        ('allocated in all', got['allocated_bytes'], said.get('requested_bytes.all.allocated')),
        ('allocations', got['allocations'], said['allocation.all.allocated']),
        ('frees', got['frees'], said['allocation.all.freed']),
        ('unfreed blocks', sum(u['blocks'] for u in seen['unfreed'] if u['device'] == 0), said['allocation.all.current']),
        ('reserved bytes', got['process_reserved_bytes'], said['reserved_bytes.all.current']),
    ):
        if b is None:
            print(f'SKIP torchmem {what}: this PyTorch does not tell')
            continue
        bad += a != b
        print(f'{"PASS" if a == b else "FAIL"} torchmem {what}: gpuscope {a}, PyTorch {b}')
    return bad


if sys.argv[1] == 'run':
    run(sys.argv[2])
else:
    sys.exit(bool(check(*sys.argv[2:4])))
