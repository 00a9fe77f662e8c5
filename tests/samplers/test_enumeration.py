"""Small discrete spaces, enumerated: the draws' frequencies are the exact posterior's, for every sampler."""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

import gbce

WISH = 2.0


@dataclass(frozen=True)
class Case:
    """A frame, its space, a row, a prior, and the log prior of every admissible point, written out by hand."""

    frame: pd.DataFrame
    space: gbce.Space
    row: dict
    prior: object
    points: list  # of tuples of values, in column order
    log_prior: np.ndarray
    eta: float = 1.0

    def output(self, frame):
        """A model without structure: one number for each point."""
        table = {point: value for point, value in zip(self.points, self.values, strict=True)}
        # rows of the data that cannot be reached from the row are asked about, too
        return np.array([table.get(line, -5.0) for line in frame.itertuples(index=False, name=None)])

    @property
    def values(self):
        return np.random.default_rng(len(self.points)).normal(size=len(self.points)).round(2)

    @property
    def posterior(self):
        log_weights = self.log_prior - self.eta * np.square(self.values - WISH)
        return np.exp(log_weights - logsumexp(log_weights))

    @property
    def log_evidence(self):
        log_weights = self.log_prior - self.eta * np.square(self.values - WISH)
        return float(logsumexp(log_weights) - logsumexp(self.log_prior))


def levels_cost(now, values, share, cost=0.5):
    """Stay for nothing, or pay once and go to a level in proportion to its share."""
    others = {value: weight for value, weight in zip(values, share, strict=True) if value != now}
    total = sum(others.values())
    return {value: 0.0 if value == now else cost - np.log(others[value] / total) for value in values}


def steps_cost(now, values, sd):
    return {value: 0.5 * ((value - now) / sd) ** 2 for value in values}


def spiked(costs, now, change):
    """Stay with probability 1 - change; otherwise in proportion to what the costs say."""
    others = logsumexp([-cost for value, cost in costs.items() if value != now])
    return {
        value: -np.log1p(-change) if value == now else cost + others - np.log(change) for value, cost in costs.items()
    }


def product(*tables, allowed=lambda *values: True):
    points = [point for point in itertools.product(*tables) if allowed(*point)]
    return points, -np.array([sum(t[v] for t, v in zip(tables, point, strict=True)) for point in points])


def categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "job": rng.choice(["a", "b", "c", "d"], 200, p=[0.5, 0.3, 0.15, 0.05]),
            "town": pd.Categorical(rng.choice(["x", "y", "z"], 200), categories=["z", "y", "x"]),
            "owns": rng.random(200) < 0.3,
        }
    )
    shares = {name: (frame[name].value_counts() + 1) / (200 + frame[name].nunique()) for name in frame}
    tables = [
        levels_cost(now, list(shares[name].index), list(shares[name]))
        for name, now in (("job", "b"), ("town", "x"), ("owns", False))
    ]
    row = {"job": "b", "town": "x", "owns": False}
    return Case(frame, gbce.Space.infer(frame), row, gbce.Gaussian(), *product(*tables))


def whole_numbers():
    frame = pd.DataFrame({"n": np.arange(60) % 9, "m": np.arange(60) % 7 - 3, "size": ["s", "l", "m"] * 20})
    space = gbce.Space.infer(
        frame, bounds={"n": (0, 8), "m": (-3, None)}, increase=["m"], levels={"size": ["s", "m", "l"]},
        kinds={"size": "ordinal"}, scale={"n": 2.0, "m": 1.5, "size": 0.8},
    )  # fmt: skip
    places = {"s": 0, "m": 1, "l": 2}
    sizes = {name: 0.5 * ((place - 1) / 0.8) ** 2 for name, place in places.items()}
    tables = steps_cost(3, range(9), 2.0), steps_cost(-1, range(-1, 20), 1.5), sizes
    return Case(frame, space, {"n": 3, "m": -1, "size": "m"}, gbce.Gaussian(), *product(*tables), eta=2.0)


def sparse_mixture():
    frame = pd.DataFrame(
        {"n": np.arange(60) % 6, "job": ["a", "b", "c"] * 20, "flag": [0, 1] * 30, "k": np.arange(60) % 4}
    )
    space = gbce.Space.infer(frame, bounds={"n": (0, 5), "k": (0, 3)}, scale={"n": 2.0, "k": 1.0})
    tables = [
        spiked(steps_cost(2, range(6), 2.0), 2, 0.25),
        spiked(levels_cost("a", ["a", "b", "c"], [21, 21, 21]), "a", 0.25),
        spiked(levels_cost(1, [0, 1], [31, 31]), 1, 0.25),
        spiked(steps_cost(0, range(4), 1.0), 0, 0.25),
    ]
    row = {"n": 2, "job": "a", "flag": 1, "k": 0}
    return Case(frame, space, row, gbce.Sparse(gbce.Gaussian(), change=0.25), *product(*tables), eta=2.0)


def bound_together():
    """Linear conditions between whole numbers, and a rule."""
    frame = pd.DataFrame({"a": np.arange(60) % 7, "b": np.arange(60) % 8, "job": ["x", "y"] * 30})
    space = gbce.Space.infer(
        frame, bounds={"a": (0, 6), "b": (0, 7)}, scale={"a": 2.0, "b": 3.0},
        constraints=["a <= b", "a + b <= 9", "if job == 'y' then b >= 2"],
    )  # fmt: skip
    tables = steps_cost(2, range(7), 2.0), steps_cost(4, range(8), 3.0), levels_cost("x", ["x", "y"], [1, 1])

    def allowed(a, b, job):
        return a <= b and a + b <= 9 and (job == "x" or b >= 2)

    return Case(frame, space, {"a": 2, "b": 4, "job": "x"}, gbce.Gaussian(), *product(*tables, allowed=allowed))


def moving_together():
    """Correlated whole numbers."""
    frame = pd.DataFrame({"a": np.arange(60) % 7, "b": np.arange(60) % 8})
    space = gbce.Space.infer(frame, bounds={"a": (0, 6), "b": (0, 7)}, scale="raw")
    cov = np.array([[2.0, 1.4], [1.4, 3.0]])
    points = list(itertools.product(range(7), range(8)))
    offset = np.array(points) - [3, 5]
    log_prior = -0.5 * np.einsum("ij,jk,ik->i", offset, np.linalg.inv(cov), offset)
    return Case(frame, space, {"a": 3, "b": 5}, gbce.Gaussian(cov=cov), points, log_prior)


CASES = {
    "categories": categories(),
    "whole numbers": whole_numbers(),
    "sparse": sparse_mixture(),
    "conditions": bound_together(),
    "correlated": moving_together(),
}
SAMPLERS = {
    "importance": gbce.Importance(20_000, 4_000),
    "smc": gbce.SMC(400, 2_000, max_looks=0),
    "search first": gbce.SMC(400, 2_000),
    "chains": gbce.Chains(n_chains=400, n_steps=60, start=gbce.SMC(2_000, 400), n_draws=2_000),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_frequencies_are_those_of_the_enumerated_posterior(name, sampler):
    case = CASES[name]
    explainer = gbce.Explainer(
        case.output, case.frame, space=case.space, prior=case.prior, sampler=SAMPLERS[sampler], eta=case.eta
    )
    explanation = explainer.explain(case.row, gbce.Value(WISH, scale=1, tolerance=0.5), rules=[], seed=1)
    draws = explanation.draws
    if sampler == "smc":
        assert len(draws.rungs) > 1, "this case must be tempered to test anything"
    position = {point: i for i, point in enumerate(case.points)}
    lines = case.space.frame(draws.pool.x).itertuples(index=False, name=None)
    cell = np.array([position.get(line, -1) for line in lines])
    assert draws.pool_weights[cell < 0].sum() == 0  # nothing else was drawn
    found = np.bincount(cell[cell >= 0], draws.pool_weights[cell >= 0], minlength=len(case.points))
    # cells with too few expected draws are thrown together
    n, exact = 0.7 * min(draws.ess, draws.worst_ess[0]), case.posterior
    assert n > 150
    n /= draws.tail_factor**2  # where the weights have a heavy tail, errors say so
    rare = n * exact < 5
    expected = np.append(exact[~rare], exact[rare].sum())
    seen = np.append(found[~rare], found[rare].sum())
    keep = expected > 0
    statistic = n * (np.square(seen - expected)[keep] / expected[keep]).sum()
    assert statistic < chi2(max(keep.sum() - 1, 1)).ppf(0.999), (statistic, keep.sum())
    assert abs(draws.log_evidence - case.log_evidence) < 4 * draws.log_evidence_se


@pytest.mark.parametrize("name", CASES)
def test_the_mode_is_the_enumerated_one(name):
    case = CASES[name]
    explainer = gbce.Explainer(case.output, case.frame, space=case.space, prior=case.prior, eta=case.eta)
    explanation = explainer.explain(case.row, gbce.Value(WISH, scale=1, tolerance=0.5), rules=[gbce.MAP()], seed=0)
    best = case.points[int(np.argmax(case.posterior))]
    if name != "sparse":  # there MAP is a path over numbers of changes
        assert tuple(explanation.counterfactuals.iloc[0]) == best
        return
    reached = np.abs(case.values - WISH) <= 0.5
    changes = np.array([sum(a != b for a, b in zip(p, case.row.values(), strict=True)) for p in case.points])
    path = explanation.sparsity_path
    assert len(path) > 1 or reached[changes == 0].all()  # a row that reaches needs no change
    for label, line in path.set_index("rule")[list(case.row)].iterrows():
        k = sum(a != b for a, b in zip(line, case.row.values(), strict=True))
        own = changes == k
        own &= reached if (own & reached).any() else True
        best = case.points[int(np.argmax(np.where(own, case.posterior, -1.0)))]
        if label == "MAP":
            assert tuple(line) == best
        else:  # beside it: a search over values of one discrete change at a time may end a little below
            assert case.posterior[case.points.index(tuple(line))] > 0.05 * case.posterior[case.points.index(best)], (
                label
            )
    assert explanation.counterfactuals.index[0] == "MAP"
    marked = sum(a != b for a, b in zip(explanation.counterfactuals.iloc[0], case.row.values(), strict=True))
    assert marked == changes[reached].min()
