"""Conditions between columns, and columns that follow from others."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from gbce.base import Array
from gbce.space._expressions import evaluate, halfspaces, linear, names_in, require_readable
from gbce.space._feature import Feature

__all__ = ["Computed", "Constraint", "as_computed", "as_constraints", "require_consistent"]

_SAME = 1e-9  # relative: a row's own value of a computed column may differ by rounding


@dataclass(frozen=True)
class Constraint:
    """A condition that the row and every draw meet: a text about columns, or a function of the frame.

    Parameters
    ----------
    text : str
        The condition, or the function's name.
    function : callable, optional
        Frame of ``n`` rows to booleans ``(n,)``.
    kept : bool
        Whether the function is still there; a file keeps only its name.
    """

    text: str
    function: Callable[[Any], Any] | None = None
    kept: bool = True

    def halfspaces(self) -> list[tuple[dict[str, float], float]]:
        """Linear inequalities ``a.x <= b`` in it, by column."""
        return self._linear(complete=False)

    def _linear(self, complete: bool) -> list[tuple[dict[str, float], float]]:
        readable = self.function is None and self.kept
        return halfspaces(self.text, complete=complete) if readable else []

    def met(self, values: Callable[[str], Any], frame: Callable[[], Any], n: int) -> Array:
        """Whether each of ``n`` rows meets it."""
        if not self.kept:
            raise ValueError(f"the constraint {self.text!r} was a function, which a file does not keep")
        what = f"the constraint {self.text!r}"
        said = evaluate(self.text, values) if self.function is None else _called(self.function, frame(), what)
        verdict = np.asarray(said)
        if verdict.shape not in ((), (n,)) or not _are_verdicts(verdict):
            raise ValueError(
                f"{what} must give True or False for each of {n} rows, not an array of shape "
                f"{verdict.shape} and type {verdict.dtype}"
            )
        return np.broadcast_to(verdict.astype(bool), (n,))


@dataclass(frozen=True)
class Computed:
    """A column that follows from others: ``total = a + b``, by a text or by a function of the frame."""

    name: str
    text: str
    function: Callable[[Any], Any] | None = None
    kept: bool = True

    def values(self, values: Callable[[str], Any], frame: Callable[[], Any], n: int) -> Array:
        """Return the column ``(n,)``."""
        if not self.kept:
            raise ValueError(f"{self.name!r} was computed by a function, which a file does not keep")
        what = f"computed column {self.name!r}: {self.text}"
        said = evaluate(self.text, values) if self.function is None else _called(self.function, frame(), what)
        try:
            column = np.asarray(said, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"computed column {self.name!r}: {self.text} must give numbers") from None
        if column.shape not in ((), (n,)):
            raise ValueError(f"computed column {self.name!r}: {self.text} must give {n} numbers, not {column.shape}")
        return np.broadcast_to(column, (n,))

    def linear(self) -> tuple[dict[str, float], float] | None:
        """Coefficients and constant, if it is linear in the other columns."""
        return None if self.function is not None or not self.kept else linear(self.text)


def _called(function: Callable[[Any], Any], frame: Any, what: str) -> Any:
    try:
        return function(frame)
    except Exception as error:
        raise ValueError(f"{what} raised {type(error).__name__}: {error}") from error


def _are_verdicts(said: Array) -> bool:
    if said.dtype.kind == "O":
        return all(isinstance(one, (bool, np.bool_)) for one in said.flat)
    return said.dtype.kind == "b" or (said.dtype.kind in "iuf" and bool(np.isin(said, (0, 1)).all()))


def same(a: Array, b: Array) -> Array:
    """Whether numbers are equal up to rounding."""
    return np.abs(a - b) <= _SAME * np.maximum(1.0, np.abs(b))


def as_constraints(given: Any, names: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Read texts and functions as constraints on the columns ``names``."""
    if isinstance(given, (str, Constraint)) or callable(given):
        given = [given]
    if not isinstance(given, Iterable):
        raise TypeError(f"constraints must be a list of texts such as 'a <= b' and functions, not {given!r}")
    found = []
    for one in given:
        if isinstance(one, Constraint):
            found.append(one)
        elif isinstance(one, str):
            require_readable(one, names)
            found.append(Constraint(one))
        elif callable(one):
            found.append(Constraint(getattr(one, "__name__", type(one).__name__), one))
        else:
            raise TypeError(f"a constraint must be a text such as 'a <= b' or a function of the frame, not {one!r}")
    return tuple(found)


def as_computed(given: Mapping[str, Any] | None, names: tuple[str, ...]) -> tuple[Computed, ...]:
    """Read texts and functions as computed columns, in an order in which each needs only earlier ones."""
    waiting: list[Computed] = []
    for name, how in (given or {}).items():
        if name not in names:
            raise ValueError(f"computed names {name!r}, which the data do not have; columns are {list(names)}")
        if isinstance(how, str):
            require_readable(how, names)
            waiting.append(Computed(name, how))
        elif callable(how):
            waiting.append(Computed(name, getattr(how, "__name__", type(how).__name__), how))
        else:
            raise TypeError(
                f"computed[{name!r}] must be a text such as 'a + b' or a function of the frame, not {how!r}"
            )
    ready: list[Computed] = []
    while waiting:
        left = {one.name for one in waiting}
        free = [one for one in waiting if one.function is not None or not left & set(names_in(one.text))]
        if not free:
            raise ValueError(f"the computed columns {sorted(left)} need each other in a circle")
        ready += free
        waiting = [one for one in waiting if one not in free]
    return tuple(ready)


def require_consistent(features: tuple[Feature, ...], constraints: tuple[Constraint, ...]) -> None:
    """Refuse linear constraints and bounds that no row can meet, and name the ones that contradict each other."""
    position = {feature.name: j for j, feature in enumerate(features)}
    lines, sources = [], []
    leveled = {feature.name for feature in features if feature.leveled}  # their numbers are positions, not levels
    for constraint in constraints:
        for weights, bound in constraint._linear(complete=True):
            if leveled & set(weights):
                continue
            line = np.zeros(len(features))
            for name, weight in weights.items():
                line[position[name]] = weight
            lines.append((line, bound))
            sources.append(repr(constraint.text))
    if not lines:
        return
    for j, feature in enumerate(features):
        for limit, sign, word in ((feature.low, -1.0, "low"), (feature.high, 1.0, "high")):
            if limit is not None:
                lines.append((sign * np.eye(len(features))[j], sign * limit))
                sources.append(f"{feature.name} has {word} = {limit:g}")
    kept = list(range(len(lines)))
    if _feasible(lines, kept):
        return
    for i in list(kept):  # what can be left out without curing it has no part in the contradiction
        if not _feasible(lines, [k for k in kept if k != i]):
            kept.remove(i)
    named = list(dict.fromkeys(sources[i] for i in kept))
    raise ValueError(f"no row can meet all of these at once: {'; '.join(named)}. Drop or loosen one of them.")


def _feasible(lines: list[tuple[Array, float]], kept: list[int]) -> bool:
    if not kept:
        return True
    left, right = np.array([lines[k][0] for k in kept]), np.array([lines[k][1] for k in kept])
    # status 2: infeasible
    return linprog(np.zeros(left.shape[1]), left, right, bounds=(None, None), method="highs").status != 2
