#!/usr/bin/env bash
# What records of CUPTI cost a program by themselves, beside which --inside=gpu is to be measured (tests/gpu/inside_gpu.sh): a bare collector
# (collector.c) is switched on and off within one process, in turns, in several ways. Also what is left when it is off, what cuptiFinalize
# within a call of the program brings back, and whether that is safe beside threads that launch. tests/gpu/collector.sh COLLECTOR.SO [ROUNDS]
# [LOAD...]; with 5 rounds some 80 s for mlp and decode, 30 s for graph, 20 s for stress. PyTorch for CUDA 13 and transformers.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v nvidia-smi >/dev/null || {
	echo "SKIP: no nvidia-smi here"
	exit 0
}
exec python3 -u "$here/collector.py" "$1" "${2:-5}" "${@:3}"
