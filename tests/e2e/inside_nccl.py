#!/usr/bin/env python3
"""What NCCL says of its operations, from inside of a process (--inside=nccl): by a stand-in that speaks each version of NCCL's interface,
equal to what ranks call and to what probes see; who has NCCL's one place keeps it; no program is harmed."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from harness import Skip, case, main, read_text, wait_until

INSIDE = ['--inside=nccl']
# What NCCL's stand-in chooses -> bytes of a call, calls of a step.
CHOICES = {
    ('AllReduce', 'RING', 'SIMPLE', 16): (4000000, 1),
    ('AllReduce', 'TREE', 'LL', 2): (64, 1),
    ('AllGather', 'RING', 'LL128', 8): (10000, 1),
    ('Broadcast', 'TREE', 'LL', 2): (10, 0.1),
    ('Send', None, None, 4): (12000, 1),
    ('Recv', None, None, 4): (12000, 1),
}
SPOILED = ('lost', 'without_bytes', 'unplaced', 'left_out', 'unranked', 'without_windows')


def train(t, ranks, steps, *options, more=(), **env):
    return t.trace(*INSIDE, *options, command=t.app(str(ranks), str(steps), *map(str, more), name='nccl_train'), env=env)


def choices(summary):
    return {(c['function'], c['algorithm'], c['protocol'], c['channels']): c for c in summary['nccl']['choices']}


def expect_choices(t, what, summary, steps, without_channels=False):
    got = {k: (c['operations'], c['bytes'], c['min_bytes'], c['max_bytes']) for k, c in choices(summary).items()}
    want = {}
    for (function, algorithm, protocol, channels), (size, times) in CHOICES.items():
        if without_channels and not algorithm:
            channels = None
        n = int(steps * times)
        want[function, algorithm, protocol, channels] = (n, n * size, size, size)
    t.equal(what, got, want)


@case('operations by what NCCL chose are what the ranks call, in each version of the interface')
def versions(t):
    for version in range(1, 7):
        summary = train(t, 3, 40, FAKE_NCCL_ABI=str(version)).summary
        n = summary['nccl']
        expect_choices(t, f'v{version}', summary, 3 * 40, without_channels=version < 4)
        t.equal(f'v{version}: sums', [n['collectives'], n['transfers'], n['interface']], [3 * 40 * 3 + 3 * 4, 3 * 40 * 2, version])
        t.equal(f'v{version}: spoiled', [n[k] for k in SPOILED], [0] * len(SPOILED))
        c = n['communicators']
        t.equal(f'v{version}: communicators', [len(c), c[0]['seen'], c[0]['ranks'], c[0]['lag'], c[0]['operations']],
                [1, 3, 3 if version >= 4 else None, 0, 3 * (40 * 5 + 4)])  # fmt: skip
        t.equal(f'v{version}: hash', bool(c[0]['hash']), True)


@case('calls that probes see in the same run have the same number and bytes')
def probes(t):
    for options in (['--layer', 'nccl'], ['--inside=calls,nccl']):
        summary = train(t, 2, 100, *options).summary
        said = {}
        for c in summary['nccl']['choices']:
            n, size = said.get(c['function'], (0, 0))
            said[c['function']] = (n + c['operations'], size + c['bytes'])
        seen = {f['name'].removeprefix('nccl'): (f['calls'], f['bytes']) for f in summary['functions']
                if f['name'].removeprefix('nccl') in said}  # fmt: skip
        t.equal(' '.join(options), said, seen)
        t.equal('collectives matched by calls', summary['collectives']['matched_calls'] > 0, True)


@case('channels: time on the GPU, and what crosses the links of a rank')
def channels(t):
    summary = train(t, 4, 20, '--gpu-window', 'always').summary
    got = choices(summary)
    for key, c in got.items():
        n = c['operations']
        t.equal(f'{key} timed', c['timed'], n)
        t.equal(f'{key} time', (c['gpu_ns'], c['gpu_max_ns']), (n * (500 + key[3] - 1), 500 + key[3] - 1) if key[1] else (n * 500, 500))
    links = {'AllReduce': 2 * 3 / 4, 'AllGather': 3}
    t.equal('links', {k: c['link_bytes'] for k, c in got.items()}, {k: int(c['bytes'] * links.get(k[0], 1)) for k, c in got.items()})
    n = summary['nccl']
    t.equal('proxies', n['proxies'], n['collectives'] + n['transfers'])
    t.equal('version', n['nccl_version'] > 22000, True)
    none = train(t, 2, 20).summary['nccl']
    t.equal('not looked at', (none['channels'], none['proxies']), (0, 0))
    some = train(t, 2, 60, '--gpu-window', '100ms/400ms', more=(-1, 0, 20000)).summary['nccl']
    timed = sum(c['timed'] for c in some['choices'])
    t.true('now and then', 0 < timed < sum(c['operations'] for c in some['choices']), timed)


@case('a rank that does less is named')
def lag(t):
    run = train(t, 4, 50, more=(2, 43))
    c = run.summary['nccl']['communicators'][0]
    t.equal('lag', (c['lag'], c['lag_rank'], c['lag_function']), (14, 2, 'AllReduce'))
    t.equal('process', str(c['lag_pid']), re.search(r'rank 2 pid (\d+)', run.out).group(1))
    text = t.tool('trace', '--summary', '-', *INSIDE, '--', *t.app('4', '50', '2', '43', name='nccl_train'), status=0).out
    t.match('line', r'NCCL: 984 operations, .* AllReduce with RING SIMPLE, 16 channels; rank 2 lags by 14 AllReduce', text)


@case('a recording says the same again, and -v has the table')
def recording(t):
    path = t.path('nccl.gst')
    one = train(t, 2, 30, '-o', path).summary['nccl']
    again = json.loads(t.tool('report', path, '--format', 'json', status=0).out)['nccl']
    t.equal('the same', again, one)
    t.match('table', r'AllReduce +RING +SIMPLE +16 +60 ', t.tool('report', path, '-v', status=0).out)


@case('a timeline has a track for each communicator of a process, with what NCCL chose')
def timeline(t):
    path, other = t.path('nccl.json'), t.path('nccl.pftrace')
    train(t, 2, 30, '-o', path, '-o', other)
    with open(path, encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    tracks = {(e['pid'], e['tid']): e['args']['name'] for e in events
              if e['name'] == 'thread_name' and e['args']['name'].startswith('NCCL communicator')}  # fmt: skip
    t.equal('tracks', sorted(tracks.values()), ['NCCL communicator 1, rank 0 of 2', 'NCCL communicator 1, rank 1 of 2'])
    for track, name in tracks.items():
        slices = [e for e in events if e['ph'] == 'X' and (e['pid'], e['tid']) == track]
        names = {n: sum(e['name'] == n for e in slices) for n in ('AllReduce', 'AllGather', 'Broadcast', 'Send', 'Recv')}
        t.equal(f'{name}: slices', names, {'AllReduce': 60, 'AllGather': 30, 'Broadcast': 3, 'Send': 30, 'Recv': 30})
        details = [e['args']['detail'] for e in slices if e['name'] == 'AllReduce']
        t.equal(f'{name}: what was chosen', (details[0], details[-1]),
                ('RING SIMPLE, 16 channels, 4000000 bytes, number 0', 'TREE LL, 2 channels, 64 bytes, number 59'))  # fmt: skip
        ends = [(e['ts'], e['ts'] + e['dur']) for e in slices]
        t.true(f'{name}: one after the other', all(a[1] <= b[0] + 0.0011 for a, b in zip(ends, ends[1:])))
    with open(other, 'rb') as f:
        t.true('the same in .pftrace', b'NCCL communicator 1, rank 1 of 2' in f.read())


@case("who has NCCL's one place keeps it, and is named")
def holders(t):
    run = train(t, 1, 3, NCCL_PROFILER_PLUGIN='/nowhere/mine.so')
    t.match('variable', 'NCCL_PROFILER_PLUGIN=/nowhere/mine.so is set, and NCCL loads only one', run.err)
    t.equal('none', run.summary['nccl'], None)
    conf = t.path('nccl.conf')
    with open(conf, 'w', encoding='utf-8') as f:
        f.write('# mine\nNCCL_DEBUG=INFO\nNCCL_PROFILER_PLUGIN=mine\n')
    t.match('file', f'{re.escape(conf)} sets NCCL_PROFILER_PLUGIN', train(t, 1, 3, NCCL_CONF_FILE=conf).err)
    folder = t.path('lib')
    os.mkdir(folder)
    with open(os.path.join(folder, 'libnccl-profiler.so'), 'w', encoding='utf-8'):
        pass
    run = train(t, 1, 3, LD_LIBRARY_PATH=folder)
    t.match('usual name', 'NCCL loads .*libnccl-profiler.so', run.err)
    t.equal('calls are seen', sum(f['calls'] for f in run.summary['functions'] if f['name'] == 'ncclAllReduce'), 6)


def children(pid):
    try:
        return [int(n) for task in os.listdir(f'/proc/{pid}/task') for n in read_text(f'/proc/{pid}/task/{task}/children').split()]
    except OSError:  # it has ended
        return []


def has_plugin(pid):
    try:
        return 'libgpuscope_companion_nccl' in read_text(f'/proc/{pid}/maps')
    except OSError:  # it has ended
        return False


@case('what a killed rank said is there')
def ends(t):
    live = t.start_trace(*INSIDE, command=t.app('2', '100000', '-1', '0', '1000', name='nccl_train'))
    wait_until(lambda: children(live.pid) and len(children(children(live.pid)[0])) == 2, what='ranks')
    ranks = children(children(live.pid)[0])
    wait_until(lambda: all(has_plugin(rank) for rank in ranks), what='their plug-ins')
    time.sleep(0.5)
    for rank in ranks:
        os.kill(rank, signal.SIGKILL)
    n = live.finish().summary['nccl']
    t.equal('seen', [c['seen'] for c in n['communicators']], [2])
    t.true('operations', n['collectives'] > 100, n)


def ranks_below(pid):
    """Ranks that have loaded the plug-in, in processes below this one."""
    below = children(pid)
    for child in below:
        below += children(child)
    return [p for p in below if has_plugin(p)]


@case('gpuscope is killed, or its folder goes: ranks go on as if alone')
def alone(t):
    for how in ('killed', 'folder'):
        out = t.path(how)
        ranks = ' '.join(t.app('2', '1000', '-1', '0', '5000', name='nccl_train'))
        live = t.start_trace(*INSIDE, command=['bash', '-c', f'{ranks} >{out}; echo $? >>{out}'])
        wait_until(lambda: len(ranks_below(live.pid)) == 2, what='ranks with plug-ins')
        rank = ranks_below(live.pid)[0]
        if how == 'killed':
            live.proc.kill()
        else:
            shutil.rmtree(re.search(r'GPUSCOPE_COMPANION=([^\0]+)', read_text(f'/proc/{rank}/environ')).group(1))
        wait_until(lambda: os.path.exists(out) and read_text(out).endswith('\n0\n'), what='the command')
        t.equal(f'{how}: what ranks did', sorted(re.findall(r'rank (\d) pid \d+ (.*)', read_text(out))), [(r, 'steps 1000 failed 0') for r in '01'])
        if how == 'folder':
            run = live.finish()
            t.equal('status', run.status, 0)
            t.equal('calls that probes see', sum(f['calls'] for f in run.summary['functions'] if f['name'] == 'ncclAllReduce'), 2 * 2 * 1000)


@case('set-user-ID, other users, limits: nothing is said, or nothing harmed')
def refused(t):
    other = ['setpriv', '--reuid', '65534', '--clear-groups']
    if not shutil.which('setpriv') or subprocess.run([*other, 'test', '-x', *t.app(name='nccl_train')], check=False).returncode:
        raise Skip('needs setpriv, and a build folder that others can read')
    for before in (other, ['prlimit', '--fsize=65536'], ['prlimit', '--as=8000000000']):
        run = t.trace(*INSIDE, command=[*before, *t.app('2', '20', name='nccl_train')])
        t.equal(f'{before}: what ranks did', sorted(re.findall(r'rank (\d) pid \d+ (.*)', run.out)), [(r, 'steps 20 failed 0') for r in '01'])
        t.true(f'{before}: what is said', re.fullmatch(r'(.*no process reported a communicator of NCCL.*\n?)?', run.err), run.err)
        t.equal(f'{before}: calls that probes see', sum(f['calls'] for f in run.summary['functions'] if f['name'] == 'ncclAllReduce'), 2 * 2 * 20)


@case('options that cannot be get one line')
def options(t):
    for args, words in ((['--inside=nccl', '-p', str(os.getpid())], 'needs a command'),
                        (['--gpu-window', '1s/20s', '--', 'true'], 'needs --inside=gpu or --inside=nccl')):  # fmt: skip
        t.match('said', words, t.tool('trace', *args, status=2).err)
    t.match('nothing came', 'no process reported a communicator', t.tool('trace', *INSIDE, '--', 'true', status=0).err)
    t.equal('something came', 'no process reported' in train(t, 1, 1).err, False)


main()
