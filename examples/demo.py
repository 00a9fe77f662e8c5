"""Explain what would have had to be different for a refused loan: the example of the README.

Fits a model to the synthetic applications of ``loans.csv``, explains one of them, prints the answer and what it rests
on, and saves two pictures to ``out/``. Run it with ``make demo``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import gbce

LOANS = Path(__file__).with_name("loans.csv")
FIXED = ["age", "job", "home", "years_employed", "late_payments"]
APPLICANT = 11


def fit_lender() -> tuple[gbce.Explainer, HistGradientBoostingClassifier, pd.DataFrame]:
    """Return an explainer of the lender's model, the model, and the applications it was fitted to."""
    loans = pd.read_csv(LOANS, dtype={"job": "category", "home": "category"})
    X, y = loans.drop(columns="decision"), loans["decision"]
    model = HistGradientBoostingClassifier(max_iter=80, min_samples_leaf=40, random_state=0).fit(X, y)
    space = gbce.Space.infer(X, immutable=FIXED, bounds={"loan_amount": (1_000, None)})
    return gbce.Explainer(model, X, space=space), model, X


def explain_loan() -> gbce.Explanation:
    """Ask what would have had to be different for one applicant."""
    explainer, _, X = fit_lender()
    return explainer.explain(X.loc[APPLICANT], "approved", seed=0)


def main() -> None:
    """Explain, print, draw."""
    explanation = explain_loan()
    print(explanation.summary())

    folder = Path("out")
    folder.mkdir(exist_ok=True)
    for name in ("before_after", "changes"):
        path = folder / f"demo_{name}.png"
        getattr(explanation.plot, name)()
        plt.savefig(path, dpi=150)
        print(f"saved {path}")


if __name__ == "__main__":
    main()
