"""The bill of materials names every library that meson has found for the program, and how it is linked; the licenses of those that
are linked in are listed, and refused where they do not go together.

usage: sbom.py SBOM_PY BUILD_FOLDER
"""

import json
import os
import re
import subprocess
import sys
import tempfile

tool, build = sys.argv[1:]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


sbom = json.loads(run(sys.executable, tool, build))
assert sbom == json.loads(run(sys.executable, tool, build)), 'it is another one each time'
assert sbom['spdxVersion'] == 'SPDX-2.3' and sbom['dataLicense'] == 'CC0-1.0' and sbom['documentNamespace'].startswith('https://')
assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', sbom['creationInfo']['created'])
packages = {p['name']: p for p in sbom['packages']}
ids = [p['SPDXID'] for p in sbom['packages']]
assert len(ids) == len(set(ids)) and all(re.fullmatch(r'SPDXRef-[A-Za-z0-9.-]+', i) for i in ids), ids
linked = {}
for r in sbom['relationships']:
    assert r['relatedSpdxElement'] in ids and r['spdxElementId'] in [*ids, 'SPDXRef-DOCUMENT'], r
    linked[r['relatedSpdxElement']] = r['relationshipType']
assert linked[packages['gpuscope']['SPDXID']] == 'DESCRIBES'
for d in json.loads(run('meson', 'introspect', build, '--dependencies')):
    if d['name'] in ('cmocka', 'threads'):  # of tests; part of glibc
        assert d['name'] not in packages
        continue
    p = packages[d['name']]
    assert p['versionInfo'] == d['version'] and re.fullmatch(r'[0-9a-f]{64}', p['checksums'][0]['checksumValue']), p
    assert p['licenseDeclared'] != 'NOASSERTION', f'tools/sbom.py lacks the license of {d["name"]}'
    static = any(a.endswith('.a') for a in d['link_args'])
    assert linked[p['SPDXID']] == ('STATIC_LINK' if static else 'DYNAMIC_LINK'), p
assert linked[packages['libiberty']['SPDXID']] == 'STATIC_LINK' and linked[packages['glibc']['SPDXID']] == 'DYNAMIC_LINK'


def licenses(bill):
    with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
        json.dump(bill, f)
        f.flush()
        return subprocess.run([sys.executable, os.path.join(os.path.dirname(tool), 'licenses.py'), f.name], capture_output=True, text=True, check=False)


listed = licenses(sbom)
assert listed.returncode == 0, listed.stderr
for p in sbom['packages']:
    row = re.search(rf'(?m)^{re.escape(p["name"])} +\S+ +(\S.*?)  ', listed.stdout)
    assert bool(row) == (linked.get(p['SPDXID']) == 'STATIC_LINK'), p['name']
    assert not row or row[1] in p['licenseDeclared'], row[0]
packages['libiberty']['licenseDeclared'] = 'GPL-2.0-only'
refused = licenses(sbom)
assert refused.returncode == 1 and 'libiberty: GPL-2.0-only' in refused.stderr and not refused.stdout, refused
print(f'{len(packages) - 1} libraries')
