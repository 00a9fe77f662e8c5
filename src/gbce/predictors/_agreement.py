"""Whether what was read of a model says what the model itself says: it is believed only then."""

import numpy as np

from gbce.base import Array
from gbce.predictors._inside import Inside
from gbce.predictors._score_parts import TreeScores

__all__ = ["MORE_TERMS", "agrees", "n_terms", "same_output"]

# Of rounding errors: the error of a sum of n numbers is below n * epsilon times the sum of their sizes, whatever their
# order (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). So many more are for what comes after the sum.
MORE_TERMS = 10
# Times the rounding error of a sum, in double and in single precision: outputs that differ by more were read wrongly;
# by hand.
_SAME_OUTPUT, _SAME_IN_SINGLE = 1e3, 30.0
_COARSE = 1e-12  # a rounding error above this is that of single precision


def n_terms(inside: Inside) -> int:
    """Return how many numbers are added up to one score, and a few more."""
    parts = inside.parts
    return MORE_TERMS + (len(parts.roots) if isinstance(parts, TreeScores) else parts.weights.shape[1])


def same_output(inside: Inside, outputs: Array) -> float:
    """Return by how much two outputs may differ that are the same but for rounding."""
    size = max(1.0, float(np.abs(outputs).max(initial=0.0)))
    epsilon = inside.parts.epsilon
    return (_SAME_IN_SINGLE if epsilon > _COARSE else _SAME_OUTPUT) * n_terms(inside) * epsilon * size


def agrees(inside: Inside, x: Array, outputs: Array, label: object = None) -> bool:
    """Whether what was read gives a model's own outputs, but for rounding.

    Parameters
    ----------
    inside : Inside
        What was read.
    x : array of shape (n, d)
        Encoded rows.
    outputs : array of shape (n,) or (n, c)
        What the model said of them: of a classifier all classes, or the probability of one.
    label : object, optional
        The class that ``outputs`` of one column are of.

    Returns
    -------
    bool
        False, too, if what was read has no answer to a row.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce.predictors import look_inside
    >>> from gbce.space import Space
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> model = DecisionTreeRegressor().fit(x, [1.0, 5.0, 2.0])
    >>> inside = look_inside(model, Space.real(1))
    >>> agrees(inside, x, model.predict(x)), agrees(inside, x, model.predict(x) + 0.1)
    (True, False)
    """
    try:
        said = inside.outputs(x)
    except Exception:  # the model's own preparation, which may not take a row in any way of its own
        return False
    if label is not None:
        classes = list(inside.classes or ())
        if label not in classes:
            return False
        said = said[:, classes.index(label)]
    outputs = np.asarray(outputs, dtype=float)
    return said.shape == outputs.shape and bool(np.all(np.abs(said - outputs) <= same_output(inside, outputs)))
