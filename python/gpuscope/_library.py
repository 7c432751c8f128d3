"""libgpuscope.so: where it is, whether it fits, and its functions."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any, List, NoReturn, Optional

from . import _structs as s

# Of the wheel: bin has the program, lib the library and what the program loads into others.
NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '_native')
SONAME = 'libgpuscope.so.0'


class Error(OSError):
    """What libgpuscope says is wrong, in one line; `errno` is the system's number of it."""

    def __str__(self) -> str:
        return str(self.strerror)


class PermissionDenied(Error, PermissionError):
    """A right is missing: run as root, or give CAP_BPF and CAP_PERFMON."""


def make_error(status: int, text: str) -> Error:
    number = abs(status)
    kind = PermissionDenied if number in (errno.EPERM, errno.EACCES) else Error
    return kind(number, text or os.strerror(number))


def library_paths() -> List[str]:
    """What is tried, in order: a path that the environment names, the wheel's own, the system's."""
    named = os.environ.get('GPUSCOPE_LIBRARY')
    if named:
        return [named]
    return sorted(glob.glob(os.path.join(NATIVE, 'lib', 'libgpuscope.so*'))) + [SONAME]


def declare(library: ctypes.CDLL) -> None:
    handle, handle_pointer = c_void_p, POINTER(c_void_p)
    text_pointer, item = POINTER(c_char_p), POINTER(s.Item)
    prototypes: List[Any] = [
        ('gs_library_version', c_char_p), ('gs_library_version_number', c_uint32),
        ('gs_trace_new', c_int, handle_pointer), ('gs_trace_free', None, handle), ('gs_trace_error', c_char_p, handle),
        ('gs_trace_start', c_int, handle, POINTER(s.TraceOptions)),
        ('gs_trace_open', c_int, handle, c_char_p, POINTER(s.OpenOptions)),
        ('gs_trace_next_many', c_int, handle, c_int64, c_size_t, POINTER(POINTER(item)), POINTER(c_size_t)),
        ('gs_trace_fd', c_int, handle), ('gs_trace_stop', c_int, handle),
        ('gs_trace_clock', c_int, handle, POINTER(POINTER(s.Clock))),
        ('gs_trace_result', c_int, handle, POINTER(POINTER(s.Result))),
        ('gs_trace_result_json', c_int, handle, text_pointer, POINTER(c_size_t)),
        ('gs_trace_findings_json', c_int, handle, text_pointer, POINTER(c_size_t)),
        ('gs_trace_finish', c_int, handle, c_int64),
        ('gs_monitor_new', c_int, handle_pointer), ('gs_monitor_free', None, handle), ('gs_monitor_error', c_char_p, handle),
        ('gs_monitor_open', c_int, handle, POINTER(s.MonitorOptions)),
        ('gs_monitor_read', c_int, handle, POINTER(POINTER(s.Sample))),
        ('gs_monitor_json', c_int, handle, text_pointer, POINTER(c_size_t)),
        ('gs_device_key', c_char_p, c_uint32),
        *((f'gs_devices_{name}', c_int, c_uint32, POINTER(s.DevicesOptions), POINTER(s.DevicesResult)) for name in ('check', 'grant', 'revoke')),
    ]  # fmt: skip
    for name, result, *arguments in prototypes:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def open_needed() -> None:
    """Loads the wheel's copies of libraries that libgpuscope needs, each after those that it needs itself: the dynamic
    loader takes what is there by its soname, and looks no further."""
    for path in sorted(glob.glob(os.path.join(NATIVE, 'lib', 'needed', '*'))):
        ctypes.CDLL(path)


def open_library() -> ctypes.CDLL:
    tried: List[str] = []
    if 'GPUSCOPE_LIBRARY' not in os.environ:
        open_needed()
    for path in library_paths():
        try:
            library = ctypes.CDLL(path)
        except OSError as e:
            tried.append(str(e))
            continue
        try:
            declare(library)
        except AttributeError as e:
            raise Error(errno.ENOSYS, f'{path} is not a libgpuscope that fits this package: {e}')
        number = library.gs_library_version_number()
        found = (number // 1000000, number // 1000 % 1000)
        if found != s.HEADER_VERSION:
            wanted = '.'.join(map(str, s.HEADER_VERSION))
            raise Error(errno.ENOSYS, f'{path} is version {library.gs_library_version().decode()}; this package needs {wanted}')
        return library
    raise Error(errno.ENOENT, 'cannot find libgpuscope; install the wheel or set GPUSCOPE_LIBRARY to its path: ' + '; '.join(tried))


opened: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The library, loaded at its first use."""
    global opened
    if opened is None:
        opened = open_library()
    return opened


def library_version() -> str:
    """The version of libgpuscope in use, '0.1.0'."""
    return str(library().gs_library_version().decode())


class Handle:
    """A handle of the library: freed once, and only by the process that made it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pid = os.getpid()
        self.value = c_void_p()
        status = getattr(library(), f'gs_{kind}_new')(ctypes.byref(self.value))
        if status < 0:
            raise make_error(status, '')

    def call(self, name: str, *arguments: Any) -> int:
        """0 or a positive outcome of gs_<kind>_<name>(); its error is raised."""
        if not self.value:
            raise ValueError('this object is closed')
        if self.pid != os.getpid():
            raise ValueError('this object was opened before fork() and can be used only in the parent process')
        status = int(getattr(library(), f'gs_{self.kind}_{name}')(self.value, *arguments))
        if status < 0:
            self.fail(status)
        return status

    def fail(self, status: int) -> NoReturn:
        text = getattr(library(), f'gs_{self.kind}_error')(self.value)
        raise make_error(status, text.decode('utf-8', 'replace') if text else '')

    def text(self, name: str) -> str:
        """What a function of the handle gives as text."""
        lent, n_bytes = c_char_p(), c_size_t()
        self.call(name, ctypes.byref(lent), ctypes.byref(n_bytes))
        return (lent.value or b'').decode('utf-8', 'replace')

    def free(self) -> None:
        if self.value and self.pid == os.getpid():
            getattr(library(), f'gs_{self.kind}_free')(self.value)
        self.value = c_void_p()
