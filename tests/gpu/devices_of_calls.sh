#!/usr/bin/env bash
# Which GPU and which context calls are of, with the real driver, beside what CUDA says in the same program: environments
# that programs set themselves, contexts of the driver, handles chosen in other threads, processes attached to late, and
# the kernels of captured graphs. tests/gpu/devices_of_calls.sh [GPUSCOPE] [FOLDER]; some two minutes on one host with two
# GPUs. Needs root and PyTorch with CUDA. Ends with "devices of calls: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-devices-of-calls}
rm -rf "$out"; mkdir -p "$out"
python3 -c 'import torch, sys; sys.exit(torch.cuda.device_count() < 2)' 2>/dev/null || { echo "SKIP: no PyTorch with two GPUs here"; exit 0; }
export PYTHONUNBUFFERED=1
nvidia-smi --query-gpu=index,name,uuid,driver_version --format=csv,noheader
log=$out/checks.txt
: >"$log"
program=$here/devices_of_calls.py

summarise() { # CASE
	"$gpuscope" report "$out/$1.gst" --format json >"$out/$1.json"
	python3 "$program" check "$1" "$out/$1.json" "$out/$1.truth.json" 2>&1 | tee -a "$log"
	"$gpuscope" report "$out/$1.gst" --by stream --width 150 | sed -n '/^Streams/,/^$/p;/^GPUs/,/^$/p' | head -24
}

run() { # CASE [NAME=VALUE...]
	local case=$1 status; shift
	printf '\n== %s (%s s)\n' "$case" "$SECONDS"
	env "$@" "$gpuscope" trace -q -o "$out/$case.gst" -- python3 "$program" run "$case" "$out/$case.truth.json" \
		>"$out/$case.out" 2>"$out/$case.err"
	status=$?
	[ $status = 0 ] || { echo "not ok $case: exit status $status"; tail -5 "$out/$case.err"; } | tee -a "$log"
	summarise "$case"
}

wait_for() { # COMMAND...
	for _ in $(seq 600); do "$@" 2>/dev/null && return; sleep 0.1; done
}

late() { # CASE [NAME=VALUE...]: the program is there before
	local case=$1 pid tracer; shift
	printf '\n== %s (%s s)\n' "$case" "$SECONDS"
	env "$@" python3 "$program" run "$case" "$out/$case.truth.json" "$out/$case.go" >"$out/$case.out" 2>"$out/$case.err" &
	pid=$!
	wait_for test -e "$out/$case.go.ready"
	echo "   open before: $(readlink /proc/$pid/fd/* | grep '^/dev/nvidia[0-9]' | sort | uniq -c | tr -s ' \n' ' ')"
	"$gpuscope" trace -v -p "$pid" -o "$out/$case.gst" >"$out/$case.trace" 2>&1 &
	tracer=$!
	wait_for grep -q 'libcuda[^ ]*: [0-9]* probes' "$out/$case.trace"
	sleep 1
	touch "$out/$case.go"
	wait "$pid" || { echo "not ok $case: the program failed"; tail -5 "$out/$case.err"; } | tee -a "$log"
	wait "$tracer"
	summarise "$case"
}

run set_before     # os.environ before import torch
run set_before_numbers CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID
run both           # cudaSetDevice
run pushed         # cuCtxPushCurrent, cuCtxPopCurrent, cuCtxCreate by ctypes on both
run handed_over    # cuCtxGetCurrent, chosen in another thread
run graph          # a captured graph
late late_both     # which device was chosen is not known, unless one is open alone
late late_one CUDA_VISIBLE_DEVICES=1
late late_changed  # it changes its environment after CUDA has read it

printf '\n== calls that choose contexts, of each case: they are traced by default\n'
python3 "$program" contexts "$out"/*.json
passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^not ok\|Error' "$log")
printf '\ndevices of calls: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
