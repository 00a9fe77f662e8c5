"""Kinjo: the losses of several models at once, under a bound on the distance.

K. Kinjo, "Robust Counterfactual Explanations under Model Multiplicity Using Multi-Objective Optimization", 2025 (arXiv
2501.05795). Read: the abstract, and summaries by others; no code was found, so this is a reconstruction. From the
publication: minimise the vector of the models' losses over points no farther from the row than a bound, by NSGA-II;
the answer is the Pareto set.

Filled in here: the models are the one that is explained and refits of its learner on bootstraps; the loss is the
squared distance to what is wanted in standard deviations of the outcome, or minus the log probability of the class;
the distance is l1 in ranges, and its bound the median distance to training rows that the model grants the wish;
categories are half-unit indicators of which the largest counts; the first generation is the row, training rows within
the bound, and points at random; crossover and mutation are pymoo's own. The publication leaves the choice from the set
to the user: the point with the least largest loss, the least mean loss, and the one nearest to the ideal point in
scaled losses are given, ties broken by distance.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._installed import require
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "Kinjo"]

_TINY = 1e-9  # of a probability: where its log ends
_SLACK = 1e-9  # of a range: by how much rounding may pass the bound
_NEAR = 0.5  # at most this share of the first generation are training rows


@dataclass
class Kinjo:
    """The losses of several models by NSGA-II; what was not published is chosen here.

    Parameters
    ----------
    refits : int
        Models beside the one that is explained.
    size, generations : int
        Of the search.
    bound : float, optional
        On the l1 distance in ranges; by default the median distance to training rows that are granted the wish.
    """

    refits: int = 4
    size: int = 100
    generations: int = 200
    bound: float | None = None

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Read the table, and refit the learner."""
        require("pymoo", "pymoo")
        if any(feature.kind == "datetime" for feature in space.features):
            raise CannotRunError("takes no columns of dates here")
        if self.refits and data.learn is None:
            raise CannotRunError("needs several models, and nobody said how this one was fitted")
        self._codes = Codes(data.X, space)
        self._models = [model, *data.refits(self.refits)] if self.refits else [model]
        self._said = model.predict(data.X)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Search; return three points of the Pareto set."""
        question = Question(self._models[0], self._codes, row, target)
        if not question.free.any():
            return Found(note="no column may change")
        far = np.abs(self._codes.points - question.start)[:, question.free].sum(axis=1)
        bound = self.bound
        if bound is None:
            granted = target.reached(self._said)
            if not granted.any():
                return Found(note="no training row is granted the wish, so there is no bound on the distance")
            bound = float(np.median(far[granted]))
        near = np.flatnonzero(far <= bound)
        z, losses = self._search(question, self._codes.points[near], bound, seed)
        if not len(z):
            return Found(note="no point lies within the bound on the distance")
        cost = np.abs(z - question.start).sum(axis=1)
        spread = np.ptp(losses, axis=0)
        scaled = (losses - losses.min(axis=0)) / np.where(spread > 0, spread, 1.0)
        rules = {
            "": losses.max(axis=1),
            "least mean loss": losses.mean(axis=1),
            "nearest to the ideal": np.linalg.norm(scaled, axis=1),
        }
        chosen = {name: np.lexsort((cost, value))[:1] for name, value in rules.items()}
        return Found({name: question.frame(z[one]) for name, one in chosen.items()})

    def _search(self, question: Question, near: Any, bound: float, seed: int) -> tuple[Any, Any]:
        """Return the Pareto set ``(n, p)`` and its losses."""
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.problem import Problem
        from pymoo.operators.crossover.sbx import SBX
        from pymoo.operators.mutation.pm import PM
        from pymoo.optimize import minimize

        free, losses_of = np.flatnonzero(question.free), self._losses

        def placed(u: Any) -> Any:
            z = np.tile(question.start, (len(u), 1))
            z[:, free] = u
            return question.settle(z)

        class Losses(Problem):
            def _evaluate(self, x: Any, out: dict[str, Any], *args: Any, **kwargs: Any) -> None:
                z = placed(x)
                out["F"] = losses_of(question, z)
                out["G"] = np.abs(z - question.start).sum(axis=1) - bound - _SLACK

        low, high = (side[free] for side in question.limits)
        problem = Losses(n_var=len(free), n_obj=len(self._models), n_ieq_constr=1, xl=low, xu=high)
        rng = np.random.default_rng(seed)
        picked = rng.permutation(len(near))[: int(_NEAR * self.size)]
        around = np.clip(near[picked][:, free], low, high)
        rest = rng.uniform(low, high, (max(self.size - 1 - len(around), 0), len(free)))
        first = np.vstack([question.start[free], around, rest])
        search = NSGA2(
            pop_size=self.size,
            sampling=first,
            crossover=SBX(eta=15, prob=0.9),
            mutation=PM(eta=20),
        )
        found = minimize(problem, search, ("n_gen", self.generations), seed=seed, verbose=False)
        if found.X is None:
            return np.zeros((0, len(question.start))), np.zeros((0, len(self._models)))
        return placed(np.atleast_2d(found.X)), np.atleast_2d(found.F)

    def _losses(self, question: Question, z: Any) -> Any:
        """Return the losses of all models ``(n, m)``."""
        if question.wish.classifies:
            scores = [question.scores(z, model) for model in self._models]
            return -np.log(np.clip(np.column_stack(scores), _TINY, None))
        return np.column_stack([question.gaps(z, model) for model in self._models]) ** 2


METHODS = (
    # fewer models and generations than one would take for oneself, since each generation asks every model
    Method("Kinjo", "Kinjo 2025", lambda: Kinjo(refits=2, generations=20), "reconstruction"),
)
