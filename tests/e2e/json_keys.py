#!/usr/bin/env python3
"""JSON of all commands: a version first, one key for one concept, and units at the end of quantities."""
import json
import os
import re
import subprocess
import sys

from cluster_help import Head
from harness import case, main
from top_help import nvml

MAKER = os.path.join(os.path.abspath(sys.argv[2]), '../e2e/explain_run')
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../golden/0.1.0')

# concept: (its key, other names that would be the same). Keys that another program's format has are left out below.
WORDS = {
    'arguments of a process': ('command', 'cmdline cmd command_line argv args'),
    'name of a thread or process': ('comm', 'process_name thread_name'),
    'process id': ('pid', 'process_id'),
    'thread id': ('tid', 'thread_id'),
    'begin, by the wall clock': ('start_time', 'start started started_at begin begun_at from_time'),
    'end, by the wall clock': ('end_time', 'end stopped stopped_at finished finished_at'),
    'boot clock': ('time_boot_ns', 'time_ns boot_ns timestamp ts timestamp_ns'),
    'exit status': ('exit_status', 'status_code exit_code returncode'),
    'memory of a process on a GPU': ('gpu_memory_bytes', 'used_bytes gpu_mem used_memory'),
    'version of gpuscope': ('gpuscope_version', 'program_version'),
    'a GPU in lists of others': ('gpu_uuid', 'gpu_id device_uuid'),
    'user id': ('uid', 'user_id'),
    'number of processors': ('cpus', 'n_cpus cpu_count ncpus'),
    'command to run next': ('see', 'hint next_command show_command'),
    'whether all is there': ('complete', 'is_complete truncated'),
}  # fmt: skip

# Words of quantities, and the ends that say the unit. NAME: what has another end, with the reason.
QUANTITY = re.compile(r'(^|_)(duration|latency|elapsed|interval|age|memory|power|energy|temperature|clock|bandwidth|speed|cost)(_|$)')
UNITS = re.compile(r'_(ns|ms|us|seconds|bytes|bytes_per_second|watts|joules|celsius|hertz|ratio|pct|percent|ppm|total|per_second|errors|pending|mask)$')
WITHOUT_UNIT = {
    'memory': 'a list of devices', 'memory_sites': 'a list', 'memory_measured': 'an object', 'bandwidth': 'whether it is recorded',
    'memory_clock_locked': 'a flag', 'recording_version': '', 'clock_offsets': 'an object',
}  # fmt: skip


def keys(value, at=''):
    if isinstance(value, dict):
        for key, member in value.items():
            yield key, f'{at}.{key}'
            yield from keys(member, f'{at}.{key}')
    elif isinstance(value, list):
        for member in value:
            yield from keys(member, at + '[]')


def documents(t):
    """{name: text} of one run; those whose keys belong to another program are in OTHERS."""
    gpu = ('--nvml', nvml())
    head = Head(t, '--http-port', '0')
    env = {'FAKE_NVML': 'gpus=2'}
    sleeper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])
    out = {}
    for name, words in {
        'report': ('report', f'{GOLDEN}/run.gst'), 'report operators': ('report', f'{GOLDEN}/ops.gst'), 'explain': ('explain', f'{GOLDEN}/run.gst'),
        'gpu': ('gpu', *gpu), 'gpu devices': ('gpu', '--devices', *gpu), 'top': ('top', '--once', '--jobs', '-a', *gpu),
        'top replay': ('top', '--once', '--replay', f'{GOLDEN}/node.gst'), 'probes': ('probes', nvml()), 'devices': ('devices', str(sleeper.pid)),
        'job': ('job', '-p', str(sleeper.pid), '-d', '0.5', *gpu), 'job compare': ('report', '--compare', f'{GOLDEN}/job.json'),
        'run compare': ('report', '--compare', f'{GOLDEN}/run.gst', f'{GOLDEN}/run.gst'), 'version': ('version',),
        'session list': ('session', 'list', '--head', head.address), 'session status': ('session', 'status', '--head', head.address),
        'session findings': ('session', 'findings', '--head', head.address), 'session start': ('session', 'start', 'keys', '--head', head.address),
    }.items():  # fmt: skip
        run = t.tool(*words, '--json', env=env)
        t.true(f'{name}: {run.err}', run.status in (0, 4) and run.out, run.err)
        out[name] = run.out
    sleeper.kill()
    sleeper.wait()
    head.stop()
    if os.path.exists(MAKER):
        subprocess.run([MAKER, t.path('slow.gst'), 'slow'], check=True, timeout=60)
        out['findings'] = t.tool('explain', t.path('slow.gst'), '--json', status=0).out
    return out


# Keys of ebpf-hpc-monitor's reports stay as that program has them.
OTHERS = ('job', 'job compare')


@case('a version first, one key for each concept, units', needs=None, timeout=200)
def names(t):
    seen = set()
    for name, text in documents(t).items():
        t.match(f'{name}: begins with its version', r'^\{\s*"version": ?\d+,', text)
        if name in OTHERS:
            continue
        for key, at in keys(json.loads(text)):
            seen.add(key)
            for concept, (word, others) in WORDS.items():
                t.true(f'{name}{at}: {concept} is "{word}"', key not in others.split(), at)
            if QUANTITY.search(key) and key not in WITHOUT_UNIT:
                t.true(f'{name}{at}: its unit is the end of its name', UNITS.search(key), at)
            t.true(f'{name}{at}: units are written out', not re.search(r'_(s|sec|secs|mb|kb|gb|mhz|hz|w|c)$', key), at)
            t.true(f'{name}{at}: small letters and _', re.fullmatch(r'[a-z0-9_]+|[a-z]+-[a-z]+', key) or '.lost.' in at or '.units' in at, at)
    for concept, (word, _) in WORDS.items():
        t.true(f'{concept}: {word} is in use', word in seen or word == 'exit_status', sorted(seen))


@case('the HTTP API has the same words', needs=None)
def api(t):
    with open(f'{GOLDEN}/api.openapi.shape', encoding='utf-8') as f:  # what tests/e2e/compat.py finds a head to answer
        paths = [line.split('\t')[0] for line in f if ' /api/v1/' in line]
    t.true('answers', len(paths) > 500, len(paths))
    for path in paths:
        key = path.rsplit('.', 1)[-1].replace('[]', '')
        for concept, (word, others) in WORDS.items():
            t.true(f'{path}: {concept} is "{word}"', key not in others.split(), path)


if __name__ == '__main__':
    main()
