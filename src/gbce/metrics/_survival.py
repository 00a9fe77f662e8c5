"""Model change: how often a recommendation still succeeds under models that the method never saw."""

import numpy as np
import pandas as pd

from gbce._weights import Array
from gbce.draws import Draws

__all__ = ["survival", "wilson"]

_Z = 1.959964


def survival(labels: tuple[str, ...], decided: Array, draws: Draws, drawn: Array) -> pd.DataFrame:
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
        The same for its distinct draws, ``draws.distinct``.

    Returns
    -------
    DataFrame
        ``survival``: the share of models under which the target is reached, of the posterior the mean over models
        of its success probability. ``low`` and ``high``: Wilson's 95% interval, for which the models count as a
        sample of what a refit may give. ``all``: the probability to succeed under all of them. ``se``: Monte Carlo
        error of ``survival``, zero for a decision.

    Examples
    --------
    ``gbce.Explainer.survival(explanation, models)`` asks the models and calls this.
    """
    weight, n_models = draws.distinct[1], decided.shape[1]
    share = drawn.mean(axis=1)
    mean = float(weight @ share)
    size = 1.0 / (1.0 / draws.ess + (1.0 / len(draws) if draws.resampled else 0.0))
    values = np.append(decided.mean(axis=1), mean)
    low, high = wilson(values, n_models)
    table = {
        "survival": values,
        "low": low,
        "high": high,
        "all": np.append(decided.all(axis=1).astype(float), float(weight @ drawn.all(axis=1))),
        "se": np.append(np.zeros(len(decided)), np.sqrt(float(weight @ np.square(share - mean)) / size)),
    }
    return pd.DataFrame(table, index=pd.Index([*labels, "posterior"], name="rule", dtype=object))


def wilson(share: Array, n: int | Array, z: float = _Z) -> tuple[Array, Array]:
    """Return Wilson's interval of shares of ``n`` trials; at shares of 0 and 1 it still has a width.

    Of a mean of figures between zero and one it is at least as wide as it has to be: none varies more than a verdict.
    """
    share = np.asarray(share, dtype=float)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
