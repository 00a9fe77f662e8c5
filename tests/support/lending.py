"""A small lender: simulated applicants, a forest, and explanations of it that tests of words and commands share."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import gbce
from gbce.cli._demo import simulate_applicants

COLUMNS = ["age", "income", "debt", "savings", "years_employed"]
REASONS = {
    "income": "Income insufficient",
    "debt": "Excessive obligations",
    "savings": "Insufficient savings",
    "years_employed": "Length of employment",
}
LABELS = {"income": "monthly income", "debt": "total debt"}
UNITS = {"income": "EUR", "debt": "EUR", "savings": "EUR"}


@cache
def applicants():
    table, decision = simulate_applicants(500)
    return table[COLUMNS].astype({"age": float, "years_employed": float}), decision


@cache
def forest():
    table, decision = applicants()
    return RandomForestClassifier(25, max_depth=5, min_samples_leaf=8, random_state=0).fit(table, decision)


@cache
def explainer(**options):
    table, _ = applicants()
    space = gbce.Space.infer(table, immutable=["age"], labels=LABELS, units=UNITS)
    return gbce.Explainer(forest(), table, space=space, **options)


def declined(n):
    """Return the first rows that the forest declines, clearly."""
    table, _ = applicants()
    p = forest().predict_proba(table)[:, list(forest().classes_).index("approved")]
    return table[p < 0.4].iloc[:n]


@cache
def explained(posterior=False):
    return explainer().explain(declined(1).iloc[0], "approved", seed=0, posterior=posterior)


def linear(n=120, seed=0):
    """Return a table and a function of it whose target is easy to reach."""
    table = pd.DataFrame(np.random.default_rng(seed).normal(50, 10, size=(n, 2)).round(1), columns=["pay", "debt"])
    return table, lambda x: x["pay"] - x["debt"]
