"""Hierarchical Bayesian counterfactuals: changes are random, with laws that people, groups and a population share.

N. Raman, D. Magazzeni and S. Shah (2023). Bayesian Hierarchical Models for Counterfactual Estimation. AISTATS. Read:
the abstract, and what others say of it; no code was published. RECONSTRUCTED are all laws, weights and settings:
changes are Laplace around a group's centre, centres of groups are normal around the population's (``_hierarchy``), the
logarithm of the model's score is the validity term and a rate times the l1 size the proximity term. What is left out:
the pull towards dense regions, whose form is not known.

Where this differs from the publication:

- Hamiltonian Monte Carlo needs slopes, which trees do not have: the hierarchy is sampled without them. The R-hat that
  its chains reach stands in the note of every answer, and whether that is too much: a benchmark has time
  for few steps.
- a new row is sampled given draws of its group's centre and of the widths, and does not feed back on them. The
  population are refused rows of the data, half of each of two groups, fewer than in a publication.
- numbers in standard deviations, categories as half-unit indicators and their argmax, in units of a quarter, the
  standard deviation of a balanced one. Where ``row + change`` leaves what is allowed it is cut back, and so asked.
- the publication draws; for tables of points the valid draw nearest to the row is the answer, after changes below 0.05
  of a standard deviation are taken as none.
- numbers wanted: the score is a logistic function of the distance into the interval. The population, which is sampled
  once, is then asked for the better half of outputs (the middle half, where both ends are given).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._hierarchy import Levels, sample_levels, worth
from benchmarks.rivals._hierarchy_law import Law, draw_changes, renew
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "Drawn", "Hierarchical", "InstanceLevel", "split_in_two"]

_LEVEL_UNIT = 0.25  # of an indicator of a half: the standard deviation of a balanced one
_MAX_R_HAT = 1.1  # above which chains are said not to have come together; a lenient convention
_NO_CHANGE = 0.05  # of a standard deviation: below it the answer does not change a number
_GROUPS = ("sex", "gender", "age", "race", "foreign_worker")  # protected columns, the first that a table has


def _units(codes: Codes) -> Any:
    """Return what one unit of change is in each number ``(p,)``."""
    spread = codes.points.std(axis=0)
    return np.where(np.isnan(codes.level), np.where(spread > 0, spread, 1.0), _LEVEL_UNIT)


def _log_scores(logits: Any) -> Any:
    """Return logarithms of scores, given as logits."""
    return -np.logaddexp(0.0, -logits)


def split_in_two(X: pd.DataFrame, space: gbce.Space) -> tuple[str, Any]:
    """Return the column that makes two groups, and the group of each row, 0 or 1.

    It is a protected column by its name, otherwise the first that may not change, otherwise the first; numbers are
    split at their median, levels into the most frequent and the others.
    """
    fixed = [feature.name for feature in space.features if not feature.mutable and feature.name in X]
    named = [column for name in _GROUPS for column in X.columns if str(column).lower() == name]
    column = [*named, *fixed, *X.columns][0]
    return column, _second_group(X[column], X[column])


def _second_group(values: pd.Series, among: pd.Series) -> Any:
    """Return whether values are in the second group, as it is split ``among`` the data, as 0 or 1."""
    if pd.api.types.is_numeric_dtype(among) and among.nunique() > 2:
        return (values > among.median()).to_numpy(dtype=int)
    return (values != among.mode().iloc[0]).fillna(True).to_numpy(dtype=int)


@dataclass(frozen=True)
class Drawn:
    """Draws of one row, of equal weight.

    Parameters
    ----------
    question : Question
        What was asked.
    z : ndarray of shape (n, p)
        The draws as numbers.
    ess : float
        How many independent draws they are worth.
    note : str
        How they were drawn.
    """

    question: Question
    z: Any
    ess: float
    note: str

    def found(self) -> Found:
        """Return the draw nearest to the row among those that are granted the wish, and all of them."""
        question, z = self.question, self.z
        small = np.abs(z - question.start) < _NO_CHANGE * _units(question.codes)
        tidy = np.where(small & np.isnan(question.codes.level), question.start, z)
        granted = np.flatnonzero(question.granted(tidy))
        draws, note = question.frame(z), f"{self.ess:.0f} effective draws, {self.note}"
        if len(granted) == 0:
            return Found(draws=draws, note=f"no draw is granted the wish; {note}")
        far = np.abs(question.settle(tidy[granted]) - question.start).sum(axis=1)
        answer = question.frame(tidy[granted[far.argmin()]][None, :])
        return Found({"": answer}, draws=draws, note=f"{len(granted) / len(z):.0%} of the draws are granted; {note}")


@dataclass
class InstanceLevel:
    """One row by itself: centres of zero and widths that are known, so that gbce's own samplers can draw.

    With a cross-entropy loss, ``eta`` as the weight of validity and an l1 prior this is the same law as the
    hierarchy's for one row. Levels of categories change as in :class:`gbce.Laplace`: a change counts as two units,
    which is the least that indicators need.

    Parameters
    ----------
    kappa, rate : float
        Weights of validity and proximity.
    width : float
        ``b``, the scale of its own law in the hierarchy.
    draws : int
        Drawn for each row.
    """

    kappa: float = 1.0
    rate: float = 1.0
    width: float = 0.5
    draws: int = 500

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Turn widths into those of gbce's prior."""
        self._model, self._codes = model, Codes(data.X, space)
        total = self.rate + 1 / self.width
        spread = np.nanstd(space.encode(data.X), axis=0)
        widths = [
            1 / (2 * total) if feature.unordered else max(sd / feature.scale, np.finfo(float).eps) / total
            for feature, sd in zip(space.features, spread, strict=True)
        ]
        sampler = gbce.SMC(n_draws=self.draws, precision="quick")
        prior = gbce.Laplace(widths, categories="uniform")
        self._explainer = gbce.Explainer(
            model, data.X, space=space, prior=prior, eta=self.kappa, sampler=sampler, policy=None
        )

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Draw, and take the nearest draw that is granted the wish."""
        return self.draw(row, target, seed).found()

    def draw(self, row: pd.DataFrame, target: Wish, seed: int) -> Drawn:
        """Draw from the posterior of one row."""
        explanation = self._explainer.explain(row, _as_loss(target), rules=[], seed=seed, progress=False)
        drawn = explanation.draws
        chosen = np.random.default_rng(seed).choice(len(drawn), self.draws, p=drawn.weights / drawn.weights.sum())
        z = self._codes.of(self._codes.space.encode(drawn.frame().iloc[chosen]))
        question = Question(self._model, self._codes, row, target)
        return Drawn(question, z, min(drawn.ess, self.draws), "by gbce's sampler")


def _as_loss(wish: Wish) -> Any:
    """Return the wish as a target of gbce with the loss ``-log(score)``."""
    if wish.classifies:
        return gbce.Class(wish.label)
    return gbce.Loss(lambda said: -_log_scores(wish.logits_of(said)), threshold=float(np.log(2.0)))


@dataclass
class Hierarchical:
    """Rows, two groups and a population.

    Parameters
    ----------
    law : Law
        Weights of validity and proximity, and the family of changes.
    population : int
        Refused rows of the data that are sampled together.
    chains, warmup, steps, candidates : int
        Of the hierarchy's sampler.
    walkers, renewals, kept : int
        A new row has so many chains, each with a draw of the levels above it; each is renewed so often, and its last
        states are kept.
    """

    law: Law = field(default_factory=Law)
    population: int = 16
    chains: int = 4
    warmup: int = 150
    steps: int = 250
    candidates: int = 4
    walkers: int = 64
    renewals: int = 24
    kept: int = 6

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Split the data in two groups and ask the model about them; nothing is sampled before it is known what for."""
        self._model, self._codes, self._X = model, Codes(data.X, space), data.X
        self._unit = _units(self._codes)
        self._said = model.predict(data.X)
        self._column, self._group = split_in_two(data.X, space)
        self._sampled: dict[Wish, Levels | None] = {}

    def levels(self, target: Wish) -> Levels | None:
        """Return the sampled hierarchy for a wish; nothing where no row of the data is refused."""
        wish = self._shared(target)
        if wish not in self._sampled:
            self._sampled[wish] = self._sample(wish)
        return self._sampled[wish]

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Sample the row's change given draws of the levels above it, and take the nearest that is granted the wish."""
        drawn = self.draw(row, target, seed)
        if drawn is None:
            return Found(note="no row of the data is refused, so that there is no population to learn from")
        return drawn.found()

    def draw(self, row: pd.DataFrame, target: Wish, seed: int) -> Drawn | None:
        """Draw from the posterior of one row; nothing where there is no population."""
        levels = self.levels(target)
        if levels is None:
            return None
        question = Question(self._model, self._codes, row, target)
        rng = np.random.default_rng(seed)
        group = int(_second_group(row[self._column], self._X[self._column])[0])
        centres, widths = (part.reshape(-1, part.shape[-1]) for part in (levels.groups[:, :, group], levels.width))
        chosen = rng.choice(len(centres), self.walkers, replace=len(centres) < self.walkers)
        centre, width, free = centres[chosen, None], widths[chosen, None], question.free[None, :]

        def log_score(change: Any) -> Any:
            z = question.start + change.reshape(-1, change.shape[-1]) * self._unit
            return _log_scores(question.logits(z)).reshape(change.shape[:-1])

        change = draw_changes(self.law, centre, width, rng) * free
        said = log_score(change[:, :, None])[..., 0]
        states, moved = [], []
        tried = 2 * self.candidates
        for _ in range(self.renewals):
            change, said, share = renew(self.law, change, said, centre, width, free, log_score, tried, rng)
            states.append(change[:, 0])
            moved.append(share)
        kept = np.stack(states[-self.kept :])  # (kept, walkers, p)
        note = f"{np.mean(moved):.0%} of moves taken, {levels.moved['rows']:.0%} in the population"
        apart = ": the chains have not come together" if levels.r_hat > _MAX_R_HAT else ""
        note += f", R-hat {levels.r_hat:.2f} above the rows{apart}"
        z = question.start + kept.reshape(-1, kept.shape[-1]) * self._unit
        return Drawn(question, z, worth(np.abs(kept).sum(axis=2)), note)

    def _shared(self, wish: Wish) -> Wish:
        """Return what the population is asked for: the class, or for numbers the better half of outputs."""
        if wish.classifies:
            return wish
        low, middle, high = np.quantile(self._said.astype(float), [0.25, 0.5, 0.75])
        if np.isfinite(wish.low) and np.isfinite(wish.high):
            return Wish(low=low, high=high, unit=wish.unit)
        return Wish(low=middle, unit=wish.unit) if np.isfinite(wish.low) else Wish(high=middle, unit=wish.unit)

    def _sample(self, wish: Wish) -> Levels | None:
        """Sample the hierarchy over refused rows, half of them of each group where there are as many."""
        rng = np.random.default_rng(0)
        order = rng.permutation(np.flatnonzero(~wish.reached(self._said)))
        if len(order) == 0:
            return None
        halves = [order[self._group[order] == g] for g in (0, 1)]
        few = min(self.population // 2, *(len(half) for half in halves))
        sizes = [few if len(half) == few else self.population - few for half in halves]
        rows = np.concatenate([half[:size] for half, size in zip(halves, sizes, strict=True)])
        x0 = self._codes.space.encode(self._X.iloc[rows])
        low, high = self._codes.space.limits(x0)
        free = ((high > low) & ~np.isnan(x0))[:, self._codes.column]
        start = self._codes.points[rows]

        def log_score(change: Any) -> Any:
            z = np.moveaxis(start[None, :, None] + change * self._unit, 1, 0)  # rows in front: stretches of one row
            x = self._codes.back(z.reshape(-1, z.shape[-1]), x0)
            logits = wish.logits(self._model, self._codes.space.frame(x))
            return np.moveaxis(_log_scores(logits).reshape(z.shape[:-1]), 0, 1)

        return sample_levels(
            self.law,
            log_score,
            self._group[rows],
            free,
            steps=self.steps,
            warmup=self.warmup,
            chains=self.chains,
            candidates=self.candidates,
            n_groups=2,
            rng=rng,
        )


_SOURCE = "Raman et al. 2023"

METHODS: tuple[Method, ...] = (
    Method("Raman, one row", _SOURCE, InstanceLevel, "reconstruction"),
    Method("Raman, hierarchy", _SOURCE, Hierarchical, "reconstruction"),
)
