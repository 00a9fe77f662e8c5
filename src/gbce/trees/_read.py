"""Translation of a model's trees from thresholds on its columns to cells of the encoded features.

Preprocessing acts on every column separately and is monotone in each number, so the value at which a feature crosses a
threshold is found by bisection over floating-point numbers, exact to the last bit and for all thresholds at once.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space import Space, list_values
from gbce.trees._cells import CellTrees, Nodes
from gbce.trees._scores import TreeScores
from gbce.trees._structure import ModelStructure

_MOST_NUMBERS = 100_000_000  # leaves times features, two or four bytes for each end: under a gigabyte
_MOST_LEVELS = 1_000  # values of an integer column that the model reads as levels; hand-tuned
_PROBES = 64  # data rows used to find which columns a feature determines; hand-tuned
_FAR = 1e3  # search range beyond the data for unbounded features, in units of the data's range; hand-tuned
_MOST_HALVINGS = 66  # enough for all 2^64 floating-point numbers
_LOW_BITS = np.int64(0x7FFFFFFFFFFFFFFF)

# --- from nodes to leaves --------------------------------------------------------------------------------------------


class Cuts(NamedTuple):
    """Cells of features and the nodes translated to them; see :class:`CellTrees`."""

    edges: tuple[Array, ...]
    low: Array
    high: Array
    nodes: Nodes
    set_features: Array


class _Paths(NamedTuple):
    """Paths from roots down to nodes, one per row, with the cells that take them; see :class:`CellTrees`."""

    at: Array
    tree: Array
    first: Array
    last: Array
    missing: Array
    sets: Array

    def pick(self, which: Array) -> "_Paths":
        """Select some of the paths."""
        return _Paths(*(part[which] for part in self))


def make_boxes(structure: ModelStructure, parts: TreeScores, cuts: Cuts) -> CellTrees:
    """Traverse all trees at once and return the leaves as boxes of cells."""
    nodes = cuts.nodes
    n_cells = np.array([len(edges) + 1 for edges in cuts.edges])
    set_tables = {j: _SetTable(int(n_cells[j]) + 1) for j in cuts.set_features.tolist()}
    paths, done = _start_paths(nodes.roots, n_cells, len(set_tables)), []
    while len(paths.at):
        is_leaf = nodes.feature[paths.at] < 0
        done.append(paths.pick(is_leaf))
        paths = _go_down(nodes, paths.pick(~is_leaf), n_cells, set_tables)
    leaves = _Paths(*(np.concatenate(part) for part in zip(*done, strict=True)))
    leaves = leaves.pick(np.argsort(leaves.tree, kind="stable"))
    possible = np.asarray(((leaves.first <= leaves.last) | leaves.missing).all(axis=1))
    for s, own in enumerate(set_tables.values()):
        possible &= np.any(own.table(), axis=1)[leaves.sets[:, s]]
    leaves = leaves.pick(possible)
    return CellTrees(
        inside=structure, edges=cuts.edges, low=cuts.low, high=cuts.high, first=leaves.first, last=leaves.last,
        missing=leaves.missing, set_features=cuts.set_features, set_of=leaves.sets,
        allowed=tuple(own.table() for own in set_tables.values()), tree=leaves.tree, value=parts.share[leaves.at],
        base=parts.base, epsilon=parts.epsilon, nodes=nodes,
    )  # fmt: skip


def _start_paths(roots: Array, n_cells: Array, n_sets: int) -> _Paths:
    """Return the paths at the roots, taken by all cells."""
    kind = np.int16 if n_cells.max(initial=1) < np.iinfo(np.int16).max - 1 else np.int32
    shape = (len(roots), len(n_cells))
    last = np.tile((n_cells - 1).astype(kind), (len(roots), 1))
    sets = np.zeros((len(roots), n_sets), dtype=np.int32)
    return _Paths(roots, np.arange(len(roots)), np.zeros(shape, dtype=kind), last, np.ones(shape, dtype=bool), sets)


def _go_down(nodes: Nodes, paths: _Paths, n_cells: Array, set_tables: "dict[int, _SetTable]") -> _Paths:
    """Return the paths to both children of every node, the left ones first."""
    at, n = paths.at, len(paths.at)
    feature, rows = nodes.feature[at], np.arange(n)
    both = _Paths(*(np.concatenate([part, part]) for part in paths))
    ordered = np.flatnonzero(nodes.group[at] < 0)
    own, cut = feature[ordered], np.clip(nodes.cut[at], -1, n_cells[feature] - 1)[ordered].astype(both.first.dtype)
    both.last[ordered, own] = np.minimum(both.last[ordered, own], cut)
    both.first[n + ordered, own] = np.maximum(both.first[n + ordered, own], cut + 1)
    missing_left = nodes.missing_left[at]
    both.missing[rows, feature] &= missing_left
    both.missing[n + rows, feature] &= ~missing_left
    for s, (j, sets) in enumerate(set_tables.items()):
        mine = np.flatnonzero((feature == j) & (nodes.group[at] >= 0))
        goes_left = nodes.sets[nodes.group[at[mine]], : sets.width]
        both.sets[mine, s] = sets.narrow(both.sets[mine, s], goes_left)
        both.sets[n + mine, s] = sets.narrow(both.sets[n + mine, s], ~goes_left)
    return both._replace(at=np.concatenate([nodes.left[at], nodes.right[at]]))


class _SetTable:
    """Distinct sets of cells of one feature, numbered; the first contains all cells."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: list[Array] = [np.ones(width, dtype=bool)]
        self._number = {self._rows[0].tobytes(): 0}

    def narrow(self, sets: Array, to: Array) -> Array:
        """Return the numbers of sets ``(m,)`` after intersection with cells ``to`` ``(m, width)``."""
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


# --- crossings of thresholds -----------------------------------------------------------------------------------------


class Crossings(NamedTuple):
    """Where features cross thresholds ``(P,)``.

    ``edge`` ``(P,)`` is the largest feature value before the crossing: minus infinity if all values lie behind it, plus
    infinity if all lie before it. ``rising`` ``(P,)`` is whether values before the crossing are at most the threshold.
    """

    edge: Array
    rising: Array


def find_crossings(
    structure: ModelStructure,
    base: Array,
    low: Array,
    high: Array,
    is_integer: Array,
    feature: Array,
    column: Array,
    threshold: Array,
) -> Crossings | None:
    """Find where features cross thresholds; None if a column is not monotone or not a number.

    ``feature``, ``column`` and ``threshold``, each ``(P,)``, are what is crossed; ``base`` ``(d,)`` is a row without
    missing values in these features, and ``low`` and ``high`` ``(d,)`` are the search intervals.
    """
    if len(feature) == 0:
        return Crossings(np.zeros(0), np.zeros(0, dtype=bool))
    occurrence = _occurrence_index(feature)

    def image(value: Array) -> Array:
        rows = np.repeat(base[None, :], int(occurrence.max()) + 1, axis=0)
        rows[occurrence, feature] = value
        return np.asarray(structure.parts.rounded(structure.columns(rows))[occurrence, column])

    left, right = low[feature], high[feature]
    at_left, at_right = image(left), image(right)
    if np.isnan(at_left).any() or np.isnan(at_right).any():
        return None
    rising = at_left <= at_right
    before_left = (at_left <= threshold) == rising  # whether the lower end lies before the crossing
    before_right = (at_right <= threshold) == rising
    edge = np.where(before_left & before_right, np.inf, -np.inf)
    crossed = before_left & ~before_right
    if not crossed.any():
        return Crossings(edge, rising)
    guess = _guess_crossings(threshold, bool(structure.parts.single), is_integer[feature], left, right)
    guess = np.where(crossed, guess, left)
    above = np.where(is_integer[feature], np.minimum(guess + 1.0, right), np.nextafter(guess, np.inf))
    fits = ((image(guess) <= threshold) == rising) & ~((image(np.where(crossed, above, left)) <= threshold) == rising)
    if (fits | ~crossed).all():  # the columns equal the features
        return Crossings(np.where(crossed, guess, edge), rising)
    of_integer = is_integer[feature]
    a, b = _as_integers(left, of_integer), _as_integers(right, of_integer)
    for _ in range(_MOST_HALVINGS):
        if not (crossed & (b - 1 > a)).any():
            break
        middle = (a & b) + ((a ^ b) >> np.int64(1))
        value = np.where(crossed, _as_floats(middle, of_integer), left)
        seen = image(value)
        if np.isnan(seen).any():
            return None
        before = (seen <= threshold) == rising
        a, b = np.where(before, middle, a), np.where(before, b, middle)
    return Crossings(np.where(crossed, _as_floats(a, of_integer), edge), rising)


def _occurrence_index(feature: Array) -> Array:
    """Return for each entry how many earlier ones have the same feature ``(P,)``."""
    order = np.argsort(feature, kind="stable")
    of_sorted = feature[order]
    start = np.searchsorted(of_sorted, of_sorted, side="left")
    occurrence = np.empty(len(feature), dtype=int)
    occurrence[order] = np.arange(len(feature)) - start
    return occurrence


def _guess_crossings(threshold: Array, is_single: bool, is_integer: Array, low: Array, high: Array) -> Array:
    """Return the crossings ``(P,)`` if columns equal the features, possibly rounded to single precision."""
    if not is_single:
        return np.clip(np.where(is_integer, np.floor(threshold), threshold), low, high)
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
        single = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
        middle = (single.astype(float) + np.nextafter(single, np.float32(np.inf)).astype(float)) / 2.0
        edge = np.where(middle.astype(np.float32) <= threshold, middle, np.nextafter(middle, -np.inf))
    return np.clip(np.where(is_integer, np.floor(threshold), edge), low, high)


def _as_integers(x: Array, is_integer: Array) -> Array:
    """Map floats to integers of the same order; integer features map to themselves."""
    bits = np.ascontiguousarray(x, dtype=float).view(np.int64)
    ordered = np.where(bits >= 0, bits, bits ^ _LOW_BITS)
    return np.where(is_integer, np.where(is_integer, x, 0.0).astype(np.int64), ordered)


def _as_floats(keys: Array, is_integer: Array) -> Array:
    """Invert :func:`_as_integers`."""
    bits = np.where(keys >= 0, keys, keys ^ _LOW_BITS)
    return np.where(is_integer, keys.astype(float), np.ascontiguousarray(bits).view(float))


# --- from a model structure to cells ---------------------------------------------------------------------------------


class _Column(NamedTuple):
    """A column determined by a feature.

    ``listed`` ``(a,)`` has the column's value in each cell of an enumerated feature, None for a number; ``missing`` is
    the column's value for a missing one, NaN if it stays missing.
    """

    feature: int
    listed: Array | None
    missing: float


class _Domain(NamedTuple):
    """Interval in which a feature's cells are searched, and its values if they are enumerated."""

    low: float
    high: float
    listed: Array | None


def read_cells(structure: ModelStructure | None, space: Space, rows: Array) -> CellTrees | None:
    """Return a tree ensemble on cells of the features; None for other models, or if cells cannot be found.

    ``rows`` ``(n, d)`` are encoded data rows, for features without bounds. Callers must check that ``structure``
    reproduces the model's own outputs.
    """
    if structure is None or not isinstance(structure.parts, TreeScores) or len(rows) == 0:
        return None
    try:
        return _translate(structure, structure.parts, space, np.asarray(rows, dtype=float))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # from the model's preprocessing of unseen rows
        return None


def _translate(structure: ModelStructure, parts: TreeScores, space: Space, rows: Array) -> CellTrees | None:
    """Translate trees to cells; may raise what the model's preprocessing raises."""
    n_leaves = int((parts.column < 0).sum())
    if n_leaves * len(space) > _MOST_NUMBERS:
        return None
    domains = [_find_domain(structure, space, rows, j) for j in range(len(space))]
    if any(domain is None for domain in domains):
        return None
    known = [domain for domain in domains if domain is not None]
    base = _complete_row(rows, known)
    columns = _find_owners(structure, space, rows, base, known)
    if columns is None:
        return None
    cuts = _translate_nodes(structure, parts, space, base, known, columns)
    if cuts is None:
        return None
    return make_boxes(structure, parts, cuts)


def _find_domain(structure: ModelStructure, space: Space, rows: Array, j: int) -> _Domain | None:
    """Return the domain of a feature; None if the model reads it as levels and it is unbounded."""
    feature, seen = space.features[j], rows[:, j][~np.isnan(rows[:, j])]
    if feature.leveled:
        listed = np.arange(float(len(feature.levels or ())))
        return _Domain(0.0, float(max(len(listed) - 1, 0)), listed)
    least, most = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 0.0)
    low = least if feature.low is None else min(feature.low, least)
    high = most if feature.high is None else max(feature.high, most)
    if j in structure.stepwise:
        values = list_values(feature, low, high, _MOST_LEVELS)
        return None if values is None else _Domain(low, high, values)
    wide = _FAR * max(high - low, float(space.scale[j]))
    if feature.discrete:
        wide = float(np.ceil(wide))
    if feature.kind != "datetime":  # the range of dates is limited
        low = low - wide if feature.low is None else low
        high = high + wide if feature.high is None else high
    return _Domain(low, high, None)


def _complete_row(rows: Array, domains: list[_Domain]) -> Array:
    """Return a data row with missing values filled in."""
    base = rows[int(np.argmin(np.isnan(rows).sum(axis=1)))].copy()
    for j in np.flatnonzero(np.isnan(base)).tolist():
        seen = rows[:, j][~np.isnan(rows[:, j])]
        base[j] = seen[0] if len(seen) else domains[j].low
    return base


def _find_owners(
    structure: ModelStructure, space: Space, rows: Array, base: Array, domains: list[_Domain]
) -> "tuple[dict[int, _Column], Array] | None":
    """Return the feature of each column, and the columns ``(C,)`` of the base row; None if two features share one."""
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
    exact = structure.columns(probes)
    made = structure.parts.rounded(exact)
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


def _translate_nodes(
    structure: ModelStructure,
    parts: TreeScores,
    space: Space,
    base: Array,
    domains: list[_Domain],
    columns: "tuple[dict[int, _Column], Array]",
) -> Cuts | None:
    """Find the cells and translate every node; None if a column is not monotone in its feature."""
    owners, constant = columns
    d, n = len(domains), len(parts.column)
    inner = np.flatnonzero(parts.column >= 0)
    split_column, split_threshold = parts.column[inner], parts.threshold[inner]
    owner = np.array([owners[c].feature if c in owners else -1 for c in range(len(constant))], dtype=int)
    is_set = np.array([domain.listed is not None for domain in domains], dtype=bool)
    # distinct thresholds of numbers
    numeric = (owner[split_column] >= 0) & ~is_set[np.maximum(owner[split_column], 0)]
    if np.isnan(split_threshold[numeric]).any():  # category codes that are not enumerated
        return None
    pairs, of_pair = _unique_pairs(split_column[numeric], split_threshold[numeric])
    low, high = np.array([one.low for one in domains]), np.array([one.high for one in domains])
    is_integer = np.array([feature.discrete for feature in space.features], dtype=bool)
    pair_feature = owner[pairs[0].astype(int)]
    found = find_crossings(structure, base, low, high, is_integer, pair_feature, pairs[0].astype(int), pairs[1])
    if found is None:
        return None
    edge = np.where(is_integer[pair_feature], found.edge + 0.5, found.edge) if len(pair_feature) else found.edge
    edges, reach_low, reach_high = [], np.full(d, -np.inf), np.full(d, np.inf)
    for j, domain in enumerate(domains):
        if domain.listed is not None:
            edges.append(domain.listed[:-1] + 0.5)
            reach_low[j], reach_high[j] = domain.low, domain.high
            continue
        own = edge[(pair_feature == j) & np.isfinite(pairs[1])]  # no value lies beyond an infinite threshold
        edges.append(np.unique(own[np.isfinite(own)]))
        if (own == -np.inf).any():  # some threshold lies below the search interval
            reach_low[j] = domain.low
        if (own == np.inf).any():
            reach_high[j] = domain.high
    # nodes
    feature, group = np.full(n, -1), np.full(n, -1)
    cut, flip, missing_left = np.zeros(n, dtype=int), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    feature[inner] = np.maximum(owner[split_column], 0)
    missing_value = np.array([owners[c].missing if c in owners else constant[c] for c in range(len(constant))])
    missing_left[inner] = parts.goes_left(inner, missing_value[split_column])
    here = inner[numeric]
    pair_cut = np.zeros(len(edge), dtype=int)
    for j in range(d):
        own = np.flatnonzero(pair_feature == j)
        pair_cut[own] = np.searchsorted(edges[j], edge[own], side="left")
        pair_cut[own] = np.where(edge[own] == -np.inf, -1, pair_cut[own])
    cut[here] = pair_cut[of_pair]
    flip[here] = ~found.rising[of_pair]
    constant_nodes = inner[owner[split_column] < 0]  # a constant column
    goes_left = parts.goes_left(constant_nodes, constant[parts.column[constant_nodes]])
    cut[constant_nodes] = np.where(goes_left, np.iinfo(np.int32).max, -1)
    missing_left[constant_nodes] = goes_left
    sets = _list_sets(parts, inner[~numeric & (owner[split_column] >= 0)], owners, domains, group)
    left, right = np.where(flip, parts.right, parts.left), np.where(flip, parts.left, parts.right)
    nodes = Nodes(
        feature=feature, cut=cut, group=group, missing_left=missing_left ^ flip, left=left, right=right,
        value=parts.value, divisor=parts.divisor, roots=parts.roots, sets=sets,
    )  # fmt: skip
    return Cuts(tuple(edges), reach_low, reach_high, nodes, np.unique(feature[group >= 0]))


def _unique_pairs(column: Array, threshold: Array) -> tuple[tuple[Array, Array], Array]:
    """Return the distinct pairs of column and threshold, each ``(P,)``, and the pair of every node."""
    if len(column) == 0:
        return (np.zeros(0), np.zeros(0)), np.zeros(0, dtype=int)
    order = np.lexsort((threshold, column))
    c, t = column[order], threshold[order]
    new = np.r_[True, (c[1:] != c[:-1]) | (t[1:] != t[:-1])]
    place = np.empty(len(column), dtype=int)
    place[order] = np.cumsum(new) - 1
    return (c[new], t[new]), place


def _list_sets(parts: TreeScores, at: Array, owners: dict[int, _Column], domains: list[_Domain], group: Array) -> Array:
    """Return which cells of enumerated features go left, one row per distinct split, and fill in ``group``."""
    if len(at) == 0:
        return np.zeros((0, 1), dtype=bool)
    width = 1 + max(len(domain.listed) for domain in domains if domain.listed is not None)
    rows: dict[bytes, int] = {}
    table: list[Array] = []
    cut = parts.threshold[at]
    if parts.set_of is not None:  # a column has thresholds or sets, never both
        cut = np.where(parts.set_of[at] >= 0, parts.set_of[at], cut)
    split_number = 2 * _unique_pairs(parts.column[at], cut)[1] + parts.missing_left[at]
    for one in np.unique(split_number).tolist():
        mine = at[split_number == one]
        own = owners[int(parts.column[mine[0]])]
        images = np.append(own.listed if own.listed is not None else [], own.missing)
        goes_left = np.zeros(width, dtype=bool)
        goes_left[: len(images)] = parts.goes_left(np.full(len(images), mine[0]), images)
        key = goes_left.tobytes()
        if key not in rows:
            rows[key] = len(table)
            table.append(goes_left)
        group[mine] = rows[key]
    return np.array(table)
