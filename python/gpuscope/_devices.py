"""Samples of GPUs, the processes on them, and the machine."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Iterator, Optional

from . import _structs as s
from ._library import Handle, library, make_error
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


@dataclass(frozen=True)
class DeviceAccess:
    """Whether a control group may use NVIDIA's devices. States: 'none', 'unrestricted', 'allowed', 'granted', 'forbidden', 'revoked',
    'unknown'."""

    cgroup_v1: str
    cgroup_v2: str
    drop_in: str  # of systemd
    is_open: bool  # nothing is known to forbid the devices; False after 'revoke'
    changes: int
    devices: str
    reason: str  # of 'forbidden' and 'unknown'


def device_access(
    pid: int,
    action: str = 'check',
    *,
    held: bool = False,
    ancestors: bool = False,
    drop_in: bool = True,
    host_root: Optional[Path] = None,
) -> DeviceAccess:
    """What `gpuscope devices` does for the control group of a process. action: 'check', 'grant' or 'revoke'; held: only devices that the
    process has open; ancestors: in the groups above, too; drop_in: also in systemd's configuration."""
    if action not in ('check', 'grant', 'revoke'):
        raise ValueError(f"action is {action!r}, not 'check', 'grant' or 'revoke'")
    flags = (s.DEVICES_HELD if held else 0) | (s.DEVICES_ANCESTORS if ancestors else 0) | (0 if drop_in else s.DEVICES_NO_DROP_IN)
    options = s.DevicesOptions(size=ctypes.sizeof(s.DevicesOptions), flags=flags, host_root=encode(host_root))
    result = s.DevicesResult(size=ctypes.sizeof(s.DevicesResult))
    status = getattr(library(), f'gs_devices_{action}')(pid, ctypes.byref(options), ctypes.byref(result))
    if status < 0:
        raise make_error(status, result.reason.decode(errors='replace'))
    return DeviceAccess(
        cgroup_v1=result.cgroup_v1.decode(),
        cgroup_v2=result.cgroup_v2.decode(),
        drop_in=result.drop_in.decode(),
        is_open=bool(result.is_open),
        changes=result.n_changes,
        devices=result.devices.decode(),
        reason=result.reason.decode(errors='replace'),
    )
