"""Define constraints between columns, transitions and computed columns, and check that linear ones are consistent.

Each kind of constraint is a subclass of :class:`Constraint` listed in ``_KINDS``. The space, its tables, files and
priors use the base class only.
"""

import ast
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.optimize import linprog

from gbce._numerics import ROUNDING, WIDE_ROUNDING
from gbce._validation import printable, show
from gbce.base import Array
from gbce.space._expressions import HalfSpace, at_most, halfspaces, linear, names_in, ordered_pairs, require_readable
from gbce.space._feature import Feature
from gbce.space._terms import Levels, Term, evaluate, inequalities_among, term_of

if TYPE_CHECKING:
    from gbce.space._rows import RowCodec

_INFEASIBLE = 2  # status of scipy.optimize.linprog for a problem without a solution

# --- kinds of constraints --------------------------------------------------------------------------------------------


class Constraint(ABC):
    """A constraint that the row and every draw satisfy; ``text`` is its human-readable form.

    Linear inequalities that it implies are returned by :meth:`halfspaces`, so that priors draw within them; everything
    else is checked draw by draw.
    """

    kind: ClassVar[str]
    text: str

    @classmethod
    @abstractmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Parse user input that refers to columns ``names``; ``None`` if it is of another kind."""

    @abstractmethod
    def holds(self, space: "RowCodec", x: Array) -> Array:
        """Whether each row of ``(n, d)`` satisfies it, ``(n,)``."""

    def halfspaces(self, *, complete: bool = False) -> list[HalfSpace]:
        """Return the linear inequalities it implies; with ``complete``, each equation as two of them as well."""
        return []

    def names(self) -> tuple[str, ...] | None:
        """Return the columns it depends on; ``None`` if unknown."""
        return None

    def among(self, space: "RowCodec", x: Array, varying: Set[str]) -> list[HalfSpace] | None:
        """Return linear inequalities in the ``varying`` columns that imply it, the others as in an admissible row.

        ``None`` where there are none; the row ``x`` has shape ``(d,)``.
        """
        return None

    def term(self, columns: Mapping[str, int | Levels]) -> Term | None:
        """Return a faster :meth:`holds` for encoded rows with these columns; ``None`` if there is none."""
        return None

    def ordered_pairs(self) -> list[tuple[str, str]] | None:
        """Return pairs of columns ``(lower, upper)`` if it only says that lower <= upper for each, else ``None``."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return its JSON form; kinds other than expressions and functions add ``{"kind": self.kind}``."""

    @classmethod
    @abstractmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it from its JSON form."""


@dataclass(frozen=True)
class ExpressionConstraint(Constraint):
    """A constraint between columns as an expression: ``"debt <= 0.4 * income"``."""

    kind = "text"

    text: str

    @classmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Accept a string that refers to columns of the data only."""
        if not isinstance(given, str):
            return None
        require_readable(given, names)
        return cls(given)

    def holds(self, space: "RowCodec", x: Array) -> Array:
        """Whether each row of ``(n, d)`` satisfies it, ``(n,)``."""
        result = evaluate(self.text, lambda name: space.values(name, x))
        return _as_booleans(result, f"the constraint {self.text!r}", len(x))

    def halfspaces(self, *, complete: bool = False) -> list[HalfSpace]:
        """Return its linear conjuncts."""
        return halfspaces(self.text, complete=complete)

    def names(self) -> tuple[str, ...] | None:
        """Return the columns in the expression."""
        return names_in(self.text)

    def among(self, space: "RowCodec", x: Array, varying: Set[str]) -> list[HalfSpace] | None:
        """Return the inequalities left when the other columns are substituted."""
        if any(space.features[space.position[name]].kind not in ("real", "integer") for name in varying):
            return None
        return inequalities_among(self.text, lambda name: space.values(name, x[None, :]), varying)

    def term(self, columns: Mapping[str, int | Levels]) -> Term | None:
        """Compile the expression for encoded rows, where possible."""
        return term_of(self.text, columns)

    def ordered_pairs(self) -> list[tuple[str, str]] | None:
        """Return pairs ``(lower, upper)`` if it only orders columns."""
        return ordered_pairs(self.text)

    def to_json(self) -> dict[str, Any]:
        """Return the expression."""
        return {"text": self.text, "kept": True}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it from the expression."""
        return cls(written["text"])


@dataclass(frozen=True)
class FunctionConstraint(Constraint):
    """A constraint as a function of the frame with ``n`` rows to booleans ``(n,)``; ``None`` if read from a file."""

    kind = "function"

    text: str
    function: Callable[[Any], Any] | None = None

    @classmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Accept a function."""
        return cls(getattr(given, "__name__", type(given).__name__), given) if callable(given) else None

    def holds(self, space: "RowCodec", x: Array) -> Array:
        """Whether each row of ``(n, d)`` satisfies it, ``(n,)``."""
        if self.function is None:
            raise ValueError(f"the constraint {self.text!r} was a function, and functions are not stored in files")
        what = f"the constraint {self.text!r}"
        return _as_booleans(call_function(self.function, space.decode(x), what), what, len(x))

    def to_json(self) -> dict[str, Any]:
        """Return the function's name; code is not stored."""
        return {"text": self.text, "kept": False}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it without its function."""
        return cls(written["text"])


@dataclass(frozen=True)
class Condition(Constraint):
    """A follow-up condition on one column: a range, one value, or missing. The row need not satisfy it."""

    kind = "given"

    name: str  # of the feature
    low: float | None  # closed ends of the range, encoded and equal for one value; None leaves a side open
    high: float | None
    text: str  # for people: "debt is at most 200"
    kept: bool = False  # whether the value is the row's own
    missing: bool = False  # whether the value must be missing

    @classmethod
    def parse(cls, given: Any, names: tuple[str, ...]) -> Self | None:
        """Accept nothing: users give conditions as options of ``given``, not as constraints."""
        return None

    def holds(self, space: "RowCodec", x: Array) -> Array:
        """Whether each row of ``(n, d)`` satisfies it, ``(n,)``."""
        j = space.position[self.name]
        value = x[:, j]
        if self.missing:
            return np.isnan(value)
        low, high = self.ends
        tolerance = (
            ROUNDING * space.scale[j] if low == high else 0.0
        )  # a computed column may be summed in another order
        return (value >= low - tolerance) & (value <= high + tolerance)  # false for a missing value

    def names(self) -> tuple[str, ...] | None:
        """Return the one column."""
        return (self.name,)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value, infinite where a side is open."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    def halfspaces(self, *, complete: bool = False) -> list[HalfSpace]:
        """Return the ends as linear inequalities."""
        upper = [] if self.high is None else [({self.name: 1.0}, self.high)]
        return upper + ([] if self.low is None else [({self.name: -1.0}, -self.low)])

    def among(self, space: "RowCodec", x: Array, varying: Set[str]) -> list[HalfSpace] | None:
        """Return the ends of the range."""
        return self.halfspaces()

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        return asdict(self) | {"kind": self.kind}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Rebuild it, checking the types of its fields."""
        ends = [None if written[end] is None else float(written[end]) for end in ("low", "high")]
        if any(end is not None and math.isnan(end) for end in ends):
            raise ValueError("a condition has an end that is not a number")
        flags = bool(written["kept"]), bool(written["missing"])
        return cls(str(written["name"]), ends[0], ends[1], str(written["text"]), *flags)


_KINDS: tuple[type[Constraint], ...] = (ExpressionConstraint, FunctionConstraint, Condition)  # the first to accept


def as_constraints(given: Any, names: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Parse one constraint on the columns ``names``, or several; None is none."""
    if given is None:
        return ()
    single = _parse(given, names)
    if single is not None:
        return (single,)
    if not isinstance(given, Iterable):
        raise TypeError(f"constraints must be a list of strings such as 'a <= b' and functions, not {given!r}")
    found = []
    for one in given:
        constraint = _parse(one, names)
        if constraint is None:
            raise TypeError(f"a constraint must be a string such as 'a <= b' or a function of the frame, not {one!r}")
        found.append(constraint)
    return tuple(found)


def _parse(given: Any, names: tuple[str, ...]) -> Constraint | None:
    """Parse one constraint; ``None`` if no kind accepts it."""
    if isinstance(given, Constraint):
        return given
    return next((found for kind in _KINDS if (found := kind.parse(given, names)) is not None), None)


def constraint_of(written: dict[str, Any]) -> Constraint:
    """Rebuild a constraint of any kind from its JSON form."""
    name = written.get("kind") or ("text" if written["kept"] else "function")
    return {kind.kind: kind for kind in _KINDS}[name].from_json(written)


def call_function(function: Callable[[Any], Any], frame: Any, what: str) -> Any:
    """Call a user's function on a frame; the error message begins with ``what`` if it raises."""
    try:
        return function(frame)
    except Exception as error:
        raise ValueError(f"{what} raised {type(error).__name__}: {error}") from error


def _as_booleans(result: Any, what: str, n: int) -> Array:
    """Convert a result to one boolean per row ``(n,)``; reject anything else."""
    array = np.asarray(result)
    if array.shape not in ((), (n,)) or not _is_boolean(array):
        raise ValueError(
            f"{what} must return True or False for each of {n} rows, not an array of shape "
            f"{array.shape} and type {array.dtype}"
        )
    return np.broadcast_to(array.astype(bool), (n,))


def _is_boolean(array: Array) -> bool:
    """Whether an array holds booleans, or only zeros and ones."""
    if array.dtype.kind == "O":
        return all(isinstance(one, (bool, np.bool_)) for one in array.flat)
    return array.dtype.kind == "b" or (array.dtype.kind in "iuf" and bool(np.isin(array, (0, 1)).all()))


# --- all constraints of a space -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Checks:
    """Check constraints on encoded rows, each in its cheapest equivalent form."""

    lower: Array  # positions (k,) of pairs of columns that a constraint only orders, lower <= upper
    upper: Array
    others: tuple[Callable[[Array], Any], ...]  # rows (n, d) to booleans (n,), one for each other constraint

    @classmethod
    def of(cls, space: "RowCodec", constraints: tuple[Constraint, ...]) -> Self:
        """Compile constraints on the columns of a space."""
        columns: dict[str, int | Levels] = {
            feature.name: Levels(j, tuple(feature.levels or ())) if feature.leveled else j
            for j, feature in enumerate(space.features)
        }
        pairs: list[tuple[int, int]] = []
        others: list[Callable[[Array], Any]] = []
        for constraint in constraints:
            found = _find_pairs(constraint, columns)
            if found is None:
                others.append(constraint.term(columns) or partial(constraint.holds, space))
            else:
                pairs += found
        lower, upper = np.array(pairs, dtype=int).reshape(-1, 2).T
        return cls(lower, upper, tuple(others))

    def __call__(self, x: Array) -> Array:
        """Whether each row of ``(n, d)`` satisfies all of them, ``(n,)``."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            in_order = at_most(x[:, self.lower], x[:, self.upper]) if len(self.lower) else None
            good = np.ones(len(x), dtype=bool) if in_order is None else in_order.all(axis=1)
            for holds in self.others:
                good &= holds(x)
        return good


def _find_pairs(constraint: Constraint, columns: dict[str, int | Levels]) -> list[tuple[int, int]] | None:
    """Return the positions of the pairs of numbers that a constraint orders if it does nothing else, else ``None``."""
    found: list[tuple[int, int]] = []
    pairs = constraint.ordered_pairs()
    for one, other in pairs or ():
        lower, upper = columns[one], columns[other]
        if isinstance(lower, Levels) or isinstance(upper, Levels):
            return None
        found.append((lower, upper))
    return None if pairs is None else found


# --- computed columns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Computed:
    """A column computed from others, such as ``total = a + b``, by an expression or a function of the frame."""

    name: str
    text: str  # the expression, or the function's name
    function: Callable[[Any], Any] | None = None  # frame with n rows to numbers (n,)
    kept: bool = True  # whether it can be evaluated: of a function, files store only the name

    def values(self, space: "RowCodec", x: Array) -> Array:
        """Compute the column ``(n,)`` for rows ``(n, d)``."""
        if not self.kept:
            raise ValueError(f"{self.name!r} was computed by a function, and functions are not stored in files")
        n, what = len(x), f"computed column {self.name!r}: {self.text}"
        if self.function is None:
            result = evaluate(self.text, lambda name: space.values(name, x))
        else:
            result = call_function(self.function, space.decode(x), what)
        try:
            column = np.asarray(result, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{what} must return numbers") from None
        if column.shape not in ((), (n,)):
            raise ValueError(f"{what} must return {n} numbers, not {column.shape}")
        return np.broadcast_to(column, (n,))

    def names(self) -> tuple[str, ...] | None:
        """Return the columns it is computed from; ``None`` if unknown."""
        return names_in(self.text) if self.function is None and self.kept else None

    def linear(self) -> tuple[dict[str, float], float] | None:
        """Return coefficients and constant if it is linear in the other columns."""
        return None if self.function is not None or not self.kept else linear(self.text)


def same(a: Array, b: Array) -> Array:
    """Whether computed numbers ``a`` equal the row's ``b`` up to rounding."""
    return np.abs(a - b) <= WIDE_ROUNDING * np.maximum(1.0, np.abs(b))


def as_computed(given: Mapping[str, Any] | None, names: tuple[str, ...]) -> tuple[Computed, ...]:
    """Parse expressions and functions as computed columns, each after those it depends on."""
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
                f"computed[{name!r}] must be a string such as 'a + b' or a function of the frame, not {how!r}"
            )
    ready: list[Computed] = []
    while waiting:
        left = {one.name for one in waiting}
        free = [one for one in waiting if one.function is not None or not left & set(names_in(one.text))]
        if not free:
            raise ValueError(f"the computed columns {sorted(left)} depend on each other in a cycle")
        ready += free
        waiting = [one for one in waiting if one not in free]
    return tuple(ready)


def compared_columns(constraints: Any, computed: Any, names: tuple[str, ...]) -> list[tuple[str, frozenset[str]]]:
    """Return each expression among constraints, and each formula as one, with the columns ``names`` that it relates."""
    others, _ = read_transitions(constraints, names)
    texts = [one for one in as_constraints(others, names) if isinstance(one, ExpressionConstraint)]
    formulas = [one for one in as_computed(computed, names) if one.function is None and "`" not in one.name]
    found = [*(one.text for one in texts), *(f"`{one.name}` == ({one.text})" for one in formulas)]
    return [(text, frozenset(names_in(text))) for text in found]


# --- consistency of linear constraints -------------------------------------------------------------------------------


def require_consistent(features: tuple[Feature, ...], constraints: tuple[Constraint, ...]) -> None:
    """Reject linear constraints and bounds that no row can satisfy, naming a minimal contradictory subset."""
    position = {feature.name: j for j, feature in enumerate(features)}
    inequalities, sources = [], []
    leveled = {feature.name for feature in features if feature.leveled}  # encoded by position: no arithmetic
    for constraint in constraints:
        for weights, bound in constraint.halfspaces(complete=True):
            if leveled & set(weights):
                continue
            coefs = np.zeros(len(features))
            for name, weight in weights.items():
                coefs[position[name]] = weight
            inequalities.append((coefs, bound))
            sources.append(repr(constraint.text))
    if not inequalities:
        return
    for j, feature in enumerate(features):
        for limit, sign, word in ((feature.low, -1.0, "low"), (feature.high, 1.0, "high")):
            if limit is not None and not feature.stretch:  # assumed bounds stretch to a row outside them
                inequalities.append((sign * np.eye(len(features))[j], sign * limit))
                sources.append(f"{feature.name} has {word} = {limit:g}")
    kept = list(range(len(inequalities)))
    if _is_feasible(inequalities, kept):
        return
    for i in list(kept):  # drop whatever the contradiction does not need
        if not _is_feasible(inequalities, [k for k in kept if k != i]):
            kept.remove(i)
    named = list(dict.fromkeys(sources[i] for i in kept))
    raise ValueError(f"no row can meet all of these at once: {'; '.join(named)}. Drop or loosen one of them.")


def _is_feasible(inequalities: list[tuple[Array, float]], kept: list[int]) -> bool:
    """Whether some point satisfies the ``kept`` inequalities, by linear programming."""
    if not kept:
        return True
    left, right = np.array([inequalities[k][0] for k in kept]), np.array([inequalities[k][1] for k in kept])
    found = linprog(np.zeros(left.shape[1]), left, right, bounds=(None, None), method="highs")
    return bool(found.status != _INFEASIBLE)


# --- forbidden transitions ---------------------------------------------------------------------------------------


_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")
_NEVER = re.compile(
    r"\s*never\s+(?P<name>`[^`]+`|[^\W\d]\w*)\s+(?P<before>\S.*?)\s*->\s*(?P<after>\S.*?)\s*", re.DOTALL
)
_EVERY = "any"


class Transition(NamedTuple):
    """Levels of a column that may not be followed by others; ``None`` stands for every level."""

    name: str
    before: tuple[Any, ...] | None
    after: tuple[Any, ...] | None
    text: str


def read_transitions(given: Any, names: Sequence[str]) -> tuple[Any, list[Transition]]:
    """Split constraints on the columns ``names`` into others, as given, and transitions."""
    if isinstance(given, (str, Constraint)) or callable(given) or not isinstance(given, Iterable):
        found = _read_one(given, names)
        return (given, []) if found is None else ((), [found])
    listed = list(given)
    read = [_read_one(one, names) for one in listed]
    return [one for one, found in zip(listed, read, strict=True) if found is None], [one for one in read if one]


def _read_one(given: Any, names: Sequence[str]) -> Transition | None:
    """Read ``"never column 'a', 'b' -> 'c'"``; None for any other constraint."""
    if not isinstance(given, str):
        return None
    found = _NEVER.fullmatch(_STRING.sub(lambda quoted: "'" * len(quoted.group(0)), given))
    if found is None:
        return None
    name, before, after = (given[slice(*found.span(part))] for part in ("name", "before", "after"))
    if name.strip("`") not in names:
        raise ValueError(
            f"{given!r} refers to {name.strip('`')!r}, which is not a column; the columns are {list(names)}"
        )
    return Transition(name.strip("`"), _read_levels(before, given), _read_levels(after, given), given.strip())


def _read_levels(side: str, text: str) -> tuple[Any, ...] | None:
    """Read one side of the arrow: levels as Python writes them, or ``any``."""
    if side == _EVERY:
        return None
    try:
        levels = ast.literal_eval(f"({side},)")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(
            f"{text!r} cannot be parsed: {side!r} is not a list of levels. Write it like \"never degree 'Master', "
            f"'PhD' -> 'Bachelor'\", with levels as in the table, or {_EVERY} for every level."
        ) from None
    return tuple(levels)


def forbid(features: tuple[Feature, ...], transitions: Sequence[Transition]) -> tuple[Feature, ...]:
    """Return features that keep the transitions, too."""
    position = {feature.name: j for j, feature in enumerate(features)}
    found = list(features)
    for one in transitions:
        j = position[one.name]
        if not found[j].unordered:
            raise ValueError(
                f"{one.text!r}: {one.name!r} is {found[j].kind}, and only levels without an order have transitions; "
                f"say in which direction it may go, such as increase=[{one.name!r}]"
            )
        before, after = (_find_codes(found[j], side, one.text) for side in (one.before, one.after))
        pairs = {*found[j].forbidden, *((a, b) for a in before for b in after if a != b)}
        found[j] = replace(found[j], forbidden=tuple(sorted(pairs)))
    return tuple(found)


def _find_codes(feature: Feature, levels: tuple[Any, ...] | None, text: str) -> list[int]:
    """Return the positions of levels, of all if ``None``."""
    known = feature.levels or ()
    if levels is None:
        return list(range(len(known)))
    unknown = [level for level in levels if level not in known]
    if unknown:
        raise ValueError(
            f"{text!r}: {feature.name!r} has no level {show(unknown[0])}; its levels are {', '.join(map(show, known))}"
        )
    return [known.index(level) for level in levels]


def describe_transitions(features: Sequence[Feature]) -> list[str]:
    """Return the transitions of features as lines that could be given as constraints."""
    return [
        f"never {_quote_name(feature.name)} {printable(show((feature.levels or ())[before]))} -> "
        + ", ".join(printable(show((feature.levels or ())[after])) for _, after in pairs)
        for feature in features
        for before, pairs in groupby(feature.forbidden, key=lambda pair: pair[0])
    ]


def _quote_name(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
