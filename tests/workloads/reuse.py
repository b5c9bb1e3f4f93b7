"""Code made at run time, twice in one place, and a jitdump that says so.

`early` calls an address that has no name yet. `first` and `second` call the same one, under the names `old_code` and `new_code`: by the names of the Python functions a test knows
which name of the machine code is right. Arguments: the folder of the dump, and the CPU time of each, in seconds.
"""

import ctypes
import mmap
import os
import struct
import sys
import time

# mov rcx, rdi; l: dec rcx; jnz l; ret
CODE = bytes.fromhex("4889f9 48ffc9 75fb c3")


class Dump:
    """A jitdump (tools/perf/Documentation/jitdump-specification.txt)."""

    def __init__(self, folder):
        path = os.path.join(folder, f"jit-{os.getpid()}.dump")
        self.file = open(path, "w+b", buffering=0)
        now = time.monotonic_ns()
        self.file.write(struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, os.getpid(), now, 0))
        # The mark by which profilers find the file.
        self.mark = mmap.mmap(self.file.fileno(), 40, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)

    def load(self, number, name, address):
        body = struct.pack("<IIQQQQ", os.getpid(), os.getpid(), address, address, len(CODE), number)
        body += name.encode() + b"\0" + CODE
        self.file.write(struct.pack("<IIQ", 0, 16 + len(body), time.monotonic_ns()) + body)


def early(code, end):
    while time.process_time() < end:
        code(300_000)


def first(code, end):
    while time.process_time() < end:
        code(300_000)


def second(code, end):
    while time.process_time() < end:
        code(300_000)


def main():
    folder, seconds = sys.argv[1], float(sys.argv[2])
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    code = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(address)
    # The code is met before there is a dump of it.
    early(code, time.process_time() + 0.3)
    dump = Dump(folder)
    dump.load(1, "old_code", address)
    first(code, time.process_time() + seconds)
    dump.load(2, "new_code", address)
    second(code, time.process_time() + seconds)
    print("done", flush=True)
    # ctypes holds the memory: it goes with the process.
    os._exit(0)


main()
