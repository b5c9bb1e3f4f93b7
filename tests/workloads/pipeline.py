"""A data pipeline: makes rows, writes them as JSON, compresses them, reads them back, and sums them up with NumPy.

    pipeline.py [SECONDS]
"""

import json
import sys
import time
import zlib

import numpy as np

ROWS, COLUMNS = 4000, 6


def make_rows(random):
    table = random.normal(size=(ROWS, COLUMNS))
    return [{"id": number, "values": [round(value, 6) for value in row]} for number, row in enumerate(table.tolist())]


def pack(rows):
    text = "\n".join(json.dumps(row) for row in rows)
    return zlib.compress(text.encode(), 6)


def unpack(packed):
    return [json.loads(line) for line in zlib.decompress(packed).decode().splitlines()]


def summarise(rows):
    values = np.array([row["values"] for row in rows])
    order = np.argsort(values[:, 0])
    smooth = np.cumsum(values[order], axis=0)
    _, sizes, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
    histograms = [np.histogram(column, bins=100)[0] for column in smooth.T]
    return float(sizes.sum()) + float(np.sum(histograms))


def distances(rows, some=600):
    values = np.array([row["values"] for row in rows[:some]])
    return float(np.sqrt(((values[:, None, :] - values[None, :, :]) ** 2).sum(axis=2)).mean())


def main(seconds):
    random = np.random.default_rng(1)
    end, rounds, sums = time.monotonic() + seconds, 0, 0.0
    while time.monotonic() < end:
        rows = unpack(pack(make_rows(random)))
        sums += summarise(rows) + distances(rows)
        rounds += 1
    print(f"pipeline: {rounds} rounds, {sums / max(rounds, 1):.3f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 15)
