"""How much several models disagree about a posterior, and where."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import ROUNDS_TO_ZERO, TINY
from gbce._validation import printable
from gbce.base import Array
from gbce.draws import Draws
from gbce.metrics._distributional import expectation, success_probability
from gbce.space import Space

__all__ = ["Disagreement", "disagreement", "disagreement_sentence"]

# Differences that the sentence names must be clear and large; both limits were chosen by hand, and no table or decision
# depends on them.
_CLEAR = 3.0  # standard errors: by chance alone 0.3% of differences are larger
_LARGE = 0.2  # in units of the feature's scale, or as a probability


@dataclass(frozen=True, eq=False)
class Disagreement:
    """How much models disagree among the draws of a posterior, and where.

    Parameters
    ----------
    overall : Series
        ``differ``: probability that the verdicts on a draw are not all the same. ``pair``: probability that two
        different models, picked by their weights, give different verdicts. ``spread``: mean over draws of the standard
        deviation between the models' outputs, over the standard deviation of the first model's output among the
        draws. The first two again as ``*_se``.
    pairs : DataFrame
        By pair of models: ``differ`` and ``se``.
    where : DataFrame
        By feature that can move, the one that tells most first: mean value on draws about which the models ``agree``
        and about which they ``differ``, the ``difference`` in units of the feature's scale, and its error ``se``. Of
        a category: the share of the ``level`` whose share differs most.
    sentence : str
        The same in words.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> models = [lambda x: x[:, 0], lambda x: x[:, 0] + np.maximum(x[:, 1], 0)]
    >>> explainer = gbce.Explainer(models, data, space=gbce.Space.real(2))
    >>> found = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0), rules=[], seed=0).disagreement()
    >>> found.where.index[0], found.pairs.shape
    ('x2', (1, 2))
    """

    overall: pd.Series
    pairs: pd.DataFrame
    where: pd.DataFrame
    sentence: str

    def __str__(self) -> str:
        return printable(self.sentence)


def disagreement(draws: Draws, space: Space, free: Array, models: tuple[str, ...], weights: Array) -> Disagreement:
    """Compare the verdicts and outputs of models with weights ``(K,)`` on the draws; those of weight zero are left out.

    ``free`` has the positions ``(m,)`` of the features that can move.
    """
    draws = draws.read
    counted, reached, differ = _verdicts(draws, weights)
    outputs = draws.pool.outputs[:, counted]
    share = weights[counted] / weights[counted].sum()
    overall = success_probability(draws, differ)
    yes = reached @ share
    # a model agrees with itself: such pairs are left out
    pair = expectation(draws, 2.0 * yes * (1.0 - yes) / max(1.0 - float(np.square(share).sum()), TINY))
    first = outputs[draws.index, 0]
    own = float(np.sqrt(draws.weights @ np.square(first - draws.weights @ first)))
    between = draws.mean(np.sqrt(np.square(outputs - (outputs @ share)[:, None]) @ share))
    names = [models[k] for k in counted]
    pairs: dict[Any, Any] = {
        (names[a], names[b]): success_probability(draws, reached[:, a] != reached[:, b])
        for a, b in combinations(range(len(names)), 2)
    }
    where = _locate_disagreement(draws, space, free, differ)
    return Disagreement(
        overall=pd.Series(
            {
                "differ": overall.value,
                "differ_se": overall.se,
                "pair": pair.value,
                "pair_se": pair.se,
                "spread": float(between) / own if own > 0 else float("nan"),
            },
            name="value",
        ),
        pairs=pd.DataFrame(
            [(figure.value, figure.se) for figure in pairs.values()],
            columns=["differ", "se"],
            index=pd.MultiIndex.from_tuples(list(pairs), names=["model", "other"]),
        ),
        where=where,
        sentence=_sentence(overall.value, bool(reached[draws.index].all()), where),
    )


def disagreement_sentence(draws: Draws, space: Space, free: Array, weights: Array) -> str:
    """Return the sentence alone, without looking at pairs of models."""
    draws = draws.read
    _, reached, differ = _verdicts(draws, weights)
    where = _locate_disagreement(draws, space, free, differ)
    return _sentence(float(draws.mean(differ.astype(float))), bool(reached[draws.index].all()), where)


def _verdicts(draws: Draws, weights: Array) -> tuple[Array, Array, Array]:
    """Return which models count ``(k,)``, their verdicts on the pool ``(N, k)``, and where these differ ``(N,)``."""
    counted = np.flatnonzero(weights > 0)
    if len(counted) < 2:
        raise ValueError(
            "disagreement needs at least two models with weights above zero: give gbce.Explainer a list of models"
        )
    reached = draws.pool.reached[:, counted]
    return counted, reached, np.asarray(reached.any(axis=1) & ~reached.all(axis=1))


def _locate_disagreement(draws: Draws, space: Space, free: Array, differ: Array) -> pd.DataFrame:
    """Return, by feature, how draws with and without disagreement differ; no line if all draws are of one sort."""
    columns = ["difference", "se", "agree", "differ", "level"]
    among_draws = differ[draws.index]
    if len(free) == 0 or among_draws.all() or not among_draws.any():
        return pd.DataFrame(columns=columns, index=pd.Index([], name="feature", dtype=object))
    lines = {space.names[j]: _compare_feature(draws, space, int(j), differ) for j in free}
    table = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("feature")
    # beside texts, pandas 3 reads None as a missing text, which is NaN
    table["level"] = pd.Series([line[-1] for line in lines.values()], index=table.index, dtype=object)
    order = table["difference"].abs().fillna(-1.0).to_numpy(dtype=float).argsort(kind="stable")[::-1]
    return table.iloc[order]


def _compare_feature(draws: Draws, space: Space, j: int, differ: Array) -> tuple[Any, ...]:
    feature, column = space.features[j], draws.pool.x[:, j]
    known = ~np.isnan(column)
    if not feature.unordered:
        line = _mean_gap(draws, np.where(known, column, 0.0), known, differ)
        return (line[0] / feature.scale, line[1] / feature.scale, *line[2:], None)
    levels = [
        (_mean_gap(draws, (column == code).astype(float), known, differ), level)
        for code, level in enumerate(feature.levels or ())
    ]
    line, level = max(levels, key=lambda found: abs(np.nan_to_num(found[0][0])))
    return (*line, level)


def _mean_gap(draws: Draws, values: Array, known: Array, differ: Array) -> tuple[float, float, float, float]:
    """Compare the means of known values ``(N,)`` with and without disagreement: difference, its error, both means."""
    means, influence = [], np.zeros(len(values))
    for sign, group in ((-1.0, ~differ & known), (1.0, differ & known)):
        mass = float(draws.mean(group.astype(float)))
        if mass == 0:
            return (float("nan"),) * 4
        mean = float(draws.mean(np.where(group, values, 0.0))) / mass
        influence += sign * np.where(group, values - mean, 0.0) / mass
        means.append(mean)
    return means[1] - means[0], float(draws.standard_error(influence)), means[0], means[1]


def _sentence(differ: float, all_reach: bool, where: pd.DataFrame) -> str:
    if differ == 0:
        return "the models agree about every draw" + (": all reach the target" if all_reach else "")
    percent = "less than 1" if differ < ROUNDS_TO_ZERO else f"{100 * differ:.0f}"
    text = f"the models disagree about {percent}% of the draws"
    if len(where) == 0:
        return text
    name, top = where.index[0], where.iloc[0]
    size = abs(float(top["difference"]))
    if not (size > _LARGE and size > _CLEAR * float(top["se"])):
        return f"{text}, much alike everywhere"
    if top["level"] is not None:
        return f"{text}; most where {name} is {'' if top['difference'] > 0 else 'not '}{top['level']}"
    return f"{text}; most where {name} is {'high' if top['difference'] > 0 else 'low'}"
