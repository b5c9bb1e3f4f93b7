"""Reads of /dev/zero for argv[1] seconds of CPU time, each made by a worker thread of io_uring while Python computes. Exits with 77 where this
kernel or container has no io_uring.
"""
import ctypes
import mmap
import os
import struct
import sys
import time

SETUP, ENTER, OP_READ, BY_A_WORKER = 425, 426, 22, 16
BYTES = 1 << 26
libc = ctypes.CDLL(None, use_errno=True)
parameters = ctypes.create_string_buffer(120)
ring = libc.syscall(SETUP, 4, parameters)
if ring < 0:
    print(f"io_uring: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
    sys.exit(77)
(entries,) = struct.unpack_from("I", parameters, 0)
_, submitted, _, _, _, _, order = struct.unpack_from("7I", parameters, 40)
taken, completed = struct.unpack_from("2I", parameters, 80)
indices = mmap.mmap(ring, 4096, offset=0)
requests = mmap.mmap(ring, entries * 64, offset=0x10000000)
target = mmap.mmap(-1, BYTES)
address = ctypes.addressof(ctypes.c_char.from_buffer(target))
zero = os.open("/dev/zero", os.O_RDONLY)


def word(at):
    return struct.unpack_from("I", indices, at)[0]


def submit_read():
    at = word(submitted)
    slot = at % entries
    struct.pack_into("BBHiQQIIQ24x", requests, slot * 64, OP_READ, BY_A_WORKER, 0, zero, 0, address, BYTES, 0, 1)
    struct.pack_into("I", indices, order + slot * 4, slot)
    struct.pack_into("I", indices, submitted, at + 1)
    if libc.syscall(ENTER, ring, 1, 0, 0, None, 0) != 1:
        sys.exit(f"io_uring_enter: {os.strerror(ctypes.get_errno())}")


def compute_meanwhile():
    while word(taken) == word(completed):
        sum(range(1000))
    struct.pack_into("I", indices, taken, word(completed))


while time.process_time() < float(sys.argv[1]):
    submit_read()
    compute_meanwhile()
