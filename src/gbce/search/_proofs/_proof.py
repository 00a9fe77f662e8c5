"""What a proof says."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Proof"]


@dataclass(frozen=True)
class Proof:
    """What no row within the bounds can do: of the first model, in its own arithmetic.

    That none reaches the target (``explanation.proof``), or that none reaches it at a lower cost than some (the
    ``proof`` of a decision of ``Nearest(prove=True)``).

    Parameters
    ----------
    kind : {"trees", "linear"}
        What it rests on: the leaves of all trees, or the coefficients.
    sentence : str
        What is proved, and how.
    bound : float, optional
        The output that no row gets beyond, on the side of the target: what a row can get is at most (for a target
        above) or at least (below) this. None where no single number says it, as between two classes of many.
    boxes : int
        How many boxes of rows were told apart: 1 where the box of all rows was enough.
    lower : float, optional
        What every point that reaches the target costs at least, in the units of the rule's distance; None where the
        proof is that none reaches it.
    cost : float, optional
        What the point costs that the proof is about.
    least_changes : int
        How many columns have to be changed at least to reach the target; 0 where that was not looked at.
    optimum : float, optional
        What the cheapest point costs that was found and that the model accepts, before its numbers were rounded to few
        digits; None where none was found. It is the least possible where it equals ``lower``.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x = np.arange(20.0)[:, None]
    >>> explainer = gbce.Explainer(DecisionTreeRegressor(max_depth=2).fit(x, x[:, 0]), x)
    >>> explanation = explainer.explain([3.0], gbce.AtLeast(30, scale=5), rules=[], seed=0)
    >>> explanation.proof.kind, explanation.proof.bound < 30
    ('trees', True)
    """

    kind: Literal["trees", "linear"]
    sentence: str
    bound: float | None = None
    boxes: int = 1
    lower: float | None = None
    cost: float | None = None
    least_changes: int = 0
    optimum: float | None = None

    @property
    def gap(self) -> float:
        """The share of the cost that a cheaper point could save at most: 0 where none is cheaper."""
        if self.lower is None or not self.cost:
            return 0.0
        return max(0.0, 1.0 - self.lower / self.cost)
