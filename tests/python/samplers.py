#!/usr/bin/env python3
"""eACGM's classes and the programs of examples/python: each reports what the traced program says it did."""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import package_help
import harness
from harness import Skip, case, main, read_text, wait_until
from package_help import EXAMPLES

PYTHON = '/usr/bin/python3'  # the one whose modules (PyTorch) are packages


class Sampler:
    """An example that runs until Ctrl-C; its first window is over, so its probes are placed."""

    def __init__(self, t, name, *arguments, first='---', **env):
        self.t = t
        self.proc = package_help.start(t, [sys.executable, os.path.join(EXAMPLES, name), *arguments], **env)
        self.wait(first)

    def text(self):
        return read_text(self.proc.out)

    def wait(self, text, seconds=30):
        def seen():
            assert self.proc.poll() is None, f'ended with {self.proc.returncode}: {read_text(self.proc.err)[-1000:]}'
            return text in self.text()

        wait_until(seen, seconds, f'{text!r} in the output')

    def finish(self, windows=1):
        """By Ctrl-C, after that many whole windows more."""
        before = self.text().count('---')
        if before:
            wait_until(lambda: self.text().count('---') > before + windows, 30, 'a window')
        self.proc.send_signal(signal.SIGINT)
        self.t.equal(f'exit status ({read_text(self.proc.err)[-1500:]})', self.proc.wait(timeout=30), 0)
        # Notices of other programs' libraries may be lost on a busy machine, and libraries of other cases are malformed; calls must not be lost.
        others = f'cannot attach to (?!{re.escape(self.t.tmp)}/)\\S*/gpuscope_e2e_|lost .*: (dropped notices|refused|processes that|libraries that)'
        said = [line for line in read_text(self.proc.err).splitlines() if not re.search(others, line)]
        self.t.equal('what standard error says', said, [])


def own_library(t, name):
    """A copy that no other program calls: one of theirs that is killed in a call is a call that is lost."""
    folder = t.path('own')
    os.makedirs(folder, exist_ok=True)
    t.env['LD_LIBRARY_PATH'] = folder
    return shutil.copy(os.path.join(harness.fake, name), folder)


def run_app(t, *words, name='fake_app'):
    """The stand-in's calls; what it says of them, and its process."""
    done = subprocess.run(t.app(*words, name=name), capture_output=True, text=True, timeout=60, env=t.env)
    t.equal(f'exit status of the program ({done.stderr})', done.returncode, 0)
    return json.loads(done.stdout.splitlines()[-1])


def starts(events, name, pid):
    return [e for e in events if e['name'] == name and e['ph'] == 'B' and e['pid'] == pid]


def balanced(t, events):
    """Each begin has its end, inside of those around it."""
    stacks = collections.defaultdict(list)
    for e in events:
        stack = stacks[e['pid'], e['tid']]
        if e['ph'] == 'B':
            stack.append(e['name'])
        elif e['ph'] == 'E' and (not stack or stack.pop() != e['name']):
            t.fail(f'{e} ends what was not begun last')
    t.equal('begun and not ended', {k: v for k, v in stacks.items() if v}, {})
    t.equal('in the order of time', [e['ts'] for e in events], sorted(e['ts'] for e in events))


def load(t, name):
    with open(t.path(name), encoding='utf-8') as f:
        return json.load(f)


@case('CUDA: pointers of blocks that were given and freed, bytes, threads in 64 bits', timeout=90)
def cuda(t):
    s = Sampler(t, 'sampler_cuda.py', own_library(t, 'libcudart.so.13'))
    said = run_app(t, 'cudaMalloc=7', 'cudaMemcpy=5', 'cudaLaunchKernel=6', 'cudaFree=7')
    s.wait("'end', 'cudaFree'")
    s.finish()
    events, did, pid = load(t, 'cuda.json'), said['functions'], said['pid']
    balanced(t, events)
    mallocs = starts(events, 'cudaMalloc', pid)
    t.equal('pointers', sorted(int(e['message'][0], 16) for e in mallocs), sorted(did['cudaMalloc']['values']))
    t.equal('bytes allocated', sum(int(e['message'][1]) for e in mallocs), did['cudaMalloc']['bytes'])
    t.equal('pointers freed', sorted(e['message'] for e in starts(events, 'cudaFree', pid)), sorted(e['message'][:1] for e in mallocs))
    copies = starts(events, 'cudaMemcpy', pid)
    t.equal('bytes copied', (len(copies), sum(int(e['message'][0]) for e in copies)), (5, did['cudaMemcpy']['bytes']))
    t.true('kinds of copies', all(int(e['message'][1]) <= 4 for e in copies), copies)

    def threads(call):
        a = call['arg']
        grid = (a[1] & 0xFFFFFFFF) * (a[1] >> 32) * (a[2] & 0xFFFFFFFF)
        return grid * (a[2] >> 32) * (a[3] & 0xFFFFFFFF) * (a[3] >> 32)

    launches = starts(events, 'cudaLaunchKernel', pid)
    t.equal('threads', [int(launches[i]['message'][0]) for i in (0, -1)],
            [threads(did['cudaLaunchKernel'][which]) for which in ('first', 'last')])  # fmt: skip
    t.equal('launches', len(launches), 6)
    t.equal('keys', sorted(launches[0]), sorted(['name', 'cat', 'pid', 'tid', 'cpu', 'ts', 'ph', 'message']))
    t.equal('categories', {e['cat'] for e in events}, {'cuda'})
    t.match('a state', r"eBPFSamplerState (fake_app)? \d+ \d+ \d+ \['start', 'cudaMalloc', '[0-9a-f]+', '\d+'\]", s.text())


@case('NCCL: bytes by data type', timeout=90)
def nccl(t):
    functions = ['ncclAllReduce', 'ncclReduce', 'ncclBroadcast', 'ncclAllGather', 'ncclSend', 'ncclRecv']
    s = Sampler(t, 'sampler_nccl.py', own_library(t, 'libnccl.so.2'))
    said = run_app(t, 'ncclCommInitRank=1', *(f'{name}={20 + i}' for i, name in enumerate(functions)))
    s.wait("'end', 'ncclRecv'")
    s.finish()
    events = load(t, 'nccl.json')
    balanced(t, events)
    for i, name in enumerate(functions):
        found = starts(events, name, said['pid'])
        t.equal(f'{name}: calls, bytes', (len(found), sum(int(e['message'][0]) for e in found)),
                (20 + i, said['functions'][name]['bytes']))  # fmt: skip


def call_python(t, count):
    """A real interpreter that calls an object from C so often; how many calls the sampler saw of it."""
    text = ('import ctypes, sys; call = ctypes.pythonapi.PyObject_CallFunction; call.restype = ctypes.py_object\n'
            'for _ in range(int(sys.argv[1])): call(ctypes.py_object(list), None)')  # fmt: skip
    proc = subprocess.Popen([PYTHON, '-I', '-S', '-c', text, str(count)], env=t.env)
    t.equal('exit status of the interpreter', proc.wait(timeout=30), 0)
    return proc.pid


@case('CPython: calls of objects from C', timeout=90)
def python(t):
    s = Sampler(t, 'sampler_python.py', os.path.realpath(PYTHON))
    pids = [call_python(t, count) for count in (0, 230)]
    s.finish(windows=2)
    seen = [len(re.findall(rf'eBPFSamplerState \S* {pid} ', s.text())) for pid in pids]
    # Each call has a start and an end.
    t.equal('calls more of the second', seen[1] - seen[0], 460)


TORCH = """
import torch
torch.set_num_threads(1)
x = torch.randn(4, 4)
with torch.no_grad():
    for _ in range(7):
        torch.relu(torch.add(x, x))
        torch.nn.functional.mse_loss(torch.sigmoid(x), x)
"""


def has_torch():
    if not harness.has_module(PYTHON, 'torch'):
        raise Skip('python3-torch is not installed')


def torch_python():
    found = subprocess.run([PYTHON, '-c', 'import torch, glob, os; print(*glob.glob("/usr/lib/*/libtorch_python.so*"), '
                            '*glob.glob(os.path.dirname(torch.__file__) + "/lib/libtorch_python.so*"))'],
                           capture_output=True, text=True, timeout=60).stdout.split()  # fmt: skip
    if not found:
        raise Skip('there is no libtorch_python.so')
    return os.path.realpath(found[0])


@case('PyTorch: operators of the real library, which is stripped', timeout=150)
def torch(t):
    has_torch()
    s = Sampler(t, 'sampler_torch.py', torch_python(), first='}')
    proc = subprocess.Popen([PYTHON, '-c', TORCH], env=t.env)
    t.equal('exit status of PyTorch', proc.wait(timeout=100), 0)
    s.wait("'TorchMSELoss'")
    lines = s.text().count('\n')
    wait_until(lambda: s.text().count('\n') >= lines + 2, 30, 'two windows more')
    s.finish()
    events = [e for e in load(t, 'torch.json') if e['pid'] == proc.pid]
    balanced(t, events)
    counts = collections.Counter(e['name'] for e in events if e['ph'] == 'B')
    for name in ('TorchReLU', 'TorchAdd', 'TorchSigmoid', 'TorchMSELoss'):
        t.equal(name, counts[name], 7)
    t.equal('categories', {e['cat'] for e in events}, {'torch'})


@case('PyTorch: methods of a library that has its symbols', timeout=90)
def torch_symbols(t):
    name = '_ZN5torch8autogradL15THPVariable_addEP7_objectS2_S2_'
    with open(t.path('methods.c'), 'w') as f:
        f.write('static __attribute__((noinline, used)) void *%s(void *a, void *b, void *c)\n'
                '{ __asm__ volatile("" ::: "memory"); return a; }\n'
                'void call_it(int n) { while (n--) %s(0, 0, 0); }\n' % (name, name))  # fmt: skip
    library = t.path('libtorch_python.so')
    subprocess.run(['cc', '-O1', '-shared', '-fPIC', '-o', library, t.path('methods.c')], check=True)
    s = Sampler(t, 'sampler_torch.py', library, first='}')
    proc = subprocess.Popen([sys.executable, '-c', f'import ctypes; ctypes.CDLL({library!r}).call_it(13)'])
    t.equal('exit status of the program', proc.wait(timeout=30), 0)
    s.wait("'TorchAdd': ")
    s.proc.send_signal(signal.SIGINT)
    t.equal('exit status', s.proc.wait(timeout=30), 0)
    # The other 23 are not there, and looked for as operators.
    events = [e for e in load(t, 'torch.json') if e['pid'] == proc.pid]
    t.equal('events', collections.Counter((e['name'], e['ph']) for e in events), {('TorchAdd', 'B'): 13, ('TorchAdd', 'E'): 13})


@case('GPUs: all values, and those that are not there are null', timeout=90)
def gpus(t):
    for board, fan in (('a100', True), ('h200', False)):
        env = {'LD_LIBRARY_PATH': harness.fake, 'FAKE_NVML': f'gpus=2,board={board}'}
        package_help.run(t, [sys.executable, os.path.join(EXAMPLES, 'sampler_gpu.py'), '1'], **env)
        rows = json.load(open('gpu.json', encoding='utf-8'))
        t.true(f'{board}: rows', len(rows) >= 2 and {r['gpu'] for r in rows} == {0, 1}, rows)
        t.equal(f'{board}: keys', list(rows[0]), ['ts', 'gpu', 'gpu_utl', 'totMem', 'usedMem', 'encode_utl', 'decode_utl', 'temperature',
                                                  'fan_utl', 'usedPower', 'totPower'])  # fmt: skip
        missing = {key for r in rows for key in r if r[key] is None}
        t.equal(f'{board}: not there', missing, set() if fan else {'fan_utl'})
        t.true('a sane row', all(0 <= r['gpu_utl'] <= 100 and r['usedMem'] <= r['totMem'] for r in rows), rows)


@case('processes on GPUs: name, processor, use', timeout=90)
def nvml(t):
    sleeper = subprocess.Popen(['sleep', '300'])
    text = textwrap.dedent("""
        from gpuscope.eacgm.sampler import NVMLSampler
        s = NVMLSampler()
        s.run()
        for x in s.sample(time_stamp=0.2):
            print(x.task, x.pid, x.cpu, x.gpu, x.message)
            assert 0 <= x.sm <= 100 and 0 <= x.mem <= 100 and x.enc is not None and x.dec is not None, x
            assert abs(x.timestamp / 1e6 - __import__('time').time()) < 60
            print(x)
        s.close()
    """)
    env = {'LD_LIBRARY_PATH': harness.fake, 'FAKE_NVML': f'gpus=1,pids={sleeper.pid}'}
    done = package_help.script(t, text, **env)
    t.match('a process', rf"^sleep {sleeper.pid} \d+ 0 \['compute', '{1 << 30}', 'sleep 300'\]\nNVMLSamplerState 0 \d+ \d+ ", done.stdout)
    package_help.run(t, [sys.executable, os.path.join(EXAMPLES, 'sampler_nvml.py'), '1'], **env)
    rows = json.load(open('nvml.json', encoding='utf-8'))
    t.equal('keys of the example', list(rows[0]), ['ts', 'pid', 'gpu', 'gpu_utl', 'mem', 'encode_utl', 'decode_utl'])


@case('without a GPU both samplers say so and have no samples', needs=None)
def no_gpu(t):
    text = ('from gpuscope.eacgm.sampler import *\nfor kind in (GPUSampler, NVMLSampler):\n'
            ' s = kind(); print(s.deviceCount, s.sample(time_stamp=1)); s.close()')  # fmt: skip
    done = package_help.script(t, text, LD_LIBRARY_PATH=harness.fake, FAKE_NVML='init=9')
    t.equal('samples', done.stdout, '0 []\n0 []\n')
    t.match('why', r'(?m)^GPUSampler: .+\nNVMLSampler: .+$', done.stderr)


@case('all at once: calls, GPUs and what programs left, in one file', timeout=120)
def everything(t):
    os.makedirs('res')
    with open('res/python_1.json', 'w') as f:
        json.dump([{'name': 'forward', 'ph': 'B', 'ts': 1, 'pid': 1, 'tid': 1}], f)
    libraries = [own_library(t, name) for name in ('libcudart.so.13', 'libnccl.so.2')]
    s = Sampler(t, 'sampler_eacg.py', '0', *libraries, LD_LIBRARY_PATH=harness.fake, FAKE_NVML='gpus=2')
    said = run_app(t, 'cudaLaunchKernel=11', 'ncclCommInitRank=1', 'ncclAllReduce=5')
    s.wait("'end', 'ncclAllReduce'")
    s.finish()
    events = load(t, 'res/ebpf.json')
    balanced(t, events)
    pid = said['pid']
    t.equal('launches, collectives', (len(starts(events, 'cudaLaunchKernel', pid)), len(starts(events, 'ncclAllReduce', pid))), (11, 5))
    t.true('counters of GPUs', {'GPU 0 utilization %', 'GPU 1 power watts'} <= {e['name'] for e in events if e['ph'] == 'C'})
    t.equal('the last of all', load(t, 'res/eacg.json')[-1]['name'], 'forward')
    for kind in ('NVMLSamplerState', 'GPUSamplerState', 'eBPFSamplerState'):
        t.true(kind, kind in s.text())


@case('files, functions and symbols that are not there are reported, and the rest is traced', timeout=90)
def partly(t):
    text = textwrap.dedent("""
        import subprocess, sys
        from gpuscope.eacgm.bpf import BccBPF
        from gpuscope.eacgm.sampler import eBPFSampler
        text = ''
        for f in ('cudaMalloc', 'cudaFree'):
            text += 'int %sEntry(struct pt_regs *ctx) { bpf_trace_printk("%%ld@start@%s\\\\n", bpf_ktime_get_ns()); return 0; }' % (f, f)
        text += 'int cudaMallocExit(struct pt_regs *ctx) { bpf_trace_printk("%ld@end@cudaMalloc@%d\\\\n", bpf_ktime_get_ns(), PT_REGS_RC(ctx)); return 0; }'
        s = eBPFSampler(BccBPF('Mine', text))
        s.run([{'name': 'Mine', 'exe_path': ['/no/file', sys.argv[1]], 'exe_sym': ['cudaMalloc', 'noSuchThing', 'cudaMemset', 'cudaFree']}])
        p = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
        assert p.wait() == 0
        states = s.sample(time_stamp=0.5)
        s.close()
        print([x.message for x in states if x.pid == p.pid])
    """)
    done = package_help.script(t, text, os.path.join(harness.fake, 'libcudart.so.13'), *t.app('cudaMalloc=1', 'cudaFree=1', 'cudaMalloc:bad=1'))
    t.match('no file', r'(?m)^Mine: cannot attach to cudaMalloc: there is no file /no/file$', done.stderr)
    t.match('no function of the text', '(?m)^Mine: the text of Mine has no function cudaMemsetEntry$', done.stderr)
    t.match('no symbol', '(?m)^Mine: the text of Mine has no function noSuchThingEntry$', done.stderr)
    # Of cudaFree the text has an entry alone: its probe stays.
    t.equal('states', done.stdout.strip(), str([['start', 'cudaMalloc'], ['end', 'cudaMalloc', '0'], ['start', 'cudaFree'],
                                                ['start', 'cudaMalloc'], ['end', 'cudaMalloc', '2']]))  # fmt: skip


@case('calls inside calls of the same function are paired rightly', timeout=90)
def nested(t):
    text = textwrap.dedent("""
        import json, subprocess, sys
        from gpuscope.eacgm.bpf import BccBPF
        from gpuscope.eacgm.collector import to_perfetto
        from gpuscope.eacgm.sampler import eBPFSampler
        f = 'PyObject_CallFunction'
        text = ''.join('int %s%s(struct pt_regs *ctx) { u64 t = bpf_ktime_get_ns(); bpf_trace_printk("%%ld@%s@%s\\\\n", t); return 0; }'
                       % (f, name, phase, f) for name, phase in (('Entry', 'start'), ('Exit', 'end')))
        s = eBPFSampler(BccBPF('Nested', text))
        s.run([{'name': 'x', 'exe_path': [sys.argv[1]], 'exe_sym': [f]}])
        p = subprocess.Popen(sys.argv[1:])
        p.wait()
        states = [x for x in s.sample(time_stamp=1) if x.pid == p.pid]
        s.close()
        print(json.dumps([len(states), to_perfetto(states)]))
    """)
    target = ('import ctypes; call = ctypes.pythonapi.PyObject_CallFunction; call.restype = ctypes.py_object\n'
              'def f():\n global n; n -= 1\n if n: call(ctypes.py_object(f), None)\n'
              'n = 6; call(ctypes.py_object(f), None)')  # fmt: skip
    done = package_help.script(t, text, os.path.realpath(PYTHON), '-I', '-S', '-c', target)
    n_states, events = json.loads(done.stdout)
    t.equal('every state has its pair', len(events), n_states)
    balanced(t, events)
    depth = deepest = 0
    for e in events:
        depth += 1 if e['ph'] == 'B' else -1
        deepest = max(deepest, depth)
    t.true('six within each other', deepest >= 6, deepest)
    # What was written is read again: as JSON, and as the lines of eACGM's text.
    with open(t.path('states.json'), 'w') as f:
        json.dump(events, f)
    with open(t.path('states.txt'), 'w') as f:
        f.writelines(f'{int(e["ts"] // 1_000_000)}.{int(e["ts"] % 1_000_000):06d} {e["tid"]} {e["ph"]} {e["name"]}\n' for e in events)
    for name in ('states.json', 'states.txt'):
        said = t.tool('report', t.path(name), '-o', t.path('states.gst'), status=0).err
        t.match(f'{name}: all of them', rf'{len(events) // 2} calls and 0 operations', said)
        t.true(f'{name}: each has its end', 'counterpart' not in said, said)
        calls = json.loads(t.tool('report', t.path('states.gst'), '--format=json', status=0).out)['python_functions']
        t.equal(f'{name}: functions', [(f['name'], f['calls']) for f in calls], [('PyObject_CallFunction', len(events) // 2)])
        if name.endswith('.json'):
            whole = sum((1 if e['ph'] == 'E' else -1) * e['ts'] for e in events) * 1000
            t.true('their time', abs(calls[0]['total_ns'] - whole) <= 300 * len(events), (calls[0]['total_ns'], whole))


@case('without rights one line says what to do', needs=None)
def no_rights(t):
    text = textwrap.dedent("""
        import os, sys
        os.setgid(65534); os.setuid(65534)
        import gpuscope
        try:
            gpuscope.trace(['true'])
        except PermissionError as e:
            print(type(e).__name__, e)
    """)
    if os.geteuid() != 0:
        raise Skip('needs root to be another user')
    done = package_help.script(t, text)
    t.match('what is raised', r'^PermissionDenied .*(root|CAP_BPF).*\n$', done.stdout)


main()
