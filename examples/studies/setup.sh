#!/bin/sh
# What the suites need beyond `cargo xtask setup --frameworks` (run that first): ONNX in PyTorch's environment, environments of OpenVINO and
# MXNet, the ONNX files of `runtimes`; and the programs of `authors` from their repositories (`setup.sh authors`: those alone). About 1 GB
# from PyPI and some MB from GitHub, into the same cache folder. DEEP_LEARNING_EXAMPLES and FECOM may name git
# folders of them instead (`….git`).
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
# A repository's folders at a commit, from its address or from a git folder on this machine: fetch NAME FROM COMMIT FOLDER…
fetch() {
  place="$cache/authors/$1" from="$2" commit="$3"
  shift 3
  if [ -d "$from" ]; then
    mkdir -p "$place"
    for folder in "$@"; do git --git-dir="$from" archive --prefix="$folder/" "$commit:$folder" | tar -x -C "$place"; done
    return
  fi
  [ -d "$place/.git" ] || git clone --quiet --no-checkout --filter=blob:none "$from" "$place"
  git -C "$place" sparse-checkout set "$@"
  git -C "$place" checkout --quiet "$commit"
}
authors() {
  install torch pyyaml==6.0.4
  fetch DeepLearningExamples "${DEEP_LEARNING_EXAMPLES:-https://github.com/NVIDIA/DeepLearningExamples}" \
    729963dd47e7c8bd462ad10bfac7a7b0b604e6dd PyTorch/Recommendation/NCF
  fetch FECoM "${FECOM:-https://github.com/SMART-Dal/FECoM}" a9041d1b3a5aaeeca118c4e4e58ace5a38b8d77c \
    data/code-dataset/Patched-Repositories/customization
  "$here/python" pytorch "$here/authors/data.py" "$cache/authors/data"
}
if [ "${1:-}" = authors ]; then
  authors
  exit
fi
install torch onnx==1.23.2
install openvino onnxruntime-openvino==1.24.1
install mxnet mxnet==1.9.1 "numpy<2"
"$here/python" pytorch "$here/runtimes/export.py" "$cache/models"
authors
