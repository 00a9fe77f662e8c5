"""A small table of a lender, its settings, and what a worker of ``gbce serve`` opens for it."""

import numpy as np
import pandas as pd

SETTINGS = """
target = "approved"
constraints = ["debt <= 3 * income"]
[data]
index = "id"
drop = ["decision"]
[columns.income]
unit = "EUR"
bounds = [0, 90]
direction = "increase"
[columns.job]
mutable = false
[reasons]
income = "Income insufficient"
debt = "Excessive obligations"
years = "Length of employment"
[letter]
sender = "Example Bank"
"""
ROW = {"income": 20.0, "debt": 30.0, "years": 3, "job": "smith"}


def make_table(n=120):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "id": [f"A{i}" for i in range(n)], "income": rng.uniform(10, 80, n).round(1),
        "debt": rng.uniform(0, 30, n).round(1), "years": rng.integers(0, 20, n),
        "job": rng.choice(["clerk", "smith"], n),
    })  # fmt: skip
    score = table["income"] - table["debt"] + table["years"] + 5 * (table["job"] == "clerk") - 30
    return table.assign(decision=np.where(score > 0, "approved", "declined"))


def open_desk(folder, *words):
    from gbce.cli import _serve
    from gbce.cli._parser import build_parser
    from gbce.serve import Limits

    files = [str(folder / name) for name in ("model.skops", "table.csv", "settings.toml")]
    options = build_parser().parse_args(["serve", *files[:2], "-s", files[2], *words])
    options.secured = False
    return _serve.open_desk(options, Limits(batch_rows=3))
