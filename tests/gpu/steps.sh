#!/usr/bin/env bash
# Steps found without a recording, beside what programs say of their own: tests/gpu/steps.sh [GPUSCOPE] [FOLDER FOR OUTPUT] [NAME...]
# Programs of verdict_programs.py are traced for 6 s each, added up in the kernel; some three minutes. Ends with
# "steps: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-steps}
shift $(($# < 2 ? $# : 2))
exec python3 -u "$here/steps.py" "$gpuscope" "$out" "$@"
