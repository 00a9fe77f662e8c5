"""Samplers: a posterior in, weighted and evaluated draws out."""

from gbce.samplers._importance import Importance, Sampler

__all__ = ["Importance", "Sampler"]
