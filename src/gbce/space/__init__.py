"""Features and the space they span: names, kinds, bounds, units, what may change and in which direction.

This is the only room that knows columns, frames, dtypes, bounds and units. Everywhere else a row is a float64 vector.
"""

from gbce.space._assumed import Assumptions
from gbce.space._computed import Computed
from gbce.space._conditions import read_conditions, restate
from gbce.space._constraints import Condition, Constraint
from gbce.space._effort import Effort, effort_cost, read_effort, say_effort
from gbce.space._feature import Feature
from gbce.space._places import Centre, Places
from gbce.space._plain import plain_records, plain_value
from gbce.space._row_codec import has_labels, say_difference, unmasked
from gbce.space._space import Space
from gbce.space._stored import space_fields, space_of
from gbce.space._table import value_text
from gbce.space._units import deviations
from gbce.space._values import read_value, require_writable, write_value

__all__ = [
    "Assumptions",
    "Centre",
    "Computed",
    "Condition",
    "Constraint",
    "Effort",
    "Feature",
    "Places",
    "Space",
    "deviations",
    "effort_cost",
    "has_labels",
    "plain_records",
    "plain_value",
    "read_conditions",
    "read_effort",
    "read_value",
    "require_writable",
    "restate",
    "say_difference",
    "say_effort",
    "space_fields",
    "space_of",
    "unmasked",
    "value_text",
    "write_value",
]  # fmt: skip
