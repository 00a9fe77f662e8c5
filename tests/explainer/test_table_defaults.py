"""A table that nobody says anything about: few columns change, and none to what it cannot be."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier

import gbce
from support.credit_book import credit_book, impossible_values, worth

BOOK = credit_book()
RULES = [gbce.MAP(), gbce.Mean(), gbce.Medoid(), gbce.CVaR(n_perturb=8), gbce.ChanceConstrained()]
ONE_HOT = {"branch": ["branch_a", "branch_b"]}
SMALL = gbce.SMC(n_candidates=1_500, n_draws=300)


def all_points(explanation):
    """Everything the explanation looked at or offers, in the user's columns."""
    points = np.vstack([explanation.draws.pool.x, *(decision.x for decision in explanation.decisions)])
    return explanation.space.frame(points)


# --- the prior ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "moves"), [(1, 0.5), (3, 1.5), (6, 3.0), (10, 3.0), (100, 3.0)])
def test_about_three_columns_move_however_many_there_are(d, moves):
    data = np.random.default_rng(0).normal(size=(200, d))
    explainer = gbce.Explainer(lambda f: f.to_numpy()[:, 0], pd.DataFrame(data, columns=[f"c{j}" for j in range(d)]))
    assert explainer._session.prior == gbce.Sparse(moves=3.0)
    n = 40_000
    x = explainer._session.prior.at(explainer.space, data[0]).place(np.random.default_rng(1).standard_normal((n, d))).x
    moved = (x != data[0]).sum(axis=1)
    assert moved.mean() == pytest.approx(moves, abs=4 * np.sqrt(moves / n))


def test_columns_that_cannot_move_do_not_count():
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 30)), columns=[f"c{j}" for j in range(30)])
    space = gbce.Space.infer(data, immutable=[f"c{j}" for j in range(22)])
    x0 = data.iloc[0].to_numpy()
    x = gbce.Sparse(moves=2).at(space, x0).place(np.random.default_rng(1).standard_normal((40_000, 8))).x
    assert (x != x0).sum(axis=1).mean() == pytest.approx(2.0, abs=4 * np.sqrt(2.0 / 40_000))


@pytest.mark.parametrize("moves", [0, -1.0, float("nan"), float("inf"), "three", True])
def test_moves_is_a_number_of_features(moves):
    with pytest.raises(ValueError, match="Sparse: moves must be a number of features above 0, or None"):
        gbce.Sparse(moves=moves)


def priors_of(data, space=None, prior=None):
    return gbce.Explainer(lambda f: np.asarray(f)[:, 0], data, space=space, prior=prior)._session.prior


def test_where_the_prior_is_sparse_and_where_the_papers_gaussian():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=list("abc"))
    sparse = gbce.Sparse(moves=3.0)
    assert priors_of(frame) == sparse
    assert priors_of(frame, gbce.Space.infer(frame)) == sparse
    assert priors_of(frame, gbce.Space.infer(frame, bounds="none", scale="raw")) == sparse
    by_hand = gbce.Space((gbce.Feature("a", low=0), gbce.Feature("b"), gbce.Feature("c", mutable=False)))
    assert priors_of(frame.abs(), by_hand) == sparse
    real = gbce.Space.real(list("abc"))
    assert priors_of(frame.to_numpy()) == priors_of(frame, real) == gbce.Gaussian()
    adopted = gbce.Explainer(lambda f: f["a"], frame, space=real).space
    assert priors_of(frame, adopted) == gbce.Gaussian()  # used again, it is still the paper's
    assert priors_of(frame.to_numpy(), gbce.Space.infer(frame.to_numpy(), bounds={"x1": (-9, 9)})) == gbce.Gaussian()
    assert priors_of(frame, prior=gbce.Laplace()) == gbce.Laplace()


# --- what columns can be ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "options"),
    [(gbce.Gaussian(), {}), (None, {"one_hot": ONE_HOT, "constraints": ["amount <= 9000"]})],
    ids=["Gaussian", "default with more"],
)
def test_no_draw_and_no_decision_is_what_a_column_cannot_be(prior, options):
    """The score rises where debts turn negative, shares exceed one and rates four: with room, draws go there."""
    book = BOOK[BOOK["amount"] <= 9_000]
    space = gbce.Space.infer(book, **options)
    explainer = gbce.Explainer(worth, book, space=space, prior=prior, sampler=SMALL)
    for i in (1, 2):
        row = book.iloc[i]
        wish = gbce.AtLeast(float(worth(book.iloc[[i]])[0]) + 1.0)
        explanation = explainer.explain(book.iloc[[i]], wish, rules=RULES, seed=i)
        seen = all_points(explanation)
        bad = impossible_values(seen.assign(branch_a=0, branch_b=0) if not options else seen, row)
        assert bad == []


def test_with_room_draws_go_to_what_a_column_cannot_be():
    book = BOOK[BOOK["amount"] <= 9_000]
    open_space = gbce.Space.infer(book, bounds="none", scale="sd")
    free = gbce.Explainer(worth, book, space=open_space, prior=gbce.Gaussian(), sampler=SMALL)
    loose = free.explain(book.iloc[[1]], gbce.AtLeast(4.0), rules=[], seed=0)
    assert {"utilisation", "debt_ratio", "trades", "rate"} <= set(impossible_values(all_points(loose), book.iloc[1]))


def test_what_is_computed_stays_what_it_can_be():
    book = BOOK[["amount", "paid_share", "debt_ratio"]].assign(rest=lambda f: 40_000.0 - f["amount"])
    space = gbce.Space.infer(
        book, computed={"rest": "40000 - amount"}, bounds={"amount": (0, None)}, scale={"amount": 2e4}
    )
    explainer = gbce.Explainer(lambda f: f["amount"] / 1_000.0, book, space=space, sampler=SMALL)
    seen = all_points(explainer.explain(book.iloc[0], gbce.AtLeast(60.0), rules=[gbce.MAP()], seed=0))
    assert (seen["rest"] >= 0).all()
    np.testing.assert_allclose(seen["rest"], 40_000.0 - seen["amount"])
    assert seen["amount"].max() > 30_000


def test_a_row_outside_of_the_data_is_explained():
    row = BOOK.iloc[[0]].assign(debt_ratio=-2.0, rate=7, paid_share=1.2, since=pd.Timestamp("1999-01-01"), amount=10**6)
    explainer = gbce.Explainer(worth, BOOK, sampler=SMALL)
    explanation = explainer.explain(row, gbce.AtLeast(float(worth(row)[0]) + 0.5), rules=RULES, seed=0)
    seen = all_points(explanation)
    assert seen["rate"].between(1, 7).all()
    assert seen["debt_ratio"].min() >= -2.0
    assert seen["paid_share"].between(0, 1.2).all()
    assert seen["amount"].max() <= 10**6
    table = explainer.explain_many(row, gbce.AtLeast(2.0), rules=[gbce.MAP()], seed=0, progress=False)
    assert table.diagnostics["status"].tolist() != ["failed"]


@pytest.mark.parametrize("load", [load_diabetes, load_breast_cancer])
def test_real_tables_stay_within_a_tenth_of_their_range(load):
    X, y = load(return_X_y=True, as_frame=True)
    good = y > y.median() if load is load_diabetes else y == 1
    model = RandomForestClassifier(20, min_samples_leaf=3, random_state=0).fit(X, good)
    explainer = gbce.Explainer(model, X, sampler=SMALL)
    row = X[~model.predict(X)].iloc[0]
    explanation = explainer.explain(row, gbce.Class(True), rules=[gbce.MAP(), gbce.ChanceConstrained()], seed=0)
    seen, margin = all_points(explanation), 0.1 * (X.max() - X.min())
    assert (seen.ge(X.min() - margin - 1e-12) & seen.le(X.max() + margin + 1e-12)).all(axis=None)
    never_negative = X.columns[X.min() >= 0]
    assert (seen[never_negative] >= 0).all(axis=None)


# --- the note -----------------------------------------------------------------------------------------------


def test_the_explanation_says_once_what_was_assumed():
    quick = {"rules": ["Nearest"], "seed": 0, "posterior": False}
    explainer = gbce.Explainer(worth, BOOK, sampler=SMALL)
    explanation = explainer.explain(BOOK.iloc[0], gbce.AtLeast(3.0), **quick)
    notes = [note for note in explanation.notes if note.startswith("Assumed: ")]
    assert len(notes) == 1
    assert "about three columns change. Set `prior=`" in notes[0]
    for option in ("prior=", "bounds=", "scale="):
        assert notes[0].count(option) == 1
    assert notes[0].count(". ") == 5
    given = gbce.Explainer(worth, BOOK, prior=gbce.Gaussian(), sampler=SMALL)
    assert "prior=" not in " ".join(given.explain(BOOK.iloc[0], gbce.AtLeast(3.0), **quick).notes)
    space = gbce.Space.infer(BOOK, bounds="none", scale="sd")
    said = gbce.Explainer(worth, BOOK, space=space, prior=gbce.Gaussian(), sampler=SMALL)
    assert "Assumed" not in " ".join(said.explain(BOOK.iloc[0], gbce.AtLeast(3.0), **quick).notes)


def test_arrays_have_no_such_note():
    data = np.random.default_rng(0).normal(size=(50, 2))
    explanation = gbce.Explainer(lambda x: x[:, 0], data, sampler=SMALL).explain(data[0], gbce.AtLeast(1.0), seed=0)
    assert "Assumed" not in " ".join(explanation.notes)
