"""The ONNX files of `export.py` in ONNX Runtime with OpenVINO as the execution provider (package onnxruntime-openvino)."""
import onnxruntime

import onnx_files

VERSION = f"onnxruntime {onnxruntime.__version__} openvino"


def load(name):
    return onnx_files.load(name, ["OpenVINOExecutionProvider"])
