"""Files that are not what they seem: FIFOs in the place of programs, files that shrink, sizes that are lies, links to no end."""
import os
import random
import struct
import time

BOMB = 8 << 30
SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr


NAME = 32 << 20


def longname(place):
    """A program in which the function that burns has a name of 32 MB."""
    path = place.copy(place.burn(), "longname")
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        sections, strings = read_sections(data)
        at = {name_of(data, strings, section): index for index, section in enumerate(sections)}
        symbols, names = sections[at[".symtab"]], sections[at[".strtab"]]
        table = bytes(data[names[4]:names[4] + names[5]])
        place_of_name = table.index(b"\0hot\0") + 1
        for start in range(symbols[4], symbols[4] + symbols[5], 24):
            if struct.unpack_from("<I", data, start)[0] == place_of_name:
                struct.pack_into("<I", data, start, len(table))
        table += b"n" * NAME + b"\0"
        change(data, at[".strtab"], names, len(data), len(table))
        file.seek(0)
        file.write(data + table)
    # On a busy machine all of the time may be over by now.
    place.run(path, "spin", max(place.left(), 1))


def fifo(place):
    """A program that puts a FIFO in the place of its own file just before it ends: who opens that path waits for ever."""
    original, number = place.burn(), 0
    while place.left() > 0:
        program = place.copy(original, f"fifo-{number % 8}.new")
        final = place.path(f"fifo-{number % 8}")
        os.rename(program, final)
        place.run(final, "fifo", 0.005 * (1 + number % 8))
        number += 1


def truncate(place):
    """A library of 48 MB that loses its end while it is read: during the run, and a moment after this part has ended."""
    original = place.compile("big.so", "-shared", "-fPIC", "-DLIBRARY", "-g")
    if os.path.getsize(original) < 1 << 20:
        pad(original)
    kept, lost = place.copy(original, "lib-kept.so"), place.path("lib-lost.so")
    while place.left() > 0:
        place.copy(original, "lib-lost.so")
        seconds = min(0.5, place.left())
        burning = [place.start(place.burn(), "library", seconds, library) for library in (kept, lost)]
        time.sleep(random.uniform(0, seconds))
        os.truncate(lost, 4096)
        for process in burning:
            process.wait()
    if os.fork() == 0:
        late(place)


def late(place):
    """Goes on when the command has ended, for that is when names are looked up."""
    os.setsid()
    for fd in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    time.sleep(random.uniform(0.02, 0.4))
    for name in os.listdir(place.folder):
        if name.startswith("lib-"):
            os.truncate(place.path(name), 4096)
    os._exit(0)


def pad(path):
    """A symbol table that takes a while to be read: two million symbols behind the file."""
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        sections, strings = read_sections(data)
        for index, section in enumerate(sections):
            if name_of(data, strings, section) == ".symtab":
                old = data[section[4]:section[4] + section[5]]
                data += b"\0" * (-len(data) % 16)
                # Elf64_Sym: name, type and binding, visibility, section, address, size.
                one = [struct.pack("<IBBHQQ", 1, 0x12, 0, 12, 0x100000 + i * 7919 % 0x100000 * 16, 16) for i in range(20_000)]
                table = bytes(old) + b"".join(one) * 100
                change(data, index, section, len(data), len(table))
                data += table
        file.seek(0)
        file.write(data)


def read_sections(data):
    """Headers of sections, and the one of their names."""
    start, size, count, names = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HHH", data, 0x3A)
    sections = [SECTION.unpack_from(data, start + i * size) for i in range(count)]
    return sections, sections[names]


def name_of(data, strings, section):
    start = strings[4] + section[0]
    return data[start:data.index(0, start)].decode()


def change(data, index, section, offset, size):
    start = struct.unpack_from("<Q", data, 0x28)[0]
    SECTION.pack_into(data, start + index * 64, *section[:4], offset, size, *section[6:])


def bomb(place, kind):
    """A copy of the program, 20 KB on disk and 8 GiB long, whose section `kind` says to be nearly as long."""
    path = place.copy(place.burn(), f"bomb{kind}")
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        sections, strings = read_sections(data)
        for index, section in enumerate(sections):
            if name_of(data, strings, section) == kind:
                grow(data, index, section, kind)
        file.seek(0)
        file.write(data)
        file.truncate(BOMB)
    return path


def grow(data, index, section, kind):
    """The section lies at its end in the hole behind the file, so that what it held stays; `.eh_frame` gets one entry that is all of it."""
    begin = section[4]
    if kind == ".eh_frame":
        struct.pack_into("<IQ", data, begin, 0xFFFFFFFF, BOMB - begin - 64)
    change(data, index, section, begin, (BOMB - begin) // 24 * 24)


KINDS = [".symtab", ".dynsym", ".note.gnu.build-id", ".eh_frame", ".strtab"]


def bombs(place):
    """Programs that run, each with one such section. They burn as long as this part, all at once."""
    programs = [bomb(place, kind) for kind in KINDS]
    for running in [place.start(program, "spin", place.left()) for program in programs]:
        running.wait()


def one_bomb(kind):
    def part(place):
        place.run(bomb(place, kind), "spin", place.left())
    part.__doc__ = f"The bomb in {kind} alone."
    return part


def debuglink(place):
    """A stripped program with a debug link that leads, through a link, to a sparse file of 4 TiB."""
    program = place.compile("linked", "-DLINK", "-s")
    with open(program, "r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(data.replace(b".xnu_debuglink", b".gnu_debuglink"))
    huge, link = place.path("huge"), place.path("x.debug")
    with open(huge, "wb") as file:
        size = 4 << 40
        while True:
            try:
                file.truncate(size)
                break
            except OSError:
                size //= 2
    if not os.path.islink(link):
        os.symlink(huge, link)
    place.run(program, "spin", place.left())
