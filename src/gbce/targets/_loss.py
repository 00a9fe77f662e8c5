"""A wish given as a function."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gbce._validation import require_finite, short
from gbce.base import Array, Outputs, Reading, Target

__all__ = ["Loss"]


@dataclass(frozen=True)
class Loss(Target):
    """Any loss that can be evaluated: ``function(outputs) -> (n,)``, reached when ``loss <= threshold``.

    Parameters
    ----------
    function : callable
        Takes the model's outputs, ``(n,)`` or ``(n, c)`` (class probabilities for a classifier), and returns one
        loss per row. It must not be NaN.
    threshold : float
        Largest loss that counts as reached, the paper's ε.

    Examples
    --------
    >>> import numpy as np
    >>> wish = Loss(lambda f: np.abs(f - 2.0), threshold=0.1)
    >>> wish.read(Outputs(np.array([2.05, 3.0]))).reached
    array([ True, False])
    """

    function: Callable[[Array], Array] | None = field(metadata={"file": None})  # a file keeps no code
    threshold: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise TypeError(f"Loss: function must be callable, not {self.function!r}")
        require_finite(self, "threshold")

    @property
    def readable(self) -> bool:
        """Whether the function is there: a file keeps none."""
        return self.function is not None

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        if self.function is None:
            raise ValueError("this Loss came from a file, which keeps no code; build it again with its function")
        loss = np.asarray(self.function(outputs.values.copy()), dtype=float)  # it may write into what it gets
        n = len(outputs.values)
        if loss.shape != (n,):
            raise ValueError(f"Loss: the function must return one number per row, ({n},), not {loss.shape}")
        if np.isnan(loss).any():
            i = int(np.flatnonzero(np.isnan(loss))[0])
            raise ValueError(f"Loss: the function returned NaN for output {outputs.values[i]!r}")
        output = outputs.values if outputs.values.ndim == 1 else loss
        return Reading(output, loss, loss <= self.threshold)

    @property
    def error(self) -> str:
        """There is none: no error turns a user's own loss into a likelihood."""
        raise TypeError("ModelError does not know what the values of your own loss mean: give eta as a number")

    def describe(self) -> str:
        """Return the wish as a few words."""
        return f"{getattr(self.function, '__name__', 'loss')} at most {short(self.threshold)}"
