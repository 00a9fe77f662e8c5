"""One function per table or figure of Section 3: takes the workshop, returns what to print and what was written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments import claims, figures, real, simulated
from experiments.base_points import BASE_POINTS, clues_table
from experiments.numbers import Key, beyond, eta_numbers, paper_numbers, seen, z_value
from experiments.orders import orders, resampled
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
    data : DataFrame, optional
        The numbers behind the table, for its CSV and for the sentences of the page; the table itself if left out.
    files : list of Path
        Figures that were written.
    """

    title: str
    table: pd.DataFrame | None = None
    data: pd.DataFrame | None = None
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
    how = (
        "fixed models, chosen by hand to come near the paper's errors"
        if shop.fast
        else f"FLAML, {shop.budget:g} s of processor time per estimator"
    )
    return Item(f"Top three models ({how}; real: {shop.trends.label})", _errors(shop))


def _errors(shop: Workshop) -> pd.DataFrame:
    """Top three models with their MSE, and z over the SD of the refits."""
    boards = {
        "simulated 2-D": (shop.two.board, [case.board for case, _ in shop.refits_two]),
        "simulated 10-D": (shop.ten.board, [case.board for case, _ in shop.refits_ten]),
        "real 2-D": (shop.real_two[0].board, []),
        "real 10-D": (shop.real_ten[0].board, []),
    }
    lines = []
    for name, (board, refits) in boards.items():
        for place, entry in enumerate(board.top(3)):
            model, mse = LEADERBOARD[name][place]
            sd = float(np.std([again.top(3)[place].mse for again in refits], ddof=1)) if len(refits) > 1 else np.nan
            z = round(z_value(entry.mse, mse, sd), 1) if len(refits) > 1 else np.nan
            lines.append((name, place + 1, model, mse, entry.label, round(entry.mse, 3), round(sd, 3), z))
    columns = ["data", "place", "paper's model", "paper's MSE", "model", "MSE", "SD over refits", "z"]
    return pd.DataFrame(lines, columns=columns).set_index(["data", "place"])


def table1(shop: Workshop) -> Item:
    """Table 1, rules."""
    return _numbers(shop, "Table 1: the decisions", "2-D", _is_decision)


def table1_posterior(shop: Workshop) -> Item:
    """Table 1, posterior."""
    return _numbers(shop, "Table 1: the posterior", "2-D", _is_posterior)


def table2(shop: Workshop) -> Item:
    """Table 2, rules."""
    return _numbers(shop, "Table 2: the decisions", "10-D", _is_decision)


def table2_posterior(shop: Workshop) -> Item:
    """Table 2, posterior."""
    return _numbers(shop, "Table 2: the posterior", "10-D", _is_posterior)


def varimp(shop: Workshop) -> Item:
    """VarImp in two and in ten dimensions, beside the prior's own value."""
    data = shop.numbers[[_is_change(key) for key in shop.numbers.index.droplevel("data")]].copy()
    priors = {}
    for name, runs in (("2-D", shop.runs_two), ("10-D", shop.runs_ten)):
        for method, table in runs.items():
            for feature, value in table.importance["prior"].groupby(level="feature").mean().items():
                priors[name, method, "posterior", f"VarImp {feature}"] = float(value)
    data["prior"] = [priors[key] for key in data.index]
    return Item(f"VarImp: E|x_j - x_b,j| ({_size(shop)})", beside_the_paper(data).droplevel("rule"), data)


def counts(shop: Workshop) -> Item:
    """How many of the paper's numbers lie beyond two and three SD."""
    whole, path = shop.numbers, eta_numbers(shop.path.whole, shop.path.loss)
    of = "Tables 1 and 2, VarImp"
    groups = {
        (of, "all"): whole,
        (of, "the base point was fitted to it"): whole[whole["fitted"]],
        (of, "not fitted"): whole[~whole["fitted"]],
        ("Figures 3 and 3b", "all"): path,
        ("MSE of the top three models, simulated", "all"): _errors(shop).dropna(subset="z"),
    }
    for d, (case, runs) in {2: shop.real_two, 10: shop.real_ten}.items():
        groups[f"real {d}-D, on {shop.trends.where}", "all"] = real.numbers(case, runs)
    lines = {}
    for key, frame in groups.items():
        refits = beyond(frame["z, refits"]) if "z, refits" in frame else {}
        extra = {f"{name} with refits": refits.get(name, "") for name in ("beyond 2 SD", "beyond 3 SD")}
        lines[key] = {**beyond(frame["z"]), **extra}
    table = pd.DataFrame.from_dict(lines, orient="index")
    index = pd.MultiIndex.from_tuples(table.index, names=["numbers of", "which"])
    return Item("How far the paper's numbers lie from ours", table.set_axis(index))


def eta_text(shop: Workshop) -> Item:
    """Return the numbers that the paper's text reads off Figures 3 and 3b."""
    data = eta_numbers(shop.path.whole, shop.path.loss)
    return Item("Figures 3 and 3b: the numbers in the paper's text", beside_the_paper(data), data)


def fig1(shop: Workshop) -> Item:
    """Figure 1."""
    return _figure(shop, "Figure 1: 2-D Gibbs posterior", "fig1", figures.posterior_figure(shop.two, "Gibbs"))


def fig2(shop: Workshop) -> Item:
    """Figure 2."""
    return _figure(shop, "Figure 2: 2-D ModelUnc posterior", "fig2", figures.posterior_figure(shop.two, "ModelUnc"))


def fig3(shop: Workshop) -> Item:
    """Figure 3, both panels."""
    groups = shop.path.whole.groupby(level="eta")
    table = _by_eta(groups.mean().join(groups.std().add_suffix(" SD")))
    return _figure(shop, "Figure 3: Stability and SP against eta", "fig3", figures.path_figure(shop.path), table)


def fig3b(shop: Workshop) -> Item:
    """Figure 3b."""
    table = _by_eta(shop.path.loss.groupby(level="eta").mean())
    return _figure(shop, "Figure 3b: loss of the decisions against eta", "fig3b", figures.loss_figure(shop.path), table)


def readings(shop: Workshop) -> Item:
    """SP and Tail of ModelUnc under four readings of its loss."""
    cases = {"2-D": shop.two, "10-D": shop.ten}
    tables = {name: simulated.readings(case, n_seeds=max(shop.n_seeds // 2, 2)) for name, case in cases.items()}
    return Item("SP and Tail of ModelUnc under four readings of the loss", pd.concat(tables, names=["data"]).round(3))


def verdicts(shop: Workshop) -> Item:
    """Return a verdict for each claim of the paper."""
    papers = {d: paper_numbers(d) for d in (2, 10)}
    checked = claims.simulated_claims(papers, {d: pd.concat(fits) for d, fits in shop.fits.items()})
    checked += claims.eta_claims(shop.path)
    for d, (case, runs) in {2: shop.real_two, 10: shop.real_ten}.items():
        checked += claims.real_claims(d, real.paper_means(case), resampled(seen(runs)), shop.trends.where)
    data = claims.claims_frame(checked)
    return Item(f"The paper's claims ({_size(shop)}; real: {shop.trends.label})", data.drop(columns="share"), data)


def contrary(shop: Workshop) -> Item:
    """Return every order between two of the paper's numbers; those that are opposite here are shown."""
    tables = {f"{d}-D": orders(paper_numbers(d), pd.concat(fits)) for d, fits in shop.fits.items()}
    for d, (case, runs) in {2: shop.real_two, 10: shop.real_ten}.items():
        tables[f"real {d}-D"] = orders(real.paper_means(case), resampled(seen(runs)))
    data = pd.concat(tables, names=["data"])
    against = data[data["order"] == "contrary"]
    shown = pd.DataFrame(
        {
            "paper": [f"{a:.3f} < {b:.3f}" for a, b in zip(against.iloc[:, 0], against.iloc[:, 1], strict=True)],
            "here": [f"{a:.3f} > {b:.3f}" for a, b in zip(against.iloc[:, 2], against.iloc[:, 3], strict=True)],
            "opposite in": [f"{share:.0%}" for share in against["opposite"]],
        },
        index=against.index,
    )
    return Item(f"Orders of the paper that are opposite here (real: {shop.trends.label})", shown, data)


def real2d(shop: Workshop) -> Item:
    """Table real2d."""
    return _real("Table real2d", *shop.real_two)


def real10d(shop: Workshop) -> Item:
    """Table real10d."""
    return _real("Table real10d", *shop.real_ten)


def real_varimp(shop: Workshop) -> Item:
    """VarImp of the real-data experiment."""
    tables = {}
    for d, (case, runs) in {2: shop.real_two, 10: shop.real_ten}.items():
        whole = real.numbers(case, runs)
        names = {f"VarImp x{j + 1}": f"VarImp {name}" for j, name in enumerate(case.X.columns)}
        tables[f"real {d}-D"] = whole[[_is_change(key) for key in whole.index]].rename(names, level="figure")
    data = pd.concat(tables, names=["data"])
    return Item(f"VarImp, real data ({shop.trends.label})", beside_the_paper(data).droplevel("rule"), data)


def real_success(shop: Workshop) -> Item:
    """At how many base points of the real-data experiment draws succeed, and how many draws there are in effect."""
    tables = {f"real {d}-D": real.success(runs, case.setting)
              for d, (case, runs) in {2: shop.real_two, 10: shop.real_ten}.items()}  # fmt: skip
    return Item(f"Success, real data ({shop.trends.label})", pd.concat(tables, names=["data"]))


def base_points(shop: Workshop) -> Item:
    """Return the base points in use."""
    lines = {f"{d}-D": ", ".join(f"{value:g}" for value in x) for d, x in BASE_POINTS.items()}
    return Item("Base points x_b", pd.DataFrame({"x_b": lines}).rename_axis("data"))


def clues(shop: Workshop) -> Item:
    """Return what the base points were fitted to, and how far they end from it."""
    data = pd.concat({f"{d}-D": clues_table(d) for d in BASE_POINTS}, names=["data"])
    return Item("What the base points were fitted to", data.round(3), data)


def _numbers(shop: Workshop, title: str, name: str, chosen: Callable[[Key], bool]) -> Item:
    whole = shop.numbers.xs(name, level="data")
    data = whole[[chosen(key) for key in whole.index]]
    shown = beside_the_paper(data)
    return Item(f"{title} ({_size(shop)})", shown.droplevel("rule") if chosen is _is_posterior else shown, data)


def _is_decision(key: Key) -> bool:
    return key[1] != "posterior"


def _is_posterior(key: Key) -> bool:
    return not _is_decision(key) and not _is_change(key)


def _is_change(key: Key) -> bool:
    return key[2].startswith("VarImp")


def _size(shop: Workshop) -> str:
    return f"{shop.n_seeds} seeds; refits: {shop.n_refits}, with {shop.n_seeds_of_refits} seeds each"


def _by_eta(table: pd.DataFrame) -> pd.DataFrame:
    return table.round(3).rename(index=lambda eta: round(eta, 3))


def _figure(shop: Workshop, title: str, name: str, figure: Figure, table: pd.DataFrame | None = None) -> Item:
    return Item(title, table, files=figures.saved(figure, shop.out, name))


def _real(name: str, case: real.RealCase, runs: simulated.Runs) -> Item:
    used, there = len(runs.gibbs), len(case.base_points)
    number = f"{used} base points" if used == there else f"{used} of {there} base points"
    whole = real.numbers(case, runs)
    data = whole[[not _is_change(key) for key in whole.index]]
    return Item(f"{name} ({case.label}; {number}; y* = {case.y_star:g})", beside_the_paper(data), data)


ITEMS: dict[str, Callable[[Workshop], Item]] = {
    "base-points": base_points,
    "clues": clues,
    "leaderboard": leaderboard,
    "table1": table1,
    "table1-posterior": table1_posterior,
    "table2": table2,
    "table2-posterior": table2_posterior,
    "varimp": varimp,
    "counts": counts,
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "fig3b": fig3b,
    "eta-text": eta_text,
    "readings": readings,
    "real2d": real2d,
    "real10d": real10d,
    "real-varimp": real_varimp,
    "real-success": real_success,
    "claims": verdicts,
    "orders": contrary,
}
