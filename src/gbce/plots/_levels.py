"""Levels of a category as boxes side by side: a category has no axis, and is not drawn as a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.base import Array
from gbce.explanation import Explanation
from gbce.plots._features import group_levels, level_names, most_probable_levels, share_of_levels
from gbce.plots._style import DRAWS, EDGE, pale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

__all__ = ["LevelBoxes", "draw_boxes", "level_boxes"]

# Looks, chosen by hand.
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
