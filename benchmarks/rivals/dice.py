"""DiCE by its own package, told ranges, directions and what may vary.

R. K. Mothilal, A. Sharma and C. Tan, "Explaining Machine Learning Classifiers through Diverse Counterfactual
Explanations", FAT* 2020; package ``dice-ml``. Its two ways that ask nothing but predictions run here: random search,
and the genetic one. It is asked for one answer. It knows no missing cells and no conditions between columns; columns
that follow from others are computed for it. Its draws come from the two global generators, which are seeded for each
row and put back. Random draws of the genetic one go on until they find a valid point, one row at a time, so it is
stopped after a number of calls, which the package does not do.
"""

import contextlib
import io
import random
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._installed import require
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._rows import kept
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "Dice"]

_MOST_CALLS = 2_000  # for one row; the genetic search itself makes some hundred
_WAYS = ("random", "genetic")


class _TooManyCallsError(RuntimeError):
    """The package asks on and on."""


class _Restored:
    """A model that gets its columns in their own dtypes, and computed ones computed, whatever DiCE made of them."""

    def __init__(self, model: CountedModel, X: pd.DataFrame, space: gbce.Space) -> None:
        self._model, self._dtypes, self._space = model, X.dtypes, space
        self.left: float = np.inf

    def predict(self, frame: pd.DataFrame) -> Any:
        said = self._model.predict(self.own(frame))
        return np.searchsorted(self._model.classes_, said) if self._model.classifies else said

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        return self._model.predict_proba(self.own(frame))

    def own(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows as the table has them."""
        self.left -= 1
        if self.left < 0:
            raise _TooManyCallsError
        frame = frame[list(self._dtypes.index)].astype(self._dtypes.to_dict())
        if not self._space.computed:
            return frame
        x = self._space.encode(frame)
        for one in self._space.computed:
            x[:, self._space.position[one.name]] = one.values(self._space, x)
        return self._space.frame(x)


@dataclass
class Dice:
    """One answer of DiCE.

    Parameters
    ----------
    way : {"random", "genetic"}
        How it searches.
    ranges : mapping
        Of columns, as told to it; by default the range of the data, where the space allows it.
    most_calls : int
        Of the model for one row, before it is stopped.
    """

    way: str = "random"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    most_calls: int = _MOST_CALLS

    def __post_init__(self) -> None:
        """Refuse what is not wired up here."""
        if self.way not in _WAYS:
            raise ValueError(f"way is one of {', '.join(_WAYS)}, not {self.way!r}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Show it the rows without missing cells."""
        require("dice_ml", "dice-ml")
        import dice_ml

        if any(feature.kind == "datetime" for feature in space.features):
            raise CannotRunError("takes no columns of dates here")
        known = data.X.dropna()
        if known.empty:
            raise CannotRunError("takes no missing cells, and every row has one")
        y = data.y.loc[known.index]
        outcome = pd.Series(np.searchsorted(model.classes_, y), y.index) if model.classifies else y
        self._model, self._X, self._space, self._y = model, data.X, space, data.y
        self._text = [feature.name for feature in space.features if feature.leveled]
        numbers = [name for name in known.columns if name not in self._text]
        frame = known.astype(dict.fromkeys(self._text, object)).assign(outcome=outcome)
        self._wrapped = _Restored(model, data.X, space)
        wrapped = dice_ml.Model(
            model=self._wrapped, backend="sklearn", model_type="classifier" if model.classifies else "regressor"
        )
        told = dice_ml.Data(dataframe=frame, continuous_features=numbers, outcome_name="outcome")
        with contextlib.redirect_stdout(io.StringIO()):
            self._explainer = dice_ml.Dice(told, wrapped, method=self.way)
        self._codes = Codes(data.X, space)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Return its answer."""
        if row.isna().any(axis=None):
            return Found(note="takes no missing cells")
        try:
            answer = self.raw(row, target, seed)
        except _TooManyCallsError:
            return Found(note=f"stopped after {self.most_calls:,} calls of the model")
        if answer is None:
            return Found(note="found nothing")
        return Found.one(kept(Question(self._model, self._codes, row, target), answer))

    def raw(self, row: pd.DataFrame, target: Wish, seed: int) -> pd.DataFrame | None:
        """Return its answer as it stands, with what follows from other columns; None where it finds nothing."""
        x0 = self._space.encode(row)[0]
        low, high = self._space.limits(x0)
        free = [feature.mutable for feature in self._space.features] & ~self._space.is_computed
        vary = [name for name, moves in zip(self._space.names, free, strict=True) if moves]
        if not (high > low).any():
            return None
        wanted: dict[str, Any] = (
            {"desired_class": int(np.searchsorted(self._model.classes_, target.label))}
            if target.classifies
            else {"desired_range": self._beyond(target)}
        )
        if self.way == "random":
            wanted["random_seed"] = seed
        self._wrapped.left = self.most_calls
        with _quietly(), _seeded(seed):
            try:
                found = self._explainer.generate_counterfactuals(
                    row.astype(dict.fromkeys(self._text, object)),
                    total_CFs=1,
                    features_to_vary=vary,
                    permitted_range=self._permitted(vary, low, high),
                    **wanted,
                )
            except Exception as error:  # it raises where it finds nothing
                if "No counterfactuals found" in str(error):
                    return None
                raise
            finally:
                self._wrapped.left = np.inf
        table = found.cf_examples_list[0].final_cfs_df
        if table is None or len(table) == 0:
            return None
        answer = table[list(self._X.columns)].iloc[:1]
        # text went in as objects, so it does not count as changed when it comes out like that
        answer = answer.astype({name: self._X[name].dtype for name in self._text})
        if not self._space.computed:
            return answer
        follows = self._wrapped.own(answer)
        return answer.assign(**{one.name: follows[one.name].to_numpy() for one in self._space.computed})

    def _permitted(self, vary: list[str], low: Any, high: Any) -> dict[str, list[Any]]:
        """Ranges and directions from this row on, for numbers and for ordinals."""
        permitted: dict[str, list[Any]] = {}
        for feature, least, most in zip(self._space.features, low, high, strict=True):
            name = feature.name
            if name not in vary:
                continue
            if feature.kind == "ordinal":
                permitted[name] = list(feature.levels or ())[int(least) : int(most) + 1]
            elif not feature.leveled:
                a, b = self.ranges.get(name, (float(self._X[name].min()), float(self._X[name].max())))
                permitted[name] = [max(a, least), min(b, most)]
        return permitted

    def _beyond(self, target: Wish) -> list[float]:
        """Return the outputs that grant the wish, up to what the data hold where it is open."""
        least, most = float(self._y.min()), float(self._y.max())
        low = target.low if np.isfinite(target.low) else min(0.0, least, target.high - abs(target.high))
        high = target.high if np.isfinite(target.high) else max(most, 2 * target.low, target.low + (most - least))
        return [low, high]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep progress bars and warnings of the package to itself."""
    silent = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators, and put them back."""
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002


METHODS = (
    Method("DiCE random", "Mothilal et al. 2020 (dice-ml)", lambda: Dice("random"), "package"),
    Method("DiCE genetic", "Mothilal et al. 2020 (dice-ml)", lambda: Dice("genetic"), "package"),
)
