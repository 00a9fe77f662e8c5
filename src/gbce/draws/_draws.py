"""Weighted draws from a pool of evaluated points, the Monte Carlo errors of their figures, and the input of a rule."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from gbce._numerics import (
    NORMAL_975,
    ROUNDING,
    TINY,
    WIDE_ROUNDING,
    effective_sample_size,
    log_total,
    normalise,
    pareto_k,
    resample_evenly,
)
from gbce._numerics import resample as multinomial
from gbce.base import Array, Choice, ModelNeededError, Query, Rule
from gbce.draws._points import ExactFigures, Points, PoolRecord, SamplerInfo
from gbce.posterior import GibbsPosterior, Mixture
from gbce.priors import LocatedPrior
from gbce.space import Places, Space

if TYPE_CHECKING:
    from gbce.metrics import Noise

# --- draws -----------------------------------------------------------------------------------------------------------

_COLUMNS = 16  # figures compared in one block that fits into the processor's cache; results do not depend on it
_FIGURES = {"weight": "weights", "output": "outputs", "loss": "loss", "reached": "reached"}  # columns of a frame


def log_target(mixture: Mixture, points: Points) -> Array:
    """Return the unnormalised log density ``(n,)`` of the posterior relative to the base distribution N(0, I)."""
    return -mixture.potential(points.loss) - points.log_correction


class Covering(Protocol):
    """A sampler's knowledge of where the points of its pool were expected."""

    def unexplained(self, points: Points, mixture: Mixture) -> Array:
        """Whether known points ``(n,)`` show mass that the pool has missed."""
        ...

    def dwarfed(self, points: Points, mixture: Mixture) -> Array:
        """Whether the pool's mass is negligible beside that at points ``(n,)``, however narrow their modes are."""
        ...

    def has_missed_mass_near(self, posterior: GibbsPosterior, rng: np.random.Generator, z: Array) -> bool:
        """Whether such mass may lie around a latent point ``(m,)``, estimated by evaluating points near it."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
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
        Whether the draws were resampled from the pool, which adds an error of its own.
    reweighted : bool
        Whether the pool was reweighted for another question than it was drawn for: figures then use its weights
        directly, see :attr:`read`, and draws are resampled from it only where points are needed.
    prior_change : array of shape (d,)
        Mean size of each feature's change under the prior.
    log_evidence, log_evidence_se : float
        ``log E_prior[exp(-potential)]`` and its Monte Carlo error.
    rungs : tuple of float
        Temperatures the sampler went through, the last one being eta.
    log_base_weights : array of shape (N,)
        Log weight of each pool point without its potential and its correction: the log ratio of the base distribution
        N(0, I) to the sampler's proposal. Zero for a pool drawn from the prior's map.
    groups : int array of shape (N,), optional
        Which independent run each pool point belongs to. Errors are then those between runs; without groups the
        points are independent of each other.
    info : SamplerInfo
        The report of the sampler.
    evidence_inflation : float
        Variance of the mean of the runs' evidences relative to independent runs. Above one if runs adapt their moves
        from each other, because their evidences are then correlated.
    seen : Points, optional
        Further evaluated points that rules consider: the best that a search has found.
    space : Space, optional
        The user's columns, for :meth:`frame`; the draws of an explanation have it.
    record : PoolRecord, optional
        Figures of the whole pool, if only the drawn points and a few more are kept, see :meth:`drop_pool`.
    exact : ExactFigures, optional
        Figures that were computed exactly; None for other weights than the sampler's.

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
    space: Space | None = None
    record: PoolRecord | None = None
    exact: ExactFigures | None = None
    reweighted: bool = False

    def __repr__(self) -> str:
        reached = float(self.weights @ self.reached[:, 0])
        return (
            f"<Draws: {len(self):,} draws from {len(self.pool):,} evaluated points by {self.info.sampler}, "
            f"{self.ess:,.0f} effective; {reached:.0%} reach the target>"
        )

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
        """Weigh a pool of points, drawn from the prior's map unless ``log_base_weights`` are given.

        The draws are then the whole pool. The evidence is a ratio of two means over the base distribution:
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
            log_evidence_se=_compute_evidence_error(weights, prior_weights, groups, evidence_inflation),
            rungs=rungs or (float(mixture.eta),),
            log_base_weights=log_base_weights,
            groups=groups,
            info=SamplerInfo() if info is None else info,
            evidence_inflation=evidence_inflation,
        )

    def drop_pool(self, record: PoolRecord, beside: Array) -> "Draws":
        """Return the same draws without the rest of the pool, except the points at positions ``beside``.

        Latent coordinates are dropped as well; figures of the pool are then limited to the record.
        """
        kept = np.union1d(self.distinct[0], beside)
        index = np.searchsorted(kept, self.index)
        return replace(
            self,
            pool=_drop_latent(self.pool.take(kept)),
            pool_weights=np.bincount(index, weights=self.weights, minlength=len(kept)),
            index=index,
            log_base_weights=np.zeros(len(kept)),
            groups=None if self.groups is None else self.groups[kept],
            seen=None if self.seen is None else _drop_latent(self.seen),
            record=record,
        )

    def require_pool(self, what: str) -> None:
        """Refuse what needs every evaluated point if only the draws are kept."""
        if self.record is not None:
            raise ValueError(
                f"{what} needs every evaluated point, but only the draws were kept: save the explanation with "
                "explanation.save(path, pool=True), or the rows of a store with explain_many(..., keep='pool')"
            )

    def reweigh(self, mixture: Mixture) -> "Draws":
        """Reweight the same pool for another eta, other model weights or another combination."""
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
            log_evidence_se=_compute_evidence_error(weights, self.prior_weights, self.groups, self.evidence_inflation),
            rungs=(*(rung for rung in self.rungs if rung < mixture.eta), float(mixture.eta)),
            exact=None,
        )

    def restrict(self, inside: Array, mixture: Mixture, prior_change: Array, coordinates: Array) -> "Draws":
        """Return the posterior given an event: the pool's points ``inside`` ``(N,)``, with weights renormalised.

        Errors are those of ratios, so a run with no point inside still counts as a run. The evidence is relative to the
        prior given the same event. ``prior_change`` ``(N, d)`` are sizes of changes; ``coordinates`` are the latent
        coordinates that still vary.
        """
        where = np.flatnonzero(inside)
        pool, base = self.pool.take(where), self.log_base_weights[where]
        pool = replace(pool, z=pool.z[:, coordinates])
        groups = None if self.groups is None else _relabel_runs(self.groups, where)
        kept = replace(self, pool=pool, log_base_weights=base, groups=groups)
        prior_weights = normalise(base - pool.log_correction)
        seen = None if self.seen is None else replace(self.seen, z=self.seen.z[:, coordinates])
        return replace(kept.reweigh(mixture), prior_change=prior_weights @ prior_change[where], seen=seen)

    def resample(self, rng: np.random.Generator, n: int, *, apart: bool = False) -> "Draws":
        """Resample ``n`` draws of equal weight from the pool, with replacement.

        Multinomially, as in Algorithm 1 of the paper, unless there are groups or draws are to be ``apart``: then
        systematically, which keeps as many distinct points as possible.
        """
        self.require_pool("resampling")
        pick = resample_evenly if apart or self.groups is not None else multinomial
        return replace(self, index=pick(rng, self.pool_weights, n), weights=np.full(n, 1.0 / n), resampled=True)

    @cached_property
    def read(self) -> "Draws":
        """The draws that figures use: the draws themselves, or the whole weighted pool if it was reweighted.

        Without resampling error, figures at another eta are the same wherever they are shown.
        """
        if not (self.reweighted and self.resampled) or self.record is not None:
            return self
        return replace(self, index=np.arange(len(self.pool)), weights=self.pool_weights, resampled=False)

    @property
    def facts(self) -> dict[str, Any]:
        """The report of the sampler as plain data by name."""
        return self.info.entries()

    @cached_property
    def points(self) -> Points:
        """The drawn points, ``n`` of them."""
        return self.pool.take(self.index)

    @property
    def z(self) -> Array:
        """Latent coordinates ``(n, m)``."""
        self.require_pool("draws.z")
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
            Further columns: each draw's weight, and output, loss and verdict of the first model. An underscore is
            appended if the table has a column of that name. ``.outputs``, ``.loss`` and ``.reached`` have all models.

        Returns
        -------
        DataFrame
            ``n`` rows, of equal weight unless the sampler weighs its draws.

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
            raise ValueError("these draws do not know the columns of the table; use the draws of an explanation")
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
        """Every evaluated point that is kept: the pool, and points found by a search."""
        return self.pool if self.seen is None else Points.join([self.pool, self.seen])

    @cached_property
    def prior_weights(self) -> Array:
        """Weights ``(N,)`` of the pool's points under the prior."""
        self.require_pool("the prior")
        return normalise(self.log_base_weights - self.pool.log_correction)

    @cached_property
    def pareto_k(self) -> float:
        """Tail shape of the pool weights; NaN if errors are computed between runs, unless reweighted."""
        if self.record is not None:
            return self.record.pareto_k
        if self.exact is not None or (self.groups is not None and not self.reweighted):
            return np.nan
        with np.errstate(divide="ignore"):
            return pareto_k(np.log(self.pool_weights))

    @property
    def tail_factor(self) -> float:
        """Factor by which the error of the weighted pool exceeds its usual estimate because of a heavy tail.

        The largest weights have not been seen yet, and there a figure differs most from its mean. For the second moment
        of a normal drawn from a narrower one, 1.96 errors cover 95% if they are 1.2, 1.5 and 1.9 times as large as
        estimated at shapes of 0.39, 0.47 and 0.55 (``tests/draws/test_unseen_mass.py``).
        """
        unbounded = self.reweighted or self.info.seen_once is not None  # weights relative to fitted proposals
        k = self.pareto_k if unbounded else np.nan
        return 1.0 if np.isnan(k) else 1.0 + 10.0 * min(max(k - 0.25, 0.0), 0.75) ** 2

    @cached_property
    def unseen(self) -> float:
        """Mass that may be missing from the pool without showing in any error computed from the weights.

        Mass seen by only one of several independent runs estimates the mass seen by none (Good, 1953).
        """
        n = np.count_nonzero(self.pool_weights) if self.record is None else self.record.n_evaluated
        return max(1.0 / max(n, 1), self.info.seen_once or 0.0)

    @cached_property
    def ess(self) -> float:
        """Effective sample size of the pool: of its weights, or less if independent runs disagree."""
        if self.record is not None:
            return self.record.ess
        size = effective_sample_size(self.pool_weights)
        return size if self.groups is None else min(size, 1.0 / max(float(np.mean(self._relative_errors)), TINY))

    @cached_property
    def worst_ess(self) -> tuple[float, int]:
        """Effective sample size of the figure on which runs agree least, and its index.

        Indices are latent coordinates, 0 to ``m - 1``, the loss, ``m``, and the distance, ``m + 1``.
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
        return np.concatenate(
            [_compute_relative_errors(columns[some], self.pool_weights[some], groups) for columns in few]
        )

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """Positions in the pool of the distinct draws ``(u,)`` and the total weight of each ``(u,)``."""
        where, inverse = np.unique(self.index, return_inverse=True)
        return where, np.bincount(inverse, weights=self.weights)

    def mean(self, values: Array) -> Array:
        """Return the weighted mean over the draws of pool values ``(N, ...)``."""
        return np.tensordot(self.weights, values if self._is_pool else values[self.index], axes=1)

    @cached_property
    def _is_pool(self) -> bool:
        """Whether the draws are the whole pool in order."""
        return np.array_equal(self.index, np.arange(len(self.pool)))

    def standard_error(self, influence: Array) -> Array:
        """Return the Monte Carlo error of a figure from its influence values on the pool, ``(N, ...)``.

        The influence of a mean is value minus mean. The error has three parts: of the weighted pool, of resampling from
        it, and of mass that was seen once. Without the pool, the first two follow from the effective sample size.
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
        # Welch and Satterthwaite: resampling error is known exactly, so its share adds degrees of freedom
        more = np.square(np.maximum(both / np.maximum(pool, WIDE_ROUNDING * both + TINY), 1.0))
        return np.sqrt(both) * _compute_student_factor(freedom * more)


def _drop_latent(points: Points) -> Points:
    """Return points with zero latent coordinates, which compress to nothing in a file."""
    return replace(points, z=np.zeros_like(points.z))


def _relabel_runs(groups: Array, where: Array) -> Array:
    """Return run labels ``(n,)`` of the points at ``where`` such that the largest still gives the number of runs."""
    last, kept = int(groups.max()), groups[where]
    if last >= len(kept):
        return np.unique(kept, return_inverse=True)[1]
    most = int(kept.max())
    return np.where(kept == most, last, kept) if most < last else kept


def _compute_evidence_error(
    weights: Array, prior_weights: Array, groups: Array | None, evidence_inflation: float
) -> float:
    """Return the error of the log evidence by the delta method: ``log(a / b)`` has influence ``w_i - v_i``."""
    error = float(_error_of_sum(weights - prior_weights, groups) * np.sqrt(evidence_inflation))
    return max(error, 1.0 / len(weights))  # mass that this many points may miss


def _error_of_sum(contributions: Array, groups: Array | None, *, student: bool = True) -> Array:
    """Return the standard error of a sum of contributions ``(N, ...)`` with expectation zero; few runs enlarge it."""
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
    return spread * _compute_student_factor(n - 1) if student else spread


def _compute_relative_errors(values: Array, weights: Array, groups: Array | None) -> Array:
    """Return squared error between runs over variance, for columns ``(n, c)`` with weights ``(n,)``."""
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite figure has no variance
        offset = values - weights @ values
        variance = weights @ np.square(offset)
        error = np.square(_error_of_sum(weights[:, None] * offset, groups, student=False))
        varies = variance > ROUNDING * (1 + np.square(values).max(axis=0))
        return np.where(varies, error / np.maximum(variance, TINY), 0)


def _compute_student_factor(freedom: Array | float) -> Array:
    """Return the factor of an error with few degrees of freedom, so that 1.96 times it covers 95%."""
    return stdtrit(freedom, 0.975) / NORMAL_975


# --- the input of a rule ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """Everything a rule may use: the query, the draws, and the models if they are at hand.

    Parameters
    ----------
    query : Query
        The question about a row.
    draws : Draws
        From the posterior.
    rng : Generator
        The same random stream for every rule, whatever their order.
    posterior : GibbsPosterior, optional
        For rules that call the model; ``None`` when there is only an explanation.
    refits : GibbsPosterior, optional
        The same question under refitted models, where the explainer was given some.
    earlier : tuple of pairs of Rule and Choice
        Choices of earlier rules, for a rule that ``reads_earlier``.
    """

    query: Query
    draws: Draws
    rng: np.random.Generator
    posterior: GibbsPosterior | None = None
    refits: GibbsPosterior | None = None
    earlier: tuple[tuple[Rule, Choice], ...] = ()

    @property
    def mixture(self) -> Mixture:
        """How losses combine, and eta."""
        return self.query.mixture

    @property
    def space(self) -> Space:
        """The features, their units and limits."""
        return self.query.space

    @property
    def row(self) -> Points:
        """The row itself as one evaluated point."""
        return self.query.row

    @property
    def x0(self) -> Array:
        """The row, encoded: ``(d,)``."""
        return self.query.x0

    @property
    def free(self) -> Array:
        """Positions ``(m,)`` of the features that can move."""
        return self.query.free

    @property
    def noise(self) -> "Noise":
        """Execution noise for rules that do not set their own."""
        return self.query.evaluation.noise

    def units(self, x: Array) -> Places:
        """Return the free features of ``(n, d)`` in units of their scales."""
        return self.space.embed(x, self.free)

    def distance(self, x: Array) -> Array:
        """Return the Euclidean distance ``(n,)`` of ``(n, d)`` from the row in units of each feature's scale."""
        return self.space.distance(x, self.x0)

    def objective(self, points: Points) -> Array:
        """Return the negative log posterior density ``(n,)``, up to a constant."""
        return self.mixture.objective(points.loss, points.cost)

    def model(self, rule: Rule) -> GibbsPosterior:
        """Return the posterior with its models, or raise an error that says how to get it."""
        if self.posterior is None:
            raise ModelNeededError(
                f"{rule.label} needs the model, which an explanation does not contain: call "
                "explainer.decide(explanation, rule), or give the rule to explainer.explain(..., rules=[...])"
            )
        return self.posterior

    def pick(self, index: Array, note: str = "") -> Choice:
        """Choose points of the pool by their positions."""
        points = self.draws.pool.take(np.atleast_1d(index))
        return Choice(points.x, points, note)
