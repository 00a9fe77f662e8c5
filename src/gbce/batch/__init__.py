"""Many rows at once: shared model calls, parallel groups, a folder to resume from."""

from gbce.batch._groups import group_changes, group_costs
from gbce.batch._many import explain_many
from gbce.batch._table import ExplanationTable

__all__ = ["ExplanationTable", "explain_many", "group_changes", "group_costs"]
