#!/usr/bin/env bash
# What --inside counts on a real GPU beside what the program itself counts in the same run: operators and kernels by torch.profiler, Python
# functions by sys.setprofile; the same by probes. Then --inside with no word: does it run, and are kernels those that were launched?
# tests/gpu/inside_all.sh BUILD [NAME...]; BUILD holds src/gpuscope and src/companion; names mlp, gpt2, resnet, some minute each. As root,
# PyTorch for CUDA, transformers, torchvision. Lines ok and not ok, at the end how many.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
exec python3 -u "$here/inside_all.py" "$@"
