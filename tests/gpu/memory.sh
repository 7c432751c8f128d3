#!/usr/bin/env bash
# Who holds memory, by gpuscope, beside what PyTorch, CuPy and the driver say in the same run: live and peak
# bytes of PyTorch's caching allocator with and without expandable segments, of threads that allocate without
# it, of CuPy's pool, of calls of the runtime and the driver themselves, and of a process that is traced late.
# tests/gpu/memory.sh [GPUSCOPE] [FOLDER]; some two minutes on one GPU that nobody else uses. Needs root and
# PyTorch with CUDA; CuPy for one of them. Ends with "memory: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-memory}
rm -rf "$out"; mkdir -p "$out"
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no PyTorch with a GPU here"; exit 0; }
export PYTHONUNBUFFERED=1
nvidia-smi --query-gpu=name,driver_version,memory.used --format=csv,noheader
log=$out/checks.txt
: >"$log"
load=$here/memory_load.py

environment_of() {
	case $1 in
	expandable) echo PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True PYTORCH_ALLOC_CONF=expandable_segments:True ;;
	uncached) echo PYTORCH_NO_CUDA_MEMORY_CACHING=1 ;;
	*) echo GPUSCOPE_TEST=1 ;;
	esac
}

check() {
	"$gpuscope" report "$out/$1.gst" --format json >"$out/$1.json"
	python3 "$here/memory_check.py" "$1" "$out/$1.json" "$out/$1.truth.json" 2>&1 | tee -a "$log"
	"$gpuscope" report "$out/$1.gst" --memory --top 6 --width 140 | sed -n '/^Memory/,/^more:/p' | head -40
}

for case in eager expandable uncached cupy plain; do
	printf '\n== %s (%s s)\n' "$case" "$SECONDS"
	env $(environment_of "$case") "$gpuscope" trace -q --memory --summary "$out/$case.txt" -o "$out/$case.gst" -- \
		python3 "$load" "$case" "$out/$case.truth.json" >"$out/$case.out" 2>"$out/$case.err"
	status=$?
	[ $status = 77 ] && { echo "SKIP: $(tail -1 "$out/$case.out")"; continue; }
	[ $status = 0 ] || { echo "not ok $case: exit status $status"; tail -5 "$out/$case.err"; } | tee -a "$log"
	check "$case"
done

printf '\n== late: a process that had allocated before it was traced (%s s)\n' "$SECONDS"
mkfifo "$out/go"
python3 "$load" late "$out/late.truth.json" <"$out/go" >"$out/late.out" 2>"$out/late.err" &
pid=$!
exec 3>"$out/go"
for _ in $(seq 600); do grep -q ready "$out/late.out" && break; sleep 0.1; done
"$gpuscope" trace -q --memory -p $pid --summary "$out/late.txt" -o "$out/late.gst" 2>"$out/late.trace" &
tracer=$!
sleep 4
echo >&3
wait $pid
wait $tracer
exec 3>&-
check late

printf '\n== cost: 20,000 pairs of cudaMalloc and cudaFree without and with a trace (%s s)\n' "$SECONDS"
python3 "$load" pairs "$out/pairs.plain.json"
"$gpuscope" trace -q --memory --summary "$out/pairs.txt" -o "$out/pairs.gst" -- python3 "$load" pairs "$out/pairs.truth.json"

passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^not ok\|Error' "$log")
printf '\nmemory: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
