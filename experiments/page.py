"""The page ``docs/paper.md``: the tables of one run, and sentences made from them.

The text here explains how to read the tables, never what is in them. `experiments.sentences` writes what a run found;
``docs/paper-notes.md``, written by hand, discusses it.
"""

import json
import shutil
import textwrap
from pathlib import Path

import pandas as pd

from experiments.output import write
from experiments.sentences import reading

__all__ = ["DEFINITIONS", "page", "published"]

FIGURES = ("fig1", "fig2", "fig3", "fig3b")

_INTRODUCTION = """# The paper, recomputed

`make paper` (`python -m experiments`) writes this page. It recomputes Section 3 of *A Generalized-Bayes Perspective
on Counterfactual Explanations* with `gbce`. All numbers outside the columns headed "paper", and all sentences under
Reading, come from that run. {how} The [notes](paper-notes.md), written by hand, explain what was chosen where the
paper is silent."""

_CLAIMS = """## Claim by claim

A claim about a single run is checked in every run: {seeds} seeds with these models, and {few} with each of {refits}
refits. It is *reproduced* if it holds in at least 95% of the runs, *not reproduced* if it holds in at most 5%, and
*within noise* otherwise. A claim about all runs together, or about a figure that is made once, has *one check*. For
real data, claims compare means over base points, and the runs are resamples of the base points; because the data are
not the paper's ({label}), only the shape is judged. *Circular*: whether the base point was fitted to all (yes), some
(partly) or none (no) of the numbers in the claim."""

_ORDERS = """## Contrary results

Each figure is compared between the rules of a method, between the methods of a rule, and between DirectOpt and the
rules of Gibbs. The table lists the pairs whose order is the opposite of the paper's in at least 95% of the runs (for
real data, of the resamples of base points)."""

_NUMBERS = """## The paper's numbers beside ours

z is our mean minus the paper's number, divided by the SD between runs: {seeds} seeds with these models or, *with
refits*, seeds and {refits} refits, for each of which new data are drawn and the models ranked and fitted again. In
Figures 3 and 3b the SD is that of a mean over five base points; in the real-data tables it is the SD between base
points, and the data are not the paper's. *Fitted* marks numbers to which the base point was fitted."""

_CLUES = """## Base points

The paper does not print its base points. These were chosen so that the figures below, computed under the true
function, come close to the paper's: in 10-D by a search (`python -m experiments search-base-points`), in 2-D by
quadrature. *Error* is a rough guess of the error of a single run in the paper; *gap* is in units of that error."""

_READINGS = """## The loss of several models

With several models, "the loss" can be read in four ways. The table has SP and Tail of ModelUnc under each of them, and
their ratios to the Gibbs figures; *gap* is the distance of the logarithms of these ratios from the paper's. All other
tables use the best model's loss."""

_REAL = """## Real data

The paper's Google Trends series are not public. The tables below were made from: {label}. [Trends](trends.md) explains
how to use your own download."""

#: all text of the page that no result changes
DEFINITIONS = (_INTRODUCTION, _CLAIMS, _ORDERS, _NUMBERS, _CLUES, _READINGS, _REAL)

_TABLES = ("table1", "table1-posterior", "table2", "table2-posterior", "varimp")


def page(folder: Path) -> str:
    """Return the page in Markdown, put together from the results in a folder."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if run["fast"]:
        how = "This one was made with `--fast`: fixed models with errors close to the paper's, no AutoML."
    else:
        how = f"AutoML had {run['budget']:g} s of processor time per estimator."
    results = {file.stem: pd.read_csv(file) for file in folder.glob("*.csv")}

    def section(name: str) -> str:
        return (folder / f"{name}.md").read_text(encoding="utf-8").strip()

    def table(name: str) -> str:
        return section(name).partition("\n\n")[2]

    few, label = run["seeds of refits"], run["real data"]
    sizes = {"seeds": run["seeds"], "refits": run["refits"]}
    parts = [_filled(_INTRODUCTION, how=how), "## Reading", *(_filled("- {p}", p=p) for p in reading(results))]
    parts += [_filled(_CLAIMS, **sizes, few=few, label=label), table("claims"), _ORDERS, table("orders")]
    parts += [_filled(_NUMBERS, **sizes), table("counts"), *(section(name) for name in _TABLES)]
    parts += [section("leaderboard"), _CLUES, table("base-points"), table("clues")]
    for name in FIGURES:
        parts += [section(name), f"![{name}](img/paper/{name}.png)"]
    parts += [section("eta-text"), _READINGS, table("readings"), _filled(_REAL, label=label)]
    parts += [section(name) for name in ("real-success", "real2d", "real10d", "real-varimp")]
    return "\n\n".join(parts) + "\n"


def _filled(template: str, **words: object) -> str:
    """Put words into a text and break its paragraphs into lines."""
    paragraphs = template.format(**words).split("\n\n")
    indents = ["  " if paragraph.startswith("- ") else "" for paragraph in paragraphs]
    broken = [textwrap.fill(p, 120, subsequent_indent=i, break_on_hyphens=False, break_long_words=False)
              for p, i in zip(paragraphs, indents, strict=True)]  # fmt: skip
    return "\n\n".join(broken)


def published(folder: Path, docs: Path) -> Path:
    """Copy the page and its figures into the documents."""
    (docs / "img" / "paper").mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        shutil.copyfile(folder / f"{name}.png", docs / "img" / "paper" / f"{name}.png")
    return write(docs / "paper.md", page(folder))
