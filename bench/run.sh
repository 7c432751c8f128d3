#!/bin/sh
# What tracing costs, against what it must cost and against other tools: doc/overhead.md.
# bench/run.sh [BUILD] [options of bench.py]
here=$(dirname "$0")
build=${1:-build}
[ $# -gt 0 ] && shift
exec python3 "$here/bench.py" "$build" "$@"
