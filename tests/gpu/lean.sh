#!/usr/bin/env bash
# What our reading of real GPUs costs, in one run of at most 150 s: each call of NVIDIA's library, the
# agent at 1 and 10 readings a second idle and beside a training loop, what that loop feels of it, the
# start and the cost of top, whether values agree with nvidia-smi, and what memory the agent has after
# 60 s beside that of a program that only opens the library. LEAN_ONLY=memory: the last alone.
# tests/gpu/lean.sh BUILD [FOLDER FOR OUTPUT]; BUILD holds src/gpuscope and bench/gpu_calls.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v nvidia-smi >/dev/null || [ -n "${LEAN_LIBRARY:-}" ] || {
	echo "SKIP: no nvidia-smi here"
	exit 0
}
exec python3 -u "$here/lean.py" "$1" "${2:-/tmp/gpuscope-lean}"
