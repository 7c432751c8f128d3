#!/usr/bin/env bash
# Who is late at NCCL's collectives, on two GPUs or more: tests/gpu/arrive.sh [GPUSCOPE] [FOLDER].
# Ends with "arrive: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-arrive}
rm -rf "$out"; mkdir -p "$out"
n_gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$n_gpus" -ge 2 ] || { echo "SKIP: needs PyTorch and two GPUs"; exit 0; }
export PYTHONUNBUFFERED=1
log=$out/checks.txt
for case in equal late ddp loader gpu; do
	printf '\n== %s\n' "$case"
	"$gpuscope" trace -q -o "$out/$case.gst" -- python3 "$here/arrive.py" $case --out "$out/$case" 2>"$out/$case.err"
	echo "exit status $?"; grep -v '^gpuscope: attach: ' "$out/$case.err" | tail -5
	"$gpuscope" report "$out/$case.gst" --format json >"$out/$case.json"
	python3 "$here/arrive_check.py" $case "$out/$case" 2>&1 | tee -a "$log"
	"$gpuscope" report "$out/$case.gst" | grep -i 'rank' | head -8
done
printf '\n== late, added up\n'
"$gpuscope" trace -q --format json --summary "$out/sums.json" -- python3 "$here/arrive.py" late --out "$out/sums" 2>"$out/sums.err"
echo "exit status $?"; grep -v '^gpuscope: attach: ' "$out/sums.err" | tail -5
python3 "$here/arrive_check.py" late "$out/sums" 2>&1 | tee -a "$log"
passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^FAIL\|Error' "$log")
printf '\narrive: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
