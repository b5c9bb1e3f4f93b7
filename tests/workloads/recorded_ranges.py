"""A process that has itself recorded, as `%%joules` does it, several times, and marks the same ranges each time.

    recorded_ranges.py RECORDING...

Leaves recordings of these names, and beside each, in RECORDING.truth, how many nanoseconds of CPU time ran in each range. Needs energy_trace.
"""

import queue
import shutil
import subprocess
import sys
import threading
import time

import energy_trace
from energy_trace import _mark, _recorder

_mark.is_awaited = True  # as `%load_ext energy_trace` leaves it
truth = {}
work = queue.Queue()


def burn(label, seconds):
    begin = time.thread_time_ns()
    while time.thread_time_ns() < begin + seconds * 1e9:
        pass
    truth[label] = truth.get(label, 0) + time.thread_time_ns() - begin


@energy_trace.range("decode")
def decode():
    burn("step > decode", 0.4)


def other():
    while work.get():
        with energy_trace.range("other"):
            burn("other", 0.3)
        work.task_done()


def record(path):
    recorder = _recorder.Recorder(["--power", "model", "-F", "999"])
    recorder.start()
    truth.clear()
    with energy_trace.range("step"):
        burn("step", 0.2)
        decode()
    work.put(True)
    work.join()
    child = subprocess.run([sys.executable, __file__, "child"], stdout=subprocess.PIPE, check=True)
    truth["child"] = int(child.stdout)
    recorder.stop()
    shutil.copy(recorder.recording, path)
    recorder.close()
    with open(path + ".truth", "w") as file:
        file.writelines(f"{ns} {label}\n" for label, ns in truth.items())


def main():
    if sys.argv[1] == "child":
        with energy_trace.range("child"):
            burn("child", 0.3)
        print(truth["child"])
        return
    # Before any of them.
    decode()
    thread = threading.Thread(target=other)
    thread.start()
    for path in sys.argv[1:]:
        record(path)
    work.put(False)
    thread.join()


if __name__ == "__main__":
    main()
