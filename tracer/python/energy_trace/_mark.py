"""Ranges that a program marks, for whoever records.

A recorder names its library in `NVTX_INJECTION64_PATH`, as for programs that use NVTX; one that this process has started tells it
(`_recorder.py`). Leaves out what a range cost (the recording).
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
import types
from typing import Any, Callable, Dict, Optional, TypeVar

from ._torch import mark_record_functions

_F = TypeVar("_F", bound=Callable[..., Any])


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
        if _push is None and not is_awaited:
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


def listen(library: str) -> None:
    """Ranges go to this library of a recorder from now on. This process loads it, nobody puts it there."""
    global _push, _pop
    of = ctypes.PyDLL(library)
    push, pop, recorded = of.energy_trace_push, of.energy_trace_pop, of.energy_trace_recorded
    # A recording that has begun hears of what was marked before.
    recorded()
    _push, _pop = push, pop
    mark_record_functions(library)  # type: ignore[no-untyped-call]


def is_ours(path: str) -> bool:
    return os.path.basename(path).startswith("libenergy_trace")


_push: Optional[Callable[[bytes], object]] = None
_pop: Optional[Callable[[], object]] = None
# Somebody may listen later: functions with a range have it from the beginning.
is_awaited = False

_named = os.environ.get("NVTX_INJECTION64_PATH", "")
if is_ours(_named):
    try:
        listen(_named)
    except (OSError, AttributeError):
        pass  # It is gone, or another version's.
