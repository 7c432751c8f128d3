#!/usr/bin/env python3
"""Databases that do not take the agent's samples: without TLS, with another certificate, or with other tables."""

import os
import shutil
import subprocess

from harness import Skip, case, main, wait_until
from mysql_help import STORED, WAITING, MariaDB, start_agent


@case('TLS: required, and the server is verified', timeout=90, needs=None)
def tls(t):
    if not shutil.which('openssl'):
        raise Skip('openssl is not installed')

    def openssl(*words):
        subprocess.run(['openssl', *words], check=True, capture_output=True, cwd=t.path('tls'))

    os.makedirs(t.path('tls'))
    with open(t.path('tls', 'san'), 'w') as f:
        f.write('subjectAltName=DNS:localhost\n')
    for ca in ('ca', 'other'):
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', f'{ca}.key', '-out', f'{ca}.pem',
                '-days', '2', '-subj', f'/CN={ca}')  # fmt: skip
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key', '-out', 'csr', '-subj', '/CN=db')
    openssl('x509', '-req', '-in', 'csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-out', 'cert', '-extfile', 'san')
    os.chmod(t.path('tls', 'key'), 0o644)
    db = MariaDB(t, settings=f'ssl_cert = {t.path("tls", "cert")}\nssl_key = {t.path("tls", "key")}\n')
    db.ask('ALTER USER gpuscope REQUIRE SSL')
    good = {'server': f'localhost:{db.port}', 'tls_ca': t.path('tls', 'ca.pem')}
    a = start_agent(t, db, gpus=1, **good)
    a.wait_metric(STORED, lambda v: v and v >= 2, 60)
    a.stop()
    n = db.number('SELECT COUNT(*) FROM node_sample')
    for keys, why in (({**good, 'tls_ca': t.path('tls', 'other.pem')}, 'rtificate'),
                      ({**good, 'server': f'127.0.0.1:{db.port}'}, 'rtificate|TLS|SSL'),
                      ({'tls': 'false'}, 'Access denied')):  # fmt: skip
        a = start_agent(t, db, gpus=1, spool=t.path('spool-bad'), **keys)
        a.wait_err(f'does not accept samples: .*({why})', 60)
        a.stop()
    t.equal('none came otherwise', db.number('SELECT COUNT(*) FROM node_sample'), n)
    db.stop()
    # A server without TLS gets nothing from who requires it.
    os.unlink(db.path('my.cnf'))
    db.start()
    db.ask('ALTER USER gpuscope REQUIRE NONE')
    a = start_agent(t, db, gpus=1, spool=t.path('spool-plain'), **good)
    a.wait_err(r'does not accept samples: .*(TLS|SSL)', 60)
    a.stop()


@case('tables that do not fit: data wait, or are refused and counted', timeout=60, needs=None)
def misfits(t):
    db = MariaDB(t)
    db.ask('ALTER TABLE gpu ADD CONSTRAINT named CHECK (LENGTH(name) < 3)')
    a = start_agent(t, db, gpus=1)
    a.wait_err(r'permanently refuses 1 samples: .*named', 60)
    wait_until(lambda: a.metrics()['gpuscope_agent_mysql_rejected_samples_total'] >= 1, 60, 'the count')
    db.ask('ALTER TABLE gpu DROP CONSTRAINT named')
    # MySQL's number and state of the same, and of a value that does not fit.
    for number in (3819, 1366):
        refused = a.metrics()['gpuscope_agent_mysql_rejected_samples_total']
        db.ask(f"CREATE TRIGGER as_mysql BEFORE INSERT ON node_sample FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'as MySQL'")
        wait_until(lambda n=refused: a.metrics()['gpuscope_agent_mysql_rejected_samples_total'] > n, 60, f'one is refused by error {number}')
        db.ask('DROP TRIGGER as_mysql')
    a.wait_metric(STORED, lambda v: v > 0, 60)
    n = db.number('RENAME TABLE gpu_sample TO elsewhere; SELECT COUNT(*) FROM node_sample')
    a.wait_err(r'does not accept samples: .*gpu_sample.*\(error 11[0-9]+\); they are buffered', 60)
    a.wait_metric(WAITING, lambda v: v and v >= 2, 60)
    t.equal('nothing is half there', db.number('SELECT COUNT(*) FROM node_sample'), n)
    db.ask('RENAME TABLE elsewhere TO gpu_sample')
    a.wait_err('accepts samples again', 60)
    a.wait_metric(WAITING, lambda v: v == 0, 60)
    a.stop()
    t.equal('both tables', db.ask('SELECT (SELECT COUNT(*) FROM node_sample) = (SELECT COUNT(*) FROM gpu_sample)'), [('1',)])


if __name__ == '__main__':
    main()
