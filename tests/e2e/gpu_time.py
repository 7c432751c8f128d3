#!/usr/bin/env python3
"""GPU time of running processes by PyTorch's own profiler (--gpu-time), to the unit: a stand-in speaks its protocol."""

import json
import os
import select
import signal
import socket
import subprocess
import sys

import harness
from harness import case, main, wait_until

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'fake', 'kineto_client.py')


class Job:
    def __init__(self, t, *options, user=None):
        self.proc = subprocess.Popen([sys.executable, CLIENT, os.path.join(harness.fake, 'libcudart.so.13'), *options], stdout=subprocess.PIPE, text=True, user=user)  # fmt: skip
        assert self.proc.stdout.readline() == 'ready\n'
        self.pid = self.proc.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()

    def recorded(self):
        """It has written a trace: what it says of that."""
        ready, _, _ = select.select([self.proc.stdout], [], [], harness.PATIENCE)
        assert ready, 'no trace'
        return self.proc.stdout.readline()


def trace(t, job, *options):
    """Until its profiler has recorded."""
    live = t.start_trace('-p', str(job.pid), '--gpu-time=300ms', *options)
    live.wait_err(f"process {job.pid}: PyTorch's profiler has recorded")
    live.interrupt()
    return live.finish()


def trace_for(t, job, seconds):
    return t.trace('-p', str(job.pid), '--gpu-time=300ms', '--duration', f'{seconds}s')


def left_over(user=0):
    return [n for n in os.listdir('/tmp') if n.startswith('gpuscope-kineto-') and os.stat(f'/tmp/{n}').st_uid == user]


@case('kernels of a running process, with the times that its profiler has', alone='kineto')
def kernels(t):
    with Job(t) as job:
        path = t.path('run.json')
        run = trace(t, job, '-o', path)
        t.equal('its word', job.recorded(), 'recorded True\n')
    g = run.summary['gpu_time']
    t.equal('kernels', {k['name']: (k['runs'], k['total_ns']) for k in g['kernels']},
            {f'kernel_{j}(float*, int)': (100, sum(1000 + i for i in range(j, 300, 3))) for j in range(3)})  # fmt: skip
    d = g['devices'][0]
    t.equal('copies', [d['kernels'], d['copies'], d['copied_bytes']], [300, 1, 4096])
    t.equal('windows', [g['windows'], g['refusal'], g['left_out']], [1, None, 0])
    t.true('launches by probes', run.calls('cudaLaunchKernel') > 10, run.summary)
    with open(path, encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    ours = [e['ts'] for e in events if e['ph'] == 'X' and e['name'] == 'cudaLaunchKernel']
    theirs = [e['ts'] for e in events if e['ph'] == 'X' and e['name'].startswith('kernel_')]
    t.true('on one clock', len(theirs) == 300 and min(ours) < max(theirs) and min(theirs) < max(ours), (min(ours), max(ours), min(theirs), max(theirs)))
    t.equal('nothing left', left_over(), [])


@case('a trace that is written bit by bit, by another user, in a network namespace of its own', alone='kineto')
def elsewhere(t):
    with Job(t, 'write=slow', 'namespace=1') as job:
        t.equal('runs', trace(t, job).summary['gpu_time']['devices'][0]['kernels'], 300)
    with Job(t, user='games') as job:
        t.equal('runs', trace(t, job).summary['gpu_time']['devices'][0]['kernels'], 300)
    t.equal('nothing left', left_over() + left_over(5), [])


@case('what does not come is said, and the trace is whole without it', alone='kineto')
def without(t):
    with Job(t, 'write=bad') as job:
        run = trace_for(t, job, 2)
        t.match('no trace', "--gpu-time: process %d: cannot read its profiler's trace: it is neither" % job.pid, run.err)
        t.true('calls', run.calls('cudaLaunchKernel') > 10, run.summary)
    with Job(t, 'write=never') as job:
        t.match('nothing written', 'accepted the request but wrote no trace', trace_for(t, job, 1).err)
    other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.bind('\0dynolog\0')
    with other, Job(t) as job:
        t.match('another daemon', 'another daemon', trace_for(t, job, 1).err)
    sleeper = subprocess.Popen(['sleep', '1000'])
    try:
        run = t.tool('trace', '-p', str(sleeper.pid), '--gpu-time', '--duration', '1s', status=None)
        t.match('does not ask', r'no PyTorch profiler of process %d connected .*KINETO_USE_DAEMON=1' % sleeper.pid, run.err)
    finally:
        sleeper.kill()
        sleeper.wait()
    t.equal('nothing left', left_over(), [])


@case('others who ask get no order, whatever they send', alone='kineto')
def strangers(t):
    with Job(t, 'kernels=5') as job:
        live = t.start_trace('-p', str(job.pid), '--gpu-time=3s')
        fd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        fd.bind(f'\0stranger{os.getpid()}')
        head = (16).to_bytes(8, 'little') + b'req'.ljust(32, b'\0')

        def asked():
            """As the job, by its number: the kernel knows better."""
            try:
                fd.sendto(head + b'\3\0\0\0\1\0\0\0' + bytes(8), '\0dynolog\0')
                return True
            except ConnectionRefusedError:
                return False

        wait_until(asked, harness.PATIENCE, 'the daemon')
        fd.settimeout(harness.PATIENCE)
        t.equal('no', fd.recv(4096), bytes(8) + b'req'.ljust(32, b'\0'))
        for junk in (b'', b'x', head, bytes(40), b'\xff' * 4000, b'\xff' * 20000, head[:8] + b'ctxt'.ljust(32, b'\0')):
            fd.sendto(junk, '\0dynolog\0')
        live.wait_err(f"process {job.pid}: PyTorch's profiler has recorded")
        live.interrupt()
        run = live.finish()
        t.equal('the job', run.summary['gpu_time']['devices'][0]['kernels'], 5)
        fd.close()


@case('an order that cannot be delivered is given to who asks next', alone='kineto')
def lost(t):
    with Job(t, 'kernels=5', 'lose=1') as job:
        run = trace(t, job)
        t.equal('its kernels', run.summary['gpu_time']['devices'][0]['kernels'], 5)


@case('options that cannot be get one line', needs=None)
def options(t):
    for args, words in ((['--gpu-time', '--', 'true'], 'give -p PID'), (['--gpu-time=1ms', '-p', '1'], '100ms to 60s')):
        t.match('said', words, t.tool('trace', *args, status=2).err)


main()
