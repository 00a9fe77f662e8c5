"""Further questions, which lead into the rooms that small tables of numbers do not: see digest.py.

Trees of every framework and their proofs, exact sums, other frames, pages, pictures, files and stores, posteriors over
models, models behind HTTP. A question whose framework is not installed returns nothing and says so.
"""

import importlib.util
import json
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from digest_questions import CHEAP, SMALL, ask, bend, credit, lender, numbers, refused, tilted
from endpoint import serving
from matplotlib import pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)  # fmt: skip
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gbce

WIDE: dict[str, Callable[[], Any]] = {}


def question(*needed: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a function that needs these packages."""

    def enter(function: Callable[[], Any]) -> Callable[[], Any]:
        if all(importlib.util.find_spec(name) for name in needed):
            WIDE[function.__name__.replace("_", " ")] = function
        else:
            WIDE[function.__name__.replace("_", " ") + f" (without {', '.join(needed)})"] = lambda: {}
        return function

    return enter


# --- trees of every framework -----------------------------------------------------------------------------------


def people(n: int = 240) -> pd.DataFrame:
    """A table with every kind of column."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "income": rng.gamma(4.0, 700.0, n).round(2),
            "rent": rng.gamma(3.0, 200.0, n).round(2),
            "job": pd.Categorical(rng.choice(["clerk", "none", "nurse", "smith"], n, p=[0.4, 0.1, 0.2, 0.3])),
            "school": pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True),
            "owner": rng.random(n) < 0.3,
            "since": pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 2_500, n), unit="D"),
            "cards": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 5, n)),
        }
    )
    frame["rent"] = np.minimum(frame["rent"], np.floor(60 * frame["income"]) / 100)
    frame["left"] = frame["income"] - frame["rent"]
    return frame


def worth(frame: Any) -> np.ndarray:
    """Return a score of these people."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else pd.DataFrame(frame)
    job = (frame["job"].astype(str) != "none").to_numpy(float)
    left = (frame["income"] - frame["rent"]).to_numpy(float) / 1_000
    school = frame["school"].astype(str).map({"low": 0.0, "mid": 0.4, "high": 0.8}).to_numpy(float)
    return left + 0.5 * job + school + frame["owner"].to_numpy(float)


def explain_first(model: Any, data: Any, target: Any, *, rules: Any = None, **options: Any) -> Any:
    """Explain the first row that does not reach the target."""
    posterior = options.pop("posterior", True)
    row = data.iloc[options.pop("row", 0)] if isinstance(data, pd.DataFrame) else data[options.pop("row", 0)]
    options.setdefault("sampler", gbce.SMC(**SMALL) if posterior else None)
    return gbce.Explainer(model, data, **options).explain(row, target, rules=rules, seed=5, posterior=posterior)


def first_class(model: Any, data: Any, label: Any) -> int:
    """Return the first row that the model gives another class."""
    return int(np.flatnonzero(np.asarray(model.predict(data)).ravel() != label)[0])


PROVED = (gbce.Nearest(prove=True), gbce.MAP(), gbce.Nearest("changes"))


def small_numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three numbers, what they are worth, and two classes."""
    data = numbers()
    y = bend(data)
    return data, y, (y > 0.5).astype(int)


@question()
def trees_of_sklearn() -> Any:
    data, y, label = small_numbers()
    regressors = {
        "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=12, random_state=0),
        "histogram": HistGradientBoostingRegressor(max_iter=12, random_state=0),
        "bagging": BaggingRegressor(n_estimators=4, random_state=0),
        "adaboost": AdaBoostRegressor(n_estimators=4, random_state=0),
        "voting": VotingRegressor([("a", DecisionTreeRegressor(max_depth=3, random_state=0)), ("b", Ridge())]),
    }
    classifiers = {
        "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "extra": ExtraTreesClassifier(6, max_depth=4, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=8, random_state=0),
        "bagging": BaggingClassifier(n_estimators=4, random_state=0),
        "adaboost": AdaBoostClassifier(n_estimators=4, random_state=0),
        "voting": VotingClassifier(
            [("a", DecisionTreeClassifier(max_depth=3, random_state=0)), ("b", LogisticRegression())], voting="soft"
        ),
        "calibrated": CalibratedClassifierCV(RandomForestClassifier(4, max_depth=3, random_state=0), cv=2),
    }
    found = {}
    for name, model in regressors.items():
        found[f"{name}, value"] = explain_first(model.fit(data, y), data, gbce.AtLeast(2.5), rules=PROVED)
    for name, model in classifiers.items():
        model.fit(data, label)
        found[f"{name}, class"] = explain_first(
            model, data, gbce.Class(1), rules=PROVED, posterior=False, row=first_class(model, data, 1)
        )
    isolation = IsolationForest(n_estimators=20, random_state=0).fit(data)
    found["isolation"] = explain_first(isolation, data, gbce.AtLeast(-0.42), posterior=False, row=0)
    three = RandomForestClassifier(8, max_depth=4, random_state=0).fit(data, np.digitize(y, [0.0, 1.0]))
    found["three classes"] = explain_first(three, data, gbce.Class(2), row=first_class(three, data, 2))
    return found


def _boosters_on_numbers(regressor: Any, classifier: Any) -> Any:
    data, y, label = small_numbers()
    classifier.fit(data, label)
    row = first_class(classifier, data, 1)
    return {
        "value": explain_first(regressor.fit(data, y), data, gbce.AtLeast(2.5), rules=PROVED),
        "class": explain_first(classifier, data, gbce.Class(1), rules=PROVED, row=row),
    }


@question("lightgbm")
def trees_of_lightgbm() -> Any:
    import lightgbm

    small = {"n_estimators": 8, "verbose": -1, "n_jobs": 1}
    found = _boosters_on_numbers(lightgbm.LGBMRegressor(**small), lightgbm.LGBMClassifier(**small))
    table = people().drop(columns=["since", "left"])
    model = lightgbm.LGBMRegressor(**small, min_child_samples=5).fit(table, worth(people()))
    found["frame"] = explain_first(model, table, gbce.AtLeast(4.0))
    data, y, _ = small_numbers()
    booster = lightgbm.train({"verbose": -1, "num_threads": 1, "boosting": "dart"}, lightgbm.Dataset(data, y), 6)
    return found | {"booster": explain_first(booster, data, gbce.AtLeast(1.0), posterior=False)}


@question("xgboost")
def trees_of_xgboost() -> Any:
    import xgboost

    small = {"n_estimators": 8, "n_jobs": 1, "max_depth": 4}
    found = _boosters_on_numbers(xgboost.XGBRegressor(**small), xgboost.XGBClassifier(**small))
    table = people().drop(columns=["since", "left"])
    model = xgboost.XGBRegressor(**small, enable_categorical=True).fit(table, worth(people()))
    found["frame"] = explain_first(model, table, gbce.AtLeast(4.0))
    data, y, _ = small_numbers()
    booster = xgboost.train({"nthread": 1, "booster": "dart"}, xgboost.DMatrix(data, y), 6)
    return found | {"booster": explain_first(booster, data, gbce.AtLeast(1.0), posterior=False)}


@question("catboost")
def trees_of_catboost() -> Any:
    import catboost

    small = {"iterations": 8, "depth": 4, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    found = _boosters_on_numbers(catboost.CatBoostRegressor(**small), catboost.CatBoostClassifier(**small))
    uneven = catboost.CatBoostRegressor(**small, grow_policy="Lossguide")
    table = people().drop(columns=["since", "left"])
    table[["job", "school"]] = table[["job", "school"]].astype(str)
    uneven.fit(table, worth(people()), cat_features=["job", "school"])
    return found | {"frame": explain_first(uneven, table, gbce.AtLeast(4.0))}


@question()
def shares_of_one_model_behind_pipelines() -> Any:
    frame = people()
    encoded = make_column_transformer(
        (OrdinalEncoder(), ["job", "school"]),
        (SimpleImputer(add_indicator=True), ["cards"]),
        (StandardScaler(), ["age", "income", "rent"]),
        ("drop", ["since", "left"]),
        remainder="passthrough",
    )
    label = np.where(worth(frame) > 3.2, "yes", "no")
    found = {}
    for name, core in {
        "forest": RandomForestClassifier(10, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=10, random_state=0),
        "neural": LogisticRegression(),
    }.items():
        model = make_pipeline(encoded, core).fit(frame, label)
        found[name] = explain_first(model, frame, "yes", row=first_class(model, frame, "yes"))
    return found


@question()
def proofs() -> Any:
    data, y, _label = small_numbers()
    forest = RandomForestRegressor(15, random_state=0).fit(data, y)
    hist = HistGradientBoostingRegressor(max_iter=30, random_state=0).fit(data, y)
    high = float(forest.predict(data).max())
    frame = pd.DataFrame(np.random.default_rng(3).normal(size=(200, 8)), columns=list("abcdefgh"))
    frame["g"] = (frame["g"] * 2).round().astype(int)
    wide = RandomForestClassifier(10, random_state=0).fit(frame, frame.sum(axis=1) > 1)
    found = {
        "impossible": explain_first(forest, data, gbce.AtLeast(high + 5.0)),
        "impossible class": explain_first(wide, frame, gbce.Class(True, probability=0.9999), posterior=False, row=1),
        "linear": explain_first(
            LinearRegression().fit(data, y), pd.DataFrame(data, columns=["a", "b", "c"]), gbce.AtLeast(900.0)
        ),
        "range": explain_first(hist, data, gbce.Range(1.0, 1.1), rules=PROVED),
        "wide": explain_first(wide, frame, gbce.Class(True), rules=PROVED, row=first_class(wide, frame, True)),
    }
    proofs = {one.label: str(one.proof) for one in found["wide"].decisions}
    return found | {"proofs": proofs, "none": str(found["impossible"].proof)}


@question()
def safe_boxes() -> Any:
    frame, paid = credit()
    table = frame[["income", "debt", "years"]]
    forest = RandomForestClassifier(12, max_depth=5, random_state=0).fit(table, paid)
    row = first_class(forest, table, True)
    plain = gbce.Explainer(forest, table, sampler=gbce.SMC(**SMALL))
    ruled = gbce.Explainer(
        forest, table, space=gbce.Space.infer(table, constraints=["debt <= 0.9 * income"]), sampler=gbce.SMC(**SMALL)
    )
    found = {}
    fits = table[(table["debt"] <= 0.9 * table["income"]) & ~forest.predict(table)].iloc[0]
    for name, explainer, one in (("plain", plain, table.iloc[row]), ("ruled", ruled, fits)):
        explained = explainer.explain(one, gbce.Class(True), rules=["Nearest", "Medoid"], seed=2)
        for label in ("Nearest", "Medoid"):
            box = explainer.safe_box(explained, label)
            found[f"{name} {label}"] = "none" if box is None else [box.sentence, box.table, json.dumps(box.to_dict())]
            if box is not None:
                found[f"{name} {label}"] += [str(box.contains(explained.x0[None, :]))]
        found[name] = explained
        answer = explained.answer
        found[f"{name} answer"] = [
            answer.sentence,
            repr(answer),
            str(answer),
            json.dumps(answer.to_dict(), default=str),
        ]
    return found


@question()
def exact_sums() -> Any:
    data, y, _label = small_numbers()
    found = {}
    exact = gbce.ExactTrees(n_draws=400)
    forest = RandomForestRegressor(5, max_depth=4, random_state=0).fit(data, y)
    for name, prior in {
        "gaussian": gbce.Gaussian(0.7), "laplace": gbce.Laplace(0.5), "sparse": gbce.Sparse(gbce.Gaussian(), 0.3),
    }.items():  # fmt: skip
        found[name] = ask(gbce.AtLeast(1.5), model=forest, prior=prior, sampler=exact)
    frame, paid = credit()
    table = frame[["income", "debt", "years", "owner"]]
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(table, paid)
    row = first_class(tree, table, True)
    found["table"] = explain_first(tree, table, gbce.Class(True), sampler=None, row=row)
    found["goal"] = explain_first(
        tree, table, gbce.Class(True), sampler=exact, row=row, eta=gbce.SuccessProbability(0.8)
    )
    other = DecisionTreeRegressor(max_depth=3, random_state=1).fit(data, tilted(data))
    found["two"] = ask(gbce.AtLeast(1.0), model=[forest, other], sampler=exact)
    found["path"] = found["sparse"].path()
    found["at"] = found["sparse"].at(2.0)
    found["tree, by default"] = ask(gbce.AtLeast(1.5), model=other, sampler=None)
    return found


# --- priors, samplers, eta --------------------------------------------------------------------------------------


@question()
def chained_and_bounded_priors() -> Any:
    frame = people()[["age", "income", "rent", "owner", "cards", "left"]]

    def rich(table: Any) -> np.ndarray:
        return table["income"].to_numpy(float) / 1_000 - table["rent"].to_numpy(float) / 500

    limits = {
        "constraints": ["rent <= 0.6 * income", "age + cards <= 90"],
        "computed": {"left": "income - rent"}, "bounds": {"income": (0, 9_000)}, "increase": ["age"],
        "missing": {"cards": "any"},
    }  # fmt: skip
    found = {}
    for name, prior in {
        "data": gbce.Gaussian(cov="data"), "laplace": gbce.Laplace(), "sparse": gbce.Sparse(moves=2),
        "near": gbce.NearData(gbce.Sparse(), strength=1.0),
        "uniform": gbce.Gaussian(categories="uniform"),
    }.items():  # fmt: skip
        space = gbce.Space.infer(frame, **limits)
        good = frame[frame["rent"] <= 0.6 * frame["income"]]
        found[name] = explain_first(rich, good, gbce.AtLeast(6.0), prior=prior, space=space, rules=["MAP", "Medoid"])
    bounded = gbce.Space.infer(
        frame[["income", "rent", "left"]], constraints=[lambda f: f["rent"] < 0.7 * f["income"]],
        bounds={"income": (0, 9_000)}, computed={"left": "income - rent"},
    )  # fmt: skip
    found["function"] = explain_first(
        rich, frame[["income", "rent", "left"]], gbce.AtLeast(5.0), space=bounded, prior=gbce.Gaussian()
    )
    plain = frame[["age", "income", "rent"]]
    gower = gbce.DistancePrior(gbce.Gower(20.0))
    found["gower"] = explain_first(rich, plain, gbce.AtLeast(6.0), prior=gower, rules=["MAP"])
    found["space"] = [str(space), "\n".join(space.notes), str(space.check(frame))]
    return found


@question()
def constraints_of_every_kind() -> Any:
    frame = people().drop(columns=["left"])
    space = gbce.Space.infer(
        frame,
        immutable=["age"],
        increase=["school"],
        bounds={"income": (0, 20_000), "rent": (0, None), "since": ("2018-01-01", "2026-12-31")},
        kinds={"cards": "integer"},
        missing={"cards": "leave"},
        scale={"rent": 300.0},
        constraints=[
            "rent <= 0.6 * income",
            "if job == 'none' then income <= 2500",
            "if owner and school == 'high' then rent <= 900 or income >= 1000",
            "not (job == 'smith' and school == 'low') or income > 500",
            "min(income, 4000) >= 0.5 * rent",
        ],
    )
    good = frame.drop(index=space.check(frame).index.unique())
    given = gbce.Explainer(worth, good, space=space, sampler=gbce.SMC(**SMALL))
    one = given.explain(good.iloc[1], gbce.Change(1.0), seed=1)
    again = given.given(one, keep=["owner"], at_most={"income": 6_000.0}, effort={"rent": 3.0}, seed=1)
    found = {"one": one, "given": again, "dict": json.dumps(one.to_dict(draws=True), default=str)}
    with tempfile.TemporaryDirectory() as folder:
        found["loaded"] = gbce.load(again.save(Path(folder) / "one.gbce"))
    found["conditions"] = str(again.conditions)
    found["drawn"] = one.given(at_least={"income": 500.0}, exactly={"owner": bool(good.iloc[1]["owner"])}).distribution
    return found


@question()
def columns_of_one_hot_and_odd_dtypes() -> Any:
    rng = np.random.default_rng(4)
    n = 200
    colour = rng.integers(3, size=n)
    frame = pd.DataFrame(
        {
            "colour_r": (colour == 0).astype(int), "colour_g": (colour == 1).astype(int),
            "colour_b": (colour == 2).astype(int),
            "weight": pd.array(np.where(rng.random(n) < 0.1, None, rng.integers(1, 50, n)), dtype="Int64"),
            "wait": rng.integers(1, 90, n) * 0.5,
            "seen": pd.date_range("2024-01-01", periods=n, freq="7h", tz="Europe/Vienna"),
            "heavy": np.where(rng.random(n) < 0.03, 1e4, rng.random(n)),
            "flag": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "name": rng.choice(["x", "y", None], n),
            "sparse": pd.arrays.SparseArray(np.where(rng.random(n) < 0.7, 0.0, rng.random(n))),
        }
    )  # fmt: skip

    def heavy(table: Any) -> np.ndarray:
        hours = table["wait"].to_numpy(float)
        return table["colour_r"].to_numpy(float) + 0.02 * hours + np.arctan(table["heavy"].to_numpy(float))

    space = gbce.Space.infer(frame, one_hot={"colour": "colour_"})
    found = explain_first(heavy, frame, gbce.AtLeast(2.6), space=space)
    with tempfile.TemporaryDirectory() as folder:
        loaded = gbce.load(found.save(Path(folder) / "odd.gbce"))
        other = gbce.load(_forest_answer().save(Path(folder) / "forest.gbce"))
    return {
        "found": found,
        "loaded": loaded,
        "forest": other,
        "space": str(space),
        "rows": json.dumps(found.to_dict(), default=str),
    }


@question("polars", "pyarrow")
def frames_of_other_libraries() -> Any:
    import polars

    frame = people().drop(columns=["left"])
    found = {}
    for name, table in {"polars": polars.from_pandas(frame), "arrow": polars.from_pandas(frame).to_arrow()}.items():
        explainer = gbce.Explainer(worth, table, sampler=gbce.SMC(**SMALL))
        one = table.slice(0, 1)
        found[name] = explainer.explain(one, gbce.Change(0.8), rules=["Nearest", "MAP"], seed=0)
    with tempfile.TemporaryDirectory() as folder:
        found["loaded"] = gbce.load(found["polars"].save(Path(folder) / "one.gbce"))
    return found


@question()
def many_columns() -> Any:
    rng = np.random.default_rng(7)
    data = rng.normal(size=(200, 60))
    linear = LinearRegression().fit(data, data @ rng.normal(size=60))
    frame = pd.DataFrame(data, columns=[f"c{i}" for i in range(60)])
    return {
        "frame": explain_first(LinearRegression().fit(frame, linear.predict(data)), frame, gbce.AtLeast(14.0)),
        "array": explain_first(linear, data, gbce.AtLeast(10.0), rules=["MAP"]),
    }


@question()
def samplers_further() -> Any:
    found = {
        "elliptical": ask(gbce.AtLeast(1.5), rules=CHEAP, sampler=gbce.Chains(8, 60, kernel="elliptical", n_draws=300)),
        "nested goal": ask(gbce.AtLeast(1.5), rules=CHEAP, sampler=gbce.Nested(), eta=gbce.SuccessProbability(0.7)),
        "importance hard": ask(
            gbce.Value(4.0, scale=0.05), rules=CHEAP, sampler=gbce.Importance(n_candidates=2_000, n_draws=300)
        ),
        "only": ask(gbce.AtLeast(1.5), sampler=gbce.SearchOnly()),
        "goal far": ask(gbce.AtLeast(3.5), rules=CHEAP, eta=gbce.SuccessProbability(0.95)),
        "steep": ask(gbce.AtLeast(2.0), rules=CHEAP, eta=300.0, prior=gbce.Sparse(gbce.Laplace(), 0.2)),
    }
    calls = 0

    def dear(x: Any) -> np.ndarray:
        nonlocal calls
        calls += 1
        return bend(x)

    found["batches"] = ask(gbce.AtLeast(1.5), model=dear, batch_rows=64, rules=["MAP", "ChanceConstrained"])
    five = np.random.default_rng(0).normal(size=(300, 5))

    def ridge(x: Any) -> np.ndarray:
        x = np.asarray(x, float)
        return -np.abs(x[:, 0] - x[:, 1] ** 2) + 0.3 * x[:, 2:].sum(axis=1)

    found["ridge"] = gbce.Explainer(ridge, five, sampler=gbce.SMC(**SMALL)).explain(
        five[0], gbce.AtLeast(2.5, scale=0.1), rules=CHEAP, seed=1
    )
    return found | {"calls": str(calls), "paper": ask(gbce.AtLeast(1.5), rules=gbce.paper_rules(3))}


# --- answers, alternatives, several rows ------------------------------------------------------------------------


@question()
def answers_with_refits() -> Any:
    data, y, _label = small_numbers()
    rng = np.random.default_rng(8)
    index = rng.integers(len(data), size=(24, len(data)))
    refits = [LinearRegression().fit(data[i], y[i]) for i in index]
    linear = LinearRegression().fit(data, y)
    found = {}
    for name, some in {"many": refits, "few": refits[:5]}.items():
        explainer = gbce.Explainer(linear, data, refits=some, sampler=gbce.SMC(**SMALL))
        found[name] = explainer.explain(data[0], gbce.AtLeast(1.5), seed=0)
        found[f"{name} answer"] = found[name].answer.sentence
        found[f"{name} without"] = explainer.explain(data[0], gbce.AtLeast(1.5), seed=0, posterior=False)
    forest = RandomForestRegressor(10, random_state=0).fit(data, y)
    found["noise"] = ask(
        gbce.AtLeast(1.5), model=forest, policy=gbce.Reliable(0.95, noise=0.3), evaluation=gbce.Evaluation(noise=0.3)
    )
    found["unsafe"] = ask(gbce.Range(1.5, 1.52), rules=["Nearest"])
    found["chance"] = ask(
        gbce.AtLeast(2.0), rules=[gbce.ChanceConstrained(0.99, noise=0.8), gbce.CVaR(race=False, refine=False)]
    )
    return found


@question()
def alternatives_and_words() -> Any:
    model, frame = lender()
    explainer = gbce.Explainer(model, frame, sampler=gbce.SMC(**SMALL), eta=6.0)
    one = explainer.explain(refused(model, frame), gbce.Class(True), seed=4)
    two = ask(gbce.Value(1.0, scale=0.2), eta=4.0)
    found: dict[str, Any] = {"one": one, "two": two}
    for name, explained in (("one", one), ("two", two)):
        ways = explained.alternatives(4)
        found[f"{name} ways"] = [str(ways), repr(ways), ways.table, *ways.sentences, ways._repr_html_()]
        found[f"{name} words"] = [repr(explained), str(explained.answer), explained.answer.reason]
        found[f"{name} path"] = explained.sparsity_path
    found["given"] = one.given(keep=["owner"], at_most={"debt": 30.0}, effort={"income": 2.0}).distribution
    found["given answer"] = one.given(at_least={"income": 20.0}).answer.sentence
    found["json"] = one.to_json()
    return found


def _grants(model: Any = None) -> Any:
    model, frame = lender()
    denied = frame[~model.predict(frame)].iloc[:6]
    return gbce.Explainer(model, frame, sampler=gbce.SMC(**SMALL)), denied


@question()
def tables_of_rows() -> Any:
    explainer, rows = _grants()
    table = explainer.explain_many(rows, gbce.Class(True), rules=["Nearest", "MAP", "Mean"], seed=1, progress=False)
    groups = ["a", "b", "a", "b", "a", "b"]
    names = ("answers", "counterfactuals", "distribution", "importance")
    found = {name: getattr(table, name) for name in names}
    found["words"] = [repr(table), table.summary(), str(len(table)), table.to_json()]
    found["changes"] = table.changes()
    found["costs"] = gbce.group_costs(table, groups, rule="posterior", n_bootstrap=100, seed=0)
    found["answer costs"] = gbce.group_costs(table, groups, n_bootstrap=100, seed=0)
    found["moves"] = gbce.group_changes(table, groups, n_bootstrap=100, seed=0)
    found["page"] = table.to_html(groups="job")
    found["pictures"] = [table.plot.changes(), table.plot.costs()]
    found["html"] = table._repr_html_()
    return found


@question()
def stores_and_processes() -> Any:
    explainer, rows = _grants()
    options = {"rules": ["MAP"], "seed": 1, "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        first = explainer.explain_many(rows, gbce.Class(True), store=Path(folder) / "a", **options).read()
        again = explainer.explain_many(rows, gbce.Class(True), store=Path(folder) / "a", **options).read()
        two = explainer.explain_many(rows, gbce.Class(True), n_jobs=2, **options)
        quick = explainer.explain_many(rows, gbce.Class(True), posterior=False, **options)
        short = explainer.explain_many(rows, gbce.Class(True), total_model_rows=9_000, **options)
    copied = pickle.loads(pickle.dumps(explainer)).explain(rows.iloc[0], gbce.Class(True), seed=2)
    found = {"first": first, "again": again, "two": two, "quick": quick, "short": short}
    return {name: table.answers for name, table in found.items()} | {"copy": copied}


# --- pages and pictures -----------------------------------------------------------------------------------------


@question()
def pages() -> Any:
    model, frame = lender()
    explainer = gbce.Explainer(model, frame, sampler=gbce.SMC(**SMALL))
    one = explainer.explain(refused(model, frame), gbce.Class(True), seed=4)
    front = explainer.frontier(one, n_perturb=16, n_confirm=64, max_candidates=60)
    several = ask(gbce.AtLeast(1.0), model=[bend, tilted])
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(one.to_html(Path(folder) / "page.html")).read_text()
    return {
        "explorer": one.to_html(frontier=front), "kept": kept, "several": several.to_html(),
        "notebook": one._repr_html_(), "people": _person().to_html(),
    }  # fmt: skip


def _person() -> Any:
    frame = people()
    return explain_first(worth, frame, gbce.Change(0.8), rules=["Nearest", "MAP", "Mean"])


@question("anywidget")
def widgets() -> Any:
    frame = people().drop(columns=["left"])
    explainer = gbce.Explainer(worth, frame, sampler=gbce.Importance(n_candidates=1_500, n_draws=300))
    widget = explainer.widget(explainer.explain(frame.iloc[0], gbce.Change(0.8), rules=["MAP"], seed=0))
    messages = [
        {"id": "1", "ask": "value", "values": {"income": 9_000}},
        {"id": "2", "ask": "given", "keep": ["income"], "between": {"rent": [None, 900.0]}},
        {"id": "3", "ask": "explain", "values": {"income": 4_000, "job": 1, "since": "2021-03-04"}},
        {"id": "4", "ask": "dance"},
        {"id": "5", "ask": "reset"},
    ]
    replies = [json.dumps(widget.asker.answer(message), default=str) for message in messages]
    return {"replies": replies, "page": str(widget.sentence)}


@question()
def pictures() -> Any:
    plt.switch_backend("Agg")
    person = _person()
    several = ask(gbce.AtLeast(1.0), model=[bend, tilted], rules=["MAP", "Mean", "Nearest"])
    data = numbers()[:, :2]

    def flat(x: Any) -> np.ndarray:
        return bend(np.column_stack([x, np.zeros(len(x))]))

    explainer = gbce.Explainer(flat, data, sampler=gbce.SMC(**SMALL))
    two = explainer.explain(data[0], gbce.AtLeast(1.0), seed=0)
    front = explainer.frontier(two, noise=0.2, n_perturb=16, n_confirm=64, max_candidates=60)
    return {
        "person": [
            person.plot.before_after(), person.plot.changes(), person.plot.decisions(), person.plot.alternatives(3),
            person.plot.posterior(["income", "job"]), person.plot.pairs(["income", "school", "cards"]),
            person.plot.importance(), person.plot.shares("job"), person.plot.path(),
        ],
        "several": [several.plot.disagreement(), several.plot.frontier(), several.plot.importance()],
        "two": [two.plot.posterior(explainer=explainer), two.plot.frontier(front), two.plot.pairs()],
        "reach": [_forest_answer().plot.before_after()],
    }  # fmt: skip


def _forest_answer() -> Any:
    frame, paid = credit()
    table = frame[["income", "debt", "years"]]
    forest = RandomForestClassifier(12, max_depth=5, random_state=0).fit(table, paid)
    return explain_first(forest, table, gbce.Class(True), row=first_class(forest, table, True))


# --- posteriors over models -------------------------------------------------------------------------------------


@question()
def posteriors_over_models() -> Any:
    data, y, label = small_numbers()
    frame = pd.DataFrame(data, columns=["a", "b", "c"])
    net = MLPRegressor(hidden_layer_sizes=(4,), max_iter=200, random_state=0)
    others = [DecisionTreeRegressor(max_depth=k, random_state=0) for k in (3, 4, 5)]
    ways = {
        "bootstrap": (LinearRegression(), y, gbce.BayesianBootstrap()),
        "coefficients": (LinearRegression(), y, gbce.CoefficientPosterior()),
        "logistic": (LogisticRegression(), label, gbce.CoefficientPosterior()),
        "safe": (Ridge(), y, gbce.CoefficientPosterior(eta="safe")),
        "safe logistic": (LogisticRegression(), label, gbce.CoefficientPosterior(eta="safe")),
        "pac": (Ridge(), y, gbce.CoefficientPosterior(eta=gbce.PACBayes())),
        "pac logistic": (LogisticRegression(), label, gbce.LaplaceApproximation(eta=gbce.PACBayes())),
        "laplace": (make_pipeline(StandardScaler(), LogisticRegression()), label, gbce.LaplaceApproximation()),
        "network": (net, y, gbce.CoefficientPosterior(n_chains=2, n_steps=30)),
        "network laplace": (net, y, gbce.LaplaceApproximation()),
        "rashomon": (DecisionTreeRegressor(random_state=0), y, gbce.Rashomon(0.5, candidates=others, cv=3)),
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, (learner, wanted, method) in ways.items():
        models = gbce.model_posterior(learner, frame, wanted, method, n_models=4, seed=0)
        found[name] = [np.asarray(models.weights), repr(models), json.dumps(models.facts, default=str)]
        found[name] += [np.asarray([model.predict(frame[:20]) for model in models])]
    risk = gbce.cross_val_risk([LinearRegression(), Ridge()], data, y, cv=3, seed=0)
    found["risk"] = [np.asarray(risk), np.asarray(gbce.weights_from_risk(risk, 2.0))]
    found["noise"] = [np.asarray(gbce.noise_scale(LinearRegression(), data, y))]
    return found


# --- models behind other doors ----------------------------------------------------------------------------------


@question("httpx")
def models_behind_http() -> Any:
    frame, _paid = credit()
    table = frame[["income", "debt", "years", "job"]]

    def answer(body: dict) -> object:
        return {"predictions": [0.05 * row[0] - 0.12 * row[1] + 0.04 * row[2] for row in body["rows"]]}

    sampler = gbce.Importance(n_candidates=600, n_draws=200)
    with serving() as endpoint:
        endpoint.model = answer
        remote = gbce.Remote(endpoint.url, backoff=0.001)
        explainer = gbce.Explainer(remote, table, sampler=sampler)
        found = explainer.explain(table.iloc[0], gbce.Change(1.0), rules=["MAP"], seed=0)
        usage = remote.usage
    return {"found": found, "usage": str(getattr(usage, "rows", usage))}


@question("onnxruntime", "skl2onnx")
def models_of_onnx() -> Any:
    import onnxruntime
    from skl2onnx import to_onnx

    data, y, label = small_numbers()
    small = data.astype(np.float32)
    found = {}
    for name, model, target in (
        ("value", RandomForestRegressor(5, random_state=0).fit(small, y), gbce.AtLeast(1.5)),
        ("class", LogisticRegression().fit(small, label), gbce.Class(1)),
    ):
        content = to_onnx(model, small[:1]).SerializeToString()
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        row = 0 if name == "value" else first_class(model, small, 1)
        found[name] = explain_first(session, data, target, rules=["MAP"], row=row)
    return found


@question("torch")
def models_of_torch() -> Any:
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return ask(gbce.AtLeast(0.5), model=net, rules=["MAP"])


@question()
def classes_named_by_hand() -> Any:
    def scores(x: Any) -> np.ndarray:
        x = np.asarray(x, float)
        return np.column_stack([x[:, 0], x[:, 1] - 1.0, -x[:, 2]])

    def chance(x: Any) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-tilted(x)))

    return {
        "scores": ask(gbce.Class("b"), model=gbce.classifier(scores, ["a", "b", "c"], logits=True), rules=CHEAP),
        "between": ask(
            gbce.Class("yes", probability=(0.6, 0.7)), model=gbce.classifier(chance, ["no", "yes"]), rules=CHEAP
        ),
    }


@question()
def other_models_and_rows() -> Any:
    data, _y, _ = small_numbers()
    explainer = gbce.Explainer(bend, data, sampler=gbce.SMC(**SMALL))
    one = explainer.explain(data[0], gbce.AtLeast(1.5), rules=CHEAP, seed=3, progress=True)
    return {
        "survival": gbce.metrics.survival(one, [bend, tilted]),
        "sentence": str(explainer.sensitivity(data[0], gbce.AtLeast(1.5), n_rows=2, n_null=1, seed=0)),
        "disagreement": str(ask(gbce.AtLeast(1.0), model=[bend, tilted]).disagreement()),
        "frame": one.draws.frame("weight", "output", "loss", "reached"),
        "time": explainer.explain(data[0], gbce.AtLeast(1.5), rules=CHEAP, seed=3, time_budget=600.0),
    }
