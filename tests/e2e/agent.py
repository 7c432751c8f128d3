"""gpuscope agent: scraped by a real Prometheus, over TLS, with bad configurations, reloads, lost GPUs."""

import gzip
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import harness
from agent_help import Agent, Prometheus, config_text, free_port, gpu_labels, library, parse
from certs import certificates
from harness import Skip, case, main, read_text, wait_until

MIB, GIB = 1 << 20, 1 << 30


def need(program):
    if not shutil.which(program):
        raise Skip(f'{program} is not installed')


@case('a real Prometheus scrapes, and PromQL answers what the driver said', timeout=150, needs=None)
def prometheus(t):
    need('prometheus')
    a = Agent(t, config_text(more='metrics:\n  links: true\n'))
    p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': [{'targets': [a.address]}]})
    p.wait_scrapes(4)
    t.equal('targets', [(x['health'], x['lastError']) for x in p.targets()], [('up', '')])
    gpus = [str(i) for i in range(8)]

    def each(query, formula):
        t.equal(query, {k: round(v, 6) for k, v in p.ask(query).items()},
                {g: round(formula(int(g)), 6) for g in gpus})  # fmt: skip

    each('gpuscope_gpu_power_watts{kind="average"}', lambda i: 300 + i)
    each('gpuscope_gpu_power_watts{kind="instant"}', lambda i: 310 + i)
    each('gpuscope_gpu_power_limit_watts{limit="enforced"}', lambda i: 700)
    each('gpuscope_gpu_temperature_celsius{sensor="gpu"}', lambda i: 40 + i)
    each('gpuscope_gpu_temperature_celsius{sensor="memory"}', lambda i: 50 + i)
    each('gpuscope_gpu_engine_utilization_ratio{engine="ofa"}', lambda i: (i + 3) / 100)
    each('gpuscope_gpu_clock_hertz{domain="sm"}', lambda i: (1100 + i) * 1e6)
    each('gpuscope_gpu_memory_total_bytes', lambda i: 80 * GIB)
    each('gpuscope_gpu_pcie_link_width{of="now"}', lambda i: 16)
    each('gpuscope_gpu_row_remaps_total{kind="uncorrectable"}', lambda i: 2 * i)
    each('count by (gpu) (gpuscope_gpu_nvlink_link_up == 1)', lambda i: 17 if i == 1 else 18)
    # Both follow from the number of readings: memory grows by 1 MiB, energy by 300 J each.
    each(f'gpuscope_gpu_energy_joules_total - 300 * (gpuscope_gpu_memory_used_bytes / {MIB})',
         lambda i: 1000 * (i + 1) - 300 * 1024 * (i + 1))  # fmt: skip
    # A reading a second, but those that the machine had no time for: 300 J each.
    wait_until(lambda: p.ask('count_over_time(gpuscope_gpu_energy_joules_total[1h]) > 6'), 60, 'more scrapes')
    for gpu, each_reading in p.ask('deriv(gpuscope_gpu_energy_joules_total[1h]) / on (instance) group_left deriv(gpuscope_agent_samples_total[1h])').items():
        t.true(f'energy rate of GPU {gpu}', 290 < each_reading < 310, each_reading)
    series = [r['values'] for x in ('samples_total', 'samples_missed_total{cause="late"}') for r in p.query(f'gpuscope_agent_{x}[1h]')]
    turns = sum(float(v[-1][1]) - float(v[0][1]) for v in series)
    # A scrape may be answered up to a second after its time.
    t.true('turns, by the clock of Prometheus', abs(turns - (series[0][-1][0] - series[0][0][0])) <= 3, series)
    t.equal('identity joins', p.ask('sum(gpuscope_gpu_power_watts{kind="average"} * on (uuid) group_left (name) '
                                    'gpuscope_gpu_info{name="NVIDIA H100 80GB HBM3"})', 'x'),
            {'': sum(300 + i for i in range(8))})  # fmt: skip
    t.equal('state', p.ask('gpuscope_driver_state == 1', 'state'), {'ok': 1})
    t.equal('process', list(p.ask('gpuscope_gpu_process_memory_used_bytes', 'pid').items()), [(str(a.pid), GIB)])
    t.equal('shares', p.ask('gpuscope_gpu_process_utilization_ratio{engine="sm"}', 'comm'), {'gpuscope': 0.3})
    a.stop()


@case('promtool finds nothing to say, in each naming', timeout=60, needs=None)
def promtool(t):
    need('promtool')
    for names in ('native', 'dcgm', 'dcgm-new', 'native,dcgm,dcgm-new'):
        a = Agent(t, config_text(more=f'metrics:\n  links: true\n  compat: {names}\n'))
        body = a.get()[2]
        done = subprocess.run(['promtool', 'check', 'metrics'], input=body, capture_output=True)
        words = done.stdout.decode() + done.stderr.decode()
        if names == 'native':
            t.equal('promtool', (done.returncode, words), (0, ''))
        else:
            # Names of others break promtool's taste, never the format.
            t.true(f'promtool of {names}', 'error while linting' not in words and done.returncode in (0, 3), words)
        a.stop()


@case('OpenMetrics is complete and a real Prometheus takes it', timeout=60, needs=None)
def openmetrics(t):
    a = Agent(t, config_text(more='metrics:\n  links: true\n  timestamps: true\n'))
    accept = {'Accept': 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5'}
    status, headers, body = a.get(headers=accept)
    text = body.decode()
    t.equal('type', headers['Content-Type'], 'application/openmetrics-text; version=1.0.0; charset=utf-8')
    t.true('end', text.endswith('\n# EOF\n') and text.count('# EOF') == 1)
    kinds, seen = {}, []
    for line in text.splitlines():
        word = line.split(' ')
        if word[0] == '#' and word[1] == 'TYPE':
            t.true('one block each', word[2] not in kinds, word[2])
            kinds[word[2]] = word[3]
            seen.append(word[2])
        elif word[0] == '#' and word[1] == 'UNIT':
            t.true('unit ends the name', word[2].endswith('_' + word[3]), line)
        elif word[0] != '#':
            name = re.match(r'[^{ ]+', line).group()
            suffix = {'counter': '_total', 'info': '_info'}.get(kinds[seen[-1]], '')
            t.equal('a line is of the family above it', name, seen[-1] + suffix)
    t.true('counters', kinds.get('gpuscope_gpu_energy_joules') == 'counter')
    stamp = re.search(r'^gpuscope_gpu_power_watts\{gpu="0".* 300 (\d+\.\d{3})$', text, re.M)
    t.true('timestamps', stamp and abs(float(stamp.group(1)) - time.time()) < 60, stamp)
    # Jobs and processes of others come and go between two scrapes.
    names = lambda body: set(parse(body.decode()))  # noqa: E731
    wait_until(lambda: names(gzip.decompress(a.get(headers={'Accept-Encoding': 'gzip'})[2])) == names(a.get()[2]), 20, 'the same names')
    plain = a.get(headers={'Accept': '*/*'})
    t.equal('else', plain[1]['Content-Type'], 'text/plain; version=0.0.4; charset=utf-8')
    packed = a.get(headers={'Accept-Encoding': 'gzip'})
    t.equal('gzip', packed[1].get('Content-Encoding'), 'gzip')
    t.true('smaller', len(packed[2]) * 5 < len(plain[2]), f'{len(packed[2])} of {len(plain[2])}')
    a.stop()
    need('prometheus')
    a = Agent(t)
    # This Prometheus asks for OpenMetrics first.
    p = Prometheus(t, {'job_name': 'gpuscope', 'static_configs': [{'targets': [a.address]}]})
    p.wait_scrapes(2)
    t.equal('answer', len(p.ask('gpuscope_gpu_info')), 8)
    a.stop()


@case('dashboards of dcgm-exporter: names, labels and units', needs=None)
def dcgm(t):
    def labels(i, host):
        return (f'{{gpu="{i}",UUID="GPU-{i:08x}-1111-2222-3333-444455556666",pci_bus_id="00000000:{0x10 + i:02X}:00.0",'
                f'device="nvidia{i}",modelName="NVIDIA H100 80GB HBM3",{host}="node7",'
                'DCGM_FI_DRIVER_VERSION="580.159.04"}')  # fmt: skip

    for names, host, wanted in (
        ('dcgm', 'Hostname', {'SM_CLOCK': 1103, 'GPU_TEMP': 43, 'POWER_USAGE': 303, 'FB_TOTAL': 81920,
                              'FB_RESERVED': 512, 'ENC_UTIL': 3, 'ENFORCED_POWER_LIMIT': 700, 'XID_ERRORS': 0,
                              'CORRECTABLE_REMAPPED_ROWS': 3}),
        ('dcgm-new', 'hostname', {'SM_CLOCK_HERTZ': 1103e6, 'GPU_TEMP_CELSIUS': 43, 'BOARD_POWER_WATTS': 303,
                                  'FB_CAPACITY_BYTES': 80 * GIB, 'ENC_UTIL_RATIO': 0.03, 'XID_ERROR': 0,
                                  'ROW_REMAP_CORRECTABLE_TOTAL': 3}),
    ):  # fmt: skip
        a = Agent(t, config_text(more=f'metrics:\n  compat: {names}\n  hostname: node7\n'))
        m = a.metrics()
        for name, value in wanted.items():
            t.equal(f'{names} {name}', m.get(f'DCGM_FI_DEV_{name}{labels(3, host)}'), value)
        used = 'FB_USED' if names == 'dcgm' else 'FB_USED_BYTES'
        energy = 'TOTAL_ENERGY_CONSUMPTION' if names == 'dcgm' else 'GPU_ENERGY_JOULES_TOTAL'
        mib = m[f'DCGM_FI_DEV_{used}{labels(0, host)}'] / (1 if names == 'dcgm' else MIB)
        joules = m[f'DCGM_FI_DEV_{energy}{labels(0, host)}'] / (1000 if names == 'dcgm' else 1)
        t.equal(f'{names} energy of the same reading', joules, 1000 + 300 * (mib - 1024))
        t.true(f'{names}: no native GPU names', not [k for k in m if k.startswith('gpuscope_gpu_power')])
        t.true(f'{names}: own health stays', 'gpuscope_agent_samples_total' in m)
        both = f'DCGM_FI_DEV_NVLINK_{"BANDWIDTH" if names == "dcgm" else "THROUGHPUT"}_TOTAL{labels(0, host)}'
        a.wait_metric(both, lambda v: v is not None, 60)
        m = a.metrics()
        tx_rx = sum(m[f'DCGM_FI_PROF_NVLINK_{d}_BYTES{labels(0, host)}'] for d in ('TX', 'RX'))
        step = 1024000 if names == 'dcgm' else 1
        t.true(f'{names} NVLink, both ways', abs(m[both] * step - tx_rx) <= step + 2, (m[both], tx_rx))
        a.stop()


@case('MIG parts, a passive board, an old driver: what is not there has no line', needs=None)
def boards(t):
    a = Agent(t, what='gpus=2,parts=2,board=h200')
    m = a.metrics()
    part = '{gpu="0",uuid="MIG-00000000-0000-0000-0000-000000000001",pci_bus_id="00000000:10:00.0",gpu_instance="7"'
    t.true('part', any(k.startswith('gpuscope_gpu_memory_used_bytes' + part) for k in m))
    t.true('no fan', not [k for k in m if 'fan_ratio' in k])
    t.true('and why', m['gpuscope_gpu_values_unavailable' + gpu_labels(0, ',reason="not_supported"')] > 0)
    a.stop()
    a = Agent(t, config_text(lib=library(old=True)), what='gpus=1')
    m = a.metrics()
    t.equal('old driver: power', m['gpuscope_gpu_power_watts' + gpu_labels(0, ',kind="average"')], 300)
    t.true('old driver: no GPM', not [k for k in m if 'sm_active' in k])
    a.stop()


@case('a GPU falls off the bus: its values go, the others stay; XIDs are counted by code', needs=None)
def lost(t):
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\n'))
    power = 'gpuscope_gpu_power_watts' + gpu_labels(3, ',kind="average"')
    t.equal('before', a.metrics().get(power), 303)
    a.pretend('gpus=8,xid=3:79:1')
    xid = 'gpuscope_gpu_xid_errors_total' + gpu_labels(3, ',xid="79"')
    a.wait_metric(xid, lambda v: v == 1)
    a.pretend('gpus=8,xid=3:79:2')
    a.wait_metric(xid, lambda v: v == 2)
    a.wait_err(r'agent: XID 79 on 00000000:13:00.0')
    a.pretend('gpus=8,lost=3')
    a.wait_metric('gpuscope_gpu_lost' + gpu_labels(3), lambda v: v == 1)
    m = a.metrics()
    t.equal('no stale value', [k for k in m if 'uuid="GPU-00000003' in k and 'power' in k], [])
    t.equal('others', m.get('gpuscope_gpu_power_watts' + gpu_labels(4, ',kind="average"')), 304)
    t.equal('XIDs stay', m.get(xid), 2)
    a.stop()


@case('a hung call: health is served on, stale values are not', timeout=90, needs=None)
def hung(t):
    text = config_text(more='sampling:\n  interval: 100ms\n').replace('gpu:\n', 'gpu:\n  hang: 300ms\n')
    a = Agent(t, text)
    a.pretend('gpus=8,hang=DeviceGetMemoryInfo_v2')
    a.wait_metric('gpuscope_driver_state{state="hung"}', lambda v: v == 1)
    m = a.metrics()
    t.equal('no stale value', [k for k in m if k.startswith('gpuscope_gpu_power')], [])
    t.equal('alive', a.get('/healthz')[0], 200)
    t.equal('not ready', a.get('/readyz')[0], 503)
    a.wait_metric('gpuscope_agent_samples_missed_total{cause="driver"}', lambda v: v >= 1)
    a.pretend('gpus=8')
    a.wait_metric('gpuscope_driver_state{state="ok"}', lambda v: v == 1, 60)
    # A machine with other work may let a call take as long as one that hangs.
    a.wait_metric('gpuscope_gpu_power_watts' + gpu_labels(0, ',kind="average"'), lambda v: v == 300, 60)
    a.stop()


@case('SIGUSR1 releases the driver, SIGUSR2 reattaches', needs=None)
def release(t):
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\n'))
    a.signal(signal.SIGUSR1)
    a.wait_metric('gpuscope_driver_state{state="released"}', lambda v: v == 1)
    t.equal('no stale value', [k for k in a.metrics() if k.startswith('gpuscope_gpu_power')], [])
    t.equal('alive', a.get('/healthz')[0], 200)
    status, _, body = a.get('/readyz')
    t.true('not ready, and why', status == 503 and b'released' in body, body)
    a.signal(signal.SIGUSR2)
    a.wait_metric('gpuscope_driver_state{state="ok"}', lambda v: v == 1)
    t.equal('ready', a.get('/readyz')[0], 200)
    # Let go of, it stays so over a reload that opens the driver's library anew.
    a.signal(signal.SIGUSR1)
    a.wait_metric('gpuscope_driver_state{state="released"}', lambda v: v == 1)
    a.write(config_text(listen=a.address, more='sampling:\n  interval: 100ms\n  gpm:\n    enabled: false\n'))
    a.signal(signal.SIGHUP)
    a.wait_err('configuration read again')
    a.wait_metric('gpuscope_driver_state{state="released"}', lambda v: v == 1)
    a.signal(signal.SIGUSR2)
    a.wait_metric('gpuscope_driver_state{state="ok"}', lambda v: v == 1)
    a.stop()


@case('without a driver health is served, and the reason', needs=None)
def no_driver(t):
    a = Agent(t, config_text(lib=t.path('no-such-library.so')))
    t.equal('alive', a.get('/healthz')[0], 200)
    status, _, body = a.get('/readyz')
    t.true('not ready, and why', status == 503 and b'no_library' in body, body)
    m = a.metrics()
    t.equal('state', m['gpuscope_driver_state{state="no_library"}'], 1)
    t.equal('no GPU', [k for k in m if k.startswith('gpuscope_gpu_power')], [])
    a.stop()


@case('groups that are not due are not read; the interval grows while nothing changes', timeout=90, needs=None)
def adaptive(t):
    more = ('sampling:\n  interval: 100ms\n'
            '  health:\n    interval: 100ms\n    max_interval: 1h\n'
            '  links:\n    interval: 1h\n'
            '  gpm:\n    enabled: false\n')  # fmt: skip
    a = Agent(t, config_text(more=more))
    reads = 'gpuscope_agent_group_reads_total{group="%s"}'
    a.wait_metric(reads % 'basic', lambda v: v >= 30)
    m = a.metrics()
    # Doubling: 30 turns of 100 ms are at most 6 readings of something that never changes.
    t.true('health backs off', 2 <= m[reads % 'health'] <= 12 and m[reads % 'health'] * 3 < m[reads % 'basic'], m[reads % 'health'])
    t.true('its interval', m['gpuscope_agent_group_interval_seconds{group="health"}'] >= 0.8)
    t.equal('links', m[reads % 'links'], 1)
    t.equal('off', m[reads % 'gpm'], 0)
    t.true('off: no values', not [k for k in m if 'sm_active' in k])
    t.equal('kept between readings', m['gpuscope_gpu_row_remaps_total' + gpu_labels(2, ',kind="correctable"')], 2)
    t.equal('kept between readings', m['gpuscope_gpu_nvlink_active_links' + gpu_labels(1)], 17)
    # Off after a reload: its last values are not served for ever.
    a.write(config_text(listen=a.address, more=more.replace('1h\n  gpm', '1h\n    enabled: false\n  gpm')))
    a.signal(signal.SIGHUP)
    a.wait_err('configuration read again')
    a.wait_metric('gpuscope_gpu_power_watts' + gpu_labels(0, ',kind="average"'), lambda v: v == 300)
    t.equal('no values of before', [k for k in a.metrics() if 'nvlink_active' in k], [])
    a.stop()


@case('processes: bounded, the rest is counted, or none at all', needs=None)
def processes(t):
    pids = [os.getpid(), os.getppid(), 1, *range(100000, 100020)]
    what = f'gpus=2,pids={":".join(map(str, pids))}'
    a = Agent(t, config_text(more='metrics:\n  max_processes: 5\n'), what=what)
    wait_until(lambda: 'gpuscope_gpu_processes' + gpu_labels(0) in a.metrics(), 20, 'processes')
    m = a.metrics()
    shown = [k for k in m if k.startswith('gpuscope_gpu_process_memory_used_bytes')]
    total = m['gpuscope_gpu_processes' + gpu_labels(0)] + m['gpuscope_gpu_processes' + gpu_labels(1)]
    t.equal('shown', len(shown), 5)
    t.true('all are counted', total >= 5, total)
    if total > 5:
        t.true('dropped', a.metrics()['gpuscope_agent_processes_dropped_total'] >= total - 5)
    a.stop()
    a = Agent(t, config_text(more='metrics:\n  processes: false\n'), what=what)
    t.equal('none', [k for k in a.metrics() if k.startswith('gpuscope_gpu_process_')], [])
    a.stop()


def secret(t, name, text, mode=0o600):
    with open(t.path(name), 'w') as f:
        f.write(text)
    os.chmod(t.path(name), mode)
    return t.path(name)


def curl(*args):
    done = subprocess.run(['curl', '-sS', '--max-time', '20', '-o', '/dev/null', '-w', '%{http_code}', *args],
                          capture_output=True, text=True)  # fmt: skip
    return done.stdout, done.returncode


@case('TLS, client certificates, tokens and passwords, with curl and Prometheus', timeout=150, needs=None)
def tls(t):
    need('curl')
    certificates(t)
    more = (f'  tls_cert: {t.path("server.pem")}\n  tls_key: {t.path("server.key")}\n'
            f'  token_file: {secret(t, "tokens", "# rotated" + chr(10) + "s3cret-one" + chr(10) + "s3cret-two" + chr(10))}\n'
            f'  basic_auth_file: {secret(t, "users", "prom:pass:word" + chr(10))}\n')  # fmt: skip
    a = Agent(t, config_text(more=more))
    t.match('start line', r'https://127\.0\.0\.1:\d+/metrics \(TLS, token or password\)', a.err_text())
    url, ca = f'https://{a.address}/metrics', ('--cacert', t.path('ca.pem'))
    t.equal('no authorization', curl(*ca, url), ('401', 0))
    t.equal('health needs none', curl(*ca, f'https://{a.address}/healthz'), ('200', 0))
    t.equal('what there is not is not told', curl(*ca, f'https://{a.address}/nothing'), ('401', 0))
    for token, wanted in (('s3cret-one', '200'), ('s3cret-two', '200'), ('s3cret-thr', '401'), ('s3cret', '401'),
                          ('', '401'), ('s3cret-one ', '200'), ('# rotated', '401'), ('x' * 5000, '401')):  # fmt: skip
        t.equal(f'token {token[:20]!r}', curl(*ca, '-H', f'Authorization: Bearer {token}', url), (wanted, 0))
    t.equal('password', curl(*ca, '-u', 'prom:pass:word', url), ('200', 0))
    t.equal('wrong password', curl(*ca, '-u', 'prom:pass', url), ('401', 0))
    t.equal('unknown CA', curl(url)[1], 60)
    t.equal('plain HTTP on it', curl(f'http://{a.address}/metrics')[0], '400')
    for version, wanted in (('1.1', 35), ('1.2', 0), ('1.3', 0)):
        t.equal(f'TLS {version}', curl(*ca, f'--tlsv{version}', '--tls-max', version, '-u', 'prom:pass:word', url)[1], wanted)
    if shutil.which('prometheus'):
        p = Prometheus(t, {'job_name': 'gpuscope', 'scheme': 'https', 'static_configs': [{'targets': [a.address]}],
                           'tls_config': {'ca_file': t.path('ca.pem')},
                           'authorization': {'credentials': 's3cret-two'}})  # fmt: skip
        p.wait_scrapes(2)
        t.equal('Prometheus', [(x['health'], x['lastError']) for x in p.targets()], [('up', '')])
        t.equal('its answer', p.ask('count(gpuscope_gpu_info)', 'x'), {'': 8})
    # A new token after a reload, the old one is gone.
    secret(t, 'tokens', 'fresh\n')
    a.signal(signal.SIGHUP)
    a.wait_err('configuration read again')
    wait_until(lambda: curl(*ca, '-H', 'Authorization: Bearer fresh', url) == ('200', 0), 20, 'the new token')
    t.equal('the old token', curl(*ca, '-H', 'Authorization: Bearer s3cret-one', url), ('401', 0))
    a.write(config_text(listen=a.address, more=more + f'  tls_client_ca: {t.path("ca.pem")}\n'))
    a.stop()
    a = Agent(t, config_text(more=more + f'  tls_client_ca: {t.path("ca.pem")}\n'))
    url = f'https://{a.address}/healthz'
    t.true('no client certificate', curl(*ca, url)[1] != 0)
    t.equal('with one', curl(*ca, '--cert', t.path('client.pem'), '--key', t.path('client.key'), url), ('200', 0))
    a.stop()


@case('a reload keeps serving; a bad configuration changes nothing and is told', needs=None)
def reload(t):
    patient = '  timeout: 300s\n'  # of http: for the connection that says nothing at first
    a = Agent(t, config_text(more=patient + 'sampling:\n  interval: 1s\n'))
    address = a.address
    # A connection that stays open over both reloads.
    c = socket.create_connection(address.split(':'))
    a.write(config_text(listen='127.0.0.1:0', more=patient + 'sampling:\n  interval: 200ms\nmetrics:\n  compat: dcgm\n'))
    a.signal(signal.SIGHUP)
    a.wait_err('configuration read again')
    wait_until(lambda: any(k.startswith('DCGM') for k in a.metrics()), 20, 'the new names')
    t.equal('the address stays', re.findall(r'://([^/]+)/', a.err_text()), [address] * 2)
    t.equal('interval', a.metrics()['gpuscope_agent_group_interval_seconds{group="basic"}'], 0.2)
    a.write('sampling:\n  intervall: 100ms\n')
    a.signal(signal.SIGHUP)
    a.wait_err(r'the old configuration stays in use: \S+:2:3: unknown key "intervall" in sampling; did you mean "interval"\?')
    m = a.metrics()
    t.equal('still the old', m['gpuscope_agent_group_interval_seconds{group="basic"}'], 0.2)
    t.equal('told in metrics', (m['gpuscope_agent_config_last_reload_successful'],
                                m['gpuscope_agent_config_reloads_total{result="failed"}']), (0, 1))  # fmt: skip
    c.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    t.match('the open connection', r'^HTTP/1.1 200 OK', c.recv(4096).decode())
    port = free_port()
    a.write(config_text(listen=f'127.0.0.1:{port}'))
    a.signal(signal.SIGHUP)
    a.wait_err(rf'configuration read again; served at http://127.0.0.1:{port}/')
    a.address = f'127.0.0.1:{port}'
    wait_until(lambda: reaches(a), 20, 'the new address')
    # The same port on all addresses: the agent's own socket is in the way.
    a.write(config_text(listen=f'*:{port}'))
    a.signal(signal.SIGHUP)
    a.wait_err(rf'configuration read again; served at http://(\[::\]|0\.0\.0\.0):{port}/')
    wait_until(lambda: reaches(a), 20, 'all addresses')
    # One that another program has: everything stays.
    taken = socket.socket()
    taken.bind(('127.0.0.1', 0))
    taken.listen()
    a.write(config_text(listen=f'127.0.0.1:{taken.getsockname()[1]}'))
    a.signal(signal.SIGHUP)
    a.wait_err('the old configuration stays in use: cannot listen on .*: another program does')
    t.true('still there', reaches(a))
    a.stop()


def reaches(a):
    try:
        return a.get('/healthz')[0] == 200
    except OSError:
        return False


BAD = [
    ('sampling:\n  interval: 10\n',
     '2:13: interval takes a duration from 100ms to 1h, such as 500ms, 2s or 1m, not "10"'),
    ('sampling:\n  interval: 99ms\n',
     '2:13: interval takes a duration from 100ms to 1h, such as 500ms, 2s or 1m, not "99ms"'),
    ('processes:\n  gpu_use_max: long\n', '2:16: gpu_use_max takes 0, or a duration up to 24h, such as 500ms, 2s or 1m, not "long"'),
    ('devices:\n  grant: everything\n', '2:10: grant takes one of none, self, jobs, not "everything"'),
    ('devices:\n  interval: 1ms\n', '2:13: interval takes a duration from 1s to 1h, such as 500ms, 2s or 1m, not "1ms"'),
    ('sampling:\n  interval: [1s]\n',
     '2:13: interval takes a duration from 100ms to 1h, such as 500ms, 2s or 1m, not a list'),
    ('sampling:\n  basic:\n    interval: 20ms\n', '3:5: interval takes 0 or at least 100ms'),
    ('sampling:\n  health:\n    interval: 1m\n    max_interval: 10s\n',
     '4:5: max_interval is shorter than the interval of the group'),
    ('sampling:\n  gpm:\n    threshold: 2\n', '3:16: threshold takes a share from 0 to 1, or from 0% to 100%, not "2"'),
    ('sampling:\n  gmp:\n    threshold: 2%\n', '2:3: unknown key "gmp" in sampling; did you mean "gpm"?'),
    ('sampling:\n  events: perhaps\n', '2:11: events takes true or false, not "perhaps"'),
    ('htpp:\n  listen: "*:1"\n', '1:1: unknown key "htpp"; did you mean "http"?'),
    ('http:\n  nonsense: 1\n', '2:3: unknown key "nonsense" in http; `--print-config` shows all keys'),
    ('http: 8080\n', '1:7: http takes keys and values, not a single value'),
    ('http:\n  listen: 8080\n',
     '2:11: listen takes an address such as 127.0.0.1:14780, [::1]:14780 or *:14780, not "8080"'),
    ('http:\n  listen: "::1:80"\n',
     '2:11: listen takes an address such as 127.0.0.1:14780, [::1]:14780 or *:14780, not "::1:80"'),
    ('http:\n  max_connections: 0\n', '2:20: max_connections takes a whole number from 1 to 4096, not "0"'),
    ('http:\n  timeout: 1s\n  timeout: 2s\n', '3:3: http.timeout is given twice, first on line 2'),
    ('http:\n  tls_cert: /c.pem\n', '2:3: tls_cert without tls_key: TLS needs both'),
    ('http:\n  tls_key: /k.pem\n', '2:3: tls_key without tls_cert: TLS needs both'),
    ('http:\n  tls_client_ca: /k.pem\n', '2:3: tls_client_ca without tls_cert and tls_key: there is no TLS'),
    ('metrics:\n  compat: dcmg\n', '2:11: compat takes one or several of native, dcgm, dcgm-new, not "dcmg"'),
    ('metrics:\n  max_processes: many\n', '2:18: max_processes takes a whole number from 0 to 10000, not "many"'),
    ('metrics:\n  hostname: "a\\nb"\n', '2:13: hostname takes a text of at most 255 bytes, not "a?b"'),
    ('metrics:\n\tlinks: true\n', '2:1: not YAML: found character that cannot start any token while scanning for the next token'),
    ('metrics: {links: true\n', '2:1: not YAML: did not find expected \',\' or \'}\' while parsing a flow mapping'),
    ('metrics:\n  links: true\n---\nhttp:\n', '4:1: a second document ("---"): a configuration has one'),
    ('- http\n', '1:1: a configuration takes keys and values, not a list'),
    ('? [a]\n: b\n', '1:3: a key is a plain word'),
    ('metrics:\n  hostname: "\udcff"\n', '2:14: not UTF-8 text: invalid leading UTF-8 octet'),
]  # fmt: skip


@case('bad configurations: file, line, column, and what is expected', needs=None)
def bad_configurations(t):
    path = t.path('agent.yaml')
    for text, message in BAD:
        with open(path, 'w', errors='surrogateescape') as f:
            f.write(text)
        for args in (['--check-config'], []):
            run = t.tool('agent', '-c', path, *args, status=2)
            t.equal(repr(text), run.err, f'gpuscope: agent: {path}:{message}\n')
    with open(path, 'w') as f:
        f.write('http:\n  timeout: soon\n  lisen: ""\nmetrics:\n  compat: dcmg\n')
    told = t.tool('agent', '-c', path, '--check-config', status=2).err.splitlines()
    t.equal('all of them, each in a line', [line.split(': ')[2] for line in told],
            [f'{path}:2:12', f'{path}:3:3', f'{path}:5:11'])  # fmt: skip
    with open(path, 'w') as f:
        f.write('')
    t.equal('an empty one', t.tool('agent', '-c', path, '--check-config', status=0).out, f'{path}: ok\n')
    t.match('no such file', r'^gpuscope: agent: cannot read the configuration \S+: No such file or directory\n$',
            t.tool('agent', '-c', t.path('none'), status=1).err)  # fmt: skip
    t.match('--interval', r'--interval takes a time from 100ms to 1h.*, not "soon"', t.tool('agent', '--interval', 'soon', status=2).err)
    t.match('--listen', r'--listen: listen takes an address such as .*, not "here"', t.tool('agent', '--listen', 'here', status=2).err)
    default = t.tool('agent', '--print-config', status=0).out
    with open(path, 'w') as f:
        f.write(default)
    t.tool('agent', '-c', path, '--check-config', status=0)
    t.true('every line of the default is commented or a key', default.count('# ') > 30)


@case('what cannot be started says so in one line', needs=None)
def not_started(t):
    certificates(t)
    taken = socket.socket()
    taken.bind(('127.0.0.1', 0))
    taken.listen()
    port = taken.getsockname()[1]
    path = t.path('agent.yaml')

    def refused(more, pattern, status, listen='127.0.0.1:0', check=True):
        with open(path, 'w') as f:
            f.write(config_text(listen=listen, more=more))
        run = t.tool('agent', '-c', path, status=status)
        t.match(more or listen, '^gpuscope: agent: ' + pattern + '\n$', run.err)
        if check:
            t.equal(f'--check-config: {more}', t.tool('agent', '-c', path, '--check-config', status=2).err, run.err)

    refused('', rf'cannot listen on 127.0.0.1:{port}: another program does \(`ss -ltnp` shows which\); choose another port '
                r'in http.listen', 1, f'127.0.0.1:{port}', False)  # fmt: skip
    refused('', r'cannot listen on 192.0.2.77:14780: Cannot assign requested address', 1, '192.0.2.77:14780', False)
    refused(f'  token_file: {t.path("none")}\n', r'cannot read the file of tokens \S+: No such file or directory', 1)
    refused(f'  token_file: {secret(t, "open", "x" + chr(10), 0o644)}\n',
            r'the file of tokens \S+: others can read or change it; chmod 0600 it', 3)  # fmt: skip
    refused(f'  token_file: {secret(t, "empty", "# nothing" + chr(10))}\n',
            r'the file of tokens \S+ is empty: one on each line', 1)  # fmt: skip
    refused(f'  basic_auth_file: {secret(t, "users", "a:b" + chr(10) + "nobody" + chr(10))}\n',
            r'\S+:2:1: a line is USER:PASSWORD', 1)  # fmt: skip
    server = f'  tls_cert: {t.path("server.pem")}\n'
    refused(server + f'  tls_key: {t.path("client.key")}\n',
            r'the key \S+client.key does not belong to the certificate \S+server.pem', 1)  # fmt: skip
    refused(server + f'  tls_key: {t.path("none")}\n', r'cannot read the key \S+: No such file or directory', 1)
    refused(server + f'  tls_key: {t.path("san")}\n', r'\S+san holds no private key in PEM', 1)
    refused(f'  tls_cert: {t.path("san")}\n  tls_key: {t.path("server.key")}\n',
            r'\S+san holds no certificate in PEM that can be used', 1)  # fmt: skip
    subprocess.run(['openssl', 'rsa', '-aes128', '-passout', 'pass:abcd', '-in', 'server.key', '-out', 'locked.key'],
                   check=True, capture_output=True, cwd=t.tmp)  # fmt: skip
    refused(server + f'  tls_key: {t.path("locked.key")}\n',
            r'the key \S+ is encrypted: one without a passphrase is needed', 1)  # fmt: skip
    os.chmod(t.path('server.key'), 0o644)
    refused(server + f'  tls_key: {t.path("server.key")}\n',
            r'the key \S+server.key: others can read or change it; chmod 0600 it', 3)  # fmt: skip
    if os.geteuid() == 0 and int(read_text('/proc/sys/net/ipv4/ip_unprivileged_port_start')) > 80:
        with open(path, 'w') as f:
            f.write(config_text(listen='127.0.0.1:80'))
        os.chmod(path, 0o644)
        # The program may lie where only root can go.
        copy = shutil.copy(harness.gpuscope, t.path('gpuscope'))
        os.chmod(copy, 0o755)
        run = subprocess.run([copy, 'agent', '-c', path], capture_output=True, text=True, user=65534, group=65534,
                             env=t.envs(None), timeout=60, cwd='/')  # fmt: skip
        t.equal('status of port 80', run.returncode, 3)
        t.match('port 80', r'ports below 1024 need root or CAP_NET_BIND_SERVICE', run.stderr)


def raw(a, data, seconds=300, wait=True):
    """Everything the server answers until it closes."""
    with socket.create_connection(a.address.split(':'), timeout=seconds) as s:
        s.sendall(data)
        got = b''
        while wait:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
    return got


@case('ninety slow requests of others keep no client from its answer', needs=None)
def slow_requests(t):
    a = Agent(t, config_text())
    slow = [socket.create_connection(a.address.split(':')) for _ in range(90)]
    for s in slow:
        s.sendall(b'GET /metrics HTTP/1.1\r\nHost: loc')
    t.equal('answers', [a.get('/healthz')[0] for _ in range(20)], [200] * 20)
    for s in slow:
        s.close()
    a.stop()


@case('clients that are slow, large, many or wrong do not hurt the others', timeout=90, needs=None)
def clients(t):
    a = Agent(t, config_text(more='  max_connections: 8\n  timeout: 2s\n'))
    close = b'Connection: close\r\n\r\n'
    for what, data, status in (
        ('no request', b'hello\r\n\r\n', 400),
        ('no host', b'GET / HTTP/1.1\r\n\r\n', 400),
        ('another host', b'GET /healthz HTTP/1.1\r\nHost: evil.example\r\n' + close, 421),
        ('a host that is none', b'GET /healthz HTTP/1.1\r\nHost: a@localhost\r\n' + close, 400),
        ('two lengths', b'GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400),
        ('chunked', b'GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n', 501),
        ('version', b'GET / HTTP/2.0\r\nHost: localhost\r\n\r\n', 505),
        ('a folded header', b'GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n', 400),
        ('a zero', b'GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n', 400),
        ('a large head', b'GET / HTTP/1.1\r\nHost: localhost\r\nX: ' + b'a' * 40000 + b'\r\n\r\n', 431),
        ('an endless line', b'GET /' + b'a' * 100000, 431),
        ('many headers', b'GET / HTTP/1.1\r\nHost: localhost\r\n' + b'X: 1\r\n' * 100 + b'\r\n', 431),
        ('a body', b'POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n' + b'x' * 100000, 413),
        ('a method', b'BREW /metrics HTTP/1.1\r\nHost: localhost\r\n' + close, 405),
        ('post', b'POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n' + close, 405),
        ('nowhere', b'GET /metrics/../x HTTP/1.1\r\nHost: localhost\r\n' + close, 404),
        ('HTTP/1.0', b'GET /healthz HTTP/1.0\r\n\r\n', 200),
        ('absolute', b'GET http://localhost/healthz?x=1 HTTP/1.1\r\nHost: localhost\r\n' + close, 200),
        ('encoded', b'GET /%68ealthz HTTP/1.1\r\nHost: localhost\r\n' + close, 200),
        ('half a request', b'GET /healthz HTTP/1.1\r\n', 408),
    ):  # fmt: skip
        got = raw(a, data)
        t.match(what, rf'^HTTP/1\.1 {status} ', got.decode('latin1')[:200])
    t.equal('silence', raw(a, b''), b'')
    # Head without body, twice over one connection, the second asked for at once.
    got = raw(a, b'HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n' + close).decode()
    t.equal('two answers', [x.split(' ')[1] for x in re.findall(r'HTTP/1.1 \d+', got)], ['200', '200'])
    t.true('no body of HEAD', 'gpuscope_' not in got and got.endswith('ok\n'))
    # Clients that ask and do not read, and that ask for nothing, as many as there may be.
    slow = [socket.create_connection(a.address.split(':')) for _ in range(30)]
    for s in slow[:4]:
        s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n' * 20)
    wait_until(lambda: reaches(a), 20, 'another client')
    m = {}

    # While all places of this address are at work, one more gets 503, or nothing, and asks again.
    def scrape():
        try:
            status, _, body = a.get()
        except OSError:
            return m
        m.update(parse(body.decode()) if status == 200 else {})
        return m

    wait_until(scrape, 20, 'a scrape')
    t.true('told', m['gpuscope_agent_http_connections_ended_total{reason="evicted"}'] >= 1)
    t.true('told', m['gpuscope_agent_http_connections_ended_total{reason="too_slow"}'] >= 1)
    # Those that made room are open until they have read why.
    wait_until(lambda: scrape()['gpuscope_agent_http_open_connections'] <= 8, 20, 'eight open connections')
    for s in slow:
        s.close()
    a.stop()


@case('systemd hears READY, RELOADING, WATCHDOG and STOPPING', needs=None)
def notify(t):
    path = t.path('notify')
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(path)
    s.settimeout(300)
    a = Agent(t, env={'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '200000'})
    words = []

    def until(word):
        while word not in words:
            words.extend(s.recv(4096).decode().splitlines())

    until('READY=1')
    until('WATCHDOG=1')
    words.clear()
    a.signal(signal.SIGHUP)
    until('RELOADING=1')
    t.true('when', any(re.match(r'MONOTONIC_USEC=\d+$', w) for w in words), words)
    until('READY=1')
    a.stop()
    until('STOPPING=1')


@case('20 s at 10 Hz with 8 GPUs, scraped a thousand times: memory stays', timeout=90, needs=None)
def soak(t):
    if harness.is_asan():
        raise Skip('ASan keeps freed memory')
    # Jobs of a Slurm that may run here would come and go meanwhile.
    a = Agent(t, config_text(more='sampling:\n  interval: 100ms\njobs:\n  slurm: false\n'))

    def memory():
        """Memory that it asked for, in or out of RAM: what is resident of its file comes and goes with the machine's needs."""
        a.metrics()
        status = read_text(f'/proc/{a.pid}/status')
        return sum(int(re.search(rf'^{key}:\s+(\d+) kB', status, re.M).group(1)) << 10 for key in ('RssAnon', 'VmSwap'))

    def paced(n):
        """n turns, 30 ms each or longer: as fast as they come they would take a whole processor from other tests."""
        began = time.monotonic()
        for i in range(n):
            yield i
            time.sleep(max(0, began + 0.03 * (i + 1) - time.monotonic()))

    for _ in paced(170):
        memory()
    # As many readings as a quiet machine has made by then.
    a.wait_metric('gpuscope_agent_samples_total', lambda v: v >= 50)
    before = memory()
    for _ in paced(500):
        memory()
        a.get(headers={'Accept-Encoding': 'gzip', 'Accept': 'application/openmetrics-text'})
    after = a.metrics()
    grown = memory() - before
    t.true('growth', grown <= 512 << 10, grown)
    t.true('below 24 MiB', after['gpuscope_agent_resident_memory_bytes'] < 24 << 20)
    t.note(f'{after["gpuscope_agent_resident_memory_bytes"] / MIB:.1f} MiB, grown by {grown / 1024:.0f} KiB, '
           f'{after["gpuscope_agent_samples_total"]:.0f} samples, {after["gpuscope_agent_scrapes_total"]:.0f} scrapes')  # fmt: skip
    a.stop()


if __name__ == '__main__':
    main()
