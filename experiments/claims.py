"""The paper's claims, one by one, each with a verdict from many seeds.

A claim is a statement about one run. It is checked in every run: it is *reproduced* if it holds in at least 95% of
them, *not reproduced* if it holds in at most 5%, and otherwise *within noise*: then one run cannot tell.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import gbce
from experiments.figures import EtaPath
from experiments.simulated import Runs, short
from gbce._weights import Array

__all__ = ["Claim", "claims_frame", "eta_claims", "real_claims", "simulated_claims"]

MOST, FEW = 0.95, 0.05
_RESAMPLES = 1_000


@dataclass(frozen=True, eq=False)
class Claim:
    """A statement of the paper, and in which runs it held.

    Parameters
    ----------
    text : str
        The statement.
    paper : str
        The paper's own numbers for it.
    holds : bool array of shape (n_runs,)
        Whether it held, run by run.
    seen : str
        The numbers seen here.
    """

    text: str
    paper: str
    holds: Array
    seen: str

    @property
    def verdict(self) -> str:
        """Reproduced, not reproduced, or within noise."""
        share = float(np.mean(self.holds))
        if share >= MOST:
            return "reproduced"
        if share <= FEW:
            return "not reproduced"
        return f"within noise: holds in {share:.0%} of runs"


def claims_frame(claims: list[Claim]) -> pd.DataFrame:
    """Return all claims as a table."""
    lines = [(claim.text, claim.paper, claim.seen, claim.verdict) for claim in claims]
    return pd.DataFrame(lines, columns=["claim", "paper", "here (mean over runs)", "verdict"])


def simulated_claims(two: Runs, ten: Runs) -> list[Claim]:
    """Claims of Tables 1 and 2 and Table VarImp."""
    gibbs, mixed = _figures(two.gibbs), _figures(two.modelunc)
    gibbs10, mixed10 = _figures(ten.gibbs), _figures(ten.modelunc)
    whole, mixed_whole = two.gibbs.distribution, two.modelunc.distribution
    whole10, mixed_whole10 = ten.gibbs.distribution, ten.modelunc.distribution
    vi, vi10 = (runs.gibbs.importance["change"].unstack("feature") for runs in (two, ten))
    loss10 = gibbs10["loss"]["MAP"]
    unstable = np.array([loss10.std() > 0.5 * loss10.mean()])  # a statement about all runs, not about one
    others = vi10.drop(columns="x2").max(axis=1)
    return [
        _less("2-D: Mean is nearest to the base point", gibbs["distance"], "Mean", "MAP", "0.502 < 1.131"),
        _less("2-D: MAP has a lower loss than Mean", gibbs["loss"], "MAP", "Mean", "0.433 < 3.653"),
        _at_most("2-D: Mean has no robustness", gibbs["robustness"]["Mean"], 0.01, "0.000"),
        _less("2-D: CVaR has a lower loss than MAP", gibbs["loss"], "CVaR", "MAP", "0.116 < 0.433"),
        _less("2-D: CVaR is more robust than MAP", gibbs["robustness"], "MAP", "CVaR", "0.455 < 0.465"),
        _less("2-D: CVaR is farther away than MAP", gibbs["distance"], "MAP", "CVaR", "1.131 < 1.326"),
        _less("2-D: DirectOpt has a lower loss than MAP", gibbs["loss"], "DirectOpt", "MAP", "0.012 < 0.433"),
        _less("2-D: DirectOpt has a lower loss than CVaR", gibbs["loss"], "DirectOpt", "CVaR", "0.012 < 0.116"),
        _order("2-D: ModelUnc spreads more than Gibbs (Stability)", whole["stability"], mixed_whole["stability"],
               "2.464 < 2.511"),
        _order("2-D: ModelUnc succeeds less often than Gibbs (SP)", mixed_whole["success_probability"],
               whole["success_probability"], "0.434 < 0.443"),
        _order("2-D: ModelUnc has the heavier tail", whole["tail"], mixed_whole["tail"], "1.739 < 1.944"),
        _order("2-D: CVaR of ModelUnc is more robust than CVaR of Gibbs", gibbs["robustness"]["CVaR"],
               mixed["robustness"]["CVaR"], "0.465 < 0.555"),
        _order("2-D: x2 moves more than x1 (VarImp)", vi["x1"], vi["x2"], "0.808 < 1.167"),
        _less("10-D: CVaR has a lower loss than Mean", gibbs10["loss"], "CVaR", "Mean", "0.044 < 1.005"),
        _at_least("10-D: CVaR is robust", gibbs10["robustness"]["CVaR"], 0.9, "0.975"),
        _at_least("10-D: CVaR of ModelUnc is robust", mixed10["robustness"]["CVaR"], 0.9, "0.950"),
        _less("10-D: DirectOpt is nearer than CVaR", gibbs10["distance"], "DirectOpt", "CVaR", "1.469 < 3.253"),
        _at_most("10-D: DirectOpt has a low loss", gibbs10["loss"]["DirectOpt"], 0.1, "0.017"),
        Claim("10-D: the loss of the kNN MAP changes much from run to run", "1.816 (Gibbs), 0.405 (ModelUnc)", unstable,
              f"{loss10.mean():.3f} ± {loss10.std():.3f} over seeds"),
        _order("10-D: ModelUnc MAP has a lower loss than Gibbs MAP", mixed10["loss"]["MAP"], loss10, "0.405 < 1.816"),
        _order("10-D: x2 moves most (VarImp)", others, vi10["x2"], "0.843 < 1.044"),
        _order("10-D: ModelUnc succeeds less often than Gibbs (SP)", mixed_whole10["success_probability"],
               whole10["success_probability"], "0.494 < 0.601"),
        _order("10-D: ModelUnc has the heavier tail", whole10["tail"], mixed_whole10["tail"], "1.413 < 2.129"),
        _order("10-D: ModelUnc spreads less than Gibbs (Stability)", mixed_whole10["stability"], whole10["stability"],
               "9.602 < 9.691"),
        _order("SP is higher in 10-D than in 2-D", whole["success_probability"], whole10["success_probability"],
               "0.443 < 0.601"),
    ]  # fmt: skip


def eta_claims(path: EtaPath) -> list[Claim]:
    """Claims of Figures 3 and 3b; the runs are the base points, or one for statements about their mean."""
    sp, spread = path.whole["success_probability"].unstack("eta"), path.whole["stability"].unstack("eta")
    loss = path.loss.groupby(level="eta").mean()
    etas = np.array(sp.columns)
    mean_sp, mean_spread = sp.mean(), spread.mean()
    later = mean_spread[etas > 0.3]
    first_drop = mean_spread.iloc[0] - mean_spread.iloc[1]
    return [
        Claim("Figure 3: SP rises with eta", "0.09 at 0, 0.68 at 2", np.diff(mean_sp) > 0,
              f"{mean_sp.iloc[0]:.2f} at 0, {mean_sp.iloc[-1]:.2f} at 2"),
        Claim("Figure 3: Stability drops at first", "2.02 at 0, 1.71 at 1/3", np.array([first_drop > 0]),
              f"{mean_spread.iloc[0]:.2f} at 0, {mean_spread.iloc[1]:.2f} at 1/3"),
        Claim("Figure 3: Stability levels off: it moves less from 1/3 to 2 than from 0 to 1/3", "1.6 to 1.7",
              np.array([np.ptp(later) < first_drop]), f"{later.min():.2f} to {later.max():.2f}"),
        Claim("Figure 3b: the loss of MAP falls sharply by eta = 1", "8.24 at 0, 0.045 at 1",
              np.array([loss["MAP"].iloc[3] < 0.1 * loss["MAP"].iloc[0]]),
              f"{loss['MAP'].iloc[0]:.2f} at 0, {loss['MAP'].iloc[3]:.3f} at 1"),
        Claim("Figure 3b: the loss of Mean falls but stays above MAP's", "7.62 at 0, 1.05 at 2",
              np.array([loss["MAP"].iloc[-1] < loss["Mean"].iloc[-1] < loss["Mean"].iloc[0]]),
              f"{loss['Mean'].iloc[0]:.2f} at 0, {loss['Mean'].iloc[-1]:.2f} at 2"),
        Claim("Figure 3b: the loss of CVaR is low at every eta", "low, not monotone",
              loss["CVaR"].to_numpy() < 0.5 * loss["Mean"].to_numpy(),
              f"{loss['CVaR'].min():.3f} to {loss['CVaR'].max():.3f}"),
    ]  # fmt: skip


def real_claims(d: int, gibbs: gbce.ExplanationTable, mixed: gbce.ExplanationTable) -> list[Claim]:
    """Claims of Tables real2d and real10d that do not depend on the series themselves.

    They compare means over base points, so a "run" is a resample of the base points.
    """
    figures = _figures(gibbs)
    paper = {
        2: ("1.000 ± 0.000", "0.826 < 1.000", "2.05 < 52.0", "1.04 < 29.4", "19.3 < 29.3", "0.494 < 0.759"),
        10: ("1.000 ± 0.000", "0.841 < 1.000", "1.51 < 21.4", "0.345 < 24.9", "20.5 < 33.7", "0.464 < 0.761"),
    }[d]
    sp, mixed_sp = gibbs.distribution["success_probability"], mixed.distribution["success_probability"]
    tails = gibbs.distribution["tail"], mixed.distribution["tail"]
    loss, distance, robust = (figures[name] for name in ("loss", "distance", "robustness"))
    return [
        _at_least(f"real {d}-D: every Gibbs draw succeeds", _resampled(sp), 0.995, paper[0]),
        _order(f"real {d}-D: ModelUnc succeeds less often", *_both(mixed_sp, sp), paper[1]),
        _order(f"real {d}-D: ModelUnc has the heavier tail", *_both(*tails), paper[2]),
        _order(f"real {d}-D: MAP has a lower loss than Mean", *_both(loss["MAP"], loss["Mean"]), paper[3]),
        _order(f"real {d}-D: CVaR is farther away than MAP", *_both(distance["MAP"], distance["CVaR"]), paper[4]),
        _order(f"real {d}-D: CVaR is more robust than MAP", *_both(robust["MAP"], robust["CVaR"]), paper[5]),
    ]


def _resampled(values: pd.Series) -> pd.Series:
    """Means over resamples of the base points, the same resamples each time."""
    picks = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    return pd.Series(values.to_numpy()[picks].mean(axis=1))


def _both(one: pd.Series, other: pd.Series) -> tuple[pd.Series, pd.Series]:
    return _resampled(one), _resampled(other)


def _figures(table: gbce.ExplanationTable) -> dict[str, pd.DataFrame]:
    """Figure -> frame of runs by rule."""
    names = ("loss", "distance", "robustness", "plausibility")
    return {name: table.pointwise[name].unstack("rule").rename(columns=short) for name in names}


def _order(text: str, smaller: pd.Series, larger: pd.Series, paper: str) -> Claim:
    seen = f"{np.mean(smaller):.3f} < {np.mean(larger):.3f}"
    if np.mean(smaller) >= np.mean(larger):
        seen = f"{np.mean(smaller):.3f} ≥ {np.mean(larger):.3f}"
    return Claim(text, paper, np.asarray(smaller) < np.asarray(larger), seen)


def _less(text: str, figures: pd.DataFrame, smaller: str, larger: str, paper: str) -> Claim:
    return _order(text, figures[smaller], figures[larger], paper)


def _at_least(text: str, values: pd.Series, bound: float, paper: str) -> Claim:
    return Claim(f"{text} (at least {bound:g})", paper, np.asarray(values) >= bound, f"{np.mean(values):.3f}")


def _at_most(text: str, values: pd.Series, bound: float, paper: str) -> Claim:
    return Claim(f"{text} (at most {bound:g})", paper, np.asarray(values) <= bound, f"{np.mean(values):.3f}")
