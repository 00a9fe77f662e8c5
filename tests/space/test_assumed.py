"""What is assumed of a table when nobody says otherwise: ranges, edges, robust units, and the note that says so."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.space import space_fields, space_of
from gbce.space._feature import robust_spread
from gbce.space._suggest import assume_bounds
from support.credit_book import HEAVY, N, credit_book

BOOK = credit_book()
ONE_HOT = {"branch": ["branch_a", "branch_b"]}


def bounds_of(space, name):
    feature = space.features[space.position[name]]
    return feature.low, feature.high


# --- how far columns go -------------------------------------------------------------------------------------


def test_every_sort_of_column_has_the_bounds_it_has_by_nature():
    space = gbce.Space.infer(BOOK, one_hot=ONE_HOT)
    for name in HEAVY:
        assert bounds_of(space, name) == (0.0, pytest.approx(1.1 * BOOK[name].max() - 0.1 * BOOK[name].min()))
    assert bounds_of(space, "trades") == (BOOK["trades"].min(), BOOK["trades"].max())
    assert bounds_of(space, "rate") == (1.0, 4.0)
    span = BOOK["amount"].max() - BOOK["amount"].min()
    assert bounds_of(space, "amount") == (0.0, BOOK["amount"].max() + np.floor(0.1 * span))
    least, most = BOOK["paid_share"].min(), BOOK["paid_share"].max()
    assert bounds_of(space, "paid_share") == (pytest.approx(max(least - 0.1 * (most - least), 0.0)), 1.0)
    margin = 0.1 * (BOOK["balance"].max() - BOOK["balance"].min())
    assert bounds_of(space, "balance") == pytest.approx(
        (BOOK["balance"].min() - margin, BOOK["balance"].max() + margin)
    )
    assert bounds_of(space, "owner") == bounds_of(space, "job") == bounds_of(space, "branch") == (None, None)
    days = (BOOK["since"].max() - BOOK["since"].min()).days
    feature, codec = space.features[space.position["since"]], space.codecs[space.position["since"]]
    first, last = codec.decode(np.array([feature.low, feature.high]))["since"]
    assert first == BOOK["since"].min() - pd.Timedelta(days=int(0.1 * days))
    assert last == BOOK["since"].max() + pd.Timedelta(days=int(0.1 * days))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("real", [-3.0, -1.0, -0.5], (-3.25, -0.25)),
        ("real", [-30.0, -1.0, -0.5], (-32.95, 0.0)),
        ("real", [0.2, 0.4, 0.95], (0.125, 1.0)),
        ("real", [0.4, 0.5, 0.6], (0.38, 0.62)),
        ("real", [0.0, 0.0, 1.0, 1.0], (0.0, 1.0)),
        ("real", [5.0, 5.0], (0.0, None)),
        ("real", [-5.0, -5.0], (None, 0.0)),
        ("real", [0.5, 0.5], (0.0, None)),
        ("integer", [1.0, 2.0, 4.0], (1.0, 4.0)),
        ("integer", list(range(30)), (0.0, 31.0)),
        ("integer", list(range(-30, 0)), (-32.0, 0.0)),
        ("datetime", [0.0, 10.0, 100.0], (-10.0, 110.0)),
        ("ordinal", [0.0, 1.0], (None, None)),
        ("real", [], (None, None)),
        ("real", [-1.7e308, 1.7e308], (None, None)),
    ],
)
def test_ranges_by_hand(kind, values, expected):
    span = assume_bounds(kind, np.array(values, dtype=float))
    assert span[:2] == tuple(end if end is None else pytest.approx(end) for end in expected)
    inside = [low is None or (np.array(values) >= low).all() for low in span[:1]]
    assert all(inside)


def test_few_values_are_few_only_if_they_come_back():
    """Whole numbers of a small sample say little about the ends; days of the month have ends, a count has none."""
    assert assume_bounds("real", np.arange(21.0))[:2] == (0.0, 22.0)
    assert assume_bounds("real", np.repeat(np.arange(24.0), 2))[:2] == (0.0, 23.0)
    assert assume_bounds("integer", np.repeat(np.arange(1.0, 32.0), 2))[:2] == (1.0, 31.0)
    assert assume_bounds("integer", np.repeat(np.arange(1.0, 33.0), 9))[:2] == (0.0, 35.0)
    assert assume_bounds("real", np.repeat(np.arange(20.0), 2) + 0.5)[:2] == (0.0, pytest.approx(21.4))


def test_bounds_that_were_given_are_strict_and_leave_the_others_alone():
    space = gbce.Space.infer(BOOK, bounds={"balance": (None, None), "amount": (100, None), "rate": (1, 3)})
    assert bounds_of(space, "balance") == (None, None)
    assert bounds_of(space, "amount") == (100.0, None)
    assert bounds_of(space, "rate") == (1.0, 3.0)
    assert bounds_of(space, "paid_share")[1] == 1.0
    stretched = {feature.name for feature in space.features if feature.stretch}
    assert {"paid_share", "utilisation", "since"} <= stretched
    assert not stretched & {"balance", "amount", "rate", "job", "owner"}
    row = BOOK.iloc[[0]].assign(rate=4)
    with pytest.raises(ValueError, match="'rate' = 4 lies above its bound 3"):
        space.encode_row(row)


def test_words_for_all_bounds():
    seen = gbce.Space.infer(BOOK, bounds="data")
    assert bounds_of(seen, "debt_ratio") == (BOOK["debt_ratio"].min(), BOOK["debt_ratio"].max())
    with pytest.raises(ValueError, match="lies above its bound"):
        seen.encode_row(BOOK.iloc[[0]].assign(debt_ratio=1e9))
    none = gbce.Space.infer(BOOK, bounds="none")
    assert {bounds_of(none, name) for name in none.names} == {(None, None)}
    assert not any(feature.stretch for feature in (*seen.features, *none.features))


def test_a_row_outside_of_what_was_assumed_fits_and_stretches_it():
    space = gbce.Space.infer(BOOK, one_hot=ONE_HOT, increase=["trades"])
    row = BOOK.iloc[[0]].assign(debt_ratio=-3.0, rate=9, paid_share=1.5, trades=99.0, since=pd.Timestamp("1990-01-01"))
    x0 = space.encode_row(row)
    assert space.check(row).empty
    low, high = space.limits(x0)
    for name, end in (("debt_ratio", low), ("since", low), ("rate", high), ("paid_share", high), ("trades", high)):
        assert end[space.position[name]] == x0[space.position[name]]
    assert (low[space.position["rate"]], low[space.position["trades"]]) == (1.0, 99.0)


def test_conditions_on_a_row_outside_of_what_was_assumed():
    book = BOOK[["balance", "rate"]]
    explainer = gbce.Explainer(lambda f: f["rate"] - 1e-4 * f["balance"], book, prior=gbce.Gaussian())
    row = book.iloc[[0]].assign(balance=9_000.0, rate=2)
    explanation = explainer.explain(row, gbce.AtLeast(2.5), rules=[gbce.MAP()], seed=0)
    again = explainer.given(explanation, at_least={"balance": 8_000.0})
    assert again.draws.frame()["balance"].between(8_000.0, 9_000.0).all()


def test_a_constant_column_that_may_move_has_room():
    space = gbce.Space.infer(BOOK, scale={"country": 10.0})
    assert bounds_of(space, "country") == (0.0, None)
    assert space.features[space.position["country"]].mutable


def test_what_is_computed_keeps_its_nature_but_has_no_range_of_its_own():
    frame = BOOK.assign(rest=BOOK["amount"] + 10.0 - BOOK["amount"] * BOOK["paid_share"])
    space = gbce.Space.infer(frame, computed={"rest": "amount + 10 - amount * paid_share"})
    assert bounds_of(space, "rest") == (0.0, None)
    x0 = space.encode(frame.iloc[[0]])[0]
    below = x0.copy()
    below[space.position["rest"]] = -5.0
    assert not space.admissible(below[None], x0)[0]
    assert space.admissible(below[None], below)[0]  # where the row lies outside, so may draws


def test_conditions_do_not_contradict_what_was_only_assumed():
    frame = pd.DataFrame({"a": np.linspace(0.0, 10.0, 50), "b": np.linspace(-5.0, 5.0, 50)})
    space = gbce.Space.infer(frame, constraints=["a >= 100"])
    assert space.encode_row({"a": 120.0, "b": 0.0}).tolist() == [120.0, 0.0]
    with pytest.raises(ValueError, match="no row can meet all of these at once"):
        gbce.Space.infer(frame, constraints=["a >= 100"], bounds={"a": (0, 11)})


def test_arrays_are_taken_as_they_are():
    numbers = BOOK.select_dtypes("number").drop(columns="income").to_numpy(dtype=float)
    space = gbce.Space.infer(numbers, immutable=["x12"])
    assert {(feature.low, feature.high, feature.stretch) for feature in space.features} == {(None, None, False)}
    np.testing.assert_array_equal(space.scale[:5], numbers.std(axis=0)[:5])
    assert space.assumed is None
    assert "Assumed" not in str(space)
    whole = gbce.Space.infer(BOOK[["amount", "rate"]].to_numpy())
    assert [bounds_of(whole, name) for name in whole.names] == [(0.0, None)] * 2


def test_frames_of_other_libraries_are_tables_too():
    pl = pytest.importorskip("polars")
    part = BOOK[["debt_ratio", "rate", "paid_share", "job"]]
    other, own = gbce.Space.infer(pl.DataFrame(part.to_dict("list"))), gbce.Space.infer(part)
    assert [bounds_of(other, name) for name in other.names] == [bounds_of(own, name) for name in own.names]
    np.testing.assert_array_equal(other.scale, own.scale)
    assert other.assumed == own.assumed


def test_files_keep_what_was_assumed_and_older_ones_can_be_read():
    space = gbce.Space.infer(BOOK)
    written = space_fields(space)
    assert space_of(written) == space
    for feature in written["features"]:
        del feature["stretch"]
    assert not any(feature.stretch for feature in space_of(written).features)


@pytest.mark.parametrize("stretch", [1, "yes", None])
def test_stretch_is_true_or_false(stretch):
    with pytest.raises(ValueError, match=f"feature 'a': stretch must be True or False, not {stretch!r}"):
        gbce.Feature("a", stretch=stretch)


# --- units --------------------------------------------------------------------------------------------------


def test_heavy_tails_have_a_robust_unit_and_nothing_else_has():
    space = gbce.Space.infer(BOOK, one_hot=ONE_HOT)
    for name in ("utilisation", "debt_ratio"):
        low, high = BOOK[name].quantile([0.25, 0.75])
        assert space.scale[space.position[name]] == pytest.approx((high - low) / 1.349)
        assert BOOK[name].std() > 100 * space.scale[space.position[name]]
    fees = BOOK["late_fees"][BOOK["late_fees"] > 0]
    assert space.scale[space.position["late_fees"]] == pytest.approx(1.4826 * fees.median())
    for name in ("trades", "amount", "income", "paid_share", "rate", "balance"):
        assert space.scale[space.position[name]] == pytest.approx(np.nanstd(BOOK[name]))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=N),
        lambda rng: rng.exponential(size=N),
        lambda rng: rng.lognormal(size=N),
        lambda rng: rng.standard_t(3, size=N),
        lambda rng: rng.poisson(0.3, size=N),
        lambda rng: np.where(rng.random(N) < 0.95, 0.0, rng.normal(50.0, 5.0, N)),
        lambda rng: np.where(rng.random(N) < 0.3, 0.0, rng.normal(50.0, 5.0, N)),
        lambda rng: (rng.random(N) < 0.02).astype(float),
    ],
    ids=["normal", "exponential", "lognormal", "Student", "rare counts", "rarely fifty", "often fifty", "rare flag"],
)
def test_ordinary_columns_are_measured_by_their_standard_deviation(draw):
    frame = pd.DataFrame({"a": draw(np.random.default_rng(1)), "b": np.arange(float(N))})
    np.testing.assert_allclose(gbce.Space.infer(frame).scale, frame.std(ddof=0))


def test_robust_spread_of_a_normal_law_is_its_standard_deviation():
    x = np.random.default_rng(2).normal(5.0, 3.0, 200_000)
    assert robust_spread(x) == pytest.approx(3.0, rel=0.02)  # the error of an interquartile range is 0.2% here
    x[:10] = 1e12
    assert robust_spread(x) == pytest.approx(3.0, rel=0.02)
    assert robust_spread(np.array([4.0, 4.0, np.nan])) == 0.0


def test_scales_that_were_asked_for_are_not_replaced():
    numbers = BOOK[["debt_ratio", "late_fees", "balance"]]
    np.testing.assert_allclose(gbce.Space.infer(numbers, scale="sd").scale, numbers.std(ddof=0))
    some = gbce.Space.infer(numbers, scale={"debt_ratio": 5.0})
    assert some.scale[0] == 5.0
    np.testing.assert_allclose(some.scale[1:], gbce.Space.infer(numbers).scale[1:])


def test_mad_takes_columns_that_are_mostly_zero():
    numbers = BOOK[["debt_ratio", "late_fees", "balance"]]
    for data in (numbers, numbers.to_numpy()):
        space = gbce.Space.infer(data, scale="mad")
        middle = numbers.sub(numbers.median()).abs().median()
        fees = numbers["late_fees"][numbers["late_fees"] > 0]
        np.testing.assert_allclose(space.scale, 1.4826 * np.array([middle.iloc[0], fees.median(), middle.iloc[2]]))
        name = space.names[1]
        assert f"ne value makes up most of {name!r}: the unit is the median distance of the others to it" in str(space)


# --- the note -----------------------------------------------------------------------------------------------


def test_one_note_says_what_was_assumed_and_how_to_change_it():
    space = gbce.Space.infer(BOOK, one_hot=ONE_HOT, immutable=["amount"])
    note = space.assumed.note()
    times = {name: BOOK[name].std(ddof=0) / space.scale[space.position[name]] for name in HEAVY}
    first, second, _ = sorted(HEAVY, key=lambda name: -times[name])
    assert note == (
        "Assumed: numbers may go up to 10% beyond the range seen in the data; 'utilisation', 'debt_ratio' and 2 more "
        "never go below 0; 'trades' and 'rate' stay within the values seen; 'paid_share' stays between 0 and 1. Set "
        f"`bounds=` to change this. The unit of {first!r}, {second!r} and 1 more is the spread of the middle half, "
        "or of the other values where one value is frequent, because the standard deviation is up to "
        f"{times[first]:,.0f} times that. Set `scale=` to change this."
    )


def test_nothing_is_said_where_nothing_was_assumed():
    assert gbce.Space.infer(BOOK, bounds="none", scale="sd").assumed.note() == ""
    assert gbce.Space.infer(BOOK[["job"]]).assumed.note() == ""
    space = gbce.Space.infer(BOOK, bounds={name: (None, None) for name in BOOK.select_dtypes("number").drop(
        columns=["owner", "branch_a", "branch_b"])} | {"since": (None, None)}, scale="sd")  # fmt: skip
    assert space.assumed.note() == ""


def test_the_note_is_short_whatever_the_number_of_columns():
    rng = np.random.default_rng(3)
    wide = pd.DataFrame({f"heavy{j}": rng.pareto(0.5, 200) for j in range(40)})
    wide = wide.assign(**{f"share{j}": rng.random(200) for j in range(40)})
    wide = wide.assign(**{f"rate{j}": rng.integers(1, 5, 200) for j in range(40)})
    note = gbce.Space.infer(wide).assumed.note()
    assert note.count(". ") + note.endswith(".") <= 4
    assert len(note) < 600
    assert "and 38 more" in note


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, 2.0, np.nan, 5.0, 1.0], "integer"),  # whole numbers with a gap, which pandas turned into floats
        ([0.0, 2.0, 3.0, 5.0, 1.0], "integer"),  # twenty of them
        ([0.5, 2.0, np.nan, 5.0, 1.0], "real"),
        ([0.5, 2.0, 3.0, 5.0, 1.0], "real"),
    ],
)
def test_floats_are_whole_numbers_where_all_of_them_are(values, kind):
    frame = pd.DataFrame({"dependents": values * 4, "income": np.linspace(1.5, 3.7, 20)})
    space = gbce.Space.infer(frame)
    assert space.features[0].kind == kind
    assert space.frame(space.encode(frame)).dtypes.tolist() == frame.dtypes.tolist()
    assert gbce.Space.infer(frame, kinds={"dependents": "real"}).features[0].kind == "real"
