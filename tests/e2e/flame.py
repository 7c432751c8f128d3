#!/usr/bin/env python3
"""Flame graphs and timelines of real runs: operators over calls, with the numbers that fake_torch makes of
a step (tests/fake/app_torch.c), and arrows from the last work to the call that waited for it."""

import collections
import glob
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree
import xml.sax.saxutils

import browser
import harness
from harness import case, main, wait_until

STEPS = 20
LAYER_NORM = 'autograd::execute;aten::native_layer_norm_backward'
LAUNCHES = {  # of one step
    'aten::linear;aten::addmm;cudaLaunchKernel': 4,
    'aten::add.Tensor;cudaLaunchKernel': 3,
    'aten::_foreach_add_.List;aten::add_.Tensor;cudaLaunchKernel': 4,
    LAYER_NORM + ';cudaLaunchKernel': 5,
    LAYER_NORM + ';aten::add.Tensor;cudaLaunchKernel': 5,
    ';'.join(['aten::recurse'] * 7) + ';cudaLaunchKernel': 1,
    'cudaLaunchKernel': 1,
}


def folded(path):
    """{way below the thread: weight}, threads added up; and how many threads."""
    ways, threads = collections.Counter(), set()
    with open(path, encoding='utf-8') as f:
        for line in f:
            way, weight = line.rstrip('\n').rsplit(' ', 1)
            process, thread, rest = way.split(';', 2)
            threads.add((process, thread))
            ways[rest] += int(weight)
    return ways, len(threads)


@case('launches by operator, exactly, at once and from a recorded file')
def launches(t):
    path, gst, again = t.path('x.folded'), t.path('x.gst'), t.path('y.folded')
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '--flame', 'launches', '-o', path, '-o', gst,
            command=t.app(str(STEPS), '2', name='fake_torch'))  # fmt: skip
    ways, n_threads = folded(path)
    want = {way: 2 * STEPS * n for way, n in LAUNCHES.items()}
    # Five ways a step, and one by an exception each tenth.
    want['aten::relu;cudaLaunchKernel'] = 2 * (5 * STEPS + STEPS // 10)
    t.equal('launches', dict(ways), want)
    t.equal('threads', n_threads, 2)
    t.tool('report', '--flame', 'launches', '-o', again, gst, status=0)
    t.equal('of the file', folded(again), (ways, n_threads))


@case('time: own times add up to that of the outermost calls; the page holds the same')
def time(t):
    path, svg, csv = t.path('x.folded'), t.path('x.svg'), t.path('x.gst')
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '-o', path, '-o', svg, '-o', csv,
            command=t.app(str(STEPS), '1', name='fake_torch'))  # fmt: skip
    total = sum(folded(path)[0].values())
    root = xml.etree.ElementTree.parse(svg).getroot()
    frames = [f for f in root.iter('{http://www.w3.org/2000/svg}svg') if f.get('data-d')]
    t.equal('weight of all', int(frames[0].get('data-v')), total)
    with open(svg, encoding='utf-8') as f:
        t.equal('addresses in the page', len(re.findall('://', f.read())), 2)


def events_of(path):
    with open(path, encoding='utf-8') as f:
        return [e for e in json.load(f)['traceEvents'] if e.get('cat') != 'gpu-stream']


@case('arrows: from the last launch to the wait for it')
def arrows(t):
    path, pftrace = t.path('x.json'), t.path('x.pftrace')
    t.trace('--func', 'cudaLaunchKernel,cudaDeviceSynchronize', '-o', path, '-o', pftrace,
            command=t.app('cudaLaunchKernel=50', 'cudaDeviceSynchronize=2'))  # fmt: skip
    events = events_of(path)
    calls = sorted((e for e in events if e['ph'] == 'X' or 'time' in e.get('args', {})), key=lambda e: e['ts'])
    wanted, last = [], None
    for e in calls:  # whatever their order was
        if e['name'] == 'cudaLaunchKernel':
            last = e['ts']
        elif last is not None:
            wanted.append((last, e['ts']))
            last = None
    start, end = ({e['id']: e['ts'] for e in events if e['ph'] == phase} for phase in 'sf')
    t.equal('calls', len(calls), 52)
    t.equal('arrows', sorted((start[i], end.get(i)) for i in start), wanted)
    t.equal('ends of arrows', set(end), set(start))
    t.true('arrows at all', wanted)
    if shutil.which('protoc'):
        with open(pftrace, 'rb') as f:
            golden = harness.HERE + '/../golden'
            text = subprocess.run(['protoc', '-I' + golden, '--decode=perfetto.protos.Trace', 'perfetto_subset.proto'],
                                  stdin=f, capture_output=True, check=True).stdout.decode()  # fmt: skip
        t.equal('flows', (len(re.findall(r'^ +flow_ids: ', text, re.M)),
                          len(re.findall(r'^ +terminating_flow_ids: ', text, re.M))), (len(wanted), len(wanted)))  # fmt: skip


@case('operators stand around their calls, by time and by name')
def nesting(t):
    path = t.path('x.json')
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '-o', path,
            command=t.app(str(STEPS), '2', name='fake_torch'))  # fmt: skip
    events = sorted((e for e in events_of(path) if e['ph'] == 'X'), key=lambda e: (e['ts'], -e['dur']))
    open_of, n = collections.defaultdict(list), 0
    for e in events:
        stack = open_of[e['tid']]
        while stack and stack[-1]['ts'] + stack[-1]['dur'] <= e['ts']:
            stack.pop()
        if stack and e['ts'] + e['dur'] > stack[-1]['ts'] + stack[-1]['dur'] + 1e-6:
            t.fail(f'{e["name"]} across the end of {stack[-1]["name"]}')
        around = [s['name'] for s in stack if s['cat'].startswith('torch')]
        if e['args'].get('operator', '') != (around[-1] if around else ''):
            t.fail(f'{e["name"]}: {e["args"].get("operator")} is not {around}')
        n += bool(around)
        stack.append(e)
    t.true('calls inside operators', n > STEPS)


def browser_script(t, name, text):
    """A browser that writes what it is asked to show."""
    path = t.path(name)
    with open(path, 'w') as f:
        f.write('#!/bin/sh\n' + text)
    os.chmod(path, 0o755)
    return path


@case('open: a recording becomes a page, which the browser is asked to show')
def open_recording(t):
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '-o', 'a <b> & c.gst', command=t.app(str(STEPS), '1', name='fake_torch'))
    os.chmod('a <b> & c.gst', 0o644)
    os.mkdir('temporary')
    env = {'TMPDIR': t.path('temporary'), 'DISPLAY': '', 'WAYLAND_DISPLAY': '', 'BROWSER': ''}
    # All of its words at once: whoever looks does so while it writes.
    fake = browser_script(t, 'fake', f'for x; do printf "%s\\n" "$x"; done >{t.path("asked")}.new && mv {t.path("asked")}.new {t.path("asked")}\n')
    bad = browser_script(t, 'bad', 'exit 7\n')
    page = t.path('temporary', 'gpuscope-[^/]*', 'a <b> & c.html')

    def asked():
        wait_until(lambda: os.path.exists('asked'), what='the browser')
        text = harness.read_text('asked')
        os.unlink('asked')
        return text.splitlines()

    run = t.tool('open', 'a <b> & c.gst', env=env, status=0)
    t.match('without a display the path is printed', f'^{page}\n$', run.out)
    t.match('and what to do', 'no display here.*copy the file', run.err)
    path = run.out.strip()
    t.equal('for this user alone', [os.stat(x).st_mode & 0o777 for x in (os.path.dirname(path), path)], [0o700, 0o600])
    t.equal('nothing else is left', os.listdir(os.path.dirname(path)), ['a <b> & c.html'])
    text = harness.read_text(path)
    summary = t.tool('report', 'a <b> & c.gst', env={'COLUMNS': '120'}, status=0).out
    shown = text.split('<pre>')[1].split('</pre>')[0]
    t.equal('the summary', xml.sax.saxutils.unescape(shown, {'&quot;': '"', '&#39;': "'"}).strip(), summary.strip())
    t.equal('no address but that of the name of SVG', set(re.findall(r'https?://[^"\' <]*', text)),
            {'http://www.w3.org/2000/svg', 'http://www.w3.org/1999/xhtml'})  # fmt: skip
    for display in ('', ':7'):
        # The words of $BROWSER; one that fails makes room for the next.
        run = t.tool('open', 'a <b> & c.gst', env={**env, 'DISPLAY': display, 'BROWSER': f'/no/such:{bad}:{fake} --new=%s x'}, status=0)
        t.equal('no output', (run.out, run.err), ('', ''))
        words = asked()
        t.match('the address', r'^--new=file:///.*/a%20%3Cb%3E%20%26%20c\.html$', words[0])
        t.equal('other words', words[1:], ['x'])
    t.tool('open', '-o', 'kept.html', 'a <b> & c.gst', env={**env, 'BROWSER': fake}, status=0)
    t.equal('the address of a page that is kept', asked(), ['file://' + t.path('kept.html')])
    t.equal('it may be read as the recording may', os.stat('kept.html').st_mode & 0o777, 0o644)
    t.tool('open', 'kept.html', env={**env, 'BROWSER': fake}, status=0)
    t.equal('a page is shown as it is', asked(), ['file://' + t.path('kept.html')])
    run = t.tool('open', '--no-browser', 'kept.html', env={**env, 'BROWSER': fake}, status=0)
    t.equal('--no-browser', (run.out, os.path.exists('asked')), (t.path('kept.html') + '\n', False))
    folders = glob.glob('temporary/*')
    run = t.tool('open', 'kept.html', env={**env, 'BROWSER': bad}, status=1)
    t.match('a browser that fails', 'bad failed: exit status 7; open the file above', run.err)
    for words, status, says in ((['none.gst'], 1, 'none.gst.*No such file'), (['kept.html', 'x'], 2, 'one file'), ([], 2, 'which file'),
                                (['x.pftrace'], 2, 'Perfetto'), (['-o', 'x.html', 'kept.html'], 2, 'page already'),
                                (['-o', 'none/x.html', 'a <b> & c.gst'], 1, 'none/x.html')):  # fmt: skip
        t.match(' '.join(words), says, t.tool('open', *words, env=env, status=status).err)
    t.equal('no folder is left behind without a page', glob.glob('temporary/*'), folders)


@case('open: a real browser shows summary and graph, and asks for nothing else', timeout=300)
def open_in_browser(t):
    t.trace('--layer', 'torch,cuda-runtime', '--op-set', 'all', '-o', 'run.gst', command=t.app(str(STEPS), '1', name='fake_torch'))
    path = t.tool('open', '--no-browser', '-o', 'run.html', 'run.gst', status=0).out.strip()
    b = browser.Browser(t)
    t.equal('opened', b.open('file://' + path), None)
    b.wait('document.querySelectorAll("#graph > .f").length > 10', 'the graph')
    t.match('the summary', 'What took most time', b.run('document.querySelector("pre").innerText'))
    t.match('the title', 'gpuscope: run.gst', b.run('document.title'))
    whole = b.run('document.querySelectorAll("#graph > .f:not(.out)").length')
    # The script runs: search, and zoom by a click.
    b.type('#search', 'aten::linear')
    b.wait('document.querySelectorAll(".found").length > 0', 'what was searched')
    b.click('.found')
    b.wait(f'document.querySelectorAll("#graph > .f:not(.out)").length < {whole}', 'the zoom')
    t.equal('errors', b.errors, [])
    t.equal('requests', [x for x in b.requests if not x.startswith('file://' + path)], [])


main()
