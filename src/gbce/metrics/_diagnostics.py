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
MAX_R_HAT = 1.1  # of chains: Gelman and Rubin (1992); short chains lie above one even from a perfect start
MAX_EVIDENCE_ERROR = 0.5

_ADVICE = {
    "Importance": "use gbce.SMC(), raise n_candidates, widen the prior, lower eta, or ask for less",
    "SMC": "raise n_draws of the sampler, widen the prior, lower eta, or ask for less",
    "Chains": "raise n_steps, or use gbce.SMC()",
    "Nested": "raise n_live, or use gbce.SMC()",
}


def diagnose(draws: Draws, mixture: Mixture, free: tuple[str, ...]) -> dict[str, Any]:
    """Return the numbers: effective sample size, Pareto k, evidence, the terms of the free energy, and more.

    The free energy ``-log E_prior[exp(-potential)]`` equals the expected potential plus the divergence of the
    posterior from the prior (Donsker and Varadhan; the appendix of the paper). ``free`` names the latent coordinates.
    """
    potential = mixture.potential(draws.pool.loss)
    weights = draws.pool_weights
    counted = weights > 0
    expected = float(weights[counted] @ potential[counted])
    worst, which = draws.worst_ess
    return {
        "sampler": draws.facts.get("sampler", "Importance"),
        "ess": draws.ess,
        "ess_worst": worst,
        "ess_worst_of": (*free, "the loss", "the distance")[which],
        # the tail of weights says something of independent points; errors between runs need no such check
        "pareto_k": pareto_k(draws.base - potential - draws.pool.extra) if draws.groups is None else np.nan,
        "n_draws": len(draws),
        "n_distinct": len(draws.distinct[0]),
        "n_evaluated": len(draws.pool),
        "log_evidence": draws.log_evidence,
        "log_evidence_se": draws.log_evidence_se,
        "free_energy": -draws.log_evidence,
        "expected_potential": expected,
        "divergence_from_prior": max(-draws.log_evidence - expected, 0.0),
        "rungs": draws.rungs,
        **{name: value for name, value in draws.facts.items() if name != "sampler"},
    }


def verdict(numbers: dict[str, Any]) -> str:
    """Return one sentence on whether to trust the draws, and what to do if not."""
    sampler, ess = numbers["sampler"], numbers["ess"]
    advice = _ADVICE.get(sampler, _ADVICE["SMC"])
    counted = _counted(numbers)
    if not numbers.get("complete", True):
        eta = numbers["rungs"][-1]
        return f"not finished: the budget ran out at eta = {eta:g}, with {counted}; allow more rows or time"
    if ess < MIN_ESS:
        return f"not sampled: only {counted}; {advice}"
    doubts = _doubts(numbers, counted)
    if doubts:
        return f"use with care, because {doubts[0]}; {advice}"
    detail = f"Pareto k {numbers['pareto_k']:.2f}" if np.isfinite(numbers["pareto_k"]) else ""
    if "r_hat" in numbers:
        detail = f"R-hat {numbers['r_hat']:.3f}"
    if "islands" in numbers:
        detail = f"log evidence within {1.96 * numbers['log_evidence_se']:.2f}"
    return f"trustworthy: {counted}" + (f", {detail}" if detail else "")


def _counted(numbers: dict[str, Any]) -> str:
    """Effective draws, and out of what."""
    count = f"{numbers['ess']:,.0f} effective draws"
    if "islands" in numbers:
        rungs = len(numbers["sweeps"])
        return f"{count} from {numbers['islands']} islands over {rungs} rung{'s' if rungs != 1 else ''}"
    if "n_chains" in numbers:
        return f"{count} from {numbers['n_chains']} chains"
    return f"{count} out of {numbers['n_evaluated']:,} candidates"


def _doubts(numbers: dict[str, Any], counted: str) -> list[str]:
    """Reasons for care, the gravest first."""
    runs = "chains" if "n_chains" in numbers else "islands"
    reasons = [
        (
            numbers.get("r_hat", 1.0) > MAX_R_HAT,
            f"the chains have not come together (R-hat {numbers.get('r_hat', 1.0):.2f})",
        ),
        (
            numbers["ess_worst"] < MIN_ESS,
            f"the {runs} disagree about {numbers['ess_worst_of']} ({numbers['ess_worst']:,.0f} effective draws)",
        ),
        (
            numbers["log_evidence_se"] > MAX_EVIDENCE_ERROR,
            f"the log evidence is uncertain by {numbers['log_evidence_se']:.1f}",
        ),
        (
            numbers["pareto_k"] > MAX_PARETO_K,
            f"few candidates carry most of the weight (Pareto k {numbers['pareto_k']:.2f})",
        ),
        (numbers["ess"] < GOOD_ESS, f"there are only {counted}"),
    ]
    return [reason for holds, reason in reasons if holds]
