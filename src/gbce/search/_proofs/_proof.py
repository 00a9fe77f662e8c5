"""What a proof says."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Proof"]


@dataclass(frozen=True)
class Proof:
    """That no row within the bounds reaches the target: of the first model, in its own arithmetic.

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
