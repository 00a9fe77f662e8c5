"""Every order that the paper's tables show between two of its numbers, and whether it holds here.

Within a table each figure is compared between the rules of a method, between the methods of a rule, and between
DirectOpt and the rules of Gibbs. An order is *the same* if it holds in at least 95% of runs, *contrary* if the opposite
does, and otherwise open. So a result against the paper has its line whether or not somebody thought of it.
"""

from itertools import combinations

import numpy as np
import pandas as pd

from experiments.numbers import Key

__all__ = ["FEW", "MOST", "orders", "resampled"]

MOST, FEW = 0.95, 0.05
_RESAMPLES = 1_000


def resampled(seen: pd.DataFrame) -> pd.DataFrame:
    """Return means over resamples of the base points, the same resamples for every column.

    The resamples are balanced: together they hold each base point equally often, so that their mean is the sample's.
    """
    picks = np.random.default_rng(0).permutation(np.tile(np.arange(len(seen)), _RESAMPLES)).reshape(_RESAMPLES, -1)
    counts = np.stack([np.bincount(pick, minlength=len(seen)) for pick in picks])
    return pd.DataFrame(counts @ seen.to_numpy() / len(seen), columns=seen.columns)


def orders(paper: pd.Series, seen: pd.DataFrame) -> pd.DataFrame:
    """Return one line per pair of numbers that the paper's table sets in an order.

    Parameters
    ----------
    paper : Series
        By method, rule and figure.
    seen : DataFrame
        Ours, one line per run: `experiments.numbers.seen`, or `resampled` where a run is a resample of base points.

    Returns
    -------
    DataFrame
        By figure, smaller and larger (as the paper has them): the paper's two numbers, our two means, the share of
        runs with the opposite order, and "same", "contrary" or "open".
    """
    lines = {}
    for one, other in combinations(paper.index, 2):
        if not _comparable(one, other) or paper[one] == paper[other]:
            continue
        small, large = (one, other) if paper[one] < paper[other] else (other, one)
        opposite = float(np.mean(seen[small] > seen[large]))
        verdict = "contrary" if opposite >= MOST else "same" if np.mean(seen[small] < seen[large]) >= MOST else "open"
        lines[one[2], _name(small), _name(large)] = {
            "paper, smaller": paper[small],
            "paper, larger": paper[large],
            "here, smaller": seen[small].mean(),
            "here, larger": seen[large].mean(),
            "opposite": opposite,
            "order": verdict,
        }
    frame = pd.DataFrame.from_dict(lines, orient="index")
    return frame.set_axis(pd.MultiIndex.from_tuples(frame.index, names=["figure", "smaller", "larger"]))


def _comparable(one: Key, other: Key) -> bool:
    """Whether two numbers are the same figure of one method or of one rule."""
    if one[2] != other[2]:
        return False
    methods = {one[0], other[0]}
    return len(methods) == 1 or one[1] == other[1] or methods == {"DirectOpt", "Gibbs"}


def _name(key: Key) -> str:
    return key[0] if key[1] in ("---", "posterior") else f"{key[0]} {key[1]}"
