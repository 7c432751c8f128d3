#!/usr/bin/env bash
# Do our values of real GPUs agree with nvidia-smi's, idle and under load, and what does a sample
# cost? tests/gpu/nvml.sh [GPUSCOPE] [FOLDER FOR OUTPUT] [GPU_SAMPLE]
# Needs nvidia-smi; PyTorch with CUDA for the load (without it only the idle part runs). GPU_SAMPLE is
# bench/gpu_sample of a build: it adds the cost of each group of values. Prints one line a check,
# ends with "nvml: N passed, N failed" and that exit status.
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-nvml}
sample=${3:-}
export PYTHONUNBUFFERED=1
mkdir -p "$out"

command -v nvidia-smi >/dev/null || {
	echo "SKIP: no nvidia-smi here"
	exit 0
}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$gpuscope" gpu | tee "$out/table.txt"
"$gpuscope" gpu --topology | tee "$out/topology.txt"
"$gpuscope" gpu --format json >"$out/idle.json"
python3 "$here/nvml.py" "$gpuscope" "$out" "$sample" | tee "$out/nvml.txt"
status=${PIPESTATUS[0]}
header=$(ls /usr/local/cuda*/include/nvml.h 2>/dev/null | tail -1)
if command -v cc >/dev/null && [ -n "$header" ]; then
	NVML_H=$header python3 "$here/../unit/gpu/check_abi.py" cc "$here/../.." | tee "$out/abi.txt"
	[ "${PIPESTATUS[0]}" = 0 ] || status=1
else
	echo "SKIP the ABI: no compiler or no nvml.h here"
fi
exit "$status"
