"""Memory that never answers, command lines without end, and unwind information that takes time to read: what a recorder must not wait for."""
import ctypes
import os
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Offset of `co_filename` in `PyCodeObject` (Include/cpython/code.h).
FILENAME = {(3, 11): 112, (3, 12): 112, (3, 13): 112}


def build(place, name, *options):
    out = place.path(name)
    begin = time.monotonic()
    subprocess.run(["cc", "-O1", *options, os.path.join(HERE, "stuck.c"), "-o", out], check=True)
    place.end += time.monotonic() - begin
    return out


def stuck(place):
    """Two programs whose memory cannot be read where a recorder looks: a Python's version, and a function's file name. It lies in the file
    HOSTILE_STUCK, of a file system that `stuck serve` has mounted as root."""
    file = os.environ.get("HOSTILE_STUCK")
    if file is None:
        return
    program, library = build(place, "stuck"), build(place, "stuck.so", "-shared", "-fPIC", "-DLIBRARY")
    running = [place.start(program, "version", place.left(), file)]
    running.append(place.start("/usr/bin/python3", __file__, library, place.left(), file))
    for process in running:
        process.wait()


def arguments(place):
    """48 MiB of zeros as a command line, and 200 processes that share one of 1.6 MB."""
    zeros = place.start(build(place, "zeros"), "zeros", place.left(), 48)
    script = "import os,sys,time\nend=time.monotonic()+float(sys.argv[1])\nfor _ in range(200):\n if os.fork()==0: break\n"
    script += "while time.monotonic()<end:\n sum(range(20000)); time.sleep(0.1)\nos._exit(0)"
    place.run("/usr/bin/python3", "-c", script, place.left(), *["A" * 120_000] * 13)
    zeros.wait()


def rows(place):
    """A program that runs code of a library with 400 MB of unwind information for a page of code."""
    library = place.path("rows.so")
    write_rows(library, 400)
    place.run("/usr/bin/python3", __file__, "run", place.left(), library)


def write_rows(path, mib):
    """A shared object: one page of code at 0x1000 (counts `rdi` down), and an `.eh_frame` that has no search table."""
    entry = (b"\x41\x0e\x10\x41\x0e\x20") * (((4 << 20) - 64) // 6)
    start, address = 0x2000, 0x10000000
    cie = struct.pack("<I", 0) + bytes([1]) + b"zR\0" + b"\x01\x78\x10" + b"\x01\x1b" + b"\x0c\x07\x08\x90\x01"
    cie += b"\0" * (-len(cie) % 4)
    with open(path, "wb") as out:
        out.seek(start)
        out.write(struct.pack("<I", len(cie)) + cie)
        size = len(cie) + 4
        for number in range(mib // 4):
            at = address + size
            body = struct.pack("<I", size + 4) + struct.pack("<i", 0x1000 + number * 0x400000 - (at + 8))
            body += struct.pack("<I", 0x3F0000) + b"\0" + entry
            body += b"\0" * (-len(body) % 4)
            out.write(struct.pack("<I", len(body)) + body)
            size += len(body) + 4
        out.write(bytes(4))
        names = b"\0.eh_frame\0.shstrtab\0.text\0"
        names_at = start + size + 4
        out.write(names)
        sections_at = names_at + len(names) + 7 & ~7
        section = struct.Struct("<IIQQQQIIQQ").pack
        out.seek(sections_at)
        out.write(section(*[0] * 10) + section(1, 1, 2, address, start, size + 4, 0, 0, 8, 0))
        out.write(section(11, 3, 0, 0, names_at, len(names), 0, 0, 1, 0))
        out.write(section(21, 1, 6, 0x1000, 0x1000, 0x1000, 0, 0, 16, 0))
        out.seek(0)
        out.write(b"\x7fELF\2\1\1" + bytes(9))
        out.write(struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections_at, 0, 64, 56, 2, 64, 4, 2))
        program = struct.Struct("<IIQQQQQQ").pack
        out.write(program(1, 5, 0, 0, 0, 0x2000, 0x2000, 0x1000))
        out.write(program(1, 4, start, address, address, size + 4, size + 4, 0x1000))
        out.seek(0x1000)
        out.write(bytes.fromhex("48ffcf75fbc3"))


def run_code(path, seconds):
    """Runs the code of such a library, which is mapped as a loader does it."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    fd = os.open(path, os.O_RDONLY)
    code = ctypes.CFUNCTYPE(None, ctypes.c_long)(libc.mmap(None, 4096, 5, 2, fd, ctypes.c_long(0x1000)))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        code(5_000_000)


def spin(seconds):
    """Often enough to be sampled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20000):
            pass
        time.sleep(0.001)


def hide_name(library, file):
    """Puts `co_filename` of `spin` where no page is ever read; it is put back before anything needs it."""
    page = ctypes.CDLL(library)
    page.stuck_page.restype = ctypes.c_void_p
    at = page.stuck_page(file.encode(), None)
    name = ctypes.c_uint64.from_address(id(spin.__code__) + FILENAME[sys.version_info[:2]])
    kept, name.value = name.value, at
    return name, kept


if __name__ == "__main__":
    what, seconds, where = sys.argv[1:]
    if what == "run":
        run_code(where, float(seconds))
    else:
        name, kept = hide_name(what, where)
        spin(float(seconds))
        name.value = kept
