#!/usr/bin/env python3
"""The agent's samples in a database that goes away: a real MariaDB, killed with the agent and its sender at any moment."""

import os
import random
import threading

from harness import case, main, wait_until
from mysql_help import STORED, WAITING, MariaDB, sender_of, start_agent


@case('server, sender and agent are killed at any moment: each sample is stored once', timeout=120, needs=None)
def killed(t):
    db = MariaDB(t)
    rng = random.Random(11)
    keys = {'interval': '100ms', 'more': 'sampling:\n  interval: 100ms\n'}
    a = start_agent(t, db, gpus=2, **keys)

    def restart_agent():
        a.proc.wait(20)
        return start_agent(t, db, gpus=2, **keys)

    for victim in ['server', 'sender', 'agent', 'sender', 'server', 'agent', 'sender', 'server', 'both', 'sender']:
        before = db.number('SELECT COALESCE(SUM(samples), 0) FROM gpuscope_stream')
        wait_until(lambda n=before: db.number('SELECT COALESCE(SUM(samples), 0) FROM gpuscope_stream') > n, 60, 'samples in the database')
        # At any point of a transaction, and between two.
        threading.Event().wait(rng.uniform(0, 0.12))
        if victim == 'sender':
            pid = sender_of(a)
            if pid:
                os.kill(pid, 9)
        if victim in ('agent', 'both'):
            a.signal(9)
        if victim in ('server', 'both'):
            db.kill()
            if victim == 'both':
                a = restart_agent()
            db.start()
        if victim == 'agent':
            a = restart_agent()
    a.wait_metric(WAITING, lambda v: v is not None and v <= 1, 120)
    t.true('nothing was given up', a.metrics()['gpuscope_agent_mysql_lost_samples_total'] == 0)
    t.equal('nothing was refused', a.metrics()['gpuscope_agent_mysql_rejected_samples_total'], 0)
    a.stop()
    streams = db.ask('SELECT batch, samples, lost_samples FROM gpuscope_stream')
    t.equal('streams', len(streams), 1)
    n = streams[0][0]
    t.equal('the last batch, samples, lost', streams[0], (n, n, '0'))
    for table, by in (('node_sample', 1), ('gauge', 1), ('netio', 1), ('gpu_sample', 2)):
        t.equal(f'rows of {table}', db.number(f'SELECT COUNT(*) FROM {table}'), by * float(n))
    t.equal('times', db.number('SELECT COUNT(DISTINCT time) FROM node_sample'), float(n))
    t.note(f'{n} samples')


@case('a server that is away, and connections that it closes', timeout=60, needs=None)
def away(t):
    db = MariaDB(t, settings='wait_timeout = 1\n')
    a = start_agent(t, db, gpus=1, interval='2s')
    wait_until(lambda: a.metrics().get(STORED, 0) >= 3, 60, 'samples over closed connections')
    t.equal('no failure', a.metrics()['gpuscope_agent_mysql_failures_total'], 0)
    db.stop()
    a.wait_err(r'mysql: 127.0.0.1:[0-9]+ does not accept samples: .*\(error [0-9]+\); they are buffered meanwhile', 60)
    a.wait_metric('gpuscope_agent_mysql_connected', lambda v: v == 0, 60)
    a.wait_metric(WAITING, lambda v: v and v >= 2, 60)
    db.start()
    a.wait_err('accepts samples again', 60)
    a.wait_metric(WAITING, lambda v: v == 0, 60)
    a.stop()
    t.equal('all are there', db.ask('SELECT batch = samples, batch = (SELECT COUNT(*) FROM node_sample), lost_samples FROM gpuscope_stream'),
            [('1', '1', '0')])  # fmt: skip


if __name__ == '__main__':
    main()
