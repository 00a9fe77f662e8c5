"""Samplers: take a posterior, return weighted, evaluated draws."""

from gbce.samplers._chains import Chains
from gbce.samplers._importance import Importance
from gbce.samplers._joint import MANY_MODELS, sample_jointly
from gbce.samplers._nested import Nested
from gbce.samplers._smc import SMC, SearchOnly

__all__ = ["MANY_MODELS", "SMC", "Chains", "Importance", "Nested", "SearchOnly", "sample_jointly"]
