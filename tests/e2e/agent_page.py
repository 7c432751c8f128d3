"""The page of an agent in a real browser, and the documents it is made of.

GS_SHOTS=FOLDER keeps screenshots."""

import json
import os
import pwd
import subprocess
import sys

from agent_help import Agent, config_text
from browser import Browser
from harness import case, main, wait_until
from page_check import check, check_focus, check_origin
from page_help import Head, shot, text


def get(a, path, headers=None):
    """(status, document)"""
    status, _, body = a.get(path, headers=headers)
    return status, json.loads(body)


def start(t, gpus=4, more='', text=None):
    """An agent, and programs that its driver says are on GPUs. They take no processor from those that draw."""
    sleeps = 'import time; time.sleep(3600)'
    programs = [subprocess.Popen(['python3', '-c', sleeps, f'--rank={i}'], stdout=subprocess.DEVNULL, env=t.envs()) for i in range(2)]
    a = Agent(t, text=text, what=f'gpus={gpus},pids={":".join(str(p.pid) for p in programs)}{more}')
    return a, programs


@case('an agent shows its node: GPUs, charts, processes, itself', timeout=300, needs=None)
def page(t):
    a, programs = start(t)
    pid = programs[0].pid
    b = Browser(t)
    b.size(1400, 900)
    b.scheme(False)
    b.open(f'http://{a.address}/')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'four charts')
    b.wait('document.getElementById("live").className == "on"', 'events arrive')
    b.wait('document.querySelectorAll("main table")[0].querySelectorAll("tbody tr").length == 4', 'each GPU a row')
    t.equal('what there is', b.run('[...document.querySelectorAll("nav a")].map(e => e.innerText)'), ['Node', 'Jobs'])
    b.wait('!document.querySelectorAll(".cards .card b")[4].innerText.includes("–")', 'the CPU of the machine')
    b.wait('[...document.querySelectorAll(".chart")[0].querySelectorAll(".u-legend th")].filter(e => e.innerText.startsWith("GPU")).length == 4', 'lines of four GPUs')
    b.wait('[...document.querySelectorAll("td")].some(e => e.innerText == "Calls of the driver that failed")', 'the agent itself')
    b.wait(f'document.querySelector(\'a[href="#/process/1/{pid}"]\')', 'the process')
    samples = get(a, '/api/v1/overview')[1]['agent']['samples']
    wait_until(lambda: get(a, '/api/v1/overview')[1]['agent']['samples'] > samples + 4, 60, 'more readings')
    shot(t, b, 'agent-light')
    check(t, b, 'an agent')
    check_focus(t, b, 'an agent')
    b.scheme(True)
    shot(t, b, 'agent-dark')
    b.scheme(False)
    b.size(390, 844, mobile=True)
    shot(t, b, 'agent-phone')
    b.size(1400, 900)
    # A session needs a head: its key goes nowhere.
    b.key('s')
    b.key('j')
    b.wait('document.querySelector("h1").innerText == "Jobs and processes"', 'the jobs')
    check(t, b, 'jobs of an agent')
    b.key('o')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'the first page: that of jobs has a row of the process, too')
    # By the keyboard alone; a reading between the two keys may draw the row again.
    b.wait(f'(row => row && (row.focus(), true))(document.querySelector(\'a[href="#/process/1/{pid}"]\'))', 'the process')
    b.key('Enter')
    b.wait(f'document.querySelector("h1").innerText.includes("({pid})")', 'the page of the process')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'its charts')
    b.wait('document.body.innerText.includes("python3")', 'its name')
    t.true('no arguments without a token', '--rank=0' not in text(b), text(b)[:500])
    t.equal('no choice of a past that nobody knows', b.run('document.querySelectorAll("main select").length'), 0)
    check(t, b, 'a process of an agent')
    shot(t, b, 'agent-process')
    b.open(f'http://{a.address}/#/gpu/1/0')
    b.wait('document.querySelectorAll(".u-over").length == 6', 'charts of a GPU')
    b.wait('/SM clock\\s+1[0-9]+ MHz/.test(document.querySelector(".values section[aria-label=Clocks]").innerText)', 'all values, with names and units')
    check(t, b, 'a GPU of an agent')
    shot(t, b, 'agent-gpu')
    b.open(f'http://{a.address}/#/process/1/{pid}')
    b.wait(f'document.querySelector("h1").innerText.includes("({pid})")', 'the page of the process')
    a.pretend(f'gpus=4,pids={programs[1].pid}')
    programs[0].kill()
    programs[0].wait()
    b.wait('document.body.innerText.includes("Last seen")', 'that it has gone')
    b.wait('document.getElementById("main").innerText.includes("python3")', 'and what it was')
    t.equal('errors of the console', [e for e in b.errors if '404' not in e], [])
    check_origin(t, b, a.address)
    a.stop()
    b.wait('!document.getElementById("banner").hidden && document.getElementById("banner").innerText.includes("The agent does not answer")', 'the agent is away')


@case('findings: what was found, since when, why, with the evidence, and what to do; off where they are off', timeout=300, needs=None)
def findings(t):
    more = 'findings:\n  enabled: true\n  settings: idle.window_samples=4\n'
    a = Agent(t, text=config_text(more=more), what=f'gpus=2,idle,held=2048,pids={os.getpid()}')
    a.wait_metric('gpuscope_agent_findings_total{detector="idle"}', lambda value: value == 1)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{a.address}/')
    b.wait('document.querySelectorAll(".findings li").length == 1', 'one finding')
    shown = b.run('document.querySelector(".findings li").innerText')
    f = get(a, '/api/v1/findings')[1]['findings'][0]
    for what in ('holds', f['text'], 'Since', f['cause']['text'], 'confidence 100 %', f['advice'], f['see']):
        t.true(f'says {what}', what in shown, shown)
    check(t, b, 'findings')
    shot(t, b, 'agent-findings')
    a.pretend(f'gpus=2,util=90,held=2048,pids={os.getpid()}')
    b.wait('document.querySelector(".findings li .state").innerText == "over"', 'its end')
    a.stop()
    off = Agent(t)
    b.open(f'http://{off.address}/')
    b.wait('document.querySelector("section[aria-label=Findings]").innerText.includes("findings.enabled")', 'they are off')
    off.stop()


@case('what is drawn again keeps the focus: with a name that came later, after a reading that lacked it', timeout=200, needs=None)
def focus(t):
    a, _ = start(t, gpus=1)
    b = Browser(t)
    b.open(f'http://{a.address}/')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'the page')
    found = b.run('''import("/web/dom.js").then(({ h, put }) => {
        const place = h("div"), row = name => h("a", { href: "#/process/1/7" }, name), found = []
        const note = what => found.push([what, document.activeElement.getAttribute("href") || document.activeElement.id || document.activeElement.tagName])
        document.body.append(place)
        put(place, row("? (7)"))
        place.firstChild.focus()
        put(place, row("python3 (7)"))
        note("named later")
        put(place, "none")
        note("gone")
        put(place, row("python3 (7)"))
        note("back")
        put(place, "none")
        document.getElementById("main").focus()
        put(place, row("python3 (7)"))
        note("back, and the user elsewhere")
        place.remove()
        return found
    })''')
    link = '#/process/1/7'
    t.equal('what has the focus', found, [['named later', link], ['gone', 'BODY'], ['back', link], ['back, and the user elsewhere', 'main']])
    # The space bar presses a button when it is released.
    b.run('''import("/web/dom.js").then(({ h, put }) => {
        const place = h("div", { id: "place" }), button = () => h("button", { type: "button", onclick: () => { window.presses = (window.presses || 0) + 1 } }, "Press")
        document.body.append(place)
        put(place, button())
        place.firstChild.focus()
        place.addEventListener("keydown", () => put(place, button()))
    })''')
    b.key(' ')
    b.wait('window.presses == 1', 'the button is pressed')
    a.stop()


@case('where the time of one process went: counted, where its job is; else the command that shows it', timeout=200)
def process_times(t):
    loop = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
    every = 'jobs:\n  slurm: false\n  containers: true\n  units: true\n  cgroups: true\n  users: true\n  interval: 500ms\n'
    try:
        head = Head(t)
        to_head = f'head:\n  addresses: {head.grpc}\n  spool: {t.path("spool")}\n'
        a = Agent(t, config_text(more=every + to_head), what=f'gpus=1,pids={loop.pid}')
        path = f'/api/v1/processes/1/{loop.pid}'
        b = Browser(t)
        b.size(1400, 900)
        b.scheme(False)
        b.open(f'http://{a.address}/#/process/1/{loop.pid}')
        panel = 'document.querySelector("section[aria-label=\'Where its time went\']")'
        b.wait(f'{panel} && {panel}.innerText.includes("on a processor")', 'its account')
        spent = get(a, path)[1]['thread_seconds']
        t.equal('its parts', sorted(spent), sorted(['cpu', 'runqueue', 'disk', 'network', 'gpu', 'lock', 'pipe', 'sleep', 'other', 'idle']))
        t.true('a loop is on a processor, or waits for one', spent['cpu'] > 0 and spent['cpu'] + spent['runqueue'] > 0.95 * sum(spent.values()), spent)
        # No more than the kernel says itself, which counts from its beginning on.
        with open(f'/proc/{loop.pid}/schedstat', encoding='ascii') as f:
            t.true('of that process', spent['cpu'] <= int(f.read().split()[0]) / 1e9, spent)
        b.run(f'{panel}.scrollIntoView()')
        t.true('nothing but words and figures', 'null' not in b.run(f'{panel}.innerText'))
        check(t, b, 'the account of a process')
        shot(t, b, 'agent-process-account-light')
        b.scheme(True)
        shot(t, b, 'agent-process-account-dark')
        b.size(390, 844, mobile=True)
        b.run(f'{panel}.scrollIntoView()')
        shot(t, b, 'agent-process-account-phone')
        # The same on the page of its head.
        # What has been shown here arrives there a reading or two later.
        wait_until(lambda: (head.json('GET', path)[1].get('thread_seconds') or {}).get('cpu', -1) >= spent['cpu'], 60, 'its account at the head')
        before, at_head, after = spent, head.get(path)['thread_seconds'], get(a, path)[1]['thread_seconds']
        t.equal('the same parts', sorted(at_head), sorted(spent))
        t.true('of the same time', before['cpu'] <= at_head['cpu'] <= after['cpu'], (before, at_head, after))
        b.size(1400, 900)
        b.scheme(False)
        b.open(f'http://{head.http}/#/process/1/{loop.pid}')
        b.wait(f'{panel} && {panel}.innerText.includes("on a processor")', 'its account')
        b.run(f'{panel}.scrollIntoView()')
        shot(t, b, 'head-process-account')
        t.equal('errors of the console', b.errors, [])
        head.stop()
        a.stop()
        a = Agent(t, config_text(), what=f'gpus=1,pids={loop.pid}')
        wait_until(lambda: get(a, path)[0] == 200, 60, 'the process')
        t.equal('not counted', get(a, path)[1]['thread_seconds'], {})
        b.open(f'http://{a.address}/#/process/1/{loop.pid}')
        b.wait(f'{panel} && {panel}.innerText.includes("gpuscope trace -p {loop.pid}")', 'what shows it')
        a.stop()
    finally:
        loop.kill()
        loop.wait()


@case('what is wrong with the node, also by its own rules', timeout=200, needs=None)
def alerts(t):
    rules = 'alerts:\n  interval: 1s\n  rules:\n    - name: warm\n      condition: "temperature_celsius > 1"\n      for: 0s\n      severity: critical\n'
    a, _ = start(t, gpus=2, text=config_text(more=rules))
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{a.address}/')
    b.wait('[...document.querySelectorAll(".alerts li")].some(e => e.innerText.includes("warm: 2 GPUs (0, 1)"))', 'the rule fires for both, in one line')
    t.equal('one line', b.run('[...document.querySelectorAll(".alerts li")].filter(e => e.innerText.includes("warm")).length'), 1)
    t.equal('without a link to a page that an agent has not', b.run('[...document.querySelectorAll(".alerts a")].filter(e => e.hash.startsWith("#/node/")).length'), 0)
    a.pretend('gpus=2,xid=1:79:1')
    b.wait('[...document.querySelectorAll(".alerts li")].some(e => e.innerText.includes("XID 79"))', 'the error of the driver')
    b.wait('document.querySelector("h1 .state.failing")', 'the node is failing')
    check(t, b, 'alerts of an agent')
    shot(t, b, 'agent-alerts')
    found = get(a, '/api/v1/alerts')[1]['alerts']
    t.true('the worst first', [x['severity'] for x in found] == sorted((x['severity'] for x in found), key=['critical', 'warning', 'info'].index), found)
    a.stop()


@case('command lines: none without a token, scrubbed with one, full where that is configured', timeout=100, needs=None)
def commands(t):
    secret = subprocess.Popen(['python3', '-c', 'import time; time.sleep(3600)', '--wandb-key', 'S3CRET', '--rank=0'], env=t.envs())
    with open(t.path('token'), 'w') as f:
        os.fchmod(f.fileno(), 0o600)
        f.write('one-token\n')
    lock = f'  token_file: {t.path("token")}\n'
    token = {'Authorization': 'Bearer one-token'}
    a = Agent(t, config_text(), what=f'gpus=2,pids={secret.pid}')

    def shown(headers=None):
        found = {}

        def seen():
            for path in ('/api/v1/processes', f'/api/v1/processes/1/{secret.pid}'):
                status, d = get(a, path, headers)
                if status != 200 or not (d.get('processes') or d.get('name')):
                    return False
                found[path] = [(p['name'], p['user'], p['command'][-25:]) for p in d.get('processes', [d])]
            # What is read of a process may come after its number.
            return all(name == 'python3' for rows in found.values() for name, _, _ in rows)

        wait_until(seen, 60, 'the process')
        return {x for rows in found.values() for x in rows}

    def restart(more):
        nonlocal a
        a.stop()
        a = Agent(t, config_text(more=more), what=f'gpus=2,pids={secret.pid}')

    user = pwd.getpwuid(os.getuid()).pw_name
    t.equal('without a token', shown(), {('python3', '', '')})
    restart(lock)
    t.equal('with one', shown(token), {('python3', user, ' --wandb-key *** --rank=0')})
    restart(lock + 'processes:\n  commands: full\n')
    t.equal('in full', shown(token), {('python3', user, '-wandb-key S3CRET --rank=0'[-25:])})
    restart(lock + 'processes:\n  commands: name\n')
    t.equal('none', shown(token), {('python3', user, '')})
    a.stop()
    secret.kill()


@case('its documents: those of a head, and none that need one', timeout=200, needs=None)
def documents(t):
    a, programs = start(t, gpus=2)
    o = get(a, '/api/v1/overview')[1]
    t.equal('who answers', (o['role'], o['may_control'], o['nodes']), ('agent', False, 1))
    wait_until(lambda: get(a, '/api/v1/nodes/1')[1].get('gpus') == 2, 60, 'its GPUs')
    # The machine and its processes are read when somebody asks.
    wait_until(lambda: get(a, '/api/v1/nodes/1')[1]['host_memory_total_bytes'], 60, 'its memory')
    path = f'/api/v1/processes/1/{programs[0].pid}'

    def known():
        p = get(a, path)[1]
        return p.get('name') and p['running'] and p['host_memory_bytes'] and [g['gpu'] for g in p['gpus']] == [0]

    wait_until(known, 60, 'a process, and what it does')
    wait_until(lambda: any(v >= 0 for v in get(a, '/api/v1/heatmap')[1]['rows'][1]['v']), 60, 'a point of the heat map')
    wait_until(lambda: any(v is not None for v in get(a, '/api/v1/series?node=1&gpu=0&points=300')[1]['values']['utilization_ratio']['mean']), 60, 'a point of a chart')
    s = get(a, '/api/v1/series?node=1&gpu=0&points=300&values=utilization_ratio,power_watts')[1]
    t.equal('from memory', (s['source'], s['complete']), ('memory', True))
    for path in ('/api/v1/sessions', '/api/v1/process-series?node=1&pid=1', '/status', '/api/v1/nodes/2', '/api/v1/processes/1/4194303', '/web/none.js', '/web/..%2f..',
                 '/api/v1/series?node=1&gpu=0&values=fan_ratio', '/api/v1/switches'):  # fmt: skip
        t.equal(path, a.get(path)[0], 404)
    for path in ('/api/v1/overview', '/', '/api/v1/nodes'):
        t.equal(f'POST {path}', a.get(path, method='POST')[0], 405)
    status, headers, body = a.get('/', headers={'Accept': 'text/html'})
    t.true('the page', status == 200 and b'<!doctype html>' in body and "default-src 'none'" in headers['Content-Security-Policy'], headers)
    t.equal('for others', get(a, '/')[1]['message'], 'gpuscope agent')
    a.stop()


@case('whom it is shown to', timeout=200, needs=None)
def secrets(t):
    tokens, users = t.path('tokens'), t.path('users')
    for path, line in ((tokens, 'secret-token'), (users, 'ann:pass-word')):
        with open(path, 'w') as f:
            f.write(line + '\n')
        os.chmod(path, 0o600)
    a, _ = start(t, gpus=1, text=config_text(more=f'  token_file: "{tokens}"\n'))
    for path in ('/api/v1/overview', '/api/v1/nodes', '/api/v1/events', '/metrics'):
        t.equal(f'{path} without a token', a.get(path)[0], 401)
    t.equal('with it', a.get('/api/v1/overview', headers={'Authorization': 'Bearer secret-token'})[0], 200)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{a.address}/')
    b.wait('document.querySelector("input[type=password]")', 'it asks for the token')
    check(t, b, 'the question for a token')
    b.type('input[type=password]', 'wrong')
    b.key('Enter')
    b.wait('document.querySelector("input[type=password]") && document.querySelector("input[type=password]").value == ""', 'a wrong one is asked again')
    b.type('input[type=password]', 'secret-token')
    b.key('Enter')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'the page')
    t.equal('as an agent', b.run('[...document.querySelectorAll("nav a")].map(e => e.innerText)'), ['Node', 'Jobs'])
    a.stop()
    a, _ = start(t, gpus=1, text=config_text(more=f'  basic_auth_file: "{users}"\n'))
    t.equal('without a password', a.get('/api/v1/overview')[0], 401)
    b.login('ann', 'pass-word')
    b.open(f'http://{a.address}/')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'the page with a password')
    t.equal('the browser asked', set(b.asked), {'gpuscope'})
    a.stop()


if __name__ == '__main__':
    main()
