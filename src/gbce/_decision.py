"""One chosen point with its figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from gbce._weights import Array
from gbce.draws import Points

__all__ = ["Decision", "undisturbed"]


@dataclass(frozen=True, eq=False)
class Decision:
    """One chosen point and its figures; a figure that was not computed is NaN.

    Parameters
    ----------
    label : str
        The rule that chose it, numbered if it chose several.
    x : array of shape (d,)
        Encoded.
    outputs, loss, reached : array of shape (K,)
        Under each model.
    cost : float
        The prior's distance d(row, x).
    robustness, robustness_se, plausibility : float
        Rb with its Monte Carlo error, and Plu.
    """

    label: str
    x: Array
    outputs: Array
    loss: Array
    reached: Array
    cost: float
    robustness: float = float("nan")
    robustness_se: float = float("nan")
    plausibility: float = float("nan")


def undisturbed(labels: Sequence[str], points: Points) -> list[Decision]:
    """Return decisions for evaluated points; what would have to be asked of the model is left open."""
    return [
        Decision(label, points.x[i], points.outputs[i], points.loss[i], points.reached[i], float(points.cost[i]))
        for i, label in enumerate(labels)
    ]
