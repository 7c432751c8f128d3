#!/usr/bin/env bash
# Calls seen from inside (--inside=calls) on a real GPU: an eager training loop of PyTorch untraced, from inside and by probes, in turn.
# Are launches, copies and waits counted equally, do the loops compute the same, and what does a launch cost more, in pairs, with
# quartiles? Some 5 minutes. tests/gpu/inside.sh BUILD [ROUNDS]; BUILD holds src/gpuscope and src/companion. As root, PyTorch for CUDA.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v nvidia-smi >/dev/null || {
	echo "SKIP: no nvidia-smi here"
	exit 0
}
exec python3 -u "$here/inside.py" "$1" "${2:-8}"
