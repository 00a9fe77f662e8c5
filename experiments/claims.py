"""The paper's claims, one by one, each with a verdict.

Most claims are statements about one run. Such a claim is checked in every run, of the page's models and of the refits:
it is *reproduced* if it holds in at least 95% of them, *not reproduced* if it holds in at most 5%, and otherwise
*within noise*: then one run cannot tell. A claim about all runs together, or about a figure that was made once, is one
check: it holds or it does not, and no share of runs stands behind it. On other data than the paper's nothing is
reproduced: there the verdict is about the same shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from experiments.figures import EtaPath
from experiments.numbers import Key, is_fitted
from experiments.orders import FEW, MOST
from gbce.base import Array

__all__ = ["Claim", "claims_frame", "eta_claims", "real_claims", "simulated_claims"]


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
        Whether it held, run by run; of shape (1,) if it was checked once.
    seen : str
        The numbers seen here.
    keys : tuple of (method, rule, figure)
        The numbers of the paper that it is about.
    each : "run", "resample" or "check"
        What one entry of `holds` is.
    where : str
        The data, where they are not the paper's.
    """

    text: str
    paper: str
    holds: Array
    seen: str
    keys: tuple[Key, ...] = ()
    each: Literal["run", "resample", "check"] = "run"
    where: str = ""

    @property
    def verdict(self) -> str:
        """What became of it."""
        share = float(np.mean(self.holds))
        if self.each == "check":
            return f"{'holds' if share == 1 else 'does not hold'} (one check)"
        if share >= MOST:
            return f"same shape on {self.where}" if self.where else "reproduced"
        if share <= FEW:
            return f"another shape on {self.where}" if self.where else "not reproduced"
        return f"within noise: holds in {share:.0%} of {self.each}s"

    @property
    def circular(self) -> str:
        """Whether the base points were fitted to the numbers it is about."""
        if self.where or not self.keys or not any(map(is_fitted, self.keys)):
            return "no"
        return "yes" if all(map(is_fitted, self.keys)) else "partly"


def claims_frame(claims: list[Claim]) -> pd.DataFrame:
    """Return all claims as a table."""
    lines = [
        (claim.text, claim.paper, claim.seen, float(np.mean(claim.holds)), claim.circular, claim.verdict)
        for claim in claims
    ]
    return pd.DataFrame(lines, columns=["claim", "paper", "here", "share", "circular", "verdict"]).set_index("claim")


@dataclass(frozen=True, eq=False)
class _Judge:
    """Makes claims about one table: the paper's numbers, ours run by run, and how they are called."""

    name: str
    paper: pd.Series
    seen: pd.DataFrame
    each: Literal["run", "resample"] = "run"
    where: str = ""

    def below(self, text: str, small: Key | Sequence[Key], large: Key | Sequence[Key]) -> Claim:
        """Say that each of the small numbers lies below each of the large ones."""
        low, high = _keys(small), _keys(large)
        ours, theirs = self.seen[low].max(axis=1), self.seen[high].min(axis=1)
        return self._claim(
            text, f"{self.paper[low].max():.3f} < {self.paper[high].min():.3f}", (ours < theirs).to_numpy(),
            _compared(ours.mean(), theirs.mean()), (*low, *high),
        )  # fmt: skip

    def within(self, text: str, key: Key, *, low: float = -np.inf, high: float = np.inf) -> Claim:
        """Say that a number lies within a bound."""
        ours = self.seen[key]
        bound = f"at least {low:g}" if np.isinf(high) else f"at most {high:g}"
        holds = ours.between(low, high).to_numpy()
        return self._claim(f"{text} ({bound})", f"{self.paper[key]:.3f}", holds, f"{ours.mean():.3f}", (key,))

    def _claim(self, text: str, paper: str, holds: Array, seen: str, keys: tuple[Key, ...]) -> Claim:
        return Claim(f"{self.name}: {text}", paper, holds, seen, keys, self.each, self.where)


def simulated_claims(papers: dict[int, pd.Series], runs: dict[int, pd.DataFrame]) -> list[Claim]:
    """Claims of Tables 1 and 2 and Table VarImp.

    Parameters
    ----------
    papers, runs : dict of int to Series, and to DataFrame
        For 2 and 10 dimensions the paper's numbers, and ours with one line per run.
    """
    two, ten = (_Judge(f"{d}-D", papers[d], runs[d]) for d in (2, 10))
    loss = runs[10]["Gibbs", "MAP", "L_pt"]
    first, second = papers[10]["Gibbs", "MAP", "L_pt"], papers[10]["ModelUnc", "MAP", "L_pt"]
    sp = ("Gibbs", "posterior", "SP")
    low, high = runs[2][sp].to_numpy(), runs[10][sp].to_numpy()
    return [
        two.below("Mean is nearest to the base point", _g("Mean", "D_pt"),
                  [_g("MAP", "D_pt"), _g("CVaR", "D_pt"), _direct("D_pt")]),
        two.below("MAP has a lower loss than Mean", _g("MAP", "L_pt"), _g("Mean", "L_pt")),
        two.within("Mean has no robustness", _g("Mean", "Rb"), high=0.01),
        two.below("CVaR has a lower loss than MAP", _g("CVaR", "L_pt"), _g("MAP", "L_pt")),
        two.below("CVaR is more robust than MAP", _g("MAP", "Rb"), _g("CVaR", "Rb")),
        two.below("CVaR is farther away than MAP", _g("MAP", "D_pt"), _g("CVaR", "D_pt")),
        two.below("DirectOpt has a lower loss than MAP", _direct("L_pt"), _g("MAP", "L_pt")),
        two.below("DirectOpt has a lower loss than CVaR", _direct("L_pt"), _g("CVaR", "L_pt")),
        two.below("ModelUnc spreads more than Gibbs (Stability)", _g("posterior", "Stability"),
                  _m("posterior", "Stability")),
        two.below("ModelUnc succeeds less often than Gibbs (SP)", _m("posterior", "SP"), sp),
        two.below("ModelUnc has the heavier tail", _g("posterior", "Tail"), _m("posterior", "Tail")),
        two.below("CVaR of ModelUnc is more robust than CVaR of Gibbs", _g("CVaR", "Rb"), _m("CVaR", "Rb")),
        two.below("x2 moves more than x1 (VarImp)", _g("posterior", "VarImp x1"), _g("posterior", "VarImp x2")),
        ten.below("CVaR has a lower loss than Mean", _g("CVaR", "L_pt"), _g("Mean", "L_pt")),
        ten.within("CVaR is robust", _g("CVaR", "Rb"), low=0.9),
        ten.within("CVaR of ModelUnc is robust", _m("CVaR", "Rb"), low=0.9),
        ten.below("DirectOpt is nearer than CVaR", _direct("D_pt"), [_g("CVaR", "D_pt"), _m("CVaR", "D_pt")]),
        ten.within("DirectOpt has a low loss", _direct("L_pt"), high=0.1),
        Claim("10-D: the loss of the kNN MAP changes much from run to run (SD above half its mean)",
              f"{first:.3f} (Gibbs), {second:.3f} (ModelUnc)", np.array([loss.std() > 0.5 * loss.mean()]),
              f"{loss.mean():.3f} ± {loss.std():.3f}", (_g("MAP", "L_pt"),), "check"),
        ten.below("ModelUnc MAP has a lower loss than Gibbs MAP", _m("MAP", "L_pt"), _g("MAP", "L_pt")),
        ten.below("x2 moves most (VarImp)", _changes(10, but=2), _g("posterior", "VarImp x2")),
        ten.below("ModelUnc succeeds less often than Gibbs (SP)", _m("posterior", "SP"), sp),
        ten.below("ModelUnc has the heavier tail", _g("posterior", "Tail"), _m("posterior", "Tail")),
        ten.below("ModelUnc spreads less than Gibbs (Stability)", _m("posterior", "Stability"),
                  _g("posterior", "Stability")),
        Claim("SP is higher in 10-D than in 2-D", f"{papers[2][sp]:.3f} < {papers[10][sp]:.3f}", low < high,
              _compared(low.mean(), high.mean()), (sp,)),
    ]  # fmt: skip


def eta_claims(path: EtaPath) -> list[Claim]:
    """Claims of Figures 3 and 3b: each is one check of the mean over base points."""
    sp, stability = (path.whole[name].groupby(level="eta").mean() for name in ("success_probability", "stability"))
    loss = path.loss.groupby(level="eta").mean()
    later = stability[stability.index > 0.3]
    drop = stability.iloc[0] - stability.iloc[1]
    mode, mean, tail = loss["MAP"], loss["Mean"], loss["CVaR"]

    def claim(text: str, paper: str, holds: bool, seen: str) -> Claim:
        return Claim(text, paper, np.array([holds]), seen, each="check")

    return [
        claim("Figure 3: SP rises with eta at every step", "0.09 at 0, 0.68 at 2", bool((np.diff(sp) > 0).all()),
              f"{sp.iloc[0]:.2f} at 0, {sp.iloc[-1]:.2f} at 2"),
        claim("Figure 3: Stability drops at first", "2.02 at 0, 1.71 at 1/3", drop > 0,
              f"{stability.iloc[0]:.2f} at 0, {stability.iloc[1]:.2f} at 1/3"),
        claim("Figure 3: Stability levels off: it moves less from 1/3 to 2 than from 0 to 1/3", "1.6 to 1.7",
              np.ptp(later) < drop, f"{later.min():.2f} to {later.max():.2f}"),
        claim("Figure 3b: the loss of MAP falls sharply, to less than a tenth at eta = 1", "8.24 at 0, 0.045 at 1",
              mode.iloc[3] < 0.1 * mode.iloc[0], f"{mode.iloc[0]:.2f} at 0, {mode.iloc[3]:.3f} at 1"),
        claim("Figure 3b: the loss of Mean falls but stays above MAP's", "7.62 at 0, 1.05 at 2",
              mode.iloc[-1] < mean.iloc[-1] < mean.iloc[0], f"{mean.iloc[0]:.2f} at 0, {mean.iloc[-1]:.2f} at 2"),
        claim("Figure 3b: the loss of CVaR is low, below half of Mean's, at every eta", "low, not monotone",
              bool((tail < 0.5 * mean).all()), f"{tail.min():.3f} to {tail.max():.3f}"),
    ]  # fmt: skip


def real_claims(d: int, paper: pd.Series, seen: pd.DataFrame, where: str) -> list[Claim]:
    """Claims of Tables real2d and real10d, on other data than the paper's.

    They compare means over base points, so an entry of `seen` is the mean over a resample of these.
    """
    judge = _Judge(f"real {d}-D", paper, seen, "resample", where)
    found = [
        judge.within("every Gibbs draw succeeds", _g("posterior", "SP"), low=0.995),
        judge.below("ModelUnc succeeds less often", _m("posterior", "SP"), _g("posterior", "SP")),
        judge.below("ModelUnc has the heavier tail", _g("posterior", "Tail"), _m("posterior", "Tail")),
        judge.below("ModelUnc spreads more (Stability)", _g("posterior", "Stability"), _m("posterior", "Stability")),
    ]
    for name, key in (("Gibbs", _g), ("ModelUnc", _m)):
        found += [
            judge.below(f"{name}: MAP has a lower loss than Mean", key("MAP", "L_pt"), key("Mean", "L_pt")),
            judge.below(f"{name}: Mean is nearest", key("Mean", "D_pt"), [key("MAP", "D_pt"), key("CVaR", "D_pt")]),
            judge.below(f"{name}: CVaR is farther away than MAP", key("MAP", "D_pt"), key("CVaR", "D_pt")),
            judge.below(f"{name}: CVaR is more robust than MAP", key("MAP", "Rb"), key("CVaR", "Rb")),
        ]
    most = 2 if d == 2 else 7
    if _g("posterior", f"VarImp x{d}") in paper.index:
        changes = _changes(d, but=most)
        found.append(judge.below(f"x{most} moves most (VarImp)", changes, _g("posterior", f"VarImp x{most}")))
    return found


def _compared(low: float, high: float) -> str:
    return f"{low:.3f} {'<' if low < high else '≥'} {high:.3f}"


def _keys(given: Key | Sequence[Key]) -> list[Key]:
    return [given] if isinstance(given, tuple) and isinstance(given[0], str) else list(given)  # type: ignore[arg-type]


def _g(rule: str, figure: str) -> Key:
    return "Gibbs", rule, figure


def _m(rule: str, figure: str) -> Key:
    return "ModelUnc", rule, figure


def _direct(figure: str) -> Key:
    return "DirectOpt", "---", figure


def _changes(d: int, *, but: int) -> list[Key]:
    return [_g("posterior", f"VarImp x{j}") for j in range(1, d + 1) if j != but]
