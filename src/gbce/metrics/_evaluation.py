"""How points and posteriors are judged: the settings of Section 2.5 of the paper."""

from dataclasses import dataclass

from gbce._validation import require_counts, require_finite
from gbce.metrics._noise import Noise

__all__ = ["Evaluation"]


@dataclass(frozen=True)
class Evaluation:
    """Settings of the reported figures.

    Parameters
    ----------
    noise : number, sequence, mapping or function
        Execution noise D_r: a standard deviation in units of each feature's scale (one number, one per feature, or
        a mapping by name that leaves the others exact), or a function ``(rng, n) -> (n, d)`` that draws offsets in
        the features' own units.
    n_perturb : int
        Perturbed copies for robustness.
    neighbours : int
        Training rows that plausibility looks at, q.
    alpha : float
        Share of draws beyond the tail figure.

    Examples
    --------
    >>> Evaluation(noise=0.2).n_perturb
    200
    """

    noise: Noise = 0.1
    n_perturb: int = 200
    neighbours: int = 20
    alpha: float = 0.1

    def __post_init__(self) -> None:
        require_counts(self, "n_perturb", "neighbours")
        require_finite(self, "alpha")
        if not 0 < self.alpha < 1:
            raise ValueError(f"Evaluation: alpha must lie between 0 and 1, not {self.alpha!r}")
