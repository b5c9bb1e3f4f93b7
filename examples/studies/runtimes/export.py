"""Writes the models of `pytorch_models.py` as ONNX files with a free number of rows: export.py FOLDER."""
import pathlib
import sys

import torch

import pytorch_models
import work


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in work.INPUTS:
        example = torch.from_numpy(work.batches(name, 2)[0])
        torch.onnx.export(
            pytorch_models.make(name), (example,), str(folder / f"{name}.onnx"), dynamo=False, opset_version=17,
            input_names=["rows"], output_names=["answers"], dynamic_axes={"rows": {0: "n"}, "answers": {0: "n"}},
        )
        print(folder / f"{name}.onnx")


if __name__ == "__main__":
    main(sys.argv[1])
