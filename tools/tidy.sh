#!/usr/bin/env bash
# clang-tidy (.clang-tidy) on the C files that are changed since the branch left main, committed or not:
# all of them take some minutes on two processors.
#   tools/tidy.sh BUILD [COMMIT [FILE...]]    COMMIT: changed since then (empty: main, origin/main or HEAD)
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 since=${2:-}
shift $(($# > 1 ? 2 : 1))

command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is not installed" >&2; exit 1; }
if [ -z "$since" ]; then
	for branch in main origin/main HEAD; do
		since=$(git merge-base HEAD "$branch" 2>/dev/null) && break
	done
fi
files=("$@")
# Programs for the kernel have another compiler and no place in the build's list of commands.
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git diff --name-only --diff-filter=d "$since" -- '*.c' | grep -v '\.bpf\.c$' || true)
[ ${#files[@]} -gt 0 ] || { echo "tidy: no C file is changed"; exit 0; }
# Warnings that only gcc knows are on its command lines.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
echo "tidy: ${#files[@]} files, nothing found"
