import time
def spin():
    end = time.thread_time() + 0.1
    while time.thread_time() < end: pass
