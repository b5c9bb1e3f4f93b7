"""Names of code made at run time, from files that anybody may write: perf maps and jitdumps."""
import os
import struct

LINES = 8_000_000
RECORDS = int(os.environ.get("HOSTILE_RECORDS", 1_000_000))


def write_map(path, name, lines):
    """Each line covers the whole address space, so that each is right for every address."""
    block = f"1 fffffffffffffff0 {name}\n" * min(lines, 10_000)
    with open(path, "w") as file:
        for _ in range(max(1, lines // 10_000)):
            file.write(block)


def maps(place):
    """A process with code made at run time and a map of 8 million lines; and maps in other users' names: of the processes above this one,
    of the first process, and of those in HOSTILE_VICTIMS."""
    others = [1, os.getppid(), *map(int, os.environ.get("HOSTILE_VICTIMS", "").split())]
    written = []
    for pid in others:
        path = f"/tmp/perf-{pid}.map"
        try:
            with open(path, "x") as file:
                file.write("1 fffffffffffffff0 mallory_was_here\n")
            written.append(path)
        except OSError:
            pass  # Somebody else's is there already.
    running = place.start(place.burn(), "sled", place.left())
    own = f"/tmp/perf-{running.pid}.map"
    write_map(own, "in_every_line", LINES)
    running.wait()
    remember(place, [own, *written])


def jitdump(place):
    """A jitdump whose times are of another clock, with many records that all cover the same code."""
    path = place.path("jit-1.dump")
    header = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, os.getpid(), 0, 1)
    name = b"overlapping\0"
    with open(path, "wb") as file:
        file.write(header)
        for number in range(RECORDS):
            body = struct.pack("<IIQQQQ", 0, 0, 0x1000, 0x1000, 1 << 47, number) + name
            file.write(struct.pack("<IIQ", 0, 16 + len(body), number) + body)
    place.run(place.burn(), "sled", place.left(), path)


def remember(place, paths):
    """The recorder reads maps when the command has ended, so they stay a while: `hostile clean FOLDER` takes them away."""
    with open(place.path("elsewhere"), "a") as file:
        file.writelines(path + "\n" for path in paths)


def clean(folder):
    try:
        with open(os.path.join(folder, "elsewhere")) as file:
            paths = file.read().split()
    except OSError:
        return
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)
