"""Places of low objective, for samplers and rules (descents, walks, the simplex), and proofs that there are none."""

from gbce.search._asking import Memory, height_of
from gbce.search._cell_mode import mode_on_cells
from gbce.search._cell_nearest import find_nearest_cells
from gbce.search._cell_offers import CellOffers, Price, offer_cells, price_units
from gbce.search._cell_wish import CellWish, wish_for
from gbce.search._meeting import meet_alike
from gbce.search._nearest import Judged, NearestSites, find_nearest
from gbce.search._nearing import Around
from gbce.search._nelder_mead import nelder_mead
from gbce.search._polish import polish_mode
from gbce.search._proofs import (
    Optimum,
    Proof,
    Ranges,
    find_safe_ranges,
    look_at_cells,
    prove_cheapest,
    prove_unattainable,
    say_answer,
    say_cheapest,
)
from gbce.search._sites import Sites, find_sites, rows_for_search, walk_out
from gbce.search._sparsity import sparsity_path
from gbce.search._steps import StepsFromRow
from gbce.search._values import values_to_try
from gbce.search._walk import Shelf, walk

__all__ = [
    "Around",
    "CellOffers",
    "CellWish",
    "Judged",
    "Memory",
    "NearestSites",
    "Optimum",
    "Price",
    "Proof",
    "Ranges",
    "Shelf",
    "Sites",
    "StepsFromRow",
    "find_nearest",
    "find_nearest_cells",
    "find_safe_ranges",
    "find_sites",
    "height_of",
    "look_at_cells",
    "meet_alike",
    "mode_on_cells",
    "nelder_mead",
    "offer_cells",
    "polish_mode",
    "price_units",
    "prove_cheapest",
    "prove_unattainable",
    "rows_for_search",
    "say_answer",
    "say_cheapest",
    "sparsity_path",
    "values_to_try",
    "walk",
    "walk_out",
    "wish_for",
]
