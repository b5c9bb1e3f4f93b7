"""Units of work of known energy: 40 W of one CPU for so long each. Says how many are done in a file, in its output, or by calls of `unit`.

    work.py UNITS [--ms 100] [--file PATH] [--print] [--restart-at N] [--rest-ms 0]

Declares its power to the simulator as phases.py does. Needs nothing but Python 3.8.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phases import Declaration, forty_watts


def unit(declaration, seconds):
    forty_watts(declaration, seconds)


def tell(path, done):
    """In one step, as whoever reads it may come at any time."""
    with open(path + ".new", "w") as file:
        file.write("%d\n" % done)
    os.rename(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("--ms", type=float, default=100)
    parser.add_argument("--file")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--restart-at", type=int, default=0, help="count from 0 again after so many units")
    parser.add_argument("--rest-ms", type=float, default=0, help="sleep before the first unit and after the last")
    arguments = parser.parse_args()
    declaration = Declaration()
    for done in range(arguments.units + 1):
        if done:
            unit(declaration, arguments.ms / 1000)
        shown = done - arguments.restart_at if arguments.restart_at and done >= arguments.restart_at else done
        if arguments.file:
            tell(arguments.file, shown)
        if arguments.print:
            print("done %d of %d" % (shown, arguments.units))
        if not done:
            time.sleep(arguments.rest_ms / 1000)
    time.sleep(arguments.rest_ms / 1000)


if __name__ == "__main__":
    main()
