"""Recordings as data frames, through the Parquet files that the program writes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union, overload

from . import _program

if TYPE_CHECKING:
    import pandas
    import polars
    from typing_extensions import Literal

    Table = Literal["stacks", "readings", "work"]

_FORMATS = {"stacks": "parquet", "readings": "parquet-readings", "work": "parquet-work"}
_LIBRARIES = ("pandas", "polars")


@overload
def read(
    recording: Union[str, os.PathLike[str]] = ...,
    table: Table = ...,
    *,
    library: Literal["pandas"],
    options: Sequence[str] = ...,
) -> pandas.DataFrame: ...


@overload
def read(
    recording: Union[str, os.PathLike[str]] = ...,
    table: Table = ...,
    *,
    library: Literal["polars"],
    options: Sequence[str] = ...,
) -> polars.DataFrame: ...


@overload
def read(
    recording: Union[str, os.PathLike[str]] = ...,
    table: Table = ...,
    *,
    library: None = ...,
    options: Sequence[str] = ...,
) -> Any: ...


def read(
    recording: Union[str, os.PathLike[str]] = "energy-trace.data",
    table: str = "stacks",
    *,
    library: Optional[str] = None,
    options: Sequence[str] = (),
) -> Any:
    """A table of a recording: its `stacks` over time, the `readings` of each power domain, or the units of `work`.

    `library` is `"pandas"` or `"polars"`; without it the one that the program has imported, else the one that is there. `options` are
    those of `energy-trace export`, such as `["--view", "physical"]`. The columns are in docs/contract.md.

    >>> read("run.data", "rows")
    Traceback (most recent call last):
    ValueError: no table 'rows': it is one of stacks, readings, work
    """
    if table not in _FORMATS:
        raise ValueError(f"no table {table!r}: it is one of {', '.join(_FORMATS)}")
    frames = _library(library)
    with tempfile.TemporaryDirectory(prefix="energy-trace-") as folder:
        file = os.path.join(folder, "table.parquet")
        _program.run("export", os.path.abspath(recording), "--format", _FORMATS[table], "-o", file, *options)
        return frames.read_parquet(file)


def _library(name: Optional[str]) -> Any:
    if name is not None and name not in _LIBRARIES:
        raise ValueError(f"no library {name!r}: it is one of {', '.join(_LIBRARIES)}")
    names = [name] if name else sorted(_LIBRARIES, key=lambda known: known not in sys.modules)
    for known in names:
        if _reads_parquet(known):
            return importlib.import_module(known)
    raise _program.EnergyTraceError(
        f"reading a recording takes {name or ' or '.join(_LIBRARIES)}: `pip install polars`, or `pip install pandas pyarrow`"
    )


def _reads_parquet(library: str) -> bool:
    helpers = ("pyarrow", "fastparquet") if library == "pandas" else (library,)
    return _is_there(library) and any(_is_there(helper) for helper in helpers)


def _is_there(module: str) -> bool:
    return module in sys.modules or importlib.util.find_spec(module) is not None
