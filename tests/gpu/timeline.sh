#!/usr/bin/env bash
# Calls and samples of GPUs on one timeline, on a real GPU: tests/gpu/timeline.sh [GPUSCOPE] [FOLDER]. Some four minutes; needs root
# and PyTorch with CUDA. Samples beside nvidia-smi in the same run; none with --no-gpu; how far bounds are from what the GPU counted,
# for a loop that computes all the time and one that idles half of it, beside CUDA's own events; and, in pairs in one process, what
# sampling costs a loop that is bound by launches. Ends with "timeline: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-timeline}
pairs=${TIMELINE_PAIRS:-8}
rm -rf "$out"; mkdir -p "$out"
export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 PYTHONUNBUFFERED=1
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no PyTorch with a GPU here"; exit 0; }
nvidia-smi -i 0 --query-gpu=name,driver_version --format=csv,noheader
log=$out/checks.txt
: >"$log"
check() { python3 "$here/timeline_check.py" "$@" 2>&1 | tee -a "$log"; }

for case in compute half; do
	printf '\n== %s (%s s)\n' "$case" "$SECONDS"
	nvidia-smi -i 0 --query-gpu=power.draw,memory.used,utilization.gpu,clocks.sm,temperature.gpu --format=csv,noheader,nounits \
		-lms 200 >"$out/$case.smi" &
	smi=$!
	"$gpuscope" trace -vv -o "$out/$case.pftrace" -o "$out/$case.json" -o "$out/$case.gst" --format json --summary "$out/$case.summary" -- \
		python3 "$here/timeline.py" "$case" "$out/$case.truth" >"$out/$case.out" 2>"$out/$case.err"
	status=$?
	kill "$smi"; wait "$smi" 2>/dev/null
	[ $status = 0 ] || { echo "not ok $case: exit status $status"; tail -5 "$out/$case.err" "$out/$case.out"; } | tee -a "$log"
	grep 'samples of GPUs\|GPUs: .*processor time each' "$out/$case.err"
	check trace "$case" "$out"
	"$gpuscope" report "$out/$case.gst" --width 120 | sed -n '/^GPUs/,/^$/p'
	"$gpuscope" report "$out/$case.gst" -o "$out/$case.again.json" && check same "$case" "$out"
	ls -l "$out/$case".{pftrace,json,gst} | awk '{print "  ", $5, $NF}'
done

printf '\n== --no-gpu (%s s)\n' "$SECONDS"
"$gpuscope" trace -q --no-gpu -o "$out/none.json" -o "$out/none.pftrace" --format json --summary "$out/none.summary" -- \
	python3 "$here/timeline.py" short "$out/none.truth" >"$out/none.out" 2>"$out/none.err"
check none none "$out"

printf '\n== what sampling costs a loop bound by launches, %s pairs (%s s)\n' "$pairs" "$SECONDS"
python3 "$here/timeline.py" launch "$out/launch.rates" >"$out/launch.out" 2>&1 &
loop=$!
for _ in $(seq 100); do [ -s "$out/launch.rates" ] && break; sleep 0.5; done
: >"$out/launch.turns"
for turn in $(seq "$pairs"); do
	# Whose turn is first changes.
	for gpu in $([ $((turn % 2)) = 0 ] && echo "--no-gpu with" || echo "with --no-gpu"); do
		option=$gpu; [ "$gpu" = with ] && option=
		"$gpuscope" trace -q -v $option -p "$loop" --duration 6 -o "$out/launch.gst" --format json --summary "$out/launch.summary" \
			2>"$out/launch.err"
		python3 "$here/timeline_check.py" turn "$turn" "$gpu" "$out/launch.summary" >>"$out/launch.turns"
		[ "$gpu" = with ] && grep -o 'samples of GPUs.*' "$out/launch.err"
	done
done
kill "$loop"; wait "$loop" 2>/dev/null
check cost launch "$out"

passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^not ok\|Error' "$log")
printf '\ntimeline: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
