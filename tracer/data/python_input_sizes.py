"""Sizes of the arguments of Python functions for energy-trace: what `record --input-sizes` has the module that counts calls look at.

Of an argument its type and size are noted, never what it holds. No code of the program runs for it: only attributes of types that are known
below are read. A function's calls are looked at a hundred times a second at the most, and all looks together take a hundredth of the
program's CPU time at the most, so the sizes are samples; of each function and line that calls it the first 16 different ones are kept. What
is left out is counted. Told as lines of text, with control characters between fields, which are taken out of names.
"""

import os
import sys
import time

# Nanoseconds between two looks at the calls of a function, by a thread; its first calls are all looked at.
EVERY = 10_000_000
FIRST = 4
# Looks take one part in so many of the process's CPU time, beside so many nanoseconds that are there from the start. A half of both is for
# the first looks at functions, so that one that is called late and seldom is seen beside many that are called often.
PART = 100
START = 50_000_000
# Nanoseconds between two looks at the process's CPU time.
REFRESH = 1_000_000
MOST_SIZES = 16
MOST_ARGUMENTS = 64
MOST_ENTRIES = 8
MOST_FRAMES = 200
LONGEST = 120

_now = time.perf_counter_ns
_of_thread = time.thread_time_ns
_of_process = time.process_time_ns
_stdlib = os.path.dirname(os.__file__) + "/"
# Since CPython 3.13 `f_locals` is the frame itself; before, a copy that would keep arguments alive.
_is_copy = sys.version_info < (3, 13)

_LENGTHS = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
# Types whose `shape` is an attribute of their own that runs no code of the program. Symbolic and fake tensors are left alone.
_ARRAYS = {
    "numpy": ("ndarray", "memmap", "matrix", "float32", "float64"),
    "torch": ("Tensor", "Parameter"),
    "tensorflow": ("EagerTensor", "ResourceVariable"),
    "jaxlib": ("ArrayImpl",),
    "mxnet": ("NDArray", "ndarray"),
    "pandas": ("DataFrame", "Series"),
    "scipy": ("csr_matrix", "csc_matrix", "coo_matrix", "csr_array", "csc_array", "coo_array"),
}


def _clean(text):
    text = str(text)[:LONGEST]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _array(value, kind):
    """Shape, type of element and bytes of an array; None where it is none that is known."""
    names = _ARRAYS.get(kind.__module__.partition(".")[0])
    if names is None or kind.__name__ not in names:
        return None
    shape = value.shape
    # TensorFlow's shapes are objects; a dimension that is no number is not known.
    shape = shape.as_list() if hasattr(shape, "as_list") else shape
    shape = [d if type(d) is int else None for d in shape]
    dtype = getattr(value, "dtype", None)
    # NumPy and PyTorch call it `itemsize`, TensorFlow `size`; tables have none.
    item = getattr(dtype, "itemsize", None) or getattr(dtype, "size", None)
    size = None
    if type(item) is int and None not in shape and not kind.__module__.startswith(("pandas", "scipy")):
        size = item
        for d in shape:
            size *= d
    name = getattr(dtype, "name", None) or dtype
    return "A", " ".join("?" if d is None else str(d) for d in shape), _clean("" if name is None else name), size


def _size(value):
    kind = type(value)
    if kind in _LENGTHS:
        return "L", str(len(value)), "", None
    try:
        return _array(value, kind) or ("U", "", "", None)
    except Exception:
        return "U", "", "", None


def _field(name, role, value):
    kind = type(value)
    what, size, dtype, count = _size(value)
    of = kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)
    return "\x1f".join((_clean(name), role, _clean(of), what, size, dtype, "" if count is None else str(count)))


def _entries(name, role, value):
    """The arrays in a list, tuple or dictionary: batches and feeds."""
    kind = type(value)
    if kind is dict:
        some = [("%s[%r]" % (name, key), entry) for key, entry, _ in zip(value.keys(), value.values(), range(MOST_ENTRIES)) if type(key) in (str, int)]
    elif kind in (list, tuple):
        some = [("%s[%d]" % (name, at), value[at]) for at in range(min(len(value), MOST_ENTRIES))]
    else:
        return []
    return [_field(label, role, entry) for label, entry in some if _size(entry)[0] == "A"]


def _fields(code, values):
    """All arguments of a call."""
    own = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    fields = []
    for at, name in enumerate(names[: min(own, MOST_ARGUMENTS)]):
        if name in values:
            is_object = at == 0 and name in ("self", "cls")
            role = "O" if is_object else "A"
            fields.append(_field(name, role, values[name]))
            fields += _entries(name, role, values[name])
    if code.co_flags & 0x04 and own < len(names):
        rest = values.get(names[own], ())
        if type(rest) is tuple:
            for at in range(min(len(rest), MOST_ENTRIES)):
                fields.append(_field("*%s[%d]" % (names[own], at), "R", rest[at]))
        own += 1
    if code.co_flags & 0x08 and own < len(names):
        rest = values.get(names[own], {})
        if type(rest) is dict:
            for key, value, _ in zip(list(rest), list(rest.values()), range(MOST_ARGUMENTS)):
                fields.append(_field(key, "K", value))
                fields += _entries(key, "K", value)
    return fields


def _caller(frame):
    """The line of the program that called, itself or by functions of packages."""
    for _ in range(MOST_FRAMES):
        frame = frame.f_back
        if frame is None:
            break
        file = frame.f_code.co_filename
        if "-packages/" not in file and not file.startswith(_stdlib) and not file.startswith("<"):
            return _clean_path(file), frame.f_lineno or 0
    return "", 0


def _clean_path(path):
    return path if path.isprintable() and len(path) < 4096 else ""


def _function(code):
    """What is told of a function. Its code is not kept, as the program may make it again and again."""
    return code.co_qualname, code.co_filename, str(code.co_firstlineno)


class Sizes:
    """What was noted in this process."""

    def __init__(self):
        self.noted = {}
        self.forget()

    def look(self, code, calls, last):
        """Notes a call's arguments, if it is time; gives when that was, or was passed over. To be called from the callback of the call's begin."""
        now = _now()
        if calls > FIRST and now - last < EVERY:
            return last
        if not self._may_look(now, code):
            self.passed += 1
            self.seen.setdefault(_function(code), False)
            return now
        begin = _of_thread()
        try:
            self._note(code)
        except Exception:
            self.left_out += 1
        self.looks += 1
        self.seen[_function(code)] = True
        self.ns += _of_thread() - begin
        return now

    def _may_look(self, now, code):
        """Whether the program's share allows it: all of it for a function that was not looked at yet, else a half."""
        if now - self.asked >= REFRESH:
            self.asked = now
            self.share = START + _of_process() // PART
        return self.ns < (self.share // 2 if self.seen.get(_function(code)) else self.share)

    def _note(self, code):
        # This function, `look`, the callback, and then the function that is called.
        frame = sys._getframe(3)
        if frame.f_code is not code:
            self.left_out += 1
            return
        values = frame.f_locals
        key = "\x1e".join(_fields(code, values))
        if _is_copy:
            values.clear()
        sizes = self.noted.setdefault((_function(code), _caller(frame)), {})
        if key in sizes:
            sizes[key] += 1
        elif len(sizes) < MOST_SIZES:
            sizes[key] = 1
        else:
            self.left_out += 1

    def forget(self):
        self.noted.clear()
        # Functions, and whether a call of theirs was looked at.
        self.seen = {}
        self.looks = self.left_out = self.passed = self.ns = self.share = 0
        self.asked = _now() - REFRESH

    def lines(self):
        unseen = sum(not seen for seen in list(self.seen.values()))
        lines = ["L\t%d\t%d\t%d\t%d\t%d\n" % (self.looks, self.left_out, self.ns, self.passed, unseen)]
        for (function, (file, line)), sizes in list(self.noted.items()):
            if not all(part.isprintable() for part in function):
                continue
            for fields, seen in list(sizes.items()):
                lines.append("\t".join(("A", *function, file, str(line), str(seen), fields)) + "\n")
        return lines
