"""Write an explanation to a file and rebuild it: arrays in a zip archive, everything else in a JSON manifest.

Reading a file never runs code from it, and the rebuilt explanation is checked.
"""

import json
import math
import tempfile
import warnings
from dataclasses import asdict, fields, replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gbce._validation import is_number
from gbce.base import Array, Query, Rule
from gbce.decisions import Strategies
from gbce.draws import Draws, ExactFigures, Points, PoolRecord
from gbce.eta import Calibration
from gbce.explanation import Answer, Decision, Explanation, Mean, SafeBox, Share, Status
from gbce.files._archive import Archive, FileError, TooLargeError, whole_file, write_archive
from gbce.files._classes import read_info, read_rule, read_target, write_object
from gbce.files._soundness import require_sound
from gbce.metrics import Evaluation, drop_pool
from gbce.posterior import Combine, Entropic, Mixture
from gbce.space import Condition, Space, read_effort, space_fields, space_of
from gbce.trees import Proof

FORMAT = 7  # of files that are written and read
_POINT_ARRAYS = tuple(f.name for f in fields(Points))
_DECISION_ARRAYS = ("x", "outputs", "loss", "reached", "cost", "beside")
_DRAW_ARRAYS = ("pool_weights", "index", "weights", "prior_change", "log_base_weights")
_NEEDED = (
    *(f"{room}.{name}" for room in ("pool", "row") for name in _POINT_ARRAYS),
    *(f"draws.{name}" for name in _DRAW_ARRAYS),
    *(f"decisions.{name}" for name in _DECISION_ARRAYS),
    "decisions.figures",
    "decisions.errors",
    "mixture.weights",
)
_ANSWER_FIGURES = {"reliability": Share, "survival": Share, "expected": Mean}
# arrays of the parts that a file may have; their other fields are plain data
_EXACT_ARRAYS = ("success", "success_se", "loss_levels", "change")
_STRATEGY_ARRAYS = (
    "index", "weights", "which", "needs", "x", "outputs", "reliability", "holds", "strategy", "missed",
)  # fmt: skip
_RECORD_ARRAYS = ("change", "change_se", "prior_moves", "prior_shares")
_POSSIBLE = (
    "draws.groups",
    *(f"seen.{name}" for name in _POINT_ARRAYS),
    *(f"exact.{name}" for name in _EXACT_ARRAYS),
    *(f"strategies.{name}" for name in _STRATEGY_ARRAYS),
)
# left out with the pool, of which only a record of figures is kept
_WITH_POOL = ("pool.z", "seen.z", "draws.pool_weights", "draws.log_base_weights")
_MOST_POOL_BYTES = 50_000_000  # of a pool that is kept by default, uncompressed: 20,000 points, 150 columns


def save(
    explanation: Explanation,
    path: str | Path,
    *,
    pool: bool | None = None,
    run: str | None = None,
    beside: Path | None = None,
) -> Path:
    """Write an explanation to ``path`` atomically, by default without its pool if that is very large.

    ``run`` identifies the run of many rows that it is a part of, for :func:`load_part`; until it is complete the file
    is in the folder ``beside``. It is on disk when this returns. Functions are not kept: a :class:`gbce.Loss` is loaded
    without its function, a noise function as one that raises, and a rule or target with a function as plain data with
    its label.
    """
    if pool is not None and not isinstance(pool, bool):
        raise TypeError(f"save: pool must be True, False or None, not {pool!r}")
    if pool is None:
        pool = _is_small(explanation.draws)
    path, explanation = Path(path), explanation if pool else _without_pool(explanation)
    with whole_file(path, beside=beside) as file:
        write_archive(file, _write_manifest(explanation) | {"run": run}, _collect_arrays(explanation), _to_plain)
    return path


def load(path: str | Path, *, max_bytes: int | None = None) -> Explanation:
    """Read an explanation that :meth:`gbce.Explanation.save` wrote.

    Files may be untrusted: no code from a file is run and nothing is imported for it, no more than ``max_bytes`` is
    unpacked, and the content is checked. Your own rules, targets and samplers are rebuilt if their classes are defined;
    otherwise they are plain data with a label, and errors name what to import.

    Parameters
    ----------
    path : str or Path
        The file.
    max_bytes : int, optional
        Largest size in memory; by default 500 MB, or ten times the size of the file if that is more.

    Returns
    -------
    Explanation
        Identical to the last bit, but without models.

    Raises
    ------
    gbce.FileError
        If the file is not an explanation, is damaged, too large, or of another format; a ``ValueError``.
    OSError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> import gbce, numpy as np, os, tempfile
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = gbce.load(explanation.save(os.path.join(folder, "row0.gbce")))
    >>> again.counterfactuals.equals(explanation.counterfactuals)
    True
    """
    if max_bytes is not None and not (is_number(max_bytes) and max_bytes > 0):
        raise ValueError(f"load: max_bytes must be a positive number or None, not {max_bytes!r}")
    return load_part(path, max_bytes)[0]


def load_part(path: str | Path, max_bytes: int | None = None) -> tuple[Explanation, str | None]:
    """Read an explanation as :func:`load` does, and the run that it is a part of."""
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise FileError(f"{path} is not an explanation written by gbce: it is not a regular file")
    with path.open("rb") as file:
        # zipfile, numpy and json raise a dozen kinds of errors for bad files, which all mean the same here
        try:
            archive = Archive(file, max_bytes)
        except TooLargeError as error:
            raise FileError(f"{path} is too large: {error}") from None
        except Exception as error:
            raise FileError(f"{path} is not an explanation written by gbce: {error}") from error
        if "policy" in archive.manifest:
            raise FileError(f"{path} is a result of gbce.policy: gbce.policy.load reads it")
        found = archive.manifest.get("format")
        if found != FORMAT:
            raise FileError(f"{path} has format {found!r}; this version of gbce reads format {FORMAT} only")
        try:
            arrays = archive.arrays(*_list_arrays(archive.manifest))
            if archive.manifest["record"] is not None:
                arrays = _derive_missing(arrays, archive.limit)
            explanation = _rebuild(archive.manifest, arrays)
            require_sound(explanation)
            return explanation, archive.manifest["run"]
        except Exception as error:
            raise FileError(f"{path} is damaged: {type(error).__name__} {error}") from error


def _is_small(draws: Draws) -> bool:
    """Whether the pool is small enough to be kept by default; warn if it is not."""
    points = [draws.pool] if draws.seen is None else [draws.pool, draws.seen]
    size = sum(one.z.nbytes + one.x.nbytes for one in points)
    if draws.record is not None or size <= _MOST_POOL_BYTES:
        return True
    warnings.warn(
        f"save: {len(draws.pool):,} evaluated points in {draws.pool.x.shape[1]:,} columns would take "
        f"{size / 1e6:.0f} MB and are left out of the file. Tables, plots, decisions and draws are kept; path(), at() "
        'and frontier(among="pool") will not work after loading. pool=True keeps the points, pool=False silences this '
        "warning.",
        stacklevel=4,
    )
    return False


def _without_pool(explanation: Explanation) -> Explanation:
    """Return an explanation with its draws only, and a record of the pool's figures."""
    names = tuple(explanation.space.names[j] for j in explanation.free)
    given = (explanation.mixture, explanation.space, explanation.x0, explanation.evaluation.alpha, explanation.models)
    draws, strategies = drop_pool(explanation.draws, *given, names), explanation.strategies
    if strategies is not None:  # without the pool their shares stay as they are
        strategies = replace(strategies, index=strategies.index[:0])
    return replace(explanation, draws=draws, strategies=strategies)


def _list_arrays(manifest: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the arrays that a file must have, and of those that it may have."""
    if manifest["record"] is None:
        return list(_NEEDED), list(_POSSIBLE)
    record = [f"record.{name}" for name in _RECORD_ARRAYS]
    needed, possible = ([name for name in names if name not in _WITH_POOL] for names in (_NEEDED, _POSSIBLE))
    return needed + record, possible


def _collect_arrays(explanation: Explanation) -> dict[str, Array]:
    draws = explanation.draws
    parts: list[tuple[str, Any, tuple[str, ...]]] = [
        ("pool", draws.pool, _POINT_ARRAYS),
        ("row", explanation.row, _POINT_ARRAYS),
        ("draws", draws, _DRAW_ARRAYS if draws.groups is None else (*_DRAW_ARRAYS, "groups")),
        ("seen", draws.seen, _POINT_ARRAYS),
        ("exact", draws.exact, _EXACT_ARRAYS),
        ("strategies", explanation.strategies, _STRATEGY_ARRAYS),
        ("record", draws.record, _RECORD_ARRAYS[:-1]),
    ]
    arrays = {f"{name}.{one}": getattr(part, one) for name, part, own in parts if part is not None for one in own}
    decisions = _kept_decisions(explanation)
    for name in _DECISION_ARRAYS:
        arrays[f"decisions.{name}"] = np.array([getattr(decision, name) for decision in decisions])
    for name in ("figures", "errors"):
        arrays[f"decisions.{name}"] = np.array([list(getattr(decision, name).values()) for decision in decisions])
    arrays["mixture.weights"] = explanation.mixture.weights
    if draws.record is None:
        return arrays
    arrays["record.prior_shares"] = np.concatenate([np.zeros(0), *draws.record.prior_shares])
    return {name: array for name, array in arrays.items() if name not in _WITH_POOL}


def _write_part(part: Any, arrays: tuple[str, ...] = ()) -> dict[str, Any] | None:
    """Return the fields of a part of an explanation without its arrays; None where there is none."""
    return None if part is None else {f.name: getattr(part, f.name) for f in fields(part) if f.name not in arrays}


def _take_arrays(arrays: dict[str, Array], part: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: arrays[f"{part}.{name}"] for name in names}


def _write_manifest(explanation: Explanation) -> dict[str, Any]:
    draws, space = explanation.draws, explanation.space
    evaluation = {f.name: getattr(explanation.evaluation, f.name) for f in fields(Evaluation)}
    if callable(evaluation["noise"]):
        evaluation["noise"] = None
    return {
        "format": FORMAT,
        "space": space_fields(space),
        "target": write_object(explanation.target),
        "models": explanation.models,
        "identities": explanation.query.identities,
        "sparse": explanation.query.sparse,
        "conditions": [condition.to_json() for condition in explanation.query.conditions],
        "effort": explanation.query.effort,
        "settings": explanation.query.settings,
        "mixture": {"eta": explanation.mixture.eta, "combine": _write_combine(explanation.mixture.combine)},
        "evaluation": evaluation,
        "rules": [write_object(rule) for rule in explanation.rules],
        "seed": explanation.seed,
        "draws": {
            "resampled": draws.resampled,
            "reweighted": draws.reweighted,
            "log_evidence": draws.log_evidence,
            "log_evidence_se": draws.log_evidence_se,
            "rungs": draws.rungs,
            "evidence_inflation": draws.evidence_inflation,
        },
        "record": _write_part(draws.record, _RECORD_ARRAYS),
        "exact": _write_part(draws.exact, _EXACT_ARRAYS),
        "sampler": write_object(draws.info),
        "decisions": _write_decisions(explanation),
        "answer": _write_answer(explanation.answer),
        "status": str(explanation.status),
        "status_note": explanation.status_note,
        "notes": explanation.notes,
        "n_model_calls": explanation.n_model_calls,
        "n_model_rows": explanation.n_model_rows,
        "calibration": _write_part(explanation.calibration),
        "proof": _write_part(explanation.proof),
        "strategies": _write_part(explanation.strategies, _STRATEGY_ARRAYS),
    }


def _read_record(written: dict[str, Any], arrays: dict[str, Array], space: Space) -> PoolRecord:
    lengths = [0 if feature.levels is None else len(feature.levels) + 1 for feature in space.features]
    shares = arrays["record.prior_shares"]
    if shares.shape != (sum(lengths),):
        raise ValueError(f"record.prior_shares has the shape {shares.shape}, where ({sum(lengths)},) belongs")
    figures = tuple(
        (measure, model, value, se, low, high) for measure, model, value, se, low, high in written["figures"]
    )
    held = written | _take_arrays(arrays, "record", _RECORD_ARRAYS[:-1]) | {"figures": figures}
    return PoolRecord(**held, prior_shares=tuple(np.split(shares, np.cumsum(lengths)[:-1])))


def _derive_missing(arrays: dict[str, Array], limit: float) -> dict[str, Array]:
    """Add the arrays that follow from the others in a file without the pool, within a limit of bytes."""
    row, index, n = arrays["row.z"], arrays["draws.index"], len(arrays["pool.x"])
    if row.ndim != 2 or index.ndim != 1 or (index >= n).any():
        raise ValueError("the draws are not among its points")
    rooms = [room for room in ("pool", "seen") if f"{room}.x" in arrays]
    if sum(len(arrays[f"{room}.x"]) for room in rooms) * row.nbytes > limit:
        raise ValueError(f"its points would take more than the {limit:,} bytes that are allowed")
    weights = np.bincount(index, weights=arrays["draws.weights"], minlength=n)
    filled = {"draws.pool_weights": weights, "draws.log_base_weights": np.zeros(n)}
    return arrays | filled | {f"{room}.z": np.zeros((len(arrays[f"{room}.x"]), row.shape[1])) for room in rooms}


def _write_combine(combine: Combine) -> Any:
    return {"t": float(combine.t)} if isinstance(combine, Entropic) else combine


def _read_combine(written: Any) -> Combine:
    return Entropic(written["t"]) if isinstance(written, dict) else written


def _kept_decisions(explanation: Explanation) -> tuple[Decision, ...]:
    """Return the decisions, followed by that of the answer if there is one."""
    return explanation.decisions + (() if explanation.answer is None else (explanation.answer.decision,))


def _write_answer(answer: Answer | None) -> dict[str, Any] | None:
    """Return an answer without its decision as plain data."""
    written = _write_part(answer, ("query", "decision"))
    if answer is not None and written is not None:
        written["safe"] = None if answer.safe is None else _write_safe(answer.safe)
    return written


def _write_safe(box: SafeBox) -> dict[str, Any]:
    """Return ranges as plain data, None for infinite ends."""
    low, high = ([end if np.isfinite(end) else None for end in ends.tolist()] for ends in (box.low, box.high))
    return {"features": list(box.features), "low": low, "high": high}


def _read_safe(written: dict[str, Any], space: Space) -> SafeBox:
    low = np.array([-np.inf if end is None else float(end) for end in written["low"]])
    high = np.array([np.inf if end is None else float(end) for end in written["high"]])
    return SafeBox(space, tuple(written["features"]), low, high)


def _read_answer(written: dict[str, Any], query: Query, decision: Decision) -> Answer:
    figures = {name: written[name] and kind(*written[name]) for name, kind in _ANSWER_FIGURES.items()}
    safe = None if written["safe"] is None else _read_safe(written["safe"], query.space)
    held = written | figures | {"safe": safe, "against": tuple(written["against"])}
    return Answer(query=query, decision=decision, **held)


def _write_decisions(explanation: Explanation) -> dict[str, Any]:
    """Return labels, positions of rules, names of figures and proofs of the decisions as plain data."""
    decisions = _kept_decisions(explanation)
    position = {id(rule): i for i, rule in enumerate(explanation.rules)}
    return {
        "labels": [decision.label for decision in decisions],
        "rules": [position.get(id(decision.rule)) for decision in decisions],
        "figures": list(decisions[0].figures) if decisions else [],
        "errors": list(decisions[0].errors) if decisions else [],
        "proofs": [None if decision.proof is None else asdict(decision.proof) for decision in decisions],
    }


def _rebuild(manifest: dict[str, Any], arrays: dict[str, Array]) -> Explanation:
    evaluation = manifest["evaluation"]
    if evaluation["noise"] is None:
        evaluation["noise"] = _lost_noise
    space, record, exact, strategies = space_of(manifest["space"]), None, manifest["exact"], manifest["strategies"]
    if manifest["record"] is not None:
        record = _read_record(manifest["record"], arrays, space)
    if strategies is not None:
        held = strategies | {"proofs": tuple(map(str, strategies["proofs"]))}
        strategies = Strategies(**held, **_take_arrays(arrays, "strategies", _STRATEGY_ARRAYS))
    row = _read_points(arrays, "row")
    draws = Draws(
        pool=_read_points(arrays, "pool"),
        **_take_arrays(arrays, "draws", _DRAW_ARRAYS),
        groups=arrays.get("draws.groups"),
        seen=_read_points(arrays, "seen") if "seen.x" in arrays else None,
        info=read_info(manifest["sampler"]),
        space=space,
        record=record,
        exact=None if exact is None else ExactFigures(**exact, **_take_arrays(arrays, "exact", _EXACT_ARRAYS)),
        **manifest["draws"] | {"rungs": tuple(manifest["draws"]["rungs"])},
    )
    query = Query(
        space=space,
        target=read_target(manifest["target"]),
        models=tuple(manifest["models"]),
        mixture=Mixture(
            manifest["mixture"]["eta"], arrays["mixture.weights"], _read_combine(manifest["mixture"]["combine"])
        ),
        evaluation=Evaluation(**evaluation),
        rules=tuple(read_rule(written) for written in manifest["rules"]),
        seed=manifest["seed"],
        row=row,
        free=space.free(row.x[0]),
        identities=tuple(manifest["identities"]),
        sparse=bool(manifest["sparse"]),
        conditions=tuple(map(Condition.from_json, manifest["conditions"])),
        effort=read_effort(space, dict(manifest["effort"])),
        settings=tuple((str(name), str(text)) for name, text in manifest["settings"]),
    )
    decisions = _read_decisions(manifest["decisions"], query.rules, arrays)
    answer = None
    if manifest["answer"] is not None:
        decisions, answer = decisions[:-1], _read_answer(manifest["answer"], query, decisions[-1])
    return Explanation(
        query=query,
        draws=draws,
        decisions=decisions,
        answer=answer,
        status=Status(manifest["status"]),
        status_note=manifest["status_note"],
        notes=tuple(manifest["notes"]),
        n_model_calls=manifest["n_model_calls"],
        n_model_rows=manifest["n_model_rows"],
        calibration=None if manifest["calibration"] is None else Calibration(**manifest["calibration"]),
        proof=None if manifest["proof"] is None else Proof(**manifest["proof"]),
        strategies=strategies,
    )


def _read_points(arrays: dict[str, Array], prefix: str) -> Points:
    return Points(**_take_arrays(arrays, prefix, _POINT_ARRAYS))


def _read_decisions(written: dict[str, Any], rules: tuple[Rule, ...], arrays: dict[str, Array]) -> tuple[Decision, ...]:
    labels = written["labels"]
    proofs = written["proofs"]
    if len(proofs) != len(labels):
        raise ValueError(f"there are {len(labels)} decisions, but {len(proofs)} proofs")
    for name in (*_DECISION_ARRAYS, "figures", "errors"):
        if len(arrays[f"decisions.{name}"]) != len(labels):
            raise ValueError(f"there are {len(labels)} decisions, but {name} of {len(arrays[f'decisions.{name}'])}")
    return tuple(
        Decision(
            label=label,
            rule=None if written["rules"][i] is None else rules[written["rules"][i]],
            figures=dict(zip(written["figures"], arrays["decisions.figures"][i].tolist(), strict=True)),
            errors=dict(zip(written["errors"], arrays["decisions.errors"][i].tolist(), strict=True)),
            proof=None if proofs[i] is None else Proof(**proofs[i]),
            **{name: _scalar(arrays[f"decisions.{name}"][i]) for name in _DECISION_ARRAYS},
        )
        for i, label in enumerate(labels)
    )


def _scalar(value: Any) -> Any:
    """Convert a zero-dimensional array to a Python number."""
    return value if np.ndim(value) else value.item()


def _lost_noise(rng: np.random.Generator, n: int) -> Array:
    raise ValueError("the execution noise was a function, which a file does not keep; give the rule its own noise")


def _to_plain(value: Any) -> Any:
    """Convert numbers and arrays of numpy for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written to a file")


# --- what other programs read ------------------------------------------------------------------------------------


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of :meth:`gbce.Explanation.to_json`.

    Examples
    --------
    >>> sorted(json_schema()["properties"])[:3]
    ['answer', 'changes', 'counterfactuals']
    """
    found: dict[str, Any] = json.loads(files("gbce.files").joinpath("explanation.schema.json").read_text("utf-8"))
    return found


def log_mlflow(explanation: Explanation, folder: str) -> None:
    """Log an explanation to the active run of MLflow, see :meth:`gbce.Explanation.log_mlflow`."""
    try:
        mlflow = import_module("mlflow")
    except ImportError:
        raise ImportError("log_mlflow needs MLflow: pip install mlflow-skinny") from None
    with tempfile.TemporaryDirectory() as place:
        save(explanation, Path(place, "explanation.gbce"))
        explanation.to_json(Path(place, "explanation.json"))
        explanation.to_html(Path(place, "explorer.html"))
        explanation.counterfactuals.to_csv(Path(place, "counterfactuals.csv"))
        mlflow.log_artifacts(place, artifact_path=folder)
    answer, drawn = explanation.answer, explanation.draws.info.draws_posterior
    figures = {
        "gbce_success_probability": float(explanation.distribution["success_probability"]) if drawn else math.nan,
        "gbce_effective_draws": float(explanation.diagnostics["ess"]) if drawn else math.nan,
        "gbce_reached": math.nan if answer is None else float(answer.reached),
        "gbce_cost": math.nan if answer is None else answer.cost,
        "gbce_reliability": math.nan if answer is None or answer.reliability is None else answer.reliability.share,
    }
    mlflow.log_metrics({name: value for name, value in figures.items() if math.isfinite(value)})
