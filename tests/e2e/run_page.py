#!/usr/bin/env python3
"""gpuscope report -o run.html and run.pdf: a recording as one file, whole, quiet and bounded, whatever is in it, in a real browser."""
import json
import os
import re
import shutil
import subprocess
import sys

import harness
from browser import Browser
from harness import Skip, case, main
from kineto_help import kineto

MAKER = os.path.join(os.path.abspath(sys.argv[2]), '../e2e/explain_run')
EVIL = '</title></script><img src=x onerror="document.title=1"><script>document.title=2</script>'
# What is the same in the page's document as in --format json.
SAME = ('verdict', 'steps', 'functions', 'by_operator', 'errors', 'kernels', 'streams', 'memory', 'gpus', 'python_lines', 'findings', 'lost')


def made(t, kind):
    path = t.path(f'{kind}.gst')
    subprocess.run([MAKER, path, kind], check=True, timeout=60)
    return path


def page_of(t, recording, name='page.html'):
    """(path, its document)"""
    path = t.path(name)
    t.tool('report', recording, '-o', path, status=0)
    whole = json.loads(t.tool('report', recording, '--format=json', status=0).out)
    held = harness.page_report(path)
    for key in SAME:
        t.equal(f'{key}, as in JSON', held[key], whole[key])
    return path, held


def show(t, path):
    b = Browser(t)
    url = 'file://' + path
    b.open(url)
    b.wait('document.readyState === "complete" && document.querySelector("h2")', 'the page')
    t.equal('nothing else is loaded, and nothing fails', (b.requests, b.errors), ([url], []))
    t.equal('no elements that would load', b.run('document.querySelectorAll("img, iframe, link, [onerror], [src]").length'), 0)
    t.equal('its JSON and what draws it', b.run('document.querySelectorAll("script").length'), 2)
    return b


def check_looks(t, b):
    """Each table can be reached and has a name; a narrow page scrolls its tables, not itself; both colour schemes."""
    t.true('tables', b.run('[...document.querySelectorAll("table")].every(e => e.parentElement.tabIndex === 0 && e.parentElement.ariaLabel)'))
    seen = []
    for dark, width in ((False, 1200), (True, 360)):
        b.scheme(dark)
        b.size(width, 800, mobile=width < 500)
        wide = b.run('document.documentElement.scrollWidth')
        t.true(f'no wider than {width}', wide <= width, wide)
        seen.append(b.run('getComputedStyle(document.body).backgroundColor'))
        b.shot(t.path(f'{width}.png'))
    t.equal('light and dark', seen, ['rgb(246, 247, 249)', 'rgb(18, 22, 27)'])


@case('parts of the wall time have the names that the terminal and the PDF show', needs=None)
def part_names(t):
    source = harness.read_text(os.path.join(os.path.dirname(__file__), '../../src/model/trace/account.c'))
    script = harness.read_text(os.path.join(os.path.dirname(__file__), '../../web/run.js'))
    titles = re.findall(r'\[GS_PART_\w+\] = \{"(\w+)", "([^"]+)",', source)
    t.true('parts', len(titles) >= 16, titles)
    t.equal('names', re.findall(r"(\w+): '([^']+)'", re.search(r'const PARTS = \{(.*)\}', script)[1]), titles)


@case('a run with findings, a slow phase and GPUs: what the page says and draws', timeout=180, needs=None)
def findings(t):
    path, held = page_of(t, made(t, 'slow'))
    t.true('bounded', os.path.getsize(path) < 1 << 20, os.path.getsize(path))
    b = show(t, path)
    text = b.run('document.body.innerText')
    for wanted in ('Verdict: ', 'Where the time went', 'waiting for the GPU', 'Timeline, an excerpt', 'Findings', 'cause: ', 'How it was measured', 'cudaStreamSynchronize', 'lost\nnothing'):
        t.true(wanted, wanted in text, text[:3000])
    t.equal('as many findings', b.run('document.querySelectorAll("#findings li").length'), len(held['findings']))
    # The parts of the bar are as wide as the times.
    pace = next(x for x in held['account']['threads'] if x['critical'])
    total = sum(c['ns'] for c in pace['components'])
    wide = dict(b.run('[...document.querySelectorAll("#account .stack > i")].map(e => [e.title.split(":")[0], parseFloat(e.style.width)])'))
    waited = next(c['ns'] for c in pace['components'] if c['component'] == 'gpu_wait')
    t.true('the bar', abs(wide['waiting for the GPU'] - 100 * waited / total) < 0.1 and 99 < sum(wide.values()) < 101, wide)
    # The excerpt holds the slowest step; its spans lie in their lanes.
    x, s = held['timeline'], held['steps']
    t.true('where it is', x['start_ns'] < s['slowest_start_ns'] and x['start_ns'] + x['duration_ns'] > s['slowest_start_ns'] + s['slowest_ns'], (x['start_ns'], s))
    drawn = b.run('[...document.querySelectorAll(".lane i")].map(e => [parseFloat(e.style.left), parseFloat(e.style.width), e.title])')
    t.equal('each span is drawn', len(drawn), sum(len(track['spans']) for track in x['tracks']))
    t.true('the wait of the slowest step', any(w > 25 and title.startswith('cudaStreamSynchronize: 1.') for _, w, title in drawn), drawn[:40])
    t.true('within the lane', all(0 <= left <= 100 and left + w < 100.01 for left, w, _ in drawn), drawn[:40])
    check_looks(t, b)


@case('what a traced program calls itself is text', timeout=180)
def hostile(t):
    recording = t.path('evil.gst')
    run = t.trace('-o', recording, command=[f'{harness.fake}/demo_train', '--steps', '40', '--', EVIL])
    if run.status:
        t.note(run.err[-500:])
    path, held = page_of(t, recording, name='<b>&.html')
    os.rename(path, t.path('evil.html'))
    t.true('it is there', EVIL in held['command'], held['command'])
    b = show(t, t.path('evil.html'))
    t.true('as the title', EVIL in b.run('document.title'), b.run('document.title'))
    t.true('as text', EVIL in b.run('document.querySelector("h1").textContent'), '')
    text = b.run('document.body.innerText')
    for wanted in ('Calls: CUDA runtime', 'Streams', 'Memory'):
        t.true(wanted, wanted in text, text[:3000])
    t.equal('steps', held['steps'] and held['steps']['count'], 40)
    check_looks(t, b)


def write_pdf(t, recording, name, env=None):
    run = t.tool('report', recording, '-o', t.path(name), env=env)
    if 'cairo' in run.err and not env:
        raise Skip('no libcairo2')
    return run


@case('a run as a PDF: what is on its pages', timeout=120, needs=None)
def pdf(t):
    slow = made(t, 'slow')
    run = write_pdf(t, slow, 'run.pdf')
    t.equal('status', (run.status, run.out), (0, ''))
    with open(t.path('run.pdf'), 'rb') as f:
        whole = f.read()
    t.true('it is one', whole.startswith(b'%PDF-') and whole.rstrip().endswith(b'%%EOF'), whole[:20])
    t.true('bounded', len(whole) < 1 << 20, len(whole))
    if not shutil.which('pdftotext'):
        raise Skip('no pdftotext (poppler-utils)')
    text = subprocess.run(['pdftotext', '-layout', t.path('run.pdf'), '-'], capture_output=True, text=True, check=True).stdout
    for wanted in ('Verdict: GPU-bound', 'Where the time went', 'waiting for the GPU', '3000 steps of thread train', 'Findings', 'steps take 24.8 % longer', 'Calls: CUDA runtime', 'cudaStreamSynchronize', 'H100', 'How it was measured', 'Nothing was lost'):
        t.true(wanted, wanted in text, text)
    t.true('few pages', text.count('\f') <= 4, text.count('\f'))


EVIL_KERNEL = 'sgemm<"</script><script>document.title=3</script>">'


@case('a comparison of runs as a page, and as a PDF', timeout=180, needs=None)
def comparison(t):
    for name, kernel_us in (('a', 500), ('b', 700)):
        kineto(t.path(f'{name}.json'), kernel_us)
        text = harness.read_text(t.path(f'{name}.json')).replace('"sgemm"', json.dumps(EVIL_KERNEL))
        with open(t.path(f'{name}.json'), 'w') as f:
            f.write(text)
        t.tool('report', t.path(f'{name}.json'), '-o', t.path(f'{name}.gst'), status=0)
    files = [t.path('a.gst'), t.path('b.gst'), t.path('a.gst')]
    whole = json.loads(t.tool('report', '--compare', '--format=json', *files, status=0).out)
    t.tool('report', '--compare', *files, '-o', t.path('c.html'), status=0)
    t.equal('as in JSON', harness.page_report(t.path('c.html')), whole)
    t.match('on stdout, too', '<!doctype html>', t.tool('report', '--compare', '--format=html', *files, status=0).out)
    b = show(t, t.path('c.html'))
    text = b.run('document.body.innerText')
    for wanted in ('Slower', 'No difference shown', 'on the GPU in sgemm', 'GPUs, by their own times', 'GPU 0 idle', 'Kernels on the GPU', EVIL_KERNEL, 'GPU 0, stream 7', 'How it was compared'):
        t.true(wanted, wanted in text, text[:3000])
    t.equal('its title is its own', b.run('document.title'), 'gpuscope: comparison of runs')
    drawn = b.run('[...document.querySelectorAll(".interval .span")].map(e => [parseFloat(e.style.left), parseFloat(e.style.width)])')
    t.true('the interval of the slower run is right of the base', len(drawn) == 2 and 50 < drawn[0][0] and drawn[0][0] + drawn[0][1] <= 100, drawn)
    t.true('that of the same run holds it', drawn[1][0] <= 50 <= drawn[1][0] + drawn[1][1], drawn)
    check_looks(t, b)
    run = t.tool('report', '--compare', *files, '-o', t.path('c.pdf'))
    if 'cairo' in run.err:
        raise Skip('no libcairo2')
    t.equal('status', run.status, 0)
    if not shutil.which('pdftotext'):
        raise Skip('no pdftotext (poppler-utils)')
    text = subprocess.run(['pdftotext', '-layout', t.path('c.pdf'), '-'], capture_output=True, text=True, check=True).stdout
    for wanted in ('Comparison of runs', 'Slower', 'No difference shown', 'A step: kernels on the GPU', 'sgemm', '700 us', '+200 us', 'GPU 0, stream 7'):
        t.true(wanted, wanted in text, text)


@case('without cairo a PDF is refused, and a page is not', needs=None)
def no_cairo(t):
    os.mkdir(t.path('lib'))
    with open(t.path('lib', 'libcairo.so.2'), 'w') as f:
        f.write('no library')
    short = made(t, 'short')
    run = write_pdf(t, short, 'run.pdf', env={'LD_LIBRARY_PATH': t.path('lib')})
    t.equal('status', run.status, 3)
    t.match('why', 'install libcairo2', run.err)
    t.true('nothing is left', not os.path.exists(t.path('run.pdf')))
    t.tool('report', short, '-o', t.path('run.html'), env={'LD_LIBRARY_PATH': t.path('lib')}, status=0)


@case('a page beside other files, of a short run, and what does not go', needs=None)
def words(t):
    slow, empty = made(t, 'slow'), made(t, 'empty')
    run = t.tool('report', slow, '-o', t.path('a.html'), '-o', t.path('a.folded'), '-o', t.path('b.html'), status=0)
    t.equal('no summary', run.out, '')
    t.true('all three', all(os.path.getsize(t.path(x)) for x in ('a.html', 'a.folded', 'b.html')))
    t.match('with the summary when it is asked for', 'Verdict', t.tool('report', slow, '-o', t.path('a.html'), '--format=table', status=0).out)
    t.tool('report', empty, '-o', t.path('empty.html'), status=0)
    t.equal('no steps', harness.page_report(t.path('empty.html'))['steps'], None)
    os.chmod(slow, 0o600)
    os.unlink(t.path('a.html'))
    t.tool('report', slow, '-o', t.path('a.html'), status=0)
    t.equal('as private as the recording', os.stat(t.path('a.html')).st_mode & 0o777, 0o600)
    for wrong, status, said in (
        ((slow, '-o', t.path('x.html'), '--kernel=x'), 2, 'a page shows all of a run'),
        ((slow, '-o', t.path('x.html'), '-o', t.path('x.html')), 2, 'the same file twice'),
        ((slow, '--plot', t.path('x.svg'), '-o', t.path('x.html')), 2, '--plot writes a figure'),
        ((slow, '-o', t.path('x.png')), 2, r'\.html, \.pdf, \.pftrace'),
        ((slow, '-o', t.path('none/x.html')), 1, 'none/x.html'),
        ((t.path('none.gst'), '-o', t.path('x.html')), 1, 'none.gst'),
    ):
        t.match(f'{wrong[1:]}', said, t.tool('report', *wrong, status=status).err)
    t.true('nothing is left', not os.path.exists(t.path('x.html')))


if __name__ == '__main__':
    main()
