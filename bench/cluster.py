"""A head under the load of larger and larger clusters, until something breaks: a sample that is lost,
a p99 from made to durable above 2 s, more than one core or 512 MiB at the head. Then 1,000 nodes that
come back at once after the head was killed. Prints a table in Markdown.

usage: cluster.py GPUSCOPE CLUSTER [--seconds S] [--best-of N] [--nodes N,N...] [--gpus N] [--values N]"""

import argparse
import json
import os
import subprocess
import tempfile

HEAD = ('nodes', 'GPUs', 'made', 'stored', 'head, cores', 'head, MiB', 'durable p50, ms', 'p99, ms', 'kB/s', 'verdict')


def run(o, nodes, seconds, restart=False):
    with tempfile.TemporaryDirectory(prefix='gpuscope_cluster_', dir=o.folder) as data:
        words = [o.cluster, o.gpuscope, data, str(nodes), str(o.gpus), str(o.values), str(seconds)]
        done = subprocess.run(words + (['restart'] if restart else []), capture_output=True, text=True)
    if not done.stdout.strip():
        raise SystemExit(f'{" ".join(words)}: {done.stderr.strip()}')
    return json.loads(done.stdout)


def troubles(r):
    found = []
    if r['acknowledged'] < r['made'] or r['dropped']:
        found.append(f'{r["made"] - r["acknowledged"]} not stored')
    wanted = r['nodes'] * r['seconds']
    if r['made'] < 0.97 * wanted:
        found.append(f'only {r["made"] / wanted:.0%} made: the nodes of the bench are too slow here')
    if r['durable_p99_ms'] > 2000:
        found.append('p99 above 2 s')
    if r['head_cpu_cores'] > 1:
        found.append('more than a core')
    if r['head_rss_bytes'] > 512 << 20:
        found.append('more than 512 MiB')
    return found


def best(o, nodes, restart=False):
    """The machine may have other work: of several runs the one that fared best."""
    runs = []
    for _ in range(o.best_of):
        runs.append(run(o, nodes, o.seconds, restart))
        if not troubles(runs[-1]) and len(runs) >= min(2, o.best_of):
            break
    return min(runs, key=lambda r: (len(troubles(r)), r['durable_p99_ms']))


def row(r, verdict):
    rate = r['bytes_each'] * r['made'] / r['seconds'] / 1000
    return (f'{r["nodes"]:,}', f'{r["gpus"]:,}', f'{r["made"]:,}', f'{r["acknowledged"]:,}', f'{r["head_cpu_cores"]:.2f}',
            f'{r["head_rss_bytes"] / 2**20:.0f}', f'{r["durable_p50_ms"]:.0f}', f'{r["durable_p99_ms"]:.0f}', f'{rate:,.0f}',
            verdict)  # fmt: skip


def line(cells):
    print('| ' + ' | '.join(cells) + ' |', flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('gpuscope')
    p.add_argument('cluster', help='build/bench/cluster')
    p.add_argument('--seconds', type=int, default=20)
    p.add_argument('--best-of', type=int, default=2)
    p.add_argument('--nodes', default='250,500,1250,2500,5000')
    p.add_argument('--gpus', type=int, default=8, help='of a node')
    p.add_argument('--values', type=int, default=40, help='of a GPU')
    p.add_argument('--folder', help='where the head keeps its data (default: that of temporary files)')
    o = p.parse_args()
    print(f'{o.gpus} GPUs a node, {o.values} values each, once a second for {o.seconds} s; {os.cpu_count()} processors for '
          'the head and all nodes together\n')  # fmt: skip
    line(HEAD)
    line(['---:'] * 9 + ['---'])
    for nodes in (int(n) for n in o.nodes.split(',')):
        r = best(o, nodes)
        found = troubles(r)
        line(row(r, ', '.join(found) or 'holds'))
        if found:
            break
    r = best(o, 1000, restart=True)
    lost = r['made'] - r['acknowledged']
    print(f'\nThe head is killed with 1,000 nodes connected: all back {r["all_back_s"]:.1f} s after its new start, {r["made"]:,} '
          f'samples made, {lost} lost.')  # fmt: skip


if __name__ == '__main__':
    main()
