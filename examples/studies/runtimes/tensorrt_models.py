"""The ONNX files of `export.py` in ONNX Runtime with TensorRT as the execution provider; needs an NVIDIA GPU and onnxruntime-gpu."""
import onnxruntime

import onnx_files

VERSION = f"onnxruntime {onnxruntime.__version__} tensorrt"


def load(name):
    return onnx_files.load(name, ["TensorrtExecutionProvider"])
