#!/usr/bin/env bash
# What each way to look from inside costs a loop on a GPU: the program runs once untraced and once traced in each way, all at the same time, and
# they take turns of 0.7 s, each just after a turn of the untraced one; what is printed are quartiles of these pairs.
# tests/gpu/inside_cost.sh BUILD ROUNDS LOAD [WAY...]; BUILD holds src/gpuscope and src/companion; LOAD mlp, decode, graph (inside_gpu.py).
# All ways: 40 s and 17 s a round. As root, PyTorch for CUDA, transformers.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v nvidia-smi >/dev/null || {
	echo "SKIP: no nvidia-smi here"
	exit 0
}
exec python3 -u "$here/inside_cost.py" "$@"
