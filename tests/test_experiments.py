"""The reproduction, end to end in its fast mode, with figures checked against quadrature."""

import re

import numpy as np
import pandas as pd
import pytest

import gbce
from exact import Grid, gaussian_log_prior, midpoints
from experiments import claims, items, output, real, simulated, standin
from experiments.__main__ import main
from experiments.base_points import BASE_POINTS, figures_at
from experiments.data import simulated as simulated_data
from experiments.models import fixed
from experiments.settings import REAL_10D, SIMULATED_2D, SIMULATED_10D
from experiments.tables_of_the_paper import DISTRIBUTION, IMPORTANCE, POINTWISE
from laws import close


@pytest.fixture(scope="module")
def two():
    data = simulated_data(2)
    return simulated.case(2, fixed(data.X, data.y))


@pytest.fixture(scope="module")
def quadrature(two):
    """The posterior of the fitted model on a fine grid."""
    axes = [midpoints(c - 5, c + 5, 700) for c in two.x0]
    outputs = {}

    def potential(x):
        outputs["f"] = two.board.best.model.predict(x)
        return np.square(outputs["f"] - two.data.y_star)

    return Grid.of(axes, gaussian_log_prior(two.x0, np.eye(2)), potential), outputs


def test_distributional_figures_agree_with_quadrature_of_the_fitted_model(two, quadrature):
    grid, outputs = quadrature
    loss = np.square(outputs["f"] - two.data.y_star)
    runs = simulated.run(two, n_seeds=6, n_jobs=1)
    table = runs.gibbs.distribution
    exact = {
        "success_probability": grid.mean((loss <= 0.25).astype(float)),
        "tail": grid.quantile(loss, 0.9),
        "stability": grid.stability,
    }
    for name, value in exact.items():
        close(table[name].mean(), value, np.sqrt(np.square(table[f"{name}_se"]).mean() / 6), name)
    change = runs.gibbs.importance
    for j, name in enumerate(("x1", "x2")):
        one = change.xs(name, level="feature")
        close(one["change"].mean(), grid.importance(two.x0)[j], np.sqrt(np.square(one["se"]).mean() / 6), name)
    # Table 1 within ten percent (SP, Stability, both VarImp)
    sp, _, spread = DISTRIBUTION[2]["Gibbs"]
    assert exact["success_probability"] == pytest.approx(sp, rel=0.1)
    assert exact["stability"] == pytest.approx(spread, rel=0.1)
    np.testing.assert_allclose(grid.importance(two.x0), IMPORTANCE[2]["Gibbs"], rtol=0.1)


def test_base_points_fit_the_papers_figures_under_the_true_function():
    for d, setting in ((2, SIMULATED_2D), (10, SIMULATED_10D)):
        z = np.random.default_rng(0).standard_normal((100_000, d))
        figures = figures_at(simulated_data(d), setting, np.array(BASE_POINTS[d]), z)
        np.testing.assert_allclose(figures[:3], DISTRIBUTION[d]["Gibbs"], rtol=0.1)
        np.testing.assert_allclose(figures[3 : 3 + d], IMPORTANCE[d]["Gibbs"], rtol=0.1)
        assert figures[-1] == pytest.approx(POINTWISE[d]["Gibbs", "Mean"][1], rel=0.2)


def test_fast_mode_runs_end_to_end(tmp_path, capsys):
    """Every table and figure from one command, at a size that suits a test."""
    code = main(["all", "--fast", "--seeds", "2", "--every", "40", "--jobs", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert code == 0
    for name in items.ITEMS:
        assert (tmp_path / f"{name}.txt").exists(), name
    for name in ("fig1", "fig2", "fig3", "fig3b"):
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    for name in ("real2d", "real10d", "real-varimp", "claims", "leaderboard"):
        assert "SYNTHETIC" in (tmp_path / f"{name}.txt").read_text(), name
    assert "0.443" in printed  # the paper's own numbers stand beside ours
    verdicts = pd.read_csv(tmp_path / "claims.csv")["verdict"]
    assert verdicts.str.startswith(("reproduced", "not reproduced", "within noise")).all()
    page = (tmp_path / "paper.md").read_text()
    assert page.count("\n## ") >= 12
    assert main(["page", "--out", str(tmp_path), "--docs", str(tmp_path / "docs")]) == 0
    assert (tmp_path / "docs" / "paper.md").read_text() == page
    for link in re.findall(r"\]\((img/paper/.*?)\)", page):
        assert (tmp_path / "docs" / link).exists()
    assert not list(tmp_path.glob(".*part"))


def test_own_downloads_take_the_place_of_the_stand_in(tmp_path, capsys):
    standin.write_exports(tmp_path / "mine")
    pattern = str(tmp_path / "mine" / "en" / "*.csv")
    assert main(["real2d", "--fast", "--every", "60", "--jobs", "1", "--data", pattern, "--out", str(tmp_path)]) == 0
    assert "note: " in capsys.readouterr().out  # what the reader has to say about the files
    table = (tmp_path / "real2d.txt").read_text()
    assert "your data" in table
    assert "SYNTHETIC" not in table


def test_unknown_names_and_pairs_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["table9"])
    assert "unknown name 'table9'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"--pair names \['Nope'\]"):
        main(["real2d", "--fast", "--pair", "Jump", "Nope", "--out", str(tmp_path)])


def test_verdicts_follow_the_share_of_runs():
    def verdict(share):
        return claims.Claim("c", "p", np.arange(100) < 100 * share, "s").verdict

    assert verdict(1.0) == verdict(0.95) == "reproduced"
    assert verdict(0.0) == verdict(0.05) == "not reproduced"
    assert verdict(0.6) == "within noise: holds in 60% of runs"


def test_tables_stand_beside_the_papers_lines():
    columns = pd.MultiIndex.from_product([["SP"], ["paper", "run", "mean", "SD"]])
    table = pd.DataFrame([[0.4, 0.5, 0.45, 0.01]], index=pd.Index(["Gibbs"], name="method"), columns=columns)
    shown = output.beside_the_paper(table)
    assert shown["SP"].to_list() == ["0.400", "0.500", "0.450 ± 0.010"]
    page = output.markdown(shown).splitlines()
    assert page[0] == "| method | source | SP |"
    assert page[2] == "| Gibbs | paper | 0.400 |"
    assert page[3] == "|  | one run | 0.500 |"


def test_real_tables_are_means_over_base_points():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 100, size=(60, 3)), columns=["a", "b", "c"])
    y = pd.Series(0.3 * X["a"] + rng.normal(size=60))
    case = real.real_case(X, y, fixed(X.to_numpy(), y.to_numpy()), label="made up")
    assert case.setting is REAL_10D
    small = gbce.Importance(500, 100)
    explainer = case.explainer(1)
    explainer.sampler = small
    rows = case.base_points
    assert (case.board.best.model.predict(rows.to_numpy()) < np.quantile(y, 0.9)).all()
    rules = case.setting.rules
    table = explainer.explain_many(rows.iloc[:4].to_numpy(), case.setting.target(case.y_star), rules=rules, seed=0,
                                   progress=False)  # fmt: skip
    frame = real.mean_and_sd(case, simulated.Runs(table, table))
    loss = table.pointwise.xs("Mean", level="rule")["loss"]
    assert frame.loc[("Gibbs", "Mean", "made up"), "L_pt"] == f"{loss.mean():.3f} ± {loss.std():.3f}"
    assert frame.loc[("Gibbs", "Mean", "paper"), "SP"] == "1.000 ± 0.000"
