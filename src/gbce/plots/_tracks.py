"""Before-and-after plots: one line per changed column, from the row's value to that of a decision, with a band.

The band is the range in which the decision still works, or the range of similar draws.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from gbce._numerics import weighted_quantile
from gbce.base import Array
from gbce.decisions import Decision, Rule, answers_among, match_label
from gbce.explanation import Explanation, changed_columns, number_text
from gbce.metrics import signed_changes
from gbce.plots._features import draw_boxes, level_boxes, spread_wide
from gbce.plots._style import (
    ANSWER,
    EDGE,
    QUIET,
    REACHING,
    SAFE,
    accepted_outputs,
    broken_text,
    finish_axes,
    literal_text,
    new_axes,
    put_legend_outside,
    short_text,
    target_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SafeRanges: TypeAlias = Mapping[str, Any] | pd.DataFrame


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    mass: float = 0.9  # share of the draws that a band covers
    fewest_draws: int = 20  # for a band; with fewer its ends would be single draws
    # significant digits of a number: as few as distinguish the two values
    digits: tuple[int, int, int, int, int] = (3, 4, 6, 9, 17)
    longest_value: int = 18  # characters
    band_height: float = 0.26  # in units of a line
    margin: float = 0.16  # on both sides of the tracks, for values, in units of a track
    track_inches: float = 4.4  # approximate width of a track
    pad: float = 0.06  # padding at both ends of a line, as a share of its span
    least_gap: float = 0.055  # between two marks, in units of a line
    no_move: float = 0.08  # units of a line below which there is no room for an arrow
    line: float = 0.62  # inches between two columns
    room: float = 1.2  # inches for title, legend and caption


_LAYOUT = _Layout()

# --- tracks ----------------------------------------------------------------------------------------------------------


def draw_tracks(
    ax: "Axes",
    explanation: Explanation,
    decision: Decision,
    columns: list[int],
    *,
    safe: SafeRanges | None = None,
    legend: bool = True,
) -> None:
    """Draw a line for the first model's output and one for each of ``columns``, from the row to a decision."""
    labels = ["the model says" if len(explanation.models) == 1 else short_text(f"{explanation.models[0]} says", 28)]
    output = _build_output_track(explanation, decision)
    _draw_track(ax, 0, output)
    wanted, bands = output.band is not None, set[str]()
    if columns:
        ax.axhline(0.5, color="#cccccc", lw=0.8)
    ranges = _read_safe(explanation, safe)
    near = _find_similar_draws(explanation, decision)
    for line, j in enumerate(columns, start=1):
        feature = explanation.space.features[j]
        labels.append(broken_text(explanation.space.label(j), 28))
        if feature.unordered:
            bands.add(_draw_levels(ax, line, explanation, decision, j, ranges))
            continue
        track = _build_feature_track(explanation, decision, j, ranges, near)
        bands.add(_draw_track(ax, line, track))
        labels[-1] += "\n(log scale)" if track.log else ""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.6)
    ax.set_xlim(-_LAYOUT.margin, 1.0 + _LAYOUT.margin)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0)
    if legend:
        _draw_legend(ax, decision, wanted, bands)


@dataclass(frozen=True)
class _Track:
    """One line: its ends, the old and the new value with their labels, and a band, all in the line's own unit."""

    low: float
    high: float
    now: float
    then: float
    labels: tuple[str, str]
    band: tuple[float, float] | None = None
    band_label: str = ""
    colour: str = ""
    log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value on a line from zero to one; missing values are at its left end."""
        if np.isnan(value):
            return 0.0
        value = min(max(value, self.low), self.high)
        low, high, value = np.log([self.low, self.high, value]) if self.log else (self.low, self.high, value)
        return float((value - low) / (high - low)) if high > low else 0.5


def _draw_track(ax: "Axes", y: float, track: _Track) -> str:
    """Draw a line and return the colour of its band, empty without one."""
    from matplotlib.patches import Rectangle  # slow to import

    ax.add_patch(Rectangle((0.0, y - 0.015), 1.0, 0.03, facecolor="#d5d9de", lw=0, zorder=1))
    now, then = _separate(track.at(track.now), track.at(track.then))
    if track.band is not None:
        low, high = (track.at(end) for end in track.band)
        width = max(high - low, 0.006)
        band = Rectangle(
            (low, y - _LAYOUT.band_height / 2), width, _LAYOUT.band_height, facecolor=track.colour, lw=0, zorder=1.5
        )
        ax.add_patch(band)
        middle = float(np.clip((low + high) / 2, 0.1, 0.9))
        ax.text(
            middle, y + _LAYOUT.band_height * 0.6, track.band_label, ha="center", va="top", fontsize=7.5, color=QUIET
        )
    _mark_ends(ax, now, then, y, y)
    outward = ("right", "left") if now <= then else ("left", "right")
    for place, text, side, weight in zip((now, then), track.labels, outward, ("normal", "bold"), strict=True):
        start = place + (0.015 if side == "right" else -0.015)
        ax.text(
            start, y - _LAYOUT.band_height * 0.6, text, ha=side, va="bottom", fontsize=9.5, color=EDGE,
            fontweight=weight, zorder=6,
        )  # fmt: skip
    return track.colour if track.band is not None else ""


def _separate(now: float, then: float) -> tuple[float, float]:
    """Move two positions on a line apart if one mark would cover the other."""
    if abs(then - now) >= _LAYOUT.least_gap:
        return now, then
    middle, side = (now + then) / 2, 1.0 if then >= now else -1.0
    return middle - side * _LAYOUT.least_gap / 2, middle + side * _LAYOUT.least_gap / 2


def _mark_ends(ax: "Axes", now: float, then: float, y: float, y_then: float) -> None:
    if abs(then - now) > _LAYOUT.no_move:
        ax.annotate(
            "", (then, y_then), (now, y), zorder=3,
            arrowprops={"arrowstyle": "-|>", "color": EDGE, "lw": 1.5, "shrinkA": 4, "shrinkB": 8},
        )  # fmt: skip
    ax.scatter([now], [y], s=48, facecolor="white", edgecolor=EDGE, linewidths=1.4, zorder=4, clip_on=False)
    ax.scatter(
        [then], [y_then], s=190, color=ANSWER, marker="*", edgecolors=EDGE, linewidths=0.9, zorder=5, clip_on=False
    )


def _draw_legend(ax: "Axes", decision: Decision, wanted: bool, bands: set[str]) -> None:
    from matplotlib.lines import Line2D  # slow to import
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], marker="o", ls="", mfc="white", mec=EDGE, ms=7),
        Line2D([], [], marker="*", ls="", mfc=ANSWER, mec=EDGE, ms=13),
    ]
    labels = ["now", "then" if decision.reached[0] else "then (misses)"]
    good = ["wanted"] * wanted + ["still works"] * (SAFE in bands)
    if good:
        handles.append(Patch(facecolor=SAFE))
        labels.append(" / ".join(good))
    if REACHING in bands:
        handles.append(Patch(facecolor=REACHING))
        labels.append(f"{_LAYOUT.mass:.0%} of the draws that reach it so")
    put_legend_outside(ax, handles, labels, below=True, columns=len(labels))


# --- values and bands ------------------------------------------------------------------------------------------------


def _build_output_track(explanation: Explanation, decision: Decision) -> _Track:
    """Return the line of the first model's output, with the accepted outputs as its band."""
    now, then = float(explanation.row.outputs[0, 0]), float(decision.outputs[0])
    labels = _format_pair(lambda value, digits: number_text(value, digits), now, then)
    low, high = accepted_outputs(explanation) or (np.nan, np.nan)
    ends = [value for value in (now, then, low, high) if np.isfinite(value)]
    least, most = _add_padding(min(ends, default=0.0), max(ends, default=1.0))
    if np.isnan(low) or np.isnan(high):
        return _Track(least, most, now, then, labels)
    band = max(low, least), min(high, most)
    band_label = f"wanted: {_format_range(number_text(low, 4), number_text(high, 4), low, high)}"
    return _Track(least, most, now, then, labels, band, band_label, SAFE)


def _build_feature_track(
    explanation: Explanation, decision: Decision, j: int, safe: dict[int, Any] | None, near: Array
) -> _Track:
    """Return the line of one numeric or ordinal column."""
    space, draws = explanation.space, explanation.draws
    now, then = float(explanation.x0[j]), float(decision.x[j])
    values = space.format_change(j, now, then, exact=bool(decision.reached[0]))  # as the sentence has them
    before, after = (short_text(text, _LAYOUT.longest_value) for text in values)
    band, colour, open_ends = None, SAFE, (False, False)
    if safe is not None and j in safe:
        band = safe[j]
        open_ends = not np.isfinite(band[0]), not np.isfinite(band[1])
    elif safe is None and len(near) >= _LAYOUT.fewest_draws:
        values, weights = draws.x[near, j], draws.weights[near]
        known = ~np.isnan(values)
        if known.sum() >= _LAYOUT.fewest_draws:
            ends = [
                weighted_quantile(values[known], weights[known] / weights[known].sum(), q) for q in _find_quantiles()
            ]
            band, colour = (float(ends[0]), float(ends[1])), REACHING
    seen = np.array([value for value in (now, then, *(band or ())) if np.isfinite(value)])
    log = spread_wide(seen)
    low, high = (
        _add_padding(float(seen.min(initial=np.inf)), float(seen.max(initial=-np.inf)), log) if len(seen) else (0, 1)
    )
    band_label = ""
    if band is not None:
        band_label = literal_text(space.format_range(j, *band))
        band = low if open_ends[0] else band[0], high if open_ends[1] else band[1]
    return _Track(low, high, now, then, (before, after), band, band_label, colour, log)


def _find_similar_draws(explanation: Explanation, decision: Decision) -> Array:
    """Return the positions of draws that reach the target by changes in the same direction as a decision's."""
    space, x0, draws = explanation.space, explanation.x0, explanation.draws
    alike = draws.reached[:, 0].copy()
    for j in np.flatnonzero(space.changed(decision.x[None, :], x0)[0]):
        values, wanted = draws.x[:, j], decision.x[j]
        if np.isnan(wanted):
            alike &= np.isnan(values)
        elif space.features[j].unordered:
            alike &= values == wanted
        elif np.isnan(x0[j]):
            alike &= ~np.isnan(values)
        else:
            alike &= (values - x0[j]) * (wanted - x0[j]) > 0
    return np.flatnonzero(alike)


def _draw_levels(
    ax: "Axes", y: int, explanation: Explanation, decision: Decision, j: int, safe: dict[int, Any] | None
) -> str:
    """Draw a category as boxes, with an arrow from the old to the new level."""
    now, then = float(explanation.x0[j]), float(decision.x[j])
    boxes = level_boxes(explanation, j, [then])
    works = {boxes.box(code) for code in (safe or {}).get(j, ())}
    colours = [SAFE if i in works else "#eef0f3" for i in range(len(boxes))]
    draw_boxes(
        ax, y + 0.05, boxes, height=0.36, inches=_LAYOUT.track_inches, now=now, percent=False, colours=colours
    )  # fmt: skip
    _mark_ends(ax, boxes.centre(now), boxes.centre(then), y - 0.28, y - 0.28)
    return SAFE if works else ""


def _find_quantiles() -> tuple[float, float]:
    return (1 - _LAYOUT.mass) / 2, (1 + _LAYOUT.mass) / 2


def _add_padding(low: float, high: float, log: bool = False) -> tuple[float, float]:
    """Return two values with padding on both sides."""
    if log:
        more = (high / low) ** _LAYOUT.pad
        return low / more, high * more
    more = _LAYOUT.pad * (high - low) or max(abs(low), 1.0) * _LAYOUT.pad
    return low - more, high + more


def _format_pair(text: Any, now: float, then: float) -> tuple[str, str]:
    """Format two values with as many digits as distinguish them."""
    digits = _LAYOUT.digits if now != then else _LAYOUT.digits[:1]
    for n in digits:
        labels = text(now, n), text(then, n)
        if labels[0] != labels[1]:
            break
    return short_text(labels[0], _LAYOUT.longest_value), short_text(labels[1], _LAYOUT.longest_value)


def _format_range(low_text: str, high_text: str, low: float, high: float) -> str:
    """Format a range, such as "1 to 2" or "3 or more"."""
    if not np.isfinite(low) and not np.isfinite(high):
        return "any value"
    if not np.isfinite(high):
        return f"{low_text} or more"
    return f"{high_text} or less" if not np.isfinite(low) else f"{low_text} to {high_text}"


# --- safe ranges -----------------------------------------------------------------------------------------------------


def _read_safe(explanation: Explanation, safe: Any) -> dict[int, Any] | None:
    """Return safe ranges by position: encoded ends for numbers, encoded levels for categories."""
    if safe is None:
        return None
    if isinstance(safe, pd.DataFrame):
        missing = {"low", "high"} - set(safe.columns)
        if missing:
            raise ValueError(f"safe must have the columns 'low' and 'high'; {sorted(missing)} is missing")
        safe = {name: (line["low"], line["high"]) for name, line in safe.iterrows()}
    if not isinstance(safe, Mapping):
        raise TypeError(f"safe must be a mapping of columns to ranges, or a DataFrame by feature, not {safe!r:.80}")
    space = explanation.space
    unknown = [name for name in safe if name not in space.names]
    if unknown:
        raise ValueError(f"safe names {unknown[:3]}, but the columns are {list(space.names)}")
    return {space.names.index(name): _encode_range(explanation, name, safe[name]) for name in safe}


def _encode_range(explanation: Explanation, name: str, given: Any) -> Any:
    j = explanation.space.names.index(name)
    feature, codec = explanation.space.features[j], explanation.space.codecs[j]
    if feature.unordered:
        if isinstance(given, str) or not isinstance(given, Collection):
            raise TypeError(f"safe: {name!r} is a {feature.kind} column and needs a list of levels, not {given!r:.80}")
        return [float((feature.levels or ()).index(level)) for level in given if level in (feature.levels or ())]
    if isinstance(given, str) or not isinstance(given, Collection) or len(given) != 2:
        raise TypeError(f"safe: {name!r} needs a pair (low, high), not {given!r:.80}")
    ends = []
    for value, end in zip(given, (-np.inf, np.inf), strict=True):
        if value is None or value is pd.NaT or (isinstance(value, float) and np.isinf(value)):
            ends.append(end)
        elif feature.leveled:
            ends.append(float((feature.levels or ()).index(value)))
        elif feature.kind == "datetime":
            ends.append(float(codec.encode(pd.DataFrame({codec.labels[0]: [value]}), "safe")[0]))
        else:
            ends.append(float(value))
    if ends[0] > ends[1]:
        raise ValueError(f"safe: the low end of {name!r} lies above its high end: {given!r:.80}")
    return ends[0], ends[1]


# --- before and after ------------------------------------------------------------------------------------------------


def plot_before_after(
    explanation: Explanation,
    rule: Rule | str | None = None,
    *,
    safe: SafeRanges | None = None,
    max_features: int = 12,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the change of each column from its old to its new value, and that of the model's output.

    Every line has its own scale. A band around the new value is the range in which the answer is known to work, from
    ``safe`` or the answer's own proof (``explanation.answer.safe``); otherwise the central 90% of the draws that reach
    the target and change the same columns in the same direction, which guarantees nothing for a single column. Without
    enough such draws there is no band.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    rule : Rule or str, optional
        The decision to draw: a rule, its name such as ``"Nearest"``, or its label in ``explanation.pointwise``. By
        default the answer, or the first decision if there is no answer.
    safe : mapping of str to (low, high), or DataFrame by feature with ``low`` and ``high``, optional
        Range of each column in which the target is still reached while the others are as in the answer, in the
        column's own units; infinite ends are open. For a category, a collection of levels. Columns without an entry
        get no band.
    max_features : int
        Largest number of columns: those that change most; the others are counted.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on; its lower edge is the last column.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> explanation.plot.before_after().get_yticklabels()[0].get_text()
    'the model says'
    """
    decision = _choose_decision(explanation, rule)
    if safe is None and rule is None and explanation.answer is not None and explanation.answer.safe is not None:
        safe = explanation.answer.safe.table
    columns, n_left = _choose_columns(explanation, decision.x, max_features)
    ax = new_axes(ax, 8.2, _LAYOUT.room + _LAYOUT.line * (len(columns) + 1))
    draw_tracks(ax, explanation, decision, columns, safe=safe)
    _write_captions(ax, explanation, decision, n_left)
    return ax


def _choose_decision(explanation: Explanation, rule: Rule | str | None) -> Decision:
    decided = {decision.label: decision for decision in answers_among(explanation.decisions)}
    if rule is not None:
        label = match_label(rule, list(decided))
        if label is None:
            raise ValueError(
                f"there is no decision {getattr(rule, 'label', rule)!r}; the explanation has {list(decided)}"
            )
        return decided[label]
    if explanation.answer is not None:
        return explanation.answer.decision
    if not decided:
        raise ValueError(
            "there is no answer to draw: the explanation was made without rules; explain the row with rules, or use "
            "explanation.plot.changes()"
        )
    return next(iter(decided.values()))


def _choose_columns(explanation: Explanation, x: Array, most: int) -> tuple[list[int], int]:
    """Return the positions of the columns to draw, in table order, and the number left out."""
    if most < 1:
        raise ValueError(f"max_features must be at least 1, not {most!r}")
    columns = changed_columns(explanation.space, explanation.x0, x)
    size = np.abs(signed_changes(explanation.space, x[None, :], explanation.x0)[0, columns])
    kept = np.sort(columns[np.argsort(-size, kind="stable")[:most]])
    return [int(j) for j in kept], len(columns) - len(kept)


def _write_captions(ax: "Axes", explanation: Explanation, decision: Decision, n_left: int) -> None:
    """Write the target into the title, and omitted columns and reliability below the plot."""
    answer = explanation.answer if explanation.answer is not None and explanation.answer.decision is decision else None
    whose = "" if answer is not None else f" ({short_text(decision.label)})"
    verdict = "" if decision.reached[0] else ": best seen, does not reach the target"
    title = f"What to change{whose}, target: {target_text(explanation.target.describe())}{verdict}"
    changed = len(changed_columns(explanation.space, explanation.x0, decision.x))
    caption = [] if changed else ["Nothing has to change." if decision.reached[0] else "Nothing is changed."]
    if n_left:
        caption.append(f"{n_left} more column{'s' * (n_left > 1)} change, by less.")
    if answer is not None and answer.reached and answer.reliability is not None:
        count = answer.reliability.in_hundred
        caption.append(f"If the values turn out slightly different, it still works {count} times out of 100.")
    finish_axes(ax, title, hidden=("top", "right", "left", "bottom"))
    if caption:
        ax.set_xlabel(" ".join(caption), fontsize=9, color=QUIET, loc="left", wrap=True, labelpad=24)
