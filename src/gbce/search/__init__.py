"""Places of low objective, for samplers and rules: descents that ask the model in steps, walks, the simplex."""

from gbce.search._nelder_mead import nelder_mead
from gbce.search._polish import polish_mode
from gbce.search._sites import Memory, Sites, find_sites, height_of, rows_for_search, walk_out
from gbce.search._sparsity import sparsity_path
from gbce.search._steps import StepsFromRow
from gbce.search._walk import Shelf, walk

__all__ = [
    "Memory",
    "Shelf",
    "Sites",
    "StepsFromRow",
    "find_sites",
    "height_of",
    "nelder_mead",
    "polish_mode",
    "rows_for_search",
    "sparsity_path",
    "walk",
    "walk_out",
]
