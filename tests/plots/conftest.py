"""Explanations that are hard to draw, and what every picture must keep to."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gbce

N = 150
DAYS = pd.Timestamp("2020-01-01")


def mixed_frame():
    """Numbers, whole numbers, gaps, a heavy tail, levels (few, many, ordered), days."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": rng.normal(50.0, 10.0, N),
            "fees": rng.pareto(0.6, N) + 0.01,
            "savings": np.where(rng.random(N) < 0.3, np.nan, rng.normal(5.0, 2.0, N)),
            "children": rng.integers(0, 4, N),
            "job": rng.choice(["clerk", "smith", "none"], N),
            "town": pd.Categorical([f"town {i % 500}" for i in range(N)], categories=[f"town {i}" for i in range(500)]),
            "school": pd.Categorical(
                rng.choice(["none", "some", "all"], N), categories=["none", "some", "all"], ordered=True
            ),
            "since": DAYS + pd.to_timedelta(rng.integers(0, 900, N), unit="D"),
        }
    )


def first(rows):
    days = (rows["since"] - DAYS).dt.days.to_numpy() / 300.0
    known = rows["savings"].notna().to_numpy() * 1.0
    job, school = (rows["job"] == "smith").to_numpy(), (rows["school"].astype(str) == "all").to_numpy()
    return rows["income"].to_numpy() / 10.0 + known + days + 2.0 * job + school - np.log(rows["fees"].to_numpy() + 1)


def second(rows):
    return first(rows) - 1.0 + 0.05 * rows["children"].to_numpy()


ROW = {
    "income": 44.64, "fees": 0.588, "savings": np.nan, "children": 0, "job": "none", "town": "town 4", "school": "all",
    "since": pd.Timestamp("2021-08-23"),
}  # fmt: skip
MIXED_RULES = ["MAP", "Medoid", "Mean", "Nearest"]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def mixed_explainer():
    frame = mixed_frame()
    space = gbce.Space.infer(frame, missing={"savings": "leave"})
    return gbce.Explainer([first, second], frame, space=space, sampler=gbce.Importance(12_000, 400))


@pytest.fixture(scope="session")
def mixed(mixed_explainer):
    return mixed_explainer.explain(ROW, gbce.Change(2.5), rules=MIXED_RULES, seed=0)


@pytest.fixture(scope="session")
def loaded(mixed, tmp_path_factory):
    """Read from a file that keeps the draws only."""
    return gbce.load(mixed.save(tmp_path_factory.mktemp("plots") / "mixed.gbce", pool=False))


def of_numbers(d, target, *, names=None, sparse=False, rules=("MAP", "Mean"), candidates=1_500):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100, d)), columns=names or [f"c{j}" for j in range(d)])
    prior = gbce.Sparse(change=0.2) if sparse else gbce.Gaussian()
    models = [lambda f: np.tanh(f.to_numpy().sum(axis=1)), lambda f: np.tanh(f.to_numpy()[:, 0])]
    explainer = gbce.Explainer(models, frame, prior=prior, sampler=gbce.Importance(candidates, 250))
    return explainer.explain(frame.iloc[0], target, rules=list(rules), seed=0)


HOSTILE = [r"$\frac{$", "long " * 40, "unbroken" * 30, "\x1b[31mtab\t\x07", "two\nlines", "a$b$c"]


@pytest.fixture(scope="session")
def wide():
    return of_numbers(30, gbce.AtLeast(0.5))


@pytest.fixture(scope="session")
def single():
    return of_numbers(1, gbce.AtLeast(0.5))


@pytest.fixture(scope="session")
def unreached():
    return of_numbers(3, gbce.AtLeast(7.0, scale=1.0), candidates=3_000)  # enough effective draws, whatever the seed


@pytest.fixture(scope="session")
def hostile():
    return of_numbers(6, gbce.AtLeast(0.5), names=HOSTILE)
