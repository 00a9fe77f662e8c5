"""Figures against their definitions, on draws small enough to check by hand."""

import numpy as np
import pytest

import gbce
from gbce._numerics import share_and_error
from gbce.draws import Draws, SamplerInfo
from gbce.metrics import POINT_FIGURES, Diagnosis, Neighbours, PointFigure, Verdict, success_probability
from gbce.posterior import Mixture
from gbce.samplers._chains import ChainsInfo
from gbce.samplers._importance import SMCInfo
from support.scenes import points, scene_of

DATA = np.random.default_rng(0).normal(size=(60, 2))
SPACE = gbce.Space.real(2, scale=[0.5, 20.0])


@pytest.fixture(scope="module")
def explanation():
    """Two models that disagree, in a space whose units differ."""
    models = [lambda x: x[:, 0], lambda x: 0.05 * x[:, 1]]
    explainer = gbce.Explainer(models, DATA, space=SPACE, sampler=gbce.Importance(2_000, 501))
    return explainer.explain(DATA[0], gbce.AtLeast(0.8, scale=1), rules=[], seed=0)


def test_each_models_figures_stand_under_its_name(explanation):
    table, draws = explanation.distribution, explanation.draws
    for k, name in enumerate(explanation.models):
        assert table[f"success_probability[{name}]"] == pytest.approx(draws.reached[:, k].mean())
        assert table[f"tail[{name}]"] == np.quantile(draws.loss[:, k], 0.9, method="inverted_cdf")
    assert table["success_probability[half]"] == pytest.approx(draws.reached.any(axis=1).mean())


def test_distance_and_stability_are_in_each_features_scale(explanation):
    u = (explanation.draws.x - explanation.x0) / SPACE.scale
    assert explanation.distribution["expected_distance"] == pytest.approx(np.linalg.norm(u, axis=1).mean())
    assert explanation.distribution["stability"] == pytest.approx(np.trace(np.cov(u.T)))


def test_importance_ratio_is_change_over_prior(explanation):
    table = explanation.importance
    np.testing.assert_allclose(table["ratio"], table["change"] / table["prior"])


def test_a_figure_in_the_list_is_in_tables_files_batches_and_summaries(monkeypatch, tmp_path):
    def count_changes(query, posterior, x, neighbours):
        return query.space.changed(x, query.x0).sum(axis=1).astype(float), None

    explainer = gbce.Explainer(lambda x: x[:, 0], DATA, sampler=gbce.Importance(500, 100))
    options = {"target": gbce.AtLeast(0.8), "rules": [gbce.Mean()], "seed": 0}
    before = explainer.explain(DATA[0], **options)
    figures = (*POINT_FIGURES, PointFigure("sparsity", "number of changed features", count_changes))
    for module in ("metrics._pointwise", "report"):
        monkeypatch.setattr(f"gbce.{module}.POINT_FIGURES", figures)
    explanation = explainer.explain(DATA[0], **options)
    assert explanation.pointwise.loc["Mean", "sparsity"] == 2
    assert "sparsity: number of changed features" in " ".join(explanation.summary().split())
    assert gbce.load(explanation.save(tmp_path / "new")).pointwise.equals(explanation.pointwise)
    assert np.isnan(gbce.load(before.save(tmp_path / "old")).pointwise.loc["Mean", "sparsity"])
    table = explainer.explain_many(DATA[:2], **options, progress=False)
    assert table.pointwise["sparsity"].tolist() == [2, 2]
    assert "sparsity" in table.summary()


def test_error_of_a_share():
    share, se = share_and_error(np.array([0.3, 0.0, 1.0]), 200)
    np.testing.assert_allclose(se, np.sqrt([0.3 * 0.7 / 200, *[2 / 204 * (202 / 204) / 204] * 2]))
    np.testing.assert_array_equal(share, [0.3, 0.0, 1.0])


def test_certain_success_of_few_effective_draws_is_not_certain():
    x = np.zeros((1000, 1))
    loss = np.r_[np.zeros(10), np.full(990, 50.0)][:, None]  # ten points carry everything
    prior = gbce.Gaussian().at(gbce.Space.real(1), np.zeros(1))
    pool = points(x, loss, prior)
    draws = Draws.weigh(pool, Mixture(1.0, np.ones(1)), prior).resample(np.random.default_rng(0), 5000)
    figure = success_probability(draws, loss[:, 0] == 0)
    assert figure.value == 1.0
    assert figure.se == pytest.approx(np.sqrt(2 * 12 / 14**3), rel=0.01)  # as of ten trials, not of 5,000


def test_plausibility_of_few_training_rows_takes_them_all():
    near = Neighbours.of(np.array([[0.0, 0.0], [0.0, 40.0]]), SPACE).plausibility(np.zeros((1, 2)), q=20)
    assert near == pytest.approx([1.0])


def test_distinct_draws_carry_the_weight_of_their_repetitions():
    where, weight = scene_of(np.eye(3), index=[2, 0, 2, 2]).draws.distinct
    np.testing.assert_array_equal(where, [0, 2])
    np.testing.assert_allclose(weight, [0.25, 0.75])


def test_pareto_k_sees_a_proposal_that_is_too_narrow():
    prior = gbce.DistancePrior(lambda x, row: np.abs(x - row).sum(axis=1), proposal=gbce.Gaussian(0.3))
    explainer = gbce.Explainer(
        lambda x: x[:, 0], DATA, space=gbce.Space.real(2), prior=prior, eta=0.0, sampler=gbce.Importance()
    )
    assert explainer.explain(DATA[0], gbce.AtLeast(1, scale=1), rules=[], seed=0).diagnostics["pareto_k"] > 0.7


@pytest.mark.parametrize(
    ("ess", "k", "start"),
    [
        (99, 0.1, "not sampled: only 99"),
        (5000, 0.9, "use with care, because few candidates carry"),
        (399, 0.1, "use with care, because there are only 399"),
        (400, 0.7, "trustworthy"),
    ],
)
def test_verdict_follows_the_numbers(ess, k, start):
    verdict, sentence = diagnosis(ess=float(ess), pareto_k=k).judge()
    assert sentence.startswith(start)
    assert isinstance(verdict, Verdict)
    assert start.startswith(verdict)


def diagnosis(**changed):
    """Diagnostics of a run without faults, but for what is changed."""
    ess = changed.get("ess", 5000.0)
    clean = {"info": SamplerInfo("Importance"), "ess": ess, "ess_worst": ess, "ess_worst_of": "x1", "pareto_k": 0.1,
             "n_draws": 2_000, "n_distinct": 1_900, "n_evaluated": 10_000, "log_evidence": -1.0,
             "log_evidence_se": 0.01, "free_energy": 1.0, "expected_potential": 0.5, "divergence_from_prior": 0.5,
             "rungs": (1.0,)}  # fmt: skip
    return Diagnosis(**clean | changed)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"info": SamplerInfo(complete=False), "rungs": (0.1, 0.25)}, "not finished: the budget ran out at eta = 0.25"),
        (
            {"info": SMCInfo(islands=8, sweeps=(3,)), "ess_worst": 50.0},
            "use with care, because the islands disagree on x1 (50 effective draws)",
        ),
        ({"log_evidence_se": 0.7}, "use with care, because the log evidence is uncertain by 0.7"),
        (
            {"info": ChainsInfo(r_hat=1.3, n_chains=9)},
            "use with care, because the chains have not mixed (R-hat 1.30)",
        ),
        ({"info": ChainsInfo(r_hat=1.01, n_chains=9)}, "trustworthy: 5,000 effective draws from 9 chains, R-hat 1.010"),
        ({"info": SMCInfo(islands=8, sweeps=(3, 4))}, "trustworthy: 5,000 effective draws from 8 islands over 2 rungs"),
    ],
)
def test_verdict_names_what_is_wrong(changed, sentence):
    assert diagnosis(**changed).judge().sentence.startswith(sentence)
