"""Readers of LightGBM, XGBoost and CatBoost models, from the text or JSON that a booster writes of itself.

LightGBM may treat zero as missing, so that a split sends zero a different way than its neighbours; such nodes are split
into numbers below zero, zero (and missing), and numbers above, to leave plain thresholds only.
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
from gbce.trees._scores import DOUBLE, SINGLE, ReadTrees, Tree, as_matrix, category_codes, place_in_column, stack_trees

# LightGBM
ZERO = float(np.float32(1e-35))  # its kZeroThreshold: numbers up to this size are stored as zero
_MOST_GROWTH = 50  # times as many nodes; typical trees grow two- to fourfold; hand-tuned
_BITS = 32  # bits of a word in bitsets of categories that go left
# Flags of a split: whether it is categorical, whether missing values go left, and (from this bit) what is missing.
_IS_CATEGORY, _IS_LEFT, _KIND = 1, 2, 2
_ZERO_KIND = 1  # missing are zeros and NaN; 2: only NaN; 0: none, NaN is read as zero
_LIGHTGBM_LINKS = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "binary": "logistic",
    "multiclass": "softmax",
}
# XGBoost
_XGBOOST_SAME = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
_XGBOOST_LINKS = {
    **dict.fromkeys(_XGBOOST_SAME, "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
    "binary:logistic": "logistic",
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
}
_STRINGS_BY_BYTES = (3, 4)  # first version observed to keep non-ASCII strings; 3.2 was observed not to
_NO_CODE = -1.0  # any negative code means no category
# CatBoost
_CATBOOST_SAME = ("RMSE", "MAE", "Quantile", "Huber", "Expectile", "MAPE", "Lq")
_LOGARITHMS = ("Poisson", "Tweedie")
_HASHES = 2**32  # number of string hashes; a split stores one as a signed number

_Side = dict[int, str]  # columns known to be "below", "zero" or "above"

# --- splits that treat zero as missing -------------------------------------------------------------------------------


class _Task(NamedTuple):
    """A node to copy, what is known of its columns by then, and the parent and side of the copy."""

    node: int
    known: _Side
    parent: int
    is_left: bool


class _Nodes:
    """Nodes of a tree under construction."""

    def __init__(self) -> None:
        self.column: list[int] = []
        self.threshold: list[float] = []
        self.child: list[list[int]] = []
        self.missing_left: list[bool] = []
        self.old: list[int] = []

    def add(self, column: int, threshold: float, missing_left: bool, old: int, task: _Task) -> int:
        """Append a node, link it to its parent, and return its number."""
        here = len(self.column)
        self.column.append(column)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.child.append([0, 0])
        self.old.append(old)
        if task.parent >= 0:
            self.child[task.parent][0 if task.is_left else 1] = here
        return here


def split_at_zero(tree: Tree, zeros: Array, zero: float) -> Tree | None:
    """Return a tree of plain thresholds in which the nodes ``zeros`` ``(N,)`` send zero the way of missing values.

    None if it would grow too large. Numbers up to the size of ``zero`` must already be zero.
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
        if side is not None or (cut >= 0) == goes:  # zero goes the way of its neighbours
            here = nodes.add(column, cut, goes, node, task)
            beyond = side or ("above" if cut >= 0 else "below")
            one, other = (side, beyond) if cut >= 0 else (beyond, side)
            tasks += [_Task(left, _with_side(known, column, one), here, True)]
            tasks += [_Task(right, _with_side(known, column, other), here, False)]
            continue
        below, none, above = (_with_side(known, column, side) for side in ("below", "zero", "above"))
        # a missing value is not below zero, and then follows zero
        first = nodes.add(column, -zero, False, node, task)
        second = nodes.add(column, zero, True, node, _Task(node, known, first, False))
        tasks += [_Task(node, below, first, True), _Task(default, none, second, True)]
        tasks.append(_Task(node, above, second, False))
    old, child, made = np.array(nodes.old), np.array(nodes.child), np.array(nodes.column)
    value = np.where((made < 0)[:, None], tree.value[old], 0.0)
    set_of = None if tree.set_of is None else tree.set_of[old]
    missing_left = np.array(nodes.missing_left)
    return Tree(made, np.array(nodes.threshold), child[:, 0], child[:, 1], missing_left, value, set_of, tree.sets)


def _with_side(known: _Side, column: int, side: str | None) -> _Side:
    """Return the known sides with one more column, unless ``string`` is None."""
    return known if side is None else {**known, column: side}


# --- LightGBM --------------------------------------------------------------------------------------------------------


def read_lightgbm(booster: Any) -> ReadTrees | None:
    """Read a ``lightgbm.Booster`` up to its best round; None if its leaves are not constants."""
    if any("pred_early_stop" in str(option) and chosen for option, chosen in (booster.params or {}).items()):
        return None  # sums that stop early do not cover all trees
    head, *blocks = booster.model_to_string().split("\nTree=")
    header = _parse_fields(head)
    objective = header.get("objective", "").split()
    link = _LIGHTGBM_LINKS.get(objective[0] if objective else "")
    if link is None or "sqrt" in objective or not blocks:
        return None
    n_outputs = int(header.get("num_tree_per_iteration", "1"))
    factor = float(next((part.split(":")[1] for part in objective if part.startswith("sigmoid:")), "1"))
    if "average_output" in head.splitlines():
        factor /= len(blocks) // n_outputs
    trees = []
    for number, block in enumerate(blocks):
        tree = _read_lightgbm_tree(_parse_fields(block), number % n_outputs, n_outputs, factor)
        if tree is None:
            return None
        trees.append(tree)
    scores = stack_trees(trees, np.zeros(n_outputs), False, DOUBLE, ZERO)
    return ReadTrees(scores, link, _make_lightgbm_coder(booster.pandas_categorical))


def _parse_fields(text: str) -> dict[str, str]:
    """Parse the lines ``name=value`` of a section."""
    lines = text.split("\n\n\n")[0].splitlines() if "\n\n\n" in text else text.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _parse_numbers(fields: dict[str, str], name: str, kind: Any) -> Array:
    """Parse a field as an array."""
    return np.array(fields.get(name, "").split(), dtype=kind)


def _read_lightgbm_tree(fields: dict[str, str], output: int, n_outputs: int, factor: float) -> Tree | None:
    """Read one tree, its splits first and its leaves after them."""
    if int(fields.get("is_linear", "0")):
        return None
    leaves = factor * _parse_numbers(fields, "leaf_value", float)
    n_inner = len(leaves) - 1
    none, blank = np.full(len(leaves), -1), np.zeros(len(leaves))
    value = place_in_column(np.concatenate([np.zeros(n_inner), leaves]), output, n_outputs)
    if n_inner == 0:
        return Tree(none, blank, blank, blank, blank.astype(bool), value)
    column = np.append(_parse_numbers(fields, "split_feature", int), none)
    threshold = np.append(_parse_numbers(fields, "threshold", float), blank)
    children = [_parse_numbers(fields, name, int) for name in ("left_child", "right_child")]
    left, right = (np.append(np.where(one >= 0, one, n_inner + ~one), none) for one in children)
    flags = np.append(_parse_numbers(fields, "decision_type", int), 0 * none)
    kind, by_set = (flags >> _KIND) & 3, (flags & _IS_CATEGORY) > 0
    default = (flags & _IS_LEFT) > 0
    goes = np.where(kind == 0, threshold >= 0.0, default)  # if nothing counts as missing, NaN is read as zero
    tree = Tree(column, threshold, left, right, goes & ~by_set & (column >= 0), value)
    if by_set.any():
        tree = _add_sets(tree, fields, by_set)
    zeros = (kind == _ZERO_KIND) & ~by_set & (column >= 0)
    return split_at_zero(tree, zeros, ZERO) if zeros.any() else tree


def _add_sets(tree: Tree, fields: dict[str, str], by_set: Array) -> Tree:
    """Add the sets of categories to a tree; missing values and categories in no set go right."""
    edges = _parse_numbers(fields, "cat_boundaries", int)
    words = _parse_numbers(fields, "cat_threshold", np.uint32)
    bits = ((words[:, None] >> np.arange(_BITS, dtype=np.uint32)) & 1).astype(bool)
    sets = np.zeros((len(edges) - 1, _BITS * int(np.diff(edges).max()) + 1), dtype=bool)
    for number in range(len(sets)):
        own = bits[edges[number] : edges[number + 1]].ravel()
        sets[number, : len(own)] = own
    set_of = np.where(by_set, np.where(by_set, tree.threshold, 0.0).astype(int), -1)
    return tree._replace(threshold=np.where(by_set, np.nan, tree.threshold), set_of=set_of, sets=sets)


def _make_lightgbm_coder(categories: list[list[Any]] | None) -> Callable[[Any], Array]:
    """Return the function from rows to columns, with the training codes for categorical columns."""

    def columns(rows: Any) -> Array:
        if not isinstance(rows, pd.DataFrame) or not categories:
            return as_matrix(rows)
        coded = [c for c, kind in enumerate(rows.dtypes) if isinstance(kind, pd.CategoricalDtype)]
        if len(coded) != len(categories):
            raise ValueError(f"{len(coded)} columns are categorical, but the model has {len(categories)}")
        pairs = zip(coded, categories, strict=True)
        return as_matrix(rows, {c: category_codes(rows.iloc[:, c], known) for c, known in pairs})

    return columns


# --- XGBoost ---------------------------------------------------------------------------------------------------------


def read_xgboost(booster: Any, n_rounds: int | None = None) -> ReadTrees | None:
    """Read an ``xgboost.Booster``, or its first ``n_rounds``."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    link = _XGBOOST_LINKS.get(learner["objective"]["name"])
    booster_part = learner["gradient_booster"]
    weights = booster_part.get("weight_drop")
    booster_part = booster_part.get("gbtree", booster_part)  # dropout wraps another booster
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
    known = {c: _read_categories(one) for c, one in enumerate((model.get("cats") or {}).get("enc") or [])}
    if any(len(set(strings)) < len(strings) for strings in known.values()):
        return None  # see _recode: XGBoost itself cannot distinguish them
    return ReadTrees(scores, link, _make_xgboost_coder(by_code, known))


def _read_xgboost_tree(one: dict[str, Any], output: int, n_outputs: int) -> Tree:
    """Read one tree."""
    left, right = np.array(one["left_children"]), np.array(one["right_children"])
    cut = np.array(one["split_conditions"], dtype=np.float32)
    inner = left >= 0
    below = np.nextafter(cut, np.float32(-np.inf)).astype(float)  # values below the cut go left
    value = place_in_column(np.where(inner, 0.0, cut.astype(float)), output, n_outputs)
    column = np.where(inner, np.array(one["split_indices"]), -1)
    missing = np.array(one["default_left"]).astype(bool)
    tree = Tree(column, below, left, right, missing, value)
    set_nodes = np.array(one["categories_nodes"], dtype=int)
    if len(set_nodes) == 0:
        return tree
    categories = np.array(one["categories"], dtype=int)
    sets, set_of = np.ones((len(set_nodes), int(categories.max()) + 2), dtype=bool), np.full(len(column), -1)
    for number, node in enumerate(set_nodes):  # categories in the set go right, all others left
        first, size = one["categories_segments"][number], one["categories_sizes"][number]
        sets[number, categories[first : first + size]] = False
        set_of[node] = number
    return tree._replace(threshold=np.where(set_of >= 0, np.nan, below), set_of=set_of, sets=sets)


def _make_xgboost_coder(by_code: list[int], known: dict[int, list[Any]]) -> Callable[[Any], Array]:
    """Return the function from rows to columns, with the training codes for categorical columns."""

    def columns(rows: Any) -> Array:
        codes = {}
        if isinstance(rows, pd.DataFrame):
            coded = [c for c, kind in enumerate(rows.dtypes) if isinstance(kind, pd.CategoricalDtype)]
            codes = {c: _recode(rows.iloc[:, c], known.get(c)) for c in coded}
        table = as_matrix(rows, codes)
        for c in by_code:
            table[:, c] = np.where(table[:, c] < 0, _NO_CODE, table[:, c])
        return table

    return columns


def _read_categories(one: dict[str, Any]) -> list[Any]:
    """Return the categories of a column in the order of their codes; empty if the model does not store them."""
    values = one.get("values") or []
    return _split_bytes(bytes(value % 256 for value in values), one["offsets"]) if "offsets" in one else list(values)


def _split_bytes(text: bytes, edges: Any) -> list[Any]:
    """Split bytes at the given edges."""
    return [text[a:b] for a, b in pairwise(edges)]


def _recode(column: pd.Series, known: list[Any] | None) -> Array:
    """Return the codes of a categorical column, the training codes if the model stores its categories."""
    own = category_codes(column)
    if not known:
        return own
    levels = column.cat.categories.tolist()
    if isinstance(known[0], bytes):
        levels = _encode_strings(levels)
    places = {level: float(code) for code, level in enumerate(known)}
    table = np.array([*(places.get(level, np.nan) for level in levels), np.nan])
    return table[np.where(np.isnan(own), -1, own).astype(int)]


def _encode_strings(strings: list[str]) -> list[Any]:
    """Return strings as XGBoost distinguishes them: older versions cut the joined bytes at lengths in characters."""
    import xgboost

    if tuple(map(int, xgboost.__version__.split(".")[:2])) >= _STRINGS_BY_BYTES:
        return [string.encode() for string in strings]
    return _split_bytes("".join(strings).encode(), np.cumsum([0, *map(len, strings)]))


# --- CatBoost --------------------------------------------------------------------------------------------------------


def read_catboost(model: Any) -> ReadTrees | None:
    """Read a CatBoost model on numbers and one-hot encoded strings."""
    exported = _export_json(model)
    features, loss = exported["features_info"], exported["model_info"]["params"]["loss_function"]["type"]
    if features.get("text_features") or features.get("embedding_features") or features.get("ctrs"):
        return None
    classes = len(np.asarray(model.classes_))
    scale, bias = exported["scale_and_bias"]
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
    reader = _SplitReader(features)
    if "oblivious_trees" in exported:
        trees = [_read_oblivious_tree(one, reader, float(scale), len(base)) for one in exported["oblivious_trees"]]
    else:
        trees = [_read_nonoblivious_tree(one, reader, float(scale), len(base)) for one in exported["trees"]]
    complete = [tree for tree in trees if tree is not None]
    if len(complete) < len(trees) or not trees:
        return None
    return ReadTrees(stack_trees(complete, base, True, DOUBLE), link, _make_catboost_coder(model, reader.hashes))


def _export_json(model: Any, pool: Any = None) -> Any:
    """Return the model's JSON, with the hashes of the strings of a pool."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return json.loads(path.read_text(encoding="utf-8"))


class _SplitReader:
    """Reads splits: columns, borders and the side of missing values, or categories."""

    def __init__(self, features: dict[str, Any]) -> None:
        self.floats = {one["feature_index"]: one for one in features.get("float_features") or []}
        self.strings = {one["feature_index"]: one for one in features.get("categorical_features") or []}
        self.hashes = {
            one["flat_feature_index"]: [value % _HASHES for value in one.get("values") or []]
            for one in self.strings.values()
        }

    def split(self, one: dict[str, Any]) -> tuple[int, float, bool, int] | None:
        """Return the column, the threshold, whether a missing value goes left, and the code that goes right or -1."""
        if one["split_type"] == "FloatFeature":
            feature = self.floats[one["float_feature_index"]]
            missing_left = feature["nan_value_treatment"] != "AsTrue"  # NaN is not above a border
            return feature["flat_feature_index"], float(one["border"]), missing_left, -1
        if one["split_type"] == "OneHotFeature":
            column = self.strings[one["cat_feature_index"]]["flat_feature_index"]
            return column, np.nan, True, self.hashes[column].index(one["value"] % _HASHES)
        return None


def _tabulate_splits(splits: Sequence[tuple[int, float, bool, int]]) -> tuple[Array, Array, Array, Array, Array]:
    """Return columns, thresholds and missing sides of splits, the set of each, and the sets."""
    column, threshold, missing_left, code = (np.array(part) for part in zip(*splits, strict=True))
    set_nodes = np.flatnonzero(code >= 0)
    sets = np.ones((len(set_nodes), int(code.max(initial=0)) + 2), dtype=bool)
    sets[np.arange(len(set_nodes)), code[set_nodes]] = False
    set_of = np.full(len(code), -1)
    set_of[set_nodes] = np.arange(len(set_nodes))
    return column, threshold, missing_left, set_of, sets


def _read_oblivious_tree(one: dict[str, Any], reader: _SplitReader, scale: float, n_outputs: int) -> Tree | None:
    """Read an oblivious tree, with one split per level; its leaves are numbered by the outcomes as bits."""
    splits = [reader.split(split) for split in reversed(one.get("splits") or [])]  # the highest bit is at the root
    known = [split for split in splits if split is not None]
    if len(known) < len(splits):
        return None
    depth = len(known)
    level = np.repeat(np.arange(depth + 1), 2 ** np.arange(depth + 1))
    inner, here = level < depth, np.arange(2 ** (depth + 1) - 1)
    value = np.zeros((len(here), n_outputs))
    value[~inner] = scale * np.asarray(one["leaf_values"], dtype=float).reshape(2**depth, n_outputs)
    column, threshold, missing_left, set_of, sets = _tabulate_splits([*known, (-1, 0.0, False, -1)])
    left = np.where(inner, 2 * here + 1, 0)
    return Tree(
        column[level], threshold[level], left, left + 1, missing_left[level], value, set_of[level], sets
    )  # fmt: skip


def _read_nonoblivious_tree(root: dict[str, Any], reader: _SplitReader, scale: float, n_outputs: int) -> Tree | None:
    """Read a tree in which each node has its own split; None if a split cannot be read."""
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
        split = reader.split(node["split"])
        if split is None:
            return None
        splits.append(split)
        values.append(0.0)
        queue += [(node["left"], here, 0), (node["right"], here, 1)]
    column, threshold, missing_left, set_of, sets = _tabulate_splits(splits)
    value = scale * np.array([np.broadcast_to(one, (n_outputs,)) for one in values], dtype=float)
    links = np.array(children)
    return Tree(column, threshold, links[:, 0], links[:, 1], missing_left, value, set_of, sets)


def _make_catboost_coder(model: Any, hashes: dict[int, list[int]]) -> Callable[[Any], Array]:
    """Return the function from rows to columns; a string is coded by its hash among those of the splits."""
    names = list(model.feature_names_)
    known: dict[int, dict[Any, float]] = {c: {} for c in hashes}

    def learn(strings: dict[int, list[Any]]) -> None:
        """Let the model hash strings that are new."""
        from catboost import Pool

        n = max(map(len, strings.values()))
        blank = {c: ([0.0] if c not in hashes else ["0"]) * n for c in range(len(names))}
        filled = blank | {c: [*own, *["0"] * (n - len(own))] for c, own in strings.items()}
        frame = pd.DataFrame({names[c]: pd.Series(filled[c], dtype=object if c in hashes else float) for c in filled})
        pool = Pool(frame, cat_features=sorted(hashes))
        found = {one["value"]: one["hash"] for one in _export_json(model, pool)["features_info"]["cat_features_hash"]}
        for c, own in strings.items():
            places = {value: float(number) for number, value in enumerate(hashes[c])}
            known[c] |= {string: places.get(found[str(string)], float(len(places))) for string in own}

    def columns(rows: Any) -> Array:
        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=names)
        values = {c: frame.iloc[:, c].astype(object) for c in hashes}
        new_strings = {c: [string for string in pd.unique(one) if string not in known[c]] for c, one in values.items()}
        if any(new_strings.values()):
            learn({c: strings for c, strings in new_strings.items() if strings})
        return as_matrix(frame, {c: one.map(known[c]).to_numpy(dtype=float) for c, one in values.items()})

    return columns
