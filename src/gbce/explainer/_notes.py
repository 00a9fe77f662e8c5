"""The outcome in words: whether the target is attained, and whether the mode is really the mode."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gbce._numerics import DOUBTING, stream
from gbce._validation import short
from gbce.base import Query
from gbce.budget import BudgetSpentError
from gbce.decisions import Decision
from gbce.draws import Covering, Draws, Points
from gbce.eta import Calibration
from gbce.explanation import Status
from gbce.posterior import GibbsPosterior
from gbce.search import Proof

__all__ = [
    "budget_note",
    "calibration_note",
    "doubt_draws",
    "hanging_note",
    "judge_status",
    "mode_note",
    "shortfall_note",
]

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


def doubt_draws(
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
            beyond = np.array([i for i in beyond if certain[i] or cover.misses_around(posterior, rng, z[i])], dtype=int)
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
        return cover.misses_around(posterior, rng, seen.z[best])
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
