"""Events of the functions that a text names, by probes of gpuscope."""

from __future__ import annotations

import json
import mmap
import os
import re
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, Iterable, List, Optional, Sequence, Tuple

from ..._records import Attached, Call, Lost, Process, Record
from ..._trace import Trace
from .base import BaseBPF, BPFState
from .text import INPUT_CPU, INPUT_PID_TGID, INPUT_RESULT, INPUT_TIME, Program, TextError, evaluate, known_arguments, parse

# Python methods of tensors in libtorch_python.so: file-local, so a stripped library has no such symbols.
TORCH_METHOD = re.compile(r'_ZN5torch8autogradL\d+THPVariable_(\w+?)EP7_objectS2_S2_$')

# Bytes of an element by ncclDataType_t (nccl.h 2.24): int8, uint8, int32, uint32, int64, uint64, float16, float32,
# float64, bfloat16, float8e4m3, float8e5m2.
NCCL_TYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
# Which argument of a function is the count; the data type is the next one (nccl.h).
NCCL_COUNTS = {'ncclAllReduce': 3, 'ncclReduce': 3, 'ncclBroadcast': 3, 'ncclAllGather': 3, 'ncclSend': 2, 'ncclRecv': 2}

STEP_S = 0.05  # how often a window looks for events: a queue of 262,144 holds those of so long at five million calls a second


@dataclass
class Attachment:
    """A function of a file, and the programs of the text that report its entries and returns."""

    path: str
    symbol: str
    entries: List[Program] = field(default_factory=list)
    exits: List[Program] = field(default_factory=list)

    def inputs(self) -> List[str]:
        """Arguments that are read of each call; 'ret' and 'pointer' are those that are known at its return."""
        found: List[str] = []
        for program in self.entries + self.exits:
            wanted = KNOWN_INPUTS.get(program.event) if known_arguments(program) else None
            found += [name for name in wanted or program.inputs() if name not in found]
        return [name for name in found if name not in (INPUT_TIME, INPUT_CPU, INPUT_PID_TGID)]


KNOWN_INPUTS: Dict[str, List[str]] = {
    'cudaMalloc': ['pointer', 'arg2'],
    'cudaMemcpy': ['arg3', 'arg4'],
    'cudaFree': ['arg1'],
    'cudaLaunchKernel': ['arg2', 'arg3', 'arg4', 'arg5'],
    **{name: [f'arg{count}', f'arg{count + 1}'] for name, count in NCCL_COUNTS.items()},
}
PLACES = {'pointer': '*arg1@return: u64 pointer', INPUT_RESULT: 'ret: i64 ret'}


def known_values(event: str, read: Dict[str, Optional[int]]) -> List[Optional[int]]:
    """What the texts of eACGM mean to report of the functions that they trace."""
    values = [read.get(name) for name in KNOWN_INPUTS[event]]
    if event == 'cudaLaunchKernel' or event in NCCL_COUNTS:
        if any(v is None for v in values):
            return [None]
        numbers = [v or 0 for v in values]
        if event in NCCL_COUNTS:
            count, kind = numbers[0], numbers[1] & 0xFFFFFFFF
            return [count * NCCL_TYPE_BYTES[kind] if kind < len(NCCL_TYPE_BYTES) else None]
        # A dim3 is passed in two registers: x and y, z (System V ABI of x86-64, 3.2.3).
        product = 1
        for xy, z in (numbers[:2], numbers[2:]):
            product *= (xy & 0xFFFFFFFF) * (xy >> 32) * (z & 0xFFFFFFFF)
        return [product]
    if event == 'cudaMemcpy' and values[1] is not None:
        values[1] &= 0xFFFFFFFF
    return values


def has_bytes(path: str, wanted: str) -> bool:
    """Whether a file has this text with a zero after it, as tables of symbols have their names."""
    with open(path, 'rb') as f:
        if os.fstat(f.fileno()).st_size == 0:
            return False
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(wanted.encode() + b'\0') >= 0


def check_flags(cflags: Sequence[str]) -> None:
    """Flags that change nothing where nothing is compiled."""
    for flag in cflags:
        if not re.match(r'-(w$|W|O|I|g|std=)', flag):
            raise TextError(f'cflags: {flag!r} is not understood; supported are -w, -W..., -O..., -I..., -g and -std=')


class BccBPF(BaseBPF):
    """Events of the functions of a text. The text is read, not compiled: see gpuscope.eacgm.bpf.text for what it may have."""

    def __init__(self, name: str, text: str, cflags: Sequence[str] = ()) -> None:
        super().__init__(name)
        check_flags(cflags)
        self.programs = parse(text)
        self.losses: Dict[str, int] = {}  # what was lost, by its cause in words
        self._pending: Dict[Tuple[str, str], Attachment] = {}
        self._attached: Dict[str, Attachment] = {}
        self._traces: List[Tuple[Trace, int]] = []  # with what makes its times those of CLOCK_MONOTONIC
        self._ready: Deque[BPFState] = deque()
        self._names: Dict[int, str] = {}  # of processes

    def attach_uprobe(self, exe_path: str, exe_sym: str, bpf_func: str) -> bool:
        self._attachment(exe_path, exe_sym, bpf_func).entries.append(self.programs[bpf_func])
        return True

    def attach_uretprobe(self, exe_path: str, exe_sym: str, bpf_func: str) -> bool:
        self._attachment(exe_path, exe_sym, bpf_func).exits.append(self.programs[bpf_func])
        return True

    def _attachment(self, path: str, symbol: str, function: str) -> Attachment:
        if function not in self.programs:
            raise TextError(f'the text of {self.name} has no function {function}')
        if not os.path.isfile(path):
            raise FileNotFoundError(f'cannot attach to {symbol}: there is no file {path}')
        if not has_bytes(path, symbol) and not TORCH_METHOD.match(symbol):
            raise LookupError(f'cannot attach to {symbol}: {path} has no such function')
        return self._pending.setdefault((path, symbol), Attachment(path, symbol))

    def start(self) -> None:
        """Places the probes that were attached since the last time. Reading events does so, too."""
        described, operators = [], []
        for attachment in self._pending.values():
            method = TORCH_METHOD.match(attachment.symbol)
            if method and not has_bytes(attachment.path, attachment.symbol):
                operators.append('aten::' + method[1])
                self._attached[operators[-1]] = attachment
                continue
            name = f'{len(self._attached)}@{attachment.symbol}'
            self._attached[name] = attachment
            described.append({'name': name, 'lib': os.path.realpath(attachment.path), 'function': attachment.symbol, 'return': True,
                              'args': [PLACES.get(i, f'{i}: u64 {i}') for i in attachment.inputs()]})  # fmt: skip
        self._pending = {}
        if described:
            self._begin(probes_yaml=json.dumps({'probes': described}), probes_only=True)
        if operators:
            self._begin(layers='torch', functions=operators)

    def _begin(self, **options: Any) -> None:
        trace = Trace(everything=True, **options)
        self._traces.append((trace, trace.clock().to_monotonic_ns or 0))

    def _take(self) -> None:
        """Moves all that is there to _ready, by time."""
        found: List[BPFState] = []
        for trace, to_monotonic_ns in self._traces:
            found += self._states(trace.take(0), to_monotonic_ns)
        found.sort(key=lambda state: state.timestamp or 0)
        self._ready.extend(found)

    def _states(self, records: Iterable[Record], to_monotonic_ns: int) -> List[BPFState]:
        found: List[BPFState] = []
        for record in records:
            if isinstance(record, Call) and record.name.partition('.')[0] in self._attached:
                # An operator's name has its overload after a point: aten::add.Tensor.
                attachment = self._attached[record.name.partition('.')[0]]
                begin = record.start_ns + to_monotonic_ns
                record.thread = record.thread or record.process or self._name(record.pid)
                found += [state_of(record, program, begin) for program in attachment.entries]
                if record.is_finished:
                    found += [state_of(record, program, begin + record.duration_ns) for program in attachment.exits]
            elif isinstance(record, Process):
                self._names[record.pid] = record.name
            elif isinstance(record, Lost):
                self.losses[record.text] = self.losses.get(record.text, 0) + record.count
            elif isinstance(record, Attached) and record.status < 0:
                print(f'{self.name}: cannot attach to {record.function or record.path}: {record.reason}', file=sys.stderr)
        return found

    def _name(self, pid: int) -> str:
        """Of a process that no record has named yet; '' when it has ended."""
        if not self._names.get(pid):
            try:
                with open(f'/proc/{pid}/comm', encoding='utf-8', errors='replace') as f:
                    self._names[pid] = f.read().rstrip('\n')
            except OSError:
                pass
        return self._names.get(pid, '')

    def collect(self, seconds: float) -> List[BPFState]:
        """All events of so many seconds from now, by time."""
        self.start()
        deadline = time.monotonic() + seconds
        while True:
            self._take()
            left = deadline - time.monotonic()
            if left <= 0 or (self._traces and all(trace.ended for trace, _ in self._traces)):
                break
            time.sleep(min(left, STEP_S))
        found = sorted(self._ready, key=lambda state: state.timestamp or 0)
        self._ready.clear()
        return found

    def trace_ebpf(self, nonblocking: bool = False) -> BPFState:
        self.start()
        while not self._ready:
            self._take()
            if self._ready or nonblocking or all(trace.ended for trace, _ in self._traces):
                break
            time.sleep(STEP_S)
        return self._ready.popleft() if self._ready else BPFState()

    def cleanup(self) -> None:
        """Removes all probes. What was seen until then, calls that have not returned among it, can still be read."""
        self._pending = {}
        for trace, _ in self._traces:
            trace.stop()
        self._take()
        for trace, _ in self._traces:
            trace.close()
        self._traces = []
        for text, count in self.losses.items():
            print(f'{self.name}: lost {count:,}: {text}', file=sys.stderr)


def state_of(call: Call, program: Program, timestamp: int) -> BPFState:
    state = BPFState()
    state.task, state.pid, state.tid, state.cpu = call.thread, call.pid, call.tid, call.cpu
    state.timestamp = timestamp
    known: Dict[str, Optional[int]] = {name: value for name, value in call.values.items() if isinstance(value, int)}
    known.update({INPUT_TIME: timestamp, INPUT_PID_TGID: call.pid << 32 | call.tid, INPUT_CPU: call.cpu})
    is_known = known_arguments(program) is not None
    if is_known:
        values = known_values(program.event, known)
    else:
        values = [evaluated(program, i, known) for i in range(len(program.values))]
    state.message = [program.phase, program.event] + program.arguments(values, is_known)
    return state


def evaluated(program: Program, number: int, known: Dict[str, Optional[int]]) -> Optional[int]:
    """None: something of it could not be read."""
    try:
        return evaluate(program.values[number], known)[0]
    except KeyError:
        return None
