"""Certificates for the end-to-end tests, made by the openssl command."""

import shutil
import socket
import subprocess

from harness import Skip


def certificates(t):
    """A CA, a server's certificate, a client's, and a key of nobody."""
    if not shutil.which('openssl'):
        raise Skip('openssl is not installed')

    def openssl(*args):
        subprocess.run(['openssl', *args], check=True, capture_output=True, cwd=t.tmp)

    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2',
            '-subj', '/CN=test CA')  # fmt: skip
    with open(t.path('san'), 'w') as f:
        f.write(f'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:{socket.gethostname()}\n')  # nodes here are called so
    for name in ('server', 'client'):
        openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', f'{name}.key', '-out', f'{name}.csr', '-subj', f'/CN={name}')
        openssl('x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2',
                '-out', f'{name}.pem', '-extfile', 'san')  # fmt: skip
