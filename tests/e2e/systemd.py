"""The units of packaging/systemd under a real systemd, in a container: started, reloaded, hung, stopped."""

import json
import os
import re
import signal

import harness
from harness import case, main, wait_until
from systemd_help import Machine, units

AGENT, SOCKET = 'gpuscope-agent.service', 'gpuscope-agent.socket'
HEAD, CONNECT = 'gpuscope-head.service', 'gpuscope-connect.service'
RELAY = ('gpuscope-connect-relay.socket', 'gpuscope-connect-relay.service')
CONF = '/etc/gpuscope/agent.yaml'
DEPLOYMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'packaging', 'deployment', 'systemd')
# Where the socket listens; what the configuration says is not used then.
URL = 'http://127.0.0.1:14780'
HEAD_URL = 'http://127.0.0.1:8091'


def conf(more=''):
    return f'http:\n  listen: 127.0.0.1:14781\n{more}'


def metric(text, name):
    found = re.search(r'^' + re.escape(name) + r' (\S+)$', text, re.M)
    return float(found.group(1)) if found else None


def agent(t, text=conf(), more=()):
    m = Machine(t)
    m.install(AGENT, SOCKET, *more)
    m.put(CONF, text)
    return m


@case('each service: starts, stays, stops with status 0', timeout=300, needs=None)
def services(t):
    m = Machine(t)
    services = sorted(x for x in os.listdir(units()) if x.endswith('.service') and x not in RELAY)
    m.install(*services, SOCKET, *RELAY)
    t.true('there are services', len(services) >= 3, services)
    for unit in services:
        done = m.run('systemctl', 'start', unit)
        t.equal(f'{unit} starts ({done.stderr.strip()} {m.journal(unit)[-500:]})', done.returncode, 0)
        pid = m.show(unit, 'MainPID')
        m.wait(unit, 'ActiveState', 'active')
        # A service that does not tell when it is ready counts as active before it is even executed.
        wait_until(lambda: m.handles(pid, signal.SIGTERM), 60, f'{unit}: signals are watched for')
        status = m.must('cat', f'/proc/{pid}/status')
        t.true(f'{unit}: no new privileges, calls filtered',
               re.search(r'^NoNewPrivs:\s+1$', status, re.M) and re.search(r'^Seccomp:\s+2$', status, re.M), status)  # fmt: skip
        t.true(f'{unit} is not root', not re.search(r'^Uid:\s+0\s', status, re.M), status)
        if m.show(unit, 'CanReload') == 'yes':
            done = m.run('systemctl', 'reload', unit)
            t.equal(f'{unit} reloads ({done.stderr.strip()})', done.returncode, 0)
        t.equal(f'{unit}: the same process all the time', (m.show(unit, 'MainPID'), m.show(unit, 'NRestarts')), (pid, '0'))
        m.must('systemctl', 'stop', unit)
        t.equal(f'{unit} has stopped', (m.show(unit, 'Result'), m.show(unit, 'ExecMainStatus'), m.show(unit, 'ActiveState')),
                ('success', '0', 'inactive'))  # fmt: skip


@case('the agent: active means that values are there; reload; its rights suffice', timeout=240, beside='jobs')
def rights(t):
    m = agent(t, conf('jobs:\n  interval: 500ms\n  controller: false\n'))
    # A job of somebody else, known by its environment alone, which only its owner may read.
    m.must('sh', '-c', 'SLURM_JOB_ID=77 setsid setpriv --reuid=games --clear-groups sleep 900 >/dev/null 2>&1 </dev/null &')
    m.must('systemctl', 'start', AGENT)
    text = m.get(URL + '/metrics')
    t.equal('GPUs at once', metric(text, 'gpuscope_driver_state{state="ok"}'), 1)
    t.true('processes by name', re.search(r'gpuscope_gpu_process_memory_used_bytes\{.*comm="', text), text[-300:])
    # What serves it has none of the unit's rights.
    status = m.must('sh', '-c', 'cat /proc/$(pgrep -fo "^gpuscope --serve-for-parent")/status')
    for name, wanted in (('CapEff', '0+'), ('CapAmb', '0+'), ('NoNewPrivs', '1')):
        t.match(f'the server: {name}', rf'(?m)^{name}:\s+{wanted}$', status)
    t.equal('control socket', m.must('gpuscope', 'agent', 'ctl', 'status')[:3], 'ok:')
    # The kernel's counters: a container with ids of its own is counted by these.
    wait_until(lambda: metric(m.get(URL + '/metrics'), 'gpuscope_agent_jobs_probes') == 1
               or re.search(r'^gpuscope_agent_jobs_probes\{reason="(?!there was no job yet)', m.get(URL + '/metrics'), re.M),
               60, 'counting of jobs')  # fmt: skip
    text = m.get(URL + '/metrics')
    t.equal(f'jobs ({[x for x in text.splitlines() if x.startswith("gpuscope_agent_jobs_probes")]})',
            metric(text, 'gpuscope_agent_jobs'), 1)  # fmt: skip
    t.equal('by probes', metric(text, 'gpuscope_agent_jobs_probes'), 1)
    # Without them procfs of others is read; and a configuration is taken by a reload.
    m.put(CONF, conf('jobs:\n  interval: 500ms\n  controller: false\n  probes: false\n'))
    m.must('systemctl', 'reload', AGENT)
    wait_until(lambda: metric(m.get(URL + '/metrics'), 'gpuscope_job_processes{jobid="77 (claimed by games)"}') == 1, 60, 'processes of the job')
    text = m.get(URL + '/metrics')
    t.equal('files that could not be read', metric(text, 'gpuscope_agent_jobs_errors_total{cause="failed_read"}'), 0)
    t.true('its user', 'user="games"' in text, [x for x in text.splitlines() if 'jobid="77' in x][:3])


# Calls CUDA for as long as it lives.
CALLER = """
import ctypes, sys, time
rt = ctypes.CDLL(sys.argv[1])
p = ctypes.c_void_p()
while True:
    rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(4096))
    time.sleep(0.002)
"""


@case('the flight recorder under the unit: a file on request, with the calls of a job; the agent goes on', timeout=240, beside='jobs')
def recorder(t):
    m = agent(t, conf("jobs:\n  interval: 500ms\n  controller: false\nrecorder:\n  jobs: '78*'\n"))
    with open(os.path.join(DEPLOYMENT, 'agent-recorder.conf')) as f:
        m.drop_in(AGENT, f.read())
    m.put('/opt/caller.py', CALLER)
    # Of another user: the agent, which is not root here, sees its processes by a capability alone.
    m.must('sh', '-c', f'SLURM_JOB_ID=78 setsid setpriv --reuid=games --clear-groups /usr/bin/python3 /opt/caller.py {harness.fake}/libcudart.so.13 >/dev/null 2>&1 </dev/null &')
    m.must('systemctl', 'start', AGENT)
    wait_until(lambda: metric(m.get(URL + '/metrics'), 'gpuscope_agent_recorder_running') == 1, 20, 'a program that records')
    folder = '/var/lib/gpuscope-agent/recorder'

    def calls():
        done = m.run('gpuscope', 'agent', 'ctl', 'save-trace')
        assert done.returncode == 0, done
        newest = m.run('sh', '-c', f'ls -t {folder}/*.gst 2>/dev/null | head -n 1').stdout.strip()
        shown = m.run('gpuscope', 'report', newest, '--format=json') if newest else None
        found = json.loads(shown.stdout) if shown and shown.returncode == 0 and shown.stdout else {'functions': []}
        return sum(f['calls'] for f in found['functions'] if f['name'] == 'cudaMalloc')

    try:
        wait_until(lambda: calls() > 100, 20, 'a file with calls')
    except AssertionError as e:
        raise AssertionError(f'{e}: {m.get(URL + "/api/v1/recorder")} {m.journal(AGENT)[-3000:]}') from None
    t.equal('for root alone', m.must('stat', '-L', '-c', '%a', folder).strip(), '700')
    # By the signal that a person sends, too.
    n = int(m.must('sh', '-c', f'ls {folder}/*.gst | wc -l'))
    m.must('pkill', '-USR1', '-f', '^gpuscope trace')
    wait_until(lambda: int(m.must('sh', '-c', f'ls {folder}/*.gst | wc -l')) > n, 20, 'a file by the signal')
    # Where it has no more memory all of the unit is stopped.
    t.true('its limit of memory holds four jobs', int(m.show(AGENT, 'MemoryMax')) >= 4 * (64 + 64) << 20, m.show(AGENT, 'MemoryMax'))
    pid = m.show(AGENT, 'MainPID')
    m.must('systemctl', 'stop', AGENT)
    t.equal('it ends as it should', (m.show(AGENT, 'Result'), m.show(AGENT, 'ExecMainStatus'), pid != '0'), ('success', '0', True))


@case('the agent: a bad configuration fails the start and the reload, with our line in the journal', timeout=240, needs=None)
def bad(t):
    m = agent(t, conf('sampling:\n  intervall: 1s\n'))
    t.true('start fails', m.run('systemctl', 'start', AGENT).returncode != 0)
    m.wait(AGENT, 'ActiveState', 'failed')
    t.equal('and is not tried again', (m.show(AGENT, 'ExecMainStatus'), m.show(AGENT, 'NRestarts')), ('2', '0'))
    t.match('the journal', r'agent\.yaml:4:3: .*intervall', m.journal(AGENT))
    m.put(CONF, conf())
    m.must('systemctl', 'start', AGENT)
    pid = m.show(AGENT, 'MainPID')
    m.put(CONF, conf('sampling:\n  interval: never\n'))
    t.true('reload fails', m.run('systemctl', 'reload', AGENT).returncode != 0)
    t.match('the journal of it', r'agent\.yaml:4:\d+: .*never', m.journal(AGENT))
    t.equal('it goes on', (m.show(AGENT, 'ActiveState'), m.show(AGENT, 'MainPID')), ('active', pid))
    t.equal('and serves', metric(m.get(URL + '/metrics'), 'gpuscope_driver_state{state="ok"}'), 1)


@case('systemd starts an agent and a head that hang anew', timeout=300, needs=None)
def watchdog(t):
    m = agent(t, more=(HEAD,))
    for unit, url in ((AGENT, URL + '/healthz'), (HEAD, HEAD_URL + '/')):
        m.must('systemctl', 'start', unit)
        t.equal(f'{unit} has a watchdog', m.show(unit, 'WatchdogUSec'), '1min')
        m.must('systemctl', 'stop', unit)
        # The same with shorter times.
        m.drop_in(unit, '[Service]\nWatchdogSec=3\nTimeoutAbortSec=3\nRestartSec=100ms\n')
        m.must('systemctl', 'start', unit)
        pid = m.show(unit, 'MainPID')
        m.must('kill', '-STOP', pid)
        m.wait(unit, 'NRestarts', '[1-9][0-9]*', 90)
        m.wait(unit, 'ActiveState', 'active', 60)
        t.true(f'{unit}: another process', m.show(unit, 'MainPID') not in (pid, '0'), pid)
        t.match(f'{unit}: the journal', r'[Ww]atchdog timeout', m.journal(unit))
        wait_until(lambda: m.get(url), 60, 'an answer')


@case('the head: active means that it listens; a reload directly after the start; what it is told', timeout=240, needs=None)
def head(t):
    m = Machine(t)
    m.install(HEAD)
    m.put('/etc/gpuscope/head.yaml', 'sampling:\n  interval: 2s\n')
    m.must('systemctl', 'start', HEAD)
    # Nothing is waited for: what systemctl says is so.
    t.equal('it answers at once', json.loads(m.get(HEAD_URL + '/api/v1/switches'))['interval_seconds'], 2)
    t.equal('the unit', (m.show(HEAD, 'Type'), m.show(HEAD, 'ActiveState'), m.show(HEAD, 'SubState')),
            ('notify', 'active', 'running'))  # fmt: skip
    m.must('systemctl', 'stop', HEAD)
    for again in range(5):
        m.put('/etc/gpuscope/head.yaml', f'sampling:\n  interval: {again + 3}s\n')
        m.must('systemctl', 'start', HEAD)
        pid = m.show(HEAD, 'MainPID')
        m.put('/etc/gpuscope/head.yaml', f'sampling:\n  interval: {again + 30}s\n')
        m.must('systemctl', 'reload', HEAD)
        wait_until(lambda: json.loads(m.get(HEAD_URL + '/api/v1/switches'))['interval_seconds'] == again + 30, 60, 'the new interval')
        m.wait(HEAD, 'SubState', 'running')
        t.equal('the same process', (m.show(HEAD, 'MainPID'), m.show(HEAD, 'NRestarts'), m.show(HEAD, 'ActiveState')),
                (pid, '0', 'active'))  # fmt: skip
        m.must('systemctl', 'stop', HEAD)
        t.equal('it has stopped', (m.show(HEAD, 'Result'), m.show(HEAD, 'ExecMainStatus')), ('success', '0'))
    m.must('systemctl', 'start', HEAD)
    pid = m.show(HEAD, 'MainPID')
    m.must('kill', '-TERM', pid)
    m.wait(HEAD, 'ActiveState', 'inactive')
    t.equal('ended by a signal', (m.show(HEAD, 'Result'), m.show(HEAD, 'NRestarts')), ('success', '0'))
    # What cannot start is no service that serves.
    m.put('/etc/gpuscope/head.yaml', 'http:\n  port: never\n')
    t.true('start fails', m.run('systemctl', 'start', HEAD).returncode != 0)
    t.match('the journal', r'head\.yaml:2:\d+: .*never', m.journal(HEAD))


@case('connect, which has no network, delivers to a head by the relay', timeout=240, needs=None)
def relay(t):
    m = Machine(t)
    m.install(HEAD, CONNECT, *RELAY)
    m.must('systemctl', 'start', HEAD, CONNECT)
    wait_until(lambda: json.loads(m.get(HEAD_URL + '/api/v1/overview') or '{}').get('healthy_nodes') == 1, 60, 'a node at the head')
    wait_until(lambda: json.loads(m.get(HEAD_URL + '/api/v1/overview'))['gpus'] > 0, 60, 'its GPUs')


@case('the agent delivers to a head once it is given a network', timeout=240, needs=None)
def network(t):
    with open(os.path.join(DEPLOYMENT, 'agent-network.conf')) as f:
        drop_in = f.read()
    m = agent(t, conf('head:\n  addresses: 127.0.0.1:8090\n'), more=(HEAD,))
    # In a group of its own: one that an earlier machine of this test has left still has that unit's filter of addresses.
    m.drop_in(AGENT, drop_in + '[Service]\nSlice=gpuscopenetwork.slice\n')
    m.must('systemctl', 'start', HEAD)
    m.must('systemctl', 'start', AGENT)
    wait_until(lambda: metric(m.get(URL + '/metrics'), 'gpuscope_agent_head_connected') == 1, 60, 'a connection to the head')


@case('the agent: the socket starts it at the first scrape', timeout=240, needs=None)
def activation(t):
    m = agent(t)
    m.must('systemctl', 'start', SOCKET)
    t.equal('not yet', m.show(AGENT, 'ActiveState'), 'inactive')
    text = m.get('http://127.0.0.1:14780/metrics')
    t.equal('the first scrape is answered', metric(text, 'gpuscope_agent_samples_total') is not None, True)
    m.wait(AGENT, 'ActiveState', 'active')
    t.equal('nobody listens where the configuration says', m.get('http://127.0.0.1:14781/metrics'), '')
    m.must('systemctl', 'stop', AGENT, SOCKET)
    t.equal('stopped', m.show(AGENT, 'Result'), 'success')


main()
