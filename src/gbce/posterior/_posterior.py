"""The Gibbs posterior of one row: prior, models, target and temperature, and evaluation by the models."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from gbce.base import Array, Outputs, Reading, Target
from gbce.budget import Budget
from gbce.posterior._mixture import Mixture
from gbce.predictors import Lockstep, Panel, Predictor
from gbce.priors import LocatedPrior

if TYPE_CHECKING:
    from gbce.trees import CellReader, CellTrees

__all__ = ["EtaGoal", "Evaluated", "GibbsPosterior", "run_together"]

T = TypeVar("T")

# --- posterior of one row --------------------------------------------------------------------------------------------


class Evaluated(NamedTuple):
    """Outputs, losses and verdicts of the models on ``n`` rows, each array ``(n, K)``."""

    outputs: Array
    loss: Array
    reached: Array


class EtaGoal(Protocol):
    """A goal that determines eta."""

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return the shortfall at weighted points, each array ``(n,)``; zero or less if eta is large enough."""
        ...


@dataclass(frozen=True, eq=False)
class GibbsPosterior:
    """The posterior of one row: prior, models, target and how they combine.

    Figures are reported for the first of the ``predictors``. With a ``goal`` that determines eta, the mixture's own eta
    is only a starting value. ``landmarks`` ``(n, d)`` are known rows, such as training data, near which the posterior
    may have modes far from the row; ``landmark_loss`` ``(n, K)`` and ``landmark_said`` are their evaluations, if any.
    ``readers`` read each model as a tree ensemble on demand; empty if models are only called.
    """

    prior: LocatedPrior
    predictors: tuple[Predictor, ...]
    target: Target
    mixture: Mixture
    goal: EtaGoal | None = None
    landmarks: Array | None = None
    landmark_loss: Array | None = None
    landmark_said: Evaluated | None = None
    budget: Budget = field(default_factory=Budget)
    readers: "tuple[CellReader, ...]" = ()

    @property
    def panel(self) -> Panel:
        """The models, with the budget for calling them."""
        return Panel(self.predictors, self.budget)

    def affords(self, n: int) -> int:
        """Return how many of ``n`` points all models can still evaluate within the budget."""
        return self.panel.affords(n)

    def portions(self, n: int, copies: int = 1) -> Iterator[slice]:
        """Yield slices of ``n`` points of ``copies`` rows each, as many as the budget allows; see :class:`Panel`."""
        return self.panel.portions(n, copies)

    def evaluate(self, x: Array, *, use_predict: bool = False) -> Evaluated:
        """Evaluate every model at ``x`` of shape ``(n, d)`` and compare the outputs with the target."""
        return self.read(self.ask(x, use_predict=use_predict))

    def evaluate_first(self, x: Array) -> Evaluated:
        """Evaluate only the first model: arrays ``(n, 1)``."""
        return self.read(self.ask(x, models=1))

    def ask(self, x: Array, *, use_predict: bool = False, models: int | None = None) -> list[Outputs]:
        """Return the outputs of every model at ``x`` of shape ``(n, d)``, or of the first few ``models``."""
        return Panel(self.predictors[:models], self.budget, use_predict).ask(x)

    def ask_alone(self, x: Array) -> list[Outputs]:
        """Return the first model's output for each of ``x`` ``(n, d)`` in a call of its own, see :class:`Panel`."""
        return Panel(self.predictors[:1], self.budget, use_predict=True).ask_alone(x)

    def read(self, predicted: Sequence[Outputs]) -> Evaluated:
        """Compare outputs of models with the target."""
        readings = [
            _check_reading(self.target.read(outputs), self.target, len(outputs.values)) for outputs in predicted
        ]
        evaluated = Evaluated(*(np.column_stack(column) for column in zip(*readings, strict=True)))
        if self.budget.ceiling is not None and evaluated.reached.any():
            self.budget.lift()
        return evaluated

    def read_trees(self, model: int = 0) -> "CellTrees | None":
        """Return a model as a tree ensemble on cells, checked once against its predictions; None if it cannot be read.

        The check evaluates a few hundred rows the first time, or fewer if the budget does not allow them.
        """
        if model >= len(self.readers):
            return None
        panel = Panel(self.predictors[model : model + 1], self.budget)
        return self.readers[model].read(lambda x: panel.ask(x)[0], panel.affords, self.budget)

    def objective(self, x: Array, loss: Array) -> Array:
        """Return the negative log density at ``x`` of shape ``(n, d)`` with known losses, up to a constant."""
        return self.mixture.objective(loss, self.prior.cost(x))

    @property
    def n_calls(self) -> int:
        """Number of model calls so far, over all models."""
        return sum(predictor.meter.calls for predictor in self.predictors)

    @property
    def n_rows(self) -> int:
        """Number of rows given to models so far, over all models."""
        return sum(predictor.meter.rows for predictor in self.predictors)


def _check_reading(reading: Reading, target: Target, n: int) -> Reading:
    """Check a target's reading of ``n`` rows, as anybody may write a target."""
    name = type(target).__name__
    if not isinstance(reading, tuple) or len(reading) != len(Reading._fields):
        raise TypeError(f"{name}: read must return output, loss and reached, not {reading!r:.80}")
    for what, values in zip(Reading._fields, reading, strict=True):
        if np.shape(values) != (n,):
            raise ValueError(f"{name}: read returned {what} of shape {np.shape(values)}, not ({n},)")
    if np.isnan(reading[1]).any():
        raise ValueError(f"{name}: read returned a loss that is not a number")
    return reading


# --- tasks that share model calls ------------------------------------------------------------------------------------


def run_together(
    posterior: GibbsPosterior, tasks: Sequence[Callable[[GibbsPosterior], T]], rows: int, *, later: int | None = None
) -> list[T]:
    """Run tasks in lockstep, so that their simultaneous model calls are joined into one; return their results.

    Results do not depend on that. Tasks run one after another instead under a deadline, where every call is timed by
    itself, and if rows are scarce, so that one task can spend what another leaves. Each task uses only the posterior it
    is given and shares no generator with another; ``rows`` is the largest number of points that one evaluates;
    ``later`` is the number of budget shares to reserve for later, with which tasks in turn get an even share each.
    """
    n, budget = len(tasks), posterior.budget
    shares = n + (1 if later is None else later)
    if n > 1 and budget.deadline is None and posterior.affords(shares * rows) == shares * rows:
        step = Lockstep(min(predictor.batch_rows for predictor in posterior.predictors))
        parts = [replace(posterior, budget=budget.share(1.0 / shares)) for _ in tasks]
        return step.run([_bind_task(step, task, part) for task, part in zip(tasks, parts, strict=True)])
    found = []
    for number, task in enumerate(tasks):
        share = budget if later is None else budget.share(1.0 / (n - number + later))
        found.append(task(replace(posterior, budget=share)))
    return found


def _bind_task(step: Lockstep, task: Callable[[GibbsPosterior], T], posterior: GibbsPosterior) -> Callable[[int], T]:
    """Return a task that calls the models through the lockstep."""

    def run(number: int) -> T:
        shared = tuple(step.share(predictor, number) for predictor in posterior.predictors)
        return task(replace(posterior, predictors=shared))

    return run
