"""Trees in which zero counts as missing, as trees of plain thresholds.

Such a split sends zero another way than its neighbours, so that what goes one way is no interval. Where it does, the
node is parted into one for numbers below zero, one for zero and what is missing, and one for numbers above.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.trees._scores import DOUBLE, SINGLE, ReadTrees, Tree, as_matrix, codes_in, in_column, stack_trees

__all__ = ["part_at_zero", "read_catboost", "read_lightgbm", "read_xgboost"]

# --- trees in which zero counts as missing, as trees of plain thresholds ---------------------------------------------

_MOST_GROWTH = 50  # times as many nodes as before, by hand: usual trees become two to four times as large
_Side = dict[int, str]  # of columns that are known to be "below", "zero" or "above"


class _Task(NamedTuple):
    """A node to be copied, what is known of its columns by then, and whose child on which side the copy is."""

    node: int
    known: _Side
    parent: int
    is_left: bool


class _Nodes:
    """Nodes of a tree that is being made."""

    def __init__(self) -> None:
        self.column: list[int] = []
        self.threshold: list[float] = []
        self.child: list[list[int]] = []
        self.missing_left: list[bool] = []
        self.old: list[int] = []

    def add(self, column: int, threshold: float, missing_left: bool, old: int, task: _Task) -> int:
        here = len(self.column)
        self.column.append(column)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.child.append([0, 0])
        self.old.append(old)
        if task.parent >= 0:
            self.child[task.parent][0 if task.is_left else 1] = here
        return here


def part_at_zero(tree: Tree, zeros: Array, zero: float) -> Tree | None:
    """Return a tree whose nodes that are among ``zeros`` ``(N,)`` send zero the way of missing values.

    None where it would grow too large. Numbers up to the size of ``zero`` must be zeros already.
    """
    nodes, tasks = _Nodes(), [_Task(0, {}, -1, False)]
    while tasks:
        task = tasks.pop()
        if len(nodes.column) > _MOST_GROWTH * len(tree.column):
            return None
        node, known = task.node, task.known
        column, cut = int(tree.column[node]), float(tree.threshold[node])
        goes, left, right = bool(tree.missing_left[node]), int(tree.left[node]), int(tree.right[node])
        if column < 0 or not zeros[node]:
            here = nodes.add(column, cut, goes, node, task)
            if column >= 0:
                tasks += [_Task(left, known, here, True), _Task(right, known, here, False)]
            continue
        side = known.get(column)
        default = left if goes else right
        if side == "zero" or (side == "below" and cut >= 0) or (side == "above" and cut <= zero):
            follows = default if side == "zero" else left if side == "below" else right
            tasks.append(task._replace(node=follows))
            continue
        if side is not None or (cut >= 0) == goes:  # zero goes with its neighbours
            here = nodes.add(column, cut, goes, node, task)
            beyond = side or ("above" if cut >= 0 else "below")
            one, other = (side, beyond) if cut >= 0 else (beyond, side)
            tasks += [_Task(left, _told(known, column, one), here, True)]
            tasks += [_Task(right, _told(known, column, other), here, False)]
            continue
        below, none, above = (_told(known, column, word) for word in ("below", "zero", "above"))
        # what is missing is not below zero, and goes with zero after that
        first = nodes.add(column, -zero, False, node, task)
        second = nodes.add(column, zero, True, node, _Task(node, known, first, False))
        tasks += [_Task(node, below, first, True), _Task(default, none, second, True)]
        tasks.append(_Task(node, above, second, False))
    old, child, made = np.array(nodes.old), np.array(nodes.child), np.array(nodes.column)
    value = np.where((made < 0)[:, None], tree.value[old], 0.0)
    set_of = None if tree.set_of is None else tree.set_of[old]
    missing_left = np.array(nodes.missing_left)
    return Tree(made, np.array(nodes.threshold), child[:, 0], child[:, 1], missing_left, value, set_of, tree.sets)


def _told(known: _Side, column: int, word: str | None) -> _Side:
    return known if word is None else {**known, column: word}


# --- the trees of LightGBM, from the text that a booster writes of itself --------------------------------------------

ZERO = float(np.float32(1e-35))  # its kZeroThreshold: a number that is not larger is left out, as a zero
_BITS = 32  # of a word in which the categories that go left are kept
# Of the flags that a split has: whether it is on categories, the way of a missing value, and what counts as missing.
_IS_CATEGORY, _IS_LEFT, _KIND = 1, 2, 2
_ZERO_KIND, _NAN_KIND = 1, 2  # what counts as missing: zeros and NaN, or NaN; otherwise NaN is read as zero
_LIGHTGBM_LINKS = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "binary": "logistic",
    "multiclass": "softmax",
}


def read_lightgbm(booster: Any) -> ReadTrees | None:
    """Return the trees of a ``lightgbm.Booster`` up to its best round, if its leaves are numbers."""
    if any("pred_early_stop" in str(option) and chosen for option, chosen in (booster.params or {}).items()):
        return None  # sums that end early are not those of all trees
    head, *blocks = booster.model_to_string().split("\nTree=")
    facts = _fields(head)
    said = facts.get("objective", "").split()
    link = _LIGHTGBM_LINKS.get(said[0] if said else "")
    if link is None or "sqrt" in said or not blocks:
        return None
    n_outputs = int(facts.get("num_tree_per_iteration", "1"))
    factor = float(next((part.split(":")[1] for part in said if part.startswith("sigmoid:")), "1"))
    if "average_output" in head.splitlines():
        factor /= len(blocks) // n_outputs
    trees = []
    for number, block in enumerate(blocks):
        tree = _read_lightgbm_tree(_fields(block), number % n_outputs, n_outputs, factor)
        if tree is None:
            return None
        trees.append(tree)
    scores = stack_trees(trees, np.zeros(n_outputs), False, DOUBLE, ZERO)
    return ReadTrees(scores, link, _make_lightgbm_coder(booster.pandas_categorical))


def _fields(text: str) -> dict[str, str]:
    """Return the lines ``name=value`` of a part of the text."""
    lines = text.split("\n\n\n")[0].splitlines() if "\n\n\n" in text else text.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _numbers(fields: dict[str, str], name: str, kind: Any) -> Array:
    return np.array(fields.get(name, "").split(), dtype=kind)


def _read_lightgbm_tree(fields: dict[str, str], output: int, n_outputs: int, factor: float) -> Tree | None:
    """Return a tree: its splits first, its leaves behind them."""
    if int(fields.get("is_linear", "0")):
        return None
    leaves = factor * _numbers(fields, "leaf_value", float)
    n_inner = len(leaves) - 1
    none, blank = np.full(len(leaves), -1), np.zeros(len(leaves))
    value = in_column(np.concatenate([np.zeros(n_inner), leaves]), output, n_outputs)
    if n_inner == 0:
        return Tree(none, blank, blank, blank, blank.astype(bool), value)
    column = np.append(_numbers(fields, "split_feature", int), none)
    threshold = np.append(_numbers(fields, "threshold", float), blank)
    children = [_numbers(fields, name, int) for name in ("left_child", "right_child")]
    left, right = (np.append(np.where(one >= 0, one, n_inner + ~one), none) for one in children)
    flags = np.append(_numbers(fields, "decision_type", int), 0 * none)
    kind, by_set = (flags >> _KIND) & 3, (flags & _IS_CATEGORY) > 0
    default = (flags & _IS_LEFT) > 0
    goes = np.where(kind == 0, threshold >= 0.0, default)  # where nothing counts as missing NaN is read as zero
    tree = Tree(column, threshold, left, right, goes & ~by_set & (column >= 0), value)
    if by_set.any():
        tree = _with_sets(tree, fields, by_set)
    zeros = (kind == _ZERO_KIND) & ~by_set & (column >= 0)
    return part_at_zero(tree, zeros, ZERO) if zeros.any() else tree


def _with_sets(tree: Tree, fields: dict[str, str], by_set: Array) -> Tree:
    """Return a tree with its sets of categories; what is missing, or in no set, goes right."""
    edges = _numbers(fields, "cat_boundaries", int)
    words = _numbers(fields, "cat_threshold", np.uint32)
    bits = ((words[:, None] >> np.arange(_BITS, dtype=np.uint32)) & 1).astype(bool)
    sets = np.zeros((len(edges) - 1, _BITS * int(np.diff(edges).max()) + 1), dtype=bool)
    for number in range(len(sets)):
        own = bits[edges[number] : edges[number + 1]].ravel()
        sets[number, : len(own)] = own
    set_of = np.where(by_set, np.where(by_set, tree.threshold, 0.0).astype(int), -1)
    return tree._replace(threshold=np.where(by_set, np.nan, tree.threshold), set_of=set_of, sets=sets)


def _make_lightgbm_coder(categories: list[list[Any]] | None) -> Callable[[Any], Array]:
    """Return what turns rows into columns: categorical ones of a frame have the codes of the training data."""

    def columns(rows: Any) -> Array:
        if not isinstance(rows, pd.DataFrame) or not categories:
            return as_matrix(rows)
        coded = [c for c, kind in enumerate(rows.dtypes) if isinstance(kind, pd.CategoricalDtype)]
        if len(coded) != len(categories):
            raise ValueError(f"{len(coded)} columns are categories, the model has {len(categories)} such columns")
        pairs = zip(coded, categories, strict=True)
        return as_matrix(rows, {c: codes_in(rows.iloc[:, c], known) for c, known in pairs})

    return columns


# --- the trees of XGBoost, from the JSON that a booster writes of itself ---------------------------------------------

_XGBOOST_SAME = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
_XGBOOST_LINKS = {
    **dict.fromkeys(_XGBOOST_SAME, "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
    "binary:logistic": "logistic",
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
}
_WORDS_BY_BYTES = (3, 4)  # the first version seen to keep words that are not ASCII; 3.2 was seen not to
_NO_CODE = -1.0  # a negative code is none, however small


def read_xgboost(booster: Any, n_rounds: int | None = None) -> ReadTrees | None:
    """Return the trees of an ``xgboost.Booster``, of the first rounds if so told."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    link = _XGBOOST_LINKS.get(learner["objective"]["name"])
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
    trees = [
        _read_xgboost_tree(one, model["tree_info"][number], n_outputs)
        for number, one in enumerate(model["trees"][:count])
    ]
    if weights is not None:
        trees = [tree._replace(value=factor * tree.value) for tree, factor in zip(trees, weights, strict=False)]
    types = learner.get("feature_types") or []
    by_code = [c for c, kind in enumerate(types) if kind == "c"]
    scores = stack_trees(trees, base, True, SINGLE)
    known = {c: _kept(one) for c, one in enumerate((model.get("cats") or {}).get("enc") or [])}
    if any(len(set(words)) < len(words) for words in known.values()):  # see _recoded: it cannot tell them apart itself
        return None
    return ReadTrees(scores, link, _make_xgboost_coder(by_code, known))


def _read_xgboost_tree(one: dict[str, Any], output: int, n_outputs: int) -> Tree:
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


def _make_xgboost_coder(by_code: list[int], known: dict[int, list[Any]]) -> Callable[[Any], Array]:
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


# --- the trees of CatBoost, from the JSON that a model writes of itself ----------------------------------------------

_CATBOOST_SAME = ("RMSE", "MAE", "Quantile", "Huber", "Expectile", "MAPE", "Lq")
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
        link = "identity" if loss in _CATBOOST_SAME else "exp" if loss in _LOGARITHMS and is_regressor else None
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
    return ReadTrees(stack_trees(whole, base, True, DOUBLE), link, _make_catboost_coder(model, asked.hashes))


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


def _make_catboost_coder(model: Any, hashes: dict[int, list[int]]) -> Callable[[Any], Array]:
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
