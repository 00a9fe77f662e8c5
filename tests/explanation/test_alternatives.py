"""Strategies of posteriors whose modes and masses are known exactly."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import gbce
from gbce.metrics import costs
from support.laws import within

WIDTH = 0.4  # of each mode, against a prior of width one: then its weights are bounded


def mixture_case(d, share, gap=1.0, sampler=None, seed=0):
    """An explanation whose posterior is ``share * N(+gap) + (1 - share) * N(-gap)`` along the first column."""
    centres = np.zeros((2, d))
    centres[:, 0] = gap, -gap

    def lost(x):
        squares = np.square(x[:, None, :] - centres).sum(axis=2)
        log_mixture = logsumexp(np.log([share, 1 - share]) - 0.5 * squares / WIDTH**2, axis=1) - d * np.log(WIDTH)
        return -0.5 * np.square(x).sum(axis=1) - log_mixture

    wish = gbce.Loss(lambda outputs: outputs, threshold=0.0)
    explainer = gbce.Explainer(
        lost, np.zeros((3, d)) + np.arange(3)[:, None], space=gbce.Space.real(d), sampler=sampler
    )
    return explainer.explain(np.zeros(d), wish, rules=[], seed=seed)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("sampler", [None, gbce.SMC(1_000, 3_200, n_islands=16, max_looks=0)])
def test_two_modes_have_the_masses_of_a_known_mixture(d, sampler):
    explanation = mixture_case(d, 0.7, gap=1.2, sampler=sampler)
    found = explanation.alternatives()
    table = found.table
    assert len(found) == 2
    errors = within(explanation.draws)
    assert (np.abs(table["mass"] - [0.7, 0.3]) < errors * table["mass_se"]).all()
    assert (table["mass_se"] < 0.04).all()
    assert table["x1"].gt(0).tolist() == [True, False]
    assert found.other == pytest.approx(0.0, abs=1e-6)
    assert table["ess"].sum() <= explanation.diagnostics["ess"] * 1.001


@pytest.mark.parametrize("d", [2, 10])
def test_one_cluster_is_one_strategy(d):
    w = np.ones(d) / np.sqrt(d)
    explainer = gbce.Explainer(lambda x: x @ w, np.eye(d), space=gbce.Space.real(d))
    explanation = explainer.explain(np.zeros(d), gbce.Value(1.5, scale=1, tolerance=0.5), rules=[gbce.MAP()], seed=0)
    found = explanation.alternatives(5)
    assert found.table["mass"].tolist() == pytest.approx([1.0])
    assert found.other == pytest.approx(0.0, abs=1e-9)


def sparse_case(d=6, change=0.2, seed=0, rules=()):
    """Three of ``d`` columns matter; one of them is enough."""
    explainer = gbce.Explainer(
        lambda x: x[:, 0] + x[:, 1] - x[:, 2],
        np.random.default_rng(0).normal(size=(200, d)),
        space=gbce.Space.real(d),
        prior=gbce.Sparse(change=change),
        sampler=gbce.Importance(60_000, 2_000),
    )
    return explainer.explain(np.zeros(d), gbce.AtLeast(2.0, scale=0.2), rules=list(rules), seed=seed)


def strategy_masses(change):
    """Exact mass of each set of moves of the three columns, which help or harm; the output is a sum of half normals."""
    s, loss = np.linspace(-12, 12, 4_801), lambda f: np.square(np.maximum(2.0 - f, 0) / 0.2)
    step = s[1] - s[0]
    up = np.where(s > 0, norm.pdf(s), 0.0)  # each useful move, as what it adds to the output
    down = np.where(s < 0, norm.pdf(s), 0.0)
    masses = {}
    for useful in range(4):  # how many of the three move the useful way, and the others either not or the other way
        for harmful in range(4 - useful):
            density = np.zeros_like(s)
            density[len(s) // 2] = 1.0 / step
            for one in [up] * useful + [down] * harmful:
                density = np.convolve(density, one, mode="same") * step
            masses[useful, harmful] = (
                change ** (useful + harmful) * (1 - change) ** (3 - useful - harmful)
                * step * float(density @ np.exp(-loss(s)))
            )  # fmt: skip
    total = sum(
        mass * {(0, 0): 1, (1, 0): 3, (0, 1): 3, (2, 0): 3, (0, 2): 3, (1, 1): 6, (3, 0): 1, (0, 3): 1, (2, 1): 3,
                (1, 2): 3}[key]
        for key, mass in masses.items()
    )  # fmt: skip
    return {key: mass / total for key, mass in masses.items()}


@pytest.mark.parametrize("d", [3, 12])
def test_a_sparse_linear_case_lists_the_columns_that_do_it_by_themselves(d):
    explanation = sparse_case(d)
    found = explanation.alternatives(7)
    exact = strategy_masses(0.2)
    moved = [
        frozenset(np.flatnonzero(np.abs(x[:3]) > 0)) for x in found.table[list(explanation.space.names)].to_numpy()
    ]
    assert {frozenset({0}), frozenset({1}), frozenset({2})} <= set(moved)
    assert len(moved) == len(set(moved))
    for line, own in zip(found.table.itertuples(), moved, strict=True):
        if len(own) == 1:
            # alone, or with another column that moves the way that does not help
            useful = exact[1, 0] + 2 * exact[1, 1] + exact[1, 2]
            assert abs(line.mass - useful) < 4 * line.mass_se
            assert line.reached
    assert found.table["mass"].sum() + found.other == pytest.approx(1.0)


def test_a_strategy_is_shown_by_the_cheapest_known_point_that_reaches():
    explanation = sparse_case(4, rules=[gbce.MAP()])
    known = explanation.draws.known
    cost = costs(explanation.space, known.x, explanation.x0, "l1")
    single = explanation.alternatives(7).table
    for line in single.itertuples():
        x = np.array([getattr(line, name) for name in explanation.space.names])
        up = x != 0
        if up.sum() == 1:
            same = ((known.x != 0) == up).all(axis=1) & (np.sign(known.x) == np.sign(x)).all(axis=1)
            assert line.cost <= cost[same & known.reached[:, 0]].min() + 1e-12
        assert line.output >= 2.0


@pytest.fixture(scope="module")
def of_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.gamma(4, 700, 300),
            "age": rng.integers(20, 70, 300),
            "job": rng.choice(["none", "clerk", "skilled"], 300),
            "mass": rng.normal(size=300),
        }
    )

    def score(table):
        return ((table["income"] - 2_500) / 600 + 2.0 * (table["job"] == "skilled")).to_numpy(dtype=float)

    explainer = gbce.Explainer(score, frame, prior=gbce.Gaussian(), eta=2.0)
    row = {"income": 1_800.0, "age": 40, "job": "none", "mass": 0.0}
    return explainer, explainer.explain(row, gbce.AtLeast(1.0, scale=0.5), rules=[gbce.MAP()], seed=0)


def test_levels_part_strategies_and_columns_that_do_not_matter_do_not(of_table):
    _, explanation = of_table
    found = explanation.alternatives(5)
    table = found.table
    jobs = explanation.shares("job")["posterior"]
    assert table["job"].tolist().count("skilled") == 1
    by_job = table.groupby("job")["mass"].sum()
    assert by_job["skilled"] == pytest.approx(jobs["skilled"], abs=4 * table["mass_se"].max())
    assert len(found) == 2
    assert table["mass (column)"].dtype == float
    assert table["age"].dtype == explanation.counterfactuals["age"].dtype


def test_they_read_well(of_table):
    _, explanation = of_table
    found = explanation.alternatives()
    lines = str(found).splitlines()
    assert lines[0].startswith("1. ")
    assert "income from 1,800" in lines[0] + lines[1]
    assert "change job from 'none' to 'skilled'" in str(found)
    assert lines[-1].startswith("other: 0%")
    assert list(found) == found.sentences == found.table["sentence"].tolist()
    html = found._repr_html_()
    assert "<table" in html
    assert "change job" in html


def test_what_is_beyond_k_is_other():
    explanation = sparse_case(4)
    every, one = explanation.alternatives(9), explanation.alternatives(1)
    assert len(one) == 1
    assert one.table["mass"].iloc[0] == every.table["mass"].iloc[0]
    assert one.other == pytest.approx(1.0 - one.table["mass"].iloc[0])
    assert one.other_se == pytest.approx(one.table["mass_se"].iloc[0])
    assert (every.table["mass"] >= 0.05).all()


def test_a_strategy_that_never_reaches_comes_last_and_says_so():
    def model(x):
        return np.where(x[:, 0] > 0, np.minimum(x[:, 0], 1.2), 0.4 * np.minimum(-x[:, 0], 1.2))

    explainer = gbce.Explainer(model, np.random.default_rng(0).normal(size=(50, 1)), space=gbce.Space.real(1), eta=40.0)
    explanation = explainer.explain([-0.1], gbce.AtLeast(1.0, scale=3.0), rules=[], seed=0)
    table = explanation.alternatives().table
    assert table["reached"].tolist() == [True, False]
    assert "predicts 0.48 (wanted: at least 1)" in table["sentence"].iloc[1]
    assert table["success"].iloc[1] < 1e-3 < 0.5 < table["success"].iloc[0]


def test_the_same_question_has_the_same_answer_and_files_keep_it(of_table, tmp_path):
    explainer, explanation = of_table
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    pd.testing.assert_frame_equal(again.alternatives().table, explanation.alternatives().table)
    given = explanation.given(keep=["job"])
    assert set(given.alternatives().table["job"]) == {"none"}
    assert len(explainer.given(explanation, exactly={"job": "skilled"}).alternatives()) == 1


@pytest.mark.parametrize("k", [0, -1, 2.5, "three", True])
def test_k_is_a_number_of_strategies(of_table, k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        of_table[1].alternatives(k)


def test_draws_that_are_too_few_are_refused():
    explainer = gbce.Explainer(
        lambda x: x.sum(axis=1), np.eye(2), space=gbce.Space.real(2), sampler=gbce.Importance(120, 100)
    )
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=0.3), rules=[], seed=0)
    with pytest.raises(ValueError, match=r"too few effective draws for alternatives: .*, and 100 are needed"):
        explanation.alternatives()
