"""The mode by MAP and by direct optimisation: which is better, and what each asks of the model.

MAP starts from draws of the posterior that are there anyway and refines the best of them together; DirectOpt is the
usual search, Nelder and Mead's from twenty starts. Both minimise the same objective, eta * loss + distance.

Each line has four targets, near and far, two-sided and one-sided, for one row each. *worst* is the largest excess of
MAP's objective over DirectOpt's, relative above one. It is a search, not a proof.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import gbce
from benchmarks._documents import add_docs_option, print_into

TIE = 1e-3  # of the objective, above one
DIRECT = gbce.DirectOpt(max_iterations=600)


class Counted:
    """A model that counts the rows it is shown."""

    def __init__(self, ask: Any) -> None:
        self.ask, self.rows = ask, 0

    def __call__(self, x: np.ndarray) -> Any:
        """Ask."""
        self.rows += len(x)
        return self.ask(x)


def outcome(x: np.ndarray) -> np.ndarray:
    """Return a smooth surface with a bend and an interaction."""
    return x[:, 0] + 0.5 * np.sin(2 * x[:, 1]) + x[:, 0] * x[:, -1] + 0.2 * np.square(x).sum(axis=1) / x.shape[1]


def models(d: int) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield names, functions and outcomes of a smooth model, a network and three kinds of trees."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(1_000, d))
    y = outcome(X) + 0.1 * rng.normal(size=len(X))
    yield "smooth", outcome, y
    for name, model in {
        "network": MLPRegressor(hidden_layer_sizes=(16, 16), solver="lbfgs", max_iter=300, random_state=0),
        "forest": RandomForestRegressor(30, min_samples_leaf=2, random_state=0),
        "extra trees": ExtraTreesRegressor(30, random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=60, random_state=0),
    }.items():
        yield name, model.fit(X, y).predict, y


def questions(y: np.ndarray) -> list[tuple[Any, Any, float]]:
    """Return targets, priors and etas: near and far, on both sides and on one, round and pointed distances."""
    high, low = np.quantile(y, [0.97, 0.05])
    return [
        (gbce.Value(high, scale=1, tolerance=0.1), gbce.Gaussian(), 20.0),
        (gbce.AtLeast(high, scale=0.2), gbce.Laplace(0.5), 1.0),
        (gbce.AtMost(low, scale=0.2), gbce.Gaussian(0.5), 2.0),
        (gbce.Value(low, scale=1, tolerance=0.1, loss="absolute"), gbce.Gaussian(), 10.0),
    ]


def compare_modes(dimensions: list[int], n_rows: int) -> None:
    """Print one line for each number of features and model, and one for all of them."""
    start, lines = time.perf_counter(), []
    print(
        f"{'d':>3} {'model':<12}{'cases':>6}{'better':>8}{'same':>6}{'worse':>7}{'worst':>9}{'MAP rows':>10}"
        f"{'direct':>9}"
    )
    for d in dimensions:
        for name, ask, y in models(d):
            found = []
            for number, (target, prior, eta) in enumerate(questions(y)):
                for row in range(n_rows):
                    counted = Counted(ask)
                    explainer = gbce.Explainer(
                        counted, np.random.default_rng(1).normal(size=(300, d)), space=gbce.Space.real(d), prior=prior,
                        eta=eta, sampler=gbce.SMC(n_candidates=5_000, n_draws=1_000),
                    )  # fmt: skip
                    x0 = 0.5 * np.random.default_rng(100 * row + number).normal(size=d)
                    explanation = explainer.explain(x0, target, rules=[], seed=row)
                    objective, rows = [], []
                    for rule in (gbce.MAP(), DIRECT):
                        before = counted.rows
                        x = explainer.decide(explanation, rule)
                        rows.append(counted.rows - before)
                        objective.append(float(explainer.assess(explanation, x)["objective"].iloc[0]))
                    found.append([(objective[0] - objective[1]) / max(1.0, objective[1]), *rows])
            excess, rows = np.array(found)[:, 0], np.array(found)[:, 1:].mean(axis=0)
            lines.append([len(excess), (excess < -TIE).sum(), (np.abs(excess) <= TIE).sum(), (excess > TIE).sum()])
            n, better, same, worse = lines[-1]
            print(f"{d:>3} {name:<12}{n:>6}{better:>8}{same:>6}{worse:>7}{excess.max():>9.4f}"
                  f"{rows[0]:>10,.0f}{rows[1]:>9,.0f}", flush=True)  # fmt: skip
    n, better, same, worse = np.sum(lines, axis=0)
    print(f"all: of {n} modes MAP's is better in {better}, the same in {same}, worse in {worse}; "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--rows", type=int, default=2, help="rows that are explained in each case")
    add_docs_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # of the network, which is only to be smooth
    with print_into("modes", options.docs, __doc__):
        compare_modes(options.dimensions, options.rows)


if __name__ == "__main__":
    main()
