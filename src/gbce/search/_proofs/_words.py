"""Proofs about costs in words."""

from math import ceil

from gbce.search._proofs._proof import Proof

__all__ = ["say_answer", "say_cheapest"]

_EXACT = 1e-6  # share of the cost that nobody minds: what a summation or the last digit of a value may differ by
_FEW = {2: "No change of one column suffices.", 3: "No change of one or two columns suffices."}


def say_cheapest(proof: Proof, origin: str, distance: str, under: str = "") -> str:
    """Return what a proof says about the point that it is of.

    Parameters
    ----------
    proof : Proof
        With costs.
    origin : str
        What it rests on.
    distance : {"l1", "l2", "changes"}
        What the cost is.
    under : str
        What else was asked of points.

    Examples
    --------
    >>> say_cheapest(Proof("trees", "", boxes=9, lower=1.95, cost=2.0), "from the leaves", "l1")
    'No point that reaches the target is more than 3% cheaper (proved from the leaves, in 9 boxes of cells).'
    >>> say_cheapest(Proof("trees", "", lower=1.99, cost=2.0, optimum=1.99), "from the leaves", "l1").split(";")[1]
    ' this one, with rounded numbers, costs at most 0.6% more.'
    """
    how = f"(proved {origin}, in {proof.boxes:,} box{'es' * (proof.boxes != 1)} of cells)"
    lower, cost = proof.lower or 0.0, proof.cost or 0.0
    if distance == "changes":
        needed = max(ceil(lower - _EXACT), proof.least_changes)
        if needed >= cost:
            return f"No point with fewer changes{under} reaches the target {how}."
        return f"Any point{under} that reaches the target has at least {needed} change{'s' * (needed != 1)} {how}."
    few = [_FEW[proof.least_changes]] if proof.least_changes in _FEW and not under else []
    if proof.gap <= _EXACT:
        return " ".join([f"No cheaper point{under} reaches the target {how}.", *few])
    if proof.optimum is not None and lower >= proof.optimum * (1.0 - _EXACT):
        more = _share(cost / proof.optimum - 1.0)
        said = (
            f"The cheapest point{under} that reaches the target costs {proof.optimum:.6g} {how}; this one, with rounded"
        )
        return " ".join([f"{said} numbers, costs at most {more} more.", *few])
    if proof.gap < 1:
        return " ".join(
            [f"No point{under} that reaches the target is more than {_share(proof.gap)} cheaper {how}.", *few]
        )
    return " ".join([*few, how[1:-1].capitalize() + "."]) if few else ""


def say_answer(proof: Proof, cost: float) -> str:
    """Return what a proof about the nearest point says about another one, by the same cost.

    Examples
    --------
    >>> say_answer(Proof("trees", "", lower=1.5, cost=1.5), 2.0)
    'Any point that reaches the target costs at least 1.5, and this one 2 (proved from the leaves of all trees).'
    """
    lower = proof.lower or 0.0
    if cost <= 0 or lower <= 0:
        return ""
    how = "(proved from the leaves of all trees)"
    if lower >= cost * (1.0 - _EXACT):
        return f"No cheaper point reaches the target {how}."
    return f"Any point that reaches the target costs at least {_down(lower)}, and this one {cost:.3g} {how}."


def _share(gap: float) -> str:
    """Return a share in percent, rounded up."""
    return f"{ceil(1000 * gap) / 10:g}%" if gap < 0.01 else f"{ceil(100 * gap)}%"


def _down(number: float) -> str:
    """Return a number with three digits that is not above it."""
    said = f"{number:.3g}"
    return said if float(said) <= number else f"{number * (1 - 5e-3):.3g}"
