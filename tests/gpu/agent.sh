#!/usr/bin/env bash
# The agent and the screen of top on real GPUs: tests/gpu/agent.sh BUILD [FOLDER FOR OUTPUT]
# BUILD holds src/gpuscope. Prints what the agent costs at 1 and 10 readings a second, what a job feels of
# it, and what top costs; leaves a recording of top in the folder.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=${2:-/tmp/gpuscope-agent}
rounds=${GPU_ROUNDS:-5}
mkdir -p "$out"

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
n_gpus=$(nvidia-smi -L | wc -l)
for interval in 1s 100ms; do
	echo "== the agent, a reading each $interval, $n_gpus GPUs"
	python3 "$here/../../bench/agent_soak.py" --build "$build" --library libnvidia-ml.so.1 --seconds 40 \
		--interval "$interval" --scrape 5 | tail -4
done
echo "== the agent beside a training loop"
python3 "$here/agent_effect.py" "$build/src/gpuscope" small "$rounds"
python3 "$here/agent_effect.py" "$build/src/gpuscope" large "$rounds"
echo "== top"
python3 "$here/../../bench/top.py" "$build/src/gpuscope" --nvml libnvidia-ml.so.1 --seconds 15
python3 "$here/train.py" spin --model large --seconds 16 >/dev/null &
sleep 8
TERM=xterm-256color timeout -s INT 7 script -qc "stty rows 40 cols 140; '$build/src/gpuscope' top --record '$out/top.gst'" /dev/null >"$out/top.screen" 2>&1
"$build/src/gpuscope" top --once --format table | head -20
wait
ls -la "$out"
