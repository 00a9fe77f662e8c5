"""Explanations in files: one zip of arrays and JSON. Reading one never runs code from it."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np

import gbce.decisions
import gbce.targets
from gbce._archive import Archive, FileError, TooLargeError, write_archive
from gbce._checks import is_number
from gbce._durable import whole_file
from gbce._soundness import require_sound
from gbce._values import read_value, write_value
from gbce._weights import Array
from gbce.decisions import Rule
from gbce.draws import Draws, Points
from gbce.explanation import Decision, Explanation
from gbce.metrics import Evaluation
from gbce.posterior import Combine, Entropic, Mixture
from gbce.space import space_fields, space_of
from gbce.targets import Class, Target

__all__ = ["FileError", "load", "save"]

FORMAT = 5
_READ = (3, 4, 5)  # before format 4, islands were taken to know nothing of each other
_SUMMED = 5  # from this format on, the manifest knows the checksums of the arrays
_TARGETS = ("AtLeast", "AtMost", "Class", "Loss", "Multi", "Range", "Value")
_RULES = (
    "MAP", "CVaR", "ChanceConstrained", "DirectOpt", "DiverseSet", "GeometricMedian", "Mean", "Medoid", "RandomDraw",
)  # fmt: skip
_POINTS = tuple(f.name for f in fields(Points))
_DECISION = tuple(f.name for f in fields(Decision) if f.name != "label")
_DRAWS = ("pool_weights", "index", "weights", "prior_change", "base")
_NEEDED = (
    *(f"{room}.{name}" for room in ("pool", "row") for name in _POINTS),
    *(f"draws.{name}" for name in _DRAWS),
    *(f"decisions.{name}" for name in _DECISION),
    "mixture.weights",
)
_POSSIBLE = ("draws.groups",)


def save(explanation: Explanation, path: str | Path) -> Path:
    """Write an explanation to ``path``, whole or not at all.

    It is on the disk when this returns. Functions are not kept: a :class:`gbce.Loss` comes back without its function,
    and a noise given as a function comes back as one that says it is gone.
    """
    path = Path(path)
    with whole_file(path) as file:
        write_archive(file, _manifest(explanation), _arrays(explanation), _plain)
    return path


def load(path: str | Path, *, max_bytes: int | None = None) -> Explanation:
    """Read an explanation that :meth:`gbce.Explanation.save` wrote.

    A file may come from anybody: nothing in it is run, no more of it is unpacked than ``max_bytes``, and what it holds
    is checked.

    Parameters
    ----------
    path : str or Path
        The file.
    max_bytes : int, optional
        How much it may take in memory; 500 MB, or ten times the size of the file if that is more, when left out.

    Returns
    -------
    Explanation
        With the same numbers to the last bit. It carries no model.

    Raises
    ------
    gbce.FileError
        If the file is not an explanation, is damaged, too large, or of a later format; it is a ``ValueError``.
    OSError
        If there is no such file, or it may not be read.

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
    with Path(path).open("rb") as file:
        # zipfile, numpy and json fail on rubbish in a dozen ways of their own; here they all mean the same
        try:
            archive = Archive(file, max_bytes)
        except TooLargeError as error:
            raise FileError(f"{path} is too large: {error}") from None
        except Exception as error:
            raise FileError(f"{path} is not an explanation written by gbce: {error}") from error
        found = archive.manifest.get("format")
        if found not in _READ:
            raise FileError(f"{path} has format {found!r}; this version of gbce reads formats up to {FORMAT}")
        try:
            arrays = archive.arrays(_NEEDED, _POSSIBLE, summed=found >= _SUMMED)
            explanation = _rebuilt(archive.manifest, arrays)
            require_sound(explanation)
        except Exception as error:
            raise FileError(f"{path} is damaged: {type(error).__name__} {error}") from error
    return explanation


def _arrays(explanation: Explanation) -> dict[str, Array]:
    draws = explanation.draws
    arrays = {f"pool.{name}": getattr(draws.pool, name) for name in _POINTS}
    arrays |= {f"row.{name}": getattr(explanation.row, name) for name in _POINTS}
    arrays |= {f"draws.{name}": getattr(draws, name) for name in _DRAWS}
    if draws.groups is not None:
        arrays["draws.groups"] = draws.groups
    for name in _DECISION:
        arrays[f"decisions.{name}"] = np.array([getattr(decision, name) for decision in explanation.decisions])
    arrays["mixture.weights"] = explanation.mixture.weights
    return arrays


def _manifest(explanation: Explanation) -> dict[str, Any]:
    draws, space = explanation.draws, explanation.space
    evaluation = {f.name: getattr(explanation.evaluation, f.name) for f in fields(Evaluation)}
    if callable(evaluation["noise"]):
        evaluation["noise"] = None
    return {
        "format": FORMAT,
        "space": space_fields(space),
        "target": _described(explanation.target, drop=("function",)),
        "models": explanation.models,
        "identities": explanation.identities,
        "mixture": {"eta": explanation.mixture.eta, "combine": _combine_written(explanation.mixture.combine)},
        "evaluation": evaluation,
        "rules": [_described(rule) for rule in explanation.rules if not callable(getattr(rule, "noise", None))],
        "seed": explanation.seed,
        "draws": {
            "resampled": draws.resampled,
            "log_evidence": draws.log_evidence,
            "log_evidence_se": draws.log_evidence_se,
            "rungs": draws.rungs,
            "facts": dict(draws.facts),
            "tied": draws.tied,
        },
        "labels": [decision.label for decision in explanation.decisions],
        "status": explanation.status,
        "notes": explanation.notes,
        "n_model_calls": explanation.n_model_calls,
        "n_model_rows": explanation.n_model_rows,
        "calibration": dict(explanation.calibration),
    }


def _combine_written(combine: Combine) -> Any:
    return {"t": float(combine.t)} if isinstance(combine, Entropic) else combine


def _combine_read(written: Any) -> Combine:
    return Entropic(written["t"]) if isinstance(written, dict) else written


def _described(thing: Target | Rule, drop: tuple[str, ...] = ()) -> dict[str, Any]:
    options = {f.name: getattr(thing, f.name) for f in fields(thing) if f.name not in drop}  # type: ignore[arg-type]
    if isinstance(thing, Class):
        options["label"] = write_value(thing.label)
    return {"type": type(thing).__name__, "options": options}


def _rebuilt(manifest: dict[str, Any], arrays: dict[str, Array]) -> Explanation:
    evaluation = manifest["evaluation"]
    if evaluation["noise"] is None:
        evaluation["noise"] = _lost_noise
    draws = Draws(
        pool=_points(arrays, "pool"),
        **cast(dict[str, Any], {name: arrays[f"draws.{name}"] for name in _DRAWS}),
        groups=arrays.get("draws.groups"),
        **manifest["draws"] | {"rungs": tuple(manifest["draws"]["rungs"])},
    )
    return Explanation(
        space=space_of(manifest["space"]),
        target=_target(manifest["target"]),
        models=tuple(manifest["models"]),
        identities=tuple(manifest.get("identities", ())),  # files from before there were any have none
        mixture=Mixture(
            manifest["mixture"]["eta"], arrays["mixture.weights"], _combine_read(manifest["mixture"]["combine"])
        ),
        evaluation=Evaluation(**evaluation),
        rules=tuple(_rule(described) for described in manifest["rules"]),
        seed=manifest["seed"],
        row=_points(arrays, "row"),
        draws=draws,
        decisions=_decisions(manifest["labels"], arrays),
        status=manifest["status"],
        notes=tuple(manifest["notes"]),
        n_model_calls=manifest["n_model_calls"],
        n_model_rows=manifest["n_model_rows"],
        calibration=manifest["calibration"],
    )


def _points(arrays: dict[str, Array], prefix: str) -> Points:
    return Points(**{name: arrays[f"{prefix}.{name}"] for name in _POINTS})


def _decisions(labels: list[str], arrays: dict[str, Array]) -> tuple[Decision, ...]:
    for name in _DECISION:
        if len(arrays[f"decisions.{name}"]) != len(labels):
            raise ValueError(f"there are {len(labels)} decisions, but {name} of {len(arrays[f'decisions.{name}'])}")
    return tuple(_decision(label, arrays, i) for i, label in enumerate(labels))


def _decision(label: str, arrays: dict[str, Array], i: int) -> Decision:
    values = {name: arrays[f"decisions.{name}"][i] for name in _DECISION}
    plain: dict[str, Any] = {name: value if value.ndim else float(value) for name, value in values.items()}
    return Decision(label, **plain)


def _target(described: dict[str, Any]) -> Target:
    if described["type"] not in _TARGETS:
        raise KeyError(f"unknown target {described['type']!r}")
    options = dict(described["options"])
    if described["type"] == "Class":
        options["label"] = read_value(options["label"])
    if described["type"] == "Loss":
        options["function"] = None
    if described["type"] == "Multi":
        options = {"targets": _by_output(options["targets"], _target), "weights": _by_output(options["weights"], float)}
    target: Target = getattr(gbce.targets, described["type"])(**options)
    return target


def _by_output(written: Any, read: Callable[[Any], Any]) -> Any:
    """Read what was written for each output, by name or in order."""
    if isinstance(written, dict):
        return {int(index): None if entry is None else read(entry) for index, entry in written.items()}
    return None if written is None else [None if entry is None else read(entry) for entry in written]


def _rule(described: dict[str, Any]) -> Rule:
    if described["type"] not in _RULES:
        raise KeyError(f"unknown rule {described['type']!r}")
    rule: Rule = getattr(gbce.decisions, described["type"])(**described["options"])
    return rule


def _lost_noise(rng: np.random.Generator, n: int) -> Array:
    raise ValueError("the execution noise was a function, which a file does not keep; give the rule a noise of its own")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Target):
        return _described(value)
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written to a file")
