"""The settings of Section 3, one object per experiment."""

from dataclasses import dataclass

import gbce

__all__ = ["REAL_2D", "REAL_10D", "SIMULATED_2D", "SIMULATED_10D", "Setting"]


@dataclass(frozen=True)
class Setting:
    """What the paper fixes for one data set: sampling, rules and figures.

    Parameters
    ----------
    d : int
        Number of features.
    n_candidates, n_draws : int
        N_cand and N_samp.
    sigma : float
        Scale of the Gaussian prior.
    epsilon : float
        Success threshold of the squared loss, ε_sp = ε_rb.
    noise : float
        SD of the execution noise D_r.
    cvar_candidates, cvar_perturb : int
        Of CVaR-CE.
    robustness_perturb, neighbours : int
        Of Rb and Plu.
    alpha, tau : float
        Tail share, and CVaR level.
    """

    d: int
    n_candidates: int
    n_draws: int
    sigma: float
    epsilon: float
    noise: float
    cvar_candidates: int
    cvar_perturb: int
    robustness_perturb: int
    neighbours: int
    alpha: float = 0.1
    tau: float = 0.9

    @property
    def sampler(self) -> gbce.Importance:
        """Algorithm 1 at the paper's size."""
        return gbce.Importance(self.n_candidates, self.n_draws)

    @property
    def evaluation(self) -> gbce.Evaluation:
        """Noise, neighbours and tail."""
        return gbce.Evaluation(self.noise, self.robustness_perturb, self.neighbours, self.alpha)

    @property
    def rules(self) -> tuple[gbce.decisions.Rule, ...]:
        """Mean, MAP as the paper approximates it (KDE in 2-D, kNN in 10-D), CVaR among draws by an even grid."""
        return gbce.paper_rules(self.d, tau=self.tau, n_perturb=self.cvar_perturb, max_candidates=self.cvar_candidates)

    def target(self, y_star: float) -> gbce.Value:
        """Squared error to ``y*``, reached when it is at most epsilon."""
        return gbce.Value(y_star, scale=1.0, tolerance=self.epsilon**0.5)


SIMULATED_2D = Setting(2, 20_000, 2_000, 1.0, 0.25, 0.20, 800, 64, 200, 20)
SIMULATED_10D = Setting(10, 35_000, 3_000, 1.0, 0.35, 0.15, 1_200, 64, 200, 20)
REAL_2D = Setting(2, 20_000, 2_000, 10.0, 15.0, 5.0, 400, 32, 100, 10)
REAL_10D = Setting(10, 35_000, 2_000, 8.0, 15.0, 5.0, 400, 32, 100, 10)
