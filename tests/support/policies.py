"""Tables of answered rows with given reliabilities, and simulated tables of which the truth is known."""

import numpy as np
import pandas as pd

import gbce
from gbce.policy import AnsweredRows
from gbce.space import Space


def answered_rows(reliability, cost=None, space=None):
    """Return rows with one column, whose answers have given reliabilities ``(n,)``."""
    n = len(reliability)
    x0 = np.zeros((n, 1))
    yes, no = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    ends = np.clip([reliability - 0.05, reliability + 0.05], 0, 1)
    return AnsweredRows(
        space or Space.real(1), pd.Index([f"r{i}" for i in range(n)], name="row"), x0, x0 + 1, yes, no, no, yes,
        np.column_stack([reliability, *ends]), np.ones(n) if cost is None else np.asarray(cost, dtype=float),
        np.full(n, "raise x1", dtype=object),
    )  # fmt: skip


def approve(frame):
    return frame["pay"] - 0.5 * frame["debt"] + 8.0 * (frame["job"] == "nurse") + 2.0 * frame["years"]


def lending_rows(n, seed):
    """Return rows that miss ``AtLeast(60)`` under :func:`lending`, drawn from one population."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "pay": rng.normal(48, 9, 3 * n + 60).round(1),
            "debt": rng.gamma(2.0, 12.0, 3 * n + 60).round(1),
            "job": rng.choice(["clerk", "nurse", "cook"], 3 * n + 60),
            "years": rng.integers(0, 12, 3 * n + 60),
            "age": rng.integers(20, 70, 3 * n + 60),
        }
    )
    return frame[(approve(frame) < 60) & (frame["debt"] >= 0.2 * frame["pay"])].iloc[:n].reset_index(drop=True)


def lending(**options):
    """Return an explainer of a score that is linear in pay, debt, job and years, with age immutable."""
    data = pd.concat([lending_rows(200, 1), lending_rows(10, 2)], ignore_index=True)
    space = gbce.Space.infer(
        data, immutable=["age"], increase=["years"], bounds={"debt": (0, None), "years": (0, 40), "pay": (0, None)},
        constraints=options.pop("constraints", ["debt >= 0.2 * pay"]),
    )  # fmt: skip
    return gbce.Explainer(approve, data, space=space, **options)


def simulated_answers(explainer, frame, seed):
    """Return rows with answers that a seed draws, as explain_many would: for tests of many tables.

    Each answer closes the gap by pay, by debt or by both, and a little more.
    """
    rng = np.random.default_rng(seed)
    space = explainer.space
    x0 = space.encode(frame)
    answers, gap = x0.copy(), 60 - approve(frame).to_numpy()
    share = rng.choice([0.0, 0.5, 1.0], len(frame))
    pay, debt = space.position["pay"], space.position["debt"]
    off = np.minimum(2 * share * gap, x0[:, debt])
    answers[:, debt] -= off
    answers[:, pay] += np.maximum(gap - off / 2, 0) + rng.uniform(0, 2, len(frame))
    yes, no = np.ones(len(frame), dtype=bool), np.zeros(len(frame), dtype=bool)
    return AnsweredRows(
        space, pd.RangeIndex(len(frame), name="row"), x0, answers, yes, no, no, yes,
        np.tile([0.95, 0.9, 0.98], (len(frame), 1)), np.ones(len(frame)),
        np.full(len(frame), "", dtype=object), gbce.AtLeast(60.0),
    )  # fmt: skip
