"""Return probes of another tool beside gpuscope: those of the kernel's own tracing."""

import contextlib
import os
import re
import shutil
import subprocess

import harness
from harness import Skip


@contextlib.contextmanager
def return_probe(t, function):
    """On a function of a copy of the stand-in's runtime, as long as the block runs: programs of cases beside it are not to have
    it. Yields the environment in which a program takes the copy."""
    folder, own = t.path('tracing'), t.path('own')
    os.mkdir(folder)
    os.mkdir(own)
    library = shutil.copy(os.path.join(harness.fake, 'libcudart.so.13'), own)
    if subprocess.run(['mount', '-t', 'tracefs', 'nodev', folder], capture_output=True).returncode != 0:
        raise Skip('tracefs cannot be mounted')
    symbols = subprocess.run(['readelf', '-W', '--dyn-syms', library], capture_output=True, text=True, check=True).stdout
    at, name = re.search(rf'([0-9a-f]+) .* {function}(@.*)?$', symbols, re.M)[1], f'other_{os.getpid()}'

    def tell(file, text):
        fd = os.open(os.path.join(folder, file), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    try:
        tell('uprobe_events', f'r:{name} {library}:0x{at}\n')
        tell(f'events/uprobes/{name}/enable', '1')
        yield {'LD_LIBRARY_PATH': f'{own}:{harness.fake}'}
    finally:
        tell(f'events/uprobes/{name}/enable', '0')
        tell('uprobe_events', f'-:{name}\n')
        subprocess.run(['umount', folder], check=True)
