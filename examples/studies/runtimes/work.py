"""What every runtime gets: the same random inputs. NumPy alone."""
import numpy as np

SIDE, KINDS = 64, 100  # images
WORDS, LENGTH, WIDTH, HEADS, BLOCKS = 2000, 64, 256, 4, 4  # sentences
INPUTS = {"resnet": 256, "mobilenet": 256, "bert": 128}


def batches(model, rows):
    """Images with channels first, or sentences; as many batches as the inputs make."""
    random = np.random.default_rng(3)
    if model == "bert":
        data = random.integers(0, WORDS, (INPUTS[model], LENGTH))
    else:
        data = random.normal(size=(INPUTS[model], 3, SIDE, SIDE)).astype("float32")
    return [data[at:at + rows] for at in range(0, len(data), rows)]
