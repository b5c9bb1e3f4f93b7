# mypy: disable-error-code="no-untyped-def,no-untyped-call,attr-defined"
"""PyTorch's `record_function` as ranges of whoever records: each one that is entered begins one, wherever PyTorch's own profiler stands.

Also the `sitecustomize` of programs that `record --ranges` starts, so it uses nothing but `sys` until PyTorch comes. Leaves out operators
(`emit_itt`, `emit_nvtx`, which have ranges of `record_function` too: they count once).
"""

import sys

_MODULE = "torch.autograd.profiler"


def mark_record_functions(library):
    """From now on, or from when PyTorch is imported."""
    if sys.version_info < (3, 6):
        return
    module = sys.modules.get(_MODULE)
    if module is not None:
        _mark(module, library)
    elif not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(library))


class _Finder:
    """Has the module marked when it has been imported, and goes."""

    def __init__(self, library):
        self._library = library

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE or self not in sys.meta_path:
            return None  # Whoever wraps finders does without marks.
        sys.meta_path.remove(self)
        others = (getattr(finder, "find_spec", None) for finder in list(sys.meta_path))
        spec = next(filter(None, (find(name, path, target) for find in others if find)), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._mark_after(spec.loader)
        return spec

    def _mark_after(self, loader):
        run = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            run(module)
            _mark(module, self._library)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # A loader of somebody's own.


def _mark(module, library):
    """Whatever PyTorch has become by now, it is not disturbed."""
    try:
        record_function = module.record_function
        start, end = _functions(library)
        _wrap(record_function, start, end, _profiler())
    except OSError:
        pass  # The recording is over, and its library gone.
    except Exception as error:
        sys.stderr.write("energy-trace: PyTorch's record_function has no ranges: %s\n" % error)


def _functions(library):
    import ctypes

    of = ctypes.PyDLL(library)
    start, end = of.energy_trace_start, of.energy_trace_end
    start.restype, start.argtypes, end.argtypes = ctypes.c_uint64, [ctypes.c_char_p], [ctypes.c_uint64]
    return start, end


def _profiler():
    """Says which profiler of PyTorch this thread is in."""
    compiled = getattr(sys.modules.get("torch._C"), "_autograd", None)
    return getattr(compiled, "_profiler_type", None) or (lambda: None)


def _quietly(mark, record):
    """Whatever the program's objects are like, it runs as it would alone: there is no range then. Another thread may have been faster, too."""
    try:
        mark(record)
    except Exception:
        pass


def _wrap(record_function, start, end, profiler):
    from _thread import get_ident
    from functools import wraps

    enter, leave = record_function.__enter__, record_function.__exit__
    if hasattr(enter, "energy_trace_ranges"):
        return
    # Those that make ranges of it themselves: `emit_nvtx`, `emit_itt`.
    kinds = [getattr(type(profiler()), kind, kind) for kind in ("NVTX", "ITT")]

    def begin(self):
        if profiler() not in kinds and isinstance(self.name, str):
            # Several threads may be within one, or a function within itself.
            ranges = self.__dict__.setdefault("_energy_trace_ranges", [])
            ranges.append((get_ident(), start(self.name.encode(errors="replace"))))

    def finish(self):
        ranges = self.__dict__.get("_energy_trace_ranges", [])
        mine = [of for of in ranges if of[0] == get_ident()] or ranges[-1:]
        for of in mine[-1:]:
            ranges.remove(of)
            end(of[1])

    @wraps(enter)
    def __enter__(self, *more, **named):
        entered = enter(self, *more, **named)
        _quietly(begin, self)
        return entered

    @wraps(leave)
    def __exit__(self, *raised, **named):
        _quietly(finish, self)
        return leave(self, *raised, **named)

    __enter__.energy_trace_ranges = True
    record_function.__enter__, record_function.__exit__ = __enter__, __exit__
