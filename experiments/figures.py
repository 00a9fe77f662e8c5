"""Figures 1, 2, 3 and 3b, as PNG and PDF."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import gbce
from experiments.simulated import SEED, Case, short
from gbce.plots._style import put_legend_outside

__all__ = ["ETAS", "EtaPath", "eta_path", "loss_figure", "path_figure", "posterior_figure", "saved"]

ETAS = tuple(k / 3 for k in range(7))
N_BASE_POINTS = 5
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}
_COLOURS = {"MAP": "#d62728", "Mean": "#2ca02c", "CVaR": "#8e44ad"}


def posterior_figure(case: Case, method: str) -> Figure:
    """Figures 1 and 2: draws of the posterior over the two features, the region that succeeds, and the decisions."""
    n_models = 1 if method == "Gibbs" else 3
    explainer = case.explainer(n_models)
    explanation = explainer.explain(case.x0, case.target, rules=[*case.setting.rules, gbce.DirectOpt()], seed=SEED)
    with plt.rc_context(_STYLE):
        figure, ax = plt.subplots(figsize=(7.2, 5.0), layout="constrained")
        explanation.plot.posterior(ax=ax)
        _success_region(case, ax)
        ax.set_title(f"2-D {method} posterior and decisions", loc="left")
        ax.set_xlabel("$x_1$")
        ax.set_ylabel("$x_2$")
    return figure


def _success_region(case: Case, ax: Axes) -> None:
    """Shade where the best model's output lies within the tolerance of y*."""
    xlim, ylim = ax.get_xlim(), ax.get_ylim()
    side = np.linspace(*xlim, 240), np.linspace(*ylim, 240)
    grid = np.stack(np.meshgrid(*side), axis=-1)
    loss = np.square(case.board.best.model.predict(grid.reshape(-1, 2)) - case.data.y_star).reshape(240, 240)
    ax.contourf(*side, loss, levels=[0.0, case.setting.epsilon], colors=["#f2c14e"], alpha=0.30, zorder=0)
    ax.set_xlim(*xlim)
    ax.set_ylim(*ylim)
    handles, labels = ax.get_legend_handles_labels()
    region = Patch(facecolor="#f2c14e", alpha=0.30)
    put_legend_outside(ax, [region, *handles], ["within tolerance of y*", *(short(label) for label in labels)])


@dataclass(frozen=True, eq=False)
class EtaPath:
    """Figures by eta and base point: ``whole`` (SP, Stability) and ``loss`` (L_pt of each rule)."""

    whole: pd.DataFrame
    loss: pd.DataFrame


def eta_path(case: Case, *, n_jobs: int) -> EtaPath:
    """Run the Gibbs posterior at each eta from five base points, picked at random among the training rows."""
    rows = case.data.X[np.random.default_rng(SEED).choice(len(case.data.X), N_BASE_POINTS, replace=False)]
    seeds = np.random.SeedSequence(SEED).spawn(len(rows))  # each row's own: figures are means over rows
    whole, loss = [], []
    for eta in ETAS:
        explainer = case.explainer(1, eta=eta)
        table = explainer.explain_many(
            rows, case.target, rules=case.setting.rules, seed=seeds, n_jobs=n_jobs, progress=False
        )
        figures = table.distribution[["success_probability", "stability"]]
        whole.append(figures.assign(eta=eta).set_index("eta", append=True))
        by_rule = table.pointwise["loss"].unstack("rule")
        loss.append(by_rule.rename(columns=short).assign(eta=eta).set_index("eta", append=True))
    return EtaPath(pd.concat(whole), pd.concat(loss))


def path_figure(path: EtaPath) -> Figure:
    """Figure 3: Stability (left) and SP (right) against eta, mean and SD over base points."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
        names = {"stability": "Stability", "success_probability": "Success probability"}
        for ax, (name, title) in zip(axes, names.items(), strict=True):
            groups = path.whole[name].groupby(level="eta")
            mean, sd = groups.mean(), groups.std()
            ax.fill_between(mean.index, mean - sd, mean + sd, color="#3b6fb6", alpha=0.18, linewidth=0)
            ax.plot(mean.index, mean, color="#3b6fb6", marker="o", ms=4)
            ax.set_xlabel(r"$\eta$")
            ax.set_ylabel(title)
            ax.set_title(f"{title}: mean ± SD over {N_BASE_POINTS} base points", loc="left")
    return figure


def loss_figure(path: EtaPath) -> Figure:
    """Figure 3b: mean loss of each rule's decision against eta."""
    with plt.rc_context(_STYLE):
        figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
        mean = path.loss.groupby(level="eta").mean()
        for rule in ("MAP", "Mean", "CVaR"):
            ax.plot(mean.index, mean[rule], marker="o", ms=4, color=_COLOURS[rule], label=rule)
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(r"$\eta$")
        ax.set_ylabel("mean loss $L_{pt}$")
        ax.set_title(f"Loss of the decisions, mean over {N_BASE_POINTS} base points", loc="left")
        ax.legend()
    return figure


def saved(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.pdf"]
    for path in paths:
        figure.savefig(path, dpi=200)
    plt.close(figure)
    return paths
