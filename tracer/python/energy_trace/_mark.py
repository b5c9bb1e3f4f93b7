"""Ranges that a program marks, for whoever records.

A recorder names its library in `NVTX_INJECTION64_PATH`, as for programs that use NVTX. This asks it for its functions as NVTX does
(`nvtxInit.h`, `nvtxTypes.h`): nothing else is needed. Leaves out what a range cost (the recording).
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import inspect
import os
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

# `NVTX_ETID_CALLBACKS`, `NVTX_CB_MODULE_CORE`, the places of `nvtxRangePushA` and `nvtxRangePop` in its table.
_CALLBACKS, _CORE, _PUSH, _POP, _PLACES = 1, 1, 9, 11, 16

_GetExportTable = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
_Rows = ctypes.POINTER(ctypes.c_void_p)
_GetModuleTable = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Rows), ctypes.POINTER(ctypes.c_uint))


class _Exports(ctypes.Structure):
    """`NvtxExportTableCallbacks`."""

    _fields_ = [("bytes", ctypes.c_size_t), ("table_of", _GetModuleTable)]


class range:
    """A stretch of a thread's work, by a name: `with range("prefill"):`, or `@range("prefill")` on a function.

    Does nothing where nobody records. Ranges of a thread lie within each other.

    >>> @range("decode")
    ... def decode(token):
    ...     return token + 1
    >>> decode(1)
    2
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if _push is not None:
            _push(str(self._name).encode(errors="replace"))

    def __exit__(self, *_: object) -> None:
        if _pop is not None:
            _pop()

    def __call__(self, function: _F) -> _F:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} stops and goes on: use `with energy_trace.range(…)` inside, between its stops")
        if _push is None:
            return function

        # In one line, as it stands in another's place; `count_python_calls.py` knows it by this name.
        def marked(*energy_trace_words: Any, **named: Any) -> Any:
            with self: return function(*energy_trace_words, **named)

        return functools.update_wrapper(_in_place_of(function, marked), function)  # type: ignore[return-value]


def _in_place_of(function: Callable[..., Any], marked: Any) -> Any:
    """`marked` under the name and at the first line of what it calls: stacks have no other name in between."""
    original = inspect.unwrap(function)
    code = getattr(original, "__code__", None)
    if not isinstance(code, types.CodeType):
        return marked
    place: Dict[str, Any] = {"co_name": code.co_name, "co_filename": code.co_filename, "co_firstlineno": code.co_firstlineno}
    if sys.version_info >= (3, 11):
        place["co_qualname"] = code.co_qualname
    named = marked.__code__.replace(**place)
    return types.FunctionType(named, original.__globals__, code.co_name, None, marked.__closure__)


def _functions(path: str) -> Tuple[Optional[Callable[[bytes], int]], Optional[Callable[[], int]]]:
    """Those that a recorder's library puts into the places of NVTX's; none where it is no recorder of ours, or does not want to."""
    if not os.path.basename(path).startswith("libenergy_trace"):
        return None, None
    places = (ctypes.c_void_p * _PLACES)()
    step = ctypes.sizeof(ctypes.c_void_p)
    first = ctypes.addressof(places)
    rows = (ctypes.c_void_p * _PLACES)(None, *(first + at * step for at in builtins.range(1, _PLACES)))

    def table_of(module: int, out: Any, size: Any) -> int:
        if module != _CORE:
            return 0
        out[0] = ctypes.cast(rows, _Rows)
        size[0] = _PLACES
        return 1

    exports = _Exports(ctypes.sizeof(_Exports), _GetModuleTable(table_of))
    give = _GetExportTable(lambda table: ctypes.addressof(exports) if table == _CALLBACKS else None)
    try:
        took = ctypes.CDLL(path).InitializeInjectionNvtx2(give)
    except (OSError, AttributeError):
        return None, None
    push, pop = places[_PUSH], places[_POP]
    if took != 1 or not push or not pop:
        return None, None
    # The library may look at the tables again.
    _kept.append((places, rows, exports, give))
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(push), ctypes.PYFUNCTYPE(ctypes.c_int)(pop)


_kept: List[Any] = []
_push, _pop = _functions(os.environ.get("NVTX_INJECTION64_PATH", ""))
