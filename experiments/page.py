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
seeds and fewer base points; those models were chosen by hand so that their errors come near the paper's, so the
leaderboard of the fast mode says nothing. `python -m experiments table1 fig3` makes one table and one figure."""

_READING = """## Reading

- **The trade-off of the rules reproduces.** Mean is nearest and misses, in 2-D without any robustness; MAP and
  DirectOpt reach the target at a moderate distance; CVaR is the most robust and the farthest away. How far CVaR goes
  is less certain: its candidates here are distinct draws from the whole posterior, both branches of the success
  region included, and in 2-D it settles farther out than the paper's.
- **MAP against DirectOpt, and CVaR against MAP in loss, are within noise in 2-D.** All three have losses near zero,
  and which one is smaller changes with the seed and with the fitted model. The paper's factor of forty between
  DirectOpt and MAP is a property of one run.
- **The kNN MAP in 10-D is unstable**, as the paper says: its loss has an SD over seeds as large as its mean. That
  Gibbs or ModelUnc has the better one is chance. (`MAP()` of this library does not estimate the density, which is
  known up to its constant.)
- **VarImp singles out x2** in both simulations, far beyond its SD over seeds and beyond the prior's own value; most
  other features stay near the prior's value, as the paper warns.
- **SP rises with eta** at every step. Stability drops at first; whether it then levels off cannot be told from five
  base points, because the SD between them is several times larger than any change along eta.
- **ModelUnc has the heavier tail** and the lower SP in 10-D and on the stand-in, beyond noise. In 2-D, where the
  three models agree almost everywhere, these differences, its larger Stability and the higher robustness of its CVaR
  are within noise: the paper's single run could have shown the opposite.
- **Real data**: on the stand-in most of the shape of the paper's tables returns: Mean misses, CVaR goes farther,
  ModelUnc has the lower SP and the heavier tail. Its SP of exactly one does not: for part of the base points no
  candidate of the prior comes near the target under the model that AutoML chose, and then no draw succeeds. How many
  they are depends on that model more than on anything else."""

_BASE_POINTS = """## Base points

The paper does not print its base points. For 2-D, quadrature of the true function at (0.2, 0.1) gives Table 1's
distributional figures to Monte Carlo and model error. For 10-D a search (`python -m experiments search-base-points`)
compared the figures of the posterior under the true function with the paper's SP, Tail, Stability, VarImp and the
loss and distance of its Mean, in units of the Monte Carlo error of one run, starting from training rows. The search
is noisy: its seeds end at different points that fit about equally well in 10-D, of which the first was taken, and in
2-D at one that fits worse than (0.2, 0.1), which was kept. Neither is claimed to be the paper's own."""

_CHOICES = """## Where the paper is silent

- **The loss of several models.** SP, Tail, L_pt and Rb of ModelUnc are those of the best model. The table below shows
  the other readings; `gap` says how far the two ratios to the Gibbs figures are from the paper's own ratios (in
  logarithms). The ratios depend on which models came second and third at least as much as on the reading.
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
run is a resample of the base points.

Seeds do not vary the models: AutoML stops by the clock, so a second search finds others. One other full run was made,
on a busy machine. All verdicts on simulated data were the same there; of the real-data ones two differed (CVaR's
robustness in 2-D was reproduced, every draw succeeding in 10-D was within noise), many more draws succeeded in 2-D, and
the reading of ModelUnc's loss nearest to the paper in 10-D was the mean loss."""

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
        how = (
            "This one was made with `--fast`: fixed models instead of AutoML, so its leaderboard is not a reproduction."
        )
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
