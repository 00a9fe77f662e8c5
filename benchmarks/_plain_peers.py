"""Other libraries on tables of real numbers, called as their own examples call them."""

import contextlib
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._peers import CannotRunError, require

__all__ = ["PLAIN_PEERS", "Answers"]

Answers = Callable[[pd.DataFrame], np.ndarray]
_MARGIN = 1e-6  # of a probability, for a peer that aims at the edge
_PER_ROW = 5  # answers that DiCE gives, as its examples ask for


def dice(model: Any, X: pd.DataFrame, y: pd.Series, wish: Any, method: str) -> Answers:
    """Ask DiCE for five answers; all count."""
    require("dice_ml", "dice-ml")
    import dice_ml

    classes = hasattr(model, "classes_")
    data = dice_ml.Data(dataframe=X.assign(outcome=y), continuous_features=list(X.columns), outcome_name="outcome")
    wrapped = dice_ml.Model(model=model, backend="sklearn", model_type="classifier" if classes else "regressor")
    with contextlib.redirect_stdout(io.StringIO()):
        explainer = dice_ml.Dice(data, wrapped, method=method)
    wanted: dict[str, Any] = {"desired_class": wish} if classes else {"desired_range": list(wish)}
    if method == "random":
        wanted["random_seed"] = 0

    def answer(row: pd.DataFrame) -> np.ndarray:
        silent = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            warnings.simplefilter("ignore")
            try:
                found = explainer.generate_counterfactuals(row, total_CFs=_PER_ROW, **wanted)
            except Exception as error:  # it raises where it finds nothing
                if "No counterfactuals found" in str(error):
                    return np.zeros((0, X.shape[1]))
                raise
        table = found.cf_examples_list[0].final_cfs_df
        return np.zeros((0, X.shape[1])) if table is None else table[list(X.columns)].to_numpy(float)

    return answer


def nice(model: Any, X: pd.DataFrame, y: pd.Series, wish: Any) -> Answers:
    """Ask NICE for its answer of least change; it takes classifiers only."""
    require("nice", "--no-deps NICEx")
    if not hasattr(model, "classes_"):
        raise CannotRunError("takes classifiers only")
    from nice import NICE

    def probabilities(x: Any) -> Any:
        return model.predict_proba(pd.DataFrame(x, columns=X.columns))

    explainer = NICE(
        X_train=X.to_numpy(copy=True), predict_fn=probabilities, y_train=y.to_numpy(copy=True), cat_feat=[],
        num_feat=list(range(X.shape[1])), distance_metric="HEOM", num_normalization="minmax",
        optimization="proximity", justified_cf=True,
    )  # fmt: skip
    return lambda row: np.asarray(explainer.explain(row.to_numpy(copy=True)), dtype=float).reshape(-1, X.shape[1])


def treecf(model: Any, X: pd.DataFrame, y: pd.Series, wish: Any) -> Answers:
    """Ask treecf for its answer."""
    require("treecf", "treecf")
    from treecf import Counterfactual, Explainer, Target

    explainer = Explainer(model, background=X.to_numpy())
    # the raw output of a forest of classifiers is the probability of class 1
    target = Target.raw(range=(0.5 + _MARGIN, 1.0) if hasattr(model, "classes_") else tuple(wish))

    def answer(row: pd.DataFrame) -> np.ndarray:
        found = explainer.explain(row.to_numpy()[0], target=target, seed=0)
        if not isinstance(found, Counterfactual):
            return np.zeros((0, X.shape[1]))
        return np.asarray(found.x_cf, dtype=float)[None, :]

    return answer


PLAIN_PEERS: dict[str, Callable[[Any, pd.DataFrame, pd.Series, Any], Answers]] = {
    "DiCE random": partial(dice, method="random"),
    "DiCE genetic": partial(dice, method="genetic"),
    "NICE": nice,
    "treecf": treecf,
}
