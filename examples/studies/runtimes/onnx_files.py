"""Sessions of ONNX Runtime. A provider that is not there is an error: the session would silently take another one."""
import os
import pathlib

import onnxruntime


def folder():
    cache = os.environ.get("ENERGY_TRACE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "energy-trace")
    return pathlib.Path(cache) / "models"


def load(name, providers):
    file = folder() / f"{name}.onnx"
    if not file.exists():
        raise SystemExit(f"there is no {file}; make it with: cargo xtask setup --frameworks, then examples/studies/setup.sh")
    session = onnxruntime.InferenceSession(str(file), providers=providers)
    if session.get_providers()[0] != providers[0]:
        raise SystemExit(f"{providers[0]} is not in this onnxruntime, which has {session.get_providers()}")
    return lambda batch: session.run(None, {"rows": batch})[0]
