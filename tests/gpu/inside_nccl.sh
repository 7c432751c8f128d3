#!/usr/bin/env bash
# What NCCL says of itself (--inside=nccl) on real GPUs: tests/gpu/inside_nccl.sh BUILD [ROUNDS] [PART...]
# BUILD holds src/gpuscope and src/companion; as root, PyTorch for CUDA; on one GPU two ranks share it (ranks_of_one_gpu.py). Parts: agree (operations, bytes, algorithms and
# protocols beside NCCL's own log lines and the probes of the same run; 1 minute), channels (time on the GPU beside CUDA events, and that
# windows have some; 2 minutes), ras (which rank lags, beside NCCL's RAS; half a minute), cost (steps in turn without and with, quartiles
# of pairs; ROUNDS times 2 loads times 2 minutes). All by default. Lines ok and not ok, at the end how many. NVLink multicast stays
# as the machine has it (NCCL_NVLS_ENABLE).
set -u
here=$(cd "$(dirname "$0")" && pwd)
n_gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$n_gpus" -ge 1 ] || {
	echo "SKIP: needs PyTorch and a GPU"
	exit 0
}
exec python3 -u "$here/inside_nccl.py" "$@"
