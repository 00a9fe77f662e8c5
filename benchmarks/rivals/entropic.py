"""Entropic risk over an ensemble.

Noorani, Dissanayake, Hamman, Dutta, 2025: Counterfactual Explanations for Model Ensembles Using Entropic Risk Measures.

The nearest point whose entropic risk over an ensemble is at most tau: R(x) = log(mean_k exp(theta (1 - m_k(x))))/theta
with m_k the k-th model's probability of what is wanted. Small theta is the mean over models, large theta the worst.

Read: the abstract, and code that a co-author published later (RobustX, ``EntropicRiskCE``), which starts from an answer
for the ensemble and takes steps of Adam down R alone until R < tau; R is looked at before the step, so that the point
returned is one step further. :class:`EntropicDescent` is that. What differs: the answer it starts from is the nearest
point found with an average score of one half (there: Wachter's); slopes are differences, as models are only asked;
points are kept within bounds; levels move as half-unit indicators, the largest of which counts.

A second, :class:`EntropicPenalty`, takes any model: distance plus a large weight times what R exceeds tau by, lowered
by the search of this directory. The problem is the published one, its solver is not: a reconstruction. Numbers wanted:
m_k is a logistic function of the distance into the interval.

What R promises of the ensemble itself (derived, not quoted): at most exp(theta (tau - s)) of its models have 1 - m_k >=
s.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logsumexp, softmax

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._ensemble import Ensemble
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._search import lacking
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "EntropicDescent", "EntropicPenalty", "entropic_risk"]

_DECAY = 0.9, 0.999  # Adam's own
_TINY = 1e-8  # Adam's own


def entropic_risk(scores: Any, theta: float) -> Any:
    """Return the entropic risk of scores ``(k, n)`` over models: ``(n,)``.

    Examples
    --------
    >>> entropic_risk([[0.9], [0.6], [0.2]], 10.0).round(5).tolist()
    [0.69204]
    """
    losses = 1 - np.asarray(scores, dtype=float)
    return logsumexp(theta * losses, axis=0, b=1 / len(losses)) / theta


@dataclass(kw_only=True)
class _Entropic(Ensemble):
    """What both ways share.

    Parameters
    ----------
    theta : float
        Aversion to risk; 1 in the co-author's code.
    tau : float
        The risk that is accepted; .5 in the co-author's code, .45 in its example.
    """

    theta: float = 1.0
    tau: float = 0.45

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Fit the other models and look at the data."""
        if self.theta <= 0:
            raise ValueError(f"theta is {self.theta}: an aversion to risk is above zero")
        super().fit(model, data, space)


@dataclass(kw_only=True)
class EntropicPenalty(_Entropic):
    """The nearest point found with a risk of at most tau, by asking only.

    Parameters
    ----------
    averse : float
        A second answer has this theta, "" being the one with theta itself.
    """

    averse: float = 10.0

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""
        thetas = {"": self.theta, f"theta {self.averse:g}": self.averse}
        excesses = [partial(self._excess, theta) for theta in thetas.values()]
        question, found = self.seek(row, target, seed, excesses)
        answers = {name: question.frame(point) for name, (point, _) in zip(thetas, found, strict=True)}
        above = [
            f"risk above tau by {lacks:.3g} for theta {theta:g}"
            for theta, (_, lacks) in zip(thetas.values(), found, strict=True)
            if lacks > 0
        ]
        return Found(answers, note="; ".join(above))

    def _excess(self, theta: float, m: Any) -> Any:
        """Return what the risk of scores ``(k, n)`` exceeds tau by ``(n,)``."""
        return np.maximum(entropic_risk(m, theta) - self.tau, 0.0)


@dataclass(kw_only=True)
class EntropicDescent(_Entropic):
    """From an answer for the ensemble down its risk, until it is below tau.

    Parameters
    ----------
    rate : float
        Of Adam, in ranges of columns; .01 in the co-author's code.
    max_iter : int
        Steps at most, but for the last one; 10 in the co-author's code, 50 in its example.
    """

    rate: float = 0.01
    max_iter: int = 50

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Fit the other models, look at the data, and whether the model has slopes at all."""
        super().fit(model, data, space)
        if not _has_slopes(model, data, self._codes):
            raise CannotRunError("needs a model with gradients: this one does not change with small steps")

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""
        question, [(z, _)] = self.seek(row, target, seed, [lambda m: lacking(m.mean(axis=0))])
        point, risk = self.descend(question, z)
        note = "" if risk < self.tau else f"risk {risk:.3g} not below tau"
        return Found.one(question.frame(point), note)

    def descend(self, question: Question, z: Any) -> tuple[Any, float]:
        """Return the point after the last step from ``z``, and the risk before that step."""
        mean, square, largest = np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)
        low, high = question.low, question.high
        risk = np.inf
        for step in range(1, self.max_iter + 2):
            frame, slopes = question.around(z)
            logits = np.array([question.wish.logits(model, frame) for model in self._models])
            m = expit(logits[:, -1])
            risk = float(entropic_risk(m[:, None], self.theta)[0])
            share = softmax(self.theta * (1 - m))
            slope = -(share * m * (1 - m)) @ np.array([slopes(said) for said in logits])
            mean = _DECAY[0] * mean + (1 - _DECAY[0]) * slope
            square = _DECAY[1] * square + (1 - _DECAY[1]) * slope**2
            largest = np.maximum(largest, square)
            scale = np.sqrt(largest / (1 - _DECAY[1] ** step)) + _TINY
            z = np.clip(z - self.rate * mean / (1 - _DECAY[0] ** step) / scale, low, high)
            if risk < self.tau:
                break
        return z, risk


def _has_slopes(model: CountedModel, data: Data, codes: Codes, rows: int = 8, step: float = 1e-7) -> bool:
    """Whether a model's output changes with small steps in its numbers at half of some rows or more."""
    plain = np.isnan(codes.level)
    if not plain.any():
        return False
    x = codes.space.encode(data.X.iloc[:rows])
    smooth = 0
    for row in x:
        z = codes.of(row[None, :])
        frame, _ = codes.unrounded(np.vstack([z, z + np.where(plain, step, 0.0)]), row)
        said = model.predict_proba(frame) if model.classifies else model.predict(frame)
        smooth += not np.array_equal(said[0], said[1])
    return 2 * smooth >= len(x)


METHODS = (
    Method("Entropic risk", "Noorani et al. 2025, co-author's code", EntropicDescent),
    Method("Entropic risk, any model", "Noorani et al. 2025", EntropicPenalty, kind="reconstruction"),
)
