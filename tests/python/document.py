#!/usr/bin/env python3
"""doc/python.md and the README of the package: every example runs, and every name in the tables is there."""

import ast
import inspect
import os
import re
import subprocess

import package_help
import harness
from harness import case, main, read_text
from package_help import PACKAGE, ROOT

import gpuscope

DOCUMENT = os.path.join(ROOT, 'doc', 'python.md')
# `python3 train.py` of the examples: a program that makes these calls of the stand-in. It is linked with that, so that the probes are
# there before its first call.
TRAIN = r'''
#include <stddef.h>
#include <unistd.h>
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaDeviceSynchronize(void);
int main(void)
{
	void *p;

	for (int i = 1; i <= 4; i++)
		cudaMalloc(&p, 1000 * i);
	for (int i = 0; i < 50; i++)
		cudaDeviceSynchronize();
	return write(1, "trains\n", 7) != 7;
}
'''


def train(t):
    """The PATH on which python3 is that program."""
    os.makedirs(t.path('bin'))
    with open('train.c', 'w') as f:
        f.write(TRAIN)
    subprocess.run(['cc', 'train.c', '-o', t.path('bin', 'python3'), os.path.join(harness.fake, 'libcudart.so.13'), f'-Wl,-rpath,{harness.fake}'],
                   check=True)  # fmt: skip
    return t.path('bin') + ':' + os.environ['PATH']


def examples():
    return re.findall(r'(?ms)^```python\n(.*?)^```$', read_text(DOCUMENT))


@case('each example of the document runs, in its order', timeout=200)
def runs(t):
    env = {'LD_LIBRARY_PATH': harness.fake, 'FAKE_NVML': f'gpus=2,pids={os.getpid()}', 'PATH': train(t)}
    said = [package_help.script(t, text, **env).stdout for text in examples()]
    t.equal('examples', len(said), 5)
    for text, wanted in zip(said, (r'(?m)^\d+ \d+ \d+ $.*cudaMalloc 4 \d+ \d+$', r'python3 writes 7 bytes', r'\w+ \d+', r'(?m)^0 .* \d.*^ok ', r'^6 \[')):
        t.match('what an example prints', '(?s)' + wanted, text)


@case('the example of the package\'s README runs', timeout=90)
def readme(t):
    text = '\n'.join(line[4:] for line in read_text(os.path.join(PACKAGE, 'README.md')).splitlines() if line.startswith('    ') or not line)
    t.match('calls', r'(?m)^cudaMalloc \d+$', package_help.script(t, text, PATH=train(t)).stdout)


@case('arguments that the document names are those of trace(), and all of them', needs=None)
def arguments(t):
    text = read_text(DOCUMENT)
    named = set(re.findall(r'\b([a-z_]+)=', text.partition('| argument of `trace()` |')[2].partition('\n\n')[0])) - {'n_args', 'path'}
    there = set(inspect.signature(gpuscope.Trace.__init__).parameters) - {'self', 'command'}
    t.equal('named and not there', named - there, set())
    # Sizes of buffers are for those who lose records.
    t.equal('there and not named', there - named, {'ring_bytes', 'queue_items'})
    for text in examples():
        ast.parse(text)
    for name in gpuscope.__all__:
        t.true(f'{name} says what it is', name == '__version__' or getattr(gpuscope, name) == gpuscope.Record or getattr(gpuscope, name).__doc__, name)


main()
