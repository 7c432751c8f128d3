"""Processes: time, switches, faults and memory, as the kernel has them in /proc and rusage."""

import json
import os
import subprocess
import sys

from table import harness, layer

import job_detail
from whole import Whole, kernel_figures, work_load

PYTHON = os.path.realpath(sys.executable)
# A figure of ours ends when the program has ended, and the kernel's when it is a zombie: what lies between.
END = 5e6


def seconds(usage):
    return usage.ru_utime + usage.ru_stime


@layer('time of a thread that computes', quick=True)
def burn(m):
    w = Whole(m, work_load(), 'burn', 1)
    times = w.job['thread_seconds']
    allowed = 'the end of the process, 1 %'
    m.figure('time on processors', w.job['metrics']['cpu_time_ns'] / 1e9, '/proc/PID/schedstat', w.kernel['cpu_ns'] / 1e9,
             0.01 * w.kernel['cpu_ns'] / 1e9 + END / 1e9, allowed, 's')  # fmt: skip
    m.figure('time on processors', w.job['metrics']['cpu_time_ns'] / 1e9, 'getrusage', seconds(w.usage),
             0.01 * seconds(w.usage) + 0.02, 'the start of the shell, ticks', 's')  # fmt: skip
    m.figure('time in the run queue', times['runqueue'], '/proc/PID/schedstat', w.kernel['runqueue_ns'] / 1e9,
             0.03 * w.kernel['runqueue_ns'] / 1e9 + 2 * END / 1e9, 'the end of the process, 3 %', 's')  # fmt: skip
    total = w.job['duration_seconds']
    m.figure('time in all states', sum(times.values()), "the report's wall time", total, 0.05 * total + 0.1,
             'each begins and ends with its own reading', 's')  # fmt: skip
    m.true('no longer than it was followed, by our clock', sum(times.values()) <= w.most_seconds, (times, w.most_seconds))


@layer('switches', quick=True)
def switches(m):
    w = Whole(m, work_load(), 'pingpong', 2000)
    u = w.usage
    m.figure('context switches of two processes', w.job['metrics']['context_switches'], 'rusage, children included',
             u.ru_nvcsw + u.ru_nivcsw, 12, 'the start of the shell, start and end of the processes', '')  # fmt: skip
    w = Whole(m, work_load(), 'burn', 1)
    kernel = w.kernel['voluntary_ctxt_switches'] + w.kernel['nonvoluntary_ctxt_switches']
    m.figure('context switches of one', w.job['metrics']['context_switches'], '/proc/PID/status', kernel, 3, 'start and end of the process')
    forced = w.job['figures']['forced_switches_per_core_second'] * w.job['figures']['cores'] * w.job['duration_seconds']
    m.figure('forced switches', round(forced), '/proc/PID/status', w.kernel['nonvoluntary_ctxt_switches'], 3, 'start and end of the process')


NAP = 'import time; began = time.monotonic(); time.sleep(0.7); print(time.monotonic() - began)'
LOCK = '''
import threading, time
lock = threading.Lock()
def wait():
    began = time.monotonic()
    with lock: pass
    print(time.monotonic() - began)
lock.acquire()
t = threading.Thread(target=wait)
t.start()
time.sleep(0.8)
lock.release()
t.join()
'''
RECEIVE = '''
import os, socket, time
l = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(l.getsockname())
b = l.accept()[0]
if os.fork() == 0:
    time.sleep(0.6)
    a.send(b"x")
    os._exit(0)
began = time.monotonic()
b.recv(1)
print(time.monotonic() - began)
os.wait()
'''


@layer('what threads wait for')
def waits(m):
    for state, program, what in (('sleep', NAP, 'sleeping'), ('network', RECEIVE, 'waiting for the network')):
        w = Whole(m, PYTHON, '-c', program)
        told = float(w.out)
        m.figure(f'time {what}', w.job['thread_seconds'][state], "the program's clock", told, 0.05 * told + 0.03,
                 '5 %, and waking up', 's')  # fmt: skip
    w = Whole(m, PYTHON, '-c', LOCK)
    told = float(w.out)
    # The main thread joins by a lock as well.
    m.figure('time waiting for a lock', w.job['thread_seconds']['lock'], "the program's clock", told, 0.05 * told + 0.05,
             '5 %, and the join', 's')  # fmt: skip


TOUCH = '''
import mmap, resource, sys
m = mmap.mmap(-1, 40 << 20)
m.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(0, len(m), 4096): m[i] = 1
'''
COLD = '''
import mmap, os, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY)
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
for i in range(0, len(m), 65536): m[i]
'''


@layer('page faults', quick=True)
def faults(m):
    w = Whole(m, PYTHON, '-c', TOUCH)
    m.figure('minor faults', w.job['page_faults']['minor'], '/proc/PID/stat', w.kernel['minflt'], 3 + 0.001 * w.kernel['minflt'],
             'start and end of the process')  # fmt: skip
    m.figure('minor faults', w.job['page_faults']['minor'], 'getrusage', w.usage.ru_minflt, 0.02 * w.usage.ru_minflt,
             'the start of the shell')  # fmt: skip
    path = m.path('cold')
    with open(path, 'wb') as f:
        f.write(os.urandom(16 << 20))
        os.fsync(f.fileno())
    w = Whole(m, PYTHON, '-c', COLD, path)
    m.figure('major faults', w.job['page_faults']['major'], '/proc/PID/stat', w.kernel['majflt'], 3, 'start and end of the process')


HOLD = '''
import sys
held = bytearray(120 << 20)
for i in range(0, len(held), 4096): held[i] = 1
print("ready", flush=True)
sys.stdin.read()
'''


def memory_of(pid):
    found = {}
    for line in harness.read_text(f'/proc/{pid}/smaps_rollup').splitlines()[1:]:
        name, value = line.split(':')
        found[name] = int(value.split()[0]) << 10
    return found


@layer('memory')
def memory(m):
    p = subprocess.Popen([PYTHON, '-c', HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        p.stdout.readline()
        run = m.tool('job', '-p', str(p.pid), '-d', '0.5', '--format', 'json', status=0)
        job = json.loads(run.out)['jobs'][0]
        rollup, status = memory_of(p.pid), {}
        for line in harness.read_text(f'/proc/{p.pid}/status').splitlines():
            if line.startswith(('VmRSS', 'RssAnon', 'Threads')):
                name, value = line.split(':')
                status[name] = int(value.split()[0]) << 10
        m.figure('memory in use', job['figures']['memory_used_bytes'], '/proc/PID/smaps_rollup', rollup['Rss'], 1 << 20,
                 'per-CPU counters of the kernel', 'B')  # fmt: skip
        m.figure('memory in use', job['figures']['memory_used_bytes'], '/proc/PID/status', status['VmRSS'], 1 << 20,
                 'per-CPU counters of the kernel', 'B')  # fmt: skip
        before = kernel_figures(p.pid)
        m.true('it only waits', before['cpu_ns'] > 0)
    finally:
        p.stdin.close()
        p.wait()


@layer('memory of a group')
def group(m):
    folder = job_detail.memory_cgroup()
    p = subprocess.Popen(['sh', '-c', f'echo $$ > {folder}/cgroup.procs; exec "$@"', 'sh', PYTHON, '-c', HOLD.replace('120', '20')],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        p.stdout.readline()
        with open(f'{folder}/cgroup.procs', encoding='ascii') as f:
            m.true('it is in the group', str(p.pid) in f.read().split())
        run = m.tool('job', '--cgroup', '/' + os.path.basename(folder), '-d', '0.5', '--format', 'json', status=0)
        found = json.loads(run.out)['jobs'][0]['figures']
        anonymous, cache = job_detail.stat_of(folder)
        why = 'per-CPU counters of the kernel'
        m.figure('anonymous memory', found['memory_anonymous_bytes'], 'memory.stat', anonymous, 1 << 20, why, 'B')
        m.figure('page cache', found['memory_cache_bytes'], 'memory.stat', cache, 1 << 20, why, 'B')
        m.figure('limit', found['memory_allocated_bytes'], 'written to the group', 48 << 20, unit='B')
    finally:
        p.stdin.close()
        p.wait()
        harness.wait_until(lambda: not harness.read_text(f'{folder}/cgroup.procs'), 10, 'an empty cgroup')
        os.rmdir(folder)


@layer('a group with a quota')
def quota(m):
    folder = job_detail.quota_cgroup()
    try:
        # The shell that waits for the word to go has reached the quota before.
        read = []
        w = Whole(m, work_load(), 'burn', 4, when_followed=lambda: read.append(throttled_ns(folder)),
                  inside=['sh', '-c', f'echo $$ > {folder}/cgroup.procs; exec "$@"', 'sh'])  # fmt: skip
        stopped_s = (throttled_ns(folder) - read[0]) / 1e9
        m.figure('processors', w.job['figures']['cores'], 'written to the group', 0.02, 1e-9, 'floating point')
        m.figure('time it was stopped', w.job['figures']['cpu_throttled_seconds'], 'cpu.stat', stopped_s, 0.1,
                 'one period: a throttling that ends with the process', 's')  # fmt: skip
    finally:
        harness.wait_until(lambda: not harness.read_text(f'{folder}/cgroup.procs'), 10, 'an empty cgroup')
        os.rmdir(folder)


def throttled_ns(folder):
    """Either version of cgroups."""
    found = dict(x.split() for x in harness.read_text(f'{folder}/cpu.stat').splitlines())
    return int(found['throttled_time']) if 'throttled_time' in found else int(found['throttled_usec']) * 1000
