"""gpuscope agent as who runs it sees it: its control socket, its budget, dashboards, alerts, systemd."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys

import harness
import systemd_help
from agent_help import Agent, Prometheus, config_text
from harness import Skip, case, main, read_text, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGING = os.path.join(ROOT, 'packaging')


def need(program):
    if not shutil.which(program):
        raise Skip(f'{program} is not installed')


def ctl(t, path, *command):
    return subprocess.run([harness.gpuscope, 'agent', 'ctl', '--control', path, *command], capture_output=True, text=True,
                          env=t.envs(), timeout=60)  # fmt: skip


@case('the control socket: let go of the GPUs, take them up again, status, reload', needs=None)
def control(t):
    path = t.path('agent.sock')
    a = Agent(t, config_text(control=path))
    t.equal('who may connect', stat.S_IMODE(os.stat(path).st_mode), 0o600)
    done = ctl(t, path, 'status')
    t.true('status', done.returncode == 0 and f'pid {a.pid}' in done.stdout and 'GPUs: 8, ok' in done.stdout, done)
    done = ctl(t, path, 'release-gpus')
    t.equal('release', (done.returncode, done.stdout), (0, 'ok: the driver is released\n'))
    t.true('status of it', 'released' in ctl(t, path, 'status').stdout)
    a.wait_metric('gpuscope_driver_state{state="released"}', lambda v: v == 1)
    t.equal('resume', ctl(t, path, 'resume-gpus').returncode, 0)
    a.wait_metric('gpuscope_driver_state{state="ok"}', lambda v: v == 1)
    t.equal('reload', ctl(t, path, 'reload').returncode, 0)
    a.write('nonsense: 1\n')
    done = ctl(t, path, 'reload')
    t.true('a bad configuration', done.returncode == 1 and 'nonsense' in done.stderr, done)
    done = ctl(t, path, 'explode')
    t.true('an unknown command', done.returncode == 2 and 'no command "explode"; the commands are release-gpus' in done.stderr, done)
    t.equal('no command', ctl(t, path).returncode, 2)
    # Who connects and says nothing, or too much, does no harm.
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(b'x' * 4096)
        t.true('too long', s.recv(200).startswith(b'error'))
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        t.true('nothing', s.recv(200).startswith(b'error'))
    t.equal('alive', a.get('/healthz')[0], 200)
    a.stop()
    t.true('it is gone', not os.path.exists(path))
    done = ctl(t, path, 'status')
    t.true('nobody there', done.returncode == 1 and 'is it running' in done.stderr, done)


@case('a socket that a killed agent left, one of a living agent, a group, a bad place', needs=None)
def control_places(t):
    path = t.path('agent.sock')
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
    a = Agent(t, config_text(control=path))
    t.equal('taken over', ctl(t, path, 'status').returncode, 0)

    def refused(what, text, words):
        conf = t.path('other.yaml')
        with open(conf, 'w') as f:
            f.write(text)
        done = subprocess.run([harness.gpuscope, 'agent', '-c', conf], capture_output=True, text=True, timeout=60,
                              env=t.envs())  # fmt: skip
        t.true(what, done.returncode == 1 and words in done.stderr, done)

    refused('another agent', config_text(control=path), 'another program listens')
    t.equal('it still answers', ctl(t, path, 'status').returncode, 0)
    refused('no folder', config_text(control=t.path('none/agent.sock')), 'cannot listen')
    refused('no such group', config_text(control=t.path('x.sock')) + '  group: no-such-group\n', 'no-such-group')
    a.stop()
    if os.getuid() == 0:
        a = Agent(t, config_text(control=path).replace(f'path: "{path}"\n', f'path: "{path}"\n  group: daemon\n'))
        st = os.stat(path)
        t.equal('of the group', (stat.S_IMODE(st.st_mode), st.st_gid != 0), (0o660, True))
        a.stop()


@case('a hung call does not hang the control socket', timeout=90, needs=None)
def control_hung(t):
    path = t.path('agent.sock')
    a = Agent(t, config_text(control=path).replace('gpu:\n', 'gpu:\n  hang: 200ms\n'))
    a.pretend('gpus=8,hang=DeviceGetMemoryInfo_v2')
    a.wait_metric('gpuscope_driver_state{state="hung"}', lambda v: v == 1, 60)
    done = ctl(t, path, 'release-gpus')
    t.true('told', done.returncode == 1 and 'does not return' in done.stderr, done)
    a.pretend('gpus=8')
    a.wait_metric('gpuscope_driver_state{state="released"}', lambda v: v == 1, 60)
    t.equal('resume', ctl(t, path, 'resume-gpus').returncode, 0)
    a.wait_metric('gpuscope_driver_state{state="ok"}', lambda v: v == 1, 60)
    a.stop()


@case('what costs much is read seldom, and its age and cost are served', needs=None)
def budget(t):
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\n  budget: 0.001%\n  leave_out: "fan,bar1"\n'),
              what='gpus=2,burn=DeviceGetUtilizationRates:1000')  # fmt: skip
    reads = 'gpuscope_agent_values_reads_total{values="%s"}'
    a.wait_metric(reads % 'memory', lambda v: v and v >= 40)
    m = a.metrics()
    t.true('seldom', m[reads % 'utilization'] < 10, m[reads % 'utilization'])
    t.true('not at all', reads % 'fan' not in m and not [k for k in m if k.startswith('gpuscope_gpu_fan')])
    cpu = m['gpuscope_agent_driver_call_cpu_seconds_total{call="nvmlDeviceGetUtilizationRates"}']
    t.true('its cost', cpu >= 0.001 * m[reads % 'utilization'], cpu)
    ages = {re.search(r'values="(\w+)"', k).group(1): v for k, v in m.items()
            if k.startswith('gpuscope_gpu_values_timestamp_seconds') and 'gpu="1"' in k}  # fmt: skip
    t.true('older than what is cheap', ages['memory_activity'] < ages['memory'], ages)
    t.true('how it is read', [k for k in m if k.startswith('gpuscope_agent_values_interval_seconds') and 'memory_activity' not in k])
    t.true('still there', [k for k in m if k.startswith('gpuscope_gpu_memory_activity_ratio')])
    a.stop()
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\n  budget: 0\n'))
    a.wait_metric(reads % 'memory', lambda v: v and v >= 80)
    m = a.metrics()
    t.equal('without a budget all are read', m[reads % 'memory'], m[reads % 'energy'])
    a.stop()


@case('a bad name in leave_out is told', needs=None)
def leave_out(t):
    conf = t.path('bad.yaml')
    with open(conf, 'w') as f:
        f.write('sampling:\n  leave_out: "fan,wings"\n')
    done = subprocess.run([harness.gpuscope, 'agent', '--check-config', '-c', conf], capture_output=True, text=True)
    t.true('told', done.returncode == 2 and 'leave_out' in done.stderr and ':2:' in done.stderr, done)


@case('every query of the dashboard has an answer', timeout=180, needs=None)
def dashboard(t):
    need('prometheus')
    with open(os.path.join(PACKAGING, 'grafana/gpuscope.json')) as f:
        board = json.load(f)
    what = 'gpus=8,board=h100'
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\n  links:\n    interval: 100ms\n'), what=what)
    p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': [{'targets': [a.address]}]})
    p.wait_scrapes(5)
    queries = [(panel['title'], target['expr']) for panel in board['panels'] for target in panel.get('targets', [])]
    t.true('queries', len(queries) > 40, len(queries))
    for title, query in queries:
        query = re.sub(r'\$(cluster|node|gpu)\b', '.*', query).replace('$__rate_interval', '30s')
        t.true(f'no variable is left: {title}', '$' not in query, query)
        wait_until(lambda query=query: p.query(query), 60, f'{title}: {query}')
    for v in board['templating']['list'][2:]:  # this one is of no cluster: tests/e2e/deployment.py
        metric, label = re.match(r'label_values\((.*), (\w+)\)', v['definition']).groups()
        found = p.query(re.sub(r'\$\w+', '.*', metric))
        t.true(f'values of ${v["name"]}', found and all(label in x['metric'] for x in found), found)
    t.equal('numbers of panels', len({x['id'] for x in board['panels']}), len(board['panels']))
    # The rules ask for things that are there, too.
    names = set(re.findall(r'gpuscope_\w+', read_text(os.path.join(PACKAGING, 'prometheus/alerts.yml'))))
    text = a.get()[2].decode()
    missing = [n for n in names if not re.search(rf'^{n}[{{ ]', text, re.M) and n != 'gpuscope_gpu_xid_errors_total']
    t.equal('metrics of the rules', missing, [])
    a.stop()


@case('the rules for alerts do what they say', timeout=60, needs=None)
def alerts(t):
    need('promtool')
    shutil.copy(os.path.join(PACKAGING, 'prometheus/alerts.yml'), t.path('alerts.yml'))
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'alerts_test.yml'), t.path('test.yml'))
    for args in (['check', 'rules', t.path('alerts.yml')], ['test', 'rules', t.path('test.yml')]):
        done = subprocess.run(['promtool', *args], capture_output=True, text=True)
        t.equal(' '.join(args[:2]), (done.returncode, done.stdout + done.stderr if done.returncode else ''), (0, ''))


@case('the rules for alerts work with the names of dcgm-exporter, too, in a real Prometheus', timeout=180, needs=None)
def alerts_of_dcgm(t):
    need('prometheus')
    rules = os.path.join(PACKAGING, 'prometheus/alerts.yml')
    names = set(re.findall(r'gpuscope_\w+', read_text(rules))) - {'gpuscope_gpu_xid_errors_total'}
    for compat in ('native,dcgm', 'dcgm-new', 'dcgm'):
        a = Agent(t, config_text(more=f'sampling:\n  interval: 200ms\nmetrics:\n  compat: {compat}\n'), what='gpus=2,board=h100')
        text = a.get()[2].decode()
        t.equal(f'metrics of the rules with {compat}', [n for n in names if not re.search(rf'^{n}[{{ ]', text, re.M)], [])
        if compat != 'dcgm':
            a.stop()
    p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': [{'targets': [a.address]}]}, [rules])
    p.wait_scrapes(2)
    t.equal('DCGM names beside them', len(p.ask('DCGM_FI_DEV_GPU_UTIL')), 2)
    t.equal('neither before', set(p.ask('ALERTS', 'alertname')) & {'GpuXidError', 'GpuLost'}, set())
    for alert, what in (('GpuXidError', 'xid=1:79:1'), ('GpuLost', 'lost=1')):
        a.pretend('gpus=2,board=h100,' + what)
        wait_until(lambda alert=alert: p.ask(f'ALERTS{{alertname="{alert}"}}') == {'1': 1}, 60, alert)
    a.stop()


@case('systemd finds nothing wrong with the units, and what they may do little', timeout=60, needs=None)
def units(t):
    need('systemd-analyze')
    folder = t.path('units')
    os.mkdir(folder)
    for name in os.listdir(systemd_help.units()):
        if name.endswith(('.service', '.socket')):
            text = read_text(os.path.join(systemd_help.units(), name))
            with open(os.path.join(folder, name), 'w') as f:
                f.write(re.sub(r'^(Exec\w+=)\S+/gpuscope ', rf'\1{harness.gpuscope} ', text, flags=re.M))
    paths = sorted(glob.glob(os.path.join(folder, '*')))
    t.true('there are units', len(paths) >= 6, paths)
    done = subprocess.run(['systemd-analyze', 'verify', '--man=no', *paths], capture_output=True, text=True,
                          env={**os.environ, 'SYSTEMD_UNIT_PATH': folder + ':'})  # fmt: skip
    # What it says of other units of the machine is not ours.
    ours = [x for x in (done.stdout + done.stderr).splitlines() if 'gpuscope' in x]
    t.equal('verify', ours, [])
    for path in paths:
        if not path.endswith('.service'):
            continue
        done = subprocess.run(['systemd-analyze', 'security', '--offline=true', '--no-pager', path], capture_output=True, text=True)
        found = re.search(r'Overall exposure level.*?: ([\d.]+)', done.stdout)
        if not found:
            raise Skip('this systemd-analyze does not judge files: ' + (done.stdout + done.stderr).strip()[-200:])
        t.true(os.path.basename(path), float(found.group(1)) <= 1.5, found.group())


@case('without tokens, other machines get metrics and health only', needs=None)
def other_machines(t):
    # A second address of the loopback of a network of its own: what comes from it has another address than it goes to.
    inside = 'ip link set lo up && ip address add 10.9.9.9/32 dev lo && exec "$@"'
    ask = ('import http.client, sys\nc = http.client.HTTPConnection("127.0.0.1:14780", source_address=(sys.argv[1], 0))\n'
           'for p in sys.argv[2:]:\n c.request("GET", p)\n r = c.getresponse()\n print(p, r.status, r.read()[:160])')  # fmt: skip
    if subprocess.run(['unshare', '--net', 'sh', '-c', inside, 'sh', 'true'], capture_output=True).returncode:
        raise Skip('no network namespace with a second address can be made here')
    paths = ['/metrics', '/healthz', '/', '/api/v1/processes', '/api/v1/overview', '/none']
    for more, wanted in (('', [200, 200, 200, 403, 403, 403]), ('  anonymous: true\n', [200, 200, 200, 200, 200, 404])):
        with open(t.path('open.yaml'), 'w') as f:
            f.write(config_text(listen='*:14780', more=more))
        a = subprocess.Popen(['unshare', '--net', 'sh', '-c', inside, 'sh', harness.gpuscope, 'agent', '-c', t.path('open.yaml')],
                             stderr=subprocess.PIPE, env={**t.envs(), 'FAKE_NVML': 'gpus=1'})  # fmt: skip
        try:
            seen = b''
            while b'served at' not in seen:
                line = a.stderr.readline()
                assert line, seen
                seen += line
            for source, statuses in (('10.9.9.9', wanted), ('127.0.0.1', [200, 200, 200, 200, 200, 404])):
                said = subprocess.run(['nsenter', '-t', str(a.pid), '-n', sys.executable, '-c', ask, source, *paths],
                                      capture_output=True, text=True, check=True).stdout  # fmt: skip
                t.equal(f'{more}{source}', [int(x.split()[1]) for x in said.splitlines()], statuses)
                if 403 in statuses:
                    t.match('what to do', r'403 .*token_file, or http\.anonymous', said)
        finally:
            a.terminate()
            a.wait(20)


def is_dead(pid):
    try:
        return read_text(f'/proc/{pid}/stat').rpartition(')')[2].split()[0] == 'Z'
    except OSError:
        return True


@case('HTTP is served by a process without rights; when it is killed another one serves, and readings go on', needs=None)
def server(t):
    path = t.path('agent.sock')
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\n', control=path))

    def server_pid():
        # Beside it there may be readers of files, senders and commands of Slurm: of jobs that others run.
        found = systemd_help.children(a.pid, '--serve-for-parent')
        return found[0] if len(found) == 1 else None

    def readings():
        return int(re.search(r'readings: (\d+)', ctl(t, path, 'status').stdout).group(1))

    def go_on():
        before = readings()
        wait_until(lambda: readings() > before + 3, 60, 'readings')

    t.equal('served', a.get('/healthz')[0], 200)
    pid = server_pid()
    status = read_text(f'/proc/{pid}/status')
    for name, wanted in (('CapEff', '0+'), ('CapPrm', '0+'), ('NoNewPrivs', '1'), ('Seccomp', '2')):
        t.match(name, rf'(?m)^{name}:\s+{wanted}$', status)
    if os.geteuid() == 0:
        t.true('not root', not re.search(r'^[UG]id:.*\s0(\s|$)', status, re.M), status)
    files = [os.readlink(f'/proc/{pid}/fd/{x}') for x in os.listdir(f'/proc/{pid}/fd')]
    t.equal('no file is open', [x for x in files if not x.startswith(('socket:', 'anon_inode:')) and x != '/dev/null'], [])
    t.equal('its environment', [x for x in read_text(f'/proc/{pid}/environ').split('\0') if x and not x.startswith(('LD_LIBRARY_PATH=', 'ASAN', 'UBSAN', 'TSAN'))], [])
    # A server that does not move is nothing to who reads.
    os.kill(pid, signal.SIGSTOP)
    go_on()
    with contextlib.suppress(ProcessLookupError):  # ended after 15 s
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: server_pid(), 60, 'a server')
    pid = server_pid()
    answers = a.metrics()['gpuscope_agent_http_requests_total{status="2xx"}']
    for _ in range(3):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: is_dead(pid), 60, 'its end')
        t.equal('the next request waits for the next server', a.get('/healthz')[0], 200)
        t.true('another process', server_pid() not in (None, pid))
        pid = server_pid()
    go_on()
    m = a.metrics()
    t.equal('counted', m['gpuscope_agent_http_server_restarts_total{reason="ended"}'], 3)
    t.true('counts do not fall', m['gpuscope_agent_http_requests_total{status="2xx"}'] >= answers, answers)
    t.true('its memory', m['gpuscope_agent_http_server_resident_memory_bytes'] > 1e6)
    wait_until(lambda: len(re.findall('serves HTTP was killed by signal 9', a.err_text())) >= 3, 20, 'what is said of it')
    t.equal('told', len(re.findall('serves HTTP was killed by signal 9', a.err_text())), 3)
    a.stop()
    wait_until(lambda: is_dead(pid), 20, 'it ends with the agent')


@case('systemd may listen for it', needs=None)
def activation(t):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        s.listen(16)
        address = '127.0.0.1:%d' % s.getsockname()[1]
        conf, err = t.path('a.yaml'), t.path('a.err')
        with open(conf, 'w') as f:
            f.write(config_text(listen='127.0.0.1:1'))
        # As sd_listen_fds(3) wants it: descriptor 3, and the pid of the program itself.
        shell = f'export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&{s.fileno()}; exec "$0" agent -c "$1" 2>"$2"'
        proc = subprocess.Popen(['bash', '-c', shell, harness.gpuscope, conf, err], pass_fds=[s.fileno()], env=t.envs())
        try:
            wait_until(lambda: os.path.exists(err) and re.search(r'served at \S+/metrics', read_text(err)), 20, 'a start')
            t.true('there', f'http://{address}/metrics' in read_text(err), read_text(err))
            with socket.create_connection(('127.0.0.1', int(address.split(':')[1]))) as c:
                c.sendall(b'GET /healthz HTTP/1.0\r\n\r\n')
                t.true('it answers', c.recv(20).startswith(b'HTTP/1.'), '')
        finally:
            proc.terminate()
            t.equal('ended', proc.wait(30), 0)


main()
