"""Rules under execution noise: what a race and a look beyond the draws cost and gain, against an even grid.

The draws of a case are the same for all rules and seeds; a seed gives a rule its candidates and its noise. What is
chosen is judged under noise of the benchmark's own, far more copies than any rule asks for.

CVaR: an even grid of 800 candidates with 64 copies each, a race, and a race followed by a search around its winner;
*other draw*, how often the race chooses another draw than the grid with the same seed. ChanceConstrained: among draws,
and with the search towards the row; where the last figure is 0%, no draw is reliable enough and the rule's note says
so. The race was tuned on the same tables and on other rows of the same simulated data.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gbce
from benchmarks._documents import add_docs_option, print_into
from gbce.base import Target
from gbce.budget import Budget
from gbce.decisions import apply_rule
from gbce.decisions._risk import tail_mean
from gbce.metrics import evaluate_under_noise, offsets

JUDGED = 8_000  # copies of a chosen point
TAU = 0.9
GRID = gbce.CVaR(TAU, race=False, refine=False)
RACE = gbce.CVaR(TAU, refine=False)
BEYOND = gbce.CVaR(TAU)
DRAW = gbce.ChanceConstrained(refine=False)
NEARER = gbce.ChanceConstrained()


class Case(NamedTuple):
    """A question, and its answer without decisions."""

    name: str
    explainer: gbce.Explainer
    explanation: gbce.Explanation


class Judged(NamedTuple):
    """A chosen point, what it cost and what it is worth under fresh noise."""

    x: np.ndarray
    rows: int
    tail: float
    reliability: float
    distance: float


def wavy(x: np.ndarray) -> np.ndarray:
    """Return the paper's function in 2-D."""
    return 2.0 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1]


def wavy10(x: np.ndarray) -> np.ndarray:
    """Return the paper's function in 10-D."""
    return 1.5 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - x[:, 0] * x[:, 2] + 0.5 * x[:, 3] + 0.3 * x[:, 4:7].sum(axis=1)


def simulated() -> Iterator[tuple[str, gbce.Explainer, object, gbce.Value]]:
    """Yield the paper's two settings, with a forest and with the function itself."""
    rng = np.random.default_rng(0)
    for d, function, spread, noise, n in ((2, wavy, 0.3, 0.2, 3_000), (10, wavy10, 0.5, 0.15, 4_000)):
        X = rng.normal(size=(n, d))
        y = function(X) + spread * rng.normal(size=n)
        forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0).fit(X, y)
        target = gbce.Value(float(np.quantile(y, 0.9)), scale=1, tolerance=0.5)
        evaluation = gbce.Evaluation(noise=noise)
        for name, model in (("forest", forest.predict), ("smooth", function)):
            explainer = gbce.Explainer(model, X, space=gbce.Space.real(d), evaluation=evaluation, policy=None)
            yield f"{d}-D {name}", explainer, X[5], target


def real() -> Iterator[tuple[str, gbce.Explainer, object, Target]]:
    """Yield questions about real tables; the first is that of the README."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0).fit(X, y)
    space = gbce.Space.infer(X, immutable=["age", "sex"], bounds={"bmi": (18, None)})
    explainer = gbce.Explainer(forest, X, space=space)
    yield "diabetes, at most 140", explainer, X.iloc[9], gbce.AtMost(140)
    yield "diabetes, at most 100", explainer, X.iloc[9], gbce.AtMost(100)
    yield "diabetes, 140", explainer, X.iloc[9], gbce.Value(140)
    B, benign = load_breast_cancer(return_X_y=True, as_frame=True)
    classifier = RandomForestClassifier(100, min_samples_leaf=5, random_state=0).fit(B, benign)
    yield "breast cancer", gbce.Explainer(classifier, B), B.iloc[0], gbce.Class(1)


def cases() -> Iterator[Case]:
    """Yield every case with its draws."""
    for source in (simulated(), real()):
        for name, explainer, row, target in source:
            yield Case(name, explainer, explainer.explain(row, target, rules=[gbce.Mean()], seed=0))


def judge(case: Case, rule: gbce.decisions.Rule, seed: int) -> Judged:
    """Let a rule choose with a seed of its own, and look at what it chose."""
    query, draws = case.explanation.query, case.explanation.draws
    posterior = case.explainer._session.own_posterior(case.explanation, Budget())
    before = posterior.n_rows
    x = apply_rule(rule, replace(query, seed=seed), draws, posterior).x
    rows = posterior.n_rows - before
    shifts = offsets(query.evaluation.noise, query.space, np.random.default_rng(10**6), JUDGED)
    said = evaluate_under_noise(posterior, query.space, x, shifts)
    tail = float(tail_mean(said.loss[:, :, 0], TAU)[0])
    return Judged(x[0], rows, tail, float(said.reached.mean()), float(query.space.distance(x, query.x0)[0]))


def compare_tails(case: Case, seeds: range) -> None:
    """Print what the even grid, the race and the search choose, and what that costs."""
    grid, race, beyond = ([judge(case, rule, seed) for seed in seeds] for rule in (GRID, RACE, BEYOND))
    otherwise = np.mean([not np.array_equal(a.x, b.x) for a, b in zip(grid, race, strict=True)])
    cells = []
    for found in (race, beyond):
        gain = np.array([b.tail - a.tail for a, b in zip(grid, found, strict=True)])
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        cells.append(f"{np.mean([b.rows for b in found]):7,.0f} {gain.mean():+8.4f} ({error:.4f})")
    print(
        f"{case.name:22} {np.mean([a.rows for a in grid]):7,.0f} {np.mean([a.tail for a in grid]):8.4f}"
        f"   {cells[0]} {otherwise:5.0%}   {cells[1]}",
        flush=True,
    )


def compare_distances(case: Case, seeds: range) -> None:
    """Print how near a point that holds is, with and without the search towards the row."""
    cells = []
    for rule in (DRAW, NEARER):
        found = [judge(case, rule, seed) for seed in seeds]
        kept = [a.reliability >= rule.probability for a in found]
        cells.append(
            f"{np.mean([a.rows for a in found]):7,.0f} {np.mean([a.distance for a in found]):6.2f}"
            f" {np.mean([a.reliability for a in found]):6.3f} {np.mean(kept):5.0%}"
        )
    print(f"{case.name:22} {cells[0]}   {cells[1]}", flush=True)


def compare_rules(seeds: range) -> None:
    """Print both tables."""
    known = list(cases())
    print(f"CVaR at tau = {TAU}: mean over {len(seeds)} seeds under {JUDGED:,} fresh copies; differences (errors)")
    print(f"{'':22} {'even grid':>16}   {'race':>24} {'other':>6}   {'race and search':>24}")
    print(
        f"{'case':22} {'rows':>7} {'CVaR':>8}   {'rows':>7} {'against grid':>17} {'draw':>5}   {'rows':>7} against grid"
    )
    for case in known:
        compare_tails(case, seeds)
    print("\nChanceConstrained(0.9): rows, distance, reliability, how often it is 0.9 or more")
    print(f"{'case':22} {'a draw':>27}   {'drawn back towards the row':>27}")
    for case in known:
        compare_distances(case, seeds)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=24, help="of the rules, for each case")
    add_docs_option(parser)
    options = parser.parse_args()
    with print_into("races", options.docs, __doc__):
        compare_rules(range(options.seeds))


if __name__ == "__main__":
    main()
