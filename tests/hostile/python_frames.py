"""Python programs that spoil their own frames, or have names without end: `python_frames.py WHAT SECONDS`.

`names`: fresh functions with names of 1 MB. `spoiled KIND`: `previous` of a frame leads where KIND says while `spin` runs, inside `middle`,
inside the module; it is put right again before anything returns. Knows frames of 3.11 to 3.13.
"""
import ctypes
import sys
import time

KINDS = ["itself", "pair", "cycle", "inner", "unmapped", "kernel", "unaligned"]
# Offset of `previous` in `_PyInterpreterFrame` (Include/internal/pycore_frame.h), and of `f_frame` in `PyFrameObject`.
PREVIOUS = 48 if sys.version_info < (3, 12) else 8
FRAME = 24


def at(frame):
    """The address of the interpreter's own frame."""
    return ctypes.c_uint64.from_address(id(frame) + FRAME).value


def previous(frame):
    return ctypes.c_uint64.from_address(at(frame) + PREVIOUS)


def spin(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(1000):
            pass


def middle(kind, outermost, seconds):
    own = sys._getframe()
    # Which frame's `previous` is spoiled, and how.
    frame, value = {
        "itself": (outermost, at(outermost)),
        "pair": (outermost, at(own)),
        "cycle": (own.f_back, at(own)),
        "inner": (own, at(own)),
        "unmapped": (outermost, 0x1000),
        "kernel": (outermost, 0xFFFF_8880_0000_0000),
        "unaligned": (outermost, at(own) + 3),
    }[kind]
    place = previous(frame)
    true = place.value
    place.value = value
    spin(seconds)
    place.value = true


def outer(kind, outermost, seconds):
    middle(kind, outermost, seconds)


def names(seconds):
    """A new function with a new name each time, each burning for a moment. The last ones stay, so that whoever reads them finds them."""
    until, number, kept = time.monotonic() + seconds, 0, []
    while time.monotonic() < until:
        name = f"f{number}_" + "n" * ((1 << 20) - 100)
        code = spin.__code__.replace(co_name=name, co_filename="/" + name + ".py")
        if hasattr(code, "co_qualname"):
            code = code.replace(co_qualname=name)
        kept = [*kept[-7:], type(spin)(code, globals())]
        kept[-1](0.05)
        number += 1


if __name__ == "__main__":
    if sys.argv[1] == "names":
        names(float(sys.argv[2]))
    else:
        kinds = sys.argv[3:] or KINDS
        for kind in kinds:
            outer(kind, sys._getframe(), float(sys.argv[2]) / len(kinds))
