"""A real MariaDB of the end-to-end tests, started as people start one for a trial: packaging/mysql/trial.sh.

Another server, such as MySQL 8: GPUSCOPE_TEST_DATABASE names a folder with programs that are called as MariaDB's are (mariadbd, mariadb,
mariadb-install-db), and take their arguments."""

import ctypes
import os
import shutil
import signal
import subprocess

import harness
from agent_help import Agent, config_text
from harness import Skip, free_port, read_text, wait_until

WAITING, STORED = 'gpuscope_agent_mysql_waiting_samples', 'gpuscope_agent_mysql_samples_total'
PROGRAMS = os.environ.get('GPUSCOPE_TEST_DATABASE')
TRIAL = os.path.join(harness.HERE, '../../packaging/mysql/trial.sh')


def need_library():
    try:
        ctypes.CDLL('libmariadb.so.3')
    except OSError:
        raise Skip('libmariadb.so.3 is not installed (libmariadb3)') from None


def search_path():
    return (PROGRAMS + ':' if PROGRAMS else '') + os.environ['PATH'] + ':/usr/sbin:/sbin'


class MariaDB:
    """settings: lines of its my.cnf."""

    def __init__(self, t, schema='both', settings=''):
        path = search_path()
        for program in ('mariadbd', 'mariadb', 'mariadb-install-db'):
            if not shutil.which(program, path=path):
                raise Skip(f'{program} is not installed (mariadb-server-core, mariadb-client-core)')
        need_library()
        self.t, self.schema, self.port, self.dir = t, schema, free_port(), t.path('db')
        os.makedirs(self.dir)
        if settings:
            with open(self.path('my.cnf'), 'w') as f:
                f.write('[mysqld]\n' + settings)
            os.chmod(self.path('my.cnf'), 0o644)
        self.start()

    def path(self, name):
        return os.path.join(self.dir, name)

    def trial(self, word):
        words = [TRIAL, '--dir', self.dir, '--port', str(self.port), '--schema', self.schema, word]
        done = subprocess.run(words, capture_output=True, text=True, env=self.t.envs({'GPUSCOPE': harness.gpuscope, 'PATH': search_path()}), timeout=60)
        log = read_text(self.path('server.log')) if os.path.exists(self.path('server.log')) else ''
        assert done.returncode == 0, f'trial.sh {word}: {done.stderr} {log[-2000:]}'
        return done.stdout

    def start(self):
        self.said = self.trial('start')
        self.pid = int(read_text(self.path('pid')))

    def stop(self):
        self.trial('stop')

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f'/proc/{self.pid}') or ') Z ' in read_text(f'/proc/{self.pid}/stat'), 20, 'its end')

    def run(self, sql, user='root', *more):
        words = ['mariadb', '--no-defaults', f'--user={user}', '--batch', '--raw', *more, 'gpuscope']
        if user == 'root':
            words.insert(2, f'--socket={self.path("socket")}')
        else:  # over the network, as who they are
            words[2:2] = ['--protocol=tcp', '--host=127.0.0.1', f'--port={self.port}']
        env = self.t.envs({'PATH': search_path(), 'MYSQL_PWD': '' if user == 'root' else read_text(self.path(f'{user}-password'))})
        done = subprocess.run(words, input="SET time_zone = '+00:00';\n" + sql, capture_output=True, text=True, timeout=60, env=env)
        assert done.returncode == 0, f'{sql}: {done.stderr}'
        return [tuple(None if x == 'NULL' else x for x in line.split('\t')) for line in done.stdout.splitlines()]

    def ask(self, sql):
        """Rows of texts, NULL as None."""
        return self.run(sql, 'root', '--skip-column-names')

    def records(self, sql, user='root'):
        """The same as {column: text}."""
        rows = self.run(sql, user)
        return [dict(zip(rows[0], row)) for row in rows[1:]]

    def number(self, sql):
        value = self.ask(sql)[0][0]
        return None if value is None else float(value)

    def config(self, **keys):
        """The agent's section."""
        keys = {'server': f'127.0.0.1:{self.port}', 'password_file': self.path('agent-password'), 'schema': self.schema, 'node': 'node-1',
                'interval': '1s', 'spool': self.t.path('spool-mysql'), **keys}  # fmt: skip
        return 'mysql:\n' + ''.join(f'  {k}: {v}\n' for k, v in keys.items())


def start_agent(t, db, gpus=4, more='', **keys):
    return Agent(t, config_text(more=db.config(**keys) + more), what=f'gpus={gpus}')


def sender_of(agent):
    """The process that has the connection; None: there is none now."""
    for task in os.listdir(f'/proc/{agent.pid}/task'):
        try:
            children = harness.read_text(f'/proc/{agent.pid}/task/{task}/children').split()
            for child in children:
                if harness.read_text(f'/proc/{child}/cmdline').split('\0')[1:3] == ['--send-for-parent', 'mysql']:
                    return int(child)
        except OSError:
            pass
    return None
