#!/usr/bin/env python3
"""What `gpuscope top` costs: the time until the first screen (machine and processes) and until GPUs stand on it, and the share of a core and the
memory that it takes at one reading a second. With the stand-in library and 8 GPUs unless a real one is
named; a real one is asked by the same calls.

usage: bench/top.py GPUSCOPE [--nvml LIBRARY] [--seconds 30] [--gpus 8] [--processes 16] [--all]
"""
import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time


def start(args, env):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(args[0], args, env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 50, 160, 0, 0))
    return pid, fd


def read_until(fd, words, seconds, text=b''):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.01)[0]:
            text += os.read(fd, 65536)
            if all(w in text for w in words):
                return text
    return None


def cpu_seconds(pid):
    with open(f'/proc/{pid}/schedstat', encoding='ascii') as f:
        main = int(f.read().split()[0])
    total = 0
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/schedstat', encoding='ascii') as f:
            total += int(f.read().split()[0])
    return max(main, total) / 1e9


def rss_mib(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        return next(int(x.split()[1]) for x in f if x.startswith('VmRSS')) / 1024


def drain(fd, seconds):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            os.read(fd, 65536)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('gpuscope')
    parser.add_argument('--nvml')
    parser.add_argument('--seconds', type=float, default=30)
    parser.add_argument('--gpus', type=int, default=8)
    parser.add_argument('--processes', type=int, default=16)
    parser.add_argument('--all', action='store_true', help='show all processes')
    parser.add_argument('--starts', type=int, default=10)
    o = parser.parse_args()
    sleepers = [subprocess.Popen(['sleep', '600']) for _ in range(o.processes)]
    env = {**os.environ, 'TERM': 'xterm-256color', 'LC_ALL': 'C.UTF-8',
           'FAKE_NVML': f'gpus={o.gpus},pids=' + ':'.join(str(s.pid) for s in sleepers[:64])}  # fmt: skip
    args = [o.gpuscope, 'top', *(['--nvml', o.nvml] if o.nvml else []), *(['-a'] if o.all else [])]
    try:
        firsts, gpus = [], []
        for _ in range(o.starts):
            begin = time.monotonic()
            pid, fd = start(args, env)
            text = read_until(fd, [b'COMMAND'], 20)
            if text is None:
                sys.exit('no screen came')
            firsts.append((time.monotonic() - begin) * 1000)
            if b'MHz' not in text and read_until(fd, [b'MHz'], 20, text) is None:
                sys.exit('no GPU came onto the screen')
            gpus.append((time.monotonic() - begin) * 1000)
            os.write(fd, b'q')
            os.waitpid(pid, 0)
            os.close(fd)
        for what, ms in (('the first screen', firsts), ('GPUs are on the screen', gpus)):
            ms.sort()
            print(f'until {what}: median {ms[len(ms) // 2]:.0f} ms, most {ms[-1]:.0f} ms')
        pid, fd = start(args, env)
        drain(fd, 3)
        before, begin = cpu_seconds(pid), time.monotonic()
        drain(fd, o.seconds)
        used, wall = cpu_seconds(pid) - before, time.monotonic() - begin
        print(f'at 1 Hz: {100 * used / wall:.2f} % of a core, {rss_mib(pid):.1f} MiB')
        os.write(fd, b'q')
        os.waitpid(pid, 0)
    finally:
        for s in sleepers:
            s.kill()


if __name__ == '__main__':
    main()
