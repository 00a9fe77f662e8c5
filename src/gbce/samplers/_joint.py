"""Sampling of rows and models jointly: each point carries a model index, and only that model evaluates it.

The mixture ``sum_k w_k exp(-eta loss_k)`` is the marginal of a distribution of ``(x, k)``. One more latent coordinate
stands for ``k``, so that any sampler moves through rows and models together. In the end some posterior and prior draws
are evaluated by every model and weighted as one mixture, so that any other eta, weights or combination is a
reweighting.
"""

from dataclasses import dataclass, field, fields, replace

import numpy as np
from scipy.special import logsumexp, ndtri

from gbce._numerics import log_mean_exp
from gbce.base import Array, Sampler
from gbce.budget import BudgetSpentError, Load
from gbce.draws import Draws, Points
from gbce.posterior import Evaluated, GibbsPosterior, Mixture
from gbce.predictors import Panel
from gbce.priors import LocatedPrior, Placed

MANY_MODELS = 20  # from which points carry a model index, unless the user says otherwise; by hand
_PRIOR_POINTS = 500  # evaluated by every model beside the draws, for the prior and smaller etas; by hand
_BLOCKS = 20  # of independent candidates, for errors between them; Student's factor is then 1.07
_LEAST_SHOWN = 2  # points evaluated by every model: a posterior and a prior draw
_SAMPLING_SHARE = 0.7  # of the budget; the rest is for evaluating draws with every model (by hand)
_INSIDE = 1e-12  # from zero and one: a model without weight has an empty interval, whose middle may be an end


@dataclass(frozen=True)
class _JointPrior(LocatedPrior):
    """A prior of rows and models: rows ``x`` have one more column, the index of a model."""

    weights: Array = field(default_factory=lambda: np.ones(1))

    @property
    def dimension(self) -> int:
        """Number of latent coordinates: those of the rows, plus one."""
        return super().dimension + 1

    @property
    def _cuts(self) -> Array:
        """Quantiles that cut the last coordinate into one interval per model, as probable as its weight."""
        return ndtri(np.minimum(np.cumsum(self.weights)[:-1], 1.0))

    def place(self, z: Array) -> Placed:
        """Map latent points ``(n, m + 1)`` to rows with a model index."""
        placed = super().place(z[:, :-1])
        index = np.searchsorted(self._cuts, z[:, -1], side="right")
        return placed._replace(x=np.column_stack([placed.x, index]))

    def locate(self, x: Array) -> Array:
        """Return latent points of rows ``(n, d)``, cycling through the models."""
        edges = np.append(0.0, np.cumsum(self.weights))
        turn = np.arange(len(x)) % len(self.weights)
        middle = ndtri(np.clip(0.5 * (edges[turn] + edges[turn + 1]), _INSIDE, 1 - _INSIDE))
        return np.column_stack([super().locate(x), middle])

    def change(self, x: Array) -> Array:
        """Return the size of each feature's change; the model index is none."""
        return super().change(x[:, :-1])


@dataclass(frozen=True)
class _JointPanel(Panel):
    """A panel in which one model evaluates each point, in proportion to the weights."""

    weights: Array = field(default_factory=lambda: np.ones(1))

    @property
    def load(self) -> Load:
        """Average number of rows of each model per point."""
        return [(model, rows * float(share)) for (model, rows), share in zip(super().load, self.weights, strict=True)]

    @property
    def each(self) -> int:
        """Largest number of rows per point."""
        return max(predictor.questions() for predictor in self.predictors)


@dataclass(frozen=True, eq=False)
class _JointPosterior(GibbsPosterior):
    """Distribution of rows and models; ``mixture`` has a single weight, since the prior holds the models' own."""

    prior: _JointPrior

    @property
    def panel(self) -> Panel:
        """The models with their budget."""
        return _JointPanel(self.predictors, self.budget, weights=self.prior.weights)

    def evaluate(self, x: Array, *, use_predict: bool = False) -> Evaluated:
        """Evaluate each point by its own model: arrays ``(n, 1)``."""
        index = x[:, -1].astype(int)
        evaluated = Evaluated(*(np.zeros((len(x), 1), dtype) for dtype in (float, float, bool)))
        for k in np.unique(index):
            own = index == k
            one = GibbsPosterior(self.prior, (self.predictors[k],), self.target, self.mixture, budget=self.budget)
            for array, values in zip(evaluated, one.evaluate(x[own, :-1], use_predict=use_predict), strict=True):
                array[own] = values
        return evaluated


def sample_jointly(sampler: Sampler, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
    """Sample the mixture of many models with one model evaluated per point."""
    weights = posterior.mixture.weights
    # The density of (x, k) is w_k exp(-eta loss_k(x)) p(x), whose marginal in x is the mixture. The weights are in the
    # prior of k, so that the potential is that of a single model and the sampler need not know that there are several.
    options = {f.name: getattr(posterior.prior, f.name) for f in fields(LocatedPrior)}
    joint = _JointPosterior(
        _JointPrior(**options, weights=weights),
        posterior.predictors,
        posterior.target,
        Mixture(posterior.mixture.eta, np.ones(1)),
        landmarks=posterior.landmarks,
        budget=posterior.budget.share(_SAMPLING_SHARE),
    )
    found = sampler.sample(joint, rng)
    mixture = replace(posterior.mixture, eta=found.rungs[-1])
    # Draws of x are draws from the mixture, but each has one model's loss. As many of them as can be afforded, evenly
    # spaced, are evaluated by all models, and so are fresh prior draws, which the former need not cover.
    which = found.index
    most = posterior.affords(len(which) + _PRIOR_POINTS)
    if most < _LEAST_SHOWN:
        raise BudgetSpentError(
            "the budget does not allow evaluating the draws with every model: raise max_model_rows or time_budget"
        )
    which = which[np.linspace(0, len(which) - 1, min(len(which), max(most - _PRIOR_POINTS, most // 2))).astype(int)]
    blocks = found.groups if found.groups is not None else np.arange(len(found.pool)) % _BLOCKS
    fresh = posterior.prior.draw(rng, min(_PRIOR_POINTS, most - len(which)))
    pool = Points.evaluate(posterior, np.vstack([found.pool.z[which, :-1], fresh]))
    groups = np.append(blocks[which], np.arange(len(fresh)) % (int(blocks.max()) + 1))
    # Both sets are weighted as draws from one mixture of the posterior and the constrained N(0, I) (the balance
    # heuristic of Veach and Guibas, 1995): n_1 exp(-potential - log_correction) / Z + n_2, against N(0, I). So the
    # weights are bounded at every smaller eta, and any other weights or combination is a reweighting.
    log_z = found.log_evidence + log_mean_exp(-pool.log_correction[len(which) :])
    drawn = np.log(len(which)) - mixture.potential(pool.loss) - pool.log_correction - log_z
    base = -logsumexp([drawn, np.full(len(pool), np.log(len(fresh)))], axis=0)
    info = replace(found.info, joint=True, model_evidence=tuple(_evidence_by_model(found, weights)))
    draws = Draws.weigh(
        pool, mixture, posterior.prior, log_base_weights=base, groups=groups, rungs=found.rungs, info=info
    )
    # figures of the run itself rest on all its points, more than were evaluated by every model
    seen = None
    if found.seen is not None and posterior.affords(len(found.seen)) == len(found.seen):
        seen = Points.evaluate(posterior, found.seen.z[:, :-1])
    draws = replace(
        draws,
        seen=seen,
        log_evidence=found.log_evidence,
        log_evidence_se=found.log_evidence_se,
        prior_change=found.prior_change,
        evidence_inflation=found.evidence_inflation,
    )
    return draws.resample(rng, len(found))


def _evidence_by_model(found: Draws, weights: Array) -> list[float]:
    """Return each model's own log evidence, NaN without weight: ``P(k | draws) = w_k Z_k / Z``."""
    index = found.pool.x[:, -1].astype(int)
    share = np.bincount(index, found.pool_weights, minlength=len(weights))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (found.log_evidence + np.log(share) - np.log(weights)).tolist()
