"""Files to begin with: a demo's applicants, model and settings, and a draft of settings for one's own table."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce.cli._input import write
from gbce.cli._parser import Messages
from gbce.files import whole_file
from gbce.space import Feature, Space, plain_value
from gbce.words import say_in_settings

_N = 800  # applicants: enough for a model that is not silly, few enough for a second
_PURPOSES = ("car", "education", "house", "other")
_SETTINGS = """# Settings of the demo; `gbce init` writes such a file for your own table.
target = "approved"
constraints = ["debt <= 3 * income"]

[data]
index = "applicant"

[columns.age]
mutable = false
protected = true

[columns.purpose]
mutable = false

[columns.income]
label = "monthly income"
unit = "EUR"
digits = 0
direction = "increase"

[columns.debt]
label = "debt"
unit = "EUR"
digits = 0

[columns.savings]
label = "savings"
unit = "EUR"
digits = 0

[columns.years_employed]
label = "years in employment"
digits = 0
direction = "increase"

[reasons]
income = "Income insufficient for the amount of credit requested"
debt = "Excessive obligations in relation to income"
savings = "Insufficient savings"
years_employed = "Length of employment"

[letter]
sender = "Example Bank"
contact = "credit@example.com"
"""


def simulate_applicants(n: int = _N, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a table of ``n`` simulated applicants, and whether each was approved, ``(n,)`` strings."""
    rng = np.random.default_rng(seed)
    income = np.round(rng.gamma(6.0, 500.0, n), -1)
    debt = np.round(np.minimum(rng.gamma(1.5, 1_500.0, n), 3.0 * income), -1)
    savings = np.round(rng.gamma(1.2, 2_500.0, n), -1)
    years, age = rng.poisson(5.0, n), rng.integers(20, 70, n)
    purpose = rng.choice(_PURPOSES, n)
    score = 1.2 * income / 1_000 - 0.9 * debt / 1_000 + 0.25 * savings / 1_000 + 0.25 * years - 3.2
    score = score + np.where(purpose == "house", 0.4, 0.0) + rng.logistic(0.0, 0.5, n)
    table = pd.DataFrame(
        {"age": age, "income": income, "debt": debt, "savings": savings, "years_employed": years, "purpose": purpose}
    )
    return table, np.where(score > 0, "approved", "declined")


def _fit_forest(table: pd.DataFrame, decision: Any) -> Any:
    """Fit a forest in a pipeline that encodes the purpose."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = make_column_transformer((encoder, ["purpose"]), remainder="passthrough")
    forest = RandomForestClassifier(60, max_depth=6, min_samples_leaf=8, random_state=0)
    return make_pipeline(columns, forest).fit(table, decision)


def write_demo(folder: Path, messages: Messages) -> str:
    """Write table, model and settings to a folder, and return the commands to try."""
    folder.mkdir(parents=True, exist_ok=True)
    table, decision = simulate_applicants()
    model = _fit_forest(table, decision)
    named = table.assign(applicant=[f"A{i:03d}" for i in range(len(table))], decision=decision)
    write(named.to_csv(index=False, lineterminator="\n"), str(folder / "applicants.csv"))
    write(_SETTINGS, str(folder / "credit.toml"))
    has_skops = find_spec("skops") is not None
    name = "model.skops" if has_skops else "model.joblib"
    with whole_file(folder / name) as file:
        if has_skops:
            import skops.io

            file.write(skops.io.dumps(model))
        else:
            import joblib

            joblib.dump(model, file)
    messages.say(f"wrote applicants.csv, {name} and credit.toml to {folder}")
    who = str(named["applicant"][decision == "declined"].iloc[0])
    trust = "" if has_skops else " --trust-pickle"
    inside = "" if folder == Path() else f"cd {folder}\n"
    return (
        f"{inside}gbce explain {name} applicants.csv --row {who} --settings credit.toml{trust} -o {who}.gbce\n"
        f"gbce report {who}.gbce -o {who}.html\n"
        f"gbce letters {who}.gbce --settings credit.toml -o {who}-letter.html"
    )


# --- a settings file to edit -------------------------------------------------------------------------------------


_SHOWN_LEVELS = 12  # levels that a comment lists; by hand
_HEAD = """# Settings for gbce. Everything in here may be left out; lines that begin with # are comments.

# what is wanted of the model: a class, "<=140", ">=10", "+10%", "0.8..1", "approved>=0.8"
# target = "approved"

# conditions between columns that the row and every answer satisfy
constraints = [
  # "debt <= 0.4 * income",
]

[data]
{index}  # column that names the rows
# drop = ["outcome"] # columns that the model does not use

[model]
# classes = ["declined", "approved"]  # names of a booster's classes 0, 1, ...

[options]
# eta = "auto"
# rules = ["Nearest", "ChanceConstrained", "CVaR", "MAP"]
# max_model_rows = 100000
# sensible = true  # prefer no change that goes against the model's average; the default if there are reasons
"""
_TAIL = """
# Columns that follow from others: they are computed again for every answer.
[computed]
# free = "income - debt / 12"

# For letters: the reason for each column that an answer may change, in your own words or codes.
[reasons]
{reasons}

[letter]
# salutation = "Dear customer,"
# sender = "Example Bank"
# model = "credit model of May 2026"
# contact = "credit@example.com"
"""


def draft_settings(data: pd.DataFrame, columns: list[str], index: str | None = None) -> str:
    """Return settings for the columns of a table, as TOML with comments; ``index`` names the rows."""
    space = Space.infer(data[columns])
    sentences = () if space.assumed is None else space.assumed.sentences
    assumed = "".join(f"# assumed: {say_in_settings(one)}\n" for one in sentences)
    tables = "\n".join(_draft_column(feature) for feature in space.features)
    reasons = "\n".join(f"# {_quote(name)} = {_quote(f'{name} is not sufficient')}" for name in space.names)
    head = _HEAD.replace("{index}", '# index = "id"' if index is None else f"index = {_quote(index)}")
    return f"{head}\n{assumed}\n{tables}{_TAIL.format(reasons=reasons)}"


def _draft_column(feature: Feature) -> str:
    """Return the table of one column."""
    lines = [f"[columns.{_quote_key(feature.name)}]", f"kind = {_quote(feature.kind)}"]
    if feature.levels is not None:
        shown = [str(level) for level in feature.levels[:_SHOWN_LEVELS]]
        more = f", and {len(feature.levels) - len(shown)} more" if len(feature.levels) > len(shown) else ""
        lines.append(f"# levels: {', '.join(shown)}{more}".replace("\n", " "))
    elif feature.kind in ("real", "integer"):
        ends = [_write_number(end, feature.kind) for end in (feature.low, feature.high)]
        lines.append(f"bounds = [{', '.join(ends)}]" if ends != ['""', '""'] else '# bounds = [0, ""]')
    lines += [
        f"mutable = {'true' if feature.mutable else 'false'}" + ("" if feature.mutable else "  # constant in the data"),
        f"direction = {_quote(feature.direction)}  # any, increase or decrease",
        "protected = false  # true: a letter never names it as advice",
        '# label = ""',
        '# unit = ""',
        "",
    ]
    return "\n".join(lines)


def _write_number(end: Any, kind: str) -> str:
    """Return a bound as TOML; an open side is an empty string."""
    if end is None:
        return '""'
    value = plain_value(end)
    return str(round(value)) if kind == "integer" else repr(float(value))


def _quote(text: str) -> str:
    """Return a string as TOML, whose basic strings are those of JSON but for two escapes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quote_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _quote(name)
