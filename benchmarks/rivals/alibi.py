"""alibi's counterfactuals guided by prototypes, in an environment of its own.

A. Van Looveren and J. Klaise, "Interpretable Counterfactual Explanations Guided by Prototypes", 2021; package
``alibi`` 0.9.6 (Business Source License 1.1) with TensorFlow below 2.15, which needs NumPy below 2 and so cannot share
an environment with gbce: ``python -m benchmarks.rivals.alibi`` makes one of its own, of about two gigabytes.

It takes classifiers. It is run as its documentation has it for models that only predict: without the loss of the
prediction, whose gradient costs four more calls a step, and drawn to the nearest training row of the wanted class by
k-d trees; it gives the nearest point of its path that reaches the class. Numbers go in as [-1, 1], categories as
indicators, and at most some 2,000 training rows are shown. It knows no columns that may not change: the model is shown
rows in which these are put back, and bounds kept, and so is the answer. A row without a level cannot be told to it; a
missing number is the middle of its column. Its seconds are those of this process and its own. alibi's other methods are
left out: ``Counterfactual`` takes no categories and needs a gradient at every step, ``CounterfactualRL`` trains a
network for each table and model.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._environment import Environment, Process
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["ENVIRONMENT", "METHODS", "Alibi"]

# spacy, which alibi imports, needs click and does not say so
ENVIRONMENT = Environment("alibi", ("alibi==0.9.6", "tensorflow-cpu==2.14.1", "click"))
_SCRIPT = Path(__file__).with_name("_alibi_script.py")
_MOST_ROWS = 2_000  # that the process is shown


@dataclass
class Alibi:
    """Counterfactuals guided by prototypes.

    Parameters
    ----------
    theta : float
        Weight of the prototype: the value that its documentation says worked well; it also has ten, for k-d trees.
    beta : float
        Weight of the l1 distance, by which every step is cut too; a hundredth in the example with categories.
    iterations : int
        Steps, one call of the model each; 500 in the documentation.
    environment : Environment
        Where the package is.
    """

    theta: float = 100.0
    beta: float = 0.01
    iterations: int = 500
    environment: Environment = ENVIRONMENT

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Start the process, and show it training rows."""
        if not model.classifies:
            raise CannotRunError("takes classifiers only")
        if any(feature.kind == "datetime" for feature in space.features):
            raise CannotRunError("takes no columns of dates here")
        if not self.environment.ready:
            raise CannotRunError("has no environment of its own yet: python -m benchmarks.rivals.alibi")
        self._model, self._codes = model, Codes(data.X, space)
        levels = ~np.isnan(self._codes.level)
        self._scale, self._shift = 2.0, np.where(levels, 0.0, -1.0)  # numbers to [-1, 1], indicators to 0 and 1
        first, n = np.unique(self._codes.column[levels], return_index=True, return_counts=True)[1:]
        picked = self._picked()
        options = {"theta": self.theta, "beta": self.beta, "max_iterations": self.iterations}
        self._process = Process(self.environment.python, _SCRIPT)
        self._process.tell(
            {
                "rows": self._told(self._codes.points[picked]).tolist(),
                "categories": dict(zip(np.flatnonzero(levels)[first].tolist(), n.tolist(), strict=True)),
                "options": {**options, "c_init": 0.0, "c_steps": 1},
            },
            lambda x: self._said(self._shown(data.X, picked, x)),
        )

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Return its answer."""
        question = Question(self._model, self._codes, row, target)
        unordered = np.array([feature.unordered for feature in self._codes.space.features])
        if np.isnan(question.x0[unordered]).any():
            return Found(note="takes no missing levels")
        wanted = int(np.searchsorted(self._model.classes_, target.label))
        before = self._process.seconds
        found = self._process.tell(
            {"row": self._told(question.start).tolist(), "wanted": wanted},
            lambda x: self._said(question.frame(self._heard(x))),
        )
        seconds = self._process.seconds - before
        if found is None:
            return Found(note="no point of its path reached the class", elsewhere=seconds)
        return Found.one(question.frame(self._heard([found])), elsewhere=seconds)

    def _picked(self) -> Any:
        """Return training rows without missing cells: some at random, and one for each level."""
        codes = self._codes
        known = np.flatnonzero(codes.known)
        levels = np.flatnonzero(~np.isnan(codes.level))
        shown = [known[codes.points[known, k] > 0][:1] for k in levels]
        drawn = np.random.default_rng(0).permutation(known)[:_MOST_ROWS]
        return np.unique(np.concatenate([drawn, *shown]))

    def _shown(self, X: pd.DataFrame, picked: Any, x: Any) -> pd.DataFrame:
        """Return the rows it was shown, or else what one row and changes of it come to."""
        if len(x) == len(picked) and len(x) > 1:
            return X.iloc[picked]
        return Question(self._model, self._codes, X.iloc[picked[:1]], Wish(self._model.classes_[0])).frame(
            self._heard(x)
        )

    def _told(self, z: Any) -> Any:
        return self._scale * z + self._shift

    def _heard(self, x: Any) -> Any:
        return (np.asarray(x, dtype=float) - self._shift) / self._scale

    def _said(self, frame: pd.DataFrame) -> Any:
        return self._model.predict_proba(frame).tolist()


METHODS = (
    # a fifth of the steps, since each asks the model about a single row
    Method("alibi prototypes", "Van Looveren and Klaise 2021 (alibi)", lambda: Alibi(iterations=100), "package"),
)

if __name__ == "__main__":
    ENVIRONMENT.make()
    print(f"alibi is ready: {ENVIRONMENT.python}")
