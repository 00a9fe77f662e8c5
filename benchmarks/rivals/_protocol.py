"""What a method is here: it is fitted once, and then answers row after row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._wish import Wish

__all__ = ["CannotRunError", "Found", "Method", "Rival"]


class CannotRunError(RuntimeError):
    """A method does not take this model or table, or is not installed; the message goes on from its name."""


@dataclass(frozen=True)
class Found:
    """What a method says of one row.

    Parameters
    ----------
    answers : mapping of str to DataFrame
        Frames of one line in the columns of the table, by what they are called beside the method's name; the one called
        "" is the method's own. Empty where nothing was found.
    draws : DataFrame, optional
        A sample of the distribution, from methods that have one.
    note : str
        What there is to say.
    elsewhere : float
        Seconds of one core that a process of its own took for it.
    """

    answers: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    draws: pd.DataFrame | None = None
    note: str = ""
    elsewhere: float = 0.0

    @classmethod
    def one(cls, answer: pd.DataFrame | None, note: str = "", elsewhere: float = 0.0) -> "Found":
        """Return a single answer, or none."""
        return cls({} if answer is None else {"": answer}, note=note, elsewhere=elsewhere)


class Rival(Protocol):
    """A method that answers with a point, or several."""

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Look at the model, its data and what the columns can be; raise ``CannotRunError`` where that is no use."""

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""


@dataclass(frozen=True)
class Method:
    """A line of the list of methods.

    Parameters
    ----------
    name : str
        In tables.
    source : str
        Authors and year, or the package.
    make : callable
        Returns the method, not yet fitted.
    kind : {"package", "publication", "reconstruction", "own"}
        Whether the authors' own code runs, or what was published is implemented here, or what was not published in full
        is filled in, which every table says; or it is gbce.
    """

    name: str
    source: str
    make: Callable[[], Rival]
    kind: str = "publication"

    @property
    def label(self) -> str:
        """The name as tables have it."""
        return f"{self.name} (reconstruction)" if self.kind == "reconstruction" else self.name
