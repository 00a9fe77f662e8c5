"""z values against hand computation, verdicts, contrary orders, and sentences that follow their tables."""

import math

import numpy as np
import pandas as pd
import pytest

from experiments import sentences
from experiments.claims import Claim, claims_frame, eta_claims, real_claims, simulated_claims
from experiments.figures import EtaPath
from experiments.numbers import against_the_paper, beyond, eta_numbers, is_fitted, paper_numbers, z_value
from experiments.orders import orders, resampled

KEY = ("Gibbs", "posterior", "SP")


def test_z_is_the_gap_over_the_sd_of_one_run():
    """By hand. Seeds: mean 2, SD 1. Refits: means 2 and 4, variance within (2 + 2) / 3, between 2 - 5/9, SD 5/3."""
    fits = [pd.DataFrame({KEY: values}) for values in ([1.0, 2.0, 3.0], [3.0, 5.0])]
    (line,) = against_the_paper(pd.Series({KEY: 4.0}), fits).to_dict("records")
    assert (line["paper"], line["run"], line["mean"], line["SD"], line["z"]) == (4.0, 1.0, 2.0, 1.0, -2.0)
    assert line["mean, refits"] == pytest.approx(3.0)
    assert line["SD, refits"] == pytest.approx(5 / 3)
    assert line["z, refits"] == pytest.approx(-0.6)
    assert line["fitted"]


def test_models_that_do_not_differ_add_nothing_to_the_sd():
    fits = [pd.DataFrame({KEY: values}) for values in ([1.0, 3.0], [0.0, 4.0])]  # means 2 and 2
    (line,) = against_the_paper(pd.Series({KEY: 2.0}), fits).to_dict("records")
    assert line["SD, refits"] == pytest.approx(math.sqrt((2 + 8) / 2))


def test_without_spread_only_the_printed_digits_count():
    assert z_value(0.0004, 0.0, 0.0) == 0.0
    assert z_value(0.1, 0.0, 0.0) == math.inf
    assert z_value(0.0, 0.1, 0.0) == -math.inf
    assert beyond(pd.Series([0.0, -2.5, 3.5, math.inf, 2.0])) == {"numbers": 5, "beyond 2 SD": 3, "beyond 3 SD": 2}


def test_every_number_of_the_simulated_tables_is_there_and_the_fitted_ones_are_known():
    numbers = pd.concat([paper_numbers(2), paper_numbers(10)])
    assert len(numbers) == 92
    assert sum(is_fitted(key) for key in numbers.index) == 3 + 2 + 3 + 3 + 10 + 3
    assert paper_numbers(10)["Gibbs", "Mean", "Plu"] == 2.2121
    assert not is_fitted(("ModelUnc", "posterior", "SP"))
    assert len(paper_numbers(2, real=True)) == 24 + 6 + 4


def test_numbers_of_the_figures_have_the_sd_of_a_mean_of_base_points():
    etas = [k / 3 for k in range(7)]
    index = pd.MultiIndex.from_product([range(4), etas], names=["row", "eta"])
    values = np.repeat([1.0, 2.0, 3.0, 4.0], 7)
    whole = pd.DataFrame({"success_probability": values, "stability": values}, index=index)
    table = eta_numbers(whole, pd.DataFrame({"MAP": values, "Mean": values}, index=index))
    assert len(table) == 8
    assert table.loc[("stability", 0.333), "SD"] == pytest.approx(np.sqrt(5 / 3) / 2)
    assert table.loc[("stability", 0.333), "z"] == pytest.approx((2.5 - 1.71) / (np.sqrt(5 / 3) / 2))


def test_verdicts_follow_the_share_of_runs():
    def verdict(share, **options):
        return Claim("c", "p", np.arange(100) < 100 * share, "s", **options).verdict

    assert verdict(1.0) == verdict(0.95) == "reproduced"
    assert verdict(0.0) == verdict(0.05) == "not reproduced"
    assert verdict(0.6) == "within noise: holds in 60% of runs"
    there = {"where": "the stand-in", "each": "resample"}
    assert verdict(1.0, **there) == "same shape on the stand-in"
    assert verdict(0.0, **there) == "another shape on the stand-in"
    assert verdict(0.6, **there) == "within noise: holds in 60% of resamples"


def test_one_boolean_is_one_check_and_no_share_of_runs():
    assert Claim("c", "p", np.array([True]), "s", each="check").verdict == "holds (one check)"
    assert Claim("c", "p", np.array([False]), "s", each="check").verdict == "does not hold (one check)"
    for claim in _every_claim():
        assert (len(claim.holds) == 1) == (claim.each == "check"), claim.text


def _every_claim(flip=1.0):
    """All claims on made-up runs: the paper's own numbers, or their negatives."""
    papers = {d: paper_numbers(d) for d in (2, 10)}
    runs = {d: flip * pd.DataFrame([papers[d]] * 3) for d in papers}
    index = pd.MultiIndex.from_product([range(2), [k / 3 for k in range(7)]], names=["row", "eta"])
    falling = np.tile(np.linspace(1, 0, 7), 2)
    path = EtaPath(pd.DataFrame({"success_probability": -falling, "stability": falling}, index=index),
                   pd.DataFrame({"MAP": falling, "Mean": falling, "CVaR": falling}, index=index))  # fmt: skip
    there = {d: paper_numbers(d, real=True) for d in (2, 10)}
    real = [real_claims(d, there[d], flip * pd.DataFrame([there[d]] * 3), "the stand-in") for d in there]
    return [*simulated_claims(papers, runs), *eta_claims(path), *real[0], *real[1]]


def test_the_papers_own_numbers_fulfil_its_claims_and_their_negatives_do_not():
    for claim in _every_claim():
        if claim.each != "check":
            assert claim.holds.all(), claim.text
            assert claim.verdict in ("reproduced", "same shape on the stand-in")
    for claim in _every_claim(flip=-1.0):
        if " < " in claim.paper:
            assert not claim.holds.any(), claim.text


def test_claims_about_fitted_numbers_are_marked():
    circular = claims_frame(_every_claim())["circular"]
    assert circular["2-D: Mean is nearest to the base point"] == "partly"
    assert circular["2-D: x2 moves more than x1 (VarImp)"] == "yes"
    assert circular["10-D: x2 moves most (VarImp)"] == "yes"
    assert circular["SP is higher in 10-D than in 2-D"] == "yes"
    assert circular["10-D: ModelUnc has the heavier tail"] == "partly"
    assert circular["2-D: CVaR is farther away than MAP"] == "no"
    assert (circular[circular.index.str.startswith(("real", "Figure"))] == "no").all()


def test_an_order_that_is_opposite_here_has_its_line():
    """The paper's real 2-D losses of ModelUnc: MAP 7.1 below Mean 47.3; here the other way round."""
    mean, mode = ("ModelUnc", "Mean", "L_pt"), ("ModelUnc", "MAP", "L_pt")
    paper = pd.Series({mean: 47.255, mode: 7.115, ("ModelUnc", "CVaR", "L_pt"): 10.786, ("Gibbs", "MAP", "Rb"): 0.5})
    rng = np.random.default_rng(0)
    here = pd.DataFrame({mean: 35.9, mode: 45.4, ("ModelUnc", "CVaR", "L_pt"): 40.0, ("Gibbs", "MAP", "Rb"): 0.1},
                        index=range(100)) + rng.normal(scale=0.1, size=(100, 1))  # fmt: skip
    table = orders(paper, resampled(here))
    assert len(table) == 3
    line = table.loc[("L_pt", "ModelUnc MAP", "ModelUnc Mean")]
    assert (line["order"], line["opposite"]) == ("contrary", 1.0)
    assert line["here, smaller"] - line["here, larger"] == pytest.approx(45.4 - 35.9)
    same = table.loc[("L_pt", "ModelUnc CVaR", "ModelUnc Mean"), "order"]
    assert same == "contrary"  # 40.0 lies above 35.9, too
    assert table.loc[("L_pt", "ModelUnc MAP", "ModelUnc CVaR"), "order"] == "contrary"
    assert set(orders(paper, pd.DataFrame([paper] * 5))["order"]) == {"same"}


def test_resamples_are_means_over_the_same_base_points_in_every_column():
    values = np.random.default_rng(1).normal(size=50)
    drawn = resampled(pd.DataFrame({"a": values, "b": values + 1.0}))
    np.testing.assert_allclose(drawn["b"], drawn["a"] + 1.0)
    assert drawn["a"].mean() == pytest.approx(values.mean())  # what a claim shows is what the table shows
    assert drawn["a"].std() == pytest.approx(values.std() / np.sqrt(50), rel=0.15)  # 1,000 resamples: 2.2% each SD


def test_sentences_say_what_the_tables_say():
    claims = claims_frame(_every_claim()).reset_index()
    said = sentences.claims_on_simulated_data({"claims": claims})
    assert "Of 24 claims about a single run, 24 are reproduced, 0 not reproduced, 0 within noise." in said
    circular = int((claims["circular"] != "no").sum())
    assert f"For {circular} of those reproduced the base point was fitted" in said
    assert circular > 0
    contrary = claims_frame(_every_claim(flip=-1.0)).reset_index()
    said = sentences.claims_on_simulated_data({"claims": contrary})
    assert "2 are reproduced, 22 not reproduced, 0 within noise." in said  # negatives are "at most" what is asked, too
    assert "Not reproduced: 2-D: Mean is nearest to the base point (" in said

    clues = pd.DataFrame({"data": ["10-D"] * 2, "clue": ["SP", "Plu of Mean"], "paper": [0.601, 2.212],
                          "base point": [0.6, 1.803], "error": [0.013, 0.049], "gap": [-0.1, -8.3]})  # fmt: skip
    said = sentences.base_points({"clues": clues})
    assert "off by more than 2: Plu of Mean (1.803, paper 2.212)." in said
    assert "the 2 clues are met to within 5.87 standard errors" in said
    assert "off by more than 2: none." in sentences.base_points({"clues": clues.assign(gap=0.0)})

    count = {"numbers of": ["Tables"], "which": ["all"], "numbers": [92], "a": [30], "b": [20], "c": [9.0], "d": [4.0]}
    number = {"data": "10-D", "method": "Gibbs", "rule": "posterior", "figure": "Tail", "paper": 1.413,
              "mean, refits": 1.9, "z, refits": 4.2}  # fmt: skip
    tables = {name: pd.DataFrame([number]) for name in ("table1", "table1-posterior", "table2", "table2-posterior")}
    said = sentences.numbers({"counts": pd.DataFrame(count), **tables, "varimp": pd.DataFrame([number])})
    assert "Tables: 30 of 92 differ by more than 2 SD, 20 by more than 3 (with refits: 9 and 4)." in said
    assert "10-D Gibbs Tail (here 1.900, paper 1.413, z +4.2)" in said
