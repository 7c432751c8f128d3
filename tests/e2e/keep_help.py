"""A program that says of each of its calls when it began and ended, and the records of a .gst file."""

import os
import sys

import harness
from harness import read_text, wait_until
from head_help import unpack

sys.path.insert(0, os.path.join(harness.HERE, '..'))
import gst  # noqa: E402

gst.unpack = lambda payload, raw_bytes: unpack(1, raw_bytes, payload)

# Calls until there is a file of that name; of each, when it began and ended (boot clock) goes into another one.
PROGRAM = """
import ctypes, os, sys, time
stop, log = sys.argv[1:3]
rt = ctypes.CDLL(sys.argv[3])
p = ctypes.c_void_p()
rt.cudaMalloc.restype = ctypes.c_int
def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
with open(log, 'w', buffering=1) as f:
    while not os.path.exists(stop):
        a = now()
        rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(4096))
        f.write(f'{a} {now()}\\n')
        time.sleep(0.002)
"""


class Caller:
    """PROGRAM, as a command or a process."""

    n = 0

    def __init__(self, t):
        Caller.n += 1
        self.stop, self.log = t.path(f'stop{Caller.n}'), t.path(f'log{Caller.n}')
        self.command = [sys.executable, '-c', PROGRAM, self.stop, self.log, os.path.join(harness.fake, 'libcudart.so.13')]

    def calls(self):
        """Whole lines: [(begin, end)]."""
        text = read_text(self.log) if os.path.exists(self.log) else ''
        return [tuple(map(int, line.split())) for line in text[: text.rfind('\n') + 1].splitlines()]

    def wait(self, seconds):
        """Until so many seconds of calls from now on are there."""
        wait_until(lambda: len(self.calls()) > 0, 30, 'a call')
        last = self.calls()[-1][1]
        wait_until(lambda: self.calls()[-1][1] > last + seconds * 1e9, 60, 'calls')

    def end(self):
        open(self.stop, 'w').close()


def keeps_attributes(t):
    """Has the file system of the case's folder extended attributes?"""
    path = t.path('attribute')
    with open(path, 'w', encoding='utf-8'):
        pass
    try:
        os.setxattr(path, 'user.x', b'y')
    except OSError:
        return False
    return True


def records(path):
    with open(path, 'rb') as f:
        reader = gst.Reader(f.read())
    return [r for _, found in reader.frames() for r in found]
