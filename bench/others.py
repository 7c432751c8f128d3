#!/usr/bin/env python3
"""What measuring one program costs another that is not measured, and what it costs itself: loads whose
work is all system calls, switches or forks run in short chunks with nothing, with empty programs on the
same places of the kernel (the floor: no filter can cost less), and with gpuscope measuring another process
or them. All take turns, in another order each round, and each is paired with chunks of nothing right after
it, so that whatever else the machine does falls on both alike. Processor time of the load by operation:
least and quartiles, and how much more the least of a turn is than that of its pair (quartiles over the rounds).

usage: bench/others.py BUILD_FOLDER [--rounds 8] [--chunks 8] [--chunk-ms 40]
       --loads fork,dd      these alone (dd, pipe, pread, socket, fork)
       --ways floor,job     those with one of these words in their name
       --also OTHER_BUILD   its `gpuscope job` takes part in the same rounds: how a change is measured
"""
import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

LOADS = {'dd': 'dd bs=1', 'pipe': 'sched pipe', 'pread': 'pread', 'socket': 'socket pair', 'fork': 'fork loop'}
NOTHING, FLOOR, FLOOR_SCHED = 'nothing, twice', 'floor: empty programs of job', 'floor: empty programs of the account'


class Load:
    def __init__(self, build, name):
        self.proc = subprocess.Popen([os.path.join(build, 'bench/others_load'), name], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)  # fmt: skip
        assert self.proc.stdout.readline() == 'ready\n'
        self.pid = self.proc.pid

    def run(self, n):
        """ns of processor time an operation."""
        self.proc.stdin.write(f'{n}\n')
        self.proc.stdin.flush()
        return int(self.proc.stdout.readline()) / n

    def stop(self):
        self.proc.stdin.close()
        self.proc.wait()


def metrics_of(port):
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=5) as f:
            return f.read()
    except OSError:
        return b''


class Measuring:
    """Something that measures until stop()."""

    def __init__(self, build, folder, also=None):
        self.build, self.folder, self.also = build, folder, also
        self.gpuscope = os.path.join(build, 'src/gpuscope')
        # Measured where the loads are not: it calls now and then.
        # Its environment makes it a job, though a claimed one.
        self.decoy = subprocess.Popen(['sh', '-c', 'while sleep 0.2; do :; done'], start_new_session=True,
                                      env={**os.environ, 'SLURM_JOB_ID': '4711', 'SLURM_PROCID': '0'})  # fmt: skip

    def close(self):
        os.killpg(self.decoy.pid, 15)
        self.decoy.wait()

    def floor(self, which):
        proc = subprocess.Popen([os.path.join(self.build, 'bench/floor_sys'), which], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)  # fmt: skip
        assert proc.stdout.readline() == b'ready\n'
        return lambda: proc.communicate()

    def job(self, pids, build=None):
        gpuscope = os.path.join(build or self.build, 'src/gpuscope')
        pidfile, report = os.path.join(self.folder, 'pid'), os.path.join(self.folder, 'report.json')
        subprocess.run([gpuscope, 'job', '-p', ','.join(map(str, pids)), '--detach', pidfile, '-o', report],
                       check=True, capture_output=True)  # fmt: skip
        return lambda: subprocess.run([gpuscope, 'job', '--stop', pidfile], check=True, capture_output=True)

    def agent(self, users):
        """users: the loads are in a job, their user's; else there is one job, and they are in none."""
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        conf = os.path.join(self.folder, 'agent.yaml')
        with open(conf, 'w', encoding='ascii') as f:
            f.write(f'http:\n  listen: 127.0.0.1:{port}\njobs:\n  interval: 1s\n  users: {str(users).lower()}\n')
        proc = subprocess.Popen([self.gpuscope, 'agent', '--control', '', '-c', conf], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)  # fmt: skip
        end = time.monotonic() + 60
        while b'\ngpuscope_agent_jobs_probes 1' not in metrics_of(port):
            assert proc.poll() is None and time.monotonic() < end, 'the agent has no probes'
            time.sleep(0.2)

        def stop():
            proc.terminate()
            proc.wait()

        return stop

    def trace(self, pids, *options):
        words = [self.gpuscope, 'trace', '-q', '-v', *options, '-p', ','.join(map(str, pids))]
        proc = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        while b'functions chosen' not in (line := proc.stderr.readline()):
            assert line, 'trace ended'
        time.sleep(0.5)

        def stop():
            proc.send_signal(2)
            proc.communicate()

        return stop

    def ways(self, loads):
        all_pids, decoy = [load.pid for load in loads.values()], [self.decoy.pid]
        others = {f'watched by job of {self.also}': lambda: self.job(all_pids, self.also)} if self.also else {}
        return {
            NOTHING: lambda: lambda: None,
            FLOOR: lambda: self.floor('all'),
            FLOOR_SCHED: lambda: self.floor('sched'),
            'not watched: job measures another': lambda: self.job(decoy),
            'not watched: trace measures another': lambda: self.trace(decoy),
            'not watched: agent has another job': lambda: self.agent(False),
            'watched by agent': lambda: self.agent(True),
            'watched by trace': lambda: self.trace(all_pids),
            'watched by trace, no account': lambda: self.trace(all_pids, '--disable-feature', 'account'),
            'watched by job': lambda: self.job(all_pids),
            **others,
        }


def chunk_sizes(loads, ms):
    """Operations that take about so long."""
    sizes = {}
    for name, load in loads.items():
        n = 64
        while load.run(n) * n < 4e6:
            n *= 2
        sizes[name] = max(1, int(ms * 1e6 / min(load.run(n) for _ in range(3))))
    return sizes


def quartiles(values):
    return statistics.quantiles(values, n=4, method='inclusive')


def tables(results):
    for name in results:
        print(f'\n{LOADS[name]}: ns of processor time an operation\n')
        print('| | least | quartiles | nothing, right after: least | added, in pairs: median | quartiles |')
        print('|---|---|---|---|---|---|')
        for way, turns in results[name].items():
            with_it = [value for turn, _ in turns for value in turn]
            without = [value for _, turn in turns for value in turn]
            q = quartiles(with_it)
            added = quartiles([(min(turn) / min(pair) - 1) * 100 for turn, pair in turns])
            print(f'| {way} | {min(with_it):.0f} | {q[0]:.0f}, {q[1]:.0f}, {q[2]:.0f} | {min(without):.0f} '
                  f'| {added[1]:+.1f} % | {added[0]:+.1f}, {added[2]:+.1f} |')  # fmt: skip


def run_chunks(loads, sizes, n, order):
    """ns an operation of each load's chunks, which take turns."""
    took = {name: [] for name in loads}
    for _ in range(n):
        for name in order.sample(list(loads), len(loads)):
            took[name].append(loads[name].run(sizes[name]))
    return took


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=8)
    parser.add_argument('--chunks', type=int, default=8)
    parser.add_argument('--chunk-ms', type=float, default=40)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--loads', type=lambda text: text.split(','), default=list(LOADS))
    parser.add_argument('--ways', type=lambda text: text.split(','), default=[''])
    parser.add_argument('--also')
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit('others.py: needs root: probes are made by the kernel')
    order = random.Random(args.seed)
    if set(args.loads) - set(LOADS):
        sys.exit(f'others.py: loads are {", ".join(LOADS)}')
    loads = {name: Load(args.build, name) for name in args.loads}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        measuring = Measuring(args.build, folder, args.also)
        try:
            sizes = chunk_sizes(loads, args.chunk_ms)
            ways = {way: start for way, start in measuring.ways(loads).items() if any(word in way for word in args.ways)}
            for name in loads:
                results[name] = {way: [] for way in ways}
            for done in range(args.rounds):
                for way in order.sample(list(ways), len(ways)):
                    stop = ways[way]()
                    with_it = run_chunks(loads, sizes, args.chunks, order)
                    stop()
                    without = run_chunks(loads, sizes, args.chunks, order)
                    for name in loads:
                        results[name][way].append((with_it[name], without[name]))
                print(f'round {done + 1} of {args.rounds}', file=sys.stderr)
        finally:
            measuring.close()
            for load in loads.values():
                load.stop()
    with open('/proc/loadavg', encoding='ascii') as f:
        print(f'Linux {os.uname().release}, {os.cpu_count()} processors, load {" ".join(f.read().split()[:3])}, '
              f'{args.rounds} rounds of {args.chunks} chunks of some {args.chunk_ms:.0f} ms')  # fmt: skip
    tables(results)


if __name__ == '__main__':
    main()
