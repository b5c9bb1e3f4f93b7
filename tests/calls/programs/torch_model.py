"""A model of examples/studies/frameworks in PyTorch, trained: torch_model.py SECONDS ncf|transformer_xl|resnet."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../../examples/studies/frameworks")]
import importlib

import torch
import work
from windows import call, going

work.WORK[sys.argv[2]] = work.WORK[sys.argv[2]]._replace(rows=work.WORK[sys.argv[2]].rows // 2)
module = importlib.import_module(f"pytorch_models.{sys.argv[2]}")
data = [[torch.from_numpy(part) for part in batch] for batch in work.batches(sys.argv[2])]
data = [[(of.permute(0, 3, 1, 2).contiguous() if of.ndim == 4 else of) for of in batch] for batch in data]


class Loss(torch.nn.Module):
    """The model's loss as a module of its own, so that the forward pass is one call."""

    def __init__(self):
        super().__init__()
        self.model = module.Model()

    def forward(self, *batch):
        return module.loss(self.model, *batch)


net = Loss()
optimizer = torch.optim.Adam(net.parameters())
for step in going():
    with call("torch.nn.Module.__call__"):
        loss = net(*data[step % len(data)])
    with call("torch.autograd.backward"):
        loss.backward()
    with call("optimizer.step"):
        optimizer.step()
    with call("torch.optim.Adam.zero_grad"):
        optimizer.zero_grad()
