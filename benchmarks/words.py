"""Check the sentences of many explanations: every number is that of the tables, and nothing is claimed that they deny.

``python -m benchmarks.words --rows 30`` explains 30 rows of each of ten tables and prints one line per table; the code
is 1 if a sentence is wrong. ``--seed`` takes other rows and other draws.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from math import floor
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.cli._demo import simulate_applicants

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")


def tables() -> Iterator[tuple[str, Any, pd.DataFrame, Any]]:
    """Yield name, fitted model, rows and target of ten questions."""
    for name, load, model, target in (
        ("breast cancer, forest", load_breast_cancer, RandomForestClassifier(40, max_depth=6, random_state=0), 1),
        ("breast cancer, logistic", load_breast_cancer, make_pipeline(StandardScaler(), LogisticRegression()), 1),
        ("wine, forest", load_wine, RandomForestClassifier(40, random_state=0), 0),
        ("wine, boosting", load_wine, HistGradientBoostingClassifier(max_iter=30), 1),
        ("iris, forest", load_iris, RandomForestClassifier(30, random_state=0), 2),
        ("iris, logistic", load_iris, LogisticRegression(max_iter=1000), 1),
        ("diabetes, boosting", load_diabetes, GradientBoostingRegressor(n_estimators=50), gbce.AtMost(120)),
        ("diabetes, linear", load_diabetes, LinearRegression(), gbce.Change(-0.2, relative=True)),
    ):
        x, y = load(return_X_y=True, as_frame=True)
        yield name, model.fit(x, y), x, target
    table, decision = simulate_applicants(500)
    numbers = table.drop(columns="purpose")
    yield "applicants, forest", RandomForestClassifier(40, max_depth=6).fit(numbers, decision), numbers, "approved"
    yield "applicants, range", LinearRegression().fit(numbers, numbers["income"]), numbers, gbce.Range(2500, 3500)


def find_wrong(explanation: gbce.Explanation) -> list[str]:
    """Return what is wrong with the sentences of an explanation."""
    answer = explanation.answer
    if answer is None or not answer.reached:
        try:
            return [f"a text for an answer that misses: {explanation.to_text()}"]
        except ValueError:
            return []
    wrong = []
    texts = {language: explanation.to_text(language, audience="analyst") for language in ("en", "ja")}
    counts = [sorted(NUMBER.findall(re.sub(r"[^\x00-\x7f±]", " ", text))) for text in texts.values()]
    if counts[0] != counts[1]:
        wrong.append("the languages have different numbers")
    known, safe = _list_numbers(explanation), answer.safe
    ends = [] if safe is None else zip(safe.low.tolist(), safe.high.tolist(), strict=True)
    ranges = [both for both in ends if np.isfinite(both).any()]  # others are not printed
    for found in NUMBER.findall(explanation.to_text()):
        if not _is_known(float(found.replace(",", "")), found, known, ranges):
            wrong.append(f"{found} is in no table: {explanation.to_text()}")
    trusted = explanation.diagnostics["sampling"] == "trustworthy"
    if ("% reach the target" in texts["en"]) != trusted:
        wrong.append("the posterior is read although it is not to be trusted, or not although it is")
    share, promised = answer.reliability, answer.promised
    missed = share is not None and promised is not None and answer.n_changes > 0 and share.share < promised
    if missed != ("were wanted" in texts["en"]):
        wrong.append("a promise that was missed is not stated, or one that was kept is")
    return wrong


def _list_numbers(explanation: gbce.Explanation) -> list[float]:
    """Return every number that the tables of an explanation have."""
    answer, target = explanation.answer, explanation.target
    assert answer is not None
    numbers = [float(explanation.row.outputs[0, 0]), float(answer.decision.outputs[0]), 100.0]
    numbers += [float(one) for one in pd.to_numeric(answer.changes.stack(), errors="coerce")]
    numbers += [] if answer.promised is None else [100 * answer.promised]
    numbers += [
        float(getattr(target, name)) for name in ("y", "low", "high", "tolerance", "label") if _has(target, name)
    ]
    for share in (answer.reliability, answer.survival):
        if share is not None:
            numbers += [floor(100 * share.share + 1e-9), floor(1000 * share.share + 1e-9) / 10, share.n, 99.9, 0.1]
    return numbers


def _has(target: Any, name: str) -> bool:
    return isinstance(getattr(target, name, None), (int, float))


def _is_known(number: float, written: str, known: list[float], ranges: list[tuple[float, float]]) -> bool:
    """Whether a number is the rounding of a known one, or an end of a range that was rounded inwards."""
    digits, _, power = written.partition("e")
    step = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    if any(abs(number - one) <= 0.5 * step * (1 + 1e-9) for one in known):
        return True
    return any(low <= number <= high and min(number - low, high - number) <= _LOST * width(low, high) + step
               for low, high in ranges)  # fmt: skip


def width(low: float, high: float) -> float:
    """Return the width of a range, a large one where it is open."""
    return high - low if np.isfinite(high - low) else max(abs(one) for one in (low, high) if np.isfinite(one))


_LOST = 0.02  # of the width of a range, at most, by rounding its ends inwards, as gbce.space has it


def main() -> int:
    """Explain rows of every table and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30, help="of each table")
    parser.add_argument("--posterior", type=int, default=3, help="rows of each table with a posterior")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and of their draws")
    options = parser.parse_args()
    total, bad = 0, 0
    for name, model, x, target in tables():
        explainer = gbce.Explainer(model, x)
        some = x.sample(options.rows, random_state=options.seed)
        refused = wrong = 0
        for i, (_, row) in enumerate(some.iterrows()):
            explanation = explainer.explain(
                row, target, seed=options.seed, posterior=i < options.posterior, progress=False
            )
            found = find_wrong(explanation)
            refused += explanation.answer is None or not explanation.answer.reached
            wrong += bool(found)
            for one in found[:1]:
                print(f"  {name}: {one}")
        total, bad = total + len(some), bad + wrong
        print(f"{name}: {len(some)} rows, {refused} refused, {wrong} wrong", flush=True)
    print(f"{total} explanations, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
