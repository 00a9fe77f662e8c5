"""Estimators and pipelines asked without frames, where that was seen to give their own answers to the last bit.

A call of a pipeline takes ten milliseconds and more, however few the rows: a frame, its checks, a copy for each block.
What its steps do to a column is worked out once, and the last step is asked in the quickest right way.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.predictors._boosted import asking
from gbce.predictors._columns import column_names
from gbce.predictors._forests import METHODS
from gbce.predictors._prepared import Prepared, probe_rows
from gbce.predictors._short_cores import Way, as_lightgbm_matrix, is_stock, way_of
from gbce.space import Space

__all__ = ["Shortcut"]

_PROBES = (1, 7, 100, 150)  # random rows of batches on which both ways must give the same bits: few and many; by hand
_FIRST_ROWS = 200  # of those that are asked first, mostly the data: the same is required of them; by hand


class Shortcut:
    """How to ask one estimator or pipeline; worked out when it is first asked.

    Parameters
    ----------
    model : estimator
        Fitted.
    space : Space
        How rows look.
    as_input : callable
        Encoded rows ``(n, d)`` to what the model takes.
    """

    def __init__(self, model: Any, space: Space, as_input: Callable[[Array], Any]) -> None:
        self._model, self._space, self._as_input = model, space, as_input
        self._steps, self._core = _taken_apart(model)
        self._list = getattr(model, "steps", None)
        self._known: tuple[Prepared | None] | None = None

    def asking(self, method: str) -> Callable[[Array], Any]:
        """Return ``model.method`` as a function of encoded rows ``(n, d)``: steady, and quick about a few rows."""
        ordinary = asking(self._model, method, self._as_input)
        return ordinary if self._core is None else _Checked(self, method, ordinary)

    def way(self, method: str) -> Way | None:
        """Return the short way for encoded rows ``(n, d)``, which answers None where it is not for them, if any."""
        prepared = self._prepared
        core = None if prepared is None else way_of(self._core, method, prepared, len(self._steps))
        if prepared is None or core is None:
            return None
        ready, ask = prepared, core

        def run(x: Array) -> Any:
            changed = getattr(self._model, "steps", None) is not self._list or method in vars(self._model)
            matrix = None if changed or not len(x) or not ready.fresh else ready.matrix(x)
            return None if matrix is None else ask(matrix)

        return run

    @property
    def probes(self) -> Array:
        """Random rows of the space."""
        return probe_rows(self._space, max(_PROBES))

    @property
    def _prepared(self) -> Prepared | None:
        if self._known is None:
            order = _features_of_columns(self._model, self._space)
            made = None if order is None else Prepared.of(self._steps, self._as_rows(), order, self._space)
            self._known = (made,)
        return self._known[0]

    def _as_rows(self) -> Callable[[Array], Any]:
        if not self._steps:
            if type(self._core).__module__ == "lightgbm.sklearn":
                read = as_lightgbm_matrix(self._core)
                return lambda x: read(self._as_input(x))
            return self._as_input

        def rows(x: Array) -> Any:
            made = self._as_input(x)
            for step in self._steps:
                made = step.transform(made)
            return made

        return rows


class _Checked:
    """A short way beside the ordinary one, which is asked until both were seen to say the same."""

    def __init__(self, shortcut: Shortcut, method: str, ordinary: Callable[[Array], Any]) -> None:
        self._shortcut, self._method, self._ordinary = shortcut, method, ordinary
        self._way: Way | None = None
        self._settled = False

    def __call__(self, x: Array) -> Any:
        if not self._settled:
            said = self._ordinary(x)
            self._settle(x)
            return said
        said = None if self._way is None else self._way(x)
        return self._ordinary(x) if said is None else said

    @property
    def short(self) -> bool:
        """Whether the short way is taken; before the model was asked it is not."""
        return self._way is not None

    def _settle(self, x: Array) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what these rows bring up, the user's own may not
            try:
                way = self._shortcut.way(self._method)
                rows = self._shortcut.probes
                batches = [rows[:n] for n in _PROBES] + [x[:_FIRST_ROWS]]
                said = [] if way is None else [way(batch) for batch in batches]
                taken = [(a, self._ordinary(batch)) for a, batch in zip(said, batches, strict=False) if a is not None]
                self._way = way if taken and all(_agree(short, own) for short, own in taken) else None
            except Exception:  # the model takes no such rows, or has other insides: it is asked itself
                self._way = None
        self._settled = True


def _agree(short: Any, own: Any) -> bool:
    """Whether two answers are the same to the last bit, type and all."""
    a, b = np.asarray(short), np.asarray(own)
    return a.dtype == b.dtype and np.array_equal(a, b)


def _taken_apart(model: Any) -> tuple[list[Any], Any]:
    """Return what comes before the last step, and that step; None for it where the model may do something else."""
    steps: list[Any] = []
    while type(model).__name__ == "Pipeline" and type(model).__module__ == "sklearn.pipeline":
        if any(name in vars(model) for name in METHODS):
            return [], None
        steps += [step for _, step in model.steps[:-1] if step is not None and not isinstance(step, str)]
        model = model.steps[-1][1]
    return steps, model if is_stock(model, "predict") else None


def _features_of_columns(model: Any, space: Space) -> Array | None:
    """Return the feature of each column that the model takes, -1 for one of several columns of a feature."""
    owner = {str(label): j for j, codec in enumerate(space.codecs) for label in codec.labels if len(codec.labels) == 1}
    names = getattr(model, "feature_names_in_", None)
    have = column_names(space)
    wanted = have if names is None or space.columns is None else [str(name) for name in names]
    if space.columns is None and len(space) != space.n_columns:
        return None
    if space.columns is None:
        return np.arange(len(wanted))
    if not set(wanted) <= set(have):
        wanted = have if len(wanted) == len(have) else []  # LightGBM keeps its names without blanks
    return np.array([owner.get(name, -1) for name in wanted]) if wanted else None
