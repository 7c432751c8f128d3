"""The page of a head in a real browser: what a person sees and clicks.

GS_SHOTS=FOLDER keeps screenshots."""

import datetime
import os
import subprocess

import harness
from browser import Browser
from harness import Skip, case, main, read_text, wait_until
from page_check import check, check_focus, check_origin
from page_help import Head, shot, text


@case('the overview shows the GPUs, without an error of the console', timeout=300, needs=None)
def overview(t):
    h = Head(t)
    b = Browser(t)
    b.size(1400, 900)
    b.scheme(False)
    b.open(f'http://{h.http}/')
    b.wait('document.body.innerText.includes("No node has delivered yet")', 'the empty state')
    shot(t, b, 'empty')
    nodes = [h.node('one', 4), h.node('two', 2, more=',idle')]
    h.wait_gpus(6)
    b.wait('document.querySelector(".heat").dataset.rows == "6"', 'six rows of the heat map')
    t.true('both nodes are named', 'two GPU 1' in text(b), text(b)[:500])
    b.wait('document.getElementById("live").className == "on"', 'events arrive')
    # The worst come first: idle before busy ones.
    states = b.run('[...document.querySelectorAll("table .state")].map(e => e.textContent)')
    order = ['failing', 'unreachable', 'throttled', 'degraded', 'idle', 'ok']
    t.equal('worst first', states, sorted(states, key=order.index))
    b.wait('document.querySelector(".heat canvas") && (() => { const c = document.querySelector(".heat canvas").getContext("2d").getImageData(110, 0, 10, 6).data; '
           'return new Set([...c].filter((x, i) => i % 4 == 0)).size > 1 })()', 'colours of the heat map')  # fmt: skip
    shot(t, b, 'overview-light')
    b.scheme(True)
    b.wait('getComputedStyle(document.body).backgroundColor == "rgb(18, 22, 27)"', 'dark colours')
    shot(t, b, 'overview-dark')
    b.click('#theme')
    b.wait('document.documentElement.dataset.theme == "light"', 'the switch')
    b.size(390, 844, mobile=True)
    t.true('nothing is wider than a phone', b.run('document.documentElement.scrollWidth <= innerWidth'),
            b.run('document.documentElement.scrollWidth'))  # fmt: skip
    shot(t, b, 'overview-phone')
    b.size(1400, 900)
    # Keyboard: a key for each page, arrows and Enter in the heat map.
    b.key('n')
    b.wait('document.querySelector("h1").innerText == "Nodes"', 'the page of nodes')
    shot(t, b, 'nodes')
    b.key('o')
    b.wait('document.querySelector(".heat").dataset.rows == "6"', 'the overview again')
    b.run('document.querySelector(".heat canvas").focus()')
    b.key('ArrowDown')
    b.wait('!document.querySelector(".tip").hidden && document.querySelector(".tip").innerText.includes("GPU 1")', 'the value under the cursor')
    b.key('Enter')
    b.wait('location.hash.startsWith("#/gpu/")', 'the page of a GPU')
    b.wait('document.querySelectorAll(".u-over").length == 6', 'six charts')
    b.wait('/SM clock\\s+1[0-9]+ MHz/.test(document.querySelector(".values section[aria-label=Clocks]").innerText)', 'all values, with names and units')
    shot(t, b, 'gpu')
    b.run('(() => { const s = document.querySelector("select"); s.value = "3600"; s.dispatchEvent(new Event("change")) })()')
    b.wait('performance.getEntriesByType("resource").some(e => e.name.includes("/api/v1/series") && e.name.includes("from=-3600") && e.responseEnd > 0)',
           'the past is asked for')
    shot(t, b, 'gpu-past')
    check(t, b, 'a GPU')
    names = b.run('[...document.querySelectorAll("button, input, select, canvas[tabindex], a")].filter(e => !(e.innerText || '
                  'e.getAttribute("aria-label") || (e.labels && e.labels.length))).map(e => e.outerHTML)')  # fmt: skip
    t.equal('everything that can be used has a name', names, [])
    t.equal('errors of the console', b.errors, [])
    check_origin(t, b, h.http)
    for key, page in (('o', 'overview'), ('g', 'GPUs'), ('n', 'nodes'), ('j', 'jobs'), ('s', 'sessions')):
        b.key(key)
        b.wait('document.querySelector("main table") || document.querySelector("main .empty")', page)
        check(t, b, page)
        check_focus(t, b, page)
    for n in nodes:
        n.terminate()
    # A node that went is shown as such, and so is a head that went.
    b.open(f'http://{h.http}/#/nodes')
    b.wait('document.body.innerText.includes("unreachable")', 'nodes that went')
    h.stop()
    b.wait('!document.getElementById("banner").hidden', 'the head is away')
    t.true('the banner says so', 'does not answer' in b.run('document.getElementById("banner").innerText'))
    shot(t, b, 'down')
    h.start(port=h.http.rsplit(':', 1)[1])
    b.wait('document.getElementById("banner").hidden', 'the page comes back by itself', 90)


@case('a click in the heat map shows that time in all charts of the GPU, with its XIDs on the time axis', timeout=300, needs=None)
def zoomed(t):
    h, file = Head(t), t.path('pretended')

    def pretend(what):
        with open(file + '.new', 'w', encoding='utf-8') as f:
            f.write(what)
        os.rename(file + '.new', file)

    pretend('gpus=2')
    n = h.node('one', file=file)
    h.wait_gpus(2)
    pretend('gpus=2,xid=1:79:1')
    node = h.get('/api/v1/nodes')['nodes'][0]['id']
    uuid = h.get(f'/api/v1/nodes/{node}')['gpu_list'][1]['uuid']
    xids = lambda gpu, more='': h.get(f'/api/v1/series?node={node}&gpu={gpu}{more}')['xids']  # noqa: E731
    wait_until(lambda: xids(1), 60, 'the XID')
    t.equal('of memory', [(x['xid'], x['count'], 'bus' in x['text']) for x in xids(1)], [(79, 1, True)])
    t.equal('of that GPU alone', xids(0), [])
    wait_until(lambda: xids(uuid, '&from=-3600'), 60, 'the XID in the store')
    t.equal('the same of the store', [(x['xid'], x['count']) for x in xids(uuid, '&from=-3600')], [(79, 1)])
    late = [datetime.datetime.fromisoformat(found[0]['time'].replace('Z', '+00:00')).timestamp() for found in (xids(1), xids(uuid, '&from=-3600'))]
    t.true('at the same time', abs(late[0] - late[1]) < 5, late)
    t.equal('not of another time', xids(uuid, '&from=-3600&to=-1800'), [])
    wait_until(lambda: h.get('/api/v1/heatmap')['rows'][1]['v'][-8:] and all(v >= 0 for v in h.get('/api/v1/heatmap')['rows'][1]['v'][-8:]), 60, 'eight columns')
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{h.http}/')
    b.wait('document.querySelector(".heat").dataset.rows == "2"', 'two rows of the heat map')
    # The second row, some columns before now.
    b.run('(() => { const c = document.querySelector(".heat canvas"), r = c.getBoundingClientRect(); '
          'c.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: r.right - 4.5 / c.width * r.width, clientY: r.bottom - 2 })) })()')  # fmt: skip
    b.wait('/^#\\/gpu\\/\\d+\\/1\\?from=[0-9.]+&to=[0-9.]+$/.test(location.hash)', 'the address has the time')
    b.wait('document.querySelectorAll(".u-over").length == 6', 'six charts')
    span = [float(x) for x in b.run('[.../from=([0-9.]+)&to=([0-9.]+)/.exec(location.hash)].slice(1).join(" ")').split()]
    t.true('a minute or more around it', span[1] - span[0] >= 59.8, span)
    asked = [u for u in b.run('performance.getEntriesByType("resource").map(e => e.name).filter(x => x.includes("/api/v1/series")).join(" ")').split()]
    t.true('that time alone is read', asked and all(f'from={span[0]}'[:15] in u for u in asked), (asked, span))
    b.wait('document.body.innerText.includes("Back to now")', 'and the way back')
    shot(t, b, 'gpu-zoomed-light')
    b.scheme(True)
    b.wait('getComputedStyle(document.body).backgroundColor == "rgb(18, 22, 27)"', 'dark colours')
    shot(t, b, 'gpu-zoomed-dark')
    b.size(390, 844, mobile=True)
    shot(t, b, 'gpu-zoomed-phone')
    b.size(1400, 900)
    check(t, b, 'a zoomed GPU')
    # What is written on the time axis, as it is drawn.
    drawn = b.run('''import("/web/chart.js").then(({ Chart }) => {
        const said = [], c = new Chart("x", "power_watts", "W", 1, 100), fill = CanvasRenderingContext2D.prototype.fillText
        CanvasRenderingContext2D.prototype.fillText = function (text) { said.push(text); return fill.apply(this, arguments) }
        document.body.append(c.element)
        c.setEvents([{ at: 1030, text: "XID 79" }])
        c.show({ time: [1000, 1030, 1060], complete: true, values: { power_watts: { min: [1, 1, 1], mean: [1, 1, 1], max: [1, 1, 1] } } })
        // It is drawn when the browser comes to it.
        const end = Date.now() + 60000
        return new Promise(done => {
            const look = () => {
                if (!said.includes("XID 79") && Date.now() < end) return setTimeout(look, 50)
                CanvasRenderingContext2D.prototype.fillText = fill
                c.close()
                c.element.remove()
                done(said.includes("XID 79"))
            }
            look()
        })
    })''')
    t.true('the XID is on the axis', drawn)
    t.equal('errors of the console', b.errors, [])
    n.terminate()


@case('tables are sorted by a click, a phone begins with what is wrong, the heat map has figures and no false holes', timeout=300, needs=None)
def reading(t):
    h = Head(t)
    nodes = [h.node('one', 3), h.node('slow', 1, args=('--interval', '2s'))]
    h.wait_gpus(4)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{h.http}/')
    b.wait('document.querySelectorAll("td.name").length == 4', 'a row for each GPU')
    power = '[...document.querySelectorAll("main table tbody tr")].map(e => parseFloat(e.querySelector("td.n").innerText))'
    head = 'th:nth-of-type(5) button.sort'
    b.click(head)
    b.wait('document.querySelector("th:nth-of-type(5)").ariaSort == "descending"', 'the largest first')
    asked = 'performance.getEntriesByType("resource").filter(e => e.name.includes("/api/v1/gpus") && e.responseEnd > 0).length'
    before = b.run(asked)
    b.wait(f'{asked} > {before} + 1', 'other answers')
    watts = b.run(power)
    t.equal('still sorted', watts, sorted(watts, reverse=True))
    t.true('by figures that differ', len(set(watts)) > 1, watts)
    t.equal('the title kept the focus', b.run('document.activeElement.innerText'), 'Power')
    b.key('Enter')
    b.wait('document.querySelector("th:nth-of-type(5)").ariaSort == "ascending"', 'the smallest first')
    watts = b.run(power)
    t.equal('reversed', watts, sorted(watts))
    b.key('Enter')
    b.wait('document.querySelector("th:nth-of-type(5)").ariaSort == "none"', 'the order of the head')
    # What no GPU is, is a line and no card.
    t.true('states of nothing', b.run('[...document.querySelectorAll("main p.note")].some(e => /^No GPU is .*throttled/.test(e.innerText))'))
    t.equal('no card of zero GPUs', b.run('[...document.querySelectorAll(".card")].filter(e => /^0\\s+throttled/.test(e.innerText)).length'), 0)
    # The heat map: figures at both ends, and a node that samples every two seconds has no holes.
    t.equal('its scale', b.run('document.querySelector(".legend").innerText.split(/\\s*\\n\\s*|\\s{2,}/).join(" ").trim()'), '0 % 100 % unknown')
    b.run('(() => { const s = document.querySelector("main select"); s.value = "power_watts"; s.dispatchEvent(new Event("change")) })()')
    b.wait('document.querySelector(".legend").innerText.includes("1000 W")', 'the scale of another value')
    slow = lambda: [r['v'] for r in h.get('/api/v1/heatmap?value=power_watts')['rows'] if 'slow' in r['node_name']][0]  # noqa: E731
    wait_until(lambda: all(v >= 0 for v in slow()[-12:]), 120, 'twelve columns in a row of a node that samples every two seconds')
    t.true('unknown is hatched', 'gradient' in b.run('getComputedStyle(document.querySelector(".heat canvas")).backgroundImage'))
    t.equal('what nobody knows has no colour', b.run('document.querySelector(".heat canvas").getContext("2d").getImageData(0, 0, 1, 1).data[3]'), 0)
    b.size(390, 844, mobile=True)
    b.wait('document.querySelector("main section").ariaLabel == "Alerts"', 'a phone begins with the alerts')
    b.wait('document.querySelector(".alerts li").getBoundingClientRect().bottom < 844', 'one on its first screen')
    b.size(1400, 900)
    b.wait('document.querySelector("main section").ariaLabel == "Heat map"', 'a wide one with the map')
    # A process on many GPUs is one row; reasons of the driver have words.
    rows = b.run('import("/web/views.js").then(m => m.perProcess([0, 1, 2].map(gpu => ({ node: 1, pid: 7, gpu, memory_used_bytes: 5, sm_ratio: gpu / 10 })).concat({ node: 1, pid: 8, gpu: 0, memory_used_bytes: null, sm_ratio: null })))')
    t.equal('grouped', [(p['pid'], len(p['gpus']), p['memory_used_bytes'], p['sm_ratio'] and round(p['sm_ratio'], 3)) for p in rows], [(7, 3, 15, 0.1), (8, 1, None, None)])
    found = b.run('import("/web/values.js").then(m => m.valueGroups({ throttle_reasons_mask: 68, pcie_tx_bytes_per_second: 3 * 2 ** 20, fan_ratio: null }).map(e => [e.ariaLabel, [...e.querySelectorAll("td")].map(x => x.innerText)]))')
    t.equal('values', found, [['Throttling', ['Throttle reasons', 'power limit, heat (hardware)']], ['PCIe', ['PCIe sent', '3.0 MiB/s']], ['Temperature', ['Fan', '–']]])
    # One cursor over all charts of a GPU.
    b.open(f'http://{h.http}/#/gpu/1/0')
    b.wait('document.querySelectorAll(".u-over").length == 6', 'its charts')
    b.wait('[...document.querySelectorAll("main section[aria-label^=Power] .row > b")].some(e => / W$/.test(e.innerText))', 'the value of now')
    b.run('document.querySelector(".u-over").scrollIntoView({ block: "center" })')
    x, y = b.run('(() => { const r = document.querySelector(".u-over").getBoundingClientRect(); return [r.x + r.width * 0.9, r.y + r.height / 2] })()')
    b.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)
    b.wait('[...document.querySelectorAll(".chart")].filter(e => e.offsetParent).every(e => e.classList.contains("read"))', 'figures of all of them')
    t.equal('a chart of what it does not have', b.run('[...document.querySelectorAll("section.panel")].filter(e => /^DRAM/.test(e.ariaLabel)).map(e => e.hidden)'), [True])
    t.equal('errors of the console', b.errors, [])
    for n in nodes:
        n.terminate()


@case('addresses of nothing, skipping to the content, many sessions, what a form begins with', timeout=300, needs=None)
def ways(t):
    h = Head(t, '--enable-bandwidth')
    node = h.node('one', 2)
    h.wait_gpus(2)
    for i in range(105):
        t.equal('started', h.json('POST', '/api/v1/sessions', {'name': f's{i}'})[0], 200)
    t.equal('stopped', h.json('POST', '/profiling/stop', {})[0], 200)
    b = Browser(t)
    b.size(1400, 900)
    home = f'http://{h.http}/'
    b.open(home + '#/nope')
    b.wait('document.getElementById("main").innerText.includes("There is no such page")', 'what is no page')
    b.open(home + '#/job/5')
    b.wait('document.getElementById("main").innerText.includes("no report has this number")', 'what is no report')
    b.run('new Promise(done => setTimeout(done, 2500))')
    t.true('and that stays', 'no report has this number' in text(b), text(b))
    b.open(home + '#/nodes')
    b.wait('document.querySelector("td.name a")', 'the nodes')
    b.run('document.querySelector(".skip").focus()')
    b.key('Enter')
    b.wait('document.activeElement.id == "main"', 'the focus is on the content')
    t.equal('of the same page', b.run('location.hash'), '#/nodes')
    # A node is no better than its GPUs: those of the stand-in have uncorrected errors.
    b.wait('document.querySelector("td .state.failing").innerText == "2 failing"', 'what is wrong with a node')
    b.open(home + '#/work')
    b.wait('document.body.innerText.includes("No report has come yet")', 'no reports')
    t.equal('nothing more to show', b.run('[...document.querySelectorAll("button")].filter(e => e.innerText == "Show more" && e.offsetWidth).length'), 0)
    b.open(home + '#/sessions')
    b.wait('document.querySelectorAll("tbody tr").length == 100', 'the newest sessions')
    b.run('[...document.querySelectorAll("button")].find(e => e.innerText == "Show more").click()')
    b.wait('document.querySelectorAll("tbody tr").length == 105', 'all of them')
    t.equal('counters as the head', b.run('[...document.querySelectorAll("form input[type=checkbox]")].map(e => e.checked)'), [True, False])
    b.open(home + '#/')
    b.wait('document.querySelectorAll(".heat .names div").length == 2', 'rows of the heat map have names')
    node.terminate()
    for page in ('#/node/1', '#/gpu/1/0'):
        b.open(home + page)
        b.wait('document.getElementById("main").innerText.includes("No samples for")', f'{page}: what is shown is old')
    t.equal('errors of the console', [e for e in b.errors if '404' not in e], [])


@case('a session is started, stopped and compared by clicking', timeout=300, needs=None)
def session(t):
    h = Head(t)
    node = h.node('one', 2)
    h.wait_gpus(2)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{h.http}/#/sessions')
    b.wait('document.body.innerText.includes("No session yet")', 'the empty state')
    for name in ('first run', '<img src=x onerror=alert(1)>', 'second'):
        b.type('form input', name)
        b.click('form button.main')
        if '<' in name:
            b.wait('document.querySelector("[role=status].error")', 'a name that cannot be is refused')
            b.run('document.querySelector("form input").value = ""')
            continue
        b.wait(f'[...document.querySelectorAll("td")].some(e => e.innerText == "{name}")', 'the session is listed')
        b.wait(f'document.querySelector("[role=status].said").innerText == "Started {name}."', 'the page says so')
        wait_until(lambda: h.get(f'/api/v1/sessions/{name.replace(" ", "%20")}')['samples'] >= 2, 60, 'samples of the session')
        b.click(f'button[aria-label="stop {name}"]')
        b.wait(f'document.querySelector(\'button[aria-label="resume {name}"]\')', 'the session is stopped')
    t.equal('their states', [s['state'] for s in h.get('/api/v1/sessions')['sessions']], ['stopped', 'stopped'])
    b.click('input[aria-label="Compare second"]')
    b.click('input[aria-label="Compare first run"]')
    b.run('[...document.querySelectorAll("button")].find(e => e.innerText == "Compare the two").click()')
    b.wait('document.querySelector("section[aria-label=Comparison]").innerText.includes("GPU by GPU")', 'the comparison')
    t.true('percentiles side by side', '95th' in b.run('document.querySelector("section[aria-label=Comparison]").innerText'))
    check(t, b, 'sessions compared')
    shot(t, b, 'sessions')
    # The one error is the refusal.
    t.equal('errors of the console', [e for e in b.errors if '400' not in e], [])
    node.terminate()


def burn(t, n):
    """Programs that can be seen; the stand-in says they are on GPUs."""
    return [subprocess.Popen(['python3', '-c', 'while True: pass', f'--rank={i}'], stdout=subprocess.DEVNULL, env=t.envs()) for i in range(n)]


@case('a process: who it is, its GPUs, live and past charts, and that it has gone', timeout=300, needs=None)
def process(t):
    h = Head(t)
    programs = burn(t, 2)
    pids = ':'.join(str(p.pid) for p in programs)
    node = h.node('one', 2, more=f',pids={pids}')
    h.wait_gpus(2)
    pid = programs[0].pid
    wait_until(lambda: [p for p in h.get('/api/v1/processes')['processes'] if p['pid'] == pid and p['name']], 60, 'the process at the head')
    number = h.get('/api/v1/nodes')['nodes'][0]['id']
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{h.http}/#/node/{number}')
    b.wait(f'document.querySelector(\'a[href="#/process/{number}/{pid}"]\')', 'the link to the process')
    b.click(f'a[href="#/process/{number}/{pid}"]')
    b.wait(f'document.querySelector("h1").innerText.includes("({pid})")', 'the page of the process')
    b.wait('document.querySelectorAll(".u-over").length == 4', 'four charts')
    t.true('no arguments without a token', '--rank=0' not in text(b), text(b)[:800])
    b.wait('performance.getEntriesByType("resource").some(e => e.name.includes("/api/v1/process-series") && e.responseEnd > 0)', 'the store is read')
    asked = len([u for u in b.requests if 'process-series' in u])
    b.wait('document.querySelector("main .cards b").innerText.endsWith("%")', 'its share of the SMs')
    seen = h.get('/api/v1/overview')['head']['samples']
    wait_until(lambda: h.get('/api/v1/overview')['head']['samples'] > seen + 3, 60, 'more samples')
    b.wait('document.querySelector(".state.active")', 'it runs')
    t.equal('the store is read once for the live chart', len([u for u in b.requests if 'process-series' in u]), asked)
    check(t, b, 'process')
    check_focus(t, b, 'process')
    shot(t, b, 'process')
    b.size(390, 844, mobile=True)
    shot(t, b, 'process-phone')
    b.size(1400, 900)
    b.run('(() => { const s = document.querySelector("select"); s.value = "3600"; s.dispatchEvent(new Event("change")) })()')
    b.wait('performance.getEntriesByType("resource").filter(e => e.name.includes("/api/v1/process-series") && e.responseEnd > 0).length >= 2', 'the past is asked for')
    b.scheme(True)
    shot(t, b, 'process-dark')
    b.scheme(False)
    for p in programs:
        p.kill()
        p.wait()
    node.terminate()
    node.wait(60)
    node = h.node('one', 2, more=f',pids={os.getpid()}')
    b.wait('document.body.innerText.includes("Last seen")', 'that it has gone')
    wait_until(lambda: not h.get(f'/api/v1/processes/{number}/{pid}')['running'] and h.get('/api/v1/nodes')['nodes'][0]['healthy'], 60, 'the node is back without it')
    b.open(f'http://{h.http}/')
    b.open(f'http://{h.http}/#/process/{number}/{pid}')
    b.wait('document.body.innerText.includes("Last seen") && document.querySelectorAll(".u-over").length == 4', 'what was known of it')
    t.true('its name is known still', 'python3' in text(b), text(b)[:800])
    shot(t, b, 'process-gone')
    b.open(f'http://{h.http}/#/process/{number}/4194303')
    b.wait('document.body.innerText.includes("was not seen in the last week")', 'one that never was')
    t.equal('errors of the console', [e for e in b.errors if '404' not in e], [])
    check_origin(t, b, h.http)
    node.terminate()


@case('the figures of a session are shown and saved', timeout=300, needs=None)
def plots(t):
    h = Head(t)
    nodes = [h.node('one', 2), h.node('two', 1)]
    h.wait_gpus(3)
    t.equal('start', h.json('POST', '/api/v1/sessions', {'name': 'run'})[0], 200)
    wait_until(lambda: h.get('/api/v1/sessions/run')['samples'] >= 8, 60, 'samples of the session')
    b = Browser(t)
    b.size(1400, 900)
    b.call('Browser.setDownloadBehavior', behavior='allow', downloadPath=t.path('saved'))
    b.open(f'http://{h.http}/#/sessions')
    b.wait('document.querySelector(\'a[aria-label="Plots of run"]\')', 'the link')
    b.click('a[aria-label="Plots of run"]')
    b.wait('(document.querySelector(".figure img") && document.querySelector(".figure img").naturalWidth > 500) || document.querySelector(".said.error")', 'the figures')
    said = b.run('document.querySelector(".said").innerText')
    if 'cairo' in said:
        raise Skip(said)
    t.equal('no error', said, '')
    shot(t, b, 'plots')
    check(t, b, 'plots')
    check_focus(t, b, 'plots')
    before = b.run('document.querySelector(".figure img").src')
    b.run('(() => { const s = document.querySelector("select"); s.value = "power"; s.dispatchEvent(new Event("change")) })()')
    b.wait(f'document.querySelector(".figure img").src != "{before}" && document.querySelector(".figure img").alt.startsWith("Power")', 'another figure')
    b.size(390, 844, mobile=True)
    shot(t, b, 'plots-phone')
    b.size(1400, 900)
    for kind, begin in (('pdf', b'%PDF'), ('png', b'\x89PNG'), ('svg', b'<?xml')):
        b.click(f'button[aria-label="Download {kind.upper()}"]')
        path = t.path('saved', f'run.{kind}')
        # It has its name before its content.
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > len(begin), 60, f'the {kind}')
        with open(path, 'rb') as f:
            t.equal(f'begin of the {kind}', f.read(len(begin)), begin)
    t.equal('errors of the console', b.errors, [])
    check_origin(t, b, h.http)
    for n in nodes:
        n.terminate()


@case('where figures cannot be drawn the page says what to install', timeout=200, needs=None)
def no_cairo(t):
    os.makedirs(t.path('lib'))
    with open(t.path('lib', 'libcairo.so.2'), 'w') as f:
        f.write('no library\n')
    t.env['LD_LIBRARY_PATH'] = t.path('lib')
    h = Head(t)
    del t.env['LD_LIBRARY_PATH']
    node = h.node('one', 1)
    h.wait_gpus(1)
    t.equal('start', h.json('POST', '/api/v1/sessions', {'name': 'run'})[0], 200)
    wait_until(lambda: h.get('/api/v1/sessions/run')['samples'] >= 2, 60, 'samples of the session')
    status, r = h.json('GET', '/api/v1/sessions/run/plot')
    t.true('the reason', status == 501 and 'install libcairo2' in r['error']['message'], (status, r))
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{h.http}/#/plots/run')
    b.wait('document.querySelector(".said.error") && document.querySelector(".said.error").innerText.includes("install libcairo2")', 'the reason on the page')
    t.true('and no empty figure', b.run('document.querySelector(".figure").hidden'))
    check(t, b, 'plots that cannot be')
    b.open(f'http://{h.http}/#/plots/none')
    b.wait('document.querySelector("[role=alert].empty") && document.body.innerText.includes("no session has this name")', 'a session that is not there')
    node.terminate()


@case('a thousand GPUs', timeout=300, needs=None)
def thousand(t):
    bench = os.path.join(os.path.dirname(harness.fake.rstrip('/')), '..', 'bench', 'cluster')
    if not os.path.exists(bench):
        raise Skip('bench/cluster is not built')
    h, b = Head(t), Browser(t)  # the load lasts for a minute
    b.size(1400, 1000)
    log = open(t.path('bench.log'), 'wb')
    load = subprocess.Popen([bench, h.grpc, '0', '125', '8', '40', '60', 'now'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_until(lambda: 'ready' in read_text(t.path('bench.log')) or load.poll() is not None, 60, 'the nodes are connected')
    t.true('the load runs', load.poll() is None, read_text(t.path('bench.log')))
    b.open(f'http://{h.http}/')
    b.wait('document.querySelector(".heat").dataset.rows == "1000"', 'a thousand rows', 120)
    # Later answers hold what is new, and the picture moves on.
    b.wait('performance.getEntriesByType("resource").some(e => e.name.includes("since=") && e.responseEnd > 0 && e.decodedBodySize < 200000)', 'only what is new')
    b.wait('(() => { const c = document.querySelector(".heat canvas"), p = c.getContext("2d").getImageData(c.width - 20, 0, 20, c.height).data; '
           'return new Set([...p].filter((x, i) => i % 4 == 0)).size > 5 })()', 'colours of the last seconds')  # fmt: skip
    gaps = b.run('new Promise(done => { const gaps = []; let last = performance.now(); const end = last + 6000; const frame = () => { const now = '
                 'performance.now(); gaps.push(now - last); last = now; now < end ? requestAnimationFrame(frame) : done(gaps.sort((a, b) => a - b)) }; '
                 'requestAnimationFrame(frame) })')  # fmt: skip
    print(f'# {len(gaps)} frames in 6 s, the longest after {gaps[-1]:.0f} ms')
    shot(t, b, 'thousand')
    b.key('g')
    b.wait('document.body.innerText.includes("100 of 1000 GPUs")', 'the list')
    t.equal('errors of the console', b.errors, [])
    load.kill()


if __name__ == '__main__':
    main()
