"""Optimisation of the posterior density and of the distance to the row: modes, nearest points, refinement, walks."""

from gbce.search._candidates import CandidateMoves
from gbce.search._corners import try_near_corners
from gbce.search._descents import Search, coordinates, has_gained, levels, nelder_mead, newton
from gbce.search._few_rows import find_nearest_with_few_rows
from gbce.search._modes import Modes, rows_for_search, search_modes
from gbce.search._nearest import Judged, NearestPoints, find_nearest
from gbce.search._objective import Memory, neg_log_density_of
from gbce.search._polish import polish_mode
from gbce.search._steps import BestPerLevel, StepsFromRow, values_to_try, walk

__all__ = [
    "BestPerLevel",
    "CandidateMoves",
    "Judged",
    "Memory",
    "Modes",
    "NearestPoints",
    "Search",
    "StepsFromRow",
    "coordinates",
    "find_nearest",
    "find_nearest_with_few_rows",
    "has_gained",
    "levels",
    "neg_log_density_of",
    "nelder_mead",
    "newton",
    "polish_mode",
    "rows_for_search",
    "search_modes",
    "try_near_corners",
    "values_to_try",
    "walk",
]
