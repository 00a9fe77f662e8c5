"""Features and the space of admissible rows: kinds, bounds, units, constraints, and encoding of tables.

This is the only subpackage that knows about columns, frames, dtypes, bounds and units. Everywhere else a row is a
float64 vector.
"""

from gbce.space._codecs import Codec, read_value, require_writable, write_value
from gbce.space._conditions import (
    Effort,
    describe_effort,
    effort_cost,
    encode_value,
    read_conditions,
    read_effort,
    restate,
)
from gbce.space._constraints import Computed, Condition, Constraint
from gbce.space._feature import Feature, deviations, list_values
from gbce.space._format import number_text
from gbce.space._frames import Layout, as_pandas
from gbce.space._places import Centre, Places
from gbce.space._rows import describe_difference, has_labels, unmasked
from gbce.space._space import Space
from gbce.space._stored import plain_records, plain_value, space_fields, space_of
from gbce.space._suggest import Assumptions, Suggestion, Suggestions
from gbce.space._table import describe_broken
