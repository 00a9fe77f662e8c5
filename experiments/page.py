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
on Counterfactual Explanations* with `gbce`. All numbers outside the columns called "paper", and all sentences under
Reading, come from that run. {how} [Notes](paper-notes.md), written by hand, explain choices where the paper is
silent."""

_CLAIMS = """## Claim by claim

A claim about one run is checked in every run, {seeds} seeds with these models and {few} with each of {refits} refits.
It is *reproduced* if it holds in at least 95% of the runs, *not reproduced* if in at most 5%, and *within noise*
otherwise. A claim about all runs together, or about a figure made once, has *one check*. Real-data claims compare
means over base points, and resamples of these are the runs; because the data are not the paper's ({label}), the
verdict is only about the shape. *Circular* tells whether the base point was fitted to the numbers of the claim: to
all (yes), some (partly) or none (no)."""

_ORDERS = """## Contrary results

Each figure is compared between the rules of a method, between the methods of a rule, and between DirectOpt and the
rules of Gibbs. Listed are the pairs with the opposite of the paper's order in at least 95% of the runs (real data: of
resamples of the base points)."""

_NUMBERS = """## The paper's numbers beside ours

z is our mean minus the paper's number, over the SD of one run: over {seeds} seeds with these models or, *with
refits*, over seeds and {refits} refits, for which the data are drawn and the models ranked and fitted again. In
Figures 3 and 3b the SD is that of a mean over five base points; in the real-data tables it is over base points, and
the data are not the paper's. *Fitted* marks numbers to which the base point was fitted."""

_CLUES = """## Base points

The paper does not print its base points. They were sought under the true function, so that the figures below come
close to the paper's: in 10-D by a search (`python -m experiments search-base-points`), in 2-D by quadrature. *Error*
is a rough guess of the error of one run of the paper; *gap* is in such errors."""

_READINGS = """## The loss of several models

SP and Tail of ModelUnc under four readings of "the loss" of several models. *Gap* is the distance of their ratios to
the Gibbs figures from the paper's own ratios, in logarithms. All other tables use the best model's loss."""

_REAL = """## Real data

The paper's Google Trends series are not public. Source of the tables below: {label}. [Trends](trends.md) explains how
to use your own download."""

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
