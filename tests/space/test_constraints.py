"""A kind of constraint is one class: it is read, met by every draw, shown, and kept in a file."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.space import Constraint, _constraints, space_fields, space_of

RNG = np.random.default_rng(0)
DATA = pd.DataFrame(
    {"job": RNG.choice(["none", "clerk", "chef"], 200), "hours": RNG.choice([0, 20, 40], 200), "pay": RNG.random(200)}
)
ALLOWED = (("none", 0), ("clerk", 20), ("clerk", 40), ("chef", 40))


@dataclass(frozen=True)
class Pairs(Constraint):
    """Pairs of values of two columns that are allowed."""

    kind = "pairs"

    text: str
    columns: tuple[str, str]
    pairs: tuple[tuple[Any, Any], ...]

    @classmethod
    def parse(cls, given, names):
        if not isinstance(given, dict):
            return None
        ((columns, pairs),) = given.items()
        return cls(f"{' and '.join(columns)} fit together", columns, tuple(pairs))

    def holds(self, space, x):
        values = zip(*(space.values(name, x) for name in self.columns), strict=True)
        return np.array([pair in self.pairs for pair in values], dtype=bool)

    def to_json(self):
        return {"kind": self.kind, "text": self.text, "columns": list(self.columns), "pairs": list(self.pairs)}

    @classmethod
    def from_json(cls, written):
        return cls(written["text"], tuple(written["columns"]), tuple(map(tuple, written["pairs"])))


@pytest.fixture
def space(monkeypatch):
    monkeypatch.setattr(_constraints, "_KINDS", (Pairs, *_constraints._KINDS))
    given = {("job", "hours"): ALLOWED}
    return gbce.Space.infer(DATA, constraints=[given, "pay <= 0.9"], kinds={"hours": "ordinal"})


def test_a_new_kind_is_met_by_every_draw_and_decision(space):
    explainer = gbce.Explainer(lambda rows: rows["pay"] + rows["hours"] / 40, DATA, space=space)
    row = {"job": "none", "hours": 0, "pay": 0.2}
    wish = gbce.AtLeast(1.2, scale=0.1)
    explanation = explainer.explain(row, wish, rules=[gbce.MAP(), gbce.Mean()], seed=0)
    shown = pd.concat([space.frame(explanation.draws.x), explanation.counterfactuals])
    assert set(zip(shown["job"], shown["hours"].astype(int), strict=True)) <= set(ALLOWED)
    assert shown["job"].nunique() > 1


def test_a_new_kind_is_shown_and_refuses_rows(space):
    assert "job and hours fit together" in str(space)
    with pytest.raises(ValueError, match="the constraint 'job and hours fit together' does not hold"):
        space.encode_row({"job": "none", "hours": 40, "pay": 0.2})


def test_every_kind_comes_back_from_a_file(space):
    assert space_of(space_fields(space)) == space


def test_a_function_leaves_its_name_in_a_file():
    def cheap(frame):
        return frame["pay"] < 0.9

    space = gbce.Space.infer(DATA, constraints=cheap)
    (again,) = space_of(space_fields(space)).constraints
    assert again.text == "cheap"
    assert again.halfspaces() == []
    with pytest.raises(ValueError, match="was a function, and functions are not stored in files"):
        again.holds(space, space.encode(DATA))


# --- times -------------------------------------------------------------------------------------------------------

START = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(200), "D")
STAYS = pd.DataFrame(
    {"start": START, "end": START + pd.to_timedelta(RNG.integers(5, 90, 200), "D"), "pay": DATA["pay"]}
)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("least", [0, 50])
def test_times_of_a_constraint_are_counted_from_the_same_instant(zone, least):
    """Each column has its own first day: their counts alone would say that most stays end before they start."""
    frame = STAYS.assign(start=STAYS["start"].astype("datetime64[s]"))
    frame[["start", "end"]] = frame[["start", "end"]].apply(
        lambda column: column.dt.tz_localize("UTC").dt.tz_convert(zone)
    )
    space = gbce.Space.infer(frame, constraints=(f"end - start >= {least}",))
    assert (space.check(frame)["row"].tolist()) == np.flatnonzero(
        (STAYS["end"] - STAYS["start"]).dt.days < least
    ).tolist()
    pd.testing.assert_frame_equal(space.decode(space.encode(frame)), frame)
    x0 = space.encode(frame)[0] if least == 0 else space.encode(frame)[np.argmax(frame["end"] - frame["start"])]
    moved = space.decode(space.project(x0 + RNG.normal(size=(300, 3)) * 30 * space.scale, x0))
    assert ((moved["end"] - moved["start"]).dt.days >= least).all()


def test_times_are_computed_from_times():
    frame = STAYS.assign(days=(STAYS["end"] - STAYS["start"]).dt.days, due=STAYS["end"] + pd.Timedelta(days=30))
    space = gbce.Space.infer(frame, computed={"days": "end - start", "due": "end + 30"})
    assert len(space.check(frame)) == 0


@pytest.mark.parametrize(
    ("end", "rule", "sentence"),
    [
        (STAYS["end"] + pd.to_timedelta(np.arange(200), "h"), "start <= end", "which have different steps"),
        (STAYS["end"].dt.tz_localize("UTC"), "start <= end", "or only some a time zone"),
        (STAYS["end"], "if pay > 0.5 then end <= 100", r"relates the times \['end'\] to a number"),
        (STAYS["end"], "start + end <= pay", "relates the times"),
    ],
)
def test_times_that_have_no_common_count_are_refused(end, rule, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Space.infer(STAYS.assign(end=end), constraints=[rule])
