"""The paper's own decision rules, as Section 3.1.2 sets them up."""

from gbce._validation import is_count
from gbce.base import Rule
from gbce.decisions._bayes import Mean
from gbce.decisions._cvar import CVaR
from gbce.decisions._mode import MAP

__all__ = ["paper_rules"]

_PLANE = 2  # features, up to which the paper trusts a kernel estimate of the density
_NEIGHBOURS = 40  # of the score that stands for the density beyond
_TAU, _PERTURBED = 0.9, 64  # of CVaR-CE
_CANDIDATES_IN_THE_PLANE, _CANDIDATES_BEYOND = 800, 1_200  # of CVaR-CE


def paper_rules(
    d: int, *, tau: float = _TAU, n_perturb: int = _PERTURBED, max_candidates: int | None = None
) -> tuple[Rule, ...]:
    """Return the decisions of the paper: Mean, MAP and CVaR.

    MAP is the draw of the highest estimated density: by a Gaussian kernel in two features or fewer, by the distance to
    the 40th neighbour in more. CVaR looks at draws only, all under the same noise: 800 in two features, 1,200 in more.

    Parameters
    ----------
    d : int
        Number of features.
    tau : float
        Level of CVaR.
    n_perturb : int
        Perturbed copies of each of its candidates.
    max_candidates : int, optional
        Draws that it looks at; the paper's number for ``d`` when left out (400 in its real data, with 32 copies).

    Returns
    -------
    tuple of Rule
        Mean, MAP, CVaR.

    Examples
    --------
    >>> import gbce
    >>> [rule.label for rule in gbce.paper_rules(2)][:2]
    ['Mean', 'MAP(method=kde)']
    >>> [rule.label for rule in gbce.paper_rules(10)][:2]
    ['Mean', 'MAP(method=knn)']
    """
    if not is_count(d):
        raise ValueError(f"paper_rules: d must be a number of features of at least 1, not {d!r}")
    few = d <= _PLANE
    mode = MAP(method="kde") if few else MAP(method="knn", k=_NEIGHBOURS)
    most = (_CANDIDATES_IN_THE_PLANE if few else _CANDIDATES_BEYOND) if max_candidates is None else max_candidates
    return Mean(), mode, CVaR(tau, n_perturb=n_perturb, max_candidates=most, race=False, refine=False)
