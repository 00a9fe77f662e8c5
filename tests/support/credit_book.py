"""A book of loans that looks like real ones: heavy tails, zeros, shares, counts, a rate, dates, words, gaps."""

import numpy as np
import pandas as pd

N = 600
HEAVY = ("utilisation", "debt_ratio", "late_fees")
NEVER_NEGATIVE = ("utilisation", "debt_ratio", "late_fees", "trades", "amount", "income")


def credit_book(n=N, seed=0):
    """Return loans ``(n, 14)``; the heavy tails have a standard deviation a thousand times their middle half."""
    rng = np.random.default_rng(seed)
    far = rng.random((3, n)) < 0.03
    return pd.DataFrame(
        {
            "utilisation": np.where(far[0], 1_000.0 * rng.pareto(1.0, n), rng.beta(1.0, 3.0, n)),
            "debt_ratio": np.where(far[1], 2_000.0 * rng.pareto(1.0, n), rng.gamma(2.0, 0.2, n)),
            "late_fees": np.where(rng.random(n) < 0.8, 0.0, np.where(far[2], 1e5, 5.0) * rng.pareto(1.5, n)),
            "trades": rng.poisson(6.0, n).astype(float),
            "amount": np.round(rng.gamma(2.0, 1_500.0, n)).astype(int),
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.gamma(4.0, 700.0, n).round(2)),
            "paid_share": rng.beta(3.0, 1.0, n),
            "rate": rng.integers(1, 5, n),
            "balance": rng.normal(0.0, 800.0, n),
            "owner": rng.integers(0, 2, n),
            "job": rng.choice(["clerk", "none", "smith"], n),
            "since": pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 2_500, n), unit="D"),
            "branch_a": (which := rng.integers(0, 3, n)) == 0,
            "branch_b": which == 1,
            "country": 7.0,
        }
    ).astype({"branch_a": int, "branch_b": int})


def worth(frame):
    """Return a score that rises where columns leave what they can be: below zero, above one, beyond the rates."""
    ratio = np.arctan(frame["debt_ratio"].to_numpy(float)) + np.arctan(frame["utilisation"].to_numpy(float))
    fees = np.arctan(0.1 * frame["late_fees"].to_numpy(float)) + 0.1 * frame["trades"].to_numpy(float)
    good = 2.0 * frame["paid_share"].to_numpy(float) + 0.4 * frame["rate"].to_numpy(float)
    income = np.nan_to_num(frame["income"].to_numpy(float), nan=2_000.0) / 1_000.0
    return good + 0.3 * income - ratio - fees + 0.3 * frame["owner"].to_numpy(float)


def impossible_values(frame, row):
    """Return the names of columns that hold what they cannot be, in a frame of answers for a row of the book."""
    data = credit_book()
    found = [name for name in NEVER_NEGATIVE if (frame[name] < 0).any()]
    found += ["paid_share"] if not frame["paid_share"].between(0, 1).all() else []
    found += ["rate"] if not frame["rate"].isin([1, 2, 3, 4]).all() else []
    for name in ("amount", "since", "owner", "rate"):
        found += [] if frame[name].dtype == data[name].dtype else [name]
    for name in ("utilisation", "debt_ratio", "late_fees", "trades", "amount", "income", "balance", "since"):
        known = data[name].dropna()
        span = known.max() - known.min()
        low, high = min(known.min() - 0.1 * span, row[name]), max(known.max() + 0.1 * span, row[name])
        found += [] if frame[name].dropna().between(low, high).all() else [name]
    found += ["country"] if (frame["country"] != row["country"]).any() else []
    found += ["branch"] if (frame["branch_a"] + frame["branch_b"] > 1).any() else []
    found += ["income"] if frame["income"].isna().any() != np.isnan(row["income"]) else []
    return found
