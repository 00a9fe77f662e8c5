"""Other libraries on the same rows, told as much of the rules as they take."""

import contextlib
import io
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._real_tables import Case

__all__ = ["PEERS", "CannotRunError", "require"]

Answer = Callable[[pd.DataFrame], pd.DataFrame | None]
_MARGIN = 1e-6  # of a probability, for a peer that aims at the edge


class CannotRunError(RuntimeError):
    """A peer does not take this table, or is not installed; the message says which."""


class _Restored:
    """A model that gets its columns in their own dtypes, and computed ones computed, whatever a peer made of them."""

    def __init__(self, case: Case, *, codes: bool = False) -> None:
        self._model, self._dtypes = case.model, case.X.dtypes
        self._codes, self._derived = codes, case.derived

    def predict(self, frame: pd.DataFrame) -> Any:
        said = self._model.predict(self._own(frame))
        return np.searchsorted(self._model.classes_, said) if self._codes else said

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        return self._model.predict_proba(self._own(frame))

    def _own(self, frame: pd.DataFrame) -> pd.DataFrame:
        return self._derived(frame[list(self._dtypes.index)].astype(self._dtypes.to_dict()))


def dice(case: Case, method: str) -> Answer:
    """Give DiCE the columns that vary, ranges, and directions as ranges of each row; it takes no other conditions."""
    require("dice_ml", "dice-ml")
    import dice_ml

    known = case.X.dropna()
    y = case.y.loc[known.index]
    outcome = pd.Series(np.searchsorted(case.model.classes_, y), y.index) if case.classification else y
    text = [name for name in known.columns if not pd.api.types.is_numeric_dtype(known[name])]
    frame = known.astype(dict.fromkeys(text, object)).assign(outcome=outcome)
    numbers = [name for name in known.columns if name not in text]
    data = dice_ml.Data(dataframe=frame, continuous_features=numbers, outcome_name="outcome")
    kind = "classifier" if case.classification else "regressor"
    model = dice_ml.Model(model=_Restored(case, codes=case.classification), backend="sklearn", model_type=kind)
    with contextlib.redirect_stdout(io.StringIO()):
        explainer = dice_ml.Dice(data, model, method=method)
    fixed = {*case.immutable, *(one.name for one in case.space.computed)}
    vary = [name for name in case.X.columns if name not in fixed]

    def answer(row: pd.DataFrame) -> pd.DataFrame | None:
        if row.isna().any(axis=None):
            return None
        wanted: dict[str, Any] = (
            {"desired_class": int(np.searchsorted(case.model.classes_, case.wish))}
            if case.classification
            else {"desired_range": _beyond(case, row)}
        )
        if method == "random":
            wanted["random_seed"] = 0
        silent = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            warnings.simplefilter("ignore")
            try:
                found = explainer.generate_counterfactuals(
                    row.astype(dict.fromkeys(text, object)),
                    total_CFs=1,
                    features_to_vary=vary,
                    permitted_range=_permitted(case, row, vary),
                    **wanted,
                )
            except Exception as error:  # it raises where it finds nothing
                if "No counterfactuals found" in str(error):
                    return None
                raise
        table = found.cf_examples_list[0].final_cfs_df
        if table is None or len(table) == 0:
            return None
        # text went in as objects, so it does not count as changed when it comes out like that
        return case.derived(table[list(case.X.columns)].iloc[:1].astype({name: case.X[name].dtype for name in text}))

    return answer


def _permitted(case: Case, row: pd.DataFrame, vary: list[str]) -> dict[str, list[Any]]:
    """Ranges and directions from this row on, for numbers and for ordinals."""
    permitted: dict[str, list[Any]] = {}
    for feature in case.space.features:
        name, now = feature.name, row.iloc[0][feature.name]
        if name not in vary:
            continue
        if feature.kind == "ordinal" and feature.direction == "increase":
            levels = list(feature.levels or ())
            permitted[name] = levels[levels.index(now) :]
        elif not feature.leveled:
            low, high = case.ranges.get(name, (float(case.X[name].min()), float(case.X[name].max())))
            low = now if feature.direction == "increase" else low
            high = now if feature.direction == "decrease" else high
            permitted[name] = [low, high]
    return permitted


def treecf(case: Case) -> Answer:
    """Give treecf columns that stay, ranges, directions and linear conditions; it takes trees on numbers only."""
    require("treecf", "treecf")
    if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in case.X.dtypes):
        raise CannotRunError("takes no text columns and no pipeline")
    from treecf import Counterfactual, Explainer, Freeze, Linear, Monotone, Range, Target

    rules: list[Any] = [Freeze(name) for name in case.immutable]
    rules += [Range(name, low, high) for name, (low, high) in case.ranges.items()]
    rules += [Monotone(f.name, f.direction) for f in case.space.features if f.direction != "any"]
    for constraint in case.space.constraints:
        rules += [Linear(weights, "<=", bound) for weights, bound in constraint.halfspaces()]
    explainer = Explainer(case.model, background=case.X.to_numpy(float), constraints=rules)

    def answer(row: pd.DataFrame) -> pd.DataFrame | None:
        if case.classification:
            first = case.model.classes_[1] == case.wish
            target = Target.raw(range=(0.5 + _MARGIN, 1.0) if first else (0.0, 0.5 - _MARGIN))
        else:
            low, high = _beyond(case, row)
            target = Target.raw(range=(low, high))
        found = explainer.explain(row.to_numpy(float)[0], target=target, seed=0)
        if not isinstance(found, Counterfactual):
            return None
        return pd.DataFrame(np.asarray(found.x_cf, float)[None, :], columns=case.X.columns)

    return answer


def _beyond(case: Case, row: pd.DataFrame) -> list[float]:
    """Return the outputs that grant the wish: from the threshold to what the data hold."""
    edge = case.threshold(row)
    return [edge, max(float(case.y.max()), 2 * edge)] if case.wish > 0 else [min(0.0, float(case.y.min())), edge]


def require(module: str, package: str) -> None:
    """Say how to install what is missing."""
    if find_spec(module) is None:
        raise CannotRunError(f"is not installed: pip install {package}")


PEERS: dict[str, Callable[[Case], Answer]] = {
    "DiCE random": lambda case: dice(case, "random"),
    "DiCE genetic": lambda case: dice(case, "genetic"),
    "treecf": treecf,
}
