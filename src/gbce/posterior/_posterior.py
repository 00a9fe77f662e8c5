"""The posterior of one row: prior, models, target and temperature together, and what models say about its points."""

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

# --- the posterior of one row ----------------------------------------------------------------------------------------


class Evaluated(NamedTuple):
    """What the models say about ``n`` rows, each array ``(n, K)``."""

    outputs: Array
    loss: Array
    reached: Array


class EtaGoal(Protocol):
    """What eta is to achieve, where it is not given as a number."""

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return how much is missing at weighted points, each array ``(n,)``; zero or less where eta is enough."""
        ...


@dataclass(frozen=True, eq=False)
class GibbsPosterior:
    """The posterior of one row: prior, models, target and how they combine.

    Parameters
    ----------
    prior : LocatedPrior
        The prior at the row.
    predictors : tuple of Predictor
        One per model; the first is the one figures are reported for.
    target : Target
        With its open numbers filled in.
    mixture : Mixture
        Temperature, weights and combination.
    goal : EtaGoal, optional
        What eta is to achieve; then the mixture's own eta is only where the search may start.
    landmarks : array of shape (n, d), optional
        Known rows, such as training data, near which the posterior may have modes that are far from the row.
    landmark_loss : array of shape (n, K), optional
        Their losses, where models were asked about them before.
    landmark_said : Evaluated, optional
        All that models said about them: outputs, losses and verdicts.
    budget : Budget
        What may be spent.
    readers : tuple of CellReader
        What reads each model as a tree ensemble when it is wanted; empty where models are only asked.
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
        """The models, with what may be spent on them."""
        return Panel(self.predictors, self.budget)

    def affords(self, n: int) -> int:
        """Return how many of ``n`` points all models can still be asked about within the budget."""
        return self.panel.affords(n)

    def portions(self, n: int, copies: int = 1) -> Iterator[slice]:
        """Yield slices of ``n`` points of ``copies`` rows each, as many as the budget allows; see :class:`Panel`."""
        return self.panel.portions(n, copies)

    def evaluate(self, x: Array, *, use_predict: bool = False) -> Evaluated:
        """Ask every model about ``x`` of shape ``(n, d)`` and read the answers against the target."""
        return self.read(self.ask(x, use_predict=use_predict))

    def evaluate_first(self, x: Array) -> Evaluated:
        """Ask only the first model: arrays ``(n, 1)``."""
        return self.read(self.ask(x, models=1))

    def ask(self, x: Array, *, use_predict: bool = False, models: int | None = None) -> list[Outputs]:
        """Return what every model says about ``x`` of shape ``(n, d)``, or only the first few ``models``."""
        return Panel(self.predictors[:models], self.budget, use_predict).ask(x)

    def ask_alone(self, x: Array) -> list[Outputs]:
        """Return what the first model says about each of ``x`` ``(n, d)`` by itself, see :class:`Panel`."""
        return Panel(self.predictors[:1], self.budget, use_predict=True).ask_alone(x)

    def read(self, said: Sequence[Outputs]) -> Evaluated:
        """Read what models said against the target."""
        readings = [_checked(self.target.read(outputs), self.target, len(outputs.values)) for outputs in said]
        evaluated = Evaluated(*(np.column_stack(column) for column in zip(*readings, strict=True)))
        if self.budget.ceiling is not None and evaluated.reached.any():
            self.budget.lift()
        return evaluated

    def read_trees(self, model: int = 0) -> "CellTrees | None":
        """Return a model as boxes of cells, checked once against what it says itself; None where it cannot be read.

        The check asks the model about a few hundred rows the first time; what a budget does not allow is left out.
        """
        if model >= len(self.readers):
            return None
        panel = Panel(self.predictors[model : model + 1], self.budget)
        return self.readers[model].read(lambda x: panel.ask(x)[0], panel.affords, self.budget)

    def objective(self, x: Array, loss: Array) -> Array:
        """Return what the mode minimises at ``x`` of shape ``(n, d)``, whose losses are known."""
        return self.mixture.objective(loss, self.prior.cost(x))

    @property
    def n_calls(self) -> int:
        """Number of model calls so far, over all models."""
        return sum(predictor.meter.calls for predictor in self.predictors)

    @property
    def n_rows(self) -> int:
        """Number of rows given to models so far, over all models."""
        return sum(predictor.meter.rows for predictor in self.predictors)


def _checked(reading: Reading, target: Target, n: int) -> Reading:
    """Return a target's reading of ``n`` rows, or say what is wrong with it: anybody may write a target."""
    name = type(target).__name__
    if not isinstance(reading, tuple) or len(reading) != len(Reading._fields):
        raise TypeError(f"{name}: read must return output, loss and reached, not {reading!r:.80}")
    for what, values in zip(Reading._fields, reading, strict=True):
        if np.shape(values) != (n,):
            raise ValueError(f"{name}: read returned {what} of shape {np.shape(values)}, where ({n},) belongs")
    if np.isnan(reading[1]).any():
        raise ValueError(f"{name}: read returned a loss that is not a number")
    return reading


# --- tasks that do not need each other's answers ask the models together ---------------------------------------------


def run_together(
    posterior: GibbsPosterior, tasks: Sequence[Callable[[GibbsPosterior], T]], rows: int, *, later: int | None = None
) -> list[T]:
    """Run tasks in step, so that what they ask the models at the same time is asked in one call.

    What is found does not depend on whether they run in step. They take turns instead under a deadline, where every
    call has to be timed by itself, and where rows are scarce, so that one may spend what another leaves.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked.
    tasks : sequence of functions of a posterior
        Each asks only the posterior that it is given, and shares no generator with another.
    rows : int
        Points that one of them may want to ask about.
    later : int, optional
        With it, tasks that take turns get an even share of what is left each, where so many more shares are for later.

    Returns
    -------
    list
        What the tasks return, in their order.
    """
    n, budget = len(tasks), posterior.budget
    shares = n + (1 if later is None else later)
    if n > 1 and budget.deadline is None and posterior.affords(shares * rows) == shares * rows:
        step = Lockstep(min(predictor.batch_rows for predictor in posterior.predictors))
        parts = [replace(posterior, budget=budget.share(1.0 / shares)) for _ in tasks]
        return step.run([_task_in(step, task, part) for task, part in zip(tasks, parts, strict=True)])
    found = []
    for number, task in enumerate(tasks):
        share = budget if later is None else budget.share(1.0 / (n - number + later))
        found.append(task(replace(posterior, budget=share)))
    return found


def _task_in(step: Lockstep, task: Callable[[GibbsPosterior], T], posterior: GibbsPosterior) -> Callable[[int], T]:
    def run(number: int) -> T:
        shared = tuple(step.share(predictor, number) for predictor in posterior.predictors)
        return task(replace(posterior, predictors=shared))

    return run
