"""What all targets share: the outputs they read, what they say of them, and how a wish is completed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from gbce._weights import Array

__all__ = ["Outputs", "Reading", "Target", "short"]


@dataclass(frozen=True)
class Outputs:
    """What one model said about ``n`` rows.

    Parameters
    ----------
    values : array of shape (n,) or (n, c)
        Predictions, or class probabilities in the order of ``classes``.
    classes : tuple, optional
        The labels of a classifier's columns; ``None`` for anything else.
    decided : int array of shape (n,), optional
        Index of the class the model itself decides for.
    model : str
        Name for error messages.
    """

    values: Array
    classes: tuple[Any, ...] | None = None
    decided: Array | None = None
    model: str = "model"


class Reading(NamedTuple):
    """A target's reading of one model's outputs: three arrays ``(n,)``."""

    output: Array
    loss: Array
    reached: Array


def short(value: float) -> str:
    """Return a number in few digits for a sentence; large ones without an exponent: ``300,000``, not ``3e+05``."""
    text = f"{value:.4g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < 1e15 else text


class Target(ABC):
    """Base of all targets."""

    @abstractmethod
    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""

    @abstractmethod
    def describe(self) -> str:
        """Return the wish as a few words, e.g. ``"at least 60"``."""

    def accepted(self) -> tuple[float, float]:
        """Return the lowest and the highest output, as :meth:`read` returns it, that meet the wish.

        Raises
        ------
        TypeError
            Where the output alone does not tell.
        """
        raise TypeError(f"{type(self).__name__} cannot be read off one number per model")

    @property
    def needs_spread(self) -> bool:
        """Whether a number was left open that :meth:`resolved` reads off the model's outputs."""
        return False

    def resolved(self, spread: float | Array) -> "Target":
        """Return the target with open numbers filled in.

        Parameters
        ----------
        spread : float or array of shape (c,)
            SD of the model's outputs on the data, one number per output.
        """
        return self

    def settled(self, now: Outputs) -> "Target":
        """Return the target with a wish relative to the row made a plain one; ``now`` is what is said of that row."""
        return self
