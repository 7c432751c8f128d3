#!/usr/bin/env bash
# Python lines of a real training step, and what noting them costs: tests/gpu/python.sh [GPUSCOPE]
# [FOLDER FOR OUTPUT]. GPU_MODELS="": the lines alone. Needs root, a GPU and PyTorch. Under five minutes; ends with "python: N passed,
# N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-gpu-python}
export PYTHONUNBUFFERED=1
mkdir -p "$out"
log=$out/checks.txt
: >"$log"

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
uname -r; python3 --version
python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)'

"$gpuscope" trace -q -v --layer cuda --python-hz 99 --python-at launch,copy,alloc,sync -o "$out/lines.json" -o "$out/lines.gst" \
	-o "$out/lines.pftrace" --format json --summary "$out/lines.summary" -- \
	python3 "$here/python.py" lines --out "$out/lines.want" 2>"$out/lines.err"
echo "exit status $?"; grep -i python "$out/lines.err" | head -5
"$gpuscope" report "$out/lines.gst" --top 20 | sed -n '/by Python line/,/^$/p' | cut -c1-200
python3 "$here/python_check.py" lines "$out" | tee -a "$log"
for model in ${GPU_MODELS-small large}; do
	python3 "$here/python_check.py" slowdown "$gpuscope" "$model" "${GPU_ROUNDS:-3}" | tee -a "$log"
done
passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^FAIL' "$log")
printf '\npython: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
