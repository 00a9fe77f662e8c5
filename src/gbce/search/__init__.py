"""Places of low objective, for samplers and rules: descents that ask the model in steps, walks, the simplex."""

from gbce.search._nelder_mead import nelder_mead
from gbce.search._polish import polish_mode
from gbce.search._sparsity import sparsity_path
from gbce.search._steps import StepsFromRow
from gbce.search._walk import Shelf, walk

__all__ = ["Shelf", "StepsFromRow", "nelder_mead", "polish_mode", "sparsity_path", "walk"]
