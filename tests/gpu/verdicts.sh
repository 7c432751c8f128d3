#!/usr/bin/env bash
# Whether verdicts are right on a real GPU: tests/gpu/verdicts.sh [GPUSCOPE] [FOLDER FOR OUTPUT] [NAME...]
# Programs whose trouble is known by construction (verdict_programs.py) are traced for 6 s each; all of them take some
# seven minutes, at most ten. Those that need two GPUs are left out on one. The folder gets each first screen (NAME.txt).
set -u
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-verdicts}
shift $(($# < 2 ? $# : 2))
exec python3 -u "$here/verdicts.py" "$gpuscope" "$out" "$@"
