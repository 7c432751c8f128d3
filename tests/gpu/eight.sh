#!/usr/bin/env bash
# A node of several GPUs, in one command for any number of them: tests/gpu/eight.sh BUILD [FOLDER] [PART...]
# BUILD holds src/gpuscope. Parts, all by default: values links agent effect top groups arrive hang report. The values and links of each
# GPU beside nvidia-smi, the agent's cost at 1 and 10 readings a second and what a job on all GPUs feels of it, top at three sizes, each
# communicator of sub-groups and of FSDP beside NCCL's own log, late ranks, hangs, and a report. As root, PyTorch with CUDA; nine minutes
# on four GPUs. Screens of top need tmux (TMUX_COMMAND names it); without it a recording is left, which top --replay shows.
# Lines ok and not ok; at the end "eight: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build-release}
out=${2:-/tmp/gpuscope-eight}
shift $(($# < 2 ? $# : 2))
all_parts=" values links agent effect top groups arrive hang report "
parts=" ${*:-$all_parts} "
gpuscope=$build/src/gpuscope
tmux=${TMUX_COMMAND:-tmux}
export PYTHONUNBUFFERED=1
mkdir -p "$out"
log=$out/checks.txt
: >"$log"
n_gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$n_gpus" -ge 2 ] || { echo "SKIP: needs PyTorch and two GPUs"; exit 0; }
[ -x "$gpuscope" ] || { echo "eight: no $gpuscope: name the folder of a build"; exit 2; }
for part in $parts; do
	case $all_parts in *" $part "*) ;; *) echo "eight: no part \"$part\""; exit 2 ;; esac
done
uname -r
nvidia-smi --query-gpu=index,name,driver_version --format=csv,noheader

begin() {
	case $parts in *" $1 "*) printf '\n== %s (%s s)\n' "$1" "$SECONDS" ;; *) return 1 ;; esac
}

screens() {
	local size
	python3 "$here/ddp.py" 40 >"$out/top.load" 2>&1 &
	local load=$!
	sleep 12
	if ! command -v "$tmux" >/dev/null; then
		echo "no tmux here: top.gst is recorded instead"
		timeout -s INT 12 script -qc "stty rows 40 cols 120; '$gpuscope' top --record '$out/top.gst'" /dev/null >"$out/top.raw" 2>&1
	else
		for size in 80x24 120x40 200x60; do
			"$tmux" -u -L gpuscope new-session -d -x "${size%x*}" -y "${size#*x}" "$gpuscope top"
			sleep 5
			"$tmux" -L gpuscope capture-pane -p >"$out/top.$size.txt"
			"$tmux" -L gpuscope kill-server
			echo "-- $size"; cat "$out/top.$size.txt"
			n=$(grep -oE '(^| )[0-9]+ [A-Z][A-Za-z0-9 ]+\[' "$out/top.$size.txt" | wc -l)
			if [ "$n" -ge "$n_gpus" ]; then echo "ok top at $size shows $n_gpus GPUs"; else echo "not ok top at $size shows $n of $n_gpus GPUs"; fi
		done | tee -a "$log"
	fi
	python3 "$here/../../bench/top.py" "$gpuscope" --nvml libnvidia-ml.so.1 --seconds 10 --starts 3
	wait $load
}

if begin values; then
	bash "$here/nvml.sh" "$gpuscope" "$out/nvml" >"$out/nvml.log" 2>&1 || echo "not ok values: status $?" >>"$log"
	grep -v '^PASS' "$out/nvml.log"
	sed -n 's/^PASS/ok/p;s/^FAIL/not ok/p' "$out/nvml.log" >>"$log"
fi
if begin links; then
	python3 "$here/links.py" "$gpuscope" 2>&1 | tee -a "$log"
fi
if begin agent; then
	for interval in 1s 100ms; do
		python3 "$here/../../bench/agent_soak.py" --build "$build" --library libnvidia-ml.so.1 --seconds 40 --gpus "$n_gpus" \
			--interval "$interval" --scrape 5 | tail -8
	done
fi
if begin effect; then
	python3 "$here/agent_effect.py" "$gpuscope" ddp "${GPU_ROUNDS:-4}"
fi
if begin top; then
	screens
fi
if begin groups; then
	for kind in groups fsdp; do
		python3 "$here/groups.py" check "$gpuscope" "$out/$kind" $kind 2>&1 | tee -a "$log"
	done
fi
if begin arrive; then
	bash "$here/arrive.sh" "$gpuscope" "$out/arrive" >"$out/arrive.log" 2>&1 || echo "not ok arrive: status $?" >>"$log"
	cat "$out/arrive.log"
	sed -n 's/^FAIL/not ok/p;/^ok /p' "$out/arrive.log" >>"$log"
fi
if begin hang; then
	python3 "$here/hang.py" "$gpuscope" 2>&1 | tee -a "$log"
fi
if begin report; then
	"$gpuscope" trace -o "$out/ddp.gst" --summary "$out/ddp.txt" -- python3 "$here/ddp.py" 10 >"$out/ddp.out" 2>"$out/ddp.err"
	status=$?
	if [ $status = 0 ]; then echo "ok report: it ran"; else echo "not ok report: status $status"; fi | tee -a "$log"
	tail -n 4 "$out/ddp.out"
	cat "$out/ddp.txt"
	"$gpuscope" report "$out/ddp.gst" --by process
	"$gpuscope" report "$out/ddp.gst" -o "$out/ddp.html" >/dev/null
	"$gpuscope" explain "$out/ddp.gst"
fi
passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^not ok \|^Traceback' "$log")
printf '\neight: %s passed, %s failed (%s s)\n' "$passed" "$failed" "$SECONDS"
[ "$failed" = 0 ]
