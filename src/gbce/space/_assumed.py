"""What is assumed of a table when nobody says otherwise: how far its numbers go, and which of them have a robust unit.

Everything here is read off the data, and said in one note together with the option that changes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space._feature import Kind
from gbce.space._units import Units

__all__ = ["Assumptions", "Span", "assume_bounds", "describe_spans", "describe_units"]

_MARGIN = 0.1  # of the range, beyond it on each side: what was not seen, but is near to what was
# Whole numbers with so few values are steps of a scale that has ends: a rate from 1 to 4, rooms, the hour, the day of
# the month. Each must come twice on average, or the ends are those of a small sample. Both chosen by hand.
_FEW_VALUES, _TIMES_SEEN = 31, 2
_MOST_NAMED = 2  # columns that one clause of the note names; the others are counted


class Span(NamedTuple):
    """How far a column goes, ``None`` where it has no end, and why: words of the note, or nothing to say."""

    low: float | None = None
    high: float | None = None
    edge: str = ""


@dataclass(frozen=True)
class Assumptions:
    """What was assumed of a table, in sentences that each name the option to change it.

    Parameters
    ----------
    sentences : tuple of str
        None, if nothing was assumed.

    Examples
    --------
    >>> Assumptions(("Numbers stay within 0 to 9 (bounds=).",)).note("Three columns change (prior=).")
    'Assumed: three columns change (prior=). Numbers stay within 0 to 9 (bounds=).'
    """

    sentences: tuple[str, ...] = ()

    def note(self, *before: str) -> str:
        """Return all of it as one note, after other sentences of that kind; nothing where nothing was assumed."""
        said = [*before, *self.sentences]
        return f"Assumed: {said[0][0].lower()}{' '.join(said)[1:]}" if said else ""


def assume_bounds(kind: Kind, known: Array, *, whole_range: bool = True) -> Span:
    """Return how far a column of numbers ``(n,)`` is assumed to go.

    Its range and a tenth of it beyond on each side; but a column that never changes its sign does not, a share stays
    within 0 and 1, and whole numbers with few values stay within these.

    Parameters
    ----------
    kind : str
        Of the column; categories and ordinals have no such bounds.
    known : array of shape (n,)
        What the data hold, missing values left out.
    whole_range : bool
        Whether the range counts; otherwise only the edges that numbers have by nature do.

    Examples
    --------
    >>> assume_bounds("real", np.array([0.5, 2.5, 10.5]))
    Span(low=0.0, high=11.5, edge='never below 0')
    >>> assume_bounds("integer", np.array([1, 2, 3, 4, 4, 2, 1, 3.0]))
    Span(low=1.0, high=4.0, edge='within the values seen')
    """
    if kind in ("categorical", "boolean", "ordinal") or len(known) == 0:
        return Span()
    least, most = float(known.min()), float(known.max())
    if kind == "datetime":  # it counts from a moment that means nothing
        return _widened(kind, least, most) if whole_range and least < most else Span()
    if whole_range and least < most and _has_few_values(known):
        return Span(least, most, "within the values seen")
    span = _widened(kind, least, most) if whole_range and least < most else Span()
    share = kind == "real" and least >= 0.0 and most <= 1.0 and least < most
    low, high, edge = span.low, span.high, ""
    if least >= 0.0 and (low is None or low < 0.0):
        low, edge = 0.0, "never below 0"
    if most <= 0.0 and not least >= 0.0 and (high is None or high > 0.0):
        high, edge = 0.0, "never above 0"
    if share and (high is None or high > 1.0):
        high, edge = 1.0, "within 0 and 1"
    return Span(low, high, edge)


def describe_spans(spans: Sequence[tuple[str, Span]]) -> tuple[str, ...]:
    """Say in one sentence how far columns go, by name and why; of many columns two are named, the others counted."""
    if all(span.low is None and span.high is None for _, span in spans):
        return ()
    clauses = []
    if any(span.edge != "within the values seen" and None not in (span.low, span.high) for _, span in spans):
        clauses.append("numbers stay within the data's range and a tenth of it beyond")
    for edge in dict.fromkeys(span.edge for _, span in spans if span.edge):
        clauses.append(f"{_listed([name for name, span in spans if span.edge == edge])} {edge}")
    text = "; ".join(clauses)
    return (f"{text[0].upper()}{text[1:]} (bounds= changes that; the row itself may lie outside).",)


def describe_units(units: Units) -> tuple[str, ...]:
    """Say in one sentence which columns are not measured by their standard deviation, or as was asked, and why."""
    if units.inflated:
        return (
            f"Most of {_listed(units.inflated)} is one value: the unit is the median distance of the others to it, "
            "times 1.4826 (scale= changes that).",
        )
    if not units.robust:
        return ()
    ranked = sorted(units.robust, key=lambda one: -one[1])
    times = f"{'up to ' * (len(ranked) > 1)}{ranked[0][1]:,.0f} times that"
    return (
        f"The unit of {_listed([name for name, _ in ranked])} is the spread of the middle half, or where one value is "
        f"frequent that of the others, as the standard deviation is {times} (scale= changes that).",
    )


def _widened(kind: Kind, least: float, most: float) -> Span:
    """Return the range and a margin beyond it, in whole steps where there are such."""
    margin = _MARGIN * most - _MARGIN * least  # each by itself: the difference of two numbers may be none
    margin = margin if kind == "real" else float(np.floor(margin))
    low, high = least - margin, most + margin
    return Span(low if np.isfinite(low) else None, high if np.isfinite(high) else None)


def _has_few_values(known: Array) -> bool:
    """Whether numbers ``(n,)`` are whole and few of them are different."""
    if not (known == np.floor(known)).all():
        return False
    different = len(np.unique(known))
    return different <= min(_FEW_VALUES, len(known) / _TIMES_SEEN)


def _listed(names: Sequence[str]) -> str:
    """Return names in one phrase; many of them cut short."""
    shown = [repr(name) for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(shown)
