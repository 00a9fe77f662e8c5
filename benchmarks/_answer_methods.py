"""Methods that answer a row of a table with one point, and count the rows that they show to the model."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks._answer_judge import WIDENED, Columns
from benchmarks._peers import CannotRunError, dice, require
from benchmarks._real_tables import Case
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.nice import Nice

__all__ = ["METHODS", "PEERS", "Answers", "Given"]

SIGMA = 0.25  # the prior's, in ranges: about the standard deviation of a column that fills its range evenly
_MARGIN = 1e-6  # of a probability, for a peer that aims at the edge


@dataclass(frozen=True)
class Given:
    """One answer.

    Parameters
    ----------
    answer : DataFrame or None
        One line in the columns of the table; None where nothing was found.
    model_rows : int
        Rows shown to the model; zero for a method that reads the model instead.
    note : str
        What there is to say.
    """

    answer: pd.DataFrame | None
    model_rows: int
    note: str = ""


Answers = Callable[[pd.DataFrame, int], dict[str, Given]]


# --- gbce -------------------------------------------------------------------------------------------------------


def by_default(case: Case) -> Answers:
    """Ask gbce with nothing but the model and the frame: its answer, and the nearest point of the same explanation."""
    explainer = gbce.Explainer(case.model, case.X)

    def answers(row: pd.DataFrame, seed: int) -> dict[str, Given]:
        explanation = explainer.explain(row, case.target, seed=seed)
        rows = int(explanation.diagnostics["n_model_rows"])
        found = explanation.answer
        assert found is not None  # there is a policy
        return {
            "gbce answer": Given(found.row, rows, found.kind),
            "gbce Nearest": Given(nearest_of(explanation), rows),
        }

    return answers


def without_posterior(case: Case) -> Answers:
    """Ask gbce with nothing but the model and the frame for an answer, and for no posterior."""
    explainer = gbce.Explainer(case.model, case.X)

    def answers(row: pd.DataFrame, seed: int) -> dict[str, Given]:
        explanation = explainer.explain(row, case.target, seed=seed, posterior=False)
        found = explanation.answer
        assert found is not None  # there is a policy
        return {"gbce answer alone": Given(found.row, int(explanation.diagnostics["n_model_rows"]), found.kind)}

    return answers


def by_ranges(case: Case) -> Answers:
    """Ask gbce for the nearest point alone, with the ranges of the data as units: the price that is measured here."""
    ranges = Columns.of(case.X).ranges
    space = gbce.Space.infer(case.X, scale={name: float(size) for name, size in ranges.items()})
    prior = gbce.Sparse(gbce.Gaussian(SIGMA))
    explainer = gbce.Explainer(case.model, case.X, space=space, prior=prior, policy=None)

    def answers(row: pd.DataFrame, seed: int) -> dict[str, Given]:
        explanation = explainer.explain(row, case.target, rules=[gbce.Nearest()], seed=seed, posterior=False)
        rows = int(explanation.diagnostics["n_model_rows"])
        return {"gbce Nearest, ranges": Given(nearest_of(explanation), rows)}

    return answers


def nearest_of(explanation: gbce.Explanation) -> pd.DataFrame:
    """Return the line of the rule."""
    return explanation.counterfactuals.loc[[gbce.Nearest().label]]


# --- peers ------------------------------------------------------------------------------------------------------


def _one(name: str, model: Any, answer: Callable[[pd.DataFrame], pd.DataFrame | None]) -> Answers:
    """Count the rows of a method that gives one answer."""

    def answers(row: pd.DataFrame, seed: int) -> dict[str, Given]:
        before = getattr(model, "rows", 0)
        found = answer(row)
        return {name: Given(found, getattr(model, "rows", 0) - before)}

    return answers


def dice_on(case: Case, method: str) -> Answers:
    """Ask DiCE for one answer within the ranges of the data."""
    model = CountedModel(case.model)
    return _one(f"DiCE {method}", model, dice(replace(case, model=model), method))


def nice_on(case: Case) -> Answers:
    """Ask NICE for its answer of least change, which it prices by ranges."""
    model = CountedModel(case.model)
    peer = Nice("proximity")
    peer.fit(model, Data(case.X, case.y), case.space)

    def answer(row: pd.DataFrame) -> pd.DataFrame | None:
        return None if row.isna().any(axis=None) else peer.counterfactual(row, Wish(case.wish), seed=0).answers.get("")

    return _one("NICE", model, answer)


def treecf_on(case: Case, backend: str) -> Answers:
    """Ask treecf, priced by ranges, within the data's range widened; it reads trees on numbers only."""
    require("treecf", "treecf")
    if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in case.X.dtypes):
        raise CannotRunError("takes no text columns and no pipeline")
    if type(case.model).__name__ == "Pipeline":
        raise CannotRunError("takes trees only")
    from treecf import Counterfactual, Explainer, Range, Target

    columns = Columns.of(case.X)
    # LightGBM has names of its own for columns with blanks
    booster = getattr(case.model, "booster_", None)
    names = dict(zip(case.X.columns, case.X.columns if booster is None else booster.feature_name(), strict=True))
    explainer = Explainer(
        case.model,
        background=case.X.to_numpy(float),
        normalizers=columns.ranges.to_numpy(float),
        constraints=[Range(names[name], *columns.edges(name)) for name in case.X.columns],
        value_policy={names[name]: "integer" for name in columns.whole},
    )
    spread = WIDENED * float(case.y.max() - case.y.min()) if not case.classification else 0.0

    def target(row: pd.DataFrame) -> Any:
        if case.classification:
            second = case.model.classes_[1] == case.wish
            interval = (0.5 + _MARGIN, 1.0) if second else (0.0, 0.5 - _MARGIN)
            forest = type(case.model).__name__.startswith("RandomForest")  # the raw score of a forest is a probability
            return Target.raw(range=interval) if forest else Target.probability(range=interval)
        edge = case.threshold(row)
        return Target.raw(op=">=" if case.wish > 0 else "<=", value=edge + np.sign(case.wish) * _MARGIN * spread)

    def answer(row: pd.DataFrame) -> pd.DataFrame | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = explainer.explain(row.to_numpy(float)[0], target=target(row), seed=0, backend=backend)
        if not isinstance(found, Counterfactual):
            return None
        return pd.DataFrame(np.asarray(found.x_cf, float)[None, :], columns=case.X.columns)

    return _one("treecf" if backend == "genetic" else f"treecf {backend}", None, answer)


METHODS: dict[str, Callable[[Case], Answers]] = {
    "gbce": by_default,
    "gbce without posterior": without_posterior,
    "gbce by ranges": by_ranges,
    "DiCE random": partial(dice_on, method="random"),
    "DiCE genetic": partial(dice_on, method="genetic"),
    "NICE": nice_on,
    "treecf": partial(treecf_on, backend="genetic"),
    "treecf exact": partial(treecf_on, backend="exact"),
}
PEERS = ("DiCE random", "DiCE genetic", "NICE", "treecf", "treecf exact")
