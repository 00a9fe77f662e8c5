"""Draw the rooms of gbce and the way of one row through them, from the import graph and from a traced run.

``python docs/draw_architecture.py`` writes ``docs/img/architecture.svg`` and the generated parts of
``docs/architecture.md``. The tiers are those of the contract in pyproject.toml, the thin lines are imports as grimp
finds them, and every step of the way is a function that the traced run calls in this order (a test sees to that).
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "gbce"  # the same file from the same graph

import grimp
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "img" / "architecture.svg"
BANDS = ("#eef2f7", "#f7f3ea")
INK, LINE, WAY = "#1f2933", "#9fb0c3", "#c0562f"


class Step(NamedTuple):
    """One step of the way: the file and the function that takes it, and what it does."""

    file: str
    function: str
    what: str


WAY_OF_A_ROW = (
    Step("explainer/_explainer.py", "Explainer.explain", "the one call: rules and budget are checked"),
    Step("space/_space.py", "Space.encode_row", "the row becomes a float64 vector; from here on nobody sees a column"),
    Step(
        "predictors/_reference.py",
        "Reference.output_spread",
        "what the target leaves open comes from the data",
    ),
    Step("priors/_families.py", "Gaussian.at", "the prior is centred at the row, as a map of Gaussian noise"),
    Step("predictors/_panel.py", "Panel.ask_alone", "models are evaluated within the budget, first at the row itself"),
    Step(
        "samplers/_smc.py",
        "SMC.sample_with_coverage",
        "importance sampling, then proposals around modes, or tempering up to eta",
    ),
    Step("draws/_draws.py", "Draws.weigh", "evaluated points with weights, which everything later reads"),
    Step("decisions/_apply.py", "apply_rules", "every decision rule chooses from the draws"),
    Step(
        "metrics/_pointwise.py", "evaluate_figures", "the chosen points are evaluated once more and get their figures"
    ),
    Step("explainer/_notes.py", "judge_status", "status and notes; query, draws and decisions are the Explanation"),
)


def tiers() -> dict[str, list[str]]:
    """Return the rooms of each tier, lowest first, as the contract has them."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = text[text.index("layers = [") :]
    found: dict[str, list[str]] = {}
    for line in listed[: listed.index("]")].splitlines()[1:]:
        if line.strip().startswith("#"):
            name = line.strip(" #")
            found[name] = []
        elif line.strip():
            found[name].insert(0, line.strip(' ",'))
    return dict(reversed(found.items()))


def edges() -> set[tuple[str, str]]:
    """Return which room imports which, imports for type checking left out."""
    graph = grimp.build_graph("gbce", exclude_type_checking_imports=True, cache_dir=None)
    found = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = tuple(name.split(".")[1] if "." in name else "" for name in (module, other))
            if all(pair) and pair[0] != pair[1]:
                found.add(pair)
    return found  # type: ignore[return-value]


def draw() -> None:
    """Draw bands, rooms, imports and the way."""
    places: dict[str, tuple[float, float]] = {}
    figure, ax = plt.subplots(figsize=(11.5, 8.2))
    for height, (tier, rooms) in enumerate(tiers().items()):
        ax.axhspan(height - 0.5, height + 0.5, color=BANDS[height % 2], zorder=0)
        ax.text(-0.25, height + 0.42, tier, fontsize=12, color=INK, va="top", weight="bold")
        # the odd rooms a little lower, so that lines between neighbours in a band can be seen
        for i, room in enumerate(rooms):
            places[room] = (1.6 + 9.0 * (i + 0.5) / len(rooms), height + (0.16 if i % 2 else -0.16))
    for a, b in sorted(edges()):
        (x0, y0), (x1, y1) = places[a], places[b]
        ax.add_patch(
            FancyArrowPatch((x0, y0), (x1, y1), connectionstyle="arc3,rad=0.08", arrowstyle="-", color=LINE, lw=0.6,
                            alpha=0.55, zorder=1)
        )  # fmt: skip
    boxes = {}
    for room, (x, y) in places.items():
        width = 0.125 * len(room) + 0.3
        boxes[room] = ax.add_patch(
            FancyBboxPatch((x - width / 2, y - 0.1), width, 0.2, boxstyle="round,pad=0.02,rounding_size=0.05",
                           fc="white", ec=INK, lw=1, zorder=3)
        )  # fmt: skip
        ax.text(x, y, room, ha="center", va="center", fontsize=10, color=INK, zorder=4)
    _draw_way(ax, places, boxes)
    ax.set(xlim=(-0.4, 10.8), ylim=(-0.5, len(tiers()) - 0.5))
    ax.axis("off")
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None, "Creator": None})


def _draw_way(ax: Axes, places: dict[str, tuple[float, float]], boxes: dict[str, Patch]) -> None:
    """Draw arrows from step to step, and the steps' numbers at their rooms."""
    rooms = [step.file.split("/")[0] for step in WAY_OF_A_ROW]
    numbers: dict[str, list[str]] = {}
    for number, room in enumerate(rooms, start=1):
        numbers.setdefault(room, []).append(str(number))
    for a, b in pairwise(rooms):
        ax.add_patch(
            FancyArrowPatch(places[a], places[b], connectionstyle="arc3,rad=-0.16", arrowstyle="-|>", lw=1.7,
                            mutation_scale=13, color=WAY, patchA=boxes[a], patchB=boxes[b], zorder=2)
        )  # fmt: skip
    for room, listed in numbers.items():
        x, y = places[room]
        ax.text(x, y + 0.15, " · ".join(listed), ha="center", va="bottom", fontsize=9, color="white", weight="bold",
                bbox={"boxstyle": "round,pad=0.22", "fc": WAY, "ec": "none"}, zorder=5)  # fmt: skip


def generated() -> dict[str, str]:
    """Return the parts of the document that are written from the graph, by their marks."""
    found, listed = edges(), tiers()
    lines = [
        f"| {number} | `{step.file}` | `{step.function}` | {step.what} |"
        for number, step in enumerate(WAY_OF_A_ROW, start=1)
    ]
    head = ["| | file | function | what |", "|---|---|---|---|"]
    rooms = [room for rooms in listed.values() for room in rooms]
    table = ["| tier | room | imports |", "|---|---|---|"]
    for tier, own in reversed(listed.items()):
        for room in reversed(own):
            below = sorted((b for a, b in found if a == room), key=rooms.index)
            table.append(f"| {tier} | `{room}` | {', '.join(f'`{b}`' for b in below) or 'nothing'} |")
    return {"way": "\n".join(head + lines), "imports": "\n".join(table)}


def with_generated(text: str) -> str:
    """Return the document with its generated parts as they are now."""
    for mark, part in generated().items():
        before, rest = text.split(f"<!-- {mark} -->\n")
        text = f"{before}<!-- {mark} -->\n{part}\n<!-- /{mark} -->{rest.split(f'<!-- /{mark} -->')[1]}"
    return text


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    draw()
    DOCUMENT.write_text(with_generated(DOCUMENT.read_text()))
