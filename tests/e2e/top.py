"""`gpuscope top` on a real terminal (tmux) with the stand-in library: what is on the screen, what keys
do, and that a recording shows what was seen."""

import json
import os
import pwd
import re
import signal
import subprocess
import time

import harness
from harness import Skip, case, main, wait_until
from top_help import Screen, nvml, sleeper


def with_pids(*procs, gpus=2, more=''):
    return {'FAKE_NVML': f'gpus={gpus},pids=' + ':'.join(str(p.pid) for p in procs) + more}


@case('the screen: machine, GPUs, processes; every size', needs=None)
def shows(t):
    a, b = sleeper(t), sleeper(t)
    s = Screen(t, env=with_pids(a, b))
    text = s.wait(rf'{b.pid} .*sleep 300')
    t.match('machine', r'CPU\[.*Mem\[.*load', text)
    t.match('GPU 0', r' 0 H100', text)
    t.match('GPU 1', r' 1 H100', text)
    t.match('process on its GPU', rf'(?m)^ +0 +{a.pid} ', text)
    t.match('process on its GPU', rf'(?m)^ +1 +{b.pid} ', text)
    t.match('keys', r'F1 Help', text)
    t.true('24 lines', len(text.splitlines()) == 24)
    s.wait('[\u2800-\u28ff]')  # graphs
    for columns, rows in ((200, 50), (20, 5), (1, 1), (3, 2), (132, 12)):
        s.resize(columns, rows)
        wait_until(lambda: len(s.text().splitlines()) == rows, 20, f'{rows} lines')
        time.sleep(0.5)
        lines = s.text().splitlines()
        t.true(f'{columns}x{rows}', len(lines) == rows and all(len(x) <= columns for x in lines), lines)
    s.resize(80, 24)
    s.wait(rf'{a.pid} .*sleep')
    s.keys('F1')
    s.wait('gpuscope top: keys')
    s.keys('x')
    s.wait('F1 Help')
    s.keys('q')
    s.wait('ended with 0')
    s.close()


@case('ASCII: by option, and where the locale is not UTF-8', needs=None)
def ascii_only(t):
    a = sleeper(t)
    for args, env in ((['--ascii'], {}), ([], {'LC_ALL': 'C', 'LANG': 'C'})):
        s = Screen(t, *args, env={**with_pids(a), **env})
        text = s.wait(rf'{a.pid} ')
        s.keys('t')
        time.sleep(0.5)
        for c in s.text() + text:
            t.true('ASCII', ord(c) < 128, repr(c))
        s.close()


@case('sort, filter, only mine, tree, one process', needs=None)
def looks(t):
    a, b = sleeper(t), sleeper(t)
    s = Screen(t, env={**with_pids(a, b), 'CUDA_VISIBLE_DEVICES': '7', 'SECRET_TOKEN': 'xyzzy'})
    s.wait(rf'(?s){a.pid} .*{b.pid} ')
    s.keys('P', 'P')
    s.wait(rf'(?s){b.pid} .*{a.pid} ')
    s.keys('/', *str(a.pid), 'Enter')
    s.wait(rf'{b.pid} ', absent=True)
    s.wait('filter: ')
    s.keys('Escape')
    s.wait(rf'{b.pid} ')
    s.keys('t')
    s.wait('\u2514\u2500|\u251c\u2500')
    s.keys('t', '/', *str(a.pid), 'Enter', 'Enter')
    text = s.wait(f'Process {a.pid}')
    t.match('its GPU', r'H100 80GB', text)
    t.match('its command', r'command +sleep 300', text)
    s.keys('Escape', 'Escape', 'a')
    s.wait('all processes')
    s.keys('/', *'/sleep', 'Escape', 'q')
    s.wait('ended with 0')
    s.close()


@case('all of a process: where the time of its threads went, while it is shown')
def account(t):
    a = sleeper(t)
    s = Screen(t, env=with_pids(a), rows=40)
    s.wait(rf'{a.pid} .*sleep 300')
    s.keys('Enter')
    text = s.wait(r'wall time +\S+ of all its threads:')
    t.match('it sleeps', r'(?m)^ +\d+\.\d%  asleep', text)
    s.keys('Escape')
    s.wait('F1 Help')
    s.keys('q')
    s.wait('ended with 0')
    s.close()


# A server and its client in one: asks only when it is told to.
ASKING = '''
import socket, sys, threading
listener = socket.create_server(('127.0.0.1', 0))
def serve(c):
    while c.recv(100):
        c.sendall(b'y' * 5000)
client = socket.create_connection(listener.getsockname())
threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
print(listener.getsockname()[1], flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        client.sendall(b'x' * 100)
        n = 0
        while n < 5000:
            n += len(client.recv(10000))
    print('done', flush=True)
'''


def programs_of(pid):
    """Of the kernel, that the process holds."""
    found = []
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            found += [fd] if 'bpf-prog' in os.readlink(f'/proc/{pid}/fd/{fd}') else []
        except OSError:
            pass
    return found


@case('all of a process: its TCP by peer, while it is shown', timeout=60)
def peers(t):
    p = subprocess.Popen(['/usr/bin/python3', '-c', ASKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=t.env)
    port = int(p.stdout.readline())

    def ask(n):
        p.stdin.write(f'{n}\n')
        p.stdin.flush()
        p.stdout.readline()

    ask(5)  # before anybody looks
    s = Screen(t, '-a', '-p', str(p.pid), columns=130, rows=40)
    s.wait(rf'(?m)^ *{p.pid} ')
    pane = s.tmux('display-message', '-p', '-t', 'a', '#{pane_pid}').strip()
    (top,) = harness.read_text(f'/proc/{pane}/task/{pane}/children').split()
    t.equal('nothing is loaded for it before', programs_of(top), [])
    s.keys('Enter')
    s.wait(rf'to 127.0.0.1:{port} +in +0 +out +0 +0 requests, 1 open')
    ask(20)
    # Both ends of the connection are its own.
    text = s.wait(rf'to 127.0.0.1:{port} +in 97.7K +out +\S+K +20 requests, half in')
    t.match('the server', rf'from 127.0.0.1 to port {port} +in +\S+K +out 97.7K +20 requests', text)
    t.true('loaded meanwhile', programs_of(top))
    s.keys('Escape')
    wait_until(lambda: not programs_of(top), 20, 'nothing is loaded any more')
    s.keys('Enter')
    s.wait(rf'to 127.0.0.1:{port} +in +0 +out +0 +0 requests')  # it begins at zero
    s.keys('q')
    s.wait('F1 Help')
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    p.kill()
    p.wait()


@case('the environment: what is of GPUs and jobs, nothing else', needs=None, beside='jobs')
def environment(t):
    a = subprocess.Popen(['sleep', '300'], env={**t.env, 'CUDA_VISIBLE_DEVICES': '3,5', 'SLURM_JOB_ID': '4711',
                                                'SLURM_JWT': 'eyJ', 'MY_SECRET': 'xyzzy'})  # fmt: skip
    s = Screen(t, env=with_pids(a), rows=40)
    s.wait(rf'{a.pid} .*sleep 300')
    s.keys('Enter')
    text = s.wait('CUDA_VISIBLE_DEVICES=3,5')
    t.match('job', 'SLURM_JOB_ID=4711', text)
    t.true('no secret', 'xyzzy' not in text)
    s.close()


JOB_ROW = r'(?m)^\S.* (slurm|pod|container|unit|cgroup|user|tree) .*\d'


@case('jobs: in place of processes, one in full, filtered, recorded', needs=None)
def jobs(t):
    a = sleeper(t)
    path = t.path('jobs.gst')
    s = Screen(t, '--record', path, env=with_pids(a, gpus=1), columns=120)
    s.wait(rf'{a.pid} .*sleep 300')
    s.keys('j')
    # Whoever runs the tests is somebody's job: a user's, a unit's, a group's or a tree's.
    s.wait(r'JOB +KIND +USER +PROC')
    s.wait(JOB_ROW)
    s.keys('/', *'no such job', 'Enter')
    s.wait('No job passes the filter')
    s.keys('Escape')
    s.wait(r'(unit|cgroup|user|tree|container|pod|slurm) ')
    s.keys('Enter')
    text = s.wait(r'(?m)^Job \S')
    t.match('who counted', r'counted by +(the kernel|procfs)', text)
    s.wait(r'class +\S')
    s.keys('Escape')
    s.wait(r'JOB +KIND')
    s.keys('j')
    s.wait(rf'{a.pid} .*sleep 300')
    s.keys('j')
    # The last sample of the recording has them again.
    s.wait(r'(?m)^\S.* (slurm|pod|container|unit|cgroup|user|tree) .*\d')
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    s = Screen(t, '--replay', path, '--jobs', replay=True, columns=120)
    s.wait(r'JOB +KIND')
    s.keys('End')
    text = s.wait(r'paused (\d+)/\1\b')
    frame = int(re.search(r'paused (\d+)/', text)[1])
    # The last one may be of the time between the two keys, when jobs were not shown and so not read.
    while not re.search(JOB_ROW, text):
        frame -= 1
        s.keys('Left')
        text = s.wait(rf'paused {frame}/')
    s.keys('Home')
    s.wait('The jobs were not read')
    s.keys('q')
    s.wait('ended with 0')
    s.close()


@case('setup: theme and columns, saved for next time', needs=None)
def setup(t):
    a = sleeper(t)
    env = {**with_pids(a), 'XDG_CONFIG_HOME': t.path('config')}
    kept = t.path('config', 'gpuscope', 'top.yaml')
    s = Screen(t, env=env, columns=120, rows=40)
    text = s.wait(rf'{a.pid} .*sleep 300')
    t.match('both ages of a process: since it began, on processors', r' AGE +TIME ', text)
    plain = s.tmux('capture-pane', '-e', '-p', '-t', 'a')
    s.keys('F2')
    s.wait(r'theme: dark')
    s.keys('Space')
    s.wait(r'theme: light')
    s.keys(*['Down'] * 12, 'Space')  # the 12th column of processes
    s.wait(r'\[ \] RSS')
    s.keys('End', 'Escape')
    s.wait(r'COMMAND')
    t.true('not shown', 'RSS' not in s.text(), s.text())
    t.true('in other colours', s.tmux('capture-pane', '-e', '-p', '-t', 'a').split('gpuscope top')[0] != plain.split('gpuscope top')[0])
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    t.match('what is kept', r'theme: light\n  hide: \["RSS"\]\n  hide_jobs: \[\]', harness.read_text(kept))
    s = Screen(t, env=env, columns=120, rows=40)
    text = s.wait(rf'{a.pid} .*sleep 300')
    t.true('still not shown', 'RSS' not in text and 'AGE' in text, text)
    s.keys('F2')
    s.wait(r'theme: light')
    s.keys('Escape', 'q')
    s.wait('ended with 0')
    s.close()
    t.true('--once is the same for all', 'RSS' in t.tool('top', '--once', '--nvml', nvml(), env=env, status=0).out)
    with open(kept, 'w') as f:
        f.write('top:\n  theme: pink\n')
    s = Screen(t, env=env, columns=120, rows=40)
    text = s.wait(rf'{a.pid} .*sleep 300')
    t.true('as without it', 'RSS' in text)
    s.keys('q')
    s.wait('ended with 0')
    t.match('and why', r'top.yaml:2:10: theme takes one of dark, light, mono, not "pink"; starting without it', harness.read_text(s.err))
    s.close()


@case("setup as root with a user's home, as `sudo -E` leaves it: what is kept is the user's", needs=None)
def setup_of_user(t):
    if os.geteuid() != 0:
        raise Skip('needs root: it writes for another user')
    home, games = t.path('home'), pwd.getpwnam('games')
    kept = os.path.join(home, '.config', 'gpuscope', 'top.yaml')
    for folder in (t.path(), home):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)
    os.chown(home, games.pw_uid, games.pw_gid)
    env = {**with_pids(sleeper(t)), 'HOME': home}
    env.pop('XDG_CONFIG_HOME', None)
    for theme in ('light', 'mono'):  # a new file; one that is there
        s = Screen(t, env=env, columns=120, rows=40)
        s.wait('sleep 300')
        s.keys('F2')
        s.wait('theme:')
        s.keys('Space')
        s.wait(f'theme: {theme}')
        s.keys('Escape', 'q')
        s.wait('ended with 0')
        s.close()
        t.match('kept', f'theme: {theme}', harness.read_text(kept))
        made = [os.path.join(at, name) for at, folders, files in os.walk(home) for name in [*folders, *files]]
        t.equal('what was made', sorted(os.path.relpath(x, home) for x in made), ['.config', '.config/gpuscope', '.config/gpuscope/top.yaml'])
        t.equal('whose it is', {(os.lstat(x).st_uid, os.lstat(x).st_gid) for x in made}, {(games.pw_uid, games.pw_gid)})
    # Where the user may not write, root does not either.
    os.remove(kept)
    os.chown(os.path.dirname(kept), 0, 0)
    os.chmod(os.path.dirname(os.path.dirname(kept)), 0o755)
    os.rmdir(os.path.dirname(kept))
    os.chmod(os.path.dirname(os.path.dirname(kept)), 0o555)
    s = Screen(t, env=env, columns=120, rows=40)
    s.wait('sleep 300')
    s.keys('F2')
    s.wait('theme:')
    s.keys('Space', 'Escape')
    s.wait('cannot write ')
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    t.true('nothing was made', not os.path.exists(kept))


@case('sizes: graphs from 120x40, the reason whole, one job with its wall-clock account', needs=None, beside='jobs')
def sizes(t):
    a = subprocess.Popen(['python3', '-c', 'while True: pass'], env={**t.env, 'SLURM_JOB_ID': '4720'})
    reason = r'throttled by heat: 40 °C, 1100 of 1981 MHz'
    for columns, rows in ((80, 24), (120, 40), (200, 60)):
        s = Screen(t, env={'FAKE_NVML': f'gpus=4,pids={a.pid},ecc=0,throttle=72'}, columns=columns, rows=rows)
        s.wait(rf'(?m)^ .*{a.pid} .*python3')
        text = s.wait(reason)
        if columns >= 120:
            s.wait('[\u2800-\u28ff]')
        if columns == 200:
            t.equal('the reason of each GPU', len(re.findall(r'throttled by heat: 4\d °C, 110\d of 1981 MHz', text)) >= 3, True)
        if os.environ.get('GS_SHOTS'):
            with open(os.path.join(os.environ['GS_SHOTS'], f'top-{columns}x{rows}.txt'), 'w') as f:
                f.write(s.text())
        s.keys('j')
        text = s.wait(r'(?m)^4720')
        t.match('the job with GPUs is the first', r'(?m)^JOB .*\n4720', text)
        s.keys('Enter')
        s.wait(r'Job 4720')
        text = s.wait(r'on CPU|counted by +procfs')
        if 'counted by' in text and 'procfs' in text:
            t.true('without the kernel nothing is said of it', 'wall time' not in text)
        else:
            text = s.wait(r'wall time +\S+ of all its threads')
            parts = [float(x) for x in re.findall(r'(?m)^ +(\d+\.\d)%  \w', text)]
            t.true('its parts are all of it', 98.9 < sum(parts) < 100.5, text)
            t.match('what is not known apart, and what shows it', rf'CUDA and NCCL calls: see gpuscope trace -p {a.pid}', text)
            t.true('a loop is on a processor, or waits for one', sum(float(x) for x in re.findall(r'(\d+\.\d)%  (?:on CPU|waiting for a CPU)', text)) > 90, text)
        if os.environ.get('GS_SHOTS'):
            with open(os.path.join(os.environ['GS_SHOTS'], f'top-job-{columns}x{rows}.txt'), 'w') as f:
                f.write(s.text())
        s.keys('Escape', 'q')
        s.wait('ended with 0')
        s.close()
    a.kill()
    # One cause on several GPUs is one line; the one that the stand-in has broken is left out.
    s = Screen(t, '-g', '0,2,3', env={'FAKE_NVML': 'gpus=4,ecc=0,throttle=72'})
    s.wait(rf'(?m)^GPU 0 and 2 more: {reason}')
    s.keys('q')
    s.wait('ended with 0')
    s.close()


@case('the mouse: keys of the last line, a row, a column to sort by', needs=None)
def mouse(t):
    a, b = sleeper(t), sleeper(t)
    s = Screen(t, env=with_pids(a, b), columns=120, term='screen')
    s.wait(rf'{a.pid} .*sleep 300')
    s.click('F1 Help')
    s.wait('gpuscope top: keys')
    s.keys('q')
    s.wait('F1 Help')
    s.click(rf'{b.pid} .*sleep', times=2)
    s.wait(f'Process {b.pid}')
    s.keys('Escape')
    s.wait('F1 Help')
    head = s.tmux('capture-pane', '-e', '-p', '-t', 'a')

    def chosen():
        # Lines of GPUs come and go with their state: the title may have moved since it was looked for. As a user, it clicks again then.
        s.click(r'\bRSS\b')
        time.sleep(0.5)
        return s.tmux('capture-pane', '-e', '-p', '-t', 'a').split('RSS')[0][-12:] != head.split('RSS')[0][-12:]

    wait_until(chosen, 20, 'the column')
    s.keys('q')
    s.wait('ended with 0')
    s.close()


@case('a signal, after asking', needs=None)
def kills(t):
    a = sleeper(t)
    s = Screen(t, env=with_pids(a))
    s.wait(rf'{a.pid} .*sleep 300')
    s.keys('F9')
    s.wait('SIGTERM')
    s.keys('Enter')
    s.wait(rf'Send SIGTERM to {a.pid} \(sleep\)\?')
    s.keys('n')
    s.wait('no signal was sent')
    t.equal('still runs', a.poll(), None)
    s.keys('k', 'Down', 'Down', 'Enter')
    s.wait(rf'Send SIGKILL to {a.pid}')
    s.keys('y')
    s.wait(rf'SIGKILL was sent to {a.pid}')
    t.equal('how it ended', a.wait(20), -signal.SIGKILL)
    s.close()


@case('--read-only sends none', needs=None)
def read_only(t):
    a = sleeper(t)
    s = Screen(t, '--read-only', env=with_pids(a))
    text = s.wait(rf'{a.pid} .*sleep 300')
    t.true('no key for it', 'F9' not in text)
    s.keys('F9')
    s.wait('--read-only: no signals')
    s.keys('Enter', 'y')
    time.sleep(0.5)
    t.equal('still runs', a.poll(), None)
    s.close()


@case('secrets of command lines go nowhere, unless they are asked for', timeout=100)
def secrets(t):
    words = ['sh', '-c', 'sleep 300', '--wandb-key=S3CRET', '--password', 'S3CRET too', 'postgres://me:S3CRET@db/x', '--rank=1']
    p = subprocess.Popen(words, env=t.envs())
    wait_until(lambda: 'S3CRET' in harness.read_text(f'/proc/{p.pid}/cmdline'), 20, 'its arguments')
    env = with_pids(p)
    shown = 'sh -c sleep 300 --wandb-key=*** --password *** postgres://me:***@db/x --rank=1'
    path = t.path('s.gst')
    runs = {}
    for form in ('table', 'json', 'csv'):
        runs['top', form] = t.tool('top', '--once', '--format', form, '--nvml', nvml(), '--record', path, env=env, status=0).out
        runs['gpu', form] = t.tool('gpu', '--format', form, '--nvml', nvml(), env=env, status=0).out
    runs['recorded'] = t.tool('top', '--once', '--format', 'json', '--replay', path, status=0).out
    runs['job'] = t.tool('job', '-p', str(p.pid), '-d', '0.2', '--format', 'json', status=0).out
    runs['trace'] = t.tool('trace', '--format', 'json', '--', *words[:2], 'exit 0', *words[3:]).err
    for key, out in runs.items():
        t.true(f'{key}: no secret', 'S3CRET' not in out, out[:1000])
    for key in (('top', 'json'), ('top', 'csv'), ('gpu', 'json'), 'recorded', 'job'):
        t.true(f'{key}: the rest', shown in runs[key], runs[key][-1500:])
    full = t.tool('top', '--once', '--format', 'json', '--nvml', nvml(), '--commands=full', env=env, status=0).out
    t.true('in full', ' '.join(words) in full, full[-800:])
    none = t.tool('top', '--once', '--format', 'json', '--nvml', nvml(), '--commands=name', env=env, status=0).out
    t.true('none', '--rank' not in none and '"sh"' in none, none[-800:])
    t.match('no such choice', 'scrubbed, name or full', t.tool('top', '--once', '--commands=all', status=2).err)


@case('a recording shows what was seen', needs=None)
def replays(t):
    a, b = sleeper(t), sleeper(t)
    path = t.path('r.gst')
    env = with_pids(a, b)
    live = t.tool('top', '--once', '--format', 'json', '--nvml', nvml(), '--record', path, env=env, status=0)
    again = t.tool('top', '--once', '--format', 'json', '--replay', path, status=0)
    t.equal('JSON', again.out, live.out)
    doc = json.loads(live.out)
    t.equal('GPUs', len(doc['gpus']), 2)
    t.equal('pids', sorted(p['pid'] for p in doc['processes']), sorted((a.pid, b.pid)))
    for form in ('csv', 'table'):
        t.tool('top', '--once', '--format', form, '--replay', path, status=0)
    t.match('table', rf'{a.pid} ', t.tool('top', '--once', '--replay', path, status=0).out)
    t.match('report', r'2 samples of .* 2 GPUs, at most 2 processes', t.tool('report', path, status=0).out)
    for form in ('csv', 'folded', 'svg'):
        run = t.tool('report', path, '-o', t.path(f'calls.{form}'), status=4)
        t.match(f'{form} would be empty', r'not written, as it would be empty: .*no .*; samples of GPUs can be seen in', run.err)
        t.true(f'no {form}', not os.path.exists(t.path(f'calls.{form}')))
    t.tool('report', path, '-o', t.path('gpus.json'), status=0)
    with open(t.path('gpus.json'), encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    used = {e['pid']: e['args']['bytes'] for e in events if e['ph'] == 'C' and e['name'] == 'memory used'}
    t.equal('memory', sorted(used.values()), sorted(g['memory_used_bytes'] for g in doc['gpus']))
    t.equal('GPUs by name', [e['args']['name'].split(':')[0] for e in events
                             if e['ph'] == 'M' and e['name'] == 'process_name'], ['GPU 0', 'GPU 1'])  # fmt: skip
    t.tool('report', path, '-o', t.path('gpus.pftrace'), status=0)
    with open(t.path('gpus.pftrace'), 'rb') as f:
        t.true('tracks', b'SM clock' in f.read())
    t.equal('report as JSON', json.loads(t.tool('report', '--format', 'json', path, status=0).out)['mode'], 'samples')
    with open(path, 'rb') as f:
        whole = f.read()
    for damaged in (whole[:-30], whole[:-30] + bytes(30)):
        with open(t.path('damaged.gst'), 'wb') as f:
            f.write(damaged)
        t.match('damaged', 'is damaged: .* could not be read, and no complete sample is left',
                t.tool('top', '--once', '--replay', t.path('damaged.gst'), status=1).err)  # fmt: skip
    one = json.loads(t.tool('top', '--once', '--format', 'json', '--replay', path, '-g', '1', status=0).out)
    t.equal('one GPU', [g['index'] for g in one['gpus']], [1])
    t.match('no such GPU', 'no GPU "9"', t.tool('top', '--once', '--replay', path, '-g', '9', status=4).err)


@case('to and fro in a recording', needs=None)
def seeks(t):
    a = sleeper(t)
    path = t.path('r.gst')
    s = Screen(t, '--interval', '50ms', '--record', path, env=with_pids(a))
    s.wait(rf'{a.pid} ')

    def samples():
        found = re.search(r'(\d+) samples of', t.tool('report', path).out)
        return int(found[1]) if found else 0

    wait_until(lambda: samples() >= 25, 60, '25 samples')
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    s = Screen(t, '--replay', path, replay=True)
    s.wait(rf'{a.pid} ')
    s.keys('Space', 'Home')
    text = s.wait(r' 1/\d+')
    n = int(re.search(r' 1/(\d+)', text)[1])
    t.true('samples', n >= 20, n)
    s.keys('End')
    s.wait(rf' {n}/{n}')
    s.wait('[\u2800-\u28ff]')
    s.keys('Left', 'Left')
    s.wait(rf' {n - 2}/{n}')
    s.keys('Right')
    s.wait(rf' {n - 1}/{n}')
    s.keys(',')
    s.wait(rf' {max(1, n - 61)}/{n}')
    s.keys('F9')
    s.wait('this is a recording: there is no process to signal')
    s.keys('Enter')
    s.wait('not recorded')
    s.close()


@case('a recorder that was killed leaves a file that can be seen', needs=None)
def torn(t):
    a = sleeper(t)
    path = t.path('r.gst')
    s = Screen(t, '--interval', '50ms', '--record', path, env=with_pids(a))
    wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 2000, 30, 'records in the file')
    shell = s.tmux('list-panes', '-F', '#{pane_pid}').strip()
    children = harness.read_text(f'/proc/{shell}/task/{shell}/children').split()
    t.true('one recorder', len(children) == 1, children)
    os.kill(int(children[0]), signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f'/proc/{children[0]}'), 20, 'its end')
    with open(path, 'ab') as f:
        f.write(b'torn')
    again = t.tool('top', '--once', '--format', 'json', '--replay', path, status=0)
    t.equal('its process', [p['pid'] for p in json.loads(again.out)['processes']], [a.pid])
    t.match('told', 'cut off', again.err)
    s.close()


@case('a GPU that is lost comes first; a call that hangs does not stop the screen', needs=None)
def trouble(t):
    a = sleeper(t)
    config = t.path('fake')

    def pretend(words):
        with open(config + '.new', 'w', encoding='ascii') as f:
            f.write(f'gpus=3,pids={a.pid},{words}')
        os.rename(config + '.new', config)

    pretend('')
    s = Screen(t, fake_file=config, rows=30, columns=120)
    s.wait(rf'{a.pid} ')
    pretend('lost=2')
    text = s.wait('lost: off the bus')
    first = next(x for x in text.splitlines() if 'H100' in x)
    t.match('the first one', r'^ 2 H100.*lost: off the bus', first)
    pretend('lost=2,hang=DeviceGetMemoryInfo_v2')
    time.sleep(1)
    s.keys('F1')
    s.wait('gpuscope top: keys')
    s.keys('x')
    s.keys('q')
    pretend('lost=2')
    s.wait('ended with 0', seconds=30)
    s.close()


@case('-p, -u: only these processes; -n: so many views, and then it ends', needs=None)
def chosen(t):
    a, b = sleeper(t), sleeper(t)
    me = str(os.getuid())
    for words, wanted in ((('-p', f'{a.pid}'), {a.pid}), (('-p', f'{a.pid},{b.pid}', '-u', me), {a.pid, b.pid}), (('-p', str(a.pid), '-u', '4000000'), set())):
        docs = [json.loads(line) for line in t.tool('top', '--once', '-n', '2', '--interval', '100ms', '--json', '--nvml', nvml(), *words, status=0).out.splitlines()]
        t.equal(f'{words}: views', len(docs), 2)
        for doc in docs:
            t.equal(f'{words}', {p['pid'] for p in doc['processes']}, wanted)
    t.equal('whose', {p['uid'] for p in json.loads(t.tool('top', '--once', '-u', me, '--json', '--nvml', nvml(), status=0).out)['processes']}, {os.getuid()})
    t.match('none', 'No such process is running', t.tool('top', '--once', '-p', str(a.pid), '-u', '4000000', '--nvml', nvml(), status=0).out)
    path = t.path('all.gst')
    t.tool('top', '--once', '-p', str(a.pid), '--record', path, '--nvml', nvml(), status=0)
    recorded = json.loads(t.tool('top', '--once', '--replay', path, '--json', status=0).out)['processes']
    t.true('a recording has all', {a.pid, b.pid} <= {p['pid'] for p in recorded}, recorded)
    replayed = json.loads(t.tool('top', '--once', '--replay', path, '-p', str(b.pid), '--json', status=0).out)['processes']
    t.equal('replayed', {p['pid'] for p in replayed}, {b.pid})
    s = Screen(t, '-n', '3', '-p', str(a.pid), env={'FAKE_NVML': 'gpus=1'})
    text = s.wait('ended with 0')
    t.true('it ends by itself', 'gpuscope' not in text, text)
    s.close()
    for words, says in ((('-p', '0'), '--pid takes process ids'), (('-p', '1x'), '--pid takes process ids'), (('-u', 'no-such-user'), '--user takes the name of a user'),
                        (('-n', '0'), '--count takes a number of at least 1'), (('--once', '-n', '2', '--replay', path), 'leave out -n')):  # fmt: skip
        t.match(f'{words}', says, t.tool('top', *words, status=2).err)


@case('no driver: the machine, and why', needs=None)
def no_driver(t):
    a = sleeper(t)
    run = t.tool('top', '--once', '--nvml', '/nowhere/libnvidia-ml.so.1', status=0)
    t.match('why', r'GPUs: .*nowhere', run.out)
    # The option of the command that was typed, not a key of another one's configuration.
    for words, pattern in ((('gpu',), r'set --nvml PATH$'), (('top', '--once', '-p', '4194303'), r'set --nvml PATH')):
        other = t.tool(*words)
        if 'libnvidia-ml.so.1 was not found' in other.out + other.err:  # the machine has no driver
            t.match(f'{words}', pattern, other.out + other.err)
            t.true(f'{words}', 'gpu.library' not in other.out + other.err, other.err)
    t.match('processes', rf'(?m)^ *{a.pid} ', run.out)
    doc = json.loads(t.tool('top', '--once', '--format', 'json', '--nvml', '/nowhere/x', status=0).out)
    t.equal('state', (doc['gpu_state'], doc['gpus']), ('no_library', []))
    t.true('processes', a.pid in [p['pid'] for p in doc['processes']])


@case('no terminal, an unknown one, wrong usage: one line and a status', needs=None)
def refusals(t):
    t.match('no terminal', 'must be a terminal', t.tool('top', '--nvml', nvml(), status=1).err)
    s = Screen(t, env={'FAKE_NVML': 'gpus=1'})
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    s = Screen(t, env={'FAKE_NVML': 'gpus=1'}, term='linux')  # it has no second screen
    s.wait('F1 Help')
    s.keys('q')
    text = s.wait('ended with 0')
    t.true('its last line is left clean', 'Help' not in text, text)
    s.close()
    for term, pattern in (('', 'TERM is not set'), ('no-such-kind', '"no-such-kind"'), ('dumb', 'cannot show a screen')):
        run = subprocess.run(['script', '-qec', f"TERM='{term}' '{harness.gpuscope}' top --nvml '{nvml()}'", '/dev/null'],
                             capture_output=True, text=True, env=t.env, stdin=subprocess.DEVNULL, timeout=30)  # fmt: skip
        t.match(f'TERM={term}', pattern, run.stdout)
        t.equal(f'status with TERM={term}', run.returncode, 1)
    for args, pattern in ((['--interval', '0'], '--interval'), (['--theme', 'pink'], 'dark, light or mono'),
                          (['--format', 'json'], '--once'), (['--once', '--format', 'xml'], 'table, json or csv'),
                          (['what'], 'only options'), (['--replay', 'a', '--record', 'b'], 'exclude')):  # fmt: skip
        t.match(' '.join(args), pattern, t.tool('top', *args, status=2).err)
    t.match('no file', 'nowhere.gst', t.tool('top', '--replay', t.path('nowhere.gst'), status=1).err)
    with open(t.path('x.gst'), 'wb') as f:
        f.write(b'text')
    t.match('no recording', 'not a .gst file', t.tool('top', '--replay', t.path('x.gst'), status=1).err)
    t.match('no such GPU', 'no GPU "9"', t.tool('top', '--once', '--nvml', nvml(), '-g', '9', status=4).err)
    t.match('a full disk', '/dev/full', t.tool('top', '--once', '--nvml', nvml(), '--record', '/dev/full', status=1).err)


@case('gpuscope gpu says what it waits for, and that the driver hangs', timeout=60, needs=None)
def slow_driver(t):
    run = t.tool('gpu', '--timeout', '5', '--nvml', nvml(), env={'FAKE_NVML': 'gpus=2,hang=Init_v2'}, status=1)
    t.match('waits', "waiting for NVIDIA's driver: .*nvmlInit_v2", run.err)
    t.match('ends', 'does not answer in time: .*nvmlInit_v2.*nothing is known yet', run.err)
    t.tool('gpu', '--timeout', '0.01', '--nvml', nvml(), status=2)


if __name__ == '__main__':
    main()
