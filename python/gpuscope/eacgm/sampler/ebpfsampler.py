"""Calls of functions, by probes."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from ..bpf import BaseBPF, BccBPF, BPFState
from .base import BaseSampler, BaseSamplerState

# Part of an event's name, and the category of those that have it; the first one counts.
CATEGORIES = (('cuda', 'cuda'), ('Py', 'python'), ('nccl', 'nccl'), ('Torch', 'torch'))


class eBPFSamplerState(BaseSamplerState):
    def __init__(self) -> None:
        super().__init__()
        self.tid: Optional[int] = None

    @staticmethod
    def from_ebpfstate(other: BPFState) -> 'eBPFSamplerState':
        state = eBPFSamplerState()
        state.task, state.pid, state.tid, state.cpu = other.task, other.pid, other.tid, other.cpu
        state.timestamp, state.message = other.timestamp, other.message
        return state

    def collect(self) -> Dict[str, Any]:
        """As an event of the Trace Event Format."""
        message = self.message or ['', '']
        return {
            'name': message[1],
            'cat': next((category for part, category in CATEGORIES if part in message[1]), 'other'),
            'pid': self.pid,
            'tid': self.pid if self.tid is None else self.tid,
            'cpu': self.cpu,
            'ts': (self.timestamp or 0) / 1000,
            'ph': 'B' if message[0] == 'start' else 'E',
            'message': message[2:],
        }

    def __repr__(self) -> str:
        return f'eBPFSamplerState {super().__repr__()}'


class eBPFSampler(BaseSampler):
    def __init__(self, bpf: BaseBPF) -> None:
        super().__init__(name='eBPFSampler')
        self.bpf = bpf

    def run(self, attach_config: List[Dict[str, Any]] = []) -> None:  # noqa: B006  never changed
        """Attaches the programs SYMEntry and SYMExit to each SYM of exe_sym in each file of exe_path. What cannot be is
        reported, and the rest is attached."""
        for entry in attach_config:
            for path in entry['exe_path']:
                for symbol in entry['exe_sym']:
                    try:
                        self.bpf.attach_uprobe(path, symbol, symbol + 'Entry')
                        self.bpf.attach_uretprobe(path, symbol, symbol + 'Exit')
                    except (OSError, LookupError, ValueError) as e:
                        print(f'{entry.get("name", self.name)}: {e}', file=sys.stderr)
        if isinstance(self.bpf, BccBPF):
            self.bpf.start()

    def sample(self, time_stamp: float = 1.0) -> List[eBPFSamplerState]:
        """The events of the next time_stamp seconds, by time. A call is reported when it has returned: its start is in
        the list of the window in which it ended."""
        if isinstance(self.bpf, BccBPF):
            states = self.bpf.collect(time_stamp)
        else:
            states = iterate(self.bpf, time_stamp)
        return [eBPFSamplerState.from_ebpfstate(state) for state in states]

    def close(self) -> None:
        self.bpf.cleanup()


def iterate(bpf: BaseBPF, seconds: float) -> List[BPFState]:
    """Of a source of a user's own."""
    import time

    found: List[BPFState] = []
    deadline = time.monotonic() + seconds
    while True:
        state = bpf.trace_ebpf(True)
        if not state.is_none():
            found.append(state)
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            return found
        time.sleep(min(left, 0.01))
