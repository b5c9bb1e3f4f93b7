"""ResNet-18, MobileNetV2 and a small BERT in Keras on TensorFlow, with random weights; called by `predict_on_batch`, as Keras's pages say."""
import keras
import tensorflow as tf
from keras import layers

from work import BLOCKS, HEADS, KINDS, LENGTH, SIDE, WIDTH, WORDS

VERSION = f"tensorflow {tf.__version__}"


def convolution(x, channels, size=3, stride=1, act=True):
    x = layers.Conv2D(channels, size, stride, "same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if act else x


def resnet():
    images = keras.Input((SIDE, SIDE, 3))
    x, before = layers.MaxPool2D(3, 2, "same")(convolution(images, 64, 7, 2)), 64
    for channels, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        around = x if before == channels and stride == 1 else convolution(x, channels, 1, stride, act=False)
        body = convolution(convolution(x, channels, 3, stride), channels, act=False)
        x, before = layers.ReLU()(layers.add([body, around])), channels
    return keras.Model(images, layers.Dense(KINDS)(layers.GlobalAveragePooling2D()(x)))


def mobilenet():
    return keras.applications.MobileNetV2((SIDE, SIDE, 3), weights=None, classes=KINDS, classifier_activation=None)


class Places(layers.Layer):
    """Adds what says where a word stands."""

    def build(self, shape):
        self.places = self.add_weight(shape=shape[1:])

    def call(self, x):
        return x + self.places


def bert():
    words = keras.Input((LENGTH,), dtype="int64")
    x = Places()(layers.Embedding(WORDS, WIDTH)(words))
    for _ in range(BLOCKS):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, "gelu")(x)))
    return keras.Model(words, layers.Dense(2)(x[:, 0]))


def load(name):
    keras.utils.set_random_seed(1)
    model = {"resnet": resnet, "mobilenet": mobilenet, "bert": bert}[name]()
    # TensorFlow's order is channels last.
    return lambda batch: model.predict_on_batch(batch if batch.ndim == 2 else batch.transpose(0, 2, 3, 1))
