"""Where a feature crosses the thresholds of a model: exact to the last bit, through whatever comes before the trees.

What comes before them treats every column by itself and is a rising or falling function of each number, so the crossing
of every threshold is found by halving, in the order of floating-point numbers, all of them at once.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space import Space
from gbce.trees._cells import CellTrees, Nodes
from gbce.trees._scores import TreeScores
from gbce.trees._structure import ModelStructure

__all__ = ["Crossings", "Cuts", "find_crossings", "make_boxes", "read_cells"]

# --- from nodes to leaves --------------------------------------------------------------------------------------------


class Cuts(NamedTuple):
    """Cells of features, and what every node asks of them; see :class:`CellTrees`."""

    edges: tuple[Array, ...]
    low: Array
    high: Array
    nodes: Nodes
    set_features: Array


class _Paths(NamedTuple):
    """Ways from roots down to nodes, one in a row, and the cells that go there; see :class:`CellTrees`."""

    at: Array
    tree: Array
    first: Array
    last: Array
    missing: Array
    sets: Array

    def pick(self, which: Array) -> "_Paths":
        return _Paths(*(part[which] for part in self))


def make_boxes(inside: ModelStructure, parts: TreeScores, cuts: Cuts) -> CellTrees:
    """Go down all trees at once and return the leaves with what they hold."""
    nodes = cuts.nodes
    n_cells = np.array([len(edges) + 1 for edges in cuts.edges])
    book = {j: _SetBook(int(n_cells[j]) + 1) for j in cuts.set_features.tolist()}
    paths, done = _start(nodes.roots, n_cells, len(book)), []
    while len(paths.at):
        is_leaf = nodes.feature[paths.at] < 0
        done.append(paths.pick(is_leaf))
        paths = _go_down(nodes, paths.pick(~is_leaf), n_cells, book)
    leaves = _Paths(*(np.concatenate(part) for part in zip(*done, strict=True)))
    leaves = leaves.pick(np.argsort(leaves.tree, kind="stable"))
    possible = np.asarray(((leaves.first <= leaves.last) | leaves.missing).all(axis=1))
    for s, own in enumerate(book.values()):
        possible &= np.any(own.table(), axis=1)[leaves.sets[:, s]]
    leaves = leaves.pick(possible)
    return CellTrees(
        inside=inside, edges=cuts.edges, low=cuts.low, high=cuts.high, first=leaves.first, last=leaves.last,
        missing=leaves.missing, set_features=cuts.set_features, set_of=leaves.sets,
        allowed=tuple(own.table() for own in book.values()), tree=leaves.tree, value=parts.share[leaves.at],
        base=parts.base, epsilon=parts.epsilon, nodes=nodes,
    )  # fmt: skip


def _start(roots: Array, n_cells: Array, n_sets: int) -> _Paths:
    """Return the roots, where all cells go."""
    kind = np.int16 if n_cells.max(initial=1) < np.iinfo(np.int16).max - 1 else np.int32
    shape = (len(roots), len(n_cells))
    last = np.tile((n_cells - 1).astype(kind), (len(roots), 1))
    sets = np.zeros((len(roots), n_sets), dtype=np.int32)
    return _Paths(roots, np.arange(len(roots)), np.zeros(shape, dtype=kind), last, np.ones(shape, dtype=bool), sets)


def _go_down(nodes: Nodes, paths: _Paths, n_cells: Array, book: "dict[int, _SetBook]") -> _Paths:
    """Return both ways on from every node, those to the left first."""
    at, n = paths.at, len(paths.at)
    feature, rows = nodes.feature[at], np.arange(n)
    both = _Paths(*(np.concatenate([part, part]) for part in paths))
    ordered = np.flatnonzero(nodes.group[at] < 0)
    own, cut = feature[ordered], np.clip(nodes.cut[at], -1, n_cells[feature] - 1)[ordered].astype(both.first.dtype)
    both.last[ordered, own] = np.minimum(both.last[ordered, own], cut)
    both.first[n + ordered, own] = np.maximum(both.first[n + ordered, own], cut + 1)
    gap = nodes.missing_left[at]
    both.missing[rows, feature] &= gap
    both.missing[n + rows, feature] &= ~gap
    for s, (j, sets) in enumerate(book.items()):
        mine = np.flatnonzero((feature == j) & (nodes.group[at] >= 0))
        goes_left = nodes.sets[nodes.group[at[mine]], : sets.width]
        both.sets[mine, s] = sets.narrow(both.sets[mine, s], goes_left)
        both.sets[n + mine, s] = sets.narrow(both.sets[n + mine, s], ~goes_left)
    return both._replace(at=np.concatenate([nodes.left[at], nodes.right[at]]))


class _SetBook:
    """Sets of cells of one feature by number; the first is all of them."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: list[Array] = [np.ones(width, dtype=bool)]
        self._number = {self._rows[0].tobytes(): 0}

    def narrow(self, sets: Array, to: Array) -> Array:
        """Return numbers of the sets ``(m,)`` that are left of others when only cells ``to`` ``(m, width)`` are."""
        kept = self.table()[sets] & to
        packed, which = np.unique(np.packbits(kept, axis=1), axis=0, return_inverse=True)
        numbers = np.empty(len(packed), dtype=np.int32)
        for i, bits in enumerate(packed):
            row = np.unpackbits(bits, count=self.width).astype(bool)
            numbers[i] = self._number.setdefault(row.tobytes(), len(self._rows))
            if numbers[i] == len(self._rows):
                self._rows.append(row)
        return numbers[which.ravel()]

    def table(self) -> Array:
        """Return all sets ``(n_sets, width)``."""
        return np.array(self._rows)


# --- where a feature crosses the thresholds of a model ---------------------------------------------------------------

_MOST_HALVINGS = 66  # of the 2^64 floating-point numbers
_LOW_BITS = np.int64(0x7FFFFFFFFFFFFFFF)


class Crossings(NamedTuple):
    """For thresholds ``(P,)`` of columns: the largest value of the feature that comes before the crossing.

    ``edge`` ``(P,)`` is infinite where no crossing is known: minus where all values lie behind it, plus where they lie
    before it. ``rising`` ``(P,)``: whether what comes before it is at most the threshold; otherwise what comes behind.
    """

    edge: Array
    rising: Array


def find_crossings(
    inside: ModelStructure,
    base: Array,
    low: Array,
    high: Array,
    whole: Array,
    feature: Array,
    column: Array,
    threshold: Array,
) -> Crossings | None:
    """Find where features cross thresholds.

    Parameters
    ----------
    inside : Inside
        With the way from rows to columns.
    base : array of shape (d,)
        A row without missing values in these features.
    low, high : arrays of shape (d,)
        Between these is searched.
    whole : bool array of shape (d,)
        Features that take whole numbers only.
    feature, column : int arrays of shape (P,)
        Which feature decides which column.
    threshold : array of shape (P,)
        In the column.

    Returns
    -------
    Crossings or None
        None if a column is neither rising nor falling nor constant, or is not a number.
    """
    if len(feature) == 0:
        return Crossings(np.zeros(0), np.zeros(0, dtype=bool))
    rank = _rank(feature)

    def image(value: Array) -> Array:
        rows = np.repeat(base[None, :], int(rank.max()) + 1, axis=0)
        rows[rank, feature] = value
        return np.asarray(inside.parts.rounded(inside.columns(rows))[rank, column])

    left, right = low[feature], high[feature]
    at_left, at_right = image(left), image(right)
    if np.isnan(at_left).any() or np.isnan(at_right).any():
        return None
    rising = at_left <= at_right
    before_left = (at_left <= threshold) == rising  # whether the lower end comes before the crossing
    before_right = (at_right <= threshold) == rising
    edge = np.where(before_left & before_right, np.inf, -np.inf)
    crossed = before_left & ~before_right
    if not crossed.any():
        return Crossings(edge, rising)
    guess = _guess(threshold, bool(inside.parts.single), whole[feature], left, right)
    guess = np.where(crossed, guess, left)
    above = np.where(whole[feature], np.minimum(guess + 1.0, right), np.nextafter(guess, np.inf))
    fits = ((image(guess) <= threshold) == rising) & ~((image(np.where(crossed, above, left)) <= threshold) == rising)
    if (fits | ~crossed).all():  # the columns are the features themselves
        return Crossings(np.where(crossed, guess, edge), rising)
    whole_ones = whole[feature]
    a, b = _as_integers(left, whole_ones), _as_integers(right, whole_ones)
    for _ in range(_MOST_HALVINGS):
        if not (crossed & (b - 1 > a)).any():
            break
        middle = (a & b) + ((a ^ b) >> np.int64(1))
        value = np.where(crossed, _as_floats(middle, whole_ones), left)
        seen = image(value)
        if np.isnan(seen).any():
            return None
        before = (seen <= threshold) == rising
        a, b = np.where(before, middle, a), np.where(before, b, middle)
    return Crossings(np.where(crossed, _as_floats(a, whole_ones), edge), rising)


def _rank(feature: Array) -> Array:
    """Return for each entry how many before it are of the same feature ``(P,)``."""
    order = np.argsort(feature, kind="stable")
    of_sorted = feature[order]
    start = np.searchsorted(of_sorted, of_sorted, side="left")
    rank = np.empty(len(feature), dtype=int)
    rank[order] = np.arange(len(feature)) - start
    return rank


def _guess(threshold: Array, is_single: bool, whole: Array, low: Array, high: Array) -> Array:
    """Return the crossings ``(P,)`` if columns are the features themselves, rounded to single precision or not."""
    if not is_single:
        return np.clip(np.where(whole, np.floor(threshold), threshold), low, high)
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
        single = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
        middle = (single.astype(float) + np.nextafter(single, np.float32(np.inf)).astype(float)) / 2.0
        edge = np.where(middle.astype(np.float32) <= threshold, middle, np.nextafter(middle, -np.inf))
    return np.clip(np.where(whole, np.floor(threshold), edge), low, high)


def _as_integers(x: Array, whole: Array) -> Array:
    """Return numbers as integers of the same order; those of whole numbers are themselves."""
    bits = np.ascontiguousarray(x, dtype=float).view(np.int64)
    ordered = np.where(bits >= 0, bits, bits ^ _LOW_BITS)
    return np.where(whole, np.where(whole, x, 0.0).astype(np.int64), ordered)


def _as_floats(keys: Array, whole: Array) -> Array:
    """Return the numbers of :func:`_as_integers`."""
    bits = np.where(keys >= 0, keys, keys ^ _LOW_BITS)
    return np.where(whole, keys.astype(float), np.ascontiguousarray(bits).view(float))


# --- from what was read of a model to cells --------------------------------------------------------------------------

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


def read_cells(inside: ModelStructure | None, space: Space, rows: Array) -> CellTrees | None:
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
    >>> from gbce.trees import read_structure
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = RandomForestRegressor(10, random_state=0).fit(x, x.sum(axis=1))
    >>> trees = read_cells(read_structure(model, Space.real(2)), Space.real(2), x)
    >>> bool(np.allclose(trees.scores(trees.cells(x))[:, 0], model.predict(x)))
    True
    """
    if inside is None or not isinstance(inside.parts, TreeScores) or len(rows) == 0:
        return None
    try:
        return _read(inside, inside.parts, space, np.asarray(rows, dtype=float))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # of a model's own preparation of rows it never saw
        return None


def _read(inside: ModelStructure, parts: TreeScores, space: Space, rows: Array) -> CellTrees | None:
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


def _domain(inside: ModelStructure, space: Space, rows: Array, j: int) -> _Domain | None:
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
    inside: ModelStructure, space: Space, rows: Array, base: Array, domains: list[_Domain]
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
    inside: ModelStructure,
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
