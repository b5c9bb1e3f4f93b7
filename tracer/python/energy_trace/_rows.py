"""Rows of a report of `energy-trace report --format json`, as text: joules of functions and of ranges."""

from __future__ import annotations

from typing import Any, List

# What adds up: a core is part of its package, and psys holds the others.
_CLASSES = ("package", "dram", "gpu")
_OUTSIDE = "[outside of ranges]"


def ranges(report: Any) -> List[str]:
    """A line for each range of a report `--by range`, largest first, with those within it; none where there is no range."""
    rows = sorted(report["rows"], key=lambda row: (joules(row), row["total_ns"]), reverse=True)
    if all(row["name"] == _OUTSIDE for row in rows):
        return []
    return [line(row, f"{row['total_ns'] / 1e9:>7.3f} CPU s  {row['name']}") for row in rows]


def line(row: Any, name: str) -> str:
    return f"{quantity(joules(row)):>9} {_interval(row):>6}  {name}"


def joules(row: Any) -> float:
    return float(sum(row["total_uj"][kind] or 0 for kind in _CLASSES) / 1e6)


def quantity(value: float) -> str:
    for unit, size in (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if value / size < 1000 else f"{value / size:.0f} {unit}"
    return "0 J"


def _interval(row: Any) -> str:
    """Half the 95 % interval in parts of the whole."""
    low, high = row["ci95_uj"]
    half, middle = (high - low) / 2, joules(row) * 1e6
    return f"±{half / middle:.0%}" if middle > 0 and half < middle else ">±99%"
