"""Explanations of many rows: shared model calls, parallel groups, a store to resume from, comparisons of groups."""

from gbce.batch._columns import ANSWER_PREFIX, ROW_PREFIX, cast, empty_frame, encode_lines, schema_of
from gbce.batch._groups import POSTERIOR, find_costs, group_changes, group_costs, label_groups
from gbce.batch._many import Packed
from gbce.batch._rows import encode_rows
from gbce.batch._run import explain_many, explain_part
from gbce.batch._stored import StoredTable, load
from gbce.batch._table import ANSWER, EncodedRows, ExplanationTable, RowFacts
