"""What a person sees: summaries and pictures say what the tables say."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.report import format_number


@pytest.fixture(scope="module")
def explanation():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=["a", "b <&>", "c"])
    space = gbce.Space.infer(frame, immutable=["c"])
    models = [lambda f: f["a"] + f["b <&>"], lambda f: f["a"] - 0.2 * f["b <&>"]]
    explainer = gbce.Explainer(models, frame, space=space, prior=gbce.Gaussian(), sampler=gbce.Importance(4_000, 500))
    return explainer.explain(frame.iloc[0], gbce.AtLeast(2.0), rules=[gbce.MAP(), gbce.Mean(), gbce.CVaR()], seed=0)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_summary_begins_with_the_answer_and_has_every_number(explanation):
    text = explanation.summary()
    assert " ".join(text.split()).startswith(explanation.answer.sentence)
    assert f"posterior {explanation.diagnostics['posterior_note']}" in " ".join(text.split())
    for label in explanation.pointwise.index:
        assert label in text
    assert format_number(explanation.pointwise.loc["MAP", "cost"]) in text
    assert format_number(explanation.distribution["success_probability"]) in text
    assert format_number(explanation.distribution["success_probability[all]"]) in text
    low = explanation.distribution["stability"] - 1.96 * explanation.distribution["stability_se"]
    assert format_number(low) in text
    assert max(map(len, text.splitlines())) <= 110
    assert "c  " not in text.split("What changes")[1].split("The posterior")[0].replace("vs prior", "")


def test_summary_gives_the_error_of_each_number_and_what_was_assumed(explanation):
    text = explanation.summary()
    change = explanation.importance.loc["a"]
    assert f"{format_number(change['change'])} ± {format_number(2 * change['se'])}" in text
    sp, se = explanation.distribution[["success_probability", "success_probability_se"]]
    assert f"{format_number(sp - 1.96 * se)} to {format_number(sp + 1.96 * se)}" in text
    assert "90% of draws stay below it" in text
    for model, output in zip(explanation.models, explanation.row.outputs[0], strict=True):
        assert f"{format_number(output)} ({model})" in text
    assert f"(missing it by {explanation.target.scale:.4g} counts as a loss of 1)" in text


def test_summary_shows_all_that_a_sparse_decision_changes():
    """Of thirty columns twelve are shown: those of decisions with few changes first, and a count of what is left."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 30)), columns=[f"col{j:02d}" for j in range(30)])
    weight = np.linspace(0.2, 1.0, 30)
    explainer = gbce.Explainer(
        lambda f: f.to_numpy() @ weight, frame, prior=gbce.Sparse(change=0.1), sampler=gbce.Importance(4_000, 500)
    )
    explanation = explainer.explain(frame.iloc[0], gbce.Change(3.0), rules=[gbce.MAP(), gbce.Mean()], seed=0)
    changes = explanation.changes()
    few = set(changes["feature"][changes["rule"] == "MAP"])
    table = explanation.summary().split("Decisions")[1].split("What changes")[0]
    shown = {name for name in frame.columns if name in table}
    assert few <= shown
    assert len(shown) == 12
    further = (~changes["feature"][changes["rule"] == "Mean"].isin(shown)).sum()
    assert f" {further}\n" in table
    assert "further: how many other columns change" in " ".join(table.split())


def test_notebook_view_is_escaped_html(explanation):
    html = explanation._repr_html_()
    assert "b &lt;&amp;&gt;" in html
    assert "b <&>" not in html
    assert html.count("<table") == html.count("</table>") == 4


def test_repr_is_one_line(explanation):
    assert "\n" not in repr(explanation)
    assert "attainable" in repr(explanation)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12345, "0.1235"), (123.456, "123.5"), (1234567.0, "1,234,567"), (np.nan, "-"), (np.inf, "inf"),
     (-2.5e12, "-2.5e+12"), (-0.00001, "-1e-05"), (99999.6, "100,000")],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert format_number(value) == text


def test_posterior_picture_shows_draws_row_and_decisions(explanation):
    ax = explanation.plot.posterior()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b <&>")
    shown = np.vstack([c.get_offsets() for c in ax.collections if len(c.get_offsets()) > 1])
    np.testing.assert_allclose(np.sort(shown[:, 0]), np.sort(explanation.draws.x[:, 0]))
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    assert texts[-4:] == ["row", "MAP", "Mean", "CVaR"]
    other = explanation.plot.posterior(features=("c", "a"))
    assert other.get_xlabel() == "c"
    with pytest.raises(ValueError, match="two names"):
        explanation.plot.posterior(features=("a", "nope"))


def test_changes_picture_spans_the_intervals(explanation):
    _, mine = plt.subplots()
    ax = explanation.plot.changes(ax=mine, mass=0.5)
    assert ax is mine
    labels = [t.get_text().split("  ")[0] for t in ax.get_yticklabels()]
    assert labels == ["a", "b <&>"]
    bar = next(line for line in ax.lines if line.get_linewidth() == 5)
    interval = explanation.intervals(0.5).loc["a"]
    want = (interval[["low", "high"]] - interval["row"]) / explanation.space.scale[0]
    np.testing.assert_allclose(bar.get_xdata(), want)
    assert "50%" in ax.get_title(loc="left")


def test_pictures_do_not_clip_their_legend(explanation, tmp_path):
    for ax in (explanation.plot.posterior(), explanation.plot.changes()):
        ax.figure.savefig(tmp_path / "p.png")
        box = ax.get_legend().get_window_extent()
        assert box.x1 <= ax.figure.bbox.x1 + 1
        assert ax.figure.bbox.x0 - 1 <= ax.get_tightbbox().x0


def test_prior_in_the_picture_is_the_prior_and_not_its_proposal():
    data = np.random.default_rng(0).normal(size=(50, 2))
    prior = gbce.DistancePrior(lambda x, row: 0.5 * np.square(x - row).sum(axis=1), proposal=gbce.Laplace(1.5))
    explainer = gbce.Explainer(lambda x: x[:, 0], data, space=gbce.Space.real(2), prior=prior)
    ax = explainer.explain([0.0, 0.0], gbce.AtLeast(1), rules=[], seed=0).plot.changes()
    # a fifth of some 3,000 draws are of the prior: four errors of a 5% quantile of 600 are 0.2; the proposal has 6.9
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], 2 * 1.645, rtol=0.2)


def test_long_names_and_sets_leave_room_for_the_picture(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a" * 90, "b"])
    explainer = gbce.Explainer(lambda f: f["b"], frame, sampler=gbce.Importance(2_000, 300))
    rules = [gbce.DiverseSet(3), gbce.RandomDraw(2)]
    ax = explainer.explain(frame.iloc[0], gbce.AtLeast(1), rules=rules, seed=0).plot.changes()
    ax.figure.savefig(tmp_path / "p.png")
    assert ax.get_window_extent().width > 0.35 * ax.figure.bbox.width
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    assert texts == ["prior", "posterior", "the answer", "DiverseSet(k=3)", "RandomDraw(k=2)"]


def test_one_feature_is_sent_to_the_other_picture():
    data = np.random.default_rng(0).normal(size=(50, 1))
    explanation = gbce.Explainer(lambda x: x[:, 0], data).explain(data[0], gbce.AtLeast(1), rules=[], seed=0)
    with pytest.raises(ValueError, match=r"plot\.changes"):
        explanation.plot.posterior()
    assert len(explanation.plot.changes().get_yticklabels()) == 1
    assert "Decisions" not in explanation.summary()


HOSTILE = ("\x1b[31mred\x1b[0m", "two\nlines", r"$\frac{$", "a$b$c", "\u202eright to left", "tab\tbell\x07")


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, len(HOSTILE))), columns=list(HOSTILE))
    level = "\x1b]0;title\x07 $\\bad{$"
    frame[level] = rng.choice([level, "plain"], size=80)
    space = gbce.Space.infer(frame, constraints=[lambda rows: rows[HOSTILE[0]] < 9.0])

    def first(rows):
        return rows[HOSTILE[0]] + rows[HOSTILE[1]] + (rows[level] == level)

    def second(rows):
        return rows[HOSTILE[0]] - rows[HOSTILE[1]]

    first.__name__, second.__name__ = "\x1b[1mbold", "$\\alpha{$"
    explainer = gbce.Explainer([first, second], frame, space=space, sampler=gbce.Importance(2_000, 200))
    return explainer.explain(frame.iloc[0], gbce.AtLeast(2.0), rules=[gbce.MAP(), gbce.Mean()], seed=0)


def test_control_characters_in_names_are_written_out_not_obeyed(hostile):
    for text in (
        hostile.summary(), repr(hostile), str(hostile.space), str(hostile.disagreement()), hostile._repr_html_()
    ):  # fmt: skip
        assert all(c.isprintable() or c == "\n" for c in text)
    assert r"\x1b[31mred" in hostile.summary()
    assert r"two\nlines" in hostile.summary()


def test_pictures_draw_names_as_they_are_and_start_no_formula(hostile):
    import io

    for name in HOSTILE:
        ax = hostile.plot.posterior(features=(HOSTILE[0], name))
        ax.figure.savefig(io.BytesIO())
    for ax in (hostile.plot.changes(), hostile.plot.frontier(), hostile.plot.posterior(hostile.space.names[-2:])):
        ax.figure.savefig(io.BytesIO())  # an unbalanced formula fails here
    drawn = {text.get_text() for text in hostile.plot.changes().get_yticklabels()}
    assert any(text.startswith(r"a\$b\$c") for text in drawn)  # matplotlib's way to write a dollar
