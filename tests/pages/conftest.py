"""One browser for all tests of pages, and explanations that several of them look at."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import gbce
from support.browser import HOW_TO_GET_IT, find_chromium
from support.credit_book import credit_book, worth


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


@pytest.fixture(scope="session")
def loan():
    """A loan with numbers, whole numbers, words, a date and a gap; one model."""
    data = credit_book()
    wanted = float(worth(data.iloc[[5]])[0]) + 1.0
    return gbce.Explainer(worth, data).explain(data.iloc[5], gbce.AtLeast(wanted), seed=0)


@pytest.fixture(scope="session")
def loan_file(loan, tmp_path_factory):
    return loan.to_html(tmp_path_factory.mktemp("pages") / "loan.html")


def classified(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"c{j}" for j in range(d)])
    return data, (data.iloc[:, :4].sum(axis=1) + 0.3 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture(scope="session")
def models():
    """Three models that disagree, by the paper's mixture."""
    data, label = classified()
    fitted = [
        LogisticRegression().fit(data, label),
        RandomForestClassifier(20, max_depth=4, random_state=0).fit(data, label),
        RandomForestClassifier(20, max_depth=2, random_state=1).fit(data, label),
    ]
    explainer = gbce.Explainer(fitted, data, prior=gbce.Gaussian())
    row = data.iloc[:, :4].sum(axis=1).sort_values().index[60]
    return explainer.explain(data.loc[row], gbce.Class(1), seed=0)


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
