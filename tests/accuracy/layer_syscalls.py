"""System calls: the program's own numbers, and strace's of the same program."""

import os
import re
import shutil
import subprocess
import sys

from table import Skip, harness, layer
from whole import Whole, work_load

# Whether a lock is met taken, and how a new thread gets its stack, is chance.
CHANCE = ('futex', 'brk', 'madvise', 'mprotect', 'exit', 'exit_group', 'munmap', 'rt_sigreturn', 'restart_syscall')


def summary_of_strace(text):
    """{call: (calls, errors)} of `strace -c`."""
    found = {}
    for line in text.splitlines():
        match = re.match(r'\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\d+)?\s*(\w+)$', line)
        if match and match[3] != 'total':
            found[match[3]] = int(match[1]), int(match[2] or 0)
    return found


@layer('system calls of which the program knows', quick=True)
def known(m):
    w = Whole(m, work_load(), 'calls', 1000)
    m.figure('getppid: calls', w.calls('getppid'), 'the program', 1000)
    m.figure('open: calls', w.calls('open'), 'the program', 500)
    m.figure('open: errors', w.calls('open', 'errors'), 'the program', 500)
    if subprocess.run([work_load(), 'int80', '1'], check=False).returncode == 0:
        m.figure('getppid by the 32-bit door', Whole(m, work_load(), 'int80', 300).calls('getppid (32-bit)'), 'the program', 300)
    if subprocess.run([work_load(), 'uring', '1'], check=False).returncode == 0:
        done = Whole(m, work_load(), 'uring', 100).job['syscall_breakdown']
        m.figure('io_uring: operations that do nothing', done.get('io_uring:NOP', 0), 'the program', 100)
        m.figure('io_uring: writes', done.get('io_uring:WRITE', 0), 'the program', 50)


@layer('system calls of a tree of processes and threads')
def strace(m):
    if not shutil.which('strace'):
        raise Skip('strace is not installed')
    out = m.path('strace')
    # The same words: a shell that becomes the program.
    subprocess.run(['strace', '-f', '-c', '-o', out, 'sh', '-c', 'read go; exec "$@"', 'sh', work_load(), 'tree', '12'],
                   check=True, input='\n', text=True)  # fmt: skip
    wanted = {k: v for k, v in summary_of_strace(harness.read_text(out)).items() if k not in CHANCE}
    w = Whole(m, work_load(), 'tree', 12)
    shell = {}
    # What the shell does before it is followed is not in the report: it ends with the read of one line.
    subprocess.run(['strace', '-c', '-o', out, 'sh', '-c', 'read go'], check=True, input='\n', text=True)
    shell = summary_of_strace(harness.read_text(out))
    for name in sorted(wanted, key=lambda k: -wanted[k][0])[:10]:
        before = shell.get(name, (0, 0))[0]
        m.figure(f'{name}: calls', w.calls(name), 'strace -c', wanted[name][0], before,
                 'exact' if not before else 'calls of the shell that starts the program')  # fmt: skip


NAPS = '''
import time
total = 0
for _ in range(40):
    began = time.monotonic(); time.sleep(0.01); total += time.monotonic() - began
print(total)
'''


@layer('how long system calls take')
def durations(m):
    w = Whole(m, os.path.realpath(sys.executable), '-c', NAPS)
    told = float(w.out)
    got = w.calls('clock_nanosleep', 'total_ns') / 1e9
    n = w.calls('clock_nanosleep')
    m.figure('clock_nanosleep: calls', n, 'the program', 40)
    m.figure('clock_nanosleep: total time', got, "the program's clock", told, 0.1 * told + n * 50e-6,
             '10 %: of calls preempted before they sleep, one in 16 is timed; entry and exit of the call', 's')  # fmt: skip
    sums = sum(b['count'] for c in w.job['syscalls'] if c['name'] == 'clock_nanosleep' for b in c['histogram'])
    m.figure('clock_nanosleep: calls in the histogram', sums, 'the program', 40, 3,
             'of calls preempted before they sleep, one in 16 is timed')  # fmt: skip
