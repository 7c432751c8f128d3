#!/usr/bin/env python3
"""Flight recorders of nodes by way of their head: what there is, files, and one now; by the API and on the page."""

import contextlib
import glob
import http.client
import json
import os
import subprocess
import threading
import urllib.parse

from agent_help import Agent, config_text
from browser import Browser
from cluster_help import Stubs, messages
from harness import case, main, wait_until
from keep_help import Caller, keeps_attributes, records
from page_check import check
from page_help import Head, shot

CONTROL, READ = ({'Authorization': f'Bearer {token}'} for token in ('all-of-it', 'look-at-it'))
STAMP = '20261129T053301.123Z.gst'


def secret_file(t, name, text):
    with open(t.path(name), 'w', encoding='utf-8') as f:
        os.fchmod(f.fileno(), 0o600)
        f.write(text)
    return t.path(name)


def start_head(t, *args):
    return Head(t, *args, '--token-file', secret_file(t, 'roles', 'node deliver-it\nread look-at-it\ncontrol all-of-it\n'))


def start_agent(t, head, pattern, **keys):
    """An agent that records jobs of that pattern, and the number that the head gives its node."""
    token = secret_file(t, 'deliver', 'deliver-it\n')
    keys = {'jobs': f'"{pattern}"', 'directory': t.path('recorder'), 'keep': '1m', **keys}
    more = f'head:\n  addresses: "{head.grpc}"\n  resilient: false\n  token_file: {token}\n  machine_id: m1\n  instance: one\n'
    a = Agent(t, config_text(more=more + 'recorder:\n' + ''.join(f'  {k}: {v}\n' for k, v in keys.items())), what='gpus=1')
    nodes = lambda: [n for n in head.json('GET', '/api/v1/nodes', headers=CONTROL)[1]['nodes'] if n['healthy']]  # noqa: E731
    wait_until(nodes, 60, 'the node at the head')
    return a, nodes()[0]['id']


def fetch(head, number, name, headers=CONTROL):
    """(status, body) of a file; the name goes as it is."""
    c = head.connection()
    c.request('GET', f'/api/v1/nodes/{number}/recorder/{name}', headers=headers)
    r = c.getresponse()
    try:
        return r.status, r.read()
    finally:
        c.close()


def start_job(t, name):
    caller = Caller(t)
    proc = subprocess.Popen(caller.command, env=t.envs({'SLURM_JOB_ID': name, 'SLURM_JOBID': name}))
    wait_until(caller.calls, 30, 'a call')
    return caller, proc


def on_disk(t):
    return sorted(glob.glob(t.path('recorder') + '/*.gst'))


@case('a file on request of the head, listed and fetched: the same bytes; and who may', timeout=120, beside='jobs')
def by_api(t):
    head = start_head(t)
    caller, job = start_job(t, '991131')
    a, number = start_agent(t, head, '991131*')
    place = f'/api/v1/nodes/{number}/recorder'
    listed = lambda who=READ: head.json('GET', place, headers=who)[1]  # noqa: E731
    wait_until(lambda: [j['id'] for j in listed()['jobs'] if j['id'].startswith('991131')], 60, 'the job')
    t.equal('no file yet', (listed()['enabled'], listed()['files']), (True, []))
    caller.wait(1)
    t.equal('who may only read', head.json('POST', f'{place}/all', headers=READ)[0], 403)
    t.equal('without a token', head.json('GET', place)[0], 401)
    t.equal('another job', head.json('POST', f'{place}/job:1', headers=CONTROL)[0], 404)
    t.equal('one is asked for', head.json('POST', f'{place}/all', headers=CONTROL), (200, {'asked': True}))
    wait_until(lambda: listed()['files'], 60, 'the file')
    file = listed()['files'][0]
    t.equal('what is said of it', (file['job'][:6], file['bytes']), ('991131', os.path.getsize(on_disk(t)[0])))
    t.equal('why', file['reason'], 'requested by a user (SIGUSR1)' if keeps_attributes(t) else '')
    t.equal('who may only read gets none', fetch(head, number, file['name'], READ)[0], 403)
    status, body = fetch(head, number, file['name'])
    with open(on_disk(t)[0], 'rb') as f:
        t.true('the same bytes', status == 200 and body == f.read(), (status, len(body)))
    with open(t.path('fetched.gst'), 'wb') as f:
        f.write(body)
    t.true('calls of the job', sum(r['kind'] == 'CALL' for r in records(t.path('fetched.gst'))) > 20)
    caller.end()
    job.wait(30)
    a.stop()
    away = {'connected': False, 'jobs': [], 'files': [], 'enabled': False}
    wait_until(lambda: head.json('GET', place, headers=READ)[1] == away, 60, 'the node has gone')
    t.match('what is said', 'not connected', head.ask('POST', f'{place}/all', headers=CONTROL)[2])
    t.equal('the head', head.stop(), 0)


@case('files of many pieces; names that lead elsewhere lead nowhere; a node that wants none of it', timeout=120, beside='jobs')
def names(t):
    head = start_head(t)
    a, number = start_agent(t, head, 'none-of-these')
    folder = t.path('recorder')
    big = os.urandom(3 * 2**20 + 12345)
    for name, data in ((f'job-big.{STAMP}', big), (f'job-empty.{STAMP}', b''), ('job-x.gst', b'no'), ('secret', b'no')):
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(data)
    os.symlink('/etc/passwd', os.path.join(folder, f'job-link.{STAMP}'))
    os.mkdir(os.path.join(folder, f'job-folder.{STAMP}'))
    os.mkfifo(os.path.join(folder, f'job-pipe.{STAMP}'))
    t.equal('3 MiB', [fetch(head, number, f'job-big.{STAMP}') == (200, big) for _ in range(2)], [True, True])
    t.equal('nothing', fetch(head, number, f'job-empty.{STAMP}'), (200, b''))
    for name in ('secret', 'job-x.gst', f'job-link.{STAMP}', f'job-folder.{STAMP}', f'job-pipe.{STAMP}', f'job-none.{STAMP}', '..', '../secret', 'job-' + 'x' * 400,
                 urllib.parse.quote('../../etc/passwd', safe=''), urllib.parse.quote(f'job-/../job-big.{STAMP}', safe=''), urllib.parse.quote(f'job-\n.{STAMP}')):  # fmt: skip
        status, body = fetch(head, number, name)
        t.true(f'{name[:60]!r}: {status}', status in (400, 404, 414) and b'root:' not in body and body != b'no', body[:100])
    t.equal('no such node', fetch(head, 777, f'job-big.{STAMP}')[0], 503)
    t.equal('no number', fetch(head, 'x', f'job-big.{STAMP}')[0], 404)
    t.equal('which it still delivers', a.metrics()['gpuscope_agent_head_connections_total'], 1)
    # A client that leaves: the next one is served.
    for _ in range(6):
        c = http.client.HTTPConnection(head.http, timeout=60)
        c.request('GET', f'/api/v1/nodes/{number}/recorder/job-big.{STAMP}', headers=CONTROL)
        c.getresponse().read(10)
        c.close()
    wait_until(lambda: fetch(head, number, f'job-big.{STAMP}') == (200, big), 60, 'served again')
    a.stop()
    a, number = start_agent(t, head, 'none-of-these', by_head='false')
    t.equal('not for the head', head.json('GET', f'/api/v1/nodes/{number}/recorder', headers=CONTROL)[1]['enabled'], False)
    t.equal('nor its files', fetch(head, number, f'job-big.{STAMP}')[0], 404)
    a.stop()
    node = head.node('two', 1, args=['--token-file', t.path('deliver')])
    wait_until(lambda: len(head.json('GET', '/api/v1/nodes', headers=CONTROL)[1]['nodes']) == 2, 60, 'a node without an agent')
    number = max(n['id'] for n in head.json('GET', '/api/v1/nodes', headers=CONTROL)[1]['nodes'])
    # A node is listed from its registration on, and connected with its first samples.
    there = lambda: head.json('GET', f'/api/v1/nodes/{number}/recorder', headers=CONTROL)  # noqa: E731
    wait_until(lambda: there()[1]['connected'], 60, 'the node has connected')
    status, said = there()
    t.equal('no recorder there', (status, said['enabled'], said['connected']), (200, False, True))
    node.terminate()
    node.wait(60)
    t.equal('the head', head.stop(), 0)


@case('copies, where the head is to keep them: of a node that has gone; the oldest make room', timeout=180, beside='jobs')
def kept(t):
    copies = t.path('copies')
    with open(t.path('head.yaml'), 'w', encoding='utf-8') as f:
        f.write(f'store:\n  recorder_dir: {copies}\n  recorder_max: 16M\n')
    head = start_head(t, '--config', t.path('head.yaml'))
    a, number = start_agent(t, head, 'none-of-these', max_mib=100)
    place, folder = f'/api/v1/nodes/{number}/recorder', t.path('recorder')
    data = {}
    for n in range(1, 5):  # the third makes the first go, the fourth the second
        name = f'job-{n}.2026112{n}T053301.123Z.gst'
        data[name] = os.urandom(6 * 2**20 + n)
        path = os.path.join(folder, name)
        with open(path + '.new', 'wb') as f:
            f.write(data[name])
        if keeps_attributes(t):
            os.setxattr(path + '.new', 'user.gpuscope.reason', b'hang of rank 3')
        os.utime(path + '.new', (10**9 + n, 10**9 + n))
        os.rename(path + '.new', path)
        # That the agent looks at its folder is not what is waited for: its document is.
        there = lambda: [f['name'] for f in head.json('GET', place, headers=READ)[1]['files']]  # noqa: E731, B023
        wait_until(lambda: name in there(), 120, 'the agent has it')  # noqa: B023
        wait_until(lambda: os.path.exists(f'{copies}/{number}/{name}'), 120, 'a copy')  # noqa: B023
    names = sorted(data)
    t.equal('which there is room for', sorted(os.listdir(f'{copies}/{number}')), names[2:])
    t.equal('for the head alone', [oct(os.stat(p).st_mode & 0o777) for p in (copies, f'{copies}/{number}', f'{copies}/{number}/{names[3]}')], ['0o700', '0o700', '0o600'])
    a.stop()
    gone = lambda: not head.json('GET', place, headers=READ)[1].get('connected', True)  # noqa: E731
    wait_until(gone, 60, 'the node has gone')
    files = head.json('GET', place, headers=READ)[1]['files']
    t.equal('what is listed', [(f['name'], f['job'], f['bytes'], f['reason']) for f in files],
            [(n, n[4], len(data[n]), 'hang of rank 3' if keeps_attributes(t) else '') for n in (names[3], names[2])])  # fmt: skip
    t.match('when it was written', '^2001-09-09T01:46:44', files[0]['time'])
    t.equal('what is fetched', [fetch(head, number, n) == (200, data[n]) for n in names[2:]], [True, True])
    t.equal('what is not there', (fetch(head, number, names[0])[0], fetch(head, number, '..')[0] in (400, 404)), (503, True))
    t.equal('none can be asked for', head.json('POST', f'{place}/all', headers=CONTROL)[0], 503)
    t.equal('the head', head.stop(), 0)


class Liar:
    """A node that answers what it is given: say(question) makes a list of answers."""

    def __init__(self, t, head, say):
        self.grpc, self.gp, _ = messages(t)
        self.said, self.turn, self.is_welcome = [], threading.Condition(), False
        self.channel = self.grpc.insecure_channel(head.grpc)
        self.answer = say
        threading.Thread(target=self.listen, daemon=True).start()
        wait_until(lambda: self.is_welcome, 60, 'a welcome')

    def speak(self):
        yield self.gp.ToHead(hello=self.gp.Hello(protocol=1, machine_id='liar', hostname='liar', stream=7, kind=self.gp.STREAM_KIND_SAMPLES))
        n = 0
        while True:
            with self.turn:
                self.turn.wait_for(lambda: len(self.said) > n)
            n += 1
            yield self.said[n - 1]

    def listen(self):
        with contextlib.suppress(self.grpc.RpcError):  # the channel is closed
            for m in Stubs(self.channel, self.gp, 'Node').Link(self.speak(), timeout=300, metadata=[('authorization', 'Bearer deliver-it')]):
                self.is_welcome |= m.WhichOneof('body') == 'welcome'
                if m.WhichOneof('body') == 'question':
                    with self.turn:
                        self.said += [self.gp.ToHead(answer=self.gp.Answer(**{'id': m.question.id, **x})) for x in self.answer(m.question)]
                        self.turn.notify_all()


@case('a node that lies: what is no answer, and what no node has', timeout=120, needs=None)
def liar(t):
    head = start_head(t)
    state = {}
    node = Liar(t, head, lambda q: state['say'](q))
    wait_until(lambda: head.json('GET', '/api/v1/nodes', headers=CONTROL)[1]['nodes'], 60, 'the node')
    number = head.json('GET', '/api/v1/nodes', headers=CONTROL)[1]['nodes'][0]['id']
    place = f'/api/v1/nodes/{number}/recorder'
    for data in (b'', b'{', b'[1]', b'"x"', b'\xff\xfe', b'[' * 100000, b'x' * (300 << 10)):
        state['say'] = lambda q, data=data: [{'data': data}]
        t.equal(f'{data[:8]}', head.json('GET', place, headers=CONTROL)[0], 502)
    entry = {'name': f'job-a.{STAMP}', 'bytes': 1, 'time': 1}
    bad = [{'name': '../x'}, {'name': 'job-<b>.gst'}, {'name': 5}, 7, None, {'name': 'job-' + 'x' * 300}, {'bytes': -1}, {'time': 1e300}, {'time': -5}]
    files = [entry] + [{**entry, **x} if isinstance(x, dict) else x for x in bad]
    text = json.dumps({'enabled': 1, 'jobs': [{'id': '<i>'}, {'id': 'x', 'processes': -4}, {}, 3], 'files': files, 'more': {}})
    state['say'] = lambda q: [{'id': q.id + 1000, 'data': b'{}'}, {'data': text.encode()}, {'data': b'twice'}]
    status, got = head.json('GET', place, headers=CONTROL)
    t.equal('only what can be', (status, [f['name'] for f in got['files']], [j['id'] for j in got['jobs']]), (200, [entry['name']], ['<i>']))
    state['say'] = lambda q: [{'error': -2, 'text': 'one\nline\x1b[31m'}]
    status, _, said = head.ask('GET', place, headers=CONTROL)
    t.equal('its words', (status, 'one line [31m' in said), (404, True))
    for error in (5, -100000, 2**31 - 1):
        state['say'] = lambda q, error=error: [{'error': error, 'data': b'{}'}]
        t.equal(f'error {error}', head.json('GET', place, headers=CONTROL)[0], 502)
    # A file that ends early, one that changes, one without an end: the client sees that it is not whole.
    for n, say in enumerate((lambda q: [{'data': b'x' * 10, 'total_bytes': 1000}] if q.offset == 0 else [{'error': -5, 'text': 'gone'}],
                             lambda q: [{'data': b'x' * 10, 'total_bytes': 1000 + q.offset}],
                             lambda q: [{'data': b'x' * 10 if q.offset < 50 else b'', 'total_bytes': 1000}],
                             lambda q: [{'data': b'x' * 2000, 'total_bytes': 1000}])):  # fmt: skip
        state['say'] = say
        try:
            status, body = fetch(head, number, entry['name'])
            t.true(f'{n}: cut off', False, (status, len(body)))
        except http.client.IncompleteRead:
            pass
    state['say'] = lambda q: [{'data': b'', 'total_bytes': 2**63}]
    t.equal('too large', fetch(head, number, entry['name'])[0], 502)
    state['say'] = lambda q: []
    t.equal('silence', head.json('GET', place, headers=CONTROL)[1]['connected'], False)
    node.channel.close()
    t.equal('one that has gone', head.json('POST', f'{place}/all', headers=CONTROL)[0], 503)
    t.equal('the head', head.stop(), 0)


@case('on the page of the node: files, one now, and a download', timeout=240, beside='jobs')
def on_page(t):
    head = start_head(t)
    caller, job = start_job(t, '991132')
    a, number = start_agent(t, head, '991132*')
    wait_until(lambda: head.json('GET', f'/api/v1/nodes/{number}/recorder', headers=CONTROL)[1]['jobs'], 60, 'the job')
    caller.wait(1)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{head.http}/')
    b.wait('document.querySelector("form input[type=password]")', 'a token is asked for')
    b.run('sessionStorage.setItem("gpuscope-token", "all-of-it")')
    b.open(f'http://{head.http}/#/node/{number}')
    b.reload()
    section = 'document.querySelector("section[aria-label=\\"Flight recorder\\"]")'
    b.wait(f'{section} && !{section}.hidden', 'the section')
    b.wait(f'{section}.innerText.includes("991132")', 'the job')
    t.true('no file yet', 'No files yet' in b.run(f'{section}.innerText'))
    b.wait(f'!{section}.querySelector(":scope > .row button").hidden', 'the button')
    b.run(f'{section}.querySelector(":scope > .row button").click()')
    b.wait(f'{section}.querySelectorAll("tbody tr").length == 1', 'the file')
    t.equal('its name', b.run(f'{section}.querySelector("tbody tr td:nth-child(6)").innerText'), os.path.basename(on_disk(t)[0]))
    t.equal('its job, and who asked', b.run(f'[2, 4].map(i => {section}.querySelector(`tbody tr td:nth-child(${{i}})`).innerText)'),
            ['991132 (claimed by root)', 'requested by a user (SIGUSR1)' if keeps_attributes(t) else '–'])  # fmt: skip
    b.wait(f'!{section}.innerText.includes("Requested")', 'nothing is requested any more')
    check(t, b, 'flight recorder')
    b.run(f'{section}.scrollIntoView()')
    shot(t, b, 'recorder')
    b.scheme(True)
    shot(t, b, 'recorder-dark')
    # On a phone: the table scrolls, not the page, and what one may press is there without scrolling it.
    b.size(360, 740, mobile=True)
    b.run(f'{section}.scrollIntoView({{ block: "end" }})')
    shot(t, b, 'recorder-phone-dark')
    row = b.run(f'(r => [r.height, r.width])({section}.querySelector("tbody tr").getBoundingClientRect())')
    t.true('no column of single letters', row[0] < 120, row)
    place = b.run(f'(r => [r.left, r.right])({section}.querySelector("tbody button").getBoundingClientRect())')
    t.true('the download is there without scrolling', 0 <= place[0] < place[1] <= 360, place)
    t.true('no wider than a phone', b.run('document.documentElement.scrollWidth') <= 360, b.run('document.documentElement.scrollWidth'))
    b.scheme(False)
    shot(t, b, 'recorder-phone')
    b.size(1280, 800)
    b.run(f'{section}.querySelector("tbody button").click()')
    b.wait(f'{section}.innerText.includes("Downloaded job-")', 'the download')
    t.equal('errors of the console', [e for e in b.errors if '401' not in e], [])
    # Who may only read sees files and no button to have one written.
    b.run('sessionStorage.setItem("gpuscope-token", "look-at-it")')
    b.reload()
    b.wait(f'{section} && {section}.querySelectorAll("tbody tr").length == 1', 'the file for a reader')
    t.true('no button', b.run(f'{section}.querySelector(":scope > .row button").hidden'))
    caller.end()
    job.wait(30)
    a.stop()
    t.equal('the head', head.stop(), 0)


if __name__ == '__main__':
    main()
