"""The random cases of benchmarks/unseen.py: exact sums against Monte Carlo from the prior, and how runs are judged."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

import gbce
from benchmarks import unseen
from benchmarks._exact_trees import boxes_of
from benchmarks._unseen_cases import make_case
from benchmarks._unseen_exact import Column

BUNDLED = ("diabetes", "breast cancer", "wine", "iris", "digits", "linnerud")  # no wheel is needed
LOW = np.array([-np.inf, -1.0, 0.5, 2.0, -7.0, -0.3, -np.inf, 1.0, 2.5])
HIGH = np.array([1.0, np.inf, 0.6, np.inf, -1.5, 2.0, np.inf, 1.0005, 2.5 + 1e-7])


def draw_from_prior(case, n, seed=0):
    """Draw from gbce's own prior: points, and their log weights against it."""
    frame = isinstance(case.data, pd.DataFrame)
    x0 = np.array([column.row for column in case.columns])
    prior = case.prior or (gbce.Sparse(moves=3) if frame else gbce.Gaussian())
    placed = prior.at(case.space, x0)
    drawn = placed.place(np.random.default_rng(seed).standard_normal((n, placed.dimension)))
    log_weights = np.zeros(n) - drawn.log_correction
    return drawn.x, log_weights - logsumexp(log_weights)


@pytest.mark.parametrize("index", range(15))
def test_exact_sums_agree_with_plain_draws_from_the_prior(index):
    case = make_case(1, index, BUNDLED)
    boxes = boxes_of(case.trees, len(case.columns))
    losses = case.read(boxes.points(case.space.scale)).loss
    # weights within exp(3) of each other: a leaf that no draw comes to has no say
    case = replace(case, eta=min(case.eta, 3.0 / max(np.ptp(losses), 1e-9)))
    x, log_prior = draw_from_prior(case, 40_000)
    read = case.read(x)
    log_weights = log_prior - case.eta * read.loss
    w = np.exp(log_weights - logsumexp(log_weights))
    ess = 1.0 / np.square(w).sum()
    exact = case.solve()
    change = np.abs(x - np.array([column.row for column in case.columns]))
    error = 6.0 / np.sqrt(ess)
    # the error of log Z is the relative one of the mean weight; the others' are those of ess independent draws
    assert abs(logsumexp(log_weights) - exact.log_evidence) <= error + 1e-9
    p = exact.success_probability
    assert abs(w @ read.reached - p) <= error * np.sqrt(p * (1 - p)) + 1e-9
    assert abs(w @ read.loss - exact.expected_loss) <= error * exact.loss_sd + 1e-9
    assert (np.abs(w @ change - exact.importance) <= error * exact.importance_sd + 1e-9 * exact.importance).all()
    moves = (x - x.mean(axis=0)) / case.space.scale
    spread = (w @ np.square(moves) - np.square(w @ moves)).sum()
    assert spread == pytest.approx(exact.stability, rel=4 * error)
    share = w @ (read.loss <= exact.quantile(0.9) * (1 + 1e-12))
    assert share >= 0.9 - error
    assert w @ (read.loss < exact.quantile(0.9) * (1 - 1e-12)) < 0.9 + error


@pytest.mark.parametrize("shape", ["normal", "laplace"])
@pytest.mark.parametrize("change", [None, 0.3])
def test_a_real_column_is_the_integral_of_its_density(shape, change):
    column = Column(row=0.5, low=-2.0, high=3.0, deviation=0.7, shape=shape, change=change)

    def density(x):
        t = (x - 0.5) / 0.7
        return np.exp(-0.5 * t * t if shape == "normal" else -abs(t))

    whole = quad(density, -2.0, 3.0, points=[0.5])[0]
    found = column.inside(LOW, HIGH)
    for i, (a, b) in enumerate(zip(np.clip(LOW, -2, 3), np.clip(HIGH, -2, 3), strict=True)):
        for power, got in ((0, 1.0), (1, found.size[i]), (2, found.square[i])):
            inner = [0.5] if a < 0.5 < b else None
            slab = quad(lambda x, k=power: abs(x - 0.5) ** k * density(x), a, b, points=inner)[0] / whole
            if change is not None:
                slab = change * slab + (1 - change) * (power == 0) * (LOW[i] < 0.5 <= HIGH[i])
            assert got * np.exp(found.log_mass[i]) == pytest.approx(slab, rel=1e-6, abs=1e-15)


def test_a_laplace_column_is_known_far_out():
    far = Column(row=0.0, low=-np.inf, high=np.inf, deviation=0.1, shape="laplace").inside(
        np.array([500.0, -np.inf]), np.array([np.inf, -500.0])
    )
    np.testing.assert_allclose(far.log_mass, -5_000.0 - np.log(2.0))
    np.testing.assert_allclose(far.size, 500.1)
    np.testing.assert_allclose(far.mean, [500.1, -500.1])


@pytest.mark.parametrize("change", [None, 0.3])
def test_whole_numbers_are_summed(change):
    column = Column(row=3.0, low=0.0, high=9.0, deviation=1.4, whole=True, change=change)
    values = np.arange(10.0)
    p = np.exp(-0.5 * np.square((values - 3) / 1.4))
    if change is not None:
        p[3] = 0.0
        p *= change / p.sum()
        p[3] = 1 - change
    p /= p.sum()
    low, high = np.array([-np.inf, 2.5, 3.5, 8.5, 11.0, 4.0]), np.array([np.inf, 4.5, 3.6, np.inf, 12.0, 6.0])
    found = column.inside(low, high)
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        inner = (values > a) & (values <= b)
        mass = p[inner].sum()
        assert np.exp(found.log_mass[i]) == pytest.approx(mass)
        assert found.size[i] * mass == pytest.approx(p[inner] @ np.abs(values[inner] - 3))
        assert found.mean[i] * mass == pytest.approx(p[inner] @ (values[inner] - 3))


def test_the_model_says_in_each_box_what_it_says_at_points_inside():
    for index in range(12):
        case = make_case(2, index, BUNDLED)
        boxes = boxes_of(case.trees, len(case.columns))
        x, _ = draw_from_prior(case, 50)
        inner = ((x[:, None] > boxes.low) & (x[:, None] <= boxes.high)).all(axis=2)
        assert (inner.sum(axis=1) == 1).all()
        in_box = case.read(boxes.points(case.space.scale)).loss[inner.argmax(axis=1)]
        np.testing.assert_array_equal(in_box, case.read(x).loss)


def test_a_case_is_the_same_whenever_it_is_made():
    first, again, other = make_case(3, 4, BUNDLED), make_case(3, 4, BUNDLED), make_case(3, 5, BUNDLED)
    assert first.facts == again.facts != other.facts
    np.testing.assert_array_equal(np.asarray(first.data), np.asarray(again.data))
    assert first.columns == again.columns
    one, two = unseen.run_case(3, 4, BUNDLED), unseen.run_case(3, 4, BUNDLED)
    assert one.pop("cpu s") >= 0 <= two.pop("cpu s")
    assert pd.Series(one).equals(pd.Series(two))
    assert "error" not in one


@pytest.fixture(scope="module")
def solved():
    """A case that gbce can sum up exactly, too."""
    case = next(
        case
        for case in (make_case(4, index, BUNDLED) for index in range(100))
        if not case.wrapped and case.facts["prior"].startswith("Laplace") and case.solve().loss_sd > 0.01
    )
    explanation, exact = case.explain(), case.solve()
    assert explanation.diagnostics["sampler"] == "ExactTrees"
    return explanation, exact


def judged(explanation, exact):
    return unseen.describe(explanation, unseen.judge(explanation, exact))


def test_right_figures_are_not_false(solved):
    line = judged(*solved)
    assert line["trusted"]
    assert line["false"] == line["zero se"] == ""


@pytest.mark.parametrize(
    ("figure", "wrong"),
    [
        ("SP", lambda e: {"success_probability": e.success_probability + 0.03}),
        ("log Z", lambda e: {"log_evidence": e.log_evidence - 0.11}),
        ("loss", lambda e: {"expected_loss": e.expected_loss * 1.04 + 0.03 * e.loss_sd}),
        ("stability", lambda e: {"stability": e.stability * 1.04}),
        ("importance", lambda e: {"importance": e.importance + 0.05 * e.importance_sd + 0.05 * e.importance}),
        ("tail", lambda e: {"losses": e.losses + 0.5}),
    ],
)
def test_a_wrong_figure_is_found_to_be_false(solved, figure, wrong):
    explanation, exact = solved
    line = judged(explanation, replace(exact, **wrong(exact)))
    assert line["false"] == line["zero se"] == figure


def test_a_stated_error_excuses_what_it_covers_and_no_number_nothing():
    assert not unseen.Figure(0.5, 0.03, 0.6, 0.12).false
    assert unseen.Figure(0.5, 0.01, 0.6, 0.04).false
    assert unseen.Figure(float("nan"), 0.01, 0.6, 0.04).false


def test_a_case_that_raises_is_a_line_and_counted():
    line = unseen.run_case(3, 4, ("no such table",))
    assert line["error"] == "KeyError: 'no such table'"
    good = unseen.run_case(3, 4, BUNDLED)
    wrong = good | {"case": 5, "trusted": True, "false": "SP; log Z"}
    lines = pd.DataFrame([{name: entry.get(name) for name in unseen.HEADER} for entry in (line, good, wrong)])
    table = unseen.tabulate(lines)
    assert "cases that raised: 1 of 3" in table
    assert "| all | 2 |" in table
    assert "1 of 2 (50.00%) | 1 | 1 | 0 |" in table
    assert unseen.list_false(lines).count("case 5") == 2


@pytest.mark.parametrize("index", [0, 1, 2, 5])
def test_a_case_of_coordinate_draws_is_run_and_covered(index):
    line = unseen.run_case(5, index, BUNDLED, coordinate=True)
    assert line.get("error") is None
    assert line["sampler"] == "GibbsTrees"
    assert line["false"] == ""
    assert unseen.Figure(0.5, 0.01, 0.51, 1.0).covered == 1.0
    assert unseen.Figure(0.5, 0.01, 0.53, 1.0).covered == 0.0
