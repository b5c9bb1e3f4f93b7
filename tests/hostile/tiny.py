"""ELF files that are made by hand: as small as can be, or with far more unwind information than code."""
import os
import struct

PAGE = 0x1000
SEGMENT = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
# Counts `rdi` down to zero, then returns.
CODE = bytes.fromhex("48ffcf75fbc3")
# Where the unwind information lies in the file, and in memory.
AT, ADDRESS = 2 * PAGE, 0x10000000
NAMES = b"\0.eh_frame\0.shstrtab\0"


def header(segments, sections=0, at=0):
    """Elf64_Ehdr of a library for x86-64; names of sections are in the last one."""
    ident = b"\x7fELF\2\1\1" + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at, 0, 64, 56, segments, 64, sections, max(0, sections - 1))


def write(path, start, frames=b""):
    with open(path, "wb") as file:
        file.write(start)
        file.seek(PAGE)
        file.write(CODE)
        file.truncate(AT)
        if frames:
            file.seek(AT)
            file.write(frames)


def library(path):
    """One page of code, and no sections."""
    write(path, header(1) + SEGMENT.pack(1, 5, 0, 0, 0, AT, AT, PAGE))


def frames(mib):
    """Entries that say of every third byte of a code that is not there how deep its stack is."""
    common = bytes([1]) + b"zR\0" + b"\x01\x78\x10" + b"\x01\x1b" + b"\x0c\x07\x08\x90\x01"
    common = struct.pack("<I", 0) + common
    common += bytes(-len(common) % 4)
    out = [struct.pack("<I", len(common)) + common]
    size = len(out[0])
    # Of each byte two rows: advance by one, the stack is that deep.
    body = b"\x41\x0e\x10\x41\x0e\x20" * 30_000
    covers = 2 * 30_000
    begin = PAGE
    while size < mib << 20:
        place = ADDRESS + size + 8
        entry = struct.pack("<IiI", size + 4, begin - place, covers) + b"\0" + body
        entry += bytes(-len(entry) % 4)
        out.append(struct.pack("<I", len(entry)) + entry)
        size += len(out[-1])
        begin += covers
    return b"".join([*out, bytes(4)])


def much_unwinding(path, mib):
    """A page of code, and so many MiB of `.eh_frame`."""
    data = frames(mib)
    names, at = AT + len(data), (AT + len(data) + len(NAMES) + 7) & ~7
    sections = [
        SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        SECTION.pack(1, 1, 2, ADDRESS, AT, len(data), 0, 0, 8, 0),
        SECTION.pack(11, 3, 0, 0, names, len(NAMES), 0, 0, 1, 0),
    ]
    data += NAMES + bytes(at - names - len(NAMES)) + b"".join(sections)
    start = header(2, len(sections), at) + SEGMENT.pack(1, 5, 0, 0, 0, AT, AT, PAGE)
    write(path, start + SEGMENT.pack(1, 4, AT, ADDRESS, ADDRESS, at - AT, at - AT, PAGE), data)


def libraries(place):
    """A program that runs code of 1,500 files, each a page: more than a process may have open, where the limit is the usual one."""
    with place.preparing():
        for number in range(1500):
            library(place.path(f"{number}.so"))
    place.run(place.burn(), "many", place.left(), place.folder)


def unwinding(place):
    """A program whose code is a page of a file with 96 MiB of unwind information."""
    with place.preparing():
        much_unwinding(place.path("0.so"), 96)
    place.run(place.burn(), "many", place.left(), place.folder)
    os.unlink(place.path("0.so"))
