"""How well a posterior was sampled, in numbers and in one sentence."""

from typing import Any

import numpy as np

from gbce._weights import pareto_k
from gbce.draws import Draws
from gbce.posterior import Mixture

__all__ = ["MIN_ESS", "diagnose", "verdict"]

MIN_ESS = 100.0  # below this the draws are a handful of points
GOOD_ESS = 400.0
MAX_PARETO_K = 0.7  # Vehtari et al. (2024): beyond it, weighted averages are unreliable

_ADVICE = "raise n_candidates of the sampler, widen the prior, lower eta, or ask for less"


def diagnose(draws: Draws, mixture: Mixture) -> dict[str, Any]:
    """Return the numbers: effective sample size, Pareto k, evidence, and the terms of the free energy.

    The free energy ``-log E_prior[exp(-potential)]`` equals the expected potential plus the divergence of the
    posterior from the prior (Donsker and Varadhan; the appendix of the paper).
    """
    potential = mixture.potential(draws.pool.loss)
    weights = draws.pool_weights
    counted = weights > 0
    expected = float(weights[counted] @ potential[counted])
    return {
        "ess": draws.ess,
        "pareto_k": pareto_k(-potential - draws.pool.extra),
        "n_draws": len(draws),
        "n_distinct": len(draws.distinct[0]),
        "n_evaluated": len(draws.pool),
        "log_evidence": draws.log_evidence,
        "log_evidence_se": draws.log_evidence_se,
        "free_energy": -draws.log_evidence,
        "expected_potential": expected,
        "divergence_from_prior": max(-draws.log_evidence - expected, 0.0),
        "rungs": draws.rungs,
    }


def verdict(numbers: dict[str, Any]) -> str:
    """Return one sentence on whether to trust the draws, and what to do if not."""
    ess, k, n = numbers["ess"], numbers["pareto_k"], numbers["n_evaluated"]
    counted = f"{ess:,.0f} effective draws out of {n:,} candidates"
    if ess < MIN_ESS:
        return f"not sampled: only {counted}; {_ADVICE}"
    if k > MAX_PARETO_K:
        return f"use with care, because few candidates carry most of the weight (Pareto k {k:.2f}); {_ADVICE}"
    if ess < GOOD_ESS:
        return f"use with care, because there are only {counted}; {_ADVICE}"
    return f"trustworthy: {counted}" + (f", Pareto k {k:.2f}" if np.isfinite(k) else "")
