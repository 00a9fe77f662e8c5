"""Suggest constraints that hold in nearly all rows of a table, choose bounds from it, and say what was assumed.

Inequalities between two numbers, sums of two columns, implications between levels, and floats that are nearly always
integral. Relations that chance alone would produce are left out: both sides must vary and be comparable, and a level
must be common enough to be an exception.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._validation import is_number, printable
from gbce.base import Array
from gbce.space._feature import Kind, Units


@dataclass(frozen=True)
class _Tuning:
    """What is compared, and what counts as a rule; by hand."""

    most_columns: int = 60  # numbers, and level columns, that are compared; the first ones of a wider table
    most_rows: int = 20_000  # from which rules are read, evenly picked
    fewest_rows: int = 30  # below this many, chance would produce most rules
    nearly: float = 0.99  # share of rows in which a suggested rule holds
    most_sums: int = 24  # columns among which sums are sought: their number grows with the cube
    sum_rounding: float = 1e-9  # relative, of a sum that holds
    overlap: float = 0.05  # share of rows in which both parts of a sum are not zero
    # exceptions that unrelated columns would have: none of them occurs by chance once in three million
    by_chance: int = 15
    fewer: float = 0.1  # of these exceptions, at most, occur


_TUNING = _Tuning()

_WORDS = ("then", "abs", "min", "max", "log", "exp", "sqrt", "round", "floor")  # that expressions read as their own


class Suggestion(NamedTuple):
    """A rule that the data follow.

    Parameters
    ----------
    option : str
        Option of :meth:`gbce.Space.infer` that takes it: "constraints", "computed" or "kinds".
    line : str
        What to paste into the option.
    support : float
        Share of the rows that follow it.
    n : int
        Number of rows that say something about it.
    """

    option: str
    line: str
    support: float
    n: int


@dataclass(frozen=True)
class Suggestions:
    """Rules that the data follow, strongest first; ``print`` shows them as lines to paste.

    Examples
    --------
    See :meth:`gbce.Space.suggest`.
    """

    found: tuple[Suggestion, ...]
    note: str = ""

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.found)

    @property
    def table(self) -> pd.DataFrame:
        """One line per rule: ``option``, ``line``, ``support`` and ``n``."""
        return pd.DataFrame(list(self.found), columns=list(Suggestion._fields))

    def __str__(self) -> str:
        lines = []
        for option, brackets in (("constraints", "[]"), ("computed", "{}"), ("kinds", "{}")):
            own = [one for one in self.found if one.option == option]
            if own:
                shown = [(printable(f"    {one.line},"), _say_support(one)) for one in own]
                width = max(len(line) for line, _ in shown)
                body = [f"{line.ljust(width)}  # {support}" for line, support in shown]
                lines += [f"{option}={brackets[0]}", *body, f"{brackets[1]},"]
        return "\n".join([*(lines or ["No rule was found that nearly all rows follow."]), *filter(None, [self.note])])

    __repr__ = __str__


def _say_support(one: Suggestion) -> str:
    exceptions = round((1.0 - one.support) * one.n)
    return f"all {one.n:,} rows" if exceptions == 0 else f"{one.n - exceptions:,} of {one.n:,} rows"


def suggest(table: pd.DataFrame) -> Suggestions:
    """Return rules that hold in nearly all rows of a table, see :meth:`gbce.Space.suggest`."""
    if len(table) < _TUNING.fewest_rows:
        return Suggestions((), f"Rules are read from at least {_TUNING.fewest_rows} rows, and there are {len(table)}.")
    picked = np.unique(np.linspace(0, len(table) - 1, min(len(table), _TUNING.most_rows)).round().astype(int))
    some = table.iloc[picked]
    some = some.loc[:, ["`" not in str(name) for name in some.columns]]  # no expression can name the others
    numbers = {str(name): _read_numbers(some[name]) for name in some.columns if _is_numeric(some[name])}
    numbers = {name: values for name, values in numbers.items() if _varies(values)}
    levels = {str(name): some[name] for name in some.columns if str(name) not in numbers and _has_levels(some[name])}
    wide = max(len(numbers), len(levels)) > _TUNING.most_columns
    numbers, levels = (dict(list(one.items())[: _TUNING.most_columns]) for one in (numbers, levels))
    sums, parts = _suggest_sums(numbers)
    found = [
        *sums,
        *_suggest_orders(numbers, parts),
        *_suggest_implications(levels),
        *_suggest_integers(numbers),
    ]
    note = f"Only the first {_TUNING.most_columns} columns of each kind were compared." if wide else ""
    return Suggestions(tuple(sorted(found, key=lambda one: (one.option, -one.support))), note)


def _is_numeric(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype)) and not pd.api.types.is_bool_dtype(column.dtype)


def _has_levels(column: pd.Series) -> bool:
    """Whether a column has few enough levels, which are strings, integers or booleans."""
    known = column.dropna()
    if known.empty or not all(isinstance(one, (str, bool, np.bool_)) or is_number(one) for one in known.iloc[:100]):
        return False
    return 1 < known.nunique() <= len(known) / _TUNING.fewest_rows + 2


def _read_numbers(column: pd.Series) -> Array:
    return column.to_numpy(dtype=float, na_value=np.nan)


def _varies(values: Array) -> bool:
    """Whether a number has more than two values, so that it is not a flag."""
    known = values[np.isfinite(values)]
    return len(known) >= _TUNING.fewest_rows and len(np.unique(known)) > 2


def _suggest_orders(numbers: dict[str, Array], sums: set[frozenset[str]]) -> list[Suggestion]:
    """Suggest inequalities between two numbers that values paired at random would not follow, sums left out."""
    rng = np.random.default_rng(0)  # for the pairing; the same table gives the same rules
    found: dict[tuple[str, str], Suggestion] = {}
    for first, second in combinations(numbers, 2):
        known = np.isfinite(numbers[first]) & np.isfinite(numbers[second])
        n = int(known.sum())
        if any({first, second} <= one for one in sums):
            continue
        if n < _TUNING.fewest_rows or (numbers[first][known] == numbers[second][known]).all():
            continue
        order = rng.permutation(n)
        for low, high in ((first, second), (second, first)):
            x, y = numbers[low][known], numbers[high][known]
            missed, by_chance = int((x > y).sum()), int((x > y[order]).sum())
            if missed <= (1.0 - _TUNING.nearly) * n and _is_surprising(missed, by_chance):
                # an inequality with a missing value does not hold: such rows are exempt in so many words
                gaps = [
                    f" or {_quote(name)} != {_quote(name)}" for name in (low, high) if np.isnan(numbers[name]).any()
                ]
                line = repr(f"{_quote(low)} <= {_quote(high)}{''.join(gaps)}")
                found[low, high] = Suggestion("constraints", line, 1.0 - missed / n, n)
    implied = {(a, d) for a, b in found for c, d in found if b == c}
    return [one for pair, one in found.items() if pair not in implied]


def _is_surprising(missed: int, by_chance: float) -> bool:
    """Whether a rule has far fewer exceptions than it would have by chance."""
    return by_chance >= _TUNING.by_chance and missed <= _TUNING.fewer * by_chance


def _suggest_sums(numbers: dict[str, Array]) -> tuple[list[Suggestion], set[frozenset[str]]]:
    """Suggest columns that are the sum of two others, and return the three columns of each sum."""
    names = list(numbers)[: _TUNING.most_sums]
    found: list[Suggestion] = []
    used: set[frozenset[str]] = set()
    for first, second in combinations(names, 2):
        total = numbers[first] + numbers[second]
        for whole in names:
            key = frozenset((first, second, whole))
            if whole in (first, second) or key in used:
                continue
            known = np.isfinite(total) & np.isfinite(numbers[whole])
            if known.sum() < _TUNING.fewest_rows:
                continue
            size = np.maximum(np.abs(total[known]), 1.0)
            equal = np.abs(total[known] - numbers[whole][known]) <= _TUNING.sum_rounding * size
            support = float(equal.mean())
            both = known & (numbers[first] != 0) & (numbers[second] != 0)
            if support >= _TUNING.nearly and float(both.mean()) >= _TUNING.overlap:
                used.add(key)
                line = f"{whole!r}: {f'{_quote(first)} + {_quote(second)}'!r}"
                found.append(Suggestion("computed", line, support, int(known.sum())))
    return found, used


def _suggest_implications(levels: dict[str, pd.Series]) -> list[Suggestion]:
    """Suggest levels of one column that go with one level of another, which is not common anyway."""
    found = []
    for first, second in ((a, b) for a in levels for b in levels if a != b):
        counts = pd.crosstab(levels[first], levels[second])
        if counts.empty:
            continue
        share = counts.sum(axis=0) / counts.to_numpy().sum()
        for level, line in counts.iterrows():
            n, most = int(line.sum()), line.idxmax()
            missed = n - int(line[most])
            if n and missed <= (1.0 - _TUNING.nearly) * n and _is_surprising(missed, n * (1.0 - float(share[most]))):
                text = f"if {_quote(first)} == {_write(level)} then {_quote(second)} == {_write(most)}"
                found.append(Suggestion("constraints", repr(text), 1.0 - missed / n, n))
    return found


def _quote(name: str) -> str:
    """Return a column name as expressions write it."""
    plain = name.isidentifier() and not iskeyword(name) and name not in _WORDS
    return name if plain else f"`{name}`"


def _write(level: Any) -> str:
    return repr(level.item() if isinstance(level, np.generic) else level)


def _suggest_integers(numbers: dict[str, Array]) -> list[Suggestion]:
    """Suggest floats that are integral with few exceptions: others are inferred, or are measurements."""
    found = []
    for name, values in numbers.items():
        known = values[np.isfinite(values)]
        support = float((known == np.round(known)).mean())
        if _TUNING.nearly <= support < 1.0:
            found.append(Suggestion("kinds", f"{name!r}: 'integer'", support, len(known)))
    return found


# --- bounds ------------------------------------------------------------------------------------------------------


_SEEN = "stay{s} within the values seen"
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

    They are the range and a tenth of it beyond on each side; but a column keeps its sign, a share stays between 0 and
    1, and integers with few values stay within these. Without ``whole_range`` only sign and share count.
    """
    if kind in ("categorical", "boolean", "ordinal") or len(known) == 0:
        return Span()
    least, most = float(known.min()), float(known.max())
    if kind == "datetime":  # its origin is arbitrary: there is no sign to keep
        return _widen_range(kind, least, most) if whole_range and least < most else Span()
    if whole_range and least < most and _has_few_values(known):
        return Span(least, most, _SEEN)
    span = _widen_range(kind, least, most) if whole_range and least < most else Span()
    share = kind == "real" and least >= 0.0 and most <= 1.0 and least < most
    low, high, edge = span.low, span.high, ""
    if least >= 0.0 and (low is None or low < 0.0):
        low, edge = 0.0, "never go{es} below 0"
    if most <= 0.0 and not least >= 0.0 and (high is None or high > 0.0):
        high, edge = 0.0, "never go{es} above 0"
    if share and (high is None or high > 1.0):
        high, edge = 1.0, "stay{s} between 0 and 1"
    return Span(low, high, edge)


def describe_spans(spans: Sequence[tuple[str, Span]]) -> tuple[str, ...]:
    """Describe the assumed bounds of columns in one sentence, and the option that changes them."""
    if all(span.low is None and span.high is None for _, span in spans):
        return ()
    clauses = []
    if any(span.edge != _SEEN and None not in (span.low, span.high) for _, span in spans):
        clauses.append("numbers may go up to 10% beyond the range seen in the data")
    for edge in dict.fromkeys(span.edge for _, span in spans if span.edge):
        names = [name for name, span in spans if span.edge == edge]
        verb = {"s": "s" * (len(names) == 1), "es": "es" * (len(names) == 1)}
        clauses.append(f"{_list_names(names)} {edge.format(**verb)}")
    text = "; ".join(clauses)
    return (f"{text[0].upper()}{text[1:]}. Set `bounds=` to change this.",)


def describe_units(units: Units) -> tuple[str, ...]:
    """Describe in one sentence which columns have an unusual unit of change, and why."""
    if units.inflated:
        return (
            f"One value makes up most of {_list_names(units.inflated)}: the unit is the median distance of the others "
            "to it, times 1.4826. Set `scale=` to change this.",
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
