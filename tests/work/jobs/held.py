"""The loads of the held set, each short of one thing. usage: held.py NAME [ARGUMENT...]"""

import hashlib
import json
import mmap
import multiprocessing
import os
import queue
import select
import socket
import sys
import threading
import time


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def wal():
    """Appends a page and waits until it is on the disk, as the log of a database."""
    fd = os.open('wal', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for n in range(1 << 30):
        os.pwrite(fd, bytes([n & 255]) * 8192, n % 4096 * 8192)
        os.fdatasync(fd)


def produce(items):
    while True:
        time.sleep(0.02)
        items.put(b'x' * 1000)


def starved():
    """Takes items out of the queue of a process that makes one every 20 ms."""
    items = multiprocessing.Queue()
    multiprocessing.Process(target=produce, args=(items,)).start()
    while items.get():
        compute(0.003)


def thread_queue():
    """The same, from a thread of its own."""
    items = queue.Queue()
    threading.Thread(target=produce, args=(items,)).start()
    while items.get():
        compute(0.003)


def cached():
    """Reads a mapped file that is in the page cache, over and over."""
    with open('cached', 'w+b') as f:
        f.write(os.urandom(64 << 20))
        f.flush()
        os.fsync(f.fileno())
        at = mmap.mmap(f.fileno(), 0)
        while True:
            for i in range(0, len(at), 1 << 20):
                hashlib.blake2b(at[i : i + (1 << 20)])


def connect(port):
    while True:
        try:
            return socket.create_connection(('127.0.0.1', int(port)))
        except OSError:
            time.sleep(0.1)


def drip(port):
    """Sends 64 KiB every 50 ms to whoever connects."""
    with socket.create_server(('127.0.0.1', int(port))) as s:
        to, _ = s.accept()
        while True:
            to.sendall(bytes(65536))
            time.sleep(0.05)


def receive(port):
    s = connect(port)
    while s.recv(65536):
        pass


def poll():
    """A server that looks every 10 ms whether there is something to do."""
    with socket.create_server(('127.0.0.1', 0)) as s:
        while True:
            select.select([s], [], [], 0)
            os.path.exists('work-to-do')
            time.sleep(0.01)


def gil():
    """Four threads that parse JSON: one at a time."""
    text = json.dumps({str(i): [i] * 20 for i in range(50)})

    def parse():
        while True:
            json.loads(text)

    for _ in range(4):
        threading.Thread(target=parse).start()


def pool():
    """Computes beside six threads that have a little to do now and then."""
    work = queue.Queue()

    def helper():
        while work.get():
            sum(range(100))

    for _ in range(6):
        threading.Thread(target=helper).start()
    while True:
        compute(0.02)
        for _ in range(6):
            work.put(1)


def torch_loop(workers, kind):
    """A training loop of PyTorch whose items are: tokens (computed), slow (waited for), disk (read past the cache)."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)

    class Data(Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, i):
            if kind == 'tokens':
                compute(0.006)
            elif kind == 'slow':
                time.sleep(0.02)
            else:
                fd = os.open('big', os.O_RDONLY | os.O_DIRECT)
                page = mmap.mmap(-1, 1 << 20)
                for k in range(16):
                    os.preadv(fd, [page], (i * 16 + k) % 512 << 20)
                os.close(fd)
            return torch.ones(64) * (i % 7)

    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in DataLoader(Data(), batch_size=8, num_workers=int(workers)):
        optimizer.zero_grad()
        (model(x.repeat(64, 1)) ** 2).mean().backward()
        optimizer.step()


if __name__ == '__main__':
    globals()[sys.argv[1]](*sys.argv[2:])
