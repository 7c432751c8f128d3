"""Alerts of the agent and of `gpuscope job`: to a real HTTP server (TLS too), a mail server with STARTTLS and login, a
real Alertmanager and a log; receivers that are down, slow or refuse; restarts and reloads."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request

import harness
from agent_help import Agent, config_text, free_port
from alert_help import Mail, Webhook, certificate
from harness import Skip, case, main, read_text, wait_until

IDLE = '    - {name: idle, condition: "utilization_percent == 0", message: "{utilization_percent} % of GPU"}\n'
HEAD = 'alerts:\n  interval: 100ms\n  for: 0\n  cooldown: 0\n  max_per_minute: 1000\n'
FAST = 'sampling:\n  interval: 100ms\n'


def conf(*parts, rules=IDLE):
    return config_text(more=FAST + HEAD + ''.join(parts) + '  rules:\n' + rules)


def uuid(i):
    return f'GPU-{i:08x}-1111-2222-3333-444455556666'


def key(name, **labels):
    return f'gpuscope_agent_{name}' + ('{' + ','.join(f'{k}="{v}"' for k, v in labels.items()) + '}' if labels else '')


@case('a webhook over TLS hears the beginning and the end, with a token', needs=None)
def webhook(t):
    pair = certificate(t)
    hook = Webhook(tls=pair)
    token = t.path('token')
    with open(token, 'w') as f:
        f.write('hush-hush\n')
    os.chmod(token, 0o600)
    a = Agent(t, conf(f'  webhook: {{url: "{hook.url}", ca_file: {pair[0]}, token_file: {token}}}\n'), what='gpus=1')
    a.wait_metric(key('alerts_firing'), lambda v: v == 0)
    a.pretend('gpus=1,idle')
    hook.wait(1)
    t.equal('began', hook.told(), [('firing', 'idle', uuid(0))])
    t.equal('token', {h.get('Authorization') for h in hook.heads}, {'Bearer hush-hush'})
    t.equal('type', {h.get('Content-Type') for h in hook.heads}, {'application/json'})
    one = hook.got[0]
    t.equal('message', (one['message'], one['severity'], one['values'], one['condition']),
            ('0 % of GPU', 'warning', {'utilization_percent': 0}, 'utilization_percent == 0'))  # fmt: skip
    t.equal('labels', (one['labels']['uuid'], one['labels']['model']), (one['subject']['id'], 'NVIDIA H100 80GB HBM3'))
    t.equal('of one', (one['count'], one['members']), (1, []))
    a.wait_metric(key('alerts_firing'), lambda v: v == 1)
    a.pretend('gpus=1')
    hook.wait(2)
    t.equal('ended', hook.told()[1:], [('resolved', 'idle', uuid(0))])
    m = hook.got[1]
    t.equal('the same alert', m['id'], one['id'])
    t.true('times', m['ends_at'] > m['starts_at'], m)
    t.equal('because', m['ended_because'], 'cleared')
    a.wait_metric(key('alert_messages_sent_total', receiver='webhook'), lambda v: v == 2)
    t.equal('ok', a.metrics()[key('alert_receiver_ok', receiver='webhook')], 1)
    a.stop()


@case('one cause on all GPUs of a node is one message, one line of the log, one of the page and one of the minute', needs=None)
def joined(t):
    hook = Webhook()
    heads = HEAD.replace('1000', '1') + f'  webhook: {{url: "{hook.url}"}}\n  log: {{file: {t.path("alerts.log")}}}\n'
    a = Agent(t, config_text(more=FAST + heads + '  rules:\n' + IDLE), what='gpus=4,idle')
    hook.wait(1)
    one = hook.got[0]
    t.equal('all of them', (one['count'], [m['subject'] for m in one['members']]), (4, [uuid(i) for i in range(4)]))
    t.equal('title and text', (one['subject']['title'], one['message']), ('4 GPUs (0, 1, 2, 3)', '0 % of GPU (GPU 0)'))
    t.equal('labels that all have', sorted(one['labels']), ['model', 'node'])
    t.equal('each has an id of its own', len({m['id'] for m in one['members']}), 4)
    a.wait_metric(key('alerts_firing'), lambda v: v == 4)
    wait_until(lambda: os.path.exists(t.path('alerts.log')) and read_text(t.path('alerts.log')).endswith('\n'), 20, 'the log')
    t.match('the log', r'alert firing warning idle: 4 GPUs \(0, 1, 2, 3\): 0 % of GPU \(GPU 0\)\n$', read_text(t.path('alerts.log')))

    def of_page():
        return [x['text'] for x in json.loads(a.get('/api/v1/alerts?limit=50')[2])['alerts'] if x['text'].startswith('idle:')]

    wait_until(lambda: of_page() == ['idle: 4 GPUs (0, 1, 2, 3): 0 % of GPU (GPU 0)'], 30, 'the line of the page')
    # Each ends by itself, in one message with those that end together.
    a.pretend('gpus=4')
    ends = lambda: [x for m in hook.got if m['status'] == 'resolved' for x in m['members'] or [{'id': m['id'], 'subject': m['subject']['id']}]]  # noqa: E731
    wait_until(lambda: len(ends()) == 4, 60, 'the ends')
    t.equal('of the same alerts', sorted((x['subject'], x['id']) for x in ends()), sorted((x['subject'], x['id']) for x in one['members']))
    a.stop()


@case('a certificate that nobody signed is not trusted', needs=None)
def untrusted(t):
    hook = Webhook(tls=certificate(t))
    a = Agent(t, conf(f'  webhook: {{url: "{hook.url}"}}\n'), what='gpus=1,idle', args=['-v'])
    a.wait_metric(key('alert_failed_attempts_total', receiver='webhook'), lambda v: v and v >= 1)
    a.wait_err(r'alerts: webhook: .*certificate')
    t.equal('messages', hook.got, [])
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 1)
    a.wait_metric(key('alert_receiver_ok', receiver='webhook'), lambda v: v == 0)
    a.signal(signal.SIGTERM)
    t.equal('exit status', a.proc.wait(30), 0)


@case('a webhook that is down is tried until it is up, in order', needs=None, timeout=90)
def down(t):
    port = free_port()
    a = Agent(t, conf(f'  webhook: {{url: "http://127.0.0.1:{port}/"}}\n'), what='gpus=1,idle')
    attempts = key('alert_failed_attempts_total', receiver='webhook')
    a.wait_metric(attempts, lambda v: v and v >= 2)
    a.pretend('gpus=1')
    a.wait_metric(key('alerts_ended_total'), lambda v: v == 1)
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 2)
    hook = Webhook(port=port)
    hook.wait(2, 60)
    t.equal('told', hook.told(), [('firing', 'idle', uuid(0)), ('resolved', 'idle', uuid(0))])
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 0)
    m = a.metrics()
    t.equal('dropped', sum(v for k, v in m.items() if 'alert_messages_dropped' in k), 0)
    # The back-off begins anew.
    a.pretend('gpus=1,idle')
    hook.wait(3)
    a.stop()


@case('a webhook that hangs holds up neither the mail nor the agent', needs=None, timeout=90)
def slow(t):
    hook, mail = Webhook(hold=threading.Event()), Mail()
    a = Agent(t, conf(f'  timeout: 300s\n  webhook: {{url: "{hook.url}"}}\n',
                      f'  email: {{smtp_server: 127.0.0.1, smtp_port: {mail.port}, recipients: [ops@test]}}\n'),
              what='gpus=1,idle')  # fmt: skip
    mail.wait(1)
    a.pretend('gpus=1')
    mail.wait(2)
    t.equal('nobody heard', hook.got, [])
    t.equal('health', a.get('/healthz')[0], 200)
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 2)
    hook.hold.set()
    hook.wait(2)
    # A transfer that is under way ends with the agent.
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 0)
    hook.hold.clear()
    a.pretend('gpus=1,idle')
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 1)
    a.stop()  # which waits for its end, but not for as long as the transfer would take


@case('what is refused is not sent again, what must wait is', needs=None, timeout=90)
def refused(t):
    hook = Webhook(answer=400)
    a = Agent(t, conf(f'  webhook: {{url: "{hook.url}"}}\n'), what='gpus=1,idle')
    a.wait_metric(key('alert_messages_dropped_total', receiver='webhook', cause='refused'), lambda v: v == 1)
    hook.answer = 503
    a.pretend('gpus=1')
    hook.wait(3)  # one refused, then one and its first repetition
    told = hook.told()
    t.equal('told', told, [('firing', 'idle', uuid(0))] + [('resolved', 'idle', uuid(0))] * (len(told) - 1))
    hook.answer = 200
    a.wait_metric(key('alert_messages_sent_total', receiver='webhook'), lambda v: v == 1)
    t.equal('dropped', a.metrics()[key('alert_messages_dropped_total', receiver='webhook', cause='refused')], 1)
    a.stop()


@case('a redirect is not followed, and that is said', needs=None, timeout=60)
def redirected(t):
    hook = Webhook(answer=307)
    path = t.path('alerts.yaml')
    with open(path, 'w') as f:
        f.write(f'alerts:\n  for: 0\n  interval: 100ms\n  triggers: {{low_efficiency: 30}}\n  webhook: {{url: "{hook.url}/s3cret?k=s3cret"}}\n  log: {{enabled: false}}\n')
    held = subprocess.Popen(['sleep', '3600'])
    live = subprocess.Popen([harness.gpuscope, 'job', '-p', str(held.pid), '--alerts', path, '-o', t.path('r.json')],
                            stderr=open(t.path('job.err'), 'wb'))  # fmt: skip
    try:
        hook.wait(1)
        held.kill()
        held.wait()
        live.wait(30)
    finally:
        held.kill()
        live.kill()
    said = read_text(t.path('job.err'))
    t.match('said', r'http://127\.0\.0\.1:\d+/\.\.\. answers 307, a redirect: give its target as url', said)
    t.true('the secret is not', 's3cret' not in said, said)
    t.true('not again and again', len(hook.got) <= 2, hook.told())


@case('a message that never gets through is given up and counted', needs=None, timeout=60)
def given_up(t):
    a = Agent(t, conf(f'  give_up: 1s\n  webhook: {{url: "http://127.0.0.1:{free_port()}/"}}\n'), what='gpus=1,idle')
    a.wait_metric(key('alert_messages_dropped_total', receiver='webhook', cause='given_up'), lambda v: v == 1, 40)
    a.wait_metric(key('alert_messages_waiting', receiver='webhook'), lambda v: v == 0)
    a.stop()


@case('mail with STARTTLS and login', needs=None)
def mails(t):
    pair = certificate(t)
    mail = Mail(tls=pair, users={'robot': 's3cret'})
    secret = t.path('password')
    with open(secret, 'w') as f:
        f.write('s3cret')
    os.chmod(secret, 0o600)
    a = Agent(t, conf(f'  email: {{smtp_server: 127.0.0.1, smtp_port: {mail.port}, username: robot, password_file: {secret}, '
                      f'ca_file: {pair[0]}, from: gs@test, recipients: [a@test, "b@test"]}}\n'),
              what='gpus=1,idle')  # fmt: skip
    mail.wait(1)
    m = mail.got[0]
    t.equal('envelope', (m['from'], m['to'], m['encrypted'], m['defects']), ('gs@test', ['a@test', 'b@test'], True, []))
    t.equal('subject', m['mail']['Subject'], '[gpuscope warning] idle: GPU 0 (NVIDIA H100 80GB HBM3)')
    t.equal('heads', (m['mail']['To'], m['mail']['Auto-Submitted']), ('a@test, b@test', 'auto-generated'))
    t.match('text', r'because +0 % of GPU', m['text'])
    t.match('text', rf'uuid +{uuid(0)}', m['text'])
    a.pretend('gpus=1')
    mail.wait(2)
    t.equal('end', mail.got[1]['mail']['Subject'], '[gpuscope resolved] idle: GPU 0 (NVIDIA H100 80GB HBM3)')
    t.equal('one thread', mail.got[1]['mail']['References'], m['mail']['References'])
    a.stop()


@case('a wrong password is refused once; no password goes out in the clear', needs=None)
def wrong_password(t):
    pair = certificate(t)
    mail = Mail(tls=pair, users={'robot': 's3cret'})
    text = (f'  email: {{smtp_server: 127.0.0.1, smtp_port: {{}}, username: robot, password: wrong, ca_file: {pair[0]}, '
            'recipients: [a@test]}}\n')  # fmt: skip
    a = Agent(t, conf(text.replace('{}', str(mail.port)).replace('}}', '}')), what='gpus=1,idle', args=['-v'])
    a.wait_metric(key('alert_messages_dropped_total', receiver='email', cause='refused'), lambda v: v == 1)
    t.equal('mails', (mail.got, mail.refused > 0), ([], True))
    t.true('the password is nowhere', 'wrong' not in a.err_text(), a.err_text())
    a.stop()
    plain = Mail(users={'robot': 'wrong'})  # without TLS
    a = Agent(t, conf(text.replace('{}', str(plain.port)).replace('}}', '}')), what='gpus=1,idle')
    a.wait_metric(key('alert_failed_attempts_total', receiver='email'), lambda v: v and v >= 1)
    t.equal('mails', plain.got, [])
    a.signal(signal.SIGTERM)
    a.proc.wait(30)


@case('the log: a file with a line for each, and standard error', needs=None)
def log(t):
    path = t.path('alerts.log')
    a = Agent(t, conf(f'  log: {{file: {path}}}\n'), what='gpus=1,idle')
    wait_until(lambda: os.path.exists(path) and 'firing' in read_text(path), 20, 'the first line')
    a.pretend('gpus=1')
    wait_until(lambda: 'resolved' in read_text(path), 20, 'the second line')
    lines = read_text(path).splitlines()
    firing, resolved = [re.sub(r'^\S+Z ', '', x) for x in lines]
    t.match('firing', r'^alert firing warning idle: GPU 0 \(NVIDIA H100 80GB HBM3\): \d+ % of GPU$', firing)
    # The rule's message would say that it still holds.
    t.match('resolved', r'^alert resolved warning idle: GPU 0 \(NVIDIA H100 80GB HBM3\): no longer utilization_percent == 0: utilization_percent = \S+ - cleared$', resolved)
    t.equal('mode', os.stat(path).st_mode & 0o007, 0)
    a.stop()
    a = Agent(t, conf(), what='gpus=1,idle')
    a.wait_err(r'alert firing warning idle: GPU 0')
    a.stop()


@case('nothing is told twice: after a kill, a restart and a reload', needs=None, timeout=90)
def restart(t):
    hook = Webhook()
    text = conf(f'  state_file: {t.path("alerts.state")}\n  webhook: {{url: "{hook.url}"}}\n')
    a = Agent(t, text, what='gpus=1,idle')
    hook.wait(1)
    wait_until(lambda: os.path.exists(t.path('alerts.state')) and 'firing' in read_text(t.path('alerts.state')), 20, 'state')
    a.signal(signal.SIGHUP)
    a.wait_err('configuration read again')
    a.wait_metric(key('alerts_firing'), lambda v: v == 1)
    a.signal(signal.SIGKILL)
    a.proc.wait()
    a = Agent(t, text, what='gpus=1,idle')
    a.wait_metric(key('alerts_firing'), lambda v: v == 1)
    a.wait_metric('gpuscope_agent_samples_total', lambda v: v and v > 5)
    t.equal('told once', hook.told(), [('firing', 'idle', uuid(0))])
    a.pretend('gpus=1')
    hook.wait(2)
    t.equal('and its end', hook.told()[1:], [('resolved', 'idle', uuid(0))])
    t.equal('of the same alert', hook.got[1]['id'], hook.got[0]['id'])
    a.stop()


@case('a reload brings new rules and receivers; a bad one changes nothing', needs=None)
def reload(t):
    hook, other = Webhook(), Webhook()
    a = Agent(t, conf(f'  webhook: {{url: "{hook.url}"}}\n'), what='gpus=1')
    a.write(conf(rules='    - {name: x, condition: "nonsense > 1"}\n'))
    a.signal(signal.SIGHUP)
    a.wait_err(r'the old configuration stays in use: .*:\d+:\d+: rule "x": .*no figure has this name')
    a.write(conf(f'  webhook: {{url: "{other.url}"}}\n',
                 rules='    - {name: gone, condition: "gpus_lost > 0", severity: critical}\n'))
    a.signal(signal.SIGHUP)
    a.wait_err('configuration read again')
    a.pretend('gpus=1,idle,lost=0')
    other.wait(1)
    t.equal('told', [(m['rule'], m['severity'], m['subject']['kind']) for m in other.got], [('gone', 'critical', 'node')])
    t.equal('the old one', hook.got, [])
    a.stop()


@case('the node: memory and load are looked at', needs=None)
def node(t):
    hook = Webhook()
    a = Agent(t, conf(f'  webhook: {{url: "{hook.url}"}}\n',
                      rules='    - {name: m, condition: "memory_used_percent > 0 && cpus >= 1 && load1 >= 0 && driver_ok", '
                            'message: "{memory_used_percent} {cpus}"}\n'),
              what='gpus=1')  # fmt: skip
    hook.wait(1)
    used, cpus = hook.got[0]['message'].split()
    t.equal('processors', int(cpus), os.sysconf('SC_NPROCESSORS_ONLN'))
    t.true('memory', 0 < float(used) < 100, used)
    a.stop()


@case('a real Alertmanager takes alerts, keeps them alive and sees their end', needs=None, timeout=120)
def alertmanager(t):
    program = shutil.which('prometheus-alertmanager') or shutil.which('alertmanager')
    if not program:
        raise Skip('prometheus-alertmanager is not installed')
    port = free_port()
    with open(t.path('am.yml'), 'w') as f:
        # A second after the last word an alert without an end would be over.
        f.write('global: {resolve_timeout: 1s}\nroute: {receiver: none}\nreceivers: [{name: none}]\n')
    with open(t.path('am.log'), 'wb') as f:
        subprocess.Popen([program, f'--config.file={t.path("am.yml")}', f'--storage.path={t.path("am")}',
                          f'--web.listen-address=127.0.0.1:{port}', '--cluster.listen-address='], stdout=f, stderr=f)  # fmt: skip
    base = f'http://127.0.0.1:{port}'

    def alerts():
        try:
            with urllib.request.urlopen(f'{base}/api/v2/alerts', timeout=300) as r:
                return json.load(r)
        except OSError:
            return None

    wait_until(lambda: alerts() == [], 60, 'Alertmanager')
    a = Agent(t, conf(f'  repeat: 1s\n  webhook: {{url: "{base}", payload: alertmanager}}\n'), what='gpus=1,idle')
    seen = []
    wait_until(lambda: seen.extend(alerts() or []) or seen, 30, 'the alert')
    first = seen[0]
    t.equal('labels', (first['labels']['alertname'], first['labels']['uuid'], first['labels']['severity']),
            ('idle', uuid(0), 'warning'))  # fmt: skip
    t.equal('annotations', first['annotations']['description'], '0 % of GPU')
    a.wait_metric(key('alert_messages_sent_total', receiver='webhook'), lambda v: v and v >= 4)
    again = []
    wait_until(lambda: again.__setitem__(slice(None), alerts() or []) or (again and again[0]['endsAt'] > first['endsAt']), 30, 'kept alive')
    t.equal('one alert, the same', [x['startsAt'] for x in again], [first['startsAt']])
    a.pretend('gpus=1')
    wait_until(lambda: alerts() == [], 30, 'its end')
    a.stop()


@case("ebpf-hpc-monitor's e-mail section, as it stands, with `gpuscope job --real-time`", needs=None, timeout=90)
def readme(t):
    if os.geteuid() != 0:
        raise Skip('needs root: a certificate is put in the place of the system\'s')
    pair = certificate(t)
    mail = Mail(tls=pair, users={'monitor@example.com': 'password'})
    path = t.path('prometheus_config.yaml')
    with open(path, 'w') as f:
        f.write(f'''external_systems:
  email:
    enabled: true
    smtp_server: "127.0.0.1"
    smtp_port: {mail.port}
    username: "monitor@example.com"
    password: "password"
    recipients: ["admin@example.com"]
    triggers:
      low_efficiency: 30.0
      high_context_switches: 10000
alerts:
  for: 1s
  interval: 200ms
''')
    sleeper = subprocess.Popen(['sleep', '1000'])
    # The README's keys know no certificate of one's own: ours takes the place of the system's.
    words = f'mount --bind {pair[0]} /etc/ssl/certs/ca-certificates.crt && exec "$@"'
    live = subprocess.Popen(['unshare', '-m', 'sh', '-c', words, 'sh', harness.gpuscope, 'job', '-p', str(sleeper.pid), '--real-time',
                             '--alerts', path, '-c', path, '-o', t.path('report.json')],
                            stdout=subprocess.DEVNULL, stderr=open(t.path('job.err'), 'wb'))  # fmt: skip
    mail.wait(1, 60)
    live.send_signal(signal.SIGINT)
    t.equal(f'exit status ({read_text(t.path("job.err"))})', live.wait(30), 0)
    m = mail.got[0]
    t.equal('envelope', (m['from'], m['to'], m['encrypted']), ('monitor@example.com', ['admin@example.com'], True))
    t.equal('subject', m['mail']['Subject'], f'[gpuscope warning] low_efficiency: tree of {sleeper.pid} of root (sleep)')
    t.match('text', r'efficiency is 0(\.\d+)? of 100, below 30', m['text'])
    t.match('report', 'efficiency_score', read_text(t.path('report.json')))


@case('jobs of the agent: a rule about their last minutes, told by a webhook', timeout=120)
def job_of_agent(t):
    hook = Webhook()
    rules = "    - {name: busy, subject: job, condition: 'cpus_busy > 0.3', for: 0s, cooldown: 0s}\n"
    a = Agent(t, conf(f'  webhook: {{url: "{hook.url}"}}\n', rules=rules) + 'jobs:\n  slurm: false\n  containers: true\n  units: true\n  cgroups: true\n  users: true\n'
              '  interval: 500ms\n  window: 2s\n', what='gpus=1')  # fmt: skip
    burner = subprocess.Popen(['sh', '-c', 'while :; do :; done'])
    try:
        # Whose the burner is depends on where the tests run: a unit, a container, a group or a user.
        wait_until(lambda: ('firing', 'busy') in [x[:2] for x in hook.told()], 60, 'the alert of a job')
    finally:
        burner.kill()
        burner.wait()
    a.stop()


@case('a job that ends ends its alert', needs=None, timeout=60)
def job_end(t):
    hook = Webhook()
    path = t.path('alerts.yaml')
    with open(path, 'w') as f:
        f.write(f'alerts:\n  for: 0\n  interval: 100ms\n  triggers: {{low_efficiency: 30}}\n  webhook: {{url: "{hook.url}"}}\n'
                '  log: {enabled: false}\n  rules:\n    - {name: gpu, condition: "power_watts > 3"}\n')  # fmt: skip
    held = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)
    live = subprocess.Popen([harness.gpuscope, 'job', '-p', f'{held.pid},{os.getpid()}', '--alerts', path, '-o', t.path('r.json')],
                            stderr=open(t.path('job.err'), 'wb'))  # fmt: skip
    hook.wait(1)
    wait_until(lambda: ('firing', 'low_efficiency', f'tree of {held.pid}') in hook.told(), 30, 'the alert')
    held.stdin.close()
    wait_until(lambda: ('resolved', 'low_efficiency', f'tree of {held.pid}') in hook.told(), 30, 'its end')
    # The other job is this test, which may do little for a while.
    t.equal('because', {m['ended_because'] for m in hook.got if m['status'] == 'resolved' and m['subject']['id'] == f'tree of {held.pid}'}, {'gone'})
    live.send_signal(signal.SIGINT)
    t.equal('exit status', live.wait(30), 0)
    t.match('other rules', "only rules about jobs are evaluated here", read_text(t.path('job.err')))


@case('without libcurl: one line that says what to install; a log needs none', needs=None)
def no_library(t):
    if os.geteuid() != 0:
        raise Skip('needs root: a library is hidden in a mount namespace')
    found = subprocess.run(['ldconfig', '-p'], capture_output=True, text=True).stdout
    files = sorted(set(re.findall(r'libcurl(?:-gnutls)?\.so\.4 .*=> (\S+)', found)))
    words = ' && '.join([f'mount --bind /dev/null {f}' for f in files] or ['true']) + ' && exec "$@"'
    path = t.path('agent.yaml')
    with open(path, 'w') as f:
        f.write(conf('  webhook: {url: "http://127.0.0.1:1/"}\n'))
    done = subprocess.run(['unshare', '-m', 'sh', '-c', words, 'sh', harness.gpuscope, 'agent', '-c', path],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    t.equal('exit status', done.returncode, 1)
    t.match('message', r'^gpuscope: agent: alerts: libcurl\.so\.4, which .*: install libcurl4 \(Debian, Ubuntu\)', done.stderr)
    t.equal('lines', len(done.stderr.splitlines()), 1)
    with open(path, 'w') as f:
        f.write(conf())
    a = subprocess.Popen(['unshare', '-m', 'sh', '-c', words, 'sh', harness.gpuscope, 'agent', '-c', path],
                         env=t.envs({'FAKE_NVML': 'gpus=1,idle'}), stderr=open(t.path('err'), 'wb'))  # fmt: skip
    wait_until(lambda: 'alert firing warning idle' in read_text(t.path('err')), 20, 'the line of the log')
    a.terminate()
    t.equal('exit status', a.wait(30), 0)


@case('what cannot work is told at the start', needs=None)
def at_start(t):
    for more, status, message in (
            ('  log: {file: /nowhere/x}\n', 1, 'cannot write the log of alerts /nowhere/x: No such file or directory'),
            ('  webhook: {url: "https://a/b", token_file: /nowhere}\n', 1,
             'cannot read the token of alerts.webhook /nowhere: No such file or directory'),
            ('  webhook: {url: "gopher://a"}\n', 2, 'url takes a URL such as https://alerts.example.org/hook, not "gopher://a"')):  # fmt: skip
        path = t.path('agent.yaml')
        with open(path, 'w') as f:
            f.write(conf(more))
        run = t.tool('agent', '-c', path, status=status)
        t.match('message', re.escape(message), run.err)
        t.equal('lines', len(run.err.splitlines()), 1)
    path = t.path('alerts.yaml')
    with open(path, 'w') as f:
        f.write('alerts:\n  for: soon\n')
    run = t.tool('job', '--check-config', '--alerts', path, status=2)
    t.match('message', rf'{re.escape(path)}:2:8: for takes 0, or a duration', run.err)


if __name__ == '__main__':
    main()
