"""Models of every make, and the rows they were fitted on."""

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import gbce
from gbce.predictors import as_predictor

NAMES = ["age", "income", "debt"]
FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=NAMES)
ARRAY = FRAME.to_numpy()
SCORE = ARRAY @ [1.0, -2.0, 0.5]
LABELS = {
    "two numbers": (SCORE > 0).astype(int),
    "two words": np.where(SCORE > 0, "yes", "no"),
    "three numbers": np.digitize(SCORE, [-1, 1]),
    "three words": np.array(["low", "mid", "top"])[np.digitize(SCORE, [-1, 1])],
}
QUICK = gbce.Importance(n_candidates=1_000, n_draws=300)
POINTS = np.random.default_rng(1).normal(size=(200, 3))


def classifiers():
    return {
        "logistic": LogisticRegression(),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
        "neighbours": KNeighborsClassifier(2),
        "tree": DecisionTreeClassifier(max_depth=2),
        "forest": RandomForestClassifier(4, max_depth=2, random_state=0),
        "forest in a pipeline": make_pipeline(StandardScaler(), ExtraTreesClassifier(4, random_state=0)),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
        "xgboost": xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
    }


# xgboost takes numbers as labels
CLASSIFIED = [
    (name, labels) for name in classifiers() for labels in LABELS if (name, labels[-5:]) != ("xgboost", "words")
]


def asked(model, data, points=POINTS, **options):
    return as_predictor(model, gbce.Space.infer(data), **options)(points)


def logistic(rows):
    return 1 / (1 + np.exp(-np.asarray(rows)[:, 0]))
