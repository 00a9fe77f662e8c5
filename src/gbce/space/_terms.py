"""Texts as terms: read once, worked out often, on columns as a user reads them or on encoded rows."""

import ast
import operator
from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.space._expressions import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    LISTS,
    MOST_TEXTS,
    Expression,
    linear_terms,
    parse,
)
from gbce.space._feature import ROUNDING

__all__ = ["Levels", "Term", "evaluate", "inequalities_among", "level_positions", "term_of"]

Values = Callable[[str], Any]
Term = Callable[[Any], Any]  # of what columns are read from: a function of their names, or encoded rows


def evaluate(text: str, values: Values) -> Any:
    """Value of a text where ``values(name)`` gives a column ``(n,)``; a condition gives booleans ``(n,)``."""
    try:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return _named_term(text)(values)
    except TypeError as error:
        raise ValueError(
            f"{text!r} cannot be worked out, because it mixes texts and numbers or does arithmetic on strings: {error}"
        ) from None


@lru_cache(maxsize=MOST_TEXTS)
def _named_term(text: str) -> Term:
    parsed = parse(text)
    return _Builder(lambda node: _Named(parsed.names[node.id])).term(parsed.tree)


@dataclass(frozen=True, eq=False)
class Levels:
    """A column of encoded rows whose values are levels: where it stands, and what they are."""

    j: int
    values: tuple[Any, ...]

    def column(self) -> Array:
        """Return all levels as objects, a missing one at the end."""
        return np.array([*self.values, np.nan], dtype=object)


def level_positions(codes: Array) -> Array:
    """Positions ``(n,)`` of encoded levels in a list that has the missing one at its end."""
    return np.where(np.isnan(codes), -1, np.round(codes)).astype(int)


def term_of(text: str, columns: Mapping[str, int | Levels]) -> Term | None:
    """Return a condition as a term of encoded rows ``(n, d)`` that gives booleans ``(n,)``.

    Parameters
    ----------
    text : str
        A condition.
    columns : mapping
        The position of each column of numbers, and the levels of each other.

    Returns
    -------
    callable or None
        ``None`` where only the columns as a user reads them can say: levels in arithmetic, several columns with
        levels in one comparison, a text that is no condition.
    """
    parsed = parse(text)
    try:
        return _EncodedBuilder(parsed, columns).verdict(parsed.tree)
    except _NeedsValuesError:
        return None


# --- terms: classes, not closures, so that a space with some can be sent to another process -----------------------


@dataclass(frozen=True)
class _Named:
    name: str

    def __call__(self, values: Values) -> Any:
        return values(self.name)


@dataclass(frozen=True)
class _Column:
    j: int

    def __call__(self, x: Array) -> Any:
        return x[:, self.j]


@dataclass(frozen=True, eq=False)
class _Looked:
    """What a comparison says of each level of one column, and of a missing one at the end."""

    j: int
    said: Array

    def __call__(self, x: Array) -> Any:
        return self.said[level_positions(x[:, self.j])]


@dataclass(frozen=True)
class _Constant:
    value: Any

    def __call__(self, source: Any) -> Any:
        return self.value


@dataclass(frozen=True)
class _One:
    function: Callable[[Any], Any]
    part: Term

    def __call__(self, source: Any) -> Any:
        return self.function(self.part(source))


@dataclass(frozen=True)
class _Two:
    function: Callable[[Any, Any], Any]
    left: Term
    right: Term

    def __call__(self, source: Any) -> Any:
        return self.function(self.left(source), self.right(source))


@dataclass(frozen=True)
class _Several:
    """Joined from left to right by a function of two."""

    function: Callable[[Any, Any], Any]
    parts: tuple[Term, ...]

    def __call__(self, source: Any) -> Any:
        result = self.parts[0](source)
        for part in self.parts[1:]:
            result = self.function(result, part(source))
        return result


@dataclass(frozen=True)
class _Called:
    function: Callable[..., Any]
    parts: tuple[Term, ...]

    def __call__(self, source: Any) -> Any:
        return self.function(*[part(source) for part in self.parts])


class _Builder:
    """Turns the tree of a text into terms; ``column`` says what a name becomes."""

    def __init__(self, column: Callable[[ast.Name], Term]) -> None:
        self._column = column

    def term(self, node: ast.expr) -> Term:
        """Return a node and all below it as one term."""
        match node:
            case ast.Constant():
                return _Constant(self.constant(node))
            case ast.Name():
                return self._column(node)
            case ast.BinOp():
                return _Two(ARITHMETIC[type(node.op)], self.term(node.left), self.term(node.right))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.term(node.operand)
            case ast.UnaryOp():
                return _One(np.logical_not if isinstance(node.op, ast.Not) else operator.neg, self.term(node.operand))
            case ast.BoolOp():
                join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
                return _Several(join, tuple([self.term(part) for part in node.values]))
            case ast.Call(func=ast.Name(id=name)):
                return _Called(FUNCTIONS[name], tuple([self.term(part) for part in node.args]))
            case ast.Compare():
                return self.compare(node)
        raise ValueError(f"{ast.unparse(node)} is not a value")

    def constant(self, node: ast.Constant) -> Any:
        """Return a number, a text or a truth value; whole numbers as floats, which do not grow without end."""
        return node.value if isinstance(node.value, (bool, str)) else np.float64(node.value)  # type: ignore[arg-type]

    def compare(self, node: ast.Compare) -> Term:
        """Return one comparison or a chain of them."""
        pairs = zip(node.ops, [node.left, *node.comparators[:-1]], node.comparators, strict=True)
        return _Several(np.logical_and, (_Constant(np.True_), *[self._compare_two(*pair) for pair in pairs]))

    def _compare_two(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Term:
        one = self.term(left)
        if not isinstance(op, (ast.In, ast.NotIn)):
            return _Two(COMPARISONS[type(op)], one, self.term(right))
        assert isinstance(right, LISTS)
        same = [_Two(operator.eq, one, self.term(element)) for element in right.elts]
        found = _Several(np.logical_or, (_Constant(np.False_), *same))
        return found if isinstance(op, ast.In) else _One(np.logical_not, found)


class _NeedsValuesError(Exception):
    """A text that can be worked out only on columns as a user reads them."""


class _EncodedBuilder(_Builder):
    """Turns the tree of a condition into terms of encoded rows where that says the same."""

    def __init__(self, parsed: Expression, columns: Mapping[str, int | Levels]) -> None:
        super().__init__(self._number)
        self._places = {key: columns[name] for key, name in parsed.names.items()}

    def verdict(self, node: ast.expr) -> Term:
        """Return a term that gives booleans; refuse where it may give something else."""
        match node:
            case ast.BoolOp():
                join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
                return _Several(join, tuple([self.verdict(part) for part in node.values]))
            case ast.UnaryOp(op=ast.Not()):
                return _One(np.logical_not, self.verdict(node.operand))
            case ast.Compare():
                return self.compare(node)
        raise _NeedsValuesError

    def constant(self, node: ast.Constant) -> Any:
        """Return a number; others stand beside levels only."""
        if isinstance(node.value, (bool, str)):
            raise _NeedsValuesError
        return super().constant(node)

    def compare(self, node: ast.Compare) -> Term:
        """Work a comparison of one column with levels out for each of them, any other by its numbers."""
        keys = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id in self._places}
        places = [self._places[key] for key in keys]
        match places:
            case []:
                raise _NeedsValuesError  # the same for all rows
            case [Levels() as levels]:
                return self._look_up(node, levels)
        found = super().compare(node)
        # one comparison of numbers gives booleans, and needs nothing to be joined to
        return found.parts[1] if isinstance(found, _Several) and len(found.parts) == 2 else found

    def _number(self, node: ast.Name) -> Term:
        place = self._places[node.id]
        if isinstance(place, Levels):
            raise _NeedsValuesError
        return _Column(place)

    @staticmethod
    def _look_up(node: ast.Compare, levels: Levels) -> Term:
        column = _Constant(levels.column())
        try:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                said = np.asarray(_Builder(lambda name: column).term(node)(None))
        except TypeError:
            raise _NeedsValuesError from None  # worked out on values, it says why
        if said.dtype != bool or said.shape != (len(levels.values) + 1,):
            raise _NeedsValuesError
        return _Looked(levels.j, said)


# --- what a condition comes to where only some columns vary ---------------------------------------------------------

_OPPOSITE: dict[type, type[ast.cmpop]] = {
    ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_SIDES: dict[type, tuple[float, ...]] = {
    ast.LtE: (1.0,), ast.Lt: (1.0,), ast.GtE: (-1.0,), ast.Gt: (-1.0,), ast.Eq: (1.0, -1.0)
}  # fmt: skip


def inequalities_among(text: str, values: Values, varying: Set[str]) -> list[tuple[dict[str, float], float]] | None:
    """Return inequalities ``sum_j a_j x_j <= b`` of some columns that suffice for a condition, others as they are.

    Parameters
    ----------
    text : str
        A condition.
    values : callable
        Takes the name of a column, returns its value in one row that meets the condition ``(1,)``.
    varying : set of str
        Columns of numbers that vary; all others are as in the row.

    Returns
    -------
    list or None
        Of several parts joined by ``or``, those of one that the row meets. None where they are not linear.

    Examples
    --------
    >>> row = {"job": np.array(["none"], dtype=object), "pay": np.array([10.0]), "debt": np.array([2.0])}
    >>> inequalities_among("if job == 'none' then debt / pay <= 0.4", row.get, {"debt"})
    [({'debt': 0.1}, 0.4)]
    """
    parsed = parse(text)
    builder = _Builder(lambda node: _Named(parsed.names[node.id]))

    def say(node: ast.expr) -> Any:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            said = np.asarray(builder.term(node)(values)).ravel()[0]
        return said.item() if isinstance(said, np.generic) else said

    keys = {key for key, name in parsed.names.items() if name in varying}
    return _suffice(_fill_in(parsed.tree, keys, say), parsed.names, say)


def _fill_in(node: ast.expr, keys: Set[str], say: Callable[[ast.expr], Any]) -> ast.expr:
    """Return a tree in which whatever names none of some columns is a constant."""
    if isinstance(node, LISTS):
        return node
    if not any(isinstance(part, ast.Name) and part.id in keys for part in ast.walk(node)):
        return node if isinstance(node, ast.Constant) else ast.Constant(say(node))
    filled = copy(node)
    for name, part in ast.iter_fields(node):
        if name == "func":
            continue
        if isinstance(part, ast.expr):
            setattr(filled, name, _fill_in(part, keys, say))
        elif isinstance(part, list):
            setattr(filled, name, [_fill_in(one, keys, say) if isinstance(one, ast.expr) else one for one in part])
    return filled


def _suffice(
    node: ast.expr, names: dict[str, str], say: Callable[[ast.expr], Any]
) -> list[tuple[dict[str, float], float]] | None:
    """Return inequalities that suffice for a condition in which all but the varying columns are constants."""
    match node:
        case ast.Constant(value=value):
            return [] if value else None
        case ast.UnaryOp(op=ast.Not()):
            opposite = _negate(node.operand)
            return None if opposite is None else _suffice(opposite, names, say)
        case ast.BoolOp(op=ast.And()):
            parts = [_suffice(part, names, say) for part in node.values]
            return None if None in parts else [half for part in parts for half in part or ()]
        case ast.BoolOp(op=ast.Or()):
            met = [_suffice(part, names, say) for part in node.values if say(part)]
            return min((part for part in met if part is not None), key=len, default=None)
        case ast.Compare():
            pairs = zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False)
            parts = [_compare_sides(op, left, right, names) for op, left, right in pairs]
            return None if None in parts else [half for part in parts for half in part or ()]
    return None


def _negate(node: ast.expr) -> ast.expr | None:
    """Return the opposite of a condition; None where it has no form of its own."""
    match node:
        case ast.Constant(value=value):
            return ast.Constant(not value)
        case ast.UnaryOp(op=ast.Not()):
            return node.operand
        case ast.BoolOp():
            parts = [_negate(part) for part in node.values]
            join = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return None if None in parts else ast.BoolOp(join, [part for part in parts if part is not None])
        case ast.Compare():
            pairs = zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False)
            turned: list[ast.expr] = [ast.Compare(left, [_OPPOSITE[type(op)]()], [right]) for op, left, right in pairs]
            return turned[0] if len(turned) == 1 else ast.BoolOp(ast.Or(), turned)
    return None


def _compare_sides(
    op: ast.cmpop, left: ast.expr, right: ast.expr, names: dict[str, str]
) -> list[tuple[dict[str, float], float]] | None:
    """Return one comparison as inequalities; None where it is not linear."""
    one, other = linear_terms(left, names), linear_terms(right, names)
    if one is None or other is None or type(op) not in _SIDES:
        return None
    found = []
    for sign in _SIDES[type(op)]:
        weights = {key: sign * (one[0].get(key, 0.0) - other[0].get(key, 0.0)) for key in one[0] | other[0]}
        bound = sign * (other[1] - one[1])
        if isinstance(op, (ast.Lt, ast.Gt)):  # less than, by more than rounding
            bound -= ROUNDING * max(1.0, abs(one[1]), abs(other[1]))
        if not np.isfinite([bound, *weights.values()]).all():
            return None
        found.append(({key: weight for key, weight in weights.items() if weight != 0.0}, bound))
    return found
