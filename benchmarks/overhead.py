"""What an explanation costs beside the bare model calls it makes, and DirectOpt beside a plain scipy loop.

The setting is the two-dimensional one of the paper (its Section 3.1) with an ExtraTrees forest, once single-threaded
and once with ``n_jobs=-1``, with three rules alone and with the answer of the default policy as well. Both sides of a
ratio are timed in turns in one run, after a warm-up.

The first ratio is the time of ``explain`` with three rules and all tables over that of ``model.predict`` on the very
batches it sent: median of pairs, smallest and largest in brackets. It can fall below one, as a forest's trees are added
up without scikit-learn's bookkeeping, to the same bits. ``DirectOpt`` follows the same paths as the scipy loop, all
starts in one call per step, so that objectives agree.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.ensemble import ExtraTreesRegressor

import gbce
from benchmarks._documents import add_docs_option, print_into
from gbce._numerics import DECIDING, stream
from gbce.predictors import Predictor

Array = NDArray[np.float64]

ROW = np.array([0.2, 0.1])
SEED = 0
SPACE = gbce.Space.real(2)
EVALUATION = gbce.Evaluation(noise=0.2, n_perturb=200, neighbours=20, alpha=0.1)
CVAR = gbce.CVaR(noise=0.2, n_perturb=64, max_candidates=800, race=False, refine=False)  # as the plain script has it
RULES = (gbce.MAP(method="kde"), gbce.Mean(), CVAR)
DIRECT = gbce.DirectOpt(n_starts=20, max_iterations=3_000)


@dataclass
class Recorder:
    """A model that remembers what it was asked."""

    model: Callable[[Array], Array]
    batches: list[Array] = field(default_factory=list)

    def __call__(self, x: Array) -> Array:
        """Answer."""
        self.batches.append(x.copy())
        return self.model(x)

    def asked(self) -> str:
        """Return the number of calls and rows in words."""
        return f"{len(self.batches):,} calls with {sum(map(len, self.batches)):,} rows"


def paper_data() -> tuple[Array, Array]:
    rng = np.random.default_rng(42)
    x = rng.normal(size=(3_000, 2))
    noise = rng.normal(scale=0.3, size=len(x))
    return x, 2 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1] + noise


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextmanager
def recording() -> Iterator[list[Array]]:
    """Keep what any model is asked; the model itself stays what it is, so that its trees can be read."""
    batches: list[Array] = []
    usual = Predictor.__call__

    def call(self: Predictor, x: Array, *given: Any, **named: Any) -> Any:
        batches.append(x.copy())
        return usual(self, x, *given, **named)

    Predictor.__call__ = call  # type: ignore[method-assign]
    try:
        yield batches
    finally:
        Predictor.__call__ = usual  # type: ignore[method-assign]


def explaining(model: Any, data: Array, target: gbce.Value, repeats: int, options: dict[str, Any]) -> str:
    """Time ``explain`` with all its tables against ``model.predict`` on the same batches."""

    def explain(explainer: gbce.Explainer) -> tuple[Any, ...]:
        e = explainer.explain(ROW, target, rules=RULES, seed=SEED)
        return e.pointwise, e.distribution, e.importance, e.diagnostics, e.counterfactuals

    def bare() -> None:
        for batch in batches:
            model.predict(batch)

    sampler = gbce.Importance(n_candidates=20_000, n_draws=2_000)
    explainer = gbce.Explainer(model, data, space=SPACE, sampler=sampler, evaluation=EVALUATION, **options)
    explain(explainer)  # warm up: slow imports, thread pools, the model's trees
    with recording() as batches:
        explain(explainer)
    bare()
    pairs = [(timed(lambda: explain(explainer)), timed(bare)) for _ in range(repeats)]
    ratios = sorted(a / b for a, b in pairs)
    return (
        f"  explain and tables {median(a for a, _ in pairs):7.3f} s   bare predict {median(b for _, b in pairs):7.3f} s"
        f"   ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})   "
        f"{len(batches):,} calls with {sum(map(len, batches)):,} rows"
    )


def optimising(model: Any, data: Array, target: gbce.Value) -> str:
    """Time DirectOpt against ``scipy.optimize.minimize`` from the same starts, one row per model call."""

    def objective(x: Array) -> float:
        return float((one_by_one(x[None, :])[0] - target.y) ** 2 + 0.5 * np.sum((x - ROW) ** 2))

    recorder, one_by_one = Recorder(model.predict), Recorder(model.predict)
    asking = gbce.Explainer(model, data, space=SPACE, policy=None)
    explanation = asking.explain(ROW, target, rules=(), seed=SEED)
    gbce.Explainer(recorder, data, space=SPACE, policy=None).decide(explanation, DIRECT)
    chosen = asking.decide(explanation, DIRECT).to_numpy()[0]
    # DirectOpt starts at the row and at draws of the prior, here N(row, I)
    z = stream(SEED, DECIDING).standard_normal((DIRECT.n_starts - 1, 2))
    ends, ours, theirs = [], [], 0.0
    for start in np.vstack([ROW, ROW + z]):
        ours.append(timed(lambda: asking.decide(explanation, DIRECT)))
        began = time.perf_counter()
        options = {"maxiter": DIRECT.max_iterations}
        ends.append(minimize(objective, start, method="Nelder-Mead", options=options).fun)
        theirs += time.perf_counter() - began
    scipy_asked = one_by_one.asked()
    return (
        f"  DirectOpt {median(ours):7.3f} s   objective {objective(chosen):.10f}   {recorder.asked()}\n"
        f"  scipy     {theirs:7.3f} s   objective {min(ends):.10f}   {scipy_asked}\n"
        f"  scipy takes {theirs / median(ours):.0f} times as long"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=15, help="of explain and of the bare predictions, in turns")
    add_docs_option(parser)
    options = parser.parse_args()
    data, y = paper_data()
    target = gbce.Value(float(np.quantile(y, 0.9)), scale=1, tolerance=0.5)
    models = {n_jobs: ExtraTreesRegressor(100, random_state=42, n_jobs=n_jobs).fit(data, y) for n_jobs in (None, -1)}
    with print_into("overhead", options.docs, __doc__):
        print("explain against the bare model on the same rows (goal: ratio at most 1.25)")
        for n_jobs, model in models.items():
            for settings in ({"policy": None}, {}):
                policy = "with the default policy" if not settings else "without an answer"
                print(f" n_jobs={n_jobs}, {policy}\n{explaining(model, data, target, options.repeats, settings)}")
        print("DirectOpt against a scipy loop from the same 20 starts (goal: 10 times faster, objective no worse)")
        for n_jobs, model in models.items():
            print(f" n_jobs={n_jobs}\n{optimising(model, data, target)}")


if __name__ == "__main__":
    main()
