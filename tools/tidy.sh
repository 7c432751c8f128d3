#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy, on C files: of those that are changed since the branch left
# main, committed or not.
#   tools/tidy.sh BUILD [COMMIT [FILE...]]    COMMIT: changed since then (empty: main, origin/main or HEAD)
#   tools/tidy.sh BUILD --all [FILE...]       all of them: some 20 minutes on two processors
#   tools/tidy.sh BUILD --shallow [FILE...]   without the static analyzer, which takes nearly all of that
#                                             time: with no file all of them, part of `make check`
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 since=${2:-}
shift $(($# > 1 ? 2 : 1))

command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is not installed" >&2; exit 1; }
# The compiler's own warnings are gcc's business, whose command lines these are.
options=(-p "$build" --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error)
files=("$@")
case $since in
--all | --shallow)
	# Not in that list: programs for the kernel. Left out: what is made for machine code of gcc's.
	[ ${#files[@]} -gt 0 ] || mapfile -t files < <(python3 - "$build" <<'EOF'
import json, os, sys
paths = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in json.load(open(sys.argv[1] + "/compile_commands.json"))
         if "-fno-ipa-icf" not in c["command"] and "-fno-shrink-wrap" not in c["command"]}
inside = os.path.realpath(sys.argv[1]) + "/"
print("\n".join(sorted(os.path.relpath(p) for p in paths if p.endswith(".c") and not p.startswith(inside))))
EOF
	)
	[ "$since" = --all ] || options+=('--checks=-clang-analyzer-*')
	;;
"")
	for branch in main origin/main HEAD; do
		since=$(git merge-base HEAD "$branch" 2>/dev/null) && break
	done
	;;&
*)
	[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git diff --name-only --diff-filter=d "$since" -- '*.c' | grep -v '\.bpf\.c$' || true)
	;;
esac
[ ${#files[@]} -gt 0 ] || { echo "tidy: no C file is changed"; exit 0; }
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy "${options[@]}"
echo "tidy: ${#files[@]} files, nothing found"
