"""Changes, values, statuses and safe ranges in words: in the user's columns and units, with enough digits to act on."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import printable
from gbce.base import Array
from gbce.space import Space, plain_value

_WHOLE = 2  # columns up to which safe ranges are the largest there are

# --- changes and values ----------------------------------------------------------------------------------------------


def changed_columns(space: Space, x0: Array, x: Array) -> Array:
    """Return the positions of the features to change from ``x0`` to ``x``, both ``(d,)``, computed ones excluded."""
    return np.flatnonzero(space.changed(x[None, :], x0)[0] & ~space.is_computed)


def describe_changes(space: Space, x0: Array, x: Array, *, exact: bool = True) -> str:
    """Describe the changes from the row ``x0`` to ``x``, both ``(d,)``, as part of a sentence.

    New values are exact if somebody is to act on them.
    """
    return join_words([_say_change(space, j, x0[j], x[j], exact) for j in changed_columns(space, x0, x)])


def format_value(space: Space, j: int, value: float) -> str:
    """Write a value for a sentence, see :meth:`gbce.Space.format`."""
    return space.format(j, value, unit=False, quoted=True)


def join_words(parts: Sequence[str]) -> str:
    """Join parts of a sentence with commas, and "and" before the last."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _say_change(space: Space, j: int, before: float, after: float, exact: bool) -> str:
    now, then = space.format_change(j, before, after, exact=exact, quoted=True)
    return f"{_choose_verb(space, j, before, after)} {space.label(j)} from {now} to {then}"


def name_change(space: Space, j: int, before: float, after: float) -> str:
    """Name a change as the subject of a sentence: ``"lowering debt"``."""
    verb = _choose_verb(space, j, before, after)
    gerund = {"change": "changing", "move": "moving", "raise": "raising", "lower": "lowering"}[verb]
    return f"{gerund} {space.label(j)}"


def name_model(models: Sequence[str]) -> str:
    """Name the first of some models for a sentence: "the model" if it is the only one, "the first" of its class."""
    if len(models) == 1:
        return "the model"
    alike = any(other.startswith(f"{models[0]} #") for other in models[1:])
    return printable(f"{'the first ' * alike}{models[0]}")


def _choose_verb(space: Space, j: int, before: float, after: float) -> str:
    if np.isnan(before) or np.isnan(after) or space.features[j].unordered:
        return "change"
    if space.features[j].kind == "datetime":
        return "move"
    return "raise" if after > before else "lower"


# --- status ----------------------------------------------------------------------------------------------------------


class Status(StrEnum):
    """Whether the row needs a change, and whether any evaluated point reaches the target."""

    ATTAINABLE = "attainable"
    ALREADY_REACHED = "already reached"
    NOT_ATTAINED = "not attained"
    FAILED = "failed"  # only for one row of many: the model or a function raised an error for it

    def __repr__(self) -> str:
        return repr(self.value)


# --- safe ranges -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SafeBox:
    """Joint ranges of columns within which the first model is proved to reach the target.

    All other columns are as in the decision at its centre. Made by :meth:`gbce.Explainer.safe_box`, and part of
    ``explanation.answer`` if the model is a tree ensemble that can be read.

    Parameters
    ----------
    space : Space
        The features.
    features : tuple of c str
        Names of the columns.
    low, high : array of shape (c,)
        Lowest and highest value, encoded; infinite if the range has no end.

    Examples
    --------
    >>> from gbce import Space
    >>> low, high = np.array([41200.0, 0.0]), np.array([55000.0, np.inf])
    >>> box = SafeBox(Space.real(["income", "debt"]), ("income", "debt"), low, high)
    >>> box.sentence
    'Any income from 41,200 to 55,000 with any debt of at least 0 is guaranteed to work, all else unchanged.'
    >>> box.to_dict()["income"]
    {'low': 41200.0, 'high': 55000.0}
    """

    space: Space
    features: tuple[str, ...]
    low: Array
    high: Array

    @property
    def table(self) -> pd.DataFrame:
        """One line per column: ``low`` and ``high`` as in the table, ``None`` if the range has no end."""
        shown = {
            name: [self._decode_end(name, end) for end in ends]
            for name, *ends in zip(self.features, self.low, self.high, strict=True)
        }
        frame = pd.DataFrame.from_dict(shown, orient="index", columns=["low", "high"], dtype=object)
        return frame.rename_axis("feature")

    def _decode_end(self, name: str, end: float) -> Any:
        """Return an end of a range as the table has it."""
        if not np.isfinite(end):
            return None
        j = self.space.position[name]
        row = np.full((1, len(self.space)), np.nan)
        row[0, j] = end
        codec = self.space.codecs[j]
        if self.space.features[j].leveled:
            return self.space.values(name, row)[0]
        return next(iter(codec.decode(row[:, j]).values()))[0]

    def contains(self, x: Array) -> Array:
        """Return which rows ``(n, d)`` lie within the ranges, as ``(n,)``; other columns are ignored."""
        at = [self.space.position[name] for name in self.features]
        return np.asarray(((x[:, at] >= self.low) & (x[:, at] <= self.high)).all(axis=1))

    @property
    def sentence(self) -> str:
        """The ranges in words, without an end where they reach the column's own bound."""
        return self.describe()

    def describe(self, *, beside: bool = False) -> str:
        """Return the ranges in words; ``beside``: they hold only beside changes of other columns."""
        parts = []
        for name, low, high in zip(self.features, self.low.tolist(), self.high.tolist(), strict=True):
            j = self.space.position[name]
            feature = self.space.features[j]
            low = -np.inf if feature.low is not None and low <= feature.low else low
            high = np.inf if feature.high is not None and high >= feature.high else high
            before = "from " if np.isfinite([low, high]).all() else "of " if np.isfinite(low) else ""
            words = f" {before}{self.space.format_range(j, low, high)}" if np.isfinite([low, high]).any() else ""
            parts.append(f"any {self.space.label(j)}{words}")
        others = f" with {join_words(parts[1:])}" if len(parts) > 1 else ""
        part = ", and this is only a part of what works" if len(parts) > _WHOLE else ""
        once = " once the other changes are made" if beside else ""
        return f"A{parts[0][1:]}{others} is guaranteed to work{once}, all else unchanged{part}."

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the ranges as plain data: ``low`` and ``high`` by column, ``None`` if the range has no end."""
        return {
            str(name): {str(end): plain_value(value) for end, value in line.items()}
            for name, line in self.table.iterrows()
        }
