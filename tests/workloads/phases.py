"""The workload of the closed loop: three functions of 5, 15 and 40 W in turn, pure CPU work, declared to the power simulator.

    phases.py SECONDS [--phase-ms 300] [--rest-ms 0] [--threads 1]

A phase is one length for all, or one for each function (12:30:60). Without POWER_SIM_SOCKET in the environment it does the same work and declares nothing. Needs nothing but Python 3.8.
"""

import argparse
import os
import socket
import threading
import time


class Declaration:
    """One thread's connection to the simulator (tests/support/powercap/channel.rs)."""

    def __init__(self):
        path = os.environ.get("POWER_SIM_SOCKET")
        self.connection = None
        if path:
            self.connection = socket.socket(socket.AF_UNIX)
            self.connection.connect(path)
        self.say(f"thread {threading.get_native_id()}")
        for name, watts in (("five_watts", 5), ("fifteen_watts", 15), ("forty_watts", 40)):
            self.say(f"function {name} {watts}")

    def enter(self, name):
        self.say(f"enter {name} {time.thread_time_ns()}")

    def leave(self):
        self.say(f"leave {time.thread_time_ns()}")

    def say(self, line):
        if self.connection is None:
            return
        self.connection.sendall(line.encode() + b"\n")
        answer = self.connection.recv(4096)
        if answer != b"ok\n":
            raise SystemExit(f"phases.py: {line!r} was answered {answer!r}")


def five_watts(declaration, phase):
    declaration.enter("five_watts")
    end = time.monotonic() + phase
    x = 1
    while time.monotonic() < end:
        for i in range(1000):
            x = (x * 7 + i) % 1000003
    declaration.leave()
    return x


def fifteen_watts(declaration, phase):
    declaration.enter("fifteen_watts")
    end = time.monotonic() + phase
    x = 1
    while time.monotonic() < end:
        for i in range(1000):
            x = (x * 11 + i) % 1000003
    declaration.leave()
    return x


def forty_watts(declaration, phase):
    declaration.enter("forty_watts")
    end = time.monotonic() + phase
    x = 1
    while time.monotonic() < end:
        for i in range(1000):
            x = (x * 13 + i) % 1000003
    declaration.leave()
    return x


def run(functions, seconds, phases, rest):
    declaration = Declaration()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for function, phase in zip(functions, phases):
            function(declaration, phase)
            if rest:
                time.sleep(rest)


def phase_lengths(text):
    """Seconds of each of the three functions, from milliseconds: `25` or `12:30:60`."""
    lengths = [float(length) / 1000 for length in text.split(":")]
    if len(lengths) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text!r} is neither one length nor three")
    return lengths * (3 // len(lengths))


def main(functions=(five_watts, fifteen_watts, forty_watts), description=__doc__):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("seconds", type=float)
    parser.add_argument("--phase-ms", type=phase_lengths, default="300", help="one length, or one for each function: 12:30:60")
    parser.add_argument("--rest-ms", type=float, default=0, help="sleep between phases")
    parser.add_argument("--threads", type=int, default=1, help="threads that all do the same; they share the interpreter lock")
    arguments = parser.parse_args()
    how = (functions, arguments.seconds, arguments.phase_ms, arguments.rest_ms / 1000)
    others = [threading.Thread(target=run, args=how) for _ in range(arguments.threads - 1)]
    for other in others:
        other.start()
    run(*how)
    for other in others:
        other.join()


if __name__ == "__main__":
    main()
