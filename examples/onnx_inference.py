"""Classifies random images with ONNX Runtime, with a model that is built in memory, for a number of seconds (default 20).

Look for: onnxruntime.InferenceSession.run. Its library is stripped, so below it there are addresses in place of names.
"""
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BATCH, SIDE, CLASSES = 8, 64, 10
LAYERS = [(24, 1), (48, 2), (96, 2), (192, 2)]  # channels and stride of each convolution


def build_model(random):
    """Convolutions with ReLU, a global average, and a matrix product; the bytes of an .onnx file."""
    nodes, weights, x, channels_in = [], [], "images", 3

    def weight(name, *shape):
        weights.append(numpy_helper.from_array(random.normal(0, 0.05, shape).astype(np.float32), name))
        return name

    for number, (channels, stride) in enumerate(LAYERS):
        kernel = weight(f"kernel_{number}", channels, channels_in, 3, 3)
        nodes.append(helper.make_node("Conv", [x, kernel], [f"sum_{number}"], pads=[1, 1, 1, 1], strides=[stride, stride]))
        nodes.append(helper.make_node("Relu", [f"sum_{number}"], [f"map_{number}"]))
        x, channels_in = f"map_{number}", channels
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["features"]))
    nodes.append(helper.make_node("MatMul", ["features", weight("head", channels_in, CLASSES)], ["scores"]))
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [BATCH, 3, SIDE, SIDE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [BATCH, CLASSES])
    graph = helper.make_graph(nodes, "classifier", [images], [scores], initializer=weights)
    # Opset 17 and format 9 are old enough for every runtime of the last years.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def main(seconds):
    random = np.random.default_rng(1)
    session = onnxruntime.InferenceSession(build_model(random), providers=["CPUExecutionProvider"])
    end, batches = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        images = random.random((BATCH, 3, SIDE, SIDE), dtype=np.float32)
        session.run(["scores"], {"images": images})
        batches += 1
    print(f"onnx_inference: {batches} batches of {BATCH}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
