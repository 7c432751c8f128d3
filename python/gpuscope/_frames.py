"""Calls as tables of NumPy and pandas, which are imported only here and only when asked for."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Iterable

from ._records import Call

COLUMNS = ('start_ns', 'duration_ns', 'pid', 'tid', 'cpu', 'depth', 'ret', 'bytes', 'stream', 'name', 'layer', 'process', 'thread',
           'scope', 'error')  # fmt: skip
TYPES = {'start_ns': 'u8', 'duration_ns': 'u8', 'pid': 'u4', 'tid': 'u4', 'cpu': 'u4', 'depth': 'u4', 'ret': 'i4', 'bytes': 'u8',
         'stream': 'u8'}  # fmt: skip


def import_optional(name: str, method: str) -> Any:
    """The module of this name; where it is not installed, the error says for what it is needed and how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name != name:  # it is there, and lacks something itself
            raise
        raise ModuleNotFoundError(f"{method}() needs {name}, which {sys.executable} does not have: pip install 'gpuscope[{name}]', "
                                  f'or the package python3-{name} of the distribution', name=name) from None  # fmt: skip


def calls_to_numpy(calls: Iterable[Call]) -> Any:
    """A structured array; texts are objects."""
    numpy = import_optional('numpy', 'to_numpy')
    rows = [tuple(getattr(c, column) for column in COLUMNS) for c in calls]
    return numpy.array(rows, dtype=[(column, TYPES.get(column, 'O')) for column in COLUMNS])


def calls_to_pandas(calls: Iterable[Call]) -> Any:
    """A DataFrame with a row a call; values that probes read are columns of their own."""
    pandas = import_optional('pandas', 'to_pandas')
    found = list(calls)
    frame = pandas.DataFrame([[getattr(c, column) for column in COLUMNS] for c in found], columns=list(COLUMNS))
    for column, kind in TYPES.items():
        frame[column] = frame[column].astype({'u': 'uint', 'i': 'int'}[kind[0]] + str(int(kind[1]) * 8))
    for name in dict.fromkeys(name for c in found for name in c.values):
        frame[name] = [c.values.get(name) for c in found]
    return frame
