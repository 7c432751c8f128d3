"""A program that is followed from its first instruction to its last, and what the kernel has counted of it.

The program is held until gpuscope follows it. When it has ended it is left unreaped: a zombie's
files in /proc still have all of its counters, so that both sides count the same interval.
"""

import json
import os
import subprocess
import time

import harness
from harness import read_text

CONFIG = 'output:\n  float_precision: -1\n'


def work_load():
    return os.path.join(harness.fake, '..', 'work', 'work_load')


def kernel_figures(pid):
    """Counters of the process in /proc."""
    found = {}
    for line in read_text(f'/proc/{pid}/io').splitlines():
        name, value = line.split(': ')
        found[name] = int(value)
    fields = read_text(f'/proc/{pid}/stat').rsplit(') ', 1)[1].split()
    found['minflt'], found['majflt'] = int(fields[7]), int(fields[9])
    found['cpu_ns'], found['runqueue_ns'] = map(int, read_text(f'/proc/{pid}/schedstat').split()[:2])
    for line in read_text(f'/proc/{pid}/status').splitlines():
        name, value = line.split(':', 1)
        if name in ('voluntary_ctxt_switches', 'nonvoluntary_ctxt_switches'):
            found[name] = int(value)
    return found


class Whole:
    """What one run left: .job (of gpuscope's report), .kernel (differences of /proc), .usage (rusage), .out."""

    def __init__(self, t, *words, options=(), env=None, when_followed=None, while_it_runs=None, inside=()):
        t.n_files += 1
        out, conf = t.path(f'report{t.n_files}.json'), t.path('exact.yaml')
        with open(conf, 'w', encoding='ascii') as f:
            f.write(CONFIG)
        proc = subprocess.Popen([*inside, 'sh', '-c', 'read go; exec "$@"', 'sh', *map(str, words)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)  # fmt: skip
        command = [harness.gpuscope, 'job', '-p', str(proc.pid), '-d', '600', '-r', '-c', conf, '-o', out, *options]
        earliest = time.monotonic()
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        watcher.stdout.readline()  # the live table: it is followed
        before = kernel_figures(proc.pid)
        if when_followed:
            when_followed()
        proc.stdin.write('\n')
        proc.stdin.close()
        if while_it_runs:
            while_it_runs(proc)
        self.out = proc.stdout.read()
        os.waitid(os.P_PID, proc.pid, os.WEXITED | os.WNOWAIT)
        ended = time.monotonic()
        after = kernel_figures(proc.pid)
        self.most_seconds = ended - earliest
        _, status, self.usage = os.wait4(proc.pid, 0)
        proc.returncode = os.waitstatus_to_exitcode(status)
        _, err = watcher.communicate(timeout=120)
        t.equal(f'exit status of gpuscope ({err.strip()[-200:]})', watcher.returncode, 0)
        t.equal(f'exit status of {words[0]} ({self.out[-200:]})', proc.returncode, 0)
        self.kernel = {k: after[k] - before[k] for k in after}
        with open(out, encoding='utf-8') as f:
            self.report = json.load(f)
        self.job = self.report['jobs'][0]
        t.true('counted in the kernel', self.report['monitoring_session']['config']['ebpf_enabled'])

    def calls(self, name, key='calls'):
        return sum(c[key] for c in self.job['syscalls'] if c['name'] == name)
