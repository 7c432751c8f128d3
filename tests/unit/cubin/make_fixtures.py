#!/usr/bin/env python3
"""Makes fixtures/ again: fat binaries of sample.cu for several architectures in each packing that nvcc knows, and
usage.txt, what ptxas says that each kernel needs: the answers that the test compares with. Needs nvcc of CUDA 13.

usage: make_fixtures.py [NVCC]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ARCHITECTURES = ('75', '80', '90', '100', '120')
ALL_MODES = {'none': 'plain', 'speed': 'lz4', 'size': 'zstd'}


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def usage_of(text):
    """Lines of: architecture, name, registers, static shared bytes, bytes of stack."""
    entry = None
    stack = {}
    for line in text.split('\n'):
        found = re.search(r"Compiling entry function '(\S+)' for 'sm_(\d+)'", line)
        if found:
            entry = found[2], found[1]
        found = re.search(r'(\d+) bytes stack frame', line)
        if found:
            stack[entry] = int(found[1])
        found = re.search(r'Used (\d+) registers', line)
        if found:
            shared = re.search(r'(\d+) bytes smem', line)
            yield *entry, found[1], shared[1] if shared else '0', str(stack[entry])


def main():
    nvcc = sys.argv[1] if len(sys.argv) > 1 else 'nvcc'
    folder = HERE / 'fixtures'
    folder.mkdir(exist_ok=True)
    source = str(HERE / 'sample.cu')
    with tempfile.TemporaryDirectory() as scratch:
        text = ''
        for a in ARCHITECTURES:
            text += run(nvcc, '-cubin', '-arch=sm_' + a, '--resource-usage', '-o', scratch + '/x', source)
        for mode, name in ALL_MODES.items():
            words = [nvcc, '-fatbin', '--compress-mode=' + mode, '-Xfatbin', '-compress-all', '-o', str(folder / (name + '.fatbin'))]
            for a in ARCHITECTURES:
                words += ['-gencode', f'arch=compute_{a},code=sm_{a}']
            run(*words, '-gencode', 'arch=compute_120,code=compute_120', source)
    lines = sorted(' '.join(row) for row in usage_of(text))
    (folder / 'usage.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
