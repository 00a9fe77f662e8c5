"""Points of a page: the pool with its weights, thinned if large, and the points of rules and searches."""

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

MOST_CELLS = 600_000  # values in one page, chosen by hand: 3 MB at four bytes each in base64
FEWEST_POINTS = 500  # pool points, whatever the number of columns: several times what an answer needs; by hand
_SAME_POINT = 1e-9  # units of scale: tolerance for a row that went through a table and back


@dataclass(eq=False)
class Known:
    """Points of a page: those of the pool first, then those of decisions and tables.

    Parameters
    ----------
    x : array of shape (n, d)
        Encoded.
    loss, verdicts : array of shape (n, K)
        Loss under each model, and whether the target is reached.
    output : array of shape (n,)
        Output of the first model.
    log_prior : array of shape (n,)
        Log weight under the prior, minus infinity outside the pool; without a pool, log posterior weight.
    n_pool : int
        Number of points from the pool.
    n_evaluated : int
        Size of the pool before it was thinned.
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
        """Return the position of a point ``(d,)``, which is added if it is new."""
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
        """Return the positions of rows given in the user's columns, such as those of a frontier."""
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
        """Sum of changes ``(n,)`` in units of each feature's scale."""
        return costs(self.space, self.x, self.x0, "l1")

    @property
    def distance(self) -> Array:
        """Euclidean distance from the row ``(n,)``."""
        return costs(self.space, self.x, self.x0, "l2")


def gather_points(explanation: Explanation) -> Known:
    """Collect the points of the pool, thinned to the size of a page, and those of searches."""
    draws, space = explanation.draws, explanation.space
    some = max(MOST_CELLS // max(len(explanation.free), 1), FEWEST_POINTS)
    where, log_prior = _find_weighted(draws)
    if len(where) > some:
        where, log_prior = _thin(
            draws, where, log_prior, some, stream(explanation.seed, REWEIGHTING, explanation.query.key)
        )
    parts = [draws.pool.take(where), _take_cheapest_dropped(explanation, where)]
    every = Points.join(parts + ([] if draws.seen is None else [_take_admissible(draws.seen)]))
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


def _take_cheapest_dropped(explanation: Explanation, where: Array) -> Points:
    """Return the cheapest reaching pool points that were dropped, so that the page suggests the same as ``given()``."""
    pool = explanation.draws.pool
    others = np.setdiff1d(np.flatnonzero(np.isfinite(pool.log_correction) & pool.reached[:, 0]), where)
    cost = costs(explanation.space, pool.x[others], explanation.x0, "l1")
    return pool.take(others[np.argsort(cost, kind="stable")[:FEWEST_POINTS]])


def _take_admissible(points: Points) -> Points:
    return points.take(np.isfinite(points.log_correction))


def _find_weighted(draws: Draws) -> tuple[Array, Array]:
    """Return the positions of pool points with a positive weight at some eta, and their log weights under the prior."""
    with np.errstate(divide="ignore"):
        if draws.record is None:
            log_prior = draws.log_base_weights - draws.pool.log_correction
        else:
            log_prior = np.log(draws.pool_weights)
    fits = np.isfinite(draws.pool.log_correction)
    where = np.flatnonzero(fits & (np.isfinite(log_prior) | (draws.record is not None)))
    return where, log_prior[where] - log_prior[where].max(initial=-np.inf, where=np.isfinite(log_prior[where]))


def _thin(draws: Draws, where: Array, log_prior: Array, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sample about ``n`` points by their posterior and prior weights, and reweight them.

    Weights are divided by the inclusion probabilities, which keeps means unbiased at any eta (Horvitz and Thompson,
    1952).
    """
    with np.errstate(under="ignore"):
        before = np.exp(log_prior - log_prior.max())
    size = 0.5 * before / before.sum() + 0.5 * draws.pool_weights[where]
    share = np.minimum(n * size, 1.0)
    for _ in range(20):  # points that are certain to be sampled raise the probabilities of the others
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
    """Return the ratio of the effective sample size over all runs to that of the weights alone, at most one."""
    return min(draws.ess / effective_sample_size(draws.pool_weights), 1.0)
