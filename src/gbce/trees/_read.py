"""From what was read of a model to cells: which feature decides which column, where it is cut, what a leaf holds."""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors import Inside, TreeScores
from gbce.space import Space
from gbce.trees._boxes import Cuts, make_boxes
from gbce.trees._cells import CellTrees, Nodes
from gbce.trees._edges import find_crossings

__all__ = ["read_cells"]

_MOST_NUMBERS = 100_000_000  # ends of leaves' boxes, two of two bytes or four: under a gigabyte
_MOST_LEVELS = 1_000  # of a whole-number column that the model reads as levels; by hand
_PROBES = 64  # rows of the data that are looked at to see what a feature decides; by hand
_FAR = 1e3  # ranges beyond the data in which thresholds are looked for, where there are no bounds; by hand


class _Column(NamedTuple):
    """What a feature makes of one column: its cells' values where these are listed, and what a missing value becomes.

    ``listed`` ``(a,)`` is None for a column that follows a number; ``missing`` is NaN where a gap stays one.
    """

    feature: int
    listed: Array | None
    missing: float


class _Domain(NamedTuple):
    """Between which values a feature's cells are looked for, and which are listed one by one."""

    low: float
    high: float
    listed: Array | None


def read_cells(inside: Inside | None, space: Space, rows: Array) -> CellTrees | None:
    """Return a tree ensemble on cells of a space's features; None for any other model, or where cells are not known.

    Parameters
    ----------
    inside : Inside or None
        What was read of the model.
    space : Space
        The features.
    rows : array of shape (n, d)
        Encoded rows of the data: what features can be where there are no bounds.

    Returns
    -------
    CellTrees or None
        Whoever uses it must have seen that ``inside`` gives the model's own outputs.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from gbce.predictors import look_inside
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = RandomForestRegressor(10, random_state=0).fit(x, x.sum(axis=1))
    >>> trees = read_cells(look_inside(model, Space.real(2)), Space.real(2), x)
    >>> bool(np.allclose(trees.scores(trees.cells(x))[:, 0], model.predict(x)))
    True
    """
    if inside is None or not isinstance(inside.parts, TreeScores) or len(rows) == 0:
        return None
    try:
        return _read(inside, inside.parts, space, np.asarray(rows, dtype=float))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # of a model's own preparation of rows it never saw
        return None


def _read(inside: Inside, parts: TreeScores, space: Space, rows: Array) -> CellTrees | None:
    n_leaves = int((parts.column < 0).sum())
    if n_leaves * len(space) > _MOST_NUMBERS:
        return None
    domains = [_domain(inside, space, rows, j) for j in range(len(space))]
    if any(domain is None for domain in domains):
        return None
    known = [domain for domain in domains if domain is not None]
    base = _full_row(rows, known)
    columns = _owners(inside, space, rows, base, known)
    if columns is None:
        return None
    cuts = _cut(inside, parts, space, base, known, columns)
    if cuts is None:
        return None
    return make_boxes(inside, parts, cuts)


def _domain(inside: Inside, space: Space, rows: Array, j: int) -> _Domain | None:
    """Return what a feature can be; None for one that the model reads as levels and that has no end."""
    feature, seen = space.features[j], rows[:, j][~np.isnan(rows[:, j])]
    if feature.leveled:
        listed = np.arange(float(len(feature.levels or ())))
        return _Domain(0.0, float(max(len(listed) - 1, 0)), listed)
    least, most = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 0.0)
    low = least if feature.low is None else min(feature.low, least)
    high = most if feature.high is None else max(feature.high, most)
    if j in inside.stepwise:
        if not feature.discrete or high - low >= _MOST_LEVELS:
            return None
        return _Domain(low, high, low + np.arange(round(high - low) + 1.0))
    wide = _FAR * max(high - low, float(space.scale[j]))
    if feature.discrete:
        wide = float(np.ceil(wide))
    if feature.kind != "datetime":  # dates end soon
        low = low - wide if feature.low is None else low
        high = high + wide if feature.high is None else high
    return _Domain(low, high, None)


def _full_row(rows: Array, domains: list[_Domain]) -> Array:
    """Return a row of the data with something known in every feature."""
    base = rows[int(np.argmin(np.isnan(rows).sum(axis=1)))].copy()
    for j in np.flatnonzero(np.isnan(base)).tolist():
        seen = rows[:, j][~np.isnan(rows[:, j])]
        base[j] = seen[0] if len(seen) else domains[j].low
    return base


def _owners(
    inside: Inside, space: Space, rows: Array, base: Array, domains: list[_Domain]
) -> "tuple[dict[int, _Column], Array] | None":
    """Return which feature decides each column, and the base's columns ``(C,)``; None if two decide one."""
    missing = np.isnan(rows).any(axis=0) | np.asarray(space.may_become_missing)
    missing |= np.array([feature.missing is not None for feature in space.features])
    trials: list[Array] = []
    for j, domain in enumerate(domains):
        if domain.listed is not None:
            tried = domain.listed
        else:
            seen = np.unique(rows[:_PROBES, j][~np.isnan(rows[:_PROBES, j])])
            tried = np.concatenate([[domain.low, domain.high], seen])
        trials.append(np.append(tried, np.nan) if missing[j] else tried)
    starts = 1 + np.concatenate([[0], np.cumsum([len(one) for one in trials])]).astype(int)
    probes = np.repeat(base[None, :], starts[-1], axis=0)
    for j, tried in enumerate(trials):
        probes[starts[j] : starts[j + 1], j] = tried
    exact = inside.columns(probes)
    made = inside.parts.rounded(exact)
    owners: dict[int, _Column] = {}
    for j, domain in enumerate(domains):
        own = slice(starts[j], starts[j + 1])
        same = (exact[own] == exact[0]) | (np.isnan(exact[own]) & np.isnan(exact[0]))
        for c in np.flatnonzero(~same.all(axis=0)).tolist():
            if c in owners:
                return None
            images = made[own, c]
            n = len(images) - bool(missing[j])
            listed = images[:n] if domain.listed is not None else None
            owners[c] = _Column(j, listed, float(images[n]) if missing[j] else np.nan)
    return owners, made[0]


def _cut(
    inside: Inside,
    parts: TreeScores,
    space: Space,
    base: Array,
    domains: list[_Domain],
    columns: "tuple[dict[int, _Column], Array]",
) -> Cuts | None:
    """Find the cells and translate every node; None where a column does not follow its feature up or down."""
    owners, constant = columns
    d, n = len(domains), len(parts.column)
    inner = np.flatnonzero(parts.column >= 0)
    asked, cut_at = parts.column[inner], parts.threshold[inner]
    owner = np.array([owners[c].feature if c in owners else -1 for c in range(len(constant))], dtype=int)
    is_set = np.array([domain.listed is not None for domain in domains], dtype=bool)
    # thresholds of numbers, each once
    numeric = (owner[asked] >= 0) & ~is_set[np.maximum(owner[asked], 0)]
    if np.isnan(cut_at[numeric]).any():  # codes of categories that are not listed
        return None
    pairs, of_pair = _unique_pairs(asked[numeric], cut_at[numeric])
    low, high = np.array([one.low for one in domains]), np.array([one.high for one in domains])
    whole = np.array([feature.discrete for feature in space.features], dtype=bool)
    pair_feature = owner[pairs[0].astype(int)]
    found = find_crossings(inside, base, low, high, whole, pair_feature, pairs[0].astype(int), pairs[1])
    if found is None:
        return None
    edge = np.where(whole[pair_feature], found.edge + 0.5, found.edge) if len(pair_feature) else found.edge
    edges, reach_low, reach_high = [], np.full(d, -np.inf), np.full(d, np.inf)
    for j, domain in enumerate(domains):
        if domain.listed is not None:
            edges.append(domain.listed[:-1] + 0.5)
            reach_low[j], reach_high[j] = domain.low, domain.high
            continue
        own = edge[(pair_feature == j) & np.isfinite(pairs[1])]  # nothing lies beyond an infinite threshold
        edges.append(np.unique(own[np.isfinite(own)]))
        if (own == -np.inf).any():  # cut somewhere below what was looked at
            reach_low[j] = domain.low
        if (own == np.inf).any():
            reach_high[j] = domain.high
    # nodes
    feature, group = np.full(n, -1), np.full(n, -1)
    cut, flip, gap = np.zeros(n, dtype=int), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    feature[inner] = np.maximum(owner[asked], 0)
    gap_value = np.array([owners[c].missing if c in owners else constant[c] for c in range(len(constant))])
    gap[inner] = parts.goes_left(inner, gap_value[asked])
    here = inner[numeric]
    pair_cut = np.zeros(len(edge), dtype=int)
    for j in range(d):
        own = np.flatnonzero(pair_feature == j)
        pair_cut[own] = np.searchsorted(edges[j], edge[own], side="left")
        pair_cut[own] = np.where(edge[own] == -np.inf, -1, pair_cut[own])
    cut[here] = pair_cut[of_pair]
    flip[here] = ~found.rising[of_pair]
    nobody = inner[owner[asked] < 0]  # a column that nothing changes
    goes = parts.goes_left(nobody, constant[parts.column[nobody]])
    cut[nobody] = np.where(goes, np.iinfo(np.int32).max, -1)
    gap[nobody] = goes
    sets = _sets(parts, inner[~numeric & (owner[asked] >= 0)], owners, domains, group)
    left, right = np.where(flip, parts.right, parts.left), np.where(flip, parts.left, parts.right)
    nodes = Nodes(
        feature=feature, cut=cut, group=group, missing_left=gap ^ flip, left=left, right=right,
        value=parts.value, divisor=parts.divisor, roots=parts.roots, sets=sets,
    )  # fmt: skip
    return Cuts(tuple(edges), reach_low, reach_high, nodes, np.unique(feature[group >= 0]))


def _unique_pairs(column: Array, threshold: Array) -> tuple[tuple[Array, Array], Array]:
    """Return different pairs of column and threshold, each ``(P,)``, and which pair every node has."""
    if len(column) == 0:
        return (np.zeros(0), np.zeros(0)), np.zeros(0, dtype=int)
    order = np.lexsort((threshold, column))
    c, t = column[order], threshold[order]
    new = np.r_[True, (c[1:] != c[:-1]) | (t[1:] != t[:-1])]
    place = np.empty(len(column), dtype=int)
    place[order] = np.cumsum(new) - 1
    return (c[new], t[new]), place


def _sets(parts: TreeScores, at: Array, owners: dict[int, _Column], domains: list[_Domain], group: Array) -> Array:
    """Return which cells of listed features go left, one row for each question that nodes ask; fill in ``group``."""
    if len(at) == 0:
        return np.zeros((0, 1), dtype=bool)
    width = 1 + max(len(domain.listed) for domain in domains if domain.listed is not None)
    rows: dict[bytes, int] = {}
    table: list[Array] = []
    cut = parts.threshold[at]
    if parts.set_of is not None:  # a column is asked for thresholds or for sets, never for both
        cut = np.where(parts.set_of[at] >= 0, parts.set_of[at], cut)
    question = 2 * _unique_pairs(parts.column[at], cut)[1] + parts.missing_left[at]
    for one in np.unique(question).tolist():
        mine = at[question == one]
        own = owners[int(parts.column[mine[0]])]
        images = np.append(own.listed if own.listed is not None else [], own.missing)
        goes = np.zeros(width, dtype=bool)
        goes[: len(images)] = parts.goes_left(np.full(len(images), mine[0]), images)
        key = goes.tobytes()
        if key not in rows:
            rows[key] = len(table)
            table.append(goes)
        group[mine] = rows[key]
    return np.array(table)
