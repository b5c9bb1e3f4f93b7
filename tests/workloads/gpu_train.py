"""A training loop through ctypes with a worker thread for the backward pass, as autograd has: `gpu_train.py SECONDS [eager|graph]`.

`backward()` waits while the device thread launches. Each launching function says its name to the simulator. Leaves out every result.
"""

import ctypes
import queue
import random
import sys
import threading
import time

CUDA = ctypes.CDLL("libcuda.so.1")
CUDA.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
TAG = getattr(CUDA, "simgpu_tag", None)


def check(code, what):
    if code:
        raise SystemExit(f"gpu_train: {what} says {code}")


def tag(name):
    if TAG:
        TAG(name)


class Device:
    """The driver API, as far as it is used."""

    def __init__(self, ordinal=0):
        check(CUDA.cuInit(0), "cuInit")
        self.context, module, self.stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        check(CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), ordinal), "cuDevicePrimaryCtxRetain")
        self.enter()
        check(CUDA.cuModuleLoadData(ctypes.byref(module), b"image"), "cuModuleLoadData")
        self.kernels = {}
        for name in ("gemm", "relu", "gemm_grad", "adam"):
            function = ctypes.c_void_p()
            check(CUDA.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), name)
            self.kernels[name] = function
        check(CUDA.cuStreamCreate(ctypes.byref(self.stream), 1), "cuStreamCreate")

    def enter(self):
        check(CUDA.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")

    def launch(self, kernel):
        check(CUDA.cuLaunchKernel(self.kernels[kernel], 64, 1, 1, 256, 1, 1, 0, self.stream, None, None), kernel)

    def synchronize(self):
        check(CUDA.cuStreamSynchronize(self.stream), "cuStreamSynchronize")

    def capture(self, what):
        check(CUDA.cuStreamBeginCapture_v2(self.stream, 0), "cuStreamBeginCapture")
        what()
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        check(CUDA.cuStreamEndCapture(self.stream, ctypes.byref(graph)), "cuStreamEndCapture")
        check(CUDA.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)), "cuGraphInstantiate")
        return executable

    def replay(self, executable):
        check(CUDA.cuGraphLaunch(executable, self.stream), "cuGraphLaunch")


class Engine:
    """A device thread that runs backward functions for whoever waits for them."""

    def __init__(self, device):
        self.device, self.tasks = device, queue.Queue()
        threading.Thread(target=self.device_thread, name="autograd", daemon=True).start()

    def device_thread(self):
        self.device.enter()
        while True:
            function, done = self.tasks.get()
            function(self.device)
            done.set()

    def execute(self, function):
        done = threading.Event()
        self.tasks.put((function, done))
        done.wait()


def gemm_backward(device):
    tag(b"gemm_backward")
    device.launch("gemm_grad")
    device.launch("relu")


def forward(device):
    tag(b"forward")
    for _ in range(4):
        device.launch("gemm")
        device.launch("relu")


def backward(engine):
    engine.execute(gemm_backward)


def optimizer_step(device):
    tag(b"optimizer_step")
    device.launch("adam")


def train(device, seconds, forward_pass):
    engine, draw = Engine(device), random.Random(4)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # The proportions change from phase to phase, as they do between the layers and the batches of a model.
        counts = [draw.randrange(1, 20) for _ in range(3)]
        for what, argument, count in zip((forward_pass, backward, optimizer_step), (device, engine, device), counts):
            for _ in range(count):
                what(argument)
            device.synchronize()
        time.sleep(draw.random() * 0.03)


def main():
    seconds, mode = float(sys.argv[1]), (sys.argv[2:] or ["eager"])[0]
    device = Device()
    if mode == "graph":
        executable = device.capture(lambda: forward(device))

        def replayed(device):
            tag(b"replayed")
            device.replay(executable)

        train(device, seconds, replayed)
    else:
        train(device, seconds, forward)


main()
