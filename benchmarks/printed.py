"""Whether printed answers are true: rounded values still reach the target, and stated ranges are the true ones.

*Rounded values*: the numbers of each answer are read back from its printed sentence and given to the model's own
``predict``. *Reached*: share of answers for which that row reaches the target. *Stated* and *realised*: mean
reliability as printed, and over 4,000 fresh errors of execution. *Below*: answers called reliable whose realised
reliability is below the 0.9 that was asked for by more than 0.02. *Digits*: mean number of significant digits of the
new values.

*Ranges*: answers of tree ensembles that change one or two numbers. Each is scanned at 2,000 points per column within
the column's bounds, others as in the answer. *Inside*: share of scanned points within the stated range that reach the
target. *Whole*: for one column, share of answers whose range ends within one step of the scan of where the target is
lost; for two columns, share of ranges of which no side can be moved out by one step.
"""

import argparse
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks._answer_tables import rows_of
from benchmarks._documents import add_docs_option, current_commit, markdown, write_results
from benchmarks._real_tables import Case
from benchmarks._wheels import MissingWheelError
from benchmarks.promise import GROUPS, NOISE, SLACK, _wish, grants, shaken, small_case, small_table

N_FRESH, N_SCANNED = 4_000, 2_000
_NUMBER = r"-?[\d,]*\.?\d+(?:e[+-]?\d+)?"


def printed_row(answer: Any, row: pd.DataFrame) -> pd.DataFrame:
    """Return the row with the values that the sentence prints, read back from its words."""
    changed = row.copy()
    words = answer.changes_in_words
    for name in answer.changes.index:
        j = answer.query.space.position[name]
        label, feature = re.escape(answer.query.space.label(j)), answer.query.space.features[j]
        if feature.kind in ("real", "integer"):
            found = re.search(rf"{label} from \S+ to ({_NUMBER})", words)
            assert found is not None, words
            value: Any = float(found.group(1).replace(",", ""))
        else:
            value = answer.row[name].iloc[0]
        changed[name] = pd.Series([value], changed.index).astype(row[name].dtype)
    return changed


def digits_of(answer: Any) -> list[int]:
    """Return the numbers of significant digits of the new values in a sentence."""
    found = re.findall(rf"from \S+ to ({_NUMBER})", answer.changes_in_words)
    return [len(re.sub(r"^0+|\D", "", text.lstrip("-0.").split("e")[0]).rstrip("0")) or 1 for text in found]


def judge_range(case: Case, answer: Any, threshold: float) -> dict[str, Any] | None:
    """Compare a stated range of one or two numbers with a scan; None if there is none."""
    box, space = answer.safe, answer.query.space
    if box is None or answer.n_changes > 2 or len(box.features) != answer.n_changes:
        return None
    x, x0 = answer.decision.x, answer.query.x0
    limits = space.limits(x0)
    which = [space.position[name] for name in box.features]
    low, high = (np.where(np.isfinite(end), end, limits[i][which]) for i, end in enumerate((box.low, box.high)))
    inside, whole, share = [], [], []
    rng = np.random.default_rng(0)
    rows = np.tile(x, (N_SCANNED, 1))
    rows[:, which] = rng.uniform(np.maximum(low, limits[0][which]), np.minimum(high, limits[1][which]),
                                 (N_SCANNED, len(which)))  # fmt: skip
    inside.append(grants(case, case.model, space.decode(space.project(rows, x0)), threshold))
    for i, j in enumerate(which):
        grid = np.linspace(limits[0][j], limits[1][j], N_SCANNED)
        line = np.tile(x, (N_SCANNED, 1))
        line[:, j] = grid
        line = space.project(line, x0)
        step, grid = grid[1] - grid[0], line[:, j]  # of an integer, the integers
        good = _reaches(case, space.decode(line), threshold)
        at = int(np.argmin(np.abs(grid - x[j])))
        bad = np.flatnonzero(~good)
        first = grid[bad[bad < at].max() + 1] if (bad < at).any() else limits[0][j]
        last = grid[bad[bad > at].min() - 1] if (bad > at).any() else limits[1][j]
        share.append((high[i] - low[i]) / max(last - first, step))
        whole.append(abs(low[i] - first) <= 1.01 * step and abs(high[i] - last) <= 1.01 * step)
    if len(which) == 2:  # no side of the box can be moved out
        whole = [_is_maximal(case, space, x, x0, which, low, high, limits, threshold)]
    return {"columns": len(which), "inside": min(inside), "whole": all(whole), "share": float(np.mean(share))}


def _is_maximal(
    case: Case, space: Any, x: Any, x0: Any, which: list[int], low: Any, high: Any, limits: Any, threshold: float
) -> bool:
    """Whether a box of two columns loses the target just outside each of its sides, within a step of the scan."""
    for i in range(2):
        for end, limit, sign in ((low[i], limits[0][which[i]], -1.0), (high[i], limits[1][which[i]], 1.0)):
            step = (limits[1][which[i]] - limits[0][which[i]]) / N_SCANNED
            step = max(step, 1.0) if space.features[which[i]].discrete else step
            if sign * (limit - end) < step:
                continue
            rows = np.tile(x, (N_SCANNED, 1))
            rows[:, which[i]] = end + sign * step
            rows[:, which[1 - i]] = np.linspace(low[1 - i], high[1 - i], N_SCANNED)
            if _reaches(case, space.decode(space.project(rows, x0)), threshold).all():
                return False
    return True


def _reaches(case: Case, frame: pd.DataFrame, threshold: float) -> Any:
    said = np.asarray(case.model.predict(frame))
    if case.classification:
        return said == case.wish
    return said >= threshold if case.wish > 0 else said <= threshold


def run(name: str, model: str, case: Case, n: int) -> list[dict[str, Any]]:
    """Explain rows, and judge what is printed."""
    explainer = gbce.Explainer(case.model, case.X)
    rows, lines = rows_of(case, n), []
    for i in range(len(rows)):
        row = rows.iloc[[i]]
        threshold = 0.0 if case.classification else case.threshold(row)
        answer = explainer.explain(row, _wish(case, threshold), rules=[gbce.Nearest()], seed=i, posterior=False).answer
        if (
            answer is None
            or answer.reliability is None
            or not answer.reached
            or not answer.n_changes
            or answer.n_changes > 8
        ):
            continue
        again = printed_row(answer, row)
        fresh = shaken(explainer.space, again, N_FRESH, np.random.default_rng([11, i]))
        found = judge_range(case, answer, threshold)
        lines.append(
            {
                "table": name,
                "model": model,
                "kind": str(answer.kind),
                "reached": bool(_reaches(case, again, threshold)[0]),
                "stated": answer.reliability.share,
                "realised": grants(case, case.model, fresh, threshold),
                "digits": float(np.mean(digits_of(answer) or [1])),
                "against": len(answer.against),
            }
            | ({} if found is None else found)
        )
    return lines


def report(lines: pd.DataFrame) -> str:
    """Return both tables."""
    body = []
    for label, some in [*lines.groupby(["table", "model"], sort=False), (("all", ""), lines)]:
        below = ((some["kind"] == "reliable") & (some["realised"] < 0.9 - SLACK)).sum()
        figures = (some["reached"].mean(), some["stated"].mean(), some["realised"].mean())
        shown = [
            f"{figures[0]:.3f}",
            f"{figures[1]:.3f}",
            f"{figures[2]:.3f}",
            str(below),
            f"{some['digits'].mean():.1f}",
        ]
        body.append([*label, str(len(some)), *shown])
    head = ["table", "model", "answers", "reached", "stated", "realised", "below", "digits"]
    ranges = []
    if "columns" in lines:
        for n_columns, some in lines.dropna(subset=["columns"]).groupby("columns"):
            ranges.append([f"{n_columns:.0f}", str(len(some)), f"{some['inside'].min():.3f}",
                           f"{some['whole'].mean():.3f}", f"{some['share'].median():.2f}"])  # fmt: skip
    second = ["columns", "answers", "inside (least)", "whole", "share of the column's own range (median)"]
    return "\n\n".join([markdown(head, body), markdown(second, ranges)])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=36, help="of each table and model")
    add_docs_option(parser)
    options = parser.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    for name, model in GROUPS:
        try:
            lines += run(name, model, small_case(small_table(name), model), options.rows)
        except MissingWheelError as error:
            print(f"{name} was left out: {error}")
    text = report(pd.DataFrame(lines))
    print(text)
    if options.docs:
        write_results("printed", f"{text}\n\n- Noise {NOISE:g}. Commit {current_commit()}.", __doc__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
