"""Traces of running programs, and recordings."""

from __future__ import annotations

import ctypes
import math
import os
import select
import time
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Union

from . import _structs as s
from ._frames import calls_to_numpy, calls_to_pandas
from ._library import Handle, library
from ._records import Call, Record, Summary, record_of, summary_of

Path = Union[str, 'os.PathLike[str]']

BATCH = 1024  # items that are pulled at once
TURN_S = 0.2  # how long a wait in the library lasts that Ctrl-C cannot interrupt


@dataclass
class Probe:
    """A function of a file to be traced. path: as it is, its last part, a pattern of that, or 'exe'; None: any file.

    symbol: or a pattern. n_args: so many of the first six arguments are saved as call.values['arg1'] and so on.
    result: the result as call.values['ret']. entry_only: calls have no duration, at less than half of the cost.
    """

    symbol: str
    path: Optional[Path] = None
    name: Optional[str] = None
    n_args: int = 0
    result: bool = False
    entry_only: bool = False


@dataclass
class Clock:
    """What must be added to times of records; None: it is not known of a recording."""

    to_wall_ns: int
    to_monotonic_ns: Optional[int]


def encode(value: Optional[Path]) -> Optional[bytes]:
    return None if value is None else os.fsencode(value)


def text_array(values: Sequence[Path], terminated: bool = False) -> Any:
    """Of C; None: there are none. terminated: NULL at the end."""
    if not values:
        return None
    found: List[Optional[bytes]] = [os.fsencode(v) for v in values]
    if terminated:
        found.append(None)
    return (ctypes.c_char_p * len(found))(*found)


def as_ns(seconds: Optional[float]) -> int:
    if seconds is not None and (seconds < 0 or not math.isfinite(seconds)):
        raise ValueError(f'{seconds} is not a number of seconds')
    return 0 if seconds is None else round(seconds * 1e9)


def probe_array(probes: Sequence[Probe]) -> Any:
    made = []
    for p in probes:
        flags = (s.PROBE_ENTRY_ONLY if p.entry_only else 0) | (s.PROBE_RESULT if p.result else 0)
        made.append(ctypes.pointer(s.Probe(ctypes.sizeof(s.Probe), encode(p.path), encode(p.symbol), encode(p.name), flags, p.n_args)))
    return (ctypes.POINTER(s.Probe) * len(made))(*made) if made else None


def device_key(number: int) -> str:
    key = library().gs_device_key(number)
    return str(key.decode()) if key else str(number)


class Stream:
    """What traces and recordings have in common: records that are pulled, a clock, a summary at any time."""

    def __init__(self) -> None:
        self._handle = Handle('trace')
        self._waiting: List[Record] = []
        self._ended = False
        self._poll: Optional[select.poll] = None

    def __enter__(self) -> 'Stream':
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __del__(self) -> None:
        handle = getattr(self, '_handle', None)
        if handle is not None:
            handle.free()

    def __iter__(self) -> Iterator[Record]:
        """Each record until the end; waits for what comes."""
        while True:
            record = self.next()
            if record is None:
                return
            yield record

    def _fill(self, timeout_ns: int) -> int:
        """Pulls what is there into _waiting; an outcome of gs_trace_next_many()."""
        items, n = ctypes.POINTER(ctypes.POINTER(s.Item))(), ctypes.c_size_t()
        outcome = self._handle.call('next_many', timeout_ns, BATCH, ctypes.byref(items), ctypes.byref(n))
        if outcome == s.NEXT_ITEM:
            made = (record_of(items[i], device_key) for i in range(n.value))
            self._waiting = [r for r in made if r is not None][::-1]
        self._ended = outcome == s.NEXT_END
        return outcome

    def _wait(self, seconds: float) -> None:
        """Until something may be there, at most so long. Ctrl-C ends it."""
        if self._poll:
            self._poll.poll(max(0, math.ceil(seconds * 1000)))

    def next(self, timeout: Optional[float] = None) -> Optional[Record]:
        """The next record; None: nothing came within timeout seconds (None: without limit), or, when `ended` says so,
        nothing more will come."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._waiting and not self._ended:
            left = TURN_S if deadline is None else max(0.0, deadline - time.monotonic())
            outcome = self._fill(0 if self._poll else as_ns(min(left, TURN_S)))
            if outcome == s.NEXT_TIMEOUT:
                if deadline is not None and time.monotonic() >= deadline:
                    return None
                self._wait(left)
        return self._waiting.pop() if self._waiting else None

    def take(self, seconds: float) -> List[Record]:
        """All that comes in so many seconds; ends before that when nothing more will come."""
        found: List[Record] = []
        deadline = time.monotonic() + seconds
        while True:
            record = self.next(max(0.0, deadline - time.monotonic()))
            if record is None:
                return found
            found.append(record)

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self._ended and not self._waiting

    def calls(self) -> Iterator[Call]:
        """The calls alone."""
        return (r for r in self if isinstance(r, Call))

    def clock(self) -> Clock:
        lent = ctypes.POINTER(s.Clock)()
        self._handle.call('clock', ctypes.byref(lent))
        c = lent.contents
        return Clock(c.to_wall_ns, c.to_monotonic_ns if c.has_monotonic else None)

    def summary(self) -> Summary:
        """Everything until now; of a recording: of all of it. Records that were not pulled are dropped then."""
        self._before_summary()
        lent = ctypes.POINTER(s.Result)()
        self._handle.call('result', ctypes.byref(lent))
        made = summary_of(lent.contents)
        made.json = self._handle.text('result_json')
        return made

    def _before_summary(self) -> None:
        pass

    def findings_json(self) -> str:
        """What changed while it ran, as `gpuscope explain --format json` has it."""
        self._before_summary()
        return self._handle.text('findings_json')

    def finish(self, timeout: Optional[float] = None) -> bool:
        """Until the end (of the command, the processes, the duration, the file); records are dropped. False: not within
        timeout seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._waiting = []
        while not self._ended:
            left = TURN_S if deadline is None else max(0.0, deadline - time.monotonic())
            self._ended = self._handle.call('finish', as_ns(min(left, TURN_S))) == s.NEXT_END
            if not self._ended and deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def stop(self) -> None:
        """Ends it: probes are removed, outputs complete. What waits can still be pulled."""
        if self._handle.value and self._handle.pid == os.getpid():
            self._handle.call('stop')

    def close(self) -> None:
        """Stops, and frees all; nothing can be asked then."""
        self._poll = None
        self._handle.free()

    def to_pandas(self) -> Any:
        """The calls that still come, as a pandas.DataFrame (needs pandas)."""
        return calls_to_pandas(self.calls())

    def to_numpy(self) -> Any:
        """The same as a structured numpy.ndarray (needs NumPy)."""
        return calls_to_numpy(self.calls())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


class Trace(Stream):
    """A running trace; made by gpuscope.trace(), whose arguments it has."""

    def __init__(
        self,
        command: Optional[Sequence[Path]] = None,
        *,
        pids: Union[int, Iterable[int]] = (),
        process_name: Optional[str] = None,
        cgroup: Optional[Path] = None,
        everything: bool = False,
        follow: bool = False,
        layers: Union[str, Sequence[str], None] = None,
        functions: Sequence[str] = (),
        probes: Sequence[Union[Probe, str]] = (),
        probes_yaml: Optional[str] = None,
        probes_only: bool = False,
        summary_only: bool = False,
        records: bool = True,
        min_duration: Optional[float] = None,
        duration: Optional[float] = None,
        hang_after: Optional[float] = None,
        outputs: Union[Path, Sequence[Path]] = (),
        ring_bytes: int = 0,
        queue_items: int = 0,
    ) -> None:
        if isinstance(command, (str, bytes)):
            raise TypeError('command must be a list of strings, not one string')
        super().__init__()
        numbers = [pids] if isinstance(pids, int) else list(pids)
        paths = [outputs] if isinstance(outputs, (str, os.PathLike)) else list(outputs)
        named = [p if isinstance(p, Probe) else Probe(p) for p in probes]
        flags = (s.TRACE_ALL if everything else 0) | (s.TRACE_FOLLOW if follow else 0)
        flags |= (s.TRACE_SUMMARY_ONLY if summary_only else 0) | (s.TRACE_PROBES_ONLY if probes_only else 0)
        flags |= 0 if records else s.TRACE_NO_ITEMS
        options = s.TraceOptions(
            size=ctypes.sizeof(s.TraceOptions), command=text_array(list(command or ()), terminated=True),
            pids=(ctypes.c_int32 * len(numbers))(*numbers) if numbers else None, n_pids=len(numbers), comm=encode(process_name),
            cgroup=encode(cgroup), flags=flags, layers=encode(layers if layers is None or isinstance(layers, str) else ','.join(layers)),
            functions=text_array(list(functions)), n_functions=len(functions), probes=probe_array(named), n_probes=len(named),
            probes_yaml=encode(probes_yaml), min_dur_ns=as_ns(min_duration), ring_bytes=ring_bytes, queue_items=queue_items,
            outputs=text_array(paths), n_outputs=len(paths), duration_ns=as_ns(duration),
            hang_after_ns=as_ns(hang_after),
        )  # fmt: skip
        self._handle.call('start', ctypes.byref(options))
        self._poll = select.poll()
        self._poll.register(self._handle.call('fd'), select.POLLIN)

    def __enter__(self) -> 'Trace':
        return self


class Recording(Stream):
    """A .gst file. follow: it still grows, and its end is waited for."""

    def __init__(self, path: Path, *, follow: bool = False, outputs: Union[Path, Sequence[Path]] = ()) -> None:
        super().__init__()
        paths = [outputs] if isinstance(outputs, (str, os.PathLike)) else list(outputs)
        options = s.OpenOptions(size=ctypes.sizeof(s.OpenOptions), follow=follow, outputs=text_array(paths), n_outputs=len(paths))
        self._handle.call('open', encode(path), ctypes.byref(options))

    def __enter__(self) -> 'Recording':
        return self

    def _before_summary(self) -> None:
        self.finish()


def trace(command: Optional[Sequence[Path]] = None, **options: Any) -> Trace:
    """Begins to trace a command, processes that run (pids=, process_name=, cgroup=) or all of the machine (everything=True).

    Calls of CUDA and NCCL are traced, or those of other layers (layers='cuda,torch'), only some functions
    (functions=['cudaMalloc*']), and functions of any file (probes=[Probe('write', path='libc.so.6', n_args=3)], or
    probes_yaml= in the form of gpuscope-probes(5)). outputs=['run.gst', 'run.pftrace'] writes files meanwhile, duration= ends
    it after so many seconds. hang_after= looks for hangs: ranks that wait so many seconds for another one in a collective, or
    whose calls do not match, come as Hang records. Leaving the `with` block stops it. Needs root, or CAP_BPF and CAP_PERFMON.
    """
    return Trace(command, **options)
