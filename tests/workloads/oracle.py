"""A program that knows its own stacks: each region spins in `spin` and has told the file argv[1] which frames are above it, and when.

One JSON line a stay in a region: {"region", "thread", "from", "to", "frames"}: the kernel's id of the thread, CLOCK_MONOTONIC in nanoseconds,
and [[name, line, words], ...] outermost first. `words` are what stands between a frame and its caller: null where it is not compared, []
for a call without C, else the C functions that the call went through, outermost first, as words that the reader of this file knows ("sort",
"reduce", "ctypes"); "c" stands for C code without such a word. Names are qualified from 3.11 on, as far as code objects know their own.
Behind argv[2], the seconds of CPU time that each region spins, names of regions may follow: then only these run. A region that this
interpreter or its packages lack says so on stderr as `skipped: REGION: WHY`.
"""
import json
import os
import sys
import threading
import time

if sys.version_info < (3, 8):  # What is missing there, by C functions: no frames of Python's.
    import ctypes
    import functools
    threading.get_native_id = functools.partial(ctypes.CDLL(None).syscall, 186)  # gettid
if sys.version_info < (3, 7):
    time.thread_time = functools.partial(time.clock_gettime, time.CLOCK_THREAD_CPUTIME_ID)
CLOCK, TICK = (time.monotonic_ns, 1) if sys.version_info >= (3, 7) else (time.monotonic, 1e9)  # A C function: no frame of Python's.

OUT = open(sys.argv[1], "a")
SECONDS = float(sys.argv[2])
WANTED = sys.argv[3:]
LOCK = threading.Lock()
TOLD = {}


def spin():
    """The innermost frame of every region; its own line is not compared."""
    clock, thread = CLOCK, threading.get_native_id()
    told = TOLD[thread]
    start, end, total = clock(), time.thread_time() + SECONDS, 0
    while time.thread_time() < end:
        for i in range(200):
            total += i * i
    told.update({"from": int(start * TICK), "to": int(clock() * TICK)})
    with LOCK:
        OUT.write(json.dumps(told) + "\n")
        OUT.flush()
    return total


def name_of(frame):
    """The qualified name; before 3.11 that of methods alone, from the class of `self` or `cls`: a guess (`Class?.name`) where no class
    of its resolution order has the function."""
    code = frame.f_code
    if hasattr(code, "co_qualname"):
        return code.co_qualname
    first = code.co_varnames[0] if code.co_argcount else None
    if first not in ("self", "cls") or first in code.co_cellvars or first not in frame.f_locals:
        return code.co_name
    owner = frame.f_locals[first]
    owner = owner if isinstance(owner, type) else type(owner)
    for base in owner.__mro__:
        value = base.__dict__.get(code.co_name)
        for part in ("", "__func__", "fget", "fset", "fdel"):
            function = getattr(value, part, None) if part else value
            if getattr(function, "__code__", None) is code and function.__qualname__.rsplit(".")[-1] == code.co_name:
                return function.__qualname__
    return owner.__name__ + "?." + code.co_name


def tell(region, words=()):
    """Notes the frames above the caller of `tell`, by the interpreter's own word. The next line of the caller is the one that spins.

    `words` maps names of functions to what stands between their callers and them; others are called without C.
    """
    words, frame, frames = dict(words), sys._getframe(1), []
    while frame is not None:
        name = name_of(frame)
        frames.append([name, frame.f_lineno, words.get(name, words.get(name.rsplit(".", 1)[-1], words.get("*", [])))])
        frame = frame.f_back
    frames[0][1] += 1  # The spin stands on the line below the call of tell.
    frames.reverse()
    frames[0][2] = None  # What the outermost frame is called from is not Python's to say.
    thread = threading.get_native_id()
    TOLD[thread] = {"region": region, "thread": thread, "frames": frames}


# Regions: what stands above is also run in sub-interpreters.
import asyncio
import contextlib
import ctypes
import functools
import re
import signal
import sysconfig
import weakref

REGIONS = []


def region(function):
    REGIONS.append(function)
    return function


class Skip(Exception):
    """A region that cannot run here."""


def no_run(main):
    main.close()
    raise Skip("no asyncio.run")


if sys.version_info < (3, 7):
    asyncio.run = no_run


class Base:
    def inherited(self, name):
        tell(name)
        spin()

    def _given(self):
        tell("method under another name")
        spin()
    given = _given


class Class(Base):
    def method(self, name):
        tell(name)
        spin()

    @staticmethod
    def static(name):
        Class().method(name)

    @classmethod
    def of_class(cls, name):
        cls.static(name)


@region
def plain():
    Class.of_class("plain")


@region
def inherited():
    Class().inherited("inherited method")
    Class().given()


@region
def captured():
    class Captured:
        def method(self):
            tell("method whose self is captured")
            spin()
            return lambda: self
    Captured().method()


@region
def sorted_key():
    def key(_):
        tell("sorted key", {"key": ["sort"]})
        spin()
        return 0
    sorted([1], key=key)


@region
def reduced():
    def add(_a, _b):
        tell("reduce", {"add": ["reduce"]})
        spin()
    functools.reduce(add, [1, 2])


@region
def sorted_in_reduce_in_sorted():
    words = {"key": ["sort"], "add": ["reduce"], "inner": ["sort"], "mapped": ["map"]}

    def mapped(_):
        tell("sort in map in reduce in sort", words)
        spin()

    def inner(_):
        list(map(mapped, [1]))
        return 0

    def add(_a, _b):
        [1].sort(key=inner)

    def key(_):
        functools.reduce(add, [1, 2])
        return 0
    sorted([1], key=key)


@region
def map_over_generator():
    def items():
        yield 1

    def each(_):
        tell("map over a generator", {"each": ["map"]})
        spin()
    list(map(each, items()))


@region
def generator_under_map():
    def items():
        tell("generator under map", {"items": ["map", "generator"]})
        spin()
        yield 1
    list(map(str, items()))


@region
def generated():
    def items():
        tell("generator in list", {"items": ["generator"]})
        spin()
        yield 1
    list(items())


@region
def generator_expression():
    def item():
        tell("generator expression in sum", {"<genexpr>": ["sum", "generator"]})
        spin()
        return 1
    sum(item() for _ in range(1))


@region
def delegated():
    def inner():
        tell("yield from", {"*": None})
        spin()
        yield 1

    def outer():
        yield from inner()
    for _ in outer():
        pass


@region
def ctypes_callback():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(_a, _b):
        tell("ctypes callback", {"compare": ["ctypes", "qsort", "ctypes"]})
        spin()
        return 0
    values = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(values, 2, 4, compare)


@region
def sorted_in_ctypes():
    def key(_):
        tell("sort in a ctypes callback", {"compare": ["ctypes", "qsort", "ctypes"], "key": ["sort"]})
        spin()
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(_a, _b):
        sorted([1], key=key)
        return 0
    values = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(values, 2, 4, compare)


def import_numpy():
    try:
        import numpy
    except ImportError as why:
        raise Skip(f"no numpy ({why})")
    return numpy


@region
def numpy_frompyfunc():
    numpy = import_numpy()

    def element(_):
        tell("numpy frompyfunc", {"element": ["numpy"]})
        spin()
        return 0
    numpy.frompyfunc(element, 1, 1)(numpy.arange(1))


@region
def numpy_vectorize():
    numpy = import_numpy()

    def element(_):
        tell("numpy vectorize", {"*": None, "element": ["numpy"]})
        spin()
        return 0
    numpy.vectorize(element, otypes=[int])(numpy.arange(1))


@region
def recursive_shallow():
    recursive(100, "recursion, 100 frames")


@region
def recursive_deep():
    sys.setrecursionlimit(3000)
    recursive(1000, "recursion, 1,000 frames")


def recursive(depth, name):
    if depth:
        return recursive(depth - 1, name)
    tell(name)
    return spin()


@region
def nested_c():
    def nested(depth):
        if depth == 0:
            tell("nested C calls", {"nested": ["map"]})
            spin()
        else:
            list(map(nested, [depth - 1]))
    list(map(nested, [8]))


@region
def raising():
    try:
        raise ValueError("in flight")
    except ValueError:
        tell("in except")
        spin()


@region
def raising_through_c():
    def key(_):
        raise ValueError("through C")

    def handle():
        try:
            sorted([1], key=key)
        except ValueError as error:
            assert error.__traceback__ is not None
            tell("in except, raised through C")
            spin()
    handle()


@region
def in_finally():
    def work():
        try:
            raise ValueError("in flight")
        finally:
            tell("in finally")
            spin()
    with contextlib.suppress(ValueError):
        work()


@region
def in_exit():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            tell("__exit__ with an exception", {"__exit__": None})
            spin()
            return True
    with Manager():
        raise ValueError("in flight")


@region
def in_thread():
    def work():
        tell("thread", {"*": None})
        spin()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@region
def in_four_threads():
    def key(_):
        tell("sort in four threads", {"*": None, "key": ["sort"]})
        spin()
        return 0

    def work():
        sorted([1], key=key)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@region
def awaited():
    async def inner():
        tell("awaited", {"*": None})
        spin()

    async def outer():
        await asyncio.sleep(0)
        await inner()
    asyncio.run(outer())


@region
def tasks():
    async def one(number):
        await asyncio.sleep(0)
        if number == 2:
            tell("task", {"*": None})
            spin()

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(4)))
    asyncio.run(all_of_them())


@region
def async_generator():
    async def items():
        await asyncio.sleep(0)
        tell("async generator", {"*": None})
        spin()
        yield 1

    async def outer():
        async for _ in items():
            pass
    asyncio.run(outer())


@region
def sent_coroutine():
    async def inner():
        tell("coroutine by send", {"outer": ["generator"], "inner": None})
        spin()

    async def outer():
        await inner()
    with contextlib.suppress(StopIteration):
        outer().send(None)


@region
def signalled():
    def handler(_number, _frame):
        tell("signal handler", {"handler": None})
        spin()
    signal.signal(signal.SIGUSR1, handler)
    os.kill(os.getpid(), signal.SIGUSR1)


@region
def signalled_in_callback():
    def handler(_number, _frame):
        tell("signal handler in a C callback", {"handler": None, "key": ["sort"]})
        spin()

    def key(_):
        os.kill(os.getpid(), signal.SIGUSR1)
        return 0
    signal.signal(signal.SIGUSR1, handler)
    sorted([1], key=key)


@region
def deleted():
    class Deleted:
        def __del__(self):
            tell("finalizer", {"__del__": ["finalizer"]})
            spin()
    Deleted()


@region
def weakly_referenced():
    class Referenced:
        pass

    def gone(_):
        tell("weakref callback", {"gone": ["weakref"]})
        spin()
    referenced = Referenced()
    reference = weakref.ref(referenced, gone)
    del referenced
    assert reference() is None


@region
def class_body():
    class Body:
        tell("class body", {"Body": ["class"]})
        spin()
    return Body


@region
def thrown_into():
    # From 3.14 on, a compiler that optimizes by a profile puts the one function into the other.
    optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    between = ["throw"] if sys.version_info >= (3, 14) and optimized else ["throw", "generator"]

    def items():
        try:
            yield 1
        except ValueError:
            tell("exception thrown into a generator", {"items": between})
            spin()
            yield 2
    generator = items()
    next(generator)
    generator.throw(ValueError())


@region
def grüße():
    tell("name beyond ASCII")
    spin()


@region
def 函数():
    def 𠀋():
        tell("name beyond the basic plane")
        spin()
    𠀋()


@region
def lambdas():
    def work():
        tell("lambda")
        spin()
    outer = lambda: (lambda: work())()
    outer()


@region
def comprehension():
    def work():
        tell("comprehensions")
        spin()
        return 1
    [{work() for _ in range(1)} for _ in range(1)]


@region
def decorated():
    def wrap(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    @wrap
    @wrap
    def work():
        tell("decorated", {"*": None})
        spin()
    work()


@region
def partially():
    def work(_):
        tell("partial", {"work": ["c"]})
        spin()
    functools.partial(work, 1)()


@region
def in_context():
    def work():
        tell("contextvars", {"work": ["context"]})
        spin()
    import contextvars
    contextvars.copy_context().run(work)


@region
def in_property():
    class Owner:
        @property
        def value(self):
            tell("property", {"value": None, "__getattr__": None})
            spin()

        def __getattr__(self, name):
            return self.value
    Owner().missing


@region
def hashed():
    class Key:
        def __hash__(self):
            tell("__hash__", {"__hash__": ["hash"]})
            spin()
            return 1
    {Key(): 1}


@region
def compared():
    class Key:
        def __lt__(self, _other):
            tell("__lt__ in sort", {"__lt__": ["sort", "compare"]})
            spin()
            return True
    sorted([Key(), Key()])


@region
def constructed():
    class Made:
        def __init__(self):
            tell("__init__", {"__init__": None})
            spin()
    Made()


@region
def called():
    class Callable:
        def __call__(self):
            tell("__call__", {"__call__": None, "<lambda>": ["c"]})
            spin()
    max([1], key=lambda _: Callable()())


@region
def memoized():
    @functools.lru_cache(maxsize=None)
    def work():
        tell("lru_cache", {"work": ["cache"]})
        spin()
    work()


@region
def substituted():
    def replace(_match):
        tell("re.sub", {"*": None, "replace": ["c"]})
        spin()
        return ""
    re.compile("a").sub(replace, "a")


@region
def executed():
    exec(compile("tell('exec', {'<module>': ['exec']})\nspin()", "<made>", "exec"), globals())


@region
def traced():
    def work():
        tell("traced by settrace", {"*": None})
        spin()

    def tracer(_frame, _event, _argument):
        return None
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(None)


@region
def in_tracer():
    def work():
        return 1

    def tracer(frame, _event, _argument):
        if frame.f_code is work.__code__:
            tell("in a trace function", {"tracer": ["trace"]})
            spin()
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(None)


def import_greenlet():
    try:
        import greenlet
    except ImportError as why:
        raise Skip(f"no greenlet ({why})")
    return greenlet


@region
def in_greenlet():
    greenlet = import_greenlet()

    def work():
        def key(_):
            tell("greenlet", {"key": ["sort"]})
            spin()
            return 0
        sorted([1], key=key)
    greenlet.greenlet(work).switch()


@region
def greenlets_that_switch():
    greenlet = import_greenlet()
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise Skip("greenlet ends the free-threaded interpreter")
    main_greenlet = greenlet.getcurrent()

    def inside():
        tell("greenlet left and entered again, in a callback", {"key": ["sort"]})
        spin()

    def key(_):
        main_greenlet.switch()
        inside()
        return 0

    def work():
        sorted([1], key=key)

    def other_work():
        functools.reduce(lambda _a, _b: main_greenlet.switch(), [1, 2])
        after_switch()

    def after_switch():
        tell("greenlet behind another")
        spin()

    def back_in_main(_):
        tell("the main greenlet between switches", {"back_in_main": ["map"]})
        spin()
    first, second = greenlet.greenlet(work), greenlet.greenlet(other_work)
    first.switch()
    second.switch()
    list(map(back_in_main, [1]))
    first.switch()
    second.switch()


def sub_interpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return __import__(name)
        except ImportError:
            continue
    raise Skip("no module for sub-interpreters")


SUB = """
import sys
sys.argv = %r
exec(compile(%r, %r, "exec"))
def key(_):
    tell(%r, {"*": None, "key": ["sort"]})
    spin()
    return 0
def inside():
    sorted([1], key=key)
inside()
"""


def run_sub_interpreter(name):
    interpreters = sub_interpreters()
    with open(__file__, encoding="utf-8") as file:
        shared = file.read().split("# Regions:")[0]
    # Its code goes as it ends, and is to be read before, however busy the machine is.
    argv = [*sys.argv[:2], str(max(SECONDS, 0.4)), *WANTED]
    script = SUB % (argv, shared, __file__, name)
    identity = interpreters.create()
    failure = getattr(interpreters, "exec", interpreters.run_string)(identity, script)
    if failure is not None:
        raise Skip(f"the sub-interpreter failed: {failure}")


@region
def in_sub_interpreter():
    list(map(run_sub_interpreter, ["sub-interpreter"]))


@region
def sub_interpreters_in_threads():
    sub_interpreters()
    names = ["sub-interpreter in a thread", "sub-interpreter in another thread"]
    threads = [threading.Thread(target=run_sub_interpreter, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def warm_up():
    """Time for energy-trace to read the tables of what will be loaded: what happens before is another test's."""
    for wanted in (import_numpy, import_greenlet):
        with contextlib.suppress(Skip):
            wanted()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        sum(range(100))
        time.sleep(0.001)


def main():
    warm_up()
    for function in REGIONS:
        if WANTED and function.__name__ not in WANTED:
            continue
        try:
            function()
        except (Skip, ImportError) as why:
            print(f"skipped: {function.__name__}: {why}", file=sys.stderr, flush=True)


main()
