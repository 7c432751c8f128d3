#!/bin/sh
# Tries the detectors on series with labelled faults and prints the tables: `make bench-detection`.
# With a page (WRITE=doc/detection.md), what stands below the mark in it is replaced by them.
#
# usage: run.sh BUILD [PAGE]
set -eu
build=$1 page=${2:-}
mark='<!-- below: make bench-detection WRITE=doc/detection.md -->'
if [ -z "$page" ]; then
	exec "$build/bench/detection/detection" -s 20 -c 10
fi
grep -qxF "$mark" "$page" || { echo "run.sh: $page has no line \"$mark\"" >&2; exit 1; }
new=$(mktemp)
trap 'rm -f "$new"' EXIT
sed "\|^$mark\$|q" "$page" >"$new"
"$build/bench/detection/detection" -s 20 -c 10 >>"$new"
cat "$new" >"$page"
