#!/usr/bin/env python3
"""gpuscope's own classes in Python: what they report is what the traced program says it did."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import package_help
import harness
from harness import Skip, case, main, read_text, wait_until

import gpuscope
from gpuscope._frames import calls_to_numpy, calls_to_pandas
from gpuscope._show import shown, table

CALLS = ('cudaMalloc=9', 'cudaMemcpyAsync=8', 'cudaLaunchKernel=31', 'cudaFree=9', 'cudaMalloc:bad=2', 'ncclCommInitRank=1', 'ncclAllReduce=6')


def use_library():
    """In this process, which is the case's own."""
    os.environ['GPUSCOPE_LIBRARY'] = package_help.library()
    os.environ['FAKE_CUDA_MEMORY'] = str(1 << 49)  # as for programs that the harness starts


@contextlib.contextmanager
def said(t):
    """The file that has what commands say that are started inside: they have the descriptors of the caller."""
    path, before = t.path('said'), os.dup(1)
    with open(path, 'w') as f:
        os.dup2(f.fileno(), 1)
    try:
        yield path
    finally:
        os.dup2(before, 1)
        os.close(before)


def said_in(path):
    return [json.loads(line) for line in read_text(path).splitlines()]


def counts(calls):
    return dict(collections.Counter(c.name for c in calls))


@case('a command: each call, its process, the end, the summary', timeout=90)
def command(t):
    use_library()
    with said(t) as path, gpuscope.trace(t.app(*CALLS), outputs=t.path('run.gst')) as trace:
        records = list(trace)
        clock = trace.clock()
    calls = [r for r in records if isinstance(r, gpuscope.Call)]
    own = said_in(path)[0]
    did = own['functions']
    runtime = [c for c in calls if c.layer != 'cuda-driver']
    t.equal('calls', counts(runtime), {name: f['calls'] for name, f in did.items()})
    for name in ('cudaMalloc', 'cudaMemcpyAsync', 'ncclAllReduce'):
        t.equal(f'bytes of {name}', sum(c.bytes for c in runtime if c.name == name and not c.failed), did[name]['bytes'])
    failed = [c for c in runtime if c.failed]
    t.equal('failed', [(c.name, c.error, c.ret) for c in failed], [('cudaMalloc', 'cudaErrorMemoryAllocation', 2)] * 2)
    last = [c for c in calls if c.name == 'cudaLaunchKernel'][-1]
    arg = did['cudaLaunchKernel']['last']['arg']
    t.equal('arguments', list(last.args), arg)
    t.equal('grid, block', (last.grid, last.block), ((arg[1] & 0xFFFFFFFF, arg[1] >> 32, arg[2] & 0xFFFFFFFF),
                                                     (arg[2] >> 32, arg[3] & 0xFFFFFFFF, arg[3] >> 32)))  # fmt: skip
    t.equal(f'process, thread (lost: {[r for r in records if isinstance(r, gpuscope.Lost)]})', {(c.pid, c.tid, c.process) for c in calls}, {(own['pid'], own['threads'][0], 'fake_app')})
    # Of the first launch of a function the end is not looked at.
    untimed = [c for c in calls if not (c.is_finished and c.duration_ns > 0 and c.end_ns > c.start_ns)]
    t.true('times', len(untimed) <= 3, untimed)
    t.true('the clock', abs((calls[-1].start_ns + clock.to_wall_ns) / 1e9 - time.time()) < 600 and clock.to_monotonic_ns is not None, clock)
    end = records[-1]
    t.true('the end', isinstance(end, gpuscope.End) and end.exit_status == 0 and end.reason != '', end)
    t.true('a process', any(isinstance(r, gpuscope.Process) and r.pid == own['pid'] and r.exe.endswith('fake_app') for r in records))
    t.true('a file', any(isinstance(r, gpuscope.Attached) and 'libcudart' in r.path and r.n_probes for r in records))
    t.true('ended', trace.ended and trace.next(0) is None)

    summary = trace.summary()
    # What is freed has the bytes of its allocation, which the program does not count.
    did['cudaFree']['bytes'] = did['cudaMalloc']['bytes']
    rows = {f.name: (f.calls, f.errors, f.bytes) for f in summary.functions if f.layer != 'cuda-driver'}
    t.equal('the summary', rows, {name: (f['calls'], f['errors'], f['bytes']) for name, f in did.items()})
    t.equal('one function', summary.function('ncclAllReduce').calls, 6)
    t.equal('none', summary.function('nccl'), None)
    t.equal('of it', (summary.exit_status, summary.is_complete, summary.host), (0, True, os.uname().nodename))
    as_json = json.loads(summary.json)
    t.equal('JSON', {f['name']: f['calls'] for f in as_json['functions']}, {f.name: f.calls for f in summary.functions})
    verdict = summary.verdict()
    t.equal('verdict', (verdict.title, bool(verdict)), (as_json['verdict']['title'], verdict.name != ''))
    json.loads(trace.findings_json())

    with gpuscope.Recording(t.path('run.gst')) as recording:
        again = list(recording)
    t.equal('calls of the recording', [(c.name, c.start_ns, c.duration_ns, c.tid, c.bytes, c.args, c.error) for c in again if isinstance(c, gpuscope.Call)],
            [(c.name, c.start_ns, c.duration_ns, c.tid, c.bytes, c.args, c.error) for c in calls])  # fmt: skip
    t.equal('its summary', gpuscope.Recording(t.path('run.gst')).summary().functions, summary.functions)
    t.match('in a notebook', r'^<table>.*<td>cudaLaunchKernel</td>.*</table>$', summary._repr_html_())
    trace.close()
    try:
        trace.summary()
        t.fail('a closed trace has a summary')
    except ValueError as e:
        t.match('closed', 'closed', str(e))


@case('a process that runs, until the duration is over', timeout=90)
def attach(t):
    use_library()
    app = t.start_app('cudaMalloc=5', 'cudaFree=5')
    with gpuscope.trace(pids=app.pid, functions=['cudaMalloc*'], duration=3) as trace:
        app.let_go()
        calls = list(trace.calls())
    t.equal('calls', counts(c for c in calls if c.layer == 'cuda-runtime'), {'cudaMalloc': 5})
    app.result()


@case('probes of any function, with arguments and results', timeout=90)
def probes(t):
    use_library()
    probes = [gpuscope.Probe('work', path='probed', name='whole', n_args=3, result=True), gpuscope.Probe('work', path='exe', entry_only=True)]
    yaml = json.dumps({'probes': [{'lib': 'exe', 'function': 'work', 'name': 'text', 'args': ['arg3: str path'], 'return': True}]})
    with gpuscope.trace(t.app('20', name='probed'), probes=probes, probes_yaml=yaml, probes_only=True) as trace:
        calls = list(trace.calls())
    t.equal('calls', counts(calls), {'whole': 20, 'work': 20, 'text': 20})
    whole = [c for c in calls if c.name == 'whole']
    t.equal('first argument', [c.values['arg1'] for c in whole], [i * 1000 for i in range(20)])
    t.true('result', all('ret' in c.values for c in whole), whole[0])
    t.true('entries', all(c.is_instant and c.duration_ns == 0 for c in calls if c.name == 'work'))
    t.true('texts', any(c.values['path'] == 'odd' for c in calls if c.name == 'text'))
    t.equal('layer', {c.layer for c in calls}, {'user'})


@case('operators of PyTorch by name, beside functions', timeout=120)
def operators(t):
    use_library()
    if not harness.has_module('/usr/bin/python3', 'torch'):
        raise Skip('python3-torch is not installed')
    text = 'import torch; x = torch.randn(4, 4); [torch.relu(x + x).tanh() for _ in range(6)]'
    with gpuscope.trace(['/usr/bin/python3', '-c', text], functions=['aten::add', 'aten::rel*', 'cudaMalloc']) as trace:
        calls = list(trace.calls())
    t.equal('operators', counts(calls), {'aten::add.Tensor': 6, 'aten::relu': 6})
    t.equal('layer', {c.layer for c in calls}, {'torch'})
    try:
        gpuscope.trace(['true'], layers='cuda', functions=['aten::add'])
        t.fail('an operator without its layer is accepted')
    except gpuscope.Error as e:
        t.match('what is wrong', 'aten::add is a PyTorch operator', str(e))


@case('sums instead of calls', timeout=90)
def sums(t):
    use_library()
    with gpuscope.trace(t.app('cudaLaunchKernel=500'), summary_only=True) as trace:
        records = list(trace)
    t.equal('calls', [r for r in records if isinstance(r, gpuscope.Call)], [])
    t.equal('sums', sum(r.calls for r in records if isinstance(r, gpuscope.Sum) and r.name == 'cudaLaunchKernel'), 500)
    t.equal('summary', trace.summary().function('cudaLaunchKernel').calls, 500)


@case('Ctrl-C ends a wait at once, and the trace with it', timeout=90)
def interrupt(t):
    text = textwrap.dedent("""
        import gpuscope, sys
        with gpuscope.trace(['sleep', '300']) as t:
            print('waits', flush=True)
            try:
                for record in t: pass
            except KeyboardInterrupt:
                print('interrupted', flush=True)
                raise
    """)
    proc = package_help.start(t, [sys.executable, '-c', text])
    wait_until(lambda: 'waits' in read_text(proc.out), 30, 'the trace')
    proc.send_signal(signal.SIGINT)
    t.equal(f'exit status ({read_text(proc.err)[-800:]})', proc.wait(timeout=20), -signal.SIGINT)
    t.match('what it did', 'interrupted', read_text(proc.out))


@case('a forked child leaves its parent\'s handles alone', timeout=90)
def forked(t):
    use_library()
    app = t.start_app('cudaMalloc=5')
    trace = gpuscope.trace(pids=[app.pid])
    child = os.fork()
    if child == 0:
        status = 0
        try:
            trace.next(0)
        except ValueError:
            status = 7
        trace.stop()
        trace.close()
        os._exit(status)
    t.equal('the child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
    app.let_go()
    t.equal('calls', counts(c for c in trace.calls() if c.layer == 'cuda-runtime'), {'cudaMalloc': 5})
    trace.close()
    app.result()


@case('handles in threads of their own', timeout=120)
def threads(t):
    use_library()
    found = {}

    def one(i):
        with gpuscope.trace(t.app(f'cudaMalloc={20 + i}')) as trace:
            found[i] = counts(c for c in trace.calls() if c.layer == 'cuda-runtime')

    workers = [threading.Thread(target=one, args=(i,)) for i in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    t.equal('calls', found, {i: {'cudaMalloc': 20 + i} for i in range(3)})


@case('a reader that is too slow is told what it missed', timeout=90)
def slow_reader(t):
    use_library()
    with gpuscope.trace(t.app('cudaLaunchKernel=20000'), queue_items=1024, layers='cuda-runtime') as trace:
        # Nothing is pulled until the command has ended, which its summary shows.
        wait_until(lambda: trace.summary().function('cudaLaunchKernel') and trace.summary().function('cudaLaunchKernel').calls == 20000, 30)
        records = list(trace)
    lost = sum(r.count for r in records if isinstance(r, gpuscope.Lost) and r.cause == 'queue_full')
    calls = sum(isinstance(r, gpuscope.Call) for r in records)
    t.true('what was lost', lost > 0 and calls > 0, (lost, calls))
    t.true('calls and lost', calls + lost >= 20000, (lost, calls))


@case('GPUs, the processes on them, the machine', timeout=90, needs=None)
def devices(t):
    use_library()
    os.environ['FAKE_NVML'] = f'gpus=2,board=h200,pids={os.getpid()}'
    nvml = os.path.join(harness.fake, 'libnvidia-ml.so.1')
    found = gpuscope.gpus(nvml_path=nvml)
    wanted = json.loads(t.tool('gpu', '--nvml', nvml, '--format', 'json', env={'FAKE_NVML': os.environ['FAKE_NVML']}).out)['gpus']
    t.equal('GPUs', [(g.index, g.name, g.uuid) for g in found], [(g['index'], g['name'], g['uuid']) for g in wanted])
    t.equal('no fan', [g.fan_ratio for g in found], [None, None])
    t.true('values', all(g.power_watts and g.temperature_celsius and g.memory_total_bytes and g.values['power_watts'] == g.power_watts for g in found))
    on_gpus = gpuscope.processes(interval=0.2, nvml_path=nvml, names=True)
    t.equal('processes', [(p.pid, p.gpu, p.used_bytes, p.kind) for p in on_gpus], [(os.getpid(), 0, 1 << 30, 'compute')])
    t.true('shares', on_gpus[0].sm_ratio is not None and on_gpus[0].command != '', on_gpus)
    t.match('in a notebook', '<th>utilization</th>.*<td>- ?</td>|<td>0</td>', found._repr_html_())
    with gpuscope.Monitor(nvml_path=nvml, machine=True, all_processes=True) as monitor:
        samples = list(monitor.samples(interval=0.2, count=2))
        t.equal('JSON', json.loads(monitor.json())['gpus'][0]['uuid'], found[0].uuid)
    t.equal('processors', samples[1].machine.n_cpus, os.cpu_count())
    t.true('this process', any(p.pid == os.getpid() for p in samples[1].processes))
    t.true('a share', samples[1].machine.cpu_ratio is not None)


@case('without a driver there are no GPUs, and the sample says why', timeout=60, needs=None)
def no_driver(t):
    use_library()
    os.environ['FAKE_NVML'] = 'init=9'
    nvml = os.path.join(harness.fake, 'libnvidia-ml.so.1')
    t.equal('GPUs', gpuscope.gpus(nvml_path=nvml), [])
    with gpuscope.Monitor(nvml_path=nvml) as monitor:
        sample = monitor.read()
    t.true('why', sample.state != 'ok' and sample.state_text, sample)


@case('what is wrong is raised with its reason', timeout=60)
def errors(t):
    use_library()
    with open('torn.gst', 'w') as f:
        f.write('this is no recording')
    for what, kind, call in (
        ('no such command', OSError, lambda: gpuscope.trace(['/no/such/command'])),
        ('no selection', OSError, lambda: gpuscope.trace()),
        ('a bad layer', OSError, lambda: gpuscope.trace(['true'], layers='nothing')),
        ('a bad probe', OSError, lambda: gpuscope.trace(['true'], probes_yaml='- {function: x, args: [y]}')),
        ('no such file', OSError, lambda: gpuscope.Recording('/no/such/file.gst')),
        ('no recording', gpuscope.Error, lambda: gpuscope.Recording('torn.gst').summary()),
        ('a command as one text', TypeError, lambda: gpuscope.trace('true')),
        ('a negative time', ValueError, lambda: gpuscope.trace(['true'], duration=-1)),
        ('a negative time to wait', ValueError, lambda: gpuscope.trace(['true'], hang_after=-1)),
        ('an unknown option', TypeError, lambda: gpuscope.trace(['true'], nothing=1)),
    ):  # fmt: skip
        try:
            call()
            t.fail(f'{what} is accepted')
        except kind as e:
            t.true(f'{what}: one line', str(e) and '\n' not in str(e), str(e))


@case('hangs of a recording, and the users of its processes', timeout=90)
def hangs(t):
    use_library()
    t.tool('trace', '-q', '--hang-after', '2s', '-o', 'stuck.gst', '--', os.path.join(harness.fake, 'stuck'), 'sleep', '5000', timeout=60)
    wanted = json.loads(t.tool('report', 'stuck.gst', '--format', 'json', status=0).out)['hangs']
    recording = gpuscope.Recording('stuck.gst')
    items = [x for x in recording if isinstance(x, gpuscope.Hang)]
    t.equal('items: found, and over', [(h.number, h.ended_ns is None, len(h.ranks)) for h in items], [(1, True, 4), (1, False, 0)])
    summary = gpuscope.Recording('stuck.gst').summary()
    t.equal('hangs', [(h.sort, h.text, h.call, h.n_comm_ranks, h.has_arrived) for h in summary.hangs],
            [(h['kind'], h['text'], h['collective'], h['ranks'], h['has_arrived']) for h in wanted])  # fmt: skip
    t.equal('ranks', [(r.rank, r.state, r.calls, r.last_function, r.last_count, r.native_stack) for h in summary.hangs for r in h.ranks],
            [(r['rank'], r['state'], r['calls'], r['last_function'], r['last_count'], r['native'] or '') for h in wanted for r in h['by_rank']])  # fmt: skip
    t.equal('the same ranks', summary.hangs[0].ranks, items[0].ranks)
    t.equal('users', {p.uid for p in summary.processes}, {os.getuid()})


@case('hangs of a running trace: a record while they last, another when they are over', timeout=90)
def live_hangs(t):
    use_library()
    stuck = os.path.join(harness.fake, 'stuck')
    with said(t) as path, gpuscope.trace([stuck, 'sleep', '9000'], hang_after=2.5, outputs='live.gst') as trace:
        items = [(r, time.clock_gettime(time.CLOCK_BOOTTIME)) for r in trace if isinstance(r, gpuscope.Hang)]
    fault_s = int(read_text(path).split('at ')[1].split()[0]) / 1e9
    t.equal('found, and over', [(h.number, h.sort, h.ended_ns is None, h.has_arrived) for h, _ in items], [(1, 'waits', True, False), (1, 'waits', False, True)])
    found, seen_s = items[0]
    t.true(f'in time: {seen_s - fault_s:.2f} s after the fault', 2.5 <= seen_s - fault_s <= 7.5)
    t.match('text', r'^rank 2 \(process \d+\) has not arrived at collective 22 ', found.text)
    t.equal('ranks', [(r.rank, r.state, r.python_stack, r.native_stack) for r in found.ranks],
            [(2, 'missing', '', '')] + [(i, 'arrived', '', '') for i in (0, 1, 3)])  # fmt: skip
    summary = trace.summary()
    t.equal('in the summary', [(h.text, h.ranks, h.has_arrived) for h in summary.hangs], [(found.text, found.ranks, True)])
    t.equal('and in the file', [h.text for h in gpuscope.Recording('live.gst').summary().hangs], [found.text])
    with said(t), gpuscope.trace([stuck, 'type', '500']) as trace:
        t.equal('not asked for', [r for r in trace if isinstance(r, gpuscope.Hang)], [])
    t.equal('nor in the summary', trace.summary().hangs, [])


@case('calls as tables of NumPy and pandas', timeout=90)
def frames(t):
    use_library()
    gpuscope.trace(t.app(*CALLS), outputs=['run.gst'], layers='cuda-runtime').finish()
    wanted = [(c.name, c.duration_ns, c.bytes) for c in gpuscope.Recording('run.gst').calls()]
    missing = [m for m in ('numpy', 'pandas') if not harness.has_module(sys.executable, m)]
    if 'numpy' not in missing:
        array = gpuscope.Recording('run.gst').to_numpy()
        t.equal('NumPy', [(x['name'], x['duration_ns'], x['bytes']) for x in array], wanted)
        t.equal('sum', int(array['bytes'].sum()), sum(w[2] for w in wanted))
    if 'pandas' not in missing:
        frame = gpuscope.Recording('run.gst').to_pandas()
        t.equal('pandas', list(frame[['name', 'duration_ns', 'bytes']].itertuples(index=False, name=None)), wanted)
        kinds = {'start_ns': 'uint64', 'duration_ns': 'uint64', 'pid': 'uint32', 'ret': 'int32', 'bytes': 'uint64', 'stream': 'uint64', 'name': 'object'}
        t.equal('types of columns', {column: str(frame[column].dtype) for column in kinds}, kinds)
        t.equal('bytes by function', dict(frame.groupby('name')['bytes'].sum()), {name: sum(w[2] for w in wanted if w[0] == name) for name in {w[0] for w in wanted}})
        none = calls_to_pandas([])
        t.equal('of no calls', (len(none), list(none.columns), str(none['start_ns'].dtype)), (0, list(frame.columns), 'uint64'))
    if len(missing) == 2:
        raise Skip('neither NumPy nor pandas is installed')
    t.note(f'not installed: {missing}')


@case('tables without NumPy and pandas: the error says what to install; a broken one is no missing one', needs=None)
def no_frames(t):
    for name, make, method in (('numpy', calls_to_numpy, 'to_numpy'), ('pandas', calls_to_pandas, 'to_pandas')):
        was = {module: sys.modules.pop(module) for module in [*sys.modules] if module.split('.')[0] == name}
        sys.modules[name] = None  # as the import system has one that is not there
        try:
            make([])
            t.fail(f'{name} is not needed')
        except ImportError as e:
            t.equal(name, str(e), f"{method}() needs {name}, which {sys.executable} does not have: pip install 'gpuscope[{name}]', "
                                  f'or the package python3-{name} of the distribution')  # fmt: skip
            t.equal(f'{name}: the name of what is missing', e.name, name)
        os.mkdir(name)
        with open(f'{name}/__init__.py', 'w') as f:
            f.write('import no_such_module_of_it\n')
        del sys.modules[name]
        sys.path.insert(0, os.getcwd())
        try:
            make([])
            t.fail(f'a broken {name} is used')
        except ImportError as e:
            t.equal(f'a broken {name}', (e.name, 'needs' in str(e)), ('no_such_module_of_it', False))
        finally:
            sys.path.remove(os.getcwd())
            sys.modules.pop(name, None)
            sys.modules.update(was)


@case('tables of HTML: units, what is not known, no markup of others', needs=None)
def html(t):
    wanted = {('x_ratio', 0.314): '31 %', ('x_ns', 1500): '1.5 us', ('x_ns', 0): '0 ns', ('max_ns', 61_000_000_000): '61 s',
              ('bytes', 3 << 20): '3.0 MiB', ('bytes', 5): '5 B', ('calls', 12345): '12,345', ('pid', 12345): '12345', ('fan_ratio', None): '-'}  # fmt: skip
    for (column, value), text in wanted.items():
        t.equal(f'{column} {value}', shown(column, value), text)
    row = collections.namedtuple('Row', 'name p99_ns')('<script>', 10)
    t.equal('a table', table([row], ('name', 'p99_ns')), '<table><thead><tr><th>name</th><th>p99</th></tr></thead><tbody>'
            '<tr><td>&lt;script&gt;</td><td>10 ns</td></tr></tbody></table>')  # fmt: skip


main()
