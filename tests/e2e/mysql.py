#!/usr/bin/env python3
"""The agent's samples in a database, a real MariaDB: what is in the tables, and who may do what."""

import os
import socket
import subprocess

import harness
from agent_help import config_text
from harness import case, main, wait_until
from mysql_help import STORED, MariaDB, sender_of, start_agent


@case('rows are what a scrape shows, in both schemas', timeout=60, needs=None)
def rows(t):
    db = MariaDB(t)
    t.match('how to go on', rf'server: 127.0.0.1:{db.port}\n  password_file: {db.dir}/agent-password', db.said)
    a = start_agent(t, db)
    wait_until(lambda: a.metrics().get(STORED, 0) >= 3, 60, 'three samples')
    shown = a.metrics()
    a.stop()

    def served(name):
        return sorted(v for k, v in shown.items() if k.startswith(f'gpuscope_gpu_{name}'))

    for column, name in (('memory_total_bytes', 'memory_total_bytes{'), ('power_limit_watts', 'power_limit_watts{gpu="0"')):
        got = db.ask(f"SELECT DISTINCT gpu, `{column}` FROM gpu_sample WHERE node = 'node-1' ORDER BY gpu")
        t.equal(f'GPUs with {column}', [row[0] for row in got], ['0', '1', '2', '3'])
        t.true(f'{column} as served', {float(row[1]) for row in got} <= set(served(name)), (got, served(name)))
    names = db.ask('SELECT gpu, uuid, name, pci_bus_id FROM gpu ORDER BY gpu')
    t.equal('a GPU', names[2], ('2', 'GPU-00000002-1111-2222-3333-444455556666', 'NVIDIA H100 80GB HBM3', '00000000:12:00.0'))
    t.equal('a process', db.ask('SELECT DISTINCT node, gpu, gpu_memory_bytes FROM gpu_process_sample WHERE gpu = 0')[0][:2], ('node-1', '0'))
    t.equal('processors', db.number('SELECT MAX(processors) FROM node_sample'), float(os.cpu_count()))
    # Both schemas say the same, each in its units; the first sample of the machine has no rates. eACGM's seconds are cut: MySQL's CAST rounds.
    same = '''SELECT COUNT(*) FROM node_sample s JOIN gauge g ON g.TIME = CAST(LEFT(s.time, 19) AS DATETIME) AND g.node = s.node
              JOIN memory m ON m.TIME = g.TIME JOIN gpumem p ON p.TIME = g.TIME JOIN diskio d ON d.TIME = g.TIME JOIN netio n ON n.TIME = g.TIME
              WHERE ABS(g.cpu - 100 * s.cpu_ratio) < 1e-6 AND ABS(m.used * 1048576 - s.memory_used_bytes) < 1
              AND ABS(g.mem - 100 * m.used / m.total) < 1e-6 AND ABS(g.gpu_mem - p.used / p.total) < 1e-9
              AND ABS(d.read_rate * 1048576 - s.disk_read_bytes_per_second) < 1 AND ABS(d.write_rate * 1048576 - s.disk_written_bytes_per_second) < 1
              AND ABS(n.send_rate * 1048576 - s.network_sent_bytes_per_second) < 1
              AND ABS(n.recv_rate * 1048576 - s.network_received_bytes_per_second) < 1
              AND ABS(p.total * 1048576 - (SELECT SUM(memory_total_bytes) FROM gpu_sample x WHERE x.time = s.time)) < 1
              AND ABS(g.gpu_load - (SELECT AVG(utilization_ratio) FROM gpu_sample x WHERE x.time = s.time)) < 1e-9'''
    n = db.number('SELECT COUNT(DISTINCT TIME) FROM gauge')
    t.true('the same figures', db.number(same) >= n - 1 >= 2, (db.number(same), n))
    t.equal('rates of the first', db.ask('SELECT cpu FROM gauge ORDER BY TIME LIMIT 1'), [(None,)])
    # What eACGM's own programs do with its tables works as before.
    db.ask("INSERT INTO gauge VALUES ('2020-01-01', 1, 2, 3, 4)")
    t.equal('its columns', db.ask("SELECT * FROM gauge WHERE TIME = '2020-01-01'"), [('2020-01-01 00:00:00', '1', '2', '3', '4')])


@case('the user has the least privileges, and the sender none', timeout=60, needs=None)
def privileges(t):
    db = MariaDB(t, schema='gpuscope')
    a = start_agent(t, db, gpus=1)
    a.wait_metric(STORED, lambda v: v and v >= 1, 60)
    status = dict(x.split(':\t', 1) for x in harness.read_text(f'/proc/{sender_of(a)}/status').splitlines() if ':\t' in x)
    if os.geteuid() == 0:
        t.equal('capabilities', {status[k] for k in ('CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb')}, {'0' * 16})
        t.true('another user', '0' not in status['Uid'].split() and status['Groups'].strip() == '', status['Uid'])
    t.equal('Seccomp', status['Seccomp'], '2')
    words = harness.read_text(f'/proc/{a.pid}/cmdline') + harness.read_text(f'/proc/{sender_of(a)}/cmdline')
    password = harness.read_text(db.path('agent-password')).strip()
    t.true('no password in arguments and messages', len(password) == 32 and password not in words + a.err_text())
    a.stop()
    rights = [row[0] for row in db.ask("SHOW GRANTS FOR gpuscope")]
    t.equal('tables', len(rights), 7)
    t.true('nothing of the whole server', 'GRANT USAGE ON *.*' in rights[0], rights[0])
    t.true('nothing but rows', not any(w in r for r in rights[1:] for w in ('ALL', 'CREATE', 'DROP', 'ALTER', 'GRANT OPTION', '`.*')), rights)
    t.equal('the reader', [r[0].split(' TO ')[0] for r in db.ask("SHOW GRANTS FOR grafana")][1:], ['GRANT SELECT ON `gpuscope`.*'])


@case("Ollama's requests and tokens, and who asked: as the clients counted", timeout=60)
def ollama(t):
    db = MariaDB(t)
    listener = socket.create_server(('127.0.0.1', 0))
    port = listener.getsockname()[1]
    a = start_agent(t, db, gpus=1, more=f'traffic:\n  enabled: true\n  ollama_port: {port}\n')
    n_tokens, asked = 20, {'127.0.3.1': 300, '127.0.3.2': 100}
    for address, n in asked.items():
        c = socket.create_connection(('127.0.0.1', port), source_address=(address, 0))
        s, _ = listener.accept()
        for _ in range(n):
            c.sendall(b'POST /api/generate')
            s.recv(100)
            for _ in range(n_tokens):
                s.send(b'{"response":"x"}\n')
            left = 17 * n_tokens
            while left:
                left -= len(c.recv(left))
    wanted = [(f'{address}.{port}', str(n)) for address, n in asked.items()]
    wait_until(lambda: db.ask('SELECT ipport, cnt FROM ipport ORDER BY cnt DESC') == wanted, 60, 'requests by client')
    wait_until(lambda: a.metrics().get(STORED, 0) >= 2, 60, 'two samples')
    a.stop()
    t.equal('and no more', db.ask('SELECT ipport, cnt FROM ipport ORDER BY cnt DESC'), wanted)
    # A sample may lie within an answer, its time in two intervals.
    ratio = db.number('SELECT SUM(token) / SUM(request) FROM ollamanet')
    t.true('tokens of a request', abs(ratio - n_tokens) < 0.2 * n_tokens, ratio)
    t.equal('its columns', len(db.ask('SELECT * FROM ollamanet LIMIT 1')[0]), 3)


@case('old rows of this node are removed', timeout=60, needs=None)
def retention(t):
    db = MariaDB(t)
    for node in ('node-1', 'node-2'):
        seconds = ', '.join(f"('2020-01-01' + INTERVAL {i} SECOND, '{node}')" for i in range(7000))
        db.ask(f"""INSERT INTO node_sample (time, node) VALUES {seconds};
                   INSERT INTO netio (TIME, node) VALUES ('2020-01-01', '{node}');
                   INSERT INTO gpu (seen, node, gpu) VALUES ('2020-01-01', '{node}', '9')""")
    a = start_agent(t, db, gpus=1, retention='24h')
    a.wait_metric('gpuscope_agent_mysql_removed_rows_total', lambda v: v == 7001, 60)
    a.stop()
    old = "WHERE time < '2021-01-01' GROUP BY node"
    t.equal('samples', db.ask(f'SELECT node, COUNT(*) FROM node_sample {old}'), [('node-2', '7000')])
    t.equal('eACGM', db.ask(f'SELECT node, COUNT(*) FROM netio {old}'), [('node-2', '1')])
    t.equal('GPUs stay', db.ask('SELECT node FROM gpu WHERE gpu = 9'), [('node-1',), ('node-2',)])
    t.true('new ones stay', db.number("SELECT COUNT(*) FROM node_sample WHERE node = 'node-1'") >= 1)


@case('mistakes: one line each', timeout=60, needs=None)
def mistakes(t):
    secret, open_file = t.path('password'), t.path('open-password')
    for path, mode in ((secret, 0o600), (open_file, 0o644)):
        with open(path, 'w') as f:
            f.write('x\n')
        os.chmod(path, mode)
    for keys, wanted in (({'server': 'db'}, 'server without password_file: there is no default password'),
                         ({'server': 'a b', 'password_file': secret}, r'server takes HOST, HOST:PORT, \[IPv6\]:PORT or unix:/PATH'),
                         ({'server': 'db:99999', 'password_file': secret}, 'server takes HOST'),
                         ({'server': 'db', 'password_file': secret, 'schema': 'grafana'}, 'schema takes one of gpuscope, eacgm, both'),
                         ({'server': 'db', 'password_file': secret, 'tls': 'false', 'tls_ca': '/ca'}, 'tls_ca with tls: false'),
                         ({'server': 'unix:/run/x', 'password_file': secret, 'tls_ca': '/ca'}, 'tls_ca with a Unix socket'),
                         ({'server': 'db', 'password_file': '/nonexistent/p'}, 'the password of mysql'),
                         ({'server': 'db', 'password_file': open_file}, 'the password of mysql')):  # fmt: skip
        path = t.path('bad.yaml')
        with open(path, 'w') as f:
            f.write(config_text(more='mysql:\n' + ''.join(f'  {k}: "{v}"\n' for k, v in keys.items())))
        done = subprocess.run([harness.gpuscope, 'agent', '-c', path], capture_output=True, text=True, timeout=30, env=t.envs(None))
        t.true(f'it ends ({wanted})', done.returncode in (1, 2, 3), done.returncode)
        t.match('message', wanted, done.stderr)
        t.equal('one line', len(done.stderr.strip().splitlines()), 1)
    t.match('a schema that is none', 'one of|the schemas are', t.tool('agent', '--print-schema=x', status=2).err)
    t.match('a schema', 'CREATE TABLE IF NOT EXISTS `ipport`', t.tool('agent', '--print-schema=eacgm', status=0).out)


if __name__ == '__main__':
    main()
