"""What rules and the policy choose, evaluated; once more where one rule came upon what the others had looked for."""

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from gbce._numerics import seed_number
from gbce._validation import printable
from gbce.base import Array, Choice, Outputs, Query, Rule, Target
from gbce.budget import Budget
from gbce.decisions import Decision, apply_known_rules, apply_rules, evaluate_choices
from gbce.draws import Draws, Points
from gbce.explainer._answering import apply_policy
from gbce.explainer._notes import add_reaching, judge_status
from gbce.explanation import Event, Explanation, answer_given, meets, require_explanation, with_conditions
from gbce.metrics import Neighbours
from gbce.posterior import GibbsPosterior
from gbce.predictors import Panel, pick_rows, same_answers
from gbce.priors import WithEffort
from gbce.space import Condition, Space
from gbce.targets import Loss

if TYPE_CHECKING:
    from gbce.explainer._explainer import Explainer

__all__ = [
    "ADVICE",
    "Decided",
    "Progress",
    "decide",
    "explain_given",
    "is_shown",
    "require_own",
    "say_settings",
    "watched",
]

# --- what rules and the policy choose, evaluated ---------------------------------------------------------------------


class Decided(NamedTuple):
    """Choices of rules with notes, the policy's own if there is one, and all decisions, the policy's the last.

    The last fields are whether verdicts of the model, and its outputs by more than rounding, depend on the batch.
    """

    choices: list[tuple[Rule, Choice]]
    notes: list[str]
    handed: list[tuple[Rule, Choice]]
    decisions: tuple[Decision, ...]
    depends: bool
    apart: bool


def decide(
    query: Query,
    draws: Draws,
    posterior: GibbsPosterior,
    refits: GibbsPosterior | None,
    policy: Rule | None,
    neighbours: Neighbours,
) -> tuple[Decided, Draws]:
    """Apply rules and policy and evaluate what they choose; return that, and the draws with what they saw.

    Rules look side by side. Where nothing had reached the target and one of them comes upon a point that does, all of
    them are applied once more, knowing it, unless the budget ends on the way.
    """

    def choose(known: Draws) -> Decided:
        choices, notes = apply_rules(query, known, posterior, further=0 if policy is None else 1)
        handed = [] if policy is None else [(policy, apply_policy(policy, query, known, posterior, refits, choices))]
        judged = evaluate_choices(query, posterior, [*choices, *handed], neighbours)
        return Decided(choices, [*notes, *judged.notes], handed, judged.decisions, judged.depends, judged.apart)

    first = choose(draws)
    more = add_reaching(posterior, draws, first.decisions)
    if more is draws:
        return first, draws
    second = choose(more)
    return second if len(second.decisions) >= len(first.decisions) else first, more


# --- follow-up questions that are put to the models ------------------------------------------------------------------


def explain_given(
    explainer: "Explainer",
    explanation: Explanation,
    event: Event,
    eta: float | None,
    seed: int | None,
    budget: Budget,
) -> Explanation:
    """Explain the row of an explanation again under conditions; see :meth:`gbce.Explainer.given`."""
    posterior = explainer.own_posterior(require_explanation(explanation), budget)
    before = explanation.query
    asked = () if eta is not None and event.empty else event.read(before)
    effort = event.read_effort(before)
    _require_possible(asked, before.space, sparse=before.sparse)
    query, _ = with_conditions(before, asked)
    if eta is not None:
        query = replace(query, mixture=replace(query.mixture, eta=eta))
    again = copy(explainer)  # the same models, data and settings; another space, and eta as it was
    again.space, again.mixture, again.eta_rule = query.space, query.mixture, None
    again.prior = WithEffort(explainer.prior, effort) if effort else explainer.prior
    again.jointly = again.jointly and query.mixture.combine == "any"
    used = explanation.seed if seed is None else seed_number(seed)
    again.prior.at(query.space, query.x0)  # a prior that cannot be placed is refused before models are asked
    again.ask_about_data(posterior.predictors, budget)
    refits = again.prepare_refits(posterior.target, budget)
    found = again.explain_encoded(query.x0, posterior.predictors, posterior.target, before.rules, used, budget, refits)
    found = replace(
        found, query=replace(found.query, conditions=query.conditions, effort=effort, settings=explainer.settings)
    )
    said = f" given that {' and '.join(found.conditions)}," if found.conditions else ""
    note = f"Asked anew{said} at eta = {query.mixture.eta:g}{' as before' * (eta is None)}."
    found = _drop_outside(found, query.conditions)
    first = 1 if found.status_note else 0
    return replace(found, notes=(*found.notes[:first], note, *found.notes[first:]))


def _require_possible(asked: Sequence[Condition], space: Space, *, sparse: bool) -> None:
    """Refuse one value of a real column where it has probability zero and nothing can be drawn."""
    for one in asked:
        j = space.position[one.name]
        if one.low is None or one.low != one.high or space.features[j].discrete:
            continue
        if space.is_computed[j] and not (sparse and one.kept):
            raise ValueError(f"{one.text}: {one.name!r} is computed from other columns; keep those instead")
        if not one.kept:
            raise ValueError(
                f"{one.text}: one value of a real column has probability zero unless it is the row's. Give a range, "
                f"between={{{one.name!r}: (low, high)}}, or explain the row with that value in it."
            )


def _drop_outside(found: Explanation, conditions: Sequence[Condition]) -> Explanation:
    """Return the explanation without decisions and seen points that break a condition.

    Draws never do, but rules that move from the row may come back to it where the row itself breaks one. Such a rule
    chooses among the points that are known, if it can.
    """
    draws, query = found.draws, found.query
    if draws.seen is not None:
        inside = meets(conditions, found, draws.seen.x)
        draws = replace(draws, seen=draws.seen.take(inside) if inside.any() else None)
    kept = [one for one in found.decisions if meets(conditions, found, one.x[None, :])[0]]
    lost = {one.label: one.rule for one in found.decisions if one not in kept}
    rules = tuple(rule for rule in dict.fromkeys(lost.values()) if rule is not None)
    again, _ = apply_known_rules(replace(query, rules=rules), draws)
    again = [one for one in again if one.label in lost and meets(conditions, found, one.x[None, :])[0]]
    decisions = sorted([*kept, *again], key=lambda one: [d.label for d in found.decisions].index(one.label))
    status, sentence = judge_status(query, draws.known, decisions, found.proof)
    notes = [sentence, *(note for note in found.notes if note != found.status_note)]
    gone = [label for label in lost if label not in [one.label for one in again]]
    if gone:
        notes.append(f"{', '.join(gone)} found no point that meets the conditions, and is left out.")
    return replace(
        found,
        draws=draws,
        decisions=tuple(decisions),
        status=status,
        status_note=sentence,
        notes=tuple(filter(None, notes)),
        answer=None if found.answer is None else answer_given(found.answer, query, draws, conditions),
    )


# --- what an explainer was made with, as texts -----------------------------------------------------------------------

_LONGEST = 300  # letters of a setting; of a longer one, such as a covariance, the beginning and a hash; by hand
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # where an object lies in memory says nothing to the next run
_PLAIN = ("builtins", "__main__", "numpy", "functools")  # homes of settings and functions that are no model's library


def say_settings(models: Iterable[Any], **settings: Any) -> tuple[tuple[str, str], ...]:
    """Return settings that are not ``None`` as texts by name, and the libraries that models come from.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> settings = dict(say_settings([LinearRegression()], sampler="SMC()", policy=None))
    >>> list(settings), settings["libraries"].split()[0]
    (['sampler', 'libraries'], 'sklearn')
    """
    said = {name: _say(value) for name, value in settings.items() if value is not None}
    roots = sorted({root for model in models for root in _roots(model)})
    known = [f"{root} {version}" for root in roots for version in [_version(root)] if version]
    return (*said.items(), *([("libraries", ", ".join(known))] if known else []))


def _say(value: Any) -> str:
    """Return a setting as a text that is the same in every run, and short."""
    text = _ADDRESS.sub("", printable(value if isinstance(value, str) else repr(value)))
    text = re.sub(r"\s+", " ", text)
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... (SHA-256 of all of it {hashlib.sha256(text.encode()).hexdigest()})"


def _roots(model: Any) -> set[str]:
    """Return the packages that a model and its parts come from."""
    parts = [model]
    try:
        parts += list(model.get_params(deep=True).values())
    except (AttributeError, TypeError):  # not an estimator, or a class of one
        parts += [getattr(model, "__self__", None)]
    homes = {(getattr(type(part), "__module__", None) or "").split(".")[0] for part in parts if part is not None}
    return homes - set(_PLAIN) - {""}


def _version(root: str) -> str:
    """Return the version of a package, empty where it says none."""
    version = getattr(sys.modules.get(root), "__version__", None)
    if isinstance(version, str):
        return printable(version)
    try:
        return metadata.version(root)
    except metadata.PackageNotFoundError:
        return ""


# --- whether an explanation was made with these models ---------------------------------------------------------------

_CHECK_SHARE = 10  # one part in so many of a budget may go into this check; chosen by hand
ADVICE = "Explain the row with this explainer, or use the one that the explanation was made with."


def require_own(explanation: Explanation, posterior: GibbsPosterior) -> None:
    """Refuse an explanation of other models, or of another prior, than the posterior has.

    A model is asked about a few dozen points of the explanation; one with an identity of its own, such as a remote
    one, is not asked, but compared by that.
    """
    points = _known_points(explanation)
    for k, predictor in enumerate(posterior.predictors):
        identity = explanation.query.identities[k] if k < len(explanation.query.identities) else None
        if identity is None and predictor.identity:
            continue  # a file of an earlier version does not tell
        if (identity or "") != predictor.identity:
            raise ValueError(
                f"the explanation was made with another model: {identity or explanation.models[k]}, where this "
                f"explainer has {predictor.identity or predictor.name}. {ADVICE}"
            )
        if not predictor.identity:
            panel = Panel((predictor,), posterior.budget)
            if panel.affords(1) == 0:  # a single row, without which nothing that is known can be handed over
                panel = Panel((predictor,), posterior.budget.without_deadline())
            most = max(panel.affords(_CHECK_SHARE * len(points.x)) // _CHECK_SHARE, 1)
            now = _output(panel.ask_some(points.x[:most])[0], posterior.target)
            _require_same(points.outputs[: most if now is None else len(now), k], now, predictor.name)
    if not same_answers(points.cost, posterior.prior.cost(points.x)):
        raise ValueError(f"the explanation was made with another prior than this explainer has. {ADVICE}")


def _known_points(explanation: Explanation) -> Points:
    """Return the row and some points that every model was asked about."""
    pool, row = explanation.draws.pool, explanation.row
    row = row.take(np.isfinite(row.log_correction))  # not one that breaks the conditions of a follow-up question
    asked = np.flatnonzero(np.isfinite(pool.log_correction))
    return Points.join([row, pool.take(asked[pick_rows(len(asked))])])


def _output(outputs: Outputs, target: Target) -> Array | None:
    """Return what a model says now about points, ``(n,)``, as an explanation keeps it; none where that is lost."""
    if not target.readable:  # from a file, which keeps no code; of a Loss it is known what it took for the output
        return outputs.values if isinstance(target, Loss) and outputs.values.ndim == 1 else None
    return target.read(outputs).output


def _require_same(before: Array, now: Array | None, name: str) -> None:
    if now is None or same_answers(before, now):
        return
    with np.errstate(invalid="ignore"):
        i = int(np.argmax(np.nan_to_num(np.abs(before - now))))  # infinite then and now is no difference
    raise ValueError(
        f"the explanation was made with another model: {name} says {now[i]:.4g} where it has {before[i]:.4g}, in one "
        f"of {len(before)} points that were asked about again. {ADVICE} (A model that answers differently each time "
        "cannot be asked again.)"
    )


# --- a bar for one explanation that takes its time -------------------------------------------------------------------

Progress = bool | Literal["auto"]

_DELAY = 1.0  # seconds before anything is shown, where nobody insisted; a convention: shorter is not waiting


def is_shown(progress: Any) -> bool:
    """Whether to show a bar; ``"auto"`` shows one on a terminal and in a notebook, not in pipes, scripts and tests.

    Examples
    --------
    >>> is_shown(True), is_shown(False)
    (True, False)
    """
    if isinstance(progress, str) and progress == "auto":
        shell = sys.modules.get("IPython")
        if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
            return True
        return sys.stderr is not None and sys.stderr.isatty()
    if not isinstance(progress, bool):
        raise ValueError(f'progress must be True, False or "auto", not {progress!r}')
    return progress


class _Bar:
    """Shows the stage and the model rows so far."""

    def __init__(self, insist: bool) -> None:
        self._bar = tqdm(
            desc="explaining",
            unit=" model rows",
            unit_scale=True,
            leave=False,
            delay=0.0 if insist else _DELAY,
            bar_format="{desc}: {n_fmt}{unit} in {elapsed}",
        )

    def begin(self, stage: str) -> None:
        self._bar.set_description_str(stage, refresh=False)

    def spend(self, rows: int) -> None:
        self._bar.update(rows)

    def close(self) -> None:
        self._bar.close()


@contextmanager
def watched(budget: Budget, progress: Any) -> Iterator[None]:
    """Show what is spent of a budget while the block runs, if that is wanted; nothing is left behind."""
    if not is_shown(progress):
        yield
        return
    bar = _Bar(insist=progress is True)
    budget.watch = bar
    try:
        yield
    finally:
        budget.watch = None
        bar.close()
