#!/usr/bin/env bash
# Does a program end as untraced when the stack is unwound through CUDA (cancelled threads, callbacks that
# throw), on the real driver? tests/gpu/harm.sh [GPUSCOPE] [FOLDER FOR OUTPUT [WORD OF CASES]]
# Needs root, a GPU, libcudart (PyTorch's will do) and g++, or HARM_PROGRAM: tests/gpu/harm.cc built elsewhere
# with g++ -O2 -pthread -ldl. Some 6 minutes. Ends with "harm: N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -u "$here/harm.py" "${1:-$here/../../build-release/src/gpuscope}" "${2:-/tmp/gpuscope-harm}" "${3:-}"
