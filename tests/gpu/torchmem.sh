#!/usr/bin/env bash
# PyTorch's allocator on a real GPU: tests/gpu/torchmem.sh [GPUSCOPE] [FOLDER FOR OUTPUT]; PASS or FAIL a line.
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-gpu}
mkdir -p "$out"
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
"$gpuscope" trace -q --layer cuda,torchmem -o "$out/torchmem.json" --format json --summary "$out/torchmem.summary" -- \
	python3 "$here/torchmem.py" run "$out/torchmem.stats" || echo "FAIL torchmem: the run ended with $?"
python3 "$here/torchmem.py" check "$out/torchmem.summary" "$out/torchmem.stats"
