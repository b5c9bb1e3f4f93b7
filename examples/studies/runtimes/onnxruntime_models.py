"""The ONNX files of `export.py` in ONNX Runtime with its default execution provider: CUDA where there is one, else the CPU's."""
import onnxruntime

import onnx_files

VERSION = f"onnxruntime {onnxruntime.__version__}"
PROVIDERS = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in onnxruntime.get_available_providers()]


def load(name):
    return onnx_files.load(name, PROVIDERS)
