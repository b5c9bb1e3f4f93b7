"""Random data in the form that the authors' programs read, made once: data.py FOLDER.

`ncf`: ratings as tensors with their specification, small as MovieLens 100K. Nothing is downloaded.
"""
import pathlib
import sys

import torch

USERS, ITEMS, RATINGS, SERIES = 943, 1682, 80_000, 101  # a series: one item that was liked and a hundred others
SPECIFICATION = """channel_spec: {{user_ch: [user_id], item_ch: [item_id], label_ch: [label]}}
feature_spec:
  user_id: {{cardinality: {users}, dtype: torch.int64}}
  item_id: {{cardinality: {items}, dtype: torch.int64}}
  label: {{dtype: torch.float32}}
metadata: {{test_samples_per_series: {series}}}
source_spec:
  train:
    - {{type: torch_tensor, features: [user_id, item_id], files: [train_data_0.pt]}}
    - {{type: torch_tensor, features: [label], files: [train_data_1.pt]}}
  test:
    - {{type: torch_tensor, features: [user_id, item_id], files: [test_data_0.pt]}}
    - {{type: torch_tensor, features: [label], files: [test_data_1.pt]}}
"""


def ncf(folder):
    random = torch.Generator().manual_seed(4)
    pairs = lambda count: torch.stack([torch.randint(most, (count,), generator=random) for most in (USERS, ITEMS)], 1)
    test = pairs(USERS * SERIES)
    test[:, 0] = torch.arange(USERS).repeat_interleave(SERIES)
    liked = torch.zeros(USERS * SERIES, 1)
    liked[::SERIES] = 1
    parts = {"train_data_0": pairs(RATINGS), "train_data_1": torch.ones(RATINGS, 1), "test_data_0": test, "test_data_1": liked}
    for name, tensor in parts.items():
        torch.save(tensor, folder / f"{name}.pt")
    (folder / "feature_spec.yaml").write_text(SPECIFICATION.format(users=USERS, items=ITEMS, series=SERIES))


def main(to):
    folder = pathlib.Path(to) / "ncf"
    if not (folder / "made").exists():
        folder.mkdir(parents=True, exist_ok=True)
        ncf(folder)
        (folder / "made").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
