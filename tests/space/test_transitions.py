"""Forbidden transitions between levels: kept by priors, samplers, searches, rules and tree readers, and stored."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import gbce
from gbce.priors import column_distributions
from gbce.search import values_to_try

STATUS = ["single", "married", "divorced", "widowed"]
NEVER = ["never status 'married' -> 'single'", "never status any -> 'widowed'", "never member True -> False"]


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "status": rng.choice(STATUS, n),
            "member": rng.random(n) < 0.5,
            "income": rng.integers(10, 30, n),
            "debt": rng.integers(0, 10, n),
        }
    )


DATA = people()
SPACE = gbce.Space.infer(DATA, constraints=[*NEVER, "debt <= income"])
FREE = gbce.Space.infer(DATA)  # without any rule
TIED = gbce.Space.infer(DATA, constraints=NEVER)
ROW = DATA[(DATA["status"] == "married") & DATA["member"]].iloc[0]
LEVELS = TIED.features[0].levels
BARRED = [float(LEVELS.index(level)) for level in ("single", "widowed")]


def wanted(frame):
    """What the model accepts: above all what the row may not become."""
    lure = frame["status"].isin(["single", "widowed"]) * 3.0 + (frame["status"] == "divorced") + ~frame["member"] * 3.0
    return (lure + frame["income"] / 10 - frame["debt"] / 5 > 2.6).to_numpy().astype(int)


FOREST = make_pipeline(
    OrdinalEncoder().set_output(transform="pandas"), RandomForestClassifier(20, max_depth=6, random_state=0)
).fit(DATA, wanted(DATA))


def keeps(x):
    return not np.isin(x[:, 0], BARRED).any() and bool((x[:, 1] == 1.0).all())


def test_transitions_are_read_and_printed_as_they_could_be_given():
    printed = [line.strip() for line in str(SPACE).splitlines() if line.startswith("  never")]
    assert printed[1] == "never status 'married' -> 'single', 'widowed'"
    assert len(printed) == 4
    again = gbce.Space.infer(DATA, constraints=[*printed, "debt <= income"])
    assert again.features == SPACE.features
    assert len(SPACE.constraints) == 1
    assert gbce.Space.infer(DATA, constraints=NEVER[0]).features[0].forbidden == ((1, 2),)
    spaced = gbce.Space.infer(
        DATA.rename(columns={"status": "marital status"}), constraints="never `marital status` any -> 'single'"
    )
    assert len(spaced.features[0].forbidden) == 3
    assert "never `marital status` 'divorced' -> 'single'" in str(spaced)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("never status 'maried' -> 'single'", "no level 'maried'; its levels are 'divorced'"),
        ("never rank 'a' -> 'b'", "'rank', which is not a column"),
        ("never income 3 -> 4", "'income' is integer, .* increase="),
        ("never status married -> single", "is not a list of levels"),
    ],
)
def test_a_transition_that_makes_no_sense_is_a_sentence(text, problem):
    with pytest.raises(ValueError, match=problem):
        gbce.Space.infer(DATA, constraints=[text])
    with pytest.raises(ValueError, match="pairs of different positions"):
        gbce.Feature("a", "categorical", levels=["p", "q"], forbidden=[(0, 2)])


def test_points_return_to_the_row_where_they_may_not_go():
    x0 = TIED.encode_row(ROW)
    assert TIED.free(x0).tolist() == [0, 2, 3]  # a member stays one
    x = np.array(list(product(range(4), range(2), [15.0], [3.0])))
    assert keeps(TIED.project(x, x0))
    assert np.unique(TIED.project(x, x0)[:, 0]).tolist() == [0.0, 1.0]
    single = TIED.encode_row(ROW.to_dict() | {"status": "single", "member": False})
    assert np.unique(TIED.project(x, single)[:, :2], axis=0).tolist() == [[a, b] for a in (0, 1, 2) for b in (0, 1)]
    assert 0.0 in values_to_try(TIED, x0, TIED.encode(DATA))[0]
    assert not np.isin(BARRED, values_to_try(TIED, x0, x)[0]).any()


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Laplace(2.0), gbce.Gaussian(categories="uniform")])
def test_the_prior_is_that_without_transitions_truncated(prior):
    x0 = TIED.encode_row(ROW)
    own, free = (column_distributions(prior.at(space, x0))[0] for space in (TIED, FREE))
    share = {value: np.exp(log) for value, log in zip(free.values, free.log_values, strict=True) if value not in BARRED}
    expected = {value: one / sum(share.values()) for value, one in share.items()}
    assert dict(zip(own.values, np.exp(own.log_values), strict=True)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prior", "sampler"),
    [
        (None, None),  # the cells of the forest
        (None, gbce.GibbsTrees(n_draws=300)),
        (None, gbce.SMC(n_draws=300)),
        (gbce.NearData(gbce.Gaussian()), gbce.SMC(n_draws=300)),
        (gbce.Laplace(), gbce.Importance(n_candidates=2_000, n_draws=300)),
        (gbce.Gaussian(), gbce.Chains(n_chains=10, n_steps=100)),
        (gbce.DistancePrior(lambda x, row: np.abs(x - row).sum(axis=1)), gbce.Importance(n_candidates=2_000)),
    ],
)
def test_no_draw_no_search_and_no_rule_makes_a_forbidden_transition(prior, sampler):
    space = TIED if sampler is None or isinstance(sampler, gbce.GibbsTrees) else SPACE
    explainer = gbce.Explainer(FOREST, DATA, space=space, prior=prior, sampler=sampler, eta=4.0)
    found = explainer.explain(ROW, 1, rules=["Nearest", "MAP", gbce.RandomDraw(3)], seed=0)
    assert keeps(found.draws.pool.x)
    assert keeps(found.draws.known.x)
    assert keeps(np.array([one.x for one in (*found.decisions, found.answer.decision)]))


def test_other_models_and_the_search_alone_keep_transitions():
    model = make_pipeline(OrdinalEncoder(), LogisticRegression()).fit(DATA, wanted(DATA))
    found = gbce.Explainer(model, DATA, space=SPACE).explain(ROW, 1, seed=0, posterior=False)
    assert keeps(found.draws.known.x)
    assert keeps(found.answer.decision.x[None, :])


def test_the_proved_optimum_is_that_of_all_allowed_rows():
    x0 = TIED.encode_row(ROW)
    found = gbce.Explainer(FOREST, DATA, space=TIED, policy=None).explain(
        ROW, 1, rules=[gbce.Nearest(prove=True)], seed=0, posterior=False
    )
    low, high = TIED.limits(x0)
    every = np.array(list(product([0.0, 1.0], [1.0], np.arange(low[2], high[2] + 1), np.arange(low[3], high[3] + 1))))
    cost = (TIED.change(every, x0) / TIED.scale).sum(axis=1)
    best = cost[FOREST.predict(TIED.decode(every)) == 1].min()
    decision = found.decisions[0]
    assert decision.proof is not None
    assert (TIED.change(decision.x[None, :], x0) / TIED.scale).sum() == pytest.approx(best)


def test_exact_shares_are_those_of_all_allowed_rows():
    prior = gbce.Gaussian()
    explainer = gbce.Explainer(FOREST, DATA, space=TIED, prior=prior, eta=2.0, policy=None)
    found = explainer.explain(ROW, 1, rules=[], seed=0)
    assert found.diagnostics["sampler"] == "ExactTrees"
    columns = column_distributions(prior.at(TIED, TIED.encode_row(ROW)))
    x = np.array(list(product(columns[0].values, [1.0], columns[1].values, columns[2].values)))
    log = np.add.outer(np.add.outer(columns[0].log_values, columns[1].log_values), columns[2].log_values).ravel()
    chance = FOREST.predict_proba(TIED.decode(x))[:, 1]
    weight = np.exp(log) * np.maximum(chance, 1e-300) ** 2.0
    expected = weight[chance >= 0.5].sum() / weight.sum()
    assert found.distribution["success_probability"] == pytest.approx(expected, abs=1e-6)


def test_questions_and_files_keep_transitions(tmp_path):
    explainer = gbce.Explainer(FOREST, DATA, space=TIED, eta=4.0)
    found = explainer.explain(ROW, 1, rules=["Nearest"], seed=0)
    with pytest.raises(ValueError, match=r"a transition from 'married' to it is forbidden; .* 'divorced', 'married'"):
        explainer.given(found, exactly={"status": "single"})
    again = gbce.load(found.save(tmp_path / "one.gbce"))
    assert again.space.features == TIED.features
    assert explainer.given(found, exactly={"status": "divorced"}).draws.pool.x[:, 0].tolist().count(0.0) > 0
