"""Joules of Python programs, as energy-trace records them.

`range` marks a stretch for whoever records, `read` gives a recording as a data frame. `%load_ext energy_trace` brings `%%joules` to
notebooks, and `pytest --energy` joules to tests. Nothing but the standard library is imported.

>>> import energy_trace
>>> with energy_trace.range("prefill"):
...     answer = sum([40, 2])
>>> answer
42
"""

from ._mark import range
from ._program import EnergyTraceError
from ._read import read

__all__ = ["EnergyTraceError", "load_ipython_extension", "range", "read"]


def load_ipython_extension(shell):  # type: ignore[no-untyped-def]
    """What `%load_ext energy_trace` calls."""
    from . import _mark
    from ._magic import Joules

    _mark.is_awaited = True
    shell.register_magics(Joules)
