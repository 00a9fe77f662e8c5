"""The result: plain data about one row, with its tables. No model inside, nothing executable."""

from gbce.decisions import Decision
from gbce.explanation._alternatives import Alternatives
from gbce.explanation._explanation import Explanation, require_explanation
from gbce.explanation._given import Event, exclude_row, meets, with_conditions
from gbce.explanation._status import Status
from gbce.explanation._tables import point_table

__all__ = [
    "Alternatives",
    "Decision",
    "Event",
    "Explanation",
    "Status",
    "exclude_row",
    "meets",
    "point_table",
    "require_explanation",
    "with_conditions",
]
