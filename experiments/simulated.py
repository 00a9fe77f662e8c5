"""Gibbs and ModelUnc on simulated data: the runs behind Tables 1 and 2 and Table VarImp."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import gbce
from experiments.base_points import BASE_POINTS
from experiments.data import Data, simulated
from experiments.models import Leaderboard, refitted
from experiments.settings import SIMULATED_2D, SIMULATED_10D, Setting
from experiments.tables_of_the_paper import DISTRIBUTION
from gbce._numerics import weighted_quantile
from gbce.base import Array

__all__ = ["Case", "Runs", "case", "readings", "refit", "run"]

POINT_FIGURES = {"loss": "L_pt", "distance": "D_pt", "robustness": "Rb", "plausibility": "Plu"}
WHOLE_FIGURES = {"success_probability": "SP", "tail": "Tail", "stability": "Stability"}
SEED = 42
_SETTINGS = {2: SIMULATED_2D, 10: SIMULATED_10D}


@dataclass(frozen=True, eq=False)
class Case:
    """One simulated data set with its models and its base point."""

    data: Data
    setting: Setting
    board: Leaderboard
    x0: Array

    def explainer(self, n_models: int, *, eta: float = 1.0) -> gbce.Explainer:
        """Return the explainer of the best model (Gibbs) or of the best few (ModelUnc, equal weights)."""
        return gbce.Explainer(
            [entry.model for entry in self.board.top(n_models)],
            self.data.X,
            space=gbce.Space.real(self.setting.d),
            prior=gbce.Gaussian(self.setting.sigma),
            eta=eta,
            sampler=self.setting.sampler,
            evaluation=self.setting.evaluation,
            policy=None,  # the paper has no such answer
        )

    @property
    def target(self) -> gbce.Value:
        """Squared error to y*."""
        return self.setting.target(self.data.y_star)


@dataclass(frozen=True, eq=False)
class Runs:
    """Both methods' tables: one base point under many seeds (a paper prints the first run), or many base points."""

    gibbs: gbce.ExplanationTable
    modelunc: gbce.ExplanationTable

    def items(self) -> list[tuple[str, gbce.ExplanationTable]]:
        """Both methods, with their names."""
        return [("Gibbs", self.gibbs), ("ModelUnc", self.modelunc)]


def case(d: int, board: Leaderboard) -> Case:
    """Put together one simulated data set."""
    return Case(_data(d, SEED), _SETTINGS[d], board, np.array(BASE_POINTS[d]))


def refit(case: Case, k: int) -> Case:
    """Draw data of the same law anew and fit the same kinds of models to them; the base point stays."""
    data = _data(case.setting.d, SEED + k)
    return replace(case, data=data, board=refitted(case.board, data.X, data.y, SEED + k))


def run(case: Case, *, n_seeds: int, n_jobs: int, seed: int = SEED, progress: bool = False) -> Runs:
    """Explain the base point ``n_seeds`` times by each method."""
    rows = np.tile(case.x0, (n_seeds, 1))
    seeds = np.random.SeedSequence(seed).spawn(n_seeds)
    options: dict[str, Any] = {"seed": seeds, "n_jobs": n_jobs, "progress": progress}
    rules = case.setting.rules
    return Runs(
        gibbs=case.explainer(1).explain_many(rows, case.target, rules=[*rules, gbce.DirectOpt()], **options),
        modelunc=case.explainer(3).explain_many(rows, case.target, rules=rules, **options),
    )


def _data(d: int, seed: int) -> Data:
    return simulated(2, seed) if d == 2 else simulated(10, seed)


def short(label: str) -> str:
    """Name of a rule as the paper has it, without its options."""
    return label.split("(")[0]


def readings(case: Case, *, n_seeds: int) -> pd.DataFrame:
    """SP and Tail of ModelUnc under four readings of "the loss" of several models, as mean and SD over seeds.

    The paper does not say which: the best model's loss, the mean loss, the loss of the mean prediction, or the loss the
    mixture stands for. The ratio to the Gibbs posterior's own figure is what its tables can be compared with.
    """
    alone = case.explainer(1)
    together = case.explainer(3)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*_READINGS, "Gibbs")}
    for seed in range(n_seeds):
        mixed = together.explain(case.x0, case.target, rules=[], seed=seed)
        for name, reading in _READINGS.items():
            found[name].append(_sp_and_tail(reading(mixed, case.data.y_star), case.setting))
        single = alone.explain(case.x0, case.target, rules=[], seed=seed)
        found["Gibbs"].append(_sp_and_tail(single.draws.loss[:, 0], case.setting))
    gibbs = np.mean(found.pop("Gibbs"), axis=0)
    paper = np.array(DISTRIBUTION[case.setting.d]["ModelUnc"][:2]) / DISTRIBUTION[case.setting.d]["Gibbs"][:2]
    lines = {"the paper": (*DISTRIBUTION[case.setting.d]["ModelUnc"][:2], np.nan, np.nan, *paper, 0.0)}
    for name, values in found.items():
        mean, sd = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
        lines[name] = (*mean, *sd, *(mean / gibbs), np.linalg.norm(np.log(mean / gibbs / paper)))
    columns = ["SP", "Tail", "SD of SP", "SD of Tail", "SP / Gibbs", "Tail / Gibbs", "gap"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("reading")


_READINGS = {
    "best model's loss": lambda e, y: e.draws.loss[:, 0],
    "mean loss": lambda e, y: e.draws.loss.mean(axis=1),
    "loss of the mean prediction": lambda e, y: np.square(e.draws.outputs.mean(axis=1) - y),
    "effective loss": lambda e, y: e.mixture.effective_loss(e.draws.loss),
}


def _sp_and_tail(loss: Array, setting: Setting) -> tuple[float, float]:
    equal = np.full(len(loss), 1.0 / len(loss))
    return float(np.mean(loss <= setting.epsilon)), weighted_quantile(loss, equal, 1 - setting.alpha)
