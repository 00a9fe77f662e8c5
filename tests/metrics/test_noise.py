"""Execution noise: in each feature's scale, only where something can move, never outside the space."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.metrics import evaluate_under_noise, offsets
from support.credit_book import HEAVY, NEVER_NEGATIVE, credit_book, worth
from support.scenes import scene_of

SPACE = gbce.Space(
    (
        gbce.Feature("a", scale=100.0),
        gbce.Feature("b", scale=2.0, mutable=False),
        gbce.Feature("c", high=0.5, direction="increase"),
    )
)


def test_offsets_are_in_each_features_scale_and_leave_immutable_ones_alone():
    shifts = offsets(0.1, SPACE, np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(shifts.std(axis=0), [10.0, 0.0, 0.1], rtol=0.02)
    by_name = offsets({"c": 3.0}, SPACE, np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(by_name.std(axis=0), [0.0, 0.0, 3.0], rtol=0.02)
    own = offsets(lambda rng, n: np.ones((n, 3)), SPACE, np.random.default_rng(0), 2)
    np.testing.assert_array_equal(own, [[1.0, 0.0, 1.0]] * 2)


def test_perturbed_rows_stay_inside_the_space():
    seen = []

    def model(x):
        seen.append(x)
        return x[:, 0]

    scene = scene_of(np.zeros((3, 3)), model=model, space=SPACE)
    shifts = offsets(5.0, SPACE, np.random.default_rng(0), 200)
    said = evaluate_under_noise(scene.posterior, SPACE, scene.draws.x, shifts)
    assert said.loss.shape == (3, 200, 1)
    assert seen[-1].shape == (600, 3)
    assert (seen[-1].min(axis=0)[2], seen[-1].max(axis=0)[2]) == pytest.approx((0.0, 0.5))


# --- noise that a column can have ---------------------------------------------------------------------------


def noisy_copies(space, book, noise, n=2_000):
    """Rows that a model is shown when the first rows of a book are carried out with errors."""
    seen = []

    def model(frame):
        seen.append(frame)
        return worth(frame)

    x0 = space.encode(book)[0]
    explainer = gbce.Explainer(model, book, space=space)
    explanation = explainer.explain(book.iloc[0], gbce.AtLeast(3.0), rules=[], seed=0)
    posterior = explainer._session.own_posterior(explanation, gbce.budget.Budget())
    seen.clear()
    shifts = offsets(noise, space, np.random.default_rng(0), n)
    evaluate_under_noise(posterior, space, x0[None, :], shifts)
    return pd.concat(seen), shifts


def test_noise_is_in_the_robust_unit_and_stays_within_what_a_column_can_be():
    book = credit_book()
    space = gbce.Space.infer(book)
    copies, shifts = noisy_copies(space, book, 3.0)
    for name in HEAVY:
        j = space.position[name]
        assert shifts[:, j].std() == pytest.approx(3.0 * space.scale[j], rel=0.1)
        assert shifts[:, j].std() < 0.05 * book[name].std()
    for name in NEVER_NEGATIVE:
        assert (copies[name].dropna() >= 0).all()
    assert copies["paid_share"].between(0, 1).all()
    assert set(copies["rate"]) == {1, 2, 3, 4}
    assert (copies["amount"] == np.round(copies["amount"])).all()
    assert (copies["job"] == book["job"][0]).all()
    assert copies["trades"].max() <= book["trades"].max()


def test_nothing_succeeds_by_a_jump_of_one_heavy_tailed_deviation():
    """A model that accepts absurd debt ratios: noise must not carry an ordinary row there."""
    book = credit_book()

    def accepts_the_absurd(frame):
        return (frame["debt_ratio"] > 200.0).astype(float)

    found = {}
    for scale in ("auto", "sd"):
        space = gbce.Space.infer(book[["debt_ratio", "balance"]], scale=scale)
        explainer = gbce.Explainer(accepts_the_absurd, book[["debt_ratio", "balance"]], space=space)
        row = book[["debt_ratio", "balance"]].sort_values("debt_ratio").iloc[300]
        explanation = explainer.explain(row, gbce.AtLeast(0.5), rules=[], seed=0)
        found[scale] = explainer.assess(explanation, row.to_frame().T)["robustness"].iloc[0]
    assert found["auto"] == 0.0
    assert found["sd"] > 0
