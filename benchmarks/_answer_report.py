"""What the lines of a run of answers come to, as tables in Markdown."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from benchmarks._answer_methods import PEERS
from benchmarks._documents import markdown

__all__ = ["per_group", "summary"]

MEASURED = "gbce Nearest, ranges"  # priced by what is measured here
_EQUAL = 1e-6  # relative: costs that differ by less are the same
_NEARLY = 0.02  # relative: what numbers of few digits and fewer changes may cost, and a bit more
_KEY = ["table", "model", "row"]


def per_group(lines: pd.DataFrame, by: Sequence[str]) -> str:
    """Return one table with a line for each group and method."""
    head = [
        *by, "method", "rows", "valid", "l1", "columns", "outside", "fractions", "s", "s, ratio", "model rows",
    ]  # fmt: skip
    body = []
    for label, group in lines.groupby(list(by), sort=False):
        for method, some in group.groupby("method", sort=False):
            body.append([*label, method, *_figures(some, group)])
    return markdown(head, body)


def _figures(some: pd.DataFrame, group: pd.DataFrame) -> list[str]:
    """Return the figures of one method: medians are over rows with a valid answer."""
    good = some[some["valid"]]
    given = some[some["answered"]]
    return [
        str(len(some)),
        f"{some['valid'].mean():.0%}",
        _number(good["l1"].median()),
        _number(good["changed"].median(), 1),
        f"{int(given['outside'].sum())}",
        f"{int(given['fractions'].sum())}",
        _number(some["seconds"].median()),
        _number(_ratios(some, group, "seconds").median(), 2),
        f"{some['model_rows'].median():,.0f}",
    ]


def _ratios(some: pd.DataFrame, group: pd.DataFrame, what: str) -> pd.Series:
    """Return what a method needs over what ``MEASURED`` does, row by row."""
    base = group[group["method"] == MEASURED].set_index(_KEY)[what]
    mine = some.set_index(_KEY)[what]
    return (mine / base.reindex(mine.index)).dropna()


def summary(lines: pd.DataFrame) -> str:
    """Return what was to be shown: who is valid where anybody is, and what the nearest point costs beside peers."""
    parts = ["Rows where any method found a valid answer:", "", _validity(lines), "", *_speeds(lines)]
    for peers, words in ((_peers(lines), "any valid answer"), (_possible(lines), "any valid answer that can be")):
        if len(peers) and (lines["method"] == MEASURED).any():
            parts += ["", f"{MEASURED} beside the cheapest of its peers' on the same row, {words}:", ""]
            parts += [_costs(lines, peers), "", *_wins(lines, peers)]
    return "\n".join(parts)


def _speeds(lines: pd.DataFrame) -> Iterator[str]:
    """Say how long gbce takes beside a peer on the same row, in the median."""
    for own in lines["method"].unique():
        mine = lines[lines["method"] == own].set_index(_KEY)["seconds"]
        for peer in () if own in PEERS else PEERS:
            theirs = lines[lines["method"] == peer].set_index(_KEY)["seconds"]
            ratio = (mine.reindex(theirs.index) / theirs).dropna()
            if len(ratio):
                yield f"- {own} takes {ratio.median():.2f} times as long as {peer} ({len(ratio)} rows)"


def _peers(lines: pd.DataFrame) -> pd.DataFrame:
    return lines[lines["method"].isin(PEERS) & lines["valid"]]


def _possible(lines: pd.DataFrame) -> pd.DataFrame:
    peers = _peers(lines)
    return peers[(peers["outside"] == 0) & (peers["fractions"] == 0)]


def _validity(lines: pd.DataFrame) -> str:
    """Return validity over the rows where somebody is valid."""
    some = lines.groupby(_KEY)["valid"].transform("any")
    body = []
    for method, asked in lines[some].groupby("method", sort=False):
        good, given = asked[asked["valid"]], asked[asked["answered"]]
        body.append([
            method, f"{len(asked):,}", f"{asked['valid'].mean():.1%}", str(int((~asked["valid"]).sum())),
            _number(good["l1"].median()), _number(good["changed"].median(), 1),
            str(int(given["outside"].sum())), str(int(given["fractions"].sum())),
            _number(_ratios(asked, lines, "seconds").median(), 2), f"{asked['model_rows'].median():,.0f}",
        ])  # fmt: skip
    head = ["method", "rows", "valid", "missed", "l1", "columns", "outside", "fractions", "s, ratio", "model rows"]
    return markdown(head, body)


def _paired(lines: pd.DataFrame, peers: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each row where both are valid: the cost of ``MEASURED``, the cheapest peer and its cost."""
    own = lines[(lines["method"] == MEASURED) & lines["valid"]].set_index(_KEY)["l1"]
    best = peers.loc[peers.groupby(_KEY)["l1"].idxmin()].set_index(_KEY)
    both = (
        best[["method", "l1"]].rename(columns={"method": "peer", "l1": "theirs"}).join(own.rename("own"), how="inner")
    )
    least = both["theirs"].where(both["theirs"] > 0)
    return both.assign(
        ratio=both["own"] / least,
        fine=both["own"] <= both["theirs"] * (1 + _EQUAL),
        nearly=both["own"] <= both["theirs"] * (1 + _NEARLY),
    ).reset_index()


def _costs(lines: pd.DataFrame, peers: pd.DataFrame) -> str:
    both = _paired(lines, peers)
    body = []
    for label, some in [("all", both), *both.groupby("table", sort=False), *both.groupby("model", sort=False)]:
        ratio = some["ratio"].quantile([0.1, 0.5, 0.9])
        body.append([
            str(label), str(len(some)), f"{some['fine'].mean():.0%}", f"{some['nearly'].mean():.0%}",
            _number(some["own"].median()),
            _number(some["theirs"].median()), *map(_number, ratio), _number(some["ratio"].max()),
        ])  # fmt: skip
    head = [
        "",
        "rows",
        "no dearer",
        f"by {_NEARLY:.0%} at most",
        "l1",
        "cheapest peer's",
        "ratio 10%",
        "median",
        "90%",
        "largest",
    ]
    return markdown(head, body)


def _wins(lines: pd.DataFrame, peers: pd.DataFrame) -> Iterator[str]:
    """Say where a peer is cheaper."""
    both = _paired(lines, peers)
    dearer = both[~both["fine"]]
    if dearer.empty:
        yield "No peer is cheaper on any row."
        return
    yield f"A peer is cheaper on {len(dearer)} of {len(both)} rows:"
    yield ""
    for (table, model, peer), some in dearer.groupby(["table", "model", "peer"], sort=False):
        asked = ((both["table"] == table) & (both["model"] == model)).sum()
        saved = np.median(some["own"] / some["theirs"]) if (some["theirs"] > 0).all() else np.inf
        yield f"- {peer} on {table}, {model}: {len(some)} of {asked} rows, where gbce pays {saved:.2f} times as much"


def _number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits, or more where it is small."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.{digits}f}" if value == 0 or abs(value) >= 0.1**digits * 10 else f"{value:.1e}"
