#!/usr/bin/env bash
# What the agent says of two PyTorch programs on one GPU that it traces on request, beside the programs' own counts and NVML:
# tests/gpu/process_gpu.sh [GPUSCOPE] [FOLDER]; about a minute on one GPU. Needs root and PyTorch with CUDA. Prints ok and
# not ok lines and ends with "process_gpu: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-process-gpu}
rm -rf "$out"; mkdir -p "$out"
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no PyTorch with a GPU here"; exit 0; }
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
exec python3 "$here/process_gpu_check.py" "$gpuscope" "$out"
