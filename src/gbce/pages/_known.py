"""What a page knows of points: those of the pool with their weights, and those that rules and searches have named."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gbce._numerics import REWEIGHTING, TINY, effective_sample_size, stream
from gbce.base import Array
from gbce.decisions import Decision
from gbce.draws import Draws, Points
from gbce.explanation import Explanation
from gbce.metrics import costs
from gbce.space import Space

__all__ = ["Known", "effective_factor", "gather_points"]

MOST_CELLS = 600_000  # values in one page, by hand: at four bytes each and in base64 they take 3 MB
FEWEST_POINTS = 500  # of the pool, however many columns there are: by hand, several times what an answer takes
_SAME_POINT = 1e-9  # in units of scale: a row that went through a table and back is the same point


@dataclass(eq=False)
class Known:
    """Points of a page: the pool's first, then those that something has named.

    Parameters
    ----------
    x : array of shape (n, d)
        Encoded.
    loss, verdicts : array of shape (n, K)
        Of each model.
    output : array of shape (n,)
        Of the first model.
    log_prior : array of shape (n,)
        Log weight under the prior; minus infinity beyond the pool. Of draws whose pool was let go: under the posterior.
    n_pool : int
        How many are the pool's.
    n_evaluated : int
        How many the pool had before it was thinned.
    """

    space: Space
    x0: Array
    x: Array
    loss: Array
    verdicts: Array
    output: Array
    log_prior: Array
    n_pool: int
    n_evaluated: int

    def __len__(self) -> int:
        return len(self.x)

    def add(self, x: Array, loss: Array, verdicts: Array, output: float) -> int:
        """Return the position of a point ``(d,)``, which is taken in if it is not known yet."""
        found = self.find(x)
        if found is not None:
            return found
        self.x = np.vstack([self.x, x])
        self.loss, self.verdicts = np.vstack([self.loss, loss]), np.vstack([self.verdicts, verdicts])
        self.output, self.log_prior = np.append(self.output, output), np.append(self.log_prior, -np.inf)
        return len(self.x) - 1

    def add_decision(self, decision: Decision) -> int:
        """Return the position of a decision."""
        return self.add(decision.x, decision.loss, decision.reached, float(decision.outputs[0]))

    def add_table(self, table: pd.DataFrame) -> list[int]:
        """Return the positions of rows in the user's columns, as a frontier has them."""
        own = list(self.space.frame(self.x[:1]).columns)
        figures = {name: table[name].to_numpy() for name in ("output", "reached") if name in table and name not in own}
        x = self.space.encode(table[own].reset_index(drop=True), what="frontier")
        unknown, n_models = np.full(len(x), np.nan), self.loss.shape[1]
        outputs, reached = figures.get("output", unknown), figures.get("reached", np.ones(len(x), dtype=bool))
        return [
            self.add(x[i], np.full(n_models, np.nan), np.full(n_models, bool(reached[i])), float(outputs[i]))
            for i in range(len(x))
        ]

    def find(self, x: Array) -> int | None:
        """Return where a point ``(d,)`` is, the named ones before those of the pool; ``None`` if it is not known."""
        far = self.space.change(self.x, x) > _SAME_POINT * self.space.scale
        same = np.flatnonzero(~far.any(axis=1))
        return int(same[-1]) if len(same) else None

    @property
    def cost(self) -> Array:
        """The sum of changes ``(n,)`` in units of each feature's scale."""
        return costs(self.space, self.x, self.x0, "l1")

    @property
    def distance(self) -> Array:
        """Euclidean distance from the row ``(n,)``."""
        return costs(self.space, self.x, self.x0, "l2")


def gather_points(explanation: Explanation) -> Known:
    """Return the points of the pool, as many as a page has room for, and what a search has seen beside it."""
    draws, space = explanation.draws, explanation.space
    some = max(MOST_CELLS // max(len(explanation.free), 1), FEWEST_POINTS)
    where, log_prior = _weighed(draws)
    if len(where) > some:
        where, log_prior = _thin(
            draws, where, log_prior, some, stream(explanation.seed, REWEIGHTING, explanation.query.key)
        )
    parts = [draws.pool.take(where), _cheap_others(explanation, where)]
    every = Points.join(parts + ([] if draws.seen is None else [_fitting(draws.seen)]))
    return Known(
        space=space,
        x0=explanation.x0,
        x=every.x,
        loss=every.loss,
        verdicts=every.reached,
        output=every.outputs[:, 0],
        log_prior=np.append(log_prior, np.full(len(every) - len(where), -np.inf)),
        n_pool=len(where),
        n_evaluated=len(draws.pool) if draws.record is None else draws.record.n_evaluated,
    )


def _cheap_others(explanation: Explanation, where: Array) -> Points:
    """Return the cheapest points of the pool that reach among those left out: a page suggests what Python does."""
    pool = explanation.draws.pool
    others = np.setdiff1d(np.flatnonzero(np.isfinite(pool.log_correction) & pool.reached[:, 0]), where)
    cost = costs(explanation.space, pool.x[others], explanation.x0, "l1")
    return pool.take(others[np.argsort(cost, kind="stable")[:FEWEST_POINTS]])


def _fitting(points: Points) -> Points:
    return points.take(np.isfinite(points.log_correction))


def _weighed(draws: Draws) -> tuple[Array, Array]:
    """Return which points of the pool have a weight at some eta, and its logarithm under the prior."""
    with np.errstate(divide="ignore"):
        if draws.record is None:
            log_prior = draws.log_base_weights - draws.pool.log_correction
        else:
            log_prior = np.log(draws.pool_weights)
    fits = np.isfinite(draws.pool.log_correction)
    where = np.flatnonzero(fits & (np.isfinite(log_prior) | (draws.record is not None)))
    return where, log_prior[where] - log_prior[where].max(initial=-np.inf, where=np.isfinite(log_prior[where]))


def _thin(draws: Draws, where: Array, log_prior: Array, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Pick about ``n`` points, those that weigh much under the posterior or the prior more often, and weigh them anew.

    Divided by how probable it was to be picked, weights keep every mean as it was on average (Horvitz and Thompson,
    1952), at any eta.
    """
    with np.errstate(under="ignore"):
        before = np.exp(log_prior - log_prior.max())
    size = 0.5 * before / before.sum() + 0.5 * draws.pool_weights[where]
    share = np.minimum(n * size, 1.0)
    for _ in range(20):  # what is certain to be picked leaves the others more room
        certain = share >= 1.0
        rest = size[~certain].sum()
        if not rest > TINY:
            break
        share = np.where(certain, 1.0, np.minimum((n - certain.sum()) * size / rest, 1.0))
    cumulative = np.cumsum(share)
    picked = np.unique(np.searchsorted(cumulative, rng.random() + np.arange(int(cumulative[-1]))))
    picked = picked[picked < len(where)]
    return where[picked], log_prior[picked] - np.log(share[picked])


def effective_factor(draws: Draws) -> float:
    """Return what weights alone overstate the effective number of draws by: one, unless independent runs say so."""
    return min(draws.ess / effective_sample_size(draws.pool_weights), 1.0)
