"""Explain what would have to change for a patient's predicted disease progression to fall by a third.

Fits a random forest to the diabetes data that ship with scikit-learn, explains one row, prints the answer and what it
rests on, and saves two pictures to ``out/``. Run it with ``make demo``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import gbce

NAMES = {
    "bp": "blood pressure",
    "s1": "cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "chol / hdl",
    "s5": "log triglycerides",
    "s6": "blood sugar",
}


def explain_patient() -> gbce.Explanation:
    """Fit a forest and ask what would have to change for one patient."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.rename(columns=NAMES).astype(float)
    model = RandomForestRegressor(200, min_samples_leaf=5, random_state=0, n_jobs=-1).fit(X, y)
    row = X.iloc[9]
    now = float(model.predict(X.iloc[[9]])[0])

    explainer = gbce.Explainer(model, X, space=gbce.Space.infer(X, immutable=["age", "sex"], bounds="data"))
    return explainer.explain(row, gbce.AtMost(round(2 / 3 * now)), seed=0)


def main() -> None:
    """Explain, print, draw."""
    explanation = explain_patient()
    print(explanation.summary())

    folder = Path("out")
    folder.mkdir(exist_ok=True)
    for name in ("changes", "posterior"):
        path = folder / f"demo_{name}.png"
        getattr(explanation.plot, name)()
        plt.savefig(path, dpi=150)
        print(f"saved {path}")


if __name__ == "__main__":
    main()
