"""The nearest point on tree ensembles beside treecf, which knows nothing but trees, in treecf's own prices.

Tables of numbers, forests of 100 trees and boosters of 300. Both methods answer the same rows one after the other on
one thread, priced three ways: treecf's own (changes over the median absolute deviation, else the interquartile range,
else the range), changes over ranges, and treecf's own with a price of one for each change. gbce is measured twice:
the search on cells by itself, its point shown to the model once, and a whole ``explain`` with Nearest as its rule.

A second table says how many optima are proved and how soon, in treecf's own prices, and how wide the safe boxes around
gbce's points are beside treecf's regions around the same points. Where treecf still wins is listed.

Columns of costs: *valid*, answers that the model accepts, gbce's and treecf's; *treecf fractions*, rows in which treecf
answers with fractions in an integer column that it was told of; *ratio* and *worst*, gbce's cost over treecf's where
both are valid and keep integers, median and maximum; *dearer*, rows in which it is above one; *ms*, the search and one
confirmation by the model; *explain*, a whole ``explain``, on the first five rows. String columns are left out. The
search tries all pairs of changes that the leaves allow, up to a million cells; beyond that, and with three or more
changes, it proves nothing.

Columns of proofs: shares of optima proved by ``Nearest(prove=True)`` within CPU seconds of one thread; *largest gap*,
what a cheaper point could save at most when time ran out; *box* and *treecf box*, mean width of the safe box around the
same point with all columns free, as a share of the data's range (left out for the largest forests). treecf comes from
``pip install treecf``.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

import gbce
from benchmarks._documents import add_docs_option, current_commit, markdown, write_results
from benchmarks._peers import CannotRunError, require
from benchmarks._tree_proofs import Proved, box_width, prove_row, say_proofs, share_of_range
from benchmarks._tree_report import HEAD, PROOF_HEAD, Answer, figures, wins_of_treecf
from benchmarks._wheels import MissingWheelError, adult, california, german_credit
from gbce.base import Array
from gbce.predictors import as_predictor
from gbce.trees import (
    CellTrees,
    ScoreConstraints,
    find_nearest_cells,
    reachable_cells,
    read_cells,
    read_structure,
    score_constraints,
)

MARK, PROOF_MARK = "trees", "tree-proofs"
MOST_ROWS = 20_000  # of a table, picked at random
PATIENCE = 40.0  # seconds of treecf on a table, a model and a price; then it gets no more rows
KNOWN = 500  # training rows whose outputs are known before any row is explained, as in an explainer
STARTS = 20  # of these, the nearest that reach are handed to the search
EXPLAINED = 5  # rows of each case that are explained as a whole
MOST_BOXED = 100_000  # leaves of a model whose safe boxes are compared: on more, either takes minutes
PER_CHANGE = 1.0  # price of each change, in the third of the prices
EDGE = 1e-6  # how far beyond an even chance treecf is sent: its interval includes the tie, which the model may deny


@dataclass(frozen=True)
class Problem:
    """A model, what is wanted of it, and rows that do not have it."""

    model: Any
    data: Array
    rows: Array
    target: Any
    sign: float  # of a number that is wanted above or below an edge; 0 for a class
    edge: float

    def reached(self, x: Array) -> bool:
        """Whether the model itself grants the wish."""
        said = self.model.predict(x[None, :])[0]
        return bool(said == 1) if self.sign == 0 else bool(self.sign * said >= self.sign * self.edge)

    def all_reached(self, x: Array) -> Array:
        """Whether the model itself grants the wish, of each point ``(n,)``."""
        return np.array([self.reached(one) for one in x])


def _numbers(frame: pd.DataFrame, outcome: str, wanted: Any) -> tuple[Array, Array, bool]:
    """Return the columns of numbers, and whether the class is the one that is wanted."""
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0)
    x = frame.drop(columns=outcome).select_dtypes("number")
    return x.to_numpy(float), (frame[outcome] == wanted).to_numpy(int), True


def _california() -> tuple[Array, Array, bool]:
    frame = california()
    return frame.drop(columns="MedHouseVal").to_numpy(float), frame["MedHouseVal"].to_numpy(float), False


TABLES: dict[str, Callable[[], tuple[Array, Array, bool]]] = {
    "breast cancer": lambda: (*load_breast_cancer(return_X_y=True), True),
    "diabetes": lambda: (*load_diabetes(return_X_y=True, scaled=False), False),
    "california": _california,
    "adult, numbers": lambda: _numbers(adult(), "class", ">50K"),
    "german credit, numbers": lambda: _numbers(german_credit(), "class", "good"),
}
WHAT = ("costs", "proofs")
MODELS = ("forest", "forest, depth 6", "boosting")


def problem(table: str, kind: str, n: int) -> Problem:
    """Fit a model, and pick rows that have not what is wanted: a class, or a number some way up or down."""
    x, y, classes = TABLES[table]()
    train, test, y_train, _ = train_test_split(x, y, test_size=0.3, random_state=0)
    if kind == "boosting":
        make = LGBMClassifier if classes else LGBMRegressor
        model = make(n_estimators=300, random_state=0, n_jobs=1, verbose=-1)
    else:
        make = RandomForestClassifier if classes else RandomForestRegressor
        model = make(100, max_depth=None if kind == "forest" else 6, random_state=0, n_jobs=1)
    model.fit(train, y_train)
    said = np.asarray(model.predict(test))
    target: gbce.Class | gbce.AtMost | gbce.AtLeast
    if classes:
        target, sign, edge, open_rows = gbce.Class(1), 0.0, 0.5, test[said != 1]
    else:
        sign = -1.0 if table == "diabetes" else 1.0  # a disease should not progress, a house may gain
        edge = float(np.median(y_train))
        wish = gbce.AtMost if sign < 0 else gbce.AtLeast
        target, open_rows = wish(edge, scale=1, tolerance=0), test[sign * (said - edge) < -0.05 * abs(edge)]
    order = np.random.default_rng(0).permutation(len(open_rows))
    return Problem(model, train, open_rows[order[:n]], target, sign, edge)


# --- prices -----------------------------------------------------------------------------------------------------


def _deviations(data: Array) -> Array:
    """Return treecf's unit of each column: the first of three spreads that is not zero, or one."""
    median = np.median(data, axis=0)
    spreads = [np.median(np.abs(data - median), axis=0), np.subtract(*np.percentile(data, [75, 25], axis=0))]
    units = np.ones(data.shape[1])
    for spread in (np.ptp(data, axis=0), *spreads[::-1]):
        units = np.where(spread > 0, spread, units)
    return units


PRICES: dict[str, tuple[Callable[[Array], Array], float]] = {
    "treecf's": (_deviations, 0.0),
    "ranges": (lambda data: np.where(np.ptp(data, axis=0) > 0, np.ptp(data, axis=0), 1.0), 0.0),
    "per change": (_deviations, PER_CHANGE),
}


def cost(x: Array, x0: Array, units: Array, per_change: float) -> float:
    """Return what a point costs."""
    return float((np.abs(x - x0) / units).sum() + per_change * (x != x0).sum())


# --- methods ----------------------------------------------------------------------------------------------------


def space_of(data: Array, units: Array) -> gbce.Space:
    """Return columns without bounds, whole numbers where all are, in the units that are priced."""
    whole = (data == np.round(data)).all(axis=0)
    return gbce.Space(
        tuple(
            gbce.Feature(f"x{j}", kind="integer" if is_whole else "real", scale=float(unit))
            for j, (is_whole, unit) in enumerate(zip(whole, units, strict=True))
        )
    )


class Cells:
    """The search on cells by itself."""

    def __init__(self, case: Problem, units: Array, per_change: float) -> None:
        self.case, self.units, self.per_change = case, units, per_change
        self.space = space_of(case.data, units)
        start = time.process_time()
        trees = read_cells(read_structure(case.model, self.space), self.space, case.data)
        self.reading = time.process_time() - start
        if trees is None:
            raise CannotRunError("cannot read this model")
        self.trees: CellTrees = trees
        wish = score_constraints(trees.inside, case.target)
        assert wish is not None
        self.wish: ScoreConstraints = wish.beyond(wish.rounding(trees))
        known = case.data[:: max(1, len(case.data) // KNOWN)]
        said = case.model.predict(known)
        self.known = known[said == 1 if case.sign == 0 else case.sign * said >= case.sign * case.edge]
        self.predictor = as_predictor(case.model, self.space)

    def nearest(self, x0: Array) -> Array | None:
        """Return the cheapest point that the search finds."""

        def price(j: int, values: Array) -> Array:
            return np.abs(values - x0[j]) / self.units[j] + self.per_change * (values != x0[j])

        offers = reachable_cells(self.trees, self.space, x0, price)
        assert offers is not None
        near = np.argsort((np.abs(self.known - x0) / self.units).sum(axis=1), kind="stable")[:STARTS]
        found = find_nearest_cells(self.trees, offers, self.wish, self.known[near])
        return found.x[0] if len(found.x) else None

    def __call__(self, x0: Array, seed: int) -> Answer:
        """Answer a row."""
        start = time.process_time()
        x = self.nearest(x0)
        if x is not None:
            self.predictor(x[None, :])
        seconds = time.process_time() - start
        if x is None:
            return Answer(np.inf, False, seconds, 0)
        paid = cost(x, x0, self.units, self.per_change)
        return Answer(paid, self.case.reached(x), seconds, int((x != x0).sum()))


class Treecf:
    """treecf, as it comes."""

    def __init__(self, case: Problem, units: Array, per_change: float) -> None:
        require("treecf", "treecf")
        from treecf import Explainer, Target

        self.case, self.units, self.per_change = case, units, per_change
        booster = getattr(case.model, "booster_", None)
        self.whole = whole = (case.data == np.round(case.data)).all(axis=0)
        model = case.model if booster is None else booster
        self.explainer = Explainer(model, normalizers=units)
        names = list(self.explainer.ir.feature_names)
        policy: dict[str, Any] = {name: "integer" for name, one in zip(names, whole, strict=True) if one}
        self.explainer = Explainer(model, normalizers=units, value_policy=policy)
        if case.sign == 0:
            make = Target.raw if booster is None else Target.probability
            self.target = make(range=(0.5 + EDGE, 1.0))
        else:
            self.target = Target.raw(op=">=" if case.sign > 0 else "<=", value=case.edge)

    def __call__(self, x0: Array, seed: int) -> Answer:
        """Answer a row."""
        start = time.process_time()
        found = self.explainer.explain(x0, target=self.target, seed=seed, sparsity_weight=self.per_change)
        seconds = time.process_time() - start
        if not hasattr(found, "x_cf"):
            return Answer(np.inf, False, seconds, 0)
        x = np.asarray(found.x_cf, dtype=float)
        paid = cost(x, x0, self.units, self.per_change)
        fractions = bool((self.whole & (x != x0) & (x != np.round(x))).any())
        return Answer(paid, self.case.reached(x), seconds, int((x != x0).sum()), fractions)

    def width(self, x0: Array, x: Array) -> float:
        """Return the mean width of the region around a point, in shares of the data's ranges, whole numbers as such."""
        from treecf import TreecfError

        try:
            region = self.explainer.recourse_region(x0, x, self.target)
        except TreecfError:  # a point that it does not accept, by its own arithmetic
            return float("nan")
        low, high = (np.where(np.isnan(end), x, end) for end in (region.lo, region.hi))
        low, high = np.where(self.whole, np.ceil(low), low), np.where(self.whole, np.floor(high), high)
        return share_of_range(low, high, self.case.data)


class Whole:
    """A whole explanation with Nearest as its rule."""

    def __init__(self, case: Problem, units: Array) -> None:
        self.case, self.units = case, units
        self.explainer = gbce.Explainer(case.model, case.data, space=space_of(case.data, units))
        self(case.rows[0], 0)  # what is asked and read once per explainer

    def __call__(self, x0: Array, seed: int) -> Answer:
        """Answer a row."""
        start = time.process_time()
        explanation = self.explainer.explain(x0, self.case.target, rules=[gbce.Nearest()], seed=seed)
        seconds = time.process_time() - start
        x = explanation.decisions[0].x
        return Answer(cost(x, x0, self.units, 0.0), self.case.reached(x), seconds, int((x != x0).sum()))


# --- running ----------------------------------------------------------------------------------------------------


def run(table: str, kind: str, prices: Sequence[str], n: int) -> Iterator[list[str]]:
    """Yield a line for each price."""
    case = problem(table, kind, n)
    for name in prices:
        measure, per_change = PRICES[name]
        units = measure(case.data)
        cells, peer = Cells(case, units, per_change), Treecf(case, units, per_change)
        whole = Whole(case, units) if name == prices[0] else None
        cells(case.rows[0], 0)  # once before the clock counts, as for the peer: both set up lazily
        peer(case.rows[0], 0)
        pairs: list[tuple[Answer, Answer]] = []
        wholes: list[Answer] = []
        spent = 0.0
        for i, x0 in enumerate(case.rows):
            if spent > PATIENCE:
                break
            theirs = peer(x0, i)
            spent += theirs.seconds
            pairs.append((cells(x0, i), theirs))
            if whole is not None and i < EXPLAINED:
                wholes.append(whole(x0, i))
        yield [table, kind, name, f"{len(cells.trees.value):,}", *figures(pairs, wholes)]


def run_proofs(table: str, kind: str, n: int) -> list[str]:
    """Return a line on proofs and safe boxes, in treecf's own prices."""
    case = problem(table, kind, n)
    units = _deviations(case.data)
    cells, peer = Cells(case, units, 0.0), Treecf(case, units, 0.0)
    proofs: list[Proved] = []
    mine: list[float] = []
    theirs: list[float] = []
    for x0 in case.rows:
        x = cells.nearest(x0)
        if x is None or not case.reached(x):
            continue
        proofs.append(prove_row(cells.trees, cells.space, x0, case.target, x, case.all_reached))
        if len(cells.trees.value) <= MOST_BOXED:
            mine.append(box_width(cells.trees, cells.space, x0, x, case.target, case.data))
            theirs.append(peer.width(x0, x))
    both = np.isfinite(theirs) if theirs else np.zeros(0, dtype=bool)
    widths = [f"{np.mean(np.array(one)[both]):.3f}" if both.any() else "" for one in (mine, theirs)]
    return [table, kind, f"{len(cells.trees.value):,}", str(case.data.shape[1]), *say_proofs(proofs), *widths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=50, help="rows of each table and model")
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], default=[*TABLES], help="which tables")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="which models")
    parser.add_argument("--prices", nargs="+", choices=[*PRICES], default=[*PRICES], help="which prices")
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT, help="which of the two tables")
    add_docs_option(parser)
    options = parser.parse_args()
    body: list[list[str]] = []
    proofs: list[list[str]] = []
    notes: list[str] = []
    for table in options.tables:
        for kind in options.models:
            try:
                if "costs" in options.what:
                    for line in run(table, kind, options.prices, options.rows):
                        body.append(line)
                        print(" | ".join(line), flush=True)
                if "proofs" in options.what:
                    proofs.append(run_proofs(table, kind, options.rows))
                    print(" | ".join(proofs[-1]), flush=True)
            except (CannotRunError, MissingWheelError) as error:
                notes.append(f"- {table}, {kind}: {error}")
    notes += [*wins_of_treecf(body, proofs), f"- Commit {current_commit()}, treecf {version('treecf')}."]
    if body:
        text = "\n".join([markdown(HEAD, body), "", *(notes if not proofs else [])]).rstrip()
        print(text)
        if options.docs:
            write_results(MARK, text, __doc__)
    if proofs:
        text = "\n".join([markdown(PROOF_HEAD, proofs), "", *notes]).rstrip()
        print(text)
        if options.docs:
            write_results(PROOF_MARK, text, __doc__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
