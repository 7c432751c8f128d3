#!/usr/bin/env bash
# tools/demo.sh [BUILD_DIR]: traces a workload of some seconds, prints the summary and leaves
# demo.pftrace in the current folder. `make demo` calls it after building.
#
# With a GPU and PyTorch the workload is examples/train.py; without, it is the bundled program
# BUILD_DIR/tests/fake/demo_train, whose CUDA and NCCL are stand-ins: then this says so, first and last.
#
# Environment:
#   GPUSCOPE=FILE  trace with this binary instead of BUILD_DIR/src/gpuscope, where nothing can be built
#   PYTHON=FILE    the Python to look for PyTorch in (default: python3)
#
# The exit status is that of gpuscope: 0 when all went well, 3 when this machine or user may not trace.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$root/build}
gpuscope=${GPUSCOPE:-$build/src/gpuscope}
python=${PYTHON:-python3}
out=$PWD/demo.pftrace

say() { printf 'demo: %s\n' "$*"; }
fail() {
	printf 'demo: %s\n' "$2" >&2
	exit "$1"
}

command -v "$gpuscope" >/dev/null ||
	fail 1 "$gpuscope is not there: build it by \`make\`, or name a binary: GPUSCOPE=FILE tools/demo.sh"

if [ "$(id -u)" != 0 ]; then
	sudo -n true 2>/dev/null ||
		fail 3 "probes need root, and there is no sudo without a password: run it as root"
	say "probes need root: going on by sudo"
	exec sudo -n env PATH="$PATH" GPUSCOPE="$gpuscope" PYTHON="$python" "$root/tools/demo.sh" "$build"
fi

train=$root/examples/train.py
if "$python" -c 'import torch; assert torch.cuda.is_available()' >/dev/null 2>&1; then
	real=yes
	command=("$python" "$train" --seconds 5)
	say "a GPU and PyTorch are here: tracing a training loop, examples/train.py, for about 5 s"
else
	real=
	command=("$build/tests/fake/demo_train")
	[ -x "${command[0]}" ] ||
		fail 1 "no GPU with PyTorch here, and no ${command[0]} (built by \`make\`) to trace instead"
	# A real CUDA there would take the place of the stand-ins.
	unset LD_LIBRARY_PATH
	standin="no GPU with PyTorch was found here, so this is NOT real CUDA: the traced program, demo_train,
      calls stand-ins for the CUDA and NCCL libraries. The probes and the figures of its calls are real."
	say "$standin"
fi
echo

status=0
"$gpuscope" trace --top 10 -o "$out" -- "${command[@]}" || status=$?
# What sudo made belongs to who asked for it.
[ -z "${SUDO_UID:-}" ] || [ ! -e "$out" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$out"

echo
[ "$status" = 0 ] || fail "$status" "gpuscope ended with status $status: the lines above say why"
[ -s "$out" ] || fail 1 "gpuscope wrote no $out"
say "every call is in $out ($(du -h "$out" | cut -f1))"
say "open it: go to https://ui.perfetto.dev and drag the file there (it is read by your browser and not"
say "uploaded), or use any viewer that reads Perfetto traces"
[ -n "$real" ] || say "$standin"
