#!/usr/bin/env python3
"""Programs whose trouble is known by construction: `programs.py NAME [SECONDS]` does NAME for SECONDS (4).

A loop ends by the clock. The share of the trouble is a ratio of steps, so that it holds on a machine of any
speed: trouble is more than 70 % of the wall time, a near miss less than 25 %. Programs that a tracer attaches
to print `ready` when their start is over."""

import ctypes
import mmap
import multiprocessing
import os
import queue
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
SCRATCH = os.environ.get('VERDICTS_SCRATCH', '/tmp')
programs = {}


def program(f):
    programs[f.__name__] = f
    return f


def ready():
    print('ready', flush=True)


def steps(seconds=None):
    """Yields until the time is over."""
    end = time.monotonic() + (seconds or SECONDS)
    while time.monotonic() < end:
        yield


def compute_ms(ms):
    """Computes for so much processor time of this thread."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        sum(range(200))


# --- PyTorch on the CPU ---

def torch_loop(getitem, workers, compute_size, collate=None, batch=8):
    import torch
    from torch.utils.data import DataLoader, Dataset
    torch.set_num_threads(1)

    class Data(Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, i):
            return getitem(torch, i)

    def stack(items):
        if collate:
            collate()
        return torch.stack(items)

    model = torch.nn.Sequential(torch.nn.Linear(64, compute_size), torch.nn.ReLU(), torch.nn.Linear(compute_size, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    n = 0
    for x in DataLoader(Data(), batch_size=batch, num_workers=workers, collate_fn=stack):
        if n == 2:
            ready()
            end = time.monotonic() + SECONDS
        n += 1
        repeat = 1 if compute_size < 512 else 4
        for _ in range(repeat):
            optimizer.zero_grad()
            loss = (model(x.repeat(max(1, compute_size // 16), 1)) ** 2).mean()
            loss.backward()
            optimizer.step()
        if n > 2 and time.monotonic() > end:
            break
    os._exit(0)


def sleepy(ms):
    def get(torch, i):
        time.sleep(ms / 1e3)
        return torch.ones(64) * (i % 7)
    return get


def from_disk(torch, i):
    path = os.path.join(SCRATCH, 'verdicts.data')
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, 1 << 20)
    for k in range(24):
        os.preadv(fd, [room], ((i * 24 + k) % 192) << 20)
    os.close(fd)
    return torch.ones(64) * room[0]


def tokenised(torch, i):
    compute_ms(6)
    return torch.ones(64) * (i % 7)


@program
def torch_item_w0():
    torch_loop(sleepy(6), 0, 64)


@program
def torch_item_w1():
    torch_loop(sleepy(6), 1, 64)


@program
def torch_item_w4():
    torch_loop(sleepy(24), 4, 64)


@program
def torch_item_w8():
    torch_loop(sleepy(48), 8, 64)


@program
def torch_disk_w0():
    torch_loop(from_disk, 0, 64)


@program
def torch_collate_w1():
    torch_loop(sleepy(0), 1, 64, collate=lambda: time.sleep(0.05))


@program
def torch_tokenise_w0():
    torch_loop(tokenised, 0, 64)


@program
def torch_tokenise_w1():
    torch_loop(tokenised, 1, 64)


@program
def torch_compute_w0():
    torch_loop(sleepy(0.1), 0, 1024)


@program
def torch_compute_w2():
    torch_loop(sleepy(0.1), 2, 1024)


@program
def torch_no_loader():
    import torch
    torch.set_num_threads(1)
    a = torch.rand(512, 512)
    ready()
    for _ in steps():
        a = torch.tanh(a @ a)


# --- locks ---

@program
def gil_threads():
    threads = [threading.Thread(target=lambda: [sum(range(1000)) for _ in steps()]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


@program
def gil_parked():
    q = queue.Queue()
    for _ in range(3):
        threading.Thread(target=q.get, daemon=True).start()
    for _ in steps():
        compute_ms(20)


@program
def process_lock():
    """Fourteen processes share a lock; who has it sleeps, and comes last again."""
    lock, children = multiprocessing.Lock(), []

    def work():
        for _ in steps():
            with lock:
                time.sleep(0.01)
            time.sleep(0.001)

    for _ in range(14):
        children.append(multiprocessing.Process(target=work))
        children[-1].start()
    for c in children:
        c.join()


@program
def process_pool_idle():
    """Nobody gives the workers of a pool work: they wait for a lock, and one of them for a pipe."""
    with multiprocessing.Pool(6) as pool:
        pool.map(abs, range(6))
        ready()
        threading.Event().wait(SECONDS)


@program
def parked_clock():
    """Threads without work beside one that wakes up now and then: none of them holds a lock."""
    q = queue.Queue()
    for _ in range(3):
        threading.Thread(target=q.get, daemon=True).start()
    clock = threading.Thread(target=lambda: [time.sleep(0.2) for _ in steps()])
    clock.start()
    clock.join()


@program
def python_lock():
    """The lock is the program's own, not the interpreter's: who holds it sleeps."""
    lock = threading.Lock()

    def work():
        for _ in steps():
            with lock:
                time.sleep(0.01)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


# --- processors ---

@program
def serial():
    for _ in steps():
        compute_ms(50)


@program
def all_processors():
    pids = []
    for _ in range(os.cpu_count()):
        pid = os.fork()
        if pid == 0:
            serial()
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


@program
def mostly_compute():
    for _ in steps():
        compute_ms(90)
        time.sleep(0.01)


# --- memory and files ---

@program
def thrash():
    """Walks a mapped file four times as large as the memory that the group may have."""
    fd = os.open(os.path.join(SCRATCH, 'verdicts.data'), os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    m = mmap.mmap(fd, 192 << 20, prot=mmap.PROT_READ)
    m.madvise(mmap.MADV_RANDOM)
    x, n = 12345, 192 << 8
    for _ in steps():
        for _ in range(500):
            x = (x * 1103515245 + 12345) & 0x7fffffff
            m[(x >> 3) % n << 12]


@program
def stream_file():
    """Reads through a file again and again: the group's memory is full of page cache, which is no trouble."""
    fd = os.open(os.path.join(SCRATCH, 'verdicts.data'), os.O_RDONLY)
    for _ in steps():
        os.lseek(fd, 0, 0)
        for block in iter(lambda: os.read(fd, 1 << 20), b''):
            block.count(b'\0')
            sum(block[:60000])


@program
def sqlite_commits():
    path = os.path.join(SCRATCH, f'verdicts.{os.getpid()}.db')
    db = sqlite3.connect(path)
    db.execute('pragma synchronous=full')
    db.execute('create table t(x)')
    for _ in steps():
        db.execute('insert into t values(1)')
        db.commit()
    os.unlink(path)


@program
def sqlite_memory():
    db = sqlite3.connect(':memory:')
    db.execute('create table t(x)')
    for _ in steps():
        for i in range(2000):
            db.execute('insert into t values(?)', (i,))
        db.commit()


@program
def direct_write():
    """Each write waits for the disk."""
    path = os.path.join(SCRATCH, f'verdicts.{os.getpid()}.out')
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
    room = mmap.mmap(-1, 1 << 20)
    for _ in steps():
        for i in range(8):
            os.pwritev(fd, [room], i << 20)
    os.unlink(path)


# --- network; the peer runs outside of what is traced ---

@program
def peer():
    """Answers each byte after 20 ms; reads what comes without being asked slowly."""
    server = socket.create_server(('127.0.0.1', 0))
    print(f'ready {server.getsockname()[1]}', flush=True)
    while True:
        c, _ = server.accept()
        pid = os.fork()
        if pid == 0:
            while data := c.recv(65536):
                time.sleep(0.02)
                if len(data) == 1:
                    c.send(b'y')
            os._exit(0)
        c.close()


def connect():
    return socket.create_connection(('127.0.0.1', int(os.environ['VERDICTS_PORT'])))


@program
def request_response():
    c = connect()
    for _ in steps():
        c.send(b'x')
        c.recv(1)


@program
def push():
    c = connect()
    c.settimeout(None)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        c.send(b'x' * 65536)


@program
def network_compute():
    c = connect()
    for _ in steps():
        c.send(b'x')
        c.recv(1)
        compute_ms(250)


# --- waiting on purpose, children, servers ---

@program
def epoll_server():
    server = socket.create_server(('127.0.0.1', 0))
    ep = select.epoll()
    ep.register(server, select.EPOLLIN)
    ready()
    ep.poll(SECONDS + 30)


@program
def busy_server():
    a, b = socket.socketpair()
    if os.fork() == 0:
        for _ in steps(SECONDS + 1):
            if a.send(b'x') != 1 or not a.recv(1):
                break
        os._exit(0)
    a.close()
    ep = select.epoll()
    ep.register(b, select.EPOLLIN)
    for _ in steps():
        ep.poll()
        b.recv(1)
        compute_ms(40)
        b.send(b'y')
    b.close()


@program
def sleep_loop():
    for _ in steps():
        time.sleep(0.1)


@program
def wait_child():
    pid = os.fork()
    if pid == 0:
        serial()
        os._exit(0)
    ready()
    os.waitpid(pid, 0)


@program
def subprocess_runner():
    for _ in steps():
        subprocess.run(['sleep', '0.5'], check=True)


# --- ends ---

@program
def compute_then_one():
    serial()
    sys.exit(1)


@program
def sleep_then_raise():
    time.sleep(SECONDS)
    raise RuntimeError('no such key')


@program
def crash():
    serial()
    ctypes.string_at(8)


@program
def abort():
    time.sleep(SECONDS)
    os.abort()


@program
def child_killed():
    pid = os.fork()
    if pid == 0:
        time.sleep(SECONDS / 2)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in steps():
        compute_ms(20)
    sys.exit(1 if os.waitpid(pid, 0)[1] else 0)


@program
def child_ended():
    """As pools of processes do at their end."""
    pid = os.fork()
    if pid == 0:
        time.sleep(3600)
    for _ in steps():
        compute_ms(20)
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)


@program
def deadlock():
    a, b = threading.Lock(), threading.Lock()

    def first():
        with a:
            time.sleep(0.2)
            b.acquire()

    def second():
        with b:
            time.sleep(0.2)
            a.acquire()

    threads = [threading.Thread(target=f) for f in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


# --- MPI, without a compiler for it ---

def mpi(step):
    lib = ctypes.CDLL('libmpi.so.40', mode=ctypes.RTLD_GLOBAL)
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(lib, 'ompi_mpi_comm_world')))
    lib.MPI_Init(None, None)
    rank = ctypes.c_int()
    lib.MPI_Comm_rank(world, ctypes.byref(rank))
    for _ in range(int(SECONDS * 5)):
        step(rank.value)
        lib.MPI_Barrier(world)
    lib.MPI_Finalize()


@program
def mpi_late_asleep():
    mpi(lambda rank: time.sleep(0.2) if rank else None)


@program
def mpi_late_computes():
    mpi(lambda rank: compute_ms(200 if rank else 5))


@program
def mpi_even():
    mpi(lambda rank: compute_ms(200))


if __name__ == '__main__':
    if os.environ.get('VERDICTS_READY') and not sys.argv[1].startswith('torch'):
        ready()
    programs[sys.argv[1]]()
