"""The interval of the tail where losses are equal: next to a lump of them a quantile jumps."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

import gbce
from gbce.report import format_number

SEEDS = range(200)
LEAST = 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(SEEDS))  # four Monte Carlo errors below the nominal 95%
LEVEL = 0.9
WAYS = {"importance": gbce.Importance(3_000, 600), "smc": gbce.SMC(2_000, 600, max_rounds=1, landmarks=False)}


class Steps:
    """A tree with leaves at 0, 1 and 2 over one N(0, 1) feature, asked for at least 2: losses 4, 1 and 0."""

    target = gbce.AtLeast(2, scale=1, tolerance=0)
    mass = np.array([norm.sf(2), norm.cdf(2) - norm.cdf(1), norm.cdf(1)])
    loss = np.array([0.0, 1.0, 4.0])

    def __init__(self, share):
        """Take the eta at which this share of the posterior has a loss of 1 or less."""
        self.eta = brentq(lambda eta: self.shares(eta)[1] - share, 0, 10)
        self.tail = self.loss[np.argmax(self.shares(self.eta) >= LEVEL)]

    def shares(self, eta):
        mass = self.mass * np.exp(-eta * self.loss)
        return np.cumsum(mass) / mass.sum()

    @staticmethod
    def predict(x):
        return np.digitize(x[:, 0], [1.0, 2.0]).astype(float)


class Line:
    """One N(0, 1) feature that is to be at least 1: a lump at loss zero, and every loss above it."""

    target = gbce.AtLeast(1, scale=1, tolerance=0)

    def __init__(self, share):
        """Take the eta at which this share of the posterior has loss zero."""
        self.eta = brentq(lambda eta: self.share(0.0, eta) - share, 0.1, 1e4)
        self.tail = 0.0 if share >= LEVEL else brentq(lambda t: self.share(t, self.eta) - LEVEL, 0, 9)

    @staticmethod
    def share(t, eta):
        def density(x):
            return norm.pdf(x) * np.exp(-eta * (1 - x) ** 2)

        inside = norm.sf(1)
        near, far = quad(density, 1 - np.sqrt(t), 1)[0], quad(density, -10, 1 - np.sqrt(t), points=[0.9])[0]
        return (inside + near) / (inside + near + far)

    @staticmethod
    def predict(x):
        return x[:, 0]


def tables(case, sampler, seeds=SEEDS):
    data = np.random.default_rng(0).normal(size=(50, 1))
    explainer = gbce.Explainer(case.predict, data, space=gbce.Space.real(1), eta=case.eta, sampler=sampler)
    return [explainer.explain([0.0], case.target, rules=[], seed=seed).distribution for seed in seeds]


@pytest.mark.parametrize(
    ("case", "way"),
    [
        (Steps(0.895), "importance"),
        (Steps(0.905), "importance"),
        (Line(0.895), "importance"),
        (Line(0.88), "importance"),
        (Steps(0.905), "smc"),
    ],
    ids=["tree below", "tree above", "line below", "line further below", "tree above, smc"],
)
def test_intervals_cover_the_tail_next_to_a_lump(case, way):
    found = tables(case, WAYS[way])
    covered = [table["tail_low"] <= case.tail + 1e-12 and case.tail - 1e-12 <= table["tail_high"] for table in found]
    assert np.mean(covered) >= LEAST
    by_error = [abs(table["tail"] - case.tail) <= 1.96 * table["tail_se"] + 1e-9 for table in found]
    assert np.mean(by_error) >= LEAST


@pytest.mark.parametrize("way", WAYS)
def test_the_interval_is_one_loss_where_the_lump_is_certain(way):
    """Five errors of a share of 600 draws away from the level, nothing but the lump can be the quantile."""
    found = tables(Steps(LEVEL + 5 * np.sqrt(LEVEL * (1 - LEVEL) / 400)), WAYS[way], range(20))
    assert np.mean([table["tail_low"] == table["tail_high"] == table["tail"] == 1.0 for table in found]) >= 0.8
    assert np.mean([0 < table["tail_se"] < 0.01 for table in found]) >= 0.8


def test_one_loss_alone_has_an_interval_of_no_length():
    explainer = gbce.Explainer(
        lambda x: np.zeros(len(x)), np.zeros((5, 1)) + np.arange(5)[:, None], space=gbce.Space.real(1),
        sampler=WAYS["importance"],
    )  # fmt: skip
    table = explainer.explain([0.0], gbce.AtLeast(1, scale=1, tolerance=0), rules=[], seed=0).distribution
    assert [table[name] for name in ("tail", "tail_low", "tail_high")] == [1.0, 1.0, 1.0]
    assert 0 < table["tail_se"] < 0.01  # an error is not zero while draws are finite


def test_reports_show_the_tails_own_interval():
    case = Steps(0.905)
    explainer = gbce.Explainer(
        case.predict, np.random.default_rng(0).normal(size=(50, 1)), space=gbce.Space.real(1), eta=case.eta,
        sampler=WAYS["importance"],
    )  # fmt: skip
    explanation = explainer.explain([0.0], case.target, rules=[], seed=0)
    table = explanation.distribution
    line = next(line for line in explanation.summary().splitlines() if line.strip().startswith("tail loss "))
    assert line.split()[2:] == [
        format_number(table["tail"]),
        format_number(table["tail_low"]),
        "to",
        format_number(table["tail_high"]),
    ]
    assert table["tail_low"] < table["tail_high"]
    path = explanation.path([0.5 * case.eta, case.eta])
    assert (path["tail_low"] <= path["tail"]).all()
    assert (path["tail"] <= path["tail_high"]).all()
