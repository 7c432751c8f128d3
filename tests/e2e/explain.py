#!/usr/bin/env python3
"""gpuscope explain: findings of recordings whose troubles are known (explain_run.c), of traced programs that have troubles or nearly have them, as they come, and of an agent."""
import datetime
import json
import os
import subprocess
import sys

import agent_help
import harness
from harness import case, main, wait_until

PYTHON = '/usr/bin/python3'
MAKER = os.path.join(os.path.abspath(sys.argv[2]), '../e2e/explain_run')

# Steps of 20 ms; 60 of them wait five times as long.
BECOMES_SLOW = '''
import ctypes, json, sys, time
cuda = ctypes.CDLL(sys.argv[1])
block = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
ended = []
for i in range(420):
    for _ in range(20):
        cuda.cudaMemsetAsync(block, 0, ctypes.c_size_t(64), None)
    cuda.cudaStreamSynchronize(None)
    time.sleep(0.1 if 300 <= i < 360 else 0.02)
    ended.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
lengths = [b - a for a, b in zip(ended, ended[1:])]
median = lambda values: sorted(values)[len(values) // 2]
print(json.dumps({'slow_s': [ended[299] / 1e9, ended[359] / 1e9], 'usual_ns': median(lengths[:299]), 'slow_ns': median(lengths[299:359])}))
'''


# Each process has one trouble, or nearly has it. argv: the library, the trouble, seconds.
TROUBLES = '''
import ctypes, sys, time
cuda, kind = ctypes.CDLL(sys.argv[1]), sys.argv[2]
class Dim(ctypes.Structure):
    _fields_ = [('x', ctypes.c_uint), ('y', ctypes.c_uint), ('z', ctypes.c_uint)]
launch = cuda.cudaLaunchKernel
launch.argtypes = [ctypes.c_void_p, Dim, Dim, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
MIB = 1 << 20
device, pinned = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(MIB))
cuda.cudaMallocHost(ctypes.byref(pinned), ctypes.c_size_t(MIB))
plain, held = ctypes.create_string_buffer(MIB), []
def copy(host):
    for _ in range(8):
        cuda.cudaMemcpy(device, host, ctypes.c_size_t(MIB), 1)
def run(grid):
    for _ in range(50):
        launch(1234, Dim(grid, 1, 1), Dim(128, 1, 1), None, 0, None)
def hold(keep):
    b = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(b), ctypes.c_size_t(MIB))
    held.append(b)
    if not keep:
        cuda.cudaFree(held.pop())
work = {'pageable': lambda: copy(plain), 'pinned': lambda: copy(pinned), 'tiny': lambda: run(1), 'large': lambda: run(32),
        'leak': lambda: hold(True), 'freed': lambda: hold(False)}[kind]
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    work()
    time.sleep(0.05)
'''
SOONER = ['--set=tiny.window_samples=4', '--set=tiny.min_amount=20', '--set=pageable.window_samples=4', '--set=pageable.min_amount=100000',
          '--set=leak.skipped=0s', '--set=leak.bucket=1s', '--set=leak.min_buckets=12', '--set=leak.min_z=3', '--set=leak.min_growth_bytes=1000000']  # fmt: skip


def recording(t, kind):
    path = t.path(f'{kind}.gst')
    subprocess.run([MAKER, path, kind], check=True, timeout=60)
    return path


@case('slow steps, what was longer in them, the state of the GPU at that time, and a process that leaks', needs=None)
def slow(t):
    path = recording(t, 'slow')
    found = json.loads(t.tool('explain', '--format=json', path, status=0).out)
    t.equal('steps', found['steps'], 2999)
    t.true('samples', found['samples'] > 2900, found['samples'])
    kinds = [(f['detector'], f['subject']) for f in found['findings']]
    t.equal('findings', sorted(kinds), [('change', 'steps'), ('density', 'calls'), ('gpu_density', 'gpu_state'), ('leak', 'process_memory')])
    change, calls, gpu, leak = (next(f for f in found['findings'] if f['detector'] == d) for d in ('change', 'density', 'gpu_density', 'leak'))
    t.true('since', 1190 < change['since_seconds'] < 1215, change['since_seconds'])
    t.true('found soon', change['found_seconds'] - change['since_seconds'] < 20, change)
    t.true('and over', 1570 < change['ended_seconds'] < 1600, change['ended_seconds'])
    t.true('how much', 24 < change['change_percent'] < 26, change['change_percent'])
    t.true('from', 0.99e9 < change['before'] < 1.01e9, change['before'])
    t.equal('unit', change['unit'], 'ns')
    t.equal('why', change['cause']['key'], 'gpu_wait')
    t.true('how sure', change['cause']['confidence'] > 0.9, change['cause'])
    t.match('in words', r'^waiting for the GPU: 2\d\d ms more in each step \(.*\), \d+ % of the difference$', change['cause']['text'])
    t.equal('of what', (change['pid'], change['tid']), (100, 100))
    t.match('wall time', r'^2023-11-14T22:3\d', change['since'])
    t.equal('beside it', sorted(found['findings'][i]['detector'] for i in change['beside']), ['density', 'gpu_density'])
    t.equal('and the other way round', sorted(found['findings'][i]['detector'] for i in gpu['beside']), ['change', 'density'])
    t.equal('which call', calls['name'], 'cudaStreamSynchronize in train 100')
    t.true('its latency', 1.2e9 < calls['after'] < 1.26e9, calls['after'])
    t.equal('which GPU', gpu['name'], 'node7 GPU 0')
    t.match('which value', 'unusual power share', gpu['text'])
    t.equal('which process', leak['name'], 'node7 python1 101')
    t.true('when', leak['since_seconds'] > 1900, leak['since_seconds'])
    t.equal('until the end', leak['ended_seconds'], None)
    t.true('model', change['model']['usual_spread_pct'] > 0.5, change['model'])


@case('a traced program that becomes slow: since when, and by how much', timeout=240)
def traced(t):
    path = t.path('run.gst')
    run = t.trace('-o', path, command=[PYTHON, '-c', BECOMES_SLOW, f'{harness.fake}/libcudart.so.13'])
    t.nothing_lost(run)
    said = json.loads(run.out)
    # A machine with other work makes steps longer for a while, too, but not twice as long.
    found = json.loads(t.tool('explain', '--format=json', '--set=change.min_change=100%', path, status=0).out)
    t.true('steps', 400 <= found['steps'] <= 420, found['steps'])
    slow_steps = [f for f in found['findings'] if f['detector'] == 'change' and f['after'] > 2 * f['before']]
    t.equal('one slow phase', len(slow_steps), 1)
    begin = datetime.datetime.fromisoformat(slow_steps[0]['since'][:26] + '+00:00').timestamp()
    t.true('in it', said['slow_s'][0] - 1 < begin < said['slow_s'][1], f"{said} {slow_steps[0]['since']}")
    t.true('usual', 0.8 < slow_steps[0]['before'] / said['usual_ns'] < 1.25, f'{said} {slow_steps[0]}')
    t.true('slow', 0.8 < slow_steps[0]['after'] / said['slow_ns'] < 1.25, f'{said} {slow_steps[0]}')
    t.true('and over', slow_steps[0]['ended_seconds'] is not None, slow_steps[0])
    t.equal('why', slow_steps[0]['cause']['key'], 'sleep')
    t.true('how sure', 0.5 < slow_steps[0]['cause']['confidence'] <= 1, slow_steps[0]['cause'])
    t.equal('evidence', slow_steps[0]['evidence'][0]['key'], 'sleep')
    asleep, whole = slow_steps[0]['evidence'][0], slow_steps[0]['after'] - slow_steps[0]['before']
    t.true('most of it', 0.6 < (asleep['after_ns'] - asleep['before_ns']) / whole < 1.05, slow_steps[0])
    t.equal('what shows it', slow_steps[0]['see'], f'gpuscope report --by thread {path}')
    as_usual = json.loads(t.tool('explain', '--format=json', path, status=0).out)['findings']
    t.equal('the same in the report', json.loads(t.tool('report', '--format=json', path, status=0).out)['findings'], as_usual)


@case('as they come, of a command: what begins, why, and its end', timeout=240)
def live(t):
    done = t.tool('explain', '--live', '--format=json', '--', PYTHON, '-c', BECOMES_SLOW, f'{harness.fake}/libcudart.so.13', status=0,
                  timeout=200)  # fmt: skip
    said = json.loads(done.out)
    found = [json.loads(line) for line in done.err.splitlines() if line.startswith('{')]
    slow_steps = [f for f in found if f['detector'] == 'change' and f['after'] > 2 * f['before']]
    t.true('begin, then end', [f['ended_seconds'] is None for f in slow_steps] in ([True, False], [False]), slow_steps)
    t.equal('why', {f['cause']['key'] for f in slow_steps}, {'sleep'})
    t.true('usual', 0.8 < slow_steps[0]['before'] / said['usual_ns'] < 1.25, f'{said} {slow_steps[0]}')
    t.match('what shows it', r'^gpuscope trace --by thread -p \d+$', slow_steps[0]['see'])
    few = t.tool('explain', '--live', '--', *t.app('cudaMalloc=20'), status=0).err
    t.match('a word at the end of lines for people', r'(?m)^gpuscope: no findings in \d+ steps$', few)


# Steps of 20 ms on a processor, of which a quota leaves a tenth from the 200th on. argv: the library, the file of the quota, its text.
THROTTLED = '''
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
block = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
for i in range(280):
    for _ in range(20):
        cuda.cudaMemsetAsync(block, 0, ctypes.c_size_t(64), None)
    cuda.cudaStreamSynchronize(None)
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    if i == 200:
        with open(sys.argv[2], 'w') as f:
            f.write(sys.argv[3])
'''


def cgroup_of(t):
    """(a new group, its quota's file, text for 10 % of a processor in periods that are shorter than a step)"""
    name = f'gpuscope-test-{os.getpid()}'
    for folder, quota, text in ((f'/sys/fs/cgroup/cpu/{name}', 'cpu.cfs_quota_us', '1000'), (f'/sys/fs/cgroup/{name}', 'cpu.max', '1000 10000')):
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(f'{folder}/{quota}'):
            if os.path.exists(f'{folder}/cpu.cfs_period_us'):
                with open(f'{folder}/cpu.cfs_period_us', 'w') as f:
                    f.write('10000')
            return folder, f'{folder}/{quota}', text
        os.rmdir(folder)
    raise harness.Skip('no group with a CPU quota can be made here')


@case('steps that a CPU quota makes longer', timeout=240)
def quota(t):
    folder, file, text = cgroup_of(t)
    path = t.path('quota.gst')
    try:
        shell = f'echo $$ > {folder}/cgroup.procs && exec {PYTHON} -c "$0" "$@"'
        t.trace('-o', path, command=['/bin/sh', '-c', shell, THROTTLED, f'{harness.fake}/libcudart.so.13', file, text])
    finally:
        wait_until(lambda: not open(f'{folder}/cgroup.procs').read(), 20, 'the group is empty')
        os.rmdir(folder)
    found = json.loads(t.tool('explain', '--format=json', '--set=change.min_change=100%', path, status=0).out)['findings']
    # Other programs may have made steps longer and shorter before that.
    slow_steps = [f for f in found if f['detector'] == 'change' and f['after'] > f['before']]
    t.equal('why', [(f['cause'] or {}).get('key') for f in slow_steps][-1:], ['cpu_quota'])
    t.match('in words', 'no CPU was free: .*; the CPU quota of the cgroup stopped it for .* more', slow_steps[-1]['cause']['text'])
    evidence = {e['key']: e for e in slow_steps[-1]['evidence']}
    t.true('evidence', evidence['cpu_quota']['after_ns'] > 1e7 > evidence['cpu_quota']['before_ns'], evidence)


@case('programs with a trouble, and as many that nearly have it', timeout=240)
def troubles(t):
    path, kinds = t.path('troubles.gst'), ('pageable', 'pinned', 'tiny', 'large', 'leak', 'freed')
    script = t.path('troubles.py')
    with open(script, 'w') as f:
        f.write(TROUBLES)
    shell = ' & '.join(f'{PYTHON} {script} {harness.fake}/libcudart.so.13 {kind} 24' for kind in kinds)
    t.nothing_lost(t.trace('-o', path, command=['/bin/sh', '-c', f'{shell} & wait']))
    found = json.loads(t.tool('explain', '--format=json', *SOONER, path, status=0).out)['findings']
    command_of = {str(p['pid']): p['command'] for p in json.loads(t.tool('report', '--format=json', path, status=0).out)['processes']}
    kinds_found = sorted((f['subject'], command_of[f['name'].split()[1]].split()[-2]) for f in found if f['detector'] in ('tiny', 'pageable', 'leak'))
    t.equal('each trouble, and no other', kinds_found, [('allocated_memory', 'leak'), ('pageable_copies', 'pageable'), ('tiny_kernels', 'tiny')])
    for f in found:
        t.true('no cause is made up', f['cause'] is None or f['subject'] in ('steps', 'calls', 'launches', 'pageable_copies', 'allocated_memory'), f)
        t.match('what shows it', '^gpuscope report --by ', f['see'])
    leak = next(f for f in found if f['subject'] == 'allocated_memory')
    t.match('what was asked for', r'^cudaMalloc of 1\.00 MiB or more: .* more held since then, (9\d|100) % of the growth$', leak['cause']['text'])
    t.equal('as data', (leak['cause']['key'], leak['cause']['confidence'] > 0.9), ('call_site', True))
    t.equal('which copies', [f['cause']['key'] for f in found if f['subject'] == 'pageable_copies'], ['host_to_device'])
    t.true('a model', all(f['model'] for f in found), found)


@case('memory that leaks: the line that asked for it, where stacks are recorded', timeout=240)
def leaks(t):
    path, script = t.path('leak.gst'), t.path('leak.py')
    with open(script, 'w') as f:
        f.write(TROUBLES)
    t.trace('--memory', '-o', path, command=[PYTHON, script, f'{harness.fake}/libcudart.so.13', 'leak', '20'])
    found = json.loads(t.tool('explain', '--format=json', *SOONER, path, status=0).out)['findings']
    leak = next(f for f in found if f['subject'] == 'allocated_memory' and f['detector'] == 'leak')
    assert leak['cause'], found
    line = next(i for i, x in enumerate(TROUBLES.splitlines(), 1) if 'cudaMalloc(ctypes.byref(b)' in x)
    t.match('which', rf'^cudaMalloc at {script}:{line} hold: .* more held since then, (9\d|100) % of the growth$', leak['cause']['text'])


@case('of an agent: what holds, over its API, as metrics, as an alert, and over its control socket', timeout=120, needs=None)
def agent(t):
    socket = t.path('agent.sock')
    more = ('findings:\n  enabled: true\n  settings: idle.window_samples=4\n'
            'alerts:\n  interval: 1s\n  log: {enabled: true}\n  rules:\n    - {name: found, subject: node, condition: "findings > 0", for: 0s}\n')  # fmt: skip
    a = agent_help.Agent(t, agent_help.config_text(more=more, control=socket), what=f'gpus=2,idle,held=2048,pids={os.getpid()}')
    a.wait_metric('gpuscope_agent_findings_total{detector="idle"}', lambda value: value == 1)
    holding = [key for key in a.metrics() if key.startswith('gpuscope_finding{')]
    t.equal('one holds', len(holding), 1)
    t.match('which', 'detector="idle",subject="idle_gpu",name="[^"]+ GPU 0"', holding[0])
    document = json.loads(a.get('/api/v1/findings')[2])
    t.equal('API', [(f['detector'], f['ended_seconds']) for f in document['findings']], [('idle', None)])
    t.equal('why', (document['findings'][0]['cause']['key'], document['findings'][0]['cause']['pid']), ('process', os.getpid()))
    a.wait_err(r'found.*firing|firing.*found|alert.*found')
    line = json.loads(t.tool('explain', '--live', '--duration=1', f'--control={socket}', '--format=json', status=0).out)
    t.equal('the same over the socket', line, document['findings'][0])
    t.match('for people', r'^since \d\d:\d\d:\d\d: .* GPU 0: 100 % of the samples: idle while processes hold its memory\n'
            r'    cause: \S+ \d+ holds 2\.\d+ GiB of it; see: gpuscope top\n    do: Ask its user whether the job still works; a waiting job needs no GPU\.\n$',
            t.tool('explain', '--live', '--duration=1', f'--control={socket}', status=0).out)  # fmt: skip
    t.equal('none of a job', t.tool('explain', '--job-id=4711', f'--control={socket}', status=0).out, '')
    a.pretend(f'gpus=2,util=90,held=2048,pids={os.getpid()}')
    wait_until(lambda: not [key for key in a.metrics() if key.startswith('gpuscope_finding{')], 20, 'its end')
    t.true('is kept', json.loads(a.get('/api/v1/findings')[2])['findings'][0]['ended_seconds'] > 0)
    a.stop()
    b = agent_help.Agent(t, agent_help.config_text(control=socket))
    t.match('off', 'findings are off: findings.enabled', t.tool('explain', '--live', f'--control={socket}', status=1).err)
    t.equal('API', json.loads(b.get('/api/v1/findings')[2]), {'enabled': False, 'findings': []})
    b.stop()
    t.match('no agent', 'no agent listens', t.tool('explain', '--live', f'--control={socket}', status=1).err)


@case('in the report of a job: of its GPUs, and of no others', timeout=60, needs=None)
def job(t):
    with harness.Beside(['sleep', '100']) as one, harness.Beside(['sleep', '100']) as other:
        pretends = {'FAKE_NVML': f'gpus=2,idle,held=2048,pids={one.pid}:{other.pid}'}
        report = t.path('job.json')
        t.tool('job', f'--pid={one.pid}', '--duration=8', f'--nvml={agent_help.library()}', '--set=idle.window_samples=3', f'--output={report}',
               status=0, env=pretends)  # fmt: skip
        wrong = t.tool('job', '-p', str(one.pid), '--set=idle.size=3', f'--nvml={agent_help.library()}', status=2, env=pretends)
        t.match('a wrong option', 'no option "idle.size" of a detector', wrong.err)
        one.kill()
        other.kill()
    with open(report) as f:
        found = json.load(f)['jobs'][0]['findings']
    t.equal('one', [(f['detector'], f['name'].split()[-1]) for f in found], [('idle', '0')])
    t.equal('what shows it', found[0]['see'], 'gpuscope top')


@case('the same for people', needs=None)
def table(t):
    out = t.tool('explain', recording(t, 'slow'), status=0).out
    t.match('head', r'slow\.gst: 4 findings in 2,999 steps and 3,\d+ samples\n', out)
    t.match('steps', r'\n  after (19|20)m \d\ds: steps take 2[45]\.\d % longer \(.* -> 1\.2\d s\), over after 2[56]m ', out)
    t.match('why', r'\n    cause: waiting for the GPU: .*; see: gpuscope report --by stream .*slow\.gst\n    change: score', out)
    t.match('not known', r'\n    cause: not known; see: gpuscope top\n    do: Look for what the program keeps from step to step\.\n    leak: score', out)
    t.match('beside', r'\n    [0-9.]+ m?s before: node7 GPU 0: unusual power share \(0\.\d+ -> 0\.4\d+\)\n', out)
    t.match('leak', r'node7 python1 101: resident memory grows steadily \(.*\), until the end\n', out)
    replayed = ' '.join(t.tool('top', '--once', '--replay', t.path('slow.gst'), status=0).out.split())
    t.match('top has what holds at the end', r'since \d\d:\d\d:\d\d: node7 python1 101: resident memory grows steadily \([^)]*\); '
            r'cause: not known; see: gpuscope top; Look for what the program keeps from step to step\.', replayed)  # fmt: skip
    t.true('and nothing else', 'steps take' not in replayed and 'unusual power' not in replayed, replayed)


@case('nothing is found in a clean run; options of detectors', needs=None)
def clean(t):
    path = recording(t, 'clean')
    t.match('none', r'clean\.gst: no findings in 2,999 steps and', t.tool('explain', path, status=0).out)
    for where in ([path], ['--live', '--', 'true']):
        t.equal('a strange option', t.tool('explain', '--set', 'change.size=1', *where, status=2).err, 'gpuscope explain: no option "change.size" of a detector: `gpuscope explain --set help` lists them\n')
    t.match('a wrong value', 'min_change takes', t.tool('explain', '--set', 'change.min_change=much', path, status=2).err)
    t.match('no value', 'takes an option of a detector', t.tool('explain', '--set', 'change.min_change', path, status=2).err)
    slow_one = recording(t, 'slow')
    found = json.loads(t.tool('explain', '--format=json', '--set=change.min_change=60%', '--set=leak.min_growth_bytes=1000000000000000',
                              slow_one, status=0).out)  # fmt: skip
    t.equal('only large ones', sorted(f['detector'] for f in found['findings']), ['density', 'gpu_density'])


@case('runs that are too short or empty, and files that are none', needs=None)
def other_files(t):
    done = t.tool('explain', recording(t, 'short'), status=0)
    t.match('short', 'no findings in 19 steps and 0 samples', done.out)
    t.match('why', '19 steps are too few to know what is usual', done.err)
    t.match('empty', 'neither steps nor samples: record calls', t.tool('explain', recording(t, 'empty'), status=4).err)
    t.match('no file', 'no recording given: gpuscope explain FILE', t.tool('explain', status=2).err)
    t.match('two files', 'one file at a time', t.tool('explain', 'a.gst', 'b.gst', status=2).err)
    t.match('live', 'table or json', t.tool('explain', '--live', '--format=yaml', status=2).err)
    t.match('whose options', 'findings.settings of its configuration', t.tool('explain', '--job=1', '--set=idle.min_share=5%', status=2).err)
    t.match('both', 'either a command or -p', t.tool('explain', '--live', '-p', '1', '--', 'true', status=2).err)
    t.match('a file of no job', 'leave out the file', t.tool('explain', '--job=1', 'a.gst', status=2).err)
    t.match('not there', 'cannot ', t.tool('explain', t.path('none.gst'), status=1).err)
    whole = open(recording(t, 'slow'), 'rb').read()
    with open(t.path('torn.gst'), 'wb') as f:
        f.write(whole[:len(whole) * 3 // 4])
    done = t.tool('explain', t.path('torn.gst'), status=0)
    t.match('torn', 'cut off', done.err)
    t.match('what is there', 'steps take 24', done.out)
    with open(t.path('text.gst'), 'w') as f:
        f.write('no recording')
    t.match('another file', 'cannot read|not a .gst', t.tool('explain', t.path('text.gst'), status=1).err)


if __name__ == '__main__':
    main()
