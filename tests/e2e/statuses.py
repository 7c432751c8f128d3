#!/usr/bin/env python3
"""Exit statuses: the same in all commands, as doc/reading.md has them. What was not found is 4, what failed is 1, a wrong command line is 2."""
import glob
import os
import re

from cluster_help import Head
from harness import case, main
from top_help import nvml

HERE = os.path.dirname(os.path.abspath(__file__))
MAN = f'{HERE}/../../man'
GONE = '4194303'  # PID_MAX_LIMIT - 1: no process has it


@case('nothing found is 4, with one line that says what', needs=None)
def nothing(t):
    node = ('--nvml', nvml())
    for words, says in (
        (('gpu', '-g', '99', *node), 'no GPU "99" here'),
        (('top', '--once', '-g', '99', *node), 'no GPU "99" here'),
        (('probes', '--match', 'nosuchfunction*', nvml()), 'nothing matches nosuchfunction'),
        (('probes', GONE), 'no such process'),
        (('job', '-j', GONE, '-d', '1', *node), 'no'),
        (('devices', GONE), 'no process'),
    ):  # fmt: skip
        run = t.tool(*words)
        t.equal(f'{words}: {run.err!r}', run.status, 4)
        t.match(f'{words}', says, run.err)
        t.equal(f'{words}: lines of {run.err!r}', len(run.err.splitlines()), 1)


@case('of a head: no such session and no such report are 4, no head is 1', needs=None)
def of_head(t):
    head = Head(t, '--http-port', '0')
    for verb in ('stop', 'resume', 'delete', 'export'):
        run = head.session(verb, 'nosuch', status=4)
        t.match(verb, 'nosuch', run.err)
    t.match('in its folder', 'there is no session "nosuch"', t.tool('session', 'export', 'nosuch', '--data', head.data, status=4).err)
    t.tool('report', '--compare', '--head', head.address, '--user', 'nosuch', status=4)
    t.equal('a list of none is a list', head.session('list', status=0).status, 0)
    t.tool('session', 'list', '--data', t.path('nowhere'), status=1)
    head.stop()
    head_gone = t.tool('session', 'list', '--head', head.address, status=1)
    t.match('no head', 'no head answers', head_gone.err)


@case('what cannot be read is 1', needs=None)
def failed(t):
    absent = t.path('absent')
    for words in (('report', absent + '.gst'), ('explain', absent + '.gst'), ('open', absent + '.gst'), ('probes', absent), ('top', '--once', '--replay', absent)):
        t.equal(f'{words}', t.tool(*words).status, 1)
    t.match('no agent', 'no agent', t.tool('agent', 'ctl', 'status', '--control', absent, status=1).err)


@case('doc/reading.md has the table, man pages the statuses of it', needs=None)
def documented(t):
    text = open(f'{HERE}/../../doc/reading.md', encoding='utf-8').read()
    table = re.search(r'(?ms)^## Exit status$(.*?)^## ', text)[1]
    t.equal('the table', re.findall(r'(?m)^\| (\d) \|', table), ['0', '1', '2', '3', '4'])
    commands = re.findall(r'(?m)^  (\w+) ', t.tool('--help', status=0).out)
    pages = {re.search(r'gpuscope-(\w+)', path)[1]: path for path in glob.glob(f'{MAN}/gpuscope-*.[18]')}
    t.true('pages of commands', len(set(pages) & set(commands)) >= 13, sorted(pages))
    for command in set(pages) & set(commands):
        page = open(pages[command], encoding='utf-8').read()
        section = re.search(r'(?ms)^\.SH EXIT STATUS$(.*?)(^\.SH|\Z)', page)[1]
        numbers = re.findall(r'(?:^|[ \n])([0-4])(?= [a-z]|\n)', section)
        t.true(f'{command}: {numbers}', {'0', '1', '2'} <= set(numbers), section)


if __name__ == '__main__':
    main()
