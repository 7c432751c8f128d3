#!/usr/bin/env python3
"""Runs every program of labels.tsv under `gpuscope trace` and compares the verdict with the label.

Prints a row for each program (label, verdict, share, confidence), the confusion table and the accuracy of the
programs that were seen while the rules were made and of those that were not. A label may name several right
classes. A wrong class with a confidence above 0.8 is a serious error; the exit status is 1 when there is one or
when the accuracy is below 0.95.

usage: run.py GPUSCOPE BUILD_TESTS_FOLDER [--only GLOB] [--set seen|held] [--python PATH] [--write FILE.md] [--json FILE]"""

import argparse
import collections
import errno
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = '<!-- verdicts: begin -->', '<!-- verdicts: end -->'
GROUPS = '/sys/fs/cgroup'
LIMIT = 120
Label = collections.namedtuple('Label', 'name set kind classes how command')


def read_labels():
    labels = []
    with open(os.path.join(HERE, 'labels.tsv'), encoding='utf-8') as f:
        for line in f:
            if line.strip() and not line.startswith('#'):
                name, which, kind, classes, how, command = line.rstrip('\n').split('\t')
                labels.append(Label(name, which, kind, classes.split('|'), [h for h in how.split(',') if h], command))
    return labels


def before_others(realtime=False):
    """A session of its own that others on the machine cannot starve: what is measured is the program."""
    os.setsid()
    try:
        os.nice(-15)
        with open('/proc/self/autogroup', 'w', encoding='ascii') as f:
            f.write('-15')
        # What waits for a device a thousand times a second would wait for a busy machine's processors as often.
        if realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass


class Group:
    """A cgroup with a limit, of version 1 or 2; gone at the end."""

    def __init__(self, controller, values_v1, values_v2):
        v2 = os.path.exists(f'{GROUPS}/cgroup.controllers')
        base = GROUPS if v2 else f'{GROUPS}/{controller}'
        self.path = f'{base}/verdicts.{os.getpid()}.{controller}'
        if v2:
            with open(f'{base}/cgroup.subtree_control', 'w', encoding='ascii') as f:
                f.write(f'+{controller}')
        os.mkdir(self.path)
        for name, value in (values_v2 if v2 else values_v1).items():
            with open(f'{self.path}/{name}', 'w', encoding='ascii') as f:
                f.write(str(value))

    def join(self):
        with open(f'{self.path}/cgroup.procs', 'w', encoding='ascii') as f:
            f.write('0')

    def remove(self):
        """Grandchildren that were killed are there for a moment."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                os.rmdir(self.path)
                return
            except OSError as e:
                if e.errno != errno.EBUSY or time.monotonic() > end:
                    print(f'cannot remove {self.path}: {e}', file=sys.stderr)
                    return
            time.sleep(0.1)


class Runner:
    def __init__(self, gpuscope, tests, scratch, python=sys.executable):
        self.gpuscope, self.tests, self.scratch = os.path.abspath(gpuscope), os.path.abspath(tests), scratch
        self.python = python

    def write_data(self):
        data = os.path.join(self.scratch, 'verdicts.data')
        if os.path.exists(data):
            return
        with open(data, 'wb') as f:
            for _ in range(192):
                f.write(os.urandom(1 << 20))
            os.fsync(f.fileno())

    def words(self, label, attached):
        program = [self.python, os.path.join(HERE, 'programs.py')]
        words = label.command.replace('SCRATCH', self.scratch)
        if words.startswith(('sh -c ', 'MPI ')):
            if words.startswith('MPI '):
                return ['mpirun', '--allow-run-as-root', '--oversubscribe', '-n', '2', *program, *words.split()[1:]]
            return ['sh', '-c', words[6:].strip("'")]
        words = words.split()
        if words[0] == 'PY':
            words = program + words[1:]
        elif words[0] == 'LOAD':
            words[0] = os.path.join(self.tests, 'verdicts', 'load')
        elif words[0] == 'DEMO':
            words[0] = os.path.join(self.tests, 'fake', 'demo_train')
        elif words[0] == 'RANKS':
            words[0] = os.path.join(self.tests, 'fake', 'ranks')
        return words + (['3600'] if attached else [])

    def run(self, label):
        """(verdict, summary); verdict is None when gpuscope made none."""
        how = dict((h.split('=', 1) + [''])[:2] for h in label.how if not h.startswith('env='))
        env = dict(h[4:].split('=', 1) for h in label.how if h.startswith('env='))
        env = {**{k: v for k, v in os.environ.items() if k != 'LD_LIBRARY_PATH'}, 'VERDICTS_SCRATCH': self.scratch, **env}
        groups, others = [], []
        if 'data' in how:
            self.write_data()
        if 'quota' in how:
            us = int(how['quota']) * 1000
            groups.append(Group('cpu', {'cpu.cfs_period_us': 100000, 'cpu.cfs_quota_us': us, 'cpu.shares': 200000},
                                {'cpu.max': f'{us} 100000', 'cpu.weight': 10000}))
        if 'memory' in how:
            n = int(how['memory']) << 20
            groups.append(Group('memory', {'memory.limit_in_bytes': n}, {'memory.max': n}))

        def prepare():
            if not {'spinners', 'quota'} & set(how):
                before_others('rt' in how)
            if 'cpu' in how:
                os.sched_setaffinity(0, {int(how['cpu'])})
            for g in groups:
                g.join()

        try:
            for _ in range(int(how.get('spinners', 0))):
                others.append(subprocess.Popen(['sh', '-c', 'while :; do :; done'], preexec_fn=prepare))
            if 'peer' in how:
                peer = subprocess.Popen([sys.executable, os.path.join(HERE, 'programs.py'), 'peer'], env=env, text=True,
                                        stdout=subprocess.PIPE, start_new_session=True)
                others.append(peer)
                env['VERDICTS_PORT'] = peer.stdout.readline().split()[1]
            return self.trace(label, how, env, prepare, others)
        finally:
            for p in others:
                try:
                    if os.getpgid(p.pid) == p.pid:
                        os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                p.kill()
                p.wait()
            for g in groups:
                g.remove()

    def trace(self, label, how, env, prepare, others):
        path = os.path.join(self.scratch, label.name + '.json')
        words = [self.gpuscope, 'trace', '--format', 'json', '--summary', path]
        if 'attach' in how:
            env['VERDICTS_READY'] = '1'
            p = subprocess.Popen(self.words(label, True), env=env, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, preexec_fn=prepare)
            others.append(p)
            if not p.stdout.readline().startswith('ready'):
                return None, {}, 'the program did not start'
            words += ['--layer', how['layer'].replace('+', ',')] if 'layer' in how else []
            words += ['--op', how['op']] if 'op' in how else []
            words += ['-p', str(p.pid), '--duration', how.get('duration', '4')] + (['--follow'] if 'follow' in how else [])
            prepare = before_others
        else:
            if 'duration' in how:
                words += ['--duration', how['duration']]
            words += ['--', *self.words(label, False)]
        g = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=prepare)
        try:
            if 'duration' in how and 'attach' not in how:
                end_command_after(g, path)
            err = g.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            os.killpg(g.pid, signal.SIGKILL)
            err = g.communicate()[1] + ' (too long)'
        if not os.path.exists(path):
            return None, {}, err.strip()[-300:]
        with open(path, encoding='utf-8') as f:
            summary = json.load(f)
        return summary['verdict'], summary, ''


def end_command_after(g, path):
    """gpuscope leaves the command running when --duration is over, and waits for it."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and g.poll() is None and not (os.path.exists(path) and os.path.getsize(path)):
        time.sleep(0.1)
    with open(f'/proc/{g.pid}/task/{g.pid}/children', encoding='ascii') as f:
        for pid in f.read().split():
            with open(f'/proc/{pid}/comm', encoding='ascii') as comm:
                if comm.read().strip() != 'gpuscope':
                    os.kill(int(pid), signal.SIGKILL)


def judge(label, verdict):
    """'right', 'wrong', 'serious' (wrong and sure of it)."""
    if not verdict:
        return 'wrong'
    limit = float(next((h[4:] for h in label.how if h.startswith('max=')), 1))
    confidence = verdict['confidence'] or 0
    if verdict['class'] in label.classes and confidence <= limit:
        return 'right'
    return 'serious' if confidence > 0.8 else 'wrong'


def number(value):
    return '-' if value is None else f'{value:.2f}'


def table(rows):
    lines = ['| program | set | label | verdict | share | confidence | |', '|---|---|---|---|---|---|---|']
    for label, v, result in rows:
        said = (v['class'], number(v['share']), number(v['confidence'])) if v else ('none', '-', '-')
        lines.append(f'| {label.name} | {label.set} | {" or ".join(label.classes)} ({label.kind}) | {said[0]} | {said[1]} '
                     f'| {said[2]} | {"" if result == "right" else result} |')
    return lines


def confusion(rows):
    """Labels down, verdicts across; a right verdict counts for the class that it named."""
    cells = collections.Counter()
    for label, v, result in rows:
        said = v['class'] if v else 'none'
        cells[said if said in label.classes else label.classes[0], said] += 1
    across = sorted({s for _, s in cells})
    lines = ['| label \\ verdict | ' + ' | '.join(across) + ' |', '|---' * (len(across) + 1) + '|']
    for wanted in sorted({w for w, _ in cells}):
        lines.append(f'| {wanted} | ' + ' | '.join(str(cells[wanted, s] or '') for s in across) + ' |')
    return lines


def accuracy(rows):
    lines = []
    for which in ('seen', 'held'):
        mine = [r for r in rows if r[0].set == which]
        right = sum(r[2] == 'right' for r in mine)
        if mine:
            lines.append(f'{which}: {right} of {len(mine)} right ({right / len(mine):.3f}), '
                         f'{sum(r[2] == "serious" for r in mine)} wrong with a confidence above 0.8')
    return lines


def write_page(path, lines):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(path, 'w', encoding='utf-8') as f:
        f.write(head + BEGIN + '\n' + '\n'.join(lines) + '\n' + END + tail)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('gpuscope')
    parser.add_argument('tests')
    parser.add_argument('--only', default='*')
    parser.add_argument('--set', dest='which')
    parser.add_argument('--python', default=sys.executable, help='runs the programs: of another version, with its own PyTorch')
    parser.add_argument('--write')
    parser.add_argument('--json')
    args = parser.parse_args()
    labels = [x for x in read_labels() if (not args.which or x.set == args.which)
              and any(fnmatch.fnmatch(x.name, g) for g in args.only.split(','))]
    # Not a RAM disk: reads have to wait for a device.
    scratch = tempfile.mkdtemp(prefix='verdicts.', dir='/var/tmp')
    rows, kept = [], {}
    try:
        runner = Runner(args.gpuscope, args.tests, scratch, args.python)
        for label in labels:
            verdict, summary, error = runner.run(label)
            result = judge(label, verdict)
            rows.append((label, verdict, result))
            kept[label.name] = {'verdict': verdict, 'error': error, 'result': result, 'account': summary.get('account'),
                                'command': summary.get('command'), 'functions': summary.get('functions'),
                                'exit_status': summary.get('exit_status')}
            print(table([rows[-1]])[2], error, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print('\n'.join(['', *confusion(rows), '', *accuracy(rows)]))
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(kept, f)
    if args.write:
        write_page(args.write, [*accuracy(rows), '', *table(rows), '', *confusion(rows)])
    right = sum(r[2] == 'right' for r in rows)
    return 0 if right >= 0.95 * len(rows) and all(r[2] != 'serious' for r in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
