"""Lightning: forward and backward run inside the optimizer's step, which runs inside `Trainer.fit`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lightning
import torch
from windows import call, going

torch.manual_seed(1)


class Net(lightning.LightningModule):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))

    def training_step(self, batch, _):
        x, y = batch
        with call("torch.nn.Sequential.__call__"):
            found = self.model(x)
        return torch.nn.functional.cross_entropy(found, y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


rows = torch.utils.data.TensorDataset(torch.randn(8192, 256), torch.randint(0, 10, (8192,)))
net = Net()
for _ in going():
    loader = torch.utils.data.DataLoader(rows, batch_size=256)
    options = dict(max_epochs=4, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = lightning.Trainer(accelerator="cpu", **options)
    with call("lightning.Trainer.fit"):
        trainer.fit(net, loader)
