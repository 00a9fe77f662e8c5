"""Levels of a category as boxes side by side: a category has no axis, and is not drawn as a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.explanation import Explanation
from gbce.plots._style import DRAWS, EDGE, broken_text, pale, short_text
from gbce.space import Feature

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

__all__ = [
    "FeatureAxis",
    "LevelBoxes",
    "draw_boxes",
    "feature_axis",
    "group_levels",
    "level_boxes",
    "most_probable_levels",
    "share_of_levels",
    "spread_wide",
]

# --- columns along an axis -------------------------------------------------------------------------------------------

# Layout, chosen by hand.
_MOST_LEVELS = 12  # that are named along an axis; the rest of a category is one place, of an ordinal are not named
_MOST_WHOLE = 30  # whole numbers, up to which draws are scattered around each of them
_JITTER = 0.3  # of a step between levels or whole numbers, up and down
_LONGEST_LEVEL = 22  # characters
_MAX_LEVEL_CHARACTERS = 46  # of all levels side by side, beyond which they are written aslant
_WIDE = 300.0  # largest over middle size of positive numbers, from which on their axis is logarithmic
_LOW_END = 0.05  # share of the values that may be as small as they like
_MISSING_LANE = 0.08  # of the span of the known values: how far below them the missing ones lie


@dataclass(frozen=True, eq=False)
class FeatureAxis:
    """Where the values of one feature lie along an axis.

    Parameters
    ----------
    feature : Feature
        The feature.
    codec : object
        That turns its numbers into the table's values.
    place : array, optional
        Of a category: the position of each level's code; levels that share one are shown together.
    ticks, labels : sequence
        Of levels; empty for numbers and moments, whose ticks matplotlib chooses.
    missing : float, optional
        Where missing values lie, if any value shown is missing.
    log : bool
        Whether the axis is logarithmic.
    jitter : bool
        Whether draws are scattered a little, so that they do not hide each other.
    """

    feature: Feature
    codec: Any
    place: Array | None
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    missing: float | None
    log: bool
    jitter: bool

    def positions(self, values: Array, rng: np.random.Generator | None = None) -> Array:
        """Return where encoded values ``(n,)`` lie; with ``rng``, scattered around levels and whole numbers."""
        values = np.asarray(values, dtype=float)
        gone = np.isnan(values)
        known = np.where(gone, 0.0, values)
        if self.place is not None:
            at = self.place[known.astype(int)]
        elif self.is_time:
            at = _moments(self.codec, known)
        else:
            at = known
        if rng is not None and self.jitter:
            at = at + rng.uniform(-_JITTER, _JITTER, size=at.shape)
        return np.where(gone, np.nan if self.missing is None else self.missing, at)

    @property
    def is_time(self) -> bool:
        """Whether its values are moments."""
        return bool(self.feature.kind == "datetime" and getattr(self.codec, "tick", 0))

    @property
    def stepped(self) -> bool:
        """Whether its values stand at few places, with nothing between."""
        return self.feature.discrete and self.jitter

    def decorate(self, ax: "Axes", which: str, *, label: bool = True, width: int | None = None) -> None:
        """Name the axis ``"x"`` or ``"y"`` and its levels, moments and missing values.

        ``width`` is how many letters of the name fit beside the axis; more go on in a second line.
        """
        axis = ax.xaxis if which == "x" else ax.yaxis
        if self.log:
            (ax.set_xscale if which == "x" else ax.set_yscale)("log")
        if self.is_time:
            from matplotlib import dates  # slow to import

            locator = dates.AutoDateLocator(minticks=3, maxticks=6)
            axis.set_major_locator(locator)
            axis.set_major_formatter(dates.ConciseDateFormatter(locator))
        ticks, labels = list(self.ticks), list(self.labels)
        if ticks and self.missing is not None:
            ticks, labels = [self.missing, *ticks], ["missing", *labels]
        if ticks:
            axis.set_ticks(ticks, labels)
            if which == "x" and sum(map(len, labels)) > _MAX_LEVEL_CHARACTERS:
                ax.tick_params(axis="x", rotation=40)
                for text in ax.get_xticklabels():
                    text.set(ha="right", rotation_mode="anchor")
        elif self.missing is not None:
            _name_lane(ax, which, self.missing)
        if label:
            unit = f" ({self.feature.unit})" if self.feature.unit and self.feature.kind in ("real", "integer") else ""
            name = f"{self.feature.name}{unit}"
            said = short_text(name) if width is None else broken_text(name, width)
            (ax.set_xlabel if which == "x" else ax.set_ylabel)(said)


def feature_axis(explanation: Explanation, j: int, others: Array) -> FeatureAxis:
    """Return the axis of feature ``j`` for the draws, the row and ``others`` ``(k,)``, encoded values of decisions."""
    space, draws = explanation.space, explanation.draws
    feature, codec = space.features[j], space.codecs[j]
    shown = np.concatenate([draws.x[:, j], [explanation.x0[j]], np.asarray(others, dtype=float)])
    known = shown[~np.isnan(shown)]
    place: Array | None = None
    ticks: Sequence[float] = ()
    labels: Sequence[str] = ()
    jitter = feature.discrete and len(np.unique(known)) <= _MOST_WHOLE
    if feature.leveled:
        fixed = [code for code in [explanation.x0[j], *np.asarray(others, dtype=float)] if not np.isnan(code)]
        place, ticks, labels = _level_places(feature, share_of_levels(explanation, j), fixed)
        jitter = True
    axis = FeatureAxis(feature, codec, place, tuple(ticks), tuple(labels), None, False, jitter)
    log = not feature.leveled and not axis.is_time and spread_wide(known)
    missing = _missing_lane(axis.positions(known), axis, log) if len(known) < len(shown) else None
    return FeatureAxis(feature, codec, place, tuple(ticks), tuple(labels), missing, log, jitter)


def spread_wide(values: Array) -> bool:
    """Whether positive numbers ``(n,)`` spread over so many orders of size that an axis must be logarithmic.

    Examples
    --------
    >>> spread_wide(np.array([1.0, 2.0, 3.0])), spread_wide(np.array([1.0, 2.0, 9000.0]))
    (False, True)
    """
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() <= 0:
        return False
    least, middle = np.quantile(values, [_LOW_END, 0.5])
    return bool(values.max() > _WIDE * middle or middle > _WIDE * least)


def share_of_levels(explanation: Explanation, j: int) -> Array:
    """Return the posterior probability of each level of feature ``j``; that of missing is left out."""
    draws, n = explanation.draws, len(explanation.space.features[j].levels or ())
    known = ~np.isnan(draws.x[:, j])
    return np.bincount(draws.x[known, j].astype(int), draws.weights[known], minlength=n)[:n]


def most_probable_levels(share: Array, fixed: Sequence[float], most: int) -> list[int]:
    """Return the codes of at most ``most`` levels, those of ``fixed`` first in importance, in their own order.

    Examples
    --------
    >>> most_probable_levels(np.array([0.1, 0.0, 0.6, 0.3]), [1.0], 2)
    [1, 2]
    """
    kept = list(dict.fromkeys(int(code) for code in fixed))
    for code in np.argsort(-np.asarray(share), kind="stable"):
        if len(kept) >= most:
            break
        if int(code) not in kept:
            kept.append(int(code))
    return sorted(kept[: max(most, len(set(map(int, fixed))))])


def group_levels(n: int, kept: Sequence[int]) -> tuple[Array, int]:
    """Return the position of each of ``n`` levels when only ``kept`` have their own, and how many are grouped."""
    place = np.full(n, float(len(kept)))
    place[list(kept)] = np.arange(len(kept))
    return place, n - len(kept)


def level_names(feature: Feature, kept: Sequence[int], grouped: int) -> list[str]:
    """Return the names of levels as they are drawn, and last of those that are shown together."""
    levels = feature.levels or ()
    names = [short_text(str(levels[code]), _LONGEST_LEVEL) for code in kept]
    return [*names, f"other ({grouped} levels)"] if grouped else names


def _level_places(feature: Feature, share: Array, fixed: Sequence[float]) -> tuple[Array, Sequence[float], list[str]]:
    """Return position by code, ticks and labels; levels of a category beyond the most probable share one place."""
    n = len(feature.levels or ())
    if n <= _MOST_LEVELS:
        return np.arange(n, dtype=float), list(range(n)), level_names(feature, range(n), 0)
    if not feature.unordered:  # order is kept, and only some are named
        named = np.unique(np.linspace(0, n - 1, _MOST_LEVELS).round().astype(int)).tolist()
        return np.arange(n, dtype=float), named, level_names(feature, named, 0)
    kept = most_probable_levels(share, fixed, _MOST_LEVELS)
    place, grouped = group_levels(n, kept)
    return place, list(range(len(kept) + 1)), level_names(feature, kept, grouped)


def _missing_lane(known: Array, axis: FeatureAxis, log: bool) -> float:
    """Return where missing values lie: below all known ones."""
    if len(known) == 0:
        return 0.0
    low, high = float(known.min()), float(known.max())
    if axis.feature.leveled:
        return -1.0
    if log:
        return low / (high / low) ** _MISSING_LANE
    return low - max(_MISSING_LANE * (high - low), 1e-9 * max(abs(low), 1.0), 0.0 if high > low else 1.0)


def _name_lane(ax: "Axes", which: str, at: float) -> None:
    """Write "missing" beside the lane of missing values, and part it from the known ones."""
    across = ax.get_xaxis_transform() if which == "x" else ax.get_yaxis_transform()
    place, turn = ((at, 0.99), 90) if which == "x" else ((0.99, at), 0)
    ax.text(
        *place, "missing", transform=across, rotation=turn, ha="right", va="top" if which == "x" else "bottom",
        fontsize=8, color="#666666",
    )  # fmt: skip
    (ax.axvline if which == "x" else ax.axhline)(at, color="#cccccc", lw=0.8, ls=":", zorder=0)


def _moments(codec: Any, values: Array) -> Array:
    """Return moments ``(n,)`` as matplotlib counts them, in days."""
    from matplotlib import dates  # slow to import

    times = pd.Series(codec.decode(np.round(values))[codec.label])
    if getattr(times.dt, "tz", None) is not None:
        times = times.dt.tz_localize(None)
    return np.asarray(dates.date2num(times.to_numpy()), dtype=float)


# --- levels of a category as boxes side by side ----------------------------------------------------------------------

# Layout, chosen by hand.
_GAP = 0.008  # between boxes, of the whole width
_PALEST, _DARKEST = 0.10, 0.75  # how much colour a level has that nobody draws, and one that all do
_CHARACTER = 0.072  # inches that a letter of eight points takes
_FEWEST_CHARACTERS = 3  # of a level's name


@dataclass(frozen=True, eq=False)
class LevelBoxes:
    """Boxes for the levels of a feature: the most probable ones, and those of the row and of decisions.

    Parameters
    ----------
    names : list of str
        Of the boxes; what is not named is one box, and so is "missing" where that occurs.
    shares : array
        Posterior probability of each box.
    place : array
        Of each level's code: its box.
    missing : int, optional
        The box of missing values.
    """

    names: list[str]
    shares: Array
    place: Array
    missing: int | None

    def __len__(self) -> int:
        return len(self.names)

    def box(self, value: float) -> int:
        """Return the box of an encoded value."""
        if np.isnan(value):
            return len(self) - 1 if self.missing is None else self.missing
        return int(self.place[round(value)])

    def centre(self, value: float, left: float = 0.0, right: float = 1.0) -> float:
        """Return the middle of a value's box, where the boxes reach from ``left`` to ``right``."""
        return left + (right - left) * (self.box(value) + 0.5) / len(self)


def level_boxes(explanation: Explanation, j: int, others: Sequence[float], most: int) -> LevelBoxes:
    """Return the boxes of feature ``j``: at most ``most`` levels, those of the row and of ``others`` among them."""
    feature = explanation.space.features[j]
    n = len(feature.levels or ())
    share = share_of_levels(explanation, j)
    seen = np.array([explanation.x0[j], *others], dtype=float)
    fixed = seen[~np.isnan(seen)].tolist()
    kept = list(range(n)) if n <= most else most_probable_levels(share, fixed, most - 1)
    place, grouped = group_levels(n, kept)
    names = level_names(feature, kept, grouped)
    shares = [float(share[code]) for code in kept]
    if grouped:
        names[-1] = f"{grouped} more"  # a box has little room
        shares.append(max(float(share.sum()) - sum(shares), 0.0))
    gone = max(1.0 - float(share.sum()), 0.0)
    missing = None
    if feature.missing is not None and (gone > 1e-9 or np.isnan(seen).any()):
        missing = len(names)
        names, shares = [*names, "missing"], [*shares, gone]
    return LevelBoxes(names, np.array(shares), place, missing)


def draw_boxes(
    ax: "Axes",
    y: float,
    boxes: LevelBoxes,
    *,
    height: float,
    inches: float,
    now: float,
    left: float = 0.0,
    right: float = 1.0,
    transform: "Transform | None" = None,
    percent: bool = True,
    room: float = 0.0,
    colours: Sequence[Any] | None = None,
) -> None:
    """Draw boxes in a line at height ``y``, the row's own with a dark edge, darker ones more probable.

    Parameters
    ----------
    ax, y, boxes
        Where and what.
    height : float
        Of a box.
    inches : float
        What the whole line is wide, to know how much of a name fits.
    now : float
        The row's encoded value.
    left, right, transform
        Ends of the line, and what these are in; data when left out.
    percent : bool
        Whether probabilities are written below the names.
    room : float
        Inches of each box that are kept free for marks, on its right.
    colours : sequence, optional
        Of the boxes; by probability when left out.
    """
    from matplotlib.patches import Rectangle  # slow to import

    base = ax.transData if transform is None else transform
    width = (right - left) / len(boxes)
    fits = max(int((inches / len(boxes) - room - 0.1) / _CHARACTER), _FEWEST_CHARACTERS)
    for i, (name, share) in enumerate(zip(boxes.names, boxes.shares, strict=True)):
        start, own = left + i * width, boxes.box(now) == i
        strength = _PALEST + (_DARKEST - _PALEST) * float(np.clip(share, 0.0, 1.0))
        face = pale(DRAWS, strength) if colours is None else colours[i]
        ax.add_patch(
            Rectangle(
                (start + _GAP / 2, y - height / 2), width - _GAP, height, facecolor=face, transform=base,
                edgecolor=EDGE if own else "white", linewidth=1.4 if own else 0.5, zorder=2.1 if own else 2.0,
            )
        )  # fmt: skip
        text = name if len(name) <= fits else name[: max(fits - 1, 1)].rstrip("\\") + "…"
        text += f"\n{share:.0%}" if percent else ""
        middle = start + width / 2 if not room else start + width * 0.06
        ax.text(
            middle, y, text, ha="left" if room else "center", va="center", fontsize=7.5 if percent else 8.5,
            transform=base, color=EDGE, zorder=3, linespacing=1.1,
        )  # fmt: skip
