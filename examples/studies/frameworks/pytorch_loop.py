"""How PyTorch trains and infers here: eagerly, as most programs do. Leaves out models (`pytorch_models`)."""
import torch

VERSION = f"torch {torch.__version__}"
torch.manual_seed(1)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tensors(batch):
    """Images become channels first, which is PyTorch's order."""
    made = [torch.from_numpy(part) for part in batch]
    return [(of.permute(0, 3, 1, 2).contiguous() if of.ndim == 4 else of).to(DEVICE) for of in made]


def train(module, data, steps):
    model = module.Model().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss = module.loss(model, *data[step % len(data)])
        loss.backward()
        optimizer.step()
    return loss.item()


def infer(module, data, steps):
    model = module.Model().to(DEVICE).eval()
    with torch.inference_mode():
        for step in range(steps):
            answer = model(*data[step % len(data)][:module.INPUTS])
    return (answer[0] if isinstance(answer, tuple) else answer).sum().item()
