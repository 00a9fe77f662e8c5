"""Model rows that one effective draw costs: importance sampling, tempering and chains, from easy targets to rare ones.

The model is LightGBM on data simulated from the paper's function (its Section 3.1) with further linear terms. The
target is a percentile of the training outcomes. A sampler's effective draws are the posterior's variance over the mean
squared error of its estimates, over replicates and against a long run of tempering: as many independent draws would be
as exact. They are averaged harmonically over all coordinates, squared distance, loss and success, so that the figure
that is known worst tells most; the cases B and C have the plain average as well. Estimates are those of the weighted
pool, before draws are picked from it.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import lightgbm
import numpy as np
from numpy.typing import NDArray

import gbce
from benchmarks._documents import add_docs_option, print_into
from gbce.base import Sampler
from gbce.draws import Draws
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import as_predictor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One question: features, percentile wanted, eta, and the prior's scale."""

    d: int
    percentile: float
    eta: float = 1.0
    sigma: float = 1.0

    @property
    def label(self) -> str:
        """The question in words."""
        return f"d = {self.d}, {self.percentile:g}%, eta = {self.eta:g}, sigma = {self.sigma:g}"

    def posterior(self) -> Callable[[], GibbsPosterior]:
        """Fit the model; each call then gives the posterior with a row count of its own."""
        x, y = simulated(self.d)
        model = lightgbm.LGBMRegressor(n_estimators=150, num_leaves=31, verbose=-1, n_jobs=1).fit(x, y)
        row = np.zeros(self.d)
        row[:2] = 0.2, 0.1
        space = gbce.Space.real(self.d)
        predictor = as_predictor(lambda rows: model.booster_.predict(rows, num_threads=1), space)
        prior = gbce.Gaussian(self.sigma).at(space, row)
        target = gbce.Value(float(np.percentile(y, self.percentile)), scale=1, tolerance=0.5)
        mixture = Mixture(self.eta, np.ones(1))
        return lambda: GibbsPosterior(prior, (predictor.with_fresh_meter(),), target, mixture, landmarks=x)


B, C = Case(10, 99, eta=10, sigma=0.5), Case(30, 99, eta=10, sigma=0.5)
CASES = (*(Case(d, percentile) for d in (2, 10, 30, 100) for percentile in (90, 99, 99.9)), B, C)
QUICK = (Case(2, 90), Case(10, 99.9), B)


def simulated(d: int) -> tuple[Array, Array]:
    """Return 3,000 rows and their outcomes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3_000, d))
    further = x[:, 2:] @ np.linspace(-0.5, 0.5, d - 2) if d > 2 else 0.0
    f = 2 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1] + further
    return x, f + rng.normal(scale=0.3, size=len(x))


def samplers() -> dict[str, Sampler]:
    """Return what is compared: each sampler at its defaults."""
    found: dict[str, Sampler] = {"Importance": gbce.Importance(), "SMC": gbce.SMC()}
    try:
        from gbce.samplers._chains import Chains
    except ImportError:
        return found
    return found | {"Chains": Chains()}


class Moments(NamedTuple):
    """Mean and variance of each functional, ``(k,)``."""

    mean: Array
    variance: Array


def moments(draws: Draws, row: Array) -> Moments:
    x = draws.pool.x
    distance = np.square(x - row).sum(axis=1)
    values = np.column_stack([x, distance, draws.pool.loss[:, 0], draws.pool.reached[:, 0]])
    mean = draws.pool_weights @ values
    return Moments(mean, draws.pool_weights @ np.square(values - mean))


class Cost(NamedTuple):
    """Mean over replicates of rows, effective draws (two averages), Kish's size, rungs and seconds."""

    rows: float
    effective: float
    average: float
    kish: float
    rungs: float
    seconds: float


def study(make: Callable[[], GibbsPosterior], sampler: Sampler, repeats: int, truth: Moments) -> Cost:
    """Run a sampler several times and compare its estimates with the truth."""
    squares, counts = [], []
    for seed in range(1, repeats + 1):
        posterior, start = make(), time.perf_counter()
        draws = sampler.sample(posterior, np.random.default_rng(seed))
        seconds = time.perf_counter() - start
        squares.append(np.square(moments(draws, posterior.prior.x0).mean - truth.mean))
        counts.append((posterior.n_rows, draws.ess, len(draws.rungs), seconds))
    varies = truth.variance > 1e-9  # success does not, where the model never reaches the target
    error = np.mean(squares, axis=0)[varies] / truth.variance[varies]
    average = np.mean(1 / error) * (1 - 2 / repeats)  # without bias for normal errors, of which there are few
    rows, kish, rungs, seconds = np.mean(counts, axis=0)
    return Cost(rows, 1 / float(np.mean(error)), float(average), kish, rungs, seconds)


def compare(case: Case, repeats: int, factor: int) -> None:
    """Print a table of one case; the reference run is ``factor`` times as long as a default one."""
    make = case.posterior()
    long = gbce.SMC(n_candidates=20_000 * factor, n_draws=2_000 * factor)
    reference = long.sample(make(), np.random.default_rng(0))
    truth = moments(reference, make().prior.x0)
    name = {B: "B: ", C: "C: "}.get(case, "")
    print(f"{name}{case.label}: log evidence {reference.log_evidence:.2f}, success {truth.mean[-1]:.2f}")
    columns = f"{'rows':>9}{'effective':>11}{'rows each':>11}{'Kish':>8}{'rungs':>7}{'seconds':>9}"
    print(f"  {'method':<12}{columns}")
    averages = {}
    for method, sampler in samplers().items():
        cost = study(make, sampler, repeats, truth)
        effective, kish = (f"{n:,.{0 if n > 20 else 1}f}" for n in (cost.effective, cost.kish))
        print(
            f"  {method:<12}{cost.rows:>9,.0f}{effective:>11}{cost.rows / cost.effective:>11,.0f}"
            f"{kish:>8}{cost.rungs:>7.1f}{cost.seconds:>9.2f}",
            flush=True,
        )
        averages[method] = cost.average / cost.rows * 100_000
    if name:
        said = ", ".join(f"{method} {value:,.1f}" for method, value in averages.items())
        print(f"  plain average over all figures, per 100,000 rows: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="three cases, few replicates, a shorter reference run")
    parser.add_argument("--hard", action="store_true", help="only the cases B and C")
    parser.add_argument("--repeats", type=int, default=None, help="replicates of each sampler, at least 3")
    add_docs_option(parser)
    options = parser.parse_args()
    repeats = options.repeats or (4 if options.quick else 10)
    if repeats < 3:
        parser.error("averages need at least 3 replicates")
    with print_into("efficiency", options.docs):
        print(f"{repeats} replicates of each sampler at its defaults")
        for case in (B, C) if options.hard else QUICK if options.quick else CASES:
            compare(case, repeats, factor=4 if options.quick else 10 if case.d < 100 else 3)  # 100 features take memory


if __name__ == "__main__":
    main()
