"""A regression tree as a partition of the plane into boxes, fitted by scikit-learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gbce.base import Array

__all__ = ["Partition"]


@dataclass(frozen=True, eq=False)
class Partition:
    """Boxes ``low < z <= high`` that partition the plane.

    Parameters
    ----------
    tree : fitted tree of scikit-learn
        Whose leaves the boxes are.
    box : int array
        Which box each of its nodes is, where it is a leaf.
    low, high : arrays of shape (L, m)
        Limits of the boxes.
    """

    tree: Any
    box: Array
    low: Array
    high: Array

    @classmethod
    def fit(cls, z: Array, value: Array, most: int, seed: int) -> "Partition":
        """Divide the plane so that values ``(n,)`` of points ``(n, m)`` in one box are alike, into ``most`` boxes."""
        from sklearn.tree import DecisionTreeRegressor  # slow to import

        tree = DecisionTreeRegressor(max_leaf_nodes=most, random_state=seed).fit(z, value)
        nodes, n = tree.tree_, tree.tree_.node_count
        low, high = np.full((n, z.shape[1]), -np.inf), np.full((n, z.shape[1]), np.inf)
        for node in range(n):  # children come after their parents
            left, right, j = nodes.children_left[node], nodes.children_right[node], nodes.feature[node]
            if left < 0:
                continue
            low[[left, right]], high[[left, right]] = low[node], high[node]
            high[left, j] = low[right, j] = nodes.threshold[node]
        leaves = np.flatnonzero(nodes.children_left < 0)
        box = np.full(n, -1)
        box[leaves] = np.arange(len(leaves))
        return cls(tree, box, low[leaves], high[leaves])

    def find(self, z: Array) -> Array:
        """Return the box ``(n,)`` of each point ``(n, m)``."""
        found: Array = self.box[self.tree.apply(z)]
        return found
