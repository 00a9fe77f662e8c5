"""Group actions beside C-GLANCE, and reconstructions of GLOBE-CE and AReS: on rows that did not choose the actions.

Four real tables of the wheels of other packages, three models each, fitted on 60% of the rows. Of the other rows those
that the model refuses are split: some are given to every method, the others measure. Cost is the sum of changes in
ranges of the data, one for a category, and gbce is told to pay for these; C-GLANCE counts tenths of a range.

Columns: *coverage*, share of the measuring rows that some action brings to the target, by the model's own ``predict``;
*cost*, mean of the cheapest action of these rows; *in range* and *cost in range*, the same where no number that changes
leaves its range in the data, such as to minus three late payments; *promised*, what the method itself states, gbce with
the ends of its interval; *columns*, changed by an action on average; *fixed*, actions that change a column that may not
change, which count for their method all the same; *seconds* of one core and *model rows*, with the answers that gbce
starts from.

A promise is *kept* where the difference between promise and measurement lies within the 95% interval of both (Newcombe,
1998). ``--intervals`` simulates tables of which 4,000 other rows are known: *coverage* is the share of
these that the actions serve, on average, *held* how often the interval of coverage holds it, *by counting* how often
an interval from so many independent rows would, by sums of binomial probabilities. One person in twenty is refused
whatever changes: if actions served everybody, every interval would end at one and hold the truth.

C-GLANCE runs with the code of its authors (``git clone https://github.com/Trusted-AI/AIX360``, ``--aix360 FOLDER``) in
their setting with random local counterfactuals; it needs dice-ml and colorama. It has no immutable columns there.
GLOBE-CE and AReS are reconstructed in their main steps: random sparse directions along which every row goes as far as
it needs, and sets of frequent values of accepted rows. Their own code reads models of one-hot arrays. CET is left
out: its published run on German credit takes an hour and a half.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.stats import binom
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from benchmarks._documents import add_docs_option, print_into
from benchmarks._wheels import MissingWheelError, adult, compas, german_credit, give_me_some_credit
from gbce.metrics import wilson
from gbce.policy import AnsweredRows, actions
from gbce.policy._action import apply_action

KS = (1, 3, 5)
GIVEN, MEASURED = 40, 400  # rows; of a small table half and half
N_TABLES = 200  # simulated
TRUTH = 4_000  # other rows of each simulated table
BARRED = 0.05  # share of the simulated people who are refused whatever they change


# --- tables and models -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Case:
    """A model, the rows given to methods, the rows that measure, and what may not change.

    While ``in_range`` is set, changes that leave the range of the data cannot be paid.
    """

    table: str
    model_name: str
    model: Any
    data: pd.DataFrame
    wish: Any
    given: pd.DataFrame
    measured: pd.DataFrame
    fixed: tuple[str, ...]
    in_range: bool = False

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers."""
        return list(self.data.select_dtypes("number").columns)

    def ranges(self) -> pd.Series:
        """Range of each number in the data."""
        return self.data[self.numbers].max() - self.data[self.numbers].min()

    def costs(self, before: pd.DataFrame, after: pd.DataFrame) -> np.ndarray:
        """Return the sum of changes in ranges, one for a category: ``(n,)``."""
        old, new, known = before[self.numbers], after[self.numbers], self.data[self.numbers]
        others = [name for name in self.data.columns if name not in self.numbers]
        moved = ((new - old).abs() / self.ranges()).sum(axis=1) + (after[others] != before[others]).sum(axis=1)
        outside = ((new != old) & ((new < known.min()) | (new > known.max()))).any(axis=1)
        return np.where(outside & self.in_range, np.inf, moved.to_numpy(dtype=float))

    def serve(self, before: pd.DataFrame, after: pd.DataFrame) -> np.ndarray:
        """Return the costs ``(n,)`` of changed rows, infinite where the model refuses them."""
        return np.where(self.model.predict(after) == self.wish, self.costs(before, after), np.inf)


def _tables() -> dict[str, Callable[[], tuple[pd.DataFrame, pd.Series, Any, tuple[str, ...]]]]:
    def german() -> tuple[pd.DataFrame, pd.Series, Any, tuple[str, ...]]:
        frame = german_credit()
        fixed = ("credit_history", "personal_status", "age", "num_dependents", "foreign_worker", "residence_since")
        return frame.drop(columns="class"), frame["class"], "good", fixed

    def census() -> tuple[pd.DataFrame, pd.Series, Any, tuple[str, ...]]:
        frame = adult().sample(6_000, random_state=0).dropna()
        fixed = ("age", "race", "sex", "relationship", "marital-status")
        return frame.drop(columns=["class", "fnlwgt", "education-num", "native-country"]), frame["class"], ">50K", fixed

    def recidivism() -> tuple[pd.DataFrame, pd.Series, Any, tuple[str, ...]]:
        frame = compas()
        return frame.drop(columns="two_year_recid"), frame["two_year_recid"], 0, ("age", "sex", "race")

    def credit() -> tuple[pd.DataFrame, pd.Series, Any, tuple[str, ...]]:
        frame = give_me_some_credit().dropna()
        bad = frame[frame["SeriousDlqin2yrs"] == 1].sample(3_000, random_state=0)
        good = frame[frame["SeriousDlqin2yrs"] == 0].sample(3_000, random_state=0)
        frame = pd.concat([bad, good]).sample(frac=1.0, random_state=0)
        return frame.drop(columns="SeriousDlqin2yrs"), frame["SeriousDlqin2yrs"], 0, ("age", "NumberOfDependents")

    return {"German credit": german, "Adult": census, "COMPAS": recidivism, "Give Me Some Credit": credit}


def _models() -> dict[str, Any]:
    def spelled(numbers: Any = "passthrough") -> Any:
        other = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        return make_column_transformer(
            (other, make_column_selector(dtype_exclude="number")),
            (numbers, make_column_selector(dtype_include="number")),
        )

    return {
        "forest": make_pipeline(spelled(), RandomForestClassifier(100, min_samples_leaf=3, random_state=0)),
        "boosting": make_pipeline(spelled(), LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1, random_state=0)),
        "logistic": make_pipeline(spelled(StandardScaler()), LogisticRegression(max_iter=1_000)),
    }


def _cases(tables: list[str], models: list[str], given: int) -> Any:
    for table, load in _tables().items():
        if tables and table not in tables:
            continue
        try:
            X, y, wish, fixed = load()
        except MissingWheelError as missing:
            print(f"{table} is left out: {missing}")
            continue
        order = np.random.default_rng(0).permutation(len(X))
        train, rest = X.iloc[order[: 6 * len(X) // 10]], X.iloc[order[6 * len(X) // 10 :]]
        for name, model in _models().items():
            if models and name not in models:
                continue
            model.fit(train, y.loc[train.index] if y.index.is_unique else y.iloc[order[: len(train)]])
            refused = rest[model.predict(rest) != wish]
            n = min(given, len(refused) // 2)
            yield Case(table, name, model, train, wish, refused.iloc[:n], refused.iloc[n : n + MEASURED], fixed)


# --- methods ---------------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """What a method found at one k: the costs of its actions for rows, what it promises, and its effort."""

    cost: Callable[[pd.DataFrame], np.ndarray]  # rows to (n, m)
    promised: tuple[float, float, float, int]  # share, the ends of its interval, and rows; NaN without an interval
    columns: float
    fixed: int
    seconds: float
    rows: int


class _Counted:
    """A model that counts the rows of its calls, and answers one and zero as C-GLANCE expects."""

    def __init__(self, case: Case) -> None:
        self.case, self.rows = case, 0

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        self.rows += len(rows)
        return (self.case.model.predict(rows) == self.case.wish).astype(int)

    def fit(self, X: Any, y: Any = None) -> "_Counted":
        return self

    def score(self, X: pd.DataFrame, y: pd.Series) -> float:
        return float((self.predict(X) == np.asarray(y)).mean())


def by_gbce(case: Case) -> dict[int, Found]:
    """Explain the given rows and run ``policy.actions`` once, for the largest k: smaller sets are the first of it."""
    start = time.process_time()
    space = gbce.Space.infer(case.data, immutable=list(case.fixed))
    explainer = gbce.Explainer(case.model, case.data, space=space)
    ranges = case.ranges()
    prices = {name: 1.0 / ranges[name] if name in ranges and ranges[name] > 0 else 1.0 for name in case.data.columns}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single rows that could not be explained are counted as not covered
        table = explainer.explain_many(case.given, case.wish, seed=0, posterior=False, progress=False)
    found = actions(table, KS[-1], explainer=explainer, prices=prices, seed=0, choosing=0.6)
    seconds = time.process_time() - start
    results = {}
    for k in KS:
        some = found.first(min(k, max(len(found.coverage), 1))) if len(found) else found
        share = some.coverage[-1] if len(some) else None
        promised = (share.share, share.low, share.high, share.n) if share else (0.0, 0.0, 0.0, 1)
        results[k] = Found(
            partial(_gbce_costs, case, space, some), promised,
            float(np.mean([len(one.moves) for one in some.actions])) if len(some) else 0.0,
            sum(space.names[j] in case.fixed for one in some.actions for j in one.columns),
            seconds, table.n_model_rows + found.n_model_rows,
        )  # fmt: skip
    return results


def _gbce_costs(case: Case, space: gbce.Space, found: Any, rows: pd.DataFrame) -> np.ndarray:
    x0 = space.encode(rows)
    listed = [np.full(len(rows), np.inf)]
    for action in found.actions:
        x, possible = space.settle_each(apply_action(action, x0), x0)
        after = space.frame(np.where(possible[:, None], x, x0)).set_axis(rows.index)
        listed.append(np.where(possible, case.serve(rows, after), np.inf))
    return np.column_stack(listed)


def by_glance(case: Case) -> dict[int, Found]:
    """Run C-GLANCE with random local counterfactuals, once for each k."""
    from glance.iterative_merges.iterative_merges import C_GLANCE

    results = {}
    texts = [name for name in case.data.columns if name not in case.numbers]
    floats = dict.fromkeys(case.numbers, float)  # it puts fractions into columns of integers
    data, given = case.data.astype(floats), case.given.astype(floats)
    for k in KS:
        model, start = _Counted(case), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = C_GLANCE(model, initial_clusters=min(100, len(given)), final_clusters=k, verbose=False)
            outcome = pd.Series(model.predict(data), index=data.index)
            method.fit(
                data, outcome, data.assign(target=outcome), numeric_features_names=case.numbers,
                categorical_features_names=texts, cf_generator="RandomSampling", cluster_action_choice_algo="max-eff",
            )  # fmt: skip
            covered, _ = method.explain_group(given)
        seconds = time.process_time() - start
        found = method.global_actions()
        changed = [[n for n in one.index if one[n] != "-" and not (n in case.numbers and one[n] == 0)] for one in found]
        results[k] = Found(
            _glance_costs(case, found), (covered / len(case.given), np.nan, np.nan, len(case.given)),
            float(np.mean([len(one) for one in changed])), sum(bool(set(one) & set(case.fixed)) for one in changed),
            seconds, model.rows,
        )  # fmt: skip
    return results


def _glance_costs(case: Case, found: list[pd.Series]) -> Callable[[pd.DataFrame], np.ndarray]:
    def costs(rows: pd.DataFrame) -> np.ndarray:
        listed = []
        for action in found:
            after = rows.copy()
            for name, value in action.items():
                if name in case.numbers and value != "-":
                    after[name] = rows[name] + value
                elif name not in case.numbers and value != "-":
                    after[name] = value
            listed.append(case.serve(rows, after))
        return np.column_stack(listed)

    return costs


def by_directions(case: Case) -> dict[int, Found]:
    """GLOBE-CE in its main steps: random directions of up to three columns, scaled for each row; greedy choice of k."""
    model, start, rng = _Counted(case), time.process_time(), np.random.default_rng(0)
    free = [name for name in case.data.columns if name not in case.fixed]
    ranges = case.ranges()

    def draw() -> dict[str, Any]:
        names = rng.choice(free, size=rng.integers(1, 4), replace=False)
        return {
            name: rng.normal() * ranges[name] if name in ranges else rng.choice(case.data[name].unique())
            for name in names
        }

    directions = [draw() for _ in range(100)]
    scalars = np.linspace(0.1, 1.0, 10)

    def costs_of(rows: pd.DataFrame, some: list[dict[str, Any]]) -> np.ndarray:
        found = np.full((len(rows), len(some)), np.inf)
        for i, direction in enumerate(some):
            for scalar in scalars if any(name in ranges for name in direction) else scalars[-1:]:
                after = rows.copy()
                for name, value in direction.items():
                    after[name] = (rows[name] + scalar * value).astype(rows[name].dtype) if name in ranges else value
                good = model.predict(after) == 1
                found[:, i] = np.minimum(found[:, i], np.where(good, case.costs(rows, after), np.inf))
        return found

    return _choose(case, directions, costs_of, model, start)


def by_values(case: Case) -> dict[int, Found]:
    """AReS in its main steps: values that accepted rows often have, in deciles, for everybody; greedy choice of k."""
    model, start = _Counted(case), time.process_time()
    accepted = case.data[case.model.predict(case.data) == case.wish]
    model.rows += len(case.data)
    items = []
    for name in case.data.columns:
        if name in case.fixed:
            continue
        if name in case.numbers:
            values = np.unique(accepted[name].quantile(np.linspace(0.05, 0.95, 10), interpolation="nearest"))
        else:
            shares = accepted[name].value_counts(normalize=True)
            values = shares.index[shares >= 0.1].to_numpy()
        items += [{name: value} for value in values]

    def costs_of(rows: pd.DataFrame, some: list[dict[str, Any]]) -> np.ndarray:
        found = [np.full(len(rows), np.inf)]
        for values in some:
            after = rows.copy()
            for name, value in values.items():
                after[name] = pd.Series(value, index=rows.index).astype(rows[name].dtype)
            found.append(np.where(model.predict(after) == 1, case.costs(rows, after), np.inf))
        return np.column_stack(found)[:, 1:]

    single = np.isfinite(costs_of(case.given, items)).mean(axis=0)
    best = [items[i] for i in np.argsort(-single, kind="stable")[:16]]
    pairs = [a | b for a, b in combinations(best, 2) if not a.keys() & b.keys()]
    triples = [a | b | c for a, b, c in combinations(best[:8], 3) if len({*a, *b, *c}) == 3]
    return _choose(case, [*items, *pairs, *triples], costs_of, model, start)


def _choose(
    case: Case, candidates: list[dict[str, Any]], costs_of: Callable[..., np.ndarray], model: _Counted, start: float
) -> dict[int, Found]:
    """Choose k candidates one after the other, by coverage of the given rows and then by cost."""
    cost = costs_of(case.given, candidates)
    chosen: list[int] = []
    best = np.full(len(case.given), np.inf)
    results = {}
    for k in range(1, max(KS) + 1):
        after = np.minimum(best[:, None], cost)
        served = np.isfinite(after)
        total = np.where(served, after, 0.0).sum(axis=0)
        chosen.append(int(np.lexsort((total, -served.sum(axis=0)))[0]))
        best = np.minimum(best, cost[:, chosen[-1]])
        if k in KS:
            some = [candidates[i] for i in chosen]
            results[k] = Found(
                partial(costs_of, some=some), (np.isfinite(best).mean(), np.nan, np.nan, len(best)),
                float(np.mean([len(one) for one in some])), sum(bool(set(one) & set(case.fixed)) for one in some),
                time.process_time() - start, model.rows,
            )  # fmt: skip
    return results


# --- measuring -------------------------------------------------------------------------------------------------------


def _differs(found: Found, share: float, n: int) -> bool:
    """Whether a promise with an interval and a measured share differ by more than both allow (Newcombe, 1998)."""
    promise, low, high, _ = found.promised
    least, most = (float(end) for end in wilson(np.array(share), n))
    below = np.hypot(promise - low, most - share)
    above = np.hypot(high - promise, share - least)
    return not -above <= promise - share <= below


def measure(case: Case, method: str, results: dict[int, Found]) -> list[dict[str, Any]]:
    """Measure what a method found on the rows that did not choose."""
    lines = []
    for k, found in results.items():
        least = found.cost(case.measured).min(axis=1, initial=np.inf)
        case.in_range = True
        within = found.cost(case.measured).min(axis=1, initial=np.inf)
        case.in_range = False
        share, inside = float(np.isfinite(least).mean()), float(np.isfinite(within).mean())
        lines.append(
            {
                "table": case.table, "model": case.model_name, "method": method, "k": k, "coverage": share,
                "cost": _mean_known(least), "in range": inside, "cost in range": _mean_known(within),
                "promised": found.promised[0],
                "low": found.promised[1], "high": found.promised[2],
                "kept": None if np.isnan(found.promised[1]) else not _differs(found, share, len(least)),
                "columns": found.columns, "fixed": found.fixed, "seconds": found.seconds, "model rows": found.rows,
            }
        )  # fmt: skip
    return lines


def _mean_known(costs: np.ndarray) -> float:
    """Return the mean of finite costs."""
    return float(costs[np.isfinite(costs)].mean()) if np.isfinite(costs).any() else float("nan")


def compare(cases: Any, glance: bool, parts: Path | None) -> pd.DataFrame:
    """Run every method on every case, but for what a folder of earlier parts has."""
    methods = {"C-GLANCE": by_glance} if glance else {}
    methods |= {"gbce": by_gbce, "GLOBE-CE, reconstructed": by_directions, "AReS, reconstructed": by_values}
    found = []
    for case in cases:
        for name, method in methods.items():
            path = None if parts is None else parts / f"{case.table}, {case.model_name}, {name}.json"
            if path is not None and path.exists():
                found.append(pd.read_json(path))
                continue
            lines = pd.DataFrame(measure(case, name, method(case)))
            if path is not None:
                lines.to_json(path, orient="records")
            found.append(lines)
            print(f"{case.table}, {case.model_name}: {len(case.given)} rows given, {len(case.measured)} measure; "
                  f"{name}, {lines['seconds'].max():.0f} s", file=sys.stderr)  # fmt: skip
    return pd.concat(found, ignore_index=True)


def judge(table: pd.DataFrame, coverage: str = "coverage", cost: str = "cost") -> pd.DataFrame:
    """Compare gbce with every other method, by k: in how many cases it covers more at no more cost, and so on.

    Coverage counts as the same within one row of a hundred, cost within 1%.
    """
    lines, table = [], table.dropna(subset=[coverage])
    for other in [name for name in table["method"].unique() if name != "gbce"]:
        for k in KS:
            a, b = (
                table[(table["method"] == one) & (table["k"] == k)].set_index(["table", "model"])
                for one in ("gbce", other)
            )
            both = a.index.intersection(b.index)
            a, b = a.loc[both], b.loc[both]
            # who serves nobody pays nothing, and is not the cheaper one
            cover, price = a[coverage] - b[coverage], a[cost].fillna(np.inf) - b[cost].fillna(1e300)
            slack = 0.01 * b[cost].fillna(0.0)
            more, fewer, dearer, cheaper = cover > 0.01, cover < -0.01, price > slack, price < -slack
            lines.append(
                {
                    "beside": other, "k": k, "cases": len(both),
                    "better": int(((more & ~dearer) | (~fewer & cheaper)).sum()),
                    "worse": int(((fewer & ~cheaper) | (~more & dearer)).sum()),
                    "the same": int((~more & ~fewer & ~dearer & ~cheaper).sum()),
                    "more rows at more cost": int((more & dearer).sum()),
                    "fewer rows at less cost": int((fewer & cheaper).sum()),
                }
            )  # fmt: skip
    return pd.DataFrame(lines)


def average(table: pd.DataFrame) -> pd.DataFrame:
    """Return means by method and k over the cases that all methods ran."""
    ran = table.groupby(["table", "model"])["method"].transform("nunique")
    table = table[ran == table["method"].nunique()]
    shown = table.assign(kept=pd.to_numeric(table["kept"], errors="coerce"), fixed=table["fixed"])
    means = shown.groupby(["k", "method"], sort=False).agg(
        cases=("cost", "size"), coverage=("coverage", "mean"), cost=("cost", "mean"),
        within=("in range", lambda column: column.mean(skipna=False)),
        promised=("promised", "mean"), kept=("kept", "mean"),
        columns=("columns", "mean"), fixed=("fixed", "sum"), seconds=("seconds", "mean"),
        model_rows=("model rows", "mean"),
    )  # fmt: skip
    return (
        means.rename(columns={"model_rows": "model rows", "within": "in range"})
        .sort_index(level=0, sort_remaining=False)
        .reset_index()
    )


# --- simulated tables ------------------------------------------------------------------------------------------------


def simulate(n_tables: int) -> pd.DataFrame:
    """Count how often the interval of coverage holds the share of 4,000 other rows, by number of rows and worth."""

    def score(frame: pd.DataFrame) -> pd.Series:
        open_to = frame["pay"] - 0.5 * frame["debt"] + 8.0 * (frame["job"] == "nurse") + 2.0 * frame["years"]
        return open_to - 1e3 * frame["barred"]

    def draw(n: int, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        m = 4 * n + 100
        frame = pd.DataFrame(
            {
                "pay": rng.normal(48, 9, m).round(1), "debt": rng.gamma(2.0, 12.0, m).round(1),
                "job": rng.choice(["clerk", "nurse", "cook"], m), "years": rng.integers(0, 12, m),
                "barred": (rng.random(m) < BARRED).astype(int),
            }
        )  # fmt: skip
        return frame[score(frame) < 60].iloc[:n].reset_index(drop=True)

    space = gbce.Space.infer(
        draw(300, 1), immutable=["barred"], increase=["years"], bounds={"debt": (0, None), "pay": (0, None)}
    )
    explainer = gbce.Explainer(score, draw(300, 1), space=space)
    x = space.encode(draw(TRUTH, 2))
    lines: list[dict[str, Any]] = []
    settings: tuple[tuple[int, float], ...] = ((1, 2.0), (3, 2.0), (3, np.inf))
    for n in (40, 100, 300):
        for k, worth in settings:
            inside, truths, binomial = 0, [], []
            for seed in range(n_tables):
                rows = _answer(space, draw(n, 10_000 + seed), score, seed)
                found = actions(rows, k, explainer=explainer, seed=seed, worth=worth if np.isfinite(worth) else None,
                                max_candidates=40, max_columns=2, with_data=False)  # fmt: skip
                served = np.zeros(len(x), dtype=bool)
                for action in found.actions:
                    after, possible = space.settle_each(apply_action(action, x), x)
                    size = (space.change(after, x) / space.scale).sum(axis=1)
                    served |= possible & (score(space.frame(after)).to_numpy() >= 60) & (size <= worth)
                share = found.coverage[-1] if found.coverage else None
                truths.append(float(served.mean()))
                binomial.append(_chance_to_hold(truths[-1], len(rows) - found.n_chosen_on))
                inside += share is not None and share.low <= truths[-1] <= share.high
            lines.append(
                {
                    "rows": n, "k": k, "worth": "none" if np.isinf(worth) else worth, "tables": n_tables,
                    "coverage": float(np.mean(truths)), "held": inside / n_tables, "by counting": np.mean(binomial),
                }
            )  # fmt: skip
    return pd.DataFrame(lines)


def _chance_to_hold(share: float, n: int) -> float:
    """Return the probability that the interval of ``n`` independent rows holds the share that they are drawn from."""
    seen = np.arange(n + 1)
    low, high = wilson(seen / n, n)
    return float(binom.pmf(seen, n, share)[(low <= share) & (share <= high)].sum())


def _answer(space: gbce.Space, frame: pd.DataFrame, score: Callable[..., pd.Series], seed: int) -> AnsweredRows:
    """Answer rows by pay, debt or both, and a little more, instead of explaining thousands of tables."""
    rng = np.random.default_rng(seed)
    x0 = space.encode(frame)
    answers, gap = x0.copy(), 60 - score(frame).to_numpy()
    pay, debt = space.position["pay"], space.position["debt"]
    off = np.minimum(2 * rng.choice([0.0, 0.5, 1.0], len(frame)) * gap, x0[:, debt])
    answers[:, debt] -= off
    answers[:, pay] += np.maximum(gap - off / 2, 0) + rng.uniform(0, 2, len(frame))
    found, no = frame["barred"].to_numpy() == 0, np.zeros(len(frame), dtype=bool)
    answers[~found] = x0[~found]
    return AnsweredRows(
        space, pd.RangeIndex(len(frame), name="row"), x0, answers, found, no, no, found,
        np.tile([0.95, 0.9, 0.98], (len(frame), 1)), np.ones(len(frame)), np.full(len(frame), "", dtype=object),
        gbce.AtLeast(60.0),
    )  # fmt: skip


# --- the command -----------------------------------------------------------------------------------------------------


def _show(table: pd.DataFrame) -> str:
    """Return a table in Markdown."""

    def text(value: Any) -> str:
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return ""
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else "no"
        if isinstance(value, (float, np.floating)):
            return f"{value:,.0f}" if abs(float(value)) >= 1_000 else f"{value:.3g}"
        return str(value)

    head = ["| " + " | ".join(map(str, table.columns)) + " |", "|" + "---|" * table.shape[1]]
    return "\n".join([*head, *("| " + " | ".join(map(text, line)) + " |" for line in table.itertuples(index=False))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aix360", type=Path, help="folder of AIX360's code, for C-GLANCE")
    parser.add_argument("--case", action="append", default=[], help="only this table, such as 'Adult'")
    parser.add_argument("--model", action="append", default=[], help="only this model: forest, boosting or logistic")
    parser.add_argument("--given", type=int, default=GIVEN, help="rows given to every method")
    parser.add_argument("--parts", type=Path, help="folder in which each method's lines are kept, and not run again")
    parser.add_argument("--intervals", action="store_true", help="only the intervals, in simulated tables")
    parser.add_argument("--tables", type=int, default=N_TABLES, help="simulated tables for each line")
    add_docs_option(parser)
    args = parser.parse_args()
    if args.aix360 is not None:
        sys.path.insert(0, str(args.aix360 / "aix360" / "algorithms"))
    if args.intervals:
        with print_into("policy intervals", args.docs, __doc__):
            print(_show(simulate(args.tables)))
        return
    with print_into(" ".join(["policy", *args.model]), args.docs, __doc__):
        found = compare(_cases(args.case, args.model, args.given), args.aix360 is not None, args.parts)
        print("Means over the cases\n")
        print(_show(average(found)), "\n")
        print("gbce beside each other method: in how many cases\n")
        print(_show(judge(found)), "\n")
        print("The same where numbers stay in their range\n")
        print(_show(judge(found, "in range", "cost in range")), "\n")
        print("Every case\n")
        print(_show(found), "\n")
        own = found[found["kept"].notna()]
        print(f"Promises kept: {own['kept'].astype(bool).sum()} of {len(own)}.")


if __name__ == "__main__":
    main()
