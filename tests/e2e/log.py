#!/usr/bin/env python3
"""--log-level and --log-topic of the daemons and of trace: what they say, and that they choose."""

import json
import re
import subprocess

from agent_help import Agent
from cluster_help import Head, Node
from harness import case, main, wait_until

TOPICS = 'attach files python gpu jobs recording cost head http alerts processes'.split()


def topics_of(text):
    """Topics of the lines that have one."""
    found = re.findall(r'^gpuscope: (\w+): ', text, re.M)
    return {topic for topic in found if topic in TOPICS}


@case('a head and a node: connections, batches and commits on both sides', needs=None, timeout=60)
def both_sides(t):
    h = Head(t, '--http-port', '0', '--log-level', 'debug', '--log-topic', 'head')
    n = Node(t, h.address, 'logged', '--interval', '0.1', '-vv')
    wait_until(lambda: 'committed' in h.live.err_text() and 'the head has batch 2' in n.live.err_text(), what='two batches')
    n.stop()
    wait_until(lambda: 'connection ended' in h.live.err_text(), what='the end of the connection')
    head, node = h.stop().err, n.live.err_text()
    for wanted in (r'^gpuscope: head: node \S+: connected from \S+, gpuscope \d', r'^gpuscope: head: node \S+: batch 1, 1 samples, \d+ bytes$',
                   r'^gpuscope: head: store: \d+ messages of nodes committed in [\d.]+ ms$',
                   r'^gpuscope: head: node \S+: connection ended, gRPC status 0$'):  # fmt: skip
        t.true(wanted, re.search(wanted, head, re.M), head)
    t.equal('topics of the head', topics_of(head), {'head'})
    t.match('the node', r'(?m)^gpuscope: head: stream of this node: connection 1$', node)
    t.true('more topics of the node', 'gpu' in topics_of(node), topics_of(node))


@case('by default nothing is logged', needs=None, timeout=60)
def silent(t):
    h = Head(t, '--http-port', '0')
    n = Node(t, h.address, 'quiet', '--interval', '0.1')
    wait_until(lambda: json.loads(h.session('status', '--format', 'json').out)['nodes'], what='the node')
    n.stop()
    t.equal('topics', topics_of(h.stop().err) | topics_of(n.live.err_text()), set())


@case('an agent: each answer and how long it took, or each reading of the GPUs', needs=None, timeout=60)
def agent(t):
    for topic, wanted in (('http', r'/metrics: 200, \d+ bytes, made in [\d.]+ ms$'), ('gpu', r'\d+ GPUs read in [\d.]+ ms, groups 0x')):
        a = Agent(t, args=['--log-level', 'debug', '--log-topic', topic])
        a.get('/metrics')
        wait_until(lambda a=a, wanted=wanted: re.search(wanted, a.err_text(), re.M), what=wanted)
        t.equal(f'topics of {topic}', topics_of(a.err_text()), {topic})
        a.stop()


@case('trace: the topics hold in the process that reads files, too', timeout=60)
def traced(t):
    run = t.tool('trace', '--log-level', 'debug', '--log-topic', 'attach,cost', '--', 'true', status=0)
    t.equal('two topics', topics_of(run.err) - {'cost'}, {'attach'})
    run = t.tool('trace', '--log-level', 'debug', '--log-topic', 'files', '--', '/usr/bin/python3', '-c', 'pass', status=0)
    t.equal('of files alone', topics_of(run.err), {'files'})


@case('a recorder in the background: its log is passed on when it is stopped', timeout=60)
def recorder(t):
    measured = subprocess.Popen(['sleep', '1000'])
    said = []
    for options in ([], ['--log-level', 'info', '--log-topic', 'processes'], ['--log-level', 'info', '--log-topic', 'gpu']):
        t.tool('job', '-p', str(measured.pid), '--detach', t.path('pid'), '-o', t.path('r.json'), *options, status=0)
        said.append(t.tool('job', '--stop', t.path('pid'), status=0).err)
    measured.kill()
    measured.wait()
    t.match('its reader', r'(?m)^gpuscope: processes: reader of files: \d+ requests, 0 late', said[1])
    t.equal('topics', [topics_of(text) for text in said], [set(), {'processes'}, set()])


@case('wrong levels and topics are refused in one line', needs=None)
def wrong(t):
    for command in ('agent', 'head', 'connect', 'trace', 'job'):
        run = t.tool(command, '--log-level', 'loud', status=2)
        t.match(command, r'--log-level takes warning, info, debug or trace, not "loud"', run.err)
        run = t.tool(command, '--log-topic', 'head,heads', status=2)
        t.match(command, r'--log-topic takes one or more of attach, .* or processes, not "head,heads"', run.err)
        t.equal('one line', run.err.count('\n'), 1)


if __name__ == '__main__':
    main()
