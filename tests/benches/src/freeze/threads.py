"""A hundred threads that work for a fifth of a millisecond and sleep for one: tens of thousands of switches a second."""

import sys
import threading
import time

end = time.monotonic() + float(sys.argv[1])


def work():
    while time.monotonic() < end:
        until = time.thread_time() + 0.0002
        while time.thread_time() < until:
            pass
        time.sleep(0.001)


threads = [threading.Thread(target=work) for _ in range(100)]
for thread in threads:
    thread.start()
print("go", flush=True)
for thread in threads:
    thread.join()
