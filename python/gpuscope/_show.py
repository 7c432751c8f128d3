"""Records as a table of HTML, for notebooks."""

from __future__ import annotations

import html
from typing import Any, Iterable, Sequence

UNITS = (('ns', 1), ('us', 1000), ('ms', 1000**2), ('s', 1000**3))


def shown(column: str, value: Any) -> str:
    """As gpuscope's tables show it; '-' is what is not known."""
    if value is None:
        return '-'
    if column.endswith('_ratio'):
        return f'{value * 100:.0f} %'
    if column.endswith('_ns'):
        unit, factor = [u for u in UNITS if value >= u[1] or u[1] == 1][-1]
        return f'{value / factor:.3g} {unit}' if value < 1000 * factor else f'{value / factor:,.0f} {unit}'
    if column == 'bytes' or column.endswith('_bytes'):
        amount, unit = float(value), 'B'
        for larger in ('KiB', 'MiB', 'GiB', 'TiB'):
            if amount >= 1024:
                amount, unit = amount / 1024, larger
        return f'{amount:.0f} {unit}' if unit == 'B' else f'{amount:.1f} {unit}'
    return f'{value:,}' if isinstance(value, int) and column not in ('pid', 'tid') else str(value)


def title(column: str) -> str:
    for end in ('_ratio', '_ns', '_bytes', '_celsius', '_watts'):
        if column.endswith(end):
            unit = {'_celsius': ' (°C)', '_watts': ' (W)'}.get(end, '')
            return column[: -len(end)].replace('_', ' ') + unit
    return column.replace('_', ' ')


def table(rows: Iterable[Any], columns: Sequence[str]) -> str:
    head = ''.join(f'<th>{html.escape(title(c))}</th>' for c in columns)
    body = ''.join('<tr>' + ''.join(f'<td>{html.escape(shown(c, getattr(r, c)))}</td>' for c in columns) + '</tr>' for r in rows)
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
