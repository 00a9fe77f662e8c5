"""Model change: how often a recommendation still succeeds under models that the method never saw."""

import numpy as np
import pandas as pd

from gbce._numerics import wilson
from gbce.base import Array
from gbce.draws import Draws

__all__ = ["survival_table"]


def survival_table(
    labels: tuple[str, ...], decided: Array, draws: Draws, drawn: Array, weights: Array, which: Array | None = None
) -> pd.DataFrame:
    """Return how decisions and a posterior fare under further models, one line each, the posterior last.

    Parameters
    ----------
    labels : tuple of str
        Of the decisions.
    decided : bool array of shape (r, K)
        Whether each decision reaches the target under each of the models.
    draws : Draws
        The posterior.
    drawn : bool array of shape (u, K)
        The same for its distinct draws, ``draws.distinct``, or for some of them.
    weights : array of shape (K,)
        Of the models.
    which : int array of shape (u,), optional
        Which of the distinct draws, picked at random; all when left out.

    Returns
    -------
    DataFrame
        ``survival``: the share of models under which the target is reached, of the posterior the mean over models
        of its success probability. ``low`` and ``high``: Wilson's 95% interval, for which the models count as a
        sample of what a refit may give, of effective size ``1 / sum(weights**2)``. ``all``: the probability to
        succeed under all of them. ``se``: Monte Carlo error of ``survival``, zero for a decision.
    """
    weight, counts = draws.distinct[1], weights > 0
    spread = 1.0 / draws.ess + (1.0 / len(draws) if draws.resampled else 0.0)
    if which is not None and len(which) < len(weight):
        weight = weight[which] / weight[which].sum()
        spread += float(np.square(weight).sum())  # from picking only some of them
    share, under_all = drawn @ weights, np.asarray(drawn[:, counts].all(axis=1))
    mean = _mean(weight, share)
    size = 1.0 / spread
    values = np.append(decided @ weights, mean)
    low, high = wilson(values, 1.0 / float(np.square(weights).sum()))
    table = {
        "survival": values,
        "low": low,
        "high": high,
        "all": np.append(decided[:, counts].all(axis=1).astype(float), _mean(weight, under_all)),
        "se": np.append(np.zeros(len(decided)), np.sqrt(_mean(weight, np.square(share - mean)) / size)),
    }
    return pd.DataFrame(table, index=pd.Index([*labels, "posterior"], name="rule", dtype=object))


def _mean(weight: Array, values: Array) -> float:
    """Weighted mean, NaN of nothing."""
    return float(weight @ values) if len(values) else float("nan")
