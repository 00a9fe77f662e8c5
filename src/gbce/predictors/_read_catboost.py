"""The trees of CatBoost, from the JSON that a model writes of itself; None for what is not read here."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._read_trees import DOUBLE, ReadTrees, Tree, as_matrix, stack_trees

__all__ = ["read_catboost"]

_SAME = ("RMSE", "MAE", "Quantile", "Huber", "Expectile", "MAPE", "Lq")
_LOGARITHMS = ("Poisson", "Tweedie")
_HASHES = 2**32  # that words have; a split keeps one as a number with a sign


def read_catboost(model: Any) -> ReadTrees | None:
    """Return the trees of a CatBoost model on numbers and on words that each have splits of their own."""
    said = _written(model)
    features, loss = said["features_info"], said["model_info"]["params"]["loss_function"]["type"]
    if features.get("text_features") or features.get("embedding_features") or features.get("ctrs"):
        return None
    classes = len(np.asarray(model.classes_))
    scale, bias = said["scale_and_bias"]
    base = np.atleast_1d(np.asarray(bias, dtype=float))
    if classes:
        link = {("Logloss", 1): "logistic", ("CrossEntropy", 1): "logistic", ("MultiClass", classes): "softmax"}.get(
            (loss, len(base))
        )
    else:
        is_regressor = any(cls.__name__ == "CatBoostRegressor" for cls in type(model).__mro__)
        link = "identity" if loss in _SAME else "exp" if loss in _LOGARITHMS and is_regressor else None
    if link is None:
        return None
    asked = _Asked(features)
    if "oblivious_trees" in said:
        trees = [_even(one, asked, float(scale), len(base)) for one in said["oblivious_trees"]]
    else:
        trees = [_uneven(one, asked, float(scale), len(base)) for one in said["trees"]]
    whole = [tree for tree in trees if tree is not None]
    if len(whole) < len(trees) or not trees:
        return None
    return ReadTrees(stack_trees(whole, base, True, DOUBLE), link, _coder(model, asked.hashes))


def _written(model: Any, pool: Any = None) -> Any:
    """Return what the model writes, with the hashes of the words of a pool."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return json.loads(path.read_text(encoding="utf-8"))


class _Asked:
    """What splits ask: columns, borders and the way of missing values, or categories."""

    def __init__(self, features: dict[str, Any]) -> None:
        self.floats = {one["feature_index"]: one for one in features.get("float_features") or []}
        self.words = {one["feature_index"]: one for one in features.get("categorical_features") or []}
        self.hashes = {
            one["flat_feature_index"]: [value % _HASHES for value in one.get("values") or []]
            for one in self.words.values()
        }

    def split(self, one: dict[str, Any]) -> tuple[int, float, bool, int] | None:
        """Return column, threshold, whether a missing value goes left, and the code that goes right or -1."""
        if one["split_type"] == "FloatFeature":
            feature = self.floats[one["float_feature_index"]]
            missing_left = feature["nan_value_treatment"] != "AsTrue"  # NaN is not above a border
            return feature["flat_feature_index"], float(one["border"]), missing_left, -1
        if one["split_type"] == "OneHotFeature":
            column = self.words[one["cat_feature_index"]]["flat_feature_index"]
            return column, np.nan, True, self.hashes[column].index(one["value"] % _HASHES)
        return None


def _table(splits: Sequence[tuple[int, float, bool, int]]) -> tuple[Array, Array, Array, Array, Array]:
    """Return columns, thresholds and ways of missing values of splits, which set each asks for, and the sets."""
    column, threshold, missing_left, code = (np.array(part) for part in zip(*splits, strict=True))
    asking = np.flatnonzero(code >= 0)
    sets = np.ones((len(asking), int(code.max(initial=0)) + 2), dtype=bool)
    sets[np.arange(len(asking)), code[asking]] = False
    set_of = np.full(len(code), -1)
    set_of[asking] = np.arange(len(asking))
    return column, threshold, missing_left, set_of, sets


def _even(one: dict[str, Any], asked: _Asked, scale: float, n_outputs: int) -> Tree | None:
    """Return a tree that asks the same at all nodes of a level; its leaves are numbered by the answers as bits."""
    splits = [asked.split(split) for split in reversed(one.get("splits") or [])]  # the highest bit at the root
    known = [split for split in splits if split is not None]
    if len(known) < len(splits):
        return None
    depth = len(known)
    level = np.repeat(np.arange(depth + 1), 2 ** np.arange(depth + 1))
    inner, here = level < depth, np.arange(2 ** (depth + 1) - 1)
    value = np.zeros((len(here), n_outputs))
    value[~inner] = scale * np.asarray(one["leaf_values"], dtype=float).reshape(2**depth, n_outputs)
    column, threshold, missing_left, set_of, sets = _table([*known, (-1, 0.0, False, -1)])
    left = np.where(inner, 2 * here + 1, 0)
    return Tree(
        column[level], threshold[level], left, left + 1, missing_left[level], value, set_of[level], sets
    )  # fmt: skip


def _uneven(root: dict[str, Any], asked: _Asked, scale: float, n_outputs: int) -> Tree | None:
    """Return a tree of nodes that each ask something of their own."""
    splits: list[tuple[int, float, bool, int]] = []
    values: list[Any] = []
    children: list[list[int]] = []
    queue = [(root, -1, 0)]
    while queue:
        node, parent, side = queue.pop()
        here = len(splits)
        if parent >= 0:
            children[parent][side] = here
        children.append([0, 0])
        if "split" not in node:
            splits.append((-1, 0.0, False, -1))
            values.append(node["value"])
            continue
        split = asked.split(node["split"])
        if split is None:
            return None
        splits.append(split)
        values.append(0.0)
        queue += [(node["left"], here, 0), (node["right"], here, 1)]
    column, threshold, missing_left, set_of, sets = _table(splits)
    value = scale * np.array([np.broadcast_to(one, (n_outputs,)) for one in values], dtype=float)
    links = np.array(children)
    return Tree(column, threshold, links[:, 0], links[:, 1], missing_left, value, set_of, sets)


def _coder(model: Any, hashes: dict[int, list[int]]) -> Callable[[Any], Array]:
    """Return what turns frames into columns: a word has the number of its hash among those that splits ask for."""
    names = list(model.feature_names_)
    known: dict[int, dict[Any, float]] = {c: {} for c in hashes}

    def learn(words: dict[int, list[Any]]) -> None:
        """Have the model hash words that were not seen before."""
        from catboost import Pool

        n = max(map(len, words.values()))
        blank = {c: ([0.0] if c not in hashes else ["0"]) * n for c in range(len(names))}
        filled = blank | {c: [*own, *["0"] * (n - len(own))] for c, own in words.items()}
        frame = pd.DataFrame({names[c]: pd.Series(filled[c], dtype=object if c in hashes else float) for c in filled})
        pool = Pool(frame, cat_features=sorted(hashes))
        found = {one["value"]: one["hash"] for one in _written(model, pool)["features_info"]["cat_features_hash"]}
        for c, own in words.items():
            places = {value: float(number) for number, value in enumerate(hashes[c])}
            known[c] |= {word: places.get(found[str(word)], float(len(places))) for word in own}

    def columns(rows: Any) -> Array:
        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=names)
        values = {c: frame.iloc[:, c].astype(object) for c in hashes}
        news = {c: [word for word in pd.unique(one) if word not in known[c]] for c, one in values.items()}
        if any(news.values()):
            learn({c: words for c, words in news.items() if words})
        return as_matrix(frame, {c: one.map(known[c]).to_numpy(dtype=float) for c, one in values.items()})

    return columns
