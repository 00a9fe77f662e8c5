"""A predictor of KServe's V1 protocol as a model: rows as instances, predictions as numbers."""

from collections.abc import Sequence
from typing import Any

from gbce.predictors import Remote

__all__ = ["open_predictor"]


def open_predictor(
    host: str, name: str, *, classes: Sequence[Any] | None = None, named: bool = False, timeout: float = 30.0
) -> Remote:
    """Return the predictor of a model as a ``Remote``.

    Parameters
    ----------
    host : str
        Host with its port if it is not 80; with a scheme if it is not http.
    name : str
        Name of the model.
    classes : sequence, optional
        Labels of a classifier. Its predictions are probabilities, or labels themselves.
    named : bool
        Whether instances are objects with the names of columns; otherwise lists of values.
    timeout : float
        Seconds for one exchange.
    """
    labels = None if classes is None else {label: j for j, label in enumerate(classes) if isinstance(label, str)}

    def encode(columns: list[str], rows: list[list[Any]]) -> dict[str, Any]:
        return {"instances": [dict(zip(columns, row, strict=True)) for row in rows] if named else rows}

    def decode(answer: Any) -> Any:
        found = answer.get("predictions") if isinstance(answer, dict) else answer
        if not isinstance(found, list) or not labels or not all(isinstance(one, str) for one in found):
            return found
        # a predictor of labels is sure of each
        return [[float(labels[one] == j) for j in range(len(labels))] for one in found]

    base = host if "://" in host else f"http://{host}"
    url = f"{base.rstrip('/')}/v1/models/{name}:predict"
    return Remote(url, classes=classes, encode=encode, decode=decode, timeout=timeout, retries=2)
