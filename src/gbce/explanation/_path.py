"""The sparsity path as a table: the best answer for each number of changed features."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.decisions import Decision, Nearest, stack_points
from gbce.metrics import costs
from gbce.space import Space

__all__ = ["path_table"]


def path_table(space: Space, x0: Array, free: Array, decisions: Sequence[Decision]) -> pd.DataFrame:
    """Return the decisions of the rule that has a path, by their numbers of changed features.

    Parameters
    ----------
    space : Space
        The features.
    x0 : array of shape (d,)
        The row.
    free : int array of shape (m,)
        Positions of the features that can move: what is computed from others is not counted.
    decisions : sequence of Decision
        Of all rules, those beside an answer included.
    """
    own = _steps(decisions)
    x = stack_points(own, len(space))
    n = space.changed(x, x0)[:, free].sum(axis=1) if len(own) else np.zeros(0, dtype=int)
    order = np.argsort(n, kind="stable")
    own, x = [own[i] for i in order], x[order]
    priced_by = own[0].rule.priced_by if own and isinstance(own[0].rule, Nearest) else "l1"
    rows = space.frame(x)
    taken = {str(name) for name in rows.columns}
    figures = {
        "rule": [one.label for one in own],
        "cost": costs(space, x, x0, priced_by),
        "distance": space.distance(x, x0),
        "loss": [float(one.loss[0]) for one in own],
        "output": [float(one.outputs[0]) for one in own],
        "reached": np.array([one.reached[0] for one in own], dtype=bool),
    }
    index = pd.Index(n[order], name="changes", dtype=int)
    named = {name + "_" * (name in taken): values for name, values in figures.items()}
    return pd.concat([pd.DataFrame(named, index=index), rows.set_axis(index)], axis=1)


def _steps(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions of the first Nearest, or of the first rule that seeks the mode; none if there is neither."""
    for is_it in (lambda rule: isinstance(rule, Nearest), lambda rule: rule.has_path):
        rule = next((one.rule for one in decisions if one.rule is not None and is_it(one.rule)), None)
        if rule is not None:
            return [one for one in decisions if one.rule is rule]
    return []
