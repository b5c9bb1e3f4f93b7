"""Ranges of known CPU time by PyTorch's `record_function` alone: nested, before a function that calls itself, on threads, in tasks that take turns,
around what fails. Says at the end how many nanoseconds ran in each. Needs PyTorch, or its stand-in (torch_stub).
"""

import asyncio
import threading
import time

from torch.autograd.profiler import record_function

truth = {}


class Named(record_function):
    """A subclass with an `__enter__` of its own."""

    def __enter__(self):
        assert super().__enter__() is self
        return self


def burn(label, seconds):
    begin = time.thread_time_ns()
    while time.thread_time_ns() < begin + seconds * 1e9:
        pass
    truth[label] = truth.get(label, 0) + time.thread_time_ns() - begin


@record_function("again")
def again(times):
    if times:
        again(times - 1)
    burn("again", 0.1)


@record_function("shared")
def shared():
    burn("shared", 0.3)


async def task(name, labels):
    with record_function(name):
        for label in labels:
            burn(label, 0.2)
            await asyncio.sleep(0)


async def tasks():
    await asyncio.gather(task("one", ["one"]), task("two", ["one > two", "two"]))


def main():
    try:
        with Named("step"):
            burn("step", 0.2)
            with record_function("forward"):
                burn("step > forward", 0.4)
                raise KeyError
    except KeyError:
        burn("[outside of ranges]", 0.2)
    again(2)
    threads = [threading.Thread(target=shared) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(tasks())
    for label, ns in truth.items():
        print(ns, label)


if __name__ == "__main__":
    main()
