"""Compare recourse between groups of rows: availability, cost and reliability, pooled, tested, and taken apart.

What of a gap is the model's is measured on the same rows with the protected column changed; what refitted models make
of it stands beside what other rows would.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp, ndtr, ndtri, stdtrit

from gbce._numerics import seed_number
from gbce._validation import is_number, is_whole, show
from gbce.base import Array
from gbce.batch import ExplanationTable
from gbce.explanation import number_text
from gbce.policy._read import AnsweredRows, PolicyResult, ask_models, read_answers, read_groups, read_whole
from gbce.space import plain_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer

# The spread between groups has a half-Cauchy prior (Gelman, 2006) with the spread of the rows as its scale, which
# allows any number of groups, two included. The grid covers its quantiles from 0.1% to 99.9%.
_GRID, _ENDS = 400, (0.001, 0.999)
_MODERATION = 4.0  # rows that the common spread counts for in that of a group (Smyth, 2004, finds 3 to 5); by hand
_QUANTILE_STEPS = 60  # halvings of an interval of a mixture: to the last bit


@dataclass(frozen=True, eq=False)
class PooledMeans:
    """The posterior of the means of ``g`` groups: a mixture of normals over ``t`` spreads between groups."""

    weights: Array  # (t,) probability of each spread
    spreads: Array  # (t,)
    means: Array  # (t, g) given each spread
    covariances: Array  # (t, g, g) given each spread
    population: tuple[float, float]  # mean and standard deviation of the population's mean

    def mean(self, contrast: Array) -> float:
        """Return the posterior mean of a linear function ``(g,)`` of the means."""
        return float(self.weights @ (self.means @ contrast))

    def interval(self, contrast: Array, mass: float) -> tuple[float, float]:
        """Return the central interval of a linear function ``(g,)`` of the means."""
        return self._quantile(contrast, (1.0 - mass) / 2.0), self._quantile(contrast, (1.0 + mass) / 2.0)

    def probability_above(self, contrast: Array, value: float = 0.0) -> float:
        """Return the probability that a linear function ``(g,)`` of the means exceeds a value."""
        centre, sd = self._parts(contrast)
        return float(1.0 - self.weights @ _normal_below(value, centre, sd))

    def _parts(self, contrast: Array) -> tuple[Array, Array]:
        variance = np.einsum("tij,i,j->t", self.covariances, contrast, contrast)
        return self.means @ contrast, np.sqrt(np.maximum(variance, 0.0))

    def _quantile(self, contrast: Array, level: float) -> float:
        """Return a quantile of the mixture by bisection."""
        centre, sd = self._parts(contrast)
        low, high = float((centre - 12.0 * sd).min()), float((centre + 12.0 * sd).max())
        for _ in range(_QUANTILE_STEPS):
            middle = 0.5 * (low + high)
            below = float(self.weights @ _normal_below(middle, centre, sd)) < level
            low, high = (middle, high) if below else (low, middle)
        return 0.5 * (low + high)


def _normal_below(value: float, centre: Array, sd: Array) -> Array:
    """Return the probability below a value; a step where there is no spread."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sd > 0, ndtr((value - centre) / np.where(sd > 0, sd, 1.0)), value >= centre)


def pool_means(means: Array, errors: Array, scale: float) -> PooledMeans:
    """Return the posterior of the means ``(g,)`` of groups; one without rows has the standard error infinity."""
    known = np.isfinite(errors) & np.isfinite(means)
    y, variance = np.where(known, means, 0.0), np.where(known, np.square(errors), np.inf)
    levels = np.linspace(*_ENDS, _GRID)
    spreads = scale * np.tan(0.5 * np.pi * levels)  # equal probabilities of the half-Cauchy distribution
    total = np.square(spreads)[:, None] + variance  # (t, g)
    precision = np.where(known, 1.0 / np.maximum(total, np.finfo(float).tiny), 0.0)
    mass = precision.sum(axis=1)
    centre = (precision @ y) / mass
    fit = np.where(known, precision * np.square(y - centre[:, None]) - np.log(np.where(known, precision, 1.0)), 0.0)
    log_weights = -0.5 * fit.sum(axis=1) - 0.5 * np.log(mass)
    weights = np.exp(log_weights - logsumexp(log_weights))
    # given the spread: each mean is drawn to the population's, whose own uncertainty they share
    own = np.where(known, np.square(spreads)[:, None] * precision, 0.0)  # the weight of a group's own rows
    pooled = own * y + (1.0 - own) * centre[:, None]
    alone = np.where(known, own * np.where(known, variance, 0.0), np.square(spreads)[:, None])
    shared = (1.0 - own)[:, :, None] * (1.0 - own)[:, None, :] / mass[:, None, None]
    covariances = shared + alone[:, :, None] * np.eye(len(means))
    of_all = float(weights @ centre)
    spread_of_all = float(np.sqrt(weights @ (1.0 / mass + np.square(centre - of_all))))
    return PooledMeans(weights, spreads, pooled, covariances, (of_all, spread_of_all))


def moderate(values: list[Array]) -> tuple[Array, Array, float]:
    """Return the mean of the values of each group, its standard error, and the spread of the rows."""
    # the variance of a group is drawn to the common one, which counts for a few rows; the error is widened by the ratio
    # of Student's to normal quantiles, so that groups of few rows are not taken for certain
    n = np.array([len(one) for one in values], dtype=float)
    means = np.array([one.mean() if len(one) else np.nan for one in values])
    squares = np.array([np.square(one - one.mean()).sum() if len(one) else 0.0 for one in values])
    freedom = max(float((n - 1.0)[n > 0].sum()), 1.0)
    common = float(squares.sum()) / freedom
    own = np.maximum(n - 1.0, 0.0)
    variance = (squares + _MODERATION * common) / (own + _MODERATION)
    wider = stdtrit(np.minimum(own + _MODERATION, freedom + own.min() + 1.0), 0.975) / 1.959963984540054
    with np.errstate(divide="ignore"):
        errors = np.where(n > 0, wider * np.sqrt(variance / np.maximum(n, 1.0)), np.inf)
    return means, errors, float(np.sqrt(common))


_MEASURES = ("attainable", "cost", "chance")
_MEANINGS = {
    "attainable": "share of the rows with an answer that reaches the target",
    "cost": "mean cost of these answers, in units of each column's scale",
    "chance": "mean probability that a row reaches the target by its answer under execution noise, 0 without one",
}
_FEWEST_PERMUTATIONS = 100  # by convention: with fewer, a p-value of 0.05 is five of them
_FEWEST_REFITS = 2  # the spread of one model is unknown
_BOTH = 0.5  # the order in which a gap is taken apart does not matter: both are averaged


@dataclass(frozen=True, eq=False)
class Fairness(PolicyResult):
    """Recourse by group, as plain data. Made by :func:`gbce.policy.fairness`.

    Parameters
    ----------
    groups : DataFrame
        One line per group: ``rows``; ``failed`` and ``already``, which are excluded from the rest; then for each
        measure its mean over rows ``<measure>``, and the pooled mean ``<measure>_pooled`` with its interval
        ``<measure>_low`` and ``<measure>_high``. The measures are ``attainable`` (share with an answer), ``cost`` (of
        these answers) and ``chance`` (probability of success under execution noise, 0 without an answer).
    gaps : DataFrame
        One line per measure and group: its difference ``gap`` to ``reference``, pooled, with its interval, and the
        probability ``above`` that it is positive.
    tests : DataFrame
        By measure: the p-value of the hypothesis that rows are exchanged between groups without effect (a permutation
        test of the spread between group means), with its Monte Carlo error ``se``.
    parts : DataFrame
        One line per group, none unless the protected column was changed: the ``gap`` in cost to the reference over rows
        for which both costs are known, the ``model`` part (the same rows, the column changed) and the ``rows`` part
        (what is left), each with its interval, and ``n``.
    refits : DataFrame
        One line per group, none unless refitted models were given: ``chance``, the mean share of answers that they
        accept; ``se_rows``, its error from the rows, and ``se_models``, from the model.
    reference : object
        The group with which the others are compared.
    spread : Mapping of str to float
        By measure, the posterior mean of the standard deviation between groups.
    mass : float
        Probability of the intervals.
    note : str
        What was left out; empty if nothing.
    """

    groups: pd.DataFrame
    gaps: pd.DataFrame
    tests: pd.DataFrame
    parts: pd.DataFrame
    refits: pd.DataFrame
    reference: Any
    spread: Mapping[str, float]
    mass: float
    note: str = ""

    @property
    def sentences(self) -> list[str]:
        """What was found, in sentences: nothing is called a difference that the intervals do not show."""
        lines = []
        for (measure, group), line in self.gaps.iterrows():
            ends = f"({self.mass:.0%} interval: {number_text(line['low'], 2)} to {number_text(line['high'], 2)})"
            clear = "" if line["low"] > 0 or line["high"] < 0 else "; it contains 0, so no difference is shown"
            lines.append(f"{measure}: {group} minus {self.reference} is {number_text(line['gap'], 2)} {ends}{clear}.")
        for group, line in self.parts.iterrows():
            lines.append(
                f"Of the gap in cost of {group}, {number_text(line['gap'], 2)}, the model's part is "
                f"{number_text(line['model'], 2)} ({number_text(line['model_low'], 2)} to "
                f"{number_text(line['model_high'], 2)}), the rows' {number_text(line['rows'], 2)}."
            )
        return [*lines, self.note] if self.note else lines

    def __repr__(self) -> str:
        return f"<Fairness: {len(self.groups)} groups against {self.reference!r}; print(...) says more>"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, ready for JSON."""
        tables = {name: getattr(self, name) for name in ("groups", "gaps", "tests", "parts", "refits")}
        return {name: plain_records(table) for name, table in tables.items()} | {
            "reference": str(self.reference),
            "spread": dict(self.spread),
            "mass": self.mass,
            "meanings": dict(_MEANINGS),
            "note": self.note,
        }

    def plot(self, measure: str = "cost", *, ax: "Axes | None" = None) -> "Axes":
        """Plot a measure by group, see :func:`gbce.plots.plot_fairness`."""
        from gbce.plots import plot_fairness

        return plot_fairness(self, measure, ax=ax)


def fairness(
    table: Any,
    groups: Any,
    *,
    reference: Any = None,
    explainer: "Explainer | None" = None,
    protected: str | None = None,
    refits: Any = None,
    mass: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
) -> Fairness:
    """Compare recourse between groups of rows: how often there is an answer, what it costs, how often it works.

    Means are pooled by a hierarchy of population, groups and rows: those of small groups are drawn to the common mean,
    as far as the groups are alike, so that the most extreme group is not simply the smallest.

    Parameters
    ----------
    table : ExplanationTable, AnsweredRows or DataFrame
        The explained rows, as :func:`gbce.policy.read_answers` reads them.
    groups : str, sequence, Series or mapping
        A column, or the group of each row, in order or by label.
    reference : group, optional
        The group with which the others are compared; by default the one with most rows.
    explainer : Explainer, optional
        Needed for ``protected``, and for stored lines.
    protected : str, optional
        A column whose values are the groups. Each row is explained again with the value of the other group in it: what
        its cost changes by is the model's doing, not the row's. Name it only where you may ask this question.
    refits : list of models or ModelPosterior, optional
        Refitted models that are asked about the answers, to tell the model's uncertainty from that of the rows.
    mass : float
        Probability of the intervals.
    n_permutations : int
        Number of random exchanges of groups between rows.
    seed : int
        Of the permutations, and of what is explained again.

    Returns
    -------
    Fairness
        Plain data with ``.groups``, ``.gaps``, ``.tests``, ``.parts``, ``.refits``, ``.plot()``, ``.to_json(path)``.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:8], gbce.AtLeast(2), seed=0, posterior=False, progress=False)
    >>> fairness(table, list("aaaabbbb")).groups["rows"].to_dict()
    {'a': 4, 'b': 4}
    """
    if not is_number(mass) or not 0 < mass < 1:
        raise ValueError(f"mass must lie between 0 and 1, not {mass!r}")
    if not is_whole(n_permutations) or n_permutations < _FEWEST_PERMUTATIONS:
        raise ValueError(
            f"n_permutations must be an integer of at least {_FEWEST_PERMUTATIONS}, not {n_permutations!r}"
        )
    seed = seed_number(seed)
    rows = read_whole(table, explainer, words=False)
    labels = read_groups(groups, rows)
    names = list(pd.unique(labels))
    counted = ~rows.already & ~rows.failed
    sizes = {name: int((labels[counted] == name).sum()) for name in names}
    if len(names) < 2 or not any(sizes.values()):
        raise ValueError(
            "fairness compares groups: give at least two, with rows that do not reach the target as they are"
        )
    if reference is None:
        reference = max(sizes, key=lambda name: sizes[name])
    elif reference not in names:
        raise ValueError(f"reference: there is no group {show(reference)}; the groups are {names}")
    values = _measure(rows, counted)
    lines, gaps, spread = _compare(values, labels, names, reference, mass)
    counts = pd.DataFrame(
        {
            "rows": [int((labels == name).sum()) for name in names],
            "failed": [int((rows.failed & (labels == name)).sum()) for name in names],
            "already": [int((rows.already & (labels == name)).sum()) for name in names],
        },
        index=lines.index,
    )
    parts, note = pd.DataFrame(), ""
    if protected is not None:
        parts, note = _take_apart(table, rows, labels, names, reference, explainer, protected, mass, seed)
    return Fairness(
        pd.concat([counts, lines], axis=1), gaps, _test(values, labels, names, n_permutations, seed), parts,
        pd.DataFrame() if refits is None else _judge_by_refits(refits, rows, labels, names, counted), reference, spread,
        float(mass), note,
    )  # fmt: skip


# --- measures --------------------------------------------------------------------------------------------------------


def _measure(rows: AnsweredRows, counted: Array) -> dict[str, Array]:
    """Return each measure by row ``(n,)``; NaN for rows that do not count."""
    held = np.where(np.isfinite(rows.reliability[:, 0]), rows.reliability[:, 0], 1.0)
    return {
        "attainable": np.where(counted, rows.answered.astype(float), np.nan),
        "cost": np.where(counted & rows.answered, rows.cost, np.nan),
        "chance": np.where(counted, np.where(rows.answered, held, 0.0), np.nan),
    }


def _split(values: Array, labels: Array, names: list[Any]) -> list[Array]:
    """Return the known values of each group."""
    return [values[(labels == name) & np.isfinite(values)] for name in names]


def _pool(measure: str, by_group: list[Array]) -> tuple[Array, PooledMeans]:
    """Return the means of groups and their pooled posterior."""
    means, errors, scale = moderate(by_group)
    if measure == "attainable":  # a share of 0 or 1 is not certain: two successes and failures more (Agresti and Coull)
        n = np.array([len(one) for one in by_group], dtype=float)
        share = (np.where(n > 0, means, 0.0) * n + 2.0) / (n + 4.0)
        errors = np.where(n > 0, np.sqrt(share * (1.0 - share) / (n + 4.0)), np.inf)
        scale = float(np.sqrt(share.mean() * (1.0 - share.mean())))
    least = 1e-9 * max(float(np.nanmax(np.abs(means))), 1.0)  # rows that are all alike
    return means, pool_means(means, np.maximum(errors, least), max(scale, least))


def _compare(
    values: dict[str, Array], labels: Array, names: list[Any], reference: Any, mass: float
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, float]]:
    """Return the pooled measures of groups, the gaps to the reference, and the spread between groups."""
    columns: dict[str, list[float]] = {}
    gaps: dict[tuple[str, Any], dict[str, float]] = {}
    spread, unit = {}, np.eye(len(names))
    for measure in _MEASURES:
        by_group = _split(values[measure], labels, names)
        if sum(map(len, by_group)) < 2:
            raise ValueError(
                f"fairness: fewer than two rows have a {measure} to compare; explain more rows, or ask for an easier "
                "target"
            )
        _, pooled = _pool(measure, by_group)
        least, most = (0.0, 1.0) if measure != "cost" else (0.0, np.inf)
        ends = [pooled.interval(one, mass) for one in unit]
        columns |= {
            measure: [float(one.mean()) if len(one) else float("nan") for one in by_group],
            f"{measure}_pooled": [float(np.clip(pooled.mean(one), least, most)) for one in unit],
            f"{measure}_low": [float(np.clip(low, least, most)) for low, _ in ends],
            f"{measure}_high": [float(np.clip(high, least, most)) for _, high in ends],
        }
        spread[measure] = float(pooled.weights @ pooled.spreads)
        for i, name in enumerate(names):
            if name == reference:
                continue
            contrast = unit[i] - unit[names.index(reference)]
            low, high = pooled.interval(contrast, mass)
            gaps[measure, name] = {
                "gap": pooled.mean(contrast), "low": low, "high": high, "above": pooled.probability_above(contrast),
            }  # fmt: skip
    index = pd.Index(names, name="group")
    found = pd.DataFrame.from_dict(gaps, orient="index")
    found.index = pd.MultiIndex.from_tuples(list(gaps), names=["measure", "group"])
    return pd.DataFrame(columns, index=index), found, spread


# --- tests -----------------------------------------------------------------------------------------------------------


def _test(values: dict[str, Array], labels: Array, names: list[Any], n: int, seed: int) -> pd.DataFrame:
    """Return the permutation p-value of equal means in all groups, by measure."""
    lines = {}
    for measure in _MEASURES:
        known = np.isfinite(values[measure])
        found = values[measure][known]
        code = np.array([names.index(label) for label in labels[known]])
        observed, rng = _spread_between(found[None, :], code, len(names))[0], np.random.default_rng(seed)
        more, block = 0, max(1, 1_000_000 // max(len(found), 1))
        for start in range(0, n, block):
            size = min(block, n - start)
            shuffled = rng.permuted(np.tile(found, (size, 1)), axis=1)
            more += int((_spread_between(shuffled, code, len(names)) >= observed * (1 - 1e-12)).sum())
        p = (more + 1) / (n + 1)
        lines[measure] = {"p": p, "se": float(np.sqrt(p * (1 - p) / n)), "rows": int(known.sum())}
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("measure")


def _spread_between(values: Array, code: Array, g: int) -> Array:
    """Return the sum of squares between the means of groups, for values ``(k, n)``: ``(k,)``."""
    inside = np.eye(g)[code]
    n = inside.sum(axis=0)
    means = values @ inside / np.maximum(n, 1.0)
    return np.asarray((n * np.square(means - values.mean(axis=1, keepdims=True))).sum(axis=1))


# --- the model's part ------------------------------------------------------------------------------------------------


def _take_apart(
    table: Any,
    rows: AnsweredRows,
    labels: Array,
    names: list[Any],
    reference: Any,
    explainer: "Explainer | None",
    protected: str,
    mass: float,
    seed: int,
) -> tuple[pd.DataFrame, str]:
    """Explain rows again with another value of the protected column; split gaps in cost into the model's and the rows'.

    The gap between group b and the reference a is E_b[c(x, b)] - E_a[c(x, a)]. The model's part compares c(x, b) with
    c(x, a) for the same rows, the rows' part the rows for the same value; both orders are averaged (Kitagawa, 1955).
    """
    space = rows.space
    if explainer is None:
        raise ValueError("protected: give explainer=, the one that explained the rows, to explain them again")
    if protected not in space.position:
        raise ValueError(f"protected: there is no column {protected!r}; the columns are {list(space.names)}")
    j = space.position[protected]
    value_of = {}
    for name in names:
        codes = np.unique(rows.x0[labels == name, j])
        if len(codes) != 1:
            raise ValueError(
                f"protected: the rows of group {show(name)} have {len(codes)} values of {protected!r}; the groups must "
                f"be its values, so that one can stand in for another: groups={protected!r}"
            )
        value_of[name] = codes[0]
    if rows.target is None or not isinstance(table, ExplanationTable):
        raise ValueError("protected: stored lines do not record how the rows were explained; give the table itself")
    cost = np.where(rows.answered & ~rows.already & ~rows.failed, rows.cost, np.nan)
    lines, lost = {}, 0
    for name in names:
        if name == reference:
            continue
        flipped = {}
        for group, other in ((name, reference), (reference, name)):
            where = np.flatnonzero((labels == group) & np.isfinite(cost))
            changed = rows.x0[where].copy()
            changed[:, j] = value_of[other]
            fits = np.ones(len(where), dtype=bool)
            misfit = space.misfits(changed)["row"].to_numpy(dtype=int)
            fits[misfit] = False
            again = np.full(len(where), np.nan)
            if fits.any():
                asked = space.frame(changed[fits]) if space.columns is not None else changed[fits]
                found = read_answers(
                    explainer.explain_many(
                        asked, rows.target, rules=["Nearest"], seed=seed, posterior=False, progress=False
                    )
                )
                again[fits] = np.where(found.already, 0.0, np.where(found.answered, found.cost, np.nan))
            lost += int(np.isnan(again).sum())
            flipped[group] = cost[where], again
        lines[name] = _split_gap(*flipped[name], *flipped[reference], mass)
    note = (
        f"{lost} rows have no cost with the other value of {protected!r} and are left out of the parts." if lost else ""
    )
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("group"), note * bool(lost)


def _split_gap(own_b: Array, as_a: Array, own_a: Array, as_b: Array, mass: float) -> dict[str, float]:
    """Split a gap in mean cost: ``own_b``, ``as_a`` belong to the rows of b, ``own_a``, ``as_b`` to those of a."""
    known_b, known_a = np.isfinite(as_a), np.isfinite(as_b)
    b, b_as_a, a, a_as_b = own_b[known_b], as_a[known_b], own_a[known_a], as_b[known_a]
    nan = float("nan")
    if len(a) < 2 or len(b) < 2:
        names = ("gap", "model", "model_low", "model_high", "rows", "rows_low", "rows_high")
        return dict.fromkeys(names, nan) | {"n": float(len(a) + len(b))}
    # each part is a mean over the rows of b plus one over those of a, so that its error follows from both
    in_b, in_a = _BOTH * (b - b_as_a), _BOTH * (a_as_b - a)
    rest_b, rest_a = _BOTH * (b + b_as_a), -_BOTH * (a_as_b + a)
    found: dict[str, float] = {"gap": float(b.mean() - a.mean())}
    for name, one, other in (("model", in_b, in_a), ("rows", rest_b, rest_a)):
        _, errors, _ = moderate([one, other])
        middle = float(one.mean() + other.mean())
        half = float(np.hypot(*errors)) * float(ndtri(0.5 + mass / 2.0))
        found |= {name: middle, f"{name}_low": middle - half, f"{name}_high": middle + half}
    return found | {"n": float(len(a) + len(b))}


# --- refitted models -------------------------------------------------------------------------------------------------


def _judge_by_refits(refits: Any, rows: AnsweredRows, labels: Array, names: list[Any], counted: Array) -> pd.DataFrame:
    """Return the share of answers that refitted models accept, by group, with its errors from rows and from models."""
    if rows.target is None:
        raise ValueError("refits: the rows have no recorded target, or several: give the table itself, of one target")
    where = np.flatnonzero(rows.answered & counted)
    reached = ask_models(refits, rows.space, rows.target, rows.answers[where], rows.x0[where][:100]).reached
    k = len(reached)
    if k < _FEWEST_REFITS:
        raise ValueError(f"refits: at least {_FEWEST_REFITS} models are needed to see how they differ, not {k}")
    lines = {}
    for name in names:
        own = reached[:, labels[where] == name].astype(float)
        n = own.shape[1]
        if n == 0:
            lines[name] = {"chance": np.nan, "se_rows": np.nan, "se_models": np.nan, "n": 0}
            continue
        by_row, by_model = own.mean(axis=0), own.mean(axis=1)  # the same rows for each model, the same models for each
        lines[name] = {
            "chance": float(own.mean()),
            "se_rows": float(by_row.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan,
            "se_models": float(by_model.std(ddof=1)),
            "n": n,
        }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("group")
