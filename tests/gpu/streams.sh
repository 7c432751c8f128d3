#!/usr/bin/env bash
# What gpuscope says of streams beside what CUPTI measured in the same run (torch.profiler): launches by
# stream, copies, and how far the host's bounds of the time with work are from the truth, for five
# programs. tests/gpu/streams.sh [GPUSCOPE] [FOLDER]; some three minutes on one GPU. Needs root, PyTorch
# with CUDA; CuPy for one of them. Ends with "streams: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-streams}
rm -rf "$out"; mkdir -p "$out"
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no PyTorch with a GPU here"; exit 0; }
export PYTHONUNBUFFERED=1
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
log=$out/checks.txt
: >"$log"
for case in eager compiled overlap graphs cupy; do
	printf '\n== %s (%s s)\n' "$case" "$SECONDS"
	"$gpuscope" trace -q --layer cuda,nccl -o "$out/$case.gst" -- python3 "$here/streams.py" "$case" "$out/$case.truth.json" \
		>"$out/$case.out" 2>"$out/$case.err"
	status=$?
	[ $status = 77 ] && { echo "SKIP: $(tail -1 "$out/$case.out")"; continue; }
	[ $status = 0 ] || { echo "not ok $case: exit status $status"; tail -5 "$out/$case.err"; } | tee -a "$log"
	"$gpuscope" report "$out/$case.gst" --format json >"$out/$case.json"
	python3 "$here/streams_check.py" "$case" "$out/$case.json" "$out/$case.truth.json" 2>&1 | tee -a "$log"
	"$gpuscope" report "$out/$case.gst" --by stream --width 140 | sed -n '/^Streams/,/^$/p;/^GPUs/,/^$/p' | head -24
	"$gpuscope" report "$out/$case.gst" -o "$out/$case.pftrace"
done
passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^not ok\|Error' "$log")
printf '\nstreams: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
