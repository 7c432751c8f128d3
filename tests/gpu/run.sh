#!/usr/bin/env bash
# Everything that needs a real GPU, in one command: tests/gpu/run.sh [GPUSCOPE] [FOLDER FOR OUTPUT]
# Needs root, PyTorch with CUDA, and a gpuscope binary (default: build-release/src/gpuscope, the
# portable one). GPU_FLOOR=bench/floor of a build adds the kernel's own floor to the slow-down. With two GPUs or more the collectives are checked too. Ends with "gpu: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-gpu}
export PYTHONUNBUFFERED=1
mkdir -p "$out"
log=$out/checks.txt
: >"$log"

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
n_gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())')
uname -r; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", torch.cuda.nccl.version())'

say() { printf '\n== %s\n' "$*"; }
check() { python3 "$here/check.py" "$@" | tee -a "$log"; }

if [ "${GPU_SKIP_COUNT:-}" = "" ]; then
say "one training loop under PyTorch's profiler and gpuscope"
"$gpuscope" trace -q -v -o "$out/count.csv" -o "$out/count.gst" -o "$out/count.pftrace" \
	--format json --summary "$out/count.summary" -- \
	python3 "$here/train.py" count --steps 101 --out "$out/count.json" 2>"$out/count.err"
echo "exit status $?"; grep -v '^gpuscope: attach: ' "$out/count.err" | head -20
check count "$out/count"
check summary "$out/count"
"$gpuscope" report "$out/count.gst" --top 12 | tee "$out/report.txt"

say "copies, allocations, a graph, an error"
"$gpuscope" trace -q -o "$out/copies.csv" --format json --summary "$out/copies.summary" -- \
	python3 "$here/train.py" copies --out "$out/copies.json"
echo "exit status $?"
check copies "$out/copies"
check summary "$out/copies"
fi

if [ "$n_gpus" -ge 2 ]; then
	say "collectives over $n_gpus GPUs"
	"$gpuscope" trace -q -o "$out/ranks.csv" --format json --summary "$out/ranks.summary" -- \
		python3 "$here/allreduce.py" --out "$out/ranks"
	echo "exit status $?"
	check ranks "$out/ranks"
	check summary "$out/ranks"
	python3 - "$out/ranks.summary" <<-'P'
		import json, sys
		for c in json.load(open(sys.argv[1]))["communicators"]:
		    print("    ", c)
	P
fi

if [ "${GPU_SKIP_SLOWDOWN:-}" = "" ]; then
	say "slow-down of a running training loop"
	# shellcheck disable=SC2086 # GPU_FLOOR is one path or nothing
	python3 "$here/slowdown.py" "$gpuscope" small "${GPU_ROUNDS:-4}" ${GPU_FLOOR:-} | tee "$out/slowdown_small.txt"
	python3 "$here/slowdown.py" "$gpuscope" large "${GPU_ROUNDS:-4}" | tee "$out/slowdown_large.txt"
fi

passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^FAIL' "$log")
printf '\ngpu: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
