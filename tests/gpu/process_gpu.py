"""A program of tests/gpu/process_gpu.sh: process_gpu.py FOLDER. Waits for files in FOLDER and writes what it did there, by its own count.

  ready    it has a context; go-N -> done-N (JSON), for
  go-1     20,000 additions, each one kernel, a wait after each hundred: how long one took
  go-2     the same, traced, and copies of known size
  go-3     1.5 GiB in tensors of known size
  go-4     matrices multiplied for ten seconds, a wait after each twenty
"""

import json
import os
import sys
import time

import torch

folder = sys.argv[1]


def path(name):
    return os.path.join(folder, name)


def wait_for(name):
    while not os.path.exists(path(name)):
        time.sleep(0.02)


def write(name, **values):
    with open(path(name + '.new'), 'w', encoding='utf-8') as f:
        json.dump(values, f)
    os.rename(path(name + '.new'), path(name))


def launch(n=20000):
    start = time.monotonic()
    for i in range(n):
        x.add_(1)
        if i % 100 == 99:
            torch.cuda.synchronize()
    return (time.monotonic() - start) / n * 1e9


torch.cuda.set_device(0)
x = torch.zeros(1 << 16, device='cuda')
a = torch.randn(2048, 2048, device='cuda')
host = torch.zeros(1 << 20, pin_memory=True)
device = torch.zeros(1 << 20, device='cuda')
a @ a
launch(200)
write('ready', pid=os.getpid())
wait_for('go-1')
write('done-1', ns=min(launch() for _ in range(3)))
wait_for('go-2')
ns = launch()
for _ in range(50):
    device.copy_(host, non_blocking=True)
for _ in range(30):
    host.copy_(device, non_blocking=True)
torch.cuda.synchronize()
write('done-2', kernels=20000, ns=ns, htod=50 * host.nbytes, dtoh=30 * host.nbytes)
wait_for('go-3')
before = torch.cuda.memory_reserved()
held = [torch.empty(512 << 20, dtype=torch.uint8, device='cuda') for _ in range(3)]
torch.cuda.synchronize()
write('done-3', reserved=torch.cuda.memory_reserved() - before)
wait_for('go-4')
end, n = time.monotonic() + 10, 0
while time.monotonic() < end:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    n += 20
write('done-4', n=n)
wait_for('end')
