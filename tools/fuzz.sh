#!/usr/bin/env bash
# Feeds each parser with made-up files for FUZZ_SECONDS (60) under the sanitizers, starting from its
# corpus. What it finds is left as build-fuzz/found/<target>-crash-*; the exit status is 1 then.
#   tools/fuzz.sh [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}

command -v clang >/dev/null || { echo "fuzz: needs clang (make deps)" >&2; exit 1; }
if [ ! -e build-fuzz/build.ninja ]; then
	CC=clang meson setup build-fuzz -Dfuzz=true -Db_lundef=false -Db_sanitize=address,undefined \
		-Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=all' >/dev/null
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
	for f in tests/fuzz/fuzz_*.c; do
		f=${f##*/fuzz_}
		targets+=("${f%.c}")
	done
fi
mkdir -p build-fuzz/found
failed=0
for t in "${targets[@]}"; do
	ninja -C build-fuzz "tests/fuzz/fuzz_$t" >/dev/null
	mkdir -p "build-fuzz/corpus/$t"
	if build-fuzz/tests/fuzz/"fuzz_$t" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix="build-fuzz/found/$t-" \
		"build-fuzz/corpus/$t" "tests/fuzz/corpus/$t" >"build-fuzz/$t.log" 2>&1; then
		echo "$t: $(awk '/number_of_executed_units/ {print $2}' "build-fuzz/$t.log") runs in ${seconds} s, nothing found"
	else
		echo "$t: FAILED:"
		tail -n 30 "build-fuzz/$t.log"
		failed=1
	fi
done
exit $failed
