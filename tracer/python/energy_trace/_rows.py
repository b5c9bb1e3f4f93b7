"""Rows of a report of `energy-trace report --format json`, as text: joules of functions and of ranges."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

# What adds up: a core is part of its package, and psys holds the others.
_CLASSES = ("package", "dram", "gpu")
_OUTSIDE = "[outside of ranges]"
Models = Dict[str, Tuple[float, float]]


def ranges(report: Any) -> List[str]:
    """A line for each range of a report `--by range`, largest first, with those within it; none where there is no range."""
    rows = sorted(report["rows"], key=lambda row: (joules(row), row["total_ns"]), reverse=True)
    if all(row["name"] == _OUTSIDE for row in rows):
        return []
    known = models(report)
    return [line(row, f"{row['total_ns'] / 1e9:>7.3f} CPU s  {row['name']}", known) for row in rows]


def line(row: Any, name: str, known: Models) -> str:
    return f"{quantity(joules(row)):>9} {_interval(row, known):>6}  {name}"


def models(report: Any) -> Models:
    """What joules of each class may be in parts of those that a model gave, where it has a range."""
    found = {}
    for row in report["ledger"]:
        if row["quality"] == "estimated" and row["target_ci95_uj"] and row["target_uj"] > 0:
            low, high = row["target_ci95_uj"]
            found[row["class"]] = (low / row["target_uj"], high / row["target_uj"])
    return found


def joules(row: Any) -> float:
    return float(sum(row["total_uj"][kind] or 0 for kind in _CLASSES) / 1e6)


def quantity(value: float) -> str:
    for unit, size in (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if value / size < 1000 else f"{value / size:.0f} {unit}"
    return "0 J"


def _interval(row: Any, known: Models) -> str:
    """The farther end of the 95 % interval in parts of the whole, with the range of a model's watts."""
    middle = joules(row) * 1e6
    low, high = row["ci95_uj"] or (middle, middle)
    for kind, (least, most) in known.items():
        uj = row["total_uj"][kind] or 0
        low, high = low - (1 - least) * uj, high + (most - 1) * uj
    far = max(high - middle, middle - low)
    return f"±{far / middle:.0%}" if middle > 0 and far < middle else ">±99%"
