"""The Gibbs posterior ``exp(-potential(x)) * prior(x | row)`` of one row, and its evaluation.

The potential is written here once, for one model and for several. Losses are kept per model, ``(n, K)``, so that
another temperature, other weights or another way of combining needs no further model call.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import HUGE
from gbce._validation import is_number
from gbce.base import Array, Outputs, Reading, Target
from gbce.budget import Budget
from gbce.predictors import Lockstep, Panel, Predictor
from gbce.priors import LocatedPrior

if TYPE_CHECKING:
    from gbce.trees import CellReader, CellTrees

# --- combining losses ------------------------------------------------------------------------------------------------

NAMED = ("any", "all", "average")
_NEAR_MEAN = 0.5  # |t (loss - mean)| below which differences from the mean keep more digits


@dataclass(frozen=True)
class Entropic:
    """Combine the losses of several models into one, between the best and the worst.

    The combined loss is ``-log(sum_k w_k exp(-t loss_k)) / t``, and the potential is eta times it.
    ``t = eta`` is ``combine="any"``, the paper's mixture; ``t = 0`` is ``"average"``; ``t = -inf`` is ``"all"``, the
    worst model; ``t = inf`` is the best one. The smaller ``t``, the more models have to be satisfied.

    Parameters
    ----------
    t : float
        Any number, or plus or minus infinity; in units of one over the loss, like eta.

    Notes
    -----
    ``t`` does not change with eta. ``"any"`` does: at another eta it is another member of the family.

    Examples
    --------
    >>> import gbce
    >>> loss, weights = np.array([[0.0, 1.0, 4.0]]), np.full(3, 1 / 3)
    >>> [round(float(gbce.Entropic(t).loss(loss, weights)[0]), 3) for t in (-np.inf, -2, 0, 2, np.inf)]
    [4.0, 3.452, 1.667, 0.486, 0.0]
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> explainer = gbce.Explainer([lambda x: x[:, 0], lambda x: x[:, 1]], data, combine=gbce.Entropic(-1))
    """

    t: float

    def __post_init__(self) -> None:
        if not is_number(self.t) or math.isnan(self.t):
            raise ValueError(
                f"Entropic: t must be a number or plus or minus infinity, not {self.t!r}: eta gives 'any', "
                "0 gives 'average', minus infinity gives 'all'"
            )

    def loss(self, loss: Array, weights: Array) -> Array:
        """Return the combined loss ``(n,)`` of losses ``(n, K)`` of models with weights ``(K,)``."""
        return entropic(loss, weights, float(self.t))


Combine = Literal["any", "all", "average"] | Entropic


def require_combine(combine: Any) -> None:
    """Refuse an unknown way of combining models."""
    if not isinstance(combine, Entropic) and not (isinstance(combine, str) and combine in NAMED):
        raise ValueError(f"combine must be one of {NAMED} or gbce.Entropic(t), not {combine!r}")


def entropic(loss: Array, weights: Array, t: float) -> Array:
    """Return ``-log(sum_k w_k exp(-t loss_k)) / t`` ``(n,)`` of losses ``(n, K)``, including limits in ``t``.

    Models of weight zero are ignored, even if their loss is infinite.
    """
    counted = weights > 0
    if np.count_nonzero(counted) == 1:
        return np.array(loss[:, int(counted.argmax())])
    loss, weights = loss[:, counted], weights[counted]
    if t == np.inf:
        return np.asarray(loss.min(axis=1))
    if t == -np.inf:
        return np.asarray(loss.max(axis=1))
    if t == 0:
        return np.asarray(loss @ weights)
    # relative to the dominant loss, exponents are at most zero, so none overflows
    leading = loss.min(axis=1) if t > 0 else loss.max(axis=1)
    finite = np.isfinite(leading)
    start = np.where(finite, leading, 0.0)[:, None]
    value = leading.copy()
    with np.errstate(over="ignore"):
        exponents = -t * (loss - start)
        value[finite] -= logsumexp(exponents[finite] + np.log(weights), axis=1) / t
    # near t = 0 this divides the log of almost one by almost zero: expand around the mean instead
    mean = np.where(np.isfinite(loss).all(axis=1), np.where(np.isfinite(loss), loss, 0.0) @ weights, np.inf)
    near = np.flatnonzero(np.isfinite(mean))
    with np.errstate(over="ignore"):
        exponents_from_mean = -t * (loss[near] - mean[near, None])
    small = np.abs(exponents_from_mean).max(axis=1, initial=0.0) < _NEAR_MEAN
    near, exponents_from_mean = near[small], exponents_from_mean[small]
    value[near] = mean[near] - np.log1p(np.expm1(exponents_from_mean) @ weights) / t
    return value


@dataclass(frozen=True, eq=False)
class Mixture:
    """How one or several models' losses become one potential, at one temperature.

    Parameters
    ----------
    eta : float
        Weight of the loss against the prior, the paper's η (its learning rate, an inverse temperature).
    weights : array of shape (K,)
        One weight per model; they sum to one.
    combine : {"any", "all", "average"} or Entropic
        ``any`` is the paper's mixture (at least one model is satisfied), ``all`` its worst case, ``average`` the
        weighted mean loss; all three belong to the family :class:`gbce.Entropic`.
    """

    eta: float
    weights: Array
    combine: Combine = "any"

    def __post_init__(self) -> None:
        if not is_number(self.eta) or not (0 <= self.eta < np.inf):
            raise ValueError(
                f"eta must be zero or a positive number, not {self.eta!r}: it weighs the loss against the prior"
            )
        require_combine(self.combine)

    @property
    def t(self) -> float:
        """The parameter of the entropic family that the combination has at this eta."""
        if isinstance(self.combine, Entropic):
            return float(self.combine.t)
        return {"any": float(self.eta), "average": 0.0, "all": -np.inf}[self.combine]

    def potential(self, loss: Array) -> Array:
        """Return the potential ``(n,)`` of losses ``(n, K)``, the negative log likelihood of the Gibbs posterior."""
        if self.eta == 0:
            return np.zeros(len(loss))  # even if a loss is infinite: the prior ignores losses
        # Eq. model-mixture is the member t = eta: -log sum_k w_k exp(-eta loss_k)
        with np.errstate(over="ignore"):  # an infinite potential means no weight
            return self.eta * self.effective_loss(loss)

    def objective(self, loss: Array, cost: Array) -> Array:
        """Return the negative log density up to a constant, ``potential + d(row, x)`` (Eq. 1 and Eq. map)."""
        return self.potential(loss) + cost

    def effective_loss(self, loss: Array) -> Array:
        """Return the potential over eta ``(n,)``: the combined loss of all models (Section 4 of the paper)."""
        return entropic(loss, self.weights, self.t)


def weights_from_risk(risk: Any, gamma: float) -> Array:
    """Weight models by their risk: ``w_k`` proportional to ``exp(-gamma * R_k)`` (Section 2.4 of the paper).

    Parameters
    ----------
    risk : array of shape (K,)
        Cross-validated loss R_k of each model.
    gamma : float
        How strongly to prefer models of low risk; zero gives equal weights.

    Returns
    -------
    array of shape (K,)
        Weights that sum to one.

    Examples
    --------
    >>> weights_from_risk([0.1, 0.2], gamma=0.0)
    array([0.5, 0.5])
    """
    risk = np.asarray(risk, dtype=float)
    if risk.ndim != 1 or len(risk) == 0 or not np.isfinite(risk).all():
        raise ValueError(f"risk must be one finite number per model, not {risk!r}")
    if not (np.isfinite(gamma) and gamma >= 0):
        raise ValueError(f"gamma must be zero or a positive number, not {gamma!r}")
    with np.errstate(over="ignore"):  # an infinitely worse model has no weight
        weights = np.exp(-gamma * np.minimum(risk - risk.min(), np.finfo(float).max))
    return weights / weights.sum()


def as_weights(weights: Any, n_models: int) -> Array:
    """Return checked and normalised weights of ``n_models`` models, equal if ``None``."""
    if weights is None:
        return np.full(n_models, 1.0 / n_models)
    try:
        array = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"weights must be numbers, one per model, not {weights!r}") from None
    if array.shape != (n_models,):
        raise ValueError(f"weights must have one number per model: {n_models} models, but weights {array.tolist()}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ValueError(f"weights must be zero or more and not all zero, not {array.tolist()}")
    array = array / array.max() if array.max() > HUGE else array  # so that their sum does not overflow
    return array / array.sum()


# --- the posterior ---------------------------------------------------------------------------------------------------

T = TypeVar("T")
# Points that a budget must allow for the usual searches: they take 200 to 12,000, and with fewer than about 1,500 a
# search on a surrogate finds cheaper points (benchmarks/costly.py).
FEW_ROWS = 1_500

# --- posterior of one row --------------------------------------------------------------------------------------------


class Evaluated(NamedTuple):
    """Outputs, losses and verdicts of the models on ``n`` rows, each array ``(n, K)``."""

    outputs: Array
    loss: Array
    reached: Array


class EtaGoal(Protocol):
    """A goal that determines eta, at ``least`` or above."""

    @property
    def least(self) -> float:
        """The smallest eta to take."""
        ...

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return the shortfall at weighted points, each array ``(n,)``; zero or less if eta is large enough."""
        ...


@dataclass(frozen=True, eq=False)
class GibbsPosterior:
    """The posterior of one row: prior, models, target and how they combine.

    Figures are reported for the first of the ``predictors``. With a ``goal`` that determines eta, the mixture's own eta
    is only a starting value. ``landmarks`` ``(n, d)`` are known rows, such as training data, near which the posterior
    may have modes far from the row; ``landmark_loss`` ``(n, K)`` and ``landmark_evaluated`` are their evaluations.
    ``readers`` read each model as a tree ensemble on demand; empty if models are only called.
    """

    prior: LocatedPrior
    predictors: tuple[Predictor, ...]
    target: Target
    mixture: Mixture
    goal: EtaGoal | None = None
    landmarks: Array | None = None
    landmark_loss: Array | None = None
    landmark_evaluated: Evaluated | None = None
    budget: Budget = field(default_factory=Budget)
    readers: "tuple[CellReader, ...]" = ()

    @property
    def panel(self) -> Panel:
        """The models, with the budget for calling them."""
        return Panel(self.predictors, self.budget)

    def affords(self, n: int) -> int:
        """Return how many of ``n`` points all models can still evaluate within the budget."""
        return self.panel.affords(n)

    @property
    def has_few_rows(self) -> bool:
        """Whether a limit on rows leaves too few for the usual searches, which then run on a surrogate of the model.

        Tree ensembles that are read need few.
        """
        budget = self.budget
        if budget.max_rows is None or budget.rows_left >= FEW_ROWS * max(self.panel.each, 1):
            return False
        return not self.readers or not all(reader.readable for reader in self.readers)

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
        run = self.predictors[model].meter
        return self.readers[model].read(lambda x: panel.ask(x)[0], panel.affords, self.budget, run)

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


# --- independent tasks -----------------------------------------------------------------------------------------------


def run_together(
    posterior: GibbsPosterior, tasks: Sequence[Callable[[GibbsPosterior], T]], rows: int, *, later: float | None = None
) -> list[T]:
    """Run independent tasks and return their results; models with a cost per call are called for all of them at once.

    Results do not depend on that. Each task uses only the posterior it is given and shares no generator with another;
    ``rows`` is the largest number of points that one evaluates; ``later`` is the number of budget shares to reserve for
    later. If rows are scarce, or under a deadline, where every call is timed by itself, one task can spend what another
    leaves; with ``later``, tasks in turn then get an even share each.
    """
    n, budget = len(tasks), posterior.budget
    shares = n + (1 if later is None else later)
    if n > 1 and budget.deadline is None and posterior.affords(math.ceil(shares * rows)) == math.ceil(shares * rows):
        parts = [replace(posterior, budget=budget.share(1.0 / shares)) for _ in tasks]
        if not any(predictor.cost_per_call for predictor in posterior.predictors):
            return [task(part) for task, part in zip(tasks, parts, strict=True)]
        step = Lockstep(min(predictor.batch_rows for predictor in posterior.predictors))
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
