"""Work that is done by others than the thread that asks for it, in the three ways in which Python programs do it.

ask_native waits for threads that hold no Python frames, ask_threads for a ThreadPoolExecutor, ask_processes for worker processes.
Argument: seconds for each.
"""
import concurrent.futures
import ctypes
import multiprocessing
import sys
import time

libc = ctypes.CDLL(None)
LONG = ctypes.create_string_buffer(b"x" * (64 << 20))


def ask_native(end):
    start = ctypes.cast(libc.strlen, ctypes.c_void_p)
    thread = ctypes.c_ulong()
    while time.monotonic() < end:
        libc.pthread_create(ctypes.byref(thread), None, start, LONG)
        libc.pthread_join(thread, None)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def ask_threads(end):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while time.monotonic() < end:
            pool.submit(burn, 0.05).result()


def ask_processes(end):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        while time.monotonic() < end:
            pool.apply(burn, (0.05,))


def main(seconds):
    for ask in ask_native, ask_threads, ask_processes:
        ask(time.monotonic() + seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]))
