#!/usr/bin/env python3
"""Files of packages and of Kubernetes, without building any: what the tools of each have to say, and what they name.

`make packages-check` builds, installs and removes the packages.

usage: packages.py GPUSCOPE FAKE_FOLDER [CASE...]
"""

import glob
import importlib
import os
import re
import shutil
import subprocess

from harness import HERE, Skip, case, main, read_text

ROOT = os.path.realpath(os.path.join(HERE, '..', '..'))
PACKAGING = os.path.join(ROOT, 'packaging')
CHART = os.path.join(PACKAGING, 'helm', 'gpuscope-agent')


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **more)


def module(name, package):
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Skip(f'{package} is not installed for this Python') from e


def version():
    return re.search(r"\bversion: '([^']+)', license", read_text(ROOT + '/meson.build')).group(1)


@case('every package has the version of meson.build', timeout=30, needs=None)
def versions(t):
    for path, pattern in (('debian/changelog', r'^gpuscope \(([^-]+)-'), ('rpm/gpuscope.spec', r'(?m)^Version: +(\S+)'),
                          ('helm/gpuscope-agent/Chart.yaml', r'(?m)^version: (\S+)'), ('helm/gpuscope-agent/Chart.yaml', r'(?m)^appVersion: "(\S+)"'),
                          ('helm/gpuscope-agent/values.yaml', r'(?m)^image: \S+:(\S+)'),
                          ('deployment/kubernetes/daemonset.yaml', r'image: \S+:(\S+)')):  # fmt: skip
        t.equal(path, re.search(pattern, read_text(f'{PACKAGING}/{path}')).group(1), version())


@case('what stands for a host of the user is named as that, and nothing else is made up', timeout=30, needs=None)
def placeholders(t):
    """Names below .example are nobody's (RFC 2606)."""
    listed = run('git', 'ls-files', 'packaging').stdout.split() or [os.path.relpath(p, ROOT) for p in glob.glob(PACKAGING + '/**', recursive=True) if os.path.isfile(p)]
    marked = []
    for path in listed:
        text = read_text(os.path.join(ROOT, path))
        # Of Debian and RPM an address is a must; tools/deb.sh puts that of who packs. JSON has no comments: doc/deployment.md says it.
        if '.example' in text and not path.endswith('.json') and path not in ('packaging/debian/control', 'packaging/debian/changelog', 'packaging/rpm/gpuscope.spec'):
            marked.append(path)
            t.true(f'{path} says it', 'end in .example are placeholders: put yours' in text, text[:600])
    t.true('there are some', len(marked) >= 7, str(marked))
    t.true('doc/deployment.md says it', 'end in `.example` (also in `targets/`) are placeholders' in read_text(os.path.join(ROOT, 'doc/deployment.md')))
    t.equal('no address on the web', re.findall(r'https?://\S*', read_text(PACKAGING + '/rpm/gpuscope.spec')), [])


@case('Debian packages have the maintainer who packs them', timeout=120, needs=None)
def maintainer(t):
    """With a stand-in for what builds: it shows what it would build."""
    os.mkdir(t.path('bin'))
    with open(t.path('bin/dpkg-buildpackage'), 'w') as f:
        f.write('#!/bin/sh\ncat debian/control debian/changelog\n: >../gpuscope_0_amd64.deb\n')
    os.chmod(t.path('bin/dpkg-buildpackage'), 0o755)
    path = f'{t.path("bin")}:{os.environ["PATH"]}'
    env = {**os.environ, 'PATH': path, 'DEBEMAIL': 'ops@cluster.org', 'DEBFULLNAME': "O'Neill & Sons"}
    done = run('tools/deb.sh', t.path('own'), env=env)
    t.equal(f'status: {done.stderr[-300:]}', done.returncode, 0)
    t.equal('control', re.findall(r'(?m)^Maintainer: (.*)$', done.stdout), ["O'Neill & Sons <ops@cluster.org>"])
    t.match('changelog', r"(?m)^ -- O'Neill & Sons <ops@cluster\.org>  \w", done.stdout)
    t.true('and no other', '.example' not in done.stdout + done.stderr, done.stdout)
    done = run('tools/deb.sh', t.path('none'), env={k: v for k, v in env.items() if not k.startswith('DEB')})
    t.equal(f'status: {done.stderr[-300:]}', done.returncode, 0)
    t.match('without one it is said', 'deb: DEBEMAIL is not set: ', done.stderr)


@case('rpmlint has nothing to say of the spec', timeout=60, needs=None)
def spec(t):
    if not shutil.which('rpmlint') or not shutil.which('rpmspec'):
        raise Skip('rpmlint or rpm is not installed')
    path = PACKAGING + '/rpm/gpuscope.spec'
    done = run('rpmspec', '--parse', path)
    t.equal(f'rpm reads it ({done.stderr[-300:]})', done.returncode, 0)
    left = [line for line in done.stdout.split('\n') if re.search(r'%\{[!?a-z_]', line) and not line.startswith('#')]
    t.equal('macros that rpm does not know', left, [])
    done = run('rpmlint', '--strict', '-c', PACKAGING + '/rpm/rpmlint.toml', path)
    t.equal(f'rpmlint ({done.stdout[-600:]})', done.returncode, 0)


@case("Debian's files name each other", timeout=30, needs=None)
def debian(t):
    control = read_text(PACKAGING + '/debian/control')
    packages = re.findall(r'(?m)^Package: (\S+)', control)
    t.equal('each package has its list', sorted(packages), sorted(os.path.basename(p)[: -len('.install')] for p in glob.glob(PACKAGING + '/debian/*.install')))
    t.true('rules can be run', os.access(PACKAGING + '/debian/rules', os.X_OK))
    # What tools/deps.sh installs for a build is what a package's build needs, by names that need no version.
    deps = set(re.search(r'packages=\(([^)]*)\)', read_text(ROOT + '/tools/deps.sh')).group(1).split())
    needed = set(re.findall(r'(?m)^ ([a-z0-9.+-]+)', control.split('Standards-Version')[0]))
    of_debian = {'gcc', 'make', 'binutils', 'ninja-build', 'libcmocka-dev', 'python3'}  # build-essential; meson's; of the tests
    t.equal('what a build needs and the package does not name', sorted(deps - needed - of_debian), [])


def render(text, values, release):
    """What Helm makes of the few words that the chart has: {{ PATH }}, quote, toYaml PATH | nindent N, if PATH, end."""
    yaml = module('yaml', 'python3-yaml')

    def value(path):
        got = {'Values': values, 'Release': release}
        for key in path.strip('.').split('.'):
            got = got[key]
        return got

    out, shown = [], [True]
    for line in text.split('\n'):
        word = re.fullmatch(r'\s*\{\{- (if (\S+)|end|toYaml (\S+) \| nindent (\d+)) \}\}', line)
        if word and word[1].startswith('if'):
            shown.append(shown[-1] and bool(value(word[2])))
        elif word and word[1] == 'end':
            shown.pop()
        elif not shown[-1]:
            continue
        elif word:
            block = yaml.safe_dump(value(word[3]), default_flow_style=False, sort_keys=False).rstrip('\n')
            out += [' ' * int(word[4]) + piece for piece in block.split('\n')]
        else:
            line = re.sub(r'\{\{ (\.\S+) \| quote \}\}', lambda m: '"' + str(value(m[1])) + '"', line)
            line = re.sub(r'\{\{ (\.\S+) \}\}', lambda m: str(value(m[1])), line)
            assert '{{' not in line, f'the chart has a word that this test does not know: {line}'
            out.append(line)
    assert shown == [True], 'an if without its end'
    return '\n'.join(out)


def chart(more):
    """The chart's objects: by Helm where it is installed."""
    yaml = module('yaml', 'python3-yaml')
    values = {**yaml.safe_load(read_text(CHART + '/values.yaml')), **more}
    if shutil.which('helm'):
        done = run('helm', 'template', 'gpuscope-agent', CHART, '-n', 'gpuscope', *[w for k, v in more.items() for w in ('--set', f'{k}={v}')])
        assert done.returncode == 0, done.stderr
        return [o for o in yaml.safe_load_all(done.stdout) if o]
    release = {'Name': 'gpuscope-agent', 'Namespace': 'gpuscope'}
    return [yaml.safe_load(render(read_text(path), values, release)) for path in sorted(glob.glob(CHART + '/templates/*.yaml'))]


def check_object(models, kind, value, place):
    """Refuse keys that Kubernetes' model of this kind has not, values of other types, and what lacks a required key."""
    if kind.startswith('list['):
        assert isinstance(value, list), f'{place}: not a list'
        return [check_object(models, kind[5:-1], v, f'{place}[{i}]') for i, v in enumerate(value)]
    if kind.startswith('dict('):
        assert isinstance(value, dict), f'{place}: not a mapping'
        return {k: check_object(models, kind[5:-1].split(',', 1)[1].strip(), v, f'{place}.{k}') for k, v in value.items()}
    plain = {'str': str, 'int': int, 'bool': bool, 'float': (int, float), 'object': object}
    if kind in plain:
        assert isinstance(value, plain[kind]) and (kind == 'bool' or not isinstance(value, bool) or kind == 'object'), f'{place}: {value!r} is no {kind}'
        return value
    model = getattr(models, kind)
    names = {key: name for name, key in model.attribute_map.items()}
    assert isinstance(value, dict), f'{place}: not a mapping'
    unknown = set(value) - set(names)
    assert not unknown, f'{place}: {kind} has no {sorted(unknown)}'
    # The model refuses to be made without what it requires.
    return model(**{names[k]: check_object(models, model.openapi_types[names[k]], v, f'{place}.{k}') for k, v in value.items()})


def make_secrets(folder):
    if not shutil.which('openssl'):
        raise Skip('openssl is not installed')
    os.makedirs(folder, exist_ok=True)
    for name in ('push-token', 'head-token'):
        with open(f'{folder}/{name}', 'w', encoding='ascii', opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write('secret\n')
    run('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=test', '-keyout', f'{folder}/ca.key',
        '-out', f'{folder}/ca.pem').check_returncode()  # fmt: skip


def check_objects(t, objects):
    make_secrets(t.path('files'))
    models = module('kubernetes.client', 'python3-kubernetes')
    kinds = {('v1', 'ConfigMap'): 'V1ConfigMap', ('apps/v1', 'DaemonSet'): 'V1DaemonSet'}
    for o in objects:
        check_object(models, kinds[o['apiVersion'], o['kind']], o, o['kind'])
        if o['kind'] == 'ConfigMap':
            # Its secrets are files of the pod.
            text = re.sub(r'/run/secrets/gpuscope|/var/lib/gpuscope-agent', t.path('files'), o['data']['agent.yaml'])
            with open(t.path('agent.yaml'), 'w', encoding='utf-8') as f:
                f.write(text)
            t.tool('agent', '-c', t.path('agent.yaml'), '--check-config', status=0)
        else:
            pod = o['spec']['template']
            labels = pod['metadata']['labels']
            t.true('it selects its own pods', o['spec']['selector']['matchLabels'].items() <= labels.items(), labels)
            volumes = {v['name'] for v in pod['spec']['volumes']}
            t.equal('volumes', {m['name'] for m in pod['spec']['containers'][0]['volumeMounts']}, volumes)


@case("Kubernetes' manifest is one, by Kubernetes' own models", timeout=60, needs=None)
def manifest(t):
    yaml = module('yaml', 'python3-yaml')
    models = module('kubernetes.client', 'python3-kubernetes')
    objects = list(yaml.safe_load_all(read_text(PACKAGING + '/deployment/kubernetes/daemonset.yaml')))
    t.equal('kinds', [o['kind'] for o in objects], ['ConfigMap', 'DaemonSet'])
    check_objects(t, objects)
    # What is wrong is found: an unknown key, a wrong type, a missing one.
    for change in (lambda s: s.update(hostPid=True), lambda s: s.update(hostPID='yes'), lambda s: s['containers'][0].pop('name')):
        wrong = yaml.safe_load(yaml.safe_dump(objects[1]))
        change(wrong['spec']['template']['spec'])
        try:
            check_object(models, 'V1DaemonSet', wrong, 'wrong')
        except (AssertionError, ValueError):
            continue
        t.true('a mistake is found', False)


@case("the Helm chart makes Kubernetes' objects, the same as the manifest", timeout=60, needs=None)
def helm(t):
    yaml = module('yaml', 'python3-yaml')
    if shutil.which('helm'):
        done = run('helm', 'lint', '--strict', CHART)
        t.equal(f'helm lint ({done.stdout[-300:]})', done.returncode, 0)
    for more in {}, {'secretName': 'gpuscope'}, {'runtimeClassName': '', 'priorityClassName': ''}:
        objects = chart(more)
        t.equal('kinds', sorted(o['kind'] for o in objects), ['ConfigMap', 'DaemonSet'])
        check_objects(t, objects)
        made = next(o for o in objects if o['kind'] == 'DaemonSet')['spec']['template']['spec']
        if more == {'secretName': 'gpuscope'}:
            ours = list(yaml.safe_load_all(read_text(PACKAGING + '/deployment/kubernetes/daemonset.yaml')))[1]['spec']['template']['spec']
            for key in sorted(set(made) | set(ours)):
                t.equal(f'spec.{key}', made.get(key), ours.get(key))
        t.equal('without a class', 'runtimeClassName' in made, bool(more.get('runtimeClassName', True)))


@case('the image copies what the tarball has', timeout=30, needs=None)
def image(t):
    text = read_text(PACKAGING + '/deployment/kubernetes/Containerfile')
    t.match('its base can be another one', r'(?m)^ARG BASE=\S+\nFROM \$\{BASE\}$', text)
    packed = read_text(ROOT + '/tools/tarball.sh')
    for words in re.findall(r'(?m)^COPY (.*)', text):
        for source in words.split()[:-1]:
            name = os.path.basename(source)
            t.true(f'{source} is packed', name in ('gpuscope', 'LICENSE') or name in packed, source)
    t.match('it starts the program', r'(?m)^ENTRYPOINT \["/usr/bin/gpuscope"\]$', text)


if __name__ == '__main__':
    main()
