"""A training with an evaluation after each epoch and a thread that loads beside it, all of it in ranges: `epochs.py EPOCHS`. Needs the package
energy_trace."""

import sys
import threading
import time

import energy_trace


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@energy_trace.range("forward")
def forward():
    spin(0.02)


@energy_trace.range("backward")
def backward():
    spin(0.04)


@energy_trace.range("load")
def load():
    spin(1.5)


@energy_trace.range("train")
def train(steps):
    loader = threading.Thread(target=load)
    loader.start()
    for _ in range(steps):
        forward()
        backward()
    loader.join()


@energy_trace.range("evaluate")
def evaluate(steps):
    for _ in range(steps):
        forward()


for epoch in range(int(sys.argv[1])):
    with energy_trace.range(f"epoch {epoch}"):
        train(40)
        evaluate(75)
