"""Explanations of many rows: shared model calls, parallel groups, a folder to resume from, comparisons of groups."""

from gbce.batch._groups import POSTERIOR, find_costs, group_changes, group_costs, label_groups
from gbce.batch._many import Packed, explain_many
from gbce.batch._table import ANSWER, EncodedRows, ExplanationTable, RowFacts

__all__ = [
    "ANSWER",
    "POSTERIOR",
    "EncodedRows",
    "ExplanationTable",
    "Packed",
    "RowFacts",
    "explain_many",
    "find_costs",
    "group_changes",
    "group_costs",
    "label_groups",
]
