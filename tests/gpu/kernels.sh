#!/usr/bin/env bash
# Names of kernels on a real GPU, within five minutes: tests/gpu/kernels.sh [GPUSCOPE] [FOLDER]
# Each program runs once, under gpuscope and with PyTorch's profiler (CUPTI) around all that it does: launches by name, and
# registers, are compared. Needs root, PyTorch with CUDA, and a gpuscope binary (default: build-release/src/gpuscope); JAX
# and CuPy where they are. Ends with "kernels: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=${1:-$here/../../build-release/src/gpuscope}
out=${2:-/tmp/gpuscope-kernels}
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
# Launches inside of graphs have no call of their own.
export XLA_FLAGS="--xla_gpu_enable_command_buffer= ${XLA_FLAGS:-}"
mkdir -p "$out"
log=$out/checks.txt
: >"$log"
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
	echo "SKIP: no PyTorch with a GPU here"
	exit 0
}
uname -r
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)'

for program in eager compiled jax cupy; do
	printf '\n== %s (%s s)\n' "$program" "$SECONDS"
	if ! python3 "$here/kernel_names.py" has "$program"; then
		echo "# SKIP $program: not installed here"
		continue
	fi
	"$gpuscope" trace -q --by kernel -o "$out/$program.gst" --format json --summary "$out/$program.summary" -- \
		python3 "$here/kernel_names.py" run "$program" "$out/$program.truth" >"$out/$program.out" 2>"$out/$program.err"
	status=$?
	[ $status = 0 ] || { echo "not ok $program: exit status $status"; tail -5 "$out/$program.err"; } | tee -a "$log"
	[ $status = 0 ] && python3 "$here/kernel_names.py" check "$program" "$out/$program.truth" "$out/$program.summary" | tee -a "$log"
	"$gpuscope" report "$out/$program.gst" --by kernel --top 8 --width 120 | sed -n '/^Kernels/,$p' | head -12
done

printf '\n== a program that runs already (%s s)\n' "$SECONDS"
python3 "$here/kernel_names.py" loop >"$out/late.out" 2>&1 &
pid=$!
for _ in $(seq 60); do grep -q ready "$out/late.out" && break; sleep 1; done
"$gpuscope" trace -q --by kernel -p $pid --duration 3 --format json --summary "$out/late.summary" 2>"$out/late.err"
kill $pid
wait $pid 2>/dev/null
python3 "$here/kernel_names.py" late "$out/late.summary" | tee -a "$log"

printf '\nkernels: %s passed, %s failed\n' "$(grep -c '^ok' "$log")" "$(grep -c '^not ok' "$log")"
! grep -q '^not ok' "$log"
