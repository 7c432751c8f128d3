#!/usr/bin/env bash
# Operators of PyTorch on a real GPU, within six minutes: tests/gpu/torch.sh [GPUSCOPE] [FOLDER]
# Needs root, PyTorch with CUDA, and a gpuscope binary (default: build-release/src/gpuscope).
# GPU_ROUNDS: rounds of the slow-down (default 4). Ends with "torch: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-torch}
steps=25
export PYTHONUNBUFFERED=1
mkdir -p "$out"
log=$out/checks.txt
: >"$log"
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
uname -r
cat /sys/kernel/security/lockdown 2>/dev/null
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
say() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }
check() { python3 "$here/torch_check.py" "$@" 2>&1 | tee -a "$log"; }

say "operators and launches of $steps steps, by torch.profiler and by gpuscope"
python3 "$here/torch_check.py" profile $steps "$out/profile.json" || echo "FAIL the profiled run" | tee -a "$log"
for n in 10 $((10 + steps)); do # WARM, WARM + steps
	"$gpuscope" trace -v -q --layer cuda,nccl,torch --op-set all --format json --summary "$out/sums$n.json" -- \
		python3 "$here/torch_check.py" steps "$n" 2>"$out/sums$n.err" || echo "FAIL the traced run of $n steps" | tee -a "$log"
	"$gpuscope" trace -v -q --layer cuda,nccl,torch --op-set all -o "$out/events$n.gst" --format json \
		--summary "$out/events$n.json" -- python3 "$here/torch_check.py" steps "$n" 2>"$out/events$n.err" ||
		echo "FAIL the traced run of $n steps, events" | tee -a "$log"
done
grep -h "libtorch_cpu" "$out/sums10.err"
for mode in sums events; do
	echo "-- $mode"
	check compare "$out/profile.json" "$out/${mode}10.json" "$out/$mode$((10 + steps)).json" $steps
done
"$gpuscope" report "$out/events$((10 + steps)).gst" --top 12 | tee "$out/report.txt" | head -80

say "an operator that throws"
"$gpuscope" trace -q --layer torch --format json --summary "$out/throws.json" -- python3 -c '
import torch
for _ in range(100):
    try:
        torch.mm(torch.ones(2, 3, device="cuda"), torch.ones(2, 3, device="cuda"))
    except RuntimeError:
        pass
' && python3 - "$out/throws.json" <<'P' | tee -a "$log"
import json, sys
mm = [(f["calls"], f["errors"]) for f in json.load(open(sys.argv[1]))["functions"] if f["name"] == "aten::mm"]
print("PASS" if mm == [(100, 100)] else "FAIL", "aten::mm (calls, errors):", mm)
P
[ -s "$out/throws.json" ] || echo "FAIL the program that throws" | tee -a "$log"

say "steps of optimizers and waits for data loaders"
"$gpuscope" trace -q --layer torch --op record_function --format json --summary "$out/spans.json" -- python3 -c '
import torch
net = torch.nn.Linear(16, 4).cuda()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(40, 16), batch_size=4)
for _ in range(5):
    for x in loader:
        sgd.zero_grad()
        with torch.autograd.profiler.record_function("mine"):
            net(x.cuda()).sum().backward()
        sgd.step()
' && python3 - "$out/spans.json" <<'P' | tee -a "$log"
import json, sys
got = {f["name"]: f["calls"] for f in json.load(open(sys.argv[1]))["functions"]}
want = {"Optimizer.step#SGD.step": 50, "Optimizer.zero_grad#SGD.zero_grad": 50, "mine": 50,
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": 55}
print("PASS" if all(got.get(k) == v for k, v in want.items()) else "FAIL", "spans:", got)
P
[ -s "$out/spans.json" ] || echo "FAIL the program with spans" | tee -a "$log"

say "slow-down, launch-bound"
check slowdown "$gpuscope" small "${GPU_ROUNDS:-4}"
say "slow-down, GPU-bound"
check slowdown "$gpuscope" large "${GPU_ROUNDS_LARGE:-2}"

printf '\ntorch: %s passed, %s failed (%s s)\n' "$(grep -c ^PASS "$log")" "$(grep -c ^FAIL "$log")" "$SECONDS"
[ "$(grep -c ^FAIL "$log")" = 0 ]
