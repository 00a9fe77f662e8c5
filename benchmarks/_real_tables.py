"""Six real tables with a model, a wish and the rules that answers have to keep.

The rules stand here twice: as a :class:`gbce.Space`, and as plain pandas in ``broken``, which knows nothing of gbce.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gbce
from benchmarks._wheels import adult, bikes, california, german_credit

__all__ = ["TABLES", "Case"]

Broken = Callable[[pd.DataFrame, pd.Series], dict[str, Any]]

EDUCATION = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
EMPLOYMENT = ("unemployed", "<1", "1<=X<4", "4<=X<7", ">=7")
MARRIED = ("Married-civ-spouse", "Married-AF-spouse")


@dataclass(frozen=True)
class Case:
    """One table, ready to be explained.

    Parameters
    ----------
    X, y : DataFrame, Series
        The table without its outcome, and the outcome.
    model : estimator
        Fitted on the frame as it is.
    space : Space
        The rules, for gbce.
    immutable : tuple of str
        Columns that may not change.
    broken : callable
        Frame of answers and the row to one boolean column per rule, by its name: the rules in plain pandas.
    wish : label or float
        The class that is wanted, or the relative change of the output.
    ranges : mapping
        Bounds of numbers, for peers that take them.
    derived : callable
        Computes columns that follow from others again, for peers that cannot.
    """

    X: pd.DataFrame
    y: pd.Series
    model: Any
    space: gbce.Space
    immutable: tuple[str, ...]
    broken: Broken
    wish: Any
    ranges: Mapping[str, tuple[float, float]]
    derived: Callable[[pd.DataFrame], pd.DataFrame] = pd.DataFrame.copy

    @property
    def classification(self) -> bool:
        """Whether the wish is a class."""
        return not isinstance(self.wish, float)

    @property
    def target(self) -> Any:
        """The wish as gbce takes it."""
        return gbce.Class(self.wish) if self.classification else gbce.Change(self.wish, relative=True)

    def rows(self, n: int) -> pd.DataFrame:
        """Return ``n`` rows picked at random that have not reached the wish and keep the rules themselves."""
        rows = self.X[self.model.predict(self.X) != self.wish] if self.classification else self.X
        rows = rows.sample(min(len(rows), n + 50), random_state=0)
        misfits = set(self.space.check(rows)["row"])
        return rows[[label not in misfits for label in rows.index]].iloc[:n]

    def threshold(self, row: pd.DataFrame) -> float:
        """Return the output that is wanted for a one-row frame (regression)."""
        now = float(self.model.predict(row)[0])
        return now + self.wish * abs(now)

    def valid(self, answers: pd.DataFrame, row: pd.DataFrame) -> Any:
        """Whether the model's own ``predict`` grants the wish for each answer."""
        said = np.asarray(self.model.predict(answers))
        if self.classification:
            return said == self.wish
        return said >= self.threshold(row) if self.wish > 0 else said <= self.threshold(row)

    def moved_immutables(self, answers: pd.DataFrame, row: pd.Series) -> Any:
        """Whether each answer changes a column that it may not change."""
        return ~np.column_stack([_equal(answers[name], row[name]) for name in self.immutable]).all(axis=1)


def _equal(column: pd.Series, value: Any) -> Any:
    return (column.isna() if pd.isna(value) else (column == value).fillna(False)).to_numpy(dtype=bool)


def _outside(frame: pd.DataFrame, ranges: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    return {
        f"{name} in range": ((frame[name] < low) | (frame[name] > high)).to_numpy()
        for name, (low, high) in ranges.items()
    }


def _spelled_out() -> Any:
    """Return the step that spells text columns out and passes numbers on."""
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
        remainder="passthrough",
    )


def german() -> Case:
    frame = german_credit()
    X, y = frame.drop(columns="class"), frame["class"]
    X["instalment"] = X["credit_amount"] / X["duration"]
    model = make_pipeline(_spelled_out(), RandomForestClassifier(100, min_samples_leaf=3, random_state=0)).fit(X, y)
    immutable = (
        "credit_history", "purpose", "personal_status", "residence_since", "age", "existing_credits", "num_dependents",
        "foreign_worker",
    )  # fmt: skip
    ranges = {"duration": (4, 72), "credit_amount": (250, 20_000), "installment_commitment": (1, 4)}
    space = gbce.Space.infer(
        X,
        immutable=immutable,
        increase=["employment"],
        decrease=["credit_amount"],
        bounds=ranges,
        kinds={"employment": "ordinal"},
        levels={"employment": EMPLOYMENT},
        computed={"instalment": "credit_amount / duration"},
        constraints=[
            "credit_amount <= 600 * duration",
            "credit_amount >= 20 * duration",
            "if housing == 'for free' then property_magnitude == 'no known property'",
            "if employment != 'unemployed' then job != 'unemp/unskilled non res'",
        ],
    )

    def broken(answers: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        level = answers["employment"].map(EMPLOYMENT.index)
        free = answers["housing"] == "for free"
        idle = answers["job"] == "unemp/unskilled non res"
        return _outside(answers, ranges) | {
            "employment only rises": level < EMPLOYMENT.index(row["employment"]),
            "amount only falls": answers["credit_amount"] > row["credit_amount"],
            "instalments not above 600": answers["credit_amount"] > 600 * answers["duration"],
            "instalments not below 20": answers["credit_amount"] < 20 * answers["duration"],
            "instalment follows": ~np.isclose(answers["instalment"], answers["credit_amount"] / answers["duration"]),
            "free housing, no property": free & (answers["property_magnitude"] != "no known property"),
            "employed, so not idle": (answers["employment"] != "unemployed") & idle,
        }

    def derived(answers: pd.DataFrame) -> pd.DataFrame:
        return answers.assign(instalment=answers["credit_amount"] / answers["duration"])

    return Case(X, y, model, space, immutable, broken, "good", ranges, derived)


def census() -> Case:
    frame = adult()
    X, y = frame.drop(columns=["class", "education-num"]), frame["class"]  # the number repeats the education
    boosted = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    model = make_pipeline(_spelled_out(), boosted).fit(X, y)
    immutable = ("fnlwgt", "relationship", "race", "sex", "capital-loss", "native-country")
    ranges = {"hours-per-week": (1, 99), "age": (17, 90), "capital-gain": (0, 99_999)}
    space = gbce.Space.infer(
        X,
        immutable=immutable,
        increase=["age", "education"],
        bounds=ranges,
        kinds={"education": "ordinal"},
        levels={"education": EDUCATION},
        constraints=[
            "if education in ('Bachelors', 'Masters', 'Prof-school', 'Doctorate') then age >= 19",
            "if relationship in ('Husband', 'Wife') then `marital-status` in "
            "('Married-civ-spouse', 'Married-AF-spouse')",
            "if workclass == 'Never-worked' then `capital-gain` <= 5000",
        ],
    )

    def broken(answers: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        spouse = answers["relationship"].isin(["Husband", "Wife"])
        return _outside(answers, ranges) | {
            "age only rises": answers["age"] < row["age"],
            "education only rises": answers["education"].map(EDUCATION.index) < EDUCATION.index(row["education"]),
            "degrees take years": answers["education"].isin(EDUCATION[12:]) & (answers["age"] < 19),
            "spouses are married": spouse & ~answers["marital-status"].isin(MARRIED),
            "no work, little gain": (answers["workclass"] == "Never-worked") & (answers["capital-gain"] > 5000),
            "missing stays missing": (answers[["workclass", "occupation"]].isna() != row[["workclass", "occupation"]]
                                      .isna()).any(axis=1),
        }  # fmt: skip

    return Case(X, y, model, space, immutable, broken, ">50K", ranges)


def housing() -> Case:
    frame = california()
    X, y = frame.drop(columns="MedHouseVal"), frame["MedHouseVal"]
    model = LGBMRegressor(n_estimators=100, num_leaves=31, random_state=0, verbose=-1, n_jobs=1).fit(X, y)
    immutable = ("HouseAge", "Latitude", "Longitude")
    ranges = {"MedInc": (0.4, 15.1), "AveRooms": (0.8, 20.0), "AveBedrms": (0.3, 5.0), "AveOccup": (0.6, 10.0)}
    ranges["Population"] = (3, 20_000)
    space = gbce.Space.infer(
        X,
        immutable=immutable,
        increase=["MedInc"],
        bounds=ranges,
        scale="mad",
        constraints=["AveBedrms <= 0.5 * AveRooms", "if AveRooms > 10 then AveOccup <= 4"],
    )

    def broken(answers: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        return _outside(answers, ranges) | {
            "income only rises": answers["MedInc"] < row["MedInc"],
            "bedrooms are rooms": answers["AveBedrms"] > 0.5 * answers["AveRooms"],
            "large and not crowded": (answers["AveRooms"] > 10) & (answers["AveOccup"] > 4),
        }

    return Case(X, y, model, space, immutable, broken, 0.15, ranges)


def rentals() -> Case:
    frame = bikes()
    frame[["season", "weather"]] = frame[["season", "weather"]].astype("category")
    X, y = frame.drop(columns="count"), frame["count"]
    model = LGBMRegressor(n_estimators=100, num_leaves=31, random_state=0, verbose=-1, n_jobs=1).fit(X, y)
    immutable = ("season", "year", "month", "hour", "holiday", "weekday", "workingday")
    ranges = {"temp": (0, 41), "feel_temp": (0, 50), "humidity": (0, 1), "windspeed": (0, 57)}
    space = gbce.Space.infer(
        X,
        immutable=immutable,
        bounds=ranges,
        constraints=[
            "feel_temp <= temp + 8",
            "feel_temp >= temp - 4",
            "if weather in ('rain', 'heavy_rain') then humidity >= 0.4",
        ],
    )

    def broken(answers: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        wet = answers["weather"].isin(["rain", "heavy_rain"])
        return _outside(answers, ranges) | {
            "felt not far above": answers["feel_temp"] > answers["temp"] + 8,
            "felt not far below": answers["feel_temp"] < answers["temp"] - 4,
            "rain is humid": wet & (answers["humidity"] < 0.4),
        }

    return Case(X, y, model, space, immutable, broken, 0.1, ranges)


def cancer() -> Case:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = y.map({0: "malignant", 1: "benign"})
    model = RandomForestClassifier(50, min_samples_leaf=3, random_state=0).fit(X, y)
    immutable = tuple(name for name in X.columns if name.endswith("error"))
    pairs = [(name, name.replace("mean", "worst")) for name in X.columns if name.startswith("mean")]
    ranges = {name: (float(X[name].min()), float(X[name].max())) for name in X.columns if name not in immutable}
    space = gbce.Space.infer(
        X, immutable=immutable, bounds="data", constraints=[f"`{mean}` <= `{worst}`" for mean, worst in pairs]
    )

    def broken(answers: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        return _outside(answers, ranges) | {f"{mean} not the worst": answers[mean] > answers[w] for mean, w in pairs}

    return Case(X, y, model, space, immutable, broken, "benign", ranges)


def diabetes() -> Case:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = RandomForestRegressor(50, min_samples_leaf=3, random_state=0).fit(X, y)
    immutable = ("age", "sex")
    ranges = {"bmi": (18, 45), "bp": (60, 140), "s6": (55, 130)}
    space = gbce.Space.infer(
        X,
        immutable=immutable,
        decrease=["bmi"],
        bounds=ranges,
        constraints=["s2 + s3 <= s1", "if bmi >= 35 then bp >= 70"],
    )

    def broken(answers: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        return _outside(answers, ranges) | {
            "bmi only falls": answers["bmi"] > row["bmi"],
            "cholesterol adds up": answers["s2"] + answers["s3"] > answers["s1"],
            "heavy and no low pressure": (answers["bmi"] >= 35) & (answers["bp"] < 70),
        }

    return Case(X, y, model, space, immutable, broken, -0.15, ranges)


TABLES: dict[str, Callable[[], Case]] = {
    "german credit": german,
    "adult": census,
    "california": housing,
    "bikes": rentals,
    "breast cancer": cancer,
    "diabetes": diabetes,
}
