"""Real tables with rules: whether every draw and every decision keeps them, and what answers cost, beside peers.

Rows of six tables are explained with columns that may not change, directions, bounds, linear conditions and if-then
rules. All of them are checked again in plain pandas, on every point of the posterior and on every decision. Seconds
are those of one core.

Columns: *rules*, *immut.* and *dtypes* count answers that break a constraint, change an immutable column or lose a
dtype; *denied*, points called reached that ``model.predict`` refuses; *plaus.*, distance to the five nearest training
rows; *dist.*, distance to the row. Peers have 20 s of one core per table. eta = 5 still trades loss for distance, so
that some answers miss. Tables come from ``pip install --no-deps pysubgroup shapiq``, peers are ``dice-ml`` and
``treecf``.
"""

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import gbce
from benchmarks._documents import add_docs_option, print_into
from benchmarks._peers import PEERS, CannotRunError
from benchmarks._real_tables import TABLES, Case
from benchmarks._wheels import MissingWheelError
from gbce.metrics import Neighbours

SETTINGS: dict[str, Any] = {
    "Gaussian": gbce.Gaussian(),
    "Sparse": gbce.Sparse(gbce.Gaussian(), change=0.2),
    "NearData": gbce.NearData(gbce.Gaussian()),
}
RULES = [gbce.MAP(), gbce.Mean(), gbce.ChanceConstrained()]
SAMPLER = gbce.SMC(n_candidates=4_000, n_draws=500)
ETA = 5.0  # at one, the most probable point of an unlikely class is often the row itself
NEAR_DATA_ROWS = 10  # of those that are explained: its density makes it the slowest
NEAREST = 5  # training rows that plausibility looks at
PEER_SECONDS = 20.0  # of one core, for all rows of a table; a peer that needs more gets fewer rows


@dataclass
class Answer:
    """One answer for one row, judged without gbce but for the two distances."""

    rule: str
    valid: bool
    broken: int
    immutable: int
    dtypes: int
    changed: int
    plausibility: float
    distance: float


@dataclass
class Posterior:
    """What was found on the points of one posterior, and its decisions."""

    answers: list[Answer]
    points: int
    broken: int
    immutable: int
    dtypes: int
    denied: int
    plausibility: float
    seconds: float


# --- judging ----------------------------------------------------------------------------------------------------


def judged(case: Case, near: Neighbours, row: pd.DataFrame, given: pd.DataFrame, rules: Sequence[str]) -> list[Answer]:
    """Judge answers, one line each, against the row they are for."""
    wrong = _wrong_dtypes(case, given)
    frame = given.reset_index(drop=True).astype(case.X.dtypes.to_dict())
    now = row.iloc[0]
    broken = _broken(case, frame, now)
    moved = case.moved_immutables(frame, now)
    valid = case.valid(frame, row)
    x, x0 = case.space.encode(frame), case.space.encode(row)[0]
    different = pd.DataFrame({c: (frame[c] != now[c]) & ~(frame[c].isna() & pd.isna(now[c])) for c in frame})
    plausibility, distance = near.plausibility(x, NEAREST), case.space.distance(x, x0)
    return [
        Answer(rule, bool(valid[i]), int(broken[i]), int(moved[i]), wrong, int(different.iloc[i].sum()),
               float(plausibility[i]), float(distance[i]))
        for i, rule in enumerate(rules)
    ]  # fmt: skip


def _broken(case: Case, frame: pd.DataFrame, now: pd.Series) -> Any:
    """Count the broken rules of each line."""
    return np.column_stack([np.asarray(rule, dtype=bool) for rule in case.broken(frame, now).values()]).sum(axis=1)


def _wrong_dtypes(case: Case, given: pd.DataFrame) -> int:
    """Count columns with another dtype than the table's."""
    return sum(given[name].dtype != dtype for name, dtype in case.X.dtypes.items())


def explained(case: Case, explainer: gbce.Explainer, near: Neighbours, row: pd.DataFrame, seed: int) -> Posterior:
    """Explain one row, and check everything that comes out."""
    warnings.simplefilter("ignore")
    start = time.process_time()
    explanation = explainer.explain(row, case.target, rules=RULES, seed=seed)
    decisions, reported = explanation.counterfactuals, explanation.pointwise["reached"].to_numpy()
    seconds = time.process_time() - start
    answers = judged(case, near, row, decisions, list(decisions.index))
    pool, weights = explanation.draws.pool.x, explanation.draws.pool_weights
    x, weights = pool[weights > 0], weights[weights > 0]
    points = case.space.frame(x)
    sample = np.random.default_rng(seed).choice(len(x), 50, p=weights / weights.sum())
    return Posterior(
        answers=answers,
        points=len(points),
        broken=int(_broken(case, points, row.iloc[0]).sum()),
        immutable=int(case.moved_immutables(points, row.iloc[0]).sum()),
        dtypes=_wrong_dtypes(case, points) + sum(answer.dtypes for answer in answers),
        denied=sum(said != answer.valid for said, answer in zip(reported, answers, strict=True)),
        plausibility=float(near.plausibility(x[sample], NEAREST).mean()),
        seconds=seconds,
    )


# --- tables -----------------------------------------------------------------------------------------------------


def gbce_on(case: Case, rows: pd.DataFrame, near: Neighbours, n_jobs: int) -> Iterator[tuple[str, list[Posterior]]]:
    """Explain all rows, one setting after the other."""
    for label, prior in SETTINGS.items():
        explainer = gbce.Explainer(
            case.model, case.X, space=case.space, prior=prior, sampler=SAMPLER, eta=ETA, policy=None
        )
        n = min(len(rows), NEAR_DATA_ROWS) if label == "NearData" else len(rows)
        jobs = (delayed(explained)(case, explainer, near, rows.iloc[[i]], i) for i in range(n))
        yield label, Parallel(n_jobs=n_jobs, batch_size=5)(jobs)


def peer_on(case: Case, rows: pd.DataFrame, near: Neighbours, peer: str) -> tuple[list[Answer], int, float]:
    """Return a peer's answers, the number of rows it was asked about and the seconds they took."""
    answer = PEERS[peer](case)
    answers: list[Answer] = []
    asked, seconds = 0, 0.0
    while asked < len(rows) and seconds < PEER_SECONDS:
        row = rows.iloc[[asked]]
        start = time.process_time()
        given = answer(row)
        seconds += time.process_time() - start
        asked += 1
        if given is not None:
            answers += judged(case, near, row, given, [peer])
    return answers, asked, seconds


HEAD = (f"{'method':<26}{'rows':>5}{'attained':>10}{'rules':>7}{'immut.':>8}{'dtypes':>8}{'changed':>9}{'plaus.':>8}"
        f"{'dist.':>7}{'s/row':>8}")  # fmt: skip


def line(label: str, answers: Sequence[Answer], asked: int, seconds: float) -> str:
    """Return one line of the second table; figures are means over rows whose answer is valid."""
    good = [answer for answer in answers if answer.valid]

    def mean(name: str) -> float:
        return float(np.mean([getattr(answer, name) for answer in good])) if good else float("nan")

    return (
        f"{label:<26}{asked:>5}{len(good) / asked:>10.0%}{sum(answer.broken > 0 for answer in answers):>7}"
        f"{sum(answer.immutable > 0 for answer in answers):>8}{sum(answer.dtypes > 0 for answer in answers):>8}"
        f"{mean('changed'):>9.1f}{mean('plausibility'):>8.2f}{mean('distance'):>7.2f}{seconds / asked:>8.2f}"
    )


def proof(label: str, found: Sequence[Posterior]) -> str:
    """Return one line of the first table."""
    answers = [answer for one in found for answer in one.answers]
    return (
        f"{label:<26}{len(found):>5}{sum(one.points for one in found):>12,}{len(answers):>11,}"
        f"{sum(one.broken for one in found) + sum(answer.broken for answer in answers):>7}"
        f"{sum(one.immutable for one in found) + sum(answer.immutable for answer in answers):>8}"
        f"{sum(one.dtypes for one in found):>8}{sum(one.denied for one in found):>8}"
        f"{np.mean([one.plausibility for one in found]):>14.2f}"
    )


PROOF_HEAD = (f"{'prior':<26}{'rows':>5}{'draws':>12}{'decisions':>11}{'rules':>7}{'immut.':>8}{'dtypes':>8}"
              f"{'denied':>8}{'draws plaus.':>14}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100, help="rows of each table")
    parser.add_argument("--quick", action="store_true", help="ten rows of each table")
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], default=[*TABLES], help="which tables")
    parser.add_argument("--no-peers", action="store_true", help="gbce alone")
    parser.add_argument("--jobs", type=int, default=2, help="processes for gbce")
    add_docs_option(parser)
    options = parser.parse_args()
    n = 10 if options.quick else options.rows
    notes = []
    with print_into("tables", options.docs, __doc__):
        for name in options.tables:
            try:
                case = TABLES[name]()
            except MissingWheelError as error:
                notes.append(f"{name} was left out: {error}")
                continue
            rows = case.rows(n)
            near = Neighbours.of(case.space.encode(case.X), case.space)
            print(f"{name}: {len(case.X):,} x {case.X.shape[1]}, {_wish(case)}\n{PROOF_HEAD}", flush=True)
            lines = [HEAD]
            for label, found in gbce_on(case, rows, near, options.jobs):
                print(proof(label, found), flush=True)
                seconds = sum(one.seconds for one in found)
                for rule in ("MAP", "ChanceConstrained"):
                    chosen = [answer for one in found for answer in one.answers if answer.rule == rule]
                    lines.append(line(f"{label} {rule}", chosen, len(found), seconds))
            for peer in () if options.no_peers else PEERS:
                try:
                    lines.append(line(peer, *peer_on(case, rows, near, peer)))
                except CannotRunError as error:
                    notes.append(f"{peer} on {name}: {error}")
                except Exception as error:  # a peer that breaks is a finding, not the end of the run
                    notes.append(f"{peer} on {name}: {type(error).__name__}: {str(error)[:100]}")
            print("\n".join([*lines, ""]), flush=True)
        print("\n".join(notes))


def _wish(case: Case) -> str:
    return f"to {case.wish!r}" if case.classification else f"output by {case.wish:+.0%}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
