"""The same work in each run, in steps of three functions: 5 W that parse JSON, 15 W that compress, 40 W that multiply, declared to the
power simulator. How long it takes is the machine's affair; about 100 ms a
step.

    repeat.py [STEPS]
"""

import json
import sys
import zlib

import phases

TEXT = json.dumps([{"id": number, "name": f"row {number}", "value": number * 0.37} for number in range(400)])
BYTES = bytes((number * number) % 251 for number in range(60_000))


def five_watts(declaration):
    declaration.enter("five_watts")
    for _ in range(140):
        json.loads(TEXT)
    declaration.leave()


def fifteen_watts(declaration):
    declaration.enter("fifteen_watts")
    for _ in range(100):
        zlib.compress(BYTES, 6)
    declaration.leave()


def forty_watts(declaration):
    declaration.enter("forty_watts")
    x = 1
    for i in range(700_000):
        x = (x * 13 + i) % 1000003
    declaration.leave()
    return x


def main(steps):
    declaration = phases.Declaration()
    for _ in range(steps):
        five_watts(declaration)
        fifteen_watts(declaration)
        forty_watts(declaration)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
