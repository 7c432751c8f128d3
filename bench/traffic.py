#!/usr/bin/env python3
"""What counting TCP traffic (traffic.enabled of the agent) costs a request and its answer on one connection of loopback: two sends and
two reads, seen from both ends. Watched, at a port that is not watched, over Unix sockets, and each without the agent's programs, in
turn. Gives the median of the pairs' differences and their quartiles, in ns of processor time a request.

usage: bench/traffic.py BUILD_FOLDER [--rounds 15] [--requests 100000]
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time
import urllib.request


def config(folder, on, ports):
    path = os.path.join(folder, 'agent.yaml')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'http:\n  listen: "127.0.0.1:0"\ncontrol:\n  path: ""\njobs:\n  enabled: false\ntraffic:\n  enabled: {on}\n  ports: "{ports}"\n')
    return path


class Agent:
    def __init__(self, build, folder, ports):
        self.err = open(os.path.join(folder, 'err'), 'w+', encoding='utf-8')
        self.proc = subprocess.Popen([os.path.join(build, 'src/gpuscope'), 'agent', '-c', config(folder, 'true', ports)], stderr=self.err)
        while True:
            with open(self.err.name, encoding='utf-8') as f:
                text = f.read()
            if 'served at ' in text:
                break
            assert self.proc.poll() is None, text
            time.sleep(0.02)
        self.url = text.split('served at ')[1].split('/metrics')[0]
        assert 'traffic is not counted' not in text, text

    def requests(self):
        import json

        with urllib.request.urlopen(self.url + '/api/v1/traffic') as f:
            return {(p['port'], p['side']): p['requests'] for p in json.load(f)['ports']}

    def stop(self):
        self.proc.terminate()
        self.proc.wait()


def run_load(build, kind, requests, folder, watch):
    """ns of processor time a request; watch: 'all', 'other' port, or None."""
    load = subprocess.Popen([os.path.join(build, 'bench/traffic_load'), kind, str(requests)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(load.stdout.readline())
    agent = Agent(build, folder, '' if watch == 'all' else '9') if watch else None
    load.stdin.write('\n')
    load.stdin.close()
    took = float(load.stdout.readline())
    load.wait()
    if agent:
        seen = agent.requests()
        wanted = requests if watch == 'all' and kind == 'tcp' else 0
        assert seen.get((port, 'server'), 0) == seen.get((port, 'client'), 0) == wanted, (seen, wanted)
        agent.stop()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--requests', type=int, default=100000)
    args = parser.parse_args()
    cases = {'TCP, watched': ('tcp', 'all'), 'TCP, another port watched': ('tcp', 'other'), 'Unix sockets, TCP watched': ('unix', 'all'),
             'TCP, nothing watched twice': ('tcp', None)}  # fmt: skip
    differences, without = {name: [] for name in cases}, {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for name, (kind, watch) in cases.items():
                order = [watch, None] if turn % 2 else [None, watch]
                took = [run_load(args.build, kind, args.requests, folder, w) for w in order]
                with_it, bare = took if turn % 2 else reversed(took)
                differences[name].append(with_it - bare)
                without[name].append(bare)
    print(f'{"":28} {"ns a request":>12} {"more":>8}   quartiles')
    for name in cases:
        low, middle, high = statistics.quantiles(differences[name], n=4)
        print(f'{name:28} {statistics.median(without[name]):12.0f} {middle:8.0f}   {low:.0f} to {high:.0f}')


if __name__ == '__main__':
    main()
