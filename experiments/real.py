"""Tables real2d, real10d and VarImp real: every observation below the target as a base point.

The original series are not public. Without ``--data`` a SYNTHETIC stand-in takes their place, made by
``experiments/standin.py``, and every table and figure it touches says so.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import gbce
from experiments.models import Leaderboard
from experiments.numbers import Key, against_the_paper, paper_numbers, seen
from experiments.settings import REAL_2D, REAL_10D, Setting
from experiments.simulated import POINT_FIGURES, SEED, WHOLE_FIGURES, Runs
from experiments.tables_of_the_paper import REAL_TABLES

__all__ = ["RealCase", "numbers", "paper_means", "real_case", "run", "success"]


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
            policy=None,  # the paper has no such answer
        )


def real_case(X: pd.DataFrame, y: pd.Series, board: Leaderboard, *, label: str) -> RealCase:
    """Put together one real (or stand-in) data set; two features get the paper's 2-D settings, more the 10-D ones."""
    return RealCase(X.astype(float), y.astype(float), board, REAL_2D if X.shape[1] == 2 else REAL_10D, label)


def run(case: RealCase, *, every: int = 1, n_jobs: int = 1, progress: bool = False) -> Runs:
    """Explain each base point (or every few) by each method."""
    rows = case.base_points.iloc[::every].to_numpy()
    target = case.setting.target(case.y_star)
    seeds = np.random.SeedSequence(SEED).spawn(len(rows))  # each row's own: figures are means over rows
    tables = [
        case.explainer(k).explain_many(
            rows, target, rules=case.setting.rules, seed=seeds, n_jobs=n_jobs, progress=progress
        )
        for k in (1, 3)
    ]
    return Runs(*tables)


def success(runs: Runs, setting: Setting) -> pd.DataFrame:
    """Return by method at how many base points no draw, or every draw, succeeds, and the median ESS."""
    lines = {}
    for method, table in runs.items():
        sp = table.distribution["success_probability"]
        lines[method] = {
            "base points": len(sp),
            "no draw succeeds": int((sp == 0).sum()),
            "every draw succeeds": int((sp == 1).sum()),
            "median ESS": round(float(np.median(table.diagnostics["ess"]))),
            "candidates": setting.n_candidates,
        }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")


def numbers(case: RealCase, runs: Runs) -> pd.DataFrame:
    """Return every mean of the paper's table beside ours; SD and ``z`` are over base points.

    Returns
    -------
    DataFrame
        By method, rule and figure: paper, paper's SD, mean, SD, z. VarImp only for as many features as the paper has.
    """
    paper = paper_means(case)
    table = against_the_paper(paper, [seen(runs)])[["paper", "mean", "SD", "z"]]
    table.insert(1, "paper's SD", _paper_sd(case.setting.d).reindex(table.index))
    return table


def paper_means(case: RealCase) -> pd.Series:
    """Return the paper's means, without VarImp if the number of features differs."""
    paper = paper_numbers(case.setting.d, real=True)
    names = paper.index.get_level_values("figure")
    return paper if case.X.shape[1] == case.setting.d else paper[~names.str.startswith("VarImp")]


def _paper_sd(d: int) -> pd.Series:
    found: dict[Key, float] = {}
    for key, pairs in REAL_TABLES[d].items():
        method, rule = key if isinstance(key, tuple) else (key, "posterior")
        names = POINT_FIGURES if isinstance(key, tuple) else WHOLE_FIGURES
        found |= {(method, rule, name): sd for name, (_, sd) in zip(names.values(), pairs, strict=True)}
    return pd.Series(found)
