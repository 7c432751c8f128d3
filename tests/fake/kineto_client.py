#!/usr/bin/env python3
"""A process that asks for orders as PyTorch's profiler does (libkineto/src/IpcFabricConfigClient.cpp), and launches kernels
by the stand-in for CUDA meanwhile.

usage: kineto_client.py LIBCUDART [KEY=VALUE...]
  write=tmp      how the trace is written: tmp (a file that gets its name at the end), slow (bit by bit), never, bad, or large
  kernels=N      in the trace
  namespace=1    in a network namespace of its own
  lose=1         it first asks by a socket that takes no answer
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time
import uuid

options = dict(word.split('=', 1) for word in sys.argv[2:])
cudart = ctypes.CDLL(sys.argv[1])
N = int(options.get('kernels', '300'))
BASE_NS = 1759000000000000000


def launch():
    cudart.cudaLaunchKernel(None, 1, 1, 1, 1, 1, 1, None, 0, None)
    time.sleep(0.02)


def trace(from_ns, to_ns, pid):
    """As output_json.cpp has it: kernel i runs 1000 + i ns, 2 us after its launch of 500 ns. Times of day less those of a base."""

    def us(ns):
        return (ns - BASE_NS) / 1000

    events = [{'ph': 'X', 'cat': 'Trace', 'name': 'PyTorch Profiler (0)', 'pid': 'Spans', 'tid': 'PyTorch Profiler', 'ts': us(from_ns), 'dur': us(to_ns) - us(from_ns)}]
    for i in range(N):
        at = from_ns + (to_ns - from_ns) * i // N
        events.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': pid, 'tid': pid, 'ts': us(at), 'dur': 0.5, 'args': {'correlation': i + 1}})
        events.append({'ph': 'X', 'cat': 'kernel', 'name': f'kernel_{i % 3}(float*, int)', 'pid': 0, 'tid': 7, 'ts': us(at + 2500), 'dur': (1000 + i) / 1000,
                       'args': {'device': 0, 'context': 1, 'stream': 7, 'correlation': i + 1}})  # fmt: skip
    events.append({'ph': 'X', 'cat': 'gpu_memcpy', 'name': 'Memcpy HtoD', 'pid': 0, 'tid': 7, 'ts': us(from_ns + 500000), 'dur': 3, 'args': {'device': 0, 'stream': 7, 'bytes': 4096}})
    events.append({'ph': 'i', 's': 'g', 'name': 'Record Window End', 'pid': '', 'tid': '', 'ts': us(to_ns)})
    return json.dumps({'schemaVersion': 1, 'deviceProperties': [], 'displayTimeUnit': 'ms', 'baseTimeNanoseconds': BASE_NS, 'traceEvents': events})


def record(order):
    """What an order is obeyed by, in the end: its path and what was written."""
    keys = dict(line.split('=', 1) for line in order.splitlines() if line)
    kinds = keys['ACTIVITY_TYPES'].split(',')
    assert set(kinds) <= {'kernel', 'gpu_memcpy', 'gpu_memset', 'cuda_runtime'}, kinds  # what PyTorch 2.0 knows
    path, how = keys['ACTIVITIES_LOG_FILE'], options.get('write', 'tmp')
    from_ns = time.time_ns()
    while time.time_ns() < from_ns + int(keys['ACTIVITIES_DURATION_MSECS']) * 1000000:
        launch()
    text = trace(from_ns, time.time_ns(), os.getpid())
    if how == 'never':
        return
    if how == 'bad':
        text = 'not a trace'
    if how == 'tmp':
        with open(path + '.tmp', 'w', encoding='utf-8') as f:
            f.write(text)
        os.rename(path + '.tmp', path)
        return
    with open(path.replace('.json', f'_{os.getpid()}.json'), 'w', encoding='utf-8') as f:
        for at in range(0, len(text), 1 + len(text) // 5):
            f.write(text[at : at + 1 + len(text) // 5])
            f.flush()
            time.sleep(0.25)


def ask(fd, kind, payload):
    fd.sendto(struct.pack('<Q32s', len(payload), kind) + payload, '\0dynolog\0')
    deadline = time.monotonic() + 0.05  # as long as the profiler waits
    while time.monotonic() < deadline:
        try:
            answer = fd.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            time.sleep(0.001)
            continue
        n, name = struct.unpack_from('<Q32s', answer)
        assert n == len(answer) - 40, answer
        if name.rstrip(b'\0') == kind:  # not one to the question before, which came late
            return answer[40:]
    return b''


def ask_in_vain():
    """By a socket whose queue is full, so that no answer can be delivered."""
    fd, name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), f'\0dynoconfigclient{uuid.uuid4()}\0'
    fd.bind(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as other:
        try:
            while True:
                other.sendto(b'full', name)
        except BlockingIOError:
            pass
    payload = struct.pack('<iiqi', 3, 1, 0, os.getpid())
    fd.sendto(struct.pack('<Q32s', len(payload), b'req') + payload, '\0dynolog\0')
    return fd


def main():
    if options.get('namespace'):
        assert ctypes.CDLL(None).unshare(0x40000000) == 0  # CLONE_NEWNET
    fd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    fd.bind(f'\0dynoconfigclient{uuid.uuid4()}\0')
    print('ready', flush=True)
    ctxt = False
    while True:
        launch()
        try:
            if 'lose' in options:
                options['full'] = ask_in_vain()
                del options['lose']
            ctxt = ctxt or ask(fd, b'ctxt', struct.pack('<iiq', 0, os.getpid(), 0)) == struct.pack('<i', 1)
            order = ask(fd, b'req', struct.pack('<iiqi', 3, 1, 0, os.getpid())).decode()
        except ConnectionRefusedError:
            continue
        if order:
            record(order)
            print('recorded', ctxt, flush=True)


main()
