#!/usr/bin/env python3
"""First steps: what `make install` leaves works where it was put, and what `make demo` installs runs no service.

usage: install.py GPUSCOPE FAKE_FOLDER [CASE...]
"""

import glob
import json
import os
import re
import shutil
import subprocess

import harness
from harness import HERE, Skip, case, main, read_text

ROOT = os.path.join(HERE, '..', '..')
DAEMONS = ('prometheus', 'prometheus-alertmanager', 'munge', 'slurmctld', 'slurmd', 'victoria-metrics')


def installed(t):
    """The folder that `make install DESTDIR=...` has filled, and the prefix."""
    if not shutil.which('meson') or not shutil.which('ninja'):
        raise Skip('meson or ninja is not installed')
    build, root = os.path.dirname(os.path.dirname(harness.gpuscope)), t.path('root')
    # `make uninstall` goes by this list: it stays that of the last `make install`.
    log, kept = os.path.join(build, 'meson-logs', 'install-log.txt'), t.path('install-log.txt')
    had = os.path.exists(log)
    if had:
        shutil.copy2(log, kept)
    done = subprocess.run([os.path.join(ROOT, 'tools', 'install.sh'), build, '', root], capture_output=True, text=True, check=False,
                          cwd=ROOT, timeout=harness.PATIENCE * 100)  # fmt: skip
    if had:
        shutil.copy2(kept, log)
    elif os.path.exists(log):
        os.unlink(log)
    t.equal(f'status of make install ({(done.stdout + done.stderr)[-300:]})', done.returncode, 0)
    options = subprocess.run(['meson', 'introspect', build, '--buildoptions'], capture_output=True, text=True, check=True)
    prefix = next(o['value'] for o in json.loads(options.stdout) if o['name'] == 'prefix')
    return root, prefix


@case('make install: units and scripts name what is there', timeout=180, needs=None)
def units(t):
    root, prefix = installed(t)
    program = root + prefix + '/bin/gpuscope'
    done = subprocess.run([program, '--version'], capture_output=True, text=True, check=False)
    t.match('the program runs', r'^gpuscope \d', done.stdout)
    for path in 'bash-completion/completions/gpuscope', 'zsh/site-functions/_gpuscope', 'fish/vendor_completions.d/gpuscope.fish':
        t.match(path, 'disable-feature', read_text(f'{root}{prefix}/share/{path}'))
    services = glob.glob(f'{root}{prefix}/lib/systemd/system/*.service')
    t.true('units', len(services) >= 3, services)
    for path in services:
        for word in re.findall(r'(?m)^Exec\w+=[-+!:@]*(\S+)', read_text(path)):
            # systemd's own programs are the system's.
            if 'gpuscope' in word:
                t.true(f'{os.path.basename(path)}: {word}', os.access(root + word, os.X_OK))
    t.true('the folder of configurations', os.path.isdir(f'{root}/etc/gpuscope'), os.listdir(root))
    words = f'here={root}{prefix}/libexec/gpuscope; . "$here/common.sh"; read_conf; echo "$GPUSCOPE"'
    done = subprocess.run(['sh', '-c', words], capture_output=True, text=True, check=True,
                          env={'GPUSCOPE_SLURM_CONF': '/nonexistent'})  # fmt: skip
    t.equal("Slurm's scripts", done.stdout.strip(), os.path.realpath(program))


@case('make builds the program alone', timeout=60, needs=None)
def program_alone(t):
    if not shutil.which('ninja') or not shutil.which('make'):
        raise Skip('make or ninja is not installed')
    build = os.path.dirname(os.path.dirname(harness.gpuscope))
    said = subprocess.run(['make', '-n', f'BUILD={build}'], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    t.match('its target', rf'ninja -C {re.escape(build)} src/gpuscope( src/companion/\S+\.so)*\n', said)
    targets = said.split(f'ninja -C {build} ')[1].split('\n')[0].split()
    inputs = subprocess.run(['ninja', '-C', build, '-t', 'commands', *targets], capture_output=True, text=True, check=True).stdout
    t.true('no test, no benchmark', not re.search(r' -o (?:tests|bench)/', inputs), re.findall(r' -o (?:tests|bench)/\S+', inputs)[:3])


@case('the configuration that is printed is taken', timeout=60, needs=None)
def configurations(t):
    for command, check in (('agent', ['--check-config']), ('head', ['--check-config'])):
        text = t.tool(command, '--print-config', status=0).out
        with open(t.path('c.yaml'), 'w', encoding='utf-8') as f:
            f.write(text)
        t.tool(command, '-c', t.path('c.yaml'), *check, status=0)


@case('make demo installs no service, make check does', timeout=60, needs=None)
def packages(t):
    os.mkdir(t.path('bin'))
    # A machine on which nothing is installed, and every package is known.
    for name, text in (('dpkg-query', 'exit 1'), ('apt-get', 'exit 1'), ('apt-cache', 'echo "Package: $2"')):
        with open(t.path('bin', name), 'w', encoding='ascii') as f:
            f.write(f'#!/bin/sh\n{text}\n')
        os.chmod(t.path('bin', name), 0o755)
    found = {}
    for option in ('', '--check'):
        words = [os.path.join(ROOT, 'tools', 'deps.sh'), *([option] if option else []), '--print']
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50,
                              env={**os.environ, 'PATH': t.path('bin') + ':' + os.environ['PATH']})  # fmt: skip
        t.equal(f'status of deps.sh {option} ({done.stderr[-200:]})', done.returncode, 0)
        found[option] = set(done.stdout.split())
    t.true('a compiler', {'gcc', 'meson', 'libbpf-dev'} <= found[''], found[''])
    t.equal('no service for the demo', sorted(found[''] & set(DAEMONS)), [])
    t.true('the tests have theirs', {'prometheus', 'slurmctld'} <= found['--check'], found['--check'])


if __name__ == '__main__':
    main()
