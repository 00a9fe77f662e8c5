"""Compile and evaluate expressions, on decoded columns or directly on encoded rows.

Also reduces a condition in which only some columns vary to linear inequalities in those columns.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.space._expressions import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    LISTS,
    MOST_EXPRESSIONS,
    Expression,
    HalfSpace,
    comparisons,
    inequalities,
    parse,
)

Values = Callable[[str], Any]
Term = Callable[[Any], Any]  # takes the source of columns: a function of their names, or encoded rows

_OPPOSITE: dict[type, type[ast.cmpop]] = {
    ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# --- evaluation ------------------------------------------------------------------------------------------------------


def evaluate(text: str, values: Values) -> Any:
    """Evaluate an expression where ``values(name)`` returns a column ``(n,)``; a condition yields booleans ``(n,)``."""
    try:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return _compile(text)(values)
    except TypeError as error:
        raise ValueError(
            f"{text!r} cannot be evaluated, because it mixes strings and numbers or does arithmetic on strings: {error}"
        ) from None


@lru_cache(maxsize=MOST_EXPRESSIONS)
def _compile(text: str) -> Term:
    """Compile an expression of named columns."""
    parsed = parse(text)
    return _Builder(lambda node: _Named(parsed.names[node.id])).term(parsed.tree)


@dataclass(frozen=True, eq=False)
class Levels:
    """The position and the levels of a column of encoded rows."""

    j: int
    values: tuple[Any, ...]

    def column(self) -> Array:
        """Return all levels as objects, followed by a missing value."""
        return np.array([*self.values, np.nan], dtype=object)


def level_positions(codes: Array) -> Array:
    """Return the positions ``(n,)`` of encoded levels in a list that ends with the missing value."""
    return np.where(np.isnan(codes), -1, np.round(codes)).astype(int)


def term_of(text: str, columns: Mapping[str, int | Levels]) -> Term | None:
    """Compile a condition for encoded rows ``(n, d)`` to booleans ``(n,)``.

    ``None`` where it needs decoded columns: levels in arithmetic, several columns with levels in one comparison, or an
    expression that is not a condition.
    """
    parsed = parse(text)
    try:
        return _EncodedBuilder(parsed, columns).term(parsed.tree) if _is_condition(parsed.tree) else None
    except _NeedsValuesError:
        return None


def _is_condition(node: ast.expr) -> bool:
    """Whether an expression yields booleans: comparisons, joined by ``and``, ``or`` and ``not``."""
    match node:
        case ast.BoolOp():
            return all(map(_is_condition, node.values))
        case ast.UnaryOp(op=ast.Not()):
            return _is_condition(node.operand)
    return isinstance(node, ast.Compare)


# --- nodes: classes, not closures, so that a space can be pickled ----------------------------------------------------


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
class _LevelTable:
    """The result of a comparison for each level of one column, followed by that for a missing value."""

    j: int
    results: Array

    def __call__(self, x: Array) -> Any:
        return self.results[level_positions(x[:, self.j])]


@dataclass(frozen=True)
class _Constant:
    value: Any

    def __call__(self, source: Any) -> Any:
        return self.value


@dataclass(frozen=True)
class _Apply:
    function: Callable[..., Any]
    parts: tuple[Term, ...]

    def __call__(self, source: Any) -> Any:
        return self.function(*[part(source) for part in self.parts])


@dataclass(frozen=True)
class _Reduction:
    """Reduce terms from left to right by a binary function."""

    function: Callable[[Any, Any], Any]
    parts: tuple[Term, ...]

    def __call__(self, source: Any) -> Any:
        return reduce(self.function, [part(source) for part in self.parts])


# --- compilation -----------------------------------------------------------------------------------------------------


class _Builder:
    """Compile a syntax tree into terms; ``column`` compiles a name."""

    def __init__(self, column: Callable[[ast.Name], Term]) -> None:
        self._column = column

    def term(self, node: ast.expr) -> Term:
        """Compile a subtree."""
        match node:
            case ast.Constant():
                return _Constant(self.constant(node))
            case ast.Name():
                return self._column(node)
            case ast.BinOp():
                return _Apply(ARITHMETIC[type(node.op)], (self.term(node.left), self.term(node.right)))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.term(node.operand)
            case ast.UnaryOp():
                flip = np.logical_not if isinstance(node.op, ast.Not) else operator.neg
                return _Apply(flip, (self.term(node.operand),))
            case ast.BoolOp():
                join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
                return _Reduction(join, tuple([self.term(part) for part in node.values]))
            case ast.Call(func=ast.Name(id=name)):
                return _Apply(FUNCTIONS[name], tuple([self.term(part) for part in node.args]))
            case ast.Compare():
                return self.compare(node)
        raise ValueError(f"{ast.unparse(node)} is not a value")

    def constant(self, node: ast.Constant) -> Any:
        """Return a number, a string or a boolean; integers as floats, so that powers stay bounded."""
        return node.value if isinstance(node.value, (bool, str)) else np.float64(node.value)  # type: ignore[arg-type]

    def compare(self, node: ast.Compare) -> Term:
        """Compile a comparison or a chain of them."""
        parts = [self._compare_two(*pair) for pair in comparisons(node)]
        return _Reduction(np.logical_and, (_Constant(np.True_), *parts))

    def _compare_two(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Term:
        """Compile one comparison, ``in`` as a disjunction of equalities."""
        one = self.term(left)
        if not isinstance(op, (ast.In, ast.NotIn)):
            return _Apply(COMPARISONS[type(op)], (one, self.term(right)))
        assert isinstance(right, LISTS)
        same = [_Apply(operator.eq, (one, self.term(element))) for element in right.elts]
        found = _Reduction(np.logical_or, (_Constant(np.False_), *same))
        return found if isinstance(op, ast.In) else _Apply(np.logical_not, (found,))


class _NeedsValuesError(Exception):
    """An expression that can be evaluated on decoded columns only."""


class _EncodedBuilder(_Builder):
    """Compile a condition for encoded rows where that is equivalent."""

    def __init__(self, parsed: Expression, columns: Mapping[str, int | Levels]) -> None:
        super().__init__(self._build_number)
        self._columns = {key: columns[name] for key, name in parsed.names.items()}

    def constant(self, node: ast.Constant) -> Any:
        """Return a number; strings and booleans occur only in comparisons with levels."""
        if isinstance(node.value, (bool, str)):
            raise _NeedsValuesError
        return super().constant(node)

    def compare(self, node: ast.Compare) -> Term:
        """Tabulate a comparison of one column with levels; compile any other on numbers."""
        keys = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id in self._columns}
        columns = [self._columns[key] for key in keys]
        match columns:
            case []:
                raise _NeedsValuesError  # the same for all rows
            case [Levels() as levels]:
                return self._tabulate(node, levels)
        found = super().compare(node)
        # a single numeric comparison already yields booleans: no reduction needed
        return found.parts[1] if isinstance(found, _Reduction) and len(found.parts) == 2 else found

    def _build_number(self, node: ast.Name) -> Term:
        """Compile a numeric column."""
        column = self._columns[node.id]
        if isinstance(column, Levels):
            raise _NeedsValuesError
        return _Column(column)

    @staticmethod
    def _tabulate(node: ast.Compare, levels: Levels) -> Term:
        """Evaluate a comparison once for each level."""
        column = _Constant(levels.column())
        try:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                results = np.asarray(_Builder(lambda name: column).term(node)(None))
        except TypeError:
            raise _NeedsValuesError from None  # evaluation on decoded columns raises a readable error
        if results.dtype != bool or results.shape != (len(levels.values) + 1,):
            raise _NeedsValuesError
        return _LevelTable(levels.j, results)


# --- reduction to linear inequalities --------------------------------------------------------------------------------


def inequalities_among(text: str, values: Values, varying: Set[str]) -> list[HalfSpace] | None:
    """Return inequalities ``sum_j a_j x_j <= b`` in the ``varying`` columns that imply a condition.

    ``values(name)`` returns the value ``(1,)`` of a column in one row that meets the condition; columns that do not
    vary keep it. Of a disjunction, one part that the row meets is used. ``None`` if the inequalities are not linear.
    """
    parsed = parse(text)
    builder = _Builder(lambda node: _Named(parsed.names[node.id]))

    def evaluate_node(node: ast.expr) -> Any:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            value = np.asarray(builder.term(node)(values)).ravel()[0]
        return value.item() if isinstance(value, np.generic) else value

    keys = {key for key, name in parsed.names.items() if name in varying}
    return _find_sufficient(_substitute(parsed.tree, keys, evaluate_node), parsed.names, evaluate_node)


def _substitute(node: ast.expr, keys: Set[str], value_of: Callable[[ast.expr], Any]) -> ast.expr:
    """Replace every subtree that contains none of the columns ``keys`` by its value."""
    if isinstance(node, LISTS):
        return node
    if not any(isinstance(part, ast.Name) and part.id in keys for part in ast.walk(node)):
        return node if isinstance(node, ast.Constant) else ast.Constant(value_of(node))
    filled = copy(node)
    for name, part in ast.iter_fields(node):
        if name == "func":
            continue
        if isinstance(part, ast.expr):
            setattr(filled, name, _substitute(part, keys, value_of))
        elif isinstance(part, list):
            parts = [_substitute(one, keys, value_of) if isinstance(one, ast.expr) else one for one in part]
            setattr(filled, name, parts)
    return filled


def _find_sufficient(
    node: ast.expr, names: dict[str, str], value_of: Callable[[ast.expr], Any]
) -> list[HalfSpace] | None:
    """Return inequalities that imply a condition in which only the varying columns are not constant."""
    match node:
        case ast.Constant(value=value):
            return [] if value else None
        case ast.UnaryOp(op=ast.Not()):
            opposite = _negate(node.operand)
            return None if opposite is None else _find_sufficient(opposite, names, value_of)
        case ast.BoolOp(op=ast.And()):
            parts = [_find_sufficient(part, names, value_of) for part in node.values]
            return None if None in parts else [half for part in parts for half in part or ()]
        case ast.BoolOp(op=ast.Or()):
            met = [_find_sufficient(part, names, value_of) for part in node.values if value_of(part)]
            return min((part for part in met if part is not None), key=len, default=None)
        case ast.Compare():
            parts = [inequalities(*pair, names, strict=True) for pair in comparisons(node)]
            found = [half for part in parts for half in part or ()]
            finite = all(np.isfinite([bound, *weights.values()]).all() for weights, bound in found)
            return None if None in parts or not finite else found
    return None


def _negate(node: ast.expr) -> ast.expr | None:
    """Negate a condition, pushing ``not`` inwards; ``None`` where that is not possible."""
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
            negated: list[ast.expr] = [
                ast.Compare(left, [_OPPOSITE[type(op)]()], [right]) for op, left, right in comparisons(node)
            ]
            return negated[0] if len(negated) == 1 else ast.BoolOp(ast.Or(), negated)
    return None
