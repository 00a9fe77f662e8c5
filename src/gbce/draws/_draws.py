"""Weighted draws out of a pool of evaluated points, and the errors of figures that rest on them."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from gbce._numerics import NORMAL_975, TINY, effective_sample_size, log_total, normalise, pareto_k, resample_evenly
from gbce._numerics import resample as multinomial
from gbce.base import Array
from gbce.draws._points import ExactFigures, Points, PoolRecord, SamplerInfo
from gbce.posterior import GibbsPosterior, Mixture
from gbce.priors import LocatedPrior
from gbce.space import Space

__all__ = ["Draws", "log_target"]

_COLUMNS = 16  # figures compared in one block, so that it stays in the processor's cache; results do not hang on it
_PICKING_ONLY = 1e-9  # share of an error's variance below which the pool's own part is nothing but rounding
_FIGURES = {"weight": "weights", "output": "outputs", "loss": "loss", "reached": "reached"}  # columns of a frame
_CONSTANT = 1e-12  # variance relative to the largest square: below it a figure does not vary but for rounding


def log_target(mixture: Mixture, points: Points) -> Array:
    """Log density ``(n,)`` of the posterior against the latent law, unnormalised."""
    return -mixture.potential(points.loss) - points.log_correction


class Covering(Protocol):
    """What a sampler knows of where the points of its pool were to be expected."""

    def unexplained(self, points: Points, mixture: Mixture) -> Array:
        """Whether known points ``(n,)`` show mass that the pool has missed."""
        ...

    def dwarfed(self, points: Points, mixture: Mixture) -> Array:
        """Whether what the pool found is next to nothing beside points ``(n,)``, however thin the places are."""
        ...

    def has_missed_mass_near(self, posterior: GibbsPosterior, rng: np.random.Generator, z: Array) -> bool:
        """Whether such mass may lie around a latent point ``(m,)``, by what the models say of points near it."""
        ...


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from the posterior.

    Parameters
    ----------
    pool : Points
        Every point the sampler evaluated and weighed.
    pool_weights : array of shape (N,)
        Posterior weight of each pool point; they sum to one.
    index : int array of shape (n,)
        Position of each draw in the pool.
    weights : array of shape (n,)
        Weight of each draw; they sum to one.
    resampled : bool
        Whether the draws were picked from the pool at random, which adds error of its own.
    reweighted : bool
        Whether the pool was weighed for another question than it was drawn for: figures are then read off its weights
        themselves, see :attr:`read`, and draws are picked from it for those who want points.
    prior_change : array of shape (d,)
        Mean size of each feature's change under the prior.
    log_evidence, log_evidence_se : float
        ``log E_prior[exp(-potential)]`` and its Monte Carlo error.
    rungs : tuple of float
        Temperatures the sampler went through, the last one being eta.
    log_base_weights : array of shape (N,)
        Log weight of each pool point before its potential and its correction come in: how often the sampler would have
        found it under the latent law, against how often it did. Zero for a pool from the prior's map.
    groups : int array of shape (N,), optional
        Which independent run each pool point belongs to. Errors are then those between runs; without groups the
        points are independent of each other.
    info : SamplerInfo
        What else the sampler reports.
    evidence_inflation : float
        Variance of the mean of the runs' evidences, against runs that know nothing of each other. Above one where they
        learn their moves from each other, because their evidences are then correlated.
    seen : Points, optional
        Further evaluated points that no rule may fall behind: the best that a search has met.
    coverage : Covering, optional
        Where the pool's points were to be expected, for the one who judges the draws; an explanation has none.
    space : Space, optional
        The user's columns, for :meth:`frame`; the draws of an explanation have it.
    record : PoolRecord, optional
        What was read off the whole pool, where only the drawn points of it and a few more are kept, see
        :meth:`drop_pool`.
    exact : ExactFigures, optional
        Figures that were computed and not drawn; other weights than the sampler's have none.

    Examples
    --------
    ``draws.x`` is ``(n, d)``, ``draws.weights`` is ``(n,)``, ``draws.loss`` is ``(n, K)``.
    """

    pool: Points
    pool_weights: Array
    index: Array
    weights: Array
    resampled: bool
    prior_change: Array
    log_evidence: float
    log_evidence_se: float
    rungs: tuple[float, ...]
    log_base_weights: Array
    groups: Array | None = None
    info: SamplerInfo = field(default_factory=SamplerInfo)
    evidence_inflation: float = 1.0
    seen: Points | None = None
    coverage: Covering | None = None
    space: Space | None = None
    record: PoolRecord | None = None
    exact: ExactFigures | None = None
    reweighted: bool = False

    @classmethod
    def weigh(
        cls,
        pool: Points,
        mixture: Mixture,
        prior: LocatedPrior,
        *,
        log_base_weights: Array | None = None,
        groups: Array | None = None,
        rungs: tuple[float, ...] = (),
        info: SamplerInfo | None = None,
        evidence_inflation: float = 1.0,
    ) -> "Draws":
        """Weigh a pool of points, drawn from the prior's map unless ``log_base_weights`` says otherwise.

        The draws are then the whole pool. The evidence is a ratio of two means over the map's law:
        ``E[exp(-potential - log_correction)] / E[exp(-log_correction)]``.
        """
        log_base_weights = np.zeros(len(pool)) if log_base_weights is None else log_base_weights
        log_prior = log_base_weights - pool.log_correction
        log_weights = log_base_weights - mixture.potential(pool.loss) - pool.log_correction
        weights, prior_weights = normalise(log_weights), normalise(log_prior)
        return cls(
            pool=pool,
            pool_weights=weights,
            index=np.arange(len(pool)),
            weights=weights,
            resampled=False,
            prior_change=prior_weights @ prior.change(pool.x),
            log_evidence=log_total(log_weights) - log_total(log_prior),
            log_evidence_se=_evidence_error(weights, prior_weights, groups, evidence_inflation),
            rungs=rungs or (float(mixture.eta),),
            log_base_weights=log_base_weights,
            groups=groups,
            info=SamplerInfo() if info is None else info,
            evidence_inflation=evidence_inflation,
        )

    def drop_pool(self, record: PoolRecord, beside: Array) -> "Draws":
        """Return the same draws without the rest of the pool, but for the points at positions ``beside``.

        Where the points lie in the latent space is let go as well, and what the record does not have cannot be asked
        any more.
        """
        kept = np.union1d(self.distinct[0], beside)
        index = np.searchsorted(kept, self.index)
        return replace(
            self,
            pool=_without_latent(self.pool.take(kept)),
            pool_weights=np.bincount(index, weights=self.weights, minlength=len(kept)),
            index=index,
            log_base_weights=np.zeros(len(kept)),
            groups=None if self.groups is None else self.groups[kept],
            seen=None if self.seen is None else _without_latent(self.seen),
            coverage=None,
            record=record,
        )

    def require_pool(self, what: str) -> None:
        """Refuse what needs every evaluated point where only the draws are kept."""
        if self.record is not None:
            raise ValueError(
                f"{what} needs every evaluated point, of which only the draws were kept: save the explanation with "
                "explanation.save(path, pool=True), or the rows of a store with explain_many(..., keep_pool=True)"
            )

    def reweigh(self, mixture: Mixture) -> "Draws":
        """Weigh the same pool anew: another eta, other weights of the models, another combination."""
        self.require_pool("another eta, weights or combination")
        log_weights = self.log_base_weights - mixture.potential(self.pool.loss) - self.pool.log_correction
        weights = normalise(log_weights)
        return replace(
            self,
            pool_weights=weights,
            index=np.arange(len(self.pool)),
            weights=weights,
            resampled=False,
            log_evidence=log_total(log_weights) - log_total(self.log_base_weights - self.pool.log_correction),
            log_evidence_se=_evidence_error(weights, self.prior_weights, self.groups, self.evidence_inflation),
            rungs=(*(rung for rung in self.rungs if rung < mixture.eta), float(mixture.eta)),
            exact=None,
        )

    def restrict(self, inside: Array, mixture: Mixture, prior_change: Array, coordinates: Array) -> "Draws":
        """Return the posterior given an event: the pool's points ``inside`` it, their weights normalised again.

        Errors are those of ratios, so that a run with no point inside still counts as a run. The evidence is that
        against the prior given the same event.

        Parameters
        ----------
        inside : bool array of shape (N,)
            Which points of the pool meet the event.
        mixture : Mixture
            That the pool is weighed by.
        prior_change : array of shape (N, d)
            Size of each feature's change in each point of the pool.
        coordinates : int array
            Latent coordinates to keep; the others do not vary any more.
        """
        where = np.flatnonzero(inside)
        pool, base = self.pool.take(where), self.log_base_weights[where]
        pool = replace(pool, z=pool.z[:, coordinates])
        groups = None if self.groups is None else _same_runs(self.groups, where)
        kept = replace(self, pool=pool, log_base_weights=base, groups=groups, coverage=None)
        prior_weights = normalise(base - pool.log_correction)
        seen = None if self.seen is None else replace(self.seen, z=self.seen.z[:, coordinates])
        return replace(kept.reweigh(mixture), prior_change=prior_weights @ prior_change[where], seen=seen)

    def resample(self, rng: np.random.Generator, n: int, *, apart: bool = False) -> "Draws":
        """Pick ``n`` draws of equal weight from the pool, with replacement.

        Each is picked by itself, as in Algorithm 1 of the paper, unless there are groups or draws are to be ``apart``:
        then systematically, which keeps as many different points as can be.
        """
        self.require_pool("picking other draws")
        pick = resample_evenly if apart or self.groups is not None else multinomial
        return replace(self, index=pick(rng, self.pool_weights, n), weights=np.full(n, 1.0 / n), resampled=True)

    @cached_property
    def read(self) -> "Draws":
        """What figures are read off: the draws, or the whole pool with its weights where it was weighed anew.

        Without the error of picking, figures at another eta are the same wherever they are shown.
        """
        if not (self.reweighted and self.resampled) or self.record is not None:
            return self
        return replace(self, index=np.arange(len(self.pool)), weights=self.pool_weights, resampled=False)

    @property
    def facts(self) -> dict[str, Any]:
        """What the sampler reported, as plain data by name."""
        return self.info.entries()

    @cached_property
    def points(self) -> Points:
        """The drawn points, ``n`` of them."""
        return self.pool.take(self.index)

    @property
    def z(self) -> Array:
        """Latent coordinates ``(n, m)``."""
        self.require_pool("where draws lie in the latent space")
        return self.points.z

    @property
    def x(self) -> Array:
        """Encoded rows ``(n, d)``."""
        return self.points.x

    @property
    def outputs(self) -> Array:
        """Each model's output ``(n, K)``."""
        return self.points.outputs

    @property
    def loss(self) -> Array:
        """Each model's loss ``(n, K)``."""
        return self.points.loss

    @property
    def reached(self) -> Array:
        """Each model's verdict ``(n, K)``."""
        return self.points.reached

    def __len__(self) -> int:
        return len(self.index)

    def frame(self, *figures: str) -> pd.DataFrame:
        """Return the draws in the user's columns and dtypes, one line each.

        Parameters
        ----------
        *figures : {"weight", "output", "loss", "reached"}
            What to show beside them, in columns of these names (with an underscore more where a column of the user's
            has the name): each draw's weight, and what the first model says about it. ``.outputs``, ``.loss`` and
            ``.reached`` have all models.

        Returns
        -------
        DataFrame
            ``n`` lines, of equal weight unless the sampler weighs its draws.

        Examples
        --------
        >>> import gbce
        >>> data = pd.DataFrame({"income": [1.0, 2.0, 3.0], "children": [0, 1, 2]})
        >>> explainer = gbce.Explainer(lambda rows: rows["income"], data)
        >>> explanation = explainer.explain(data.iloc[0], gbce.AtLeast(2.5), rules=[], seed=0)
        >>> explanation.draws.frame("output", "reached").dtypes.astype(str).tolist()
        ['float64', 'int64', 'float64', 'bool']
        """
        if self.space is None:
            raise ValueError("these draws do not know the columns of the table; those of an explanation do")
        unknown = [name for name in figures if name not in _FIGURES]
        if unknown:
            raise ValueError(f"frame shows {', '.join(map(repr, _FIGURES))} beside the draws, not {unknown[0]!r}")
        rows = self.space.frame(self.x)
        for name in dict.fromkeys(figures):
            values, taken = getattr(self, _FIGURES[name]), {str(label) for label in rows.columns}
            while name in taken:
                name += "_"
            rows[name] = values if values.ndim == 1 else values[:, 0]
        return rows

    @cached_property
    def known(self) -> Points:
        """Every evaluated point that is kept: the pool, and what a search has seen beside it."""
        return self.pool if self.seen is None else Points.join([self.pool, self.seen])

    @cached_property
    def prior_weights(self) -> Array:
        """Weights ``(N,)`` of the pool's points under the prior."""
        self.require_pool("the prior")
        return normalise(self.log_base_weights - self.pool.log_correction)

    @cached_property
    def pareto_k(self) -> float:
        """Shape of the tail of the pool's weights; NaN where errors are those between runs, unless weighed anew."""
        if self.record is not None:
            return self.record.pareto_k
        if self.exact is not None or (self.groups is not None and not self.reweighted):
            return np.nan
        with np.errstate(divide="ignore"):
            return pareto_k(np.log(self.pool_weights))

    @property
    def tail_factor(self) -> float:
        """Times which the error of the weighted pool is larger than its weights say, because their tail is heavy.

        The largest weights are still to come, where a figure is most unlike its mean. For the second moment of a normal
        law drawn from a narrower one, 1.96 errors cover 95% if they are 1.2, 1.5 and 1.9 times as large as the weights
        say at shapes of 0.39, 0.47 and 0.55 (``tests/draws/test_unseen_mass.py``).
        """
        unbounded = self.reweighted or self.info.seen_once is not None  # weights against proposals that were fitted
        k = self.pareto_k if unbounded else np.nan
        return 1.0 if np.isnan(k) else 1.0 + 10.0 * min(max(k - 0.25, 0.0), 0.75) ** 2

    @cached_property
    def unseen(self) -> float:
        """Mass that no error read off the weights knows of: what not one of so many points shows.

        Mass that one of several independent runs alone has seen estimates what none has seen (Good, 1953).
        """
        n = np.count_nonzero(self.pool_weights) if self.record is None else self.record.n_evaluated
        return max(1.0 / max(n, 1), self.info.seen_once or 0.0)

    @cached_property
    def ess(self) -> float:
        """Effective sample size of the pool: of its weights, or less where independent runs show that it is less."""
        if self.record is not None:
            return self.record.ess
        size = effective_sample_size(self.pool_weights)
        return size if self.groups is None else min(size, 1.0 / max(float(np.mean(self._relative_errors)), TINY))

    @cached_property
    def worst_ess(self) -> tuple[float, int]:
        """Effective sample size of the figure that runs agree on least, and which it is.

        That is a latent coordinate, 0 to ``m - 1``, the loss, ``m``, or the distance, ``m + 1``.
        """
        if self.record is not None:
            return self.record.worst_ess, self.record.worst_of
        if self.groups is None:
            return self.ess, 0
        worst = int(np.argmax(self._relative_errors))
        return min(
            effective_sample_size(self.pool_weights), 1.0 / max(float(self._relative_errors[worst]), TINY)
        ), worst

    @cached_property
    def _relative_errors(self) -> Array:
        """Squared error between runs over the posterior variance, for coordinates, loss and distance."""
        counts, z = np.flatnonzero(self.pool_weights > 0), self.pool.z
        some = slice(None) if len(counts) == len(z) else counts
        groups = None if self.groups is None else self.groups[some]
        few = [z[:, j : j + _COLUMNS] for j in range(0, z.shape[1], _COLUMNS)]
        few[-1] = np.column_stack([few[-1], self.pool.loss[:, 0], self.pool.cost])
        return np.concatenate([_relative_error_of(columns[some], self.pool_weights[some], groups) for columns in few])

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """Positions in the pool of the distinct draws ``(u,)`` and the total weight of each ``(u,)``."""
        where, inverse = np.unique(self.index, return_inverse=True)
        return where, np.bincount(inverse, weights=self.weights)

    def mean(self, values: Array) -> Array:
        """Weighted mean over the draws of ``values`` given for the pool, ``(N, ...)``."""
        return np.tensordot(self.weights, values if self._is_pool else values[self.index], axes=1)

    @cached_property
    def _is_pool(self) -> bool:
        """Whether the draws are the pool as it is."""
        return np.array_equal(self.index, np.arange(len(self.pool)))

    def standard_error(self, influence: Array) -> Array:
        """Monte Carlo error of a figure from its influence values on the pool, ``(N, ...)``.

        The influence of a mean is value minus mean. The first term is the error of the weighted pool, the second
        that of picking the draws out of it, the third what mass that was seen once may change. Where the pool was let
        go, the first two follow from the effective sample size.
        """
        if self.record is not None:
            square = np.tensordot(self.pool_weights, np.square(influence), axes=1)
            share = self.tail_factor**2 / self.ess + self.resampled / len(self) + (self.info.seen_once or 0.0) ** 2
            return np.asarray(np.sqrt(square * share))
        spread = np.tensordot(self.pool_weights, np.square(influence), axes=1)
        beside = spread * (self.info.seen_once or 0.0) ** 2
        weighted = self.pool_weights.reshape(-1, *[1] * (influence.ndim - 1)) * influence
        freedom = None if self.groups is None else int(self.groups.max())
        if not self.resampled or freedom == 0:
            return np.sqrt(np.square(self.tail_factor * _error_of_sum(weighted, self.groups)) + beside)
        pool = np.square(self.tail_factor * _error_of_sum(weighted, self.groups, student=False))
        both = pool + spread / len(self) + beside
        if freedom is None:
            return np.sqrt(both)
        # Welch and Satterthwaite: the larger the share of picking, which is well known, the more degrees of freedom
        more = np.square(both / np.maximum(pool, _PICKING_ONLY * both + TINY))
        return np.sqrt(both) * _student_factor(freedom * more)


def _without_latent(points: Points) -> Points:
    """Return points without their places in the latent space, half of what a file takes."""
    return replace(points, z=np.zeros_like(points.z))


def _same_runs(groups: Array, where: Array) -> Array:
    """Return the runs ``(n,)`` of the points at ``where``, with a number of runs that is still read off the largest.

    The last number must occur for that, so it changes places with one that does. Runs are counted anew if there are
    more of them than points.
    """
    last, kept = int(groups.max()), groups[where]
    if last >= len(kept):
        return np.unique(kept, return_inverse=True)[1]
    most = int(kept.max())
    return np.where(kept == most, last, kept) if most < last else kept


def _evidence_error(weights: Array, prior_weights: Array, groups: Array | None, evidence_inflation: float) -> float:
    """Return the error of the log evidence, by the delta method: ``log(a / b)`` has the influence ``w_i - v_i``."""
    error = float(_error_of_sum(weights - prior_weights, groups) * np.sqrt(evidence_inflation))
    return max(error, 1.0 / len(weights))  # mass that so many points do not show


def _error_of_sum(contributions: Array, groups: Array | None, *, student: bool = True) -> Array:
    """Return the standard error of a sum of contributions ``(N, ...)`` whose expectation is zero.

    Between a few runs it is enlarged as Student's law asks, so that 1.96 times the error still covers 95%.
    """
    if groups is None:
        return np.sqrt(np.square(contributions).sum(axis=0))
    n = int(groups.max()) + 1
    if n == 1:
        return np.full(contributions.shape[1:], np.inf)
    columns = np.ascontiguousarray(contributions.reshape(len(contributions), -1).T)
    sums = np.array([np.bincount(groups, weights=column, minlength=n) for column in columns])
    sums = np.ascontiguousarray(sums.T).reshape(n, *contributions.shape[1:])
    sums = sums - sums.mean(axis=0)
    spread = np.sqrt(np.square(sums).sum(axis=0) * n / (n - 1))
    return spread * _student_factor(n - 1) if student else spread


def _relative_error_of(values: Array, weights: Array, groups: Array | None) -> Array:
    """Squared error between runs over the variance, for columns ``(n, c)`` of points with weights ``(n,)``."""
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite figure has no variance that could be compared
        offset = values - weights @ values
        variance = weights @ np.square(offset)
        error = np.square(_error_of_sum(weights[:, None] * offset, groups, student=False))
        varies = variance > _CONSTANT * (1 + np.square(values).max(axis=0))
        return np.where(varies, error / np.maximum(variance, TINY), 0)


def _student_factor(freedom: Array | float) -> Array:
    """Return what an error with so many degrees of freedom is multiplied by, so that 1.96 of it cover 95%."""
    return stdtrit(freedom, 0.975) / NORMAL_975
