"""Processes on GPUs, and what each uses of them."""

from __future__ import annotations

from typing import List, Optional

from .base import BaseSamplerState, MonitorSampler, percent


class NVMLSamplerState(BaseSamplerState):
    """task, cpu, message: the process's name, the processor that it last ran on, and [kind, bytes of the GPU's memory,
    command line]. timestamp: microseconds since 1970. What the driver does not report is None."""

    def __init__(self) -> None:
        super().__init__()
        self.gpu: Optional[int] = None
        self.sm: Optional[int] = None  # percent
        self.mem: Optional[int] = None  # percent of time in which the memory controller was busy
        self.enc: Optional[int] = None
        self.dec: Optional[int] = None

    def __repr__(self) -> str:
        return f'NVMLSamplerState {self.gpu} {self.sm} {self.mem} {self.enc} {self.dec} {super().__repr__()}'


def last_cpu(pid: int) -> Optional[int]:
    """The processor that a process last ran on: the 39th field of its stat, proc(5). The name before may have blanks."""
    try:
        with open(f'/proc/{pid}/stat', 'rb') as f:
            return int(f.read().rpartition(b')')[2].split()[36])
    except (OSError, IndexError, ValueError):
        return None


class NVMLSampler(MonitorSampler):
    def __init__(self) -> None:
        super().__init__('NVMLSampler')
        self._is_first = True

    def sample(self, time_stamp: float = 1.0) -> List[NVMLSamplerState]:
        """What each process used since the sample before; the first one waits until it can be that of time_stamp seconds."""
        sample = self._read(time_stamp if self._is_first and self.deviceCount else 0)
        self._is_first = False
        states = []
        for p in sample.gpu_processes:
            state = NVMLSamplerState()
            state.task, state.pid, state.cpu, state.timestamp = p.name, p.pid, last_cpu(p.pid), sample.wall_ns // 1000
            state.message = [p.kind, '-' if p.used_bytes is None else str(p.used_bytes), p.command]
            state.gpu, state.sm, state.mem = p.gpu, percent(p.sm_ratio), percent(p.memory_ratio)
            state.enc, state.dec = percent(p.encoder_ratio), percent(p.decoder_ratio)
            states.append(state)
        return states
