"""What the golden trace files mean: that each is valid in its format, and that all three tell the
same calls. Run by meson; exit 77 is a skip."""
import csv
import json
import shutil
import subprocess
import sys

FOLDER = sys.argv[1]


def need(ok, what):
    if not ok:
        sys.exit('check_trace: ' + what)


def read_csv():
    with open(FOLDER + '/trace.csv', newline='', encoding='utf-8') as f:
        table = list(csv.reader(f))
    need(len({len(row) for row in table}) == 1, 'csv: rows of different length')
    rows = [dict(zip(table[0], row)) for row in table[1:]]
    need(len(table[0]) == len(set(table[0])), 'csv: a column twice')
    names = [r['thread'] for r in rows]
    need('line1\nline2,"q"' in names, 'csv: the odd thread name was lost')
    by = {r['function']: r for r in rows}
    r = by['cudaLaunchKernel']
    need([r[c] for c in ('grid_x', 'grid_y', 'grid_z', 'block_x', 'block_y', 'block_z')]
         == ['128', '2', '1', '256', '1', '1'], 'csv: dimensions of a launch')
    need(r['function_address'] == '0x55d0c0de0000' and r['shared_bytes'] == '49152', 'csv: launch')
    r = by['ncclSend']
    need((r['peer'], r['root'], r['rank'], r['nranks'], r['datatype'], r['count'])
         == ('5', '', '3', '8', 'bfloat16', '64'), 'csv: ncclSend')
    r = by['cuMemsetD8_v2']
    need((r['failed'], r['result'], r['result_name'], r['arguments_unread'])
         == ('1', '12321', '', '1'), 'csv: a failure without a name')
    r = rows[-1]
    need((r['finished'], r['result'], r['result_name']) == ('0', '', ''), 'csv: open call')
    need(rows[0]['start_wall'] == '2026-01-01T01:23:20.123466789Z', 'csv: time of day')
    return [(r['function'], int(r['start_ns']), int(r['dur_ns']) if r['finished'] == '1' else None,
             r['layer'], r['failed'] == '1') for r in rows]


def ns(us):
    return round(us * 1000)


def read_json():
    with open(FOLDER + '/trace.json', encoding='utf-8') as f:
        trace = json.load(f)
    need(trace['otherData']['command'] == 'python3 train.py --name "a, b"', 'json: command')
    need(trace['gpuscopeEnd'] == {'complete': True, 'reason': 'command exited', 'exit_status': 3,
                                  'ts': 5000001000.0, 'calls_left_out': 0}, 'json: end')
    calls, phases = [], {}
    named = set()
    for e in trace['traceEvents']:
        phases[e['ph']] = phases.get(e['ph'], 0) + 1
        if e['ph'] == 'M' and e['name'] == 'thread_name':
            named.add((e['pid'], e['tid']))
        if e['ph'] in 'XB':
            need((e['pid'], e['tid']) in named, 'json: a call before its thread is named')
            cat = e['cat'].split(',')
            if cat == ['gpu-stream']:
                continue
            calls.append((e['name'], ns(e['ts']), ns(e['dur']) if e['ph'] == 'X' else None, cat[0],
                          'error' in cat))
    need(phases == {'M': 19, 'X': 18, 'B': 1, 'C': 4, 'i': 2}, 'json: events %r' % phases)
    need('line1\nline2,"q"' in [e['args'].get('name') for e in trace['traceEvents']],
         'json: the odd thread name was lost')
    return calls


def varint(b, i):
    v = shift = 0
    while True:
        v |= (b[i] & 0x7f) << shift
        i += 1
        if b[i - 1] < 0x80:
            return v, i
        shift += 7


def fields(b):
    """A message as {number: [values]}."""
    out, i = {}, 0
    while i < len(b):
        tag, i = varint(b, i)
        need(tag & 7 in (0, 1, 2), 'pftrace: wire type %d' % (tag & 7))
        if tag & 7 == 1:
            need(i + 8 <= len(b), 'pftrace: a number past the end')
            out.setdefault(tag >> 3, []).append(int.from_bytes(b[i:i + 8], 'little'))
            i += 8
            continue
        v, i = varint(b, i)
        if tag & 7 == 2:
            need(i + v <= len(b), 'pftrace: a length past the end')
            v, i = b[i:i + v], i + v
        out.setdefault(tag >> 3, []).append(v)
    return out


def read_pftrace():
    """Packets as Perfetto reads them: in order for what they name, by time for nesting."""
    with open(FOLDER + '/trace.pftrace', 'rb') as f:
        packets = fields(f.read())
    need(list(packets) == [1], 'pftrace: not only packets')
    tables = {1: {}, 2: {}, 3: {}, 29: {}}
    tracks, events = {}, []
    for n, raw in enumerate(packets[1]):
        p = fields(raw)
        need(p[10] == [1], 'pftrace: sequence id')
        need(p[13] == [1 if n == 0 else 2], 'pftrace: sequence flags')
        for table, entries in fields(p[12][0]).items() if 12 in p else ():
            for e in map(fields, entries):
                need(e[1][0] not in tables[table], 'pftrace: a number given twice')
                tables[table][e[1][0]] = e[2][0].decode('utf-8')
        if 60 in p:
            d = fields(p[60][0])
            need(5 not in d or d[5][0] in tracks, 'pftrace: a track before its parent')
            tracks[d[1][0]] = d
        if 11 in p:
            e = fields(p[11][0])
            need(e[11][0] in tracks, 'pftrace: an event before its track')
            notes = {}
            for a in map(fields, e.get(4, ())):
                name = tables[3][a[1][0]] if 1 in a else a[10][0].decode('utf-8')
                notes[name] = tables[29][a[17][0]] if 17 in a else \
                    a[6][0].decode('utf-8') if 6 in a else a.get(7, a.get(3, a.get(4)))[0]
            name = tables[2][e[10][0]] if 10 in e else e[23][0].decode() if 23 in e else None
            events.append((p[8][0], n, e[9][0], e[11][0], name,
                           [tables[1][c] for c in e.get(3, ())], notes, e.get(30, [None])[0]))
    threads = [fields(t[4][0]) for t in tracks.values() if 4 in t]
    need([(t[1][0], t[2][0], t[5][0].decode('utf-8')) for t in threads]
         == [(4242, 4242, 'trainer'), (4300, 4301, 'bad\ufffd\ufffdutf8'),
             (4242, 4250, 'line1\nline2,"q"')], 'pftrace: threads')
    check_counters(tracks, events)
    check_losses(tracks, events)
    streams = {u: d[2][0].decode() for u, d in tracks.items() if d.get(2, [b''])[0].startswith(b'GPU ')}
    check_streams(streams, events)
    return slices([e for e in events if e[3] not in streams])


def check_streams(streams, events):
    """Work of streams, from where it was queued first: here nothing waits for it until the end."""
    default, own, end = 'GPU 0 default stream', 'GPU 0 stream 0x55d000000100', 5000001000000
    begins = [e for e in events if e[3] in streams and e[2] == 1]
    seen = [(streams[e[3]], e[4], e[0], e[6]['count'], e[6]['state']) for e in begins]
    open_work = 'completion not seen'
    need(seen == [(own, 'kernels', 5000000020000, 2, open_work), (own, 'collectives', 5000000110000, 1, open_work),
                  (default, 'collectives', 5000000118000, 1, open_work), (default, 'copies HtoD', 5000000033000, 1, open_work)],
         'pftrace: streams %r' % seen)
    need(all(e[5] == ['gpu-stream'] for e in begins), 'pftrace: categories of streams')
    need([e[0] for e in events if e[3] in streams and e[2] == 2] == [end] * 4, 'pftrace: ends of streams')


def check_counters(tracks, events):
    seen = [(tracks[e[3]][2][0].decode(), e[0], e[7]) for e in events if e[2] == 4]
    minus_two = 2**64 - 2
    need(seen == [('device memory', 5000000013000, 1048576), ('device memory', 5000000142000, 0),
                  ('open streams', 5000000143000, minus_two), ('open streams', 5000000144000, 1)],
         'pftrace: counters %r' % seen)
    units = [fields(t[8][0]).get(3) for t in tracks.values() if 8 in t]
    need(units == [[3], [2], None], 'pftrace: units %r' % units)


def check_losses(tracks, events):
    seen = [(e[4], e[0], e[6]['count']) for e in events
            if e[2] == 3 and tracks[e[3]].get(2) == [b'gpuscope losses']]
    need(seen == [('ring_full', 5000000119500, 1234), ('late_attach', 5000000119500, 1)],
         'pftrace: losses %r' % seen)


def slices(events):
    """Begins and ends matched the way the viewer does it: by time, innermost first."""
    calls, stacks = {}, {}
    for time, n, kind, track, name, categories, notes, _ in sorted(events):
        if kind == 1:
            stacks.setdefault(track, []).append(n)
            calls[n] = [name, time, None, categories[0], 'error' in categories]
            if name == 'ncclSend':
                need(notes == {'bytes': 128, 'count': 64, 'datatype': 'bfloat16', 'peer': 5,
                               'comm': 0x55d0000c0330, 'stream': 0, 'rank': 3, 'nranks': 8},
                     'pftrace: ncclSend %r' % notes)
        elif kind == 2:
            begin = stacks[track].pop()
            calls[begin][2] = time - calls[begin][1]
    return [tuple(calls[n]) for n in sorted(calls)]


def check_protoc():
    protoc = shutil.which('protoc')
    if not protoc:
        print('check_trace: no protoc here, the schema was not checked (apt: protobuf-compiler)')
        return
    with open(FOLDER + '/trace.pftrace', 'rb') as f:
        text = subprocess.run(
            [protoc, '-I' + FOLDER, '--decode=perfetto.protos.Trace', 'perfetto_subset.proto'],
            stdin=f, capture_output=True, check=True).stdout.decode()
    # A field that the schema does not know is shown by its number.
    need(not any(line.strip()[:1].isdigit() for line in text.splitlines()),
         'pftrace: a field that the schema does not have')
    need(text.count('type: TYPE_SLICE_BEGIN') == 15 + 4 and text.count('type: TYPE_SLICE_END') == 14 + 4
         and text.count('type: TYPE_COUNTER') == 4, 'pftrace: events by protoc')


def main():
    calls = read_csv()
    need(len(calls) == 15, 'csv: %d calls' % len(calls))
    need(read_json() == calls, 'json and csv tell different calls')
    need(read_pftrace() == calls, 'pftrace and csv tell different calls')
    check_protoc()


main()
