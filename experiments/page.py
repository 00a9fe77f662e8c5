"""The page ``docs/paper.md``: prose around the tables of one run; every number in a table comes from that run."""

from experiments.items import Item
from experiments.output import markdown
from experiments.workshop import Workshop

__all__ = ["page"]

_INTRODUCTION = """# The paper, reproduced

This page was written by `make paper` (`python -m experiments`), which recomputes Section 3 of *A Generalized-Bayes
Perspective on Counterfactual Explanations* with `gbce`; every number outside the column or line "paper" comes from that
run. {how}

Beside the paper's single run stand one run of ours and the mean and SD over seeds: a difference smaller than a few SD
cannot be seen in one run. `python -m experiments --fast` does the same in a few minutes with fixed models, fewer seeds
and fewer base points; `python -m experiments table1 fig3` makes only those."""

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

The Google Trends series of the paper are not public. The tables below come from {label}; see [trends](trends.md) for
how to run the experiment on a download of your own. The stand-in meets the paper's table of descriptive statistics
exactly, but its trends, events and the link between series are invented: compare shapes, not digits. Squared loss on a
0-100 scale at eta = 1 is far sharper than the models' own error, so that importance sampling keeps few distinct
candidates; the median effective sample size stands in the title of each table."""


def page(shop: Workshop, items: dict[str, Item]) -> str:
    """Return the page in Markdown."""
    if shop.fast:
        how = "This one was made with `--fast`: fixed models instead of AutoML."
    else:
        how = f"Models were searched for {shop.budget:g} s per estimator, as in the paper."
    parts = [_INTRODUCTION.format(how=how), _section(items, "leaderboard"), _BASE_POINTS, _table(items, "base-points")]
    parts += [_section(items, name) for name in ("table1", "table1-posterior", "table2", "table2-posterior", "varimp")]
    for name in ("fig1", "fig2", "fig3", "fig3b"):
        parts += [_section(items, name), f"![{items[name].title}](img/paper/{name}.png)"]
    parts += [_CLAIMS, _table(items, "claims"), _CHOICES, _table(items, "readings")]
    parts += [_REAL.format(label=f"the {shop.trends.label}" if "SYNTHETIC" in shop.trends.label else shop.trends.label)]
    parts += [_section(items, name) for name in ("real2d", "real10d", "real-varimp")]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(items: dict[str, Item], name: str) -> str:
    return "\n\n".join(part for part in (f"## {items[name].title}", _table(items, name)) if part)


def _table(items: dict[str, Item], name: str) -> str:
    table = items[name].table
    return "" if table is None else markdown(table)
