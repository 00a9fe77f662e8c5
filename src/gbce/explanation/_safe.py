"""Ranges of columns within which a model certainly goes on saying what is wanted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import printable
from gbce.base import Array
from gbce.explanation._words import join_words, number_text, say_value
from gbce.space import Space, plain_value

__all__ = ["SafeBox"]

_DIGITS, _ALL_DIGITS = 6, 17  # of a number, as a person would copy it out, and that tell any two doubles apart


@dataclass(frozen=True, eq=False)
class SafeBox:
    """Ranges of columns, all at once, within which the first model certainly reaches the target: proved, not sampled.

    Every other column is as in the decision that the box is of. Made by :meth:`gbce.Explainer.safe_box`, and beside
    ``explanation.answer`` where the model is a tree ensemble that can be read.

    Parameters
    ----------
    space : Space
        The features.
    features : tuple of c str
        Their names.
    low, high : array of shape (c,)
        Lowest and highest value, encoded; infinite where there is no end.

    Examples
    --------
    >>> from gbce import Space
    >>> low, high = np.array([41200.0, 0.0]), np.array([55000.0, np.inf])
    >>> box = SafeBox(Space.real(["income", "debt"]), ("income", "debt"), low, high)
    >>> box.sentence
    'This holds anywhere with income between 41,200 and 55,000 and debt of at least 0.'
    >>> box.to_dict()["income"]
    {'low': 41200.0, 'high': 55000.0}
    """

    space: Space
    features: tuple[str, ...]
    low: Array
    high: Array

    @property
    def table(self) -> pd.DataFrame:
        """One line per column: ``low`` and ``high`` as the table has them, ``None`` where there is no end."""
        shown = {
            name: [self._value(name, end) for end in ends]
            for name, *ends in zip(self.features, self.low, self.high, strict=True)
        }
        frame = pd.DataFrame.from_dict(shown, orient="index", columns=["low", "high"], dtype=object)
        return frame.rename_axis("feature")

    def _value(self, name: str, end: float) -> Any:
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
        """Return which rows ``(n, d)`` lie in the ranges ``(n,)``; the other columns are not looked at."""
        at = [self.space.position[name] for name in self.features]
        return np.asarray(((x[:, at] >= self.low) & (x[:, at] <= self.high)).all(axis=1))

    @property
    def sentence(self) -> str:
        """The ranges in words."""
        parts = []
        for name, low, high in zip(self.features, self.low.tolist(), self.high.tolist(), strict=True):
            j, said = self.space.position[name], printable(name)
            if np.isfinite(low) and np.isfinite(high):
                parts.append(f"{said} between {self._end(j, low, True)} and {self._end(j, high, False)}")
            elif np.isfinite(low):
                parts.append(f"{said} of at least {self._end(j, low, True)}")
            elif np.isfinite(high):
                parts.append(f"{said} of at most {self._end(j, high, False)}")
            else:
                parts.append(f"any {said}")
        return f"This holds anywhere with {join_words(parts)}."

    def _end(self, j: int, value: float, is_low: bool) -> str:
        """Return an end with as few digits as keep what is written inside."""
        if self.space.features[j].kind != "real":
            return say_value(self.space, j, value)
        for digits in range(_DIGITS, _ALL_DIGITS + 1):
            text = number_text(value, digits)
            written = float(text.replace(",", ""))
            if written >= value if is_low else written <= value:
                return text
        return number_text(value, _ALL_DIGITS)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the ranges as plain data by column: ``low`` and ``high``, ``None`` where there is no end."""
        return {
            str(name): {str(end): plain_value(value) for end, value in line.items()}
            for name, line in self.table.iterrows()
        }
