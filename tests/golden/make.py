#!/usr/bin/env python3
"""Make the inputs of tests/golden/VERSION: recordings and a head's data, as that version writes them.

usage: tests/golden/make.py GPUSCOPE FAKE      as root; FAKE: the folder tests/fake of the build

For a new version alone: what an older one wrote stays as it is. Then tests/e2e/compat.py with GPUSCOPE_GOLDEN_WRITE=1 writes the shapes
beside them. No path of a machine may be in them, so all runs in /tmp/demo.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = '/tmp/demo'
ENV = {'PATH': '/usr/bin:/bin', 'HOME': DEMO, 'FAKE_NVML': 'gpus=2', 'LD_LIBRARY_PATH': DEMO, 'LANG': 'C.UTF-8'}
NVML = ('--nvml', f'{DEMO}/libnvidia-ml.so.1')
PROGRAMS = ('demo_train', 'fake_torch', 'libnvidia-ml.so.1', 'libcuda.so.1', 'libcudart.so.13', 'libnccl.so.2', 'libtorch_cpu.so', 'libc10_cuda.so')


def run(*words):
    subprocess.run(words, cwd=DEMO, env=ENV, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)


def started(words, log, pattern):
    """A daemon of which this has been said."""
    with open(log, 'w') as f:
        proc = subprocess.Popen(words, cwd=DEMO, env=ENV, stdout=subprocess.DEVNULL, stderr=f)
    for _ in range(600):
        match = re.search(pattern, open(log).read())
        if match:
            return proc, match
        time.sleep(0.1)
    proc.kill()
    raise SystemExit(f'{words[1]} said nothing: {open(log).read()}')


def stop(proc):
    proc.terminate()
    proc.wait(60)


def make_session(tool):
    head, match = started([tool, 'head', '--data', 'head', '--listen', '127.0.0.1:0', '--http-port', '0'], f'{DEMO}/head.log', r'head on (\S+),')
    where = ('--head', match[1])
    node, _ = started([tool, 'connect', match[1], *NVML, '--machine-id', 'golden-node', '--memory-max', '1M', '--no-args'], f'{DEMO}/node.log', 'connected to')
    run(tool, 'session', 'start', 'golden', '--interval', '0.2', '--enable-bandwidth', '--enable-nvlink', *where)
    time.sleep(1)
    run(tool, 'session', 'annotate', 'a step', 'loss=0.5', *where)
    run(tool, 'session', 'stop', 'golden', *where)
    stop(node)
    stop(head)
    with open(f'{DEMO}/head/head.db', 'rb') as f:
        return gzip.compress(f.read(), 9, mtime=0)


def main():
    gpuscope, fake = sys.argv[1:]
    version = subprocess.run([gpuscope, '--version'], capture_output=True, text=True, check=True).stdout.split()[1]
    out = f'{HERE}/{version}'
    shutil.rmtree(DEMO, ignore_errors=True)
    os.makedirs(DEMO)
    os.makedirs(out, exist_ok=True)
    for name in PROGRAMS:
        shutil.copy(f'{fake}/{name}', DEMO)
    tool = shutil.copy(gpuscope, f'{DEMO}/gpuscope')
    run(tool, 'trace', '-q', '-o', f'{out}/run.gst', *NVML, '--', './demo_train', '--steps', '6')
    run(tool, 'trace', '-q', '-o', f'{out}/ops.gst', '--op', '*', '--layer', 'cuda,torch', *NVML, '--', './fake_torch', '3')
    run(tool, 'top', '--once', '-n', '3', '-i', '0.1', '--no-args', '--record', f'{out}/node.gst', *NVML)
    run(tool, 'job', '-p', str(os.getppid()), '-d', '0.5', '--no-args', '-o', f'{out}/job.json', *NVML)
    for name in os.listdir(out):
        os.chmod(f'{out}/{name}', 0o644)
    with open(f'{out}/head.db.gz', 'wb') as f:
        f.write(make_session(tool))
    shutil.rmtree(DEMO)


if __name__ == '__main__':
    main()
