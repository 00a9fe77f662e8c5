"""Evolution on the objective of Wachter et al. 2017: CMA-ES by the package cma, differential evolution by scipy.

The objective, its margin and the prices of a miss are those of :mod:`benchmarks.rivals.wachter`; at each, evolution
begins anew from what was best at the one before. Nothing was published under these names: they are common optimisers
for models without gradients. Both ask the model once for each generation. Populations and generations differ from the
packages' defaults (scipy: 15 for each number, 1,000 generations; cma: 4 + 3 log of how many numbers, until it has
converged), for time.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import differential_evolution

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._objective import Objective
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.wachter import PRICES

__all__ = ["CMA", "METHODS", "DifferentialEvolution"]

_STEP = 0.3  # of a range: where CMA-ES begins
_NEXT_STEP = 0.1  # once it has left the row

Values = Callable[[Any], Any]  # points in the unit cube (n, m) to the objective (n,)
Improve = Callable[[Values], Any]  # the objective to the best point (m,) after some generations


@dataclass
class _Evolution(ABC):
    """Raise the price of a miss until the best of a population is granted.

    Parameters
    ----------
    margin, prices
        See :class:`benchmarks.rivals.wachter.Wachter`; the first price, at which rows stay where they are, is left out.
    population : int
        Points of a generation.
    generations : int
        For each price.
    """

    margin: float = 0.05
    prices: tuple[float, ...] = PRICES[1:5]
    population: int = 60
    generations: int = 20

    def __post_init__(self) -> None:
        """Check the options."""
        if self.population < 5 or self.generations < 1:  # of differential evolution: the least that scipy takes
            raise ValueError(
                f"a population of 5 or more and a generation are needed: got {self.population} and {self.generations}"
            )

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Remember the model and the data."""
        self._model, self._codes = model, Codes(data.X, space)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Evolve at one price after the other."""
        question = Question(self._model, self._codes, row, target)
        if not question.free.any():
            return Found(note="nothing may change")
        objective = Objective(question, self.margin)
        low, high = (bound[question.free] for bound in question.limits)

        def whole(u: Any) -> Any:
            z = np.tile(question.start, (len(u), 1))
            z[:, question.free] = low + u * (high - low)
            return z

        def value(price: float, u: Any) -> Any:
            return objective.values(whole(u), price)

        own = (question.start[question.free] - low) / (high - low)
        improve = self._begin(np.clip(own, 0.0, 1.0), np.random.default_rng(seed))
        for price in self.prices:
            z = whole(improve(partial(value, price))[None, :])
            if question.granted(z)[0]:
                return Found.one(question.frame(z), f"lambda {price:g}")
        return Found(note=f"not reached with lambda up to {self.prices[-1]:g}")

    @abstractmethod
    def _begin(self, own: Any, rng: np.random.Generator) -> Improve:
        """Return what improves a population in the unit cube around a point ``(m,)``."""


class DifferentialEvolution(_Evolution):
    """Differential evolution (Storn and Price 1997) by scipy with its default strategy."""

    def _begin(self, own: Any, rng: np.random.Generator) -> Improve:
        population = own[None, :]

        def improve(values: Values) -> Any:
            nonlocal population
            kept = population[: self.population // 2]  # the better half has closed in on what the last price was for
            population = np.vstack([kept, rng.uniform(size=(self.population - len(kept), len(own)))])
            end = differential_evolution(
                lambda u: values(u.T),
                [(0.0, 1.0)] * len(own),
                init=population,
                maxiter=self.generations,
                vectorized=True,
                updating="deferred",
                polish=False,
                seed=rng,
            )
            population = end.population[np.argsort(end.population_energies, kind="stable")]
            return population[0]

        return improve


class CMA(_Evolution):
    """CMA-ES (Hansen and Ostermeier 2001) by the package cma, with a first step of 0.3 ranges as it advises."""

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Look for the package."""
        try:
            import cma  # noqa: F401
        except ImportError:
            raise CannotRunError("is not installed: pip install cma") from None
        super().fit(model, data, space)

    def _begin(self, own: Any, rng: np.random.Generator) -> Improve:
        import cma

        options = {
            "bounds": [0.0, 1.0],
            "popsize": self.population,
            "seed": np.nan,  # leaves numpy's global state alone
            "randn": lambda *shape: rng.standard_normal(shape),
            "verbose": -9,
            "verb_log": 0,
            "verb_disp": 0,
        }
        own, heard = (own, len(own)) if len(own) > 1 else (np.append(own, 0.5), 1)  # cma takes two numbers at least
        best = own

        def improve(values: Values) -> Any:
            nonlocal best
            least = float(values(best[None, :heard])[0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                strategy = cma.CMAEvolutionStrategy(best, _STEP if best is own else _NEXT_STEP, options)
                for _ in range(self.generations):
                    points = np.array(strategy.ask())
                    said = values(points[:, :heard])
                    strategy.tell(list(points), said.tolist())
                    if said.min() < least:
                        best, least = points[np.argmin(said)], float(said.min())
                    if strategy.stop():
                        break
            return best[:heard]

        return improve


METHODS = (
    Method("CMA-ES", "Hansen and Ostermeier 2001; package cma", CMA),
    Method("differential evolution", "Storn and Price 1997; scipy", DifferentialEvolution),
)
