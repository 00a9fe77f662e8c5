"""Choose bounds that the data suggest, and describe in one note what was assumed, with the option that changes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space._feature import Kind, Units

_MARGIN = 0.1  # of the range, beyond it on each side: values not seen, but near those that were
_BOUND_DIGITS = 15  # significant digits of an assumed bound: sums of doubles end in 999999
# Integers with so few distinct values are steps of a bounded scale: a rating from 1 to 4, rooms, the hour, the day of
# the month. Each must occur twice on average, or the ends are those of a small sample. Both chosen by hand.
_FEW_VALUES, _TIMES_SEEN = 31, 2
_MOST_NAMED = 2  # columns named in one clause of the note; the others are counted


class Span(NamedTuple):
    """Assumed bounds of a column, ``None`` where unbounded, and the words for the note if they need explaining."""

    low: float | None = None
    high: float | None = None
    edge: str = ""


@dataclass(frozen=True)
class Assumptions:
    """Sentences on what was assumed about a table, each with the option that changes it; none if nothing was."""

    sentences: tuple[str, ...] = ()

    def note(self, *before: str) -> str:
        """Join all sentences, after those given, into one note; empty where nothing was assumed."""
        sentences = [*before, *self.sentences]
        return f"Assumed: {sentences[0][0].lower()}{' '.join(sentences)[1:]}" if sentences else ""


def assume_bounds(kind: Kind, known: Array, *, whole_range: bool = True) -> Span:
    """Choose bounds for a column of numbers ``(n,)`` without missing values.

    They are the range and a tenth of it beyond on each side; but a column keeps its sign, a share stays within 0 and 1,
    and integers with few values stay within these. Without ``whole_range`` only sign and share count.
    """
    if kind in ("categorical", "boolean", "ordinal") or len(known) == 0:
        return Span()
    least, most = float(known.min()), float(known.max())
    if kind == "datetime":  # its origin is arbitrary: there is no sign to keep
        return _widen_range(kind, least, most) if whole_range and least < most else Span()
    if whole_range and least < most and _has_few_values(known):
        return Span(least, most, "within the values seen")
    span = _widen_range(kind, least, most) if whole_range and least < most else Span()
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
    """Describe the assumed bounds of columns in one sentence, and the option that changes them."""
    if all(span.low is None and span.high is None for _, span in spans):
        return ()
    clauses = []
    if any(span.edge != "within the values seen" and None not in (span.low, span.high) for _, span in spans):
        clauses.append("numbers may go up to 10% beyond the range seen in the data")
    for edge in dict.fromkeys(span.edge for _, span in spans if span.edge):
        clauses.append(f"{_list_names([name for name, span in spans if span.edge == edge])} {edge}")
    text = "; ".join(clauses)
    return (f"{text[0].upper()}{text[1:]}. Set `bounds=` to change this.",)


def describe_units(units: Units) -> tuple[str, ...]:
    """Describe in one sentence which columns have an unusual unit of change, and why."""
    if units.inflated:
        return (
            f"Most of {_list_names(units.inflated)} is one value: the unit is the median distance of the others to it, "
            "times 1.4826. Set `scale=` to change this.",
        )
    if not units.robust:
        return ()
    ranked = sorted(units.robust, key=lambda one: -one[1])
    times = f"{'up to ' * (len(ranked) > 1)}{ranked[0][1]:,.0f} times that"
    return (
        f"The unit of {_list_names([name for name, _ in ranked])} is the spread of the middle half, or of the other "
        f"values where one value is frequent, because the standard deviation is {times}. Set `scale=` to change this.",
    )


def _widen_range(kind: Kind, least: float, most: float) -> Span:
    """Return the range with a margin on each side, in integer steps unless the column is real."""
    margin = _MARGIN * most - _MARGIN * least  # scaled first: the difference itself might overflow
    margin = margin if kind == "real" else float(np.floor(margin))
    low, high = (float(f"{end:.{_BOUND_DIGITS}g}") for end in (least - margin, most + margin))
    return Span(low if np.isfinite(low) else None, high if np.isfinite(high) else None)


def _has_few_values(known: Array) -> bool:
    """Whether numbers ``(n,)`` are integral with few distinct values."""
    if not (known == np.floor(known)).all():
        return False
    n_distinct = len(np.unique(known))
    return n_distinct <= min(_FEW_VALUES, len(known) / _TIMES_SEEN)


def _list_names(names: Sequence[str]) -> str:
    """List names in a phrase, counting those beyond the first few."""
    shown = [repr(name) for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(shown)
