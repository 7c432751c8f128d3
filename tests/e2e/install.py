#!/usr/bin/env python3
"""First steps: what `make install` leaves works where it was put, and what `make demo` installs runs no service.

usage: install.py GPUSCOPE FAKE_FOLDER [CASE...]
"""

import glob
import http.client
import json
import os
import re
import shutil
import subprocess

import harness
from agent_help import config_text
from harness import HERE, Skip, case, main, read_text, wait_until

ROOT = os.path.join(HERE, '..', '..')
DAEMONS = ('prometheus', 'prometheus-alertmanager', 'munge', 'slurmctld', 'slurmd', 'victoria-metrics')


# In a mount namespace of its own: what DESTDIR has is where it says that it is.
IN_PLACE = r'''
set -e
root=$1 prefix=$2
shift 2
mount --make-rprivate /
for place in /etc "$prefix"; do
	[ ! -d "$place" ] || mount -t overlay -o "lowerdir=$root$place:$place" overlay "$place"
done
exec "$@"
'''


def build_folder():
    return os.path.dirname(os.path.dirname(harness.gpuscope))


def installed(t):
    """The folder that `make install DESTDIR=...` has filled, and the prefix."""
    if not shutil.which('meson') or not shutil.which('ninja'):
        raise Skip('meson or ninja is not installed')
    build, root = build_folder(), t.path('root')
    # `make uninstall` goes by this list: it stays that of the last `make install`.
    log, kept = os.path.join(build, 'meson-logs', 'install-log.txt'), t.path('install-log.txt')
    had = os.path.exists(log)
    if had:
        shutil.copy2(log, kept)
    before = os.stat(harness.gpuscope)
    done = subprocess.run([os.path.join(ROOT, 'tools', 'install.sh'), build, '', root], capture_output=True, text=True, check=False,
                          cwd=ROOT, timeout=harness.PATIENCE * 100)  # fmt: skip
    if os.path.exists(log):
        shutil.move(log, t.path('log'))
    if had:
        shutil.copy2(kept, log)
    t.equal(f'status of make install ({(done.stdout + done.stderr)[-300:]})', done.returncode, 0)
    options = subprocess.run(['meson', 'introspect', build, '--buildoptions'], capture_output=True, text=True, check=True)
    prefix = next(o['value'] for o in json.loads(options.stdout) if o['name'] == 'prefix')
    t.equal('the program was not built again', os.stat(harness.gpuscope), before)
    return root, prefix


def exec_start(path):
    return re.search(r'(?m)^ExecStart=(.*)', read_text(path)).group(1).split()


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
    share = f'{root}{prefix}/share'
    t.true('dashboards', len(glob.glob(share + '/gpuscope/grafana/*.json')) >= 4, os.listdir(share))
    for name in 'gpuscope/prometheus/alerts.yml', 'gpuscope/prometheus/recording.yml', 'doc/gpuscope/LICENSE', 'man/man1/gpuscope-trace.1':
        t.true(name, os.path.getsize(f'{share}/{name}') > 500)
    sizes = {os.path.basename(p): os.path.getsize(p) for p in glob.glob(f'{root}/etc/gpuscope/*')}
    t.equal('configurations', sorted(sizes), ['agent.yaml', 'head.yaml', 'slurm.conf'])
    for name in 'agent', 'head':
        sample = read_text(f'{root}/etc/gpuscope/{name}.yaml')
        t.equal(f'{name}.yaml sets nothing', [line for line in sample.split('\n') if line.strip() and not line.lstrip().startswith('#')], [])
        keys = re.sub(r'(?m)^#(?! \S)(?!$)', '', sample.split('\n', 1)[1])
        t.true(f'{name}.yaml with its keys set is what is printed', keys == t.tool(name, '--print-config', status=0).out)
        t.tool(name, '-c', f'{root}/etc/gpuscope/{name}.yaml', '--check-config', status=0)
    for word in re.findall(r'/\S+', read_text(f'{share}/doc/gpuscope/slurm/plugstack.conf').split('\n')[1]):
        t.true(f'plugstack.conf: {word}', os.path.exists(root + word) or 'spank_gpuscope.so' not in os.listdir(build_folder() + '/packaging/slurm'), word)
    scripts = re.findall(r'(?m)^ *(?:Prolog|Epilog)=(\S+)', read_text(f'{share}/doc/gpuscope/slurm/README.md'))
    t.equal("Slurm's README names prolog and epilog", len(scripts), 2)
    for word in scripts:
        t.true(f"Slurm's README: {word}", os.access(root + word, os.X_OK))
    words = f'here={root}{prefix}/libexec/gpuscope; . "$here/common.sh"; read_conf; echo "$GPUSCOPE"'
    done = subprocess.run(['sh', '-c', words], capture_output=True, text=True, check=True,
                          env={'GPUSCOPE_SLURM_CONF': '/nonexistent'})  # fmt: skip
    t.equal("Slurm's scripts", done.stdout.strip(), os.path.realpath(program))


@case('make install: the agent starts as its unit says, from the sample configuration', timeout=180)
def started(t):
    root, prefix = installed(t)
    with open(f'{root}/etc/gpuscope/agent.yaml', 'a', encoding='utf-8') as f:
        f.write(config_text())
    words = exec_start(f'{root}{prefix}/lib/systemd/system/gpuscope-agent.service')
    with open(t.path('err'), 'wb') as f:
        agent = subprocess.Popen(['unshare', '-m', 'sh', '-c', IN_PLACE, 'sh', root, prefix, *words], stdout=f, stderr=f,
                                 env={**t.envs(None), 'FAKE_NVML': 'gpus=2'})  # fmt: skip

    def served():
        text = read_text(t.path('err'))
        assert agent.poll() is None, f'ended with {agent.returncode}: {text}'
        return re.search(r'served at http://([^/]+)/metrics', text)

    wait_until(served, 20, 'the address on standard error')
    t.equal('the program that runs', os.readlink(f'/proc/{agent.pid}/exe'), words[0])
    c = http.client.HTTPConnection(served().group(1), timeout=300)
    c.request('GET', '/metrics')
    t.match('metrics', r'(?m)^gpuscope_gpu_\w+\{.*gpu="1"', c.getresponse().read().decode())
    agent.terminate()
    t.equal('its status', agent.wait(20), 0)


@case('make uninstall leaves what a site has changed and nothing else', timeout=180, needs=None)
def uninstalled(t):
    root, prefix = installed(t)
    own = t.path('build')
    for folder in 'meson-logs', 'packaging/config', 'packaging/slurm':
        os.makedirs(f'{own}/{folder}')
    shutil.copy2(t.path('log'), own + '/meson-logs/install-log.txt')
    for path in glob.glob(build_folder() + '/packaging/*/*.yaml') + [build_folder() + '/packaging/slurm/slurm.conf']:
        shutil.copy2(path, f'{own}/packaging/{os.path.basename(os.path.dirname(path))}')
    with open(f'{root}/etc/gpuscope/head.yaml', 'a', encoding='utf-8') as f:
        f.write('log:\n  level: info\n')
    with open(f'{root}{prefix}/share/bash-completion/completions/other', 'w', encoding='utf-8') as f:
        f.write('# of another package\n')
    command = [os.path.join(ROOT, 'tools', 'uninstall.sh'), own, root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    t.equal(f'its status ({done.stderr})', done.returncode, 0)
    left = sorted(os.path.relpath(os.path.join(folder, f), root) for folder, _, files in os.walk(root) for f in files)
    t.equal('what is left', left, ['etc/gpuscope/head.yaml', f'{prefix[1:]}/share/bash-completion/completions/other'])
    t.true("no folder of gpuscope's", not [f for f in glob.glob(f'{root}{prefix}/**', recursive=True) if 'gpuscope' in os.path.basename(f)])
    t.match('what it says', 'kept .*/etc/gpuscope', done.stdout)
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    t.equal('a second time there is nothing to remove', again.returncode, 1)


@case('make install: every file is in the lists of the packages', timeout=180, needs=None)
def listed(t):
    root, prefix = installed(t)
    if 'spank_gpuscope.so' not in os.listdir(build_folder() + '/packaging/slurm'):
        raise Skip("the SPANK plug-in was not built: libslurm-dev is not installed")
    found = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)[len(root) :]
            found[path.replace(prefix + '/', '/usr/', 1)] = 0
    spec = read_text(os.path.join(ROOT, 'packaging/rpm/gpuscope.spec'))
    for macro, text in (('_bindir', '/usr/bin'), ('_libdir', '/usr/lib/x86_64-linux-gnu'), ('_libexecdir', '/usr/libexec'), ('_sysconfdir', '/etc'),
                        ('_unitdir', '/usr/lib/systemd/system'), ('_mandir', '/usr/share/man'), ('_datadir', '/usr/share'), ('_docdir', '/usr/share/doc'),
                        ('_includedir', '/usr/include'), ('_prefix', '/usr')):  # fmt: skip
        spec = spec.replace('%{' + macro + '}', text)
    rpm = [line.split()[-1] for part in spec.split('\n%files')[1:] for line in part.split('\n%changelog')[0].split('\n')[1:]
           if line.startswith(('/', '%config'))]  # fmt: skip
    lists = {'rpm': rpm}
    lists['deb'] = ['/' + line for path in glob.glob(os.path.join(ROOT, 'packaging/debian/*.install')) for line in read_text(path).split('\n') if line]
    # What debian/rules moves and removes.
    lists['deb'] += ['/usr/share/zsh/site-functions/_gpuscope', '/usr/share/doc/gpuscope/LICENSE']
    for kind, patterns in lists.items():
        known = [re.compile(glob_pattern(p)) for p in patterns]
        t.equal(f'files that no package has ({kind})', [path for path in found if not any(k.match(path) for k in known)], [])
        if kind == 'rpm':
            empty = [p for p, k in zip(patterns, known) if not any(k.match(path) for path in found)]
            t.equal('lines of the spec for which there is no file', empty, [])


def glob_pattern(text):
    """A line of a package's list: a file, or a folder with all that is in it. rpm's may end in what compresses a page."""
    return re.sub(r'\\([][])', r'\1', re.escape(text)).replace(r'\*', '[^/]*') + '(/.*)?$'


@case('make builds the program alone', timeout=60, needs=None)
def program_alone(t):
    if not shutil.which('ninja') or not shutil.which('make'):
        raise Skip('make or ninja is not installed')
    build = build_folder()
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
