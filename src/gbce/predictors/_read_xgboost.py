"""The trees of XGBoost, from the JSON that a booster writes of itself; None for what is not read here."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._read_trees import SINGLE, ReadTrees, Tree, as_matrix, codes_in, in_column, stack_trees

__all__ = ["read_xgboost"]

_SAME = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
_LINKS = {
    **dict.fromkeys(_SAME, "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
    "binary:logistic": "logistic",
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
}
_WORDS_BY_BYTES = (3, 4)  # the first version seen to keep words that are not ASCII; 3.2 was seen not to
_NO_CODE = -1.0  # a negative code is none, however small


def read_xgboost(booster: Any, n_rounds: int | None = None) -> ReadTrees | None:
    """Return the trees of an ``xgboost.Booster``, of the first rounds if so told."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    link = _LINKS.get(learner["objective"]["name"])
    booster_part = learner["gradient_booster"]
    weights = booster_part.get("weight_drop")
    booster_part = booster_part.get("gbtree", booster_part)  # that of dropout is around another
    if link is None or "model" not in booster_part or "trees" not in booster_part["model"]:
        return None
    model = booster_part["model"]
    weights = model.get("weight_drop", weights)  # xgboost 3.4 counts dropout among the options of plain trees
    n_outputs = max(1, int(learner["learner_model_param"]["num_class"]))
    if int(learner["learner_model_param"].get("num_target", 1)) > 1:
        return None
    base = np.array(json.loads(f"[{learner['learner_model_param']['base_score'].strip('[]')}]"), dtype=float)
    base = np.full(n_outputs, base[0]) if len(base) == 1 else base
    if link == "exp":
        base = np.log(base)
    elif link == "logistic":
        base = np.log(base / (1.0 - base))
    per_round = n_outputs * max(1, int(model["gbtree_model_param"].get("num_parallel_tree", 1)))
    count = len(model["trees"]) if n_rounds is None else n_rounds * per_round
    if any(int(one["tree_param"].get("size_leaf_vector", 1)) > 1 for one in model["trees"]):
        return None
    trees = [_tree(one, model["tree_info"][number], n_outputs) for number, one in enumerate(model["trees"][:count])]
    if weights is not None:
        trees = [tree._replace(value=factor * tree.value) for tree, factor in zip(trees, weights, strict=False)]
    types = learner.get("feature_types") or []
    by_code = [c for c, kind in enumerate(types) if kind == "c"]
    scores = stack_trees(trees, base, True, SINGLE)
    known = {c: _kept(one) for c, one in enumerate((model.get("cats") or {}).get("enc") or [])}
    if any(len(set(words)) < len(words) for words in known.values()):  # see _recoded: it cannot tell them apart itself
        return None
    return ReadTrees(scores, link, _coder(by_code, known))


def _tree(one: dict[str, Any], output: int, n_outputs: int) -> Tree:
    left, right = np.array(one["left_children"]), np.array(one["right_children"])
    cut = np.array(one["split_conditions"], dtype=np.float32)
    inner = left >= 0
    below = np.nextafter(cut, np.float32(-np.inf)).astype(float)  # less than the cut goes left
    value = in_column(np.where(inner, 0.0, cut.astype(float)), output, n_outputs)
    column = np.where(inner, np.array(one["split_indices"]), -1)
    missing = np.array(one["default_left"]).astype(bool)
    tree = Tree(column, below, left, right, missing, value)
    asking = np.array(one["categories_nodes"], dtype=int)
    if len(asking) == 0:
        return tree
    categories = np.array(one["categories"], dtype=int)
    sets, set_of = np.ones((len(asking), int(categories.max()) + 2), dtype=bool), np.full(len(column), -1)
    for number, node in enumerate(asking):  # the categories of a set go right, all others left
        first, size = one["categories_segments"][number], one["categories_sizes"][number]
        sets[number, categories[first : first + size]] = False
        set_of[node] = number
    return tree._replace(threshold=np.where(set_of >= 0, np.nan, below), set_of=set_of, sets=sets)


def _coder(by_code: list[int], known: dict[int, list[Any]]) -> Callable[[Any], Array]:
    """Return what turns rows into columns: categorical ones of a frame have the codes of the training data."""

    def columns(rows: Any) -> Array:
        codes = {}
        if isinstance(rows, pd.DataFrame):
            coded = [c for c, kind in enumerate(rows.dtypes) if isinstance(kind, pd.CategoricalDtype)]
            codes = {c: _recoded(rows.iloc[:, c], known.get(c)) for c in coded}
        table = as_matrix(rows, codes)
        for c in by_code:
            table[:, c] = np.where(table[:, c] < 0, _NO_CODE, table[:, c])
        return table

    return columns


def _kept(one: dict[str, Any]) -> list[Any]:
    """Return the categories of a column in the order of their codes; none where the model does not keep them."""
    values = one.get("values") or []
    return _parts(bytes(value % 256 for value in values), one["offsets"]) if "offsets" in one else list(values)


def _parts(text: bytes, edges: Any) -> list[Any]:
    return [text[a:b] for a, b in pairwise(edges)]


def _recoded(column: pd.Series, known: list[Any] | None) -> Array:
    """Return the codes of a categorical column, those of the training data where the model keeps its categories."""
    own = codes_in(column)
    if not known:
        return own
    levels = column.cat.categories.tolist()
    if isinstance(known[0], bytes):
        levels = _as_bytes(levels)
    places = {level: float(code) for code, level in enumerate(known)}
    table = np.array([*(places.get(level, np.nan) for level in levels), np.nan])
    return table[np.where(np.isnan(own), -1, own).astype(int)]


def _as_bytes(words: list[str]) -> list[Any]:
    """Return words as XGBoost tells them apart: older ones cut the bytes of all words at their lengths in letters."""
    import xgboost

    if tuple(map(int, xgboost.__version__.split(".")[:2])) >= _WORDS_BY_BYTES:
        return [word.encode() for word in words]
    return _parts("".join(words).encode(), np.cumsum([0, *map(len, words)]))
