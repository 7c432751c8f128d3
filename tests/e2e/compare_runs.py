#!/usr/bin/env python3
"""gpuscope report --compare of recordings: made ones whose differences are known (explain_run.c), and traced programs of which one is slower in a
named place."""
import json
import os
import subprocess
import sys

import harness
from harness import case, main
from kineto_help import kineto

PYTHON = '/usr/bin/python3'
MAKER = os.path.join(os.path.abspath(sys.argv[2]), '../e2e/explain_run')

# Steps that wait in a function of their own.
TRAINING = '''
import ctypes, json, sys, time
waited = []
cuda = ctypes.CDLL(sys.argv[1])
block = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
def collate():
    begin = time.monotonic_ns()
    time.sleep(float(sys.argv[3]))
    waited.append(time.monotonic_ns() - begin)
def forward():
    for _ in range(10):
        cuda.cudaMemsetAsync(block, 0, ctypes.c_size_t(64), None)
    cuda.cudaStreamSynchronize(None)
for _ in range(int(sys.argv[2])):
    collate()
    forward()
print(json.dumps(waited))
'''


def recordings(t, *kinds):
    paths = [t.path(f'{kind}.gst') for kind in kinds]
    for path, kind in zip(paths, kinds):
        if not os.path.exists(path):
            subprocess.run([MAKER, path, kind], check=True, timeout=60)
    return paths


def compare(t, *words, status=0):
    """The comparisons as data."""
    return json.loads(t.tool('report', '--compare', '--format=json', *words, status=status).out)['comparisons']


@case('steps that all take a tenth longer: by how much, and where', needs=None)
def longer(t):
    base, new = recordings(t, 'clean', 'longer')
    (c,) = compare(t, base, new)
    t.equal('verdict', c['verdict'], 'slower')
    t.true('by how much', abs(c['difference_percent'] - 10) <= c['plus_minus_percent'] < 0.5, c['text'])
    t.equal('steps', [r['steps'] for r in c['base']['runs'] + c['changed']['runs']], [2999, 2999])
    t.equal('in which call', (c['cause']['kind'], c['cause']['name']), ('function', 'cudaStreamSynchronize'))
    t.equal('causes', [(x['kind'], x['name']) for x in c['causes']], [('account', 'waiting for the GPU'), ('function', 'cudaStreamSynchronize')])
    t.true('all of it', all(0.95 < x['share'] < 1.05 for x in c['causes']), c['causes'])
    t.true('as sure', all(x['plus_minus_ns'] < 10e6 < x['difference_ns'] for x in c['causes']), c['causes'])
    text = t.tool('report', '--compare', base, new, status=0).out
    t.match('in words', r'step (9\.[89]|10\.[012]) % ± 0\.\d slower, (\d\d %|all) of it in cudaStreamSynchronize: waiting for the GPU', text)
    t.match('the table', r'cudaStreamSynchronize +9\d\d ms +1\.\d+ s +\+\d+', text)
    (c,) = compare(t, new, base)
    t.equal('the other way round', (c['verdict'], c['cause']['name']), ('faster', 'cudaStreamSynchronize'))


@case('no difference is claimed: the same run, a near miss, a slow phase that is short', needs=None)
def same(t):
    base, near, slow = recordings(t, 'clean', 'near', 'slow')
    found = compare(t, base, base, near, slow)
    t.equal('verdicts', [c['verdict'] for c in found], ['no_difference_shown'] * 3)
    t.equal('no cause', [c['cause'] for c in found], [None] * 3)
    t.equal('the same', found[0]['difference_percent'], 0)
    t.true('it is seen, and too little for one run', 0 < found[1]['plus_minus_percent'] < found[1]['difference_percent'] < 1, found[1]['text'])
    t.match('and it says so', 'how much equal runs differ is not known', ' '.join(found[1]['notes']))
    text = t.tool('report', '--compare', base, near, status=0).out
    t.match('in words', r'no difference shown: step \+0\.\d % ± 0\.\d', text)


@case('several runs on a side, too few steps, none', needs=None)
def sides(t):
    clean, near, longer, short, empty = recordings(t, 'clean', 'near', 'longer', 'short', 'empty')
    (c,) = compare(t, '--base', clean, '--base', near, longer, longer)
    t.equal('runs', (len(c['base']['runs']), len(c['changed']['runs'])), (2, 2))
    t.true('the spread of runs counts', c['plus_minus_percent'] > 1, c['text'])
    t.true('about', 9 < c['difference_percent'] < 11, c['text'])
    c = compare(t, short, short)[0]
    t.equal('20 steps are enough', c['verdict'], 'no_difference_shown')
    c = compare(t, clean, empty)[0]
    t.equal('no steps', (c['verdict'], c['difference_percent'], c['cause']), ('not_known', None, None))
    t.match('why', r'no steps were found in .*empty\.gst', c['reason'])


@case('without steps: whole runs of a command, several on a side')
def whole(t):
    sides = {'quick': 0.2, 'slow': 1.2}
    for name, seconds in sides.items():
        for i in range(3):
            t.tool('trace', '-q', '-o', f'{name}{i}.gst', '--', 'sleep', str(seconds), status=0)
    t.tool('trace', '-q', '-d', '1s', '-o', 'watched.gst', '--', 'sleep', '3', status=0)
    quick, slow = ([t.path(f'{name}{i}.gst') for i in range(3)] for name in sides)
    (c,) = compare(t, *(x for f in quick for x in ('--base', f)), *slow)
    w = c['whole_run']
    t.equal('of steps, of whole runs', (c['verdict'], w['verdict']), ('not_known', 'slower'))
    t.true('their means', w['base_ns'] >= 0.2e9 and w['changed_ns'] >= w['base_ns'] + 0.5e9, w)
    t.equal('where', [x['name'] for x in c['causes'] if x['kind'] == 'whole_run'], ['asleep on purpose'])
    t.true('surely', 0 < w['plus_minus_percent'] < w['difference_percent'], w)
    (c,) = compare(t, quick[0], slow[0])
    w = c['whole_run']
    t.equal('one on each side', (w['verdict'], w['plus_minus_percent'], c['causes']), ('not_known', None, []))
    t.match('and it says so', r'one run on each side does not show', c['text'])
    (c,) = compare(t, quick[0], t.path('watched.gst'))
    t.equal('as long as it was watched', c['whole_run'], None)
    t.match('said', r'watched\.gst is not of a command that ended by itself', ' '.join(c['notes']))


@case('what goes together, and where it is written', needs=None)
def words(t):
    clean, longer = recordings(t, 'clean', 'longer')
    report = t.path('job.json')
    with open(report, 'w') as f:
        f.write('{"job_info": {"job_id": "1"}}')
    for wrong, said in (
        ([clean], 'two or more'),
        ([clean, report], 'not both'),
        (['--base', report, report], '--base takes recordings'),
        (['--base', clean], 'which reports'),
        ([clean, longer, '--format=csv'], 'table, JSON, YAML, a page or a PDF'),
        ([clean, longer, '--format=pdf'], 'table, JSON, YAML, a page or a PDF'),
        ([clean, longer, '-o', t.path('x.svg')], 'table, JSON, YAML, a page or a PDF'),
    ):
        t.match(f'{wrong}', said, t.tool('report', '--compare', *wrong, status=2).err)
    t.match('not without', '--base is for --compare', t.tool('report', '--base', clean, longer, status=2).err)
    t.tool('report', '--compare', clean, longer, '-o', t.path('c.yaml'), status=0)
    t.match('YAML', r'verdict: "?slower', harness.read_text(t.path('c.yaml')))
    t.match('no such file', r'cannot read .*none\.gst', t.tool('report', '--compare', clean, t.path('none.gst'), status=1).err)
    torn = t.path('torn.gst')
    with open(longer, 'rb') as source, open(torn, 'wb') as f:
        f.write(source.read()[: os.path.getsize(longer) // 2])
    run = t.tool('report', '--compare', '--format=json', clean, torn, status=0)
    c = json.loads(run.out)['comparisons'][0]
    t.equal('of a torn file what is there', c['verdict'], 'slower')
    t.true('and that it is torn', any('stops before its end' in n for n in c['notes']), c['notes'])
    t.equal('a full disk', t.tool('report', '--compare', '-o', '/dev/full', '--format=json', clean, longer).status, 1)


@case('a traced program that waits longer in a function: which one, on which line', timeout=120)
def traced(t):
    paths, waited = [t.path('base.gst'), t.path('new.gst')], []
    for path, wait in zip(paths, ('0.01', '0.1')):
        run = t.trace('--layer=cuda-runtime,python', '-o', path, command=[PYTHON, '-c', TRAINING, f'{harness.fake}/libcudart.so.13', '40', wait])
        t.nothing_lost(run)
        lengths = sorted(json.loads(run.out))[8:-8]  # 20 % at each end, as the comparison does
        waited.append(sum(lengths) / len(lengths))
    (c,) = compare(t, *paths)
    t.equal('verdict', c['verdict'], 'slower')
    cause = c['cause'] or {}
    t.equal('where', cause.get('kind'), 'python_function')
    t.match('in which function', r'^collate \(', cause.get('name', ''))
    more = waited[1] - waited[0]
    t.true('as much more as it says itself', abs(cause.get('difference_ns', 0) - more) <= 0.2 * more + cause.get('plus_minus_ns', 0), (cause, waited))
    lines = [x['name'] for x in c['causes'] if x['kind'] == 'line']
    t.true('on which line', len(lines) == 1 and lines[0].endswith(':9 collate'), c['causes'])
    (c,) = compare(t, paths[0], paths[0])
    t.equal('with itself', (c['verdict'], c['difference_percent'], c['cause']), ('no_difference_shown', 0, None))


@case('traces of PyTorch\'s profiler become recordings, which are shown and compared', needs=None)
def imported(t):
    for name, kernel_us in (('a', 500), ('b', 700)):
        kineto(t.path(f'{name}.json'), kernel_us)
        run = t.tool('report', t.path(f'{name}.json'), '-o', t.path(f'{name}.gst'), status=0)
        t.match('what was read', '240 calls and 60 operations of GPUs', run.err)
    (c,) = compare(t, t.path('a.gst'), t.path('b.gst'))
    t.equal('compared', (c['verdict'], c['cause'] and c['cause']['name']), ('slower', 'cudaDeviceSynchronize'))
    t.true('by how much', abs(c['changed']['step_ns'] - c['base']['step_ns'] - 200e3) < 1e3, c['text'])
    gpu = {(i['kind'], i['name']): i for i in c['items'] if i['kind'] in ('gpu', 'kernel', 'stream')}
    for key, base in ((('gpu', 'GPU 0 busy'), 500e3), (('kernel', 'sgemm'), 500e3), (('stream', 'GPU 0, stream 7'), 500e3)):
        item = gpu[key]
        t.equal(f'{key}', (item['base_ns'], item['changed_ns'], item['difference_ns'], item['base_calls']), (base, base + 200e3, 200e3, 1))
    t.true('idle as before', abs(gpu['gpu', 'GPU 0 idle']['difference_ns']) < 1e3 and gpu['gpu', 'GPU 0 idle']['base_calls'] == 1, gpu['gpu', 'GPU 0 idle'])
    t.true('the kernel is the reason', ('kernel', 'sgemm') in [(x['kind'], x['name']) for x in c['causes']] and 'on the GPU in sgemm +200 us' in c['text'], c['text'])
    t.equal('of which steps', [r['gpu_time_steps'] for r in c['base']['runs']], [c['base']['runs'][0]['steps']])
    text = t.tool('report', '--compare', t.path('a.gst'), t.path('b.gst'), status=0).out
    t.match('the table', r'kernels on the GPU\n +sgemm +500 us +700 us +\+200 us', text)
    whole = json.loads(t.tool('report', t.path('a.gst'), '--format=json', status=0).out)
    t.equal('steps', whole['steps'] and whole['steps']['count'], 60)
    t.equal('kernels', [(k['short_name'], k['runs'], k['total_ns']) for k in whole['gpu_time']['kernels']], [('sgemm', 60, 60 * 500_000)])
    t.equal('by operator', [(u['name'], u['launches']) for u in whole['by_operator']], [('aten::linear', 60)])
    t.equal('calls', {f['name']: f['calls'] for f in whole['functions']}['cudaLaunchKernel'], 60)
    t.equal('whose', whole['processes'][0]['comm'], 'python')
    # What gpuscope wrote comes back as it was.
    (short,) = recordings(t, 'short')
    t.tool('report', short, '-o', t.path('short.json'), status=0)
    t.tool('report', t.path('short.json'), '-o', t.path('again.gst'), status=0)
    before, after = (json.loads(t.tool('report', path, '--format=json', status=0).out) for path in (short, t.path('again.gst')))
    t.equal('its calls', [(f['name'], f['layer'], f['class'], f['calls'], f['total_ns']) for f in after['functions']],
            [(f['name'], f['layer'], f['class'], f['calls'], f['total_ns']) for f in before['functions']])  # fmt: skip
    with open(t.path('torn.json'), 'w') as f, open(t.path('a.json')) as source:
        f.write(source.read()[:2000])
    for wrong, status, said in (
        ([t.path('torn.json'), '-o', t.path('x.gst')], 1, r'cannot import .*after \d+ events'),
        ([t.path('none.json'), '-o', t.path('x.gst')], 1, 'cannot open'),
        ([t.path('a.gst'), '-o', t.path('x.gst')], 2, 'a recording already'),
        ([t.path('a.json'), '-o', t.path('x.gst'), '-o', t.path('x.html')], 2, 'afterwards'),
        ([t.path('a.json')], 1, r'report .*a\.json -o FILE\.gst'),
    ):
        t.match(f'{wrong}', said, t.tool('report', *wrong, status=status).err)
    t.true('nothing is left', not os.path.exists(t.path('x.gst')))


if __name__ == '__main__':
    main()
