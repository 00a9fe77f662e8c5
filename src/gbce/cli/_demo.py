"""Files to try the commands on: simulated loan applicants, a model fitted to them, and settings with reasons."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce.cli._messages import Messages
from gbce.cli._output import write
from gbce.files import whole_file

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
    """Return a table of ``n`` simulated applicants, and whether each was approved, ``(n,)`` strings.

    Examples
    --------
    >>> table, decision = simulate_applicants(100)
    >>> table.shape, sorted(set(decision.tolist()))
    ((100, 6), ['approved', 'declined'])
    """
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
