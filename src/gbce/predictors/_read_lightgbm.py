"""The trees of LightGBM, from the text that a booster writes of itself; None for what is not read here."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._read_trees import DOUBLE, ReadTrees, Tree, as_matrix, codes_in, in_column, stack_trees
from gbce.predictors._zero_missing import part_at_zero

__all__ = ["read_lightgbm"]

ZERO = float(np.float32(1e-35))  # its kZeroThreshold: a number that is not larger is left out, as a zero
_BITS = 32  # of a word in which the categories that go left are kept
# Of the flags that a split has: whether it is on categories, the way of a missing value, and what counts as missing.
_IS_CATEGORY, _IS_LEFT, _KIND = 1, 2, 2
_ZERO_KIND, _NAN_KIND = 1, 2  # what counts as missing: zeros and NaN, or NaN; otherwise NaN is read as zero
_LINKS = {
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
    link = _LINKS.get(said[0] if said else "")
    if link is None or "sqrt" in said or not blocks:
        return None
    n_outputs = int(facts.get("num_tree_per_iteration", "1"))
    factor = float(next((part.split(":")[1] for part in said if part.startswith("sigmoid:")), "1"))
    if "average_output" in head.splitlines():
        factor /= len(blocks) // n_outputs
    trees = []
    for number, block in enumerate(blocks):
        tree = _tree(_fields(block), number % n_outputs, n_outputs, factor)
        if tree is None:
            return None
        trees.append(tree)
    scores = stack_trees(trees, np.zeros(n_outputs), False, DOUBLE, ZERO)
    return ReadTrees(scores, link, _coder(booster.pandas_categorical))


def _fields(text: str) -> dict[str, str]:
    """Return the lines ``name=value`` of a part of the text."""
    lines = text.split("\n\n\n")[0].splitlines() if "\n\n\n" in text else text.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _numbers(fields: dict[str, str], name: str, kind: Any) -> Array:
    return np.array(fields.get(name, "").split(), dtype=kind)


def _tree(fields: dict[str, str], output: int, n_outputs: int, factor: float) -> Tree | None:
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


def _coder(categories: list[list[Any]] | None) -> Callable[[Any], Array]:
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
