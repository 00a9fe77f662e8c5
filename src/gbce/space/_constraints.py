"""Conditions that the row and every draw meet.

Each kind of condition is one class: a subclass of :class:`Constraint` that is listed in ``_KINDS``. The space, its
tables, files and priors know the base class only.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.optimize import linprog

from gbce.base import Array
from gbce.space._expressions import halfspaces, linear, names_in, ordered_pairs, require_readable
from gbce.space._feature import DATA_ROUNDING, ROUNDING, Feature
from gbce.space._terms import Levels, Term, evaluate, inequalities_among, term_of

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = [
    "Computed",
    "Condition",
    "Constraint",
    "FunctionConstraint",
    "HalfSpace",
    "TextConstraint",
    "as_computed",
    "as_constraints",
    "constraint_of",
    "require_consistent",
    "same",
]

# --- conditions that the row and every draw meet ---------------------------------------------------------------------

HalfSpace = tuple[dict[str, float], float]  # weights by column, and the bound: sum_j a_j x_j <= b


class Constraint(ABC):
    """A condition that the row and every draw meet.

    A kind says how it is read (:meth:`parse`), checked (:meth:`holds`) and kept in a file (:meth:`to_json`,
    :meth:`from_json`), and has a ``text`` for people. One that holds linear inequalities gives them as
    :meth:`halfspaces`, so that priors draw inside of them; all others are checked draw by draw.
    """

    kind: ClassVar[str]
    text: str

    @classmethod
    @abstractmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Read what a user gave for columns ``names``; ``None`` if it is of another kind."""

    @abstractmethod
    def holds(self, space: "Space", x: Array) -> Array:
        """Whether each row of ``(n, d)`` meets it, ``(n,)``."""

    def halfspaces(self, *, complete: bool = False) -> list[HalfSpace]:
        """Return linear inequalities that follow from it; with ``complete``, equations as two of them as well."""
        return []

    def names(self) -> tuple[str, ...] | None:
        """Columns that it looks at; ``None`` where that cannot be known."""
        return None

    def among(self, space: "Space", x: Array, varying: Set[str]) -> list[HalfSpace] | None:
        """Return linear inequalities of some columns that suffice for it, others as in a row ``(d,)`` that meets it.

        ``None`` where it has none.
        """
        return None

    def term(self, columns: Mapping[str, int | Levels]) -> Term | None:
        """Return a quicker :meth:`holds` for rows whose columns stand as given; ``None`` if there is none."""
        return None

    def ordered_pairs(self) -> list[tuple[str, str]] | None:
        """Pairs of columns of which the first is at most the second, if it says just that."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what a file keeps of it; kinds other than texts and functions add ``{"kind": self.kind}``."""

    @classmethod
    @abstractmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it from what a file kept."""


@dataclass(frozen=True)
class TextConstraint(Constraint):
    """A condition between columns as a text: ``"debt <= 0.4 * income"``."""

    kind = "text"

    text: str

    @classmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Read a text that names columns of the data only."""
        if not isinstance(given, str):
            return None
        require_readable(given, names)
        return cls(given)

    def holds(self, space: "Space", x: Array) -> Array:
        """Whether each row of ``(n, d)`` meets it, ``(n,)``."""
        said = evaluate(self.text, lambda name: space.values(name, x))
        return _as_verdicts(said, f"the constraint {self.text!r}", len(x))

    def halfspaces(self, *, complete: bool = False) -> list[HalfSpace]:
        """Return the linear inequalities that it joins by ``and``."""
        return halfspaces(self.text, complete=complete)

    def names(self) -> tuple[str, ...] | None:
        """Columns that the text mentions."""
        return names_in(self.text)

    def among(self, space: "Space", x: Array, varying: Set[str]) -> list[HalfSpace] | None:
        """Return what the text comes to with the other columns filled in."""
        if any(space.features[space.position[name]].kind not in ("real", "integer") for name in varying):
            return None
        return inequalities_among(self.text, lambda name: space.values(name, x[None, :]), varying)

    def term(self, columns: Mapping[str, int | Levels]) -> Term | None:
        """Return the text as a term of encoded rows, where it can be one."""
        return term_of(self.text, columns)

    def ordered_pairs(self) -> list[tuple[str, str]] | None:
        """Pairs of columns of which the first is at most the second, if it says just that."""
        return ordered_pairs(self.text)

    def to_json(self) -> dict[str, Any]:
        """Return the text."""
        return {"text": self.text, "kept": True}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it from its text."""
        return cls(written["text"])


@dataclass(frozen=True)
class FunctionConstraint(Constraint):
    """A condition as a function of the frame: ``n`` rows to booleans ``(n,)``; ``None`` where a file had it."""

    kind = "function"

    text: str
    function: Callable[[Any], Any] | None = None

    @classmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Take a function under its name."""
        return cls(getattr(given, "__name__", type(given).__name__), given) if callable(given) else None

    def holds(self, space: "Space", x: Array) -> Array:
        """Whether each row of ``(n, d)`` meets it, ``(n,)``."""
        if self.function is None:
            raise ValueError(f"the constraint {self.text!r} was a function, which a file does not keep")
        what = f"the constraint {self.text!r}"
        return _as_verdicts(call_function(self.function, space.decode(x), what), what, len(x))

    def to_json(self) -> dict[str, Any]:
        """Return the function's name; a file keeps no code."""
        return {"text": self.text, "kept": False}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it without its function."""
        return cls(written["text"])


@dataclass(frozen=True)
class Condition(Constraint):
    """A condition of a follow-up question on one column: a range, one value, or missing. The row need not meet it.

    Parameters
    ----------
    name : str
        Of the feature.
    low, high : float, optional
        Ends of the range as encoded, both included; the same number for one value. ``None`` leaves a side open.
    text : str
        For people: ``"debt is at most 200"``.
    kept : bool
        Whether the value is the row's own.
    missing : bool
        Whether the value is to be missing.
    """

    kind = "given"

    name: str
    low: float | None
    high: float | None
    text: str
    kept: bool = False
    missing: bool = False

    @classmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Read nothing: a condition is no text and no function."""
        return None

    def holds(self, space: "Space", x: Array) -> Array:
        """Whether each row of ``(n, d)`` meets it, ``(n,)``."""
        j = space.position[self.name]
        value = x[:, j]
        if self.missing:
            return np.isnan(value)
        low, high = self.ends
        room = ROUNDING * space.scale[j] if low == high else 0.0  # a computed column may come out in another order
        return (value >= low - room) & (value <= high + room)  # a missing value meets no range

    def names(self) -> tuple[str, ...] | None:
        """Return the one column."""
        return (self.name,)

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value, infinite where a side is open."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    def halfspaces(self, *, complete: bool = False) -> list[HalfSpace]:
        """Return the ends as linear inequalities."""
        upper = [] if self.high is None else [({self.name: 1.0}, self.high)]
        return upper + ([] if self.low is None else [({self.name: -1.0}, -self.low)])

    def among(self, space: "Space", x: Array, varying: Set[str]) -> list[HalfSpace] | None:
        """Return the ends of the range."""
        return self.halfspaces()

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return asdict(self) | {"kind": self.kind}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it, with numbers where numbers belong."""
        ends = [None if written[end] is None else float(written[end]) for end in ("low", "high")]
        if any(end is not None and math.isnan(end) for end in ends):
            raise ValueError("a condition has an end that is no number")
        flags = bool(written["kept"]), bool(written["missing"])
        return cls(str(written["name"]), ends[0], ends[1], str(written["text"]), *flags)


_KINDS: tuple[type[Constraint], ...] = (
    TextConstraint,
    FunctionConstraint,
    Condition,
)  # what is given is read by the first to fit


def as_constraints(given: Any, names: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Read one constraint on the columns ``names``, or several."""
    alone = _parse(given, names)
    if alone is not None:
        return (alone,)
    if not isinstance(given, Iterable):
        raise TypeError(f"constraints must be a list of texts such as 'a <= b' and functions, not {given!r}")
    found = []
    for one in given:
        constraint = _parse(one, names)
        if constraint is None:
            raise TypeError(f"a constraint must be a text such as 'a <= b' or a function of the frame, not {one!r}")
        found.append(constraint)
    return tuple(found)


def _parse(given: Any, names: tuple[str, ...]) -> Constraint | None:
    if isinstance(given, Constraint):
        return given
    return next((found for kind in _KINDS if (found := kind.parse(given, names)) is not None), None)


def constraint_of(written: dict[str, Any]) -> Constraint:
    """Rebuild a constraint of any kind from what a file kept."""
    name = written.get("kind") or ("text" if written["kept"] else "function")
    return {kind.kind: kind for kind in _KINDS}[name].from_json(written)


def call_function(function: Callable[[Any], Any], frame: Any, what: str) -> Any:
    """Return what a user's function says of a frame; ``what`` it is for begins the sentence if it fails."""
    try:
        return function(frame)
    except Exception as error:
        raise ValueError(f"{what} raised {type(error).__name__}: {error}") from error


def _as_verdicts(said: Any, what: str, n: int) -> Array:
    """Return one boolean per row ``(n,)``, or refuse what was said."""
    verdict = np.asarray(said)
    if verdict.shape not in ((), (n,)) or not _are_verdicts(verdict):
        raise ValueError(
            f"{what} must give True or False for each of {n} rows, not an array of shape "
            f"{verdict.shape} and type {verdict.dtype}"
        )
    return np.broadcast_to(verdict.astype(bool), (n,))


def _are_verdicts(said: Array) -> bool:
    if said.dtype.kind == "O":
        return all(isinstance(one, (bool, np.bool_)) for one in said.flat)
    return said.dtype.kind == "b" or (said.dtype.kind in "iuf" and bool(np.isin(said, (0, 1)).all()))


# --- columns that follow from others ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Computed:
    """A column that follows from others: ``total = a + b``, by a text or by a function of the frame.

    Parameters
    ----------
    name : str
        Of the column.
    text : str
        The formula, or the function's name.
    function : callable, optional
        Frame of ``n`` rows to numbers ``(n,)``.
    kept : bool
        Whether the function is still there; a file keeps only its name.
    """

    name: str
    text: str
    function: Callable[[Any], Any] | None = None
    kept: bool = True

    def values(self, space: "Space", x: Array) -> Array:
        """Return the column ``(n,)`` for rows ``(n, d)``."""
        if not self.kept:
            raise ValueError(f"{self.name!r} was computed by a function, which a file does not keep")
        n, what = len(x), f"computed column {self.name!r}: {self.text}"
        if self.function is None:
            said = evaluate(self.text, lambda name: space.values(name, x))
        else:
            said = call_function(self.function, space.decode(x), what)
        try:
            column = np.asarray(said, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{what} must give numbers") from None
        if column.shape not in ((), (n,)):
            raise ValueError(f"{what} must give {n} numbers, not {column.shape}")
        return np.broadcast_to(column, (n,))

    def names(self) -> tuple[str, ...] | None:
        """Columns that it follows from; ``None`` where that cannot be known."""
        return names_in(self.text) if self.function is None and self.kept else None

    def linear(self) -> tuple[dict[str, float], float] | None:
        """Coefficients and constant, if it is linear in the other columns."""
        return None if self.function is not None or not self.kept else linear(self.text)


def same(a: Array, b: Array) -> Array:
    """Whether numbers are equal up to rounding: those computed ``a`` and the row's own ``b``."""
    return np.abs(a - b) <= DATA_ROUNDING * np.maximum(1.0, np.abs(b))


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


# --- whether any row can meet all linear constraints and bounds at once ----------------------------------------------

_INFEASIBLE = 2  # the status that scipy.optimize.linprog gives a problem without a solution


def require_consistent(features: tuple[Feature, ...], constraints: tuple[Constraint, ...]) -> None:
    """Refuse linear constraints and bounds that no row can meet, and name the ones that contradict each other."""
    position = {feature.name: j for j, feature in enumerate(features)}
    lines, sources = [], []
    leveled = {feature.name for feature in features if feature.leveled}  # their numbers are positions, not levels
    for constraint in constraints:
        for weights, bound in constraint.halfspaces(complete=True):
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
            if limit is not None and not feature.stretch:  # those give way to a row
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
    found = linprog(np.zeros(left.shape[1]), left, right, bounds=(None, None), method="highs")
    return bool(found.status != _INFEASIBLE)
