"""Colours, axes, titles, texts and legends: the same in every picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ANSWER", "DRAWS", "EDGE", "MISSED", "PRIOR", "QUIET", "REACHING", "ROW", "SAFE", "UNSEEN", "as_panels",
    "broken_text", "finish_axes", "given_panels", "literal_text", "new_axes", "new_panels", "pale",
    "put_legend_outside", "short_text", "stacked_panels", "wish_text",
]  # fmt: skip

# Told apart by people with any kind of colour blindness: tests/plots/test_colours.py measures it.
DRAWS = "#5b93d9"  # draws that reach the target
MISSED = "#c9d1da"
PRIOR = "#dfe3e8"
ROW = "#111111"
ANSWER = "#ffd400"
SAFE = "#8fd3c1"  # what is wanted, and where an answer is known to work still
REACHING = "#c3d7ef"  # where draws that reach the target lie
UNSEEN = "#c0562f"
EDGE = "#222222"  # around marks, so that light ones stand out from the paper
QUIET = "#666666"  # what is said in passing

LONGEST_NAME = 40  # characters; longer ones would leave no room for the picture
_LONGEST_WISH = 90  # characters of a target in a title


def new_axes(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return the axes to draw on: those that were given, or those of a new figure of so many inches."""
    if ax is not None:
        _require_axes(ax)
        return ax
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def new_panels(ax: Any, n: int, width: float, height: float, *, columns: int | None = None) -> "list[Axes]":
    """Return ``n`` axes: those that were given, or those of a new figure, so many inches each, side by side.

    With fewer ``columns`` than panels they stand in several lines.
    """
    if ax is not None:
        return given_panels(ax, n)
    import matplotlib.pyplot as plt  # slow to import

    k = n if columns is None else min(columns, n)
    lines = -(-n // k)
    figure = plt.figure(figsize=(width * k, height * lines), layout="constrained")
    return [figure.add_subplot(lines, k, i + 1) for i in range(n)]


def stacked_panels(ax: Any, width: float, heights: Sequence[float]) -> "list[Axes]":
    """Return axes one above the other: those that were given, or those of a new figure, of so many inches each."""
    if ax is not None:
        return given_panels(ax, len(heights))
    import matplotlib.pyplot as plt  # slow to import

    figure = plt.figure(figsize=(width, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=list(heights))
    return [figure.add_subplot(grid[i]) for i in range(len(heights))]


def given_panels(ax: Any, n: int) -> "list[Axes]":
    """Return the ``n`` axes that somebody gave, or say what is wrong with them."""
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    for one in given:
        _require_axes(one)
    if len(given) != n:
        raise ValueError(f"ax must have one Axes for each of the {n} panels, not {len(given)}")
    return given


def as_panels(panels: "Sequence[Axes]") -> "Axes | np.ndarray[Any, Any]":
    """Return what a picture with panels hands back: the one Axes, or a flat array of them."""
    if len(panels) == 1:
        return panels[0]
    drawn = np.empty(len(panels), dtype=object)
    drawn[:] = panels
    return drawn


def _require_axes(ax: Any) -> None:
    from matplotlib.axes import Axes  # slow to import

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes, such as plt.subplots()[1], not {ax!r:.80}")


def finish_axes(ax: "Axes", title: str, *, hidden: Sequence[str] = ("top", "right"), size: float = 11) -> None:
    """Write the title on the left, in as many lines as it takes, and take away the edges that are of no use."""
    ax.set_title(title, loc="left", fontsize=size, wrap=True)
    ax.spines[list(hidden)].set_visible(False)


def pale(colour: str, share: float) -> tuple[float, float, float]:
    """Return a colour mixed with white, so much of it as ``share`` says: nothing behind it shines through."""
    from matplotlib.colors import to_rgb  # slow to import

    red, green, blue = (1.0 - share * (1.0 - part) for part in to_rgb(colour))
    return red, green, blue


def literal_text(text: str) -> str:
    """Return a user's text so that matplotlib draws it as it is: a dollar sign starts no formula."""
    return printable(text).replace("$", r"\$")


def short_text(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a user's text as it is drawn, cut short where it is too long.

    Examples
    --------
    >>> short_text("a column with a very long name", 12)
    'a column wi…'
    """
    text = printable(text)
    return literal_text(text if len(text) <= longest else text[: longest - 1] + "…")


def broken_text(text: str, width: int, most: int = 2) -> str:
    """Return a user's text in at most so many lines of so many letters, broken after blanks and underscores if it can.

    Examples
    --------
    >>> print(broken_text("average_monthly_balance of all accounts", 16))
    average_monthly_
    balance of all…
    """
    lines: list[str] = []
    rest = printable(text)
    while rest and len(lines) < most:
        cut = len(rest)
        if cut > width:
            breaks = [k + 1 for k, letter in enumerate(rest[:width]) if letter in " _" and k >= width // 2]
            cut = breaks[-1] if breaks else width
        lines.append(rest[:cut].strip())
        rest = rest[cut:]
    if rest:
        lines[-1] = lines[-1][: width - 1] + "…"
    return "\n".join(map(literal_text, lines))


def wish_text(wish: str) -> str:
    """Return what was wanted of the model as a title shows it: no word so long that its line cannot be broken."""
    words = [word if len(word) <= LONGEST_NAME else word[: LONGEST_NAME - 1] + "…" for word in printable(wish).split()]
    return short_text(" ".join(words), _LONGEST_WISH)


def put_legend_outside(
    ax: "Axes",
    handles: Sequence[Any],
    labels: Sequence[str],
    *,
    below: bool = False,
    columns: int = 1,
    in_layout: bool = True,
) -> None:
    """Put the legend to the right of the axes, or below, where it hides nothing; equal labels share one entry.

    A legend that is not ``in_layout`` takes no room from the axes around: there is some that nothing else needs.
    """
    from matplotlib.collections import PathCollection  # slow to import

    entries = dict(zip((short_text(label) for label in labels), handles, strict=True))
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    if below:
        place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.02), "borderaxespad": 0.2}
    legend = ax.legend(
        list(entries.values()), list(entries), frameon=False, fontsize=9, ncols=columns, borderpad=0.2, **place
    )
    legend.set_in_layout(in_layout)
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):  # dots that are pale because there are many
            handle.set_alpha(1.0)
