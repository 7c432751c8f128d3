#!/usr/bin/env bash
# How much of each parser the corpora of the fuzz targets reach: regions of its code, as llvm-cov counts
# them. Ends with 1 when one is below FUZZ_COVERAGE (70) percent. The parsers are the files that
# tests/fuzz/parsers names; it says which functions of a file do not count.
#   tools/fuzz-coverage.sh [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
least=${FUZZ_COVERAGE:-70}
build="build-fuzz-coverage"

# Debian has them with the version in their names, or not on the path.
find_tool() {
	local t
	for t in "$1" "$1-14" /usr/lib/llvm-14/bin/"$1"; do
		command -v "$t" && return
	done
	echo "fuzz-coverage: needs $1 (package llvm)" >&2
	exit 1
}

cov=$(find_tool llvm-cov)
profdata=$(find_tool llvm-profdata)
if [ ! -e $build/build.ninja ]; then
	compiler=clang
	command -v ccache >/dev/null && compiler="ccache clang"
	LLVM_PROFILE_FILE=/dev/null CC=$compiler meson setup $build -Db_lundef=false -Doptimization=1 \
		-Dc_args='-fprofile-instr-generate -fcoverage-mapping -gline-tables-only' \
		-Dc_link_args=-fprofile-instr-generate >/dev/null
fi
targets=()
for f in tests/fuzz/fuzz_*.c; do
	f=${f##*/fuzz_}
	targets+=("${f%.c}")
done
ninja -C $build "${targets[@]/#/tests/fuzz/replay_}" >$build/ninja.log || { tail -n 40 $build/ninja.log; exit 1; }
rm -f $build/*.profraw
objects=()
for t in "${targets[@]}"; do
	LLVM_PROFILE_FILE=$build/$t.profraw find "tests/fuzz/corpus/$t" -type f -exec "$build/tests/fuzz/replay_$t" {} + \
		>/dev/null || { echo "fuzz-coverage: $t fails on its corpus"; exit 1; }
	objects+=(-object "$build/tests/fuzz/replay_$t")
done
"$profdata" merge -sparse -o $build/all.profdata $build/*.profraw
"$cov" export -skip-expansions -instr-profile $build/all.profdata "${objects[@]:1}" >$build/coverage.json
python3 - "$least" $build/coverage.json tests/fuzz/parsers "$@" <<'END'
import json
import os
import sys

least, chosen = float(sys.argv[1]), sys.argv[4:]
with open(sys.argv[3]) as f:
    wanted = [line.split() for line in f if line.strip() and not line.startswith('#')]
with open(sys.argv[2]) as f:
    functions = json.load(f)['data'][0]['functions']
regions = {}  # file -> function -> place -> times
for f in functions:
    name = f['name'].rpartition(':')[2]
    for line, column, to_line, to_column, times, file, _, kind in f['regions']:
        if kind == 0:
            places = regions.setdefault(os.path.relpath(f['filenames'][file]), {}).setdefault(name, {})
            place = (line, column, to_line, to_column)
            places[place] = max(times, places.get(place, 0))
low = n = 0
for name, *without in wanted:
    if chosen and name not in chosen:
        continue
    n += 1
    found = regions.get(name, {})
    if without[:1] == ['only']:
        missing = [w for w in without[1:] if w not in found]
        without = missing + [f for f in found if f not in without]
    for w in without:
        if w not in found:
            sys.exit(f'tests/fuzz/parsers: {name} has no function {w}')
    times = [t for function, places in found.items() if function not in without for t in places.values()]
    percent = 100 * sum(t > 0 for t in times) / len(times) if times else 0
    low += percent < least
    print(f'{percent:4.0f} %  {name}{" (low)" if percent < least else ""}')
print(f'{n - low} of {n} parsers at {least:.0f} % of their regions or more')
sys.exit(low > 0)
END
