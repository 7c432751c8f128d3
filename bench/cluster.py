"""A head under the load of larger and larger clusters, until something breaks: a sample that is lost, a p99 from made to durable above
2 s, more than a core or 512 MiB at the head, an answer of the API that takes longer than 200 ms (up to 10,000 GPUs), or the simulated
nodes themselves. Each size runs twice: alone, and while a page refreshes and each request of the API is made in turn. Then 1,000 nodes
that come back at once after the head was killed. Prints tables in Markdown, with the load of the machine beside them.

usage: cluster.py GPUSCOPE CLUSTER [--nodes N,N...] [--until-it-breaks] [--seconds S] [--best-of N] [--gpus N] [--values N]
                  [--generators N] [--no-restart]
       cluster.py GPUSCOPE CLUSTER --ranks N     a job of so many ranks, 8 a node, one step a second: what comparing them costs the head"""

import argparse
import collections
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HEAD = ('nodes', 'GPUs', 'asked', 'made', 'stored', 'head, cores', 'head, MiB', 'durable p50, ms', 'p99, ms', 'nodes, cores', 'kB/s', 'load',
        'verdict')  # fmt: skip
API = (('overview', '/api/v1/overview'), ('GPUs, worst 20', '/api/v1/gpus?sort=worst&limit=20'),
       ('GPUs, 2,000', '/api/v1/gpus?sort=worst&limit=2000'), ('nodes, 2,000', '/api/v1/nodes?limit=2000'),
       ('heat map, 2,000', '/api/v1/heatmap?limit=2000'), ('alerts, 100', '/api/v1/alerts'),
       ('series, 5 minutes', '/api/v1/series?node=1&gpu=0&from=-300&points=150&values=utilization_ratio,power_watts'))  # fmt: skip
PAGE = ('/api/v1/overview', '/api/v1/alerts?limit=12', '/api/v1/gpus?sort=worst&limit=20', '/api/v1/heatmap?limit=2000&value=utilization_ratio')
PAGE_EVERY_S = 2.5  # as web/app.js for more than 500 GPUs
CPUS = os.cpu_count()


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Head:
    """gpuscope head in a folder of its own, on free ports."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.log = os.path.join(folder, 'log')
        for _ in range(20):
            if self.start('127.0.0.1:0', free_port()):
                return
        raise SystemExit(f'the head does not start: {self.said()}')

    def said(self):
        with open(self.log, errors='replace') as f:
            return f.read()

    def start(self, listen, port):
        with open(self.log, 'wb') as f:
            self.proc = subprocess.Popen([self.program, 'head', '--data', os.path.join(self.folder, 'data'), '--listen', listen, '--http-port', str(port)],
                                         stdout=f, stderr=f)  # fmt: skip
        while self.proc.poll() is None:
            at = re.search(r'page and API on https?://(\S+)', self.said())
            if at:
                self.grpc, self.http = re.search(r'head on ([^\s,]+),', self.said()).group(1), at.group(1)
                return True
            time.sleep(0.02)
        return False  # another program took the port first

    def start_again(self):
        self.proc.kill()
        self.proc.wait()
        time.sleep(2)
        if not self.start(self.grpc, self.http.rsplit(':', 1)[1]):
            raise SystemExit(f'the head does not start again: {self.said()}')

    def cpu_s(self):
        with open(f'/proc/{self.proc.pid}/stat') as f:
            words = f.read().rsplit(')', 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')

    def http_cpu_s(self):
        """Of the thread that answers requests."""
        for task in os.listdir(f'/proc/{self.proc.pid}/task'):
            folder = f'/proc/{self.proc.pid}/task/{task}'
            with open(folder + '/comm') as f:
                if f.read().strip() != 'http':
                    continue
            with open(folder + '/schedstat') as f:
                return int(f.read().split()[0]) / 1e9
        return 0

    def rss_bytes(self):
        with open(f'/proc/{self.proc.pid}/status') as f:
            return int(re.search(r'VmHWM:\s+(\d+)', f.read()).group(1)) << 10

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait()


class Nodes:
    """Several processes of simulated nodes."""

    def __init__(self, o, head, nodes, seconds):
        n = min(o.generators or max(1, min(CPUS, -(-nodes // 2500))), nodes)
        first, self.all = 0, []
        for i in range(n):
            count = nodes // n + (i < nodes % n)
            words = [o.cluster, head.grpc, str(first), str(count), str(o.gpus), str(o.values), str(seconds)]
            self.all.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            first += count

    def wait(self, event, seconds, on_turn=None):
        """Until each has said this; what they said, or None for those that did not."""
        said, waiting, end = {}, {p.stdout: p for p in self.all}, time.monotonic() + seconds
        while waiting and time.monotonic() < end:
            for stream in select.select(list(waiting), [], [], 0.5)[0]:
                line = stream.readline()
                if not line or json.loads(line)['event'] == event:
                    said[waiting.pop(stream)] = json.loads(line) if line else None
            if on_turn:
                on_turn()
        return [said.get(p) for p in self.all]

    def go(self):
        for p in self.all:
            p.stdin.write('go\n')
            p.stdin.flush()

    def end(self):
        for p in self.all:
            if p.poll() is None:
                p.kill()
            p.wait()


class Asker(threading.Thread):
    """Asks a head until it is stopped."""

    def __init__(self, head):
        super().__init__(daemon=True)
        self.head, self.stopped, self.failure = head, threading.Event(), None

    def ask(self, connection, path):
        """(seconds, bytes, CPU seconds of the head's thread, the answer's beginning)"""
        cpu, began = self.head.http_cpu_s(), time.monotonic()
        connection.request('GET', path)
        reply = connection.getresponse()
        body = reply.read()
        took = time.monotonic() - began
        assert reply.status == 200, f'{path}: {reply.status} {body[:200]}'
        return took, len(body), self.head.http_cpu_s() - cpu, body[:300].decode()

    def run(self):
        try:
            self.work()
        except Exception as e:
            if not self.stopped.is_set():
                self.failure = f'{type(e).__name__}: {e}'


class Requests(Asker):
    """Each request of the API in turn, a tenth of a second apart."""

    def work(self):
        self.found = collections.defaultdict(list)
        connection = http.client.HTTPConnection(self.head.http, timeout=120)
        while not self.stopped.is_set():
            for name, path in API:
                self.found[name].append(self.ask(connection, path)[:3])
                if self.stopped.wait(0.1):
                    break


class Page(Asker):
    """What the page of the overview asks: events, and with them four requests at once, of the heat map what is new."""

    def work(self):
        self.refreshes = []
        events = http.client.HTTPConnection(self.head.http, timeout=60)
        events.request('GET', '/api/v1/events')
        stream = events.getresponse()
        connections = [http.client.HTTPConnection(self.head.http, timeout=120) for _ in PAGE]
        last, since = 0, ''
        while not self.stopped.is_set():
            if not stream.readline().startswith(b'event: state') or time.monotonic() - last < PAGE_EVERY_S:
                continue
            last = time.monotonic()
            for c, path in zip(connections, PAGE):
                c.request('GET', path + since * ('heatmap' in path))
            bodies = [c.getresponse().read() for c in connections]
            self.refreshes.append((time.monotonic() - last, sum(len(b) for b in bodies)))
            heat = bodies[-1][:400].decode()
            found = re.search(r'"cursor":"([^"]+)"', heat)
            since = f'&since={found.group(1)}' if found else ''


def percentile(counts, share):
    total, seen = sum(counts.values()), 0
    for ms in sorted(counts):
        seen += counts[ms]
        if seen >= total * share:
            return ms
    return 0


def merge(results, key):
    counts = collections.Counter()
    for r in results:
        counts.update({int(ms): n for ms, n in r[key].items()})
    return counts


def run(o, nodes, asked, look=lambda head: None):
    """One size once; look: at the head, before it ends."""
    folder = tempfile.mkdtemp(prefix='gpuscope_cluster_', dir=o.folder)
    head = Head(o.gpuscope, folder)
    load = Nodes(o, head, nodes, o.seconds)
    try:
        if None in load.wait('ready', 600):
            return {'broken': 'the nodes did not get connected', 'nodes': nodes, 'gpus': nodes * o.gpus, 'asked': asked}
        load.go()
        askers = [Page(head), Requests(head)] if asked else []
        cpu, began, used = head.cpu_s(), time.monotonic(), []
        for a in askers:
            a.start()

        def turn():
            now = time.monotonic()
            if not used and now - began >= o.seconds:
                used.append((head.cpu_s() - cpu) / (now - began))
                for a in askers:
                    a.stopped.set()

        results = load.wait('end', o.seconds + 60, turn)
        if head.proc.poll() is not None:
            raise SystemExit(f'the head ended: {head.said()}')
        if None in results:
            return {'broken': 'the nodes of the bench did not end', 'nodes': nodes, 'gpus': nodes * o.gpus, 'asked': asked}
        look(head)
        for a in askers:
            a.join(130)
        found = {key: sum(r[key] for r in results) for key in ('made', 'acknowledged', 'bytes', 'cpu_cores', 'failures')}
        durable = merge(results, 'durable_ms')
        found.update(nodes=nodes, gpus=nodes * o.gpus, seconds=o.seconds, asked=asked, head_cores=used[0] if used else 0, rss=head.rss_bytes(),
                     p50=percentile(durable, 0.5), p99=percentile(durable, 0.99), lag=percentile(merge(results, 'lag_ms'), 0.99),
                     generators=len(load.all), load=os.getloadavg()[0])  # fmt: skip
        if asked:
            found.update(page=askers[0].refreshes, api=askers[1].found, failure=askers[0].failure or askers[1].failure)
        return found
    finally:
        load.end()
        if head.proc.poll() is None:
            head.stop()
        shutil.rmtree(folder, ignore_errors=True)


def troubles(r):
    """What broke, the head's first."""
    if 'broken' in r:
        return [r['broken']]
    found, wanted = [], r['nodes'] * r['seconds']
    if r['acknowledged'] < r['made']:
        found.append(f'{r["made"] - r["acknowledged"]} not stored')
    if r['head_cores'] > 1:
        found.append('head: more than a core')
    if r['rss'] > 512 << 20:
        found.append('head: more than 512 MiB')
    if r['p99'] > 2000:
        found.append('p99 above 2 s')
    if r.get('failure'):
        found.append(f'a request failed: {r["failure"]}')
    for name, asked in r.get('api', {}).items():
        median = statistics.median(a[0] for a in asked) if asked else 0
        if median > 0.2 and r['gpus'] <= 10000:
            found.append(f'{name}: {median * 1000:.0f} ms')
    if r['made'] < 0.97 * wanted or r['lag'] > 1000:
        found.append(f'the bench, not the head: {r["generators"]} processes of nodes had {r["cpu_cores"]:.2f} of {CPUS} cores, made '
                     f'{r["made"] / wanted:.0%}, {r["lag"] / 1000:.1f} s late')  # fmt: skip
    return found


def best(o, nodes, asked):
    """The machine may have other work: of several runs the one that fared best."""
    runs = []
    for _ in range(o.best_of):
        runs.append(run(o, nodes, asked))
        if not troubles(runs[-1]):
            break
    return min(runs, key=lambda r: (len(troubles(r)), r.get('p99', 1 << 40)))


def line(*cells):
    print('| ' + ' | '.join(cells) + ' |', flush=True)


def show(r):
    verdict = ', '.join(troubles(r)) or 'holds'
    asked = 'page + API' if r['asked'] else 'no'
    if 'broken' in r:
        line(f'{r["nodes"]:,}', f'{r["gpus"]:,}', asked, *['–'] * (len(HEAD) - 4), verdict)
        return
    line(f'{r["nodes"]:,}', f'{r["gpus"]:,}', asked, f'{r["made"]:,}', f'{r["acknowledged"]:,}', f'{r["head_cores"]:.2f}', f'{r["rss"] / 2**20:.0f}',
         f'{r["p50"]}', f'{r["p99"]}', f'{r["cpu_cores"]:.2f}', f'{r["bytes"] / r["seconds"] / 1000:,.0f}', f'{r["load"]:.0f}', verdict)  # fmt: skip


def show_api(r):
    print(f'\n{r["gpus"]:,} GPUs ({r["nodes"]:,} nodes), while all of it is stored and a page refreshes; load {r["load"]:.0f}:\n')
    line('request', 'times', 'kB', 'median, ms', 'worst, ms', 'CPU at the head, median, ms')
    line('---', *['---:'] * 5)
    for name, asked in r['api'].items():
        line(name, str(len(asked)), f'{statistics.median(a[1] for a in asked) / 1000:,.0f}', f'{statistics.median(a[0] for a in asked) * 1000:.1f}',
             f'{max(a[0] for a in asked) * 1000:.0f}', f'{statistics.median(a[2] for a in asked) * 1000:.2f}')  # fmt: skip
    pages = r['page'][1:] or r['page']
    if pages:
        line('page: a refresh (4 at once)', str(len(pages)), f'{statistics.median(p[1] for p in pages) / 1000:,.0f}',
             f'{statistics.median(p[0] for p in pages) * 1000:.1f}', f'{max(p[0] for p in pages) * 1000:.0f}', '')  # fmt: skip


def restart(o, nodes=1000):
    folder = tempfile.mkdtemp(prefix='gpuscope_cluster_', dir=o.folder)
    head = Head(o.gpuscope, folder)
    load = Nodes(o, head, nodes, o.seconds * 2 + 60)
    try:
        load.wait('ready', 600)
        load.go()
        load.wait('back', 60)
        time.sleep(o.seconds / 2)
        head.start_again()
        began = time.monotonic()
        back = load.wait('back', 180)
        took = time.monotonic() - began
        results = load.wait('end', o.seconds * 2 + 200)
        made, stored = (sum(r[key] for r in results if r) for key in ('made', 'acknowledged'))
        if None in back or None in results:
            print(f'\nThe head is killed with {nodes:,} nodes connected: not all came back within 180 s; {made:,} made, {stored:,} stored.')
        else:
            print(f'\nThe head is killed with {nodes:,} nodes connected: all back {took:.1f} s after its new start, {made:,} samples made, '
                  f'{made - stored} lost.')  # fmt: skip
    finally:
        load.end()
        head.stop()
        shutil.rmtree(folder, ignore_errors=True)


def sizes(o):
    nodes = 0
    for nodes in (int(n) for n in o.nodes.split(',')):
        yield nodes
    while o.until_it_breaks:
        nodes *= 2
        yield nodes


def findings(head):
    with urllib.request.urlopen(f'http://{head.http}/api/v1/findings', timeout=60) as f:
        return [(x['kind'], x['rank']) for x in json.load(f)['findings']]


def ranks(o):
    """One job over all nodes; of its ranks number 3 is late, which the head has to find."""
    o.values, o.generators = 0, 1
    found = []
    r = run(o, -(-o.ranks // o.gpus), False, lambda head: found.extend(findings(head)))
    print(f'{o.ranks:,} ranks at one step a second for {o.seconds} s: the head used {r["head_cores"]:.3f} of a core and {r["rss"] / 2**20:.0f} MiB, '
          f'{r["acknowledged"]} of {r["made"]} batches stored; found: {found}; load {r["load"]:.0f}')  # fmt: skip
    wrong = troubles(r) or (['the late rank was not found'] if found != [('late_rank', 3)] else [])
    if wrong:
        raise SystemExit(', '.join(wrong))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('gpuscope')
    p.add_argument('cluster', help='build/bench/cluster')
    p.add_argument('--seconds', type=int, default=20)
    p.add_argument('--best-of', type=int, default=2)
    p.add_argument('--nodes', default='250,500,1250')
    p.add_argument('--until-it-breaks', action='store_true', help='after the last size twice as many, and so on')
    p.add_argument('--gpus', type=int, default=8, help='of a node')
    p.add_argument('--values', type=int, default=40, help='of a GPU')
    p.add_argument('--generators', type=int, default=0, help='processes that play nodes (default: one for 2,500)')
    p.add_argument('--folder', help='where the heads keep their data (default: that of temporary files)')
    p.add_argument('--no-restart', action='store_true')
    p.add_argument('--ranks', type=int, default=0, help='of one job; 0: samples of GPUs')
    o = p.parse_args()
    if o.ranks:
        return ranks(o)
    print(f'{o.gpus} GPUs a node, {o.values} values each, once a second for {o.seconds} s; {CPUS} processors for the head, all nodes and the page '
          'together\n')  # fmt: skip
    line(*HEAD)
    line(*['---:'] * 2, '---', *['---:'] * 9, '---')
    shown = None
    for nodes in sizes(o):
        pair = [best(o, nodes, False), best(o, nodes, True)]
        for r in pair:
            show(r)
        if 'api' in pair[1] and (r['gpus'] <= 10000 or not shown):
            shown = pair[1]
        if troubles(pair[0]) or (troubles(pair[1]) and nodes * o.gpus > 10000):
            print(f'\nIt breaks at {nodes * o.gpus:,} GPUs: {", ".join(troubles(pair[0]) or troubles(pair[1]))}.')
            break
    if shown:
        show_api(shown)
    if not o.no_restart:
        restart(o)


if __name__ == '__main__':
    sys.exit(main())
