#!/bin/sh
# Runs one of the authors' programs in the folder that `../setup.sh` filled: run.sh ncf BATCH | fecom TUTORIAL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache="${ENERGY_TRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/energy-trace}/authors"
nvidia="$cache/DeepLearningExamples/PyTorch"
fecom="$cache/FECoM/data/code-dataset/Patched-Repositories"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
case "$1" in
  ncf) "$here/../python" pytorch "$here/on_cpu.py" "$nvidia/Recommendation/NCF/ncf.py" --data "$cache/data/ncf" --seed 1 \
    --epochs 1 --batch_size "$2" --valid_batch_size 32768 --log_path "$place/log.json" ;;
  fecom) "$here/../python" tensorflow "$fecom/$2_original.py" ;;
  *) echo "no such program: $1" >&2; exit 2 ;;
esac
