"""Counts calls of Python functions for energy-trace: loaded as `sitecustomize` where `record --count` put it.

`next_sitecustomize.py` stands before it. What was counted is told when the process ends,
units of work (`--work NAME=calls:…`) as they are done, ten times a second at most; sockets are open only
while something is told.
"""

import sys


def _count(place):
    import atexit
    import os
    import socket
    import time
    from _functools import partial
    from _thread import allocate_lock, get_ident
    from _weakref import ref

    names = [name for name in os.environ.get("ENERGY_TRACE_COUNT_NAMES", "").split(",") if name]
    # By thread: entries by the number of a code object, until that dies.
    threads = {}
    # By thread and function: its entry. A program may make the code of one function again and again.
    functions = {}
    # By thread and code object: what drops its number when it dies. No Python runs for that.
    deaths = {}
    now, of_thread = time.perf_counter_ns, time.thread_time_ns
    # Nanoseconds of CPU time that looking at new code objects, and telling units of work, took.
    firsts = 0

    # Units of work: patterns of names by number, each with the entries of functions that are one.
    place_of_units = os.environ.get("ENERGY_TRACE_UNITS")
    wanted_units = os.environ.get("ENERGY_TRACE_UNIT_NAMES", "").split(",") if place_of_units else []
    units = [(wanted, []) for wanted in wanted_units]
    # What of each was told, and whether that is being done; units are told when one is begun after this.
    told, telling, due = [0] * len(units), allocate_lock(), 0

    def tell(text):
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to:
                to.settimeout(2)
                to.connect(place)
                to.sendall(text.encode("utf-8", "replace"))
        except OSError:
            pass

    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        tell("O\t" + ".".join(map(str, sys.version_info[:3])) + "\n")
        return
    tool = next((tool for tool in (4, 3) if monitoring.get_tool(tool) is None), None)
    if tool is None:
        tell("T\n")
        return
    monitoring.use_tool_id(tool, "energy-trace")
    events, disable = monitoring.events, monitoring.DISABLE
    sizes = None
    if os.environ.get("ENERGY_TRACE_INPUT_SIZES"):
        from energy_trace_input_sizes import Sizes

        sizes = Sizes()
        del sys.modules["energy_trace_input_sizes"]

    def send(text, patience):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.settimeout(patience)
            to.sendto(text.encode(), place_of_units)

    def tell_units(patience):
        """What was called since it was told last, and how long ago the last call was: what could not be sent stays untold."""
        nonlocal firsts
        if not telling.acquire(timeout=patience):
            return
        begin = of_thread()
        try:
            news, clock = [], now()
            for number, (_, entries) in enumerate(units):
                count = sum(entry[0] - entry[1] for entry in entries)
                if count > told[number]:
                    ago = clock - max(entry[3] for entry in entries)
                    news.append((number, count, max(ago, 0)))
            # Of more than are read of a datagram there are several.
            for at in range(0, len(news), 64):
                some = news[at : at + 64]
                text = "".join("%d %d %d\n" % (number, count - told[number], ago) for number, count, ago in some)
                send(text, patience)
                for number, count, _ in some:
                    told[number] = count
        except OSError:
            pass
        finally:
            firsts += of_thread() - begin
            telling.release()

    def dotted_name(code):
        return code.co_filename.removesuffix(".py").removesuffix("/__init__").replace("/", ".") + "." + code.co_qualname

    def is_wanted(code):
        """Public functions of packages, or those that were asked for."""
        name, file = code.co_qualname, code.co_filename
        # What `energy_trace.range` puts around a function has its name.
        if "energy_trace_words" in code.co_varnames:
            return False
        if names:
            import fnmatch

            dotted = dotted_name(code)
            return any(fnmatch.fnmatchcase(dotted, "*." + wanted) for wanted in names)
        if "-packages/" not in file or "<" in name:
            return False
        # Every call of a module of PyTorch goes through this.
        if name == "Module._wrapped_call_impl":
            return True
        return all(not part.startswith("_") or part.endswith("__") for part in name.split("."))

    def first(mine, code):
        """The entry of a code object that this thread did not call yet."""
        if not is_wanted(code):
            return None
        thread, number = get_ident(), id(code)
        # Calls, those within another, how deep it is now, since when, times by length, when its arguments were looked at; generators come and
        # go: no times. Last, whether it is a unit of work.
        function = thread, code.co_qualname, code.co_filename, code.co_firstlineno
        entry = functions.get(function)
        if entry is None:
            entry = functions[function] = [0, 0, 0, 0, {}, 0, False]
            find_units(code, entry)
        # Called with the dead reference, before another code object can have this number: it is what `pop` returns where there is no entry.
        of = thread, number
        deaths[of] = ref(code, partial(mine.pop, number)), ref(code, partial(deaths.pop, of))
        mine[number] = entry
        if not code.co_flags & 0x2A0:
            monitoring.set_local_events(tool, code, events.PY_RETURN)
        return entry

    def find_units(code, entry):
        for wanted, entries in units:
            import fnmatch

            if wanted and fnmatch.fnmatchcase(dotted_name(code), "*." + wanted):
                entries.append(entry)
                entry[6] = True

    def start(code, offset):
        nonlocal firsts, due
        mine = threads.get(get_ident())
        if mine is None:
            mine = threads[get_ident()] = {}
        entry = mine.get(id(code))
        if entry is None:
            begin = of_thread()
            entry = first(mine, code)
            firsts += of_thread() - begin
            if entry is None:
                return disable
        is_due = False
        if entry[6] and not entry[2]:
            begun = now()
            is_due = begun >= due
            if is_due:
                if begun > due + 20_000_000:
                    # What was called before a pause was not called now.
                    tell_units(0)
                due = begun + 100_000_000
            entry[3] = begun
        entry[0] += 1
        if sizes is not None and code is not own_code:
            entry[5] = sizes.look(code, entry[0], entry[5])
        if not code.co_flags & 0x2A0:
            entry[2] += 1
            if entry[2] > 1:
                entry[1] += 1
                return None
            entry[3] = now()
        if is_due:
            tell_units(0)

    def end(code, offset, result):
        mine = threads.get(get_ident())
        entry = mine and mine.get(id(code))
        if not entry or not entry[2]:
            return
        entry[2] -= 1
        if not entry[2]:
            took = now() - entry[3]
            shift = max(took.bit_length() - 5, 0)
            took = (took >> shift) << shift
            entry[4][took] = entry[4].get(took, 0) + 1

    def report():
        monitoring.set_events(tool, 0)
        lines = ["C\t%d\t%d\n" % (cost(), firsts)]
        for (_, name, file, line), (calls, nested, _, _, times, _, _) in list(functions.items()):
            times = " ".join("%d:%d" % pair for pair in times.items())
            text = "\t".join((name, file, str(line)))
            if text.count("\t") == 2 and "\n" not in text:
                lines.append("F\t%s\t%d\t%d\t%s\n" % (text, calls, nested, times))
        if sizes is not None:
            lines += sizes.lines()
        lines.append("E\n")
        tell("".join(lines))
        if units:
            tell_units(2)

    def cost():
        """Nanoseconds of counting a call: of the fastest of some batches, as others only waited for a CPU."""
        mine, code = threads.setdefault(get_ident(), {}), own_code
        mine[id(code)] = [0, 0, 0, 0, {}, 0, False]
        turns, fastest = range(100), []
        for _ in range(20):
            begin = now()
            for _ in turns:
                start(code, 0)
                end(code, 0, None)
            fastest.append(now() - begin)
        return min(fastest) // len(turns)

    own_code = cost.__code__

    def child():
        nonlocal firsts, told, telling
        firsts, told, telling = 0, [0] * len(units), allocate_lock()
        for some in (threads, functions, deaths, *(entries for _, entries in units)):
            some.clear()
        if sizes is not None:
            sizes.forget()
        tell("S\n")

    def before_fork():
        """Children of multiprocessing leave without atexit; its own finalizers run."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not marks:
            marks.append(util)
            util.register_after_fork(before_fork, lambda _: util.Finalize(None, report, exitpriority=-1000))

    marks = []
    tell("S\n")
    if units:
        try:
            # Nothing was called yet, but there is Python.
            send("", 0)
        except OSError:
            pass
    atexit.register(report)
    os.register_at_fork(before=before_fork, after_in_child=child)
    monitoring.register_callback(tool, events.PY_START, start)
    monitoring.register_callback(tool, events.PY_RETURN, end)
    monitoring.register_callback(tool, events.PY_UNWIND, end)
    monitoring.set_events(tool, events.PY_START | events.PY_UNWIND)


def _begin():
    import os

    place = os.environ.get("ENERGY_TRACE_COUNT")
    if place:
        _count(place)


try:
    _begin()
finally:
    _next_one()
