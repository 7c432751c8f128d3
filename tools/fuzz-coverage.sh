#!/usr/bin/env bash
# How much of each parser the corpora of the fuzz targets reach: regions of its code, as llvm-cov counts
# them. Ends with 1 when one is below FUZZ_COVERAGE (70) percent. The parsers are the files that
# tests/fuzz/parsers names.
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
parsers=("$@")
[ ${#parsers[@]} -gt 0 ] || mapfile -t parsers < <(grep -v '^#' tests/fuzz/parsers)
"$cov" export -summary-only -instr-profile $build/all.profdata "${objects[@]:1}" >$build/summary.json
python3 - "$least" $build/summary.json "${parsers[@]}" <<'END'
import json, os, sys

least, wanted = float(sys.argv[1]), sys.argv[3:]
with open(sys.argv[2]) as f:
    files = {os.path.relpath(x['filename']): x['summary'] for x in json.load(f)['data'][0]['files']}
low = 0
print('regions  lines  file')
for name in wanted:
    s = files.get(name)
    if not s:
        print(f'      -      -  {name}: in no fuzz target')
        low += 1
        continue
    regions = s['regions']['percent']
    low += regions < least
    print(f'{regions:6.0f} % {s["lines"]["percent"]:3.0f} %  {name}{" (low)" if regions < least else ""}')
print(f'{len(wanted) - low} of {len(wanted)} parsers at {least:.0f} % or more')
sys.exit(low > 0)
END
