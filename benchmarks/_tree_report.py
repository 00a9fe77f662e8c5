"""What the comparison with treecf says: one line for a table, a model and a price, and where treecf wins."""

from dataclasses import dataclass

import numpy as np

from benchmarks._tree_proofs import LIMIT

__all__ = ["HEAD", "PROOF_HEAD", "Answer", "figures", "wins_of_treecf"]

SAME = 1e-9  # relative: costs that differ by less are the same


@dataclass(frozen=True)
class Answer:
    """One answer for one row."""

    cost: float
    valid: bool
    seconds: float
    changes: int
    fractions: bool = False  # in a column of whole numbers


def figures(pairs: list[tuple[Answer, Answer]], wholes: list[Answer]) -> list[str]:
    """Return what a line says of answers to the same rows."""
    both = [(one, other) for one, other in pairs if one.valid and other.valid and not other.fractions]
    ratio = np.array([one.cost / other.cost for one, other in both]) if both else np.full(1, np.nan)
    first = [(one, other) for one, (_, other) in zip(wholes, pairs, strict=False) if one.valid and other.valid]
    mine, theirs = (1e3 * np.median([pair[k].seconds for pair in pairs]) for k in (0, 1))
    return [
        str(len(pairs)),
        f"{sum(one.valid for one, _ in pairs)} / {sum(other.valid for _, other in pairs)}",
        f"{np.median([other.cost for _, other in both]):.3g}" if both else "-",
        f"{np.median(ratio):.3f}",
        f"{ratio.max():.3f}",
        str(int((ratio > 1 + SAME).sum())),
        str(sum(other.fractions for _, other in pairs)),
        f"{mine:.1f}",
        f"{theirs:.1f}",
        f"{mine / theirs:.2f}",
        f"{np.median([one.cost / other.cost for one, other in first]):.3f}" if first else "",
        f"{np.median([one.seconds for one in wholes]):.2f}" if wholes else "",
    ]


HEAD = [
    "table", "model", "price", "leaves", "rows", "valid", "treecf cost", "ratio", "worst", "dearer",
    "treecf fractions", "ms", "treecf ms", "ms ratio", "explain ratio", "explain s",
]  # fmt: skip


PROOF_HEAD = [
    "table", "model", "leaves", "columns", "rows", "proved in 0.1 s", "in 1 s", f"in {LIMIT:g} s", "median s",
    "median boxes", "largest gap", "box", "treecf box",
]  # fmt: skip


def wins_of_treecf(body: list[list[str]], proofs: list[list[str]]) -> list[str]:
    """Return where treecf is cheaper, quicker or has wider boxes, as lines of a list."""
    notes = []
    for line in body:
        one = dict(zip(HEAD, line, strict=True))
        where = f"{one['table']}, {one['model']}, {one['price']}"
        if int(one["dearer"]):
            notes.append(f"- treecf is cheaper on {one['dearer']} of {one['rows']} rows: {where}")
        if float(one["ms ratio"]) > 1:
            notes.append(f"- treecf is quicker, {one['treecf ms']} against {one['ms']} ms: {where}")
    for line in proofs:
        one = dict(zip(PROOF_HEAD, line, strict=True))
        if one["box"] and float(one["treecf box"]) > float(one["box"]):
            notes.append(
                f"- treecf's boxes are wider, {one['treecf box']} against {one['box']}: {one['table']}, {one['model']}"
            )
    none = ["- treecf is nowhere cheaper or quicker."] if body else []
    none += ["- treecf's boxes are nowhere wider."] if proofs else []
    return notes or none
