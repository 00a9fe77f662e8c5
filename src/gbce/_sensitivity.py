"""Input change: how far a posterior moves when its row moves a little."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gbce._seeds import JUDGING, seed_number, stream
from gbce._weights import Array
from gbce.draws import Draws
from gbce.explanation import Explanation
from gbce.noise import Noise, offsets, require_noise
from gbce.space import Places, Space

__all__ = ["Sensitivity", "energy_distance", "sensitivity"]

_MOST = 2_000  # draws of each posterior that are compared


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How far a posterior moves with its row, beside how far it moves from run to run.

    Parameters
    ----------
    table : DataFrame
        One line per run: the ``row`` that was explained ("same" or "moved"), how far it ``moved``, the energy
        ``distance`` of its posterior from the first run's, the ``shift`` of the posterior mean, all in units of each
        feature's scale, and its ``success_probability``.
    sentence : str
        The same in words.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> found = explainer.sensitivity(data[0], gbce.AtLeast(2), noise=0.3, n_rows=2, n_null=1, seed=0)
    >>> found.table["row"].tolist()
    ['same', 'moved', 'moved']
    """

    table: pd.DataFrame
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def sensitivity(
    explained: Callable[[Array, int], Explanation],
    space: Space,
    x0: Array,
    *,
    noise: Noise,
    n_rows: int,
    n_null: int,
    seed: object,
) -> Sensitivity:
    """Explain the row ``(d,)`` and rows near it; see :meth:`gbce.Explainer.sensitivity`.

    ``explained`` gives the explanation of an encoded row at a seed.
    """
    for name, n in (("n_rows", n_rows), ("n_null", n_null)):
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")
    require_noise(noise, space)
    number = seed_number(seed)
    seeds = [seed_number(child) for child in np.random.SeedSequence(number).spawn(1 + n_null + n_rows)]
    near = space.project(x0 + offsets(noise, space, stream(number, JUDGING), n_rows), x0)
    moved = space.distance(near, x0)
    if not (moved > 0).any():
        raise ValueError("no copy of the row moved: give a larger noise, and noise for a feature that can move")
    first = explained(x0, seeds[0])
    lines: list[tuple[str, float, float, float, float]] = []
    for seed_of_run, row, length in zip(
        seeds[1:], [x0] * n_null + list(near), [0.0] * n_null + list(moved), strict=True
    ):
        other = explained(row, seed_of_run)
        distance, shift = _apart(space, first.draws, other.draws)
        success = float(other.distribution["success_probability"])
        lines.append(("same" if len(lines) < n_null else "moved", length, distance, shift, success))
    table = pd.DataFrame(lines, columns=["row", "moved", "distance", "shift", "success_probability"])
    return Sensitivity(table.rename_axis("run"), _sentence(table))


def energy_distance(a: Places, b: Places, a_weights: Array | None = None, b_weights: Array | None = None) -> float:
    """Return the energy distance of two weighted sets of places.

    ``sqrt(2 E|A - B| - E|A - A'| - E|B - B'|)`` (Székely and Rizzo, 2013): zero for equal laws only. Pairs of a point
    with itself are left out, so that it does not depend on the numbers of points; where chance makes it negative under
    the root, it is zero.
    """
    wa = np.full(len(a), 1.0 / len(a)) if a_weights is None else a_weights
    wb = np.full(len(b), 1.0 / len(b)) if b_weights is None else b_weights

    def within(points: Places, weights: Array) -> float:
        others = 1.0 - float(np.square(weights).sum())
        return float(weights @ points.distances(points) @ weights) / others if others > 1e-12 else 0.0

    squared = 2.0 * float(wa @ a.distances(b) @ wb) - within(a, wa) - within(b, wb)
    return float(np.sqrt(max(squared, 0.0)))


def _apart(space: Space, one: Draws, other: Draws) -> tuple[float, float]:
    sets = []
    for draws in (one, other):
        some = np.unique(np.linspace(0, len(draws) - 1, min(len(draws), _MOST)).astype(int))
        sets.append((space.embed(draws.x[some]), draws.weights[some] / draws.weights[some].sum()))
    (a, wa), (b, wb) = sets
    return energy_distance(a, b, wa, wb), a.between(a.centre(wa), b.centre(wb))


def _sentence(table: pd.DataFrame) -> str:
    same, moved = table[table["row"] == "same"], table[table["row"] == "moved"]
    length, shift = float(moved["moved"].median()), float(moved["shift"].median())
    chance = float(same["shift"].max())
    text = (
        f"a row that moves by {length:.2g} moves the posterior mean by {shift:.2g} (medians, in units of each "
        f"feature's scale); two runs at the same row differ by {chance:.2g}"
    )
    if (moved["distance"] > same["distance"].max()).mean() <= 0.5 and shift <= chance:
        return f"{text}: no more than chance"
    if shift > 2.0 * length:
        return f"{text}: the answer moves much farther than the row"
    return f"{text}: the answer moves {'farther than' if shift > 1.1 * length else 'no farther than'} the row"
