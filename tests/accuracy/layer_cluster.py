"""Heads: what nodes read and what is stored; what a session's files say."""

import csv
import io
import json
import re
import sqlite3
import subprocess

import cluster_help
from table import harness, layer


def n_stored(data):
    try:
        with sqlite3.connect(f'file:{data}/head.db?mode=ro', uri=True, timeout=60) as db:
            return db.execute('SELECT coalesce(sum(n_samples), 0) FROM stream').fetchone()[0]
    except sqlite3.OperationalError:  # it has not been made yet
        return 0


def wait_stored(data, count):
    harness.wait_until(lambda: n_stored(data) >= count, 60, f'{count} samples stored')


def exported(m, head, name, *args):
    m.n_files += 1
    path = m.path(f'{name}{m.n_files}')
    head.session('export', name, '-o', path, *args)
    return harness.read_text(path)


@layer('samples that nodes deliver', needs=None, timeout=240)
def delivered(m):
    head = cluster_help.Head(m, '--interval', '1000ms')
    node = cluster_help.Node(m, head.address, 'a')
    wait_stored(head.data, 1)
    head.session('start', 'one', '--interval', '100ms')
    wait_stored(head.data, n_stored(head.data) + 20)
    stopped = json.loads(head.session('stop', '--all', '--format', 'json').out)['sessions'][0]
    told = node.stop().err
    read, missed, batches, waiting, lost = map(int, re.search(
        r'(\d+) samples read, (\d+) missed; (\d+) batches delivered, (\d+) samples wait.*, (\d+) lost', told).groups())
    m.figure('samples stored', n_stored(head.data), 'the node: read', read)
    m.figure('samples lost', lost, 'none was', 0)
    m.figure('samples that wait', waiting, 'the node has drained', 0)
    session = json.loads(exported(m, head, 'one'))
    rows = list(csv.DictReader(io.StringIO(exported(m, head, 'one', '--format', 'csv'))))
    m.figure('rows of the CSV file', len(rows), 'samples of the session, two GPUs', 2 * session['account']['samples'])
    m.figure('samples of the session', session['account']['samples'], 'at least those when it was stopped',
             max(stopped['samples'], session['account']['samples']))  # fmt: skip
    power = [float(r['power_watts']) for r in rows if r['power_watts'] and r['gpu'].endswith('1')]
    m.figure('mean power of GPU 1', sum(power) / max(1, len(power)), "the stand-in's formula", 301, 1e-6, 'floating point', 'W')
    frame = session['frames'][-1]
    done = subprocess.run(['df', '--output=used,avail', '-k', '/'], capture_output=True, text=True, check=True)
    used, available = map(int, done.stdout.split()[-2:])
    m.figure('used share of /', frame['disk_util'][0], 'df: used / (used + available)', 100 * used / (used + available), 1,
             'writes between the two readings', '%')  # fmt: skip
    m.true('missed readings are said', missed >= 0 and batches > 0, told)
    head.stop()
