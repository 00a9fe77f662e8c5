"""The simulated data of Section 3.1, and what every experiment asks of its data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gbce.base import Array

__all__ = ["Data", "simulated"]

QUANTILE = 0.9  # y* is this quantile of the outcomes


@dataclass(frozen=True, eq=False)
class Data:
    """A regression table, and the value wanted of a model of it.

    Attributes
    ----------
    name : str
        For tables, figures and file names.
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Outcomes.
    true_function : callable, optional
        The mean of ``y`` as a function of rows ``(n, d)``, where it is known.
    """

    name: str
    X: Array
    y: Array
    true_function: Callable[[Array], Array] | None = None

    @property
    def y_star(self) -> float:
        """The target ``y*``: the 90th percentile of the outcomes."""
        return float(np.quantile(self.y, QUANTILE))


def simulated(d: Literal[2, 10], seed: int = 42) -> Data:
    """Draw the two- or ten-dimensional data of Section 3.1.

    Inputs are independent standard normals; the noise has SD 0.3 in 2-D (n = 3,000) and 0.5 in 10-D (n = 4,000).
    The paper gives the seed but not the order of the draws. Here one ``default_rng(seed)`` gives the inputs first,
    row after row in one call, and then the noise of all rows in a second one. Each dimension has its own generator,
    so that neither depends on whether the other was drawn before.

    Parameters
    ----------
    d : 2 or 10
        Number of inputs.
    seed : int
        Of the generator.

    Returns
    -------
    Data
        With its true function.

    Examples
    --------
    >>> data = simulated(2)
    >>> data.X.shape, data.y.shape
    ((3000, 2), (3000,))
    >>> float(data.true_function(np.zeros((1, 2)))[0])
    0.0
    """
    if d not in _LAWS:
        raise ValueError(f"the paper has simulated data in 2 and in 10 dimensions, not in {d!r}")
    n, sd, function = _LAWS[d]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = function(X) + rng.normal(scale=sd, size=n)
    return Data(f"simulated-{d}d", X, y, function)


def _two_dimensional(x: Array) -> Array:
    return 2.0 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1]


def _ten_dimensional(x: Array) -> Array:
    return (
        1.5 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - x[:, 0] * x[:, 2] + 0.5 * x[:, 3] + 0.3 * x[:, 4:7].sum(axis=1)
    )  # fmt: skip


_LAWS: dict[int, tuple[int, float, Callable[[Array], Array]]] = {
    2: (3_000, 0.3, _two_dimensional),
    10: (4_000, 0.5, _ten_dimensional),
}  # dimension: rows, SD of the noise, true function
