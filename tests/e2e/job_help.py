"""Reports of jobs at a head: programs that are measured, and what the store has of them."""

import json
import os
import pwd
import sqlite3
import subprocess
import sys

from head_help import unpack

NAMES = ('id', 'report', 'state', 'source', 'kind', 'job', 'user', 'name', 'class', 'score', 'begin_wall_ns', 'end_wall_ns')
RUNNING, FINISHED, PARTIAL = 1, 2, 3
# Whom nothing else runs as: reports of `-u` have all processes of the machine that do. Cases with it are alone.
USER = 'news'
LANE_OF_USER = 'user-news'


def ask(head, sql, *args):
    db = sqlite3.connect(f'file:{head.data}/head.db?mode=ro', uri=True, timeout=60)
    try:
        return db.execute(sql, args).fetchall()
    finally:
        db.close()


def rows(head):
    found = ask(head, f'SELECT {", ".join(NAMES)}, codec, raw_bytes, data FROM job_report ORDER BY id')
    return [{**dict(zip(NAMES, r)), 'document': json.loads(unpack(*r[len(NAMES):]))} for r in found]


def rounded(value):
    """As the file has it, by the configuration's precision."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return round(value, 2) if isinstance(value, float) else value


def kill(head):
    head.proc.kill()
    head.proc.wait()


def again(head):
    """The head as it was, at its addresses."""
    head.start(head.grpc, head.http.rsplit(':', 1)[1])


def spin(seconds=600, user=None):
    """A process that computes; as the user, if one is given."""
    uid = pwd.getpwnam(user).pw_uid if user else None
    return subprocess.Popen([sys.executable, '-c', f'import time\nend = time.time() + {seconds}\nwhile time.time() < end: pass'],
                            user=uid, cwd='/')  # fmt: skip


def rest(seconds=600, user=None):
    uid = pwd.getpwnam(user).pw_uid if user else None
    return subprocess.Popen(['sleep', str(seconds)], user=uid, cwd='/')


def end(process):
    process.kill()
    process.wait()


def job(t, head, *args, status=0):
    return t.tool('job', *args, '-d', '500ms', '--head', head.grpc, '--spool', t.path('reports'), '--machine-id', 'worker',
                  status=status, timeout=120)  # fmt: skip


def waits(t):
    return os.listdir(t.path('reports'))


def batch(gp, seq, text, **more):
    """A message with a report, as a node sends it."""
    data = text if isinstance(text, bytes) else text.encode()
    data += b' ' * (-len(data) % 8)
    return gp.ToHead(batch=gp.Batch(**{'seq': seq, 'sample_count': 1, 'raw_bytes': len(data), 'records': data, **more}))
