"""Proofs that no row within the bounds reaches a target, for models whose parts can be read.

A tree ensemble is bounded by its leaves, a linear model by its coefficients, over the box of all that can change. Rules
between columns only make that box smaller, so what holds for the box holds for them. There is a proof or there is None:
never a guess.
"""

from gbce.search._proofs._every_cell import look_at_cells
from gbce.search._proofs._optimum import Optimum, prove_cheapest
from gbce.search._proofs._proof import Proof
from gbce.search._proofs._prove import prove_unattainable
from gbce.search._proofs._safe import Ranges, find_safe_ranges
from gbce.search._proofs._words import say_answer, say_cheapest

__all__ = [
    "Optimum",
    "Proof",
    "Ranges",
    "find_safe_ranges",
    "look_at_cells",
    "prove_cheapest",
    "prove_unattainable",
    "say_answer",
    "say_cheapest",
]
