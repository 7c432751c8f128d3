#!/usr/bin/env bash
# Feeds each parser with made-up files under the sanitizers, starting from its corpus: FUZZ_SECONDS (60)
# for each target, or with FUZZ_TOTAL_SECONDS so many for all of them together (`make check`). What it
# finds is left as build-fuzz/found/<target>-crash-*; the exit status is 1 then.
#   tools/fuzz.sh [TARGET...]    --build: only builds them
set -euo pipefail
cd "$(dirname "$0")/.."

command -v clang >/dev/null || { echo "fuzz: needs clang (make deps)" >&2; exit 1; }
if [ ! -e build-fuzz/build.ninja ]; then
	# Meson looks for ccache only where it chooses the compiler itself.
	compiler=clang
	command -v ccache >/dev/null && compiler="ccache clang"
	CC=$compiler meson setup build-fuzz -Dfuzz=true -Db_lundef=false -Db_sanitize=address,undefined -Doptimization=1 \
		-Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -gline-tables-only' >/dev/null
fi
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
# One call for all: only what the targets need is built, and no program for the kernel.
ninja -C build-fuzz "${targets[@]/#/tests/fuzz/fuzz_}" >build-fuzz/ninja.log || { tail -n 40 build-fuzz/ninja.log; exit 1; }
echo "built in $((SECONDS - begin)) s"
[ -z "$build_only" ] || exit 0

# At most two at once: with one for each processor they would measure each other's noise.
jobs=1
seconds=${FUZZ_SECONDS:-60}
if [ -n "${FUZZ_TOTAL_SECONDS:-}" ]; then
	jobs=2
	seconds=$(((FUZZ_TOTAL_SECONDS + ${#targets[@]} - 1) / ${#targets[@]}))
fi

# One target: its line goes to the screen, what it found to build-fuzz/found.
run_target() {
	local t=$1 log="build-fuzz/$1.log"
	mkdir -p "build-fuzz/corpus/$t"
	if build-fuzz/tests/fuzz/"fuzz_$t" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix="build-fuzz/found/$t-" \
		"build-fuzz/corpus/$t" "tests/fuzz/corpus/$t" >"$log" 2>&1; then
		echo "$t: $(awk '/number_of_executed_units/ {print $2}' "$log") runs in $seconds s, nothing found"
	else
		echo "$t: FAILED:"
		tail -n 30 "$log"
		return 1
	fi
}

export -f run_target
export seconds
mkdir -p build-fuzz/found
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'run_target {}' || exit 1
echo "${#targets[@]} targets in $((SECONDS - begin)) s"
