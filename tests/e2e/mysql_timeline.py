#!/usr/bin/env python3
"""eACGM's timeline: calls of a real trace in the lanes of its table, by packaging/mysql/timeline.py."""

import collections
import csv
import datetime
import os
import subprocess

from grafana_help import FOLDER, board_of, expand_sql, panels
from harness import case, main
from mysql_help import MariaDB


@case("eACGM's timeline: the calls of a trace in lanes, as its panel asks for them", timeout=60)
def timeline(t):
    db = MariaDB(t, schema='eacgm')
    path = t.path('calls.csv')
    t.trace('-o', path, command=t.app('--threads=6', 'cudaMemcpy=40', 'cudaMalloc=20'))
    with open(path, encoding='utf-8') as f:
        timed = [r for r in csv.DictReader(f) if r['dur_ns']]
    spans = [(int(r['start_ns']), int(r['start_ns']) + max(1, int(r['dur_ns'])), r['function']) for r in timed]

    def load(file):
        done = subprocess.run([os.path.join(FOLDER, '../mysql/timeline.py'), file], capture_output=True, text=True, env=t.envs())
        t.equal(f'status ({done.stderr})', done.returncode, 0)
        db.ask(done.stdout)
        panel = next(p for p in panels(board_of('eacgm-mysql.json')) if p['title'] == 'CudaEvent')
        return db.records(expand_sql(panel['targets'][0]['rawSql'], 0, 1, 2), user='grafana')

    # Lanes: a call takes the first that is free, and those that the table lacks are added.
    nested = t.path('nested.csv')
    with open(nested, 'w') as f:
        f.write('start_ns,start_wall,dur_ns,function\n')
        for begin, took, name in ((0, 9, 'a'), (1, 7, "it's"), (2, 2, 'c'), (3, 4, 'd'), (5, 1, 'e'), (5, 0, 'f'), (6, '', 'untimed')):
            f.write(f'{begin}000000000,1970-01-01T00:01:00.{0:09}Z,{took}{"000000000" if took else ""},{name}\n')
    got = [(round(float(r['time']) - 60, 6), [r[f'event{k}'] for k in range(1, 6)]) for r in load(nested)]
    t.equal('lanes', [(at, ' '.join(x or '-' for x in lanes)) for at, lanes in got if at != 5],
            [(0, 'a - - - -'), (1, "a it's - - -"), (2, "a it's c - -"), (3, "a it's c d -"), (4, "a it's - d -"), (6, "a it's - d -"),
             (7, "a it's - - -"), (8, 'a - - - -'), (9, '- - - - -')])  # fmt: skip
    t.equal('two that begin at once', sorted(' '.join(x or '-' for x in lanes) for at, lanes in got if at == 5),
            ["a it's e d -", "a it's e d -", "a it's e d f"])  # fmt: skip
    rows = [r for r in load(path) if float(r['time']) > 100]
    t.true('calls', len(spans) > 300, len(spans))
    t.equal('a row for each begin and end', len(rows), 2 * len(spans))
    wall = datetime.datetime.fromisoformat(timed[0]['start_wall'][:19] + '+00:00').timestamp()
    offset = int(wall) * 10**9 + int(timed[0]['start_wall'][20:29]) - int(timed[0]['start_ns'])
    edges = sorted([((end + offset) / 1e9, -1, name) for _, end, name in spans] + [((begin + offset) / 1e9, 1, name) for begin, _, name in spans])
    # Of rows that have a time alone (those of a double are 0.24 us apart) it is known which calls are open.
    times = collections.Counter(float(r['time']) for r in rows)
    t.equal('times', times, collections.Counter(at for at, _, _ in edges))
    lanes_at = {float(r['time']): collections.Counter(v for k, v in r.items() if k != 'time' and v) for r in rows if times[float(r['time'])] == 1}
    open_now, wrong, most = collections.Counter(), [], 0
    for at, step, name in edges:
        open_now[name] += step
        most = max(most, open_now.total())
        if at in lanes_at and lanes_at[at] != +open_now:
            wrong.append((at, lanes_at[at], +open_now))
    t.true(f'what is open is in the lanes: {len(wrong)} of {len(lanes_at)} differ', not wrong and lanes_at, wrong[:1])
    t.true('lanes', most <= len(rows[0]) - 1, (most, list(rows[0])))
    t.equal('nothing is open in the end', [v for k, v in rows[-1].items() if k != 'time' and v], [])
    t.note(f'{len(spans)} calls, {len(lanes_at)} times of their own, {len(rows[0]) - 1} lanes')
    t.equal('loaded again', len(load(path)), len(rows) + len(got))
    # Calls stand in the order of their ends.
    with open(nested, 'w') as f:
        f.write('start_ns,start_wall,dur_ns,function\n')
        for begin, took, name in ((31, 1, 'inner'), (30, 5, 'outer')):
            f.write(f'{begin}000000000,1970-01-01T00:01:{begin}.000000000Z,{took}000000000,{name}\n')
    held = [r['event1'] for r in load(nested) if 80 < float(r['time']) < 100]
    t.equal('one that began before the first that ended', held, ['outer', 'outer', 'outer', None])
    done = subprocess.run([os.path.join(FOLDER, '../mysql/timeline.py'), os.path.join(FOLDER, 'gpuscope.json')], capture_output=True, text=True)
    t.true('another file', done.returncode == 1 and 'no CSV of gpuscope trace' in done.stderr or 'has no calls' in done.stderr, done.stderr)


if __name__ == '__main__':
    main()
