"""Steps around one explanation: apply the rules, answer follow-up questions with the models, record settings.

Also the check that an explanation belongs to an explainer, and the progress bar.
"""

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
    "describe_settings",
    "explain_given",
    "is_shown",
    "require_own",
    "watched",
]

_LONGEST = 300  # characters of a recorded setting; longer ones, such as a covariance, are cut and hashed; by hand
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # memory addresses in a repr, which differ between runs
_PLAIN = ("builtins", "__main__", "numpy", "functools")  # modules that are not a model's library
_CHECK_SHARE = 10  # the check of an explanation may take one part in ten of a budget, chosen by hand
ADVICE = "Explain the row with this explainer, or use the one that the explanation was made with."
Progress = bool | Literal["auto"]
_DELAY = 1.0  # seconds before progress="auto" shows a bar, a convention

# --- rules and policy ------------------------------------------------------------------------------------------------


class Decided(NamedTuple):
    """Choices of the rules with their notes, the policy's choice if any, and all decisions, the policy's last.

    ``depends`` and ``apart``: whether verdicts, and outputs by more than rounding, depend on the batch.
    """

    choices: list[tuple[Rule, Choice]]
    notes: list[str]
    by_policy: list[tuple[Rule, Choice]]
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
    """Apply rules and policy, evaluate their choices, and return them with the draws, extended by what was evaluated.

    If no point had reached the target and a rule finds one that does, all rules are applied again from there, unless
    the budget ends first.
    """

    def choose(known: Draws) -> Decided:
        choices, notes = apply_rules(query, known, posterior, further=0 if policy is None else 1)
        by_policy = [] if policy is None else [(policy, apply_policy(policy, query, known, posterior, refits, choices))]
        judged = evaluate_choices(query, posterior, [*choices, *by_policy], neighbours)
        return Decided(choices, [*notes, *judged.notes], by_policy, judged.decisions, judged.depends, judged.apart)

    first = choose(draws)
    more = add_reaching(posterior, draws, first.decisions)
    if more is draws:
        return first, draws
    second = choose(more)
    return second if len(second.decisions) >= len(first.decisions) else first, more


# --- follow-up questions ---------------------------------------------------------------------------------------------


def explain_given(
    explainer: "Explainer",
    explanation: Explanation,
    event: Event,
    eta: float | None,
    seed: int | None,
    budget: Budget,
) -> Explanation:
    """Explain the row of an explanation again under conditions, see :meth:`gbce.Explainer.given`."""
    posterior = explainer.own_posterior(require_explanation(explanation), budget)
    before = explanation.query
    conditions = () if eta is not None and event.empty else event.read(before)
    effort = event.read_effort(before)
    _require_possible(conditions, before.space, sparse=before.sparse)
    query, _ = with_conditions(before, conditions)
    if eta is not None:
        query = replace(query, mixture=replace(query.mixture, eta=eta))
    again = copy(explainer)  # the same models, data and settings; another space, and eta as it was
    again.space, again.mixture, again.eta_rule = query.space, query.mixture, None
    again.prior = WithEffort(explainer.prior, effort) if effort else explainer.prior
    again.jointly = again.jointly and query.mixture.combine == "any"
    used = explanation.seed if seed is None else seed_number(seed)
    again.prior.at(query.space, query.x0)  # a prior that does not fit raises before any model is called
    again.ask_about_data(posterior.predictors, budget)
    refits = again.prepare_refits(posterior.target, budget)
    found = again.explain_encoded(query.x0, posterior.predictors, posterior.target, before.rules, used, budget, refits)
    found = replace(
        found, query=replace(found.query, conditions=query.conditions, effort=effort, settings=explainer.settings)
    )
    given = f" given that {' and '.join(found.conditions)}," if found.conditions else ""
    note = f"Sampled again{given} at eta = {query.mixture.eta:g}{' as before' * (eta is None)}."
    found = _drop_outside(found, query.conditions)
    first = 1 if found.status_note else 0
    return replace(found, notes=(*found.notes[:first], note, *found.notes[first:]))


def _require_possible(conditions: Sequence[Condition], space: Space, *, sparse: bool) -> None:
    """Raise if a condition fixes a continuous column at a value of probability zero."""
    for one in conditions:
        j = space.position[one.name]
        if one.low is None or one.low != one.high or space.features[j].discrete:
            continue
        if space.is_computed[j] and not (sparse and one.kept):
            raise ValueError(f"{one.text}: {one.name!r} is computed from other columns; keep those instead")
        if not one.kept:
            raise ValueError(
                f"{one.text}: a single value of a real column has probability zero unless it is the row's. Give a "
                f"range, between={{{one.name!r}: (low, high)}}, or explain the row with that value in it."
            )


def _drop_outside(found: Explanation, conditions: Sequence[Condition]) -> Explanation:
    """Drop decisions and evaluated points that violate a condition; their rules choose among known points if they can.

    Draws never violate one, but a rule that starts from the row may return to it when the row itself does.
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
        notes.append(f"{', '.join(gone)} found no point that meets the conditions and is left out.")
    return replace(
        found,
        draws=draws,
        decisions=tuple(decisions),
        status=status,
        status_note=sentence,
        notes=tuple(filter(None, notes)),
        answer=None if found.answer is None else answer_given(found.answer, query, draws, conditions),
        strategies=None
        if found.strategies is None
        else found.strategies.keep_points(meets(conditions, found, found.strategies.x)),
    )


# --- recorded settings -----------------------------------------------------------------------------------------------


def describe_settings(models: Iterable[Any], **settings: Any) -> tuple[tuple[str, str], ...]:
    """Return settings that are not ``None`` as strings by name, and the libraries of the models.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> settings = dict(describe_settings([LinearRegression()], sampler="SMC()", policy=None))
    >>> list(settings), settings["libraries"].split()[0]
    (['sampler', 'libraries'], 'sklearn')
    """
    recorded = {name: _format_setting(value) for name, value in settings.items() if value is not None}
    packages = sorted({package for model in models for package in _find_packages(model)})
    known = [f"{package} {version}" for package in packages for version in [_find_version(package)] if version]
    return (*recorded.items(), *([("libraries", ", ".join(known))] if known else []))


def _format_setting(value: Any) -> str:
    """Return a setting as a short string that is the same in every run."""
    text = _ADDRESS.sub("", printable(value if isinstance(value, str) else repr(value)))
    text = re.sub(r"\s+", " ", text)
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... (SHA-256 of all of it {hashlib.sha256(text.encode()).hexdigest()})"


def _find_packages(model: Any) -> set[str]:
    """Return the top-level packages of a model and its parts."""
    parts = [model]
    try:
        parts += list(model.get_params(deep=True).values())
    except (AttributeError, TypeError):  # not an estimator, or a class of one
        parts += [getattr(model, "__self__", None)]
    homes = {(getattr(type(part), "__module__", None) or "").split(".")[0] for part in parts if part is not None}
    return homes - set(_PLAIN) - {""}


def _find_version(package: str) -> str:
    """Return the version of a package, empty if unknown."""
    version = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(version, str):
        return printable(version)
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


# --- check of an explanation's models --------------------------------------------------------------------------------


def require_own(explanation: Explanation, posterior: GibbsPosterior) -> None:
    """Raise if an explanation was made with other models or another prior than the posterior's.

    Models are compared by their identity if they have one (remote models), otherwise by their outputs at a few dozen
    points of the explanation.
    """
    points = _pick_points(explanation)
    for k, predictor in enumerate(posterior.predictors):
        identity = explanation.query.identities[k] if k < len(explanation.query.identities) else None
        if identity is None and predictor.identity:
            continue  # not recorded by an earlier version
        if (identity or "") != predictor.identity:
            raise ValueError(
                f"the explanation was made with another model: {identity or explanation.models[k]}, where this "
                f"explainer has {predictor.identity or predictor.name}. {ADVICE}"
            )
        if not predictor.identity:
            panel = Panel((predictor,), posterior.budget)
            if panel.affords(1) == 0:  # at least one row is needed for any result
                panel = Panel((predictor,), posterior.budget.without_deadline())
            most = max(panel.affords(_CHECK_SHARE * len(points.x)) // _CHECK_SHARE, 1)
            now = _read_output(panel.ask_some(points.x[:most])[0], posterior.target)
            _require_same(points.outputs[: most if now is None else len(now), k], now, predictor.name)
    if not same_answers(points.cost, posterior.prior.cost(points.x)):
        raise ValueError(f"the explanation was made with another prior than this explainer has. {ADVICE}")


def _pick_points(explanation: Explanation) -> Points:
    """Return the row and some points that all models evaluated."""
    pool, row = explanation.draws.pool, explanation.row
    row = row.take(np.isfinite(row.log_correction))  # the row may violate the conditions of a follow-up question
    evaluated = np.flatnonzero(np.isfinite(pool.log_correction))
    return Points.join([row, pool.take(evaluated[pick_rows(len(evaluated))])])


def _read_output(outputs: Outputs, target: Target) -> Array | None:
    """Return outputs ``(n,)`` as the target reads them; None if the target's code was lost in a file."""
    if not target.readable:  # a Loss without its function still reads plain outputs
        return outputs.values if isinstance(target, Loss) and outputs.values.ndim == 1 else None
    return target.read(outputs).output


def _require_same(before: Array, now: Array | None, name: str) -> None:
    if now is None or same_answers(before, now):
        return
    with np.errstate(invalid="ignore"):
        i = int(np.argmax(np.nan_to_num(np.abs(before - now))))  # infinite both times is no difference
    raise ValueError(
        f"the explanation was made with another model: {name} returns {now[i]:.4g} where it has {before[i]:.4g}, at "
        f"one of {len(before)} points that were evaluated again. {ADVICE} (A model with random outputs cannot be used "
        "again.)"
    )


# --- progress bar ----------------------------------------------------------------------------------------------------


def is_shown(progress: Any) -> bool:
    """Whether to show a bar; ``"auto"`` shows one on a terminal and in a notebook only.

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
    """A progress bar with the current stage and the model rows so far."""

    def __init__(self, at_once: bool) -> None:
        self._bar = tqdm(
            desc="explaining",
            unit=" model rows",
            unit_scale=True,
            leave=False,
            delay=0.0 if at_once else _DELAY,
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
    """Show a progress bar for a budget while the block runs, if ``progress`` asks for one."""
    if not is_shown(progress):
        yield
        return
    bar = _Bar(at_once=progress is True)
    budget.watch = bar
    try:
        yield
    finally:
        budget.watch = None
        bar.close()
