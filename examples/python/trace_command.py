#!/usr/bin/env python3
"""Traces a command and prints each call of CUDA and NCCL, then what was slow.

usage: trace_command.py COMMAND [ARGUMENT...]     (as root)
"""

import sys

import gpuscope

with gpuscope.trace(sys.argv[1:]) as t:
    for call in t.calls():
        print(f'{call.pid} {call.name} {call.duration_ns} ns {call.bytes} bytes {call.error}')
print(t.summary().verdict())
