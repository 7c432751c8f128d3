#!/usr/bin/env python3
"""The page's reports of jobs in a real browser: list, one job, several compared.

GS_SHOTS=FOLDER keeps screenshots."""

import json
import os

from browser import Browser
from cluster_help import Stubs, messages
from harness import case, main, wait_until
from job_help import USER, batch, end, job, rest, rows, spin
from page_check import check, check_origin
from page_help import Head

EVIL = '<img src=x onerror="document.title=1">'


def shot(t, b, name):
    folder = os.environ.get('GS_SHOTS') or t.path('shots')
    os.makedirs(folder, exist_ok=True)
    b.shot(os.path.join(folder, name + '.png'))


def text(b):
    return b.run('document.getElementById("main").innerText')


def looks(t, b, name):
    """Light, dark, and on a phone."""
    check(t, b, name)
    b.scheme(False)
    shot(t, b, name + '-light')
    b.scheme(True)
    b.wait('getComputedStyle(document.body).backgroundColor == "rgb(18, 22, 27)"', 'dark colours')
    shot(t, b, name + '-dark')
    b.scheme(False)
    b.size(390, 844, mobile=True)
    t.true(f'{name}: nothing is wider than a phone', b.run('document.documentElement.scrollWidth <= innerWidth'),
           b.run('document.documentElement.scrollWidth'))  # fmt: skip
    shot(t, b, name + '-phone')
    b.size(1400, 900)


def deliver(t, head, documents):
    """Reports of another machine, as its gpuscope would send them."""
    grpc, gp, _ = messages(t)

    def say():
        yield gp.ToHead(hello=gp.Hello(protocol=1, machine_id='m', hostname='gpu7', stream=5, kind=gp.STREAM_KIND_JOBS))
        welcome = next(answers)
        assert welcome.WhichOneof('body') in ('welcome', 'clock'), welcome
        if welcome.WhichOneof('body') == 'clock':
            next(answers)
        for i, d in enumerate(documents, 1):
            yield batch(gp, i, json.dumps(d))
        for _ in iter(lambda: len(rows(head)) < wanted, False):
            pass

    wanted = len(rows(head)) + len(documents)
    with grpc.insecure_channel(head.grpc) as channel:
        answers = Stubs(channel, gp, 'Node').Link(say(), timeout=300)
        wait_until(lambda: len(rows(head)) == wanted, 60, 'the reports are stored')


def others(head):
    """A real report as a base for those of jobs that this machine cannot run: ranks, GPUs, runs of one name."""
    base = rows(head)[-1]['document']
    # Why a process that spins is what it is depends upon what else the machine does; one that rests is idle.
    idle = rows(head)[0]['document']['jobs'][0]['classification']
    for i in range(6):
        d = json.loads(json.dumps(base))
        j = d['jobs'][0]
        begin = d['delivery']['begin_wall_ns'] + i * 10**10
        d['delivery'].update(report=f'run{i}', state='finished', kind='slurm', source='agent', begin_wall_ns=begin, end_wall_ns=begin + 10**9)
        d['monitoring_session']['start_time'] = f'2026-01-0{i + 1}T10:00:00Z'
        j.update(job_id=str(4711 + i), job_name='train', user='ada', partition='gpu', gpus=[0, 1, 2, 3], gpus_never_used=[3])
        j['classification'].update(efficiency_score=20 + 12 * i, type=idle['type'], evidence=idle['evidence'])
        j['figures'].update(gpus=4, gpus_idle=1, gpu_percent=41.5, gpu_memory_percent=80, gpu_energy_joules=3.6e6)
        j['ranks'] = [{'rank': r, 'step': '0', 'processes': 2, 'cpu_seconds': 100 + (300 if r == 5 else r), 'wait_seconds': 50, 'gpu_wait_seconds': 20.5,
                       'gpu_ratio': 0.5, 'gpu_memory_bytes': 1 << 34, 'file_bytes': 1e9, 'network_bytes': 5e8} for r in range(8)]  # fmt: skip
        j['imbalance'] = {'of': 'cpu_seconds', 'max_over_mean': 2.7, 'slowest_rank': 5, 'evidence': 'rank 5 had 2.7 times the mean of cpu_seconds'}
        yield d
    yield {'delivery': {**base['delivery'], 'report': 'evil', 'state': 'finished'},
           'jobs': [{'job_id': EVIL, 'job_name': EVIL, 'user': EVIL, 'classification': {'type': EVIL, 'evidence': [EVIL, 7, None], 'advice': {'x': 1},
                     'efficiency_parts': [EVIL, {'name': EVIL, 'points': 'x'}]}, 'ranks': [EVIL], 'gpus': EVIL, 'thread_seconds': [1], 'figures': EVIL}]}  # fmt: skip


@case('reports of jobs: the list, a job with all its parts, several compared', timeout=400)
def page(t):
    head = Head(t)
    b = Browser(t)
    b.size(1400, 900)
    b.open(f'http://{head.http}/#/work')
    b.wait('document.body.innerText.includes("No report has come yet")', 'the empty state')
    check(t, b, 'no reports')
    for make in (rest, rest, rest, rest, spin):
        p = make(user=USER)
        try:
            job(t, head, '-u', USER)
        finally:
            end(p)
    deliver(t, head, list(others(head)))
    b.wait('document.querySelectorAll("a[href^=\\"#/job/\\"]").length == 12', 'twelve reports', 90)
    t.true('names are text', EVIL in text(b) and b.run('document.title') != '1')
    looks(t, b, 'jobs')
    # By name, then one of them.
    b.type('input[placeholder="train*"]', 'tra*')
    b.wait('document.querySelectorAll("a[href^=\\"#/job/\\"]").length == 6', 'six of this name')
    b.run('[...document.querySelectorAll("a[href^=\\"#/job/\\"]")].find(e => e.innerText == "4713").click()')
    b.wait('document.querySelector("h1").innerText.startsWith("Job 4713")', 'the page of a job')
    b.wait('document.body.innerText.includes("Compare all runs of this name")', 'all of it')
    for words in ('Parts of the score', 'Why this class', 'idle_heavy_threshold', 'Where the time went', 'never used', 'rank 5 had 2.7 times', 'stands out',
                  'finished', 'score, of 100', '44', 'partition gpu', '1.00 kWh'):  # fmt: skip
        t.true(f'it tells {words!r}', words in text(b), text(b)[:1500])
    t.equal('ranks', b.run('[...document.querySelectorAll("h2")].find(e => e.innerText == "Ranks").parentElement.querySelectorAll("tbody tr").length'), 8)
    looks(t, b, 'job')
    b.run('[...document.querySelectorAll("a")].find(e => e.innerText == "Compare all runs of this name").click()')
    b.wait('document.querySelector("h1").innerText == "Jobs compared" && document.body.innerText.includes("Trends")', 'the comparison')
    b.wait('document.body.innerText.includes("improving")', 'the trend')
    t.true('points a run', '12' in text(b))
    b.open(f'http://{head.http}/#/work')
    b.wait('document.querySelectorAll("a[href^=\\"#/job/\\"]").length == 12', 'all again')
    for number in (1, 2, 3, 4, 5):
        b.run(f'[...document.querySelectorAll("input[type=checkbox]")].find(e => e.getAttribute("aria-label").endsWith("report {number}")).click()')
    b.run('[...document.querySelectorAll("button")].find(e => e.innerText == "Compare the chosen").click()')
    b.wait('document.body.innerText.includes("5 chosen reports")', 'five compared')
    b.wait('document.querySelectorAll("b.warning").length > 0', 'the one that computes stands out')
    looks(t, b, 'compare')
    # A report that no gpuscope wrote is shown as far as it goes.
    evil = next(r['id'] for r in rows(head) if r['report'] == 'evil')
    b.open(f'http://{head.http}/#/job/{evil}')
    b.wait('document.querySelector("h1").innerText.startsWith("Job <img")', 'its name as text')
    b.wait('document.body.innerText.includes("Other reports of this job")', 'to its end')
    check(t, b, 'a hostile report')
    t.true('nothing of it ran', b.run('document.title') != '1')
    t.equal('errors of the console', b.errors, [])
    check_origin(t, b, head.http)
    b.open(f'http://{head.http}/#/job/999')
    b.wait('document.body.innerText.includes("no report has this number")', 'what is not there')
    head.stop()


if __name__ == '__main__':
    main()
