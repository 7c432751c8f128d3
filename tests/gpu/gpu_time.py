#!/usr/bin/env python3
"""See gpu_time.sh. With LOOP as the first word it is the traced loop."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time


def loop():
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    x = torch.randn(64, 512).cuda()
    print('ready', flush=True)
    n = 0
    while True:
        loss = (model(x) ** 2).mean()
        loss.backward()
        n += 1
        if n % 20 == 0:
            loss.item()


def check(title, ok, detail=''):
    print(('ok - ' if ok else 'not ok - ') + title, detail, flush=True)
    return not ok


def attach(gpuscope, pid, folder, *options):
    """A trace until its end after 14 s: how long it took, its summary, its words."""
    path = os.path.join(folder, 'summary.json')
    r = subprocess.run([gpuscope, 'trace', '-v', '-p', str(pid), '--duration', '14s', '--format', 'json', '--summary', path, *options],
                       capture_output=True, text=True, timeout=60)  # fmt: skip
    with open(path, encoding='utf-8') as f:
        return json.load(f), r.stderr


def main(gpuscope):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, 'KINETO_USE_DAEMON': '1', 'KINETO_LOG_LEVEL': '1'}
        words = os.path.join(folder, 'err')
        with open(words, 'w', encoding='utf-8') as err:
            job = subprocess.Popen([sys.executable, os.path.abspath(__file__), 'LOOP'], stdout=subprocess.PIPE, stderr=err, text=True, env=env)
        job.stdout.readline()
        trace = os.path.join(folder, 'run.json')
        summary, said = attach(gpuscope, job.pid, folder, '--gpu-time=1s', '-o', trace)
        print(said[-1500:])
        g = summary.get('gpu_time')
        failed += check('its profiler recorded', bool(g and g['kernels']), g and {k: v for k, v in g.items() if k not in ('kernels', 'devices')})
        if failed:
            with open(words, encoding='utf-8') as f:
                print(f.read()[-3000:])
            job.kill()
            return failed
        for k in g['kernels'][:6]:
            print('  ', k['runs'], k['total_ns'], k['name'][:90])
        d = g['devices'][0]
        print('  device', {k: d[k] for k in ('kernels', 'copies', 'fills', 'busy_ns')}, 'window', g.get('window_ns'))
        with open(trace, encoding='utf-8') as f:
            events = [e for e in json.load(f)['traceEvents'] if e.get('ph') == 'X']
        on_gpu = [e for e in events if e['cat'] == 'gpu' and e.get('args', {}).get('detail', '').startswith('grid ')]
        low, high = min(e['ts'] for e in on_gpu), max(e['ts'] for e in on_gpu)
        launches = sum(low <= e['ts'] <= high and e['name'].startswith(('cudaLaunchKernel', 'cuLaunchKernel')) for e in events)
        runs = sum(k['runs'] for k in g['kernels'])
        failed += check('each kernel is in the trace', runs == len(on_gpu), (runs, len(on_gpu)))
        failed += check('as many kernels as launches by probes in that time, within 2 %', abs(runs - launches) <= 0.02 * launches, (runs, launches))
        failed += check('the job goes on', job.poll() is None)
        left = [n for n in os.listdir('/tmp') if n.startswith('gpuscope-kineto-')]
        failed += check('nothing is left in /tmp', not left, left)
        job.send_signal(signal.SIGKILL)
        job.wait()
        plain = subprocess.Popen([sys.executable, os.path.abspath(__file__), 'LOOP'], stdout=subprocess.PIPE, text=True)
        plain.stdout.readline()
        time.sleep(1)
        _, said = attach(gpuscope, plain.pid, folder, '--gpu-time')
        failed += check('one that was started without the variable: said', 'no PyTorch profiler of process' in said, said[-300:])
        plain.kill()
        plain.wait()
    return failed


if sys.argv[1:] == ['LOOP']:
    loop()
sys.exit(bool(main(sys.argv[1] if len(sys.argv) > 1 else 'build/src/gpuscope')))
