"""Certificates: what an explanation claims about one row, as a small JSON file that anyone can check with the model.

Nothing in the file is believed: outputs, costs, reliability, safe ranges and proofs are computed again from the model
file and the stated row, bounds and rules.
"""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from gbce import __version__
from gbce._numerics import JUDGING, stream
from gbce._validation import printable
from gbce.base import Array, Target
from gbce.budget import Budget
from gbce.decisions import Nearest
from gbce.explainer import Explainer
from gbce.explanation import Explanation
from gbce.files import FileError, read_target, to_json, write_object
from gbce.metrics import costs, evaluate_under_noise, offsets
from gbce.pages import hash_content, receipt_of
from gbce.posterior import GibbsPosterior
from gbce.predictors import classifier, hash_model, load_model
from gbce.space import Space, plain_records, plain_value, space_fields, space_of
from gbce.trees import find_safe_ranges
from gbce.words._text import find_bound

_FORMAT = "gbce certificate 1"
_SAME = 1e-6  # relative difference of outputs and costs that another processor or library may cause
_TRIALS = 4_000  # fresh trials of a reliability: its standard error is at most 0.008
_SIGMAS = 4.0  # of both errors that a claimed reliability may be off: by chance once in 16,000 checks
_SLACK = 2e-3  # and of rounding, beyond that
_FEWEST = 1_000  # trials of a claimed reliability that allow for its own error: the default of ``Evaluation``
_PARTS = {"format", "model", "space", "target", "row", "answer", "noise", "safe", "proof", "seed", "made", "digest"}
_POINT = {"x", "values", "output", "reached"}
_KEYS = {  # of the parts, so that nothing stands in a certificate that is not checked
    "model": {"sha256", "name", "classes"}, "row": _POINT, "answer": _POINT | {"cost", "n_changes"},
    "noise": {"sd", "share", "low", "high", "n", "exact"}, "safe": {"features", "low", "high"},
    "proof": {"unattainable", "lower"}, "made": {"by", "receipt"},
}  # fmt: skip
_OPTIONAL = ("noise", "safe", "proof")


class CertificateError(ValueError):
    """A file that is not a certificate, or an explanation for which there can be none."""


class Result(StrEnum):
    """What a check found."""

    CONFIRMED = "confirmed"
    DENIED = "denied"
    UNKNOWN = "not checked"


@dataclass(frozen=True)
class Finding:
    """One claim of a certificate, and what a fresh computation found."""

    claim: str
    result: Result
    detail: str = ""

    CONFIRMED, DENIED, UNKNOWN = Result.CONFIRMED, Result.DENIED, Result.UNKNOWN

    def __str__(self) -> str:
        return printable(f"{self.result}: {self.claim}" + (f" ({self.detail})" if self.detail else ""))


@dataclass(frozen=True, eq=False)
class Certificate:
    """The claims of an explanation about one row, as plain data.

    Made by :meth:`gbce.Explanation.certificate`; ``gbce verify`` checks it on the command line.

    Parameters
    ----------
    content : dict
        Row, answer, target, bounds and rules, hash of the model file, reliability, safe range and proof; strict JSON.

    Examples
    --------
    >>> Certificate({"format": "something else"})
    Traceback (most recent call last):
        ...
    gbce.words._certificate.CertificateError: this is not a certificate written by gbce
    """

    content: dict[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.content, dict) or self.content.get("format") != _FORMAT:
            raise CertificateError("this is not a certificate written by gbce")
        if set(self.content) != _PARTS:
            raise CertificateError(f"the certificate is damaged: it must have the parts {sorted(_PARTS)}")
        for name, keys in _KEYS.items():
            part = self.content[name]
            if not (part is None and name in _OPTIONAL) and (not isinstance(part, dict) or set(part) != keys):
                raise CertificateError(f"the certificate is damaged: its part {name!r} must have {sorted(keys)}")

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate from a file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            return cls(json.loads(text, object_pairs_hook=_read_once))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise CertificateError(f"{path} is not a certificate: it is not JSON") from None

    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Return the certificate as strict JSON, or write it atomically to ``path`` and return the path."""
        return to_json(self.content, path)

    @property
    def digest(self) -> str:
        """SHA-256 of all that is claimed."""
        return hash_content({name: part for name, part in self.content.items() if name != "digest"})

    def check(self, model: str | Path, *, trust_pickle: bool = False) -> list[Finding]:
        """Check every claim against the model file alone.

        Parameters
        ----------
        model : str or Path
            The model file.
        trust_pickle : bool
            Whether a pickle may be loaded, which runs the code in it.

        Returns
        -------
        list of Finding
            One per claim: confirmed, denied, or not checked, with the reason.
        """
        if hash_model(model) != self.content["model"].get("sha256"):
            return [Finding("the model file is the one that the certificate names", Result.DENIED, "its hash differs")]
        loaded = load_model(model, trust_pickle=trust_pickle)
        try:
            claims = _Claims.read(self.content, loaded)
            found = [*claims.check_points(), *claims.check_reliability(), *claims.check_safe(), *claims.check_proof()]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            if isinstance(error, (FileError, CertificateError)):
                raise
            raise CertificateError(f"the certificate is damaged: {type(error).__name__} {error}") from None
        same = _compare("the certificate is unchanged since it was written", self.content["digest"] == self.digest,
                        "its digest differs")  # fmt: skip
        named = Finding("the model file is the one that the certificate names", Result.CONFIRMED)
        return [named, same, *found]


# --- making a certificate --------------------------------------------------------------------------------------------


def certify(
    explanation: Explanation,
    model: str | Path,
    *,
    classes: Any = None,
    trust_pickle: bool = False,
) -> Certificate:
    """Return the certificate of an explanation, see :meth:`gbce.Explanation.certificate`."""
    answer, space = explanation.answer, explanation.space
    if len(explanation.models) > 1:
        raise CertificateError(
            f"a certificate covers one model, but the row was explained with {len(explanation.models)}"
        )
    if answer is None:
        raise CertificateError("there is no answer to certify: the explainer has no policy, or no rule was applied")
    functions = [one for one in space.constraints if not one.to_json().get("text")] if space.constraints else []
    if any(one.function is not None for one in space.computed) or any(_is_function(one) for one in functions):
        raise CertificateError("a certificate cannot hold functions: write constraints and computed columns as text")
    content = {
        "format": _FORMAT,
        "model": {"sha256": hash_model(model), "name": explanation.models[0],
                  "classes": None if classes is None else list(classes)},
        "space": space_fields(space),
        "target": write_object(explanation.target),
        "row": _write_point(space, explanation.x0, float(explanation.row.outputs[0, 0]),
                            bool(explanation.row.reached[0, 0])),
        "answer": _write_point(space, answer.decision.x, float(answer.decision.outputs[0]), answer.reached)
        | {"cost": answer.cost, "n_changes": answer.n_changes},
        "noise": _write_noise(explanation),
        "safe": None if answer.safe is None else {
            "features": list(answer.safe.features), "low": _write_ends(answer.safe.low),
            "high": _write_ends(answer.safe.high),
        },
        "proof": _write_proof(explanation),
        "seed": str(explanation.seed),
        "made": {"by": f"gbce {__version__}", "receipt": hash_content(receipt_of(explanation))},
    }  # fmt: skip
    plain = json.loads(json.dumps(content, default=plain_value))
    made = Certificate(plain | {"digest": hash_content(plain)})
    denied = [one for one in made.check(model, trust_pickle=trust_pickle) if one.result == Result.DENIED]
    if denied:
        raise CertificateError(f"{model} does not confirm the explanation: {denied[0].claim}: {denied[0].detail}")
    return made


def _is_function(constraint: Any) -> bool:
    return callable(getattr(constraint, "function", None))


def _write_point(space: Space, x: Array, output: float, reached: bool) -> dict[str, Any]:
    values = plain_records(space.frame(x[None, :]).reset_index(drop=True))[0]
    return {"x": [None if np.isnan(one) else one for one in x.tolist()], "values": values, "output": output,
            "reached": reached}  # fmt: skip


def _write_ends(ends: Array) -> list[float | None]:
    return [float(end) if np.isfinite(end) else None for end in ends]


def _write_noise(explanation: Explanation) -> dict[str, Any] | None:
    """Return the execution noise and the reliability under it; None if there is none, or noise is a function."""
    answer, noise = explanation.answer, explanation.evaluation.noise
    if answer is None or answer.reliability is None or callable(noise) or not answer.reached:
        return None
    return {"sd": plain_value(noise), **answer.reliability._asdict()}


def _write_proof(explanation: Explanation) -> dict[str, Any] | None:
    """Return what is proved: that the target cannot be reached, or a lower bound on the cost."""
    if explanation.proof is not None:
        return {"unattainable": True, "lower": None}
    lower = find_bound(explanation)
    return None if lower is None else {"unattainable": False, "lower": lower}


# --- checking --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Claims:
    """The claims of a certificate beside the model that they are about."""

    content: dict[str, Any]
    space: Space
    target: Target
    x0: Array
    x: Array
    explainer: Explainer
    posterior: GibbsPosterior

    @classmethod
    def read(cls, content: dict[str, Any], model: Any) -> "_Claims":
        """Rebuild the question from plain data."""
        classes = content["model"]["classes"]
        model = model if classes is None else classifier(model, classes=classes)
        space, target = space_of(content["space"]), read_target(content["target"])
        x0, x = (_read_point(content[name]["x"], len(space)) for name in ("row", "answer"))
        if not target.readable:
            raise CertificateError("the target of the certificate cannot be rebuilt: it holds a function")
        explainer = Explainer(model, space.decode(np.vstack([x0, x])), space=space)
        session = explainer._session
        predictors, target = session.prepare(target, Budget())
        posterior = session.posterior_at(x0, predictors, target, Budget())
        return cls(content, space, target, x0, x, explainer, posterior)

    def check_points(self) -> list[Finding]:
        """Check values, outputs and verdicts of row and answer, and that the answer keeps to bounds and rules."""
        found = []
        for name, x in (("row", self.x0), ("answer", self.x)):
            claimed = self.content[name]
            own = _write_point(self.space, x, 0.0, False)["values"]
            found.append(_compare(f"the values of the {name} are those that the model was given",
                                  own == claimed["values"], "they differ"))  # fmt: skip
            evaluated = self.posterior.read(self.posterior.ask_alone(x[None, :]))
            output, reached = float(evaluated.outputs[0, 0]), bool(evaluated.reached[0, 0])
            verb = "reaches" if claimed["reached"] is True else "does not reach"
            found.append(_compare(
                f"the {name} {verb} the target ({self.target.describe()}), with output {claimed['output']:.6g}",
                reached is claimed["reached"] and _is_close(output, claimed["output"]),
                f"the model gives {output:.6g} and {'reaches' if reached else 'does not reach'} it",
            ))  # fmt: skip
        inside = bool(self.space.admissible(self.x[None, :], self.x0)[0])
        low, high = self.space.limits(self.x0)
        within = (self.x >= low) & (self.x <= high) | np.isnan(self.x) | self.space.is_computed
        wrong = [self.space.names[j] for j in np.flatnonzero(~within)]
        found.append(_compare("the answer keeps to the stated bounds, directions and rules", inside and not wrong,
                              ", ".join(wrong) or "a rule is broken"))  # fmt: skip
        changed = int((self.space.changed(self.x[None, :], self.x0)[0] & ~self.space.is_computed).sum())
        cost = float(costs(self.space, self.x[None, :], self.x0, "l1")[0])
        claimed = self.content["answer"]
        columns, own = (f"{n} column{'s' * (n != 1)}" for n in (claimed["n_changes"], changed))
        found.append(_compare(
            f"the answer changes {columns} at a cost of {claimed['cost']:.6g}",
            type(claimed["n_changes"]) is int and changed == claimed["n_changes"] and _is_close(cost, claimed["cost"]),
            f"{own}, {cost:.6g}",
        ))  # fmt: skip
        return found

    def check_reliability(self) -> list[Finding]:
        """Check the reliability by fresh trials."""
        claimed = self.content["noise"]
        if claimed is None:
            return []
        stated, n = float(claimed["share"]), int(claimed["n"])
        if type(claimed["exact"]) is not bool or not float(claimed["low"]) <= stated <= float(claimed["high"]):
            raise ValueError("a reliability lies within its interval, and is exact or not")
        shifts = offsets(claimed["sd"], self.space, stream(0, JUDGING, (1,)), _TRIALS)
        trials = evaluate_under_noise(self.posterior, self.space, self.x[None, :], shifts, first_only=True)
        share = float(trials.reached.mean())
        spread, gap = max(stated * (1 - stated), share * (1 - share)), abs(share - stated)
        known = 0.0 if claimed["exact"] else 1.0 / max(n, _FEWEST)
        result, sd = Result.DENIED, " ".join(f"{one:g}" for one in np.ravel(claimed["sd"]))
        if gap <= _SIGMAS * sqrt(spread * (1.0 / _TRIALS + known)) + _SLACK:
            result = Result.CONFIRMED
        elif not claimed["exact"] and 0 < n < _FEWEST and gap <= _SIGMAS * sqrt(spread * (1.0 / _TRIALS + 1.0 / n)):
            result = Result.UNKNOWN  # too few trials were made to tell
        claim = f"it still reaches the target with probability {stated:.3f} under noise of {sd} scales of each column"
        return [Finding(claim, result, f"{share:.3f} in {_TRIALS:,} fresh trials")]

    def check_safe(self) -> list[Finding]:
        """Check that every row in the stated ranges is proved to reach the target."""
        claimed = self.content["safe"]
        if claimed is None:
            return []
        text = f"every value of {', '.join(claimed['features'])} in the stated ranges reaches the target"
        if not len(claimed["features"]) == len(claimed["low"]) == len(claimed["high"]) > 0:
            raise ValueError("a range has two ends for each of its columns")
        trees = self.posterior.read_trees()
        if trees is None or (self.target.reads_classes and self.posterior.predictors[0].decide_always):
            return [Finding(text, Result.UNKNOWN, "the model cannot be read as trees")]
        which = np.array([self.space.position[name] for name in claimed["features"]], dtype=int)
        low = np.array([-np.inf if end is None else end for end in claimed["low"]])
        high = np.array([np.inf if end is None else end for end in claimed["high"]])
        inside = self._prove_box(which, low, high)
        return [_compare(text, inside, "that is not proved")]

    def _prove_box(self, which: Array, low: Array, high: Array) -> bool:
        """Whether ranges ``(c,)`` lie within those that are proved around the answer."""
        if not ((low <= self.x[which]) & (self.x[which] <= high)).all():
            return False
        changed = np.flatnonzero(self.space.changed(self.x[None, :], self.x0)[0] & ~self.space.is_computed)
        trees = self.posterior.read_trees()
        for columns in (which, changed):
            found = None if trees is None else find_safe_ranges(
                trees, self.space, self.x0, self.x, self.target, columns, self.space.constraints
            )  # fmt: skip
            if found is None:
                continue
            known = {int(j): (a, b) for j, a, b in zip(found.features, found.low, found.high, strict=True)}
            ends = [known.get(int(j), (self.x[j], self.x[j])) for j in which]
            if all(a <= one and other <= b for (a, b), one, other in zip(ends, low, high, strict=True)):
                return True
        return False

    def check_proof(self) -> list[Finding]:
        """Check a proof by finding it again."""
        claimed = self.content["proof"]
        if claimed is None:
            return []
        if type(claimed["unattainable"]) is not bool or not (claimed["unattainable"] or np.isfinite(claimed["lower"])):
            raise ValueError("a proof says that nothing reaches the target, or has a bound")
        row = self.space.frame(self.x0[None, :]).iloc[0]
        fresh = self.explainer.explain(row, replace_bound(self.target), rules=[Nearest(prove=True)], posterior=False,
                                       seed=0, progress=False)  # fmt: skip
        if claimed["unattainable"]:
            text = "no row within the stated bounds reaches the target"
            if fresh.proof is not None:
                return [Finding(text, Result.CONFIRMED)]
            if any(one.reached[0] for one in fresh.decisions):
                return [Finding(text, Result.DENIED, "a row that reaches it was found")]
            return [Finding(text, Result.UNKNOWN, "the proof was not found again")]
        lower = float(claimed["lower"])
        text = f"no row within the stated bounds reaches the target at a cost below {lower:.6g}"
        proofs = [one.proof for one in fresh.decisions if one.proof is not None and one.proof.lower is not None]
        if any((one.lower or 0.0) >= lower * (1 - _SAME) for one in proofs):
            return [Finding(text, Result.CONFIRMED)]
        cheaper = [one for one in fresh.decisions if one.reached[0]]
        least = min((float(costs(self.space, one.x[None, :], self.x0, "l1")[0]) for one in cheaper), default=np.inf)
        if least < lower * (1 - _SAME):
            return [Finding(text, Result.DENIED, f"a row at a cost of {least:.6g} was found")]
        return [Finding(text, Result.UNKNOWN, "only a lower bound below it was proved")]


def _read_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; programs differ in which of two equal names they read."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise CertificateError("the certificate is damaged: a name stands in it twice")
    return found


def replace_bound(target: Target) -> Target:
    """Return a resolved target as it is asked again: what it says about its origin is left out."""
    return replace(target, because="") if hasattr(target, "because") else target  # type: ignore[type-var]


def _read_point(x: Any, d: int) -> Array:
    point = np.array([np.nan if one is None else one for one in x], dtype=float)
    if point.shape != (d,):
        raise ValueError(f"a point has {len(point)} numbers, and there are {d} features")
    return point


def _is_close(a: float, b: Any) -> bool:
    return isinstance(b, (int, float)) and bool(np.isclose(a, b, rtol=_SAME, atol=_SAME))


def _compare(claim: str, holds: bool, otherwise: str) -> Finding:
    return Finding(claim, Result.CONFIRMED) if holds else Finding(claim, Result.DENIED, otherwise)
