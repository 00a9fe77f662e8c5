"""The trees of scikit-learn, LightGBM and XGBoost as one table of nodes; None for what is not read here."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors._score_parts import TreeScores

__all__ = ["read_lightgbm", "read_sklearn_trees", "read_xgboost"]

_SINGLE_EPSILON = float(np.finfo(np.float32).eps)
_LIGHTGBM_ZERO = float(np.float32(1e-35))  # its kZeroThreshold: a number that is not larger is left out, as a zero


class _Tree(NamedTuple):
    """The nodes of one tree, numbered from zero; see :class:`TreeScores`."""

    column: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    value: Array


class ReadTrees(NamedTuple):
    """Scores, and what makes outputs of them."""

    scores: TreeScores
    link: str


def _stack(trees: Sequence[_Tree], base: Array, single: bool, epsilon: float) -> TreeScores:
    sizes = np.array([len(tree.column) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(int)
    offset = np.repeat(roots, sizes)
    joined = [np.concatenate([tree[i] for tree in trees]) for i in range(len(_Tree._fields))]
    column = joined[0].astype(int)
    follow = [np.where(column >= 0, joined[i] + offset, 0).astype(int) for i in (2, 3)]
    return TreeScores(
        column=column,
        threshold=joined[1].astype(float),
        left=follow[0],
        right=follow[1],
        missing_left=joined[4].astype(bool),
        value=joined[5].astype(float),
        roots=roots,
        base=np.asarray(base, dtype=float),
        single=single,
        epsilon=epsilon,
    )


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def read_sklearn_trees(model: Any) -> ReadTrees | None:
    """Return the trees of a stock estimator of scikit-learn."""
    name, epsilon = type(model).__name__, float(np.finfo(float).eps)
    if not type(model).__module__.startswith(("sklearn.tree.", "sklearn.ensemble.")):
        return None
    if name.startswith("HistGradientBoosting"):
        return _read_histograms(model)
    if getattr(model, "n_outputs_", 1) > 1:
        return None
    if name.startswith(("DecisionTree", "ExtraTreeR", "ExtraTreeC")):
        tree = _sklearn_tree(model, 1.0)
        return ReadTrees(_stack([tree], np.zeros(tree.value.shape[1]), True, epsilon), "identity")
    if name.startswith(("RandomForestR", "RandomForestC", "ExtraTreesR", "ExtraTreesC")):
        trees = [_sklearn_tree(one, 1.0 / len(model.estimators_)) for one in model.estimators_]
        return ReadTrees(_stack(trees, np.zeros(trees[0].value.shape[1]), True, epsilon), "identity")
    return _read_gradient_boosting(model) if name.startswith("GradientBoosting") else None


def _sklearn_tree(estimator: Any, factor: float, output: int = 0, n_outputs: int | None = None) -> _Tree:
    tree = estimator.tree_
    inner = tree.children_left >= 0
    value = factor * tree.value[:, 0, :]
    if n_outputs is not None:
        value = _in_column(value[:, 0], output, n_outputs)
    missing = getattr(tree, "missing_go_to_left", np.zeros(len(inner), dtype=bool)).astype(bool)
    column = np.where(inner, tree.feature, -1)
    return _Tree(column, tree.threshold, tree.children_left, tree.children_right, missing, value)


def _in_column(values: Array, output: int, n_outputs: int) -> Array:
    """Return values ``(N,)`` as one of several columns, zeros elsewhere."""
    table = np.zeros((len(values), n_outputs))
    table[:, output] = values
    return table


def _read_gradient_boosting(model: Any) -> ReadTrees | None:
    start = model.init_
    if not (isinstance(start, str) or type(start).__name__ in ("DummyRegressor", "DummyClassifier")):
        return None
    base = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_))), dtype=float)[0]
    trees = [
        _sklearn_tree(one, float(model.learning_rate), k, len(base))
        for stage in model.estimators_
        for k, one in enumerate(stage)
    ]
    link = "identity"
    if hasattr(model, "classes_"):
        if model.loss != "log_loss":
            return None
        link = "logistic" if len(base) == 1 else "softmax"
    return ReadTrees(_stack(trees, base, True, float(np.finfo(float).eps)), link)


def _read_histograms(model: Any) -> ReadTrees | None:
    if getattr(model, "is_categorical_", None) is not None:
        return None
    link = {"IdentityLink": "identity", "LogLink": "exp", "LogitLink": "logistic", "MultinomialLogit": "softmax"}.get(
        type(model._loss.link).__name__
    )
    base = np.asarray(model._baseline_prediction, dtype=float).ravel()
    if link is None:
        return None
    trees = []
    for stage in model._predictors:
        for k, one in enumerate(stage):
            nodes = one.nodes
            column = np.where(nodes["is_leaf"] > 0, -1, nodes["feature_idx"].astype(int))
            value = _in_column(nodes["value"], k, len(base))
            missing = nodes["missing_go_to_left"] > 0
            trees.append(_Tree(column, nodes["num_threshold"], nodes["left"], nodes["right"], missing, value))
    return ReadTrees(_stack(trees, base, False, float(np.finfo(float).eps)), link)


# --- LightGBM ---------------------------------------------------------------------------------------------------------


def read_lightgbm(booster: Any) -> ReadTrees | None:
    """Return the trees of a ``lightgbm.Booster`` without categories, linear leaves or zeros that count as missing."""
    dump = booster.dump_model()
    said = str(dump.get("objective", "")).split()
    links = {"regression": "identity", "regression_l1": "identity", "huber": "identity", "fair": "identity"}
    links |= {"quantile": "identity", "mape": "identity", "poisson": "exp", "gamma": "exp", "tweedie": "exp"}
    links |= {"binary": "logistic", "multiclass": "softmax"}
    link = links.get(said[0] if said else "")
    if link is None or "sqrt" in said or dump.get("average_output", False):
        return None
    n_outputs = int(dump.get("num_tree_per_iteration", 1))
    steep = float(next((part.split(":")[1] for part in said if part.startswith("sigmoid:")), "1"))
    trees = []
    for number, one in enumerate(dump["tree_info"]):
        tree = _lightgbm_tree(one["tree_structure"], number % n_outputs, n_outputs, steep)
        if tree is None:
            return None
        trees.append(tree)
    scores = _stack(trees, np.zeros(n_outputs), False, float(np.finfo(float).eps))
    return ReadTrees(replace(scores, zero=_LIGHTGBM_ZERO), link)


def _lightgbm_tree(root: dict[str, Any], output: int, n_outputs: int, steep: float) -> _Tree | None:
    nodes: list[tuple[int, float, int, int, bool, float]] = []
    queue = [(root, -1, False)]
    links: dict[int, list[int]] = {}
    while queue:
        node, parent, is_left = queue.pop()
        here = len(nodes)
        if parent >= 0:
            links.setdefault(parent, [0, 0])[0 if is_left else 1] = here
        if "split_feature" not in node:
            if "leaf_coeff" in node:
                return None
            nodes.append((-1, 0.0, 0, 0, False, float(node["leaf_value"])))
            continue
        missing, threshold = node["missing_type"], node["threshold"]
        if node["decision_type"] != "<=" or missing not in ("None", "NaN"):
            return None
        left = bool(node["default_left"]) if missing == "NaN" else threshold >= 0.0  # otherwise a gap is read as zero
        nodes.append((int(node["split_feature"]), float(threshold), 0, 0, left, 0.0))
        queue += [(node["left_child"], here, True), (node["right_child"], here, False)]
    table = [np.array(part) for part in zip(*nodes, strict=True)]
    for here, (left_at, right_at) in links.items():
        table[2][here], table[3][here] = left_at, right_at
    column, threshold, left_child, right_child, missing_left, value = table
    value = _in_column(steep * value, output, n_outputs)
    return _Tree(column, threshold, left_child, right_child, missing_left, value)


# --- XGBoost ----------------------------------------------------------------------------------------------------------


def read_xgboost(booster: Any, n_rounds: int | None = None) -> ReadTrees | None:
    """Return the trees of an ``xgboost.Booster`` without categories or dropped trees; the first rounds if so told."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    links = {"reg:squarederror": "identity", "reg:absoluteerror": "identity", "reg:pseudohubererror": "identity"}
    links |= {"count:poisson": "exp", "reg:gamma": "exp", "reg:tweedie": "exp"}
    links |= {"binary:logistic": "logistic", "multi:softprob": "softmax", "multi:softmax": "softmax"}
    link = links.get(learner["objective"]["name"])
    if link is None or learner["gradient_booster"]["name"] != "gbtree":
        return None
    model = learner["gradient_booster"]["model"]
    if "weight_drop" in model:  # dropout, which xgboost 3.4 counts among the options of plain trees
        return None
    n_outputs = max(1, int(learner["learner_model_param"]["num_class"]))
    base = np.array(json.loads(f"[{learner['learner_model_param']['base_score'].strip('[]')}]"), dtype=float)
    base = np.full(n_outputs, base[0]) if len(base) == 1 else base
    if link == "exp":
        base = np.log(base)
    elif link == "logistic":
        base = np.log(base / (1.0 - base))
    per_round = n_outputs * max(1, int(model["gbtree_model_param"].get("num_parallel_tree", 1)))
    trees = []
    for number, one in enumerate(model["trees"]):
        if n_rounds is not None and number >= n_rounds * per_round:
            break
        if one["categories_nodes"] or int(one["tree_param"].get("size_leaf_vector", 1)) > 1:
            return None
        left, right = np.array(one["left_children"]), np.array(one["right_children"])
        cut = np.array(one["split_conditions"], dtype=np.float32)
        inner = left >= 0
        below = np.nextafter(cut, np.float32(-np.inf))  # less than the cut goes left
        value = _in_column(np.where(inner, 0.0, cut.astype(float)), model["tree_info"][number], n_outputs)
        column = np.where(inner, np.array(one["split_indices"]), -1)
        missing = np.array(one["default_left"]).astype(bool)
        trees.append(_Tree(column, below.astype(float), left, right, missing, value))
    return ReadTrees(_stack(trees, base, True, _SINGLE_EPSILON), link)
