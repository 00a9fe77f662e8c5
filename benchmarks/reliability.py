"""What a recommendation costs, and whether it holds under models that nobody has seen yet: beside peers, in one run.

A forest of 100 trees, rows that it refuses, and twenty forests refitted on bootstraps of the same data, which no method
is shown. gbce gets a dozen refits of its own (Bayesian bootstrap). Costs are sums of changes in ranges of the training
data; seconds are those of one core, for peers and for gbce without fitting.

Columns: *l1*, cost; *survival*, share of the unseen refits that accept an answer; *all 20*, share of answers that all
of them accept; *noise*, share accepted under noise of 2% of each range. ``across`` is ``ChanceConstrained(0.9,
across="models")`` over the forest and its refits. The frontier is ``reliability="next", distance="l1"``. DiCE gives
five answers a row, which count alike. The frontier was tuned on seed 0; seed 1 is another split with other forests and
refits. Peers: ``pip install dice-ml treecf`` and ``pip install --no-deps NICEx``.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

import gbce
from benchmarks._documents import add_docs_option, print_into
from benchmarks._peers import CannotRunError
from benchmarks._plain_peers import PLAIN_PEERS

N_UNSEEN, N_OWN = 20, 12
NOISE = 0.02  # of each range, either way
N_NOISE = 20
LEVELS = (0.1, 0.3, 0.5, 0.8, 0.95, 0.99, 0.999)
ETA, SAMPLER = 30.0, gbce.SMC(n_candidates=1_000, n_draws=250, max_rounds=1)  # for decisions, not for figures
SHAKY = NOISE / np.sqrt(3)  # the standard deviation of that noise
CURVE = ((0.66, 0.25), (0.77, 0.48), (1.00, 0.80), (1.50, 0.95))  # breast cancer: cost at survival that is to be met


@dataclass
class Case:
    """A forest, rows it refuses, and what is wanted of it."""

    name: str
    X: pd.DataFrame
    y: pd.Series
    model: Any
    rows: pd.DataFrame
    wish: Any
    target: Any

    def good(self, model: Any, x: np.ndarray) -> np.ndarray:
        """Whether a model's own ``predict`` grants the wish for rows ``(n, d)``."""
        said = model.predict(pd.DataFrame(x, columns=self.X.columns))
        return said == self.wish if hasattr(model, "classes_") else (self.wish[0] <= said) & (said <= self.wish[1])


@dataclass
class Line:
    """What one method does, averaged over its answers and then over rows."""

    method: str
    answered: float
    seconds: float
    valid: float
    cost: float
    changed: float
    survival: float
    all: float
    noise: float

    def __str__(self) -> str:
        return (
            f"{self.method:<30}{self.answered:>9.2f}{self.valid:>7.2f}{self.cost:>7.2f}{self.changed:>9.1f}"
            f"{self.survival:>10.2f}{self.all:>8.2f}{self.noise:>7.2f}{self.seconds:>8.2f}"
        )


HEAD = f"{'method':<30}{'answered':>9}{'valid':>7}{'l1':>7}{'changed':>9}{'survival':>10}{'all 20':>8}{'noise':>7}"


def refused(X: pd.DataFrame, rest: pd.DataFrame, asked: np.ndarray, n: int) -> pd.DataFrame:
    """Return the first ``n`` rows to be asked about; the range of the training data is a bound, so they lie within."""
    inside = ((rest >= X.min()) & (rest <= X.max())).all(axis=1)
    return rest[asked & inside].iloc[:n]


def breast_cancer(n: int, seed: int) -> Case:
    """Return tumours called malignant, to be called benign."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, rest, y, _ = train_test_split(X, y, test_size=0.3, random_state=seed)
    model = RandomForestClassifier(100, random_state=seed).fit(X, y)
    return Case("breast cancer", X, y, model, refused(X, rest, model.predict(rest) == 0, n), 1, gbce.Class(1))


def diabetes(n: int, seed: int) -> Case:
    """Return patients with a bad outlook, to get one between 60 and 100."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, rest, y, _ = train_test_split(X, y, test_size=0.3, random_state=seed)
    model = RandomForestRegressor(100, random_state=seed).fit(X, y)
    wish = (60.0, 100.0)
    return Case("diabetes", X, y, model, refused(X, rest, model.predict(rest) > 180, n), wish, gbce.Range(*wish))


def unseen_refits(case: Case, seed: int) -> list[Any]:
    """Fit forests on bootstraps that no method is shown."""
    rng = np.random.default_rng(seed)
    fits = []
    for number in range(N_UNSEEN):
        rows = rng.integers(0, len(case.X), len(case.X))
        forest = clone(case.model).set_params(random_state=1_000 * seed + number)
        fits.append(forest.fit(case.X.iloc[rows], case.y.iloc[rows]))
    return fits


def judged(case: Case, unseen: list[Any], method: str, answers: list[np.ndarray], seconds: float) -> Line:
    """Judge a method's answers, ``(k, d)`` for each row."""
    span = (case.X.max() - case.X.min()).to_numpy()
    rng = np.random.default_rng(0)
    lines = []
    for x0, x in zip(case.rows.to_numpy(), answers, strict=True):
        if len(x) == 0:
            continue
        holds = np.array([case.good(fit, x) for fit in unseen])
        shifts = rng.uniform(-NOISE, NOISE, (N_NOISE, 1, len(span))) * span
        shaken = case.good(case.model, (x + shifts).reshape(-1, len(span)))
        change = np.abs(x - x0) / span
        lines.append(
            [
                case.good(case.model, x).mean(),
                change.sum(axis=1).mean(),
                (change > 1e-9).sum(axis=1).mean(),
                holds.mean(),
                holds.all(axis=0).mean(),
                shaken.mean(),
            ]
        )
    table = np.array(lines).reshape(-1, 6)
    mean = table.mean(axis=0) if len(table) else np.full(6, np.nan)
    return Line(method, len(table) / len(answers), seconds / len(answers), *[float(value) for value in mean])


def timed(case: Case, ask: Callable[[pd.DataFrame], Any]) -> tuple[list[Any], float]:
    """Ask about every row; return the answers and the seconds of one core."""
    start = time.process_time()
    said = [ask(case.rows.iloc[[i]]) for i in range(len(case.rows))]
    return said, time.process_time() - start


def peers(case: Case, unseen: list[Any]) -> list[Line]:
    """Run the other libraries."""
    lines = []
    for name, make in PLAIN_PEERS.items():
        try:
            ask = make(case.model, case.X, case.y, case.wish)
        except CannotRunError as error:
            print(f"{name:<30} {error}", flush=True)
            continue
        lines.append(judged(case, unseen, name, *timed(case, ask)))
        print(lines[-1], flush=True)
    return lines


def own(case: Case, unseen: list[Any], seed: int) -> list[Line]:
    """Run gbce: rules of the posterior of the model and its refits, then the frontier at several reliabilities."""
    method, learner = gbce.BayesianBootstrap(), clone(case.model)
    refits = gbce.model_posterior(learner, case.X, case.y, method, N_OWN, seed=seed + 1, progress=False)
    span = (case.X.max() - case.X.min()).to_dict()
    space = gbce.Space.infer(case.X, scale=span, bounds="data")
    prior = gbce.Sparse(gbce.Gaussian(0.3), change=0.2)
    columns, lines = list(case.X.columns), []

    def rules(name: str, models: Any, rules: list[Any]) -> None:
        """Judge rules of the posterior, which choose among draws."""
        explainer = gbce.Explainer(
            models, case.X, space=space, prior=prior, eta=ETA, combine="average", sampler=SAMPLER, policy=None
        )
        explainer.explain(case.rows.iloc[[0]], case.target, rules=[], seed=0)  # looks at the models, once
        for rule in rules:
            found, seconds = timed(case, partial(explainer.explain, target=case.target, rules=rule, seed=0))
            chosen = [explanation.counterfactuals.loc[[rule.label], columns].to_numpy() for explanation in found]
            lines.append(judged(case, unseen, f"gbce {type(rule).__name__}{name}", chosen, seconds))
            print(lines[-1], flush=True)

    rules("", case.model, [gbce.MAP(), gbce.ChanceConstrained(0.9, noise=SHAKY)])
    rules(" across", [case.model, *refits], [gbce.ChanceConstrained(0.9, noise=SHAKY, n_perturb=16, across="models")])

    single = gbce.Explainer(
        case.model, case.X, space=space, prior=prior, eta=ETA, sampler=gbce.Importance(500, 100), policy=None
    )
    options: dict[str, Any] = {"models": refits, "reliability": "next", "distance": "l1", "levels": LEVELS}
    first = single.explain(case.rows.iloc[[0]], case.target, rules=[], seed=0)
    single.frontier(first, **options)  # looks at the models, once

    def front(row: pd.DataFrame) -> pd.DataFrame:
        explanation = single.explain(row, case.target, rules=[], seed=0)
        return single.frontier(explanation, **options)

    fronts, seconds = timed(case, front)
    for level in LEVELS:
        found = [table[table.index >= level - 1e-9].iloc[:1][columns].to_numpy(float) for table in fronts]
        lines.append(judged(case, unseen, f"gbce frontier at {level:g}", found, seconds))
        print(lines[-1], flush=True)
    return lines


def verdict(ours: list[Line], theirs: list[Line]) -> None:
    """Say for every peer which of our points beats it: no dearer and no less reliable."""
    for peer in theirs:
        better = [o for o in ours if o.valid == 1 and o.cost <= peer.cost and o.survival >= peer.survival]
        if better:
            best = min(better, key=lambda o: o.cost)
            print(f"{peer.method}: {best.method} is no dearer ({best.cost:.2f} against {peer.cost:.2f}) and survives "
                  f"as much or more ({best.survival:.2f} against {peer.survival:.2f})")  # fmt: skip
        else:
            print(f"{peer.method}: STILL WINS, no point of ours is as cheap and as reliable")


def curve(ours: list[Line]) -> None:
    """Compare the frontier with the costs that are to be met, between its points by a straight line."""
    points = sorted((line.survival, line.cost) for line in ours if "frontier" in line.method)
    for cost, survival in CURVE:
        own = float(np.interp(survival, *np.transpose(points)))
        print(f"survival {survival:.2f}: at most {cost:.2f}; ours {own:.2f}{'' if own <= cost else ', MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0, help="of the split, the forests and all refits")
    parser.add_argument("--case", choices=["breast cancer", "diabetes"], help="only one of the two")
    add_docs_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with print_into(f"reliability {options.seed}", options.docs, __doc__):
        for make in (breast_cancer, diabetes):
            case = make(options.rows, options.seed)
            if options.case not in (None, case.name):
                continue
            unseen = unseen_refits(case, options.seed)
            print(f"\n{case.name}: {len(case.rows)} rows, {case.X.shape[1]} features, {case.target.describe()}")
            print(f"{HEAD}{'s/row':>8}", flush=True)
            theirs = peers(case, unseen)
            ours = own(case, unseen, options.seed)
            verdict(ours, theirs)
            if case.name == "breast cancer" and (options.rows, options.seed) == (25, 0):  # whose costs those are
                curve(ours)


if __name__ == "__main__":
    main()
