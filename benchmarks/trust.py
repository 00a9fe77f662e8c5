"""How often "trustworthy" is right: verdicts and errors of the default sampler beside exact answers.

Every case is a posterior whose figures are known exactly: trees by the boxes of their leaves, linear models and
mixtures in closed form, two columns by quadrature, discrete tables by enumeration. Half of them were drawn by a
generator with a fixed seed, on which nothing is tuned. Each run is one explanation with the default sampler, and is

- *trustworthy*, *care* or *not sampled*: its verdict (an unfinished run counts as not sampled);
- *false trust*: called trustworthy, and more than 5 standard errors wrong in any figure;
- *covered*, figure by figure among the trustworthy runs: the exact value is within 1.96 standard errors.

The figures are log evidence, success probability, stability, expected loss, tail (where losses are continuous) and the
importance of every column. Standard errors are the printed ones, with one reservation: draws that are worth n
independent ones may have met nothing of an event with a probability of about 1/n; then all of them agree, and the
printed error says nothing. So the error of a success probability counts as at least 1/n, with n the printed ``ess``.
That of an expected loss or an importance counts as at least ``exact deviation / sqrt(n)`` where false trust is judged;
for coverage only where the printed error is below a quarter of that, which is no measured error. A success probability
of 0 where 0.999 is right is thus hundreds of errors wrong, and one of 1 is not wrong at all. A value that is not a
number while the exact one is counts as infinitely wrong.

Columns: *SP*, success probability; *log Z*, log evidence; *covered* over all columns for the importance. A search
cannot see a narrow well of a smooth model in many columns to which neither data nor slopes point: the cases called
*bumps* are full of such wells (*long* ones are not round). ``--fresh`` has cases of one more seed and bumps of other
settings, run once after the last change of the search.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import gbce
from benchmarks._documents import add_docs_option, write_results
from benchmarks._trust_generated import fresh, generated
from benchmarks._trust_runs import FALSE, case_of, cases, run

SEEDS = 8  # of each of 89 cases: 712 runs
COVERAGES = {"SP": "success_probability", "log Z": "log_evidence", "stability": "stability", "importance": "importance"}


def trusted(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that were called trustworthy."""
    return runs[runs["verdict"] == str(gbce.metrics.Verdict.TRUSTWORTHY)]


def false_trust(runs: pd.DataFrame) -> int:
    """Return how many trustworthy runs are far off in some figure."""
    return int((trusted(runs)["worst_z"] > FALSE).sum())


def _share(part: Any, whole: Any) -> str:
    return f"{len(part) / len(whole):.0%}" if len(whole) else "-"


def _coverages(runs: pd.DataFrame) -> list[str]:
    own = trusted(runs)
    return [f"{own[f'covered {name}'].mean():.2f}" if len(own) else "-" for name in COVERAGES.values()]


def _verdicts(runs: pd.DataFrame) -> list[str]:
    care = runs[runs["verdict"] == str(gbce.metrics.Verdict.CARE)]
    failed = runs[runs["verdict"] == "failed"]
    rest = len(runs) - len(trusted(runs)) - len(care) - len(failed)
    words = f"{len(care) / len(runs):.0%} / {rest / len(runs):.0%}"
    return [_share(trusted(runs), runs), words + (f", {len(failed)} failed" if len(failed) else "")]


def table_of(runs: pd.DataFrame) -> str:
    """Return the runs as a Markdown table: a line for each case, and all of them together."""
    head = ["case", "origin", "columns", "exact log Z", "exact SP", "trustworthy", "care / not sampled", "false trust"]
    head += [*(f"{name} covered" for name in COVERAGES), "median rows", "median s"]
    lines = [head, ["---"] * len(head)]
    made = generated()
    for name, own in runs.groupby("case", sort=False):
        try:
            case = case_of(str(name))
            facts = [f"{case.n_columns}", f"{case.truth.log_evidence:.2f}", f"{case.truth.success_probability:.3f}"]
        except Exception:  # it could not be built, which its runs have said
            facts = ["-"] * 3
        origin = "generated" if name in made else "fresh" if str(name).startswith("fresh ") else "hand"
        lines.append([str(name).removeprefix(f"{origin} "), origin, *facts, *_line(own), *_medians(own)])
    lines.append([f"**all, {len(runs)} runs**", "", "", "", "", *_line(runs), *_medians(runs)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(runs: pd.DataFrame) -> list[str]:
    return [*_verdicts(runs), f"{false_trust(runs)}", *_coverages(runs)]


def _medians(runs: pd.DataFrame) -> list[str]:
    done = runs[runs["verdict"] != "failed"]
    return [f"{done['rows'].median():,.0f}", f"{done['seconds'].median():.1f}"] if len(done) else ["-", "-"]


def summary_of(runs: pd.DataFrame) -> str:
    """Return what came of all runs in a few sentences; hand-made and generated cases also by themselves."""
    parts = [("all cases", runs)]
    if not runs["case"].isin(list(fresh())).any():
        made = runs["case"].isin(list(generated()))
        parts += [("by hand", runs[~made]), ("generated", runs[made])]
    parts.append(("of these, bumps", runs[runs["case"].str.contains("bumps")]))
    return "\n".join(f"- {words}: {_summary(own)}" for words, own in parts if len(own))


def _summary(runs: pd.DataFrame) -> str:
    own, wrong = trusted(runs), false_trust(runs)
    covered = ", ".join(f"{name} {share}" for name, share in zip(COVERAGES, _coverages(runs), strict=True))
    others = [f"{w} {own[f'covered {n}'].mean():.2f}" for w, n in (("expected loss", "expected_loss"), ("tail", "tail"))
              if f"covered {n}" in own and own[f"covered {n}"].notna().any()]  # fmt: skip
    share = f"{wrong / len(own):.1%}" if len(own) else "-"
    return (
        f"{len(runs)} runs, {_share(own, runs)} trustworthy, false trust in {wrong} of {len(own)} ({share}); "
        f"covered: {', '.join([covered, *others])}; {runs['rows'].sum():,.0f} model rows"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each case ({SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose name contains one of these words")
    parser.add_argument(
        "--fresh", action="store_true", help="cases of another seed and other bumps, to confirm a change"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes; the results are the same, but for the seconds")
    parser.add_argument("--csv", type=Path, help="write a line for each run")
    add_docs_option(parser)
    options = parser.parse_args()
    among = fresh() if options.fresh else cases()
    names = [name for name in among if not options.only or any(word in name for word in options.only)]
    if not names:
        parser.error(f"no case has one of {options.only} in its name")
    seeds = range(options.first, options.first + options.seeds)
    found = Parallel(n_jobs=options.jobs)(delayed(run)(name, seed) for name in names for seed in seeds)
    runs = pd.DataFrame(found)
    for column in ("worst_z", "rows", "seconds", *(f"covered {name}" for name in COVERAGES.values())):
        if column not in runs:  # every run has failed
            runs[column] = np.nan
    if options.csv:
        runs.to_csv(options.csv, index=False)
    text = f"{table_of(runs)}\n\n{summary_of(runs)}"
    print(text)
    if options.docs:
        write_results("fresh trust" if options.fresh else "trust", text, __doc__)


if __name__ == "__main__":
    main()
