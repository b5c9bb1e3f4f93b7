#!/bin/sh
# What the suites need beyond `cargo xtask setup --frameworks` (run that first): ONNX in PyTorch's environment, environments of OpenVINO and
# MXNet, and the ONNX files of `runtimes`. About 1 GB from PyPI, into the same cache folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache="${ENERGY_TRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/energy-trace}"
base="$cache/venvs/torch/bin/python"
[ -x "$base" ] || { echo "first: cargo xtask setup --frameworks" >&2; exit 1; }
install() {
  environment="$cache/venvs/$1"
  shift
  [ -x "$environment/bin/python" ] || "$base" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --no-cache-dir --no-input --disable-pip-version-check "$@"
}
install torch onnx==1.23.2
install openvino onnxruntime-openvino==1.24.1
install mxnet mxnet==1.9.1 "numpy<2"
"$here/python" pytorch "$here/runtimes/export.py" "$cache/models"
