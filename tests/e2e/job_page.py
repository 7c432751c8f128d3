#!/usr/bin/env python3
"""Reports of jobs in a real browser, on a head's page (list, one job, several compared) and in files of their own.

GS_SHOTS=FOLDER keeps screenshots."""

import json
import os
import threading

from browser import Browser
from cluster_help import Stubs, messages
from harness import case, main, page_report, read_text
from job_help import LANE_OF_USER, USER, batch, end, job, rest, rows, spin
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
    wanted = len(rows(head)) + len(documents)
    welcomed, stored = threading.Event(), threading.Event()

    def say():
        yield gp.ToHead(hello=gp.Hello(protocol=1, machine_id='m', hostname='gpu7', stream=5, kind=gp.STREAM_KIND_JOBS))
        welcomed.wait(300)
        for i, d in enumerate(documents, 1):
            yield batch(gp, i, json.dumps(d))
        stored.wait(300)

    with grpc.insecure_channel(head.grpc) as channel:
        for m in Stubs(channel, gp, 'Node').Link(say(), timeout=300):
            kind = m.WhichOneof('body')
            t.true('a report is taken', kind != 'reject', m)
            if kind == 'welcome':
                welcomed.set()
            if kind == 'reject' or (kind == 'ack' and m.ack.seq == len(documents)):
                stored.set()
                break
    t.equal('reports that are stored', len(rows(head)), wanted)


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


@case('reports of jobs: the list, a job with all its parts, several compared', timeout=400, alone=LANE_OF_USER)
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


def full(d):
    """A report's document with something in every table, and a name that tries to be markup wherever a name can stand."""
    j = d['jobs'][0]
    hist = [{'from_ns': 4096, 'count': 1000}, {'from_ns': 32768, 'count': 250}]
    io = {'reads': 7, 'read_bytes': 3 << 20, 'writes': 1250, 'write_bytes': 4096, 'errors': 3, 'total_ns': 5000000}
    j.update(
        job_id='4711', job_name=EVIL, user=EVIL, command=EVIL + '\u202e\x1b', gpus=[0, 2], gpus_never_used=[2], ended=True, duration_seconds=10,
        thread_seconds={'cpu': 5, 'lock': 1, 'idle': 4}, wall_account={'components': [], 'shown_by': 'gpuscope trace'}, oom_kills=2,
        ranks=[{'rank': r, 'step': EVIL, 'cpu_seconds': 1 + 3 * (r == 2), 'gpu_memory_bytes': None, 'file_bytes': 2048} for r in range(4)],
        imbalance={'slowest_rank': 2, 'evidence': 'rank 2 ' + EVIL}, syscalls=[{'name': EVIL, 'calls': 1250, 'errors': 3, 'timed': 1250, 'total_ns': 5000000, 'max_ns': 40000, 'histogram': hist}],
        file_systems=[{'path': '/mnt' + EVIL, 'type': None, 'kind': EVIL, **io}], block_devices=[{'name': EVIL, **io, 'max_ns': 1, 'flushes': 2, 'flush_ns': 5000, 'histogram': hist}],
        peers=[{'peer': f'10.1.2.3:{port}', 'sent_bytes': 1 << 20, 'rtt_mean_ns': 1500} for port in range(1000, 2200)],
        scheduling={'wakeups': 5, 'run_queue': {'waits': 1250, 'waits_with_length': 1250, 'p50_ns': 4100, 'histogram': hist}}, tcp={'retransmits': 6},
        page_cache={'cached_read_bytes': 1 << 30, 'device_read_bytes': 0, 'device_write_bytes': 0}, pressure={'cpu_some_percent': 1.5, 'io_some_percent': 2, 'io_full_percent': 1},
        mpi_ranks=[{'rank': 1, 'pid': 7, 'calls': 2, 'total_ns': 10**9, 'span_ns': 10**10, 'functions': [{'name': 'MPI_Send', 'calls': 2, 'total_ns': 10**9, 'bytes': 64}],
                    'peers': [{'direction': 'sent', 'peer': None, 'communicator': '0x1', 'calls': 2, 'unsized_calls': 2, 'bytes': 0}]}])  # fmt: skip
    j['figures'].update(gpus=2, gpu_percent=41.5)
    j['classification'].update(type='k' + EVIL, confidence=0.75, efficiency_score=42, evidence=[EVIL], efficiency_parts=[{'name': 'locks', 'points': -7.5, 'max_points': -10, 'because': EVIL}],
                               advice=[{'fact': EVIL, 'cause': EVIL, 'next': EVIL, 'benefit': EVIL}])  # fmt: skip
    d['monitoring_session'].update(failed_reads=3, device_bytes_without_an_end=4096, lost='a little', complete=False)
    d['jobs'].append({'job_id': 'empty'})
    return d


@case('a report in a file: drawn from the JSON in it, whatever that says', timeout=200, needs=None, beside='jobs')
def file(t):
    p = spin()
    try:
        t.tool('job', '-p', str(p.pid), '-d', '0.5', '-o', t.path('job.html'), '-o', t.path('job.json'), status=0)
    finally:
        end(p)
    real = page_report(t.path('job.html'))
    with open(t.path('job.json'), encoding='utf-8') as f:
        t.equal('its JSON', real, json.load(f))
    before, after = read_text(t.path('job.html')).split('id="report">', 1)
    with open(t.path('full.html'), 'w', encoding='utf-8') as f:
        f.write(before + 'id="report">' + json.dumps(full(real)).replace('<', '\\u003c') + after[after.index('</script>'):])
    b = Browser(t)
    b.size(1400, 900)
    b.open('file://' + t.path('full.html'))
    b.wait('document.querySelector("h2")', 'the page')
    t.equal('title', b.run('document.title'), f'gpuscope: 2 jobs on {os.uname().nodename}')
    t.equal('no markup of others', b.run('document.querySelectorAll("img, iframe, link, [onerror], [src]").length'), 0)
    said = text(b)
    for words in (EVIL + '??', 'k' + EVIL, '/mnt' + EVIL, 'rank 2 ' + EVIL, '75 % sure', '-7.5 of -10', '10.1.2.3:1499', 'and 700 more', '3.0 MiB', '4.1 µs', '65.5 µs', 'stands out',
                  'gpuscope trace', '6 segments retransmitted', '2 killed for lack of memory', 'I/O 2 % (all tasks 1 %)', '1.0 GiB read from memory', '3 files of /proc', 'a little',
                  'was killed, or still runs', '1.5 µs', '2.5 µs', '41.5 %'):  # fmt: skip
        t.true(f'it tells {words!r}', words in said, said[:3000])
    t.true('but not what stands beyond the rows', '10.1.2.3:1500' not in said)
    t.equal('histograms', b.run('[...new Set([...document.querySelectorAll(".hist")].map(e => e.ariaLabel + " " + e.children.length + " " + e.children[3].style.height))]'),
            ['histogram from 4.1 µs to 65.5 µs 4 32.5%'])  # fmt: skip
    t.equal('parts of the bar', b.run('[...document.querySelector(".stack").children].map(e => e.style.width)'), ['50%', '10%', '40%'])
    t.equal('ranks', b.run('[...document.querySelectorAll("h2")].filter(e => e.innerText == "Ranks").map(e => e.parentElement.querySelectorAll("tbody tr").length)'), [4])
    t.equal('tables of MPI', b.run('[...document.querySelectorAll("details section h2")].map(e => e.textContent)'), ['Functions', 'Peers'])
    t.equal('both jobs', b.run('[...document.querySelectorAll("a[href^=\\"#job\\"]")].map(e => e.innerText)'), ['4711', 'empty'])
    b.run('document.querySelectorAll("details").forEach(e => { e.open = true })')
    looks(t, b, 'file')
    t.equal('nothing from elsewhere, no error', (set(b.requests), b.errors), ({'file://' + t.path('full.html')}, []))


if __name__ == '__main__':
    main()
