#!/usr/bin/env bash
# Feeds each parser with made-up files under the sanitizers, starting from its corpus: FUZZ_SECONDS (60)
# for each target, or with FUZZ_TOTAL_SECONDS so many for all of them together (`make check`). What it
# finds is left as build-asan/found/<target>-crash-*; the exit status is 1 then.
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

# At most two at once: with one for each processor they would measure each other's noise.
jobs=1
seconds=${FUZZ_SECONDS:-60}
if [ -n "${FUZZ_TOTAL_SECONDS:-}" ]; then
	jobs=2
	seconds=$(((FUZZ_TOTAL_SECONDS + ${#targets[@]} - 1) / ${#targets[@]}))
fi

# One target: its line goes to the screen, what it found to build-asan/found.
run_target() {
	local t=$1 log="build-asan/$1.log"
	mkdir -p "build-asan/corpus/$t"
	if tools/asan.sh --run build-asan/tests/fuzz/"fuzz_$t" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix="build-asan/found/$t-" \
		"build-asan/corpus/$t" "tests/fuzz/corpus/$t" >"$log" 2>&1; then
		echo "$t: $(awk '/number_of_executed_units/ {print $2}' "$log") runs in $seconds s, nothing found"
	else
		echo "$t: FAILED:"
		tail -n 30 "$log"
		return 1
	fi
}

export -f run_target
export seconds
mkdir -p build-asan/found
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'run_target {}' || exit 1
echo "${#targets[@]} targets in $((SECONDS - begin)) s"
