"""What samplers and their states have in common."""

from __future__ import annotations

import sys
import time
from typing import Any, List, Optional

from ..._devices import Monitor
from ..._records import Sample


class BaseSamplerState:
    def __init__(self) -> None:
        self.task: Optional[str] = None
        self.pid: Optional[int] = None
        self.cpu: Optional[int] = None
        self.timestamp: Optional[int] = None
        self.message: Optional[List[str]] = None

    def is_none(self) -> bool:
        return self.task is None

    def __repr__(self) -> str:
        return f'{self.task} {self.pid} {self.cpu} {self.timestamp} {self.message}'


class BaseSampler:
    def __init__(self, name: str) -> None:
        self.name = name

    def run(self) -> None:
        raise NotImplementedError

    def sample(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class MonitorSampler(BaseSampler):
    """One that reads GPUs. Without one it says why, and has no samples."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._monitor = Monitor(names=True)
        self._read_at = time.monotonic()
        first = self._monitor.read()
        self.deviceCount = len([g for g in first.gpus if not g.is_mig])
        if not first.gpus:
            print(f'{name}: {first.state_text or "there is no GPU"}', file=sys.stderr)

    def _read(self, least_s: float = 0) -> Sample:
        """least_s: at least so long after the read before."""
        time.sleep(max(0.0, self._read_at + least_s - time.monotonic()))
        self._read_at = time.monotonic()
        return self._monitor.read()

    def run(self) -> None:
        """Nothing is to be prepared."""

    def close(self) -> None:
        self._monitor.close()


def percent(ratio: Optional[float]) -> Optional[int]:
    return None if ratio is None else round(ratio * 100)
