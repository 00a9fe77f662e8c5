"""Samplers: a posterior in, weighted and evaluated draws out."""

from gbce.samplers._chains import Chains
from gbce.samplers._goal import settled
from gbce.samplers._importance import Importance, Sampler
from gbce.samplers._nested import Nested
from gbce.samplers._smc import SMC

__all__ = ["SMC", "Chains", "Importance", "Nested", "Sampler", "settled"]
