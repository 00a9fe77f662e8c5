"""What answers are worth: to the model, to the person who pays, to the data, and to models that change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._problem import Problem
from benchmarks.rivals._question import Codes, Question

__all__ = ["Judge", "Judged"]

NOISE = 0.02  # of each range, either way: how far a change may miss what was advised
N_NOISE = 50
_NEIGHBOURS = 5
_USUAL = 250  # rows that tell what is usual
_TINY = 1e-9  # of a range


@dataclass(frozen=True)
class Judged:
    """One answer, judged.

    Parameters
    ----------
    valid : bool
        Whether the model's own ``predict`` grants the wish.
    l1 : float
        Sum of changes, in ranges of the data; another level is one, of an ordinal as many steps of the way between its
        ends as it takes, as methods are told.
    l2 : float
        Root of the sum of squared changes, in standard deviations; another level that is no ordinal's is one.
    changed : int
        Columns that changed, without those that follow from others.
    broken : int
        Rules that are broken.
    far : float
        Mean distance to the five nearest rows of the data, over what is usual among these: one is as usual.
    bootstrap, seed, deletion, label_noise, other_learners : float
        Share of models of each kind of change that grant the wish too; nan where there are none.
    survival : float
        Mean of these five shares, of those that there are.
    noise : float
        Share of copies that miss the advice a little to which the model still grants the wish.
    """

    valid: bool
    l1: float
    l2: float
    changed: int
    broken: int
    far: float
    bootstrap: float
    seed: float
    deletion: float
    label_noise: float
    other_learners: float
    survival: float
    noise: float


class Judge:
    """Judges answers for one table and model, with models that no method is shown.

    Parameters
    ----------
    problem : Problem
        The table and the model.
    changed : mapping of str to sequence of estimators
        Models that changed, by the kind of change; empty where the model cannot be fitted again.
    """

    def __init__(self, problem: Problem, changed: Mapping[str, Sequence[Any]]) -> None:
        self._problem = problem
        self._changed = {kind: [CountedModel(model) for model in models] for kind, models in changed.items()}
        self._codes = Codes(problem.case.X, problem.case.space)
        self._columns = problem.columns
        space = problem.case.space
        self._ordinals = {one.name: list(one.levels or ()) for one in space.features if one.kind == "ordinal"}
        spread = pd.DataFrame(space.encode(problem.case.X), columns=list(space.names)).std().replace(0.0, 1.0)
        spans = pd.Series({name: max(len(levels) - 1, 1) for name, levels in self._ordinals.items()}, dtype=float)
        ranges = pd.concat([self._columns.ranges.drop(spans.index, errors="ignore"), spans])
        self._steepness = ranges / spread[ranges.index]  # standard deviations in a range
        self._model = CountedModel(problem.case.model)
        known = self._codes.points[self._codes.known]
        usual = _nearest(known[:_USUAL], known, _NEIGHBOURS + 1)[:, 1:]  # not itself
        self._known, self._usual = known, float(np.median(usual.mean(axis=1)))

    def judge(self, answers: Sequence[pd.DataFrame], rows: Sequence[pd.DataFrame], seed: int) -> list[Judged]:
        """Judge answers of one line each to rows of one line each."""
        if not answers:
            return []
        given = [self._as_table(answer) for answer in answers]
        together = pd.concat(given, ignore_index=True)
        wishes = [self._problem.wish(row) for row in rows]
        said = {kind: [model.predict(together) for model in models] for kind, models in self._changed.items()}
        now = self._model.predict(together)
        judged = []
        for i, (answer, row, wish) in enumerate(zip(given, rows, wishes, strict=True)):
            shares = {kind: float(np.mean([wish.reached(one[i : i + 1])[0] for one in many]))
                      for kind, many in said.items() if many}  # fmt: skip
            judged.append(
                Judged(
                    valid=bool(wish.reached(now[i : i + 1])[0]),
                    **self._changes(answer, row),
                    broken=self._problem.broken(answer, row),
                    far=self._far(answer),
                    bootstrap=shares.get("bootstrap", np.nan),
                    seed=shares.get("seed", np.nan),
                    deletion=shares.get("deletion", np.nan),
                    label_noise=shares.get("label noise", np.nan),
                    other_learners=shares.get("other learners", np.nan),
                    survival=float(np.mean(list(shares.values()))) if shares else np.nan,
                    noise=self._noise(answer, row, wish, seed),
                )
            )
        return judged

    def _as_table(self, answer: pd.DataFrame) -> pd.DataFrame:
        """Return an answer in the columns of the data, levels in their own types."""
        X = self._problem.case.X
        return answer[list(X.columns)].reset_index(drop=True).astype({n: X[n].dtype for n in self._columns.levels})

    def _changes(self, answer: pd.DataFrame, row: pd.DataFrame) -> dict[str, Any]:
        followed = {one.name for one in self._problem.case.space.computed}
        sizes = self._columns.sizes(answer.iloc[0], row.iloc[0])
        sizes = {name: self._steps(name, size, answer, row) for name, size in sizes.items() if name not in followed}
        squares = [(size * self._steepness.get(name, 1.0)) ** 2 for name, size in sizes.items()]
        changed = sum(size > 0 for size in sizes.values())
        return {"l1": sum(sizes.values()), "l2": float(np.sqrt(sum(squares))), "changed": changed}

    def _steps(self, name: str, size: float, answer: pd.DataFrame, row: pd.DataFrame) -> float:
        """Return the size of a change, of an ordinal by its levels if it knows both."""
        levels, ends = self._ordinals.get(name, []), [frame[name].iloc[0] for frame in (answer, row)]
        if not all(end in levels for end in ends):
            return size
        return abs(levels.index(ends[0]) - levels.index(ends[1])) / max(len(levels) - 1, 1)

    def _far(self, answer: pd.DataFrame) -> float:
        point = self._point(answer)
        if point is None:
            return float("nan")
        return float(_nearest(point[None, :], self._known, _NEIGHBOURS).mean()) / max(self._usual, _TINY)

    def _noise(self, answer: pd.DataFrame, row: pd.DataFrame, wish: Any, seed: int) -> float:
        question, point = Question(self._model, self._codes, row, wish), self._point(answer)
        if point is None:
            return float("nan")
        plain = question.free & np.isnan(self._codes.level)
        shifts = np.random.default_rng(seed).uniform(-NOISE, NOISE, (N_NOISE, len(point))) * plain
        return float(np.mean(question.granted(point + shifts)))

    def _point(self, answer: pd.DataFrame) -> Any:
        """Return an answer as numbers ``(p,)``, or None where a value is none that its column can hold."""
        try:
            return self._codes.of(self._codes.space.encode(answer))[0]
        except ValueError:
            return None


def _nearest(points: Any, known: Any, n: int) -> Any:
    """Return the distances ``(m, n)`` of points to their nearest neighbours, in ranges."""
    distances = cdist(points, known, "cityblock")
    return np.sort(np.partition(distances, min(n, len(known)) - 1, axis=1)[:, :n], axis=1)
