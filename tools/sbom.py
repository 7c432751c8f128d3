#!/usr/bin/env python3
"""The software bill of materials of a build as SPDX 2.3 JSON: gpuscope, and each library that is linked
into the program or loaded by it, with version, the archive's SHA-256 and the distribution's package.
The libraries are those that meson found for this build, and those that it cannot name (EXTRA).

usage: sbom.py BUILD_FOLDER > gpuscope.spdx.json
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

# SPDX names of licenses, as the libraries' own files say.
LICENSES = {
    'libbpf': 'LGPL-2.1-only OR BSD-2-Clause',
    'libelf': 'LGPL-3.0-or-later OR GPL-2.0-or-later',
    'zlib': 'Zlib',
    'libzstd': 'BSD-3-Clause OR GPL-2.0-only',
    'ncursesw': 'X11-distribute-modifications-variant',
    'yaml-0.1': 'MIT',
    'openssl': 'Apache-2.0',
    'libnghttp2': 'MIT',
    'jansson': 'MIT',
    'libprotobuf-c': 'BSD-2-Clause',
    'sqlite3': 'blessing',
    'libiberty': 'LGPL-2.0-or-later WITH Libiberty-exception-2.0',
    'libgcc': 'GPL-3.0-or-later WITH GCC-exception-3.1',
    'glibc': 'LGPL-2.1-or-later',
}
NOT_LINKED = {'cmocka', 'threads'}  # of tests; part of glibc
# What has no pkg-config file, and what the compiler adds.
EXTRA = {'libiberty': 'libiberty.a', 'libgcc': 'libgcc.a', 'glibc': 'libc.so.6'}


def say(*command):
    run = subprocess.run(command, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else ''


def find_file(name):
    path = say(os.environ.get('CC', 'cc').split()[-1], '-print-file-name=' + name)
    return os.path.realpath(path) if os.path.isabs(path) else None


def packages_of(paths):
    """path -> (version, purl) of Debian's packages that have these files; nothing elsewhere."""
    # Debian 12 knows some files by their names of before /lib became a link.
    alias = {p.replace('/usr/lib/', '/lib/', 1): p for p in paths} | {p: p for p in paths}
    run = subprocess.run(['dpkg', '-S', *alias], capture_output=True, text=True) if shutil.which('dpkg') else None
    owners = {}
    for line in run.stdout.splitlines() if run else ():
        owner, _, path = line.partition(': ')
        owners[alias.get(path)] = owner.partition(':')[0]
    versions = say('dpkg-query', '-W', '-f', '${Package} ${Version} ${Architecture}\n', *set(owners.values())) if owners else ''
    known = {name: (version, f'pkg:deb/debian/{name}@{version}?arch={arch}') for name, version, arch in map(str.split, versions.splitlines())}
    return {path: known[owner] for path, owner in owners.items() if owner in known}


def file_of(args):
    """The archive or shared object out of meson's link arguments."""
    files = [a for a in args or [] if re.search(r'\.(a|so)(\.|$)', a)]
    return os.path.realpath(files[0]) if files else None


def describe(name, version, path, package=None):
    p = {
        'name': name,
        'SPDXID': 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]', '-', name),
        'versionInfo': version,
        'supplier': 'NOASSERTION',
        'downloadLocation': 'NOASSERTION',
        'filesAnalyzed': False,
        'licenseConcluded': 'NOASSERTION',
        'licenseDeclared': LICENSES.get(name, 'NOASSERTION'),
        'copyrightText': 'NOASSERTION',
    }
    if package:
        p['externalRefs'] = [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl', 'referenceLocator': package[1]}]
        p['versionInfo'] = version or package[0]
    if path and os.path.exists(path):
        with open(path, 'rb') as f:
            p['checksums'] = [{'algorithm': 'SHA256', 'checksumValue': hashlib.sha256(f.read()).hexdigest()}]
    return p


def libraries(build):
    run = subprocess.run(['meson', 'introspect', build, '--dependencies'], check=True, capture_output=True, text=True)
    for d in json.loads(run.stdout):
        if d['name'] not in NOT_LINKED:
            yield d['name'], d.get('version', ''), file_of(d.get('link_args'))
    for name, file in EXTRA.items():
        yield name, '', find_file(file)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    info = json.loads(subprocess.run(['meson', 'introspect', build, '--projectinfo'], check=True, capture_output=True, text=True).stdout)
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    commit = say('git', '-C', source, 'rev-parse', 'HEAD')
    # The same build of the same commit gives the same file.
    made = int(os.environ.get('SOURCE_DATE_EPOCH') or say('git', '-C', source, 'log', '-1', '--format=%ct') or time.time())
    own = describe('gpuscope', info['version'], None) | {'licenseDeclared': 'MIT', 'primaryPackagePurpose': 'APPLICATION'}
    if commit:
        own['sourceInfo'] = f'git commit {commit}'
    packages, relations = [own], [('SPDXRef-DOCUMENT', 'DESCRIBES', own['SPDXID'])]
    found = list(libraries(build))
    package = packages_of([path for _, _, path in found if path])
    seen = set()
    for name, version, path in found:
        # The program and libgpuscope name most libraries both, and some as another file.
        if (name, path) in seen:
            continue
        p = describe(name, version, path, package.get(path))
        if any(n == name for n, _ in seen):
            p['SPDXID'] += '-of-libgpuscope'
        seen.add((name, path))
        packages.append(p)
        relations.append((own['SPDXID'], 'STATIC_LINK' if (path or '').endswith('.a') else 'DYNAMIC_LINK', p['SPDXID']))
    json.dump(
        {
            'spdxVersion': 'SPDX-2.3',
            'dataLicense': 'CC0-1.0',
            'SPDXID': 'SPDXRef-DOCUMENT',
            'name': f'gpuscope-{info["version"]}',
            'documentNamespace': f'https://spdx.org/spdxdocs/gpuscope-{info["version"]}-{commit or made}',
            'creationInfo': {'created': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(made)), 'creators': ['Tool: gpuscope-tools/sbom.py']},
            'packages': packages,
            'relationships': [{'spdxElementId': a, 'relationshipType': kind, 'relatedSpdxElement': b} for a, kind, b in relations],
        },
        sys.stdout,
        indent=1,
    )
    print()


if __name__ == '__main__':
    main()
