"""Runs each case of harm.cc without gpuscope and beneath it, and compares what it printed and how it ended.

    python3 harm.py GPUSCOPE FOLDER [WORD]     only the cases that have the word in their names
"""

import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TIME_LIMIT_S = 60
ALONE_RUNS = 45  # of what ended otherwise than two untraced runs
WAYS = {
    'default': [],
    'events': ['-o', '{out}/{case}.gst'],
    'no return probes': ['--disable-feature', 'return-probes'],
    'multi links': ['--disable-feature', 'session'],
}


def program(folder):
    built = os.environ.get('HARM_PROGRAM')
    if built:
        return built
    compiler = shutil.which('g++') or shutil.which('clang++')
    if not compiler:
        sys.exit('SKIP: no compiler here, and no HARM_PROGRAM')
    built = os.path.join(folder, 'harm')
    subprocess.run([compiler, '-O2', '-o', built, os.path.join(HERE, 'harm.cc'), '-pthread', '-ldl'], check=True)
    return built


def cudart():
    """PyTorch's own, else CUDA's."""
    places = [p for base in sys.path for p in glob.glob(os.path.join(base, 'nvidia', '*', 'lib', 'libcudart.so.*'))]
    places += glob.glob('/usr/local/cuda*/lib64/libcudart.so.*') + glob.glob('/usr/local/cuda*/lib/libcudart.so.*')
    if not places:
        sys.exit('SKIP: no libcudart here')
    return places[0]


def run(command):
    """What it printed, and how it ended."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, errors='replace')
    except subprocess.TimeoutExpired:
        return 'hangs'
    # gpuscope ends with 128 and the signal's number, as a shell does.
    status = 128 - done.returncode if done.returncode < 0 else done.returncode
    return f'{done.stdout.strip()} [{status}]'


MANY_CALLS = re.compile(r'(\d+) cancelled \(first: -?\d+\), (\d+) of (\d+) released, (\d+) failed (.*)')


def same_end(got, wanted):
    """Whether it ended as one of the untraced runs did. Of calls that are made many times the driver lets itself be cancelled
    inside some, by chance: that number may differ. What was released, and how many failed, may not."""
    if got in wanted:
        return True
    here = MANY_CALLS.match(got)
    for other in filter(None, map(MANY_CALLS.match, wanted)):
        if not here or here.groups()[1:] != other.groups()[1:]:
            continue
        n, cancelled, expected = int(here.group(3)), int(here.group(1)), int(other.group(1))
        if n > 1 and (0 < expected < n or abs(cancelled - expected) < n / 10):
            return True
    return False


def ends_alone(command, got):
    """Whether the program ends so by itself now and then: a driver that is cancelled inside some calls can crash later."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for _ in range(ALONE_RUNS // 3):
            if any(same_end(got, {end}) for end in pool.map(run, [command] * 3)):
                return True
    return False


def beneath(gpuscope, folder, case, options):
    """The words in front of a program's that trace it this way."""
    name = case.replace(':', '_')
    options = [o.format(out=folder, case=name) for o in options]
    return [gpuscope, 'trace', '-q', '--summary', os.path.join(folder, name + '.txt'), *options, '--']


def main():
    gpuscope, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    word = sys.argv[3] if len(sys.argv) > 3 else ''
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists('/dev/nvidiactl') and 'HARM_PROGRAM' not in os.environ:
        sys.exit('SKIP: no GPU here')
    harm = program(folder)
    os.environ['HARM_CUDART'] = cudart()
    print('libcudart', os.environ['HARM_CUDART'])
    cases = subprocess.run([harm, 'list'], capture_output=True, text=True, check=True).stdout.split()
    first = subprocess.run([harm, 'contexts'], capture_output=True, text=True, check=True).stdout.split()
    if os.environ.get('HARM_CUBIN'):
        cases += first
    else:
        print('SKIP: most first calls: HARM_CUBIN is not set (`harm ptx >f.ptx; ptxas -arch=sm_90 -o f.cubin f.ptx`)')
        cases += [c for c in first if c.endswith(':jit')]
    cases = [c for c in cases if word in c]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        # Twice: where the program itself does not always end alike, either end will do.
        untraced = list(pool.map(lambda c: {run([harm, c]), run([harm, c])}, cases))
    traced = {case: {} for case in cases}
    for way, options in WAYS.items():
        # Three at a time, all of one way: what probes a library then has is of this way alone.
        chosen = [c for c in cases if way == 'default' or not c.startswith('cancel:') or 'StreamSynchronize:blocking' in c]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            ends = pool.map(lambda c: run(beneath(gpuscope, folder, c, options) + [harm, c]), chosen)
            for case, end in zip(chosen, ends):
                traced[case][way] = end
    for case, wanted in zip(cases, untraced):
        got = traced[case]
        wrong = {w: g for w, g in got.items() if not same_end(g, wanted) and not ends_alone([harm, case], g)}
        passed += len(got) - len(wrong)
        failed += len(wrong)
        print(f'{"ok" if not wrong else "NOT OK":7s} {case:55s} {" or ".join(sorted(wanted))}')
        for way, end in got.items():
            if end not in wanted:
                print(f'          {way}: {end}{"" if way in wrong else " (alike)"}')
    if not word:
        print('\nns a call, best of 20 times 500')
    tables = {} if word else {'untraced': run([harm, 'price'])}
    for way, options in WAYS.items() if not word else ():
        tables[way] = run(beneath(gpuscope, folder, 'price', options) + [harm, 'price'])
    for way, text in tables.items():
        print(f'{way}:\n' + '\n'.join('  ' + line for line in text.splitlines()))
    print(f'harm: {passed} passed, {failed} failed')
    return failed != 0


sys.exit(main())
