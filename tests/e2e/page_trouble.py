"""What is wrong and why, on the page of a head in a real browser: jobs that wait for a GPU, idle jobs, silent nodes,
a GPU's reason; and the ways to what one looks for: search, filters, columns, zoom, keys."""

import os
import subprocess
import time

from browser import Browser
from harness import case, main, wait_until
from page_check import check, check_focus
from page_help import Head, shot, text

SIZES = ((390, 844), (1280, 800), (1920, 1080))


def pretend(path, words):
    with open(path + '.new', 'w') as f:
        f.write(words)
    os.rename(path + '.new', path)


def look(t, b, name):
    """Screenshots in light and dark at three sizes, where GS_SHOTS asks for them; nothing is wider than the screen."""
    for dark in (False, True):
        b.scheme(dark)
        for width, height in SIZES:
            b.size(width, height, mobile=width < 500)
            b.wait(f'innerWidth == {width}', 'the size')
            t.true(f'{name} at {width}: not wider than the screen', b.run('document.documentElement.scrollWidth <= innerWidth'))
            shot(t, b, f'{name}-{width}-{"dark" if dark else "light"}')
    b.scheme(False)
    b.size(1280, 800)


def jobs_of(h):
    """By number: what no scheduler confirms is "4703 (claimed by root)"."""
    return {j['job'].split()[0]: j for j in h.get('/api/v1/jobs')['jobs']}


@case('the slow GPU of a job over a minute, idle jobs, one alert for one cause, whole nodes first', timeout=400, needs=None, beside='jobs')
def jobs(t):
    h = Head(t)
    works, idles = (subprocess.Popen(['sleep', '600'], env={**t.env, 'SLURM_JOB_ID': job}) for job in ('4703', '4711'))
    quiet, began = ',ecc=0,throttle=0', time.monotonic()
    nodes = [h.node(name, 1, f'{quiet},pids={works.pid},util=90') for name in ('a1', 'a2')]
    nodes.append(h.node('a3', 1, f'{quiet},pids={works.pid},util=20,width=4'))
    nodes.append(h.node('idle', 4, f'{quiet},idle,pids={":".join([str(idles.pid)] * 4)}'))
    pretend(t.path('cap'), 'gpus=4,ecc=0,throttle=0,util=80')
    nodes.append(h.node('cap', file=t.path('cap')))
    gone = h.node('zz', 1, quiet)
    h.wait_gpus(12)
    wait_until(lambda: {'4703', '4711'} <= set(jobs_of(h)), 60, 'both jobs')
    first = jobs_of(h)['4703']
    # Half a minute is enough to say something.
    if time.monotonic() - began < 25:
        t.equal('in the first seconds nothing is said of the job', (first['straggler'], first['idle']), (None, False))
    wait_until(lambda: jobs_of(h)['4703']['straggler'], 120, 'the slow GPU')
    job = jobs_of(h)['4703']
    t.true('it is that of a3', job['straggler']['node_name'].endswith('a3'), job)
    t.match('and why', 'PCIe x4 of x16', job['straggler_reason'])
    t.true('by what it did in a minute', 0.1 < job['straggler_minute_ratio'] < 0.3 and job['utilization_minute_ratio'] > 0.8, job)
    wait_until(lambda: jobs_of(h)['4711']['idle'], 120, 'the idle job')
    t.equal('of an idle job no GPU is slow', jobs_of(h)['4711']['straggler'], None)
    pretend(t.path('cap'), 'gpus=4,ecc=0,throttle=4,util=80')
    gone.terminate()
    gone.wait(60)
    wait_until(lambda: any('not connected' in a['text'] or 'silent' in a['text'] for a in h.get('/api/v1/alerts')['alerts']), 60, 'the node that went')
    wait_until(lambda: any(a['node_name'].endswith('cap') and a['gpus'] == 4 for a in h.get('/api/v1/alerts')['alerts']), 60, 'the power cap')
    alerts = h.get('/api/v1/alerts?limit=100')['alerts']
    t.true('a whole node comes first', alerts[0]['node_name'].endswith('zz') and alerts[0]['gpu'] is None, alerts[0])
    caps = [a for a in alerts if a['node_name'].endswith('cap') and 'power cap' in a['text']]
    t.equal('four GPUs held by one cause are one alert', [(a['gpus'], a['gpu']) for a in caps], [(4, None)])
    t.match('with their number', '^4 GPUs: throttled by the power cap', caps[0]['text'])
    t.true('since when', caps[0]['since'], caps[0])
    narrow = next(a for a in alerts if 'PCIe x4' in a['text'] and a['node_name'].endswith('a3') and a['jobs'])
    t.equal('nothing knows since when it was so', narrow['since'], None)
    t.equal('whose job suffers', [job.split()[0] for job in narrow['jobs']], ['4703'])
    b = Browser(t)
    b.size(1280, 800)
    b.open(f'http://{h.http}/#/work')
    b.wait('document.querySelector("td .state.warning")', 'the job that waits')
    said = b.run('document.querySelector("td .state.warning").closest("td").innerText')
    t.match('for which GPU, how much, and why', r'(?s)waits.*for \S+/a3 GPU 0: 20 % over the last minute, all 90 % \(median\); PCIe x4 of x16', said)
    t.true('the idle one is idle', b.run('[...document.querySelectorAll("td .state.idle")].some(e => e.closest("tr").innerText.includes("4711"))'), text(b)[:800])
    look(t, b, 'jobs')
    b.open(f'http://{h.http}/')
    b.wait('document.querySelector(".alerts li")', 'alerts')
    first = b.run('document.querySelector(".alerts li").innerText')
    t.match('the silent node first', 'zz', first)
    t.true('what began is new', b.run('[...document.querySelectorAll(".alerts li")].some(e => e.innerText.includes("power cap") && e.querySelector(".new"))'))
    # The heat map: states beside its rows, and the worst of them on top where that is asked for.
    name = 'document.querySelector(".heat .names div").title'
    b.run('(() => { const s = document.querySelector("select[aria-label^=Order]"); s.value = "worst"; s.dispatchEvent(new Event("change")) })()')

    def worst_is_first():
        states = {f'{g["node_name"]} GPU {g["gpu"]}': g['state'] for g in h.get('/api/v1/gpus')['gpus']}
        return states[b.run(name)] in ('failing', 'unreachable')

    wait_until(worst_is_first, 60, 'the worst row first')
    t.equal('a state for each row', *b.run('[document.querySelector(".strip").height, Number(document.querySelector(".heat").dataset.rows)]'))
    b.wait('document.querySelector("td .old")', 'what the node that went showed last is marked')
    look(t, b, 'overview')
    # The page of a GPU: reason, since when, job, advice; what began is on the time axis; dragging zooms.
    node = next(n['id'] for n in h.get('/api/v1/nodes')['nodes'] if n['name'].endswith('a3'))
    b.open(f'http://{h.http}/#/gpu/{node}/0')
    b.wait('document.querySelector(".why")', 'the reason')
    why = b.run('document.querySelector(".why").innerText')
    for what in ('PCIe x4 of x16', 'seen first', 'job 4703', 'reseat the board'):
        t.true(f'the reason says {what}', what in why, why)
    b.wait('document.querySelectorAll(".u-over").length == 6', 'its charts')
    look(t, b, 'gpu')
    b.run('document.querySelector(".u-over").scrollIntoView({ block: "center" })')
    b.wait('innerWidth == 1280 && Math.abs(document.querySelector(".chart").clientWidth - document.querySelector(".uplot").clientWidth) < 4', 'charts of this size')
    x, y, width = b.run('(() => { const r = document.querySelector(".u-over").getBoundingClientRect(); return [r.x, r.y + r.height / 2, r.width] })()')
    for kind, at in (('mouseMoved', 0.5), ('mousePressed', 0.5), ('mouseMoved', 0.7), ('mouseMoved', 0.9), ('mouseReleased', 0.9)):
        b.call('Input.dispatchMouseEvent', type=kind, x=x + width * at, y=y, button='none' if kind == 'mouseMoved' and at == 0.5 else 'left', buttons=1, clickCount=1)
    b.wait('/from=[0-9.]+&to=[0-9.]+/.test(location.hash)', 'the time in the address')
    span = b.run('location.hash.match(/from=([0-9.]+)&to=([0-9.]+)/).slice(1).map(Number)')
    t.true('two fifths of five minutes', 60 < span[1] - span[0] < 180, span)
    b.wait('performance.getEntriesByType("resource").some(e => e.name.includes("/api/v1/series") && /from=1[0-9]+.*to=1/.test(e.name) && e.responseEnd > 0)', 'that time is asked for')
    b.reload()
    b.wait('[...document.querySelectorAll("button")].some(e => e.innerText == "Back to now" && e.offsetWidth)', 'the address alone shows that time')
    b.run('[...document.querySelectorAll("button")].find(e => e.innerText == "Back to now").click()')
    b.wait('location.hash.includes("last=300")', 'now again')
    t.equal('errors of the console', b.errors, [])
    for p in [*nodes, works, idles]:
        p.terminate()


@case('search, filters, columns, keys, and what happened on the time axis', timeout=300, needs=None, beside='jobs')
def ways(t):
    h = Head(t)
    of_job = subprocess.Popen(['sleep', '600'], env={**t.env, 'SLURM_JOB_ID': '815'})
    nodes = [h.node('one', 8, f',pids={of_job.pid}'), h.node('two', 2)]
    h.wait_gpus(10)
    t.equal('started', h.json('POST', '/api/v1/sessions', {'name': 'warm-up'})[0], 200)
    t.equal('annotated', h.json('POST', '/api/v1/sessions/warm-up/annotations', {'name': 'epoch 2'})[0], 200)
    b = Browser(t)
    b.size(1280, 800)
    b.open(f'http://{h.http}/')
    b.wait('document.querySelectorAll("td.name").length == 10', 'a row for each GPU')
    # A filter of a table stays when answers replace its rows, and so does the cursor in it.
    b.type('.tools input[type=search]', '/two')
    b.wait('document.querySelectorAll("td.name").length == 2', 'the rows that match')
    asked = 'performance.getEntriesByType("resource").filter(e => e.name.includes("/api/v1/gpus") && e.responseEnd > 0).length'
    before = b.run(asked)
    b.wait(f'{asked} > {before} + 1', 'other answers')
    t.equal('still those', b.run('[...document.querySelectorAll(".tools .note")].map(e => e.innerText)[0]'), '2 of 10 match')
    t.equal('with the focus', b.run('[document.activeElement.type, document.activeElement.value, document.activeElement.selectionEnd]'), ['search', '/two', 4])
    b.run('(() => { const e = document.querySelector(".tools input[type=search]"); e.value = ""; e.dispatchEvent(new Event("input")) })()')
    b.wait('document.querySelectorAll("td.name").length == 10', 'all of them')
    # Columns: what is left out stays so in this browser.
    b.run('document.querySelector(".tools details").open = true')
    b.click('input[aria-label="Column Model"]')
    b.wait('![...document.querySelectorAll("th")].some(e => e.innerText == "Model")', 'the column is gone')
    b.reload()
    b.wait('document.querySelectorAll("td.name").length == 10', 'the page again')
    t.equal('the columns', b.run('[...document.querySelectorAll("main table th")].map(e => e.innerText)'), ['GPU', 'State', 'Utilisation', 'Memory', 'Power', 'Temp.'])
    b.run('document.querySelector(".tools details").open = true')
    b.click('input[aria-label="Column Model"]')
    b.wait('[...document.querySelectorAll("th")].some(e => e.innerText == "Model")', 'the column is back')
    # Keys: ? lists them, / searches.
    b.run('document.activeElement.blur()')
    b.key('?')
    b.wait('document.querySelector("dialog").open && /Search/.test(document.querySelector("dialog").innerText)', 'the keys')
    shot(t, b, 'keys')
    b.click('dialog button')
    b.wait('!document.querySelector("dialog").open', 'closed')
    b.key('/')
    b.wait('document.activeElement.type == "search" && location.hash == "#/find"', 'the search')
    b.call('Input.insertText', text='815')
    b.wait('/Jobs: 1/.test(document.getElementById("main").innerText) && /Processes: 1/.test(document.getElementById("main").innerText)', 'a job and its process')
    for wanted, found in (('/two', 'GPUs: 2'), ('GPU-00000007', 'GPUs: 1'), ('sleep', 'Processes: 1'), ('nothing of it', 'Nothing here')):
        b.open(f'http://{h.http}/#/find/{wanted.replace("/", "%2F").replace(" ", "%20")}')
        b.wait(f'document.getElementById("main").innerText.includes("{found}")', f'{wanted}: {found}')
    check(t, b, 'search')
    check_focus(t, b, 'search')
    look(t, b, 'find')
    # A session and its annotation are lines across the charts of a GPU.
    b.open(f'http://{h.http}/#/gpu/1/0')
    b.wait('document.querySelectorAll(".u-over").length == 6', 'its charts')
    events = 'import("/web/views.js").then(m => m.sessionEvents(Date.now() / 1000 - 3600, Date.now() / 1000)).then(l => l.map(e => e.text))'
    t.equal('what happened', b.run(events), ['warm-up begins', 'epoch 2'])
    accent = 'getComputedStyle(document.documentElement).getPropertyValue("--accent").trim()'
    b.wait(f'(() => {{ const c = document.querySelector(".chart canvas"), p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, '
           f'a = [1, 3, 5].map(i => parseInt({accent}.slice(i, i + 2), 16)); for (let y = 0, n = 0; y < c.width; y++) {{ n = 0; for (let k = 0; k < c.height; k++) {{ '
           'const o = (k * c.width + y) * 4; if (a.every((v, i) => Math.abs(p[o + i] - v) < 3)) n++ } if (n > c.height / 3) return true } return false })()', 'a line in the chart')  # fmt: skip
    check(t, b, 'a GPU')
    t.equal('errors of the console', b.errors, [])
    for p in [*nodes, of_job]:
        p.terminate()


if __name__ == '__main__':
    main()
