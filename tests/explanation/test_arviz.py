"""The export to ArviZ is accepted by its own functions, and says what the draws say."""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gbce

arviz_stats = pytest.importorskip("arviz_stats")
arviz_plots = pytest.importorskip("arviz_plots")

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=["age", "bmi", "loss"])
SPACE = gbce.Space.infer(FRAME, immutable=["age"])
SAMPLERS = {
    "importance": gbce.Importance(4_000, 500),
    "smc": gbce.SMC(4_000, 800),
    "chains": gbce.Chains(40, 40, start=gbce.SMC(4_000, 800), n_draws=800),
}


@pytest.fixture(scope="module", params=SAMPLERS)
def explanation(request):
    explainer = gbce.Explainer(lambda f: f.sum(axis=1), FRAME, space=SPACE, sampler=SAMPLERS[request.param])
    wish = gbce.Value(FRAME.iloc[0].sum() + 2.5, scale=0.3)  # two columns, each free by one: rare, not out of reach
    return explainer.explain(FRAME.iloc[0], wish, rules=[], seed=0)


def test_summary_has_the_posterior_by_feature(explanation):
    tree = explanation.to_arviz()
    assert set(tree["posterior"].data_vars) == {"bmi", "loss", "loss_", "cost", "distance"}
    assert set(tree["sample_stats"].data_vars) == {"lp", "success"}
    table = arviz_stats.summary(tree)
    mean = explanation.draws.mean(explanation.draws.pool.x)
    error = explanation.draws.standard_error(explanation.draws.pool.x - mean)
    for j, name in ((1, "bmi"), (2, "loss")):
        chains = tree["posterior"][name].mean("draw").to_numpy()
        own = chains.std() / np.sqrt(len(chains)) if len(chains) > 1 else 0.0
        assert abs(float(table.loc[name, "mean"]) - mean[j]) < 4 * np.hypot(error[j], own) + 0.01
    assert tree.attrs["sampling"] == explanation.diagnostics["sampling_note"]
    assert tree.attrs["eta"] == explanation.eta


def test_chains_are_the_independent_runs(explanation):
    groups = explanation.draws.groups
    expected = 1 if groups is None else len(np.unique(groups))
    assert explanation.to_arviz()["posterior"].sizes["chain"] == expected
    again = explanation.to_arviz()["posterior"]["bmi"]
    np.testing.assert_array_equal(again, explanation.to_arviz()["posterior"]["bmi"])


@pytest.mark.parametrize("draw", ["plot_dist", "plot_trace", "plot_forest"])
def test_pictures_accept_it(explanation, draw):
    getattr(arviz_plots, draw)(explanation.to_arviz(), var_names=["bmi", "distance"], backend="matplotlib")
    plt.close("all")


def test_a_missing_extra_is_named(explanation, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r"pip install 'gbce\[arviz\]'"):
        explanation.to_arviz()
