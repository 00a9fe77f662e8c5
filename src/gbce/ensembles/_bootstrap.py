"""The Bayesian bootstrap: refits with random weights of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.ensembles._fits import in_parallel, learner_rng, refit, resample_counts, takes_weights
from gbce.ensembles._posterior import ModelPosterior
from gbce.ensembles._question import Question

__all__ = ["BayesianBootstrap", "row_weights"]


@dataclass(frozen=True)
class BayesianBootstrap:
    """Refit the learner with weights of rows ``n * Dirichlet(1, ..., 1)``, once per model.

    This is the posterior of whatever the learner estimates, under a nonparametric law of the data (Rubin 1981) and
    with the learner's own loss in place of a likelihood (the loss-likelihood bootstrap of Lyddon, Holmes and Walker
    2019); it needs no eta. A learner whose ``fit`` takes no ``sample_weight`` is refitted on resampled rows (counts
    are multinomial). Each refit has its own ``random_state``, so that a forest's own randomness is in the spread too.

    Parameters
    ----------
    reseed : bool
        Whether every refit gets a ``random_state`` of its own; otherwise all get the same one.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> forest = RandomForestRegressor(5)
    >>> posterior = gbce.model_posterior(forest, X, X[:, 0], gbce.BayesianBootstrap(), n_models=4, seed=1)
    >>> np.std([model.predict(X[:1])[0] for model in posterior]) > 0
    np.True_
    """

    reseed: bool = True

    def draw(self, question: Question) -> ModelPosterior:
        """Return one refit per model, all of weight ``1 / n_models``."""
        seeds = question.children(question.n_models)
        tasks = [(question.learner, question.X, question.y, question.classifies, seed, self._learner_seed(seeds, k))
                 for k, seed in enumerate(seeds)]  # fmt: skip
        models = in_parallel(_refit_reweighted, tasks, question.n_jobs, question.progress)
        return ModelPosterior.of(models, self, {"weighted": float(takes_weights(question.learner))})

    def _learner_seed(self, seeds: list[np.random.SeedSequence], k: int) -> np.random.SeedSequence:
        return seeds[k if self.reseed else 0]


def row_weights(learner: Any, y: Array, classifies: bool, seed: np.random.SeedSequence) -> Array:
    """Return weights ``(n,)`` that sum to n: Dirichlet where ``fit`` takes weights, counts of a resample elsewhere."""
    rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0)))
    return len(y) * rng.dirichlet(np.ones(len(y))) if takes_weights(learner) else resample_counts(y, classifies, rng)


def _refit_reweighted(
    learner: Any, X: Any, y: Array, classifies: bool, seed: np.random.SeedSequence, own: np.random.SeedSequence
) -> Any:
    return refit(learner, X, y, row_weights(learner, y, classifies, seed), learner_rng(own))
