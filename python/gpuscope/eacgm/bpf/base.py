"""An event and where it comes from, as eACGM names them."""

from __future__ import annotations

from typing import List, Optional


class BPFState:
    """One end of a call. None in `task`: there was no event."""

    def __init__(self) -> None:
        self.task: Optional[str] = None  # name of the thread
        self.pid: Optional[int] = None  # of the process
        self.tid: Optional[int] = None  # of the thread
        self.cpu: Optional[int] = None  # where the call returned
        self.timestamp: Optional[int] = None  # ns of CLOCK_MONOTONIC
        self.message: Optional[List[str]] = None  # ['start' or 'end', name, argument...]

    def is_none(self) -> bool:
        return self.task is None

    def __repr__(self) -> str:
        return f'BPFState {self.task} {self.pid} {self.cpu} {self.timestamp} {self.message}'


class BaseBPF:
    """What a source of events has to offer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def attach_uprobe(self, exe_path: str, exe_sym: str, bpf_func: str) -> bool:
        """Has bpf_func report each entry of a function of a file. True: it will."""
        raise NotImplementedError

    def attach_uretprobe(self, exe_path: str, exe_sym: str, bpf_func: str) -> bool:
        """The same of each return."""
        raise NotImplementedError

    def cleanup(self) -> None:
        """Removes all probes."""
        raise NotImplementedError

    def trace_ebpf(self, nonblocking: bool = False) -> BPFState:
        """The next event; nonblocking: is_none() where there is none."""
        raise NotImplementedError
