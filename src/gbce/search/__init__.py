"""Places of low objective, for samplers and rules (descents, walks, the simplex), and proofs that there are none."""

from gbce.search._candidates import Around
from gbce.search._descents import Search, coordinates, has_gained, levels, nelder_mead, newton
from gbce.search._modes import Sites, find_sites, rows_for_search, walk_out
from gbce.search._nearest import Judged, NearestSites, find_nearest
from gbce.search._objective import Memory, height_of
from gbce.search._polish import meet_alike, polish_mode
from gbce.search._steps import Shelf, StepsFromRow, values_to_try, walk

__all__ = [
    "Around",
    "Judged",
    "Memory",
    "NearestSites",
    "Search",
    "Shelf",
    "Sites",
    "StepsFromRow",
    "coordinates",
    "find_nearest",
    "find_sites",
    "has_gained",
    "height_of",
    "levels",
    "meet_alike",
    "nelder_mead",
    "newton",
    "polish_mode",
    "rows_for_search",
    "values_to_try",
    "walk",
    "walk_out",
]
