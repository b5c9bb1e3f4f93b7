"""pandas: what people do with tables, most of it in compiled code."""
import io
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
import pandas as pd
from windows import call, going

random = np.random.default_rng(1)
table = pd.DataFrame(
    {"group": random.integers(0, 500, 200_000), "x": random.normal(size=200_000), "word": random.choice(["red", "green", "blue"], 200_000)}
)
names = pd.DataFrame({"group": np.arange(500), "name": [f"g{i}" for i in range(500)]})
text = table.head(20_000).to_csv(index=False)
for _ in going():
    with call("pandas.DataFrame.sort_values"):
        table.sort_values("x")
    grouped = table.groupby("group")["x"]
    with call("pandas.api.typing.SeriesGroupBy.aggregate"):
        grouped.agg(["mean", "std", "median"])
    with call("pandas.DataFrame.merge"):
        table.merge(names, on="group")
    with call("pandas.read_csv"):
        pd.read_csv(io.StringIO(text))
    with call("pandas.Series.value_counts"):
        table["word"].value_counts()
    with call("pandas.Series.apply"):
        table["x"].head(50_000).apply(lambda v: v * 2)
    with call("pandas.DataFrame.to_csv"):
        names.to_csv()
    with call("pandas.DataFrame.pivot_table"):
        table.pivot_table("x", "group", "word")
    table["x"] * 2 + table["x"]
    table[table["x"] > 1]
