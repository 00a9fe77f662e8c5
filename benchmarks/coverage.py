"""How often the printed 95% interval (value ± 1.96 standard errors) of each figure covers the exact value.

A linear model with squared loss under a Gaussian prior has a Gaussian posterior, so every figure is known in closed
form. Each seed is one explanation; the intervals it prints either cover the truth or not. In the hard cases (log
evidence of about -10) few candidates from the prior count and SMC tempers; importance sampling has nothing to say there
and is left out.

Columns: *covers*, share of seeds whose interval holds the exact value (nominal 0.95; over 200 seeds its standard error
is 0.015); *bias/sd*, mean error over its spread across seeds, ideally 0; *se/sd*, printed standard error over the same
spread, ideally 1. Below about 100 effective draws an explanation says "not sampled", and intervals can be too short.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import foldnorm, ncx2, norm

import gbce
from benchmarks._documents import add_docs_option, print_into
from gbce.base import Sampler

Array = NDArray[np.float64]

ALPHA = 0.1
WITHIN = 0.90, 0.99  # a rate of 0.95 over 200 seeds has a standard error of 0.015


@dataclass(frozen=True)
class Linear:
    """The model ``w.x + b`` at the row ``x0``, asked for the value ``y``; the prior is ``N(x0, I)``."""

    w: Array
    b: float
    x0: Array
    y: float
    tolerance: float
    eta: float
    hard: bool = False

    def predict(self, x: Array) -> Array:
        """Answer for rows ``(n, d)``."""
        return x @ self.w + self.b

    def truth(self) -> dict[str, float]:
        """Exact figures, by the names that the tables of an explanation give them."""
        d, r = len(self.w), self.w @ self.x0 + self.b - self.y
        shrink = 1 + 2 * self.eta * self.w @ self.w
        covariance = np.linalg.inv(np.eye(d) + 2 * self.eta * np.outer(self.w, self.w))
        mean = covariance @ (self.x0 + 2 * self.eta * (self.y - self.b) * self.w)
        gap, sd = self.w @ mean + self.b - self.y, np.sqrt(self.w @ covariance @ self.w)
        moved, spread = np.abs(mean - self.x0), np.sqrt(np.diag(covariance))
        return {
            "success_probability": norm.cdf((self.tolerance - gap) / sd) - norm.cdf((-self.tolerance - gap) / sd),
            "tail": sd**2 * ncx2.ppf(1 - ALPHA, 1, (gap / sd) ** 2),
            "stability": float(np.trace(covariance)),
            "expected_loss": gap**2 + sd**2,
            "log_evidence": -np.log(shrink) / 2 - self.eta * r**2 / shrink,
            **{f"importance x{j + 1}": foldnorm.mean(moved[j] / spread[j], scale=spread[j]) for j in range(d)},
        }

    def explainer(self, sampler: Sampler) -> gbce.Explainer:
        """Return an explainer of this model in raw units."""
        return gbce.Explainer(
            self.predict,
            np.random.default_rng(0).normal(size=(100, len(self.w))),
            space=gbce.Space.real(len(self.w)),
            eta=self.eta,
            sampler=sampler,
            evaluation=gbce.Evaluation(alpha=ALPHA),
        )


CASES = {
    "d = 2, eta = 1": Linear(np.array([1.0, -0.5]), 0.3, np.array([0.2, 0.1]), y=2.0, tolerance=0.5, eta=1.0),
    "d = 10, eta = 0.5": Linear(np.linspace(-1.0, 1.0, 10), 0.0, np.zeros(10), y=4.0, tolerance=0.6, eta=0.5),
    "d = 2, eta = 10, hard": Linear(np.array([1.0, -0.5]), 0.3, np.array([0.2, 0.1]), 5.1, 0.25, 10.0, hard=True),
    "d = 10, eta = 10, hard": Linear(np.linspace(-1.0, 1.0, 10), 0.0, np.zeros(10), 8.0, 0.25, 10.0, hard=True),
}


def sampler_of(name: str, n_candidates: int, n_draws: int, n_islands: int = 8) -> Sampler:
    """Return a sampler by name; chains start from SMC of the same size."""
    if name == "importance":
        return gbce.Importance(n_candidates, n_draws)
    if name == "smc":
        return gbce.SMC(n_candidates, n_draws, n_islands)
    if name == "nested":
        return gbce.Nested(n_live=300, n_effective=n_draws, n_draws=n_draws, n_networks=1)
    return gbce.Chains(n_chains=200, n_steps=50, start=gbce.SMC(n_candidates, n_draws), n_draws=n_draws)


def figures(explanation: gbce.Explanation) -> Iterator[tuple[str, float, float]]:
    """Name, value and standard error of every figure that has an exact answer."""
    table, numbers = explanation.distribution, explanation.diagnostics
    for name in ("success_probability", "tail", "stability", "expected_loss"):
        yield name, table[name], table[f"{name}_se"]
    yield "log_evidence", numbers["log_evidence"], numbers["log_evidence_se"]
    for feature, line in explanation.importance.iterrows():
        yield f"importance {feature}", line["change"], line["se"]


def between_islands(draws: gbce.draws.Draws) -> float:
    """Return the variance of the log evidence if islands knew nothing of each other."""
    if draws.groups is None:
        return np.nan
    part = np.bincount(draws.groups, weights=draws.pool_weights - draws.prior_weights)
    return float(part.var(ddof=1) * len(part))


class Study(NamedTuple):
    """By figure, ``(n, 3)``: value, standard error and truth; the mean number of rungs, and of variances."""

    figures: dict[str, Array]
    rungs: float
    between: float


def study(case: Linear, sampler: Sampler, seeds: range) -> Study:
    """Explain with every seed; the features' importances are pooled under one name."""
    truth, explainer = case.truth(), case.explainer(sampler)
    target = gbce.Value(case.y, scale=1, tolerance=case.tolerance)
    lines: dict[str, list[tuple[float, float, float]]] = {}
    rungs, between = [], []
    for seed in seeds:
        explanation = explainer.explain(case.x0, target, rules=[], seed=seed)
        rungs.append(len(explanation.draws.rungs))
        between.append(between_islands(explanation.draws))
        for name, value, se in figures(explanation):
            lines.setdefault(name.split()[0], []).append((value, se, truth[name]))
    pooled = {name: np.array(rows) for name, rows in lines.items()}
    return Study(pooled, float(np.mean(rungs)), float(np.mean(between)))


def show(results: dict[str, Array]) -> None:
    print(f"{'figure':<22}{'covers':>8}{'bias/sd':>9}{'se/sd':>7}{'truth':>9}{'mean se':>9}")
    for name, rows in results.items():
        value, se, truth = rows.T
        covers = np.mean(np.abs(value - truth) <= 1.96 * se)
        error = value - truth
        pooled = name == "importance"
        print(
            f"{name + (' (pooled)' if pooled else ''):<22}{covers:>8.3f}{error.mean() / error.std():>9.2f}"
            f"{np.sqrt(np.mean(se**2)) / error.std():>7.2f}{'' if pooled else format(truth[0], '.4f'):>9}"
            f"{se.mean():>9.4f}{'' if WITHIN[0] <= covers <= WITHIN[1] else '   <- outside'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sampler", choices=("importance", "smc", "chains", "nested"), default="importance")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--candidates", type=int, default=5_000)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--islands", type=int, default=8, help="of SMC")
    parser.add_argument("--hard", action="store_true", help="only the cases in which SMC tempers")
    parser.add_argument("--easy", action="store_true", help="only the others")
    add_docs_option(parser)
    options = parser.parse_args()
    sampler = sampler_of(options.sampler, options.candidates, options.draws, options.islands)
    size = f"{options.seeds} seeds, {options.candidates} candidates, {options.draws} draws"
    with print_into(f"coverage {options.sampler}", options.docs, __doc__):
        for name, case in CASES.items():
            easy = options.easy or options.sampler == "importance"
            if (case.hard and easy) or (options.hard and not case.hard):
                continue
            start = time.perf_counter()
            results = study(case, sampler, range(options.first, options.first + options.seeds))
            seconds = time.perf_counter() - start
            print(f"{options.sampler}, {name}: {size}, {results.rungs:.1f} rungs, {seconds:.0f} s")
            show(results.figures)
            if np.isfinite(results.between):
                ratio = results.figures["log_evidence"][:, 0].var() / results.between
                print(f"log evidence: variance over seeds {ratio:.2f} times that between islands")
            print(flush=True)


if __name__ == "__main__":
    main()
