"""The receipt: what it takes to compute an explanation again, and to see that it is the same."""

import hashlib
import json
import platform
from typing import Any

import numpy as np
import pandas as pd
import scipy

from gbce import __version__
from gbce._validation import printable
from gbce.explanation import Explanation
from gbce.space import plain_records, plain_value, space_fields

__all__ = ["receipt_of", "row_hash"]


def receipt_of(explanation: Explanation) -> dict[str, Any]:
    """Return what was asked and with what, as plain data: hashes of rows, models, settings, seed, versions.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
    >>> receipt = receipt_of(explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.MAP()], seed=3))
    >>> receipt["seed"], receipt["target"], len(receipt["row"])
    ('3', 'at least 1', 64)
    """
    query, answer, space = explanation.query, explanation.answer, explanation.space
    settings = explanation.evaluation
    return {
        "row": row_hash(space.frame(explanation.row.x)),
        "answer": None if answer is None else row_hash(answer.row),
        "models": [printable(name) for name in explanation.models],
        "identities": [printable(name) for name in query.identities if name],
        "target": printable(explanation.target.describe()),
        "columns": _hash(space_fields(space)),
        "conditions": [printable(one) for one in explanation.conditions],
        "eta": explanation.eta,
        "weights": plain_value(explanation.mixture.weights),
        "combine": str(explanation.mixture.combine),
        "rules": [printable(rule.label) for rule in explanation.rules],
        "sampler": explanation.draws.info.sampler,
        "noise": plain_value(settings.noise) if not callable(settings.noise) else "a function",
        "n_perturb": settings.n_perturb,
        "alpha": settings.alpha,
        "seed": str(explanation.seed),  # as a text: it may have more digits than a browser's numbers
        "model_rows": explanation.n_model_rows,
        "versions": {
            "gbce": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
        },
    }


def row_hash(row: pd.DataFrame) -> str:
    """Return SHA-256 of a frame's first row: of JSON with sorted keys, without blanks, in ASCII.

    Examples
    --------
    >>> row_hash(pd.DataFrame({"b": [1.0], "a": ["x"]})) == row_hash(pd.DataFrame({"a": ["x"], "b": [1.0]}))
    True
    """
    return _hash(plain_records(row.reset_index(drop=True))[0])


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
