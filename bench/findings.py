#!/usr/bin/env python3
"""What looking for findings costs: the agent with `findings.enabled` beside the agent without, and `gpuscope trace` that looks for hangs
beside one with `--hang-after 0`. Both of a pair run after one another, in turns; what is printed is processor time of gpuscope itself, median of
each, and their ratio. The agent needs no root; GPUs are the tests' stand-in.

usage: bench/findings.py [BUILD] [--seconds 60] [--rounds 5] [--gpus 8] [--processes 16] [--calls 20000] [--only agent|hangs]
"""
import argparse
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request


def cpu_seconds(pid):
    """Of all its threads and of the helpers that it has started."""
    total = 0
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/schedstat', encoding='ascii') as f:
            total += int(f.read().split()[0])
        with open(f'/proc/{pid}/task/{task}/children', encoding='ascii') as f:
            total += sum(cpu_seconds(int(child)) * 1e9 for child in f.read().split())
    return total / 1e9


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    sys.exit('nothing came within the time')


def text_of(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def run_agent(o, has_findings, pids):
    """Share of a core over o.seconds, once it has settled."""
    with tempfile.TemporaryDirectory() as folder:
        conf, log = os.path.join(folder, 'agent.yaml'), os.path.join(folder, 'log')
        with open(conf, 'w', encoding='utf-8') as f:
            f.write(f'gpu:\n  library: {os.path.abspath(o.build)}/tests/fake/libnvidia-ml.so.1\nhttp:\n  listen: 127.0.0.1:0\n'
                    f'sampling:\n  interval: 1s\n  events: false\ncontrol:\n  path: {folder}/agent.sock\n'
                    f'findings:\n  enabled: {str(has_findings).lower()}\n')  # fmt: skip
        with open(log, 'w', encoding='utf-8') as f:
            agent = subprocess.Popen([f'{o.build}/src/gpuscope', 'agent', '-c', conf], stderr=f, env={**os.environ, 'FAKE_NVML': f'gpus={o.gpus},pids={pids}'})
        try:
            url = wait_for(lambda: agent.poll() is not None or re.search(r'http://\S+/metrics', text_of(log)))
            if agent.poll() is not None:
                sys.exit(text_of(log))
            time.sleep(5)
            before, begin = cpu_seconds(agent.pid), time.monotonic()
            time.sleep(o.seconds)
            used = (cpu_seconds(agent.pid) - before) / (time.monotonic() - begin)
            with urllib.request.urlopen(url.group(), timeout=30) as reply:
                is_on = b'gpuscope_agent_findings_total' in reply.read()
            if is_on != has_findings:
                sys.exit(f'findings are {"on" if is_on else "off"}, which was not asked for')
            return used
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(30)


def bench_agent(o):
    sleepers = [subprocess.Popen(['sleep', '86400']) for _ in range(o.processes)]
    used = {False: [], True: []}
    try:
        for _ in range(o.rounds):
            for has_findings in (False, True):
                used[has_findings].append(run_agent(o, has_findings, ':'.join(str(s.pid) for s in sleepers)))
    finally:
        for s in sleepers:
            s.kill()
            s.wait()
    off, on = statistics.median(used[False]), statistics.median(used[True])
    print(f'agent, {o.gpus} GPUs, {o.processes} processes, {o.rounds} x {o.seconds:g} s at 1 Hz: {100 * off:.3f} % of a core without findings, '
          f'{100 * on:.3f} % with them: {on / off:.2f} x, {100 * (on - off):.3f} % of a core more, {(on - off) / 0.005:.2f} of 0.5 %')  # fmt: skip


def run_trace(o, hang_after):
    """Processor time of the tracer, its helpers and the traced ranks, and the wall time."""
    command = [f'{o.build}/src/gpuscope', 'trace', '--hang-after', hang_after, '--no-gpu', '--format', 'json', '--', f'{o.build}/tests/fake/stuck', 'steady', str(o.calls)]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - begin


def bench_hangs(o):
    if os.geteuid() != 0:
        print('trace --hang-after: SKIP (needs root)')
        return
    used = {'0': [], '60s': []}
    for _ in range(o.rounds):
        for hang_after, row in used.items():
            row.append(run_trace(o, hang_after))
    off, on = ([statistics.median(x) for x in zip(*used[k])] for k in ('0', '60s'))
    print(f'trace of 4 ranks, {o.calls} collectives each, {o.rounds} rounds: {off[0]:.2f} s of processor time in {off[1]:.1f} s with --hang-after 0, '
          f'{on[0]:.2f} s in {on[1]:.1f} s with 60s: {on[0] / off[0]:.3f} x, wall time {on[1] / off[1]:.3f} x')  # fmt: skip


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('build', nargs='?', default='build')
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--gpus', type=int, default=8)
    parser.add_argument('--processes', type=int, default=16)
    parser.add_argument('--calls', type=int, default=20000)
    parser.add_argument('--only', choices=['agent', 'hangs'])
    o = parser.parse_args()
    if o.only != 'hangs':
        bench_agent(o)
    if o.only != 'agent':
        bench_hangs(o)


if __name__ == '__main__':
    main()
