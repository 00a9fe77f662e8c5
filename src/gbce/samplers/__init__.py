"""Samplers: a posterior in, weighted and evaluated draws out."""

from gbce.samplers._chains import Chains
from gbce.samplers._exact_trees import ExactTrees, NotExactError, sum_if_few
from gbce.samplers._importance import Importance
from gbce.samplers._joint import MANY_MODELS, sample_jointly
from gbce.samplers._nested import Nested
from gbce.samplers._search_only import SearchOnly
from gbce.samplers._smc import SMC

__all__ = [
    "MANY_MODELS",
    "SMC",
    "Chains",
    "ExactTrees",
    "Importance",
    "Nested",
    "NotExactError",
    "SearchOnly",
    "sample_jointly",
    "sum_if_few",
]
