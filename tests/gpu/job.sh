#!/usr/bin/env bash
# gpuscope job on loops of PyTorch that are short of something known, on a real GPU, within a minute:
# tests/gpu/job.sh [GPUSCOPE] [FOLDER FOR OUTPUT]. Needs root, a GPU and PyTorch. JOB_SECONDS: of each
# measurement (default 5). Ends with "job: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-gpu-job}
seconds=${JOB_SECONDS:-5}
mkdir -p "$out"
log=$out/checks.txt
: >"$log"

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for kind in compute memory input launch idle; do
	rm -f "$out/$kind.ready"
	python3 "$here/job.py" $kind >"$out/$kind.ready" 2>"$out/$kind.err" &
	pid=$!
	for _ in $(seq 300); do
		grep -q ready "$out/$kind.ready" 2>/dev/null && break
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	"$gpuscope" job -p $pid --duration "$seconds" -o "$out/$kind.json" 2>"$out/$kind.job.err"
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
done
python3 "$here/job_check.py" "$out" | tee "$log"
printf '\njob: %s passed, %s failed (%s s)\n' "$(grep -c PASS "$log")" "$(grep -c FAIL "$log")" "$SECONDS"
[ "$(grep -c FAIL "$log")" = 0 ]
