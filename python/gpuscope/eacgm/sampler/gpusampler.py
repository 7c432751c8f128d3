"""GPUs."""

from __future__ import annotations

import time
from typing import List, Optional

from .base import MonitorSampler, percent


class GPUSamplerState:
    """What a GPU does not report is None; the others are there all the same."""

    def __init__(self) -> None:
        self.gpu: Optional[int] = None  # as the driver numbers it
        self.name: Optional[str] = None
        self.sm: Optional[int] = None  # percent
        self.totMem: Optional[int] = None  # bytes
        self.usedMem: Optional[int] = None
        self.enc: Optional[int] = None
        self.dec: Optional[int] = None
        self.tmp: Optional[int] = None  # degrees Celsius
        self.fan: Optional[int] = None  # percent
        self.usedPower: Optional[float] = None  # watts
        self.totPower: Optional[float] = None  # the limit that is set
        self.timestamp: Optional[int] = None  # ns of CLOCK_MONOTONIC

    def __repr__(self) -> str:
        return (f'GPUSamplerState {self.gpu} {self.name} {self.sm} {self.usedMem} {self.totMem} {self.enc} {self.dec} {self.tmp} '
                f'{self.fan} {self.usedPower} {self.totPower}')  # fmt: skip


class GPUSampler(MonitorSampler):
    def __init__(self) -> None:
        super().__init__('GPUSampler')

    def sample(self, time_stamp: float = 0) -> List[GPUSamplerState]:
        """Each GPU now; time_stamp: seconds at least since the sample before."""
        sample = self._read(time_stamp)
        to_monotonic_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        states = []
        for g in sample.gpus:
            if g.is_mig:
                continue
            state = GPUSamplerState()
            state.gpu, state.name, state.sm = g.index, g.name, percent(g.utilization_ratio)
            state.totMem, state.usedMem = g.memory_total_bytes, g.memory_used_bytes
            state.enc, state.dec, state.fan = percent(g.encoder_ratio), percent(g.decoder_ratio), percent(g.fan_ratio)
            state.tmp = None if g.temperature_celsius is None else round(g.temperature_celsius)
            state.usedPower, state.totPower = g.power_watts, g.power_limit_watts
            state.timestamp = sample.time_ns + to_monotonic_ns
            states.append(state)
        return states
