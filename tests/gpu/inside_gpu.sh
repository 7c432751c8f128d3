#!/usr/bin/env bash
# GPU time from inside (--inside=gpu) on a real GPU, beside torch.profiler: tests/gpu/inside_gpu.sh BUILD [ROUNDS] [PART...]
# BUILD holds src/gpuscope and src/companion; as root, PyTorch for CUDA and transformers. Parts: agree (kernels, names, counts and times in
# separate runs of the same loop; some 3 minutes), yield (torch.profiler within our run; 1 minute), cost (steps in turn without, with an open
# window, with windows of 1 s in 20 s, quartiles of pairs; ROUNDS times 3 loads times a minute). All by default. Lines ok and not ok, at
# the end how many.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v nvidia-smi >/dev/null || {
	echo "SKIP: no nvidia-smi here"
	exit 0
}
exec python3 -u "$here/inside_gpu.py" "$@"
