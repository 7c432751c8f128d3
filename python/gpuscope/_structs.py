"""The structs of gpuscope/gpuscope.h. tests/python/package.py compares them with what a C compiler makes of the header."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, List, Tuple

# What of the header's version decides whether it can be used: while the first number is 0, both.
HEADER_VERSION = (0, 1)

FOREVER = -1
NEXT_ITEM, NEXT_TIMEOUT, NEXT_END = 0, 1, 2

PROBE_ENTRY_ONLY, PROBE_RESULT = 1, 2
TRACE_ALL, TRACE_FOLLOW, TRACE_SUMMARY_ONLY, TRACE_PROBES_ONLY, TRACE_NO_ITEMS = 1, 2, 4, 8, 16
ITEM_CALL, ITEM_PROCESS, ITEM_ATTACH, ITEM_LOST, ITEM_COUNTER, ITEM_WORK, ITEM_SUM, ITEM_SAMPLE, ITEM_END, ITEM_HANG = range(1, 11)
CALL_UNFINISHED, CALL_INSTANT, CALL_FAILED = 1, 2, 4
VALUE_UNSIGNED, VALUE_SIGNED, VALUE_DOUBLE, VALUE_TEXT = 1, 2, 3, 4
MONITOR_HOST, MONITOR_PROCESSES, MONITOR_NAMES = 1, 2, 4
DEVICES_HELD, DEVICES_ANCESTORS, DEVICES_NO_DROP_IN = 1, 2, 4

Fields = List[Tuple[str, Any]]


def fields(text: str) -> Fields:
    """One line a type: `type name name...`; text: lent by the library."""
    types = {'size': c_size_t, 'u32': c_uint32, 'i32': c_int32, 'u64': c_uint64, 'i64': c_int64, 'double': c_double,
             'text': c_char_p, 'pointer': c_void_p}  # fmt: skip
    return [(name, types[line.split()[0]]) for line in text.strip().splitlines() for name in line.split()[1:]]


def array(name: str, of: Any) -> Fields:
    """An array of pointers, which the library hands out, and how long it is."""
    return [(name, POINTER(POINTER(of))), ('n_' + name, c_size_t)]


ITEM = 'size size\nu32 kind pad\n'


class Clock(Structure):
    _fields_ = fields('size size\ni64 to_monotonic_ns to_wall_ns\nu32 has_monotonic pad')


class Probe(Structure):
    _fields_ = fields('size size\ntext path symbol name\nu32 flags n_args')


class TraceOptions(Structure):
    _fields_ = (
        fields('size size')
        + [('command', POINTER(c_char_p)), ('pids', POINTER(c_int32))]
        + fields('size n_pids\ntext comm cgroup\nu32 flags pad\ntext layers')
        + [('functions', POINTER(c_char_p))]
        + fields('size n_functions')
        + array('probes', Probe)
        + fields('text probes_yaml\nu64 min_dur_ns\nu32 ring_bytes queue_items')
        + [('outputs', POINTER(c_char_p))]
        + fields('size n_outputs\nu64 duration_ns hang_after_ns')
    )


class OpenOptions(Structure):
    _fields_ = fields('size size\nu32 follow pad') + [('outputs', POINTER(c_char_p))] + fields('size n_outputs')


class Item(Structure):
    _fields_ = fields(ITEM)


class Value(Structure):
    _fields_ = fields('size size\ntext name\nu32 kind pad\nu64 u\ni64 i\ndouble f\ntext text')


class Call(Structure):
    _fields_ = (
        fields(ITEM + 'u64 start_ns dur_ns\nu32 pid tid cpu depth bits\ni32 ret\ntext name layer thread process scope error\nu64 bytes stream')
        + [('arg', c_uint64 * 4)]
        + fields('u32 aux n_values')
        + [('values', POINTER(POINTER(Value)))]
    )  # fmt: skip


class Process(Structure):
    _fields_ = fields(ITEM + 'u64 start_ns\nu32 pid ns_pid parent_pid uid\ntext comm exe cmdline container')


class Attached(Structure):
    _fields_ = fields(ITEM + 'text path function\ni32 status\nu32 n_probes\ntext reason')


class Lost(Structure):
    _fields_ = fields(ITEM + 'u64 count\ntext cause text layer detail')


class Counter(Structure):
    _fields_ = fields(ITEM + 'u64 time_ns\ni64 value\nu32 pid is_bytes\ntext name')


class Work(Structure):
    _fields_ = fields(ITEM + 'u64 start_ns dur_ns\nu32 pid device\nu64 stream\ntext sort name\nu64 bytes')


class Sum(Structure):
    _fields_ = fields(ITEM + 'u64 time_ns calls errors total_ns bytes\nu32 pid tid\ntext name layer thread process')


class HangRank(Structure):
    _fields_ = fields('size size\ni32 rank\nu32 pid tid signal\nu64 calls last_ns last_count\ntext last_function last_type state text python_stack native_stack')


class Hang(Structure):
    _fields_ = (
        fields(ITEM + 'u32 number\ni32 n_comm_ranks\nu64 begun_ns found_ns ended_ns comm call\ntext sort text')
        + array('ranks', HangRank)
        + fields('u32 has_arrived pad2')
    )


class End(Structure):
    _fields_ = fields(ITEM + 'u64 time_ns\ni32 exit_status\nu32 pad2\ntext reason')


class Function(Structure):
    _fields_ = fields('size size\ntext name layer\nu64 calls errors n_timed total_ns mean_ns p50_ns p95_ns p99_ns max_ns bytes')


class ProcessResult(Structure):
    _fields_ = fields('size size\nu32 pid parent_pid\ntext comm cmdline container') + array('functions', Function) + fields('u32 uid pad')


class Verdict(Structure):
    _fields_ = fields('size size\ntext class_name title evidence advice command\ndouble share_ratio confidence')


class Finding(Structure):
    _fields_ = fields(
        'size size\ntext subject text cause advice command\nu64 begun_ns ended_ns\nu32 pid tid\ni32 gpu\nu32 pad\n'
        'double before after\ntext unit\ndouble cause_confidence'
    )


class Result(Structure):
    _fields_ = (
        fields('size size\ntext command host kernel end_reason\ni64 start_wall_ns\nu64 duration_ns\ni32 exit_status\nu32 complete')
        + array('functions', Function)
        + array('processes', ProcessResult)
        + array('attached', Attached)
        + array('lost', Lost)
        + [('verdict', POINTER(Verdict))]
        + array('findings', Finding)
        + array('hangs', Hang)
    )


class MonitorOptions(Structure):
    _fields_ = fields('size size\nu32 flags pad\ntext nvml_path\nu64 call_timeout_ns')


class DevicesOptions(Structure):
    _fields_ = fields('size size\nu32 flags pad\ntext host_root')


class DevicesResult(Structure):
    _fields_ = fields('size size\ntext cgroup_v1 cgroup_v2 drop_in\nu32 is_open n_changes') + [('devices', c_char * 512), ('reason', c_char * 512)]


class Device(Structure):
    _fields_ = (
        fields('size size\nu32 index is_mig\ni32 gpu_instance compute_instance\nu32 is_lost n_values')
        + [('values', POINTER(c_double))]
        + fields(
            'u64 time_ns\ntext name uuid pci_bus_id vendor driver_version\n'
            'double utilization_ratio memory_activity_ratio encoder_ratio decoder_ratio memory_total_bytes memory_used_bytes\n'
            'double temperature_celsius fan_ratio power_watts power_limit_watts'
        )
    )


class DeviceProcess(Structure):
    _fields_ = fields(
        'size size\nu32 pid device gpu_index uid\ni64 used_bytes\n'
        'double sm_ratio memory_ratio encoder_ratio decoder_ratio jpeg_ratio optical_flow_ratio\n'
        'u64 start_ns\ntext kind comm user container job cmdline'
    )


class Machine(Structure):
    _fields_ = fields(
        'size size\ni32 n_cpus n_tasks n_running\nu32 pad\ndouble cpu_ratio iowait_ratio load1 load5 load15\n'
        'i64 memory_total_bytes memory_used_bytes swap_total_bytes swap_used_bytes\n'
        'double disk_read_bytes_per_s disk_write_bytes_per_s net_receive_bytes_per_s net_send_bytes_per_s'
    )


class MachineProcess(Structure):
    _fields_ = fields(
        'size size\nu32 pid parent_pid uid\ni32 n_threads\ndouble cpu_ratio\ni64 rss_bytes\nu64 cpu_ns start_ns\n'
        'text state comm user container job cmdline'
    )


class DeviceEvent(Structure):
    _fields_ = fields('size size\nu64 time_ns\nu32 xid pad\ntext pci_bus_id uuid text')


class Sample(Structure):
    _fields_ = (
        fields(ITEM + 'u64 time_ns\ni64 wall_ns\ntext host state state_text')
        + array('devices', Device)
        + array('device_processes', DeviceProcess)
        + array('events', DeviceEvent)
        + [('machine', POINTER(Machine))]
        + array('processes', MachineProcess)
    )


# Their names in the header. Members of the head that they share are `head.` there.
NAMES = {
    Clock: 'gs_clock', Probe: 'gs_probe', TraceOptions: 'gs_trace_options', OpenOptions: 'gs_open_options', Item: 'gs_item',
    Value: 'gs_value', Call: 'gs_call', Process: 'gs_process', Attached: 'gs_attached', Lost: 'gs_lost', Counter: 'gs_counter',
    Work: 'gs_work', Sum: 'gs_sum', End: 'gs_end', Function: 'gs_function', ProcessResult: 'gs_process_result',
    Verdict: 'gs_verdict_result', Finding: 'gs_finding', HangRank: 'gs_hang_rank', Hang: 'gs_hang', Result: 'gs_result', MonitorOptions: 'gs_monitor_options',
    Device: 'gs_device', DeviceProcess: 'gs_device_process', Machine: 'gs_machine', MachineProcess: 'gs_machine_process',
    DeviceEvent: 'gs_device_event', Sample: 'gs_sample', DevicesOptions: 'gs_devices_options', DevicesResult: 'gs_devices_result',
}  # fmt: skip
