"""MXNet's gluon: a perceptron trained, its work done by threads of its own."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np

np.bool = bool  # MXNet 1.9 is older than the NumPy that it is installed with
import mxnet as mx
from mxnet import autograd, gluon
from windows import call, going

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(512, activation="relu"), gluon.nn.Dense(10))
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam")
measure = gluon.loss.SoftmaxCrossEntropyLoss()
x, y = mx.nd.random.normal(shape=(512, 256)), mx.nd.array(np.arange(512) % 10)
for _ in going():
    with autograd.record():
        loss = measure(net(x), y)
    loss.backward()
    trainer.step(512)
    loss.asnumpy()
