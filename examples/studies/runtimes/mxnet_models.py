"""ResNet-18 and MobileNetV2 of Gluon's model zoo, and a small BERT, in MXNet 1.9, with random weights."""
import numpy

# The last release of MXNet uses names that NumPy has dropped since.
numpy.bool, numpy.object = bool, object

import mxnet as mx
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

from work import BLOCKS, HEADS, KINDS, LENGTH, WIDTH, WORDS

VERSION = f"mxnet {mx.__version__}"


class Block(nn.HybridBlock):
    """Attention and a perceptron, each with a way around it."""

    def __init__(self):
        super().__init__()
        self.key_value_query, self.out = nn.Dense(3 * WIDTH, flatten=False), nn.Dense(WIDTH, flatten=False)
        self.wide, self.act, self.narrow = nn.Dense(4 * WIDTH, flatten=False), nn.GELU(), nn.Dense(WIDTH, flatten=False)
        self.norms = [nn.LayerNorm(), nn.LayerNorm()]
        self.register_child(self.norms[0]), self.register_child(self.norms[1])

    def hybrid_forward(self, F, x):
        together = F.transpose(self.key_value_query(x), (1, 0, 2))
        scores = F.contrib.interleaved_matmul_selfatt_qk(together, heads=HEADS)
        mixed = F.contrib.interleaved_matmul_selfatt_valatt(together, F.softmax(scores), heads=HEADS)
        x = self.norms[0](x + self.out(F.transpose(mixed, (1, 0, 2))))
        return self.norms[1](x + self.narrow(self.act(self.wide(x))))


class Bert(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.words, self.blocks, self.head = nn.Embedding(WORDS, WIDTH), nn.HybridSequential(), nn.Dense(2)
        self.places = self.params.get("places", shape=(1, LENGTH, WIDTH))
        self.blocks.add(*(Block() for _ in range(BLOCKS)))

    def hybrid_forward(self, F, words, places):
        x = self.blocks(F.broadcast_add(self.words(words), places))
        return self.head(F.slice_axis(x, axis=1, begin=0, end=1))


def load(name):
    mx.random.seed(1)
    make = {"resnet": vision.resnet18_v1, "mobilenet": vision.mobilenet_v2_1_0, "bert": lambda classes: Bert()}[name]
    device = mx.gpu() if mx.context.num_gpus() else mx.cpu()
    model = make(classes=KINDS)
    model.initialize(ctx=device)
    model.hybridize(static_alloc=True, static_shape=True)
    return lambda batch: model(mx.nd.array(batch, ctx=device, dtype=batch.dtype)).asnumpy()
