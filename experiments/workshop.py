"""What the tables and figures share: data, models and runs, each made once and only when asked for."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from experiments import real, simulated
from experiments.data import Data
from experiments.data import simulated as simulated_data
from experiments.figures import EtaPath, eta_path
from experiments.models import Leaderboard, automl, fixed

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
        Seconds of AutoML per estimator.
    n_seeds : int
        Runs of each simulated experiment.
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
    every: int
    n_jobs: int
    trends: Trends

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

    def _real(self, X: pd.DataFrame) -> tuple[real.RealCase, simulated.Runs]:
        data = Data(f"real-{X.shape[1]}d", X.to_numpy(dtype=float), self.trends.y.to_numpy(dtype=float))
        case = real.real_case(X, self.trends.y, self.board(data), label=self.trends.label)
        return case, real.run(case, every=self.every, n_jobs=self.n_jobs)
