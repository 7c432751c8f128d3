"""Samples of GPUs, the processes on them, and the machine."""

from __future__ import annotations

import ctypes
import time
from typing import Iterator, Optional

from . import _structs as s
from ._library import Handle
from ._records import GpuProcesses, Gpus, Sample, sample_of
from ._trace import Path, as_ns, device_key, encode


class Monitor:
    """Reads samples. Shares of processes and rates are of the time since the read before: the first sample has none."""

    def __init__(
        self,
        *,
        machine: bool = False,
        all_processes: bool = False,
        names: bool = False,
        nvml_path: Optional[Path] = None,
        call_timeout: Optional[float] = None,
    ) -> None:
        self._handle = Handle('monitor')
        flags = (s.MONITOR_HOST if machine else 0) | (s.MONITOR_PROCESSES if all_processes else 0) | (s.MONITOR_NAMES if names else 0)
        options = s.MonitorOptions(size=ctypes.sizeof(s.MonitorOptions), flags=flags, nvml_path=encode(nvml_path),
                                   call_timeout_ns=as_ns(call_timeout))  # fmt: skip
        self._handle.call('open', ctypes.byref(options))

    def __enter__(self) -> 'Monitor':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, '_handle', None)
        if handle is not None:
            handle.free()

    def read(self) -> Sample:
        lent = ctypes.POINTER(s.Sample)()
        self._handle.call('read', ctypes.byref(lent))
        return sample_of(lent.contents, device_key)

    def samples(self, interval: float = 1.0, count: Optional[int] = None) -> Iterator[Sample]:
        """One each interval of seconds, so many; None: until the loop is left."""
        due = time.monotonic()
        made = 0
        while count is None or made < count:
            time.sleep(max(0.0, due - time.monotonic()))
            yield self.read()
            made += 1
            due = max(due + interval, time.monotonic())

    def json(self) -> str:
        """The last sample, as `gpuscope gpu --format json` has it."""
        return self._handle.text('json')

    def close(self) -> None:
        self._handle.free()


def gpus(**options: object) -> Gpus:
    """The GPUs now, [] where there are none. Options are those of Monitor."""
    with Monitor(**options) as monitor:  # type: ignore[arg-type]
        return Gpus(monitor.read().gpus)


def processes(interval: float = 1.0, **options: object) -> GpuProcesses:
    """The processes on GPUs and what each used of them in the interval of seconds that this takes; 0: only their memory."""
    with Monitor(**options) as monitor:  # type: ignore[arg-type]
        sample = monitor.read()
        if interval > 0 and sample.gpus:
            time.sleep(interval)
            sample = monitor.read()
        return GpuProcesses(sample.gpu_processes)
