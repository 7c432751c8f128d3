"""Whom a head believes: users of its machine by the kernel's word, nodes by their tokens and certificates."""

import grp
import json
import os
import pwd
import subprocess
import urllib.error
import urllib.request

import harness
from cluster_help import Head
from harness import Live, Skip, case, main


def run_as(user, *words, env=None):
    """gpuscope as another user; its status, and what it says."""
    who = pwd.getpwnam(user)
    done = subprocess.run([harness.gpuscope, *words], capture_output=True, text=True, timeout=60, cwd='/', user=who.pw_uid, group=who.pw_gid,
                          extra_groups=[], env={'PATH': os.environ['PATH'], **(env or {})})  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def needs_users():
    if os.geteuid() != 0:
        raise Skip('needs root: commands of several users')
    if run_as('nobody', '--version')[0] != 0:
        raise Skip(f'{harness.gpuscope} cannot be run by others')


def post(address, path, body):
    r = urllib.request.Request(f'http://{address}{path}', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    try:
        return urllib.request.urlopen(r, timeout=20).status
    except urllib.error.HTTPError as e:
        return e.code


@case('without tokens only root and the user of a head control it, others read', timeout=60, needs=None)
def control(t):
    needs_users()
    h = Head(t, '--http-port', '18093')
    h.session('start', 'one')
    status, said = run_as('nobody', 'session', 'start', 'evil', '--head', h.address)
    t.equal('status of another user', status, 3)
    t.match('what to do', r'by root or by the user who runs the head .*--token-file, or --anonymous-control', said)
    t.match('others look', r'one +active', run_as('nobody', 'session', 'list', '--head', h.address)[1])
    for words in (('stop', 'one'), ('delete', 'one'), ('set', '--enable-nvlink'), ('mark', 'x')):
        t.equal(' '.join(words), run_as('nobody', 'session', *words, '--head', h.address)[0], 3)
    socket = f'/run/gpuscope-head/head-{h.port}.sock'
    t.equal('the socket', oct(os.stat(socket).st_mode & 0o777), '0o600')
    t.match('is for its owner', 'Permission denied', run_as('nobody', 'session', 'stop', 'one', '--head', f'unix:{socket}')[1])
    t.equal('HTTP', post('127.0.0.1:18093', '/api/v1/sessions', {'name': 'evil'}), 403)
    t.equal("gswarm's HTTP", post('127.0.0.1:18093', '/profiling/start', {'name': 'evil'}), 403)
    # Over TCP root too is only an address: a token that the head does not ask for keeps us from its socket.
    with open(t.path('token'), 'w', encoding='utf-8', opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write('any-token\n')
    t.match('over TCP', 'without tokens', h.session('start', 'evil', '--token-file', t.path('token'), status=3).err)
    h.session('stop', 'one')
    t.equal('sessions', [s['name'] for s in json.loads(h.session('list', '--format', 'json').out)['sessions']], ['one'])
    h.stop()
    t.true('the socket goes with it', not os.path.exists(socket))


@case("a user's own head, and a group's", timeout=60, needs=None)
def owners(t):
    needs_users()
    os.chmod(t.tmp, 0o755)
    home = t.path('home')
    os.makedirs(home)
    who = pwd.getpwnam('nobody')
    os.chown(home, who.pw_uid, who.pw_gid)
    words = ['setpriv', f'--reuid={who.pw_uid}', f'--regid={who.pw_gid}', '--clear-groups', harness.gpuscope, 'head', '--listen', '127.0.0.1:0',
             '--http-port', '0']  # fmt: skip
    live = Live(t, lambda _: words, env=t.envs({'HOME': home, 'XDG_RUNTIME_DIR': ''}))
    live.wait_err(r'head on \S+', 60)
    address = live.err_text().split('head on ')[1].split(',')[0]
    t.equal('its user', run_as('nobody', 'session', 'start', 'own', '--head', address, env={'HOME': home})[0], 0)
    t.equal('another', run_as('daemon', 'session', 'stop', 'own', '--head', address, env={'HOME': '/'})[0], 3)
    path = f'{home}/.local/state/gpuscope/head-{address.split(":")[1]}.sock'
    t.equal('root', t.tool('session', 'stop', 'own', '--head', f'unix:{path}').status, 0)
    live.proc.kill()
    live.finish()

    conf, socket = t.path('head.yaml'), t.path('h.sock')
    with open(conf, 'w', encoding='utf-8') as f:
        f.write(f'nodes:\n  control_socket: "{socket}"\n  control_group: {grp.getgrgid(pwd.getpwnam("daemon").pw_gid).gr_name}\n')
    h = Head(t, '--config', conf)
    t.equal('of the group', run_as('daemon', 'session', 'start', 'ours', '--head', f'unix:{socket}')[0], 0)
    t.equal('not of it', run_as('nobody', 'session', 'stop', 'ours', '--head', f'unix:{socket}')[0], 1)
    h.kill()
    h.start()  # the socket that was left is no hindrance
    t.equal('again', run_as('daemon', 'session', 'stop', 'ours', '--head', f'unix:{socket}')[0], 0)
    h.stop()


if __name__ == '__main__':
    main()
