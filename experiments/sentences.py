"""The reading of a run: sentences made from its tables, so that none outlives the result it is about.

Each function takes the tables that a run wrote (a frame per name, as read from its CSV) and returns one paragraph.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

__all__ = ["PARAGRAPHS", "reading"]

Results = Mapping[str, pd.DataFrame]
_LARGEST = 6  # gaps that are named; all of them stand in the tables


def reading(results: Results) -> list[str]:
    """Return the paragraphs about a run."""
    return [paragraph(results) for paragraph in PARAGRAPHS]


def claims_on_simulated_data(results: Results) -> str:
    """Say which claims of Tables 1 and 2 hold, and which of those are circular."""
    claims = results["claims"]
    claims = claims[~claims["claim"].str.startswith(("real", "Figure"))]
    judged, once = _split(claims)
    groups = {
        "reproduced": judged["verdict"] == "reproduced",
        "not reproduced": judged["verdict"] == "not reproduced",
        "within noise": judged["verdict"].str.startswith("within noise"),
    }
    fitted = judged[groups["reproduced"] & (judged["circular"] != "no")]
    parts = [f"**Tables 1 and 2.** {len(judged)} claims about one run: {_tally(groups)}."]
    parts.append(
        f"Of the reproduced {len(fitted)} are wholly or partly circular: {'; '.join(fitted['claim']) or 'none'}."
    )
    for name in ("not reproduced", "within noise"):
        if groups[name].any():
            parts.append(f"{name.capitalize()}: {_names(judged[groups[name]])}.")
    return " ".join([*parts, _once(once)])


def claims_on_figures(results: Results) -> str:
    """Say which claims of Figures 3 and 3b hold, and how far the curve moves beside its spread."""
    claims, curve = results["claims"], results["fig3"]
    figures = claims[claims["claim"].str.startswith("Figure")]
    later = curve[curve["eta"] > 0.3]
    span, sd = np.ptp(later["stability"]), later["stability SD"].max()
    moves = f"From eta = 1/3 to 2 mean Stability moves by {span:.2f}; its SD between base points is up to {sd:.2f}."
    return f"**Figures 3 and 3b.** {_once(figures)} {moves}"


def claims_on_real_data(results: Results) -> str:
    """Say which claims of the real-data tables have the same shape on the data at hand."""
    claims = results["claims"]
    claims = claims[claims["claim"].str.startswith("real")]
    shapes = ("same shape", "another shape", "within noise")
    groups = {name: claims["verdict"].str.startswith(name) for name in shapes}
    parts = [f"**Real data.** {len(claims)} claims: {_tally(groups)}."]
    for name in shapes[1:]:
        if groups[name].any():
            parts.append(f"{name.capitalize()}: {_names(claims[groups[name]])}.")
    for line in results["real-success"].itertuples(index=False):
        data, method, points, none, whole, ess, candidates = line
        parts.append(
            f"{data}, {method}: at {none} of {points} base points no draw succeeds, at {whole} every draw does; the "
            f"median effective sample size is {ess} of {candidates} candidates."
        )
    return " ".join(parts)


def numbers(results: Results) -> str:
    """Say how many of the paper's numbers lie far from ours, and which lie farthest."""
    parts = ["**Numbers.**"]
    for line in results["counts"].itertuples(index=False):
        of, which, size, two, three, two_refits, three_refits = line
        name = of if which == "all" else f"{of} ({which})"
        refits = "" if pd.isna(two_refits) else f", with refits {int(two_refits)} and {int(three_refits)}"
        parts.append(f"{name}: of {size} numbers {two} lie beyond 2 and {three} beyond 3 SD{refits}.")
    every = _every_number(results)
    far = every.reindex(every["z, refits"].abs().sort_values(ascending=False).index).head(_LARGEST)
    named = [f"{_called(line)} ({_against(line)})" for line in far.to_dict("records")]
    return " ".join([*parts, f"The largest z with refits: {'; '.join(named)}."])


def base_points(results: Results) -> str:
    """Say how well the base points fit their clues, and which clues contradict them."""
    parts = ["**Base points.**"]
    for data, clues in results["clues"].groupby("data", sort=False):
        rms = float(np.sqrt(np.mean(np.square(clues["gap"]))))
        far = [
            f"{line['clue']} ({line['base point']:.3f}, the paper has {line['paper']:.3f})"
            for line in clues[clues["gap"].abs() > 2].to_dict("records")
        ]
        contradicted = f"contradicted, by more than 2 errors, by {'; '.join(far)}" if far else "contradicted by none"
        parts.append(f"{data}: under the true function {rms:.2f} errors (rms) from {len(clues)} clues, {contradicted}.")
    return " ".join(parts)


def opposite_orders(results: Results) -> str:
    """Say in how many pairs of numbers the paper's order returns."""
    parts = ["**Orders.**"]
    for data, pairs in results["orders"].groupby("data", sort=False):
        count = pairs["order"].value_counts()
        same, contrary, undecided = (int(count.get(name, 0)) for name in ("same", "contrary", "open"))
        parts.append(
            f"{data}: {len(pairs)} orders between two of the paper's numbers, of which {same} the same here, "
            f"{contrary} contrary, {undecided} open."
        )
    return " ".join(parts)


def models(results: Results) -> str:
    """Say where the best model is of the paper's kind."""
    best = results["leaderboard"].query("place == 1")
    columns = ("data", "model", "MSE", "paper's model", "paper's MSE")
    parts = [
        f"{data}: {model} with MSE {mse:.3f} (the paper: {theirs}, {their_mse:.3f})"
        for data, model, mse, theirs, their_mse in zip(*(best[name] for name in columns), strict=True)
    ]
    same = int((best["model"] == best["paper's model"]).sum())
    return f"**Best models.** {'; '.join(parts)}. Of the same kind as the paper's: {same} of {len(best)}."


PARAGRAPHS: tuple[Callable[[Results], str], ...] = (
    claims_on_simulated_data,
    numbers,
    base_points,
    opposite_orders,
    claims_on_figures,
    claims_on_real_data,
    models,
)


def _split(claims: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Claims judged by their share of runs, and those that rest on one check."""
    once = claims["verdict"].str.endswith("(one check)")
    return claims[~once], claims[once]


def _once(claims: pd.DataFrame) -> str:
    holds = claims["verdict"].str.startswith("holds")
    parts = [f"Claims that rest on one check: {int(holds.sum())} of {len(claims)} hold."]
    if not holds.all():
        parts.append(f"Not: {_names(claims[~holds])}.")
    return " ".join(parts)


def _tally(groups: Mapping[str, pd.Series]) -> str:
    return ", ".join(f"{int(chosen.sum())} {name}" for name, chosen in groups.items())


def _names(claims: pd.DataFrame) -> str:
    """Name claims with what was seen; "none" if there are none."""
    return "; ".join(f"{line['claim']} ({line['here']})" for line in claims.to_dict("records")) or "none"


def _every_number(results: Results) -> pd.DataFrame:
    sources = {"table1": "2-D", "table1-posterior": "2-D", "table2": "10-D", "table2-posterior": "10-D"}
    tables = [results[name].assign(data=data) for name, data in sources.items()]
    return pd.concat([*tables, results["varimp"]], ignore_index=True)


def _called(line: Mapping[str, object]) -> str:
    rule = "" if line["rule"] in ("posterior", "---") else f" {line['rule']}"
    return f"{line['data']} {line['method']}{rule} {line['figure']}"


def _against(line: Mapping[str, float]) -> str:
    return f"here {line['mean, refits']:.3f}, paper {line['paper']:.3f}, z {line['z, refits']:+.1f}"
