"""One function per table or figure of Section 3: takes the workshop, returns what to print and what was written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments import claims, figures, real, simulated
from experiments.base_points import BASE_POINTS
from experiments.output import beside_the_paper, markdown, text
from experiments.tables_of_the_paper import LEADERBOARD
from experiments.workshop import Workshop

__all__ = ["ITEMS", "Item"]


@dataclass(frozen=True, eq=False)
class Item:
    """A finished table or figure.

    Parameters
    ----------
    title : str
        What it is.
    table : DataFrame, optional
        Ready to be shown.
    files : list of Path
        Figures that were written.
    """

    title: str
    table: pd.DataFrame | None = None
    files: list[Path] = field(default_factory=list)

    def markdown(self) -> str:
        """Return title and table as a section in Markdown."""
        return "\n\n".join([f"## {self.title}", *([] if self.table is None else [markdown(self.table)])])

    def __str__(self) -> str:
        parts = [self.title, "=" * len(self.title)]
        if self.table is not None:
            parts.append(text(self.table))
        return "\n".join([*parts, *(f"wrote {path}" for path in self.files)])


def leaderboard(shop: Workshop) -> Item:
    """Table "top three models", simulated data and the real-data series."""
    boards = {
        "simulated 2-D": shop.two.board,
        "simulated 10-D": shop.ten.board,
        "real 2-D": shop.real_two[0].board,
        "real 10-D": shop.real_ten[0].board,
    }
    lines = [
        (name, place + 1, *LEADERBOARD[name][place], entry.label, round(entry.mse, 3))
        for name, board in boards.items()
        for place, entry in enumerate(board.top(3))
    ]
    columns = ["data", "place", "paper's model", "paper's MSE", "model", "MSE"]
    how = (
        "fixed models, chosen by hand to come near the paper's errors"
        if shop.fast
        else f"FLAML, {shop.budget:g} s per estimator"
    )
    title = f"Top three models ({how}; real: {shop.trends.label})"
    return Item(title, pd.DataFrame(lines, columns=columns).set_index(["data", "place"]))


def table1(shop: Workshop) -> Item:
    """Table 1, rules."""
    return _pointwise("Table 1", shop.two, shop.runs_two)


def table1_posterior(shop: Workshop) -> Item:
    """Table 1, posterior."""
    return _distribution("Table 1", shop.two, shop.runs_two)


def table2(shop: Workshop) -> Item:
    """Table 2, rules."""
    return _pointwise("Table 2", shop.ten, shop.runs_ten)


def table2_posterior(shop: Workshop) -> Item:
    """Table 2, posterior."""
    return _distribution("Table 2", shop.ten, shop.runs_ten)


def varimp(shop: Workshop) -> Item:
    """VarImp in two and in ten dimensions."""
    tables = [
        simulated.importance_table(case, runs) for case, runs in ((shop.two, shop.runs_two), (shop.ten, shop.runs_ten))
    ]
    both = pd.concat(tables, keys=["2-D", "10-D"], names=["data"])
    return Item("VarImp: E|x_j - x_b,j| beside the prior's own", beside_the_paper(both))


def fig1(shop: Workshop) -> Item:
    """Figure 1."""
    return _figure(shop, "Figure 1: 2-D Gibbs posterior", "fig1", figures.posterior_figure(shop.two, "Gibbs"))


def fig2(shop: Workshop) -> Item:
    """Figure 2."""
    return _figure(shop, "Figure 2: 2-D ModelUnc posterior", "fig2", figures.posterior_figure(shop.two, "ModelUnc"))


def fig3(shop: Workshop) -> Item:
    """Figure 3, both panels."""
    groups = shop.path.whole.groupby(level="eta")
    table = groups.mean().join(groups.std().add_suffix(" SD")).round(3)
    return _figure(shop, "Figure 3: Stability and SP against eta", "fig3", figures.path_figure(shop.path), table)


def fig3b(shop: Workshop) -> Item:
    """Figure 3b."""
    table = shop.path.loss.groupby(level="eta").mean().round(3)
    return _figure(shop, "Figure 3b: loss of the decisions against eta", "fig3b", figures.loss_figure(shop.path), table)


def readings(shop: Workshop) -> Item:
    """SP and Tail of ModelUnc under four readings of its loss."""
    cases = {"2-D": shop.two, "10-D": shop.ten}
    tables = {name: simulated.readings(case, n_seeds=max(shop.n_seeds // 2, 2)) for name, case in cases.items()}
    return Item("SP and Tail of ModelUnc under four readings of the loss", pd.concat(tables, names=["data"]).round(3))


def verdicts(shop: Workshop) -> Item:
    """Return a verdict for each claim of the paper."""
    checked = claims.simulated_claims(shop.runs_two, shop.runs_ten) + claims.eta_claims(shop.path)
    for d, (_, runs) in {2: shop.real_two, 10: shop.real_ten}.items():
        checked += claims.real_claims(d, runs.gibbs, runs.modelunc)
    title = f"The paper's claims ({shop.n_seeds} seeds; real: {shop.trends.label})"
    return Item(title, claims.claims_frame(checked).set_index("claim"))


def real2d(shop: Workshop) -> Item:
    """Table real2d."""
    return _real("Table real2d", *shop.real_two)


def real10d(shop: Workshop) -> Item:
    """Table real10d."""
    return _real("Table real10d", *shop.real_ten)


def real_varimp(shop: Workshop) -> Item:
    """VarImp of the real-data experiment."""
    columns = {}
    for case, runs in (shop.real_two, shop.real_ten):
        for (method, data), row in real.importance_table(case, runs).iterrows():
            columns[f"{case.setting.d}-D {method}, {data}"] = row
    order = [str(name) for name in shop.trends.X.columns]
    table = pd.DataFrame(columns).reindex(order).rename_axis("feature")
    return Item(f"VarImp, real data ({shop.trends.label})", table.map(lambda v: "" if pd.isna(v) else f"{v:.3f}"))


def base_points(shop: Workshop) -> Item:
    """Return the base points in use."""
    lines = {f"{d}-D": ", ".join(f"{value:g}" for value in x) for d, x in BASE_POINTS.items()}
    return Item("Base points x_b", pd.DataFrame({"x_b": lines}).rename_axis("data"))


def _pointwise(name: str, case: simulated.Case, runs: simulated.Runs) -> Item:
    return Item(f"{name}: the decisions ({_size(runs)})", beside_the_paper(simulated.pointwise_table(case, runs)))


def _distribution(name: str, case: simulated.Case, runs: simulated.Runs) -> Item:
    return Item(f"{name}: the posterior ({_size(runs)})", beside_the_paper(simulated.distribution_table(case, runs)))


def _size(runs: simulated.Runs) -> str:
    return f"{len(runs.gibbs)} seeds"


def _figure(shop: Workshop, title: str, name: str, figure: Figure, table: pd.DataFrame | None = None) -> Item:
    return Item(title, table, figures.saved(figure, shop.out, name))


def _real(name: str, case: real.RealCase, runs: simulated.Runs) -> Item:
    used, there = len(runs.gibbs), len(case.base_points)
    number = f"{used} base points" if used == there else f"{used} of {there} base points"
    ess = float(np.median(runs.gibbs.diagnostics["ess"]))
    title = f"{name} ({case.label}; {number}; y* = {case.y_star:g}; median ESS {ess:.0f})"
    return Item(title, real.mean_and_sd(case, runs))


ITEMS: dict[str, Callable[[Workshop], Item]] = {
    "base-points": base_points,
    "leaderboard": leaderboard,
    "table1": table1,
    "table1-posterior": table1_posterior,
    "table2": table2,
    "table2-posterior": table2_posterior,
    "varimp": varimp,
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "fig3b": fig3b,
    "readings": readings,
    "real2d": real2d,
    "real10d": real10d,
    "real-varimp": real_varimp,
    "claims": verdicts,
}
