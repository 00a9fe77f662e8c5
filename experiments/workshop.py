"""What the tables and figures share: data, models and runs, each made once and only when asked for."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from experiments import real, simulated
from experiments.automl import automl
from experiments.data import Data
from experiments.data import simulated as simulated_data
from experiments.figures import EtaPath, eta_path
from experiments.models import Leaderboard, fixed
from experiments.numbers import against_the_paper, paper_numbers, seen

__all__ = ["Trends", "Workshop"]


@dataclass(frozen=True, eq=False)
class Trends:
    """Lagged series for the real-data experiment.

    Parameters
    ----------
    X, y : DataFrame, Series
        Features and outcome.
    pair : tuple of two str
        The features of the 2-D analysis.
    label : str
        What tables call the data.
    """

    X: pd.DataFrame
    y: pd.Series
    pair: tuple[str, str]
    label: str

    @property
    def where(self) -> str:
        """What sentences call the data."""
        return "the stand-in" if "stand-in" in self.label else self.label


@dataclass(frozen=True)
class Workshop:
    """One reproduction with its settings.

    Parameters
    ----------
    out : Path
        Where results go.
    fast : bool
        Fixed models instead of AutoML, fewer seeds and base points.
    budget : float
        Seconds of AutoML per estimator, of processor time.
    n_seeds : int
        Runs of each simulated experiment.
    n_refits : int
        How often the simulated data are drawn and their models fitted anew.
    every : int
        Take every n-th base point of the real-data experiment.
    n_jobs : int
        Processes.
    trends : Trends
        The real-data series, or their stand-in.
    """

    out: Path
    fast: bool
    budget: float
    n_seeds: int
    n_refits: int
    every: int
    n_jobs: int
    trends: Trends

    @property
    def n_seeds_of_refits(self) -> int:
        """Runs of each refit: a quarter, at least the two that a spread needs."""
        return max(self.n_seeds // 4, 2)

    def board(self, data: Data) -> Leaderboard:
        """Return fitted models of a data set, the best first."""
        if self.fast:
            return fixed(data.X, data.y)
        return automl(data.X, data.y, budget=self.budget, cache=self.out / "models")

    @cached_property
    def two(self) -> simulated.Case:
        """The two-dimensional simulation."""
        return simulated.case(2, self.board(simulated_data(2)))

    @cached_property
    def ten(self) -> simulated.Case:
        """The ten-dimensional simulation."""
        return simulated.case(10, self.board(simulated_data(10)))

    @cached_property
    def runs_two(self) -> simulated.Runs:
        """Its runs over seeds."""
        return simulated.run(self.two, n_seeds=self.n_seeds, n_jobs=self.n_jobs)

    @cached_property
    def runs_ten(self) -> simulated.Runs:
        """Its runs over seeds."""
        return simulated.run(self.ten, n_seeds=self.n_seeds, n_jobs=self.n_jobs)

    @cached_property
    def refits_two(self) -> list[tuple[simulated.Case, simulated.Runs]]:
        """The two-dimensional simulation with data drawn and models fitted anew."""
        return self._refits(self.two)

    @cached_property
    def refits_ten(self) -> list[tuple[simulated.Case, simulated.Runs]]:
        """The ten-dimensional one."""
        return self._refits(self.ten)

    @cached_property
    def fits(self) -> dict[int, list[pd.DataFrame]]:
        """For 2 and 10 dimensions our numbers run by run: those of the page's models, then of each refit."""
        pairs = {2: (self.runs_two, self.refits_two), 10: (self.runs_ten, self.refits_ten)}
        return {d: [seen(first), *(seen(runs) for _, runs in others)] for d, (first, others) in pairs.items()}

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """Every number of Tables 1 and 2 and Table VarImp against ours."""
        tables = {f"{d}-D": against_the_paper(paper_numbers(d), fits) for d, fits in self.fits.items()}
        return pd.concat(tables, names=["data"])

    @cached_property
    def path(self) -> EtaPath:
        """The two-dimensional posterior along eta."""
        return eta_path(self.two, n_jobs=self.n_jobs)

    @cached_property
    def real_two(self) -> tuple[real.RealCase, simulated.Runs]:
        """The real-data experiment with two features."""
        return self._real(self.trends.X[list(self.trends.pair)])

    @cached_property
    def real_ten(self) -> tuple[real.RealCase, simulated.Runs]:
        """The real-data experiment with all features."""
        return self._real(self.trends.X)

    def _refits(self, case: simulated.Case) -> list[tuple[simulated.Case, simulated.Runs]]:
        again = [simulated.refit(case, k + 1) for k in range(self.n_refits)]
        return [
            (one, simulated.run(one, n_seeds=self.n_seeds_of_refits, n_jobs=self.n_jobs, seed=simulated.SEED + k + 1))
            for k, one in enumerate(again)
        ]

    def _real(self, X: pd.DataFrame) -> tuple[real.RealCase, simulated.Runs]:
        data = Data(f"real-{X.shape[1]}d", X.to_numpy(dtype=float), self.trends.y.to_numpy(dtype=float))
        case = real.real_case(X, self.trends.y, self.board(data), label=self.trends.label)
        return case, real.run(case, every=self.every, n_jobs=self.n_jobs)
