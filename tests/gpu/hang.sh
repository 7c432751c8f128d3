#!/usr/bin/env bash
# Hangs and different calls of real NCCL, found while tracing (--hang-after): tests/gpu/hang.sh [GPUSCOPE] [NAME...]
# Two ranks of PyTorch for CUDA meet at all-reduces until one of them sleeps, is killed, leaves out a collective or calls it with
# another count; a rank that is slow for less than the quiet time must not be named. Some two minutes for all. As root; on one GPU two
# ranks share it (ranks_of_one_gpu.py). Lines ok and not ok, with the time from the fault to the message; at the end how many.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
exec python3 -u "$here/hang.py" "$@"
