"""A mixture over many models: every model asked about every point, against points that carry the index of one model.

The models are LightGBM fits on Dirichlet weights (a Bayesian bootstrap). Effective draws are those an explanation
states; both ways must agree on the evidence and on the posterior's mean.
"""

import argparse
import time
from typing import NamedTuple

import lightgbm
import numpy as np
from numpy.typing import NDArray

import gbce
from benchmarks._documents import add_docs_option, print_into

Array = NDArray[np.float64]


class Run(NamedTuple):
    """Mean of the draws ``(d,)``, and what they cost."""

    mean: Array
    log_evidence: float
    rows: float
    effective: float
    seconds: float


def bootstrap(n_models: int) -> tuple[Array, Array, list[lightgbm.Booster]]:
    """Return rows, outcomes and fits to them under random weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_500, 6))
    f = 2 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1] + x[:, 2:] @ np.linspace(-0.5, 0.5, 4)
    y = f + rng.normal(scale=0.3, size=len(x))
    fits = []
    for k in range(n_models):
        learner = lightgbm.LGBMRegressor(n_estimators=60, num_leaves=15, verbose=-1, n_jobs=1, random_state=k)
        fits.append(learner.fit(x, y, sample_weight=rng.dirichlet(np.ones(len(x))) * len(x)).booster_)
    return x, y, fits


def explained(x: Array, y: Array, fits: list[lightgbm.Booster], joint: bool, seed: int) -> Run:
    """Explain the origin once: the 99th percentile of the outcomes is wanted."""
    models = [(lambda rows, fit=fit: fit.predict(rows, num_threads=1)) for fit in fits]
    explainer = gbce.Explainer(
        models, x, space=gbce.Space.real(6), prior=gbce.Gaussian(0.7), eta=2.0, joint=joint, sampler=gbce.SMC()
    )
    target = gbce.Value(float(np.percentile(y, 99)), scale=1, tolerance=0.5)
    start = time.perf_counter()
    explanation = explainer.explain(np.zeros(6), target, rules=[], seed=seed)
    seconds, draws = time.perf_counter() - start, explanation.draws
    return Run(draws.mean(draws.pool.x), draws.log_evidence, explanation.n_model_rows, draws.ess, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=4)
    add_docs_option(parser)
    options = parser.parse_args()
    x, y, fits = bootstrap(options.models)
    with print_into("many models", options.docs, __doc__):
        print(f"{options.models} fits of LightGBM, means over {options.repeats} seeds")
        print(f"{'':<28}{'rows':>11}{'effective':>11}{'per 100,000':>13}{'log evidence':>14}{'seconds':>9}")
        rates = []
        for label, joint in (("every model, every point", False), ("one model for each point", True)):
            runs = [explained(x, y, fits, joint, seed) for seed in range(options.repeats)]
            rows, effective = np.mean([run.rows for run in runs]), np.mean([run.effective for run in runs])
            rates.append(effective / rows)
            evidence, seconds = [run.log_evidence for run in runs], np.mean([run.seconds for run in runs])
            mean = np.array2string(np.mean([run.mean for run in runs], axis=0), precision=3)
            print(
                f"{label:<28}{rows:>11,.0f}{effective:>11,.0f}{1e5 * rates[-1]:>13,.0f}"
                f"{np.mean(evidence):>8.2f} ± {np.std(evidence, ddof=1):.2f}{seconds:>8.1f}"
            )
            print(f"{'  mean of the draws':<28}{mean}")
        print(f"effective draws per model row: {rates[1] / rates[0]:.1f} times as many")


if __name__ == "__main__":
    main()
