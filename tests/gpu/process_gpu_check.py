"""The checks of tests/gpu/process_gpu.sh: process_gpu_check.py GPUSCOPE FOLDER."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
gpuscope, out = sys.argv[1:3]
passed = failed = 0


def check(ok, what, detail=''):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f'{"ok" if ok else "not ok"} {what}: {detail}', flush=True)


def metrics():
    with urllib.request.urlopen(f'http://{address}/metrics', timeout=20) as f:
        text = f.read().decode()
    found = {}
    for line in text.splitlines():
        m = re.match(r'^([^ {#]+)(?:\{(.*)\})? (\S+)', line)
        if m:
            found[m[1], tuple(sorted(re.findall(r'(\w+)="([^"]*)"', m[2] or '')))] = float(m[3])
    return found


def value(m, name, pid, **labels):
    """Sum of the series of a process; None: there is none."""
    wanted = {'pid': str(pid), **labels}
    got = [v for (n, ls), v in m.items() if n == name and wanted.items() <= dict(ls).items()]
    return sum(got) if got else None


def growth(before, after, name, pid, **labels):
    return (value(after, 'gpuscope_process_gpu_' + name, pid, **labels) or 0) - (value(before, 'gpuscope_process_gpu_' + name, pid, **labels) or 0)


class Program:
    def __init__(self, name):
        self.folder = os.path.join(out, name)
        os.mkdir(self.folder)
        with open(self.folder + '.err', 'w', encoding='utf-8') as err:
            self.proc = subprocess.Popen([sys.executable, os.path.join(HERE, 'process_gpu.py'), self.folder], stderr=err)
        self.read('ready', 120)

    def read(self, name, seconds=90):
        end, path = time.monotonic() + seconds, os.path.join(self.folder, name)
        while not os.path.exists(path):
            if self.proc.poll() is not None or time.monotonic() > end:
                raise SystemExit(f'not ok {self.folder}: {name} does not come; see {self.folder}.err')
            time.sleep(0.02)
        with open(path, encoding='utf-8') as f:
            return json.load(f)

    def go(self, number):
        open(os.path.join(self.folder, f'go-{number}'), 'w', encoding='utf-8').close()

    def step(self, number):
        self.go(number)
        return self.read(f'done-{number}')

    def end(self):
        open(os.path.join(self.folder, 'end'), 'w', encoding='utf-8').close()
        self.proc.wait(60)


def ctl(*words):
    return subprocess.run([gpuscope, 'agent', 'ctl', '--control', socket, *words], capture_output=True, text=True)


def nvml_bytes(pid):
    text = subprocess.run(['nvidia-smi', '--query-compute-apps=pid,used_memory', '--format=csv,noheader,nounits'], capture_output=True, text=True).stdout
    rows = [line.split(',') for line in text.splitlines() if ',' in line]
    mine = [float(used) * 2**20 for p, used in rows if int(p) == pid]
    return mine[0] if mine else None


socket, conf = os.path.join(out, 'socket'), os.path.join(out, 'agent.yaml')
with open(conf, 'w', encoding='utf-8') as f:
    f.write(f'http:\n  listen: "127.0.0.1:0"\ncontrol:\n  path: "{socket}"\nsampling:\n  interval: 500ms\n')
agent = subprocess.Popen([gpuscope, 'agent', '-c', conf], stderr=open(os.path.join(out, 'agent.err'), 'wb'))
for _ in range(300):
    time.sleep(0.1)
    served = re.search(r'served at http://([^/]+)/metrics', open(os.path.join(out, 'agent.err'), encoding='utf-8').read())
    if served:
        break
address = served[1]
try:
    both = [Program('one'), Program('two')]
    pids = [p.proc.pid for p in both]
    alone = [p.step(1)['ns'] for p in both]
    for pid in pids:
        done = ctl('trace-gpu', str(pid), '--duration', '10m')
        check(done.returncode == 0, f'trace-gpu {pid}', (done.stdout + done.stderr).strip())
    end = time.monotonic() + 60
    while not metrics().get(('gpuscope_agent_process_gpu_probes', ()), 0) and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(2)

    def settled():
        time.sleep(2)
        return metrics()

    # One after the other: what a launch costs is not to be that of two programs on one GPU.
    for i, p in enumerate(both):
        before = settled()
        said = p.step(2)
        after = settled()
        got = growth(before, after, 'launches_total', pids[i], kind='kernel')
        check(got == said['kernels'], f'launches of {i}', f'{got:.0f} of {said["kernels"]}')
        for direction, key in (('HtoD', 'htod'), ('DtoH', 'dtoh')):
            copied = growth(before, after, 'copied_bytes_total', pids[i], direction=direction)
            check(copied == said[key], f'bytes {direction} of {i}', f'{copied:.0f} of {said[key]}')
        most, least = (growth(before, after, 'active_seconds_total', pids[i], bound=b) for b in ('max', 'min'))
        check(0 < least <= most, f'active bounds of {i}', f'{least:.3f} to {most:.3f} s; device truth is not known')
        print(f'# a launch of {i}: {alone[i]:.0f} ns alone, {said["ns"]:.0f} ns traced: {100 * (said["ns"] / alone[i] - 1):.1f} %')
    held = settled()
    for i, p in enumerate(both):
        said = p.step(3)
        after = settled()
        got = growth(held, after, 'allocated_bytes', pids[i], kind='device')
        check(said['reserved'] and abs(got / said['reserved'] - 1) <= 0.02, f'allocated by {i}', f'{got:.0f} of {said["reserved"]} reserved by PyTorch')
        driver, nvml = value(after, 'gpuscope_process_gpu_memory_bytes', pids[i]), nvml_bytes(pids[i])
        check(driver and nvml and abs(driver / nvml - 1) <= 0.02, f'memory of {i} beside NVML', f'{driver} and {nvml}')
        grown = (driver or 0) - (value(held, 'gpuscope_process_gpu_memory_bytes', pids[i]) or 0)
        check(got and abs(grown / got - 1) <= 0.02, f'growth of memory of {i}', f'{grown:.0f} by the driver, {got:.0f} by calls')
    before, start = settled(), time.monotonic()
    for p in both:
        p.go(4)
    util = {pid: [] for pid in pids}
    for _ in range(8):
        time.sleep(1)
        m = metrics()
        for pid in pids:
            v = value(m, 'gpuscope_gpu_process_utilization_ratio', pid, engine='sm')
            util[pid] += [v] if v is not None else []
    after, seconds = metrics(), time.monotonic() - start
    shares = []
    for i, pid in enumerate(pids):
        most, least = (growth(before, after, 'active_seconds_total', pid, bound=b) / seconds for b in ('max', 'min'))
        nvml = sum(util[pid]) / len(util[pid]) if util[pid] else None
        detail = f'{100 * least:.0f} to {100 * most:.0f} % (host-side bounds), NVML {"-" if nvml is None else f"{100 * nvml:.0f} %"} (device, SMs)'
        check(0 < least <= most <= 1.1 and (nvml is None or nvml <= most + 0.1), f'active share of {i}', detail)
        cores, share = (growth(before, after, n, pid) / seconds for n in ('core_seconds_total', 'core_share_seconds_total'))
        check(0 < share <= cores * 1.001, f'cores of {i}', f'{cores:.0f} used, {share:.0f} its share')
        shares.append(share)
        places = growth(before, after, 'occupied_seconds_total', pid) / seconds
        print(f'# thread places filled by {i}: {100 * places:.1f} % (known where kernels are in files)')
    union = [v for (n, _), v in after.items() if n == 'gpuscope_process_gpu_any_active_seconds_total']
    check(len(union) == 1, 'one GPU', f'{union}')
    for p in both:
        p.read('done-4')
        p.end()
    lost = metrics().get(('gpuscope_agent_process_gpu_lost_total', ()))
    check(lost == 0, 'nothing is lost', lost)
    cpu = metrics().get(('gpuscope_agent_process_gpu_cpu_seconds_total', ()))
    print(f'# processor time of the agent for it: {cpu:.2f} s')
    end = time.monotonic() + 20
    while (left := [value(metrics(), 'gpuscope_process_gpu_allocated_bytes', pid, kind='device') for pid in pids]) != [0, 0] and time.monotonic() < end:
        time.sleep(0.5)
    check(left == [0, 0], 'ended programs hold nothing', left)
finally:
    agent.terminate()
    agent.wait(60)
    print(f'process_gpu: {passed} passed, {failed} failed')
sys.exit(failed != 0)
