"""What a .pftrace file holds, by protoc and the schema of the fields that gpuscope writes."""

import os
import re
import shutil
import subprocess

import harness
from harness import Skip


def decode(t, path):
    if not shutil.which('protoc'):
        raise Skip('protoc is not installed')
    proto = os.path.join(harness.HERE, '..', 'golden')
    with open(path, 'rb') as f:
        done = subprocess.run(['protoc', f'--proto_path={proto}', '--decode=perfetto.protos.Trace',
                               'perfetto_subset.proto'], stdin=f, capture_output=True, text=True)  # fmt: skip
    t.equal(f'protoc ({done.stderr[:200]})', done.returncode, 0)
    # A field that the schema does not name shows as a number.
    t.equal('unknown fields', re.findall(r'(?m)^ *\d+[:{ ].*', done.stdout)[:3], [])
    return done.stdout


def counters(t, path):
    """{(name of the parent track, name, unit): [(ns, value)]}."""
    tracks, found = {}, {}
    for packet in re.split(r'(?m)^packet \{$', decode(t, path)):
        one = {k: re.search(rf'(?m)^ +{k}: (.*)', packet) for k in (
            'uuid', 'name', 'process_name', 'parent_uuid', 'unit_name', 'unit', 'track_uuid', 'timestamp', 'double_counter_value')}
        one = {k: m[1].strip('"') for k, m in one.items() if m}
        if 'uuid' in one:
            tracks[one['uuid']] = one
        elif 'double_counter_value' in one:
            track = tracks[one['track_uuid']]
            parent = tracks[track['parent_uuid']]
            key = (parent.get('process_name', parent.get('name')), track['name'], track.get('unit_name', track.get('unit')))
            found.setdefault(key, []).append((int(one['timestamp']), float(one['double_counter_value'])))
    return found
