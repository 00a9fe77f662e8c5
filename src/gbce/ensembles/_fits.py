"""Refits: a clone with its own seed, on weighted or resampled rows; many of them in parallel, in order."""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import joblib
import numpy as np
from tqdm.auto import tqdm

from gbce.base import Array
from gbce.predictors import rows_of

__all__ = ["clone_with_seed", "in_parallel", "learner_rng", "refit", "resample_counts", "takes_weights", "weight_name"]

_MOST_RESAMPLES = 100  # tries at one that has every class; by hand: a class of one row is in two resamples of three
_LARGEST_SEED = 2**31 - 1  # of 32 bits with a sign, which every learner takes


def learner_rng(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return the generator of a learner's own randomness, apart from that of the weights."""
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1)))


def clone_with_seed(learner: Any, rng: np.random.Generator) -> Any:
    """Return an unfitted clone whose every ``random_state`` comes from ``rng``."""
    from sklearn.base import clone

    try:
        fresh = clone(learner)
    except TypeError:  # has no get_params
        fresh = copy.deepcopy(learner)
    if hasattr(fresh, "get_params") and hasattr(fresh, "set_params"):
        names = sorted(n for n in fresh.get_params(deep=True) if n.split("__")[-1] in ("random_state", "random_seed"))
        fresh.set_params(**{name: int(rng.integers(_LARGEST_SEED)) for name in names})
    return fresh


def weight_name(learner: Any) -> str | None:
    """Return the name under which ``fit`` takes weights of rows, through a pipeline too; none if it takes none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(learner, Pipeline):
        step, learner = learner.steps[-1]
        prefix += f"{step}__"
    return f"{prefix}sample_weight" if has_fit_parameter(learner, "sample_weight") else None


def takes_weights(learner: Any) -> bool:
    """Whether ``fit`` takes weights of rows."""
    return weight_name(learner) is not None


def refit(learner: Any, X: Any, y: Array, weights: Array | None, rng: np.random.Generator) -> Any:
    """Return a fitted clone; whole ``weights`` of a learner that takes none are counts of rows."""
    model = clone_with_seed(learner, rng)
    name = weight_name(model)
    try:
        if weights is None:
            return model.fit(X, y)
        if name is not None:
            return model.fit(X, y, **{name: weights})
        index = np.repeat(np.arange(len(y)), weights.astype(int))
        return model.fit(rows_of(X, index), y[index])
    except ValueError as error:
        raise ValueError(f"{type(learner).__name__} cannot be fitted to these data: {error}") from error


def resample_counts(y: Array, classifies: bool, rng: np.random.Generator) -> Array:
    """Return how often each row comes in a resample ``(n,)``; every class comes at least once."""
    n = len(y)
    classes, codes = np.unique(y, return_inverse=True) if classifies else (np.zeros(1), np.zeros(n, dtype=int))
    for _ in range(_MOST_RESAMPLES):
        picked = rng.multinomial(n, np.full(n, 1.0 / n))
        if np.all(np.bincount(codes, weights=picked, minlength=len(classes)) > 0):
            return picked.astype(float)
    raise ValueError(
        "a class is so rare that resamples miss it: drop it, or use a learner whose fit takes sample_weight"
    )


def in_parallel(
    task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n_jobs: int | None, progress: bool
) -> list[Any]:
    """Run ``task`` on every tuple of arguments and return the results in their order."""
    bar = tqdm(total=len(arguments), desc="fitting", unit="model", disable=not progress)
    results = []
    with bar:
        if joblib.effective_n_jobs(n_jobs or 1) == 1 or len(arguments) == 1:
            stream = (_run_alone(task, *one) for one in arguments)
        else:
            pool = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
            stream = pool(joblib.delayed(_run_alone)(task, *one) for one in arguments)
        for result in stream:
            results.append(result)
            bar.update()
    return results


def _run_alone(task: Callable[..., Any], *arguments: Any) -> Any:
    with _thread_controller().limit(limits=1, user_api="blas"):  # sums in the same order in every process
        return task(*arguments)


@cache
def _thread_controller() -> Any:
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()
