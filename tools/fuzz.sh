#!/usr/bin/env bash
# Feeds each parser with made-up files under the sanitizers, starting from its corpus: FUZZ_SECONDS (60)
# for each target, FUZZ_JOBS (1) of them at once. What it finds is left as build-asan/found/<target>-crash-*; the exit status is 1 then.
#   tools/fuzz.sh [TARGET...]    --build: only builds them
set -euo pipefail
cd "$(dirname "$0")/.."

build_only=
if [ "${1:-}" = --build ]; then
	build_only=1
	shift
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
	for f in tests/fuzz/fuzz_*.c; do
		f=${f##*/fuzz_}
		targets+=("${f%.c}")
	done
fi
begin=$SECONDS
tools/asan.sh "${targets[@]/#/tests/fuzz/fuzz_}"
echo "built in $((SECONDS - begin)) s"
[ -z "$build_only" ] || exit 0

# With one for each processor they would measure each other's noise.
jobs=${FUZZ_JOBS:-1}
seconds=${FUZZ_SECONDS:-60}

# One target: its line goes to the screen, what it found to build-asan/found.
run_target() {
	local t=$1 log="build-asan/$1.log"
	mkdir -p "build-asan/corpus/$t"
	if tools/asan.sh --run build-asan/tests/fuzz/"fuzz_$t" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix="build-asan/found/$t-" \
		"build-asan/corpus/$t" "tests/fuzz/corpus/$t" >"$log" 2>&1; then
		echo "$t: $(awk '/number_of_executed_units/ {print $2}' "$log") runs in $seconds s, nothing found"
	else
		echo "$t: failed:"
		tail -n 30 "$log"
		return 1
	fi
}

export -f run_target
export seconds
mkdir -p build-asan/found
rm -f build-asan/failed/*
mkdir -p build-asan/failed
if ! printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'run_target {} || { touch build-asan/failed/{}; exit 1; }'; then
	# Last, as others' lines came in between: who fails, and by what.
	for f in build-asan/failed/*; do
		t=${f##*/}
		echo "$t: FAILED: $(grep -m 1 -E 'ERROR:|runtime error:|Assertion|deadly signal' "build-asan/$t.log" || tail -n 1 "build-asan/$t.log")"
		grep -m 6 -E '^ +#[0-9]+ ' "build-asan/$t.log" || true
	done
	exit 1
fi
echo "${#targets[@]} targets in $((SECONDS - begin)) s"
