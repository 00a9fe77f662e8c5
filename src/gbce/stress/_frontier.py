"""Search for the cost-reliability frontier: the cheapest point for every share of models and perturbed copies."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, stream
from gbce._validation import is_count
from gbce.base import Array
from gbce.budget import HALF, Budget, BudgetSpentError, budget_of
from gbce.decisions import stack_points
from gbce.explanation import Explanation
from gbce.metrics import (
    FEWEST_MODELS,
    Noise,
    costs,
    evaluate_under_noise,
    frontier_table,
    near_front,
    next_model_probability,
    offsets,
    pareto_front,
    positions_at_levels,
    require_noise,
)
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import BestPerLevel, StepsFromRow, walk
from gbce.stress._other_models import posterior_under, replace_models

if TYPE_CHECKING:
    from gbce.explainer import Explainer

Reliability = Literal["share", "next"]


@dataclass(frozen=True)
class _Tuning:
    """How many points a frontier tries within its budget, by hand; reliabilities come from fresh noise."""

    unseen_share: float = 0.1  # of the time, for models that take no part in the search
    max_confirmed: int = 200  # candidates that are evaluated again under fresh noise
    confirmed_within_rows: int = 100  # points that a budget of rows must be able to confirm: n_confirm shrinks for them
    confirmed_within_time: int = 32  # the same where time is short: fewer points, with smaller errors
    walk_copies: int = 16  # under noise, of each point of the walk


_TUNING = _Tuning()
# reliabilities that the walk aims for by default, denser near 1; "next" never reaches 1
_WALK_LEVELS = np.array([0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999])
_UNCONFIRMED = (
    "frontier: the budget ran out before points could be confirmed under fresh noise: their reliability is that of "
    "the trials that selected them, which is optimistic; allow more rows or time"
)


def frontier(
    explainer: "Explainer",
    explanation: Explanation,
    *,
    noise: Noise | None = None,
    models: Any = None,
    weights: Sequence[float] | None = None,
    unseen: Any = None,
    reliability: Reliability = "share",
    distance: str = "l1",
    levels: Sequence[float] | None = None,
    refine: bool = True,
    n_perturb: int = 64,
    n_confirm: int = 512,
    max_candidates: int = 800,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
) -> pd.DataFrame:
    """Return the cheapest point for every reliability, under execution noise and other models.

    Unlike :meth:`gbce.Explanation.frontier`, which only uses evaluated draws and knows no noise, this calls the models,
    also for noisy copies and for points beyond the draws.

    Points are the draws, the decisions and, with ``refine``, those of a greedy walk from the row: it makes the change
    that gains most for its cost, step by step, and then undoes what is not needed. Under noise or other models, only
    points that this explainer's first model, the one in use, accepts without noise are kept.

    Parameters
    ----------
    explanation : Explanation
        Made by this explainer.
    noise : number, sequence, mapping or function, optional
        Execution noise, see :class:`gbce.Evaluation`; none by default.
    models, weights : optional
        Models that must accept a point, such as refits; this explainer's own by default.
    unseen : estimator, callable, or list of them, optional
        Held-out models, which take no part in the search.
    reliability : {"share", "next"}
        The share of models (and copies) that accept a point; or the probability that one more model does, see Notes.
    distance, levels
        As in :meth:`gbce.Explanation.frontier`.
    refine : bool
        Whether to search beyond the draws.
    n_perturb, n_confirm, max_candidates : int
        Perturbed copies of every candidate; fresh copies to confirm promising candidates, and as many again to
        report them; draws to try.
    max_model_rows, time_budget : optional
        Budget as in :meth:`explain`; the walk ends when half of it is spent. Where the rest does not suffice to
        confirm points under fresh noise, they are returned unconfirmed, with a warning.

    Returns
    -------
    DataFrame
        As :meth:`gbce.Explanation.frontier`; reliability is over models and copies, ``se`` its error over copies.
        Under noise or other models also the first model's ``output`` at each point without noise, and that it has
        ``reached`` the target there. With ``unseen`` also the share of these that accept each point, NaN where the
        budget was spent.

    Raises
    ------
    BudgetSpentError
        If the budget does not even allow the row, the decisions and one draw.

    Notes
    -----
    A point that was optimised until all of a dozen refits accept it is overfitted to them: fewer of further refits
    will accept it. ``"next"`` treats the models' outputs at a point as a sample and predicts the next one (Student's
    predictive distribution), which uses more than the number of acceptances and still discriminates where all accept;
    but it too is optimistic about points selected by it. ``unseen`` models show by how much.
    """
    whole = budget_of(max_model_rows, time_budget)
    # reserve time for held-out models; of rows the search leaves enough anyway
    budget = whole if unseen is None or whole.deadline is None else whole.share(1.0 - _TUNING.unseen_share)
    session = explainer._session
    session.own_posterior(explanation, budget)
    posterior = posterior_under(session, explanation, models, budget, weights)
    counts = posterior.mixture.weights > 0
    counted = tuple(compress(posterior.predictors, counts))
    posterior = replace_models(posterior, counted, posterior.mixture.weights[counts])
    first = session.posterior_of(explanation, budget).predictors[:1]
    search = FrontierSearch(
        explanation, posterior, session.data,
        own=None if models is None and noise is None else replace_models(posterior, first, np.ones(1)),
        unseen=None if unseen is None else posterior_under(session, explanation, unseen, whole),
        noise=noise, reliability=reliability, distance=distance, levels=levels,
        n_perturb=n_perturb, n_confirm=n_confirm, max_candidates=max_candidates, refine=refine,
    )  # fmt: skip
    return search.table()


class _Judgements(NamedTuple):
    """Reliability of points, its error over copies, and their mean loss, ``(n,)`` each."""

    reliability: Array
    se: Array
    loss: Array


@dataclass(frozen=True)
class FrontierSearch:
    """Search for the cheapest points reliable under ``posterior`` that ``own`` accepts; ``unseen`` is held out."""

    explanation: Explanation
    posterior: GibbsPosterior
    data: Array
    own: GibbsPosterior | None
    unseen: GibbsPosterior | None
    noise: Noise | None
    reliability: Reliability
    distance: str
    levels: Sequence[float] | None
    n_perturb: int
    n_confirm: int
    max_candidates: int
    refine: bool

    def __post_init__(self) -> None:
        for name in ("n_perturb", "n_confirm", "max_candidates"):
            n = getattr(self, name)
            if not is_count(n):
                raise ValueError(f"{name} must be an integer of at least 1, not {n!r}")
        positions_at_levels(np.zeros(0), self.levels)
        require_noise(self.noise, self.explanation.space)
        if self.reliability not in ("share", "next"):
            raise ValueError(f"reliability must be 'share' or 'next', not {self.reliability!r}")
        if self.reliability == "next":
            n = np.count_nonzero(self.posterior.mixture.weights > 0)
            if n < FEWEST_MODELS:
                raise ValueError(f"reliability='next' needs at least {FEWEST_MODELS} models, but there are {n}")
            try:
                self.posterior.target.accepted()
            except TypeError as error:
                raise ValueError(f"reliability='next' is not available for this target: {error}; use 'share'") from None

    def table(self) -> pd.DataFrame:
        """Find, choose and report a front, each under noise of its own, as the largest share is biased upwards."""
        space = self.explanation.space
        rng = stream(self.explanation.seed, JUDGING, self.explanation.query.key)
        x = self._list_candidates(rng)
        if self.noise is None:
            return self._tabulate(*self._search(x, np.zeros((1, len(space)))))
        # with a small budget, the search must leave enough to confirm a few points
        n_confirm = self.n_confirm if self._timed else self._count_confirming(_TUNING.confirmed_within_rows)
        shifts = offsets(self.noise, space, rng, self.n_perturb + 2 * n_confirm)
        find, choose, report = np.split(shifts, [self.n_perturb, self.n_perturb + n_confirm])
        x, judged = self._search(x, find)
        if self._timed:  # the time per row is known only now
            n_confirm = self._count_confirming(_TUNING.confirmed_within_time)
            choose, report = choose[:n_confirm], report[:n_confirm]
        try:
            most = self._count_affordable(_TUNING.max_confirmed, 2 * n_confirm)
            near = x[near_front(judged.reliability, self._cost(x), self.n_perturb, most)]
            near = near[pareto_front(self._judge(near, choose).reliability, self._cost(near))]
            x, judged = near, self._judge(near, report)
        except BudgetSpentError:
            warnings.warn(_UNCONFIRMED, stacklevel=4)
        return self._tabulate(x, judged)

    @property
    def _timed(self) -> bool:
        return self.posterior.budget.deadline is not None

    def _count_confirming(self, points: int) -> int:
        """Return the number of copies under which this many points can be confirmed."""
        return min(self.n_confirm, max(self.posterior.affords(points * self.n_confirm) // points, 1))

    def _search(self, x: Array, shifts: Array) -> tuple[Array, _Judgements]:
        """Evaluate points ``(n, d)`` and add those that a walk from the row and back finds."""
        x, judged = self._judge_in_time(x, shifts)
        if not self.refine:
            return x, judged
        space, x0 = self.explanation.space, self.explanation.x0
        levels = np.unique(_WALK_LEVELS if self.levels is None else np.asarray(self.levels, dtype=float))
        best = BestPerLevel.empty(levels, x0)
        best.add(x, judged.reliability, self._cost(x))
        budget = self.posterior.budget.share(HALF)

        def judge(x: Array) -> tuple[Array, Array]:
            judged = self._judge(x, shifts[: _TUNING.walk_copies], budget)
            return judged.reliability, judged.loss

        walk(judge, self._cost, StepsFromRow.of(space, x0, self.data), best)
        found = best.filled
        try:
            found = found[: self._count_affordable(len(levels), len(shifts))]
            again = self._judge(found, shifts)
        except BudgetSpentError:  # too few copies of the points of the walk
            return x, judged
        return np.vstack([x, found]), _Judgements(*map(np.concatenate, zip(judged, again, strict=True)))

    def _judge_in_time(self, x: Array, shifts: Array) -> tuple[Array, _Judgements]:
        """Evaluate points ``(n, d)``; where time is short, as many of the first ones as half of it allows."""
        if not self._timed:
            return x, self._judge(x, shifts)
        part = self.posterior.budget.share(HALF)
        parts: list[_Judgements] = []
        with suppress(BudgetSpentError):
            for some in replace(self.posterior, budget=part).portions(len(x), len(shifts)):
                parts.append(self._judge(x[some], shifts, part))
        if not parts:
            raise BudgetSpentError(f"one point takes {len(shifts):,} rows for each model: raise time_budget")
        judged = _Judgements(*map(np.concatenate, zip(*parts, strict=True)))
        return x[: len(judged.loss)], judged

    def _judge(self, x: Array, shifts: Array, budget: Budget | None = None) -> _Judgements:
        """Evaluate the models at points ``(n, d)`` under offsets ``(s, d)`` where the own one accepts them."""
        if len(x) == 0:
            return _Judgements(np.zeros(0), np.zeros(0), np.zeros(0))
        budget = self.posterior.budget if budget is None else budget
        own = None if self.own is None else replace(self.own, budget=budget).evaluate(x)
        valid = np.arange(len(x)) if own is None else np.flatnonzero(own.reached[:, 0])
        share, loss = np.zeros((len(x), len(shifts))), np.zeros(len(x))
        if len(valid):
            posterior, weights = replace(self.posterior, budget=budget), self.posterior.mixture.weights
            noisy = evaluate_under_noise(posterior, self.explanation.space, x[valid], shifts)
            if self.reliability == "share":
                share[valid] = noisy.reached @ weights
            else:
                share[valid] = next_model_probability(noisy.outputs, weights, self.posterior.target.accepted())
            loss[valid] = (noisy.loss @ weights).mean(axis=1)
        mean, n = share.mean(axis=1), len(shifts)
        # one pseudo-copy with the opposite result, so that a share of 0 or 1 has an error as well
        se = np.zeros(len(x)) if n == 1 else np.sqrt(np.square(share - mean[:, None]).sum(axis=1) + 1.0) / n
        return _Judgements(mean, se, loss if own is None else own.loss[:, 0])

    def _tabulate(self, x: Array, judged: _Judgements) -> pd.DataFrame:
        """Return the front among points as a table."""
        front, own = self._find_front(x, judged.reliability)
        x = x[front]
        distance = self.explanation.space.distance(x, self.explanation.x0)
        figures = {"cost": self._cost(x), "distance": distance, "se": judged.se[front]}
        if own is not None:
            figures |= {"output": own.outputs[:, 0], "reached": own.reached[:, 0]}
        if self.unseen is not None:
            figures["unseen"] = np.full(len(x), np.nan)
            if len(x):
                with suppress(BudgetSpentError):
                    held_out = self.unseen.evaluate(x, use_predict=True)
                    figures["unseen"] = held_out.reached @ self.unseen.mixture.weights
        return frontier_table(self.explanation.space, x, judged.reliability[front], figures)

    def _find_front(self, x: Array, reliability: Array) -> tuple[Array, Evaluated | None]:
        """Return positions of the front among points ``(n, d)``, and the evaluations by the model in use."""
        front = pareto_front(reliability, self._cost(x))
        front = front[positions_at_levels(reliability[front], self.levels)]
        if self.own is None:
            return front, None
        if len(front) == 0:
            none = np.zeros((0, 1))
            return front, Evaluated(none, none, none.astype(bool))
        untimed = self.posterior.budget.without_deadline()  # a handful of rows, which are the result itself
        own = replace(self.own, budget=untimed).evaluate(x[front], use_predict=True)
        good = own.reached[:, 0]  # by its decisions, not its scores
        return front[good], Evaluated(*(values[good] for values in own))

    def _list_candidates(self, rng: np.random.Generator) -> Array:
        """Return the row, distinct draws selected at random by weight, and the decisions ``(n, d)``."""
        explanation = self.explanation
        where, weight = explanation.draws.distinct
        decided = stack_points(explanation.decisions, len(explanation.space))
        if self._timed:  # in order of evaluation, until time is up
            most = min(self.max_candidates, int((weight > 0).sum()))
            where = rng.choice(where, most, replace=False, p=weight / weight.sum())
            return np.vstack([explanation.row.x, decided, explanation.draws.pool.x[where]])
        most = self._count_affordable(self.max_candidates, 1 if self.noise is None else self.n_perturb)
        if len(where) > most:
            where = np.sort(rng.choice(where, size=most, replace=False, p=weight / weight.sum()))
        return np.vstack([explanation.row.x, explanation.draws.pool.x[where], decided])

    def _count_affordable(self, most: int, copies: int) -> int:
        """Return how many points, up to ``most``, can be evaluated with their copies by half of the budget."""
        n = self.posterior.affords(2 * most * copies) // (2 * copies)
        if n == 0:
            raise BudgetSpentError(
                f"one point takes {copies:,} rows for each model: raise max_model_rows or time_budget"
            )
        return n

    def _cost(self, x: Array) -> Array:
        return costs(self.explanation.space, x, self.explanation.x0, self.distance)
