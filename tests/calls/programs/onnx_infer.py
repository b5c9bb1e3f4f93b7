"""Two models run by ONNX Runtime in one program."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from windows import call, going

random = np.random.default_rng(1)


def write(path, layers, width):
    """A perceptron as an ONNX file."""
    nodes, weights, last = [], [], "x"
    for layer in range(layers):
        weights.append(numpy_helper.from_array(random.normal(size=(width, width)).astype(np.float32) * 0.05, f"w{layer}"))
        nodes += [helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]), helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"])]
        last = f"r{layer}"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, width]) for name in ("x", last)]
    graph = helper.make_graph(nodes, os.path.basename(path), values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


with tempfile.TemporaryDirectory() as folder:
    sessions = {}
    for name, layers, width in [("deep.onnx", 8, 512), ("wide.onnx", 2, 1024)]:
        path = os.path.join(folder, name)
        write(path, layers, width)
        sessions[name] = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), width
    for _ in going():
        for name, (session, width) in sessions.items():
            x = np.ones((64, width), np.float32)
            with call(f"onnxruntime.InferenceSession.run({name})"):
                session.run(None, {"x": x})
