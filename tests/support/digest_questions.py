"""Questions about small tables, one for each target, sampler, prior, rule and way to ask; see digest.py."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce

QUESTIONS: dict[str, Callable[[], Any]] = {}
SMALL = {"n_candidates": 3_000, "n_draws": 500}


def question(function: Callable[[], Any]) -> Callable[[], Any]:
    """Enter a function that returns an explanation, a table, or several of them by name."""
    QUESTIONS[function.__name__.replace("_", " ")] = function
    return function


# --- tables and models ------------------------------------------------------------------------------------------


def numbers() -> np.ndarray:
    """Three columns of numbers, ``(300, 3)``."""
    return np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 2.0, 0.5]


def bend(x: Any) -> np.ndarray:
    """Return a smooth function of three numbers that is not monotone."""
    x = np.asarray(x, dtype=float)
    return np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1] + x[:, 2] ** 2


def tilted(x: Any) -> np.ndarray:
    """Return another one that agrees with ``bend`` only in part."""
    x = np.asarray(x, dtype=float)
    return 0.8 * x[:, 0] + 0.4 * x[:, 1] - 0.3 * x[:, 2]


def credit() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of applicants with numbers, whole numbers, categories and missing values, and who was paid back."""
    rng = np.random.default_rng(1)
    n = 400
    frame = pd.DataFrame(
        {
            "income": np.round(np.exp(rng.normal(3.5, 0.5, n)), 1),
            "debt": np.round(rng.gamma(2.0, 5.0, n), 1),
            "years": rng.integers(0, 30, n),
            "job": rng.choice(["none", "part", "full"], n, p=[0.2, 0.3, 0.5]),
            "grade": pd.Categorical(
                rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"], ordered=True
            ),
            "owner": rng.random(n) < 0.4,
        }
    )
    score = 0.05 * frame["income"] - 0.12 * frame["debt"] + 0.04 * frame["years"] + (frame["job"] == "full")
    return frame, (score + 0.4 * frame["owner"] + rng.normal(0, 0.5, n) > 1.0).to_numpy()


def lender() -> tuple[Any, pd.DataFrame]:
    """A pipeline that decides about applicants, and their table."""
    frame, paid = credit()
    from sklearn.compose import make_column_transformer

    names = ["income", "debt", "years"]
    columns = make_column_transformer((StandardScaler(), names), (OneHotEncoder(), ["job", "grade", "owner"]))
    return make_pipeline(columns, LogisticRegression(max_iter=1_000)).fit(frame, paid), frame


def refused(model: Any, frame: pd.DataFrame) -> pd.Series:
    """Return the first applicant that the model turns down."""
    return frame.iloc[int(np.flatnonzero(~model.predict(frame))[0])]


def ask(target: Any, *, model: Any = bend, rules: Any = None, row: int = 0, seed: int = 3, **options: Any) -> Any:
    """Explain one row of the three numbers."""
    data = numbers()
    options.setdefault("sampler", gbce.SMC(**SMALL))
    return gbce.Explainer(model, data, **options).explain(data[row], target, rules=rules, seed=seed)


CHEAP = (gbce.MAP(), gbce.Mean())


# --- targets ----------------------------------------------------------------------------------------------------


@question
def target_value() -> Any:
    return ask(gbce.Value(1.5), rules=CHEAP)


@question
def target_value_absolute() -> Any:
    return ask(gbce.Value(1.5, scale=0.3, tolerance=0.1, loss="absolute"), rules=CHEAP)


@question
def target_range() -> Any:
    return ask(gbce.Range(1.2, 1.6), rules=CHEAP)


@question
def target_at_least_with_default_rules() -> Any:
    return ask(gbce.AtLeast(1.5))


@question
def target_at_most() -> Any:
    return ask(gbce.AtMost(-2.0), rules=CHEAP)


@question
def target_change() -> Any:
    return ask(gbce.Change(1.0), rules=CHEAP)


@question
def target_loss() -> Any:
    return ask(gbce.Loss(lambda outputs: np.abs(outputs - 1.0), threshold=0.2), rules=CHEAP)


@question
def target_multi() -> Any:
    def both(x: Any) -> np.ndarray:
        return np.column_stack([bend(x), tilted(x)])

    return ask(gbce.Multi([gbce.AtLeast(1.0), gbce.AtMost(0.5)]), model=both, rules=CHEAP)


@question
def target_class() -> Any:
    model, frame = lender()
    explainer = gbce.Explainer(model, frame, sampler=gbce.SMC(**SMALL))
    return explainer.explain(refused(model, frame), gbce.Class(True, probability=0.6), rules=CHEAP, seed=4)


@question
def already_reached_and_not_attained() -> Any:
    easy = ask(gbce.AtMost(50.0), rules=CHEAP)
    return {"easy": easy, "hard": ask(gbce.AtLeast(500.0), rules=[gbce.MAP(polish=False)])}


# --- samplers ---------------------------------------------------------------------------------------------------


@question
def sampler_default() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, sampler=None)


@question
def sampler_importance() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, sampler=gbce.Importance(n_candidates=5_000, n_draws=500))


@question
def sampler_smc_needle() -> Any:
    return ask(gbce.Value(6.0, scale=0.02, tolerance=0.05), rules=CHEAP)


@question
def sampler_chains() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, sampler=gbce.Chains(n_chains=20, n_steps=150, n_draws=500))


@question
def sampler_nested() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, sampler=gbce.Nested())


# --- priors -----------------------------------------------------------------------------------------------------


@question
def prior_gaussian_with_covariance() -> Any:
    cov = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
    return ask(gbce.AtLeast(1.5), rules=CHEAP, prior=gbce.Gaussian(cov=cov))


@question
def prior_laplace() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, prior=gbce.Laplace(b=0.7))


@question
def prior_sparse() -> Any:
    return ask(gbce.AtLeast(1.5), rules=[gbce.MAP(), gbce.MAP(changes=1)], prior=gbce.Sparse(gbce.Gaussian(), 0.3))


@question
def prior_near_data() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, prior=gbce.NearData(gbce.Gaussian(), strength=0.5))


@question
def prior_distance() -> Any:
    prior = gbce.DistancePrior(lambda x, row: np.abs(x - row).sum(axis=1) / 0.8)
    return ask(gbce.AtLeast(1.5), rules=CHEAP, prior=prior)


@question
def prior_gower() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, prior=gbce.DistancePrior(gbce.Gower()))


# --- rules ------------------------------------------------------------------------------------------------------


@question
def every_rule() -> Any:
    rules = [
        gbce.MAP(), gbce.MAP(method="kde"), gbce.MAP(method="knn", k=20), gbce.MAP(polish=False), gbce.Mean(),
        gbce.GeometricMedian(), gbce.Medoid(), gbce.CVaR(noise=0.2, n_perturb=16, max_candidates=100),
        gbce.ChanceConstrained(0.7, noise=0.2, max_candidates=100), gbce.DiverseSet(3), gbce.RandomDraw(2),
        gbce.DirectOpt(n_starts=4, max_iterations=200),
    ]  # fmt: skip
    return ask(gbce.AtLeast(1.5, tolerance=0.1, scale=0.3), rules=rules)


@question
def rules_with_trees() -> Any:
    data = numbers()
    forest = RandomForestRegressor(10, random_state=0).fit(data, bend(data))
    return ask(gbce.AtLeast(1.5), model=forest, rules=[gbce.MAP(), gbce.ChanceConstrained(0.8)])


# --- eta --------------------------------------------------------------------------------------------------------


@question
def eta_by_success() -> Any:
    return ask(gbce.AtLeast(1.5), rules=CHEAP, eta=gbce.SuccessProbability(0.8))


@question
def eta_by_loss() -> Any:
    return ask(gbce.Value(1.5), rules=CHEAP, eta=gbce.ExpectedLoss(0.5))


@question
def eta_by_model_error() -> Any:
    data = numbers()
    y = bend(data) + np.random.default_rng(5).normal(0, 0.3, len(data))
    return ask(gbce.Value(1.0), model=LinearRegression().fit(data, y), rules=CHEAP, eta=gbce.ModelError(y))


# --- several models ---------------------------------------------------------------------------------------------


@question
def several_models() -> Any:
    found = {}
    for combine in ("any", "all", "average", gbce.Entropic(0.5)):
        options = {"model": [bend, tilted], "weights": [0.7, 0.3], "combine": combine}
        found[str(combine)] = ask(gbce.AtLeast(1.0), rules=[*CHEAP, gbce.CVaR(across="models", n_perturb=8)], **options)
    return found | {"disagreement": found["any"].disagreement().overall}


@question
def many_models_jointly() -> Any:
    rng = np.random.default_rng(6)
    data = numbers()
    refits = [LinearRegression().fit(data[i], bend(data[i])) for i in rng.integers(300, size=(22, 300))]
    return ask(gbce.AtLeast(1.5), model=refits, rules=CHEAP)


@question
def posterior_over_models() -> Any:
    data = numbers()
    learner = LinearRegression()
    models = gbce.model_posterior(learner, data, bend(data), n_models=5, seed=0)
    return ask(gbce.AtLeast(1.0), model=models, rules=CHEAP)


# --- tables -----------------------------------------------------------------------------------------------------


@question
def mixed_table_with_constraints() -> Any:
    model, frame = lender()
    space = gbce.Space.infer(
        frame,
        immutable=["owner"],
        increase=["years"],
        constraints=["debt <= 0.9 * income", "if job == 'none' then years <= 12"],
    )
    meets = (frame["debt"] <= 0.9 * frame["income"]) & ((frame["job"] != "none") | (frame["years"] <= 12))
    row = frame[meets & ~model.predict(frame)].iloc[0]
    explainer = gbce.Explainer(model, frame, space=space, sampler=gbce.SMC(**SMALL))
    found = explainer.explain(row, gbce.Class(True), rules=[gbce.MAP(), gbce.Medoid()], seed=7)
    return {"found": found, "shares": found.shares("job"), "intervals": found.intervals(0.8)}


@question
def sparse_mixed_table() -> Any:
    model, frame = lender()
    explainer = gbce.Explainer(model, frame, prior=gbce.Sparse(gbce.Laplace()), sampler=gbce.SMC(**SMALL))
    return explainer.explain(refused(model, frame), gbce.Class(True), rules=CHEAP, seed=8)


@question
def forest_on_a_table_with_missing_values() -> Any:
    frame, paid = credit()
    table = frame[["income", "debt", "years"]].astype(float)
    table.iloc[::7, 1] = np.nan
    forest = RandomForestClassifier(10, random_state=0).fit(table, paid)
    row = table.iloc[int(np.flatnonzero(~forest.predict(table))[0])]
    return gbce.Explainer(forest, table, sampler=gbce.SMC(**SMALL)).explain(
        row, gbce.Class(True), rules=[gbce.MAP(), gbce.Mean(), gbce.ChanceConstrained()], seed=9
    )


# --- budgets, many rows, files, other questions -----------------------------------------------------------------


@question
def budget_of_rows() -> Any:
    data = numbers()
    explainer = gbce.Explainer(bend, data)
    short = explainer.explain(data[0], gbce.AtLeast(1.5), seed=3, max_model_rows=1_500)
    return {"short": short, "longer": explainer.explain(data[0], gbce.AtLeast(1.5), seed=3, max_model_rows=9_000)}


@question
def many_rows() -> Any:
    data = numbers()
    explainer = gbce.Explainer(bend, data, sampler=gbce.SMC(**SMALL))
    table = explainer.explain_many(data[:5], gbce.AtLeast(1.5), rules=CHEAP, seed=3, progress=False)
    names = ("counterfactuals", "pointwise", "distribution")
    tables = {name: getattr(table, name) for name in names}
    return tables | {
        "pointwise": table.pointwise.drop(columns="changed", errors="ignore"),
        "costs": table.diagnostics["n_model_rows"].to_frame(),
    }


@question
def file_and_back() -> Any:
    found = ask(gbce.AtLeast(1.5), rules=[*CHEAP, gbce.DiverseSet(2)])
    with tempfile.TemporaryDirectory() as folder:
        again = gbce.load(found.save(Path(folder) / "one.gbce"))
    return {"loaded": again, "medoid": again.decide(gbce.Medoid()), "at": again.at(0.5)}


@question
def path_and_summary() -> Any:
    found = ask(gbce.AtLeast(1.5), rules=[*CHEAP, gbce.CVaR(n_perturb=8, max_candidates=50)])
    return {"path": found.path(), "summary": pd.Series(found.summary().splitlines()), "front": found.frontier()}


@question
def decide_and_assess() -> Any:
    data = numbers()
    explainer = gbce.Explainer(bend, data, sampler=gbce.SMC(**SMALL))
    found = explainer.explain(data[0], gbce.AtLeast(1.5), rules=CHEAP, seed=3)
    decided = explainer.decide(found, gbce.ChanceConstrained(0.7, noise=0.2))
    return {"decided": decided, "assessed": explainer.assess(found, data[:4] + 0.5)}


@question
def survival_frontier_and_sensitivity() -> Any:
    data = numbers()
    explainer = gbce.Explainer(bend, data, sampler=gbce.SMC(**SMALL))
    found = explainer.explain(data[0], gbce.AtLeast(1.5), rules=CHEAP, seed=3)
    return {
        "survival": explainer.survival(found, [tilted, bend]),
        "noise": explainer.frontier(found, noise=0.2, n_perturb=16, n_confirm=64, max_candidates=100),
        "models": explainer.frontier(found, models=[bend, tilted], unseen=tilted, max_candidates=100),
        "sensitivity": explainer.sensitivity(data[0], gbce.AtLeast(1.5), n_rows=2, n_null=1, seed=0).table,
    }
