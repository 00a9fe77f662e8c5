"""One HTML document with everything in it: its data, its style, its script, and a policy that allows nothing else."""

import base64
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from gbce import __version__
from gbce._validation import printable
from gbce.base import Array
from gbce.explanation import Explanation
from gbce.files import whole_file
from gbce.space import plain_records, plain_value, space_fields

__all__ = ["build_page", "compare_receipts", "pack_array", "read_assets", "receipt_of", "row_hash", "write_page"]

# --- arrays inside of a page -----------------------------------------------------------------------------------------

_WHOLE = ("u1", "i1", "u2", "i2", "i4")  # types of whole numbers, the smallest first
_LARGEST_WHOLE = 2.0**31  # of the widest of them; beyond it a double keeps whole numbers up to 2**53
_NAMES = {np.dtype(f"<{name}"): name for name in (*_WHOLE, "f4", "f8")}


def pack_array(values: Array, *, precision: float | None = None, apart_from: float | None = None) -> dict[str, Any]:
    """Return numbers ``(n,)`` as plain data that ``unpackArray`` of common.js reads.

    Whole numbers are kept exactly, whatever their size; so are moments, which are whole numbers too. Others are kept as
    single precision where that loses no more than ``precision``, and as doubles where it would.

    Parameters
    ----------
    values : array of shape (n,)
        Finite or not; booleans are zeros and ones.
    precision : float, optional
        Largest error allowed; none at all when left out.
    apart_from : float, optional
        A number that values which differ from it must still differ from.

    Returns
    -------
    dict
        ``type`` (of numpy, without the byte order, which is little-endian), ``n`` and ``data``; of an array with one
        value only, ``type`` is ``"one"`` and ``data`` is that value.

    Examples
    --------
    >>> pack_array(np.array([1.0, 2.0, 300.0]))["type"], pack_array(np.array([0.1, 0.2]))["type"]
    ('u2', 'f8')
    >>> pack_array(np.array([0.1, 0.2]), precision=1e-6)["type"], pack_array(np.zeros(5))
    ('f4', {'type': 'one', 'n': 5, 'data': 0.0})
    """
    values = np.asarray(values, dtype=float)
    if len(values) and np.isfinite(values[0]) and (values == values[0]).all():
        return {"type": "one", "n": len(values), "data": float(values[0])}
    kept = values.astype(_type_of(values, precision, apart_from))
    return {"type": _NAMES[kept.dtype], "n": len(values), "data": base64.b64encode(kept.tobytes()).decode()}


def _type_of(values: Array, precision: float | None, apart_from: float | None) -> np.dtype[Any]:
    """Return the smallest type that keeps the values well enough."""
    if np.isfinite(values).all() and (np.abs(values) <= _LARGEST_WHOLE).all() and (values == np.round(values)).all():
        for name in _WHOLE:
            bounds = np.iinfo(name)
            if len(values) == 0 or (bounds.min <= values.min() and values.max() <= bounds.max):
                return np.dtype(f"<{name}")
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        lost = np.where(single[known] == values[known], 0.0, np.abs(single[known] - values[known]))
    good = bool((lost <= (precision or 0.0)).all())
    if good and apart_from is not None:
        good = not bool(((single == np.float32(apart_from)) & (values != apart_from)).any())
    return np.dtype("<f4" if good else "<f8")


# --- one HTML document with everything in it -------------------------------------------------------------------------

# Characters that could end the element the data stand in, or a line of a script; JSON has another way to write each.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="gbce">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def build_page(
    title: str, payload: Mapping[str, Any], script_names: Sequence[str], style_names: Sequence[str], body: str
) -> str:
    """Return a page: a text that is one HTML document and asks for nothing beyond itself.

    Parameters
    ----------
    title : str
        Of the document; any text.
    payload : mapping
        Plain data, as strict JSON has them; the script finds them by ``readPayload()`` of common.js.
    script_names, style_names : sequence of str
        Files in ``gbce/pages/assets``, joined in this order to one ES module and one style sheet.
    body : str
        Markup of gbce's own. Nothing of a user's belongs in it: that is what the payload is for.

    Returns
    -------
    str
        The document. Its policy (CSP) allows the one script and the one style sheet by their hashes, and no request.

    Examples
    --------
    >>> page = build_page("a <b> title", {"name": "</script>"}, ["common.js"], ["page.css"], "<main></main>")
    >>> "a &lt;b&gt; title" in page, page.count("</script>")
    (True, 2)
    """
    script, style = (read_assets(names) for names in (script_names, style_names))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    data = json.dumps(payload, allow_nan=False, separators=(",", ":")).translate(_ESCAPED)
    named = escape(printable(title))
    return _PAGE.format(policy=policy, title=named, style=style, body=body, data=data, script=script)


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to a file, whole or not at all, and return its path.

    Raises
    ------
    OSError
        Where the file cannot be written; its message names the path.
    """
    where = Path(path)
    if where.is_dir():
        raise IsADirectoryError(f"to_html: {str(where)!r} is a folder; name a file in it, such as 'explorer.html'")
    if not where.parent.is_dir():
        raise FileNotFoundError(f"to_html: there is no folder {str(where.parent)!r}; make it, or name another path")
    with whole_file(where) as file:
        file.write(page.encode())
    return where


def read_assets(names: Sequence[str]) -> str:
    """Return files of the package, one after the other, with line ends as the browser sees them."""
    folder = files("gbce.pages") / "assets"
    text = "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
    return text.replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- the receipt -----------------------------------------------------------------------------------------------------

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
        "columns": _hash_content(space_fields(space)),
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
    return _hash_content(plain_records(row.reset_index(drop=True))[0])


def _hash_content(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
