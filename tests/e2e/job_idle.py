#!/usr/bin/env python3
"""Jobs that wait for sockets: who looks now and then and gets nothing is idle, who gets answers is Network-bound."""

import json
import subprocess
import sys
import time

from harness import case, main

# Looks at its sockets a hundred times a second, and nothing comes.
LOOKS = '''
import select, socket, struct, threading
a = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(a.getsockname()); s, _ = a.accept()
def look(wait):
    while True:
        try: wait()
        except BlockingIOError: pass
e = select.epoll(); e.register(s, select.EPOLLIN)
p = select.poll(); p.register(s, select.POLLIN)
for wait in (lambda: select.select([s], [], [], 0.01), lambda: e.poll(0.01), lambda: p.poll(10)):
    threading.Thread(target=look, args=(wait,)).start()
'''
# The same by the timeout of the socket itself, which is not seen from outside.
LOOKS_BY_ITSELF = LOOKS + '''
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 10000))
threading.Thread(target=look, args=(lambda: s.recv(100),)).start()
'''
# Gives its peer time to answer, as clients do, and gets an answer.
ASKS = '''
import os, select, socket, time
a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen()
if os.fork() == 0:
    c = socket.create_connection(a.getsockname())
    p = select.poll(); p.register(c, select.POLLIN)
    while True:
        c.sendall(b"x" * 1000); p.poll(5000); c.recv(1000)
s, _ = a.accept()
while True:
    x = s.recv(1000); time.sleep(0.02); s.sendall(x)
'''
OFF = 'ebpf:\n  enabled: false\n'


def class_of(t, program, config):
    path = t.path('job.yaml')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(config)
    proc = subprocess.Popen([sys.executable, '-c', program], start_new_session=True)
    try:
        time.sleep(1)
        return json.loads(t.tool('job', '-p', str(proc.pid), '-d', '3', '--json', '-c', path, status=0).out)['jobs'][0]['classification']
    finally:
        subprocess.run(['kill', '-KILL', '--', f'-{proc.pid}'], check=False)
        proc.wait()


def each_way(title):
    def add(function):
        case(f'{title} (probes)')(lambda t: function(t, '{}\n'))
        case(f'{title} (procfs)', needs=None)(lambda t: function(t, OFF))
        return function

    return add


@each_way('a server that looks at its sockets a hundred times a second without data: Idle, not Network-bound')
def looking(t, config):
    for program in (LOOKS, LOOKS_BY_ITSELF) if config != OFF else (LOOKS,):
        found = class_of(t, program, config)
        t.true('Idle', found['type'].startswith('Idle'), found)


@each_way('a client that polls with a timeout for the answer of its peer: Network-bound')
def asking(t, config):
    found = class_of(t, ASKS, config)
    t.equal('class', found['type'], 'Network-bound')


if __name__ == '__main__':
    main()
