"""The receipt: what it takes to compute an explanation again, and to see that it is the same."""

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy

from gbce import __version__
from gbce._validation import printable
from gbce.explanation import Explanation
from gbce.space import plain_records, plain_value, space_fields

__all__ = ["compare_receipts", "receipt_of", "row_hash"]

_COSTS = ("model_rows",)  # no setting: an explainer's first question costs what it asks once about its data


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
    figures, settings = explanation.evaluation, dict(query.settings)
    return {
        "row": row_hash(space.frame(explanation.row.x)),
        "answer": None if answer is None else row_hash(answer.row),
        "models": [printable(name) for name in explanation.models],
        "identities": [printable(name) for name in query.identities if name],
        "target": printable(explanation.target.describe()),
        "columns": _hash(space_fields(space)),
        "conditions": [printable(one) for one in explanation.conditions],
        **{name: printable(text) for name, text in query.settings if name not in ("sampler", "libraries")},
        "eta": explanation.eta,
        "weights": plain_value(explanation.mixture.weights),
        "combine": str(explanation.mixture.combine),
        "rules": [printable(rule.label) for rule in explanation.rules],
        "sampler": printable(settings.get("sampler", explanation.draws.info.sampler)),
        "noise": plain_value(figures.noise) if not callable(figures.noise) else "a function",
        "n_perturb": figures.n_perturb,
        "alpha": figures.alpha,
        "seed": str(explanation.seed),  # as a text: it may have more digits than a browser's numbers
        "model_rows": explanation.n_model_rows,
        "versions": {
            "gbce": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
            **_libraries(settings.get("libraries", "")),
        },
    }


def compare_receipts(receipt: Mapping[str, Any], explanation: Explanation) -> dict[str, tuple[Any, Any]]:
    """Return what differs between a receipt and that of an explanation: by name, both entries; nothing if they agree.

    To check a receipt, explain its row again with its settings and compare. Where only ``versions`` differ, another
    version may have drawn other points. What it cost (``model_rows``) is not compared.

    Parameters
    ----------
    receipt : mapping
        As :func:`receipt_of` returned it, or as JSON that somebody copied from a page.
    explanation : Explanation
        That was computed again.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
    >>> ask = lambda seed: explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.MAP()], seed=seed)
    >>> receipt = receipt_of(ask(3))
    >>> compare_receipts(receipt, ask(3)), compare_receipts(receipt, ask(4))["seed"]
    ({}, ('3', '4'))
    """
    if not isinstance(receipt, Mapping):
        raise TypeError(f"a receipt is a mapping, as receipt_of(explanation) returns it, not {receipt!r:.80}")
    then, now = json.loads(json.dumps(dict(receipt))), json.loads(json.dumps(receipt_of(explanation)))
    names = [name for name in dict.fromkeys([*then, *now]) if name not in _COSTS]
    return {name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)}


def _libraries(said: str) -> dict[str, str]:
    """Return the versions of the models' libraries, out of one text."""
    parts = [one.rpartition(" ") for one in said.split(", ") if one]
    return {name: version for name, _, version in parts}


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
