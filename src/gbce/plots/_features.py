"""Features in plots: the axis of a feature, and levels of a category as boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import WIDE_ROUNDING
from gbce.base import Array
from gbce.explanation import Explanation
from gbce.plots._style import DRAWS, EDGE, broken_text, pale, short_text
from gbce.space import Feature

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

MOST_BOXES = 5  # for the levels of a category


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    # named along an axis; other levels of a category share one place, those of an ordinal have no name
    most_levels: int = 12
    most_integers: int = 30  # distinct integers up to which draws are jittered
    jitter: float = 0.3  # in units of a step between levels or integers, up and down
    longest_level: int = 22  # characters
    max_level_characters: int = 46  # of all levels side by side, beyond which they are rotated
    wide: float = 300.0  # ratio of largest to median, or median to low end, above which a positive axis is logarithmic
    low_end: float = 0.05  # quantile taken as the low end
    missing_lane: float = 0.08  # distance of missing values below the known ones, as a share of their span
    gap: float = 0.008  # between boxes, as a share of the whole width
    palest: float = 0.1  # strength of colour of a level of probability zero, and of one
    darkest: float = 0.75
    character: float = 0.072  # inches of a character of eight points
    fewest_characters: int = 3  # of a level's name


_LAYOUT = _Layout()

# --- axis of a feature -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FeatureAxis:
    """Positions of the values of one feature along an axis."""

    feature: Feature
    codec: Any  # decodes its values
    place: Array | None  # position of each level's code; grouped levels share one
    ticks: tuple[float, ...]  # of levels; empty for numbers and dates, whose ticks matplotlib chooses
    labels: tuple[str, ...]
    missing: float | None  # position of missing values, if any are shown
    log: bool
    jitter: bool  # whether draws are jittered so that they do not hide each other

    def positions(self, values: Array, rng: np.random.Generator | None = None) -> Array:
        """Return the positions of encoded values ``(n,)``; with ``rng``, jittered around levels and integers."""
        values = np.asarray(values, dtype=float)
        absent = np.isnan(values)
        known = np.where(absent, 0.0, values)
        if self.place is not None:
            at = self.place[known.astype(int)]
        elif self.is_time:
            at = _decode_dates(self.codec, known)
        else:
            at = known
        if rng is not None and self.jitter:
            at = at + rng.uniform(-_LAYOUT.jitter, _LAYOUT.jitter, size=at.shape)
        return np.where(absent, np.nan if self.missing is None else self.missing, at)

    @property
    def is_time(self) -> bool:
        """Whether its values are dates."""
        return bool(self.feature.kind == "datetime" and getattr(self.codec, "tick", 0))

    @property
    def stepped(self) -> bool:
        """Whether it has few distinct values."""
        return self.feature.discrete and self.jitter

    def decorate(self, ax: "Axes", which: str, *, label: bool = True, width: int | None = None) -> None:
        """Label the axis ``"x"`` or ``"y"`` with ticks and the feature's name, wrapped at ``width`` characters."""
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
            if which == "x" and sum(map(len, labels)) > _LAYOUT.max_level_characters:
                ax.tick_params(axis="x", rotation=40)
                for text in ax.get_xticklabels():
                    text.set(ha="right", rotation_mode="anchor")
        elif self.missing is not None:
            _label_missing(ax, which, self.missing)
        if label:
            unit = f" ({self.feature.unit})" if self.feature.unit and self.feature.kind in ("real", "integer") else ""
            name = f"{self.feature.label or self.feature.name}{unit}"
            title = short_text(name) if width is None else broken_text(name, width)
            (ax.set_xlabel if which == "x" else ax.set_ylabel)(title)


def feature_axis(explanation: Explanation, j: int, others: Array) -> FeatureAxis:
    """Return the axis of feature ``j`` for the draws, the row and encoded values ``others`` ``(k,)`` of decisions."""
    space, draws = explanation.space, explanation.draws
    feature, codec = space.features[j], space.codecs[j]
    shown = np.concatenate([draws.x[:, j], [explanation.x0[j]], np.asarray(others, dtype=float)])
    known = shown[~np.isnan(shown)]
    place: Array | None = None
    ticks: Sequence[float] = ()
    labels: Sequence[str] = ()
    jitter = feature.discrete and len(np.unique(known)) <= _LAYOUT.most_integers
    if feature.leveled:
        fixed = [code for code in [explanation.x0[j], *np.asarray(others, dtype=float)] if not np.isnan(code)]
        place, ticks, labels = _place_levels(feature, _find_level_shares(explanation, j), fixed)
        jitter = True
    axis = FeatureAxis(feature, codec, place, tuple(ticks), tuple(labels), None, False, jitter)
    log = not feature.leveled and not axis.is_time and spread_wide(known)
    missing = _place_missing(axis.positions(known), axis, log) if len(known) < len(shown) else None
    return FeatureAxis(feature, codec, place, tuple(ticks), tuple(labels), missing, log, jitter)


def spread_wide(values: Array) -> bool:
    """Whether positive numbers ``(n,)`` spread over so many orders of magnitude that an axis must be logarithmic."""
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() <= 0:
        return False
    least, middle = np.quantile(values, [_LAYOUT.low_end, 0.5])
    return bool(values.max() > _LAYOUT.wide * middle or middle > _LAYOUT.wide * least)


def _find_level_shares(explanation: Explanation, j: int) -> Array:
    """Return the posterior probability of each level of feature ``j``, without missing values."""
    draws, n = explanation.draws, len(explanation.space.features[j].levels or ())
    known = ~np.isnan(draws.x[:, j])
    return np.bincount(draws.x[known, j].astype(int), draws.weights[known], minlength=n)[:n]


def choose_levels(share: Array, fixed: Sequence[float], most: int) -> list[int]:
    """Return the codes of at most ``most`` levels, in order: those of ``fixed``, then the most probable."""
    kept = list(dict.fromkeys(int(code) for code in fixed))
    for code in np.argsort(-np.asarray(share), kind="stable"):
        if len(kept) >= most:
            break
        if int(code) not in kept:
            kept.append(int(code))
    return sorted(kept)


def _group_levels(n: int, kept: Sequence[int]) -> tuple[Array, int]:
    """Return the position of each of ``n`` levels if only ``kept`` have their own, and the number of grouped ones."""
    place = np.full(n, float(len(kept)))
    place[list(kept)] = np.arange(len(kept))
    return place, n - len(kept)


def _name_levels(feature: Feature, kept: Sequence[int], grouped: int) -> list[str]:
    """Return the displayed names of levels, and last that of the grouped ones."""
    levels = feature.levels or ()
    names = [short_text(str(levels[code]), _LAYOUT.longest_level) for code in kept]
    return [*names, f"other ({grouped} levels)"] if grouped else names


def _place_levels(feature: Feature, share: Array, fixed: Sequence[float]) -> tuple[Array, Sequence[float], list[str]]:
    """Return positions by code, ticks and labels; the less probable levels of a category share one place."""
    n = len(feature.levels or ())
    if n <= _LAYOUT.most_levels:
        return np.arange(n, dtype=float), list(range(n)), _name_levels(feature, range(n), 0)
    if not feature.unordered:  # all have a place, some a name
        named = np.unique(np.linspace(0, n - 1, _LAYOUT.most_levels).round().astype(int)).tolist()
        return np.arange(n, dtype=float), named, _name_levels(feature, named, 0)
    kept = choose_levels(share, fixed, _LAYOUT.most_levels)
    place, grouped = _group_levels(n, kept)
    return place, list(range(len(kept) + 1)), _name_levels(feature, kept, grouped)


def _place_missing(known: Array, axis: FeatureAxis, log: bool) -> float:
    """Return a position for missing values below all known ones."""
    if len(known) == 0:
        return 0.0
    low, high = float(known.min()), float(known.max())
    if axis.feature.leveled:
        return -1.0
    if log:
        return low / (high / low) ** _LAYOUT.missing_lane
    return low - max(_LAYOUT.missing_lane * (high - low), 1e-9 * max(abs(low), 1.0), 0.0 if high > low else 1.0)


def _label_missing(ax: "Axes", which: str, at: float) -> None:
    """Label the lane of missing values and draw a line along it."""
    across = ax.get_xaxis_transform() if which == "x" else ax.get_yaxis_transform()
    place, turn = ((at, 0.99), 90) if which == "x" else ((0.99, at), 0)
    ax.text(
        *place, "missing", transform=across, rotation=turn, ha="right", va="top" if which == "x" else "bottom",
        fontsize=8, color="#666666",
    )  # fmt: skip
    (ax.axvline if which == "x" else ax.axhline)(at, color="#cccccc", lw=0.8, ls=":", zorder=0)


def _decode_dates(codec: Any, values: Array) -> Array:
    """Return encoded dates ``(n,)`` as matplotlib dates, in days."""
    from matplotlib import dates  # slow to import

    times = pd.Series(codec.decode(np.round(values))[codec.label])
    if getattr(times.dt, "tz", None) is not None:
        times = times.dt.tz_localize(None)
    return np.asarray(dates.date2num(times.to_numpy()), dtype=float)


# --- boxes of a category ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LevelBoxes:
    """Boxes for the levels of a feature: the most probable ones, those of the row and of decisions, and the others."""

    names: list[str]  # grouped levels share one, and missing values may have one
    shares: Array  # posterior probability of each box
    place: Array  # box of each level's code
    missing: int | None  # box of missing values

    def __len__(self) -> int:
        return len(self.names)

    def box(self, value: float) -> int:
        """Return the box of an encoded value."""
        if np.isnan(value):
            return len(self) - 1 if self.missing is None else self.missing
        return int(self.place[round(value)])

    def centre(self, value: float, left: float = 0.0, right: float = 1.0) -> float:
        """Return the centre of a value's box if the boxes extend from ``left`` to ``right``."""
        return left + (right - left) * (self.box(value) + 0.5) / len(self)


def level_boxes(explanation: Explanation, j: int, others: Sequence[float]) -> LevelBoxes:
    """Return the boxes of feature ``j``: a few levels, including those of the row and of ``others``."""
    feature = explanation.space.features[j]
    n = len(feature.levels or ())
    share = _find_level_shares(explanation, j)
    seen = np.array([explanation.x0[j], *others], dtype=float)
    fixed = seen[~np.isnan(seen)].tolist()
    kept = list(range(n)) if n <= MOST_BOXES else choose_levels(share, fixed, MOST_BOXES - 1)
    place, grouped = _group_levels(n, kept)
    names = _name_levels(feature, kept, grouped)
    shares = [float(share[code]) for code in kept]
    if grouped:
        names[-1] = f"{grouped} more"  # a box has little room
        shares.append(max(float(share.sum()) - sum(shares), 0.0))
    absent = max(1.0 - float(share.sum()), 0.0)
    missing = None
    if feature.missing is not None and (absent > WIDE_ROUNDING or np.isnan(seen).any()):
        missing = len(names)
        names, shares = [*names, "missing"], [*shares, absent]
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
    """Draw boxes in a line at ``y``, coloured by probability unless ``colours`` are given.

    The box of the row's value ``now`` has a dark edge. ``inches`` is the width of the whole line, by which names are
    cut; ``room`` the inches of each box kept free for marks on its right.
    """
    from matplotlib.patches import Rectangle  # slow to import

    base = ax.transData if transform is None else transform
    width = (right - left) / len(boxes)
    fits = max(int((inches / len(boxes) - room - 0.1) / _LAYOUT.character), _LAYOUT.fewest_characters)
    for i, (name, share) in enumerate(zip(boxes.names, boxes.shares, strict=True)):
        start, own = left + i * width, boxes.box(now) == i
        strength = _LAYOUT.palest + (_LAYOUT.darkest - _LAYOUT.palest) * float(np.clip(share, 0.0, 1.0))
        face = pale(DRAWS, strength) if colours is None else colours[i]
        ax.add_patch(
            Rectangle(
                (start + _LAYOUT.gap / 2, y - height / 2), width - _LAYOUT.gap, height, facecolor=face, transform=base,
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
