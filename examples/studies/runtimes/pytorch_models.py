"""ResNet-18, MobileNetV2 and a small BERT in PyTorch, with random weights. `export.py` makes ONNX files of them."""
import torch
from torch import nn

from work import BLOCKS, HEADS, KINDS, LENGTH, WIDTH, WORDS

VERSION = f"torch {torch.__version__}"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def convolution(before, channels, size=3, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(before, channels, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(channels)]
    return nn.Sequential(*layers, act()) if act else nn.Sequential(*layers)


class Around(nn.Module):
    """A body and a way around it."""

    def __init__(self, body, around, act):
        super().__init__()
        self.body, self.around, self.act = body, around, act

    def forward(self, x):
        return self.act(self.body(x) + self.around(x))


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, KINDS)]


def resnet():
    layers, before = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for channels, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        body = nn.Sequential(convolution(before, channels, 3, stride), convolution(channels, channels, act=None))
        same = before == channels and stride == 1
        around = nn.Identity() if same else convolution(before, channels, 1, stride, act=None)
        layers.append(Around(body, around, nn.ReLU()))
        before = channels
    return nn.Sequential(*layers, *head(512))


def mobilenet():
    layers, before = [convolution(3, 32, 3, 2, act=nn.ReLU6)], 32
    for wider, channels, blocks, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(blocks):
            step, inside = (stride if block == 0 else 1), before * wider
            body = [] if wider == 1 else [convolution(before, inside, 1, act=nn.ReLU6)]
            body += [convolution(inside, inside, 3, step, inside, nn.ReLU6), convolution(inside, channels, 1, act=None)]
            body = nn.Sequential(*body)
            layers.append(Around(body, nn.Identity(), nn.Identity()) if before == channels and step == 1 else body)
            before = channels
    return nn.Sequential(*layers, convolution(320, 1280, 1, act=nn.ReLU6), *head(1280))


class Attention(nn.Module):
    """Written out, so that every framework and every exporter does the same."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        split = lambda of: of.reshape(-1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
        scores = split(self.query(x)) @ split(self.key(x)).transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        return self.out((scores.softmax(-1) @ split(self.value(x))).transpose(1, 2).reshape(-1, LENGTH, WIDTH))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH))
        blocks = []
        for _ in range(BLOCKS):
            dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            blocks += [Around(Attention(), nn.Identity(), nn.LayerNorm(WIDTH)), Around(dense, nn.Identity(), nn.LayerNorm(WIDTH))]
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(WIDTH, 2)

    def forward(self, words):
        return self.head(self.blocks(self.words(words) + self.places)[:, 0])


def make(name):
    torch.manual_seed(1)
    return {"resnet": resnet, "mobilenet": mobilenet, "bert": Bert}[name]().eval()


def load(name):
    model = make(name).to(DEVICE)

    @torch.inference_mode()
    def infer(batch):
        return model(torch.from_numpy(batch).to(DEVICE))

    return infer
