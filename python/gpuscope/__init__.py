"""gpuscope from Python: traces calls of CUDA, NCCL, PyTorch and of any function, samples GPUs, reads recordings.

    import gpuscope

    with gpuscope.trace(['python3', 'train.py']) as t:
        for record in t:
            if isinstance(record, gpuscope.Call):
                print(record.name, record.duration_ns)
    print(t.summary().verdict())

It is a thin layer over libgpuscope.so (ctypes). gpuscope.eacgm has the classes of eACGM.
"""

from ._devices import DeviceAccess, Monitor, device_access, gpus, processes
from ._library import Error, PermissionDenied, library_version
from ._records import (
    Attached, Call, Counter, End, Finding, Function, Gpu, GpuEvent, GpuProcess, GpuProcesses, Gpus, Hang, HangRank, Lost, Machine,
    MachineProcess, Process, ProcessSummary, Record, Sample, Sum, Summary, Verdict, Work,
)  # fmt: skip
from ._trace import Clock, Probe, Recording, Trace, trace
from ._version import __version__

__all__ = [
    'Attached', 'Call', 'Clock', 'Counter', 'DeviceAccess', 'End', 'Error', 'Finding', 'Function', 'Gpu', 'GpuEvent', 'GpuProcess', 'GpuProcesses',
    'Gpus', 'Hang', 'HangRank', 'Lost', 'Machine', 'MachineProcess', 'Monitor', 'PermissionDenied', 'Probe', 'Process', 'ProcessSummary', 'Record',
    'Recording', 'Sample', 'Sum', 'Summary', 'Trace', 'Verdict', 'Work', '__version__', 'device_access', 'gpus', 'library_version', 'processes', 'trace',
]  # fmt: skip
