"""Self-contained HTML documents: packed arrays, the page, its security policy, receipt and points."""

import base64
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from gbce import __version__
from gbce._numerics import REWEIGHTING, TINY, effective_sample_size, stream
from gbce._validation import printable
from gbce.base import Array
from gbce.decisions import Decision
from gbce.draws import Draws, Points
from gbce.explanation import Explanation
from gbce.files import whole_file
from gbce.metrics import costs
from gbce.space import Space, plain_records, plain_value, space_fields

# --- documents -------------------------------------------------------------------------------------------------------

_INTEGERS = ("u1", "i1", "u2", "i2", "i4")  # integer types, the smallest first
_SPARSE = 0.9  # share of values that are stored beside a mask, below which the mask pays for itself
_LARGEST_INTEGER = 2.0**31  # of the widest of them; a double keeps integers up to 2**53
_NAMES = {np.dtype(f"<{name}"): name for name in (*_INTEGERS, "f4", "f8")}
_COSTS = ("model_rows",)  # not settings: the first question of an explainer also pays for evaluating its data
# Characters that could end the element of the data, or a line of a script; JSON has an escape for each.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}

# --- arrays ----------------------------------------------------------------------------------------------------------


def pack_array(
    values: Array, *, precision: float | None = None, apart_from: float | None = None, mostly: float | None = None
) -> dict[str, Any]:
    """Encode numbers ``(n,)`` as plain data for ``unpackArray`` of common.js.

    Integers, and so dates, are exact. Other numbers have single precision if the error is at most ``precision`` (0 by
    default) and no value becomes equal to ``apart_from``, otherwise double. The result has ``type`` (of numpy,
    little-endian), ``n`` and ``data``; for a constant array ``type`` is ``"one"`` and ``data`` the value. Where many
    values equal ``mostly``, ``type`` is ``"rest"``: ``where`` has a bit for each value, and ``values`` has the others.
    """
    values = np.asarray(values, dtype=float)
    if len(values) and np.isfinite(values[0]) and (values == values[0]).all():
        return {"type": "one", "n": len(values), "data": float(values[0])}
    others = values != mostly
    if mostly is not None and np.isfinite(mostly) and others.mean() < _SPARSE:
        rest = pack_array(values[others], precision=precision, apart_from=apart_from)
        where = base64.b64encode(np.packbits(others, bitorder="little").tobytes()).decode()
        return {"type": "rest", "n": len(values), "base": float(mostly), "where": where, "values": rest}
    kept = values.astype(_choose_type(values, precision, apart_from))
    return {"type": _NAMES[kept.dtype], "n": len(values), "data": base64.b64encode(kept.tobytes()).decode()}


def _choose_type(values: Array, precision: float | None, apart_from: float | None) -> np.dtype[Any]:
    """Return the smallest type with the required precision."""
    if np.isfinite(values).all() and (np.abs(values) <= _LARGEST_INTEGER).all() and (values == np.round(values)).all():
        for name in _INTEGERS:
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


# --- document --------------------------------------------------------------------------------------------------------

# What pages that a script fills show without one.
UNFILLED = """<div id="page"><p>This page needs a browser that runs its script; nothing is fetched or sent.</p></div>"""

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
    """Return a self-contained HTML document whose CSP allows its script and style sheet by hash, and no request.

    ``payload`` is strict JSON data, read by ``readPayload()`` of common.js; users' strings belong there and never into
    the markup of ``body``. ``script_names`` and ``style_names`` are files in ``gbce/pages/assets``.
    """
    script, style = (read_assets(names) for names in (script_names, style_names))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash_source(script)}'",
            f"style-src '{_hash_source(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    data = json.dumps(payload, allow_nan=False, separators=(",", ":")).translate(_ESCAPED)
    named = escape(printable(title))
    return _PAGE.format(policy=policy, title=named, style=style, body=body, data=data, script=script)


def write_page(page: str, path: str | Path) -> Path:
    """Write a page atomically to a file and return its path."""
    where = Path(path)
    if where.is_dir():
        raise IsADirectoryError(f"to_html: {str(where)!r} is a folder; give a file in it, such as 'explorer.html'")
    if not where.parent.is_dir():
        raise FileNotFoundError(f"to_html: there is no folder {str(where.parent)!r}; create it, or give another path")
    with whole_file(where) as file:
        file.write(page.encode())
    return where


def read_assets(names: Sequence[str]) -> str:
    """Return the concatenated asset files, with line ends as browsers see them."""
    folder = files("gbce.pages") / "assets"
    text = "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
    return text.replace("\r\n", "\n")


def _hash_source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- receipt ---------------------------------------------------------------------------------------------------------


def receipt_of(explanation: Explanation) -> dict[str, Any]:
    """Return the receipt of an explanation as plain data: hashes of rows, models, settings, seed, versions."""
    query, answer, space = explanation.query, explanation.answer, explanation.space
    figures, settings = explanation.evaluation, dict(query.settings)
    return {
        "row": row_hash(space.frame(explanation.row.x)),
        "answer": None if answer is None else row_hash(answer.row),
        "models": [printable(name) for name in explanation.models],
        "identities": [printable(name) for name in query.identities if name],
        "target": printable(explanation.target.describe()),
        "columns": hash_content(space_fields(space)),
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
        "seed": str(explanation.seed),  # a string, because it may exceed the numbers of a browser
        "model_rows": explanation.n_model_rows,
        "versions": {
            "gbce": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
            **_parse_libraries(settings.get("libraries", "")),
        },
    }


def compare_receipts(receipt: Mapping[str, Any], explanation: Explanation) -> dict[str, tuple[Any, Any]]:
    """Return the differences between a receipt and that of an explanation: both entries by name, empty if they agree.

    To check a receipt, explain its row again with its settings and compare. If only ``versions`` differ, another
    version may have drawn other points. The cost (``model_rows``) is not compared.

    Parameters
    ----------
    receipt : mapping
        From :func:`receipt_of`, or as JSON copied from a page.
    explanation : Explanation
        The explanation to compare.
    """
    if not isinstance(receipt, Mapping):
        raise TypeError(f"receipt must be a mapping such as receipt_of(explanation), not {receipt!r:.80}")
    then, now = json.loads(json.dumps(dict(receipt))), json.loads(json.dumps(receipt_of(explanation)))
    names = [name for name in dict.fromkeys([*then, *now]) if name not in _COSTS]
    return {name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)}


def _parse_libraries(recorded: str) -> dict[str, str]:
    """Parse the versions of the models' libraries from a string such as ``"sklearn 1.5, lightgbm 4.3"``."""
    parts = [one.rpartition(" ") for one in recorded.split(", ") if one]
    return {name: version for name, _, version in parts}


def row_hash(row: pd.DataFrame) -> str:
    """Return the SHA-256 of a frame's first row as ASCII JSON with sorted keys and no blanks."""
    return hash_content(plain_records(row.reset_index(drop=True))[0])


def hash_content(content: dict[str, Any]) -> str:
    """Return the SHA-256 of plain data as ASCII JSON with sorted keys and no blanks."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- points of a page ------------------------------------------------------------------------------------------------

# Chosen by hand, so that a page with twenty columns that all change stays below a megabyte.
MOST_CELLS, MOST_POINTS = 100_000, 10_000  # values of columns in one page, and pool points
FEWEST_POINTS = 500  # pool points, whatever the number of columns: several times what an answer needs; by hand
_SAME_POINT = 1e-9  # units of scale: tolerance for a row that went through a table and back


@dataclass(eq=False)
class Known:
    """Points of a page: those of the pool first, then those of decisions and tables."""

    space: Space
    x0: Array
    x: Array  # (n, d), encoded
    loss: Array  # (n, K), under each model
    verdicts: Array  # (n, K), whether the target is reached
    output: Array  # (n,), of the first model
    log_prior: Array  # (n,), minus infinity outside the pool; without a pool, the log posterior weight
    n_pool: int
    n_evaluated: int  # size of the pool before it was thinned

    def __len__(self) -> int:
        return len(self.x)

    def add(self, x: Array, loss: Array, verdicts: Array, output: float) -> int:
        """Return the position of a point ``(d,)``, which is added if it is new."""
        found = self.find(x)
        if found is not None:
            return found
        self.x = np.vstack([self.x, x])
        self.loss, self.verdicts = np.vstack([self.loss, loss]), np.vstack([self.verdicts, verdicts])
        self.output, self.log_prior = np.append(self.output, output), np.append(self.log_prior, -np.inf)
        return len(self.x) - 1

    def add_decision(self, decision: Decision) -> int:
        """Return the position of a decision."""
        return self.add(decision.x, decision.loss, decision.reached, float(decision.outputs[0]))

    def add_table(self, table: pd.DataFrame) -> list[int]:
        """Return the positions of rows given in the user's columns, such as those of a frontier."""
        own = list(self.space.frame(self.x[:1]).columns)
        figures = {name: table[name].to_numpy() for name in ("output", "reached") if name in table and name not in own}
        x = self.space.encode(table[own].reset_index(drop=True), what="frontier")
        unknown, n_models = np.full(len(x), np.nan), self.loss.shape[1]
        outputs, reached = figures.get("output", unknown), figures.get("reached", np.ones(len(x), dtype=bool))
        return [
            self.add(x[i], np.full(n_models, np.nan), np.full(n_models, bool(reached[i])), float(outputs[i]))
            for i in range(len(x))
        ]

    def find(self, x: Array) -> int | None:
        """Return where a point ``(d,)`` is, the named ones before those of the pool; ``None`` if it is not known."""
        far = self.space.change(self.x, x) > _SAME_POINT * self.space.scale
        same = np.flatnonzero(~far.any(axis=1))
        return int(same[-1]) if len(same) else None

    @property
    def cost(self) -> Array:
        """Sum of changes ``(n,)`` in units of each feature's scale."""
        return costs(self.space, self.x, self.x0, "l1")


def gather_points(explanation: Explanation) -> Known:
    """Collect the points of the pool, thinned to the size of a page, and those of searches."""
    draws, space = explanation.draws, explanation.space
    some = max(min(MOST_CELLS // max(len(explanation.free), 1), MOST_POINTS), FEWEST_POINTS)
    where, log_prior = _find_weighted(draws)
    if len(where) > some:
        where, log_prior = _thin(
            draws, where, log_prior, some, stream(explanation.seed, REWEIGHTING, explanation.query.key)
        )
    parts = [draws.pool.take(where), _take_cheapest_dropped(explanation, where)]
    every = Points.join(parts + ([] if draws.seen is None else [_take_admissible(draws.seen)]))
    return Known(
        space=space,
        x0=explanation.x0,
        x=every.x,
        loss=every.loss,
        verdicts=every.reached,
        output=every.outputs[:, 0],
        log_prior=np.append(log_prior, np.full(len(every) - len(where), -np.inf)),
        n_pool=len(where),
        n_evaluated=len(draws.pool) if draws.record is None else draws.record.n_evaluated,
    )


def _take_cheapest_dropped(explanation: Explanation, where: Array) -> Points:
    """Return the cheapest reaching pool points that were dropped, so that the page suggests the same as ``given()``."""
    pool = explanation.draws.pool
    others = np.setdiff1d(np.flatnonzero(np.isfinite(pool.log_correction) & pool.reached[:, 0]), where)
    cost = costs(explanation.space, pool.x[others], explanation.x0, "l1")
    return pool.take(others[np.argsort(cost, kind="stable")[:FEWEST_POINTS]])


def _take_admissible(points: Points) -> Points:
    """Return the points that the prior admits: those of finite density."""
    return points.take(np.isfinite(points.log_correction))


def _find_weighted(draws: Draws) -> tuple[Array, Array]:
    """Return the positions of pool points with a positive weight at some eta, and their log weights under the prior."""
    with np.errstate(divide="ignore"):
        if draws.record is None:
            log_prior = draws.log_base_weights - draws.pool.log_correction
        else:
            log_prior = np.log(draws.pool_weights)
    fits = np.isfinite(draws.pool.log_correction)
    where = np.flatnonzero(fits & (np.isfinite(log_prior) | (draws.record is not None)))
    return where, log_prior[where] - log_prior[where].max(initial=-np.inf, where=np.isfinite(log_prior[where]))


def _thin(draws: Draws, where: Array, log_prior: Array, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sample about ``n`` points by their posterior and prior weights, reweighted by Horvitz and Thompson (1952)."""
    with np.errstate(under="ignore"):
        before = np.exp(log_prior - log_prior.max())
    size = 0.5 * before / before.sum() + 0.5 * draws.pool_weights[where]
    share = np.minimum(n * size, 1.0)
    for _ in range(20):  # points that are certain to be sampled raise the probabilities of the others
        certain = share >= 1.0
        rest = size[~certain].sum()
        if not rest > TINY:
            break
        share = np.where(certain, 1.0, np.minimum((n - certain.sum()) * size / rest, 1.0))
    cumulative = np.cumsum(share)
    picked = np.unique(np.searchsorted(cumulative, rng.random() + np.arange(int(cumulative[-1]))))
    picked = picked[picked < len(where)]
    return where[picked], log_prior[picked] - np.log(share[picked])


def effective_factor(draws: Draws) -> float:
    """Return the ratio of the effective sample size over all runs to that of the weights alone, at most one."""
    return min(draws.ess / effective_sample_size(draws.pool_weights), 1.0)
