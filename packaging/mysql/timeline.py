#!/usr/bin/env python3
"""Puts the calls of a trace into eACGM's table CudaEvent, for the timeline of its dashboard: one row for each begin and each
end of a call, with the calls that are open then in lanes (event1, event2, ...). A call takes the first free lane; lanes that
the table lacks are added. What the table has of the time of the trace is replaced, so that a file may be loaded again.

usage: gpuscope trace -o calls.csv -- COMMAND
       packaging/mysql/timeline.py calls.csv | mariadb gpuscope

Times are seconds since 1970. A long trace has far more rows than a panel can show: --begin and --seconds choose a part."""

import argparse
import csv
import datetime
import sys

LANES_IN_TABLE, NAME_MAX, ROWS_OF_STATEMENT, CALLS_MAX = 3, 255, 500, 200000


def read_calls(file, args):
    """[(begin, end, name)] in ns, and how many have no time."""
    calls, untimed, offset = [], 0, None
    for row in csv.DictReader(file):
        if not row['dur_ns'] or not row['start_wall']:
            untimed += 1
            continue
        begin = int(row['start_ns'])
        if offset is None:  # from the boot clock to time of day
            whole, fraction = row['start_wall'].rstrip('Z').split('.')
            seconds = datetime.datetime.fromisoformat(whole + '+00:00').timestamp()
            offset = int(seconds) * 10**9 + int(fraction) - begin
        # One that took no time is open for a nanosecond, so that it is seen.
        calls.append((begin + offset, begin + offset + max(1, int(row['dur_ns'])), row['function'][:NAME_MAX]))
    # They stand in the order of their ends: the first one need not have begun first.
    first = min((begin for begin, _, _ in calls), default=0)
    last = float('inf') if args.seconds is None else args.begin + args.seconds
    return [c for c in calls if args.begin <= (c[0] - first) / 1e9 < last], untimed


def lanes_of(calls):
    """[(time in ns, [name or None by lane])], the last one empty."""
    edges = sorted([(end, 0, i) for i, (_, end, _) in enumerate(calls)] + [(begin, 1, i) for i, (begin, _, _) in enumerate(calls)])
    lanes, place, rows = [], {}, []
    for at, is_begin, i in edges:
        if is_begin:
            place[i] = next((k for k, name in enumerate(lanes) if name is None), len(lanes))
            lanes += [None] * (place[i] == len(lanes))
        lanes[place[i]] = calls[i][2] if is_begin else None
        rows.append((at, list(lanes)))
    return rows, len(lanes)


def quote(name):
    return 'NULL' if name is None else "'" + name.replace('\\', '\\\\').replace("'", "''") + "'"


# A column where there is none of that name: of MariaDB and MySQL alike, the latter of which has no ADD COLUMN IF NOT EXISTS.
ADD_LANE = """SET @gpuscope = (SELECT IF(COUNT(*), 'DO 0', 'ALTER TABLE `CudaEvent` ADD COLUMN `{name}` {type}')
    FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'CudaEvent' AND column_name = '{name}');
PREPARE gpuscope FROM @gpuscope;
EXECUTE gpuscope;
DEALLOCATE PREPARE gpuscope;
"""


def write_sql(rows, n_lanes, out):
    n_lanes = max(n_lanes, LANES_IN_TABLE)
    names = ', '.join(f'`event{k + 1}`' for k in range(n_lanes))
    for k in range(LANES_IN_TABLE, n_lanes):
        out.write(ADD_LANE.format(name=f'event{k + 1}', type=f'CHAR({NAME_MAX})'))
    out.write(f'START TRANSACTION;\nDELETE FROM `CudaEvent` WHERE `time` BETWEEN {rows[0][0] / 1e9!r} AND {rows[-1][0] / 1e9!r};\n')
    for i in range(0, len(rows), ROWS_OF_STATEMENT):
        values = [f'({at / 1e9!r}, {", ".join(quote(x) for x in lanes + [None] * (n_lanes - len(lanes)))})' for at, lanes in rows[i:i + ROWS_OF_STATEMENT]]
        out.write(f'INSERT INTO `CudaEvent` (`time`, {names}) VALUES\n' + ',\n'.join(values) + ';\n')
    out.write('COMMIT;\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', type=argparse.FileType(encoding='utf-8', errors='replace'), help='written by gpuscope trace -o FILE.csv')
    parser.add_argument('--begin', type=float, default=0, metavar='S', help='leave out this many seconds after the first call')
    parser.add_argument('--seconds', type=float, metavar='S', help='only so many seconds from there')
    args = parser.parse_args()
    try:
        calls, untimed = read_calls(args.file, args)
    except (KeyError, ValueError, csv.Error) as e:
        sys.exit(f'timeline.py: {args.file.name} is no CSV of gpuscope trace: {e!r}')
    if untimed:
        print(f'timeline.py: {untimed} calls have no time and are left out', file=sys.stderr)
    if not calls:
        sys.exit(f'timeline.py: {args.file.name} has no calls in that time')
    if len(calls) > CALLS_MAX:
        sys.exit(f'timeline.py: {len(calls)} calls are too many for a table; choose a part with --begin and --seconds (at most {CALLS_MAX} calls)')
    write_sql(*lanes_of(calls), sys.stdout)


if __name__ == '__main__':
    main()
