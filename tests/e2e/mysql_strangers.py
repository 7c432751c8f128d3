#!/usr/bin/env python3
"""Servers that do not speak as MySQL and MariaDB do, in the place of the agent's database."""

import os
import random
import socketserver
import threading

from agent_help import Agent, config_text
from harness import case, main, wait_until
from mysql_help import WAITING, need_library


class Stranger(socketserver.ThreadingTCPServer):
    """Takes connections, sends what it is given, and nothing else; `asked`: connections."""

    daemon_threads = True

    def __init__(self, words):
        stranger, self.asked = self, 0

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                stranger.asked += 1
                try:
                    self.request.sendall(words)
                    while self.request.recv(4096):
                        pass
                except OSError:
                    pass

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@case('servers that are no database: one line, samples wait, and the agent goes on and ends', timeout=60, needs=None)
def strangers(t):
    need_library()
    secret = t.path('password')
    with open(secret, 'w') as f:
        f.write('x\n')
    os.chmod(secret, 0o600)
    rng = random.Random(5)
    # Noise, a greeting that is too long, and a server that says nothing: that one is waited for.
    for i, words in enumerate((rng.randbytes(3000), b'\xff\xff\xff\x00' + b'\x0a' * 70000, b'')):
        server = Stranger(words)
        text = f'mysql: {{server: "127.0.0.1:{server.server_address[1]}", password_file: {secret}, interval: 100ms, spool: {t.path(str(i))}}}\n'
        a = Agent(t, config_text(more=text + 'sampling:\n  interval: 100ms\n'), what='gpus=1')
        wait_until(lambda s=server: s.asked, 60, 'a connection')
        if words:
            a.wait_err('does not accept samples: ', 60)
        a.wait_metric(WAITING, lambda v: v and v >= 3, 60)
        t.true('no process died of it', a.metrics()['gpuscope_agent_senders_lost_total{reason="died"}'] == 0)
        a.stop()
        server.shutdown()


if __name__ == '__main__':
    main()
