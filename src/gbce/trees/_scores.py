"""Scores of a model as a sum over trees or a linear function of its columns, and the readers of scikit-learn's trees.

:class:`TreeScores` holds the nodes of all trees in flat arrays; readers build it from a :class:`Tree` per tree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array

# Relative rounding errors of sums.
DOUBLE = float(np.finfo(float).eps)
SINGLE = float(np.finfo(np.float32).eps)
_MOST_AT_ONCE = 4_000_000  # leaf values summed at once: 32 MB; hand-tuned

# --- scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Scores that are a sum over trees: ``N`` nodes, ``T`` trees, ``K`` scores; arrays are ``(N,)`` unless noted.

    A value of ``column`` (-1 for a leaf) up to ``threshold`` goes ``left``, or a category in the row ``set_of`` of
    ``sets`` ``(S, M + 1)`` if that is not -1: which codes below M, and last whether any other. A column has thresholds
    or sets, never both; one with sets holds codes 0, 1, ... ``value`` ``(N, K)`` is what a leaf adds to each score; the
    nodes of a tree begin at ``roots`` ``(T,)``, and scores at ``base`` ``(K,)``. ``single`` is whether columns are
    first rounded to single precision, ``epsilon`` the relative rounding error of the model's own sums, and numbers up
    to ``zero`` are read as zero. Sums are divided by ``divisor`` in the end, as a forest does, so that tied votes stay
    equal.
    """

    column: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    value: Array
    roots: Array
    base: Array
    single: bool = False
    epsilon: float = float(np.finfo(float).eps)
    zero: float = 0.0
    set_of: Array | None = None
    sets: Array | None = None
    divisor: float = 1.0

    @property
    def origin(self) -> str:
        """Basis of a proof about these scores, in words."""
        n = len(self.roots)
        return f"from all {n:,} trees" if n > 1 else "from the tree"

    @property
    def share(self) -> Array:
        """Contribution of a leaf to each score ``(N, K)``."""
        return self.value if self.divisor == 1.0 else self.value / self.divisor

    @cached_property
    def set_columns(self) -> Array:
        """Columns with splits on sets of categories."""
        if self.set_of is None:
            return np.zeros(0, dtype=int)
        return np.unique(self.column[self.set_of >= 0])

    def rounded(self, columns: Array) -> Array:
        """Return columns as the trees read them: single precision, tiny numbers as zero, codes as integers."""
        if self.single:
            with np.errstate(over="ignore"):
                columns = columns.astype(np.float32).astype(float)
        elif self.zero:
            columns = np.where(np.abs(columns) <= self.zero, 0.0, columns)
        if len(self.set_columns):
            columns = columns.copy()
            columns[:, self.set_columns] = np.trunc(columns[:, self.set_columns])
        return columns

    def scores(self, columns: Array) -> Array:
        """Return scores ``(n, K)`` of rows ``(n, C)``."""
        x = self.rounded(np.asarray(columns, dtype=float))
        step = max(1, _MOST_AT_ONCE // max(1, len(self.roots) * len(self.base)))
        sums = [self.value[self._find_leaves(x[i : i + step])].sum(axis=1) for i in range(0, len(x), step)]
        return self.base + np.concatenate(sums) / self.divisor if sums else np.zeros((0, len(self.base)))

    def _find_leaves(self, x: Array) -> Array:
        """Return the leaves ``(n, T)`` of rounded rows."""
        n_trees = len(self.roots)
        at = np.tile(self.roots, len(x))
        alive = np.flatnonzero(self.column[at] >= 0)
        while len(alive):
            here = at[alive]
            values_seen = x[alive // n_trees, self.column[here]]
            at[alive] = np.where(self.goes_left(here, values_seen), self.left[here], self.right[here])
            alive = alive[self.column[at[alive]] >= 0]
        return at.reshape(len(x), n_trees)

    def goes_left(self, at: Array, values_seen: Array) -> Array:
        """Return whether rounded values go left at nodes of the same shape."""
        is_missing = np.isnan(values_seen)
        left = np.where(is_missing, self.missing_left[at], values_seen <= self.threshold[at])
        if self.set_of is None or self.sets is None:
            return left
        number, most = self.set_of[at], self.sets.shape[1] - 1
        code = np.where((values_seen >= 0) & (values_seen < most), values_seen, most).astype(int)
        return np.where((number >= 0) & ~is_missing, self.sets[np.maximum(number, 0), code], left)


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores that are linear in the columns: ``weights`` ``(K, C)`` and ``base`` ``(K,)``."""

    weights: Array
    base: Array
    single: bool = False
    epsilon: float = float(np.finfo(float).eps)

    @property
    def origin(self) -> str:
        """Basis of a proof about these scores, in words."""
        return "from the coefficients"

    def rounded(self, columns: Array) -> Array:
        """Return columns as the model reads them."""
        return columns

    def scores(self, columns: Array) -> Array:
        """Return scores ``(n, K)`` of rows ``(n, C)``."""
        return np.asarray(columns @ self.weights.T + self.base)


# --- shared by all readers -------------------------------------------------------------------------------------------


class Tree(NamedTuple):
    """Nodes of one tree, numbered from zero, and its own sets of categories; see :class:`TreeScores`."""

    column: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    value: Array
    set_of: Array | None = None
    sets: Array | None = None


def as_matrix(rows: Any, codes: Mapping[int, Array] | None = None) -> Array:
    """Return model rows as floats ``(n, C)``, with ``codes`` for categorical columns; raise TypeError for strings."""
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if not isinstance(rows, pd.DataFrame):
        array = np.asarray(rows)
        if array.dtype == object and not any(isinstance(one, str | bytes) for one in array.flat):
            return array.astype(float)  # numbers beside booleans, as a ColumnTransformer passes them through
        if array.dtype.kind not in "fiub":
            raise TypeError("strings are not numbers")
        return array.astype(float)
    codes = codes or {}
    kinds = list(rows.dtypes)
    other = [c for c, kind in enumerate(kinds) if c not in codes and not pd.api.types.is_numeric_dtype(kind)]
    if other:
        raise TypeError(f"the columns {[rows.columns[c] for c in other]} are not numeric")
    if not codes:
        return rows.to_numpy(dtype=float, na_value=np.nan)
    table = np.empty(rows.shape)
    for c in range(len(kinds)):
        table[:, c] = codes[c] if c in codes else rows.iloc[:, c].to_numpy(dtype=float, na_value=np.nan)
    return table


def category_codes(values: Any, categories: Any = None) -> Array:
    """Return the codes ``(n,)`` of a categorical column, by these categories or its own; NaN for others."""
    own = pd.Categorical(values)
    found = (own if categories is None else own.set_categories(categories)).codes
    return np.where(found < 0, np.nan, found.astype(float))


class ReadTrees(NamedTuple):
    """Scores of a model, the link to its outputs, and the function from its rows to columns.

    ``sources`` are the positions of the columns in the rows; None if they are in order.
    """

    scores: TreeScores
    link: str
    prepare: Callable[[Any], Array] = as_matrix
    sources: Array | None = None


def place_in_column(values: Array, output: int, n_outputs: int) -> Array:
    """Place values ``(N,)`` in one of several columns, zeros elsewhere."""
    table = np.zeros((len(values), n_outputs))
    table[:, output] = values
    return table


def stack_trees(
    trees: Sequence[Tree], base: Array, single: bool, epsilon: float, zero: float = 0.0, divisor: float = 1.0
) -> TreeScores:
    """Concatenate trees into one table of nodes."""
    sizes = np.array([len(tree.column) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(int)
    offset = np.repeat(roots, sizes)
    column = np.concatenate([tree.column for tree in trees]).astype(int)
    follow = [np.concatenate([tree[i] for tree in trees]).astype(int) for i in (2, 3)]
    for side in follow:
        side += offset
        side[column < 0] = 0
    set_of, sets = _stack_sets(trees)
    return TreeScores(
        column=column,
        threshold=np.concatenate([tree.threshold for tree in trees]).astype(float),
        left=follow[0],
        right=follow[1],
        missing_left=np.concatenate([tree.missing_left for tree in trees]).astype(bool),
        value=np.concatenate([tree.value for tree in trees]).astype(float),
        roots=roots,
        base=np.asarray(base, dtype=float),
        single=single,
        epsilon=epsilon,
        zero=zero,
        set_of=set_of,
        sets=sets,
        divisor=divisor,
    )


def _stack_sets(trees: Sequence[Tree]) -> tuple[Array | None, Array | None]:
    """Return the distinct sets of all trees, and the set of each node."""
    tables = [tree.sets for tree in trees if tree.sets is not None and len(tree.sets)]
    if not tables:
        return None, None
    width = max(table.shape[1] for table in tables)
    # codes beyond a table are its other ones, in the last column
    wide = [
        np.hstack([table[:, :-1], np.repeat(table[:, -1:], width - table.shape[1] + 1, axis=1)]) for table in tables
    ]
    sets, number = np.unique(np.concatenate(wide), axis=0, return_inverse=True)
    number, first, parts = np.append(number.ravel(), -1), 0, []
    for tree in trees:
        own = np.full(len(tree.column), -1) if tree.set_of is None else tree.set_of
        parts.append(number[np.where(own >= 0, own + first, -1)])
        first += 0 if tree.sets is None else len(tree.sets)
    return np.concatenate(parts), sets


# --- scikit-learn's ensembles ----------------------------------------------------------------------------------------

_BITS = 32  # bits of a word in histogram boosting's bitsets of categories that go left
_LINKS = {"IdentityLink": "identity", "LogLink": "exp", "LogitLink": "logistic", "MultinomialLogit": "softmax"}
_EXPONENTIAL_SLOPE = 2.0  # the exponential loss maps twice its score to a probability


def read_sklearn_trees(model: Any) -> ReadTrees | None:
    """Return the trees of a scikit-learn estimator; None if it is not one that is read here."""
    name = type(model).__name__
    if not type(model).__module__.startswith(("sklearn.tree.", "sklearn.ensemble.")):
        return None
    if name.startswith("HistGradientBoosting"):
        return _read_histograms(model)
    if getattr(model, "n_outputs_", 1) > 1:
        return None
    if name in ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"):
        tree = _read_tree(model)
        return ReadTrees(stack_trees([tree], np.zeros(tree.value.shape[1]), True, DOUBLE), "identity")
    if name.startswith(("RandomForestR", "RandomForestC", "ExtraTreesR", "ExtraTreesC")):
        return _average_trees([_read_tree(one) for one in model.estimators_])
    if name.startswith("GradientBoosting"):
        return _read_gradient_boosting(model)
    if name in ("BaggingClassifier", "BaggingRegressor"):
        return _read_bagging(model)
    if name == "IsolationForest":
        return _read_isolation(model)
    return _read_adaboost(model) if name == "AdaBoostClassifier" else None


def _read_tree(estimator: Any, factor: float = 1.0, output: int = 0, n_outputs: int | None = None) -> Tree:
    """Return one fitted tree, with values scaled and, for boosting, placed in one of several outputs."""
    tree = estimator.tree_
    inner = tree.children_left >= 0
    value = factor * tree.value[:, 0, :]
    if n_outputs is not None:
        value = place_in_column(value[:, 0], output, n_outputs)
    missing = getattr(tree, "missing_go_to_left", np.zeros(len(inner), dtype=bool)).astype(bool)
    column = np.where(inner, tree.feature, -1)
    return Tree(column, tree.threshold, tree.children_left, tree.children_right, missing, value)


def _average_trees(trees: list[Tree]) -> ReadTrees:
    """Return an ensemble that sums its trees' outputs and divides at the end."""
    base = np.zeros(trees[0].value.shape[1])
    return ReadTrees(stack_trees(trees, base, True, DOUBLE, divisor=float(len(trees))), "identity")


def _read_gradient_boosting(model: Any) -> ReadTrees | None:
    """Read gradient boosting; None for an initial estimator other than a dummy."""
    start = model.init_
    if not (isinstance(start, str) or type(start).__name__ in ("DummyRegressor", "DummyClassifier")):
        return None
    base = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_))), dtype=float)[0]
    slope, link = 1.0, "identity"
    if hasattr(model, "classes_"):
        if model.loss not in ("log_loss", "exponential"):
            return None
        slope = _EXPONENTIAL_SLOPE if model.loss == "exponential" else 1.0
        link = "logistic" if len(base) == 1 else "softmax"
    trees = [
        _read_tree(one, slope * float(model.learning_rate), k, len(base))
        for stage in model.estimators_
        for k, one in enumerate(stage)
    ]
    return ReadTrees(stack_trees(trees, slope * base, True, DOUBLE), link)


# --- bagging, AdaBoost, isolation forests -----------------------------------------------------------------------------


def _read_bagging(model: Any) -> ReadTrees | None:
    """Read bagging, whose output is the mean over its estimators."""
    classes = getattr(model, "classes_", None)
    trees = []
    for one, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        if not _is_tree(one):
            return None
        tree = _read_tree(one)
        if classes is not None:  # a bootstrap sample may lack a class
            value = np.zeros((len(tree.column), len(classes)))
            value[:, np.asarray(one.classes_, dtype=int)] = tree.value
            tree = tree._replace(value=value)
        trees.append(_map_columns(tree, columns))
    return _average_trees(trees)


def _is_tree(estimator: Any) -> bool:
    """Whether an estimator is a plain decision tree."""
    names = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
    return type(estimator).__module__.startswith("sklearn.tree.") and type(estimator).__name__ in names


def _map_columns(tree: Tree, columns: Array) -> Tree:
    """Map a tree on some columns to all columns."""
    return tree._replace(column=np.where(tree.column >= 0, np.asarray(columns)[tree.column], -1))


def _read_adaboost(model: Any) -> ReadTrees | None:
    """Read AdaBoost, whose trees each add a weight to one class and subtract a share of it from the others."""
    if not all(_is_tree(one) for one in model.estimators_):
        return None
    n_classes = len(model.classes_)
    weights = model.estimator_weights_ / model.estimator_weights_.sum()
    trees = []
    for one, weight in zip(model.estimators_, weights, strict=False):  # weights of unused stages follow
        tree = _read_tree(one)
        voted = np.searchsorted(model.classes_, one.classes_[tree.value.argmax(axis=1)])
        if n_classes == 2:
            value = np.where(voted == 1, 2.0, -2.0)[:, None]
        else:
            value = np.where(voted[:, None] == np.arange(n_classes), 1.0, -1.0 / (n_classes - 1)) / (n_classes - 1)
        trees.append(tree._replace(value=weight * value))
    width = trees[0].value.shape[1]
    link = "logistic" if n_classes == 2 else "softmax"
    return ReadTrees(stack_trees(trees, np.zeros(width), True, DOUBLE), link)


def _read_isolation(model: Any) -> ReadTrees:
    """Read an isolation forest: a row is an inlier (1) if its paths are long enough, otherwise -1."""
    from sklearn.ensemble._iforest import _average_path_length

    usual = len(model.estimators_) * float(_average_path_length([model._max_samples])[0])
    trees = []
    for number, (one, columns) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        length = model._decision_path_lengths[number] + model._average_path_length_per_tree[number] - 1.0
        # the model compares -2 ** -(length / usual) with its offset
        tree = _read_tree(one)
        inner = (tree.column >= 0)[:, None]
        trees.append(
            _map_columns(tree._replace(value=np.where(inner, 0.0, np.log(2.0) * length[:, None] / usual)), columns)
        )
    return ReadTrees(stack_trees(trees, np.log([-model.offset_]), True, DOUBLE), "sign")


# --- histogram boosting ---------------------------------------------------------------------------------------------


def _read_histograms(model: Any) -> ReadTrees | None:
    """Read histogram gradient boosting, including sets of categories."""
    link = _LINKS.get(type(model._loss.link).__name__)
    base = np.asarray(model._baseline_prediction, dtype=float).ravel()
    if link is None:
        return None
    has_categories = getattr(model, "is_categorical_", None) is not None
    known = _known_categories(model) if has_categories else {}
    trees = []
    for stage in model._predictors:
        for k, one in enumerate(stage):
            nodes = one.nodes
            column = np.where(nodes["is_leaf"] > 0, -1, nodes["feature_idx"].astype(int))
            value = place_in_column(nodes["value"], k, len(base))
            missing = nodes["missing_go_to_left"] > 0
            tree = Tree(column, nodes["num_threshold"], nodes["left"], nodes["right"], missing, value)
            trees.append(_add_sets(tree, nodes, one.raw_left_cat_bitsets, known) if has_categories else tree)
    read = ReadTrees(stack_trees(trees, base, False, DOUBLE), link)
    if not has_categories:
        return read
    encoded = np.asarray(model.is_categorical_, dtype=bool)  # these columns come first
    sources = np.concatenate([np.flatnonzero(encoded), np.flatnonzero(~encoded)])
    return read._replace(prepare=lambda rows: as_matrix(model._preprocess_X(rows, reset=False)), sources=sources)


def _known_categories(model: Any) -> dict[int, Array]:
    """Return which codes of each categorical column were seen in training."""
    bitsets, places = model._bin_mapper.make_known_categories_bitsets()
    return {int(c): _unpack_bits(bitsets[places[c]]) for c in np.flatnonzero(model._is_categorical_remapped)}


def _unpack_bits(words: Array) -> Array:
    """Return the bits of words, the lowest first."""
    return ((np.asarray(words)[:, None] >> np.arange(_BITS, dtype=np.uint32)) & 1).astype(bool).ravel()


def _add_sets(tree: Tree, nodes: Array, left_bitsets: Array, known: dict[int, Array]) -> Tree:
    """Add the sets of categories to a tree; categories unseen in training go where missing values go."""
    set_nodes = np.flatnonzero((nodes["is_categorical"] > 0) & (tree.column >= 0))
    if len(set_nodes) == 0:
        return tree
    set_of, rows = np.full(len(tree.column), -1), []
    for number, node in enumerate(set_nodes):
        set_of[node] = number
        left, is_known = _unpack_bits(left_bitsets[nodes["bitset_idx"][node]]), known[int(tree.column[node])]
        other = bool(tree.missing_left[node])
        rows.append(np.append(np.where(is_known, left, left | other), other))
    threshold = np.where(set_of >= 0, np.nan, tree.threshold)
    return tree._replace(threshold=threshold, set_of=set_of, sets=np.array(rows))
