"""A Python program whose calls are known: the target of pycalls.py.

usage: pycalls_target.py COUNT_FILE|- CASE...
With a file it counts its own calls by sys.setprofile, as [file, function, first line, number], and
writes them there; from Python 3.12 on a fifth element has the frames that ended by a return or an
exception (sys.monitoring), and not by a yield. With "-" it runs without being watched.
Runs on Python 3.8 and newer without anything installed.
"""
import collections
import ctypes
import json
import os
import sys
import threading

counts_of = collections.defaultdict(collections.Counter)  # of each thread: what two add to is not kept apart by `+=`


def count(frame, event, arg):
    if event == 'call' and frame.f_code.co_filename in (__file__, '<made>'):
        code = frame.f_code
        counts_of[threading.get_ident()][code.co_filename, code.co_name, code.co_firstlineno] += 1

ends_of = collections.defaultdict(collections.Counter)  # the same of frames that ended


def end(code, offset, value):
    if code.co_filename in (__file__, '<made>'):
        ends_of[threading.get_ident()][code.co_filename, code.co_name, code.co_firstlineno] += 1


def watch_ends(on):
    if hasattr(sys, 'monitoring') and sys.argv[1] != '-':
        m = sys.monitoring
        if on:
            m.use_tool_id(3, 'ends')
            m.register_callback(3, m.events.PY_RETURN, end)
            m.register_callback(3, m.events.PY_UNWIND, end)
        m.set_events(3, m.events.PY_RETURN | m.events.PY_UNWIND if on else 0)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def recursion():
    fib(14)


def sink(n):
    return sink(n - 1) + 1 if n else 0


def deep():
    assert sink(400) == 400


def numbers(n):
    try:
        for i in range(n):
            got = yield i
            if got:
                return
    except KeyError:
        yield -1


def delegating(n):
    yield from numbers(n)


def generators():
    assert sum(numbers(50)) == 1225
    assert sum(delegating(20)) == 190
    assert sum(x * x for x in numbers(10)) == 285
    g = numbers(5)
    next(g)
    assert g.throw(KeyError()) == -1
    g.close()
    g = numbers(5)
    next(g)
    g.close()  # enters it once more
    numbers(3)  # never entered


async def inner(n):
    return n


async def outer(n):
    return sum([await inner(i) for i in range(n)])


def coroutines():
    c = outer(7)
    try:
        c.send(None)
    except StopIteration as e:
        assert e.value == 21


class Thing:
    made = 0

    def __init__(self, n):
        self.n = n
        Thing.made += 1

    def __lt__(self, other):
        return self.n < other.n

    @property
    def value(self):
        return self.n

    def __del__(self):
        Thing.made -= 1


def from_c():
    things = sorted(Thing(i * 7919 % 101) for i in range(101))
    assert [t.value for t in things] == list(range(101))
    assert list(map(lambda t: t.value, things[:5])) == [0, 1, 2, 3, 4]
    del things
    assert Thing.made == 0


def fails(n):
    if n:
        try:
            return fails(n - 1)
        finally:
            fib(1)
    raise ValueError


def exceptions():
    for i in range(10):
        try:
            fails(i)
        except ValueError:
            pass


def made_and_freed():
    """Code objects that take each other's places in memory."""
    for i in range(300):
        names = {}
        exec(compile('def made_%d(x):\n    return x + 1\n' % (i % 150), '<made>', 'exec'), names)
        for f in [f for k, f in names.items() if k.startswith('made_')]:
            assert f(1) == 2
        del f, names


def work(n):
    for i in range(n):
        fib(3)


def threads():
    all_of_them = [threading.Thread(target=work, args=(50 + i,)) for i in range(6)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()


def forks():
    for i in range(5):
        pid = os.fork()
        if not pid:
            sys.setprofile(None)
            watch_ends(False)
            work(20)
            os._exit(0)
        os.waitpid(pid, 0)
        if sys.getprofile():
            for counts in (counts_of[threading.get_ident()], ends_of[threading.get_ident()]):
                counts[__file__, 'work', work.__code__.co_firstlineno] += 1
                counts[__file__, 'fib', fib.__code__.co_firstlineno] += 20 * 5


class Dim3(ctypes.Structure):
    _fields_ = [('x', ctypes.c_uint), ('y', ctypes.c_uint), ('z', ctypes.c_uint)]


def launch(cuda):
    one = Dim3(1, 1, 1)
    assert cuda.cudaLaunchKernel(ctypes.c_void_p(64), one, one, None, ctypes.c_size_t(0), None) == 0


def layer(cuda, n):
    for i in range(n):
        launch(cuda)


def launches():
    cuda = ctypes.CDLL('libcudart.so.13')
    for i in range(4):
        layer(cuda, 3)
    launch(cuda)


def main():
    for name in sys.argv[2:]:
        globals()[name]()


if sys.argv[1] != '-':
    threading.setprofile(count)
    sys.setprofile(count)
    watch_ends(True)
main()
sys.setprofile(None)
if sys.argv[1] != '-':
    watch_ends(False)
    with open(sys.argv[1], 'w') as f:
        counts = sum(counts_of.values(), collections.Counter())
        ends = sum(ends_of.values(), collections.Counter())
        json.dump([[*k, counts[k], ends[k]] for k in {**counts, **ends}], f)
