"""One run of the benchmark of trust, judged beside the exact answer. Processes import this file by its name."""

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import gbce
from benchmarks._exact import Build, Case, Truth
from benchmarks._trust_cases import hand
from benchmarks._trust_generated import fresh, generated

FALSE, COVERED = 5.0, 1.96
_NO_ERROR = 1e-9  # what an error counts as at least: where nothing is random, values agree up to rounding
_UNMEASURED = 0.25  # of the error that so many draws have anyway: a printed one below it was not measured


class Figure(NamedTuple):
    """A figure of one run beside the truth, with the error that draws of this number have anyway."""

    name: str
    value: float
    se: float
    exact: float
    least_se: float = 0.0

    def z(self, *, strict: bool) -> float:
        """Return how many errors it is wrong; ``strict`` takes the printed error unless it is no measured one."""
        floor = self.least_se
        if strict and self.name != "success_probability" and self.se > _UNMEASURED * floor:
            floor = 0.0
        se = max(self.se if np.isfinite(self.se) else 0.0, floor, _NO_ERROR * max(1.0, abs(self.exact)))
        gap = self.value - self.exact
        return float(gap / se) if np.isfinite(gap) else np.inf


def figures(explanation: gbce.Explanation, truth: Truth) -> Iterator[Figure]:
    """Every figure of an explanation whose exact value is known."""
    table, numbers = explanation.distribution, explanation.diagnostics
    n = max(float(numbers["ess"]), 1.0)
    yield Figure("log_evidence", numbers["log_evidence"], numbers["log_evidence_se"], truth.log_evidence)
    exact = {
        "success_probability": (truth.success_probability, 1.0 / n),
        "stability": (truth.stability, 0.0),
        "expected_loss": (truth.expected_loss, truth.loss_sd / np.sqrt(n)),
        "tail": (truth.tail, 0.0),
    }
    for name, (value, least) in exact.items():
        if np.isfinite(value):
            yield Figure(name, table[name], table[f"{name}_se"], value, least)
    lines = zip(explanation.importance[["change", "se"]].to_numpy(), truth.importance, truth.importance_sd, strict=True)
    for (change, se), value, sd in lines:
        yield Figure("importance", change, se, value, sd / np.sqrt(n))


@cache
def cases() -> dict[str, Build]:
    """Return all cases by name, but for the fresh ones."""
    return hand() | generated()


@cache
def case_of(name: str) -> Case:
    """Return a case; each process builds it once."""
    return (cases() | fresh())[name]()


def run(name: str, seed: int) -> dict[str, Any]:
    """Explain once; a run that fails is a line with its error."""
    line: dict[str, Any] = {"case": name, "seed": seed, "verdict": "failed"}
    try:
        case = case_of(name)
        start = time.perf_counter()
        explanation = case.explain(seed)
        line["seconds"] = time.perf_counter() - start
        line |= judged(list(figures(explanation, case.truth)))
        line["rows"] = explanation.n_model_rows
        line["verdict"] = str(explanation.diagnostics["sampling"])
    except Exception as error:  # one run that fails is shown, and the others go on
        line["error"] = "".join(traceback.format_exception_only(error)).strip()
    _progress(line)
    return line


def judged(found: Sequence[Figure]) -> dict[str, Any]:
    """Return the worst figure of a run, and by name the share of its figures that are covered."""
    sizes = [abs(figure.z(strict=False)) for figure in found]
    worst = int(np.argmax(sizes))
    line: dict[str, Any] = {"worst": found[worst].name, "worst_z": sizes[worst]}
    for name in dict.fromkeys(figure.name for figure in found):
        own = [figure for figure in found if figure.name == name]
        line[f"covered {name}"] = float(np.mean([abs(figure.z(strict=True)) <= COVERED for figure in own]))
        if len(own) == 1:
            line |= {name: own[0].value, f"{name}_se": own[0].se, f"{name}_exact": own[0].exact}
    return line


def _progress(line: dict[str, Any]) -> None:
    facts = line.get("error") or f"{line['worst']} {line['worst_z']:.1f} se wrong, {line['rows']:,} rows"
    print(f"{line['case']}, seed {line['seed']}: {line['verdict']}, {facts}", file=sys.stderr, flush=True)
