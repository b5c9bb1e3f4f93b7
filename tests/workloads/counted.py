"""Calls whose numbers are known: by threads, children, recursion, and functions that raise."""
import multiprocessing
import threading


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def work(turns):
    return sum(range(turns))


def fails(n):
    if n % 2:
        raise ValueError


def many(turns):
    for _ in range(turns):
        work(100)


if __name__ == "__main__":
    threads = [threading.Thread(target=many, args=(500,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fib(12)
    for n in range(10):
        try:
            fails(n)
        except ValueError:
            pass
    child = multiprocessing.get_context("fork").Process(target=many, args=(30,))
    child.start()
    child.join()
    import sitecustomize

    assert sitecustomize.OWN, "the program's own sitecustomize is loaded"
