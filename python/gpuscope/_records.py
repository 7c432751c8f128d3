"""What a trace, a recording and samples consist of. Times ending in _ns are of the boot clock (CLOCK_BOOTTIME), shares ending
in _ratio are of 1; None is what is not known, and '' a text that there is not."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _structs as s
from ._show import table

COPY_KINDS = {0: 'HtoH', 1: 'HtoD', 2: 'DtoH', 3: 'DtoD', 4: 'default'}  # cudaMemcpyKind, driver_types.h


@dataclass
class Call:
    """A call of a function; it comes when it has returned."""

    name: str
    layer: str  # 'cuda-runtime', 'nccl', ...; 'user': of a probe that was given
    start_ns: int
    duration_ns: int
    pid: int
    tid: int
    cpu: int  # where it returned
    depth: int  # traced calls of its thread around it
    thread: str  # name of its thread
    process: str  # name of its process
    scope: str  # the innermost operator or Python function around it
    error: str  # name of the error that it returned
    ret: int  # what it returned, the lower 32 bits
    bytes: int  # moved, allocated or freed; of a collective: of one rank
    stream: int
    args: Tuple[int, int, int, int]  # by the function's class: gpuscope-trace(1)
    aux: int
    bits: int
    values: Dict[str, Union[int, float, str]] = field(default_factory=dict)  # that a probe read

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    @property
    def is_finished(self) -> bool:
        """False: it had not returned when tracing ended, and duration_ns is its age."""
        return not self.bits & s.CALL_UNFINISHED

    @property
    def is_instant(self) -> bool:
        """Only its entry was looked at."""
        return bool(self.bits & s.CALL_INSTANT)

    @property
    def failed(self) -> bool:
        return bool(self.bits & s.CALL_FAILED)

    @property
    def grid(self) -> Tuple[int, int, int]:
        """Of a launch: blocks in x, y, z."""
        return self.args[1] & 0xFFFFFFFF, self.args[1] >> 32, self.args[2] & 0xFFFFFFFF

    @property
    def block(self) -> Tuple[int, int, int]:
        """Of a launch: threads of a block in x, y, z."""
        return self.args[2] >> 32, self.args[3] & 0xFFFFFFFF, self.args[3] >> 32


@dataclass
class Process:
    """A process is traced; it comes again when more is known of it, and after an exec."""

    pid: int
    parent_pid: int
    ns_pid: int  # as it numbers itself
    uid: Optional[int]
    start_ns: Optional[int]
    name: str
    exe: str
    command: str
    container: str


@dataclass
class Attached:
    """A file got its probes, or a file or function could not (status is a negative errno then)."""

    path: str
    function: str  # '': all of the file
    status: int
    n_probes: int
    reason: str


@dataclass
class Lost:
    """That many things were lost since the last such record."""

    count: int
    cause: str
    text: str
    layer: str
    detail: str


@dataclass
class Counter:
    """A value of a process (pid 0: the machine) at a time."""

    time_ns: int
    pid: int
    name: str
    value: int
    is_bytes: bool


@dataclass
class Work:
    """What a GPU did, by its own clock."""

    start_ns: int
    duration_ns: int
    pid: int
    device: int
    stream: int
    sort: str
    name: str
    bytes: int


@dataclass
class Sum:
    """Calls of a function in a thread, added up since the last such record."""

    time_ns: int
    name: str
    layer: str
    pid: int
    tid: int
    thread: str
    process: str
    calls: int
    errors: int
    total_ns: int
    bytes: int


@dataclass
class End:
    """The last record: why tracing ended."""

    time_ns: int
    exit_status: Optional[int]  # of the command
    reason: str


@dataclass
class Gpu:
    """A GPU, or a MIG instance of one. `values` has everything that it reports, by the key that metrics and JSON use."""

    index: int
    name: str
    uuid: str
    pci_bus_id: str
    vendor: str
    driver_version: str
    is_mig: bool
    gpu_instance: Optional[int]
    compute_instance: Optional[int]
    is_lost: bool
    time_ns: int
    utilization_ratio: Optional[float]
    memory_activity_ratio: Optional[float]
    encoder_ratio: Optional[float]
    decoder_ratio: Optional[float]
    memory_total_bytes: Optional[int]
    memory_used_bytes: Optional[int]
    temperature_celsius: Optional[float]
    fan_ratio: Optional[float]
    power_watts: Optional[float]
    power_limit_watts: Optional[float]
    values: Dict[str, float] = field(default_factory=dict)


@dataclass
class GpuProcess:
    """A process on a GPU; shares are of the time since the sample before."""

    pid: int
    name: str
    gpu: int  # index of its GPU
    kind: str
    uid: Optional[int]
    start_ns: Optional[int]
    used_bytes: Optional[int]
    sm_ratio: Optional[float]
    memory_ratio: Optional[float]  # how busy the memory controller was for it
    encoder_ratio: Optional[float]
    decoder_ratio: Optional[float]
    jpeg_ratio: Optional[float]
    optical_flow_ratio: Optional[float]
    user: str
    container: str
    job: str
    command: str


@dataclass
class GpuEvent:
    """Something that the driver or the kernel said of a GPU; xid 0: another event."""

    time_ns: int
    xid: int
    pci_bus_id: str
    uuid: str
    text: str


@dataclass
class Machine:
    n_cpus: Optional[int]
    n_tasks: Optional[int]
    n_running: Optional[int]
    cpu_ratio: Optional[float]
    iowait_ratio: Optional[float]
    load1: Optional[float]
    load5: Optional[float]
    load15: Optional[float]
    memory_total_bytes: Optional[int]
    memory_used_bytes: Optional[int]
    swap_total_bytes: Optional[int]
    swap_used_bytes: Optional[int]
    disk_read_bytes_per_s: Optional[float]
    disk_write_bytes_per_s: Optional[float]
    net_receive_bytes_per_s: Optional[float]
    net_send_bytes_per_s: Optional[float]


@dataclass
class MachineProcess:
    pid: int
    parent_pid: int
    name: str
    state: str
    uid: Optional[int]
    n_threads: int
    cpu_ratio: Optional[float]
    cpu_ns: int
    rss_bytes: Optional[int]
    start_ns: Optional[int]
    user: str
    container: str
    job: str
    command: str


@dataclass
class Sample:
    """GPUs, the processes on them and, if wanted, the machine, at a time."""

    time_ns: int
    wall_ns: int
    host: str
    state: str  # of the driver: 'ok', 'no_driver', ...
    state_text: str  # what is wrong and what to do
    gpus: List[Gpu]
    gpu_processes: List[GpuProcess]
    events: List[GpuEvent]
    machine: Optional[Machine]
    processes: List[MachineProcess]

    def _repr_html_(self) -> str:
        return table(self.gpus, GPU_COLUMNS) + table(self.gpu_processes, PROCESS_COLUMNS)


@dataclass
class HangRank:
    """What a rank did when a hang was found. Stacks have the innermost frame first, '' was not read."""

    rank: int
    pid: int
    tid: int
    state: str  # 'arrived', 'missing', 'ended', 'left', 'differs', 'skipped', 'extra'
    text: str
    calls: int  # collectives of it so far
    last_ns: Optional[int]  # when it made the last one
    last_count: int
    last_function: str
    last_type: str
    signal: Optional[int]  # that ended its process
    python_stack: str
    native_stack: str


@dataclass
class Hang:
    """Ranks wait for others, or make calls that do not fit together, as found while a recording was made."""

    number: int  # of an item: it comes again, without ranks and texts, when it is over
    sort: str  # 'waits', 'differs', 'joins'
    text: str
    comm: int  # the communicator: the same number in all of its ranks
    n_comm_ranks: int
    call: int  # which of its collectives, from 1
    begun_ns: int
    found_ns: int
    ended_ns: Optional[int]  # None: it is not over
    has_arrived: bool  # it is over since the last rank arrived
    ranks: List[HangRank]  # those that matter first


Record = Union[Call, Process, Attached, Lost, Counter, Work, Sum, Sample, Hang, End]

GPU_COLUMNS = ('index', 'name', 'utilization_ratio', 'memory_used_bytes', 'memory_total_bytes', 'temperature_celsius', 'power_watts')
PROCESS_COLUMNS = ('pid', 'name', 'gpu', 'kind', 'used_bytes', 'sm_ratio', 'memory_ratio')


class Table(list):  # type: ignore[type-arg]
    """A list of records that a notebook shows as a table."""

    columns: Tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return table(self, self.columns)


class Gpus(Table):
    """GPUs, or MIG instances of them."""

    columns = GPU_COLUMNS


class GpuProcesses(Table):
    """Processes on GPUs."""

    columns = PROCESS_COLUMNS


@dataclass
class Function:
    """Calls of a function; percentiles are off by 5.9 % at most."""

    name: str
    layer: str
    calls: int
    errors: int
    n_timed: int  # calls that the times are of
    total_ns: int
    mean_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int
    bytes: int


@dataclass
class ProcessSummary:
    pid: int
    parent_pid: int
    name: str
    command: str
    container: str
    functions: List[Function]
    uid: Optional[int] = None


@dataclass
class Verdict:
    """What was slow and why."""

    name: str  # 'gpu_bound'; '' there is none
    title: str
    evidence: str
    advice: str
    command: str  # of gpuscope, that shows more
    share_ratio: Optional[float]  # of the wall time of the thread that sets the pace
    confidence: float

    def __bool__(self) -> bool:
        return self.name != ''

    def __str__(self) -> str:
        return f'{self.title}: {self.evidence}' if self.evidence else self.title


@dataclass
class Finding:
    """Something changed while it ran."""

    subject: str
    text: str
    cause: str
    advice: str
    command: str
    begun_ns: int
    ended_ns: Optional[int]  # None: it held until the end
    pid: Optional[int]
    tid: Optional[int]
    gpu: Optional[int]
    before: Optional[float]
    after: Optional[float]
    unit: str
    cause_confidence: float


@dataclass
class Summary:
    """Everything of a trace or recording until now, with what was slow and why."""

    command: str
    host: str
    kernel: str
    end_reason: str
    start_wall_ns: int
    duration_ns: int
    exit_status: Optional[int]
    is_complete: bool  # False: the recording stopped without its end
    functions: List[Function]
    processes: List[ProcessSummary]
    attached: List[Attached]
    lost: List[Lost]
    findings: List[Finding]
    hangs: List[Hang]
    _verdict: Verdict
    json: str = field(repr=False)  # the same as `gpuscope report --format json` gives it

    def verdict(self) -> Verdict:
        return self._verdict

    def function(self, name: str) -> Optional[Function]:
        """The row of a function, None: it was not called."""
        return next((f for f in self.functions if f.name == name), None)

    def _repr_html_(self) -> str:
        columns = ('name', 'layer', 'calls', 'errors', 'total_ns', 'mean_ns', 'p99_ns', 'max_ns', 'bytes')
        return table([self._verdict], ('title', 'evidence', 'advice')) + table(self.functions[:20], columns)


# ---- from the library's structs


def text(value: Optional[bytes]) -> str:
    return value.decode('utf-8', 'replace') if value else ''


def known(value: float) -> Optional[float]:
    return None if math.isnan(value) else value


def known_int(value: float) -> Optional[int]:
    """Of a double that counts, or an integer that is -1 where it is not known."""
    return None if math.isnan(value) or value < 0 else int(value)


def known_uid(value: int) -> Optional[int]:
    return None if value == 0xFFFFFFFF else value


def elements(pointers: Any, n: int) -> List[Any]:
    return [pointers[i].contents for i in range(n)]


def value_of(v: s.Value) -> Union[int, float, str]:
    if v.kind == s.VALUE_TEXT:
        return text(v.text)
    if v.kind == s.VALUE_DOUBLE:
        return float(v.f)
    return int(v.i if v.kind == s.VALUE_SIGNED else v.u)


def call_of(c: s.Call) -> Call:
    values = {text(v.name): value_of(v) for v in elements(c.values, c.n_values)} if c.n_values else {}
    return Call(text(c.name), text(c.layer), c.start_ns, c.dur_ns, c.pid, c.tid, c.cpu, c.depth, text(c.thread), text(c.process),
                text(c.scope), text(c.error), c.ret, c.bytes, c.stream, (c.arg[0], c.arg[1], c.arg[2], c.arg[3]), c.aux, c.bits, values)  # fmt: skip


def process_of(p: s.Process) -> Process:
    return Process(p.pid, p.parent_pid, p.ns_pid, known_uid(p.uid), p.start_ns or None, text(p.comm), text(p.exe), text(p.cmdline),
                   text(p.container))  # fmt: skip


def attached_of(a: s.Attached) -> Attached:
    return Attached(text(a.path), text(a.function), a.status, a.n_probes, text(a.reason))


def lost_of(x: s.Lost) -> Lost:
    return Lost(x.count, text(x.cause), text(x.text), text(x.layer), text(x.detail))


def counter_of(c: s.Counter) -> Counter:
    return Counter(c.time_ns, c.pid, text(c.name), c.value, bool(c.is_bytes))


def work_of(w: s.Work) -> Work:
    return Work(w.start_ns, w.dur_ns, w.pid, w.device, w.stream, text(w.sort), text(w.name), w.bytes)


def sum_of(x: s.Sum) -> Sum:
    return Sum(x.time_ns, text(x.name), text(x.layer), x.pid, x.tid, text(x.thread), text(x.process), x.calls, x.errors, x.total_ns,
               x.bytes)  # fmt: skip


def end_of(e: s.End) -> End:
    return End(e.time_ns, known_int(e.exit_status), text(e.reason))


def gpu_of(d: s.Device, keys: Callable[[int], str]) -> Gpu:
    values = {keys(i): d.values[i] for i in range(d.n_values) if not math.isnan(d.values[i])}
    return Gpu(d.index, text(d.name), text(d.uuid), text(d.pci_bus_id), text(d.vendor), text(d.driver_version), bool(d.is_mig),
               known_int(d.gpu_instance), known_int(d.compute_instance), bool(d.is_lost), d.time_ns, known(d.utilization_ratio),
               known(d.memory_activity_ratio), known(d.encoder_ratio), known(d.decoder_ratio), known_int(d.memory_total_bytes),
               known_int(d.memory_used_bytes), known(d.temperature_celsius), known(d.fan_ratio), known(d.power_watts),
               known(d.power_limit_watts), values)  # fmt: skip


def gpu_process_of(p: s.DeviceProcess) -> GpuProcess:
    return GpuProcess(p.pid, text(p.comm), p.gpu_index, text(p.kind), known_uid(p.uid), p.start_ns or None, known_int(p.used_bytes),
                      known(p.sm_ratio), known(p.memory_ratio), known(p.encoder_ratio), known(p.decoder_ratio), known(p.jpeg_ratio),
                      known(p.optical_flow_ratio), text(p.user), text(p.container), text(p.job), text(p.cmdline))  # fmt: skip


def machine_of(m: s.Machine) -> Machine:
    return Machine(known_int(m.n_cpus), known_int(m.n_tasks), known_int(m.n_running), known(m.cpu_ratio), known(m.iowait_ratio),
                   known(m.load1), known(m.load5), known(m.load15), known_int(m.memory_total_bytes), known_int(m.memory_used_bytes),
                   known_int(m.swap_total_bytes), known_int(m.swap_used_bytes), known(m.disk_read_bytes_per_s),
                   known(m.disk_write_bytes_per_s), known(m.net_receive_bytes_per_s), known(m.net_send_bytes_per_s))  # fmt: skip


def machine_process_of(p: s.MachineProcess) -> MachineProcess:
    return MachineProcess(p.pid, p.parent_pid, text(p.comm), text(p.state), known_uid(p.uid), p.n_threads, known(p.cpu_ratio), p.cpu_ns,
                          known_int(p.rss_bytes), p.start_ns or None, text(p.user), text(p.container), text(p.job), text(p.cmdline))  # fmt: skip


def sample_of(x: s.Sample, keys: Callable[[int], str]) -> Sample:
    events = [GpuEvent(e.time_ns, e.xid, text(e.pci_bus_id), text(e.uuid), text(e.text)) for e in elements(x.events, x.n_events)]
    return Sample(x.time_ns, x.wall_ns, text(x.host), text(x.state), text(x.state_text),
                  Gpus(gpu_of(d, keys) for d in elements(x.devices, x.n_devices)),
                  GpuProcesses(gpu_process_of(p) for p in elements(x.device_processes, x.n_device_processes)), events,
                  machine_of(x.machine.contents) if x.machine else None,
                  [machine_process_of(p) for p in elements(x.processes, x.n_processes)])  # fmt: skip


def function_of(f: s.Function) -> Function:
    return Function(text(f.name), text(f.layer), f.calls, f.errors, f.n_timed, f.total_ns, f.mean_ns, f.p50_ns, f.p95_ns, f.p99_ns,
                    f.max_ns, f.bytes)  # fmt: skip


def finding_of(f: s.Finding) -> Finding:
    return Finding(text(f.subject), text(f.text), text(f.cause), text(f.advice), text(f.command), f.begun_ns, f.ended_ns or None,
                   f.pid or None, f.tid or None, known_int(f.gpu), known(f.before), known(f.after), text(f.unit),
                   f.cause_confidence)  # fmt: skip


def hang_of(h: s.Hang) -> Hang:
    ranks = [HangRank(r.rank, r.pid, r.tid, text(r.state), text(r.text), r.calls, r.last_ns or None, r.last_count, text(r.last_function),
                      text(r.last_type), r.signal or None, text(r.python_stack), text(r.native_stack))
             for r in elements(h.ranks, h.n_ranks)]  # fmt: skip
    return Hang(h.number, text(h.sort), text(h.text), h.comm, h.n_comm_ranks, h.call, h.begun_ns, h.found_ns, h.ended_ns or None,
                bool(h.has_arrived), ranks)  # fmt: skip


def has(struct: Any, name: str) -> bool:
    """Whether the library, which may be older than this package, hands out this member: by the size in front."""
    field = getattr(type(struct), name)
    return bool(struct.size >= field.offset + field.size)


def summary_of(r: s.Result) -> Summary:
    v = r.verdict.contents
    verdict = Verdict(text(v.class_name), text(v.title), text(v.evidence), text(v.advice), text(v.command), known(v.share_ratio),
                      v.confidence)  # fmt: skip
    processes = [ProcessSummary(p.pid, p.parent_pid, text(p.comm), text(p.cmdline), text(p.container),
                                [function_of(f) for f in elements(p.functions, p.n_functions)],
                                known_uid(p.uid) if has(p, 'uid') else None)
                 for p in elements(r.processes, r.n_processes)]  # fmt: skip
    return Summary(text(r.command), text(r.host), text(r.kernel), text(r.end_reason), r.start_wall_ns, r.duration_ns,
                   known_int(r.exit_status), bool(r.complete), [function_of(f) for f in elements(r.functions, r.n_functions)], processes,
                   [attached_of(a) for a in elements(r.attached, r.n_attached)], [lost_of(x) for x in elements(r.lost, r.n_lost)],
                   [finding_of(f) for f in elements(r.findings, r.n_findings)],
                   [hang_of(h) for h in elements(r.hangs, r.n_hangs)] if has(r, 'n_hangs') else [], verdict, '')  # fmt: skip


KINDS: Dict[int, Tuple[Any, Callable[[Any], Record]]] = {
    s.ITEM_CALL: (s.Call, call_of), s.ITEM_PROCESS: (s.Process, process_of), s.ITEM_ATTACH: (s.Attached, attached_of),
    s.ITEM_LOST: (s.Lost, lost_of), s.ITEM_COUNTER: (s.Counter, counter_of), s.ITEM_WORK: (s.Work, work_of),
    s.ITEM_SUM: (s.Sum, sum_of), s.ITEM_HANG: (s.Hang, hang_of), s.ITEM_END: (s.End, end_of),
}  # fmt: skip


def record_of(item: Any, keys: Callable[[int], str]) -> Optional[Record]:
    """A record of an item that the library lends (a pointer); None: of a kind that this package does not know."""
    kind = item.contents.kind
    if kind == s.ITEM_SAMPLE:
        return sample_of(ctypes.cast(item, ctypes.POINTER(s.Sample)).contents, keys)
    if kind not in KINDS:
        return None
    struct, convert = KINDS[kind]
    return convert(ctypes.cast(item, ctypes.POINTER(struct)).contents)
