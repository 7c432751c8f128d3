"""A Python program whose stacks are known: the target of python.py. Every mark() is a cudaMalloc of
so many bytes as the mark's number, and writes down the stack that Python itself tells there.

usage: python_target.py OUT CASE...     (OUT.PID: one JSON object a line)
PYTHON_TARGET_READY: it waits for OUT.ready.PID.ADDRESS, which says that the stacks of this interpreter are read.
Runs on Python 3.8 and newer without anything installed.
"""
import asyncio
import ctypes
import functools
import itertools
import json
import os
import subprocess
import sys
import threading

out, told, lock = sys.argv[1], [], threading.Lock()
cuda = ctypes.CDLL('libcudart.so.13')
cuda.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
cell = ctypes.c_void_p()
numbers = itertools.count(os.getpid() * 4096)


def note(frame, number):
    stack = []
    while frame:
        code = frame.f_code
        stack.append([code.co_filename, getattr(code, 'co_qualname', code.co_name), frame.f_lineno])
        frame = frame.f_back
    with lock:
        told.append({'number': number, 'pid': os.getpid(), 'stack': stack[1:]})


def mark():
    number = next(numbers); note(sys._getframe(), number); cuda.cudaMalloc(ctypes.byref(cell), number)  # fmt: skip


def flush():
    with open('%s.%d' % (out, os.getpid()), 'a') as f:
        for line in told:
            f.write(json.dumps(line) + '\n')
    told.clear()


cases = {}


def case(function):
    cases[function.__name__] = function
    return function


@case
def plain():
    def inner(
        a,
        b=1,
    ):
        mark()
        return (a +
                bottom(b))  # fmt: skip

    def bottom(x):
        if x:
            mark()
        for i in range(3):
            mark(
            )  # fmt: skip
        return x

    inner(1)
    (lambda: [mark() for i in range(2)])()

    class Body:
        mark()

        @property
        def value(self):
            mark()
            return 1

        @functools.lru_cache(maxsize=None)
        def cached(self):
            mark()

    Body().value
    Body().cached()

    class Made:
        def __init__(self):
            mark()

    # From some calls on, the interpreter runs __init__ in another way.
    for i in range(40):
        Made()


@case
def recursion():
    def down(n):
        mark() if n == 0 else down(n - 1)

    for n in (1, 20, 100, 126, 127, 128, 129, 300):
        down(n)


@case
def generators():
    def leaf():
        for i in range(3):
            mark()
            yield i

    def middle():
        yield from leaf()
        yield (yield from leaf())

    for x in middle():
        mark()
    list(x for x in middle())
    sum(map(lambda x: x or 0, middle()))


@case
def coroutines():
    async def leaf(n):
        mark()
        await asyncio.sleep(0)
        mark()
        return n

    async def each():
        for i in range(2):
            mark()
            yield await leaf(i)

    async def top():
        async for x in each():
            mark()
        await asyncio.gather(leaf(1), leaf(2))

    asyncio.run(top())


@case
def callbacks():
    sorted(range(5), key=lambda x: mark() or x)
    list(map(lambda x: mark(), [1, 2]))
    functools.reduce(lambda a, b: mark() or 1, [1, 2, 3])
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def order(a, b):
        mark()
        return 0

    array = (ctypes.c_int * 4)(4, 3, 2, 1)
    ctypes.CDLL(None).qsort(array, 4, 4, compare(order))

    class Gone:
        def __del__(self):
            mark()

    gone = Gone()
    del gone
    'x'.join(str(i) for i in range(2) if mark() is None)


@case
def exceptions():
    class Guard:
        def __enter__(self):
            mark()

        def __exit__(self, *a):
            mark()
            return True

    def fails(n):
        try:
            if n:
                fails(n - 1)
            raise ValueError(n)
        finally:
            mark()

    with Guard():
        fails(3)
    try:
        fails(2)
    except ValueError:
        mark()
        try:
            {}['x']
        except KeyError:
            mark()
    else:
        mark()


@case
def unicode_names():
    def café():
        mark()

    def 中文():
        café()

    def 𠀀():
        中文()

    𠀀()
    for file in ('caf\u00e9.py', '\u4e2d\u6587.py', '\U00020000.py', 'x' * 700 + '.py', '\u4e2d' * 400 + '.py'):
        exec(compile('def made():\n\n    mark()\nmade()\n', file, 'exec'), {'mark': mark})
    name = 'f' + 'o' * 600
    exec(compile('def %s():\n mark()\n%s()' % (name, name), 'long.py', 'exec'), {'mark': mark})


@case
def made_and_freed():
    # Code objects come and go at the same addresses: each has lines and names of its own.
    for i in range(60):
        text = '\n' * i + 'def made_%d(): mark()\nmade_%d()' % (i % 7, i % 7)
        exec(compile(text, 'made_%d.py' % (i % 5), 'exec'), {'mark': mark})


@case
def long_function():
    lines = ['def long():', ' x = 0'] + [' x = x + %d' % i for i in range(6000)] + [' mark()', ' return x']
    lines[3000] = ' mark()'
    exec(compile('\n'.join(lines) + '\nlong()', 'long_function.py', 'exec'), {'mark': mark})


@case
def threads():
    def work(n):
        for i in range(5):
            deeper(n)

    def deeper(n):
        if n:
            return deeper(n - 1)
        mark()

    all = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for t in all:
        t.start()
    for t in all:
        t.join()


@case
def many_threads():
    # More than one look at the list of threads passes over.
    hold, ready = threading.Event(), threading.Semaphore(0)

    def work():
        ready.release()
        hold.wait()
        mark()

    all = [threading.Thread(target=work) for i in range(300)]
    for t in all:
        t.start()
    for t in all:
        ready.acquire()
    mark()
    hold.set()
    for t in all:
        t.join()


@case
def forks():
    def child():
        global numbers
        numbers = itertools.count(os.getpid() * 4096)
        mark()
        flush()
        os._exit(0)

    mark()
    flush()
    for i in range(3):
        pid = os.fork()
        if pid == 0:
            child()
        os.waitpid(pid, 0)
    mark()


@case
def executes():
    # The same process number, another program.
    flush()
    if os.environ.get('PYTHON_TARGET_AGAIN') is None:
        mark()
        flush()
        os.environ['PYTHON_TARGET_AGAIN'] = '1'
        program = os.environ.get('PYTHON_TARGET_OTHER', sys.executable)
        os.execv(program, [program, os.path.abspath(__file__), out, 'executes'])
    wait_for_probes()
    for i in range(10):
        next(numbers)
    mark()


def wait_for_probes():
    """What reads the stacks of a program that has just begun needs some milliseconds to find out, and the longer the
    busier the machine is."""
    import time

    if 'PYTHON_TARGET_READY' not in os.environ:
        time.sleep(0.3)
        return
    # Another program after an exec has its state at another address.
    state = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, '_PyRuntime'))
    end = time.monotonic() + 150
    while not os.path.exists('%s.ready.%d.%x' % (out, os.getpid(), state)) and time.monotonic() < end:
        time.sleep(0.002)


def pool_work(n):
    global numbers
    numbers = itertools.count(os.getpid() * 4096 + 64 * n)
    if n >= 0:
        wait_for_probes()
    mark()
    flush()
    return n


@case
def pools():
    import multiprocessing

    for method in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.map(pool_work, range(4))


@case
def others():
    programs = [subprocess.Popen([p, os.path.abspath(__file__), out, 'plain', 'threads'])
                for p in os.environ['PYTHON_TARGET_OTHERS'].split(':')]  # fmt: skip
    cases['plain']()
    for p in programs:
        assert p.wait() == 0


if __name__ == '__main__':
    wait_for_probes()
    for name in sys.argv[2:]:
        cases[name]()
    flush()
