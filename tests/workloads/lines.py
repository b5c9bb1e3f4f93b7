"""Prints, for every code object of the standard library's files that match the pattern argv[1] (below the library's folder), one line:
format, first line, table in hexadecimal, and the line of each instruction by the interpreter's own word, 0 where it has none: `co_lines()`,
before 3.10 `dis.findlinestarts`. From 3.11 on `co_positions()` must say the same; a code object of which it does not ends the program.
"""
import dis
import glob
import os
import sys
import types


def walk(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from walk(const)


def lines_of(code):
    if hasattr(code, "co_lines"):
        lines = [0] * (len(code.co_code) // 2)
        for start, end, line in code.co_lines():
            for at in range(start // 2, end // 2):
                lines[at] = line or 0
        return lines
    lines, starts = [], dict(dis.findlinestarts(code))
    for at in range(len(code.co_code)):
        lines.append(starts.get(at) or lines[-1])
    return lines[::2]


def check_positions(code, lines):
    if hasattr(code, "co_positions"):
        positions = [position[0] or 0 for position in code.co_positions()]
        assert positions == lines, (code, "co_positions and co_lines differ")


FORM = "Lnotab" if sys.version_info < (3, 10) else "Ranges" if sys.version_info < (3, 11) else "Locations"
library = os.path.dirname(os.__file__)
for path in sorted(glob.glob(library + sys.argv[1], recursive=True)):
    if path.startswith((library + "/site-packages/", library + "/dist-packages/")):
        continue  # What somebody installed beside the library; gigabytes on some machines.
    try:
        with open(path, encoding="utf-8") as file:
            whole = compile(file.read(), path, "exec")
    except (OSError, SyntaxError, ValueError):
        continue  # Broken links, and files that are there to be refused (lib2to3's and the test suite's).
    for code in walk(whole):
        lines = lines_of(code)
        check_positions(code, lines)
        table = code.co_lnotab if FORM == "Lnotab" else code.co_linetable
        print(FORM, code.co_firstlineno, table.hex() or "-", ",".join(map(str, lines)))
