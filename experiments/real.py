"""Tables real2d, real10d and VarImp real: every observation below the target as a base point.

The original series are not public. Without ``--data`` a SYNTHETIC stand-in takes their place, made by
``experiments/standin.py``, and every table and figure it touches says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

import gbce
from experiments.models import Leaderboard
from experiments.settings import REAL_2D, REAL_10D, Setting
from experiments.simulated import POINT_FIGURES, SEED, WHOLE_FIGURES, Runs, short
from experiments.tables_of_the_paper import REAL_IMPORTANCE, REAL_TABLES

__all__ = ["RealCase", "importance_table", "mean_and_sd", "real_case", "run"]


@dataclass(frozen=True, eq=False)
class RealCase:
    """Lagged series, models of them, and the paper's settings for that many features."""

    X: pd.DataFrame
    y: pd.Series
    board: Leaderboard
    setting: Setting
    label: str

    @property
    def y_star(self) -> float:
        """The 90th percentile of the outcomes."""
        return float(np.quantile(self.y, 0.9))

    @property
    def base_points(self) -> pd.DataFrame:
        """All observations whose prediction by the best model lies below the target."""
        return self.X[self.board.best.model.predict(self.X.to_numpy()) < self.y_star]

    def explainer(self, n_models: int) -> gbce.Explainer:
        """Return the explainer of the best model (Gibbs) or of the best few (ModelUnc)."""
        return gbce.Explainer(
            [entry.model for entry in self.board.top(n_models)],
            self.X.to_numpy(),
            space=gbce.Space.real(self.X.shape[1]),
            prior=gbce.Gaussian(self.setting.sigma),
            sampler=self.setting.sampler,
            evaluation=self.setting.evaluation,
        )


def real_case(X: pd.DataFrame, y: pd.Series, board: Leaderboard, *, label: str) -> RealCase:
    """Put together one real (or stand-in) data set; two features get the paper's 2-D settings, more the 10-D ones."""
    return RealCase(X.astype(float), y.astype(float), board, REAL_2D if X.shape[1] == 2 else REAL_10D, label)


def run(case: RealCase, *, every: int = 1, n_jobs: int = 1, progress: bool = False) -> Runs:
    """Explain each base point (or every few) by each method."""
    rows = case.base_points.iloc[::every].to_numpy()
    target = case.setting.target(case.y_star)
    tables = [
        case.explainer(k).explain_many(
            rows, target, rules=case.setting.rules, seed=SEED, n_jobs=n_jobs, progress=progress
        )
        for k in (1, 3)
    ]
    return Runs(*tables)


def mean_and_sd(case: RealCase, runs: Runs) -> pd.DataFrame:
    """Mean ± SD over base points of every figure, each above the paper's own."""
    paper = REAL_TABLES[2 if case.setting.d == 2 else 10]
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for method, table in runs.items():
        for label, group in table.pointwise.groupby(level="rule", sort=False):
            rule = short(label)
            here = {symbol: _cell(group[name].mean(), group[name].std()) for name, symbol in POINT_FIGURES.items()}
            pairs = zip(POINT_FIGURES.values(), paper[method, rule], strict=True)
            theirs = {symbol: _cell(*pair) for symbol, pair in pairs}
            if rule == "Mean":
                whole = table.distribution
                here |= {s: _cell(whole[n].mean(), whole[n].std()) for n, s in WHOLE_FIGURES.items()}
                theirs |= {s: _cell(*pair) for s, pair in zip(WHOLE_FIGURES.values(), paper[method], strict=True)}
            lines[method, rule, "paper"] = theirs
            lines[method, rule, case.label] = here
    frame = pd.DataFrame.from_dict(lines, orient="index").fillna("")
    return frame.set_axis(pd.MultiIndex.from_tuples(frame.index, names=["method", "rule", "data"]))


def importance_table(case: RealCase, runs: Runs) -> pd.DataFrame:
    """VarImp averaged over base points, each above the paper's own (by position of the feature)."""
    paper = REAL_IMPORTANCE[2 if case.setting.d == 2 else 10]
    lines = {}
    for method, table in runs.items():
        mean = table.importance["change"].groupby(level="feature", sort=False).mean()
        names: Sequence[str] = [str(name) for name in case.X.columns]
        if len(paper[method]) == len(names):
            lines[method, "paper"] = dict(zip(names, paper[method], strict=True))
        lines[method, case.label] = dict(zip(names, mean.tolist(), strict=True))
    frame = pd.DataFrame.from_dict(lines, orient="index").round(3)
    return frame.set_axis(pd.MultiIndex.from_tuples(frame.index, names=["method", "data"]))


def _cell(mean: float, sd: float) -> str:
    return f"{mean:.3f} ± {sd:.3f}"
