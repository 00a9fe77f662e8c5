"""One browser for all tests of pages, and explanations that several of them look at."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import gbce
from support.browser import HOW_TO_GET_IT, find_chromium
from support.credit_book import worth


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path = find_chromium()
    if path is None:
        pytest.skip(HOW_TO_GET_IT)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def loans(n=400):
    """A book of loans without chance: each column goes round its range by steps of its own irrational length."""
    roots = np.sqrt([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41])
    at = (np.arange(1, n + 1)[:, None] * roots) % 1.0
    return pd.DataFrame(
        {
            "income": (1_500 + 6_000 * at[:, 0] ** 2).round(2),
            "paid_share": at[:, 1].round(4),
            "utilisation": (at[:, 2] ** 2).round(4),
            "debt_ratio": (1.5 * at[:, 3] ** 2).round(4),
            "late_fees": (90 * np.maximum(at[:, 4] - 0.6, 0)).round(2),
            "trades": (12 * at[:, 5]).round(),
            "amount": (500 + 6_000 * at[:, 6]).astype(int),
            "rate": 1 + (4 * at[:, 7]).astype(int),
            "balance": (2_000 * at[:, 8] - 1_000).round(1),
            "owner": (2 * at[:, 9]).astype(int),
            "job": np.array(["clerk", "none", "smith"])[(3 * at[:, 10]).astype(int)],
            "since": pd.Timestamp("2018-01-01") + pd.to_timedelta((2_500 * at[:, 11]).astype(int), unit="D"),
            "children": (4 * at[:, 12]).astype(int),
            "country": 7.0,
        }
    )


@pytest.fixture(scope="session")
def loan_row():
    data = loans()
    return data.iloc[[int(np.argsort(worth(data))[len(data) // 4])]]


@pytest.fixture(scope="session")
def loan_explainer():
    return gbce.Explainer(worth, loans())


@pytest.fixture(scope="session")
def loan(loan_explainer, loan_row):
    """A loan with numbers, whole numbers, words and a date; one model."""
    return loan_explainer.explain(loan_row.iloc[0], gbce.AtLeast(round(float(worth(loan_row)[0]) + 0.8, 2)), seed=0)


@pytest.fixture(scope="session")
def loan_file(loan, tmp_path_factory):
    return loan.to_html(tmp_path_factory.mktemp("pages") / "loan.html")


def classified(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"c{j}" for j in range(d)])
    return data, (data.iloc[:, :4].sum(axis=1) + 0.3 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture(scope="session")
def fitted():
    """A table and three models of it."""
    data, label = classified()
    return data, [
        LogisticRegression().fit(data, label),
        RandomForestClassifier(20, max_depth=4, random_state=0).fit(data, label),
        RandomForestClassifier(20, max_depth=2, random_state=1).fit(data, label),
    ]


@pytest.fixture(scope="session")
def models_explainer(fitted):
    return gbce.Explainer(fitted[1], fitted[0], prior=gbce.Gaussian())


@pytest.fixture(scope="session")
def models(models_explainer, fitted):
    """Three models that disagree, by the paper's mixture."""
    data, _ = fitted
    row = data.iloc[:, :4].sum(axis=1).sort_values().index[60]
    return models_explainer.explain(data.loc[row], gbce.Class(1), seed=0)


@pytest.fixture(scope="session")
def models_file(models, tmp_path_factory):
    return models.to_html(tmp_path_factory.mktemp("pages") / "models.html")


@pytest.fixture(scope="session")
def wide():
    """A maker of explanations with many columns: 2,000 draws of a linear score."""

    def make(d, n_draws=2_000):
        data = np.random.default_rng(1).normal(size=(200, d))
        sampler = gbce.Importance(n_candidates=n_draws, n_draws=n_draws)
        explainer = gbce.Explainer(
            lambda x: x[:, :3].sum(axis=1), data, space=gbce.Space.real(d), prior=gbce.Gaussian(), sampler=sampler
        )
        return explainer.explain(np.zeros(d), gbce.AtLeast(1.5, scale=1.0), rules=[gbce.MAP()], seed=0)

    return make
