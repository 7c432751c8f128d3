#!/usr/bin/env bash
# The tests of rooms with threads under ThreadSanitizer: a data race fails them. Not here:
# - whole programs: they fork beside threads, which ThreadSanitizer does not follow;
# - fuzz targets: they have one thread;
# - tests of rooms without threads, or whose threads only wait for the kernel.
#   tools/tsan.sh [TEST...]    --build: only builds them
set -euo pipefail
cd "$(dirname "$0")/.."

tests=(companion/ring recording/recording recording/damage identity/identity sender/sender grpc/calls grpc/hostile http/server http/apart notify/notify push head_push registry/view store downsample
	gpu/nvml gpu/events gpu/parts sideband/sideband queue library/queue library/recording)
if [ ! -e build-tsan/build.ninja ]; then
	# What the kernel writes is read with fences, which the sanitizer cannot see.
	meson setup build-tsan -Db_sanitize=thread -Db_lundef=false -Dc_args=-Wno-error=tsan >/dev/null
fi
build_only=
if [ "${1:-}" = --build ]; then
	build_only=1
	shift
fi
[ $# -eq 0 ] || tests=("$@")
mapfile -t programs < <(meson introspect --tests build-tsan | python3 -c '
import json, os, sys
wanted, here = set(sys.argv[1:]), os.path.realpath("build-tsan") + "/"
found = {t["name"]: t["cmd"][0] for t in json.load(sys.stdin) if t["name"] in wanted}
if wanted - set(found):
    sys.exit("tsan: no such test: " + " ".join(sorted(wanted - set(found))))
print("\n".join(os.path.realpath(p)[len(here):] for p in found.values()))' "${tests[@]}")
[ ${#programs[@]} -gt 0 ]
# Of what they load, the stand-in of NVML.
ninja -C build-tsan "${programs[@]}" tests/fake/libnvidia-ml.so.1 tests/fake/nvml_old/libnvidia-ml.so.1 >build-tsan/ninja.log ||
	{ tail -n 40 build-tsan/ninja.log; exit 1; }
[ -z "$build_only" ] || exit 0
# Kernels that spread addresses widely leave no place for the sanitizer's own memory.
run=()
setarch -R true 2>/dev/null && run=(setarch -R)
TSAN_OPTIONS=halt_on_error=0:exitcode=66:second_deadlock_stack=1 "${run[@]}" \
	meson test -C build-tsan --no-rebuild --print-errorlogs --num-processes "$(($(nproc) + 2))" --timeout-multiplier 12 "${tests[@]}"
