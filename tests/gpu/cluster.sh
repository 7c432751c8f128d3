#!/usr/bin/env bash
# A head and two nodes over real GPUs while a distributed training run is going on: tests/gpu/cluster.sh
# [GPUSCOPE] [FOLDER]. The head is killed in the middle; afterwards every sample must be stored once, and
# the values must agree with nvidia-smi. Ends with "cluster: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-cluster}
rm -rf "$out"; mkdir -p "$out"
export PYTHONUNBUFFERED=1
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
address=127.0.0.1:18090
passed=0 failed=0
check() { if "${@:2}"; then passed=$((passed + 1)); echo "PASS $1"; else failed=$((failed + 1)); echo "FAIL $1"; fi; }
start_head() { "$gpuscope" head --listen $address --data "$out/data" --interval 200ms --enable-bandwidth --enable-nvlink >>"$out/head.log" 2>&1 & head=$!; }

start_head
nodes=()
for i in a b; do
	"$gpuscope" connect $address --resilient --spool "$out/spool-$i" --instance $i >"$out/node-$i.log" 2>&1 &
	nodes+=($!)
done
sleep 2
session() { "$gpuscope" session --head $address "$@"; }
check "a session starts" session start ddp
python3 "$here/ddp.py" 24 >"$out/train.log" 2>&1 &
train=$!
sleep 6
# The same values at about the same moments.
for i in $(seq 1 12); do
	date +%s.%N
	nvidia-smi --query-gpu=index,uuid,utilization.gpu,memory.used,power.draw,temperature.gpu --format=csv,noheader,nounits
	sleep 0.5
done >"$out/smi.txt"
kill -9 $head; wait $head 2>/dev/null
sleep 3
start_head
sleep 1
session list
check "the session is resumed" session resume ddp
wait $train
cat "$out/train.log"
check "the training run ends well beside it" grep -q 'rank 0: [1-9]' "$out/train.log"
sleep 3
before=$(ps -o cputimes= -p "${nodes[0]}")
check "the session stops" session stop ddp
check "CSV" session export ddp --format csv -o "$out/session.csv"
check "JSON" session export ddp --format json -o "$out/session.json"
check "gst" session export ddp --format gst -o "$out/session.gst"
kill -INT "${nodes[@]}"; wait "${nodes[@]}"
cat "$out"/node-*.log
for f in session.gst session.json; do
	if "$gpuscope" report --plot "$out/$f.png" "$out/$f"; then :; fi
done
kill -INT $head; wait $head
cat "$out/head.log"
echo "processor time of a node over the run: $before s"
python3 "$here/cluster.py" "$out" | tee "$out/checks.txt"
passed=$((passed + $(grep -c ^PASS "$out/checks.txt"))) failed=$((failed + $(grep -c ^FAIL "$out/checks.txt")))
echo "cluster: $passed passed, $failed failed"
[ $failed = 0 ]
