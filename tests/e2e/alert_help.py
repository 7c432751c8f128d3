"""Receivers of alerts on the loopback: an HTTP server (with TLS if wanted) and a mail server that speaks SMTP."""

import base64
import email
import email.policy
import http.server
import json
import socket
import ssl
import subprocess
import threading

from harness import wait_until


def certificate(t, name='server'):
    """A certificate for 127.0.0.1, signed by itself; paths of certificate and key."""
    cert, key = t.path(name + '.pem'), t.path(name + '.key')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1',
                    '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert], check=True,
                   capture_output=True)  # fmt: skip
    return cert, key


def server_context(pair):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(*pair)
    return c


class Webhook:
    """Collects what is posted. answer: the status; hold: an Event for which each answer waits."""

    def __init__(self, port=0, tls=None, answer=200, hold=None):
        self.got, self.heads, self.paths, self.answer, self.hold = [], [], [], answer, hold
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                if outer.hold:
                    outer.hold.wait()
                outer.heads.append(dict(self.headers))
                outer.paths.append(self.path)
                outer.got.append(json.loads(body))
                self.send_response(outer.answer)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a client that does not trust us is a case, not a fault
                pass

        self.server = Server(('127.0.0.1', port), Handler)
        if tls:
            self.server.socket = server_context(tls).wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f'http{"s" if tls else ""}://127.0.0.1:{self.port}/hook'
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def wait(self, n, seconds=30):
        wait_until(lambda: len(self.got) >= n, seconds, f'{n} messages, now {len(self.got)}')

    def told(self):
        return [(m['status'], m['rule'], m['subject']['id']) for m in self.got]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Mail:
    """A mail server: STARTTLS with tls, AUTH PLAIN and LOGIN with users {name: password}."""

    def __init__(self, tls=None, users=None):
        self.tls, self.users, self.got, self.refused = tls, users, [], 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            Session(self, c).run()
        except (OSError, ValueError):
            pass
        finally:
            c.close()

    def wait(self, n, seconds=30):
        wait_until(lambda: len(self.got) >= n, seconds, f'{n} mails, now {len(self.got)}')


class Session:
    """One connection (RFC 5321, 3207, 4954)."""

    def __init__(self, mail, c):
        self.mail, self.c, self.file = mail, c, c.makefile('rb')
        self.encrypted = self.known = False
        self.sender, self.to = None, []

    def say(self, text):
        self.c.sendall(text.encode() + b'\r\n')

    def line(self):
        line = self.file.readline()
        if not line.endswith(b'\r\n'):
            raise ValueError('a line that does not end in CR LF')
        return line[:-2].decode()

    def run(self):
        self.say('220 test ESMTP')
        while True:
            line = self.line()
            verb, _, rest = line.partition(' ')
            if verb.upper() == 'QUIT':
                self.say('221 bye')
                return
            getattr(self, 'do_' + verb.lower(), self.unknown)(rest)

    def unknown(self, _):
        self.say('500 what')

    def do_ehlo(self, rest):
        self.helo = rest
        more = ['STARTTLS'] if self.mail.tls and not self.encrypted else []
        more += ['AUTH PLAIN LOGIN'] if self.mail.users and (self.encrypted or not self.mail.tls) else []
        words = ['test', *more, '8BITMIME']
        for w in words[:-1]:
            self.say('250-' + w)
        self.say('250 ' + words[-1])

    def do_starttls(self, _):
        self.say('220 go')
        self.c = server_context(self.mail.tls).wrap_socket(self.c, server_side=True)
        self.file, self.encrypted = self.c.makefile('rb'), True

    def do_auth(self, rest):
        how, _, first = rest.partition(' ')
        if how.upper() == 'PLAIN':
            if not first:
                self.say('334 ')
                first = self.line()
            _, name, password = base64.b64decode(first).decode().split('\0')
        else:
            self.say('334 ' + base64.b64encode(b'Username:').decode())
            name = base64.b64decode(self.line()).decode()
            self.say('334 ' + base64.b64encode(b'Password:').decode())
            password = base64.b64decode(self.line()).decode()
        self.known = self.mail.users.get(name) == password
        self.mail.refused += not self.known
        self.say('235 welcome' if self.known else '535 no')

    def do_mail(self, rest):
        if self.mail.users and not self.known:
            self.say('530 who are you')
            return
        self.sender, self.to = rest.split('<')[1].split('>')[0], []
        self.say('250 ok')

    def do_rcpt(self, rest):
        self.to.append(rest.split('<')[1].split('>')[0])
        self.say('250 ok')

    def do_data(self, _):
        self.say('354 go')
        lines = []
        while (line := self.line()) != '.':
            lines.append(line[1:] if line.startswith('.') else line)
        m = email.message_from_string('\r\n'.join(lines) + '\r\n', policy=email.policy.default)
        self.mail.got.append({'from': self.sender, 'to': self.to, 'mail': m, 'encrypted': self.encrypted,
                              'text': m.get_content(), 'defects': m.defects, 'helo': self.helo})  # fmt: skip
        self.say('250 taken')
