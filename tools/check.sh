#!/usr/bin/env bash
# Everything that must be right before a change is taken, ending in one line of totals. CHECK_PARTS
# chooses: "style tests tidy gswarm recipes asan tsan fuzz release" (all), or "unit" of the tests (make check-fast).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
parts=${CHECK_PARTS:-style tests tidy gswarm recipes asan tsan fuzz release}
results=build/check
mkdir -p "$results"
rm -f "$results"/*

# One result: pass|fail|skip NAME [REASON]. TAP, so that all are counted alike at the end.
result() {
	case $1 in
	pass) echo "ok - $2" ;;
	fail) echo "not ok - $2 $3" ;;
	skip) echo "ok - $2 # SKIP $3" ;;
	esac >>"$results/checks.tap"
	[ "$1" = pass ] && echo "passed: $2" || echo "$1: $2: $3"
}

# step NAME COMMAND...: passes when the command does; what it says is shown when not.
step() {
	local name=$1 log="$results/${1// /_}.log" begin=$SECONDS
	shift
	if "$@" >"$log" 2>&1; then
		result pass "$name"
	else
		tail -n 60 "$log"
		result fail "$name" "(see $log)"
	fi
	echo "took $((SECONDS - begin)) s: $name"
}

formatted() {
	git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
}

shell_scripts() {
	git ls-files 'tools/*.sh' 'tools/hooks/*' 'bench/*.sh' '.ci/*' 'packaging/*.sh' 'tests/packages/*.sh' packaging/slurm/slurm-record | xargs -r shellcheck -x
}

glibc_only() {
	local odd
	odd=$(ldd build-release/src/gpuscope | awk '{print $1}' |
		grep -vE '^(linux-vdso\.so\.1|/lib64/ld-linux-x86-64\.so\.2|lib(c|m|pthread|dl|rt)\.so\.[0-9]+)$')
	[ -z "$odd" ] || { echo "needs more than glibc: $odd"; return 1; }
}

# Whole runs mostly wait (for the kernel, for a server, for a clock), so more of them than processors run
# side by side; what cannot stand each other says so (`lane` in tests/e2e/harness.py).
side_by_side=$(($(nproc) + 2))

# suite NAME FOLDER PROCESSES ARGUMENTS...: runs meson's tests, by `runner`, and keeps what they said.
runner=()
suite() {
	local name=$1 folder=$2 processes=$3 begin=$SECONDS status log
	shift 3
	log="$folder/meson-logs/check_$name.json"
	rm -f "$log"
	timeout 10800 "${runner[@]}" meson test -C "$folder" --no-rebuild --logbase "check_$name" --print-errorlogs --num-processes "$processes" "$@"
	status=$?
	echo "took $((SECONDS - begin)) s: tests of $name"
	if [ ! -s "$log" ]; then
		result fail "tests of $name" "(nothing was run)"
		return
	fi
	cp "$log" "$results/$name.json"
	if [ "$status" = 124 ]; then
		result fail "tests of $name" "(not done after 3 hours: what is missing was not run)"
	elif [ "$status" != 0 ] && ! grep -qE '"result": "(FAIL|ERROR|TIMEOUT|INTERRUPT|UNEXPECTEDPASS)"' "$log"; then
		result fail "tests of $name" "(meson ended with $status)"
	fi
}

has() {
	[[ " $parts " == *" $1 "* ]]
}

if has style; then
	# Other versions set some lines otherwise.
	if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
		step "format of C" formatted
	else
		result skip "format of C" "clang-format 14 (Debian 12's) is not installed"
	fi
	step "law of includes" python3 tools/include_law.py
	step "reading of files of others" python3 tools/foreign_reads.py
	step "words" python3 tools/words.py
	step "names" python3 tools/names.py
	step "contracts" python3 tools/contracts.py
	step "ceilings" python3 tools/ceilings.py
	if command -v shellcheck >/dev/null; then
		step "shell scripts" shell_scripts
	else
		result skip "shell scripts" "shellcheck is not installed"
	fi
fi
# Like clang-format's, the findings of other versions differ.
has_tidy() {
	has tidy && clang-tidy --version 2>/dev/null | grep -q 'version 14\.'
}

# It needs the headers that the build makes.
run_tidy() {
	make --no-print-directory tests && "$@" tools/tidy.sh build --shallow
}

# What it said beside the tests (build_others), or says now.
tidy() {
	[ -e "$results/tidy.status" ] || { run_tidy; return; }
	cat "$results/tidy.said"
	return "$(cat "$results/tidy.status")"
}

# The other trees are built while the tests of the plain one run, which mostly wait: at the lowest
# priority and on one processor. The steps below find them built, or say what is wrong with them.
build_others() {
	# The last one that we may use, whatever its number.
	local quiet=(nice -n 19) status=0 last
	last=$(taskset -cp $$ 2>/dev/null | sed 's/.*[^0-9]//')
	[ -z "$last" ] || quiet+=(taskset -c "$last")
	has gswarm && "${quiet[@]}" tools/without_gswarm.sh --build
	has recipes && [ "$(id -u)" = 0 ] && unshare -m true && "${quiet[@]}" tools/recipes.py --build
	has asan && "${quiet[@]}" make --no-print-directory asan
	has release && "${quiet[@]}" make --no-print-directory release
	has tsan && "${quiet[@]}" tools/tsan.sh --build
	has asan || { has fuzz && "${quiet[@]}" tools/fuzz.sh --build; }
	if has_tidy; then
		run_tidy "${quiet[@]}" >"$results/tidy.said" 2>&1 || status=$?
		echo "$status" >"$results/tidy.status"
	fi
}

recipes() {
	if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
		step "recipes of CONTRIBUTING.md" tools/recipes.py
	else
		result skip "recipes of CONTRIBUTING.md" "needs root, to mount a copy of the tree"
	fi
}

if has unit; then
	step "build" make --no-print-directory tests
	suite units build "$side_by_side" --suite unit --timeout-multiplier 6
fi
if has tests; then
	step "build" make --no-print-directory tests
	build_others >"$results/other_builds.log" 2>&1 &
	suite plain build "$side_by_side" --timeout-multiplier 6
	wait
fi
if has_tidy; then
	step "clang-tidy" tidy
elif has tidy; then
	result skip "clang-tidy" "clang-tidy 14 (Debian 12's) is not installed"
fi
has recipes && recipes
has gswarm && step "without the interface of gswarm-profiler" tools/without_gswarm.sh
if has asan; then
	export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99:allocator_may_return_null=1
	export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
	export LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0
	step "build with sanitizers" make --no-print-directory asan
	runner=(tools/asan.sh --run)
	suite sanitized build-asan "$side_by_side" --suite unit --suite fuzz --timeout-multiplier 12
	# Of the whole runs those that pass most of the code: all of them would take another half hour.
	suite sanitized_runs build-asan "$side_by_side" e2e/values e2e/selection e2e/probes e2e/flame --timeout-multiplier 12
	runner=()
	unset ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS
fi
has tsan && step "data races" make --no-print-directory tsan
if has fuzz; then
	# A second for each target; `make fuzz` gives each of them a minute.
	if command -v clang >/dev/null; then
		step "fuzz targets" env FUZZ_SECONDS=1 FUZZ_JOBS=2 tools/fuzz.sh
	else
		result skip "fuzz targets" "clang is not installed"
	fi
fi
if has release; then
	step "release build" make --no-print-directory release
	step "release needs glibc alone" glibc_only
fi

# .ci/run shows what stands in this file from the first failure on once more.
python3 tools/totals.py "$results" >"$results/totals" || echo "gpuscope: 0 passed, 1 failed, 0 skipped" >>"$results/totals"
cat "$results/totals"
tail -n 1 "$results/totals" | grep -q ' 0 failed,'
