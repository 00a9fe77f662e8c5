"""Parse expressions between columns: ``"debt <= 0.4 * income"``, ``"if job == 'none' then income == 0"``.

Expressions are parsed, never executed. They consist of names, numbers, strings, arithmetic, comparisons, ``in``,
``and``, ``or``, ``not`` and a few functions; a name that is not a Python identifier is written in backticks. Linear
expressions are also returned as coefficients and half-spaces.
"""

import ast
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import ROUNDING

# --- operators and functions -----------------------------------------------------------------------------------------


def at_most(a: Any, b: Any) -> Any:
    """Return ``a <= b`` up to rounding, so that ``0.3 <= 0.1 + 0.2`` holds both ways."""
    below = a <= b
    if isinstance(below, np.ndarray) and below.dtype == bool and below.all():  # nearly always: rounding cannot matter
        return below
    if np.asarray(a).dtype.kind in "iuf" and np.asarray(b).dtype.kind in "iuf":
        return below | (np.abs(np.subtract(a, b)) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)))
    return below


def _at_least(a: Any, b: Any) -> Any:
    return at_most(b, a)


def _take_minimum(*parts: Any) -> Any:
    return reduce(np.minimum, parts)


def _take_maximum(*parts: Any) -> Any:
    return reduce(np.maximum, parts)


def _as_number(value: Any) -> Any:
    """Return numbers as they are, and levels that are numbers as floats: powers of integers have no bound."""
    array = np.asarray(value)
    if array.dtype.kind in "iufb":
        return value
    if any(isinstance(one, (str, bytes)) for one in array.flat):  # which % would format
        raise TypeError(f"{value!r:.40} is not a number")
    return array.astype(float)


def _take_remainder(a: Any, b: Any) -> Any:
    return _as_number(a) % _as_number(b)


def _take_power(a: Any, b: Any) -> Any:
    return _as_number(a) ** _as_number(b)


ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: _take_remainder, ast.Pow: _take_power,
}  # fmt: skip
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.LtE: at_most, ast.Lt: operator.lt, ast.GtE: _at_least, ast.Gt: operator.gt,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "min": _take_minimum, "max": _take_maximum, "log": np.log, "exp": np.exp, "sqrt": np.sqrt,
    "round": np.round, "floor": np.floor,
}  # fmt: skip
# Signs with which the difference of both sides is at most zero.
_SIDES: dict[type, tuple[float, ...]] = {
    ast.LtE: (1.0,), ast.Lt: (1.0,), ast.GtE: (-1.0,), ast.Gt: (-1.0,), ast.Eq: (1.0, -1.0)
}  # fmt: skip
HalfSpace = tuple[dict[str, float], float]  # coefficients by column, and the bound: sum_j a_j x_j <= b
_VARIADIC = ("min", "max")  # take two arguments or more, the other functions one
LISTS = (ast.Tuple, ast.List, ast.Set)
_IF_THEN = re.compile(r"^\s*if\b\s*(?P<condition>\S.*?)\bthen\b\s*(?P<consequence>\S.*)$", re.DOTALL)
_NAME = r"[^\W\d](?:\w|[^\x00-\x7f])*"  # accents may be characters of their own
_QUOTED = r"'[^']*'|\"[^\"]*\""
# Chosen by hand, far beyond what anybody writes:
_DEEPEST_NESTING = 300  # levels of an expression; evaluation recurses, and Python allows 1000 calls
_LARGEST_INTEGER = 10**300  # integers are evaluated as floats, which end at 1e308
MOST_EXPRESSIONS = 512  # parsed expressions in the cache
_MOST_SHOWN = 200  # characters of an expression quoted in a message


# --- parsing ---------------------------------------------------------------------------------------------------------


class Expression(NamedTuple):
    """A parsed expression."""

    tree: ast.expr
    names: dict[str, str]  # identifier in the tree -> column name


@lru_cache(maxsize=MOST_EXPRESSIONS)
def parse(text: str) -> Expression:
    """Parse an expression into a syntax tree."""
    names: dict[str, str] = {}

    def replace_name(match: re.Match[str]) -> str:
        name = match["quoted"] or match["name"]
        if name is None or (name == match["name"] and unicodedata.is_normalized("NFKC", name)):
            return match.group(0)  # a string, or a name that Python reads as it is written
        key = f"_column_{name.encode().hex()}"  # the same for every mention
        names[key] = name
        return key

    source = re.sub(rf"{_QUOTED}|`(?P<quoted>[^`]+)`|(?P<name>{_NAME})", replace_name, text).strip()
    implication = _IF_THEN.match(re.sub(_QUOTED, lambda quoted: "'" * len(quoted.group(0)), source))
    if implication:
        condition, consequence = (source[slice(*implication.span(part))] for part in ("condition", "consequence"))
        source = f"not ({condition.strip()}) or ({consequence.strip()})"
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, MemoryError, RecursionError, ValueError) as error:
        reason = getattr(error, "msg", None) or "it is nested too deeply"
        raise ValueError(
            f"{text[:_MOST_SHOWN]!r} cannot be parsed: {reason}. Write it like 'a <= 2 * b' or \"if job == 'none' then "
            'pay == 0", with backticks around column names that contain spaces or symbols.'
        ) from None
    _require_supported(tree, text)
    called = {id(call.func) for call in ast.walk(tree) if isinstance(call, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in called:
            names.setdefault(node.id, node.id)
    return Expression(tree, names)


def _require_supported(tree: ast.expr, text: str) -> None:
    """Reject a tree with nodes that cannot be evaluated, or nested too deeply."""
    level: list[ast.AST] = [tree]
    supported = not isinstance(tree, LISTS)
    for _ in range(_DEEPEST_NESTING):
        supported = supported and all(map(_is_supported, level))
        level = [child for node in level for child in ast.iter_child_nodes(node)] if supported else []
    if level or not supported:
        raise ValueError(
            f"{text!r} cannot be used: it may contain only columns, numbers, strings, + - * / // % **, comparisons, "
            f"in, and, or, not and the functions {', '.join(FUNCTIONS)}. For more give a function of the frame."
        )


def _is_supported(node: ast.AST) -> bool:
    """Whether a node can be evaluated, its children aside."""
    lists = [part for part in ast.iter_child_nodes(node) if isinstance(part, LISTS)]
    if lists and not isinstance(node, ast.Compare):
        return False
    match node:
        case ast.Constant():
            plain = isinstance(node.value, (bool, int, float, str))
            return plain and not (isinstance(node.value, int) and abs(node.value) > _LARGEST_INTEGER)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS and not node.keywords:
            valid = len(node.args) >= 2 if name in _VARIADIC else len(node.args) == 1
            return valid and not any(isinstance(part, ast.Starred) for part in node.args)
        case ast.Compare():
            listed = [
                isinstance(op, (ast.In, ast.NotIn)) == isinstance(part, LISTS) for op, _, part in comparisons(node)
            ]
            return all(listed) and not isinstance(node.left, LISTS)
        case ast.BinOp():
            return type(node.op) in ARITHMETIC
        case ast.UnaryOp():
            return isinstance(node.op, (ast.Not, ast.USub, ast.UAdd))
        case ast.cmpop():
            return type(node) in COMPARISONS or isinstance(node, (ast.In, ast.NotIn))
    return isinstance(node, (ast.Name, ast.BoolOp, *LISTS, ast.operator, ast.unaryop, ast.boolop, ast.expr_context))


def require_readable(text: str, known: Sequence[str]) -> None:
    """Require an expression that can be parsed and refers to known columns only."""
    unknown = [name for name in names_in(text) if name not in known]
    if unknown:
        raise ValueError(f"{text!r} names {unknown}, which the data do not have; columns are {list(known)}")


def names_in(text: str) -> tuple[str, ...]:
    """Return the columns in an expression, in order of first mention."""
    return tuple(dict.fromkeys(parse(text).names.values()))


# --- linear expressions ----------------------------------------------------------------------------------------------


def linear(text: str) -> tuple[dict[str, float], float] | None:
    """Return coefficients by column and constant of a linear expression, else ``None``."""
    parsed = parse(text)
    return linear_terms(parsed.tree, parsed.names)


def linear_terms(node: ast.expr, names: dict[str, str]) -> tuple[dict[str, float], float] | None:
    """Return coefficients by column and constant of a linear subexpression, else ``None``."""
    terms = _collect_terms(node)
    return None if terms is None else _group_by_name(terms, names)


def comparisons(node: ast.Compare) -> Iterator[tuple[ast.cmpop, ast.expr, ast.expr]]:
    """Yield the comparisons of a chain: ``a <= b < c`` is ``a <= b`` and ``b < c``."""
    return zip(node.ops, [node.left, *node.comparators[:-1]], node.comparators, strict=True)


def inequalities(
    op: ast.cmpop, left: ast.expr, right: ast.expr, names: dict[str, str], *, strict: bool = False
) -> list[HalfSpace] | None:
    """Return a comparison as inequalities ``sum_j a_j x_j <= b``; ``None`` if it is not linear.

    With ``strict``, ``<`` and ``>`` hold by more than rounding.
    """
    one, other = linear_terms(left, names), linear_terms(right, names)
    if one is None or other is None or type(op) not in _SIDES:
        return None
    found = []
    for sign in _SIDES[type(op)]:
        weights = {key: sign * (one[0].get(key, 0.0) - other[0].get(key, 0.0)) for key in one[0] | other[0]}
        bound = sign * (other[1] - one[1])
        if strict and isinstance(op, (ast.Lt, ast.Gt)):
            bound -= ROUNDING * max(1.0, abs(one[1]), abs(other[1]))
        found.append(({key: weight for key, weight in weights.items() if weight != 0.0}, bound))
    return found


def halfspaces(text: str, *, complete: bool = False) -> list[HalfSpace]:
    """Return the linear conjuncts of a condition as inequalities ``sum_j a_j x_j <= b``, dropping the others.

    With ``complete``, ``==`` counts as two inequalities, and inequalities without a column are included.
    """
    parsed = parse(text)
    parts = [part for part in _split_conjuncts(parsed.tree) if isinstance(part, ast.Compare)]
    pairs = [pair for part in parts for pair in comparisons(part) if complete or not isinstance(pair[0], ast.Eq)]
    found = [half for pair in pairs for half in inequalities(*pair, parsed.names) or ()]
    return [half for half in found if complete or half[0]]


def depends_on_origin(text: str, columns: Collection[str]) -> bool:
    """Whether a comparison in an expression changes when the same number is added to all of some ``columns``."""
    parsed = parse(text)
    pairs = [pair for node in ast.walk(parsed.tree) if isinstance(node, ast.Compare) for pair in comparisons(node)]
    halves = [half for pair in pairs for half in inequalities(*pair, parsed.names) or ()]
    return any(abs(sum(weights.get(name, 0.0) for name in columns)) > ROUNDING for weights, _ in halves)


def ordered_pairs(text: str) -> list[tuple[str, str]] | None:
    """Return pairs ``(lower, upper)`` of a condition that only orders columns, as ``"a <= b <= c"``, else ``None``."""
    parsed, found = parse(text), []
    for part in _split_conjuncts(parsed.tree):
        if not isinstance(part, ast.Compare):
            return None
        for op, left, right in comparisons(part):
            if not (isinstance(left, ast.Name) and isinstance(right, ast.Name) and isinstance(op, (ast.LtE, ast.GtE))):
                return None
            pair = parsed.names[left.id], parsed.names[right.id]
            found.append(pair if isinstance(op, ast.LtE) else pair[::-1])
    return found


def _split_conjuncts(node: ast.expr) -> list[ast.expr]:
    """Split a condition at its outer ``and``."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _split_conjuncts(value)]
    return [node]


def _group_by_name(terms: dict[str | None, float], names: dict[str, str]) -> tuple[dict[str, float], float]:
    """Return non-zero coefficients by column name, and the constant."""
    weights: dict[str, float] = {}
    for key, weight in terms.items():
        if key is not None:  # a column may appear both with and without backticks
            weights[names[key]] = weights.get(names[key], 0.0) + weight
    return {name: weight for name, weight in weights.items() if weight != 0.0}, terms.get(None, 0.0)


def _collect_terms(node: ast.expr) -> dict[str | None, float] | None:
    """Return coefficients by identifier, the constant under ``None``; ``None`` if the node is not linear."""
    match node:
        case ast.Constant(value=bool()) | ast.Constant(value=str()):
            return None
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            return {None: float(value)}
        case ast.Name(id=name):
            return {name: 1.0}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _scale(_collect_terms(operand), -1.0)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _collect_terms(operand)
        case ast.BinOp(op=ast.Add() | ast.Sub() as op):
            one = _collect_terms(node.left)
            other = _scale(_collect_terms(node.right), 1.0 if isinstance(op, ast.Add) else -1.0)
            if one is None or other is None:
                return None
            return {key: one.get(key, 0.0) + other.get(key, 0.0) for key in one | other}
        case ast.BinOp(op=ast.Mult()):
            one, other = _collect_terms(node.left), _collect_terms(node.right)
            if one is None or other is None:
                return None
            if set(one) <= {None}:
                return _scale(other, one.get(None, 0.0))
            return _scale(one, other.get(None, 0.0)) if set(other) <= {None} else None
        case ast.BinOp(op=ast.Div()):
            below = _collect_terms(node.right)
            if below is None or set(below) != {None} or below[None] == 0.0:
                return None
            return _scale(_collect_terms(node.left), 1.0 / below[None])
    return None


def _scale(terms: dict[str | None, float] | None, factor: float) -> dict[str | None, float] | None:
    return None if terms is None else {key: factor * weight for key, weight in terms.items()}
