"""Defaults, status and notes of an explanation, and the records of a run.

The prior and column order assumed for a table, the sampling budget if none is set, the last searches before a target is
called unattained, and the sentences that report the outcome.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from importlib import metadata
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from gbce._numerics import DECIDING, DOUBTING, WIDE_ROUNDING, stream
from gbce._validation import current_options, is_count, printable, short
from gbce.base import Array, Prior, Query, Rule, Sampler
from gbce.budget import HALF, Budget, BudgetSpentError, progress_bar
from gbce.decisions import Decision
from gbce.draws import Covering, Draws, Points, Scene
from gbce.eta import Calibration
from gbce.explanation import Status
from gbce.posterior import GibbsPosterior
from gbce.predictors import Classifier, PredictionError, fitted_columns
from gbce.priors import Gaussian, LocatedPrior, Sparse
from gbce.search import BestPerLevel, StepsFromRow, polish_mode, walk
from gbce.space import Assumptions, Space, has_labels
from gbce.trees import Proof

_MOVES = 3.0  # expected number of changed columns under the default prior: what a person can act on at once; by hand
_PRIOR_NOTE = "About three columns change. Set `prior=` to allow more or fewer."
_WORTH_A_NOTE = 0.1  # difference in log density that deserves a sentence, chosen by hand
# Multiple of the rows of a usual explanation that sampling may spend while no point reaches the target. Measured
# without a limit: 250,000 to 1.6 million rows for one row of a school table whose forest cannot reach the target. Ten
# is generous for targets that are hard to reach; chosen by hand.
ROWS_TIMES = 10
# The same where eta is sought, whether or not a point reaches the target. Of 200 rows of benchmarks/target.py none
# needed as many.
GOAL_ROWS_TIMES = 5
_STEEP = 1e6  # factor on eta in a search for least loss: a thousandth of a unit of loss outweighs hundreds of cost

# --- assumed prior and column order ----------------------------------------------------------------------------------


def assume_prior(space: Space, data: Any) -> tuple[Prior, str]:
    """Return the default prior, sparse for a frame and else the paper's Gaussian, and a sentence for the notes."""
    return (Sparse(moves=_MOVES), _PRIOR_NOTE) if has_meaning(space, data) else (Gaussian(), "")


def note_assumptions(space: Space, prior: str) -> str:
    """Return one note on all that was assumed about the table, and the ``prior``; empty if nothing was."""
    assumptions = Assumptions() if space.assumed is None else space.assumed
    return assumptions.note(*([prior] if prior else []))


def has_meaning(space: Space, data: Any) -> bool:
    """Whether columns have a meaning each: those of a frame, unless the space is :meth:`gbce.Space.real`."""
    return has_labels(data) and not (space.assumed is None and space.free_reals)


def infer_space(data: Any, models: Sequence[Any]) -> Space:
    """Infer the space of the data; columns of an array get the names that the first model knows."""
    space = Space.infer(data)
    names = next((found for found in map(_fitted_names, models) if found), [])
    if has_labels(data) or len(names) != len(space) or len(set(names)) < len(names):
        return space
    return space.named(names, space.encode(data, what="data"))


def _fitted_names(model: Any) -> list[str]:
    """Return the names of the columns a model was fitted on, empty if it does not know them."""
    return fitted_columns(model.model if isinstance(model, Classifier) else model)


def order_by_model(space: Space, models: Sequence[Any], prior: Any) -> Space:
    """Order features as the first model that names its columns, unless the prior refers to positions in the data."""
    if _refers_to_positions(prior):
        return space
    return space.ordered_by(next((names for names in map(_fitted_names, models) if names), []))


def _refers_to_positions(option: Any) -> bool:
    """Whether an option may refer to features by position: a matrix, a function of rows, or an unknown object."""
    if option is None or isinstance(option, (bool, str, int, float, np.generic)):
        return False
    if is_dataclass(option) and not isinstance(option, type) and not callable(option):
        return any(_refers_to_positions(getattr(option, one.name)) for one in fields(option))
    return True


# --- status and notes ------------------------------------------------------------------------------------------------


def judge_status(
    query: Query, known: Points, decisions: Sequence[Decision], proof: Proof | None = None, depends: bool = False
) -> tuple[Status, str]:
    """Return the status, and a sentence unless attainable; if outputs ``depend`` on the batch, by decisions only."""
    target, row = query.target.describe(), query.row
    if row.reached[0, 0]:
        now = short(row.outputs[0, 0])
        reaches = f"The row already reaches the target ({target}), output {now}: nothing has to change."
        return Status.ALREADY_REACHED, reaches
    if any(one.reached[0] for one in decisions) if depends else known.reached[:, 0].any():
        return Status.ATTAINABLE, ""
    loss = np.append(known.loss[:, 0], [decision.loss[0] for decision in decisions])
    best = np.append(known.outputs[:, 0], [decision.outputs[0] for decision in decisions])[int(np.argmin(loss))]
    seen = f"best seen is {short(float(best))}, against {short(row.outputs[0, 0])} now"
    if proof is not None:
        return Status.NOT_ATTAINED, f"{proof.sentence} The {seen}. Widen the bounds, or ask for less."
    return Status.NOT_ATTAINED, (
        f"None of {len(known):,} evaluated points reaches the target ({target}); the {seen}. "
        "This is a search, not a proof: widen the prior or the bounds, or ask for less."
    )


def flag_missed_mass(
    query: Query,
    posterior: GibbsPosterior,
    draws: Draws,
    cover: Covering | None,
    decisions: Sequence[Decision],
    apart: bool,
) -> Draws:
    """Flag draws that missed mass near a decision or an evaluated point, or whose outputs vary with the batch."""
    if apart:
        return replace(draws, info=replace(draws.info, doubt="the outputs of the model depend on the batch"))
    if cover is None or draws.info.doubt is not None:
        return draws
    rng = stream(query.seed, DOUBTING, query.key)
    where = _find_unexplained(query, posterior, cover, decisions, rng) if decisions else ""
    if not where and draws.seen is not None and _is_seen_unexplained(query, posterior, cover, draws.seen, rng):
        where = "a point that was seen"
    if not where:
        return draws
    return replace(draws, info=replace(draws.info, doubt=f"{where} has a density that the draws do not explain"))


def _find_unexplained(
    query: Query, posterior: GibbsPosterior, cover: Covering, decisions: Sequence[Decision], rng: np.random.Generator
) -> str:
    """Return the label of the first decision near which the draws missed mass, empty if there is none."""
    x = np.array([decision.x for decision in decisions])
    z = posterior.prior.locate(x)
    placed = posterior.prior.place(z)
    loss = np.array([decision.loss for decision in decisions])
    unread = np.zeros(loss.shape)
    points = Points(z, placed.x, unread, loss, unread > 0, placed.cost, placed.log_correction)
    # a decision at a bound, or inside an interval that maps to one value, has no unique latent point
    same = np.isclose(placed.x, x, rtol=WIDE_ROUNDING, atol=0.0, equal_nan=True).all(axis=1)
    # dwarfed() needs no draws around the point: a corner cut off by rounding, or oblique to the axes, may have none,
    # and the rungs of a tempered run that missed a mode would claim to have covered it
    certain = cover.dwarfed(points, query.mixture)
    beyond = np.flatnonzero(same & (certain | cover.unexplained(points, query.mixture)))
    if len(beyond):  # a narrow mode of negligible mass is no reason for a flag
        with suppress(BudgetSpentError):
            beyond = np.array(
                [i for i in beyond if certain[i] or cover.has_missed_mass_near(posterior, rng, z[i])], dtype=int
            )
    return decisions[beyond[0]].label if len(beyond) else ""


def _is_seen_unexplained(
    query: Query, posterior: GibbsPosterior, cover: Covering, seen: Points, rng: np.random.Generator
) -> bool:
    """Whether the draws missed mass near the most probable of the evaluated points ``seen``."""
    beyond = np.flatnonzero(cover.unexplained(seen, query.mixture))
    if len(beyond) == 0:
        return False
    best = beyond[int(np.argmin(query.mixture.objective(seen.loss[beyond], seen.cost[beyond])))]
    with suppress(BudgetSpentError):
        return cover.has_missed_mass_near(posterior, rng, seen.z[best])
    return True


def note_few_rows(draws: Draws, policy: Rule | None) -> str:
    """Say what few model rows could not tell."""
    allowed: int | None = getattr(draws.info, "few_rows", None)
    if allowed is None:
        return ""
    untold = "whether a cheaper point exists"
    if policy is not None and getattr(policy, "probability", None) is None:
        untold += " or a more reliable one"
    return (
        f"With only {allowed:,} model rows, the search ran on a surrogate fitted to the known outputs, and the model "
        f"confirmed what it found. They cannot show {untold}, nor what else reaches the target."
    )


def note_hanging(posterior: GibbsPosterior) -> str:
    """Note that a model hangs, so that only earlier results are reported."""
    lost = posterior.budget.root.lost
    return " ".join(f"{one.name} {lost[id(one.ask)]}." for one in posterior.predictors if id(one.ask) in lost)


def note_calibration(calibration: Calibration | None, eta: float) -> str:
    """Note that no eta meets the rule."""
    if calibration is None or calibration.met:
        return ""
    return (
        f"{calibration.rule} could not be met: eta = {eta:g} comes closest, and its figures are below. "
        "Ask for less, widen the prior, or allow a larger budget."
    )


def note_shortfall(query: Query, status: Status, decisions: Sequence[Decision]) -> str:
    """Note that the mode misses a target that can be reached, because it trades loss against distance."""
    mode = _find_mode(decisions)
    if status != Status.ATTAINABLE or mode is None or mode.reached[0]:
        return ""
    output, target = float(mode.outputs[0]), query.target.describe()
    shown = (
        short(output) if short(output) not in target else f"{output:.8g}"
    )  # "at least 500", but the output is 499.99
    return (
        f"{mode.label} falls short of the target ({target}): its output is {shown}, because the most probable point "
        "trades loss against distance. A larger eta, a tolerance, or gbce.ChanceConstrained() reaches it."
    )


def note_mode(query: Query, decisions: Sequence[Decision]) -> str:
    """Note that another decision is more probable than the mode found, which starts from the best draws only."""
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
        f"(objective {short(objective[best])} against {short(objective[0])}): use more candidates to find the mode."
    )


def _find_mode(decisions: Sequence[Decision]) -> Decision | None:
    """Return the first decision by a rule that seeks the mode."""
    answers = (d for d in decisions if d.rule is not None and d.rule.seeks_mode and not d.beside)
    return next(answers, None)


# --- default sampling budget -----------------------------------------------------------------------------------------


def limit_sampling(budget: Budget, sampler: Sampler, n_models: int, jointly: bool, seeks_eta: bool = False) -> Budget:
    """Limit rows for samplers of known size if nobody did; the limit rises at a point that reaches, not for a goal."""
    usual: Any = getattr(sampler, "usual_rows", None)
    if budget.limited or jointly or not is_count(usual):
        return budget
    times = GOAL_ROWS_TIMES if seeks_eta else ROWS_TIMES
    return budget.under(int(times * usual) * n_models, rises=not seeks_eta)


def note_end(draws: Draws, spent: Budget, eta: float | None) -> str:
    """Note what ended the sampling before its time; ``eta`` is the requested one, if it was a number."""
    if draws.info.complete:
        return ""
    reached, wanted = draws.rungs[-1], "" if eta is None else f" of {eta:g}"
    if draws.info.ended is not None:
        return (
            f"Sampling ended at eta = {reached:g}{wanted}, because {draws.info.ended}: this is the posterior there. "
            "A larger eta would pull it closer to the best point seen."
        )
    if spent.met_ceiling:
        limit = f"{spent.rows:,} model rows, the default limit: this is the posterior at eta = {reached:g}{wanted}"
        start = "Sampling ended after" if spent.lifted else "No point reached the target within"
        return f"{start} {limit}. Set max_model_rows to allow more."
    if eta is None or reached < eta:
        return f"The budget ran out at eta = {reached:g}{wanted}: this is the posterior there, not the requested one."
    return f"The budget ran out after {len(draws.pool):,} evaluated points, before the sampler had all its draws."


# --- search for points that reach the target -------------------------------------------------------------------------


def seek_reach(query: Query, posterior: GibbsPosterior, draws: Draws, data: Array) -> Draws:
    """Search for points that reach the target if none is known, among values of ``data`` ``(n, d)``, and add them."""
    if draws.known.reached[:, 0].any():
        return draws
    prior = posterior.prior
    limited = replace(posterior, budget=posterior.budget.share(HALF))
    best = BestPerLevel.empty(np.ones(1), prior.x0)

    def judge(x: Array) -> tuple[Array, Array]:
        evaluated = limited.evaluate_first(x)
        return evaluated.reached[:, 0].astype(float), evaluated.loss[:, 0]

    walk(judge, prior.cost, StepsFromRow.of(prior.space, prior.x0, data), best)
    with suppress(BudgetSpentError):
        if len(best.filled):
            return _add_seen(draws, [_locate(prior, best.filled, *posterior.evaluate(best.filled))])
    return minimise_loss(query, limited, draws)


def minimise_loss(query: Query, posterior: GibbsPosterior, draws: Draws) -> Draws:
    """Minimise the loss regardless of cost, and add the result to the evaluated points of the draws."""
    steep = replace(posterior.mixture, eta=_STEEP * posterior.mixture.eta)
    scene = Scene(replace(query, mixture=steep), draws, stream(query.seed, DECIDING, query.key))
    return _add_seen(draws, polish_mode(scene, replace(posterior, mixture=steep)))


def add_reaching(posterior: GibbsPosterior, draws: Draws, decisions: Sequence[Decision]) -> Draws:
    """Add decisions that reach the target to the evaluated points if no other does, so that all rules know them."""
    found = [decision for decision in decisions if decision.reached[0]]
    if not found or draws.known.reached[:, 0].any():
        return draws
    x, *results = (np.array([getattr(one, name) for one in found]) for name in ("x", "outputs", "loss", "reached"))
    return _add_seen(draws, [_locate(posterior.prior, x, *results)])


def _locate(prior: LocatedPrior, x: Array, outputs: Array, loss: Array, reached: Array) -> Points:
    """Return evaluated rows ``(k, d)`` as points, with latent coordinates and prior cost."""
    return Points(prior.locate(x), x, outputs, loss, reached, prior.cost(x), np.zeros(len(x)))


def _add_seen(draws: Draws, points: Sequence[Points]) -> Draws:
    """Add evaluated points to the draws."""
    before = [] if draws.seen is None else [draws.seen]
    return replace(draws, seen=Points.join([*before, *points])) if points else draws


# --- records -----------------------------------------------------------------------------------------------------


P = ParamSpec("P")
T = TypeVar("T")

_LONGEST = 300  # characters of a recorded setting; longer ones, such as a covariance, are cut and hashed; by hand
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # memory addresses in a repr, which differ between runs
_PLAIN = ("builtins", "__main__", "numpy", "functools")  # modules that are not a model's library
Progress = bool | Literal["auto"]
_DELAY = 1.0  # seconds before progress="auto" shows a bar, a convention

# --- recorded settings -----------------------------------------------------------------------------------------------


def describe_settings(models: Iterable[Any], **settings: Any) -> tuple[tuple[str, str], ...]:
    """Return settings that are not ``None`` as strings by name, and the libraries of the models."""
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


# --- progress bar ----------------------------------------------------------------------------------------------------


def is_shown(progress: Any) -> bool:
    """Whether to show a bar; ``"auto"`` shows one on a terminal and in a notebook only."""
    set_for_all = current_options().progress
    progress = progress if set_for_all is None else set_for_all
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
        self._bar = progress_bar(
            desc="explaining",
            unit=" model rows",
            unit_scale=True,
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


# --- errors of models ------------------------------------------------------------------------------------------------


def short_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Return a method whose prediction errors show the traceback of the model, and of the package only this call."""

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except PredictionError as error:
            raise error.with_traceback(None) from error.__cause__

    return call
