"""The page ``docs/paper.md``: prose around the tables of one run; every number in a table comes from that run."""

import json
import shutil
from pathlib import Path

from experiments.output import write

__all__ = ["page", "published"]

FIGURES = ("fig1", "fig2", "fig3", "fig3b")

_INTRODUCTION = """# The paper, reproduced

This page was written by `make paper` (`python -m experiments`), which recomputes Section 3 of *A Generalized-Bayes
Perspective on Counterfactual Explanations* with `gbce`; every number outside the column or line "paper" comes from that
run. {how}

Beside the paper's single run stand one run of ours and the mean and SD over {seeds} seeds: a difference smaller than a
few SD cannot be seen in one run. `python -m experiments --fast` does the same in a few minutes with fixed models, fewer
seeds and fewer base points; `python -m experiments table1 fig3` makes only those."""

_READING = """## Reading"""

_BASE_POINTS = """## Base points

The paper does not print its base points. For 2-D, quadrature of the true function at (0.2, 0.1) gives Table 1's
distributional figures to Monte Carlo and model error. For 10-D a search (`python -m experiments search-base-points`)
compared the figures of the posterior under the true function with the paper's SP, Tail, Stability, VarImp and the loss
and distance of its Mean, in units of the Monte Carlo error of one run, starting from training rows; several points fit
about equally well, and a typical one was taken. Neither is claimed to be the paper's own."""

_CHOICES = """## Where the paper is silent

- **The loss of several models.** SP, Tail, L_pt and Rb of ModelUnc are those of the best model. The table below shows
  the other readings: only a reading whose ratio to the Gibbs figure matches the paper's ratio can be the paper's.
- **CVaR of several models** minimises the loss that the mixture stands for, `-log(mean of exp(-loss))`.
- **The tail of 64 perturbed losses at tau = 0.9** is the losses at or above their 0.9-quantile: the seven largest.
- **Covariance** has the divisor n - 1; **D_pt** is the Euclidean norm (the paper's real-data distances are of the size
  of its changes, so it is not the squared distance of the prior).
- **CVaR candidates** are distinct draws picked at random. **KDE** uses Scott's bandwidth.
- **Random numbers**: inputs first, then noise, from `default_rng(42)`; the five base points of Figure 3 are training
  rows picked with the same seed.
- **AutoML** searches each estimator alone for the given budget; the paper's wording allows other readings."""

_CLAIMS = """## Claim by claim

A claim about one run is checked in every run: *reproduced* if it holds in at least 95% of them, *not reproduced* if in
at most 5%, otherwise *within noise*: one run cannot tell. The real-data claims compare means over base points; there a
run is a resample of the base points."""

_REAL = """## Real data

The Google Trends series of the paper are not public. The tables below come from: {label}; see [trends](trends.md) for
how to run the experiment on a download of your own. The stand-in meets the paper's table of descriptive statistics
exactly, but its trends, events and the link between series are invented: compare shapes, not digits. Squared loss on a
0-100 scale at eta = 1 is far sharper than the models' own error, so that importance sampling keeps few distinct
candidates; the median effective sample size stands in the title of each table."""


def page(folder: Path) -> str:
    """Return the page in Markdown, put together from the results in a folder."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if run["fast"]:
        how = "This one was made with `--fast`: fixed models instead of AutoML."
    else:
        how = f"Models were searched for {run['budget']:g} s per estimator, as in the paper."

    def section(name: str) -> str:
        return (folder / f"{name}.md").read_text(encoding="utf-8").strip()

    def table(name: str) -> str:
        return section(name).partition("\n\n")[2]

    parts = [_INTRODUCTION.format(how=how, seeds=run["seeds"]), _READING, _CLAIMS, table("claims")]
    parts += [section("leaderboard"), _BASE_POINTS, table("base-points")]
    parts += [section(name) for name in ("table1", "table1-posterior", "table2", "table2-posterior", "varimp")]
    for name in FIGURES:
        parts += [section(name), f"![{name}](img/paper/{name}.png)"]
    parts += [_CHOICES, table("readings"), _REAL.format(label=run["real data"])]
    parts += [section(name) for name in ("real2d", "real10d", "real-varimp")]
    return "\n\n".join(parts) + "\n"


def published(folder: Path, docs: Path) -> Path:
    """Copy the page and its figures into the documents."""
    (docs / "img" / "paper").mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        shutil.copyfile(folder / f"{name}.png", docs / "img" / "paper" / f"{name}.png")
    return write(docs / "paper.md", page(folder))
