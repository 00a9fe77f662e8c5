"""Pawelczyk, Datta, van den Heuvel, Kasneci and Lakkaraju 2023, "Probabilistically robust recourse" (PROBE).

The authors' code was read, the paper not. Adam goes down ``3 max(0, IR(x) - r) - log p(x) + lambda |x - x0|_1`` until
p is above a half and the invalidation rate IR, the share of answers that noise N(0, sigma^2 I) takes back, is at most
r + 0.005 by Monte Carlo. IR is ``1 - Phi(logit / (sigma |slope of the logit|))``, which is exact for linear logits.
Numbers are in ranges of the data, levels are indicators.

What differs: steps are ten times as long and a tenth as many as the authors' (0.001, rounds of 200), and whether to
stop is looked at after each, not after a round; lambda ends at zero, where theirs goes below. The slope of the
logit's own slope is left out, which is none for linear logits. Noise moves what may change only, and levels never,
which a tenth of an indicator does not turn. Levels go up that gain more than their mean, and of categories that would
turn at once only the one that gains most does, since half a level cannot be asked about. Models with steps have no
slopes: of these IR is by Monte Carlo, and the slopes are those of a regression of logits on the noise, a
reconstruction that answers are marked with.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._surrogate import has_slopes
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "PROBE", "invalidation_rate"]

_HINGE = 3.0  # the authors' weight of the invalidation rate
_SLACK = 0.005  # the authors' tolerance of it
_FADE = 0.1  # by which lambda falls from round to round
_FAR = 4.0  # where logits of models with steps are cut, some of which say 0 and 1
_BETA = 0.9, 0.999, 1e-8  # Adam's own


class _View(NamedTuple):
    """A point as the descent sees it: logit, slopes ``(p,)``, and the invalidation rate."""

    logit: float
    slopes: Any
    rate: float


def invalidation_rate(logit: Any, slope: Any, sigma: float) -> Any:
    """Return the share of noise N(0, sigma^2 I) that takes an answer back, were the logit linear.

    Parameters
    ----------
    logit : float or ndarray
        At the point.
    slope : float or ndarray
        Euclidean norm of the logit's slopes there.
    sigma : float
        Standard deviation of the noise.
    """
    return norm.sf(logit / np.maximum(sigma * slope, np.finfo(float).tiny))


@dataclass
class PROBE:
    """Adam, until noise takes the answer back rarely enough.

    Parameters
    ----------
    rate : float
        r; 0.45 in the authors' code, 0.15 to 0.3 in their experiments.
    sigma : float
        Of the noise, in ranges of the data; the authors' variance is 0.01.
    price : float
        Lambda.
    step : float
        Of Adam.
    iterations, rounds : int
        In a round, and how many; lambda falls after each.
    drawn : int
        Noises for a Monte Carlo rate; the authors' 10,000 for the check.
    """

    rate: float = 0.45
    sigma: float = 0.1
    price: float = 0.01
    step: float = 0.01
    iterations: int = 20
    rounds: int = 5
    drawn: int = 500

    def __post_init__(self) -> None:
        """Check the options."""
        if not 0 < self.rate < 1 or self.sigma <= 0:
            raise ValueError(f"rate lies between 0 and 1 and sigma above 0: got {self.rate} and {self.sigma}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Remember the model and the data."""
        self._model, self._codes = model, Codes(data.X, space)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Go down until the rate is reached."""
        question = Question(self._model, self._codes, row, target)
        if not question.free.any():
            return Found(note="nothing may change")
        rng = np.random.default_rng(seed)
        smooth = has_slopes(question)
        numbers = np.isnan(self._codes.level)
        unit = np.where(numbers, 1.0, 0.5)  # of an indicator, in z
        z, first, second, most = question.start.copy(), *np.zeros((3, len(unit)))
        for i in range(1, self.iterations * self.rounds + 1):
            view = self._from_slopes(question, z) if smooth else self._from_noise(question, z, rng)
            if view.logit > 0 and view.rate <= self.rate + _SLACK and self._holds(question, z, smooth, rng):
                break
            price = max(self.price - _FADE * ((i - 1) // self.iterations), 0.0)
            slope = self._slope(question, view) + price * np.sign(z - question.start)
            first, second = (
                b * old + (1 - b) * new
                for b, old, new in zip(_BETA[:2], (first, second), (slope, slope**2), strict=True)
            )
            most = np.maximum(most, second)
            move = first / (1 - _BETA[0] ** i) / (np.sqrt(most / (1 - _BETA[1] ** i)) + _BETA[2])
            there = np.clip(np.where(question.free, z - self.step * unit * move, z), question.low, question.high)
            z = self._one_turn(z, there, view.slopes)
        else:
            if not question.granted(z[None, :])[0]:
                return Found(note="not reached")
            return Found.one(question.frame(z), f"more than {self.rate:g} of noise takes it back")
        return Found.one(question.frame(z), "" if smooth else "slopes by a regression: reconstruction")

    def _one_turn(self, z: Any, there: Any, slopes: Any) -> Any:
        """Return the next point, in which of all categories that turn to another level only the best one does."""
        codes, turns = self._codes, []
        for j in np.unique(codes.column[~np.isnan(codes.level)]):
            mine = np.flatnonzero(codes.column == j)
            k = np.argmax(there[mine])
            if k != np.argmax(z[mine]):
                turns.append((slopes[mine[k]], mine))
        for _, mine in sorted(turns, key=lambda turn: -turn[0])[1:]:
            there[mine] = z[mine]
        return there

    def _slope(self, question: Question, view: _View) -> Any:
        """Return the slopes of invalidation and loss ``(p,)``, levels centred within their category."""
        codes, slopes = self._codes, view.slopes.copy()
        numbers = np.isnan(codes.level)
        for j in np.unique(codes.column[~numbers]):
            slopes[codes.column == j] -= slopes[codes.column == j].mean()
        down = -expit(-view.logit) * slopes
        steepness = self.sigma * np.linalg.norm(view.slopes[numbers])
        if view.rate > self.rate and steepness > 0:
            at = norm.isf(np.clip(view.rate, 1e-6, 1 - 1e-6))
            down -= _HINGE * norm.pdf(at) * slopes / steepness
        return np.where(question.free, down, 0.0)

    def _from_slopes(self, question: Question, z: Any) -> _View:
        slopes, logit = question.slopes(z), float(question.logits(z)[0])
        steepness = float(np.linalg.norm(slopes[np.isnan(self._codes.level)]))
        return _View(logit, slopes, float(invalidation_rate(logit, steepness, self.sigma)))

    def _from_noise(self, question: Question, z: Any, rng: np.random.Generator) -> _View:
        noise = self._noise(question, rng)
        said = np.clip(question.logits(np.vstack([z, z + noise])), -_FAR, _FAR)
        moved = noise.any(axis=0)
        slopes = np.zeros(len(z))
        if moved.any():
            slopes[moved] = np.linalg.lstsq(noise[:, moved], said[1:] - said[1:].mean(), rcond=None)[0]
        if (question.free & ~np.isnan(self._codes.level)).any():
            slopes = np.where(np.isnan(self._codes.level), slopes, np.clip(question.slopes(z), -_FAR, _FAR))
        return _View(float(said[0]), slopes, float((said[1:] < 0).mean()))

    def _noise(self, question: Question, rng: np.random.Generator) -> Any:
        noise = self.sigma * rng.standard_normal((self.drawn, len(question.start)))
        return np.where(question.free & np.isnan(self._codes.level), noise, 0.0)

    def _holds(self, question: Question, z: Any, smooth: bool, rng: np.random.Generator) -> bool:
        """Whether the model grants the point itself, and enough of the noise around it; with steps that is known."""
        points = z + self._noise(question, rng) if smooth else z[None, :]
        granted = question.granted(np.vstack([z, points]))
        return bool(granted[0] and (~granted[1:]).mean() <= self.rate + _SLACK)


def _strict() -> PROBE:
    return PROBE(rate=0.15)


METHODS = (
    Method("PROBE", "Pawelczyk et al. 2023", PROBE),
    Method("PROBE (r = 0.15)", "Pawelczyk et al. 2023", _strict),
)
