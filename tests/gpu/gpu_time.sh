#!/usr/bin/env bash
# GPU time of a running process by PyTorch's own profiler (--gpu-time): tests/gpu/gpu_time.sh [GPUSCOPE]
# A training loop of PyTorch for CUDA, started with KINETO_USE_DAEMON=1, is attached to; the kernels of the window are compared with
# the launches that probes saw in it, and with the names that --by kernel has. Some 40 seconds. As root. Lines ok and not ok.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
exec python3 -u "$here/gpu_time.py" "$@"
