"""Readers of scikit-learn's tree ensembles: trees, forests, bagging, boosting, AdaBoost and isolation forests."""

from typing import Any

import numpy as np

from gbce.base import Array
from gbce.trees._scores import DOUBLE, ReadTrees, Tree, as_matrix, place_in_column, stack_trees

__all__ = ["read_sklearn_trees"]

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
