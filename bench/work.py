#!/usr/bin/env python3
"""What counting a program's system calls and switches costs it: nothing, programs that do nothing (the
kernel's own cost, bench/floor_sys.c), gpuscope's probes of the host, bpftrace doing the same sums,
strace -c; interleaved in one run. Gives the least of all rounds, since whatever else runs on the machine
only adds, what that adds to each call, and what share of a processor it is at 100,000 calls a second.

usage: bench/work.py BUILD_FOLDER [--rounds 7] [--calls 1000000]
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

BPFTRACE = '''
tracepoint:raw_syscalls:sys_enter /pid == %d/ { @start[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@start[tid]/ {
    $took = nsecs - @start[tid];
    @calls[args->id] = count();
    @errors[args->id] = sum(args->ret < 0);
    @time[args->id] = sum($took);
    @hist[args->id] = hist($took);
    delete(@start[tid]);
}
'''
BPFTRACE_SWITCH = '''
tracepoint:sched:sched_switch {
    if (@since[args->prev_pid]) { @cpu[args->prev_pid] = sum(nsecs - @since[args->prev_pid]); }
    @since[args->prev_pid] = nsecs;
    if (@since[args->next_pid]) { @off[args->next_pid] = sum(nsecs - @since[args->next_pid]); }
    @since[args->next_pid] = nsecs;
}
tracepoint:sched:sched_wakeup { @since[args->pid] = nsecs; }
'''


class Held:
    """A program that waits for a word before it begins, so that probes are there first."""

    def __init__(self, words):
        self.proc = subprocess.Popen(['sh', '-c', 'read go; exec "$@"', 'sh', *words], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.pid = self.proc.pid

    def run(self):
        """Processor time that it and its children took: what others do on the machine is not in it."""
        self.proc.stdin.write('\n')
        self.proc.stdin.close()
        out = self.proc.stdout.read()
        _, status, used = os.wait4(self.pid, 0)
        self.proc.returncode = status
        return out.strip(), used.ru_utime + used.ru_stime


def with_watch(watch, options):
    def start(pid):
        proc = subprocess.Popen([watch, '-q', '-p', str(pid), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert proc.stdout.readline() == b'ready\n'
        return lambda: proc.communicate()

    return start


def with_floor(floor, program):
    def start(pid):
        proc = subprocess.Popen([floor, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert proc.stdout.readline() == b'ready\n'
        return lambda: proc.communicate()

    return start


def with_bpftrace(script):
    def start(pid):
        text = script % pid if '%d' in script else script
        proc = subprocess.Popen(['bpftrace', '-e', text + 'BEGIN { printf("ready\\n"); }'], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)  # fmt: skip
        while b'ready' not in (line := proc.stdout.readline()):
            assert line, proc.stderr.read()
        time.sleep(0.3)

        def stop():
            proc.terminate()
            proc.communicate()

        return stop

    return start


def with_strace(pid):
    proc = subprocess.Popen(['strace', '-c', '-f', '-o', '/dev/null', '-p', str(pid)], stderr=subprocess.PIPE)
    proc.stderr.readline()
    return lambda: proc.wait()


def nothing(pid):
    return lambda: None


def with_account(gpuscope, options):
    def start(pid):
        proc = subprocess.Popen([gpuscope, 'trace', '-q', '-p', str(pid), *options], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)  # fmt: skip
        time.sleep(2)  # nothing says that it is ready, and it ends with the process
        return proc.wait

    return start


def measure(start, words, per):
    held = Held(words)
    stop = start(held.pid)
    out, took = held.run()
    stop()
    return per(out, took)


def table(title, base, rows):
    print(f'\n{title}\n')
    none = min(rows[base])
    print('| | ns | + nothing | of a processor at 100,000/s | to gpuscope |\n|---|---|---|---|---|')
    ours = min(rows['gpuscope, all families']) - none
    for name, values in rows.items():
        value = min(values)
        more = '' if name == base else f'+{value - none:.0f} | {(value - none) / 100:.1f} % | {(value - none) / ours:.2f}'
        print(f'| {name} | {value:.0f} | {more or "| |"} |')


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--calls', type=int, default=1000000)
    o = parser.parse_args()
    watch, load = (os.path.join(o.build, 'tests/work', n) for n in ('work_watch', 'work_load'))
    if os.geteuid() != 0:
        sys.exit('bench/work.py: run it as root')
    floor = os.path.join(o.build, 'bench/floor_sys')
    ways = {'nothing': nothing,
            'floor: empty, at the end': with_floor(floor, 'exit'),
            'floor: empty, at both ends': with_floor(floor, 'both'),
            'floor: at both ends, thread and clock': with_floor(floor, 'time'),
            'gpuscope, all families': with_watch(watch, []),
            'gpuscope, all families, every call timed': with_watch(watch, ['-e', '1']),
            'gpuscope, all families, counts only': with_watch(watch, ['-T']),
            'gpuscope, syscall': with_watch(watch, ['-f', 'syscall']),
            'gpuscope, syscall, counts only': with_watch(watch, ['-T', '-f', 'syscall'])}  # fmt: skip
    gpuscope = os.path.join(o.build, 'src/gpuscope')
    switches = {'nothing': nothing, 'gpuscope, all families': with_watch(watch, []),
                'floor: empty, at switches and wakeups': with_floor(floor, 'sched'),
                'gpuscope trace': with_account(gpuscope, []),
                'gpuscope trace without an account': with_account(gpuscope, ['--disable-feature', 'account']),
                'gpuscope, sched': with_watch(watch, ['-f', 'sched'])}  # fmt: skip
    if shutil.which('bpftrace'):
        ways['bpftrace, the same sums'] = with_bpftrace(BPFTRACE)
        switches['bpftrace, on and off sums'] = with_bpftrace(BPFTRACE_SWITCH)
    if shutil.which('strace'):
        ways['strace -c'] = with_strace
    if not os.path.exists(floor):
        sys.exit(f'bench/work.py: no {floor}: ninja -C {o.build}')
    calls, mixed, turns = {n: [] for n in ways}, {n: [] for n in ways}, {n: [] for n in switches}
    for _ in range(o.rounds):
        for name, start in ways.items():
            words = [load, 'ppid', str(o.calls)]
            calls[name].append(measure(start, words, lambda out, took: took * 1e9 / o.calls))
            words = [load, 'calls', str(o.calls // 2)]
            mixed[name].append(measure(start, words, lambda out, took: took * 1e9 / (1.75 * (o.calls // 2))))
        for name, start in switches.items():
            # Each turn of the two is four calls and two switches at least.
            words = ['taskset', '-c', '0', load, 'pingpong', '50000']
            turns[name].append(measure(start, words, lambda out, took: took * 1e9 / 100000))
    table('getppid, the least that a call can be', 'nothing', calls)
    table('four getppid, two open that fail, one read of 100 bytes: each call', 'nothing', mixed)
    table('half a turn of a pipe ping-pong on one processor: one switch, two calls', 'nothing', turns)


if __name__ == '__main__':
    main()
