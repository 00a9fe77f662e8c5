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
    """Count the claims of Tables 1 and 2 by verdict, and name those that are not reproduced."""
    claims = results["claims"]
    claims = claims[~claims["claim"].str.startswith(("real", "Figure"))]
    judged, once = _split(claims)
    groups = {
        "reproduced": judged["verdict"] == "reproduced",
        "not reproduced": judged["verdict"] == "not reproduced",
        "within noise": judged["verdict"].str.startswith("within noise"),
    }
    circular = int((groups["reproduced"] & (judged["circular"] != "no")).sum())
    parts = [f"**Tables 1 and 2.** Of {len(judged)} claims about a single run, {_tally(groups)}."]
    parts.append(f"For {circular} of those reproduced the base point was fitted to some or all of the claim's numbers.")
    if groups["not reproduced"].any():
        parts.append(f"Not reproduced: {_names(judged[groups['not reproduced']])}.")
    return " ".join([*parts, _once(once)])


def claims_on_figures(results: Results) -> str:
    """Count the claims of Figures 3 and 3b that hold, and compare the curve's change with its spread."""
    claims, curve = results["claims"], results["fig3"]
    figures = claims[claims["claim"].str.startswith("Figure")]
    later = curve[curve["eta"] > 0.3]
    span, sd = np.ptp(later["stability"]), later["stability SD"].max()
    moves = f"From eta = 1/3 to 2, mean Stability changes by {span:.2f}; its SD between base points is up to {sd:.2f}."
    return f"**Figures 3 and 3b.** {_once(figures)} {moves}"


def claims_on_real_data(results: Results) -> str:
    """Count the claims of the real-data tables by shape, and name those of another shape."""
    claims = results["claims"]
    claims = claims[claims["claim"].str.startswith("real")]
    shapes = {"of the same shape": "same shape", "of another shape": "another shape", "within noise": "within noise"}
    groups = {name: claims["verdict"].str.startswith(start) for name, start in shapes.items()}
    parts = [f"**Real data.** Of {len(claims)} claims, {_tally(groups)}."]
    if groups["of another shape"].any():
        parts.append(f"Of another shape: {_names(claims[groups['of another shape']])}.")
    return " ".join(parts)


def numbers(results: Results) -> str:
    """Count the paper's numbers that lie far from ours, and name the farthest; the table has the subsets."""
    parts = ["**Numbers.**"]
    counts = results["counts"]
    for line in counts[counts["which"] == "all"].itertuples(index=False):
        of, _, size, two, three, two_refits, three_refits = line
        refits = "" if pd.isna(two_refits) else f" (with refits: {int(two_refits)} and {int(three_refits)})"
        parts.append(f"{of}: {two} of {size} differ by more than 2 SD, {three} by more than 3{refits}.")
    every = _every_number(results)
    far = every.reindex(every["z, refits"].abs().sort_values(ascending=False).index).head(_LARGEST)
    named = [f"{_called(line)} ({_against(line)})" for line in far.to_dict("records")]
    return " ".join([*parts, f"The largest z with refits: {'; '.join(named)}."])


def base_points(results: Results) -> str:
    """State how well the base points fit their clues, and which clues contradict them."""
    parts = ["**Base points.**"]
    for data, clues in results["clues"].groupby("data", sort=False):
        rms = float(np.sqrt(np.mean(np.square(clues["gap"]))))
        far = [
            f"{line['clue']} ({line['base point']:.3f}, paper {line['paper']:.3f})"
            for line in clues[clues["gap"].abs() > 2].to_dict("records")
        ]
        beyond = "; ".join(far) or "none"
        parts.append(
            f"{data}: the {len(clues)} clues are met to within {rms:.2f} standard errors (root mean square); off by "
            f"more than 2: {beyond}."
        )
    return " ".join(parts)


def opposite_orders(results: Results) -> str:
    """Count the pairs of numbers with the paper's order."""
    parts = ["**Orders.**"]
    for data, pairs in results["orders"].groupby("data", sort=False):
        count = pairs["order"].value_counts()
        same, contrary, undecided = (int(count.get(name, 0)) for name in ("same", "contrary", "open"))
        parts.append(
            f"{data}: of {len(pairs)} pairs that differ in the paper, {same} have the same order here, {contrary} the "
            f"opposite order, and {undecided} are undecided."
        )
    return " ".join(parts)


def models(results: Results) -> str:
    """Compare the best models with the paper's."""
    best = results["leaderboard"].query("place == 1")
    columns = ("data", "model", "MSE", "paper's model", "paper's MSE")
    parts = [
        f"{data}: {model}, MSE {mse:.3f} (paper: {theirs}, {their_mse:.3f})"
        for data, model, mse, theirs, their_mse in zip(*(best[name] for name in columns), strict=True)
    ]
    same = int((best["model"] == best["paper's model"]).sum())
    return f"**Best models.** {'; '.join(parts)}. {same} of {len(best)} are of the same kind as the paper's."


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
    parts = [f"Of the claims with a single check, {int(holds.sum())} of {len(claims)} hold."]
    if not holds.all():
        parts.append(f"The others: {_names(claims[~holds])}.")
    return " ".join(parts)


def _tally(groups: Mapping[str, pd.Series]) -> str:
    """List how many claims are of each group; the first verb serves all."""
    return ", ".join(f"{int(chosen.sum())} {name}" for name, chosen in groups.items()).replace(" ", " are ", 1)


def _names(claims: pd.DataFrame) -> str:
    """Name claims with the values found; "none" if there are none."""
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
