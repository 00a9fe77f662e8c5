"""Every number of the paper against ours: how many standard deviations lie between them.

A number is known by (method, rule, figure); the rule is "posterior" for SP, Tail, Stability and VarImp. ``z`` is our
mean minus the paper's number, over the SD of one run. There are two such SDs: that over seeds with the models held
fast, and that over seeds *and* refits, for which data of the same law are drawn anew and the models fitted to them
anew; the paper's own models are one more such fit.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.base_points import FITTED
from experiments.simulated import POINT_FIGURES, WHOLE_FIGURES, Runs, short
from experiments.tables_of_the_paper import (
    DISTRIBUTION,
    ETA_PATH,
    IMPORTANCE,
    POINTWISE,
    REAL_IMPORTANCE,
    REAL_TABLES,
)

__all__ = [
    "Key",
    "against_the_paper",
    "beyond",
    "eta_numbers",
    "is_fitted",
    "paper_numbers",
    "seen",
    "spread",
    "z_value",
]

Key = tuple[str, str, str]
PRINTED = 0.0005  # half of the last digit that the paper prints
_LEVELS = ["method", "rule", "figure"]


def is_fitted(key: Key) -> bool:
    """Whether the base points were fitted to this number of the paper."""
    method, rule, figure = key
    return (method, rule, figure.split(" ")[0]) in FITTED


def paper_numbers(d: int, *, real: bool = False) -> pd.Series:
    """Return the paper's numbers: Tables 1 and 2 with VarImp, or the means of Tables real2d and real10d.

    Returns
    -------
    Series
        By method, rule and figure.
    """
    found: dict[Key, float] = {}
    for method in ("Gibbs", "ModelUnc"):
        whole = [mean for mean, _ in REAL_TABLES[d][method]] if real else DISTRIBUTION[d][method]
        changes = (REAL_IMPORTANCE if real else IMPORTANCE)[d][method]
        found |= {(method, "posterior", name): v for name, v in zip(WHOLE_FIGURES.values(), whole, strict=True)}
        found |= {(method, "posterior", f"VarImp x{j + 1}"): v for j, v in enumerate(changes)}
    rows = {k: [mean for mean, _ in v] for k, v in REAL_TABLES[d].items() if isinstance(k, tuple)}
    for (method, rule), values in (rows if real else POINTWISE[d]).items():
        found |= {(method, rule, name): v for name, v in zip(POINT_FIGURES.values(), values, strict=True)}
    return pd.Series(found).rename_axis(_LEVELS)


def seen(runs: Runs) -> pd.DataFrame:
    """Return our own numbers: one line per run (or base point), one column per (method, rule, figure)."""
    columns: dict[Key, pd.Series] = {}
    for method, table in runs.items():
        for name, symbol in POINT_FIGURES.items():
            for label, values in table.pointwise[name].unstack("rule").items():
                rule = short(str(label))
                key = ("DirectOpt", "---", symbol) if rule == "DirectOpt" else (method, rule, symbol)
                columns[key] = values
        columns |= {(method, "posterior", symbol): table.distribution[name] for name, symbol in WHOLE_FIGURES.items()}
        for feature, values in table.importance["change"].unstack("feature").items():
            columns[method, "posterior", f"VarImp {feature}"] = values
    frame = pd.DataFrame({key: values.to_numpy() for key, values in columns.items()})
    return frame.rename_axis(columns=_LEVELS)


def z_value(mean: float, paper: float, sd: float) -> float:
    """Return (mean - paper) / sd; without any spread 0 if the paper prints the same, else infinite."""
    gap = mean - paper
    if sd > 0:
        return gap / sd
    return 0.0 if abs(gap) <= PRINTED else math.copysign(math.inf, gap)


def spread(fits: Sequence[pd.Series]) -> tuple[float, float]:
    """Return the mean over fits, and the SD of one run of one fit: seeds and models together.

    The variance between fits is that of their means, less what the seeds contribute to these.
    """
    means = np.array([fit.mean() for fit in fits])
    sizes = np.array([len(fit) for fit in fits])
    within = float(sum((fit - fit.mean()).pow(2).sum() for fit in fits) / (sizes - 1).sum())
    between = float(means.var(ddof=1) - np.mean(within / sizes)) if len(fits) > 1 else 0.0
    return float(means.mean()), math.sqrt(within + max(between, 0.0))


def against_the_paper(paper: pd.Series, fits: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one line per number of the paper.

    Parameters
    ----------
    paper : Series
        As `paper_numbers` gives it.
    fits : sequence of DataFrame
        As `seen` gives them, the models of the page first, then the refits.

    Returns
    -------
    DataFrame
        paper, run (the first), mean, SD, z over the seeds of the first fit, the same three over all fits (", refits"),
        and whether the base point was fitted to the number.
    """
    lines = {}
    for key, number in paper.items():
        first = fits[0][key]
        whole, sd = spread([fit[key] for fit in fits])
        lines[key] = {
            "paper": number,
            "run": first.iloc[0],
            "mean": first.mean(),
            "SD": first.std(),
            "z": z_value(first.mean(), number, first.std()),
            "mean, refits": whole,
            "SD, refits": sd,
            "z, refits": z_value(whole, number, sd),
            "fitted": is_fitted(key),
        }
    frame = pd.DataFrame.from_dict(lines, orient="index")
    return frame.set_axis(pd.MultiIndex.from_tuples(frame.index, names=_LEVELS)).astype({"fitted": bool})


def eta_numbers(whole: pd.DataFrame, loss: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers that the text reads off Figures 3 and 3b, with ``z`` over the SD of a mean of base points.

    Parameters
    ----------
    whole, loss : DataFrame
        By base point and eta: success_probability and stability; loss by rule.
    """
    columns = {
        "success probability": whole["success_probability"],
        "stability": whole["stability"],
        "MAP loss": loss["MAP"],
        "Mean loss": loss["Mean"],
    }
    lines = {}
    for figure, values in ETA_PATH.items():
        for eta, number in values.items():
            here = columns[figure].xs(eta, level="eta")
            sd = float(here.std() / np.sqrt(len(here)))
            lines[figure, round(eta, 3)] = {
                "paper": number, "mean": here.mean(), "SD": sd, "z": z_value(here.mean(), number, sd)
            }  # fmt: skip
    frame = pd.DataFrame.from_dict(lines, orient="index")
    return frame.set_axis(pd.MultiIndex.from_tuples(frame.index, names=["figure", "eta"]))


def beyond(z: pd.Series) -> dict[str, int]:
    """Return how many numbers there are, and how many lie more than two and three SD away."""
    size = z.abs()
    return {"numbers": len(z), "beyond 2 SD": int((size > 2).sum()), "beyond 3 SD": int((size > 3).sum())}
