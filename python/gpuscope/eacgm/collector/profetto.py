"""The Trace Event Format, which ui.perfetto.dev and chrome://tracing read."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Tuple

from ..sampler import GPUSamplerState, eBPFSamplerState

GPU_COUNTERS = (('utilization %', 'sm'), ('memory used bytes', 'usedMem'), ('power watts', 'usedPower'), ('temperature Celsius', 'tmp'))


def to_perfetto(states: Iterable[Any]) -> List[Dict[str, Any]]:
    """Begin and end of each call, by time, and values of GPUs as counters.

    An end belongs to the innermost call of its function that is open in its thread, so calls may be nested and call
    themselves. A begin or end alone is left out.
    """
    found: List[Tuple[int, Dict[str, Any]]] = []
    open_calls: Dict[Tuple[Any, ...], List[Tuple[int, Dict[str, Any]]]] = {}
    given = list(states)
    # By time; of equal times in the order in which they came.
    for state in sorted((s for s in given if isinstance(s, eBPFSamplerState)), key=lambda s: s.timestamp or 0):
        event = state.collect()
        at = state.timestamp or 0
        stack = open_calls.setdefault((event['pid'], event['tid'], event['name']), [])
        if event['ph'] == 'B':
            stack.append((at, event))
        elif stack:
            found += [stack.pop(), (at, event)]
    for state in given:
        if isinstance(state, GPUSamplerState) and state.timestamp is not None:
            found += [(state.timestamp, counter_of(state, name, getattr(state, key)))
                      for name, key in GPU_COUNTERS if getattr(state, key) is not None]  # fmt: skip
    found.sort(key=lambda pair: pair[0])
    return [event for _, event in found]


def counter_of(state: GPUSamplerState, name: str, value: float) -> Dict[str, Any]:
    return {'name': f'GPU {state.gpu} {name}', 'cat': 'gpu', 'pid': 0, 'tid': 0, 'cpu': 0, 'ts': (state.timestamp or 0) / 1000,
            'ph': 'C', 'message': [], 'args': {'value': value}}  # fmt: skip
