#!/usr/bin/env bash
# What decides the pace of resnet_held_up: tests/gpu/resnet_account.sh [GPUSCOPE] [FOLDER FOR OUTPUT]
# The program's own parts of a step, the GPU's time by CUPTI and by the driver's utilisation, and what gpuscope says of it;
# some two minutes. The folder gets host.json, parts.json, gpu.json, utilization.csv, and resnet.txt, .json, .gst.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import torch, torchvision, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-resnet}
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
utilization() { # FILE COMMAND...: the driver's utilisation of GPUs meanwhile
	local file=$1 smi; shift
	nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv,noheader,nounits -lms 200 >"$file" 2>&1 &
	smi=$!
	"$@"
	kill $smi; wait $smi 2>/dev/null
}
for mode in host gpu; do
	timeout 120 python3 "$here/resnet_account.py" $mode >"$out/$mode.json" 2>"$out/$mode.err"
	cat "$out/$mode.json"
done
utilization "$out/utilization.csv" timeout 120 python3 "$here/resnet_account.py" parts >"$out/parts.json" 2>"$out/parts.err"
cat "$out/parts.json"
echo "utilization, each 200 ms: $(awk -F, '{printf "%s ", $2}' "$out/utilization.csv")"

# Traced as verdicts.sh does, and added up in the kernel.
utilization "$out/traced_utilization.csv" python3 -u "$here/verdicts.py" "$gpuscope" "$out" resnet_held_up
echo "utilization, traced: $(awk -F, '{printf "%s ", $2}' "$out/traced_utilization.csv")"
mkfifo "$out/in"
python3 "$here/verdict_programs.py" resnet_held_up <"$out/in" >"$out/program.out" 2>"$out/program.err" &
program=$!
exec 9>"$out/in"
echo go >&9
for _ in $(seq 300); do grep -q ready "$out/program.out" && break; sleep 0.2; done
sleep 1
"$gpuscope" trace -p $program --follow --duration 6s -v --by thread --format json --summary "$out/thread.json" 2>"$out/trace.err"
"$gpuscope" trace -p $program --follow --duration 6s --layer cuda,python -v --by thread --width 140 >"$out/python.txt" 2>&1
"$gpuscope" trace -p $program --follow --duration 6s -v --by thread --width 140 >"$out/thread.txt" 2>&1
kill $program; wait $program 2>/dev/null
rm -f "$out/in"
tail -1 "$out/program.out"
sed -n 1,60p "$out/thread.txt"
"$gpuscope" report "$out/resnet_held_up.gst" --by stream --width 140 2>&1 | sed -n '/^Streams/,/^$/p;/^GPUs/,/^$/p' | head -30
