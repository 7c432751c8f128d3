#!/usr/bin/env bash
# build-asan, the one tree with sanitizers of memory and undefined behaviour: unit tests, whole runs, and
# the fuzz targets, which need clang.
#   tools/asan.sh [TARGET...]          sets it up, and builds the targets (none: all)
#   tools/asan.sh --run COMMAND...     runs a command that starts programs of the tree
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --run ]; then
	shift
	# Where the kernel spreads addresses over more bits, programs of clang 14 with the sanitizer crash as they
	# start, one in four (llvm-project issue 57653).
	bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
	if [ "$bits" -gt 28 ] && setarch -R true 2>/dev/null; then
		exec setarch -R "$@"
	fi
	exec "$@"
fi
command -v clang >/dev/null || { echo "asan: needs clang (make deps)" >&2; exit 1; }
if [ ! -e build-asan/build.ninja ]; then
	# Meson looks for ccache only where it chooses the compiler itself.
	compiler=clang
	command -v ccache >/dev/null && compiler="ccache clang"
	# Warnings are errors in the tree of gcc alone, for which the code is written.
	CC=$compiler meson setup build-asan -Dfuzz=true -Db_lundef=false -Db_sanitize=address,undefined -Doptimization=1 \
		-Dwerror=false -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -gline-tables-only' >/dev/null
fi
# One call for all: only what the targets need is built.
ninja -C build-asan "$@" >build-asan/ninja.log || { tail -n 40 build-asan/ninja.log; exit 1; }
