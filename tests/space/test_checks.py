"""All constraints of a space at once say what each of them says by itself."""

import pickle

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.space._constraints import as_constraints
from gbce.space._terms import Levels, term_of

RNG = np.random.default_rng(5)
N = 300
DATA = pd.DataFrame(
    {
        "job": RNG.choice(["none", "clerk", "chef"], N),
        "town": RNG.choice(["none", "York"], N),
        "grade": RNG.choice([1, 2, 5], N),
        "hours": RNG.integers(0, 40, N),
        "pay": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "rent": RNG.normal(size=N),
        "own money": RNG.random(N),
        "member": RNG.random(N) < 0.5,
    }
)
ON_NUMBERS = [
    "pay <= rent",
    "rent >= pay",
    "pay <= rent <= `own money`",
    "pay <= rent and rent <= hours",
    "pay < rent",
    "hours <= 30",
    "0 <= hours <= 30 or pay > 0.5",
    "pay <= 0.4 * rent + 0.1 * hours ** 2",
    "abs(pay) + sqrt(rent) <= max(hours, 3, rent)",
    "-pay <= +rent / hours",
    "not (pay <= rent) or hours in (1, 2, 3)",
    "if hours == 0 then pay <= 0",
    "(hours > 3) == (pay > 0)",
]
ON_LEVELS = [
    "job == 'none'",
    "job != 'none' or hours <= 20",
    "if job in ('none', 'chef') then hours <= 10",
    "if job not in ('none', 'chef') then pay <= rent",
    "grade <= 2",
    "2 * grade <= 4 and member == True",
    "member == False or rent > 0",
]
ON_VALUES_ONLY = ["job == town", "grade * 2 <= hours", "member", "1 <= 2", "hours", "not member"]


def encoded(space, shift=0):
    """Return rows of all kinds: as in the data, between, missing."""
    rng = np.random.default_rng(shift)
    x = space.encode(DATA)
    x = np.vstack([x, rng.permuted(x, axis=0), x[:1], x[:1]])
    x[-1, space.names.index("pay")] = np.nan
    ties = len(x) // 3
    x[:ties, space.names.index("pay")] = x[:ties, space.names.index("rent")] * (1 + 1e-16)
    return x


@pytest.fixture(scope="module")
def plain():
    return gbce.Space.infer(DATA, kinds={"grade": "ordinal"})


def space_with(plain, *texts):
    constraints = [constraint for text in texts for constraint in read(text)]
    return gbce.Space(plain.features, plain.columns, plain.codecs, constraints=tuple(constraints))


def read(text):
    return as_constraints([text], tuple(DATA.columns))


@pytest.mark.parametrize("text", ON_NUMBERS + ON_LEVELS + ON_VALUES_ONLY[:4])
def test_a_check_says_what_the_constraint_says(plain, text):
    space = space_with(plain, text)
    x = encoded(space)
    alone = space.constraints[0].holds(space, x)
    assert np.array_equal(space.checks(x), alone)
    assert 0 < alone.sum() < len(x) or text == "1 <= 2"


def test_all_at_once_say_what_all_say_one_by_one(plain):
    space = space_with(plain, *ON_NUMBERS, *ON_LEVELS)
    x = encoded(space, shift=1)
    one_by_one = np.logical_and.reduce([one.holds(space, x) for one in space.constraints])
    assert np.array_equal(space.admissible(x, x[0]), one_by_one)


def places(plain):
    return {f.name: Levels(j, f.levels) if f.leveled else j for j, f in enumerate(plain.features)}


@pytest.mark.parametrize(("texts", "quick"), [(ON_NUMBERS + ON_LEVELS, True), (ON_VALUES_ONLY, False)])
def test_texts_are_terms_where_encoded_rows_say_enough(plain, texts, quick):
    assert {text: term_of(text, places(plain)) is not None for text in texts} == dict.fromkeys(texts, quick)


def test_what_cannot_be_worked_out_still_says_why(plain):
    space = space_with(plain, "job <= 3 or hours <= 2")
    with pytest.raises(ValueError, match="mixes strings and numbers"):
        space.checks(encoded(space))
    space = space_with(plain, "hours")
    with pytest.raises(ValueError, match="must return True or False"):
        space.checks(encoded(space))


def test_checked_spaces_go_to_other_processes(plain):
    space = space_with(plain, *ON_NUMBERS, *ON_LEVELS, *ON_VALUES_ONLY[:3])
    x = encoded(space)
    here = space.checks(x)
    assert np.array_equal(pickle.loads(pickle.dumps(space)).checks(x), here)


def test_a_text_as_deep_as_may_be_is_worked_out(plain):
    deep = " + ".join(["pay"] * 250) + " <= 1e9"
    space = space_with(plain, deep)
    x = encoded(space)
    assert term_of(deep, places(plain)) is not None
    assert np.array_equal(space.checks(x), ~np.isnan(x[:, space.names.index("pay")]))


def test_features_in_no_constraint_go_all_the_way_at_once(plain):
    space = space_with(plain, "pay <= rent", "if job == 'none' then hours <= 10")
    bound = {"pay", "rent", "job", "hours"}
    assert {name for name, one in zip(space.names, space.is_bound, strict=True) if one} == bound
    x = encoded(space)
    x = x[~np.isnan(x).any(axis=1)]
    start = x[space.admissible(x, x[0])]
    x0, goal = start[0], np.random.default_rng(2).permuted(start, axis=0)
    moved = space.move_each(start, goal, x0)
    assert space.admissible(moved, x0).all()
    aim = space.project(goal, x0, toward=goal)
    free = [j for j, name in enumerate(space.names) if name not in bound]
    assert np.allclose(moved[:, free], aim[:, free], rtol=0, atol=1e-12)


def test_a_function_may_look_at_every_feature(plain):
    def rich(frame):
        return frame["pay"] > -9

    spaces = [
        gbce.Space.infer(DATA[["pay", "rent", "hours"]], constraints=[rich]),
        gbce.Space.infer(DATA[["pay", "rent", "hours"]], computed={"hours": lambda frame: frame["pay"]}),
    ]
    assert all(space.is_bound.all() for space in spaces)
