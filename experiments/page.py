"""The page ``docs/paper.md``: the tables of one run, and sentences made from them.

The text that stands here says how the tables are to be read, never what is in them: what a run found is said by
`experiments.sentences`, and what people think of it in ``docs/paper-notes.md``, which is written by hand.
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

This page was written by `make paper` (`python -m experiments`), which recomputes Section 3 of *A Generalized-Bayes
Perspective on Counterfactual Explanations* with `gbce`. Every number outside the columns called "paper" and every
sentence of the reading comes from that run; the other text says how to read the tables. {how} What was chosen where the
paper is silent, and what we make of it all, stands in [the notes](paper-notes.md), which are written by hand."""

_CLAIMS = """## Claim by claim

A claim about one run is checked in every run, of these models ({seeds} seeds) and of the refits ({refits}, {few} seeds
each): *reproduced* if it holds in at least 95% of them, *not reproduced* if in at most 5%, otherwise *within noise*:
one run cannot tell. A claim about all runs together, or about a figure made once, is *one check*: it holds or does not.
Real-data claims compare means over base points, a run is a resample of these, and since the data are not the paper's
({label}) the verdict is about the same shape. *Circular* says whether the base point was fitted to the numbers that the
claim is about: to all of them (yes), to some (partly), or to none."""

_ORDERS = """## Contrary results

Each figure is compared between the rules of a method, between the methods of a rule, and between DirectOpt and the
rules of Gibbs. Shown are the pairs whose order is the opposite of the paper's in at least 95% of runs (real data: of
resamples of the base points)."""

_NUMBERS = """## The paper's numbers beside ours

z is our mean minus the paper's number, over the SD of one run: over {seeds} seeds with these models, and *with refits*
over seeds and refits ({refits}), for which data of the same law were drawn anew and the models ranked and fitted anew.
In Figures 3 and 3b the SD is that of a mean of five base points, in the real-data tables that over base points, and
there the data are not the paper's. *Fitted* marks the numbers that the base point was fitted to."""

_CLUES = """## Base points

The paper does not print its base points. They were looked for under the true function, so that the figures below come
near the paper's: in 10-D by a search (`python -m experiments search-base-points`), in 2-D by quadrature. An error is a
rough guess of that of one run of the paper, a gap is in errors."""

_READINGS = """## The loss of several models

SP and Tail of ModelUnc under four readings of "the loss" of several models; `gap` says how far the two ratios to the
Gibbs figures are from the paper's own ratios (in logarithms). The other tables have the best model's loss."""

_REAL = """## Real data

The Google Trends series of the paper are not public. The tables below come from: {label}; see [trends](trends.md) for
how to run the experiment on a download of your own."""

#: all text of the page that is not made from results
DEFINITIONS = (_INTRODUCTION, _CLAIMS, _ORDERS, _NUMBERS, _CLUES, _READINGS, _REAL)

_TABLES = ("table1", "table1-posterior", "table2", "table2-posterior", "varimp")


def page(folder: Path) -> str:
    """Return the page in Markdown, put together from the results in a folder."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if run["fast"]:
        how = (
            "This one was made with `--fast`: fixed models, chosen by hand to come near the paper's errors, no AutoML."
        )
    else:
        how = f"Models were searched for {run['budget']:g} s of processor time per estimator."
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
