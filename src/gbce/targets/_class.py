"""Targets on classes, on several outputs at once, given as a loss function, or written by people in one string."""

import difflib
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, ClassVar

import numpy as np
from scipy.special import rel_entr

from gbce._validation import distinguish, is_number, require_finite, short, show
from gbce.base import Array, Outputs, Reading, Target
from gbce.space import require_writable
from gbce.targets._numeric import AtLeast, AtMost, Change, Numeric, Range, Value

# --- classes ---------------------------------------------------------------------------------------------------------

# Lower limit of a probability in a logarithm, so that the loss of a forest's p = 0 is 36 and not infinite; a
# convention: scikit-learn's log_loss clips doubles at the same number.
SMALLEST_PROBABILITY = np.finfo(float).eps
_OWN_DECISION = 0.5  # stands for the model's own decision: the usual threshold between two classes


@dataclass(frozen=True)
class Class(Target):
    """A decision for ``label``, loss ``-log p(label | x)``, or a probability of it in a range.

    Parameters
    ----------
    label : object
        One of the model's classes, as the model spells it.
    probability : float or pair of floats
        When it counts as reached. At 0.5 the model's own decision counts: its ``predict`` must return ``label``, so a
        tie that the model resolves the other way is not reached, and with three or more classes the most probable one
        wins. Any other value requires ``p(label | x) >= probability``. A pair ``(low, high)`` requires ``low <= p(label
        | x) <= high``, whatever ``predict`` returns.

    Notes
    -----
    The loss of a pair is the least Kullback-Leibler divergence of ``p`` from a probability in the range: zero inside,
    ``low * log(low / p) + (1 - low) * log((1 - low) / (1 - p))`` below it and the same with ``high`` above it. It
    increases with the distance on both sides, and the pair ``(1, 1)`` gives ``-log p`` again. Probabilities of zero and
    one are taken as 2e-16 away from them, so no loss is infinite.

    The loss of a decision keeps falling after it is reached, so a larger eta draws points that the model is more
    certain of. With ``probability=(0.5, 1)`` every point that reaches counts the same, and draws stay near the row.

    Examples
    --------
    >>> p = np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> outputs = Outputs(p, classes=("no", "yes"), decided=p.argmax(axis=1))
    >>> Class("yes").read(outputs).reached
    array([False,  True])
    >>> Class("yes", probability=(0.4, 0.6)).read(outputs).loss.round(3)
    array([0.   , 0.105])
    """

    reads_classes: ClassVar[bool] = True
    loss_from_zero: ClassVar[bool] = True

    label: Any
    probability: float | tuple[float, float] = field(default=_OWN_DECISION, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.label, (np.str_, np.number, np.bool_)):  # taken from model.classes_
            object.__setattr__(self, "label", self.label.item())
        require_writable([self.label], "Class: the label")
        if isinstance(self.probability, (tuple, list, np.ndarray)):
            object.__setattr__(self, "probability", _require_range(self.probability))
            return
        require_finite(self, "probability")
        if not 0 < self.probability <= 1:
            raise ValueError(f"Class: probability must be above 0 and at most 1, not {self.probability!r}")

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        values, decided, column = self._find_column(outputs)
        p = values[:, column]
        if isinstance(self.probability, tuple):
            low, high = self.probability
            inside = np.clip(p, 0.0, 1.0)  # room for rounding
            return Reading(p, _compute_divergence(inside, low, high), (low <= inside) & (inside <= high))
        loss = -np.log(np.clip(p, SMALLEST_PROBABILITY, 1.0))
        reached = decided == column if self.probability == _OWN_DECISION else p >= self.probability
        return Reading(p, loss, reached)

    @property
    def error(self) -> None:
        """None: the log loss already is a negative log likelihood."""
        return None

    def accepted(self) -> tuple[float, float]:
        """Return the lowest and the highest accepted probability of the label.

        At 0.5 and with three or more classes, this is stricter than a decision for it.
        """
        return self.probability if isinstance(self.probability, tuple) else (self.probability, np.inf)

    def _find_column(self, outputs: Outputs) -> tuple[Array, Array, int]:
        """Return values, decisions and the column of the label, or raise an error if there are no classes."""
        if outputs.classes is None or outputs.decided is None:
            raise TypeError(
                f"Class({self.label!r}) needs a classifier, but {outputs.model} returns numbers without classes: "
                "use gbce.Value, gbce.Range, gbce.AtLeast or gbce.AtMost"
            )
        return outputs.values, outputs.decided, find_class(self.label, outputs.classes, f"Class: {outputs.model}")

    def say(self, output: float, reached: bool) -> str:
        """Return a model's output for a row in words: its decision, or the probability of the label.

        Examples
        --------
        >>> Class("good").say(0.561, True)
        "says 'good' (probability 0.56)"
        """
        own = self.probability == _OWN_DECISION
        if reached and own:
            return f"says {self.label!r} (probability {format_probability(output)})"
        wanted = "" if own else f" (wanted: {self._describe_wanted()})"
        return f"gives {self.label!r} a probability of {format_probability(output)}{wanted}"

    def _describe_wanted(self) -> str:
        if isinstance(self.probability, tuple):
            return f"between {self.probability[0]:g} and {self.probability[1]:g}"
        return f"{self.probability:g} or more"

    def describe(self) -> str:
        """Return the target in a few words."""
        if isinstance(self.probability, tuple):
            low, high = self.probability
            return f"class {self.label!r} with probability between {low:g} and {high:g}"
        sure = "" if self.probability == _OWN_DECISION else f" with probability {self.probability:g} or more"
        return f"class {self.label!r}{sure}"


def find_class(label: Any, classes: tuple[Any, ...], model: str) -> int:
    """Return the position of a label among a model's classes, or raise an error that lists them."""
    for column, known in enumerate(classes):
        if known == label:
            return column
    spelled = {str(known): known for known in classes}
    near = difflib.get_close_matches(str(label), list(spelled), n=1)
    hint = f" Did you mean {spelled[near[0]]!r}?" if near else ""
    if not near and isinstance(label, str) and not any(isinstance(known, str) for known in classes):
        hint = " If its classes are codes, name them in their order: gbce.classifier(model, classes=[...])."
    raise ValueError(f"{model} never saw the label {label!r}; its classes are {list(classes)}.{hint}")


def format_probability(p: float) -> str:
    """Return a probability with two digits, or as many as distinguish it from one half, zero and one."""
    return next((text for n in (2, 3, 4) if float(text := f"{p:.{n}f}") not in (0.0, _OWN_DECISION, 1.0)), f"{p:.4g}")


def _require_range(pair: Any) -> tuple[float, float]:
    """Return a checked pair of probabilities."""
    if len(pair) != 2 or not all(is_number(end) and 0 <= end <= 1 for end in pair):
        raise ValueError(
            f"Class: probability must be one number or a pair (low, high) of numbers from 0 to 1, not {pair!r}"
        )
    low, high = float(pair[0]), float(pair[1])
    if low > high:
        strings = distinguish(low, high)
        raise ValueError(f"Class: probability has low = {strings[0]} above high = {strings[1]}; swap them")
    if low == 0 and high == 1:
        raise ValueError("Class: every probability lies between 0 and 1, so there is nothing to reach; narrow the pair")
    return low, high


def _compute_divergence(p: Array, low: float, high: float) -> Array:
    """Return the least Kullback-Leibler divergence of ``p`` ``(n,)`` from a probability between low and high."""
    wanted = np.clip(p, low, high)
    clipped = np.clip(p, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)
    loss = rel_entr(wanted, clipped) + rel_entr(1.0 - wanted, 1.0 - clipped)
    return np.where(wanted == p, 0.0, np.maximum(loss, 0.0))


# --- labels as targets -----------------------------------------------------------------------------------------------


def as_target(target: Any, classes: tuple[Any, ...] | None, model: str) -> Target:
    """Return a target unchanged, and a class label of the model as ``Class(label)``, spelled as the model does.

    ``classes`` are the labels of the first model, if it has any. Raises ``ValueError`` for a string that is not a
    class, ``TypeError`` for anything else; a number does not say whether more or less of it is wanted.
    """
    if isinstance(target, Target):
        return target
    label = target.item() if isinstance(target, np.generic) else target
    if classes is not None and isinstance(label, str):
        return Class(classes[find_class(label, classes, f"target: {model}")])
    if classes is not None and isinstance(label, Hashable) and not isinstance(label, type):
        for known in classes:
            # 1.0 may be meant as a probability if the class is 1
            if known == label and isinstance(label, float) <= isinstance(known, float):
                return Class(known)
        if isinstance(label, bool) and str(label) in classes:  # CatBoost names Boolean classes so
            return Class(str(label))
    if classes is not None and (is_number(label) or isinstance(label, (bool, bytes))):
        raise TypeError(
            f"target={show(target)} is not a class of {model}. Use one of {', '.join(map(repr, classes))}, or "
            "gbce.Class(label, probability=0.8)."
        )
    raise TypeError(
        f"target must be a gbce target such as gbce.AtLeast(10), not {show(target)}{_suggest(label, model)}"
    )


def _suggest(label: Any, model: str) -> str:
    """Return what could be written instead, as the rest of a sentence."""
    if is_number(label):
        limits = ", ".join(f"gbce.{name}({label!r})" for name in ("AtLeast", "AtMost"))
        return f": a number does not say what is wanted of the output; write {limits} or gbce.Value({label!r})"
    if isinstance(label, (str, bytes, bool)):
        return (
            f": {model} does not say which classes it has; gbce.classifier(model, classes=[...]) names them, and "
            "targets on a number are gbce.AtLeast, gbce.AtMost, gbce.Range, gbce.Value and gbce.Change"
        )
    return ""


# --- loss functions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss(Target):
    """Any loss that can be evaluated: ``function(outputs) -> (n,)``, reached when ``loss <= threshold``.

    Parameters
    ----------
    function : callable
        Takes the model's outputs, ``(n,)`` or ``(n, c)`` (class probabilities for a classifier), and returns one
        loss per row, which must not be NaN.
    threshold : float
        Largest loss that counts as reached, the paper's ε.

    Examples
    --------
    >>> import numpy as np
    >>> target = Loss(lambda f: np.abs(f - 2.0), threshold=0.1)
    >>> target.read(Outputs(np.array([2.05, 3.0]))).reached
    array([ True, False])
    """

    function: Callable[[Array], Array] | None = field(metadata={"file": None})  # files contain no code
    threshold: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise TypeError(f"Loss: function must be callable, not {self.function!r}")
        require_finite(self, "threshold")

    @property
    def readable(self) -> bool:
        """Whether the function is available; files do not contain it."""
        return self.function is not None

    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""
        if self.function is None:
            raise ValueError("this Loss came from a file, which contains no code; create it again with its function")
        loss = np.asarray(self.function(outputs.values.copy()), dtype=float)  # it may modify its argument
        n = len(outputs.values)
        if loss.shape != (n,):
            raise ValueError(f"Loss: the function must return one number per row, ({n},), not {loss.shape}")
        if np.isnan(loss).any():
            i = int(np.flatnonzero(np.isnan(loss))[0])
            raise ValueError(f"Loss: the function returned NaN for output {outputs.values[i]!r}")
        output = outputs.values if outputs.values.ndim == 1 else loss
        return Reading(output, loss, loss <= self.threshold)

    @property
    def error(self) -> str:
        """Undefined: no error turns a user-defined loss into a likelihood."""
        raise TypeError("ModelError does not know the units of a user-defined loss: give eta as a number")

    def describe(self) -> str:
        """Return the target in a few words."""
        return f"{getattr(self.function, '__name__', 'loss')} at most {short(self.threshold)}"


# --- several outputs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Multi(Target):
    """A target for each of several outputs: the loss is the sum of theirs, reached when all are.

    The model returns ``(n, c)`` numbers. Default scales and tolerances follow from the spread of each output on the
    data. The loss is shown as the output: zero if all are reached without a tolerance. The outputs themselves come from
    the model, e.g. ``model.predict(explanation.counterfactuals)``.

    Parameters
    ----------
    targets : mapping of int to target, or sequence of c targets
        Each a Value, Range, AtLeast, AtMost or Change. A mapping names outputs by position, from 0; a sequence has one
        entry for each, ``None`` for an output without a target.
    weights : mapping of int to float, or sequence of c floats, optional
        Weight of each loss in the sum; one by default.

    Examples
    --------
    >>> import gbce
    >>> target = Multi({0: gbce.AtLeast(3, scale=1, tolerance=0), 1: gbce.AtMost(5, scale=2, tolerance=0)})
    >>> target.describe()
    'output 0 at least 3, output 1 at most 5'
    >>> target.read(Outputs(np.array([[4.0, 5.0], [1.0, 7.0]])))
    Reading(output=array([0., 5.]), loss=array([0., 5.]), reached=array([ True, False]))
    """

    targets: Mapping[int, Target] | Sequence[Target | None]
    weights: Mapping[int, float] | Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _freeze(self.targets, "targets", "gbce.Multi({0: gbce.AtLeast(3)})"))
        for index, target in _iterate_entries(self.targets):
            if not isinstance(target, Numeric):
                raise TypeError(
                    f"Multi: the target of output {index} must be a Value, Range, AtLeast, AtMost or Change, not "
                    f"{target!r}; for a function of all outputs use gbce.Loss"
                )
        if not any(True for _ in _iterate_entries(self.targets)):
            raise ValueError("Multi: there is no target; give at least one, such as gbce.Multi({0: gbce.AtLeast(3)})")
        if self.weights is None:
            return
        object.__setattr__(self, "weights", _freeze(self.weights, "weights", "{0: 2.0}"))
        for index, weight in _iterate_entries(self.weights):
            if not is_number(weight) or not 0 < weight < np.inf:
                raise ValueError(f"Multi: the weight of output {index} must be a positive number, not {weight!r}")
        self._require_same_outputs()

    def _require_same_outputs(self) -> None:
        """Require weights to refer to outputs that have a target."""
        if isinstance(self.weights, tuple) and isinstance(self.targets, dict):
            raise ValueError("Multi: targets name their outputs, so weights must name them too, such as {0: 2.0}")
        if isinstance(self.weights, tuple) and len(self.weights) != len(self.targets):
            raise ValueError(
                f"Multi: weights has {len(self.weights)} entries, targets has {len(self.targets)}; give one for each"
            )
        if isinstance(self.weights, dict):
            lost = sorted(set(self.weights) - {index for index, _ in _iterate_entries(self.targets)})
            if lost:
                raise ValueError(f"Multi: output {lost[0]} has a weight but no target")

    @property
    def needs_spread(self) -> bool:
        """Whether a part uses a default scale or tolerance."""
        return any(target.needs_spread for _, target in _iterate_entries(self.targets))

    def resolve(self, spread: float | Array) -> "Multi":
        """Return the target with the defaults of each part filled in from the spread ``(c,)`` of its output."""
        each = np.atleast_1d(spread)
        return self._change_each(lambda i, target: target.resolve(each[i] if i < len(each) else 1.0))

    def bind(self, now: Outputs) -> "Multi":
        """Return the target with parts relative to the row made absolute."""
        values = self._require_values(now)
        return self._change_each(lambda i, target: target.bind(Outputs(values[:, i], model=now.model)))

    def read(self, outputs: Outputs) -> Reading:
        """Return loss, loss and reached for each row."""
        values = self._require_values(outputs)
        loss, reached = np.zeros(len(values)), np.ones(len(values), dtype=bool)
        for i, target in _iterate_entries(self.targets):
            part = target.read(Outputs(values[:, i], model=outputs.model))
            loss += self._get_weight(i) * part.loss
            reached &= part.reached
        return Reading(loss, loss, reached)

    @property
    def error(self) -> str:
        """Undefined: no single error applies to several outputs."""
        raise TypeError("ModelError measures one output, but gbce.Multi has several: give eta as a number")

    def describe(self) -> str:
        """Return the targets in a few words."""
        return ", ".join(f"output {i} {target.describe()}" for i, target in _iterate_entries(self.targets))

    def _get_weight(self, index: int) -> float:
        return 1.0 if self.weights is None else float(dict(_iterate_entries(self.weights)).get(index, 1.0))

    def _require_values(self, outputs: Outputs) -> Array:
        """Return the outputs ``(n, c)``, or raise an error if the targets do not fit them."""
        if outputs.classes is not None:
            raise TypeError(
                f"Multi needs numbers, but {outputs.model} is a classifier: use gbce.Class(label) with one of the "
                f"labels {list(outputs.classes)}"
            )
        values = outputs.values[:, None] if outputs.values.ndim == 1 else outputs.values
        c = values.shape[1]
        has = f"{outputs.model} returns {c} {'column' if c == 1 else 'columns'}"
        if isinstance(self.targets, tuple) and len(self.targets) != c:
            raise ValueError(
                f"Multi lists targets for {len(self.targets)}, but {has}: put None for outputs without a target, or "
                "name the outputs, as in gbce.Multi({0: gbce.AtLeast(3)})"
            )
        last = max(index for index, _ in _iterate_entries(self.targets))
        if last >= c:
            raise ValueError(f"Multi has a target for output {last}, but {has}; outputs are counted from 0")
        return values

    def _change_each(self, change: Callable[[int, Target], Target]) -> "Multi":
        def change_one(index: int, target: Target) -> Target:
            try:
                return change(index, target)
            except ValueError as error:
                raise ValueError(f"Multi, output {index}: {error}") from None

        parts = {index: change_one(index, target) for index, target in _iterate_entries(self.targets)}
        if isinstance(self.targets, dict):
            return replace(self, targets=parts)
        return replace(self, targets=[parts.get(index) for index in range(len(self.targets))])


def _freeze(given: Any, what: str, example: str) -> dict[int, Any] | tuple[Any, ...]:
    """Return an immutable copy: a dict in the order of outputs, or a tuple."""
    if isinstance(given, Mapping):
        for index in given:
            if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or index < 0:
                raise ValueError(f"Multi: {what} names the output {index!r}; outputs are integers from 0")
        return {int(index): given[index] for index in sorted(given)}
    if isinstance(given, (Target, str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"Multi: {what} must be a mapping or a sequence, such as {example}, not {given!r}")
    return tuple(given)


def _iterate_entries(kept: Any) -> Iterator[tuple[int, Any]]:
    """Yield position and entry of outputs that have one."""
    pairs = kept.items() if isinstance(kept, dict) else enumerate(kept)
    return ((index, entry) for index, entry in pairs if entry is not None)


# --- targets as people write them --------------------------------------------------------------------------------


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")
_LIMIT = re.compile(rf"(<=|≤|>=|≥|=)\s*({_NUMBER})")
_CHANGE = re.compile(r"([-+](?:\d+\.?\d*|\.\d+))(\s*%)?")
_ABOUT = re.compile(rf"=?\s*({_NUMBER})\s*(?:±|\+-|\+/-)\s*({_NUMBER})")
_SURE = re.compile(rf"(.+?)\s*(?:(?:>=|≥)\s*({_NUMBER})|(?:=|:)\s*({_NUMBER})\s*\.\.\s*({_NUMBER}))")


def parse_target(text: str, classes: tuple[Any, ...] | None) -> Any:
    """Return the target that a person wrote, for a model with ``classes``, or ``None`` for one that returns numbers."""
    text = text.strip()
    if classes is not None:
        return _parse_class(text, {str(label): label for label in classes})
    if found := _RANGE.fullmatch(text):
        return Range(float(found[1]), float(found[2]))
    if found := _ABOUT.fullmatch(text):
        return Value(float(found[1]), tolerance=float(found[2]))
    if found := _LIMIT.fullmatch(text):
        kind = Value if found[1] == "=" else AtMost if found[1] in "<=≤" else AtLeast
        return kind(float(found[2]))
    if found := _CHANGE.fullmatch(text):
        return Change(float(found[1]) / 100, relative=True) if found[2] else Change(float(found[1]))
    raise ValueError(
        f"the target {text!r} is not understood for a model that returns numbers: write '<=140', '>=10', '0.8..1', "
        "'140±5', '+10%' or '-5'; a classifier needs the names of its classes"
    )


def _parse_class(text: str, labels: dict[str, Any]) -> Class:
    """Return a target on a class, with a probability if one is given."""
    if text in labels:
        return Class(labels[text])
    listed = ", ".join(labels)
    if (found := _SURE.fullmatch(text)) and found[1] in labels:
        if found[2] is not None:
            return Class(labels[found[1]], probability=float(found[2]))
        return Class(labels[found[1]], probability=(float(found[3]), float(found[4])))
    near = get_close_matches(text, list(labels), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    some = next(iter(labels))
    raise ValueError(
        f"the target {text!r} is not a class of the model; its classes are {listed}.{hint} A probability is written "
        f"'{some}>=0.8' or '{some}=0.8..1'"
    )
