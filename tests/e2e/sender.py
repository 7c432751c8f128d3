#!/usr/bin/env python3
"""Deliveries, pushes and messages are made by processes without rights: what these have, and that nothing is
lost when they are killed in the middle."""

import http.server
import os
import random
import signal
import threading

import harness
from agent_help import Agent, config_text
from alert_help import Webhook, certificate
from harness import Skip, case, main, wait_until
from head_help import Head, Node, account

RULE = '  rules:\n    - {name: idle, condition: "utilization_percent == 0"}\n'
ALERTS = 'alerts:\n  interval: 100ms\n  for: 0\n  cooldown: 0\n  max_per_minute: 1000\n'


def status_of(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        return dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)


def runs(pid):
    try:
        return status_of(pid)['State'][0] != 'Z'
    except OSError:
        return False


def senders_of(pid, work=None):
    """The senders that a gpuscope has now."""
    found = []
    for task in os.listdir(f'/proc/{pid}/task'):
        try:
            with open(f'/proc/{pid}/task/{task}/children', encoding='utf-8') as f:
                children = f.read().split()
        except OSError:
            continue
        for child in children:
            try:
                with open(f'/proc/{child}/comm', encoding='utf-8') as f:
                    name = f.read().strip()
                with open(f'/proc/{child}/cmdline', encoding='utf-8') as f:
                    words = f.read().split('\0')
            except OSError:
                continue
            if name == 'gpuscope-sender' and (work is None or work in words):
                found.append(int(child))
    return found


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def lost(agent, reason):
    return agent.metrics()[f'gpuscope_agent_senders_lost_total{{reason="{reason}"}}']


class Engine(http.server.ThreadingHTTPServer):
    """Takes what is pushed; `hold`: an Event for which each answer waits. asked: requests that were read."""

    daemon_threads = True

    def __init__(self):
        engine, self.hold, self.asked, self.taken, self.targets = self, None, 0, 0, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers['Content-Length']))
                engine.asked += 1
                engine.targets.append(self.path)
                if engine.hold:
                    engine.hold.wait()
                self.send_response(200)
                self.send_header('Content-Length', '0')
                self.end_headers()
                engine.taken += 1

            def log_message(self, *args):
                pass

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.port = self.server_address[1]

    def handle_error(self, *args):  # a client that is killed is the case
        pass


def push_text(url):
    return f'push:\n  remote_write: {{url: "{url}", interval: 1s}}\n'


def head_text(t, address):
    return f'head:\n  addresses: "{address}"\n  spool: {t.path("agent-spool")}\n  machine_id: sends\nsampling:\n  interval: 200ms\n'


@case('senders have no rights', timeout=120, needs=None)
def rights(t):
    if os.geteuid() != 0:
        raise Skip('needs root')
    head, engine = Head(t), Engine()
    a = Agent(t, config_text(more=head_text(t, head.address) + push_text(f'http://127.0.0.1:{engine.port}/w')))
    a.wait_metric('gpuscope_agent_head_connected', lambda v: v == 1, 60)
    wait_until(lambda: engine.taken > 0, 60, 'a push')
    wait_until(lambda: senders_of(a.pid, 'fetch') and senders_of(a.pid, 'link'), 60, 'senders')
    seen = set()
    for pid in senders_of(a.pid):
        status = status_of(pid)
        for name in ('CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb'):
            t.equal(name, status[name], '0' * 16)
        t.equal('NoNewPrivs', status['NoNewPrivs'], '1')
        t.equal('Seccomp', status['Seccomp'], '2')
        uids = set(status['Uid'].split())
        t.equal('users', len(uids), 1)
        t.true('not root or nobody', not uids & {'0', '65534'}, uids)
        t.true('nobody else', not uids & seen, (uids, seen))
        seen |= uids
        t.equal('groups', status['Groups'].strip(), '')
        with open(f'/proc/{pid}/limits', encoding='utf-8') as f:
            t.match('memory', r'Max address space +(1073741824|unlimited) ' if harness.is_asan() else r'Max address space +1073741824 ', f.read())
    pids = senders_of(a.pid)
    a.stop()
    wait_until(lambda: not any(runs(pid) for pid in pids), 60, 'their end')
    head.stop()


@case('a node whose sender is killed again and again: each moment once', timeout=240, needs=None)
def killed_node(t):
    head = Head(t)
    # What traces of this user left is not delivered beside it.
    node = Node(t, head.address, 'killed', env={'XDG_STATE_HOME': t.path('state')})
    rng = random.Random(7)
    for _ in range(12):
        before = head.stored('killed')
        wait_until(lambda: senders_of(node.live.pid, 'link'), 60, 'a sender')
        # At any moment: while it starts, connects, sends, and between.
        threading.Event().wait(rng.choice((0, 0.005, 0.02, 0.1, 0.3)))
        kill_all(senders_of(node.live.pid, 'link'))
        if rng.random() < 0.5:
            wait_until(lambda n=before: head.stored('killed') > n, 60, 'delivery')
    t.true('one stream', 'tarting a new stream' not in node.live.err_text(), node.live.err_text())
    t.match('one line each', 'the process that sends was killed by signal 9; it is restarted', node.live.err_text())
    before = head.stored('killed')
    wait_until(lambda: head.stored('killed') > before + 3, 60, 'delivery')
    t.equal('all delivered, nothing lost', node.stop()[3:], (0, 0))
    account(t, head, node)
    t.equal('stored once', head.stored('killed'), node.n_read)
    head.stop()


@case('an agent whose sender is killed: nothing is lost, and it is counted', timeout=180, needs=None)
def killed_agent(t):
    head = Head(t)
    a = Agent(t, config_text(more=head_text(t, head.address)))
    for n in range(3):
        before = head.stored('sends')
        wait_until(lambda n=before: head.stored('sends') > n + 2, 60, 'delivery')
        kill_all(senders_of(a.pid, 'link'))
        wait_until(lambda n=n: lost(a, 'died') > n, 60, 'the count')
    a.wait_err('agent: the process that sends was killed by signal 9; it is restarted')
    a.wait_metric('gpuscope_agent_head_connected', lambda v: v == 1, 60)
    a.wait_metric('gpuscope_agent_head_waiting_samples', lambda v: v is not None and v <= 1, 60)
    t.equal('lost', a.metrics()['gpuscope_agent_head_lost_samples_total'], 0)
    a.stop()
    for s in head.streams('sends'):
        rows = head.batches(s['id'])
        t.equal('numbers', [row[0] for row in rows], list(range(1, len(rows) + 1)))
    head.stop()


@case('a push whose sender is killed while the engine takes it', timeout=180, needs=None)
def killed_push(t):
    engine = Engine()
    engine.hold = threading.Event()
    a = Agent(t, config_text(more=push_text(f'http://127.0.0.1:{engine.port}/w')))
    wait_until(lambda: engine.asked == 1, 60, 'the first request')
    kill_all(senders_of(a.pid, 'fetch'))
    a.wait_err('push: http://127.0.0.1:[0-9]+/w does not accept metrics: the process that sends was killed by signal 9; they are buffered')
    wait_until(lambda: lost(a, 'died') == 1, 60, 'the count')
    waiting = 'gpuscope_agent_push_waiting_samples{protocol="remote_write"}'
    t.true('it waits', a.metrics()[waiting] > 0)
    engine.hold.set()
    a.wait_err('accepts metrics again', 60)
    wait_until(lambda: engine.asked > 2, 60, 'again')
    t.equal('lost', [v for k, v in a.metrics().items() if 'push_lost' in k or 'push_rejected' in k], [0.0, 0.0])
    a.stop()


@case('a message whose sender is killed while the webhook reads it is sent again', timeout=120, needs=None)
def killed_webhook(t):
    hook = Webhook(hold=threading.Event())
    a = Agent(t, config_text(more=f'sampling:\n  interval: 100ms\n{ALERTS}  webhook: {{url: "{hook.url}"}}\n' + RULE), what='gpus=1,idle')
    wait_until(lambda: senders_of(a.pid, 'fetch'), 60, 'a sender')
    a.wait_metric('gpuscope_agent_alert_messages_waiting{receiver="webhook"}', lambda v: v == 1)
    kill_all(senders_of(a.pid, 'fetch'))
    a.wait_metric('gpuscope_agent_alert_failed_attempts_total{receiver="webhook"}', lambda v: v and v >= 1, 60)
    hook.hold.set()
    a.wait_metric('gpuscope_agent_alert_messages_sent_total{receiver="webhook"}', lambda v: v == 1, 60)
    t.equal('what it says', set(hook.told()), {('firing', 'idle', 'GPU-00000000-1111-2222-3333-444455556666')})
    t.equal('dropped', [v for k, v in a.metrics().items() if 'alert_messages_dropped' in k and v], [])
    a.stop()


@case('names of hosts, proxies and the file of an authority reach the sender', timeout=120, needs=None)
def surroundings(t):
    engine, pair = Engine(), certificate(t, 'localhost')
    os.chmod(pair[0], 0o600)  # the sender, another user, could not read it
    a = Agent(t, config_text(more=push_text(f'http://localhost:{engine.port}/named')))
    wait_until(lambda: '/named' in engine.targets, 60, 'a push by name')
    a.stop()
    a = Agent(t, config_text(more=push_text('http://engine.example/far')), env={'http_proxy': f'http://127.0.0.1:{engine.port}'})
    wait_until(lambda: 'http://engine.example/far' in engine.targets, 60, 'a push by the proxy')
    a.stop()
    hook = Webhook(tls=pair)
    a = Agent(t, config_text(more=f'sampling:\n  interval: 100ms\n{ALERTS}  webhook: {{url: "{hook.url}", ca_file: {pair[0]}}}\n' + RULE),
              what='gpus=1,idle')  # fmt: skip
    hook.wait(1)
    a.stop()


main()
