"""Whether answers keep what they promise: the stated reliability against fresh noise and against unseen refits.

Every answer says how often it holds under small errors of execution and, where refitted models are given, how many of
them agree. Both are measured again: under thousands of fresh errors, drawn here in plain numpy by the law that the
documentation states, and over refits on other bootstraps that neither chose nor confirmed an answer.

Columns: *stated* and *realised*, mean reliability; *inside*, share of answers whose realised value lies in the stated
95% interval (or in that of the measurement, where the stated value is exact); *below*, share of answers called reliable
whose realised value is below the 0.9 that was asked for. Realised values are over 10,000 errors of execution and, with
25 refits given, over 50 other refits. Half of the given refits choose and half confirm. The stated share is over those
that confirm; as points that they refuse are passed over, it is slightly too high. How many refits have to confirm was
chosen on some of these rows and refits.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from benchmarks._answer_sheet import Sheet
from benchmarks._answer_tables import MODELS, TABLES, Table, rows_of
from benchmarks._documents import add_docs_option, current_commit, markdown, write_results
from benchmarks._real_tables import Case
from benchmarks._wheels import MissingWheelError

GROUPS = [
    ("breast cancer", "forest"),
    ("breast cancer", "linear"),
    ("diabetes", "forest"),
    ("diabetes", "boosting"),
    ("german credit", "forest"),
    ("german credit", "linear"),
    ("breast cancer", "network"),
    ("diabetes, outlook", "network"),
]
QUICK_ROWS = 20  # of each table and model: all groups that need no wheel then take about three minutes of one core
NOISE = 0.1  # standard deviation in units of each column: what an explainer takes when nothing is said
N_FRESH = 10_000  # errors of execution; the standard error of a share near 0.9 is 0.003
N_TREES = 30  # of the models, which are to be fast
N_GIVEN, N_UNSEEN, N_SHAKEN = 25, 50, 200  # refits that answers know, that they do not, and errors under each of these
SLACK = 0.02  # below the probability that was asked for: more than the error of the measurement
EXACT = 1e-6  # width of a stated interval: a narrower one comes from a computation, not from trials
EDGES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Line:
    """What one answer says of itself, and what came of it."""

    table: str
    model: str
    refits: int
    row: int
    kind: str
    promised: float
    stated: float
    low: float
    high: float
    realised: float
    refits_stated: float
    refits_low: float
    refits_high: float
    refits_realised: float
    sentence: str


# --- measuring again ----------------------------------------------------------------------------------------------


def shaken(space: gbce.Space, answer: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return ``n`` copies of an answer as it may be carried out.

    Numbers miss by normal errors, whole ones by whole steps, and stay within what the column can be; levels are met.
    """
    columns = {}
    for feature in space.features:
        name = feature.name
        value = answer.iloc[0][name]
        column = pd.Series([value] * n, dtype=answer[name].dtype)
        if feature.mutable and feature.kind in ("real", "integer") and not pd.isna(value):
            moved = float(value) + NOISE * feature.scale * rng.standard_normal(n)
            moved = np.rint(moved) if feature.kind == "integer" else moved
            moved = np.clip(moved, feature.low, feature.high)
            column = pd.Series(moved).astype(answer[name].dtype)
        columns[name] = column
    return pd.DataFrame(columns)[list(answer.columns)]


def grants(case: Case, model: Any, frame: pd.DataFrame, threshold: float) -> float:
    """Return the share of rows for which a model's own ``predict`` grants the wish."""
    said = np.asarray(model.predict(frame))
    if case.classification:
        return float((said == case.wish).mean())
    return float((said >= threshold if case.wish > 0 else said <= threshold).mean())


def refitted(case: Case, n: int, seed: int) -> list[Any]:
    """Fit a model again to bootstraps of its data."""
    rng = np.random.default_rng(seed)
    fits: list[Any] = []
    while len(fits) < n:
        rows = rng.integers(0, len(case.X), len(case.X))
        model = clone(case.model)
        if "random_state" in _last(model).get_params():
            _last(model).set_params(random_state=int(rng.integers(2**31)))
        fits.append(model.fit(case.X.iloc[rows], case.y.iloc[rows]))
    return fits


def small_table(name: str) -> Table:
    """Return a table by its name; the outlook of the diabetes table is whether the outcome is above its median."""
    if name != "diabetes, outlook":
        return TABLES[name]()
    table = TABLES["diabetes"]()
    return Table(table.X, pd.Series(np.where(table.y > table.y.median(), "bad", "good"), table.X.index), "good")


def network(table: Table) -> Pipeline:
    """Return a small network, whose refits disagree most."""
    return make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=300, random_state=0))


def small_case(table: Table, model: str) -> Case:
    """Fit a small model."""
    fitted = network(table) if model == "network" else MODELS[model](table)
    if "n_estimators" in _last(fitted).get_params():
        _last(fitted).set_params(n_estimators=N_TREES)
    fitted = fitted.fit(table.X, table.y)
    return Case(table.X, table.y, fitted, gbce.Space.infer(table.X), (), lambda answers, row: {}, table.wish, {})


def _last(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def run(name: str, model: str, case: Case, n: int, n_refits: int, sheet: Sheet, *, quick: bool = False) -> None:
    """Explain rows, and measure every answer again."""
    done = {line["row"] for line in sheet.where(table=name, model=model, refits=n_refits)}
    rows = rows_of(case, n)
    if done.issuperset(rows.index):
        return
    given = refitted(case, n_refits, seed=1) if n_refits else None
    unseen = refitted(case, N_UNSEEN, seed=2) if n_refits else []
    explainer = gbce.Explainer(case.model, case.X, refits=given)
    for i in range(len(rows)):
        row = rows.iloc[[i]]
        if rows.index[i] in done:
            continue
        threshold = 0.0 if case.classification else case.threshold(row)
        wish = _wish(case, threshold)
        answer = explainer.explain(row, wish, rules=[gbce.Nearest()], seed=i, posterior=not quick).answer
        assert answer is not None  # there is a policy
        rng = np.random.default_rng([7, i])
        again = shaken(explainer.space, answer.row, N_FRESH, rng)
        realised = grants(case, case.model, again, threshold)
        some = [shaken(explainer.space, answer.row, N_SHAKEN, rng) for _ in unseen]
        held = [grants(case, fit, frame, threshold) for fit, frame in zip(unseen, some, strict=True)]
        sheet.add(
            Line(
                name, model, n_refits, int(rows.index[i]), str(answer.kind), _value(answer.promised),
                *_share(answer.reliability), realised, *_share(answer.survival),
                float(np.mean(held)) if held else float("nan"), answer.sentence,
            )
        )  # fmt: skip


def _wish(case: Case, threshold: float) -> Any:
    """Return the target with its threshold as a number, which refits have to meet as well."""
    if case.classification:
        return case.target
    return gbce.AtLeast(threshold) if case.wish > 0 else gbce.AtMost(threshold)


def _share(stated: Any) -> tuple[float, float, float]:
    return (float("nan"),) * 3 if stated is None else (stated.share, stated.low, stated.high)


def _value(number: float | None) -> float:
    return float("nan") if number is None else number


# --- the tables ---------------------------------------------------------------------------------------------------


def calibration(lines: pd.DataFrame, prefix: str = "") -> str:
    """Return a table with one line for each range of the stated share, and one for all."""
    known = lines.rename(columns={f"{prefix}{name}": f"_{name}" for name in ("stated", "low", "high", "realised")})
    known = known.dropna(subset=["_stated", "_realised"])
    bins: list[tuple[str, pd.DataFrame]] = []
    for low, high in pairwise(EDGES):
        inside = (known["_stated"] >= low) & ((known["_stated"] < high) | (high == EDGES[-1]))
        bins.append((f"{low:g} to {high:g}", known[inside]))
    kept = known[known["kind"] == "reliable"]
    bins += [("all", known), ("said to be reliable", kept)]
    head = ["promised", "answers", "stated", "realised", "its interval", "inside", "below", f"by more than {SLACK:g}"]
    return markdown(head, [_line(label, some) for label, some in bins if len(some)])


def _line(label: str, some: pd.DataFrame) -> list[str]:
    """Return the figures of some answers; the interval is that of the mean over answers."""
    realised = some["_realised"]
    error = 1.96 * realised.std(ddof=1) / np.sqrt(len(some)) if len(some) > 1 else float("nan")
    # of what is stated exactly, the measurement alone is in error
    exact = some["_high"] - some["_low"] < EXACT
    room = np.where(exact, 1.96 * np.sqrt(some["_stated"] * (1 - some["_stated"]) / N_FRESH), 0.0)
    inside = (some["_low"] - room <= realised) & (realised <= some["_high"] + room)
    said = some[some["kind"] == "reliable"]
    short = said["promised"] - said["_realised"]
    below = [float((short > slack).mean()) for slack in (0.0, SLACK)]
    return [
        label, str(len(some)), f"{some['_stated'].mean():.3f}", f"{realised.mean():.3f}",
        "-" if np.isnan(error) else f"{realised.mean() - error:.3f} to {realised.mean() + error:.3f}",
        f"{inside.mean():.0%}",
        *("-" if np.isnan(share) else f"{share:.1%}" for share in below),
    ]  # fmt: skip


def report(lines: pd.DataFrame) -> str:
    """Return the tables of a run."""
    parts = []
    for n_refits, some in lines.groupby("refits"):
        words = f"{n_refits} refits given" if n_refits else "no refits given"
        parts += [f"Fresh errors of execution, {words}:", "", calibration(some), ""]
        if n_refits:
            parts += ["Unseen refits under such errors:", "", calibration(some, "refits_"), ""]
    kinds = lines.groupby(["refits", "table", "model"], sort=False)["kind"].value_counts().unstack(fill_value=0)
    unseen = lines["refits_realised"].fillna(1.0)  # where none were given
    missed = (lines["kind"] == "reliable") & (lines["promised"] - np.minimum(lines["realised"], unseen) > SLACK)
    few = missed.groupby([lines[name] for name in ("refits", "table", "model")], sort=False).sum()
    body = [[*map(str, (*index, *kinds.loc[index], few.loc[index]))] for index in kinds.index]
    short = f"reliable, but below by more than {SLACK:g}"
    return "\n".join([*parts, markdown(["refits", "table", "model", *kinds.columns, short], body)])


def _cases(groups: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, Callable[[], Case]]]:
    for name, model in groups:
        yield name, model, lambda name=name, model=model: small_case(small_table(name), model)  # type: ignore[misc]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, help=f"of each table and model: 90, or {QUICK_ROWS} if it is to be quick")
    parser.add_argument(
        "--refits", nargs="+", type=int, help=f"that answers are given: 0 and {N_GIVEN}; quick, {N_GIVEN}"
    )
    parser.add_argument("--quick", action="store_true", help="few rows: the answer is sought, not the posterior")
    parser.add_argument("--csv", type=Path, help="where each line is written as soon as it is there")
    parser.add_argument("--resume", action="store_true", help="go on from the lines in that file")
    parser.add_argument("--only-report", action="store_true", help="the report of the lines in that file")
    add_docs_option(parser)
    options = parser.parse_args(arguments)
    n_rows = options.rows or (QUICK_ROWS if options.quick else 90)
    given = options.refits or ([N_GIVEN] if options.quick else [0, N_GIVEN])
    sheet = Sheet(Line, options.csv, resume=options.resume or options.only_report)
    for name, model, make in () if options.only_report else _cases(GROUPS):
        try:
            case = make()
        except MissingWheelError as error:
            print(f"{name} was left out: {error}")
            continue
        for n_refits in given:
            run(name, model, case, n_rows, n_refits, sheet, quick=options.quick)
    for n_refits in given:
        text = report(sheet.frame[sheet.frame["refits"] == n_refits])
        print(text, end="\n\n")
        if options.docs:
            write_results(f"promise {n_refits}", f"{text}\n\n- Commit {current_commit()}.", __doc__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
