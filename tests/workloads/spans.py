"""Spans of known energy, published by a library that is loaded later (spans_sdk.c).

    spans.py LIBRARY

Declares its power to the simulator as phases.py does, and says at the end how many microjoules of CPU time ran in each span.
"""

import ctypes
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phases import Declaration, fifteen_watts, five_watts, forty_watts

MS = 0.001
WATTS = {forty_watts: 40, fifteen_watts: 15, five_watts: 5}
NAMES = [b"http.route", b"db"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
truth = {}


def record(span, *values):
    """A span's record, with values of the first attributes."""
    attributes = b"".join(struct.pack("BB", number, len(value)) + value for number, value in enumerate(values))
    head = bytes.fromhex(TRACE) + struct.pack(">Q", span) + struct.pack("=BBH", 1, 0, len(attributes))
    return ctypes.create_string_buffer(head + attributes)


def spend(label, span, function, declaration, seconds):
    begin = time.thread_time_ns()
    function(declaration, seconds)
    uj = WATTS[function] * (time.thread_time_ns() - begin) // 1000
    for label in [label, f"trace > span {span:016x} > {label}"]:
        truth[label] = truth.get(label, 0) + uj


def serve(sdk):
    declaration = Declaration()
    request, query = record(1, b"/a"), record(2, b"/a", b"select")
    sdk.publish(request)
    spend("http.route=/a", 1, forty_watts, declaration, 300 * MS)
    sdk.publish(query)
    spend("http.route=/a > db=select", 2, fifteen_watts, declaration, 400 * MS)
    sdk.publish(request)
    spend("http.route=/a", 1, five_watts, declaration, 200 * MS)
    sdk.publish(None)
    five_watts(declaration, 100 * MS)


def main():
    sdk = ctypes.CDLL(sys.argv[1])
    sdk.publish.argtypes = [ctypes.c_void_p]
    sdk.name_attributes(len(NAMES), (ctypes.c_char_p * len(NAMES))(*NAMES))
    # Until it is found where the library has the variable.
    for _ in range(2):
        five_watts(Declaration(), 60 * MS)
        time.sleep(200 * MS)
    thread = threading.Thread(target=serve, args=[sdk])
    thread.start()
    thread.join()
    for label, uj in truth.items():
        print(uj, label)


if __name__ == "__main__":
    main()
