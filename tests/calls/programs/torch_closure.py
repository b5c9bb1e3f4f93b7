"""Calls inside calls: LBFGS runs its closure in `step`; and a gradient's gradient by `torch.autograd.grad`, which is not `backward`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch
from windows import SECONDS, call, going

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1))
x, y = torch.randn(2048, 256), torch.randn(2048, 1)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)


def closure():
    optimizer.zero_grad()
    with call("torch.nn.Sequential.__call__"):
        found = model(x)
    loss = torch.nn.functional.mse_loss(found, y)
    with call("torch.autograd.backward"):
        loss.backward()
    return loss


def penalty():
    """The square of the gradient by the input, as in WGAN-GP."""
    points = x[:512].clone().requires_grad_()
    with call("torch.nn.Sequential.__call__"):
        score = model(points).sum()
    with call("torch.autograd.grad"):
        (slope,) = torch.autograd.grad(score, points, create_graph=True)
    with call("torch.autograd.backward"):
        (slope.norm(dim=1) - 1).square().mean().backward()


for _ in going(SECONDS / 2):
    with call("optimizer.step"):
        optimizer.step(closure)
for _ in going(SECONDS / 2):
    penalty()
