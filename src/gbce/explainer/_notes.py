"""What a run may spend where no limit was set, least while nothing reaches the target, and the note if that ends it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from gbce._numerics import DECIDING, DOUBTING, stream
from gbce._validation import is_count, short
from gbce.base import Array, Prior, Query, Sampler
from gbce.budget import Budget, BudgetSpentError
from gbce.decisions import Decision
from gbce.draws import Covering, Draws, Points, Scene
from gbce.eta import Calibration
from gbce.explanation import Status
from gbce.posterior import GibbsPosterior
from gbce.predictors import Classifier, fitted_columns
from gbce.priors import Gaussian, LocatedPrior, Sparse
from gbce.search import BestPerLevel, StepsFromRow, polish_mode, walk
from gbce.space import Assumptions, Space, has_labels
from gbce.trees import Proof

__all__ = [
    "ROWS_TIMES",
    "AssumedPrior",
    "add_reaching",
    "assume_prior",
    "budget_note",
    "calibration_note",
    "flag_missed_mass",
    "hanging_note",
    "judge_status",
    "mode_note",
    "order_by_model",
    "sampling_budget",
    "seek_reach",
    "shortfall_note",
    "unreached_note",
]

# --- what is assumed of a table --------------------------------------------------------------------------------------

_MOVES = 3.0  # columns that change under the prior, however many there are: what a person can act on at once; by hand
_PRIOR_NOTE = "About three columns change. Set prior= to allow more or fewer."


@dataclass(frozen=True)
class AssumedPrior:
    """A prior, and what to say if nobody asked for it.

    Parameters
    ----------
    prior : Prior
        As given, or as assumed.
    sentence : str
        Nothing where it was given, or is the paper's.
    """

    prior: Prior
    sentence: str = ""

    def note(self, space: Space) -> str:
        """Return one note on all that was assumed, of the prior and of the table; nothing if nothing was."""
        of_the_table = Assumptions() if space.assumed is None else space.assumed
        return of_the_table.note(*([self.sentence] if self.sentence else []))


def assume_prior(space: Space, data: Any) -> AssumedPrior:
    """Return the prior for data when none is given.

    A frame has columns that mean something by themselves, and a person changes few of them. An array, or real features
    that are free to move anywhere (:meth:`gbce.Space.real`), is the setting of the paper.
    """
    if not has_labels(data) or (space.assumed is None and space.free_reals):
        return AssumedPrior(Gaussian())
    return AssumedPrior(Sparse(moves=_MOVES), _PRIOR_NOTE)


def order_by_model(space: Space, models: Sequence[Any], prior: Any) -> Space:
    """Return the space with its features in the order of the columns that the first model with names was fitted on.

    So it does not matter in which order the data have them. Where a prior counts features by their positions, these
    are the data's, and stay.
    """
    if _counts_by_position(prior):
        return space
    fitted = (fitted_columns(one.model if isinstance(one, Classifier) else one) for one in models)
    return space.ordered_by(next((names for names in fitted if names), []))


def _counts_by_position(option: Any) -> bool:
    """Whether an option may know features by their positions: a matrix, a function of rows, or who knows what."""
    if option is None or isinstance(option, (bool, str, int, float, np.generic)):
        return False
    if is_dataclass(option) and not isinstance(option, type) and not callable(option):
        return any(_counts_by_position(getattr(option, one.name)) for one in fields(option))
    return True


# --- the outcome in words --------------------------------------------------------------------------------------------

_SAME_PLACE = 1e-9  # relative: values that differ by rounding
_WORTH_A_NOTE = 0.1  # of log density, chosen by hand: what is denser by less is not worth a sentence


def judge_status(
    query: Query, known: Points, decisions: Sequence[Decision], proof: Proof | None = None, depends: bool = False
) -> tuple[Status, str]:
    """Say whether there was anything to do, and whether any evaluated point does it; a sentence where it is needed.

    Where the model's outputs depend on the batch, only decisions count, about which it was asked one by one.
    """
    wish, row = query.target.describe(), query.row
    if row.reached[0, 0]:
        now = short(row.outputs[0, 0])
        reaches = f"The row already reaches the target ({wish}), output {now}: nothing has to change."
        return Status.ALREADY_REACHED, reaches
    if any(one.reached[0] for one in decisions) if depends else known.reached[:, 0].any():
        return Status.ATTAINABLE, ""
    loss = np.append(known.loss[:, 0], [decision.loss[0] for decision in decisions])
    best = np.append(known.outputs[:, 0], [decision.outputs[0] for decision in decisions])[int(np.argmin(loss))]
    seen = f"best seen is {short(float(best))}, against {short(row.outputs[0, 0])} now"
    if proof is not None:
        return Status.NOT_ATTAINED, f"{proof.sentence} The {seen}. Widen the bounds, or ask for less."
    return Status.NOT_ATTAINED, (
        f"None of {len(known):,} evaluated points reaches the target ({wish}); the {seen}. "
        "This is a search, not a proof: widen the prior or the bounds, or ask for less."
    )


def flag_missed_mass(
    query: Query, posterior: GibbsPosterior, draws: Draws, decisions: Sequence[Decision], apart: bool
) -> Draws:
    """Return the draws, with a doubt if a decision, or what was seen, has a density that they do not explain.

    Outputs that depend on the batch (``apart``) are a doubt as well.
    """
    if apart:
        return replace(draws, info=replace(draws.info, doubt="the outputs of the model depend on the batch"))
    cover, rng = draws.coverage, stream(query.seed, DOUBTING, query.key)
    if cover is None or draws.info.doubt is not None:
        return draws
    who = _find_unexplained(query, posterior, cover, decisions, rng) if decisions else ""
    if not who and draws.seen is not None and _is_seen_unexplained(query, posterior, cover, draws.seen, rng):
        who = "a point that was seen"
    if not who:
        return draws
    return replace(draws, info=replace(draws.info, doubt=f"{who} has a density that the draws do not explain"))


def _find_unexplained(
    query: Query, posterior: GibbsPosterior, cover: Covering, decisions: Sequence[Decision], rng: np.random.Generator
) -> str:
    """Return the label of the first decision that shows mass which the draws have missed; empty if none does."""
    x = np.array([decision.x for decision in decisions])
    z = posterior.prior.locate(x)
    placed = posterior.prior.place(z)
    loss = np.array([decision.loss for decision in decisions])
    unread = np.zeros(loss.shape)
    points = Points(z, placed.x, unread, loss, unread > 0, placed.cost, placed.log_correction)
    # a decision at a bound, or in the middle of a stretch of the axis, is another point of the latent space
    same = np.isclose(placed.x, x, rtol=_SAME_PLACE, atol=0.0, equal_nan=True).all(axis=1)
    # a corner that rounding cuts off, or that lies across the axes, may have nothing around it that could be drawn; and
    # rungs of a tempered run that has missed a mode would have points there by their own account
    certain = cover.dwarfed(points, query.mixture)
    beyond = np.flatnonzero(same & (certain | cover.unexplained(points, query.mixture)))
    if len(beyond):  # a needle is no reason to doubt
        with suppress(BudgetSpentError):
            beyond = np.array(
                [i for i in beyond if certain[i] or cover.has_missed_mass_near(posterior, rng, z[i])], dtype=int
            )
    return decisions[beyond[0]].label if len(beyond) else ""


def _is_seen_unexplained(
    query: Query, posterior: GibbsPosterior, cover: Covering, seen: Points, rng: np.random.Generator
) -> bool:
    """Whether the most probable of points that were seen shows mass which the draws have missed."""
    beyond = np.flatnonzero(cover.unexplained(seen, query.mixture))
    if len(beyond) == 0:
        return False
    best = beyond[int(np.argmin(query.mixture.objective(seen.loss[beyond], seen.cost[beyond])))]
    with suppress(BudgetSpentError):
        return cover.has_missed_mass_near(posterior, rng, seen.z[best])
    return True


def budget_note(draws: Draws, eta: float | None) -> str:
    """Say so if the budget ended the sampling; ``eta`` is the one that was asked for, if it was a number."""
    if draws.info.complete:
        return ""
    reached = draws.rungs[-1]
    if eta is None or reached < eta:
        wish = "" if eta is None else f" of {eta:g}"
        return f"The budget ran out at eta = {reached:g}{wish}: this is the posterior there, not the one asked for."
    return f"The budget ran out after {len(draws.pool):,} evaluated points: fewer than the sampler was to draw."


def hanging_note(posterior: GibbsPosterior) -> str:
    """Say so if a model hangs: what is reported is what was known by then."""
    lost = posterior.budget.root.lost
    return " ".join(f"{one.name} {lost[id(one.ask)]}." for one in posterior.predictors if id(one.ask) in lost)


def calibration_note(calibration: Calibration | None, eta: float) -> str:
    """Say so if eta could not be found."""
    if calibration is None or calibration.met:
        return ""
    return (
        f"{calibration.rule} could not be met: eta = {eta:g} is the best that was found, and its figures are below. "
        "Ask for less, widen the prior, or allow more."
    )


def shortfall_note(query: Query, status: Status, decisions: Sequence[Decision]) -> str:
    """Say so if the mode falls short of a target that can be reached: it trades loss against distance."""
    mode = _find_mode(decisions)
    if status != Status.ATTAINABLE or mode is None or mode.reached[0]:
        return ""
    output, wish = float(mode.outputs[0]), query.target.describe()
    said = short(output) if short(output) not in wish else f"{output:.8g}"  # "at least 500", and the output is 499.99
    return (
        f"{mode.label} falls short of the target ({wish}): its output is {said}, because the most probable point "
        "trades loss against distance. A larger eta, a tolerance, or gbce.ChanceConstrained() goes all the way."
    )


def mode_note(query: Query, decisions: Sequence[Decision]) -> str:
    """Say so if another decision is more probable than the mode, which refines only the best points it is given."""
    mode = _find_mode(decisions)
    others = [decision for decision in decisions if decision.rule is None or not decision.rule.seeks_mode]
    if query.sparse or mode is None or not others:
        return ""
    objective = [float(query.mixture.objective(d.loss[None, :], np.array([d.cost]))[0]) for d in (mode, *others)]
    best = int(np.argmin(objective))
    if objective[0] - objective[best] <= _WORTH_A_NOTE:
        return ""
    return (
        f"{mode.label} is the most probable point that was found, but {others[best - 1].label} is more probable still "
        f"(objective {short(objective[best])} against {short(objective[0])}): more candidates come closer to the mode."
    )


def _find_mode(decisions: Sequence[Decision]) -> Decision | None:
    """Return the first decision that is meant to be the most probable point."""
    answers = (d for d in decisions if d.rule is not None and d.rule.seeks_mode and not d.beside)
    return next(answers, None)


# --- what a run may spend where no limit was set, least while nothing reaches the target, and the note ---------------

# Times the rows of a usual explanation with the sampler's options that are spent while no point reaches the target.
# Measured without a limit: 250,000 to 1.6 million rows for one row of a school table whose forest cannot say what is
# asked. Ten is generous, by hand, for what is hard to find.
ROWS_TIMES = 10


def sampling_budget(budget: Budget, sampler: Sampler, n_models: int, jointly: bool) -> Budget:
    """Return what sampling may spend where nothing was said: a default limit, and a higher one once a point reaches.

    A sampler whose size its own options set (``Importance``, ``Nested``, somebody's own) is left alone, and so are many
    models that are drawn jointly.
    """
    usual: Any = getattr(sampler, "usual_rows", None)
    if budget.limited or jointly or not is_count(usual):
        return budget
    return budget.under(int(ROWS_TIMES * usual) * n_models)


def unreached_note(draws: Draws, spent: Budget, eta: float | None) -> str:
    """Say so if the default limit, or a loss that no longer fell, ended the sampling; ``eta`` is the one asked for."""
    if draws.info.complete:
        return ""
    reached, wish = draws.rungs[-1], "" if eta is None else f" of {eta:g}"
    if draws.info.ended is not None:
        return (
            f"Sampling ended at eta = {reached:g}{wish}, because {draws.info.ended}: this is the posterior there. "
            "A larger eta would draw it closer to the best seen."
        )
    if spent.met_ceiling and spent.lifted:
        return (
            f"Sampling ended after {spent.rows:,} model rows, as it does unless told otherwise: this is the posterior "
            f"at eta = {reached:g}{wish}. max_model_rows allows more."
        )
    if spent.met_ceiling:
        return (
            f"No point reached the target within {spent.rows:,} model rows, where sampling ends unless told otherwise: "
            f"this is the posterior at eta = {reached:g}{wish}. max_model_rows allows more."
        )
    return ""


# --- before a target is called out of reach --------------------------------------------------------------------------

_SHARE = 0.5  # of what is left of a budget; chosen by hand, and the rest is for rules
_STEEP = 1e6  # times eta: what a thousandth of a unit of loss is lower may cost hundreds of units more


def seek_reach(query: Query, posterior: GibbsPosterior, draws: Draws, data: Array) -> Draws:
    """Return the draws, with points that reach the target among what was seen if any are found and nothing else did.

    Parameters
    ----------
    query : Query
        What is asked.
    posterior : GibbsPosterior
        Whose first model decides.
    draws : Draws
        With every point that is known so far.
    data : array of shape (n, d)
        Rows whose values are tried.
    """
    if draws.known.reached[:, 0].any():
        return draws
    prior = posterior.prior
    asking = replace(posterior, budget=posterior.budget.share(_SHARE))
    shelf = BestPerLevel.empty(np.ones(1), prior.x0)

    def judge(x: Array) -> tuple[Array, Array]:
        said = asking.evaluate_first(x)
        return said.reached[:, 0].astype(float), said.loss[:, 0]

    walk(judge, prior.cost, StepsFromRow.of(prior.space, prior.x0, data), shelf)
    with suppress(BudgetSpentError):
        if len(shelf.filled):
            return _add_seen(draws, [_locate(prior, shelf.filled, *posterior.evaluate(shelf.filled))])
    return _climb(query, asking, draws)


def _climb(query: Query, posterior: GibbsPosterior, draws: Draws) -> Draws:
    """Return the draws, with the end of a way to lower loss, whatever it costs, among what was seen."""
    steep = replace(posterior.mixture, eta=_STEEP * posterior.mixture.eta)
    scene = Scene(replace(query, mixture=steep), draws, stream(query.seed, DECIDING, query.key))
    return _add_seen(draws, polish_mode(scene, replace(posterior, mixture=steep)))


def add_reaching(posterior: GibbsPosterior, draws: Draws, decisions: Sequence[Decision]) -> Draws:
    """Return the draws, with decisions that reach the target among what was seen if nothing else of it does.

    Rules look side by side: one that was content with the best seen may then begin at what another one came upon.
    """
    found = [decision for decision in decisions if decision.reached[0]]
    if not found or draws.known.reached[:, 0].any():
        return draws
    x, *said = (np.array([getattr(one, name) for one in found]) for name in ("x", "outputs", "loss", "reached"))
    return _add_seen(draws, [_locate(posterior.prior, x, *said)])


def _locate(prior: LocatedPrior, x: Array, outputs: Array, loss: Array, reached: Array) -> Points:
    """Return points ``(k, d)`` that models were asked about."""
    return Points(prior.locate(x), x, outputs, loss, reached, prior.cost(x), np.zeros(len(x)))


def _add_seen(draws: Draws, points: Sequence[Points]) -> Draws:
    """Return the draws, with points among what was seen."""
    before = [] if draws.seen is None else [draws.seen]
    return replace(draws, seen=Points.join([*before, *points])) if points else draws
